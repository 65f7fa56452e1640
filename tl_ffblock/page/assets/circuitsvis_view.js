/* The maps once more, drawn by CircuitsVis: its bundle lies deflated in the page and runs only when asked for. */

import { THEMES } from "./colours.js";
import { inflate } from "./numbers.js";
import { subtitleOf, titleOf } from "./phrases.js";
import { panelsOf } from "./scene.js";
import { byId, element } from "./svg.js";

async function startCircuitsVis() {
  if (typeof CircuitsVis === "object") return;
  const script = new TextDecoder().decode(await inflate(byId("circuitsvis-bundle").textContent));
  document.head.append(element("script", { textContent: script }));
}

let drawnByCircuitsVis = 0;

function circuitsVisMap(scene, map) {
  const { axes, data } = scene;
  const host = element("div", { id: `circuitsvis-${drawnByCircuitsVis++}`, className: "circuitsvis" });
  const box = element("figure", {}, [element("figcaption", { textContent: `${titleOf(scene, map)}: ${subtitleOf(scene, map)}` }), host]);
  const rows = Array.from({ length: axes.nRows }, (_, row) => Array.from(map.cells.subarray(row * axes.nColumns, (row + 1) * axes.nColumns), (value) => value || 0));
  const draw = () => CircuitsVis.render(host.id, CircuitsVis.AttentionPattern, {
    attention: rows, tokens: map.labels, maxValue: map.limit || 1, minValue: -(map.limit || 1), maskUpperTri: data.causal,
    positiveColor: map.scale === "signed" ? THEMES.light.gain : THEMES.light.contribution, negativeColor: THEMES.light.loss,
  });
  return [box, draw];
}

async function drawWithCircuitsVis(scene, host) {
  host.replaceChildren(element("p", { className: "note", textContent: "CircuitsVis draws…" }));
  await startCircuitsVis();
  const drawings = panelsOf(scene).map((map) => circuitsVisMap(scene, map));
  host.replaceChildren(...drawings.map(([box]) => box));
  for (const [, draw] of drawings) draw();
  host.dataset.drawn = "true";
}

/** A button that draws the maps of now; another selection takes them away. */
export function offerCircuitsVis(scene, host) {
  delete host.dataset.drawn;
  if (byId("circuitsvis-bundle") === null || scene.selection.view !== "maps") { host.replaceChildren(); return; }
  const button = element("button", { type: "button", textContent: "Draw with CircuitsVis" });
  button.addEventListener("click", () => drawWithCircuitsVis(scene, host));
  host.replaceChildren(button);
}
