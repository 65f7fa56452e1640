/* The numbers of one cell, for the tooltip and for the card. */

import { formatChange } from "./numbers.js";
import { shownOf, sideHeads } from "./phrases.js";
import { isMixed, labelsOf } from "./scene.js";
import { byId, element } from "./svg.js";
import { effectAt, effectsOf, intervalOf } from "./tables.js";
import { positionWords } from "./text.js";

export function tokenAt({ data }, label, position) {
  const there = data.named ? data.details[position] : positionWords(data, position);
  return there ? `${label} (${there})` : label;
}

export function numbersLine(label, shown) {
  return element("tr", {}, [element("th", { textContent: label, scope: "row" }), ...shown.map((number) => element("td", { textContent: number }))]);
}

export function numbersTable(scene, lines) {
  const heads = sideHeads(scene).map((head) => element("th", { textContent: head, scope: "col" }));
  return element("table", { className: "numbers" }, [element("tr", {}, [element("td"), ...heads]), ...lines]);
}

/** Norm and share of a cell before, after and in difference; three digits, the difference signed. */
export function cellNumbers(scene, { row, column }) {
  const index = row * scene.axes.nColumns + column;
  const lines = [numbersLine(isMixed(scene) ? "number" : scene.data.block(scene.selection.scope).short, scene.maps.map((map) => shownOf(map, map.raw[index], scene.data.block(map.key).shares !== "")))];
  const how = { others: "share of others", row: "share of row", column: "share of column" }[scene.selection.cells];
  const { data, selection } = scene;
  const ends = scene.maps.length === 1 && intervalOf(data, selection.run, selection.scope, selection.layer);
  if (ends) lines.push(numbersLine("95 % interval", [ends.map((end) => shownOf(scene.maps[0], end[index], data.block(selection.scope).shares !== "")).join(" to ")]));
  const place = [selection.layer, -1, scene.axes.rows[row].position, scene.axes.columns[column].position];
  for (const block of effectsOf(data)) {
    const effect = effectAt(block, "cell", ...place);
    if (!Number.isNaN(effect)) lines.push(numbersLine(`${block.target} ${block.short}`, [formatChange(effect, false)]));
  }
  if (how) lines.push(numbersLine(how, scene.maps.map((map) => shownOf(map, map.cells[index], true))));
  return numbersTable(scene, lines);
}

function stripNumbers(scene, { row, strip: name }) {
  return numbersTable(scene, [numbersLine(name, scene.maps.map((map) => (map.columns[name] ? shownOf(map, map.columns[name][row], name === "own") : "–")))]);
}

export function tipLine(label, content) {
  return element("div", {}, [element("span", { className: "tip-label", textContent: label }), element("bdi", { textContent: content })]);
}

function tipContent(scene, target) {
  const { axes } = scene;
  const labels = labelsOf(scene);
  const to = () => tipLine("to", tokenAt(scene, labels[axes.own[target.row]], axes.rows[target.row].position));
  const from = () => tipLine("from", tokenAt(scene, labels[target.column], axes.columns[target.column].position));
  if (target.strip) return [to(), stripNumbers(scene, target)];
  if (target.row === undefined) return [from()];
  if (target.column === undefined) return [to()];
  if (!axes.reaches(target.row, target.column)) return [to(), from(), element("div", { textContent: "Not reachable: this model attends to earlier tokens only." })];
  return [to(), from(), cellNumbers(scene, target)];
}

export function placeTip(tip, x, y) {
  tip.style.left = `${Math.max(4, Math.min(x + 16, window.innerWidth - tip.offsetWidth - 8))}px`;
  const below = y + 18 + tip.offsetHeight < window.innerHeight;
  tip.style.top = `${Math.max(4, below ? y + 18 : y - tip.offsetHeight - 12)}px`;
}

export function showTip(scene, target, x, y) {
  const tip = byId("tooltip");
  tip.hidden = !target;
  if (tip.hidden) return;
  tip.replaceChildren(...tipContent(scene, target));
  placeTip(tip, x, y);
}
