/* View: a layered graph. Target, edges shown, colours and the chosen node are fields of the selection. */

import { nodeCard } from "./graph_card.js";
import { fittedPlaces, largestSizes, ranked, shareLimit, shownAt } from "./graph_layout.js";
import { frameSeen, goFrom, overviewOf } from "./graph_overview.js";
import { REMOVAL_ENDS, scaleOf } from "./colours.js";
import { cardOf, entropyInk, graphView, headingsView, light, paperStrips, shareInk } from "./graph_view.js";
import { HIDDEN_EDGES, plainNumber, shareWord, shownText, targetText } from "./graph_words.js";
import { largest } from "./shares.js";
import { byId, element, svg } from "./svg.js";

/** @returns {import("./data").GraphBlock | undefined} */
export function graphBlock(data, run) {
  return Object.values(data.runs[run].blocks).find(({ kind }) => kind === "graph");
}

export function hasGraph(data) {
  return graphBlock(data, 0) !== undefined;
}

/* Pixels of the picture's place that a scrollbar and the frame may take. */
const SCROLLBAR = 18;

/** What is drawn of it: the edges that the slider shows, places, ends of scales. */
function graphScene(scene) {
  const { selection, palette } = scene;
  const data = graphBlock(scene.data, selection.run);
  const target = Math.min(selection.target, Math.max(0, data.targets.length - 1));
  const order = ranked(data, target);
  const amount = Math.min(order.length, selection.amount < 0 ? data.shown : selection.amount);
  const shown = shownAt(data, target, order, amount);
  const room = scene.paper || !scene.width ? Infinity : scene.width - SCROLLBAR;
  return { data, target, order, amount, shown, palette, inks: selection.inks, ...fittedPlaces(data, shown, cardOf(data), room), limit: shareLimit(data, target), largest: largestSizes(data), flattest: largest(data.nodes.map(({ entropy }) => entropy ?? 0)) };
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

/** Scrolls to a node; in the middle, where it is asked for. */
function bringIntoSight(host, { layout: { places, size }, part }, index, middle = false) {
  if (!places.has(index)) return;
  const [left, top, width, height] = [places.get(index).x, places.get(index).y, size.width, size.height].map((length) => length * part);
  if (middle || left < host.scrollLeft || left + width > host.scrollLeft + host.clientWidth) host.scrollLeft = left + width / 2 - host.clientWidth / 2;
  if (middle || top < host.scrollTop || top + height > host.scrollTop + host.clientHeight) host.scrollTop = top + height / 2 - host.clientHeight / 2;
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
  host.addEventListener("click", (event) => go(nodeChange(now.drawn, nodeOf(event))));
  host.addEventListener("pointerover", (event) => {
    if (now.scene.selection.node >= 0) return;
    const index = nodeOf(event);
    light(now.picture, now.drawn.data, index < 0 ? null : index);
    if (!now.scene.beside) showCard(now.drawn, index, go);
  });
  host.addEventListener("keydown", (event) => {
    if (event.key === "Escape") go({ node: -1 });
    else if (event.key.startsWith("Arrow") && !event.altKey) go({ node: neighbourOf(now.drawn, now.scene.selection.node, event.key) });
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  host.addEventListener("scroll", () => { if (now.small) frameSeen(now.small, host, now.drawn.layout); });
  for (const name of ["pointerdown", "pointermove"]) now.above.addEventListener(name, (event) => { if (event.buttons && now.small) goFrom(now.small, host, now.drawn.layout, event); });
}

/** What its drawing is made from; target, slider, colours and node are marks, so that the place stays scrolled where it is. */
export function graphFields() {
  return ["run"];
}

function drawnDetails({ meaning, certificate }) {
  return element("details", { className: "note" }, [element("summary", { textContent: "What is drawn" }), element("p", { textContent: `${meaning} ${certificate}` })]);
}

export function graphLens(scene, go, width) {
  const host = element("div", { className: "graph", tabIndex: 0 });
  const [legend, above] = [element("div", { className: "note graph-legend" }), element("div", { className: "graph-overview" })];
  host.setAttribute("role", "application");
  host.setAttribute("aria-label", "graph; arrow keys choose a node, Escape none");
  above.setAttribute("aria-hidden", "true");
  const now = { scene, drawn: graphScene(scene), picture: null, small: null, above, made: "", opened: false };
  const controls = graphControls(now.drawn, go);
  const draw = () => {
    const { drawn } = now;
    now.picture = graphView(drawn);
    host.replaceChildren(...(now.scene.paper ? paperStrips(now.picture, drawn.layout) : [headingsView(drawn), now.picture]));
    now.small = drawn.layout.width * drawn.part > width ? overviewOf(drawn, width) : null;
    above.replaceChildren(...[now.small].filter(Boolean));
    above.hidden = !now.small;
    legend.replaceChildren(...graphLegend(drawn));
    controls.tell(drawn);
  };
  const update = (next) => {
    const { target, amount, inks, node } = next.selection;
    const made = JSON.stringify([target, amount, inks, next.palette.name, next.paper]);
    Object.assign(now, { scene: next, drawn: graphScene(next) });
    if (made !== now.made) draw();
    now.made = made;
    for (const group of now.picture.querySelectorAll("[data-node]")) group.classList.toggle("chosen", Number(group.dataset.node) === node);
    light(now.picture, now.drawn.data, now.drawn.shown.nodes.has(node) ? node : null);
    graphLook(next, byId("search").value);
    requestAnimationFrame(() => {
      bringIntoSight(host, now.drawn, node >= 0 || now.opened ? node : startOf(now), !now.opened);
      now.opened = true;
      if (now.small) frameSeen(now.small, host, now.drawn.layout);
    });
  };
  connectGraph(host, now, go);
  return { nodes: [...(scene.data.channels.size ? [] : [graphText(scene, now.drawn.data)]), controls.host, legend, above, host, drawnDetails(now.drawn.data)], update };
}

/** The node that is in sight first: of the page as it says, of the close-up of a layer one of that layer. */
function startOf({ scene, drawn: { data, shown } }) {
  const here = scene.beside ? [...shown.nodes].find((index) => layerOf(data, index) === scene.selection.layer) : undefined;
  return here ?? data.start;
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
  const part = Math.min(1, width / drawn.layout.width);
  const nodes = [svg("g", { transform: `scale(${part})` }, [...graphView(drawn).childNodes])];
  return { groups: [{ x: 0, y: 0, pictures: [], nodes }], height: part * drawn.layout.height };
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
