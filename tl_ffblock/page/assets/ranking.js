/* Lists of pairs of tokens: sorted, cut by threshold, with ranks. No DOM. */

import { labelsOf, shownMap } from "./scene.js";
import { sortedAt } from "./shares.js";

/** For each cell whether it belongs to the largest that make up `mass` per cent of its row, before or after. */
function withinMass(scene, map, mass) {
  const { axes } = scene;
  const keep = new Uint8Array(map.cells.length);
  for (let row = 0; row < axes.nRows; row++) {
    const start = row * axes.nColumns;
    const places = Array.from({ length: axes.nColumns }, (_, c) => start + c).filter((at) => !Number.isNaN(map.cells[at]));
    places.sort((a, b) => Math.abs(map.cells[b]) - Math.abs(map.cells[a]));
    const total = places.reduce((sum, at) => sum + Math.abs(map.cells[at]), 0);
    let gathered = 0;
    for (const at of places) {
      if (gathered >= (mass / 100) * total) break;
      keep[at] = 1;
      gathered += Math.abs(map.cells[at]);
    }
  }
  return keep;
}

/** How many tokens (or words) apart the two of a cell are. */
export function pairDistance(axes, index) {
  return Math.abs(axes.own[Math.floor(index / axes.nColumns)] - (index % axes.nColumns));
}

function pairSize(scene, sort, index) {
  const { axes, maps } = scene;
  const last = maps[maps.length - 1];
  if (sort === "distance") return pairDistance(axes, index);
  return Math.abs((sort === "change" ? last : shownMap(scene)).cells[index]);
}

/** Whether a pair is wanted: of the selected token or of all, with the letters looked for in one of its labels. */
function wantedPairs(scene) {
  const { axes, selection, row, column } = scene;
  const needle = selection.find.trim().toLowerCase();
  const named = labelsOf(scene).map((label) => needle === "" || label.toLowerCase().includes(needle));
  return (r, c) => (selection.pairs === "all" || (selection.read === "row" ? r === row : c === column)) && (named[c] || named[axes.own[r]]);
}

/** The first `most` pairs in the order asked for, and how many there are in all. */
export function rankedPairs(scene, most) {
  const { axes, selection, maps } = scene;
  const masses = selection.mass < 100 ? maps.filter((map) => map.role !== "difference").map((map) => withinMass(scene, map, selection.mass)) : [];
  const wanted = wantedPairs(scene);
  const cells = maps[maps.length - 1].cells;
  const [places, sizes] = [[], []];
  for (let index = 0; index < cells.length; index++) {
    const [row, column] = [Math.floor(index / axes.nColumns), index % axes.nColumns];
    if (Number.isNaN(cells[index]) || axes.own[row] === column || !wanted(row, column)) continue;
    if (masses.length && !masses.some((keep) => keep[index])) continue;
    places.push(index);
    sizes.push(pairSize(scene, selection.sort, index));
  }
  const least = sortedAt(Float64Array.from(sizes), Math.max(0, sizes.length - most));
  const kept = places.map((index, at) => ({ index, size: sizes[at] })).filter(({ size }) => !(size < least));
  kept.sort((a, b) => b.size - a.size || a.index - b.index);
  const pairs = kept.slice(0, most).map(({ index }) => ({ row: Math.floor(index / axes.nColumns), column: index % axes.nColumns, index }));
  return { pairs, total: places.length };
}

/** The tokens of a profile by size, with the rank each has in the other profile. */
export function rankedProfile(values, reference, most) {
  const order = (numbers) => Array.from(numbers.keys()).filter((at) => !Number.isNaN(numbers[at])).sort((a, b) => Math.abs(numbers[b]) - Math.abs(numbers[a]) || a - b);
  const ranks = new Map(reference ? order(reference).map((at, rank) => [at, rank]) : []);
  return order(values).slice(0, most).map((at, rank) => ({ at, rank, earlier: ranks.has(at) ? ranks.get(at) : null }));
}
