/* Where: layers x steps, coloured by how much each step changed the map; a click goes there. */

import { shadeOf } from "./colours.js";
import { isLabelled } from "./furniture.js";
import { frameAround } from "./marks.js";
import { channelWords } from "./phrases.js";
import { element, fitText, rectangle, svg, text, textWidth, upright } from "./svg.js";
import { channelKey } from "./tables.js";
import { formatTrack, rangeWords, trackRanges, tracksOf } from "./tracks.js";

/** Columns of the rail: track, channel, what a click chooses. */
function whereColumns(scene) {
  const { data, selection } = scene;
  const blockName = scene.headsBlock || data.channels.get(selection.scope).blockName;
  return tracksOf(scene).flatMap((track, group) => track.columns.map((column) => ({
    ...column, group, track,
    key: channelKey(data, blockName, column.channel),
    refKey: column.ref && channelKey(data, blockName, column.ref),
  })));
}

function isChosenColumn(scene, column) {
  const { data, selection } = scene;
  if (scene.headsBlock) return selection.heads.split(".").includes(String(data.channels.get(column.key).index));
  if (selection.scope !== column.key) return false;
  return selection.run !== selection.refRun || column.refKey === null || selection.ref === column.refKey;
}

/** Sizes of the rail: upright beside the maps, or lying above them where the page is narrow. */
function whereGrid(scene, columns, width, lying) {
  const n = scene.data.layers.length;
  const groups = columns.length ? columns[columns.length - 1].group : 0;
  const [label, head] = lying ? [72, 16] : [26, 22 + Math.max(30, Math.min(70, 9 * Math.max(0, ...columns.map((column) => column.label.length))))];
  const along = lying ? Math.max(4, Math.min(24, (width - label - 6) / n)) : Math.max(9, Math.min(20, 480 / n));
  const wide = lying ? 15 : Math.max(8, Math.min(26, (width - label - 14 * groups - 4) / Math.max(1, columns.length)));
  const offset = (index) => columns[index].group * (lying ? 8 : 14) + index * wide;
  const place = (layer, index) => (lying ? [label + layer * along, head + offset(index)] : [label + offset(index), head + layer * along]);
  const headed = columns.map(({ group, track }, index) => (index && columns[index - 1].group === group ? 0 : offset(index) + textWidth(track.title, 11)));
  const last = columns.length ? offset(columns.length - 1) + wide : 0;
  const end = lying ? last : Math.max(last, ...headed);
  const size = lying ? [label + n * along + 4, head + end + 4] : [label + end + 4, head + n * along + 4];
  return { place, cell: lying ? [along, wide] : [wide, along], size, label, head, lying };
}

/** Layers and steps along the rail, the selected ones in bold, and which of both the numbers are. */
function whereLabels(scene, columns, grid) {
  const { palette, data, selection } = scene;
  const [wide, high] = grid.cell;
  const every = Math.max(1, Math.ceil((grid.lying ? 16 : 11) / (grid.lying ? wide : high)));
  const chosen = data.layers.indexOf(selection.layer);
  const layers = data.layers.flatMap((layer, index) => {
    const selected = index === chosen;
    if (!isLabelled(index, every, chosen)) return [];
    const [x, y] = columns.length ? grid.place(index, 0) : [grid.label, grid.head];
    const style = { "font-size": 11, fill: selected ? palette.ink : palette.grey, "font-weight": selected ? 700 : 400 };
    return [grid.lying ? text(layer, x + wide / 2, grid.head - 5, { ...style, "text-anchor": "middle" }) : text(layer, grid.label - 6, y + high / 2 + 4, { ...style, "text-anchor": "end" })];
  });
  const steps = columns.map((column, index) => {
    const [x, y] = grid.place(0, index);
    const weight = isChosenColumn(scene, column) ? 700 : 400;
    const style = { "font-size": 11, fill: palette.ink, "font-weight": weight };
    return grid.lying
      ? text(fitText(column.label, 11, grid.label - 8), grid.label - 6, y + high - 4, { ...style, "text-anchor": "end" })
      : upright(fitText(column.label, 11, grid.head - 22), x + wide / 2 + 4, grid.head - 5, style);
  });
  const headings = grid.lying ? [] : columns.flatMap((column, index) => {
    if (index && columns[index - 1].group === column.group) return [];
    return [text(column.track.title, grid.place(0, index)[0], 12, { "font-size": 11, fill: palette.grey })];
  });
  const axis = grid.lying
    ? text("layer", grid.label - 6, grid.head - 5, { "font-size": 11, fill: palette.grey, "text-anchor": "end" })
    : text("layer", 0, grid.head - 5, { "font-size": 9, fill: palette.grey });
  return [axis, ...layers, ...steps, ...headings];
}

function whereCell(scene, column, layerIndex, place, size, [least, most]) {
  const [wide, high] = size;
  const { palette, data } = scene;
  const value = column.track.values[column.channel][layerIndex];
  const colour = value === null ? palette.out : shadeOf(palette, Math.max(0, value - least), most - least, "contribution", column.track.stretched ? 0 : 1).hex;
  const shape = rectangle(place[0], place[1], wide - 1, high - 1, colour);
  shape.append(svg("title", {}, [`layer ${data.layers[layerIndex]}, ${column.words}: ${formatTrack(value)}`]));
  shape.dataset.layer = data.layers[layerIndex];
  shape.dataset.channel = column.key;
  shape.dataset.ref = column.refKey ?? "";
  return shape;
}

function chooseByKey(scene, columns, go, event) {
  const { data, selection } = scene;
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [-data.layers.length, 0], End: [data.layers.length, 0] }[event.key];
  if (!step || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  const layer = data.layers[Math.max(0, Math.min(data.layers.length - 1, data.layers.indexOf(selection.layer) + step[0]))];
  const now = Math.max(0, columns.findIndex((column) => isChosenColumn(scene, column)));
  const column = columns[Math.max(0, Math.min(columns.length - 1, now + step[1]))];
  go(step[1] && column ? { layer, ...whereChange(scene, column) } : { layer });
}

/** The step, or in views of heads the head, that a column is; a step is compared with its own reference, unless two runs are compared. */
function whereChange(scene, column) {
  if (scene.headsBlock) return { heads: String(scene.data.channels.get(column.key).index) };
  return { scope: column.key, ...(scene.selection.run === scene.selection.refRun ? { ref: column.refKey ?? "" } : {}) };
}

/** What the rail is made from; the selected layer and step are marks. */
export const WHERE_FIELDS = ["run"];

function whereMarks(scene, columns, grid) {
  const { data, selection, palette } = scene;
  return columns.flatMap((column, index) => {
    if (!isChosenColumn(scene, column)) return [];
    const [x, y] = grid.place(data.layers.indexOf(selection.layer), index);
    return [frameAround(x, y, grid.cell[0] - 1, grid.cell[1] - 1, palette.mark), frameAround(x - 1.5, y - 1.5, grid.cell[0] + 2, grid.cell[1] + 2, palette.paper)];
  });
}

function connectWhere(host, columns, go, current) {
  host.addEventListener("click", (event) => {
    const cell = event.target.closest("[data-layer]");
    const column = cell && columns.find(({ key, refKey }) => key === cell.dataset.channel && (refKey ?? "") === cell.dataset.ref);
    if (column) go({ layer: Number(cell.dataset.layer), ...whereChange(current(), column) });
  });
  host.addEventListener("keydown", (event) => chooseByKey(current(), columns, go, event));
}

/** The selected step, with its numbers where the rail has them. */
function chosenWords(scene, columns) {
  const { data, selection } = scene;
  const index = data.layers.indexOf(selection.layer);
  const numbers = columns.filter((column) => isChosenColumn(scene, column)).map(({ track, channel, words }) => `${words}: ${formatTrack(track.values[channel][index])}`);
  return [scene.headsBlock || channelWords(data, selection.scope), ...numbers].join(", ");
}

export function whereView(scene, go, width, lying) {
  const columns = whereColumns(scene);
  const grid = whereGrid(scene, columns, width, lying);
  const ranges = trackRanges(tracksOf(scene));
  const shapes = scene.data.layers.flatMap((_, layer) => columns.map((column, index) => whereCell(scene, column, layer, grid.place(layer, index), grid.cell, ranges[column.group])));
  const [labels, marks] = [svg("g"), svg("g")];
  const drawing = svg("svg", { width: grid.size[0], height: grid.size[1], "aria-hidden": "true" }, [labels, ...shapes, marks]);
  const host = element("div", { className: "rail", tabIndex: 0 }, [drawing]);
  host.setAttribute("role", "application");
  let shown = scene;
  connectWhere(host, columns, go, () => shown);
  const update = (now) => {
    shown = now;
    host.setAttribute("aria-label", `Layers and steps, arrow keys choose. Now layer ${now.selection.layer}, ${chosenWords(now, columns)}.`);
    labels.replaceChildren(...whereLabels(now, columns, grid));
    marks.replaceChildren(...whereMarks(now, columns, grid));
  };
  return { nodes: [host], update };
}

export function whereNote(scene) {
  return tracksOf(scene).map((track) => [track.note, rangeWords(track) && `Colours: ${rangeWords(track)}.`].filter(Boolean).join(" ")).join(" ");
}
