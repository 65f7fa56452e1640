/* View: every layer and head as a small map; a click opens it. */

import { labelStep } from "./furniture.js";
import { tableOfHeads } from "./heads_figure.js";
import { blockChoice, headBlock, headKeysOf, isResidual, shownHeads } from "./heads_view.js";
import { mapPicture, smallMap } from "./maps_view.js";
import { cellMeaning } from "./phrases.js";
import { inPieces } from "./place.js";
import { aloneAt } from "./scene.js";
import { allowsShares } from "./selection.js";
import { element, fitText, svg, text, textWidth } from "./svg.js";
import { blocksOf } from "./tables.js";

const GRID_NOTE = "Rows: layers, columns: heads. Each small map has its own scale.";
const GRID = { label: 26, head: 18, gap: 3, largest: 110, smallest: 22, pale: 0.3 };

/** How the cells are shown: those of which the page makes no shares as they are. */
function gridCells({ data, selection }) {
  return allowsShares(headBlock(data, selection)[1]) ? selection.cells : "none";
}

/** The channels that have a column. Of shares of the others the residual has none, because it contributes to the token itself only. */
function gridKeys(scene) {
  const { data, selection } = scene;
  const { channels } = headBlock(data, selection)[1];
  const keys = headKeysOf(data, selection);
  const heads = keys.filter((_, index) => !isResidual(channels[index]));
  return gridCells(scene) === "others" && heads.length ? heads : keys;
}

function gridNote(scene) {
  const without = gridKeys(scene).length < headKeysOf(scene.data, scene.selection).length;
  return GRID_NOTE + (without ? " The residual connection contributes to the token itself only: it has no column." : "");
}

/** Whether a column's head is among those that are chosen; where none is, all are. */
function isChosen({ data, selection }, key) {
  return selection.heads === "" || shownHeads(data, selection).includes(data.channels.get(key).index);
}

/** What its drawing is made from; the layer and head that are selected are marks. */
export function gridFields({ selection }) {
  return ["run", "cells", "range", "root", "words", "hide", "block", ...(selection.block ? [] : ["scope"])];
}

function gridButton(scene, go, key, layer, size) {
  const { data } = scene;
  const name = `layer ${layer}, ${data.channels.get(key).name}`;
  const button = element("button", { type: "button", className: "grid-cell", title: name });
  button.setAttribute("aria-label", name);
  Object.assign(button.style, { width: `${size}px`, height: `${size}px` });
  button.addEventListener("click", () => go({ layer, scope: key, ref: "", view: "maps" }));
  return button;
}

/** Pixels of a small map's side where `count` stand in a line of `width`. */
function gridSize(count, width) {
  return Math.max(GRID.smallest, Math.min(GRID.largest, Math.floor((width - GRID.label - 8) / count) - GRID.gap));
}

function shortHead(data, key) {
  return data.channels.get(key).name.replace(/^head /, "");
}

export function gridView(scene, go, width) {
  const { data } = scene;
  const keys = gridKeys(scene);
  const size = gridSize(keys.length, width);
  const places = data.layers.map((layer) => keys.map((key) => ({ layer, key, button: gridButton(scene, go, key, layer, size) })));
  const lines = places.map((line) => element("div", { className: "grid-line" }, [
    element("span", { className: "grid-layer", textContent: line[0].layer }), ...line.map(({ button }) => button),
  ]));
  const names = keys.map((key) => { const node = element("span", { className: "grid-head", textContent: shortHead(data, key) }); node.style.width = `${size}px`; return node; });
  const heads = element("div", { className: "grid-line grid-heads" }, [element("span", { className: "grid-layer" }), ...names]);
  const cells = places.flat();
  inPieces(scene, cells.map(({ layer, key, button }) => () => button.append(smallMap(scene, layer, key, size, size))), () => heads.isConnected);
  const update = (now) => {
    names.forEach((node, at) => node.classList.toggle("chosen", now.selection.heads !== "" && isChosen(now, keys[at])));
    for (const { button, key, layer } of cells) {
      button.classList.toggle("current", layer === now.selection.layer && (now.selection.heads === "" ? key === now.selection.scope : isChosen(now, key)));
      button.style.opacity = isChosen(now, key) ? "" : String(GRID.pale);
    }
  };
  const nodes = [...(blocksOf(data, "head").length > 1 ? [element("div", { className: "toggles" }, [blockChoice(scene, go)])] : []), element("p", { className: "note", textContent: `${gridNote(scene)} A click opens a map.` }), element("div", { className: "grid" }, [heads, ...lines])];
  return { nodes, update };
}

/** The small maps for a file; too narrow a figure makes them smaller than the screen does. */
export function gridFigure(scene, width) {
  const { data, palette } = scene;
  const keys = gridKeys(scene);
  const step = Math.min(gridSize(keys.length, width) + GRID.gap, (width - GRID.label) / keys.length, scene.room ? (scene.room - GRID.head) / data.layers.length : Infinity);
  const [size, every] = [step - GRID.gap, labelStep(step)];
  const pictures = data.layers.flatMap((layer, line) => keys.map((key, at) => {
    const alone = aloneAt(scene, layer, key);
    return { picture: mapPicture(alone, alone.map), x: GRID.label + at * step, y: GRID.head + line * step, width: size, height: size };
  }));
  const style = { "font-size": 10, fill: palette.grey };
  const layers = data.layers.flatMap((layer, line) => (line % every ? [] : [text(layer, GRID.label - 6, GRID.head + line * step + size / 2 + 4, { ...style, "text-anchor": "end" })]));
  const wide = Math.max(...keys.map((key) => textWidth(shortHead(data, key), 10))) > step;
  const heads = keys.map((key, at) => {
    const x = GRID.label + at * step + size / 2;
    return wide && at % every ? text("", x, 0) : text(fitText(shortHead(data, key), 10, Math.max(step, 24)), x, GRID.head - 5, { ...style, "text-anchor": "middle" });
  });
  const frames = pictures.map(({ x, y }) => svg("rect", { x, y, width: size, height: size, fill: "none", stroke: palette.line, "stroke-width": 0.5 }));
  const pale = keys.flatMap((key, at) => (isChosen(scene, key) ? [] : [svg("rect", { x: GRID.label + at * step, y: GRID.head, width: size, height: data.layers.length * step, fill: palette.paper, "fill-opacity": 1 - GRID.pale })]));
  return { groups: [{ x: 0, y: 0, pictures, nodes: [...layers, ...heads, ...frames, ...pale] }], height: GRID.head + data.layers.length * step };
}

export function gridWords(scene) {
  const { data, selection } = scene;
  const [name, block] = headBlock(data, selection);
  const cells = gridCells(scene);
  return {
    headline: `Every layer and head: ${block.title}.`, meaning: "Each small map is a head of a layer.", further: `A cell: ${cellMeaning(block, cells)}.`,
    place: "all layers", shown: `${block.title}, all heads`, remark: "", note: gridNote(scene), exact: block.exact, method: "", file: ["all-layers", `heads-${name}`.slice(0, 60), cells],
  };
}

export function gridTable(scene) {
  const indices = headBlock(scene.data, scene.selection)[1].channels.map((_, index) => index);
  return tableOfHeads(scene, indices, scene.data.layers);
}
