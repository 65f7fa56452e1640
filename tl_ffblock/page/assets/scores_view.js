/* View: why a head attends. One query beside every key: their vectors, the products dimension by dimension, their sum (the score), its softmax, and the norm of the value that it weighs. */

import { paint, placed } from "./cells.js";
import { option } from "./controls.js";
import { CELL_HEAD } from "./csv.js";
import { isLabelled, labelStep } from "./furniture.js";
import { LABEL } from "./layout.js";
import { frameAround } from "./marks.js";
import { formatChange, formatError, formatNumber, formatPercent } from "./numbers.js";
import { cannotSee, quotation } from "./phrases.js";
import { largest } from "./shares.js";
import { byId, element, fitText, rectangle, svg, text, textWidth } from "./svg.js";
import { channelKey, spread } from "./tables.js";
import { placeTip, tipLine, tokenAt } from "./tooltip.js";

const SCORES = { row: 18, smallest: 11, printed: 3, query: 14, label: 118, gap: 12, number: 64, weight: 120, percent: 46, head: 40, wide: 620 };
/* Names of the columns, each in words and shorter. */
const SCORES_HEADINGS = { vectors: ["query q, keys k", "q, k"], product: ["q × k × scale", "q × k"], score: ["sum: score", "score"], bar: ["softmax: weight", "weight"], value: ["value ‖v W_O‖", "‖v W_O‖"], weighted: ["weight × ‖v W_O‖", "weighted"] };

export function scoresOf(data, run) {
  return Object.values(data.runs[run].blocks).find((block) => block.kind === "scores");
}

/** The head that is shown, by its place in the block: that of the map that is selected, else the first of those with lines. */
function scoresHead(data, selection) {
  const { heads } = scoresOf(data, selection.run);
  const selected = heads.indexOf(data.channels.get(selection.scope).name);
  return selected >= 0 ? selected : Math.min(heads.length - 1, Number(selection.heads.split(".")[0] || 0));
}

/** The change that shows another head: of maps by head their map too. */
function scoresChange(data, selection, index) {
  const { blockName } = data.channels.get(selection.scope);
  const key = channelKey(data, blockName, scoresOf(data, selection.run).heads[index]);
  return data.channels.has(key) ? { scope: key } : { heads: String(index) };
}

/** The tables that have to be unpacked for a selection. */
export function scoresTables(data, selection) {
  const block = scoresOf(data, selection.run);
  const name = block.heads[scoresHead(data, selection)];
  return [block.query, block.key, block.score, block.weight, ...(block.value ? [block.value] : [])].map((tables) => tables[name]);
}

/** One row of a head: its query, every key, products, scores and weights; null where the layer is not held. */
function scoresRow(scene) {
  const { data, selection } = scene;
  const block = scoresOf(data, selection.run);
  const layer = block.layers.indexOf(selection.layer);
  if (layer < 0) return null;
  const [query, keys, scores, weights, values] = scoresTables(data, selection).map((table) => data.numbersAt(table, layer));
  const row = data.queries.indexOf(selection.to);
  const [n, size] = [data.words.length, query.length / data.queries.length];
  const mine = query.subarray(row * size, (row + 1) * size);
  const scale = block.scale[layer];
  const products = Float32Array.from(keys, (value, at) => scale * value * mine[at % size]);
  const along = (numbers) => spread(data, numbers).subarray(row * n, (row + 1) * n);
  const weighted = values && along(weights).map((weight, key) => weight * values[key]);
  return { block, scale, size, n, query: mine, keys, products, scores: along(scores), weights: along(weights), values, weighted, most: weighted ? largest(weighted) : 0 };
}

export function scoresFields() {
  return ["run", "scope", "layer", "heads", "to"];
}

/** Where columns and rows are in `width` pixels; those of values only where there is room. */
function scoresPlace({ room: high }, row, width) {
  const height = Math.max(high ? SCORES.printed : SCORES.smallest, Math.min(SCORES.row, high ? (high - SCORES.head - SCORES.query - 8) / (row.n + 2) : 1400 / row.n));
  const label = Math.min(SCORES.label, width / 5);
  const valued = row.values && width >= SCORES.wide ? 1 : 0;
  const room = width - label - (SCORES.number + SCORES.percent) * (1 + valued) - (3 + valued) * SCORES.gap - 8;
  const weight = Math.min(SCORES.weight, room / (4 + 2 * valued));
  const strip = Math.max(40, Math.min(420, (room - weight * (1 + valued)) / 2));
  const product = label + strip + SCORES.gap;
  const score = product + strip + SCORES.gap;
  const bar = score + SCORES.number + SCORES.gap;
  const value = bar + weight + SCORES.percent;
  return { height, label, strip, weight, product, score, bar, valued, value, weighted: value + SCORES.number + SCORES.gap, y: (key) => SCORES.head + Math.max(2 * height, SCORES.query) + key * height };
}

function scoresPicture(row, cells, first, last) {
  return { cells, nColumns: row.size, window: [first, last, 0, row.size - 1], scale: "signed", limit: largest(cells), root: 0 };
}

/** What is painted, and where: the query above; keys and products below it. */
function scoresPictures(row, place) {
  const stands = (cells, rows, x, y) => ({ picture: scoresPicture(row, cells, 0, rows - 1), x, y, width: place.strip, height: rows * place.height });
  return [
    stands(row.query, 1, place.label, SCORES.head), stands(row.keys, row.n, place.label, place.y(0)), stands(row.products, row.n, place.product, place.y(0)),
  ];
}

function scoresCanvases(scene, row, place) {
  return scoresPictures(row, place).map(({ picture, x, y, width, height }) => placed(paint(picture, scene.palette, width * scene.ratio, height * scene.ratio), x, y, width, height));
}

/** Headings and the query's name. */
function scoresHeads(scene, place) {
  const { data, selection, palette } = scene;
  const size = Math.min(12, Math.max(LABEL.smallest, place.height));
  const name = fitText(data.runs[selection.run].tokens[selection.to], size, place.label - 34);
  const style = { "font-size": size, fill: palette.ink, "text-anchor": "end", "font-weight": 700 };
  return [text(`${name} q`, place.label - 5, SCORES.head + place.height / 2 + size * 0.35, style), ...scoresHeadings(scene, place)];
}

/** What the columns are, in as many words as there is room for. */
function scoresHeadings({ palette }, place) {
  const columns = { vectors: [place.label, place.strip], product: [place.product, place.strip], score: [place.score, SCORES.number], bar: [place.bar, place.weight + SCORES.percent] };
  if (place.valued) Object.assign(columns, { value: [place.value, SCORES.number + SCORES.gap], weighted: [place.weighted, place.weight + SCORES.percent] });
  return Object.entries(columns).map(([name, [x, width]]) => {
    const [words, short] = SCORES_HEADINGS[name];
    return text(textWidth(words, 11) <= width ? words : short, x, SCORES.head - 8, { "font-size": 11, fill: palette.grey });
  });
}

/** A key's value: the bar of what reaches the query, the norm, and the number of the bar. */
function scoresValue({ palette }, row, place, key) {
  if (Number.isNaN(row.scores[key])) return [];
  const size = Math.min(12, Math.max(LABEL.smallest, place.height));
  const base = place.y(key) + place.height / 2 + size * 0.35;
  const width = (row.weighted[key] / (row.most || 1)) * place.weight;
  return [
    rectangle(place.weighted, place.y(key) + Math.min(2, place.height / 8), width, place.height - Math.min(4, place.height / 4), palette.contribution),
    text(formatNumber(row.values[key]), place.value + SCORES.number - 6, base, { "font-size": size, fill: palette.ink, "text-anchor": "end" }),
    text(formatNumber(row.weighted[key]), place.weighted + width + 4, base, { "font-size": Math.min(10, size), fill: palette.grey }),
  ];
}

function scoresLabels(scene, row, place) {
  const { palette, data, selection } = scene;
  const size = Math.min(12, Math.max(LABEL.smallest, place.height));
  const every = labelStep(place.height);
  const tokens = data.runs[selection.run].tokens;
  const style = { "font-size": size, fill: palette.ink };
  const base = (key) => place.y(key) + place.height / 2 + size * 0.35;
  return tokens.flatMap((token, key) => {
    const seen = !Number.isNaN(row.scores[key]);
    const bar = seen ? [rectangle(place.bar, place.y(key) + Math.min(2, place.height / 8), row.weights[key] * place.weight, place.height - Math.min(4, place.height / 4), palette.contribution)] : [];
    const valued = place.valued ? scoresValue(scene, row, place, key) : [];
    if (!isLabelled(key, every, selection.from)) return [...bar, ...valued.slice(0, 1)];
    return [
      ...bar, ...valued, text(fitText(token, size, place.label - 34), place.label - 30, base(key), { ...style, "text-anchor": "end", fill: seen ? palette.ink : palette.line }),
      text(key, place.label - 5, base(key), { "font-size": 9, "text-anchor": "end", fill: palette.grey }),
      ...(seen ? [
        text(formatChange(row.scores[key], false), place.score + SCORES.number - 6, base(key), { ...style, "text-anchor": "end" }),
        text(formatPercent(row.weights[key], 2), place.bar + Math.max(0.01, row.weights[key]) * place.weight + 4, base(key), { "font-size": Math.min(10, size), fill: palette.grey }),
      ] : []),
    ];
  });
}

/** What lies under the pointer: a key, and in the vectors a dimension of the head. */
function scoresTarget(row, place, event, host) {
  const box = host.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  if (event.target.closest(".heads")) return null;
  const key = Math.floor((y - place.y(0)) / place.height);
  if (key < 0 || key >= row.n) return null;
  const inside = [place.label, place.product].find((left) => x >= left && x < left + place.strip);
  return { key, dimension: inside === undefined ? null : Math.floor(((x - inside) / place.strip) * row.size) };
}

function scoresValued(row, key) {
  return `value ‖v W_O‖ ${formatNumber(row.values[key])}, weighted ${formatNumber(row.weighted[key])}`;
}

function scoresTip(scene, row, { key, dimension }) {
  const { data, selection } = scene;
  const tokens = data.runs[selection.run].tokens;
  const lines = [tipLine("to", tokenAt(scene, tokens[selection.to], selection.to)), tipLine("from", tokenAt(scene, tokens[key], key))];
  const at = key * row.size + dimension;
  if (dimension !== null) lines.push(element("div", { textContent: `dimension ${dimension}: ${formatNumber(row.query[dimension])} × ${formatNumber(row.keys[at])} × ${formatNumber(row.scale)} = ${formatChange(row.products[at], false)}` }));
  const seen = !Number.isNaN(row.scores[key]);
  lines.push(element("div", { textContent: seen ? `score ${formatChange(row.scores[key], false)}, weight ${formatPercent(row.weights[key])}` : "no weight: this key is masked" }));
  if (seen && row.values) lines.push(element("div", { textContent: scoresValued(row, key) }));
  return lines;
}

function connectScores(host, scene, row, place, go) {
  host.addEventListener("pointermove", (event) => {
    const target = scoresTarget(row, place, event, host);
    const tip = byId("tooltip");
    tip.hidden = !target;
    if (target) { tip.replaceChildren(...scoresTip(scene, row, target)); placeTip(tip, event.clientX, event.clientY); }
  });
  host.addEventListener("pointerleave", () => { byId("tooltip").hidden = true; });
  host.addEventListener("click", (event) => {
    const target = scoresTarget(row, place, event, host);
    if (target) go({ from: target.key });
  });
}

function scoresChoice(scene, go) {
  const { data, selection } = scene;
  const { heads } = scoresOf(data, selection.run);
  const select = element("select", { autocomplete: "off" }, heads.map((name, index) => option(index, name)));
  select.value = String(scoresHead(data, selection));
  select.setAttribute("aria-label", "head");
  select.addEventListener("change", () => go(scoresChange(data, selection, Number(select.value))));
  return element("div", { className: "toggles" }, [select]);
}

const SCORES_NOTE = "Orange: positive, violet: negative; each picture has its own scale.";

function scoresMark(scene, place, width) {
  return frameAround(1, place.y(scene.selection.from), width - 3, place.height, scene.palette.mark);
}

/** What the numbers are, and how exact. */
function scoresLaw(row) {
  return `A score is the sum of ${row.size} products of query and key, as attention multiplied them, times ${formatNumber(row.scale)}. ✓ The softmax of these scores is the model's own pattern, ${row.block.error ? `to ${formatError(row.block.error)}` : "digit for digit"}.${row.values ? " ‖v W_O‖ is the norm of a key's value after the head's output matrix; times the weight it is value-weighted attention." : ""}`;
}

/** Why there is nothing to draw: the layers that the page has scores of. */
function scoresLacking({ data, selection }) {
  return `This page has scores of layers ${scoresOf(data, selection.run).layers.join(", ")} only.`;
}

export function scoresView(scene, go, width) {
  const row = scoresRow(scene);
  const choice = scoresChoice(scene, go);
  if (!row) return [choice, element("p", { textContent: scoresLacking(scene) })];
  const place = scoresPlace(scene, row, width);
  const marks = svg("g");
  const drawing = svg("svg", { width, height: place.y(row.n) + 8 }, [...scoresLabels(scene, row, place), marks]);
  const [query, ...pictures] = scoresCanvases(scene, row, place);
  const heads = element("div", { className: "heads" }, [query, svg("svg", { width, height: place.y(0) }, scoresHeads(scene, place))]);
  drawing.style.marginTop = `${-place.y(0)}px`;
  const host = element("div", { className: "scores" }, [heads, ...pictures, drawing]);
  host.setAttribute("role", "img");
  host.setAttribute("aria-label", "Scores of the selected token's query with every key; the numbers are written next to them.");
  connectScores(host, scene, row, place, go);
  const update = (now) => marks.replaceChildren(scoresMark(now, place, width));
  return { nodes: [choice, host, element("p", { className: "note", textContent: `${SCORES_NOTE} ${scoresLaw(row)}` })], update };
}

/** The query beside its keys for a file; null where the layer has no scores. */
export function scoresFigure(scene, width) {
  const row = scoresRow(scene);
  if (!row) return null;
  const place = scoresPlace(scene, row, width);
  const nodes = [...scoresHeads(scene, place), ...scoresLabels(scene, row, place), scoresMark(scene, place, width)];
  return { groups: [{ x: 0, y: 0, pictures: scoresPictures(row, place), nodes }], height: place.y(row.n) + 8 };
}

export function scoresWords(scene) {
  const { data, selection } = scene;
  const row = scoresRow(scene);
  const name = scoresOf(data, selection.run).heads[scoresHead(data, selection)];
  const tokens = data.runs[selection.run].tokens;
  const [to, from] = [selection.to, selection.from].map((position) => `${quotation(tokens[position])} (position ${position})`);
  const seen = row && !Number.isNaN(row.scores[selection.from]);
  const said = seen ? `${to} attends to ${from}: score ${formatChange(row.scores[selection.from], false)}, weight ${formatPercent(row.weights[selection.from])}.` : row ? cannotSee(to, from) : scoresLacking(scene);
  return {
    headline: `Layer ${selection.layer}, ${name}: ${said}`, meaning: "One token's query with every key.", further: "The products of their dimensions sum to the score; the softmax of the scores is the attention weight.",
    place: `layer ${selection.layer}`, shown: `attention scores, ${name}, query of ${to}`, remark: "", exact: false, method: "", note: row ? `${SCORES_NOTE} ${scoresLaw(row)}` : "",
    file: [`layer${selection.layer}`, `scores-${name}`.replaceAll(" ", ""), `query${selection.to}`],
  };
}

/** One line a key: score, weight, and the product of every dimension. */
export function scoresTable(scene) {
  const { data, selection } = scene;
  const row = scoresRow(scene);
  if (!row) return null;
  const name = scoresOf(data, selection.run).heads[scoresHead(data, selection)];
  const tokens = data.runs[selection.run].tokens;
  const dimensions = Array.from({ length: row.size }, (_, dimension) => dimension);
  const lines = function* () {
    for (let key = 0; key < row.n; key++) {
      if (Number.isNaN(row.scores[key])) continue;
      yield [selection.layer, name, selection.to, tokens[selection.to], key, tokens[key], row.scores[key], row.weights[key], ...(row.values ? [row.values[key], row.weighted[key]] : []), ...dimensions.map((dimension) => row.products[key * row.size + dimension])];
    }
  };
  return { head: ["layer", "head", ...CELL_HEAD, "score", "weight", ...(row.values ? ["value norm", "value-weighted"] : []), ...dimensions.map((dimension) => `product ${dimension}`)], lines, count: row.n };
}
