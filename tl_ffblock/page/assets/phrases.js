/* What is said: names of maps, the sentence about the selection, what a cell is. No DOM. */

import { formatChange, formatError, formatNumber, formatPercent, formatPoints, formatRough } from "./numbers.js";
import { isMixed, isShareOfRow, labelsOf, panelsOf, shownMap, whichOf } from "./scene.js";
import { largest } from "./shares.js";
import { intervalRuns } from "./tables.js";
import { letters } from "./text.js";

const UNITS = {
  others: "share of the row's sum over other tokens",
  row: "share of the row's sum",
  column: "share of the column's sum",
  none: "norm, in units of the residual stream",
};
const SCALE_ENDS = { "off-diagonal": "the largest value of another token", percentile: "the 99th percentile of other tokens' values" };
const COMPONENTS = { ATTN: "attention", RES: "the residual connection", LN: "the norm", FF: "the feed-forward block" };

/* Letters of a token that a sentence has at most. */
const QUOTED = 48;

/** A token in a sentence, of a very long one the beginning; and which of those that are written alike. */
export function quotation(label, which = "") {
  const read = letters(label.slice(0, 20 * QUOTED));
  return `“${read.length > QUOTED ? `${read.slice(0, QUOTED - 1).join("")}…` : label}${which}”`;
}

/** A number of a map, signed where it is a change; changes of shares are points. */
export function shownOf(map, value, asShare) {
  if (map.role === "difference" || map.scale === "signed") return formatChange(value, asShare);
  return asShare ? formatPercent(value) : formatNumber(value);
}

/** A token in a sentence, with its position where others are written alike. */
export function tokenWords(scene, column) {
  return quotation(labelsOf(scene)[column], whichOf(scene, column));
}

/** A channel in a reader's words, then its name: "attention block (Atb)". */
export function channelWords(data, key) {
  const channel = data.channels.get(key);
  return channel.label === channel.name ? key : `${channel.label} (${channel.name})`;
}

/** The text that a run has read, its first `most` letters, without the marks of white space before words. */
export function sentenceText(data, run, most) {
  return data.runs[run].tokens.join(" ").replace(/(^| )·/g, "$1").slice(0, most);
}

function runName(data, run) {
  return data.runs.length > 1 ? data.runs[run].name : "";
}

export function sideName(data, run, key) {
  return [runName(data, run), data.channels.get(key).name].filter(Boolean).join(" · ");
}

/** A name for each map: of the difference, of maps of two kinds with their block, of others by `naming`. */
export function namesOfMaps(scene, naming) {
  return scene.maps.map((map) => (map.role === "difference" ? "difference" : isMixed(scene) ? map.key : naming(map)));
}

/** What stands over columns of numbers, one for each map: what tells the maps apart. */
export function sideHeads(scene) {
  const { data, maps } = scene;
  const named = maps.filter(({ role }) => role !== "difference");
  const differ = (field) => new Set(named.map((map) => map[field])).size > 1;
  return namesOfMaps(scene, ({ run, key }) => (differ("run") ? differ("key") ? sideName(data, run, key) : runName(data, run) : data.channels.get(key).name));
}

/** Whether the comparison is of a step with what goes into it, in one run. */
function isOwnStep(scene) {
  const { data, selection } = scene;
  return selection.run === selection.refRun && selection.ref !== "" && data.channels.get(selection.scope).before === selection.ref;
}

export function titleOf(scene, map) {
  const { data, selection } = scene;
  if (map.role === "difference") return "Difference";
  if (map.role === "only") return sideName(data, map.run, map.key);
  const step = isOwnStep(scene) && data.channels.get(selection.scope).component;
  const place = map.role === "before" ? "Before" : "After";
  return step ? `${place} ${step}: ${data.channels.get(map.key).name}` : sideName(data, map.run, map.key);
}

export function subtitleOf(scene, map) {
  const { data, selection } = scene;
  if (map.role === "difference") {
    const sides = [sideName(data, selection.run, selection.scope), sideName(data, selection.refRun, selection.ref)];
    return `${sides[0]} − ${sides[1]}`;
  }
  if (data.block(map.key).signed) return data.block(map.key).title;
  return data.channels.get(map.key).label;
}

function unitOf(scene, map) {
  const block = scene.data.block(map.key);
  const unit = map.asShare ? UNITS[map.shares] : block.unit;
  const signed = map.scale === "signed" && map.asShare;
  if (map.role === "difference" || signed) return `${signed && map.role !== "difference" ? "difference" : "change"} of the ${unit}${map.asShare ? ", in percentage points" : ""}`;
  return unit;
}

/** Whether some cells lie beyond the colour scale. */
export function isClipped(map) {
  return map.top > map.limit * 1.0001;
}

/** Whether a map is the mean of signed numbers, whose intervals may contain zero. */
export function hasCrosses({ data, selection }, map) {
  return map.role !== "difference" && map.scale === "signed" && map.run === 0 && !selection.words && selection.cells === "none" && intervalRuns(data).length > 0;
}

export function pixelRemark(perPixel) {
  return perPixel > 1.001 ? [`1 pixel = ${formatNumber(perPixel, 2)} tokens, the strongest is shown. Drag to zoom.`] : [];
}

/** What the reader must know about a map; `perPixel` is how many cells share a pixel. */
export function remarksOf(scene, map, perPixel) {
  const { selection, strips } = scene;
  const remarks = [unitOf(scene, map) + (selection.root ? ", on a square-root scale." : ".")];
  if (isClipped(map)) remarks.push(`Colours end at ${SCALE_ENDS[selection.range]}${isShareOfRow(scene.data, map.shares) ? " in rows of three or more" : ""}; cells reach ${formatRough(map.top, map.asShare, map.scale === "signed")}.`);
  if (hasCrosses(scene, map)) remarks.push("Crossed: the 95 % interval contains 0.");
  if (scene.hidden.size) remarks.push("Hidden tokens are left out of the shares.");
  const norms = strips.filter((name) => name !== "own" && map.columns[name]);
  for (const name of norms) remarks.push(`${name}: up to ${formatRough(largest(map.columns[name]), false)}.`);
  return [...remarks, ...pixelRemark(perPixel)];
}

/** What a cell of a block's maps is, shown as `cells`. */
export function cellMeaning(block, cells) {
  const amount = {
    others: ", as a share of the row's sum over all other tokens",
    row: ", as a share of the row's sum over all tokens",
    column: ", as a share of the column's sum",
    none: "",
  }[cells];
  return `${block.meaning}${amount}`;
}

/** One sentence that says what a cell is. */
function meaningOf({ data, selection }) {
  const block = data.block(selection.scope);
  return `A cell: ${cellMeaning(block, block.shares || selection.cells)}.`;
}

function verb(before, after) {
  return after > before ? "raises" : after < before ? "lowers" : "leaves";
}

function capital(words) {
  return words && words[0].toUpperCase() + words.slice(1);
}

/** "layer 3"; nothing on a page whose numbers are of the whole model. */
export function layerWords({ data, selection }) {
  return data.layered ? `layer ${selection.layer}` : "";
}

/** Which map of several a number is of: "layer 3, mean · Atb". */
function mapWords(scene) {
  const { data, selection } = scene;
  const name = data.layered || data.channels.size > 1 ? sideName(data, selection.run, selection.scope) : runName(data, selection.run);
  return [layerWords(scene), name].filter(Boolean).join(", ");
}

function subjectOf(scene) {
  const { data, selection } = scene;
  if (selection.run !== selection.refRun) {
    return `${capital([layerWords(scene), data.channels.get(selection.scope).name].filter(Boolean).join(", "))}: from ${data.runs[selection.refRun].name} to ${data.runs[selection.run].name}`;
  }
  const component = COMPONENTS[data.channels.get(selection.scope).component];
  if (isOwnStep(scene) && component) return `Layer ${selection.layer}: ${component}`;
  return `Layer ${selection.layer}: from ${data.channels.get(selection.ref).name} to ${data.channels.get(selection.scope).name}`;
}

export function cannotSee(to, from) {
  return `${to} cannot see ${from}, which comes later.`;
}

/** What a cell of a block is between two tokens, without an article. */
export function pairWords(block, to, from) {
  return block.short === "weight" ? `attention of ${to} to ${from}` : `contribution of ${from} to ${to}`;
}

/** Why the selected cell has no number among those shown; of shares of the others the row's own cell has one beside them. */
function absenceOf(scene, to, from) {
  const { axes, row, column, hidden } = scene;
  const shown = shownMap(scene);
  const own = column === axes.own[row] && !hidden.has(column) && shown.columns.own;
  if (own) return `${formatPercent(own[row])} of ${to} is its own; the map shows the remainder.`;
  const why = hidden.has(column) ? `${from} is hidden` : "these maps have no such cell";
  return `There is no ${shown.asShare ? "share" : "number"} here of the ${pairWords(scene.data.block(scene.selection.scope), to, from)}: ${why}.`;
}

/** What the cell's number is, as a part of a sentence: of shares, the share of what. */
function amountWords({ data, maps }, to, from) {
  return {
    others: `the share of ${from} in other tokens' contributions to ${to}`,
    row: `the share of ${from} in all contributions to ${to}`,
    column: `the share of ${to} in all contributions of ${from}`,
    none: `the ${pairWords(data.block(maps[0].key), to, from)}`,
  }[maps[0].shares];
}

/** What the cell of a difference says: in which of the two there is more. */
function differenceWords(map, [first, second], to, from, number) {
  const size = map.asShare ? formatPoints(Math.abs(number)) : formatNumber(Math.abs(number));
  const what = map.asShare ? ", as a share of other tokens' contributions," : "";
  if (number === 0) return `${from} contributes${what} as much to ${to} in ${first} as in ${second}`;
  return `${from} contributes${what} ${size} ${number > 0 ? "more" : "less"} to ${to} in ${first} than in ${second}`;
}

/** What the cell of a single map says. */
function singleWords(scene, to, from, number) {
  const { data, maps: [map] } = scene;
  const value = shownOf(map, number, map.asShare);
  const { sides } = data.block(map.key);
  if (sides.length) return differenceWords(map, sides, to, from, number);
  if (!data.layered) return `${from} contributes ${value} to ${to}`;
  return {
    others: `${value} of other tokens' contributions to ${to} come from ${from}`,
    row: `${value} of all contributions to ${to} come from ${from}`,
    column: `${value} of all contributions of ${from} go to ${to}`,
    none: `the ${pairWords(data.block(map.key), to, from)} is ${value}`,
  }[map.shares];
}

/** The selection as a finding, its numbers included: what a figure's title says. */
export function headlineOf(scene) {
  const { data, maps, axes, row, column, selection } = scene;
  const index = row * axes.nColumns + column;
  const show = (side) => shownOf(maps[side], values[side], maps[side].asShare);
  const [to, from] = [tokenWords(scene, axes.own[row]), tokenWords(scene, column)];
  const values = maps.map((map) => map.cells[index]);
  if (!axes.reaches(row, column)) return cannotSee(to, from);
  if (values.some(Number.isNaN)) return absenceOf(scene, to, from);
  if (maps.length === 1) return `${capital([mapWords(scene), singleWords(scene, to, from, values[0])].filter(Boolean).join(": "))}.`;
  if (isMixed(scene)) {
    const said = maps.map((map, side) => `${show(side)} (${data.block(map.key).title}, ${data.channels.get(map.key).name})`);
    return `Layer ${selection.layer}, contribution of ${from} to ${to}: ${said.join(" and ")}.`;
  }
  const numbers = `${show(0)} → ${show(1)}`;
  const amount = amountWords(scene, to, from);
  const separate = selection.run !== selection.refRun || !isOwnStep(scene);
  return separate
    ? `${subjectOf(scene)}, ${amount} goes ${numbers}.`
    : `${subjectOf(scene)} ${verb(values[0], values[1])} ${amount}: ${numbers}.`;
}

/** What is marked in a file of the maps: the line that is read, and the cell that the headline speaks of. */
function markedWords(scene) {
  const { axes, row, column, selection, window: [top, bottom, left, right] } = scene;
  const [rowSeen, columnSeen] = [row >= top && row <= bottom, column >= left && column <= right];
  const [to, from] = [tokenWords(scene, axes.own[row]), tokenWords(scene, column)];
  const line = selection.read === "row" ? rowSeen && `the row of ${to}` : columnSeen && `the column of ${from}`;
  const cell = rowSeen && columnSeen && axes.reaches(row, column) && `the cell from ${from} to ${to}`;
  const marked = [line, cell].filter(Boolean);
  return marked.length ? `Marked: ${marked.join(" and ")}.` : "";
}

/** What is said of the maps view, on the page and in its files: `headline`, `meaning`, the caption's parts, the file's name. */
export function mapsWords(scene) {
  const { data, selection, maps } = scene;
  const sides = [selection.ref && sideName(data, selection.refRun, selection.ref), sideName(data, selection.run, selection.scope)];
  const named = maps.filter((map) => map.role !== "difference").map((map) => channelWords(data, map.key)).join(" and ");
  return {
    headline: headlineOf(scene), meaning: meaningOf(scene), further: selection.cells === "others" ? "Grey strip: the token's own share." : "", place: layerWords(scene), note: markedWords(scene), exact: maps.some((map) => data.block(map.key).exact), method: "",
    shown: `${data.block(selection.scope).title}, ${named}`,
    remark: panelsOf(scene).includes(maps[2]) ? `${titleOf(scene, maps[2])}: ${subtitleOf(scene, maps[2])}.` : "",
    file: [layerWords(scene).replace(" ", ""), sides.filter(Boolean).join("-").slice(0, 60), selection.cells],
  };
}

/** What is drawn, with the sentences that the page has in its help. */
export function wholeMeaning({ meaning, further = "" }) {
  return [meaning, further].filter(Boolean).join(" ");
}

/** The model, and the text that it read where there is one. */
export function modelReading(data, { run }, most) {
  return data.words.length ? `${data.model} reading “${sentenceText(data, run, most)}”` : data.model;
}

/**
 * Model, sentence, what is shown of which layer, how numbers were made: what a reader of the figure alone has to know. The page's
 * certificate, and the paper's method, are those of `exact` maps; other numbers come with the name of their `method`.
 */
export function captionOf({ data, selection }, words) {
  const exact = data.certificate && words.exact;
  const method = exact ? "method of Kobayashi et al. (2024)" : words.method;
  const versions = ["tl_ffblock", "transformer_lens", "torch"].filter((name) => data.provenance[name]).map((name) => `${name} ${data.provenance[name]}`).join(", ");
  const made = [versions, method].filter(Boolean).join("; ");
  return [
    words.headline,
    `${modelReading(data, selection, 300)}${words.place && `, ${words.place}`}: ${words.shown}. ${wholeMeaning(words)}`.trim(),
    words.remark, words.note,
    exact ? `Sums of parts equal the model's own tensors to ${formatError(data.certificate.error)}.` : "",
    made && `${made}.`,
  ].filter(Boolean).join(" ");
}

export function certificateText(data) {
  const worst = data.certificate;
  if (!worst) return data.statement;
  const place = `${worst.scope}, layer ${worst.layer}, ${quotation(data.runs[worst.run].tokens[worst.query])} at position ${worst.query}`;
  const whose = data.block(data.start.scope).signed ? "Both results are exact" : "✓ Exact";
  return `${whose}: parts and bias sum to the model's own tensors, with a relative error of at most ${formatError(worst.error)} (${place}).`;
}

/** The page's file names, safe everywhere; `words.file` says what is in the file. */
export function fileName({ data, selection }, words, ending) {
  const tokens = data.runs[selection.run].tokens.slice(0, 6).join("-").slice(0, 40);
  const parts = [data.model.slice(0, 40), tokens, ...words.file.filter(Boolean)];
  return parts.join("_").replace(/[^A-Za-z0-9._-]+/g, "").replace(/-{2,}/g, "-") + `.${ending}`;
}
