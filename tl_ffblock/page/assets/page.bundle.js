/* sources 4ebdc7fe618dfbc6cb456a66f1aa8adc6a281099d1776e4aafc27dfbc4e71658 */
"use strict";
"use strict";(()=>{function ct(t){if(t==null||Number.isNaN(t))return"–";let e=Math.abs(t);return e!==0&&(e<.001||e>=1e5)?t.toExponential(
1).replaceAll("-","−"):String(Number(t.toPrecision(3))).replaceAll("-","−")}function pe(t){return t==null?"–":`${t>
0?"+":""}${ct(t)}`}function Wl(t){return t>.995&&t<1?"99 %":`${Math.round(100*t)} %`}function Bn(t,e,n,o){let r=t.edges.
length-n.length,s=t.targets.length?"the absolute attributions that can be hidden":"the sizes of all edges that can be hi\
dden",a=r?`, and ${r} that are always shown`:"";return`${o} of the page's ${n.length} edges${a}: ${Wl(e.carried)} of ${s}\
. Sums in the cards include hidden edges.`}function Hn(t){return`${t.token?`${t.name}: ${t.token}`:t.name} = ${ct(t.value)}`}function qe(t){return Array.from(new Intl.Segmenter().segment(t),e=>e.segment)}function Dn(t){let e=[];return t.forEach(
(n,o)=>{o&&n===t[o-1]?e[e.length-1].push(o):e.push([o])}),e}function _l(t){return t.length===1?t[0]:t.map((e,n)=>n?e.replace(
/^##/,""):e).join("")}function Br(t,e){let n=e?Dn(t.words):t.words.map((a,i)=>[i]),o=[];n.forEach((a,i)=>a.forEach(l=>{o[l]=
i}));let r=[];t.queries.forEach((a,i)=>{let l=r.find(u=>u.own===o[a]);l?l.members.push(i):r.push({own:o[a],members:[i],position:a})});
let s=r.map(a=>a.own);return{columns:n.map(a=>({members:a,position:a[0]})),rows:r,own:s,columnOf:o,nRows:r.length,nColumns:n.
length,reaches:(a,i)=>!t.causal||i<=s[a],rowOf:a=>s.indexOf(o[a]),labels:a=>n.map(i=>_l(i.map(l=>a[l])))}}function Wt(t,e){
return t.named?"":`position ${e}`}function Ve(t,e,n){return t.named?"":`from ${Wt(t,e)} to ${Wt(t,n)}`}function ne(t,e){
return t.named?"":e}function qn(t,e){return Math.max(0,t.segments.filter(([,n])=>n<=e).length-1)}function Hr(t,e){return t.
map((n,o)=>n===e[o]?n:`${n}→${e[o]}`)}function ge(t,e,n){let o=new Float32Array(t.nRows*t.nColumns).fill(NaN);return t.
rows.forEach((r,s)=>t.columns.forEach((a,i)=>{let[l,u]=[0,!1];for(let c of r.members)for(let f of a.members){let h=e[c*n+
f];Number.isNaN(h)||(l+=h,u=!0)}u&&(o[s*t.nColumns+i]=l/r.members.length)})),o}function Dr(t,e){return Float32Array.from(
t.rows,n=>n.members.reduce((o,r)=>o+e[r],0)/n.members.length)}var be="http://www.w3.org/2000/svg",oe="system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sa\
ns-serif";function k(t,e={},n=[]){let o=document.createElementNS(be,t);for(let[r,s]of Object.entries(e))o.setAttribute(r,
s);return o.append(...n),o}function F(t,e,n,o,r){return k("rect",{x:t,y:e,width:Math.max(0,n),height:Math.max(0,o),fill:r,
"shape-rendering":"crispEdges"})}function O(t,e,n,o={}){return k("text",{x:e,y:n,"font-size":12,...o},[t])}function wt(t,e,n,o){
return O(t,e,n,{transform:`rotate(-90 ${e} ${n})`,...o})}function p(t,e={},n=[]){let o=Object.assign(document.createElement(
t),e);return o.append(...n),o}function Y(t,e){t.textContent!==e&&(t.textContent=e)}function xe(t,e,n){t.style.backgroundColor=
e?e.hex:"",t.style.color=e?e.readable:"",t.style.boxShadow=n?`inset 0 -4px ${n.hex}`:""}function Ke(t,e,n,o){let r=p("li",
{className:"chip",title:n},[p("bdi",{textContent:t}),p("span",{textContent:e})]);return xe(r,o,null),r}function w(t){return document.
getElementById(t)}var qr=document.createElement("canvas").getContext("2d"),Pl=2e4,we=new Map;function j(t,e){let n=`${e}\
 ${t}`;return we.has(n)||(we.size>Pl&&we.clear(),qr.font=`${e}px ${oe}`,we.set(n,qr.measureText(t).width)),we.get(n)}function D(t,e,n){
if(j(t,e)<=n)return t;let o=qe(t.slice(0,400));for(;o.length>1&&j(o.join("")+"…",e)>n;)o.pop();return o.join("")+"…"}
function Ue(t,e,n){let o=[""];for(let r of t.split(" ")){let s=o[o.length-1]?`${o[o.length-1]} ${r}`:r;o[o.length-1]&&j(
s,e)>n?o.push(r):o[o.length-1]=s}return o}function _t(t,e){let n=p("tr");return t.forEach((o,r)=>{let s=p("td");if(r===0&&e){let a=p("button",{type:"button",className:"\
plain",textContent:o});a.addEventListener("click",e),s.append(a)}else s.textContent=o;n.append(s)}),n}function Bl(t){return t.
label&&t.label!==t.short?`${t.short} ${t.label}`:t.short}function Vr(t,e,n,o){let r=s=>Math.abs(s.shares[o]??0);return t.
edges.filter(s=>s[n]===e).sort((s,a)=>r(a)-r(s)||Math.abs(a.size)-Math.abs(s.size))}function Kr(t,e,n,o,r,s){if(!n.length&&
!s.length)return[];let{data:a,target:i}=t,l=d=>a.targets.length?[pe(d[i])]:[],u=p("tr",{},[p("th"),p("th",{textContent:"\
size"}),...a.targets.length?[p("th",{textContent:"share"})]:[]]),c=60,f=n.slice(0,c).map(d=>_t([Bl(a.nodes[d[o]]),`${d.unit in
a.widths?"":`${d.unit} `}${ct(d.size)}`,...l(d.shares)],()=>r(d[o]))),h=n.length>c?[_t([`and ${n.length-c} more`,"",""])]:
[];return[p("h3",{textContent:e}),p("table",{},[u,...f,...h,...s.map(({name:d,size:m,shares:g})=>_t([d,m===null?"":ct(m),
...l(g)]))])]}function Hl(t,e){let{data:n,target:o}=t,r=e.facts.map(([s,a])=>_t([s,ct(a)]));if(n.targets.length){let{token:s,
name:a,value:i}=n.targets[o];r.push(_t([`share of ${a}`,`${pe(e.shares[o])} of ${ct(i)}`])),s&&e.ranks[o]&&r.push(_t([`r\
ank of ${s}`,String(e.ranks[o])]),_t([`probability of ${s}`,ct(e.probabilities[o])]))}return p("table",{},r)}function Ur(t,e,n){
let{data:o,target:r}=t;if(e===null)return[p("p",{className:"note",textContent:"Choose a node to see its tokens, inputs a\
nd outputs."})];let s=o.nodes[e],a=(s.own_shares[r]??0)!==0?[{name:"own contribution",size:null,shares:s.own_shares}]:[],
i=s.unseen?[{name:`not on this page${s.unseen>1?` (${s.unseen})`:""}`,size:null,shares:s.rest_shares}]:[],l=Vr(o,e,"targ\
et",r),u=s.says.length?[p("div",{className:"says"},s.says.map(c=>p("bdi",{textContent:c})))]:[];return[p("h2",{textContent:s.
name}),...u,Hl(t,s),...Kr(t,"Inputs",l,"source",n,[...a,...i]),...Kr(t,"Outputs",Vr(o,e,"source",r),"target",n,[])]}var Ge={width:76,widest:130,height:28,gap:4,apart:26,closest:10,lane:14,top:34,left:10,most:190};function Yr(t,e){let n=o=>t.
targets.length?Math.abs(o.weights[e]??0):o.unit in t.widths?o.size:0;return t.edges.map((o,r)=>({index:r,weight:n(o)})).
filter(({index:o})=>!t.edges[o].always).sort((o,r)=>r.weight-o.weight||o.index-r.index)}function Xr(t,e,n,o){let r=new Set(
t.edges.flatMap((l,u)=>l.always?[u]:[]));for(let{index:l}of n.slice(0,o))r.add(l);let s=new Set;for(let l of r)s.add(t.edges[l].
source).add(t.edges[l].target);let a=l=>l.reduce((u,{weight:c})=>u+c,0),i=a(n);return{edges:r,nodes:s,carried:i?a(n.slice(
0,o))/i:1}}function Gr(t,e,n){let o=new Map,r=new Set;for(let h of e.nodes){let{column:d,lane:m}=t.nodes[h];r.add(d);let g=`${m}\
/${d}`;o.has(g)||o.set(g,[]),o.get(g).push(h)}let s=[...r].sort((h,d)=>h-d),a=Array.from({length:t.lanes},()=>0);for(let[
h,d]of o)a[Number(h.split("/")[0])]=Math.max(a[Number(h.split("/")[0])],d.length);let i=n.height+n.gap,l=[],u=n.top;for(let h of a)
l.push(u),h&&(u+=h*i+n.lane);let c=new Map;for(let[h,d]of o){let[m,g]=h.split("/").map(Number),b=l[m]+Math.min(n.most,(a[m]-
d.length)*i/2);d.sort((x,y)=>x-y).forEach((x,y)=>c.set(x,{x:n.left+s.indexOf(g)*(n.width+n.apart),y:b+y*i}))}let f=2*n.left+
s.length*(n.width+n.apart)-n.apart;return{places:c,columns:s.map((h,d)=>({title:t.columns[h],x:n.left+d*(n.width+n.apart)})),
width:f,height:u,size:n}}var Dl=.7;function Zr(t,e,n,o){let r=new Set([...e.nodes].map(l=>t.nodes[l].column)).size-1,s=(o-
2*n.left-(r+1)*n.width)/Math.max(1,r),a=Gr(t,e,{...n,apart:Math.max(n.closest,Math.min(n.apart,s))}),i=Math.min(1,o/a.width);
return i<Dl?{layout:Gr(t,e,n),part:1}:{layout:a,part:i}}function Jr(t){let e={};for(let{unit:n,size:o}of t.edges)n in t.
widths&&(e[n]=Math.max(e[n]||0,Math.abs(o)));return e}function Qr(t,e){return e[t.unit]?.8+9*Math.sqrt(Math.abs(t.size)/
e[t.unit]):1.1}function ts(t,e){let n=s=>s.map(a=>Math.abs(a.shares[e]??0)).filter(a=>a>0).sort((a,i)=>a-i),o=n(t.edges.
filter(s=>!s.always)),r=o.length?o:n(t.edges);return r.length?r[Math.min(r.length-1,Math.floor(.98*r.length))]:1}function Ye(t,e,n,o){let r=new Float32Array(e);for(let s=0;s<t.nRows;s++){let a=s*t.nColumns;for(let i of n)r[a+i]=NaN;o&&
(r[a+t.own[s]]=NaN)}return r}function Kn(t,e,n,o){let r=Ye(t,e,n,o==="others");if(o==="none")return r;let{nRows:s,nColumns:a}=t,
i=o==="column"?(u,c)=>c:u=>u,l=new Float64Array(o==="column"?a:s);for(let u=0,c=0;u<s;u++)for(let f=0;f<a;f++,c++)Number.
isNaN(r[c])||(l[i(u,f)]+=r[c]);for(let u=0,c=0;u<s;u++)for(let f=0;f<a;f++,c++)l[i(u,f)]>0&&(r[c]/=l[i(u,f)]);return r}function Un(t,e,n){
let o=Ye(t,e,n,!1);return Float32Array.from(t.own,(r,s)=>{let a=0;for(let i=0;i<t.nColumns;i++)a+=o[s*t.nColumns+i]||0;return a>
0?o[s*t.nColumns+r]/a:NaN})}function Xe(t,e){let n=new Float32Array(t.length);for(let o=0;o<t.length;o++)n[o]=t[o]-e[o];
return n}function S(t){let e=0;for(let n of t)Math.abs(n)>e&&(e=Math.abs(n));return e}function Vn(t,e,n,o=0){let r=new Float32Array(
e.length),s=0;for(let a=0,i=0;a<t.nRows;a++){let l=s;for(let u=0;u<t.nColumns;u++,i++)!Number.isNaN(e[i])&&(n||t.own[a]!==
u)&&(r[s++]=Math.abs(e[i]));s-l<o&&(s=l)}return r.subarray(0,s)}function ye(t,e){let[n,o]=[0,t.length-1];for(;n<o;){let r=t[n+
o>>1],[s,a]=[n,o];for(;s<=a;){for(;t[s]<r;)s++;for(;t[a]>r;)a--;if(s>a)break;[t[s],t[a]]=[t[a],t[s]],s++,a--}if(e<=a)o=a;else if(e>=
s)n=s;else break}return t[e]}var re=20,ql=3;function Et(t,e,n,o=!1){let r=n==="all",s=o&&!r?Vn(t,e,!1,ql):[],a=s.length?
s:Vn(t,e,r),i=a.length?a:Vn(t,e,!0);return n!=="percentile"?S(i):ye(i,Math.floor(.99*(i.length-1)))||S(i)}function Pt(t,e,n){
let o=e>0?Math.min(1,Math.abs(t)/e):0;return n?Math.sqrt(o):o}function es(t,e,[n,o,r,s],a,i){let l=new Float32Array(a*i).
fill(NaN),[u,c]=[o-n+1,s-r+1];if(u===i&&c===a){for(let m=0;m<u;m++)l.set(t.subarray((n+m)*e+r,(n+m)*e+s+1),m*c);return l}
let f=(m,g)=>Array.from({length:m},(b,x)=>{let y=Math.floor(x*g/m);return[y,Math.max(y+1,Math.floor((x+1)*g/m))]}),[h,d]=[
f(u,i),f(c,a)];for(let m=0;m<u;m++)for(let g=0;g<c;g++){let b=t[(n+m)*e+r+g];if(!Number.isNaN(b))for(let x=h[m][0];x<h[m][1];x++)
for(let y=d[g][0];y<d[g][1];y++){let v=x*a+y;Math.abs(l[v])>=Math.abs(b)||(l[v]=b)}}return l}var ke={light:{paper:"#ffffff",ink:"#17202a",grey:"#5b6672",line:"#8b95a1",out:"#f1f3f5",hatch:"#d9dee3",contribution:"#\
003f5c",gain:"#b35806",loss:"#6a5fc0",bias:"#4a4f57",mark:"#17202a",read:"#d0106f"},dark:{paper:"#14191f",ink:"#e8edf2",
grey:"#a3adb8",line:"#66717d",out:"#1c232b",hatch:"#323c47",contribution:"#9fd8f5",gain:"#f0933f",loss:"#a398f0",bias:"#\
c3cad2",mark:"#ffffff",read:"#ff6ab0"}};function se(t){return[1,3,5].map(e=>parseInt(t.slice(e,e+2),16))}function Vl(t){
return"#"+t.map(e=>e.toString(16).padStart(2,"0")).join("")}var as=[.95047,1,1.08883],is=[[.4124564,.3575761,.1804375],[
.2126729,.7151522,.072175],[.0193339,.119192,.9503041]],Kl=[[3.2404542,-1.5371385,-.4985314],[-.969266,1.8760108,.041556],
[.0556434,-.2040259,1.0572252]];function Yn(t,e){return t.map(n=>n.reduce((o,r,s)=>o+r*e[s],0))}function ls(t){return t.
map(e=>e/255<=.04045?e/255/12.92:((e/255+.055)/1.055)**2.4)}function ns(t){let[e,n,o]=Yn(is,ls(t)).map((r,s)=>r/as[s]).map(
r=>r>.008856451679035631?Math.cbrt(r):(903.2962962962963*r+16)/116);return[116*n-16,500*(e-n),200*(n-o)]}function Ul([t,
e,n]){let o=(t+16)/116,r=[o+e/500,o,o-n/200].map((a,i)=>as[i]*(a**3>216/24389?a**3:(116*a-16)*27/24389)),s=a=>a<=.0031308?
12.92*a:1.055*a**(1/2.4)-.055;return Yn(Kl,r).map(a=>Math.round(255*Math.min(1,Math.max(0,s(Math.max(0,a))))))}var vt=256;
function Gl(t,e){let[n,o]=[ns(se(t)),ns(se(e))];return Array.from({length:vt+1},(r,s)=>Ul(n.map((a,i)=>a+(o[i]-a)*(s/vt))))}
function os([t,e,n]){return(255<<24|n<<16|e<<8|t)>>>0}var Gn=new Map;function Ze(t){return Gn.has(t)||Gn.set(t,Yl(t)),Gn.
get(t)}function Yl(t){let e=ke[t],o=["contribution","gain","loss","bias"].map(a=>[a,Gl(e.paper,e[a])]),r=Object.fromEntries(
o.map(([a,i])=>[a,Uint32Array.from(i,os)])),s=Object.fromEntries(o.map(([a,i])=>[a,i.map(l=>({rgb:l,hex:Vl(l),readable:Xn(
l)}))]));return{...e,name:t,ramps:s,shades:r,outside:os(se(e.out))}}function Xl(t,e){return e==="signed"?t<0?"loss":"gai\
n":e}function rt(t,e,n,o,r=0){return t.ramps[Xl(e,o)][Math.round(Pt(e,n,r)*vt)]}var rs=["#17202a","#ffffff","#000000"],Zl=4.5;
function ss(t){return Yn([is[1]],ls(t))[0]}function Xn(t){let e=ss(t),n=o=>{let r=ss(se(o));return(Math.max(r,e)+.05)/(Math.
min(r,e)+.05)};return rs.find(o=>n(o)>=Zl)||rs[2]}var Jn=11,Zn=9.5;function us({nodes:t}){return{...Ge,width:Math.ceil(Math.min(Ge.widest,Math.max(Ge.width,...t.map(({short:e})=>j(
e,Jn)+6))))}}function $e(t,e,n,o=0){if(!e)return t.line;let r=Math.round(vt*Math.max(o,Math.sqrt(Math.min(1,Math.abs(e)/
n))));return t.ramps[e>0?"gain":"loss"][r].hex}function Jl(t,e){return e?t.ramps.contribution[Math.round(vt*Math.max(.04,
1-Math.log10(e)/4.7))].hex:t.paper}function Qe({palette:t,flattest:e},n){return t.ramps.contribution[Math.round(vt*Math.
max(.04,1-n/(e||1)))].hex}function Qn(t,e){let{data:n,palette:o,target:r,limit:s}=t;if(t.inks!=="entropy")return n.targets.
length?$e(o,e.shares[r],s,.22):o.line;let{entropy:a}=n.nodes[e.source];return a===null||!(e.unit in n.widths)?o.line:Qe(
t,a)}function to(t,e){return t.inks==="entropy"?e.entropy===null?t.palette.paper:Qe(t,e.entropy):t.inks==="rank"&&t.data.
targets.length?Jl(t.palette,e.ranks[t.target]):e.shares.length&&e.shares[t.target]?$e(t.palette,e.shares[t.target],t.limit):
t.palette.paper}function Ql(t,e){let{data:n,layout:o}=t,r=n.edges[e],{size:s,places:a}=o,[i,l]=[a.get(r.source),a.get(r.
target)],[u,c,f,h]=[i.x+s.width,i.y+s.height/2,l.x,l.y+s.height/2],d=Math.max(s.apart/2,(f-u)/2),m=k("path",{class:"grap\
h-edge",d:`M${u} ${c}C${u+d} ${c} ${f-d} ${h} ${f} ${h}`,fill:"none",stroke:Qn(t,r),"stroke-width":Qr(r,t.largest),"stro\
ke-opacity":.8});return r.unit in n.widths||m.setAttribute("stroke-dasharray","4 3"),m.dataset.edge=e,m}function tc(t,e){
let n=t.data.nodes[e],o=t.layout.places.get(e);if(!n.unseen)return[];let r=n.rest_shares[t.target]||0,s=o.y+t.layout.size.
height-5;return[k("path",{class:"graph-edge",d:`M${o.x-14} ${s+9}L${o.x} ${s}`,stroke:t.inks==="entropy"?t.palette.line:
$e(t.palette,r,t.limit,.22),"stroke-width":2,"stroke-dasharray":"2 2"})]}function ec(t,e){let{data:n,layout:o,palette:r}=t,
s=n.nodes[e],{x:a,y:i}=o.places.get(e),{width:l,height:u}=o.size,c=to(t,s),f=Xn(se(c)),h=n.targets.length&&s.shares[t.target]?
pe(s.shares[t.target]):"",m=[s.label&&D(s.label,Zn,l-6-j(` ${h}`,Zn)),h].filter(Boolean).join(" "),g=`${s.label} ${s.name}`,
b=k("g",{class:"graph-node",transform:`translate(${a} ${i})`,role:"img","aria-label":g},[k("rect",{width:l,height:u,rx:4,
fill:c,stroke:r.line}),O(D(s.short,Jn,l-6),l/2,m?12:18,{"font-size":Jn,"text-anchor":"middle",fill:f})]);return m&&b.append(
O(m,l/2,24,{"font-size":Zn,"text-anchor":"middle",fill:f})),b.dataset.node=e,b}var Je=29;function fs(t,{title:e,x:n}){let{
width:o,apart:r}=t.layout.size;return e.split(`
`).map((s,a)=>O(D(s,10,o+r-4),n+o/2,12+12*a,{"font-size":10,"text-anchor":"middle",fill:t.palette.grey}))}function hs(t){
let{layout:e,palette:n,part:o}=t,r=k("svg",{class:"headings",width:e.width*o,height:Je*o,viewBox:`0 0 ${e.width} ${Je}`,
"font-family":oe,"aria-hidden":"true"},[F(0,0,e.width,Je,n.paper),...e.columns.flatMap(s=>fs(t,s))]);return r.style.marginBottom=
`${-Je*o}px`,r}function eo(t){let{data:e,layout:n,shown:o,palette:r,part:s}=t,a=[...o.edges].sort((i,l)=>Math.abs(e.edges[i].
shares[t.target]||0)-Math.abs(e.edges[l].shares[t.target]||0));return k("svg",{xmlns:be,width:n.width*s,height:n.height*
s,viewBox:`0 0 ${n.width} ${n.height}`,"font-family":oe},[F(0,0,n.width,n.height,r.paper),...n.columns.flatMap(i=>fs(t,i)),
...[...o.nodes].flatMap(i=>tc(t,i)),...a.map(i=>Ql(t,i)),...[...o.nodes].map(i=>ec(t,i))])}var cs=900;function ds(t,{columns:e,
places:n,width:o,size:r}){if(o<=cs)return[t];let s=r.width+r.apart,a=Math.floor((cs-2*r.left+r.apart)/s);return e.map((l,u)=>u).
filter(l=>l%(a-1)===0&&l+1<e.length).map(l=>{let u=t.cloneNode(!0),c=e[l].x-r.left,f=Math.min(a,e.length-l)*s-r.apart+2*
r.left,d=Math.max(...[...n.values()].filter(({x:m})=>m>=c&&m<c+f).map(({y:m})=>m))+r.height+r.lane;for(let[m,g]of Object.
entries({viewBox:`${c} 0 ${f} ${d}`,width:f,height:d}))u.setAttribute(m,g);return u})}function no(t,e,n){t.classList.toggle(
"lit",n!==null);let o=new Set([n]);for(let r of t.querySelectorAll("[data-edge]")){let s=e.edges[r.dataset.edge],a=n!==null&&
(s.source===n||s.target===n);r.classList.toggle("lit",a),a&&o.add(s.source).add(s.target)}for(let r of t.querySelectorAll(
"[data-node]"))r.classList.toggle("lit",o.has(Number(r.dataset.node)))}var ms={least:48,most:120};function ps(t,e){let{layout:n,shown:o,palette:r,data:s}=t,{size:a,places:i}=n,l=d=>[i.get(d).
x+a.width/2,i.get(d).y+a.height/2],u=[...o.edges].map(d=>{let m=s.edges[d],[[g,b],[x,y]]=[l(m.source),l(m.target)];return k(
"line",{x1:g,y1:b,x2:x,y2:y,stroke:Qn(t,m),"vector-effect":"non-scaling-stroke"})}),c=[...o.nodes].map(d=>F(i.get(d).x,i.
get(d).y,a.width,a.height,to(t,s.nodes[d]))),f=Math.max(ms.least,Math.min(ms.most,n.height*e/n.width)),h=k("rect",{class:"\
graph-window",fill:r.ink,"fill-opacity":.08,stroke:r.ink,"vector-effect":"non-scaling-stroke"});return k("svg",{width:e,
height:f,viewBox:`0 0 ${n.width} ${n.height}`,preserveAspectRatio:"none"},[F(0,0,n.width,n.height,r.paper),...u,...c,h])}
function oo(t,e,n){let o={x:e.scrollLeft,y:e.scrollTop,width:Math.min(e.clientWidth,n.width),height:Math.min(e.clientHeight,
n.height)};for(let[r,s]of Object.entries(o))t.querySelector(".graph-window").setAttribute(r,s)}function gs(t,e,n,o){let r=t.
getBoundingClientRect();e.scrollLeft=(o.clientX-r.left)/r.width*n.width-e.clientWidth/2,e.scrollTop=(o.clientY-r.top)/r.
height*n.height-e.clientHeight/2}function tn(t,e){return Object.values(t.runs[e].blocks).find(({kind:n})=>n==="graph")}function en(t){return tn(t,0)!==void 0}
var nc=18;function Bt(t){let{selection:e,palette:n}=t,o=tn(t.data,e.run),r=Math.min(e.target,Math.max(0,o.targets.length-
1)),s=Yr(o,r),a=Math.min(s.length,e.amount<0?o.shown:e.amount),i=Xr(o,r,s,a),l=t.paper||!t.width?1/0:t.width-nc;return{data:o,
target:r,order:s,amount:a,shown:i,palette:n,inks:e.inks,...Zr(o,i,us(o),l),limit:ts(o,r),largest:Jr(o),flattest:S(o.nodes.
map(({entropy:u})=>u??0))}}function ro({data:t,shown:e,order:n},o){if(o<0||e.nodes.has(o))return{node:o};let r=n.findIndex(
({index:s})=>t.edges[s].source===o||t.edges[s].target===o);return r<0?{node:o}:{node:o,amount:r+1}}function ws({nodes:t},e){
let n=e.trim().toLowerCase(),o=r=>n&&[r.label,r.name,r.short,...r.says].some(s=>s.toLowerCase().includes(n));return t.flatMap(
(r,s)=>o(r)?[s]:[])}function bs(t,e){let n=Bt(t),o=ws(n.data,e);return o.length?ro(n,o.find(r=>r>t.selection.node)??o[0]):
null}function so(t,e){let{data:n,shown:o}=Bt(t),r=new Set(ws(n,e));for(let a of document.querySelectorAll("[data-node]"))
a.classList.toggle("found",r.has(Number(a.dataset.node)));let s=[...r].filter(a=>o.nodes.has(a)).length;return e.trim()?
`${s} shown${r.size>s?`, ${r.size-s} hidden`:""}`:""}function oc({layout:{places:t},shown:e},n,o){let r=t.get(n);if(!r)return Math.
min(...e.nodes);let s={ArrowRight:(i,l)=>[i,l],ArrowLeft:(i,l)=>[-i,l],ArrowDown:(i,l)=>[l,i],ArrowUp:(i,l)=>[-l,i]}[o],
a={index:n,distance:1/0};for(let[i,l]of t){let[u,c]=s(l.x-r.x,l.y-r.y),f=u+2*Math.abs(c);u>1&&f<a.distance&&(a={index:i,
distance:f})}return a.index}function rc(t){let{data:e,palette:n,limit:o,target:r}=t,s=h=>[1,.75,.5,.25,.1,1e-6].map(d=>$e(
n,h*d*o,o)),a=p("span",{className:"ramp"});a.style.background=`linear-gradient(to right, ${[...s(-1),...s(1).reverse()].
join(", ")})`;let i=p("span",{className:"ramp"});i.style.background=`linear-gradient(to right, ${[0,.25,.5,.75,1].map(h=>Qe(
t,h*t.flattest)).join(", ")})`;let l=e.nodes.some(({shares:h})=>Math.abs(h[r]??0)>o*1.0001),u=e.targets.length?[p("span",
{},[`share ${l?"≤ ":""}−${ct(o)}`,a,`${l?"≥ ":""}+${ct(o)}`])]:[],c=e.edges.some(h=>!(h.unit in e.widths))?[p("spa\
n",{textContent:"dashed: a number, not a width"})]:[];return[...t.inks==="entropy"?[p("span",{},["entropy of a node's to\
kens; an edge has that of its source: 0",i,`${ct(t.flattest)} nats`])]:u,p("span",{textContent:`width: ${Object.values(e.
widths).join("; ")}`}),...c]}function sc({data:t,selection:e},{position:n}){let o=t.runs[e.run].tokens;return p("p",{className:"\
graph-text"},o.flatMap((r,s)=>[p(s===n?"b":"bdi",{textContent:r})," "]))}function ac({data:t},e){let n=(c,f,h,d)=>{let m=p(
"select",{autocomplete:"off"},f.map(([g,b])=>p("option",{value:String(g),textContent:b})));return m.addEventListener("ch\
ange",()=>e({[h]:d(m.value)})),{select:m,label:p("label",{className:"group",hidden:f.length<1},[`${c} `,m])}},o=n("targe\
t",t.targets.map((c,f)=>[f,Hn(c)]),"target",Number),r=[["share",t.targets.length?"share of the target":"nothing"],...t.targets.
some(({token:c})=>c)?[["rank","rank of the target's token (nodes)"]]:[],...t.nodes.some(({entropy:c})=>c!==null)?[["entr\
opy","entropy of the tokens"]]:[]],s=n("coloured by",r.length>1?r:[],"inks",String),a=p("input",{type:"range",min:"0",step:"\
1",autocomplete:"off",className:"amount"});a.addEventListener("input",()=>e({amount:Number(a.value)}));let i=p("span",{className:"\
note shown"});return i.setAttribute("role","status"),o.select.classList.add("target"),{host:p("div",{className:"graph-co\
ntrols"},[o.label,s.label,p("label",{className:"group"},["shown ",a]),i]),tell:c=>{o.select.value=String(c.target),s.select.
value=c.inks,a.max=String(c.order.length),a.value=String(c.amount),i.textContent=Bn(c.data,c.shown,c.order,c.amount)}}}function ic(t,{
layout:{places:e,size:n},part:o},r,s=!1){if(!e.has(r))return;let[a,i,l,u]=[e.get(r).x,e.get(r).y,n.width,n.height].map(c=>c*
o);(s||a<t.scrollLeft||a+l>t.scrollLeft+t.clientWidth)&&(t.scrollLeft=a+l/2-t.clientWidth/2),(s||i<t.scrollTop||i+u>t.scrollTop+
t.clientHeight)&&(t.scrollTop=i+u/2-t.clientHeight/2)}function xs(t,e,n){w("card").replaceChildren(p("section",{className:"\
card node-card"},Ur(t,e<0?null:e,o=>n(ro(t,o)))))}function ys(t,e){xs(Bt(t),t.selection.node,e)}function lc(t,e,n){let o=r=>{
let s=r.target.closest("[data-node]");return s?Number(s.dataset.node):-1};t.addEventListener("click",r=>n(ro(e.drawn,o(r)))),
t.addEventListener("pointerover",r=>{if(e.scene.selection.node>=0)return;let s=o(r);no(e.picture,e.drawn.data,s<0?null:s),
xs(e.drawn,s,n)}),t.addEventListener("keydown",r=>{if(r.key==="Escape")n({node:-1});else if(r.key.startsWith("Arrow")&&!r.
altKey)n({node:oc(e.drawn,e.scene.selection.node,r.key)});else return;r.preventDefault(),r.stopPropagation()}),t.addEventListener(
"scroll",()=>{e.small&&oo(e.small,t,e.drawn.layout)});for(let r of["pointerdown","pointermove"])e.above.addEventListener(
r,s=>{s.buttons&&e.small&&gs(e.small,t,e.drawn.layout,s)})}function ks(){return["run"]}function cc({meaning:t,certificate:e}){
return p("details",{className:"note"},[p("summary",{textContent:"What is drawn"}),p("p",{textContent:`${t} ${e}`})])}function $s(t,e,n){
let o=p("div",{className:"graph",tabIndex:0}),[r,s]=[p("div",{className:"note graph-legend"}),p("div",{className:"graph-\
overview"})];o.setAttribute("role","application"),o.setAttribute("aria-label","graph; arrow keys choose a node, Escape n\
one"),s.setAttribute("aria-hidden","true");let a={scene:t,drawn:Bt(t),picture:null,small:null,above:s,made:"",opened:!1},
i=ac(a.drawn,e),l=()=>{let{drawn:c}=a;a.picture=eo(c),o.replaceChildren(...a.scene.paper?ds(a.picture,c.layout):[hs(c),a.
picture]),a.small=c.layout.width*c.part>n?ps(c,n):null,s.replaceChildren(...[a.small].filter(Boolean)),s.hidden=!a.small,
r.replaceChildren(...rc(c)),i.tell(c)},u=c=>{let{target:f,amount:h,inks:d,node:m}=c.selection,g=JSON.stringify([f,h,d,c.
palette.name,c.paper]);Object.assign(a,{scene:c,drawn:Bt(c)}),g!==a.made&&l(),a.made=g;for(let b of a.picture.querySelectorAll(
"[data-node]"))b.classList.toggle("chosen",Number(b.dataset.node)===m);no(a.picture,a.drawn.data,a.drawn.shown.nodes.has(
m)?m:null),so(c,w("search").value),requestAnimationFrame(()=>{ic(o,a.drawn,m>=0||a.opened?m:a.drawn.data.start,!a.opened),
a.opened=!0,a.small&&oo(a.small,o,a.drawn.layout)})};return lc(o,a,e),{nodes:[...t.data.channels.size?[]:[sc(t,a.drawn.data)],
i.host,r,s,o,cc(a.drawn.data)],update:u}}function vs(t){let{data:e,target:n,shown:o,order:r,amount:s}=Bt(t),a=e.targets.
length?`; ${Hn(e.targets[n])}`:"";return{headline:`${e.heading}${a}`,meaning:`${e.meaning.split(". ")[0].replace(/\.$/,"")}\
.`,place:"",shown:"a graph of components",remark:[...e.meaning.split(". ").slice(1),Bn(e,o,r,s)].join(". "),note:e.certificate,
exact:!1,method:"",file:["graph",e.heading.replace(/[^\w.-]+/g,"_").slice(0,60)]}}function Ms(t,e){let n=Bt(t),o=Math.min(
1,e/n.layout.width),r=[k("g",{transform:`scale(${o})`},[...eo(n).childNodes])];return{groups:[{x:0,y:0,pictures:[],nodes:r}],
height:o*n.layout.height}}function Ns(t){let e=tn(t.data,t.selection.run),n=function*(){for(let{source:o,target:r,unit:s,
size:a,shares:i}of e.edges)yield[e.nodes[o].name,e.nodes[r].name,s,a,...i]};return{head:["source","target","unit","size",
...e.targets.map(({name:o})=>`share of ${o}`)],lines:n,count:e.edges.length}}function Cs(t){let{nodes:e,edges:n}=tn(t,0),
o=(r,s)=>`${r} ${s}${r===1?"":"s"}`;return`${t.model} · ${o(e.length,"node")} · ${o(n.length,"edge")} · ${o(t.words.length,
"token")}`}function io(t){let{fromBase64:e}=Uint8Array;if(e)return e.call(Uint8Array,t);let n=atob(t),o=new Uint8Array(n.length);for(let r=0;r<
n.length;r++)o[r]=n.charCodeAt(r);return o}async function ve(t){let e=new Blob([io(t)]).stream().pipeThrough(new DecompressionStream(
"deflate"));return new Uint8Array(await new Response(e).arrayBuffer())}function lo(t,e,n,o){let r=t.length/e.bytes,s=new Uint16Array(
r/e.low.length);for(let a=0,i=n*s.length;a<s.length;a++,i++){let l=e.bytes===2?t[i]*256+t[r+i]:t[i];s[a]=o?o[a]+(l%2?-(l+
1)/2:l/2):l}return s}function co(t,e,n){let o=256**e.bytes-1,r=e.signed?(o-1)/2:o-1,s=new Float32Array(t.length);for(let a=0;a<
t.length;a++){let i=t[a];if(i===0)continue;if(i===o){s[a]=NaN;continue}let l=i>r,u=Math.exp(e.low[n]+e.step[n]*(i-1-(l?r:
0)));s[a]=l?-u:u}return s}function ao(t){return t.replaceAll("-","−")}var uc=" %";function R(t,e=3){if(!Number.isFinite(
t))return"–";let n=Math.abs(t);return t===0?"0":n>=1e5||n<1e-4?ao(t.toExponential(e-1)):ao(n>=10**(e+1)?String(Math.round(
t)):String(Number(t.toPrecision(e))))}function H(t,e=3){return Number.isFinite(t)?R(100*t,e)+uc:"–"}function nn(t,e=3){
if(!Number.isFinite(t))return"–";let n=R(100*t,e);return`${n} point${/^−?1$/.test(n)?"":"s"}`}function L(t,e,n=3){let o=e?
nn(t,n):R(t,n);return t>0?`+${o}`:o}var fc=[8,6,5,4,3,2.5,2,1.5,1];function Os(t){let e=10**Math.floor(Math.log10(t)+1e-9);
return e*fc.find(n=>n*e<=t*(1+1e-8))}function X(t,e,n=!1){return e?n?nn(t,2):H(t,2):R(t,2)}function Me(t){return t===0?"\
0":ao(t.toExponential(1))}function K(t,e,n){return e===Object.keys(t.runs[0].blocks)[0]?n:`${e}: ${n}`}function hc(t){let e=new Map;for(let[n,o]of Object.
entries(t.runs[0].blocks))o.kind==="maps"&&o.channels.forEach((r,s)=>{let a=K(t,n,r.name);e.set(a,{...r,key:a,index:s,blockName:n,
before:r.before&&K(t,n,r.before)})});return e}function bt(t,e){return Object.entries(t.runs[0].blocks).filter(([,n])=>n.
kind==="maps"&&(!e||n.axis===e))}function Ne(t){return Object.values(t.runs[0].blocks).filter(({kind:e})=>e==="effects")}
function rn(t,e,...n){let o=t.tables[e];if(!o)return NaN;let r=o.values;for(let[s,a]of o.axes.entries())if(r=r[a.indexOf(
n[s])],r==null)return NaN;return r}function mt(t){return t.runs.map(({name:e})=>e).join()==="mean,low,high"?[1,2]:[]}function sn(t,e,n,o){
let r=e===0?mt(t):[];return r.length&&r.every(s=>t.loaded(s,n))?r.map(s=>t.matrix(s,n,o)):null}function _(t){return t.channels.
size>0}function uo(t,e){let n=t.words.length,o=new Float32Array(t.queries.length*n).fill(NaN),r=0;return t.queries.forEach(
(s,a)=>{let i=t.causal?s+1:n;o.set(e.subarray(r,r+i),a*n),r+=i}),o}function dc(t){let e=new Map,n=0;return(o,r)=>{let s=e.
get(o),a=s||r();s?e.delete(o):n+=a.length,e.set(o,a);for(let[i,{length:l}]of e){if(n<=t||i===o)break;e.delete(i),n-=l}return a}}
function on(){let[t,e]=[null,null];return(n,o)=>(n!==t&&([t,e]=[n,o()]),e)}var mc=2**24;function Es(t){let e={...t,latestAxes:on(),
latestMaps:on(),channels:hc(t)},n=new Map,o=new Map,r=dc(mc),s=($,N,C)=>[$,N,C].join(`
`),a=($,N,C)=>{let T=e.channels.get(N),E=e.runs[$].blocks[T.blockName];return C==="values"?E.values[T.name]:E.columns[C]&&
E.columns[C][T.name]},i=($,N)=>N.reference&&K(e,e.channels.get($).blockName,N.reference),l=async($,N,C)=>{let T=a($,N,C),
E=i(N,T),[A]=await Promise.all([ve(T.packed),E&&u($,E,C)]);o.set(s($,N,C),A)},u=($,N,C)=>{let T=s($,N,C);return n.has(T)||
n.set(T,l($,N,C)),n.get(T)},c=($,N,C,T)=>{let E=a($,N,C),A=i(N,E);return lo(o.get(s($,N,C)),E,T,A?c($,A,C,T):null)},f=($,N,C,T)=>{
let E=e.layers.indexOf(T);return r([s($,N,C),E].join(`
`),()=>{let A=co(c($,N,C,E),a($,N,C),E);return C==="values"?uo(e,A):A})},h=($,N)=>{let C=e.runs[$].blocks[e.channels.get(
N).blockName];return Promise.all(["values",...Object.keys(C.columns)].map(T=>u($,N,T)))},d=new Map;return Object.assign(
e,{load:h,open:async $=>{d.has($)||d.set($,await ve($.packed))},numbersAt:($,N)=>co(lo(d.get($),$,N,null),$,N),loaded:($,N)=>o.
has(s($,N,"values")),matrix:($,N,C)=>f($,N,"values",C),column:($,N,C,T)=>a($,N,C)?f($,N,C,T):null,block:$=>e.runs[0].blocks[e.
channels.get($).blockName]})}var pc=["others","row","column","none"],gc=["percentile","off-diagonal","all"],wc=["","special","first","special first"],
bc=["","before","after","difference"],xc=["change","share","distance"],yc=["heads","edges","neurons","tokens","sources",
"biases","pairs"],kc=["contributes","removed","place"],$c=/^[\d.]{0,400}$/,vc=/^\d-\d$/,Mc=/^\d{1,5}-\d{1,5},\d{1,5}-\d{1,5}$/,
Nc=["overview","maps","heads","all","scores","memories","numbers","graph"];function Cc(t,e){return Number.isInteger(e)&&
e>=0&&e<t.words.length}function ho(t,e){let[n,o]=e.split("-").map(Number);return vc.test(e)&&Math.max(n,o)<t.segments.length&&
(!t.causal||o<=n)}function an(t){return(e,n)=>Number.isInteger(n)&&n>=t&&n<1e6}var fo={run:(t,e)=>Number.isInteger(e)&&e>=
0&&e<t.runs.length,scope:(t,e)=>t.channels.has(e),layer:(t,e)=>t.layers.includes(e),refRun:(t,e)=>Number.isInteger(e)&&e>=
0&&e<t.runs.length,ref:(t,e)=>e===""||t.channels.has(e),to:(t,e)=>t.queries.includes(e),from:Cc,read:(t,e)=>e==="row"||e===
"column",view:(t,e)=>Nc.includes(e),heads:(t,e)=>$c.test(e),between:(t,e)=>e===""||ho(t,e),block:(t,e)=>e===""||Object.hasOwn(
t.runs[0].blocks,e),cells:(t,e)=>pc.includes(e)&&(e!=="column"||t.queries.length===t.words.length),range:(t,e)=>gc.includes(
e),root:(t,e)=>e===0||e===1,each:(t,e)=>e===0||e===1,words:(t,e)=>e===0||e===1,hide:(t,e)=>wc.includes(e),panel:(t,e)=>bc.
includes(e),zoom:(t,e)=>e===""||Mc.test(e),sort:(t,e)=>xc.includes(e),pairs:(t,e)=>e==="all"||e==="token",mass:(t,e)=>Number.
isInteger(e)&&e>=1&&e<=100,find:(t,e)=>typeof e=="string"&&e.length<=60,neuron:an(-1),list:(t,e)=>yc.includes(e),order:(t,e)=>kc.
includes(e),node:an(-1),amount:an(-1),target:an(0),inks:(t,e)=>["share","rank","entropy"].includes(e)};function ln(t,e,n,o){
return n!==o||!_(t)?e:t.channels.get(e).before||""}function Oc(t){return t.causal?Math.max(...t.queries):t.words.length-
1}function Ec(t,e){return!e||!Ht(e)?"none":e.cells==="others"&&Oc(t)<2?"row":e.cells}var Lc=60;function Sc(t){let{scope:e,
run:n,refRun:o}=t.start;return _(t)&&ln(t,e,n,o)!==""&&!t.block(e).signed&&t.words.length>=Lc?"difference":""}function Ss(t){
let{scope:e,layer:n,to:o,from:r,run:s,refRun:a,view:i,heads:l}=t.start;return{run:s,scope:e,layer:n,refRun:a,ref:ln(t,e,
s,a),to:o,from:r,read:"row",view:i,heads:l,between:"",block:"",cells:Ec(t,_(t)&&t.block(e)),range:t.words.length>=re?"pe\
rcentile":"off-diagonal",root:0,each:0,words:0,hide:"",panel:Sc(t),zoom:"",sort:"change",pairs:"all",mass:100,find:"",neuron:-1,
list:"heads",order:"contributes",node:-1,amount:-1,target:0,inks:"share"}}function Ht(t){return!t.signed&&t.whole}function cn(t,{
scope:e,ref:n}){return _(t)&&Ht(t.block(e))&&(n===""||Ht(t.block(n)))}function As(t,e,n){let o={...e,...n};return["scope",
"run","refRun"].some(s=>s in n&&n[s]!==e[s])&&!("ref"in n)&&(e.ref===ln(t,e.scope,e.run,e.refRun)||e.run===e.refRun!=(o.
run===o.refRun))&&(o.ref=ln(t,o.scope,o.run,o.refRun)),o.ref===o.scope&&o.run===o.refRun&&(o.ref=""),cn(t,o)||(o.cells="\
none"),("words"in n||"hide"in n)&&(o.zoom=""),o}function un(t,e){let n=Ss(t),o=Object.keys(fo).filter(r=>e[r]!==n[r]).map(
r=>`${r}=${encodeURIComponent(e[r])}`);return o.length?`#${o.join("&")}`:""}function mo(t,e){let n=Ss(t),o={...n};for(let r of e.
replace(/^#/,"").split("&")){let[s,a]=r.split("=");if(!Object.hasOwn(fo,s)||a===void 0)continue;let i=typeof n[s]=="numb\
er"?Number(Ls(a)):Ls(a);fo[s](t,i)&&(o[s]=i)}return cn(t,o)||(o.cells="none"),o}function Ls(t){try{return decodeURIComponent(
t)}catch{return""}}function Ts(t,e,n){let o=new Set;if(n.includes("special"))for(let r of t.special)o.add(e.columnOf[r]);
return n.includes("first")&&o.add(0),o}function fn(t,e){let n=[0,t.nRows-1,0,t.nColumns-1],o=e.split(/[-,]/).map(Number);
if(e===""||o.length!==4)return n;let r=(c,f)=>Math.max(0,Math.min(f,c)),[s,a,i,l]=o,u=[r(s,n[1]),r(a,n[1]),r(i,n[3]),r(l,
n[3])];return u[0]<=u[1]&&u[2]<=u[3]?u:n}function po([t,e,n,o]){return`${t}-${e},${n}-${o}`}function go(t,e){let[n,o,r,s]=fn(
t,e.zoom),a=(l,u,c,f)=>{let h=Math.max(4,Math.ceil((u-l+1)/2)),d=Math.max(0,Math.min(c-Math.floor(h/2),f-h+1));return[d,
Math.min(f,d+h-1)]},i=Math.max(0,t.rowOf(e.to));return po([...a(n,o,i,t.nRows-1),...a(r,s,t.columnOf[e.from],t.nColumns-
1)])}function Rs(t,e,n){let o=e.trim().toLowerCase();if(o==="")return-1;if(/^\d+$/.test(o)&&Number(o)<t.length)return Number(
o);for(let r=1;r<=t.length;r++){let s=(n+r)%t.length;if(t[s].toLowerCase().includes(o))return s}return-1}function wo(t,e,n,o){let{data:r,axes:s,selection:a,hidden:i}=t,l=g=>a.words?ge(s,g,r.words.length):g,u=g=>g&&(a.words?Dr(
s,g):g),c=l(r.matrix(e,n,a.layer)),f=Object.keys(r.block(n).columns),h=Object.fromEntries(f.map(g=>[g,u(r.column(e,n,g,a.
layer))]));a.cells==="others"&&(h.own=Un(s,c,i));let d=Kn(s,c,i,a.cells),m=r.block(n).shares||a.cells;return{role:o,key:n,
run:e,raw:c,columns:h,cells:d,shares:m,asShare:m!=="none",limit:Et(s,d,a.range,m==="others"||m==="row"),top:S(d),scale:r.
block(n).signed?"signed":"contribution",labels:s.labels(r.runs[e].tokens)}}function Ac(t,e,n){let o=Object.keys(n.columns).
filter(s=>s in e.columns),r=Xe(n.cells,e.cells);return{role:"difference",key:n.key,run:n.run,shares:n.shares,asShare:n.asShare,
raw:Xe(n.raw,e.raw),cells:r,limit:Et(t.axes,r,t.selection.range,n.shares==="others"||n.shares==="row"),top:S(r),columns:Object.
fromEntries(o.map(s=>[s,Xe(n.columns[s],e.columns[s])])),scale:"signed",labels:Hr(e.labels,n.labels)}}var Dt=["run","sco\
pe","layer","refRun","ref","cells","range","each","words","hide"];function Tc(t){let{selection:e}=t,n=wo(t,e.run,e.scope,
e.ref?"after":"only");if(!e.ref)return[n];let o=wo(t,e.refRun,e.ref,"before");return o.scale!==n.scale||o.shares!==n.shares?
[o,n]:(e.each||(o.limit=n.limit=Math.max(o.limit,n.limit)),[o,n,Ac(t,o,n)])}function Rc(t){return["own",...Object.keys(t[0].
columns).filter(n=>n!=="own")].filter(n=>t.some(o=>o.columns[n]&&S(o.columns[n])>0))}function bo(t,e){let n=t.latestAxes(
e.words,()=>Br(t,e.words===1)),o=Ts(t,n,e.hide),r={data:t,selection:e,axes:n,hidden:o,window:fn(n,e.zoom)},s=JSON.stringify(
Dt.map(a=>e[a]));return r.maps=_(t)?t.latestMaps(s,()=>Tc(r)):[],r.strips=_(t)?Rc(r.maps):[],r.row=Math.max(0,n.rowOf(e.
to)),r.column=n.columnOf[e.from],r}function hn(t,e,n){let{data:o,selection:r,axes:s}=t,a=Ht(o.block(n))?r.cells:"none",i={
...t,selection:{...r,layer:e,cells:a},window:fn(s,"")};return{...i,map:wo(i,r.run,n,"only")}}function Lt({maps:t}){return t.
length===2}function ut({maps:t}){return t[t.length>1?1:0]}function z({maps:t,axes:e,data:n,selection:o}){return t.length?
t[t.length-1].labels:e.labels(n.runs[o.run].tokens)}function ft(t,e){let n=z(t);return n.indexOf(n[e])!==n.lastIndexOf(n[e])?
`@${t.axes.columns[e].position}`:""}function ae(t){let e=t.maps.filter(n=>n.role===t.selection.panel);return e.length?e:
t.maps}function St(t,e){let{axes:n,selection:o,row:r,column:s}=t,a=new Float32Array(n.nColumns).fill(NaN);return o.read===
"row"?a.set(e.cells.subarray(r*n.nColumns,(r+1)*n.nColumns)):n.own.forEach((i,l)=>{a[i]=e.cells[l*n.nColumns+s]}),a}function q(t){
return t.selection.read==="row"?t.axes.own[t.row]:t.column}function xo(t){let e=q(t),o=t.maps.filter(r=>r.role!=="differ\
ence").map(r=>S(St(t,r).map((s,a)=>a===e?NaN:s)));return Lt(t)?o:o.map(()=>Math.max(...o))}function zc(t,e){return{...t,
nRows:1,rows:[t.rows[e]],own:[t.own[e]]}}function zs(t,e,n,o){let{data:r,selection:s,axes:a}=t,i=r.matrix(e,n,o),l=s.read===
"row"&&s.cells!=="column",u=t.row*a.nColumns,c=l?{...t,axes:zc(a,t.row),row:0}:t;return{reduced:c,raw:s.words?ge(c.axes,
i,r.words.length):l?i.subarray(u,u+a.nColumns):i}}function dn(t,e,n){let{data:o,selection:r,axes:s}=t,a=new Float32Array(
o.layers.length*s.nColumns);return o.layers.forEach((i,l)=>{let{reduced:u,raw:c}=zs(t,e,n,i),f=Kn(u.axes,c,t.hidden,r.cells);
a.set(St(u,{cells:f}),l*s.nColumns)}),a}function js(t,e,n){return Float32Array.from(t.data.layers,o=>{let{reduced:r,raw:s}=zs(
t,e,n,o);return Un(r.axes,s,t.hidden)[r.row]})}function yo(t,e){let{data:n,axes:o,selection:r}=t,s=n.layers.map(()=>q(t));
return Et({...o,nRows:s.length,own:s},e,r.range)}function jc({axes:t,maps:e,row:n,column:o}){return t.own[n]!==o&&!Number.
isNaN(e[e.length-1].cells[n*t.nColumns+o])}function Fc({axes:t,maps:e,row:n}){let o=e[e.length-1].cells.subarray(n*t.nColumns,
(n+1)*t.nColumns),r=t.own[n];return o.forEach((s,a)=>{let i=r===t.own[n]?0:Math.abs(o[r]);a!==t.own[n]&&Math.abs(s)>i&&(r=
a)}),t.columns[r].position}function Fs(t,e,n){let o=As(t,e,n),r="to"in n&&o.read==="row";if("from"in n||!(r||"hide"in n)||
!_(t)||![[o.run,o.scope],...o.ref?[[o.refRun,o.ref]]:[]].every(([i,l])=>t.loaded(i,l)))return o;let a=bo(t,o);return jc(
a)?o:{...o,from:Fc(a)}}var Ic={others:"share of the row's sum over other tokens",row:"share of the row's sum",column:"share of the column's sum",
none:"norm, in units of the residual stream"},Wc={"off-diagonal":"the largest value of another token in rows of three or\
 more",percentile:"the 99th percentile of other tokens' values"},_c={ATTN:"attention",RES:"the residual connection",LN:"\
the norm",FF:"the feed-forward block"},ko=48;function pt(t,e=""){let n=qe(t.slice(0,20*ko));return`“${n.length>ko?`${n.
slice(0,ko-1).join("")}…`:t}${e}”`}function at(t,e,n){return t.role==="difference"||t.scale==="signed"?L(e,n):n?H(e):
R(e)}function tt(t,e){return pt(z(t)[e],ft(t,e))}function Ce(t,e){let n=t.channels.get(e);return n.label===n.name?e:`${n.
label} (${n.name})`}function mn(t,e,n){return t.runs[e].tokens.join(" ").replace(/(^| )·/g,"$1").slice(0,n)}function $o(t,e){
return t.runs.length>1?t.runs[e].name:""}function xt(t,e,n){return[$o(t,e),t.channels.get(n).name].filter(Boolean).join(
" · ")}function vo(t,e){return t.maps.map(n=>n.role==="difference"?"difference":Lt(t)?n.key:e(n))}function qt(t){let{data:e,
maps:n}=t,o=n.filter(({role:s})=>s!=="difference"),r=s=>new Set(o.map(a=>a[s])).size>1;return vo(t,({run:s,key:a})=>r("r\
un")?r("key")?xt(e,s,a):$o(e,s):e.channels.get(a).name)}function Mo(t){let{data:e,selection:n}=t;return n.run===n.refRun&&
n.ref!==""&&e.channels.get(n.scope).before===n.ref}function Mt(t,e){let{data:n,selection:o}=t;if(e.role==="difference")return"\
Difference";if(e.role==="only")return xt(n,e.run,e.key);let r=Mo(t)&&n.channels.get(o.scope).component,s=e.role==="befor\
e"?"Before":"After";return r?`${s} ${r}: ${n.channels.get(e.key).name}`:xt(n,e.run,e.key)}function Oe(t,e){let{data:n,selection:o}=t;
if(e.role==="difference"){let r=[xt(n,o.run,o.scope),xt(n,o.refRun,o.ref)];return`${r[0]} − ${r[1]}`}return n.block(e.
key).signed?n.block(e.key).title:n.channels.get(e.key).label}function Pc(t,e){let n=t.data.block(e.key),o=e.asShare?Ic[e.
shares]:n.unit,r=e.scale==="signed"&&e.asShare;return e.role==="difference"||r?`${r&&e.role!=="difference"?"difference":
"change"} of the ${o}${e.asShare?", in percentage points":""}`:o}function No(t){return t.top>t.limit*1.0001}function Co({
data:t,selection:e},n){return n.role!=="difference"&&n.scale==="signed"&&n.run===0&&!e.words&&e.cells==="none"&&mt(t).length>
0}function Oo(t){return t>1.001?[`1 pixel = ${R(t,2)} tokens, the strongest is shown. Drag to zoom.`]:[]}function Ws(t,e,n){
let{selection:o,strips:r}=t,s=[Pc(t,e)+(o.root?", on a square-root scale.":".")];No(e)&&s.push(`Colours end at ${Wc[o.range]}\
; cells reach ${X(e.top,e.asShare,e.scale==="signed")}.`),Co(t,e)&&s.push("Crossed: the 95 % interval contains 0."),t.hidden.
size&&s.push("Hidden tokens are left out of the shares.");let a=r.filter(i=>i!=="own"&&e.columns[i]);for(let i of a)s.push(
`${i}: up to ${X(S(e.columns[i]),!1)}.`);return[...s,...Oo(n)]}function Eo(t,e){let n={others:", as a share of the row's\
 sum over all other tokens",row:", as a share of the row's sum over all tokens",column:", as a share of the column's sum",
none:""}[e];return`${t.meaning}${n}`}function Bc({data:t,selection:e}){let n=e.cells==="others"?" Grey strip: the token'\
s own share.":"",o=t.block(e.scope);return`A cell: ${Eo(o,o.shares||e.cells)}.${n}`}function Hc(t,e){return e>t?"raises":
e<t?"lowers":"leaves"}function _s(t){return t&&t[0].toUpperCase()+t.slice(1)}function ie({data:t,selection:e}){return t.
layered?`layer ${e.layer}`:""}function Dc(t){let{data:e,selection:n}=t,o=e.layered||e.channels.size>1?xt(e,n.run,n.scope):
$o(e,n.run);return[ie(t),o].filter(Boolean).join(", ")}function Is(t){let{data:e,selection:n}=t;if(n.run!==n.refRun)return`${_s(
[ie(t),e.channels.get(n.scope).name].filter(Boolean).join(", "))}: from ${e.runs[n.refRun].name} to ${e.runs[n.run].name}`;
let o=_c[e.channels.get(n.scope).component];return Mo(t)&&o?`Layer ${n.layer}: ${o}`:`Layer ${n.layer}: from ${e.channels.
get(n.ref).name} to ${e.channels.get(n.scope).name}`}function Ee(t,e){return`${t} cannot see ${e}, which comes later.`}function At(t,e,n){
return t.short==="weight"?`attention of ${e} to ${n}`:`contribution of ${n} to ${e}`}function qc(t,e,n){let{axes:o,row:r,
column:s,hidden:a}=t,i=ut(t),l=s===o.own[r]&&!a.has(s)&&i.columns.own;if(l)return`${H(l[r])} of ${e} is its own; the map\
 shows the remainder.`;let u=a.has(s)?`${n} is hidden`:"these maps have no such cell";return`There is no ${i.asShare?"sh\
are":"number"} here of the ${At(t.data.block(t.selection.scope),e,n)}: ${u}.`}function Vc({data:t,maps:e},n,o){return{others:`\
the share of ${o} in other tokens' contributions to ${n}`,row:`the share of ${o} in all contributions to ${n}`,column:`t\
he share of ${n} in all contributions of ${o}`,none:`the ${At(t.block(e[0].key),n,o)}`}[e[0].shares]}function Kc(t,[e,n],o,r,s){
let a=t.asShare?nn(Math.abs(s)):R(Math.abs(s)),i=t.asShare?", as a share of other tokens' contributions,":"";return s===
0?`${r} contributes${i} as much to ${o} in ${e} as in ${n}`:`${r} contributes${i} ${a} ${s>0?"more":"less"} to ${o} in ${e}\
 than in ${n}`}function Uc(t,e,n,o){let{data:r,maps:[s]}=t,a=at(s,o,s.asShare),{sides:i}=r.block(s.key);return i.length?
Kc(s,i,e,n,o):r.layered?{others:`${a} of other tokens' contributions to ${e} come from ${n}`,row:`${a} of all contributi\
ons to ${e} come from ${n}`,column:`${a} of all contributions of ${n} go to ${e}`,none:`the ${At(r.block(s.key),e,n)} is\
 ${a}`}[s.shares]:`${n} contributes ${a} to ${e}`}function Gc(t){let{data:e,maps:n,axes:o,row:r,column:s,selection:a}=t,
i=r*o.nColumns+s,l=g=>at(n[g],f[g],n[g].asShare),[u,c]=[tt(t,o.own[r]),tt(t,s)],f=n.map(g=>g.cells[i]);if(!o.reaches(r,s))
return Ee(u,c);if(f.some(Number.isNaN))return qc(t,u,c);if(n.length===1)return`${_s([Dc(t),Uc(t,u,c,f[0])].filter(Boolean).
join(": "))}.`;if(Lt(t)){let g=n.map((b,x)=>`${l(x)} (${e.block(b.key).title}, ${e.channels.get(b.key).name})`);return`L\
ayer ${a.layer}, contribution of ${c} to ${u}: ${g.join(" and ")}.`}let h=`${l(0)} → ${l(1)}`,d=Vc(t,u,c);return a.run!==
a.refRun||!Mo(t)?`${Is(t)}, ${d} goes ${h}.`:`${Is(t)} ${Hc(f[0],f[1])} ${d}: ${h}.`}function Yc(t){let{axes:e,row:n,column:o,
selection:r,window:[s,a,i,l]}=t,[u,c]=[n>=s&&n<=a,o>=i&&o<=l],[f,h]=[tt(t,e.own[n]),tt(t,o)],d=r.read==="row"?u&&`the ro\
w of ${f}`:c&&`the column of ${h}`,m=u&&c&&e.reaches(n,o)&&`the cell from ${h} to ${f}`,g=[d,m].filter(Boolean);return g.
length?`Marked: ${g.join(" and ")}.`:""}function Vt(t){let{data:e,selection:n,maps:o}=t,r=[n.ref&&xt(e,n.refRun,n.ref),xt(
e,n.run,n.scope)],s=o.filter(a=>a.role!=="difference").map(a=>Ce(e,a.key)).join(" and ");return{headline:Gc(t),meaning:Bc(
t),place:ie(t),note:Yc(t),exact:o.some(a=>e.block(a.key).exact),method:"",shown:`${e.block(n.scope).title}, ${s}`,remark:ae(
t).includes(o[2])?`${Mt(t,o[2])}: ${Oe(t,o[2])}.`:"",file:[ie(t).replace(" ",""),r.filter(Boolean).join("-").slice(0,60),
n.cells]}}function Lo(t,{run:e},n){return t.words.length?`${t.model} reading “${mn(t,e,n)}”`:t.model}function Ps({data:t,
selection:e},n){let o=t.certificate&&n.exact,r=o?"method of Kobayashi et al. (2024)":n.method,a=[["tl_ffblock","transfor\
mer_lens","torch"].filter(i=>t.provenance[i]).map(i=>`${i} ${t.provenance[i]}`).join(", "),r].filter(Boolean).join("; ");
return[n.headline,`${Lo(t,e,300)}${n.place&&`, ${n.place}`}: ${n.shown}. ${n.meaning}`.trim(),n.remark,n.note,o?`Sums of\
 parts equal the model's own tensors to ${Me(t.certificate.error)}.`:"",a&&`${a}.`].filter(Boolean).join(" ")}function Bs(t){
let e=t.certificate;if(!e)return t.statement;let n=`${e.scope}, layer ${e.layer}, ${pt(t.runs[e.run].tokens[e.query])} a\
t position ${e.query}`;return`${t.block(t.start.scope).signed?"Both results are exact":"✓ Exact"}: parts and bias sum \
to the model's own tensors, with a relative error of at most ${Me(e.error)} (${n}).`}function So({data:t,selection:e},n,o){
let r=t.runs[e.run].tokens.slice(0,6).join("-").slice(0,40);return[t.model.slice(0,40),r,...n.file.filter(Boolean)].join(
"_").replace(/[^A-Za-z0-9._-]+/g,"").replace(/-{2,}/g,"-")+`.${o}`}function Xc(t,e,n){let{axes:o}=t,r=new Uint8Array(e.cells.length);for(let s=0;s<o.nRows;s++){let a=s*o.nColumns,i=Array.
from({length:o.nColumns},(c,f)=>a+f).filter(c=>!Number.isNaN(e.cells[c]));i.sort((c,f)=>Math.abs(e.cells[f])-Math.abs(e.
cells[c]));let l=i.reduce((c,f)=>c+Math.abs(e.cells[f]),0),u=0;for(let c of i){if(u>=n/100*l)break;r[c]=1,u+=Math.abs(e.
cells[c])}}return r}function Ao(t,e){return Math.abs(t.own[Math.floor(e/t.nColumns)]-e%t.nColumns)}function Zc(t,e,n){let{
axes:o,maps:r}=t,s=r[r.length-1];return e==="distance"?Ao(o,n):Math.abs((e==="change"?s:ut(t)).cells[n])}function Jc(t){
let{axes:e,selection:n,row:o,column:r}=t,s=n.find.trim().toLowerCase(),a=z(t).map(i=>s===""||i.toLowerCase().includes(s));
return(i,l)=>(n.pairs==="all"||(n.read==="row"?i===o:l===r))&&(a[l]||a[e.own[i]])}function Hs(t,e){let{axes:n,selection:o,
maps:r}=t,s=o.mass<100?r.filter(d=>d.role!=="difference").map(d=>Xc(t,d,o.mass)):[],a=Jc(t),i=r[r.length-1].cells,[l,u]=[
[],[]];for(let d=0;d<i.length;d++){let[m,g]=[Math.floor(d/n.nColumns),d%n.nColumns];Number.isNaN(i[d])||n.own[m]===g||!a(
m,g)||s.length&&!s.some(b=>b[d])||(l.push(d),u.push(Zc(t,o.sort,d)))}let c=ye(Float64Array.from(u),Math.max(0,u.length-e)),
f=l.map((d,m)=>({index:d,size:u[m]})).filter(({size:d})=>!(d<c));return f.sort((d,m)=>m.size-d.size||d.index-m.index),{pairs:f.
slice(0,e).map(({index:d})=>({row:Math.floor(d/n.nColumns),column:d%n.nColumns,index:d})),total:l.length}}function Ds(t,e,n){
let o=s=>Array.from(s.keys()).filter(a=>!Number.isNaN(s[a])).sort((a,i)=>Math.abs(s[i])-Math.abs(s[a])||a-i),r=new Map(e?
o(e).map((s,a)=>[s,a]):[]);return o(t).slice(0,n).map((s,a)=>({at:s,rank:a,earlier:r.has(s)?r.get(s):null}))}function Tt({data:t},e,n){let o=t.named?t.details[n]:Wt(t,n);return o?`${e} (${o})`:e}function Kt(t,e){return p("tr",{},
[p("th",{textContent:t,scope:"row"}),...e.map(n=>p("td",{textContent:n}))])}function pn(t,e){let n=qt(t).map(o=>p("th",{
textContent:o,scope:"col"}));return p("table",{className:"numbers"},[p("tr",{},[p("td"),...n]),...e])}function To(t,{row:e,
column:n}){let o=e*t.axes.nColumns+n,r=[Kt(Lt(t)?"number":t.data.block(t.selection.scope).short,t.maps.map(c=>at(c,c.raw[o],
t.data.block(c.key).shares!=="")))],s={others:"share of others",row:"share of row",column:"share of column"}[t.selection.
cells],{data:a,selection:i}=t,l=t.maps.length===1&&sn(a,i.run,i.scope,i.layer);l&&r.push(Kt("95 % interval",[l.map(c=>at(
t.maps[0],c[o],a.block(i.scope).shares!=="")).join(" to ")]));let u=[i.layer,-1,t.axes.rows[e].position,t.axes.columns[n].
position];for(let c of Ne(a)){let f=rn(c,"cell",...u);Number.isNaN(f)||r.push(Kt(`${c.target} ${c.short}`,[L(f,!1)]))}return s&&
r.push(Kt(s,t.maps.map(c=>at(c,c.cells[o],!0)))),pn(t,r)}function Qc(t,{row:e,strip:n}){return pn(t,[Kt(n,t.maps.map(o=>o.
columns[n]?at(o,o.columns[n][e],n==="own"):"–"))])}function et(t,e){return p("div",{},[p("span",{className:"tip-label",
textContent:t}),p("bdi",{textContent:e})])}function tu(t,e){let{axes:n}=t,o=z(t),r=()=>et("to",Tt(t,o[n.own[e.row]],n.rows[e.
row].position)),s=()=>et("from",Tt(t,o[e.column],n.columns[e.column].position));return e.strip?[r(),Qc(t,e)]:e.row===void 0?
[s()]:e.column===void 0?[r()]:n.reaches(e.row,e.column)?[r(),s(),To(t,e)]:[r(),s(),p("div",{textContent:"Not reachable: \
this model attends to earlier tokens only."})]}function le(t,e,n){t.style.left=`${Math.max(4,Math.min(e+16,window.innerWidth-
t.offsetWidth-8))}px`;let o=n+18+t.offsetHeight<window.innerHeight;t.style.top=`${Math.max(4,o?n+18:n-t.offsetHeight-12)}\
px`}function qs(t,e,n,o){let r=w("tooltip");r.hidden=!e,!r.hidden&&(r.replaceChildren(...tu(t,e)),le(r,n,o))}function gn(t,e){let n=p("i",{className:"bar-fill"});return Object.assign(n.style,{width:`${Math.max(.5,100*Math.min(1,t))}\
%`,backgroundColor:e}),p("span",{className:"bar"},[n])}function Ro({palette:t},e,n){return e.scale==="signed"?t[n<0?"los\
s":"gain"]:t.contribution}function eu(t){let{axes:e,row:n,column:o,data:r}=t,s=z(t),a=e.reaches(n,o);return p("section",
{className:"card cell-card"},[p("h3",{},["Cell: ",p("bdi",{textContent:s[o]}),`${ft(t,o)} → `,p("bdi",{textContent:s[e.
own[n]]}),ft(t,e.own[n])]),p("p",{className:"note",textContent:[Ve(r,e.columns[o].position,e.rows[n].position),ie(t)].filter(
Boolean).join(", ")}),a&&t.headsBlock?"":a?To(t,{row:n,column:o}):p("p",{textContent:"Not reachable: this model attends \
to earlier tokens only."}),...t.listed?[]:[...Vs(t,"head"),...Vs(t,"expert")],...t.strips.length&&r.queries.length&&!t.headsBlock?
[p("p",{className:"note",textContent:`${pt(s[e.own[n]])} as a row:`}),nu(t)]:[]])}function nu(t){return pn(t,t.strips.map(
e=>Kt(e,t.maps.map(n=>n.columns[e]?at(n,n.columns[e][t.row],e==="own"):"–"))))}function zo(t,e){let{data:n,selection:o}=t,
r=n.channels.get(o.scope).name,s=bt(n,e).find(([,a])=>a.of===r);return s&&!o.words?s[1].channels.map(a=>K(n,s[0],a.name)):
[]}function Vs(t,e){let{data:n,selection:o,axes:r,row:s,column:a,palette:i}=t,l=zo(t,e);if(!l.length||!l.every(h=>n.loaded(
o.run,h)))return[];let u=s*r.nColumns+a,c=l.map(h=>({label:n.channels.get(h).name,value:n.matrix(o.run,h,o.layer)[u]||0})),
f=S(c.map(({value:h})=>h));return c.sort((h,d)=>d.value-h.value),[p("p",{className:"note",textContent:`Through each ${e}\
 (norms; they do not add up), ${n.channels.get(o.scope).name}:`}),p("div",{className:"bars"},c.slice(0,6).map(({label:h,
value:d})=>p("div",{className:"bar-line"},[p("span",{textContent:h}),gn(d/(f||1),i.contribution),p("span",{textContent:R(
d)})])))]}function ou(t){return t.earlier===null||t.earlier===t.rank?"":t.earlier>t.rank?`↑${t.earlier-t.rank}`:`↓${t.
rank-t.earlier}`}var ru=10;function su(t,e){let{maps:n,axes:o,selection:r}=t,s=Lt(t)?[n[1]]:n.filter(g=>g.role!=="differ\
ence"),a=s.map(g=>St(t,g)),i=a[a.length-1],l=Ds(i,a.length>1?a[0]:null,ru),u=g=>at(s[0],g,s[0].asShare),c=S(l.map(({at:g})=>Math.
abs(i[g]))),f=s[s.length-1].labels,h=l.map(g=>{let b=p("button",{type:"button",className:"plain"},[p("bdi",{textContent:f[g.
at]}),ft(t,g.at)]),x=o.columns[g.at].position;return b.addEventListener("click",()=>e(r.read==="row"?{from:x}:{to:x})),p(
"tr",{},[p("td",{},[b]),p("td",{},[gn(Math.abs(i[g.at])/(c||1),Ro(t,s[0],i[g.at]))]),p("td",{textContent:a.map(y=>u(y[g.
at])).join(" → ")}),p("td",{className:"rank",textContent:ou(g)})])}),d=q(t),m=p("h3",{},[r.read==="row"?"Strongest sou\
rces of ":"Strongest destinations of ",p("bdi",{textContent:f[d]}),ft(t,d)]);return p("section",{className:"card"},[m,p(
"table",{className:"profile"},h)])}function Ks(t,e,n){n.replaceChildren(eu(t),...t.headsBlock||t.listed?[]:[su(t,e)])}async function au(){if(typeof CircuitsVis=="object")return;let t=new TextDecoder().decode(await ve(w("circuitsvis-bundle").
textContent));document.head.append(p("script",{textContent:t}))}var iu=0;function lu(t,e){let{axes:n,data:o}=t,r=p("div",
{id:`circuitsvis-${iu++}`,className:"circuitsvis"}),s=p("figure",{},[p("figcaption",{textContent:`${Mt(t,e)}: ${Oe(t,e)}`}),
r]),a=Array.from({length:n.nRows},(l,u)=>Array.from(e.cells.subarray(u*n.nColumns,(u+1)*n.nColumns),c=>c||0));return[s,()=>CircuitsVis.
render(r.id,CircuitsVis.AttentionPattern,{attention:a,tokens:e.labels,maxValue:e.limit||1,minValue:-(e.limit||1),maskUpperTri:o.
causal,positiveColor:e.scale==="signed"?ke.light.gain:ke.light.contribution,negativeColor:ke.light.loss})]}async function cu(t,e){
e.replaceChildren(p("p",{className:"note",textContent:"CircuitsVis draws…"})),await au();let n=ae(t).map(o=>lu(t,o));e.
replaceChildren(...n.map(([o])=>o));for(let[,o]of n)o();e.dataset.drawn="true"}function Us(t,e){if(delete e.dataset.drawn,
w("circuitsvis-bundle")===null||t.selection.view!=="maps"){e.replaceChildren();return}let n=p("button",{type:"button",textContent:"\
Draw with CircuitsVis"});n.addEventListener("click",()=>cu(t,e)),e.replaceChildren(n)}function Le(t){let{data:e,selection:n}=t;return e.runs[n.run].blocks[t.headsBlock||e.channels.get(n.scope).blockName].tracks}
var uu=.05;function Se(t){let e=t.map(o=>Object.entries(o.values).filter(([r])=>r!=="residual").flatMap(([,r])=>r).filter(
r=>r!==null)),n=S(e.filter((o,r)=>!t[r].stretched).flat());return t.map((o,r)=>o.stretched?[ye([...e[r]],Math.floor(uu*(e[r].
length-1))),S(e[r])]:[0,n])}function ce(t){if(!t.stretched)return"";let[[e,n]]=Se([t]);return`${H(e,2)} to ${H(n,2)}`}function ue(t){
return t===null?"undefined":t.toFixed(3)}function Gs(t){let{data:e,selection:n}=t,o=e.layers.indexOf(n.layer);return Le(
t).filter(r=>r.cumulative).map(r=>{let s=r.columns.map(({label:a,channel:i})=>`${a} ${ue(r.values[i][o])}`);return`Laye\
r ${n.layer} ${r.title}: ${s.join(" → ")}`}).join(" ")}function it(t){return Te(t,0).length>0}function Te(t,e){return Object.entries(t.runs[e].blocks).filter(([,n])=>n.kind===
"logit")}function Z(t,e){let n=Te(t,e.run),[,o]=n.find(([r])=>r===e.block)||n[0]||[null,null];return o}function Re(t,e){
let[n]=Te(t,0).find(([,o])=>o.position===e)||[];return n?{block:n,to:e-1,read:"row"}:null}function Ut({axes:t,hidden:e},n){
return Float32Array.from(t.columns,({members:o},r)=>e.has(r)?NaN:o.reduce((s,a)=>s+(n[a]??NaN),0))}function Ae(t,e){return e<
t.residual.length-1?String(e):"end"}function Xs(t,e){let n=t.runs.flatMap(({blocks:o})=>Object.entries(o)).find(([,o])=>o===
e)[0];return t.runs.map(({blocks:o})=>o[n])}function Zs(t){return t.biases.some(([,,e])=>e!==0)}function Js(t){return t?
Math.max(0,...t.flat().map(S)):0}function jo(t){let e=Z(t.data,t.selection),n=e.residual.map(c=>Ut(t,c)),{nColumns:o}=t.
axes,r=new Float32Array(n.length*o);n.forEach((c,f)=>r.set(c,f*o));let s=n.map(()=>-1),a=Xs(t.data,e).map(({residual:c})=>Et(
{nRows:n.length,nColumns:o,own:s},Float32Array.from(c.flatMap(f=>Array.from(Ut(t,f)))),t.selection.range)),i=e.ends?e.ends.
map(c=>c.map(f=>Ut(t,f))):null,l=Math.max(...a,Js(i)),u=e.heads?Qs(t,e):0;return{block:e,rows:n,cells:r,limit:l,top:S(r),
scale:"signed",before:null,ends:i,neurons:e.neurons,unit:Rt(e),layers:n.map((c,f)=>f<n.length-1?f:null),names:n.map((c,f)=>Ae(
e,f)),strip:Zs(e)?{name:"biases",scale:"signed",limit:l,values:Float32Array.from(n,(c,f)=>mu(e,f))}:null,heads:e.heads?{
values:e.heads,names:e.heads[0].map((c,f)=>String(f)),least:0,limit:u,scale:"signed",words:ta(u)}:null}}function Qs(t,e){
return Math.max(...Xs(t.data,e).map(({heads:n})=>S(n.map(S))))}function ta(t){return`heads, ±${X(t,!1)}`}function ea({data:t,
selection:e}){let n=t.channels.get(e.scope),o=bt(t,"head"),r=o.find(([c,f])=>f.of===n.name||c===n.blockName)||o[0],s=r&&
t.runs[e.run].blocks[r[0]].tracks[0];if(!s)return null;let a=s.columns.filter(({channel:c})=>c!=="residual"),i=t.layers.
map((c,f)=>a.map(({channel:h})=>s.values[h][f]??NaN)),[[l,u]]=Se([s]);return{values:i,least:l,limit:u,scale:"contributio\
n",names:a.map(({label:c})=>c.replace(/^head /,"")),words:`heads: ${s.title}${ce(s)&&`, ${ce(s)}`}`}}function na(t){let{
data:e,selection:n,axes:o,maps:r}=t,s=ut(t),a=dn(t,n.run,n.scope),i=r.length===3?dn(t,n.refRun,n.ref):null,l=i?[]:mt(e).
filter(f=>n.run===0&&e.loaded(f,n.scope)).map(f=>dn(t,f,n.scope)),u=f=>e.layers.map((h,d)=>f.subarray(d*o.nColumns,(d+1)*
o.nColumns)),c=n.read==="row"&&s.columns.own;return{block:null,rows:u(a),cells:a,before:i&&u(i),ends:l.length===2?l.map(
u):null,scale:s.scale,asShare:s.asShare,limit:Math.max(yo(t,a),i?yo(t,i):0,Js(l.map(f=>[f]))),top:Math.max(S(a),i?S(i):0),
layers:e.layers,names:e.layers.map(String),neurons:[],unit:"",heads:ea(t),strip:c?{name:"own",scale:"bias",limit:1,values:js(
t,n.run,n.scope)}:null}}function oa(t){let e=Z(t.data,t.selection);if(e)return{strip:Zs(e),heads:e.heads?e.heads[0].length:
0,words:e.heads?ta(Qs(t,e)):"",neurons:e.neurons.length>0};let n=ea(t);return{strip:t.selection.read==="row"&&!!ut(t).columns.
own,heads:n?n.names.length:0,words:n?n.words:"",neurons:!1}}function Fo(t,e){let{axes:n,selection:o}=t,r=Z(t.data,o);if(r)
return r.position!==void 0&&n.columns[e].position>=r.position;if(o.read==="row")return!n.reaches(t.row,e);let s=n.own.indexOf(
e);return s>=0&&!n.reaches(s,t.column)}function ra(t){return Z(t.data,t.selection)?jo(t):na(t)}function sa({data:t,selection:e}){
if(e.run!==e.refRun)return`How does “${t.runs[e.run].name}” differ from “${t.runs[e.refRun].name}”?`;let{component:n,
before:o}=t.channels.get(e.scope),{sides:r}=t.block(e.scope);if(r.length)return`What is larger in ${r[0]} than in ${r[1]}\
?`;let s={FF:"feed-forward",ATTN:"attention",RES:"residual connection",LN:"norm"}[n];return s&&e.ref&&e.ref===o?`What do\
es each layer's ${s} change?`:"Which tokens contribute in each layer?"}var fu={others:"vector length, as a share of the \
lengths from all other tokens",row:"vector length, as a share of the lengths from all tokens",column:"vector length, as \
a share of the lengths from the same token",none:"vector length"},hu={others:"as a share of the sum over all other token\
s",row:"as a share of the sum over all tokens",column:"as a share of the source's sum over destinations",none:""};function Io(t,e=!0){
let{data:n,selection:o}=t,r=Vt(t),s=tt(t,q(t)),a=n.block(o.scope),{shares:i}=ut(t),u=!a.signed&&["norm","share"].includes(
a.short)?fu[i]:hu[i]||a.unit,c=a.axis!=="scope"?` through ${n.channels.get(o.scope).name}`:"",f=o.read==="row"?At(a,s,"e\
ach token"):At(a,"each token",s),h=t.maps.length===3,d=o.run===o.refRun?"before":`in “${n.runs[o.refRun].name}”, the u\
nderline`,m=h?e?` Orange: more than ${d}; violet: less.`:" Zoom in for the change.":mt(n).length&&e?" Lines: 95 % interv\
als; hollow: the interval contains 0.":"";return{...r,meaning:`${e?"Bands":"Cells"}: ${f}${c}: ${u}.${m}`,file:["layers",
...r.file.slice(1)]}}function du(t){let{rows:e,before:n,names:o}=na(t),r=z(t),s=function*(){for(let[a,i]of e.entries())for(let[
l,u]of i.entries())Number.isNaN(u)||(yield[o[a],t.axes.columns[l].position,r[l],...n?[n[a][l]]:[],u])};return{head:["lay\
er","position","token",...n?["before"]:[],"share"],lines:s,count:e.length*r.length}}function mu(t,e){return t.biases.reduce(
(n,[,o,r])=>o===e?n+r:n,0)}function pu(t,e){let n=t.residual[e].reduce((r,s)=>r+s,0),o=t.biases.reduce((r,[,s,a])=>s>=e?
r+a:r,0);return{flowing:n,later:o,both:n+o}}function Rt(t){return t.unit?` ${t.unit}`:""}function gu(t){return`${t.target}\
 = ${R(t.value,4)}${Rt(t)}`}function Wo(t){return`${R(t.value,4)} = ${t.sums.map(([e,n])=>`${e} ${L(n,!1,4)}`).join(" · ")}`}
function wu(t,e){return t.residual[e].every(n=>n===0)&&t.value!==0}function _o(t,e){return t.neurons[e]||[]}function Po(t,e){
return Ut(t,Z(t.data,t.selection).residual[e])}function bu(t,e){let{layer:n,neuron:o,to:r,from:s,list:a}=t.selection,i=`\
over ${e.ends?"these":"all"} positions`,[,l]=_o(e,n).find(([m])=>m===o)||[];if(l!==void 0)return{name:`L${n}N${o}`,share:l,
place:i,more:""};let u=fe(e,t.selection);if(u<0)return null;let c=e.heads[n][u],[,,f]=(e.edges[`${n},${u}`]||[]).find(([
m,g])=>m===r&&g===s)||[],h=`from ${tt(t,t.axes.columnOf[s])} to ${tt(t,t.axes.columnOf[r])}`,d=`L${n}H${u}`;return f!==void 0&&
a==="edges"?{name:d,share:f,place:h,more:`; ${L(c,!1)} ${i}`}:{name:d,share:c,place:i,more:f===void 0?"":`; ${L(f,!1)} ${h}`}}
function ze(t){let{data:e,selection:{layer:n}}=t,o=Z(e,t.selection),r=c=>`contributes ${L(c,!1)} of ${R(o.value)}${Rt(o)}`,
s=c=>o.value===0?"":`, ${H(c/o.value)} of the answer`,a=bu(t,o);if(a)return`${a.name} ${r(a.share)} ${a.place}${s(a.share)}${a.
more}.`;let i=q(t),l=tt(t,i);if(wu(o,n))return`At the input of layer ${n} all attributions are 0: the target is read bef\
ore.`;let u=Po(t,n)[i];return Number.isNaN(u)?`${l} is hidden.`:`At the input of layer ${n}, ${l} ${r(u)}${s(u)}.`}function Ys(t){
return t.sums.some(([e])=>e==="nonlinear")?"its first-order form":"it"}function aa(t,e){let{flowing:n,later:o,both:r}=pu(
t,e);if(t.ends)return`At the input of layer ${e}: these positions sum to ${L(n,!1)}; the remainder is of other positions\
 and later biases.`;let s=`At the input of layer ${e}: all tokens ${L(n,!1,4)}, later biases ${L(o,!1,4)}`;return t.complete?
`${s}, together ${R(r,4)}${Ys(t)==="it"?"":`, ${Ys(t)}`}.`:`${s}; these rules do not sum to the target.`}function Bo(t,e){
let n=e.heads.split(".").filter(Boolean);return n.length===1&&Number(n[0])<t?Number(n[0]):-1}function fe(t,e){return t.heads?
Bo(t.heads[0].length,e):-1}var xu=14,yu=.05;function ia({axes:t,hidden:e},n,o){return Object.entries(n.edges).flatMap(([
a,i])=>{let[l,u]=a.split(",").map(Number);return i.map(([c,f,h])=>({layer:l,head:u,query:c,key:f,share:h,from:t.columnOf[f],
to:t.columnOf[c]}))}).filter(({from:a,to:i,share:l})=>a!==i&&!e.has(a)&&!e.has(i)&&Math.abs(l)>=yu*o).sort((a,i)=>Math.abs(
i.share)-Math.abs(a.share)).slice(0,xu)}function la(t,e){return t.heads?t.heads[e].map((n,o)=>({head:o,share:n})):[]}function Ho(t,e){
let n=Z(t,e),o=n&&t.runs[e.run].blocks[n.maps];if(!o)return null;let{name:r}=t.channels.get(e.scope),s=o.channels.find(a=>a.
name===r)||o.channels[o.channels.length-1];return K(t,n.maps,s.name)}function ca(t,e){let n=Ho(t,e),{name:o}=t.channels.
get(n);return{view:"maps",scope:n,ref:t.channels.has(o)&&!t.block(o).signed?o:""}}var ku="Orange: positive, violet: nega\
tive.";function Do(t,e){let n=Z(t.data,t.selection),{limit:o,top:r}=jo(t),s=[`Colours end at ±${X(o,!1)}${Rt(n)}${r>o*1.0001?
` (99th percentile; cells reach ${X(r,!1)})`:""}.`];return t.selection.root&&s.push("Square-root scale."),n.ends&&s.push(
"Lines: 95 % intervals; hollow: the interval contains 0."),n.heads&&s.push(`Heads, summed over ${n.ends?"these":"all"} p\
ositions, on their own scale: ±${X(S(n.heads.map(S)),!1)}; later layers read earlier ones, so heads overlap, and their \
sum is not that of the tokens.`),t.hidden.size&&s.push("Hidden tokens are left out of the picture, not of the sums."),[ku,
...s,...Oo(e),n.certificate].join(" ")}function ua(t,e=!0){let{data:n,selection:o}=t,r=Z(n,o);return r?{headline:`${gu(r)}\
. ${ze(t)}`,meaning:`${e?"Width and colour":"Colour"}: attribution per token.${Object.keys(r.edges).length?" Arcs: atten\
tion heads between positions.":""}${r.ends&&e?" Lines: 95 % intervals; hollow: the interval contains 0.":""}`,place:`lay\
er ${o.layer}`,shown:`attribution of the ${r.target}, rules “${r.rules}”`,remark:`${Wo(r)}.`,note:Do(t,1),exact:!1,method:r.
method,file:[`layer${o.layer}`,`to-${r.target}`.slice(0,60)]}:Io(t,e)}function fa(t){let e=Z(t.data,t.selection);if(!e)return du(
t);let n=z(t),{rows:o}=jo(t),r=function*(a,i,l){for(let[u,c]of l.entries())Number.isNaN(c)||(yield[a,i,t.axes.columns[u].
position,n[u],c])};return{head:["part","layer","position","name","share"],lines:function*(){yield*r("token","",Ut(t,e.entering));
for(let[a,i]of o.entries())yield*r("residual stream",Ae(e,a),i);for(let[a,i]of(e.heads||[]).entries())for(let[l,u]of i.entries())
yield["head",String(a),"",`L${a}H${l}`,u];for(let[a,i,l]of e.biases)yield["bias",i<0?"":Ae(e,i),"",a,l]},count:(o.length+
1)*n.length}}function B(t,e,n=""){return p("option",{value:t,textContent:e,title:n})}function ha(t){let e=bt(t).map(([n,o])=>{let r=o.
channels.map(s=>{let a=K(t,n,s.name);return B(a,Ce(t,a))});return[o.title,r]});return e.length===1?e[0][1]:e.map(([n,o])=>p(
"optgroup",{label:n},o))}function Vo(t){return it(t)||mt(t).length>0}function $u(t){let e=t.runs.map((o,r)=>({...o,index:r}));
return(Vo(t)?e.map(o=>[o,o]):e.flatMap(o=>[...e.filter(r=>r!==o),o].map(r=>[o,r]))).map(([o,r])=>B(`${o.index}-${r.index}`,
o===r?o.name:`${o.name} against ${r.name}`))}var vu={others:"share of the others",row:"share of row",column:"share of co\
lumn",none:"norm"},qo={percentile:"99th percentile","off-diagonal":"largest of another token",all:"largest of all"};function da(t){
w("scope").replaceChildren(...ha(t)),w("ref").replaceChildren(B("","nothing"),...ha(t)),w("pair").replaceChildren(...$u(
t)),it(t)&&w("further").after(w("pair-group"));for(let e of["run","ref-run"])w(e).replaceChildren(...t.runs.map((n,o)=>B(
o,n.name)));w("layer").replaceChildren(...t.layers.map(e=>B(e,e))),w("cells").replaceChildren(...Object.entries(vu).map(
([e,n])=>B(e,n))),w("range").replaceChildren(...Object.entries(qo).map(([e,n])=>B(e,n))),w("words-label").hidden=Dn(t.words).
length===t.words.length,w("hide-special-label").hidden=t.special.length===0}var ma={scope:["scope"],ref:["ref"],run:["ru\
n",Number],"ref-run":["refRun",Number],layer:["layer",Number],cells:["cells"],range:["range"],sort:["sort"],pairs:["pair\
s"],mass:["mass",Number]},pa={root:"root",each:"each",words:"words"};function ga(){if(!w("colours").open)return;let t=w(
"colours").querySelector(".menu");t.style.marginLeft="";let e=t.getBoundingClientRect().right-document.documentElement.clientWidth+
8;e>0&&(t.style.marginLeft=`${-e}px`)}function Mu(){return[w("hide-special").checked&&"special",w("hide-first").checked&&
"first"].filter(Boolean).join(" ")}function wa(t){for(let[e,[n,o=String]]of Object.entries(ma))w(e).addEventListener("ch\
ange",()=>t.go({[n]:o(w(e).value)}));w("pair").addEventListener("change",()=>{let[e,n]=w("pair").value.split("-").map(Number);
t.go(Vo(t.data)?{run:e}:{run:e,refRun:n})});for(let[e,n]of Object.entries(pa))w(e).addEventListener("change",()=>t.go({[n]:w(
e).checked?1:0}));for(let e of["hide-special","hide-first"])w(e).addEventListener("change",()=>t.go({hide:Mu()}));w("col\
ours").addEventListener("toggle",ga),w("read").addEventListener("click",()=>t.go({read:t.selection.read==="row"?"column":
"row"})),w("closer").addEventListener("click",()=>t.go({zoom:go(t.scene.axes,t.selection)})),w("whole").addEventListener(
"click",()=>t.go({zoom:""})),w("find").addEventListener("input",()=>t.go({find:w("find").value.slice(0,60)})),Nu(t),w("h\
elp-mode").addEventListener("click",()=>{w("help").hidden=!w("help").hidden,w("help-mode").setAttribute("aria-expanded",
String(!w("help").hidden)),t.resized()})}function Nu(t){let e=w("search");e.addEventListener("input",()=>{let{look:n}=t.
view();w("search-note").textContent=n?n(t.scene,e.value):""}),e.addEventListener("keydown",n=>{if(n.key!=="Enter")return;
n.preventDefault();let{find:o}=t.view(),r=o&&o(t.scene,e.value);if(r&&t.go(r),o)return;let{data:s,selection:a}=t,i=Rs(s.
runs[a.run].tokens,e.value,a.read==="row"?a.to:a.from);w("search-note").textContent=i<0?"not there":`position ${i}`,!(i<
0)&&t.go(s.queries.includes(i)&&a.read==="row"?{to:i}:{from:i,read:"column"})})}function Cu({read:t,to:e,from:n}){let o=w(
"search"),r=String(t==="row"?e:n);document.activeElement!==o&&o.dataset.read!==r&&(o.value=w("search-note").textContent=
""),o.dataset.read=r}function Ou(t,e){w(t).setAttribute("aria-pressed",String(!!e))}var Eu={"scope-group":["scope",({data:t})=>t.
channels.size>1],"run-group":["run",({data:t})=>t.runs.length>1],"pair-group":["pair",({data:t})=>t.runs.length>1],"ref-\
group":["ref",({data:t})=>t.channels.size>1||t.runs.length>1],"ref-run-group":["refRun",({data:t})=>t.runs.length>1&&!mt(
t).length],"layer-group":["layer",({data:t})=>t.layered],"cells-group":["cells",({data:t,selection:e})=>!t.block(e.scope).
signed],"range-label":["range"],"root-label":["root"],"each-label":["each",({maps:t})=>t.length>2],closer:["zoom",({data:t,
selection:e})=>t.words.length>=re||e.zoom!==""]};function Lu(t,e){for(let[n,[o,r=()=>!0]]of Object.entries(Eu))w(n).hidden=
!e.includes(o)||!r(t)}function Su({selection:t},e){let[n,o]=["off-diagonal","all"].map(r=>w("range").querySelector(`[val\
ue=${r}]`));Y(n,e?qo.all:qo["off-diagonal"]),n.hidden=e&&t.range==="all",o.hidden=e&&t.range!=="all"}function Au({maps:t,
selection:e}){let[n,o]=["change","share"].map(r=>w("sort").querySelector(`[value=${r}]`));n.hidden=t.length===1,n.hidden&&
e.sort==="change"&&(w("sort").value=o.value)}function Tu({data:t,selection:e}){let n=cn(t,e),o=t.queries.length<t.words.
length,r=n?"":"Shares need every source of a row, in each prompt alone; this page has named positions or means. Choose m\
aps of shares if the page has them.";for(let s of w("cells").options)s.disabled=s.value!=="none"&&(!n||s.value==="column"&&
o),s.title=s.value==="none"?"":r||(s.value==="column"&&o?"needs every row; this result has only some":"");w("cells").title=
r,Y(w("cells").querySelector("[value=none]"),t.block(e.scope).short)}function ba(t,{controls:e,withoutOwn:n=!1}){w("colo\
urs").hidden=e.length===0;let{data:o,selection:r}=t;for(let[s,[a]]of Object.entries(ma))w(s).value=String(r[a]);for(let[
s,a]of Object.entries(pa))w(s).checked=r[a]===1;w("hide-special").checked=r.hide.includes("special"),w("hide-first").checked=
r.hide.includes("first"),Ou("read",r.read==="column"),w("whole").hidden=r.zoom===""||!e.includes("zoom"),w("pair").value=
`${r.run}-${Vo(o)?r.run:r.refRun}`,Lu(t,e),Su(t,n),_(o)&&(Au(t),Tu(t)),ga(),Cu(r),document.activeElement!==w("find")&&(w(
"find").value=r.find)}var Ru=[["arrows","another cell of a map; in the overview another layer or token"],["Enter","selec\
ts the cell"],["Alt + arrows","another layer, another row"],["[ and ]","the step before, the step after"],["/","find a t\
oken or a position"],["z, Esc","zoom in, back out"],["drag","zooms into a part of a map"],["Shift + click","on a token: \
the other end of the cell; on a head: this one alone"],["f","files, link, caption"],["Back","undoes; the address stores \
the selection"]];function xa(){w("help").replaceChildren(p("dl",{},Ru.flatMap(([t,e])=>[p("dt",{textContent:t}),p("dd",{
textContent:e})])))}function ya(t){document.addEventListener("keydown",e=>{if(e.target.closest("input, select, textarea")||
e.ctrlKey||e.metaKey)return;let{data:n,selection:o,scene:r}=t,s=_(n)?[...n.channels.values()].filter(({blockName:u})=>u===
n.channels.get(o.scope).blockName).map(({key:u})=>u):[],a=s.indexOf(o.scope),i=n.layers.indexOf(o.layer),l={"[":()=>a>0&&
t.go({scope:s[a-1]}),"]":()=>a<s.length-1&&t.go({scope:s[a+1]}),ArrowUp:()=>i>0&&t.go({layer:n.layers[i-1]}),ArrowDown:()=>i<
n.layers.length-1&&t.go({layer:n.layers[i+1]}),ArrowLeft:()=>r.row>0&&t.go({to:r.axes.rows[r.row-1].position}),ArrowRight:()=>r.
row<r.axes.nRows-1&&t.go({to:r.axes.rows[r.row+1].position}),z:()=>t.go({zoom:go(r.axes,o)}),f:()=>w("figure-mode").click(),
"?":()=>w("help-mode").click(),"/":()=>w("search").focus(),Escape:()=>t.go(o.zoom?{zoom:""}:o.panel?{panel:""}:o.heads?{
heads:""}:o.neuron>=0?{neuron:-1}:o.node>=0?{node:-1}:{})};e.key.startsWith("Arrow")&&!e.altKey||e.key in l&&(e.preventDefault(),
l[e.key]())})}function ka(t){let e=String(t);return`"${(/^[=+\-@\t\r]/.test(e)?`'${e}`:e).replaceAll('"','""')}"`}function zu(t){return Number.
isInteger(t)?String(t):Number.isFinite(t)?String(Number(t.toPrecision(5))):""}var ju=2**16;function Fu(){let t=new Map;return e=>{
let n=t.get(e);if(n!==void 0)return n;t.size>=ju&&t.clear();let o=typeof e=="number"?zu(e):ka(e);return t.set(e,o),o}}function $a({
head:t,lines:e}){let n=Fu(),o=[t.map(ka).join(",")];for(let r of e())o.push(r.map(n).join(","));return o.push(""),o.join(
`
`)}var je=["query","query_token","key","key_token"];function Ko({axes:t},e,n,o){return[t.rows[n].position,e[t.own[n]],t.
columns[o].position,e[o]]}function*Uo({axes:t}){for(let e=0;e<t.nRows;e++)for(let n=0;n<t.nColumns;n++)t.reaches(e,n)&&(yield[
e,n,e*t.nColumns+n])}function*Iu(t){let{axes:e,maps:n,selection:o,strips:r}=t,s=o.cells!=="none",a=z(t);for(let[i,l,u]of Uo(
t)){let c=s?n.map(f=>f.cells[u]):[];yield[o.layer,"token",...Ko(t,a,i,l),...n.map(f=>f.raw[u]),...c]}for(let i of r.filter(
l=>l!=="own"))for(let l=0;l<e.nRows;l++){let u=n.map(c=>c.columns[i]?c.columns[i][l]:NaN);yield[o.layer,i,e.rows[l].position,
a[e.own[l]],"","",...u,...s?n.map(()=>NaN):[]]}}function Wu(t,e,n){let o={others:"share_of_others",row:"share_of_row",column:"\
share_of_column"}[n];return e.role==="difference"?`difference_of_${o}`:e.scale==="signed"?`${t}_difference_of_${o}`:`${t}\
_${o}`}function wn(t){let{data:e,axes:n,maps:o,selection:r}=t,s=vo(t,({run:u,key:c})=>xt(e,u,c)),a=(u,c,f)=>f==="none"?u:
Wu(u,o[c],f),i=s.map((u,c)=>a(u,c,e.block(o[c].key).shares||"none"));return{head:["layer","part",...je,...i,...r.cells===
"none"?[]:s.map((u,c)=>a(u,c,r.cells))],lines:()=>Iu(t),count:n.nRows*n.nColumns}}function ht(t,e,n,o,r=p("canvas")){let[s,a,i,l]=t.window,u=Math.max(1,Math.min(l-i+1,Math.floor(n))),c=Math.max(1,Math.min(
a-s+1,Math.floor(o)));(r.width!==u||r.height!==c)&&Object.assign(r,{width:u,height:c});let f=es(t.cells,t.nColumns,t.window,
u,c),h=r.getContext("2d"),d=h.createImageData(u,c),m=new Uint32Array(d.data.buffer),g=t.scale==="signed";for(let b=0;b<f.
length;b++){let x=f[b],y=e.shades[g?x<0?"loss":"gain":t.scale];m[b]=Number.isNaN(x)?e.outside:y[Math.round(Pt(x,t.limit,
t.root)*vt)]}return h.putImageData(d,0,0),r}function Nt(t,e,n,o,r){return Object.assign(t.style,{position:"absolute",left:`${e}\
px`,top:`${n}px`,width:`${o}px`,height:`${r}px`}),t}var bn=document.createElement("canvas");bn.getContext("2d",{willReadFrequently:!0});
var Go=4096,Yo=4;function _u(t,e){let n=Math.max(1,Math.ceil(Yo*e/t.width)),o=p("canvas",{width:t.width*n,height:t.height*
n}),r=o.getContext("2d");return r.imageSmoothingEnabled=!1,r.drawImage(t,0,0,o.width,o.height),o}function Pu({picture:{window:[
t,e,n,o]}}){return(e-t+1)*(o-n+1)}function va(t){return t.reduce((n,o)=>n+Pu(o),0)>4*Go?Go/8:Go}function Bu({picture:t,x:e,
y:n,width:o,height:r},s){let a=ht(t,s,Yo*o,Yo*r,bn),i=a.width<=o&&a.height<=r,l=(i?_u(a,o):a).toDataURL("image/png");return k(
"image",{x:e,y:n,width:o,height:r,href:l,preserveAspectRatio:"none",...i?{"image-rendering":"pixelated"}:{}})}function Ma(t,e,n){
let{picture:o,x:r,y:s,width:a,height:i}=t,[l,u,c,f]=o.window,[h,d]=[u-l+1,f-c+1];if(h*d>n)return[Bu(t,e)];let[m,g]=[a/d,
i/h];return Array.from({length:h*d},(b,x)=>{let[y,v]=[Math.floor(x/d),x%d],$=o.cells[(l+y)*o.nColumns+c+v],N=Number.isNaN(
$)?e.out:rt(e,$,o.limit,o.scale,o.root).hex;return F(r+v*m,s+y*g,m,g,N)})}var P={size:12,smallest:9.5,index:10,row:88,column:84,axis:18,spacing:11},Ie=1.12,Ct=44,V={gap:6,width:13},Fe=20,Na=250,
yt={largest:52,comfortable:12,enough:230,across:1e3,around:230};function Yt(t){return 12+Math.ceil(j(String(t.data.words.
length-1),P.index))}function Xo(t,e){return e.labels.slice(t.window[2],t.window[3]+1)}function Gt(t){return Math.min(t>36?
14:P.size,Math.max(P.smallest,t))}function xn(t,e,n,o=P.size){let r=e.reduce((s,a)=>Math.max(s,j(a.slice(0,60),o)),0);return Math.
ceil(Math.min(n,Ie*r))+Yt(t)}function Ca(t,e,n,o,r){let s=r/n>o+300;return Array.from({length:e},(a,i)=>P.axis+(s||i%n===
0?o:Yt(t)))}function Oa(t,e,n,o){let r=n.slice(0,e).reduce((s,a)=>s+a+o,0);return(t-r-Fe*(e-1))/e}function Hu(t,e,n,o,r){
let s=Math.min(yt.comfortable*(t.window[3]-t.window[2]+1),yt.enough);for(let a=e;a>1;a--){let i=Ca(t,e,a,o,n);if(a*(Na+Fe)-
Fe<=n&&Oa(n,a,i,r)>=s)return a}return 1}function Du(t,e){let[n,o]=[t.window[1]-t.window[0]+1,t.window[3]-t.window[2]+1],
r=t.room||t.windowRoom,s=r?(r-yt.around)/n:yt.largest,a=Math.max(40/o,Math.min(yt.largest,s,yt.across/o,e/o)),i=a>=6?Math.
floor(a):a;return{width:i,height:Math.max(Math.min(i,yt.across/n),Math.min(22,i,o*i/n))}}function Ea(t,e){let n=ae(t),o=Gt(
yt.across/(t.window[1]-t.window[0]+1)),r=Math.max(...n.map(x=>xn(t,x.labels,Math.min(P.row,e/4),o))),s=t.strips.length*(V.
gap+V.width)+8,a=t.inLine?n.length:Hu(t,n.length,e,r,s),i=Ca(t,n.length,a,r,e),l=Du(t,Oa(e,a,i,s)),u=Ct+P.axis+Math.max(
...n.map(x=>xn(t,Xo(t,x),P.column,Gt(l.width)))),[c,f,h,d]=t.window,[m,g]=[l.width*(d-h+1),l.height*(f-c+1)],b=n.map((x,y)=>({
map:x,cell:l,top:u,across:m,down:g,left:i[y],fullLabels:i[y]>P.axis+Yt(t),width:Math.min(e,Math.max(i[y]+m+s,a>1&&t.inLine?
0:Na))}));return qu(t,b,a)}function qu(t,e,n){let[o,r,s]=[0,0,0];for(let a=0;a<e.length;a+=n){let i=e.slice(a,a+n);for(let u of i){
let c=1/(u.cell.width*(t.ratio||1));u.notes=Ws(t,u.map,c).flatMap(f=>Ue(f,11,u.width-u.left))}let l=i[0].top+i[0].down+44+
14*Math.max(...i.map(u=>u.notes.length));o=0;for(let u of i)Object.assign(u,{x:o,y:r,height:l}),o+=u.width+Fe;s=Math.max(
s,o-Fe),r+=l+12}return{frames:e,width:Math.ceil(s),height:Math.ceil(r)}}function zt(t){return Math.max(1,Math.ceil(P.spacing/t))}function Xt(t,e,n){return t===n||t%e===0&&Math.abs(t-n)>=e}function Sa(t,e,n,o){
let r="font-weight"in n?Ie:1,s=j(t,r*e)>o?Math.min(e,P.size):e;return{words:D(t,r*s,o),style:{"font-size":s,...n}}}function Vu(t,e,n,o){
let{axes:r,data:s,palette:a,window:[i]}=t,l=Gt(e.cell.height),u=e.top+(n-i+.5)*e.cell.height+l*.35,c=e.fullLabels?ne(s,r.
rows[n].position):r.rows[n].position,f=O(c,e.left-5,u,{"text-anchor":"end","font-size":P.index,fill:a.grey});if(!e.fullLabels)
return k("g",{},[f]);let h=e.left-Yt(t)-P.axis,{words:d,style:m}=Sa(e.map.labels[r.own[n]],l,o,Math.max(20,h));return k(
"g",{},[f,O(d,e.left-Yt(t),u,{"text-anchor":"end",fill:a.ink,...m})])}function Ku(t,e,n,o){let{axes:r,data:s,palette:a,window:[
,,i]}=t,l=Gt(e.cell.width),u=e.left+(n-i+.5)*e.cell.width+l*.35,{words:c,style:f}=Sa(e.map.labels[n],l,o,P.column);return k(
"g",{},[wt(ne(s,r.columns[n].position),u,e.top-5,{"font-size":P.index,fill:a.grey}),wt(c,u,e.top-Yt(t),{fill:a.ink,...f})])}
function Aa(t,e,n,o){let r=zt(n);return Array.from({length:Math.floor((e-t)/r)+1},(s,a)=>({index:t+a*r,node:o(t+a*r,{})}))}
function Ta(t,e,[n,o],r,s){let a=e>=n&&e<=o;for(let{index:i,node:l}of t)!a||Math.abs(i-e)>=zt(r)?l.removeAttribute("visi\
bility"):l.setAttribute("visibility","hidden");return a?[s(e,{"font-weight":700})]:[]}function yn(t,e){let[,,n,o]=t.window,
r=(a,i)=>Ku(t,e,a,i),s=Aa(n,o,e.cell.width,r);return{nodes:s.map(({node:a})=>a),mark:a=>Ta(s,a,[n,o],e.cell.width,r)}}function Uu(t,e){
let[n,o]=t.window,r=(a,i)=>Vu(t,e,a,i),s=Aa(n,o,e.cell.height,r);return{nodes:s.map(({node:a})=>a),mark:a=>Ta(s,a,[n,o],
e.cell.height,r)}}function Gu(t,e){let n=e.down<150?"← to":"← to (destination, query)";return wt(n,11,e.top+e.down/2,
{"font-size":11,fill:t.palette.grey,"text-anchor":"middle"})}function Yu(t,e){let{palette:n}=t,o=e.width-(t.exporting?0:
30);return[O(D(Mt(t,e.map),14,o),0,14,{"font-size":14,"font-weight":600,fill:n.ink}),O(D(Oe(t,e.map),12,e.width),0,31,{fill:n.
grey})]}function Xu({palette:t},e){return e.pictures.slice(1).map(({x:n})=>k("rect",{x:n,y:e.top,width:V.width,height:e.
down,fill:"none",stroke:t.line}))}function Qo(t,e){let n={"font-size":11,fill:t.palette.grey};e.columns=yn(t,e);let o=e.
pictures.slice(1).map(({name:r,x:s})=>wt(r,s+V.width-2,e.top-5,n));return[O("from (source, key) →",e.left,Ct+12,n),...e.
columns.nodes,...o]}var Zo=24,Zu=0;function kn(t,{scale:e},n=o=>rt(t.palette,o,1,e,t.selection.root)){let o=e==="signed"?
-1:0,r=Array.from({length:Zo+1},(s,a)=>k("stop",{offset:a/Zo,"stop-color":n(o+a/Zo*(1-o)).hex}));return k("linearGradien\
t",{id:`ramp-${Zu++}`},r)}var La=11;function Jo({left:t,top:e,down:n,width:o}){return{x:t,y:e+n+10,width:Math.min(190,o-
t-26),height:10}}function Ju(t,e){let n=kn(t,e.map);return[k("defs",{},[n]),k("rect",{...Jo(e),fill:`url(#${n.id})`,stroke:t.
palette.line,class:"legend"})]}function Qu(t,e){let{x:n,y:o}=Jo(e),r=e.notes.map((a,i)=>O(a,n,o+38+14*i,{"font-size":11,
fill:t.palette.grey})),s=a=>X(a,e.map.asShare,e.map.scale==="signed");return[...tr(t,Jo(e),e.map,s),...r]}function tr({palette:t},{
x:e,y:n,width:o,height:r},s,a){let{limit:i}=s,[l,u]=[s.scale==="signed",No(s)],c=l?-i:0,f=Os(l?i:i/2),h=u?i:l?f:2*f,d=[];
return[h,l?-h:0,l?0:f].flatMap(m=>{let g=(m-c)/(i-c||1)*o,b=`${u&&Math.abs(m)===i?m>0?"≥ ":"≤ ":""}${l&&m>0?"+":""}${a(
m,m===h)}`,x=j(b,La)/2,y=Math.max(x,Math.min(o-x,g));if(d.some(([$,N])=>y+x+4>$&&y-x-4<N))return[];d.push([y-x,y+x]);let v={
"font-size":La,"text-anchor":"middle",fill:t.ink};return[k("path",{d:`M${e+g} ${n+r}v3`,stroke:t.ink,class:"tick"}),O(b,
e+y,n+r+13,v)]})}var Ra="not-reachable",er=`url(#${Ra})`;function he(t){return k("defs",{},[k("pattern",{id:Ra,width:6,height:6,
patternUnits:"userSpaceOnUse",patternTransform:"rotate(45)"},[F(0,0,6,6,t.out),F(0,0,1,6,t.hatch)])])}function tf(t,e){let{
data:n,axes:o,window:[r,s,a,i]}=t;if(!n.causal)return[];let l=[];for(let u=r;u<=s;u++){let c=Math.max(a,o.own[u]+1),f=(i+
1-c)*e.cell.width;f>0&&l.push(`M${e.left+(c-a)*e.cell.width} ${e.top+(u-r)*e.cell.height}h${f}v${e.cell.height}h${-f}z`)}
return l.length?[k("path",{d:l.join(""),fill:er,class:"unreachable"})]:[]}function nr(t,e){return e.rows=Uu(t,e),[Gu(t,e),
...e.rows.nodes,...tf(t,e),k("rect",{x:e.left,y:e.top,width:e.across,height:e.down,fill:"none",stroke:t.palette.line}),...Xu(
t,e),...Ju(t,e)]}function ef(t,e){let{data:n,axes:o,selection:r,window:[s,a,i,l]}=t,u=Co(t,e.map)&&sn(n,e.map.run,e.map.
key,r.layer),{width:c,height:f}=e.cell;if(!u)return[];let h=Math.min(2,c/5,f/5),d=[];for(let m=s;m<=a;m++)for(let g=i;g<=
l;g++){let[b,x]=u.map(C=>C[m*o.nColumns+g]);if(!(b<=0&&x>=0&&b<x))continue;let[y,v]=[e.left+(g-i)*c,e.top+(m-s)*f],[$,N]=[
c-2*h,f-2*h];d.push(`M${y+h} ${v+h}l${$} ${N}m0 ${-N}l${-$} ${N}`)}return d.length?[k("path",{d:d.join(""),stroke:t.palette.
grey,"stroke-width":Math.min(1,h/2),fill:"none",class:"uncertain"})]:[]}function or(t,e){return[...Yu(t,e),...ef(t,e),...Qu(
t,e)]}var nf={column:[326,420,0],page:[672,900,0],slide:[1280,1280,720]},of=864,rf=420;function Fa({maps:t},e){let n=t.map(({role:o})=>o);
return t.length<2?[""]:e==="column"?n:["",...n]}function sf(t,e){let{panel:n}=t.selection,o=Fa(t,e);return o.includes(n)?
n:o[o.length-1]}function We({scene:t,figureOfMap:e}){let n=w("figure-size").value,o=Fa(t,n);return{size:n,panel:o.includes(
e)?e:sf(t,n),roles:o}}function Ia(t,e){let n=Math.max(640,t.width);return nf[e]||[n,n,0]}function ir(t){let{size:e,panel:n}=We(
t),{scene:o}=t;return{...o,selection:{...o.selection,panel:n},width:Ia(t,e)[1]-16,palette:Ze("light"),exporting:!0,ratio:4,
inLine:e==="page"||e==="slide",windowRoom:e==="screen"?o.windowRoom:0}}var rr={size:14,"font-weight":600},sr={size:9},ar=1.3;
function za(t,{size:e,...n},o){return Ue(t,e*(n["font-weight"]?1.2:1),o)}function ja(t,{size:e,...n},o,r){return t.map((s,a)=>O(
s,0,o+a*e*ar,{"font-size":e,fill:r,...n}))}function lr(t){let{size:e}=We(t),[n,o,r]=Ia(t,e),s=ir(t),a=t.view();if(!a.figure)
return null;let i=a.words(s),l=[i.note,`${Lo(s.data,s.selection,600)}${i.place&&`, ${i.place}`}. tl_ffblock ${s.data.provenance.
tl_ffblock||""}`],u=C=>{let[T,E]=[za(i.headline,rr,C-16),za(l.filter(Boolean).join(" "),sr,C-16)],A=T.length*rr.size*ar+
10;return{head:T,foot:E,top:A,beyond:A+E.length*sr.size*ar+8+16}},c=C=>e==="screen"?0:(r||of*o/n)-C,f=C=>a.figure({...s,
room:c(u(C).beyond)},s.width),h=({width:C=o-16})=>n===o?Math.min(o,Math.max(rf,Math.ceil(C)+16)):o,d=f(o);if(!d)return null;
let m=h(d),g=m<o&&r?f(m):d,{head:b,foot:x,top:y,beyond:v}=u(m),{ink:$,grey:N}=s.palette;return{scene:s,width:m,shown:n*m/
o,height:g.height+v,groups:g.groups.map(C=>({...C,y:C.y+y})),head:ja(b,rr,12,$),foot:ja(x,sr,y+g.height+8,N)}}function cr({
scene:t,head:e,foot:n,groups:o,width:r,height:s,shown:a},i,l){let u=o.map(f=>k("g",{transform:`translate(${f.x} ${f.y})`},
[...i(f),...f.nodes])),c=k("svg",{xmlns:be,width:a,height:s*a/r,viewBox:`-8 -8 ${r} ${s}`,"font-family":oe},[he(t.palette),
...l,...e,...u,...n]);return new XMLSerializer().serializeToString(c)}function Wa(t){let{palette:e}=t.scene,n=va(t.groups.
flatMap(({pictures:r})=>r));return cr(t,({pictures:r})=>r.flatMap(s=>Ma(s,e,n)),[F(-8,-8,t.width,t.height,e.paper)])}function _a(t,{
scene:e,groups:n,width:o,height:r}){let[s,a]=[t.canvas.width/o,t.canvas.height/r];t.setTransform(s,0,0,a,8*s,8*a),t.imageSmoothingEnabled=
!1,t.fillStyle=e.palette.paper,t.fillRect(-8,-8,o,r);for(let i of n)for(let{picture:l,x:u,y:c,width:f,height:h}of i.pictures)
t.drawImage(ht(l,e.palette,f*s,h*a,bn),i.x+u,i.y+c,f,h);t.setTransform(1,0,0,1,0,0)}function ur(t,e){let n=p("a",{href:URL.createObjectURL(t),download:e});n.click(),setTimeout(()=>URL.revokeObjectURL(n.href),
1e4),w("copied").textContent=`saved as ${e}${window.parent===window?"":", unless this frame blocks downloads"}`}function af({
scene:t},e,n){return So(t,n.words(t),e)}function Da(t,{scene:e},n){let{size:o}=We(t),r=t.view().words(e),s=[e.maps.length>
1&&t.view().name==="maps"?e.selection.panel:"",o==="screen"?"":o].filter(Boolean);return So(e,{...r,file:[...r.file,...s]},
n)}var fr="this view has nothing to save";function lf(t){let e=lr(t);if(!e){w("copied").textContent=fr;return}ur(new Blob(
[Wa(e)],{type:"image/svg+xml"}),Da(t,e,"svg"))}var Pa=3;function cf(t){return new Blob([io(t.toDataURL("image/png").split(
",")[1])],{type:"image/png"})}function uf(t){let e=lr(t);if(!e){w("copied").textContent=fr;return}let n=Da(t,e,"png"),o=new Image;
o.onload=()=>{let r=p("canvas",{width:Pa*o.width,height:Pa*o.height}),s=r.getContext("2d");_a(s,e),s.drawImage(o,0,0,r.width,
r.height),ur(cf(r),n)},o.src="data:image/svg+xml;charset=utf-8,"+encodeURIComponent(cr(e,()=>[],[]))}var ff=4e6;function Ba(t,e){
let n=e.table(t.scene);if(!n){w("copied").textContent=fr;return}let o=n.count*n.head.length;if(o>ff){w("copied").textContent=
`${R(o)} numbers are too many for one file; use .to_dataframe() in Python`;return}ur(new Blob([$a(n)],{type:"text/csv;ch\
arset=utf-8"}),af(t,"csv",e))}async function Ha(t,e){try{await navigator.clipboard.writeText(t),e.textContent="copied",setTimeout(
()=>{e.textContent=""},4e3)}catch{w("caption").textContent=t,w("figure-tools").hidden=!1,w("copied").textContent="this f\
rame blocks copying: select the text below"}}function qa(t){let e=ir(t);return Ps(e,t.view().words(e))}function hf(t){let{
scene:e}=t,{panel:n,roles:o}=We(t),r=a=>a===""?"all maps":Mt(e,e.maps.find(i=>i.role===a));w("figure-maps").replaceChildren(
...o.map(a=>B(a,r(a)))),w("figure-maps").value=n;let s=t.view().name==="maps";w("figure-maps-label").hidden=o.length<2||
!s,Y(w("figure-size").querySelector("[value=column]"),s?"one column (3.4 in), one map":"one column (3.4 in)")}function _e(t){
let e=t.view();hf(t);for(let n of["save-png","save-svg","save-csv"]){let o=!!(n==="save-csv"?e.table:e.figure);w(n).disabled=
!o,w(n).title=o?"":"this view has no such file; use PDF (print)"}w("caption").textContent=qa(t)}function Va(t){w("save-p\
ng").addEventListener("click",()=>uf(t)),w("save-svg").addEventListener("click",()=>lf(t)),w("save-csv").addEventListener(
"click",()=>Ba(t,t.view())),w("pairs-csv").addEventListener("click",()=>Ba(t,{table:wn,words:Vt})),w("print").addEventListener(
"click",()=>window.print()),w("copy-caption").addEventListener("click",()=>Ha(qa(t),w("copied"))),w("figure-size").addEventListener(
"change",()=>{t.figureOfMap=null,_e(t)}),w("figure-maps").addEventListener("change",()=>{t.figureOfMap=w("figure-maps").
value,_e(t)}),w("copy-link").addEventListener("click",()=>Ha(t.address(),w("link-note"))),w("figure-mode").addEventListener(
"click",()=>{let e=w("figure-tools");e.hidden=!e.hidden,w("figure-mode").setAttribute("aria-expanded",String(!e.hidden)),
_e(t),t.resized()})}var lt=globalThis.parent!==globalThis.window;function df(t,e){let o=Array.from(t.querySelectorAll("[tabindex]")).indexOf(
document.activeElement);e();let r=t.querySelectorAll("[tabindex]")[o];o>=0&&r&&r.focus({preventScroll:!0})}function $n(t){
let[e,n]=[null,null];return(o,r,s)=>{r===e&&n.update&&n.update(o)!==!1||(df(t,()=>{let a=s();n=a.nodes?a:{nodes:[a].flat(),
update:null},t.replaceChildren(...n.nodes)}),e=r,n.update&&n.update(o))}}function jt(t,e,n){return JSON.stringify([n,t.ratio,
t.palette.name,...e.map(o=>t.selection[o])])}function Ka({paper:t},e,n){if(t){for(let s of e)s();return}let o=[...e],r=()=>{
let s=performance.now()+12;for(;o.length&&n()&&performance.now()<s;)o.shift()();o.length&&n()&&setTimeout(r)};setTimeout(
r)}function mf(t,e,n,o){let{window:[r,s,a,i]}=t,l=r+Math.floor((o-e.top)/e.cell.height),u=a+Math.floor((n-e.left)/e.cell.width),
c=u>=a&&u<=i;if(o<e.top)return c&&o>Ct?{column:u}:null;if(l>s||n<P.axis)return null;if(u<a)return{row:l};if(c)return{row:l,
column:u};let f=Math.floor((n-e.left-e.across-V.gap/2)/(V.width+V.gap)),h=t.strips.filter(d=>e.map.columns[d])[f];return h?
{row:l,strip:h}:null}function vn(t,{row:e,column:n}){let{axes:o,selection:r}=t,s=e===void 0?void 0:o.rows[e].position;if(n===
void 0)return{to:s,read:"row"};let a=o.columns[n].position;return e===void 0?{from:a,read:"column"}:{to:s,from:a,read:r.
read}}var Ua={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[0,1]};function pf(t,e,[n,o]){let[r,s,a,i]=t.window,
l=(u,c,f)=>Math.max(c,Math.min(f,u));return{row:l((e.row??t.row)+n,r,s),column:l((e.column??t.column)+o,a,i)}}function gf(t,e){
let n=null,o=k("rect",{class:"band"}),r=s=>s&&s.row!==void 0&&s.column!==void 0;return{down:(s,a,i,l)=>{s.button===0&&s.
pointerType!=="touch"&&r(a)&&(n={target:a,x:i,y:l})},move:(s,a)=>{if(!n||Math.hypot(s-n.x,a-n.y)<6)return;let i={x:Math.
min(s,n.x),y:Math.min(a,n.y),width:Math.abs(s-n.x),height:Math.abs(a-n.y)};for(let[l,u]of Object.entries(i))o.setAttribute(
l,u);o.isConnected||t.marks.parentNode.append(o)},up:s=>{let a=o.isConnected&&n;o.remove();let i=n&&n.target;if(n=null,!a)
return!1;if(!r(s))return!0;let l=[i.row,s.row].sort((c,f)=>c-f),u=[i.column,s.column].sort((c,f)=>c-f);return l[1]>l[0]&&
u[1]>u[0]&&e({zoom:po([...l,...u])}),!0}}}function Ga(t,e){let{panel:n}=t,[o,r]=[null,!1],s=gf(t,e),a=c=>{let f=n.getBoundingClientRect(),
h=c.target.closest(".heads")?t.top-1:c.clientY-f.top;return[c.clientX-f.left,h]},i=c=>mf(t.scene,t,...a(c)),l=(c,f,h)=>{
o=c,t.scene.hover(c),qs(t.scene,c,f,h)},u=c=>{let f=n.getBoundingClientRect(),[h,,d]=t.scene.window;l(c,f.left+t.left+(c.
column-d+1)*t.cell.width,f.top+t.top+(c.row-h+1)*t.cell.height)};n.addEventListener("pointerdown",c=>{r=!1,s.down(c,i(c),
...a(c))}),n.addEventListener("pointermove",c=>{s.move(...a(c)),l(i(c),c.clientX,c.clientY)}),n.addEventListener("pointe\
rup",c=>{r=s.up(i(c))}),n.addEventListener("pointerleave",c=>{s.up(null),c.pointerType!=="touch"&&l(null)}),n.addEventListener(
"blur",()=>l(null)),n.addEventListener("click",c=>{let f=i(c);f&&!r&&e(vn(t.scene,f)),c.pointerType==="touch"&&l(f,c.clientX,
c.clientY)}),n.addEventListener("dblclick",()=>e({zoom:""})),n.addEventListener("keydown",c=>{if(c.key==="Escape"&&o)l(null);else if(c.
key==="Enter"&&o)e(vn(t.scene,o));else if(Ua[c.key]&&!c.altKey)u(pf(t.scene,o||{},Ua[c.key]));else return;c.preventDefault(),
c.stopPropagation()})}var Ya=["#008df9","#e20134","#009f81","#c78a00","#8400cd","#ff6e3a","#00b3a0","#9f0162","#5b7f00","#ff5aaf","#0050a0","#\
a40122","#5b6672"],J={row:20,smallest:11,printed:3,gap:190,label:150,head:26,band:16,faintest:.04,most:300,apart:1.8,square:7};
function Nn(t){return bt(t,"head").length>0}function U(t,e){let n=bt(t,"head"),o=t.channels.get(e.scope);return n.find(([
r])=>r===e.block)||n.find(([r,s])=>s.of===o.name||r===o.blockName)||n[0]}function kt(t,e){let[n,o]=U(t,e);return o.channels.
map(r=>K(t,n,r.name))}function hr(t){return t.name==="residual"}function st(t,e){let[,n]=U(t,e),o=e.heads.split(".").filter(
Boolean).map(Number).filter(a=>a<n.channels.length);if(o.length)return o;let r=n.channels.map((a,i)=>i),s=r.filter(a=>!hr(
n.channels[a]));return s.length?s:r}function Cn(t,e){let{data:n,selection:o,axes:r,hidden:s}=t,a=n.matrix(o.run,e,o.layer);
return Ye(r,o.words?ge(r,a,n.words.length):a,s,!1)}function wf(t,e,n){let o=st(t.data,t.selection);if(n)return o.length===
1&&o[0]===e?"":String(e);let r=o.includes(e)?o.filter(s=>s!==e):[...o,e].sort((s,a)=>s-a);return r.length?r.join("."):String(
e)}function bf(t,e){let{data:n,selection:o}=t,[,r]=U(n,o),s=st(n,o),a=r.channels.map((l,u)=>{let c=s.includes(u),f=p("bu\
tton",{type:"button",className:"head",textContent:l.name.replace(/^head /,""),title:`${l.name}: click shows or hides, sh\
ift-click shows it alone`});return f.setAttribute("aria-pressed",String(c)),r.signed||f.style.setProperty("--head",Ln(u)),
f.addEventListener("click",h=>e({heads:wf(t,u,h.shiftKey)})),f}),i=p("button",{type:"button",textContent:"all"});return i.
addEventListener("click",()=>e({heads:""})),p("div",{className:"toggles head-choice"},[dr(t,e),p("span",{className:"note",
textContent:"heads"}),...a,i,...xf(t,e)])}function xf(t,e){let{segments:n}=t.data;if(n.length<2)return[];let r=n.flatMap(
([a],i)=>n.map(([l],u)=>[`${i}-${u}`,`${l} → ${a}`])).filter(([a])=>ho(t.data,a)).map(([a,i])=>B(a,i)),s=p("select",{},
[B("","all lines"),...r]);return s.autocomplete="off",s.value=t.selection.between,s.setAttribute("aria-label","lines bet\
ween segments"),s.addEventListener("change",()=>e({between:s.value})),[s]}function On({data:t,selection:e,axes:n}){let[o,
r]=e.between.split("-").map(Number),s=n.columns.map(({position:i})=>qn(t,i)),a=e.between==="";return{row:i=>a||s[n.own[i]]===
o,column:i=>a||s[i]===r}}function dr(t,e){let{data:n,selection:o}=t,[r]=U(n,o),s=p("select",{},bt(n,"head").map(([a,i])=>B(
a,i.title)));return s.autocomplete="off",s.value=r,s.setAttribute("aria-label","maps by head"),s.addEventListener("chang\
e",()=>e({block:s.value})),s}var yf=on();function En(t){return yf(jt(t,mr(t),0),()=>kf(t))}function kf(t){let{data:e,selection:n,
axes:o}=t,r=kt(e,n),s=On(t),a=c=>c.map((f,h)=>s.row(Math.floor(h/o.nColumns))&&s.column(h%o.nColumns)?f:NaN),i=st(e,n).map(
c=>[c,a(Cn(t,r[c]))]),l=Math.max(...i.map(([,c])=>S(c)))||1,u=[];for(let[c,f]of i)f.forEach((h,d)=>{let m=h/l;Math.abs(m)>=
J.faintest&&u.push([Math.floor(d/o.nColumns),d%o.nColumns,m,c])});return{limit:l,lines:u.sort((c,f)=>Math.abs(c[2])-Math.
abs(f[2]))}}function mr({selection:t}){return["run","layer","heads","between","block","words","hide",...t.block?[]:["sco\
pe"]]}function Ln(t){return Ya[t%Ya.length]}function Xa({data:t,selection:e,palette:n}){let{signed:o}=U(t,e)[1];return([
,,r,s])=>o?n[r<0?"loss":"gain"]:Ln(s)}function pr(t,e,n,o){let{selection:r,row:s,column:a}=t,i=Xa(t),l=n||(r.read==="row"?
{row:s}:{column:a}),u=([h,d])=>(l.row===void 0||l.row===h)&&(l.column===void 0||l.column===d),[c,f]=[e.length-J.most,st(
t.data,r)];for(let h of[!1,!0])for(let[d,m]of e.entries()){if(u(m)!==h||!h&&d<c)continue;m[4]=(f.indexOf(m[3])-(f.length-
1)/2)*J.apart;let g=Math.abs(m[2]);h?o(m,i(m),Math.min(1,.15+g),2):o(m,i(m),.3*g,1)}}function gr(t,[e,n,,,o=0]){let r=Math.
max(-t.height/2,Math.min(t.height/2,o)),[s,a]=[t.y(e)+r,t.yColumn(n)+r];return[t.left,s,t.left+70,s,t.right-70,a,t.right,
a]}function Mn(t,e,n,o,r){let s=e.getContext("2d");s.setTransform(t.ratio,0,0,t.ratio,0,0),s.clearRect(0,0,e.width,e.height),
pr(t,o,r,(a,i,l,u)=>{let[c,f,...h]=gr(n,a);Object.assign(s,{globalAlpha:l,strokeStyle:i,lineWidth:u}),s.beginPath(),s.moveTo(
c,f),s.bezierCurveTo(...h),s.stroke()})}function wr(t,e){let[n,o]=e.size;return Nt(p("canvas",{width:Math.round(n*t.ratio),
height:Math.round(o*t.ratio)}),0,0,n,o)}function br(t,e,n){let{axes:o,palette:r}=t,s=z(t),a=On(t),i=Math.min(13,Math.max(
P.smallest,n)),l=zt(n),u=e.left-26-(t.data.segments.length?J.band:0),c=(m,g,b,x,y)=>O(D(m,i,u),g,b+i*.35,{"text-anchor":x,
"font-size":i,fill:y?r.ink:r.grey,opacity:y?1:.5,class:"line-token"}),f=(m,g,b,x)=>O(m,g,b+3.5,{"text-anchor":x,"font-si\
ze":9,fill:r.grey}),h=o.rows.map((m,g)=>({...m,row:g})).filter(({row:m})=>Xt(m,l,t.row)),d=o.columns.map((m,g)=>({...m,column:g})).
filter(({column:m})=>Xt(m,l,t.column));return[...h.map(({position:m,row:g})=>({target:{row:g},node:c(s[o.own[g]],e.left-
26,e.y(g),"end",a.row(g)),number:f(ne(t.data,m),e.left-5,e.y(g),"end")})),...d.map(({position:m,column:g})=>({target:{column:g},
node:c(s[g],e.right+26,e.yColumn(g),"start",a.column(g)),number:f(ne(t.data,m),e.right+5,e.yColumn(g),"start")}))]}function xr(t,e){
let{data:n,axes:o,palette:r}=t,s=o.columns.map(({position:a})=>qn(n,a));return n.segments.flatMap(([a],i)=>{if(!s.includes(
i))return[];let[l,u]=[e.yColumn(s.indexOf(i))-e.height/2+1,e.yColumn(s.lastIndexOf(i))+e.height/2-1],c=h=>O(D(a,11,u-l),
0,0,{"text-anchor":"middle","font-size":11,fill:r.grey,class:"segment",transform:`translate(${h} ${(l+u)/2}) rotate(-90)`}),
f=h=>F(h,l,2,u-l,r.grey);return[f(J.band-2),c(J.band-6),f(e.size[0]-J.band),c(e.size[0]-2)]})}function yr(t,e){let{axes:n}=t,
o=Math.max(t.room?J.printed:J.smallest,Math.min(J.row,(t.room?t.room-60:1400)/n.nColumns)),r=Math.min(J.label,Math.max(70,
(e-90)/3)),s=Math.min(e-r,r+Math.max(J.gap,Math.min(520,.55*e))),a=c=>J.head+(c+.5)*o,i=Math.max(...z(t).map(c=>j(c.slice(
0,60),Math.min(13,Math.max(P.smallest,o))))),l=s+32+Math.min(i,r-26),u=t.room?0:st(t.data,t.selection).length*(J.square+
1)+8;return{height:o,left:r,right:s,squares:l,yColumn:a,y:c=>a(n.own[c]),size:[s+r+u,J.head+n.nColumns*o+8]}}function kr(t,e){
let n={"font-size":11,fill:t.palette.grey},o=(r,s)=>j(r,11)<=e.left?r:s;return[O(o("to (destination, query)","to (query)"),
e.left,14,{...n,"text-anchor":"end"}),O(o("from (source, key)","from (key)"),e.right,14,n)]}function $f(t,e,n,o){let r=k(
"svg",{width:e.size[0],height:e.size[1]},[...kr(t,e),...xr(t,e),...n.flatMap(({node:s,number:a})=>[s,a])]);for(let{node:s,
target:a}of n)s.addEventListener("click",()=>o(vn(t,a)));return r}function vf(t,e,{lines:n}){let{selection:o,row:r,column:s}=t,
a=Xa(t),i=st(t.data,o),l=Math.min(J.square,e.height-2);return n.filter(([u,c])=>o.read==="row"?u===r:c===s).map(u=>{let[
c,f]=[o.read==="row"?e.yColumn(u[1]):e.y(u[0]),e.squares+i.indexOf(u[3])*(l+1)],h=F(f,c-l/2,l,l,a(u));return h.setAttribute(
"fill-opacity",Math.min(1,.1+.9*Math.abs(u[2])).toFixed(2)),h})}function $r(t,e){for(let{node:n,target:o}of e)n.setAttribute(
"font-weight",o.row===t.row||o.column===t.column?700:400)}function vr({data:t,selection:e},n){return`Width and strength \
of a line: ${U(t,e)[1].unit}, up to ${X(n,!1)}; none below ${H(J.faintest)} of that.`}var Mr=[["gain","positive"],["loss",
"negative"]];function Mf({data:t,selection:e,palette:n}){if(!U(t,e)[1].signed)return[];let o=r=>{let s=p("i",{className:"\
swatch"});return s.style.backgroundColor=n[r],s};return[p("p",{className:"note signs"},Mr.map(([r,s])=>p("span",{},[o(r),
` ${s}`])))]}function Za(t,e,n){let o=yr(t,n),{limit:r,lines:s}=En(t),a=wr(t,o),i=br(t,o,o.height),l=$f(t,o,i,e),u=k("g",
{class:"head-squares"});l.append(u);let c=p("div",{className:"lines"},[a,l]),f=`${vr(t,r)} Drawn: the strongest ${J.most}\
 and all of the selected token, whose squares are its heads. Point at a token for its lines, click to select it.`,h=d=>{
$r(d,i),u.replaceChildren(...vf(d,o,{lines:s}));for(let{node:m,target:g}of i)m.onpointerenter=()=>d.hover(g);l.onpointerleave=
()=>d.hover(null),d.marked.push(m=>Mn(d,a,o,s,m)),Mn(d,a,o,s,null)};return{nodes:[bf(t,e),...Mf(t),c,p("p",{className:"n\
ote",textContent:f})],update:h}}var Nf=3e3;function Cf(t,e,n){if(n.length>Nf){let r=wr(t,e);return Mn(t,r,e,n,null),[k("image",{x:0,y:0,width:e.size[0],
height:e.size[1],href:r.toDataURL("image/png")})]}let o=[];return pr(t,n,null,(r,s,a,i)=>{let[l,u,...c]=gr(e,r);o.push(k(
"path",{d:`M${l} ${u}C${c.join(" ")}`,fill:"none",stroke:s,"stroke-opacity":a.toFixed(3),"stroke-width":i}))}),o}function Of({
data:t,selection:e,palette:n}){let[,o]=U(t,e);return o.signed?Mr.map(([r,s])=>[n[r],s]):st(t,e).map(r=>[Ln(r),o.channels[r].
name])}function Ef(t,e){let n=[],[o,r]=[0,9];for(let[s,a]of Of(t)){let i=15+j(a,11);o+i>e&&([o,r]=[0,r+15]),n.push(F(o,r-
8,10,8,s),O(a,o+14,r,{"font-size":11,fill:t.palette.ink})),o+=i+14}return{nodes:n,height:r+14}}function Ja(t,e){let n=Ef(
t,e),o=yr(t,e),r=br(t,o,o.height);$r(t,r);let s=[...Cf(t,o,En(t).lines),...kr(t,o),...xr(t,o),...r.flatMap(({node:i,number:l})=>[
i,l])];return{groups:[{x:0,y:0,pictures:[],nodes:n.nodes},{x:0,y:n.height,pictures:[],nodes:s}],height:n.height+o.size[1]}}
function Lf(t){let{data:e,selection:n,axes:o,row:r,column:s}=t,[a,i]=[tt(t,o.own[r]),tt(t,s)];if(!o.reaches(r,s))return Ee(
a,i);let[,l]=U(e,n),u=kt(e,n),c=b=>(n.words?Cn(t,b):e.matrix(n.run,b,n.layer))[r*o.nColumns+s],h=st(e,n).map(b=>({name:l.
channels[b].name,value:t.hidden.has(s)?NaN:c(u[b])})).filter(({value:b})=>Number.isFinite(b)).sort((b,x)=>Math.abs(x.value)-
Math.abs(b.value));if(!h.length)return`There is no number here of the ${At(l,a,i)}.`;let[{name:d,value:m}]=h,g=h.length>
1?` has the largest ${l.short} of the ${h.length} shown`:`: ${l.short}`;return`Layer ${n.layer}, from ${i} to ${a}: ${d}${g}${h.
length>1?":":""} ${l.signed?L(m,!1):R(m)}.`}function Sf({data:t,selection:e}){if(e.between==="")return"";let[n,o]=e.between.
split("-").map(r=>t.segments[Number(r)][0]);return` Drawn: lines from ${o} to ${n} only.`}function Qa(t){let{data:e,selection:n}=t,
[o,r]=U(e,n),s=st(e,n),a=s.length<r.channels.length?s.map(i=>r.channels[i].name).join(", "):"all heads";return{headline:Lf(
t),meaning:`A line joins the destination (left) and the source (right) of a cell of a head's map: ${r.meaning}.`,place:`\
layer ${n.layer}`,shown:`${r.title}, ${a}`,remark:"",note:`${vr(t,En(t).limit)} Those of ${tt(t,q(t))} stand out.${Sf(t)}`,
exact:r.exact,method:"",file:[`layer${n.layer}`,`lines-${o}`.slice(0,60),n.heads?`heads${n.heads}`:"all-heads",...n.between?
[`segments${n.between}`]:[]]}}function Nr(t,e,n,o={row:r=>!0,column:r=>!0}){let{data:r,selection:s,axes:a}=t,[,i]=U(r,s),
l=kt(r,s),u=z(t),c=function*(){for(let h of n){let d=e.map(m=>Cn({...t,selection:{...s,layer:h}},l[m]));for(let[m,g,b]of Uo(
t))o.row(m)&&o.column(g)&&(yield[h,...Ko(t,u,m,g),...d.map(x=>x[b])])}};return{head:["layer",...je,...e.map(h=>`${i.channels[h].
name} ${i.short}`)],lines:c,count:n.length*a.nRows*a.nColumns}}function ti(t){return Nr(t,st(t.data,t.selection),[t.selection.
layer],On(t))}var Or=5;function gt(t,e,n,o,r){return k("rect",{x:t-.75,y:e-.75,width:n+1.5,height:o+1.5,fill:"none",stroke:r,"stroke-w\
idth":1.25})}function ei(t,e,n,o){let r={left:[[0,0],[6,-4],[6,4]],up:[[0,0],[-4,6],[4,6]]}[n];return k("polygon",{points:r.
map(([s,a])=>`${t+s},${e+a}`).join(" "),fill:o})}function Cr(t,e,n,o){let[r,s]=t.window;if(n<r||n>s)return[];let a=e.top+
(n-r)*e.cell.height;if(e.cell.height>=Or)return[gt(e.left,a,e.across,e.cell.height,o)];let i=a+e.cell.height/2;return[ei(
e.left+e.across+1,i,"left",o)]}function de(t,e,n,o){let[,,r,s]=t.window;if(n<r||n>s)return[];let a=e.left+(n-r)*e.cell.width;
if(e.cell.width>=Or)return[gt(a,e.top,e.cell.width,e.down,o)];let i=a+e.cell.width/2;return[ei(i,e.top+e.down+1,"up",o)]}
function Af(t,e,n){let{row:o,column:r,selection:s,window:[a,i,l,u]}=t;if(o<a||o>i||r<l||r>u)return[];let{width:c,height:f}=e.
cell,[h,d]=[e.left+(r-l)*c,e.top+(o-a)*f];return Math.min(c,f)>=Or?[gt(h+1.5,d+1.5,c-3,f-3,n)]:s.read==="row"?de(t,e,r,n):
Cr(t,e,o,n)}function Er(t,e,n){let{palette:o,selection:r,row:s,column:a}=t,l=[...r.read==="row"?Cr(t,e,s,o.mark):de(t,e,
a,o.mark),...Af(t,e,o.mark)];return n&&n.row!==void 0&&l.push(...Cr(t,e,n.row,o.read)),n&&n.column!==void 0&&l.push(...de(
t,e,n.column,o.read)),l}var oi=["run","refRun","words","panel","zoom","root"];function Sn(t,e){return{cells:e.cells,nColumns:t.axes.nColumns,window:t.
window,scale:e.scale,limit:e.limit,root:t.selection.root}}function Tf(t,e,n){let o=e.scale==="signed",[r,s]=t.window,a=t.
maps.filter(l=>l.columns[n]&&l.role==="difference"==(e.role==="difference")),i=n==="own"&&!o?1:Math.max(...a.map(l=>S(l.
columns[n])));return{cells:e.columns[n],nColumns:1,window:[r,s,0,0],scale:o?"signed":"bias",limit:i,root:0}}function Rf(t,e){
let n=t.strips.filter(s=>e.map.columns[s]),o={y:e.top,height:e.down};return[{name:"",picture:Sn(t,e.map),x:e.left,width:e.
across,...o},...n.map((s,a)=>({name:s,picture:Tf(t,e.map,s),width:V.width,...o,x:e.left+e.across+V.gap+a*(V.width+V.gap)}))]}
function ri(t,e,n,o,r){let s=hn(t,e,n);return ht(Sn(s,s.map),t.palette,o*t.ratio,r*t.ratio)}function ni(t){return JSON.stringify(
t.map(({map:e,pictures:n,cell:o,top:r,left:s,across:a,width:i,x:l,y:u,height:c})=>[e.role,e.scale,e.labels,n.map(({name:f})=>f),
o,r,s,a,i,l,u,c]))}function Lr(t,e){let n=Ea(t,e);for(let o of n.frames)o.pictures=Rf(t,o);return n}function zf(t,e,n){let[
o,r,s]=[k("g"),k("g",{class:"marks"}),k("g")],[a,i]=[nr(t,e),[o,r]].map(h=>k("svg",{width:e.width,height:e.height,"aria-\
hidden":"true"},h)),l=e.pictures.map(()=>p("canvas")),u=e.pictures.map(({name:h,x:d,width:m},g)=>Nt(p("div",{className:h?
"beside":"cells"},[l[g]]),d,e.top,m,e.down)),c=Nt(p("div",{className:"panel",tabIndex:0},[jf(e,[...Qo(t,e),s]),...u,a,i]),
e.x,e.y,e.width,e.height);return c.setAttribute("role","application"),c.dataset.role=e.map.role,t.maps.length>1&&!t.beside&&
c.append(Ff(t,e,n)),Object.assign(e,{panel:c,marks:r,named:s,fill:(h,{map:d,notes:m,pictures:g})=>{Object.assign(e,{map:d,
notes:m,pictures:g}),g.forEach(({picture:b,width:x},y)=>ht(b,h.palette,x*h.ratio,e.down*h.ratio,l[y])),o.replaceChildren(
...or(h,e)),c.setAttribute("aria-label",`${Mt(h,d)}. Arrow keys read cells, Enter selects.`)}})}function jf({top:t,width:e},n){
let o=t-Ct-5,r=p("div",{className:"heads"},[k("svg",{width:e,height:o,viewBox:`0 ${Ct} ${e} ${o}`,"aria-hidden":"true"},
n)]);return r.style.marginTop=`${Ct}px`,r}function Ff(t,e,n){let o=t.selection.panel===e.map.role,r=p("button",{type:"bu\
tton",className:"enlarge",textContent:o?"⤡":"⤢",title:o?"show all maps":"show this map alone"});return r.setAttribute(
"aria-label",r.title),r.addEventListener("click",s=>{s.stopPropagation(),n({panel:o?"":e.map.role})}),r.addEventListener(
"pointerdown",s=>s.stopPropagation()),r}function If(t,e){let n=o=>{for(let r of e)r.marks.replaceChildren(...r.selected,
...Er(t,r,o))};for(let o of e)o.scene=t,o.selected=o.rows.mark(t.row),o.named.replaceChildren(...o.columns.mark(t.column));
t.marked.push(n),n(null)}function Sr(t,e,n){let o=Lr(t,n),r=ni(o.frames),s=p("div",{className:"plot"},[k("svg",{width:0,
height:0,"aria-hidden":"true"},[he(t.palette)])]);s.style.height=`${o.height}px`;for(let l of o.frames)s.append(zf(t,l,e).
panel),Ga(l,e);let a="",i=l=>{let u=jt(l,Dt,n)+l.windowRoom;if(u!==a){let{frames:c}=a===""?o:Lr(l,n);if(a!==""&&ni(c)!==
r)return!1;c.forEach((f,h)=>o.frames[h].fill(l,f)),a=u}return If(l,o.frames),!0};return{nodes:t.beside?[s]:[..._f(t,e),s],
update:i}}var Wf={before:"before",after:"after",difference:"change"};function _f({maps:t,selection:e},n){if(!e.panel||t.
length<2)return[];let o=[...t.map(({role:r})=>[r,Wf[r]]),["","side by side"]];return[p("div",{className:"toggles panels"},
o.map(([r,s])=>{let a=p("button",{type:"button",textContent:s});return a.setAttribute("aria-pressed",String(r===e.panel)),
a.addEventListener("click",()=>n({panel:r})),a}))]}function si(t,e){let n=Lr(t,e);return{groups:n.frames.map(r=>({x:r.x,
y:r.y,pictures:r.pictures,nodes:[...Qo(t,r),...nr(t,r),...r.rows.mark(t.row),...r.columns.mark(t.column),...or(t,r),k("g",
{class:"marks"},Er(t,r,null))]})),width:n.width,height:n.height}}var Pf="Rows: layers, columns: heads. Each small map has its own scale.",G={label:26,head:18,gap:3,largest:110,smallest:22,
pale:.3};function ai({data:t,selection:e}){return Ht(U(t,e)[1])?e.cells:"none"}function Tr(t){let{data:e,selection:n}=t,
{channels:o}=U(e,n)[1],r=kt(e,n),s=r.filter((a,i)=>!hr(o[i]));return ai(t)==="others"&&s.length?s:r}function ii(t){let e=Tr(
t).length<kt(t.data,t.selection).length;return Pf+(e?" The residual connection contributes to the token itself only: it \
has no column.":"")}function An({data:t,selection:e},n){return e.heads===""||st(t,e).includes(t.channels.get(n).index)}function li({
selection:t}){return["run","cells","range","root","words","hide","block",...t.block?[]:["scope"]]}function Bf(t,e,n,o,r){
let{data:s}=t,a=`layer ${o}, ${s.channels.get(n).name}`,i=p("button",{type:"button",className:"grid-cell",title:a});return i.
setAttribute("aria-label",a),Object.assign(i.style,{width:`${r}px`,height:`${r}px`}),i.addEventListener("click",()=>e({layer:o,
scope:n,ref:"",view:"maps"})),i}function ci(t,e){return Math.max(G.smallest,Math.min(G.largest,Math.floor((e-G.label-8)/
t)-G.gap))}function Ar(t,e){return t.channels.get(e).name.replace(/^head /,"")}function ui(t,e,n){let{data:o}=t,r=Tr(t),
s=ci(r.length,n),a=o.layers.map(d=>r.map(m=>({layer:d,key:m,button:Bf(t,e,m,d,s)}))),i=a.map(d=>p("div",{className:"grid\
-line"},[p("span",{className:"grid-layer",textContent:d[0].layer}),...d.map(({button:m})=>m)])),l=r.map(d=>{let m=p("spa\
n",{className:"grid-head",textContent:Ar(o,d)});return m.style.width=`${s}px`,m}),u=p("div",{className:"grid-line grid-h\
eads"},[p("span",{className:"grid-layer"}),...l]),c=a.flat();Ka(t,c.map(({layer:d,key:m,button:g})=>()=>g.append(ri(t,d,
m,s,s))),()=>u.isConnected);let f=d=>{l.forEach((m,g)=>m.classList.toggle("chosen",d.selection.heads!==""&&An(d,r[g])));
for(let{button:m,key:g,layer:b}of c)m.classList.toggle("current",b===d.selection.layer&&(d.selection.heads===""?g===d.selection.
scope:An(d,g))),m.style.opacity=An(d,g)?"":String(G.pale)};return{nodes:[p("div",{className:"toggles"},[dr(t,e)]),p("p",
{className:"note",textContent:`${ii(t)} A click opens a map.`}),p("div",{className:"grid"},[u,...i])],update:f}}function fi(t,e){
let{data:n,palette:o}=t,r=Tr(t),s=Math.min(ci(r.length,e)+G.gap,(e-G.label)/r.length,t.room?(t.room-G.head)/n.layers.length:
1/0),[a,i]=[s-G.gap,zt(s)],l=n.layers.flatMap((g,b)=>r.map((x,y)=>{let v=hn(t,g,x);return{picture:Sn(v,v.map),x:G.label+
y*s,y:G.head+b*s,width:a,height:a}})),u={"font-size":10,fill:o.grey},c=n.layers.flatMap((g,b)=>b%i?[]:[O(g,G.label-6,G.head+
b*s+a/2+4,{...u,"text-anchor":"end"})]),f=Math.max(...r.map(g=>j(Ar(n,g),10)))>s,h=r.map((g,b)=>{let x=G.label+b*s+a/2;return f&&
b%i?O("",x,0):O(D(Ar(n,g),10,Math.max(s,24)),x,G.head-5,{...u,"text-anchor":"middle"})}),d=l.map(({x:g,y:b})=>k("rect",{
x:g,y:b,width:a,height:a,fill:"none",stroke:o.line,"stroke-width":.5})),m=r.flatMap((g,b)=>An(t,g)?[]:[k("rect",{x:G.label+
b*s,y:G.head,width:a,height:n.layers.length*s,fill:o.paper,"fill-opacity":1-G.pale})]);return{groups:[{x:0,y:0,pictures:l,
nodes:[...c,...h,...d,...m]}],height:G.head+n.layers.length*s}}function hi(t){let{data:e,selection:n}=t,[o,r]=U(e,n),s=ai(
t);return{headline:`Every layer and head: ${r.title}.`,meaning:`Each small map is a head of a layer. A cell: ${Eo(r,s)}.`,
place:"all layers",shown:`${r.title}, all heads`,remark:"",note:ii(t),exact:r.exact,method:"",file:["all-layers",`heads-${o}`.
slice(0,60),s]}}function di(t){let e=U(t.data,t.selection)[1].channels.map((n,o)=>o);return Nr(t,e,t.data.layers)}var W={left:34,gap:26,smallest:4,largest:20,few:96,lowest:330,wide:640,framed:330,around:320,head:20,enough:330,legend:190,
banded:7,least:1.5},Jt={width:13,gap:12},Ft={most:6,each:15,radius:6,least:.03},Zt={widest:7,thinnest:1,bolder:3,named:3,
sag:.16,apart:9,reach:12};function bi(t){return it(t)||_(t)&&t.layered&&t.layers.length>1}function xi({data:t,selection:e}){
let n=["run","block","words","hide","zoom","range","root"];return it(t)?n:[...n,"scope","ref","refRun","read","cells",e.
read==="row"?"to":"from"]}function Hf(t,e,n){let o=t.room?(t.room-150-(n?80:0))*e/(e+n):lt?W.framed:Math.max(W.lowest,window.
innerHeight-W.around);return Math.max(W.smallest,Math.min(e>13?W.largest:W.few,o/e))}function yi(t){let[e,n]=Object.entries(
t.data.runs[t.selection.run].blocks).find(([,{exact:o,tracks:r,axis:s}])=>o&&s==="scope"&&r&&r.length)||["",null];return n?
n.tracks[0].columns.map(o=>({...o,name:e,values:n.tracks[0].values[o.channel]})):[]}function ki(t,e){let{window:[,,n,o]}=t,
{strip:r,heads:s,words:a,neurons:i}=oa(t),l=j(a,11),u=yi(t),c=W.left+(u.length?u.length*Jt.width+Jt.gap:0),f=c+(r?V.gap+
V.width:0)+8,h=s?Math.max(6,Math.min(W.head,e/3/s)):0,d=i?W.gap+Ft.most*Ft.each:0,m=(s?W.gap+Math.max(l,h*s):0)+d,g=m>0&&
e-f-m>=W.enough,b=e-f-(g?m:0),x=Math.min(Math.max(yt.largest,W.wide/(o-n+1)),b/(o-n+1));return{changes:u,heads:s,named:l,
left:c,beyond:f,across:h,dots:d,further:m,beside:g,wide:x}}function $i(t,e){let{window:[,,n,o]}=t,r=ra(t),s=r.rows.length,
{changes:a,heads:i,named:l,left:u,beyond:c,across:f,dots:h,further:d,beside:m,wide:g}=ki(t,e),b=t.data.layers.length&&r.
block?s-1:s,x=d>0&&!m,y=Hf(t,s,x?b:0),v={width:g,height:y},$={labels:z(t)},N=8+xn(t,Xo(t,$),P.column,Gt(v.width)),C={left:u,
top:N,cell:v,across:v.width*(o-n+1),down:y*s,map:$},T=N+C.down+(r.before?48:34),E=m?f:Math.min(W.head,(e-W.left-h-8)/Math.
max(1,i)),A={left:m?C.across+c-8+W.gap:W.left,top:m?N:T+36,cell:{width:E,height:y},across:E*i,down:y*b},ot=A.left+Math.max(
l,A.across),Q=h?{...A,left:ot+(i?W.gap:0),across:Ft.most*Ft.each}:null,me=Math.max(C.left+C.across+c-u,...d?[ot,Q?Q.left+
Q.across:0]:[]);return{arcs:[],names:[],dots:[],width:me,stream:r,lines:b,frame:C,heads:i,headFrame:A,neuronFrame:Q,beside:m,
changes:a,strip:r.strip?C.left+C.across+V.gap:null,height:x?A.top+A.down+8:T}}function Pe({frame:t}){return t.cell.width>=
W.banded}function vi(t){return ua(t,ki(t,t.width).wide>=W.banded)}function Mi(t,e){let{stream:n,lines:o,frame:r,headFrame:s,
heads:a,strip:i,changes:l}=e,{root:u}=t.selection,[,,c,f]=t.window,h=(m,g,b,x)=>({root:u,...x,cells:m,nColumns:g,window:[
0,b-1,0,g-1]}),d=Pe(e)?[]:[{picture:{root:u,scale:n.scale,cells:n.cells,limit:n.limit,nColumns:t.axes.nColumns,window:[0,
n.rows.length-1,c,f]},x:r.left,y:r.top,width:r.across,height:r.down}];if(l.length){let m=new Float32Array(o*l.length).fill(
NaN);l.forEach(({values:x},y)=>t.data.layers.forEach((v,$)=>{m[n.layers.indexOf(v)*l.length+y]=x[$]===null?NaN:x[$]}));let[
g,b]=[l.length*Jt.width,r.cell.height*o];d.push({picture:h(m,l.length,o,{scale:"contribution",root:1,limit:S(m)}),x:W.left,
y:r.top,width:g,height:b})}if(i!==null&&d.push({picture:h(n.strip.values,1,n.rows.length,n.strip),x:i,y:r.top,width:V.width,
height:r.down}),a){let{values:m,least:g,limit:b,scale:x}=n.heads,y=Float32Array.from(m.flat(),v=>x==="signed"?v:Math.max(
0,v-g));d.push({picture:h(y,a,o,{scale:x,limit:b-g}),x:s.left,y:s.top,width:s.across,height:s.down})}return d}var mi=.25;
function Ni({palette:t,selection:e},n,o,r){return rt(t,Math.sign(n)*(mi+(1-mi)*Pt(n,o,e.root)),1,r)}function Df(t,e){if(!Pe(
e))return[];let{frame:n,stream:{rows:o,before:r,ends:s,limit:a,scale:i}}=e,{palette:l,selection:u}=t,[,,c,f]=t.window,h=m=>a>
0?Pt(m,a,u.root)*(n.cell.width-1):0,d=[];return o.forEach((m,g)=>{for(let b=c;b<=f;b++){let x=m[b],y=r?Math.min(x,r[g][b]):
x,[v,$]=[h(y),h(r?Math.max(x,r[g][b]):x)];if(!($>=W.least))continue;let N=n.left+(b-c+.5)*n.cell.width,C=(E,A)=>F(N-E/2,
n.top+g*n.cell.height,E,n.cell.height,A),T=[...r?[C($,l[x>y?"gain":"loss"])]:[],C(v,Ni(t,y,a,i).hex)];if(s){let[E,A]=s.map(
ee=>ee[g][b]);E<=0&&A>=0&&Object.entries({fill:l.paper,stroke:l[x<0?"loss":"gain"]}).forEach(([ee,Il])=>T[0].setAttribute(
ee,Il));let[ot,Q]=[E,A].map(ee=>N+(Math.sign(ee)===Math.sign(x)?h(ee)/2:0)),me=n.top+(g+.5)*n.cell.height;T.push(k("path",
{d:`M${ot} ${me}H${Q}M${ot} ${me-3}v6M${Q} ${me-3}v6`,stroke:l.ink,fill:"none",class:"whisker"}))}T[0].dataset.share=`${g}\
,${b}`,d.push(...T)}}),d}function qf(t,e){let{frame:n,stream:{block:o,limit:r}}=e;if(!o)return{reach:[],drawn:[]};let{palette:s}=t,
[,,a,i]=t.window,l=d=>n.left+(d-a+.5)*n.cell.width,u=[],c=new Map,f=[],h=ia(t,o,r).filter(({from:d,to:m})=>Math.min(d,m)>=
a&&Math.max(d,m)<=i).map((d,m)=>{let g=[d.layer,d.from,d.to].join(),b=c.get(g)??0;c.set(g,b+1);let[x,y]=[l(d.from),l(d.to)],
v=n.top+(d.layer+.5)*n.cell.height,$=Math.min(v+n.cell.height+2*Math.min(60,Zt.sag*Math.abs(y-x)),2*(n.top+n.down)-v)+b*
Zt.apart,N=s[d.share<0?"loss":"gain"],C=Math.max(Zt.thinnest,Zt.widest*Math.min(1,Math.abs(d.share)/r)),T=`M${x} ${v}Q${(x+
y)/2} ${$} ${y} ${v+n.cell.height}`,E=k("path",{d:T,fill:"none",stroke:N,"stroke-width":C,"stroke-opacity":.8,"stroke-li\
necap":"round",class:"arc"});return E.dataset.arc=String(m),f.push(Object.assign(k("path",{d:T,fill:"none",stroke:"trans\
parent","stroke-width":Math.max(Zt.reach,C)}),{arc:d})),u.length<Zt.named&&u.push(Vf(t,n,d,(x+y)/2,(v+$+n.cell.height/2)/
2+4,N,u)),Object.assign(E,{arc:d})});return Object.assign(e,{arcs:[...h],names:u.filter(Boolean)}),{reach:f,drawn:[...h.
reverse(),...u.filter(Boolean)]}}function Vf(t,e,n,o,r,s,a){let{layer:i,head:l,share:u}=n,c=`L${i}H${l} ${L(u,!1)}`,f=j(
c,11)*Ie,h=Math.max(e.left+f/2+2,Math.min(e.left+e.across-f/2-2,o)),d=Math.min(r,e.top+e.down-4);if(a.filter(Boolean).some(
({at:x})=>Math.abs(x.y-d)<13&&Math.abs(x.x-h)<(x.wide+f)/2+4))return null;let g={"font-size":11,"font-weight":700,"text-\
anchor":"middle",fill:s},b=[F(h-f/2-2,d-10,f+4,13,t.palette.paper),O(c,h,d,g)];for(let x of b)Object.assign(x,{arc:n});return Object.
assign(k("g",{class:"arc-name"},b),{at:{x:h,y:d,wide:f}})}function Kf(t,e){let{stream:n,neuronFrame:o}=e;if(!o)return[];
let{left:r,top:s,across:a,cell:i}=o,l=S(n.neurons.flat().map(([,c])=>c)),u=Math.min(Ft.radius,i.height/2);return n.neurons.
flatMap((c,f)=>{let h=s+(f+.5)*i.height,d=k("line",{x1:r,x2:r+a,y1:h,y2:h,stroke:t.palette.hatch}),m=c.filter(([,g])=>Math.
abs(g)>=Ft.least*l).slice(0,Ft.most).map(([g,b],x)=>{let y=k("circle",{cx:r+(x+.5)*Ft.each,cy:h,r:Math.max(1,u*Math.sqrt(
Math.abs(b)/(l||1))),fill:t.palette[b<0?"loss":"gain"]});return Object.assign(y,{neuron:{layer:f,neuron:g,share:b}})});return e.
dots.push(...m),[d,...m]})}function pi(t,e,n,o,r){let{palette:s,selection:a}=t,{height:i}=e.frame.cell,l=Math.max(1,Math.
ceil(11/i)),{layers:u,names:c}=e.stream,f=u.indexOf(a.layer);return Array.from({length:r},(h,d)=>d).flatMap(h=>{let d=h===
f;if((h%l||!d&&Math.abs(h-f)<l)&&!d)return[];let g={"text-anchor":"end","font-size":11,fill:d?s.ink:s.grey,"font-weight":d?
700:400};return[O(c[h],n-5,o+(h+.5)*i+4,g)]})}function Ci(t,e){let{palette:n}=t,{stream:o,frame:r,headFrame:s,heads:a,strip:i,
neuronFrame:l}=e,u={"font-size":11,fill:n.grey},c=(d,m,g,b)=>k("rect",{x:d,y:m,width:g,height:b,fill:"none",stroke:n.line}),
f=qf(t,e),h=[O("layer",0,r.top-5,u),c(r.left,r.top,r.across,r.down),...Yf(t,e),...Gf(t,e),...f.reach,...Df(t,e),...Xf(t,
e),...Uf(t,e)];if(i!==null&&h.push(wt(o.strip.name,i+V.width-2,r.top-5,u),c(i,r.top,V.width,r.down)),a){let d=Math.max(1,
Math.ceil(16/s.cell.width));h.push(O(o.heads.words,s.left,s.top-20,u),c(s.left,s.top,s.across,s.down));for(let m=0;m<a;m+=
d)h.push(O(o.heads.names[m],s.left+(m+.5)*s.cell.width,s.top-5,{...u,"text-anchor":"middle"}))}return l&&h.push(O("large\
st neurons",l.left,l.top-20,u),...Kf(t,e)),[...h,...f.drawn]}function Uf(t,{frame:e,changes:n,lines:o}){if(!n.length)return[];
let r=k("rect",{x:W.left,y:e.top,width:n.length*Jt.width,height:e.cell.height*o,fill:"none",stroke:t.palette.line}),s=n.
map(({label:i,words:l},u)=>{let c=wt(i,W.left+(u+.5)*Jt.width+4,e.top-5,{"font-size":10,fill:t.palette.grey});return c.append(
k("title",{},[l])),c}),a=Math.max(...n.map(({label:i})=>j(i,10)))+12;return[r,...s,O("change",W.left,Math.max(10,e.top-a),
{"font-size":11,fill:t.palette.grey})]}function Tn(t){return it(t.data)?q(t):t.selection.read==="row"?t.column:t.axes.own[t.
row]}function Gf(t,{frame:e}){let[,,n,o]=t.window;return Array.from({length:o-n+1},(s,a)=>n+a).filter(s=>Fo(t,s)).map(s=>F(
e.left+(s-n)*e.cell.width,e.top,e.cell.width,e.down,er))}function Yf(t,e){let{frame:n}=e;if(!Pe(e))return[];let[,,o,r]=t.
window;return Array.from({length:r-o+1},(a,i)=>n.left+(i+.5)*n.cell.width).map(a=>k("line",{x1:a,x2:a,y1:n.top,y2:n.top+
n.down,stroke:t.palette.hatch}))}function Xf(t,{frame:e,stream:{limit:n,top:o,scale:r,before:s,unit:a,asShare:i}}){let l=Pe(
{frame:e})?kn(t,{scale:r},x=>Ni(t,x,1,r)):kn(t,{scale:r}),[u,c]=[e.top+e.down+8,Math.min(W.legend,e.across)],f={x:e.left,
y:u,width:c,height:9},h=(x,y,v)=>[F(v,b,10,9,t.palette[x]),O(y,v+14,b+9,{"font-size":11,fill:t.palette.ink})],d=t.selection.
run===t.selection.refRun?"more than before":"more",m=e.across-c>190,[g,b]=m?[e.left+c+16,u]:[e.left,u+26];return[k("defs",
{},[l]),k("rect",{...f,fill:`url(#${l.id})`,stroke:t.palette.line,class:"legend"}),...tr(t,f,{limit:n,top:o,scale:r},(x,y)=>X(
x,!!i)+(y?a:"")),...s&&Pe({frame:e})?[...h("gain",d,g),...h("loss","less",g+28+j(d,11))]:[]]}function Rr({selection:t},{
layer:e,head:n,query:o,key:r}){return e===t.layer&&t.heads===String(n)&&t.to===o&&t.from===r}function Zf(t,{arcs:e,names:n,
dots:o}){let{layer:r,neuron:s}=t.selection,a=e.filter(({arc:u})=>Rr(t,u)).map(u=>{let c=u.cloneNode();for(let[f,h]of Object.
entries({class:"arc-chosen bold","stroke-width":Number(u.getAttribute("stroke-width"))+Zt.bolder,"stroke-opacity":1}))c.
setAttribute(f,h);return c}),i=o.filter(u=>u.neuron.layer===r&&u.neuron.neuron===s),l=a.length?[k("g",{class:"arc-chosen"},
n.map(u=>u.cloneNode(!0)))]:[];return[...a,...l,...i.map(u=>k("circle",{cx:u.getAttribute("cx"),cy:u.getAttribute("cy"),
r:Number(u.getAttribute("r"))+2,fill:"none",stroke:t.palette.mark,"stroke-width":1.5,class:"neuron-chosen"}))]}function Oi(t,e,n){
let{palette:o,selection:r}=t,{stream:s,frame:a,headFrame:i,heads:l,neuronFrame:u}=e,c=s.layers.indexOf(r.layer),f=({left:g,
top:b,across:x,cell:y})=>gt(g,b+c*y.height,x,y.height,o.mark),h=[f(a),...u?[f(u)]:[],...de(t,a,Tn(t),o.mark),...Zf(t,e)];
if(n&&n.column!==void 0&&h.push(...de(t,a,n.column,o.read)),!l)return h;let d=Bo(l,r),m=d<0?[]:[gt(i.left+d*i.cell.width,
i.top+c*i.cell.height,i.cell.width,i.cell.height,o.mark)];return[...h,f(i),...m]}function gi(t,e,n,o){let r=o.getBoundingClientRect(),
[s,a]=[n.clientX-r.left,n.clientY-r.top],i=({left:v,top:$,across:N,down:C})=>s>=v&&s<v+N&&a>=$&&a<$+C,{stream:l,lines:u,
frame:c,headFrame:f,heads:h,strip:d,changes:m,neuronFrame:g}=t,{arc:b,neuron:x}=n.target;if(b)return b;if(x)return x;let y=({
top:v,cell:$})=>({row:Math.floor((a-v)/$.height),layer:l.layers[Math.floor((a-v)/$.height)]});return i(c)?{...y(c),column:e.
window[2]+Math.floor((s-c.left)/c.cell.width)}:d!==null&&i({...c,left:d,across:V.width})?{...y(c),strip:!0}:m.length&&i(
{...c,left:W.left,across:m.length*Jt.width,down:u*c.cell.height})?{...y(c),change:Math.floor((s-W.left)/Jt.width)}:g&&i(
g)?y(g):h&&i(f)?{...y(f),head:Math.floor((s-f.left)/f.cell.width)}:null}function Be({axes:t,selection:e},n){let o=t.columns[n].
position,r=t.rowOf(o);return{...e.read==="row"&&r>=0?{to:t.rows[r].position}:{from:o,read:"column"},heads:"",neuron:-1}}
function Ei({data:t,axes:e,selection:n},o){let{position:r}=e.columns[o];return n.read==="row"?{from:r}:t.queries.includes(
r)?{to:r}:{}}function Jf(t,e){let{name:n,channel:o,ref:r}=yi(t)[e];return{scope:K(t.data,n,o),ref:r?K(t.data,n,r):""}}function Qf(t,{
layer:e,column:n,head:o,query:r,key:s,neuron:a,change:i}){let{data:l,selection:u}=t,c=e===u.layer,f=l.layers.includes(e)?
{layer:e}:{};return n!==void 0&&Object.assign(f,it(l)?{...Be(t,n),list:"tokens"}:Ei(t,n)),i!==void 0&&Object.assign(f,Jf(
t,i)),a!==void 0?{...f,neuron:c&&u.neuron===a?-1:a,heads:"",list:"neurons"}:o===void 0?c?f:{...f,neuron:-1}:r===void 0?{
...f,neuron:-1,heads:c&&u.heads===String(o)?"":String(o),list:"heads"}:{...f,neuron:-1,heads:String(o),list:"edges",...l.
queries.includes(r)?{to:r,from:s,read:"row"}:{}}}function th(t,{before:e,ends:n,rows:o,unit:r,asShare:s,block:a,strip:i},l,u){
let c=o[l][u];if(Fo(t,u))return a?"after the target's position":"a later token: earlier ones cannot attend to it";if(Number.
isNaN(c))return t.hidden.has(u)?"hidden":u===q(t)?`the token itself${i?": see the column “own”":""}`:"not among thes\
e";let f=h=>a?L(h,!1)+r:s?H(h):R(h);return n?`${f(c)}, 95 % interval ${n.map(h=>f(h[l][u])).join(" to ")}`:e&&!a?`${f(e[l][u])}\
 → ${f(c)} (${L(c-e[l][u],s)})`:f(c)}function wi(t,{stream:e,changes:n},{row:o,layer:r,column:s,head:a,query:i,key:l,neuron:u,
share:c,change:f,strip:h}){let{block:d,unit:m}=e,b=et("layer",r===null?"end":`${r}${d&&a===void 0&&f===void 0?", its inp\
ut":""}`),x=v=>p("div",{textContent:L(v,!1)+m}),y=v=>Tt(t,z(t)[t.axes.columnOf[v]],v);return i!==void 0?[et("head",`L${r}\
H${a}`),et("from",y(l)),et("to",y(i)),x(c)]:u!==void 0?[et("neuron",`L${r}N${u}`),x(c)]:a!==void 0?[et("head",`L${r}H${e.
heads.names[a]}`),d?x(e.heads.values[o][a]):p("div",{textContent:`${e.heads.words}: ${H(e.heads.values[o][a])}`})]:f!==void 0?
[b,et("",`${n[f].words}: ${ue(n[f].values[t.data.layers.indexOf(r)]??null)}`)]:h&&!d?[b,et("its own share",H(e.strip.values[o]))]:
h?[b,...d.biases.filter(([,v])=>v===o).map(([v,,$])=>et("bias",`${v} ${L($,!1)}`))]:s===void 0?[b]:[b,et(d?"token":t.selection.
read==="row"?"from":"to",Tt(t,z(t)[s],t.axes.columns[s].position)),p("div",{textContent:th(t,e,o,s)})]}function eh(t,e,n){
let{data:o,selection:r,axes:s}=t,a=o.layers.indexOf(r.layer),i=Tn(t),l=c=>it(o)?Be(t,c):Ei(t,c),u={ArrowUp:()=>a>0&&e({layer:o.
layers[a-1]}),ArrowDown:()=>a<o.layers.length-1&&e({layer:o.layers[a+1]}),ArrowLeft:()=>i>0&&e(l(i-1)),ArrowRight:()=>i<
s.nColumns-1&&e(l(i+1)),Home:()=>e({layer:o.layers[0]}),End:()=>e({layer:o.layers[o.layers.length-1]})};!(n.key in u)||n.
altKey||(n.preventDefault(),n.stopPropagation(),u[n.key]())}function nh(t,e,n,o){t.addEventListener("pointermove",r=>{let s=o(),
a=gi(e,s,r,t),i=w("tooltip");i.hidden=!a,s.hover(a&&a.column!==void 0?{column:a.column}:null),a&&(i.replaceChildren(...wi(
s,e,a)),le(i,r.clientX,r.clientY))}),t.addEventListener("pointerleave",r=>{r.pointerType!=="touch"&&(w("tooltip").hidden=
!0),o().hover(null)}),t.addEventListener("click",r=>{let s=gi(e,o(),r,t);r.pointerType==="touch"&&s&&(w("tooltip").hidden=
!1,w("tooltip").replaceChildren(...wi(o(),e,s)),le(w("tooltip"),r.clientX,r.clientY)),s&&n(Qf(o(),s))}),t.addEventListener(
"keydown",r=>eh(o(),n,r))}function oh(t,e,n,o){let r=Ut(t,e.entering),s=S(r),a=z(t),i=Array.from(r,(u,c)=>{let f=t.axes.
columns[c].members.map(g=>Re(t.data,g)).find(Boolean),h=f&&t.data.runs[0].blocks[f.block]===e?"this":Number.isNaN(u)?f?"\
why?":"–":L(u,!1),d=`${a[c]} · position ${t.axes.columns[c].position}: ${h}${Rt(e)}`,m=Ke(a[c],h,d,Number.isNaN(u)||s===
0?null:rt(t.palette,u,s,"signed",t.selection.root));return m.classList.toggle("later",Number.isNaN(u)&&h!=="this"),m.classList.
toggle("cell",h==="this"),m.addEventListener("click",()=>n(f||Be(o(),c))),m}),l=p("ol",{className:"tokens shared"},i);return l.
setAttribute("aria-label",`token contributions to the ${e.target}`),l.tabIndex=0,l.classList.toggle("long",i.length>20),
{host:l,chips:i}}function rh(t,e){let{data:n,selection:o}=t,r=Te(n,o.run);if(r.length<2||r.every(([,{position:a}])=>a!==
void 0))return[];let s=p("select",{autocomplete:"off"},r.map(([a,i])=>B(a,`${i.target} (${i.rules})`)));return s.value=r.
find(([,a])=>a===Z(n,o))[0],s.setAttribute("aria-label","target"),s.addEventListener("change",()=>e(Re(n,n.runs[o.run].blocks[s.
value].position)||{block:s.value})),[p("div",{className:"toggles"},[s])]}function Li(t,e,n){let o=t,r=()=>o,s=$i(t,n),{stream:{
block:a}}=s,[i,l]=[k("g"),k("g")],u=Mi(t,s).map(({picture:x,x:y,y:v,width:$,height:N})=>Nt(ht(x,t.palette,$*t.ratio,N*t.
ratio),y,v,$,N)),c=yn(t,s.frame),f=k("svg",{width:n,height:s.height,"aria-hidden":"true"},[he(t.palette),...Ci(t,s),...c.
nodes,i,l]),h=p("div",{className:"logit",tabIndex:0},[...u,f]);h.setAttribute("role","application"),nh(h,s,e,r);let d=a?
oh(t,a,e,r):null,m=x=>{o=x,h.setAttribute("aria-label",`Layers by tokens, arrow keys choose. ${a?ze(x):Io(x).headline}`),
i.replaceChildren(...c.mark(Tn(x)),...Si(x,s)),d&&d.chips.forEach((v,$)=>v.setAttribute("aria-current",String($===q(x))));
let y=v=>l.replaceChildren(...Oi(x,s,v));x.marked.push(y),y(null)};if(!a)return{nodes:[h],update:m};let g=Do(t,1/(s.frame.
cell.width*t.ratio));return{nodes:[...rh(t,e),d.host,h,p("details",{className:"note"},[p("summary",{textContent:"What is\
 drawn"}),p("p",{textContent:`${Wo(a)}. ${g}`})])],update:m}}function Si(t,e){let{stream:n,lines:o,frame:r,headFrame:s,heads:a,
beside:i}=e,l=(a||e.neuronFrame)&&!i;return[...pi(t,e,W.left,r.top,n.rows.length),...l?pi(t,e,s.left,s.top,o):[]]}function Ai(t,e){
let n=$i(t,e),o=yn(t,n.frame),r=[...Ci(t,n),...o.nodes,...o.mark(Tn(t)),...Si(t,n),...Oi(t,n,null)];return{groups:[{x:0,
y:0,pictures:Mi(t,n),nodes:r}],width:n.width,height:n.height}}var sh=40,ah=12;function Rn(t,e){return[p("bdi",{textContent:z(t)[e]}),ft(t,e)]}function ih(t,e){let{layer:n}=t.selection,
o=t.axes.columns[q(t)].position;return la(e,n).map(({head:r,share:s})=>({name:[`L${n}H${r}`],share:s,place:[n,r,o],change:{
heads:String(r),neuron:-1},none:{heads:""},current:r===fe(e,t.selection)}))}function lh(t,e){let{data:n,selection:o,axes:r}=t,
{layer:s}=o,a=fe(e,o);return Object.keys(e.edges).map(l=>l.split(",").map(Number)).filter(([l,u])=>l===s&&(a<0||u===a)).
flatMap(([,l])=>e.edges[`${s},${l}`].filter(([,,u])=>u!==0).map(([u,c,f])=>({name:[`H${l}: `,...Rn(t,r.columnOf[c])," → ",
...Rn(t,r.columnOf[u])],share:f,place:[s,l,u,c],change:{heads:String(l),neuron:-1,...n.queries.includes(u)?{to:u,from:c,
read:"row"}:{from:c,read:"column"}},none:{heads:""},current:Rr(t,{layer:s,head:l,query:u,key:c})})))}function ch({selection:t},e){
let{layer:n}=t;return _o(e,n).map(([o,r])=>({name:[`L${n}N${o}`],share:r,place:[],change:{neuron:o,heads:""},none:{neuron:-1},
current:o===t.neuron}))}function uh(t){let{layer:e}=t.selection;return Array.from(Po(t,e),(n,o)=>({name:Rn(t,o),share:n,
place:[e,t.axes.columns[o].position],change:Be(t,o),current:o===q(t)})).filter(({share:n})=>n!==0&&!Number.isNaN(n))}function fh(t){
let{selection:e,axes:n}=t,o=ut(t),r=s=>o.asShare&&o.scale!=="signed"?H(s):L(s,o.asShare);return Array.from(St(t,o),(s,a)=>{
let{position:i}=n.columns[a],l=e.read==="row"?[e.to,i]:[i,e.from];return{name:Rn(t,a),share:s,shown:r(s),scale:o.scale,place:[
e.layer,-1,...l],change:e.read==="row"?{from:i}:{to:i},current:a===(e.read==="row"?t.column:n.own[t.row])}}).filter(({share:s})=>!Number.
isNaN(s))}function hh({selection:t},e){return e.biases.filter(([,n,o])=>n>=t.layer&&o!==0).map(([n,o,r])=>({name:[`${n} \
(${o<0?"input":Ae(e,o)})`],share:r,place:[]}))}var Qt={heads:{words:"heads",entries:ih,order:"number",effect:"head",note:(t,e)=>{
let n=Ne(t.data).some(({tables:o})=>o.head&&o.head.axes.length>2);return`Heads of layer ${t.selection.layer}, summed ove\
r ${e.ends?"these":"all"} positions${n?`; replaced at ${tt(t,q(t))} alone`:""}.`}},edges:{words:"edges",entries:lh,order:"\
head",effect:"cell",note:({selection:t},e)=>`The largest of ${fe(e,t)<0?"each head":`L${t.layer}H${fe(e,t)}`}, source → \
destination.`},neurons:{words:"neurons",entries:ch,order:"number",effect:"neuron",note:({selection:t})=>`The largest of \
layer ${t.layer}, summed over all positions.`},tokens:{words:"tokens",entries:uh,order:"position",effect:"residual",note:({
selection:t},e)=>aa(e,t.layer)},sources:{words:"sources",entries:fh,order:"position",effect:"cell",note:t=>`${t.selection.
read==="row"?"Sources of":"Destinations of"} ${tt(t,q(t))} in the map above.`},biases:{words:"biases",entries:hh,order:"\
layer",effect:"bias",note:({selection:t})=>`Biases and edits from layer ${t.layer} on.`}};function Ri(t,e){let n={heads:e.
heads,edges:Object.keys(e.edges).length,neurons:e.neurons.length,tokens:!0,sources:t.listed,biases:e.biases.some(([,,o])=>o!==
0)};return[...Object.keys(Qt).filter(o=>n[o]),...t.listed?["pairs"]:[]]}function zr(t){let e=Z(t.data,t.selection);if(!e)
return"";let n=Ri(t,e);return n.includes(t.selection.list)?t.selection.list:n[0]}function zi(t,e){let{effect:n}=Qt[e];return Ne(
t.data).filter(({tables:o})=>o[n]&&(n!=="cell"||o.cell.axes[1][0]<0==(e==="sources")))}function dh(t,e,n){let o=zi(t,n),
r=Qt[n].entries(t,e).map(a=>({...a,effects:o.map(i=>rn(i,Qt[n].effect,...a.place))})),s={contributes:({share:a})=>Math.abs(
a),removed:a=>Math.abs(a.effects[0])||0}[ji(t,o)];return{effects:o,entries:s?r.sort((a,i)=>s(i)-s(a)):r}}function ji({selection:t},e){
return t.order==="removed"&&!e.length?"contributes":t.order}function mh(t,e,n,o){let{name:r,share:s,shown:a,scale:i="sig\
ned",change:l,none:u,current:c,effects:f}=e,h=l?p("button",{type:"button",className:"plain"},r):p("span",{},r);return l&&
h.addEventListener("click",()=>o(c&&u?u:l)),c&&h.setAttribute("aria-current","true"),p("tr",{},[p("td",{},[h]),p("td",{},
[gn(Math.abs(s)/(n||1),Ro(t,{scale:i},s))]),p("td",{textContent:a||L(s,!1)}),...f.map(d=>p("td",{textContent:Number.isNaN(
d)?"–":L(d,!1)}))])}function Ti(t,e,n,o){let r=p("select",{autocomplete:"off"},e.map(([s,a])=>B(s,a)));return r.value=
n,r.addEventListener("change",()=>o(r.value)),p("label",{},[`${t} `,r])}function ph(t,e,n,o){let{effects:r,entries:s}=dh(
t,e,n),a=s.slice(0,t.paper?ah:sh),i=Math.max(0,...s.map(({share:h})=>Math.abs(h))),l=(h,d="")=>p("th",{textContent:h,scope:"\
col",title:d}),u=p("tr",{},[p("td"),p("td"),l("contributes"),...r.map(({short:h,target:d})=>l(h,d))]),c=a.length<s.length?
` The first ${a.length} of ${s.length}.`:"",f=p("table",{className:r.length?"profile measured":"profile"},[u,...a.map(h=>mh(
t,h,i,o))]);return[p("div",{className:"listed"},s.length?[f]:[]),p("p",{className:"note",textContent:`${Qt[n].note(t,e)}${c}`})]}
function Fi(t,e){let n=Z(t.data,t.selection);if(!n)return[];let o=zr(t),r=c=>c==="pairs"?"pairs of the map":Qt[c].words,
s=Ti("Largest",Ri(t,n).map(c=>[c,r(c)]),o,c=>e({list:c})),a=p("p",{className:"said",textContent:ze(t)});if(o==="pairs")return[
a,p("section",{className:"card logit-card"},[p("div",{className:"toggles"},[s])])];let i=zi(t,o),l=[["contributes","cont\
ributes"],...i.length?[["removed",i[0].short]]:[],["place",Qt[o].order]],u=Ti("sort by",l,ji(t,i),c=>e({order:c}));return[
a,p("section",{className:"card logit-card"},[p("div",{className:"toggles"},[s,u]),...ph(t,n,o,e)])]}var jr={faintest:.02,triggers:5};function jn(t,e){return Object.entries(t.runs[e].blocks).filter(([,n])=>n.kind==="memor\
y")}function Fr(t,e){let n=jn(t,e.run);return n.find(([o])=>o===e.block)||n[0]}function Pi(t,e,n,o,r){let{palette:s}=t,a=p(
"span",{className:"chip"},[p("bdi",{textContent:e})]),i=[o,r].filter(u=>u&&Number.isFinite(u.value));a.title=[`${e} · po\
sition ${n}`,...i.map(u=>`${u.name} ${L(u.value,!1)}`)].join(" · ");let l=u=>u&&Number.isFinite(u.value)&&u.limit&&Math.
abs(u.value)>=jr.faintest*u.limit?rt(s,u.value,u.limit,"signed"):null;return xe(a,l(o),l(r)),a}function He(t,e){let n=S(
e.map(Math.abs));return e.map(o=>({name:t,value:o,limit:n}))}function zn(t,e){let n=p("div",{className:"tokens"},t);return n.
setAttribute("role","group"),n.setAttribute("aria-label",e),n.classList.toggle("long",t.length>40),n}function De(t,e){return p(
"section",{className:"memory-part"},[p("h2",{textContent:t}),...e])}function It(t){return p("p",{className:"note",textContent:t})}
function gh(t,e,n){let o=jn(t,e.run),r=p("select",{},o.map(([s,a])=>B(s,`memory ${a.memory}`)));return r.autocomplete="o\
ff",r.value=Fr(t,e)[0],r.setAttribute("aria-label","memory"),r.addEventListener("change",()=>n({block:r.value})),p("div",
{className:"toggles"},[r,p("span",{className:"note",textContent:`of ${o[0][1].model}, over ${o[0][1].corpus_texts} texts`})])}
function wh(t,e){if(!e.value)return De("Tokens of its value",[It("The value cannot be read as tokens: the model has no t\
rained head.")]);let{top:n,bottom:o,probability:r,reading:s,agreeing:a,followed:i}=e.value,l=(f,h)=>p("p",{className:"me\
mory-words"},[`${h} `,...f.map(d=>p("span",{className:"chip"},[p("bdi",{textContent:d})]))]),u=s==="direction"?"with the\
 unembedding alone":"with the model's final norm and unembedding",c=i?` It follows ${a} of ${i} top-activating examples.`:
"";return De("Tokens of its value",[l(n,"promotes"),l(o,"demotes"),It(`The value, read ${u}: the first token has a proba\
bility of ${H(r)}.${c}`)])}function bh(t,e,n){if(!e.text)return[];let{tokens:o,along:r,parts:s,bias:a,carried:i,target:l}=e.
text,u=t.selection.to,c=d=>o.map((m,g)=>{let b=Pi(t,m,g,d[g]);return b.setAttribute("aria-current",String(g===u)),b.addEventListener(
"click",()=>n({to:g,read:"row"})),b}),f=p("h2",{},["Token contributions to its activation at ",p("bdi",{textContent:pt(o[u])})]),
h=[De("Its activation along this text",[zn(c(He("activation",r)),"activation at each token"),It(`Strongest colour: ${L(r[Ii(
r)],!1)} at ${pt(o[Ii(r)])}.`)]),p("section",{className:"memory-part"},[f,zn(c(He("contribution",s[u])),"token contribut\
ions"),It(`Contributions of the tokens at the layer's input. With the bias, ${L(a[u],!1)}, they sum to the activation ${L(
r[u],!1)} at position ${u}.`)])];return i&&h.push(De("Contribution to the target",[zn(c(He("contribution",i)),"contribut\
ion to the target"),It(`Signed contributions to ${l}: ${L(i[u],!1)} from this position, ${L(i.reduce((d,m)=>d+m,0),!1)} \
from all positions.`)])),h}function Ii(t){return t.reduce((e,n,o)=>Math.abs(n)>Math.abs(t[e])?o:e,0)}function Wi(t,e){let{
tokens:n,along:o,parts:r,position:s,coefficient:a,rank:i,sequence:l}=e,[u,c]=[He("contribution",r),He("activation",o)],f=n.
map((h,d)=>{let m=Pi(t,h,d,u[d],c[d]);return m.setAttribute("aria-current",String(d===s)),m.classList.toggle("later",d>s),
m});return p("div",{className:"memory-trigger"},[It(`${i}. activation ${L(a,!1)}, text ${l}`),zn(f,`example ${i}`)])}function _i(t,e,n){
let[o,r]=[n.slice(0,jr.triggers),n.slice(jr.triggers)],s=o.map(a=>Wi(t,a));if(r.length){let a=p("details",{},[p("summary",
{textContent:`${r.length} more`})]);a.addEventListener("toggle",()=>{a.open&&a.children.length===1&&a.append(...r.map(i=>Wi(
t,i)))}),s.push(a)}return De(e,s.length?s:[It("It has no such activation in these texts.")])}function Bi(t,e){let{data:n,
selection:o}=t,[,r]=Fr(n,o);return p("div",{className:"memory"},[gh(n,o,e),wh(t,r),...bh(t,r,e),_i(t,"Top-activating exa\
mples",r.positive),_i(t,"Examples of the most negative activations",r.negative),It("Orange: positive, violet: negative. \
In examples, the background is a token's contribution to the activation at the framed token; the stripe is the activatio\
n at each token.")])}function Hi(t){let[e,n]=Fr(t.data,t.selection);return{headline:"",meaning:"A memory is one neuron o\
f a feed-forward block: its key sets the activation, its value promotes tokens.",place:`memory ${n.memory}`,shown:e,remark:"",
note:"",exact:!1,method:"",file:[`memory${n.memory}`]}}var nt={left:46,top:18,label:11};function Ki(t,e,n){return rt(t,e,n,"signed")}function Di(t){return t.map(e=>e??NaN)}function Ui(t){
let[e,n]=[t.length,t[0].length],o={nRows:e,nColumns:n,own:Array(e).fill(-1)};return Et(o,Float32Array.from(t.flat()),n>=
re?"percentile":"all")}function Gi(t){return new Map(t.map(({note:e})=>[e,Ui(t.filter(n=>n.note===e).flatMap(({values:n})=>n))]))}
function Yi(t,e,n=e){let o=p("canvas",{width:121,height:1}),r=o.getContext("2d");for(let a=0;a<121;a++)r.fillStyle=Ki(t,
(a-60)/60,1).hex,r.fillRect(a,0,1,1);o.setAttribute("aria-hidden","true");let s=n>e*1.0001?[p("span",{textContent:`(99th\
 percentile; cells reach ${R(n)})`})]:[];return p("div",{className:"share-scale"},[`−${R(e)}`,o,`+${R(e)}`,...s])}function xh(t,e,n){
let o=S(n),r=e.map((s,a)=>Ke(s,L(n[a]),`position ${a}`,Ki(t,n[a]||0,o)));return p("div",{},[p("ol",{className:"tokens sh\
ared"},r),Yi(t,o)])}function Xi({values:t},e){let[n,o]=[t.length,t[0].length];return{cells:Float32Array.from(t.flat()),nColumns:o,
window:[0,n-1,0,o-1],scale:"signed",limit:e,root:0}}function qi(t,e){return[1,2,5,10,20,50,100,200,500].find(n=>n*e>=nt.
label+2)||t}function yh(t,e){let n=t.match(/@\d+$/)?.[0]??"";return D(t.slice(0,t.length-n.length),nt.label,e-j(n,nt.label))+
n}function Zi(t,e){let[n,o]=[t.rows.length,t.columns.length],r=Math.min(110,Math.max(...[`${t.row} ↓`,...t.rows].map(f=>j(
f,nt.label)))+8),s=Math.max(nt.left,r),a=Math.max(6,Math.min(34,(e-s-8)/o)),i=Math.max(5,Math.min(20,460/n)),l=Math.max(
...t.columns.map(f=>j(f,nt.label))),u=l<a-2,c=u?20:Math.min(90,l)+14;return{left:s,cell:a,tall:i,lying:u,below:c,wide:a*
o,high:i*n,height:nt.top+i*n+c}}function Ji(t,e,{left:n,cell:o,tall:r,lying:s,below:a,wide:i,high:l}){let u=(h,d)=>O(h,0,
0,{"font-size":nt.label,fill:t.grey,...d}),c=[k("rect",{x:n,y:nt.top,width:i,height:l,fill:"none",stroke:t.line})],f=[];
for(let h=0;h<e.rows.length;h+=qi(e.rows.length,r))f.push(u(D(e.rows[h],nt.label,n-8),{x:n-5,y:nt.top+(h+.5)*r+4,"text-a\
nchor":"end"}));for(let h=0;h<e.columns.length;h+=qi(e.columns.length,o)){let[d,m]=[n+(h+.5)*o+(s?0:4),nt.top+l+(s?14:6)],
g=s?{"text-anchor":"middle"}:{transform:`rotate(-90 ${d} ${m})`,"text-anchor":"end"};c.push(u(s?e.columns[h]:yh(e.columns[h],
a-12),{x:d,y:m,...g}))}return f.push(u(`${e.row} ↓`,{x:n-5,y:11,"text-anchor":"end"})),c.push(u(`${e.column} →`,{x:n,
y:11})),{names:f,nodes:c}}function Vi(t,e,n,o,r){let[s,a]=[e.rows.length,e.columns.length],i=Zi(e,o),{left:l,cell:u,tall:c,
wide:f,high:h,height:d}=i,m=Ji(t,e,i),g=k("rect",{fill:"none",stroke:t.mark,"stroke-width":1.5,visibility:"hidden",width:u,
height:c}),b=k("g",{class:"share-names"},[F(0,0,l-1,d,t.paper),...m.names]),x=ht(Xi(e,n),t,a,s).toDataURL(),y=k("svg",{width:l+
f+6,height:d,tabindex:0,role:"img"},[k("image",{href:x,x:l,y:nt.top,width:f,height:h,preserveAspectRatio:"none"}),...m.nodes,
g,b]);y.setAttribute("aria-label",`${e.title}; arrow keys choose a cell`);let v=p("p",{className:"share-said",textContent:"\
Point at a cell, or use the arrow keys."});v.setAttribute("role","status");let $=null,N=(E,A)=>{$=[E,A];for(let[ot,Q]of Object.
entries({x:l+A*u,y:nt.top+E*c,visibility:"visible"}))g.setAttribute(ot,Q);v.replaceChildren(`${e.row} `,p("bdi",{textContent:e.
rows[E]}),` · ${e.column} `,p("bdi",{textContent:e.columns[A]}),`: ${L(e.values[E][A])}`);for(let[ot,Q]of e.details[`${E}\
,${A}`]||[])v.append(" · ",p("bdi",{textContent:ot}),` ${L(Q)}`)},C=E=>{if(E.target.closest(".share-names"))return null;
let A=y.getBoundingClientRect(),[ot,Q]=[Math.floor((E.clientX-A.left-l)/u),Math.floor((E.clientY-A.top-nt.top)/c)];return Q>=
0&&ot>=0&&Q<s&&ot<a?[Q,ot]:null};y.addEventListener("pointermove",E=>{let A=C(E);A&&N(...A)}),y.addEventListener("click",
E=>{let A=C(E);A&&(N(...A),r&&r(...A))}),y.addEventListener("keydown",E=>{let A={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[
0,-1],ArrowRight:[0,1]}[E.key];if(E.key==="Enter"&&$&&r&&r(...$),!A)return;E.preventDefault();let[ot,Q]=$||[s-1,0];N(Math.
min(s-1,Math.max(0,ot+($?A[0]:0))),Math.min(a-1,Math.max(0,Q+($?A[1]:0))))});let T=p("div",{className:"share-map"},[y]);
return T.addEventListener("scroll",()=>b.setAttribute("transform",`translate(${T.scrollLeft})`)),p("div",{},[T,v,Yi(t,n,
S(e.values.map(S)))])}function kh(t,{title:e,note:n,entries:o}){let r=S(o.map(([,i])=>i)),s=o.map(([i,l])=>{let u=p("spa\
n",{className:"share-bar"});return u.style.width=`${r?Math.round(60*Math.abs(l)/r):0}px`,u.style.background=t[l<0?"loss":
"gain"],p("tr",{},[p("td",{},[p("bdi",{textContent:i})]),p("td",{},[u]),p("td",{textContent:L(l)})])}),a=n?[p("p",{className:"\
note",textContent:n})]:[];return p("section",{className:"share-table"},[p("h2",{textContent:e}),...a,p("table",{},s)])}function Ir(t,e,n,o){
let r=[p("h2",{textContent:t}),p("p",{className:"note",textContent:e}),...n];return p("section",{className:o?"wide":""},
r)}function $h(t){let e=t.sums.map(([n,o])=>`${n} ${L(o)}`);return`${R(t.value,4)} = ${e.join(" · ")}`}function Qi(t){return te(
t,0)!==void 0}function te(t,e){let n=Object.values(t.runs[e].blocks).find(({kind:o})=>o==="numbers");if(n&&!n.read){for(let o of n.
rows)o.shares=Di(o.shares);for(let o of n.maps)o.values=o.values.map(Di);n.read=!0}return n}function tl(t,{rows:e}){return{
title:"Every token of the continuation",note:"A row has the attributions of all earlier tokens; with biases they sum to \
the target's value. A click opens its overview.",row:"target",column:"source",rows:e.map(({name:n})=>n),columns:t.runs[0].
tokens,values:e.map(({shares:n})=>n),details:{}}}function vh({data:t,palette:e},{rows:[n]}){return Ir("Token contributio\
ns","Signed, in the target's units: attribution of each token's embedding, with those of its position and type.",[xh(e,t.
runs[0].tokens,n.shares),p("p",{className:"share-sums",textContent:$h(n)})],!0)}function el(t,e,n){let{data:o,selection:r,
palette:s}=t,a=te(o,r.run),i=[];if(a.rows.length>1){let c=tl(o,a),f=h=>{let d=Re(o,o.words.length-a.rows.length+h);d&&e(
{...d,view:"overview"})};i.push(Ir(c.title,c.note,[Vi(s,c,Ui(c.values),n,f)],!0))}else a.rows.length&&i.push(vh(t,a));let l=n>
1080?(n-28)/2:n,u=Gi(a.maps);for(let c of a.maps)i.push(Ir(c.title,c.note,[Vi(s,c,u.get(c.note),c.columns.length>40?n:l,
null)],c.columns.length>40));for(let c of a.tables)i.push(kh(s,c));return[p("div",{className:"number-blocks"},i)]}function nl({
data:t,selection:e}){let{heading:n,facts:o}=te(t,e.run);return{headline:n,meaning:"",place:"",shown:o||t.heading,remark:"",
note:"",exact:!1,method:"",file:["numbers"]}}function ol({data:t,selection:e,palette:n},o){let r=te(t,e.run),s=[...r.rows.
length>1?[tl(t,r)]:[],...r.maps],a=Gi(s),i=0,l=s.map(u=>{let c=Zi(u,o),{names:f,nodes:h}=Ji(n,u,c),d=[{picture:Xi(u,a.get(
u.note)),x:c.left,y:nt.top,width:c.wide,height:c.high}],m=O(u.title,0,-6,{"font-size":12,"font-weight":600,fill:n.ink}),
g={x:0,y:i+22,pictures:d,nodes:[m,...f,...h]};return i+=c.height+34,g});return l.length?{groups:l,height:i}:null}function rl({
data:t,selection:e}){let n=te(t,e.run),o=t.runs[e.run].tokens,r=function*(){for(let{name:a,shares:i}of n.rows)for(let[l,
u]of i.entries())yield["token",a,o[l],u];for(let{title:a,rows:i,columns:l,values:u}of n.maps)for(let[c,f]of u.entries())
for(let[h,d]of f.entries())yield[a,i[c],l[h],d];for(let{title:a,entries:i}of n.tables)for(let[l,u]of i)yield[a,l,"",u]},
s=n.maps.reduce((a,{values:i})=>a+i.length*i[0].length,n.rows.length*o.length);return{head:["part","row","column","value"],
lines:r,count:s}}var Mh=40,Nh=25;function sl({selection:t}){return[...Dt,"sort","pairs","mass","find",...t.pairs==="token"?["read","to","\
from"]:[]]}function Ch(t,e,n){let{axes:o,maps:r}=t,s=z(t),[a,i]=[o.rows[e.row].position,o.columns[e.column].position],l=p(
"button",{type:"button",className:"plain",title:Ve(t.data,i,a)},[p("bdi",{textContent:s[e.column]}),`${ft(t,e.column)} →\
 `,p("bdi",{textContent:s[o.own[e.row]]}),ft(t,o.own[e.row])]);l.addEventListener("click",()=>n({to:a,from:i}));let c=[...t.
selection.sort==="distance"?[Ao(o,e.index)]:[],...r.map(f=>at(f,f.cells[e.index],f.asShare))];return p("tr",{},[p("td",{},
[l]),...c.map(f=>p("td",{textContent:f}))])}function al(t,e){let{pairs:n,total:o}=Hs(t,t.paper?Nh:Mh),r=qt(t).map((l,u)=>p(
"th",{scope:"col",textContent:t.maps[u].role==="difference"?"change":l}));t.selection.sort==="distance"&&r.unshift(p("th",
{scope:"col",className:"whole",textContent:"distance"}));let s=n.map(l=>Ch(t,l,e)),a=p("table",{className:"pairs"},[p("t\
head",{},[p("tr",{},[p("th",{scope:"col",textContent:"from → to"}),...r])]),p("tbody",{},s)]);return w("pairs-note").textContent=
o>n.length?`the first ${n.length} of ${o}`:o?`${o} pairs`:"no pair fits",{nodes:[a],update:l=>n.forEach((u,c)=>s[c].classList.
toggle("current",u.row===l.row&&u.column===l.column))}}var I={row:18,smallest:11,printed:3,query:14,label:118,gap:12,number:64,weight:120,percent:46,head:40,wide:620},Oh={vectors:[
"query q, keys k","q, k"],product:["q × k × scale","q × k"],score:["sum: score","score"],bar:["softmax: weight","weig\
ht"],value:["value ‖v W_O‖","‖v W_O‖"],weighted:["weight × ‖v W_O‖","weighted"]};function $t(t,e){return Object.
values(t.runs[e].blocks).find(n=>n.kind==="scores")}function Fn(t,e){let{heads:n}=$t(t,e.run),o=n.indexOf(t.channels.get(
e.scope).name);return o>=0?o:Math.min(n.length-1,Number(e.heads.split(".")[0]||0))}function Eh(t,e,n){let{blockName:o}=t.
channels.get(e.scope),r=K(t,o,$t(t,e.run).heads[n]);return t.channels.has(r)?{scope:r}:{heads:String(n)}}function Wr(t,e){
let n=$t(t,e.run),o=n.heads[Fn(t,e)];return[n.query,n.key,n.score,n.weight,...n.value?[n.value]:[]].map(r=>r[o])}function In(t){
let{data:e,selection:n}=t,o=$t(e,n.run),r=o.layers.indexOf(n.layer);if(r<0)return null;let[s,a,i,l,u]=Wr(e,n).map(y=>e.numbersAt(
y,r)),c=e.queries.indexOf(n.to),[f,h]=[e.words.length,s.length/e.queries.length],d=s.subarray(c*h,(c+1)*h),m=o.scale[r],
g=Float32Array.from(a,(y,v)=>m*y*d[v%h]),b=y=>uo(e,y).subarray(c*f,(c+1)*f),x=u&&b(l).map((y,v)=>y*u[v]);return{block:o,
scale:m,size:h,n:f,query:d,keys:a,products:g,scores:b(i),weights:b(l),values:u,weighted:x,most:x?S(x):0}}function ll(){return[
"run","scope","layer","heads","to"]}function cl({room:t},e,n){let o=Math.max(t?I.printed:I.smallest,Math.min(I.row,t?(t-
I.head-I.query-8)/(e.n+2):1400/e.n)),r=Math.min(I.label,n/5),s=e.values&&n>=I.wide?1:0,a=n-r-(I.number+I.percent)*(1+s)-
(3+s)*I.gap-8,i=Math.min(I.weight,a/(4+2*s)),l=Math.max(40,Math.min(420,(a-i*(1+s))/2)),u=r+l+I.gap,c=u+l+I.gap,f=c+I.number+
I.gap,h=f+i+I.percent;return{height:o,label:r,strip:l,weight:i,product:u,score:c,bar:f,valued:s,value:h,weighted:h+I.number+
I.gap,y:d=>I.head+Math.max(2*o,I.query)+d*o}}function Lh(t,e,n,o){return{cells:e,nColumns:t.size,window:[n,o,0,t.size-1],
scale:"signed",limit:S(e),root:0}}function ul(t,e){let n=(o,r,s,a)=>({picture:Lh(t,o,0,r-1),x:s,y:a,width:e.strip,height:r*
e.height});return[n(t.query,1,e.label,I.head),n(t.keys,t.n,e.label,e.y(0)),n(t.products,t.n,e.product,e.y(0))]}function Sh(t,e,n){
return ul(e,n).map(({picture:o,x:r,y:s,width:a,height:i})=>Nt(ht(o,t.palette,a*t.ratio,i*t.ratio),r,s,a,i))}function fl(t,e){
let{data:n,selection:o,palette:r}=t,s=Math.min(12,Math.max(P.smallest,e.height)),a=D(n.runs[o.run].tokens[o.to],s,e.label-
34),i={"font-size":s,fill:r.ink,"text-anchor":"end","font-weight":700};return[O(`${a} q`,e.label-5,I.head+e.height/2+s*.35,
i),...Ah(t,e)]}function Ah({palette:t},e){let n={vectors:[e.label,e.strip],product:[e.product,e.strip],score:[e.score,I.
number],bar:[e.bar,e.weight+I.percent]};return e.valued&&Object.assign(n,{value:[e.value,I.number+I.gap],weighted:[e.weighted,
e.weight+I.percent]}),Object.entries(n).map(([o,[r,s]])=>{let[a,i]=Oh[o];return O(j(a,11)<=s?a:i,r,I.head-8,{"font-size":11,
fill:t.grey})})}function Th({palette:t},e,n,o){if(Number.isNaN(e.scores[o]))return[];let r=Math.min(12,Math.max(P.smallest,
n.height)),s=n.y(o)+n.height/2+r*.35,a=e.weighted[o]/(e.most||1)*n.weight;return[F(n.weighted,n.y(o)+Math.min(2,n.height/
8),a,n.height-Math.min(4,n.height/4),t.contribution),O(R(e.values[o]),n.value+I.number-6,s,{"font-size":r,fill:t.ink,"te\
xt-anchor":"end"}),O(R(e.weighted[o]),n.weighted+a+4,s,{"font-size":Math.min(10,r),fill:t.grey})]}function hl(t,e,n){let{
palette:o,data:r,selection:s}=t,a=Math.min(12,Math.max(P.smallest,n.height)),i=zt(n.height),l=r.runs[s.run].tokens,u={"f\
ont-size":a,fill:o.ink},c=f=>n.y(f)+n.height/2+a*.35;return l.flatMap((f,h)=>{let d=!Number.isNaN(e.scores[h]),m=d?[F(n.
bar,n.y(h)+Math.min(2,n.height/8),e.weights[h]*n.weight,n.height-Math.min(4,n.height/4),o.contribution)]:[],g=n.valued?Th(
t,e,n,h):[];return Xt(h,i,s.from)?[...m,...g,O(D(f,a,n.label-34),n.label-30,c(h),{...u,"text-anchor":"end",fill:d?o.ink:
o.line}),O(h,n.label-5,c(h),{"font-size":9,"text-anchor":"end",fill:o.grey}),...d?[O(L(e.scores[h],!1),n.score+I.number-
6,c(h),{...u,"text-anchor":"end"}),O(H(e.weights[h],2),n.bar+Math.max(.01,e.weights[h])*n.weight+4,c(h),{"font-size":Math.
min(10,a),fill:o.grey})]:[]]:[...m,...g.slice(0,1)]})}function il(t,e,n,o){let r=o.getBoundingClientRect(),[s,a]=[n.clientX-
r.left,n.clientY-r.top];if(n.target.closest(".heads"))return null;let i=Math.floor((a-e.y(0))/e.height);if(i<0||i>=t.n)return null;
let l=[e.label,e.product].find(u=>s>=u&&s<u+e.strip);return{key:i,dimension:l===void 0?null:Math.floor((s-l)/e.strip*t.size)}}
function dl(t,e){return`value ‖v W_O‖ ${R(t.values[e])}, weighted ${R(t.weighted[e])}`}function Rh(t,e,{key:n,dimension:o}){
let{data:r,selection:s}=t,a=r.runs[s.run].tokens,i=[et("to",Tt(t,a[s.to],s.to)),et("from",Tt(t,a[n],n))],l=n*e.size+o;o!==
null&&i.push(p("div",{textContent:`dimension ${o}: ${R(e.query[o])} × ${R(e.keys[l])} × ${R(e.scale)} = ${L(e.products[l],
!1)}`}));let u=!Number.isNaN(e.scores[n]);return i.push(p("div",{textContent:u?`score ${L(e.scores[n],!1)}, weight ${H(e.
weights[n])}`:"no weight: this key is masked"})),u&&e.values&&i.push(p("div",{textContent:dl(e,n)})),i}function zh(t,e,n,o,r){
t.addEventListener("pointermove",s=>{let a=il(n,o,s,t),i=w("tooltip");i.hidden=!a,a&&(i.replaceChildren(...Rh(e,n,a)),le(
i,s.clientX,s.clientY))}),t.addEventListener("pointerleave",()=>{w("tooltip").hidden=!0}),t.addEventListener("click",s=>{
let a=il(n,o,s,t);a&&r({from:a.key})})}function jh(t,e){let{data:n,selection:o}=t,{heads:r}=$t(n,o.run),s=p("select",{autocomplete:"\
off"},r.map((a,i)=>B(i,a)));return s.value=String(Fn(n,o)),s.setAttribute("aria-label","head"),s.addEventListener("chang\
e",()=>e(Eh(n,o,Number(s.value)))),p("div",{className:"toggles"},[s,p("span",{className:"note",textContent:`layer ${o.layer}\
; choose the query in the sentence`})])}var ml="Orange: positive, violet: negative; each picture has its own scale.";function pl(t,e,n){
return gt(1,e.y(t.selection.from),n-3,e.height,t.palette.mark)}function gl(t){return`A score is the sum of ${t.size} pro\
ducts of query and key, as attention multiplied them, times ${R(t.scale)}. ✓ The softmax of these scores is the model's \
own pattern, ${t.block.error?`to ${Me(t.block.error)}`:"digit for digit"}.${t.values?" ‖v W_O‖ is the norm of a key's va\
lue after the head's output matrix; times the weight it is value-weighted attention.":""}`}function wl({data:t,selection:e}){
return`This page has scores of layers ${$t(t,e.run).layers.join(", ")} only.`}function bl(t,e,n){let o=In(t),r=jh(t,e);if(!o)
return[r,p("p",{textContent:wl(t)})];let s=cl(t,o,n),a=k("g"),i=k("svg",{width:n,height:s.y(o.n)+8},[...hl(t,o,s),a]),[l,
...u]=Sh(t,o,s),c=p("div",{className:"heads"},[l,k("svg",{width:n,height:s.y(0)},fl(t,s))]);i.style.marginTop=`${-s.y(0)}\
px`;let f=p("div",{className:"scores"},[c,...u,i]);f.setAttribute("role","img"),f.setAttribute("aria-label","Scores of t\
he selected token's query with every key; the numbers are written next to them."),zh(f,t,o,s,e);let h=d=>a.replaceChildren(
pl(d,s,n));return{nodes:[r,f,p("p",{className:"note",textContent:`${ml} ${gl(o)}`})],update:h}}function xl(t,e){let n=In(
t);if(!n)return null;let o=cl(t,n,e),r=[...fl(t,o),...hl(t,n,o),pl(t,o,e)];return{groups:[{x:0,y:0,pictures:ul(n,o),nodes:r}],
height:o.y(n.n)+8}}function yl(t){let{data:e,selection:n}=t,o=In(t),r=$t(e,n.run).heads[Fn(e,n)],s=e.runs[n.run].tokens,
[a,i]=[n.to,n.from].map(c=>`${pt(s[c])} (position ${c})`),u=o&&!Number.isNaN(o.scores[n.from])?`${a} attends to ${i}: sc\
ore ${L(o.scores[n.from],!1)}, weight ${H(o.weights[n.from])}${o.values?`, ${dl(o,n.from)}`:""}.`:o?Ee(a,i):wl(t);return{
headline:`Layer ${n.layer}, ${r}: ${u}`,meaning:"One token's query with every key: the products of their dimensions sum \
to the score; the softmax of the scores is the attention weight.",place:`layer ${n.layer}`,shown:`attention scores, ${r}\
, query of ${a}`,remark:"",exact:!1,method:"",note:o?`${ml} ${gl(o)}`:"",file:[`layer${n.layer}`,`scores-${r}`.replaceAll(
" ",""),`query${n.to}`]}}function kl(t){let{data:e,selection:n}=t,o=In(t);if(!o)return null;let r=$t(e,n.run).heads[Fn(e,
n)],s=e.runs[n.run].tokens,a=Array.from({length:o.size},(l,u)=>u),i=function*(){for(let l=0;l<o.n;l++)Number.isNaN(o.scores[l])||
(yield[n.layer,r,n.to,s[n.to],l,s[l],o.scores[l],o.weights[l],...o.values?[o.values[l],o.weighted[l]]:[],...a.map(u=>o.products[l*
o.size+u])])};return{head:["layer","head",...je,"score","weight",...o.values?["value norm","value-weighted"]:[],...a.map(
l=>`product ${l}`)],lines:i,count:o.n}}function Fh(t){let{selection:e,maps:n,axes:o,row:r,column:s}=t,a=d=>pt(z(t)[d]),i=xo(t).at(-1),l=ut(t),u=i>0?` Darkest: ${X(
i,l.asShare,l.scale==="signed")}.`:"",c=e.view==="overview"&&e.run!==e.refRun,f=n.length>1&&!c?` Colour: ${qt(t)[1]}; un\
derline: ${qt(t)[0]}.`:"",h=d=>t.data.named?"":` (${Wt(t.data,d)})`;return(e.read==="row"?`Sources of ${a(o.own[r])}${h(
o.rows[r].position)}.`:`Destinations of ${a(s)}${h(o.columns[s].position)}.`)+f+u}function Ih(t){let e=p("span",{className:"\
chip",id:`token-${t}`},[p("bdi")]);return e.setAttribute("role","option"),e.dataset.column=t,e}function $l(t){return t.maps.
filter(e=>e.role!=="difference").map(e=>St(t,e))}function Wh(t,e,n,o,r){let{palette:s,maps:a}=t,i=o[o.length-1][n],l=n===
q(t);Y(e.firstChild,z(t)[n]),e.setAttribute("aria-selected",String(l)),e.classList.toggle("later",Number.isNaN(i)&&!l),e.
classList.toggle("cell",n===(t.selection.read==="row"?t.column:t.axes.own[t.row]));let u=c=>{let f=o[c][n];return Number.
isNaN(f)?null:rt(s,f,r[c],a[c].scale,t.selection.root)};xe(e,u(o.length-1),o.length>1&&u(0))}function vl(t,e){let n=$l(t),
o=z(t),r=t.maps.filter(s=>s.role!=="difference");Array.from(e.children).forEach((s,a)=>{let i=Wt(t.data,t.axes.columns[a].
position);s.title=`${[o[a],i].filter(Boolean).join(" · ")}: ${n.map((l,u)=>at(r[u],l[a],r[u].asShare)).join(" → ")}`,
s.setAttribute("aria-label",s.title)})}function _h(t,e,n){let{axes:o,selection:r,data:s}=t,a={ArrowRight:1,ArrowLeft:-1,
PageDown:10,PageUp:-10,Home:-s.words.length,End:s.words.length};if(!(!(n.key in a)||n.altKey))if(n.preventDefault(),n.stopPropagation(),
r.read==="row"){let i=Math.max(0,Math.min(o.nRows-1,t.row+a[n.key]));e({to:o.rows[i].position})}else{let i=Math.max(0,Math.
min(o.nColumns-1,t.column+a[n.key]));e({from:o.columns[i].position})}}function Ml(t,e,n){let{axes:o,selection:r}=t;n.children.
length!==o.nColumns&&n.replaceChildren(...Array.from({length:o.nColumns},(i,l)=>Ih(l)));let s=$l(t),a=xo(t);Array.from(n.
children).forEach((i,l)=>Wh(t,i,l,s,a)),n.setAttribute("aria-activedescendant",`token-${q(t)}`),n.classList.toggle("long",
o.nColumns>40),n.onclick=i=>{let l=i.target.closest(".chip");if(!l)return;let u=o.columns[Number(l.dataset.column)].position,
c=o.rowOf(u);i.shiftKey?e(r.read==="row"?{from:u}:c>=0?{to:u}:{}):r.read==="column"||c<0?e({from:u,read:"column"}):e({to:o.
rows[c].position})},n.onkeydown=i=>_h(t,e,i),Y(w("sentence-words"),Fh(t)),t.marked.push(i=>{let l=i&&(i.column??(i.row===
void 0?-1:o.own[i.row]));Array.from(n.children).forEach((u,c)=>u.classList.toggle("read",c===l))})}function Nl(t,e){let n=e.
children[q(t)];(n.offsetTop<e.scrollTop||n.offsetTop+n.offsetHeight>e.scrollTop+e.clientHeight)&&(e.scrollTop=n.offsetTop-
20)}function Ph(t){let{data:e,selection:n}=t,o=t.headsBlock||e.channels.get(n.scope).blockName;return Le(t).flatMap((r,s)=>r.
columns.map(a=>({...a,group:s,track:r,key:K(e,o,a.channel),refKey:a.ref&&K(e,o,a.ref)})))}function Wn(t,e){let{data:n,selection:o}=t;
return t.headsBlock?o.heads.split(".").includes(String(n.channels.get(e.key).index)):o.scope!==e.key?!1:o.run!==o.refRun||
e.refKey===null||o.ref===e.refKey}function Bh(t,e,n,o){let r=t.data.layers.length,s=e.length?e[e.length-1].group:0,[a,i]=o?
[72,16]:[26,22+Math.max(30,Math.min(70,9*Math.max(0,...e.map(m=>m.label.length))))],l=o?Math.max(4,Math.min(24,(n-a-6)/r)):
Math.max(9,Math.min(20,480/r)),u=o?15:Math.max(8,Math.min(26,(n-a-14*s-4)/Math.max(1,e.length))),c=m=>e[m].group*(o?8:14)+
m*u,f=(m,g)=>o?[a+m*l,i+c(g)]:[a+c(g),i+m*l],h=e.length?c(e.length-1)+u:0,d=o?[a+r*l+4,i+h+4]:[a+h+4,i+r*l+4];return{place:f,
cell:o?[l,u]:[u,l],size:d,label:a,head:i,lying:o}}function Hh(t,e,n){let{palette:o,data:r,selection:s}=t,[a,i]=n.cell,l=Math.
max(1,Math.ceil((n.lying?16:11)/(n.lying?a:i))),u=r.layers.indexOf(s.layer),c=r.layers.flatMap((m,g)=>{let b=g===u;if(!Xt(
g,l,u))return[];let[x,y]=e.length?n.place(g,0):[n.label,n.head],v={"font-size":11,fill:b?o.ink:o.grey,"font-weight":b?700:
400};return[n.lying?O(m,x+a/2,n.head-5,{...v,"text-anchor":"middle"}):O(m,n.label-6,y+i/2+4,{...v,"text-anchor":"end"})]}),
f=e.map((m,g)=>{let[b,x]=n.place(0,g),y=Wn(t,m)?700:400,v={"font-size":11,fill:o.ink,"font-weight":y};return n.lying?O(D(
m.label,11,n.label-8),n.label-6,x+i-4,{...v,"text-anchor":"end"}):wt(D(m.label,11,n.head-22),b+a/2+4,n.head-5,v)}),h=n.lying?
[]:e.flatMap((m,g)=>g&&e[g-1].group===m.group?[]:[O(m.track.title,n.place(0,g)[0],12,{"font-size":11,fill:o.grey})]);return[
n.lying?O("layer",n.label-6,n.head-5,{"font-size":11,fill:o.grey,"text-anchor":"end"}):O("layer",0,n.head-5,{"font-size":9,
fill:o.grey}),...c,...f,...h]}function Dh(t,e,n,o,r,[s,a]){let[i,l]=r,{palette:u,data:c}=t,f=e.track.values[e.channel][n],
h=f===null?u.out:rt(u,Math.max(0,f-s),a-s,"contribution",e.track.stretched?0:1).hex,d=F(o[0],o[1],i-1,l-1,h);return d.append(
k("title",{},[`layer ${c.layers[n]}, ${e.words}: ${ue(f)}`])),d.dataset.layer=c.layers[n],d.dataset.channel=e.key,d.dataset.
ref=e.refKey??"",d}function qh(t,e,n,o){let{data:r,selection:s}=t,a={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[
0,1],Home:[-r.layers.length,0],End:[r.layers.length,0]}[o.key];if(!a||o.altKey)return;o.preventDefault(),o.stopPropagation();
let i=r.layers[Math.max(0,Math.min(r.layers.length-1,r.layers.indexOf(s.layer)+a[0]))],l=Math.max(0,e.findIndex(c=>Wn(t,
c))),u=e[Math.max(0,Math.min(e.length-1,l+a[1]))];n(a[1]&&u?{layer:i,...Cl(t,u)}:{layer:i})}function Cl(t,e){return t.headsBlock?
{heads:String(t.data.channels.get(e.key).index)}:{scope:e.key,...t.selection.run===t.selection.refRun?{ref:e.refKey??""}:
{}}}var Ol=["run"];function Vh(t,e,n){let{data:o,selection:r,palette:s}=t;return e.flatMap((a,i)=>{if(!Wn(t,a))return[];
let[l,u]=n.place(o.layers.indexOf(r.layer),i);return[gt(l,u,n.cell[0]-1,n.cell[1]-1,s.mark),gt(l-1.5,u-1.5,n.cell[0]+2,n.
cell[1]+2,s.paper)]})}function Kh(t,e,n,o){t.addEventListener("click",r=>{let s=r.target.closest("[data-layer]"),a=s&&e.
find(({key:i,refKey:l})=>i===s.dataset.channel&&(l??"")===s.dataset.ref);a&&n({layer:Number(s.dataset.layer),...Cl(o(),a)})}),
t.addEventListener("keydown",r=>qh(o(),e,n,r))}function Uh(t,e){let{data:n,selection:o}=t,r=n.layers.indexOf(o.layer),s=e.
filter(a=>Wn(t,a)).map(({track:a,channel:i,words:l})=>`${l}: ${ue(a.values[i][r])}`);return[t.headsBlock||Ce(n,o.scope),
...s].join(", ")}function El(t,e,n,o){let r=Ph(t),s=Bh(t,r,n,o),a=Se(Le(t)),i=t.data.layers.flatMap((m,g)=>r.map((b,x)=>Dh(
t,b,g,s.place(g,x),s.cell,a[b.group]))),[l,u]=[k("g"),k("g")],c=k("svg",{width:s.size[0],height:s.size[1],"aria-hidden":"\
true"},[l,...i,u]),f=p("div",{className:"rail",tabIndex:0},[c]);f.setAttribute("role","application");let h=t;return Kh(f,
r,e,()=>h),{nodes:[f],update:m=>{h=m,f.setAttribute("aria-label",`Layers and steps, arrow keys choose. Now layer ${m.selection.
layer}, ${Uh(m,r)}.`),l.replaceChildren(...Hh(m,r,s)),u.replaceChildren(...Vh(m,r,s))}}}function Ll(t){return Le(t).map(
e=>[e.note,ce(e)&&`Colours: ${ce(e)}.`].filter(Boolean).join(" ")).join(" ")}var Gh=(t,e)=>{let n=kt(t,e);return st(t,e).map(o=>n[o])},Pn=[{name:"overview",label:"Overview",there:bi,keys:()=>[],draw:Li,
fields:xi,controls:["pair","hide","range","root","zoom"],withoutOwn:!0,words:vi,figure:Ai,table:fa},{name:"maps",label:"\
Maps",there:_,keys:()=>[],draw:Sr,fields:()=>oi,controls:[...Dt,"zoom","root"],words:Vt,figure:si,table:wn},{name:"heads",
label:"Heads",there:Nn,keys:Gh,draw:Za,fields:mr,controls:["run","layer"],words:Qa,figure:Ja,table:ti},{name:"all",label:"\
All heads",there:Nn,keys:kt,draw:ui,fields:li,controls:["run","cells","range","root"],words:hi,figure:fi,table:di},{name:"\
scores",label:"Scores (q·k)",there:t=>$t(t,0)!==void 0,keys:()=>[],tables:Wr,draw:bl,fields:ll,controls:["run","layer"],
words:yl,figure:xl,table:kl},{name:"numbers",label:"Numbers",there:Qi,keys:()=>[],draw:el,fields:()=>["run","to"],controls:[],
words:nl,figure:ol,table:rl},{name:"graph",label:"Graph",there:en,keys:()=>[],draw:$s,fields:ks,controls:[],words:vs,figure:Ms,
table:Ns,find:bs,look:so},{name:"memories",label:"Memories",there:t=>jn(t,0).length>0,keys:()=>[],draw:Bi,controls:[],words:Hi}];
function dt(t,e){return Pn.find(({name:n,there:o})=>n===e.view&&o(t))||Pn.find(({name:n,there:o})=>(n==="maps"||!_(t))&&
o(t))}var Yh=3,Sl=2,M={data:null,selection:null,scene:null,places:null,width:0,rail:0,lying:!1,pending:!1,figureOfMap:null,
paper:!1},Xh=430,Zh=270,Jh=4;function Qh(){let{theme:t}=document.documentElement.dataset;return(t?t==="dark":window.matchMedia(
"(prefers-color-scheme: dark)").matches)&&!M.paper}function td(t){w("certificate").textContent=Bs(t),w("drawn").textContent=
`Numbers on this page are rounded, with a relative error of at most ${X(t.precision,!0)}.`,w("provenance").textContent=Object.
entries(t.provenance).map(([e,n])=>`${e}: ${n}`).join(" · ")}function ed(t,e){if(!_(t)&&!it(t))return en(t)?Cs(t):te(t,
0).facts;let n=t.queries.length<t.words.length?`, ${t.queries.length} of them as destinations`:"",o=(r,s)=>`${r} ${s}${r===
1?"":"s"}`;return[t.model,...e?[]:[t.heading],...t.layered?[o(t.layers.length,"layer")]:[],`${o(t.words.length,t.named?"\
named position":"token")}${n}`].join(" · ")}function nd({data:t,selection:e}){let n=Z(t,e),o=n?` ${L(n.value,!1)}${Rt(n)}`:
"",r=dt(t,e).name==="overview"&&!n,s=n?n.question:r?sa({data:t,selection:e}):_(t)?`“${mn(t,e.run,300)}”`:t.heading,a=n||
!_(t)?s+o:mn(t,e.run,60);Y(document.querySelector("title"),[a,t.model].filter(Boolean).join(" · ")),Y(w("words-read").firstChild,
s),Y(w("answer"),o),Y(w("facts"),ed(t,n||r)),w("facts").title=w("facts").textContent,w("facts").parentElement.classList.
toggle("short",dt(t,e).name==="overview"),w("answer").className=n&&n.value<0?"loss":"gain"}async function od(t,e){let n=dt(
t,e),o=(_(t)?[e.scope,...n.keys(t,e)]:[]).map(s=>[e.run,s]);e.ref&&o.push([e.refRun,e.ref]),_(t)&&o.push(...mt(t).map(s=>[
s,e.scope]));let r=n.tables?n.tables(t,e):[];await Promise.all([...o.map(([s,a])=>t.load(s,a)),...r.map(t.open)])}async function rd(t){
let{data:e,selection:n}=t,o=["head","expert"].flatMap(r=>zo(t,r)).filter(r=>!e.loaded(n.run,r));for(let r of o)await e.load(
n.run,r);return o.length>0}var sd=60,ad=500;function id(t){return(t.panel||t.ref==="")&&!lt&&!M.paper?Math.max(ad,window.
innerHeight)-sd:0}function Tl(){let{data:t,selection:e}=M,n=bo(t,e);n.palette=M.palette,n.paper=n.inLine=M.paper,n.ratio=
n.paper?Jh:Math.min(3,window.devicePixelRatio||1),n.windowRoom=id(e),n.marked=[];let{name:o}=dt(t,e);return n.listed=o===
"overview"&&it(t)&&_(t),n.headsBlock=Nn(t)&&["heads","all","scores"].includes(o)?U(t,e)[0]:"",n.hover=r=>{for(let s of n.
marked)s(r)},n}function ld(){M.width=w("figure").clientWidth,M.rail=w("rail").clientWidth,M.lying=window.innerWidth<1100}
function cd(t){let{data:e,selection:n}=t,o=dt(e,n);for(let s of w("views").children)s.setAttribute("aria-selected",String(
s.dataset.view===o.name));w("further").value=w("further").querySelector(`[value=${o.name}]`)?o.name:"",w("further").classList.
toggle("chosen",w("further").value!==""),w("what").dataset.view=o.name,w("views").hidden=Pn.filter(({there:s})=>s(e)).length<
2;let r=o.fields?o.fields(t):[];M.places.figure(t,o.name+jt(t,r,M.width),()=>o.draw(t,M.go,M.width))}function Rl(){return new Promise(
t=>{requestAnimationFrame(()=>setTimeout(t)),setTimeout(t,100)})}function zl(t){M.scene=t,w("bench").dataset.view=dt(t.data,
t.selection).name,ld(),t.width=M.width,nd(t),ba(t,dt(t.data,t.selection)),w("reading").hidden=t.headsBlock!==""||M.view().
name==="memories"||M.view().name==="overview"&&it(t.data),_(t.data)&&Ml(t,M.go,w("sentence"));let e=dt(t.data,t.selection).
words(t);Y(w("meaning"),e.meaning),Y(w("headline"),e.headline),cd(t),performance.mark("picture"),document.body.dataset.state=
"picture"}function jl(t){dd(t),document.body.dataset.state="drawn",pd()}async function ud(){let t=Tl();zl(t),await Rl(),
M.scene===t&&jl(t)}function Al(t){M.paper=t,document.body.classList.toggle("paper",t),_n();let e=Tl();zl(e),jl(e)}function fd(){
return!lt||document.body.classList.contains("open")}function _r(t){let e=w("card");if(dt(t.data,t.selection).name==="gra\
ph"){ys(t,M.go);return}let n=Fi(t,M.go);if(!_(t.data)){e.replaceChildren(...n);return}if(Ks(t,M.go,e),dt(t.data,t.selection).
name==="memories"){e.replaceChildren();return}if(dt(t.data,t.selection).name!=="overview"){e.append(...n);return}let[o,...r]=n.
length?n:[p("p",{className:"said",textContent:Vt(t).headline})],s=hd(t,w("why").clientWidth);e.prepend(...t.paper?[s,o]:
[o,s],...r)}function hd(t,e){let{data:n,selection:o,maps:r}=t,s=r.length>1?"after":"only",a={...t,selection:{...o,panel:s},
windowRoom:0,beside:!0},{nodes:i,update:l}=Sr(a,M.go,Math.min(e,t.paper?Zh:Xh));l(a);let u=Z(n,o),c=[[r.length>1?"before\
, after, change":"larger","the maps of this layer",{view:"maps"}]];Ho(n,o)&&c.push([`in ${u.unit||"its units"}`,"contrib\
utions of the layer to the target, destinations by sources",ca(n,o)]);let f=c.map(([h,d,m])=>{let g=p("button",{type:"bu\
tton",textContent:h,title:d});return g.addEventListener("click",()=>M.go(m)),g});return p("section",{className:"card clo\
se-up"},[p("div",{className:"aside-head"},[p("h3",{textContent:n.layered?`Layer ${o.layer}`:"The map"}),p("span",{className:"\
group"},f)]),...i])}function dd(t){if(w("figure-tools").hidden||_e(M),!_(t.data)){_r(t);return}if(Nl(t,w("sentence")),vl(
t,w("sentence")),Us(t,w("circuitsvis-place")),!fd())return;let{data:e,selection:n}=t,{places:o,go:r,rail:s,lying:a}=M,i=t.
headsBlock||e.channels.get(n.scope).blockName;o.rail(t,i+a+jt(t,Ol,s),()=>El(t,r,s,a));let{axis:l}=e.block(n.scope);Y(w(
"where-title"),`Layers and ${t.headsBlock?"heads":l==="scope"?"steps":`${l}s`}`),Y(w("where-way"),Gs(t)),Y(w("where-note"),
Ll(t)),_r(t);let u=t.listed&&!t.paper&&zr(t)!=="pairs";w("which-pairs").hidden=u,u||o.pairs(t,jt(t,sl(t),0),()=>al(t,r)),
rd(t).then(c=>{c&&M.scene===t&&_r(t)})}async function Ot(){if(document.body.dataset.state="waiting",M.pending)return;M.pending=
!0,await null,M.pending=!1;let{selection:t}=M;await od(M.data,t),t===M.selection&&w("figure").clientWidth>0&&ud()}var Pr={
fields:"",time:-1e9};M.go=t=>{let e=Fs(M.data,M.selection,t),n=Object.keys(t).join();if(M.selection=e,Ot(),Fl(),lt)return;
let o=n===Pr.fields&&performance.now()-Pr.time<700;Pr={fields:n,time:performance.now()},Rl().then(()=>md(un(M.data,e)||"\
#",o))};function md(t,e){t!==(location.hash||"#")&&history[e?"replaceState":"pushState"](null,"",t)}M.address=()=>lt?un(
M.data,M.selection):location.href.split("#")[0]+un(M.data,M.selection);M.resized=Ot;M.view=()=>dt(M.data,M.scene.selection);
function pd(){lt&&window.parent.postMessage({tlFfblock:"height",height:Math.ceil(document.body.scrollHeight)+2},"*")}function Fl(){
if(!lt)return;let{run:t,scope:e,layer:n,refRun:o,ref:r,to:s,from:a}=M.selection;window.parent.postMessage({tlFfblock:"se\
lection",selection:{run:M.data.runs[t].name,scope:e,layer:n,against_run:M.data.runs[o].name,against:r||null,query:s,key:a}},
"*")}function _n(){M.palette=Ze(Qh()?"dark":"light")}function gd(){let t=Pn.filter(({there:s})=>s(M.data)),[e,n]=t.length>
Yh?[t.slice(0,Sl),t.slice(Sl)]:[t,[]];w("further").replaceChildren(Object.assign(B("",n.map(({label:s})=>s).join(", ")),
{hidden:!0}),...n.map(({name:s,label:a})=>B(s,a))),w("further").hidden=n.length===0,w("further").addEventListener("chang\
e",()=>M.go({view:w("further").value})),w("views").replaceChildren(...e.map(({name:s,label:a})=>{let i=p("button",{type:"\
button",textContent:a});return i.setAttribute("role","tab"),i.dataset.view=s,i.addEventListener("click",()=>M.go({view:s})),
i})),w("more").addEventListener("click",()=>{let s=document.body.classList.toggle("open");w("more").setAttribute("aria-e\
xpanded",String(s)),Ot()});let o=()=>{M.selection=mo(M.data,location.hash),Ot()};for(let s of["popstate","hashchange","p\
ageshow"])window.addEventListener(s,lt?Ot:o);let r=window.innerWidth;new ResizeObserver(()=>{w("figure").clientWidth===M.
width&&window.innerWidth===r||(r=window.innerWidth,Ot())}).observe(w("figure")),_n(),window.matchMedia("(prefers-color-s\
cheme: dark)").addEventListener("change",()=>{_n(),Ot()}),window.addEventListener("message",({source:s,data:a})=>{!lt||s!==
window.parent||!a||a.tlFfblock!=="theme"||(document.documentElement.dataset.theme=a.dark?"dark":"light",_n(),Ot())}),window.
addEventListener("beforeprint",()=>Al(!0)),window.addEventListener("afterprint",()=>Al(!1))}function wd(){M.data=Es(JSON.
parse(w("data").textContent)),M.selection=mo(M.data,lt?"":location.hash),M.places={figure:$n(w("figure")),rail:$n(w("rai\
l")),pairs:$n(w("pair-list"))},document.body.classList.toggle("framed",lt),document.body.classList.toggle("unlayered",!M.
data.layered),document.body.classList.toggle("mapless",!_(M.data)),w("search").parentElement.hidden=M.data.queries.length===
0&&!en(M.data),td(M.data),da(M.data),xa(),gd(),wa(M),Va(M),ya(M),Fl(),Ot()}wd();})();
