/* View: the overview. One row a layer: how much each step changed the mixing, tokens' streams, heads, the largest neurons; arcs are heads between positions. Without a target streams are contributions of the other tokens to one. */

import { paint, placed } from "./cells.js";
import { REMOVAL_ENDS, hasTwoEnds, rampName, shadeOf } from "./colours.js";
import { option } from "./controls.js";
import { HATCHED, STRIPED, columnLabels, hatchPattern, rampGradient, scaleTicks } from "./furniture.js";
import { BOLD, CELL, LABEL, STRIP, columnRoom, labelSize, labelWidth, shownLabels } from "./layout.js";
import {
  besidesOf, chosenHead, chosenLogit, comesLater, hasLogit, isByColumn, logitArcs, logitBlocks, logitColumns, logitEquation, logitNote, logitSentence, logitUnit, logitWords, overviewOf, streamOf, takenWords,
} from "./logit.js";
import { columnMark, frameAround } from "./marks.js";
import { formatChange, formatNumber, formatPercent, formatRough } from "./numbers.js";
import { FRAMED_PAGE } from "./place.js";
import { labelsOf, ownColumn } from "./scene.js";
import { largest, placeOnScale } from "./shares.js";
import { byId, element, fitText, rectangle, shareChip, svg, text, textWidth, upright } from "./svg.js";
import { channelKey, hasMaps } from "./tables.js";
import { placeTip, tipLine, tokenAt } from "./tooltip.js";
import { formatTrack } from "./tracks.js";

const STREAM = { left: 34, gap: 26, smallest: 4, largest: 20, few: 96, lowest: 330, wide: 640, around: 320, head: 20, enough: 330, legend: 190, banded: 7, least: 1.5 };
/* Columns of changes beside the streams, marks of neurons, and arcs of heads: sizes in pixels, shares of the stream's scale. */
const CHANGES = { width: 13, gap: 12 };
const NEURONS = { most: 6, each: 15, radius: 6, least: 0.03 };
const ARCS = { widest: 7, thinnest: 1, bolder: 3, named: 3, sag: 0.16, apart: 9, reach: 12 };

/* Cells of a logit lens: the room that a token needs, its letters, and the height of a row. */
const LENS = { narrowest: 18, letters: 11, row: 14, widest: 90, curve: 220 };

/** Whether a page has an overview: of a target, or of maps of several layers. */
export function hasOverview(data) {
  return hasLogit(data) || (hasMaps(data) && data.layered && data.layers.length > 1);
}

/** What its drawing is made from; layer, token and head are marks, but for the token whose sources are drawn. */
export function logitFields({ data, selection }) {
  const shared = ["run", "block", "words", "hide", "zoom", "range", "root"];
  const block = chosenLogit(data, selection);
  if (block) return isByColumn(block) ? [...shared, "to", "from", "read"] : shared;
  return hasLogit(data) ? shared : [...shared, "scope", "ref", "refRun", "read", "cells", selection.read === "row" ? "to" : "from"];
}

/** How high a layer is, so that all of them are seen at once; in a file and in a frame also those of `below`, heads and neurons below the streams. */
function layerHeight(scene, rows, below, least = STREAM.smallest) {
  const tall = scene.room ? ((scene.room - 150 - (below ? 80 : 0)) * rows) / (rows + below) 
    : FRAMED_PAGE ? (scene.framed * rows) / (rows + below)
    : Math.max(STREAM.lowest, window.innerHeight - STREAM.around);
  return Math.max(least, Math.min(rows > 13 ? STREAM.largest : STREAM.few, tall / rows));
}

/** The columns of changes: how much each step of a layer changed the ranking of token pairs, of differences how large cells are; where the page has maps of that kind. */
function changeColumns(scene) {
  const [name, block] = Object.entries(scene.data.runs[scene.selection.run].blocks).find(([, { exact, tracks, axis }]) => exact && axis === "scope" && tracks && tracks.length) || ["", null];
  return block ? block.tracks[0].columns.map((column) => ({ ...column, name, title: column.ref ? "change" : block.tracks[0].title, values: block.tracks[0].values[column.channel] })) : [];
}

/** Where streams, the strip beside them, heads and neurons stand from left to right in `width` pixels, and how wide a column of streams is. */
function columnsPlace(scene, width) {
  const { window: [, , first, last] } = scene;
  const { strip, heads, words, neurons, names, curve } = besidesOf(scene);
  const named = textWidth(words, 11); // what is said above the heads may be wider than they are
  const changes = changeColumns(scene);
  const numbered = Math.max(STREAM.left, Math.ceil(Math.max(...names.map((name) => textWidth(name, 11))) * BOLD) + 8); // where names of layers end
  const left = numbered + (changes.length ? changes.length * CHANGES.width + CHANGES.gap : 0);
  const stripWidth = curve ? LENS.curve : STRIP.width;
  const beyond = left + (strip ? STRIP.gap + stripWidth : 0) + 8;
  const across = heads ? Math.max(6, Math.min(STREAM.head, (width / 3) / heads)) : 0;
  const dots = neurons ? STREAM.gap + NEURONS.most * NEURONS.each : 0;
  const further = (heads ? STREAM.gap + Math.max(named, across * heads) : 0) + dots;
  const beside = further > 0 && width - beyond - further >= STREAM.enough;
  const room = width - beyond - (beside ? further : 0);
  const wide = Math.min(curve === null ? Math.max(CELL.largest, STREAM.wide / (last - first + 1)) : LENS.widest, room / (last - first + 1));
  return { changes, heads, named, numbered, left, beyond, across, dots, further, beside, wide, stripWidth };
}

/** Where all of it stands; heads and neurons below where there is no room beside. */
function logitPlace(scene, width) {
  const { window: [, , first, last] } = scene;
  const stream = streamOf(scene);
  const rows = stream.rows.length;
  const { changes, heads, named, numbered, left, beyond, across, dots, further, beside, wide, stripWidth } = columnsPlace(scene, width);
  const lines = stream.layers.filter((layer) => layer !== null).length; // without the end
  const lying = further > 0 && !beside;
  const lens = Boolean(stream.block && stream.block.says);
  const height = layerHeight(scene, rows, lying ? lines : 0, lens ? LENS.row : STREAM.smallest);
  const cell = { width: wide, height };
  const map = { labels: labelsOf(scene) };
  const labels = shownLabels(scene, map);
  const flat = scene.data.named && labels.every((label) => textWidth(label, LABEL.size) * BOLD < wide - 4); // names that have room lie
  const top = flat ? 8 + LABEL.named * (further && beside ? 2 : 1) : 8 + labelWidth(scene, labels, columnRoom(scene), labelSize(cell.width));
  const frame = { left, top, cell, lying: flat, across: cell.width * (last - first + 1), down: height * rows, map };
  const bottom = top + frame.down + (stream.before ? 48 : 34);
  const narrow = beside ? across : Math.min(STREAM.head, (width - STREAM.left - dots - 8) / Math.max(1, heads));
  const headFrame = {
    left: beside ? frame.across + beyond - 8 + STREAM.gap : STREAM.left, top: beside ? top : bottom + 36,
    cell: { width: narrow, height }, across: narrow * heads, down: height * lines,
  };
  const headsEnd = headFrame.left + Math.max(named, headFrame.across);
  const neuronFrame = dots ? { ...headFrame, left: headsEnd + (heads ? STREAM.gap : 0), across: NEURONS.most * NEURONS.each } : null;
  const right = Math.max(frame.left + frame.across + beyond - left, ...(further ? [headsEnd, neuronFrame ? neuronFrame.left + neuronFrame.across : 0] : []));
  return { arcs: [], names: [], dots: [], numbered, stripWidth, width: right, stream, lines, frame, heads, headFrame, neuronFrame, beside, changes, strip: stream.strip ? frame.left + frame.across + STRIP.gap : null, height: lying ? headFrame.top + headFrame.down + 8 : bottom };
}

/** Whether tokens' streams are drawn as bands; columns too narrow for that are cells. */
function isBanded({ frame, stream: { block } }) {
  return frame.cell.width >= STREAM.banded && !(block && block.says);
}

/** What is said of the overview: of bands where columns are wide enough for them, else of cells. */
export function overviewWords(scene) {
  return logitWords(scene, columnsPlace(scene, scene.width).wide >= STREAM.banded);
}

/** What is painted, and where. */
function logitPictures(scene, place) {
  const { stream, lines, frame, headFrame, heads, strip, changes } = place;
  const { root } = scene.selection;
  const [, , first, last] = scene.window;
  const columnOf = (cells, nColumns, nRows, shown) => ({ root, ...shown, cells, nColumns, window: [0, nRows - 1, 0, nColumns - 1] });
  const pictures = isBanded(place) ? [] : [
    { picture: { root, scale: stream.scale, cells: stream.cells, limit: stream.limit, nColumns: scene.axes.nColumns, window: [0, stream.rows.length - 1, first, last] }, x: frame.left, y: frame.top, width: frame.across, height: frame.down },
  ];
  if (changes.length) {
    const flat = new Float32Array(lines * changes.length).fill(NaN);
    changes.forEach(({ values }, column) => scene.data.layers.forEach((layer, index) => { flat[stream.layers.indexOf(layer) * changes.length + column] = values[index] === null ? NaN : values[index]; }));
    const [wide, high] = [changes.length * CHANGES.width, frame.cell.height * lines];
    pictures.push({ picture: columnOf(flat, changes.length, lines, { scale: "contribution", root: 1, limit: largest(flat) }), x: place.numbered, y: frame.top, width: wide, height: high });
  }
  if (strip !== null && !stream.strip.curve) pictures.push({ picture: columnOf(stream.strip.values, 1, stream.rows.length, stream.strip), x: strip, y: frame.top, width: STRIP.width, height: frame.down });
  if (heads) {
    const { values, least, limit, scale } = stream.heads;
    const flat = Float32Array.from(values.flat(), (value) => (hasTwoEnds(scale) ? value ?? NaN : Math.max(0, value - least)));
    pictures.push({ picture: columnOf(flat, heads, lines, { scale, limit: limit - least }), x: headFrame.left, y: headFrame.top, width: headFrame.across, height: headFrame.down });
  }
  return pictures;
}

/* Of the end of the colours: what is told from the paper. */
const SEEN = 0.05;
/* Where on its ramp the colour of a band begins, so that narrow ones are seen between edges and on the ground. */
const FAINTEST = 0.25;

/** The colour of a band of this share. */
function bandShade({ palette, selection }, share, limit, scale) {
  return shadeOf(palette, Math.sign(share) * (FAINTEST + (1 - FAINTEST) * placeOnScale(share, limit, selection.root)), 1, scale);
}

/** Tokens' streams: the wider and the stronger in colour, the larger the attribution or the contribution; what a step added or removed is at their edges. */
function streamBands(scene, place) {
  if (!isBanded(place)) return [];
  const { frame, stream: { rows, before, ends, limit, scale } } = place;
  const { palette, selection } = scene;
  const [, , first, last] = scene.window;
  const widthOf = (share) => (limit > 0 ? placeOnScale(share, limit, selection.root) * (frame.cell.width - 1) : 0);
  const bands = [];
  rows.forEach((shares, row) => {
    for (let column = first; column <= last; column++) {
      const share = shares[column];
      const kept = before ? Math.min(share, before[row][column]) : share;
      const [wide, most] = [widthOf(kept), widthOf(before ? Math.max(share, before[row][column]) : share)];
      if (!(most >= STREAM.least)) continue;
      const middle = frame.left + (column - first + 0.5) * frame.cell.width;
      const band = (across, ink) => rectangle(middle - across / 2, frame.top + row * frame.cell.height, across, frame.cell.height, ink);
      const striped = (across, negative) => (scene.striped && negative && scale !== "contribution" ? [band(across, STRIPED)] : []);
      const changed = before ? [band(most, palette[share > kept ? "gain" : "loss"]), ...striped(most, !(share > kept))] : [];
      const parts = [...changed, band(wide, bandShade(scene, kept, limit, scale).hex), ...striped(wide, kept < 0)];
      if (ends) {
        const [low, high] = ends.map((of) => of[row][column]);
        if (low <= 0 && high >= 0) Object.entries({ fill: palette.paper, stroke: palette[rampName(share, scale)] }).forEach(([name, ink]) => parts[0].setAttribute(name, ink));
        const [from, to] = [low, high].map((end) => middle + (Math.sign(end) === Math.sign(share) ? widthOf(end) / 2 : 0));
        const y = frame.top + (row + 0.5) * frame.cell.height;
        parts.push(svg("path", { d: `M${from} ${y}H${to}M${from} ${y - 3}v6M${to} ${y - 3}v6`, stroke: palette.ink, fill: "none", class: "whisker" }));
      }
      parts[0].dataset.share = `${row},${column}`;
      bands.push(...parts);
    }
  });
  return bands;
}

/** The most probable token of a logit lens, in each cell that has room for it. */
function lensWords(scene, { frame, stream: { block, rows } }) {
  if (!block || !block.says || frame.cell.width < LENS.narrowest) return [];
  const [, , first, last] = scene.window;
  const size = Math.min(LENS.letters, frame.cell.height - 1);
  return block.says.flatMap((row, at) => row.slice(first, last + 1).map(([[token]], column) => {
    const { readable } = shadeOf(scene.palette, rows[at][first + column], 1, "contribution", scene.selection.root);
    return text(fitText(token, size, frame.cell.width - 4), frame.left + (column + 0.5) * frame.cell.width, frame.top + (at + 0.5) * frame.cell.height + size * 0.35, { "font-size": size, "text-anchor": "middle", fill: readable });
  }));
}

/** The target of a logit lens followed through the layers, with a line at zero. */
function targetCurve({ palette }, { strip, stripWidth, frame, stream }) {
  if (!stream.strip.curve) return [];
  const { values, limit, name } = stream.strip;
  const x = (value) => strip + stripWidth * (0.5 + 0.46 * (value / (limit || 1)));
  const y = (row) => frame.top + (row + 0.5) * frame.cell.height;
  const points = Array.from(values, (value, row) => [x(value), y(row)]);
  const dots = Array.from(values, (value, row) => svg("circle", { cx: x(value), cy: y(row), r: 3, fill: palette[value < 0 ? "loss" : "gain"] }));
  const grey = { "font-size": 11, fill: palette.grey };
  return [
    svg("line", { x1: x(0), x2: x(0), y1: frame.top, y2: frame.top + frame.down, stroke: palette.line }), svg("path", { d: `M${points.join("L")}`, fill: "none", stroke: palette.grey, class: "curve" }), ...dots,
    text(fitText(name, 11, stripWidth), strip, frame.top - 5, grey), text(`−${formatRough(limit, false)}`, x(-limit), frame.top + frame.down + 13, { ...grey, "text-anchor": "start" }),
    text("0", x(0), frame.top + frame.down + 13, { ...grey, "text-anchor": "middle" }), text(`+${formatRough(limit, false)}`, x(limit), frame.top + frame.down + 13, { ...grey, "text-anchor": "end" }),
  ];
}

/** Arcs from stream to stream: the attribution of a head from one token to another; the largest have their names. `reach` are wide, and lie below the bands. */
function headArcs(scene, place) {
  const { frame, stream: { block, limit } } = place;
  if (!block) return { reach: [], drawn: [] };
  const { palette } = scene;
  const [, , first, last] = scene.window;
  const middle = (column) => frame.left + (column - first + 0.5) * frame.cell.width;
  const named = [];
  const seen = new Map();
  const reach = [];
  const arcs = logitArcs(scene, block, limit).filter(({ from, to }) => Math.min(from, to) >= first && Math.max(from, to) <= last).map((arc, index) => {
    const ends = [arc.layer, arc.from, arc.to].join();
    const beside = seen.get(ends) ?? 0; // arcs of the same layer between the same tokens lie below each other
    seen.set(ends, beside + 1);
    const [x, end] = [middle(arc.from), middle(arc.to)];
    const y = frame.top + (arc.layer + 0.5) * frame.cell.height;
    const ink = palette[arc.share < 0 ? "loss" : "gain"];
    const wide = Math.max(ARCS.thinnest, ARCS.widest * Math.min(1, Math.abs(arc.share) / limit));
    const room = frame.top + frame.down - wide / 2 - y; // below the curve's start: with this control point it touches the frame
    const low = Math.min(y + frame.cell.height + 2 * Math.min(60, ARCS.sag * Math.abs(end - x)) + beside * ARCS.apart, y + room + Math.sqrt(Math.max(0, room * (room - frame.cell.height))));
    const d = `M${x} ${y}Q${(x + end) / 2} ${low} ${end} ${y + frame.cell.height}`;
    const path = svg("path", { d, fill: "none", stroke: ink, "stroke-width": wide, "stroke-opacity": 0.8, "stroke-linecap": "round", class: "arc", ...(scene.striped && arc.share < 0 ? { "stroke-dasharray": `${wide} ${2 * wide}` } : {}) });
    path.dataset.arc = String(index);
    reach.push(Object.assign(svg("path", { d, fill: "none", stroke: "transparent", "stroke-width": Math.max(ARCS.reach, wide) }), { arc }));
    if (named.length < ARCS.named) named.push(arcName(scene, frame, arc, (x + end) / 2, (y + low + frame.cell.height / 2) / 2 + 4, ink, named));
    return Object.assign(path, { arc });
  });
  Object.assign(place, { arcs: [...arcs], names: named.filter(Boolean) });
  return { reach, drawn: [...arcs.reverse(), ...named.filter(Boolean)] };
}

/** The name of an arc at its middle, unless another's is there. */
function arcName(scene, frame, arc, middle, low, fill, others) {
  const { layer, head, share } = arc;
  const words = `L${layer}H${head} ${formatChange(share, false)}`;
  const wide = textWidth(words, 11) * BOLD;
  const x = Math.max(frame.left + wide / 2 + 2, Math.min(frame.left + frame.across - wide / 2 - 2, middle));
  const y = Math.min(low, frame.top + frame.down - 4);
  const taken = others.filter(Boolean).some(({ at }) => Math.abs(at.y - y) < 13 && Math.abs(at.x - x) < (at.wide + wide) / 2 + 4);
  if (taken) return null;
  const style = { "font-size": 11, "font-weight": 700, "text-anchor": "middle", fill };
  const parts = [rectangle(x - wide / 2 - 2, y - 10, wide + 4, 13, scene.palette.paper), text(words, x, y, style)];
  for (const part of parts) Object.assign(part, { arc });
  return Object.assign(svg("g", { class: "arc-name" }, parts), { at: { x, y, wide } });
}

/** The largest neurons of each layer as marks, on one scale for all. */
function neuronMarks(scene, place) {
  const { stream, neuronFrame } = place;
  if (!neuronFrame) return [];
  const { left, top, across, cell } = neuronFrame;
  const most = largest(stream.neurons.flat().map(([, share]) => share));
  const radius = Math.min(NEURONS.radius, cell.height / 2);
  return stream.neurons.flatMap((neurons, layer) => {
    const y = top + (layer + 0.5) * cell.height;
    const line = svg("line", { x1: left, x2: left + across, y1: y, y2: y, stroke: scene.palette.hatch });
    const marks = neurons.filter(([, share]) => Math.abs(share) >= NEURONS.least * most).slice(0, NEURONS.most).map(([neuron, share], index) => {
      const mark = svg("circle", { cx: left + (index + 0.5) * NEURONS.each, cy: y, r: Math.max(1, radius * Math.sqrt(Math.abs(share) / (most || 1))), fill: scene.palette[share < 0 ? "loss" : "gain"] });
      return Object.assign(mark, { neuron: { layer, neuron, share } });
    });
    place.dots.push(...marks);
    return [line, ...marks];
  });
}

function logitLayerLabels(scene, place, left, top, rows) {
  const { palette, selection } = scene;
  const { height } = place.frame.cell;
  const every = Math.max(1, Math.ceil(11 / height));
  const { layers, names } = place.stream;
  const at = layers.indexOf(selection.layer);
  return Array.from({ length: rows }, (_, row) => row).flatMap((row) => {
    const chosen = row === at;
    const crowded = row % every || (!chosen && Math.abs(row - at) < every);
    if (crowded && !chosen) return [];
    const style = { "text-anchor": "end", "font-size": 11, fill: chosen ? palette.ink : palette.grey, "font-weight": chosen ? 700 : 400 };
    return [text(names[row], left - 5, top + (row + 0.5) * height + 4, style)];
  });
}

/** In print stripes over negative heads, but for those that are as pale as the paper. */
function stripedHeads(scene, { stream, headFrame: { left, top, cell } }) {
  const { values, limit, scale } = stream.heads;
  if (!scene.striped || !hasTwoEnds(scale)) return [];
  const negative = values.flatMap((heads, layer) => heads.flatMap((value, head) => (value < -SEEN * limit ? [[layer, head]] : [])));
  return negative.map(([layer, head]) => rectangle(left + head * cell.width, top + layer * cell.height, cell.width, cell.height, STRIPED));
}

/** Axes, frames and names that stay while layer and token change. */
function logitSurroundings(scene, place) {
  const { palette } = scene;
  const { stream, frame, headFrame, heads, strip, neuronFrame } = place;
  const grey = { "font-size": 11, fill: palette.grey };
  const outline = (x, y, width, height) => svg("rect", { x, y, width, height, fill: "none", stroke: palette.line });
  const arcs = headArcs(scene, place);
  const nodes = [
    text(stream.layers.length && stream.names.some((name) => name.includes("-")) ? "layers" : "layer", 0, frame.top - 5, grey), outline(frame.left, frame.top, frame.across, frame.down), ...streamLanes(scene, place), ...laterColumns(scene, place), ...arcs.reach, ...streamBands(scene, place), ...lensWords(scene, place),
    ...logitLegend(scene, place), ...changeNames(scene, place),
  ];
  if (strip !== null && !stream.strip.curve) nodes.push(upright(stream.strip.name, strip + STRIP.width - 2, frame.top - 5, grey));
  if (strip !== null) nodes.push(outline(strip, frame.top, place.stripWidth, frame.down), ...targetCurve(scene, place));
  if (heads) {
    const every = Math.max(1, Math.ceil(16 / headFrame.cell.width));
    nodes.push(...stripedHeads(scene, place), text(stream.heads.words, headFrame.left, headFrame.top - 20, grey), outline(headFrame.left, headFrame.top, headFrame.across, headFrame.down));
    for (let head = 0; head < heads; head += every) nodes.push(text(stream.heads.names[head], headFrame.left + (head + 0.5) * headFrame.cell.width, headFrame.top - 5, { ...grey, "text-anchor": "middle" }));
  }
  if (neuronFrame) nodes.push(text("largest neurons", neuronFrame.left, neuronFrame.top - 20, grey), ...neuronMarks(scene, place));
  return [...nodes, ...arcs.drawn];
}

/** What the columns of changes are, and their frame. */
function changeNames(scene, { frame, changes, lines, numbered }) {
  if (!changes.length) return [];
  const outline = svg("rect", { x: numbered, y: frame.top, width: changes.length * CHANGES.width, height: frame.cell.height * lines, fill: "none", stroke: scene.palette.line });
  const names = changes.map(({ label, words }, index) => {
    const name = upright(label, numbered + (index + 0.5) * CHANGES.width + 4, frame.top - 5, { "font-size": 10, fill: scene.palette.grey });
    name.append(svg("title", {}, [words]));
    return name;
  });
  const room = Math.max(...changes.map(({ label }) => textWidth(label, 10))) + 12;
  return [outline, ...names, text(changes[0].title, numbered, Math.max(10, frame.top - room), { "font-size": 11, fill: scene.palette.grey })];
}

/** The column that is marked: of a target the token that is read, else the other end of the selected cell. */
function markedColumn(scene) {
  if (hasLogit(scene.data)) return ownColumn(scene);
  return scene.selection.read === "row" ? scene.column : scene.axes.own[scene.row];
}

/** A hatch over tokens that come later: nothing can flow there. */
function laterColumns(scene, { frame }) {
  const [, , first, last] = scene.window;
  const columns = Array.from({ length: last - first + 1 }, (_, index) => first + index).filter((column) => comesLater(scene, column));
  return columns.map((column) => rectangle(frame.left + (column - first) * frame.cell.width, frame.top, frame.cell.width, frame.down, HATCHED));
}

/** Thin lines along which streams run. */
function streamLanes(scene, place) {
  const { frame } = place;
  if (!isBanded(place)) return [];
  const [, , first, last] = scene.window;
  const middles = Array.from({ length: last - first + 1 }, (_, index) => frame.left + (index + 0.5) * frame.cell.width);
  return middles.map((x) => svg("line", { x1: x, x2: x, y1: frame.top, y2: frame.top + frame.down, stroke: scene.palette.hatch }));
}

function logitLegend(scene, { frame, stream }) {
  const { limit, top, scale, before, unit, asShare } = stream;
  const gradient = isBanded({ frame, stream }) ? rampGradient(scene, { scale }, (share) => bandShade(scene, share, 1, scale)) : rampGradient(scene, { scale });
  const [y, width] = [frame.top + frame.down + 8, Math.min(STREAM.legend, frame.across)];
  const bar = { x: frame.left, y, width, height: 9 };
  const stripes = (x, across, at) => (scene.striped ? [rectangle(x, at, across, 9, STRIPED)] : []);
  const swatch = (ink, words, x) => [rectangle(x, line, 10, 9, scene.palette[ink]), ...(ink === "loss" ? stripes(x, 10, line) : []), text(words, x + 14, line + 9, { "font-size": 11, fill: scene.palette.ink })];
  const added = scene.selection.run === scene.selection.refRun ? "more than before" : "more";
  const fits = frame.across - width > 190;
  const [beside, line] = fits ? [frame.left + width + 16, y] : [frame.left, y + 26];
  return [
    svg("defs", {}, [gradient]), svg("rect", { ...bar, fill: `url(#${gradient.id})`, stroke: scene.palette.line, class: "legend" }), ...(hasTwoEnds(scale) ? stripes(bar.x, width / 2, y) : []), ...removalEnds(scene, { scale, y, frame, width }),
    ...scaleTicks(scene, bar, { limit, top, scale }, (value, last) => formatRough(value, Boolean(asShare)) + (last ? unit : "")),
    ...(before && isBanded({ frame, stream }) ? [...swatch("gain", added, beside), ...swatch("loss", "less", beside + 28 + textWidth(added, 11))] : []),
  ];
}

/** What the ends of a scale of changes by a removal are, in words beside its bar. */
function removalEnds({ palette }, { scale, y, frame, width }) {
  const words = `left: ${REMOVAL_ENDS[0]}; right: ${REMOVAL_ENDS[1]}`;
  return scale === "removal" && frame.across - width > textWidth(words, 11) ? [text(words, frame.left + width + 16, y + 9, { "font-size": 11, fill: palette.ink })] : [];
}

/** Whether a head and its pair are what is selected. */
export function isHeadOf({ selection }, { layer, head, query, key }) {
  return layer === selection.layer && selection.heads === String(head) && selection.to === query && selection.from === key;
}

/** The selected arc, thicker, below the names of arcs, and a ring around the selected neuron. */
function chosenMarks(scene, { arcs, names, dots }) {
  const { layer, neuron } = scene.selection;
  const thicker = arcs.filter(({ arc }) => isHeadOf(scene, arc)).map((path) => {
    const bold = path.cloneNode();
    for (const [name, value] of Object.entries({ class: "arc-chosen bold", "stroke-width": Number(path.getAttribute("stroke-width")) + ARCS.bolder, "stroke-opacity": 1 })) bold.setAttribute(name, value);
    return bold;
  });
  const ringed = dots.filter((dot) => dot.neuron.layer === layer && dot.neuron.neuron === neuron);
  const named = thicker.length ? [svg("g", { class: "arc-chosen" }, names.map((name) => name.cloneNode(true)))] : [];
  return [...thicker, ...named, ...ringed.map((dot) => svg("circle", { cx: dot.getAttribute("cx"), cy: dot.getAttribute("cy"), r: Number(dot.getAttribute("r")) + 2, fill: "none", stroke: scene.palette.mark, "stroke-width": 1.5, class: "neuron-chosen" }))];
}

/** The selected layer, token, head, arc and neuron; what is pointed at. */
function logitMarks(scene, place, target) {
  const { palette, selection } = scene;
  const { stream, frame, headFrame, heads, neuronFrame } = place;
  const at = stream.layers.indexOf(selection.layer);
  const line = ({ left, top, across, cell }) => frameAround(left, top + at * cell.height, across, cell.height, palette.mark);
  const shapes = [line(frame), ...(neuronFrame ? [line(neuronFrame)] : []), ...columnMark(scene, frame, markedColumn(scene), palette.mark), ...chosenMarks(scene, place)];
  if (target && target.column !== undefined) shapes.push(...columnMark(scene, frame, target.column, palette.read));
  if (!heads) return shapes;
  const head = chosenHead(heads, selection);
  const chosen = head < 0 ? [] : [frameAround(headFrame.left + head * headFrame.cell.width, headFrame.top + at * headFrame.cell.height, headFrame.cell.width, headFrame.cell.height, palette.mark)];
  return [...shapes, line(headFrame), ...chosen];
}

/** What lies under a point: a row with a column of tokens, with a head, or with the biases. */
function logitUnder(place, scene, event, host) {
  const box = host.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const inside = ({ left, top, across, down }) => x >= left && x < left + across && y >= top && y < top + down;
  const { stream, lines, frame, headFrame, heads, strip, changes, neuronFrame } = place;
  const { arc, neuron } = event.target;
  if (arc) return arc;
  if (neuron) return neuron;
  const row = ({ top, cell }) => ({ row: Math.floor((y - top) / cell.height), layer: stream.layers[Math.floor((y - top) / cell.height)] });
  if (inside(frame)) return { ...row(frame), column: scene.window[2] + Math.floor((x - frame.left) / frame.cell.width) };
  if (strip !== null && inside({ ...frame, left: strip, across: place.stripWidth })) return { ...row(frame), strip: true };
  if (changes.length && inside({ ...frame, left: place.numbered, across: changes.length * CHANGES.width, down: lines * frame.cell.height })) return { ...row(frame), change: Math.floor((x - place.numbered) / CHANGES.width) };
  if (neuronFrame && inside(neuronFrame)) return row(neuronFrame);
  if (heads && inside(headFrame)) return { ...row(headFrame), head: Math.floor((x - headFrame.left) / headFrame.cell.width) };
  return null;
}

/** The change of the selection that a token means: the one that is read, and no head or neuron. */
export function logitTokenChange({ axes, selection }, column) {
  const position = axes.columns[column].position;
  const row = axes.rowOf(position);
  return { ...(selection.read === "row" && row >= 0 ? { to: axes.rows[row].position } : { from: position, read: "column" }), heads: "", neuron: -1 };
}

/** The change that a token in a row means where rows are of another token: the other end of the cell. */
function otherEnd({ data, axes, selection }, column) {
  const { position } = axes.columns[column];
  return selection.read === "row" ? { from: position } : data.queries.includes(position) ? { to: position } : {};
}

/** The change that a column of changes means: the step whose maps are shown. */
function stepOf(scene, index) {
  const { name, channel, ref } = changeColumns(scene)[index];
  return { scope: channelKey(scene.data, name, channel), ref: ref ? channelKey(scene.data, name, ref) : "" };
}

/** The change that a click means, with the kind that is listed beside it; a layer of which the page has no maps cannot be selected. */
function logitChange(scene, { layer, column, head, query, key, neuron, change: picked }) {
  const { data, selection } = scene;
  const there = layer === selection.layer;
  const change = data.layers.includes(layer) ? { layer } : {};
  if (column !== undefined) Object.assign(change, hasLogit(data) ? { ...logitTokenChange(scene, column), list: "tokens" } : otherEnd(scene, column));
  if (picked !== undefined) Object.assign(change, stepOf(scene, picked));
  if (neuron !== undefined) return { ...change, neuron: there && selection.neuron === neuron ? -1 : neuron, heads: "", list: "neurons" };
  if (head === undefined) return there ? change : { ...change, neuron: -1 };
  if (query === undefined) return { ...change, neuron: -1, heads: there && selection.heads === String(head) ? "" : String(head), list: "heads" }; // a second click lets go
  return { ...change, neuron: -1, heads: String(head), list: "edges", ...(data.queries.includes(query) ? { to: query, from: key, read: "row" } : {}) };
}

/** The number of a token's stream at a row: of a target its attribution, else before and after the step. */
function streamNumber(scene, { before, ends, rows, unit, asShare, block, strip }, row, column) {
  const share = rows[row][column];
  if (comesLater(scene, column)) return block ? "after the target's position" : "a later token: earlier ones cannot attend to it";
  if (Number.isNaN(share)) return scene.hidden.has(column) ? "hidden" : column === ownColumn(scene) ? `the token itself${strip ? ": see the column “own”" : ""}` : "not among these";
  if (block && block.says) return `${block.says[row][scene.axes.columns[column].members[0]][0][0]} ${formatPercent(share)}`;
  const shown = (value) => (block ? formatChange(value, false) + unit : asShare ? formatPercent(value) : formatNumber(value));
  if (ends) return `${shown(share)}, 95 % interval ${ends.map((of) => shown(of[row][column])).join(" to ")}`;
  return before && !block ? `${shown(before[row][column])} → ${shown(share)} (${formatChange(share - before[row][column], asShare)})` : shown(share);
}

function logitTip(scene, { stream, changes }, { row, layer, column, head, query, key, neuron, share, change, strip }) {
  const { block, unit } = stream;
  const input = block && !block.measure && head === undefined && change === undefined ? ", its input" : "";
  const at = tipLine("layer", layer === null ? "end" : `${block && row !== undefined ? block.names[row] : layer}${input}`);
  const number = (shown) => element("div", { textContent: formatChange(shown, false) + unit });
  const token = (position) => tokenAt(scene, labelsOf(scene)[scene.axes.columnOf[position]], position);
  if (query !== undefined) return [tipLine("head", `L${layer}H${head}`), tipLine("from", token(key)), tipLine("to", token(query)), number(share)];
  if (neuron !== undefined) return [tipLine("neuron", `L${layer}N${neuron}`), number(share)];
  if (head !== undefined) return [tipLine("head", `L${layer}H${stream.heads.names[head]}`), block ? number(stream.heads.values[row][head]) : element("div", { textContent: `${stream.heads.words}: ${formatPercent(stream.heads.values[row][head])}` })];
  if (change !== undefined) return [at, tipLine("", `${changes[change].words}: ${formatTrack(changes[change].values[scene.data.layers.indexOf(layer)] ?? null)}`)];
  if (strip && !block) return [at, tipLine("its own share", formatPercent(stream.strip.values[row]))];
  if (strip && block.strip) return [at, tipLine("target", `${block.strip.name} ${formatChange(block.strip.values[row], false)}`)];
  if (strip) return [at, ...block.biases.filter(([, from]) => from === row).map(([name, , added]) => tipLine("bias", `${name} ${formatChange(added, false)}`))];
  if (column === undefined) return [at];
  return [at, tipLine(block ? "token" : scene.selection.read === "row" ? "from" : "to", tokenAt(scene, labelsOf(scene)[column], scene.axes.columns[column].position)), element("div", { textContent: streamNumber(scene, stream, row, column) })];
}

/** Arrow keys: up and down another layer, left and right another token. */
function logitKey(scene, go, event) {
  const { data, selection, axes } = scene;
  const layer = data.layers.indexOf(selection.layer);
  const column = markedColumn(scene);
  const change = (to) => (hasLogit(data) ? logitTokenChange(scene, to) : otherEnd(scene, to));
  const actions = {
    ArrowUp: () => layer > 0 && go({ layer: data.layers[layer - 1] }),
    ArrowDown: () => layer < data.layers.length - 1 && go({ layer: data.layers[layer + 1] }),
    ArrowLeft: () => column > 0 && go(change(column - 1)),
    ArrowRight: () => column < axes.nColumns - 1 && go(change(column + 1)),
    Home: () => go({ layer: data.layers[0] }),
    End: () => go({ layer: data.layers[data.layers.length - 1] }),
  };
  if (!(event.key in actions) || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  actions[event.key]();
}

/** Pointer and keys; `current()` is the scene of now. */
function connectLogit(host, place, go, current) {
  host.addEventListener("pointermove", (event) => {
    const scene = current();
    const target = logitUnder(place, scene, event, host);
    const tip = byId("tooltip");
    tip.hidden = !target;
    scene.hover(target && target.column !== undefined ? { column: target.column } : null);
    if (target) { tip.replaceChildren(...logitTip(scene, place, target)); placeTip(tip, event.clientX, event.clientY); }
  });
  host.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") byId("tooltip").hidden = true; current().hover(null); });
  host.addEventListener("click", (event) => {
    const target = logitUnder(place, current(), event, host);
    if (/** @type {PointerEvent} */ (event).pointerType === "touch" && target) {
      byId("tooltip").hidden = false;
      byId("tooltip").replaceChildren(...logitTip(current(), place, target));
      placeTip(byId("tooltip"), event.clientX, event.clientY);
    }
    if (target) go(logitChange(current(), target));
  });
  host.addEventListener("keydown", (event) => logitKey(current(), go, event));
}

/** The text, each token on the ground of its contribution, the number below it. */
function logitTokens(scene, block, go, current) {
  const shares = logitColumns(scene, block.entering);
  const limit = largest(shares);
  const labels = labelsOf(scene);
  const chips = Array.from(shares, (share, column) => {
    const asked = scene.axes.columns[column].members.map((position) => overviewOf(scene.data, position)).find(Boolean);
    const number = asked && scene.data.runs[0].blocks[asked.block] === block ? "this" : Number.isNaN(share) ? asked ? "why?" : "–" : formatChange(share, false);
    const title = `${labels[column]} · position ${scene.axes.columns[column].position}: ${number}${logitUnit(block)}`;
    const chip = shareChip(labels[column], number, title, Number.isNaN(share) || limit === 0 ? null : shadeOf(scene.palette, share, limit, "signed", scene.selection.root));
    chip.classList.toggle("later", Number.isNaN(share) && number !== "this");
    chip.classList.toggle("cell", number === "this");
    chip.addEventListener("click", () => go(asked || logitTokenChange(current(), column)));
    return chip;
  });
  const host = element("ol", { className: "tokens shared attributed" }, chips);
  host.setAttribute("aria-label", `token contributions to the ${block.target}`);
  host.tabIndex = 0;
  host.classList.toggle("long", chips.length > 20);
  return { host, chips };
}

/** The list of targets, where there are several; those of a continuation are chosen in its text. */
function logitChoice(scene, go) {
  const { data, selection } = scene;
  const blocks = logitBlocks(data, selection.run);
  if (blocks.length < 2 || blocks.every(([, { position }]) => position !== undefined)) return [];
  const select = element("select", { autocomplete: "off" }, blocks.map(([name, block]) => option(name, block.choice || `${block.target} (${block.rules})`)));
  select.value = blocks.find(([, block]) => block === chosenLogit(data, selection))[0];
  select.setAttribute("aria-label", "target");
  select.addEventListener("change", () => go({ block: select.value, ...overviewOf(data, data.runs[selection.run].blocks[select.value].position) }));
  return [element("div", { className: "toggles" }, [select])];
}

export function logitView(scene, go, width) {
  let shown = scene;
  const current = () => shown;
  const place = logitPlace(scene, width);
  const { stream: { block } } = place;
  const [labels, marks] = [svg("g"), svg("g")];
  const canvases = logitPictures(scene, place).map(({ picture, x, y, width: wide, height }) => placed(paint(picture, scene.palette, wide * scene.ratio, height * scene.ratio), x, y, wide, height));
  const columns = columnLabels(scene, place.frame);
  const drawing = svg("svg", { width, height: place.height, "aria-hidden": "true" }, [hatchPattern(scene.palette), ...logitSurroundings(scene, place), ...columns.nodes, labels, marks]);
  const host = element("div", { className: "logit", tabIndex: 0 }, [...canvases, drawing]);
  host.setAttribute("role", "application");
  connectLogit(host, place, go, current);
  const tokens = block && block.entering ? logitTokens(scene, block, go, current) : null;
  const update = (now) => {
    shown = now;
    host.setAttribute("aria-label", `Layers by tokens, arrow keys choose. ${block ? logitSentence(now) : takenWords(now).headline}`);
    labels.replaceChildren(...columns.mark(markedColumn(now)), ...logitLayers(now, place));
    if (tokens) tokens.chips.forEach((chip, column) => chip.setAttribute("aria-current", String(column === ownColumn(now))));
    const mark = (target) => marks.replaceChildren(...logitMarks(now, place, target));
    now.marked.push(mark);
    mark(null);
  };
  if (!block) return { nodes: [host], update };
  const note = logitNote(scene, 1 / (place.frame.cell.width * scene.ratio));
  const nodes = [
    ...logitChoice(scene, go), ...(tokens ? [tokens.host] : []), host,
    element("details", { className: "note" }, [element("summary", { textContent: "What is drawn" }), element("p", { textContent: block.measure ? `${block.measure.how} ${note}`.trim() : `${logitEquation(block)}. ${note}` })]),
  ];
  return { nodes, update };
}

/** Numbers of layers, beside the stream and beside heads that stand below it. */
function logitLayers(scene, place) {
  const { stream, lines, frame, headFrame, heads, beside } = place;
  const below = (heads || place.neuronFrame) && !beside;
  return [...logitLayerLabels(scene, place, place.numbered, frame.top, stream.rows.length), ...(below ? logitLayerLabels(scene, place, headFrame.left, headFrame.top, lines) : [])];
}

/** The layers for a file. */
export function logitFigure(scene, width) {
  const place = logitPlace(scene, width);
  const columns = columnLabels(scene, place.frame);
  const nodes = [...logitSurroundings(scene, place), ...columns.nodes, ...columns.mark(markedColumn(scene)), ...logitLayers(scene, place), ...logitMarks(scene, place, null)];
  return { groups: [{ x: 0, y: 0, pictures: logitPictures(scene, place), nodes }], width: place.width, height: place.height };
}
