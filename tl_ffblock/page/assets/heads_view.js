/* View: lines between tokens, one colour a head; destinations to the left, sources to the right. */

import { placed } from "./cells.js";
import { option } from "./controls.js";
import { isLabelled, labelStep } from "./furniture.js";
import { LABEL } from "./layout.js";
import { formatPercent, formatRough } from "./numbers.js";
import { madeFrom } from "./place.js";
import { selectionAt } from "./pointing.js";
import { labelsOf } from "./scene.js";
import { isBetween } from "./selection.js";
import { largest, taken } from "./shares.js";
import { element, fitText, rectangle, svg, text, textWidth } from "./svg.js";
import { blocksOf, channelKey, latest } from "./tables.js";
import { mapOfWords, positionNumber, segmentOf } from "./text.js";

/* Krzywinski (2020), but for darker light ones: twelve that colour-blind readers tell apart, and a grey, which the residual of twelve heads has; then they begin again. */
export const HEAD_COLOURS = ["#008df9", "#e20134", "#009f81", "#c78a00", "#8400cd", "#ff6e3a", "#00b3a0", "#9f0162", "#5b7f00", "#ff5aaf", "#0050a0", "#a40122", "#5b6672"];
/* `most` lines that are not of the token that is read; `apart`: pixels between lines of several heads between the same two tokens. */
const LINES = { row: 20, smallest: 11, printed: 3, gap: 190, label: 150, head: 26, band: 16, faintest: 0.04, most: 300, apart: 1.8, square: 7 };

export function hasHeads(data) {
  return blocksOf(data, "head").length > 0;
}

/** The block of heads that is shown: the one chosen, else that of the scope, else the first. */
export function headBlock(data, selection) {
  const blocks = blocksOf(data, "head");
  const scope = data.channels.get(selection.scope);
  return blocks.find(([name]) => name === selection.block) || blocks.find(([name, block]) => block.of === scope.name || name === scope.blockName) || blocks[0];
}

export function headKeysOf(data, selection) {
  const [name, block] = headBlock(data, selection);
  return block.channels.map((channel) => channelKey(data, name, channel.name));
}

export function isResidual(channel) {
  return channel.name === "residual";
}

/** Indices of the heads whose lines are drawn. None named means all heads; the residual, beside which they would be pale, only where it is named. */
export function shownHeads(data, selection) {
  const [, block] = headBlock(data, selection);
  const named = selection.heads.split(".").filter(Boolean).map(Number).filter((index) => index < block.channels.length);
  if (named.length) return named;
  const every = block.channels.map((_, index) => index);
  const heads = every.filter((index) => !isResidual(block.channels[index]));
  return heads.length ? heads : every;
}

export function headMap(scene, key) {
  const { data, selection, axes, hidden } = scene;
  const raw = data.matrix(selection.run, key, selection.layer);
  return taken(axes, selection.words ? mapOfWords(axes, raw, data.words.length) : raw, hidden, false);
}

/** Keys of the maps of those heads. */
export function headKeysShown(data, selection) {
  const keys = headKeysOf(data, selection);
  return shownHeads(data, selection).map((index) => keys[index]);
}

function toggledHeads(scene, index, alone) {
  const shown = shownHeads(scene.data, scene.selection);
  if (alone) return shown.length === 1 && shown[0] === index ? "" : String(index);
  const next = shown.includes(index) ? shown.filter((head) => head !== index) : [...shown, index].sort((a, b) => a - b);
  return next.length ? next.join(".") : String(index);
}

/** The change that shows these heads; where maps are those of heads, sentence, card and list are of the first of them. */
function headsChange(scene, heads) {
  const { data, selection } = scene;
  const [name] = headBlock(data, selection);
  const follows = !scene.beside && heads !== "" && data.channels.get(selection.scope).blockName === name;
  return follows ? { heads, scope: headKeysOf(data, selection)[Number(heads.split(".")[0])] } : { heads };
}

function headButtons(scene, go) {
  const { data, selection } = scene;
  const [, block] = headBlock(data, selection);
  const shown = shownHeads(data, selection);
  const buttons = block.channels.map((channel, index) => {
    const on = shown.includes(index);
    const button = element("button", { type: "button", className: "head", textContent: channel.name.replace(/^head /, ""), title: `${channel.name}: click shows or hides, shift-click or double-click shows it alone` });
    button.setAttribute("aria-pressed", String(on));
    if (!block.signed) button.style.setProperty("--head", headInk(index));
    button.addEventListener("click", (event) => go(headsChange(scene, toggledHeads(scene, index, event.shiftKey))));
    button.addEventListener("dblclick", () => go(headsChange(scene, String(index))));
    return button;
  });
  const everyone = element("button", { type: "button", textContent: "all" });
  everyone.addEventListener("click", () => go(headsChange(scene, "")));
  return element("div", { className: "toggles head-choice" }, [...(scene.beside ? [] : [blockChoice(scene, go)]), element("span", { className: "note", textContent: "heads" }), ...buttons, everyone, ...betweenChoice(scene, go)]);
}

/** The list of pairs of segments between which lines can be; of a text without segments none. */
function betweenChoice(scene, go) {
  const { segments } = scene.data;
  if (segments.length < 2) return [];
  const pairs = segments.flatMap(([to], row) => segments.map(([from], column) => [`${row}-${column}`, `${from} → ${to}`]));
  const options = pairs.filter(([value]) => isBetween(scene.data, value)).map(([value, label]) => option(value, label));
  const select = element("select", {}, [option("", "all lines"), ...options]);
  select.autocomplete = "off";
  select.value = scene.selection.between;
  select.setAttribute("aria-label", "lines between segments");
  select.addEventListener("change", () => go({ between: select.value }));
  return [select];
}

/** Whether rows and columns belong to the two segments that are shown, by the column of each. */
export function segmentsShown({ data, selection, axes }) {
  const [to, from] = selection.between.split("-").map(Number);
  const own = axes.columns.map(({ position }) => segmentOf(data, position));
  const all = selection.between === "";
  return { row: (row) => all || own[axes.own[row]] === to, column: (column) => all || own[column] === from };
}

/** The list of blocks of heads; alone it is a word. */
export function blockChoice(scene, go) {
  const { data, selection } = scene;
  const [now] = headBlock(data, selection);
  const select = element("select", {}, blocksOf(data, "head").map(([name, block]) => option(name, block.title)));
  select.autocomplete = "off";
  select.value = now;
  select.setAttribute("aria-label", "maps by head");
  select.addEventListener("change", () => go({ block: select.value }));
  return select;
}

const linesKept = latest();

/** All lines worth drawing, kept while they are those of the same maps. */
export function headLines(scene) {
  return linesKept(madeFrom(scene, headsFields(scene), 0), () => linesOf(scene));
}

/** Lines as [row, column, share of the strongest with its sign, head]; the strongest are drawn last. */
function linesOf(scene) {
  const { data, selection, axes } = scene;
  const keys = headKeysOf(data, selection);
  const shown = segmentsShown(scene);
  const between = (cells) => cells.map((value, at) => (shown.row(Math.floor(at / axes.nColumns)) && shown.column(at % axes.nColumns) ? value : NaN));
  const maps = shownHeads(data, selection).map((index) => [index, between(headMap(scene, keys[index]))]);
  const limit = Math.max(...maps.map(([, cells]) => largest(cells))) || 1;
  const lines = [];
  for (const [index, cells] of maps) {
    cells.forEach((value, at) => {
      const share = value / limit;
      if (Math.abs(share) >= LINES.faintest) lines.push([Math.floor(at / axes.nColumns), at % axes.nColumns, share, index]);
    });
  }
  return { limit, lines: lines.sort((a, b) => Math.abs(a[2]) - Math.abs(b[2])) };
}

/** What the view's drawing is made from; tokens that are selected are marks. */
export function headsFields({ selection }) {
  return ["run", "layer", "heads", "between", "block", "words", "hide", ...(selection.block ? [] : ["scope"])];
}

export function headInk(index) {
  return HEAD_COLOURS[index % HEAD_COLOURS.length];
}

/** The colour of lines: of a head, or where numbers have signs of gain and loss. */
function lineInk({ data, selection, palette }) {
  const { signed } = headBlock(data, selection)[1];
  return ([, , share, head]) => (signed ? palette[share < 0 ? "loss" : "gain"] : headInk(head));
}

/** Calls `draw(line, colour, opacity, width)` for every line; those of the token that is read or selected stand out, and come last. */
export function eachLine(scene, lines, target, draw) {
  const { selection, row, column } = scene;
  const ink = lineInk(scene);
  const focus = target || (selection.read === "row" ? { row } : { column });
  const belongs = ([r, c]) => (focus.row === undefined || focus.row === r) && (focus.column === undefined || focus.column === c);
  const [strongest, heads] = [lines.length - LINES.most, shownHeads(scene.data, selection)];
  for (const passing of [false, true]) {
    for (const [rank, line] of lines.entries()) {
      if (belongs(line) !== passing || (!passing && rank < strongest)) continue;
      line[4] = (heads.indexOf(line[3]) - (heads.length - 1) / 2) * LINES.apart;
      const size = Math.abs(line[2]);
      if (passing) draw(line, ink(line), Math.min(1, 0.15 + size), 2);
      else draw(line, ink(line), 0.3 * size, 1);
    }
  }
}

/** A line's ends and the points that bend it. */
export function lineCurve(place, [row, column, , , beside = 0]) {
  const offset = Math.max(-place.height / 2, Math.min(place.height / 2, beside));
  const [from, to] = [place.y(row) + offset, place.yColumn(column) + offset];
  return [place.left, from, place.left + 70, from, place.right - 70, to, place.right, to];
}

export function paintLines(scene, canvas, place, lines, target) {
  const context = canvas.getContext("2d");
  context.setTransform(scene.ratio, 0, 0, scene.ratio, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  eachLine(scene, lines, target, (line, colour, opacity, width) => {
    const [x, y, ...curve] = lineCurve(place, line);
    Object.assign(context, { globalAlpha: opacity, strokeStyle: colour, lineWidth: width });
    context.beginPath();
    context.moveTo(x, y);
    context.bezierCurveTo(...curve);
    context.stroke();
  });
}

export function linesCanvas(scene, place) {
  const [wide, high] = place.size;
  return placed(element("canvas", { width: Math.round(wide * scene.ratio), height: Math.round(high * scene.ratio) }), 0, 0, wide, high);
}

/** Both columns of tokens: each its node and what it stands for. */
export function lineLabels(scene, place, height) {
  const { axes, palette } = scene;
  const labels = labelsOf(scene);
  const shown = segmentsShown(scene);
  const size = Math.min(13, Math.max(LABEL.smallest, height));
  const every = labelStep(height);
  const room = place.left - 26 - (scene.data.segments.length ? LINES.band : 0);
  const named = (content, x, y, anchor, on) => text(fitText(content, size, room), x, y + size * 0.35, { "text-anchor": anchor, "font-size": size, fill: on ? palette.ink : palette.grey, opacity: on ? 1 : 0.5, class: "line-token" });
  const number = (value, x, y, anchor) => text(value, x, y + 3.5, { "text-anchor": anchor, "font-size": 9, fill: palette.grey });
  const rows = axes.rows.map((line, row) => ({ ...line, row })).filter(({ row }) => isLabelled(row, every, scene.row));
  const columns = axes.columns.map((line, column) => ({ ...line, column })).filter(({ column }) => isLabelled(column, every, scene.column));
  return [
    ...rows.map(({ position, row }) => ({
      target: { row }, node: named(labels[axes.own[row]], place.left - 26, place.y(row), "end", shown.row(row)), number: number(positionNumber(scene.data, position), place.left - 5, place.y(row), "end"),
    })),
    ...columns.map(({ position, column }) => ({
      target: { column }, node: named(labels[column], place.right + 26, place.yColumn(column), "start", shown.column(column)), number: number(positionNumber(scene.data, position), place.right + 5, place.yColumn(column), "start"),
    })),
  ];
}

/** Beside both columns of tokens a bar along each segment, with its name where that fits. */
export function segmentBars(scene, place) {
  const { data, axes, palette } = scene;
  const of = axes.columns.map(({ position }) => segmentOf(data, position));
  return data.segments.flatMap(([name], index) => {
    if (!of.includes(index)) return [];
    const [top, bottom] = [place.yColumn(of.indexOf(index)) - place.height / 2 + 1, place.yColumn(of.lastIndexOf(index)) + place.height / 2 - 1];
    const turned = (x) => text(fitText(name, 11, bottom - top), 0, 0, { "text-anchor": "middle", "font-size": 11, fill: palette.grey, class: "segment", transform: `translate(${x} ${(top + bottom) / 2}) rotate(-90)` });
    const bar = (x) => rectangle(x, top, 2, bottom - top, palette.grey);
    return [bar(LINES.band - 2), turned(LINES.band - 6), bar(place.size[0] - LINES.band), turned(place.size[0] - 2)];
  });
}

/** Where rows, columns and lines stand. */
export function linesPlace(scene, width) {
  const { axes } = scene;
  const height = Math.max(scene.room ? LINES.printed : LINES.smallest, Math.min(LINES.row, (scene.room ? scene.room - 60 : 1400) / axes.nColumns));
  const left = Math.min(LINES.label, Math.max(70, (width - 90) / 3));
  const right = Math.min(width - left, left + Math.max(LINES.gap, Math.min(520, 0.55 * width)));
  const yColumn = (column) => LINES.head + (column + 0.5) * height;
  const widest = Math.max(...labelsOf(scene).map((label) => textWidth(label.slice(0, 60), Math.min(13, Math.max(LABEL.smallest, height)))));
  const squares = right + 32 + Math.min(widest, left - 26);
  const room = scene.room ? 0 : shownHeads(scene.data, scene.selection).length * (LINES.square + 1) + 8;
  return { height, left, right, squares, yColumn, y: (row) => yColumn(axes.own[row]), size: [right + left + room, LINES.head + axes.nColumns * height + 8] };
}

/** What stands above both columns of tokens. */
export function linesHeadings(scene, place) {
  const heading = { "font-size": 11, fill: scene.palette.grey };
  const room = (words, short) => (textWidth(words, 11) <= place.left ? words : short);
  return [
    text(room("to (destination, query)", "to (query)"), place.left, 14, { ...heading, "text-anchor": "end" }),
    text(room("from (source, key)", "from (key)"), place.right, 14, heading),
  ];
}

function linesDrawing(scene, place, labels, go) {
  const drawing = svg("svg", { width: place.size[0], height: place.size[1] }, [
    ...linesHeadings(scene, place), ...segmentBars(scene, place), ...labels.flatMap(({ node, number }) => [node, number]),
  ]);
  for (const { node, target } of labels) {
    node.addEventListener("click", () => go(selectionAt(scene, target)));
  }
  return drawing;
}

/** Next to each source of the selected token a square for every head: the stronger, the larger its contribution. */
function headSquares(scene, place, { lines }) {
  const { selection, row, column } = scene;
  const ink = lineInk(scene);
  const heads = shownHeads(scene.data, selection);
  const size = Math.min(LINES.square, place.height - 2);
  return lines.filter(([r, c]) => (selection.read === "row" ? r === row : c === column)).map((line) => {
    const [y, x] = [selection.read === "row" ? place.yColumn(line[1]) : place.y(line[0]), place.squares + heads.indexOf(line[3]) * (size + 1)];
    const square = rectangle(x, y - size / 2, size, size, ink(line));
    square.setAttribute("fill-opacity", Math.min(1, 0.1 + 0.9 * Math.abs(line[2])).toFixed(2));
    return square;
  });
}

export function emphasise(scene, labels) {
  for (const { node, target } of labels) node.setAttribute("font-weight", target.row === scene.row || target.column === scene.column ? 700 : 400);
}

export function headsNote({ data, selection }, limit) {
  return `Width and strength of a line: ${headBlock(data, selection)[1].unit}, up to ${formatRough(limit, false)}; none below ${formatPercent(LINES.faintest)} of that.`;
}

export const SIGNS = [["gain", "positive"], ["loss", "negative"]];

/** Which colour is which sign, where numbers have signs. */
function signsLegend({ data, selection, palette }) {
  if (!headBlock(data, selection)[1].signed) return [];
  const swatch = (ink) => { const node = element("i", { className: "swatch" }); node.style.backgroundColor = palette[ink]; return node; };
  return [element("p", { className: "note signs" }, SIGNS.map(([ink, sign]) => element("span", {}, [swatch(ink), ` ${sign}`])))];
}

export function headsView(scene, go, width) {
  const place = linesPlace(scene, width);
  const { limit, lines } = headLines(scene);
  const canvas = linesCanvas(scene, place);
  const labels = lineLabels(scene, place, place.height);
  const drawing = linesDrawing(scene, place, labels, go);
  const squares = svg("g", { class: "head-squares" });
  drawing.append(squares);
  const host = element("div", { className: "lines" }, [canvas, drawing]);
  const note = scene.beside ? headsNote(scene, limit) : `${headsNote(scene, limit)} Drawn: the strongest ${LINES.most} and all of the selected token, whose squares are its heads. Point at a token for its lines, click to select it.`;
  const update = (now) => {
    emphasise(now, labels);
    squares.replaceChildren(...headSquares(now, place, { lines }));
    for (const { node, target } of labels) node.onpointerenter = () => now.hover(target);
    drawing.onpointerleave = () => now.hover(null);
    now.marked.push((target) => paintLines(now, canvas, place, lines, target));
    paintLines(now, canvas, place, lines, null);
  };
  return { nodes: [headButtons(scene, go), ...signsLegend(scene), host, element("p", { className: "note", textContent: note })], update };
}
