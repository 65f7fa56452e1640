/* What is selected and what is read, marked on every map: frames around cells that are large enough, ticks in the margin else. */

import { svg } from "./svg.js";

const FRAMED = 5;

export function frameAround(x, y, width, height, colour) {
  return svg("rect", { x: x - 0.75, y: y - 0.75, width: width + 1.5, height: height + 1.5, fill: "none", stroke: colour, "stroke-width": 1.25 });
}

/** A triangle that points at a row or a column from the margin. */
export function tickAt(x, y, direction, colour) {
  const points = { left: [[0, 0], [6, -4], [6, 4]], up: [[0, 0], [-4, 6], [4, 6]] }[direction];
  return svg("polygon", { points: points.map(([dx, dy]) => `${x + dx},${y + dy}`).join(" "), fill: colour });
}

function rowMark(scene, frame, row, colour) {
  const [first, last] = scene.window;
  if (row < first || row > last) return [];
  const y = frame.top + (row - first) * frame.cell.height;
  if (frame.cell.height >= FRAMED) return [frameAround(frame.left, y, frame.across, frame.cell.height, colour)];
  const middle = y + frame.cell.height / 2;
  return [tickAt(frame.left + frame.across + 1, middle, "left", colour)];
}

export function columnMark(scene, frame, column, colour) {
  const [, , first, last] = scene.window;
  if (column < first || column > last) return [];
  const x = frame.left + (column - first) * frame.cell.width;
  if (frame.cell.width >= FRAMED) return [frameAround(x, frame.top, frame.cell.width, frame.down, colour)];
  const middle = x + frame.cell.width / 2;
  return [tickAt(middle, frame.top + frame.down + 1, "up", colour)];
}

/** The selected cell: a frame where cells are large enough, else ticks at its column (of a column: at its row). */
function cellMark(scene, frame, colour) {
  const { row, column, selection, window: [top, bottom, left, right] } = scene;
  if (row < top || row > bottom || column < left || column > right) return [];
  const { width, height } = frame.cell;
  const [x, y] = [frame.left + (column - left) * width, frame.top + (row - top) * height];
  if (Math.min(width, height) >= FRAMED) return [frameAround(x + 1.5, y + 1.5, width - 3, height - 3, colour)];
  return selection.read === "row" ? columnMark(scene, frame, column, colour) : rowMark(scene, frame, row, colour);
}

/** The selected row (or column) and cell; row and column of the cell that is read. */
export function marksOf(scene, frame, target) {
  const { palette, selection, row, column } = scene;
  const line = selection.read === "row" ? rowMark(scene, frame, row, palette.mark) : columnMark(scene, frame, column, palette.mark);
  const shapes = [...line, ...cellMark(scene, frame, palette.mark)];
  if (target && target.row !== undefined) shapes.push(...rowMark(scene, frame, target.row, palette.read));
  if (target && target.column !== undefined) shapes.push(...columnMark(scene, frame, target.column, palette.read));
  return shapes;
}
