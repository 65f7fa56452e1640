/* The picture of a graph: cards in columns, edges as bands. */

import { SHADES, hexToRgb, rampName, readableOn, scaleOf } from "./colours.js";
import { CARD, widthOf } from "./graph_layout.js";
import { signedNumber } from "./graph_words.js";
import { FONT, SVG, fitText, rectangle, svg, text, textWidth } from "./svg.js";

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
  const [x1, y1, x2, y2] = [from.x + size.width, from.y + size.height / 2, to.x, to.y + size.height / 2];
  const bend = Math.max(size.apart / 2, (x2 - x1) / 2);
  const path = svg("path", { class: "graph-edge", d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, fill: "none", stroke: edgeInk(scene, edge), "stroke-width": widthOf(edge, scene.largest), "stroke-opacity": 0.8 });
  if (!(edge.unit in data.widths)) path.setAttribute("stroke-dasharray", "4 3");
  path.dataset.edge = index;
  return path;
}

/** A stub for what enters a node and is not on the page. */
function restView(scene, index) {
  const node = scene.data.nodes[index];
  const place = scene.layout.places.get(index);
  if (!node.unseen) return [];
  const share = node.rest_shares[scene.target] || 0;
  const y = place.y + scene.layout.size.height - 5;
  return [svg("path", { class: "graph-edge", d: `M${place.x - 14} ${y + 9}L${place.x} ${y}`, stroke: scene.inks === "entropy" ? scene.palette.line : shareInk(scene, share, 0.22), "stroke-width": 2, "stroke-dasharray": "2 2" })];
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
    text(fitText(node.short, NAME, width - 6), width / 2, second ? 12 : 18, { "font-size": NAME, "text-anchor": "middle", fill: ink }),
  ]);
  if (second) group.append(text(second, width / 2, 24, { "font-size": SMALL, "text-anchor": "middle", fill: ink }));
  group.dataset.node = index;
  return group;
}

/* Pixels that titles of columns are high. */
const HEADINGS = 29;

function columnTitle(scene, { title, x }) {
  const { width, apart } = scene.layout.size;
  return title.split("\n").map((line, row) => text(fitText(line, 10, width + apart - 4), x + width / 2, 12 + 12 * row, { "font-size": 10, "text-anchor": "middle", fill: scene.palette.grey }));
}

/** Titles of columns by themselves, which lie on those of the picture and stay in sight where that is scrolled. */
export function headingsView(scene) {
  const { layout, palette, part } = scene;
  const headings = svg("svg", { class: "headings", width: layout.width * part, height: HEADINGS * part, viewBox: `0 0 ${layout.width} ${HEADINGS}`, "font-family": FONT, "aria-hidden": "true" }, [
    rectangle(0, 0, layout.width, HEADINGS, palette.paper), ...layout.columns.flatMap((column) => columnTitle(scene, column)),
  ]);
  headings.style.marginBottom = `${-HEADINGS * part}px`;
  return headings;
}

/** The whole picture. */
export function graphView(scene) {
  const { data, layout, shown, palette, part } = scene;
  const edges = [...shown.edges].sort((a, b) => Math.abs(data.edges[a].shares[scene.target] || 0) - Math.abs(data.edges[b].shares[scene.target] || 0));
  return svg("svg", { xmlns: SVG, width: layout.width * part, height: layout.height * part, viewBox: `0 0 ${layout.width} ${layout.height}`, "font-family": FONT }, [
    rectangle(0, 0, layout.width, layout.height, palette.paper),
    ...layout.columns.flatMap((column) => columnTitle(scene, column)),
    ...[...shown.nodes].flatMap((index) => restView(scene, index)),
    ...edges.map((index) => edgeView(scene, index)),
    ...[...shown.nodes].map((index) => nodeView(scene, index)),
  ]);
}

/* Pixels of a strip on paper, which a sheet in portrait shrinks to three quarters. */
const PAPER_STRIP = 900;

/**
 * The picture on paper: strips of as many columns as a sheet holds, below each other. Each begins with the column that the
 * one before ended with, so that every edge between neighbours is whole in one of them, and ends below its lowest card.
 */
export function paperStrips(picture, { columns, places, width, size }) {
  if (width <= PAPER_STRIP) return [picture];
  const step = size.width + size.apart;
  const held = Math.floor((PAPER_STRIP - 2 * size.left + size.apart) / step);
  const firsts = columns.map((_, number) => number).filter((number) => number % (held - 1) === 0 && number + 1 < columns.length);
  return firsts.map((first) => {
    const strip = picture.cloneNode(true);
    const left = columns[first].x - size.left;
    const across = Math.min(held, columns.length - first) * step - size.apart + 2 * size.left;
    const lowest = Math.max(...[...places.values()].filter(({ x }) => x >= left && x < left + across).map(({ y }) => y));
    const height = lowest + size.height + size.lane;
    for (const [name, value] of Object.entries({ viewBox: `${left} 0 ${across} ${height}`, width: across, height })) strip.setAttribute(name, value);
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
