/* Why: the card of a layer and a token on the way to a target. */

import { sizeBar, sizeInk } from "./card.js";
import { chosenLogit, logitHead, logitHeads, logitLargest, logitLaw, logitSentence, logitTarget } from "./logit.js";
import { formatChange } from "./numbers.js";
import { logitTokenChange } from "./overview_view.js";
import { tokenWords } from "./phrases.js";
import { labelsOf, ownColumn, whichOf } from "./scene.js";
import { element } from "./svg.js";
import { effectAt, effectsOf } from "./tables.js";

const LOGIT_LINES = 6;

/** A name, a bar in the colour of the sign, a number, and what was measured of it. */
function logitLine(scene, name, share, most, further) {
  return element("tr", {}, [
    element("td", {}, [name]), element("td", {}, [sizeBar(Math.abs(share) / (most || 1), sizeInk(scene, { scale: "signed" }, share))]), element("td", { textContent: formatChange(share, false) }),
    ...further.map((effect) => element("td", { textContent: Number.isNaN(effect) ? "–" : formatChange(effect, false) })),
  ]);
}

/** Shares by name; beside each what the target changes by where it is replaced or removed, if that was measured: `kind` and `place(entry)` say of what. */
function logitLines(scene, entries, named, kind, place) {
  const most = Math.max(0, ...entries.map(({ share }) => Math.abs(share)));
  const effects = effectsOf(scene.data).filter(({ tables }) => tables[kind]);
  const head = (words, title = "") => element("th", { textContent: words, scope: "col", title });
  const heads = effects.length ? [element("tr", {}, [element("td"), element("td"), head("attribution"), ...effects.map(({ short, target }) => head(short, target))])] : [];
  const further = (entry) => effects.map((block) => effectAt(block, kind, ...place(entry)));
  return element("table", { className: effects.length ? "profile measured" : "profile" }, [...heads, ...entries.map((entry) => logitLine(scene, named(entry), entry.share, most, further(entry)))]);
}

function plainButton(children, change, go) {
  const button = element("button", { type: "button", className: "plain" }, children);
  button.addEventListener("click", () => go(change));
  return button;
}

/** The largest edges of the chosen head, else of the layer's largest head. */
function logitEdges(scene, block, go) {
  const { data, selection } = scene;
  const heads = logitHeads(block, selection.layer);
  const head = logitHead(block, selection) < 0 ? heads.length && heads[0].head : logitHead(block, selection);
  const edges = (block.edges[`${selection.layer},${head}`] || []).filter(([, , share]) => share !== 0);
  if (!edges.length) return [];
  const tokens = data.runs[selection.run].tokens;
  const edgeName = ({ query, key }) => plainButton([element("bdi", { textContent: tokens[key] }), ` (${key}) → `, element("bdi", { textContent: tokens[query] }), ` (${query})`], data.queries.includes(query) ? { to: query, from: key } : { from: key, read: "column" }, go);
  const entries = edges.map(([query, key, share]) => ({ query, key, share }));
  return [element("p", { className: "note", textContent: `L${selection.layer}H${head}: largest edges (source → destination)` }), logitLines(scene, entries, edgeName, "cell", ({ query, key }) => [selection.layer, head, query, key])];
}

/** The largest neurons of the layer; the one that is chosen in bold, with its card where the page has one. */
function logitNeurons(scene, block, go) {
  const { data, selection } = scene;
  const neurons = block.neurons[selection.layer] || [];
  if (!neurons.length) return [];
  const cards = Object.entries(data.runs[selection.run].blocks).filter(([, { kind }]) => kind === "memory");
  const changeOf = (neuron) => {
    const card = cards.find(([, { memory }]) => memory === `${selection.layer}:${neuron}`);
    return card ? { view: "memories", block: card[0] } : { neuron };
  };
  const named = ({ neuron }) => {
    const button = plainButton([`L${selection.layer}N${neuron}`], changeOf(neuron), go);
    if (neuron === selection.neuron) button.setAttribute("aria-current", "true");
    return button;
  };
  const entries = neurons.map(([neuron, share]) => ({ neuron, share }));
  return [element("p", { className: "note", textContent: `Largest neurons of layer ${selection.layer}, over all positions:` }), logitLines(scene, entries, named, "neuron", () => [])];
}

/** Sections about the selected layer and token; none where the page has no target. */
export function logitCard(scene, go) {
  const { data, selection } = scene;
  const block = chosenLogit(data, selection);
  if (!block) return [];
  const { layer } = selection;
  const labels = labelsOf(scene);
  const tokenOf = ({ column }) => plainButton([element("bdi", { textContent: labels[column] }), whichOf(scene, column)], logitTokenChange(scene, column), go);
  const headOf = ({ head }) => plainButton([`L${layer}H${head}`], { heads: String(head) }, go);
  const heads = logitHeads(block, layer).slice(0, LOGIT_LINES);
  const read = scene.axes.columns[ownColumn(scene)].position;
  const atOne = effectsOf(data).some(({ tables }) => tables.head && tables.head.axes.length > 2);
  const headsAt = atOne ? `; replaced at ${tokenWords(scene, ownColumn(scene))} alone` : "";
  return [element("section", { className: "card logit-card" }, [
    element("h3", {}, ["To ", element("bdi", { textContent: logitTarget(block) })]),
    element("p", { textContent: logitSentence(scene) }), element("p", { className: "note", textContent: logitLaw(block, layer) }),
    logitLines(scene, logitLargest(scene, layer, LOGIT_LINES), tokenOf, "residual", ({ column }) => [layer, scene.axes.columns[column].position]),
    ...(heads.length ? [element("p", { className: "note", textContent: `Largest heads of layer ${layer}, summed over ${block.ends ? "these" : "all"} positions${headsAt}:` }), logitLines(scene, heads, headOf, "head", ({ head }) => [layer, head, read])] : []),
    ...logitEdges(scene, block, go), ...logitNeurons(scene, block, go), element("p", { className: "note", textContent: block.certificate }),
  ])];
}
