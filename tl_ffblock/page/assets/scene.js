/* Data and selection -> the maps that are shown, with their shares, columns and scales. No DOM. */

import { allowsShares, changed, hiddenColumns, windowOf } from "./selection.js";
import { largest, limitOf, minus, ownShares, sharesOf } from "./shares.js";
import { hasMaps } from "./tables.js";
import { axesOf, jointLabels, mapOfWords, rowsOfWords } from "./text.js";

/** Whether cells are shares of all of a row's tokens, which are large where these are few; of named positions others are not on the page. */
export function isShareOfRow(data, shares) {
  return !data.named && (shares === "others" || shares === "row");
}

function mapOf(scene, run, key, role) {
  const { data, axes, selection, hidden } = scene;
  const pooled = (cells) => (selection.words ? mapOfWords(axes, cells, data.words.length) : cells);
  const rows = (numbers) => numbers && (selection.words ? rowsOfWords(axes, numbers) : numbers);
  const raw = pooled(data.matrix(run, key, selection.layer));
  const named = Object.keys(data.block(key).columns);
  const columns = Object.fromEntries(named.map((name) => [name, rows(data.column(run, key, name, selection.layer))]));
  if (selection.cells === "others") columns.own = ownShares(axes, raw, hidden);
  const cells = sharesOf(axes, raw, hidden, selection.cells);
  const shares = data.block(key).shares || selection.cells;
  return {
    role, key, run, raw, columns, cells, shares,
    asShare: shares !== "none",
    limit: limitOf(axes, cells, selection.range, isShareOfRow(data, shares)),
    top: largest(cells),
    scale: data.block(key).signed ? "signed" : "contribution",
    labels: axes.labels(data.runs[run].tokens),
  };
}

function differenceOf(scene, before, after) {
  const shared = Object.keys(after.columns).filter((name) => name in before.columns);
  const cells = minus(after.cells, before.cells);
  return {
    role: "difference", key: after.key, run: after.run, shares: after.shares, asShare: after.asShare,
    raw: minus(after.raw, before.raw),
    cells,
    limit: limitOf(scene.axes, cells, scene.selection.range, isShareOfRow(scene.data, after.shares)),
    top: largest(cells),
    columns: Object.fromEntries(shared.map((name) => [name, minus(after.columns[name], before.columns[name])])),
    scale: "signed",
    labels: jointLabels(before.labels, after.labels),
  };
}

/** The fields that maps hang on; another token or view leaves them as they are. */
export const MAP_FIELDS = ["run", "scope", "layer", "refRun", "ref", "cells", "range", "each", "words", "hide"];

/**
 * One map, or before, after and difference; a pair has one scale unless each is to have its own. Of norms, signed shares and shares
 * made before the page, which are not of one kind, there is no difference and no common scale.
 */
function mapsOf(scene) {
  const { selection } = scene;
  const after = mapOf(scene, selection.run, selection.scope, selection.ref ? "after" : "only");
  if (!selection.ref) return [after];
  const before = mapOf(scene, selection.refRun, selection.ref, "before");
  if (before.scale !== after.scale || before.shares !== after.shares) return [before, after];
  if (!selection.each) before.limit = after.limit = Math.max(before.limit, after.limit);
  return [before, after, differenceOf(scene, before, after)];
}

/** Columns of numbers beside the maps: those that are not zero in all of them; the own share first. */
function stripsOf(maps) {
  const names = ["own", ...Object.keys(maps[0].columns).filter((name) => name !== "own")];
  return names.filter((name) => maps.some((map) => map.columns[name] && largest(map.columns[name]) > 0));
}

/** Everything that is drawn of maps.
 * @param {import("./tables.js").Data} data
 * @param {import("./selection.js").Selection} selection
 */
export function sceneOf(data, selection) {
  const axes = data.latestAxes(selection.words, () => axesOf(data, selection.words === 1));
  const hidden = hiddenColumns(data, axes, selection.hide);
  /** @type {Record<string, any>} */
  const scene = { data, selection, axes, hidden, window: windowOf(axes, selection.zoom) };
  const key = JSON.stringify(MAP_FIELDS.map((field) => selection[field]));
  scene.maps = hasMaps(data) ? data.latestMaps(key, () => mapsOf(scene)) : [];
  scene.strips = hasMaps(data) ? stripsOf(scene.maps) : [];
  scene.row = Math.max(0, axes.rowOf(selection.to));
  scene.column = axes.columnOf[selection.from];
  return scene;
}

/** The same text's map at another layer or channel, alone and whole, with a scale of its own. */
export function aloneAt(scene, layer, key) {
  const { data, selection, axes } = scene;
  const cells = allowsShares(data.block(key)) ? selection.cells : "none";
  const alone = { ...scene, selection: { ...selection, layer, cells }, window: windowOf(axes, "") };
  return { ...alone, map: mapOf(alone, selection.run, key, "only") };
}

/** Whether two maps are shown that cannot be compared: norms and signed shares. */
export function isMixed({ maps }) {
  return maps.length === 2;
}

/** The map of the run and scope that are selected, not of what they are compared with. */
export function shownMap({ maps }) {
  return maps[maps.length > 1 ? 1 : 0];
}

/** What stands along the axes: tokens, and of two runs both where they differ. */
export function labelsOf({ maps, axes, data, selection }) {
  return maps.length ? maps[maps.length - 1].labels : axes.labels(data.runs[selection.run].tokens);
}

/** What tells a token from others that are written alike: its position, "@3", where the text has several. */
export function whichOf(scene, column) {
  const labels = labelsOf(scene);
  const alike = labels.indexOf(labels[column]) !== labels.lastIndexOf(labels[column]);
  return alike ? `@${scene.axes.columns[column].position}` : "";
}

/** What is drawn of the scene's maps: all, or the one that the reader enlarged. */
export function panelsOf(scene) {
  const single = scene.maps.filter((map) => map.role === scene.selection.panel);
  return single.length ? single : scene.maps;
}

/** The values along which the sentence is coloured: sources of a row, or destinations of a column. */
export function profileOf(scene, map) {
  const { axes, selection, row, column } = scene;
  const values = new Float32Array(axes.nColumns).fill(NaN);
  if (selection.read === "row") values.set(map.cells.subarray(row * axes.nColumns, (row + 1) * axes.nColumns));
  else axes.own.forEach((at, r) => { values[at] = map.cells[r * axes.nColumns + column]; });
  return values;
}

/** The column of the token whose sources or destinations are read. */
export function ownColumn(scene) {
  return scene.selection.read === "row" ? scene.axes.own[scene.row] : scene.column;
}

/** Where the sentence's scales end: at the largest value of another token, so that a token's own does not drown the rest. */
export function profileLimits(scene) {
  const own = ownColumn(scene);
  const pair = scene.maps.filter((map) => map.role !== "difference");
  const limits = pair.map((map) => largest(profileOf(scene, map).map((value, at) => (at === own ? NaN : value))));
  return isMixed(scene) ? limits : limits.map(() => Math.max(...limits));
}

/** The axes of one row alone, where the others do not matter. */
function rowAxes(axes, row) {
  return { ...axes, nRows: 1, rows: [axes.rows[row]], own: [axes.own[row]] };
}

/** What is read of a map at a layer: of sources the row alone, where the others do not matter. */
function readAt(scene, run, key, layer) {
  const { data, selection, axes } = scene;
  const whole = data.matrix(run, key, layer);
  const alone = selection.read === "row" && selection.cells !== "column";
  const start = scene.row * axes.nColumns;
  const reduced = alone ? { ...scene, axes: rowAxes(axes, scene.row), row: 0 } : scene;
  return { reduced, raw: selection.words ? mapOfWords(reduced.axes, whole, data.words.length) : alone ? whole.subarray(start, start + axes.nColumns) : whole };
}

/** Each layer's sources of `to` (or destinations of `from`) at one scope: rows are layers, columns tokens. */
export function biographyOf(scene, run, key) {
  const { data, selection, axes } = scene;
  const cells = new Float32Array(data.layers.length * axes.nColumns);
  data.layers.forEach((layer, index) => {
    const { reduced, raw } = readAt(scene, run, key, layer);
    const shown = sharesOf(reduced.axes, raw, scene.hidden, selection.cells);
    cells.set(profileOf(reduced, { cells: shown }), index * axes.nColumns);
  });
  return cells;
}

/** At each layer what the row keeps for itself, as a share of all that it takes. */
export function ownThrough(scene, run, key) {
  return Float32Array.from(scene.data.layers, (layer) => {
    const { reduced, raw } = readAt(scene, run, key, layer);
    return ownShares(reduced.axes, raw, scene.hidden)[reduced.row];
  });
}

/** Where the colours of such a picture end: as those of a map whose rows' own column is the token's. */
export function biographyLimit(scene, cells) {
  const { data, axes, selection } = scene;
  const own = data.layers.map(() => ownColumn(scene));
  return limitOf({ ...axes, nRows: own.length, own }, cells, selection.range);
}

/** Whether the selected cell is of another token and among those shown. */
function isShown({ axes, maps, row, column }) {
  return axes.own[row] !== column && !Number.isNaN(maps[maps.length - 1].cells[row * axes.nColumns + column]);
}

/** The position in the selected row whose cell changed most (of one map: is largest); the row's own where no other is shown. */
function largestOfRow({ axes, maps, row }) {
  const cells = maps[maps.length - 1].cells.subarray(row * axes.nColumns, (row + 1) * axes.nColumns);
  let largestColumn = axes.own[row];
  cells.forEach((value, column) => {
    const most = largestColumn === axes.own[row] ? 0 : Math.abs(cells[largestColumn]);
    if (column !== axes.own[row] && Math.abs(value) > most) largestColumn = column;
  });
  return axes.columns[largestColumn].position;
}

/**
 * The selection after a change. Another row, or hidden tokens, may take the selected cell out of sight: then its source is the one
 * that changed most for the row.
 */
export function selectionAfter(data, selection, change) {
  const next = changed(data, selection, change);
  const anotherRow = "to" in change && next.read === "row";
  if ("from" in change || !(anotherRow || "hide" in change) || !hasMaps(data)) return next;
  const sides = [[next.run, next.scope], ...(next.ref ? [[next.refRun, next.ref]] : [])];
  if (!sides.every(([run, key]) => data.loaded(run, key))) return next;
  const scene = /** @type {any} */ (sceneOf(data, next));
  return isShown(scene) ? next : { ...next, from: largestOfRow(scene) };
}
