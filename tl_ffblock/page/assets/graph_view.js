/* The picture of a graph: cards in rows, one for each layer and kind, edges as bands. */

import { SHADES, hexToRgb, rampName, readableOn, scaleOf } from "./colours.js";
import { CARD, MARGIN, widthOf } from "./graph_layout.js";
import { signedNumber } from "./graph_words.js";
import { FONT, SVG, fitText, rectangle, svg, text, textWidth, upright } from "./svg.js";

/* Letters of a card: its component's name, the word and share below it. */
const NAME = 11;
const SMALL = 9.5;

/** Cards as wide as the longest name, up to this. */
export function cardOf({ nodes }) {
  return { ...CARD, width: Math.ceil(Math.min(CARD.widest, Math.max(CARD.width, ...nodes.map(({ short }) => textWidth(short, NAME) + 6)))) };
}

/** The colour of a share: the ramp's ink of its sign, full at the limit; grey where nothing of the target flows. */
export function shareInk({ data, palette, limit }, share, least = 0) {
  if (!share) return palette.line;
  const step = Math.round(SHADES * Math.max(least, Math.sqrt(Math.min(1, Math.abs(share) / limit))));
  return palette.ramps[rampName(share, scaleOf(data))][step].hex;
}

/** Rank 1 is dark, ranks beyond a hundred thousand pale; even steps of the logarithm. */
function rankInk(palette, rank) {
  return rank ? palette.ramps.contribution[Math.round(SHADES * Math.max(0.04, 1 - Math.log10(rank) / 4.7))].hex : palette.paper;
}

/** Clear readings are dark, flat ones pale, in even steps up to the flattest of the page. */
export function entropyInk({ palette, flattest }, entropy) {
  return palette.ramps.contribution[Math.round(SHADES * Math.max(0.04, 1 - entropy / (flattest || 1)))].hex;
}

/** An edge has the entropy of the node that it leaves, unless it is a number. */
export function edgeInk(scene, edge) {
  const { data, palette, target } = scene;
  if (scene.inks !== "entropy") return data.targets.length ? shareInk(scene, edge.shares[target], 0.22) : palette.line;
  const { entropy } = data.nodes[edge.source];
  return entropy === null || !(edge.unit in data.widths) ? palette.line : entropyInk(scene, entropy);
}

export function nodeInk(scene, node) {
  if (scene.inks === "entropy") return node.entropy === null ? scene.palette.paper : entropyInk(scene, node.entropy);
  if (scene.inks === "rank" && scene.data.targets.length) return rankInk(scene.palette, node.ranks[scene.target]);
  return node.shares.length && node.shares[scene.target] ? shareInk(scene, node.shares[scene.target]) : scene.palette.paper;
}

function edgeView(scene, index) {
  const { data, layout } = scene;
  const edge = data.edges[index];
  const { size, places } = layout;
  const [from, to] = [places.get(edge.source), places.get(edge.target)];
  const [x1, y1, x2, y2] = [from.x + size.width / 2, from.y + size.height, to.x + size.width / 2, to.y];
  const bend = Math.max(size.apart / 2, (y2 - y1) / 2);
  const path = svg("path", { class: "graph-edge", d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`, fill: "none", stroke: edgeInk(scene, edge), "stroke-opacity": 0.8 });
  path.style.setProperty("--wide", `${widthOf(edge, scene.largest)}px`);
  if (!(edge.unit in data.widths)) path.setAttribute("stroke-dasharray", "4 3");
  path.dataset.edge = index;
  return edge.span ? [path, ...foldedView(scene, edge, (x1 + x2) / 2, (y1 + y2) / 2)] : [path];
}

/** Layers that an edge stands for: a double bar over it, and their numbers. */
function foldedView({ palette }, { span }, x, y) {
  const wide = textWidth(span, SMALL) + 6;
  return [
    svg("path", { class: "graph-fold", d: `M${x - 9} ${y - 2}h18M${x - 9} ${y + 2}h18`, stroke: palette.ink, fill: "none" }),
    svg("g", { class: "graph-words" }, [rectangle(x + 11, y - 7, wide, 14, palette.paper), text(span, x + 14, y + 4, { "font-size": SMALL, fill: palette.grey })]),
  ];
}

/** A stub for what enters a node and is not on the page. */
function restView(scene, index) {
  const node = scene.data.nodes[index];
  const { x, y } = scene.layout.places.get(index);
  if (!node.unseen) return [];
  const share = node.rest_shares[scene.target] || 0;
  const path = svg("path", { class: "graph-edge", d: `M${x - 7} ${y - 10}L${x + 4} ${y}`, stroke: scene.inks === "entropy" ? scene.palette.line : shareInk(scene, share, 0.22), "stroke-dasharray": "2 2" });
  path.style.setProperty("--wide", "2px");
  return [path];
}

function nodeView(scene, index) {
  const { data, layout, palette } = scene;
  const node = data.nodes[index];
  const { x, y } = layout.places.get(index);
  const { width, height } = layout.size;
  const fill = nodeInk(scene, node);
  const ink = readableOn(hexToRgb(fill));
  const share = data.targets.length && node.shares[scene.target] ? signedNumber(node.shares[scene.target]) : "";
  const word = node.label && fitText(node.label, SMALL, width - 6 - textWidth(` ${share}`, SMALL));
  const second = [word, share].filter(Boolean).join(" ");
  const name = `${node.label} ${node.name}`;
  const group = svg("g", { class: "graph-node", transform: `translate(${x} ${y})`, role: "img", "aria-label": name }, [
    svg("rect", { width, height, rx: 4, fill, stroke: palette.line }),
    text(fitText(node.short, NAME, width - 6), width / 2, second ? 12 : 18, { "font-size": NAME, "text-anchor": "middle", fill: ink, class: "graph-words" }),
  ]);
  if (second) group.append(text(second, width / 2, 24, { "font-size": SMALL, "text-anchor": "middle", fill: ink, class: "graph-words" }));
  group.dataset.node = index;
  return group;
}

/** Every how many of the places names have room, so many pixels apart. */
function stepOf(places, room) {
  const gaps = places.slice(1).map((place, index) => place - places[index]).filter((gap) => gap > 0);
  return Math.max(1, Math.ceil(room / Math.min(Infinity, ...gaps)));
}

/* Pixels apart that names of layers and of tokens are at least, and their letters. */
const AXES = { layers: 12, tokens: 13, letters: 10, air: 6 };

/** The margin above a picture: of graphs without tokens there are no names. */
export function topOf({ tokens }) {
  return tokens.length ? MARGIN.top : MARGIN.bare;
}

/** Names of layers at the left and of tokens above, for a picture that lies so in its frame; they stay in sight. */
export function namesView({ layout, palette, tokens }, { across, down, left, top }, frame) {
  const { rows, lanes, size } = layout;
  const high = topOf({ tokens });
  const grey = { "font-size": AXES.letters, fill: palette.grey };
  const heights = rows.map(({ y }) => high + top + (y + size.height / 2) * down);
  const every = stepOf(heights, AXES.layers);
  const layers = rows.flatMap(({ title }, at) => (at % every || heights[at] < high || heights[at] > high + frame.height ? [] : [text(fitText(title, AXES.letters, MARGIN.left - 2 * AXES.air), AXES.air, heights[at] + 4, grey)]));
  const middles = lanes.map(({ x, width }) => MARGIN.left + left + (x + width / 2) * across);
  const step = stepOf(middles, AXES.tokens);
  const words = lanes.flatMap(({ lane }, at) => (at % step || !tokens[lane] || middles[at] < MARGIN.left || middles[at] > MARGIN.left + frame.width ? [] : [upright(fitText(tokens[lane], AXES.letters, high - AXES.air), middles[at] + 4, high - AXES.air, { ...grey, fill: palette.ink })]));
  return svg("g", { class: "graph-names" }, [rectangle(0, 0, MARGIN.left - AXES.air, high + frame.height, palette.paper), rectangle(0, 0, MARGIN.left + frame.width, high - AXES.air / 2, palette.paper), ...layers, ...words]);
}

/** Edges and nodes in places of their own. */
export function graphBody(scene) {
  const { data, shown } = scene;
  const edges = [...shown.edges].sort((a, b) => Math.abs(data.edges[a].shares[scene.target] || 0) - Math.abs(data.edges[b].shares[scene.target] || 0));
  return svg("g", { class: "graph-body" }, [...[...shown.nodes].flatMap((index) => restView(scene, index)), ...edges.flatMap((index) => edgeView(scene, index)), ...[...shown.nodes].map((index) => nodeView(scene, index))]);
}

/** The whole picture in its own size, with the names of layers and tokens, for files and paper. */
export function graphView(scene) {
  const { layout, palette } = scene;
  const whole = { across: 1, down: 1, left: 0, top: 0 };
  const body = graphBody(scene);
  for (const path of body.querySelectorAll(".graph-edge")) path.setAttribute("stroke-width", path.style.getPropertyValue("--wide"));
  const [width, height, high] = [MARGIN.left + layout.width, topOf(scene) + layout.height, topOf(scene)];
  body.setAttribute("transform", `translate(${MARGIN.left} ${high})`);
  return svg("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FONT }, [rectangle(0, 0, width, height, palette.paper), namesView(scene, whole, layout), body]);
}

/* Pixels of a strip on paper, about as high as a sheet. */
const PAPER_STRIP = 1150;

/** The picture on paper: strips of as many layers as a sheet holds, below each other; each begins with the layer that the one before ended with. */
export function paperStrips(picture, { rows, size }) {
  const [width, height] = ["width", "height"].map((name) => Number(picture.getAttribute(name)));
  if (height <= PAPER_STRIP) return [picture];
  const high = height - rows[rows.length - 1].y - size.height - size.edge; // of names above
  const step = size.height + size.apart;
  const held = Math.max(2, Math.floor((PAPER_STRIP * Math.max(1, width / 900)) / step));
  const firsts = rows.map((_, number) => number).filter((number) => number % (held - 1) === 0 && number + 1 < rows.length);
  return firsts.map((first) => {
    const strip = picture.cloneNode(true);
    const top = first ? high + rows[first].y - size.edge : 0;
    const tall = high + rows[Math.min(rows.length - 1, first + held - 1)].y + size.height + size.edge - top;
    for (const [name, value] of Object.entries({ viewBox: `0 ${top} ${width} ${tall}`, width, height: tall })) strip.setAttribute(name, value);
    return strip;
  });
}

/** Marks a node with all that enters and leaves it; null lets go. */
export function light(picture, data, index) {
  picture.classList.toggle("lit", index !== null);
  const near = new Set([index]);
  for (const path of picture.querySelectorAll("[data-edge]")) {
    const edge = data.edges[path.dataset.edge];
    const touches = index !== null && (edge.source === index || edge.target === index);
    path.classList.toggle("lit", touches);
    if (touches) near.add(edge.source).add(edge.target);
  }
  for (const group of picture.querySelectorAll("[data-node]")) group.classList.toggle("lit", near.has(Number(group.dataset.node)));
}
