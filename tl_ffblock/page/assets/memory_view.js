/* View: the card of a memory. Tokens of its value, its activation along this text and by token, its top-activating examples. */

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

/** The tokens that its value promotes and demotes, the other way round where the activation at the chosen token is negative. */
function memoryValue(scene, card) {
  if (!card.value) return memoryPart("Tokens of its value", [memoryNote("The value cannot be read as tokens: the model has no trained head.")]);
  const { top, bottom, probability, reading, agreeing, followed } = card.value;
  const words = (tokens, label) => element("p", { className: "memory-words" }, [`${label} `, ...tokens.map((token) => element("span", { className: "chip" }, [element("bdi", { textContent: token })]))]);
  const by = reading === "direction" ? "with the unembedding alone" : "with the model's final norm and unembedding";
  const agrees = followed ? ` It comes next in ${agreeing} of ${followed} top-activating examples.` : "";
  const activation = card.text ? card.text.along[scene.selection.to] : 0;
  const [promoted, demoted] = activation < 0 ? [bottom, top] : [top, bottom];
  const pushed = top.slice(0, 2).map((token) => quotation(token)).join(" and ");
  const turned = activation < 0 ? [memoryNote(`At ${quotation(card.text.tokens[scene.selection.to])} the activation is negative, ${formatChange(activation, false)}: the neuron pushes down ${pushed}, which its value promotes.`)] : [];
  const first = `The value, read ${by}: its first token, ${quotation(top[0])}, has a probability of ${formatPercent(probability)}.`;
  return memoryPart("Tokens of its value", [words(promoted, "promotes"), words(demoted, "demotes"), ...turned, memoryNote(first + agrees)]);
}

/** Its activation along the text of the page, token contributions to it, and its own contribution to the target. */
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
  const title = element("h2", {}, ["Token contributions to its activation at ", element("bdi", { textContent: quotation(tokens[at]) })]);
  const sections = [
    memoryPart("Its activation along this text", [memoryTokens(chips(memorySides("activation", along)), "activation at each token"), memoryNote(`Strongest colour: ${formatChange(along[strongest(along)], false)} at ${quotation(tokens[strongest(along)])}.`)]),
    element("section", { className: "memory-part" }, [title, memoryTokens(chips(memorySides("contribution", parts[at])), "token contributions"), memoryNote(`Contributions of the tokens at the layer's input. With the bias, ${formatChange(bias[at], false)}, they sum to the activation ${formatChange(along[at], false)} at position ${at}.`)]),
  ];
  if (carried) sections.push(memoryPart("Contribution to the target", [memoryTokens(chips(memorySides("contribution", carried)), "contribution to the target"), memoryNote(`Signed contributions to ${target}: ${formatChange(carried[at], false)} from this position, ${formatChange(carried.reduce((sum, share) => sum + share, 0), false)} from all positions.`)]));
  return sections;
}

/** Index of the number of largest size. */
function strongest(numbers) {
  return numbers.reduce((best, value, index) => (Math.abs(value) > Math.abs(numbers[best]) ? index : best), 0);
}

/** A top-activating example: each token on the ground of its contribution, its activation as a stripe; the trigger token is framed. */
function memoryTrigger(scene, trigger) {
  const { tokens, along, parts, position, coefficient, rank, sequence } = trigger;
  const [grounds, stripes] = [memorySides("contribution", parts), memorySides("activation", along)];
  const chips = tokens.map((token, at) => {
    const chip = memoryChip(scene, token, at, grounds[at], stripes[at]);
    chip.setAttribute("aria-current", String(at === position));
    chip.classList.toggle("later", at > position);
    return chip;
  });
  return element("div", { className: "memory-trigger" }, [memoryNote(`${rank}. activation ${formatChange(coefficient, false)}, text ${sequence}`), memoryTokens(chips, `example ${rank}`)]);
}

function memoryTriggers(scene, title, triggers) {
  const [first, rest] = [triggers.slice(0, MEMORY.triggers), triggers.slice(MEMORY.triggers)];
  const shown = first.map((trigger) => memoryTrigger(scene, trigger));
  if (rest.length) {
    const more = element("details", {}, [element("summary", { textContent: `${rest.length} more` })]);
    more.addEventListener("toggle", () => { if (more.open && more.children.length === 1) more.append(...rest.map((trigger) => memoryTrigger(scene, trigger))); });
    shown.push(more);
  }
  return memoryPart(title, shown.length ? shown : [memoryNote("It has no such activation in these texts.")]);
}

export function memoryView(scene, go) {
  const { data, selection } = scene;
  const [, card] = chosenMemory(data, selection);
  const note = "Orange: positive, violet: negative. In examples, the background is a token's contribution to the activation at the framed token; the stripe is the activation at each token.";
  return element("div", { className: "memory" }, [
    ...(scene.beside ? [element("h3", { textContent: `Memory ${card.memory}` })] : [memoryChoice(data, selection, go)]), memoryValue(scene, card), ...memoryHere(scene, card, go),
    memoryTriggers(scene, "Top-activating examples", card.positive), memoryTriggers(scene, "Examples of the most negative activations", card.negative), memoryNote(note),
  ]);
}

export function memoryWords(scene) {
  const [name, card] = chosenMemory(scene.data, scene.selection);
  return {
    headline: "", meaning: "A memory is one neuron of a feed-forward block: its key sets the activation, its value promotes tokens.",
    place: `memory ${card.memory}`, shown: name, remark: "", note: "", exact: false, method: "", file: [`memory${card.memory}`],
  };
}
