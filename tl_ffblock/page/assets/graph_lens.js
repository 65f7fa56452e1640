/* View: a layered graph. Target, edges shown, colours and the chosen node are fields of the selection. */

import { nodeCard } from "./graph_card.js";
import { LEGIBLE, MARGIN, keptInside, largestSizes, placesOf, ranked, scaleAt, shareLimit, shownAt, sizeIn } from "./graph_layout.js";
import { REMOVAL_ENDS, scaleOf } from "./colours.js";
import { cardOf, entropyInk, graphBody, graphView, light, namesView, paperStrips, shareInk, topOf } from "./graph_view.js";
import { HIDDEN_EDGES, plainNumber, shareWord, shownText, targetText } from "./graph_words.js";
import { largest } from "./shares.js";
import { FRAMED_PAGE } from "./place.js";
import { FONT, byId, element, rectangle, svg } from "./svg.js";

/** @returns {import("./data").GraphBlock | undefined} */
export function graphBlock(data, run) {
  return Object.values(data.runs[run].blocks).find(({ kind }) => kind === "graph");
}

export function hasGraph(data) {
  return graphBlock(data, 0) !== undefined;
}

/* Heights of the picture's frame: at least, in a notebook, and what is above it in the window; zoom of a step; pixels of a drag; unevenness up to which words are written. */
const FRAME = { least: 360, framed: 520, around: 260, step: 0.2, moved: 4, even: 1.35, closest: 2 };

/** Pixels that the picture may be high. */
function roomOf(scene) {
  return (scene.beside ? FRAME.least : FRAMED_PAGE ? FRAME.framed : Math.max(FRAME.least, window.innerHeight - FRAME.around)) - MARGIN.top;
}

/** What is drawn of it: the edges that the slider shows, places, ends of scales. */
function graphScene(scene) {
  const { selection, palette } = scene;
  const data = graphBlock(scene.data, selection.run);
  const target = Math.min(selection.target, Math.max(0, data.targets.length - 1));
  const order = ranked(data, target);
  const amount = Math.min(order.length, selection.amount < 0 ? data.shown : selection.amount);
  const shown = shownAt(data, target, order, amount);
  const { tokens } = scene.data.runs[selection.run];
  return { data, target, order, amount, shown, palette, inks: selection.inks, tokens: data.lanes > tokens.length ? tokens : [], layout: placesOf(data, shown, scene.paper ? cardOf(data) : sizeIn(data, shown, cardOf(data), roomOf(scene))), limit: shareLimit(data, target), largest: largestSizes(data), flattest: largest(data.nodes.map(({ entropy }) => entropy ?? 0)) };
}

/** The change of the selection that chooses a node: as many edges are shown as it takes to see it. */
function nodeChange({ data, shown, order }, index) {
  if (index < 0 || shown.nodes.has(index)) return { node: index };
  const first = order.findIndex(({ index: edge }) => data.edges[edge].source === index || data.edges[edge].target === index);
  return first < 0 ? { node: index } : { node: index, amount: first + 1 };
}

/** Numbers of the nodes whose words hold what is searched for. */
function foundNodes({ nodes }, written) {
  const wanted = written.trim().toLowerCase();
  const holds = (node) => wanted && [node.label, node.name, node.short, ...node.says].some((words) => words.toLowerCase().includes(wanted));
  return nodes.flatMap((node, index) => (holds(node) ? [index] : []));
}

/** The change that the search makes: the next node that holds the letters. */
export function graphFind(scene, written) {
  const drawn = graphScene(scene);
  const found = foundNodes(drawn.data, written);
  return found.length ? nodeChange(drawn, found.find((index) => index > scene.selection.node) ?? found[0]) : null;
}

/** Marks what is found in the picture; in words, how much that is. */
export function graphLook(scene, written) {
  const { data, shown } = graphScene(scene);
  const found = new Set(foundNodes(data, written));
  for (const group of /** @type {NodeListOf<SVGElement>} */ (document.querySelectorAll("[data-node]"))) group.classList.toggle("found", found.has(Number(group.dataset.node)));
  const hits = [...found].filter((index) => shown.nodes.has(index)).length;
  return written.trim() ? `${hits} shown${found.size > hits ? `, ${found.size - hits} hidden` : ""}` : "";
}

/** The nearest shown node in the direction of an arrow key. */
function neighbourOf({ layout: { places }, shown }, chosen, key) {
  const from = places.get(chosen);
  if (!from) return Math.min(...shown.nodes);
  const along = { ArrowRight: (dx, dy) => [dx, dy], ArrowLeft: (dx, dy) => [-dx, dy], ArrowDown: (dx, dy) => [dy, dx], ArrowUp: (dx, dy) => [-dy, dx] }[key];
  let best = { index: chosen, distance: Infinity };
  for (const [index, place] of places) {
    const [forward, aside] = along(place.x - from.x, place.y - from.y);
    const distance = forward + 2 * Math.abs(aside);
    if (forward > 1 && distance < best.distance) best = { index, distance };
  }
  return best.index;
}

function graphLegend(drawn) {
  const { data, limit, target } = drawn;
  const inks = (sign) => [1, 0.75, 0.5, 0.25, 0.1, 1e-6].map((part) => shareInk(drawn, sign * part * limit));
  const swatch = element("span", { className: "ramp" });
  swatch.style.background = `linear-gradient(to right, ${[...(data.signed === false ? [] : inks(-1)), ...inks(1).reverse()].join(", ")})`;
  const clarity = element("span", { className: "ramp" });
  clarity.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map((part) => entropyInk(drawn, part * drawn.flattest)).join(", ")})`;
  const beyond = data.nodes.some(({ shares }) => Math.abs(shares[target] ?? 0) > limit * 1.0001);
  const [low, high] = scaleOf(data) === "removal" ? REMOVAL_ENDS : [shareWord(data), ""];
  const least = data.signed === false ? `${low} 0` : `${low} ${beyond ? "≤ " : ""}−${plainNumber(limit)}`;
  const share = data.targets.length ? [element("span", {}, [least, swatch, `${beyond ? "≥ " : ""}+${plainNumber(limit)} ${high}`.trim()])] : [];
  const others = data.edges.some((edge) => !(edge.unit in data.widths)) ? [element("span", { textContent: "dashed: a number, not a width" })] : [];
  const inked = drawn.inks === "entropy" ? [element("span", {}, ["entropy of a node's tokens; an edge has that of its source: 0", clarity, `${plainNumber(drawn.flattest)} nats`])] : share;
  return [...inked, element("span", { textContent: `width: ${Object.values(data.widths).join("; ")}` }), ...others];
}

/** The text, with the token whose stream the graph is of. */
function graphText({ data: page, selection }, { position }) {
  const tokens = page.runs[selection.run].tokens;
  return element("p", { className: "graph-text" }, tokens.flatMap((token, at) => [element(at === position ? "b" : "bdi", { textContent: token }), " "]));
}

/** Target, colours and the slider; `tell` sets them from what is drawn. */
function graphControls({ data }, go) {
  const choice = (label, options, field, read) => {
    const select = element("select", { autocomplete: "off" }, options.map(([value, words]) => element("option", { value: String(value), textContent: words })));
    select.addEventListener("change", () => go({ [field]: read(select.value) }));
    return { select, label: element("label", { className: "group", hidden: options.length < 1 }, [`${label} `, select]) };
  };
  const target = choice("target", data.targets.map((each, index) => [index, targetText(each)]), "target", Number);
  const colours = [
    ["share", data.targets.length ? `${shareWord(data)} of the target` : "nothing"], ...(data.targets.some(({ token }) => token) ? [["rank", "rank of the target's token (nodes)"]] : []),
    ...(data.nodes.some(({ entropy }) => entropy !== null) ? [["entropy", "entropy of the tokens"]] : []),
  ];
  const inks = choice("coloured by", colours.length > 1 ? colours : [], "inks", String);
  const slider = element("input", { type: "range", min: "0", step: "1", autocomplete: "off", className: "amount" });
  slider.addEventListener("input", () => go({ amount: Number(slider.value) }));
  const said = element("span", { className: "note shown" });
  said.setAttribute("role", "status");
  target.select.classList.add("target");
  const host = element("div", { className: "graph-controls" }, [target.label, inks.label, element("label", { className: "group" }, ["shown ", slider]), said]);
  const tell = (drawn) => {
    target.select.value = String(drawn.target);
    inks.select.value = drawn.inks;
    slider.max = String(drawn.order.length);
    slider.value = String(drawn.amount);
    said.textContent = shownText(drawn.data, drawn.shown, drawn.order, drawn.amount);
    said.title = HIDDEN_EDGES;
  };
  return { host, tell };
}

/** Writes where the picture lies: one transform moves all of it; words are shown where they can be read. */
function lay(now, view) {
  const { layout } = now.drawn;
  now.view = keptInside(layout, now.frame, view);
  const { across, down, left, top } = now.view;
  now.body.setAttribute("transform", `matrix(${across} 0 0 ${down} ${MARGIN.left + left} ${topOf(now.drawn) + top})`);
  now.body.style.setProperty("--part", String(Math.max(0.3, Math.min(1.2, Math.sqrt(across * down)))));
  now.picture.classList.toggle("far", Math.min(across, down) < LEGIBLE || Math.max(across / down, down / across) > FRAME.even);
  const names = namesView(now.drawn, now.view, now.frame);
  now.names.replaceWith(names);
  now.names = names;
}

/** Zooms about a point of the frame, the middle unless said otherwise. */
function zoomTo(now, zoom, x = now.frame.width / 2, y = now.frame.height / 2) {
  now.zoom = Math.max(0, Math.min(FRAME.closest, zoom));
  const { across, down } = scaleAt(now.drawn.layout, now.frame, now.zoom);
  const { view } = now;
  lay(now, { across, down, left: x - ((x - view.left) / view.across) * across, top: y - ((y - view.top) / view.down) * down });
}

/** Moves a node into the frame. */
function bringIntoSight(now, index) {
  const { places, size } = now.drawn.layout;
  if (!places.has(index)) return;
  const { across, down, left, top } = now.view;
  const [x, y] = [places.get(index).x * across + left, places.get(index).y * down + top];
  const inside = x >= 0 && x + size.width * across <= now.frame.width && y >= 0 && y + size.height * down <= now.frame.height;
  if (!inside) lay(now, { across, down, left: left + now.frame.width / 2 - x, top: top + now.frame.height / 2 - y });
}

/** Wheel, drag, double click and keys move and scale the picture. */
function connectView(host, now) {
  const at = (event) => { const box = host.getBoundingClientRect(); return [event.clientX - box.left - MARGIN.left, event.clientY - box.top - topOf(now.drawn)]; };
  host.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomTo(now, now.zoom - Math.sign(event.deltaY) * Math.min(1, Math.abs(event.deltaY) / 100) * FRAME.step, ...at(event));
  }, { passive: false });
  host.addEventListener("dblclick", (event) => zoomTo(now, now.zoom < 1 ? 1 : 0, ...at(event)));
  let from = null;
  host.addEventListener("pointerdown", (event) => { from = { x: event.clientX, y: event.clientY, view: now.view }; now.dragged = false; });
  host.addEventListener("pointermove", (event) => {
    if (!from || !event.buttons) return;
    const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
    if (!now.dragged && Math.hypot(dx, dy) < FRAME.moved) return;
    if (!now.dragged) host.setPointerCapture(event.pointerId);
    now.dragged = true;
    lay(now, { ...from.view, left: from.view.left + dx, top: from.view.top + dy });
  });
  for (const name of ["pointerup", "pointercancel"]) host.addEventListener(name, () => { from = null; });
}

/** Buttons that zoom, and show the whole graph. */
function zoomButtons(now) {
  const button = (words, title, act) => { const made = element("button", { type: "button", textContent: words, title }); made.addEventListener("click", act); return made; };
  return element("span", { className: "group zooms" }, [
    button("+", "zoom in", () => zoomTo(now, now.zoom + FRAME.step)), button("−", "zoom out", () => zoomTo(now, now.zoom - FRAME.step)), button("fit", "shows the whole graph", () => zoomTo(now, 0)),
  ]);
}

/** The card of a node; of none where it is -1. */
function showCard(drawn, index, go) {
  byId("card").replaceChildren(element("section", { className: "card node-card" }, nodeCard(drawn, index < 0 ? null : index, (next) => go(nodeChange(drawn, next)))));
}

export function graphCard(scene, go) {
  showCard(graphScene(scene), scene.selection.node, go);
}

function connectGraph(host, now, go) {
  const nodeOf = (event) => { const group = event.target.closest("[data-node]"); return group ? Number(group.dataset.node) : -1; };
  host.addEventListener("click", (event) => { if (!now.dragged) go(nodeChange(now.drawn, nodeOf(event))); });
  host.addEventListener("pointerover", (event) => {
    if (now.scene.selection.node >= 0) return;
    const index = nodeOf(event);
    light(now.picture, now.drawn.data, index < 0 ? null : index);
    if (!now.scene.beside) showCard(now.drawn, index, go);
  });
  host.addEventListener("keydown", (event) => {
    const zooms = { "+": FRAME.step, "=": FRAME.step, "-": -FRAME.step, 0: -FRAME.closest };
    if (event.key === "Escape") go({ node: -1 });
    else if (event.key in zooms) zoomTo(now, now.zoom + zooms[event.key]);
    else if (event.key.startsWith("Arrow") && !event.altKey) go({ node: neighbourOf(now.drawn, now.scene.selection.node, event.key) });
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  connectView(host, now);
}

/** What its drawing is made from; target, slider, colours and node are marks, so that the place stays scrolled where it is. */
export function graphFields() {
  return ["run"];
}

function drawnDetails({ meaning, certificate }) {
  return element("details", { className: "note" }, [element("summary", { textContent: "What is drawn" }), element("p", { textContent: `${meaning} ${certificate}` })]);
}

/** Draws the graph anew: on paper in strips, else into a frame in which all of it is seen at first. */
function drawGraph(host, now, width) {
  const { drawn, scene } = now;
  const { layout, palette } = drawn;
  host.style.height = "";
  if (scene.paper) { now.picture = graphView(drawn); host.replaceChildren(...paperStrips(now.picture, layout)); return; }
  const frame = { width: width - 2 - MARGIN.left, height: Math.ceil(Math.min(roomOf(scene), layout.height)) };
  const high = frame.height + topOf(drawn);
  host.style.height = `${high + 2}px`;
  const same = now.body && now.frame && frame.width === now.frame.width && frame.height === now.frame.height;
  Object.assign(now, { frame, body: graphBody(drawn), names: svg("g") });
  now.picture = svg("svg", { width: width - 2, height: high, "font-family": FONT }, [rectangle(0, 0, width, high, palette.paper), now.body, now.names]);
  host.replaceChildren(now.picture);
  if (!same) now.zoom = 0;
  const { across, down } = scaleAt(layout, frame, now.zoom);
  lay(now, same && now.zoom ? { ...now.view, across, down } : { across, down, left: 0, top: 0 });
}

export function graphLens(scene, go, width) {
  const host = element("div", { className: "graph", tabIndex: 0 });
  const legend = element("div", { className: "note graph-legend" });
  host.setAttribute("role", "application");
  host.setAttribute("aria-label", "graph; arrow keys choose a node, Escape none, + and − zoom, 0 shows all of it; drag moves it");
  const now = { scene, drawn: graphScene(scene), picture: null, body: null, names: null, frame: null, view: null, zoom: 0, dragged: false, made: "" };
  const controls = graphControls(now.drawn, go);
  controls.host.append(zoomButtons(now));
  const update = (next) => {
    const { target, amount, inks, node } = next.selection;
    const made = JSON.stringify([target, amount, inks, next.palette.name, next.paper]);
    Object.assign(now, { scene: next, drawn: graphScene(next) });
    if (made !== now.made) {
      drawGraph(host, now, width);
      legend.replaceChildren(...graphLegend(now.drawn));
      controls.tell(now.drawn);
    }
    now.made = made;
    for (const group of now.picture.querySelectorAll("[data-node]")) group.classList.toggle("chosen", Number(group.dataset.node) === node);
    light(now.picture, now.drawn.data, now.drawn.shown.nodes.has(node) ? node : null);
    graphLook(next, byId("search").value);
    if (node >= 0 && !next.paper) bringIntoSight(now, node);
  };
  connectGraph(host, now, go);
  return { nodes: [...(scene.data.channels.size ? [] : [graphText(scene, now.drawn.data)]), controls.host, legend, host, drawnDetails(now.drawn.data)], update };
}

/** The layer that a node's column is headed with; -1 where it is headed with none. */
function layerOf({ columns, nodes }, index) {
  return Number((/^layer (\d+)\n/.exec(columns[nodes[index].column]) || [0, -1])[1]);
}

/** The layers of which a page's graph has nodes, as far as its columns say. */
export function insideLayers(data, run) {
  const graph = graphBlock(data, run);
  return [...new Set(graph.nodes.map((_, index) => layerOf(graph, index)))].filter((layer) => layer >= 0);
}

/** The graph beside the overview, and below it the card of the chosen node. */
export function graphInside(scene, go, width) {
  const { nodes, update } = graphLens(scene, go, width);
  const card = element("section", { className: "node-card" });
  const both = (next) => {
    const drawn = graphScene(next);
    const { node } = next.selection;
    card.hidden = node < 0;
    if (node >= 0) card.replaceChildren(...nodeCard(drawn, node, (other) => go(nodeChange(drawn, other))));
    update(next);
  };
  return { nodes: [...nodes, card], update: both };
}

export function graphWords(scene) {
  const { data, target, shown, order, amount } = graphScene(scene);
  const value = data.targets.length ? `; ${targetText(data.targets[target])}` : "";
  return {
    headline: `${data.heading}${value}`, meaning: `${data.meaning.split(". ")[0].replace(/\.$/, "")}.`, place: "", shown: "a graph of components", remark: [...data.meaning.split(". ").slice(1), shownText(data, shown, order, amount)].join(". "), further: HIDDEN_EDGES, note: data.certificate,
    exact: false, method: "", file: ["graph", data.heading.replace(/[^\w.-]+/g, "_").slice(0, 60)],
  };
}

/** The shown part of the graph for a file. */
export function graphFigure(scene, width) {
  const drawn = graphScene(scene);
  const picture = graphView(drawn);
  const [wide, high] = ["width", "height"].map((name) => Number(picture.getAttribute(name)));
  const part = Math.min(1, width / wide);
  return { groups: [{ x: 0, y: 0, pictures: [], nodes: [svg("g", { transform: `scale(${part})` }, [...picture.childNodes])] }], height: part * high };
}

/** Every edge of the graph, hidden ones too. */
export function graphTable(scene) {
  const data = graphBlock(scene.data, scene.selection.run);
  const lines = function* () {
    for (const { source, target, unit, size, shares } of data.edges) yield [data.nodes[source].name, data.nodes[target].name, unit, size, ...shares];
  };
  return { head: ["source", "target", "unit", "size", ...data.targets.map(({ name }) => `${shareWord(data)} of ${name}`)], lines, count: data.edges.length };
}

/** What the head of a page of a graph alone says. */
export function graphFacts(data) {
  const { nodes, edges, counts } = graphBlock(data, 0);
  const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  const sizes = counts || `${count(nodes.length, "node")} · ${count(edges.length, "edge")}`;
  return [data.model, sizes, ...(data.words.length ? [count(data.words.length, "token")] : [])].join(" · ");
}
