/* Why: the selected layer beside the overview, by one of four lenses: its map, its heads, its neurons, its inside. */

import { graphFields, graphInside, hasGraph, insideLayers } from "./graph_lens.js";
import { hasHeads, headKeysShown, headsFields, headsView } from "./heads_view.js";
import { chosenLogit, logitBlocks, logitMapChange, logitMapKey } from "./logit.js";
import { neuronsTable } from "./logit_card.js";
import { MAPS_VIEW_FIELDS, mapsView } from "./maps_view.js";
import { memoryCards, memoryView } from "./memory_view.js";
import { element } from "./svg.js";

/* Pixels that it is wide at most; on paper so few that it has room below the overview. */
const CLOSE_UP = 430;
const PAPER_CLOSE_UP = 270;

/** Cards of neurons of the selected layer, with the names of their blocks; that of the selected neuron first. */
function cardsHere({ data, selection: { run, layer, neuron } }) {
  const cards = memoryCards(data, run).filter(([, { memory }]) => memory.startsWith(`${layer}:`));
  return cards.sort(([, a], [, b]) => Number(b.memory === `${layer}:${neuron}`) - Number(a.memory === `${layer}:${neuron}`));
}

/** The neurons of the layer that contribute most, and the card of one. */
function neuronsLens(scene, go) {
  const cards = cardsHere(scene);
  const table = neuronsTable(scene, go);
  if (!cards.length && !table.length) return [element("p", { className: "note", textContent: `This page has no neurons of layer ${scene.selection.layer}.` })];
  return [...table, ...(cards.length ? [memoryView({ ...scene, selection: { ...scene.selection, block: cards[0][0] } }, go)] : [])];
}

/** The graph, where it has the selected layer; else a way to those that it has. */
function insideLens(scene, go, width) {
  const { data, selection } = scene;
  const layers = insideLayers(data, selection.run);
  if (!layers.length || layers.includes(selection.layer)) return graphInside(scene, go, width);
  const ways = layers.filter((layer) => data.layers.includes(layer)).map((layer) => wayTo(`layer ${layer}`, "", { layer }, go));
  return [element("p", { className: "note" }, [`The graph of this page has no nodes of layer ${selection.layer}. `, ...ways])];
}

function neuronsThere(data) {
  return memoryCards(data, 0).length > 0 || logitBlocks(data, 0).some(([, { neurons }]) => neurons.length > 0);
}

/* Each lens: whether a page has what it needs, which maps have to be unpacked for it, what it is made from, its drawing, and the view that has it larger. */
const LENSES = [
  { name: "map", there: () => true, keys: () => [], fields: () => MAPS_VIEW_FIELDS, draw: mapsView, larger: () => ({ view: "maps" }) },
  { name: "heads", there: hasHeads, keys: headKeysShown, fields: headsFields, draw: headsView, larger: () => ({ view: "heads" }) },
  { name: "neurons", there: neuronsThere, keys: () => [], fields: () => [], draw: neuronsLens, larger: (scene) => (cardsHere(scene).length ? { view: "memories", block: cardsHere(scene)[0][0] } : null) },
  { name: "inside", there: hasGraph, keys: () => [], fields: () => [...graphFields(), "layer"], draw: insideLens, larger: () => ({ view: "graph" }) },
];

/** The lens that is chosen, where the page has it. */
function lensOf(data, selection) {
  return LENSES.find(({ name, there }) => name === selection.lens && there(data)) || LENSES[0];
}

/** Maps that the lens draws beside the one that is selected. */
export function closeUpKeys(data, selection) {
  return lensOf(data, selection).keys(data, selection);
}

function wayTo(textContent, title, change, go) {
  const button = element("button", { type: "button", textContent, title });
  button.addEventListener("click", () => go(change));
  return button;
}

/** The layer and the row of lenses, where there are several. */
function lensRow({ data, selection }, go) {
  const there = LENSES.filter((lens) => lens.there(data));
  const lenses = there.map(({ name }) => {
    const button = wayTo(name, "", { lens: name }, go);
    button.setAttribute("aria-pressed", String(name === lensOf(data, selection).name));
    return button;
  });
  const group = element("span", { className: "group lenses" }, there.length > 1 ? lenses : []);
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", "close-up of the layer");
  return element("div", { className: "aside-head" }, [element("h3", { textContent: data.layered ? `Layer ${selection.layer}` : "The map" }), group]);
}

/** Ways to the whole view of what the lens shows. */
function largerWays(scene, lens, go) {
  const { data, selection, maps } = scene;
  const block = chosenLogit(data, selection);
  const change = lens.larger(scene);
  const ways = change ? [wayTo(lens.name === "map" && maps.length > 1 ? "before, after, change" : "larger", "in a view of its own", change, go)] : [];
  if (lens.name === "map" && logitMapKey(data, selection)) ways.push(wayTo(`in ${block.unit || "its units"}`, "contributions of the layer to the target, destinations by sources", logitMapChange(data, selection), go));
  return ways.length ? [element("p", { className: "group ways" }, ways)] : [];
}

/** The close-up in `width` pixels: what it is made from, the scene that it draws, and `draw()`. */
export function closeUp(scene, go, width) {
  const { data, selection, maps } = scene;
  const lens = lensOf(data, selection);
  const wide = Math.min(width, scene.paper ? PAPER_CLOSE_UP : CLOSE_UP);
  const alone = { ...scene, selection: { ...selection, panel: maps.length > 1 ? "after" : "only" }, windowRoom: 0, beside: true, width: wide };
  const fields = ["layer", "lens", "block", "scope", "ref", ...lens.fields(alone)];
  const draw = () => {
    const drawn = [lens.draw(alone, go, wide)].flat();
    const { nodes, update } = drawn[0].nodes ? drawn[0] : { nodes: drawn, update: null };
    return { nodes: [lensRow(scene, go), ...nodes, ...largerWays(scene, lens, go)], update };
  };
  return { alone, fields, wide, draw };
}
