/* Why: what is selected on the way to a target, in words, and one list of what contributes. */

import { sizeBar, sizeInk } from "./card.js";
import { option } from "./controls.js";
import { changeWords, chosenLogit, logitHead, logitHeads, isByColumn, lensTokens, logitLaw, logitNeurons, logitSentence, logitShares, measuredFacts } from "./logit.js";
import { formatChange, formatPercent } from "./numbers.js";
import { isHeadOf, logitTokenChange } from "./overview_view.js";
import { tokenWords } from "./phrases.js";
import { labelsOf, ownColumn, profileOf, shownMap, whichOf } from "./scene.js";
import { element } from "./svg.js";
import { effectAt, effectsOf } from "./tables.js";

/* Lines of the list; on paper so few that the cards end on the second sheet. */
const LIST_LINES = 40;
const PAPER_LINES = 12;

/** A token as a part of a name, with its position where others are written alike. */
function tokenName(scene, column) {
  return [element("bdi", { textContent: labelsOf(scene)[column] }), whichOf(scene, column)];
}

function headEntries(scene, block) {
  const { layer } = scene.selection;
  const read = scene.axes.columns[ownColumn(scene)].position;
  return logitHeads(scene, block).map(({ head, share }) => ({ name: [`L${layer}H${head}`], share, place: [layer, head, read], change: { heads: String(head), neuron: -1 }, none: { heads: "" }, current: head === logitHead(block, scene.selection) }));
}

/** Edges of the chosen head, else of all heads of the layer. */
function edgeEntries(scene, block) {
  const { data, selection, axes } = scene;
  const { layer } = selection;
  const chosen = logitHead(block, selection);
  const places = Object.keys(block.edges).map((place) => place.split(",").map(Number)).filter(([at, head]) => at === layer && (chosen < 0 || head === chosen));
  return places.flatMap(([, head]) => block.edges[`${layer},${head}`].filter(([, , share]) => share !== 0).map(([query, key, share]) => ({
    name: [`H${head}: `, ...tokenName(scene, axes.columnOf[key]), " → ", ...tokenName(scene, axes.columnOf[query])], share, place: [layer, head, query, key],
    change: { heads: String(head), neuron: -1, ...(data.queries.includes(query) ? { to: query, from: key, read: "row" } : { from: key, read: "column" }) }, none: { heads: "" }, current: isHeadOf(scene, { layer, head, query, key }),
  })));
}

function neuronEntries({ selection }, block) {
  const { layer } = selection;
  return logitNeurons(block, layer).map(([neuron, share]) => ({ name: [`L${layer}N${neuron}`], share, place: [], change: { neuron, heads: "" }, none: { neuron: -1 }, current: neuron === selection.neuron }));
}

function tokenEntries(scene) {
  const { layer } = scene.selection;
  return Array.from(logitShares(scene, layer), (share, column) => ({
    name: tokenName(scene, column), share, place: [layer, scene.axes.columns[column].position], change: logitTokenChange(scene, column), current: column === ownColumn(scene),
  })).filter(({ share }) => share !== 0 && !Number.isNaN(share));
}

/** Of the map beside it: from where the token that is read takes, or to where it gives. */
function sourceEntries(scene) {
  const { selection, axes } = scene;
  const map = shownMap(scene);
  const words = (value) => (map.asShare && map.scale !== "signed" ? formatPercent(value) : formatChange(value, map.asShare));
  return Array.from(profileOf(scene, map), (share, column) => {
    const { position } = axes.columns[column];
    const cell = selection.read === "row" ? [selection.to, position] : [position, selection.from];
    return {
      name: tokenName(scene, column), share, shown: words(share), scale: map.scale, place: [selection.layer, -1, ...cell],
      change: selection.read === "row" ? { from: position } : { to: position }, current: column === (selection.read === "row" ? scene.column : axes.own[scene.row]),
    };
  }).filter(({ share }) => !Number.isNaN(share));
}

/** Biases and edits from the selected layer on. */
function biasEntries({ selection }, block) {
  return block.biases.filter(([, layer, share]) => layer >= selection.layer && share !== 0).map(([name, layer, share]) => ({ name: [`${name} (${layer < 0 ? "input" : block.names[layer]})`], share, place: [] }));
}

/** The most probable tokens of the selected cell of a logit lens. */
function lensEntries(scene, block) {
  return lensTokens(scene, block).map(([token, share]) => ({ name: [element("bdi", { textContent: token })], share, shown: formatPercent(share), scale: "contribution", place: [] }));
}

/** What the list can be of: its entries in their own order, what that order is, the kind of what was measured of them, and what their numbers are. */
const KINDS = {
  heads: {
    words: "heads", entries: headEntries, order: "number", effect: "head",
    note: (scene, block) => {
      const atOne = effectsOf(scene.data).some(({ tables }) => tables.head && tables.head.axes.length > 2);
      if (block.measure) return `Heads of layer ${scene.selection.layer}${isByColumn(block) ? ` at ${tokenWords(scene, ownColumn(scene))}` : ""}.`;
      return `Heads of layer ${scene.selection.layer}, ${isByColumn(block) ? `at ${tokenWords(scene, ownColumn(scene))}` : "summed over all positions"}${atOne ? `; replaced at ${tokenWords(scene, ownColumn(scene))} alone` : ""}.`;
    },
  },
  edges: {
    words: "edges", entries: edgeEntries, order: "head", effect: "cell",
    note: ({ selection }, block) => `The largest of ${logitHead(block, selection) < 0 ? "each head" : `L${selection.layer}H${logitHead(block, selection)}`}, source → destination.`,
  },
  neurons: { words: "neurons", entries: neuronEntries, order: "number", effect: "neuron", note: ({ selection }) => `The largest of layer ${selection.layer}, summed over all positions.` },
  predictions: { words: "predictions", entries: lensEntries, order: "probability", effect: "", note: ({ selection }) => `The most probable next tokens at layer ${selection.layer}.` },
  tokens: { words: "tokens", entries: tokenEntries, order: "position", effect: "residual", note: ({ selection }, block) => logitLaw(block, selection.layer) },
  sources: { words: "sources", entries: sourceEntries, order: "position", effect: "cell", note: (scene) => `${scene.selection.read === "row" ? "Sources of" : "Destinations of"} ${tokenWords(scene, ownColumn(scene))} in the map above.` },
  biases: { words: "biases", entries: biasEntries, order: "layer", effect: "bias", note: ({ selection }) => `Biases and edits from layer ${selection.layer} on.` },
};

/** The kinds that this page has numbers of. */
function kindsOf(scene, block) {
  const there = { predictions: block.says, heads: block.heads, edges: Object.keys(block.edges).length, neurons: block.neurons.length, tokens: true, sources: scene.listed, biases: block.biases.some(([, , share]) => share !== 0) };
  return [...Object.keys(KINDS).filter((kind) => there[kind]), ...(scene.listed ? ["pairs"] : [])];
}

/** The kind that is listed: the one chosen, else the first that there is; "" where no target is. */
export function listedKind(scene) {
  const block = chosenLogit(scene.data, scene.selection);
  if (!block) return "";
  const kinds = kindsOf(scene, block);
  return kinds.includes(scene.selection.list) ? scene.selection.list : kinds[0];
}

/** What was measured of a kind: of cells, either by head or of all heads together. */
function measuredOf(scene, kind) {
  const { effect } = KINDS[kind];
  return effectsOf(scene.data).filter(({ tables }) => tables[effect] && (effect !== "cell" || (tables.cell.axes[1][0] < 0) === (kind === "sources")));
}

/** The entries with what was measured of each, largest first by what is asked for. */
function sortedEntries(scene, block, kind) {
  const effects = measuredOf(scene, kind);
  const entries = KINDS[kind].entries(scene, block).map((entry) => ({ ...entry, effects: effects.map((of) => effectAt(of, KINDS[kind].effect, ...entry.place)) }));
  const size = { contributes: ({ share }) => Math.abs(share), removed: (entry) => Math.abs(entry.effects[0]) || 0 }[orderOf(scene, effects)];
  return { effects, entries: size ? entries.sort((a, b) => size(b) - size(a)) : entries };
}

function orderOf({ selection }, effects) {
  return selection.order === "removed" && !effects.length ? "contributes" : selection.order;
}

/** A name, a bar in the colour of the sign, a number, and what was measured of it; a click selects it, a second one lets go. */
function listLine(scene, entry, most, go) {
  const { name, share, shown, scale = chosenLogit(scene.data, scene.selection).scale || "signed", change, none, current, effects } = entry;
  const button = change ? element("button", { type: "button", className: "plain" }, name) : element("span", {}, name);
  if (change) button.addEventListener("click", () => go(current && none ? none : change));
  if (current) button.setAttribute("aria-current", "true");
  return element("tr", {}, [
    element("td", {}, [button]), element("td", {}, [sizeBar(Math.abs(share) / (most || 1), sizeInk(scene, { scale }, share))]), element("td", { textContent: shown || changeWords(chosenLogit(scene.data, scene.selection) || {}, share) }),
    ...effects.map((effect) => element("td", { textContent: Number.isNaN(effect) ? "–" : formatChange(effect, false) })),
  ]);
}

function choice(label, options, value, go) {
  const select = element("select", { autocomplete: "off" }, options.map(([each, words]) => option(each, words)));
  select.value = value;
  select.addEventListener("change", () => go(select.value));
  return element("label", {}, [`${label} `, select]);
}

/** The table of a kind, scrolled where it is long. */
function listTable(scene, block, kind, go) {
  const { effects, entries } = sortedEntries(scene, block, kind);
  const shown = entries.slice(0, scene.paper ? PAPER_LINES : LIST_LINES);
  const most = Math.max(0, ...entries.map(({ share }) => Math.abs(share)));
  const head = (words, title = "") => element("th", { textContent: words, scope: "col", title });
  const heads = element("tr", {}, [element("td"), element("td"), head(block.measure ? block.measure.column : "contributes"), ...effects.map(({ short, target }) => head(short, target))]);
  const cut = shown.length < entries.length ? ` The first ${shown.length} of ${entries.length}.` : "";
  const table = element("table", { className: effects.length ? "profile measured" : "profile" }, [heads, ...shown.map((entry) => listLine(scene, entry, most, go))]);
  return [element("div", { className: "listed" }, entries.length ? [table] : []), element("p", { className: "note", textContent: `${KINDS[kind].note(scene, block)}${cut}` })];
}

/** The neurons of the selected layer, for its close-up; none where the page has none of it. */
export function neuronsTable(scene, go) {
  const block = chosenLogit(scene.data, scene.selection);
  return block && logitNeurons(block, scene.selection.layer).length ? listTable(scene, block, "neurons", go) : [];
}

/** The sentence about what is selected, and the list; none where the page has no target. */
export function logitCard(scene, go) {
  const block = chosenLogit(scene.data, scene.selection);
  if (!block) return [];
  const kind = listedKind(scene);
  const words = (name) => (name === "pairs" ? "pairs of the map" : (name === "tokens" && block.axis) || KINDS[name].words);
  const kinds = choice("Largest", kindsOf(scene, block).map((name) => [name, words(name)]), kind, (list) => go({ list }));
  const said = element("p", { className: "said", textContent: logitSentence(scene) });
  if (kind === "pairs") return [said, element("section", { className: "card logit-card" }, [element("div", { className: "toggles" }, [kinds])])];
  const effects = measuredOf(scene, kind);
  const facts = measuredFacts(scene);
  const numbers = facts.length ? [element("table", { className: "facts" }, facts.map(([name, value]) => element("tr", {}, [element("td", { textContent: name }), element("td", { textContent: value })])))] : [];
  const orders = [["contributes", block.measure ? "size" : "contributes"], ...(effects.length ? [["removed", effects[0].short]] : []), ["place", KINDS[kind].order]];
  const sort = choice("sort by", orders, orderOf(scene, effects), (order) => go({ order }));
  return [said, ...numbers, element("section", { className: "card logit-card" }, [element("div", { className: "toggles" }, [kinds, sort]), ...listTable(scene, block, kind, go)])];
}
