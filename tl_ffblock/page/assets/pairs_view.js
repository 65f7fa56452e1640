/* Which: the list of pairs of tokens, sorted, filtered, cut by threshold; a click selects the cell. */

import { shownOf, sideHeads } from "./phrases.js";
import { pairDistance, rankedPairs } from "./ranking.js";
import { MAP_FIELDS, labelsOf, whichOf } from "./scene.js";
import { byId, element } from "./svg.js";
import { pairPlaces } from "./text.js";

/* Lines of the list; on paper so few that they end on the second sheet. */
const PAIR_LINES = 40;
const PAPER_LINES = 25;

/** What the list is made from. */
export function pairsFields({ selection }) {
  return [...MAP_FIELDS, "sort", "pairs", "mass", "find", ...(selection.pairs === "token" ? ["read", "to", "from"] : [])];
}

function pairLine(scene, pair, go) {
  const { axes, maps } = scene;
  const labels = labelsOf(scene);
  const [to, from] = [axes.rows[pair.row].position, axes.columns[pair.column].position];
  const button = element("button", { type: "button", className: "plain", title: pairPlaces(scene.data, from, to) }, [
    element("bdi", { textContent: labels[pair.column] }), `${whichOf(scene, pair.column)} → `,
    element("bdi", { textContent: labels[axes.own[pair.row]] }), whichOf(scene, axes.own[pair.row]),
  ]);
  button.addEventListener("click", () => go({ to, from }));
  const distance = scene.selection.sort === "distance" ? [pairDistance(axes, pair.index)] : [];
  const numbers = [...distance, ...maps.map((map) => shownOf(map, map.cells[pair.index], map.asShare))];
  return element("tr", {}, [element("td", {}, [button]), ...numbers.map((number) => element("td", { textContent: number }))]);
}

export function pairsView(scene, go) {
  const { pairs, total } = rankedPairs(scene, scene.paper ? PAPER_LINES : PAIR_LINES);
  const heads = sideHeads(scene).map((name, side) => element("th", { scope: "col", textContent: scene.maps[side].role === "difference" ? "change" : name }));
  if (scene.selection.sort === "distance") heads.unshift(element("th", { scope: "col", className: "whole", textContent: "distance" }));
  const lines = pairs.map((pair) => pairLine(scene, pair, go));
  const table = element("table", { className: "pairs" }, [
    element("thead", {}, [element("tr", {}, [element("th", { scope: "col", textContent: "from → to" }), ...heads])]),
    element("tbody", {}, lines),
  ]);
  byId("pairs-note").textContent = total > pairs.length ? `the first ${pairs.length} of ${total}` : total ? `${total} pairs` : "no pair fits";
  const update = (now) => pairs.forEach((pair, at) => lines[at].classList.toggle("current", pair.row === now.row && pair.column === now.column));
  return { nodes: [table], update };
}
