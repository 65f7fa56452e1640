/* Why: the card of the selected cell and of its token. */

import { rampName } from "./colours.js";
import { formatNumber } from "./numbers.js";
import { layerWords, quotation, shownOf } from "./phrases.js";
import { rankedProfile } from "./ranking.js";
import { isMixed, labelsOf, ownColumn, profileOf, whichOf } from "./scene.js";
import { largest } from "./shares.js";
import { element } from "./svg.js";
import { blocksOf, channelKey } from "./tables.js";
import { pairPlaces } from "./text.js";
import { cellNumbers, numbersLine, numbersTable } from "./tooltip.js";

export function sizeBar(share, colour) {
  const fill = element("i", { className: "bar-fill" });
  Object.assign(fill.style, { width: `${Math.max(0.5, 100 * Math.min(1, share))}%`, backgroundColor: colour });
  return element("span", { className: "bar" }, [fill]);
}

/** The colour of a number's bar: of signed ones by its sign. */
export function sizeInk({ palette }, map, value) {
  return palette[rampName(value, map.scale)];
}

function cellCard(scene) {
  const { axes, row, column, data } = scene;
  const labels = labelsOf(scene);
  const reachable = axes.reaches(row, column);
  return element("section", { className: "card cell-card" }, [
    element("h3", {}, ["Cell: ", element("bdi", { textContent: labels[column] }), `${whichOf(scene, column)} → `, element("bdi", { textContent: labels[axes.own[row]] }), whichOf(scene, axes.own[row])]),
    element("p", { className: "note", textContent: [pairPlaces(data, axes.columns[column].position, axes.rows[row].position), layerWords(scene)].filter(Boolean).join(", ") }),
    reachable && scene.headsBlock ? "" : reachable ? cellNumbers(scene, { row, column }) : element("p", { textContent: "Not reachable: this model attends to earlier tokens only." }),
    ...(scene.listed ? [] : [...splitBars(scene, "head"), ...splitBars(scene, "expert")]),
    ...scene.strips.length && data.queries.length && !scene.headsBlock ? [element("p", { className: "note", textContent: `${quotation(labels[axes.own[row]])} as a row:` }), stripTable(scene)] : [],
  ]);
}

/** Own share, bias and remainder of the selected row. */
function stripTable(scene) {
  return numbersTable(scene, scene.strips.map((name) => numbersLine(name, scene.maps.map((map) =>
    (map.columns[name] ? shownOf(map, map.columns[name][scene.row], name === "own") : "–")))));
}

/** Keys of the maps by head, or by expert, of the scope that is shown; none where the page does not hold them. */
export function splitKeys(scene, axis) {
  const { data, selection } = scene;
  const scope = data.channels.get(selection.scope).name;
  const named = blocksOf(data, axis).find(([, block]) => block.of === scope);
  return named && !selection.words ? named[1].channels.map((channel) => channelKey(data, named[0], channel.name)) : [];
}

/** The cell through each head, or through each expert, where the page holds these of the scope and they are unpacked. */
function splitBars(scene, axis) {
  const { data, selection, axes, row, column, palette } = scene;
  const keys = splitKeys(scene, axis);
  if (!keys.length || !keys.every((key) => data.loaded(selection.run, key))) return [];
  const index = row * axes.nColumns + column;
  const sizes = keys.map((key) => ({ label: data.channels.get(key).name, value: data.matrix(selection.run, key, selection.layer)[index] || 0 }));
  const most = largest(sizes.map(({ value }) => value));
  sizes.sort((a, b) => b.value - a.value);
  return [
    element("p", { className: "note", textContent: `Through each ${axis} (norms; they do not add up), ${data.channels.get(selection.scope).name}:` }),
    element("div", { className: "bars" }, sizes.slice(0, 6).map(({ label, value }) => element("div", { className: "bar-line" }, [element("span", { textContent: label }), sizeBar(value / (most || 1), palette.contribution), element("span", { textContent: formatNumber(value) })]))),
  ];
}

function rankWord(entry) {
  if (entry.earlier === null || entry.earlier === entry.rank) return "";
  return entry.earlier > entry.rank ? `↑${entry.earlier - entry.rank}` : `↓${entry.rank - entry.earlier}`;
}

const PROFILE_LINES = 10;

/** The ten strongest tokens of the sentence's profile, before and after, with the change of rank. */
function profileCard(scene, go) {
  const { maps, axes, selection } = scene;
  const sides = isMixed(scene) ? [maps[1]] : maps.filter((map) => map.role !== "difference");
  const profiles = sides.map((map) => profileOf(scene, map));
  const last = profiles[profiles.length - 1];
  const entries = rankedProfile(last, profiles.length > 1 ? profiles[0] : null, PROFILE_LINES);
  const show = (value) => shownOf(sides[0], value, sides[0].asShare);
  const most = largest(entries.map(({ at }) => Math.abs(last[at])));
  const labels = sides[sides.length - 1].labels;
  const lines = entries.map((entry) => {
    const button = element("button", { type: "button", className: "plain" }, [element("bdi", { textContent: labels[entry.at] }), whichOf(scene, entry.at)]);
    const position = axes.columns[entry.at].position;
    button.addEventListener("click", () => go(selection.read === "row" ? { from: position } : { to: position }));
    return element("tr", {}, [
      element("td", {}, [button]), element("td", {}, [sizeBar(Math.abs(last[entry.at]) / (most || 1), sizeInk(scene, sides[0], last[entry.at]))]),
      element("td", { textContent: profiles.map((profile) => show(profile[entry.at])).join(" → ") }), element("td", { className: "rank", textContent: rankWord(entry) }),
    ]);
  });
  const own = ownColumn(scene);
  const heading = element("h3", {}, [selection.read === "row" ? "Strongest sources of " : "Strongest destinations of ", element("bdi", { textContent: labels[own] }), whichOf(scene, own)]);
  return element("section", { className: "card" }, [heading, element("table", { className: "profile" }, lines)]);
}

/** In views of heads the cell's card has heads alone: the contribution of all heads together is another number. Beside the list of a target it has no list of its own. */
export function drawCard(scene, go, host) {
  host.replaceChildren(cellCard(scene), ...(scene.headsBlock || scene.listed ? [] : [profileCard(scene, go)]));
}
