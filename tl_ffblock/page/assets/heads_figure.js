/* The view of heads as files: curves with a legend, what is said of them, their numbers. */

import { CELL_HEAD, cellFields, reachedCells } from "./csv.js";
import {
  SIGNS, eachLine, emphasise, headBlock, headInk, headKeysOf, headLines, headMap, headsNote, lineCurve, lineLabels, linesCanvas, linesHeadings,
  linesPlace, paintLines, segmentBars, segmentsShown, shownHeads,
} from "./heads_view.js";
import { formatChange, formatNumber } from "./numbers.js";
import { cannotSee, pairWords, tokenWords } from "./phrases.js";
import { labelsOf, ownColumn } from "./scene.js";
import { rectangle, svg, text, textWidth } from "./svg.js";

const VECTOR_LINES = 3000;

/** The lines for a file: curves, or where there are thousands a picture. */
function lineShapes(scene, place, lines) {
  if (lines.length > VECTOR_LINES) {
    const canvas = linesCanvas(scene, place);
    paintLines(scene, canvas, place, lines, null);
    return [svg("image", { x: 0, y: 0, width: place.size[0], height: place.size[1], href: canvas.toDataURL("image/png") })];
  }
  const shapes = [];
  eachLine(scene, lines, null, (line, colour, opacity, width) => {
    const [x, y, ...curve] = lineCurve(place, line);
    shapes.push(svg("path", { d: `M${x} ${y}C${curve.join(" ")}`, fill: "none", stroke: colour, "stroke-opacity": opacity.toFixed(3), "stroke-width": width }));
  });
  return shapes;
}

/** What each colour of lines is: a head, or of numbers with signs gain and loss. */
function lineColours({ data, selection, palette }) {
  const [, block] = headBlock(data, selection);
  if (block.signed) return SIGNS.map(([ink, sign]) => [palette[ink], sign]);
  return shownHeads(data, selection).map((index) => [headInk(index), block.channels[index].name]);
}

/** Which colour is what, in lines of `width`. */
function headsLegend(scene, width) {
  const nodes = [];
  let [x, y] = [0, 9];
  for (const [colour, name] of lineColours(scene)) {
    const wide = 15 + textWidth(name, 11);
    if (x + wide > width) [x, y] = [0, y + 15];
    nodes.push(rectangle(x, y - 8, 10, 8, colour), text(name, x + 14, y, { "font-size": 11, fill: scene.palette.ink }));
    x += wide + 14;
  }
  return { nodes, height: y + 14 };
}

/** The lines for a file, with a legend above them. */
export function headsFigure(scene, width) {
  const colours = headsLegend(scene, width);
  const place = linesPlace(scene, width);
  const labels = lineLabels(scene, place, place.height);
  emphasise(scene, labels);
  const nodes = [...lineShapes(scene, place, headLines(scene).lines), ...linesHeadings(scene, place), ...segmentBars(scene, place), ...labels.flatMap(({ node, number }) => [node, number])];
  const groups = [{ x: 0, y: 0, pictures: [], nodes: colours.nodes }, { x: 0, y: colours.height, pictures: [], nodes }];
  return { groups, height: colours.height + place.size[1] };
}

/** What the shown heads say of the selected cell: the largest of them. */
function headsHeadline(scene) {
  const { data, selection, axes, row, column } = scene;
  const [to, from] = [tokenWords(scene, axes.own[row]), tokenWords(scene, column)];
  if (!axes.reaches(row, column)) return cannotSee(to, from);
  const [, block] = headBlock(data, selection);
  const keys = headKeysOf(data, selection);
  const valueOf = (key) => (selection.words ? headMap(scene, key) : data.matrix(selection.run, key, selection.layer))[row * axes.nColumns + column];
  const sizes = shownHeads(data, selection).map((index) => ({ name: block.channels[index].name, value: scene.hidden.has(column) ? NaN : valueOf(keys[index]) }));
  const known = sizes.filter(({ value }) => Number.isFinite(value)).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  if (!known.length) return `There is no number here of the ${pairWords(block, to, from)}.`;
  const [{ name, value }] = known;
  const most = known.length > 1 ? ` has the largest ${block.short} of the ${known.length} shown` : `: ${block.short}`;
  return `Layer ${selection.layer}, from ${from} to ${to}: ${name}${most}${known.length > 1 ? ":" : ""} ${block.signed ? formatChange(value, false) : formatNumber(value)}.`;
}

/** Whether only lines between two segments of the text are drawn, and which. */
function betweenWords({ data, selection }) {
  if (selection.between === "") return "";
  const [to, from] = selection.between.split("-").map((index) => data.segments[Number(index)][0]);
  return ` Drawn: lines from ${from} to ${to} only.`;
}

export function headsWords(scene) {
  const { data, selection } = scene;
  const [name, block] = headBlock(data, selection);
  const shown = shownHeads(data, selection);
  const named = shown.length < block.channels.length ? shown.map((index) => block.channels[index].name).join(", ") : "all heads";
  return {
    headline: headsHeadline(scene), meaning: "A line joins the destination (left) and the source (right) of a cell of a head's map.", further: `A cell: ${block.meaning}.`,
    place: `layer ${selection.layer}`, shown: `${block.title}, ${named}`, remark: "", note: `${headsNote(scene, headLines(scene).limit)} Those of ${tokenWords(scene, ownColumn(scene))} stand out.${betweenWords(scene)}`, exact: block.exact, method: "",
    file: [`layer${selection.layer}`, `lines-${name}`.slice(0, 60), selection.heads ? `heads${selection.heads}` : "all-heads", ...(selection.between ? [`segments${selection.between}`] : [])],
  };
}

/** Numbers of heads, a column for each of `indices`, of `layers`; of the rows and columns that are `shown`. */
export function tableOfHeads(scene, indices, layers, shown = { row: (_) => true, column: (_) => true }) {
  const { data, selection, axes } = scene;
  const [, block] = headBlock(data, selection);
  const keys = headKeysOf(data, selection);
  const labels = labelsOf(scene);
  const lines = function* () {
    for (const layer of layers) {
      const maps = indices.map((index) => headMap({ ...scene, selection: { ...selection, layer } }, keys[index]));
      for (const [row, column, at] of reachedCells(scene)) if (shown.row(row) && shown.column(column)) yield [layer, ...cellFields(scene, labels, row, column), ...maps.map((cells) => cells[at])];
    }
  };
  const head = ["layer", ...CELL_HEAD, ...indices.map((index) => `${block.channels[index].name} ${block.short}`)];
  return { head, lines, count: layers.length * axes.nRows * axes.nColumns };
}

export function headsTable(scene) {
  return tableOfHeads(scene, shownHeads(scene.data, scene.selection), [scene.selection.layer], segmentsShown(scene));
}
