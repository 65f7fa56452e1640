/* The reader's controls: each sets a field of the selection, and is written from it. */

import { chosenLogit, hasLogit, logitNeurons } from "./logit.js";
import { channelWords } from "./phrases.js";
import { closerAround, findPosition, makesShares } from "./selection.js";
import { MANY_TOKENS } from "./shares.js";
import { byId, element, writeText } from "./svg.js";
import { blocksOf, channelKey, hasMaps, intervalRuns } from "./tables.js";
import { wordsOf } from "./text.js";

export function option(value, label, title = "") {
  return element("option", { value, textContent: label, title });
}

/** Channels in groups by block; in a page of one block without groups. */
function channelOptions(data) {
  const groups = blocksOf(data).map(([name, block]) => {
    const options = block.channels.map((channel) => {
      const key = channelKey(data, name, channel.name);
      return option(key, channelWords(data, key));
    });
    return [block.title, options];
  });
  return groups.length === 1 ? groups[0][1] : groups.map(([label, options]) => element("optgroup", { label }, options));
}

/** Whether a run is chosen alone: of targets, and of the ends of an interval, none is drawn against another. */
function isAlone(data) {
  return hasLogit(data) || intervalRuns(data).length > 0;
}

/** The runs of the overview, each alone or against another: "1-0". */
function pairOptions(data) {
  const every = data.runs.map((run, index) => ({ ...run, index }));
  const pairs = isAlone(data) ? every.map((run) => [run, run]) : every.flatMap((run) => [...every.filter((other) => other !== run), run].map((other) => [run, other]));
  return pairs.map(([run, other]) => option(`${run.index}-${other.index}`, run === other ? run.name : `${run.name} against ${other.name}`));
}

const CELL_WORDS = {
  others: "share of the others", row: "share of row", column: "share of column", none: "norm",
};
const RANGE_WORDS = { percentile: "99th percentile", "off-diagonal": "largest of another token", all: "largest of all" };

export function fillControls(data) {
  byId("scope").replaceChildren(...channelOptions(data));
  byId("ref").replaceChildren(option("", "nothing"), ...channelOptions(data));
  byId("pair").replaceChildren(...pairOptions(data));
  if (hasLogit(data)) byId("further").after(byId("pair-group")); // above such an overview there is no other line
  for (const id of ["run", "ref-run"]) byId(id).replaceChildren(...data.runs.map((run, index) => option(index, run.name)));
  byId("layer").replaceChildren(...data.layers.map((layer) => option(layer, layer)));
  byId("cells").replaceChildren(...Object.entries(CELL_WORDS).map(([value, label]) => option(value, label)));
  byId("range").replaceChildren(...Object.entries(RANGE_WORDS).map(([value, label]) => option(value, label)));
  byId("words-label").hidden = wordsOf(data.words).length === data.words.length;
  byId("hide-special-label").hidden = data.special.length === 0;
}

/** Which field a control sets, and whether its value is a number. */
/** @type {Record<string, [string, ((written: string) => any)?]>} */
const SELECTS = {
  scope: ["scope"], ref: ["ref"], run: ["run", Number], "ref-run": ["refRun", Number], layer: ["layer", Number],
  cells: ["cells"], range: ["range"], sort: ["sort"], pairs: ["pairs"], mass: ["mass", Number],
};
const CHECKS = { root: "root", each: "each", words: "words" };

/** Moves the open menu of colours so far to the left that it is within the window. */
function keepMenuInside() {
  if (!byId("colours").open) return;
  const menu = byId("colours").querySelector(".menu");
  menu.style.marginLeft = "";
  const beyond = menu.getBoundingClientRect().right - document.documentElement.clientWidth + 8;
  if (beyond > 0) menu.style.marginLeft = `${-beyond}px`;
}

function hideOf() {
  return [byId("hide-special").checked && "special", byId("hide-first").checked && "first"].filter(Boolean).join(" ");
}

export function connectControls(bench) {
  for (const [id, [field, read = String]] of Object.entries(SELECTS)) {
    byId(id).addEventListener("change", () => bench.go({ [field]: read(byId(id).value) }));
  }
  byId("pair").addEventListener("change", () => {
    const [run, refRun] = byId("pair").value.split("-").map(Number);
    bench.go(isAlone(bench.data) ? { run } : { run, refRun });
  });
  for (const [id, field] of Object.entries(CHECKS)) {
    byId(id).addEventListener("change", () => bench.go({ [field]: byId(id).checked ? 1 : 0 }));
  }
  for (const id of ["hide-special", "hide-first"]) byId(id).addEventListener("change", () => bench.go({ hide: hideOf() }));
  byId("colours").addEventListener("toggle", keepMenuInside);
  byId("read").addEventListener("click", () => bench.go({ read: bench.selection.read === "row" ? "column" : "row" }));
  byId("closer").addEventListener("click", () => bench.go({ zoom: closerAround(bench.scene.axes, bench.selection) }));
  byId("whole").addEventListener("click", () => bench.go({ zoom: "" }));
  byId("find").addEventListener("input", () => bench.go({ find: byId("find").value.slice(0, 60) }));
  connectSearch(bench);
  byId("help-mode").addEventListener("click", () => {
    byId("help").hidden = !byId("help").hidden;
    byId("help-mode").setAttribute("aria-expanded", String(!byId("help").hidden));
    bench.resized();
  });
}

/** The change that selects a head or a neuron by its name, "L23H3" or "L29N573", as far as the page has it; else null. */
function findComponent(data, selection, written) {
  const [, layer, kind, number] = /^\s*L(\d+)([HN])(\d+)\s*$/i.exec(written) || [];
  const block = chosenLogit(data, selection);
  if (!kind || !block || !data.layers.includes(Number(layer))) return null;
  if (kind.toUpperCase() === "H") return block.heads && Number(number) < block.heads[0].length ? { view: "overview", layer: Number(layer), heads: number, neuron: -1, list: "heads" } : null;
  return logitNeurons(block, Number(layer)).some(([neuron]) => neuron === Number(number)) ? { view: "overview", layer: Number(layer), neuron: Number(number), heads: "", list: "neurons" } : null;
}

/** Enter goes to the next token that holds the letters, or to the position that is written; in a graph to the next node. */
function connectSearch(bench) {
  const search = byId("search");
  search.addEventListener("input", () => {
    const { look } = bench.view();
    byId("search-note").textContent = look ? look(bench.scene, search.value) : "";
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    const { find } = bench.view();
    const change = find && find(bench.scene, search.value);
    if (change) bench.go(change);
    if (find) return;
    const { data, selection } = bench;
    const component = findComponent(data, selection, search.value);
    if (component) { byId("search-note").textContent = ""; bench.go(component); return; }
    const position = findPosition(data.runs[selection.run].tokens, search.value, selection.read === "row" ? selection.to : selection.from);
    byId("search-note").textContent = position < 0 ? "not there" : `position ${position}`;
    if (position < 0) return;
    bench.go(data.queries.includes(position) && selection.read === "row" ? { to: position } : { from: position, read: "column" });
  });
}

/** Empties the search once another token is read than the one that it led to. */
function markSearch({ read, to, from }) {
  const search = byId("search");
  const token = String(read === "row" ? to : from);
  if (document.activeElement !== search && search.dataset.read !== token) search.value = byId("search-note").textContent = "";
  search.dataset.read = token;
}

function pressed(id, on) {
  byId(id).setAttribute("aria-pressed", String(Boolean(on)));
}

/** The parts of the toolbar, the field of the selection that each sets, and whether there is anything to choose. */
/** @type {Record<string, [string, ((scene: any) => boolean)?]>} */
const TOOLBAR = {
  "scope-group": ["scope", ({ data }) => data.channels.size > 1], "run-group": ["run", ({ data }) => data.runs.length > 1],
  "pair-group": ["pair", ({ data }) => data.runs.length > 1],
  "ref-group": ["ref", ({ data }) => data.channels.size > 1 || data.runs.length > 1], "ref-run-group": ["refRun", ({ data }) => data.runs.length > 1 && !intervalRuns(data).length],
  "layer-group": ["layer", ({ data }) => data.layered], "cells-group": ["cells", ({ data, selection }) => !data.block(selection.scope).signed],
  "range-label": ["range"], "root-label": ["root"], "each-label": ["each", ({ maps }) => maps.length > 2],
  closer: ["zoom", ({ data, selection }) => data.words.length >= MANY_TOKENS || selection.zoom !== ""],
};

/* Fields that the menu "more" sets. */
const IN_MENU = ["range", "root", "each", "words", "hide", "zoom"];

/** Shows the controls that change what a view draws, and no other; `fields` are those that it is drawn from. */
function markToolbar(scene, fields) {
  for (const [id, [field, offered = () => true]] of Object.entries(TOOLBAR)) byId(id).hidden = !fields.includes(field) || !offered(scene);
}

/** Of maps without cells of a row's own, the largest of another token is the largest of all: one of the two is offered. */
function markRanges({ selection }, withoutOwn) {
  const [another, all] = ["off-diagonal", "all"].map((range) => byId("range").querySelector(`[value=${range}]`));
  writeText(another, withoutOwn ? RANGE_WORDS.all : RANGE_WORDS["off-diagonal"]);
  another.hidden = withoutOwn && selection.range === "all";
  all.hidden = withoutOwn && selection.range !== "all";
}

/** Of one map nothing changed: pairs are sorted by size or distance. */
function markSorts({ maps, selection }) {
  const [change, size] = ["change", "share"].map((sort) => byId("sort").querySelector(`[value=${sort}]`));
  change.hidden = maps.length === 1;
  if (change.hidden && selection.sort === "change") byId("sort").value = size.value;
}

/** Which numbers cells may be shown as; of parts of a text, or of means of shares, the page makes no further shares. */
function markCells({ data, selection }) {
  const made = makesShares(data, selection);
  const partial = data.queries.length < data.words.length;
  const why = made ? "" : "Shares need every source of a row, in each prompt alone; this page has named positions or means. Choose maps of shares if the page has them.";
  for (const choice of byId("cells").options) {
    choice.disabled = choice.value !== "none" && (!made || (choice.value === "column" && partial));
    choice.title = choice.value === "none" ? "" : why || (choice.value === "column" && partial ? "needs every row; this result has only some" : "");
  }
  byId("cells").title = why;
  writeText(byId("cells").querySelector("[value=none]"), data.block(selection.scope).short);
}

/** Writes every control from the selection; the browser's own memory of forms has no say. */
export function markControls(scene, { controls, withoutOwn = false, fields = (_) => [] }) {
  byId("colours").hidden = ![...controls, ...fields(scene)].some((field) => IN_MENU.includes(field));
  const { data, selection } = scene;
  for (const [id, [field]] of Object.entries(SELECTS)) byId(id).value = String(selection[field]);
  for (const [id, field] of Object.entries(CHECKS)) byId(id).checked = selection[field] === 1;
  byId("hide-special").checked = selection.hide.includes("special");
  byId("hide-first").checked = selection.hide.includes("first");
  pressed("read", selection.read === "column");
  byId("whole").hidden = selection.zoom === "" || !controls.includes("zoom");
  byId("pair").value = `${selection.run}-${isAlone(data) ? selection.run : selection.refRun}`;
  markToolbar(scene, controls);
  markRanges(scene, withoutOwn);
  if (hasMaps(data)) { markSorts(scene); markCells(scene); }
  keepMenuInside();
  markSearch(selection);
  if (document.activeElement !== byId("find")) byId("find").value = selection.find;
}

/* Keys and gestures, as the help has them. */
const KEYS = [
  ["arrows", "another cell of a map; in the overview another layer or token"], ["Enter", "selects the cell"], ["Alt + arrows", "another layer, another row"], ["[ and ]", "the step before, the step after"],
  ["/", "find a token, a position, a head (L23H3) or a neuron (L29N573)"], ["z, Esc", "zoom in, back out"], ["drag", "zooms into a part of a map"], ["Shift + click", "on a token: the other end of the cell; on a head: this one alone"], ["f", "files, link, caption"],
  ["Back", "undoes; the address stores the selection"],
];

/** The help: what the view draws, its layers, and the keys. */
export function fillHelp() {
  byId("help").replaceChildren(element("p", { id: "help-drawn" }), element("p", { id: "help-layers" }), element("dl", {}, KEYS.flatMap(([key, words]) => [element("dt", { textContent: key }), element("dd", { textContent: words })])));
}

/** Keys for the whole page: alt with arrows moves token and layer, [ and ] go a step back and on, / searches, z zooms, ? helps. */
export function connectKeys(bench) {
  document.addEventListener("keydown", (event) => {
    if (/** @type {Element} */ (event.target).closest("input, select, textarea") || event.ctrlKey || event.metaKey) return;
    const { data, selection, scene } = bench;
    const keys = hasMaps(data) ? [...data.channels.values()].filter(({ blockName }) => blockName === data.channels.get(selection.scope).blockName).map(({ key }) => key) : [];
    const at = keys.indexOf(selection.scope);
    const layer = data.layers.indexOf(selection.layer);
    const actions = {
      "[": () => at > 0 && bench.go({ scope: keys[at - 1] }),
      "]": () => at < keys.length - 1 && bench.go({ scope: keys[at + 1] }),
      ArrowUp: () => layer > 0 && bench.go({ layer: data.layers[layer - 1] }),
      ArrowDown: () => layer < data.layers.length - 1 && bench.go({ layer: data.layers[layer + 1] }),
      ArrowLeft: () => scene.row > 0 && bench.go({ to: scene.axes.rows[scene.row - 1].position }),
      ArrowRight: () => scene.row < scene.axes.nRows - 1 && bench.go({ to: scene.axes.rows[scene.row + 1].position }),
      z: () => bench.go({ zoom: closerAround(scene.axes, selection) }),
      f: () => byId("figure-mode").click(),
      "?": () => byId("help-mode").click(),
      "/": () => byId("search").focus(),
      Escape: () => bench.go(selection.zoom ? { zoom: "" } : selection.panel ? { panel: "" } : selection.heads ? { heads: "" } : selection.neuron >= 0 ? { neuron: -1 } : selection.node >= 0 ? { node: -1 } : {}),
    };
    if (event.key.startsWith("Arrow") && !event.altKey) return;
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  });
}
