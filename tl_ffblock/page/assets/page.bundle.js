/* sources 59e1d27a5ac74f8da02df0b1f9111a346e3a651eda73a20014535dda16574f13 */
"use strict";
"use strict";(()=>{function ct(t){if(t==null||Number.isNaN(t))return"–";let e=Math.abs(t);return e!==0&&(e<.001||e>=1e5)?t.toExponential(
1).replaceAll("-","−"):String(Number(t.toPrecision(3))).replaceAll("-","−")}function de(t){return t==null?"–":`${t>
0?"+":""}${ct(t)}`}function Vl(t){return t>.995&&t<1?"99 %":`${Math.round(100*t)} %`}var Un="Sums in the cards include h\
idden edges.";function Kn(t,e,n,o){let r=t.edges.length-n.length,s=t.targets.length?"the absolute attributions that can \
be hidden":"the sizes of all edges that can be hidden",a=r?`, and ${r} that are always shown`:"";return`${o} of the page\
's ${n.length} edges${a}: ${Vl(e.carried)} of ${s}.`}function Gn(t){return`${t.token?`${t.name}: ${t.token}`:t.name} = ${ct(
t.value)}`}function He(t){return Array.from(new Intl.Segmenter().segment(t),e=>e.segment)}function Yn(t){let e=[];return t.forEach(
(n,o)=>{o&&n===t[o-1]?e[e.length-1].push(o):e.push([o])}),e}function Ul(t){return t.length===1?t[0]:t.map((e,n)=>n?e.replace(
/^##/,""):e).join("")}function Qr(t,e){let n=e?Yn(t.words):t.words.map((a,i)=>[i]),o=[];n.forEach((a,i)=>a.forEach(l=>{o[l]=
i}));let r=[];t.queries.forEach((a,i)=>{let l=r.find(u=>u.own===o[a]);l?l.members.push(i):r.push({own:o[a],members:[i],position:a})});
let s=r.map(a=>a.own);return{columns:n.map(a=>({members:a,position:a[0]})),rows:r,own:s,columnOf:o,nRows:r.length,nColumns:n.
length,reaches:(a,i)=>!t.causal||i<=s[a],rowOf:a=>s.indexOf(o[a]),labels:a=>n.map(i=>Ul(i.map(l=>a[l])))}}function Wt(t,e){
return t.named?"":`position ${e}`}function De(t,e,n){return t.named?"":`from ${Wt(t,e)} to ${Wt(t,n)}`}function te(t,e){
return t.named?"":e}function Xn(t,e){return Math.max(0,t.segments.filter(([,n])=>n<=e).length-1)}function ts(t,e){return t.
map((n,o)=>n===e[o]?n:`${n}→${e[o]}`)}function me(t,e,n){let o=new Float32Array(t.nRows*t.nColumns).fill(NaN);return t.
rows.forEach((r,s)=>t.columns.forEach((a,i)=>{let[l,u]=[0,!1];for(let c of r.members)for(let f of a.members){let d=e[c*n+
f];Number.isNaN(d)||(l+=d,u=!0)}u&&(o[s*t.nColumns+i]=l/r.members.length)})),o}function es(t,e){return Float32Array.from(
t.rows,n=>n.members.reduce((o,r)=>o+e[r],0)/n.members.length)}var ge="http://www.w3.org/2000/svg",ee="system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sa\
ns-serif";function k(t,e={},n=[]){let o=document.createElementNS(ge,t);for(let[r,s]of Object.entries(e))o.setAttribute(r,
s);return o.append(...n),o}function R(t,e,n,o,r){return k("rect",{x:t,y:e,width:Math.max(0,n),height:Math.max(0,o),fill:r,
"shape-rendering":"crispEdges"})}function O(t,e,n,o={}){return k("text",{x:e,y:n,"font-size":12,...o},[t])}function bt(t,e,n,o){
return O(t,e,n,{transform:`rotate(-90 ${e} ${n})`,...o})}function p(t,e={},n=[]){let o=Object.assign(document.createElement(
t),e);return o.append(...n),o}function U(t,e){t.textContent!==e&&(t.textContent=e)}function we(t,e,n){t.style.backgroundColor=
e?e.hex:"",t.style.color=e?e.readable:"",t.style.boxShadow=n?`inset 0 -4px ${n.hex}`:""}function qe(t,e,n,o){let r=p("li",
{className:"chip",title:n},[p("bdi",{textContent:t}),p("span",{textContent:e})]);return we(r,o,null),r.classList.toggle(
"negative",e.startsWith("−")),r}function w(t){return document.getElementById(t)}var ns=document.createElement("canvas").
getContext("2d"),Kl=2e4,pe=new Map;function z(t,e){let n=`${e} ${t}`;return pe.has(n)||(pe.size>Kl&&pe.clear(),ns.font=`${e}\
px ${ee}`,pe.set(n,ns.measureText(t).width)),pe.get(n)}function H(t,e,n){if(z(t,e)<=n)return t;let o=He(t.slice(0,400));
for(;o.length>1&&z(o.join("")+"…",e)>n;)o.pop();return o.join("")+"…"}function Ve(t,e,n){let o=[""];for(let r of t.split(
" ")){let s=o[o.length-1]?`${o[o.length-1]} ${r}`:r;o[o.length-1]&&z(s,e)>n?o.push(r):o[o.length-1]=s}return o}function Pt(t,e){let n=p("tr");return t.forEach((o,r)=>{let s=p("td");if(r===0&&e){let a=p("button",{type:"button",className:"\
plain",textContent:o});a.addEventListener("click",e),s.append(a)}else s.textContent=o;n.append(s)}),n}function Gl(t){return t.
label&&t.label!==t.short?`${t.short} ${t.label}`:t.short}function os(t,e,n,o){let r=s=>Math.abs(s.shares[o]??0);return t.
edges.filter(s=>s[n]===e).sort((s,a)=>r(a)-r(s)||Math.abs(a.size)-Math.abs(s.size))}function rs(t,e,n,o,r,s){if(!n.length&&
!s.length)return[];let{data:a,target:i}=t,l=h=>a.targets.length?[de(h[i])]:[],u=p("tr",{},[p("th"),p("th",{textContent:"\
size"}),...a.targets.length?[p("th",{textContent:"share"})]:[]]),c=60,f=n.slice(0,c).map(h=>Pt([Gl(a.nodes[h[o]]),`${h.unit in
a.widths?"":`${h.unit} `}${ct(h.size)}`,...l(h.shares)],()=>r(h[o]))),d=n.length>c?[Pt([`and ${n.length-c} more`,"",""])]:
[];return[p("h3",{textContent:e}),p("table",{},[u,...f,...d,...s.map(({name:h,size:m,shares:g})=>Pt([h,m===null?"":ct(m),
...l(g)]))])]}function Yl(t,e){let{data:n,target:o}=t,r=e.facts.map(([s,a])=>Pt([s,ct(a)]));if(n.targets.length){let{token:s,
name:a,value:i}=n.targets[o];r.push(Pt([`share of ${a}`,`${de(e.shares[o])} of ${ct(i)}`])),s&&e.ranks[o]&&r.push(Pt([`r\
ank of ${s}`,String(e.ranks[o])]),Pt([`probability of ${s}`,ct(e.probabilities[o])]))}return p("table",{},r)}function ss(t,e,n){
let{data:o,target:r}=t;if(e===null)return[p("p",{className:"note",textContent:"Choose a node to see its tokens, inputs a\
nd outputs."})];let s=o.nodes[e],a=(s.own_shares[r]??0)!==0?[{name:"own contribution",size:null,shares:s.own_shares}]:[],
i=s.unseen?[{name:`not on this page${s.unseen>1?` (${s.unseen})`:""}`,size:null,shares:s.rest_shares}]:[],l=os(o,e,"targ\
et",r),u=s.says.length?[p("div",{className:"says"},s.says.map(c=>p("bdi",{textContent:c})))]:[];return[p("h2",{textContent:s.
name}),...u,Yl(t,s),...rs(t,"Inputs",l,"source",n,[...a,...i]),...rs(t,"Outputs",os(o,e,"source",r),"target",n,[])]}var Ue={width:76,widest:130,height:28,gap:4,apart:26,closest:10,lane:14,top:34,left:10,most:190};function is(t,e){let n=o=>t.
targets.length?Math.abs(o.weights[e]??0):o.unit in t.widths?o.size:0;return t.edges.map((o,r)=>({index:r,weight:n(o)})).
filter(({index:o})=>!t.edges[o].always).sort((o,r)=>r.weight-o.weight||o.index-r.index)}function ls(t,e,n,o){let r=new Set(
t.edges.flatMap((l,u)=>l.always?[u]:[]));for(let{index:l}of n.slice(0,o))r.add(l);let s=new Set;for(let l of r)s.add(t.edges[l].
source).add(t.edges[l].target);let a=l=>l.reduce((u,{weight:c})=>u+c,0),i=a(n);return{edges:r,nodes:s,carried:i?a(n.slice(
0,o))/i:1}}function as(t,e,n){let o=new Map,r=new Set;for(let d of e.nodes){let{column:h,lane:m}=t.nodes[d];r.add(h);let g=`${m}\
/${h}`;o.has(g)||o.set(g,[]),o.get(g).push(d)}let s=[...r].sort((d,h)=>d-h),a=Array.from({length:t.lanes},()=>0);for(let[
d,h]of o)a[Number(d.split("/")[0])]=Math.max(a[Number(d.split("/")[0])],h.length);let i=n.height+n.gap,l=[],u=n.top;for(let d of a)
l.push(u),d&&(u+=d*i+n.lane);let c=new Map;for(let[d,h]of o){let[m,g]=d.split("/").map(Number),b=l[m]+Math.min(n.most,(a[m]-
h.length)*i/2);h.sort((x,y)=>x-y).forEach((x,y)=>c.set(x,{x:n.left+s.indexOf(g)*(n.width+n.apart),y:b+y*i}))}let f=2*n.left+
s.length*(n.width+n.apart)-n.apart;return{places:c,columns:s.map((d,h)=>({title:t.columns[d],x:n.left+h*(n.width+n.apart)})),
width:f,height:u,size:n}}var Xl=.7;function cs(t,e,n,o){let r=new Set([...e.nodes].map(l=>t.nodes[l].column)).size-1,s=(o-
2*n.left-(r+1)*n.width)/Math.max(1,r),a=as(t,e,{...n,apart:Math.max(n.closest,Math.min(n.apart,s))}),i=Math.min(1,o/a.width);
return i<Xl?{layout:as(t,e,n),part:1}:{layout:a,part:i}}function us(t){let e={};for(let{unit:n,size:o}of t.edges)n in t.
widths&&(e[n]=Math.max(e[n]||0,Math.abs(o)));return e}function fs(t,e){return e[t.unit]?.8+9*Math.sqrt(Math.abs(t.size)/
e[t.unit]):1.1}function hs(t,e){let n=s=>s.map(a=>Math.abs(a.shares[e]??0)).filter(a=>a>0).sort((a,i)=>a-i),o=n(t.edges.
filter(s=>!s.always)),r=o.length?o:n(t.edges);return r.length?r[Math.min(r.length-1,Math.floor(.98*r.length))]:1}function Ke(t,e,n,o){let r=new Float32Array(e);for(let s=0;s<t.nRows;s++){let a=s*t.nColumns;for(let i of n)r[a+i]=NaN;o&&
(r[a+t.own[s]]=NaN)}return r}function Jn(t,e,n,o){let r=Ke(t,e,n,o==="others");if(o==="none")return r;let{nRows:s,nColumns:a}=t,
i=o==="column"?(u,c)=>c:u=>u,l=new Float64Array(o==="column"?a:s);for(let u=0,c=0;u<s;u++)for(let f=0;f<a;f++,c++)Number.
isNaN(r[c])||(l[i(u,f)]+=r[c]);for(let u=0,c=0;u<s;u++)for(let f=0;f<a;f++,c++)l[i(u,f)]>0&&(r[c]/=l[i(u,f)]);return r}function Qn(t,e,n){
let o=Ke(t,e,n,!1);return Float32Array.from(t.own,(r,s)=>{let a=0;for(let i=0;i<t.nColumns;i++)a+=o[s*t.nColumns+i]||0;return a>
0?o[s*t.nColumns+r]/a:NaN})}function Ge(t,e){let n=new Float32Array(t.length);for(let o=0;o<t.length;o++)n[o]=t[o]-e[o];
return n}function E(t){let e=0;for(let n of t)Math.abs(n)>e&&(e=Math.abs(n));return e}function Zn(t,e,n,o=0){let r=new Float32Array(
e.length),s=0;for(let a=0,i=0;a<t.nRows;a++){let l=s;for(let u=0;u<t.nColumns;u++,i++)!Number.isNaN(e[i])&&(n||t.own[a]!==
u)&&(r[s++]=Math.abs(e[i]));s-l<o&&(s=l)}return r.subarray(0,s)}function be(t,e){let[n,o]=[0,t.length-1];for(;n<o;){let r=t[n+
o>>1],[s,a]=[n,o];for(;s<=a;){for(;t[s]<r;)s++;for(;t[a]>r;)a--;if(s>a)break;[t[s],t[a]]=[t[a],t[s]],s++,a--}if(e<=a)o=a;else if(e>=
s)n=s;else break}return t[e]}var ne=20,Zl=3;function Lt(t,e,n,o=!1){let r=n==="all",s=o&&!r?Zn(t,e,!1,Zl):[],a=s.length?
s:Zn(t,e,r),i=a.length?a:Zn(t,e,!0);return n!=="percentile"?E(i):be(i,Math.floor(.99*(i.length-1)))||E(i)}function Bt(t,e,n){
let o=e>0?Math.min(1,Math.abs(t)/e):0;return n?Math.sqrt(o):o}function ds(t,e,[n,o,r,s],a,i){let l=new Float32Array(a*i).
fill(NaN),[u,c]=[o-n+1,s-r+1];if(u===i&&c===a){for(let m=0;m<u;m++)l.set(t.subarray((n+m)*e+r,(n+m)*e+s+1),m*c);return l}
let f=(m,g)=>Array.from({length:m},(b,x)=>{let y=Math.floor(x*g/m);return[y,Math.max(y+1,Math.floor((x+1)*g/m))]}),[d,h]=[
f(u,i),f(c,a)];for(let m=0;m<u;m++)for(let g=0;g<c;g++){let b=t[(n+m)*e+r+g];if(!Number.isNaN(b))for(let x=d[m][0];x<d[m][1];x++)
for(let y=h[g][0];y<h[g][1];y++){let v=x*a+y;Math.abs(l[v])>=Math.abs(b)||(l[v]=b)}}return l}var xe={light:{paper:"#ffffff",ink:"#17202a",grey:"#5b6672",line:"#8b95a1",out:"#f1f3f5",hatch:"#d9dee3",contribution:"#\
003f5c",gain:"#b35806",loss:"#6a5fc0",bias:"#4a4f57",mark:"#17202a",read:"#d0106f"},dark:{paper:"#14191f",ink:"#e8edf2",
grey:"#a3adb8",line:"#66717d",out:"#1c232b",hatch:"#323c47",contribution:"#9fd8f5",gain:"#f0933f",loss:"#a398f0",bias:"#\
c3cad2",mark:"#ffffff",read:"#ff6ab0"}};function oe(t){return[1,3,5].map(e=>parseInt(t.slice(e,e+2),16))}function Jl(t){
return"#"+t.map(e=>e.toString(16).padStart(2,"0")).join("")}var bs=[.95047,1,1.08883],xs=[[.4124564,.3575761,.1804375],[
.2126729,.7151522,.072175],[.0193339,.119192,.9503041]],Ql=[[3.2404542,-1.5371385,-.4985314],[-.969266,1.8760108,.041556],
[.0556434,-.2040259,1.0572252]];function eo(t,e){return t.map(n=>n.reduce((o,r,s)=>o+r*e[s],0))}function ys(t){return t.
map(e=>e/255<=.04045?e/255/12.92:((e/255+.055)/1.055)**2.4)}function ms(t){let[e,n,o]=eo(xs,ys(t)).map((r,s)=>r/bs[s]).map(
r=>r>.008856451679035631?Math.cbrt(r):(903.2962962962963*r+16)/116);return[116*n-16,500*(e-n),200*(n-o)]}function tc([t,
e,n]){let o=(t+16)/116,r=[o+e/500,o,o-n/200].map((a,i)=>bs[i]*(a**3>216/24389?a**3:(116*a-16)*27/24389)),s=a=>a<=.0031308?
12.92*a:1.055*a**(1/2.4)-.055;return eo(Ql,r).map(a=>Math.round(255*Math.min(1,Math.max(0,s(Math.max(0,a))))))}var Mt=256;
function ec(t,e){let[n,o]=[ms(oe(t)),ms(oe(e))];return Array.from({length:Mt+1},(r,s)=>tc(n.map((a,i)=>a+(o[i]-a)*(s/Mt))))}
function ps([t,e,n]){return(255<<24|n<<16|e<<8|t)>>>0}var to=new Map;function Ye(t){return to.has(t)||to.set(t,nc(t)),to.
get(t)}function nc(t){let e=xe[t],o=["contribution","gain","loss","bias"].map(a=>[a,ec(e.paper,e[a])]),r=Object.fromEntries(
o.map(([a,i])=>[a,Uint32Array.from(i,ps)])),s=Object.fromEntries(o.map(([a,i])=>[a,i.map(l=>({rgb:l,hex:Jl(l),readable:no(
l)}))]));return{...e,name:t,ramps:s,shades:r,outside:ps(oe(e.out))}}function oc(t,e){return e==="signed"?t<0?"loss":"gai\
n":e}function nt(t,e,n,o,r=0){return t.ramps[oc(e,o)][Math.round(Bt(e,n,r)*Mt)]}var gs=["#17202a","#ffffff","#000000"],rc=4.5;
function ws(t){return eo([xs[1]],ys(t))[0]}function no(t){let e=ws(t),n=o=>{let r=ws(oe(o));return(Math.max(r,e)+.05)/(Math.
min(r,e)+.05)};return gs.find(o=>n(o)>=rc)||gs[2]}var ro=11,oo=9.5;function $s({nodes:t}){return{...Ue,width:Math.ceil(Math.min(Ue.widest,Math.max(Ue.width,...t.map(({short:e})=>z(
e,ro)+6))))}}function ye(t,e,n,o=0){if(!e)return t.line;let r=Math.round(Mt*Math.max(o,Math.sqrt(Math.min(1,Math.abs(e)/
n))));return t.ramps[e>0?"gain":"loss"][r].hex}function sc(t,e){return e?t.ramps.contribution[Math.round(Mt*Math.max(.04,
1-Math.log10(e)/4.7))].hex:t.paper}function Ze({palette:t,flattest:e},n){return t.ramps.contribution[Math.round(Mt*Math.
max(.04,1-n/(e||1)))].hex}function so(t,e){let{data:n,palette:o,target:r,limit:s}=t;if(t.inks!=="entropy")return n.targets.
length?ye(o,e.shares[r],s,.22):o.line;let{entropy:a}=n.nodes[e.source];return a===null||!(e.unit in n.widths)?o.line:Ze(
t,a)}function ao(t,e){return t.inks==="entropy"?e.entropy===null?t.palette.paper:Ze(t,e.entropy):t.inks==="rank"&&t.data.
targets.length?sc(t.palette,e.ranks[t.target]):e.shares.length&&e.shares[t.target]?ye(t.palette,e.shares[t.target],t.limit):
t.palette.paper}function ac(t,e){let{data:n,layout:o}=t,r=n.edges[e],{size:s,places:a}=o,[i,l]=[a.get(r.source),a.get(r.
target)],[u,c,f,d]=[i.x+s.width,i.y+s.height/2,l.x,l.y+s.height/2],h=Math.max(s.apart/2,(f-u)/2),m=k("path",{class:"grap\
h-edge",d:`M${u} ${c}C${u+h} ${c} ${f-h} ${d} ${f} ${d}`,fill:"none",stroke:so(t,r),"stroke-width":fs(r,t.largest),"stro\
ke-opacity":.8});return r.unit in n.widths||m.setAttribute("stroke-dasharray","4 3"),m.dataset.edge=e,m}function ic(t,e){
let n=t.data.nodes[e],o=t.layout.places.get(e);if(!n.unseen)return[];let r=n.rest_shares[t.target]||0,s=o.y+t.layout.size.
height-5;return[k("path",{class:"graph-edge",d:`M${o.x-14} ${s+9}L${o.x} ${s}`,stroke:t.inks==="entropy"?t.palette.line:
ye(t.palette,r,t.limit,.22),"stroke-width":2,"stroke-dasharray":"2 2"})]}function lc(t,e){let{data:n,layout:o,palette:r}=t,
s=n.nodes[e],{x:a,y:i}=o.places.get(e),{width:l,height:u}=o.size,c=ao(t,s),f=no(oe(c)),d=n.targets.length&&s.shares[t.target]?
de(s.shares[t.target]):"",m=[s.label&&H(s.label,oo,l-6-z(` ${d}`,oo)),d].filter(Boolean).join(" "),g=`${s.label} ${s.name}`,
b=k("g",{class:"graph-node",transform:`translate(${a} ${i})`,role:"img","aria-label":g},[k("rect",{width:l,height:u,rx:4,
fill:c,stroke:r.line}),O(H(s.short,ro,l-6),l/2,m?12:18,{"font-size":ro,"text-anchor":"middle",fill:f})]);return m&&b.append(
O(m,l/2,24,{"font-size":oo,"text-anchor":"middle",fill:f})),b.dataset.node=e,b}var Xe=29;function vs(t,{title:e,x:n}){let{
width:o,apart:r}=t.layout.size;return e.split(`
`).map((s,a)=>O(H(s,10,o+r-4),n+o/2,12+12*a,{"font-size":10,"text-anchor":"middle",fill:t.palette.grey}))}function Ms(t){
let{layout:e,palette:n,part:o}=t,r=k("svg",{class:"headings",width:e.width*o,height:Xe*o,viewBox:`0 0 ${e.width} ${Xe}`,
"font-family":ee,"aria-hidden":"true"},[R(0,0,e.width,Xe,n.paper),...e.columns.flatMap(s=>vs(t,s))]);return r.style.marginBottom=
`${-Xe*o}px`,r}function io(t){let{data:e,layout:n,shown:o,palette:r,part:s}=t,a=[...o.edges].sort((i,l)=>Math.abs(e.edges[i].
shares[t.target]||0)-Math.abs(e.edges[l].shares[t.target]||0));return k("svg",{xmlns:ge,width:n.width*s,height:n.height*
s,viewBox:`0 0 ${n.width} ${n.height}`,"font-family":ee},[R(0,0,n.width,n.height,r.paper),...n.columns.flatMap(i=>vs(t,i)),
...[...o.nodes].flatMap(i=>ic(t,i)),...a.map(i=>ac(t,i)),...[...o.nodes].map(i=>lc(t,i))])}var ks=900;function Cs(t,{columns:e,
places:n,width:o,size:r}){if(o<=ks)return[t];let s=r.width+r.apart,a=Math.floor((ks-2*r.left+r.apart)/s);return e.map((l,u)=>u).
filter(l=>l%(a-1)===0&&l+1<e.length).map(l=>{let u=t.cloneNode(!0),c=e[l].x-r.left,f=Math.min(a,e.length-l)*s-r.apart+2*
r.left,h=Math.max(...[...n.values()].filter(({x:m})=>m>=c&&m<c+f).map(({y:m})=>m))+r.height+r.lane;for(let[m,g]of Object.
entries({viewBox:`${c} 0 ${f} ${h}`,width:f,height:h}))u.setAttribute(m,g);return u})}function lo(t,e,n){t.classList.toggle(
"lit",n!==null);let o=new Set([n]);for(let r of t.querySelectorAll("[data-edge]")){let s=e.edges[r.dataset.edge],a=n!==null&&
(s.source===n||s.target===n);r.classList.toggle("lit",a),a&&o.add(s.source).add(s.target)}for(let r of t.querySelectorAll(
"[data-node]"))r.classList.toggle("lit",o.has(Number(r.dataset.node)))}var Ns={least:48,most:120};function Os(t,e){let{layout:n,shown:o,palette:r,data:s}=t,{size:a,places:i}=n,l=h=>[i.get(h).
x+a.width/2,i.get(h).y+a.height/2],u=[...o.edges].map(h=>{let m=s.edges[h],[[g,b],[x,y]]=[l(m.source),l(m.target)];return k(
"line",{x1:g,y1:b,x2:x,y2:y,stroke:so(t,m),"vector-effect":"non-scaling-stroke"})}),c=[...o.nodes].map(h=>R(i.get(h).x,i.
get(h).y,a.width,a.height,ao(t,s.nodes[h]))),f=Math.max(Ns.least,Math.min(Ns.most,n.height*e/n.width)),d=k("rect",{class:"\
graph-window",fill:r.ink,"fill-opacity":.08,stroke:r.ink,"vector-effect":"non-scaling-stroke"});return k("svg",{width:e,
height:f,viewBox:`0 0 ${n.width} ${n.height}`,preserveAspectRatio:"none"},[R(0,0,n.width,n.height,r.paper),...u,...c,d])}
function co(t,e,n){let o={x:e.scrollLeft,y:e.scrollTop,width:Math.min(e.clientWidth,n.width),height:Math.min(e.clientHeight,
n.height)};for(let[r,s]of Object.entries(o))t.querySelector(".graph-window").setAttribute(r,s)}function Es(t,e,n,o){let r=t.
getBoundingClientRect();e.scrollLeft=(o.clientX-r.left)/r.width*n.width-e.clientWidth/2,e.scrollTop=(o.clientY-r.top)/r.
height*n.height-e.clientHeight/2}function Je(t,e){return Object.values(t.runs[e].blocks).find(({kind:n})=>n==="graph")}function Qe(t){return Je(t,0)!==void 0}
var cc=18;function Ht(t){let{selection:e,palette:n}=t,o=Je(t.data,e.run),r=Math.min(e.target,Math.max(0,o.targets.length-
1)),s=is(o,r),a=Math.min(s.length,e.amount<0?o.shown:e.amount),i=ls(o,r,s,a),l=t.paper||!t.width?1/0:t.width-cc;return{data:o,
target:r,order:s,amount:a,shown:i,palette:n,inks:e.inks,...cs(o,i,$s(o),l),limit:hs(o,r),largest:us(o),flattest:E(o.nodes.
map(({entropy:u})=>u??0))}}function uo({data:t,shown:e,order:n},o){if(o<0||e.nodes.has(o))return{node:o};let r=n.findIndex(
({index:s})=>t.edges[s].source===o||t.edges[s].target===o);return r<0?{node:o}:{node:o,amount:r+1}}function Ls({nodes:t},e){
let n=e.trim().toLowerCase(),o=r=>n&&[r.label,r.name,r.short,...r.says].some(s=>s.toLowerCase().includes(n));return t.flatMap(
(r,s)=>o(r)?[s]:[])}function Ss(t,e){let n=Ht(t),o=Ls(n.data,e);return o.length?uo(n,o.find(r=>r>t.selection.node)??o[0]):
null}function fo(t,e){let{data:n,shown:o}=Ht(t),r=new Set(Ls(n,e));for(let a of document.querySelectorAll("[data-node]"))
a.classList.toggle("found",r.has(Number(a.dataset.node)));let s=[...r].filter(a=>o.nodes.has(a)).length;return e.trim()?
`${s} shown${r.size>s?`, ${r.size-s} hidden`:""}`:""}function uc({layout:{places:t},shown:e},n,o){let r=t.get(n);if(!r)return Math.
min(...e.nodes);let s={ArrowRight:(i,l)=>[i,l],ArrowLeft:(i,l)=>[-i,l],ArrowDown:(i,l)=>[l,i],ArrowUp:(i,l)=>[-l,i]}[o],
a={index:n,distance:1/0};for(let[i,l]of t){let[u,c]=s(l.x-r.x,l.y-r.y),f=u+2*Math.abs(c);u>1&&f<a.distance&&(a={index:i,
distance:f})}return a.index}function fc(t){let{data:e,palette:n,limit:o,target:r}=t,s=d=>[1,.75,.5,.25,.1,1e-6].map(h=>ye(
n,d*h*o,o)),a=p("span",{className:"ramp"});a.style.background=`linear-gradient(to right, ${[...s(-1),...s(1).reverse()].
join(", ")})`;let i=p("span",{className:"ramp"});i.style.background=`linear-gradient(to right, ${[0,.25,.5,.75,1].map(d=>Ze(
t,d*t.flattest)).join(", ")})`;let l=e.nodes.some(({shares:d})=>Math.abs(d[r]??0)>o*1.0001),u=e.targets.length?[p("span",
{},[`share ${l?"≤ ":""}−${ct(o)}`,a,`${l?"≥ ":""}+${ct(o)}`])]:[],c=e.edges.some(d=>!(d.unit in e.widths))?[p("spa\
n",{textContent:"dashed: a number, not a width"})]:[];return[...t.inks==="entropy"?[p("span",{},["entropy of a node's to\
kens; an edge has that of its source: 0",i,`${ct(t.flattest)} nats`])]:u,p("span",{textContent:`width: ${Object.values(e.
widths).join("; ")}`}),...c]}function hc({data:t,selection:e},{position:n}){let o=t.runs[e.run].tokens;return p("p",{className:"\
graph-text"},o.flatMap((r,s)=>[p(s===n?"b":"bdi",{textContent:r})," "]))}function dc({data:t},e){let n=(c,f,d,h)=>{let m=p(
"select",{autocomplete:"off"},f.map(([g,b])=>p("option",{value:String(g),textContent:b})));return m.addEventListener("ch\
ange",()=>e({[d]:h(m.value)})),{select:m,label:p("label",{className:"group",hidden:f.length<1},[`${c} `,m])}},o=n("targe\
t",t.targets.map((c,f)=>[f,Gn(c)]),"target",Number),r=[["share",t.targets.length?"share of the target":"nothing"],...t.targets.
some(({token:c})=>c)?[["rank","rank of the target's token (nodes)"]]:[],...t.nodes.some(({entropy:c})=>c!==null)?[["entr\
opy","entropy of the tokens"]]:[]],s=n("coloured by",r.length>1?r:[],"inks",String),a=p("input",{type:"range",min:"0",step:"\
1",autocomplete:"off",className:"amount"});a.addEventListener("input",()=>e({amount:Number(a.value)}));let i=p("span",{className:"\
note shown"});return i.setAttribute("role","status"),o.select.classList.add("target"),{host:p("div",{className:"graph-co\
ntrols"},[o.label,s.label,p("label",{className:"group"},["shown ",a]),i]),tell:c=>{o.select.value=String(c.target),s.select.
value=c.inks,a.max=String(c.order.length),a.value=String(c.amount),i.textContent=Kn(c.data,c.shown,c.order,c.amount),i.title=
Un}}}function mc(t,{layout:{places:e,size:n},part:o},r,s=!1){if(!e.has(r))return;let[a,i,l,u]=[e.get(r).x,e.get(r).y,n.width,
n.height].map(c=>c*o);(s||a<t.scrollLeft||a+l>t.scrollLeft+t.clientWidth)&&(t.scrollLeft=a+l/2-t.clientWidth/2),(s||i<t.
scrollTop||i+u>t.scrollTop+t.clientHeight)&&(t.scrollTop=i+u/2-t.clientHeight/2)}function As(t,e,n){w("card").replaceChildren(
p("section",{className:"card node-card"},ss(t,e<0?null:e,o=>n(uo(t,o)))))}function Ts(t,e){As(Ht(t),t.selection.node,e)}
function pc(t,e,n){let o=r=>{let s=r.target.closest("[data-node]");return s?Number(s.dataset.node):-1};t.addEventListener(
"click",r=>n(uo(e.drawn,o(r)))),t.addEventListener("pointerover",r=>{if(e.scene.selection.node>=0)return;let s=o(r);lo(e.
picture,e.drawn.data,s<0?null:s),As(e.drawn,s,n)}),t.addEventListener("keydown",r=>{if(r.key==="Escape")n({node:-1});else if(r.
key.startsWith("Arrow")&&!r.altKey)n({node:uc(e.drawn,e.scene.selection.node,r.key)});else return;r.preventDefault(),r.stopPropagation()}),
t.addEventListener("scroll",()=>{e.small&&co(e.small,t,e.drawn.layout)});for(let r of["pointerdown","pointermove"])e.above.
addEventListener(r,s=>{s.buttons&&e.small&&Es(e.small,t,e.drawn.layout,s)})}function Rs(){return["run"]}function gc({meaning:t,
certificate:e}){return p("details",{className:"note"},[p("summary",{textContent:"What is drawn"}),p("p",{textContent:`${t}\
 ${e}`})])}function zs(t,e,n){let o=p("div",{className:"graph",tabIndex:0}),[r,s]=[p("div",{className:"note graph-legend"}),
p("div",{className:"graph-overview"})];o.setAttribute("role","application"),o.setAttribute("aria-label","graph; arrow ke\
ys choose a node, Escape none"),s.setAttribute("aria-hidden","true");let a={scene:t,drawn:Ht(t),picture:null,small:null,
above:s,made:"",opened:!1},i=dc(a.drawn,e),l=()=>{let{drawn:c}=a;a.picture=io(c),o.replaceChildren(...a.scene.paper?Cs(a.
picture,c.layout):[Ms(c),a.picture]),a.small=c.layout.width*c.part>n?Os(c,n):null,s.replaceChildren(...[a.small].filter(
Boolean)),s.hidden=!a.small,r.replaceChildren(...fc(c)),i.tell(c)},u=c=>{let{target:f,amount:d,inks:h,node:m}=c.selection,
g=JSON.stringify([f,d,h,c.palette.name,c.paper]);Object.assign(a,{scene:c,drawn:Ht(c)}),g!==a.made&&l(),a.made=g;for(let b of a.
picture.querySelectorAll("[data-node]"))b.classList.toggle("chosen",Number(b.dataset.node)===m);lo(a.picture,a.drawn.data,
a.drawn.shown.nodes.has(m)?m:null),fo(c,w("search").value),requestAnimationFrame(()=>{mc(o,a.drawn,m>=0||a.opened?m:a.drawn.
data.start,!a.opened),a.opened=!0,a.small&&co(a.small,o,a.drawn.layout)})};return pc(o,a,e),{nodes:[...t.data.channels.size?
[]:[hc(t,a.drawn.data)],i.host,r,s,o,gc(a.drawn.data)],update:u}}function Is(t){let{data:e,target:n,shown:o,order:r,amount:s}=Ht(
t),a=e.targets.length?`; ${Gn(e.targets[n])}`:"";return{headline:`${e.heading}${a}`,meaning:`${e.meaning.split(". ")[0].
replace(/\.$/,"")}.`,place:"",shown:"a graph of components",remark:[...e.meaning.split(". ").slice(1),Kn(e,o,r,s)].join(
". "),further:Un,note:e.certificate,exact:!1,method:"",file:["graph",e.heading.replace(/[^\w.-]+/g,"_").slice(0,60)]}}function _s(t,e){
let n=Ht(t),o=Math.min(1,e/n.layout.width),r=[k("g",{transform:`scale(${o})`},[...io(n).childNodes])];return{groups:[{x:0,
y:0,pictures:[],nodes:r}],height:o*n.layout.height}}function Fs(t){let e=Je(t.data,t.selection.run),n=function*(){for(let{
source:o,target:r,unit:s,size:a,shares:i}of e.edges)yield[e.nodes[o].name,e.nodes[r].name,s,a,...i]};return{head:["sourc\
e","target","unit","size",...e.targets.map(({name:o})=>`share of ${o}`)],lines:n,count:e.edges.length}}function js(t){let{
nodes:e,edges:n}=Je(t,0),o=(r,s)=>`${r} ${s}${r===1?"":"s"}`;return`${t.model} · ${o(e.length,"node")} · ${o(n.length,
"edge")} · ${o(t.words.length,"token")}`}function mo(t){let{fromBase64:e}=Uint8Array;if(e)return e.call(Uint8Array,t);let n=atob(t),o=new Uint8Array(n.length);for(let r=0;r<
n.length;r++)o[r]=n.charCodeAt(r);return o}async function ke(t){let e=new Blob([mo(t)]).stream().pipeThrough(new DecompressionStream(
"deflate"));return new Uint8Array(await new Response(e).arrayBuffer())}function po(t,e,n,o){let r=t.length/e.bytes,s=new Uint16Array(
r/e.low.length);for(let a=0,i=n*s.length;a<s.length;a++,i++){let l=e.bytes===2?t[i]*256+t[r+i]:t[i];s[a]=o?o[a]+(l%2?-(l+
1)/2:l/2):l}return s}function go(t,e,n){let o=256**e.bytes-1,r=e.signed?(o-1)/2:o-1,s=new Float32Array(t.length);for(let a=0;a<
t.length;a++){let i=t[a];if(i===0)continue;if(i===o){s[a]=NaN;continue}let l=i>r,u=Math.exp(e.low[n]+e.step[n]*(i-1-(l?r:
0)));s[a]=l?-u:u}return s}function ho(t){return t.replaceAll("-","−")}var wc=" %";function A(t,e=3){if(!Number.isFinite(
t))return"–";let n=Math.abs(t);return t===0?"0":n>=1e5||n<1e-4?ho(t.toExponential(e-1)):ho(n>=10**(e+1)?String(Math.round(
t)):String(Number(t.toPrecision(e))))}function G(t,e=3){return Number.isFinite(t)?A(100*t,e)+wc:"–"}function tn(t,e=3){
if(!Number.isFinite(t))return"–";let n=A(100*t,e);return`${n} point${/^−?1$/.test(n)?"":"s"}`}function S(t,e,n=3){let o=e?
tn(t,n):A(t,n);return t>0?`+${o}`:o}var bc=[8,6,5,4,3,2.5,2,1.5,1];function Ws(t){let e=10**Math.floor(Math.log10(t)+1e-9);
return e*bc.find(n=>n*e<=t*(1+1e-8))}function J(t,e,n=!1){return e?n?tn(t,2):G(t,2):A(t,2)}function $e(t){return t===0?"\
0":ho(t.toExponential(1))}function Y(t,e,n){return e===Object.keys(t.runs[0].blocks)[0]?n:`${e}: ${n}`}function xc(t){let e=new Map;for(let[n,o]of Object.
entries(t.runs[0].blocks))o.kind==="maps"&&o.channels.forEach((r,s)=>{let a=Y(t,n,r.name);e.set(a,{...r,key:a,index:s,blockName:n,
before:r.before&&Y(t,n,r.before)})});return e}function ut(t,e){return Object.entries(t.runs[0].blocks).filter(([,n])=>n.
kind==="maps"&&(!e||n.axis===e))}function ve(t){return Object.values(t.runs[0].blocks).filter(({kind:e})=>e==="effects")}
function nn(t,e,...n){let o=t.tables[e];if(!o)return NaN;let r=o.values;for(let[s,a]of o.axes.entries())if(r=r[a.indexOf(
n[s])],r==null)return NaN;return r}function pt(t){return t.runs.map(({name:e})=>e).join()==="mean,low,high"?[1,2]:[]}function on(t,e,n,o){
let r=e===0?pt(t):[];return r.length&&r.every(s=>t.loaded(s,n))?r.map(s=>t.matrix(s,n,o)):null}function P(t){return t.channels.
size>0}function wo(t,e){let n=t.words.length,o=new Float32Array(t.queries.length*n).fill(NaN),r=0;return t.queries.forEach(
(s,a)=>{let i=t.causal?s+1:n;o.set(e.subarray(r,r+i),a*n),r+=i}),o}function yc(t){let e=new Map,n=0;return(o,r)=>{let s=e.
get(o),a=s||r();s?e.delete(o):n+=a.length,e.set(o,a);for(let[i,{length:l}]of e){if(n<=t||i===o)break;e.delete(i),n-=l}return a}}
function en(){let[t,e]=[null,null];return(n,o)=>(n!==t&&([t,e]=[n,o()]),e)}var kc=2**24;function Ps(t){let e={...t,latestAxes:en(),
latestMaps:en(),channels:xc(t)},n=new Map,o=new Map,r=yc(kc),s=($,C,N)=>[$,C,N].join(`
`),a=($,C,N)=>{let T=e.channels.get(C),j=e.runs[$].blocks[T.blockName];return N==="values"?j.values[T.name]:j.columns[N]&&
j.columns[N][T.name]},i=($,C)=>C.reference&&Y(e,e.channels.get($).blockName,C.reference),l=async($,C,N)=>{let T=a($,C,N),
j=i(C,T),[L]=await Promise.all([ke(T.packed),j&&u($,j,N)]);o.set(s($,C,N),L)},u=($,C,N)=>{let T=s($,C,N);return n.has(T)||
n.set(T,l($,C,N)),n.get(T)},c=($,C,N,T)=>{let j=a($,C,N),L=i(C,j);return po(o.get(s($,C,N)),j,T,L?c($,L,N,T):null)},f=($,C,N,T)=>{
let j=e.layers.indexOf(T);return r([s($,C,N),j].join(`
`),()=>{let L=go(c($,C,N,j),a($,C,N),j);return N==="values"?wo(e,L):L})},d=($,C)=>{let N=e.runs[$].blocks[e.channels.get(
C).blockName];return Promise.all(["values",...Object.keys(N.columns)].map(T=>u($,C,T)))},h=new Map;return Object.assign(
e,{load:d,open:async $=>{h.has($)||h.set($,await ke($.packed))},numbersAt:($,C)=>go(po(h.get($),$,C,null),$,C),loaded:($,C)=>o.
has(s($,C,"values")),matrix:($,C,N)=>f($,C,"values",N),column:($,C,N,T)=>a($,C,N)?f($,C,N,T):null,block:$=>e.runs[0].blocks[e.
channels.get($).blockName]})}var $c=["others","row","column","none"],vc=["percentile","off-diagonal","all"],Mc=["","special","first","special first"],
Cc=["","before","after","difference"],Nc=["change","share","distance"],Oc=/^[\d.]{0,400}$/,Ec=/^\d-\d$/,Lc=/^\d{1,5}-\d{1,5},\d{1,5}-\d{1,5}$/,
Sc=["overview","maps","heads","all","scores","memories","numbers","graph"];function Ac(t,e){return Number.isInteger(e)&&
e>=0&&e<t.words.length}function xo(t,e){let[n,o]=e.split("-").map(Number);return Ec.test(e)&&Math.max(n,o)<t.segments.length&&
(!t.causal||o<=n)}function rn(t){return(e,n)=>Number.isInteger(n)&&n>=t&&n<1e6}var bo={run:(t,e)=>Number.isInteger(e)&&e>=
0&&e<t.runs.length,scope:(t,e)=>t.channels.has(e),layer:(t,e)=>t.layers.includes(e),refRun:(t,e)=>Number.isInteger(e)&&e>=
0&&e<t.runs.length,ref:(t,e)=>e===""||t.channels.has(e),to:(t,e)=>t.queries.includes(e),from:Ac,read:(t,e)=>e==="row"||e===
"column",view:(t,e)=>Sc.includes(e),heads:(t,e)=>Oc.test(e),between:(t,e)=>e===""||xo(t,e),block:(t,e)=>e===""||Object.hasOwn(
t.runs[0].blocks,e),cells:(t,e)=>$c.includes(e)&&(e!=="column"||t.queries.length===t.words.length),range:(t,e)=>vc.includes(
e),root:(t,e)=>e===0||e===1,each:(t,e)=>e===0||e===1,words:(t,e)=>e===0||e===1,hide:(t,e)=>Mc.includes(e),panel:(t,e)=>Cc.
includes(e),zoom:(t,e)=>e===""||Lc.test(e),sort:(t,e)=>Nc.includes(e),pairs:(t,e)=>e==="all"||e==="token",mass:(t,e)=>Number.
isInteger(e)&&e>=1&&e<=100,find:(t,e)=>typeof e=="string"&&e.length<=60,neuron:rn(-1),node:rn(-1),amount:rn(-1),target:rn(
0),inks:(t,e)=>["share","rank","entropy"].includes(e)};function sn(t,e,n,o){return n!==o||!P(t)?e:t.channels.get(e).before||
""}function Tc(t){return t.causal?Math.max(...t.queries):t.words.length-1}function Rc(t,e){return!e||!Dt(e)?"none":e.cells===
"others"&&Tc(t)<2?"row":e.cells}var zc=60;function Ic(t){let{scope:e,run:n,refRun:o}=t.start;return P(t)&&sn(t,e,n,o)!==
""&&!t.block(e).signed&&t.words.length>=zc?"difference":""}function Hs(t){let{scope:e,layer:n,to:o,from:r,run:s,refRun:a,
view:i,heads:l}=t.start;return{run:s,scope:e,layer:n,refRun:a,ref:sn(t,e,s,a),to:o,from:r,read:"row",view:i,heads:l,between:"",
block:"",cells:Rc(t,P(t)&&t.block(e)),range:t.words.length>=ne?"percentile":"off-diagonal",root:0,each:0,words:0,hide:"",
panel:Ic(t),zoom:"",sort:"change",pairs:"all",mass:100,find:"",neuron:-1,node:-1,amount:-1,target:0,inks:"share"}}function Dt(t){
return!t.signed&&t.whole}function an(t,{scope:e,ref:n}){return P(t)&&Dt(t.block(e))&&(n===""||Dt(t.block(n)))}function Ds(t,e,n){
let o={...e,...n};return["scope","run","refRun"].some(s=>s in n&&n[s]!==e[s])&&!("ref"in n)&&(e.ref===sn(t,e.scope,e.run,
e.refRun)||e.run===e.refRun!=(o.run===o.refRun))&&(o.ref=sn(t,o.scope,o.run,o.refRun)),o.ref===o.scope&&o.run===o.refRun&&
(o.ref=""),an(t,o)||(o.cells="none"),("words"in n||"hide"in n)&&(o.zoom=""),o}function ln(t,e){let n=Hs(t),o=Object.keys(
bo).filter(r=>e[r]!==n[r]).map(r=>`${r}=${encodeURIComponent(e[r])}`);return o.length?`#${o.join("&")}`:""}function yo(t,e){
let n=Hs(t),o={...n};for(let r of e.replace(/^#/,"").split("&")){let[s,a]=r.split("=");if(!Object.hasOwn(bo,s)||a===void 0)
continue;let i=typeof n[s]=="number"?Number(Bs(a)):Bs(a);bo[s](t,i)&&(o[s]=i)}return an(t,o)||(o.cells="none"),o}function Bs(t){
try{return decodeURIComponent(t)}catch{return""}}function qs(t,e,n){let o=new Set;if(n.includes("special"))for(let r of t.
special)o.add(e.columnOf[r]);return n.includes("first")&&o.add(0),o}function cn(t,e){let n=[0,t.nRows-1,0,t.nColumns-1],
o=e.split(/[-,]/).map(Number);if(e===""||o.length!==4)return n;let r=(c,f)=>Math.max(0,Math.min(f,c)),[s,a,i,l]=o,u=[r(s,
n[1]),r(a,n[1]),r(i,n[3]),r(l,n[3])];return u[0]<=u[1]&&u[2]<=u[3]?u:n}function ko([t,e,n,o]){return`${t}-${e},${n}-${o}`}
function $o(t,e){let[n,o,r,s]=cn(t,e.zoom),a=(l,u,c,f)=>{let d=Math.max(4,Math.ceil((u-l+1)/2)),h=Math.max(0,Math.min(c-
Math.floor(d/2),f-d+1));return[h,Math.min(f,h+d-1)]},i=Math.max(0,t.rowOf(e.to));return ko([...a(n,o,i,t.nRows-1),...a(r,
s,t.columnOf[e.from],t.nColumns-1)])}function Vs(t,e,n){let o=e.trim().toLowerCase();if(o==="")return-1;if(/^\d+$/.test(
o)&&Number(o)<t.length)return Number(o);for(let r=1;r<=t.length;r++){let s=(n+r)%t.length;if(t[s].toLowerCase().includes(
o))return s}return-1}function un(t,e){return!t.named&&(e==="others"||e==="row")}function vo(t,e,n,o){let{data:r,axes:s,selection:a,hidden:i}=t,
l=g=>a.words?me(s,g,r.words.length):g,u=g=>g&&(a.words?es(s,g):g),c=l(r.matrix(e,n,a.layer)),f=Object.keys(r.block(n).columns),
d=Object.fromEntries(f.map(g=>[g,u(r.column(e,n,g,a.layer))]));a.cells==="others"&&(d.own=Qn(s,c,i));let h=Jn(s,c,i,a.cells),
m=r.block(n).shares||a.cells;return{role:o,key:n,run:e,raw:c,columns:d,cells:h,shares:m,asShare:m!=="none",limit:Lt(s,h,
a.range,un(r,m)),top:E(h),scale:r.block(n).signed?"signed":"contribution",labels:s.labels(r.runs[e].tokens)}}function _c(t,e,n){
let o=Object.keys(n.columns).filter(s=>s in e.columns),r=Ge(n.cells,e.cells);return{role:"difference",key:n.key,run:n.run,
shares:n.shares,asShare:n.asShare,raw:Ge(n.raw,e.raw),cells:r,limit:Lt(t.axes,r,t.selection.range,un(t.data,n.shares)),top:E(
r),columns:Object.fromEntries(o.map(s=>[s,Ge(n.columns[s],e.columns[s])])),scale:"signed",labels:ts(e.labels,n.labels)}}
var qt=["run","scope","layer","refRun","ref","cells","range","each","words","hide"];function Fc(t){let{selection:e}=t,n=vo(
t,e.run,e.scope,e.ref?"after":"only");if(!e.ref)return[n];let o=vo(t,e.refRun,e.ref,"before");return o.scale!==n.scale||
o.shares!==n.shares?[o,n]:(e.each||(o.limit=n.limit=Math.max(o.limit,n.limit)),[o,n,_c(t,o,n)])}function jc(t){return["o\
wn",...Object.keys(t[0].columns).filter(n=>n!=="own")].filter(n=>t.some(o=>o.columns[n]&&E(o.columns[n])>0))}function Mo(t,e){
let n=t.latestAxes(e.words,()=>Qr(t,e.words===1)),o=qs(t,n,e.hide),r={data:t,selection:e,axes:n,hidden:o,window:cn(n,e.zoom)},
s=JSON.stringify(qt.map(a=>e[a]));return r.maps=P(t)?t.latestMaps(s,()=>Fc(r)):[],r.strips=P(t)?jc(r.maps):[],r.row=Math.
max(0,n.rowOf(e.to)),r.column=n.columnOf[e.from],r}function fn(t,e,n){let{data:o,selection:r,axes:s}=t,a=Dt(o.block(n))?
r.cells:"none",i={...t,selection:{...r,layer:e,cells:a},window:cn(s,"")};return{...i,map:vo(i,r.run,n,"only")}}function St({
maps:t}){return t.length===2}function xt({maps:t}){return t[t.length>1?1:0]}function I({maps:t,axes:e,data:n,selection:o}){
return t.length?t[t.length-1].labels:e.labels(n.runs[o.run].tokens)}function ft(t,e){let n=I(t);return n.indexOf(n[e])!==
n.lastIndexOf(n[e])?`@${t.axes.columns[e].position}`:""}function re(t){let e=t.maps.filter(n=>n.role===t.selection.panel);
return e.length?e:t.maps}function se(t,e){let{axes:n,selection:o,row:r,column:s}=t,a=new Float32Array(n.nColumns).fill(NaN);
return o.read==="row"?a.set(e.cells.subarray(r*n.nColumns,(r+1)*n.nColumns)):n.own.forEach((i,l)=>{a[i]=e.cells[l*n.nColumns+
s]}),a}function K(t){return t.selection.read==="row"?t.axes.own[t.row]:t.column}function Co(t){let e=K(t),o=t.maps.filter(
r=>r.role!=="difference").map(r=>E(se(t,r).map((s,a)=>a===e?NaN:s)));return St(t)?o:o.map(()=>Math.max(...o))}function Wc(t,e){
return{...t,nRows:1,rows:[t.rows[e]],own:[t.own[e]]}}function Us(t,e,n,o){let{data:r,selection:s,axes:a}=t,i=r.matrix(e,
n,o),l=s.read==="row"&&s.cells!=="column",u=t.row*a.nColumns,c=l?{...t,axes:Wc(a,t.row),row:0}:t;return{reduced:c,raw:s.
words?me(c.axes,i,r.words.length):l?i.subarray(u,u+a.nColumns):i}}function hn(t,e,n){let{data:o,selection:r,axes:s}=t,a=new Float32Array(
o.layers.length*s.nColumns);return o.layers.forEach((i,l)=>{let{reduced:u,raw:c}=Us(t,e,n,i),f=Jn(u.axes,c,t.hidden,r.cells);
a.set(se(u,{cells:f}),l*s.nColumns)}),a}function Ks(t,e,n){return Float32Array.from(t.data.layers,o=>{let{reduced:r,raw:s}=Us(
t,e,n,o);return Qn(r.axes,s,t.hidden)[r.row]})}function No(t,e){let{data:n,axes:o,selection:r}=t,s=n.layers.map(()=>K(t));
return Lt({...o,nRows:s.length,own:s},e,r.range)}function Pc({axes:t,maps:e,row:n,column:o}){return t.own[n]!==o&&!Number.
isNaN(e[e.length-1].cells[n*t.nColumns+o])}function Bc({axes:t,maps:e,row:n}){let o=e[e.length-1].cells.subarray(n*t.nColumns,
(n+1)*t.nColumns),r=t.own[n];return o.forEach((s,a)=>{let i=r===t.own[n]?0:Math.abs(o[r]);a!==t.own[n]&&Math.abs(s)>i&&(r=
a)}),t.columns[r].position}function Gs(t,e,n){let o=Ds(t,e,n),r="to"in n&&o.read==="row";if("from"in n||!(r||"hide"in n)||
!P(t)||![[o.run,o.scope],...o.ref?[[o.refRun,o.ref]]:[]].every(([i,l])=>t.loaded(i,l)))return o;let a=Mo(t,o);return Pc(
a)?o:{...o,from:Bc(a)}}var Hc={others:"share of the row's sum over other tokens",row:"share of the row's sum",column:"share of the column's sum",
none:"norm, in units of the residual stream"},Dc={"off-diagonal":"the largest value of another token",percentile:"the 99\
th percentile of other tokens' values"},qc={ATTN:"attention",RES:"the residual connection",LN:"the norm",FF:"the feed-fo\
rward block"},Oo=48;function gt(t,e=""){let n=He(t.slice(0,20*Oo));return`“${n.length>Oo?`${n.slice(0,Oo-1).join("")}…`:
t}${e}”`}function st(t,e,n){return t.role==="difference"||t.scale==="signed"?S(e,n):n?G(e):A(e)}function lt(t,e){return gt(
I(t)[e],ft(t,e))}function Me(t,e){let n=t.channels.get(e);return n.label===n.name?e:`${n.label} (${n.name})`}function dn(t,e,n){
return t.runs[e].tokens.join(" ").replace(/(^| )·/g,"$1").slice(0,n)}function Eo(t,e){return t.runs.length>1?t.runs[e].
name:""}function yt(t,e,n){return[Eo(t,e),t.channels.get(n).name].filter(Boolean).join(" · ")}function Lo(t,e){return t.
maps.map(n=>n.role==="difference"?"difference":St(t)?n.key:e(n))}function Vt(t){let{data:e,maps:n}=t,o=n.filter(({role:s})=>s!==
"difference"),r=s=>new Set(o.map(a=>a[s])).size>1;return Lo(t,({run:s,key:a})=>r("run")?r("key")?yt(e,s,a):Eo(e,s):e.channels.
get(a).name)}function So(t){let{data:e,selection:n}=t;return n.run===n.refRun&&n.ref!==""&&e.channels.get(n.scope).before===
n.ref}function Ct(t,e){let{data:n,selection:o}=t;if(e.role==="difference")return"Difference";if(e.role==="only")return yt(
n,e.run,e.key);let r=So(t)&&n.channels.get(o.scope).component,s=e.role==="before"?"Before":"After";return r?`${s} ${r}: ${n.
channels.get(e.key).name}`:yt(n,e.run,e.key)}function Ce(t,e){let{data:n,selection:o}=t;if(e.role==="difference"){let r=[
yt(n,o.run,o.scope),yt(n,o.refRun,o.ref)];return`${r[0]} − ${r[1]}`}return n.block(e.key).signed?n.block(e.key).title:
n.channels.get(e.key).label}function Vc(t,e){let n=t.data.block(e.key),o=e.asShare?Hc[e.shares]:n.unit,r=e.scale==="sign\
ed"&&e.asShare;return e.role==="difference"||r?`${r&&e.role!=="difference"?"difference":"change"} of the ${o}${e.asShare?
", in percentage points":""}`:o}function Ao(t){return t.top>t.limit*1.0001}function To({data:t,selection:e},n){return n.
role!=="difference"&&n.scale==="signed"&&n.run===0&&!e.words&&e.cells==="none"&&pt(t).length>0}function Ro(t){return t>1.001?
[`1 pixel = ${A(t,2)} tokens, the strongest is shown. Drag to zoom.`]:[]}function Xs(t,e,n){let{selection:o,strips:r}=t,
s=[Vc(t,e)+(o.root?", on a square-root scale.":".")];Ao(e)&&s.push(`Colours end at ${Dc[o.range]}${un(t.data,e.shares)?"\
 in rows of three or more":""}; cells reach ${J(e.top,e.asShare,e.scale==="signed")}.`),To(t,e)&&s.push("Crossed: the 95\
 % interval contains 0."),t.hidden.size&&s.push("Hidden tokens are left out of the shares.");let a=r.filter(i=>i!=="own"&&
e.columns[i]);for(let i of a)s.push(`${i}: up to ${J(E(e.columns[i]),!1)}.`);return[...s,...Ro(n)]}function zo(t,e){let n={
others:", as a share of the row's sum over all other tokens",row:", as a share of the row's sum over all tokens",column:"\
, as a share of the column's sum",none:""}[e];return`${t.meaning}${n}`}function Uc({data:t,selection:e}){let n=t.block(e.
scope);return`A cell: ${zo(n,n.shares||e.cells)}.`}function Kc(t,e){return e>t?"raises":e<t?"lowers":"leaves"}function Zs(t){
return t&&t[0].toUpperCase()+t.slice(1)}function ae({data:t,selection:e}){return t.layered?`layer ${e.layer}`:""}function Gc(t){
let{data:e,selection:n}=t,o=e.layered||e.channels.size>1?yt(e,n.run,n.scope):Eo(e,n.run);return[ae(t),o].filter(Boolean).
join(", ")}function Ys(t){let{data:e,selection:n}=t;if(n.run!==n.refRun)return`${Zs([ae(t),e.channels.get(n.scope).name].
filter(Boolean).join(", "))}: from ${e.runs[n.refRun].name} to ${e.runs[n.run].name}`;let o=qc[e.channels.get(n.scope).component];
return So(t)&&o?`Layer ${n.layer}: ${o}`:`Layer ${n.layer}: from ${e.channels.get(n.ref).name} to ${e.channels.get(n.scope).
name}`}function Ne(t,e){return`${t} cannot see ${e}, which comes later.`}function At(t,e,n){return t.short==="weight"?`a\
ttention of ${e} to ${n}`:`contribution of ${n} to ${e}`}function Yc(t,e,n){let{axes:o,row:r,column:s,hidden:a}=t,i=xt(t),
l=s===o.own[r]&&!a.has(s)&&i.columns.own;if(l)return`${G(l[r])} of ${e} is its own; the map shows the remainder.`;let u=a.
has(s)?`${n} is hidden`:"these maps have no such cell";return`There is no ${i.asShare?"share":"number"} here of the ${At(
t.data.block(t.selection.scope),e,n)}: ${u}.`}function Xc({data:t,maps:e},n,o){return{others:`the share of ${o} in other\
 tokens' contributions to ${n}`,row:`the share of ${o} in all contributions to ${n}`,column:`the share of ${n} in all co\
ntributions of ${o}`,none:`the ${At(t.block(e[0].key),n,o)}`}[e[0].shares]}function Zc(t,[e,n],o,r,s){let a=t.asShare?tn(
Math.abs(s)):A(Math.abs(s)),i=t.asShare?", as a share of other tokens' contributions,":"";return s===0?`${r} contributes${i}\
 as much to ${o} in ${e} as in ${n}`:`${r} contributes${i} ${a} ${s>0?"more":"less"} to ${o} in ${e} than in ${n}`}function Jc(t,e,n,o){
let{data:r,maps:[s]}=t,a=st(s,o,s.asShare),{sides:i}=r.block(s.key);return i.length?Zc(s,i,e,n,o):r.layered?{others:`${a}\
 of other tokens' contributions to ${e} come from ${n}`,row:`${a} of all contributions to ${e} come from ${n}`,column:`${a}\
 of all contributions of ${n} go to ${e}`,none:`the ${At(r.block(s.key),e,n)} is ${a}`}[s.shares]:`${n} contributes ${a}\
 to ${e}`}function Qc(t){let{data:e,maps:n,axes:o,row:r,column:s,selection:a}=t,i=r*o.nColumns+s,l=g=>st(n[g],f[g],n[g].
asShare),[u,c]=[lt(t,o.own[r]),lt(t,s)],f=n.map(g=>g.cells[i]);if(!o.reaches(r,s))return Ne(u,c);if(f.some(Number.isNaN))
return Yc(t,u,c);if(n.length===1)return`${Zs([Gc(t),Jc(t,u,c,f[0])].filter(Boolean).join(": "))}.`;if(St(t)){let g=n.map(
(b,x)=>`${l(x)} (${e.block(b.key).title}, ${e.channels.get(b.key).name})`);return`Layer ${a.layer}, contribution of ${c}\
 to ${u}: ${g.join(" and ")}.`}let d=`${l(0)} → ${l(1)}`,h=Xc(t,u,c);return a.run!==a.refRun||!So(t)?`${Ys(t)}, ${h} g\
oes ${d}.`:`${Ys(t)} ${Kc(f[0],f[1])} ${h}: ${d}.`}function tu(t){let{axes:e,row:n,column:o,selection:r,window:[s,a,i,l]}=t,
[u,c]=[n>=s&&n<=a,o>=i&&o<=l],[f,d]=[lt(t,e.own[n]),lt(t,o)],h=r.read==="row"?u&&`the row of ${f}`:c&&`the column of ${d}`,
m=u&&c&&e.reaches(n,o)&&`the cell from ${d} to ${f}`,g=[h,m].filter(Boolean);return g.length?`Marked: ${g.join(" and ")}\
.`:""}function Ut(t){let{data:e,selection:n,maps:o}=t,r=[n.ref&&yt(e,n.refRun,n.ref),yt(e,n.run,n.scope)],s=o.filter(a=>a.
role!=="difference").map(a=>Me(e,a.key)).join(" and ");return{headline:Qc(t),meaning:Uc(t),further:n.cells==="others"?"G\
rey strip: the token's own share.":"",place:ae(t),note:tu(t),exact:o.some(a=>e.block(a.key).exact),method:"",shown:`${e.
block(n.scope).title}, ${s}`,remark:re(t).includes(o[2])?`${Ct(t,o[2])}: ${Ce(t,o[2])}.`:"",file:[ae(t).replace(" ",""),
r.filter(Boolean).join("-").slice(0,60),n.cells]}}function mn({meaning:t,further:e=""}){return[t,e].filter(Boolean).join(
" ")}function Io(t,{run:e},n){return t.words.length?`${t.model} reading “${dn(t,e,n)}”`:t.model}function Js({data:t,
selection:e},n){let o=t.certificate&&n.exact,r=o?"method of Kobayashi et al. (2024)":n.method,a=[["tl_ffblock","transfor\
mer_lens","torch"].filter(i=>t.provenance[i]).map(i=>`${i} ${t.provenance[i]}`).join(", "),r].filter(Boolean).join("; ");
return[n.headline,`${Io(t,e,300)}${n.place&&`, ${n.place}`}: ${n.shown}. ${mn(n)}`.trim(),n.remark,n.note,o?`Sums of par\
ts equal the model's own tensors to ${$e(t.certificate.error)}.`:"",a&&`${a}.`].filter(Boolean).join(" ")}function Qs(t){
let e=t.certificate;if(!e)return t.statement;let n=`${e.scope}, layer ${e.layer}, ${gt(t.runs[e.run].tokens[e.query])} a\
t position ${e.query}`;return`${t.block(t.start.scope).signed?"Both results are exact":"✓ Exact"}: parts and bias sum \
to the model's own tensors, with a relative error of at most ${$e(e.error)} (${n}).`}function _o({data:t,selection:e},n,o){
let r=t.runs[e.run].tokens.slice(0,6).join("-").slice(0,40);return[t.model.slice(0,40),r,...n.file.filter(Boolean)].join(
"_").replace(/[^A-Za-z0-9._-]+/g,"").replace(/-{2,}/g,"-")+`.${o}`}function eu(t,e,n){let{axes:o}=t,r=new Uint8Array(e.cells.length);for(let s=0;s<o.nRows;s++){let a=s*o.nColumns,i=Array.
from({length:o.nColumns},(c,f)=>a+f).filter(c=>!Number.isNaN(e.cells[c]));i.sort((c,f)=>Math.abs(e.cells[f])-Math.abs(e.
cells[c]));let l=i.reduce((c,f)=>c+Math.abs(e.cells[f]),0),u=0;for(let c of i){if(u>=n/100*l)break;r[c]=1,u+=Math.abs(e.
cells[c])}}return r}function Fo(t,e){return Math.abs(t.own[Math.floor(e/t.nColumns)]-e%t.nColumns)}function nu(t,e,n){let{
axes:o,maps:r}=t,s=r[r.length-1];return e==="distance"?Fo(o,n):Math.abs((e==="change"?s:xt(t)).cells[n])}function ou(t){
let{axes:e,selection:n,row:o,column:r}=t,s=n.find.trim().toLowerCase(),a=I(t).map(i=>s===""||i.toLowerCase().includes(s));
return(i,l)=>(n.pairs==="all"||(n.read==="row"?i===o:l===r))&&(a[l]||a[e.own[i]])}function ta(t,e){let{axes:n,selection:o,
maps:r}=t,s=o.mass<100?r.filter(h=>h.role!=="difference").map(h=>eu(t,h,o.mass)):[],a=ou(t),i=r[r.length-1].cells,[l,u]=[
[],[]];for(let h=0;h<i.length;h++){let[m,g]=[Math.floor(h/n.nColumns),h%n.nColumns];Number.isNaN(i[h])||n.own[m]===g||!a(
m,g)||s.length&&!s.some(b=>b[h])||(l.push(h),u.push(nu(t,o.sort,h)))}let c=be(Float64Array.from(u),Math.max(0,u.length-e)),
f=l.map((h,m)=>({index:h,size:u[m]})).filter(({size:h})=>!(h<c));return f.sort((h,m)=>m.size-h.size||h.index-m.index),{pairs:f.
slice(0,e).map(({index:h})=>({row:Math.floor(h/n.nColumns),column:h%n.nColumns,index:h})),total:l.length}}function pn(t,e,n){
let o=s=>Array.from(s.keys()).filter(a=>!Number.isNaN(s[a])).sort((a,i)=>Math.abs(s[i])-Math.abs(s[a])||a-i),r=new Map(e?
o(e).map((s,a)=>[s,a]):[]);return o(t).slice(0,n).map((s,a)=>({at:s,rank:a,earlier:r.has(s)?r.get(s):null}))}function Tt({data:t},e,n){let o=t.named?t.details[n]:Wt(t,n);return o?`${e} (${o})`:e}function Kt(t,e){return p("tr",{},
[p("th",{textContent:t,scope:"row"}),...e.map(n=>p("td",{textContent:n}))])}function gn(t,e){let n=Vt(t).map(o=>p("th",{
textContent:o,scope:"col"}));return p("table",{className:"numbers"},[p("tr",{},[p("td"),...n]),...e])}function jo(t,{row:e,
column:n}){let o=e*t.axes.nColumns+n,r=[Kt(St(t)?"number":t.data.block(t.selection.scope).short,t.maps.map(c=>st(c,c.raw[o],
t.data.block(c.key).shares!=="")))],s={others:"share of others",row:"share of row",column:"share of column"}[t.selection.
cells],{data:a,selection:i}=t,l=t.maps.length===1&&on(a,i.run,i.scope,i.layer);l&&r.push(Kt("95 % interval",[l.map(c=>st(
t.maps[0],c[o],a.block(i.scope).shares!=="")).join(" to ")]));let u=[i.layer,-1,t.axes.rows[e].position,t.axes.columns[n].
position];for(let c of ve(a)){let f=nn(c,"cell",...u);Number.isNaN(f)||r.push(Kt(`${c.target} ${c.short}`,[S(f,!1)]))}return s&&
r.push(Kt(s,t.maps.map(c=>st(c,c.cells[o],!0)))),gn(t,r)}function ru(t,{row:e,strip:n}){return gn(t,[Kt(n,t.maps.map(o=>o.
columns[n]?st(o,o.columns[n][e],n==="own"):"–"))])}function ot(t,e){return p("div",{},[p("span",{className:"tip-label",
textContent:t}),p("bdi",{textContent:e})])}function su(t,e){let{axes:n}=t,o=I(t),r=()=>ot("to",Tt(t,o[n.own[e.row]],n.rows[e.
row].position)),s=()=>ot("from",Tt(t,o[e.column],n.columns[e.column].position));return e.strip?[r(),ru(t,e)]:e.row===void 0?
[s()]:e.column===void 0?[r()]:n.reaches(e.row,e.column)?[r(),s(),jo(t,e)]:[r(),s(),p("div",{textContent:"Not reachable: \
this model attends to earlier tokens only."})]}function ie(t,e,n){t.style.left=`${Math.max(4,Math.min(e+16,window.innerWidth-
t.offsetWidth-8))}px`;let o=n+18+t.offsetHeight<window.innerHeight;t.style.top=`${Math.max(4,o?n+18:n-t.offsetHeight-12)}\
px`}function ea(t,e,n,o){let r=w("tooltip");r.hidden=!e,!r.hidden&&(r.replaceChildren(...su(t,e)),ie(r,n,o))}function wn(t,e){let n=p("i",{className:"bar-fill"});return Object.assign(n.style,{width:`${Math.max(.5,100*Math.min(1,t))}\
%`,backgroundColor:e}),p("span",{className:"bar"},[n])}function Wo({palette:t},e,n){return e.scale==="signed"?t[n<0?"los\
s":"gain"]:t.contribution}function au(t){let{axes:e,row:n,column:o,data:r}=t,s=I(t),a=e.reaches(n,o);return p("section",
{className:"card"},[p("h3",{},["Cell: ",p("bdi",{textContent:s[o]}),`${ft(t,o)} → `,p("bdi",{textContent:s[e.own[n]]}),
ft(t,e.own[n])]),p("p",{className:"note",textContent:[De(r,e.columns[o].position,e.rows[n].position),ae(t)].filter(Boolean).
join(", ")}),a&&t.headsBlock?"":a?jo(t,{row:n,column:o}):p("p",{textContent:"Not reachable: this model attends to earlie\
r tokens only."}),...na(t,"head"),...na(t,"expert"),...t.strips.length&&r.queries.length&&!t.headsBlock?[p("p",{className:"\
note",textContent:`${gt(s[e.own[n]])} as a row:`}),iu(t)]:[]])}function iu(t){return gn(t,t.strips.map(e=>Kt(e,t.maps.map(
n=>n.columns[e]?st(n,n.columns[e][t.row],e==="own"):"–"))))}function Po(t,e){let{data:n,selection:o}=t,r=n.channels.get(
o.scope).name,s=ut(n,e).find(([,a])=>a.of===r);return s&&!o.words?s[1].channels.map(a=>Y(n,s[0],a.name)):[]}function na(t,e){
let{data:n,selection:o,axes:r,row:s,column:a,palette:i}=t,l=Po(t,e);if(!l.length||!l.every(d=>n.loaded(o.run,d)))return[];
let u=s*r.nColumns+a,c=l.map(d=>({label:n.channels.get(d).name,value:n.matrix(o.run,d,o.layer)[u]||0})),f=E(c.map(({value:d})=>d));
return c.sort((d,h)=>h.value-d.value),[p("p",{className:"note",textContent:`Through each ${e} (norms; they do not add up\
), ${n.channels.get(o.scope).name}:`}),p("div",{className:"bars"},c.slice(0,6).map(({label:d,value:h})=>p("div",{className:"\
bar-line"},[p("span",{textContent:d}),wn(h/(f||1),i.contribution),p("span",{textContent:A(h)})])))]}function lu(t){return t.
earlier===null||t.earlier===t.rank?"":t.earlier>t.rank?`↑${t.earlier-t.rank}`:`↓${t.rank-t.earlier}`}var cu=10;function uu(t,e){
let{maps:n,axes:o,selection:r}=t,s=St(t)?[n[1]]:n.filter(g=>g.role!=="difference"),a=s.map(g=>se(t,g)),i=a[a.length-1],l=pn(
i,a.length>1?a[0]:null,cu),u=g=>st(s[0],g,s[0].asShare),c=E(l.map(({at:g})=>Math.abs(i[g]))),f=s[s.length-1].labels,d=l.
map(g=>{let b=p("button",{type:"button",className:"plain"},[p("bdi",{textContent:f[g.at]}),ft(t,g.at)]),x=o.columns[g.at].
position;return b.addEventListener("click",()=>e(r.read==="row"?{from:x}:{to:x})),p("tr",{},[p("td",{},[b]),p("td",{},[wn(
Math.abs(i[g.at])/(c||1),Wo(t,s[0],i[g.at]))]),p("td",{textContent:a.map(y=>u(y[g.at])).join(" → ")}),p("td",{className:"\
rank",textContent:lu(g)})])}),h=K(t),m=p("h3",{},[r.read==="row"?"Strongest sources of ":"Strongest destinations of ",p(
"bdi",{textContent:f[h]}),ft(t,h)]);return p("section",{className:"card"},[m,p("table",{className:"profile"},d)])}function oa(t,e,n){
n.replaceChildren(au(t),...t.headsBlock?[]:[uu(t,e)])}async function fu(){if(typeof CircuitsVis=="object")return;let t=new TextDecoder().decode(await ke(w("circuitsvis-bundle").
textContent));document.head.append(p("script",{textContent:t}))}var hu=0;function du(t,e){let{axes:n,data:o}=t,r=p("div",
{id:`circuitsvis-${hu++}`,className:"circuitsvis"}),s=p("figure",{},[p("figcaption",{textContent:`${Ct(t,e)}: ${Ce(t,e)}`}),
r]),a=Array.from({length:n.nRows},(l,u)=>Array.from(e.cells.subarray(u*n.nColumns,(u+1)*n.nColumns),c=>c||0));return[s,()=>CircuitsVis.
render(r.id,CircuitsVis.AttentionPattern,{attention:a,tokens:e.labels,maxValue:e.limit||1,minValue:-(e.limit||1),maskUpperTri:o.
causal,positiveColor:e.scale==="signed"?xe.light.gain:xe.light.contribution,negativeColor:xe.light.loss})]}async function mu(t,e){
e.replaceChildren(p("p",{className:"note",textContent:"CircuitsVis draws…"})),await fu();let n=re(t).map(o=>du(t,o));e.
replaceChildren(...n.map(([o])=>o));for(let[,o]of n)o();e.dataset.drawn="true"}function ra(t,e){if(delete e.dataset.drawn,
w("circuitsvis-bundle")===null||t.selection.view!=="maps"){e.replaceChildren();return}let n=p("button",{type:"button",textContent:"\
Draw with CircuitsVis"});n.addEventListener("click",()=>mu(t,e)),e.replaceChildren(n)}function Oe(t){let{data:e,selection:n}=t;return e.runs[n.run].blocks[t.headsBlock||e.channels.get(n.scope).blockName].tracks}
var pu=.05;function Ee(t){let e=t.map(o=>Object.entries(o.values).filter(([r])=>r!=="residual").flatMap(([,r])=>r).filter(
r=>r!==null)),n=E(e.filter((o,r)=>!t[r].stretched).flat());return t.map((o,r)=>o.stretched?[be([...e[r]],Math.floor(pu*(e[r].
length-1))),E(e[r])]:[0,n])}function le(t){if(!t.stretched)return"";let[[e,n]]=Ee([t]);return`${G(e,2)} to ${G(n,2)}`}function ce(t){
return t===null?"undefined":t.toFixed(3)}function sa(t){let{data:e,selection:n}=t,o=e.layers.indexOf(n.layer);return Oe(
t).filter(r=>r.cumulative).map(r=>{let s=r.columns.map(({label:a,channel:i})=>`${a} ${ce(r.values[i][o])}`);return`Laye\
r ${n.layer} ${r.title}: ${s.join(" → ")}`}).join(" ")}function ht(t){return Le(t,0).length>0}function Le(t,e){return Object.entries(t.runs[e].blocks).filter(([,n])=>n.kind===
"logit")}function tt(t,e){let n=Le(t,e.run),[,o]=n.find(([r])=>r===e.block)||n[0]||[null,null];return o}function Se(t,e){
let[n]=Le(t,0).find(([,o])=>o.position===e)||[];return n?{block:n,to:e-1,read:"row"}:null}function Rt({axes:t,hidden:e},n){
return Float32Array.from(t.columns,({members:o},r)=>e.has(r)?NaN:o.reduce((s,a)=>s+(n[a]??NaN),0))}function Bo(t,e){return e<
t.residual.length-1?String(e):"end"}function ia(t,e){let n=t.runs.flatMap(({blocks:o})=>Object.entries(o)).find(([,o])=>o===
e)[0];return t.runs.map(({blocks:o})=>o[n])}function la(t){return t.biases.some(([,,e])=>e!==0)}function ca(t){return t?
Math.max(0,...t.flat().map(E)):0}function Ho(t){let e=tt(t.data,t.selection),n=e.residual.map(c=>Rt(t,c)),{nColumns:o}=t.
axes,r=new Float32Array(n.length*o);n.forEach((c,f)=>r.set(c,f*o));let s=n.map(()=>-1),a=ia(t.data,e).map(({residual:c})=>Lt(
{nRows:n.length,nColumns:o,own:s},Float32Array.from(c.flatMap(f=>Array.from(Rt(t,f)))),t.selection.range)),i=e.ends?e.ends.
map(c=>c.map(f=>Rt(t,f))):null,l=Math.max(...a,ca(i)),u=e.heads?ua(t,e):0;return{block:e,rows:n,cells:r,limit:l,top:E(r),
scale:"signed",before:null,ends:i,neurons:e.neurons,unit:zt(e),layers:n.map((c,f)=>f<n.length-1?f:null),names:n.map((c,f)=>Bo(
e,f)),strip:la(e)?{name:"biases",scale:"signed",limit:l,values:Float32Array.from(n,(c,f)=>xu(e,f))}:null,heads:e.heads?{
values:e.heads,names:e.heads[0].map((c,f)=>String(f)),least:0,limit:u,scale:"signed",words:fa(u)}:null}}function ua(t,e){
return Math.max(...ia(t.data,e).map(({heads:n})=>E(n.map(E))))}function fa(t){return`heads, ±${J(t,!1)}`}function ha({data:t,
selection:e}){let n=t.channels.get(e.scope),o=ut(t,"head"),r=o.find(([c,f])=>f.of===n.name||c===n.blockName)||o[0],s=r&&
t.runs[e.run].blocks[r[0]].tracks[0];if(!s)return null;let a=s.columns.filter(({channel:c})=>c!=="residual"),i=t.layers.
map((c,f)=>a.map(({channel:d})=>s.values[d][f]??NaN)),[[l,u]]=Ee([s]);return{values:i,least:l,limit:u,scale:"contributio\
n",names:a.map(({label:c})=>c.replace(/^head /,"")),words:`heads: ${s.title}${le(s)&&`, ${le(s)}`}`}}function da(t){let{
data:e,selection:n,axes:o,maps:r}=t,s=xt(t),a=hn(t,n.run,n.scope),i=r.length===3?hn(t,n.refRun,n.ref):null,l=i?[]:pt(e).
filter(f=>n.run===0&&e.loaded(f,n.scope)).map(f=>hn(t,f,n.scope)),u=f=>e.layers.map((d,h)=>f.subarray(h*o.nColumns,(h+1)*
o.nColumns)),c=n.read==="row"&&s.columns.own;return{block:null,rows:u(a),cells:a,before:i&&u(i),ends:l.length===2?l.map(
u):null,scale:s.scale,asShare:s.asShare,limit:Math.max(No(t,a),i?No(t,i):0,ca(l.map(f=>[f]))),top:Math.max(E(a),i?E(i):0),
layers:e.layers,names:e.layers.map(String),neurons:[],unit:"",heads:ha(t),strip:c?{name:"own",scale:"bias",limit:1,values:Ks(
t,n.run,n.scope)}:null}}function ma(t){let e=tt(t.data,t.selection);if(e)return{strip:la(e),heads:e.heads?e.heads[0].length:
0,words:e.heads?fa(ua(t,e)):"",neurons:e.neurons.length>0};let n=ha(t);return{strip:t.selection.read==="row"&&!!xt(t).columns.
own,heads:n?n.names.length:0,words:n?n.words:"",neurons:!1}}function Do(t,e){let{axes:n,selection:o}=t,r=tt(t.data,o);if(r)
return r.position!==void 0&&n.columns[e].position>=r.position;if(o.read==="row")return!n.reaches(t.row,e);let s=n.own.indexOf(
e);return s>=0&&!n.reaches(s,t.column)}function pa(t){return tt(t.data,t.selection)?Ho(t):da(t)}function ga({data:t,selection:e}){
if(e.run!==e.refRun)return`How does “${t.runs[e.run].name}” differ from “${t.runs[e.refRun].name}”?`;let{component:n,
before:o}=t.channels.get(e.scope),{sides:r}=t.block(e.scope);if(r.length)return`What is larger in ${r[0]} than in ${r[1]}\
?`;let s={FF:"feed-forward",ATTN:"attention",RES:"residual connection",LN:"norm"}[n];return s&&e.ref&&e.ref===o?`What do\
es each layer's ${s} change?`:"Which tokens contribute in each layer?"}var gu={others:"vector length, as a share of all \
other tokens'",row:"vector length, as a share of all tokens'",column:"vector length, as a share of the same token's to a\
ll",none:"vector length"},wu={others:"as a share of the sum over all other tokens",row:"as a share of the sum over all t\
okens",column:"as a share of the source's sum over destinations",none:""};function qo(t,e=!0){let{data:n,selection:o}=t,
r=Ut(t),s=lt(t,K(t)),a=n.block(o.scope),{shares:i}=xt(t),u=!a.signed&&["norm","share"].includes(a.short)?gu[i]:wu[i]||(a.
sides.length?a.unit.split(": ")[0]:a.unit),c=a.axis!=="scope"?` through ${n.channels.get(o.scope).name}`:"",f=o.read==="\
row"?At(a,s,"each token"):At(a,"each token",s),d=t.maps.length===3,h=o.run===o.refRun?"before":`in “${n.runs[o.refRun].
name}”, the underline`,m=d?e?`Orange: more than ${h}; violet: less.`:"Zoom in for the change.":pt(n).length&&e?"Lines:\
 95 % intervals; hollow: the interval contains 0.":"";return{...r,meaning:`${e?"Bands":"Cells"}: ${f}${c}: ${u}.`,further:m,
file:["layers",...r.file.slice(1)]}}function bu(t){let{rows:e,before:n,names:o}=da(t),r=I(t),s=function*(){for(let[a,i]of e.
entries())for(let[l,u]of i.entries())Number.isNaN(u)||(yield[o[a],t.axes.columns[l].position,r[l],...n?[n[a][l]]:[],u])};
return{head:["layer","position","token",...n?["before"]:[],"share"],lines:s,count:e.length*r.length}}function xu(t,e){return t.
biases.reduce((n,[,o,r])=>o===e?n+r:n,0)}function yu(t,e){let n=t.residual[e].reduce((r,s)=>r+s,0),o=t.biases.reduce((r,[
,s,a])=>s>=e?r+a:r,0);return{flowing:n,later:o,both:n+o}}function zt(t){return t.unit?` ${t.unit}`:""}function Vo(t){return`${t.
target} = ${A(t.value,4)}${zt(t)}`}function Uo(t){return`${A(t.value,4)} = ${t.sums.map(([e,n])=>`${e} ${S(n,!1,4)}`).join(
" · ")}`}function ku(t,e){return t.residual[e].every(n=>n===0)&&t.value!==0}function Ae(t){let{data:e,selection:n}=t,o=tt(
e,n),r=K(t),s=lt(t,r);if(ku(o,n.layer))return`At the input of layer ${n.layer} all attributions are 0: the target is rea\
d before.`;let a=Rt(t,o.residual[n.layer])[r];return Number.isNaN(a)?`${s} is hidden.`:`At the input of layer ${n.layer}\
, the attribution of ${s} is ${S(a,!1)}${zt(o)}.`}function aa(t){return t.sums.some(([e])=>e==="nonlinear")?"its first-o\
rder form":"it"}function wa(t,e){let{flowing:n,later:o,both:r}=yu(t,e);if(t.ends)return`At the input of layer ${e}: thes\
e positions sum to ${S(n,!1)}; the remainder is of other positions and later biases.`;let s=`At the input of layer ${e}:\
 all tokens ${S(n,!1,4)}, later biases ${S(o,!1,4)}`;return t.complete?`${s}, together ${A(r,4)}${aa(t)==="it"?"":`, ${aa(
t)}`}.`:`${s}; these rules do not sum to the target.`}function ba(t,e,n){let o=Rt(t,tt(t.data,t.selection).residual[e]);
return pn(o,null,n).map(({at:r})=>({column:r,share:o[r]})).filter(({share:r})=>r!==0)}function Ko(t,e){let n=e.heads.split(
".").filter(Boolean);return n.length===1&&Number(n[0])<t?Number(n[0]):-1}function Go(t,e){return t.heads?Ko(t.heads[0].length,
e):-1}var $u=14,vu=.05;function xa({axes:t,hidden:e},n,o){return Object.entries(n.edges).flatMap(([a,i])=>{let[l,u]=a.split(
",").map(Number);return i.map(([c,f,d])=>({layer:l,head:u,query:c,key:f,share:d,from:t.columnOf[f],to:t.columnOf[c]}))}).
filter(({from:a,to:i,share:l})=>a!==i&&!e.has(a)&&!e.has(i)&&Math.abs(l)>=vu*o).sort((a,i)=>Math.abs(i.share)-Math.abs(a.
share)).slice(0,$u)}function Yo(t,e){return t.heads?t.heads[e].map((n,o)=>({head:o,share:n})).sort((n,o)=>Math.abs(o.share)-
Math.abs(n.share)):[]}function Xo(t,e){let n=tt(t,e),o=n&&t.runs[e.run].blocks[n.maps];if(!o)return null;let{name:r}=t.channels.
get(e.scope),s=o.channels.find(a=>a.name===r)||o.channels[o.channels.length-1];return Y(t,n.maps,s.name)}function ya(t,e){
let n=Xo(t,e),{name:o}=t.channels.get(n);return{view:"maps",scope:n,ref:t.channels.has(o)&&!t.block(o).signed?o:""}}var Mu="\
Orange: positive, violet: negative.";function Zo(t,e){let n=tt(t.data,t.selection),{limit:o,top:r}=Ho(t),s=[`Colours end\
 at ±${J(o,!1)}${zt(n)}${r>o*1.0001?` (99th percentile; cells reach ${J(r,!1)})`:""}.`];return t.selection.root&&s.push(
"Square-root scale."),n.ends&&s.push("Lines: 95 % intervals; hollow: the interval contains 0."),n.heads&&s.push(`Heads, \
summed over ${n.ends?"these":"all"} positions, on their own scale: ±${J(E(n.heads.map(E)),!1)}; later layers read earli\
er ones, so heads overlap, and their sum is not that of the tokens.`),t.hidden.size&&s.push("Hidden tokens are left out \
of the picture, not of the sums."),[Mu,...s,...Ro(e),n.certificate].join(" ")}function ka(t,e=!0){let{data:n,selection:o}=t,
r=tt(n,o);return r?{headline:`${Vo(r)}. ${Ae(t)}`,meaning:`${e?"Width and colour":"Colour"}: attribution per token.`,further:[
...Object.keys(r.edges).length?["Arcs: attention heads between positions."]:[],...r.ends&&e?["Lines: 95 % intervals; hol\
low: the interval contains 0."]:[]].join(" "),place:`layer ${o.layer}`,shown:`attribution of the ${r.target}, rules “${r.
rules}”`,remark:`${Uo(r)}.`,note:Zo(t,1),exact:!1,method:r.method,file:[`layer${o.layer}`,`to-${r.target}`.slice(0,60)]}:
qo(t,e)}function $a(t){let e=tt(t.data,t.selection);if(!e)return bu(t);let n=I(t),{rows:o}=Ho(t),r=function*(a,i,l){for(let[
u,c]of l.entries())Number.isNaN(c)||(yield[a,i,t.axes.columns[u].position,n[u],c])};return{head:["part","layer","positio\
n","name","share"],lines:function*(){yield*r("token","",Rt(t,e.entering));for(let[a,i]of o.entries())yield*r("residual s\
tream",Bo(e,a),i);for(let[a,i]of(e.heads||[]).entries())for(let[l,u]of i.entries())yield["head",String(a),"",`L${a}H${l}`,
u];for(let[a,i,l]of e.biases)yield["bias",i<0?"":Bo(e,i),"",a,l]},count:(o.length+1)*n.length}}function D(t,e,n=""){return p("option",{value:t,textContent:e,title:n})}function va(t){let e=ut(t).map(([n,o])=>{let r=o.
channels.map(s=>{let a=Y(t,n,s.name);return D(a,Me(t,a))});return[o.title,r]});return e.length===1?e[0][1]:e.map(([n,o])=>p(
"optgroup",{label:n},o))}function Qo(t){return ht(t)||pt(t).length>0}function Cu(t){let e=t.runs.map((o,r)=>({...o,index:r}));
return(Qo(t)?e.map(o=>[o,o]):e.flatMap(o=>[...e.filter(r=>r!==o),o].map(r=>[o,r]))).map(([o,r])=>D(`${o.index}-${r.index}`,
o===r?o.name:`${o.name} against ${r.name}`))}var Nu={others:"share of the others",row:"share of row",column:"share of co\
lumn",none:"norm"},Jo={percentile:"99th percentile","off-diagonal":"largest of another token",all:"largest of all"};function Ma(t){
w("scope").replaceChildren(...va(t)),w("ref").replaceChildren(D("","nothing"),...va(t)),w("pair").replaceChildren(...Cu(
t)),ht(t)&&w("further").after(w("pair-group"));for(let e of["run","ref-run"])w(e).replaceChildren(...t.runs.map((n,o)=>D(
o,n.name)));w("layer").replaceChildren(...t.layers.map(e=>D(e,e))),w("cells").replaceChildren(...Object.entries(Nu).map(
([e,n])=>D(e,n))),w("range").replaceChildren(...Object.entries(Jo).map(([e,n])=>D(e,n))),w("words-label").hidden=Yn(t.words).
length===t.words.length,w("hide-special-label").hidden=t.special.length===0}var Ca={scope:["scope"],ref:["ref"],run:["ru\
n",Number],"ref-run":["refRun",Number],layer:["layer",Number],cells:["cells"],range:["range"],sort:["sort"],pairs:["pair\
s"],mass:["mass",Number]},Na={root:"root",each:"each",words:"words"};function Oa(){if(!w("colours").open)return;let t=w(
"colours").querySelector(".menu");t.style.marginLeft="";let e=t.getBoundingClientRect().right-document.documentElement.clientWidth+
8;e>0&&(t.style.marginLeft=`${-e}px`)}function Ou(){return[w("hide-special").checked&&"special",w("hide-first").checked&&
"first"].filter(Boolean).join(" ")}function Ea(t){for(let[e,[n,o=String]]of Object.entries(Ca))w(e).addEventListener("ch\
ange",()=>t.go({[n]:o(w(e).value)}));w("pair").addEventListener("change",()=>{let[e,n]=w("pair").value.split("-").map(Number);
t.go(Qo(t.data)?{run:e}:{run:e,refRun:n})});for(let[e,n]of Object.entries(Na))w(e).addEventListener("change",()=>t.go({[n]:w(
e).checked?1:0}));for(let e of["hide-special","hide-first"])w(e).addEventListener("change",()=>t.go({hide:Ou()}));w("col\
ours").addEventListener("toggle",Oa),w("read").addEventListener("click",()=>t.go({read:t.selection.read==="row"?"column":
"row"})),w("closer").addEventListener("click",()=>t.go({zoom:$o(t.scene.axes,t.selection)})),w("whole").addEventListener(
"click",()=>t.go({zoom:""})),w("find").addEventListener("input",()=>t.go({find:w("find").value.slice(0,60)})),Eu(t),w("h\
elp-mode").addEventListener("click",()=>{w("help").hidden=!w("help").hidden,w("help-mode").setAttribute("aria-expanded",
String(!w("help").hidden)),t.resized()})}function Eu(t){let e=w("search");e.addEventListener("input",()=>{let{look:n}=t.
view();w("search-note").textContent=n?n(t.scene,e.value):""}),e.addEventListener("keydown",n=>{if(n.key!=="Enter")return;
n.preventDefault();let{find:o}=t.view(),r=o&&o(t.scene,e.value);if(r&&t.go(r),o)return;let{data:s,selection:a}=t,i=Vs(s.
runs[a.run].tokens,e.value,a.read==="row"?a.to:a.from);w("search-note").textContent=i<0?"not there":`position ${i}`,!(i<
0)&&t.go(s.queries.includes(i)&&a.read==="row"?{to:i}:{from:i,read:"column"})})}function Lu({read:t,to:e,from:n}){let o=w(
"search"),r=String(t==="row"?e:n);document.activeElement!==o&&o.dataset.read!==r&&(o.value=w("search-note").textContent=
""),o.dataset.read=r}function Su(t,e){w(t).setAttribute("aria-pressed",String(!!e))}var Au={"scope-group":["scope",({data:t})=>t.
channels.size>1],"run-group":["run",({data:t})=>t.runs.length>1],"pair-group":["pair",({data:t})=>t.runs.length>1],"ref-\
group":["ref",({data:t})=>t.channels.size>1||t.runs.length>1],"ref-run-group":["refRun",({data:t})=>t.runs.length>1&&!pt(
t).length],"layer-group":["layer",({data:t})=>t.layered],"cells-group":["cells",({data:t,selection:e})=>!t.block(e.scope).
signed],"range-label":["range"],"root-label":["root"],"each-label":["each",({maps:t})=>t.length>2],closer:["zoom",({data:t,
selection:e})=>t.words.length>=ne||e.zoom!==""]},Tu=["range","root","each","words","hide","zoom"];function Ru(t,e){for(let[
n,[o,r=()=>!0]]of Object.entries(Au))w(n).hidden=!e.includes(o)||!r(t)}function zu({selection:t},e){let[n,o]=["off-diago\
nal","all"].map(r=>w("range").querySelector(`[value=${r}]`));U(n,e?Jo.all:Jo["off-diagonal"]),n.hidden=e&&t.range==="all",
o.hidden=e&&t.range!=="all"}function Iu({maps:t,selection:e}){let[n,o]=["change","share"].map(r=>w("sort").querySelector(
`[value=${r}]`));n.hidden=t.length===1,n.hidden&&e.sort==="change"&&(w("sort").value=o.value)}function _u({data:t,selection:e}){
let n=an(t,e),o=t.queries.length<t.words.length,r=n?"":"Shares need every source of a row, in each prompt alone; this pa\
ge has named positions or means. Choose maps of shares if the page has them.";for(let s of w("cells").options)s.disabled=
s.value!=="none"&&(!n||s.value==="column"&&o),s.title=s.value==="none"?"":r||(s.value==="column"&&o?"needs every row; th\
is result has only some":"");w("cells").title=r,U(w("cells").querySelector("[value=none]"),t.block(e.scope).short)}function La(t,{
controls:e,withoutOwn:n=!1,fields:o=r=>[]}){w("colours").hidden=![...e,...o(t)].some(a=>Tu.includes(a));let{data:r,selection:s}=t;
for(let[a,[i]]of Object.entries(Ca))w(a).value=String(s[i]);for(let[a,i]of Object.entries(Na))w(a).checked=s[i]===1;w("h\
ide-special").checked=s.hide.includes("special"),w("hide-first").checked=s.hide.includes("first"),Su("read",s.read==="co\
lumn"),w("whole").hidden=s.zoom===""||!e.includes("zoom"),w("pair").value=`${s.run}-${Qo(r)?s.run:s.refRun}`,Ru(t,e),zu(
t,n),P(r)&&(Iu(t),_u(t)),Oa(),Lu(s),document.activeElement!==w("find")&&(w("find").value=s.find)}var Fu=[["arrows","anot\
her cell of a map; in the overview another layer or token"],["Enter","selects the cell"],["Alt + arrows","another layer,\
 another row"],["[ and ]","the step before, the step after"],["/","find a token or a position"],["z, Esc","zoom in, back\
 out"],["drag","zooms into a part of a map"],["Shift + click","on a token: the other end of the cell; on a head: this on\
e alone"],["f","files, link, caption"],["Back","undoes; the address stores the selection"]];function Sa(){w("help").replaceChildren(
p("p",{id:"help-drawn"}),p("p",{id:"help-layers"}),p("dl",{},Fu.flatMap(([t,e])=>[p("dt",{textContent:t}),p("dd",{textContent:e})])))}
function Aa(t){document.addEventListener("keydown",e=>{if(e.target.closest("input, select, textarea")||e.ctrlKey||e.metaKey)
return;let{data:n,selection:o,scene:r}=t,s=P(n)?[...n.channels.values()].filter(({blockName:u})=>u===n.channels.get(o.scope).
blockName).map(({key:u})=>u):[],a=s.indexOf(o.scope),i=n.layers.indexOf(o.layer),l={"[":()=>a>0&&t.go({scope:s[a-1]}),"]":()=>a<
s.length-1&&t.go({scope:s[a+1]}),ArrowUp:()=>i>0&&t.go({layer:n.layers[i-1]}),ArrowDown:()=>i<n.layers.length-1&&t.go({layer:n.
layers[i+1]}),ArrowLeft:()=>r.row>0&&t.go({to:r.axes.rows[r.row-1].position}),ArrowRight:()=>r.row<r.axes.nRows-1&&t.go(
{to:r.axes.rows[r.row+1].position}),z:()=>t.go({zoom:$o(r.axes,o)}),f:()=>w("figure-mode").click(),"?":()=>w("help-mode").
click(),"/":()=>w("search").focus(),Escape:()=>t.go(o.zoom?{zoom:""}:o.panel?{panel:""}:o.heads?{heads:""}:o.node>=0?{node:-1}:
{})};e.key.startsWith("Arrow")&&!e.altKey||e.key in l&&(e.preventDefault(),l[e.key]())})}function Ta(t){let e=String(t);return`"${(/^[=+\-@\t\r]/.test(e)?`'${e}`:e).replaceAll('"','""')}"`}function ju(t){return Number.
isInteger(t)?String(t):Number.isFinite(t)?String(Number(t.toPrecision(5))):""}var Wu=2**16;function Pu(){let t=new Map;return e=>{
let n=t.get(e);if(n!==void 0)return n;t.size>=Wu&&t.clear();let o=typeof e=="number"?ju(e):Ta(e);return t.set(e,o),o}}function Ra({
head:t,lines:e}){let n=Pu(),o=[t.map(Ta).join(",")];for(let r of e())o.push(r.map(n).join(","));return o.push(""),o.join(
`
`)}var Te=["query","query_token","key","key_token"];function tr({axes:t},e,n,o){return[t.rows[n].position,e[t.own[n]],t.
columns[o].position,e[o]]}function*er({axes:t}){for(let e=0;e<t.nRows;e++)for(let n=0;n<t.nColumns;n++)t.reaches(e,n)&&(yield[
e,n,e*t.nColumns+n])}function*Bu(t){let{axes:e,maps:n,selection:o,strips:r}=t,s=o.cells!=="none",a=I(t);for(let[i,l,u]of er(
t)){let c=s?n.map(f=>f.cells[u]):[];yield[o.layer,"token",...tr(t,a,i,l),...n.map(f=>f.raw[u]),...c]}for(let i of r.filter(
l=>l!=="own"))for(let l=0;l<e.nRows;l++){let u=n.map(c=>c.columns[i]?c.columns[i][l]:NaN);yield[o.layer,i,e.rows[l].position,
a[e.own[l]],"","",...u,...s?n.map(()=>NaN):[]]}}function Hu(t,e,n){let o={others:"share_of_others",row:"share_of_row",column:"\
share_of_column"}[n];return e.role==="difference"?`difference_of_${o}`:e.scale==="signed"?`${t}_difference_of_${o}`:`${t}\
_${o}`}function bn(t){let{data:e,axes:n,maps:o,selection:r}=t,s=Lo(t,({run:u,key:c})=>yt(e,u,c)),a=(u,c,f)=>f==="none"?u:
Hu(u,o[c],f),i=s.map((u,c)=>a(u,c,e.block(o[c].key).shares||"none"));return{head:["layer","part",...Te,...i,...r.cells===
"none"?[]:s.map((u,c)=>a(u,c,r.cells))],lines:()=>Bu(t),count:n.nRows*n.nColumns}}function dt(t,e,n,o,r=p("canvas")){let[s,a,i,l]=t.window,u=Math.max(1,Math.min(l-i+1,Math.floor(n))),c=Math.max(1,Math.min(
a-s+1,Math.floor(o)));(r.width!==u||r.height!==c)&&Object.assign(r,{width:u,height:c});let f=ds(t.cells,t.nColumns,t.window,
u,c),d=r.getContext("2d"),h=d.createImageData(u,c),m=new Uint32Array(h.data.buffer),g=t.scale==="signed";for(let b=0;b<f.
length;b++){let x=f[b],y=e.shades[g?x<0?"loss":"gain":t.scale];m[b]=Number.isNaN(x)?e.outside:y[Math.round(Bt(x,t.limit,
t.root)*Mt)]}return d.putImageData(h,0,0),r}function Nt(t,e,n,o,r){return Object.assign(t.style,{position:"absolute",left:`${e}\
px`,top:`${n}px`,width:`${o}px`,height:`${r}px`}),t}var xn=document.createElement("canvas");xn.getContext("2d",{willReadFrequently:!0});
var nr=4096,or=4;function Du(t,e){let n=Math.max(1,Math.ceil(or*e/t.width)),o=p("canvas",{width:t.width*n,height:t.height*
n}),r=o.getContext("2d");return r.imageSmoothingEnabled=!1,r.drawImage(t,0,0,o.width,o.height),o}function qu({picture:{window:[
t,e,n,o]}}){return(e-t+1)*(o-n+1)}function za(t){return t.reduce((n,o)=>n+qu(o),0)>4*nr?nr/8:nr}function Vu({picture:t,x:e,
y:n,width:o,height:r},s){let a=dt(t,s,or*o,or*r,xn),i=a.width<=o&&a.height<=r,l=(i?Du(a,o):a).toDataURL("image/png");return k(
"image",{x:e,y:n,width:o,height:r,href:l,preserveAspectRatio:"none",...i?{"image-rendering":"pixelated"}:{}})}function Ia(t,e,n){
let{picture:o,x:r,y:s,width:a,height:i}=t,[l,u,c,f]=o.window,[d,h]=[u-l+1,f-c+1];if(d*h>n)return[Vu(t,e)];let[m,g]=[a/h,
i/d];return Array.from({length:d*h},(b,x)=>{let[y,v]=[Math.floor(x/h),x%h],$=o.cells[(l+y)*o.nColumns+c+v],C=Number.isNaN(
$)?e.out:nt(e,$,o.limit,o.scale,o.root).hex;return R(r+v*m,s+y*g,m,g,C)})}var B={size:12,smallest:9.5,index:10,row:88,column:72,crowded:60,many:25,axis:18,spacing:11},ze=1.12,Ot=44,q={gap:6,width:13},
Re=20,_a=250,kt={largest:52,comfortable:12,enough:230,across:1e3,around:230};function Yt(t){return 12+Math.ceil(z(String(
t.data.words.length-1),B.index))}function rr(t,e){return e.labels.slice(t.window[2],t.window[3]+1)}function Ie({window:[
,,t,e]}){return e-t+1<B.many?B.column:B.crowded}function Gt(t){return Math.min(t>36?14:B.size,Math.max(B.smallest,t-1.5))}
function yn(t,e,n,o=B.size){let r=e.reduce((s,a)=>Math.max(s,z(a.slice(0,60),o)),0);return Math.ceil(Math.min(n,ze*r))+Yt(
t)}function Fa(t,e,n,o,r){let s=r/n>o+300;return Array.from({length:e},(a,i)=>B.axis+(s||i%n===0?o:Yt(t)))}function ja(t,e,n,o){
let r=n.slice(0,e).reduce((s,a)=>s+a+o,0);return(t-r-Re*(e-1))/e}function Uu(t,e,n,o,r){let s=Math.min(kt.comfortable*(t.
window[3]-t.window[2]+1),kt.enough);for(let a=e;a>1;a--){let i=Fa(t,e,a,o,n);if(a*(_a+Re)-Re<=n&&ja(n,a,i,r)>=s)return a}
return 1}function Ku(t,e){let[n,o]=[t.window[1]-t.window[0]+1,t.window[3]-t.window[2]+1],r=t.room||t.windowRoom,s=r?(r-kt.
around)/n:kt.largest,a=Math.max(40/o,Math.min(kt.largest,s,kt.across/o,e/o)),i=a>=6?Math.floor(a):a;return{width:i,height:Math.
max(Math.min(i,kt.across/n),Math.min(22,i,o*i/n))}}function Wa(t,e){let n=re(t),o=Gt(kt.across/(t.window[1]-t.window[0]+
1)),r=Math.max(...n.map(x=>yn(t,x.labels,Math.min(B.row,e/4),o))),s=t.strips.length*(q.gap+q.width)+8,a=t.inLine?n.length:
Uu(t,n.length,e,r,s),i=Fa(t,n.length,a,r,e),l=Ku(t,ja(e,a,i,s)),u=Ot+B.axis+Math.max(...n.map(x=>yn(t,rr(t,x),Ie(t),Gt(l.
width)))),[c,f,d,h]=t.window,[m,g]=[l.width*(h-d+1),l.height*(f-c+1)],b=n.map((x,y)=>({map:x,cell:l,top:u,across:m,down:g,
left:i[y],fullLabels:i[y]>B.axis+Yt(t),width:Math.min(e,Math.max(i[y]+m+s,a>1&&t.inLine?0:_a))}));return Gu(t,b,a)}function Gu(t,e,n){
let[o,r,s]=[0,0,0];for(let a=0;a<e.length;a+=n){let i=e.slice(a,a+n);for(let u of i){let c=1/(u.cell.width*(t.ratio||1));
u.notes=Xs(t,u.map,c).flatMap(f=>Ve(f,11,u.width-u.left))}let l=i[0].top+i[0].down+44+14*Math.max(...i.map(u=>u.notes.length));
o=0;for(let u of i)Object.assign(u,{x:o,y:r,height:l}),o+=u.width+Re;s=Math.max(s,o-Re),r+=l+12}return{frames:e,width:Math.
ceil(s),height:Math.ceil(r)}}function It(t){return Math.max(1,Math.ceil(B.spacing/t))}function Xt(t,e,n){return t===n||t%e===0&&Math.abs(t-n)>=e}function Ba(t,e,n,o){
let r="font-weight"in n?ze:1,s=Math.min(e,Math.max(B.smallest,Math.floor(2*e*o/z(t,r*e))/2));return{words:H(t,r*s,o),style:{
"font-size":s,...n}}}function Yu(t,e,n,o){let{axes:r,data:s,palette:a,window:[i]}=t,l=Gt(e.cell.height),u=e.top+(n-i+.5)*
e.cell.height+l*.35,c=e.fullLabels?te(s,r.rows[n].position):r.rows[n].position,f=O(c,e.left-5,u,{"text-anchor":"end","fo\
nt-size":B.index,fill:a.grey});if(!e.fullLabels)return k("g",{},[f]);let d=e.left-Yt(t)-B.axis,{words:h,style:m}=Ba(e.map.
labels[r.own[n]],l,o,Math.max(20,d));return k("g",{},[f,O(h,e.left-Yt(t),u,{"text-anchor":"end",fill:a.ink,...m})])}function Xu(t,e,n,o){
let{axes:r,data:s,palette:a,window:[,,i]}=t,l=Gt(e.cell.width),u=e.left+(n-i+.5)*e.cell.width+l*.35,{words:c,style:f}=Ba(
e.map.labels[n],l,o,Ie(t));return k("g",{},[bt(te(s,r.columns[n].position),u,e.top-5,{"font-size":B.index,fill:a.grey}),
bt(c,u,e.top-Yt(t),{fill:a.ink,...f})])}function Ha(t,e,n,o){let r=It(n);return Array.from({length:Math.floor((e-t)/r)+1},
(s,a)=>({index:t+a*r,node:o(t+a*r,{})}))}function Da(t,e,[n,o],r,s){let a=e>=n&&e<=o;for(let{index:i,node:l}of t)!a||Math.
abs(i-e)>=It(r)?l.removeAttribute("visibility"):l.setAttribute("visibility","hidden");return a?[s(e,{"font-weight":700})]:
[]}function kn(t,e){let[,,n,o]=t.window,r=(a,i)=>Xu(t,e,a,i),s=Ha(n,o,e.cell.width,r);return{nodes:s.map(({node:a})=>a),
mark:a=>Da(s,a,[n,o],e.cell.width,r)}}function Zu(t,e){let[n,o]=t.window,r=(a,i)=>Yu(t,e,a,i),s=Ha(n,o,e.cell.height,r);
return{nodes:s.map(({node:a})=>a),mark:a=>Da(s,a,[n,o],e.cell.height,r)}}function Ju(t,e){let n=e.down<150?"← to":"← t\
o (destination, query)";return bt(n,11,e.top+e.down/2,{"font-size":11,fill:t.palette.grey,"text-anchor":"middle"})}function Qu(t,e){
let{palette:n}=t,o=e.width-(t.exporting?0:30);return[O(H(Ct(t,e.map),14,o),0,14,{"font-size":14,"font-weight":600,fill:n.
ink}),O(H(Ce(t,e.map),12,e.width),0,31,{fill:n.grey})]}function tf({palette:t},e){return e.pictures.slice(1).map(({x:n})=>k(
"rect",{x:n,y:e.top,width:q.width,height:e.down,fill:"none",stroke:t.line}))}function ir(t,e){let n={"font-size":11,fill:t.
palette.grey};e.columns=kn(t,e);let o=e.pictures.slice(1).map(({name:r,x:s})=>bt(r,s+q.width-2,e.top-5,n));return[O("fro\
m (source, key) →",e.left,Ot+12,n),...e.columns.nodes,...o]}var sr=24,ef=0;function $n(t,{scale:e},n=o=>nt(t.palette,o,
1,e,t.selection.root)){let o=e==="signed"?-1:0,r=Array.from({length:sr+1},(s,a)=>k("stop",{offset:a/sr,"stop-color":n(o+
a/sr*(1-o)).hex}));return k("linearGradient",{id:`ramp-${ef++}`},r)}var Pa=11;function ar({left:t,top:e,down:n,width:o}){
return{x:t,y:e+n+10,width:Math.min(190,o-t-26),height:10}}function nf(t,e){let n=$n(t,e.map);return[k("defs",{},[n]),k("\
rect",{...ar(e),fill:`url(#${n.id})`,stroke:t.palette.line,class:"legend"})]}function of(t,e){let{x:n,y:o}=ar(e),r=e.notes.
map((a,i)=>O(a,n,o+38+14*i,{"font-size":11,fill:t.palette.grey})),s=a=>J(a,e.map.asShare,e.map.scale==="signed");return[
...lr(t,ar(e),e.map,s),...r]}function lr({palette:t},{x:e,y:n,width:o,height:r},s,a){let{limit:i}=s,[l,u]=[s.scale==="si\
gned",Ao(s)],c=l?-i:0,f=Ws(l?i:i/2),d=u?i:l?f:2*f,h=[];return[d,l?-d:0,l?0:f].flatMap(m=>{let g=(m-c)/(i-c||1)*o,b=`${u&&
Math.abs(m)===i?m>0?"≥ ":"≤ ":""}${l&&m>0?"+":""}${a(m,m===d)}`,x=z(b,Pa)/2,y=Math.max(x,Math.min(o-x,g));if(h.some(
([$,C])=>y+x+4>$&&y-x-4<C))return[];h.push([y-x,y+x]);let v={"font-size":Pa,"text-anchor":"middle",fill:t.ink};return[k(
"path",{d:`M${e+g} ${n+r}v3`,stroke:t.ink,class:"tick"}),O(b,e+y,n+r+13,v)]})}var qa="not-reachable",cr=`url(#${qa})`,Va="\
negative",vn=`url(#${Va})`;function ue(t){return k("defs",{},[k("pattern",{id:Va,width:4,height:4,patternUnits:"userSpac\
eOnUse",patternTransform:"rotate(45)"},[R(0,0,1,4,t.ink),R(1,0,1,4,t.paper)]),k("pattern",{id:qa,width:6,height:6,patternUnits:"\
userSpaceOnUse",patternTransform:"rotate(45)"},[R(0,0,6,6,t.out),R(0,0,1,6,t.hatch)])])}function rf(t,e){let{data:n,axes:o,
window:[r,s,a,i]}=t;if(!n.causal)return[];let l=[];for(let u=r;u<=s;u++){let c=Math.max(a,o.own[u]+1),f=(i+1-c)*e.cell.width;
f>0&&l.push(`M${e.left+(c-a)*e.cell.width} ${e.top+(u-r)*e.cell.height}h${f}v${e.cell.height}h${-f}z`)}return l.length?[
k("path",{d:l.join(""),fill:cr,class:"unreachable"})]:[]}function ur(t,e){return e.rows=Zu(t,e),[Ju(t,e),...e.rows.nodes,
...rf(t,e),k("rect",{x:e.left,y:e.top,width:e.across,height:e.down,fill:"none",stroke:t.palette.line}),...tf(t,e),...nf(
t,e)]}function sf(t,e){let{data:n,axes:o,selection:r,window:[s,a,i,l]}=t,u=To(t,e.map)&&on(n,e.map.run,e.map.key,r.layer),
{width:c,height:f}=e.cell;if(!u)return[];let d=Math.min(2,c/5,f/5),h=[];for(let m=s;m<=a;m++)for(let g=i;g<=l;g++){let[b,
x]=u.map(N=>N[m*o.nColumns+g]);if(!(b<=0&&x>=0&&b<x))continue;let[y,v]=[e.left+(g-i)*c,e.top+(m-s)*f],[$,C]=[c-2*d,f-2*d];
h.push(`M${y+d} ${v+d}l${$} ${C}m0 ${-C}l${-$} ${C}`)}return h.length?[k("path",{d:h.join(""),stroke:t.palette.grey,"str\
oke-width":Math.min(1,d/2),fill:"none",class:"uncertain"})]:[]}function fr(t,e){return[...Qu(t,e),...sf(t,e),...of(t,e)]}var af={column:[326,420,0],page:[672,900,0],slide:[1280,1280,720]},lf=864,cf=420;function Ga({maps:t},e){let n=t.map(({role:o})=>o);
return t.length<2?[""]:e==="column"?n:["",...n]}function uf(t,e){let{panel:n}=t.selection,o=Ga(t,e);return o.includes(n)?
n:o[o.length-1]}function _e({scene:t,figureOfMap:e}){let n=w("figure-size").value,o=Ga(t,n);return{size:n,panel:o.includes(
e)?e:uf(t,n),roles:o}}function Ya(t,e){let n=Math.max(640,t.width);return af[e]||[n,n,0]}function pr(t){let{size:e,panel:n}=_e(
t),{scene:o}=t;return{...o,selection:{...o.selection,panel:n},width:Ya(t,e)[1]-16,palette:Ye("light"),exporting:!0,striped:e===
"column"||e==="page",ratio:4,inLine:e==="page"||e==="slide",windowRoom:e==="screen"?o.windowRoom:0}}var hr={size:14,"fon\
t-weight":600},dr={size:9},mr=1.3;function Ua(t,{size:e,...n},o){return Ve(t,e*(n["font-weight"]?1.2:1),o)}function Ka(t,{
size:e,...n},o,r){return t.map((s,a)=>O(s,0,o+a*e*mr,{"font-size":e,fill:r,...n}))}function gr(t){let{size:e}=_e(t),[n,o,
r]=Ya(t,e),s=pr(t),a=t.view();if(!a.figure)return null;let i=a.words(s),l=[i.note,`${Io(s.data,s.selection,600)}${i.place&&
`, ${i.place}`}. tl_ffblock ${s.data.provenance.tl_ffblock||""}`],u=N=>{let[T,j]=[Ua(i.headline,hr,N-16),Ua(l.filter(Boolean).
join(" "),dr,N-16)],L=T.length*hr.size*mr+10;return{head:T,foot:j,top:L,beyond:L+j.length*dr.size*mr+8+16}},c=N=>e==="sc\
reen"?0:(r||lf*o/n)-N,f=N=>a.figure({...s,room:c(u(N).beyond)},s.width),d=({width:N=o-16})=>n===o?Math.min(o,Math.max(cf,
Math.ceil(N)+16)):o,h=f(o);if(!h)return null;let m=d(h),g=m<o&&r?f(m):h,{head:b,foot:x,top:y,beyond:v}=u(m),{ink:$,grey:C}=s.
palette;return{scene:s,width:m,shown:n*m/o,height:g.height+v,groups:g.groups.map(N=>({...N,y:N.y+y})),head:Ka(b,hr,12,$),
foot:Ka(x,dr,y+g.height+8,C)}}function wr({scene:t,head:e,foot:n,groups:o,width:r,height:s,shown:a},i,l){let u=o.map(f=>k(
"g",{transform:`translate(${f.x} ${f.y})`},[...i(f),...f.nodes])),c=k("svg",{xmlns:ge,width:a,height:s*a/r,viewBox:`-8 -\
8 ${r} ${s}`,"font-family":ee},[ue(t.palette),...l,...e,...u,...n]);return new XMLSerializer().serializeToString(c)}function Xa(t){
let{palette:e}=t.scene,n=za(t.groups.flatMap(({pictures:r})=>r));return wr(t,({pictures:r})=>r.flatMap(s=>Ia(s,e,n)),[R(
-8,-8,t.width,t.height,e.paper)])}function Za(t,{scene:e,groups:n,width:o,height:r}){let[s,a]=[t.canvas.width/o,t.canvas.
height/r];t.setTransform(s,0,0,a,8*s,8*a),t.imageSmoothingEnabled=!1,t.fillStyle=e.palette.paper,t.fillRect(-8,-8,o,r);for(let i of n)
for(let{picture:l,x:u,y:c,width:f,height:d}of i.pictures)t.drawImage(dt(l,e.palette,f*s,d*a,xn),i.x+u,i.y+c,f,d);t.setTransform(
1,0,0,1,0,0)}function br(t,e){let n=p("a",{href:URL.createObjectURL(t),download:e});n.click(),setTimeout(()=>URL.revokeObjectURL(n.href),
1e4),w("copied").textContent=`saved as ${e}${window.parent===window?"":", unless this frame blocks downloads"}`}function ff({
scene:t},e,n){return _o(t,n.words(t),e)}function ei(t,{scene:e},n){let{size:o}=_e(t),r=t.view().words(e),s=[e.maps.length>
1&&t.view().name==="maps"?e.selection.panel:"",o==="screen"?"":o].filter(Boolean);return _o(e,{...r,file:[...r.file,...s]},
n)}var xr="this view has nothing to save";function hf(t){let e=gr(t);if(!e){w("copied").textContent=xr;return}br(new Blob(
[Xa(e)],{type:"image/svg+xml"}),ei(t,e,"svg"))}var Ja=3;function df(t){return new Blob([mo(t.toDataURL("image/png").split(
",")[1])],{type:"image/png"})}function mf(t){let e=gr(t);if(!e){w("copied").textContent=xr;return}let n=ei(t,e,"png"),o=new Image;
o.onload=()=>{let r=p("canvas",{width:Ja*o.width,height:Ja*o.height}),s=r.getContext("2d");Za(s,e),s.drawImage(o,0,0,r.width,
r.height),br(df(r),n)},o.src="data:image/svg+xml;charset=utf-8,"+encodeURIComponent(wr(e,()=>[],[]))}var pf=4e6;function Qa(t,e){
let n=e.table(t.scene);if(!n){w("copied").textContent=xr;return}let o=n.count*n.head.length;if(o>pf){w("copied").textContent=
`${A(o)} numbers are too many for one file; use .to_dataframe() in Python`;return}br(new Blob([Ra(n)],{type:"text/csv;ch\
arset=utf-8"}),ff(t,"csv",e))}async function ti(t,e){try{await navigator.clipboard.writeText(t),e.textContent="copied",setTimeout(
()=>{e.textContent=""},4e3)}catch{w("caption").textContent=t,w("figure-tools").hidden=!1,w("copied").textContent="this f\
rame blocks copying: select the text below"}}function ni(t){let e=pr(t);return Js(e,t.view().words(e))}function gf(t){let{
scene:e}=t,{panel:n,roles:o}=_e(t),r=a=>a===""?"all maps":Ct(e,e.maps.find(i=>i.role===a));w("figure-maps").replaceChildren(
...o.map(a=>D(a,r(a)))),w("figure-maps").value=n;let s=t.view().name==="maps";w("figure-maps-label").hidden=o.length<2||
!s,U(w("figure-size").querySelector("[value=column]"),s?"one column (3.4 in), one map":"one column (3.4 in)")}function Fe(t){
let e=t.view();gf(t);for(let n of["save-png","save-svg","save-csv"]){let o=!!(n==="save-csv"?e.table:e.figure);w(n).disabled=
!o,w(n).title=o?"":"this view has no such file; use PDF (print)"}w("caption").textContent=ni(t)}function oi(t){w("save-p\
ng").addEventListener("click",()=>mf(t)),w("save-svg").addEventListener("click",()=>hf(t)),w("save-csv").addEventListener(
"click",()=>Qa(t,t.view())),w("pairs-csv").addEventListener("click",()=>Qa(t,{table:bn,words:Ut})),w("print").addEventListener(
"click",()=>window.print()),w("copy-caption").addEventListener("click",()=>ti(ni(t),w("copied"))),w("figure-size").addEventListener(
"change",()=>{t.figureOfMap=null,Fe(t)}),w("figure-maps").addEventListener("change",()=>{t.figureOfMap=w("figure-maps").
value,Fe(t)}),w("copy-link").addEventListener("click",()=>ti(t.address(),w("link-note"))),w("figure-mode").addEventListener(
"click",()=>{let e=w("figure-tools");e.hidden=!e.hidden,w("figure-mode").setAttribute("aria-expanded",String(!e.hidden)),
Fe(t),t.resized()})}var at=globalThis.parent!==globalThis.window;function wf(t,e){let o=Array.from(t.querySelectorAll("[tabindex]")).indexOf(
document.activeElement);e();let r=t.querySelectorAll("[tabindex]")[o];o>=0&&r&&r.focus({preventScroll:!0})}function Mn(t){
let[e,n]=[null,null];return(o,r,s)=>{r===e&&n.update&&n.update(o)!==!1||(wf(t,()=>{let a=s();n=a.nodes?a:{nodes:[a].flat(),
update:null},t.replaceChildren(...n.nodes)}),e=r,n.update&&n.update(o))}}function _t(t,e,n){return JSON.stringify([n,t.ratio,
t.palette.name,...e.map(o=>t.selection[o])])}function ri({paper:t},e,n){if(t){for(let s of e)s();return}let o=[...e],r=()=>{
let s=performance.now()+12;for(;o.length&&n()&&performance.now()<s;)o.shift()();o.length&&n()&&setTimeout(r)};setTimeout(
r)}function bf(t,e,n,o){let{window:[r,s,a,i]}=t,l=r+Math.floor((o-e.top)/e.cell.height),u=a+Math.floor((n-e.left)/e.cell.width),
c=u>=a&&u<=i;if(o<e.top)return c&&o>Ot?{column:u}:null;if(l>s||n<B.axis)return null;if(u<a)return{row:l};if(c)return{row:l,
column:u};let f=Math.floor((n-e.left-e.across-q.gap/2)/(q.width+q.gap)),d=t.strips.filter(h=>e.map.columns[h])[f];return d?
{row:l,strip:d}:null}function Cn(t,{row:e,column:n}){let{axes:o,selection:r}=t,s=e===void 0?void 0:o.rows[e].position;if(n===
void 0)return{to:s,read:"row"};let a=o.columns[n].position;return e===void 0?{from:a,read:"column"}:{to:s,from:a,read:r.
read}}var si={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[0,1]};function xf(t,e,[n,o]){let[r,s,a,i]=t.window,
l=(u,c,f)=>Math.max(c,Math.min(f,u));return{row:l((e.row??t.row)+n,r,s),column:l((e.column??t.column)+o,a,i)}}function yf(t,e){
let n=null,o=k("rect",{class:"band"}),r=s=>s&&s.row!==void 0&&s.column!==void 0;return{down:(s,a,i,l)=>{s.button===0&&s.
pointerType!=="touch"&&r(a)&&(n={target:a,x:i,y:l})},move:(s,a)=>{if(!n||Math.hypot(s-n.x,a-n.y)<6)return;let i={x:Math.
min(s,n.x),y:Math.min(a,n.y),width:Math.abs(s-n.x),height:Math.abs(a-n.y)};for(let[l,u]of Object.entries(i))o.setAttribute(
l,u);o.isConnected||t.marks.parentNode.append(o)},up:s=>{let a=o.isConnected&&n;o.remove();let i=n&&n.target;if(n=null,!a)
return!1;if(!r(s))return!0;let l=[i.row,s.row].sort((c,f)=>c-f),u=[i.column,s.column].sort((c,f)=>c-f);return l[1]>l[0]&&
u[1]>u[0]&&e({zoom:ko([...l,...u])}),!0}}}function ai(t,e){let{panel:n}=t,[o,r]=[null,!1],s=yf(t,e),a=c=>{let f=n.getBoundingClientRect(),
d=c.target.closest(".heads")?t.top-1:c.clientY-f.top;return[c.clientX-f.left,d]},i=c=>bf(t.scene,t,...a(c)),l=(c,f,d)=>{
o=c,t.scene.hover(c),ea(t.scene,c,f,d)},u=c=>{let f=n.getBoundingClientRect(),[d,,h]=t.scene.window;l(c,f.left+t.left+(c.
column-h+1)*t.cell.width,f.top+t.top+(c.row-d+1)*t.cell.height)};n.addEventListener("pointerdown",c=>{r=!1,s.down(c,i(c),
...a(c))}),n.addEventListener("pointermove",c=>{s.move(...a(c)),l(i(c),c.clientX,c.clientY)}),n.addEventListener("pointe\
rup",c=>{r=s.up(i(c))}),n.addEventListener("pointerleave",c=>{s.up(null),c.pointerType!=="touch"&&l(null)}),n.addEventListener(
"blur",()=>l(null)),n.addEventListener("click",c=>{let f=i(c);f&&!r&&e(Cn(t.scene,f)),c.pointerType==="touch"&&l(f,c.clientX,
c.clientY)}),n.addEventListener("dblclick",()=>e({zoom:""})),n.addEventListener("keydown",c=>{if(c.key==="Escape"&&o)l(null);else if(c.
key==="Enter"&&o)e(Cn(t.scene,o));else if(si[c.key]&&!c.altKey)u(xf(t.scene,o||{},si[c.key]));else return;c.preventDefault(),
c.stopPropagation()})}var ii=["#008df9","#e20134","#009f81","#c78a00","#8400cd","#ff6e3a","#00b3a0","#9f0162","#5b7f00","#ff5aaf","#0050a0","#\
a40122","#5b6672"],Q={row:20,smallest:11,printed:3,gap:190,label:150,head:26,band:16,faintest:.04,most:300,apart:1.8,square:7};
function On(t){return ut(t,"head").length>0}function X(t,e){let n=ut(t,"head"),o=t.channels.get(e.scope);return n.find(([
r])=>r===e.block)||n.find(([r,s])=>s.of===o.name||r===o.blockName)||n[0]}function $t(t,e){let[n,o]=X(t,e);return o.channels.
map(r=>Y(t,n,r.name))}function yr(t){return t.name==="residual"}function rt(t,e){let[,n]=X(t,e),o=e.heads.split(".").filter(
Boolean).map(Number).filter(a=>a<n.channels.length);if(o.length)return o;let r=n.channels.map((a,i)=>i),s=r.filter(a=>!yr(
n.channels[a]));return s.length?s:r}function En(t,e){let{data:n,selection:o,axes:r,hidden:s}=t,a=n.matrix(o.run,e,o.layer);
return Ke(r,o.words?me(r,a,n.words.length):a,s,!1)}function kf(t,e,n){let o=rt(t.data,t.selection);if(n)return o.length===
1&&o[0]===e?"":String(e);let r=o.includes(e)?o.filter(s=>s!==e):[...o,e].sort((s,a)=>s-a);return r.length?r.join("."):String(
e)}function $f(t,e){let{data:n,selection:o}=t,[,r]=X(n,o),s=rt(n,o),a=r.channels.map((l,u)=>{let c=s.includes(u),f=p("bu\
tton",{type:"button",className:"head",textContent:l.name.replace(/^head /,""),title:`${l.name}: click shows or hides, sh\
ift-click shows it alone`});return f.setAttribute("aria-pressed",String(c)),r.signed||f.style.setProperty("--head",An(u)),
f.addEventListener("click",d=>e({heads:kf(t,u,d.shiftKey)})),f}),i=p("button",{type:"button",textContent:"all"});return i.
addEventListener("click",()=>e({heads:""})),p("div",{className:"toggles head-choice"},[kr(t,e),p("span",{className:"note",
textContent:"heads"}),...a,i,...vf(t,e)])}function vf(t,e){let{segments:n}=t.data;if(n.length<2)return[];let r=n.flatMap(
([a],i)=>n.map(([l],u)=>[`${i}-${u}`,`${l} → ${a}`])).filter(([a])=>xo(t.data,a)).map(([a,i])=>D(a,i)),s=p("select",{},
[D("","all lines"),...r]);return s.autocomplete="off",s.value=t.selection.between,s.setAttribute("aria-label","lines bet\
ween segments"),s.addEventListener("change",()=>e({between:s.value})),[s]}function Ln({data:t,selection:e,axes:n}){let[o,
r]=e.between.split("-").map(Number),s=n.columns.map(({position:i})=>Xn(t,i)),a=e.between==="";return{row:i=>a||s[n.own[i]]===
o,column:i=>a||s[i]===r}}function kr(t,e){let{data:n,selection:o}=t,[r]=X(n,o),s=p("select",{},ut(n,"head").map(([a,i])=>D(
a,i.title)));return s.autocomplete="off",s.value=r,s.setAttribute("aria-label","maps by head"),s.addEventListener("chang\
e",()=>e({block:s.value})),s}var Mf=en();function Sn(t){return Mf(_t(t,$r(t),0),()=>Cf(t))}function Cf(t){let{data:e,selection:n,
axes:o}=t,r=$t(e,n),s=Ln(t),a=c=>c.map((f,d)=>s.row(Math.floor(d/o.nColumns))&&s.column(d%o.nColumns)?f:NaN),i=rt(e,n).map(
c=>[c,a(En(t,r[c]))]),l=Math.max(...i.map(([,c])=>E(c)))||1,u=[];for(let[c,f]of i)f.forEach((d,h)=>{let m=d/l;Math.abs(m)>=
Q.faintest&&u.push([Math.floor(h/o.nColumns),h%o.nColumns,m,c])});return{limit:l,lines:u.sort((c,f)=>Math.abs(c[2])-Math.
abs(f[2]))}}function $r({selection:t}){return["run","layer","heads","between","block","words","hide",...t.block?[]:["sco\
pe"]]}function An(t){return ii[t%ii.length]}function li({data:t,selection:e,palette:n}){let{signed:o}=X(t,e)[1];return([
,,r,s])=>o?n[r<0?"loss":"gain"]:An(s)}function vr(t,e,n,o){let{selection:r,row:s,column:a}=t,i=li(t),l=n||(r.read==="row"?
{row:s}:{column:a}),u=([d,h])=>(l.row===void 0||l.row===d)&&(l.column===void 0||l.column===h),[c,f]=[e.length-Q.most,rt(
t.data,r)];for(let d of[!1,!0])for(let[h,m]of e.entries()){if(u(m)!==d||!d&&h<c)continue;m[4]=(f.indexOf(m[3])-(f.length-
1)/2)*Q.apart;let g=Math.abs(m[2]);d?o(m,i(m),Math.min(1,.15+g),2):o(m,i(m),.3*g,1)}}function Mr(t,[e,n,,,o=0]){let r=Math.
max(-t.height/2,Math.min(t.height/2,o)),[s,a]=[t.y(e)+r,t.yColumn(n)+r];return[t.left,s,t.left+70,s,t.right-70,a,t.right,
a]}function Nn(t,e,n,o,r){let s=e.getContext("2d");s.setTransform(t.ratio,0,0,t.ratio,0,0),s.clearRect(0,0,e.width,e.height),
vr(t,o,r,(a,i,l,u)=>{let[c,f,...d]=Mr(n,a);Object.assign(s,{globalAlpha:l,strokeStyle:i,lineWidth:u}),s.beginPath(),s.moveTo(
c,f),s.bezierCurveTo(...d),s.stroke()})}function Cr(t,e){let[n,o]=e.size;return Nt(p("canvas",{width:Math.round(n*t.ratio),
height:Math.round(o*t.ratio)}),0,0,n,o)}function Nr(t,e,n){let{axes:o,palette:r}=t,s=I(t),a=Ln(t),i=Math.min(13,Math.max(
B.smallest,n)),l=It(n),u=e.left-26-(t.data.segments.length?Q.band:0),c=(m,g,b,x,y)=>O(H(m,i,u),g,b+i*.35,{"text-anchor":x,
"font-size":i,fill:y?r.ink:r.grey,opacity:y?1:.5,class:"line-token"}),f=(m,g,b,x)=>O(m,g,b+3.5,{"text-anchor":x,"font-si\
ze":9,fill:r.grey}),d=o.rows.map((m,g)=>({...m,row:g})).filter(({row:m})=>Xt(m,l,t.row)),h=o.columns.map((m,g)=>({...m,column:g})).
filter(({column:m})=>Xt(m,l,t.column));return[...d.map(({position:m,row:g})=>({target:{row:g},node:c(s[o.own[g]],e.left-
26,e.y(g),"end",a.row(g)),number:f(te(t.data,m),e.left-5,e.y(g),"end")})),...h.map(({position:m,column:g})=>({target:{column:g},
node:c(s[g],e.right+26,e.yColumn(g),"start",a.column(g)),number:f(te(t.data,m),e.right+5,e.yColumn(g),"start")}))]}function Or(t,e){
let{data:n,axes:o,palette:r}=t,s=o.columns.map(({position:a})=>Xn(n,a));return n.segments.flatMap(([a],i)=>{if(!s.includes(
i))return[];let[l,u]=[e.yColumn(s.indexOf(i))-e.height/2+1,e.yColumn(s.lastIndexOf(i))+e.height/2-1],c=d=>O(H(a,11,u-l),
0,0,{"text-anchor":"middle","font-size":11,fill:r.grey,class:"segment",transform:`translate(${d} ${(l+u)/2}) rotate(-90)`}),
f=d=>R(d,l,2,u-l,r.grey);return[f(Q.band-2),c(Q.band-6),f(e.size[0]-Q.band),c(e.size[0]-2)]})}function Er(t,e){let{axes:n}=t,
o=Math.max(t.room?Q.printed:Q.smallest,Math.min(Q.row,(t.room?t.room-60:1400)/n.nColumns)),r=Math.min(Q.label,Math.max(70,
(e-90)/3)),s=Math.min(e-r,r+Math.max(Q.gap,Math.min(520,.55*e))),a=c=>Q.head+(c+.5)*o,i=Math.max(...I(t).map(c=>z(c.slice(
0,60),Math.min(13,Math.max(B.smallest,o))))),l=s+32+Math.min(i,r-26),u=t.room?0:rt(t.data,t.selection).length*(Q.square+
1)+8;return{height:o,left:r,right:s,squares:l,yColumn:a,y:c=>a(n.own[c]),size:[s+r+u,Q.head+n.nColumns*o+8]}}function Lr(t,e){
let n={"font-size":11,fill:t.palette.grey},o=(r,s)=>z(r,11)<=e.left?r:s;return[O(o("to (destination, query)","to (query)"),
e.left,14,{...n,"text-anchor":"end"}),O(o("from (source, key)","from (key)"),e.right,14,n)]}function Nf(t,e,n,o){let r=k(
"svg",{width:e.size[0],height:e.size[1]},[...Lr(t,e),...Or(t,e),...n.flatMap(({node:s,number:a})=>[s,a])]);for(let{node:s,
target:a}of n)s.addEventListener("click",()=>o(Cn(t,a)));return r}function Of(t,e,{lines:n}){let{selection:o,row:r,column:s}=t,
a=li(t),i=rt(t.data,o),l=Math.min(Q.square,e.height-2);return n.filter(([u,c])=>o.read==="row"?u===r:c===s).map(u=>{let[
c,f]=[o.read==="row"?e.yColumn(u[1]):e.y(u[0]),e.squares+i.indexOf(u[3])*(l+1)],d=R(f,c-l/2,l,l,a(u));return d.setAttribute(
"fill-opacity",Math.min(1,.1+.9*Math.abs(u[2])).toFixed(2)),d})}function Sr(t,e){for(let{node:n,target:o}of e)n.setAttribute(
"font-weight",o.row===t.row||o.column===t.column?700:400)}function Ar({data:t,selection:e},n){return`Width and strength \
of a line: ${X(t,e)[1].unit}, up to ${J(n,!1)}; none below ${G(Q.faintest)} of that.`}var Tr=[["gain","positive"],["loss",
"negative"]];function Ef({data:t,selection:e,palette:n}){if(!X(t,e)[1].signed)return[];let o=r=>{let s=p("i",{className:"\
swatch"});return s.style.backgroundColor=n[r],s};return[p("p",{className:"note signs"},Tr.map(([r,s])=>p("span",{},[o(r),
` ${s}`])))]}function ci(t,e,n){let o=Er(t,n),{limit:r,lines:s}=Sn(t),a=Cr(t,o),i=Nr(t,o,o.height),l=Nf(t,o,i,e),u=k("g",
{class:"head-squares"});l.append(u);let c=p("div",{className:"lines"},[a,l]),f=`${Ar(t,r)} Drawn: the strongest ${Q.most}\
 and all of the selected token, whose squares are its heads. Point at a token for its lines, click to select it.`,d=h=>{
Sr(h,i),u.replaceChildren(...Of(h,o,{lines:s}));for(let{node:m,target:g}of i)m.onpointerenter=()=>h.hover(g);l.onpointerleave=
()=>h.hover(null),h.marked.push(m=>Nn(h,a,o,s,m)),Nn(h,a,o,s,null)};return{nodes:[$f(t,e),...Ef(t),c,p("p",{className:"n\
ote",textContent:f})],update:d}}var Lf=3e3;function Sf(t,e,n){if(n.length>Lf){let r=Cr(t,e);return Nn(t,r,e,n,null),[k("image",{x:0,y:0,width:e.size[0],
height:e.size[1],href:r.toDataURL("image/png")})]}let o=[];return vr(t,n,null,(r,s,a,i)=>{let[l,u,...c]=Mr(e,r);o.push(k(
"path",{d:`M${l} ${u}C${c.join(" ")}`,fill:"none",stroke:s,"stroke-opacity":a.toFixed(3),"stroke-width":i}))}),o}function Af({
data:t,selection:e,palette:n}){let[,o]=X(t,e);return o.signed?Tr.map(([r,s])=>[n[r],s]):rt(t,e).map(r=>[An(r),o.channels[r].
name])}function Tf(t,e){let n=[],[o,r]=[0,9];for(let[s,a]of Af(t)){let i=15+z(a,11);o+i>e&&([o,r]=[0,r+15]),n.push(R(o,r-
8,10,8,s),O(a,o+14,r,{"font-size":11,fill:t.palette.ink})),o+=i+14}return{nodes:n,height:r+14}}function ui(t,e){let n=Tf(
t,e),o=Er(t,e),r=Nr(t,o,o.height);Sr(t,r);let s=[...Sf(t,o,Sn(t).lines),...Lr(t,o),...Or(t,o),...r.flatMap(({node:i,number:l})=>[
i,l])];return{groups:[{x:0,y:0,pictures:[],nodes:n.nodes},{x:0,y:n.height,pictures:[],nodes:s}],height:n.height+o.size[1]}}
function Rf(t){let{data:e,selection:n,axes:o,row:r,column:s}=t,[a,i]=[lt(t,o.own[r]),lt(t,s)];if(!o.reaches(r,s))return Ne(
a,i);let[,l]=X(e,n),u=$t(e,n),c=b=>(n.words?En(t,b):e.matrix(n.run,b,n.layer))[r*o.nColumns+s],d=rt(e,n).map(b=>({name:l.
channels[b].name,value:t.hidden.has(s)?NaN:c(u[b])})).filter(({value:b})=>Number.isFinite(b)).sort((b,x)=>Math.abs(x.value)-
Math.abs(b.value));if(!d.length)return`There is no number here of the ${At(l,a,i)}.`;let[{name:h,value:m}]=d,g=d.length>
1?` has the largest ${l.short} of the ${d.length} shown`:`: ${l.short}`;return`Layer ${n.layer}, from ${i} to ${a}: ${h}${g}${d.
length>1?":":""} ${l.signed?S(m,!1):A(m)}.`}function zf({data:t,selection:e}){if(e.between==="")return"";let[n,o]=e.between.
split("-").map(r=>t.segments[Number(r)][0]);return` Drawn: lines from ${o} to ${n} only.`}function fi(t){let{data:e,selection:n}=t,
[o,r]=X(e,n),s=rt(e,n),a=s.length<r.channels.length?s.map(i=>r.channels[i].name).join(", "):"all heads";return{headline:Rf(
t),meaning:"A line joins the destination (left) and the source (right) of a cell of a head's map.",further:`A cell: ${r.
meaning}.`,place:`layer ${n.layer}`,shown:`${r.title}, ${a}`,remark:"",note:`${Ar(t,Sn(t).limit)} Those of ${lt(t,K(t))}\
 stand out.${zf(t)}`,exact:r.exact,method:"",file:[`layer${n.layer}`,`lines-${o}`.slice(0,60),n.heads?`heads${n.heads}`:
"all-heads",...n.between?[`segments${n.between}`]:[]]}}function Rr(t,e,n,o={row:r=>!0,column:r=>!0}){let{data:r,selection:s,
axes:a}=t,[,i]=X(r,s),l=$t(r,s),u=I(t),c=function*(){for(let d of n){let h=e.map(m=>En({...t,selection:{...s,layer:d}},l[m]));
for(let[m,g,b]of er(t))o.row(m)&&o.column(g)&&(yield[d,...tr(t,u,m,g),...h.map(x=>x[b])])}};return{head:["layer",...Te,...e.
map(d=>`${i.channels[d].name} ${i.short}`)],lines:c,count:n.length*a.nRows*a.nColumns}}function hi(t){return Rr(t,rt(t.data,
t.selection),[t.selection.layer],Ln(t))}var Ir=5;function wt(t,e,n,o,r){return k("rect",{x:t-.75,y:e-.75,width:n+1.5,height:o+1.5,fill:"none",stroke:r,"stroke-w\
idth":1.25})}function di(t,e,n,o){let r={left:[[0,0],[6,-4],[6,4]],up:[[0,0],[-4,6],[4,6]]}[n];return k("polygon",{points:r.
map(([s,a])=>`${t+s},${e+a}`).join(" "),fill:o})}function zr(t,e,n,o){let[r,s]=t.window;if(n<r||n>s)return[];let a=e.top+
(n-r)*e.cell.height;if(e.cell.height>=Ir)return[wt(e.left,a,e.across,e.cell.height,o)];let i=a+e.cell.height/2;return[di(
e.left+e.across+1,i,"left",o)]}function fe(t,e,n,o){let[,,r,s]=t.window;if(n<r||n>s)return[];let a=e.left+(n-r)*e.cell.width;
if(e.cell.width>=Ir)return[wt(a,e.top,e.cell.width,e.down,o)];let i=a+e.cell.width/2;return[di(i,e.top+e.down+1,"up",o)]}
function If(t,e,n){let{row:o,column:r,selection:s,window:[a,i,l,u]}=t;if(o<a||o>i||r<l||r>u)return[];let{width:c,height:f}=e.
cell,[d,h]=[e.left+(r-l)*c,e.top+(o-a)*f];return Math.min(c,f)>=Ir?[wt(d+1.5,h+1.5,c-3,f-3,n)]:s.read==="row"?fe(t,e,r,n):
zr(t,e,o,n)}function _r(t,e,n){let{palette:o,selection:r,row:s,column:a}=t,l=[...r.read==="row"?zr(t,e,s,o.mark):fe(t,e,
a,o.mark),...If(t,e,o.mark)];return n&&n.row!==void 0&&l.push(...zr(t,e,n.row,o.read)),n&&n.column!==void 0&&l.push(...fe(
t,e,n.column,o.read)),l}var pi=["run","refRun","words","panel","zoom","root"];function Tn(t,e){return{cells:e.cells,nColumns:t.axes.nColumns,window:t.
window,scale:e.scale,limit:e.limit,root:t.selection.root}}function _f(t,e,n){let o=e.scale==="signed",[r,s]=t.window,a=t.
maps.filter(l=>l.columns[n]&&l.role==="difference"==(e.role==="difference")),i=n==="own"&&!o?1:Math.max(...a.map(l=>E(l.
columns[n])));return{cells:e.columns[n],nColumns:1,window:[r,s,0,0],scale:o?"signed":"bias",limit:i,root:0}}function Ff(t,e){
let n=t.strips.filter(s=>e.map.columns[s]),o={y:e.top,height:e.down};return[{name:"",picture:Tn(t,e.map),x:e.left,width:e.
across,...o},...n.map((s,a)=>({name:s,picture:_f(t,e.map,s),width:q.width,...o,x:e.left+e.across+q.gap+a*(q.width+q.gap)}))]}
function gi(t,e,n,o,r){let s=fn(t,e,n);return dt(Tn(s,s.map),t.palette,o*t.ratio,r*t.ratio)}function mi(t){return JSON.stringify(
t.map(({map:e,pictures:n,cell:o,top:r,left:s,across:a,width:i,x:l,y:u,height:c})=>[e.role,e.scale,e.labels,n.map(({name:f})=>f),
o,r,s,a,i,l,u,c]))}function Fr(t,e){let n=Wa(t,e);for(let o of n.frames)o.pictures=Ff(t,o);return n}function jf(t,e,n){let[
o,r,s]=[k("g"),k("g",{class:"marks"}),k("g")],[a,i]=[ur(t,e),[o,r]].map(d=>k("svg",{width:e.width,height:e.height,"aria-\
hidden":"true"},d)),l=e.pictures.map(()=>p("canvas")),u=e.pictures.map(({name:d,x:h,width:m},g)=>Nt(p("div",{className:d?
"beside":"cells"},[l[g]]),h,e.top,m,e.down)),c=Nt(p("div",{className:"panel",tabIndex:0},[Wf(e,[...ir(t,e),s]),...u,a,i]),
e.x,e.y,e.width,e.height);return c.setAttribute("role","application"),c.dataset.role=e.map.role,t.maps.length>1&&!t.beside&&
c.append(Pf(t,e,n)),Object.assign(e,{panel:c,marks:r,named:s,fill:(d,{map:h,notes:m,pictures:g})=>{Object.assign(e,{map:h,
notes:m,pictures:g}),g.forEach(({picture:b,width:x},y)=>dt(b,d.palette,x*d.ratio,e.down*d.ratio,l[y])),o.replaceChildren(
...fr(d,e)),c.setAttribute("aria-label",`${Ct(d,h)}. Arrow keys read cells, Enter selects.`)}})}function Wf({top:t,width:e},n){
let o=t-Ot-5,r=p("div",{className:"heads"},[k("svg",{width:e,height:o,viewBox:`0 ${Ot} ${e} ${o}`,"aria-hidden":"true"},
n)]);return r.style.marginTop=`${Ot}px`,r}function Pf(t,e,n){let o=t.selection.panel===e.map.role,r=p("button",{type:"bu\
tton",className:"enlarge",textContent:o?"⤡":"⤢",title:o?"show all maps":"show this map alone"});return r.setAttribute(
"aria-label",r.title),r.addEventListener("click",s=>{s.stopPropagation(),n({panel:o?"":e.map.role})}),r.addEventListener(
"pointerdown",s=>s.stopPropagation()),r}function Bf(t,e){let n=o=>{for(let r of e)r.marks.replaceChildren(...r.selected,
..._r(t,r,o))};for(let o of e)o.scene=t,o.selected=o.rows.mark(t.row),o.named.replaceChildren(...o.columns.mark(t.column));
t.marked.push(n),n(null)}function jr(t,e,n){let o=Fr(t,n),r=mi(o.frames),s=p("div",{className:"plot"},[k("svg",{width:0,
height:0,"aria-hidden":"true"},[ue(t.palette)])]);s.style.height=`${o.height}px`;for(let l of o.frames)s.append(jf(t,l,e).
panel),ai(l,e);let a="",i=l=>{let u=_t(l,qt,n)+l.windowRoom;if(u!==a){let{frames:c}=a===""?o:Fr(l,n);if(a!==""&&mi(c)!==
r)return!1;c.forEach((f,d)=>o.frames[d].fill(l,f)),a=u}return Bf(l,o.frames),!0};return{nodes:t.beside?[s]:[...Df(t,e),s],
update:i}}var Hf={before:"before",after:"after",difference:"change"};function Df({maps:t,selection:e},n){if(!e.panel||t.
length<2)return[];let o=[...t.map(({role:r})=>[r,Hf[r]]),["","side by side"]];return[p("div",{className:"toggles panels"},
o.map(([r,s])=>{let a=p("button",{type:"button",textContent:s});return a.setAttribute("aria-pressed",String(r===e.panel)),
a.addEventListener("click",()=>n({panel:r})),a}))]}function wi(t,e){let n=Fr(t,e);return{groups:n.frames.map(r=>({x:r.x,
y:r.y,pictures:r.pictures,nodes:[...ir(t,r),...ur(t,r),...r.rows.mark(t.row),...r.columns.mark(t.column),...fr(t,r),k("g",
{class:"marks"},_r(t,r,null))]})),width:n.width,height:n.height}}var qf="Rows: layers, columns: heads. Each small map has its own scale.",Z={label:26,head:18,gap:3,largest:110,smallest:22,
pale:.3};function bi({data:t,selection:e}){return Dt(X(t,e)[1])?e.cells:"none"}function Pr(t){let{data:e,selection:n}=t,
{channels:o}=X(e,n)[1],r=$t(e,n),s=r.filter((a,i)=>!yr(o[i]));return bi(t)==="others"&&s.length?s:r}function xi(t){let e=Pr(
t).length<$t(t.data,t.selection).length;return qf+(e?" The residual connection contributes to the token itself only: it \
has no column.":"")}function Rn({data:t,selection:e},n){return e.heads===""||rt(t,e).includes(t.channels.get(n).index)}function yi({
selection:t}){return["run","cells","range","root","words","hide","block",...t.block?[]:["scope"]]}function Vf(t,e,n,o,r){
let{data:s}=t,a=`layer ${o}, ${s.channels.get(n).name}`,i=p("button",{type:"button",className:"grid-cell",title:a});return i.
setAttribute("aria-label",a),Object.assign(i.style,{width:`${r}px`,height:`${r}px`}),i.addEventListener("click",()=>e({layer:o,
scope:n,ref:"",view:"maps"})),i}function ki(t,e){return Math.max(Z.smallest,Math.min(Z.largest,Math.floor((e-Z.label-8)/
t)-Z.gap))}function Wr(t,e){return t.channels.get(e).name.replace(/^head /,"")}function $i(t,e,n){let{data:o}=t,r=Pr(t),
s=ki(r.length,n),a=o.layers.map(h=>r.map(m=>({layer:h,key:m,button:Vf(t,e,m,h,s)}))),i=a.map(h=>p("div",{className:"grid\
-line"},[p("span",{className:"grid-layer",textContent:h[0].layer}),...h.map(({button:m})=>m)])),l=r.map(h=>{let m=p("spa\
n",{className:"grid-head",textContent:Wr(o,h)});return m.style.width=`${s}px`,m}),u=p("div",{className:"grid-line grid-h\
eads"},[p("span",{className:"grid-layer"}),...l]),c=a.flat();ri(t,c.map(({layer:h,key:m,button:g})=>()=>g.append(gi(t,h,
m,s,s))),()=>u.isConnected);let f=h=>{l.forEach((m,g)=>m.classList.toggle("chosen",h.selection.heads!==""&&Rn(h,r[g])));
for(let{button:m,key:g,layer:b}of c)m.classList.toggle("current",b===h.selection.layer&&(h.selection.heads===""?g===h.selection.
scope:Rn(h,g))),m.style.opacity=Rn(h,g)?"":String(Z.pale)};return{nodes:[...ut(o,"head").length>1?[p("div",{className:"t\
oggles"},[kr(t,e)])]:[],p("p",{className:"note",textContent:`${xi(t)} A click opens a map.`}),p("div",{className:"grid"},
[u,...i])],update:f}}function vi(t,e){let{data:n,palette:o}=t,r=Pr(t),s=Math.min(ki(r.length,e)+Z.gap,(e-Z.label)/r.length,
t.room?(t.room-Z.head)/n.layers.length:1/0),[a,i]=[s-Z.gap,It(s)],l=n.layers.flatMap((g,b)=>r.map((x,y)=>{let v=fn(t,g,x);
return{picture:Tn(v,v.map),x:Z.label+y*s,y:Z.head+b*s,width:a,height:a}})),u={"font-size":10,fill:o.grey},c=n.layers.flatMap(
(g,b)=>b%i?[]:[O(g,Z.label-6,Z.head+b*s+a/2+4,{...u,"text-anchor":"end"})]),f=Math.max(...r.map(g=>z(Wr(n,g),10)))>s,d=r.
map((g,b)=>{let x=Z.label+b*s+a/2;return f&&b%i?O("",x,0):O(H(Wr(n,g),10,Math.max(s,24)),x,Z.head-5,{...u,"text-anchor":"\
middle"})}),h=l.map(({x:g,y:b})=>k("rect",{x:g,y:b,width:a,height:a,fill:"none",stroke:o.line,"stroke-width":.5})),m=r.flatMap(
(g,b)=>Rn(t,g)?[]:[k("rect",{x:Z.label+b*s,y:Z.head,width:a,height:n.layers.length*s,fill:o.paper,"fill-opacity":1-Z.pale})]);
return{groups:[{x:0,y:0,pictures:l,nodes:[...c,...d,...h,...m]}],height:Z.head+n.layers.length*s}}function Mi(t){let{data:e,
selection:n}=t,[o,r]=X(e,n),s=bi(t);return{headline:`Every layer and head: ${r.title}.`,meaning:"Each small map is a hea\
d of a layer.",further:`A cell: ${zo(r,s)}.`,place:"all layers",shown:`${r.title}, all heads`,remark:"",note:xi(t),exact:r.
exact,method:"",file:["all-layers",`heads-${o}`.slice(0,60),s]}}function Ci(t){let e=X(t.data,t.selection)[1].channels.map(
(n,o)=>o);return Rr(t,e,t.data.layers)}var W={left:34,gap:26,smallest:4,largest:20,few:96,lowest:330,wide:640,around:320,head:20,enough:330,legend:190,banded:7,
least:1.5},Zt={width:13,gap:12},Ft={most:6,each:15,radius:6,least:.03},he={widest:7,thinnest:1,named:3,sag:.16,apart:9,reach:12};
function Si(t){return ht(t)||P(t)&&t.layered&&t.layers.length>1}function Ai({data:t,selection:e}){let n=["run","block","\
words","hide","zoom","range","root"];return ht(t)?n:[...n,"scope","ref","refRun","read","cells",e.read==="row"?"to":"fro\
m"]}function Uf(t,e,n){let o=t.room?(t.room-150-(n?80:0))*e/(e+n):at?t.framed*e/(e+n):Math.max(W.lowest,window.innerHeight-
W.around);return Math.max(W.smallest,Math.min(e>13?W.largest:W.few,o/e))}function Ti(t){let[e,n]=Object.entries(t.data.runs[t.
selection.run].blocks).find(([,{exact:o,tracks:r,axis:s}])=>o&&s==="scope"&&r&&r.length)||["",null];return n?n.tracks[0].
columns.map(o=>({...o,name:e,title:o.ref?"change":n.tracks[0].title,values:n.tracks[0].values[o.channel]})):[]}function Ri(t,e){
let{window:[,,n,o]}=t,{strip:r,heads:s,words:a,neurons:i}=ma(t),l=z(a,11),u=Ti(t),c=W.left+(u.length?u.length*Zt.width+Zt.
gap:0),f=c+(r?q.gap+q.width:0)+8,d=s?Math.max(6,Math.min(W.head,e/3/s)):0,h=i?W.gap+Ft.most*Ft.each:0,m=(s?W.gap+Math.max(
l,d*s):0)+h,g=m>0&&e-f-m>=W.enough,b=e-f-(g?m:0),x=Math.min(Math.max(kt.largest,W.wide/(o-n+1)),b/(o-n+1));return{changes:u,
heads:s,named:l,left:c,beyond:f,across:d,dots:h,further:m,beside:g,wide:x}}function zi(t,e){let{window:[,,n,o]}=t,r=pa(t),
s=r.rows.length,{changes:a,heads:i,named:l,left:u,beyond:c,across:f,dots:d,further:h,beside:m,wide:g}=Ri(t,e),b=t.data.layers.
length&&r.block?s-1:s,x=h>0&&!m,y=Uf(t,s,x?b:0),v={width:g,height:y},$={labels:I(t)},C=8+yn(t,rr(t,$),Ie(t),Gt(v.width)),
N={left:u,top:C,cell:v,across:v.width*(o-n+1),down:y*s,map:$},T=C+N.down+(r.before?48:34),j=m?f:Math.min(W.head,(e-W.left-
d-8)/Math.max(1,i)),L={left:m?N.across+c-8+W.gap:W.left,top:m?C:T+36,cell:{width:j,height:y},across:j*i,down:y*b},_=L.left+
Math.max(l,L.across),V=d?{...L,left:_+(i?W.gap:0),across:Ft.most*Ft.each}:null;return{width:Math.max(N.left+N.across+c-u,
...h?[_,V?V.left+V.across:0]:[]),stream:r,lines:b,frame:N,heads:i,headFrame:L,neuronFrame:V,beside:m,changes:a,strip:r.strip?
N.left+N.across+q.gap:null,height:x?L.top+L.down+8:T}}function je({frame:t}){return t.cell.width>=W.banded}function Ii(t){
return ka(t,Ri(t,t.width).wide>=W.banded)}function _i(t,e){let{stream:n,lines:o,frame:r,headFrame:s,heads:a,strip:i,changes:l}=e,
{root:u}=t.selection,[,,c,f]=t.window,d=(m,g,b,x)=>({root:u,...x,cells:m,nColumns:g,window:[0,b-1,0,g-1]}),h=je(e)?[]:[{
picture:{root:u,scale:n.scale,cells:n.cells,limit:n.limit,nColumns:t.axes.nColumns,window:[0,n.rows.length-1,c,f]},x:r.left,
y:r.top,width:r.across,height:r.down}];if(l.length){let m=new Float32Array(o*l.length).fill(NaN);l.forEach(({values:x},y)=>t.
data.layers.forEach((v,$)=>{m[n.layers.indexOf(v)*l.length+y]=x[$]===null?NaN:x[$]}));let[g,b]=[l.length*Zt.width,r.cell.
height*o];h.push({picture:d(m,l.length,o,{scale:"contribution",root:1,limit:E(m)}),x:W.left,y:r.top,width:g,height:b})}if(i!==
null&&h.push({picture:d(n.strip.values,1,n.rows.length,n.strip),x:i,y:r.top,width:q.width,height:r.down}),a){let{values:m,
least:g,limit:b,scale:x}=n.heads,y=Float32Array.from(m.flat(),v=>x==="signed"?v:Math.max(0,v-g));h.push({picture:d(y,a,o,
{scale:x,limit:b-g}),x:s.left,y:s.top,width:s.across,height:s.down})}return h}var Kf=.05,Ni=.25;function Fi({palette:t,selection:e},n,o,r){
return nt(t,Math.sign(n)*(Ni+(1-Ni)*Bt(n,o,e.root)),1,r)}function Gf(t,e){if(!je(e))return[];let{frame:n,stream:{rows:o,
before:r,ends:s,limit:a,scale:i}}=e,{palette:l,selection:u}=t,[,,c,f]=t.window,d=m=>a>0?Bt(m,a,u.root)*(n.cell.width-1):
0,h=[];return o.forEach((m,g)=>{for(let b=c;b<=f;b++){let x=m[b],y=r?Math.min(x,r[g][b]):x,[v,$]=[d(y),d(r?Math.max(x,r[g][b]):
x)];if(!($>=W.least))continue;let C=n.left+(b-c+.5)*n.cell.width,N=(_,V)=>R(C-_/2,n.top+g*n.cell.height,_,n.cell.height,
V),T=(_,V)=>t.striped&&V?[N(_,vn)]:[],L=[...r?[N($,l[x>y?"gain":"loss"]),...T($,!(x>y))]:[],N(v,Fi(t,y,a,i).hex),...T(v,
y<0)];if(s){let[_,V]=s.map(Qt=>Qt[g][b]);_<=0&&V>=0&&Object.entries({fill:l.paper,stroke:l[x<0?"loss":"gain"]}).forEach(
([Qt,ql])=>L[0].setAttribute(Qt,ql));let[it,Jr]=[_,V].map(Qt=>C+(Math.sign(Qt)===Math.sign(x)?d(Qt)/2:0)),Vn=n.top+(g+.5)*
n.cell.height;L.push(k("path",{d:`M${it} ${Vn}H${Jr}M${it} ${Vn-3}v6M${Jr} ${Vn-3}v6`,stroke:l.ink,fill:"none",class:"wh\
isker"}))}L[0].dataset.share=`${g},${b}`,h.push(...L)}}),h}function Yf(t,e){let{frame:n,stream:{block:o,limit:r}}=e;if(!o)
return{reach:[],drawn:[]};let{palette:s}=t,[,,a,i]=t.window,l=h=>n.left+(h-a+.5)*n.cell.width,u=[],c=new Map,f=[],d=xa(t,
o,r).filter(({from:h,to:m})=>Math.min(h,m)>=a&&Math.max(h,m)<=i).map((h,m)=>{let g=[h.layer,h.from,h.to].join(),b=c.get(
g)??0;c.set(g,b+1);let[x,y]=[l(h.from),l(h.to)],v=n.top+(h.layer+.5)*n.cell.height,$=s[h.share<0?"loss":"gain"],C=Math.max(
he.thinnest,he.widest*Math.min(1,Math.abs(h.share)/r)),N=n.top+n.down-C/2-v,T=Math.min(v+n.cell.height+2*Math.min(60,he.
sag*Math.abs(y-x))+b*he.apart,v+N+Math.sqrt(Math.max(0,N*(N-n.cell.height)))),j=`M${x} ${v}Q${(x+y)/2} ${T} ${y} ${v+n.cell.
height}`,L=k("path",{d:j,fill:"none",stroke:$,"stroke-width":C,"stroke-opacity":.8,"stroke-linecap":"round",class:"arc",
...t.striped&&h.share<0?{"stroke-dasharray":`${C} ${2*C}`}:{}});return L.dataset.arc=String(m),f.push(Object.assign(k("p\
ath",{d:j,fill:"none",stroke:"transparent","stroke-width":Math.max(he.reach,C)}),{arc:h})),u.length<he.named&&u.push(Xf(
t,n,h,(x+y)/2,(v+T+n.cell.height/2)/2+4,$,u)),Object.assign(L,{arc:h})});return{reach:f,drawn:[...d.reverse(),...u.filter(
Boolean)]}}function Xf(t,e,n,o,r,s,a){let{layer:i,head:l,share:u}=n,c=`L${i}H${l} ${S(u,!1)}`,f=z(c,11)*ze,d=Math.max(e.
left+f/2+2,Math.min(e.left+e.across-f/2-2,o)),h=Math.min(r,e.top+e.down-4);if(a.filter(Boolean).some(({at:x})=>Math.abs(
x.y-h)<13&&Math.abs(x.x-d)<(x.wide+f)/2+4))return null;let g={"font-size":11,"font-weight":700,"text-anchor":"middle",fill:s},
b=[R(d-f/2-2,h-10,f+4,13,t.palette.paper),O(c,d,h,g)];for(let x of b)Object.assign(x,{arc:n});return Object.assign(k("g",
{class:"arc-name"},b),{at:{x:d,y:h,wide:f}})}function Zf(t,{stream:e,neuronFrame:n}){if(!n)return[];let{left:o,top:r,across:s,
cell:a}=n,i=E(e.neurons.flat().map(([,u])=>u)),l=Math.min(Ft.radius,a.height/2);return e.neurons.flatMap((u,c)=>{let f=r+
(c+.5)*a.height,d=k("line",{x1:o,x2:o+s,y1:f,y2:f,stroke:t.palette.hatch}),h=u.filter(([,m])=>Math.abs(m)>=Ft.least*i).slice(
0,Ft.most).map(([m,g],b)=>{let x=k("circle",{cx:o+(b+.5)*Ft.each,cy:f,r:Math.max(1,l*Math.sqrt(Math.abs(g)/(i||1))),fill:t.
palette[g<0?"loss":"gain"]});return Object.assign(x,{neuron:{layer:c,neuron:m,share:g}})});return[d,...h]})}function Oi(t,e,n,o,r){
let{palette:s,selection:a}=t,{height:i}=e.frame.cell,l=Math.max(1,Math.ceil(11/i)),{layers:u,names:c}=e.stream,f=u.indexOf(
a.layer);return Array.from({length:r},(d,h)=>h).flatMap(d=>{let h=d===f;if((d%l||!h&&Math.abs(d-f)<l)&&!h)return[];let g={
"text-anchor":"end","font-size":11,fill:h?s.ink:s.grey,"font-weight":h?700:400};return[O(c[d],n-5,o+(d+.5)*i+4,g)]})}function Jf(t,{
stream:e,headFrame:{left:n,top:o,cell:r}}){let{values:s,limit:a,scale:i}=e.heads;return!t.striped||i!=="signed"?[]:s.flatMap(
(u,c)=>u.flatMap((f,d)=>f<-Kf*a?[[c,d]]:[])).map(([u,c])=>R(n+c*r.width,o+u*r.height,r.width,r.height,vn))}function ji(t,e){
let{palette:n}=t,{stream:o,frame:r,headFrame:s,heads:a,strip:i,neuronFrame:l}=e,u={"font-size":11,fill:n.grey},c=(h,m,g,b)=>k(
"rect",{x:h,y:m,width:g,height:b,fill:"none",stroke:n.line}),f=Yf(t,e),d=[O("layer",0,r.top-5,u),c(r.left,r.top,r.across,
r.down),...eh(t,e),...th(t,e),...f.reach,...Gf(t,e),...nh(t,e),...Qf(t,e)];if(i!==null&&d.push(bt(o.strip.name,i+q.width-
2,r.top-5,u),c(i,r.top,q.width,r.down)),a){let h=Math.max(1,Math.ceil(16/s.cell.width));d.push(...Jf(t,e),O(o.heads.words,
s.left,s.top-20,u),c(s.left,s.top,s.across,s.down));for(let m=0;m<a;m+=h)d.push(O(o.heads.names[m],s.left+(m+.5)*s.cell.
width,s.top-5,{...u,"text-anchor":"middle"}))}return l&&d.push(O("largest neurons",l.left,l.top-20,u),...Zf(t,e)),[...d,
...f.drawn]}function Qf(t,{frame:e,changes:n,lines:o}){if(!n.length)return[];let r=k("rect",{x:W.left,y:e.top,width:n.length*
Zt.width,height:e.cell.height*o,fill:"none",stroke:t.palette.line}),s=n.map(({label:i,words:l},u)=>{let c=bt(i,W.left+(u+
.5)*Zt.width+4,e.top-5,{"font-size":10,fill:t.palette.grey});return c.append(k("title",{},[l])),c}),a=Math.max(...n.map(
({label:i})=>z(i,10)))+12;return[r,...s,O(n[0].title,W.left,Math.max(10,e.top-a),{"font-size":11,fill:t.palette.grey})]}
function zn(t){return ht(t.data)?K(t):t.selection.read==="row"?t.column:t.axes.own[t.row]}function th(t,{frame:e}){let[,
,n,o]=t.window;return Array.from({length:o-n+1},(s,a)=>n+a).filter(s=>Do(t,s)).map(s=>R(e.left+(s-n)*e.cell.width,e.top,
e.cell.width,e.down,cr))}function eh(t,e){let{frame:n}=e;if(!je(e))return[];let[,,o,r]=t.window;return Array.from({length:r-
o+1},(a,i)=>n.left+(i+.5)*n.cell.width).map(a=>k("line",{x1:a,x2:a,y1:n.top,y2:n.top+n.down,stroke:t.palette.hatch}))}function nh(t,{
frame:e,stream:{limit:n,top:o,scale:r,before:s,unit:a,asShare:i}}){let l=je({frame:e})?$n(t,{scale:r},y=>Fi(t,y,1,r)):$n(
t,{scale:r}),[u,c]=[e.top+e.down+8,Math.min(W.legend,e.across)],f={x:e.left,y:u,width:c,height:9},d=(y,v,$)=>t.striped?[
R(y,$,v,9,vn)]:[],h=(y,v,$)=>[R($,x,10,9,t.palette[y]),...y==="loss"?d($,10,x):[],O(v,$+14,x+9,{"font-size":11,fill:t.palette.
ink})],m=t.selection.run===t.selection.refRun?"more than before":"more",g=e.across-c>190,[b,x]=g?[e.left+c+16,u]:[e.left,
u+26];return[k("defs",{},[l]),k("rect",{...f,fill:`url(#${l.id})`,stroke:t.palette.line,class:"legend"}),...r==="signed"?
d(f.x,c/2,u):[],...lr(t,f,{limit:n,top:o,scale:r},(y,v)=>J(y,!!i)+(v?a:"")),...s&&je({frame:e})?[...h("gain",m,b),...h("\
loss","less",b+28+z(m,11))]:[]]}function Wi(t,e,n){let{palette:o,selection:r}=t,{stream:s,frame:a,headFrame:i,heads:l,neuronFrame:u}=e,
c=s.layers.indexOf(r.layer),f=({left:g,top:b,across:x,cell:y})=>wt(g,b+c*y.height,x,y.height,o.mark),d=[f(a),...u?[f(u)]:
[],...fe(t,a,zn(t),o.mark)];if(n&&n.column!==void 0&&d.push(...fe(t,a,n.column,o.read)),!l)return d;let h=Ko(l,r),m=h<0?
[]:[wt(i.left+h*i.cell.width,i.top+c*i.cell.height,i.cell.width,i.cell.height,o.mark)];return[...d,f(i),...m]}function Ei(t,e,n,o){
let r=o.getBoundingClientRect(),[s,a]=[n.clientX-r.left,n.clientY-r.top],i=({left:v,top:$,across:C,down:N})=>s>=v&&s<v+C&&
a>=$&&a<$+N,{stream:l,lines:u,frame:c,headFrame:f,heads:d,strip:h,changes:m,neuronFrame:g}=t,{arc:b,neuron:x}=n.target;if(b)
return b;if(x)return x;let y=({top:v,cell:$})=>({row:Math.floor((a-v)/$.height),layer:l.layers[Math.floor((a-v)/$.height)]});
return i(c)?{...y(c),column:e.window[2]+Math.floor((s-c.left)/c.cell.width)}:h!==null&&i({...c,left:h,across:q.width})?{
...y(c),strip:!0}:m.length&&i({...c,left:W.left,across:m.length*Zt.width,down:u*c.cell.height})?{...y(c),change:Math.floor(
(s-W.left)/Zt.width)}:g&&i(g)?y(g):d&&i(f)?{...y(f),head:Math.floor((s-f.left)/f.cell.width)}:null}function We({axes:t,selection:e},n){
let o=t.columns[n].position,r=t.rowOf(o);return e.read==="row"&&r>=0?{to:t.rows[r].position}:{from:o,read:"column"}}function Pi({
data:t,axes:e,selection:n},o){let{position:r}=e.columns[o];return n.read==="row"?{from:r}:t.queries.includes(r)?{to:r}:{}}
function oh(t,e){let{name:n,channel:o,ref:r}=Ti(t)[e];return{scope:Y(t.data,n,o),ref:r?Y(t.data,n,r):""}}function rh(t,{
layer:e,column:n,head:o,query:r,key:s,neuron:a,change:i}){let l=t.data.layers.includes(e)?{layer:e}:{};n!==void 0&&Object.
assign(l,ht(t.data)?We(t,n):Pi(t,n)),i!==void 0&&Object.assign(l,oh(t,i)),a!==void 0?l.neuron=t.selection.neuron===a&&e===
t.selection.layer?-1:a:"layer"in l&&e!==t.selection.layer&&(l.neuron=-1);let u=r===void 0&&e===t.selection.layer&&t.selection.
heads===String(o);return o!==void 0&&(l.heads=u?"":String(o)),r!==void 0&&t.data.queries.includes(r)&&Object.assign(l,{to:r,
from:s,read:"row"}),l}function sh(t,{before:e,ends:n,rows:o,unit:r,asShare:s,block:a,strip:i},l,u){let c=o[l][u];if(Do(t,
u))return a?"after the target's position":"a later token: earlier ones cannot attend to it";if(Number.isNaN(c))return t.
hidden.has(u)?"hidden":u===K(t)?`the token itself${i?": see the column “own”":""}`:"not among these";let f=d=>a?S(d,
!1)+r:s?G(d):A(d);return n?`${f(c)}, 95 % interval ${n.map(d=>f(d[l][u])).join(" to ")}`:e&&!a?`${f(e[l][u])} → ${f(c)}\
 (${S(c-e[l][u],s)})`:f(c)}function Li(t,{stream:e,changes:n},{row:o,layer:r,column:s,head:a,query:i,key:l,neuron:u,share:c,
change:f,strip:d}){let{block:h,unit:m}=e,b=ot("layer",r===null?"end":`${r}${h&&a===void 0&&f===void 0?", its input":""}`),
x=v=>p("div",{textContent:S(v,!1)+m}),y=v=>Tt(t,I(t)[t.axes.columnOf[v]],v);return i!==void 0?[ot("head",`L${r}H${a}`),ot(
"from",y(l)),ot("to",y(i)),x(c)]:u!==void 0?[ot("neuron",`L${r}N${u}`),x(c)]:a!==void 0?[ot("head",`L${r}H${e.heads.names[a]}`),
h?x(e.heads.values[o][a]):p("div",{textContent:`${e.heads.words}: ${G(e.heads.values[o][a])}`})]:f!==void 0?[b,ot("",`${n[f].
words}: ${ce(n[f].values[t.data.layers.indexOf(r)]??null)}`)]:d&&!h?[b,ot("its own share",G(e.strip.values[o]))]:d?[b,...h.
biases.filter(([,v])=>v===o).map(([v,,$])=>ot("bias",`${v} ${S($,!1)}`))]:s===void 0?[b]:[b,ot(h?"token":t.selection.read===
"row"?"from":"to",Tt(t,I(t)[s],t.axes.columns[s].position)),p("div",{textContent:sh(t,e,o,s)})]}function ah(t,e,n){let{data:o,
selection:r,axes:s}=t,a=o.layers.indexOf(r.layer),i=zn(t),l=c=>ht(o)?We(t,c):Pi(t,c),u={ArrowUp:()=>a>0&&e({layer:o.layers[a-
1]}),ArrowDown:()=>a<o.layers.length-1&&e({layer:o.layers[a+1]}),ArrowLeft:()=>i>0&&e(l(i-1)),ArrowRight:()=>i<s.nColumns-
1&&e(l(i+1)),Home:()=>e({layer:o.layers[0]}),End:()=>e({layer:o.layers[o.layers.length-1]})};!(n.key in u)||n.altKey||(n.
preventDefault(),n.stopPropagation(),u[n.key]())}function ih(t,e,n,o){t.addEventListener("pointermove",r=>{let s=o(),a=Ei(
e,s,r,t),i=w("tooltip");i.hidden=!a,s.hover(a&&a.column!==void 0?{column:a.column}:null),a&&(i.replaceChildren(...Li(s,e,
a)),ie(i,r.clientX,r.clientY))}),t.addEventListener("pointerleave",r=>{r.pointerType!=="touch"&&(w("tooltip").hidden=!0),
o().hover(null)}),t.addEventListener("click",r=>{let s=Ei(e,o(),r,t);r.pointerType==="touch"&&s&&(w("tooltip").hidden=!1,
w("tooltip").replaceChildren(...Li(o(),e,s)),ie(w("tooltip"),r.clientX,r.clientY)),s&&n(rh(o(),s))}),t.addEventListener(
"keydown",r=>ah(o(),n,r))}function lh(t,e,n,o){let r=Rt(t,e.entering),s=E(r),a=I(t),i=Array.from(r,(u,c)=>{let f=t.axes.
columns[c].members.map(g=>Se(t.data,g)).find(Boolean),d=f&&t.data.runs[0].blocks[f.block]===e?"this":Number.isNaN(u)?f?"\
why?":"–":S(u,!1),h=`${a[c]} · position ${t.axes.columns[c].position}: ${d}${zt(e)}`,m=qe(a[c],d,h,Number.isNaN(u)||s===
0?null:nt(t.palette,u,s,"signed",t.selection.root));return m.classList.toggle("later",Number.isNaN(u)&&d!=="this"),m.classList.
toggle("cell",d==="this"),m.addEventListener("click",()=>n(f||We(o(),c))),m}),l=p("ol",{className:"tokens shared attribu\
ted"},i);return l.setAttribute("aria-label",`token contributions to the ${e.target}`),l.tabIndex=0,l.classList.toggle("l\
ong",i.length>20),{host:l,chips:i}}function ch(t,e){let{data:n,selection:o}=t,r=Le(n,o.run);if(r.length<2||r.every(([,{position:a}])=>a!==
void 0))return[];let s=p("select",{autocomplete:"off"},r.map(([a,i])=>D(a,`${i.target} (${i.rules})`)));return s.value=r.
find(([,a])=>a===tt(n,o))[0],s.setAttribute("aria-label","target"),s.addEventListener("change",()=>e(Se(n,n.runs[o.run].
blocks[s.value].position)||{block:s.value})),[p("div",{className:"toggles"},[s])]}function Bi(t,e,n){let o=t,r=()=>o,s=zi(
t,n),{stream:{block:a}}=s,[i,l]=[k("g"),k("g")],u=_i(t,s).map(({picture:x,x:y,y:v,width:$,height:C})=>Nt(dt(x,t.palette,
$*t.ratio,C*t.ratio),y,v,$,C)),c=kn(t,s.frame),f=k("svg",{width:n,height:s.height,"aria-hidden":"true"},[ue(t.palette),...ji(
t,s),...c.nodes,i,l]),d=p("div",{className:"logit",tabIndex:0},[...u,f]);d.setAttribute("role","application"),ih(d,s,e,r);
let h=a?lh(t,a,e,r):null,m=x=>{o=x,d.setAttribute("aria-label",`Layers by tokens, arrow keys choose. ${a?Ae(x):qo(x).headline}`),
i.replaceChildren(...c.mark(zn(x)),...Hi(x,s)),h&&h.chips.forEach((v,$)=>v.setAttribute("aria-current",String($===K(x))));
let y=v=>l.replaceChildren(...Wi(x,s,v));x.marked.push(y),y(null)};if(!a)return{nodes:[d],update:m};let g=Zo(t,1/(s.frame.
cell.width*t.ratio));return{nodes:[...ch(t,e),h.host,d,p("details",{className:"note"},[p("summary",{textContent:"What is\
 drawn"}),p("p",{textContent:`${Uo(a)}. ${g}`})])],update:m}}function Hi(t,e){let{stream:n,lines:o,frame:r,headFrame:s,heads:a,
beside:i}=e,l=(a||e.neuronFrame)&&!i;return[...Oi(t,e,W.left,r.top,n.rows.length),...l?Oi(t,e,s.left,s.top,o):[]]}function Di(t,e){
let n=zi(t,e),o=kn(t,n.frame),r=[...ji(t,n),...o.nodes,...o.mark(zn(t)),...Hi(t,n),...Wi(t,n,null)];return{groups:[{x:0,
y:0,pictures:_i(t,n),nodes:r}],width:n.width,height:n.height}}var qi=6;function uh(t,e,n,o,r){return p("tr",{},[p("td",{},[e]),p("td",{},[wn(Math.abs(n)/(o||1),Wo(t,{scale:"signed"},
n))]),p("td",{textContent:S(n,!1)}),...r.map(s=>p("td",{textContent:Number.isNaN(s)?"–":S(s,!1)}))])}function In(t,e,n,o,r){
let s=Math.max(0,...e.map(({share:c})=>Math.abs(c))),a=ve(t.data).filter(({tables:c})=>c[o]),i=(c,f="")=>p("th",{textContent:c,
scope:"col",title:f}),l=a.length?[p("tr",{},[p("td"),p("td"),i("attribution"),...a.map(({short:c,target:f})=>i(c,f))])]:
[],u=c=>a.map(f=>nn(f,o,...r(c)));return p("table",{className:a.length?"profile measured":"profile"},[...l,...e.map(c=>uh(
t,n(c),c.share,s,u(c)))])}function _n(t,e,n){let o=p("button",{type:"button",className:"plain"},t);return o.addEventListener(
"click",()=>n(e)),o}function fh(t,e,n){let{data:o,selection:r}=t,s=Yo(e,r.layer),a=Go(e,r)<0?s.length&&s[0].head:Go(e,r),
i=(e.edges[`${r.layer},${a}`]||[]).filter(([,,f])=>f!==0);if(!i.length)return[];let l=o.runs[r.run].tokens,u=({query:f,key:d})=>_n(
[p("bdi",{textContent:l[d]}),` (${d}) → `,p("bdi",{textContent:l[f]}),` (${f})`],o.queries.includes(f)?{to:f,from:d}:{
from:d,read:"column"},n),c=i.map(([f,d,h])=>({query:f,key:d,share:h}));return[p("p",{className:"note",textContent:`L${r.
layer}H${a}: largest edges (source → destination)`}),In(t,c,u,"cell",({query:f,key:d})=>[r.layer,a,f,d])]}function hh(t,e,n){
let{data:o,selection:r}=t,s=e.neurons[r.layer]||[];if(!s.length)return[];let a=Object.entries(o.runs[r.run].blocks).filter(
([,{kind:c}])=>c==="memory"),i=c=>{let f=a.find(([,{memory:d}])=>d===`${r.layer}:${c}`);return f?{view:"memories",block:f[0]}:
{neuron:c}},l=({neuron:c})=>{let f=_n([`L${r.layer}N${c}`],i(c),n);return c===r.neuron&&f.setAttribute("aria-current","t\
rue"),f},u=s.map(([c,f])=>({neuron:c,share:f}));return[p("p",{className:"note",textContent:`Largest neurons of layer ${r.
layer}, over all positions:`}),In(t,u,l,"neuron",()=>[])]}function Vi(t,e){let{data:n,selection:o}=t,r=tt(n,o);if(!r)return[];
let{layer:s}=o,a=I(t),i=({column:h})=>_n([p("bdi",{textContent:a[h]}),ft(t,h)],We(t,h),e),l=({head:h})=>_n([`L${s}H${h}`],
{heads:String(h)},e),u=Yo(r,s).slice(0,qi),c=t.axes.columns[K(t)].position,d=ve(n).some(({tables:h})=>h.head&&h.head.axes.
length>2)?`; replaced at ${lt(t,K(t))} alone`:"";return[p("section",{className:"card logit-card"},[p("h3",{},["To ",p("b\
di",{textContent:Vo(r)})]),p("p",{textContent:Ae(t)}),p("p",{className:"note",textContent:wa(r,s)}),In(t,ba(t,s,qi),i,"r\
esidual",({column:h})=>[s,t.axes.columns[h].position]),...u.length?[p("p",{className:"note",textContent:`Largest heads o\
f layer ${s}, summed over ${r.ends?"these":"all"} positions${d}:`}),In(t,u,l,"head",({head:h})=>[s,h,c])]:[],...fh(t,r,e),
...hh(t,r,e),p("p",{className:"note",textContent:r.certificate})])]}var Br={faintest:.02,triggers:5};function jn(t,e){return Object.entries(t.runs[e].blocks).filter(([,n])=>n.kind==="memor\
y")}function Hr(t,e){let n=jn(t,e.run);return n.find(([o])=>o===e.block)||n[0]}function Yi(t,e,n,o,r){let{palette:s}=t,a=p(
"span",{className:"chip"},[p("bdi",{textContent:e})]),i=[o,r].filter(u=>u&&Number.isFinite(u.value));a.title=[`${e} · po\
sition ${n}`,...i.map(u=>`${u.name} ${S(u.value,!1)}`)].join(" · ");let l=u=>u&&Number.isFinite(u.value)&&u.limit&&Math.
abs(u.value)>=Br.faintest*u.limit?nt(s,u.value,u.limit,"signed"):null;return we(a,l(o),l(r)),a}function Pe(t,e){let n=E(
e.map(Math.abs));return e.map(o=>({name:t,value:o,limit:n}))}function Fn(t,e){let n=p("div",{className:"tokens"},t);return n.
setAttribute("role","group"),n.setAttribute("aria-label",e),n.classList.toggle("long",t.length>40),n}function Be(t,e){return p(
"section",{className:"memory-part"},[p("h2",{textContent:t}),...e])}function jt(t){return p("p",{className:"note",textContent:t})}
function dh(t,e,n){let o=jn(t,e.run),r=p("select",{},o.map(([s,a])=>D(s,`memory ${a.memory}`)));return r.autocomplete="o\
ff",r.value=Hr(t,e)[0],r.setAttribute("aria-label","memory"),r.addEventListener("change",()=>n({block:r.value})),p("div",
{className:"toggles"},[r,p("span",{className:"note",textContent:`of ${o[0][1].model}, over ${o[0][1].corpus_texts} texts`})])}
function mh(t,e){if(!e.value)return Be("Tokens of its value",[jt("The value cannot be read as tokens: the model has no t\
rained head.")]);let{top:n,bottom:o,probability:r,reading:s,agreeing:a,followed:i}=e.value,l=(f,d)=>p("p",{className:"me\
mory-words"},[`${d} `,...f.map(h=>p("span",{className:"chip"},[p("bdi",{textContent:h})]))]),u=s==="direction"?"with the\
 unembedding alone":"with the model's final norm and unembedding",c=i?` It follows ${a} of ${i} top-activating examples.`:
"";return Be("Tokens of its value",[l(n,"promotes"),l(o,"demotes"),jt(`The value, read ${u}: the first token has a proba\
bility of ${G(r)}.${c}`)])}function ph(t,e,n){if(!e.text)return[];let{tokens:o,along:r,parts:s,bias:a,carried:i,target:l}=e.
text,u=t.selection.to,c=h=>o.map((m,g)=>{let b=Yi(t,m,g,h[g]);return b.setAttribute("aria-current",String(g===u)),b.addEventListener(
"click",()=>n({to:g,read:"row"})),b}),f=p("h2",{},["Token contributions to its activation at ",p("bdi",{textContent:gt(o[u])})]),
d=[Be("Its activation along this text",[Fn(c(Pe("activation",r)),"activation at each token"),jt(`Strongest colour: ${S(r[Ui(
r)],!1)} at ${gt(o[Ui(r)])}.`)]),p("section",{className:"memory-part"},[f,Fn(c(Pe("contribution",s[u])),"token contribut\
ions"),jt(`Contributions of the tokens at the layer's input. With the bias, ${S(a[u],!1)}, they sum to the activation ${S(
r[u],!1)} at position ${u}.`)])];return i&&d.push(Be("Contribution to the target",[Fn(c(Pe("contribution",i)),"contribut\
ion to the target"),jt(`Signed contributions to ${l}: ${S(i[u],!1)} from this position, ${S(i.reduce((h,m)=>h+m,0),!1)} \
from all positions.`)])),d}function Ui(t){return t.reduce((e,n,o)=>Math.abs(n)>Math.abs(t[e])?o:e,0)}function Ki(t,e){let{
tokens:n,along:o,parts:r,position:s,coefficient:a,rank:i,sequence:l}=e,[u,c]=[Pe("contribution",r),Pe("activation",o)],f=n.
map((d,h)=>{let m=Yi(t,d,h,u[h],c[h]);return m.setAttribute("aria-current",String(h===s)),m.classList.toggle("later",h>s),
m});return p("div",{className:"memory-trigger"},[jt(`${i}. activation ${S(a,!1)}, text ${l}`),Fn(f,`example ${i}`)])}function Gi(t,e,n){
let[o,r]=[n.slice(0,Br.triggers),n.slice(Br.triggers)],s=o.map(a=>Ki(t,a));if(r.length){let a=p("details",{},[p("summary",
{textContent:`${r.length} more`})]);a.addEventListener("toggle",()=>{a.open&&a.children.length===1&&a.append(...r.map(i=>Ki(
t,i)))}),s.push(a)}return Be(e,s.length?s:[jt("It has no such activation in these texts.")])}function Xi(t,e){let{data:n,
selection:o}=t,[,r]=Hr(n,o);return p("div",{className:"memory"},[dh(n,o,e),mh(t,r),...ph(t,r,e),Gi(t,"Top-activating exa\
mples",r.positive),Gi(t,"Examples of the most negative activations",r.negative),jt("Orange: positive, violet: negative. \
In examples, the background is a token's contribution to the activation at the framed token; the stripe is the activatio\
n at each token.")])}function Zi(t){let[e,n]=Hr(t.data,t.selection);return{headline:"",meaning:"A memory is one neuron o\
f a feed-forward block: its key sets the activation, its value promotes tokens.",place:`memory ${n.memory}`,shown:e,remark:"",
note:"",exact:!1,method:"",file:[`memory${n.memory}`]}}var et={left:46,top:18,label:11},Dr=40,Wn={gap:28,narrowest:520};function el(t,e,n){return nt(t,e,n,"signed")}function qr({
signed:t=!0},e){return t?S(e):A(e)}function Ji(t){return t.map(e=>e??NaN)}function nl(t){let[e,n]=[t.length,t[0].length],
o={nRows:e,nColumns:n,own:Array(e).fill(-1)};return Lt(o,Float32Array.from(t.flat()),n>=ne?"percentile":"all")}function ol(t){
return new Map(t.map(({note:e})=>[e,nl(t.filter(n=>n.note===e).flatMap(({values:n})=>n))]))}function rl(t,e,n=e,o=!0){let r=p(
"canvas",{width:121,height:1}),s=r.getContext("2d");for(let i=0;i<121;i++)s.fillStyle=(o?el(t,(i-60)/60,1):nt(t,i/120,1,
"contribution")).hex,s.fillRect(i,0,1,1);r.setAttribute("aria-hidden","true");let a=n>e*1.0001?[p("span",{textContent:`(\
99th percentile; cells reach ${A(n)})`})]:[];return p("div",{className:"share-scale"},[o?`−${A(e)}`:"0",r,o?`+${A(e)}`:
A(e),...a])}function gh(t,e,n){let o=E(n),r=e.map((s,a)=>qe(s,S(n[a]),`position ${a}`,el(t,n[a]||0,o)));return p("div",{},
[p("ol",{className:"tokens shared"},r),rl(t,o)])}function sl({values:t,signed:e=!0},n){let[o,r]=[t.length,t[0].length];return{
cells:Float32Array.from(t.flat()),nColumns:r,window:[0,o-1,0,r-1],scale:e?"signed":"contribution",limit:n,root:0}}function Qi(t,e){
return[1,2,5,10,20,50,100,200,500].find(n=>n*e>=et.label+2)||t}function wh(t,e){let n=t.match(/@\d+$/)?.[0]??"";return H(
t.slice(0,t.length-n.length),et.label,e-z(n,et.label))+n}function al(t,e){let[n,o]=[t.rows.length,t.columns.length],r=Math.
min(110,Math.max(...[`${t.row} ↓`,...t.rows].map(d=>z(d,et.label)))+8),s=Math.max(et.left,r),a=Math.max(6,Math.min(34,
(e-s-8)/o)),i=Math.max(5,Math.min(20,460/n)),l=Math.max(...t.columns.map(d=>z(d,et.label))),u=l<a-2,c=u?20:Math.min(90,l)+
14,f=s+Math.max(a*o,z(`${t.column} →`,et.label))+6;return{left:s,cell:a,tall:i,lying:u,below:c,across:f,wide:a*o,high:i*
n,height:et.top+i*n+c}}function il(t,e,{left:n,cell:o,tall:r,lying:s,below:a,wide:i,high:l}){let u=(d,h)=>O(d,0,0,{"font\
-size":et.label,fill:t.grey,...h}),c=[k("rect",{x:n,y:et.top,width:i,height:l,fill:"none",stroke:t.line})],f=[];for(let d=0;d<
e.rows.length;d+=Qi(e.rows.length,r))f.push(u(H(e.rows[d],et.label,n-8),{x:n-5,y:et.top+(d+.5)*r+4,"text-anchor":"end"}));
for(let d=0;d<e.columns.length;d+=Qi(e.columns.length,o)){let[h,m]=[n+(d+.5)*o+(s?0:4),et.top+l+(s?14:6)],g=s?{"text-anc\
hor":"middle"}:{transform:`rotate(-90 ${h} ${m})`,"text-anchor":"end"};c.push(u(s?e.columns[d]:wh(e.columns[d],a-12),{x:h,
y:m,...g}))}return f.push(u(`${e.row} ↓`,{x:n-5,y:11,"text-anchor":"end"})),c.push(u(`${e.column} →`,{x:n,y:11})),{names:f,
nodes:c}}function tl(t,e,n,o,r){let[s,a]=[e.rows.length,e.columns.length],i=al(e,o),{left:l,cell:u,tall:c,wide:f,high:d,
height:h,across:m}=i,g=il(t,e,i),b=k("rect",{fill:"none",stroke:t.mark,"stroke-width":1.5,visibility:"hidden",width:u,height:c}),
x=k("g",{class:"share-names"},[R(0,0,l-1,h,t.paper),...g.names]),y=dt(sl(e,n),t,a,s).toDataURL(),v=k("svg",{width:m,height:h,
tabindex:0,role:"img"},[k("image",{href:y,x:l,y:et.top,width:f,height:d,preserveAspectRatio:"none"}),...g.nodes,b,x]);v.
setAttribute("aria-label",`${e.title}; arrow keys choose a cell`);let $=p("p",{className:"share-said",textContent:"Point\
 at a cell, or use the arrow keys."});$.setAttribute("role","status");let C=null,N=(L,_)=>{C=[L,_];for(let[V,it]of Object.
entries({x:l+_*u,y:et.top+L*c,visibility:"visible"}))b.setAttribute(V,it);$.replaceChildren(`${e.row} `,p("bdi",{textContent:e.
rows[L]}),` · ${e.column} `,p("bdi",{textContent:e.columns[_]}),`: ${qr(e,e.values[L][_])}`);for(let[V,it]of e.details[`${L}\
,${_}`]||[])$.append(" · ",p("bdi",{textContent:V}),` ${qr(e,it)}`)},T=L=>{if(L.target.closest(".share-names"))return null;
let _=v.getBoundingClientRect(),[V,it]=[Math.floor((L.clientX-_.left-l)/u),Math.floor((L.clientY-_.top-et.top)/c)];return it>=
0&&V>=0&&it<s&&V<a?[it,V]:null};v.addEventListener("pointermove",L=>{let _=T(L);_&&N(..._)}),v.addEventListener("click",
L=>{let _=T(L);_&&(N(..._),r&&r(..._))}),v.addEventListener("keydown",L=>{let _={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[
0,-1],ArrowRight:[0,1]}[L.key];if(L.key==="Enter"&&C&&r&&r(...C),!_)return;L.preventDefault();let[V,it]=C||[s-1,0];N(Math.
min(s-1,Math.max(0,V+(C?_[0]:0))),Math.min(a-1,Math.max(0,it+(C?_[1]:0))))});let j=p("div",{className:"share-map"},[v]);
return j.addEventListener("scroll",()=>x.setAttribute("transform",`translate(${j.scrollLeft})`)),p("div",{},[j,$,rl(t,n,
E(e.values.map(E)),e.signed)])}function bh(t,e){let{title:n,note:o,entries:r}=e,s=E(r.map(([,l])=>l)),a=r.map(([l,u])=>{
let c=p("span",{className:"share-bar"});return c.style.width=`${s?Math.round(60*Math.abs(u)/s):0}px`,c.style.background=
t[e.signed===!1?"contribution":u<0?"loss":"gain"],p("tr",{},[p("td",{},[p("bdi",{textContent:l})]),p("td",{},[c]),p("td",
{textContent:qr(e,u)})])}),i=o?[p("p",{className:"note",textContent:o})]:[];return p("section",{className:"share-table"},
[p("h2",{textContent:n}),...i,p("table",{},a)])}function Vr(t,e,n,o){let r=[p("h2",{textContent:t}),p("p",{className:"no\
te",textContent:e}),...n];return p("section",{className:o?"wide":""},r)}function xh(t){let e=t.sums.map(([n,o])=>`${n} ${S(
o)}`);return`${A(t.value,4)} = ${e.join(" · ")}`}function ll(t){return Jt(t,0)!==void 0}function Jt(t,e){let n=Object.values(
t.runs[e].blocks).find(({kind:o})=>o==="numbers");if(n&&!n.read){for(let o of n.rows)o.shares=Ji(o.shares);for(let o of n.
maps)o.values=o.values.map(Ji);n.read=!0}return n}function cl(t,{rows:e}){return{title:"Every token of the continuation",
note:"A row has the attributions of all earlier tokens; with biases they sum to the target's value. A click opens its ov\
erview.",row:"target",column:"source",rows:e.map(({name:n})=>n),columns:t.runs[0].tokens,values:e.map(({shares:n})=>n),details:{}}}
function yh({data:t,palette:e},{rows:[n]}){return Vr("Token contributions","Signed, in the target's units: attribution o\
f each token's embedding, with those of its position and type.",[gh(e,t.runs[0].tokens,n.shares),p("p",{className:"share\
-sums",textContent:xh(n)})],!0)}function ul(t,e,n){let{data:o,selection:r,palette:s}=t,a=Jt(o,r.run),i=[];if(a.rows.length>
1){let h=cl(o,a),m=g=>{let b=Se(o,o.words.length-a.rows.length+g);b&&e({...b,view:"overview"})};i.push(Vr(h.title,h.note,
[tl(s,h,nl(h.values),n,m)],!0))}else a.rows.length&&i.push(yh(t,a));let l=a.maps.filter(({columns:h})=>h.length<=Dr).length+
a.tables.length,u=Math.max(1,Math.min(l,Math.floor((n+Wn.gap)/(Wn.narrowest+Wn.gap)))),c=(n-Wn.gap*(u-1))/u,f=ol(a.maps);
for(let h of a.maps)i.push(Vr(h.title,h.note,[tl(s,h,f.get(h.note),h.columns.length>Dr?n:c,null)],h.columns.length>Dr));
for(let h of a.tables)i.push(bh(s,h));let d=p("div",{className:"number-blocks"},i);return d.style.gridTemplateColumns=`r\
epeat(${u}, minmax(0, 1fr))`,[d]}function fl({data:t,selection:e}){let{heading:n,facts:o}=Jt(t,e.run);return{headline:n,
meaning:"",place:"",shown:o||t.heading,remark:"",note:"",exact:!1,method:"",file:["numbers"]}}function hl({data:t,selection:e,
palette:n},o){let r=Jt(t,e.run),s=[...r.rows.length>1?[cl(t,r)]:[],...r.maps],a=ol(s),i=0,l=s.map(u=>{let c=al(u,o),{names:f,
nodes:d}=il(n,u,c),h=[{picture:sl(u,a.get(u.note)),x:c.left,y:et.top,width:c.wide,height:c.high}],m=O(u.title,0,-6,{"fon\
t-size":12,"font-weight":600,fill:n.ink}),g={x:0,y:i+22,pictures:h,nodes:[m,...f,...d]};return i+=c.height+34,g});return l.
length?{groups:l,height:i}:null}function dl({data:t,selection:e}){let n=Jt(t,e.run),o=t.runs[e.run].tokens,r=function*(){
for(let{name:a,shares:i}of n.rows)for(let[l,u]of i.entries())yield["token",a,o[l],u];for(let{title:a,rows:i,columns:l,values:u}of n.
maps)for(let[c,f]of u.entries())for(let[d,h]of f.entries())yield[a,i[c],l[d],h];for(let{title:a,entries:i}of n.tables)for(let[
l,u]of i)yield[a,l,"",u]},s=n.maps.reduce((a,{values:i})=>a+i.length*i[0].length,n.rows.length*o.length);return{head:["p\
art","row","column","value"],lines:r,count:s}}var kh=40,$h=25;function ml({selection:t}){return[...qt,"sort","pairs","mass","find",...t.pairs==="token"?["read","to","\
from"]:[]]}function vh(t,e,n){let{axes:o,maps:r}=t,s=I(t),[a,i]=[o.rows[e.row].position,o.columns[e.column].position],l=p(
"button",{type:"button",className:"plain",title:De(t.data,i,a)},[p("bdi",{textContent:s[e.column]}),`${ft(t,e.column)} →\
 `,p("bdi",{textContent:s[o.own[e.row]]}),ft(t,o.own[e.row])]);l.addEventListener("click",()=>n({to:a,from:i}));let c=[...t.
selection.sort==="distance"?[Fo(o,e.index)]:[],...r.map(f=>st(f,f.cells[e.index],f.asShare))];return p("tr",{},[p("td",{},
[l]),...c.map(f=>p("td",{textContent:f}))])}function pl(t,e){let{pairs:n,total:o}=ta(t,t.paper?$h:kh),r=Vt(t).map((l,u)=>p(
"th",{scope:"col",textContent:t.maps[u].role==="difference"?"change":l}));t.selection.sort==="distance"&&r.unshift(p("th",
{scope:"col",className:"whole",textContent:"distance"}));let s=n.map(l=>vh(t,l,e)),a=p("table",{className:"pairs"},[p("t\
head",{},[p("tr",{},[p("th",{scope:"col",textContent:"from → to"}),...r])]),p("tbody",{},s)]);return w("pairs-note").textContent=
o>n.length?`the first ${n.length} of ${o}`:o?`${o} pairs`:"no pair fits",{nodes:[a],update:l=>n.forEach((u,c)=>s[c].classList.
toggle("current",u.row===l.row&&u.column===l.column))}}var F={row:18,smallest:11,printed:3,query:14,label:118,gap:12,number:64,weight:120,percent:46,head:40,wide:620},Mh={vectors:[
"query q, keys k","q, k"],product:["q × k × scale","q × k"],score:["sum: score","score"],bar:["softmax: weight","weig\
ht"],value:["value ‖v W_O‖","‖v W_O‖"],weighted:["weight × ‖v W_O‖","weighted"]};function vt(t,e){return Object.
values(t.runs[e].blocks).find(n=>n.kind==="scores")}function Pn(t,e){let{heads:n}=vt(t,e.run),o=n.indexOf(t.channels.get(
e.scope).name);return o>=0?o:Math.min(n.length-1,Number(e.heads.split(".")[0]||0))}function Ch(t,e,n){let{blockName:o}=t.
channels.get(e.scope),r=Y(t,o,vt(t,e.run).heads[n]);return t.channels.has(r)?{scope:r}:{heads:String(n)}}function Ur(t,e){
let n=vt(t,e.run),o=n.heads[Pn(t,e)];return[n.query,n.key,n.score,n.weight,...n.value?[n.value]:[]].map(r=>r[o])}function Bn(t){
let{data:e,selection:n}=t,o=vt(e,n.run),r=o.layers.indexOf(n.layer);if(r<0)return null;let[s,a,i,l,u]=Ur(e,n).map(y=>e.numbersAt(
y,r)),c=e.queries.indexOf(n.to),[f,d]=[e.words.length,s.length/e.queries.length],h=s.subarray(c*d,(c+1)*d),m=o.scale[r],
g=Float32Array.from(a,(y,v)=>m*y*h[v%d]),b=y=>wo(e,y).subarray(c*f,(c+1)*f),x=u&&b(l).map((y,v)=>y*u[v]);return{block:o,
scale:m,size:d,n:f,query:h,keys:a,products:g,scores:b(i),weights:b(l),values:u,weighted:x,most:x?E(x):0}}function wl(){return[
"run","scope","layer","heads","to"]}function bl({room:t},e,n){let o=Math.max(t?F.printed:F.smallest,Math.min(F.row,t?(t-
F.head-F.query-8)/(e.n+2):1400/e.n)),r=Math.min(F.label,n/5),s=e.values&&n>=F.wide?1:0,a=n-r-(F.number+F.percent)*(1+s)-
(3+s)*F.gap-8,i=Math.min(F.weight,a/(4+2*s)),l=Math.max(40,Math.min(420,(a-i*(1+s))/2)),u=r+l+F.gap,c=u+l+F.gap,f=c+F.number+
F.gap,d=f+i+F.percent;return{height:o,label:r,strip:l,weight:i,product:u,score:c,bar:f,valued:s,value:d,weighted:d+F.number+
F.gap,y:h=>F.head+Math.max(2*o,F.query)+h*o}}function Nh(t,e,n,o){return{cells:e,nColumns:t.size,window:[n,o,0,t.size-1],
scale:"signed",limit:E(e),root:0}}function xl(t,e){let n=(o,r,s,a)=>({picture:Nh(t,o,0,r-1),x:s,y:a,width:e.strip,height:r*
e.height});return[n(t.query,1,e.label,F.head),n(t.keys,t.n,e.label,e.y(0)),n(t.products,t.n,e.product,e.y(0))]}function Oh(t,e,n){
return xl(e,n).map(({picture:o,x:r,y:s,width:a,height:i})=>Nt(dt(o,t.palette,a*t.ratio,i*t.ratio),r,s,a,i))}function yl(t,e){
let{data:n,selection:o,palette:r}=t,s=Math.min(12,Math.max(B.smallest,e.height)),a=H(n.runs[o.run].tokens[o.to],s,e.label-
34),i={"font-size":s,fill:r.ink,"text-anchor":"end","font-weight":700};return[O(`${a} q`,e.label-5,F.head+e.height/2+s*.35,
i),...Eh(t,e)]}function Eh({palette:t},e){let n={vectors:[e.label,e.strip],product:[e.product,e.strip],score:[e.score,F.
number],bar:[e.bar,e.weight+F.percent]};return e.valued&&Object.assign(n,{value:[e.value,F.number+F.gap],weighted:[e.weighted,
e.weight+F.percent]}),Object.entries(n).map(([o,[r,s]])=>{let[a,i]=Mh[o];return O(z(a,11)<=s?a:i,r,F.head-8,{"font-size":11,
fill:t.grey})})}function Lh({palette:t},e,n,o){if(Number.isNaN(e.scores[o]))return[];let r=Math.min(12,Math.max(B.smallest,
n.height)),s=n.y(o)+n.height/2+r*.35,a=e.weighted[o]/(e.most||1)*n.weight;return[R(n.weighted,n.y(o)+Math.min(2,n.height/
8),a,n.height-Math.min(4,n.height/4),t.contribution),O(A(e.values[o]),n.value+F.number-6,s,{"font-size":r,fill:t.ink,"te\
xt-anchor":"end"}),O(A(e.weighted[o]),n.weighted+a+4,s,{"font-size":Math.min(10,r),fill:t.grey})]}function kl(t,e,n){let{
palette:o,data:r,selection:s}=t,a=Math.min(12,Math.max(B.smallest,n.height)),i=It(n.height),l=r.runs[s.run].tokens,u={"f\
ont-size":a,fill:o.ink},c=f=>n.y(f)+n.height/2+a*.35;return l.flatMap((f,d)=>{let h=!Number.isNaN(e.scores[d]),m=h?[R(n.
bar,n.y(d)+Math.min(2,n.height/8),e.weights[d]*n.weight,n.height-Math.min(4,n.height/4),o.contribution)]:[],g=n.valued?Lh(
t,e,n,d):[];return Xt(d,i,s.from)?[...m,...g,O(H(f,a,n.label-34),n.label-30,c(d),{...u,"text-anchor":"end",fill:h?o.ink:
o.line}),O(d,n.label-5,c(d),{"font-size":9,"text-anchor":"end",fill:o.grey}),...h?[O(S(e.scores[d],!1),n.score+F.number-
6,c(d),{...u,"text-anchor":"end"}),O(G(e.weights[d],2),n.bar+Math.max(.01,e.weights[d])*n.weight+4,c(d),{"font-size":Math.
min(10,a),fill:o.grey})]:[]]:[...m,...g.slice(0,1)]})}function gl(t,e,n,o){let r=o.getBoundingClientRect(),[s,a]=[n.clientX-
r.left,n.clientY-r.top];if(n.target.closest(".heads"))return null;let i=Math.floor((a-e.y(0))/e.height);if(i<0||i>=t.n)return null;
let l=[e.label,e.product].find(u=>s>=u&&s<u+e.strip);return{key:i,dimension:l===void 0?null:Math.floor((s-l)/e.strip*t.size)}}
function Sh(t,e){return`value ‖v W_O‖ ${A(t.values[e])}, weighted ${A(t.weighted[e])}`}function Ah(t,e,{key:n,dimension:o}){
let{data:r,selection:s}=t,a=r.runs[s.run].tokens,i=[ot("to",Tt(t,a[s.to],s.to)),ot("from",Tt(t,a[n],n))],l=n*e.size+o;o!==
null&&i.push(p("div",{textContent:`dimension ${o}: ${A(e.query[o])} × ${A(e.keys[l])} × ${A(e.scale)} = ${S(e.products[l],
!1)}`}));let u=!Number.isNaN(e.scores[n]);return i.push(p("div",{textContent:u?`score ${S(e.scores[n],!1)}, weight ${G(e.
weights[n])}`:"no weight: this key is masked"})),u&&e.values&&i.push(p("div",{textContent:Sh(e,n)})),i}function Th(t,e,n,o,r){
t.addEventListener("pointermove",s=>{let a=gl(n,o,s,t),i=w("tooltip");i.hidden=!a,a&&(i.replaceChildren(...Ah(e,n,a)),ie(
i,s.clientX,s.clientY))}),t.addEventListener("pointerleave",()=>{w("tooltip").hidden=!0}),t.addEventListener("click",s=>{
let a=gl(n,o,s,t);a&&r({from:a.key})})}function Rh(t,e){let{data:n,selection:o}=t,{heads:r}=vt(n,o.run),s=p("select",{autocomplete:"\
off"},r.map((a,i)=>D(i,a)));return s.value=String(Pn(n,o)),s.setAttribute("aria-label","head"),s.addEventListener("chang\
e",()=>e(Ch(n,o,Number(s.value)))),p("div",{className:"toggles"},[s])}var $l="Orange: positive, violet: negative; each p\
icture has its own scale.";function vl(t,e,n){return wt(1,e.y(t.selection.from),n-3,e.height,t.palette.mark)}function Ml(t){
return`A score is the sum of ${t.size} products of query and key, as attention multiplied them, times ${A(t.scale)}. ✓ T\
he softmax of these scores is the model's own pattern, ${t.block.error?`to ${$e(t.block.error)}`:"digit for digit"}.${t.
values?" ‖v W_O‖ is the norm of a key's value after the head's output matrix; times the weight it is value-weighted atte\
ntion.":""}`}function Cl({data:t,selection:e}){return`This page has scores of layers ${vt(t,e.run).layers.join(", ")} on\
ly.`}function Nl(t,e,n){let o=Bn(t),r=Rh(t,e);if(!o)return[r,p("p",{textContent:Cl(t)})];let s=bl(t,o,n),a=k("g"),i=k("s\
vg",{width:n,height:s.y(o.n)+8},[...kl(t,o,s),a]),[l,...u]=Oh(t,o,s),c=p("div",{className:"heads"},[l,k("svg",{width:n,height:s.
y(0)},yl(t,s))]);i.style.marginTop=`${-s.y(0)}px`;let f=p("div",{className:"scores"},[c,...u,i]);f.setAttribute("role","\
img"),f.setAttribute("aria-label","Scores of the selected token's query with every key; the numbers are written next to \
them."),Th(f,t,o,s,e);let d=h=>a.replaceChildren(vl(h,s,n));return{nodes:[r,f,p("p",{className:"note",textContent:`${$l}\
 ${Ml(o)}`})],update:d}}function Ol(t,e){let n=Bn(t);if(!n)return null;let o=bl(t,n,e),r=[...yl(t,o),...kl(t,n,o),vl(t,o,
e)];return{groups:[{x:0,y:0,pictures:xl(n,o),nodes:r}],height:o.y(n.n)+8}}function El(t){let{data:e,selection:n}=t,o=Bn(
t),r=vt(e,n.run).heads[Pn(e,n)],s=e.runs[n.run].tokens,[a,i]=[n.to,n.from].map(c=>`${gt(s[c])} (position ${c})`),u=o&&!Number.
isNaN(o.scores[n.from])?`${a} attends to ${i}: score ${S(o.scores[n.from],!1)}, weight ${G(o.weights[n.from])}.`:o?Ne(a,
i):Cl(t);return{headline:`Layer ${n.layer}, ${r}: ${u}`,meaning:"One token's query with every key.",further:"The product\
s of their dimensions sum to the score; the softmax of the scores is the attention weight.",place:`layer ${n.layer}`,shown:`\
attention scores, ${r}, query of ${a}`,remark:"",exact:!1,method:"",note:o?`${$l} ${Ml(o)}`:"",file:[`layer${n.layer}`,`\
scores-${r}`.replaceAll(" ",""),`query${n.to}`]}}function Ll(t){let{data:e,selection:n}=t,o=Bn(t);if(!o)return null;let r=vt(
e,n.run).heads[Pn(e,n)],s=e.runs[n.run].tokens,a=Array.from({length:o.size},(l,u)=>u),i=function*(){for(let l=0;l<o.n;l++)
Number.isNaN(o.scores[l])||(yield[n.layer,r,n.to,s[n.to],l,s[l],o.scores[l],o.weights[l],...o.values?[o.values[l],o.weighted[l]]:
[],...a.map(u=>o.products[l*o.size+u])])};return{head:["layer","head",...Te,"score","weight",...o.values?["value norm","\
value-weighted"]:[],...a.map(l=>`product ${l}`)],lines:i,count:o.n}}var zh=2;function Ih(t){let{selection:e,maps:n,axes:o,row:r,column:s}=t,a=h=>gt(I(t)[h]),i=Co(t).at(-1),l=xt(t),u=i>0?` \
Darkest: ${J(i,l.asShare,l.scale==="signed")}.`:"",c=e.view==="overview"&&e.run!==e.refRun,f=n.length>1&&!c?` Colour: ${Vt(
t)[1]}; underline: ${Vt(t)[0]}.`:"",d=h=>t.data.named?"":` (${Wt(t.data,h)})`;return(e.read==="row"?`Sources of ${a(o.own[r])}${d(
o.rows[r].position)}.`:`Destinations of ${a(s)}${d(o.columns[s].position)}.`)+f+u}function _h(t){let e=p("span",{className:"\
chip",id:`token-${t}`},[p("bdi")]);return e.setAttribute("role","option"),e.dataset.column=t,e}function Sl(t){return t.maps.
filter(e=>e.role!=="difference").map(e=>se(t,e))}function Fh(t,e,n,o,r){let{palette:s,maps:a}=t,i=o[o.length-1][n],l=n===
K(t);U(e.firstChild,I(t)[n]),e.setAttribute("aria-selected",String(l)),e.classList.toggle("later",Number.isNaN(i)&&!l),e.
classList.toggle("cell",n===(t.selection.read==="row"?t.column:t.axes.own[t.row]));let u=c=>{let f=o[c][n];return Number.
isNaN(f)?null:nt(s,f,r[c],a[c].scale,t.selection.root)};e.classList.toggle("negative",a[o.length-1].scale==="signed"&&i<
0),we(e,u(o.length-1),o.length>1&&u(0))}function Al(t,e){let n=Sl(t),o=I(t),r=t.maps.filter(s=>s.role!=="difference");Array.
from(e.children).forEach((s,a)=>{let i=Wt(t.data,t.axes.columns[a].position);s.title=`${[o[a],i].filter(Boolean).join(" \
· ")}: ${n.map((l,u)=>st(r[u],l[a],r[u].asShare)).join(" → ")}`,s.setAttribute("aria-label",s.title)})}function jh(t,e,n){
let{axes:o,selection:r,data:s}=t,a={ArrowRight:1,ArrowLeft:-1,PageDown:10,PageUp:-10,Home:-s.words.length,End:s.words.length};
if(!(!(n.key in a)||n.altKey))if(n.preventDefault(),n.stopPropagation(),r.read==="row"){let i=Math.max(0,Math.min(o.nRows-
1,t.row+a[n.key]));e({to:o.rows[i].position})}else{let i=Math.max(0,Math.min(o.nColumns-1,t.column+a[n.key]));e({from:o.
columns[i].position})}}function Tl(t,e,n){let{axes:o,selection:r}=t;n.children.length!==o.nColumns&&n.replaceChildren(...Array.
from({length:o.nColumns},(i,l)=>_h(l)));let s=Sl(t),a=Co(t);Array.from(n.children).forEach((i,l)=>Fh(t,i,l,s,a)),n.setAttribute(
"aria-activedescendant",`token-${K(t)}`),n.classList.toggle("long",o.nColumns>40),n.onclick=i=>{let l=i.target.closest("\
.chip");if(!l)return;let u=o.columns[Number(l.dataset.column)].position,c=o.rowOf(u);i.shiftKey?e(r.read==="row"?{from:u}:
c>=0?{to:u}:{}):r.read==="column"||c<0?e({from:u,read:"column"}):e({to:o.rows[c].position})},n.onkeydown=i=>jh(t,e,i),U(
w("sentence-words"),Ih(t)),t.marked.push(i=>{let l=i&&(i.column??(i.row===void 0?-1:o.own[i.row]));Array.from(n.children).
forEach((u,c)=>u.classList.toggle("read",c===l))})}function Kr(t,e){let n=e.children[K(t)],o=n.offsetTop+n.offsetHeight+
zh;(n.offsetTop<e.scrollTop||o>e.scrollTop+e.clientHeight+1)&&(e.scrollTop=o-e.clientHeight)}function Wh(t){let{data:e,selection:n}=t,o=t.headsBlock||e.channels.get(n.scope).blockName;return Oe(t).flatMap((r,s)=>r.
columns.map(a=>({...a,group:s,track:r,key:Y(e,o,a.channel),refKey:a.ref&&Y(e,o,a.ref)})))}function Hn(t,e){let{data:n,selection:o}=t;
return t.headsBlock?o.heads.split(".").includes(String(n.channels.get(e.key).index)):o.scope!==e.key?!1:o.run!==o.refRun||
e.refKey===null||o.ref===e.refKey}function Ph(t,e,n,o){let r=t.data.layers.length,s=e.length?e[e.length-1].group:0,[a,i]=o?
[72,16]:[26,22+Math.max(30,Math.min(70,9*Math.max(0,...e.map(b=>b.label.length))))],l=o?Math.max(4,Math.min(24,(n-a-6)/r)):
Math.max(9,Math.min(20,480/r)),u=o?15:Math.max(8,Math.min(26,(n-a-14*s-4)/Math.max(1,e.length))),c=b=>e[b].group*(o?8:14)+
b*u,f=(b,x)=>o?[a+b*l,i+c(x)]:[a+c(x),i+b*l],d=e.map(({group:b,track:x},y)=>y&&e[y-1].group===b?0:c(y)+z(x.title,11)),h=e.
length?c(e.length-1)+u:0,m=o?h:Math.max(h,...d),g=o?[a+r*l+4,i+m+4]:[a+m+4,i+r*l+4];return{place:f,cell:o?[l,u]:[u,l],size:g,
label:a,head:i,lying:o}}function Bh(t,e,n){let{palette:o,data:r,selection:s}=t,[a,i]=n.cell,l=Math.max(1,Math.ceil((n.lying?
16:11)/(n.lying?a:i))),u=r.layers.indexOf(s.layer),c=r.layers.flatMap((m,g)=>{let b=g===u;if(!Xt(g,l,u))return[];let[x,y]=e.
length?n.place(g,0):[n.label,n.head],v={"font-size":11,fill:b?o.ink:o.grey,"font-weight":b?700:400};return[n.lying?O(m,x+
a/2,n.head-5,{...v,"text-anchor":"middle"}):O(m,n.label-6,y+i/2+4,{...v,"text-anchor":"end"})]}),f=e.map((m,g)=>{let[b,x]=n.
place(0,g),y=Hn(t,m)?700:400,v={"font-size":11,fill:o.ink,"font-weight":y};return n.lying?O(H(m.label,11,n.label-8),n.label-
6,x+i-4,{...v,"text-anchor":"end"}):bt(H(m.label,11,n.head-22),b+a/2+4,n.head-5,v)}),d=n.lying?[]:e.flatMap((m,g)=>g&&e[g-
1].group===m.group?[]:[O(m.track.title,n.place(0,g)[0],12,{"font-size":11,fill:o.grey})]);return[n.lying?O("layer",n.label-
6,n.head-5,{"font-size":11,fill:o.grey,"text-anchor":"end"}):O("layer",0,n.head-5,{"font-size":9,fill:o.grey}),...c,...f,
...d]}function Hh(t,e,n,o,r,[s,a]){let[i,l]=r,{palette:u,data:c}=t,f=e.track.values[e.channel][n],d=f===null?u.out:nt(u,
Math.max(0,f-s),a-s,"contribution",e.track.stretched?0:1).hex,h=R(o[0],o[1],i-1,l-1,d);return h.append(k("title",{},[`la\
yer ${c.layers[n]}, ${e.words}: ${ce(f)}`])),h.dataset.layer=c.layers[n],h.dataset.channel=e.key,h.dataset.ref=e.refKey??
"",h}function Dh(t,e,n,o){let{data:r,selection:s}=t,a={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[0,1],
Home:[-r.layers.length,0],End:[r.layers.length,0]}[o.key];if(!a||o.altKey)return;o.preventDefault(),o.stopPropagation();
let i=r.layers[Math.max(0,Math.min(r.layers.length-1,r.layers.indexOf(s.layer)+a[0]))],l=Math.max(0,e.findIndex(c=>Hn(t,
c))),u=e[Math.max(0,Math.min(e.length-1,l+a[1]))];n(a[1]&&u?{layer:i,...Rl(t,u)}:{layer:i})}function Rl(t,e){return t.headsBlock?
{heads:String(t.data.channels.get(e.key).index)}:{scope:e.key,...t.selection.run===t.selection.refRun?{ref:e.refKey??""}:
{}}}var zl=["run"];function qh(t,e,n){let{data:o,selection:r,palette:s}=t;return e.flatMap((a,i)=>{if(!Hn(t,a))return[];
let[l,u]=n.place(o.layers.indexOf(r.layer),i);return[wt(l,u,n.cell[0]-1,n.cell[1]-1,s.mark),wt(l-1.5,u-1.5,n.cell[0]+2,n.
cell[1]+2,s.paper)]})}function Vh(t,e,n,o){t.addEventListener("click",r=>{let s=r.target.closest("[data-layer]"),a=s&&e.
find(({key:i,refKey:l})=>i===s.dataset.channel&&(l??"")===s.dataset.ref);a&&n({layer:Number(s.dataset.layer),...Rl(o(),a)})}),
t.addEventListener("keydown",r=>Dh(o(),e,n,r))}function Uh(t,e){let{data:n,selection:o}=t,r=n.layers.indexOf(o.layer),s=e.
filter(a=>Hn(t,a)).map(({track:a,channel:i,words:l})=>`${l}: ${ce(a.values[i][r])}`);return[t.headsBlock||Me(n,o.scope),
...s].join(", ")}function Il(t,e,n,o){let r=Wh(t),s=Ph(t,r,n,o),a=Ee(Oe(t)),i=t.data.layers.flatMap((m,g)=>r.map((b,x)=>Hh(
t,b,g,s.place(g,x),s.cell,a[b.group]))),[l,u]=[k("g"),k("g")],c=k("svg",{width:s.size[0],height:s.size[1],"aria-hidden":"\
true"},[l,...i,u]),f=p("div",{className:"rail",tabIndex:0},[c]);f.setAttribute("role","application");let d=t;return Vh(f,
r,e,()=>d),{nodes:[f],update:m=>{d=m,f.setAttribute("aria-label",`Layers and steps, arrow keys choose. Now layer ${m.selection.
layer}, ${Uh(m,r)}.`),l.replaceChildren(...Bh(m,r,s)),u.replaceChildren(...qh(m,r,s))}}}function Gr(t){return Oe(t).map(
e=>[e.note,le(e)&&`Colours: ${le(e)}.`].filter(Boolean).join(" ")).join(" ")}var Kh=(t,e)=>{let n=$t(t,e);return rt(t,e).map(o=>n[o])},qn=[{name:"overview",label:"Overview",there:Si,keys:()=>[],draw:Bi,
fields:Ai,controls:["pair","hide","range","root","zoom"],withoutOwn:!0,words:Ii,figure:Di,table:$a},{name:"maps",label:"\
Maps",there:P,keys:()=>[],draw:jr,fields:()=>pi,controls:[...qt,"zoom","root"],words:Ut,figure:wi,table:bn},{name:"heads",
label:"Heads",there:On,keys:Kh,draw:ci,fields:$r,controls:["run","layer"],words:fi,figure:ui,table:hi},{name:"all",label:"\
All heads",there:On,keys:$t,draw:$i,fields:yi,controls:["run","cells","range","root"],words:Mi,figure:vi,table:Ci},{name:"\
scores",label:"Scores (q·k)",there:t=>vt(t,0)!==void 0,keys:()=>[],tables:Ur,draw:Nl,fields:wl,controls:["run","layer"],
words:El,figure:Ol,table:Ll},{name:"numbers",label:"Numbers",there:ll,keys:()=>[],draw:ul,fields:()=>["run","to"],controls:[],
words:fl,figure:hl,table:dl},{name:"graph",label:"Graph",there:Qe,keys:()=>[],draw:zs,fields:Rs,controls:[],words:Is,figure:_s,
table:Fs,find:Ss,look:fo},{name:"memories",label:"Memories",there:t=>jn(t,0).length>0,keys:()=>[],draw:Xi,controls:[],words:Zi}];
function mt(t,e){return qn.find(({name:n,there:o})=>n===e.view&&o(t))||qn.find(({name:n,there:o})=>(n==="maps"||!P(t))&&
o(t))}var Gh=3,Yh=2,Xh=1,M={data:null,selection:null,scene:null,places:null,width:0,framed:0,rail:0,lying:!1,pending:!1,
figureOfMap:null,paper:!1},Zh=430,Jh=270,Qh=4;function td(){let{theme:t}=document.documentElement.dataset;return(t?t==="\
dark":window.matchMedia("(prefers-color-scheme: dark)").matches)&&!M.paper}function ed(t){w("certificate").textContent=Qs(
t),w("drawn").textContent=`Numbers on this page are rounded, with a relative error of at most ${J(t.precision,!0)}.`,w("\
provenance").textContent=Object.entries(t.provenance).map(([e,n])=>`${e}: ${n}`).join(" · ")}function nd(t,e){if(!P(t)&&
!ht(t))return Qe(t)?js(t):Jt(t,0).facts;let n=t.queries.length<t.words.length?`, ${t.queries.length} of them as destinat\
ions`:"",o=(r,s)=>`${r} ${s}${r===1?"":"s"}`;return[t.model,...e?[]:[t.heading],...t.layered?[o(t.layers.length,"layer")]:
[],`${o(t.words.length,t.named?"named position":"token")}${n}`].join(" · ")}function od({data:t,selection:e}){let n=tt(
t,e),o=n?` ${S(n.value,!1)}${zt(n)}`:"",r=mt(t,e).name==="overview"&&!n,s=n?n.question:r?ga({data:t,selection:e}):P(t)?`\
“${dn(t,e.run,300)}”`:t.heading,a=n||!P(t)?s+o:dn(t,e.run,60);U(document.querySelector("title"),[a,t.model].filter(Boolean).
join(" · ")),U(w("words-read").firstChild,s),U(w("answer"),o),U(w("facts"),nd(t,n||r)),w("facts").title=w("facts").textContent,
w("facts").parentElement.classList.toggle("short",mt(t,e).name==="overview"),w("answer").className=n&&n.value<0?"loss":"\
gain"}async function rd(t,e){let n=mt(t,e),o=(P(t)?[e.scope,...n.keys(t,e)]:[]).map(s=>[e.run,s]);e.ref&&o.push([e.refRun,
e.ref]),P(t)&&o.push(...pt(t).map(s=>[s,e.scope]));let r=n.tables?n.tables(t,e):[];await Promise.all([...o.map(([s,a])=>t.
load(s,a)),...r.map(t.open)])}async function sd(t){let{data:e,selection:n}=t,o=["head","expert"].flatMap(r=>Po(t,r)).filter(
r=>!e.loaded(n.run,r));for(let r of o)await e.load(n.run,r);return o.length>0}var ad=60,id=500;function ld(t){return(t.panel||
t.ref==="")&&!at&&!M.paper?Math.max(id,window.innerHeight)-ad:0}var Zr={most:638,layers:330,least:100};function Fl(){return Math.
ceil(document.body.scrollHeight)+2}function jl(){let{data:t,selection:e}=M,n=Mo(t,e);n.palette=M.palette,n.paper=n.inLine=
n.striped=M.paper,n.ratio=n.paper?Qh:Math.min(3,window.devicePixelRatio||1),n.windowRoom=ld(e),n.marked=[];let{name:o}=mt(
t,e);return n.headsBlock=On(t)&&["heads","all","scores"].includes(o)?X(t,e)[0]:"",n.hover=r=>{for(let s of n.marked)s(r)},
n}function cd(){let t=w("figure").clientWidth;t!==M.width&&(M.framed=Zr.layers),M.width=t,M.rail=w("rail").clientWidth,M.
lying=window.innerWidth<1100}function ud(t){let{data:e,selection:n}=t,o=mt(e,n);for(let i of w("views").children)i.setAttribute(
"aria-selected",String(i.dataset.view===o.name));w("further").value=w("further").querySelector(`[value=${o.name}]`)?o.name:
"",w("further").classList.toggle("chosen",w("further").value!==""),w("what").dataset.view=o.name,w("views").hidden=qn.filter(
({there:i})=>i(e)).length<2;let r=o.fields?o.fields(t):[],s=()=>M.places.figure(t,o.name+_t(t,r,M.width)+t.framed,()=>o.
draw(t,M.go,M.width));s();let a=at&&o.name==="overview"&&!Hl()?Fl()-Zr.most:0;a<=0||(t.framed=M.framed=Math.max(Zr.least,
M.framed-a),s())}function Wl(){return new Promise(t=>{requestAnimationFrame(()=>setTimeout(t)),setTimeout(t,100)})}function Pl(t){
M.scene=t,w("bench").dataset.view=mt(t.data,t.selection).name,cd(),t.width=M.width,t.framed=M.framed,od(t),La(t,mt(t.data,
t.selection)),w("reading").hidden=t.headsBlock!==""||M.view().name==="memories"||M.view().name==="overview"&&ht(t.data),
P(t.data)&&Tl(t,M.go,w("sentence"));let e=mt(t.data,t.selection).words(t);U(w("meaning"),t.paper?mn(e):e.meaning),U(w("h\
elp-drawn"),mn(e)),U(w("headline"),e.headline),ud(t),performance.mark("picture"),document.body.dataset.state="picture"}function Bl(t){
dd(t),document.body.dataset.state="drawn",pd()}async function fd(){let t=jl();Pl(t),await Wl(),M.scene===t&&Bl(t)}function _l(t){
M.paper=t,document.body.classList.toggle("paper",t),Dn();let e=jl();Pl(e),Bl(e)}function Hl(){return!at||document.body.classList.
contains("open")}function Yr(t){let e=w("card");if(mt(t.data,t.selection).name==="graph"){Ts(t,M.go);return}let n=Vi(t,M.
go);if(!P(t.data)){e.replaceChildren(...n);return}if(oa(t,M.go,e),mt(t.data,t.selection).name==="memories"){e.replaceChildren();
return}if(mt(t.data,t.selection).name!=="overview"){e.append(...n);return}let o=n.length?[]:[p("p",{className:"said",textContent:Ut(
t).headline})];e.prepend(...o,hd(t,w("why").clientWidth),...n)}function hd(t,e){let{data:n,selection:o,maps:r}=t,s=r.length>
1?"after":"only",a={...t,selection:{...o,panel:s},windowRoom:0,beside:!0},{nodes:i,update:l}=jr(a,M.go,Math.min(e,t.paper?
Jh:Zh));l(a);let u=tt(n,o),c=[[r.length>1?"before, after, change":"larger","the maps of this layer",{view:"maps"}]];Xo(n,
o)&&c.push([`in ${u.unit||"its units"}`,"contributions of the layer to the target, destinations by sources",ya(n,o)]);let f=c.
map(([d,h,m])=>{let g=p("button",{type:"button",textContent:d,title:h});return g.addEventListener("click",()=>M.go(m)),g});
return p("section",{className:"card close-up"},[p("div",{className:"aside-head"},[p("h3",{textContent:n.layered?`Layer ${o.
layer}`:"The map"}),p("span",{className:"group"},f)]),...i])}function dd(t){w("figure-tools").hidden||Fe(M);let e=w("fig\
ure").querySelector(".attributed");if(e&&Kr(t,e),!P(t.data)){Yr(t);return}if(Kr(t,w("sentence")),Al(t,w("sentence")),ra(
t,w("circuitsvis-place")),!Hl())return;let{data:n,selection:o}=t,{places:r,go:s,rail:a,lying:i}=M,l=t.headsBlock||n.channels.
get(o.scope).blockName;r.rail(t,l+i+_t(t,zl,a),()=>Il(t,s,a,i));let{axis:u}=n.block(o.scope);U(w("where-title"),`Layers \
and ${t.headsBlock?"heads":u==="scope"?"steps":`${u}s`}`),U(w("where-way"),sa(t)),U(w("where-note"),t.headsBlock?"":Gr(t)),
U(w("help-layers"),Gr(t)),Yr(t),r.pairs(t,_t(t,ml(t),0),()=>pl(t,s)),sd(t).then(c=>{c&&M.scene===t&&Yr(t)})}async function Et(){
if(document.body.dataset.state="waiting",M.pending)return;M.pending=!0,await null,M.pending=!1;let{selection:t}=M;await rd(
M.data,t),t===M.selection&&w("figure").clientWidth>0&&fd()}var Xr={fields:"",time:-1e9};M.go=t=>{let e=Gs(M.data,M.selection,
t),n=Object.keys(t).join();if(M.selection=e,Et(),Dl(),at)return;let o=n===Xr.fields&&performance.now()-Xr.time<700;Xr={fields:n,
time:performance.now()},Wl().then(()=>md(ln(M.data,e)||"#",o))};function md(t,e){t!==(location.hash||"#")&&history[e?"re\
placeState":"pushState"](null,"",t)}M.address=()=>at?ln(M.data,M.selection):location.href.split("#")[0]+ln(M.data,M.selection);
M.resized=Et;M.view=()=>mt(M.data,M.scene.selection);function pd(){at&&window.parent.postMessage({tlFfblock:"height",height:Fl()},
"*")}function Dl(){if(!at)return;let{run:t,scope:e,layer:n,refRun:o,ref:r,to:s,from:a}=M.selection;window.parent.postMessage(
{tlFfblock:"selection",selection:{run:M.data.runs[t].name,scope:e,layer:n,against_run:M.data.runs[o].name,against:r||null,
query:s,key:a}},"*")}function Dn(){M.palette=Ye(td()?"dark":"light")}function gd(){let t=qn.filter(({there:a})=>a(M.data)),
e=M.data.runs.length>1?Xh:Yh,[n,o]=t.length>Gh?[t.slice(0,e),t.slice(e)]:[t,[]];w("further").replaceChildren(Object.assign(
D("","More views"),{hidden:!0}),...o.map(({name:a,label:i})=>D(a,i))),w("further").hidden=o.length===0,w("further").addEventListener(
"change",()=>M.go({view:w("further").value})),w("views").replaceChildren(...n.map(({name:a,label:i})=>{let l=p("button",
{type:"button",textContent:i});return l.setAttribute("role","tab"),l.dataset.view=a,l.addEventListener("click",()=>M.go(
{view:a})),l})),w("more").addEventListener("click",()=>{let a=document.body.classList.toggle("open");w("more").setAttribute(
"aria-expanded",String(a)),Et()});let r=()=>{M.selection=yo(M.data,location.hash),Et()};for(let a of["popstate","hashcha\
nge","pageshow"])window.addEventListener(a,at?Et:r);let s=window.innerWidth;new ResizeObserver(()=>{w("figure").clientWidth===
M.width&&window.innerWidth===s||(s=window.innerWidth,Et())}).observe(w("figure")),Dn(),window.matchMedia("(prefers-color\
-scheme: dark)").addEventListener("change",()=>{Dn(),Et()}),window.addEventListener("message",({source:a,data:i})=>{!at||
a!==window.parent||!i||i.tlFfblock!=="theme"||(document.documentElement.dataset.theme=i.dark?"dark":"light",Dn(),Et())}),
window.addEventListener("beforeprint",()=>_l(!0)),window.addEventListener("afterprint",()=>_l(!1))}function wd(){M.data=
Ps(JSON.parse(w("data").textContent)),M.selection=yo(M.data,at?"":location.hash),M.places={figure:Mn(w("figure")),rail:Mn(
w("rail")),pairs:Mn(w("pair-list"))},document.body.classList.toggle("framed",at),document.body.classList.toggle("unlayer\
ed",!M.data.layered),document.body.classList.toggle("mapless",!P(M.data)),w("search").parentElement.hidden=M.data.queries.
length===0&&!Qe(M.data),ed(M.data),Ma(M.data),Sa(),gd(),Ea(M),oi(M),Aa(M),Dl(),Et()}wd();})();
