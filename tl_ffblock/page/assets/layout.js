/* Where everything in the figure of maps stands, in pixels, for screen, print and export alike. */

import { remarksOf } from "./phrases.js";
import { panelsOf } from "./scene.js";
import { textWidth, wrapText } from "./svg.js";

export const LABEL = { size: 12, smallest: 9.5, index: 10, row: 88, column: 72, crowded: 60, many: 25, axis: 18, spacing: 11, named: 18 };
/* How much wider bold letters are: the selected label's. */
export const BOLD = 1.12;
export const TITLE_HEIGHT = 44;
export const STRIP = { gap: 6, width: 13 };
const PANEL_GAP = 20;
/* Below this a map's legend and titles find no room. */
const LEGEND_WIDTH = 250;
/* `around`: pixels of labels above and legend below the cells of a slide, or of a map that is to fit the window. */
export const CELL = { largest: 52, comfortable: 12, enough: 230, across: 1000, around: 230 };

/** Room for the position number between a token's name and the map. */
export function indexWidth(scene) {
  return 12 + Math.ceil(textWidth(String(scene.data.words.length - 1), LABEL.index));
}

export function shownLabels(scene, frameMap) {
  return frameMap.labels.slice(scene.window[2], scene.window[3] + 1);
}

/** Pixels that the name of a column has at most: fewer above many columns, so that the first cell is high up. */
export function columnRoom({ window: [, , first, last] }) {
  return last - first + 1 < LABEL.many ? LABEL.column : LABEL.crowded;
}

/** The size of letters beside cells of this size, with air between those of neighbours. */
export function labelSize(size) {
  return Math.min(size > 36 ? 14 : LABEL.size, Math.max(LABEL.smallest, size - 1.5));
}

/** Pixels that the longest of these labels takes, its position number included; names longer than `most` are cut. */
export function labelWidth(scene, labels, most, size = LABEL.size) {
  const widest = labels.reduce((width, label) => Math.max(width, textWidth(label.slice(0, 60), size)), 0);
  return Math.ceil(Math.min(most, BOLD * widest)) + indexWidth(scene);
}

/** Left margins: token names on every map where there is room, else on the first of a line only. */
function leftMargins(scene, count, perLine, full, width) {
  const roomy = width / perLine > full + 300;
  return Array.from({ length: count }, (_, index) => LABEL.axis + (roomy || index % perLine === 0 ? full : indexWidth(scene)));
}

function cellsWidth(width, perLine, margins, strips) {
  const line = margins.slice(0, perLine).reduce((sum, margin) => sum + margin + strips, 0);
  return (width - line - PANEL_GAP * (perLine - 1)) / perLine;
}

/** As many maps side by side as leave the cells readable. */
function chooseLines(scene, count, width, full, strips) {
  const enough = Math.min(CELL.comfortable * (scene.window[3] - scene.window[2] + 1), CELL.enough);
  for (let perLine = count; perLine > 1; perLine--) {
    const margins = leftMargins(scene, count, perLine, full, width);
    const fits = perLine * (LEGEND_WIDTH + PANEL_GAP) - PANEL_GAP <= width;
    if (fits && cellsWidth(width, perLine, margins, strips) >= enough) return perLine;
  }
  return 1;
}

function cellSize(scene, room) {
  const [nRows, nColumns] = [scene.window[1] - scene.window[0] + 1, scene.window[3] - scene.window[2] + 1];
  const high = scene.room || scene.windowRoom;
  const tallest = high ? (high - CELL.around) / nRows : CELL.largest;
  const wide = Math.max(40 / nColumns, Math.min(CELL.largest, tallest, CELL.across / nColumns, room / nColumns));
  const width = wide >= 6 ? Math.floor(wide) : wide;
  return { width, height: Math.max(Math.min(width, CELL.across / nRows), Math.min(22, width, (nColumns * width) / nRows)) };
}

/** The frames of a scene's panels in `width` pixels. */
export function layoutOf(scene, width) {
  const maps = panelsOf(scene);
  const size = labelSize(CELL.across / (scene.window[1] - scene.window[0] + 1)); // at most: cells are not larger
  const full = Math.max(...maps.map((map) => labelWidth(scene, map.labels, Math.min(LABEL.row, width / 4), size)));
  const strips = scene.strips.length * (STRIP.gap + STRIP.width) + 8;
  const perLine = scene.inLine ? maps.length : chooseLines(scene, maps.length, width, full, strips);
  const margins = leftMargins(scene, maps.length, perLine, full, width);
  const cell = cellSize(scene, cellsWidth(width, perLine, margins, strips));
  const top = TITLE_HEIGHT + LABEL.axis + Math.max(...maps.map((map) => labelWidth(scene, shownLabels(scene, map), columnRoom(scene), labelSize(cell.width))));
  const [first, last, left, right] = scene.window;
  const [across, down] = [cell.width * (right - left + 1), cell.height * (last - first + 1)];
  const frames = maps.map((map, index) => ({
    map, cell, top, across, down, left: margins[index],
    fullLabels: margins[index] > LABEL.axis + indexWidth(scene),
    width: Math.min(width, Math.max(margins[index] + across + strips, perLine > 1 && scene.inLine ? 0 : LEGEND_WIDTH)),
  }));
  return arrange(scene, frames, perLine);
}

/** Sets x, y and height of each frame; lines as high as their longest legend. */
function arrange(scene, frames, perLine) {
  let [x, y, wide] = [0, 0, 0];
  for (let first = 0; first < frames.length; first += perLine) {
    const line = frames.slice(first, first + perLine);
    for (const frame of line) {
      const perPixel = 1 / (frame.cell.width * (scene.ratio || 1));
      frame.notes = remarksOf(scene, frame.map, perPixel).flatMap((remark) => wrapText(remark, 11, frame.width - frame.left));
    }
    const height = line[0].top + line[0].down + 44 + 14 * Math.max(...line.map((frame) => frame.notes.length));
    x = 0;
    for (const frame of line) { Object.assign(frame, { x, y, height }); x += frame.width + PANEL_GAP; }
    wide = Math.max(wide, x - PANEL_GAP);
    y += height + 12;
  }
  return { frames, width: Math.ceil(wide), height: Math.ceil(y) };
}
