/* sources 83a6bcf1aaa3abe6a7b2e38ced8d0c1c6ca78ac3270ac982fe9d4493bb6cad3b */
"use strict";
"use strict";(()=>{function ct(t){if(t==null||Number.isNaN(t))return"–";let e=Math.abs(t);return e!==0&&(e<.001||e>=1e5)?t.toExponential(
1).replaceAll("-","−"):String(Number(t.toPrecision(3))).replaceAll("-","−")}function de(t){return t==null?"–":`${t>
0?"+":""}${ct(t)}`}function gl(t){return t>.995&&t<1?"99 %":`${Math.round(100*t)} %`}function Fn(t,e,n,o){let r=t.edges.
length-n.length,s=t.targets.length?"the sizes of all shares that can be hidden":"the sizes of all edges that can be hidd\
en",a=r?` and ${r} that always are`:"";return`${o} of the page's ${n.length} edges${a}; they carry ${gl(e.carried)} of ${s}\
. What is hidden stays in the sums of the cards.`}function jn(t){return`${t.token?`${t.name}: ${t.token}`:t.name} = ${ct(
t.value)}`}var pe="http://www.w3.org/2000/svg",Jt="system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sa\
ns-serif";function k(t,e={},n=[]){let o=document.createElementNS(pe,t);for(let[r,s]of Object.entries(e))o.setAttribute(r,
s);return o.append(...n),o}function W(t,e,n,o,r){return k("rect",{x:t,y:e,width:Math.max(0,n),height:Math.max(0,o),fill:r,
"shape-rendering":"crispEdges"})}function L(t,e,n,o={}){return k("text",{x:e,y:n,"font-size":12,...o},[t])}function mt(t,e,n,o){
return L(t,e,n,{transform:`rotate(-90 ${e} ${n})`,...o})}function p(t,e={},n=[]){let o=Object.assign(document.createElement(
t),e);return o.append(...n),o}function G(t,e){t.textContent!==e&&(t.textContent=e)}function ge(t,e,n){t.style.backgroundColor=
e?e.hex:"",t.style.color=e?e.readable:"",t.style.boxShadow=n?`inset 0 -4px ${n.hex}`:""}function Pe(t,e,n,o){let r=p("li",
{className:"chip",title:n},[p("bdi",{textContent:t}),p("span",{textContent:e})]);return ge(r,o,null),r}function w(t){return document.
getElementById(t)}var Rr=document.createElement("canvas").getContext("2d"),wl=2e4,me=new Map;function I(t,e){let n=`${e}\
 ${t}`;return me.has(n)||(me.size>wl&&me.clear(),Rr.font=`${e}px ${Jt}`,me.set(n,Rr.measureText(t).width)),me.get(n)}function bl(t){
return Array.from(new Intl.Segmenter().segment(t),e=>e.segment)}function B(t,e,n){if(I(t,e)<=n)return t;let o=bl(t.slice(
0,400));for(;o.length>1&&I(o.join("")+"…",e)>n;)o.pop();return o.join("")+"…"}function Be(t,e,n){let o=[""];for(let r of t.
split(" ")){let s=o[o.length-1]?`${o[o.length-1]} ${r}`:r;o[o.length-1]&&I(s,e)>n?o.push(r):o[o.length-1]=s}return o}function jt(t,e){let n=p("tr");return t.forEach((o,r)=>{let s=p("td");if(r===0&&e){let a=p("button",{type:"button",className:"\
plain",textContent:o});a.addEventListener("click",e),s.append(a)}else s.textContent=o;n.append(s)}),n}function xl(t){return t.
label&&t.label!==t.short?`${t.short} ${t.label}`:t.short}function zr(t,e,n,o){let r=s=>Math.abs(s.shares[o]??0);return t.
edges.filter(s=>s[n]===e).sort((s,a)=>r(a)-r(s)||Math.abs(a.size)-Math.abs(s.size))}function Wr(t,e,n,o,r,s){if(!n.length&&
!s.length)return[];let{data:a,target:i}=t,l=d=>a.targets.length?[de(d[i])]:[],u=p("tr",{},[p("th"),p("th",{textContent:"\
size"}),...a.targets.length?[p("th",{textContent:"share"})]:[]]),c=60,f=n.slice(0,c).map(d=>jt([xl(a.nodes[d[o]]),`${d.unit in
a.widths?"":`${d.unit} `}${ct(d.size)}`,...l(d.shares)],()=>r(d[o]))),h=n.length>c?[jt([`and ${n.length-c} more`,"",""])]:
[];return[p("h3",{textContent:e}),p("table",{},[u,...f,...h,...s.map(({name:d,size:m,shares:g})=>jt([d,m===null?"":ct(m),
...l(g)]))])]}function yl(t,e){let{data:n,target:o}=t,r=e.facts.map(([s,a])=>jt([s,ct(a)]));if(n.targets.length){let{token:s,
name:a,value:i}=n.targets[o];r.push(jt([`share of ${a}`,`${de(e.shares[o])} of ${ct(i)}`])),s&&e.ranks[o]&&r.push(jt([`r\
ank of ${s}`,String(e.ranks[o])]),jt([`probability of ${s}`,ct(e.probabilities[o])]))}return p("table",{},r)}function Fr(t,e,n){
let{data:o,target:r}=t;if(e===null)return[p("p",{className:"note",textContent:"Choose a node: its card says what it writ\
es as tokens, and what it is the sum of."})];let s=o.nodes[e],a=(s.own_shares[r]??0)!==0?[{name:"brought by the node its\
elf",size:null,shares:s.own_shares}]:[],i=s.unseen?[{name:`not on this page${s.unseen>1?` (${s.unseen})`:""}`,size:null,
shares:s.rest_shares}]:[],l=zr(o,e,"target",r),u=s.says.length?[p("div",{className:"says"},s.says.map(c=>p("bdi",{textContent:c})))]:
[];return[p("h2",{textContent:s.name}),...u,yl(t,s),...Wr(t,"What enters it",l,"source",n,[...a,...i]),...Wr(t,"Where it\
 goes",zr(o,e,"source",r),"target",n,[])]}var Qt={width:76,height:28,gap:4,apart:26,lane:14,top:34,left:10,most:190};function jr(t,e){let n=o=>t.targets.length?Math.
abs(o.weights[e]??0):o.unit in t.widths?o.size:0;return t.edges.map((o,r)=>({index:r,weight:n(o)})).filter(({index:o})=>!t.
edges[o].always).sort((o,r)=>r.weight-o.weight||o.index-r.index)}function Ir(t,e,n,o){let r=new Set(t.edges.flatMap((l,u)=>l.
always?[u]:[]));for(let{index:l}of n.slice(0,o))r.add(l);let s=new Set;for(let l of r)s.add(t.edges[l].source).add(t.edges[l].
target);let a=l=>l.reduce((u,{weight:c})=>u+c,0),i=a(n);return{edges:r,nodes:s,carried:i?a(n.slice(0,o))/i:1}}function _r(t,e,n=Qt){
let o=new Map,r=new Set;for(let h of e.nodes){let{column:d,lane:m}=t.nodes[h];r.add(d);let g=`${m}/${d}`;o.has(g)||o.set(
g,[]),o.get(g).push(h)}let s=[...r].sort((h,d)=>h-d),a=Array.from({length:t.lanes},()=>0);for(let[h,d]of o)a[Number(h.split(
"/")[0])]=Math.max(a[Number(h.split("/")[0])],d.length);let i=n.height+n.gap,l=[],u=n.top;for(let h of a)l.push(u),h&&(u+=
h*i+n.lane);let c=new Map;for(let[h,d]of o){let[m,g]=h.split("/").map(Number),b=l[m]+Math.min(n.most,(a[m]-d.length)*i/2);
d.sort((x,y)=>x-y).forEach((x,y)=>c.set(x,{x:n.left+s.indexOf(g)*(n.width+n.apart),y:b+y*i}))}let f=2*n.left+s.length*(n.
width+n.apart)-n.apart;return{places:c,columns:s.map((h,d)=>({title:t.columns[h],x:n.left+d*(n.width+n.apart)})),width:f,
height:u,size:n}}function Pr(t){let e={};for(let{unit:n,size:o}of t.edges)n in t.widths&&(e[n]=Math.max(e[n]||0,Math.abs(
o)));return e}function Br(t,e){return e[t.unit]?.8+9*Math.sqrt(Math.abs(t.size)/e[t.unit]):1.1}function Hr(t,e){let n=s=>s.
map(a=>Math.abs(a.shares[e]??0)).filter(a=>a>0).sort((a,i)=>a-i),o=n(t.edges.filter(s=>!s.always)),r=o.length?o:n(t.edges);
return r.length?r[Math.min(r.length-1,Math.floor(.98*r.length))]:1}function He(t,e,n,o){let r=Float32Array.from(e);for(let s=0;s<t.nRows;s++){let a=s*t.nColumns;for(let i of n)r[a+i]=NaN;
o&&(r[a+t.own[s]]=NaN)}return r}function _n(t,e,n,o){let r=He(t,e,n,o==="others");if(o==="none")return r;let{nRows:s,nColumns:a}=t,
i=o==="column"?(u,c)=>c:u=>u,l=new Float64Array(o==="column"?a:s);for(let u=0,c=0;u<s;u++)for(let f=0;f<a;f++,c++)Number.
isNaN(r[c])||(l[i(u,f)]+=r[c]);for(let u=0,c=0;u<s;u++)for(let f=0;f<a;f++,c++)l[i(u,f)]>0&&(r[c]/=l[i(u,f)]);return r}function Pn(t,e,n){
let o=He(t,e,n,!1);return Float32Array.from(t.own,(r,s)=>{let a=0;for(let i=0;i<t.nColumns;i++)a+=o[s*t.nColumns+i]||0;return a>
0?o[s*t.nColumns+r]/a:NaN})}function qe(t,e){return t.map((n,o)=>n-e[o])}function A(t){let e=0;for(let n of t)Math.abs(n)>
e&&(e=Math.abs(n));return e}function In(t,e,n,o=0){let r=new Float32Array(e.length),s=0;for(let a=0,i=0;a<t.nRows;a++){let l=s;
for(let u=0;u<t.nColumns;u++,i++)!Number.isNaN(e[i])&&(n||t.own[a]!==u)&&(r[s++]=Math.abs(e[i]));s-l<o&&(s=l)}return r.subarray(
0,s)}function we(t,e){let[n,o]=[0,t.length-1];for(;n<o;){let r=t[n+o>>1],[s,a]=[n,o];for(;s<=a;){for(;t[s]<r;)s++;for(;t[a]>
r;)a--;if(s>a)break;[t[s],t[a]]=[t[a],t[s]],s++,a--}if(e<=a)o=a;else if(e>=s)n=s;else break}return t[e]}var te=20,kl=3;function Ot(t,e,n,o=!1){
let r=n==="all",s=o&&!r?In(t,e,!1,kl):[],a=s.length?s:In(t,e,r),i=a.length?a:In(t,e,!0);return n!=="percentile"?A(i):we(
i,Math.floor(.99*(i.length-1)))||A(i)}function It(t,e,n){let o=e>0?Math.min(1,Math.abs(t)/e):0;return n?Math.sqrt(o):o}function qr(t,e,[
n,o,r,s],a,i){let l=new Float32Array(a*i).fill(NaN),[u,c]=[o-n+1,s-r+1];if(u===i&&c===a){for(let m=0;m<u;m++)l.set(t.subarray(
(n+m)*e+r,(n+m)*e+s+1),m*c);return l}let f=(m,g)=>Array.from({length:m},(b,x)=>{let y=Math.floor(x*g/m);return[y,Math.max(
y+1,Math.floor((x+1)*g/m))]}),[h,d]=[f(u,i),f(c,a)];for(let m=0;m<u;m++)for(let g=0;g<c;g++){let b=t[(n+m)*e+r+g];if(!Number.
isNaN(b))for(let x=h[m][0];x<h[m][1];x++)for(let y=d[g][0];y<d[g][1];y++){let C=x*a+y;Math.abs(l[C])>=Math.abs(b)||(l[C]=
b)}}return l}var be={light:{paper:"#ffffff",ink:"#17202a",grey:"#5b6672",line:"#8b95a1",out:"#f1f3f5",hatch:"#d9dee3",contribution:"#\
003f5c",gain:"#b35806",loss:"#6a5fc0",bias:"#4a4f57",mark:"#17202a",read:"#d0106f"},dark:{paper:"#14191f",ink:"#e8edf2",
grey:"#a3adb8",line:"#66717d",out:"#1c232b",hatch:"#323c47",contribution:"#9fd8f5",gain:"#f0933f",loss:"#a398f0",bias:"#\
c3cad2",mark:"#ffffff",read:"#ff6ab0"}};function ee(t){return[1,3,5].map(e=>parseInt(t.slice(e,e+2),16))}function $l(t){
return"#"+t.map(e=>e.toString(16).padStart(2,"0")).join("")}var Gr=[.95047,1,1.08883],Yr=[[.4124564,.3575761,.1804375],[
.2126729,.7151522,.072175],[.0193339,.119192,.9503041]],vl=[[3.2404542,-1.5371385,-.4985314],[-.969266,1.8760108,.041556],
[.0556434,-.2040259,1.0572252]];function Hn(t,e){return t.map(n=>n.reduce((o,r,s)=>o+r*e[s],0))}function Xr(t){return t.
map(e=>e/255<=.04045?e/255/12.92:((e/255+.055)/1.055)**2.4)}function Dr(t){let[e,n,o]=Hn(Yr,Xr(t)).map((r,s)=>r/Gr[s]).map(
r=>r>.008856451679035631?Math.cbrt(r):(903.2962962962963*r+16)/116);return[116*n-16,500*(e-n),200*(n-o)]}function Ml([t,
e,n]){let o=(t+16)/116,r=[o+e/500,o,o-n/200].map((a,i)=>Gr[i]*(a**3>216/24389?a**3:(116*a-16)*27/24389)),s=a=>a<=.0031308?
12.92*a:1.055*a**(1/2.4)-.055;return Hn(vl,r).map(a=>Math.round(255*Math.min(1,Math.max(0,s(Math.max(0,a))))))}var $t=256;
function Cl(t,e){let[n,o]=[Dr(ee(t)),Dr(ee(e))];return Array.from({length:$t+1},(r,s)=>Ml(n.map((a,i)=>a+(o[i]-a)*(s/$t))))}
function Vr([t,e,n]){return(255<<24|n<<16|e<<8|t)>>>0}var Bn=new Map;function De(t){return Bn.has(t)||Bn.set(t,Nl(t)),Bn.
get(t)}function Nl(t){let e=be[t],o=["contribution","gain","loss","bias"].map(a=>[a,Cl(e.paper,e[a])]),r=Object.fromEntries(
o.map(([a,i])=>[a,Uint32Array.from(i,Vr)])),s=Object.fromEntries(o.map(([a,i])=>[a,i.map(l=>({rgb:l,hex:$l(l),readable:qn(
l)}))]));return{...e,name:t,ramps:s,shades:r,outside:Vr(ee(e.out))}}function Ol(t,e){return e==="signed"?t<0?"loss":"gai\
n":e}function tt(t,e,n,o,r=0){return t.ramps[Ol(e,o)][Math.round(It(e,n,r)*$t)]}var Kr=["#17202a","#ffffff","#000000"],Ll=4.5;
function Ur(t){return Hn([Yr[1]],Xr(t))[0]}function qn(t){let e=Ur(t),n=o=>{let r=Ur(ee(o));return(Math.max(r,e)+.05)/(Math.
min(r,e)+.05)};return Kr.find(o=>n(o)>=Ll)||Kr[2]}function xe(t,e,n,o=0){if(!e)return t.line;let r=Math.round($t*Math.max(o,Math.sqrt(Math.min(1,Math.abs(e)/n))));return t.
ramps[e>0?"gain":"loss"][r].hex}function El(t,e){return e?t.ramps.contribution[Math.round($t*Math.max(.04,1-Math.log10(e)/
4.7))].hex:t.paper}function Ve({palette:t,flattest:e},n){return t.ramps.contribution[Math.round($t*Math.max(.04,1-n/(e||
1)))].hex}function Vn(t,e){let{data:n,palette:o,target:r,limit:s}=t;if(t.inks!=="entropy")return n.targets.length?xe(o,e.
shares[r],s,.22):o.line;let{entropy:a}=n.nodes[e.source];return a===null||!(e.unit in n.widths)?o.line:Ve(t,a)}function Kn(t,e){
return t.inks==="entropy"?e.entropy===null?t.palette.paper:Ve(t,e.entropy):t.inks==="rank"&&t.data.targets.length?El(t.palette,
e.ranks[t.target]):e.shares.length&&e.shares[t.target]?xe(t.palette,e.shares[t.target],t.limit):t.palette.paper}function Al(t,e){
let{data:n,layout:o}=t,r=n.edges[e],{size:s,places:a}=o,[i,l]=[a.get(r.source),a.get(r.target)],[u,c,f,h]=[i.x+s.width,i.
y+s.height/2,l.x,l.y+s.height/2],d=Math.max(s.apart/2,(f-u)/2),m=k("path",{class:"graph-edge",d:`M${u} ${c}C${u+d} ${c} ${f-
d} ${h} ${f} ${h}`,fill:"none",stroke:Vn(t,r),"stroke-width":Br(r,t.largest),"stroke-opacity":.8});return r.unit in n.widths||
m.setAttribute("stroke-dasharray","4 3"),m.dataset.edge=e,m}function Sl(t,e){let n=t.data.nodes[e],o=t.layout.places.get(
e);if(!n.unseen)return[];let r=n.rest_shares[t.target]||0,s=o.y+t.layout.size.height-5;return[k("path",{class:"graph-edg\
e",d:`M${o.x-14} ${s+9}L${o.x} ${s}`,stroke:t.inks==="entropy"?t.palette.line:xe(t.palette,r,t.limit,.22),"stroke-width":2,
"stroke-dasharray":"2 2"})]}function Tl(t,e){let{data:n,layout:o,palette:r}=t,s=n.nodes[e],{x:a,y:i}=o.places.get(e),{width:l,
height:u}=o.size,c=Kn(t,s),f=qn(ee(c)),h=n.targets.length&&s.shares[t.target]?de(s.shares[t.target]):"",d=[s.label,h].filter(
Boolean).join(" "),m=`${s.label} ${s.name}`,g=k("g",{class:"graph-node",transform:`translate(${a} ${i})`,role:"img","ari\
a-label":m},[k("rect",{width:l,height:u,rx:4,fill:c,stroke:r.line}),L(B(s.short,11,l-6),l/2,d?12:18,{"font-size":11,"tex\
t-anchor":"middle",fill:f})]);return d&&g.append(L(B(d,9.5,l-6),l/2,24,{"font-size":9.5,"text-anchor":"middle",fill:f})),
g.dataset.node=e,g}var Dn=29;function Jr(t,{title:e,x:n}){let{width:o,apart:r}=t.layout.size;return e.split(`
`).map((s,a)=>L(B(s,10,o+r-4),n+o/2,12+12*a,{"font-size":10,"text-anchor":"middle",fill:t.palette.grey}))}function Qr(t){
let{layout:e,palette:n}=t,o=k("svg",{class:"headings",width:e.width,height:Dn,"font-family":Jt,"aria-hidden":"true"},[W(
0,0,e.width,Dn,n.paper),...e.columns.flatMap(r=>Jr(t,r))]);return o.style.marginBottom=`${-Dn}px`,o}function Un(t){let{data:e,
layout:n,shown:o,palette:r}=t,s=[...o.edges].sort((a,i)=>Math.abs(e.edges[a].shares[t.target]||0)-Math.abs(e.edges[i].shares[t.
target]||0));return k("svg",{xmlns:pe,width:n.width,height:n.height,viewBox:`0 0 ${n.width} ${n.height}`,"font-family":Jt},
[W(0,0,n.width,n.height,r.paper),...n.columns.flatMap(a=>Jr(t,a)),...[...o.nodes].flatMap(a=>Sl(t,a)),...s.map(a=>Al(t,a)),
...[...o.nodes].map(a=>Tl(t,a))])}var Zr=900;function ts(t,{columns:e,places:n,width:o,size:r}){if(o<=Zr)return[t];let s=r.
width+r.apart,a=Math.floor((Zr-2*r.left+r.apart)/s);return e.map((l,u)=>u).filter(l=>l%(a-1)===0&&l+1<e.length).map(l=>{
let u=t.cloneNode(!0),c=e[l].x-r.left,f=Math.min(a,e.length-l)*s-r.apart+2*r.left,d=Math.max(...[...n.values()].filter(({
x:m})=>m>=c&&m<c+f).map(({y:m})=>m))+r.height+r.lane;for(let[m,g]of Object.entries({viewBox:`${c} 0 ${f} ${d}`,width:f,height:d}))
u.setAttribute(m,g);return u})}function Gn(t,e,n){t.classList.toggle("lit",n!==null);let o=new Set([n]);for(let r of t.querySelectorAll(
"[data-edge]")){let s=e.edges[r.dataset.edge],a=n!==null&&(s.source===n||s.target===n);r.classList.toggle("lit",a),a&&o.
add(s.source).add(s.target)}for(let r of t.querySelectorAll("[data-node]"))r.classList.toggle("lit",o.has(Number(r.dataset.
node)))}var es={least:48,most:120};function ns(t,e){let{layout:n,shown:o,palette:r,data:s}=t,{size:a,places:i}=n,l=d=>[i.get(d).
x+a.width/2,i.get(d).y+a.height/2],u=[...o.edges].map(d=>{let m=s.edges[d],[[g,b],[x,y]]=[l(m.source),l(m.target)];return k(
"line",{x1:g,y1:b,x2:x,y2:y,stroke:Vn(t,m),"vector-effect":"non-scaling-stroke"})}),c=[...o.nodes].map(d=>W(i.get(d).x,i.
get(d).y,a.width,a.height,Kn(t,s.nodes[d]))),f=Math.max(es.least,Math.min(es.most,n.height*e/n.width)),h=k("rect",{class:"\
graph-window",fill:r.ink,"fill-opacity":.08,stroke:r.ink,"vector-effect":"non-scaling-stroke"});return k("svg",{width:e,
height:f,viewBox:`0 0 ${n.width} ${n.height}`,preserveAspectRatio:"none"},[W(0,0,n.width,n.height,r.paper),...u,...c,h])}
function Yn(t,e,n){let o={x:e.scrollLeft,y:e.scrollTop,width:Math.min(e.clientWidth,n.width),height:Math.min(e.clientHeight,
n.height)};for(let[r,s]of Object.entries(o))t.querySelector(".graph-window").setAttribute(r,s)}function os(t,e,n,o){let r=t.
getBoundingClientRect();e.scrollLeft=(o.clientX-r.left)/r.width*n.width-e.clientWidth/2,e.scrollTop=(o.clientY-r.top)/r.
height*n.height-e.clientHeight/2}function Ke(t,e){return Object.values(t.runs[e].blocks).find(({kind:n})=>n==="graph")}function Ue(t){return Ke(t,0)!==void 0}
function _t(t){let{selection:e,palette:n}=t,o=Ke(t.data,e.run),r=Math.min(e.target,Math.max(0,o.targets.length-1)),s=jr(
o,r),a=Math.min(s.length,e.amount<0?o.shown:e.amount),i=Ir(o,r,s,a);return{data:o,target:r,order:s,amount:a,shown:i,palette:n,
inks:e.inks,layout:_r(o,i),limit:Hr(o,r),largest:Pr(o),flattest:A(o.nodes.map(({entropy:l})=>l??0))}}function Xn({data:t,
shown:e,order:n},o){if(o<0||e.nodes.has(o))return{node:o};let r=n.findIndex(({index:s})=>t.edges[s].source===o||t.edges[s].
target===o);return r<0?{node:o}:{node:o,amount:r+1}}function rs({nodes:t},e){let n=e.trim().toLowerCase(),o=r=>n&&[r.label,
r.name,r.short,...r.says].some(s=>s.toLowerCase().includes(n));return t.flatMap((r,s)=>o(r)?[s]:[])}function ss(t,e){let n=_t(
t),o=rs(n.data,e);return o.length?Xn(n,o.find(r=>r>t.selection.node)??o[0]):null}function Zn(t,e){let{data:n,shown:o}=_t(
t),r=new Set(rs(n,e));for(let a of document.querySelectorAll("[data-node]"))a.classList.toggle("found",r.has(Number(a.dataset.
node)));let s=[...r].filter(a=>o.nodes.has(a)).length;return e.trim()?`${s} shown${r.size>s?`, ${r.size-s} hidden`:""}`:
""}function Rl({layout:{places:t},shown:e},n,o){let r=t.get(n);if(!r)return Math.min(...e.nodes);let s={ArrowRight:(i,l)=>[
i,l],ArrowLeft:(i,l)=>[-i,l],ArrowDown:(i,l)=>[l,i],ArrowUp:(i,l)=>[-l,i]}[o],a={index:n,distance:1/0};for(let[i,l]of t){
let[u,c]=s(l.x-r.x,l.y-r.y),f=u+2*Math.abs(c);u>1&&f<a.distance&&(a={index:i,distance:f})}return a.index}function zl(t){
let{data:e,palette:n,limit:o,target:r}=t,s=h=>[1,.75,.5,.25,.1,1e-6].map(d=>xe(n,h*d*o,o)),a=p("span",{className:"ramp"});
a.style.background=`linear-gradient(to right, ${[...s(-1),...s(1).reverse()].join(", ")})`;let i=p("span",{className:"ra\
mp"});i.style.background=`linear-gradient(to right, ${[0,.25,.5,.75,1].map(h=>Ve(t,h*t.flattest)).join(", ")})`;let l=e.
nodes.some(({shares:h})=>Math.abs(h[r]??0)>o*1.0001),u=e.targets.length?[p("span",{},[`share ${l?"≤ ":""}−${ct(o)}`,
a,`${l?"≥ ":""}+${ct(o)}`])]:[],c=e.edges.some(h=>!(h.unit in e.widths))?[p("span",{textContent:"dashed: a number, not\
 a width"})]:[];return[...t.inks==="entropy"?[p("span",{},["entropy of the tokens that a node says, and of its edges onw\
ard: 0",i,`${ct(t.flattest)} nats`])]:u,p("span",{textContent:`width: ${Object.values(e.widths).join("; ")}`}),...c]}function Wl({
data:t,selection:e},{position:n}){let o=t.runs[e.run].tokens;return p("p",{className:"graph-text"},o.flatMap((r,s)=>[p(s===
n?"b":"bdi",{textContent:r})," "]))}function Fl({data:t},e){let n=(c,f,h,d)=>{let m=p("select",{autocomplete:"off"},f.map(
([g,b])=>p("option",{value:String(g),textContent:b})));return m.addEventListener("change",()=>e({[h]:d(m.value)})),{select:m,
label:p("label",{className:"group",hidden:f.length<1},[`${c} `,m])}},o=n("target",t.targets.map((c,f)=>[f,jn(c)]),"targe\
t",Number),r=[["share",t.targets.length?"share of the target":"nothing"],...t.targets.some(({token:c})=>c)?[["rank","ran\
k of the target's token (nodes)"]]:[],...t.nodes.some(({entropy:c})=>c!==null)?[["entropy","entropy of the tokens"]]:[]],
s=n("coloured by",r.length>1?r:[],"inks",String),a=p("input",{type:"range",min:"0",step:"1",autocomplete:"off",className:"\
amount"});a.addEventListener("input",()=>e({amount:Number(a.value)}));let i=p("span",{className:"note shown"});return i.
setAttribute("role","status"),o.select.classList.add("target"),{host:p("div",{className:"graph-controls"},[o.label,s.label,
p("label",{className:"group"},["shown ",a]),i]),tell:c=>{o.select.value=String(c.target),s.select.value=c.inks,a.max=String(
c.order.length),a.value=String(c.amount),i.textContent=Fn(c.data,c.shown,c.order,c.amount)}}}function jl(t,{layout:{places:e}},n,o=!1){
let r=e.get(n);if(!r)return;let[s,a]=[r.x+Qt.width/2-t.clientWidth/2,r.y+Qt.height/2-t.clientHeight/2];(o||r.x<t.scrollLeft||
r.x+Qt.width>t.scrollLeft+t.clientWidth)&&(t.scrollLeft=s),(o||r.y<t.scrollTop||r.y+Qt.height>t.scrollTop+t.clientHeight)&&
(t.scrollTop=a)}function as(t,e,n){w("card").replaceChildren(p("section",{className:"card node-card"},Fr(t,e<0?null:e,o=>n(
Xn(t,o)))))}function is(t,e){as(_t(t),t.selection.node,e)}function Il(t,e,n){let o=r=>{let s=r.target.closest("[data-nod\
e]");return s?Number(s.dataset.node):-1};t.addEventListener("click",r=>n(Xn(e.drawn,o(r)))),t.addEventListener("pointero\
ver",r=>{if(e.scene.selection.node>=0)return;let s=o(r);Gn(e.picture,e.drawn.data,s<0?null:s),as(e.drawn,s,n)}),t.addEventListener(
"keydown",r=>{if(r.key==="Escape")n({node:-1});else if(r.key.startsWith("Arrow")&&!r.altKey)n({node:Rl(e.drawn,e.scene.selection.
node,r.key)});else return;r.preventDefault(),r.stopPropagation()}),t.addEventListener("scroll",()=>{e.small&&Yn(e.small,
t,e.drawn.layout)});for(let r of["pointerdown","pointermove"])e.above.addEventListener(r,s=>{s.buttons&&e.small&&os(e.small,
t,e.drawn.layout,s)})}function ls(){return["run"]}function _l({meaning:t,certificate:e}){return p("details",{className:"\
note"},[p("summary",{textContent:"What is drawn"}),p("p",{textContent:`${t} ${e}`})])}function cs(t,e,n){let o=p("div",{
className:"graph",tabIndex:0}),[r,s]=[p("div",{className:"note graph-legend"}),p("div",{className:"graph-overview"})];o.
setAttribute("role","application"),o.setAttribute("aria-label","graph; arrow keys go from node to node, Escape lets go"),
s.setAttribute("aria-hidden","true");let a={scene:t,drawn:_t(t),picture:null,small:null,above:s,made:"",opened:!1},i=Fl(
a.drawn,e),l=()=>{let{drawn:c}=a;a.picture=Un(c),o.replaceChildren(...a.scene.paper?ts(a.picture,c.layout):[Qr(c),a.picture]),
a.small=c.layout.width>n?ns(c,n):null,s.replaceChildren(...[a.small].filter(Boolean)),s.hidden=!a.small,r.replaceChildren(
...zl(c)),i.tell(c)},u=c=>{let{target:f,amount:h,inks:d,node:m}=c.selection,g=JSON.stringify([f,h,d,c.palette.name,c.paper]);
Object.assign(a,{scene:c,drawn:_t(c)}),g!==a.made&&l(),a.made=g;for(let b of a.picture.querySelectorAll("[data-node]"))b.
classList.toggle("chosen",Number(b.dataset.node)===m);Gn(a.picture,a.drawn.data,a.drawn.shown.nodes.has(m)?m:null),Zn(c,
w("search").value),requestAnimationFrame(()=>{jl(o,a.drawn,m>=0||a.opened?m:a.drawn.data.start,!a.opened),a.opened=!0,a.
small&&Yn(a.small,o,a.drawn.layout)})};return Il(o,a,e),{nodes:[...t.data.channels.size?[]:[Wl(t,a.drawn.data)],i.host,r,
s,o,_l(a.drawn.data)],update:u}}function us(t){let{data:e,target:n,shown:o,order:r,amount:s}=_t(t),a=e.targets.length?`;\
 ${jn(e.targets[n])}`:"";return{headline:`${e.heading}${a}`,meaning:`${e.meaning.split(". ")[0].replace(/\.$/,"")}.`,place:"",
shown:"a graph of components",remark:[...e.meaning.split(". ").slice(1),Fn(e,o,r,s)].join(". "),note:e.certificate,exact:!1,
method:"",file:["graph",e.heading.replace(/[^\w.-]+/g,"_").slice(0,60)]}}function fs(t,e){let n=_t(t),o=Math.min(1,e/n.layout.
width),r=[k("g",{transform:`scale(${o})`},[...Un(n).childNodes])];return{groups:[{x:0,y:0,pictures:[],nodes:r}],height:o*
n.layout.height}}function hs(t){let e=Ke(t.data,t.selection.run),n=function*(){for(let{source:o,target:r,unit:s,size:a,shares:i}of e.
edges)yield[e.nodes[o].name,e.nodes[r].name,s,a,...i]};return{head:["source","target","unit","size",...e.targets.map(({name:o})=>`\
share of ${o}`)],lines:n,count:e.edges.length}}function ds(t){let{nodes:e,edges:n}=Ke(t,0),o=(r,s)=>`${r} ${s}${r===1?"":
"s"}`;return`${t.model} · ${o(e.length,"node")} · ${o(n.length,"edge")} · ${o(t.words.length,"token")}`}function Qn(t){let{fromBase64:e}=Uint8Array;if(e)return e.call(Uint8Array,t);let n=atob(t),o=new Uint8Array(n.length);for(let r=0;r<
n.length;r++)o[r]=n.charCodeAt(r);return o}async function ye(t){let e=new Blob([Qn(t)]).stream().pipeThrough(new DecompressionStream(
"deflate"));return new Uint8Array(await new Response(e).arrayBuffer())}function to(t,e,n,o){let r=t.length/e.bytes,s=new Uint16Array(
r/e.low.length);for(let a=0,i=n*s.length;a<s.length;a++,i++){let l=e.bytes===2?t[i]*256+t[r+i]:t[i];s[a]=o?o[a]+(l%2?-(l+
1)/2:l/2):l}return s}function eo(t,e,n){let o=256**e.bytes-1,r=e.signed?(o-1)/2:o-1,s=new Float32Array(t.length);for(let a=0;a<
t.length;a++){let i=t[a];if(i===0)continue;if(i===o){s[a]=NaN;continue}let l=i>r,u=Math.exp(e.low[n]+e.step[n]*(i-1-(l?r:
0)));s[a]=l?-u:u}return s}function Jn(t){return t.replaceAll("-","−")}var Pl=" %";function R(t,e=3){if(!Number.isFinite(
t))return"–";let n=Math.abs(t);return t===0?"0":n>=1e5||n<1e-4?Jn(t.toExponential(e-1)):Jn(n>=10**(e+1)?String(Math.round(
t)):String(Number(t.toPrecision(e))))}function D(t,e=3){return Number.isFinite(t)?R(100*t,e)+Pl:"–"}function Ge(t,e=3){
if(!Number.isFinite(t))return"–";let n=R(100*t,e);return`${n} point${/^−?1$/.test(n)?"":"s"}`}function T(t,e){let n=e?
Ge(t):R(t);return t>0?`+${n}`:n}function Y(t,e,n=!1){return e?n?Ge(t,2):D(t,2):R(t,2)}function ke(t){return t===0?"0":Jn(
t.toExponential(1))}function V(t,e,n){return e===Object.keys(t.runs[0].blocks)[0]?n:`${e}: ${n}`}function Bl(t){let e=new Map;for(let[n,o]of Object.
entries(t.runs[0].blocks))o.kind==="maps"&&o.channels.forEach((r,s)=>{let a=V(t,n,r.name);e.set(a,{...r,key:a,index:s,blockName:n,
before:r.before&&V(t,n,r.before)})});return e}function pt(t,e){return Object.entries(t.runs[0].blocks).filter(([,n])=>n.
kind==="maps"&&(!e||n.axis===e))}function $e(t){return Object.values(t.runs[0].blocks).filter(({kind:e})=>e==="effects")}
function Xe(t,e,...n){let o=t.tables[e];if(!o)return NaN;let r=o.values;for(let[s,a]of o.axes.entries())if(r=r[a.indexOf(
n[s])],r==null)return NaN;return r}function gt(t){return t.runs.map(({name:e})=>e).join()==="mean,low,high"?[1,2]:[]}function Ze(t,e,n,o){
let r=e===0?gt(t):[];return r.length&&r.every(s=>t.loaded(s,n))?r.map(s=>t.matrix(s,n,o)):null}function _(t){return t.channels.
size>0}function no(t,e){let n=t.words.length,o=new Float32Array(t.queries.length*n).fill(NaN),r=0;return t.queries.forEach(
(s,a)=>{let i=t.causal?s+1:n;o.set(e.subarray(r,r+i),a*n),r+=i}),o}function Hl(t){let e=new Map,n=0;return(o,r)=>{let s=e.
get(o),a=s||r();s?e.delete(o):n+=a.length,e.set(o,a);for(let[i,{length:l}]of e){if(n<=t||i===o)break;e.delete(i),n-=l}return a}}
function Ye(){let[t,e]=[null,null];return(n,o)=>(n!==t&&([t,e]=[n,o()]),e)}var ql=2**24;function ms(t){let e={...t,latestAxes:Ye(),
latestMaps:Ye(),channels:Bl(t)},n=new Map,o=new Map,r=Hl(ql),s=($,M,N)=>[$,M,N].join(`
`),a=($,M,N)=>{let S=e.channels.get(M),O=e.runs[$].blocks[S.blockName];return N==="values"?O.values[S.name]:O.columns[N]&&
O.columns[N][S.name]},i=($,M)=>M.reference&&V(e,e.channels.get($).blockName,M.reference),l=async($,M,N)=>{let S=a($,M,N),
O=i(M,S),[E]=await Promise.all([ye(S.packed),O&&u($,O,N)]);o.set(s($,M,N),E)},u=($,M,N)=>{let S=s($,M,N);return n.has(S)||
n.set(S,l($,M,N)),n.get(S)},c=($,M,N,S)=>{let O=a($,M,N),E=i(M,O);return to(o.get(s($,M,N)),O,S,E?c($,E,N,S):null)},f=($,M,N,S)=>{
let O=e.layers.indexOf(S);return r([s($,M,N),O].join(`
`),()=>{let E=eo(c($,M,N,O),a($,M,N),O);return N==="values"?no(e,E):E})},h=($,M)=>{let N=e.runs[$].blocks[e.channels.get(
M).blockName];return Promise.all(["values",...Object.keys(N.columns)].map(S=>u($,M,S)))},d=new Map;return Object.assign(
e,{load:h,open:async $=>{d.has($)||d.set($,await ye($.packed))},numbersAt:($,M)=>eo(to(d.get($),$,M,null),$,M),loaded:($,M)=>o.
has(s($,M,"values")),matrix:($,M,N)=>f($,M,"values",N),column:($,M,N,S)=>a($,M,N)?f($,M,N,S):null,block:$=>e.runs[0].blocks[e.
channels.get($).blockName]})}var Dl=["others","row","column","none"],Vl=["percentile","off-diagonal","all"],Kl=["","special","first","special first"],
Ul=["","before","after","difference"],Gl=["change","share","distance"],Yl=/^[\d.]{0,400}$/,Xl=/^\d-\d$/,Zl=/^\d{1,5}-\d{1,5},\d{1,5}-\d{1,5}$/,
Jl=["overview","maps","heads","all","scores","memories","numbers","graph"];function Ql(t,e){return Number.isInteger(e)&&
e>=0&&e<t.words.length}function ro(t,e){let[n,o]=e.split("-").map(Number);return Xl.test(e)&&Math.max(n,o)<t.segments.length&&
(!t.causal||o<=n)}function Je(t){return(e,n)=>Number.isInteger(n)&&n>=t&&n<1e6}var oo={run:(t,e)=>Number.isInteger(e)&&e>=
0&&e<t.runs.length,scope:(t,e)=>t.channels.has(e),layer:(t,e)=>t.layers.includes(e),refRun:(t,e)=>Number.isInteger(e)&&e>=
0&&e<t.runs.length,ref:(t,e)=>e===""||t.channels.has(e),to:(t,e)=>t.queries.includes(e),from:Ql,read:(t,e)=>e==="row"||e===
"column",view:(t,e)=>Jl.includes(e),heads:(t,e)=>Yl.test(e),between:(t,e)=>e===""||ro(t,e),block:(t,e)=>e===""||Object.hasOwn(
t.runs[0].blocks,e),cells:(t,e)=>Dl.includes(e)&&(e!=="column"||t.queries.length===t.words.length),range:(t,e)=>Vl.includes(
e),root:(t,e)=>e===0||e===1,each:(t,e)=>e===0||e===1,words:(t,e)=>e===0||e===1,hide:(t,e)=>Kl.includes(e),panel:(t,e)=>Ul.
includes(e),zoom:(t,e)=>e===""||Zl.test(e),sort:(t,e)=>Gl.includes(e),pairs:(t,e)=>e==="all"||e==="token",mass:(t,e)=>Number.
isInteger(e)&&e>=1&&e<=100,find:(t,e)=>typeof e=="string"&&e.length<=60,neuron:Je(-1),node:Je(-1),amount:Je(-1),target:Je(
0),inks:(t,e)=>["share","rank","entropy"].includes(e)};function Qe(t,e,n,o){return n!==o||!_(t)?e:t.channels.get(e).before||
""}function tc(t){return t.causal?Math.max(...t.queries):t.words.length-1}function ec(t,e){return!e||!Pt(e)?"none":e.cells===
"others"&&tc(t)<2?"row":e.cells}var nc=60;function oc(t){let{scope:e,run:n,refRun:o}=t.start;return _(t)&&Qe(t,e,n,o)!==
""&&!t.block(e).signed&&t.words.length>=nc?"difference":""}function gs(t){let{scope:e,layer:n,to:o,from:r,run:s,refRun:a,
view:i}=t.start;return{run:s,scope:e,layer:n,refRun:a,ref:Qe(t,e,s,a),to:o,from:r,read:"row",view:i,heads:"",between:"",
block:"",cells:ec(t,_(t)&&t.block(e)),range:t.words.length>=te?"percentile":"off-diagonal",root:0,each:0,words:0,hide:"",
panel:oc(t),zoom:"",sort:"change",pairs:"all",mass:100,find:"",neuron:-1,node:-1,amount:-1,target:0,inks:"share"}}function Pt(t){
return!t.signed&&t.whole}function tn(t,{scope:e,ref:n}){return _(t)&&Pt(t.block(e))&&(n===""||Pt(t.block(n)))}function ws(t,e,n){
let o={...e,...n};return["scope","run","refRun"].some(s=>s in n&&n[s]!==e[s])&&!("ref"in n)&&(e.ref===Qe(t,e.scope,e.run,
e.refRun)||e.run===e.refRun!=(o.run===o.refRun))&&(o.ref=Qe(t,o.scope,o.run,o.refRun)),o.ref===o.scope&&o.run===o.refRun&&
(o.ref=""),tn(t,o)||(o.cells="none"),("words"in n||"hide"in n)&&(o.zoom=""),o}function en(t,e){let n=gs(t),o=Object.keys(
oo).filter(r=>e[r]!==n[r]).map(r=>`${r}=${encodeURIComponent(e[r])}`);return o.length?`#${o.join("&")}`:""}function so(t,e){
let n=gs(t),o={...n};for(let r of e.replace(/^#/,"").split("&")){let[s,a]=r.split("=");if(!Object.hasOwn(oo,s)||a===void 0)
continue;let i=typeof n[s]=="number"?Number(ps(a)):ps(a);oo[s](t,i)&&(o[s]=i)}return tn(t,o)||(o.cells="none"),o}function ps(t){
try{return decodeURIComponent(t)}catch{return""}}function bs(t,e,n){let o=new Set;if(n.includes("special"))for(let r of t.
special)o.add(e.columnOf[r]);return n.includes("first")&&o.add(0),o}function nn(t,e){let n=[0,t.nRows-1,0,t.nColumns-1],
o=e.split(/[-,]/).map(Number);if(e===""||o.length!==4)return n;let r=(c,f)=>Math.max(0,Math.min(f,c)),[s,a,i,l]=o,u=[r(s,
n[1]),r(a,n[1]),r(i,n[3]),r(l,n[3])];return u[0]<=u[1]&&u[2]<=u[3]?u:n}function ao([t,e,n,o]){return`${t}-${e},${n}-${o}`}
function io(t,e){let[n,o,r,s]=nn(t,e.zoom),a=(l,u,c,f)=>{let h=Math.max(4,Math.ceil((u-l+1)/2)),d=Math.max(0,Math.min(c-
Math.floor(h/2),f-h+1));return[d,Math.min(f,d+h-1)]},i=Math.max(0,t.rowOf(e.to));return ao([...a(n,o,i,t.nRows-1),...a(r,
s,t.columnOf[e.from],t.nColumns-1)])}function xs(t,e,n){let o=e.trim().toLowerCase();if(o==="")return-1;if(/^\d+$/.test(
o)&&Number(o)<t.length)return Number(o);for(let r=1;r<=t.length;r++){let s=(n+r)%t.length;if(t[s].toLowerCase().includes(
o))return s}return-1}function lo(t){let e=[];return t.forEach((n,o)=>{o&&n===t[o-1]?e[e.length-1].push(o):e.push([o])}),e}function rc(t){return t.
length===1?t[0]:t.map((e,n)=>n?e.replace(/^##/,""):e).join("")}function ys(t,e){let n=e?lo(t.words):t.words.map((a,i)=>[
i]),o=[];n.forEach((a,i)=>a.forEach(l=>{o[l]=i}));let r=[];t.queries.forEach((a,i)=>{let l=r.find(u=>u.own===o[a]);l?l.members.
push(i):r.push({own:o[a],members:[i],position:a})});let s=r.map(a=>a.own);return{columns:n.map(a=>({members:a,position:a[0]})),
rows:r,own:s,columnOf:o,nRows:r.length,nColumns:n.length,reaches:(a,i)=>!t.causal||i<=s[a],rowOf:a=>s.indexOf(o[a]),labels:a=>n.
map(i=>rc(i.map(l=>a[l])))}}function Bt(t,e){return t.named?"":`position ${e}`}function on(t,e,n){return t.named?"":`fro\
m ${Bt(t,e)} to ${Bt(t,n)}`}function ne(t,e){return t.named?"":e}function co(t,e){return Math.max(0,t.segments.filter(([
,n])=>n<=e).length-1)}function ks(t,e){return t.map((n,o)=>n===e[o]?n:`${n}→${e[o]}`)}function ve(t,e,n){let o=new Float32Array(
t.nRows*t.nColumns).fill(NaN);return t.rows.forEach((r,s)=>t.columns.forEach((a,i)=>{let[l,u]=[0,!1];for(let c of r.members)
for(let f of a.members){let h=e[c*n+f];Number.isNaN(h)||(l+=h,u=!0)}u&&(o[s*t.nColumns+i]=l/r.members.length)})),o}function $s(t,e){
return Float32Array.from(t.rows,n=>n.members.reduce((o,r)=>o+e[r],0)/n.members.length)}function uo(t,e,n,o){let{data:r,axes:s,selection:a,hidden:i}=t,l=g=>a.words?ve(s,g,r.words.length):g,u=g=>g&&(a.words?$s(
s,g):g),c=l(r.matrix(e,n,a.layer)),f=Object.keys(r.block(n).columns),h=Object.fromEntries(f.map(g=>[g,u(r.column(e,n,g,a.
layer))]));a.cells==="others"&&(h.own=Pn(s,c,i));let d=_n(s,c,i,a.cells),m=r.block(n).shares||a.cells;return{role:o,key:n,
run:e,raw:c,columns:h,cells:d,shares:m,asShare:m!=="none",limit:Ot(s,d,a.range,m==="others"||m==="row"),top:A(d),scale:r.
block(n).signed?"signed":"contribution",labels:s.labels(r.runs[e].tokens)}}function sc(t,e,n){let o=Object.keys(n.columns).
filter(s=>s in e.columns),r=qe(n.cells,e.cells);return{role:"difference",key:n.key,run:n.run,shares:n.shares,asShare:n.asShare,
raw:qe(n.raw,e.raw),cells:r,limit:Ot(t.axes,r,t.selection.range,n.shares==="others"||n.shares==="row"),top:A(r),columns:Object.
fromEntries(o.map(s=>[s,qe(n.columns[s],e.columns[s])])),scale:"signed",labels:ks(e.labels,n.labels)}}var Ht=["run","sco\
pe","layer","refRun","ref","cells","range","each","words","hide"];function ac(t){let{selection:e}=t,n=uo(t,e.run,e.scope,
e.ref?"after":"only");if(!e.ref)return[n];let o=uo(t,e.refRun,e.ref,"before");return o.scale!==n.scale||o.shares!==n.shares?
[o,n]:(e.each||(o.limit=n.limit=Math.max(o.limit,n.limit)),[o,n,sc(t,o,n)])}function ic(t){return["own",...Object.keys(t[0].
columns).filter(n=>n!=="own")].filter(n=>t.some(o=>o.columns[n]&&A(o.columns[n])>0))}function fo(t,e){let n=t.latestAxes(
e.words,()=>ys(t,e.words===1)),o=bs(t,n,e.hide),r={data:t,selection:e,axes:n,hidden:o,window:nn(n,e.zoom)},s=JSON.stringify(
Ht.map(a=>e[a]));return r.maps=_(t)?t.latestMaps(s,()=>ac(r)):[],r.strips=_(t)?ic(r.maps):[],r.row=Math.max(0,n.rowOf(e.
to)),r.column=n.columnOf[e.from],r}function rn(t,e,n){let{data:o,selection:r,axes:s}=t,a=Pt(o.block(n))?r.cells:"none",i={
...t,selection:{...r,layer:e,cells:a},window:nn(s,"")};return{...i,map:uo(i,r.run,n,"only")}}function Lt({maps:t}){return t.
length===2}function wt({maps:t}){return t[t.length>1?1:0]}function z({maps:t,axes:e,data:n,selection:o}){return t.length?
t[t.length-1].labels:e.labels(n.runs[o.run].tokens)}function ut(t,e){let n=z(t);return n.indexOf(n[e])!==n.lastIndexOf(n[e])?
`@${t.axes.columns[e].position}`:""}function oe(t){let e=t.maps.filter(n=>n.role===t.selection.panel);return e.length?e:
t.maps}function re(t,e){let{axes:n,selection:o,row:r,column:s}=t,a=new Float32Array(n.nColumns).fill(NaN);return o.read===
"row"?a.set(e.cells.subarray(r*n.nColumns,(r+1)*n.nColumns)):n.own.forEach((i,l)=>{a[i]=e.cells[l*n.nColumns+s]}),a}function q(t){
return t.selection.read==="row"?t.axes.own[t.row]:t.column}function ho(t){let e=q(t),o=t.maps.filter(r=>r.role!=="differ\
ence").map(r=>A(re(t,r).map((s,a)=>a===e?NaN:s)));return Lt(t)?o:o.map(()=>Math.max(...o))}function lc(t,e){return{...t,
nRows:1,rows:[t.rows[e]],own:[t.own[e]]}}function vs(t,e,n,o){let{data:r,selection:s,axes:a}=t,i=r.matrix(e,n,o),l=s.read===
"row"&&s.cells!=="column",u=t.row*a.nColumns,c=l?{...t,axes:lc(a,t.row),row:0}:t;return{reduced:c,raw:s.words?ve(c.axes,
i,r.words.length):l?i.subarray(u,u+a.nColumns):i}}function sn(t,e,n){let{data:o,selection:r,axes:s}=t,a=new Float32Array(
o.layers.length*s.nColumns);return o.layers.forEach((i,l)=>{let{reduced:u,raw:c}=vs(t,e,n,i),f=_n(u.axes,c,t.hidden,r.cells);
a.set(re(u,{cells:f}),l*s.nColumns)}),a}function Ms(t,e,n){return Float32Array.from(t.data.layers,o=>{let{reduced:r,raw:s}=vs(
t,e,n,o);return Pn(r.axes,s,t.hidden)[r.row]})}function mo(t,e){let{data:n,axes:o,selection:r}=t,s=n.layers.map(()=>q(t));
return Ot({...o,nRows:s.length,own:s},e,r.range)}function cc({axes:t,maps:e,row:n,column:o}){return t.own[n]!==o&&!Number.
isNaN(e[e.length-1].cells[n*t.nColumns+o])}function uc({axes:t,maps:e,row:n}){let o=e[e.length-1].cells.subarray(n*t.nColumns,
(n+1)*t.nColumns),r=t.own[n];return o.forEach((s,a)=>{let i=r===t.own[n]?0:Math.abs(o[r]);a!==t.own[n]&&Math.abs(s)>i&&(r=
a)}),t.columns[r].position}function Cs(t,e,n){let o=ws(t,e,n),r="to"in n&&o.read==="row";if("from"in n||!(r||"hide"in n)||
!_(t)||![[o.run,o.scope],...o.ref?[[o.refRun,o.ref]]:[]].every(([i,l])=>t.loaded(i,l)))return o;let a=fo(t,o);return cc(
a)?o:{...o,from:uc(a)}}var fc={others:"share of what comes from other tokens",row:"share of the row's total",column:"share of the column's tota\
l",none:"norm, in units of the residual stream"},hc={"off-diagonal":"the largest value of another token in rows of three\
 or more",percentile:"the 99th percentile of other tokens' values"},dc={ATTN:"attention",RES:"the residual connection",LN:"\
the norm",FF:"the feed-forward block"};function st(t){return`“${t}”`}function nt(t,e,n){return t.role==="difference"||
t.scale==="signed"?T(e,n):n?D(e):R(e)}function rt(t,e){return st(z(t)[e]+ut(t,e))}function Me(t,e){let n=t.channels.get(
e);return n.label===n.name?e:`${n.label} (${n.name})`}function an(t,e,n){return t.runs[e].tokens.join(" ").replace(/(^| )·/g,
"$1").slice(0,n)}function po(t,e){return t.runs.length>1?t.runs[e].name:""}function bt(t,e,n){return[po(t,e),t.channels.
get(n).name].filter(Boolean).join(" · ")}function go(t,e){return t.maps.map(n=>n.role==="difference"?"difference":Lt(t)?
n.key:e(n))}function qt(t){let{data:e,maps:n}=t,o=n.filter(({role:s})=>s!=="difference"),r=s=>new Set(o.map(a=>a[s])).size>
1;return go(t,({run:s,key:a})=>r("run")?r("key")?bt(e,s,a):po(e,s):e.channels.get(a).name)}function wo(t){let{data:e,selection:n}=t;
return n.run===n.refRun&&n.ref!==""&&e.channels.get(n.scope).before===n.ref}function vt(t,e){let{data:n,selection:o}=t;if(e.
role==="difference")return"Difference";if(e.role==="only")return bt(n,e.run,e.key);let r=wo(t)&&n.channels.get(o.scope).
component,s=e.role==="before"?"Before":"After";return r?`${s} ${r}: ${n.channels.get(e.key).name}`:bt(n,e.run,e.key)}function Ce(t,e){
let{data:n,selection:o}=t;if(e.role==="difference"){let r=[bt(n,o.run,o.scope),bt(n,o.refRun,o.ref)];return`${r[0]} − ${r[1]}`}
return n.block(e.key).signed?n.block(e.key).title:n.channels.get(e.key).label}function mc(t,e){let n=t.data.block(e.key),
o=e.asShare?fc[e.shares]:n.unit,r=e.scale==="signed"&&e.asShare;return e.role==="difference"||r?`${r&&e.role!=="differen\
ce"?"difference":"change"} of the ${o}${e.asShare?", in percentage points":""}`:o}function bo(t){return t.top>t.limit*1.0001}
function xo({data:t,selection:e},n){return n.role!=="difference"&&n.scale==="signed"&&n.run===0&&!e.words&&e.cells==="no\
ne"&&gt(t).length>0}function yo(t){return t>1.001?[`1 pixel = ${R(t,2)} tokens, the strongest is shown. Drag to zoom.`]:
[]}function Os(t,e,n){let{selection:o,strips:r}=t,s=[mc(t,e)+(o.root?", on a square-root scale.":".")];bo(e)&&s.push(`Co\
lours end at ${hc[o.range]}; cells reach ${Y(e.top,e.asShare,e.scale==="signed")}.`),xo(t,e)&&s.push("Crossed: the 95 % \
interval contains 0."),t.hidden.size&&s.push("Hidden tokens are left out of the shares.");let a=r.filter(i=>i!=="own"&&e.
columns[i]);for(let i of a)s.push(`${i}: up to ${Y(A(e.columns[i]),!1)}.`);return[...s,...yo(n)]}function ko(t,e){let n={
others:", as a share of the parts of all other tokens",row:", as a share of the parts of all tokens",column:", as a shar\
e of all that the column's token brings",none:""}[e];return`${t.meaning}${n}`}function pc({data:t,selection:e}){let n=e.
cells==="others"?" Grey strip: the token's own share.":"",o=t.block(e.scope);return`A cell: ${ko(o,o.shares||e.cells)}.${n}`}
function gc(t,e){return e>t?"raises":e<t?"lowers":"leaves"}function Ls(t){return t&&t[0].toUpperCase()+t.slice(1)}function se({
data:t,selection:e}){return t.layered?`layer ${e.layer}`:""}function wc(t){let{data:e,selection:n}=t,o=e.layered||e.channels.
size>1?bt(e,n.run,n.scope):po(e,n.run);return[se(t),o].filter(Boolean).join(", ")}function Ns(t){let{data:e,selection:n}=t;
if(n.run!==n.refRun)return`${Ls([se(t),e.channels.get(n.scope).name].filter(Boolean).join(", "))}: from ${e.runs[n.refRun].
name} to ${e.runs[n.run].name}`;let o=dc[e.channels.get(n.scope).component];return wo(t)&&o?`Layer ${n.layer}: ${o}`:`La\
yer ${n.layer}: from ${e.channels.get(n.ref).name} to ${e.channels.get(n.scope).name}`}function Ne(t,e){return`${t} cann\
ot see ${e}, which comes later.`}function bc(t,e,n){let{axes:o,row:r,column:s,hidden:a}=t,i=wt(t),l=s===o.own[r]&&!a.has(
s)&&i.columns.own;if(l)return`${D(l[r])} of ${e} is its own; the map shows the rest.`;let u=a.has(s)?`${n} is hidden`:"t\
hese maps have no such cell";return`There is no ${i.asShare?"share":"number"} here of what ${e} takes from ${n}: ${u}.`}
function xc({maps:t},e,n){return{others:`the share of ${n} in what ${e} takes from other tokens`,row:`the share of ${n} \
in all that ${e} takes`,column:`the share of ${e} in all that ${n} gives`,none:`what ${e} takes from ${n}`}[t[0].shares]}
function yc(t,[e,n],o,r,s){let a=t.asShare?Ge(Math.abs(s)):R(Math.abs(s)),i=t.asShare?", as a share of what it takes fro\
m other tokens,":"";return s===0?`${o} takes${i} as much from ${r} in ${e} as in ${n}`:`${o} takes${i} ${a} ${s>0?"more":
"less"} from ${r} in ${e} than in ${n}`}function kc(t,e,n,o){let{data:r,maps:[s]}=t,a=nt(s,o,s.asShare),{sides:i}=r.block(
s.key);return i.length?yc(s,i,e,n,o):r.layered?{others:`of what ${e} takes from other tokens, ${a} comes from ${n}`,row:`\
of all that ${e} takes, ${a} comes from ${n}`,column:`of all that ${n} gives, ${a} goes to ${e}`,none:`${e} takes ${a} f\
rom ${n}`}[s.shares]:`${n} brings ${a} to ${e}`}function $c(t){let{data:e,maps:n,axes:o,row:r,column:s,selection:a}=t,i=r*
o.nColumns+s,l=g=>nt(n[g],f[g],n[g].asShare),[u,c]=[rt(t,o.own[r]),rt(t,s)],f=n.map(g=>g.cells[i]);if(!o.reaches(r,s))return Ne(
u,c);if(f.some(Number.isNaN))return bc(t,u,c);if(n.length===1)return`${Ls([wc(t),kc(t,u,c,f[0])].filter(Boolean).join(":\
 "))}.`;if(Lt(t)){let g=n.map((b,x)=>`${l(x)} (${e.block(b.key).title}, ${e.channels.get(b.key).name})`);return`Layer ${a.
layer}, what ${u} takes from ${c}: ${g.join(" and ")}.`}let h=`${l(0)} → ${l(1)}`,d=xc(t,u,c);return a.run!==a.refRun||
!wo(t)?`${Ns(t)}, ${d} goes ${h}.`:`${Ns(t)} ${gc(f[0],f[1])} ${d}: ${h}.`}function vc(t){let{axes:e,row:n,column:o,selection:r,
window:[s,a,i,l]}=t,[u,c]=[n>=s&&n<=a,o>=i&&o<=l],[f,h]=[rt(t,e.own[n]),rt(t,o)],d=r.read==="row"?u&&`the row of ${f}`:c&&
`the column of ${h}`,m=u&&c&&e.reaches(n,o)&&`the cell from ${h} to ${f}`,g=[d,m].filter(Boolean);return g.length?`Marke\
d: ${g.join(" and ")}.`:""}function Dt(t){let{data:e,selection:n,maps:o}=t,r=[n.ref&&bt(e,n.refRun,n.ref),bt(e,n.run,n.scope)],
s=o.filter(a=>a.role!=="difference").map(a=>Me(e,a.key)).join(" and ");return{headline:$c(t),meaning:pc(t),place:se(t),note:vc(
t),exact:o.some(a=>e.block(a.key).exact),method:"",shown:`${e.block(n.scope).title}, ${s}`,remark:oe(t).includes(o[2])?`${vt(
t,o[2])}: ${Ce(t,o[2])}.`:"",file:[se(t).replace(" ",""),r.filter(Boolean).join("-").slice(0,60),n.cells]}}function $o(t,{
run:e},n){return t.words.length?`${t.model} reading “${an(t,e,n)}”`:t.model}function Es({data:t,selection:e},n){let o=t.
certificate&&n.exact,r=o?"method of Kobayashi et al. (2024)":n.method,a=[["tl_ffblock","transformer_lens","torch"].filter(
i=>t.provenance[i]).map(i=>`${i} ${t.provenance[i]}`).join(", "),r].filter(Boolean).join("; ");return[n.headline,`${$o(t,
e,300)}${n.place&&`, ${n.place}`}: ${n.shown}. ${n.meaning}`.trim(),n.remark,n.note,o?`Sums of parts equal the model's o\
wn tensors to ${ke(t.certificate.error)}.`:"",a&&`${a}.`].filter(Boolean).join(" ")}function As(t){let e=t.certificate;if(!e)
return t.statement;let n=`${e.scope}, layer ${e.layer}, ${st(t.runs[e.run].tokens[e.query])} at position ${e.query}`;return`${t.
block(t.start.scope).signed?"Both results are exact":"✓ Exact"}: parts and bias sum to the model's own tensors, with a\
 relative error of at most ${ke(e.error)} (${n}).`}function vo({data:t,selection:e},n,o){let r=t.runs[e.run].tokens.slice(
0,6).join("-").slice(0,40);return[t.model.slice(0,40),r,...n.file.filter(Boolean)].join("_").replace(/[^A-Za-z0-9._-]+/g,
"").replace(/-{2,}/g,"-")+`.${o}`}function Mc(t,e,n){let{axes:o}=t,r=new Uint8Array(e.cells.length);for(let s=0;s<o.nRows;s++){let a=s*o.nColumns,i=Array.
from({length:o.nColumns},(c,f)=>a+f).filter(c=>!Number.isNaN(e.cells[c]));i.sort((c,f)=>Math.abs(e.cells[f])-Math.abs(e.
cells[c]));let l=i.reduce((c,f)=>c+Math.abs(e.cells[f]),0),u=0;for(let c of i){if(u>=n/100*l)break;r[c]=1,u+=Math.abs(e.
cells[c])}}return r}function Mo(t,e){return Math.abs(t.own[Math.floor(e/t.nColumns)]-e%t.nColumns)}function Cc(t,e,n){let{
axes:o,maps:r}=t,s=r[r.length-1];return e==="distance"?Mo(o,n):Math.abs((e==="change"?s:wt(t)).cells[n])}function Nc(t){
let{axes:e,selection:n,row:o,column:r}=t,s=n.find.trim().toLowerCase(),a=z(t).map(i=>s===""||i.toLowerCase().includes(s));
return(i,l)=>(n.pairs==="all"||(n.read==="row"?i===o:l===r))&&(a[l]||a[e.own[i]])}function Ss(t,e){let{axes:n,selection:o,
maps:r}=t,s=o.mass<100?r.filter(d=>d.role!=="difference").map(d=>Mc(t,d,o.mass)):[],a=Nc(t),i=r[r.length-1].cells,[l,u]=[
[],[]];for(let d=0;d<i.length;d++){let[m,g]=[Math.floor(d/n.nColumns),d%n.nColumns];Number.isNaN(i[d])||n.own[m]===g||!a(
m,g)||s.length&&!s.some(b=>b[d])||(l.push(d),u.push(Cc(t,o.sort,d)))}let c=we(Float64Array.from(u),Math.max(0,u.length-e)),
f=l.map((d,m)=>({index:d,size:u[m]})).filter(({size:d})=>!(d<c));return f.sort((d,m)=>m.size-d.size||d.index-m.index),{pairs:f.
slice(0,e).map(({index:d})=>({row:Math.floor(d/n.nColumns),column:d%n.nColumns,index:d})),total:l.length}}function ln(t,e,n){
let o=s=>Array.from(s.keys()).filter(a=>!Number.isNaN(s[a])).sort((a,i)=>Math.abs(s[i])-Math.abs(s[a])||a-i),r=new Map(e?
o(e).map((s,a)=>[s,a]):[]);return o(t).slice(0,n).map((s,a)=>({at:s,rank:a,earlier:r.has(s)?r.get(s):null}))}function Et({data:t},e,n){let o=t.named?t.details[n]:Bt(t,n);return o?`${e} (${o})`:e}function Vt(t,e){return p("tr",{},
[p("th",{textContent:t,scope:"row"}),...e.map(n=>p("td",{textContent:n}))])}function cn(t,e){let n=qt(t).map(o=>p("th",{
textContent:o,scope:"col"}));return p("table",{className:"numbers"},[p("tr",{},[p("td"),...n]),...e])}function Co(t,{row:e,
column:n}){let o=e*t.axes.nColumns+n,r=[Vt(Lt(t)?"number":t.data.block(t.selection.scope).short,t.maps.map(c=>nt(c,c.raw[o],
t.data.block(c.key).shares!=="")))],s={others:"share of others",row:"share of row",column:"share of column"}[t.selection.
cells],{data:a,selection:i}=t,l=t.maps.length===1&&Ze(a,i.run,i.scope,i.layer);l&&r.push(Vt("95 % interval",[l.map(c=>nt(
t.maps[0],c[o],a.block(i.scope).shares!=="")).join(" to ")]));let u=[i.layer,-1,t.axes.rows[e].position,t.axes.columns[n].
position];for(let c of $e(a)){let f=Xe(c,"cell",...u);Number.isNaN(f)||r.push(Vt(`${c.target} ${c.short}`,[T(f,!1)]))}return s&&
r.push(Vt(s,t.maps.map(c=>nt(c,c.cells[o],!0)))),cn(t,r)}function Oc(t,{row:e,strip:n}){return cn(t,[Vt(n,t.maps.map(o=>o.
columns[n]?nt(o,o.columns[n][e],n==="own"):"–"))])}function J(t,e){return p("div",{},[p("span",{className:"tip-label",
textContent:t}),p("bdi",{textContent:e})])}function Lc(t,e){let{axes:n}=t,o=z(t),r=()=>J("to",Et(t,o[n.own[e.row]],n.rows[e.
row].position)),s=()=>J("from",Et(t,o[e.column],n.columns[e.column].position));return e.strip?[r(),Oc(t,e)]:e.row===void 0?
[s()]:e.column===void 0?[r()]:n.reaches(e.row,e.column)?[r(),s(),Co(t,e)]:[r(),s(),p("div",{textContent:"Not reachable: \
this model looks at earlier tokens only."})]}function ae(t,e,n){t.style.left=`${Math.max(4,Math.min(e+16,window.innerWidth-
t.offsetWidth-8))}px`;let o=n+18+t.offsetHeight<window.innerHeight;t.style.top=`${Math.max(4,o?n+18:n-t.offsetHeight-12)}\
px`}function Ts(t,e,n,o){let r=w("tooltip");r.hidden=!e,!r.hidden&&(r.replaceChildren(...Lc(t,e)),ae(r,n,o))}function un(t,e){let n=p("i",{className:"bar-fill"});return Object.assign(n.style,{width:`${Math.max(.5,100*Math.min(1,t))}\
%`,backgroundColor:e}),p("span",{className:"bar"},[n])}function No({palette:t},e,n){return e.scale==="signed"?t[n<0?"los\
s":"gain"]:t.contribution}function Ec(t){let{axes:e,row:n,column:o,data:r}=t,s=z(t),a=e.reaches(n,o);return p("section",
{className:"card"},[p("h3",{},["Cell: ",p("bdi",{textContent:s[o]}),`${ut(t,o)} → `,p("bdi",{textContent:s[e.own[n]]}),
ut(t,e.own[n])]),p("p",{className:"note",textContent:[on(r,e.columns[o].position,e.rows[n].position),se(t)].filter(Boolean).
join(", ")}),a&&t.headsBlock?"":a?Co(t,{row:n,column:o}):p("p",{textContent:"Not reachable: this model looks at earlier \
tokens only."}),...Sc(t),...t.strips.length&&r.queries.length&&!t.headsBlock?[p("p",{className:"note",textContent:`${st(
s[e.own[n]])} as a row:`}),Ac(t)]:[]])}function Ac(t){return cn(t,t.strips.map(e=>Vt(e,t.maps.map(n=>n.columns[e]?nt(n,n.
columns[e][t.row],e==="own"):"–"))))}function Oo(t){let{data:e,selection:n}=t,o=e.channels.get(n.scope).name,r=pt(e,"h\
ead").find(([,s])=>s.of===o);return r&&!n.words?r[1].channels.map(s=>V(e,r[0],s.name)):[]}function Sc(t){let{data:e,selection:n,
axes:o,row:r,column:s,palette:a}=t,i=Oo(t);if(!i.length||!i.every(f=>e.loaded(n.run,f)))return[];let l=r*o.nColumns+s,u=i.
map(f=>({label:e.channels.get(f).name,value:e.matrix(n.run,f,n.layer)[l]||0})),c=A(u.map(({value:f})=>f));return u.sort(
(f,h)=>h.value-f.value),[p("p",{className:"note",textContent:`Through each head (norms; they do not add up), ${e.channels.
get(n.scope).name}:`}),p("div",{className:"bars"},u.slice(0,6).map(({label:f,value:h})=>p("div",{className:"bar-line"},[
p("span",{textContent:f}),un(h/(c||1),a.contribution),p("span",{textContent:R(h)})])))]}function Tc(t){return t.earlier===
null||t.earlier===t.rank?"":t.earlier>t.rank?`↑${t.earlier-t.rank}`:`↓${t.rank-t.earlier}`}var Rc=10;function zc(t,e){
let{maps:n,axes:o,selection:r}=t,s=Lt(t)?[n[1]]:n.filter(g=>g.role!=="difference"),a=s.map(g=>re(t,g)),i=a[a.length-1],l=ln(
i,a.length>1?a[0]:null,Rc),u=g=>nt(s[0],g,s[0].asShare),c=A(l.map(({at:g})=>Math.abs(i[g]))),f=s[s.length-1].labels,h=l.
map(g=>{let b=p("button",{type:"button",className:"plain"},[p("bdi",{textContent:f[g.at]}),ut(t,g.at)]),x=o.columns[g.at].
position;return b.addEventListener("click",()=>e(r.read==="row"?{from:x}:{to:x})),p("tr",{},[p("td",{},[b]),p("td",{},[un(
Math.abs(i[g.at])/(c||1),No(t,s[0],i[g.at]))]),p("td",{textContent:a.map(y=>u(y[g.at])).join(" → ")}),p("td",{className:"\
rank",textContent:Tc(g)})])}),d=q(t),m=p("h3",{},[r.read==="row"?"Strongest sources of ":"Strongest destinations of ",p(
"bdi",{textContent:f[d]}),ut(t,d)]);return p("section",{className:"card"},[m,p("table",{className:"profile"},h)])}function Rs(t,e,n){
n.replaceChildren(Ec(t),...t.headsBlock?[]:[zc(t,e)])}async function Wc(){if(typeof CircuitsVis=="object")return;let t=new TextDecoder().decode(await ye(w("circuitsvis-bundle").
textContent));document.head.append(p("script",{textContent:t}))}var Fc=0;function jc(t,e){let{axes:n,data:o}=t,r=p("div",
{id:`circuitsvis-${Fc++}`,className:"circuitsvis"}),s=p("figure",{},[p("figcaption",{textContent:`${vt(t,e)}: ${Ce(t,e)}`}),
r]),a=Array.from({length:n.nRows},(l,u)=>Array.from(e.cells.subarray(u*n.nColumns,(u+1)*n.nColumns),c=>c||0));return[s,()=>CircuitsVis.
render(r.id,CircuitsVis.AttentionPattern,{attention:a,tokens:e.labels,maxValue:e.limit||1,minValue:-(e.limit||1),maskUpperTri:o.
causal,positiveColor:e.scale==="signed"?be.light.gain:be.light.contribution,negativeColor:be.light.loss})]}async function Ic(t,e){
e.replaceChildren(p("p",{className:"note",textContent:"CircuitsVis draws…"})),await Wc();let n=oe(t).map(o=>jc(t,o));e.
replaceChildren(...n.map(([o])=>o));for(let[,o]of n)o();e.dataset.drawn="true"}function zs(t,e){if(delete e.dataset.drawn,
w("circuitsvis-bundle")===null||t.selection.view!=="maps"){e.replaceChildren();return}let n=p("button",{type:"button",textContent:"\
Draw with CircuitsVis"});n.addEventListener("click",()=>Ic(t,e)),e.replaceChildren(n)}function Oe(t){let{data:e,selection:n}=t;return e.runs[n.run].blocks[t.headsBlock||e.channels.get(n.scope).blockName].tracks}
var _c=.05;function Le(t){let e=t.map(o=>Object.entries(o.values).filter(([r])=>r!=="residual").flatMap(([,r])=>r).filter(
r=>r!==null)),n=A(e.filter((o,r)=>!t[r].stretched).flat());return t.map((o,r)=>o.stretched?[we([...e[r]],Math.floor(_c*(e[r].
length-1))),A(e[r])]:[0,n])}function ie(t){if(!t.stretched)return"";let[[e,n]]=Le([t]);return`${D(e,2)} to ${D(n,2)}`}function le(t){
return t===null?"undefined":t.toFixed(3)}function Ws(t){let{data:e,selection:n}=t,o=e.layers.indexOf(n.layer);return Oe(
t).filter(r=>r.cumulative).map(r=>{let s=r.columns.map(({label:a,channel:i})=>`${a} ${le(r.values[i][o])}`);return`Laye\
r ${n.layer} ${r.title}: ${s.join(" → ")}`}).join(" ")}function Ee(t,e){return Object.entries(t.runs[e].blocks).filter(([,n])=>n.kind==="logit")}function K(t,e){let n=Ee(t,e.run),
[,o]=n.find(([r])=>r===e.block)||n[0]||[null,null];return o}function Ae(t,e){let[n]=Ee(t,0).find(([,o])=>o.position===e)||
[];return n?{block:n,to:e-1,read:"row"}:null}function At({axes:t,hidden:e},n){return Float32Array.from(t.columns,({members:o},r)=>e.
has(r)?NaN:o.reduce((s,a)=>s+(n[a]??NaN),0))}function Lo(t,e){return e<t.residual.length-1?String(e):"end"}function Fs(t,e){
let n=t.runs.flatMap(({blocks:o})=>Object.entries(o)).find(([,o])=>o===e)[0];return t.runs.map(({blocks:o})=>o[n])}function Is(t){
return t.biases.some(([,,e])=>e!==0)}function _s(t){return t?Math.max(0,...t.flat().map(A)):0}function Eo(t){let e=K(t.data,
t.selection),n=e.residual.map(c=>At(t,c)),{nColumns:o}=t.axes,r=new Float32Array(n.length*o);n.forEach((c,f)=>r.set(c,f*
o));let s=n.map(()=>-1),a=Fs(t.data,e).map(({residual:c})=>Ot({nRows:n.length,nColumns:o,own:s},Float32Array.from(c.flatMap(
f=>Array.from(At(t,f)))),t.selection.range)),i=e.ends?e.ends.map(c=>c.map(f=>At(t,f))):null,l=Math.max(...a,_s(i)),u=e.heads?
Math.max(...Fs(t.data,e).map(({heads:c})=>A(c.map(A)))):0;return{block:e,rows:n,cells:r,limit:l,top:A(r),scale:"signed",
before:null,ends:i,neurons:e.neurons,unit:St(e),layers:n.map((c,f)=>f<n.length-1?f:null),names:n.map((c,f)=>Lo(e,f)),strip:Is(
e)?{name:"biases",scale:"signed",limit:l,values:Float32Array.from(n,(c,f)=>qc(e,f))}:null,heads:e.heads?{values:e.heads,
names:e.heads[0].map((c,f)=>String(f)),least:0,limit:u,scale:"signed",words:`heads, ±${Y(u,!1)}`}:null}}function Ps({data:t,
selection:e}){let n=t.channels.get(e.scope),o=pt(t,"head"),r=o.find(([c,f])=>f.of===n.name||c===n.blockName)||o[0],s=r&&
t.runs[e.run].blocks[r[0]].tracks[0];if(!s)return null;let a=s.columns.filter(({channel:c})=>c!=="residual"),i=t.layers.
map((c,f)=>a.map(({channel:h})=>s.values[h][f]??NaN)),[[l,u]]=Le([s]);return{values:i,least:l,limit:u,scale:"contributio\
n",names:a.map(({label:c})=>c.replace(/^head /,"")),words:`heads: ${s.title}${ie(s)&&`, ${ie(s)}`}`}}function Bs(t){let{
data:e,selection:n,axes:o,maps:r}=t,s=wt(t),a=sn(t,n.run,n.scope),i=r.length===3?sn(t,n.refRun,n.ref):null,l=i?[]:gt(e).
filter(f=>n.run===0&&e.loaded(f,n.scope)).map(f=>sn(t,f,n.scope)),u=f=>e.layers.map((h,d)=>f.subarray(d*o.nColumns,(d+1)*
o.nColumns)),c=n.read==="row"&&s.columns.own;return{block:null,rows:u(a),cells:a,before:i&&u(i),ends:l.length===2?l.map(
u):null,scale:s.scale,asShare:s.asShare,limit:Math.max(mo(t,a),i?mo(t,i):0,_s(l.map(f=>[f]))),top:Math.max(A(a),i?A(i):0),
layers:e.layers,names:e.layers.map(String),neurons:[],unit:"",heads:Ps(t),strip:c?{name:"own",scale:"bias",limit:1,values:Ms(
t,n.run,n.scope)}:null}}function Hs(t){let e=K(t.data,t.selection);if(e)return{strip:Is(e),heads:e.heads?e.heads[0].length:
0,neurons:e.neurons.length>0};let n=Ps(t);return{strip:t.selection.read==="row"&&!!wt(t).columns.own,heads:n?n.names.length:
0,neurons:!1}}function Ao(t,e){let{axes:n,selection:o}=t,r=K(t.data,o);if(r)return r.position!==void 0&&n.columns[e].position>=
r.position;if(o.read==="row")return!n.reaches(t.row,e);let s=n.own.indexOf(e);return s>=0&&!n.reaches(s,t.column)}function qs(t){
return K(t.data,t.selection)?Eo(t):Bs(t)}function Ds({data:t,selection:e}){if(e.run!==e.refRun)return`What differs in “${t.
runs[e.run].name}” from “${t.runs[e.refRun].name}”?`;let{component:n,before:o}=t.channels.get(e.scope),{sides:r}=t.
block(e.scope);if(r.length)return`What does a token take more of in ${r[0]} than in ${r[1]}?`;let s={FF:"feed-forward",ATTN:"\
attention",RES:"residual connection",LN:"norm"}[n];return s&&e.ref&&e.ref===o?`What does each layer's ${s} change?`:"Whe\
re does each layer take from?"}var Pc={others:"the length of that vector, as a share of the lengths from all other token\
s",row:"the length of that vector, as a share of the lengths from all tokens",column:"the length of that vector, as a sh\
are of the lengths of all that its source gives",none:"the length of that vector"},Bc={others:"as a share of what comes \
from all other tokens",row:"as a share of what comes from all tokens",column:"as a share of all that its source gives",none:""};
function So(t,e=!0){let{data:n,selection:o}=t,r=Dt(t),s=rt(t,q(t)),a=n.block(o.scope),{shares:i}=wt(t),u=!a.signed&&["no\
rm","share"].includes(a.short)?Pc[i]:Bc[i]||a.unit,c=a.axis==="head"?` through ${n.channels.get(o.scope).name}`:"",f=o.read===
"row"?`${s} takes from each token`:`each token takes from ${s}`,h=t.maps.length===3,d=o.run===o.refRun?"before":`in “${n.
runs[o.refRun].name}”`,m=h?e?` Orange: more than ${d}; violet: less.`:" Zoom in for the change.":gt(n).length&&e?" Lin\
es: 95 % intervals; hollow: the interval contains 0.":"";return{...r,meaning:`${e?"Bands":"Cells"}: what ${f}${c}: ${u}.${m}`,
file:["layers",...r.file.slice(1)]}}function Hc(t){let{rows:e,before:n,names:o}=Bs(t),r=z(t),s=function*(){for(let[a,i]of e.
entries())for(let[l,u]of i.entries())Number.isNaN(u)||(yield[o[a],t.axes.columns[l].position,r[l],...n?[n[a][l]]:[],u])};
return{head:["layer","position","token",...n?["before"]:[],"share"],lines:s,count:e.length*r.length}}function qc(t,e){return t.
biases.reduce((n,[,o,r])=>o===e?n+r:n,0)}function Dc(t,e){let n=t.residual[e].reduce((r,s)=>r+s,0),o=t.biases.reduce((r,[
,s,a])=>s>=e?r+a:r,0);return{flowing:n,later:o,both:n+o}}function St(t){return t.unit?` ${t.unit}`:""}function To(t){return`${t.
target} = ${R(t.value,4)}${St(t)}`}function Ro(t){return`${R(t.value,4)} = ${t.sums.map(([e,n])=>`${e} ${T(n,!1)}`).join(
" · ")}`}function Vc(t,e){return t.residual[e].every(n=>n===0)&&t.value!==0}function Se(t){let{data:e,selection:n}=t,o=K(
e,n),r=q(t),s=rt(t,r);if(Vc(o,n.layer))return`At the input of layer ${n.layer} nothing of it flows: the target is read b\
efore.`;let a=At(t,o.residual[n.layer])[r];return Number.isNaN(a)?`${s} is hidden.`:`At the input of layer ${n.layer}, ${T(
a,!1)}${St(o)} of it flow through ${s}.`}function js(t){return t.sums.some(([e])=>e==="nonlinear")?"its first-order form":
"it"}function Vs(t,e){let{flowing:n,later:o,both:r}=Dc(t,e);if(t.ends)return`At the input of layer ${e}: through these p\
ositions together ${T(n,!1)}; the rest flows through others or enters later.`;let s=`At the input of layer ${e}: through\
 all tokens ${T(n,!1)}, from what enters later (biases) ${T(o,!1)}`;return t.complete?`${s}, together ${R(r,4)}${js(t)===
"it"?"":`, ${js(t)}`}.`:`${s}; these rules do not sum to the target.`}function Ks(t,e,n){let o=At(t,K(t.data,t.selection).
residual[e]);return ln(o,null,n).map(({at:r})=>({column:r,share:o[r]})).filter(({share:r})=>r!==0)}function zo(t,e){let n=e.
heads.split(".").filter(Boolean);return n.length===1&&Number(n[0])<t?Number(n[0]):-1}function Wo(t,e){return t.heads?zo(
t.heads[0].length,e):-1}var Kc=14,Uc=.05;function Us({axes:t,hidden:e},n,o){return Object.entries(n.edges).flatMap(([a,i])=>{
let[l,u]=a.split(",").map(Number);return i.map(([c,f,h])=>({layer:l,head:u,query:c,key:f,share:h,from:t.columnOf[f],to:t.
columnOf[c]}))}).filter(({from:a,to:i,share:l})=>a!==i&&!e.has(a)&&!e.has(i)&&Math.abs(l)>=Uc*o).sort((a,i)=>Math.abs(i.
share)-Math.abs(a.share)).slice(0,Kc)}function Fo(t,e){return t.heads?t.heads[e].map((n,o)=>({head:o,share:n})).sort((n,o)=>Math.
abs(o.share)-Math.abs(n.share)):[]}function jo(t,e){let n=K(t,e),o=n&&t.runs[e.run].blocks[n.maps];if(!o)return null;let{
name:r}=t.channels.get(e.scope),s=o.channels.find(a=>a.name===r)||o.channels[o.channels.length-1];return V(t,n.maps,s.name)}
function Gs(t,e){let n=jo(t,e),{name:o}=t.channels.get(n);return{view:"maps",scope:n,ref:t.channels.has(o)&&!t.block(o).
signed?o:""}}var Gc="Orange speaks for it, violet against.";function Io(t,e){let n=K(t.data,t.selection),{limit:o,top:r}=Eo(
t),s=[`Colours end at ±${Y(o,!1)}${St(n)}${r>o*1.0001?` (99th percentile; cells reach ${Y(r,!1)})`:""}.`];return t.selection.
root&&s.push("Square-root scale."),n.ends&&s.push("Lines: 95 % intervals; hollow: the interval contains 0."),n.heads&&s.
push(`Heads, summed over ${n.ends?"these":"all"} positions, on a scale of their own: ±${Y(A(n.heads.map(A)),!1)}; later\
 layers read earlier ones, so heads overlap, and their sum is not that of the tokens.`),t.hidden.size&&s.push("Hidden to\
kens are left out of the picture, not of the sums."),[Gc,...s,...yo(e),n.certificate].join(" ")}function Ys(t,e=!0){let{
data:n,selection:o}=t,r=K(n,o);return r?{headline:`${To(r)}. ${Se(t)}`,meaning:`${e?"Width and colour":"Colour"}: how mu\
ch of the answer flows there.${Object.keys(r.edges).length?" Arcs: heads that carry it on.":""}${r.ends&&e?" Lines: 95 %\
 intervals; hollow: the interval contains 0.":""}`,place:`layer ${o.layer}`,shown:`shares of the ${r.target}, rules “${r.
rules}”`,remark:`${Ro(r)}.`,note:Io(t,1),exact:!1,method:r.method,file:[`layer${o.layer}`,`to-${r.target}`.slice(0,60)]}:
So(t,e)}function Xs(t){let e=K(t.data,t.selection);if(!e)return Hc(t);let n=z(t),{rows:o}=Eo(t),r=function*(a,i,l){for(let[
u,c]of l.entries())Number.isNaN(c)||(yield[a,i,t.axes.columns[u].position,n[u],c])};return{head:["part","layer","positio\
n","name","share"],lines:function*(){yield*r("token","",At(t,e.entering));for(let[a,i]of o.entries())yield*r("residual s\
tream",Lo(e,a),i);for(let[a,i]of(e.heads||[]).entries())for(let[l,u]of i.entries())yield["head",String(a),"",`head ${l}`,
u];for(let[a,i,l]of e.biases)yield["bias",i<0?"":Lo(e,i),"",a,l]},count:(o.length+1)*n.length}}function X(t,e,n=""){return p("option",{value:t,textContent:e,title:n})}function Zs(t){let e=pt(t).map(([n,o])=>{let r=o.
channels.map(s=>{let a=V(t,n,s.name);return X(a,Me(t,a))});return[o.title,r]});return e.length===1?e[0][1]:e.map(([n,o])=>p(
"optgroup",{label:n},o))}var Yc={others:"share of the others",row:"share of row",column:"share of column",none:"norm"},_o={
percentile:"99th percentile","off-diagonal":"largest of another token",all:"largest of all"};function Js(t){w("scope").replaceChildren(
...Zs(t)),w("ref").replaceChildren(X("","nothing"),...Zs(t));for(let e of["run","ref-run"])w(e).replaceChildren(...t.runs.
map((n,o)=>X(o,n.name)));w("layer").replaceChildren(...t.layers.map(e=>X(e,e))),w("cells").replaceChildren(...Object.entries(
Yc).map(([e,n])=>X(e,n))),w("range").replaceChildren(...Object.entries(_o).map(([e,n])=>X(e,n))),w("words-label").hidden=
lo(t.words).length===t.words.length,w("hide-special-label").hidden=t.special.length===0}var Qs={scope:["scope"],ref:["re\
f"],run:["run",Number],"ref-run":["refRun",Number],layer:["layer",Number],cells:["cells"],range:["range"],sort:["sort"],
pairs:["pairs"],mass:["mass",Number]},ta={root:"root",each:"each",words:"words"};function ea(){if(!w("colours").open)return;
let t=w("colours").querySelector(".menu");t.style.marginLeft="";let e=t.getBoundingClientRect().right-document.documentElement.
clientWidth+8;e>0&&(t.style.marginLeft=`${-e}px`)}function Xc(){return[w("hide-special").checked&&"special",w("hide-firs\
t").checked&&"first"].filter(Boolean).join(" ")}function na(t){for(let[e,[n,o=String]]of Object.entries(Qs))w(e).addEventListener(
"change",()=>t.go({[n]:o(w(e).value)}));for(let[e,n]of Object.entries(ta))w(e).addEventListener("change",()=>t.go({[n]:w(
e).checked?1:0}));for(let e of["hide-special","hide-first"])w(e).addEventListener("change",()=>t.go({hide:Xc()}));w("col\
ours").addEventListener("toggle",ea),w("read").addEventListener("click",()=>t.go({read:t.selection.read==="row"?"column":
"row"})),w("closer").addEventListener("click",()=>t.go({zoom:io(t.scene.axes,t.selection)})),w("whole").addEventListener(
"click",()=>t.go({zoom:""})),w("find").addEventListener("input",()=>t.go({find:w("find").value.slice(0,60)})),Zc(t),w("h\
elp-mode").addEventListener("click",()=>{w("help").hidden=!w("help").hidden,w("help-mode").setAttribute("aria-expanded",
String(!w("help").hidden)),t.resized()})}function Zc(t){let e=w("search");e.addEventListener("input",()=>{let{look:n}=t.
view();w("search-note").textContent=n?n(t.scene,e.value):""}),e.addEventListener("keydown",n=>{if(n.key!=="Enter")return;
n.preventDefault();let{find:o}=t.view(),r=o&&o(t.scene,e.value);if(r&&t.go(r),o)return;let{data:s,selection:a}=t,i=xs(s.
runs[a.run].tokens,e.value,a.read==="row"?a.to:a.from);w("search-note").textContent=i<0?"not there":`position ${i}`,!(i<
0)&&t.go(s.queries.includes(i)&&a.read==="row"?{to:i}:{from:i,read:"column"})})}function Jc(t,e){w(t).setAttribute("aria\
-pressed",String(!!e))}var Qc={"scope-group":["scope",({data:t})=>t.channels.size>1],"run-group":["run",({data:t})=>t.runs.
length>1],"ref-group":["ref",({data:t})=>t.channels.size>1||t.runs.length>1],"ref-run-group":["refRun",({data:t,selection:e})=>t.
runs.length>1&&!gt(t).length&&!(e.view==="overview"&&K(t,e))],"layer-group":["layer",({data:t})=>t.layered],"cells-group":[
"cells",({data:t,selection:e})=>!t.block(e.scope).signed],"range-label":["range"],"root-label":["root"],"each-label":["e\
ach",({maps:t})=>t.length>2],"zoom-group":["zoom",({data:t,selection:e})=>t.words.length>=te||e.zoom!==""]};function tu(t,e){
for(let[n,[o,r=()=>!0]]of Object.entries(Qc))w(n).hidden=!e.includes(o)||!r(t)}function eu({selection:t},e){let[n,o]=["o\
ff-diagonal","all"].map(r=>w("range").querySelector(`[value=${r}]`));G(n,e?_o.all:_o["off-diagonal"]),n.hidden=e&&t.range===
"all",o.hidden=e&&t.range!=="all"}function nu({maps:t,selection:e}){let[n,o]=["change","share"].map(r=>w("sort").querySelector(
`[value=${r}]`));n.hidden=t.length===1,n.hidden&&e.sort==="change"&&(w("sort").value=o.value)}function ou({data:t,selection:e}){
let n=tn(t,e),o=t.queries.length<t.words.length,r=n?"":"Shares need all that a row takes from, of each prompt alone; thi\
s page has named positions or means. Choose maps of shares, where the page has them.";for(let s of w("cells").options)s.
disabled=s.value!=="none"&&(!n||s.value==="column"&&o),s.title=s.value==="none"?"":r||(s.value==="column"&&o?"needs ever\
y row; this result holds some only":"");w("cells").title=r,G(w("cells").querySelector("[value=none]"),t.block(e.scope).short)}
function oa(t,{controls:e,withoutOwn:n=!1}){w("colours").hidden=e.length===0;let{data:o,selection:r}=t;for(let[s,[a]]of Object.
entries(Qs))w(s).value=String(r[a]);for(let[s,a]of Object.entries(ta))w(s).checked=r[a]===1;w("hide-special").checked=r.
hide.includes("special"),w("hide-first").checked=r.hide.includes("first"),Jc("read",r.read==="column"),w("whole").hidden=
r.zoom==="",tu(t,e),eu(t,n),_(o)&&(nu(t),ou(t)),ea(),document.activeElement!==w("find")&&(w("find").value=r.find)}var ru=[
["arrows","read cells of a map; in the overview another layer or token"],["Enter","selects the cell"],["Alt + arrows","a\
nother layer, another row"],["[ and ]","the step before, the step after"],["/","find a token or a position"],["z, Esc","\
zoom in, back out"],["drag","zooms into a part of a map"],["Shift + click","on a token: the other end of the cell; on a \
head: this one alone"],["f","files, link, caption"],["Back","undoes; the address holds what is selected"]];function ra(){
w("help").replaceChildren(p("dl",{},ru.flatMap(([t,e])=>[p("dt",{textContent:t}),p("dd",{textContent:e})])))}function sa(t){
document.addEventListener("keydown",e=>{if(e.target.closest("input, select, textarea")||e.ctrlKey||e.metaKey)return;let{
data:n,selection:o,scene:r}=t,s=_(n)?[...n.channels.values()].filter(({blockName:u})=>u===n.channels.get(o.scope).blockName).
map(({key:u})=>u):[],a=s.indexOf(o.scope),i=n.layers.indexOf(o.layer),l={"[":()=>a>0&&t.go({scope:s[a-1]}),"]":()=>a<s.length-
1&&t.go({scope:s[a+1]}),ArrowUp:()=>i>0&&t.go({layer:n.layers[i-1]}),ArrowDown:()=>i<n.layers.length-1&&t.go({layer:n.layers[i+
1]}),ArrowLeft:()=>r.row>0&&t.go({to:r.axes.rows[r.row-1].position}),ArrowRight:()=>r.row<r.axes.nRows-1&&t.go({to:r.axes.
rows[r.row+1].position}),z:()=>t.go({zoom:io(r.axes,o)}),f:()=>w("figure-mode").click(),"?":()=>w("help-mode").click(),"\
/":()=>w("search").focus(),Escape:()=>t.go(o.zoom?{zoom:""}:o.panel?{panel:""}:o.heads?{heads:""}:o.node>=0?{node:-1}:{})};
e.key.startsWith("Arrow")&&!e.altKey||e.key in l&&(e.preventDefault(),l[e.key]())})}function aa(t){let e=String(t);return`"${(/^[=+\-@\t\r]/.test(e)?`'${e}`:e).replaceAll('"','""')}"`}function su(t){return Number.
isInteger(t)?String(t):Number.isFinite(t)?String(Number(t.toPrecision(5))):""}var au=2**16;function iu(){let t=new Map;return e=>{
let n=t.get(e);if(n!==void 0)return n;t.size>=au&&t.clear();let o=typeof e=="number"?su(e):aa(e);return t.set(e,o),o}}function ia({
head:t,lines:e}){let n=iu(),o=[t.map(aa).join(",")];for(let r of e())o.push(r.map(n).join(","));return o.push(""),o.join(
`
`)}var Te=["query","query_token","key","key_token"];function Po({axes:t},e,n,o){return[t.rows[n].position,e[t.own[n]],t.
columns[o].position,e[o]]}function*Bo({axes:t}){for(let e=0;e<t.nRows;e++)for(let n=0;n<t.nColumns;n++)t.reaches(e,n)&&(yield[
e,n,e*t.nColumns+n])}function*lu(t){let{axes:e,maps:n,selection:o,strips:r}=t,s=o.cells!=="none",a=z(t);for(let[i,l,u]of Bo(
t)){let c=s?n.map(f=>f.cells[u]):[];yield[o.layer,"token",...Po(t,a,i,l),...n.map(f=>f.raw[u]),...c]}for(let i of r.filter(
l=>l!=="own"))for(let l=0;l<e.nRows;l++){let u=n.map(c=>c.columns[i]?c.columns[i][l]:NaN);yield[o.layer,i,e.rows[l].position,
a[e.own[l]],"","",...u,...s?n.map(()=>NaN):[]]}}function cu(t,e,n){let o={others:"share_of_others",row:"share_of_row",column:"\
share_of_column"}[n];return e.role==="difference"?`difference_of_${o}`:e.scale==="signed"?`${t}_difference_of_${o}`:`${t}\
_${o}`}function fn(t){let{data:e,axes:n,maps:o,selection:r}=t,s=go(t,({run:u,key:c})=>bt(e,u,c)),a=(u,c,f)=>f==="none"?u:
cu(u,o[c],f),i=s.map((u,c)=>a(u,c,e.block(o[c].key).shares||"none"));return{head:["layer","part",...Te,...i,...r.cells===
"none"?[]:s.map((u,c)=>a(u,c,r.cells))],lines:()=>lu(t),count:n.nRows*n.nColumns}}function ft(t,e,n,o,r=p("canvas")){let[s,a,i,l]=t.window,u=Math.max(1,Math.min(l-i+1,Math.floor(n))),c=Math.max(1,Math.min(
a-s+1,Math.floor(o)));(r.width!==u||r.height!==c)&&Object.assign(r,{width:u,height:c});let f=qr(t.cells,t.nColumns,t.window,
u,c),h=r.getContext("2d"),d=h.createImageData(u,c),m=new Uint32Array(d.data.buffer),g=t.scale==="signed";for(let b=0;b<f.
length;b++){let x=f[b],y=e.shades[g?x<0?"loss":"gain":t.scale];m[b]=Number.isNaN(x)?e.outside:y[Math.round(It(x,t.limit,
t.root)*$t)]}return h.putImageData(d,0,0),r}function Mt(t,e,n,o,r){return Object.assign(t.style,{position:"absolute",left:`${e}\
px`,top:`${n}px`,width:`${o}px`,height:`${r}px`}),t}var hn=document.createElement("canvas");hn.getContext("2d",{willReadFrequently:!0});
var Ho=4096,qo=4;function uu(t,e){let n=Math.max(1,Math.ceil(qo*e/t.width)),o=p("canvas",{width:t.width*n,height:t.height*
n}),r=o.getContext("2d");return r.imageSmoothingEnabled=!1,r.drawImage(t,0,0,o.width,o.height),o}function fu({picture:{window:[
t,e,n,o]}}){return(e-t+1)*(o-n+1)}function la(t){return t.reduce((n,o)=>n+fu(o),0)>4*Ho?Ho/8:Ho}function hu({picture:t,x:e,
y:n,width:o,height:r},s){let a=ft(t,s,qo*o,qo*r,hn),i=a.width<=o&&a.height<=r,l=(i?uu(a,o):a).toDataURL("image/png");return k(
"image",{x:e,y:n,width:o,height:r,href:l,preserveAspectRatio:"none",...i?{"image-rendering":"pixelated"}:{}})}function ca(t,e,n){
let{picture:o,x:r,y:s,width:a,height:i}=t,[l,u,c,f]=o.window,[h,d]=[u-l+1,f-c+1];if(h*d>n)return[hu(t,e)];let[m,g]=[a/d,
i/h];return Array.from({length:h*d},(b,x)=>{let[y,C]=[Math.floor(x/d),x%d],$=o.cells[(l+y)*o.nColumns+c+C],M=Number.isNaN(
$)?e.out:tt(e,$,o.limit,o.scale,o.root).hex;return W(r+C*m,s+y*g,m,g,M)})}var P={size:12,smallest:9.5,index:10,row:88,column:84,axis:18,spacing:11},ce=1.12,Ct=44,H={gap:6,width:13},Re=20,ua=250,
xt={largest:52,comfortable:12,enough:230,across:1e3,around:230};function Ut(t){return 12+Math.ceil(I(String(t.data.words.
length-1),P.index))}function Do(t,e){return e.labels.slice(t.window[2],t.window[3]+1)}function Kt(t){return Math.min(t>36?
14:P.size,Math.max(P.smallest,t))}function dn(t,e,n,o=P.size){let r=e.reduce((s,a)=>Math.max(s,I(a.slice(0,60),o)),0);return Math.
ceil(Math.min(n,ce*r))+Ut(t)}function fa(t,e,n,o,r){let s=r/n>o+300;return Array.from({length:e},(a,i)=>P.axis+(s||i%n===
0?o:Ut(t)))}function ha(t,e,n,o){let r=n.slice(0,e).reduce((s,a)=>s+a+o,0);return(t-r-Re*(e-1))/e}function du(t,e,n,o,r){
let s=Math.min(xt.comfortable*(t.window[3]-t.window[2]+1),xt.enough);for(let a=e;a>1;a--){let i=fa(t,e,a,o,n);if(a*(ua+Re)-
Re<=n&&ha(n,a,i,r)>=s)return a}return 1}function mu(t,e){let[n,o]=[t.window[1]-t.window[0]+1,t.window[3]-t.window[2]+1],
r=t.room||t.windowRoom,s=r?(r-xt.around)/n:xt.largest,a=Math.max(40/o,Math.min(xt.largest,s,xt.across/o,e/o)),i=a>=6?Math.
floor(a):a;return{width:i,height:Math.max(Math.min(i,xt.across/n),Math.min(22,i,o*i/n))}}function da(t,e){let n=oe(t),o=Kt(
xt.across/(t.window[1]-t.window[0]+1)),r=Math.max(...n.map(x=>dn(t,x.labels,Math.min(P.row,e/4),o))),s=t.strips.length*(H.
gap+H.width)+8,a=t.inLine?n.length:du(t,n.length,e,r,s),i=fa(t,n.length,a,r,e),l=mu(t,ha(e,a,i,s)),u=Ct+P.axis+Math.max(
...n.map(x=>dn(t,Do(t,x),P.column,Kt(l.width)))),[c,f,h,d]=t.window,[m,g]=[l.width*(d-h+1),l.height*(f-c+1)],b=n.map((x,y)=>({
map:x,cell:l,top:u,across:m,down:g,left:i[y],fullLabels:i[y]>P.axis+Ut(t),width:Math.min(e,Math.max(i[y]+m+s,a>1&&t.inLine?
0:ua))}));return pu(t,b,a)}function pu(t,e,n){let[o,r,s]=[0,0,0];for(let a=0;a<e.length;a+=n){let i=e.slice(a,a+n);for(let u of i){
let c=1/(u.cell.width*(t.ratio||1));u.notes=Os(t,u.map,c).flatMap(f=>Be(f,11,u.width-u.left))}let l=i[0].top+i[0].down+44+
14*Math.max(...i.map(u=>u.notes.length));o=0;for(let u of i)Object.assign(u,{x:o,y:r,height:l}),o+=u.width+Re;s=Math.max(
s,o-Re),r+=l+12}return{frames:e,width:Math.ceil(s),height:Math.ceil(r)}}function Tt(t){return Math.max(1,Math.ceil(P.spacing/t))}function Gt(t,e,n){return t===n||t%e===0&&Math.abs(t-n)>=e}function gu(t,e,n,o){
let{axes:r,data:s,palette:a,window:[i]}=t,l=Kt(e.cell.height),u=e.top+(n-i+.5)*e.cell.height+l*.35,c=e.fullLabels?ne(s,r.
rows[n].position):r.rows[n].position,f=L(c,e.left-5,u,{"text-anchor":"end","font-size":P.index,fill:a.grey});if(!e.fullLabels)
return k("g",{},[f]);let h=e.left-Ut(t)-P.axis,d=B(e.map.labels[r.own[n]],"font-weight"in o?ce*l:l,Math.max(20,h));return k(
"g",{},[f,L(d,e.left-Ut(t),u,{"text-anchor":"end","font-size":l,fill:a.ink,...o})])}function wu(t,e,n,o){let{axes:r,data:s,
palette:a,window:[,,i]}=t,l=Kt(e.cell.width),u=e.left+(n-i+.5)*e.cell.width+l*.35;return k("g",{},[mt(ne(s,r.columns[n].
position),u,e.top-5,{"font-size":P.index,fill:a.grey}),mt(B(e.map.labels[n],"font-weight"in o?ce*l:l,P.column),u,e.top-Ut(
t),{"font-size":l,fill:a.ink,...o})])}function ma(t,e,n,o){let r=Tt(n);return Array.from({length:Math.floor((e-t)/r)+1},
(s,a)=>({index:t+a*r,node:o(t+a*r,{})}))}function pa(t,e,[n,o],r,s){let a=e>=n&&e<=o;for(let{index:i,node:l}of t)!a||Math.
abs(i-e)>=Tt(r)?l.removeAttribute("visibility"):l.setAttribute("visibility","hidden");return a?[s(e,{"font-weight":700})]:
[]}function mn(t,e){let[,,n,o]=t.window,r=(a,i)=>wu(t,e,a,i),s=ma(n,o,e.cell.width,r);return{nodes:s.map(({node:a})=>a),
mark:a=>pa(s,a,[n,o],e.cell.width,r)}}function bu(t,e){let[n,o]=t.window,r=(a,i)=>gu(t,e,a,i),s=ma(n,o,e.cell.height,r);
return{nodes:s.map(({node:a})=>a),mark:a=>pa(s,a,[n,o],e.cell.height,r)}}function xu(t,e){let n=e.down<150?"← to":"← t\
o (destination, query)";return mt(n,11,e.top+e.down/2,{"font-size":11,fill:t.palette.grey,"text-anchor":"middle"})}function yu(t,e){
let{palette:n}=t,o=e.width-(t.exporting?0:30);return[L(B(vt(t,e.map),14,o),0,14,{"font-size":14,"font-weight":600,fill:n.
ink}),L(B(Ce(t,e.map),12,e.width),0,31,{fill:n.grey})]}function ku({palette:t},e){return e.pictures.slice(1).map(({x:n})=>k(
"rect",{x:n,y:e.top,width:H.width,height:e.down,fill:"none",stroke:t.line}))}function Uo(t,e){let n={"font-size":11,fill:t.
palette.grey};e.columns=mn(t,e);let o=e.pictures.slice(1).map(({name:r,x:s})=>mt(r,s+H.width-2,e.top-5,n));return[L("fro\
m (source, key) →",e.left,Ct+12,n),...e.columns.nodes,...o]}var Vo=24,$u=0;function pn(t,{scale:e},n=o=>tt(t.palette,o,
1,e,t.selection.root)){let o=e==="signed"?-1:0,r=Array.from({length:Vo+1},(s,a)=>k("stop",{offset:a/Vo,"stop-color":n(o+
a/Vo*(1-o)).hex}));return k("linearGradient",{id:`ramp-${$u++}`},r)}var Ko=11;function Go({left:t,top:e,down:n,width:o}){
return{x:t,y:e+n+10,width:Math.min(190,o-t-26),height:10}}function vu(t,e){let n=pn(t,e.map);return[k("defs",{},[n]),k("\
rect",{...Go(e),fill:`url(#${n.id})`,stroke:t.palette.line,class:"legend"})]}function Mu(t,e){let{x:n,y:o}=Go(e),r=e.notes.
map((s,a)=>L(s,n,o+38+14*a,{"font-size":11,fill:t.palette.grey}));return[...Cu(t,e),...r]}function Cu(t,e){let{map:n}=e,
{x:o,y:r,width:s}=Go(e),a=n.scale==="signed"?-n.limit:0,i=bo(n),l=g=>a<0&&g>0?"+":"",u=(g,b,x="")=>{let y=a+g*(n.limit-a);
return{words:x+l(y)+Y(y,n.asShare,n.scale==="signed"),share:g,anchor:b}},[c,f,h]=[u(0,"start",i&&a<0?"≤ ":""),u(.5,"mi\
ddle"),u(1,"end",i?"≥ ":"")];return(I(f.words,Ko)/2+Math.max(...[c,h].map(({words:g})=>I(g,Ko)))+4>s/2?[c,h]:[c,f,h]).
map(({words:g,share:b,anchor:x})=>L(g,o+b*s,r+22,{"font-size":Ko,"text-anchor":x,fill:t.palette.ink}))}var ga="not-reach\
able",Yo=`url(#${ga})`;function ue(t){return k("defs",{},[k("pattern",{id:ga,width:6,height:6,patternUnits:"userSpaceOnU\
se",patternTransform:"rotate(45)"},[W(0,0,6,6,t.out),W(0,0,1,6,t.hatch)])])}function Nu(t,e){let{data:n,axes:o,window:[r,
s,a,i]}=t;if(!n.causal)return[];let l=[];for(let u=r;u<=s;u++){let c=Math.max(a,o.own[u]+1),f=(i+1-c)*e.cell.width;f>0&&
l.push(`M${e.left+(c-a)*e.cell.width} ${e.top+(u-r)*e.cell.height}h${f}v${e.cell.height}h${-f}z`)}return l.length?[k("pa\
th",{d:l.join(""),fill:Yo,class:"unreachable"})]:[]}function Xo(t,e){return e.rows=bu(t,e),[xu(t,e),...e.rows.nodes,...Nu(
t,e),k("rect",{x:e.left,y:e.top,width:e.across,height:e.down,fill:"none",stroke:t.palette.line}),...ku(t,e),...vu(t,e)]}
function Ou(t,e){let{data:n,axes:o,selection:r,window:[s,a,i,l]}=t,u=xo(t,e.map)&&Ze(n,e.map.run,e.map.key,r.layer),{width:c,
height:f}=e.cell;if(!u)return[];let h=Math.min(2,c/5,f/5),d=[];for(let m=s;m<=a;m++)for(let g=i;g<=l;g++){let[b,x]=u.map(
N=>N[m*o.nColumns+g]);if(!(b<=0&&x>=0&&b<x))continue;let[y,C]=[e.left+(g-i)*c,e.top+(m-s)*f],[$,M]=[c-2*h,f-2*h];d.push(
`M${y+h} ${C+h}l${$} ${M}m0 ${-M}l${-$} ${M}`)}return d.length?[k("path",{d:d.join(""),stroke:t.palette.grey,"stroke-wid\
th":Math.min(1,h/2),fill:"none",class:"uncertain"})]:[]}function Zo(t,e){return[...yu(t,e),...Ou(t,e),...Mu(t,e)]}var Lu={column:[326,420,0],page:[672,900,0],slide:[1280,1280,720]},Eu=864,Au=420;function xa({maps:t},e){let n=t.map(({role:o})=>o);
return t.length<2?[""]:e==="column"?n:["",...n]}function Su(t,e){let{panel:n}=t.selection,o=xa(t,e);return o.includes(n)?
n:o[o.length-1]}function ze({scene:t,figureOfMap:e}){let n=w("figure-size").value,o=xa(t,n);return{size:n,panel:o.includes(
e)?e:Su(t,n),roles:o}}function ya(t,e){let n=Math.max(640,t.width);return Lu[e]||[n,n,0]}function er(t){let{size:e,panel:n}=ze(
t),{scene:o}=t;return{...o,selection:{...o.selection,panel:n},width:ya(t,e)[1]-16,palette:De("light"),exporting:!0,ratio:4,
inLine:e==="page"||e==="slide",windowRoom:e==="screen"?o.windowRoom:0}}var Jo={size:14,"font-weight":600},Qo={size:9},tr=1.3;
function wa(t,{size:e,...n},o){return Be(t,e*(n["font-weight"]?1.2:1),o)}function ba(t,{size:e,...n},o,r){return t.map((s,a)=>L(
s,0,o+a*e*tr,{"font-size":e,fill:r,...n}))}function nr(t){let{size:e}=ze(t),[n,o,r]=ya(t,e),s=er(t),a=t.view();if(!a.figure)
return null;let i=a.words(s),l=[i.note,`${$o(s.data,s.selection,600)}${i.place&&`, ${i.place}`}. tl_ffblock ${s.data.provenance.
tl_ffblock||""}`],u=N=>{let[S,O]=[wa(i.headline,Jo,N-16),wa(l.filter(Boolean).join(" "),Qo,N-16)],E=S.length*Jo.size*tr+
10;return{head:S,foot:O,top:E,beyond:E+O.length*Qo.size*tr+8+16}},c=N=>e==="screen"?0:(r||Eu*o/n)-N,f=N=>a.figure({...s,
room:c(u(N).beyond)},s.width),h=({width:N=o-16})=>n===o?Math.min(o,Math.max(Au,Math.ceil(N)+16)):o,d=f(o);if(!d)return null;
let m=h(d),g=m<o&&r?f(m):d,{head:b,foot:x,top:y,beyond:C}=u(m),{ink:$,grey:M}=s.palette;return{scene:s,width:m,shown:n*m/
o,height:g.height+C,groups:g.groups.map(N=>({...N,y:N.y+y})),head:ba(b,Jo,12,$),foot:ba(x,Qo,y+g.height+8,M)}}function or({
scene:t,head:e,foot:n,groups:o,width:r,height:s,shown:a},i,l){let u=o.map(f=>k("g",{transform:`translate(${f.x} ${f.y})`},
[...i(f),...f.nodes])),c=k("svg",{xmlns:pe,width:a,height:s*a/r,viewBox:`-8 -8 ${r} ${s}`,"font-family":Jt},[ue(t.palette),
...l,...e,...u,...n]);return new XMLSerializer().serializeToString(c)}function ka(t){let{palette:e}=t.scene,n=la(t.groups.
flatMap(({pictures:r})=>r));return or(t,({pictures:r})=>r.flatMap(s=>ca(s,e,n)),[W(-8,-8,t.width,t.height,e.paper)])}function $a(t,{
scene:e,groups:n,width:o,height:r}){let[s,a]=[t.canvas.width/o,t.canvas.height/r];t.setTransform(s,0,0,a,8*s,8*a),t.imageSmoothingEnabled=
!1,t.fillStyle=e.palette.paper,t.fillRect(-8,-8,o,r);for(let i of n)for(let{picture:l,x:u,y:c,width:f,height:h}of i.pictures)
t.drawImage(ft(l,e.palette,f*s,h*a,hn),i.x+u,i.y+c,f,h);t.setTransform(1,0,0,1,0,0)}function rr(t,e){let n=p("a",{href:URL.createObjectURL(t),download:e});n.click(),setTimeout(()=>URL.revokeObjectURL(n.href),
1e4),w("copied").textContent=`saved as ${e}${window.parent===window?"":", unless this frame may not save files"}`}function Tu({
scene:t},e,n){return vo(t,n.words(t),e)}function Na(t,{scene:e},n){let{size:o}=ze(t),r=t.view().words(e),s=[e.maps.length>
1&&t.view().name==="maps"?e.selection.panel:"",o==="screen"?"":o].filter(Boolean);return vo(e,{...r,file:[...r.file,...s]},
n)}var sr="nothing is drawn here that could be saved";function Ru(t){let e=nr(t);if(!e){w("copied").textContent=sr;return}
rr(new Blob([ka(e)],{type:"image/svg+xml"}),Na(t,e,"svg"))}var va=3;function zu(t){return new Blob([Qn(t.toDataURL("imag\
e/png").split(",")[1])],{type:"image/png"})}function Wu(t){let e=nr(t);if(!e){w("copied").textContent=sr;return}let n=Na(
t,e,"png"),o=new Image;o.onload=()=>{let r=p("canvas",{width:va*o.width,height:va*o.height}),s=r.getContext("2d");$a(s,e),
s.drawImage(o,0,0,r.width,r.height),rr(zu(r),n)},o.src="data:image/svg+xml;charset=utf-8,"+encodeURIComponent(or(e,()=>[],
[]))}var Fu=4e6;function Ma(t,e){let n=e.table(t.scene);if(!n){w("copied").textContent=sr;return}let o=n.count*n.head.length;
if(o>Fu){w("copied").textContent=`${R(o)} numbers are too many for one file; in Python .to_dataframe() has them`;return}
rr(new Blob([ia(n)],{type:"text/csv;charset=utf-8"}),Tu(t,"csv",e))}async function Ca(t,e){try{await navigator.clipboard.
writeText(t),e.textContent="copied",setTimeout(()=>{e.textContent=""},4e3)}catch{w("caption").textContent=t,w("figure-to\
ols").hidden=!1,w("copied").textContent="this frame may not copy: the words stand below"}}function Oa(t){let e=er(t);return Es(
e,t.view().words(e))}function ju(t){let{scene:e}=t,{panel:n,roles:o}=ze(t),r=a=>a===""?"all maps":vt(e,e.maps.find(i=>i.
role===a));w("figure-maps").replaceChildren(...o.map(a=>X(a,r(a)))),w("figure-maps").value=n;let s=t.view().name==="maps";
w("figure-maps-label").hidden=o.length<2||!s,G(w("figure-size").querySelector("[value=column]"),s?"one column (3.4 in), \
one map":"one column (3.4 in)")}function We(t){let e=t.view();ju(t);for(let n of["save-png","save-svg","save-csv"]){let o=!!(n===
"save-csv"?e.table:e.figure);w(n).disabled=!o,w(n).title=o?"":"this view has no such file; PDF (print) has what is seen"}
w("caption").textContent=Oa(t)}function La(t){w("save-png").addEventListener("click",()=>Wu(t)),w("save-svg").addEventListener(
"click",()=>Ru(t)),w("save-csv").addEventListener("click",()=>Ma(t,t.view())),w("pairs-csv").addEventListener("click",()=>Ma(
t,{table:fn,words:Dt})),w("print").addEventListener("click",()=>window.print()),w("copy-caption").addEventListener("clic\
k",()=>Ca(Oa(t),w("copied"))),w("figure-size").addEventListener("change",()=>{t.figureOfMap=null,We(t)}),w("figure-maps").
addEventListener("change",()=>{t.figureOfMap=w("figure-maps").value,We(t)}),w("copy-link").addEventListener("click",()=>Ca(
t.address(),w("link-note"))),w("figure-mode").addEventListener("click",()=>{let e=w("figure-tools");e.hidden=!e.hidden,w(
"figure-mode").setAttribute("aria-expanded",String(!e.hidden)),We(t),t.resized()})}var at=globalThis.parent!==globalThis.window;function Iu(t,e){let o=Array.from(t.querySelectorAll("[tabindex]")).indexOf(
document.activeElement);e();let r=t.querySelectorAll("[tabindex]")[o];o>=0&&r&&r.focus({preventScroll:!0})}function gn(t){
let[e,n]=[null,null];return(o,r,s)=>{r===e&&n.update&&n.update(o)!==!1||(Iu(t,()=>{let a=s();n=a.nodes?a:{nodes:[a].flat(),
update:null},t.replaceChildren(...n.nodes)}),e=r,n.update&&n.update(o))}}function Rt(t,e,n){return JSON.stringify([n,t.ratio,
t.palette.name,...e.map(o=>t.selection[o])])}function Ea({paper:t},e,n){if(t){for(let s of e)s();return}let o=[...e],r=()=>{
let s=performance.now()+12;for(;o.length&&n()&&performance.now()<s;)o.shift()();o.length&&n()&&setTimeout(r)};setTimeout(
r)}function _u(t,e,n,o){let{window:[r,s,a,i]}=t,l=r+Math.floor((o-e.top)/e.cell.height),u=a+Math.floor((n-e.left)/e.cell.width),
c=u>=a&&u<=i;if(o<e.top)return c&&o>Ct?{column:u}:null;if(l>s||n<P.axis)return null;if(u<a)return{row:l};if(c)return{row:l,
column:u};let f=Math.floor((n-e.left-e.across-H.gap/2)/(H.width+H.gap)),h=t.strips.filter(d=>e.map.columns[d])[f];return h?
{row:l,strip:h}:null}function wn(t,{row:e,column:n}){let{axes:o,selection:r}=t,s=e===void 0?void 0:o.rows[e].position;if(n===
void 0)return{to:s,read:"row"};let a=o.columns[n].position;return e===void 0?{from:a,read:"column"}:{to:s,from:a,read:r.
read}}var Aa={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[0,1]};function Pu(t,e,[n,o]){let[r,s,a,i]=t.window,
l=(u,c,f)=>Math.max(c,Math.min(f,u));return{row:l((e.row??t.row)+n,r,s),column:l((e.column??t.column)+o,a,i)}}function Bu(t,e){
let n=null,o=k("rect",{class:"band"}),r=s=>s&&s.row!==void 0&&s.column!==void 0;return{down:(s,a,i,l)=>{s.button===0&&s.
pointerType!=="touch"&&r(a)&&(n={target:a,x:i,y:l})},move:(s,a)=>{if(!n||Math.hypot(s-n.x,a-n.y)<6)return;let i={x:Math.
min(s,n.x),y:Math.min(a,n.y),width:Math.abs(s-n.x),height:Math.abs(a-n.y)};for(let[l,u]of Object.entries(i))o.setAttribute(
l,u);o.isConnected||t.marks.parentNode.append(o)},up:s=>{let a=o.isConnected&&n;o.remove();let i=n&&n.target;if(n=null,!a)
return!1;if(!r(s))return!0;let l=[i.row,s.row].sort((c,f)=>c-f),u=[i.column,s.column].sort((c,f)=>c-f);return l[1]>l[0]&&
u[1]>u[0]&&e({zoom:ao([...l,...u])}),!0}}}function Sa(t,e){let{panel:n}=t,[o,r]=[null,!1],s=Bu(t,e),a=c=>{let f=n.getBoundingClientRect(),
h=c.target.closest(".heads")?t.top-1:c.clientY-f.top;return[c.clientX-f.left,h]},i=c=>_u(t.scene,t,...a(c)),l=(c,f,h)=>{
o=c,t.scene.hover(c),Ts(t.scene,c,f,h)},u=c=>{let f=n.getBoundingClientRect(),[h,,d]=t.scene.window;l(c,f.left+t.left+(c.
column-d+1)*t.cell.width,f.top+t.top+(c.row-h+1)*t.cell.height)};n.addEventListener("pointerdown",c=>{r=!1,s.down(c,i(c),
...a(c))}),n.addEventListener("pointermove",c=>{s.move(...a(c)),l(i(c),c.clientX,c.clientY)}),n.addEventListener("pointe\
rup",c=>{r=s.up(i(c))}),n.addEventListener("pointerleave",c=>{s.up(null),c.pointerType!=="touch"&&l(null)}),n.addEventListener(
"blur",()=>l(null)),n.addEventListener("click",c=>{let f=i(c);f&&!r&&e(wn(t.scene,f)),c.pointerType==="touch"&&l(f,c.clientX,
c.clientY)}),n.addEventListener("dblclick",()=>e({zoom:""})),n.addEventListener("keydown",c=>{if(c.key==="Escape"&&o)l(null);else if(c.
key==="Enter"&&o)e(wn(t.scene,o));else if(Aa[c.key]&&!c.altKey)u(Pu(t.scene,o||{},Aa[c.key]));else return;c.preventDefault(),
c.stopPropagation()})}var Ta=["#008df9","#e20134","#009f81","#c78a00","#8400cd","#ff6e3a","#00b3a0","#9f0162","#5b7f00","#ff5aaf","#0050a0","#\
a40122"],Z={row:20,smallest:11,printed:3,gap:190,label:150,head:26,band:16,faintest:.04,most:300,apart:1.8,square:7};function xn(t){
return pt(t,"head").length>0}function U(t,e){let n=pt(t,"head"),o=t.channels.get(e.scope);return n.find(([r])=>r===e.block)||
n.find(([r,s])=>s.of===o.name||r===o.blockName)||n[0]}function yt(t,e){let[n,o]=U(t,e);return o.channels.map(r=>V(t,n,r.
name))}function ar(t){return t.name==="residual"}function it(t,e){let[,n]=U(t,e),o=e.heads.split(".").filter(Boolean).map(
Number).filter(a=>a<n.channels.length);if(o.length)return o;let r=n.channels.map((a,i)=>i),s=r.filter(a=>!ar(n.channels[a]));
return s.length?s:r}function yn(t,e){let{data:n,selection:o,axes:r,hidden:s}=t,a=n.matrix(o.run,e,o.layer);return He(r,o.
words?ve(r,a,n.words.length):a,s,!1)}function Hu(t,e,n){let o=it(t.data,t.selection);if(n)return o.length===1&&o[0]===e?
"":String(e);let r=o.includes(e)?o.filter(s=>s!==e):[...o,e].sort((s,a)=>s-a);return r.length?r.join("."):String(e)}function qu(t,e){
let{data:n,selection:o}=t,[,r]=U(n,o),s=it(n,o),a=r.channels.map((l,u)=>{let c=s.includes(u),f=p("button",{type:"button",
className:"head",textContent:l.name.replace(/^head /,""),title:`${l.name}: click shows or hides, shift-click shows it al\
one`});return f.setAttribute("aria-pressed",String(c)),r.signed||f.style.setProperty("--head",vn(u)),f.addEventListener(
"click",h=>e({heads:Hu(t,u,h.shiftKey)})),f}),i=p("button",{type:"button",textContent:"all"});return i.addEventListener(
"click",()=>e({heads:""})),p("div",{className:"toggles head-choice"},[ir(t,e),p("span",{className:"note",textContent:"he\
ads"}),...a,i,...Du(t,e)])}function Du(t,e){let{segments:n}=t.data;if(n.length<2)return[];let r=n.flatMap(([a],i)=>n.map(
([l],u)=>[`${i}-${u}`,`${a} takes from ${l}`])).filter(([a])=>ro(t.data,a)).map(([a,i])=>X(a,i)),s=p("select",{},[X("","\
all lines"),...r]);return s.autocomplete="off",s.value=t.selection.between,s.setAttribute("aria-label","lines between se\
gments"),s.addEventListener("change",()=>e({between:s.value})),[s]}function kn({data:t,selection:e,axes:n}){let[o,r]=e.between.
split("-").map(Number),s=n.columns.map(({position:i})=>co(t,i)),a=e.between==="";return{row:i=>a||s[n.own[i]]===o,column:i=>a||
s[i]===r}}function ir(t,e){let{data:n,selection:o}=t,[r]=U(n,o),s=p("select",{},pt(n,"head").map(([a,i])=>X(a,i.title)));
return s.autocomplete="off",s.value=r,s.setAttribute("aria-label","maps by head"),s.addEventListener("change",()=>e({block:s.
value})),s}var Vu=Ye();function $n(t){return Vu(Rt(t,lr(t),0),()=>Ku(t))}function Ku(t){let{data:e,selection:n,axes:o}=t,
r=yt(e,n),s=kn(t),a=c=>c.map((f,h)=>s.row(Math.floor(h/o.nColumns))&&s.column(h%o.nColumns)?f:NaN),i=it(e,n).map(c=>[c,a(
yn(t,r[c]))]),l=Math.max(...i.map(([,c])=>A(c)))||1,u=[];for(let[c,f]of i)f.forEach((h,d)=>{let m=h/l;Math.abs(m)>=Z.faintest&&
u.push([Math.floor(d/o.nColumns),d%o.nColumns,m,c])});return{limit:l,lines:u.sort((c,f)=>Math.abs(c[2])-Math.abs(f[2]))}}
function lr({selection:t}){return["run","layer","heads","between","block","words","hide",...t.block?[]:["scope"]]}function vn(t){
return Ta[t%Ta.length]}function Ra({data:t,selection:e,palette:n}){let{signed:o}=U(t,e)[1];return([,,r,s])=>o?n[r<0?"los\
s":"gain"]:vn(s)}function cr(t,e,n,o){let{selection:r,row:s,column:a}=t,i=Ra(t),l=n||(r.read==="row"?{row:s}:{column:a}),
u=([h,d])=>(l.row===void 0||l.row===h)&&(l.column===void 0||l.column===d),[c,f]=[e.length-Z.most,it(t.data,r)];for(let h of[
!1,!0])for(let[d,m]of e.entries()){if(u(m)!==h||!h&&d<c)continue;m[4]=(f.indexOf(m[3])-(f.length-1)/2)*Z.apart;let g=Math.
abs(m[2]);h?o(m,i(m),Math.min(1,.15+g),2):o(m,i(m),.3*g,1)}}function ur(t,[e,n,,,o=0]){let r=Math.max(-t.height/2,Math.min(
t.height/2,o)),[s,a]=[t.y(e)+r,t.yColumn(n)+r];return[t.left,s,t.left+70,s,t.right-70,a,t.right,a]}function bn(t,e,n,o,r){
let s=e.getContext("2d");s.setTransform(t.ratio,0,0,t.ratio,0,0),s.clearRect(0,0,e.width,e.height),cr(t,o,r,(a,i,l,u)=>{
let[c,f,...h]=ur(n,a);Object.assign(s,{globalAlpha:l,strokeStyle:i,lineWidth:u}),s.beginPath(),s.moveTo(c,f),s.bezierCurveTo(
...h),s.stroke()})}function fr(t,e){let[n,o]=e.size;return Mt(p("canvas",{width:Math.round(n*t.ratio),height:Math.round(
o*t.ratio)}),0,0,n,o)}function hr(t,e,n){let{axes:o,palette:r}=t,s=z(t),a=kn(t),i=Math.min(13,Math.max(P.smallest,n)),l=Tt(
n),u=e.left-26-(t.data.segments.length?Z.band:0),c=(m,g,b,x,y)=>L(B(m,i,u),g,b+i*.35,{"text-anchor":x,"font-size":i,fill:y?
r.ink:r.grey,opacity:y?1:.5,class:"line-token"}),f=(m,g,b,x)=>L(m,g,b+3.5,{"text-anchor":x,"font-size":9,fill:r.grey}),h=o.
rows.map((m,g)=>({...m,row:g})).filter(({row:m})=>Gt(m,l,t.row)),d=o.columns.map((m,g)=>({...m,column:g})).filter(({column:m})=>Gt(
m,l,t.column));return[...h.map(({position:m,row:g})=>({target:{row:g},node:c(s[o.own[g]],e.left-26,e.y(g),"end",a.row(g)),
number:f(ne(t.data,m),e.left-5,e.y(g),"end")})),...d.map(({position:m,column:g})=>({target:{column:g},node:c(s[g],e.right+
26,e.yColumn(g),"start",a.column(g)),number:f(ne(t.data,m),e.right+5,e.yColumn(g),"start")}))]}function dr(t,e){let{data:n,
axes:o,palette:r}=t,s=o.columns.map(({position:a})=>co(n,a));return n.segments.flatMap(([a],i)=>{if(!s.includes(i))return[];
let[l,u]=[e.yColumn(s.indexOf(i))-e.height/2+1,e.yColumn(s.lastIndexOf(i))+e.height/2-1],c=h=>L(B(a,11,u-l),0,0,{"text-a\
nchor":"middle","font-size":11,fill:r.grey,class:"segment",transform:`translate(${h} ${(l+u)/2}) rotate(-90)`}),f=h=>W(h,
l,2,u-l,r.grey);return[f(Z.band-2),c(Z.band-6),f(e.size[0]-Z.band),c(e.size[0]-2)]})}function mr(t,e){let{axes:n}=t,o=Math.
max(t.room?Z.printed:Z.smallest,Math.min(Z.row,(t.room?t.room-60:1400)/n.nColumns)),r=Math.min(Z.label,Math.max(70,(e-90)/
3)),s=Math.min(e-r,r+Math.max(Z.gap,Math.min(520,.55*e))),a=c=>Z.head+(c+.5)*o,i=Math.max(...z(t).map(c=>I(c.slice(0,60),
Math.min(13,Math.max(P.smallest,o))))),l=s+32+Math.min(i,r-26),u=t.room?0:it(t.data,t.selection).length*(Z.square+1)+8;return{
height:o,left:r,right:s,squares:l,yColumn:a,y:c=>a(n.own[c]),size:[s+r+u,Z.head+n.nColumns*o+8]}}function pr(t,e){let n={
"font-size":11,fill:t.palette.grey},o=(r,s)=>I(r,11)<=e.left?r:s;return[L(o("to (destination, query)","to (query)"),e.left,
14,{...n,"text-anchor":"end"}),L(o("from (source, key)","from (key)"),e.right,14,n)]}function Uu(t,e,n,o){let r=k("svg",
{width:e.size[0],height:e.size[1]},[...pr(t,e),...dr(t,e),...n.flatMap(({node:s,number:a})=>[s,a])]);for(let{node:s,target:a}of n)
s.addEventListener("click",()=>o(wn(t,a)));return r}function Gu(t,e,{lines:n}){let{selection:o,row:r,column:s}=t,a=Ra(t),
i=it(t.data,o),l=Math.min(Z.square,e.height-2);return n.filter(([u,c])=>o.read==="row"?u===r:c===s).map(u=>{let[c,f]=[o.
read==="row"?e.yColumn(u[1]):e.y(u[0]),e.squares+i.indexOf(u[3])*(l+1)],h=W(f,c-l/2,l,l,a(u));return h.setAttribute("fil\
l-opacity",Math.min(1,.1+.9*Math.abs(u[2])).toFixed(2)),h})}function gr(t,e){for(let{node:n,target:o}of e)n.setAttribute(
"font-weight",o.row===t.row||o.column===t.column?700:400)}function wr({data:t,selection:e},n){return`Width and strength \
of a line: ${U(t,e)[1].unit}, up to ${Y(n,!1)}; below ${D(Z.faintest)} of that none is drawn.`}var br=[["gain","positive"],
["loss","negative"]];function Yu({data:t,selection:e,palette:n}){if(!U(t,e)[1].signed)return[];let o=r=>{let s=p("i",{className:"\
swatch"});return s.style.backgroundColor=n[r],s};return[p("p",{className:"note signs"},br.map(([r,s])=>p("span",{},[o(r),
` ${s}`])))]}function za(t,e,n){let o=mr(t,n),{limit:r,lines:s}=$n(t),a=fr(t,o),i=hr(t,o,o.height),l=Uu(t,o,i,e),u=k("g",
{class:"head-squares"});l.append(u);let c=p("div",{className:"lines"},[a,l]),f=`${wr(t,r)} Drawn are the strongest ${Z.most}\
 and all of the token that is read, whose squares are its heads. Point at a token for its lines, click selects it.`,h=d=>{
gr(d,i),u.replaceChildren(...Gu(d,o,{lines:s}));for(let{node:m,target:g}of i)m.onpointerenter=()=>d.hover(g);l.onpointerleave=
()=>d.hover(null),d.marked.push(m=>bn(d,a,o,s,m)),bn(d,a,o,s,null)};return{nodes:[qu(t,e),...Yu(t),c,p("p",{className:"n\
ote",textContent:f})],update:h}}var Xu=3e3;function Zu(t,e,n){if(n.length>Xu){let r=fr(t,e);return bn(t,r,e,n,null),[k("image",{x:0,y:0,width:e.size[0],
height:e.size[1],href:r.toDataURL("image/png")})]}let o=[];return cr(t,n,null,(r,s,a,i)=>{let[l,u,...c]=ur(e,r);o.push(k(
"path",{d:`M${l} ${u}C${c.join(" ")}`,fill:"none",stroke:s,"stroke-opacity":a.toFixed(3),"stroke-width":i}))}),o}function Ju({
data:t,selection:e,palette:n}){let[,o]=U(t,e);return o.signed?br.map(([r,s])=>[n[r],s]):it(t,e).map(r=>[vn(r),o.channels[r].
name])}function Qu(t,e){let n=[],[o,r]=[0,9];for(let[s,a]of Ju(t)){let i=15+I(a,11);o+i>e&&([o,r]=[0,r+15]),n.push(W(o,r-
8,10,8,s),L(a,o+14,r,{"font-size":11,fill:t.palette.ink})),o+=i+14}return{nodes:n,height:r+14}}function Wa(t,e){let n=Qu(
t,e),o=mr(t,e),r=hr(t,o,o.height);gr(t,r);let s=[...Zu(t,o,$n(t).lines),...pr(t,o),...dr(t,o),...r.flatMap(({node:i,number:l})=>[
i,l])];return{groups:[{x:0,y:0,pictures:[],nodes:n.nodes},{x:0,y:n.height,pictures:[],nodes:s}],height:n.height+o.size[1]}}
function tf(t){let{data:e,selection:n,axes:o,row:r,column:s}=t,[a,i]=[rt(t,o.own[r]),rt(t,s)];if(!o.reaches(r,s))return Ne(
a,i);let[,l]=U(e,n),u=yt(e,n),c=b=>(n.words?yn(t,b):e.matrix(n.run,b,n.layer))[r*o.nColumns+s],h=it(e,n).map(b=>({name:l.
channels[b].name,value:t.hidden.has(s)?NaN:c(u[b])})).filter(({value:b})=>Number.isFinite(b)).sort((b,x)=>Math.abs(x.value)-
Math.abs(b.value));if(!h.length)return`There is no number here of what ${a} takes from ${i}.`;let[{name:d,value:m}]=h,g=h.
length>1?` has the largest ${l.short} of the ${h.length} shown`:`: ${l.short}`;return`Layer ${n.layer}, from ${i} to ${a}\
: ${d}${g}${h.length>1?":":""} ${l.signed?T(m,!1):R(m)}.`}function ef({data:t,selection:e}){if(e.between==="")return"";let[
n,o]=e.between.split("-").map(r=>t.segments[Number(r)][0]);return` Only lines to ${n} from ${o} are drawn.`}function Fa(t){
let{data:e,selection:n}=t,[o,r]=U(e,n),s=it(e,n),a=s.length<r.channels.length?s.map(i=>r.channels[i].name).join(", "):"a\
ll heads";return{headline:tf(t),meaning:`Each line joins a row of a head's map (left) with a column (right): ${r.meaning}\
.`,place:`layer ${n.layer}`,shown:`${r.title}, ${a}`,remark:"",note:`${wr(t,$n(t).limit)} Those of ${rt(t,q(t))} stand o\
ut.${ef(t)}`,exact:r.exact,method:"",file:[`layer${n.layer}`,`lines-${o}`.slice(0,60),n.heads?`heads${n.heads}`:"all-hea\
ds",...n.between?[`segments${n.between}`]:[]]}}function xr(t,e,n,o={row:r=>!0,column:r=>!0}){let{data:r,selection:s,axes:a}=t,
[,i]=U(r,s),l=yt(r,s),u=z(t),c=function*(){for(let h of n){let d=e.map(m=>yn({...t,selection:{...s,layer:h}},l[m]));for(let[
m,g,b]of Bo(t))o.row(m)&&o.column(g)&&(yield[h,...Po(t,u,m,g),...d.map(x=>x[b])])}};return{head:["layer",...Te,...e.map(
h=>`${i.channels[h].name} ${i.short}`)],lines:c,count:n.length*a.nRows*a.nColumns}}function ja(t){return xr(t,it(t.data,
t.selection),[t.selection.layer],kn(t))}var kr=5;function ht(t,e,n,o,r){return k("rect",{x:t-.75,y:e-.75,width:n+1.5,height:o+1.5,fill:"none",stroke:r,"stroke-w\
idth":1.25})}function Ia(t,e,n,o){let r={left:[[0,0],[6,-4],[6,4]],up:[[0,0],[-4,6],[4,6]]}[n];return k("polygon",{points:r.
map(([s,a])=>`${t+s},${e+a}`).join(" "),fill:o})}function yr(t,e,n,o){let[r,s]=t.window;if(n<r||n>s)return[];let a=e.top+
(n-r)*e.cell.height;if(e.cell.height>=kr)return[ht(e.left,a,e.across,e.cell.height,o)];let i=a+e.cell.height/2;return[Ia(
e.left+e.across+1,i,"left",o)]}function fe(t,e,n,o){let[,,r,s]=t.window;if(n<r||n>s)return[];let a=e.left+(n-r)*e.cell.width;
if(e.cell.width>=kr)return[ht(a,e.top,e.cell.width,e.down,o)];let i=a+e.cell.width/2;return[Ia(i,e.top+e.down+1,"up",o)]}
function nf(t,e,n){let{row:o,column:r,selection:s,window:[a,i,l,u]}=t;if(o<a||o>i||r<l||r>u)return[];let{width:c,height:f}=e.
cell,[h,d]=[e.left+(r-l)*c,e.top+(o-a)*f];return Math.min(c,f)>=kr?[ht(h+1.5,d+1.5,c-3,f-3,n)]:s.read==="row"?fe(t,e,r,n):
yr(t,e,o,n)}function $r(t,e,n){let{palette:o,selection:r,row:s,column:a}=t,l=[...r.read==="row"?yr(t,e,s,o.mark):fe(t,e,
a,o.mark),...nf(t,e,o.mark)];return n&&n.row!==void 0&&l.push(...yr(t,e,n.row,o.read)),n&&n.column!==void 0&&l.push(...fe(
t,e,n.column,o.read)),l}var Pa=["run","refRun","words","panel","zoom","root"];function Mn(t,e){return{cells:e.cells,nColumns:t.axes.nColumns,window:t.
window,scale:e.scale,limit:e.limit,root:t.selection.root}}function of(t,e,n){let o=e.scale==="signed",[r,s]=t.window,a=t.
maps.filter(l=>l.columns[n]&&l.role==="difference"==(e.role==="difference")),i=n==="own"&&!o?1:Math.max(...a.map(l=>A(l.
columns[n])));return{cells:e.columns[n],nColumns:1,window:[r,s,0,0],scale:o?"signed":"bias",limit:i,root:0}}function rf(t,e){
let n=t.strips.filter(s=>e.map.columns[s]),o={y:e.top,height:e.down};return[{name:"",picture:Mn(t,e.map),x:e.left,width:e.
across,...o},...n.map((s,a)=>({name:s,picture:of(t,e.map,s),width:H.width,...o,x:e.left+e.across+H.gap+a*(H.width+H.gap)}))]}
function Ba(t,e,n,o,r){let s=rn(t,e,n);return ft(Mn(s,s.map),t.palette,o*t.ratio,r*t.ratio)}function _a(t){return JSON.stringify(
t.map(({map:e,pictures:n,cell:o,top:r,left:s,across:a,width:i,x:l,y:u,height:c})=>[e.role,e.scale,e.labels,n.map(({name:f})=>f),
o,r,s,a,i,l,u,c]))}function vr(t,e){let n=da(t,e);for(let o of n.frames)o.pictures=rf(t,o);return n}function sf(t,e,n){let[
o,r,s]=[k("g"),k("g",{class:"marks"}),k("g")],[a,i]=[Xo(t,e),[o,r]].map(h=>k("svg",{width:e.width,height:e.height,"aria-\
hidden":"true"},h)),l=e.pictures.map(()=>p("canvas")),u=e.pictures.map(({name:h,x:d,width:m},g)=>Mt(p("div",{className:h?
"beside":"cells"},[l[g]]),d,e.top,m,e.down)),c=Mt(p("div",{className:"panel",tabIndex:0},[af(e,[...Uo(t,e),s]),...u,a,i]),
e.x,e.y,e.width,e.height);return c.setAttribute("role","application"),c.dataset.role=e.map.role,t.maps.length>1&&!t.beside&&
c.append(lf(t,e,n)),Object.assign(e,{panel:c,marks:r,named:s,fill:(h,{map:d,notes:m,pictures:g})=>{Object.assign(e,{map:d,
notes:m,pictures:g}),g.forEach(({picture:b,width:x},y)=>ft(b,h.palette,x*h.ratio,e.down*h.ratio,l[y])),o.replaceChildren(
...Zo(h,e)),c.setAttribute("aria-label",`${vt(h,d)}. Arrow keys read cells, Enter selects.`)}})}function af({top:t,width:e},n){
let o=t-Ct-5,r=p("div",{className:"heads"},[k("svg",{width:e,height:o,viewBox:`0 ${Ct} ${e} ${o}`,"aria-hidden":"true"},
n)]);return r.style.marginTop=`${Ct}px`,r}function lf(t,e,n){let o=t.selection.panel===e.map.role,r=p("button",{type:"bu\
tton",className:"enlarge",textContent:o?"⤡":"⤢",title:o?"show all maps":"show this map alone"});return r.setAttribute(
"aria-label",r.title),r.addEventListener("click",s=>{s.stopPropagation(),n({panel:o?"":e.map.role})}),r.addEventListener(
"pointerdown",s=>s.stopPropagation()),r}function cf(t,e){let n=o=>{for(let r of e)r.marks.replaceChildren(...r.selected,
...$r(t,r,o))};for(let o of e)o.scene=t,o.selected=o.rows.mark(t.row),o.named.replaceChildren(...o.columns.mark(t.column));
t.marked.push(n),n(null)}function Mr(t,e,n){let o=vr(t,n),r=_a(o.frames),s=p("div",{className:"plot"},[k("svg",{width:0,
height:0,"aria-hidden":"true"},[ue(t.palette)])]);s.style.height=`${o.height}px`;for(let l of o.frames)s.append(sf(t,l,e).
panel),Sa(l,e);let a="",i=l=>{let u=Rt(l,Ht,n)+l.windowRoom;if(u!==a){let{frames:c}=a===""?o:vr(l,n);if(a!==""&&_a(c)!==
r)return!1;c.forEach((f,h)=>o.frames[h].fill(l,f)),a=u}return cf(l,o.frames),!0};return{nodes:t.beside?[s]:[...ff(t,e),s],
update:i}}var uf={before:"before",after:"after",difference:"change"};function ff({maps:t,selection:e},n){if(!e.panel||t.
length<2)return[];let o=[...t.map(({role:r})=>[r,uf[r]]),["","side by side"]];return[p("div",{className:"toggles panels"},
o.map(([r,s])=>{let a=p("button",{type:"button",textContent:s});return a.setAttribute("aria-pressed",String(r===e.panel)),
a.addEventListener("click",()=>n({panel:r})),a}))]}function Ha(t,e){let n=vr(t,e);return{groups:n.frames.map(r=>({x:r.x,
y:r.y,pictures:r.pictures,nodes:[...Uo(t,r),...Xo(t,r),...r.rows.mark(t.row),...r.columns.mark(t.column),...Zo(t,r),k("g",
{class:"marks"},$r(t,r,null))]})),width:n.width,height:n.height}}var hf="Rows: layers, columns: heads. Each small map has its own scale.",et={label:26,head:18,gap:3,largest:110,smallest:22};
function qa({data:t,selection:e}){return Pt(U(t,e)[1])?e.cells:"none"}function Nr(t){let{data:e,selection:n}=t,{channels:o}=U(
e,n)[1],r=yt(e,n),s=r.filter((a,i)=>!ar(o[i]));return qa(t)==="others"&&s.length?s:r}function Da(t){let e=Nr(t).length<yt(
t.data,t.selection).length;return hf+(e?" The residual brings each token only its own, so it has no shares of the others\
 and no column.":"")}function Va({selection:t}){return["run","cells","range","root","words","hide","block",...t.block?[]:
["scope"]]}function df(t,e,n,o,r){let{data:s}=t,a=`layer ${o}, ${s.channels.get(n).name}`,i=p("button",{type:"button",className:"\
grid-cell",title:a});return i.setAttribute("aria-label",a),Object.assign(i.style,{width:`${r}px`,height:`${r}px`}),i.addEventListener(
"click",()=>e({layer:o,scope:n,ref:"",view:"maps"})),i}function Ka(t,e){return Math.max(et.smallest,Math.min(et.largest,
Math.floor((e-et.label-8)/t)-et.gap))}function Cr(t,e){return t.channels.get(e).name.replace(/^head /,"")}function Ua(t,e,n){
let{data:o}=t,r=Nr(t),s=Ka(r.length,n),a=o.layers.map(h=>r.map(d=>({layer:h,key:d,button:df(t,e,d,h,s)}))),i=a.map(h=>p(
"div",{className:"grid-line"},[p("span",{className:"grid-layer",textContent:h[0].layer}),...h.map(({button:d})=>d)])),l=p(
"div",{className:"grid-line grid-heads"},[p("span",{className:"grid-layer"}),...r.map(h=>{let d=p("span",{className:"gri\
d-head",textContent:Cr(o,h)});return d.style.width=`${s}px`,d})]),u=a.flat();Ea(t,u.map(({layer:h,key:d,button:m})=>()=>m.
append(Ba(t,h,d,s,s))),()=>l.isConnected);let c=h=>{for(let{button:d,key:m,layer:g}of u)d.classList.toggle("current",g===
h.selection.layer&&m===h.selection.scope)};return{nodes:[p("div",{className:"toggles"},[ir(t,e)]),p("p",{className:"note",
textContent:`${Da(t)} A click opens a map.`}),p("div",{className:"grid"},[l,...i])],update:c}}function Ga(t,e){let{data:n,
palette:o}=t,r=Nr(t),s=Math.min(Ka(r.length,e)+et.gap,(e-et.label)/r.length,t.room?(t.room-et.head)/n.layers.length:1/0),
[a,i]=[s-et.gap,Tt(s)],l=n.layers.flatMap((m,g)=>r.map((b,x)=>{let y=rn(t,m,b);return{picture:Mn(y,y.map),x:et.label+x*s,
y:et.head+g*s,width:a,height:a}})),u={"font-size":10,fill:o.grey},c=n.layers.flatMap((m,g)=>g%i?[]:[L(m,et.label-6,et.head+
g*s+a/2+4,{...u,"text-anchor":"end"})]),f=Math.max(...r.map(m=>I(Cr(n,m),10)))>s,h=r.map((m,g)=>{let b=et.label+g*s+a/2;
return f&&g%i?L("",b,0):L(B(Cr(n,m),10,Math.max(s,24)),b,et.head-5,{...u,"text-anchor":"middle"})}),d=l.map(({x:m,y:g})=>k(
"rect",{x:m,y:g,width:a,height:a,fill:"none",stroke:o.line,"stroke-width":.5}));return{groups:[{x:0,y:0,pictures:l,nodes:[
...c,...h,...d]}],height:et.head+n.layers.length*s}}function Ya(t){let{data:e,selection:n}=t,[o,r]=U(e,n),s=qa(t);return{
headline:`Every layer and head: ${r.title}.`,meaning:`Each small map is a head of a layer; each of its cells: ${ko(r,s)}\
.`,place:"all layers",shown:`${r.title}, all heads`,remark:"",note:Da(t),exact:r.exact,method:"",file:["all-layers",`hea\
ds-${o}`.slice(0,60),s]}}function Xa(t){let e=U(t.data,t.selection)[1].channels.map((n,o)=>o);return xr(t,e,t.data.layers)}var j={left:34,gap:26,smallest:4,largest:20,few:96,lowest:330,wide:640,framed:330,around:320,head:20,enough:330,legend:190,
banded:7,least:1.5},Yt={width:13,gap:12},zt={most:6,each:15,radius:6,least:.03},he={widest:7,thinnest:1,named:3,sag:.16,
apart:9,reach:12};function Wt(t){return Ee(t,0).length>0}function ei(t){return Wt(t)||_(t)&&t.layered&&t.layers.length>1}
function ni({data:t,selection:e}){let n=["run","block","words","hide","zoom","range","root"];return Wt(t)?n:[...n,"scope",
"ref","refRun","read","cells",e.read==="row"?"to":"from"]}function mf(t,e,n){let o=t.room?(t.room-150-(n?80:0))*e/(e+n):
at?j.framed:Math.max(j.lowest,window.innerHeight-j.around);return Math.max(j.smallest,Math.min(e>13?j.largest:j.few,o/e))}
function oi(t){let[e,n]=Object.entries(t.data.runs[t.selection.run].blocks).find(([,{exact:o,tracks:r,axis:s}])=>o&&s===
"scope"&&r&&r.length)||["",null];return n?n.tracks[0].columns.map(o=>({...o,name:e,values:n.tracks[0].values[o.channel]})):
[]}function ri(t,e){let{window:[,,n,o]}=t,{strip:r,heads:s,neurons:a}=Hs(t),i=oi(t),l=j.left+(i.length?i.length*Yt.width+
Yt.gap:0),u=l+(r?H.gap+H.width:0)+8,c=s?Math.max(6,Math.min(j.head,e/3/s)):0,f=a?j.gap+zt.most*zt.each:0,h=(s?j.gap+c*s:
0)+f,d=h>0&&e-u-h>=j.enough,m=e-u-(d?h:0),g=Math.min(Math.max(xt.largest,j.wide/(o-n+1)),m/(o-n+1));return{changes:i,heads:s,
left:l,beyond:u,across:c,dots:f,further:h,beside:d,wide:g}}function si(t,e){let{window:[,,n,o]}=t,r=qs(t),s=r.rows.length,
{changes:a,heads:i,left:l,beyond:u,across:c,dots:f,further:h,beside:d,wide:m}=ri(t,e),g=t.data.layers.length&&r.block?s-
1:s,b=h>0&&!d,x=mf(t,s,b?g:0),y={width:m,height:x},C={labels:z(t)},$=8+dn(t,Do(t,C),P.column,Kt(y.width)),M={left:l,top:$,
cell:y,across:y.width*(o-n+1),down:x*s,map:C},N=$+M.down+(r.before?48:34),S=d?c:Math.min(j.head,(e-j.left-f-8)/Math.max(
1,i)),O={left:d?M.across+u-8+j.gap:j.left,top:d?$:N+36,cell:{width:S,height:x},across:S*i,down:x*g},E=f?{...O,left:O.left+
O.across+(i?j.gap:0),across:zt.most*zt.each}:null;return{width:Math.max(M.left+M.across+u-l,...h?[O.left+O.across,E?E.left+
E.across:0]:[]),stream:r,lines:g,frame:M,heads:i,headFrame:O,neuronFrame:E,beside:d,changes:a,strip:r.strip?M.left+M.across+
H.gap:null,height:b?O.top+O.down+8:N}}function Fe({frame:t}){return t.cell.width>=j.banded}function ai(t){return Ys(t,ri(
t,t.width).wide>=j.banded)}function ii(t,e){let{stream:n,lines:o,frame:r,headFrame:s,heads:a,strip:i,changes:l}=e,{root:u}=t.
selection,[,,c,f]=t.window,h=(m,g,b,x)=>({root:u,...x,cells:m,nColumns:g,window:[0,b-1,0,g-1]}),d=Fe(e)?[]:[{picture:{root:u,
scale:n.scale,cells:n.cells,limit:n.limit,nColumns:t.axes.nColumns,window:[0,n.rows.length-1,c,f]},x:r.left,y:r.top,width:r.
across,height:r.down}];if(l.length){let m=new Float32Array(o*l.length).fill(NaN);l.forEach(({values:x},y)=>t.data.layers.
forEach((C,$)=>{m[n.layers.indexOf(C)*l.length+y]=x[$]===null?NaN:x[$]}));let[g,b]=[l.length*Yt.width,r.cell.height*o];d.
push({picture:h(m,l.length,o,{scale:"contribution",root:1,limit:A(m)}),x:j.left,y:r.top,width:g,height:b})}if(i!==null&&
d.push({picture:h(n.strip.values,1,n.rows.length,n.strip),x:i,y:r.top,width:H.width,height:r.down}),a){let{values:m,least:g,
limit:b,scale:x}=n.heads,y=Float32Array.from(m.flat(),C=>x==="signed"?C:Math.max(0,C-g));d.push({picture:h(y,a,o,{scale:x,
limit:b-g}),x:s.left,y:s.top,width:s.across,height:s.down})}return d}var Za=.25;function li({palette:t,selection:e},n,o,r){
return tt(t,Math.sign(n)*(Za+(1-Za)*It(n,o,e.root)),1,r)}function pf(t,e){if(!Fe(e))return[];let{frame:n,stream:{rows:o,
before:r,ends:s,limit:a,scale:i}}=e,{palette:l,selection:u}=t,[,,c,f]=t.window,h=m=>a>0?It(m,a,u.root)*(n.cell.width-1):
0,d=[];return o.forEach((m,g)=>{for(let b=c;b<=f;b++){let x=m[b],y=r?Math.min(x,r[g][b]):x,[C,$]=[h(y),h(r?Math.max(x,r[g][b]):
x)];if(!($>=j.least))continue;let M=n.left+(b-c+.5)*n.cell.width,N=(O,E)=>W(M-O/2,n.top+g*n.cell.height,O,n.cell.height,
E),S=[...r?[N($,l[x>y?"gain":"loss"])]:[],N(C,li(t,y,a,i).hex)];if(s){let[O,E]=s.map(Zt=>Zt[g][b]);O<=0&&E>=0&&Object.entries(
{fill:l.paper,stroke:l[x<0?"loss":"gain"]}).forEach(([Zt,pl])=>S[0].setAttribute(Zt,pl));let[ot,lt]=[O,E].map(Zt=>M+(Math.
sign(Zt)===Math.sign(x)?h(Zt)/2:0)),Wn=n.top+(g+.5)*n.cell.height;S.push(k("path",{d:`M${ot} ${Wn}H${lt}M${ot} ${Wn-3}v6\
M${lt} ${Wn-3}v6`,stroke:l.ink,fill:"none",class:"whisker"}))}S[0].dataset.share=`${g},${b}`,d.push(...S)}}),d}function gf(t,e){
let{frame:n,stream:{block:o,limit:r}}=e;if(!o)return{reach:[],drawn:[]};let{palette:s}=t,[,,a,i]=t.window,l=d=>n.left+(d-
a+.5)*n.cell.width,u=[],c=new Map,f=[],h=Us(t,o,r).filter(({from:d,to:m})=>Math.min(d,m)>=a&&Math.max(d,m)<=i).map((d,m)=>{
let g=[d.layer,d.from,d.to].join(),b=c.get(g)??0;c.set(g,b+1);let[x,y]=[l(d.from),l(d.to)],C=n.top+(d.layer+.5)*n.cell.height,
$=Math.min(C+n.cell.height+2*Math.min(60,he.sag*Math.abs(y-x)),2*(n.top+n.down)-C)+b*he.apart,M=s[d.share<0?"loss":"gain"],
N=Math.max(he.thinnest,he.widest*Math.min(1,Math.abs(d.share)/r)),S=`M${x} ${C}Q${(x+y)/2} ${$} ${y} ${C+n.cell.height}`,
O=k("path",{d:S,fill:"none",stroke:M,"stroke-width":N,"stroke-opacity":.8,"stroke-linecap":"round",class:"arc"});return O.
dataset.arc=String(m),f.push(Object.assign(k("path",{d:S,fill:"none",stroke:"transparent","stroke-width":Math.max(he.reach,
N)}),{arc:d})),u.length<he.named&&u.push(wf(t,n,d,(x+y)/2,(C+$+n.cell.height/2)/2+4,M,u)),Object.assign(O,{arc:d})});return{
reach:f,drawn:[...h.reverse(),...u.filter(Boolean)]}}function wf(t,e,n,o,r,s,a){let{layer:i,head:l,share:u}=n,c=`L${i}H${l}\
 ${T(u,!1)}`,f=I(c,11)*ce,h=Math.max(e.left+f/2+2,Math.min(e.left+e.across-f/2-2,o)),d=Math.min(r,e.top+e.down-4);if(a.filter(
Boolean).some(({at:x})=>Math.abs(x.y-d)<13&&Math.abs(x.x-h)<(x.wide+f)/2+4))return null;let g={"font-size":11,"font-weig\
ht":700,"text-anchor":"middle",fill:s},b=[W(h-f/2-2,d-10,f+4,13,t.palette.paper),L(c,h,d,g)];for(let x of b)Object.assign(
x,{arc:n});return Object.assign(k("g",{class:"arc-name"},b),{at:{x:h,y:d,wide:f}})}function bf(t,{stream:e,neuronFrame:n}){
if(!n)return[];let{left:o,top:r,across:s,cell:a}=n,i=A(e.neurons.flat().map(([,u])=>u)),l=Math.min(zt.radius,a.height/2);
return e.neurons.flatMap((u,c)=>{let f=r+(c+.5)*a.height,h=k("line",{x1:o,x2:o+s,y1:f,y2:f,stroke:t.palette.hatch}),d=u.
filter(([,m])=>Math.abs(m)>=zt.least*i).slice(0,zt.most).map(([m,g],b)=>{let x=k("circle",{cx:o+(b+.5)*zt.each,cy:f,r:Math.
max(1,l*Math.sqrt(Math.abs(g)/(i||1))),fill:t.palette[g<0?"loss":"gain"]});return Object.assign(x,{neuron:{layer:c,neuron:m,
share:g}})});return[h,...d]})}function Ja(t,e,n,o,r){let{palette:s,selection:a}=t,{height:i}=e.frame.cell,l=Math.max(1,Math.
ceil(11/i)),{layers:u,names:c}=e.stream,f=u.indexOf(a.layer);return Array.from({length:r},(h,d)=>d).flatMap(h=>{let d=h===
f;if((h%l||!d&&Math.abs(h-f)<l)&&!d)return[];let g={"text-anchor":"end","font-size":11,fill:d?s.ink:s.grey,"font-weight":d?
700:400};return[L(c[h],n-5,o+(h+.5)*i+4,g)]})}function ci(t,e){let{palette:n}=t,{stream:o,frame:r,headFrame:s,heads:a,strip:i,
neuronFrame:l}=e,u={"font-size":11,fill:n.grey},c=(d,m,g,b)=>k("rect",{x:d,y:m,width:g,height:b,fill:"none",stroke:n.line}),
f=gf(t,e),h=[L("layer",0,r.top-5,u),c(r.left,r.top,r.across,r.down),...kf(t,e),...yf(t,e),...f.reach,...pf(t,e),...$f(t,
e),...xf(t,e)];if(i!==null&&h.push(mt(o.strip.name,i+H.width-2,r.top-5,u),c(i,r.top,H.width,r.down)),a){let d=Math.max(1,
Math.ceil(16/s.cell.width));h.push(L(o.heads.words,s.left,s.top-20,u),c(s.left,s.top,s.across,s.down));for(let m=0;m<a;m+=
d)h.push(L(o.heads.names[m],s.left+(m+.5)*s.cell.width,s.top-5,{...u,"text-anchor":"middle"}))}return l&&h.push(L("large\
st neurons",l.left,l.top-20,u),...bf(t,e)),[...h,...f.drawn]}function xf(t,{frame:e,changes:n,lines:o}){if(!n.length)return[];
let r=k("rect",{x:j.left,y:e.top,width:n.length*Yt.width,height:e.cell.height*o,fill:"none",stroke:t.palette.line}),s=n.
map(({label:i,words:l},u)=>{let c=mt(i,j.left+(u+.5)*Yt.width+4,e.top-5,{"font-size":10,fill:t.palette.grey});return c.append(
k("title",{},[l])),c}),a=Math.max(...n.map(({label:i})=>I(i,10)))+12;return[r,...s,L("change",j.left,Math.max(10,e.top-a),
{"font-size":11,fill:t.palette.grey})]}function Cn(t){return Wt(t.data)?q(t):t.selection.read==="row"?t.column:t.axes.own[t.
row]}function yf(t,{frame:e}){let[,,n,o]=t.window;return Array.from({length:o-n+1},(s,a)=>n+a).filter(s=>Ao(t,s)).map(s=>W(
e.left+(s-n)*e.cell.width,e.top,e.cell.width,e.down,Yo))}function kf(t,e){let{frame:n}=e;if(!Fe(e))return[];let[,,o,r]=t.
window;return Array.from({length:r-o+1},(a,i)=>n.left+(i+.5)*n.cell.width).map(a=>k("line",{x1:a,x2:a,y1:n.top,y2:n.top+
n.down,stroke:t.palette.hatch}))}function $f(t,{frame:e,stream:{limit:n,top:o,scale:r,before:s,unit:a,asShare:i}}){let l=Fe(
{frame:e})?pn(t,{scale:r},S=>li(t,S,1,r)):pn(t,{scale:r}),[u,c]=[e.top+e.down+8,Math.min(j.legend,e.across)],[f,h]=o>n*1.0001?
["≤ ","≥ "]:["",""],d=r==="signed",m=Y(n,!!i),g={"font-size":11,fill:t.palette.ink},b=(S,O,E)=>L(S,e.left+O*c,u+20,{
...g,"text-anchor":E}),x=d?[b(`${f}−${m}`,0,"start"),b("0",.5,"middle")]:[b("0",0,"start")],y=(S,O,E)=>[W(E,N,10,9,t.palette[S]),
L(O,E+14,N+9,g)],C=t.selection.run===t.selection.refRun?"more than before":"more",$=e.across-c>190,[M,N]=$?[e.left+c+16,
u]:[e.left,u+26];return[k("defs",{},[l]),k("rect",{x:e.left,y:u,width:c,height:9,fill:`url(#${l.id})`,stroke:t.palette.line,
class:"legend"}),...x,b(`${h}${d?"+":""}${m}${a}`,1,c<150?"middle":"end"),...s&&Fe({frame:e})?[...y("gain",C,M),...y("lo\
ss","less",M+28+I(C,11))]:[]]}function ui(t,e,n){let{palette:o,selection:r}=t,{stream:s,frame:a,headFrame:i,heads:l,neuronFrame:u}=e,
c=s.layers.indexOf(r.layer),f=({left:g,top:b,across:x,cell:y})=>ht(g,b+c*y.height,x,y.height,o.mark),h=[f(a),...u?[f(u)]:
[],...fe(t,a,Cn(t),o.mark)];if(n&&n.column!==void 0&&h.push(...fe(t,a,n.column,o.read)),!l)return h;let d=zo(l,r),m=d<0?
[]:[ht(i.left+d*i.cell.width,i.top+c*i.cell.height,i.cell.width,i.cell.height,o.mark)];return[...h,f(i),...m]}function Qa(t,e,n,o){
let r=o.getBoundingClientRect(),[s,a]=[n.clientX-r.left,n.clientY-r.top],i=({left:C,top:$,across:M,down:N})=>s>=C&&s<C+M&&
a>=$&&a<$+N,{stream:l,lines:u,frame:c,headFrame:f,heads:h,strip:d,changes:m,neuronFrame:g}=t,{arc:b,neuron:x}=n.target;if(b)
return b;if(x)return x;let y=({top:C,cell:$})=>({row:Math.floor((a-C)/$.height),layer:l.layers[Math.floor((a-C)/$.height)]});
return i(c)?{...y(c),column:e.window[2]+Math.floor((s-c.left)/c.cell.width)}:d!==null&&i({...c,left:d,across:H.width})?{
...y(c),strip:!0}:m.length&&i({...c,left:j.left,across:m.length*Yt.width,down:u*c.cell.height})?{...y(c),change:Math.floor(
(s-j.left)/Yt.width)}:g&&i(g)?y(g):h&&i(f)?{...y(f),head:Math.floor((s-f.left)/f.cell.width)}:null}function je({axes:t,selection:e},n){
let o=t.columns[n].position,r=t.rowOf(o);return e.read==="row"&&r>=0?{to:t.rows[r].position}:{from:o,read:"column"}}function fi({
data:t,axes:e,selection:n},o){let{position:r}=e.columns[o];return n.read==="row"?{from:r}:t.queries.includes(r)?{to:r}:{}}
function vf(t,e){let{name:n,channel:o,ref:r}=oi(t)[e];return{scope:V(t.data,n,o),ref:r?V(t.data,n,r):""}}function Mf(t,{
layer:e,column:n,head:o,query:r,key:s,neuron:a,change:i}){let l=t.data.layers.includes(e)?{layer:e}:{};n!==void 0&&Object.
assign(l,Wt(t.data)?je(t,n):fi(t,n)),i!==void 0&&Object.assign(l,vf(t,i)),a!==void 0?l.neuron=t.selection.neuron===a&&e===
t.selection.layer?-1:a:"layer"in l&&e!==t.selection.layer&&(l.neuron=-1);let u=r===void 0&&e===t.selection.layer&&t.selection.
heads===String(o);return o!==void 0&&(l.heads=u?"":String(o)),r!==void 0&&t.data.queries.includes(r)&&Object.assign(l,{to:r,
from:s,read:"row"}),l}function Cf(t,{before:e,ends:n,rows:o,unit:r,asShare:s,block:a,strip:i},l,u){let c=o[l][u];if(Ao(t,
u))return a?"comes after the target is read":"comes later: no earlier token can take from it";if(Number.isNaN(c))return t.
hidden.has(u)?"hidden":u===q(t)?`the token itself${i?": see the column “own”":""}`:"not among these";let f=h=>a?T(h,
!1)+r:s?D(h):R(h);return n?`${f(c)}, 95 % interval ${n.map(h=>f(h[l][u])).join(" to ")}`:e&&!a?`${f(e[l][u])} → ${f(c)}\
 (${T(c-e[l][u],s)})`:f(c)}function ti(t,{stream:e,changes:n},{row:o,layer:r,column:s,head:a,query:i,key:l,neuron:u,share:c,
change:f,strip:h}){let{block:d,unit:m}=e,b=J("layer",r===null?"end":`${r}${d&&a===void 0&&f===void 0?", its input":""}`),
x=C=>p("div",{textContent:T(C,!1)+m}),y=C=>Et(t,z(t)[t.axes.columnOf[C]],C);return i!==void 0?[J("head",`L${r}H${a}`),J(
"from",y(l)),J("to",y(i)),x(c)]:u!==void 0?[J("neuron",`L${r}N${u}`),x(c)]:a!==void 0?[J("head",`L${r}H${e.heads.names[a]}`),
d?x(e.heads.values[o][a]):p("div",{textContent:`${e.heads.words}: ${D(e.heads.values[o][a])}`})]:f!==void 0?[b,J("",`${n[f].
words}: ${le(n[f].values[t.data.layers.indexOf(r)]??null)}`)]:h&&!d?[b,J("its own share",D(e.strip.values[o]))]:h?[b,...d.
biases.filter(([,C])=>C===o).map(([C,,$])=>J("bias",`${C} ${T($,!1)}`))]:s===void 0?[b]:[b,J(d?"token":t.selection.read===
"row"?"from":"to",Et(t,z(t)[s],t.axes.columns[s].position)),p("div",{textContent:Cf(t,e,o,s)})]}function Nf(t,e,n){let{data:o,
selection:r,axes:s}=t,a=o.layers.indexOf(r.layer),i=Cn(t),l=c=>Wt(o)?je(t,c):fi(t,c),u={ArrowUp:()=>a>0&&e({layer:o.layers[a-
1]}),ArrowDown:()=>a<o.layers.length-1&&e({layer:o.layers[a+1]}),ArrowLeft:()=>i>0&&e(l(i-1)),ArrowRight:()=>i<s.nColumns-
1&&e(l(i+1)),Home:()=>e({layer:o.layers[0]}),End:()=>e({layer:o.layers[o.layers.length-1]})};!(n.key in u)||n.altKey||(n.
preventDefault(),n.stopPropagation(),u[n.key]())}function Of(t,e,n,o){t.addEventListener("pointermove",r=>{let s=o(),a=Qa(
e,s,r,t),i=w("tooltip");i.hidden=!a,s.hover(a&&a.column!==void 0?{column:a.column}:null),a&&(i.replaceChildren(...ti(s,e,
a)),ae(i,r.clientX,r.clientY))}),t.addEventListener("pointerleave",r=>{r.pointerType!=="touch"&&(w("tooltip").hidden=!0),
o().hover(null)}),t.addEventListener("click",r=>{let s=Qa(e,o(),r,t);r.pointerType==="touch"&&s&&(w("tooltip").hidden=!1,
w("tooltip").replaceChildren(...ti(o(),e,s)),ae(w("tooltip"),r.clientX,r.clientY)),s&&n(Mf(o(),s))}),t.addEventListener(
"keydown",r=>Nf(o(),n,r))}function Lf(t,e,n,o){let r=At(t,e.entering),s=A(r),a=z(t),i=Array.from(r,(u,c)=>{let f=t.axes.
columns[c].members.map(g=>Ae(t.data,g)).find(Boolean),h=f&&t.data.runs[0].blocks[f.block]===e?"this":Number.isNaN(u)?f?"\
why?":"–":T(u,!1),d=`${a[c]} · position ${t.axes.columns[c].position}: ${h}${St(e)}`,m=Pe(a[c],h,d,Number.isNaN(u)||s===
0?null:tt(t.palette,u,s,"signed",t.selection.root));return m.classList.toggle("later",Number.isNaN(u)&&h!=="this"),m.classList.
toggle("cell",h==="this"),m.addEventListener("click",()=>n(f||je(o(),c))),m}),l=p("ol",{className:"tokens shared"},i);return l.
setAttribute("aria-label",`what each token brings to the ${e.target}`),l.tabIndex=0,l.classList.toggle("long",i.length>20),
{host:l,chips:i}}function Ef(t,e){let{data:n,selection:o}=t,r=Ee(n,o.run);if(r.length<2||r.every(([,{position:a}])=>a!==
void 0))return[];let s=p("select",{autocomplete:"off"},r.map(([a,i])=>X(a,`${i.target} (${i.rules})`)));return s.value=r.
find(([,a])=>a===K(n,o))[0],s.setAttribute("aria-label","target"),s.addEventListener("change",()=>e(Ae(n,n.runs[o.run].blocks[s.
value].position)||{block:s.value})),[p("div",{className:"toggles"},[s])]}function hi(t,e,n){let o=t,r=()=>o,s=si(t,n),{stream:{
block:a}}=s,[i,l]=[k("g"),k("g")],u=ii(t,s).map(({picture:x,x:y,y:C,width:$,height:M})=>Mt(ft(x,t.palette,$*t.ratio,M*t.
ratio),y,C,$,M)),c=mn(t,s.frame),f=k("svg",{width:n,height:s.height,"aria-hidden":"true"},[ue(t.palette),...ci(t,s),...c.
nodes,i,l]),h=p("div",{className:"logit",tabIndex:0},[...u,f]);h.setAttribute("role","application"),Of(h,s,e,r);let d=a?
Lf(t,a,e,r):null,m=x=>{o=x,h.setAttribute("aria-label",`Layers by tokens, arrow keys choose. ${a?Se(x):So(x).headline}`),
i.replaceChildren(...c.mark(Cn(x)),...di(x,s)),d&&d.chips.forEach((C,$)=>C.setAttribute("aria-current",String($===q(x))));
let y=C=>l.replaceChildren(...ui(x,s,C));x.marked.push(y),y(null)};if(!a)return{nodes:[h],update:m};let g=Io(t,1/(s.frame.
cell.width*t.ratio));return{nodes:[...Ef(t,e),d.host,h,p("details",{className:"note"},[p("summary",{textContent:"What is\
 drawn"}),p("p",{textContent:`${Ro(a)}. ${g}`})])],update:m}}function di(t,e){let{stream:n,lines:o,frame:r,headFrame:s,heads:a,
beside:i}=e,l=(a||e.neuronFrame)&&!i;return[...Ja(t,e,j.left,r.top,n.rows.length),...l?Ja(t,e,s.left,s.top,o):[]]}function mi(t,e){
let n=si(t,e),o=mn(t,n.frame),r=[...ci(t,n),...o.nodes,...o.mark(Cn(t)),...di(t,n),...ui(t,n,null)];return{groups:[{x:0,
y:0,pictures:ii(t,n),nodes:r}],width:n.width,height:n.height}}var pi=6;function Af(t,e,n,o,r){return p("tr",{},[p("td",{},[e]),p("td",{},[un(Math.abs(n)/(o||1),No(t,{scale:"signed"},
n))]),p("td",{textContent:T(n,!1)}),...r.map(s=>p("td",{textContent:Number.isNaN(s)?"–":T(s,!1)}))])}function Nn(t,e,n,o,r){
let s=Math.max(0,...e.map(({share:c})=>Math.abs(c))),a=$e(t.data).filter(({tables:c})=>c[o]),i=(c,f="")=>p("th",{textContent:c,
scope:"col",title:f}),l=a.length?[p("tr",{},[p("td"),p("td"),i("contributes"),...a.map(({short:c,target:f})=>i(c,f))])]:
[],u=c=>a.map(f=>Xe(f,o,...r(c)));return p("table",{className:a.length?"profile measured":"profile"},[...l,...e.map(c=>Af(
t,n(c),c.share,s,u(c)))])}function On(t,e,n){let o=p("button",{type:"button",className:"plain"},t);return o.addEventListener(
"click",()=>n(e)),o}function Sf(t,e,n){let{data:o,selection:r}=t,s=Fo(e,r.layer),a=Wo(e,r)<0?s.length&&s[0].head:Wo(e,r),
i=(e.edges[`${r.layer},${a}`]||[]).filter(([,,f])=>f!==0);if(!i.length)return[];let l=o.runs[r.run].tokens,u=({query:f,key:h})=>On(
[p("bdi",{textContent:l[h]}),` (${h}) → `,p("bdi",{textContent:l[f]}),` (${f})`],o.queries.includes(f)?{to:f,from:h}:{
from:h,read:"column"},n),c=i.map(([f,h,d])=>({query:f,key:h,share:d}));return[p("p",{className:"note",textContent:`Head ${a}\
 carries most from → to:`}),Nn(t,c,u,"cell",({query:f,key:h})=>[r.layer,a,f,h])]}function Tf(t,e,n){let{data:o,selection:r}=t,
s=e.neurons[r.layer]||[];if(!s.length)return[];let a=Object.entries(o.runs[r.run].blocks).filter(([,{kind:c}])=>c==="mem\
ory"),i=c=>{let f=a.find(([,{memory:h}])=>h===`${r.layer}:${c}`);return f?{view:"memories",block:f[0]}:{neuron:c}},l=({neuron:c})=>{
let f=On([`L${r.layer}N${c}`],i(c),n);return c===r.neuron&&f.setAttribute("aria-current","true"),f},u=s.map(([c,f])=>({neuron:c,
share:f}));return[p("p",{className:"note",textContent:`Largest neurons of layer ${r.layer}, over all positions:`}),Nn(t,
u,l,"neuron",()=>[])]}function gi(t,e){let{data:n,selection:o}=t,r=K(n,o);if(!r)return[];let{layer:s}=o,a=z(t),i=({column:d})=>On(
[p("bdi",{textContent:a[d]}),ut(t,d)],je(t,d),e),l=({head:d})=>On([`head ${d}`],{heads:String(d)},e),u=Fo(r,s).slice(0,pi),
c=t.axes.columns[q(t)].position,h=$e(n).some(({tables:d})=>d.head&&d.head.axes.length>2)?`; replaced at ${rt(t,q(t))} al\
one`:"";return[p("section",{className:"card logit-card"},[p("h3",{},["To ",p("bdi",{textContent:To(r)})]),p("p",{textContent:Se(
t)}),p("p",{className:"note",textContent:Vs(r,s)}),Nn(t,Ks(t,s,pi),i,"residual",({column:d})=>[s,t.axes.columns[d].position]),
...u.length?[p("p",{className:"note",textContent:`What the heads of layer ${s} write, over ${r.ends?"these":"all"} posit\
ions${h}:`}),Nn(t,u,l,"head",({head:d})=>[s,d,c])]:[],...Sf(t,r,e),...Tf(t,r,e),p("p",{className:"note",textContent:r.certificate})])]}var Or={faintest:.02,triggers:5};function En(t,e){return Object.entries(t.runs[e].blocks).filter(([,n])=>n.kind==="memor\
y")}function Lr(t,e){let n=En(t,e.run);return n.find(([o])=>o===e.block)||n[0]}function yi(t,e,n,o,r){let{palette:s}=t,a=p(
"span",{className:"chip"},[p("bdi",{textContent:e})]),i=[o,r].filter(u=>u&&Number.isFinite(u.value));a.title=[`${e} · po\
sition ${n}`,...i.map(u=>`${u.name} ${T(u.value,!1)}`)].join(" · ");let l=u=>u&&Number.isFinite(u.value)&&u.limit&&Math.
abs(u.value)>=Or.faintest*u.limit?tt(s,u.value,u.limit,"signed"):null;return ge(a,l(o),l(r)),a}function Ie(t,e){let n=A(
e.map(Math.abs));return e.map(o=>({name:t,value:o,limit:n}))}function Ln(t,e){let n=p("div",{className:"tokens"},t);return n.
setAttribute("role","group"),n.setAttribute("aria-label",e),n.classList.toggle("long",t.length>40),n}function _e(t,e){return p(
"section",{className:"memory-part"},[p("h3",{textContent:t}),...e])}function Ft(t){return p("p",{className:"note",textContent:t})}
function Rf(t,e,n){let o=En(t,e.run),r=p("select",{},o.map(([s,a])=>X(s,`memory ${a.memory}`)));return r.autocomplete="o\
ff",r.value=Lr(t,e)[0],r.setAttribute("aria-label","memory"),r.addEventListener("change",()=>n({block:r.value})),p("div",
{className:"toggles"},[r,p("span",{className:"note",textContent:`of ${o[0][1].model}, over ${o[0][1].corpus_texts} texts`})])}
function zf(t,e){if(!e.value)return _e("What it writes",[Ft("Its value cannot be read as tokens: the model came without \
a trained head.")]);let{top:n,bottom:o,probability:r,reading:s,agreeing:a,followed:i}=e.value,l=(f,h)=>p("p",{className:"\
memory-words"},[`${h} `,...f.map(d=>p("span",{className:"chip"},[p("bdi",{textContent:d})]))]),u=s==="direction"?"by the\
 unembedding alone":"by the model's own read-out",c=i?` ${a} of ${i} triggers are followed by the first of them.`:"";return _e(
"What it writes",[l(n,"promotes"),l(o,"demotes"),Ft(`Its value, read ${u}; the first token has a probability of ${D(r)}.${c}`)])}
function Wf(t,e,n){if(!e.text)return[];let{tokens:o,along:r,parts:s,bias:a,carried:i,target:l}=e.text,u=t.selection.to,c=d=>o.
map((m,g)=>{let b=yi(t,m,g,d[g]);return b.setAttribute("aria-current",String(g===u)),b.addEventListener("click",()=>n({to:g,
read:"row"})),b}),f=p("h3",{},["Its coefficient by token, at ",p("bdi",{textContent:st(o[u])})]),h=[_e("Its coefficient \
along this text",[Ln(c(Ie("coefficient",r)),"coefficient at each token"),Ft(`Strongest colour: ${T(r[wi(r)],!1)} at ${st(
o[wi(r)])}.`)]),p("section",{className:"memory-part"},[f,Ln(c(Ie("brings",s[u])),"what each token brings"),Ft(`Parts of \
the tokens of the layer's input in the coefficient ${T(r[u],!1)} at position ${u}; the bias brings ${T(a[u],!1)}, and to\
gether they sum to it.`)])];return i&&h.push(_e("What it carries to the target",[Ln(c(Ie("carries",i)),"share of the tar\
get"),Ft(`Signed shares of ${l}: ${T(i[u],!1)} from here, ${T(i.reduce((d,m)=>d+m,0),!1)} from all positions.`)])),h}function wi(t){
return t.reduce((e,n,o)=>Math.abs(n)>Math.abs(t[e])?o:e,0)}function bi(t,e){let{tokens:n,along:o,parts:r,position:s,coefficient:a,
rank:i,sequence:l}=e,[u,c]=[Ie("brings",r),Ie("coefficient",o)],f=n.map((h,d)=>{let m=yi(t,h,d,u[d],c[d]);return m.setAttribute(
"aria-current",String(d===s)),m.classList.toggle("later",d>s),m});return p("div",{className:"memory-trigger"},[Ft(`${i}.\
 coefficient ${T(a,!1)}, text ${l}`),Ln(f,`trigger ${i}`)])}function xi(t,e,n){let[o,r]=[n.slice(0,Or.triggers),n.slice(
Or.triggers)],s=o.map(a=>bi(t,a));if(r.length){let a=p("details",{},[p("summary",{textContent:`${r.length} more`})]);a.addEventListener(
"toggle",()=>{a.open&&a.children.length===1&&a.append(...r.map(i=>bi(t,i)))}),s.push(a)}return _e(e,s.length?s:[Ft("It n\
ever had such a coefficient in these texts.")])}function ki(t,e){let{data:n,selection:o}=t,[,r]=Lr(n,o);return p("div",{
className:"memory"},[Rf(n,o,e),zf(t,r),...Wf(t,r,e),xi(t,"Triggers: its largest coefficients",r.positive),xi(t,"Its most\
 negative coefficients",r.negative),Ft("Orange brings it on or speaks for the target, violet against. In triggers: groun\
d, what a token brings to the coefficient at the framed token; stripe, the coefficient at each token itself.")])}function $i(t){
let[e,n]=Lr(t.data,t.selection);return{headline:"",meaning:"A memory is one neuron of a feed-forward block: what turns i\
t on, by which token, and what it writes.",place:`memory ${n.memory}`,shown:e,remark:"",note:"",exact:!1,method:"",file:[
`memory${n.memory}`]}}var Q={left:46,top:18,label:11};function Ni(t,e,n){return tt(t,e,n,"signed")}function vi(t){return t.map(e=>e??NaN)}function Oi(t){
let[e,n]=[t.length,t[0].length],o={nRows:e,nColumns:n,own:Array(e).fill(-1)};return Ot(o,Float32Array.from(t.flat()),n>=
te?"percentile":"all")}function Li(t){return new Map(t.map(({note:e})=>[e,Oi(t.filter(n=>n.note===e).flatMap(({values:n})=>n))]))}
function Ei(t,e,n=e){let o=p("canvas",{width:121,height:1}),r=o.getContext("2d");for(let a=0;a<121;a++)r.fillStyle=Ni(t,
(a-60)/60,1).hex,r.fillRect(a,0,1,1);o.setAttribute("aria-hidden","true");let s=n>e*1.0001?[p("span",{textContent:`(99th\
 percentile; cells reach ${R(n)})`})]:[];return p("div",{className:"share-scale"},[`−${R(e)}`,o,`+${R(e)}`,...s])}function Ff(t,e,n){
let o=A(n),r=e.map((s,a)=>Pe(s,T(n[a]),`position ${a}`,Ni(t,n[a]||0,o)));return p("div",{},[p("ol",{className:"tokens sh\
ared"},r),Ei(t,o)])}function Ai({values:t},e){let[n,o]=[t.length,t[0].length];return{cells:Float32Array.from(t.flat()),nColumns:o,
window:[0,n-1,0,o-1],scale:"signed",limit:e,root:0}}function Mi(t,e){return[1,2,5,10,20,50,100,200,500].find(n=>n*e>=Q.label+
2)||t}function jf(t,e){let n=t.match(/@\d+$/)?.[0]??"";return B(t.slice(0,t.length-n.length),Q.label,e-I(n,Q.label))+n}function Si(t,e){
let[n,o]=[t.rows.length,t.columns.length],r=Math.min(110,Math.max(...[`${t.row} ↓`,...t.rows].map(f=>I(f,Q.label)))+8),
s=Math.max(Q.left,r),a=Math.max(6,Math.min(34,(e-s-8)/o)),i=Math.max(5,Math.min(20,460/n)),l=Math.max(...t.columns.map(f=>I(
f,Q.label))),u=l<a-2,c=u?20:Math.min(90,l)+14;return{left:s,cell:a,tall:i,lying:u,below:c,wide:a*o,high:i*n,height:Q.top+
i*n+c}}function Ti(t,e,{left:n,cell:o,tall:r,lying:s,below:a,wide:i,high:l}){let u=(h,d)=>L(h,0,0,{"font-size":Q.label,fill:t.
grey,...d}),c=[k("rect",{x:n,y:Q.top,width:i,height:l,fill:"none",stroke:t.line})],f=[];for(let h=0;h<e.rows.length;h+=Mi(
e.rows.length,r))f.push(u(B(e.rows[h],Q.label,n-8),{x:n-5,y:Q.top+(h+.5)*r+4,"text-anchor":"end"}));for(let h=0;h<e.columns.
length;h+=Mi(e.columns.length,o)){let[d,m]=[n+(h+.5)*o+(s?0:4),Q.top+l+(s?14:6)],g=s?{"text-anchor":"middle"}:{transform:`\
rotate(-90 ${d} ${m})`,"text-anchor":"end"};c.push(u(s?e.columns[h]:jf(e.columns[h],a-12),{x:d,y:m,...g}))}return f.push(
u(`${e.row} ↓`,{x:n-5,y:11,"text-anchor":"end"})),c.push(u(`${e.column} →`,{x:n,y:11})),{names:f,nodes:c}}function Ci(t,e,n,o,r){
let[s,a]=[e.rows.length,e.columns.length],i=Si(e,o),{left:l,cell:u,tall:c,wide:f,high:h,height:d}=i,m=Ti(t,e,i),g=k("rec\
t",{fill:"none",stroke:t.mark,"stroke-width":1.5,visibility:"hidden",width:u,height:c}),b=k("g",{class:"share-names"},[W(
0,0,l-1,d,t.paper),...m.names]),x=ft(Ai(e,n),t,a,s).toDataURL(),y=k("svg",{width:l+f+6,height:d,tabindex:0,role:"img"},[
k("image",{href:x,x:l,y:Q.top,width:f,height:h,preserveAspectRatio:"none"}),...m.nodes,g,b]);y.setAttribute("aria-label",
`${e.title}; arrow keys choose a cell`);let C=p("p",{className:"share-said",textContent:"Point at a cell, or move to one\
 with the arrow keys."});C.setAttribute("role","status");let $=null,M=(O,E)=>{$=[O,E];for(let[ot,lt]of Object.entries({x:l+
E*u,y:Q.top+O*c,visibility:"visible"}))g.setAttribute(ot,lt);C.replaceChildren(`${e.row} `,p("bdi",{textContent:e.rows[O]}),
` · ${e.column} `,p("bdi",{textContent:e.columns[E]}),`: ${T(e.values[O][E])}`);for(let[ot,lt]of e.details[`${O},${E}`]||
[])C.append(" · ",p("bdi",{textContent:ot}),` ${T(lt)}`)},N=O=>{if(O.target.closest(".share-names"))return null;let E=y.
getBoundingClientRect(),[ot,lt]=[Math.floor((O.clientX-E.left-l)/u),Math.floor((O.clientY-E.top-Q.top)/c)];return lt>=0&&
ot>=0&&lt<s&&ot<a?[lt,ot]:null};y.addEventListener("pointermove",O=>{let E=N(O);E&&M(...E)}),y.addEventListener("click",
O=>{let E=N(O);E&&(M(...E),r&&r(...E))}),y.addEventListener("keydown",O=>{let E={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[
0,-1],ArrowRight:[0,1]}[O.key];if(O.key==="Enter"&&$&&r&&r(...$),!E)return;O.preventDefault();let[ot,lt]=$||[s-1,0];M(Math.
min(s-1,Math.max(0,ot+($?E[0]:0))),Math.min(a-1,Math.max(0,lt+($?E[1]:0))))});let S=p("div",{className:"share-map"},[y]);
return S.addEventListener("scroll",()=>b.setAttribute("transform",`translate(${S.scrollLeft})`)),p("div",{},[S,C,Ei(t,n,
A(e.values.map(A)))])}function If(t,{title:e,note:n,entries:o}){let r=A(o.map(([,i])=>i)),s=o.map(([i,l])=>{let u=p("spa\
n",{className:"share-bar"});return u.style.width=`${r?Math.round(60*Math.abs(l)/r):0}px`,u.style.background=t[l<0?"loss":
"gain"],p("tr",{},[p("td",{},[p("bdi",{textContent:i})]),p("td",{},[u]),p("td",{textContent:T(l)})])}),a=n?[p("p",{className:"\
note",textContent:n})]:[];return p("section",{className:"share-table"},[p("h2",{textContent:e}),...a,p("table",{},s)])}function Er(t,e,n,o){
let r=[p("h2",{textContent:t}),p("p",{className:"note",textContent:e}),...n];return p("section",{className:o?"wide":""},
r)}function _f(t){let e=t.sums.map(([n,o])=>`${n} ${T(o)}`);return`${R(t.value,4)} = ${e.join(" · ")}`}function Ri(t){return Xt(
t,0)!==void 0}function Xt(t,e){let n=Object.values(t.runs[e].blocks).find(({kind:o})=>o==="numbers");if(n&&!n.read){for(let o of n.
rows)o.shares=vi(o.shares);for(let o of n.maps)o.values=o.values.map(vi);n.read=!0}return n}function zi(t,{rows:e}){return{
title:"Every token of the continuation",note:"A row has the shares of all tokens before it; with biases they sum to the \
target's value. A click opens its overview.",row:"target",column:"source",rows:e.map(({name:n})=>n),columns:t.runs[0].tokens,
values:e.map(({shares:n})=>n),details:{}}}function Pf({data:t,palette:e},{rows:[n]}){return Er("What each token brings",
"Signed, in the target's units: what flows in through the embedding of a token, with those of its position and type.",[Ff(
e,t.runs[0].tokens,n.shares),p("p",{className:"share-sums",textContent:_f(n)})],!0)}function Wi(t,e,n){let{data:o,selection:r,
palette:s}=t,a=Xt(o,r.run),i=[];if(a.rows.length>1){let c=zi(o,a),f=h=>{let d=Ae(o,o.words.length-a.rows.length+h);d&&e(
{...d,view:"overview"})};i.push(Er(c.title,c.note,[Ci(s,c,Oi(c.values),n,f)],!0))}else a.rows.length&&i.push(Pf(t,a));let l=n>
1080?(n-28)/2:n,u=Li(a.maps);for(let c of a.maps)i.push(Er(c.title,c.note,[Ci(s,c,u.get(c.note),c.columns.length>40?n:l,
null)],c.columns.length>40));for(let c of a.tables)i.push(If(s,c));return[p("div",{className:"number-blocks"},i)]}function Fi({
data:t,selection:e}){let{heading:n,facts:o}=Xt(t,e.run);return{headline:n,meaning:"",place:"",shown:o||t.heading,remark:"",
note:"",exact:!1,method:"",file:["numbers"]}}function ji({data:t,selection:e,palette:n},o){let r=Xt(t,e.run),s=[...r.rows.
length>1?[zi(t,r)]:[],...r.maps],a=Li(s),i=0,l=s.map(u=>{let c=Si(u,o),{names:f,nodes:h}=Ti(n,u,c),d=[{picture:Ai(u,a.get(
u.note)),x:c.left,y:Q.top,width:c.wide,height:c.high}],m=L(u.title,0,-6,{"font-size":12,"font-weight":600,fill:n.ink}),g={
x:0,y:i+22,pictures:d,nodes:[m,...f,...h]};return i+=c.height+34,g});return l.length?{groups:l,height:i}:null}function Ii({
data:t,selection:e}){let n=Xt(t,e.run),o=t.runs[e.run].tokens,r=function*(){for(let{name:a,shares:i}of n.rows)for(let[l,
u]of i.entries())yield["token",a,o[l],u];for(let{title:a,rows:i,columns:l,values:u}of n.maps)for(let[c,f]of u.entries())
for(let[h,d]of f.entries())yield[a,i[c],l[h],d];for(let{title:a,entries:i}of n.tables)for(let[l,u]of i)yield[a,l,"",u]},
s=n.maps.reduce((a,{values:i})=>a+i.length*i[0].length,n.rows.length*o.length);return{head:["part","row","column","value"],
lines:r,count:s}}var Bf=40;function _i({selection:t}){return[...Ht,"sort","pairs","mass","find",...t.pairs==="token"?["read","to","from"]:
[]]}function Hf(t,e,n){let{axes:o,maps:r}=t,s=z(t),[a,i]=[o.rows[e.row].position,o.columns[e.column].position],l=p("butt\
on",{type:"button",className:"plain",title:on(t.data,i,a)},[p("bdi",{textContent:s[e.column]}),`${ut(t,e.column)} → `,
p("bdi",{textContent:s[o.own[e.row]]}),ut(t,o.own[e.row])]);l.addEventListener("click",()=>n({to:a,from:i}));let c=[...t.
selection.sort==="distance"?[Mo(o,e.index)]:[],...r.map(f=>nt(f,f.cells[e.index],f.asShare))];return p("tr",{},[p("td",{},
[l]),...c.map(f=>p("td",{textContent:f}))])}function Pi(t,e){let{pairs:n,total:o}=Ss(t,Bf),r=qt(t).map((l,u)=>p("th",{scope:"\
col",textContent:t.maps[u].role==="difference"?"change":l}));t.selection.sort==="distance"&&r.unshift(p("th",{scope:"col",
className:"whole",textContent:"distance"}));let s=n.map(l=>Hf(t,l,e)),a=p("table",{className:"pairs"},[p("thead",{},[p("\
tr",{},[p("th",{scope:"col",textContent:"from → to"}),...r])]),p("tbody",{},s)]);return w("pairs-note").textContent=o>
n.length?`the first ${n.length} of ${o}`:o?`${o} pairs`:"no pair fits",{nodes:[a],update:l=>n.forEach((u,c)=>s[c].classList.
toggle("current",u.row===l.row&&u.column===l.column))}}var F={row:18,smallest:11,printed:3,query:14,label:118,gap:12,number:64,weight:120,percent:46,head:40,wide:620},qf={vectors:[
"query q, keys k","q, k"],product:["q × k × scale","q × k"],score:["sum: score","score"],bar:["softmax: weight","weig\
ht"],value:["value ‖v W_O‖","‖v W_O‖"],weighted:["weight × ‖v W_O‖","weighted"]};function kt(t,e){return Object.
values(t.runs[e].blocks).find(n=>n.kind==="scores")}function An(t,e){let{heads:n}=kt(t,e.run),o=n.indexOf(t.channels.get(
e.scope).name);return o>=0?o:Math.min(n.length-1,Number(e.heads.split(".")[0]||0))}function Df(t,e,n){let{blockName:o}=t.
channels.get(e.scope),r=V(t,o,kt(t,e.run).heads[n]);return t.channels.has(r)?{scope:r}:{heads:String(n)}}function Ar(t,e){
let n=kt(t,e.run),o=n.heads[An(t,e)];return[n.query,n.key,n.score,n.weight,...n.value?[n.value]:[]].map(r=>r[o])}function Sn(t){
let{data:e,selection:n}=t,o=kt(e,n.run),r=o.layers.indexOf(n.layer);if(r<0)return null;let[s,a,i,l,u]=Ar(e,n).map(y=>e.numbersAt(
y,r)),c=e.queries.indexOf(n.to),[f,h]=[e.words.length,s.length/e.queries.length],d=s.subarray(c*h,(c+1)*h),m=o.scale[r],
g=Float32Array.from(a,(y,C)=>m*y*d[C%h]),b=y=>no(e,y).subarray(c*f,(c+1)*f),x=u&&b(l).map((y,C)=>y*u[C]);return{block:o,
scale:m,size:h,n:f,query:d,keys:a,products:g,scores:b(i),weights:b(l),values:u,weighted:x,most:x?A(x):0}}function Hi(){return[
"run","scope","layer","heads","to"]}function qi({room:t},e,n){let o=Math.max(t?F.printed:F.smallest,Math.min(F.row,t?(t-
F.head-F.query-8)/(e.n+2):1400/e.n)),r=Math.min(F.label,n/5),s=e.values&&n>=F.wide?1:0,a=n-r-(F.number+F.percent)*(1+s)-
(3+s)*F.gap-8,i=Math.min(F.weight,a/(4+2*s)),l=Math.max(40,Math.min(420,(a-i*(1+s))/2)),u=r+l+F.gap,c=u+l+F.gap,f=c+F.number+
F.gap,h=f+i+F.percent;return{height:o,label:r,strip:l,weight:i,product:u,score:c,bar:f,valued:s,value:h,weighted:h+F.number+
F.gap,y:d=>F.head+Math.max(2*o,F.query)+d*o}}function Vf(t,e,n,o){return{cells:e,nColumns:t.size,window:[n,o,0,t.size-1],
scale:"signed",limit:A(e),root:0}}function Di(t,e){let n=(o,r,s,a)=>({picture:Vf(t,o,0,r-1),x:s,y:a,width:e.strip,height:r*
e.height});return[n(t.query,1,e.label,F.head),n(t.keys,t.n,e.label,e.y(0)),n(t.products,t.n,e.product,e.y(0))]}function Kf(t,e,n){
return Di(e,n).map(({picture:o,x:r,y:s,width:a,height:i})=>Mt(ft(o,t.palette,a*t.ratio,i*t.ratio),r,s,a,i))}function Vi(t,e){
let{data:n,selection:o,palette:r}=t,s=Math.min(12,Math.max(P.smallest,e.height)),a=B(n.runs[o.run].tokens[o.to],s,e.label-
34),i={"font-size":s,fill:r.ink,"text-anchor":"end","font-weight":700};return[L(`${a} q`,e.label-5,F.head+e.height/2+s*.35,
i),...Uf(t,e)]}function Uf({palette:t},e){let n={vectors:[e.label,e.strip],product:[e.product,e.strip],score:[e.score,F.
number],bar:[e.bar,e.weight+F.percent]};return e.valued&&Object.assign(n,{value:[e.value,F.number+F.gap],weighted:[e.weighted,
e.weight+F.percent]}),Object.entries(n).map(([o,[r,s]])=>{let[a,i]=qf[o];return L(I(a,11)<=s?a:i,r,F.head-8,{"font-size":11,
fill:t.grey})})}function Gf({palette:t},e,n,o){if(Number.isNaN(e.scores[o]))return[];let r=Math.min(12,Math.max(P.smallest,
n.height)),s=n.y(o)+n.height/2+r*.35,a=e.weighted[o]/(e.most||1)*n.weight;return[W(n.weighted,n.y(o)+Math.min(2,n.height/
8),a,n.height-Math.min(4,n.height/4),t.contribution),L(R(e.values[o]),n.value+F.number-6,s,{"font-size":r,fill:t.ink,"te\
xt-anchor":"end"}),L(R(e.weighted[o]),n.weighted+a+4,s,{"font-size":Math.min(10,r),fill:t.grey})]}function Ki(t,e,n){let{
palette:o,data:r,selection:s}=t,a=Math.min(12,Math.max(P.smallest,n.height)),i=Tt(n.height),l=r.runs[s.run].tokens,u={"f\
ont-size":a,fill:o.ink},c=f=>n.y(f)+n.height/2+a*.35;return l.flatMap((f,h)=>{let d=!Number.isNaN(e.scores[h]),m=d?[W(n.
bar,n.y(h)+Math.min(2,n.height/8),e.weights[h]*n.weight,n.height-Math.min(4,n.height/4),o.contribution)]:[],g=n.valued?Gf(
t,e,n,h):[];return Gt(h,i,s.from)?[...m,...g,L(B(f,a,n.label-34),n.label-30,c(h),{...u,"text-anchor":"end",fill:d?o.ink:
o.line}),L(h,n.label-5,c(h),{"font-size":9,"text-anchor":"end",fill:o.grey}),...d?[L(T(e.scores[h],!1),n.score+F.number-
6,c(h),{...u,"text-anchor":"end"}),L(D(e.weights[h],2),n.bar+Math.max(.01,e.weights[h])*n.weight+4,c(h),{"font-size":Math.
min(10,a),fill:o.grey})]:[]]:[...m,...g.slice(0,1)]})}function Bi(t,e,n,o){let r=o.getBoundingClientRect(),[s,a]=[n.clientX-
r.left,n.clientY-r.top];if(n.target.closest(".heads"))return null;let i=Math.floor((a-e.y(0))/e.height);if(i<0||i>=t.n)return null;
let l=[e.label,e.product].find(u=>s>=u&&s<u+e.strip);return{key:i,dimension:l===void 0?null:Math.floor((s-l)/e.strip*t.size)}}
function Ui(t,e){return`value ‖v W_O‖ ${R(t.values[e])}, weighted ${R(t.weighted[e])}`}function Yf(t,e,{key:n,dimension:o}){
let{data:r,selection:s}=t,a=r.runs[s.run].tokens,i=[J("to",Et(t,a[s.to],s.to)),J("from",Et(t,a[n],n))],l=n*e.size+o;o!==
null&&i.push(p("div",{textContent:`dimension ${o}: ${R(e.query[o])} × ${R(e.keys[l])} × ${R(e.scale)} = ${T(e.products[l],
!1)}`}));let u=!Number.isNaN(e.scores[n]);return i.push(p("div",{textContent:u?`score ${T(e.scores[n],!1)}, weight ${D(e.
weights[n])}`:"no weight: this key is not seen"})),u&&e.values&&i.push(p("div",{textContent:Ui(e,n)})),i}function Xf(t,e,n,o,r){
t.addEventListener("pointermove",s=>{let a=Bi(n,o,s,t),i=w("tooltip");i.hidden=!a,a&&(i.replaceChildren(...Yf(e,n,a)),ae(
i,s.clientX,s.clientY))}),t.addEventListener("pointerleave",()=>{w("tooltip").hidden=!0}),t.addEventListener("click",s=>{
let a=Bi(n,o,s,t);a&&r({from:a.key})})}function Zf(t,e){let{data:n,selection:o}=t,{heads:r}=kt(n,o.run),s=p("select",{autocomplete:"\
off"},r.map((a,i)=>X(i,a)));return s.value=String(An(n,o)),s.setAttribute("aria-label","head"),s.addEventListener("chang\
e",()=>e(Df(n,o,Number(s.value)))),p("div",{className:"toggles"},[s,p("span",{className:"note",textContent:`layer ${o.layer}\
; choose the query in the sentence`})])}var Gi="Orange adds to the score, violet takes from it; each picture has its own\
 scale.";function Yi(t,e,n){return ht(1,e.y(t.selection.from),n-3,e.height,t.palette.mark)}function Xi(t){return`A score\
 is the sum of ${t.size} products of query and key, as attention multiplied them, times ${R(t.scale)}. ✓ The softmax of \
these scores is the model's own pattern, ${t.block.error?`to ${ke(t.block.error)}`:"digit for digit"}.${t.values?" ‖v W_\
O‖ is the norm of what a key's value writes through the head; times the weight it is value-weighted attention.":""}`}function Zi({
data:t,selection:e}){return`Scores are here of layers ${kt(t,e.run).layers.join(", ")} only.`}function Ji(t,e,n){let o=Sn(
t),r=Zf(t,e);if(!o)return[r,p("p",{textContent:Zi(t)})];let s=qi(t,o,n),a=k("g"),i=k("svg",{width:n,height:s.y(o.n)+8},[
...Ki(t,o,s),a]),[l,...u]=Kf(t,o,s),c=p("div",{className:"heads"},[l,k("svg",{width:n,height:s.y(0)},Vi(t,s))]);i.style.
marginTop=`${-s.y(0)}px`;let f=p("div",{className:"scores"},[c,...u,i]);f.setAttribute("role","img"),f.setAttribute("ari\
a-label","Scores of the selected token's query with every key; the numbers are written next to them."),Xf(f,t,o,s,e);let h=d=>a.
replaceChildren(Yi(d,s,n));return{nodes:[r,f,p("p",{className:"note",textContent:`${Gi} ${Xi(o)}`})],update:h}}function Qi(t,e){
let n=Sn(t);if(!n)return null;let o=qi(t,n,e),r=[...Vi(t,o),...Ki(t,n,o),Yi(t,o,e)];return{groups:[{x:0,y:0,pictures:Di(
n,o),nodes:r}],height:o.y(n.n)+8}}function tl(t){let{data:e,selection:n}=t,o=Sn(t),r=kt(e,n.run).heads[An(e,n)],s=e.runs[n.
run].tokens,[a,i]=[n.to,n.from].map(c=>`${st(s[c])} (position ${c})`),u=o&&!Number.isNaN(o.scores[n.from])?`${a} asks ${i}\
: score ${T(o.scores[n.from],!1)}, weight ${D(o.weights[n.from])}${o.values?`, ${Ui(o,n.from)}`:""}.`:o?Ne(a,i):Zi(t);return{
headline:`Layer ${n.layer}, ${r}: ${u}`,meaning:"One token's query beside every key: the products of their numbers sum t\
o the score, and the softmax of the scores is what attention gives each key.",place:`layer ${n.layer}`,shown:`attention \
scores, ${r}, query of ${a}`,remark:"",exact:!1,method:"",note:o?`${Gi} ${Xi(o)}`:"",file:[`layer${n.layer}`,`scores-${r}`.
replaceAll(" ",""),`query${n.to}`]}}function el(t){let{data:e,selection:n}=t,o=Sn(t);if(!o)return null;let r=kt(e,n.run).
heads[An(e,n)],s=e.runs[n.run].tokens,a=Array.from({length:o.size},(l,u)=>u),i=function*(){for(let l=0;l<o.n;l++)Number.
isNaN(o.scores[l])||(yield[n.layer,r,n.to,s[n.to],l,s[l],o.scores[l],o.weights[l],...o.values?[o.values[l],o.weighted[l]]:
[],...a.map(u=>o.products[l*o.size+u])])};return{head:["layer","head",...Te,"score","weight",...o.values?["value norm","\
value-weighted"]:[],...a.map(l=>`product ${l}`)],lines:i,count:o.n}}function Jf(t){let{selection:e,maps:n,axes:o,row:r,column:s}=t,a=h=>st(z(t)[h]),i=ho(t).at(-1),l=wt(t),u=i>0?` Darkest: ${Y(
i,l.asShare,l.scale==="signed")}.`:"",c=n.length>1?` Colour: ${qt(t)[1]}; underline: ${qt(t)[0]}.`:"",f=h=>t.data.named?
"":` (${Bt(t.data,h)})`;return(e.read==="row"?`Where ${a(o.own[r])}${f(o.rows[r].position)} takes from.`:`Where ${a(s)}${f(
o.columns[s].position)} goes.`)+c+u}function Qf(t){let e=p("span",{className:"chip",id:`token-${t}`},[p("bdi")]);return e.
setAttribute("role","option"),e.dataset.column=t,e}function nl(t){return t.maps.filter(e=>e.role!=="difference").map(e=>re(
t,e))}function th(t,e,n,o,r){let{palette:s,maps:a}=t,i=o[o.length-1][n],l=n===q(t);G(e.firstChild,z(t)[n]),e.setAttribute(
"aria-selected",String(l)),e.classList.toggle("later",Number.isNaN(i)&&!l),e.classList.toggle("cell",n===(t.selection.read===
"row"?t.column:t.axes.own[t.row]));let u=c=>{let f=o[c][n];return Number.isNaN(f)?null:tt(s,f,r[c],a[c].scale,t.selection.
root)};ge(e,u(o.length-1),o.length>1&&u(0))}function ol(t,e){let n=nl(t),o=z(t),r=t.maps.filter(s=>s.role!=="difference");
Array.from(e.children).forEach((s,a)=>{let i=Bt(t.data,t.axes.columns[a].position);s.title=`${[o[a],i].filter(Boolean).join(
" · ")}: ${n.map((l,u)=>nt(r[u],l[a],r[u].asShare)).join(" → ")}`,s.setAttribute("aria-label",s.title)})}function eh(t,e,n){
let{axes:o,selection:r,data:s}=t,a={ArrowRight:1,ArrowLeft:-1,PageDown:10,PageUp:-10,Home:-s.words.length,End:s.words.length};
if(!(!(n.key in a)||n.altKey))if(n.preventDefault(),n.stopPropagation(),r.read==="row"){let i=Math.max(0,Math.min(o.nRows-
1,t.row+a[n.key]));e({to:o.rows[i].position})}else{let i=Math.max(0,Math.min(o.nColumns-1,t.column+a[n.key]));e({from:o.
columns[i].position})}}function rl(t,e,n){let{axes:o,selection:r}=t;n.children.length!==o.nColumns&&n.replaceChildren(...Array.
from({length:o.nColumns},(i,l)=>Qf(l)));let s=nl(t),a=ho(t);Array.from(n.children).forEach((i,l)=>th(t,i,l,s,a)),n.setAttribute(
"aria-activedescendant",`token-${q(t)}`),n.classList.toggle("long",o.nColumns>40),n.onclick=i=>{let l=i.target.closest("\
.chip");if(!l)return;let u=o.columns[Number(l.dataset.column)].position,c=o.rowOf(u);i.shiftKey?e(r.read==="row"?{from:u}:
c>=0?{to:u}:{}):r.read==="column"||c<0?e({from:u,read:"column"}):e({to:o.rows[c].position})},n.onkeydown=i=>eh(t,e,i),G(
w("sentence-words"),Jf(t)),t.marked.push(i=>{let l=i&&(i.column??(i.row===void 0?-1:o.own[i.row]));Array.from(n.children).
forEach((u,c)=>u.classList.toggle("read",c===l))})}function sl(t,e){let n=e.children[q(t)];(n.offsetTop<e.scrollTop||n.offsetTop+
n.offsetHeight>e.scrollTop+e.clientHeight)&&(e.scrollTop=n.offsetTop-20)}function nh(t){let{data:e,selection:n}=t,o=t.headsBlock||e.channels.get(n.scope).blockName;return Oe(t).flatMap((r,s)=>r.
columns.map(a=>({...a,group:s,track:r,key:V(e,o,a.channel),refKey:a.ref&&V(e,o,a.ref)})))}function Tn(t,e){let{data:n,selection:o}=t;
return t.headsBlock?o.heads.split(".").includes(String(n.channels.get(e.key).index)):o.scope!==e.key?!1:o.run!==o.refRun||
e.refKey===null||o.ref===e.refKey}function oh(t,e,n,o){let r=t.data.layers.length,s=e.length?e[e.length-1].group:0,[a,i]=o?
[72,16]:[26,22+Math.max(30,Math.min(70,9*Math.max(0,...e.map(m=>m.label.length))))],l=o?Math.max(4,Math.min(24,(n-a-6)/r)):
Math.max(9,Math.min(20,480/r)),u=o?15:Math.max(8,Math.min(26,(n-a-14*s-4)/Math.max(1,e.length))),c=m=>e[m].group*(o?8:14)+
m*u,f=(m,g)=>o?[a+m*l,i+c(g)]:[a+c(g),i+m*l],h=e.length?c(e.length-1)+u:0,d=o?[a+r*l+4,i+h+4]:[a+h+4,i+r*l+4];return{place:f,
cell:o?[l,u]:[u,l],size:d,label:a,head:i,lying:o}}function rh(t,e,n){let{palette:o,data:r,selection:s}=t,[a,i]=n.cell,l=Math.
max(1,Math.ceil((n.lying?16:11)/(n.lying?a:i))),u=r.layers.indexOf(s.layer),c=r.layers.flatMap((m,g)=>{let b=g===u;if(!Gt(
g,l,u))return[];let[x,y]=e.length?n.place(g,0):[n.label,n.head],C={"font-size":11,fill:b?o.ink:o.grey,"font-weight":b?700:
400};return[n.lying?L(m,x+a/2,n.head-5,{...C,"text-anchor":"middle"}):L(m,n.label-6,y+i/2+4,{...C,"text-anchor":"end"})]}),
f=e.map((m,g)=>{let[b,x]=n.place(0,g),y=Tn(t,m)?700:400,C={"font-size":11,fill:o.ink,"font-weight":y};return n.lying?L(B(
m.label,11,n.label-8),n.label-6,x+i-4,{...C,"text-anchor":"end"}):mt(B(m.label,11,n.head-22),b+a/2+4,n.head-5,C)}),h=n.lying?
[]:e.flatMap((m,g)=>g&&e[g-1].group===m.group?[]:[L(m.track.title,n.place(0,g)[0],12,{"font-size":11,fill:o.grey})]);return[
n.lying?L("layer",n.label-6,n.head-5,{"font-size":11,fill:o.grey,"text-anchor":"end"}):L("layer",0,n.head-5,{"font-size":9,
fill:o.grey}),...c,...f,...h]}function sh(t,e,n,o,r,[s,a]){let[i,l]=r,{palette:u,data:c}=t,f=e.track.values[e.channel][n],
h=f===null?u.out:tt(u,Math.max(0,f-s),a-s,"contribution",e.track.stretched?0:1).hex,d=W(o[0],o[1],i-1,l-1,h);return d.append(
k("title",{},[`layer ${c.layers[n]}, ${e.words}: ${le(f)}`])),d.dataset.layer=c.layers[n],d.dataset.channel=e.key,d.dataset.
ref=e.refKey??"",d}function ah(t,e,n,o){let{data:r,selection:s}=t,a={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[
0,1],Home:[-r.layers.length,0],End:[r.layers.length,0]}[o.key];if(!a||o.altKey)return;o.preventDefault(),o.stopPropagation();
let i=r.layers[Math.max(0,Math.min(r.layers.length-1,r.layers.indexOf(s.layer)+a[0]))],l=Math.max(0,e.findIndex(c=>Tn(t,
c))),u=e[Math.max(0,Math.min(e.length-1,l+a[1]))];n(a[1]&&u?{layer:i,...al(t,u)}:{layer:i})}function al(t,e){return t.headsBlock?
{heads:String(t.data.channels.get(e.key).index)}:{scope:e.key,...t.selection.run===t.selection.refRun?{ref:e.refKey??""}:
{}}}var il=["run"];function ih(t,e,n){let{data:o,selection:r,palette:s}=t;return e.flatMap((a,i)=>{if(!Tn(t,a))return[];
let[l,u]=n.place(o.layers.indexOf(r.layer),i);return[ht(l,u,n.cell[0]-1,n.cell[1]-1,s.mark),ht(l-1.5,u-1.5,n.cell[0]+2,n.
cell[1]+2,s.paper)]})}function lh(t,e,n,o){t.addEventListener("click",r=>{let s=r.target.closest("[data-layer]"),a=s&&e.
find(({key:i,refKey:l})=>i===s.dataset.channel&&(l??"")===s.dataset.ref);a&&n({layer:Number(s.dataset.layer),...al(o(),a)})}),
t.addEventListener("keydown",r=>ah(o(),e,n,r))}function ch(t,e){let{data:n,selection:o}=t,r=n.layers.indexOf(o.layer),s=e.
filter(a=>Tn(t,a)).map(({track:a,channel:i,words:l})=>`${l}: ${le(a.values[i][r])}`);return[t.headsBlock||Me(n,o.scope),
...s].join(", ")}function ll(t,e,n,o){let r=nh(t),s=oh(t,r,n,o),a=Le(Oe(t)),i=t.data.layers.flatMap((m,g)=>r.map((b,x)=>sh(
t,b,g,s.place(g,x),s.cell,a[b.group]))),[l,u]=[k("g"),k("g")],c=k("svg",{width:s.size[0],height:s.size[1],"aria-hidden":"\
true"},[l,...i,u]),f=p("div",{className:"rail",tabIndex:0},[c]);f.setAttribute("role","application");let h=t;return lh(f,
r,e,()=>h),{nodes:[f],update:m=>{h=m,f.setAttribute("aria-label",`Layers and steps, arrow keys choose. Now layer ${m.selection.
layer}, ${ch(m,r)}.`),l.replaceChildren(...rh(m,r,s)),u.replaceChildren(...ih(m,r,s))}}}function cl(t){return Oe(t).map(
e=>[e.note,ie(e)&&`Colours: ${ie(e)}.`].filter(Boolean).join(" ")).join(" ")}var uh=(t,e)=>{let n=yt(t,e);return it(t,e).map(o=>n[o])},zn=[{name:"overview",label:"Overview",there:ei,keys:()=>[],draw:hi,
fields:ni,controls:["run","refRun","hide","range","root","zoom"],withoutOwn:!0,words:ai,figure:mi,table:Xs},{name:"maps",
label:"Maps",there:_,keys:()=>[],draw:Mr,fields:()=>Pa,controls:[...Ht,"zoom","root"],words:Dt,figure:Ha,table:fn},{name:"\
heads",label:"Heads",there:xn,keys:uh,draw:za,fields:lr,controls:["run","layer"],words:Fa,figure:Wa,table:ja},{name:"all",
label:"All heads",there:xn,keys:yt,draw:Ua,fields:Va,controls:["run","cells","range","root"],words:Ya,figure:Ga,table:Xa},
{name:"scores",label:"Scores (q·k)",there:t=>kt(t,0)!==void 0,keys:()=>[],tables:Ar,draw:Ji,fields:Hi,controls:["run","\
layer"],words:tl,figure:Qi,table:el},{name:"numbers",label:"Numbers",there:Ri,keys:()=>[],draw:Wi,fields:()=>["run","to"],
controls:[],words:Fi,figure:ji,table:Ii},{name:"graph",label:"Graph",there:Ue,keys:()=>[],draw:cs,fields:ls,controls:[],
words:us,figure:fs,table:hs,find:ss,look:Zn},{name:"memories",label:"Memories",there:t=>En(t,0).length>0,keys:()=>[],draw:ki,
controls:[],words:$i}];function dt(t,e){return zn.find(({name:n,there:o})=>n===e.view&&o(t))||zn.find(({name:n,there:o})=>(n===
"maps"||!_(t))&&o(t))}var v={data:null,selection:null,scene:null,places:null,width:0,rail:0,lying:!1,pending:!1,figureOfMap:null,
paper:!1},fh=430,hh=4;function dh(){let{theme:t}=document.documentElement.dataset;return(t?t==="dark":window.matchMedia(
"(prefers-color-scheme: dark)").matches)&&!v.paper}function mh(t){w("certificate").textContent=As(t),w("drawn").textContent=
`Numbers on this page are rounded, by at most ${Y(t.precision,!0)} of themselves.`,w("provenance").textContent=Object.entries(
t.provenance).map(([e,n])=>`${e}: ${n}`).join(" · ")}function ph(t,e){if(!_(t)&&!Wt(t))return Ue(t)?ds(t):Xt(t,0).facts;
let n=t.queries.length<t.words.length?`, ${t.queries.length} of them as destinations`:"",o=(r,s)=>`${r} ${s}${r===1?"":"\
s"}`;return[t.model,...e?[]:[t.heading],...t.layered?[o(t.layers.length,"layer")]:[],`${o(t.words.length,t.named?"named \
position":"token")}${n}`].join(" · ")}function gh({data:t,selection:e}){let n=K(t,e),o=n?` ${T(n.value,!1)}${St(n)}`:"",
r=dt(t,e).name==="overview"&&!n,s=n?n.question:r?Ds({data:t,selection:e}):_(t)?st(an(t,e.run,300)):t.heading,a=n||!_(t)?
s+o:an(t,e.run,60);G(document.querySelector("title"),[a,t.model].filter(Boolean).join(" · ")),G(w("words-read").firstChild,
s),G(w("answer"),o),G(w("facts"),ph(t,n||r)),w("answer").className=n&&n.value<0?"loss":"gain"}async function wh(t,e){let n=dt(
t,e),o=(_(t)?[e.scope,...n.keys(t,e)]:[]).map(s=>[e.run,s]);e.ref&&o.push([e.refRun,e.ref]),_(t)&&o.push(...gt(t).map(s=>[
s,e.scope]));let r=n.tables?n.tables(t,e):[];await Promise.all([...o.map(([s,a])=>t.load(s,a)),...r.map(t.open)])}async function bh(t){
let{data:e,selection:n}=t,o=Oo(t).filter(r=>!e.loaded(n.run,r));for(let r of o)await e.load(n.run,r);return o.length>0}var xh=60,
yh=500;function kh(t){return(t.panel||t.ref==="")&&!at&&!v.paper?Math.max(yh,window.innerHeight)-xh:0}function fl(){let{
data:t,selection:e}=v,n=fo(t,e);n.palette=v.palette,n.paper=n.inLine=v.paper,n.ratio=n.paper?hh:Math.min(3,window.devicePixelRatio||
1),n.windowRoom=kh(e),n.marked=[];let{name:o}=dt(t,e);return n.headsBlock=xn(t)&&["heads","all","scores"].includes(o)?U(
t,e)[0]:"",n.hover=r=>{for(let s of n.marked)s(r)},n}function $h(){v.width=w("figure").clientWidth,v.rail=w("rail").clientWidth,
v.lying=window.innerWidth<1100}function vh(t){let{data:e,selection:n}=t,o=dt(e,n);for(let s of w("views").children)s.setAttribute(
"aria-selected",String(s.dataset.view===o.name));w("what").dataset.view=o.name,w("views").hidden=zn.filter(({there:s})=>s(
e)).length<2;let r=o.fields?o.fields(t):[];v.places.figure(t,o.name+Rt(t,r,v.width),()=>o.draw(t,v.go,v.width))}function Mh(){
return new Promise(t=>{requestAnimationFrame(()=>setTimeout(t)),setTimeout(t,100)})}function hl(t){v.scene=t,w("bench").
dataset.view=dt(t.data,t.selection).name,$h(),t.width=v.width,gh(t),oa(t,dt(t.data,t.selection)),w("reading").hidden=t.headsBlock!==
""||v.view().name==="memories"||v.view().name==="overview"&&Wt(t.data),_(t.data)&&rl(t,v.go,w("sentence"));let e=dt(t.data,
t.selection).words(t);G(w("meaning"),e.meaning),G(w("headline"),e.headline),vh(t),performance.mark("picture"),document.body.
dataset.state="picture"}function dl(t){Lh(t),document.body.dataset.state="drawn",Eh()}async function Ch(){let t=fl();hl(
t),await Mh(),v.scene===t&&dl(t)}function ul(t){v.paper=t,document.body.classList.toggle("paper",t),Rn();let e=fl();hl(e),
dl(e)}function Nh(){return!at||document.body.classList.contains("open")}function Sr(t){let e=w("card");if(dt(t.data,t.selection).
name==="graph"){is(t,v.go);return}let n=gi(t,v.go);if(!_(t.data)){e.replaceChildren(...n);return}if(Rs(t,v.go,e),dt(t.data,
t.selection).name==="memories"){e.replaceChildren();return}if(dt(t.data,t.selection).name!=="overview"){e.append(...n);return}
let o=n.length?[]:[p("p",{className:"said",textContent:Dt(t).headline})];e.prepend(...o,Oh(t,w("why").clientWidth),...n)}
function Oh(t,e){let{data:n,selection:o,maps:r}=t,s=r.length>1?"after":"only",a={...t,selection:{...o,panel:s},windowRoom:0,
beside:!0},{nodes:i,update:l}=Mr(a,v.go,Math.min(e,fh));l(a);let u=K(n,o),c=[[r.length>1?"before, after, change":"larger",
"the maps of this layer",{view:"maps"}]];jo(n,o)&&c.push([`in ${u.unit||"its units"}`,"what each contribution of the lay\
er carries to the target, destinations by sources",Gs(n,o)]);let f=c.map(([h,d,m])=>{let g=p("button",{type:"button",textContent:h,
title:d});return g.addEventListener("click",()=>v.go(m)),g});return p("section",{className:"card close-up"},[p("div",{className:"\
aside-head"},[p("h3",{textContent:n.layered?`Layer ${o.layer}`:"The map"}),p("span",{className:"group"},f)]),...i])}function Lh(t){
if(w("figure-tools").hidden||We(v),!_(t.data)){Sr(t);return}if(sl(t,w("sentence")),ol(t,w("sentence")),zs(t,w("circuitsv\
is-place")),!Nh())return;let{data:e,selection:n}=t,{places:o,go:r,rail:s,lying:a}=v,i=t.headsBlock||e.channels.get(n.scope).
blockName;o.rail(t,i+a+Rt(t,il,s),()=>ll(t,r,s,a)),G(w("where-title"),t.headsBlock||e.block(n.scope).axis==="head"?"Laye\
rs and heads":"Layers and steps"),G(w("where-way"),Ws(t)),G(w("where-note"),cl(t)),Sr(t),o.pairs(t,Rt(t,_i(t),0),()=>Pi(
t,r)),bh(t).then(l=>{l&&v.scene===t&&Sr(t)})}async function Nt(){if(document.body.dataset.state="waiting",v.pending)return;
v.pending=!0,await null,v.pending=!1;let{selection:t}=v;await wh(v.data,t),t===v.selection&&w("figure").clientWidth>0&&Ch()}
var Tr={fields:"",time:-1e9};v.go=t=>{let e=Cs(v.data,v.selection,t),n=Object.keys(t).join();if(v.selection=e,Nt(),ml(),
at)return;let o=n===Tr.fields&&performance.now()-Tr.time<700;Tr={fields:n,time:performance.now()};let r=en(v.data,e)||"#";
r!==(location.hash||"#")&&history[o?"replaceState":"pushState"](null,"",r)};v.address=()=>at?en(v.data,v.selection):location.
href.split("#")[0]+en(v.data,v.selection);v.resized=Nt;v.view=()=>dt(v.data,v.scene.selection);function Eh(){at&&window.
parent.postMessage({tlFfblock:"height",height:Math.ceil(document.body.scrollHeight)+2},"*")}function ml(){if(!at)return;
let{run:t,scope:e,layer:n,refRun:o,ref:r,to:s,from:a}=v.selection;window.parent.postMessage({tlFfblock:"selection",selection:{
run:v.data.runs[t].name,scope:e,layer:n,against_run:v.data.runs[o].name,against:r||null,query:s,key:a}},"*")}function Rn(){
v.palette=De(dh()?"dark":"light")}function Ah(){w("views").replaceChildren(...zn.filter(({there:n})=>n(v.data)).map(({name:n,
label:o})=>{let r=p("button",{type:"button",textContent:o});return r.setAttribute("role","tab"),r.dataset.view=n,r.addEventListener(
"click",()=>v.go({view:n})),r})),w("more").addEventListener("click",()=>{let n=document.body.classList.toggle("open");w(
"more").setAttribute("aria-expanded",String(n)),Nt()});let t=()=>{v.selection=so(v.data,location.hash),Nt()};for(let n of[
"popstate","hashchange","pageshow"])window.addEventListener(n,at?Nt:t);let e=window.innerWidth;new ResizeObserver(()=>{w(
"figure").clientWidth===v.width&&window.innerWidth===e||(e=window.innerWidth,Nt())}).observe(w("figure")),Rn(),window.matchMedia(
"(prefers-color-scheme: dark)").addEventListener("change",()=>{Rn(),Nt()}),window.addEventListener("message",({source:n,
data:o})=>{!at||n!==window.parent||!o||o.tlFfblock!=="theme"||(document.documentElement.dataset.theme=o.dark?"dark":"lig\
ht",Rn(),Nt())}),window.addEventListener("beforeprint",()=>ul(!0)),window.addEventListener("afterprint",()=>ul(!1))}function Sh(){
v.data=ms(JSON.parse(w("data").textContent)),v.selection=so(v.data,at?"":location.hash),v.places={figure:gn(w("figure")),
rail:gn(w("rail")),pairs:gn(w("pair-list"))},document.body.classList.toggle("framed",at),document.body.classList.toggle(
"unlayered",!v.data.layered),document.body.classList.toggle("mapless",!_(v.data)),w("search").parentElement.hidden=v.data.
queries.length===0&&!Ue(v.data),mh(v.data),Js(v.data),ra(),Ah(),na(v),La(v),sa(v),ml(),Nt()}Sh();})();
