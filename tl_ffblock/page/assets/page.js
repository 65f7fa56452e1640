/* The workbench: one set of data, one selection, every view drawn from both. */

import { graphCard, graphFacts, graphFigure, graphFields, graphFind, graphLens, graphLook, graphTable, graphWords, hasGraph } from "./graph_lens.js";
import { drawCard, splitKeys } from "./card.js";
import { offerCircuitsVis } from "./circuitsvis_view.js";
import { closeUp, closeUpKeys } from "./close_up.js";
import { paletteOf } from "./colours.js";
import { connectControls, connectKeys, fillControls, fillHelp, markControls, option } from "./controls.js";
import { mapsTable } from "./csv.js";
import { connectExports, markExports } from "./exports.js";
import { gridFields, gridFigure, gridTable, gridView, gridWords } from "./grid_view.js";
import { headsFigure, headsTable, headsWords } from "./heads_figure.js";
import { hasHeads, headBlock, headKeysOf, headKeysShown, headsFields, headsView } from "./heads_view.js";
import { chosenLogit, hasLogit, logitBlocks, logitTable, logitUnit, mapsQuestion } from "./logit.js";
import { listedKind, logitCard } from "./logit_card.js";
import { MAPS_VIEW_FIELDS, mapsFigure, mapsView } from "./maps_view.js";
import { memoryCards, memoryView, memoryWords } from "./memory_view.js";
import { formatChange, formatRough } from "./numbers.js";
import { hasNumbers, numbersBlock, numbersFigure, numbersView, numbersWords, tableOfNumbers } from "./numbers_view.js";
import { hasOverview, logitFields, logitFigure, logitView, overviewWords } from "./overview_view.js";
import { pairsFields, pairsView } from "./pairs_view.js";
import { certificateText, mapsWords, sentenceText, wholeMeaning } from "./phrases.js";
import { FRAMED_PAGE, madeFrom, placeAt } from "./place.js";
import { MAP_FIELDS, sceneOf, selectionAfter } from "./scene.js";
import { scoresFields, scoresFigure, scoresOf, scoresTable, scoresTables, scoresView, scoresWords } from "./scores_view.js";
import { hashOf, selectionOf } from "./selection.js";
import { drawSentence, nameChips, revealToken } from "./sentence.js";
import { byId, element, writeText } from "./svg.js";
import { hasMaps, intervalRuns, openData } from "./tables.js";
import { wayOfChanges } from "./tracks.js";
import { WHERE_FIELDS, whereNote, whereView } from "./where.js";

/**
 * Each view: whether a page has what it needs, which maps (and tables of other blocks) have to be unpacked for it, its drawing. A drawing may be nodes
 * alone, made anew at every change; or `{ nodes, update }`, made anew where one of `fields(scene)` changed. `controls` are the fields that the toolbar
 * offers, because they change what is drawn; `withoutOwn` says that no cell is a row's own. `words` is what is said of it; of a view that can be saved `figure` is its drawing for a file and
 * `table` its numbers.
 */
const VIEWS = [
  {
    name: "overview", label: "Overview", there: hasOverview, keys: () => [], draw: logitView, fields: logitFields, controls: ["pair", "hide", "range", "root", "zoom"], withoutOwn: true,
    words: overviewWords, figure: logitFigure, table: logitTable,
  },
  {
    name: "maps", label: "Maps", there: hasMaps, keys: () => [], draw: mapsView, fields: () => MAPS_VIEW_FIELDS,
    controls: [...MAP_FIELDS, "zoom", "root"], words: mapsWords, figure: mapsFigure, table: mapsTable,
  },
  {
    name: "heads", label: "Heads", there: hasHeads, keys: headKeysShown, draw: headsView, fields: headsFields, controls: ["run", "layer"],
    words: headsWords, figure: headsFigure, table: headsTable,
  },
  {
    name: "all", label: "All heads", there: hasHeads, keys: headKeysOf, draw: gridView, fields: gridFields, controls: ["run", "cells", "range", "root"],
    words: gridWords, figure: gridFigure, table: gridTable,
  },
  {
    name: "scores", label: "Scores (q·k)", there: (data) => scoresOf(data, 0) !== undefined, keys: () => [], tables: scoresTables, draw: scoresView, fields: scoresFields,
    controls: ["run", "layer"], words: scoresWords, figure: scoresFigure, table: scoresTable,
  },
  {
    name: "numbers", label: "Numbers", there: hasNumbers, keys: () => [], draw: numbersView, fields: () => ["run", "to"], controls: [],
    words: numbersWords, figure: numbersFigure, table: tableOfNumbers,
  },
  {
    name: "graph", label: "Graph", there: hasGraph, keys: () => [], draw: graphLens, fields: graphFields, controls: [],
    words: graphWords, figure: graphFigure, table: graphTable, find: graphFind, look: graphLook,
  },
  { name: "memories", label: "Memories", there: (data) => memoryCards(data, 0).length > 0, keys: () => [], draw: memoryView, controls: [], words: memoryWords },
];

function viewNow(data, selection) {
  return VIEWS.find(({ name, there }) => name === selection.view && there(data)) || VIEWS.find(({ name, there }) => (name === "maps" || !hasMaps(data)) && there(data));
}

/* Where a page has more views than `MOST_TABS`, so many are tabs, the others a list. */
const MOST_TABS = 3;
const TABS = 2;
/* Beside the choice of two runs. */
const TABS_OF_RUNS = 1;

const workbench = { data: null, selection: null, scene: null, places: null, width: 0, framed: 0, rail: 0, lying: false, pending: false, figureOfMap: null, paper: false };

/* On paper canvases have so many pixels for one of the page. */
const PAPER_RATIO = 4;

/** Whether colours are those of the dark: as the notebook around the page says, else as the system does. */
function darkScheme() {
  const { theme } = document.documentElement.dataset;
  return (theme ? theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches) && !workbench.paper;
}

function drawHeader(data) {
  byId("certificate").textContent = certificateText(data);
  byId("drawn").textContent = `Numbers on this page are rounded, with a relative error of at most ${formatRough(data.precision, true)}.`;
  byId("provenance").textContent = Object.entries(data.provenance).map(([name, value]) => `${name}: ${value}`).join(" · ");
}

/** Model and sizes; what maps are where the heading asks nothing. */
function factsOf(data, asked) {
  if (!hasMaps(data) && !hasLogit(data)) return hasGraph(data) ? graphFacts(data) : numbersBlock(data, 0).facts;
  const rows = data.queries.length < data.words.length ? `, ${data.queries.length} of them as destinations` : "";
  const labels = data.words.length - (logitBlocks(data, 0).some(([, { others }]) => others) ? 1 : 0);
  const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  return [...(asked && asked.measure ? [asked.target] : []), data.model, ...(asked ? [] : [data.heading]), ...(data.layered ? [plural(data.layers.length, "layer")] : []), ...(data.named && asked && asked.measure ? [] : [`${plural(labels, data.named ? "named position" : "token")}${rows}`])].filter(Boolean).join(" · ");
}

/** The question that the page answers where it has a target, else the text that the run in sight has read; as heading and as the window's title. */
function drawHeading({ data, selection }) {
  const block = chosenLogit(data, selection);
  const answer = block ? ` ${block.measure && block.value === null ? block.answer : formatChange(block.value, false) + logitUnit(block)}` : "";
  const asked = viewNow(data, selection).name === "overview" && !block;
  const heading = block ? block.question : asked ? mapsQuestion({ data, selection }) : hasMaps(data) ? `“${sentenceText(data, selection.run, 300)}”` : data.heading;
  const title = block || !hasMaps(data) ? heading + answer : sentenceText(data, selection.run, 60);
  writeText(document.querySelector("title"), [title, data.model].filter(Boolean).join(" · "));
  writeText(byId("words-read").firstChild, heading);
  writeText(byId("answer"), answer);
  writeText(byId("facts"), factsOf(data, block || asked));
  byId("facts").title = byId("facts").textContent;
  byId("facts").parentElement.classList.toggle("short", viewNow(data, selection).name === "overview"); // where all layers are to be seen at once
  byId("answer").className = block && block.value < 0 ? "loss" : "gain";
}

/** What is needed for the selection, unpacked. */
async function ready(data, selection) {
  const view = viewNow(data, selection);
  const keys = (hasMaps(data) ? [selection.scope, ...view.keys(data, selection), ...(view.name === "overview" ? closeUpKeys(data, selection) : [])] : []).map((key) => [selection.run, key]);
  if (selection.ref) keys.push([selection.refRun, selection.ref]);
  if (hasMaps(data)) keys.push(...intervalRuns(data).map((run) => [run, selection.scope]));
  const tables = view.tables ? view.tables(data, selection) : [];
  await Promise.all([...keys.map(([run, key]) => data.load(run, key)), ...tables.map(data.open)]);
}

/** Unpacks the heads and experts of the scope that is shown, for the card; whether that was still to do and there are any. */
async function loadSplit(scene) {
  const { data, selection } = scene;
  const keys = ["head", "expert"].flatMap((axis) => splitKeys(scene, axis)).filter((key) => !data.loaded(selection.run, key));
  for (const key of keys) await data.load(selection.run, key);
  return keys.length > 0;
}

/* A map alone is as high as the window, but for some air, so that its columns' names and its last row are seen together. */
const AIR = 60;
const LOW_WINDOW = 500;

/** Pixels that a map shown alone may be high; 0 where any height will do: frames are as high as what is in them. */
function windowRoom(selection) {
  return (selection.panel || selection.ref === "") && !FRAMED_PAGE && !workbench.paper ? Math.max(LOW_WINDOW, window.innerHeight) - AIR : 0;
}

/* Pixels that a page in a frame of 640 with its border has at most, where it opens at the overview; that its layers have at first and at least. */
const FRAME = { most: 638, layers: 330, least: 100 };

function heightOfPage() {
  return Math.ceil(document.body.scrollHeight) + 2;
}

function sceneNow() {
  const { data, selection } = workbench;
  const scene = sceneOf(data, selection);
  scene.palette = workbench.palette;
  scene.paper = scene.inLine = scene.striped = workbench.paper;
  scene.ratio = scene.paper ? PAPER_RATIO : Math.min(3, window.devicePixelRatio || 1);
  scene.windowRoom = windowRoom(selection);
  scene.marked = [];
  const { name } = viewNow(data, selection);
  scene.listed = name === "overview" && hasLogit(data) && hasMaps(data);
  scene.headsBlock = hasHeads(data) && ["heads", "all", "scores"].includes(name) ? headBlock(data, selection)[0] : "";
  scene.hover = (target) => { for (const mark of scene.marked) mark(target); };
  return scene;
}

/** Widths that drawings are made for; asked for once, before anything is written. */
function measure() {
  const width = byId("figure").clientWidth;
  if (width !== workbench.width) workbench.framed = FRAME.layers;
  workbench.width = width;
  workbench.rail = byId("rail").clientWidth;
  workbench.lying = window.innerWidth < 1100;
}

function drawView(scene) {
  const { data, selection } = scene;
  const view = viewNow(data, selection);
  for (const tab of byId("views").children) tab.setAttribute("aria-selected", String(tab.dataset.view === view.name));
  byId("further").value = byId("further").querySelector(`[value=${view.name}]`) ? view.name : "";
  byId("further").classList.toggle("chosen", byId("further").value !== "");
  byId("what").dataset.view = view.name;
  byId("views").hidden = VIEWS.filter(({ there }) => there(data)).length < 2;
  const fields = view.fields ? view.fields(scene) : [];
  const draw = () => workbench.places.figure(scene, view.name + madeFrom(scene, fields, workbench.width) + scene.framed, () => view.draw(scene, workbench.go, workbench.width));
  draw();
  const over = FRAMED_PAGE && view.name === "overview" && !besidesShown() ? heightOfPage() - FRAME.most : 0;
  if (over <= 0) return;
  scene.framed = workbench.framed = Math.max(FRAME.least, workbench.framed - over);
  draw();
}

/** When the browser has shown what was drawn; of a page that nobody sees soon. */
function afterFrame() {
  return new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
    setTimeout(resolve, 100);
  });
}

/** Draws the sentence and the view; the panels come later. */
function drawFirst(scene) {
  workbench.scene = scene;
  byId("bench").dataset.view = viewNow(scene.data, scene.selection).name;
  measure();
  scene.width = workbench.width;
  scene.framed = workbench.framed;
  drawHeading(scene);
  markControls(scene, viewNow(scene.data, scene.selection));
  byId("reading").hidden = scene.headsBlock !== "" || workbench.view().name === "memories" || (workbench.view().name === "overview" && hasLogit(scene.data));
  if (hasMaps(scene.data)) drawSentence(scene, workbench.go, byId("sentence"));
  const words = viewNow(scene.data, scene.selection).words(scene);
  writeText(byId("meaning"), scene.paper ? wholeMeaning(words) : words.meaning);
  writeText(byId("help-drawn"), wholeMeaning(words));
  writeText(byId("headline"), words.headline);
  drawView(scene);
  performance.mark("picture");
  document.body.dataset.state = "picture";
}

function drawRest(scene) {
  drawBesides(scene);
  document.body.dataset.state = "drawn";
  tellHeight();
}

/** Draws everything: the sentence and the maps at once, the panels when these are in sight. */
async function drawAll() {
  const scene = sceneNow();
  drawFirst(scene);
  await afterFrame();
  if (workbench.scene === scene) drawRest(scene);
}

/** Draws everything for paper, or for the screen again, before the browser goes on. */
function drawPaper(paper) {
  workbench.paper = paper;
  document.body.classList.toggle("paper", paper);
  recolour();
  const scene = sceneNow();
  drawFirst(scene);
  drawRest(scene);
}

/** Whether the places beside the maps are in sight: in a frame they are not until asked for. */
function besidesShown() {
  return !FRAMED_PAGE || document.body.classList.contains("open");
}

/** The card of the selected cell, and of what flows to a target where the page has one: in the overview first, below the layer's map. */
function drawCards(scene) {
  const host = byId("card");
  if (viewNow(scene.data, scene.selection).name === "graph") { graphCard(scene, workbench.go); return; }
  const further = logitCard(scene, workbench.go);
  if (!hasMaps(scene.data)) { host.replaceChildren(...further); return; }
  drawCard(scene, workbench.go, host);
  if (viewNow(scene.data, scene.selection).name === "memories") { host.replaceChildren(); return; }
  if (viewNow(scene.data, scene.selection).name !== "overview") { host.append(...further); return; }
  const [said, ...list] = further.length ? further : [element("p", { className: "said", textContent: mapsWords(scene).headline })];
  host.prepend(said, ...list);
}

/** What can wait for the first frame: the numbers of the sentence, the places beside the maps. */
function drawBesides(scene) {
  if (!byId("figure-tools").hidden) markExports(workbench);
  const attributed = byId("figure").querySelector(".attributed");
  if (attributed) revealToken(scene, attributed);
  if (!hasMaps(scene.data)) { drawCards(scene); return; }
  revealToken(scene, byId("sentence"));
  nameChips(scene, byId("sentence"));
  offerCircuitsVis(scene, byId("circuitsvis-place"));
  if (!besidesShown()) return;
  const { data, selection } = scene;
  const { places, go, rail, lying } = workbench;
  byId("close-up").hidden = !byId("close-up").classList.toggle("card", workbench.view().name === "overview");
  if (!byId("close-up").hidden) {
    const { alone, fields, wide, draw } = closeUp(scene, go, byId("why").clientWidth);
    places.closeUp(alone, madeFrom(alone, fields, wide), draw);
  }
  const blockName = scene.headsBlock || data.channels.get(selection.scope).blockName;
  places.rail(scene, blockName + lying + madeFrom(scene, WHERE_FIELDS, rail), () => whereView(scene, go, rail, lying));
  const { axis } = data.block(selection.scope);
  writeText(byId("where-title"), `Layers and ${scene.headsBlock ? "heads" : axis === "scope" ? "steps" : `${axis}s`}`);
  writeText(byId("where-way"), wayOfChanges(scene));
  writeText(byId("where-note"), scene.headsBlock ? "" : whereNote(scene)); // above cells of heads there is little room
  writeText(byId("help-layers"), whereNote(scene));
  drawCards(scene);
  const unlisted = scene.listed && !scene.paper && listedKind(scene) !== "pairs";
  byId("which-pairs").hidden = unlisted;
  if (!unlisted) places.pairs(scene, madeFrom(scene, pairsFields(scene), 0), () => pairsView(scene, go));
  loadSplit(scene).then((there) => { if (there && workbench.scene === scene) drawCards(scene); });
}

/** Draws the selection once it is unpacked; several changes by one event are drawn once. */
async function schedule() {
  document.body.dataset.state = "waiting";
  if (workbench.pending) return;
  workbench.pending = true;
  await null;
  workbench.pending = false;
  const { selection } = workbench;
  await ready(workbench.data, selection);
  if (selection === workbench.selection && byId("figure").clientWidth > 0) drawAll();
}

let lastChange = { fields: "", time: -1e9 };

/** Takes a change of the selection. Back undoes it: quick changes of one field are one step. */
workbench.go = (change) => {
  const next = selectionAfter(workbench.data, workbench.selection, change);
  const fields = Object.keys(change).join();
  workbench.selection = next;
  schedule();
  tellSelection();
  if (FRAMED_PAGE) return;
  const quick = fields === lastChange.fields && performance.now() - lastChange.time < 700;
  lastChange = { fields, time: performance.now() };
  afterFrame().then(() => recordAddress(hashOf(workbench.data, next) || "#", quick));
};

/** Writes the address; it takes the browser several milliseconds, so the picture comes first. */
function recordAddress(hash, quick) {
  if (hash === (location.hash || "#")) return;
  history[quick ? "replaceState" : "pushState"](null, "", hash);
}

workbench.address = () => (FRAMED_PAGE ? hashOf(workbench.data, workbench.selection) : location.href.split("#")[0] + hashOf(workbench.data, workbench.selection));
workbench.resized = schedule;
workbench.view = () => viewNow(workbench.data, workbench.scene.selection);

function tellHeight() {
  if (FRAMED_PAGE) window.parent.postMessage({ tlFfblock: "height", height: heightOfPage() }, "*");
}

/** To the notebook: what is selected, as Python names it. */
function tellSelection() {
  if (!FRAMED_PAGE) return;
  const { run, scope, layer, refRun, ref, to, from } = workbench.selection;
  window.parent.postMessage({ tlFfblock: "selection", selection: { run: workbench.data.runs[run].name, scope, layer, against_run: workbench.data.runs[refRun].name, against: ref || null, query: to, key: from } }, "*");
}

function recolour() {
  workbench.palette = paletteOf(darkScheme() ? "dark" : "light");
}

function connectPage() {
  const views = VIEWS.filter(({ there }) => there(workbench.data));
  const first = workbench.data.runs.length > 1 ? TABS_OF_RUNS : TABS;
  const [tabs, further] = views.length > MOST_TABS ? [views.slice(0, first), views.slice(first)] : [views, []];
  byId("further").replaceChildren(Object.assign(option("", "More views"), { hidden: true }), ...further.map(({ name, label }) => option(name, label)));
  byId("further").hidden = further.length === 0;
  byId("further").addEventListener("change", () => workbench.go({ view: byId("further").value }));
  byId("views").replaceChildren(...tabs.map(({ name, label }) => {
    const tab = element("button", { type: "button", textContent: label });
    tab.setAttribute("role", "tab");
    tab.dataset.view = name;
    tab.addEventListener("click", () => workbench.go({ view: name }));
    return tab;
  }));
  byId("more").addEventListener("click", () => {
    const open = document.body.classList.toggle("open");
    byId("more").setAttribute("aria-expanded", String(open));
    schedule();
  });
  const fromAddress = () => { workbench.selection = selectionOf(workbench.data, location.hash); schedule(); };
  for (const name of ["popstate", "hashchange", "pageshow"]) window.addEventListener(name, FRAMED_PAGE ? schedule : fromAddress);
  let wide = window.innerWidth;
  new ResizeObserver(() => {
    if (byId("figure").clientWidth === workbench.width && window.innerWidth === wide) return;
    wide = window.innerWidth;
    schedule();
  }).observe(byId("figure"));
  recolour();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { recolour(); schedule(); });
  window.addEventListener("message", ({ source, data }) => {
    if (!FRAMED_PAGE || source !== window.parent || !data || data.tlFfblock !== "theme") return;
    document.documentElement.dataset.theme = data.dark ? "dark" : "light";
    recolour();
    schedule();
  });
  window.addEventListener("beforeprint", () => drawPaper(true));
  window.addEventListener("afterprint", () => drawPaper(false));
}

function startPage() {
  workbench.data = openData(JSON.parse(byId("data").textContent));
  workbench.selection = selectionOf(workbench.data, FRAMED_PAGE ? "" : location.hash);
  workbench.places = { figure: placeAt(byId("figure")), rail: placeAt(byId("rail")), pairs: placeAt(byId("pair-list")), closeUp: placeAt(byId("close-up")) };
  document.body.classList.toggle("framed", FRAMED_PAGE);
  document.body.classList.toggle("unlayered", !workbench.data.layered);
  document.body.classList.toggle("mapless", !hasMaps(workbench.data));
  byId("search").parentElement.hidden = workbench.data.queries.length === 0 && !hasGraph(workbench.data);
  drawHeader(workbench.data);
  fillControls(workbench.data);
  fillHelp();
  connectPage();
  connectControls(workbench);
  connectExports(workbench);
  connectKeys(workbench);
  tellSelection();
  schedule();
}

startPage();
