/* The sentence, coloured by the sources of one token or by the destinations of one: ground = after, stripe below = before. */

import { shadeOf } from "./colours.js";
import { formatRough } from "./numbers.js";
import { quotation, shownOf, sideHeads } from "./phrases.js";
import { labelsOf, ownColumn, profileLimits, profileOf, shownMap } from "./scene.js";
import { byId, colourChip, element, writeText } from "./svg.js";
import { positionWords } from "./text.js";

/* Pixels around the lines of chips. */
const AROUND_CHIPS = 2;

function sentenceWords(scene) {
  const { selection, maps, axes, row, column } = scene;
  const label = (at) => quotation(labelsOf(scene)[at]);
  const limit = profileLimits(scene).at(-1);
  const shown = shownMap(scene);
  const ends = limit > 0 ? ` Darkest: ${formatRough(limit, shown.asShare, shown.scale === "signed")}.` : "";
  const chosen = selection.view === "overview" && selection.run !== selection.refRun; // the words above name both runs
  const sides = maps.length > 1 && !chosen ? ` Colour: ${sideHeads(scene)[1]}; underline: ${sideHeads(scene)[0]}.` : "";
  const at = (position) => (scene.data.named ? "" : ` (${positionWords(scene.data, position)})`);
  return (selection.read === "row" ? `Sources of ${label(axes.own[row])}${at(axes.rows[row].position)}.` : `Destinations of ${label(column)}${at(axes.columns[column].position)}.`) + sides + ends;
}

function chipOf(column) {
  const node = element("span", { className: "chip", id: `token-${column}` }, [element("bdi")]);
  node.setAttribute("role", "option");
  node.dataset.column = column;
  return node;
}

/** The profiles that colour the sentence, before and after. */
function profilesOf(scene) {
  return scene.maps.filter((map) => map.role !== "difference").map((map) => profileOf(scene, map));
}

/** Colours one token's chip; tokens that take no part are dashed. */
function paintChip(scene, node, column, profiles, limits) {
  const { palette, maps } = scene;
  const ground = profiles[profiles.length - 1][column];
  const own = column === ownColumn(scene);
  writeText(node.firstChild, labelsOf(scene)[column]);
  node.setAttribute("aria-selected", String(own));
  node.classList.toggle("later", Number.isNaN(ground) && !own);
  node.classList.toggle("cell", column === (scene.selection.read === "row" ? scene.column : scene.axes.own[scene.row]));
  const shadeAt = (side) => {
    const value = profiles[side][column];
    return Number.isNaN(value) ? null : shadeOf(palette, value, limits[side], maps[side].scale, scene.selection.root);
  };
  node.classList.toggle("negative", maps[profiles.length - 1].scale === "signed" && ground < 0);
  colourChip(node, shadeAt(profiles.length - 1), profiles.length > 1 && shadeAt(0));
}

/** Writes each token's numbers where pointer and screen reader find them. */
export function nameChips(scene, host) {
  const profiles = profilesOf(scene);
  const labels = labelsOf(scene);
  const sides = scene.maps.filter((map) => map.role !== "difference");
  Array.from(host.children).forEach((node, column) => {
    const place = positionWords(scene.data, scene.axes.columns[column].position);
    node.title = `${[labels[column], place].filter(Boolean).join(" · ")}: ${profiles.map((profile, side) => shownOf(sides[side], profile[column], sides[side].asShare)).join(" → ")}`;
    node.setAttribute("aria-label", node.title);
  });
}

function moveInSentence(scene, go, event) {
  const { axes, selection, data } = scene;
  const steps = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -data.words.length, End: data.words.length };
  if (!(event.key in steps) || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  if (selection.read === "row") {
    const row = Math.max(0, Math.min(axes.nRows - 1, scene.row + steps[event.key]));
    go({ to: axes.rows[row].position });
  } else {
    const column = Math.max(0, Math.min(axes.nColumns - 1, scene.column + steps[event.key]));
    go({ from: axes.columns[column].position });
  }
}

/** Colours the sentence in `host`; its chips stay the same nodes while the tokens do, so that focus and scrolling stay. */
export function drawSentence(scene, go, host) {
  const { axes, selection } = scene;
  if (host.children.length !== axes.nColumns) host.replaceChildren(...Array.from({ length: axes.nColumns }, (_, column) => chipOf(column)));
  const profiles = profilesOf(scene);
  const limits = profileLimits(scene);
  Array.from(host.children).forEach((node, column) => paintChip(scene, node, column, profiles, limits));
  host.setAttribute("aria-activedescendant", `token-${ownColumn(scene)}`);
  host.classList.toggle("long", axes.nColumns > 40);
  host.onclick = (event) => {
    const picked = event.target.closest(".chip");
    if (!picked) return;
    const position = axes.columns[Number(picked.dataset.column)].position;
    const row = axes.rowOf(position);
    if (event.shiftKey) go(selection.read === "row" ? { from: position } : row >= 0 ? { to: position } : {});
    else if (selection.read === "column" || row < 0) go({ from: position, read: "column" });
    else go({ to: axes.rows[row].position });
  };
  host.onkeydown = (event) => moveInSentence(scene, go, event);
  writeText(byId("sentence-words"), sentenceWords(scene));
  scene.marked.push((target) => {
    const at = target && (target.column ?? (target.row === undefined ? -1 : axes.own[target.row]));
    Array.from(host.children).forEach((node, column) => node.classList.toggle("read", column === at));
  });
}

/** Scrolls to the token that is read, whose line is then the last in sight; asked after a frame, when the page is laid out. */
export function revealToken(scene, host) {
  const chip = host.children[ownColumn(scene)];
  const end = chip.offsetTop + chip.offsetHeight + AROUND_CHIPS;
  if (chip.offsetTop < host.scrollTop || end > host.scrollTop + host.clientHeight + 1) host.scrollTop = end - host.clientHeight;
}
