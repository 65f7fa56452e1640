/*
 * The one selection that all views share, and its form in the address. No DOM.
 *
 * `run`, `scope`, `layer` say which map; `refRun`, `ref` what it is compared with ("" = nothing); `to`, `from` a cell by
 * positions; `read` whether the sentence shows the sources of `to` ("row") or the destinations of `from` ("column").
 */

import { MANY_TOKENS } from "./shares.js";
import { hasMaps } from "./tables.js";

const CELLS = ["others", "row", "column", "none"];
const RANGES = ["percentile", "off-diagonal", "all"];
const HIDDEN = ["", "special", "first", "special first"];
const PANELS = ["", "before", "after", "difference"];
const SORTS = ["change", "share", "distance"];
const LISTS = ["heads", "edges", "neurons", "tokens", "sources", "biases", "pairs"];
const LENSES = ["map", "heads", "neurons", "inside"];
const ORDERS = ["contributes", "removed", "place"];
const HEADS_FORM = /^[\d.]{0,400}$/;
const BETWEEN_FORM = /^\d-\d$/;
const ZOOM_FORM = /^\d{1,5}-\d{1,5},\d{1,5}-\d{1,5}$/;
const VIEW_NAMES = ["overview", "maps", "heads", "all", "scores", "memories", "numbers", "graph"];

function isPosition(data, value) {
  return Number.isInteger(value) && value >= 0 && value < data.words.length;
}

/** Whether "a-b" names two segments, of destinations and of sources, between which there can be lines.
 * @param {Data} data
 */
export function isBetween(data, value) {
  const [to, from] = value.split("-").map(Number);
  return BETWEEN_FORM.test(value) && Math.max(to, from) < data.segments.length && (!data.causal || from <= to);
}

/** Whether a value is a number of things that a graph may have, or what stands for none. */
function isNumberOr(none) {
  return (data, value) => Number.isInteger(value) && value >= none && value < 1e6;
}

/** For each field: whether a value can be taken. Whatever an address says, nothing else gets in. */
const FIELDS = {
  run: (data, value) => Number.isInteger(value) && value >= 0 && value < data.runs.length,
  scope: (data, value) => data.channels.has(value),
  layer: (data, value) => data.layers.includes(value),
  refRun: (data, value) => Number.isInteger(value) && value >= 0 && value < data.runs.length,
  ref: (data, value) => value === "" || data.channels.has(value),
  to: (data, value) => data.queries.includes(value),
  from: isPosition,
  read: (data, value) => value === "row" || value === "column",
  view: (data, value) => VIEW_NAMES.includes(value),
  heads: (data, value) => HEADS_FORM.test(value),
  between: (data, value) => value === "" || isBetween(data, value),
  block: (data, value) => value === "" || Object.hasOwn(data.runs[0].blocks, value),
  cells: (data, value) => CELLS.includes(value) && (value !== "column" || data.queries.length === data.words.length),
  range: (data, value) => RANGES.includes(value),
  root: (data, value) => value === 0 || value === 1,
  each: (data, value) => value === 0 || value === 1,
  words: (data, value) => value === 0 || value === 1,
  hide: (data, value) => HIDDEN.includes(value),
  panel: (data, value) => PANELS.includes(value),
  zoom: (data, value) => value === "" || ZOOM_FORM.test(value),
  sort: (data, value) => SORTS.includes(value),
  pairs: (data, value) => value === "all" || value === "token",
  mass: (data, value) => Number.isInteger(value) && value >= 1 && value <= 100,
  find: (data, value) => typeof value === "string" && value.length <= 60,
  neuron: isNumberOr(-1),
  list: (data, value) => LISTS.includes(value),
  lens: (data, value) => LENSES.includes(value),
  order: (data, value) => ORDERS.includes(value),
  node: isNumberOr(-1),
  amount: isNumberOr(-1),
  target: isNumberOr(0),
  inks: (data, value) => ["share", "rank", "entropy"].includes(value),
};

/** What a map is compared with unless asked otherwise: another run's same scope, else the scope before it.
 * @param {Data} data
 */
export function usualRef(data, scope, run, refRun) {
  return run !== refRun || !hasMaps(data) ? scope : data.channels.get(scope).before || "";
}

/** How many other sources a row has at most.
 * @param {Data} data
 */
function mostOthers(data) {
  return data.causal ? Math.max(...data.queries) : data.words.length - 1;
}

/** What cells are shown as when the page opens: as the block says, but for shares of others where no row has two.
 * @param {Data} data
 */
function openingCells(data, block) {
  if (!block || !allowsShares(block)) return "none";
  return block.cells === "others" && mostOthers(data) < 2 ? "row" : block.cells;
}

/* From so many tokens on the view of maps has one large map, of three the change first; before and after are a click away. */
const LARGE_TOKENS = 60;

/** @param {Data} data */
function openingPanel(data) {
  const { scope, run, refRun } = data.start;
  const compared = hasMaps(data) && usualRef(data, scope, run, refRun) !== "" && !data.block(scope).signed;
  return compared && data.words.length >= LARGE_TOKENS ? "difference" : "";
}

/** Where the page opens.
 * @param {Data} data
 */
export function openingSelection(data) {
  const { scope, layer, to, from, run, refRun, view, heads } = data.start;
  return {
    run, scope, layer, refRun, ref: usualRef(data, scope, run, refRun), to, from, read: "row", view, heads, between: "", block: "",
    cells: openingCells(data, hasMaps(data) && data.block(scope)),
    range: data.words.length >= MANY_TOKENS ? "percentile" : "off-diagonal",
    root: 0, each: 0, words: 0, hide: "", panel: openingPanel(data), zoom: "", sort: "change", pairs: "all", mass: 100, find: "", neuron: -1, list: view === "overview" && heads ? "edges" : "heads", order: "contributes", lens: "map",
    node: -1, amount: -1, target: 0, inks: "share",
  };
}

/** Whether the page may make shares of a block's cells: they have no signs, and all sources of a row are there. */
export function allowsShares(block) {
  return !block.signed && block.whole;
}

/** Whether shares can be made of the maps that are selected.
 * @param {Data} data
 */
export function makesShares(data, { scope, ref }) {
  return hasMaps(data) && allowsShares(data.block(scope)) && (ref === "" || allowsShares(data.block(ref)));
}

/** A selection with some fields changed; what hangs on them follows.
 * @param {Data} data
 * @param {Selection} selection
 */
export function changed(data, selection, change) {
  const next = { ...selection, ...change };
  const moved = ["scope", "run", "refRun"].some((field) => field in change && change[field] !== selection[field]);
  if (moved && !("ref" in change)) {
    const usual = selection.ref === usualRef(data, selection.scope, selection.run, selection.refRun);
    if (usual || selection.run === selection.refRun !== (next.run === next.refRun)) next.ref = usualRef(data, next.scope, next.run, next.refRun);
  }
  if (next.ref === next.scope && next.run === next.refRun) next.ref = "";
  if (!makesShares(data, next)) next.cells = "none";
  if ("words" in change || "hide" in change) next.zoom = "";
  return next;
}

/** The fields that differ from where the page opens, as an address's hash.
 * @param {Data} data
 * @param {Selection} selection
 */
export function hashOf(data, selection) {
  const opening = openingSelection(data);
  const parts = Object.keys(FIELDS).filter((field) => selection[field] !== opening[field])
    .map((field) => `${field}=${encodeURIComponent(selection[field])}`);
  return parts.length ? `#${parts.join("&")}` : "";
}

/** The inverse of `hashOf`; what cannot be is left as the page opens.
 * @param {Data} data
 */
export function selectionOf(data, hash) {
  const opening = openingSelection(data);
  const selection = { ...opening };
  for (const part of hash.replace(/^#/, "").split("&")) {
    const [field, written] = part.split("=");
    if (!Object.hasOwn(FIELDS, field) || written === undefined) continue;
    const value = typeof opening[field] === "number" ? Number(readable(written)) : readable(written);
    if (FIELDS[field](data, value)) selection[field] = value;
  }
  if (!makesShares(data, selection)) selection.cells = "none";
  return selection;
}

function readable(written) {
  try { return decodeURIComponent(written); } catch { return ""; }
}

/** The columns that the reader left out: special tokens, the first token.
 * @param {Data} data
 */
export function hiddenColumns(data, axes, hide) {
  const hidden = new Set();
  if (hide.includes("special")) for (const position of data.special) hidden.add(axes.columnOf[position]);
  if (hide.includes("first")) hidden.add(0);
  return hidden;
}

/** The part of the map that is drawn: [first row, last row, first column, last column]. */
export function windowOf(axes, zoom) {
  const whole = [0, axes.nRows - 1, 0, axes.nColumns - 1];
  const numbers = zoom.split(/[-,]/).map(Number);
  if (zoom === "" || numbers.length !== 4) return whole;
  const clamp = (value, most) => Math.max(0, Math.min(most, value));
  const [top, bottom, left, right] = numbers;
  const part = [clamp(top, whole[1]), clamp(bottom, whole[1]), clamp(left, whole[3]), clamp(right, whole[3])];
  return part[0] <= part[1] && part[2] <= part[3] ? part : whole;
}

/** @param {number[]} window */
export function zoomText([top, bottom, left, right]) {
  return `${top}-${bottom},${left}-${right}`;
}

/** A window around the selected cell, half as long as what is drawn now. */
export function closerAround(axes, selection) {
  const [top, bottom, left, right] = windowOf(axes, selection.zoom);
  const half = (first, last, middle, most) => {
    const length = Math.max(4, Math.ceil((last - first + 1) / 2));
    const start = Math.max(0, Math.min(middle - Math.floor(length / 2), most - length + 1));
    return [start, Math.min(most, start + length - 1)];
  };
  const row = Math.max(0, axes.rowOf(selection.to));
  return zoomText([...half(top, bottom, row, axes.nRows - 1), ...half(left, right, axes.columnOf[selection.from], axes.nColumns - 1)]);
}

/** The next position after `after` whose label holds `words`, or the position that is written; -1 where there is none. */
export function findPosition(labels, words, after) {
  const wanted = words.trim().toLowerCase();
  if (wanted === "") return -1;
  if (/^\d+$/.test(wanted) && Number(wanted) < labels.length) return Number(wanted);
  for (let step = 1; step <= labels.length; step++) {
    const position = (after + step) % labels.length;
    if (labels[position].toLowerCase().includes(wanted)) return position;
  }
  return -1;
}

/** @typedef {import("./tables.js").Data} Data */
/** @typedef {ReturnType<typeof openingSelection>} Selection */
