/* View: the card of a memory. What its value says, where it fires in this text and by which tokens, and its triggers. */

import { shadeOf } from "./colours.js";
import { option } from "./controls.js";
import { formatChange, formatPercent } from "./numbers.js";
import { quotation } from "./phrases.js";
import { largest } from "./shares.js";
import { colourChip, element } from "./svg.js";

const MEMORY = { faintest: 0.02, triggers: 5 };

/** Cards of a run, with the names of their blocks. */
export function memoryCards(data, run) {
  return Object.entries(data.runs[run].blocks).filter(([, block]) => block.kind === "memory");
}

function chosenMemory(data, selection) {
  const cards = memoryCards(data, selection.run);
  return cards.find(([name]) => name === selection.block) || cards[0];
}

/** A token on the ground of one number, and where there is a second one a stripe of its colour. */
function memoryChip(scene, token, position, ground, stripe) {
  const { palette } = scene;
  const chip = element("span", { className: "chip" }, [element("bdi", { textContent: token })]);
  const sides = [ground, stripe].filter((side) => side && Number.isFinite(side.value));
  chip.title = [`${token} · position ${position}`, ...sides.map((side) => `${side.name} ${formatChange(side.value, false)}`)].join(" · ");
  const colour = (side) => (side && Number.isFinite(side.value) && side.limit && Math.abs(side.value) >= MEMORY.faintest * side.limit ? shadeOf(palette, side.value, side.limit, "signed") : null);
  colourChip(chip, colour(ground), colour(stripe));
  return chip;
}

/** Numbers along a text as sides of its chips; colours end at the largest. */
function memorySides(name, numbers) {
  const limit = largest(numbers.map(Math.abs));
  return numbers.map((value) => ({ name, value, limit }));
}

function memoryTokens(chips, label) {
  const host = element("div", { className: "tokens" }, chips);
  host.setAttribute("role", "group");
  host.setAttribute("aria-label", label);
  host.classList.toggle("long", chips.length > 40);
  return host;
}

function memoryPart(title, children) {
  return element("section", { className: "memory-part" }, [element("h2", { textContent: title }), ...children]);
}

function memoryNote(content) {
  return element("p", { className: "note", textContent: content });
}

function memoryChoice(data, selection, go) {
  const cards = memoryCards(data, selection.run);
  const select = element("select", {}, cards.map(([name, card]) => option(name, `memory ${card.memory}`)));
  select.autocomplete = "off";
  select.value = chosenMemory(data, selection)[0];
  select.setAttribute("aria-label", "memory");
  select.addEventListener("change", () => go({ block: select.value }));
  return element("div", { className: "toggles" }, [select, element("span", { className: "note", textContent: `of ${cards[0][1].model}, over ${cards[0][1].corpus_texts} texts` })]);
}

/** What its value says. */
function memoryValue(scene, card) {
  if (!card.value) return memoryPart("What it writes", [memoryNote("Its value cannot be read as tokens: the model came without a trained head.")]);
  const { top, bottom, probability, reading, agreeing, followed } = card.value;
  const words = (tokens, label) => element("p", { className: "memory-words" }, [`${label} `, ...tokens.map((token) => element("span", { className: "chip" }, [element("bdi", { textContent: token })]))]);
  const by = reading === "direction" ? "by the unembedding alone" : "by the model's own read-out";
  const agrees = followed ? ` ${agreeing} of ${followed} triggers are followed by the first of them.` : "";
  return memoryPart("What it writes", [words(top, "promotes"), words(bottom, "demotes"), memoryNote(`Its value, read ${by}; the first token has a probability of ${formatPercent(probability)}.${agrees}`)]);
}

/** Where it fires in the text of the page, what brings it there, and what it carries on. */
function memoryHere(scene, card, go) {
  if (!card.text) return [];
  const { tokens, along, parts, bias, carried, target } = card.text;
  const at = scene.selection.to;
  const chips = (grounds) => tokens.map((token, position) => {
    const chip = memoryChip(scene, token, position, grounds[position]);
    chip.setAttribute("aria-current", String(position === at));
    chip.addEventListener("click", () => go({ to: position, read: "row" }));
    return chip;
  });
  const title = element("h2", {}, ["Its coefficient by token, at ", element("bdi", { textContent: quotation(tokens[at]) })]);
  const sections = [
    memoryPart("Its coefficient along this text", [memoryTokens(chips(memorySides("coefficient", along)), "coefficient at each token"), memoryNote(`Strongest colour: ${formatChange(along[strongest(along)], false)} at ${quotation(tokens[strongest(along)])}.`)]),
    element("section", { className: "memory-part" }, [title, memoryTokens(chips(memorySides("brings", parts[at])), "what each token brings"), memoryNote(`Parts of the tokens of the layer's input in the coefficient ${formatChange(along[at], false)} at position ${at}; the bias brings ${formatChange(bias[at], false)}, and together they sum to it.`)]),
  ];
  if (carried) sections.push(memoryPart("What it carries to the target", [memoryTokens(chips(memorySides("carries", carried)), "share of the target"), memoryNote(`Signed shares of ${target}: ${formatChange(carried[at], false)} from here, ${formatChange(carried.reduce((sum, share) => sum + share, 0), false)} from all positions.`)]));
  return sections;
}

/** Index of the number of largest size. */
function strongest(numbers) {
  return numbers.reduce((best, value, index) => (Math.abs(value) > Math.abs(numbers[best]) ? index : best), 0);
}

/** A trigger: what each token brings as its ground, the coefficient there as a stripe; the trigger token is framed. */
function memoryTrigger(scene, trigger) {
  const { tokens, along, parts, position, coefficient, rank, sequence } = trigger;
  const [grounds, stripes] = [memorySides("brings", parts), memorySides("coefficient", along)];
  const chips = tokens.map((token, at) => {
    const chip = memoryChip(scene, token, at, grounds[at], stripes[at]);
    chip.setAttribute("aria-current", String(at === position));
    chip.classList.toggle("later", at > position);
    return chip;
  });
  return element("div", { className: "memory-trigger" }, [memoryNote(`${rank}. coefficient ${formatChange(coefficient, false)}, text ${sequence}`), memoryTokens(chips, `trigger ${rank}`)]);
}

function memoryTriggers(scene, title, triggers) {
  const [first, rest] = [triggers.slice(0, MEMORY.triggers), triggers.slice(MEMORY.triggers)];
  const shown = first.map((trigger) => memoryTrigger(scene, trigger));
  if (rest.length) {
    const more = element("details", {}, [element("summary", { textContent: `${rest.length} more` })]);
    more.addEventListener("toggle", () => { if (more.open && more.children.length === 1) more.append(...rest.map((trigger) => memoryTrigger(scene, trigger))); });
    shown.push(more);
  }
  return memoryPart(title, shown.length ? shown : [memoryNote("It never had such a coefficient in these texts.")]);
}

export function memoryView(scene, go) {
  const { data, selection } = scene;
  const [, card] = chosenMemory(data, selection);
  const note = "Orange brings it on or speaks for the target, violet against. In triggers: ground, what a token brings to the coefficient at the framed token; stripe, the coefficient at each token itself.";
  return element("div", { className: "memory" }, [
    memoryChoice(data, selection, go), memoryValue(scene, card), ...memoryHere(scene, card, go),
    memoryTriggers(scene, "Triggers: its largest coefficients", card.positive), memoryTriggers(scene, "Its most negative coefficients", card.negative), memoryNote(note),
  ]);
}

export function memoryWords(scene) {
  const [name, card] = chosenMemory(scene.data, scene.selection);
  return {
    headline: "", meaning: "A memory is one neuron of a feed-forward block: what turns it on, by which token, and what it writes.",
    place: `memory ${card.memory}`, shown: name, remark: "", note: "", exact: false, method: "", file: [`memory${card.memory}`],
  };
}
