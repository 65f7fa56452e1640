/* A target attributed through the layers: its numbers as they are shown, and the words about them. No DOM. */

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
  const [name] = logitBlocks(data, 0).find(([, block]) => block.position === position) || [];
  return name ? { block: name, to: position - 1, read: "row" } : null;
}

/** One number a position as one a column: of words their sum; NaN where the token is hidden. */
export function logitColumns({ axes, hidden }, shares) {
  return Float32Array.from(axes.columns, ({ members }, column) => (hidden.has(column) ? NaN : members.reduce((sum, position) => sum + (shares[position] ?? NaN), 0)));
}

/** Where the layers' numbers stand: rows are the input of each layer, and the end. */
export function logitRowName(block, row) {
  return row < block.residual.length - 1 ? String(row) : "end";
}

/** The same target in all runs, which have one scale. */
function alikeIn(data, block) {
  const name = data.runs.flatMap(({ blocks }) => Object.entries(blocks)).find(([, held]) => held === block)[0];
  return data.runs.map(({ blocks }) => blocks[name]);
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
  const own = rows.map(() => -1);
  const ends = alikeIn(scene.data, block).map(({ residual }) => limitOf({ nRows: rows.length, nColumns, own }, Float32Array.from(residual.flatMap((shares) => Array.from(logitColumns(scene, shares)))), scene.selection.range));
  const intervals = block.ends ? block.ends.map((end) => end.map((shares) => logitColumns(scene, shares))) : null;
  const limit = Math.max(...ends, largestEnd(intervals));
  const most = block.heads ? headsLimit(scene, block) : 0;
  return {
    block, rows, cells, limit, top: largest(cells), scale: "signed", before: null, ends: intervals, neurons: block.neurons, unit: logitUnit(block),
    layers: rows.map((_, row) => (row < rows.length - 1 ? row : null)), names: rows.map((_, row) => logitRowName(block, row)),
    strip: hasBiases(block) ? { name: "biases", scale: "signed", limit, values: Float32Array.from(rows, (_, row) => logitBiasesAt(block, row)) } : null,
    heads: block.heads ? { values: block.heads, names: block.heads[0].map((_, head) => String(head)), least: 0, limit: most, scale: "signed", words: headsWords(most) } : null,
  };
}

/** Where colours of heads end: at the largest of every run of the target. */
function headsLimit(scene, block) {
  return Math.max(...alikeIn(scene.data, block).map(({ heads }) => largest(heads.map(largest))));
}

function headsWords(limit) {
  return `heads, ±${formatRough(limit, false)}`;
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
  if (block) return { strip: hasBiases(block), heads: block.heads ? block.heads[0].length : 0, words: block.heads ? headsWords(headsLimit(scene, block)) : "", neurons: block.neurons.length > 0 };
  const heads = trackOfHeads(scene);
  return { strip: scene.selection.read === "row" && Boolean(shownMap(scene).columns.own), heads: heads ? heads.names.length : 0, words: heads ? heads.words : "", neurons: false };
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
  const flowing = block.residual[layer].reduce((sum, share) => sum + share, 0);
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
  return block.residual[layer].every((share) => share === 0) && block.value !== 0;
}

/** The largest neurons of a layer, as far as the page has them: number and share. */
export function logitNeurons(block, layer) {
  return block.neurons[layer] || [];
}

/** What the residual stream at each token contributes at a layer's input. */
export function logitShares(scene, layer) {
  return logitColumns(scene, chosenLogit(scene.data, scene.selection).residual[layer]);
}

/** What is selected beside a token, by its name, share and place: a neuron, else a head with its pair; null where neither is. */
function selectedComponent(scene, block) {
  const { layer, neuron, to, from, list } = scene.selection;
  const everywhere = `over ${block.others ? "the named" : "all"} positions`;
  const [, ofNeuron] = logitNeurons(block, layer).find(([number]) => number === neuron) || [];
  if (ofNeuron !== undefined) return { name: `L${layer}N${neuron}`, share: ofNeuron, place: everywhere, more: "" };
  const head = logitHead(block, scene.selection);
  if (head < 0) return null;
  const whole = block.heads[layer][head];
  const [, , share] = (block.edges[`${layer},${head}`] || []).find(([query, key]) => query === to && key === from) || [];
  const pair = `from ${tokenWords(scene, scene.axes.columnOf[from])} to ${tokenWords(scene, scene.axes.columnOf[to])}`;
  const name = `L${layer}H${head}`;
  if (share !== undefined && list === "edges") return { name, share, place: pair, more: `; ${formatChange(whole, false)} ${everywhere}` };
  return { name, share: whole, place: everywhere, more: share === undefined ? "" : `; ${formatChange(share, false)} ${pair}` };
}

/** What is selected, and how much of the target it contributes: a neuron, a head with its pair, else the token at the layer's input. */
export function logitSentence(scene) {
  const { data, selection: { layer } } = scene;
  const block = chosenLogit(data, scene.selection);
  const amount = (share) => `contributes ${formatChange(share, false)} of ${formatNumber(block.value)}${logitUnit(block)}`;
  const part = (share) => (block.value === 0 ? "" : `, ${formatPercent(share / block.value)} of the answer`);
  const component = selectedComponent(scene, block);
  if (component) return `${component.name} ${amount(component.share)} ${component.place}${part(component.share)}${component.more}.`;
  const column = ownColumn(scene);
  const token = tokenWords(scene, column);
  if (logitIsBefore(block, layer)) return `At the input of layer ${layer} all attributions are 0: the target is read before.`;
  const share = logitShares(scene, layer)[column];
  return Number.isNaN(share) ? `${token} is hidden.` : `At the input of layer ${layer}, ${token} ${amount(share)}${part(share)}.`;
}

/** What the rows of complete rules sum to: the target, or what of it is linear in the logits. */
function logitWhole(block) {
  return block.sums.some(([name]) => name === "nonlinear") ? "its first-order form" : "it";
}

/** That a layer's numbers sum up. */
export function logitLaw(block, layer) {
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
export function logitHeads(block, layer) {
  return block.heads ? block.heads[layer].map((share, head) => ({ head, share })) : [];
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

const LOGIT_INKS = "Orange: positive, violet: negative.";

/** What the picture's colours mean, and how exact its numbers are. */
export function logitNote(scene, perPixel) {
  const block = chosenLogit(scene.data, scene.selection);
  const { limit, top } = logitStream(scene);
  const ends = [`Colours end at ±${formatRough(limit, false)}${logitUnit(block)}${top > limit * 1.0001 ? ` (99th percentile; cells reach ${formatRough(top, false)})` : ""}.`];
  if (scene.selection.root) ends.push("Square-root scale.");
  if (block.ends) ends.push("Lines: 95 % intervals; hollow: the interval contains 0.");
  if (block.heads) ends.push(`Heads, summed over ${block.others ? "the named" : "all"} positions, on their own scale: ±${formatRough(largest(block.heads.map(largest)), false)}; later layers read earlier ones, so heads overlap, and their sum is not that of the tokens.`);
  if (scene.hidden.size) ends.push("Hidden tokens are left out of the picture, not of the sums.");
  return [LOGIT_INKS, ...ends, ...pixelRemark(perPixel), block.certificate].join(" ");
}

/** What is said of the overview, on the page and in its files; `banded` says whether streams are bands or cells. */
export function logitWords(scene, banded = true) {
  const { data, selection } = scene;
  const block = chosenLogit(data, selection);
  if (!block) return takenWords(scene, banded);
  return {
    headline: `${logitTarget(block)}. ${logitSentence(scene)}`,
    meaning: `${banded ? "Width and colour" : "Colour"}: attribution per token.`,
    further: [...(Object.keys(block.edges).length ? ["Arcs: attention heads between positions."] : []), ...(block.ends && banded ? ["Lines: 95 % intervals; hollow: the interval contains 0."] : [])].join(" "),
    place: `layer ${selection.layer}`, shown: `attribution of the ${block.target}, rules “${block.rules}”`, remark: `${logitEquation(block)}.`, note: logitNote(scene, 1), exact: false, method: block.method,
    file: [`layer${selection.layer}`, `to-${block.target}`.slice(0, 60)],
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
    yield* along("token", "", logitColumns(scene, block.entering));
    for (const [row, shares] of rows.entries()) yield* along("residual stream", logitRowName(block, row), shares);
    for (const [layer, shares] of (block.heads || []).entries()) for (const [head, share] of shares.entries()) yield ["head", String(layer), "", `L${layer}H${head}`, share];
    for (const [name, layer, share] of block.biases) yield ["bias", layer < 0 ? "" : logitRowName(block, layer), "", name, share];
  };
  return { head: ["part", "layer", "position", "name", "share"], lines, count: (rows.length + 1) * labels.length };
}
