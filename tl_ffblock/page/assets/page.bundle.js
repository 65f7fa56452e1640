/* sources b357add48601f45c4c65df589ec2abe959edb39ac4a6c6eb015ff6df73e91e5d */
"use strict";
"use strict";(()=>{function ct(t){if(t==null||Number.isNaN(t))return"–";let e=Math.abs(t);return e!==0&&(e<.001||e>=1e5)?t.toExponential(
1).replaceAll("-","−"):String(Number(t.toPrecision(3))).replaceAll("-","−")}function de(t){return t==null?"–":`${t>
0?"+":""}${ct(t)}`}function Bl(t){return t>.995&&t<1?"99 %":`${Math.round(100*t)} %`}var qn="Sums in the cards include h\
idden edges.";function Vn(t,e,n,o){let r=t.edges.length-n.length,s=t.targets.length?"the absolute attributions that can \
be hidden":"the sizes of all edges that can be hidden",a=r?`, and ${r} that are always shown`:"";return`${o} of the page\
's ${n.length} edges${a}: ${Bl(e.carried)} of ${s}.`}function Un(t){return`${t.token?`${t.name}: ${t.token}`:t.name} = ${ct(
t.value)}`}function He(t){return Array.from(new Intl.Segmenter().segment(t),e=>e.segment)}function Kn(t){let e=[];return t.forEach(
(n,o)=>{o&&n===t[o-1]?e[e.length-1].push(o):e.push([o])}),e}function Hl(t){return t.length===1?t[0]:t.map((e,n)=>n?e.replace(
/^##/,""):e).join("")}function Xr(t,e){let n=e?Kn(t.words):t.words.map((a,i)=>[i]),o=[];n.forEach((a,i)=>a.forEach(l=>{o[l]=
i}));let r=[];t.queries.forEach((a,i)=>{let l=r.find(u=>u.own===o[a]);l?l.members.push(i):r.push({own:o[a],members:[i],position:a})});
let s=r.map(a=>a.own);return{columns:n.map(a=>({members:a,position:a[0]})),rows:r,own:s,columnOf:o,nRows:r.length,nColumns:n.
length,reaches:(a,i)=>!t.causal||i<=s[a],rowOf:a=>s.indexOf(o[a]),labels:a=>n.map(i=>Hl(i.map(l=>a[l])))}}function Wt(t,e){
return t.named?"":`position ${e}`}function De(t,e,n){return t.named?"":`from ${Wt(t,e)} to ${Wt(t,n)}`}function te(t,e){
return t.named?"":e}function Gn(t,e){return Math.max(0,t.segments.filter(([,n])=>n<=e).length-1)}function Zr(t,e){return t.
map((n,o)=>n===e[o]?n:`${n}→${e[o]}`)}function me(t,e,n){let o=new Float32Array(t.nRows*t.nColumns).fill(NaN);return t.
rows.forEach((r,s)=>t.columns.forEach((a,i)=>{let[l,u]=[0,!1];for(let c of r.members)for(let f of a.members){let d=e[c*n+
f];Number.isNaN(d)||(l+=d,u=!0)}u&&(o[s*t.nColumns+i]=l/r.members.length)})),o}function Jr(t,e){return Float32Array.from(
t.rows,n=>n.members.reduce((o,r)=>o+e[r],0)/n.members.length)}var ge="http://www.w3.org/2000/svg",ee="system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sa\
ns-serif";function k(t,e={},n=[]){let o=document.createElementNS(ge,t);for(let[r,s]of Object.entries(e))o.setAttribute(r,
s);return o.append(...n),o}function j(t,e,n,o,r){return k("rect",{x:t,y:e,width:Math.max(0,n),height:Math.max(0,o),fill:r,
"shape-rendering":"crispEdges"})}function O(t,e,n,o={}){return k("text",{x:e,y:n,"font-size":12,...o},[t])}function bt(t,e,n,o){
return O(t,e,n,{transform:`rotate(-90 ${e} ${n})`,...o})}function p(t,e={},n=[]){let o=Object.assign(document.createElement(
t),e);return o.append(...n),o}function V(t,e){t.textContent!==e&&(t.textContent=e)}function we(t,e,n){t.style.backgroundColor=
e?e.hex:"",t.style.color=e?e.readable:"",t.style.boxShadow=n?`inset 0 -4px ${n.hex}`:""}function qe(t,e,n,o){let r=p("li",
{className:"chip",title:n},[p("bdi",{textContent:t}),p("span",{textContent:e})]);return we(r,o,null),r}function w(t){return document.
getElementById(t)}var Qr=document.createElement("canvas").getContext("2d"),Dl=2e4,pe=new Map;function R(t,e){let n=`${e}\
 ${t}`;return pe.has(n)||(pe.size>Dl&&pe.clear(),Qr.font=`${e}px ${ee}`,pe.set(n,Qr.measureText(t).width)),pe.get(n)}function H(t,e,n){
if(R(t,e)<=n)return t;let o=He(t.slice(0,400));for(;o.length>1&&R(o.join("")+"…",e)>n;)o.pop();return o.join("")+"…"}
function Ve(t,e,n){let o=[""];for(let r of t.split(" ")){let s=o[o.length-1]?`${o[o.length-1]} ${r}`:r;o[o.length-1]&&R(
s,e)>n?o.push(r):o[o.length-1]=s}return o}function Pt(t,e){let n=p("tr");return t.forEach((o,r)=>{let s=p("td");if(r===0&&e){let a=p("button",{type:"button",className:"\
plain",textContent:o});a.addEventListener("click",e),s.append(a)}else s.textContent=o;n.append(s)}),n}function ql(t){return t.
label&&t.label!==t.short?`${t.short} ${t.label}`:t.short}function ts(t,e,n,o){let r=s=>Math.abs(s.shares[o]??0);return t.
edges.filter(s=>s[n]===e).sort((s,a)=>r(a)-r(s)||Math.abs(a.size)-Math.abs(s.size))}function es(t,e,n,o,r,s){if(!n.length&&
!s.length)return[];let{data:a,target:i}=t,l=h=>a.targets.length?[de(h[i])]:[],u=p("tr",{},[p("th"),p("th",{textContent:"\
size"}),...a.targets.length?[p("th",{textContent:"share"})]:[]]),c=60,f=n.slice(0,c).map(h=>Pt([ql(a.nodes[h[o]]),`${h.unit in
a.widths?"":`${h.unit} `}${ct(h.size)}`,...l(h.shares)],()=>r(h[o]))),d=n.length>c?[Pt([`and ${n.length-c} more`,"",""])]:
[];return[p("h3",{textContent:e}),p("table",{},[u,...f,...d,...s.map(({name:h,size:m,shares:g})=>Pt([h,m===null?"":ct(m),
...l(g)]))])]}function Vl(t,e){let{data:n,target:o}=t,r=e.facts.map(([s,a])=>Pt([s,ct(a)]));if(n.targets.length){let{token:s,
name:a,value:i}=n.targets[o];r.push(Pt([`share of ${a}`,`${de(e.shares[o])} of ${ct(i)}`])),s&&e.ranks[o]&&r.push(Pt([`r\
ank of ${s}`,String(e.ranks[o])]),Pt([`probability of ${s}`,ct(e.probabilities[o])]))}return p("table",{},r)}function ns(t,e,n){
let{data:o,target:r}=t;if(e===null)return[p("p",{className:"note",textContent:"Choose a node to see its tokens, inputs a\
nd outputs."})];let s=o.nodes[e],a=(s.own_shares[r]??0)!==0?[{name:"own contribution",size:null,shares:s.own_shares}]:[],
i=s.unseen?[{name:`not on this page${s.unseen>1?` (${s.unseen})`:""}`,size:null,shares:s.rest_shares}]:[],l=ts(o,e,"targ\
et",r),u=s.says.length?[p("div",{className:"says"},s.says.map(c=>p("bdi",{textContent:c})))]:[];return[p("h2",{textContent:s.
name}),...u,Vl(t,s),...es(t,"Inputs",l,"source",n,[...a,...i]),...es(t,"Outputs",ts(o,e,"source",r),"target",n,[])]}var Ue={width:76,widest:130,height:28,gap:4,apart:26,closest:10,lane:14,top:34,left:10,most:190};function rs(t,e){let n=o=>t.
targets.length?Math.abs(o.weights[e]??0):o.unit in t.widths?o.size:0;return t.edges.map((o,r)=>({index:r,weight:n(o)})).
filter(({index:o})=>!t.edges[o].always).sort((o,r)=>r.weight-o.weight||o.index-r.index)}function ss(t,e,n,o){let r=new Set(
t.edges.flatMap((l,u)=>l.always?[u]:[]));for(let{index:l}of n.slice(0,o))r.add(l);let s=new Set;for(let l of r)s.add(t.edges[l].
source).add(t.edges[l].target);let a=l=>l.reduce((u,{weight:c})=>u+c,0),i=a(n);return{edges:r,nodes:s,carried:i?a(n.slice(
0,o))/i:1}}function os(t,e,n){let o=new Map,r=new Set;for(let d of e.nodes){let{column:h,lane:m}=t.nodes[d];r.add(h);let g=`${m}\
/${h}`;o.has(g)||o.set(g,[]),o.get(g).push(d)}let s=[...r].sort((d,h)=>d-h),a=Array.from({length:t.lanes},()=>0);for(let[
d,h]of o)a[Number(d.split("/")[0])]=Math.max(a[Number(d.split("/")[0])],h.length);let i=n.height+n.gap,l=[],u=n.top;for(let d of a)
l.push(u),d&&(u+=d*i+n.lane);let c=new Map;for(let[d,h]of o){let[m,g]=d.split("/").map(Number),b=l[m]+Math.min(n.most,(a[m]-
h.length)*i/2);h.sort((x,y)=>x-y).forEach((x,y)=>c.set(x,{x:n.left+s.indexOf(g)*(n.width+n.apart),y:b+y*i}))}let f=2*n.left+
s.length*(n.width+n.apart)-n.apart;return{places:c,columns:s.map((d,h)=>({title:t.columns[d],x:n.left+h*(n.width+n.apart)})),
width:f,height:u,size:n}}var Ul=.7;function as(t,e,n,o){let r=new Set([...e.nodes].map(l=>t.nodes[l].column)).size-1,s=(o-
2*n.left-(r+1)*n.width)/Math.max(1,r),a=os(t,e,{...n,apart:Math.max(n.closest,Math.min(n.apart,s))}),i=Math.min(1,o/a.width);
return i<Ul?{layout:os(t,e,n),part:1}:{layout:a,part:i}}function is(t){let e={};for(let{unit:n,size:o}of t.edges)n in t.
widths&&(e[n]=Math.max(e[n]||0,Math.abs(o)));return e}function ls(t,e){return e[t.unit]?.8+9*Math.sqrt(Math.abs(t.size)/
e[t.unit]):1.1}function cs(t,e){let n=s=>s.map(a=>Math.abs(a.shares[e]??0)).filter(a=>a>0).sort((a,i)=>a-i),o=n(t.edges.
filter(s=>!s.always)),r=o.length?o:n(t.edges);return r.length?r[Math.min(r.length-1,Math.floor(.98*r.length))]:1}function Ke(t,e,n,o){let r=new Float32Array(e);for(let s=0;s<t.nRows;s++){let a=s*t.nColumns;for(let i of n)r[a+i]=NaN;o&&
(r[a+t.own[s]]=NaN)}return r}function Xn(t,e,n,o){let r=Ke(t,e,n,o==="others");if(o==="none")return r;let{nRows:s,nColumns:a}=t,
i=o==="column"?(u,c)=>c:u=>u,l=new Float64Array(o==="column"?a:s);for(let u=0,c=0;u<s;u++)for(let f=0;f<a;f++,c++)Number.
isNaN(r[c])||(l[i(u,f)]+=r[c]);for(let u=0,c=0;u<s;u++)for(let f=0;f<a;f++,c++)l[i(u,f)]>0&&(r[c]/=l[i(u,f)]);return r}function Zn(t,e,n){
let o=Ke(t,e,n,!1);return Float32Array.from(t.own,(r,s)=>{let a=0;for(let i=0;i<t.nColumns;i++)a+=o[s*t.nColumns+i]||0;return a>
0?o[s*t.nColumns+r]/a:NaN})}function Ge(t,e){let n=new Float32Array(t.length);for(let o=0;o<t.length;o++)n[o]=t[o]-e[o];
return n}function E(t){let e=0;for(let n of t)Math.abs(n)>e&&(e=Math.abs(n));return e}function Yn(t,e,n,o=0){let r=new Float32Array(
e.length),s=0;for(let a=0,i=0;a<t.nRows;a++){let l=s;for(let u=0;u<t.nColumns;u++,i++)!Number.isNaN(e[i])&&(n||t.own[a]!==
u)&&(r[s++]=Math.abs(e[i]));s-l<o&&(s=l)}return r.subarray(0,s)}function be(t,e){let[n,o]=[0,t.length-1];for(;n<o;){let r=t[n+
o>>1],[s,a]=[n,o];for(;s<=a;){for(;t[s]<r;)s++;for(;t[a]>r;)a--;if(s>a)break;[t[s],t[a]]=[t[a],t[s]],s++,a--}if(e<=a)o=a;else if(e>=
s)n=s;else break}return t[e]}var ne=20,Kl=3;function Lt(t,e,n,o=!1){let r=n==="all",s=o&&!r?Yn(t,e,!1,Kl):[],a=s.length?
s:Yn(t,e,r),i=a.length?a:Yn(t,e,!0);return n!=="percentile"?E(i):be(i,Math.floor(.99*(i.length-1)))||E(i)}function Bt(t,e,n){
let o=e>0?Math.min(1,Math.abs(t)/e):0;return n?Math.sqrt(o):o}function us(t,e,[n,o,r,s],a,i){let l=new Float32Array(a*i).
fill(NaN),[u,c]=[o-n+1,s-r+1];if(u===i&&c===a){for(let m=0;m<u;m++)l.set(t.subarray((n+m)*e+r,(n+m)*e+s+1),m*c);return l}
let f=(m,g)=>Array.from({length:m},(b,x)=>{let y=Math.floor(x*g/m);return[y,Math.max(y+1,Math.floor((x+1)*g/m))]}),[d,h]=[
f(u,i),f(c,a)];for(let m=0;m<u;m++)for(let g=0;g<c;g++){let b=t[(n+m)*e+r+g];if(!Number.isNaN(b))for(let x=d[m][0];x<d[m][1];x++)
for(let y=h[g][0];y<h[g][1];y++){let M=x*a+y;Math.abs(l[M])>=Math.abs(b)||(l[M]=b)}}return l}var xe={light:{paper:"#ffffff",ink:"#17202a",grey:"#5b6672",line:"#8b95a1",out:"#f1f3f5",hatch:"#d9dee3",contribution:"#\
003f5c",gain:"#b35806",loss:"#6a5fc0",bias:"#4a4f57",mark:"#17202a",read:"#d0106f"},dark:{paper:"#14191f",ink:"#e8edf2",
grey:"#a3adb8",line:"#66717d",out:"#1c232b",hatch:"#323c47",contribution:"#9fd8f5",gain:"#f0933f",loss:"#a398f0",bias:"#\
c3cad2",mark:"#ffffff",read:"#ff6ab0"}};function oe(t){return[1,3,5].map(e=>parseInt(t.slice(e,e+2),16))}function Gl(t){
return"#"+t.map(e=>e.toString(16).padStart(2,"0")).join("")}var ps=[.95047,1,1.08883],gs=[[.4124564,.3575761,.1804375],[
.2126729,.7151522,.072175],[.0193339,.119192,.9503041]],Yl=[[3.2404542,-1.5371385,-.4985314],[-.969266,1.8760108,.041556],
[.0556434,-.2040259,1.0572252]];function Qn(t,e){return t.map(n=>n.reduce((o,r,s)=>o+r*e[s],0))}function ws(t){return t.
map(e=>e/255<=.04045?e/255/12.92:((e/255+.055)/1.055)**2.4)}function fs(t){let[e,n,o]=Qn(gs,ws(t)).map((r,s)=>r/ps[s]).map(
r=>r>.008856451679035631?Math.cbrt(r):(903.2962962962963*r+16)/116);return[116*n-16,500*(e-n),200*(n-o)]}function Xl([t,
e,n]){let o=(t+16)/116,r=[o+e/500,o,o-n/200].map((a,i)=>ps[i]*(a**3>216/24389?a**3:(116*a-16)*27/24389)),s=a=>a<=.0031308?
12.92*a:1.055*a**(1/2.4)-.055;return Qn(Yl,r).map(a=>Math.round(255*Math.min(1,Math.max(0,s(Math.max(0,a))))))}var Mt=256;
function Zl(t,e){let[n,o]=[fs(oe(t)),fs(oe(e))];return Array.from({length:Mt+1},(r,s)=>Xl(n.map((a,i)=>a+(o[i]-a)*(s/Mt))))}
function hs([t,e,n]){return(255<<24|n<<16|e<<8|t)>>>0}var Jn=new Map;function Ye(t){return Jn.has(t)||Jn.set(t,Jl(t)),Jn.
get(t)}function Jl(t){let e=xe[t],o=["contribution","gain","loss","bias"].map(a=>[a,Zl(e.paper,e[a])]),r=Object.fromEntries(
o.map(([a,i])=>[a,Uint32Array.from(i,hs)])),s=Object.fromEntries(o.map(([a,i])=>[a,i.map(l=>({rgb:l,hex:Gl(l),readable:to(
l)}))]));return{...e,name:t,ramps:s,shades:r,outside:hs(oe(e.out))}}function Ql(t,e){return e==="signed"?t<0?"loss":"gai\
n":e}function nt(t,e,n,o,r=0){return t.ramps[Ql(e,o)][Math.round(Bt(e,n,r)*Mt)]}var ds=["#17202a","#ffffff","#000000"],tc=4.5;
function ms(t){return Qn([gs[1]],ws(t))[0]}function to(t){let e=ms(t),n=o=>{let r=ms(oe(o));return(Math.max(r,e)+.05)/(Math.
min(r,e)+.05)};return ds.find(o=>n(o)>=tc)||ds[2]}var no=11,eo=9.5;function xs({nodes:t}){return{...Ue,width:Math.ceil(Math.min(Ue.widest,Math.max(Ue.width,...t.map(({short:e})=>R(
e,no)+6))))}}function ye(t,e,n,o=0){if(!e)return t.line;let r=Math.round(Mt*Math.max(o,Math.sqrt(Math.min(1,Math.abs(e)/
n))));return t.ramps[e>0?"gain":"loss"][r].hex}function ec(t,e){return e?t.ramps.contribution[Math.round(Mt*Math.max(.04,
1-Math.log10(e)/4.7))].hex:t.paper}function Ze({palette:t,flattest:e},n){return t.ramps.contribution[Math.round(Mt*Math.
max(.04,1-n/(e||1)))].hex}function oo(t,e){let{data:n,palette:o,target:r,limit:s}=t;if(t.inks!=="entropy")return n.targets.
length?ye(o,e.shares[r],s,.22):o.line;let{entropy:a}=n.nodes[e.source];return a===null||!(e.unit in n.widths)?o.line:Ze(
t,a)}function ro(t,e){return t.inks==="entropy"?e.entropy===null?t.palette.paper:Ze(t,e.entropy):t.inks==="rank"&&t.data.
targets.length?ec(t.palette,e.ranks[t.target]):e.shares.length&&e.shares[t.target]?ye(t.palette,e.shares[t.target],t.limit):
t.palette.paper}function nc(t,e){let{data:n,layout:o}=t,r=n.edges[e],{size:s,places:a}=o,[i,l]=[a.get(r.source),a.get(r.
target)],[u,c,f,d]=[i.x+s.width,i.y+s.height/2,l.x,l.y+s.height/2],h=Math.max(s.apart/2,(f-u)/2),m=k("path",{class:"grap\
h-edge",d:`M${u} ${c}C${u+h} ${c} ${f-h} ${d} ${f} ${d}`,fill:"none",stroke:oo(t,r),"stroke-width":ls(r,t.largest),"stro\
ke-opacity":.8});return r.unit in n.widths||m.setAttribute("stroke-dasharray","4 3"),m.dataset.edge=e,m}function oc(t,e){
let n=t.data.nodes[e],o=t.layout.places.get(e);if(!n.unseen)return[];let r=n.rest_shares[t.target]||0,s=o.y+t.layout.size.
height-5;return[k("path",{class:"graph-edge",d:`M${o.x-14} ${s+9}L${o.x} ${s}`,stroke:t.inks==="entropy"?t.palette.line:
ye(t.palette,r,t.limit,.22),"stroke-width":2,"stroke-dasharray":"2 2"})]}function rc(t,e){let{data:n,layout:o,palette:r}=t,
s=n.nodes[e],{x:a,y:i}=o.places.get(e),{width:l,height:u}=o.size,c=ro(t,s),f=to(oe(c)),d=n.targets.length&&s.shares[t.target]?
de(s.shares[t.target]):"",m=[s.label&&H(s.label,eo,l-6-R(` ${d}`,eo)),d].filter(Boolean).join(" "),g=`${s.label} ${s.name}`,
b=k("g",{class:"graph-node",transform:`translate(${a} ${i})`,role:"img","aria-label":g},[k("rect",{width:l,height:u,rx:4,
fill:c,stroke:r.line}),O(H(s.short,no,l-6),l/2,m?12:18,{"font-size":no,"text-anchor":"middle",fill:f})]);return m&&b.append(
O(m,l/2,24,{"font-size":eo,"text-anchor":"middle",fill:f})),b.dataset.node=e,b}var Xe=29;function ys(t,{title:e,x:n}){let{
width:o,apart:r}=t.layout.size;return e.split(`
`).map((s,a)=>O(H(s,10,o+r-4),n+o/2,12+12*a,{"font-size":10,"text-anchor":"middle",fill:t.palette.grey}))}function ks(t){
let{layout:e,palette:n,part:o}=t,r=k("svg",{class:"headings",width:e.width*o,height:Xe*o,viewBox:`0 0 ${e.width} ${Xe}`,
"font-family":ee,"aria-hidden":"true"},[j(0,0,e.width,Xe,n.paper),...e.columns.flatMap(s=>ys(t,s))]);return r.style.marginBottom=
`${-Xe*o}px`,r}function so(t){let{data:e,layout:n,shown:o,palette:r,part:s}=t,a=[...o.edges].sort((i,l)=>Math.abs(e.edges[i].
shares[t.target]||0)-Math.abs(e.edges[l].shares[t.target]||0));return k("svg",{xmlns:ge,width:n.width*s,height:n.height*
s,viewBox:`0 0 ${n.width} ${n.height}`,"font-family":ee},[j(0,0,n.width,n.height,r.paper),...n.columns.flatMap(i=>ys(t,i)),
...[...o.nodes].flatMap(i=>oc(t,i)),...a.map(i=>nc(t,i)),...[...o.nodes].map(i=>rc(t,i))])}var bs=900;function $s(t,{columns:e,
places:n,width:o,size:r}){if(o<=bs)return[t];let s=r.width+r.apart,a=Math.floor((bs-2*r.left+r.apart)/s);return e.map((l,u)=>u).
filter(l=>l%(a-1)===0&&l+1<e.length).map(l=>{let u=t.cloneNode(!0),c=e[l].x-r.left,f=Math.min(a,e.length-l)*s-r.apart+2*
r.left,h=Math.max(...[...n.values()].filter(({x:m})=>m>=c&&m<c+f).map(({y:m})=>m))+r.height+r.lane;for(let[m,g]of Object.
entries({viewBox:`${c} 0 ${f} ${h}`,width:f,height:h}))u.setAttribute(m,g);return u})}function ao(t,e,n){t.classList.toggle(
"lit",n!==null);let o=new Set([n]);for(let r of t.querySelectorAll("[data-edge]")){let s=e.edges[r.dataset.edge],a=n!==null&&
(s.source===n||s.target===n);r.classList.toggle("lit",a),a&&o.add(s.source).add(s.target)}for(let r of t.querySelectorAll(
"[data-node]"))r.classList.toggle("lit",o.has(Number(r.dataset.node)))}var vs={least:48,most:120};function Ms(t,e){let{layout:n,shown:o,palette:r,data:s}=t,{size:a,places:i}=n,l=h=>[i.get(h).
x+a.width/2,i.get(h).y+a.height/2],u=[...o.edges].map(h=>{let m=s.edges[h],[[g,b],[x,y]]=[l(m.source),l(m.target)];return k(
"line",{x1:g,y1:b,x2:x,y2:y,stroke:oo(t,m),"vector-effect":"non-scaling-stroke"})}),c=[...o.nodes].map(h=>j(i.get(h).x,i.
get(h).y,a.width,a.height,ro(t,s.nodes[h]))),f=Math.max(vs.least,Math.min(vs.most,n.height*e/n.width)),d=k("rect",{class:"\
graph-window",fill:r.ink,"fill-opacity":.08,stroke:r.ink,"vector-effect":"non-scaling-stroke"});return k("svg",{width:e,
height:f,viewBox:`0 0 ${n.width} ${n.height}`,preserveAspectRatio:"none"},[j(0,0,n.width,n.height,r.paper),...u,...c,d])}
function io(t,e,n){let o={x:e.scrollLeft,y:e.scrollTop,width:Math.min(e.clientWidth,n.width),height:Math.min(e.clientHeight,
n.height)};for(let[r,s]of Object.entries(o))t.querySelector(".graph-window").setAttribute(r,s)}function Cs(t,e,n,o){let r=t.
getBoundingClientRect();e.scrollLeft=(o.clientX-r.left)/r.width*n.width-e.clientWidth/2,e.scrollTop=(o.clientY-r.top)/r.
height*n.height-e.clientHeight/2}function Je(t,e){return Object.values(t.runs[e].blocks).find(({kind:n})=>n==="graph")}function Qe(t){return Je(t,0)!==void 0}
var sc=18;function Ht(t){let{selection:e,palette:n}=t,o=Je(t.data,e.run),r=Math.min(e.target,Math.max(0,o.targets.length-
1)),s=rs(o,r),a=Math.min(s.length,e.amount<0?o.shown:e.amount),i=ss(o,r,s,a),l=t.paper||!t.width?1/0:t.width-sc;return{data:o,
target:r,order:s,amount:a,shown:i,palette:n,inks:e.inks,...as(o,i,xs(o),l),limit:cs(o,r),largest:is(o),flattest:E(o.nodes.
map(({entropy:u})=>u??0))}}function lo({data:t,shown:e,order:n},o){if(o<0||e.nodes.has(o))return{node:o};let r=n.findIndex(
({index:s})=>t.edges[s].source===o||t.edges[s].target===o);return r<0?{node:o}:{node:o,amount:r+1}}function Ns({nodes:t},e){
let n=e.trim().toLowerCase(),o=r=>n&&[r.label,r.name,r.short,...r.says].some(s=>s.toLowerCase().includes(n));return t.flatMap(
(r,s)=>o(r)?[s]:[])}function Os(t,e){let n=Ht(t),o=Ns(n.data,e);return o.length?lo(n,o.find(r=>r>t.selection.node)??o[0]):
null}function co(t,e){let{data:n,shown:o}=Ht(t),r=new Set(Ns(n,e));for(let a of document.querySelectorAll("[data-node]"))
a.classList.toggle("found",r.has(Number(a.dataset.node)));let s=[...r].filter(a=>o.nodes.has(a)).length;return e.trim()?
`${s} shown${r.size>s?`, ${r.size-s} hidden`:""}`:""}function ac({layout:{places:t},shown:e},n,o){let r=t.get(n);if(!r)return Math.
min(...e.nodes);let s={ArrowRight:(i,l)=>[i,l],ArrowLeft:(i,l)=>[-i,l],ArrowDown:(i,l)=>[l,i],ArrowUp:(i,l)=>[-l,i]}[o],
a={index:n,distance:1/0};for(let[i,l]of t){let[u,c]=s(l.x-r.x,l.y-r.y),f=u+2*Math.abs(c);u>1&&f<a.distance&&(a={index:i,
distance:f})}return a.index}function ic(t){let{data:e,palette:n,limit:o,target:r}=t,s=d=>[1,.75,.5,.25,.1,1e-6].map(h=>ye(
n,d*h*o,o)),a=p("span",{className:"ramp"});a.style.background=`linear-gradient(to right, ${[...s(-1),...s(1).reverse()].
join(", ")})`;let i=p("span",{className:"ramp"});i.style.background=`linear-gradient(to right, ${[0,.25,.5,.75,1].map(d=>Ze(
t,d*t.flattest)).join(", ")})`;let l=e.nodes.some(({shares:d})=>Math.abs(d[r]??0)>o*1.0001),u=e.targets.length?[p("span",
{},[`share ${l?"≤ ":""}−${ct(o)}`,a,`${l?"≥ ":""}+${ct(o)}`])]:[],c=e.edges.some(d=>!(d.unit in e.widths))?[p("spa\
n",{textContent:"dashed: a number, not a width"})]:[];return[...t.inks==="entropy"?[p("span",{},["entropy of a node's to\
kens; an edge has that of its source: 0",i,`${ct(t.flattest)} nats`])]:u,p("span",{textContent:`width: ${Object.values(e.
widths).join("; ")}`}),...c]}function lc({data:t,selection:e},{position:n}){let o=t.runs[e.run].tokens;return p("p",{className:"\
graph-text"},o.flatMap((r,s)=>[p(s===n?"b":"bdi",{textContent:r})," "]))}function cc({data:t},e){let n=(c,f,d,h)=>{let m=p(
"select",{autocomplete:"off"},f.map(([g,b])=>p("option",{value:String(g),textContent:b})));return m.addEventListener("ch\
ange",()=>e({[d]:h(m.value)})),{select:m,label:p("label",{className:"group",hidden:f.length<1},[`${c} `,m])}},o=n("targe\
t",t.targets.map((c,f)=>[f,Un(c)]),"target",Number),r=[["share",t.targets.length?"share of the target":"nothing"],...t.targets.
some(({token:c})=>c)?[["rank","rank of the target's token (nodes)"]]:[],...t.nodes.some(({entropy:c})=>c!==null)?[["entr\
opy","entropy of the tokens"]]:[]],s=n("coloured by",r.length>1?r:[],"inks",String),a=p("input",{type:"range",min:"0",step:"\
1",autocomplete:"off",className:"amount"});a.addEventListener("input",()=>e({amount:Number(a.value)}));let i=p("span",{className:"\
note shown"});return i.setAttribute("role","status"),o.select.classList.add("target"),{host:p("div",{className:"graph-co\
ntrols"},[o.label,s.label,p("label",{className:"group"},["shown ",a]),i]),tell:c=>{o.select.value=String(c.target),s.select.
value=c.inks,a.max=String(c.order.length),a.value=String(c.amount),i.textContent=Vn(c.data,c.shown,c.order,c.amount),i.title=
qn}}}function uc(t,{layout:{places:e,size:n},part:o},r,s=!1){if(!e.has(r))return;let[a,i,l,u]=[e.get(r).x,e.get(r).y,n.width,
n.height].map(c=>c*o);(s||a<t.scrollLeft||a+l>t.scrollLeft+t.clientWidth)&&(t.scrollLeft=a+l/2-t.clientWidth/2),(s||i<t.
scrollTop||i+u>t.scrollTop+t.clientHeight)&&(t.scrollTop=i+u/2-t.clientHeight/2)}function Es(t,e,n){w("card").replaceChildren(
p("section",{className:"card node-card"},ns(t,e<0?null:e,o=>n(lo(t,o)))))}function Ls(t,e){Es(Ht(t),t.selection.node,e)}
function fc(t,e,n){let o=r=>{let s=r.target.closest("[data-node]");return s?Number(s.dataset.node):-1};t.addEventListener(
"click",r=>n(lo(e.drawn,o(r)))),t.addEventListener("pointerover",r=>{if(e.scene.selection.node>=0)return;let s=o(r);ao(e.
picture,e.drawn.data,s<0?null:s),Es(e.drawn,s,n)}),t.addEventListener("keydown",r=>{if(r.key==="Escape")n({node:-1});else if(r.
key.startsWith("Arrow")&&!r.altKey)n({node:ac(e.drawn,e.scene.selection.node,r.key)});else return;r.preventDefault(),r.stopPropagation()}),
t.addEventListener("scroll",()=>{e.small&&io(e.small,t,e.drawn.layout)});for(let r of["pointerdown","pointermove"])e.above.
addEventListener(r,s=>{s.buttons&&e.small&&Cs(e.small,t,e.drawn.layout,s)})}function Ss(){return["run"]}function hc({meaning:t,
certificate:e}){return p("details",{className:"note"},[p("summary",{textContent:"What is drawn"}),p("p",{textContent:`${t}\
 ${e}`})])}function As(t,e,n){let o=p("div",{className:"graph",tabIndex:0}),[r,s]=[p("div",{className:"note graph-legend"}),
p("div",{className:"graph-overview"})];o.setAttribute("role","application"),o.setAttribute("aria-label","graph; arrow ke\
ys choose a node, Escape none"),s.setAttribute("aria-hidden","true");let a={scene:t,drawn:Ht(t),picture:null,small:null,
above:s,made:"",opened:!1},i=cc(a.drawn,e),l=()=>{let{drawn:c}=a;a.picture=so(c),o.replaceChildren(...a.scene.paper?$s(a.
picture,c.layout):[ks(c),a.picture]),a.small=c.layout.width*c.part>n?Ms(c,n):null,s.replaceChildren(...[a.small].filter(
Boolean)),s.hidden=!a.small,r.replaceChildren(...ic(c)),i.tell(c)},u=c=>{let{target:f,amount:d,inks:h,node:m}=c.selection,
g=JSON.stringify([f,d,h,c.palette.name,c.paper]);Object.assign(a,{scene:c,drawn:Ht(c)}),g!==a.made&&l(),a.made=g;for(let b of a.
picture.querySelectorAll("[data-node]"))b.classList.toggle("chosen",Number(b.dataset.node)===m);ao(a.picture,a.drawn.data,
a.drawn.shown.nodes.has(m)?m:null),co(c,w("search").value),requestAnimationFrame(()=>{uc(o,a.drawn,m>=0||a.opened?m:a.drawn.
data.start,!a.opened),a.opened=!0,a.small&&io(a.small,o,a.drawn.layout)})};return fc(o,a,e),{nodes:[...t.data.channels.size?
[]:[lc(t,a.drawn.data)],i.host,r,s,o,hc(a.drawn.data)],update:u}}function Ts(t){let{data:e,target:n,shown:o,order:r,amount:s}=Ht(
t),a=e.targets.length?`; ${Un(e.targets[n])}`:"";return{headline:`${e.heading}${a}`,meaning:`${e.meaning.split(". ")[0].
replace(/\.$/,"")}.`,place:"",shown:"a graph of components",remark:[...e.meaning.split(". ").slice(1),Vn(e,o,r,s)].join(
". "),further:qn,note:e.certificate,exact:!1,method:"",file:["graph",e.heading.replace(/[^\w.-]+/g,"_").slice(0,60)]}}function Rs(t,e){
let n=Ht(t),o=Math.min(1,e/n.layout.width),r=[k("g",{transform:`scale(${o})`},[...so(n).childNodes])];return{groups:[{x:0,
y:0,pictures:[],nodes:r}],height:o*n.layout.height}}function zs(t){let e=Je(t.data,t.selection.run),n=function*(){for(let{
source:o,target:r,unit:s,size:a,shares:i}of e.edges)yield[e.nodes[o].name,e.nodes[r].name,s,a,...i]};return{head:["sourc\
e","target","unit","size",...e.targets.map(({name:o})=>`share of ${o}`)],lines:n,count:e.edges.length}}function _s(t){let{
nodes:e,edges:n}=Je(t,0),o=(r,s)=>`${r} ${s}${r===1?"":"s"}`;return`${t.model} · ${o(e.length,"node")} · ${o(n.length,
"edge")} · ${o(t.words.length,"token")}`}function fo(t){let{fromBase64:e}=Uint8Array;if(e)return e.call(Uint8Array,t);let n=atob(t),o=new Uint8Array(n.length);for(let r=0;r<
n.length;r++)o[r]=n.charCodeAt(r);return o}async function ke(t){let e=new Blob([fo(t)]).stream().pipeThrough(new DecompressionStream(
"deflate"));return new Uint8Array(await new Response(e).arrayBuffer())}function ho(t,e,n,o){let r=t.length/e.bytes,s=new Uint16Array(
r/e.low.length);for(let a=0,i=n*s.length;a<s.length;a++,i++){let l=e.bytes===2?t[i]*256+t[r+i]:t[i];s[a]=o?o[a]+(l%2?-(l+
1)/2:l/2):l}return s}function mo(t,e,n){let o=256**e.bytes-1,r=e.signed?(o-1)/2:o-1,s=new Float32Array(t.length);for(let a=0;a<
t.length;a++){let i=t[a];if(i===0)continue;if(i===o){s[a]=NaN;continue}let l=i>r,u=Math.exp(e.low[n]+e.step[n]*(i-1-(l?r:
0)));s[a]=l?-u:u}return s}function uo(t){return t.replaceAll("-","−")}var dc=" %";function T(t,e=3){if(!Number.isFinite(
t))return"–";let n=Math.abs(t);return t===0?"0":n>=1e5||n<1e-4?uo(t.toExponential(e-1)):uo(n>=10**(e+1)?String(Math.round(
t)):String(Number(t.toPrecision(e))))}function K(t,e=3){return Number.isFinite(t)?T(100*t,e)+dc:"–"}function tn(t,e=3){
if(!Number.isFinite(t))return"–";let n=T(100*t,e);return`${n} point${/^−?1$/.test(n)?"":"s"}`}function S(t,e,n=3){let o=e?
tn(t,n):T(t,n);return t>0?`+${o}`:o}var mc=[8,6,5,4,3,2.5,2,1.5,1];function js(t){let e=10**Math.floor(Math.log10(t)+1e-9);
return e*mc.find(n=>n*e<=t*(1+1e-8))}function Z(t,e,n=!1){return e?n?tn(t,2):K(t,2):T(t,2)}function $e(t){return t===0?"\
0":uo(t.toExponential(1))}function G(t,e,n){return e===Object.keys(t.runs[0].blocks)[0]?n:`${e}: ${n}`}function pc(t){let e=new Map;for(let[n,o]of Object.
entries(t.runs[0].blocks))o.kind==="maps"&&o.channels.forEach((r,s)=>{let a=G(t,n,r.name);e.set(a,{...r,key:a,index:s,blockName:n,
before:r.before&&G(t,n,r.before)})});return e}function ut(t,e){return Object.entries(t.runs[0].blocks).filter(([,n])=>n.
kind==="maps"&&(!e||n.axis===e))}function ve(t){return Object.values(t.runs[0].blocks).filter(({kind:e})=>e==="effects")}
function nn(t,e,...n){let o=t.tables[e];if(!o)return NaN;let r=o.values;for(let[s,a]of o.axes.entries())if(r=r[a.indexOf(
n[s])],r==null)return NaN;return r}function pt(t){return t.runs.map(({name:e})=>e).join()==="mean,low,high"?[1,2]:[]}function on(t,e,n,o){
let r=e===0?pt(t):[];return r.length&&r.every(s=>t.loaded(s,n))?r.map(s=>t.matrix(s,n,o)):null}function W(t){return t.channels.
size>0}function po(t,e){let n=t.words.length,o=new Float32Array(t.queries.length*n).fill(NaN),r=0;return t.queries.forEach(
(s,a)=>{let i=t.causal?s+1:n;o.set(e.subarray(r,r+i),a*n),r+=i}),o}function gc(t){let e=new Map,n=0;return(o,r)=>{let s=e.
get(o),a=s||r();s?e.delete(o):n+=a.length,e.set(o,a);for(let[i,{length:l}]of e){if(n<=t||i===o)break;e.delete(i),n-=l}return a}}
function en(){let[t,e]=[null,null];return(n,o)=>(n!==t&&([t,e]=[n,o()]),e)}var wc=2**24;function Fs(t){let e={...t,latestAxes:en(),
latestMaps:en(),channels:pc(t)},n=new Map,o=new Map,r=gc(wc),s=($,C,N)=>[$,C,N].join(`
`),a=($,C,N)=>{let A=e.channels.get(C),z=e.runs[$].blocks[A.blockName];return N==="values"?z.values[A.name]:z.columns[N]&&
z.columns[N][A.name]},i=($,C)=>C.reference&&G(e,e.channels.get($).blockName,C.reference),l=async($,C,N)=>{let A=a($,C,N),
z=i(C,A),[L]=await Promise.all([ke(A.packed),z&&u($,z,N)]);o.set(s($,C,N),L)},u=($,C,N)=>{let A=s($,C,N);return n.has(A)||
n.set(A,l($,C,N)),n.get(A)},c=($,C,N,A)=>{let z=a($,C,N),L=i(C,z);return ho(o.get(s($,C,N)),z,A,L?c($,L,N,A):null)},f=($,C,N,A)=>{
let z=e.layers.indexOf(A);return r([s($,C,N),z].join(`
`),()=>{let L=mo(c($,C,N,z),a($,C,N),z);return N==="values"?po(e,L):L})},d=($,C)=>{let N=e.runs[$].blocks[e.channels.get(
C).blockName];return Promise.all(["values",...Object.keys(N.columns)].map(A=>u($,C,A)))},h=new Map;return Object.assign(
e,{load:d,open:async $=>{h.has($)||h.set($,await ke($.packed))},numbersAt:($,C)=>mo(ho(h.get($),$,C,null),$,C),loaded:($,C)=>o.
has(s($,C,"values")),matrix:($,C,N)=>f($,C,"values",N),column:($,C,N,A)=>a($,C,N)?f($,C,N,A):null,block:$=>e.runs[0].blocks[e.
channels.get($).blockName]})}var bc=["others","row","column","none"],xc=["percentile","off-diagonal","all"],yc=["","special","first","special first"],
kc=["","before","after","difference"],$c=["change","share","distance"],vc=/^[\d.]{0,400}$/,Mc=/^\d-\d$/,Cc=/^\d{1,5}-\d{1,5},\d{1,5}-\d{1,5}$/,
Nc=["overview","maps","heads","all","scores","memories","numbers","graph"];function Oc(t,e){return Number.isInteger(e)&&
e>=0&&e<t.words.length}function wo(t,e){let[n,o]=e.split("-").map(Number);return Mc.test(e)&&Math.max(n,o)<t.segments.length&&
(!t.causal||o<=n)}function rn(t){return(e,n)=>Number.isInteger(n)&&n>=t&&n<1e6}var go={run:(t,e)=>Number.isInteger(e)&&e>=
0&&e<t.runs.length,scope:(t,e)=>t.channels.has(e),layer:(t,e)=>t.layers.includes(e),refRun:(t,e)=>Number.isInteger(e)&&e>=
0&&e<t.runs.length,ref:(t,e)=>e===""||t.channels.has(e),to:(t,e)=>t.queries.includes(e),from:Oc,read:(t,e)=>e==="row"||e===
"column",view:(t,e)=>Nc.includes(e),heads:(t,e)=>vc.test(e),between:(t,e)=>e===""||wo(t,e),block:(t,e)=>e===""||Object.hasOwn(
t.runs[0].blocks,e),cells:(t,e)=>bc.includes(e)&&(e!=="column"||t.queries.length===t.words.length),range:(t,e)=>xc.includes(
e),root:(t,e)=>e===0||e===1,each:(t,e)=>e===0||e===1,words:(t,e)=>e===0||e===1,hide:(t,e)=>yc.includes(e),panel:(t,e)=>kc.
includes(e),zoom:(t,e)=>e===""||Cc.test(e),sort:(t,e)=>$c.includes(e),pairs:(t,e)=>e==="all"||e==="token",mass:(t,e)=>Number.
isInteger(e)&&e>=1&&e<=100,find:(t,e)=>typeof e=="string"&&e.length<=60,neuron:rn(-1),node:rn(-1),amount:rn(-1),target:rn(
0),inks:(t,e)=>["share","rank","entropy"].includes(e)};function sn(t,e,n,o){return n!==o||!W(t)?e:t.channels.get(e).before||
""}function Ec(t){return t.causal?Math.max(...t.queries):t.words.length-1}function Lc(t,e){return!e||!Dt(e)?"none":e.cells===
"others"&&Ec(t)<2?"row":e.cells}var Sc=60;function Ac(t){let{scope:e,run:n,refRun:o}=t.start;return W(t)&&sn(t,e,n,o)!==
""&&!t.block(e).signed&&t.words.length>=Sc?"difference":""}function Ws(t){let{scope:e,layer:n,to:o,from:r,run:s,refRun:a,
view:i,heads:l}=t.start;return{run:s,scope:e,layer:n,refRun:a,ref:sn(t,e,s,a),to:o,from:r,read:"row",view:i,heads:l,between:"",
block:"",cells:Lc(t,W(t)&&t.block(e)),range:t.words.length>=ne?"percentile":"off-diagonal",root:0,each:0,words:0,hide:"",
panel:Ac(t),zoom:"",sort:"change",pairs:"all",mass:100,find:"",neuron:-1,node:-1,amount:-1,target:0,inks:"share"}}function Dt(t){
return!t.signed&&t.whole}function an(t,{scope:e,ref:n}){return W(t)&&Dt(t.block(e))&&(n===""||Dt(t.block(n)))}function Ps(t,e,n){
let o={...e,...n};return["scope","run","refRun"].some(s=>s in n&&n[s]!==e[s])&&!("ref"in n)&&(e.ref===sn(t,e.scope,e.run,
e.refRun)||e.run===e.refRun!=(o.run===o.refRun))&&(o.ref=sn(t,o.scope,o.run,o.refRun)),o.ref===o.scope&&o.run===o.refRun&&
(o.ref=""),an(t,o)||(o.cells="none"),("words"in n||"hide"in n)&&(o.zoom=""),o}function ln(t,e){let n=Ws(t),o=Object.keys(
go).filter(r=>e[r]!==n[r]).map(r=>`${r}=${encodeURIComponent(e[r])}`);return o.length?`#${o.join("&")}`:""}function bo(t,e){
let n=Ws(t),o={...n};for(let r of e.replace(/^#/,"").split("&")){let[s,a]=r.split("=");if(!Object.hasOwn(go,s)||a===void 0)
continue;let i=typeof n[s]=="number"?Number(Is(a)):Is(a);go[s](t,i)&&(o[s]=i)}return an(t,o)||(o.cells="none"),o}function Is(t){
try{return decodeURIComponent(t)}catch{return""}}function Bs(t,e,n){let o=new Set;if(n.includes("special"))for(let r of t.
special)o.add(e.columnOf[r]);return n.includes("first")&&o.add(0),o}function cn(t,e){let n=[0,t.nRows-1,0,t.nColumns-1],
o=e.split(/[-,]/).map(Number);if(e===""||o.length!==4)return n;let r=(c,f)=>Math.max(0,Math.min(f,c)),[s,a,i,l]=o,u=[r(s,
n[1]),r(a,n[1]),r(i,n[3]),r(l,n[3])];return u[0]<=u[1]&&u[2]<=u[3]?u:n}function xo([t,e,n,o]){return`${t}-${e},${n}-${o}`}
function yo(t,e){let[n,o,r,s]=cn(t,e.zoom),a=(l,u,c,f)=>{let d=Math.max(4,Math.ceil((u-l+1)/2)),h=Math.max(0,Math.min(c-
Math.floor(d/2),f-d+1));return[h,Math.min(f,h+d-1)]},i=Math.max(0,t.rowOf(e.to));return xo([...a(n,o,i,t.nRows-1),...a(r,
s,t.columnOf[e.from],t.nColumns-1)])}function Hs(t,e,n){let o=e.trim().toLowerCase();if(o==="")return-1;if(/^\d+$/.test(
o)&&Number(o)<t.length)return Number(o);for(let r=1;r<=t.length;r++){let s=(n+r)%t.length;if(t[s].toLowerCase().includes(
o))return s}return-1}function un(t,e){return!t.named&&(e==="others"||e==="row")}function ko(t,e,n,o){let{data:r,axes:s,selection:a,hidden:i}=t,
l=g=>a.words?me(s,g,r.words.length):g,u=g=>g&&(a.words?Jr(s,g):g),c=l(r.matrix(e,n,a.layer)),f=Object.keys(r.block(n).columns),
d=Object.fromEntries(f.map(g=>[g,u(r.column(e,n,g,a.layer))]));a.cells==="others"&&(d.own=Zn(s,c,i));let h=Xn(s,c,i,a.cells),
m=r.block(n).shares||a.cells;return{role:o,key:n,run:e,raw:c,columns:d,cells:h,shares:m,asShare:m!=="none",limit:Lt(s,h,
a.range,un(r,m)),top:E(h),scale:r.block(n).signed?"signed":"contribution",labels:s.labels(r.runs[e].tokens)}}function Tc(t,e,n){
let o=Object.keys(n.columns).filter(s=>s in e.columns),r=Ge(n.cells,e.cells);return{role:"difference",key:n.key,run:n.run,
shares:n.shares,asShare:n.asShare,raw:Ge(n.raw,e.raw),cells:r,limit:Lt(t.axes,r,t.selection.range,un(t.data,n.shares)),top:E(
r),columns:Object.fromEntries(o.map(s=>[s,Ge(n.columns[s],e.columns[s])])),scale:"signed",labels:Zr(e.labels,n.labels)}}
var qt=["run","scope","layer","refRun","ref","cells","range","each","words","hide"];function Rc(t){let{selection:e}=t,n=ko(
t,e.run,e.scope,e.ref?"after":"only");if(!e.ref)return[n];let o=ko(t,e.refRun,e.ref,"before");return o.scale!==n.scale||
o.shares!==n.shares?[o,n]:(e.each||(o.limit=n.limit=Math.max(o.limit,n.limit)),[o,n,Tc(t,o,n)])}function zc(t){return["o\
wn",...Object.keys(t[0].columns).filter(n=>n!=="own")].filter(n=>t.some(o=>o.columns[n]&&E(o.columns[n])>0))}function $o(t,e){
let n=t.latestAxes(e.words,()=>Xr(t,e.words===1)),o=Bs(t,n,e.hide),r={data:t,selection:e,axes:n,hidden:o,window:cn(n,e.zoom)},
s=JSON.stringify(qt.map(a=>e[a]));return r.maps=W(t)?t.latestMaps(s,()=>Rc(r)):[],r.strips=W(t)?zc(r.maps):[],r.row=Math.
max(0,n.rowOf(e.to)),r.column=n.columnOf[e.from],r}function fn(t,e,n){let{data:o,selection:r,axes:s}=t,a=Dt(o.block(n))?
r.cells:"none",i={...t,selection:{...r,layer:e,cells:a},window:cn(s,"")};return{...i,map:ko(i,r.run,n,"only")}}function St({
maps:t}){return t.length===2}function xt({maps:t}){return t[t.length>1?1:0]}function _({maps:t,axes:e,data:n,selection:o}){
return t.length?t[t.length-1].labels:e.labels(n.runs[o.run].tokens)}function ft(t,e){let n=_(t);return n.indexOf(n[e])!==
n.lastIndexOf(n[e])?`@${t.axes.columns[e].position}`:""}function re(t){let e=t.maps.filter(n=>n.role===t.selection.panel);
return e.length?e:t.maps}function se(t,e){let{axes:n,selection:o,row:r,column:s}=t,a=new Float32Array(n.nColumns).fill(NaN);
return o.read==="row"?a.set(e.cells.subarray(r*n.nColumns,(r+1)*n.nColumns)):n.own.forEach((i,l)=>{a[i]=e.cells[l*n.nColumns+
s]}),a}function U(t){return t.selection.read==="row"?t.axes.own[t.row]:t.column}function vo(t){let e=U(t),o=t.maps.filter(
r=>r.role!=="difference").map(r=>E(se(t,r).map((s,a)=>a===e?NaN:s)));return St(t)?o:o.map(()=>Math.max(...o))}function _c(t,e){
return{...t,nRows:1,rows:[t.rows[e]],own:[t.own[e]]}}function Ds(t,e,n,o){let{data:r,selection:s,axes:a}=t,i=r.matrix(e,
n,o),l=s.read==="row"&&s.cells!=="column",u=t.row*a.nColumns,c=l?{...t,axes:_c(a,t.row),row:0}:t;return{reduced:c,raw:s.
words?me(c.axes,i,r.words.length):l?i.subarray(u,u+a.nColumns):i}}function hn(t,e,n){let{data:o,selection:r,axes:s}=t,a=new Float32Array(
o.layers.length*s.nColumns);return o.layers.forEach((i,l)=>{let{reduced:u,raw:c}=Ds(t,e,n,i),f=Xn(u.axes,c,t.hidden,r.cells);
a.set(se(u,{cells:f}),l*s.nColumns)}),a}function qs(t,e,n){return Float32Array.from(t.data.layers,o=>{let{reduced:r,raw:s}=Ds(
t,e,n,o);return Zn(r.axes,s,t.hidden)[r.row]})}function Mo(t,e){let{data:n,axes:o,selection:r}=t,s=n.layers.map(()=>U(t));
return Lt({...o,nRows:s.length,own:s},e,r.range)}function jc({axes:t,maps:e,row:n,column:o}){return t.own[n]!==o&&!Number.
isNaN(e[e.length-1].cells[n*t.nColumns+o])}function Fc({axes:t,maps:e,row:n}){let o=e[e.length-1].cells.subarray(n*t.nColumns,
(n+1)*t.nColumns),r=t.own[n];return o.forEach((s,a)=>{let i=r===t.own[n]?0:Math.abs(o[r]);a!==t.own[n]&&Math.abs(s)>i&&(r=
a)}),t.columns[r].position}function Vs(t,e,n){let o=Ps(t,e,n),r="to"in n&&o.read==="row";if("from"in n||!(r||"hide"in n)||
!W(t)||![[o.run,o.scope],...o.ref?[[o.refRun,o.ref]]:[]].every(([i,l])=>t.loaded(i,l)))return o;let a=$o(t,o);return jc(
a)?o:{...o,from:Fc(a)}}var Ic={others:"share of the row's sum over other tokens",row:"share of the row's sum",column:"share of the column's sum",
none:"norm, in units of the residual stream"},Wc={"off-diagonal":"the largest value of another token",percentile:"the 99\
th percentile of other tokens' values"},Pc={ATTN:"attention",RES:"the residual connection",LN:"the norm",FF:"the feed-fo\
rward block"},Co=48;function gt(t,e=""){let n=He(t.slice(0,20*Co));return`“${n.length>Co?`${n.slice(0,Co-1).join("")}…`:
t}${e}”`}function at(t,e,n){return t.role==="difference"||t.scale==="signed"?S(e,n):n?K(e):T(e)}function lt(t,e){return gt(
_(t)[e],ft(t,e))}function Me(t,e){let n=t.channels.get(e);return n.label===n.name?e:`${n.label} (${n.name})`}function dn(t,e,n){
return t.runs[e].tokens.join(" ").replace(/(^| )·/g,"$1").slice(0,n)}function No(t,e){return t.runs.length>1?t.runs[e].
name:""}function yt(t,e,n){return[No(t,e),t.channels.get(n).name].filter(Boolean).join(" · ")}function Oo(t,e){return t.
maps.map(n=>n.role==="difference"?"difference":St(t)?n.key:e(n))}function Vt(t){let{data:e,maps:n}=t,o=n.filter(({role:s})=>s!==
"difference"),r=s=>new Set(o.map(a=>a[s])).size>1;return Oo(t,({run:s,key:a})=>r("run")?r("key")?yt(e,s,a):No(e,s):e.channels.
get(a).name)}function Eo(t){let{data:e,selection:n}=t;return n.run===n.refRun&&n.ref!==""&&e.channels.get(n.scope).before===
n.ref}function Ct(t,e){let{data:n,selection:o}=t;if(e.role==="difference")return"Difference";if(e.role==="only")return yt(
n,e.run,e.key);let r=Eo(t)&&n.channels.get(o.scope).component,s=e.role==="before"?"Before":"After";return r?`${s} ${r}: ${n.
channels.get(e.key).name}`:yt(n,e.run,e.key)}function Ce(t,e){let{data:n,selection:o}=t;if(e.role==="difference"){let r=[
yt(n,o.run,o.scope),yt(n,o.refRun,o.ref)];return`${r[0]} − ${r[1]}`}return n.block(e.key).signed?n.block(e.key).title:
n.channels.get(e.key).label}function Bc(t,e){let n=t.data.block(e.key),o=e.asShare?Ic[e.shares]:n.unit,r=e.scale==="sign\
ed"&&e.asShare;return e.role==="difference"||r?`${r&&e.role!=="difference"?"difference":"change"} of the ${o}${e.asShare?
", in percentage points":""}`:o}function Lo(t){return t.top>t.limit*1.0001}function So({data:t,selection:e},n){return n.
role!=="difference"&&n.scale==="signed"&&n.run===0&&!e.words&&e.cells==="none"&&pt(t).length>0}function Ao(t){return t>1.001?
[`1 pixel = ${T(t,2)} tokens, the strongest is shown. Drag to zoom.`]:[]}function Ks(t,e,n){let{selection:o,strips:r}=t,
s=[Bc(t,e)+(o.root?", on a square-root scale.":".")];Lo(e)&&s.push(`Colours end at ${Wc[o.range]}${un(t.data,e.shares)?"\
 in rows of three or more":""}; cells reach ${Z(e.top,e.asShare,e.scale==="signed")}.`),So(t,e)&&s.push("Crossed: the 95\
 % interval contains 0."),t.hidden.size&&s.push("Hidden tokens are left out of the shares.");let a=r.filter(i=>i!=="own"&&
e.columns[i]);for(let i of a)s.push(`${i}: up to ${Z(E(e.columns[i]),!1)}.`);return[...s,...Ao(n)]}function To(t,e){let n={
others:", as a share of the row's sum over all other tokens",row:", as a share of the row's sum over all tokens",column:"\
, as a share of the column's sum",none:""}[e];return`${t.meaning}${n}`}function Hc({data:t,selection:e}){let n=t.block(e.
scope);return`A cell: ${To(n,n.shares||e.cells)}.`}function Dc(t,e){return e>t?"raises":e<t?"lowers":"leaves"}function Gs(t){
return t&&t[0].toUpperCase()+t.slice(1)}function ae({data:t,selection:e}){return t.layered?`layer ${e.layer}`:""}function qc(t){
let{data:e,selection:n}=t,o=e.layered||e.channels.size>1?yt(e,n.run,n.scope):No(e,n.run);return[ae(t),o].filter(Boolean).
join(", ")}function Us(t){let{data:e,selection:n}=t;if(n.run!==n.refRun)return`${Gs([ae(t),e.channels.get(n.scope).name].
filter(Boolean).join(", "))}: from ${e.runs[n.refRun].name} to ${e.runs[n.run].name}`;let o=Pc[e.channels.get(n.scope).component];
return Eo(t)&&o?`Layer ${n.layer}: ${o}`:`Layer ${n.layer}: from ${e.channels.get(n.ref).name} to ${e.channels.get(n.scope).
name}`}function Ne(t,e){return`${t} cannot see ${e}, which comes later.`}function At(t,e,n){return t.short==="weight"?`a\
ttention of ${e} to ${n}`:`contribution of ${n} to ${e}`}function Vc(t,e,n){let{axes:o,row:r,column:s,hidden:a}=t,i=xt(t),
l=s===o.own[r]&&!a.has(s)&&i.columns.own;if(l)return`${K(l[r])} of ${e} is its own; the map shows the remainder.`;let u=a.
has(s)?`${n} is hidden`:"these maps have no such cell";return`There is no ${i.asShare?"share":"number"} here of the ${At(
t.data.block(t.selection.scope),e,n)}: ${u}.`}function Uc({data:t,maps:e},n,o){return{others:`the share of ${o} in other\
 tokens' contributions to ${n}`,row:`the share of ${o} in all contributions to ${n}`,column:`the share of ${n} in all co\
ntributions of ${o}`,none:`the ${At(t.block(e[0].key),n,o)}`}[e[0].shares]}function Kc(t,[e,n],o,r,s){let a=t.asShare?tn(
Math.abs(s)):T(Math.abs(s)),i=t.asShare?", as a share of other tokens' contributions,":"";return s===0?`${r} contributes${i}\
 as much to ${o} in ${e} as in ${n}`:`${r} contributes${i} ${a} ${s>0?"more":"less"} to ${o} in ${e} than in ${n}`}function Gc(t,e,n,o){
let{data:r,maps:[s]}=t,a=at(s,o,s.asShare),{sides:i}=r.block(s.key);return i.length?Kc(s,i,e,n,o):r.layered?{others:`${a}\
 of other tokens' contributions to ${e} come from ${n}`,row:`${a} of all contributions to ${e} come from ${n}`,column:`${a}\
 of all contributions of ${n} go to ${e}`,none:`the ${At(r.block(s.key),e,n)} is ${a}`}[s.shares]:`${n} contributes ${a}\
 to ${e}`}function Yc(t){let{data:e,maps:n,axes:o,row:r,column:s,selection:a}=t,i=r*o.nColumns+s,l=g=>at(n[g],f[g],n[g].
asShare),[u,c]=[lt(t,o.own[r]),lt(t,s)],f=n.map(g=>g.cells[i]);if(!o.reaches(r,s))return Ne(u,c);if(f.some(Number.isNaN))
return Vc(t,u,c);if(n.length===1)return`${Gs([qc(t),Gc(t,u,c,f[0])].filter(Boolean).join(": "))}.`;if(St(t)){let g=n.map(
(b,x)=>`${l(x)} (${e.block(b.key).title}, ${e.channels.get(b.key).name})`);return`Layer ${a.layer}, contribution of ${c}\
 to ${u}: ${g.join(" and ")}.`}let d=`${l(0)} → ${l(1)}`,h=Uc(t,u,c);return a.run!==a.refRun||!Eo(t)?`${Us(t)}, ${h} g\
oes ${d}.`:`${Us(t)} ${Dc(f[0],f[1])} ${h}: ${d}.`}function Xc(t){let{axes:e,row:n,column:o,selection:r,window:[s,a,i,l]}=t,
[u,c]=[n>=s&&n<=a,o>=i&&o<=l],[f,d]=[lt(t,e.own[n]),lt(t,o)],h=r.read==="row"?u&&`the row of ${f}`:c&&`the column of ${d}`,
m=u&&c&&e.reaches(n,o)&&`the cell from ${d} to ${f}`,g=[h,m].filter(Boolean);return g.length?`Marked: ${g.join(" and ")}\
.`:""}function Ut(t){let{data:e,selection:n,maps:o}=t,r=[n.ref&&yt(e,n.refRun,n.ref),yt(e,n.run,n.scope)],s=o.filter(a=>a.
role!=="difference").map(a=>Me(e,a.key)).join(" and ");return{headline:Yc(t),meaning:Hc(t),further:n.cells==="others"?"G\
rey strip: the token's own share.":"",place:ae(t),note:Xc(t),exact:o.some(a=>e.block(a.key).exact),method:"",shown:`${e.
block(n.scope).title}, ${s}`,remark:re(t).includes(o[2])?`${Ct(t,o[2])}: ${Ce(t,o[2])}.`:"",file:[ae(t).replace(" ",""),
r.filter(Boolean).join("-").slice(0,60),n.cells]}}function mn({meaning:t,further:e=""}){return[t,e].filter(Boolean).join(
" ")}function Ro(t,{run:e},n){return t.words.length?`${t.model} reading “${dn(t,e,n)}”`:t.model}function Ys({data:t,
selection:e},n){let o=t.certificate&&n.exact,r=o?"method of Kobayashi et al. (2024)":n.method,a=[["tl_ffblock","transfor\
mer_lens","torch"].filter(i=>t.provenance[i]).map(i=>`${i} ${t.provenance[i]}`).join(", "),r].filter(Boolean).join("; ");
return[n.headline,`${Ro(t,e,300)}${n.place&&`, ${n.place}`}: ${n.shown}. ${mn(n)}`.trim(),n.remark,n.note,o?`Sums of par\
ts equal the model's own tensors to ${$e(t.certificate.error)}.`:"",a&&`${a}.`].filter(Boolean).join(" ")}function Xs(t){
let e=t.certificate;if(!e)return t.statement;let n=`${e.scope}, layer ${e.layer}, ${gt(t.runs[e.run].tokens[e.query])} a\
t position ${e.query}`;return`${t.block(t.start.scope).signed?"Both results are exact":"✓ Exact"}: parts and bias sum \
to the model's own tensors, with a relative error of at most ${$e(e.error)} (${n}).`}function zo({data:t,selection:e},n,o){
let r=t.runs[e.run].tokens.slice(0,6).join("-").slice(0,40);return[t.model.slice(0,40),r,...n.file.filter(Boolean)].join(
"_").replace(/[^A-Za-z0-9._-]+/g,"").replace(/-{2,}/g,"-")+`.${o}`}function Zc(t,e,n){let{axes:o}=t,r=new Uint8Array(e.cells.length);for(let s=0;s<o.nRows;s++){let a=s*o.nColumns,i=Array.
from({length:o.nColumns},(c,f)=>a+f).filter(c=>!Number.isNaN(e.cells[c]));i.sort((c,f)=>Math.abs(e.cells[f])-Math.abs(e.
cells[c]));let l=i.reduce((c,f)=>c+Math.abs(e.cells[f]),0),u=0;for(let c of i){if(u>=n/100*l)break;r[c]=1,u+=Math.abs(e.
cells[c])}}return r}function _o(t,e){return Math.abs(t.own[Math.floor(e/t.nColumns)]-e%t.nColumns)}function Jc(t,e,n){let{
axes:o,maps:r}=t,s=r[r.length-1];return e==="distance"?_o(o,n):Math.abs((e==="change"?s:xt(t)).cells[n])}function Qc(t){
let{axes:e,selection:n,row:o,column:r}=t,s=n.find.trim().toLowerCase(),a=_(t).map(i=>s===""||i.toLowerCase().includes(s));
return(i,l)=>(n.pairs==="all"||(n.read==="row"?i===o:l===r))&&(a[l]||a[e.own[i]])}function Zs(t,e){let{axes:n,selection:o,
maps:r}=t,s=o.mass<100?r.filter(h=>h.role!=="difference").map(h=>Zc(t,h,o.mass)):[],a=Qc(t),i=r[r.length-1].cells,[l,u]=[
[],[]];for(let h=0;h<i.length;h++){let[m,g]=[Math.floor(h/n.nColumns),h%n.nColumns];Number.isNaN(i[h])||n.own[m]===g||!a(
m,g)||s.length&&!s.some(b=>b[h])||(l.push(h),u.push(Jc(t,o.sort,h)))}let c=be(Float64Array.from(u),Math.max(0,u.length-e)),
f=l.map((h,m)=>({index:h,size:u[m]})).filter(({size:h})=>!(h<c));return f.sort((h,m)=>m.size-h.size||h.index-m.index),{pairs:f.
slice(0,e).map(({index:h})=>({row:Math.floor(h/n.nColumns),column:h%n.nColumns,index:h})),total:l.length}}function pn(t,e,n){
let o=s=>Array.from(s.keys()).filter(a=>!Number.isNaN(s[a])).sort((a,i)=>Math.abs(s[i])-Math.abs(s[a])||a-i),r=new Map(e?
o(e).map((s,a)=>[s,a]):[]);return o(t).slice(0,n).map((s,a)=>({at:s,rank:a,earlier:r.has(s)?r.get(s):null}))}function Tt({data:t},e,n){let o=t.named?t.details[n]:Wt(t,n);return o?`${e} (${o})`:e}function Kt(t,e){return p("tr",{},
[p("th",{textContent:t,scope:"row"}),...e.map(n=>p("td",{textContent:n}))])}function gn(t,e){let n=Vt(t).map(o=>p("th",{
textContent:o,scope:"col"}));return p("table",{className:"numbers"},[p("tr",{},[p("td"),...n]),...e])}function jo(t,{row:e,
column:n}){let o=e*t.axes.nColumns+n,r=[Kt(St(t)?"number":t.data.block(t.selection.scope).short,t.maps.map(c=>at(c,c.raw[o],
t.data.block(c.key).shares!=="")))],s={others:"share of others",row:"share of row",column:"share of column"}[t.selection.
cells],{data:a,selection:i}=t,l=t.maps.length===1&&on(a,i.run,i.scope,i.layer);l&&r.push(Kt("95 % interval",[l.map(c=>at(
t.maps[0],c[o],a.block(i.scope).shares!=="")).join(" to ")]));let u=[i.layer,-1,t.axes.rows[e].position,t.axes.columns[n].
position];for(let c of ve(a)){let f=nn(c,"cell",...u);Number.isNaN(f)||r.push(Kt(`${c.target} ${c.short}`,[S(f,!1)]))}return s&&
r.push(Kt(s,t.maps.map(c=>at(c,c.cells[o],!0)))),gn(t,r)}function tu(t,{row:e,strip:n}){return gn(t,[Kt(n,t.maps.map(o=>o.
columns[n]?at(o,o.columns[n][e],n==="own"):"–"))])}function ot(t,e){return p("div",{},[p("span",{className:"tip-label",
textContent:t}),p("bdi",{textContent:e})])}function eu(t,e){let{axes:n}=t,o=_(t),r=()=>ot("to",Tt(t,o[n.own[e.row]],n.rows[e.
row].position)),s=()=>ot("from",Tt(t,o[e.column],n.columns[e.column].position));return e.strip?[r(),tu(t,e)]:e.row===void 0?
[s()]:e.column===void 0?[r()]:n.reaches(e.row,e.column)?[r(),s(),jo(t,e)]:[r(),s(),p("div",{textContent:"Not reachable: \
this model attends to earlier tokens only."})]}function ie(t,e,n){t.style.left=`${Math.max(4,Math.min(e+16,window.innerWidth-
t.offsetWidth-8))}px`;let o=n+18+t.offsetHeight<window.innerHeight;t.style.top=`${Math.max(4,o?n+18:n-t.offsetHeight-12)}\
px`}function Js(t,e,n,o){let r=w("tooltip");r.hidden=!e,!r.hidden&&(r.replaceChildren(...eu(t,e)),ie(r,n,o))}function wn(t,e){let n=p("i",{className:"bar-fill"});return Object.assign(n.style,{width:`${Math.max(.5,100*Math.min(1,t))}\
%`,backgroundColor:e}),p("span",{className:"bar"},[n])}function Fo({palette:t},e,n){return e.scale==="signed"?t[n<0?"los\
s":"gain"]:t.contribution}function nu(t){let{axes:e,row:n,column:o,data:r}=t,s=_(t),a=e.reaches(n,o);return p("section",
{className:"card"},[p("h3",{},["Cell: ",p("bdi",{textContent:s[o]}),`${ft(t,o)} → `,p("bdi",{textContent:s[e.own[n]]}),
ft(t,e.own[n])]),p("p",{className:"note",textContent:[De(r,e.columns[o].position,e.rows[n].position),ae(t)].filter(Boolean).
join(", ")}),a&&t.headsBlock?"":a?jo(t,{row:n,column:o}):p("p",{textContent:"Not reachable: this model attends to earlie\
r tokens only."}),...Qs(t,"head"),...Qs(t,"expert"),...t.strips.length&&r.queries.length&&!t.headsBlock?[p("p",{className:"\
note",textContent:`${gt(s[e.own[n]])} as a row:`}),ou(t)]:[]])}function ou(t){return gn(t,t.strips.map(e=>Kt(e,t.maps.map(
n=>n.columns[e]?at(n,n.columns[e][t.row],e==="own"):"–"))))}function Io(t,e){let{data:n,selection:o}=t,r=n.channels.get(
o.scope).name,s=ut(n,e).find(([,a])=>a.of===r);return s&&!o.words?s[1].channels.map(a=>G(n,s[0],a.name)):[]}function Qs(t,e){
let{data:n,selection:o,axes:r,row:s,column:a,palette:i}=t,l=Io(t,e);if(!l.length||!l.every(d=>n.loaded(o.run,d)))return[];
let u=s*r.nColumns+a,c=l.map(d=>({label:n.channels.get(d).name,value:n.matrix(o.run,d,o.layer)[u]||0})),f=E(c.map(({value:d})=>d));
return c.sort((d,h)=>h.value-d.value),[p("p",{className:"note",textContent:`Through each ${e} (norms; they do not add up\
), ${n.channels.get(o.scope).name}:`}),p("div",{className:"bars"},c.slice(0,6).map(({label:d,value:h})=>p("div",{className:"\
bar-line"},[p("span",{textContent:d}),wn(h/(f||1),i.contribution),p("span",{textContent:T(h)})])))]}function ru(t){return t.
earlier===null||t.earlier===t.rank?"":t.earlier>t.rank?`↑${t.earlier-t.rank}`:`↓${t.rank-t.earlier}`}var su=10;function au(t,e){
let{maps:n,axes:o,selection:r}=t,s=St(t)?[n[1]]:n.filter(g=>g.role!=="difference"),a=s.map(g=>se(t,g)),i=a[a.length-1],l=pn(
i,a.length>1?a[0]:null,su),u=g=>at(s[0],g,s[0].asShare),c=E(l.map(({at:g})=>Math.abs(i[g]))),f=s[s.length-1].labels,d=l.
map(g=>{let b=p("button",{type:"button",className:"plain"},[p("bdi",{textContent:f[g.at]}),ft(t,g.at)]),x=o.columns[g.at].
position;return b.addEventListener("click",()=>e(r.read==="row"?{from:x}:{to:x})),p("tr",{},[p("td",{},[b]),p("td",{},[wn(
Math.abs(i[g.at])/(c||1),Fo(t,s[0],i[g.at]))]),p("td",{textContent:a.map(y=>u(y[g.at])).join(" → ")}),p("td",{className:"\
rank",textContent:ru(g)})])}),h=U(t),m=p("h3",{},[r.read==="row"?"Strongest sources of ":"Strongest destinations of ",p(
"bdi",{textContent:f[h]}),ft(t,h)]);return p("section",{className:"card"},[m,p("table",{className:"profile"},d)])}function ta(t,e,n){
n.replaceChildren(nu(t),...t.headsBlock?[]:[au(t,e)])}async function iu(){if(typeof CircuitsVis=="object")return;let t=new TextDecoder().decode(await ke(w("circuitsvis-bundle").
textContent));document.head.append(p("script",{textContent:t}))}var lu=0;function cu(t,e){let{axes:n,data:o}=t,r=p("div",
{id:`circuitsvis-${lu++}`,className:"circuitsvis"}),s=p("figure",{},[p("figcaption",{textContent:`${Ct(t,e)}: ${Ce(t,e)}`}),
r]),a=Array.from({length:n.nRows},(l,u)=>Array.from(e.cells.subarray(u*n.nColumns,(u+1)*n.nColumns),c=>c||0));return[s,()=>CircuitsVis.
render(r.id,CircuitsVis.AttentionPattern,{attention:a,tokens:e.labels,maxValue:e.limit||1,minValue:-(e.limit||1),maskUpperTri:o.
causal,positiveColor:e.scale==="signed"?xe.light.gain:xe.light.contribution,negativeColor:xe.light.loss})]}async function uu(t,e){
e.replaceChildren(p("p",{className:"note",textContent:"CircuitsVis draws…"})),await iu();let n=re(t).map(o=>cu(t,o));e.
replaceChildren(...n.map(([o])=>o));for(let[,o]of n)o();e.dataset.drawn="true"}function ea(t,e){if(delete e.dataset.drawn,
w("circuitsvis-bundle")===null||t.selection.view!=="maps"){e.replaceChildren();return}let n=p("button",{type:"button",textContent:"\
Draw with CircuitsVis"});n.addEventListener("click",()=>uu(t,e)),e.replaceChildren(n)}function Oe(t){let{data:e,selection:n}=t;return e.runs[n.run].blocks[t.headsBlock||e.channels.get(n.scope).blockName].tracks}
var fu=.05;function Ee(t){let e=t.map(o=>Object.entries(o.values).filter(([r])=>r!=="residual").flatMap(([,r])=>r).filter(
r=>r!==null)),n=E(e.filter((o,r)=>!t[r].stretched).flat());return t.map((o,r)=>o.stretched?[be([...e[r]],Math.floor(fu*(e[r].
length-1))),E(e[r])]:[0,n])}function le(t){if(!t.stretched)return"";let[[e,n]]=Ee([t]);return`${K(e,2)} to ${K(n,2)}`}function ce(t){
return t===null?"undefined":t.toFixed(3)}function na(t){let{data:e,selection:n}=t,o=e.layers.indexOf(n.layer);return Oe(
t).filter(r=>r.cumulative).map(r=>{let s=r.columns.map(({label:a,channel:i})=>`${a} ${ce(r.values[i][o])}`);return`Laye\
r ${n.layer} ${r.title}: ${s.join(" → ")}`}).join(" ")}function ht(t){return Le(t,0).length>0}function Le(t,e){return Object.entries(t.runs[e].blocks).filter(([,n])=>n.kind===
"logit")}function tt(t,e){let n=Le(t,e.run),[,o]=n.find(([r])=>r===e.block)||n[0]||[null,null];return o}function Se(t,e){
let[n]=Le(t,0).find(([,o])=>o.position===e)||[];return n?{block:n,to:e-1,read:"row"}:null}function Rt({axes:t,hidden:e},n){
return Float32Array.from(t.columns,({members:o},r)=>e.has(r)?NaN:o.reduce((s,a)=>s+(n[a]??NaN),0))}function Wo(t,e){return e<
t.residual.length-1?String(e):"end"}function ra(t,e){let n=t.runs.flatMap(({blocks:o})=>Object.entries(o)).find(([,o])=>o===
e)[0];return t.runs.map(({blocks:o})=>o[n])}function sa(t){return t.biases.some(([,,e])=>e!==0)}function aa(t){return t?
Math.max(0,...t.flat().map(E)):0}function Po(t){let e=tt(t.data,t.selection),n=e.residual.map(c=>Rt(t,c)),{nColumns:o}=t.
axes,r=new Float32Array(n.length*o);n.forEach((c,f)=>r.set(c,f*o));let s=n.map(()=>-1),a=ra(t.data,e).map(({residual:c})=>Lt(
{nRows:n.length,nColumns:o,own:s},Float32Array.from(c.flatMap(f=>Array.from(Rt(t,f)))),t.selection.range)),i=e.ends?e.ends.
map(c=>c.map(f=>Rt(t,f))):null,l=Math.max(...a,aa(i)),u=e.heads?ia(t,e):0;return{block:e,rows:n,cells:r,limit:l,top:E(r),
scale:"signed",before:null,ends:i,neurons:e.neurons,unit:zt(e),layers:n.map((c,f)=>f<n.length-1?f:null),names:n.map((c,f)=>Wo(
e,f)),strip:sa(e)?{name:"biases",scale:"signed",limit:l,values:Float32Array.from(n,(c,f)=>pu(e,f))}:null,heads:e.heads?{
values:e.heads,names:e.heads[0].map((c,f)=>String(f)),least:0,limit:u,scale:"signed",words:la(u)}:null}}function ia(t,e){
return Math.max(...ra(t.data,e).map(({heads:n})=>E(n.map(E))))}function la(t){return`heads, ±${Z(t,!1)}`}function ca({data:t,
selection:e}){let n=t.channels.get(e.scope),o=ut(t,"head"),r=o.find(([c,f])=>f.of===n.name||c===n.blockName)||o[0],s=r&&
t.runs[e.run].blocks[r[0]].tracks[0];if(!s)return null;let a=s.columns.filter(({channel:c})=>c!=="residual"),i=t.layers.
map((c,f)=>a.map(({channel:d})=>s.values[d][f]??NaN)),[[l,u]]=Ee([s]);return{values:i,least:l,limit:u,scale:"contributio\
n",names:a.map(({label:c})=>c.replace(/^head /,"")),words:`heads: ${s.title}${le(s)&&`, ${le(s)}`}`}}function ua(t){let{
data:e,selection:n,axes:o,maps:r}=t,s=xt(t),a=hn(t,n.run,n.scope),i=r.length===3?hn(t,n.refRun,n.ref):null,l=i?[]:pt(e).
filter(f=>n.run===0&&e.loaded(f,n.scope)).map(f=>hn(t,f,n.scope)),u=f=>e.layers.map((d,h)=>f.subarray(h*o.nColumns,(h+1)*
o.nColumns)),c=n.read==="row"&&s.columns.own;return{block:null,rows:u(a),cells:a,before:i&&u(i),ends:l.length===2?l.map(
u):null,scale:s.scale,asShare:s.asShare,limit:Math.max(Mo(t,a),i?Mo(t,i):0,aa(l.map(f=>[f]))),top:Math.max(E(a),i?E(i):0),
layers:e.layers,names:e.layers.map(String),neurons:[],unit:"",heads:ca(t),strip:c?{name:"own",scale:"bias",limit:1,values:qs(
t,n.run,n.scope)}:null}}function fa(t){let e=tt(t.data,t.selection);if(e)return{strip:sa(e),heads:e.heads?e.heads[0].length:
0,words:e.heads?la(ia(t,e)):"",neurons:e.neurons.length>0};let n=ca(t);return{strip:t.selection.read==="row"&&!!xt(t).columns.
own,heads:n?n.names.length:0,words:n?n.words:"",neurons:!1}}function Bo(t,e){let{axes:n,selection:o}=t,r=tt(t.data,o);if(r)
return r.position!==void 0&&n.columns[e].position>=r.position;if(o.read==="row")return!n.reaches(t.row,e);let s=n.own.indexOf(
e);return s>=0&&!n.reaches(s,t.column)}function ha(t){return tt(t.data,t.selection)?Po(t):ua(t)}function da({data:t,selection:e}){
if(e.run!==e.refRun)return`How does “${t.runs[e.run].name}” differ from “${t.runs[e.refRun].name}”?`;let{component:n,
before:o}=t.channels.get(e.scope),{sides:r}=t.block(e.scope);if(r.length)return`What is larger in ${r[0]} than in ${r[1]}\
?`;let s={FF:"feed-forward",ATTN:"attention",RES:"residual connection",LN:"norm"}[n];return s&&e.ref&&e.ref===o?`What do\
es each layer's ${s} change?`:"Which tokens contribute in each layer?"}var hu={others:"vector length, as a share of all \
other tokens'",row:"vector length, as a share of all tokens'",column:"vector length, as a share of the same token's to a\
ll",none:"vector length"},du={others:"as a share of the sum over all other tokens",row:"as a share of the sum over all t\
okens",column:"as a share of the source's sum over destinations",none:""};function Ho(t,e=!0){let{data:n,selection:o}=t,
r=Ut(t),s=lt(t,U(t)),a=n.block(o.scope),{shares:i}=xt(t),u=!a.signed&&["norm","share"].includes(a.short)?hu[i]:du[i]||(a.
sides.length?a.unit.split(": ")[0]:a.unit),c=a.axis!=="scope"?` through ${n.channels.get(o.scope).name}`:"",f=o.read==="\
row"?At(a,s,"each token"):At(a,"each token",s),d=t.maps.length===3,h=o.run===o.refRun?"before":`in “${n.runs[o.refRun].
name}”, the underline`,m=d?e?`Orange: more than ${h}; violet: less.`:"Zoom in for the change.":pt(n).length&&e?"Lines:\
 95 % intervals; hollow: the interval contains 0.":"";return{...r,meaning:`${e?"Bands":"Cells"}: ${f}${c}: ${u}.`,further:m,
file:["layers",...r.file.slice(1)]}}function mu(t){let{rows:e,before:n,names:o}=ua(t),r=_(t),s=function*(){for(let[a,i]of e.
entries())for(let[l,u]of i.entries())Number.isNaN(u)||(yield[o[a],t.axes.columns[l].position,r[l],...n?[n[a][l]]:[],u])};
return{head:["layer","position","token",...n?["before"]:[],"share"],lines:s,count:e.length*r.length}}function pu(t,e){return t.
biases.reduce((n,[,o,r])=>o===e?n+r:n,0)}function gu(t,e){let n=t.residual[e].reduce((r,s)=>r+s,0),o=t.biases.reduce((r,[
,s,a])=>s>=e?r+a:r,0);return{flowing:n,later:o,both:n+o}}function zt(t){return t.unit?` ${t.unit}`:""}function Do(t){return`${t.
target} = ${T(t.value,4)}${zt(t)}`}function qo(t){return`${T(t.value,4)} = ${t.sums.map(([e,n])=>`${e} ${S(n,!1,4)}`).join(
" · ")}`}function wu(t,e){return t.residual[e].every(n=>n===0)&&t.value!==0}function Ae(t){let{data:e,selection:n}=t,o=tt(
e,n),r=U(t),s=lt(t,r);if(wu(o,n.layer))return`At the input of layer ${n.layer} all attributions are 0: the target is rea\
d before.`;let a=Rt(t,o.residual[n.layer])[r];return Number.isNaN(a)?`${s} is hidden.`:`At the input of layer ${n.layer}\
, the attribution of ${s} is ${S(a,!1)}${zt(o)}.`}function oa(t){return t.sums.some(([e])=>e==="nonlinear")?"its first-o\
rder form":"it"}function ma(t,e){let{flowing:n,later:o,both:r}=gu(t,e);if(t.ends)return`At the input of layer ${e}: thes\
e positions sum to ${S(n,!1)}; the remainder is of other positions and later biases.`;let s=`At the input of layer ${e}:\
 all tokens ${S(n,!1,4)}, later biases ${S(o,!1,4)}`;return t.complete?`${s}, together ${T(r,4)}${oa(t)==="it"?"":`, ${oa(
t)}`}.`:`${s}; these rules do not sum to the target.`}function pa(t,e,n){let o=Rt(t,tt(t.data,t.selection).residual[e]);
return pn(o,null,n).map(({at:r})=>({column:r,share:o[r]})).filter(({share:r})=>r!==0)}function Vo(t,e){let n=e.heads.split(
".").filter(Boolean);return n.length===1&&Number(n[0])<t?Number(n[0]):-1}function Uo(t,e){return t.heads?Vo(t.heads[0].length,
e):-1}var bu=14,xu=.05;function ga({axes:t,hidden:e},n,o){return Object.entries(n.edges).flatMap(([a,i])=>{let[l,u]=a.split(
",").map(Number);return i.map(([c,f,d])=>({layer:l,head:u,query:c,key:f,share:d,from:t.columnOf[f],to:t.columnOf[c]}))}).
filter(({from:a,to:i,share:l})=>a!==i&&!e.has(a)&&!e.has(i)&&Math.abs(l)>=xu*o).sort((a,i)=>Math.abs(i.share)-Math.abs(a.
share)).slice(0,bu)}function Ko(t,e){return t.heads?t.heads[e].map((n,o)=>({head:o,share:n})).sort((n,o)=>Math.abs(o.share)-
Math.abs(n.share)):[]}function Go(t,e){let n=tt(t,e),o=n&&t.runs[e.run].blocks[n.maps];if(!o)return null;let{name:r}=t.channels.
get(e.scope),s=o.channels.find(a=>a.name===r)||o.channels[o.channels.length-1];return G(t,n.maps,s.name)}function wa(t,e){
let n=Go(t,e),{name:o}=t.channels.get(n);return{view:"maps",scope:n,ref:t.channels.has(o)&&!t.block(o).signed?o:""}}var yu="\
Orange: positive, violet: negative.";function Yo(t,e){let n=tt(t.data,t.selection),{limit:o,top:r}=Po(t),s=[`Colours end\
 at ±${Z(o,!1)}${zt(n)}${r>o*1.0001?` (99th percentile; cells reach ${Z(r,!1)})`:""}.`];return t.selection.root&&s.push(
"Square-root scale."),n.ends&&s.push("Lines: 95 % intervals; hollow: the interval contains 0."),n.heads&&s.push(`Heads, \
summed over ${n.ends?"these":"all"} positions, on their own scale: ±${Z(E(n.heads.map(E)),!1)}; later layers read earli\
er ones, so heads overlap, and their sum is not that of the tokens.`),t.hidden.size&&s.push("Hidden tokens are left out \
of the picture, not of the sums."),[yu,...s,...Ao(e),n.certificate].join(" ")}function ba(t,e=!0){let{data:n,selection:o}=t,
r=tt(n,o);return r?{headline:`${Do(r)}. ${Ae(t)}`,meaning:`${e?"Width and colour":"Colour"}: attribution per token.`,further:[
...Object.keys(r.edges).length?["Arcs: attention heads between positions."]:[],...r.ends&&e?["Lines: 95 % intervals; hol\
low: the interval contains 0."]:[]].join(" "),place:`layer ${o.layer}`,shown:`attribution of the ${r.target}, rules “${r.
rules}”`,remark:`${qo(r)}.`,note:Yo(t,1),exact:!1,method:r.method,file:[`layer${o.layer}`,`to-${r.target}`.slice(0,60)]}:
Ho(t,e)}function xa(t){let e=tt(t.data,t.selection);if(!e)return mu(t);let n=_(t),{rows:o}=Po(t),r=function*(a,i,l){for(let[
u,c]of l.entries())Number.isNaN(c)||(yield[a,i,t.axes.columns[u].position,n[u],c])};return{head:["part","layer","positio\
n","name","share"],lines:function*(){yield*r("token","",Rt(t,e.entering));for(let[a,i]of o.entries())yield*r("residual s\
tream",Wo(e,a),i);for(let[a,i]of(e.heads||[]).entries())for(let[l,u]of i.entries())yield["head",String(a),"",`L${a}H${l}`,
u];for(let[a,i,l]of e.biases)yield["bias",i<0?"":Wo(e,i),"",a,l]},count:(o.length+1)*n.length}}function D(t,e,n=""){return p("option",{value:t,textContent:e,title:n})}function ya(t){let e=ut(t).map(([n,o])=>{let r=o.
channels.map(s=>{let a=G(t,n,s.name);return D(a,Me(t,a))});return[o.title,r]});return e.length===1?e[0][1]:e.map(([n,o])=>p(
"optgroup",{label:n},o))}function Zo(t){return ht(t)||pt(t).length>0}function ku(t){let e=t.runs.map((o,r)=>({...o,index:r}));
return(Zo(t)?e.map(o=>[o,o]):e.flatMap(o=>[...e.filter(r=>r!==o),o].map(r=>[o,r]))).map(([o,r])=>D(`${o.index}-${r.index}`,
o===r?o.name:`${o.name} against ${r.name}`))}var $u={others:"share of the others",row:"share of row",column:"share of co\
lumn",none:"norm"},Xo={percentile:"99th percentile","off-diagonal":"largest of another token",all:"largest of all"};function ka(t){
w("scope").replaceChildren(...ya(t)),w("ref").replaceChildren(D("","nothing"),...ya(t)),w("pair").replaceChildren(...ku(
t)),ht(t)&&w("further").after(w("pair-group"));for(let e of["run","ref-run"])w(e).replaceChildren(...t.runs.map((n,o)=>D(
o,n.name)));w("layer").replaceChildren(...t.layers.map(e=>D(e,e))),w("cells").replaceChildren(...Object.entries($u).map(
([e,n])=>D(e,n))),w("range").replaceChildren(...Object.entries(Xo).map(([e,n])=>D(e,n))),w("words-label").hidden=Kn(t.words).
length===t.words.length,w("hide-special-label").hidden=t.special.length===0}var $a={scope:["scope"],ref:["ref"],run:["ru\
n",Number],"ref-run":["refRun",Number],layer:["layer",Number],cells:["cells"],range:["range"],sort:["sort"],pairs:["pair\
s"],mass:["mass",Number]},va={root:"root",each:"each",words:"words"};function Ma(){if(!w("colours").open)return;let t=w(
"colours").querySelector(".menu");t.style.marginLeft="";let e=t.getBoundingClientRect().right-document.documentElement.clientWidth+
8;e>0&&(t.style.marginLeft=`${-e}px`)}function vu(){return[w("hide-special").checked&&"special",w("hide-first").checked&&
"first"].filter(Boolean).join(" ")}function Ca(t){for(let[e,[n,o=String]]of Object.entries($a))w(e).addEventListener("ch\
ange",()=>t.go({[n]:o(w(e).value)}));w("pair").addEventListener("change",()=>{let[e,n]=w("pair").value.split("-").map(Number);
t.go(Zo(t.data)?{run:e}:{run:e,refRun:n})});for(let[e,n]of Object.entries(va))w(e).addEventListener("change",()=>t.go({[n]:w(
e).checked?1:0}));for(let e of["hide-special","hide-first"])w(e).addEventListener("change",()=>t.go({hide:vu()}));w("col\
ours").addEventListener("toggle",Ma),w("read").addEventListener("click",()=>t.go({read:t.selection.read==="row"?"column":
"row"})),w("closer").addEventListener("click",()=>t.go({zoom:yo(t.scene.axes,t.selection)})),w("whole").addEventListener(
"click",()=>t.go({zoom:""})),w("find").addEventListener("input",()=>t.go({find:w("find").value.slice(0,60)})),Mu(t),w("h\
elp-mode").addEventListener("click",()=>{w("help").hidden=!w("help").hidden,w("help-mode").setAttribute("aria-expanded",
String(!w("help").hidden)),t.resized()})}function Mu(t){let e=w("search");e.addEventListener("input",()=>{let{look:n}=t.
view();w("search-note").textContent=n?n(t.scene,e.value):""}),e.addEventListener("keydown",n=>{if(n.key!=="Enter")return;
n.preventDefault();let{find:o}=t.view(),r=o&&o(t.scene,e.value);if(r&&t.go(r),o)return;let{data:s,selection:a}=t,i=Hs(s.
runs[a.run].tokens,e.value,a.read==="row"?a.to:a.from);w("search-note").textContent=i<0?"not there":`position ${i}`,!(i<
0)&&t.go(s.queries.includes(i)&&a.read==="row"?{to:i}:{from:i,read:"column"})})}function Cu({read:t,to:e,from:n}){let o=w(
"search"),r=String(t==="row"?e:n);document.activeElement!==o&&o.dataset.read!==r&&(o.value=w("search-note").textContent=
""),o.dataset.read=r}function Nu(t,e){w(t).setAttribute("aria-pressed",String(!!e))}var Ou={"scope-group":["scope",({data:t})=>t.
channels.size>1],"run-group":["run",({data:t})=>t.runs.length>1],"pair-group":["pair",({data:t})=>t.runs.length>1],"ref-\
group":["ref",({data:t})=>t.channels.size>1||t.runs.length>1],"ref-run-group":["refRun",({data:t})=>t.runs.length>1&&!pt(
t).length],"layer-group":["layer",({data:t})=>t.layered],"cells-group":["cells",({data:t,selection:e})=>!t.block(e.scope).
signed],"range-label":["range"],"root-label":["root"],"each-label":["each",({maps:t})=>t.length>2],closer:["zoom",({data:t,
selection:e})=>t.words.length>=ne||e.zoom!==""]},Eu=["range","root","each","words","hide","zoom"];function Lu(t,e){for(let[
n,[o,r=()=>!0]]of Object.entries(Ou))w(n).hidden=!e.includes(o)||!r(t)}function Su({selection:t},e){let[n,o]=["off-diago\
nal","all"].map(r=>w("range").querySelector(`[value=${r}]`));V(n,e?Xo.all:Xo["off-diagonal"]),n.hidden=e&&t.range==="all",
o.hidden=e&&t.range!=="all"}function Au({maps:t,selection:e}){let[n,o]=["change","share"].map(r=>w("sort").querySelector(
`[value=${r}]`));n.hidden=t.length===1,n.hidden&&e.sort==="change"&&(w("sort").value=o.value)}function Tu({data:t,selection:e}){
let n=an(t,e),o=t.queries.length<t.words.length,r=n?"":"Shares need every source of a row, in each prompt alone; this pa\
ge has named positions or means. Choose maps of shares if the page has them.";for(let s of w("cells").options)s.disabled=
s.value!=="none"&&(!n||s.value==="column"&&o),s.title=s.value==="none"?"":r||(s.value==="column"&&o?"needs every row; th\
is result has only some":"");w("cells").title=r,V(w("cells").querySelector("[value=none]"),t.block(e.scope).short)}function Na(t,{
controls:e,withoutOwn:n=!1,fields:o=r=>[]}){w("colours").hidden=![...e,...o(t)].some(a=>Eu.includes(a));let{data:r,selection:s}=t;
for(let[a,[i]]of Object.entries($a))w(a).value=String(s[i]);for(let[a,i]of Object.entries(va))w(a).checked=s[i]===1;w("h\
ide-special").checked=s.hide.includes("special"),w("hide-first").checked=s.hide.includes("first"),Nu("read",s.read==="co\
lumn"),w("whole").hidden=s.zoom===""||!e.includes("zoom"),w("pair").value=`${s.run}-${Zo(r)?s.run:s.refRun}`,Lu(t,e),Su(
t,n),W(r)&&(Au(t),Tu(t)),Ma(),Cu(s),document.activeElement!==w("find")&&(w("find").value=s.find)}var Ru=[["arrows","anot\
her cell of a map; in the overview another layer or token"],["Enter","selects the cell"],["Alt + arrows","another layer,\
 another row"],["[ and ]","the step before, the step after"],["/","find a token or a position"],["z, Esc","zoom in, back\
 out"],["drag","zooms into a part of a map"],["Shift + click","on a token: the other end of the cell; on a head: this on\
e alone"],["f","files, link, caption"],["Back","undoes; the address stores the selection"]];function Oa(){w("help").replaceChildren(
p("p",{id:"help-drawn"}),p("p",{id:"help-layers"}),p("dl",{},Ru.flatMap(([t,e])=>[p("dt",{textContent:t}),p("dd",{textContent:e})])))}
function Ea(t){document.addEventListener("keydown",e=>{if(e.target.closest("input, select, textarea")||e.ctrlKey||e.metaKey)
return;let{data:n,selection:o,scene:r}=t,s=W(n)?[...n.channels.values()].filter(({blockName:u})=>u===n.channels.get(o.scope).
blockName).map(({key:u})=>u):[],a=s.indexOf(o.scope),i=n.layers.indexOf(o.layer),l={"[":()=>a>0&&t.go({scope:s[a-1]}),"]":()=>a<
s.length-1&&t.go({scope:s[a+1]}),ArrowUp:()=>i>0&&t.go({layer:n.layers[i-1]}),ArrowDown:()=>i<n.layers.length-1&&t.go({layer:n.
layers[i+1]}),ArrowLeft:()=>r.row>0&&t.go({to:r.axes.rows[r.row-1].position}),ArrowRight:()=>r.row<r.axes.nRows-1&&t.go(
{to:r.axes.rows[r.row+1].position}),z:()=>t.go({zoom:yo(r.axes,o)}),f:()=>w("figure-mode").click(),"?":()=>w("help-mode").
click(),"/":()=>w("search").focus(),Escape:()=>t.go(o.zoom?{zoom:""}:o.panel?{panel:""}:o.heads?{heads:""}:o.node>=0?{node:-1}:
{})};e.key.startsWith("Arrow")&&!e.altKey||e.key in l&&(e.preventDefault(),l[e.key]())})}function La(t){let e=String(t);return`"${(/^[=+\-@\t\r]/.test(e)?`'${e}`:e).replaceAll('"','""')}"`}function zu(t){return Number.
isInteger(t)?String(t):Number.isFinite(t)?String(Number(t.toPrecision(5))):""}var _u=2**16;function ju(){let t=new Map;return e=>{
let n=t.get(e);if(n!==void 0)return n;t.size>=_u&&t.clear();let o=typeof e=="number"?zu(e):La(e);return t.set(e,o),o}}function Sa({
head:t,lines:e}){let n=ju(),o=[t.map(La).join(",")];for(let r of e())o.push(r.map(n).join(","));return o.push(""),o.join(
`
`)}var Te=["query","query_token","key","key_token"];function Jo({axes:t},e,n,o){return[t.rows[n].position,e[t.own[n]],t.
columns[o].position,e[o]]}function*Qo({axes:t}){for(let e=0;e<t.nRows;e++)for(let n=0;n<t.nColumns;n++)t.reaches(e,n)&&(yield[
e,n,e*t.nColumns+n])}function*Fu(t){let{axes:e,maps:n,selection:o,strips:r}=t,s=o.cells!=="none",a=_(t);for(let[i,l,u]of Qo(
t)){let c=s?n.map(f=>f.cells[u]):[];yield[o.layer,"token",...Jo(t,a,i,l),...n.map(f=>f.raw[u]),...c]}for(let i of r.filter(
l=>l!=="own"))for(let l=0;l<e.nRows;l++){let u=n.map(c=>c.columns[i]?c.columns[i][l]:NaN);yield[o.layer,i,e.rows[l].position,
a[e.own[l]],"","",...u,...s?n.map(()=>NaN):[]]}}function Iu(t,e,n){let o={others:"share_of_others",row:"share_of_row",column:"\
share_of_column"}[n];return e.role==="difference"?`difference_of_${o}`:e.scale==="signed"?`${t}_difference_of_${o}`:`${t}\
_${o}`}function bn(t){let{data:e,axes:n,maps:o,selection:r}=t,s=Oo(t,({run:u,key:c})=>yt(e,u,c)),a=(u,c,f)=>f==="none"?u:
Iu(u,o[c],f),i=s.map((u,c)=>a(u,c,e.block(o[c].key).shares||"none"));return{head:["layer","part",...Te,...i,...r.cells===
"none"?[]:s.map((u,c)=>a(u,c,r.cells))],lines:()=>Fu(t),count:n.nRows*n.nColumns}}function dt(t,e,n,o,r=p("canvas")){let[s,a,i,l]=t.window,u=Math.max(1,Math.min(l-i+1,Math.floor(n))),c=Math.max(1,Math.min(
a-s+1,Math.floor(o)));(r.width!==u||r.height!==c)&&Object.assign(r,{width:u,height:c});let f=us(t.cells,t.nColumns,t.window,
u,c),d=r.getContext("2d"),h=d.createImageData(u,c),m=new Uint32Array(h.data.buffer),g=t.scale==="signed";for(let b=0;b<f.
length;b++){let x=f[b],y=e.shades[g?x<0?"loss":"gain":t.scale];m[b]=Number.isNaN(x)?e.outside:y[Math.round(Bt(x,t.limit,
t.root)*Mt)]}return d.putImageData(h,0,0),r}function Nt(t,e,n,o,r){return Object.assign(t.style,{position:"absolute",left:`${e}\
px`,top:`${n}px`,width:`${o}px`,height:`${r}px`}),t}var xn=document.createElement("canvas");xn.getContext("2d",{willReadFrequently:!0});
var tr=4096,er=4;function Wu(t,e){let n=Math.max(1,Math.ceil(er*e/t.width)),o=p("canvas",{width:t.width*n,height:t.height*
n}),r=o.getContext("2d");return r.imageSmoothingEnabled=!1,r.drawImage(t,0,0,o.width,o.height),o}function Pu({picture:{window:[
t,e,n,o]}}){return(e-t+1)*(o-n+1)}function Aa(t){return t.reduce((n,o)=>n+Pu(o),0)>4*tr?tr/8:tr}function Bu({picture:t,x:e,
y:n,width:o,height:r},s){let a=dt(t,s,er*o,er*r,xn),i=a.width<=o&&a.height<=r,l=(i?Wu(a,o):a).toDataURL("image/png");return k(
"image",{x:e,y:n,width:o,height:r,href:l,preserveAspectRatio:"none",...i?{"image-rendering":"pixelated"}:{}})}function Ta(t,e,n){
let{picture:o,x:r,y:s,width:a,height:i}=t,[l,u,c,f]=o.window,[d,h]=[u-l+1,f-c+1];if(d*h>n)return[Bu(t,e)];let[m,g]=[a/h,
i/d];return Array.from({length:d*h},(b,x)=>{let[y,M]=[Math.floor(x/h),x%h],$=o.cells[(l+y)*o.nColumns+c+M],C=Number.isNaN(
$)?e.out:nt(e,$,o.limit,o.scale,o.root).hex;return j(r+M*m,s+y*g,m,g,C)})}var P={size:12,smallest:9.5,index:10,row:88,column:72,crowded:60,many:25,axis:18,spacing:11},ze=1.12,Ot=44,q={gap:6,width:13},
Re=20,Ra=250,kt={largest:52,comfortable:12,enough:230,across:1e3,around:230};function Yt(t){return 12+Math.ceil(R(String(
t.data.words.length-1),P.index))}function nr(t,e){return e.labels.slice(t.window[2],t.window[3]+1)}function _e({window:[
,,t,e]}){return e-t+1<P.many?P.column:P.crowded}function Gt(t){return Math.min(t>36?14:P.size,Math.max(P.smallest,t-1.5))}
function yn(t,e,n,o=P.size){let r=e.reduce((s,a)=>Math.max(s,R(a.slice(0,60),o)),0);return Math.ceil(Math.min(n,ze*r))+Yt(
t)}function za(t,e,n,o,r){let s=r/n>o+300;return Array.from({length:e},(a,i)=>P.axis+(s||i%n===0?o:Yt(t)))}function _a(t,e,n,o){
let r=n.slice(0,e).reduce((s,a)=>s+a+o,0);return(t-r-Re*(e-1))/e}function Hu(t,e,n,o,r){let s=Math.min(kt.comfortable*(t.
window[3]-t.window[2]+1),kt.enough);for(let a=e;a>1;a--){let i=za(t,e,a,o,n);if(a*(Ra+Re)-Re<=n&&_a(n,a,i,r)>=s)return a}
return 1}function Du(t,e){let[n,o]=[t.window[1]-t.window[0]+1,t.window[3]-t.window[2]+1],r=t.room||t.windowRoom,s=r?(r-kt.
around)/n:kt.largest,a=Math.max(40/o,Math.min(kt.largest,s,kt.across/o,e/o)),i=a>=6?Math.floor(a):a;return{width:i,height:Math.
max(Math.min(i,kt.across/n),Math.min(22,i,o*i/n))}}function ja(t,e){let n=re(t),o=Gt(kt.across/(t.window[1]-t.window[0]+
1)),r=Math.max(...n.map(x=>yn(t,x.labels,Math.min(P.row,e/4),o))),s=t.strips.length*(q.gap+q.width)+8,a=t.inLine?n.length:
Hu(t,n.length,e,r,s),i=za(t,n.length,a,r,e),l=Du(t,_a(e,a,i,s)),u=Ot+P.axis+Math.max(...n.map(x=>yn(t,nr(t,x),_e(t),Gt(l.
width)))),[c,f,d,h]=t.window,[m,g]=[l.width*(h-d+1),l.height*(f-c+1)],b=n.map((x,y)=>({map:x,cell:l,top:u,across:m,down:g,
left:i[y],fullLabels:i[y]>P.axis+Yt(t),width:Math.min(e,Math.max(i[y]+m+s,a>1&&t.inLine?0:Ra))}));return qu(t,b,a)}function qu(t,e,n){
let[o,r,s]=[0,0,0];for(let a=0;a<e.length;a+=n){let i=e.slice(a,a+n);for(let u of i){let c=1/(u.cell.width*(t.ratio||1));
u.notes=Ks(t,u.map,c).flatMap(f=>Ve(f,11,u.width-u.left))}let l=i[0].top+i[0].down+44+14*Math.max(...i.map(u=>u.notes.length));
o=0;for(let u of i)Object.assign(u,{x:o,y:r,height:l}),o+=u.width+Re;s=Math.max(s,o-Re),r+=l+12}return{frames:e,width:Math.
ceil(s),height:Math.ceil(r)}}function _t(t){return Math.max(1,Math.ceil(P.spacing/t))}function Xt(t,e,n){return t===n||t%e===0&&Math.abs(t-n)>=e}function Ia(t,e,n,o){
let r="font-weight"in n?ze:1,s=Math.min(e,Math.max(P.smallest,Math.floor(2*e*o/R(t,r*e))/2));return{words:H(t,r*s,o),style:{
"font-size":s,...n}}}function Vu(t,e,n,o){let{axes:r,data:s,palette:a,window:[i]}=t,l=Gt(e.cell.height),u=e.top+(n-i+.5)*
e.cell.height+l*.35,c=e.fullLabels?te(s,r.rows[n].position):r.rows[n].position,f=O(c,e.left-5,u,{"text-anchor":"end","fo\
nt-size":P.index,fill:a.grey});if(!e.fullLabels)return k("g",{},[f]);let d=e.left-Yt(t)-P.axis,{words:h,style:m}=Ia(e.map.
labels[r.own[n]],l,o,Math.max(20,d));return k("g",{},[f,O(h,e.left-Yt(t),u,{"text-anchor":"end",fill:a.ink,...m})])}function Uu(t,e,n,o){
let{axes:r,data:s,palette:a,window:[,,i]}=t,l=Gt(e.cell.width),u=e.left+(n-i+.5)*e.cell.width+l*.35,{words:c,style:f}=Ia(
e.map.labels[n],l,o,_e(t));return k("g",{},[bt(te(s,r.columns[n].position),u,e.top-5,{"font-size":P.index,fill:a.grey}),
bt(c,u,e.top-Yt(t),{fill:a.ink,...f})])}function Wa(t,e,n,o){let r=_t(n);return Array.from({length:Math.floor((e-t)/r)+1},
(s,a)=>({index:t+a*r,node:o(t+a*r,{})}))}function Pa(t,e,[n,o],r,s){let a=e>=n&&e<=o;for(let{index:i,node:l}of t)!a||Math.
abs(i-e)>=_t(r)?l.removeAttribute("visibility"):l.setAttribute("visibility","hidden");return a?[s(e,{"font-weight":700})]:
[]}function kn(t,e){let[,,n,o]=t.window,r=(a,i)=>Uu(t,e,a,i),s=Wa(n,o,e.cell.width,r);return{nodes:s.map(({node:a})=>a),
mark:a=>Pa(s,a,[n,o],e.cell.width,r)}}function Ku(t,e){let[n,o]=t.window,r=(a,i)=>Vu(t,e,a,i),s=Wa(n,o,e.cell.height,r);
return{nodes:s.map(({node:a})=>a),mark:a=>Pa(s,a,[n,o],e.cell.height,r)}}function Gu(t,e){let n=e.down<150?"← to":"← t\
o (destination, query)";return bt(n,11,e.top+e.down/2,{"font-size":11,fill:t.palette.grey,"text-anchor":"middle"})}function Yu(t,e){
let{palette:n}=t,o=e.width-(t.exporting?0:30);return[O(H(Ct(t,e.map),14,o),0,14,{"font-size":14,"font-weight":600,fill:n.
ink}),O(H(Ce(t,e.map),12,e.width),0,31,{fill:n.grey})]}function Xu({palette:t},e){return e.pictures.slice(1).map(({x:n})=>k(
"rect",{x:n,y:e.top,width:q.width,height:e.down,fill:"none",stroke:t.line}))}function sr(t,e){let n={"font-size":11,fill:t.
palette.grey};e.columns=kn(t,e);let o=e.pictures.slice(1).map(({name:r,x:s})=>bt(r,s+q.width-2,e.top-5,n));return[O("fro\
m (source, key) →",e.left,Ot+12,n),...e.columns.nodes,...o]}var or=24,Zu=0;function $n(t,{scale:e},n=o=>nt(t.palette,o,
1,e,t.selection.root)){let o=e==="signed"?-1:0,r=Array.from({length:or+1},(s,a)=>k("stop",{offset:a/or,"stop-color":n(o+
a/or*(1-o)).hex}));return k("linearGradient",{id:`ramp-${Zu++}`},r)}var Fa=11;function rr({left:t,top:e,down:n,width:o}){
return{x:t,y:e+n+10,width:Math.min(190,o-t-26),height:10}}function Ju(t,e){let n=$n(t,e.map);return[k("defs",{},[n]),k("\
rect",{...rr(e),fill:`url(#${n.id})`,stroke:t.palette.line,class:"legend"})]}function Qu(t,e){let{x:n,y:o}=rr(e),r=e.notes.
map((a,i)=>O(a,n,o+38+14*i,{"font-size":11,fill:t.palette.grey})),s=a=>Z(a,e.map.asShare,e.map.scale==="signed");return[
...ar(t,rr(e),e.map,s),...r]}function ar({palette:t},{x:e,y:n,width:o,height:r},s,a){let{limit:i}=s,[l,u]=[s.scale==="si\
gned",Lo(s)],c=l?-i:0,f=js(l?i:i/2),d=u?i:l?f:2*f,h=[];return[d,l?-d:0,l?0:f].flatMap(m=>{let g=(m-c)/(i-c||1)*o,b=`${u&&
Math.abs(m)===i?m>0?"≥ ":"≤ ":""}${l&&m>0?"+":""}${a(m,m===d)}`,x=R(b,Fa)/2,y=Math.max(x,Math.min(o-x,g));if(h.some(
([$,C])=>y+x+4>$&&y-x-4<C))return[];h.push([y-x,y+x]);let M={"font-size":Fa,"text-anchor":"middle",fill:t.ink};return[k(
"path",{d:`M${e+g} ${n+r}v3`,stroke:t.ink,class:"tick"}),O(b,e+y,n+r+13,M)]})}var Ba="not-reachable",ir=`url(#${Ba})`;function ue(t){
return k("defs",{},[k("pattern",{id:Ba,width:6,height:6,patternUnits:"userSpaceOnUse",patternTransform:"rotate(45)"},[j(
0,0,6,6,t.out),j(0,0,1,6,t.hatch)])])}function tf(t,e){let{data:n,axes:o,window:[r,s,a,i]}=t;if(!n.causal)return[];let l=[];
for(let u=r;u<=s;u++){let c=Math.max(a,o.own[u]+1),f=(i+1-c)*e.cell.width;f>0&&l.push(`M${e.left+(c-a)*e.cell.width} ${e.
top+(u-r)*e.cell.height}h${f}v${e.cell.height}h${-f}z`)}return l.length?[k("path",{d:l.join(""),fill:ir,class:"unreachab\
le"})]:[]}function lr(t,e){return e.rows=Ku(t,e),[Gu(t,e),...e.rows.nodes,...tf(t,e),k("rect",{x:e.left,y:e.top,width:e.
across,height:e.down,fill:"none",stroke:t.palette.line}),...Xu(t,e),...Ju(t,e)]}function ef(t,e){let{data:n,axes:o,selection:r,
window:[s,a,i,l]}=t,u=So(t,e.map)&&on(n,e.map.run,e.map.key,r.layer),{width:c,height:f}=e.cell;if(!u)return[];let d=Math.
min(2,c/5,f/5),h=[];for(let m=s;m<=a;m++)for(let g=i;g<=l;g++){let[b,x]=u.map(N=>N[m*o.nColumns+g]);if(!(b<=0&&x>=0&&b<x))
continue;let[y,M]=[e.left+(g-i)*c,e.top+(m-s)*f],[$,C]=[c-2*d,f-2*d];h.push(`M${y+d} ${M+d}l${$} ${C}m0 ${-C}l${-$} ${C}`)}
return h.length?[k("path",{d:h.join(""),stroke:t.palette.grey,"stroke-width":Math.min(1,d/2),fill:"none",class:"uncertai\
n"})]:[]}function cr(t,e){return[...Yu(t,e),...ef(t,e),...Qu(t,e)]}var nf={column:[326,420,0],page:[672,900,0],slide:[1280,1280,720]},of=864,rf=420;function qa({maps:t},e){let n=t.map(({role:o})=>o);
return t.length<2?[""]:e==="column"?n:["",...n]}function sf(t,e){let{panel:n}=t.selection,o=qa(t,e);return o.includes(n)?
n:o[o.length-1]}function je({scene:t,figureOfMap:e}){let n=w("figure-size").value,o=qa(t,n);return{size:n,panel:o.includes(
e)?e:sf(t,n),roles:o}}function Va(t,e){let n=Math.max(640,t.width);return nf[e]||[n,n,0]}function dr(t){let{size:e,panel:n}=je(
t),{scene:o}=t;return{...o,selection:{...o.selection,panel:n},width:Va(t,e)[1]-16,palette:Ye("light"),exporting:!0,ratio:4,
inLine:e==="page"||e==="slide",windowRoom:e==="screen"?o.windowRoom:0}}var ur={size:14,"font-weight":600},fr={size:9},hr=1.3;
function Ha(t,{size:e,...n},o){return Ve(t,e*(n["font-weight"]?1.2:1),o)}function Da(t,{size:e,...n},o,r){return t.map((s,a)=>O(
s,0,o+a*e*hr,{"font-size":e,fill:r,...n}))}function mr(t){let{size:e}=je(t),[n,o,r]=Va(t,e),s=dr(t),a=t.view();if(!a.figure)
return null;let i=a.words(s),l=[i.note,`${Ro(s.data,s.selection,600)}${i.place&&`, ${i.place}`}. tl_ffblock ${s.data.provenance.
tl_ffblock||""}`],u=N=>{let[A,z]=[Ha(i.headline,ur,N-16),Ha(l.filter(Boolean).join(" "),fr,N-16)],L=A.length*ur.size*hr+
10;return{head:A,foot:z,top:L,beyond:L+z.length*fr.size*hr+8+16}},c=N=>e==="screen"?0:(r||of*o/n)-N,f=N=>a.figure({...s,
room:c(u(N).beyond)},s.width),d=({width:N=o-16})=>n===o?Math.min(o,Math.max(rf,Math.ceil(N)+16)):o,h=f(o);if(!h)return null;
let m=d(h),g=m<o&&r?f(m):h,{head:b,foot:x,top:y,beyond:M}=u(m),{ink:$,grey:C}=s.palette;return{scene:s,width:m,shown:n*m/
o,height:g.height+M,groups:g.groups.map(N=>({...N,y:N.y+y})),head:Da(b,ur,12,$),foot:Da(x,fr,y+g.height+8,C)}}function pr({
scene:t,head:e,foot:n,groups:o,width:r,height:s,shown:a},i,l){let u=o.map(f=>k("g",{transform:`translate(${f.x} ${f.y})`},
[...i(f),...f.nodes])),c=k("svg",{xmlns:ge,width:a,height:s*a/r,viewBox:`-8 -8 ${r} ${s}`,"font-family":ee},[ue(t.palette),
...l,...e,...u,...n]);return new XMLSerializer().serializeToString(c)}function Ua(t){let{palette:e}=t.scene,n=Aa(t.groups.
flatMap(({pictures:r})=>r));return pr(t,({pictures:r})=>r.flatMap(s=>Ta(s,e,n)),[j(-8,-8,t.width,t.height,e.paper)])}function Ka(t,{
scene:e,groups:n,width:o,height:r}){let[s,a]=[t.canvas.width/o,t.canvas.height/r];t.setTransform(s,0,0,a,8*s,8*a),t.imageSmoothingEnabled=
!1,t.fillStyle=e.palette.paper,t.fillRect(-8,-8,o,r);for(let i of n)for(let{picture:l,x:u,y:c,width:f,height:d}of i.pictures)
t.drawImage(dt(l,e.palette,f*s,d*a,xn),i.x+u,i.y+c,f,d);t.setTransform(1,0,0,1,0,0)}function gr(t,e){let n=p("a",{href:URL.createObjectURL(t),download:e});n.click(),setTimeout(()=>URL.revokeObjectURL(n.href),
1e4),w("copied").textContent=`saved as ${e}${window.parent===window?"":", unless this frame blocks downloads"}`}function af({
scene:t},e,n){return zo(t,n.words(t),e)}function Za(t,{scene:e},n){let{size:o}=je(t),r=t.view().words(e),s=[e.maps.length>
1&&t.view().name==="maps"?e.selection.panel:"",o==="screen"?"":o].filter(Boolean);return zo(e,{...r,file:[...r.file,...s]},
n)}var wr="this view has nothing to save";function lf(t){let e=mr(t);if(!e){w("copied").textContent=wr;return}gr(new Blob(
[Ua(e)],{type:"image/svg+xml"}),Za(t,e,"svg"))}var Ga=3;function cf(t){return new Blob([fo(t.toDataURL("image/png").split(
",")[1])],{type:"image/png"})}function uf(t){let e=mr(t);if(!e){w("copied").textContent=wr;return}let n=Za(t,e,"png"),o=new Image;
o.onload=()=>{let r=p("canvas",{width:Ga*o.width,height:Ga*o.height}),s=r.getContext("2d");Ka(s,e),s.drawImage(o,0,0,r.width,
r.height),gr(cf(r),n)},o.src="data:image/svg+xml;charset=utf-8,"+encodeURIComponent(pr(e,()=>[],[]))}var ff=4e6;function Ya(t,e){
let n=e.table(t.scene);if(!n){w("copied").textContent=wr;return}let o=n.count*n.head.length;if(o>ff){w("copied").textContent=
`${T(o)} numbers are too many for one file; use .to_dataframe() in Python`;return}gr(new Blob([Sa(n)],{type:"text/csv;ch\
arset=utf-8"}),af(t,"csv",e))}async function Xa(t,e){try{await navigator.clipboard.writeText(t),e.textContent="copied",setTimeout(
()=>{e.textContent=""},4e3)}catch{w("caption").textContent=t,w("figure-tools").hidden=!1,w("copied").textContent="this f\
rame blocks copying: select the text below"}}function Ja(t){let e=dr(t);return Ys(e,t.view().words(e))}function hf(t){let{
scene:e}=t,{panel:n,roles:o}=je(t),r=a=>a===""?"all maps":Ct(e,e.maps.find(i=>i.role===a));w("figure-maps").replaceChildren(
...o.map(a=>D(a,r(a)))),w("figure-maps").value=n;let s=t.view().name==="maps";w("figure-maps-label").hidden=o.length<2||
!s,V(w("figure-size").querySelector("[value=column]"),s?"one column (3.4 in), one map":"one column (3.4 in)")}function Fe(t){
let e=t.view();hf(t);for(let n of["save-png","save-svg","save-csv"]){let o=!!(n==="save-csv"?e.table:e.figure);w(n).disabled=
!o,w(n).title=o?"":"this view has no such file; use PDF (print)"}w("caption").textContent=Ja(t)}function Qa(t){w("save-p\
ng").addEventListener("click",()=>uf(t)),w("save-svg").addEventListener("click",()=>lf(t)),w("save-csv").addEventListener(
"click",()=>Ya(t,t.view())),w("pairs-csv").addEventListener("click",()=>Ya(t,{table:bn,words:Ut})),w("print").addEventListener(
"click",()=>window.print()),w("copy-caption").addEventListener("click",()=>Xa(Ja(t),w("copied"))),w("figure-size").addEventListener(
"change",()=>{t.figureOfMap=null,Fe(t)}),w("figure-maps").addEventListener("change",()=>{t.figureOfMap=w("figure-maps").
value,Fe(t)}),w("copy-link").addEventListener("click",()=>Xa(t.address(),w("link-note"))),w("figure-mode").addEventListener(
"click",()=>{let e=w("figure-tools");e.hidden=!e.hidden,w("figure-mode").setAttribute("aria-expanded",String(!e.hidden)),
Fe(t),t.resized()})}var it=globalThis.parent!==globalThis.window;function df(t,e){let o=Array.from(t.querySelectorAll("[tabindex]")).indexOf(
document.activeElement);e();let r=t.querySelectorAll("[tabindex]")[o];o>=0&&r&&r.focus({preventScroll:!0})}function vn(t){
let[e,n]=[null,null];return(o,r,s)=>{r===e&&n.update&&n.update(o)!==!1||(df(t,()=>{let a=s();n=a.nodes?a:{nodes:[a].flat(),
update:null},t.replaceChildren(...n.nodes)}),e=r,n.update&&n.update(o))}}function jt(t,e,n){return JSON.stringify([n,t.ratio,
t.palette.name,...e.map(o=>t.selection[o])])}function ti({paper:t},e,n){if(t){for(let s of e)s();return}let o=[...e],r=()=>{
let s=performance.now()+12;for(;o.length&&n()&&performance.now()<s;)o.shift()();o.length&&n()&&setTimeout(r)};setTimeout(
r)}function mf(t,e,n,o){let{window:[r,s,a,i]}=t,l=r+Math.floor((o-e.top)/e.cell.height),u=a+Math.floor((n-e.left)/e.cell.width),
c=u>=a&&u<=i;if(o<e.top)return c&&o>Ot?{column:u}:null;if(l>s||n<P.axis)return null;if(u<a)return{row:l};if(c)return{row:l,
column:u};let f=Math.floor((n-e.left-e.across-q.gap/2)/(q.width+q.gap)),d=t.strips.filter(h=>e.map.columns[h])[f];return d?
{row:l,strip:d}:null}function Mn(t,{row:e,column:n}){let{axes:o,selection:r}=t,s=e===void 0?void 0:o.rows[e].position;if(n===
void 0)return{to:s,read:"row"};let a=o.columns[n].position;return e===void 0?{from:a,read:"column"}:{to:s,from:a,read:r.
read}}var ei={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[0,1]};function pf(t,e,[n,o]){let[r,s,a,i]=t.window,
l=(u,c,f)=>Math.max(c,Math.min(f,u));return{row:l((e.row??t.row)+n,r,s),column:l((e.column??t.column)+o,a,i)}}function gf(t,e){
let n=null,o=k("rect",{class:"band"}),r=s=>s&&s.row!==void 0&&s.column!==void 0;return{down:(s,a,i,l)=>{s.button===0&&s.
pointerType!=="touch"&&r(a)&&(n={target:a,x:i,y:l})},move:(s,a)=>{if(!n||Math.hypot(s-n.x,a-n.y)<6)return;let i={x:Math.
min(s,n.x),y:Math.min(a,n.y),width:Math.abs(s-n.x),height:Math.abs(a-n.y)};for(let[l,u]of Object.entries(i))o.setAttribute(
l,u);o.isConnected||t.marks.parentNode.append(o)},up:s=>{let a=o.isConnected&&n;o.remove();let i=n&&n.target;if(n=null,!a)
return!1;if(!r(s))return!0;let l=[i.row,s.row].sort((c,f)=>c-f),u=[i.column,s.column].sort((c,f)=>c-f);return l[1]>l[0]&&
u[1]>u[0]&&e({zoom:xo([...l,...u])}),!0}}}function ni(t,e){let{panel:n}=t,[o,r]=[null,!1],s=gf(t,e),a=c=>{let f=n.getBoundingClientRect(),
d=c.target.closest(".heads")?t.top-1:c.clientY-f.top;return[c.clientX-f.left,d]},i=c=>mf(t.scene,t,...a(c)),l=(c,f,d)=>{
o=c,t.scene.hover(c),Js(t.scene,c,f,d)},u=c=>{let f=n.getBoundingClientRect(),[d,,h]=t.scene.window;l(c,f.left+t.left+(c.
column-h+1)*t.cell.width,f.top+t.top+(c.row-d+1)*t.cell.height)};n.addEventListener("pointerdown",c=>{r=!1,s.down(c,i(c),
...a(c))}),n.addEventListener("pointermove",c=>{s.move(...a(c)),l(i(c),c.clientX,c.clientY)}),n.addEventListener("pointe\
rup",c=>{r=s.up(i(c))}),n.addEventListener("pointerleave",c=>{s.up(null),c.pointerType!=="touch"&&l(null)}),n.addEventListener(
"blur",()=>l(null)),n.addEventListener("click",c=>{let f=i(c);f&&!r&&e(Mn(t.scene,f)),c.pointerType==="touch"&&l(f,c.clientX,
c.clientY)}),n.addEventListener("dblclick",()=>e({zoom:""})),n.addEventListener("keydown",c=>{if(c.key==="Escape"&&o)l(null);else if(c.
key==="Enter"&&o)e(Mn(t.scene,o));else if(ei[c.key]&&!c.altKey)u(pf(t.scene,o||{},ei[c.key]));else return;c.preventDefault(),
c.stopPropagation()})}var oi=["#008df9","#e20134","#009f81","#c78a00","#8400cd","#ff6e3a","#00b3a0","#9f0162","#5b7f00","#ff5aaf","#0050a0","#\
a40122","#5b6672"],J={row:20,smallest:11,printed:3,gap:190,label:150,head:26,band:16,faintest:.04,most:300,apart:1.8,square:7};
function Nn(t){return ut(t,"head").length>0}function Y(t,e){let n=ut(t,"head"),o=t.channels.get(e.scope);return n.find(([
r])=>r===e.block)||n.find(([r,s])=>s.of===o.name||r===o.blockName)||n[0]}function $t(t,e){let[n,o]=Y(t,e);return o.channels.
map(r=>G(t,n,r.name))}function br(t){return t.name==="residual"}function rt(t,e){let[,n]=Y(t,e),o=e.heads.split(".").filter(
Boolean).map(Number).filter(a=>a<n.channels.length);if(o.length)return o;let r=n.channels.map((a,i)=>i),s=r.filter(a=>!br(
n.channels[a]));return s.length?s:r}function On(t,e){let{data:n,selection:o,axes:r,hidden:s}=t,a=n.matrix(o.run,e,o.layer);
return Ke(r,o.words?me(r,a,n.words.length):a,s,!1)}function wf(t,e,n){let o=rt(t.data,t.selection);if(n)return o.length===
1&&o[0]===e?"":String(e);let r=o.includes(e)?o.filter(s=>s!==e):[...o,e].sort((s,a)=>s-a);return r.length?r.join("."):String(
e)}function bf(t,e){let{data:n,selection:o}=t,[,r]=Y(n,o),s=rt(n,o),a=r.channels.map((l,u)=>{let c=s.includes(u),f=p("bu\
tton",{type:"button",className:"head",textContent:l.name.replace(/^head /,""),title:`${l.name}: click shows or hides, sh\
ift-click shows it alone`});return f.setAttribute("aria-pressed",String(c)),r.signed||f.style.setProperty("--head",Sn(u)),
f.addEventListener("click",d=>e({heads:wf(t,u,d.shiftKey)})),f}),i=p("button",{type:"button",textContent:"all"});return i.
addEventListener("click",()=>e({heads:""})),p("div",{className:"toggles head-choice"},[xr(t,e),p("span",{className:"note",
textContent:"heads"}),...a,i,...xf(t,e)])}function xf(t,e){let{segments:n}=t.data;if(n.length<2)return[];let r=n.flatMap(
([a],i)=>n.map(([l],u)=>[`${i}-${u}`,`${l} → ${a}`])).filter(([a])=>wo(t.data,a)).map(([a,i])=>D(a,i)),s=p("select",{},
[D("","all lines"),...r]);return s.autocomplete="off",s.value=t.selection.between,s.setAttribute("aria-label","lines bet\
ween segments"),s.addEventListener("change",()=>e({between:s.value})),[s]}function En({data:t,selection:e,axes:n}){let[o,
r]=e.between.split("-").map(Number),s=n.columns.map(({position:i})=>Gn(t,i)),a=e.between==="";return{row:i=>a||s[n.own[i]]===
o,column:i=>a||s[i]===r}}function xr(t,e){let{data:n,selection:o}=t,[r]=Y(n,o),s=p("select",{},ut(n,"head").map(([a,i])=>D(
a,i.title)));return s.autocomplete="off",s.value=r,s.setAttribute("aria-label","maps by head"),s.addEventListener("chang\
e",()=>e({block:s.value})),s}var yf=en();function Ln(t){return yf(jt(t,yr(t),0),()=>kf(t))}function kf(t){let{data:e,selection:n,
axes:o}=t,r=$t(e,n),s=En(t),a=c=>c.map((f,d)=>s.row(Math.floor(d/o.nColumns))&&s.column(d%o.nColumns)?f:NaN),i=rt(e,n).map(
c=>[c,a(On(t,r[c]))]),l=Math.max(...i.map(([,c])=>E(c)))||1,u=[];for(let[c,f]of i)f.forEach((d,h)=>{let m=d/l;Math.abs(m)>=
J.faintest&&u.push([Math.floor(h/o.nColumns),h%o.nColumns,m,c])});return{limit:l,lines:u.sort((c,f)=>Math.abs(c[2])-Math.
abs(f[2]))}}function yr({selection:t}){return["run","layer","heads","between","block","words","hide",...t.block?[]:["sco\
pe"]]}function Sn(t){return oi[t%oi.length]}function ri({data:t,selection:e,palette:n}){let{signed:o}=Y(t,e)[1];return([
,,r,s])=>o?n[r<0?"loss":"gain"]:Sn(s)}function kr(t,e,n,o){let{selection:r,row:s,column:a}=t,i=ri(t),l=n||(r.read==="row"?
{row:s}:{column:a}),u=([d,h])=>(l.row===void 0||l.row===d)&&(l.column===void 0||l.column===h),[c,f]=[e.length-J.most,rt(
t.data,r)];for(let d of[!1,!0])for(let[h,m]of e.entries()){if(u(m)!==d||!d&&h<c)continue;m[4]=(f.indexOf(m[3])-(f.length-
1)/2)*J.apart;let g=Math.abs(m[2]);d?o(m,i(m),Math.min(1,.15+g),2):o(m,i(m),.3*g,1)}}function $r(t,[e,n,,,o=0]){let r=Math.
max(-t.height/2,Math.min(t.height/2,o)),[s,a]=[t.y(e)+r,t.yColumn(n)+r];return[t.left,s,t.left+70,s,t.right-70,a,t.right,
a]}function Cn(t,e,n,o,r){let s=e.getContext("2d");s.setTransform(t.ratio,0,0,t.ratio,0,0),s.clearRect(0,0,e.width,e.height),
kr(t,o,r,(a,i,l,u)=>{let[c,f,...d]=$r(n,a);Object.assign(s,{globalAlpha:l,strokeStyle:i,lineWidth:u}),s.beginPath(),s.moveTo(
c,f),s.bezierCurveTo(...d),s.stroke()})}function vr(t,e){let[n,o]=e.size;return Nt(p("canvas",{width:Math.round(n*t.ratio),
height:Math.round(o*t.ratio)}),0,0,n,o)}function Mr(t,e,n){let{axes:o,palette:r}=t,s=_(t),a=En(t),i=Math.min(13,Math.max(
P.smallest,n)),l=_t(n),u=e.left-26-(t.data.segments.length?J.band:0),c=(m,g,b,x,y)=>O(H(m,i,u),g,b+i*.35,{"text-anchor":x,
"font-size":i,fill:y?r.ink:r.grey,opacity:y?1:.5,class:"line-token"}),f=(m,g,b,x)=>O(m,g,b+3.5,{"text-anchor":x,"font-si\
ze":9,fill:r.grey}),d=o.rows.map((m,g)=>({...m,row:g})).filter(({row:m})=>Xt(m,l,t.row)),h=o.columns.map((m,g)=>({...m,column:g})).
filter(({column:m})=>Xt(m,l,t.column));return[...d.map(({position:m,row:g})=>({target:{row:g},node:c(s[o.own[g]],e.left-
26,e.y(g),"end",a.row(g)),number:f(te(t.data,m),e.left-5,e.y(g),"end")})),...h.map(({position:m,column:g})=>({target:{column:g},
node:c(s[g],e.right+26,e.yColumn(g),"start",a.column(g)),number:f(te(t.data,m),e.right+5,e.yColumn(g),"start")}))]}function Cr(t,e){
let{data:n,axes:o,palette:r}=t,s=o.columns.map(({position:a})=>Gn(n,a));return n.segments.flatMap(([a],i)=>{if(!s.includes(
i))return[];let[l,u]=[e.yColumn(s.indexOf(i))-e.height/2+1,e.yColumn(s.lastIndexOf(i))+e.height/2-1],c=d=>O(H(a,11,u-l),
0,0,{"text-anchor":"middle","font-size":11,fill:r.grey,class:"segment",transform:`translate(${d} ${(l+u)/2}) rotate(-90)`}),
f=d=>j(d,l,2,u-l,r.grey);return[f(J.band-2),c(J.band-6),f(e.size[0]-J.band),c(e.size[0]-2)]})}function Nr(t,e){let{axes:n}=t,
o=Math.max(t.room?J.printed:J.smallest,Math.min(J.row,(t.room?t.room-60:1400)/n.nColumns)),r=Math.min(J.label,Math.max(70,
(e-90)/3)),s=Math.min(e-r,r+Math.max(J.gap,Math.min(520,.55*e))),a=c=>J.head+(c+.5)*o,i=Math.max(..._(t).map(c=>R(c.slice(
0,60),Math.min(13,Math.max(P.smallest,o))))),l=s+32+Math.min(i,r-26),u=t.room?0:rt(t.data,t.selection).length*(J.square+
1)+8;return{height:o,left:r,right:s,squares:l,yColumn:a,y:c=>a(n.own[c]),size:[s+r+u,J.head+n.nColumns*o+8]}}function Or(t,e){
let n={"font-size":11,fill:t.palette.grey},o=(r,s)=>R(r,11)<=e.left?r:s;return[O(o("to (destination, query)","to (query)"),
e.left,14,{...n,"text-anchor":"end"}),O(o("from (source, key)","from (key)"),e.right,14,n)]}function $f(t,e,n,o){let r=k(
"svg",{width:e.size[0],height:e.size[1]},[...Or(t,e),...Cr(t,e),...n.flatMap(({node:s,number:a})=>[s,a])]);for(let{node:s,
target:a}of n)s.addEventListener("click",()=>o(Mn(t,a)));return r}function vf(t,e,{lines:n}){let{selection:o,row:r,column:s}=t,
a=ri(t),i=rt(t.data,o),l=Math.min(J.square,e.height-2);return n.filter(([u,c])=>o.read==="row"?u===r:c===s).map(u=>{let[
c,f]=[o.read==="row"?e.yColumn(u[1]):e.y(u[0]),e.squares+i.indexOf(u[3])*(l+1)],d=j(f,c-l/2,l,l,a(u));return d.setAttribute(
"fill-opacity",Math.min(1,.1+.9*Math.abs(u[2])).toFixed(2)),d})}function Er(t,e){for(let{node:n,target:o}of e)n.setAttribute(
"font-weight",o.row===t.row||o.column===t.column?700:400)}function Lr({data:t,selection:e},n){return`Width and strength \
of a line: ${Y(t,e)[1].unit}, up to ${Z(n,!1)}; none below ${K(J.faintest)} of that.`}var Sr=[["gain","positive"],["loss",
"negative"]];function Mf({data:t,selection:e,palette:n}){if(!Y(t,e)[1].signed)return[];let o=r=>{let s=p("i",{className:"\
swatch"});return s.style.backgroundColor=n[r],s};return[p("p",{className:"note signs"},Sr.map(([r,s])=>p("span",{},[o(r),
` ${s}`])))]}function si(t,e,n){let o=Nr(t,n),{limit:r,lines:s}=Ln(t),a=vr(t,o),i=Mr(t,o,o.height),l=$f(t,o,i,e),u=k("g",
{class:"head-squares"});l.append(u);let c=p("div",{className:"lines"},[a,l]),f=`${Lr(t,r)} Drawn: the strongest ${J.most}\
 and all of the selected token, whose squares are its heads. Point at a token for its lines, click to select it.`,d=h=>{
Er(h,i),u.replaceChildren(...vf(h,o,{lines:s}));for(let{node:m,target:g}of i)m.onpointerenter=()=>h.hover(g);l.onpointerleave=
()=>h.hover(null),h.marked.push(m=>Cn(h,a,o,s,m)),Cn(h,a,o,s,null)};return{nodes:[bf(t,e),...Mf(t),c,p("p",{className:"n\
ote",textContent:f})],update:d}}var Cf=3e3;function Nf(t,e,n){if(n.length>Cf){let r=vr(t,e);return Cn(t,r,e,n,null),[k("image",{x:0,y:0,width:e.size[0],
height:e.size[1],href:r.toDataURL("image/png")})]}let o=[];return kr(t,n,null,(r,s,a,i)=>{let[l,u,...c]=$r(e,r);o.push(k(
"path",{d:`M${l} ${u}C${c.join(" ")}`,fill:"none",stroke:s,"stroke-opacity":a.toFixed(3),"stroke-width":i}))}),o}function Of({
data:t,selection:e,palette:n}){let[,o]=Y(t,e);return o.signed?Sr.map(([r,s])=>[n[r],s]):rt(t,e).map(r=>[Sn(r),o.channels[r].
name])}function Ef(t,e){let n=[],[o,r]=[0,9];for(let[s,a]of Of(t)){let i=15+R(a,11);o+i>e&&([o,r]=[0,r+15]),n.push(j(o,r-
8,10,8,s),O(a,o+14,r,{"font-size":11,fill:t.palette.ink})),o+=i+14}return{nodes:n,height:r+14}}function ai(t,e){let n=Ef(
t,e),o=Nr(t,e),r=Mr(t,o,o.height);Er(t,r);let s=[...Nf(t,o,Ln(t).lines),...Or(t,o),...Cr(t,o),...r.flatMap(({node:i,number:l})=>[
i,l])];return{groups:[{x:0,y:0,pictures:[],nodes:n.nodes},{x:0,y:n.height,pictures:[],nodes:s}],height:n.height+o.size[1]}}
function Lf(t){let{data:e,selection:n,axes:o,row:r,column:s}=t,[a,i]=[lt(t,o.own[r]),lt(t,s)];if(!o.reaches(r,s))return Ne(
a,i);let[,l]=Y(e,n),u=$t(e,n),c=b=>(n.words?On(t,b):e.matrix(n.run,b,n.layer))[r*o.nColumns+s],d=rt(e,n).map(b=>({name:l.
channels[b].name,value:t.hidden.has(s)?NaN:c(u[b])})).filter(({value:b})=>Number.isFinite(b)).sort((b,x)=>Math.abs(x.value)-
Math.abs(b.value));if(!d.length)return`There is no number here of the ${At(l,a,i)}.`;let[{name:h,value:m}]=d,g=d.length>
1?` has the largest ${l.short} of the ${d.length} shown`:`: ${l.short}`;return`Layer ${n.layer}, from ${i} to ${a}: ${h}${g}${d.
length>1?":":""} ${l.signed?S(m,!1):T(m)}.`}function Sf({data:t,selection:e}){if(e.between==="")return"";let[n,o]=e.between.
split("-").map(r=>t.segments[Number(r)][0]);return` Drawn: lines from ${o} to ${n} only.`}function ii(t){let{data:e,selection:n}=t,
[o,r]=Y(e,n),s=rt(e,n),a=s.length<r.channels.length?s.map(i=>r.channels[i].name).join(", "):"all heads";return{headline:Lf(
t),meaning:"A line joins the destination (left) and the source (right) of a cell of a head's map.",further:`A cell: ${r.
meaning}.`,place:`layer ${n.layer}`,shown:`${r.title}, ${a}`,remark:"",note:`${Lr(t,Ln(t).limit)} Those of ${lt(t,U(t))}\
 stand out.${Sf(t)}`,exact:r.exact,method:"",file:[`layer${n.layer}`,`lines-${o}`.slice(0,60),n.heads?`heads${n.heads}`:
"all-heads",...n.between?[`segments${n.between}`]:[]]}}function Ar(t,e,n,o={row:r=>!0,column:r=>!0}){let{data:r,selection:s,
axes:a}=t,[,i]=Y(r,s),l=$t(r,s),u=_(t),c=function*(){for(let d of n){let h=e.map(m=>On({...t,selection:{...s,layer:d}},l[m]));
for(let[m,g,b]of Qo(t))o.row(m)&&o.column(g)&&(yield[d,...Jo(t,u,m,g),...h.map(x=>x[b])])}};return{head:["layer",...Te,...e.
map(d=>`${i.channels[d].name} ${i.short}`)],lines:c,count:n.length*a.nRows*a.nColumns}}function li(t){return Ar(t,rt(t.data,
t.selection),[t.selection.layer],En(t))}var Rr=5;function wt(t,e,n,o,r){return k("rect",{x:t-.75,y:e-.75,width:n+1.5,height:o+1.5,fill:"none",stroke:r,"stroke-w\
idth":1.25})}function ci(t,e,n,o){let r={left:[[0,0],[6,-4],[6,4]],up:[[0,0],[-4,6],[4,6]]}[n];return k("polygon",{points:r.
map(([s,a])=>`${t+s},${e+a}`).join(" "),fill:o})}function Tr(t,e,n,o){let[r,s]=t.window;if(n<r||n>s)return[];let a=e.top+
(n-r)*e.cell.height;if(e.cell.height>=Rr)return[wt(e.left,a,e.across,e.cell.height,o)];let i=a+e.cell.height/2;return[ci(
e.left+e.across+1,i,"left",o)]}function fe(t,e,n,o){let[,,r,s]=t.window;if(n<r||n>s)return[];let a=e.left+(n-r)*e.cell.width;
if(e.cell.width>=Rr)return[wt(a,e.top,e.cell.width,e.down,o)];let i=a+e.cell.width/2;return[ci(i,e.top+e.down+1,"up",o)]}
function Af(t,e,n){let{row:o,column:r,selection:s,window:[a,i,l,u]}=t;if(o<a||o>i||r<l||r>u)return[];let{width:c,height:f}=e.
cell,[d,h]=[e.left+(r-l)*c,e.top+(o-a)*f];return Math.min(c,f)>=Rr?[wt(d+1.5,h+1.5,c-3,f-3,n)]:s.read==="row"?fe(t,e,r,n):
Tr(t,e,o,n)}function zr(t,e,n){let{palette:o,selection:r,row:s,column:a}=t,l=[...r.read==="row"?Tr(t,e,s,o.mark):fe(t,e,
a,o.mark),...Af(t,e,o.mark)];return n&&n.row!==void 0&&l.push(...Tr(t,e,n.row,o.read)),n&&n.column!==void 0&&l.push(...fe(
t,e,n.column,o.read)),l}var fi=["run","refRun","words","panel","zoom","root"];function An(t,e){return{cells:e.cells,nColumns:t.axes.nColumns,window:t.
window,scale:e.scale,limit:e.limit,root:t.selection.root}}function Tf(t,e,n){let o=e.scale==="signed",[r,s]=t.window,a=t.
maps.filter(l=>l.columns[n]&&l.role==="difference"==(e.role==="difference")),i=n==="own"&&!o?1:Math.max(...a.map(l=>E(l.
columns[n])));return{cells:e.columns[n],nColumns:1,window:[r,s,0,0],scale:o?"signed":"bias",limit:i,root:0}}function Rf(t,e){
let n=t.strips.filter(s=>e.map.columns[s]),o={y:e.top,height:e.down};return[{name:"",picture:An(t,e.map),x:e.left,width:e.
across,...o},...n.map((s,a)=>({name:s,picture:Tf(t,e.map,s),width:q.width,...o,x:e.left+e.across+q.gap+a*(q.width+q.gap)}))]}
function hi(t,e,n,o,r){let s=fn(t,e,n);return dt(An(s,s.map),t.palette,o*t.ratio,r*t.ratio)}function ui(t){return JSON.stringify(
t.map(({map:e,pictures:n,cell:o,top:r,left:s,across:a,width:i,x:l,y:u,height:c})=>[e.role,e.scale,e.labels,n.map(({name:f})=>f),
o,r,s,a,i,l,u,c]))}function _r(t,e){let n=ja(t,e);for(let o of n.frames)o.pictures=Rf(t,o);return n}function zf(t,e,n){let[
o,r,s]=[k("g"),k("g",{class:"marks"}),k("g")],[a,i]=[lr(t,e),[o,r]].map(d=>k("svg",{width:e.width,height:e.height,"aria-\
hidden":"true"},d)),l=e.pictures.map(()=>p("canvas")),u=e.pictures.map(({name:d,x:h,width:m},g)=>Nt(p("div",{className:d?
"beside":"cells"},[l[g]]),h,e.top,m,e.down)),c=Nt(p("div",{className:"panel",tabIndex:0},[_f(e,[...sr(t,e),s]),...u,a,i]),
e.x,e.y,e.width,e.height);return c.setAttribute("role","application"),c.dataset.role=e.map.role,t.maps.length>1&&!t.beside&&
c.append(jf(t,e,n)),Object.assign(e,{panel:c,marks:r,named:s,fill:(d,{map:h,notes:m,pictures:g})=>{Object.assign(e,{map:h,
notes:m,pictures:g}),g.forEach(({picture:b,width:x},y)=>dt(b,d.palette,x*d.ratio,e.down*d.ratio,l[y])),o.replaceChildren(
...cr(d,e)),c.setAttribute("aria-label",`${Ct(d,h)}. Arrow keys read cells, Enter selects.`)}})}function _f({top:t,width:e},n){
let o=t-Ot-5,r=p("div",{className:"heads"},[k("svg",{width:e,height:o,viewBox:`0 ${Ot} ${e} ${o}`,"aria-hidden":"true"},
n)]);return r.style.marginTop=`${Ot}px`,r}function jf(t,e,n){let o=t.selection.panel===e.map.role,r=p("button",{type:"bu\
tton",className:"enlarge",textContent:o?"⤡":"⤢",title:o?"show all maps":"show this map alone"});return r.setAttribute(
"aria-label",r.title),r.addEventListener("click",s=>{s.stopPropagation(),n({panel:o?"":e.map.role})}),r.addEventListener(
"pointerdown",s=>s.stopPropagation()),r}function Ff(t,e){let n=o=>{for(let r of e)r.marks.replaceChildren(...r.selected,
...zr(t,r,o))};for(let o of e)o.scene=t,o.selected=o.rows.mark(t.row),o.named.replaceChildren(...o.columns.mark(t.column));
t.marked.push(n),n(null)}function jr(t,e,n){let o=_r(t,n),r=ui(o.frames),s=p("div",{className:"plot"},[k("svg",{width:0,
height:0,"aria-hidden":"true"},[ue(t.palette)])]);s.style.height=`${o.height}px`;for(let l of o.frames)s.append(zf(t,l,e).
panel),ni(l,e);let a="",i=l=>{let u=jt(l,qt,n)+l.windowRoom;if(u!==a){let{frames:c}=a===""?o:_r(l,n);if(a!==""&&ui(c)!==
r)return!1;c.forEach((f,d)=>o.frames[d].fill(l,f)),a=u}return Ff(l,o.frames),!0};return{nodes:t.beside?[s]:[...Wf(t,e),s],
update:i}}var If={before:"before",after:"after",difference:"change"};function Wf({maps:t,selection:e},n){if(!e.panel||t.
length<2)return[];let o=[...t.map(({role:r})=>[r,If[r]]),["","side by side"]];return[p("div",{className:"toggles panels"},
o.map(([r,s])=>{let a=p("button",{type:"button",textContent:s});return a.setAttribute("aria-pressed",String(r===e.panel)),
a.addEventListener("click",()=>n({panel:r})),a}))]}function di(t,e){let n=_r(t,e);return{groups:n.frames.map(r=>({x:r.x,
y:r.y,pictures:r.pictures,nodes:[...sr(t,r),...lr(t,r),...r.rows.mark(t.row),...r.columns.mark(t.column),...cr(t,r),k("g",
{class:"marks"},zr(t,r,null))]})),width:n.width,height:n.height}}var Pf="Rows: layers, columns: heads. Each small map has its own scale.",X={label:26,head:18,gap:3,largest:110,smallest:22,
pale:.3};function mi({data:t,selection:e}){return Dt(Y(t,e)[1])?e.cells:"none"}function Ir(t){let{data:e,selection:n}=t,
{channels:o}=Y(e,n)[1],r=$t(e,n),s=r.filter((a,i)=>!br(o[i]));return mi(t)==="others"&&s.length?s:r}function pi(t){let e=Ir(
t).length<$t(t.data,t.selection).length;return Pf+(e?" The residual connection contributes to the token itself only: it \
has no column.":"")}function Tn({data:t,selection:e},n){return e.heads===""||rt(t,e).includes(t.channels.get(n).index)}function gi({
selection:t}){return["run","cells","range","root","words","hide","block",...t.block?[]:["scope"]]}function Bf(t,e,n,o,r){
let{data:s}=t,a=`layer ${o}, ${s.channels.get(n).name}`,i=p("button",{type:"button",className:"grid-cell",title:a});return i.
setAttribute("aria-label",a),Object.assign(i.style,{width:`${r}px`,height:`${r}px`}),i.addEventListener("click",()=>e({layer:o,
scope:n,ref:"",view:"maps"})),i}function wi(t,e){return Math.max(X.smallest,Math.min(X.largest,Math.floor((e-X.label-8)/
t)-X.gap))}function Fr(t,e){return t.channels.get(e).name.replace(/^head /,"")}function bi(t,e,n){let{data:o}=t,r=Ir(t),
s=wi(r.length,n),a=o.layers.map(h=>r.map(m=>({layer:h,key:m,button:Bf(t,e,m,h,s)}))),i=a.map(h=>p("div",{className:"grid\
-line"},[p("span",{className:"grid-layer",textContent:h[0].layer}),...h.map(({button:m})=>m)])),l=r.map(h=>{let m=p("spa\
n",{className:"grid-head",textContent:Fr(o,h)});return m.style.width=`${s}px`,m}),u=p("div",{className:"grid-line grid-h\
eads"},[p("span",{className:"grid-layer"}),...l]),c=a.flat();ti(t,c.map(({layer:h,key:m,button:g})=>()=>g.append(hi(t,h,
m,s,s))),()=>u.isConnected);let f=h=>{l.forEach((m,g)=>m.classList.toggle("chosen",h.selection.heads!==""&&Tn(h,r[g])));
for(let{button:m,key:g,layer:b}of c)m.classList.toggle("current",b===h.selection.layer&&(h.selection.heads===""?g===h.selection.
scope:Tn(h,g))),m.style.opacity=Tn(h,g)?"":String(X.pale)};return{nodes:[...ut(o,"head").length>1?[p("div",{className:"t\
oggles"},[xr(t,e)])]:[],p("p",{className:"note",textContent:`${pi(t)} A click opens a map.`}),p("div",{className:"grid"},
[u,...i])],update:f}}function xi(t,e){let{data:n,palette:o}=t,r=Ir(t),s=Math.min(wi(r.length,e)+X.gap,(e-X.label)/r.length,
t.room?(t.room-X.head)/n.layers.length:1/0),[a,i]=[s-X.gap,_t(s)],l=n.layers.flatMap((g,b)=>r.map((x,y)=>{let M=fn(t,g,x);
return{picture:An(M,M.map),x:X.label+y*s,y:X.head+b*s,width:a,height:a}})),u={"font-size":10,fill:o.grey},c=n.layers.flatMap(
(g,b)=>b%i?[]:[O(g,X.label-6,X.head+b*s+a/2+4,{...u,"text-anchor":"end"})]),f=Math.max(...r.map(g=>R(Fr(n,g),10)))>s,d=r.
map((g,b)=>{let x=X.label+b*s+a/2;return f&&b%i?O("",x,0):O(H(Fr(n,g),10,Math.max(s,24)),x,X.head-5,{...u,"text-anchor":"\
middle"})}),h=l.map(({x:g,y:b})=>k("rect",{x:g,y:b,width:a,height:a,fill:"none",stroke:o.line,"stroke-width":.5})),m=r.flatMap(
(g,b)=>Tn(t,g)?[]:[k("rect",{x:X.label+b*s,y:X.head,width:a,height:n.layers.length*s,fill:o.paper,"fill-opacity":1-X.pale})]);
return{groups:[{x:0,y:0,pictures:l,nodes:[...c,...d,...h,...m]}],height:X.head+n.layers.length*s}}function yi(t){let{data:e,
selection:n}=t,[o,r]=Y(e,n),s=mi(t);return{headline:`Every layer and head: ${r.title}.`,meaning:"Each small map is a hea\
d of a layer.",further:`A cell: ${To(r,s)}.`,place:"all layers",shown:`${r.title}, all heads`,remark:"",note:pi(t),exact:r.
exact,method:"",file:["all-layers",`heads-${o}`.slice(0,60),s]}}function ki(t){let e=Y(t.data,t.selection)[1].channels.map(
(n,o)=>o);return Ar(t,e,t.data.layers)}var I={left:34,gap:26,smallest:4,largest:20,few:96,lowest:330,wide:640,around:320,head:20,enough:330,legend:190,banded:7,
least:1.5},Zt={width:13,gap:12},Ft={most:6,each:15,radius:6,least:.03},he={widest:7,thinnest:1,named:3,sag:.16,apart:9,reach:12};
function Ni(t){return ht(t)||W(t)&&t.layered&&t.layers.length>1}function Oi({data:t,selection:e}){let n=["run","block","\
words","hide","zoom","range","root"];return ht(t)?n:[...n,"scope","ref","refRun","read","cells",e.read==="row"?"to":"fro\
m"]}function Hf(t,e,n){let o=t.room?(t.room-150-(n?80:0))*e/(e+n):it?t.framed*e/(e+n):Math.max(I.lowest,window.innerHeight-
I.around);return Math.max(I.smallest,Math.min(e>13?I.largest:I.few,o/e))}function Ei(t){let[e,n]=Object.entries(t.data.runs[t.
selection.run].blocks).find(([,{exact:o,tracks:r,axis:s}])=>o&&s==="scope"&&r&&r.length)||["",null];return n?n.tracks[0].
columns.map(o=>({...o,name:e,title:o.ref?"change":n.tracks[0].title,values:n.tracks[0].values[o.channel]})):[]}function Li(t,e){
let{window:[,,n,o]}=t,{strip:r,heads:s,words:a,neurons:i}=fa(t),l=R(a,11),u=Ei(t),c=I.left+(u.length?u.length*Zt.width+Zt.
gap:0),f=c+(r?q.gap+q.width:0)+8,d=s?Math.max(6,Math.min(I.head,e/3/s)):0,h=i?I.gap+Ft.most*Ft.each:0,m=(s?I.gap+Math.max(
l,d*s):0)+h,g=m>0&&e-f-m>=I.enough,b=e-f-(g?m:0),x=Math.min(Math.max(kt.largest,I.wide/(o-n+1)),b/(o-n+1));return{changes:u,
heads:s,named:l,left:c,beyond:f,across:d,dots:h,further:m,beside:g,wide:x}}function Si(t,e){let{window:[,,n,o]}=t,r=ha(t),
s=r.rows.length,{changes:a,heads:i,named:l,left:u,beyond:c,across:f,dots:d,further:h,beside:m,wide:g}=Li(t,e),b=t.data.layers.
length&&r.block?s-1:s,x=h>0&&!m,y=Hf(t,s,x?b:0),M={width:g,height:y},$={labels:_(t)},C=8+yn(t,nr(t,$),_e(t),Gt(M.width)),
N={left:u,top:C,cell:M,across:M.width*(o-n+1),down:y*s,map:$},A=C+N.down+(r.before?48:34),z=m?f:Math.min(I.head,(e-I.left-
d-8)/Math.max(1,i)),L={left:m?N.across+c-8+I.gap:I.left,top:m?C:A+36,cell:{width:z,height:y},across:z*i,down:y*b},B=L.left+
Math.max(l,L.across),Q=d?{...L,left:B+(i?I.gap:0),across:Ft.most*Ft.each}:null;return{width:Math.max(N.left+N.across+c-u,
...h?[B,Q?Q.left+Q.across:0]:[]),stream:r,lines:b,frame:N,heads:i,headFrame:L,neuronFrame:Q,beside:m,changes:a,strip:r.strip?
N.left+N.across+q.gap:null,height:x?L.top+L.down+8:A}}function Ie({frame:t}){return t.cell.width>=I.banded}function Ai(t){
return ba(t,Li(t,t.width).wide>=I.banded)}function Ti(t,e){let{stream:n,lines:o,frame:r,headFrame:s,heads:a,strip:i,changes:l}=e,
{root:u}=t.selection,[,,c,f]=t.window,d=(m,g,b,x)=>({root:u,...x,cells:m,nColumns:g,window:[0,b-1,0,g-1]}),h=Ie(e)?[]:[{
picture:{root:u,scale:n.scale,cells:n.cells,limit:n.limit,nColumns:t.axes.nColumns,window:[0,n.rows.length-1,c,f]},x:r.left,
y:r.top,width:r.across,height:r.down}];if(l.length){let m=new Float32Array(o*l.length).fill(NaN);l.forEach(({values:x},y)=>t.
data.layers.forEach((M,$)=>{m[n.layers.indexOf(M)*l.length+y]=x[$]===null?NaN:x[$]}));let[g,b]=[l.length*Zt.width,r.cell.
height*o];h.push({picture:d(m,l.length,o,{scale:"contribution",root:1,limit:E(m)}),x:I.left,y:r.top,width:g,height:b})}if(i!==
null&&h.push({picture:d(n.strip.values,1,n.rows.length,n.strip),x:i,y:r.top,width:q.width,height:r.down}),a){let{values:m,
least:g,limit:b,scale:x}=n.heads,y=Float32Array.from(m.flat(),M=>x==="signed"?M:Math.max(0,M-g));h.push({picture:d(y,a,o,
{scale:x,limit:b-g}),x:s.left,y:s.top,width:s.across,height:s.down})}return h}var $i=.25;function Ri({palette:t,selection:e},n,o,r){
return nt(t,Math.sign(n)*($i+(1-$i)*Bt(n,o,e.root)),1,r)}function Df(t,e){if(!Ie(e))return[];let{frame:n,stream:{rows:o,
before:r,ends:s,limit:a,scale:i}}=e,{palette:l,selection:u}=t,[,,c,f]=t.window,d=m=>a>0?Bt(m,a,u.root)*(n.cell.width-1):
0,h=[];return o.forEach((m,g)=>{for(let b=c;b<=f;b++){let x=m[b],y=r?Math.min(x,r[g][b]):x,[M,$]=[d(y),d(r?Math.max(x,r[g][b]):
x)];if(!($>=I.least))continue;let C=n.left+(b-c+.5)*n.cell.width,N=(z,L)=>j(C-z/2,n.top+g*n.cell.height,z,n.cell.height,
L),A=[...r?[N($,l[x>y?"gain":"loss"])]:[],N(M,Ri(t,y,a,i).hex)];if(s){let[z,L]=s.map(Qt=>Qt[g][b]);z<=0&&L>=0&&Object.entries(
{fill:l.paper,stroke:l[x<0?"loss":"gain"]}).forEach(([Qt,Pl])=>A[0].setAttribute(Qt,Pl));let[B,Q]=[z,L].map(Qt=>C+(Math.
sign(Qt)===Math.sign(x)?d(Qt)/2:0)),st=n.top+(g+.5)*n.cell.height;A.push(k("path",{d:`M${B} ${st}H${Q}M${B} ${st-3}v6M${Q}\
 ${st-3}v6`,stroke:l.ink,fill:"none",class:"whisker"}))}A[0].dataset.share=`${g},${b}`,h.push(...A)}}),h}function qf(t,e){
let{frame:n,stream:{block:o,limit:r}}=e;if(!o)return{reach:[],drawn:[]};let{palette:s}=t,[,,a,i]=t.window,l=h=>n.left+(h-
a+.5)*n.cell.width,u=[],c=new Map,f=[],d=ga(t,o,r).filter(({from:h,to:m})=>Math.min(h,m)>=a&&Math.max(h,m)<=i).map((h,m)=>{
let g=[h.layer,h.from,h.to].join(),b=c.get(g)??0;c.set(g,b+1);let[x,y]=[l(h.from),l(h.to)],M=n.top+(h.layer+.5)*n.cell.height,
$=s[h.share<0?"loss":"gain"],C=Math.max(he.thinnest,he.widest*Math.min(1,Math.abs(h.share)/r)),N=n.top+n.down-C/2-M,A=Math.
min(M+n.cell.height+2*Math.min(60,he.sag*Math.abs(y-x))+b*he.apart,M+N+Math.sqrt(Math.max(0,N*(N-n.cell.height)))),z=`M${x}\
 ${M}Q${(x+y)/2} ${A} ${y} ${M+n.cell.height}`,L=k("path",{d:z,fill:"none",stroke:$,"stroke-width":C,"stroke-opacity":.8,
"stroke-linecap":"round",class:"arc"});return L.dataset.arc=String(m),f.push(Object.assign(k("path",{d:z,fill:"none",stroke:"\
transparent","stroke-width":Math.max(he.reach,C)}),{arc:h})),u.length<he.named&&u.push(Vf(t,n,h,(x+y)/2,(M+A+n.cell.height/
2)/2+4,$,u)),Object.assign(L,{arc:h})});return{reach:f,drawn:[...d.reverse(),...u.filter(Boolean)]}}function Vf(t,e,n,o,r,s,a){
let{layer:i,head:l,share:u}=n,c=`L${i}H${l} ${S(u,!1)}`,f=R(c,11)*ze,d=Math.max(e.left+f/2+2,Math.min(e.left+e.across-f/
2-2,o)),h=Math.min(r,e.top+e.down-4);if(a.filter(Boolean).some(({at:x})=>Math.abs(x.y-h)<13&&Math.abs(x.x-d)<(x.wide+f)/
2+4))return null;let g={"font-size":11,"font-weight":700,"text-anchor":"middle",fill:s},b=[j(d-f/2-2,h-10,f+4,13,t.palette.
paper),O(c,d,h,g)];for(let x of b)Object.assign(x,{arc:n});return Object.assign(k("g",{class:"arc-name"},b),{at:{x:d,y:h,
wide:f}})}function Uf(t,{stream:e,neuronFrame:n}){if(!n)return[];let{left:o,top:r,across:s,cell:a}=n,i=E(e.neurons.flat().
map(([,u])=>u)),l=Math.min(Ft.radius,a.height/2);return e.neurons.flatMap((u,c)=>{let f=r+(c+.5)*a.height,d=k("line",{x1:o,
x2:o+s,y1:f,y2:f,stroke:t.palette.hatch}),h=u.filter(([,m])=>Math.abs(m)>=Ft.least*i).slice(0,Ft.most).map(([m,g],b)=>{let x=k(
"circle",{cx:o+(b+.5)*Ft.each,cy:f,r:Math.max(1,l*Math.sqrt(Math.abs(g)/(i||1))),fill:t.palette[g<0?"loss":"gain"]});return Object.
assign(x,{neuron:{layer:c,neuron:m,share:g}})});return[d,...h]})}function vi(t,e,n,o,r){let{palette:s,selection:a}=t,{height:i}=e.
frame.cell,l=Math.max(1,Math.ceil(11/i)),{layers:u,names:c}=e.stream,f=u.indexOf(a.layer);return Array.from({length:r},(d,h)=>h).
flatMap(d=>{let h=d===f;if((d%l||!h&&Math.abs(d-f)<l)&&!h)return[];let g={"text-anchor":"end","font-size":11,fill:h?s.ink:
s.grey,"font-weight":h?700:400};return[O(c[d],n-5,o+(d+.5)*i+4,g)]})}function zi(t,e){let{palette:n}=t,{stream:o,frame:r,
headFrame:s,heads:a,strip:i,neuronFrame:l}=e,u={"font-size":11,fill:n.grey},c=(h,m,g,b)=>k("rect",{x:h,y:m,width:g,height:b,
fill:"none",stroke:n.line}),f=qf(t,e),d=[O("layer",0,r.top-5,u),c(r.left,r.top,r.across,r.down),...Yf(t,e),...Gf(t,e),...f.
reach,...Df(t,e),...Xf(t,e),...Kf(t,e)];if(i!==null&&d.push(bt(o.strip.name,i+q.width-2,r.top-5,u),c(i,r.top,q.width,r.down)),
a){let h=Math.max(1,Math.ceil(16/s.cell.width));d.push(O(o.heads.words,s.left,s.top-20,u),c(s.left,s.top,s.across,s.down));
for(let m=0;m<a;m+=h)d.push(O(o.heads.names[m],s.left+(m+.5)*s.cell.width,s.top-5,{...u,"text-anchor":"middle"}))}return l&&
d.push(O("largest neurons",l.left,l.top-20,u),...Uf(t,e)),[...d,...f.drawn]}function Kf(t,{frame:e,changes:n,lines:o}){if(!n.
length)return[];let r=k("rect",{x:I.left,y:e.top,width:n.length*Zt.width,height:e.cell.height*o,fill:"none",stroke:t.palette.
line}),s=n.map(({label:i,words:l},u)=>{let c=bt(i,I.left+(u+.5)*Zt.width+4,e.top-5,{"font-size":10,fill:t.palette.grey});
return c.append(k("title",{},[l])),c}),a=Math.max(...n.map(({label:i})=>R(i,10)))+12;return[r,...s,O(n[0].title,I.left,Math.
max(10,e.top-a),{"font-size":11,fill:t.palette.grey})]}function Rn(t){return ht(t.data)?U(t):t.selection.read==="row"?t.
column:t.axes.own[t.row]}function Gf(t,{frame:e}){let[,,n,o]=t.window;return Array.from({length:o-n+1},(s,a)=>n+a).filter(
s=>Bo(t,s)).map(s=>j(e.left+(s-n)*e.cell.width,e.top,e.cell.width,e.down,ir))}function Yf(t,e){let{frame:n}=e;if(!Ie(e))
return[];let[,,o,r]=t.window;return Array.from({length:r-o+1},(a,i)=>n.left+(i+.5)*n.cell.width).map(a=>k("line",{x1:a,x2:a,
y1:n.top,y2:n.top+n.down,stroke:t.palette.hatch}))}function Xf(t,{frame:e,stream:{limit:n,top:o,scale:r,before:s,unit:a,
asShare:i}}){let l=Ie({frame:e})?$n(t,{scale:r},x=>Ri(t,x,1,r)):$n(t,{scale:r}),[u,c]=[e.top+e.down+8,Math.min(I.legend,
e.across)],f={x:e.left,y:u,width:c,height:9},d=(x,y,M)=>[j(M,b,10,9,t.palette[x]),O(y,M+14,b+9,{"font-size":11,fill:t.palette.
ink})],h=t.selection.run===t.selection.refRun?"more than before":"more",m=e.across-c>190,[g,b]=m?[e.left+c+16,u]:[e.left,
u+26];return[k("defs",{},[l]),k("rect",{...f,fill:`url(#${l.id})`,stroke:t.palette.line,class:"legend"}),...ar(t,f,{limit:n,
top:o,scale:r},(x,y)=>Z(x,!!i)+(y?a:"")),...s&&Ie({frame:e})?[...d("gain",h,g),...d("loss","less",g+28+R(h,11))]:[]]}function _i(t,e,n){
let{palette:o,selection:r}=t,{stream:s,frame:a,headFrame:i,heads:l,neuronFrame:u}=e,c=s.layers.indexOf(r.layer),f=({left:g,
top:b,across:x,cell:y})=>wt(g,b+c*y.height,x,y.height,o.mark),d=[f(a),...u?[f(u)]:[],...fe(t,a,Rn(t),o.mark)];if(n&&n.column!==
void 0&&d.push(...fe(t,a,n.column,o.read)),!l)return d;let h=Vo(l,r),m=h<0?[]:[wt(i.left+h*i.cell.width,i.top+c*i.cell.height,
i.cell.width,i.cell.height,o.mark)];return[...d,f(i),...m]}function Mi(t,e,n,o){let r=o.getBoundingClientRect(),[s,a]=[n.
clientX-r.left,n.clientY-r.top],i=({left:M,top:$,across:C,down:N})=>s>=M&&s<M+C&&a>=$&&a<$+N,{stream:l,lines:u,frame:c,headFrame:f,
heads:d,strip:h,changes:m,neuronFrame:g}=t,{arc:b,neuron:x}=n.target;if(b)return b;if(x)return x;let y=({top:M,cell:$})=>({
row:Math.floor((a-M)/$.height),layer:l.layers[Math.floor((a-M)/$.height)]});return i(c)?{...y(c),column:e.window[2]+Math.
floor((s-c.left)/c.cell.width)}:h!==null&&i({...c,left:h,across:q.width})?{...y(c),strip:!0}:m.length&&i({...c,left:I.left,
across:m.length*Zt.width,down:u*c.cell.height})?{...y(c),change:Math.floor((s-I.left)/Zt.width)}:g&&i(g)?y(g):d&&i(f)?{...y(
f),head:Math.floor((s-f.left)/f.cell.width)}:null}function We({axes:t,selection:e},n){let o=t.columns[n].position,r=t.rowOf(
o);return e.read==="row"&&r>=0?{to:t.rows[r].position}:{from:o,read:"column"}}function ji({data:t,axes:e,selection:n},o){
let{position:r}=e.columns[o];return n.read==="row"?{from:r}:t.queries.includes(r)?{to:r}:{}}function Zf(t,e){let{name:n,
channel:o,ref:r}=Ei(t)[e];return{scope:G(t.data,n,o),ref:r?G(t.data,n,r):""}}function Jf(t,{layer:e,column:n,head:o,query:r,
key:s,neuron:a,change:i}){let l=t.data.layers.includes(e)?{layer:e}:{};n!==void 0&&Object.assign(l,ht(t.data)?We(t,n):ji(
t,n)),i!==void 0&&Object.assign(l,Zf(t,i)),a!==void 0?l.neuron=t.selection.neuron===a&&e===t.selection.layer?-1:a:"layer"in
l&&e!==t.selection.layer&&(l.neuron=-1);let u=r===void 0&&e===t.selection.layer&&t.selection.heads===String(o);return o!==
void 0&&(l.heads=u?"":String(o)),r!==void 0&&t.data.queries.includes(r)&&Object.assign(l,{to:r,from:s,read:"row"}),l}function Qf(t,{
before:e,ends:n,rows:o,unit:r,asShare:s,block:a,strip:i},l,u){let c=o[l][u];if(Bo(t,u))return a?"after the target's posi\
tion":"a later token: earlier ones cannot attend to it";if(Number.isNaN(c))return t.hidden.has(u)?"hidden":u===U(t)?`the\
 token itself${i?": see the column “own”":""}`:"not among these";let f=d=>a?S(d,!1)+r:s?K(d):T(d);return n?`${f(c)},\
 95 % interval ${n.map(d=>f(d[l][u])).join(" to ")}`:e&&!a?`${f(e[l][u])} → ${f(c)} (${S(c-e[l][u],s)})`:f(c)}function Ci(t,{
stream:e,changes:n},{row:o,layer:r,column:s,head:a,query:i,key:l,neuron:u,share:c,change:f,strip:d}){let{block:h,unit:m}=e,
b=ot("layer",r===null?"end":`${r}${h&&a===void 0&&f===void 0?", its input":""}`),x=M=>p("div",{textContent:S(M,!1)+m}),y=M=>Tt(
t,_(t)[t.axes.columnOf[M]],M);return i!==void 0?[ot("head",`L${r}H${a}`),ot("from",y(l)),ot("to",y(i)),x(c)]:u!==void 0?
[ot("neuron",`L${r}N${u}`),x(c)]:a!==void 0?[ot("head",`L${r}H${e.heads.names[a]}`),h?x(e.heads.values[o][a]):p("div",{textContent:`${e.
heads.words}: ${K(e.heads.values[o][a])}`})]:f!==void 0?[b,ot("",`${n[f].words}: ${ce(n[f].values[t.data.layers.indexOf(
r)]??null)}`)]:d&&!h?[b,ot("its own share",K(e.strip.values[o]))]:d?[b,...h.biases.filter(([,M])=>M===o).map(([M,,$])=>ot(
"bias",`${M} ${S($,!1)}`))]:s===void 0?[b]:[b,ot(h?"token":t.selection.read==="row"?"from":"to",Tt(t,_(t)[s],t.axes.columns[s].
position)),p("div",{textContent:Qf(t,e,o,s)})]}function th(t,e,n){let{data:o,selection:r,axes:s}=t,a=o.layers.indexOf(r.
layer),i=Rn(t),l=c=>ht(o)?We(t,c):ji(t,c),u={ArrowUp:()=>a>0&&e({layer:o.layers[a-1]}),ArrowDown:()=>a<o.layers.length-1&&
e({layer:o.layers[a+1]}),ArrowLeft:()=>i>0&&e(l(i-1)),ArrowRight:()=>i<s.nColumns-1&&e(l(i+1)),Home:()=>e({layer:o.layers[0]}),
End:()=>e({layer:o.layers[o.layers.length-1]})};!(n.key in u)||n.altKey||(n.preventDefault(),n.stopPropagation(),u[n.key]())}
function eh(t,e,n,o){t.addEventListener("pointermove",r=>{let s=o(),a=Mi(e,s,r,t),i=w("tooltip");i.hidden=!a,s.hover(a&&
a.column!==void 0?{column:a.column}:null),a&&(i.replaceChildren(...Ci(s,e,a)),ie(i,r.clientX,r.clientY))}),t.addEventListener(
"pointerleave",r=>{r.pointerType!=="touch"&&(w("tooltip").hidden=!0),o().hover(null)}),t.addEventListener("click",r=>{let s=Mi(
e,o(),r,t);r.pointerType==="touch"&&s&&(w("tooltip").hidden=!1,w("tooltip").replaceChildren(...Ci(o(),e,s)),ie(w("toolti\
p"),r.clientX,r.clientY)),s&&n(Jf(o(),s))}),t.addEventListener("keydown",r=>th(o(),n,r))}function nh(t,e,n,o){let r=Rt(t,
e.entering),s=E(r),a=_(t),i=Array.from(r,(u,c)=>{let f=t.axes.columns[c].members.map(g=>Se(t.data,g)).find(Boolean),d=f&&
t.data.runs[0].blocks[f.block]===e?"this":Number.isNaN(u)?f?"why?":"–":S(u,!1),h=`${a[c]} · position ${t.axes.columns[c].
position}: ${d}${zt(e)}`,m=qe(a[c],d,h,Number.isNaN(u)||s===0?null:nt(t.palette,u,s,"signed",t.selection.root));return m.
classList.toggle("later",Number.isNaN(u)&&d!=="this"),m.classList.toggle("cell",d==="this"),m.addEventListener("click",()=>n(
f||We(o(),c))),m}),l=p("ol",{className:"tokens shared attributed"},i);return l.setAttribute("aria-label",`token contribu\
tions to the ${e.target}`),l.tabIndex=0,l.classList.toggle("long",i.length>20),{host:l,chips:i}}function oh(t,e){let{data:n,
selection:o}=t,r=Le(n,o.run);if(r.length<2||r.every(([,{position:a}])=>a!==void 0))return[];let s=p("select",{autocomplete:"\
off"},r.map(([a,i])=>D(a,`${i.target} (${i.rules})`)));return s.value=r.find(([,a])=>a===tt(n,o))[0],s.setAttribute("ari\
a-label","target"),s.addEventListener("change",()=>e(Se(n,n.runs[o.run].blocks[s.value].position)||{block:s.value})),[p(
"div",{className:"toggles"},[s])]}function Fi(t,e,n){let o=t,r=()=>o,s=Si(t,n),{stream:{block:a}}=s,[i,l]=[k("g"),k("g")],
u=Ti(t,s).map(({picture:x,x:y,y:M,width:$,height:C})=>Nt(dt(x,t.palette,$*t.ratio,C*t.ratio),y,M,$,C)),c=kn(t,s.frame),f=k(
"svg",{width:n,height:s.height,"aria-hidden":"true"},[ue(t.palette),...zi(t,s),...c.nodes,i,l]),d=p("div",{className:"lo\
git",tabIndex:0},[...u,f]);d.setAttribute("role","application"),eh(d,s,e,r);let h=a?nh(t,a,e,r):null,m=x=>{o=x,d.setAttribute(
"aria-label",`Layers by tokens, arrow keys choose. ${a?Ae(x):Ho(x).headline}`),i.replaceChildren(...c.mark(Rn(x)),...Ii(
x,s)),h&&h.chips.forEach((M,$)=>M.setAttribute("aria-current",String($===U(x))));let y=M=>l.replaceChildren(..._i(x,s,M));
x.marked.push(y),y(null)};if(!a)return{nodes:[d],update:m};let g=Yo(t,1/(s.frame.cell.width*t.ratio));return{nodes:[...oh(
t,e),h.host,d,p("details",{className:"note"},[p("summary",{textContent:"What is drawn"}),p("p",{textContent:`${qo(a)}. ${g}`})])],
update:m}}function Ii(t,e){let{stream:n,lines:o,frame:r,headFrame:s,heads:a,beside:i}=e,l=(a||e.neuronFrame)&&!i;return[
...vi(t,e,I.left,r.top,n.rows.length),...l?vi(t,e,s.left,s.top,o):[]]}function Wi(t,e){let n=Si(t,e),o=kn(t,n.frame),r=[
...zi(t,n),...o.nodes,...o.mark(Rn(t)),...Ii(t,n),..._i(t,n,null)];return{groups:[{x:0,y:0,pictures:Ti(t,n),nodes:r}],width:n.
width,height:n.height}}var Pi=6;function rh(t,e,n,o,r){return p("tr",{},[p("td",{},[e]),p("td",{},[wn(Math.abs(n)/(o||1),Fo(t,{scale:"signed"},
n))]),p("td",{textContent:S(n,!1)}),...r.map(s=>p("td",{textContent:Number.isNaN(s)?"–":S(s,!1)}))])}function zn(t,e,n,o,r){
let s=Math.max(0,...e.map(({share:c})=>Math.abs(c))),a=ve(t.data).filter(({tables:c})=>c[o]),i=(c,f="")=>p("th",{textContent:c,
scope:"col",title:f}),l=a.length?[p("tr",{},[p("td"),p("td"),i("attribution"),...a.map(({short:c,target:f})=>i(c,f))])]:
[],u=c=>a.map(f=>nn(f,o,...r(c)));return p("table",{className:a.length?"profile measured":"profile"},[...l,...e.map(c=>rh(
t,n(c),c.share,s,u(c)))])}function _n(t,e,n){let o=p("button",{type:"button",className:"plain"},t);return o.addEventListener(
"click",()=>n(e)),o}function sh(t,e,n){let{data:o,selection:r}=t,s=Ko(e,r.layer),a=Uo(e,r)<0?s.length&&s[0].head:Uo(e,r),
i=(e.edges[`${r.layer},${a}`]||[]).filter(([,,f])=>f!==0);if(!i.length)return[];let l=o.runs[r.run].tokens,u=({query:f,key:d})=>_n(
[p("bdi",{textContent:l[d]}),` (${d}) → `,p("bdi",{textContent:l[f]}),` (${f})`],o.queries.includes(f)?{to:f,from:d}:{
from:d,read:"column"},n),c=i.map(([f,d,h])=>({query:f,key:d,share:h}));return[p("p",{className:"note",textContent:`L${r.
layer}H${a}: largest edges (source → destination)`}),zn(t,c,u,"cell",({query:f,key:d})=>[r.layer,a,f,d])]}function ah(t,e,n){
let{data:o,selection:r}=t,s=e.neurons[r.layer]||[];if(!s.length)return[];let a=Object.entries(o.runs[r.run].blocks).filter(
([,{kind:c}])=>c==="memory"),i=c=>{let f=a.find(([,{memory:d}])=>d===`${r.layer}:${c}`);return f?{view:"memories",block:f[0]}:
{neuron:c}},l=({neuron:c})=>{let f=_n([`L${r.layer}N${c}`],i(c),n);return c===r.neuron&&f.setAttribute("aria-current","t\
rue"),f},u=s.map(([c,f])=>({neuron:c,share:f}));return[p("p",{className:"note",textContent:`Largest neurons of layer ${r.
layer}, over all positions:`}),zn(t,u,l,"neuron",()=>[])]}function Bi(t,e){let{data:n,selection:o}=t,r=tt(n,o);if(!r)return[];
let{layer:s}=o,a=_(t),i=({column:h})=>_n([p("bdi",{textContent:a[h]}),ft(t,h)],We(t,h),e),l=({head:h})=>_n([`L${s}H${h}`],
{heads:String(h)},e),u=Ko(r,s).slice(0,Pi),c=t.axes.columns[U(t)].position,d=ve(n).some(({tables:h})=>h.head&&h.head.axes.
length>2)?`; replaced at ${lt(t,U(t))} alone`:"";return[p("section",{className:"card logit-card"},[p("h3",{},["To ",p("b\
di",{textContent:Do(r)})]),p("p",{textContent:Ae(t)}),p("p",{className:"note",textContent:ma(r,s)}),zn(t,pa(t,s,Pi),i,"r\
esidual",({column:h})=>[s,t.axes.columns[h].position]),...u.length?[p("p",{className:"note",textContent:`Largest heads o\
f layer ${s}, summed over ${r.ends?"these":"all"} positions${d}:`}),zn(t,u,l,"head",({head:h})=>[s,h,c])]:[],...sh(t,r,e),
...ah(t,r,e),p("p",{className:"note",textContent:r.certificate})])]}var Wr={faintest:.02,triggers:5};function Fn(t,e){return Object.entries(t.runs[e].blocks).filter(([,n])=>n.kind==="memor\
y")}function Pr(t,e){let n=Fn(t,e.run);return n.find(([o])=>o===e.block)||n[0]}function Vi(t,e,n,o,r){let{palette:s}=t,a=p(
"span",{className:"chip"},[p("bdi",{textContent:e})]),i=[o,r].filter(u=>u&&Number.isFinite(u.value));a.title=[`${e} · po\
sition ${n}`,...i.map(u=>`${u.name} ${S(u.value,!1)}`)].join(" · ");let l=u=>u&&Number.isFinite(u.value)&&u.limit&&Math.
abs(u.value)>=Wr.faintest*u.limit?nt(s,u.value,u.limit,"signed"):null;return we(a,l(o),l(r)),a}function Pe(t,e){let n=E(
e.map(Math.abs));return e.map(o=>({name:t,value:o,limit:n}))}function jn(t,e){let n=p("div",{className:"tokens"},t);return n.
setAttribute("role","group"),n.setAttribute("aria-label",e),n.classList.toggle("long",t.length>40),n}function Be(t,e){return p(
"section",{className:"memory-part"},[p("h2",{textContent:t}),...e])}function It(t){return p("p",{className:"note",textContent:t})}
function ih(t,e,n){let o=Fn(t,e.run),r=p("select",{},o.map(([s,a])=>D(s,`memory ${a.memory}`)));return r.autocomplete="o\
ff",r.value=Pr(t,e)[0],r.setAttribute("aria-label","memory"),r.addEventListener("change",()=>n({block:r.value})),p("div",
{className:"toggles"},[r,p("span",{className:"note",textContent:`of ${o[0][1].model}, over ${o[0][1].corpus_texts} texts`})])}
function lh(t,e){if(!e.value)return Be("Tokens of its value",[It("The value cannot be read as tokens: the model has no t\
rained head.")]);let{top:n,bottom:o,probability:r,reading:s,agreeing:a,followed:i}=e.value,l=(f,d)=>p("p",{className:"me\
mory-words"},[`${d} `,...f.map(h=>p("span",{className:"chip"},[p("bdi",{textContent:h})]))]),u=s==="direction"?"with the\
 unembedding alone":"with the model's final norm and unembedding",c=i?` It follows ${a} of ${i} top-activating examples.`:
"";return Be("Tokens of its value",[l(n,"promotes"),l(o,"demotes"),It(`The value, read ${u}: the first token has a proba\
bility of ${K(r)}.${c}`)])}function ch(t,e,n){if(!e.text)return[];let{tokens:o,along:r,parts:s,bias:a,carried:i,target:l}=e.
text,u=t.selection.to,c=h=>o.map((m,g)=>{let b=Vi(t,m,g,h[g]);return b.setAttribute("aria-current",String(g===u)),b.addEventListener(
"click",()=>n({to:g,read:"row"})),b}),f=p("h2",{},["Token contributions to its activation at ",p("bdi",{textContent:gt(o[u])})]),
d=[Be("Its activation along this text",[jn(c(Pe("activation",r)),"activation at each token"),It(`Strongest colour: ${S(r[Hi(
r)],!1)} at ${gt(o[Hi(r)])}.`)]),p("section",{className:"memory-part"},[f,jn(c(Pe("contribution",s[u])),"token contribut\
ions"),It(`Contributions of the tokens at the layer's input. With the bias, ${S(a[u],!1)}, they sum to the activation ${S(
r[u],!1)} at position ${u}.`)])];return i&&d.push(Be("Contribution to the target",[jn(c(Pe("contribution",i)),"contribut\
ion to the target"),It(`Signed contributions to ${l}: ${S(i[u],!1)} from this position, ${S(i.reduce((h,m)=>h+m,0),!1)} \
from all positions.`)])),d}function Hi(t){return t.reduce((e,n,o)=>Math.abs(n)>Math.abs(t[e])?o:e,0)}function Di(t,e){let{
tokens:n,along:o,parts:r,position:s,coefficient:a,rank:i,sequence:l}=e,[u,c]=[Pe("contribution",r),Pe("activation",o)],f=n.
map((d,h)=>{let m=Vi(t,d,h,u[h],c[h]);return m.setAttribute("aria-current",String(h===s)),m.classList.toggle("later",h>s),
m});return p("div",{className:"memory-trigger"},[It(`${i}. activation ${S(a,!1)}, text ${l}`),jn(f,`example ${i}`)])}function qi(t,e,n){
let[o,r]=[n.slice(0,Wr.triggers),n.slice(Wr.triggers)],s=o.map(a=>Di(t,a));if(r.length){let a=p("details",{},[p("summary",
{textContent:`${r.length} more`})]);a.addEventListener("toggle",()=>{a.open&&a.children.length===1&&a.append(...r.map(i=>Di(
t,i)))}),s.push(a)}return Be(e,s.length?s:[It("It has no such activation in these texts.")])}function Ui(t,e){let{data:n,
selection:o}=t,[,r]=Pr(n,o);return p("div",{className:"memory"},[ih(n,o,e),lh(t,r),...ch(t,r,e),qi(t,"Top-activating exa\
mples",r.positive),qi(t,"Examples of the most negative activations",r.negative),It("Orange: positive, violet: negative. \
In examples, the background is a token's contribution to the activation at the framed token; the stripe is the activatio\
n at each token.")])}function Ki(t){let[e,n]=Pr(t.data,t.selection);return{headline:"",meaning:"A memory is one neuron o\
f a feed-forward block: its key sets the activation, its value promotes tokens.",place:`memory ${n.memory}`,shown:e,remark:"",
note:"",exact:!1,method:"",file:[`memory${n.memory}`]}}var et={left:46,top:18,label:11},Br=40,In={gap:28,narrowest:520};function Zi(t,e,n){return nt(t,e,n,"signed")}function Hr({
signed:t=!0},e){return t?S(e):T(e)}function Gi(t){return t.map(e=>e??NaN)}function Ji(t){let[e,n]=[t.length,t[0].length],
o={nRows:e,nColumns:n,own:Array(e).fill(-1)};return Lt(o,Float32Array.from(t.flat()),n>=ne?"percentile":"all")}function Qi(t){
return new Map(t.map(({note:e})=>[e,Ji(t.filter(n=>n.note===e).flatMap(({values:n})=>n))]))}function tl(t,e,n=e,o=!0){let r=p(
"canvas",{width:121,height:1}),s=r.getContext("2d");for(let i=0;i<121;i++)s.fillStyle=(o?Zi(t,(i-60)/60,1):nt(t,i/120,1,
"contribution")).hex,s.fillRect(i,0,1,1);r.setAttribute("aria-hidden","true");let a=n>e*1.0001?[p("span",{textContent:`(\
99th percentile; cells reach ${T(n)})`})]:[];return p("div",{className:"share-scale"},[o?`−${T(e)}`:"0",r,o?`+${T(e)}`:
T(e),...a])}function uh(t,e,n){let o=E(n),r=e.map((s,a)=>qe(s,S(n[a]),`position ${a}`,Zi(t,n[a]||0,o)));return p("div",{},
[p("ol",{className:"tokens shared"},r),tl(t,o)])}function el({values:t,signed:e=!0},n){let[o,r]=[t.length,t[0].length];return{
cells:Float32Array.from(t.flat()),nColumns:r,window:[0,o-1,0,r-1],scale:e?"signed":"contribution",limit:n,root:0}}function Yi(t,e){
return[1,2,5,10,20,50,100,200,500].find(n=>n*e>=et.label+2)||t}function fh(t,e){let n=t.match(/@\d+$/)?.[0]??"";return H(
t.slice(0,t.length-n.length),et.label,e-R(n,et.label))+n}function nl(t,e){let[n,o]=[t.rows.length,t.columns.length],r=Math.
min(110,Math.max(...[`${t.row} ↓`,...t.rows].map(d=>R(d,et.label)))+8),s=Math.max(et.left,r),a=Math.max(6,Math.min(34,
(e-s-8)/o)),i=Math.max(5,Math.min(20,460/n)),l=Math.max(...t.columns.map(d=>R(d,et.label))),u=l<a-2,c=u?20:Math.min(90,l)+
14,f=s+Math.max(a*o,R(`${t.column} →`,et.label))+6;return{left:s,cell:a,tall:i,lying:u,below:c,across:f,wide:a*o,high:i*
n,height:et.top+i*n+c}}function ol(t,e,{left:n,cell:o,tall:r,lying:s,below:a,wide:i,high:l}){let u=(d,h)=>O(d,0,0,{"font\
-size":et.label,fill:t.grey,...h}),c=[k("rect",{x:n,y:et.top,width:i,height:l,fill:"none",stroke:t.line})],f=[];for(let d=0;d<
e.rows.length;d+=Yi(e.rows.length,r))f.push(u(H(e.rows[d],et.label,n-8),{x:n-5,y:et.top+(d+.5)*r+4,"text-anchor":"end"}));
for(let d=0;d<e.columns.length;d+=Yi(e.columns.length,o)){let[h,m]=[n+(d+.5)*o+(s?0:4),et.top+l+(s?14:6)],g=s?{"text-anc\
hor":"middle"}:{transform:`rotate(-90 ${h} ${m})`,"text-anchor":"end"};c.push(u(s?e.columns[d]:fh(e.columns[d],a-12),{x:h,
y:m,...g}))}return f.push(u(`${e.row} ↓`,{x:n-5,y:11,"text-anchor":"end"})),c.push(u(`${e.column} →`,{x:n,y:11})),{names:f,
nodes:c}}function Xi(t,e,n,o,r){let[s,a]=[e.rows.length,e.columns.length],i=nl(e,o),{left:l,cell:u,tall:c,wide:f,high:d,
height:h,across:m}=i,g=ol(t,e,i),b=k("rect",{fill:"none",stroke:t.mark,"stroke-width":1.5,visibility:"hidden",width:u,height:c}),
x=k("g",{class:"share-names"},[j(0,0,l-1,h,t.paper),...g.names]),y=dt(el(e,n),t,a,s).toDataURL(),M=k("svg",{width:m,height:h,
tabindex:0,role:"img"},[k("image",{href:y,x:l,y:et.top,width:f,height:d,preserveAspectRatio:"none"}),...g.nodes,b,x]);M.
setAttribute("aria-label",`${e.title}; arrow keys choose a cell`);let $=p("p",{className:"share-said",textContent:"Point\
 at a cell, or use the arrow keys."});$.setAttribute("role","status");let C=null,N=(L,B)=>{C=[L,B];for(let[Q,st]of Object.
entries({x:l+B*u,y:et.top+L*c,visibility:"visible"}))b.setAttribute(Q,st);$.replaceChildren(`${e.row} `,p("bdi",{textContent:e.
rows[L]}),` · ${e.column} `,p("bdi",{textContent:e.columns[B]}),`: ${Hr(e,e.values[L][B])}`);for(let[Q,st]of e.details[`${L}\
,${B}`]||[])$.append(" · ",p("bdi",{textContent:Q}),` ${Hr(e,st)}`)},A=L=>{if(L.target.closest(".share-names"))return null;
let B=M.getBoundingClientRect(),[Q,st]=[Math.floor((L.clientX-B.left-l)/u),Math.floor((L.clientY-B.top-et.top)/c)];return st>=
0&&Q>=0&&st<s&&Q<a?[st,Q]:null};M.addEventListener("pointermove",L=>{let B=A(L);B&&N(...B)}),M.addEventListener("click",
L=>{let B=A(L);B&&(N(...B),r&&r(...B))}),M.addEventListener("keydown",L=>{let B={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[
0,-1],ArrowRight:[0,1]}[L.key];if(L.key==="Enter"&&C&&r&&r(...C),!B)return;L.preventDefault();let[Q,st]=C||[s-1,0];N(Math.
min(s-1,Math.max(0,Q+(C?B[0]:0))),Math.min(a-1,Math.max(0,st+(C?B[1]:0))))});let z=p("div",{className:"share-map"},[M]);
return z.addEventListener("scroll",()=>x.setAttribute("transform",`translate(${z.scrollLeft})`)),p("div",{},[z,$,tl(t,n,
E(e.values.map(E)),e.signed)])}function hh(t,e){let{title:n,note:o,entries:r}=e,s=E(r.map(([,l])=>l)),a=r.map(([l,u])=>{
let c=p("span",{className:"share-bar"});return c.style.width=`${s?Math.round(60*Math.abs(u)/s):0}px`,c.style.background=
t[e.signed===!1?"contribution":u<0?"loss":"gain"],p("tr",{},[p("td",{},[p("bdi",{textContent:l})]),p("td",{},[c]),p("td",
{textContent:Hr(e,u)})])}),i=o?[p("p",{className:"note",textContent:o})]:[];return p("section",{className:"share-table"},
[p("h2",{textContent:n}),...i,p("table",{},a)])}function Dr(t,e,n,o){let r=[p("h2",{textContent:t}),p("p",{className:"no\
te",textContent:e}),...n];return p("section",{className:o?"wide":""},r)}function dh(t){let e=t.sums.map(([n,o])=>`${n} ${S(
o)}`);return`${T(t.value,4)} = ${e.join(" · ")}`}function rl(t){return Jt(t,0)!==void 0}function Jt(t,e){let n=Object.values(
t.runs[e].blocks).find(({kind:o})=>o==="numbers");if(n&&!n.read){for(let o of n.rows)o.shares=Gi(o.shares);for(let o of n.
maps)o.values=o.values.map(Gi);n.read=!0}return n}function sl(t,{rows:e}){return{title:"Every token of the continuation",
note:"A row has the attributions of all earlier tokens; with biases they sum to the target's value. A click opens its ov\
erview.",row:"target",column:"source",rows:e.map(({name:n})=>n),columns:t.runs[0].tokens,values:e.map(({shares:n})=>n),details:{}}}
function mh({data:t,palette:e},{rows:[n]}){return Dr("Token contributions","Signed, in the target's units: attribution o\
f each token's embedding, with those of its position and type.",[uh(e,t.runs[0].tokens,n.shares),p("p",{className:"share\
-sums",textContent:dh(n)})],!0)}function al(t,e,n){let{data:o,selection:r,palette:s}=t,a=Jt(o,r.run),i=[];if(a.rows.length>
1){let h=sl(o,a),m=g=>{let b=Se(o,o.words.length-a.rows.length+g);b&&e({...b,view:"overview"})};i.push(Dr(h.title,h.note,
[Xi(s,h,Ji(h.values),n,m)],!0))}else a.rows.length&&i.push(mh(t,a));let l=a.maps.filter(({columns:h})=>h.length<=Br).length+
a.tables.length,u=Math.max(1,Math.min(l,Math.floor((n+In.gap)/(In.narrowest+In.gap)))),c=(n-In.gap*(u-1))/u,f=Qi(a.maps);
for(let h of a.maps)i.push(Dr(h.title,h.note,[Xi(s,h,f.get(h.note),h.columns.length>Br?n:c,null)],h.columns.length>Br));
for(let h of a.tables)i.push(hh(s,h));let d=p("div",{className:"number-blocks"},i);return d.style.gridTemplateColumns=`r\
epeat(${u}, minmax(0, 1fr))`,[d]}function il({data:t,selection:e}){let{heading:n,facts:o}=Jt(t,e.run);return{headline:n,
meaning:"",place:"",shown:o||t.heading,remark:"",note:"",exact:!1,method:"",file:["numbers"]}}function ll({data:t,selection:e,
palette:n},o){let r=Jt(t,e.run),s=[...r.rows.length>1?[sl(t,r)]:[],...r.maps],a=Qi(s),i=0,l=s.map(u=>{let c=nl(u,o),{names:f,
nodes:d}=ol(n,u,c),h=[{picture:el(u,a.get(u.note)),x:c.left,y:et.top,width:c.wide,height:c.high}],m=O(u.title,0,-6,{"fon\
t-size":12,"font-weight":600,fill:n.ink}),g={x:0,y:i+22,pictures:h,nodes:[m,...f,...d]};return i+=c.height+34,g});return l.
length?{groups:l,height:i}:null}function cl({data:t,selection:e}){let n=Jt(t,e.run),o=t.runs[e.run].tokens,r=function*(){
for(let{name:a,shares:i}of n.rows)for(let[l,u]of i.entries())yield["token",a,o[l],u];for(let{title:a,rows:i,columns:l,values:u}of n.
maps)for(let[c,f]of u.entries())for(let[d,h]of f.entries())yield[a,i[c],l[d],h];for(let{title:a,entries:i}of n.tables)for(let[
l,u]of i)yield[a,l,"",u]},s=n.maps.reduce((a,{values:i})=>a+i.length*i[0].length,n.rows.length*o.length);return{head:["p\
art","row","column","value"],lines:r,count:s}}var ph=40,gh=25;function ul({selection:t}){return[...qt,"sort","pairs","mass","find",...t.pairs==="token"?["read","to","\
from"]:[]]}function wh(t,e,n){let{axes:o,maps:r}=t,s=_(t),[a,i]=[o.rows[e.row].position,o.columns[e.column].position],l=p(
"button",{type:"button",className:"plain",title:De(t.data,i,a)},[p("bdi",{textContent:s[e.column]}),`${ft(t,e.column)} →\
 `,p("bdi",{textContent:s[o.own[e.row]]}),ft(t,o.own[e.row])]);l.addEventListener("click",()=>n({to:a,from:i}));let c=[...t.
selection.sort==="distance"?[_o(o,e.index)]:[],...r.map(f=>at(f,f.cells[e.index],f.asShare))];return p("tr",{},[p("td",{},
[l]),...c.map(f=>p("td",{textContent:f}))])}function fl(t,e){let{pairs:n,total:o}=Zs(t,t.paper?gh:ph),r=Vt(t).map((l,u)=>p(
"th",{scope:"col",textContent:t.maps[u].role==="difference"?"change":l}));t.selection.sort==="distance"&&r.unshift(p("th",
{scope:"col",className:"whole",textContent:"distance"}));let s=n.map(l=>wh(t,l,e)),a=p("table",{className:"pairs"},[p("t\
head",{},[p("tr",{},[p("th",{scope:"col",textContent:"from → to"}),...r])]),p("tbody",{},s)]);return w("pairs-note").textContent=
o>n.length?`the first ${n.length} of ${o}`:o?`${o} pairs`:"no pair fits",{nodes:[a],update:l=>n.forEach((u,c)=>s[c].classList.
toggle("current",u.row===l.row&&u.column===l.column))}}var F={row:18,smallest:11,printed:3,query:14,label:118,gap:12,number:64,weight:120,percent:46,head:40,wide:620},bh={vectors:[
"query q, keys k","q, k"],product:["q × k × scale","q × k"],score:["sum: score","score"],bar:["softmax: weight","weig\
ht"],value:["value ‖v W_O‖","‖v W_O‖"],weighted:["weight × ‖v W_O‖","weighted"]};function vt(t,e){return Object.
values(t.runs[e].blocks).find(n=>n.kind==="scores")}function Wn(t,e){let{heads:n}=vt(t,e.run),o=n.indexOf(t.channels.get(
e.scope).name);return o>=0?o:Math.min(n.length-1,Number(e.heads.split(".")[0]||0))}function xh(t,e,n){let{blockName:o}=t.
channels.get(e.scope),r=G(t,o,vt(t,e.run).heads[n]);return t.channels.has(r)?{scope:r}:{heads:String(n)}}function qr(t,e){
let n=vt(t,e.run),o=n.heads[Wn(t,e)];return[n.query,n.key,n.score,n.weight,...n.value?[n.value]:[]].map(r=>r[o])}function Pn(t){
let{data:e,selection:n}=t,o=vt(e,n.run),r=o.layers.indexOf(n.layer);if(r<0)return null;let[s,a,i,l,u]=qr(e,n).map(y=>e.numbersAt(
y,r)),c=e.queries.indexOf(n.to),[f,d]=[e.words.length,s.length/e.queries.length],h=s.subarray(c*d,(c+1)*d),m=o.scale[r],
g=Float32Array.from(a,(y,M)=>m*y*h[M%d]),b=y=>po(e,y).subarray(c*f,(c+1)*f),x=u&&b(l).map((y,M)=>y*u[M]);return{block:o,
scale:m,size:d,n:f,query:h,keys:a,products:g,scores:b(i),weights:b(l),values:u,weighted:x,most:x?E(x):0}}function dl(){return[
"run","scope","layer","heads","to"]}function ml({room:t},e,n){let o=Math.max(t?F.printed:F.smallest,Math.min(F.row,t?(t-
F.head-F.query-8)/(e.n+2):1400/e.n)),r=Math.min(F.label,n/5),s=e.values&&n>=F.wide?1:0,a=n-r-(F.number+F.percent)*(1+s)-
(3+s)*F.gap-8,i=Math.min(F.weight,a/(4+2*s)),l=Math.max(40,Math.min(420,(a-i*(1+s))/2)),u=r+l+F.gap,c=u+l+F.gap,f=c+F.number+
F.gap,d=f+i+F.percent;return{height:o,label:r,strip:l,weight:i,product:u,score:c,bar:f,valued:s,value:d,weighted:d+F.number+
F.gap,y:h=>F.head+Math.max(2*o,F.query)+h*o}}function yh(t,e,n,o){return{cells:e,nColumns:t.size,window:[n,o,0,t.size-1],
scale:"signed",limit:E(e),root:0}}function pl(t,e){let n=(o,r,s,a)=>({picture:yh(t,o,0,r-1),x:s,y:a,width:e.strip,height:r*
e.height});return[n(t.query,1,e.label,F.head),n(t.keys,t.n,e.label,e.y(0)),n(t.products,t.n,e.product,e.y(0))]}function kh(t,e,n){
return pl(e,n).map(({picture:o,x:r,y:s,width:a,height:i})=>Nt(dt(o,t.palette,a*t.ratio,i*t.ratio),r,s,a,i))}function gl(t,e){
let{data:n,selection:o,palette:r}=t,s=Math.min(12,Math.max(P.smallest,e.height)),a=H(n.runs[o.run].tokens[o.to],s,e.label-
34),i={"font-size":s,fill:r.ink,"text-anchor":"end","font-weight":700};return[O(`${a} q`,e.label-5,F.head+e.height/2+s*.35,
i),...$h(t,e)]}function $h({palette:t},e){let n={vectors:[e.label,e.strip],product:[e.product,e.strip],score:[e.score,F.
number],bar:[e.bar,e.weight+F.percent]};return e.valued&&Object.assign(n,{value:[e.value,F.number+F.gap],weighted:[e.weighted,
e.weight+F.percent]}),Object.entries(n).map(([o,[r,s]])=>{let[a,i]=bh[o];return O(R(a,11)<=s?a:i,r,F.head-8,{"font-size":11,
fill:t.grey})})}function vh({palette:t},e,n,o){if(Number.isNaN(e.scores[o]))return[];let r=Math.min(12,Math.max(P.smallest,
n.height)),s=n.y(o)+n.height/2+r*.35,a=e.weighted[o]/(e.most||1)*n.weight;return[j(n.weighted,n.y(o)+Math.min(2,n.height/
8),a,n.height-Math.min(4,n.height/4),t.contribution),O(T(e.values[o]),n.value+F.number-6,s,{"font-size":r,fill:t.ink,"te\
xt-anchor":"end"}),O(T(e.weighted[o]),n.weighted+a+4,s,{"font-size":Math.min(10,r),fill:t.grey})]}function wl(t,e,n){let{
palette:o,data:r,selection:s}=t,a=Math.min(12,Math.max(P.smallest,n.height)),i=_t(n.height),l=r.runs[s.run].tokens,u={"f\
ont-size":a,fill:o.ink},c=f=>n.y(f)+n.height/2+a*.35;return l.flatMap((f,d)=>{let h=!Number.isNaN(e.scores[d]),m=h?[j(n.
bar,n.y(d)+Math.min(2,n.height/8),e.weights[d]*n.weight,n.height-Math.min(4,n.height/4),o.contribution)]:[],g=n.valued?vh(
t,e,n,d):[];return Xt(d,i,s.from)?[...m,...g,O(H(f,a,n.label-34),n.label-30,c(d),{...u,"text-anchor":"end",fill:h?o.ink:
o.line}),O(d,n.label-5,c(d),{"font-size":9,"text-anchor":"end",fill:o.grey}),...h?[O(S(e.scores[d],!1),n.score+F.number-
6,c(d),{...u,"text-anchor":"end"}),O(K(e.weights[d],2),n.bar+Math.max(.01,e.weights[d])*n.weight+4,c(d),{"font-size":Math.
min(10,a),fill:o.grey})]:[]]:[...m,...g.slice(0,1)]})}function hl(t,e,n,o){let r=o.getBoundingClientRect(),[s,a]=[n.clientX-
r.left,n.clientY-r.top];if(n.target.closest(".heads"))return null;let i=Math.floor((a-e.y(0))/e.height);if(i<0||i>=t.n)return null;
let l=[e.label,e.product].find(u=>s>=u&&s<u+e.strip);return{key:i,dimension:l===void 0?null:Math.floor((s-l)/e.strip*t.size)}}
function Mh(t,e){return`value ‖v W_O‖ ${T(t.values[e])}, weighted ${T(t.weighted[e])}`}function Ch(t,e,{key:n,dimension:o}){
let{data:r,selection:s}=t,a=r.runs[s.run].tokens,i=[ot("to",Tt(t,a[s.to],s.to)),ot("from",Tt(t,a[n],n))],l=n*e.size+o;o!==
null&&i.push(p("div",{textContent:`dimension ${o}: ${T(e.query[o])} × ${T(e.keys[l])} × ${T(e.scale)} = ${S(e.products[l],
!1)}`}));let u=!Number.isNaN(e.scores[n]);return i.push(p("div",{textContent:u?`score ${S(e.scores[n],!1)}, weight ${K(e.
weights[n])}`:"no weight: this key is masked"})),u&&e.values&&i.push(p("div",{textContent:Mh(e,n)})),i}function Nh(t,e,n,o,r){
t.addEventListener("pointermove",s=>{let a=hl(n,o,s,t),i=w("tooltip");i.hidden=!a,a&&(i.replaceChildren(...Ch(e,n,a)),ie(
i,s.clientX,s.clientY))}),t.addEventListener("pointerleave",()=>{w("tooltip").hidden=!0}),t.addEventListener("click",s=>{
let a=hl(n,o,s,t);a&&r({from:a.key})})}function Oh(t,e){let{data:n,selection:o}=t,{heads:r}=vt(n,o.run),s=p("select",{autocomplete:"\
off"},r.map((a,i)=>D(i,a)));return s.value=String(Wn(n,o)),s.setAttribute("aria-label","head"),s.addEventListener("chang\
e",()=>e(xh(n,o,Number(s.value)))),p("div",{className:"toggles"},[s])}var bl="Orange: positive, violet: negative; each p\
icture has its own scale.";function xl(t,e,n){return wt(1,e.y(t.selection.from),n-3,e.height,t.palette.mark)}function yl(t){
return`A score is the sum of ${t.size} products of query and key, as attention multiplied them, times ${T(t.scale)}. ✓ T\
he softmax of these scores is the model's own pattern, ${t.block.error?`to ${$e(t.block.error)}`:"digit for digit"}.${t.
values?" ‖v W_O‖ is the norm of a key's value after the head's output matrix; times the weight it is value-weighted atte\
ntion.":""}`}function kl({data:t,selection:e}){return`This page has scores of layers ${vt(t,e.run).layers.join(", ")} on\
ly.`}function $l(t,e,n){let o=Pn(t),r=Oh(t,e);if(!o)return[r,p("p",{textContent:kl(t)})];let s=ml(t,o,n),a=k("g"),i=k("s\
vg",{width:n,height:s.y(o.n)+8},[...wl(t,o,s),a]),[l,...u]=kh(t,o,s),c=p("div",{className:"heads"},[l,k("svg",{width:n,height:s.
y(0)},gl(t,s))]);i.style.marginTop=`${-s.y(0)}px`;let f=p("div",{className:"scores"},[c,...u,i]);f.setAttribute("role","\
img"),f.setAttribute("aria-label","Scores of the selected token's query with every key; the numbers are written next to \
them."),Nh(f,t,o,s,e);let d=h=>a.replaceChildren(xl(h,s,n));return{nodes:[r,f,p("p",{className:"note",textContent:`${bl}\
 ${yl(o)}`})],update:d}}function vl(t,e){let n=Pn(t);if(!n)return null;let o=ml(t,n,e),r=[...gl(t,o),...wl(t,n,o),xl(t,o,
e)];return{groups:[{x:0,y:0,pictures:pl(n,o),nodes:r}],height:o.y(n.n)+8}}function Ml(t){let{data:e,selection:n}=t,o=Pn(
t),r=vt(e,n.run).heads[Wn(e,n)],s=e.runs[n.run].tokens,[a,i]=[n.to,n.from].map(c=>`${gt(s[c])} (position ${c})`),u=o&&!Number.
isNaN(o.scores[n.from])?`${a} attends to ${i}: score ${S(o.scores[n.from],!1)}, weight ${K(o.weights[n.from])}.`:o?Ne(a,
i):kl(t);return{headline:`Layer ${n.layer}, ${r}: ${u}`,meaning:"One token's query with every key.",further:"The product\
s of their dimensions sum to the score; the softmax of the scores is the attention weight.",place:`layer ${n.layer}`,shown:`\
attention scores, ${r}, query of ${a}`,remark:"",exact:!1,method:"",note:o?`${bl} ${yl(o)}`:"",file:[`layer${n.layer}`,`\
scores-${r}`.replaceAll(" ",""),`query${n.to}`]}}function Cl(t){let{data:e,selection:n}=t,o=Pn(t);if(!o)return null;let r=vt(
e,n.run).heads[Wn(e,n)],s=e.runs[n.run].tokens,a=Array.from({length:o.size},(l,u)=>u),i=function*(){for(let l=0;l<o.n;l++)
Number.isNaN(o.scores[l])||(yield[n.layer,r,n.to,s[n.to],l,s[l],o.scores[l],o.weights[l],...o.values?[o.values[l],o.weighted[l]]:
[],...a.map(u=>o.products[l*o.size+u])])};return{head:["layer","head",...Te,"score","weight",...o.values?["value norm","\
value-weighted"]:[],...a.map(l=>`product ${l}`)],lines:i,count:o.n}}var Eh=2;function Lh(t){let{selection:e,maps:n,axes:o,row:r,column:s}=t,a=h=>gt(_(t)[h]),i=vo(t).at(-1),l=xt(t),u=i>0?` \
Darkest: ${Z(i,l.asShare,l.scale==="signed")}.`:"",c=e.view==="overview"&&e.run!==e.refRun,f=n.length>1&&!c?` Colour: ${Vt(
t)[1]}; underline: ${Vt(t)[0]}.`:"",d=h=>t.data.named?"":` (${Wt(t.data,h)})`;return(e.read==="row"?`Sources of ${a(o.own[r])}${d(
o.rows[r].position)}.`:`Destinations of ${a(s)}${d(o.columns[s].position)}.`)+f+u}function Sh(t){let e=p("span",{className:"\
chip",id:`token-${t}`},[p("bdi")]);return e.setAttribute("role","option"),e.dataset.column=t,e}function Nl(t){return t.maps.
filter(e=>e.role!=="difference").map(e=>se(t,e))}function Ah(t,e,n,o,r){let{palette:s,maps:a}=t,i=o[o.length-1][n],l=n===
U(t);V(e.firstChild,_(t)[n]),e.setAttribute("aria-selected",String(l)),e.classList.toggle("later",Number.isNaN(i)&&!l),e.
classList.toggle("cell",n===(t.selection.read==="row"?t.column:t.axes.own[t.row]));let u=c=>{let f=o[c][n];return Number.
isNaN(f)?null:nt(s,f,r[c],a[c].scale,t.selection.root)};we(e,u(o.length-1),o.length>1&&u(0))}function Ol(t,e){let n=Nl(t),
o=_(t),r=t.maps.filter(s=>s.role!=="difference");Array.from(e.children).forEach((s,a)=>{let i=Wt(t.data,t.axes.columns[a].
position);s.title=`${[o[a],i].filter(Boolean).join(" · ")}: ${n.map((l,u)=>at(r[u],l[a],r[u].asShare)).join(" → ")}`,
s.setAttribute("aria-label",s.title)})}function Th(t,e,n){let{axes:o,selection:r,data:s}=t,a={ArrowRight:1,ArrowLeft:-1,
PageDown:10,PageUp:-10,Home:-s.words.length,End:s.words.length};if(!(!(n.key in a)||n.altKey))if(n.preventDefault(),n.stopPropagation(),
r.read==="row"){let i=Math.max(0,Math.min(o.nRows-1,t.row+a[n.key]));e({to:o.rows[i].position})}else{let i=Math.max(0,Math.
min(o.nColumns-1,t.column+a[n.key]));e({from:o.columns[i].position})}}function El(t,e,n){let{axes:o,selection:r}=t;n.children.
length!==o.nColumns&&n.replaceChildren(...Array.from({length:o.nColumns},(i,l)=>Sh(l)));let s=Nl(t),a=vo(t);Array.from(n.
children).forEach((i,l)=>Ah(t,i,l,s,a)),n.setAttribute("aria-activedescendant",`token-${U(t)}`),n.classList.toggle("long",
o.nColumns>40),n.onclick=i=>{let l=i.target.closest(".chip");if(!l)return;let u=o.columns[Number(l.dataset.column)].position,
c=o.rowOf(u);i.shiftKey?e(r.read==="row"?{from:u}:c>=0?{to:u}:{}):r.read==="column"||c<0?e({from:u,read:"column"}):e({to:o.
rows[c].position})},n.onkeydown=i=>Th(t,e,i),V(w("sentence-words"),Lh(t)),t.marked.push(i=>{let l=i&&(i.column??(i.row===
void 0?-1:o.own[i.row]));Array.from(n.children).forEach((u,c)=>u.classList.toggle("read",c===l))})}function Vr(t,e){let n=e.
children[U(t)],o=n.offsetTop+n.offsetHeight+Eh;(n.offsetTop<e.scrollTop||o>e.scrollTop+e.clientHeight+1)&&(e.scrollTop=o-
e.clientHeight)}function Rh(t){let{data:e,selection:n}=t,o=t.headsBlock||e.channels.get(n.scope).blockName;return Oe(t).flatMap((r,s)=>r.
columns.map(a=>({...a,group:s,track:r,key:G(e,o,a.channel),refKey:a.ref&&G(e,o,a.ref)})))}function Bn(t,e){let{data:n,selection:o}=t;
return t.headsBlock?o.heads.split(".").includes(String(n.channels.get(e.key).index)):o.scope!==e.key?!1:o.run!==o.refRun||
e.refKey===null||o.ref===e.refKey}function zh(t,e,n,o){let r=t.data.layers.length,s=e.length?e[e.length-1].group:0,[a,i]=o?
[72,16]:[26,22+Math.max(30,Math.min(70,9*Math.max(0,...e.map(b=>b.label.length))))],l=o?Math.max(4,Math.min(24,(n-a-6)/r)):
Math.max(9,Math.min(20,480/r)),u=o?15:Math.max(8,Math.min(26,(n-a-14*s-4)/Math.max(1,e.length))),c=b=>e[b].group*(o?8:14)+
b*u,f=(b,x)=>o?[a+b*l,i+c(x)]:[a+c(x),i+b*l],d=e.map(({group:b,track:x},y)=>y&&e[y-1].group===b?0:c(y)+R(x.title,11)),h=e.
length?c(e.length-1)+u:0,m=o?h:Math.max(h,...d),g=o?[a+r*l+4,i+m+4]:[a+m+4,i+r*l+4];return{place:f,cell:o?[l,u]:[u,l],size:g,
label:a,head:i,lying:o}}function _h(t,e,n){let{palette:o,data:r,selection:s}=t,[a,i]=n.cell,l=Math.max(1,Math.ceil((n.lying?
16:11)/(n.lying?a:i))),u=r.layers.indexOf(s.layer),c=r.layers.flatMap((m,g)=>{let b=g===u;if(!Xt(g,l,u))return[];let[x,y]=e.
length?n.place(g,0):[n.label,n.head],M={"font-size":11,fill:b?o.ink:o.grey,"font-weight":b?700:400};return[n.lying?O(m,x+
a/2,n.head-5,{...M,"text-anchor":"middle"}):O(m,n.label-6,y+i/2+4,{...M,"text-anchor":"end"})]}),f=e.map((m,g)=>{let[b,x]=n.
place(0,g),y=Bn(t,m)?700:400,M={"font-size":11,fill:o.ink,"font-weight":y};return n.lying?O(H(m.label,11,n.label-8),n.label-
6,x+i-4,{...M,"text-anchor":"end"}):bt(H(m.label,11,n.head-22),b+a/2+4,n.head-5,M)}),d=n.lying?[]:e.flatMap((m,g)=>g&&e[g-
1].group===m.group?[]:[O(m.track.title,n.place(0,g)[0],12,{"font-size":11,fill:o.grey})]);return[n.lying?O("layer",n.label-
6,n.head-5,{"font-size":11,fill:o.grey,"text-anchor":"end"}):O("layer",0,n.head-5,{"font-size":9,fill:o.grey}),...c,...f,
...d]}function jh(t,e,n,o,r,[s,a]){let[i,l]=r,{palette:u,data:c}=t,f=e.track.values[e.channel][n],d=f===null?u.out:nt(u,
Math.max(0,f-s),a-s,"contribution",e.track.stretched?0:1).hex,h=j(o[0],o[1],i-1,l-1,d);return h.append(k("title",{},[`la\
yer ${c.layers[n]}, ${e.words}: ${ce(f)}`])),h.dataset.layer=c.layers[n],h.dataset.channel=e.key,h.dataset.ref=e.refKey??
"",h}function Fh(t,e,n,o){let{data:r,selection:s}=t,a={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[0,1],
Home:[-r.layers.length,0],End:[r.layers.length,0]}[o.key];if(!a||o.altKey)return;o.preventDefault(),o.stopPropagation();
let i=r.layers[Math.max(0,Math.min(r.layers.length-1,r.layers.indexOf(s.layer)+a[0]))],l=Math.max(0,e.findIndex(c=>Bn(t,
c))),u=e[Math.max(0,Math.min(e.length-1,l+a[1]))];n(a[1]&&u?{layer:i,...Ll(t,u)}:{layer:i})}function Ll(t,e){return t.headsBlock?
{heads:String(t.data.channels.get(e.key).index)}:{scope:e.key,...t.selection.run===t.selection.refRun?{ref:e.refKey??""}:
{}}}var Sl=["run"];function Ih(t,e,n){let{data:o,selection:r,palette:s}=t;return e.flatMap((a,i)=>{if(!Bn(t,a))return[];
let[l,u]=n.place(o.layers.indexOf(r.layer),i);return[wt(l,u,n.cell[0]-1,n.cell[1]-1,s.mark),wt(l-1.5,u-1.5,n.cell[0]+2,n.
cell[1]+2,s.paper)]})}function Wh(t,e,n,o){t.addEventListener("click",r=>{let s=r.target.closest("[data-layer]"),a=s&&e.
find(({key:i,refKey:l})=>i===s.dataset.channel&&(l??"")===s.dataset.ref);a&&n({layer:Number(s.dataset.layer),...Ll(o(),a)})}),
t.addEventListener("keydown",r=>Fh(o(),e,n,r))}function Ph(t,e){let{data:n,selection:o}=t,r=n.layers.indexOf(o.layer),s=e.
filter(a=>Bn(t,a)).map(({track:a,channel:i,words:l})=>`${l}: ${ce(a.values[i][r])}`);return[t.headsBlock||Me(n,o.scope),
...s].join(", ")}function Al(t,e,n,o){let r=Rh(t),s=zh(t,r,n,o),a=Ee(Oe(t)),i=t.data.layers.flatMap((m,g)=>r.map((b,x)=>jh(
t,b,g,s.place(g,x),s.cell,a[b.group]))),[l,u]=[k("g"),k("g")],c=k("svg",{width:s.size[0],height:s.size[1],"aria-hidden":"\
true"},[l,...i,u]),f=p("div",{className:"rail",tabIndex:0},[c]);f.setAttribute("role","application");let d=t;return Wh(f,
r,e,()=>d),{nodes:[f],update:m=>{d=m,f.setAttribute("aria-label",`Layers and steps, arrow keys choose. Now layer ${m.selection.
layer}, ${Ph(m,r)}.`),l.replaceChildren(..._h(m,r,s)),u.replaceChildren(...Ih(m,r,s))}}}function Ur(t){return Oe(t).map(
e=>[e.note,le(e)&&`Colours: ${le(e)}.`].filter(Boolean).join(" ")).join(" ")}var Bh=(t,e)=>{let n=$t(t,e);return rt(t,e).map(o=>n[o])},Dn=[{name:"overview",label:"Overview",there:Ni,keys:()=>[],draw:Fi,
fields:Oi,controls:["pair","hide","range","root","zoom"],withoutOwn:!0,words:Ai,figure:Wi,table:xa},{name:"maps",label:"\
Maps",there:W,keys:()=>[],draw:jr,fields:()=>fi,controls:[...qt,"zoom","root"],words:Ut,figure:di,table:bn},{name:"heads",
label:"Heads",there:Nn,keys:Bh,draw:si,fields:yr,controls:["run","layer"],words:ii,figure:ai,table:li},{name:"all",label:"\
All heads",there:Nn,keys:$t,draw:bi,fields:gi,controls:["run","cells","range","root"],words:yi,figure:xi,table:ki},{name:"\
scores",label:"Scores (q·k)",there:t=>vt(t,0)!==void 0,keys:()=>[],tables:qr,draw:$l,fields:dl,controls:["run","layer"],
words:Ml,figure:vl,table:Cl},{name:"numbers",label:"Numbers",there:rl,keys:()=>[],draw:al,fields:()=>["run","to"],controls:[],
words:il,figure:ll,table:cl},{name:"graph",label:"Graph",there:Qe,keys:()=>[],draw:As,fields:Ss,controls:[],words:Ts,figure:Rs,
table:zs,find:Os,look:co},{name:"memories",label:"Memories",there:t=>Fn(t,0).length>0,keys:()=>[],draw:Ui,controls:[],words:Ki}];
function mt(t,e){return Dn.find(({name:n,there:o})=>n===e.view&&o(t))||Dn.find(({name:n,there:o})=>(n==="maps"||!W(t))&&
o(t))}var Hh=3,Dh=2,qh=1,v={data:null,selection:null,scene:null,places:null,width:0,framed:0,rail:0,lying:!1,pending:!1,
figureOfMap:null,paper:!1},Vh=430,Uh=270,Kh=4;function Gh(){let{theme:t}=document.documentElement.dataset;return(t?t==="\
dark":window.matchMedia("(prefers-color-scheme: dark)").matches)&&!v.paper}function Yh(t){w("certificate").textContent=Xs(
t),w("drawn").textContent=`Numbers on this page are rounded, with a relative error of at most ${Z(t.precision,!0)}.`,w("\
provenance").textContent=Object.entries(t.provenance).map(([e,n])=>`${e}: ${n}`).join(" · ")}function Xh(t,e){if(!W(t)&&
!ht(t))return Qe(t)?_s(t):Jt(t,0).facts;let n=t.queries.length<t.words.length?`, ${t.queries.length} of them as destinat\
ions`:"",o=(r,s)=>`${r} ${s}${r===1?"":"s"}`;return[t.model,...e?[]:[t.heading],...t.layered?[o(t.layers.length,"layer")]:
[],`${o(t.words.length,t.named?"named position":"token")}${n}`].join(" · ")}function Zh({data:t,selection:e}){let n=tt(
t,e),o=n?` ${S(n.value,!1)}${zt(n)}`:"",r=mt(t,e).name==="overview"&&!n,s=n?n.question:r?da({data:t,selection:e}):W(t)?`\
“${dn(t,e.run,300)}”`:t.heading,a=n||!W(t)?s+o:dn(t,e.run,60);V(document.querySelector("title"),[a,t.model].filter(Boolean).
join(" · ")),V(w("words-read").firstChild,s),V(w("answer"),o),V(w("facts"),Xh(t,n||r)),w("facts").title=w("facts").textContent,
w("facts").parentElement.classList.toggle("short",mt(t,e).name==="overview"),w("answer").className=n&&n.value<0?"loss":"\
gain"}async function Jh(t,e){let n=mt(t,e),o=(W(t)?[e.scope,...n.keys(t,e)]:[]).map(s=>[e.run,s]);e.ref&&o.push([e.refRun,
e.ref]),W(t)&&o.push(...pt(t).map(s=>[s,e.scope]));let r=n.tables?n.tables(t,e):[];await Promise.all([...o.map(([s,a])=>t.
load(s,a)),...r.map(t.open)])}async function Qh(t){let{data:e,selection:n}=t,o=["head","expert"].flatMap(r=>Io(t,r)).filter(
r=>!e.loaded(n.run,r));for(let r of o)await e.load(n.run,r);return o.length>0}var td=60,ed=500;function nd(t){return(t.panel||
t.ref==="")&&!it&&!v.paper?Math.max(ed,window.innerHeight)-td:0}var Yr={most:638,layers:330,least:100};function Rl(){return Math.
ceil(document.body.scrollHeight)+2}function zl(){let{data:t,selection:e}=v,n=$o(t,e);n.palette=v.palette,n.paper=n.inLine=
v.paper,n.ratio=n.paper?Kh:Math.min(3,window.devicePixelRatio||1),n.windowRoom=nd(e),n.marked=[];let{name:o}=mt(t,e);return n.
headsBlock=Nn(t)&&["heads","all","scores"].includes(o)?Y(t,e)[0]:"",n.hover=r=>{for(let s of n.marked)s(r)},n}function od(){
let t=w("figure").clientWidth;t!==v.width&&(v.framed=Yr.layers),v.width=t,v.rail=w("rail").clientWidth,v.lying=window.innerWidth<
1100}function rd(t){let{data:e,selection:n}=t,o=mt(e,n);for(let i of w("views").children)i.setAttribute("aria-selected",
String(i.dataset.view===o.name));w("further").value=w("further").querySelector(`[value=${o.name}]`)?o.name:"",w("further").
classList.toggle("chosen",w("further").value!==""),w("what").dataset.view=o.name,w("views").hidden=Dn.filter(({there:i})=>i(
e)).length<2;let r=o.fields?o.fields(t):[],s=()=>v.places.figure(t,o.name+jt(t,r,v.width)+t.framed,()=>o.draw(t,v.go,v.width));
s();let a=it&&o.name==="overview"&&!Il()?Rl()-Yr.most:0;a<=0||(t.framed=v.framed=Math.max(Yr.least,v.framed-a),s())}function _l(){
return new Promise(t=>{requestAnimationFrame(()=>setTimeout(t)),setTimeout(t,100)})}function jl(t){v.scene=t,w("bench").
dataset.view=mt(t.data,t.selection).name,od(),t.width=v.width,t.framed=v.framed,Zh(t),Na(t,mt(t.data,t.selection)),w("re\
ading").hidden=t.headsBlock!==""||v.view().name==="memories"||v.view().name==="overview"&&ht(t.data),W(t.data)&&El(t,v.go,
w("sentence"));let e=mt(t.data,t.selection).words(t);V(w("meaning"),t.paper?mn(e):e.meaning),V(w("help-drawn"),mn(e)),V(
w("headline"),e.headline),rd(t),performance.mark("picture"),document.body.dataset.state="picture"}function Fl(t){id(t),document.
body.dataset.state="drawn",cd()}async function sd(){let t=zl();jl(t),await _l(),v.scene===t&&Fl(t)}function Tl(t){v.paper=
t,document.body.classList.toggle("paper",t),Hn();let e=zl();jl(e),Fl(e)}function Il(){return!it||document.body.classList.
contains("open")}function Kr(t){let e=w("card");if(mt(t.data,t.selection).name==="graph"){Ls(t,v.go);return}let n=Bi(t,v.
go);if(!W(t.data)){e.replaceChildren(...n);return}if(ta(t,v.go,e),mt(t.data,t.selection).name==="memories"){e.replaceChildren();
return}if(mt(t.data,t.selection).name!=="overview"){e.append(...n);return}let o=n.length?[]:[p("p",{className:"said",textContent:Ut(
t).headline})];e.prepend(...o,ad(t,w("why").clientWidth),...n)}function ad(t,e){let{data:n,selection:o,maps:r}=t,s=r.length>
1?"after":"only",a={...t,selection:{...o,panel:s},windowRoom:0,beside:!0},{nodes:i,update:l}=jr(a,v.go,Math.min(e,t.paper?
Uh:Vh));l(a);let u=tt(n,o),c=[[r.length>1?"before, after, change":"larger","the maps of this layer",{view:"maps"}]];Go(n,
o)&&c.push([`in ${u.unit||"its units"}`,"contributions of the layer to the target, destinations by sources",wa(n,o)]);let f=c.
map(([d,h,m])=>{let g=p("button",{type:"button",textContent:d,title:h});return g.addEventListener("click",()=>v.go(m)),g});
return p("section",{className:"card close-up"},[p("div",{className:"aside-head"},[p("h3",{textContent:n.layered?`Layer ${o.
layer}`:"The map"}),p("span",{className:"group"},f)]),...i])}function id(t){w("figure-tools").hidden||Fe(v);let e=w("fig\
ure").querySelector(".attributed");if(e&&Vr(t,e),!W(t.data)){Kr(t);return}if(Vr(t,w("sentence")),Ol(t,w("sentence")),ea(
t,w("circuitsvis-place")),!Il())return;let{data:n,selection:o}=t,{places:r,go:s,rail:a,lying:i}=v,l=t.headsBlock||n.channels.
get(o.scope).blockName;r.rail(t,l+i+jt(t,Sl,a),()=>Al(t,s,a,i));let{axis:u}=n.block(o.scope);V(w("where-title"),`Layers \
and ${t.headsBlock?"heads":u==="scope"?"steps":`${u}s`}`),V(w("where-way"),na(t)),V(w("where-note"),t.headsBlock?"":Ur(t)),
V(w("help-layers"),Ur(t)),Kr(t),r.pairs(t,jt(t,ul(t),0),()=>fl(t,s)),Qh(t).then(c=>{c&&v.scene===t&&Kr(t)})}async function Et(){
if(document.body.dataset.state="waiting",v.pending)return;v.pending=!0,await null,v.pending=!1;let{selection:t}=v;await Jh(
v.data,t),t===v.selection&&w("figure").clientWidth>0&&sd()}var Gr={fields:"",time:-1e9};v.go=t=>{let e=Vs(v.data,v.selection,
t),n=Object.keys(t).join();if(v.selection=e,Et(),Wl(),it)return;let o=n===Gr.fields&&performance.now()-Gr.time<700;Gr={fields:n,
time:performance.now()},_l().then(()=>ld(ln(v.data,e)||"#",o))};function ld(t,e){t!==(location.hash||"#")&&history[e?"re\
placeState":"pushState"](null,"",t)}v.address=()=>it?ln(v.data,v.selection):location.href.split("#")[0]+ln(v.data,v.selection);
v.resized=Et;v.view=()=>mt(v.data,v.scene.selection);function cd(){it&&window.parent.postMessage({tlFfblock:"height",height:Rl()},
"*")}function Wl(){if(!it)return;let{run:t,scope:e,layer:n,refRun:o,ref:r,to:s,from:a}=v.selection;window.parent.postMessage(
{tlFfblock:"selection",selection:{run:v.data.runs[t].name,scope:e,layer:n,against_run:v.data.runs[o].name,against:r||null,
query:s,key:a}},"*")}function Hn(){v.palette=Ye(Gh()?"dark":"light")}function ud(){let t=Dn.filter(({there:a})=>a(v.data)),
e=v.data.runs.length>1?qh:Dh,[n,o]=t.length>Hh?[t.slice(0,e),t.slice(e)]:[t,[]];w("further").replaceChildren(Object.assign(
D("","More views"),{hidden:!0}),...o.map(({name:a,label:i})=>D(a,i))),w("further").hidden=o.length===0,w("further").addEventListener(
"change",()=>v.go({view:w("further").value})),w("views").replaceChildren(...n.map(({name:a,label:i})=>{let l=p("button",
{type:"button",textContent:i});return l.setAttribute("role","tab"),l.dataset.view=a,l.addEventListener("click",()=>v.go(
{view:a})),l})),w("more").addEventListener("click",()=>{let a=document.body.classList.toggle("open");w("more").setAttribute(
"aria-expanded",String(a)),Et()});let r=()=>{v.selection=bo(v.data,location.hash),Et()};for(let a of["popstate","hashcha\
nge","pageshow"])window.addEventListener(a,it?Et:r);let s=window.innerWidth;new ResizeObserver(()=>{w("figure").clientWidth===
v.width&&window.innerWidth===s||(s=window.innerWidth,Et())}).observe(w("figure")),Hn(),window.matchMedia("(prefers-color\
-scheme: dark)").addEventListener("change",()=>{Hn(),Et()}),window.addEventListener("message",({source:a,data:i})=>{!it||
a!==window.parent||!i||i.tlFfblock!=="theme"||(document.documentElement.dataset.theme=i.dark?"dark":"light",Hn(),Et())}),
window.addEventListener("beforeprint",()=>Tl(!0)),window.addEventListener("afterprint",()=>Tl(!1))}function fd(){v.data=
Fs(JSON.parse(w("data").textContent)),v.selection=bo(v.data,it?"":location.hash),v.places={figure:vn(w("figure")),rail:vn(
w("rail")),pairs:vn(w("pair-list"))},document.body.classList.toggle("framed",it),document.body.classList.toggle("unlayer\
ed",!v.data.layered),document.body.classList.toggle("mapless",!W(v.data)),w("search").parentElement.hidden=v.data.queries.
length===0&&!Qe(v.data),Yh(v.data),ka(v.data),Oa(),ud(),Ca(v),Qa(v),Ea(v),Wl(),Et()}fd();})();
