/* Tables of what is seen as CSV: `{ head, lines, count }`, lines by name and number, made when they are written. No DOM. */

import { namesOfMaps, sideName } from "./phrases.js";
import { labelsOf } from "./scene.js";

/** A field: quoted; what a spreadsheet would read as a formula begins with an apostrophe. */
function csvField(value) {
  const written = String(value);
  return `"${(/^[=+\-@\t\r]/.test(written) ? `'${written}` : written).replaceAll('"', '""')}"`;
}

function csvNumber(value) {
  return Number.isInteger(value) ? String(value) : Number.isFinite(value) ? String(Number(value.toPrecision(5))) : "";
}

const KEPT_FIELDS = 2 ** 16;

/** Writes fields; tokens, and packed numbers too, come often, so what was written is kept. */
function fieldWriter() {
  const kept = new Map();
  return (field) => {
    const known = kept.get(field);
    if (known !== undefined) return known;
    if (kept.size >= KEPT_FIELDS) kept.clear();
    const written = typeof field === "number" ? csvNumber(field) : csvField(field);
    kept.set(field, written);
    return written;
  };
}

/** A table as text. `lines()` goes through its lines; a field is a text, a number, or NaN for what is not there. */
export function csvText({ head, lines }) {
  const write = fieldWriter();
  const written = [head.map(csvField).join(",")];
  for (const line of lines()) written.push(line.map(write).join(","));
  written.push("");
  return written.join("\n");
}

export const CELL_HEAD = ["query", "query_token", "key", "key_token"];

/** The fields that name a cell. */
export function cellFields({ axes }, labels, row, column) {
  return [axes.rows[row].position, labels[axes.own[row]], axes.columns[column].position, labels[column]];
}

/** The cells that exist, as [row, column, index]. */
export function* reachedCells({ axes }) {
  for (let row = 0; row < axes.nRows; row++) {
    for (let column = 0; column < axes.nColumns; column++) {
      if (axes.reaches(row, column)) yield [row, column, row * axes.nColumns + column];
    }
  }
}

/** The maps that are shown: each cell's numbers and shares, then the columns of each row. */
function* mapsLines(scene) {
  const { axes, maps, selection, strips } = scene;
  const asShare = selection.cells !== "none";
  const labels = labelsOf(scene);
  for (const [row, column, index] of reachedCells(scene)) {
    const shares = asShare ? maps.map((map) => map.cells[index]) : [];
    yield [selection.layer, "token", ...cellFields(scene, labels, row, column), ...maps.map((map) => map.raw[index]), ...shares];
  }
  for (const name of strips.filter((label) => label !== "own")) {
    for (let row = 0; row < axes.nRows; row++) {
      const numbers = maps.map((map) => (map.columns[name] ? map.columns[name][row] : NaN));
      yield [selection.layer, name, axes.rows[row].position, labels[axes.own[row]], "", "", ...numbers, ...(asShare ? maps.map(() => NaN) : [])];
    }
  }
}

/** What stands over a column of shares: parts of 1, and of changes differences of such parts. */
function shareHead(name, map, how) {
  const what = { others: "share_of_others", row: "share_of_row", column: "share_of_column" }[how];
  if (map.role === "difference") return `difference_of_${what}`;
  return map.scale === "signed" ? `${name}_difference_of_${what}` : `${name}_${what}`;
}

export function mapsTable(scene) {
  const { data, axes, maps, selection } = scene;
  const names = namesOfMaps(scene, ({ run, key }) => sideName(data, run, key));
  const asShares = (name, side, how) => (how === "none" ? name : shareHead(name, maps[side], how));
  const raw = names.map((name, side) => asShares(name, side, data.block(maps[side].key).shares || "none"));
  const head = ["layer", "part", ...CELL_HEAD, ...raw, ...(selection.cells === "none" ? [] : names.map((name, side) => asShares(name, side, selection.cells)))];
  return { head, lines: () => mapsLines(scene), count: axes.nRows * axes.nColumns };
}
