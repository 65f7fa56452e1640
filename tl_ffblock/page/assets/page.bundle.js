/* sources d4d3d94d48d2450c29601042272706fe2bc041b4b7b19d0e1546d0dfaca9cd1e */
"use strict";
"use strict";(()=>{function lt(t){if(t==null||Number.isNaN(t))return"–";let e=Math.abs(t);return e!==0&&(e<.001||e>=1e5)?t.toExponential(
1).replaceAll("-","−"):String(Number(t.toPrecision(3))).replaceAll("-","−")}function fe(t){return t==null?"–":`${t>
0?"+":""}${lt(t)}`}function Cl(t){return t>.995&&t<1?"99 %":`${Math.round(100*t)} %`}function Fn(t,e,n,o){let r=t.edges.
length-n.length,s=t.targets.length?"the sizes of all shares that can be hidden":"the sizes of all edges that can be hidd\
en",a=r?` and ${r} that always are`:"";return`${o} of the page's ${n.length} edges${a}; they carry ${Cl(e.carried)} of ${s}\
. What is hidden stays in the sums of the cards.`}function In(t){return`${t.token?`${t.name}: ${t.token}`:t.name} = ${lt(
t.value)}`}function _e(t){return Array.from(new Intl.Segmenter().segment(t),e=>e.segment)}function _n(t){let e=[];return t.forEach(
(n,o)=>{o&&n===t[o-1]?e[e.length-1].push(o):e.push([o])}),e}function Nl(t){return t.length===1?t[0]:t.map((e,n)=>n?e.replace(
/^##/,""):e).join("")}function Fr(t,e){let n=e?_n(t.words):t.words.map((a,i)=>[i]),o=[];n.forEach((a,i)=>a.forEach(l=>{o[l]=
i}));let r=[];t.queries.forEach((a,i)=>{let l=r.find(u=>u.own===o[a]);l?l.members.push(i):r.push({own:o[a],members:[i],position:a})});
let s=r.map(a=>a.own);return{columns:n.map(a=>({members:a,position:a[0]})),rows:r,own:s,columnOf:o,nRows:r.length,nColumns:n.
length,reaches:(a,i)=>!t.causal||i<=s[a],rowOf:a=>s.indexOf(o[a]),labels:a=>n.map(i=>Nl(i.map(l=>a[l])))}}function Ft(t,e){
return t.named?"":`position ${e}`}function Pe(t,e,n){return t.named?"":`from ${Ft(t,e)} to ${Ft(t,n)}`}function Jt(t,e){
return t.named?"":e}function Pn(t,e){return Math.max(0,t.segments.filter(([,n])=>n<=e).length-1)}function Ir(t,e){return t.
map((n,o)=>n===e[o]?n:`${n}→${e[o]}`)}function he(t,e,n){let o=new Float32Array(t.nRows*t.nColumns).fill(NaN);return t.
rows.forEach((r,s)=>t.columns.forEach((a,i)=>{let[l,u]=[0,!1];for(let c of r.members)for(let f of a.members){let h=e[c*n+
f];Number.isNaN(h)||(l+=h,u=!0)}u&&(o[s*t.nColumns+i]=l/r.members.length)})),o}function _r(t,e){return Float32Array.from(
t.rows,n=>n.members.reduce((o,r)=>o+e[r],0)/n.members.length)}var me="http://www.w3.org/2000/svg",Qt="system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sa\
ns-serif";function k(t,e={},n=[]){let o=document.createElementNS(me,t);for(let[r,s]of Object.entries(e))o.setAttribute(r,
s);return o.append(...n),o}function W(t,e,n,o,r){return k("rect",{x:t,y:e,width:Math.max(0,n),height:Math.max(0,o),fill:r,
"shape-rendering":"crispEdges"})}function O(t,e,n,o={}){return k("text",{x:e,y:n,"font-size":12,...o},[t])}function mt(t,e,n,o){
return O(t,e,n,{transform:`rotate(-90 ${e} ${n})`,...o})}function p(t,e={},n=[]){let o=Object.assign(document.createElement(
t),e);return o.append(...n),o}function G(t,e){t.textContent!==e&&(t.textContent=e)}function pe(t,e,n){t.style.backgroundColor=
e?e.hex:"",t.style.color=e?e.readable:"",t.style.boxShadow=n?`inset 0 -4px ${n.hex}`:""}function Be(t,e,n,o){let r=p("li",
{className:"chip",title:n},[p("bdi",{textContent:t}),p("span",{textContent:e})]);return pe(r,o,null),r}function w(t){return document.
getElementById(t)}var Pr=document.createElement("canvas").getContext("2d"),Ol=2e4,de=new Map;function F(t,e){let n=`${e}\
 ${t}`;return de.has(n)||(de.size>Ol&&de.clear(),Pr.font=`${e}px ${Qt}`,de.set(n,Pr.measureText(t).width)),de.get(n)}function B(t,e,n){
if(F(t,e)<=n)return t;let o=_e(t.slice(0,400));for(;o.length>1&&F(o.join("")+"…",e)>n;)o.pop();return o.join("")+"…"}
function He(t,e,n){let o=[""];for(let r of t.split(" ")){let s=o[o.length-1]?`${o[o.length-1]} ${r}`:r;o[o.length-1]&&F(
s,e)>n?o.push(r):o[o.length-1]=s}return o}function It(t,e){let n=p("tr");return t.forEach((o,r)=>{let s=p("td");if(r===0&&e){let a=p("button",{type:"button",className:"\
plain",textContent:o});a.addEventListener("click",e),s.append(a)}else s.textContent=o;n.append(s)}),n}function Ll(t){return t.
label&&t.label!==t.short?`${t.short} ${t.label}`:t.short}function Br(t,e,n,o){let r=s=>Math.abs(s.shares[o]??0);return t.
edges.filter(s=>s[n]===e).sort((s,a)=>r(a)-r(s)||Math.abs(a.size)-Math.abs(s.size))}function Hr(t,e,n,o,r,s){if(!n.length&&
!s.length)return[];let{data:a,target:i}=t,l=d=>a.targets.length?[fe(d[i])]:[],u=p("tr",{},[p("th"),p("th",{textContent:"\
size"}),...a.targets.length?[p("th",{textContent:"share"})]:[]]),c=60,f=n.slice(0,c).map(d=>It([Ll(a.nodes[d[o]]),`${d.unit in
a.widths?"":`${d.unit} `}${lt(d.size)}`,...l(d.shares)],()=>r(d[o]))),h=n.length>c?[It([`and ${n.length-c} more`,"",""])]:
[];return[p("h3",{textContent:e}),p("table",{},[u,...f,...h,...s.map(({name:d,size:m,shares:g})=>It([d,m===null?"":lt(m),
...l(g)]))])]}function El(t,e){let{data:n,target:o}=t,r=e.facts.map(([s,a])=>It([s,lt(a)]));if(n.targets.length){let{token:s,
name:a,value:i}=n.targets[o];r.push(It([`share of ${a}`,`${fe(e.shares[o])} of ${lt(i)}`])),s&&e.ranks[o]&&r.push(It([`r\
ank of ${s}`,String(e.ranks[o])]),It([`probability of ${s}`,lt(e.probabilities[o])]))}return p("table",{},r)}function Dr(t,e,n){
let{data:o,target:r}=t;if(e===null)return[p("p",{className:"note",textContent:"Choose a node: its card says what it writ\
es as tokens, and what it is the sum of."})];let s=o.nodes[e],a=(s.own_shares[r]??0)!==0?[{name:"brought by the node its\
elf",size:null,shares:s.own_shares}]:[],i=s.unseen?[{name:`not on this page${s.unseen>1?` (${s.unseen})`:""}`,size:null,
shares:s.rest_shares}]:[],l=Br(o,e,"target",r),u=s.says.length?[p("div",{className:"says"},s.says.map(c=>p("bdi",{textContent:c})))]:
[];return[p("h2",{textContent:s.name}),...u,El(t,s),...Hr(t,"What enters it",l,"source",n,[...a,...i]),...Hr(t,"Where it\
 goes",Br(o,e,"source",r),"target",n,[])]}var De={width:76,widest:130,height:28,gap:4,apart:26,lane:14,top:34,left:10,most:190};function qr(t,e){let n=o=>t.targets.
length?Math.abs(o.weights[e]??0):o.unit in t.widths?o.size:0;return t.edges.map((o,r)=>({index:r,weight:n(o)})).filter(({
index:o})=>!t.edges[o].always).sort((o,r)=>r.weight-o.weight||o.index-r.index)}function Vr(t,e,n,o){let r=new Set(t.edges.
flatMap((l,u)=>l.always?[u]:[]));for(let{index:l}of n.slice(0,o))r.add(l);let s=new Set;for(let l of r)s.add(t.edges[l].
source).add(t.edges[l].target);let a=l=>l.reduce((u,{weight:c})=>u+c,0),i=a(n);return{edges:r,nodes:s,carried:i?a(n.slice(
0,o))/i:1}}function Kr(t,e,n){let o=new Map,r=new Set;for(let h of e.nodes){let{column:d,lane:m}=t.nodes[h];r.add(d);let g=`${m}\
/${d}`;o.has(g)||o.set(g,[]),o.get(g).push(h)}let s=[...r].sort((h,d)=>h-d),a=Array.from({length:t.lanes},()=>0);for(let[
h,d]of o)a[Number(h.split("/")[0])]=Math.max(a[Number(h.split("/")[0])],d.length);let i=n.height+n.gap,l=[],u=n.top;for(let h of a)
l.push(u),h&&(u+=h*i+n.lane);let c=new Map;for(let[h,d]of o){let[m,g]=h.split("/").map(Number),b=l[m]+Math.min(n.most,(a[m]-
d.length)*i/2);d.sort((x,y)=>x-y).forEach((x,y)=>c.set(x,{x:n.left+s.indexOf(g)*(n.width+n.apart),y:b+y*i}))}let f=2*n.left+
s.length*(n.width+n.apart)-n.apart;return{places:c,columns:s.map((h,d)=>({title:t.columns[h],x:n.left+d*(n.width+n.apart)})),
width:f,height:u,size:n}}function Ur(t){let e={};for(let{unit:n,size:o}of t.edges)n in t.widths&&(e[n]=Math.max(e[n]||0,
Math.abs(o)));return e}function Gr(t,e){return e[t.unit]?.8+9*Math.sqrt(Math.abs(t.size)/e[t.unit]):1.1}function Yr(t,e){
let n=s=>s.map(a=>Math.abs(a.shares[e]??0)).filter(a=>a>0).sort((a,i)=>a-i),o=n(t.edges.filter(s=>!s.always)),r=o.length?
o:n(t.edges);return r.length?r[Math.min(r.length-1,Math.floor(.98*r.length))]:1}function qe(t,e,n,o){let r=Float32Array.from(e);for(let s=0;s<t.nRows;s++){let a=s*t.nColumns;for(let i of n)r[a+i]=NaN;
o&&(r[a+t.own[s]]=NaN)}return r}function Hn(t,e,n,o){let r=qe(t,e,n,o==="others");if(o==="none")return r;let{nRows:s,nColumns:a}=t,
i=o==="column"?(u,c)=>c:u=>u,l=new Float64Array(o==="column"?a:s);for(let u=0,c=0;u<s;u++)for(let f=0;f<a;f++,c++)Number.
isNaN(r[c])||(l[i(u,f)]+=r[c]);for(let u=0,c=0;u<s;u++)for(let f=0;f<a;f++,c++)l[i(u,f)]>0&&(r[c]/=l[i(u,f)]);return r}function Dn(t,e,n){
let o=qe(t,e,n,!1);return Float32Array.from(t.own,(r,s)=>{let a=0;for(let i=0;i<t.nColumns;i++)a+=o[s*t.nColumns+i]||0;return a>
0?o[s*t.nColumns+r]/a:NaN})}function Ve(t,e){return t.map((n,o)=>n-e[o])}function E(t){let e=0;for(let n of t)Math.abs(n)>
e&&(e=Math.abs(n));return e}function Bn(t,e,n,o=0){let r=new Float32Array(e.length),s=0;for(let a=0,i=0;a<t.nRows;a++){let l=s;
for(let u=0;u<t.nColumns;u++,i++)!Number.isNaN(e[i])&&(n||t.own[a]!==u)&&(r[s++]=Math.abs(e[i]));s-l<o&&(s=l)}return r.subarray(
0,s)}function ge(t,e){let[n,o]=[0,t.length-1];for(;n<o;){let r=t[n+o>>1],[s,a]=[n,o];for(;s<=a;){for(;t[s]<r;)s++;for(;t[a]>
r;)a--;if(s>a)break;[t[s],t[a]]=[t[a],t[s]],s++,a--}if(e<=a)o=a;else if(e>=s)n=s;else break}return t[e]}var te=20,Al=3;function Ot(t,e,n,o=!1){
let r=n==="all",s=o&&!r?Bn(t,e,!1,Al):[],a=s.length?s:Bn(t,e,r),i=a.length?a:Bn(t,e,!0);return n!=="percentile"?E(i):ge(
i,Math.floor(.99*(i.length-1)))||E(i)}function _t(t,e,n){let o=e>0?Math.min(1,Math.abs(t)/e):0;return n?Math.sqrt(o):o}function Xr(t,e,[
n,o,r,s],a,i){let l=new Float32Array(a*i).fill(NaN),[u,c]=[o-n+1,s-r+1];if(u===i&&c===a){for(let m=0;m<u;m++)l.set(t.subarray(
(n+m)*e+r,(n+m)*e+s+1),m*c);return l}let f=(m,g)=>Array.from({length:m},(b,x)=>{let y=Math.floor(x*g/m);return[y,Math.max(
y+1,Math.floor((x+1)*g/m))]}),[h,d]=[f(u,i),f(c,a)];for(let m=0;m<u;m++)for(let g=0;g<c;g++){let b=t[(n+m)*e+r+g];if(!Number.
isNaN(b))for(let x=h[m][0];x<h[m][1];x++)for(let y=d[g][0];y<d[g][1];y++){let v=x*a+y;Math.abs(l[v])>=Math.abs(b)||(l[v]=
b)}}return l}var we={light:{paper:"#ffffff",ink:"#17202a",grey:"#5b6672",line:"#8b95a1",out:"#f1f3f5",hatch:"#d9dee3",contribution:"#\
003f5c",gain:"#b35806",loss:"#6a5fc0",bias:"#4a4f57",mark:"#17202a",read:"#d0106f"},dark:{paper:"#14191f",ink:"#e8edf2",
grey:"#a3adb8",line:"#66717d",out:"#1c232b",hatch:"#323c47",contribution:"#9fd8f5",gain:"#f0933f",loss:"#a398f0",bias:"#\
c3cad2",mark:"#ffffff",read:"#ff6ab0"}};function ee(t){return[1,3,5].map(e=>parseInt(t.slice(e,e+2),16))}function Sl(t){
return"#"+t.map(e=>e.toString(16).padStart(2,"0")).join("")}var es=[.95047,1,1.08883],ns=[[.4124564,.3575761,.1804375],[
.2126729,.7151522,.072175],[.0193339,.119192,.9503041]],Tl=[[3.2404542,-1.5371385,-.4985314],[-.969266,1.8760108,.041556],
[.0556434,-.2040259,1.0572252]];function Vn(t,e){return t.map(n=>n.reduce((o,r,s)=>o+r*e[s],0))}function os(t){return t.
map(e=>e/255<=.04045?e/255/12.92:((e/255+.055)/1.055)**2.4)}function Zr(t){let[e,n,o]=Vn(ns,os(t)).map((r,s)=>r/es[s]).map(
r=>r>.008856451679035631?Math.cbrt(r):(903.2962962962963*r+16)/116);return[116*n-16,500*(e-n),200*(n-o)]}function Rl([t,
e,n]){let o=(t+16)/116,r=[o+e/500,o,o-n/200].map((a,i)=>es[i]*(a**3>216/24389?a**3:(116*a-16)*27/24389)),s=a=>a<=.0031308?
12.92*a:1.055*a**(1/2.4)-.055;return Vn(Tl,r).map(a=>Math.round(255*Math.min(1,Math.max(0,s(Math.max(0,a))))))}var $t=256;
function zl(t,e){let[n,o]=[Zr(ee(t)),Zr(ee(e))];return Array.from({length:$t+1},(r,s)=>Rl(n.map((a,i)=>a+(o[i]-a)*(s/$t))))}
function Jr([t,e,n]){return(255<<24|n<<16|e<<8|t)>>>0}var qn=new Map;function Ke(t){return qn.has(t)||qn.set(t,Wl(t)),qn.
get(t)}function Wl(t){let e=we[t],o=["contribution","gain","loss","bias"].map(a=>[a,zl(e.paper,e[a])]),r=Object.fromEntries(
o.map(([a,i])=>[a,Uint32Array.from(i,Jr)])),s=Object.fromEntries(o.map(([a,i])=>[a,i.map(l=>({rgb:l,hex:Sl(l),readable:Kn(
l)}))]));return{...e,name:t,ramps:s,shades:r,outside:Jr(ee(e.out))}}function jl(t,e){return e==="signed"?t<0?"loss":"gai\
n":e}function tt(t,e,n,o,r=0){return t.ramps[jl(e,o)][Math.round(_t(e,n,r)*$t)]}var Qr=["#17202a","#ffffff","#000000"],Fl=4.5;
function ts(t){return Vn([ns[1]],os(t))[0]}function Kn(t){let e=ts(t),n=o=>{let r=ts(ee(o));return(Math.max(r,e)+.05)/(Math.
min(r,e)+.05)};return Qr.find(o=>n(o)>=Fl)||Qr[2]}var Yn=11,Un=9.5;function ss({nodes:t}){return{...De,width:Math.ceil(Math.min(De.widest,Math.max(De.width,...t.map(({short:e})=>F(
e,Yn)+6))))}}function be(t,e,n,o=0){if(!e)return t.line;let r=Math.round($t*Math.max(o,Math.sqrt(Math.min(1,Math.abs(e)/
n))));return t.ramps[e>0?"gain":"loss"][r].hex}function Il(t,e){return e?t.ramps.contribution[Math.round($t*Math.max(.04,
1-Math.log10(e)/4.7))].hex:t.paper}function Ue({palette:t,flattest:e},n){return t.ramps.contribution[Math.round($t*Math.
max(.04,1-n/(e||1)))].hex}function Xn(t,e){let{data:n,palette:o,target:r,limit:s}=t;if(t.inks!=="entropy")return n.targets.
length?be(o,e.shares[r],s,.22):o.line;let{entropy:a}=n.nodes[e.source];return a===null||!(e.unit in n.widths)?o.line:Ue(
t,a)}function Zn(t,e){return t.inks==="entropy"?e.entropy===null?t.palette.paper:Ue(t,e.entropy):t.inks==="rank"&&t.data.
targets.length?Il(t.palette,e.ranks[t.target]):e.shares.length&&e.shares[t.target]?be(t.palette,e.shares[t.target],t.limit):
t.palette.paper}function _l(t,e){let{data:n,layout:o}=t,r=n.edges[e],{size:s,places:a}=o,[i,l]=[a.get(r.source),a.get(r.
target)],[u,c,f,h]=[i.x+s.width,i.y+s.height/2,l.x,l.y+s.height/2],d=Math.max(s.apart/2,(f-u)/2),m=k("path",{class:"grap\
h-edge",d:`M${u} ${c}C${u+d} ${c} ${f-d} ${h} ${f} ${h}`,fill:"none",stroke:Xn(t,r),"stroke-width":Gr(r,t.largest),"stro\
ke-opacity":.8});return r.unit in n.widths||m.setAttribute("stroke-dasharray","4 3"),m.dataset.edge=e,m}function Pl(t,e){
let n=t.data.nodes[e],o=t.layout.places.get(e);if(!n.unseen)return[];let r=n.rest_shares[t.target]||0,s=o.y+t.layout.size.
height-5;return[k("path",{class:"graph-edge",d:`M${o.x-14} ${s+9}L${o.x} ${s}`,stroke:t.inks==="entropy"?t.palette.line:
be(t.palette,r,t.limit,.22),"stroke-width":2,"stroke-dasharray":"2 2"})]}function Bl(t,e){let{data:n,layout:o,palette:r}=t,
s=n.nodes[e],{x:a,y:i}=o.places.get(e),{width:l,height:u}=o.size,c=Zn(t,s),f=Kn(ee(c)),h=n.targets.length&&s.shares[t.target]?
fe(s.shares[t.target]):"",m=[s.label&&B(s.label,Un,l-6-F(` ${h}`,Un)),h].filter(Boolean).join(" "),g=`${s.label} ${s.name}`,
b=k("g",{class:"graph-node",transform:`translate(${a} ${i})`,role:"img","aria-label":g},[k("rect",{width:l,height:u,rx:4,
fill:c,stroke:r.line}),O(B(s.short,Yn,l-6),l/2,m?12:18,{"font-size":Yn,"text-anchor":"middle",fill:f})]);return m&&b.append(
O(m,l/2,24,{"font-size":Un,"text-anchor":"middle",fill:f})),b.dataset.node=e,b}var Gn=29;function as(t,{title:e,x:n}){let{
width:o,apart:r}=t.layout.size;return e.split(`
`).map((s,a)=>O(B(s,10,o+r-4),n+o/2,12+12*a,{"font-size":10,"text-anchor":"middle",fill:t.palette.grey}))}function is(t){
let{layout:e,palette:n}=t,o=k("svg",{class:"headings",width:e.width,height:Gn,"font-family":Qt,"aria-hidden":"true"},[W(
0,0,e.width,Gn,n.paper),...e.columns.flatMap(r=>as(t,r))]);return o.style.marginBottom=`${-Gn}px`,o}function Jn(t){let{data:e,
layout:n,shown:o,palette:r}=t,s=[...o.edges].sort((a,i)=>Math.abs(e.edges[a].shares[t.target]||0)-Math.abs(e.edges[i].shares[t.
target]||0));return k("svg",{xmlns:me,width:n.width,height:n.height,viewBox:`0 0 ${n.width} ${n.height}`,"font-family":Qt},
[W(0,0,n.width,n.height,r.paper),...n.columns.flatMap(a=>as(t,a)),...[...o.nodes].flatMap(a=>Pl(t,a)),...s.map(a=>_l(t,a)),
...[...o.nodes].map(a=>Bl(t,a))])}var rs=900;function ls(t,{columns:e,places:n,width:o,size:r}){if(o<=rs)return[t];let s=r.
width+r.apart,a=Math.floor((rs-2*r.left+r.apart)/s);return e.map((l,u)=>u).filter(l=>l%(a-1)===0&&l+1<e.length).map(l=>{
let u=t.cloneNode(!0),c=e[l].x-r.left,f=Math.min(a,e.length-l)*s-r.apart+2*r.left,d=Math.max(...[...n.values()].filter(({
x:m})=>m>=c&&m<c+f).map(({y:m})=>m))+r.height+r.lane;for(let[m,g]of Object.entries({viewBox:`${c} 0 ${f} ${d}`,width:f,height:d}))
u.setAttribute(m,g);return u})}function Qn(t,e,n){t.classList.toggle("lit",n!==null);let o=new Set([n]);for(let r of t.querySelectorAll(
"[data-edge]")){let s=e.edges[r.dataset.edge],a=n!==null&&(s.source===n||s.target===n);r.classList.toggle("lit",a),a&&o.
add(s.source).add(s.target)}for(let r of t.querySelectorAll("[data-node]"))r.classList.toggle("lit",o.has(Number(r.dataset.
node)))}var cs={least:48,most:120};function us(t,e){let{layout:n,shown:o,palette:r,data:s}=t,{size:a,places:i}=n,l=d=>[i.get(d).
x+a.width/2,i.get(d).y+a.height/2],u=[...o.edges].map(d=>{let m=s.edges[d],[[g,b],[x,y]]=[l(m.source),l(m.target)];return k(
"line",{x1:g,y1:b,x2:x,y2:y,stroke:Xn(t,m),"vector-effect":"non-scaling-stroke"})}),c=[...o.nodes].map(d=>W(i.get(d).x,i.
get(d).y,a.width,a.height,Zn(t,s.nodes[d]))),f=Math.max(cs.least,Math.min(cs.most,n.height*e/n.width)),h=k("rect",{class:"\
graph-window",fill:r.ink,"fill-opacity":.08,stroke:r.ink,"vector-effect":"non-scaling-stroke"});return k("svg",{width:e,
height:f,viewBox:`0 0 ${n.width} ${n.height}`,preserveAspectRatio:"none"},[W(0,0,n.width,n.height,r.paper),...u,...c,h])}
function to(t,e,n){let o={x:e.scrollLeft,y:e.scrollTop,width:Math.min(e.clientWidth,n.width),height:Math.min(e.clientHeight,
n.height)};for(let[r,s]of Object.entries(o))t.querySelector(".graph-window").setAttribute(r,s)}function fs(t,e,n,o){let r=t.
getBoundingClientRect();e.scrollLeft=(o.clientX-r.left)/r.width*n.width-e.clientWidth/2,e.scrollTop=(o.clientY-r.top)/r.
height*n.height-e.clientHeight/2}function Ge(t,e){return Object.values(t.runs[e].blocks).find(({kind:n})=>n==="graph")}function Ye(t){return Ge(t,0)!==void 0}
function Pt(t){let{selection:e,palette:n}=t,o=Ge(t.data,e.run),r=Math.min(e.target,Math.max(0,o.targets.length-1)),s=qr(
o,r),a=Math.min(s.length,e.amount<0?o.shown:e.amount),i=Vr(o,r,s,a);return{data:o,target:r,order:s,amount:a,shown:i,palette:n,
inks:e.inks,layout:Kr(o,i,ss(o)),limit:Yr(o,r),largest:Ur(o),flattest:E(o.nodes.map(({entropy:l})=>l??0))}}function eo({
data:t,shown:e,order:n},o){if(o<0||e.nodes.has(o))return{node:o};let r=n.findIndex(({index:s})=>t.edges[s].source===o||t.
edges[s].target===o);return r<0?{node:o}:{node:o,amount:r+1}}function hs({nodes:t},e){let n=e.trim().toLowerCase(),o=r=>n&&
[r.label,r.name,r.short,...r.says].some(s=>s.toLowerCase().includes(n));return t.flatMap((r,s)=>o(r)?[s]:[])}function ds(t,e){
let n=Pt(t),o=hs(n.data,e);return o.length?eo(n,o.find(r=>r>t.selection.node)??o[0]):null}function no(t,e){let{data:n,shown:o}=Pt(
t),r=new Set(hs(n,e));for(let a of document.querySelectorAll("[data-node]"))a.classList.toggle("found",r.has(Number(a.dataset.
node)));let s=[...r].filter(a=>o.nodes.has(a)).length;return e.trim()?`${s} shown${r.size>s?`, ${r.size-s} hidden`:""}`:
""}function Hl({layout:{places:t},shown:e},n,o){let r=t.get(n);if(!r)return Math.min(...e.nodes);let s={ArrowRight:(i,l)=>[
i,l],ArrowLeft:(i,l)=>[-i,l],ArrowDown:(i,l)=>[l,i],ArrowUp:(i,l)=>[-l,i]}[o],a={index:n,distance:1/0};for(let[i,l]of t){
let[u,c]=s(l.x-r.x,l.y-r.y),f=u+2*Math.abs(c);u>1&&f<a.distance&&(a={index:i,distance:f})}return a.index}function Dl(t){
let{data:e,palette:n,limit:o,target:r}=t,s=h=>[1,.75,.5,.25,.1,1e-6].map(d=>be(n,h*d*o,o)),a=p("span",{className:"ramp"});
a.style.background=`linear-gradient(to right, ${[...s(-1),...s(1).reverse()].join(", ")})`;let i=p("span",{className:"ra\
mp"});i.style.background=`linear-gradient(to right, ${[0,.25,.5,.75,1].map(h=>Ue(t,h*t.flattest)).join(", ")})`;let l=e.
nodes.some(({shares:h})=>Math.abs(h[r]??0)>o*1.0001),u=e.targets.length?[p("span",{},[`share ${l?"≤ ":""}−${lt(o)}`,
a,`${l?"≥ ":""}+${lt(o)}`])]:[],c=e.edges.some(h=>!(h.unit in e.widths))?[p("span",{textContent:"dashed: a number, not\
 a width"})]:[];return[...t.inks==="entropy"?[p("span",{},["entropy of the tokens that a node says, and of its edges onw\
ard: 0",i,`${lt(t.flattest)} nats`])]:u,p("span",{textContent:`width: ${Object.values(e.widths).join("; ")}`}),...c]}function ql({
data:t,selection:e},{position:n}){let o=t.runs[e.run].tokens;return p("p",{className:"graph-text"},o.flatMap((r,s)=>[p(s===
n?"b":"bdi",{textContent:r})," "]))}function Vl({data:t},e){let n=(c,f,h,d)=>{let m=p("select",{autocomplete:"off"},f.map(
([g,b])=>p("option",{value:String(g),textContent:b})));return m.addEventListener("change",()=>e({[h]:d(m.value)})),{select:m,
label:p("label",{className:"group",hidden:f.length<1},[`${c} `,m])}},o=n("target",t.targets.map((c,f)=>[f,In(c)]),"targe\
t",Number),r=[["share",t.targets.length?"share of the target":"nothing"],...t.targets.some(({token:c})=>c)?[["rank","ran\
k of the target's token (nodes)"]]:[],...t.nodes.some(({entropy:c})=>c!==null)?[["entropy","entropy of the tokens"]]:[]],
s=n("coloured by",r.length>1?r:[],"inks",String),a=p("input",{type:"range",min:"0",step:"1",autocomplete:"off",className:"\
amount"});a.addEventListener("input",()=>e({amount:Number(a.value)}));let i=p("span",{className:"note shown"});return i.
setAttribute("role","status"),o.select.classList.add("target"),{host:p("div",{className:"graph-controls"},[o.label,s.label,
p("label",{className:"group"},["shown ",a]),i]),tell:c=>{o.select.value=String(c.target),s.select.value=c.inks,a.max=String(
c.order.length),a.value=String(c.amount),i.textContent=Fn(c.data,c.shown,c.order,c.amount)}}}function Kl(t,{layout:{places:e,
size:n}},o,r=!1){let s=e.get(o);if(!s)return;let[a,i]=[s.x+n.width/2-t.clientWidth/2,s.y+n.height/2-t.clientHeight/2];(r||
s.x<t.scrollLeft||s.x+n.width>t.scrollLeft+t.clientWidth)&&(t.scrollLeft=a),(r||s.y<t.scrollTop||s.y+n.height>t.scrollTop+
t.clientHeight)&&(t.scrollTop=i)}function ms(t,e,n){w("card").replaceChildren(p("section",{className:"card node-card"},Dr(
t,e<0?null:e,o=>n(eo(t,o)))))}function ps(t,e){ms(Pt(t),t.selection.node,e)}function Ul(t,e,n){let o=r=>{let s=r.target.
closest("[data-node]");return s?Number(s.dataset.node):-1};t.addEventListener("click",r=>n(eo(e.drawn,o(r)))),t.addEventListener(
"pointerover",r=>{if(e.scene.selection.node>=0)return;let s=o(r);Qn(e.picture,e.drawn.data,s<0?null:s),ms(e.drawn,s,n)}),
t.addEventListener("keydown",r=>{if(r.key==="Escape")n({node:-1});else if(r.key.startsWith("Arrow")&&!r.altKey)n({node:Hl(
e.drawn,e.scene.selection.node,r.key)});else return;r.preventDefault(),r.stopPropagation()}),t.addEventListener("scroll",
()=>{e.small&&to(e.small,t,e.drawn.layout)});for(let r of["pointerdown","pointermove"])e.above.addEventListener(r,s=>{s.
buttons&&e.small&&fs(e.small,t,e.drawn.layout,s)})}function gs(){return["run"]}function Gl({meaning:t,certificate:e}){return p(
"details",{className:"note"},[p("summary",{textContent:"What is drawn"}),p("p",{textContent:`${t} ${e}`})])}function ws(t,e,n){
let o=p("div",{className:"graph",tabIndex:0}),[r,s]=[p("div",{className:"note graph-legend"}),p("div",{className:"graph-\
overview"})];o.setAttribute("role","application"),o.setAttribute("aria-label","graph; arrow keys go from node to node, E\
scape lets go"),s.setAttribute("aria-hidden","true");let a={scene:t,drawn:Pt(t),picture:null,small:null,above:s,made:"",
opened:!1},i=Vl(a.drawn,e),l=()=>{let{drawn:c}=a;a.picture=Jn(c),o.replaceChildren(...a.scene.paper?ls(a.picture,c.layout):
[is(c),a.picture]),a.small=c.layout.width>n?us(c,n):null,s.replaceChildren(...[a.small].filter(Boolean)),s.hidden=!a.small,
r.replaceChildren(...Dl(c)),i.tell(c)},u=c=>{let{target:f,amount:h,inks:d,node:m}=c.selection,g=JSON.stringify([f,h,d,c.
palette.name,c.paper]);Object.assign(a,{scene:c,drawn:Pt(c)}),g!==a.made&&l(),a.made=g;for(let b of a.picture.querySelectorAll(
"[data-node]"))b.classList.toggle("chosen",Number(b.dataset.node)===m);Qn(a.picture,a.drawn.data,a.drawn.shown.nodes.has(
m)?m:null),no(c,w("search").value),requestAnimationFrame(()=>{Kl(o,a.drawn,m>=0||a.opened?m:a.drawn.data.start,!a.opened),
a.opened=!0,a.small&&to(a.small,o,a.drawn.layout)})};return Ul(o,a,e),{nodes:[...t.data.channels.size?[]:[ql(t,a.drawn.data)],
i.host,r,s,o,Gl(a.drawn.data)],update:u}}function bs(t){let{data:e,target:n,shown:o,order:r,amount:s}=Pt(t),a=e.targets.
length?`; ${In(e.targets[n])}`:"";return{headline:`${e.heading}${a}`,meaning:`${e.meaning.split(". ")[0].replace(/\.$/,"")}\
.`,place:"",shown:"a graph of components",remark:[...e.meaning.split(". ").slice(1),Fn(e,o,r,s)].join(". "),note:e.certificate,
exact:!1,method:"",file:["graph",e.heading.replace(/[^\w.-]+/g,"_").slice(0,60)]}}function xs(t,e){let n=Pt(t),o=Math.min(
1,e/n.layout.width),r=[k("g",{transform:`scale(${o})`},[...Jn(n).childNodes])];return{groups:[{x:0,y:0,pictures:[],nodes:r}],
height:o*n.layout.height}}function ys(t){let e=Ge(t.data,t.selection.run),n=function*(){for(let{source:o,target:r,unit:s,
size:a,shares:i}of e.edges)yield[e.nodes[o].name,e.nodes[r].name,s,a,...i]};return{head:["source","target","unit","size",
...e.targets.map(({name:o})=>`share of ${o}`)],lines:n,count:e.edges.length}}function ks(t){let{nodes:e,edges:n}=Ge(t,0),
o=(r,s)=>`${r} ${s}${r===1?"":"s"}`;return`${t.model} · ${o(e.length,"node")} · ${o(n.length,"edge")} · ${o(t.words.length,
"token")}`}function ro(t){let{fromBase64:e}=Uint8Array;if(e)return e.call(Uint8Array,t);let n=atob(t),o=new Uint8Array(n.length);for(let r=0;r<
n.length;r++)o[r]=n.charCodeAt(r);return o}async function xe(t){let e=new Blob([ro(t)]).stream().pipeThrough(new DecompressionStream(
"deflate"));return new Uint8Array(await new Response(e).arrayBuffer())}function so(t,e,n,o){let r=t.length/e.bytes,s=new Uint16Array(
r/e.low.length);for(let a=0,i=n*s.length;a<s.length;a++,i++){let l=e.bytes===2?t[i]*256+t[r+i]:t[i];s[a]=o?o[a]+(l%2?-(l+
1)/2:l/2):l}return s}function ao(t,e,n){let o=256**e.bytes-1,r=e.signed?(o-1)/2:o-1,s=new Float32Array(t.length);for(let a=0;a<
t.length;a++){let i=t[a];if(i===0)continue;if(i===o){s[a]=NaN;continue}let l=i>r,u=Math.exp(e.low[n]+e.step[n]*(i-1-(l?r:
0)));s[a]=l?-u:u}return s}function oo(t){return t.replaceAll("-","−")}var Yl=" %";function R(t,e=3){if(!Number.isFinite(
t))return"–";let n=Math.abs(t);return t===0?"0":n>=1e5||n<1e-4?oo(t.toExponential(e-1)):oo(n>=10**(e+1)?String(Math.round(
t)):String(Number(t.toPrecision(e))))}function q(t,e=3){return Number.isFinite(t)?R(100*t,e)+Yl:"–"}function Xe(t,e=3){
if(!Number.isFinite(t))return"–";let n=R(100*t,e);return`${n} point${/^−?1$/.test(n)?"":"s"}`}function A(t,e,n=3){let o=e?
Xe(t,n):R(t,n);return t>0?`+${o}`:o}var Xl=[8,6,5,4,3,2.5,2,1.5,1];function $s(t){let e=10**Math.floor(Math.log10(t)+1e-9);
return e*Xl.find(n=>n*e<=t*(1+1e-8))}function Y(t,e,n=!1){return e?n?Xe(t,2):q(t,2):R(t,2)}function ye(t){return t===0?"\
0":oo(t.toExponential(1))}function V(t,e,n){return e===Object.keys(t.runs[0].blocks)[0]?n:`${e}: ${n}`}function Zl(t){let e=new Map;for(let[n,o]of Object.
entries(t.runs[0].blocks))o.kind==="maps"&&o.channels.forEach((r,s)=>{let a=V(t,n,r.name);e.set(a,{...r,key:a,index:s,blockName:n,
before:r.before&&V(t,n,r.before)})});return e}function pt(t,e){return Object.entries(t.runs[0].blocks).filter(([,n])=>n.
kind==="maps"&&(!e||n.axis===e))}function ke(t){return Object.values(t.runs[0].blocks).filter(({kind:e})=>e==="effects")}
function Je(t,e,...n){let o=t.tables[e];if(!o)return NaN;let r=o.values;for(let[s,a]of o.axes.entries())if(r=r[a.indexOf(
n[s])],r==null)return NaN;return r}function gt(t){return t.runs.map(({name:e})=>e).join()==="mean,low,high"?[1,2]:[]}function Qe(t,e,n,o){
let r=e===0?gt(t):[];return r.length&&r.every(s=>t.loaded(s,n))?r.map(s=>t.matrix(s,n,o)):null}function P(t){return t.channels.
size>0}function io(t,e){let n=t.words.length,o=new Float32Array(t.queries.length*n).fill(NaN),r=0;return t.queries.forEach(
(s,a)=>{let i=t.causal?s+1:n;o.set(e.subarray(r,r+i),a*n),r+=i}),o}function Jl(t){let e=new Map,n=0;return(o,r)=>{let s=e.
get(o),a=s||r();s?e.delete(o):n+=a.length,e.set(o,a);for(let[i,{length:l}]of e){if(n<=t||i===o)break;e.delete(i),n-=l}return a}}
function Ze(){let[t,e]=[null,null];return(n,o)=>(n!==t&&([t,e]=[n,o()]),e)}var Ql=2**24;function Ms(t){let e={...t,latestAxes:Ze(),
latestMaps:Ze(),channels:Zl(t)},n=new Map,o=new Map,r=Jl(Ql),s=($,C,N)=>[$,C,N].join(`
`),a=($,C,N)=>{let T=e.channels.get(C),L=e.runs[$].blocks[T.blockName];return N==="values"?L.values[T.name]:L.columns[N]&&
L.columns[N][T.name]},i=($,C)=>C.reference&&V(e,e.channels.get($).blockName,C.reference),l=async($,C,N)=>{let T=a($,C,N),
L=i(C,T),[S]=await Promise.all([xe(T.packed),L&&u($,L,N)]);o.set(s($,C,N),S)},u=($,C,N)=>{let T=s($,C,N);return n.has(T)||
n.set(T,l($,C,N)),n.get(T)},c=($,C,N,T)=>{let L=a($,C,N),S=i(C,L);return so(o.get(s($,C,N)),L,T,S?c($,S,N,T):null)},f=($,C,N,T)=>{
let L=e.layers.indexOf(T);return r([s($,C,N),L].join(`
`),()=>{let S=ao(c($,C,N,L),a($,C,N),L);return N==="values"?io(e,S):S})},h=($,C)=>{let N=e.runs[$].blocks[e.channels.get(
C).blockName];return Promise.all(["values",...Object.keys(N.columns)].map(T=>u($,C,T)))},d=new Map;return Object.assign(
e,{load:h,open:async $=>{d.has($)||d.set($,await xe($.packed))},numbersAt:($,C)=>ao(so(d.get($),$,C,null),$,C),loaded:($,C)=>o.
has(s($,C,"values")),matrix:($,C,N)=>f($,C,"values",N),column:($,C,N,T)=>a($,C,N)?f($,C,N,T):null,block:$=>e.runs[0].blocks[e.
channels.get($).blockName]})}var tc=["others","row","column","none"],ec=["percentile","off-diagonal","all"],nc=["","special","first","special first"],
oc=["","before","after","difference"],rc=["change","share","distance"],sc=/^[\d.]{0,400}$/,ac=/^\d-\d$/,ic=/^\d{1,5}-\d{1,5},\d{1,5}-\d{1,5}$/,
lc=["overview","maps","heads","all","scores","memories","numbers","graph"];function cc(t,e){return Number.isInteger(e)&&
e>=0&&e<t.words.length}function co(t,e){let[n,o]=e.split("-").map(Number);return ac.test(e)&&Math.max(n,o)<t.segments.length&&
(!t.causal||o<=n)}function tn(t){return(e,n)=>Number.isInteger(n)&&n>=t&&n<1e6}var lo={run:(t,e)=>Number.isInteger(e)&&e>=
0&&e<t.runs.length,scope:(t,e)=>t.channels.has(e),layer:(t,e)=>t.layers.includes(e),refRun:(t,e)=>Number.isInteger(e)&&e>=
0&&e<t.runs.length,ref:(t,e)=>e===""||t.channels.has(e),to:(t,e)=>t.queries.includes(e),from:cc,read:(t,e)=>e==="row"||e===
"column",view:(t,e)=>lc.includes(e),heads:(t,e)=>sc.test(e),between:(t,e)=>e===""||co(t,e),block:(t,e)=>e===""||Object.hasOwn(
t.runs[0].blocks,e),cells:(t,e)=>tc.includes(e)&&(e!=="column"||t.queries.length===t.words.length),range:(t,e)=>ec.includes(
e),root:(t,e)=>e===0||e===1,each:(t,e)=>e===0||e===1,words:(t,e)=>e===0||e===1,hide:(t,e)=>nc.includes(e),panel:(t,e)=>oc.
includes(e),zoom:(t,e)=>e===""||ic.test(e),sort:(t,e)=>rc.includes(e),pairs:(t,e)=>e==="all"||e==="token",mass:(t,e)=>Number.
isInteger(e)&&e>=1&&e<=100,find:(t,e)=>typeof e=="string"&&e.length<=60,neuron:tn(-1),node:tn(-1),amount:tn(-1),target:tn(
0),inks:(t,e)=>["share","rank","entropy"].includes(e)};function en(t,e,n,o){return n!==o||!P(t)?e:t.channels.get(e).before||
""}function uc(t){return t.causal?Math.max(...t.queries):t.words.length-1}function fc(t,e){return!e||!Bt(e)?"none":e.cells===
"others"&&uc(t)<2?"row":e.cells}var hc=60;function dc(t){let{scope:e,run:n,refRun:o}=t.start;return P(t)&&en(t,e,n,o)!==
""&&!t.block(e).signed&&t.words.length>=hc?"difference":""}function Cs(t){let{scope:e,layer:n,to:o,from:r,run:s,refRun:a,
view:i}=t.start;return{run:s,scope:e,layer:n,refRun:a,ref:en(t,e,s,a),to:o,from:r,read:"row",view:i,heads:"",between:"",
block:"",cells:fc(t,P(t)&&t.block(e)),range:t.words.length>=te?"percentile":"off-diagonal",root:0,each:0,words:0,hide:"",
panel:dc(t),zoom:"",sort:"change",pairs:"all",mass:100,find:"",neuron:-1,node:-1,amount:-1,target:0,inks:"share"}}function Bt(t){
return!t.signed&&t.whole}function nn(t,{scope:e,ref:n}){return P(t)&&Bt(t.block(e))&&(n===""||Bt(t.block(n)))}function Ns(t,e,n){
let o={...e,...n};return["scope","run","refRun"].some(s=>s in n&&n[s]!==e[s])&&!("ref"in n)&&(e.ref===en(t,e.scope,e.run,
e.refRun)||e.run===e.refRun!=(o.run===o.refRun))&&(o.ref=en(t,o.scope,o.run,o.refRun)),o.ref===o.scope&&o.run===o.refRun&&
(o.ref=""),nn(t,o)||(o.cells="none"),("words"in n||"hide"in n)&&(o.zoom=""),o}function on(t,e){let n=Cs(t),o=Object.keys(
lo).filter(r=>e[r]!==n[r]).map(r=>`${r}=${encodeURIComponent(e[r])}`);return o.length?`#${o.join("&")}`:""}function uo(t,e){
let n=Cs(t),o={...n};for(let r of e.replace(/^#/,"").split("&")){let[s,a]=r.split("=");if(!Object.hasOwn(lo,s)||a===void 0)
continue;let i=typeof n[s]=="number"?Number(vs(a)):vs(a);lo[s](t,i)&&(o[s]=i)}return nn(t,o)||(o.cells="none"),o}function vs(t){
try{return decodeURIComponent(t)}catch{return""}}function Os(t,e,n){let o=new Set;if(n.includes("special"))for(let r of t.
special)o.add(e.columnOf[r]);return n.includes("first")&&o.add(0),o}function rn(t,e){let n=[0,t.nRows-1,0,t.nColumns-1],
o=e.split(/[-,]/).map(Number);if(e===""||o.length!==4)return n;let r=(c,f)=>Math.max(0,Math.min(f,c)),[s,a,i,l]=o,u=[r(s,
n[1]),r(a,n[1]),r(i,n[3]),r(l,n[3])];return u[0]<=u[1]&&u[2]<=u[3]?u:n}function fo([t,e,n,o]){return`${t}-${e},${n}-${o}`}
function ho(t,e){let[n,o,r,s]=rn(t,e.zoom),a=(l,u,c,f)=>{let h=Math.max(4,Math.ceil((u-l+1)/2)),d=Math.max(0,Math.min(c-
Math.floor(h/2),f-h+1));return[d,Math.min(f,d+h-1)]},i=Math.max(0,t.rowOf(e.to));return fo([...a(n,o,i,t.nRows-1),...a(r,
s,t.columnOf[e.from],t.nColumns-1)])}function Ls(t,e,n){let o=e.trim().toLowerCase();if(o==="")return-1;if(/^\d+$/.test(
o)&&Number(o)<t.length)return Number(o);for(let r=1;r<=t.length;r++){let s=(n+r)%t.length;if(t[s].toLowerCase().includes(
o))return s}return-1}function mo(t,e,n,o){let{data:r,axes:s,selection:a,hidden:i}=t,l=g=>a.words?he(s,g,r.words.length):g,u=g=>g&&(a.words?_r(
s,g):g),c=l(r.matrix(e,n,a.layer)),f=Object.keys(r.block(n).columns),h=Object.fromEntries(f.map(g=>[g,u(r.column(e,n,g,a.
layer))]));a.cells==="others"&&(h.own=Dn(s,c,i));let d=Hn(s,c,i,a.cells),m=r.block(n).shares||a.cells;return{role:o,key:n,
run:e,raw:c,columns:h,cells:d,shares:m,asShare:m!=="none",limit:Ot(s,d,a.range,m==="others"||m==="row"),top:E(d),scale:r.
block(n).signed?"signed":"contribution",labels:s.labels(r.runs[e].tokens)}}function mc(t,e,n){let o=Object.keys(n.columns).
filter(s=>s in e.columns),r=Ve(n.cells,e.cells);return{role:"difference",key:n.key,run:n.run,shares:n.shares,asShare:n.asShare,
raw:Ve(n.raw,e.raw),cells:r,limit:Ot(t.axes,r,t.selection.range,n.shares==="others"||n.shares==="row"),top:E(r),columns:Object.
fromEntries(o.map(s=>[s,Ve(n.columns[s],e.columns[s])])),scale:"signed",labels:Ir(e.labels,n.labels)}}var Ht=["run","sco\
pe","layer","refRun","ref","cells","range","each","words","hide"];function pc(t){let{selection:e}=t,n=mo(t,e.run,e.scope,
e.ref?"after":"only");if(!e.ref)return[n];let o=mo(t,e.refRun,e.ref,"before");return o.scale!==n.scale||o.shares!==n.shares?
[o,n]:(e.each||(o.limit=n.limit=Math.max(o.limit,n.limit)),[o,n,mc(t,o,n)])}function gc(t){return["own",...Object.keys(t[0].
columns).filter(n=>n!=="own")].filter(n=>t.some(o=>o.columns[n]&&E(o.columns[n])>0))}function po(t,e){let n=t.latestAxes(
e.words,()=>Fr(t,e.words===1)),o=Os(t,n,e.hide),r={data:t,selection:e,axes:n,hidden:o,window:rn(n,e.zoom)},s=JSON.stringify(
Ht.map(a=>e[a]));return r.maps=P(t)?t.latestMaps(s,()=>pc(r)):[],r.strips=P(t)?gc(r.maps):[],r.row=Math.max(0,n.rowOf(e.
to)),r.column=n.columnOf[e.from],r}function sn(t,e,n){let{data:o,selection:r,axes:s}=t,a=Bt(o.block(n))?r.cells:"none",i={
...t,selection:{...r,layer:e,cells:a},window:rn(s,"")};return{...i,map:mo(i,r.run,n,"only")}}function Lt({maps:t}){return t.
length===2}function wt({maps:t}){return t[t.length>1?1:0]}function z({maps:t,axes:e,data:n,selection:o}){return t.length?
t[t.length-1].labels:e.labels(n.runs[o.run].tokens)}function ct(t,e){let n=z(t);return n.indexOf(n[e])!==n.lastIndexOf(n[e])?
`@${t.axes.columns[e].position}`:""}function ne(t){let e=t.maps.filter(n=>n.role===t.selection.panel);return e.length?e:
t.maps}function oe(t,e){let{axes:n,selection:o,row:r,column:s}=t,a=new Float32Array(n.nColumns).fill(NaN);return o.read===
"row"?a.set(e.cells.subarray(r*n.nColumns,(r+1)*n.nColumns)):n.own.forEach((i,l)=>{a[i]=e.cells[l*n.nColumns+s]}),a}function D(t){
return t.selection.read==="row"?t.axes.own[t.row]:t.column}function go(t){let e=D(t),o=t.maps.filter(r=>r.role!=="differ\
ence").map(r=>E(oe(t,r).map((s,a)=>a===e?NaN:s)));return Lt(t)?o:o.map(()=>Math.max(...o))}function wc(t,e){return{...t,
nRows:1,rows:[t.rows[e]],own:[t.own[e]]}}function Es(t,e,n,o){let{data:r,selection:s,axes:a}=t,i=r.matrix(e,n,o),l=s.read===
"row"&&s.cells!=="column",u=t.row*a.nColumns,c=l?{...t,axes:wc(a,t.row),row:0}:t;return{reduced:c,raw:s.words?he(c.axes,
i,r.words.length):l?i.subarray(u,u+a.nColumns):i}}function an(t,e,n){let{data:o,selection:r,axes:s}=t,a=new Float32Array(
o.layers.length*s.nColumns);return o.layers.forEach((i,l)=>{let{reduced:u,raw:c}=Es(t,e,n,i),f=Hn(u.axes,c,t.hidden,r.cells);
a.set(oe(u,{cells:f}),l*s.nColumns)}),a}function As(t,e,n){return Float32Array.from(t.data.layers,o=>{let{reduced:r,raw:s}=Es(
t,e,n,o);return Dn(r.axes,s,t.hidden)[r.row]})}function wo(t,e){let{data:n,axes:o,selection:r}=t,s=n.layers.map(()=>D(t));
return Ot({...o,nRows:s.length,own:s},e,r.range)}function bc({axes:t,maps:e,row:n,column:o}){return t.own[n]!==o&&!Number.
isNaN(e[e.length-1].cells[n*t.nColumns+o])}function xc({axes:t,maps:e,row:n}){let o=e[e.length-1].cells.subarray(n*t.nColumns,
(n+1)*t.nColumns),r=t.own[n];return o.forEach((s,a)=>{let i=r===t.own[n]?0:Math.abs(o[r]);a!==t.own[n]&&Math.abs(s)>i&&(r=
a)}),t.columns[r].position}function Ss(t,e,n){let o=Ns(t,e,n),r="to"in n&&o.read==="row";if("from"in n||!(r||"hide"in n)||
!P(t)||![[o.run,o.scope],...o.ref?[[o.refRun,o.ref]]:[]].every(([i,l])=>t.loaded(i,l)))return o;let a=po(t,o);return bc(
a)?o:{...o,from:xc(a)}}var yc={others:"share of what comes from other tokens",row:"share of the row's total",column:"share of the column's tota\
l",none:"norm, in units of the residual stream"},kc={"off-diagonal":"the largest value of another token in rows of three\
 or more",percentile:"the 99th percentile of other tokens' values"},$c={ATTN:"attention",RES:"the residual connection",LN:"\
the norm",FF:"the feed-forward block"},bo=48;function ft(t,e=""){let n=_e(t.slice(0,20*bo));return`“${n.length>bo?`${n.
slice(0,bo-1).join("")}…`:t}${e}”`}function nt(t,e,n){return t.role==="difference"||t.scale==="signed"?A(e,n):n?q(e):
R(e)}function rt(t,e){return ft(z(t)[e],ct(t,e))}function $e(t,e){let n=t.channels.get(e);return n.label===n.name?e:`${n.
label} (${n.name})`}function ln(t,e,n){return t.runs[e].tokens.join(" ").replace(/(^| )·/g,"$1").slice(0,n)}function xo(t,e){
return t.runs.length>1?t.runs[e].name:""}function bt(t,e,n){return[xo(t,e),t.channels.get(n).name].filter(Boolean).join(
" · ")}function yo(t,e){return t.maps.map(n=>n.role==="difference"?"difference":Lt(t)?n.key:e(n))}function Dt(t){let{data:e,
maps:n}=t,o=n.filter(({role:s})=>s!=="difference"),r=s=>new Set(o.map(a=>a[s])).size>1;return yo(t,({run:s,key:a})=>r("r\
un")?r("key")?bt(e,s,a):xo(e,s):e.channels.get(a).name)}function ko(t){let{data:e,selection:n}=t;return n.run===n.refRun&&
n.ref!==""&&e.channels.get(n.scope).before===n.ref}function Mt(t,e){let{data:n,selection:o}=t;if(e.role==="difference")return"\
Difference";if(e.role==="only")return bt(n,e.run,e.key);let r=ko(t)&&n.channels.get(o.scope).component,s=e.role==="befor\
e"?"Before":"After";return r?`${s} ${r}: ${n.channels.get(e.key).name}`:bt(n,e.run,e.key)}function Me(t,e){let{data:n,selection:o}=t;
if(e.role==="difference"){let r=[bt(n,o.run,o.scope),bt(n,o.refRun,o.ref)];return`${r[0]} − ${r[1]}`}return n.block(e.
key).signed?n.block(e.key).title:n.channels.get(e.key).label}function Mc(t,e){let n=t.data.block(e.key),o=e.asShare?yc[e.
shares]:n.unit,r=e.scale==="signed"&&e.asShare;return e.role==="difference"||r?`${r&&e.role!=="difference"?"difference":
"change"} of the ${o}${e.asShare?", in percentage points":""}`:o}function $o(t){return t.top>t.limit*1.0001}function Mo({
data:t,selection:e},n){return n.role!=="difference"&&n.scale==="signed"&&n.run===0&&!e.words&&e.cells==="none"&&gt(t).length>
0}function vo(t){return t>1.001?[`1 pixel = ${R(t,2)} tokens, the strongest is shown. Drag to zoom.`]:[]}function Rs(t,e,n){
let{selection:o,strips:r}=t,s=[Mc(t,e)+(o.root?", on a square-root scale.":".")];$o(e)&&s.push(`Colours end at ${kc[o.range]}\
; cells reach ${Y(e.top,e.asShare,e.scale==="signed")}.`),Mo(t,e)&&s.push("Crossed: the 95 % interval contains 0."),t.hidden.
size&&s.push("Hidden tokens are left out of the shares.");let a=r.filter(i=>i!=="own"&&e.columns[i]);for(let i of a)s.push(
`${i}: up to ${Y(E(e.columns[i]),!1)}.`);return[...s,...vo(n)]}function Co(t,e){let n={others:", as a share of the parts\
 of all other tokens",row:", as a share of the parts of all tokens",column:", as a share of all that the column's token \
brings",none:""}[e];return`${t.meaning}${n}`}function vc({data:t,selection:e}){let n=e.cells==="others"?" Grey strip: th\
e token's own share.":"",o=t.block(e.scope);return`A cell: ${Co(o,o.shares||e.cells)}.${n}`}function Cc(t,e){return e>t?
"raises":e<t?"lowers":"leaves"}function zs(t){return t&&t[0].toUpperCase()+t.slice(1)}function re({data:t,selection:e}){
return t.layered?`layer ${e.layer}`:""}function Nc(t){let{data:e,selection:n}=t,o=e.layered||e.channels.size>1?bt(e,n.run,
n.scope):xo(e,n.run);return[re(t),o].filter(Boolean).join(", ")}function Ts(t){let{data:e,selection:n}=t;if(n.run!==n.refRun)
return`${zs([re(t),e.channels.get(n.scope).name].filter(Boolean).join(", "))}: from ${e.runs[n.refRun].name} to ${e.runs[n.
run].name}`;let o=$c[e.channels.get(n.scope).component];return ko(t)&&o?`Layer ${n.layer}: ${o}`:`Layer ${n.layer}: from\
 ${e.channels.get(n.ref).name} to ${e.channels.get(n.scope).name}`}function ve(t,e){return`${t} cannot see ${e}, which c\
omes later.`}function Oc(t,e,n){let{axes:o,row:r,column:s,hidden:a}=t,i=wt(t),l=s===o.own[r]&&!a.has(s)&&i.columns.own;if(l)
return`${q(l[r])} of ${e} is its own; the map shows the rest.`;let u=a.has(s)?`${n} is hidden`:"these maps have no such \
cell";return`There is no ${i.asShare?"share":"number"} here of what ${e} takes from ${n}: ${u}.`}function Lc({maps:t},e,n){
return{others:`the share of ${n} in what ${e} takes from other tokens`,row:`the share of ${n} in all that ${e} takes`,column:`\
the share of ${e} in all that ${n} gives`,none:`what ${e} takes from ${n}`}[t[0].shares]}function Ec(t,[e,n],o,r,s){let a=t.
asShare?Xe(Math.abs(s)):R(Math.abs(s)),i=t.asShare?", as a share of what it takes from other tokens,":"";return s===0?`${o}\
 takes${i} as much from ${r} in ${e} as in ${n}`:`${o} takes${i} ${a} ${s>0?"more":"less"} from ${r} in ${e} than in ${n}`}
function Ac(t,e,n,o){let{data:r,maps:[s]}=t,a=nt(s,o,s.asShare),{sides:i}=r.block(s.key);return i.length?Ec(s,i,e,n,o):r.
layered?{others:`of what ${e} takes from other tokens, ${a} comes from ${n}`,row:`of all that ${e} takes, ${a} comes fro\
m ${n}`,column:`of all that ${n} gives, ${a} goes to ${e}`,none:`${e} takes ${a} from ${n}`}[s.shares]:`${n} brings ${a}\
 to ${e}`}function Sc(t){let{data:e,maps:n,axes:o,row:r,column:s,selection:a}=t,i=r*o.nColumns+s,l=g=>nt(n[g],f[g],n[g].
asShare),[u,c]=[rt(t,o.own[r]),rt(t,s)],f=n.map(g=>g.cells[i]);if(!o.reaches(r,s))return ve(u,c);if(f.some(Number.isNaN))
return Oc(t,u,c);if(n.length===1)return`${zs([Nc(t),Ac(t,u,c,f[0])].filter(Boolean).join(": "))}.`;if(Lt(t)){let g=n.map(
(b,x)=>`${l(x)} (${e.block(b.key).title}, ${e.channels.get(b.key).name})`);return`Layer ${a.layer}, what ${u} takes from\
 ${c}: ${g.join(" and ")}.`}let h=`${l(0)} → ${l(1)}`,d=Lc(t,u,c);return a.run!==a.refRun||!ko(t)?`${Ts(t)}, ${d} goes\
 ${h}.`:`${Ts(t)} ${Cc(f[0],f[1])} ${d}: ${h}.`}function Tc(t){let{axes:e,row:n,column:o,selection:r,window:[s,a,i,l]}=t,
[u,c]=[n>=s&&n<=a,o>=i&&o<=l],[f,h]=[rt(t,e.own[n]),rt(t,o)],d=r.read==="row"?u&&`the row of ${f}`:c&&`the column of ${h}`,
m=u&&c&&e.reaches(n,o)&&`the cell from ${h} to ${f}`,g=[d,m].filter(Boolean);return g.length?`Marked: ${g.join(" and ")}\
.`:""}function qt(t){let{data:e,selection:n,maps:o}=t,r=[n.ref&&bt(e,n.refRun,n.ref),bt(e,n.run,n.scope)],s=o.filter(a=>a.
role!=="difference").map(a=>$e(e,a.key)).join(" and ");return{headline:Sc(t),meaning:vc(t),place:re(t),note:Tc(t),exact:o.
some(a=>e.block(a.key).exact),method:"",shown:`${e.block(n.scope).title}, ${s}`,remark:ne(t).includes(o[2])?`${Mt(t,o[2])}\
: ${Me(t,o[2])}.`:"",file:[re(t).replace(" ",""),r.filter(Boolean).join("-").slice(0,60),n.cells]}}function No(t,{run:e},n){
return t.words.length?`${t.model} reading “${ln(t,e,n)}”`:t.model}function Ws({data:t,selection:e},n){let o=t.certificate&&
n.exact,r=o?"method of Kobayashi et al. (2024)":n.method,a=[["tl_ffblock","transformer_lens","torch"].filter(i=>t.provenance[i]).
map(i=>`${i} ${t.provenance[i]}`).join(", "),r].filter(Boolean).join("; ");return[n.headline,`${No(t,e,300)}${n.place&&`\
, ${n.place}`}: ${n.shown}. ${n.meaning}`.trim(),n.remark,n.note,o?`Sums of parts equal the model's own tensors to ${ye(
t.certificate.error)}.`:"",a&&`${a}.`].filter(Boolean).join(" ")}function js(t){let e=t.certificate;if(!e)return t.statement;
let n=`${e.scope}, layer ${e.layer}, ${ft(t.runs[e.run].tokens[e.query])} at position ${e.query}`;return`${t.block(t.start.
scope).signed?"Both results are exact":"✓ Exact"}: parts and bias sum to the model's own tensors, with a relative erro\
r of at most ${ye(e.error)} (${n}).`}function Oo({data:t,selection:e},n,o){let r=t.runs[e.run].tokens.slice(0,6).join("-").
slice(0,40);return[t.model.slice(0,40),r,...n.file.filter(Boolean)].join("_").replace(/[^A-Za-z0-9._-]+/g,"").replace(/-{2,}/g,
"-")+`.${o}`}function Rc(t,e,n){let{axes:o}=t,r=new Uint8Array(e.cells.length);for(let s=0;s<o.nRows;s++){let a=s*o.nColumns,i=Array.
from({length:o.nColumns},(c,f)=>a+f).filter(c=>!Number.isNaN(e.cells[c]));i.sort((c,f)=>Math.abs(e.cells[f])-Math.abs(e.
cells[c]));let l=i.reduce((c,f)=>c+Math.abs(e.cells[f]),0),u=0;for(let c of i){if(u>=n/100*l)break;r[c]=1,u+=Math.abs(e.
cells[c])}}return r}function Lo(t,e){return Math.abs(t.own[Math.floor(e/t.nColumns)]-e%t.nColumns)}function zc(t,e,n){let{
axes:o,maps:r}=t,s=r[r.length-1];return e==="distance"?Lo(o,n):Math.abs((e==="change"?s:wt(t)).cells[n])}function Wc(t){
let{axes:e,selection:n,row:o,column:r}=t,s=n.find.trim().toLowerCase(),a=z(t).map(i=>s===""||i.toLowerCase().includes(s));
return(i,l)=>(n.pairs==="all"||(n.read==="row"?i===o:l===r))&&(a[l]||a[e.own[i]])}function Fs(t,e){let{axes:n,selection:o,
maps:r}=t,s=o.mass<100?r.filter(d=>d.role!=="difference").map(d=>Rc(t,d,o.mass)):[],a=Wc(t),i=r[r.length-1].cells,[l,u]=[
[],[]];for(let d=0;d<i.length;d++){let[m,g]=[Math.floor(d/n.nColumns),d%n.nColumns];Number.isNaN(i[d])||n.own[m]===g||!a(
m,g)||s.length&&!s.some(b=>b[d])||(l.push(d),u.push(zc(t,o.sort,d)))}let c=ge(Float64Array.from(u),Math.max(0,u.length-e)),
f=l.map((d,m)=>({index:d,size:u[m]})).filter(({size:d})=>!(d<c));return f.sort((d,m)=>m.size-d.size||d.index-m.index),{pairs:f.
slice(0,e).map(({index:d})=>({row:Math.floor(d/n.nColumns),column:d%n.nColumns,index:d})),total:l.length}}function cn(t,e,n){
let o=s=>Array.from(s.keys()).filter(a=>!Number.isNaN(s[a])).sort((a,i)=>Math.abs(s[i])-Math.abs(s[a])||a-i),r=new Map(e?
o(e).map((s,a)=>[s,a]):[]);return o(t).slice(0,n).map((s,a)=>({at:s,rank:a,earlier:r.has(s)?r.get(s):null}))}function Et({data:t},e,n){let o=t.named?t.details[n]:Ft(t,n);return o?`${e} (${o})`:e}function Vt(t,e){return p("tr",{},
[p("th",{textContent:t,scope:"row"}),...e.map(n=>p("td",{textContent:n}))])}function un(t,e){let n=Dt(t).map(o=>p("th",{
textContent:o,scope:"col"}));return p("table",{className:"numbers"},[p("tr",{},[p("td"),...n]),...e])}function Eo(t,{row:e,
column:n}){let o=e*t.axes.nColumns+n,r=[Vt(Lt(t)?"number":t.data.block(t.selection.scope).short,t.maps.map(c=>nt(c,c.raw[o],
t.data.block(c.key).shares!=="")))],s={others:"share of others",row:"share of row",column:"share of column"}[t.selection.
cells],{data:a,selection:i}=t,l=t.maps.length===1&&Qe(a,i.run,i.scope,i.layer);l&&r.push(Vt("95 % interval",[l.map(c=>nt(
t.maps[0],c[o],a.block(i.scope).shares!=="")).join(" to ")]));let u=[i.layer,-1,t.axes.rows[e].position,t.axes.columns[n].
position];for(let c of ke(a)){let f=Je(c,"cell",...u);Number.isNaN(f)||r.push(Vt(`${c.target} ${c.short}`,[A(f,!1)]))}return s&&
r.push(Vt(s,t.maps.map(c=>nt(c,c.cells[o],!0)))),un(t,r)}function jc(t,{row:e,strip:n}){return un(t,[Vt(n,t.maps.map(o=>o.
columns[n]?nt(o,o.columns[n][e],n==="own"):"–"))])}function J(t,e){return p("div",{},[p("span",{className:"tip-label",
textContent:t}),p("bdi",{textContent:e})])}function Fc(t,e){let{axes:n}=t,o=z(t),r=()=>J("to",Et(t,o[n.own[e.row]],n.rows[e.
row].position)),s=()=>J("from",Et(t,o[e.column],n.columns[e.column].position));return e.strip?[r(),jc(t,e)]:e.row===void 0?
[s()]:e.column===void 0?[r()]:n.reaches(e.row,e.column)?[r(),s(),Eo(t,e)]:[r(),s(),p("div",{textContent:"Not reachable: \
this model looks at earlier tokens only."})]}function se(t,e,n){t.style.left=`${Math.max(4,Math.min(e+16,window.innerWidth-
t.offsetWidth-8))}px`;let o=n+18+t.offsetHeight<window.innerHeight;t.style.top=`${Math.max(4,o?n+18:n-t.offsetHeight-12)}\
px`}function Is(t,e,n,o){let r=w("tooltip");r.hidden=!e,!r.hidden&&(r.replaceChildren(...Fc(t,e)),se(r,n,o))}function fn(t,e){let n=p("i",{className:"bar-fill"});return Object.assign(n.style,{width:`${Math.max(.5,100*Math.min(1,t))}\
%`,backgroundColor:e}),p("span",{className:"bar"},[n])}function Ao({palette:t},e,n){return e.scale==="signed"?t[n<0?"los\
s":"gain"]:t.contribution}function Ic(t){let{axes:e,row:n,column:o,data:r}=t,s=z(t),a=e.reaches(n,o);return p("section",
{className:"card"},[p("h3",{},["Cell: ",p("bdi",{textContent:s[o]}),`${ct(t,o)} → `,p("bdi",{textContent:s[e.own[n]]}),
ct(t,e.own[n])]),p("p",{className:"note",textContent:[Pe(r,e.columns[o].position,e.rows[n].position),re(t)].filter(Boolean).
join(", ")}),a&&t.headsBlock?"":a?Eo(t,{row:n,column:o}):p("p",{textContent:"Not reachable: this model looks at earlier \
tokens only."}),..._s(t,"head"),..._s(t,"expert"),...t.strips.length&&r.queries.length&&!t.headsBlock?[p("p",{className:"\
note",textContent:`${ft(s[e.own[n]])} as a row:`}),_c(t)]:[]])}function _c(t){return un(t,t.strips.map(e=>Vt(e,t.maps.map(
n=>n.columns[e]?nt(n,n.columns[e][t.row],e==="own"):"–"))))}function So(t,e){let{data:n,selection:o}=t,r=n.channels.get(
o.scope).name,s=pt(n,e).find(([,a])=>a.of===r);return s&&!o.words?s[1].channels.map(a=>V(n,s[0],a.name)):[]}function _s(t,e){
let{data:n,selection:o,axes:r,row:s,column:a,palette:i}=t,l=So(t,e);if(!l.length||!l.every(h=>n.loaded(o.run,h)))return[];
let u=s*r.nColumns+a,c=l.map(h=>({label:n.channels.get(h).name,value:n.matrix(o.run,h,o.layer)[u]||0})),f=E(c.map(({value:h})=>h));
return c.sort((h,d)=>d.value-h.value),[p("p",{className:"note",textContent:`Through each ${e} (norms; they do not add up\
), ${n.channels.get(o.scope).name}:`}),p("div",{className:"bars"},c.slice(0,6).map(({label:h,value:d})=>p("div",{className:"\
bar-line"},[p("span",{textContent:h}),fn(d/(f||1),i.contribution),p("span",{textContent:R(d)})])))]}function Pc(t){return t.
earlier===null||t.earlier===t.rank?"":t.earlier>t.rank?`↑${t.earlier-t.rank}`:`↓${t.rank-t.earlier}`}var Bc=10;function Hc(t,e){
let{maps:n,axes:o,selection:r}=t,s=Lt(t)?[n[1]]:n.filter(g=>g.role!=="difference"),a=s.map(g=>oe(t,g)),i=a[a.length-1],l=cn(
i,a.length>1?a[0]:null,Bc),u=g=>nt(s[0],g,s[0].asShare),c=E(l.map(({at:g})=>Math.abs(i[g]))),f=s[s.length-1].labels,h=l.
map(g=>{let b=p("button",{type:"button",className:"plain"},[p("bdi",{textContent:f[g.at]}),ct(t,g.at)]),x=o.columns[g.at].
position;return b.addEventListener("click",()=>e(r.read==="row"?{from:x}:{to:x})),p("tr",{},[p("td",{},[b]),p("td",{},[fn(
Math.abs(i[g.at])/(c||1),Ao(t,s[0],i[g.at]))]),p("td",{textContent:a.map(y=>u(y[g.at])).join(" → ")}),p("td",{className:"\
rank",textContent:Pc(g)})])}),d=D(t),m=p("h3",{},[r.read==="row"?"Strongest sources of ":"Strongest destinations of ",p(
"bdi",{textContent:f[d]}),ct(t,d)]);return p("section",{className:"card"},[m,p("table",{className:"profile"},h)])}function Ps(t,e,n){
n.replaceChildren(Ic(t),...t.headsBlock?[]:[Hc(t,e)])}async function Dc(){if(typeof CircuitsVis=="object")return;let t=new TextDecoder().decode(await xe(w("circuitsvis-bundle").
textContent));document.head.append(p("script",{textContent:t}))}var qc=0;function Vc(t,e){let{axes:n,data:o}=t,r=p("div",
{id:`circuitsvis-${qc++}`,className:"circuitsvis"}),s=p("figure",{},[p("figcaption",{textContent:`${Mt(t,e)}: ${Me(t,e)}`}),
r]),a=Array.from({length:n.nRows},(l,u)=>Array.from(e.cells.subarray(u*n.nColumns,(u+1)*n.nColumns),c=>c||0));return[s,()=>CircuitsVis.
render(r.id,CircuitsVis.AttentionPattern,{attention:a,tokens:e.labels,maxValue:e.limit||1,minValue:-(e.limit||1),maskUpperTri:o.
causal,positiveColor:e.scale==="signed"?we.light.gain:we.light.contribution,negativeColor:we.light.loss})]}async function Kc(t,e){
e.replaceChildren(p("p",{className:"note",textContent:"CircuitsVis draws…"})),await Dc();let n=ne(t).map(o=>Vc(t,o));e.
replaceChildren(...n.map(([o])=>o));for(let[,o]of n)o();e.dataset.drawn="true"}function Bs(t,e){if(delete e.dataset.drawn,
w("circuitsvis-bundle")===null||t.selection.view!=="maps"){e.replaceChildren();return}let n=p("button",{type:"button",textContent:"\
Draw with CircuitsVis"});n.addEventListener("click",()=>Kc(t,e)),e.replaceChildren(n)}function Ce(t){let{data:e,selection:n}=t;return e.runs[n.run].blocks[t.headsBlock||e.channels.get(n.scope).blockName].tracks}
var Uc=.05;function Ne(t){let e=t.map(o=>Object.entries(o.values).filter(([r])=>r!=="residual").flatMap(([,r])=>r).filter(
r=>r!==null)),n=E(e.filter((o,r)=>!t[r].stretched).flat());return t.map((o,r)=>o.stretched?[ge([...e[r]],Math.floor(Uc*(e[r].
length-1))),E(e[r])]:[0,n])}function ae(t){if(!t.stretched)return"";let[[e,n]]=Ne([t]);return`${q(e,2)} to ${q(n,2)}`}function ie(t){
return t===null?"undefined":t.toFixed(3)}function Hs(t){let{data:e,selection:n}=t,o=e.layers.indexOf(n.layer);return Ce(
t).filter(r=>r.cumulative).map(r=>{let s=r.columns.map(({label:a,channel:i})=>`${a} ${ie(r.values[i][o])}`);return`Laye\
r ${n.layer} ${r.title}: ${s.join(" → ")}`}).join(" ")}function Oe(t,e){return Object.entries(t.runs[e].blocks).filter(([,n])=>n.kind==="logit")}function K(t,e){let n=Oe(t,e.run),
[,o]=n.find(([r])=>r===e.block)||n[0]||[null,null];return o}function Le(t,e){let[n]=Oe(t,0).find(([,o])=>o.position===e)||
[];return n?{block:n,to:e-1,read:"row"}:null}function At({axes:t,hidden:e},n){return Float32Array.from(t.columns,({members:o},r)=>e.
has(r)?NaN:o.reduce((s,a)=>s+(n[a]??NaN),0))}function To(t,e){return e<t.residual.length-1?String(e):"end"}function Ds(t,e){
let n=t.runs.flatMap(({blocks:o})=>Object.entries(o)).find(([,o])=>o===e)[0];return t.runs.map(({blocks:o})=>o[n])}function Vs(t){
return t.biases.some(([,,e])=>e!==0)}function Ks(t){return t?Math.max(0,...t.flat().map(E)):0}function Ro(t){let e=K(t.data,
t.selection),n=e.residual.map(c=>At(t,c)),{nColumns:o}=t.axes,r=new Float32Array(n.length*o);n.forEach((c,f)=>r.set(c,f*
o));let s=n.map(()=>-1),a=Ds(t.data,e).map(({residual:c})=>Ot({nRows:n.length,nColumns:o,own:s},Float32Array.from(c.flatMap(
f=>Array.from(At(t,f)))),t.selection.range)),i=e.ends?e.ends.map(c=>c.map(f=>At(t,f))):null,l=Math.max(...a,Ks(i)),u=e.heads?
Math.max(...Ds(t.data,e).map(({heads:c})=>E(c.map(E)))):0;return{block:e,rows:n,cells:r,limit:l,top:E(r),scale:"signed",
before:null,ends:i,neurons:e.neurons,unit:St(e),layers:n.map((c,f)=>f<n.length-1?f:null),names:n.map((c,f)=>To(e,f)),strip:Vs(
e)?{name:"biases",scale:"signed",limit:l,values:Float32Array.from(n,(c,f)=>Zc(e,f))}:null,heads:e.heads?{values:e.heads,
names:e.heads[0].map((c,f)=>String(f)),least:0,limit:u,scale:"signed",words:`heads, ±${Y(u,!1)}`}:null}}function Us({data:t,
selection:e}){let n=t.channels.get(e.scope),o=pt(t,"head"),r=o.find(([c,f])=>f.of===n.name||c===n.blockName)||o[0],s=r&&
t.runs[e.run].blocks[r[0]].tracks[0];if(!s)return null;let a=s.columns.filter(({channel:c})=>c!=="residual"),i=t.layers.
map((c,f)=>a.map(({channel:h})=>s.values[h][f]??NaN)),[[l,u]]=Ne([s]);return{values:i,least:l,limit:u,scale:"contributio\
n",names:a.map(({label:c})=>c.replace(/^head /,"")),words:`heads: ${s.title}${ae(s)&&`, ${ae(s)}`}`}}function Gs(t){let{
data:e,selection:n,axes:o,maps:r}=t,s=wt(t),a=an(t,n.run,n.scope),i=r.length===3?an(t,n.refRun,n.ref):null,l=i?[]:gt(e).
filter(f=>n.run===0&&e.loaded(f,n.scope)).map(f=>an(t,f,n.scope)),u=f=>e.layers.map((h,d)=>f.subarray(d*o.nColumns,(d+1)*
o.nColumns)),c=n.read==="row"&&s.columns.own;return{block:null,rows:u(a),cells:a,before:i&&u(i),ends:l.length===2?l.map(
u):null,scale:s.scale,asShare:s.asShare,limit:Math.max(wo(t,a),i?wo(t,i):0,Ks(l.map(f=>[f]))),top:Math.max(E(a),i?E(i):0),
layers:e.layers,names:e.layers.map(String),neurons:[],unit:"",heads:Us(t),strip:c?{name:"own",scale:"bias",limit:1,values:As(
t,n.run,n.scope)}:null}}function Ys(t){let e=K(t.data,t.selection);if(e)return{strip:Vs(e),heads:e.heads?e.heads[0].length:
0,neurons:e.neurons.length>0};let n=Us(t);return{strip:t.selection.read==="row"&&!!wt(t).columns.own,heads:n?n.names.length:
0,neurons:!1}}function zo(t,e){let{axes:n,selection:o}=t,r=K(t.data,o);if(r)return r.position!==void 0&&n.columns[e].position>=
r.position;if(o.read==="row")return!n.reaches(t.row,e);let s=n.own.indexOf(e);return s>=0&&!n.reaches(s,t.column)}function Xs(t){
return K(t.data,t.selection)?Ro(t):Gs(t)}function Zs({data:t,selection:e}){if(e.run!==e.refRun)return`What differs in “${t.
runs[e.run].name}” from “${t.runs[e.refRun].name}”?`;let{component:n,before:o}=t.channels.get(e.scope),{sides:r}=t.
block(e.scope);if(r.length)return`What does a token take more of in ${r[0]} than in ${r[1]}?`;let s={FF:"feed-forward",ATTN:"\
attention",RES:"residual connection",LN:"norm"}[n];return s&&e.ref&&e.ref===o?`What does each layer's ${s} change?`:"Whe\
re does each layer take from?"}var Gc={others:"the length of that vector, as a share of the lengths from all other token\
s",row:"the length of that vector, as a share of the lengths from all tokens",column:"the length of that vector, as a sh\
are of the lengths of all that its source gives",none:"the length of that vector"},Yc={others:"as a share of what comes \
from all other tokens",row:"as a share of what comes from all tokens",column:"as a share of all that its source gives",none:""};
function Wo(t,e=!0){let{data:n,selection:o}=t,r=qt(t),s=rt(t,D(t)),a=n.block(o.scope),{shares:i}=wt(t),u=!a.signed&&["no\
rm","share"].includes(a.short)?Gc[i]:Yc[i]||a.unit,c=a.axis!=="scope"?` through ${n.channels.get(o.scope).name}`:"",f=o.
read==="row"?`${s} takes from each token`:`each token takes from ${s}`,h=t.maps.length===3,d=o.run===o.refRun?"before":`\
in “${n.runs[o.refRun].name}”, the underline`,m=h?e?` Orange: more than ${d}; violet: less.`:" Zoom in for the chang\
e.":gt(n).length&&e?" Lines: 95 % intervals; hollow: the interval contains 0.":"";return{...r,meaning:`${e?"Bands":"Cell\
s"}: what ${f}${c}: ${u}.${m}`,file:["layers",...r.file.slice(1)]}}function Xc(t){let{rows:e,before:n,names:o}=Gs(t),r=z(
t),s=function*(){for(let[a,i]of e.entries())for(let[l,u]of i.entries())Number.isNaN(u)||(yield[o[a],t.axes.columns[l].position,
r[l],...n?[n[a][l]]:[],u])};return{head:["layer","position","token",...n?["before"]:[],"share"],lines:s,count:e.length*r.
length}}function Zc(t,e){return t.biases.reduce((n,[,o,r])=>o===e?n+r:n,0)}function Jc(t,e){let n=t.residual[e].reduce((r,s)=>r+
s,0),o=t.biases.reduce((r,[,s,a])=>s>=e?r+a:r,0);return{flowing:n,later:o,both:n+o}}function St(t){return t.unit?` ${t.unit}`:
""}function jo(t){return`${t.target} = ${R(t.value,4)}${St(t)}`}function Fo(t){return`${R(t.value,4)} = ${t.sums.map(([e,
n])=>`${e} ${A(n,!1,4)}`).join(" · ")}`}function Qc(t,e){return t.residual[e].every(n=>n===0)&&t.value!==0}function Ee(t){
let{data:e,selection:n}=t,o=K(e,n),r=D(t),s=rt(t,r);if(Qc(o,n.layer))return`At the input of layer ${n.layer} nothing of \
it flows: the target is read before.`;let a=At(t,o.residual[n.layer])[r];return Number.isNaN(a)?`${s} is hidden.`:`At th\
e input of layer ${n.layer}, ${A(a,!1)}${St(o)} of it flow through ${s}.`}function qs(t){return t.sums.some(([e])=>e==="\
nonlinear")?"its first-order form":"it"}function Js(t,e){let{flowing:n,later:o,both:r}=Jc(t,e);if(t.ends)return`At the i\
nput of layer ${e}: through these positions together ${A(n,!1)}; the rest flows through others or enters later.`;let s=`\
At the input of layer ${e}: through all tokens ${A(n,!1,4)}, from what enters later (biases) ${A(o,!1,4)}`;return t.complete?
`${s}, together ${R(r,4)}${qs(t)==="it"?"":`, ${qs(t)}`}.`:`${s}; these rules do not sum to the target.`}function Qs(t,e,n){
let o=At(t,K(t.data,t.selection).residual[e]);return cn(o,null,n).map(({at:r})=>({column:r,share:o[r]})).filter(({share:r})=>r!==
0)}function Io(t,e){let n=e.heads.split(".").filter(Boolean);return n.length===1&&Number(n[0])<t?Number(n[0]):-1}function _o(t,e){
return t.heads?Io(t.heads[0].length,e):-1}var tu=14,eu=.05;function ta({axes:t,hidden:e},n,o){return Object.entries(n.edges).
flatMap(([a,i])=>{let[l,u]=a.split(",").map(Number);return i.map(([c,f,h])=>({layer:l,head:u,query:c,key:f,share:h,from:t.
columnOf[f],to:t.columnOf[c]}))}).filter(({from:a,to:i,share:l})=>a!==i&&!e.has(a)&&!e.has(i)&&Math.abs(l)>=eu*o).sort((a,i)=>Math.
abs(i.share)-Math.abs(a.share)).slice(0,tu)}function Po(t,e){return t.heads?t.heads[e].map((n,o)=>({head:o,share:n})).sort(
(n,o)=>Math.abs(o.share)-Math.abs(n.share)):[]}function Bo(t,e){let n=K(t,e),o=n&&t.runs[e.run].blocks[n.maps];if(!o)return null;
let{name:r}=t.channels.get(e.scope),s=o.channels.find(a=>a.name===r)||o.channels[o.channels.length-1];return V(t,n.maps,
s.name)}function ea(t,e){let n=Bo(t,e),{name:o}=t.channels.get(n);return{view:"maps",scope:n,ref:t.channels.has(o)&&!t.block(
o).signed?o:""}}var nu="Orange speaks for it, violet against.";function Ho(t,e){let n=K(t.data,t.selection),{limit:o,top:r}=Ro(
t),s=[`Colours end at ±${Y(o,!1)}${St(n)}${r>o*1.0001?` (99th percentile; cells reach ${Y(r,!1)})`:""}.`];return t.selection.
root&&s.push("Square-root scale."),n.ends&&s.push("Lines: 95 % intervals; hollow: the interval contains 0."),n.heads&&s.
push(`Heads, summed over ${n.ends?"these":"all"} positions, on a scale of their own: ±${Y(E(n.heads.map(E)),!1)}; later\
 layers read earlier ones, so heads overlap, and their sum is not that of the tokens.`),t.hidden.size&&s.push("Hidden to\
kens are left out of the picture, not of the sums."),[nu,...s,...vo(e),n.certificate].join(" ")}function na(t,e=!0){let{
data:n,selection:o}=t,r=K(n,o);return r?{headline:`${jo(r)}. ${Ee(t)}`,meaning:`${e?"Width and colour":"Colour"}: how mu\
ch of the answer flows there.${Object.keys(r.edges).length?" Arcs: heads that carry it on.":""}${r.ends&&e?" Lines: 95 %\
 intervals; hollow: the interval contains 0.":""}`,place:`layer ${o.layer}`,shown:`shares of the ${r.target}, rules “${r.
rules}”`,remark:`${Fo(r)}.`,note:Ho(t,1),exact:!1,method:r.method,file:[`layer${o.layer}`,`to-${r.target}`.slice(0,60)]}:
Wo(t,e)}function oa(t){let e=K(t.data,t.selection);if(!e)return Xc(t);let n=z(t),{rows:o}=Ro(t),r=function*(a,i,l){for(let[
u,c]of l.entries())Number.isNaN(c)||(yield[a,i,t.axes.columns[u].position,n[u],c])};return{head:["part","layer","positio\
n","name","share"],lines:function*(){yield*r("token","",At(t,e.entering));for(let[a,i]of o.entries())yield*r("residual s\
tream",To(e,a),i);for(let[a,i]of(e.heads||[]).entries())for(let[l,u]of i.entries())yield["head",String(a),"",`head ${l}`,
u];for(let[a,i,l]of e.biases)yield["bias",i<0?"":To(e,i),"",a,l]},count:(o.length+1)*n.length}}function X(t,e,n=""){return p("option",{value:t,textContent:e,title:n})}function ra(t){let e=pt(t).map(([n,o])=>{let r=o.
channels.map(s=>{let a=V(t,n,s.name);return X(a,$e(t,a))});return[o.title,r]});return e.length===1?e[0][1]:e.map(([n,o])=>p(
"optgroup",{label:n},o))}var ou={others:"share of the others",row:"share of row",column:"share of column",none:"norm"},Do={
percentile:"99th percentile","off-diagonal":"largest of another token",all:"largest of all"};function sa(t){w("scope").replaceChildren(
...ra(t)),w("ref").replaceChildren(X("","nothing"),...ra(t));for(let e of["run","ref-run"])w(e).replaceChildren(...t.runs.
map((n,o)=>X(o,n.name)));w("layer").replaceChildren(...t.layers.map(e=>X(e,e))),w("cells").replaceChildren(...Object.entries(
ou).map(([e,n])=>X(e,n))),w("range").replaceChildren(...Object.entries(Do).map(([e,n])=>X(e,n))),w("words-label").hidden=
_n(t.words).length===t.words.length,w("hide-special-label").hidden=t.special.length===0}var aa={scope:["scope"],ref:["re\
f"],run:["run",Number],"ref-run":["refRun",Number],layer:["layer",Number],cells:["cells"],range:["range"],sort:["sort"],
pairs:["pairs"],mass:["mass",Number]},ia={root:"root",each:"each",words:"words"};function la(){if(!w("colours").open)return;
let t=w("colours").querySelector(".menu");t.style.marginLeft="";let e=t.getBoundingClientRect().right-document.documentElement.
clientWidth+8;e>0&&(t.style.marginLeft=`${-e}px`)}function ru(){return[w("hide-special").checked&&"special",w("hide-firs\
t").checked&&"first"].filter(Boolean).join(" ")}function ca(t){for(let[e,[n,o=String]]of Object.entries(aa))w(e).addEventListener(
"change",()=>t.go({[n]:o(w(e).value)}));for(let[e,n]of Object.entries(ia))w(e).addEventListener("change",()=>t.go({[n]:w(
e).checked?1:0}));for(let e of["hide-special","hide-first"])w(e).addEventListener("change",()=>t.go({hide:ru()}));w("col\
ours").addEventListener("toggle",la),w("read").addEventListener("click",()=>t.go({read:t.selection.read==="row"?"column":
"row"})),w("closer").addEventListener("click",()=>t.go({zoom:ho(t.scene.axes,t.selection)})),w("whole").addEventListener(
"click",()=>t.go({zoom:""})),w("find").addEventListener("input",()=>t.go({find:w("find").value.slice(0,60)})),su(t),w("h\
elp-mode").addEventListener("click",()=>{w("help").hidden=!w("help").hidden,w("help-mode").setAttribute("aria-expanded",
String(!w("help").hidden)),t.resized()})}function su(t){let e=w("search");e.addEventListener("input",()=>{let{look:n}=t.
view();w("search-note").textContent=n?n(t.scene,e.value):""}),e.addEventListener("keydown",n=>{if(n.key!=="Enter")return;
n.preventDefault();let{find:o}=t.view(),r=o&&o(t.scene,e.value);if(r&&t.go(r),o)return;let{data:s,selection:a}=t,i=Ls(s.
runs[a.run].tokens,e.value,a.read==="row"?a.to:a.from);w("search-note").textContent=i<0?"not there":`position ${i}`,!(i<
0)&&t.go(s.queries.includes(i)&&a.read==="row"?{to:i}:{from:i,read:"column"})})}function au({read:t,to:e,from:n}){let o=w(
"search"),r=String(t==="row"?e:n);document.activeElement!==o&&o.dataset.read!==r&&(o.value=w("search-note").textContent=
""),o.dataset.read=r}function iu(t,e){w(t).setAttribute("aria-pressed",String(!!e))}var lu={"scope-group":["scope",({data:t})=>t.
channels.size>1],"run-group":["run",({data:t})=>t.runs.length>1],"ref-group":["ref",({data:t})=>t.channels.size>1||t.runs.
length>1],"ref-run-group":["refRun",({data:t,selection:e})=>t.runs.length>1&&!gt(t).length&&!(e.view==="overview"&&K(t,e))],
"layer-group":["layer",({data:t})=>t.layered],"cells-group":["cells",({data:t,selection:e})=>!t.block(e.scope).signed],"\
range-label":["range"],"root-label":["root"],"each-label":["each",({maps:t})=>t.length>2],"zoom-group":["zoom",({data:t,
selection:e})=>t.words.length>=te||e.zoom!==""]};function cu(t,e){for(let[n,[o,r=()=>!0]]of Object.entries(lu))w(n).hidden=
!e.includes(o)||!r(t)}function uu({selection:t},e){let[n,o]=["off-diagonal","all"].map(r=>w("range").querySelector(`[val\
ue=${r}]`));G(n,e?Do.all:Do["off-diagonal"]),n.hidden=e&&t.range==="all",o.hidden=e&&t.range!=="all"}function fu({maps:t,
selection:e}){let[n,o]=["change","share"].map(r=>w("sort").querySelector(`[value=${r}]`));n.hidden=t.length===1,n.hidden&&
e.sort==="change"&&(w("sort").value=o.value)}function hu({data:t,selection:e}){let n=nn(t,e),o=t.queries.length<t.words.
length,r=n?"":"Shares need all that a row takes from, of each prompt alone; this page has named positions or means. Choo\
se maps of shares, where the page has them.";for(let s of w("cells").options)s.disabled=s.value!=="none"&&(!n||s.value===
"column"&&o),s.title=s.value==="none"?"":r||(s.value==="column"&&o?"needs every row; this result holds some only":"");w(
"cells").title=r,G(w("cells").querySelector("[value=none]"),t.block(e.scope).short)}function ua(t,{controls:e,withoutOwn:n=!1}){
w("colours").hidden=e.length===0;let{data:o,selection:r}=t;for(let[s,[a]]of Object.entries(aa))w(s).value=String(r[a]);for(let[
s,a]of Object.entries(ia))w(s).checked=r[a]===1;w("hide-special").checked=r.hide.includes("special"),w("hide-first").checked=
r.hide.includes("first"),iu("read",r.read==="column"),w("whole").hidden=r.zoom==="",cu(t,e),uu(t,n),P(o)&&(fu(t),hu(t)),
la(),au(r),document.activeElement!==w("find")&&(w("find").value=r.find)}var du=[["arrows","read cells of a map; in the o\
verview another layer or token"],["Enter","selects the cell"],["Alt + arrows","another layer, another row"],["[ and ]","\
the step before, the step after"],["/","find a token or a position"],["z, Esc","zoom in, back out"],["drag","zooms into \
a part of a map"],["Shift + click","on a token: the other end of the cell; on a head: this one alone"],["f","files, link\
, caption"],["Back","undoes; the address holds what is selected"]];function fa(){w("help").replaceChildren(p("dl",{},du.
flatMap(([t,e])=>[p("dt",{textContent:t}),p("dd",{textContent:e})])))}function ha(t){document.addEventListener("keydown",
e=>{if(e.target.closest("input, select, textarea")||e.ctrlKey||e.metaKey)return;let{data:n,selection:o,scene:r}=t,s=P(n)?
[...n.channels.values()].filter(({blockName:u})=>u===n.channels.get(o.scope).blockName).map(({key:u})=>u):[],a=s.indexOf(
o.scope),i=n.layers.indexOf(o.layer),l={"[":()=>a>0&&t.go({scope:s[a-1]}),"]":()=>a<s.length-1&&t.go({scope:s[a+1]}),ArrowUp:()=>i>
0&&t.go({layer:n.layers[i-1]}),ArrowDown:()=>i<n.layers.length-1&&t.go({layer:n.layers[i+1]}),ArrowLeft:()=>r.row>0&&t.go(
{to:r.axes.rows[r.row-1].position}),ArrowRight:()=>r.row<r.axes.nRows-1&&t.go({to:r.axes.rows[r.row+1].position}),z:()=>t.
go({zoom:ho(r.axes,o)}),f:()=>w("figure-mode").click(),"?":()=>w("help-mode").click(),"/":()=>w("search").focus(),Escape:()=>t.
go(o.zoom?{zoom:""}:o.panel?{panel:""}:o.heads?{heads:""}:o.node>=0?{node:-1}:{})};e.key.startsWith("Arrow")&&!e.altKey||
e.key in l&&(e.preventDefault(),l[e.key]())})}function da(t){let e=String(t);return`"${(/^[=+\-@\t\r]/.test(e)?`'${e}`:e).replaceAll('"','""')}"`}function mu(t){return Number.
isInteger(t)?String(t):Number.isFinite(t)?String(Number(t.toPrecision(5))):""}var pu=2**16;function gu(){let t=new Map;return e=>{
let n=t.get(e);if(n!==void 0)return n;t.size>=pu&&t.clear();let o=typeof e=="number"?mu(e):da(e);return t.set(e,o),o}}function ma({
head:t,lines:e}){let n=gu(),o=[t.map(da).join(",")];for(let r of e())o.push(r.map(n).join(","));return o.push(""),o.join(
`
`)}var Ae=["query","query_token","key","key_token"];function qo({axes:t},e,n,o){return[t.rows[n].position,e[t.own[n]],t.
columns[o].position,e[o]]}function*Vo({axes:t}){for(let e=0;e<t.nRows;e++)for(let n=0;n<t.nColumns;n++)t.reaches(e,n)&&(yield[
e,n,e*t.nColumns+n])}function*wu(t){let{axes:e,maps:n,selection:o,strips:r}=t,s=o.cells!=="none",a=z(t);for(let[i,l,u]of Vo(
t)){let c=s?n.map(f=>f.cells[u]):[];yield[o.layer,"token",...qo(t,a,i,l),...n.map(f=>f.raw[u]),...c]}for(let i of r.filter(
l=>l!=="own"))for(let l=0;l<e.nRows;l++){let u=n.map(c=>c.columns[i]?c.columns[i][l]:NaN);yield[o.layer,i,e.rows[l].position,
a[e.own[l]],"","",...u,...s?n.map(()=>NaN):[]]}}function bu(t,e,n){let o={others:"share_of_others",row:"share_of_row",column:"\
share_of_column"}[n];return e.role==="difference"?`difference_of_${o}`:e.scale==="signed"?`${t}_difference_of_${o}`:`${t}\
_${o}`}function hn(t){let{data:e,axes:n,maps:o,selection:r}=t,s=yo(t,({run:u,key:c})=>bt(e,u,c)),a=(u,c,f)=>f==="none"?u:
bu(u,o[c],f),i=s.map((u,c)=>a(u,c,e.block(o[c].key).shares||"none"));return{head:["layer","part",...Ae,...i,...r.cells===
"none"?[]:s.map((u,c)=>a(u,c,r.cells))],lines:()=>wu(t),count:n.nRows*n.nColumns}}function ut(t,e,n,o,r=p("canvas")){let[s,a,i,l]=t.window,u=Math.max(1,Math.min(l-i+1,Math.floor(n))),c=Math.max(1,Math.min(
a-s+1,Math.floor(o)));(r.width!==u||r.height!==c)&&Object.assign(r,{width:u,height:c});let f=Xr(t.cells,t.nColumns,t.window,
u,c),h=r.getContext("2d"),d=h.createImageData(u,c),m=new Uint32Array(d.data.buffer),g=t.scale==="signed";for(let b=0;b<f.
length;b++){let x=f[b],y=e.shades[g?x<0?"loss":"gain":t.scale];m[b]=Number.isNaN(x)?e.outside:y[Math.round(_t(x,t.limit,
t.root)*$t)]}return h.putImageData(d,0,0),r}function vt(t,e,n,o,r){return Object.assign(t.style,{position:"absolute",left:`${e}\
px`,top:`${n}px`,width:`${o}px`,height:`${r}px`}),t}var dn=document.createElement("canvas");dn.getContext("2d",{willReadFrequently:!0});
var Ko=4096,Uo=4;function xu(t,e){let n=Math.max(1,Math.ceil(Uo*e/t.width)),o=p("canvas",{width:t.width*n,height:t.height*
n}),r=o.getContext("2d");return r.imageSmoothingEnabled=!1,r.drawImage(t,0,0,o.width,o.height),o}function yu({picture:{window:[
t,e,n,o]}}){return(e-t+1)*(o-n+1)}function pa(t){return t.reduce((n,o)=>n+yu(o),0)>4*Ko?Ko/8:Ko}function ku({picture:t,x:e,
y:n,width:o,height:r},s){let a=ut(t,s,Uo*o,Uo*r,dn),i=a.width<=o&&a.height<=r,l=(i?xu(a,o):a).toDataURL("image/png");return k(
"image",{x:e,y:n,width:o,height:r,href:l,preserveAspectRatio:"none",...i?{"image-rendering":"pixelated"}:{}})}function ga(t,e,n){
let{picture:o,x:r,y:s,width:a,height:i}=t,[l,u,c,f]=o.window,[h,d]=[u-l+1,f-c+1];if(h*d>n)return[ku(t,e)];let[m,g]=[a/d,
i/h];return Array.from({length:h*d},(b,x)=>{let[y,v]=[Math.floor(x/d),x%d],$=o.cells[(l+y)*o.nColumns+c+v],C=Number.isNaN(
$)?e.out:tt(e,$,o.limit,o.scale,o.root).hex;return W(r+v*m,s+y*g,m,g,C)})}var _={size:12,smallest:9.5,index:10,row:88,column:84,axis:18,spacing:11},Te=1.12,Ct=44,H={gap:6,width:13},Se=20,wa=250,
xt={largest:52,comfortable:12,enough:230,across:1e3,around:230};function Ut(t){return 12+Math.ceil(F(String(t.data.words.
length-1),_.index))}function Go(t,e){return e.labels.slice(t.window[2],t.window[3]+1)}function Kt(t){return Math.min(t>36?
14:_.size,Math.max(_.smallest,t))}function mn(t,e,n,o=_.size){let r=e.reduce((s,a)=>Math.max(s,F(a.slice(0,60),o)),0);return Math.
ceil(Math.min(n,Te*r))+Ut(t)}function ba(t,e,n,o,r){let s=r/n>o+300;return Array.from({length:e},(a,i)=>_.axis+(s||i%n===
0?o:Ut(t)))}function xa(t,e,n,o){let r=n.slice(0,e).reduce((s,a)=>s+a+o,0);return(t-r-Se*(e-1))/e}function $u(t,e,n,o,r){
let s=Math.min(xt.comfortable*(t.window[3]-t.window[2]+1),xt.enough);for(let a=e;a>1;a--){let i=ba(t,e,a,o,n);if(a*(wa+Se)-
Se<=n&&xa(n,a,i,r)>=s)return a}return 1}function Mu(t,e){let[n,o]=[t.window[1]-t.window[0]+1,t.window[3]-t.window[2]+1],
r=t.room||t.windowRoom,s=r?(r-xt.around)/n:xt.largest,a=Math.max(40/o,Math.min(xt.largest,s,xt.across/o,e/o)),i=a>=6?Math.
floor(a):a;return{width:i,height:Math.max(Math.min(i,xt.across/n),Math.min(22,i,o*i/n))}}function ya(t,e){let n=ne(t),o=Kt(
xt.across/(t.window[1]-t.window[0]+1)),r=Math.max(...n.map(x=>mn(t,x.labels,Math.min(_.row,e/4),o))),s=t.strips.length*(H.
gap+H.width)+8,a=t.inLine?n.length:$u(t,n.length,e,r,s),i=ba(t,n.length,a,r,e),l=Mu(t,xa(e,a,i,s)),u=Ct+_.axis+Math.max(
...n.map(x=>mn(t,Go(t,x),_.column,Kt(l.width)))),[c,f,h,d]=t.window,[m,g]=[l.width*(d-h+1),l.height*(f-c+1)],b=n.map((x,y)=>({
map:x,cell:l,top:u,across:m,down:g,left:i[y],fullLabels:i[y]>_.axis+Ut(t),width:Math.min(e,Math.max(i[y]+m+s,a>1&&t.inLine?
0:wa))}));return vu(t,b,a)}function vu(t,e,n){let[o,r,s]=[0,0,0];for(let a=0;a<e.length;a+=n){let i=e.slice(a,a+n);for(let u of i){
let c=1/(u.cell.width*(t.ratio||1));u.notes=Rs(t,u.map,c).flatMap(f=>He(f,11,u.width-u.left))}let l=i[0].top+i[0].down+44+
14*Math.max(...i.map(u=>u.notes.length));o=0;for(let u of i)Object.assign(u,{x:o,y:r,height:l}),o+=u.width+Se;s=Math.max(
s,o-Se),r+=l+12}return{frames:e,width:Math.ceil(s),height:Math.ceil(r)}}function Tt(t){return Math.max(1,Math.ceil(_.spacing/t))}function Gt(t,e,n){return t===n||t%e===0&&Math.abs(t-n)>=e}function $a(t,e,n,o){
let r="font-weight"in n?Te:1,s=F(t,r*e)>o?Math.min(e,_.size):e;return{words:B(t,r*s,o),style:{"font-size":s,...n}}}function Cu(t,e,n,o){
let{axes:r,data:s,palette:a,window:[i]}=t,l=Kt(e.cell.height),u=e.top+(n-i+.5)*e.cell.height+l*.35,c=e.fullLabels?Jt(s,r.
rows[n].position):r.rows[n].position,f=O(c,e.left-5,u,{"text-anchor":"end","font-size":_.index,fill:a.grey});if(!e.fullLabels)
return k("g",{},[f]);let h=e.left-Ut(t)-_.axis,{words:d,style:m}=$a(e.map.labels[r.own[n]],l,o,Math.max(20,h));return k(
"g",{},[f,O(d,e.left-Ut(t),u,{"text-anchor":"end",fill:a.ink,...m})])}function Nu(t,e,n,o){let{axes:r,data:s,palette:a,window:[
,,i]}=t,l=Kt(e.cell.width),u=e.left+(n-i+.5)*e.cell.width+l*.35,{words:c,style:f}=$a(e.map.labels[n],l,o,_.column);return k(
"g",{},[mt(Jt(s,r.columns[n].position),u,e.top-5,{"font-size":_.index,fill:a.grey}),mt(c,u,e.top-Ut(t),{fill:a.ink,...f})])}
function Ma(t,e,n,o){let r=Tt(n);return Array.from({length:Math.floor((e-t)/r)+1},(s,a)=>({index:t+a*r,node:o(t+a*r,{})}))}
function va(t,e,[n,o],r,s){let a=e>=n&&e<=o;for(let{index:i,node:l}of t)!a||Math.abs(i-e)>=Tt(r)?l.removeAttribute("visi\
bility"):l.setAttribute("visibility","hidden");return a?[s(e,{"font-weight":700})]:[]}function pn(t,e){let[,,n,o]=t.window,
r=(a,i)=>Nu(t,e,a,i),s=Ma(n,o,e.cell.width,r);return{nodes:s.map(({node:a})=>a),mark:a=>va(s,a,[n,o],e.cell.width,r)}}function Ou(t,e){
let[n,o]=t.window,r=(a,i)=>Cu(t,e,a,i),s=Ma(n,o,e.cell.height,r);return{nodes:s.map(({node:a})=>a),mark:a=>va(s,a,[n,o],
e.cell.height,r)}}function Lu(t,e){let n=e.down<150?"← to":"← to (destination, query)";return mt(n,11,e.top+e.down/2,
{"font-size":11,fill:t.palette.grey,"text-anchor":"middle"})}function Eu(t,e){let{palette:n}=t,o=e.width-(t.exporting?0:
30);return[O(B(Mt(t,e.map),14,o),0,14,{"font-size":14,"font-weight":600,fill:n.ink}),O(B(Me(t,e.map),12,e.width),0,31,{fill:n.
grey})]}function Au({palette:t},e){return e.pictures.slice(1).map(({x:n})=>k("rect",{x:n,y:e.top,width:H.width,height:e.
down,fill:"none",stroke:t.line}))}function Zo(t,e){let n={"font-size":11,fill:t.palette.grey};e.columns=pn(t,e);let o=e.
pictures.slice(1).map(({name:r,x:s})=>mt(r,s+H.width-2,e.top-5,n));return[O("from (source, key) →",e.left,Ct+12,n),...e.
columns.nodes,...o]}var Yo=24,Su=0;function gn(t,{scale:e},n=o=>tt(t.palette,o,1,e,t.selection.root)){let o=e==="signed"?
-1:0,r=Array.from({length:Yo+1},(s,a)=>k("stop",{offset:a/Yo,"stop-color":n(o+a/Yo*(1-o)).hex}));return k("linearGradien\
t",{id:`ramp-${Su++}`},r)}var ka=11;function Xo({left:t,top:e,down:n,width:o}){return{x:t,y:e+n+10,width:Math.min(190,o-
t-26),height:10}}function Tu(t,e){let n=gn(t,e.map);return[k("defs",{},[n]),k("rect",{...Xo(e),fill:`url(#${n.id})`,stroke:t.
palette.line,class:"legend"})]}function Ru(t,e){let{x:n,y:o}=Xo(e),r=e.notes.map((a,i)=>O(a,n,o+38+14*i,{"font-size":11,
fill:t.palette.grey})),s=a=>Y(a,e.map.asShare,e.map.scale==="signed");return[...Jo(t,Xo(e),e.map,s),...r]}function Jo({palette:t},{
x:e,y:n,width:o,height:r},s,a){let{limit:i}=s,[l,u]=[s.scale==="signed",$o(s)],c=l?-i:0,f=$s(l?i:i/2),h=u?i:l?f:2*f,d=[];
return[h,l?-h:0,l?0:f].flatMap(m=>{let g=(m-c)/(i-c||1)*o,b=`${u&&Math.abs(m)===i?m>0?"≥ ":"≤ ":""}${l&&m>0?"+":""}${a(
m,m===h)}`,x=F(b,ka)/2,y=Math.max(x,Math.min(o-x,g));if(d.some(([$,C])=>y+x+4>$&&y-x-4<C))return[];d.push([y-x,y+x]);let v={
"font-size":ka,"text-anchor":"middle",fill:t.ink};return[k("path",{d:`M${e+g} ${n+r}v3`,stroke:t.ink,class:"tick"}),O(b,
e+y,n+r+13,v)]})}var Ca="not-reachable",Qo=`url(#${Ca})`;function le(t){return k("defs",{},[k("pattern",{id:Ca,width:6,height:6,
patternUnits:"userSpaceOnUse",patternTransform:"rotate(45)"},[W(0,0,6,6,t.out),W(0,0,1,6,t.hatch)])])}function zu(t,e){let{
data:n,axes:o,window:[r,s,a,i]}=t;if(!n.causal)return[];let l=[];for(let u=r;u<=s;u++){let c=Math.max(a,o.own[u]+1),f=(i+
1-c)*e.cell.width;f>0&&l.push(`M${e.left+(c-a)*e.cell.width} ${e.top+(u-r)*e.cell.height}h${f}v${e.cell.height}h${-f}z`)}
return l.length?[k("path",{d:l.join(""),fill:Qo,class:"unreachable"})]:[]}function tr(t,e){return e.rows=Ou(t,e),[Lu(t,e),
...e.rows.nodes,...zu(t,e),k("rect",{x:e.left,y:e.top,width:e.across,height:e.down,fill:"none",stroke:t.palette.line}),...Au(
t,e),...Tu(t,e)]}function Wu(t,e){let{data:n,axes:o,selection:r,window:[s,a,i,l]}=t,u=Mo(t,e.map)&&Qe(n,e.map.run,e.map.
key,r.layer),{width:c,height:f}=e.cell;if(!u)return[];let h=Math.min(2,c/5,f/5),d=[];for(let m=s;m<=a;m++)for(let g=i;g<=
l;g++){let[b,x]=u.map(N=>N[m*o.nColumns+g]);if(!(b<=0&&x>=0&&b<x))continue;let[y,v]=[e.left+(g-i)*c,e.top+(m-s)*f],[$,C]=[
c-2*h,f-2*h];d.push(`M${y+h} ${v+h}l${$} ${C}m0 ${-C}l${-$} ${C}`)}return d.length?[k("path",{d:d.join(""),stroke:t.palette.
grey,"stroke-width":Math.min(1,h/2),fill:"none",class:"uncertain"})]:[]}function er(t,e){return[...Eu(t,e),...Wu(t,e),...Ru(
t,e)]}var ju={column:[326,420,0],page:[672,900,0],slide:[1280,1280,720]},Fu=864,Iu=420;function La({maps:t},e){let n=t.map(({role:o})=>o);
return t.length<2?[""]:e==="column"?n:["",...n]}function _u(t,e){let{panel:n}=t.selection,o=La(t,e);return o.includes(n)?
n:o[o.length-1]}function Re({scene:t,figureOfMap:e}){let n=w("figure-size").value,o=La(t,n);return{size:n,panel:o.includes(
e)?e:_u(t,n),roles:o}}function Ea(t,e){let n=Math.max(640,t.width);return ju[e]||[n,n,0]}function sr(t){let{size:e,panel:n}=Re(
t),{scene:o}=t;return{...o,selection:{...o.selection,panel:n},width:Ea(t,e)[1]-16,palette:Ke("light"),exporting:!0,ratio:4,
inLine:e==="page"||e==="slide",windowRoom:e==="screen"?o.windowRoom:0}}var nr={size:14,"font-weight":600},or={size:9},rr=1.3;
function Na(t,{size:e,...n},o){return He(t,e*(n["font-weight"]?1.2:1),o)}function Oa(t,{size:e,...n},o,r){return t.map((s,a)=>O(
s,0,o+a*e*rr,{"font-size":e,fill:r,...n}))}function ar(t){let{size:e}=Re(t),[n,o,r]=Ea(t,e),s=sr(t),a=t.view();if(!a.figure)
return null;let i=a.words(s),l=[i.note,`${No(s.data,s.selection,600)}${i.place&&`, ${i.place}`}. tl_ffblock ${s.data.provenance.
tl_ffblock||""}`],u=N=>{let[T,L]=[Na(i.headline,nr,N-16),Na(l.filter(Boolean).join(" "),or,N-16)],S=T.length*nr.size*rr+
10;return{head:T,foot:L,top:S,beyond:S+L.length*or.size*rr+8+16}},c=N=>e==="screen"?0:(r||Fu*o/n)-N,f=N=>a.figure({...s,
room:c(u(N).beyond)},s.width),h=({width:N=o-16})=>n===o?Math.min(o,Math.max(Iu,Math.ceil(N)+16)):o,d=f(o);if(!d)return null;
let m=h(d),g=m<o&&r?f(m):d,{head:b,foot:x,top:y,beyond:v}=u(m),{ink:$,grey:C}=s.palette;return{scene:s,width:m,shown:n*m/
o,height:g.height+v,groups:g.groups.map(N=>({...N,y:N.y+y})),head:Oa(b,nr,12,$),foot:Oa(x,or,y+g.height+8,C)}}function ir({
scene:t,head:e,foot:n,groups:o,width:r,height:s,shown:a},i,l){let u=o.map(f=>k("g",{transform:`translate(${f.x} ${f.y})`},
[...i(f),...f.nodes])),c=k("svg",{xmlns:me,width:a,height:s*a/r,viewBox:`-8 -8 ${r} ${s}`,"font-family":Qt},[le(t.palette),
...l,...e,...u,...n]);return new XMLSerializer().serializeToString(c)}function Aa(t){let{palette:e}=t.scene,n=pa(t.groups.
flatMap(({pictures:r})=>r));return ir(t,({pictures:r})=>r.flatMap(s=>ga(s,e,n)),[W(-8,-8,t.width,t.height,e.paper)])}function Sa(t,{
scene:e,groups:n,width:o,height:r}){let[s,a]=[t.canvas.width/o,t.canvas.height/r];t.setTransform(s,0,0,a,8*s,8*a),t.imageSmoothingEnabled=
!1,t.fillStyle=e.palette.paper,t.fillRect(-8,-8,o,r);for(let i of n)for(let{picture:l,x:u,y:c,width:f,height:h}of i.pictures)
t.drawImage(ut(l,e.palette,f*s,h*a,dn),i.x+u,i.y+c,f,h);t.setTransform(1,0,0,1,0,0)}function lr(t,e){let n=p("a",{href:URL.createObjectURL(t),download:e});n.click(),setTimeout(()=>URL.revokeObjectURL(n.href),
1e4),w("copied").textContent=`saved as ${e}${window.parent===window?"":", unless this frame may not save files"}`}function Pu({
scene:t},e,n){return Oo(t,n.words(t),e)}function Wa(t,{scene:e},n){let{size:o}=Re(t),r=t.view().words(e),s=[e.maps.length>
1&&t.view().name==="maps"?e.selection.panel:"",o==="screen"?"":o].filter(Boolean);return Oo(e,{...r,file:[...r.file,...s]},
n)}var cr="nothing is drawn here that could be saved";function Bu(t){let e=ar(t);if(!e){w("copied").textContent=cr;return}
lr(new Blob([Aa(e)],{type:"image/svg+xml"}),Wa(t,e,"svg"))}var Ta=3;function Hu(t){return new Blob([ro(t.toDataURL("imag\
e/png").split(",")[1])],{type:"image/png"})}function Du(t){let e=ar(t);if(!e){w("copied").textContent=cr;return}let n=Wa(
t,e,"png"),o=new Image;o.onload=()=>{let r=p("canvas",{width:Ta*o.width,height:Ta*o.height}),s=r.getContext("2d");Sa(s,e),
s.drawImage(o,0,0,r.width,r.height),lr(Hu(r),n)},o.src="data:image/svg+xml;charset=utf-8,"+encodeURIComponent(ir(e,()=>[],
[]))}var qu=4e6;function Ra(t,e){let n=e.table(t.scene);if(!n){w("copied").textContent=cr;return}let o=n.count*n.head.length;
if(o>qu){w("copied").textContent=`${R(o)} numbers are too many for one file; in Python .to_dataframe() has them`;return}
lr(new Blob([ma(n)],{type:"text/csv;charset=utf-8"}),Pu(t,"csv",e))}async function za(t,e){try{await navigator.clipboard.
writeText(t),e.textContent="copied",setTimeout(()=>{e.textContent=""},4e3)}catch{w("caption").textContent=t,w("figure-to\
ols").hidden=!1,w("copied").textContent="this frame may not copy: the words stand below"}}function ja(t){let e=sr(t);return Ws(
e,t.view().words(e))}function Vu(t){let{scene:e}=t,{panel:n,roles:o}=Re(t),r=a=>a===""?"all maps":Mt(e,e.maps.find(i=>i.
role===a));w("figure-maps").replaceChildren(...o.map(a=>X(a,r(a)))),w("figure-maps").value=n;let s=t.view().name==="maps";
w("figure-maps-label").hidden=o.length<2||!s,G(w("figure-size").querySelector("[value=column]"),s?"one column (3.4 in), \
one map":"one column (3.4 in)")}function ze(t){let e=t.view();Vu(t);for(let n of["save-png","save-svg","save-csv"]){let o=!!(n===
"save-csv"?e.table:e.figure);w(n).disabled=!o,w(n).title=o?"":"this view has no such file; PDF (print) has what is seen"}
w("caption").textContent=ja(t)}function Fa(t){w("save-png").addEventListener("click",()=>Du(t)),w("save-svg").addEventListener(
"click",()=>Bu(t)),w("save-csv").addEventListener("click",()=>Ra(t,t.view())),w("pairs-csv").addEventListener("click",()=>Ra(
t,{table:hn,words:qt})),w("print").addEventListener("click",()=>window.print()),w("copy-caption").addEventListener("clic\
k",()=>za(ja(t),w("copied"))),w("figure-size").addEventListener("change",()=>{t.figureOfMap=null,ze(t)}),w("figure-maps").
addEventListener("change",()=>{t.figureOfMap=w("figure-maps").value,ze(t)}),w("copy-link").addEventListener("click",()=>za(
t.address(),w("link-note"))),w("figure-mode").addEventListener("click",()=>{let e=w("figure-tools");e.hidden=!e.hidden,w(
"figure-mode").setAttribute("aria-expanded",String(!e.hidden)),ze(t),t.resized()})}var st=globalThis.parent!==globalThis.window;function Ku(t,e){let o=Array.from(t.querySelectorAll("[tabindex]")).indexOf(
document.activeElement);e();let r=t.querySelectorAll("[tabindex]")[o];o>=0&&r&&r.focus({preventScroll:!0})}function wn(t){
let[e,n]=[null,null];return(o,r,s)=>{r===e&&n.update&&n.update(o)!==!1||(Ku(t,()=>{let a=s();n=a.nodes?a:{nodes:[a].flat(),
update:null},t.replaceChildren(...n.nodes)}),e=r,n.update&&n.update(o))}}function Rt(t,e,n){return JSON.stringify([n,t.ratio,
t.palette.name,...e.map(o=>t.selection[o])])}function Ia({paper:t},e,n){if(t){for(let s of e)s();return}let o=[...e],r=()=>{
let s=performance.now()+12;for(;o.length&&n()&&performance.now()<s;)o.shift()();o.length&&n()&&setTimeout(r)};setTimeout(
r)}function Uu(t,e,n,o){let{window:[r,s,a,i]}=t,l=r+Math.floor((o-e.top)/e.cell.height),u=a+Math.floor((n-e.left)/e.cell.width),
c=u>=a&&u<=i;if(o<e.top)return c&&o>Ct?{column:u}:null;if(l>s||n<_.axis)return null;if(u<a)return{row:l};if(c)return{row:l,
column:u};let f=Math.floor((n-e.left-e.across-H.gap/2)/(H.width+H.gap)),h=t.strips.filter(d=>e.map.columns[d])[f];return h?
{row:l,strip:h}:null}function bn(t,{row:e,column:n}){let{axes:o,selection:r}=t,s=e===void 0?void 0:o.rows[e].position;if(n===
void 0)return{to:s,read:"row"};let a=o.columns[n].position;return e===void 0?{from:a,read:"column"}:{to:s,from:a,read:r.
read}}var _a={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[0,1]};function Gu(t,e,[n,o]){let[r,s,a,i]=t.window,
l=(u,c,f)=>Math.max(c,Math.min(f,u));return{row:l((e.row??t.row)+n,r,s),column:l((e.column??t.column)+o,a,i)}}function Yu(t,e){
let n=null,o=k("rect",{class:"band"}),r=s=>s&&s.row!==void 0&&s.column!==void 0;return{down:(s,a,i,l)=>{s.button===0&&s.
pointerType!=="touch"&&r(a)&&(n={target:a,x:i,y:l})},move:(s,a)=>{if(!n||Math.hypot(s-n.x,a-n.y)<6)return;let i={x:Math.
min(s,n.x),y:Math.min(a,n.y),width:Math.abs(s-n.x),height:Math.abs(a-n.y)};for(let[l,u]of Object.entries(i))o.setAttribute(
l,u);o.isConnected||t.marks.parentNode.append(o)},up:s=>{let a=o.isConnected&&n;o.remove();let i=n&&n.target;if(n=null,!a)
return!1;if(!r(s))return!0;let l=[i.row,s.row].sort((c,f)=>c-f),u=[i.column,s.column].sort((c,f)=>c-f);return l[1]>l[0]&&
u[1]>u[0]&&e({zoom:fo([...l,...u])}),!0}}}function Pa(t,e){let{panel:n}=t,[o,r]=[null,!1],s=Yu(t,e),a=c=>{let f=n.getBoundingClientRect(),
h=c.target.closest(".heads")?t.top-1:c.clientY-f.top;return[c.clientX-f.left,h]},i=c=>Uu(t.scene,t,...a(c)),l=(c,f,h)=>{
o=c,t.scene.hover(c),Is(t.scene,c,f,h)},u=c=>{let f=n.getBoundingClientRect(),[h,,d]=t.scene.window;l(c,f.left+t.left+(c.
column-d+1)*t.cell.width,f.top+t.top+(c.row-h+1)*t.cell.height)};n.addEventListener("pointerdown",c=>{r=!1,s.down(c,i(c),
...a(c))}),n.addEventListener("pointermove",c=>{s.move(...a(c)),l(i(c),c.clientX,c.clientY)}),n.addEventListener("pointe\
rup",c=>{r=s.up(i(c))}),n.addEventListener("pointerleave",c=>{s.up(null),c.pointerType!=="touch"&&l(null)}),n.addEventListener(
"blur",()=>l(null)),n.addEventListener("click",c=>{let f=i(c);f&&!r&&e(bn(t.scene,f)),c.pointerType==="touch"&&l(f,c.clientX,
c.clientY)}),n.addEventListener("dblclick",()=>e({zoom:""})),n.addEventListener("keydown",c=>{if(c.key==="Escape"&&o)l(null);else if(c.
key==="Enter"&&o)e(bn(t.scene,o));else if(_a[c.key]&&!c.altKey)u(Gu(t.scene,o||{},_a[c.key]));else return;c.preventDefault(),
c.stopPropagation()})}var Ba=["#008df9","#e20134","#009f81","#c78a00","#8400cd","#ff6e3a","#00b3a0","#9f0162","#5b7f00","#ff5aaf","#0050a0","#\
a40122","#5b6672"],Z={row:20,smallest:11,printed:3,gap:190,label:150,head:26,band:16,faintest:.04,most:300,apart:1.8,square:7};
function yn(t){return pt(t,"head").length>0}function U(t,e){let n=pt(t,"head"),o=t.channels.get(e.scope);return n.find(([
r])=>r===e.block)||n.find(([r,s])=>s.of===o.name||r===o.blockName)||n[0]}function yt(t,e){let[n,o]=U(t,e);return o.channels.
map(r=>V(t,n,r.name))}function ur(t){return t.name==="residual"}function at(t,e){let[,n]=U(t,e),o=e.heads.split(".").filter(
Boolean).map(Number).filter(a=>a<n.channels.length);if(o.length)return o;let r=n.channels.map((a,i)=>i),s=r.filter(a=>!ur(
n.channels[a]));return s.length?s:r}function kn(t,e){let{data:n,selection:o,axes:r,hidden:s}=t,a=n.matrix(o.run,e,o.layer);
return qe(r,o.words?he(r,a,n.words.length):a,s,!1)}function Xu(t,e,n){let o=at(t.data,t.selection);if(n)return o.length===
1&&o[0]===e?"":String(e);let r=o.includes(e)?o.filter(s=>s!==e):[...o,e].sort((s,a)=>s-a);return r.length?r.join("."):String(
e)}function Zu(t,e){let{data:n,selection:o}=t,[,r]=U(n,o),s=at(n,o),a=r.channels.map((l,u)=>{let c=s.includes(u),f=p("bu\
tton",{type:"button",className:"head",textContent:l.name.replace(/^head /,""),title:`${l.name}: click shows or hides, sh\
ift-click shows it alone`});return f.setAttribute("aria-pressed",String(c)),r.signed||f.style.setProperty("--head",vn(u)),
f.addEventListener("click",h=>e({heads:Xu(t,u,h.shiftKey)})),f}),i=p("button",{type:"button",textContent:"all"});return i.
addEventListener("click",()=>e({heads:""})),p("div",{className:"toggles head-choice"},[fr(t,e),p("span",{className:"note",
textContent:"heads"}),...a,i,...Ju(t,e)])}function Ju(t,e){let{segments:n}=t.data;if(n.length<2)return[];let r=n.flatMap(
([a],i)=>n.map(([l],u)=>[`${i}-${u}`,`${a} takes from ${l}`])).filter(([a])=>co(t.data,a)).map(([a,i])=>X(a,i)),s=p("sel\
ect",{},[X("","all lines"),...r]);return s.autocomplete="off",s.value=t.selection.between,s.setAttribute("aria-label","l\
ines between segments"),s.addEventListener("change",()=>e({between:s.value})),[s]}function $n({data:t,selection:e,axes:n}){
let[o,r]=e.between.split("-").map(Number),s=n.columns.map(({position:i})=>Pn(t,i)),a=e.between==="";return{row:i=>a||s[n.
own[i]]===o,column:i=>a||s[i]===r}}function fr(t,e){let{data:n,selection:o}=t,[r]=U(n,o),s=p("select",{},pt(n,"head").map(
([a,i])=>X(a,i.title)));return s.autocomplete="off",s.value=r,s.setAttribute("aria-label","maps by head"),s.addEventListener(
"change",()=>e({block:s.value})),s}var Qu=Ze();function Mn(t){return Qu(Rt(t,hr(t),0),()=>tf(t))}function tf(t){let{data:e,
selection:n,axes:o}=t,r=yt(e,n),s=$n(t),a=c=>c.map((f,h)=>s.row(Math.floor(h/o.nColumns))&&s.column(h%o.nColumns)?f:NaN),
i=at(e,n).map(c=>[c,a(kn(t,r[c]))]),l=Math.max(...i.map(([,c])=>E(c)))||1,u=[];for(let[c,f]of i)f.forEach((h,d)=>{let m=h/
l;Math.abs(m)>=Z.faintest&&u.push([Math.floor(d/o.nColumns),d%o.nColumns,m,c])});return{limit:l,lines:u.sort((c,f)=>Math.
abs(c[2])-Math.abs(f[2]))}}function hr({selection:t}){return["run","layer","heads","between","block","words","hide",...t.
block?[]:["scope"]]}function vn(t){return Ba[t%Ba.length]}function Ha({data:t,selection:e,palette:n}){let{signed:o}=U(t,
e)[1];return([,,r,s])=>o?n[r<0?"loss":"gain"]:vn(s)}function dr(t,e,n,o){let{selection:r,row:s,column:a}=t,i=Ha(t),l=n||
(r.read==="row"?{row:s}:{column:a}),u=([h,d])=>(l.row===void 0||l.row===h)&&(l.column===void 0||l.column===d),[c,f]=[e.length-
Z.most,at(t.data,r)];for(let h of[!1,!0])for(let[d,m]of e.entries()){if(u(m)!==h||!h&&d<c)continue;m[4]=(f.indexOf(m[3])-
(f.length-1)/2)*Z.apart;let g=Math.abs(m[2]);h?o(m,i(m),Math.min(1,.15+g),2):o(m,i(m),.3*g,1)}}function mr(t,[e,n,,,o=0]){
let r=Math.max(-t.height/2,Math.min(t.height/2,o)),[s,a]=[t.y(e)+r,t.yColumn(n)+r];return[t.left,s,t.left+70,s,t.right-70,
a,t.right,a]}function xn(t,e,n,o,r){let s=e.getContext("2d");s.setTransform(t.ratio,0,0,t.ratio,0,0),s.clearRect(0,0,e.width,
e.height),dr(t,o,r,(a,i,l,u)=>{let[c,f,...h]=mr(n,a);Object.assign(s,{globalAlpha:l,strokeStyle:i,lineWidth:u}),s.beginPath(),
s.moveTo(c,f),s.bezierCurveTo(...h),s.stroke()})}function pr(t,e){let[n,o]=e.size;return vt(p("canvas",{width:Math.round(
n*t.ratio),height:Math.round(o*t.ratio)}),0,0,n,o)}function gr(t,e,n){let{axes:o,palette:r}=t,s=z(t),a=$n(t),i=Math.min(
13,Math.max(_.smallest,n)),l=Tt(n),u=e.left-26-(t.data.segments.length?Z.band:0),c=(m,g,b,x,y)=>O(B(m,i,u),g,b+i*.35,{"t\
ext-anchor":x,"font-size":i,fill:y?r.ink:r.grey,opacity:y?1:.5,class:"line-token"}),f=(m,g,b,x)=>O(m,g,b+3.5,{"text-anch\
or":x,"font-size":9,fill:r.grey}),h=o.rows.map((m,g)=>({...m,row:g})).filter(({row:m})=>Gt(m,l,t.row)),d=o.columns.map((m,g)=>({
...m,column:g})).filter(({column:m})=>Gt(m,l,t.column));return[...h.map(({position:m,row:g})=>({target:{row:g},node:c(s[o.
own[g]],e.left-26,e.y(g),"end",a.row(g)),number:f(Jt(t.data,m),e.left-5,e.y(g),"end")})),...d.map(({position:m,column:g})=>({
target:{column:g},node:c(s[g],e.right+26,e.yColumn(g),"start",a.column(g)),number:f(Jt(t.data,m),e.right+5,e.yColumn(g),
"start")}))]}function wr(t,e){let{data:n,axes:o,palette:r}=t,s=o.columns.map(({position:a})=>Pn(n,a));return n.segments.
flatMap(([a],i)=>{if(!s.includes(i))return[];let[l,u]=[e.yColumn(s.indexOf(i))-e.height/2+1,e.yColumn(s.lastIndexOf(i))+
e.height/2-1],c=h=>O(B(a,11,u-l),0,0,{"text-anchor":"middle","font-size":11,fill:r.grey,class:"segment",transform:`trans\
late(${h} ${(l+u)/2}) rotate(-90)`}),f=h=>W(h,l,2,u-l,r.grey);return[f(Z.band-2),c(Z.band-6),f(e.size[0]-Z.band),c(e.size[0]-
2)]})}function br(t,e){let{axes:n}=t,o=Math.max(t.room?Z.printed:Z.smallest,Math.min(Z.row,(t.room?t.room-60:1400)/n.nColumns)),
r=Math.min(Z.label,Math.max(70,(e-90)/3)),s=Math.min(e-r,r+Math.max(Z.gap,Math.min(520,.55*e))),a=c=>Z.head+(c+.5)*o,i=Math.
max(...z(t).map(c=>F(c.slice(0,60),Math.min(13,Math.max(_.smallest,o))))),l=s+32+Math.min(i,r-26),u=t.room?0:at(t.data,t.
selection).length*(Z.square+1)+8;return{height:o,left:r,right:s,squares:l,yColumn:a,y:c=>a(n.own[c]),size:[s+r+u,Z.head+
n.nColumns*o+8]}}function xr(t,e){let n={"font-size":11,fill:t.palette.grey},o=(r,s)=>F(r,11)<=e.left?r:s;return[O(o("to\
 (destination, query)","to (query)"),e.left,14,{...n,"text-anchor":"end"}),O(o("from (source, key)","from (key)"),e.right,
14,n)]}function ef(t,e,n,o){let r=k("svg",{width:e.size[0],height:e.size[1]},[...xr(t,e),...wr(t,e),...n.flatMap(({node:s,
number:a})=>[s,a])]);for(let{node:s,target:a}of n)s.addEventListener("click",()=>o(bn(t,a)));return r}function nf(t,e,{lines:n}){
let{selection:o,row:r,column:s}=t,a=Ha(t),i=at(t.data,o),l=Math.min(Z.square,e.height-2);return n.filter(([u,c])=>o.read===
"row"?u===r:c===s).map(u=>{let[c,f]=[o.read==="row"?e.yColumn(u[1]):e.y(u[0]),e.squares+i.indexOf(u[3])*(l+1)],h=W(f,c-l/
2,l,l,a(u));return h.setAttribute("fill-opacity",Math.min(1,.1+.9*Math.abs(u[2])).toFixed(2)),h})}function yr(t,e){for(let{
node:n,target:o}of e)n.setAttribute("font-weight",o.row===t.row||o.column===t.column?700:400)}function kr({data:t,selection:e},n){
return`Width and strength of a line: ${U(t,e)[1].unit}, up to ${Y(n,!1)}; below ${q(Z.faintest)} of that none is drawn.`}
var $r=[["gain","positive"],["loss","negative"]];function of({data:t,selection:e,palette:n}){if(!U(t,e)[1].signed)return[];
let o=r=>{let s=p("i",{className:"swatch"});return s.style.backgroundColor=n[r],s};return[p("p",{className:"note signs"},
$r.map(([r,s])=>p("span",{},[o(r),` ${s}`])))]}function Da(t,e,n){let o=br(t,n),{limit:r,lines:s}=Mn(t),a=pr(t,o),i=gr(t,
o,o.height),l=ef(t,o,i,e),u=k("g",{class:"head-squares"});l.append(u);let c=p("div",{className:"lines"},[a,l]),f=`${kr(t,
r)} Drawn are the strongest ${Z.most} and all of the token that is read, whose squares are its heads. Point at a token f\
or its lines, click selects it.`,h=d=>{yr(d,i),u.replaceChildren(...nf(d,o,{lines:s}));for(let{node:m,target:g}of i)m.onpointerenter=
()=>d.hover(g);l.onpointerleave=()=>d.hover(null),d.marked.push(m=>xn(d,a,o,s,m)),xn(d,a,o,s,null)};return{nodes:[Zu(t,e),
...of(t),c,p("p",{className:"note",textContent:f})],update:h}}var rf=3e3;function sf(t,e,n){if(n.length>rf){let r=pr(t,e);return xn(t,r,e,n,null),[k("image",{x:0,y:0,width:e.size[0],
height:e.size[1],href:r.toDataURL("image/png")})]}let o=[];return dr(t,n,null,(r,s,a,i)=>{let[l,u,...c]=mr(e,r);o.push(k(
"path",{d:`M${l} ${u}C${c.join(" ")}`,fill:"none",stroke:s,"stroke-opacity":a.toFixed(3),"stroke-width":i}))}),o}function af({
data:t,selection:e,palette:n}){let[,o]=U(t,e);return o.signed?$r.map(([r,s])=>[n[r],s]):at(t,e).map(r=>[vn(r),o.channels[r].
name])}function lf(t,e){let n=[],[o,r]=[0,9];for(let[s,a]of af(t)){let i=15+F(a,11);o+i>e&&([o,r]=[0,r+15]),n.push(W(o,r-
8,10,8,s),O(a,o+14,r,{"font-size":11,fill:t.palette.ink})),o+=i+14}return{nodes:n,height:r+14}}function qa(t,e){let n=lf(
t,e),o=br(t,e),r=gr(t,o,o.height);yr(t,r);let s=[...sf(t,o,Mn(t).lines),...xr(t,o),...wr(t,o),...r.flatMap(({node:i,number:l})=>[
i,l])];return{groups:[{x:0,y:0,pictures:[],nodes:n.nodes},{x:0,y:n.height,pictures:[],nodes:s}],height:n.height+o.size[1]}}
function cf(t){let{data:e,selection:n,axes:o,row:r,column:s}=t,[a,i]=[rt(t,o.own[r]),rt(t,s)];if(!o.reaches(r,s))return ve(
a,i);let[,l]=U(e,n),u=yt(e,n),c=b=>(n.words?kn(t,b):e.matrix(n.run,b,n.layer))[r*o.nColumns+s],h=at(e,n).map(b=>({name:l.
channels[b].name,value:t.hidden.has(s)?NaN:c(u[b])})).filter(({value:b})=>Number.isFinite(b)).sort((b,x)=>Math.abs(x.value)-
Math.abs(b.value));if(!h.length)return`There is no number here of what ${a} takes from ${i}.`;let[{name:d,value:m}]=h,g=h.
length>1?` has the largest ${l.short} of the ${h.length} shown`:`: ${l.short}`;return`Layer ${n.layer}, from ${i} to ${a}\
: ${d}${g}${h.length>1?":":""} ${l.signed?A(m,!1):R(m)}.`}function uf({data:t,selection:e}){if(e.between==="")return"";let[
n,o]=e.between.split("-").map(r=>t.segments[Number(r)][0]);return` Only lines to ${n} from ${o} are drawn.`}function Va(t){
let{data:e,selection:n}=t,[o,r]=U(e,n),s=at(e,n),a=s.length<r.channels.length?s.map(i=>r.channels[i].name).join(", "):"a\
ll heads";return{headline:cf(t),meaning:`Each line joins a row of a head's map (left) with a column (right): ${r.meaning}\
.`,place:`layer ${n.layer}`,shown:`${r.title}, ${a}`,remark:"",note:`${kr(t,Mn(t).limit)} Those of ${rt(t,D(t))} stand o\
ut.${uf(t)}`,exact:r.exact,method:"",file:[`layer${n.layer}`,`lines-${o}`.slice(0,60),n.heads?`heads${n.heads}`:"all-hea\
ds",...n.between?[`segments${n.between}`]:[]]}}function Mr(t,e,n,o={row:r=>!0,column:r=>!0}){let{data:r,selection:s,axes:a}=t,
[,i]=U(r,s),l=yt(r,s),u=z(t),c=function*(){for(let h of n){let d=e.map(m=>kn({...t,selection:{...s,layer:h}},l[m]));for(let[
m,g,b]of Vo(t))o.row(m)&&o.column(g)&&(yield[h,...qo(t,u,m,g),...d.map(x=>x[b])])}};return{head:["layer",...Ae,...e.map(
h=>`${i.channels[h].name} ${i.short}`)],lines:c,count:n.length*a.nRows*a.nColumns}}function Ka(t){return Mr(t,at(t.data,
t.selection),[t.selection.layer],$n(t))}var Cr=5;function ht(t,e,n,o,r){return k("rect",{x:t-.75,y:e-.75,width:n+1.5,height:o+1.5,fill:"none",stroke:r,"stroke-w\
idth":1.25})}function Ua(t,e,n,o){let r={left:[[0,0],[6,-4],[6,4]],up:[[0,0],[-4,6],[4,6]]}[n];return k("polygon",{points:r.
map(([s,a])=>`${t+s},${e+a}`).join(" "),fill:o})}function vr(t,e,n,o){let[r,s]=t.window;if(n<r||n>s)return[];let a=e.top+
(n-r)*e.cell.height;if(e.cell.height>=Cr)return[ht(e.left,a,e.across,e.cell.height,o)];let i=a+e.cell.height/2;return[Ua(
e.left+e.across+1,i,"left",o)]}function ce(t,e,n,o){let[,,r,s]=t.window;if(n<r||n>s)return[];let a=e.left+(n-r)*e.cell.width;
if(e.cell.width>=Cr)return[ht(a,e.top,e.cell.width,e.down,o)];let i=a+e.cell.width/2;return[Ua(i,e.top+e.down+1,"up",o)]}
function ff(t,e,n){let{row:o,column:r,selection:s,window:[a,i,l,u]}=t;if(o<a||o>i||r<l||r>u)return[];let{width:c,height:f}=e.
cell,[h,d]=[e.left+(r-l)*c,e.top+(o-a)*f];return Math.min(c,f)>=Cr?[ht(h+1.5,d+1.5,c-3,f-3,n)]:s.read==="row"?ce(t,e,r,n):
vr(t,e,o,n)}function Nr(t,e,n){let{palette:o,selection:r,row:s,column:a}=t,l=[...r.read==="row"?vr(t,e,s,o.mark):ce(t,e,
a,o.mark),...ff(t,e,o.mark)];return n&&n.row!==void 0&&l.push(...vr(t,e,n.row,o.read)),n&&n.column!==void 0&&l.push(...ce(
t,e,n.column,o.read)),l}var Ya=["run","refRun","words","panel","zoom","root"];function Cn(t,e){return{cells:e.cells,nColumns:t.axes.nColumns,window:t.
window,scale:e.scale,limit:e.limit,root:t.selection.root}}function hf(t,e,n){let o=e.scale==="signed",[r,s]=t.window,a=t.
maps.filter(l=>l.columns[n]&&l.role==="difference"==(e.role==="difference")),i=n==="own"&&!o?1:Math.max(...a.map(l=>E(l.
columns[n])));return{cells:e.columns[n],nColumns:1,window:[r,s,0,0],scale:o?"signed":"bias",limit:i,root:0}}function df(t,e){
let n=t.strips.filter(s=>e.map.columns[s]),o={y:e.top,height:e.down};return[{name:"",picture:Cn(t,e.map),x:e.left,width:e.
across,...o},...n.map((s,a)=>({name:s,picture:hf(t,e.map,s),width:H.width,...o,x:e.left+e.across+H.gap+a*(H.width+H.gap)}))]}
function Xa(t,e,n,o,r){let s=sn(t,e,n);return ut(Cn(s,s.map),t.palette,o*t.ratio,r*t.ratio)}function Ga(t){return JSON.stringify(
t.map(({map:e,pictures:n,cell:o,top:r,left:s,across:a,width:i,x:l,y:u,height:c})=>[e.role,e.scale,e.labels,n.map(({name:f})=>f),
o,r,s,a,i,l,u,c]))}function Or(t,e){let n=ya(t,e);for(let o of n.frames)o.pictures=df(t,o);return n}function mf(t,e,n){let[
o,r,s]=[k("g"),k("g",{class:"marks"}),k("g")],[a,i]=[tr(t,e),[o,r]].map(h=>k("svg",{width:e.width,height:e.height,"aria-\
hidden":"true"},h)),l=e.pictures.map(()=>p("canvas")),u=e.pictures.map(({name:h,x:d,width:m},g)=>vt(p("div",{className:h?
"beside":"cells"},[l[g]]),d,e.top,m,e.down)),c=vt(p("div",{className:"panel",tabIndex:0},[pf(e,[...Zo(t,e),s]),...u,a,i]),
e.x,e.y,e.width,e.height);return c.setAttribute("role","application"),c.dataset.role=e.map.role,t.maps.length>1&&!t.beside&&
c.append(gf(t,e,n)),Object.assign(e,{panel:c,marks:r,named:s,fill:(h,{map:d,notes:m,pictures:g})=>{Object.assign(e,{map:d,
notes:m,pictures:g}),g.forEach(({picture:b,width:x},y)=>ut(b,h.palette,x*h.ratio,e.down*h.ratio,l[y])),o.replaceChildren(
...er(h,e)),c.setAttribute("aria-label",`${Mt(h,d)}. Arrow keys read cells, Enter selects.`)}})}function pf({top:t,width:e},n){
let o=t-Ct-5,r=p("div",{className:"heads"},[k("svg",{width:e,height:o,viewBox:`0 ${Ct} ${e} ${o}`,"aria-hidden":"true"},
n)]);return r.style.marginTop=`${Ct}px`,r}function gf(t,e,n){let o=t.selection.panel===e.map.role,r=p("button",{type:"bu\
tton",className:"enlarge",textContent:o?"⤡":"⤢",title:o?"show all maps":"show this map alone"});return r.setAttribute(
"aria-label",r.title),r.addEventListener("click",s=>{s.stopPropagation(),n({panel:o?"":e.map.role})}),r.addEventListener(
"pointerdown",s=>s.stopPropagation()),r}function wf(t,e){let n=o=>{for(let r of e)r.marks.replaceChildren(...r.selected,
...Nr(t,r,o))};for(let o of e)o.scene=t,o.selected=o.rows.mark(t.row),o.named.replaceChildren(...o.columns.mark(t.column));
t.marked.push(n),n(null)}function Lr(t,e,n){let o=Or(t,n),r=Ga(o.frames),s=p("div",{className:"plot"},[k("svg",{width:0,
height:0,"aria-hidden":"true"},[le(t.palette)])]);s.style.height=`${o.height}px`;for(let l of o.frames)s.append(mf(t,l,e).
panel),Pa(l,e);let a="",i=l=>{let u=Rt(l,Ht,n)+l.windowRoom;if(u!==a){let{frames:c}=a===""?o:Or(l,n);if(a!==""&&Ga(c)!==
r)return!1;c.forEach((f,h)=>o.frames[h].fill(l,f)),a=u}return wf(l,o.frames),!0};return{nodes:t.beside?[s]:[...xf(t,e),s],
update:i}}var bf={before:"before",after:"after",difference:"change"};function xf({maps:t,selection:e},n){if(!e.panel||t.
length<2)return[];let o=[...t.map(({role:r})=>[r,bf[r]]),["","side by side"]];return[p("div",{className:"toggles panels"},
o.map(([r,s])=>{let a=p("button",{type:"button",textContent:s});return a.setAttribute("aria-pressed",String(r===e.panel)),
a.addEventListener("click",()=>n({panel:r})),a}))]}function Za(t,e){let n=Or(t,e);return{groups:n.frames.map(r=>({x:r.x,
y:r.y,pictures:r.pictures,nodes:[...Zo(t,r),...tr(t,r),...r.rows.mark(t.row),...r.columns.mark(t.column),...er(t,r),k("g",
{class:"marks"},Nr(t,r,null))]})),width:n.width,height:n.height}}var yf="Rows: layers, columns: heads. Each small map has its own scale.",et={label:26,head:18,gap:3,largest:110,smallest:22};
function Ja({data:t,selection:e}){return Bt(U(t,e)[1])?e.cells:"none"}function Ar(t){let{data:e,selection:n}=t,{channels:o}=U(
e,n)[1],r=yt(e,n),s=r.filter((a,i)=>!ur(o[i]));return Ja(t)==="others"&&s.length?s:r}function Qa(t){let e=Ar(t).length<yt(
t.data,t.selection).length;return yf+(e?" The residual brings each token only its own, so it has no shares of the others\
 and no column.":"")}function ti({selection:t}){return["run","cells","range","root","words","hide","block",...t.block?[]:
["scope"]]}function kf(t,e,n,o,r){let{data:s}=t,a=`layer ${o}, ${s.channels.get(n).name}`,i=p("button",{type:"button",className:"\
grid-cell",title:a});return i.setAttribute("aria-label",a),Object.assign(i.style,{width:`${r}px`,height:`${r}px`}),i.addEventListener(
"click",()=>e({layer:o,scope:n,ref:"",view:"maps"})),i}function ei(t,e){return Math.max(et.smallest,Math.min(et.largest,
Math.floor((e-et.label-8)/t)-et.gap))}function Er(t,e){return t.channels.get(e).name.replace(/^head /,"")}function ni(t,e,n){
let{data:o}=t,r=Ar(t),s=ei(r.length,n),a=o.layers.map(h=>r.map(d=>({layer:h,key:d,button:kf(t,e,d,h,s)}))),i=a.map(h=>p(
"div",{className:"grid-line"},[p("span",{className:"grid-layer",textContent:h[0].layer}),...h.map(({button:d})=>d)])),l=p(
"div",{className:"grid-line grid-heads"},[p("span",{className:"grid-layer"}),...r.map(h=>{let d=p("span",{className:"gri\
d-head",textContent:Er(o,h)});return d.style.width=`${s}px`,d})]),u=a.flat();Ia(t,u.map(({layer:h,key:d,button:m})=>()=>m.
append(Xa(t,h,d,s,s))),()=>l.isConnected);let c=h=>{for(let{button:d,key:m,layer:g}of u)d.classList.toggle("current",g===
h.selection.layer&&m===h.selection.scope)};return{nodes:[p("div",{className:"toggles"},[fr(t,e)]),p("p",{className:"note",
textContent:`${Qa(t)} A click opens a map.`}),p("div",{className:"grid"},[l,...i])],update:c}}function oi(t,e){let{data:n,
palette:o}=t,r=Ar(t),s=Math.min(ei(r.length,e)+et.gap,(e-et.label)/r.length,t.room?(t.room-et.head)/n.layers.length:1/0),
[a,i]=[s-et.gap,Tt(s)],l=n.layers.flatMap((m,g)=>r.map((b,x)=>{let y=sn(t,m,b);return{picture:Cn(y,y.map),x:et.label+x*s,
y:et.head+g*s,width:a,height:a}})),u={"font-size":10,fill:o.grey},c=n.layers.flatMap((m,g)=>g%i?[]:[O(m,et.label-6,et.head+
g*s+a/2+4,{...u,"text-anchor":"end"})]),f=Math.max(...r.map(m=>F(Er(n,m),10)))>s,h=r.map((m,g)=>{let b=et.label+g*s+a/2;
return f&&g%i?O("",b,0):O(B(Er(n,m),10,Math.max(s,24)),b,et.head-5,{...u,"text-anchor":"middle"})}),d=l.map(({x:m,y:g})=>k(
"rect",{x:m,y:g,width:a,height:a,fill:"none",stroke:o.line,"stroke-width":.5}));return{groups:[{x:0,y:0,pictures:l,nodes:[
...c,...h,...d]}],height:et.head+n.layers.length*s}}function ri(t){let{data:e,selection:n}=t,[o,r]=U(e,n),s=Ja(t);return{
headline:`Every layer and head: ${r.title}.`,meaning:`Each small map is a head of a layer; each of its cells: ${Co(r,s)}\
.`,place:"all layers",shown:`${r.title}, all heads`,remark:"",note:Qa(t),exact:r.exact,method:"",file:["all-layers",`hea\
ds-${o}`.slice(0,60),s]}}function si(t){let e=U(t.data,t.selection)[1].channels.map((n,o)=>o);return Mr(t,e,t.data.layers)}var I={left:34,gap:26,smallest:4,largest:20,few:96,lowest:330,wide:640,framed:330,around:320,head:20,enough:330,legend:190,
banded:7,least:1.5},Yt={width:13,gap:12},zt={most:6,each:15,radius:6,least:.03},ue={widest:7,thinnest:1,named:3,sag:.16,
apart:9,reach:12};function Wt(t){return Oe(t,0).length>0}function ui(t){return Wt(t)||P(t)&&t.layered&&t.layers.length>1}
function fi({data:t,selection:e}){let n=["run","block","words","hide","zoom","range","root"];return Wt(t)?n:[...n,"scope",
"ref","refRun","read","cells",e.read==="row"?"to":"from"]}function $f(t,e,n){let o=t.room?(t.room-150-(n?80:0))*e/(e+n):
st?I.framed:Math.max(I.lowest,window.innerHeight-I.around);return Math.max(I.smallest,Math.min(e>13?I.largest:I.few,o/e))}
function hi(t){let[e,n]=Object.entries(t.data.runs[t.selection.run].blocks).find(([,{exact:o,tracks:r,axis:s}])=>o&&s===
"scope"&&r&&r.length)||["",null];return n?n.tracks[0].columns.map(o=>({...o,name:e,values:n.tracks[0].values[o.channel]})):
[]}function di(t,e){let{window:[,,n,o]}=t,{strip:r,heads:s,neurons:a}=Ys(t),i=hi(t),l=I.left+(i.length?i.length*Yt.width+
Yt.gap:0),u=l+(r?H.gap+H.width:0)+8,c=s?Math.max(6,Math.min(I.head,e/3/s)):0,f=a?I.gap+zt.most*zt.each:0,h=(s?I.gap+c*s:
0)+f,d=h>0&&e-u-h>=I.enough,m=e-u-(d?h:0),g=Math.min(Math.max(xt.largest,I.wide/(o-n+1)),m/(o-n+1));return{changes:i,heads:s,
left:l,beyond:u,across:c,dots:f,further:h,beside:d,wide:g}}function mi(t,e){let{window:[,,n,o]}=t,r=Xs(t),s=r.rows.length,
{changes:a,heads:i,left:l,beyond:u,across:c,dots:f,further:h,beside:d,wide:m}=di(t,e),g=t.data.layers.length&&r.block?s-
1:s,b=h>0&&!d,x=$f(t,s,b?g:0),y={width:m,height:x},v={labels:z(t)},$=8+mn(t,Go(t,v),_.column,Kt(y.width)),C={left:l,top:$,
cell:y,across:y.width*(o-n+1),down:x*s,map:v},N=$+C.down+(r.before?48:34),T=d?c:Math.min(I.head,(e-I.left-f-8)/Math.max(
1,i)),L={left:d?C.across+u-8+I.gap:I.left,top:d?$:N+36,cell:{width:T,height:x},across:T*i,down:x*g},S=f?{...L,left:L.left+
L.across+(i?I.gap:0),across:zt.most*zt.each}:null;return{width:Math.max(C.left+C.across+u-l,...h?[L.left+L.across,S?S.left+
S.across:0]:[]),stream:r,lines:g,frame:C,heads:i,headFrame:L,neuronFrame:S,beside:d,changes:a,strip:r.strip?C.left+C.across+
H.gap:null,height:b?L.top+L.down+8:N}}function We({frame:t}){return t.cell.width>=I.banded}function pi(t){return na(t,di(
t,t.width).wide>=I.banded)}function gi(t,e){let{stream:n,lines:o,frame:r,headFrame:s,heads:a,strip:i,changes:l}=e,{root:u}=t.
selection,[,,c,f]=t.window,h=(m,g,b,x)=>({root:u,...x,cells:m,nColumns:g,window:[0,b-1,0,g-1]}),d=We(e)?[]:[{picture:{root:u,
scale:n.scale,cells:n.cells,limit:n.limit,nColumns:t.axes.nColumns,window:[0,n.rows.length-1,c,f]},x:r.left,y:r.top,width:r.
across,height:r.down}];if(l.length){let m=new Float32Array(o*l.length).fill(NaN);l.forEach(({values:x},y)=>t.data.layers.
forEach((v,$)=>{m[n.layers.indexOf(v)*l.length+y]=x[$]===null?NaN:x[$]}));let[g,b]=[l.length*Yt.width,r.cell.height*o];d.
push({picture:h(m,l.length,o,{scale:"contribution",root:1,limit:E(m)}),x:I.left,y:r.top,width:g,height:b})}if(i!==null&&
d.push({picture:h(n.strip.values,1,n.rows.length,n.strip),x:i,y:r.top,width:H.width,height:r.down}),a){let{values:m,least:g,
limit:b,scale:x}=n.heads,y=Float32Array.from(m.flat(),v=>x==="signed"?v:Math.max(0,v-g));d.push({picture:h(y,a,o,{scale:x,
limit:b-g}),x:s.left,y:s.top,width:s.across,height:s.down})}return d}var ai=.25;function wi({palette:t,selection:e},n,o,r){
return tt(t,Math.sign(n)*(ai+(1-ai)*_t(n,o,e.root)),1,r)}function Mf(t,e){if(!We(e))return[];let{frame:n,stream:{rows:o,
before:r,ends:s,limit:a,scale:i}}=e,{palette:l,selection:u}=t,[,,c,f]=t.window,h=m=>a>0?_t(m,a,u.root)*(n.cell.width-1):
0,d=[];return o.forEach((m,g)=>{for(let b=c;b<=f;b++){let x=m[b],y=r?Math.min(x,r[g][b]):x,[v,$]=[h(y),h(r?Math.max(x,r[g][b]):
x)];if(!($>=I.least))continue;let C=n.left+(b-c+.5)*n.cell.width,N=(L,S)=>W(C-L/2,n.top+g*n.cell.height,L,n.cell.height,
S),T=[...r?[N($,l[x>y?"gain":"loss"])]:[],N(v,wi(t,y,a,i).hex)];if(s){let[L,S]=s.map(Zt=>Zt[g][b]);L<=0&&S>=0&&Object.entries(
{fill:l.paper,stroke:l[x<0?"loss":"gain"]}).forEach(([Zt,vl])=>T[0].setAttribute(Zt,vl));let[ot,it]=[L,S].map(Zt=>C+(Math.
sign(Zt)===Math.sign(x)?h(Zt)/2:0)),jn=n.top+(g+.5)*n.cell.height;T.push(k("path",{d:`M${ot} ${jn}H${it}M${ot} ${jn-3}v6\
M${it} ${jn-3}v6`,stroke:l.ink,fill:"none",class:"whisker"}))}T[0].dataset.share=`${g},${b}`,d.push(...T)}}),d}function vf(t,e){
let{frame:n,stream:{block:o,limit:r}}=e;if(!o)return{reach:[],drawn:[]};let{palette:s}=t,[,,a,i]=t.window,l=d=>n.left+(d-
a+.5)*n.cell.width,u=[],c=new Map,f=[],h=ta(t,o,r).filter(({from:d,to:m})=>Math.min(d,m)>=a&&Math.max(d,m)<=i).map((d,m)=>{
let g=[d.layer,d.from,d.to].join(),b=c.get(g)??0;c.set(g,b+1);let[x,y]=[l(d.from),l(d.to)],v=n.top+(d.layer+.5)*n.cell.height,
$=Math.min(v+n.cell.height+2*Math.min(60,ue.sag*Math.abs(y-x)),2*(n.top+n.down)-v)+b*ue.apart,C=s[d.share<0?"loss":"gain"],
N=Math.max(ue.thinnest,ue.widest*Math.min(1,Math.abs(d.share)/r)),T=`M${x} ${v}Q${(x+y)/2} ${$} ${y} ${v+n.cell.height}`,
L=k("path",{d:T,fill:"none",stroke:C,"stroke-width":N,"stroke-opacity":.8,"stroke-linecap":"round",class:"arc"});return L.
dataset.arc=String(m),f.push(Object.assign(k("path",{d:T,fill:"none",stroke:"transparent","stroke-width":Math.max(ue.reach,
N)}),{arc:d})),u.length<ue.named&&u.push(Cf(t,n,d,(x+y)/2,(v+$+n.cell.height/2)/2+4,C,u)),Object.assign(L,{arc:d})});return{
reach:f,drawn:[...h.reverse(),...u.filter(Boolean)]}}function Cf(t,e,n,o,r,s,a){let{layer:i,head:l,share:u}=n,c=`L${i}H${l}\
 ${A(u,!1)}`,f=F(c,11)*Te,h=Math.max(e.left+f/2+2,Math.min(e.left+e.across-f/2-2,o)),d=Math.min(r,e.top+e.down-4);if(a.filter(
Boolean).some(({at:x})=>Math.abs(x.y-d)<13&&Math.abs(x.x-h)<(x.wide+f)/2+4))return null;let g={"font-size":11,"font-weig\
ht":700,"text-anchor":"middle",fill:s},b=[W(h-f/2-2,d-10,f+4,13,t.palette.paper),O(c,h,d,g)];for(let x of b)Object.assign(
x,{arc:n});return Object.assign(k("g",{class:"arc-name"},b),{at:{x:h,y:d,wide:f}})}function Nf(t,{stream:e,neuronFrame:n}){
if(!n)return[];let{left:o,top:r,across:s,cell:a}=n,i=E(e.neurons.flat().map(([,u])=>u)),l=Math.min(zt.radius,a.height/2);
return e.neurons.flatMap((u,c)=>{let f=r+(c+.5)*a.height,h=k("line",{x1:o,x2:o+s,y1:f,y2:f,stroke:t.palette.hatch}),d=u.
filter(([,m])=>Math.abs(m)>=zt.least*i).slice(0,zt.most).map(([m,g],b)=>{let x=k("circle",{cx:o+(b+.5)*zt.each,cy:f,r:Math.
max(1,l*Math.sqrt(Math.abs(g)/(i||1))),fill:t.palette[g<0?"loss":"gain"]});return Object.assign(x,{neuron:{layer:c,neuron:m,
share:g}})});return[h,...d]})}function ii(t,e,n,o,r){let{palette:s,selection:a}=t,{height:i}=e.frame.cell,l=Math.max(1,Math.
ceil(11/i)),{layers:u,names:c}=e.stream,f=u.indexOf(a.layer);return Array.from({length:r},(h,d)=>d).flatMap(h=>{let d=h===
f;if((h%l||!d&&Math.abs(h-f)<l)&&!d)return[];let g={"text-anchor":"end","font-size":11,fill:d?s.ink:s.grey,"font-weight":d?
700:400};return[O(c[h],n-5,o+(h+.5)*i+4,g)]})}function bi(t,e){let{palette:n}=t,{stream:o,frame:r,headFrame:s,heads:a,strip:i,
neuronFrame:l}=e,u={"font-size":11,fill:n.grey},c=(d,m,g,b)=>k("rect",{x:d,y:m,width:g,height:b,fill:"none",stroke:n.line}),
f=vf(t,e),h=[O("layer",0,r.top-5,u),c(r.left,r.top,r.across,r.down),...Ef(t,e),...Lf(t,e),...f.reach,...Mf(t,e),...Af(t,
e),...Of(t,e)];if(i!==null&&h.push(mt(o.strip.name,i+H.width-2,r.top-5,u),c(i,r.top,H.width,r.down)),a){let d=Math.max(1,
Math.ceil(16/s.cell.width));h.push(O(o.heads.words,s.left,s.top-20,u),c(s.left,s.top,s.across,s.down));for(let m=0;m<a;m+=
d)h.push(O(o.heads.names[m],s.left+(m+.5)*s.cell.width,s.top-5,{...u,"text-anchor":"middle"}))}return l&&h.push(O("large\
st neurons",l.left,l.top-20,u),...Nf(t,e)),[...h,...f.drawn]}function Of(t,{frame:e,changes:n,lines:o}){if(!n.length)return[];
let r=k("rect",{x:I.left,y:e.top,width:n.length*Yt.width,height:e.cell.height*o,fill:"none",stroke:t.palette.line}),s=n.
map(({label:i,words:l},u)=>{let c=mt(i,I.left+(u+.5)*Yt.width+4,e.top-5,{"font-size":10,fill:t.palette.grey});return c.append(
k("title",{},[l])),c}),a=Math.max(...n.map(({label:i})=>F(i,10)))+12;return[r,...s,O("change",I.left,Math.max(10,e.top-a),
{"font-size":11,fill:t.palette.grey})]}function Nn(t){return Wt(t.data)?D(t):t.selection.read==="row"?t.column:t.axes.own[t.
row]}function Lf(t,{frame:e}){let[,,n,o]=t.window;return Array.from({length:o-n+1},(s,a)=>n+a).filter(s=>zo(t,s)).map(s=>W(
e.left+(s-n)*e.cell.width,e.top,e.cell.width,e.down,Qo))}function Ef(t,e){let{frame:n}=e;if(!We(e))return[];let[,,o,r]=t.
window;return Array.from({length:r-o+1},(a,i)=>n.left+(i+.5)*n.cell.width).map(a=>k("line",{x1:a,x2:a,y1:n.top,y2:n.top+
n.down,stroke:t.palette.hatch}))}function Af(t,{frame:e,stream:{limit:n,top:o,scale:r,before:s,unit:a,asShare:i}}){let l=We(
{frame:e})?gn(t,{scale:r},x=>wi(t,x,1,r)):gn(t,{scale:r}),[u,c]=[e.top+e.down+8,Math.min(I.legend,e.across)],f={x:e.left,
y:u,width:c,height:9},h=(x,y,v)=>[W(v,b,10,9,t.palette[x]),O(y,v+14,b+9,{"font-size":11,fill:t.palette.ink})],d=t.selection.
run===t.selection.refRun?"more than before":"more",m=e.across-c>190,[g,b]=m?[e.left+c+16,u]:[e.left,u+26];return[k("defs",
{},[l]),k("rect",{...f,fill:`url(#${l.id})`,stroke:t.palette.line,class:"legend"}),...Jo(t,f,{limit:n,top:o,scale:r},(x,y)=>Y(
x,!!i)+(y?a:"")),...s&&We({frame:e})?[...h("gain",d,g),...h("loss","less",g+28+F(d,11))]:[]]}function xi(t,e,n){let{palette:o,
selection:r}=t,{stream:s,frame:a,headFrame:i,heads:l,neuronFrame:u}=e,c=s.layers.indexOf(r.layer),f=({left:g,top:b,across:x,
cell:y})=>ht(g,b+c*y.height,x,y.height,o.mark),h=[f(a),...u?[f(u)]:[],...ce(t,a,Nn(t),o.mark)];if(n&&n.column!==void 0&&
h.push(...ce(t,a,n.column,o.read)),!l)return h;let d=Io(l,r),m=d<0?[]:[ht(i.left+d*i.cell.width,i.top+c*i.cell.height,i.
cell.width,i.cell.height,o.mark)];return[...h,f(i),...m]}function li(t,e,n,o){let r=o.getBoundingClientRect(),[s,a]=[n.clientX-
r.left,n.clientY-r.top],i=({left:v,top:$,across:C,down:N})=>s>=v&&s<v+C&&a>=$&&a<$+N,{stream:l,lines:u,frame:c,headFrame:f,
heads:h,strip:d,changes:m,neuronFrame:g}=t,{arc:b,neuron:x}=n.target;if(b)return b;if(x)return x;let y=({top:v,cell:$})=>({
row:Math.floor((a-v)/$.height),layer:l.layers[Math.floor((a-v)/$.height)]});return i(c)?{...y(c),column:e.window[2]+Math.
floor((s-c.left)/c.cell.width)}:d!==null&&i({...c,left:d,across:H.width})?{...y(c),strip:!0}:m.length&&i({...c,left:I.left,
across:m.length*Yt.width,down:u*c.cell.height})?{...y(c),change:Math.floor((s-I.left)/Yt.width)}:g&&i(g)?y(g):h&&i(f)?{...y(
f),head:Math.floor((s-f.left)/f.cell.width)}:null}function je({axes:t,selection:e},n){let o=t.columns[n].position,r=t.rowOf(
o);return e.read==="row"&&r>=0?{to:t.rows[r].position}:{from:o,read:"column"}}function yi({data:t,axes:e,selection:n},o){
let{position:r}=e.columns[o];return n.read==="row"?{from:r}:t.queries.includes(r)?{to:r}:{}}function Sf(t,e){let{name:n,
channel:o,ref:r}=hi(t)[e];return{scope:V(t.data,n,o),ref:r?V(t.data,n,r):""}}function Tf(t,{layer:e,column:n,head:o,query:r,
key:s,neuron:a,change:i}){let l=t.data.layers.includes(e)?{layer:e}:{};n!==void 0&&Object.assign(l,Wt(t.data)?je(t,n):yi(
t,n)),i!==void 0&&Object.assign(l,Sf(t,i)),a!==void 0?l.neuron=t.selection.neuron===a&&e===t.selection.layer?-1:a:"layer"in
l&&e!==t.selection.layer&&(l.neuron=-1);let u=r===void 0&&e===t.selection.layer&&t.selection.heads===String(o);return o!==
void 0&&(l.heads=u?"":String(o)),r!==void 0&&t.data.queries.includes(r)&&Object.assign(l,{to:r,from:s,read:"row"}),l}function Rf(t,{
before:e,ends:n,rows:o,unit:r,asShare:s,block:a,strip:i},l,u){let c=o[l][u];if(zo(t,u))return a?"comes after the target \
is read":"comes later: no earlier token can take from it";if(Number.isNaN(c))return t.hidden.has(u)?"hidden":u===D(t)?`t\
he token itself${i?": see the column “own”":""}`:"not among these";let f=h=>a?A(h,!1)+r:s?q(h):R(h);return n?`${f(c)}\
, 95 % interval ${n.map(h=>f(h[l][u])).join(" to ")}`:e&&!a?`${f(e[l][u])} → ${f(c)} (${A(c-e[l][u],s)})`:f(c)}function ci(t,{
stream:e,changes:n},{row:o,layer:r,column:s,head:a,query:i,key:l,neuron:u,share:c,change:f,strip:h}){let{block:d,unit:m}=e,
b=J("layer",r===null?"end":`${r}${d&&a===void 0&&f===void 0?", its input":""}`),x=v=>p("div",{textContent:A(v,!1)+m}),y=v=>Et(
t,z(t)[t.axes.columnOf[v]],v);return i!==void 0?[J("head",`L${r}H${a}`),J("from",y(l)),J("to",y(i)),x(c)]:u!==void 0?[J(
"neuron",`L${r}N${u}`),x(c)]:a!==void 0?[J("head",`L${r}H${e.heads.names[a]}`),d?x(e.heads.values[o][a]):p("div",{textContent:`${e.
heads.words}: ${q(e.heads.values[o][a])}`})]:f!==void 0?[b,J("",`${n[f].words}: ${ie(n[f].values[t.data.layers.indexOf(r)]??
null)}`)]:h&&!d?[b,J("its own share",q(e.strip.values[o]))]:h?[b,...d.biases.filter(([,v])=>v===o).map(([v,,$])=>J("bias",
`${v} ${A($,!1)}`))]:s===void 0?[b]:[b,J(d?"token":t.selection.read==="row"?"from":"to",Et(t,z(t)[s],t.axes.columns[s].position)),
p("div",{textContent:Rf(t,e,o,s)})]}function zf(t,e,n){let{data:o,selection:r,axes:s}=t,a=o.layers.indexOf(r.layer),i=Nn(
t),l=c=>Wt(o)?je(t,c):yi(t,c),u={ArrowUp:()=>a>0&&e({layer:o.layers[a-1]}),ArrowDown:()=>a<o.layers.length-1&&e({layer:o.
layers[a+1]}),ArrowLeft:()=>i>0&&e(l(i-1)),ArrowRight:()=>i<s.nColumns-1&&e(l(i+1)),Home:()=>e({layer:o.layers[0]}),End:()=>e(
{layer:o.layers[o.layers.length-1]})};!(n.key in u)||n.altKey||(n.preventDefault(),n.stopPropagation(),u[n.key]())}function Wf(t,e,n,o){
t.addEventListener("pointermove",r=>{let s=o(),a=li(e,s,r,t),i=w("tooltip");i.hidden=!a,s.hover(a&&a.column!==void 0?{column:a.
column}:null),a&&(i.replaceChildren(...ci(s,e,a)),se(i,r.clientX,r.clientY))}),t.addEventListener("pointerleave",r=>{r.pointerType!==
"touch"&&(w("tooltip").hidden=!0),o().hover(null)}),t.addEventListener("click",r=>{let s=li(e,o(),r,t);r.pointerType==="\
touch"&&s&&(w("tooltip").hidden=!1,w("tooltip").replaceChildren(...ci(o(),e,s)),se(w("tooltip"),r.clientX,r.clientY)),s&&
n(Tf(o(),s))}),t.addEventListener("keydown",r=>zf(o(),n,r))}function jf(t,e,n,o){let r=At(t,e.entering),s=E(r),a=z(t),i=Array.
from(r,(u,c)=>{let f=t.axes.columns[c].members.map(g=>Le(t.data,g)).find(Boolean),h=f&&t.data.runs[0].blocks[f.block]===
e?"this":Number.isNaN(u)?f?"why?":"–":A(u,!1),d=`${a[c]} · position ${t.axes.columns[c].position}: ${h}${St(e)}`,m=Be(
a[c],h,d,Number.isNaN(u)||s===0?null:tt(t.palette,u,s,"signed",t.selection.root));return m.classList.toggle("later",Number.
isNaN(u)&&h!=="this"),m.classList.toggle("cell",h==="this"),m.addEventListener("click",()=>n(f||je(o(),c))),m}),l=p("ol",
{className:"tokens shared"},i);return l.setAttribute("aria-label",`what each token brings to the ${e.target}`),l.tabIndex=
0,l.classList.toggle("long",i.length>20),{host:l,chips:i}}function Ff(t,e){let{data:n,selection:o}=t,r=Oe(n,o.run);if(r.
length<2||r.every(([,{position:a}])=>a!==void 0))return[];let s=p("select",{autocomplete:"off"},r.map(([a,i])=>X(a,`${i.
target} (${i.rules})`)));return s.value=r.find(([,a])=>a===K(n,o))[0],s.setAttribute("aria-label","target"),s.addEventListener(
"change",()=>e(Le(n,n.runs[o.run].blocks[s.value].position)||{block:s.value})),[p("div",{className:"toggles"},[s])]}function ki(t,e,n){
let o=t,r=()=>o,s=mi(t,n),{stream:{block:a}}=s,[i,l]=[k("g"),k("g")],u=gi(t,s).map(({picture:x,x:y,y:v,width:$,height:C})=>vt(
ut(x,t.palette,$*t.ratio,C*t.ratio),y,v,$,C)),c=pn(t,s.frame),f=k("svg",{width:n,height:s.height,"aria-hidden":"true"},[
le(t.palette),...bi(t,s),...c.nodes,i,l]),h=p("div",{className:"logit",tabIndex:0},[...u,f]);h.setAttribute("role","appl\
ication"),Wf(h,s,e,r);let d=a?jf(t,a,e,r):null,m=x=>{o=x,h.setAttribute("aria-label",`Layers by tokens, arrow keys choos\
e. ${a?Ee(x):Wo(x).headline}`),i.replaceChildren(...c.mark(Nn(x)),...$i(x,s)),d&&d.chips.forEach((v,$)=>v.setAttribute("\
aria-current",String($===D(x))));let y=v=>l.replaceChildren(...xi(x,s,v));x.marked.push(y),y(null)};if(!a)return{nodes:[
h],update:m};let g=Ho(t,1/(s.frame.cell.width*t.ratio));return{nodes:[...Ff(t,e),d.host,h,p("details",{className:"note"},
[p("summary",{textContent:"What is drawn"}),p("p",{textContent:`${Fo(a)}. ${g}`})])],update:m}}function $i(t,e){let{stream:n,
lines:o,frame:r,headFrame:s,heads:a,beside:i}=e,l=(a||e.neuronFrame)&&!i;return[...ii(t,e,I.left,r.top,n.rows.length),...l?
ii(t,e,s.left,s.top,o):[]]}function Mi(t,e){let n=mi(t,e),o=pn(t,n.frame),r=[...bi(t,n),...o.nodes,...o.mark(Nn(t)),...$i(
t,n),...xi(t,n,null)];return{groups:[{x:0,y:0,pictures:gi(t,n),nodes:r}],width:n.width,height:n.height}}var vi=6;function If(t,e,n,o,r){return p("tr",{},[p("td",{},[e]),p("td",{},[fn(Math.abs(n)/(o||1),Ao(t,{scale:"signed"},
n))]),p("td",{textContent:A(n,!1)}),...r.map(s=>p("td",{textContent:Number.isNaN(s)?"–":A(s,!1)}))])}function On(t,e,n,o,r){
let s=Math.max(0,...e.map(({share:c})=>Math.abs(c))),a=ke(t.data).filter(({tables:c})=>c[o]),i=(c,f="")=>p("th",{textContent:c,
scope:"col",title:f}),l=a.length?[p("tr",{},[p("td"),p("td"),i("contributes"),...a.map(({short:c,target:f})=>i(c,f))])]:
[],u=c=>a.map(f=>Je(f,o,...r(c)));return p("table",{className:a.length?"profile measured":"profile"},[...l,...e.map(c=>If(
t,n(c),c.share,s,u(c)))])}function Ln(t,e,n){let o=p("button",{type:"button",className:"plain"},t);return o.addEventListener(
"click",()=>n(e)),o}function _f(t,e,n){let{data:o,selection:r}=t,s=Po(e,r.layer),a=_o(e,r)<0?s.length&&s[0].head:_o(e,r),
i=(e.edges[`${r.layer},${a}`]||[]).filter(([,,f])=>f!==0);if(!i.length)return[];let l=o.runs[r.run].tokens,u=({query:f,key:h})=>Ln(
[p("bdi",{textContent:l[h]}),` (${h}) → `,p("bdi",{textContent:l[f]}),` (${f})`],o.queries.includes(f)?{to:f,from:h}:{
from:h,read:"column"},n),c=i.map(([f,h,d])=>({query:f,key:h,share:d}));return[p("p",{className:"note",textContent:`Head ${a}\
 carries most from → to:`}),On(t,c,u,"cell",({query:f,key:h})=>[r.layer,a,f,h])]}function Pf(t,e,n){let{data:o,selection:r}=t,
s=e.neurons[r.layer]||[];if(!s.length)return[];let a=Object.entries(o.runs[r.run].blocks).filter(([,{kind:c}])=>c==="mem\
ory"),i=c=>{let f=a.find(([,{memory:h}])=>h===`${r.layer}:${c}`);return f?{view:"memories",block:f[0]}:{neuron:c}},l=({neuron:c})=>{
let f=Ln([`L${r.layer}N${c}`],i(c),n);return c===r.neuron&&f.setAttribute("aria-current","true"),f},u=s.map(([c,f])=>({neuron:c,
share:f}));return[p("p",{className:"note",textContent:`Largest neurons of layer ${r.layer}, over all positions:`}),On(t,
u,l,"neuron",()=>[])]}function Ci(t,e){let{data:n,selection:o}=t,r=K(n,o);if(!r)return[];let{layer:s}=o,a=z(t),i=({column:d})=>Ln(
[p("bdi",{textContent:a[d]}),ct(t,d)],je(t,d),e),l=({head:d})=>Ln([`head ${d}`],{heads:String(d)},e),u=Po(r,s).slice(0,vi),
c=t.axes.columns[D(t)].position,h=ke(n).some(({tables:d})=>d.head&&d.head.axes.length>2)?`; replaced at ${rt(t,D(t))} al\
one`:"";return[p("section",{className:"card logit-card"},[p("h3",{},["To ",p("bdi",{textContent:jo(r)})]),p("p",{textContent:Ee(
t)}),p("p",{className:"note",textContent:Js(r,s)}),On(t,Qs(t,s,vi),i,"residual",({column:d})=>[s,t.axes.columns[d].position]),
...u.length?[p("p",{className:"note",textContent:`What the heads of layer ${s} write, over ${r.ends?"these":"all"} posit\
ions${h}:`}),On(t,u,l,"head",({head:d})=>[s,d,c])]:[],..._f(t,r,e),...Pf(t,r,e),p("p",{className:"note",textContent:r.certificate})])]}var Sr={faintest:.02,triggers:5};function An(t,e){return Object.entries(t.runs[e].blocks).filter(([,n])=>n.kind==="memor\
y")}function Tr(t,e){let n=An(t,e.run);return n.find(([o])=>o===e.block)||n[0]}function Ei(t,e,n,o,r){let{palette:s}=t,a=p(
"span",{className:"chip"},[p("bdi",{textContent:e})]),i=[o,r].filter(u=>u&&Number.isFinite(u.value));a.title=[`${e} · po\
sition ${n}`,...i.map(u=>`${u.name} ${A(u.value,!1)}`)].join(" · ");let l=u=>u&&Number.isFinite(u.value)&&u.limit&&Math.
abs(u.value)>=Sr.faintest*u.limit?tt(s,u.value,u.limit,"signed"):null;return pe(a,l(o),l(r)),a}function Fe(t,e){let n=E(
e.map(Math.abs));return e.map(o=>({name:t,value:o,limit:n}))}function En(t,e){let n=p("div",{className:"tokens"},t);return n.
setAttribute("role","group"),n.setAttribute("aria-label",e),n.classList.toggle("long",t.length>40),n}function Ie(t,e){return p(
"section",{className:"memory-part"},[p("h2",{textContent:t}),...e])}function jt(t){return p("p",{className:"note",textContent:t})}
function Bf(t,e,n){let o=An(t,e.run),r=p("select",{},o.map(([s,a])=>X(s,`memory ${a.memory}`)));return r.autocomplete="o\
ff",r.value=Tr(t,e)[0],r.setAttribute("aria-label","memory"),r.addEventListener("change",()=>n({block:r.value})),p("div",
{className:"toggles"},[r,p("span",{className:"note",textContent:`of ${o[0][1].model}, over ${o[0][1].corpus_texts} texts`})])}
function Hf(t,e){if(!e.value)return Ie("What it writes",[jt("Its value cannot be read as tokens: the model came without \
a trained head.")]);let{top:n,bottom:o,probability:r,reading:s,agreeing:a,followed:i}=e.value,l=(f,h)=>p("p",{className:"\
memory-words"},[`${h} `,...f.map(d=>p("span",{className:"chip"},[p("bdi",{textContent:d})]))]),u=s==="direction"?"by the\
 unembedding alone":"by the model's own read-out",c=i?` ${a} of ${i} triggers are followed by the first of them.`:"";return Ie(
"What it writes",[l(n,"promotes"),l(o,"demotes"),jt(`Its value, read ${u}; the first token has a probability of ${q(r)}.${c}`)])}
function Df(t,e,n){if(!e.text)return[];let{tokens:o,along:r,parts:s,bias:a,carried:i,target:l}=e.text,u=t.selection.to,c=d=>o.
map((m,g)=>{let b=Ei(t,m,g,d[g]);return b.setAttribute("aria-current",String(g===u)),b.addEventListener("click",()=>n({to:g,
read:"row"})),b}),f=p("h2",{},["Its coefficient by token, at ",p("bdi",{textContent:ft(o[u])})]),h=[Ie("Its coefficient \
along this text",[En(c(Fe("coefficient",r)),"coefficient at each token"),jt(`Strongest colour: ${A(r[Ni(r)],!1)} at ${ft(
o[Ni(r)])}.`)]),p("section",{className:"memory-part"},[f,En(c(Fe("brings",s[u])),"what each token brings"),jt(`Parts of \
the tokens of the layer's input in the coefficient ${A(r[u],!1)} at position ${u}; the bias brings ${A(a[u],!1)}, and to\
gether they sum to it.`)])];return i&&h.push(Ie("What it carries to the target",[En(c(Fe("carries",i)),"share of the tar\
get"),jt(`Signed shares of ${l}: ${A(i[u],!1)} from here, ${A(i.reduce((d,m)=>d+m,0),!1)} from all positions.`)])),h}function Ni(t){
return t.reduce((e,n,o)=>Math.abs(n)>Math.abs(t[e])?o:e,0)}function Oi(t,e){let{tokens:n,along:o,parts:r,position:s,coefficient:a,
rank:i,sequence:l}=e,[u,c]=[Fe("brings",r),Fe("coefficient",o)],f=n.map((h,d)=>{let m=Ei(t,h,d,u[d],c[d]);return m.setAttribute(
"aria-current",String(d===s)),m.classList.toggle("later",d>s),m});return p("div",{className:"memory-trigger"},[jt(`${i}.\
 coefficient ${A(a,!1)}, text ${l}`),En(f,`trigger ${i}`)])}function Li(t,e,n){let[o,r]=[n.slice(0,Sr.triggers),n.slice(
Sr.triggers)],s=o.map(a=>Oi(t,a));if(r.length){let a=p("details",{},[p("summary",{textContent:`${r.length} more`})]);a.addEventListener(
"toggle",()=>{a.open&&a.children.length===1&&a.append(...r.map(i=>Oi(t,i)))}),s.push(a)}return Ie(e,s.length?s:[jt("It n\
ever had such a coefficient in these texts.")])}function Ai(t,e){let{data:n,selection:o}=t,[,r]=Tr(n,o);return p("div",{
className:"memory"},[Bf(n,o,e),Hf(t,r),...Df(t,r,e),Li(t,"Triggers: its largest coefficients",r.positive),Li(t,"Its most\
 negative coefficients",r.negative),jt("Orange brings it on or speaks for the target, violet against. In triggers: groun\
d, what a token brings to the coefficient at the framed token; stripe, the coefficient at each token itself.")])}function Si(t){
let[e,n]=Tr(t.data,t.selection);return{headline:"",meaning:"A memory is one neuron of a feed-forward block: what turns i\
t on, by which token, and what it writes.",place:`memory ${n.memory}`,shown:e,remark:"",note:"",exact:!1,method:"",file:[
`memory${n.memory}`]}}var Q={left:46,top:18,label:11};function Wi(t,e,n){return tt(t,e,n,"signed")}function Ti(t){return t.map(e=>e??NaN)}function ji(t){
let[e,n]=[t.length,t[0].length],o={nRows:e,nColumns:n,own:Array(e).fill(-1)};return Ot(o,Float32Array.from(t.flat()),n>=
te?"percentile":"all")}function Fi(t){return new Map(t.map(({note:e})=>[e,ji(t.filter(n=>n.note===e).flatMap(({values:n})=>n))]))}
function Ii(t,e,n=e){let o=p("canvas",{width:121,height:1}),r=o.getContext("2d");for(let a=0;a<121;a++)r.fillStyle=Wi(t,
(a-60)/60,1).hex,r.fillRect(a,0,1,1);o.setAttribute("aria-hidden","true");let s=n>e*1.0001?[p("span",{textContent:`(99th\
 percentile; cells reach ${R(n)})`})]:[];return p("div",{className:"share-scale"},[`−${R(e)}`,o,`+${R(e)}`,...s])}function qf(t,e,n){
let o=E(n),r=e.map((s,a)=>Be(s,A(n[a]),`position ${a}`,Wi(t,n[a]||0,o)));return p("div",{},[p("ol",{className:"tokens sh\
ared"},r),Ii(t,o)])}function _i({values:t},e){let[n,o]=[t.length,t[0].length];return{cells:Float32Array.from(t.flat()),nColumns:o,
window:[0,n-1,0,o-1],scale:"signed",limit:e,root:0}}function Ri(t,e){return[1,2,5,10,20,50,100,200,500].find(n=>n*e>=Q.label+
2)||t}function Vf(t,e){let n=t.match(/@\d+$/)?.[0]??"";return B(t.slice(0,t.length-n.length),Q.label,e-F(n,Q.label))+n}function Pi(t,e){
let[n,o]=[t.rows.length,t.columns.length],r=Math.min(110,Math.max(...[`${t.row} ↓`,...t.rows].map(f=>F(f,Q.label)))+8),
s=Math.max(Q.left,r),a=Math.max(6,Math.min(34,(e-s-8)/o)),i=Math.max(5,Math.min(20,460/n)),l=Math.max(...t.columns.map(f=>F(
f,Q.label))),u=l<a-2,c=u?20:Math.min(90,l)+14;return{left:s,cell:a,tall:i,lying:u,below:c,wide:a*o,high:i*n,height:Q.top+
i*n+c}}function Bi(t,e,{left:n,cell:o,tall:r,lying:s,below:a,wide:i,high:l}){let u=(h,d)=>O(h,0,0,{"font-size":Q.label,fill:t.
grey,...d}),c=[k("rect",{x:n,y:Q.top,width:i,height:l,fill:"none",stroke:t.line})],f=[];for(let h=0;h<e.rows.length;h+=Ri(
e.rows.length,r))f.push(u(B(e.rows[h],Q.label,n-8),{x:n-5,y:Q.top+(h+.5)*r+4,"text-anchor":"end"}));for(let h=0;h<e.columns.
length;h+=Ri(e.columns.length,o)){let[d,m]=[n+(h+.5)*o+(s?0:4),Q.top+l+(s?14:6)],g=s?{"text-anchor":"middle"}:{transform:`\
rotate(-90 ${d} ${m})`,"text-anchor":"end"};c.push(u(s?e.columns[h]:Vf(e.columns[h],a-12),{x:d,y:m,...g}))}return f.push(
u(`${e.row} ↓`,{x:n-5,y:11,"text-anchor":"end"})),c.push(u(`${e.column} →`,{x:n,y:11})),{names:f,nodes:c}}function zi(t,e,n,o,r){
let[s,a]=[e.rows.length,e.columns.length],i=Pi(e,o),{left:l,cell:u,tall:c,wide:f,high:h,height:d}=i,m=Bi(t,e,i),g=k("rec\
t",{fill:"none",stroke:t.mark,"stroke-width":1.5,visibility:"hidden",width:u,height:c}),b=k("g",{class:"share-names"},[W(
0,0,l-1,d,t.paper),...m.names]),x=ut(_i(e,n),t,a,s).toDataURL(),y=k("svg",{width:l+f+6,height:d,tabindex:0,role:"img"},[
k("image",{href:x,x:l,y:Q.top,width:f,height:h,preserveAspectRatio:"none"}),...m.nodes,g,b]);y.setAttribute("aria-label",
`${e.title}; arrow keys choose a cell`);let v=p("p",{className:"share-said",textContent:"Point at a cell, or move to one\
 with the arrow keys."});v.setAttribute("role","status");let $=null,C=(L,S)=>{$=[L,S];for(let[ot,it]of Object.entries({x:l+
S*u,y:Q.top+L*c,visibility:"visible"}))g.setAttribute(ot,it);v.replaceChildren(`${e.row} `,p("bdi",{textContent:e.rows[L]}),
` · ${e.column} `,p("bdi",{textContent:e.columns[S]}),`: ${A(e.values[L][S])}`);for(let[ot,it]of e.details[`${L},${S}`]||
[])v.append(" · ",p("bdi",{textContent:ot}),` ${A(it)}`)},N=L=>{if(L.target.closest(".share-names"))return null;let S=y.
getBoundingClientRect(),[ot,it]=[Math.floor((L.clientX-S.left-l)/u),Math.floor((L.clientY-S.top-Q.top)/c)];return it>=0&&
ot>=0&&it<s&&ot<a?[it,ot]:null};y.addEventListener("pointermove",L=>{let S=N(L);S&&C(...S)}),y.addEventListener("click",
L=>{let S=N(L);S&&(C(...S),r&&r(...S))}),y.addEventListener("keydown",L=>{let S={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[
0,-1],ArrowRight:[0,1]}[L.key];if(L.key==="Enter"&&$&&r&&r(...$),!S)return;L.preventDefault();let[ot,it]=$||[s-1,0];C(Math.
min(s-1,Math.max(0,ot+($?S[0]:0))),Math.min(a-1,Math.max(0,it+($?S[1]:0))))});let T=p("div",{className:"share-map"},[y]);
return T.addEventListener("scroll",()=>b.setAttribute("transform",`translate(${T.scrollLeft})`)),p("div",{},[T,v,Ii(t,n,
E(e.values.map(E)))])}function Kf(t,{title:e,note:n,entries:o}){let r=E(o.map(([,i])=>i)),s=o.map(([i,l])=>{let u=p("spa\
n",{className:"share-bar"});return u.style.width=`${r?Math.round(60*Math.abs(l)/r):0}px`,u.style.background=t[l<0?"loss":
"gain"],p("tr",{},[p("td",{},[p("bdi",{textContent:i})]),p("td",{},[u]),p("td",{textContent:A(l)})])}),a=n?[p("p",{className:"\
note",textContent:n})]:[];return p("section",{className:"share-table"},[p("h2",{textContent:e}),...a,p("table",{},s)])}function Rr(t,e,n,o){
let r=[p("h2",{textContent:t}),p("p",{className:"note",textContent:e}),...n];return p("section",{className:o?"wide":""},
r)}function Uf(t){let e=t.sums.map(([n,o])=>`${n} ${A(o)}`);return`${R(t.value,4)} = ${e.join(" · ")}`}function Hi(t){return Xt(
t,0)!==void 0}function Xt(t,e){let n=Object.values(t.runs[e].blocks).find(({kind:o})=>o==="numbers");if(n&&!n.read){for(let o of n.
rows)o.shares=Ti(o.shares);for(let o of n.maps)o.values=o.values.map(Ti);n.read=!0}return n}function Di(t,{rows:e}){return{
title:"Every token of the continuation",note:"A row has the shares of all tokens before it; with biases they sum to the \
target's value. A click opens its overview.",row:"target",column:"source",rows:e.map(({name:n})=>n),columns:t.runs[0].tokens,
values:e.map(({shares:n})=>n),details:{}}}function Gf({data:t,palette:e},{rows:[n]}){return Rr("What each token brings",
"Signed, in the target's units: what flows in through the embedding of a token, with those of its position and type.",[qf(
e,t.runs[0].tokens,n.shares),p("p",{className:"share-sums",textContent:Uf(n)})],!0)}function qi(t,e,n){let{data:o,selection:r,
palette:s}=t,a=Xt(o,r.run),i=[];if(a.rows.length>1){let c=Di(o,a),f=h=>{let d=Le(o,o.words.length-a.rows.length+h);d&&e(
{...d,view:"overview"})};i.push(Rr(c.title,c.note,[zi(s,c,ji(c.values),n,f)],!0))}else a.rows.length&&i.push(Gf(t,a));let l=n>
1080?(n-28)/2:n,u=Fi(a.maps);for(let c of a.maps)i.push(Rr(c.title,c.note,[zi(s,c,u.get(c.note),c.columns.length>40?n:l,
null)],c.columns.length>40));for(let c of a.tables)i.push(Kf(s,c));return[p("div",{className:"number-blocks"},i)]}function Vi({
data:t,selection:e}){let{heading:n,facts:o}=Xt(t,e.run);return{headline:n,meaning:"",place:"",shown:o||t.heading,remark:"",
note:"",exact:!1,method:"",file:["numbers"]}}function Ki({data:t,selection:e,palette:n},o){let r=Xt(t,e.run),s=[...r.rows.
length>1?[Di(t,r)]:[],...r.maps],a=Fi(s),i=0,l=s.map(u=>{let c=Pi(u,o),{names:f,nodes:h}=Bi(n,u,c),d=[{picture:_i(u,a.get(
u.note)),x:c.left,y:Q.top,width:c.wide,height:c.high}],m=O(u.title,0,-6,{"font-size":12,"font-weight":600,fill:n.ink}),g={
x:0,y:i+22,pictures:d,nodes:[m,...f,...h]};return i+=c.height+34,g});return l.length?{groups:l,height:i}:null}function Ui({
data:t,selection:e}){let n=Xt(t,e.run),o=t.runs[e.run].tokens,r=function*(){for(let{name:a,shares:i}of n.rows)for(let[l,
u]of i.entries())yield["token",a,o[l],u];for(let{title:a,rows:i,columns:l,values:u}of n.maps)for(let[c,f]of u.entries())
for(let[h,d]of f.entries())yield[a,i[c],l[h],d];for(let{title:a,entries:i}of n.tables)for(let[l,u]of i)yield[a,l,"",u]},
s=n.maps.reduce((a,{values:i})=>a+i.length*i[0].length,n.rows.length*o.length);return{head:["part","row","column","value"],
lines:r,count:s}}var Yf=40,Xf=25;function Gi({selection:t}){return[...Ht,"sort","pairs","mass","find",...t.pairs==="token"?["read","to","\
from"]:[]]}function Zf(t,e,n){let{axes:o,maps:r}=t,s=z(t),[a,i]=[o.rows[e.row].position,o.columns[e.column].position],l=p(
"button",{type:"button",className:"plain",title:Pe(t.data,i,a)},[p("bdi",{textContent:s[e.column]}),`${ct(t,e.column)} →\
 `,p("bdi",{textContent:s[o.own[e.row]]}),ct(t,o.own[e.row])]);l.addEventListener("click",()=>n({to:a,from:i}));let c=[...t.
selection.sort==="distance"?[Lo(o,e.index)]:[],...r.map(f=>nt(f,f.cells[e.index],f.asShare))];return p("tr",{},[p("td",{},
[l]),...c.map(f=>p("td",{textContent:f}))])}function Yi(t,e){let{pairs:n,total:o}=Fs(t,t.paper?Xf:Yf),r=Dt(t).map((l,u)=>p(
"th",{scope:"col",textContent:t.maps[u].role==="difference"?"change":l}));t.selection.sort==="distance"&&r.unshift(p("th",
{scope:"col",className:"whole",textContent:"distance"}));let s=n.map(l=>Zf(t,l,e)),a=p("table",{className:"pairs"},[p("t\
head",{},[p("tr",{},[p("th",{scope:"col",textContent:"from → to"}),...r])]),p("tbody",{},s)]);return w("pairs-note").textContent=
o>n.length?`the first ${n.length} of ${o}`:o?`${o} pairs`:"no pair fits",{nodes:[a],update:l=>n.forEach((u,c)=>s[c].classList.
toggle("current",u.row===l.row&&u.column===l.column))}}var j={row:18,smallest:11,printed:3,query:14,label:118,gap:12,number:64,weight:120,percent:46,head:40,wide:620},Jf={vectors:[
"query q, keys k","q, k"],product:["q × k × scale","q × k"],score:["sum: score","score"],bar:["softmax: weight","weig\
ht"],value:["value ‖v W_O‖","‖v W_O‖"],weighted:["weight × ‖v W_O‖","weighted"]};function kt(t,e){return Object.
values(t.runs[e].blocks).find(n=>n.kind==="scores")}function Sn(t,e){let{heads:n}=kt(t,e.run),o=n.indexOf(t.channels.get(
e.scope).name);return o>=0?o:Math.min(n.length-1,Number(e.heads.split(".")[0]||0))}function Qf(t,e,n){let{blockName:o}=t.
channels.get(e.scope),r=V(t,o,kt(t,e.run).heads[n]);return t.channels.has(r)?{scope:r}:{heads:String(n)}}function zr(t,e){
let n=kt(t,e.run),o=n.heads[Sn(t,e)];return[n.query,n.key,n.score,n.weight,...n.value?[n.value]:[]].map(r=>r[o])}function Tn(t){
let{data:e,selection:n}=t,o=kt(e,n.run),r=o.layers.indexOf(n.layer);if(r<0)return null;let[s,a,i,l,u]=zr(e,n).map(y=>e.numbersAt(
y,r)),c=e.queries.indexOf(n.to),[f,h]=[e.words.length,s.length/e.queries.length],d=s.subarray(c*h,(c+1)*h),m=o.scale[r],
g=Float32Array.from(a,(y,v)=>m*y*d[v%h]),b=y=>io(e,y).subarray(c*f,(c+1)*f),x=u&&b(l).map((y,v)=>y*u[v]);return{block:o,
scale:m,size:h,n:f,query:d,keys:a,products:g,scores:b(i),weights:b(l),values:u,weighted:x,most:x?E(x):0}}function Zi(){return[
"run","scope","layer","heads","to"]}function Ji({room:t},e,n){let o=Math.max(t?j.printed:j.smallest,Math.min(j.row,t?(t-
j.head-j.query-8)/(e.n+2):1400/e.n)),r=Math.min(j.label,n/5),s=e.values&&n>=j.wide?1:0,a=n-r-(j.number+j.percent)*(1+s)-
(3+s)*j.gap-8,i=Math.min(j.weight,a/(4+2*s)),l=Math.max(40,Math.min(420,(a-i*(1+s))/2)),u=r+l+j.gap,c=u+l+j.gap,f=c+j.number+
j.gap,h=f+i+j.percent;return{height:o,label:r,strip:l,weight:i,product:u,score:c,bar:f,valued:s,value:h,weighted:h+j.number+
j.gap,y:d=>j.head+Math.max(2*o,j.query)+d*o}}function th(t,e,n,o){return{cells:e,nColumns:t.size,window:[n,o,0,t.size-1],
scale:"signed",limit:E(e),root:0}}function Qi(t,e){let n=(o,r,s,a)=>({picture:th(t,o,0,r-1),x:s,y:a,width:e.strip,height:r*
e.height});return[n(t.query,1,e.label,j.head),n(t.keys,t.n,e.label,e.y(0)),n(t.products,t.n,e.product,e.y(0))]}function eh(t,e,n){
return Qi(e,n).map(({picture:o,x:r,y:s,width:a,height:i})=>vt(ut(o,t.palette,a*t.ratio,i*t.ratio),r,s,a,i))}function tl(t,e){
let{data:n,selection:o,palette:r}=t,s=Math.min(12,Math.max(_.smallest,e.height)),a=B(n.runs[o.run].tokens[o.to],s,e.label-
34),i={"font-size":s,fill:r.ink,"text-anchor":"end","font-weight":700};return[O(`${a} q`,e.label-5,j.head+e.height/2+s*.35,
i),...nh(t,e)]}function nh({palette:t},e){let n={vectors:[e.label,e.strip],product:[e.product,e.strip],score:[e.score,j.
number],bar:[e.bar,e.weight+j.percent]};return e.valued&&Object.assign(n,{value:[e.value,j.number+j.gap],weighted:[e.weighted,
e.weight+j.percent]}),Object.entries(n).map(([o,[r,s]])=>{let[a,i]=Jf[o];return O(F(a,11)<=s?a:i,r,j.head-8,{"font-size":11,
fill:t.grey})})}function oh({palette:t},e,n,o){if(Number.isNaN(e.scores[o]))return[];let r=Math.min(12,Math.max(_.smallest,
n.height)),s=n.y(o)+n.height/2+r*.35,a=e.weighted[o]/(e.most||1)*n.weight;return[W(n.weighted,n.y(o)+Math.min(2,n.height/
8),a,n.height-Math.min(4,n.height/4),t.contribution),O(R(e.values[o]),n.value+j.number-6,s,{"font-size":r,fill:t.ink,"te\
xt-anchor":"end"}),O(R(e.weighted[o]),n.weighted+a+4,s,{"font-size":Math.min(10,r),fill:t.grey})]}function el(t,e,n){let{
palette:o,data:r,selection:s}=t,a=Math.min(12,Math.max(_.smallest,n.height)),i=Tt(n.height),l=r.runs[s.run].tokens,u={"f\
ont-size":a,fill:o.ink},c=f=>n.y(f)+n.height/2+a*.35;return l.flatMap((f,h)=>{let d=!Number.isNaN(e.scores[h]),m=d?[W(n.
bar,n.y(h)+Math.min(2,n.height/8),e.weights[h]*n.weight,n.height-Math.min(4,n.height/4),o.contribution)]:[],g=n.valued?oh(
t,e,n,h):[];return Gt(h,i,s.from)?[...m,...g,O(B(f,a,n.label-34),n.label-30,c(h),{...u,"text-anchor":"end",fill:d?o.ink:
o.line}),O(h,n.label-5,c(h),{"font-size":9,"text-anchor":"end",fill:o.grey}),...d?[O(A(e.scores[h],!1),n.score+j.number-
6,c(h),{...u,"text-anchor":"end"}),O(q(e.weights[h],2),n.bar+Math.max(.01,e.weights[h])*n.weight+4,c(h),{"font-size":Math.
min(10,a),fill:o.grey})]:[]]:[...m,...g.slice(0,1)]})}function Xi(t,e,n,o){let r=o.getBoundingClientRect(),[s,a]=[n.clientX-
r.left,n.clientY-r.top];if(n.target.closest(".heads"))return null;let i=Math.floor((a-e.y(0))/e.height);if(i<0||i>=t.n)return null;
let l=[e.label,e.product].find(u=>s>=u&&s<u+e.strip);return{key:i,dimension:l===void 0?null:Math.floor((s-l)/e.strip*t.size)}}
function nl(t,e){return`value ‖v W_O‖ ${R(t.values[e])}, weighted ${R(t.weighted[e])}`}function rh(t,e,{key:n,dimension:o}){
let{data:r,selection:s}=t,a=r.runs[s.run].tokens,i=[J("to",Et(t,a[s.to],s.to)),J("from",Et(t,a[n],n))],l=n*e.size+o;o!==
null&&i.push(p("div",{textContent:`dimension ${o}: ${R(e.query[o])} × ${R(e.keys[l])} × ${R(e.scale)} = ${A(e.products[l],
!1)}`}));let u=!Number.isNaN(e.scores[n]);return i.push(p("div",{textContent:u?`score ${A(e.scores[n],!1)}, weight ${q(e.
weights[n])}`:"no weight: this key is not seen"})),u&&e.values&&i.push(p("div",{textContent:nl(e,n)})),i}function sh(t,e,n,o,r){
t.addEventListener("pointermove",s=>{let a=Xi(n,o,s,t),i=w("tooltip");i.hidden=!a,a&&(i.replaceChildren(...rh(e,n,a)),se(
i,s.clientX,s.clientY))}),t.addEventListener("pointerleave",()=>{w("tooltip").hidden=!0}),t.addEventListener("click",s=>{
let a=Xi(n,o,s,t);a&&r({from:a.key})})}function ah(t,e){let{data:n,selection:o}=t,{heads:r}=kt(n,o.run),s=p("select",{autocomplete:"\
off"},r.map((a,i)=>X(i,a)));return s.value=String(Sn(n,o)),s.setAttribute("aria-label","head"),s.addEventListener("chang\
e",()=>e(Qf(n,o,Number(s.value)))),p("div",{className:"toggles"},[s,p("span",{className:"note",textContent:`layer ${o.layer}\
; choose the query in the sentence`})])}var ol="Orange adds to the score, violet takes from it; each picture has its own\
 scale.";function rl(t,e,n){return ht(1,e.y(t.selection.from),n-3,e.height,t.palette.mark)}function sl(t){return`A score\
 is the sum of ${t.size} products of query and key, as attention multiplied them, times ${R(t.scale)}. ✓ The softmax of \
these scores is the model's own pattern, ${t.block.error?`to ${ye(t.block.error)}`:"digit for digit"}.${t.values?" ‖v W_\
O‖ is the norm of what a key's value writes through the head; times the weight it is value-weighted attention.":""}`}function al({
data:t,selection:e}){return`Scores are here of layers ${kt(t,e.run).layers.join(", ")} only.`}function il(t,e,n){let o=Tn(
t),r=ah(t,e);if(!o)return[r,p("p",{textContent:al(t)})];let s=Ji(t,o,n),a=k("g"),i=k("svg",{width:n,height:s.y(o.n)+8},[
...el(t,o,s),a]),[l,...u]=eh(t,o,s),c=p("div",{className:"heads"},[l,k("svg",{width:n,height:s.y(0)},tl(t,s))]);i.style.
marginTop=`${-s.y(0)}px`;let f=p("div",{className:"scores"},[c,...u,i]);f.setAttribute("role","img"),f.setAttribute("ari\
a-label","Scores of the selected token's query with every key; the numbers are written next to them."),sh(f,t,o,s,e);let h=d=>a.
replaceChildren(rl(d,s,n));return{nodes:[r,f,p("p",{className:"note",textContent:`${ol} ${sl(o)}`})],update:h}}function ll(t,e){
let n=Tn(t);if(!n)return null;let o=Ji(t,n,e),r=[...tl(t,o),...el(t,n,o),rl(t,o,e)];return{groups:[{x:0,y:0,pictures:Qi(
n,o),nodes:r}],height:o.y(n.n)+8}}function cl(t){let{data:e,selection:n}=t,o=Tn(t),r=kt(e,n.run).heads[Sn(e,n)],s=e.runs[n.
run].tokens,[a,i]=[n.to,n.from].map(c=>`${ft(s[c])} (position ${c})`),u=o&&!Number.isNaN(o.scores[n.from])?`${a} asks ${i}\
: score ${A(o.scores[n.from],!1)}, weight ${q(o.weights[n.from])}${o.values?`, ${nl(o,n.from)}`:""}.`:o?ve(a,i):al(t);return{
headline:`Layer ${n.layer}, ${r}: ${u}`,meaning:"One token's query beside every key: the products of their numbers sum t\
o the score, and the softmax of the scores is what attention gives each key.",place:`layer ${n.layer}`,shown:`attention \
scores, ${r}, query of ${a}`,remark:"",exact:!1,method:"",note:o?`${ol} ${sl(o)}`:"",file:[`layer${n.layer}`,`scores-${r}`.
replaceAll(" ",""),`query${n.to}`]}}function ul(t){let{data:e,selection:n}=t,o=Tn(t);if(!o)return null;let r=kt(e,n.run).
heads[Sn(e,n)],s=e.runs[n.run].tokens,a=Array.from({length:o.size},(l,u)=>u),i=function*(){for(let l=0;l<o.n;l++)Number.
isNaN(o.scores[l])||(yield[n.layer,r,n.to,s[n.to],l,s[l],o.scores[l],o.weights[l],...o.values?[o.values[l],o.weighted[l]]:
[],...a.map(u=>o.products[l*o.size+u])])};return{head:["layer","head",...Ae,"score","weight",...o.values?["value norm","\
value-weighted"]:[],...a.map(l=>`product ${l}`)],lines:i,count:o.n}}function ih(t){let{selection:e,maps:n,axes:o,row:r,column:s}=t,a=d=>ft(z(t)[d]),i=go(t).at(-1),l=wt(t),u=i>0?` Darkest: ${Y(
i,l.asShare,l.scale==="signed")}.`:"",c=e.view==="overview"&&e.run!==e.refRun,f=n.length>1&&!c?` Colour: ${Dt(t)[1]}; un\
derline: ${Dt(t)[0]}.`:"",h=d=>t.data.named?"":` (${Ft(t.data,d)})`;return(e.read==="row"?`Where ${a(o.own[r])}${h(o.rows[r].
position)} takes from.`:`Where ${a(s)}${h(o.columns[s].position)} goes.`)+f+u}function lh(t){let e=p("span",{className:"\
chip",id:`token-${t}`},[p("bdi")]);return e.setAttribute("role","option"),e.dataset.column=t,e}function fl(t){return t.maps.
filter(e=>e.role!=="difference").map(e=>oe(t,e))}function ch(t,e,n,o,r){let{palette:s,maps:a}=t,i=o[o.length-1][n],l=n===
D(t);G(e.firstChild,z(t)[n]),e.setAttribute("aria-selected",String(l)),e.classList.toggle("later",Number.isNaN(i)&&!l),e.
classList.toggle("cell",n===(t.selection.read==="row"?t.column:t.axes.own[t.row]));let u=c=>{let f=o[c][n];return Number.
isNaN(f)?null:tt(s,f,r[c],a[c].scale,t.selection.root)};pe(e,u(o.length-1),o.length>1&&u(0))}function hl(t,e){let n=fl(t),
o=z(t),r=t.maps.filter(s=>s.role!=="difference");Array.from(e.children).forEach((s,a)=>{let i=Ft(t.data,t.axes.columns[a].
position);s.title=`${[o[a],i].filter(Boolean).join(" · ")}: ${n.map((l,u)=>nt(r[u],l[a],r[u].asShare)).join(" → ")}`,
s.setAttribute("aria-label",s.title)})}function uh(t,e,n){let{axes:o,selection:r,data:s}=t,a={ArrowRight:1,ArrowLeft:-1,
PageDown:10,PageUp:-10,Home:-s.words.length,End:s.words.length};if(!(!(n.key in a)||n.altKey))if(n.preventDefault(),n.stopPropagation(),
r.read==="row"){let i=Math.max(0,Math.min(o.nRows-1,t.row+a[n.key]));e({to:o.rows[i].position})}else{let i=Math.max(0,Math.
min(o.nColumns-1,t.column+a[n.key]));e({from:o.columns[i].position})}}function dl(t,e,n){let{axes:o,selection:r}=t;n.children.
length!==o.nColumns&&n.replaceChildren(...Array.from({length:o.nColumns},(i,l)=>lh(l)));let s=fl(t),a=go(t);Array.from(n.
children).forEach((i,l)=>ch(t,i,l,s,a)),n.setAttribute("aria-activedescendant",`token-${D(t)}`),n.classList.toggle("long",
o.nColumns>40),n.onclick=i=>{let l=i.target.closest(".chip");if(!l)return;let u=o.columns[Number(l.dataset.column)].position,
c=o.rowOf(u);i.shiftKey?e(r.read==="row"?{from:u}:c>=0?{to:u}:{}):r.read==="column"||c<0?e({from:u,read:"column"}):e({to:o.
rows[c].position})},n.onkeydown=i=>uh(t,e,i),G(w("sentence-words"),ih(t)),t.marked.push(i=>{let l=i&&(i.column??(i.row===
void 0?-1:o.own[i.row]));Array.from(n.children).forEach((u,c)=>u.classList.toggle("read",c===l))})}function ml(t,e){let n=e.
children[D(t)];(n.offsetTop<e.scrollTop||n.offsetTop+n.offsetHeight>e.scrollTop+e.clientHeight)&&(e.scrollTop=n.offsetTop-
20)}function fh(t){let{data:e,selection:n}=t,o=t.headsBlock||e.channels.get(n.scope).blockName;return Ce(t).flatMap((r,s)=>r.
columns.map(a=>({...a,group:s,track:r,key:V(e,o,a.channel),refKey:a.ref&&V(e,o,a.ref)})))}function Rn(t,e){let{data:n,selection:o}=t;
return t.headsBlock?o.heads.split(".").includes(String(n.channels.get(e.key).index)):o.scope!==e.key?!1:o.run!==o.refRun||
e.refKey===null||o.ref===e.refKey}function hh(t,e,n,o){let r=t.data.layers.length,s=e.length?e[e.length-1].group:0,[a,i]=o?
[72,16]:[26,22+Math.max(30,Math.min(70,9*Math.max(0,...e.map(m=>m.label.length))))],l=o?Math.max(4,Math.min(24,(n-a-6)/r)):
Math.max(9,Math.min(20,480/r)),u=o?15:Math.max(8,Math.min(26,(n-a-14*s-4)/Math.max(1,e.length))),c=m=>e[m].group*(o?8:14)+
m*u,f=(m,g)=>o?[a+m*l,i+c(g)]:[a+c(g),i+m*l],h=e.length?c(e.length-1)+u:0,d=o?[a+r*l+4,i+h+4]:[a+h+4,i+r*l+4];return{place:f,
cell:o?[l,u]:[u,l],size:d,label:a,head:i,lying:o}}function dh(t,e,n){let{palette:o,data:r,selection:s}=t,[a,i]=n.cell,l=Math.
max(1,Math.ceil((n.lying?16:11)/(n.lying?a:i))),u=r.layers.indexOf(s.layer),c=r.layers.flatMap((m,g)=>{let b=g===u;if(!Gt(
g,l,u))return[];let[x,y]=e.length?n.place(g,0):[n.label,n.head],v={"font-size":11,fill:b?o.ink:o.grey,"font-weight":b?700:
400};return[n.lying?O(m,x+a/2,n.head-5,{...v,"text-anchor":"middle"}):O(m,n.label-6,y+i/2+4,{...v,"text-anchor":"end"})]}),
f=e.map((m,g)=>{let[b,x]=n.place(0,g),y=Rn(t,m)?700:400,v={"font-size":11,fill:o.ink,"font-weight":y};return n.lying?O(B(
m.label,11,n.label-8),n.label-6,x+i-4,{...v,"text-anchor":"end"}):mt(B(m.label,11,n.head-22),b+a/2+4,n.head-5,v)}),h=n.lying?
[]:e.flatMap((m,g)=>g&&e[g-1].group===m.group?[]:[O(m.track.title,n.place(0,g)[0],12,{"font-size":11,fill:o.grey})]);return[
n.lying?O("layer",n.label-6,n.head-5,{"font-size":11,fill:o.grey,"text-anchor":"end"}):O("layer",0,n.head-5,{"font-size":9,
fill:o.grey}),...c,...f,...h]}function mh(t,e,n,o,r,[s,a]){let[i,l]=r,{palette:u,data:c}=t,f=e.track.values[e.channel][n],
h=f===null?u.out:tt(u,Math.max(0,f-s),a-s,"contribution",e.track.stretched?0:1).hex,d=W(o[0],o[1],i-1,l-1,h);return d.append(
k("title",{},[`layer ${c.layers[n]}, ${e.words}: ${ie(f)}`])),d.dataset.layer=c.layers[n],d.dataset.channel=e.key,d.dataset.
ref=e.refKey??"",d}function ph(t,e,n,o){let{data:r,selection:s}=t,a={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[
0,1],Home:[-r.layers.length,0],End:[r.layers.length,0]}[o.key];if(!a||o.altKey)return;o.preventDefault(),o.stopPropagation();
let i=r.layers[Math.max(0,Math.min(r.layers.length-1,r.layers.indexOf(s.layer)+a[0]))],l=Math.max(0,e.findIndex(c=>Rn(t,
c))),u=e[Math.max(0,Math.min(e.length-1,l+a[1]))];n(a[1]&&u?{layer:i,...pl(t,u)}:{layer:i})}function pl(t,e){return t.headsBlock?
{heads:String(t.data.channels.get(e.key).index)}:{scope:e.key,...t.selection.run===t.selection.refRun?{ref:e.refKey??""}:
{}}}var gl=["run"];function gh(t,e,n){let{data:o,selection:r,palette:s}=t;return e.flatMap((a,i)=>{if(!Rn(t,a))return[];
let[l,u]=n.place(o.layers.indexOf(r.layer),i);return[ht(l,u,n.cell[0]-1,n.cell[1]-1,s.mark),ht(l-1.5,u-1.5,n.cell[0]+2,n.
cell[1]+2,s.paper)]})}function wh(t,e,n,o){t.addEventListener("click",r=>{let s=r.target.closest("[data-layer]"),a=s&&e.
find(({key:i,refKey:l})=>i===s.dataset.channel&&(l??"")===s.dataset.ref);a&&n({layer:Number(s.dataset.layer),...pl(o(),a)})}),
t.addEventListener("keydown",r=>ph(o(),e,n,r))}function bh(t,e){let{data:n,selection:o}=t,r=n.layers.indexOf(o.layer),s=e.
filter(a=>Rn(t,a)).map(({track:a,channel:i,words:l})=>`${l}: ${ie(a.values[i][r])}`);return[t.headsBlock||$e(n,o.scope),
...s].join(", ")}function wl(t,e,n,o){let r=fh(t),s=hh(t,r,n,o),a=Ne(Ce(t)),i=t.data.layers.flatMap((m,g)=>r.map((b,x)=>mh(
t,b,g,s.place(g,x),s.cell,a[b.group]))),[l,u]=[k("g"),k("g")],c=k("svg",{width:s.size[0],height:s.size[1],"aria-hidden":"\
true"},[l,...i,u]),f=p("div",{className:"rail",tabIndex:0},[c]);f.setAttribute("role","application");let h=t;return wh(f,
r,e,()=>h),{nodes:[f],update:m=>{h=m,f.setAttribute("aria-label",`Layers and steps, arrow keys choose. Now layer ${m.selection.
layer}, ${bh(m,r)}.`),l.replaceChildren(...dh(m,r,s)),u.replaceChildren(...gh(m,r,s))}}}function bl(t){return Ce(t).map(
e=>[e.note,ae(e)&&`Colours: ${ae(e)}.`].filter(Boolean).join(" ")).join(" ")}var xh=(t,e)=>{let n=yt(t,e);return at(t,e).map(o=>n[o])},Wn=[{name:"overview",label:"Overview",there:ui,keys:()=>[],draw:ki,
fields:fi,controls:["run","refRun","hide","range","root","zoom"],withoutOwn:!0,words:pi,figure:Mi,table:oa},{name:"maps",
label:"Maps",there:P,keys:()=>[],draw:Lr,fields:()=>Ya,controls:[...Ht,"zoom","root"],words:qt,figure:Za,table:hn},{name:"\
heads",label:"Heads",there:yn,keys:xh,draw:Da,fields:hr,controls:["run","layer"],words:Va,figure:qa,table:Ka},{name:"all",
label:"All heads",there:yn,keys:yt,draw:ni,fields:ti,controls:["run","cells","range","root"],words:ri,figure:oi,table:si},
{name:"scores",label:"Scores (q·k)",there:t=>kt(t,0)!==void 0,keys:()=>[],tables:zr,draw:il,fields:Zi,controls:["run","\
layer"],words:cl,figure:ll,table:ul},{name:"numbers",label:"Numbers",there:Hi,keys:()=>[],draw:qi,fields:()=>["run","to"],
controls:[],words:Vi,figure:Ki,table:Ui},{name:"graph",label:"Graph",there:Ye,keys:()=>[],draw:ws,fields:gs,controls:[],
words:bs,figure:xs,table:ys,find:ds,look:no},{name:"memories",label:"Memories",there:t=>An(t,0).length>0,keys:()=>[],draw:Ai,
controls:[],words:Si}];function dt(t,e){return Wn.find(({name:n,there:o})=>n===e.view&&o(t))||Wn.find(({name:n,there:o})=>(n===
"maps"||!P(t))&&o(t))}var M={data:null,selection:null,scene:null,places:null,width:0,rail:0,lying:!1,pending:!1,figureOfMap:null,
paper:!1},yh=430,kh=270,$h=4;function Mh(){let{theme:t}=document.documentElement.dataset;return(t?t==="dark":window.matchMedia(
"(prefers-color-scheme: dark)").matches)&&!M.paper}function vh(t){w("certificate").textContent=js(t),w("drawn").textContent=
`Numbers on this page are rounded, by at most ${Y(t.precision,!0)} of themselves.`,w("provenance").textContent=Object.entries(
t.provenance).map(([e,n])=>`${e}: ${n}`).join(" · ")}function Ch(t,e){if(!P(t)&&!Wt(t))return Ye(t)?ks(t):Xt(t,0).facts;
let n=t.queries.length<t.words.length?`, ${t.queries.length} of them as destinations`:"",o=(r,s)=>`${r} ${s}${r===1?"":"\
s"}`;return[t.model,...e?[]:[t.heading],...t.layered?[o(t.layers.length,"layer")]:[],`${o(t.words.length,t.named?"named \
position":"token")}${n}`].join(" · ")}function Nh({data:t,selection:e}){let n=K(t,e),o=n?` ${A(n.value,!1)}${St(n)}`:"",
r=dt(t,e).name==="overview"&&!n,s=n?n.question:r?Zs({data:t,selection:e}):P(t)?`“${ln(t,e.run,300)}”`:t.heading,a=n||
!P(t)?s+o:ln(t,e.run,60);G(document.querySelector("title"),[a,t.model].filter(Boolean).join(" · ")),G(w("words-read").firstChild,
s),G(w("answer"),o),G(w("facts"),Ch(t,n||r)),w("answer").className=n&&n.value<0?"loss":"gain"}async function Oh(t,e){let n=dt(
t,e),o=(P(t)?[e.scope,...n.keys(t,e)]:[]).map(s=>[e.run,s]);e.ref&&o.push([e.refRun,e.ref]),P(t)&&o.push(...gt(t).map(s=>[
s,e.scope]));let r=n.tables?n.tables(t,e):[];await Promise.all([...o.map(([s,a])=>t.load(s,a)),...r.map(t.open)])}async function Lh(t){
let{data:e,selection:n}=t,o=["head","expert"].flatMap(r=>So(t,r)).filter(r=>!e.loaded(n.run,r));for(let r of o)await e.load(
n.run,r);return o.length>0}var Eh=60,Ah=500;function Sh(t){return(t.panel||t.ref==="")&&!st&&!M.paper?Math.max(Ah,window.
innerHeight)-Eh:0}function yl(){let{data:t,selection:e}=M,n=po(t,e);n.palette=M.palette,n.paper=n.inLine=M.paper,n.ratio=
n.paper?$h:Math.min(3,window.devicePixelRatio||1),n.windowRoom=Sh(e),n.marked=[];let{name:o}=dt(t,e);return n.headsBlock=
yn(t)&&["heads","all","scores"].includes(o)?U(t,e)[0]:"",n.hover=r=>{for(let s of n.marked)s(r)},n}function Th(){M.width=
w("figure").clientWidth,M.rail=w("rail").clientWidth,M.lying=window.innerWidth<1100}function Rh(t){let{data:e,selection:n}=t,
o=dt(e,n);for(let s of w("views").children)s.setAttribute("aria-selected",String(s.dataset.view===o.name));w("what").dataset.
view=o.name,w("views").hidden=Wn.filter(({there:s})=>s(e)).length<2;let r=o.fields?o.fields(t):[];M.places.figure(t,o.name+
Rt(t,r,M.width),()=>o.draw(t,M.go,M.width))}function zh(){return new Promise(t=>{requestAnimationFrame(()=>setTimeout(t)),
setTimeout(t,100)})}function kl(t){M.scene=t,w("bench").dataset.view=dt(t.data,t.selection).name,Th(),t.width=M.width,Nh(
t),ua(t,dt(t.data,t.selection)),w("reading").hidden=t.headsBlock!==""||M.view().name==="memories"||M.view().name==="over\
view"&&Wt(t.data),P(t.data)&&dl(t,M.go,w("sentence"));let e=dt(t.data,t.selection).words(t);G(w("meaning"),e.meaning),G(
w("headline"),e.headline),Rh(t),performance.mark("picture"),document.body.dataset.state="picture"}function $l(t){Ih(t),document.
body.dataset.state="drawn",_h()}async function Wh(){let t=yl();kl(t),await zh(),M.scene===t&&$l(t)}function xl(t){M.paper=
t,document.body.classList.toggle("paper",t),zn();let e=yl();kl(e),$l(e)}function jh(){return!st||document.body.classList.
contains("open")}function Wr(t){let e=w("card");if(dt(t.data,t.selection).name==="graph"){ps(t,M.go);return}let n=Ci(t,M.
go);if(!P(t.data)){e.replaceChildren(...n);return}if(Ps(t,M.go,e),dt(t.data,t.selection).name==="memories"){e.replaceChildren();
return}if(dt(t.data,t.selection).name!=="overview"){e.append(...n);return}let o=n.length?[]:[p("p",{className:"said",textContent:qt(
t).headline})];e.prepend(...o,Fh(t,w("why").clientWidth),...n)}function Fh(t,e){let{data:n,selection:o,maps:r}=t,s=r.length>
1?"after":"only",a={...t,selection:{...o,panel:s},windowRoom:0,beside:!0},{nodes:i,update:l}=Lr(a,M.go,Math.min(e,t.paper?
kh:yh));l(a);let u=K(n,o),c=[[r.length>1?"before, after, change":"larger","the maps of this layer",{view:"maps"}]];Bo(n,
o)&&c.push([`in ${u.unit||"its units"}`,"what each contribution of the layer carries to the target, destinations by sour\
ces",ea(n,o)]);let f=c.map(([h,d,m])=>{let g=p("button",{type:"button",textContent:h,title:d});return g.addEventListener(
"click",()=>M.go(m)),g});return p("section",{className:"card close-up"},[p("div",{className:"aside-head"},[p("h3",{textContent:n.
layered?`Layer ${o.layer}`:"The map"}),p("span",{className:"group"},f)]),...i])}function Ih(t){if(w("figure-tools").hidden||
ze(M),!P(t.data)){Wr(t);return}if(ml(t,w("sentence")),hl(t,w("sentence")),Bs(t,w("circuitsvis-place")),!jh())return;let{
data:e,selection:n}=t,{places:o,go:r,rail:s,lying:a}=M,i=t.headsBlock||e.channels.get(n.scope).blockName;o.rail(t,i+a+Rt(
t,gl,s),()=>wl(t,r,s,a));let{axis:l}=e.block(n.scope);G(w("where-title"),`Layers and ${t.headsBlock?"heads":l==="scope"?
"steps":`${l}s`}`),G(w("where-way"),Hs(t)),G(w("where-note"),bl(t)),Wr(t),o.pairs(t,Rt(t,Gi(t),0),()=>Yi(t,r)),Lh(t).then(
u=>{u&&M.scene===t&&Wr(t)})}async function Nt(){if(document.body.dataset.state="waiting",M.pending)return;M.pending=!0,await null,
M.pending=!1;let{selection:t}=M;await Oh(M.data,t),t===M.selection&&w("figure").clientWidth>0&&Wh()}var jr={fields:"",time:-1e9};
M.go=t=>{let e=Ss(M.data,M.selection,t),n=Object.keys(t).join();if(M.selection=e,Nt(),Ml(),st)return;let o=n===jr.fields&&
performance.now()-jr.time<700;jr={fields:n,time:performance.now()};let r=on(M.data,e)||"#";r!==(location.hash||"#")&&history[o?
"replaceState":"pushState"](null,"",r)};M.address=()=>st?on(M.data,M.selection):location.href.split("#")[0]+on(M.data,M.
selection);M.resized=Nt;M.view=()=>dt(M.data,M.scene.selection);function _h(){st&&window.parent.postMessage({tlFfblock:"\
height",height:Math.ceil(document.body.scrollHeight)+2},"*")}function Ml(){if(!st)return;let{run:t,scope:e,layer:n,refRun:o,
ref:r,to:s,from:a}=M.selection;window.parent.postMessage({tlFfblock:"selection",selection:{run:M.data.runs[t].name,scope:e,
layer:n,against_run:M.data.runs[o].name,against:r||null,query:s,key:a}},"*")}function zn(){M.palette=Ke(Mh()?"dark":"lig\
ht")}function Ph(){w("views").replaceChildren(...Wn.filter(({there:n})=>n(M.data)).map(({name:n,label:o})=>{let r=p("but\
ton",{type:"button",textContent:o});return r.setAttribute("role","tab"),r.dataset.view=n,r.addEventListener("click",()=>M.
go({view:n})),r})),w("more").addEventListener("click",()=>{let n=document.body.classList.toggle("open");w("more").setAttribute(
"aria-expanded",String(n)),Nt()});let t=()=>{M.selection=uo(M.data,location.hash),Nt()};for(let n of["popstate","hashcha\
nge","pageshow"])window.addEventListener(n,st?Nt:t);let e=window.innerWidth;new ResizeObserver(()=>{w("figure").clientWidth===
M.width&&window.innerWidth===e||(e=window.innerWidth,Nt())}).observe(w("figure")),zn(),window.matchMedia("(prefers-color\
-scheme: dark)").addEventListener("change",()=>{zn(),Nt()}),window.addEventListener("message",({source:n,data:o})=>{!st||
n!==window.parent||!o||o.tlFfblock!=="theme"||(document.documentElement.dataset.theme=o.dark?"dark":"light",zn(),Nt())}),
window.addEventListener("beforeprint",()=>xl(!0)),window.addEventListener("afterprint",()=>xl(!1))}function Bh(){M.data=
Ms(JSON.parse(w("data").textContent)),M.selection=uo(M.data,st?"":location.hash),M.places={figure:wn(w("figure")),rail:wn(
w("rail")),pairs:wn(w("pair-list"))},document.body.classList.toggle("framed",st),document.body.classList.toggle("unlayer\
ed",!M.data.layered),document.body.classList.toggle("mapless",!P(M.data)),w("search").parentElement.hidden=M.data.queries.
length===0&&!Ye(M.data),vh(M.data),sa(M.data),fa(),Ph(),ca(M),Fa(M),ha(M),Ml(),Nt()}Bh();})();
