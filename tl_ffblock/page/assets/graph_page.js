/* A graph's page: one set of data, a target, an amount, a chosen node; the picture and the card drawn from them. */

const FRAMED = window.parent !== window;
const board = { data: null, target: 0, amount: 0, inks: "share", chosen: null, order: [], scene: null, picture: null, overview: null, paper: false };

function darkNow() {
  return window.matchMedia("(prefers-color-scheme: dark)").matches && !board.paper;
}

function sceneOfBoard(theme) {
  const { data, target, order, amount, inks } = board;
  const shown = shownAt(data, target, order, amount);
  return { data, target, inks, shown, layout: placesOf(data, shown), palette: paletteOf(theme), limit: shareLimit(data, target), largest: largestSizes(data) };
}

function drawPicture() {
  board.scene = sceneOfBoard(darkNow() ? "dark" : "light");
  board.picture = graphView(board.scene);
  byId("graph").replaceChildren(...(board.paper ? paperStrips(board.picture, board.scene.layout) : [headingsView(board.scene), board.picture]));
  byId("shown").textContent = shownText(board.data, board.scene.shown, board.order, board.amount);
  drawOverview();
  drawLegend();
  mark();
  document.body.dataset.state = "drawn";
}

/** Where the picture is wider than its place. */
function drawOverview() {
  const [host, place] = [byId("graph"), byId("graph-overview")];
  const { layout } = board.scene;
  board.overview = layout.width > host.clientWidth && host.clientWidth ? overviewOf(board.scene, host.clientWidth) : null;
  place.replaceChildren(...[board.overview].filter(Boolean));
  place.hidden = !board.overview;
  if (board.overview) frameSeen(board.overview, host, layout);
}

/** To the notebook, whenever the page has another height; a frame that is not laid out yet has none. */
function tellHeight() {
  const height = document.body.scrollHeight;
  if (height) window.parent.postMessage({ tlFfblock: "height", height: Math.ceil(height) + 2 }, "*");
}

function drawLegend() {
  const { palette, limit } = board.scene;
  const ends = (from, to) => { const swatch = element("span", { className: "swatch" }); swatch.style.background = `linear-gradient(to right, ${from.join(", ")})`; return swatch; };
  const inks = (sign) => [1, 0.75, 0.5, 0.25, 0.1, 1e-6].map((part) => shareInk(palette, sign * part * limit, limit));
  const beyond = board.data.nodes.some(({ shares }) => Math.abs(shares[board.target] ?? 0) > limit * 1.0001);
  const widths = Object.values(board.data.widths).join("; ");
  const share = board.data.targets.length ? [element("span", {}, [`share ${beyond ? "≤ " : ""}−${plainNumber(limit)}`, ends([...inks(-1), ...inks(1).reverse()]), `${beyond ? "≥ " : ""}+${plainNumber(limit)}`])] : [];
  const others = board.data.edges.some((edge) => !(edge.unit in board.data.widths)) ? [element("span", { textContent: "dashed: a number, not a width" })] : [];
  byId("legend").replaceChildren(...share, element("span", { textContent: `width: ${widths}` }), ...others);
}

/** Numbers of the nodes whose words hold what is searched for. */
function foundNodes() {
  const wanted = byId("search").value.trim().toLowerCase();
  const holds = (node) => wanted && [node.label, node.name, node.short, ...node.says].some((words) => words.toLowerCase().includes(wanted));
  return board.data.nodes.flatMap((node, index) => (holds(node) ? [index] : []));
}

/** Chooses the found node after the chosen one. */
function chooseNext() {
  const found = foundNodes();
  if (found.length) choose(found.find((index) => index > (board.chosen ?? -1)) ?? found[0]);
}

/** Draws the card and marks the chosen and found nodes. */
function mark() {
  const { picture, data, chosen } = board;
  const found = new Set(foundNodes());
  const hits = [...found].filter((index) => board.scene.shown.nodes.has(index)).length;
  for (const group of picture.querySelectorAll("[data-node]")) {
    group.classList.toggle("found", found.has(Number(group.dataset.node)));
    group.classList.toggle("chosen", Number(group.dataset.node) === chosen);
  }
  const hidden = found.size - hits;
  byId("search-note").textContent = byId("search").value.trim() ? `${hits} shown${hidden ? `, ${hidden} hidden` : ""}` : "";
  light(picture, data, chosen !== null && board.scene.shown.nodes.has(chosen) ? chosen : null);
  byId("node-card").replaceChildren(...nodeCard(board.scene, chosen, choose));
}

/** Chooses a node, shows as much as it takes to see it, and brings it into sight. */
function choose(index) {
  board.chosen = index;
  if (index !== null && !board.scene.shown.nodes.has(index)) {
    const first = board.order.findIndex(({ index: edge }) => board.data.edges[edge].source === index || board.data.edges[edge].target === index);
    if (first >= 0) setAmount(first + 1);
    drawPicture();
  } else mark();
  const place = index === null ? null : board.scene.layout.places.get(index);
  if (!place) return;
  const host = byId("graph");
  if (place.x < host.scrollLeft || place.x + CARD.width > host.scrollLeft + host.clientWidth) host.scrollLeft = place.x - host.clientWidth / 2;
  if (place.y < host.scrollTop || place.y + CARD.height > host.scrollTop + host.clientHeight) host.scrollTop = place.y - host.clientHeight / 2;
}

/** A node in the middle of what is seen, where it is on the page. */
function openAt(index) {
  const place = board.scene.layout.places.get(index);
  if (!place) return;
  const host = byId("graph");
  host.scrollLeft = place.x + (CARD.width - host.clientWidth) / 2;
  host.scrollTop = place.y + (CARD.height - host.clientHeight) / 2;
}

function setAmount(amount) {
  board.amount = Math.min(board.order.length, amount);
  byId("amount").value = String(board.amount);
}

/** The nearest shown node in a direction. */
function moveBy(key) {
  const { places } = board.scene.layout;
  const from = places.get(board.chosen);
  if (!from) return choose([...board.scene.shown.nodes].sort((a, b) => a - b)[0]);
  const along = { ArrowRight: (dx, dy) => [dx, dy], ArrowLeft: (dx, dy) => [-dx, dy], ArrowDown: (dx, dy) => [dy, dx], ArrowUp: (dx, dy) => [-dy, dx] }[key];
  let best = null;
  for (const [index, place] of places) {
    const [forward, aside] = along(place.x - from.x, place.y - from.y);
    if (forward <= 1) continue;
    const distance = forward + 2 * Math.abs(aside);
    if (!best || distance < best.distance) best = { index, distance };
  }
  if (best) choose(best.index);
}

function setTarget(target) {
  board.target = target;
  board.order = ranked(board.data, target);
  byId("amount").max = String(board.order.length);
  setAmount(board.amount);
}

function fileOf(kind) {
  return `${board.data.model}_${board.data.heading}`.replace(/[^\w.-]+/g, "_").slice(0, 80) + `.${kind}`;
}

function download(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function pictureText() {
  return new XMLSerializer().serializeToString(graphView(sceneOfBoard("light")));
}

function savePicture() {
  const image = new Image();
  image.onload = () => {
    const scale = Math.min(2, 16000 / Math.max(image.width, image.height));
    const canvas = element("canvas", { width: scale * image.width, height: scale * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => download(blob, fileOf("png")), "image/png");
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(pictureText());
}

function drawHead(data) {
  document.title = `${data.heading} · ${data.model}`;
  byId("heading").textContent = data.heading;
  const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  byId("facts").textContent = `${data.model} · ${count(data.nodes.length, "node")} · ${count(data.edges.length, "edge")} · ${count(data.tokens.length, "token")}`;
  byId("words-read").replaceChildren(...data.tokens.flatMap((token, position) => [element(position === data.position ? "b" : "bdi", { textContent: token }), " "]));
  byId("meaning").textContent = data.meaning;
  byId("certificate").textContent = data.certificate;
  byId("provenance").textContent = Object.entries(data.provenance).map(([name, value]) => `${name}: ${value}`).join(" · ");
  byId("target").replaceChildren(...data.targets.map((target, index) => element("option", { value: String(index), textContent: targetText(target) })));
  byId("target-group").hidden = !data.targets.length;
  byId("inks-group").hidden = !data.targets.some((target) => target.token);
}

function connect() {
  const { data } = board;
  byId("target").addEventListener("change", (event) => { setTarget(Number(event.target.value)); drawPicture(); });
  byId("inks").addEventListener("change", (event) => { board.inks = event.target.value; drawPicture(); });
  byId("amount").addEventListener("input", (event) => { board.amount = Number(event.target.value); drawPicture(); });
  byId("search").addEventListener("input", mark);
  byId("search").addEventListener("keydown", (event) => { if (event.key === "Enter") chooseNext(); });
  byId("save-svg").addEventListener("click", () => download(new Blob([pictureText()], { type: "image/svg+xml" }), fileOf("svg")));
  byId("save-png").addEventListener("click", savePicture);
  byId("save-json").addEventListener("click", () => download(new Blob([JSON.stringify(data)], { type: "application/json" }), fileOf("json")));
  const host = byId("graph");
  const nodeOf = (event) => { const group = event.target.closest("[data-node]"); return group ? Number(group.dataset.node) : null; };
  host.addEventListener("click", (event) => choose(nodeOf(event)));
  host.addEventListener("pointerover", (event) => { const index = nodeOf(event); if (board.chosen === null) { light(board.picture, data, index); byId("node-card").replaceChildren(...nodeCard(board.scene, index, choose)); } });
  host.addEventListener("keydown", (event) => {
    if (event.key === "Escape") choose(null);
    else if (event.key.startsWith("Arrow")) { event.preventDefault(); moveBy(event.key); }
  });
  host.addEventListener("scroll", () => { if (board.overview) frameSeen(board.overview, host, board.scene.layout); });
  window.addEventListener("resize", drawOverview);
  for (const name of ["pointerdown", "pointermove"]) byId("graph-overview").addEventListener(name, (event) => { if (event.buttons) goFrom(board.overview, host, board.scene.layout, event); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPicture);
  for (const name of ["beforeprint", "afterprint"]) window.addEventListener(name, () => { board.paper = name === "beforeprint"; drawPicture(); });
}

function startGraph() {
  board.data = JSON.parse(byId("data").textContent);
  document.body.classList.toggle("framed", FRAMED);
  drawHead(board.data);
  setTarget(0);
  setAmount(board.data.shown);
  connect();
  drawPicture();
  openAt(board.data.start);
  if (FRAMED) new ResizeObserver(tellHeight).observe(document.body);
}

startGraph();
