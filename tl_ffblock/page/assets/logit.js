/* A target attributed through the layers: its numbers as they are shown, and the words about them. No DOM. */

import { REMOVAL_ENDS } from "./colours.js";
import { formatChange, formatNumber, formatPercent, formatRough } from "./numbers.js";
import { mapsWords, pairWords, pixelRemark, tokenWords } from "./phrases.js";
import { biographyLimit, biographyOf, labelsOf, ownColumn, ownThrough, shownMap } from "./scene.js";
import { largest, limitOf } from "./shares.js";
import { blocksOf, channelKey, intervalRuns } from "./tables.js";
import { rangeWords, trackRanges } from "./tracks.js";

/** Whether a page has the overview of a target. */
export function hasLogit(data) {
  return logitBlocks(data, 0).length > 0;
}

export function logitBlocks(data, run) {
  return Object.entries(data.runs[run].blocks).filter(([, block]) => block.kind === "logit");
}

/** The target that is shown: the one chosen, else the first; null where a page has none. */
export function chosenLogit(data, selection) {
  const blocks = logitBlocks(data, selection.run);
  const [, block] = blocks.find(([name]) => name === selection.block) || blocks[0] || [null, null];
  return block;
}

/** The change that shows what made the token at a position, of a continuation; null where the page has no overview of it. */
export function overviewOf(data, position) {
  const [name] = (position !== undefined && logitBlocks(data, 0).find(([, block]) => block.position === position)) || [];
  return name ? { block: name, to: position - 1, read: "row" } : null;
}

/** One number a position as one a column: of words their sum; NaN where the token is hidden. */
export function logitColumns({ axes, hidden }, shares) {
  return Float32Array.from(axes.columns, ({ members }, column) => (hidden.has(column) ? NaN : members.reduce((sum, position) => sum + (shares[position] ?? NaN), 0)));
}

/** The row of a layer; -1 where the block has none. */
function rowOf(block, layer) {
  return block.layers.indexOf(layer);
}

/** What has one scale: the same target in all runs; of measured numbers every kind of component, as far as they have one unit. */
function alikeIn(data, block) {
  const blocks = data.runs.flatMap((run) => Object.entries(run.blocks)).filter(([, { kind }]) => kind === "logit");
  const [name] = blocks.find(([, held]) => held === block);
  return blocks.filter(([other, held]) => (block.measure ? held.measure && held.target === block.target && held.scale === block.scale : other === name)).map(([, held]) => held);
}

/** The heads of each row: [row, head], or where there is one number per column that of the token that is read. */
function headsAt(scene, block, heads = block.heads) {
  if (!isByColumn(block)) return heads;
  const { members } = scene.axes.columns[ownColumn(scene)];
  return heads.map((row) => row.map((numbers) => numbers[members[0]]));
}

/** Whether heads have one number per column. */
export function isByColumn({ heads }) {
  return Boolean(heads) && Array.isArray(heads[0][0]);
}

/** A token in a sentence; a name of a position as it is. */
function columnWords(scene, column) {
  return scene.data.named ? labelsOf(scene)[column] : tokenWords(scene, column);
}

function hasBiases(block) {
  return block.biases.some(([, , share]) => share !== 0);
}

/** The largest end of an interval, so that whiskers end on the scale: low and high ends by row. */
function largestEnd(ends) {
  return ends ? Math.max(0, ...ends.flat().map(largest)) : 0;
}

/** What flows through each token at each layer's input and at the end, where the colours end, and the strip beside it. */
export function logitStream(scene) {
  const block = chosenLogit(scene.data, scene.selection);
  const rows = block.residual.map((shares) => logitColumns(scene, shares));
  const { nColumns } = scene.axes;
  const cells = new Float32Array(rows.length * nColumns);
  rows.forEach((row, index) => cells.set(row, index * nColumns));
  const intervals = block.ends ? block.ends.map((end) => end.map((shares) => logitColumns(scene, shares))) : null;
  const limit = streamLimit(scene, block, intervals);
  const scale = block.scale || "signed";
  return {
    block, rows, cells, limit, top: largest(cells), scale, before: null, ends: intervals, neurons: block.neurons, unit: logitUnit(block), asShare: Boolean(block.says),
    layers: block.layers, names: block.names, strip: stripOf(block, rows, limit),
    heads: block.heads ? { values: headsAt(scene, block), names: block.heads[0].map((_, head) => String(head)), least: 0, limit: headsLimit(scene, block), scale, words: headsWords(scene, block) } : null,
  };
}

/** Where the colours of streams end; probabilities at 1. */
function streamLimit(scene, block, intervals) {
  if (block.says) return 1;
  const { nColumns } = scene.axes;
  const ends = alikeIn(scene.data, block).map(({ residual }) => {
    const cells = Float32Array.from(residual.flatMap((shares) => Array.from(logitColumns(scene, shares))));
    return limitOf({ nRows: residual.length, nColumns, own: residual.map(() => -1) }, cells, scene.selection.range);
  });
  return Math.max(...ends, largestEnd(intervals), ...(block.one_scale ? [headsMost(block)] : []));
}

/** What is beside the streams: the target of a logit lens, else biases where there are any. */
function stripOf(block, rows, limit) {
  if (block.strip) return { name: block.strip.name, curve: true, scale: "signed", limit: largest(block.strip.values), values: Float32Array.from(block.strip.values) };
  return hasBiases(block) ? { name: "biases", scale: "signed", limit, values: Float32Array.from(rows, (_, row) => logitBiasesAt(block, row)) } : null;
}

function headsMost({ heads }) {
  return heads ? largest(heads.flat(2).map((value) => value ?? NaN)) : 0;
}

/** Where colours of heads end: at the largest of every run of the target, of numbers with one scale for all at that of the streams. */
function headsLimit(scene, block) {
  return block.one_scale ? streamLimit(scene, block, null) : Math.max(...alikeIn(scene.data, block).map(headsMost));
}

function headsWords(scene, block) {
  const at = isByColumn(block) ? ` at ${columnWords(scene, ownColumn(scene))}` : "";
  return `${block.heads_name || "heads"}${at}, ±${formatRough(headsLimit(scene, block), false)}`;
}

/** The rail's numbers of the block of heads that goes with the maps that are shown: how much of the rows comes through each from others. */
function trackOfHeads({ data, selection }) {
  const scope = data.channels.get(selection.scope);
  const blocks = blocksOf(data, "head");
  const found = blocks.find(([name, block]) => block.of === scope.name || name === scope.blockName) || blocks[0];
  const track = found && data.runs[selection.run].blocks[found[0]].tracks[0];
  if (!track) return null;
  const columns = track.columns.filter(({ channel }) => channel !== "residual");
  const values = data.layers.map((_, layer) => columns.map(({ channel }) => track.values[channel][layer] ?? NaN));
  const [[least, limit]] = trackRanges([track]);
  return { values, least, limit, scale: "contribution", names: columns.map(({ label }) => label.replace(/^head /, "")), words: `heads: ${track.title}${rangeWords(track) && `, ${rangeWords(track)}`}` };
}

/** Without a target: the contributions to (or of) the selected token at each layer, now and before the step, and its own share. */
function takenStream(scene) {
  const { data, selection, axes, maps } = scene;
  const map = shownMap(scene);
  const cells = biographyOf(scene, selection.run, selection.scope);
  const before = maps.length === 3 ? biographyOf(scene, selection.refRun, selection.ref) : null;
  const ends = before ? [] : intervalRuns(data).filter((run) => selection.run === 0 && data.loaded(run, selection.scope)).map((run) => biographyOf(scene, run, selection.scope));
  const rowsOf = (all) => data.layers.map((_, index) => all.subarray(index * axes.nColumns, (index + 1) * axes.nColumns));
  const ownKept = selection.read === "row" && map.columns.own;
  return {
    block: null, rows: rowsOf(cells), cells, before: before && rowsOf(before), ends: ends.length === 2 ? ends.map(rowsOf) : null, scale: map.scale, asShare: map.asShare,
    limit: Math.max(biographyLimit(scene, cells), before ? biographyLimit(scene, before) : 0, largestEnd(ends.map((end) => [end]))), top: Math.max(largest(cells), before ? largest(before) : 0),
    layers: data.layers, names: data.layers.map(String), neurons: [], unit: "", heads: trackOfHeads(scene),
    strip: ownKept ? { name: "own", scale: "bias", limit: 1, values: ownThrough(scene, selection.run, selection.scope) } : null,
  };
}

/** What is next to the streams, without their numbers: whether a strip and neurons do, how many heads, and what is said above these. */
export function besidesOf(scene) {
  const block = chosenLogit(scene.data, scene.selection);
  if (block) return { names: block.names, curve: block.says ? Boolean(block.strip) : null, strip: Boolean(block.strip) || hasBiases(block), heads: block.heads ? block.heads[0].length : 0, words: block.heads ? headsWords(scene, block) : "", neurons: block.neurons.length > 0 };
  const heads = trackOfHeads(scene);
  return { names: scene.data.layers.map(String), curve: null, strip: scene.selection.read === "row" && Boolean(shownMap(scene).columns.own), heads: heads ? heads.names.length : 0, words: heads ? heads.words : "", neurons: false };
}

/** Whether a column is of a token that comes later than the target of a continuation, or of which one of the two cannot see the other. */
export function comesLater(scene, column) {
  const { axes, selection } = scene;
  const block = chosenLogit(scene.data, selection);
  if (block) return block.position !== undefined && axes.columns[column].position >= block.position;
  if (selection.read === "row") return !axes.reaches(scene.row, column);
  const row = axes.own.indexOf(column);
  return row >= 0 && !axes.reaches(row, scene.column);
}

/** What the overview draws: rows are layers, columns tokens; of a target its attribution, else contributions of other tokens to one. */
export function streamOf(scene) {
  return chosenLogit(scene.data, scene.selection) ? logitStream(scene) : takenStream(scene);
}

/** What the overview of maps asks: what the step that is shown changes in every layer, or what differs between two runs. */
export function mapsQuestion({ data, selection }) {
  if (selection.run !== selection.refRun) return `How does “${data.runs[selection.run].name}” differ from “${data.runs[selection.refRun].name}”?`;
  const { component, before } = data.channels.get(selection.scope);
  const { sides } = data.block(selection.scope);
  if (sides.length) return `What is larger in ${sides[0]} than in ${sides[1]}?`;
  const words = { FF: "feed-forward", ATTN: "attention", RES: "residual connection", LN: "norm" }[component];
  return words && selection.ref && selection.ref === before ? `What does each layer's ${words} change?` : "Which tokens contribute in each layer?";
}

/* What a width or a colour is, by what cells are shown as: of maps of lengths, and of others. */
const LENGTHS = {
  others: "vector length, as a share of all other tokens'",
  row: "vector length, as a share of all tokens'",
  column: "vector length, as a share of the same token's to all",
  none: "vector length",
};
const VALUES = {
  others: "as a share of the sum over all other tokens", row: "as a share of the sum over all tokens", column: "as a share of the source's sum over destinations", none: "",
};

/** What is said of the overview of maps, on the page and in its files; `banded` says whether streams are bands or, where there is less room, cells. */
export function takenWords(scene, banded = true) {
  const { data, selection } = scene;
  const words = mapsWords(scene);
  const token = tokenWords(scene, ownColumn(scene));
  const block = data.block(selection.scope);
  const { shares } = shownMap(scene);
  const lengths = !block.signed && ["norm", "share"].includes(block.short);
  const amount = lengths ? LENGTHS[shares] : VALUES[shares] || (block.sides.length ? block.unit.split(": ")[0] : block.unit); // the heading names both sides
  const through = block.axis !== "scope" ? ` through ${data.channels.get(selection.scope).name}` : "";
  const whose = selection.read === "row" ? pairWords(block, token, "each token") : pairWords(block, "each token", token);
  const compared = scene.maps.length === 3;
  const other = selection.run === selection.refRun ? "before" : `in “${data.runs[selection.refRun].name}”, the underline`;
  const change = compared ? (banded ? `Orange: more than ${other}; violet: less.` : "Zoom in for the change.") : intervalRuns(data).length && banded ? "Lines: 95 % intervals; hollow: the interval contains 0." : "";
  return { ...words, meaning: `${banded ? "Bands" : "Cells"}: ${whose}${through}: ${amount}.`, further: change, file: ["layers", ...words.file.slice(1)] };
}

/** Every number of that overview. */
function takenTable(scene) {
  const { rows, before, names } = takenStream(scene);
  const labels = labelsOf(scene);
  const lines = function* () {
    for (const [row, shares] of rows.entries()) {
      for (const [column, share] of shares.entries()) {
        if (!Number.isNaN(share)) yield [names[row], scene.axes.columns[column].position, labels[column], ...(before ? [before[row][column]] : []), share];
      }
    }
  };
  return { head: ["layer", "position", "token", ...(before ? ["before"] : []), "share"], lines, count: rows.length * labels.length };
}

/** Sum of the biases (and edits) that enter at a layer. */
export function logitBiasesAt(block, layer) {
  return block.biases.reduce((sum, [, at, share]) => (at === layer ? sum + share : sum), 0);
}

/** At a layer's input: what flows through all tokens, what enters from there on, and both. */
function logitSums(block, layer) {
  const flowing = block.residual[rowOf(block, layer)].reduce((sum, share) => sum + share, 0);
  const later = block.biases.reduce((sum, [, at, share]) => (at >= layer ? sum + share : sum), 0);
  return { flowing, later, both: flowing + later };
}

export function logitUnit(block) {
  return block.unit ? ` ${block.unit}` : "";
}

export function logitTarget(block) {
  return `${block.target} = ${formatNumber(block.value, 4)}${logitUnit(block)}`;
}

/** The value as the sum that it is. */
export function logitEquation(block) {
  return `${formatNumber(block.value, 4)} = ${block.sums.map(([name, share]) => `${name} ${formatChange(share, false, 4)}`).join(" · ")}`;
}

/** Whether nothing flows at a layer's input, because the target is read before. */
export function logitIsBefore(block, layer) {
  return !block.measure && block.residual[rowOf(block, layer)].every((share) => share === 0) && block.value !== 0;
}

/** The largest neurons of a layer, as far as the page has them: number and share. */
export function logitNeurons(block, layer) {
  return block.neurons[layer] || [];
}

/** What the residual stream at each token contributes at a layer's input. */
export function logitShares(scene, layer) {
  const block = chosenLogit(scene.data, scene.selection);
  return logitColumns(scene, block.residual[rowOf(block, layer)] || []);
}

/** What is selected beside a token, by its name, share and place: a neuron, else a head with its pair; null where neither is. */
function selectedComponent(scene, block) {
  const { layer, neuron, to, from, list } = scene.selection;
  const everywhere = isByColumn(block) ? `at ${columnWords(scene, ownColumn(scene))}` : "over all positions";
  const [, ofNeuron] = logitNeurons(block, layer).find(([number]) => number === neuron) || [];
  if (ofNeuron !== undefined) return { name: `L${layer}N${neuron}`, share: ofNeuron, place: everywhere, more: "" };
  const head = logitHead(block, scene.selection);
  if (head < 0) return null;
  const whole = headsAt(scene, block)[rowOf(block, layer)][head];
  const [, , share] = (block.edges[`${layer},${head}`] || []).find(([query, key]) => query === to && key === from) || [];
  const pair = `from ${tokenWords(scene, scene.axes.columnOf[from])} to ${tokenWords(scene, scene.axes.columnOf[to])}`;
  const name = `L${layer}H${head}`;
  if (share !== undefined && list === "edges") return { name, share, moved: true, place: pair, more: `; ${formatChange(whole, false)} ${everywhere}` };
  return { name, share: whole, place: everywhere, more: share === undefined ? "" : `; ${formatChange(share, false)} ${pair}` };
}

/** What is selected, and how much of the target it contributes: a neuron, a head with its pair, else the token at the layer's input. */
export function logitSentence(scene) {
  const { data, selection: { layer } } = scene;
  const block = chosenLogit(data, scene.selection);
  if (block.measure) return measuredSentence(scene, block);
  const amount = (share) => `contributes ${formatChange(share, false)} of ${formatNumber(block.value)}${logitUnit(block)}`;
  const part = (share) => (Math.abs(share) > Math.abs(block.value) || block.value === 0 ? "" : `, ${formatPercent(share / block.value)} of the answer`);
  const component = selectedComponent(scene, block);
  if (component && component.moved) return `At layer ${layer}, ${component.name} moves ${formatChange(component.share, false)} of ${formatNumber(block.value)}${logitUnit(block)} ${component.place}${part(component.share)}${component.more}.`;
  if (component) return `${component.name} ${amount(component.share)} ${component.place}${part(component.share)}${component.more}.`;
  const column = ownColumn(scene);
  const token = columnWords(scene, column);
  if (logitIsBefore(block, layer)) return `At the input of layer ${layer} all attributions are 0: the target is read before.`;
  const share = logitShares(scene, layer)[column];
  return Number.isNaN(share) ? `${token} is hidden.` : `At the input of layer ${layer}, ${token} ${amount(share)}${part(share)}.`;
}

/** The number that is selected of measured ones: of a head that is chosen, else of a column; its interval where it has one. */
function measuredAt(scene, block) {
  const { layer } = scene.selection;
  const [row, column, head] = [rowOf(block, layer), ownColumn(scene), logitHead(block, scene.selection)];
  const read = (numbers) => (head < 0 ? logitColumns(scene, numbers[row] || [])[column] : headsAt(scene, block, numbers)[row][head] ?? NaN);
  const ends = head < 0 ? block.ends : block.head_ends;
  return { row, column, head, share: read(head < 0 ? block.residual : block.heads), ends: ends ? ends.map(read) : [] };
}

/** A measured number, with its sign where there are both. */
export function changeWords({ scale }, value) {
  return scale === "contribution" ? formatNumber(value) : formatChange(value, false);
}

/** "−5.05 → +5.5 logits (+10.6), 95 % interval +9 to +12": the target with and without the change, and its interval. */
function measuredWords(block, share, ends) {
  const { base } = block.measure;
  const unit = logitUnit(block);
  const change = changeWords(block, share);
  const interval = ends.length ? `, 95 % interval ${ends.map((end) => changeWords(block, end)).join(" to ")}` : "";
  return base === null ? `${change}${unit}${interval}` : `${formatNumber(base)} → ${formatNumber(base + share)}${unit} (${change}${interval})`;
}

function measuredSentence(scene, block) {
  const { row, column, head, share, ends } = measuredAt(scene, block);
  if (row < 0) return `Layer ${scene.selection.layer} was not measured.`;
  const words = { layer: block.layers[row] ?? "end", name: block.names[row], column: columnWords(scene, column), head };
  const place = (head < 0 ? block.measure.stream : block.measure.head).replace(/\{(\w+)\}/g, (_, field) => words[field]);
  const subject = place[0].toUpperCase() + place.slice(1);
  if (block.says) {
    const [[token, chance]] = block.says[row][column];
    return `${subject}: “${token}”, ${formatPercent(chance)}; entropy ${formatNumber(block.entropy[row][column])} nats${block.strip ? `; ${block.strip.name} ${formatChange(block.strip.values[row], false)}` : ""}.`;
  }
  return `${subject}: ${Number.isNaN(share) ? "not measured" : measuredWords(block, share, ends)}.`;
}

/** The numbers next to a measured one: the target of each run, the changed target, the change and its interval. */
export function measuredFacts(scene) {
  const block = chosenLogit(scene.data, scene.selection);
  if (!block || !block.measure || block.measure.base === null) return [];
  const { share, ends } = measuredAt(scene, block);
  const { base, facts, verb } = block.measure;
  if (Number.isNaN(share)) return facts.map(([name, value]) => [name, formatNumber(value)]);
  const after = { Patching: "patched", Blocking: "blocked", Estimated: "estimated" }[verb.split(" ")[0]] || "ablated";
  return [...facts.map(([name, value]) => [name, formatNumber(value)]), [after, formatNumber(base + share)], ["change", formatChange(share, false)], ...(ends.length ? [["95 % interval", ends.map((end) => formatChange(end, false)).join(" to ")]] : [])];
}

/** The most probable tokens of the selected cell of a logit lens: token and probability. */
export function lensTokens(scene, block) {
  const row = rowOf(block, scene.selection.layer);
  return block.says && row >= 0 ? block.says[row][ownColumn(scene)] : [];
}

/** What the rows of complete rules sum to: the target, or what of it is linear in the logits. */
function logitWhole(block) {
  return block.sums.some(([name]) => name === "nonlinear") ? "its first-order form" : "it";
}

/** That a layer's numbers sum up. */
export function logitLaw(block, layer) {
  if (block.measure) return block.measure.how;
  const { flowing, later, both } = logitSums(block, layer);
  if (block.others) return `At the input of layer ${layer}: named positions and others sum to ${formatNumber(flowing, 4)}.`;
  const sum = `At the input of layer ${layer}: all tokens ${formatChange(flowing, false, 4)}, later biases ${formatChange(later, false, 4)}`;
  return block.complete ? `${sum}, together ${formatNumber(both, 4)}${logitWhole(block) === "it" ? "" : `, ${logitWhole(block)}`}.` : `${sum}; these rules do not sum to the target.`;
}

/** The head that is chosen of so many, by number; -1 where it is none or several. */
export function chosenHead(count, selection) {
  const heads = selection.heads.split(".").filter(Boolean);
  return heads.length === 1 && Number(heads[0]) < count ? Number(heads[0]) : -1;
}

export function logitHead(block, selection) {
  return block.heads ? chosenHead(block.heads[0].length, selection) : -1;
}

/* Arcs: how many, and the share of the stream's scale that they have at least. */
const ARC_MOST = 14;
const ARC_LEAST = 0.05;

/** The largest attributions of heads between two tokens that are shown, by size: layer, head, columns and positions from and to, share. */
export function logitArcs({ axes, hidden }, block, limit) {
  const found = Object.entries(block.edges).flatMap(([place, edges]) => {
    const [layer, head] = place.split(",").map(Number);
    return edges.map(([query, key, share]) => ({ layer, head, query, key, share, from: axes.columnOf[key], to: axes.columnOf[query] }));
  });
  const across = found.filter(({ from, to, share }) => from !== to && !hidden.has(from) && !hidden.has(to) && Math.abs(share) >= ARC_LEAST * limit);
  return across.sort((a, b) => Math.abs(b.share) - Math.abs(a.share)).slice(0, ARC_MOST);
}

/** The heads of a layer: number and share. */
export function logitHeads(scene, block) {
  const row = rowOf(block, scene.selection.layer);
  return block.heads && row >= 0 ? headsAt(scene, block)[row].map((share, head) => ({ head, share: share ?? NaN })).filter(({ share }) => !Number.isNaN(share)) : [];
}

/** The map of the same target with a sign at the step that is selected, or at the nearest that there is; null without maps. */
export function logitMapKey(data, selection) {
  const block = chosenLogit(data, selection);
  const maps = block && data.runs[selection.run].blocks[block.maps];
  if (!maps) return null;
  const { name } = data.channels.get(selection.scope);
  const channel = maps.channels.find((candidate) => candidate.name === name) || maps.channels[maps.channels.length - 1];
  return channelKey(data, block.maps, channel.name);
}

/** The change that shows that map beside the norms of the same step. */
export function logitMapChange(data, selection) {
  const scope = logitMapKey(data, selection);
  const { name } = data.channels.get(scope);
  return { view: "maps", scope, ref: data.channels.has(name) && !data.block(name).signed ? name : "" };
}

const INKS = { signed: "Orange: positive, violet: negative.", removal: `Orange ${REMOVAL_ENDS[0]}, violet ${REMOVAL_ENDS[1]}.`, contribution: "" };

/** What heads are beside the streams. */
function headsNote(scene, block) {
  const end = `±${formatRough(headsLimit(scene, block), false)}`;
  if (block.one_scale) return "Heads are on the same scale.";
  if (block.measure) return `Heads${isByColumn(block) ? " at the selected position" : ""} are on their own scale: ${end}.`;
  const where = isByColumn(block) ? "at the selected position" : "summed over all positions";
  return `Heads, ${where}, on their own scale: ${end}; later layers read earlier ones, so heads overlap, and their sum is not that of the tokens.`;
}

/** What the picture's colours mean, and how exact its numbers are. */
export function logitNote(scene, perPixel) {
  const block = chosenLogit(scene.data, scene.selection);
  const { limit, top, scale } = logitStream(scene);
  const ends = [`Colours end at ${scale === "contribution" ? "" : "±"}${formatRough(limit, Boolean(block.says))}${logitUnit(block)}${top > limit * 1.0001 ? ` (99th percentile; cells reach ${formatRough(top, false)})` : ""}.`];
  if (scene.selection.root) ends.push("Square-root scale.");
  if (block.ends) ends.push("Lines: 95 % intervals; hollow: the interval contains 0.");
  if (Object.keys(block.edges).length) ends.push("Arcs: the largest attributions of heads from one token to another, as wide as they are large.");
  if (block.heads) ends.push(headsNote(scene, block));
  if (block.neurons.some((neurons) => neurons.length)) ends.push("Dots: the largest neurons of each layer, summed over positions; area is size.");
  if (scene.hidden.size) ends.push("Hidden tokens are left out of the picture, not of the sums.");
  return [INKS[scale], ...ends, ...pixelRemark(perPixel), block.certificate].join(" ");
}

/** What is said of the overview, on the page and in its files; `banded` says whether streams are bands or cells. */
export function logitWords(scene, banded = true) {
  const { data, selection } = scene;
  const block = chosenLogit(data, selection);
  if (!block) return takenWords(scene, banded);
  if (block.measure) return measuredOverview(scene, block, banded);
  return {
    headline: `${logitTarget(block)}. ${logitSentence(scene)}`,
    meaning: `${banded ? "Width and colour" : "Colour"}: attribution per token.`,
    further: [...(Object.keys(block.edges).length ? ["Arcs: attention heads between positions."] : []), ...(block.ends && banded ? ["Lines: 95 % intervals; hollow: the interval contains 0."] : [])].join(" "),
    place: `layer ${selection.layer}`, shown: `attribution of the ${block.target}, rules “${block.rules}”`, remark: `${logitEquation(block)}.`, note: logitNote(scene, 1), exact: false, method: block.method,
    file: [`layer${selection.layer}`, `to-${block.target}`.slice(0, 60)],
  };
}

/** The same of measured numbers. */
function measuredOverview(scene, block, banded) {
  const { how } = block.measure;
  return {
    headline: logitSentence(scene), meaning: banded ? how : how.replace("Width and colour", "Colour"),
    further: block.ends && banded ? "Lines: 95 % intervals; hollow: the interval contains 0." : "",
    place: `layer ${scene.selection.layer}`, shown: `${block.target}${block.choice ? `, ${block.choice}` : ""}`, remark: "", note: logitNote(scene, 1), exact: false, method: block.method,
    file: [`layer${scene.selection.layer}`, `${block.choice || block.target}`.slice(0, 60)],
  };
}

/** Every number of the view: attributions of tokens, of the residual stream at each layer, of heads and biases. */
export function logitTable(scene) {
  const block = chosenLogit(scene.data, scene.selection);
  if (!block) return takenTable(scene);
  const labels = labelsOf(scene);
  const { rows } = logitStream(scene);
  const along = function* (part, layer, shares) {
    for (const [column, share] of shares.entries()) if (!Number.isNaN(share)) yield [part, layer, scene.axes.columns[column].position, labels[column], share];
  };
  const lines = function* () {
    if (block.entering) yield* along("token", "", logitColumns(scene, block.entering));
    for (const [row, shares] of rows.entries()) yield* along(block.choice || "residual stream", block.names[row], shares);
    for (const [row, shares] of (block.heads || []).entries()) for (const [head, share] of shares.entries()) for (const [at, value] of [share].flat().entries()) if (value !== null) yield ["head", block.names[row], isByColumn(block) ? at : "", `L${block.names[row]}H${head}`, value];
    for (const [name, layer, share] of block.biases) yield ["bias", layer < 0 ? "" : block.names[layer], "", name, share];
  };
  return { head: ["part", "layer", "position", "name", "share"], lines, count: (rows.length + 1) * labels.length };
}
