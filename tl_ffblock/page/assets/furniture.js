/* One map as SVG: title, axes, legend, strips, cells out of reach. The cells themselves come from cells.js. */

import { hasTwoEnds, shadeOf } from "./colours.js";
import { BOLD, LABEL, STRIP, TITLE_HEIGHT, columnRoom, indexWidth, labelSize } from "./layout.js";
import { formatRough, roundDown } from "./numbers.js";
import { hasCrosses, isClipped, subtitleOf, titleOf } from "./phrases.js";
import { fitText, rectangle, svg, text, textWidth, upright } from "./svg.js";
import { intervalOf } from "./tables.js";
import { positionNumber } from "./text.js";

/** Every how many lines of this size a label stands, so that labels keep a readable distance. */
export function labelStep(size) {
  return Math.max(1, Math.ceil(LABEL.spacing / size));
}

/** Whether a label stands at `index`: every so many, and at the selected one, to which the others keep their distance. */
export function isLabelled(index, every, selected) {
  return index === selected || (index % every === 0 && Math.abs(index - selected) >= every);
}

/** A label in `room` pixels: where it is wider, in smaller letters, and cut only if the smallest are still too wide. */
function fittingLabel(label, most, weight, room) {
  const wide = "font-weight" in weight ? BOLD : 1;
  const size = Math.min(most, Math.max(LABEL.smallest, Math.floor((2 * most * room) / textWidth(label, wide * most)) / 2));
  return { words: fitText(label, wide * size, room), style: { "font-size": size, ...weight } };
}

/** The label of one row: its token where the frame has room for tokens, and its position. */
function rowLabel(scene, frame, row, weight) {
  const { axes, data, palette, window: [first] } = scene;
  const size = labelSize(frame.cell.height);
  const y = frame.top + (row - first + 0.5) * frame.cell.height + size * 0.35;
  const number = frame.fullLabels ? positionNumber(data, axes.rows[row].position) : axes.rows[row].position;
  const index = text(number, frame.left - 5, y, { "text-anchor": "end", "font-size": LABEL.index, fill: palette.grey });
  if (!frame.fullLabels) return svg("g", {}, [index]);
  const room = frame.left - indexWidth(scene) - LABEL.axis;
  const { words, style } = fittingLabel(frame.map.labels[axes.own[row]], size, weight, Math.max(20, room));
  return svg("g", {}, [index, text(words, frame.left - indexWidth(scene), y, { "text-anchor": "end", fill: palette.ink, ...style })]);
}

function columnLabel(scene, frame, column, weight) {
  const { axes, data, palette, window: [, , left] } = scene;
  const size = labelSize(frame.cell.width);
  const middle = frame.left + (column - left + 0.5) * frame.cell.width;
  const x = middle + size * 0.35;
  if (frame.lying) return text(frame.map.labels[column], middle, frame.top - 6, { "font-size": LABEL.size, "text-anchor": "middle", fill: palette.ink, ...weight });
  const { words, style } = fittingLabel(frame.map.labels[column], size, weight, columnRoom(scene));
  return svg("g", {}, [
    upright(positionNumber(data, axes.columns[column].position), x, frame.top - 5, { "font-size": LABEL.index, fill: palette.grey }),
    upright(words, x, frame.top - indexWidth(scene), { fill: palette.ink, ...style }),
  ]);
}

/** Labels at regular steps, each with the index it stands at. */
function regularLabels(first, last, size, draw) {
  const every = labelStep(size);
  return Array.from({ length: Math.floor((last - first) / every) + 1 }, (_, i) => ({ index: first + i * every, node: draw(first + i * every, {}) }));
}

/** The selected one's label in bold; regular ones too near to it give way, and come back when another is selected. */
function selectedLabel(labels, selected, [first, last], size, draw) {
  const inside = selected >= first && selected <= last;
  for (const { index, node } of labels) {
    const shown = !inside || Math.abs(index - selected) >= labelStep(size);
    if (shown) node.removeAttribute("visibility");
    else node.setAttribute("visibility", "hidden");
  }
  return inside ? [draw(selected, { "font-weight": 700 })] : [];
}

/** Labels of a frame's columns; `mark(column)` gives the selected one's and hides those in its way. */
export function columnLabels(scene, frame) {
  const [, , left, right] = scene.window;
  const draw = (column, weight) => columnLabel(scene, frame, column, weight);
  const labels = regularLabels(left, right, frame.cell.width, draw);
  return { nodes: labels.map(({ node }) => node), mark: (column) => selectedLabel(labels, column, [left, right], frame.cell.width, draw) };
}

function rowLabels(scene, frame) {
  const [first, last] = scene.window;
  const draw = (row, weight) => rowLabel(scene, frame, row, weight);
  const labels = regularLabels(first, last, frame.cell.height, draw);
  return { nodes: labels.map(({ node }) => node), mark: (row) => selectedLabel(labels, row, [first, last], frame.cell.height, draw) };
}

function rowsTitle(scene, frame) {
  const word = frame.down < 150 ? "← to" : "← to (destination, query)";
  return upright(word, 11, frame.top + frame.down / 2, { "font-size": 11, fill: scene.palette.grey, "text-anchor": "middle" });
}

function titles(scene, frame) {
  const { palette } = scene;
  const room = frame.width - (scene.exporting ? 0 : 30);
  return [
    text(fitText(titleOf(scene, frame.map), 14, room), 0, 14, { "font-size": 14, "font-weight": 600, fill: palette.ink }),
    text(fitText(subtitleOf(scene, frame.map), 12, frame.width), 0, 31, { fill: palette.grey }),
  ];
}

/** The frame of each column beside the map. */
function stripFrames({ palette }, frame) {
  return frame.pictures.slice(1).map(({ x }) => svg("rect", { x, y: frame.top, width: STRIP.width, height: frame.down, fill: "none", stroke: palette.line }));
}

/** What stands above a map and stays in sight while it is scrolled: names of columns, of those beside it too; `frame.columns` can be marked. */
export function columnHeads(scene, frame) {
  const style = { "font-size": 11, fill: scene.palette.grey };
  frame.columns = columnLabels(scene, frame);
  const beside = frame.pictures.slice(1).map(({ name, x }) => upright(name, x + STRIP.width - 2, frame.top - 5, style));
  return [text("from (source, key) →", frame.left, TITLE_HEIGHT + 12, style), ...frame.columns.nodes, ...beside];
}

const RAMP_STOPS = 24;
let gradients = 0;

/** A scale's colours as a gradient, whatever numbers stand at it: even steps of the ramp, which is straight between them to the eye. */
export function rampGradient(scene, { scale }, shade = (value) => shadeOf(scene.palette, value, 1, scale, scene.selection.root)) {
  const from = hasTwoEnds(scale) ? -1 : 0;
  const stops = Array.from({ length: RAMP_STOPS + 1 }, (_, i) => {
    return svg("stop", { offset: i / RAMP_STOPS, "stop-color": shade(from + (i / RAMP_STOPS) * (1 - from)).hex });
  });
  return svg("linearGradient", { id: `ramp-${gradients++}` }, stops);
}

const LEGEND_TICK = 11;

/** Where the bar of a map's colours stands. */
function legendPlace({ left, top, down, width }) {
  return { x: left, y: top + down + 10, width: Math.min(190, width - left - 26), height: 10 };
}

function legendBar(scene, frame) {
  const gradient = rampGradient(scene, frame.map);
  return [svg("defs", {}, [gradient]), svg("rect", { ...legendPlace(frame), fill: `url(#${gradient.id})`, stroke: scene.palette.line, class: "legend" })];
}

/** What is said below the bar: numbers, then remarks. */
function legendWords(scene, frame) {
  const { x, y } = legendPlace(frame);
  const remarks = frame.notes.map((line, index) => text(line, x, y + 38 + 14 * index, { "font-size": 11, fill: scene.palette.grey }));
  const rough = (value) => formatRough(value, frame.map.asShare, frame.map.scale === "signed");
  return [...scaleTicks(scene, legendPlace(frame), frame.map, rough), ...remarks];
}

/** Round numbers below a bar of colours, each at its place; of a scale beyond which cells lie, its ends. A number is left out where it would touch another. */
export function scaleTicks({ palette }, { x, y, width, height }, map, words) {
  const { limit } = map;
  const [signed, clipped] = [hasTwoEnds(map.scale), isClipped(map)];
  const from = signed ? -limit : 0;
  const step = roundDown(signed ? limit : limit / 2);
  const last = clipped ? limit : signed ? step : 2 * step;
  const room = [];
  return [last, signed ? -last : 0, signed ? 0 : step].flatMap((value) => {
    const place = ((value - from) / (limit - from || 1)) * width;
    const said = `${clipped && Math.abs(value) === limit ? (value > 0 ? "≥ " : "≤ ") : ""}${signed && value > 0 ? "+" : ""}${words(value, value === last)}`;
    const half = textWidth(said, LEGEND_TICK) / 2;
    const middle = Math.max(half, Math.min(width - half, place));
    if (room.some(([left, right]) => middle + half + 4 > left && middle - half - 4 < right)) return [];
    room.push([middle - half, middle + half]);
    const style = { "font-size": LEGEND_TICK, "text-anchor": "middle", fill: palette.ink };
    return [svg("path", { d: `M${x + place} ${y + height}v3`, stroke: palette.ink, class: "tick" }), text(said, x + middle, y + height + 13, style)];
  });
}

const HATCH = "not-reachable";
/** What fills places that cannot be reached, in a drawing with the pattern below. */
export const HATCHED = `url(#${HATCH})`;

const NEGATIVE = "negative";
/** What lies over negative numbers in print, where grey does not tell them from positive ones: both colours are equally light. */
export const STRIPED = `url(#${NEGATIVE})`;

export function hatchPattern(palette) {
  return svg("defs", {}, [
    svg("pattern", { id: NEGATIVE, width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, [
      rectangle(0, 0, 1, 4, palette.ink), rectangle(1, 0, 1, 4, palette.paper),
    ]),
    svg("pattern", { id: HATCH, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, [
      rectangle(0, 0, 6, 6, palette.out), rectangle(0, 0, 1, 6, palette.hatch),
    ]),
  ]);
}

/** One path over all cells of the window that a causal model cannot reach. */
function unreachable(scene, frame) {
  const { data, axes, window: [top, bottom, left, right] } = scene;
  if (!data.causal) return [];
  const runs = [];
  for (let row = top; row <= bottom; row++) {
    const first = Math.max(left, axes.own[row] + 1);
    const width = (right + 1 - first) * frame.cell.width;
    if (width > 0) runs.push(`M${frame.left + (first - left) * frame.cell.width} ${frame.top + (row - top) * frame.cell.height}h${width}v${frame.cell.height}h${-width}z`);
  }
  return runs.length ? [svg("path", { d: runs.join(""), fill: HATCHED, class: "unreachable" })] : [];
}

/** What stands around a map whatever its numbers, but above it: names of rows, frames, cells out of reach; `frame.rows` can be marked. */
export function surroundings(scene, frame) {
  frame.rows = rowLabels(scene, frame);
  return [
    rowsTitle(scene, frame), ...frame.rows.nodes, ...unreachable(scene, frame),
    svg("rect", { x: frame.left, y: frame.top, width: frame.across, height: frame.down, fill: "none", stroke: scene.palette.line }),
    ...stripFrames(scene, frame), ...legendBar(scene, frame),
  ];
}

/** Of an average crosses on the cells whose interval contains zero. */
function uncertain(scene, frame) {
  const { data, axes, selection, window: [top, bottom, left, right] } = scene;
  const ends = hasCrosses(scene, frame.map) && intervalOf(data, frame.map.run, frame.map.key, selection.layer);
  const { width, height } = frame.cell;
  if (!ends) return [];
  const air = Math.min(2, width / 5, height / 5);
  const crosses = [];
  for (let row = top; row <= bottom; row++) {
    for (let column = left; column <= right; column++) {
      const [low, high] = ends.map((end) => end[row * axes.nColumns + column]);
      if (!(low <= 0 && high >= 0 && low < high)) continue;
      const [x, y] = [frame.left + (column - left) * width, frame.top + (row - top) * height];
      const [across, down] = [width - 2 * air, height - 2 * air];
      crosses.push(`M${x + air} ${y + air}l${across} ${down}m0 ${-down}l${-across} ${down}`);
    }
  }
  return crosses.length ? [svg("path", { d: crosses.join(""), stroke: scene.palette.grey, "stroke-width": Math.min(1, air / 2), fill: "none", class: "uncertain" })] : [];
}

/** What is said of a map and its numbers: titles, crosses and legend. */
export function statements(scene, frame) {
  return [...titles(scene, frame), ...uncertain(scene, frame), ...legendWords(scene, frame)];
}
