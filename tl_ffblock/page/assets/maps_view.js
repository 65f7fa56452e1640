/* View: one map, or before, after and difference of any two. */

import { paint, placed } from "./cells.js";
import { columnHeads, hatchPattern, statements, surroundings } from "./furniture.js";
import { STRIP, TITLE_HEIGHT, layoutOf } from "./layout.js";
import { marksOf } from "./marks.js";
import { titleOf } from "./phrases.js";
import { madeFrom } from "./place.js";
import { enablePointing } from "./pointing.js";
import { MAP_FIELDS, aloneAt } from "./scene.js";
import { largest } from "./shares.js";
import { element, svg } from "./svg.js";

/** What its frames are made from. Other numbers are painted into them as long as they fit; what is selected are marks. */
export const MAPS_VIEW_FIELDS = ["run", "refRun", "words", "panel", "zoom", "root"];

export function mapPicture(scene, map) {
  return { cells: map.cells, nColumns: scene.axes.nColumns, window: scene.window, scale: map.scale, limit: map.limit, root: scene.selection.root };
}

/** A thin column beside the map, one number per row: shares on the scale of shares, norms on their own. */
function stripPicture(scene, map, name) {
  const signed = map.scale === "signed";
  const [first, last] = scene.window;
  const alike = scene.maps.filter((other) => other.columns[name] && (other.role === "difference") === (map.role === "difference"));
  const limit = name === "own" && !signed ? 1 : Math.max(...alike.map((other) => largest(other.columns[name])));
  return { cells: map.columns[name], nColumns: 1, window: [first, last, 0, 0], scale: signed ? "signed" : "bias", limit, root: 0 };
}

/** What a frame is painted with, and where: the map, then its strips. */
function picturesOf(scene, frame) {
  const strips = scene.strips.filter((name) => frame.map.columns[name]);
  const stands = { y: frame.top, height: frame.down };
  const map = { name: "", picture: mapPicture(scene, frame.map), x: frame.left, width: frame.across, ...stands };
  return [map, ...strips.map((name, order) => ({
    name, picture: stripPicture(scene, frame.map, name), width: STRIP.width, ...stands,
    x: frame.left + frame.across + STRIP.gap + order * (STRIP.width + STRIP.gap),
  }))];
}

/** A small picture of a map at another layer or channel, `width` x `height` on the screen. */
export function smallMap(scene, layer, key, width, height) {
  const alone = aloneAt(scene, layer, key);
  return paint(mapPicture(alone, alone.map), scene.palette, width * scene.ratio, height * scene.ratio);
}

/** Where everything stands and what stands along the axes; maps of the same shape share their frames. */
function shapeOf(frames) {
  return JSON.stringify(frames.map(({ map, pictures, cell, top, left, across, width, x, y, height }) =>
    [map.role, map.scale, map.labels, pictures.map(({ name }) => name), cell, top, left, across, width, x, y, height]));
}

function framesOf(scene, width) {
  const layout = layoutOf(scene, width);
  for (const frame of layout.frames) frame.pictures = picturesOf(scene, frame);
  return layout;
}

/** A frame's panel, its canvases still empty; `frame.fill(scene)` paints numbers and says what they are. */
function panelOf(scene, frame, go) {
  const [said, marks, named] = [svg("g"), svg("g", { class: "marks" }), svg("g")];
  // Two drawings: what stays is painted once, what changes lies over it.
  const [still, moving] = [surroundings(scene, frame), [said, marks]].map((nodes) => svg("svg", { width: frame.width, height: frame.height, "aria-hidden": "true" }, nodes));
  const canvases = frame.pictures.map(() => element("canvas"));
  const painted = frame.pictures.map(({ name, x, width }, index) => placed(element("div", { className: name ? "beside" : "cells" }, [canvases[index]]), x, frame.top, width, frame.down));
  const panel = placed(element("div", { className: "panel", tabIndex: 0 }, [headsOf(frame, [...columnHeads(scene, frame), named]), ...painted, still, moving]), frame.x, frame.y, frame.width, frame.height);
  panel.setAttribute("role", "application");
  panel.dataset.role = frame.map.role;
  if (scene.maps.length > 1 && !scene.beside) panel.append(enlargeButton(scene, frame, go));
  const fill = (now, { map, notes, pictures }) => {
    Object.assign(frame, { map, notes, pictures });
    pictures.forEach(({ picture, width }, index) => paint(picture, now.palette, width * now.ratio, frame.down * now.ratio, canvases[index]));
    said.replaceChildren(...statements(now, frame));
    panel.setAttribute("aria-label", `${titleOf(now, map)}. Arrow keys read cells, Enter selects.`);
  };
  return Object.assign(frame, { panel, marks, named, fill });
}

/** The part of a panel between its titles and its cells, which stays at the window's top while the cells are scrolled. */
function headsOf({ top, width }, nodes) {
  const height = top - TITLE_HEIGHT - 5; // up to where the first row's name may reach
  const heads = element("div", { className: "heads" }, [svg("svg", { width, height, viewBox: `0 ${TITLE_HEIGHT} ${width} ${height}`, "aria-hidden": "true" }, nodes)]);
  heads.style.marginTop = `${TITLE_HEIGHT}px`;
  return heads;
}

function enlargeButton(scene, frame, go) {
  const alone = scene.selection.panel === frame.map.role;
  const button = element("button", { type: "button", className: "enlarge", textContent: alone ? "⤡" : "⤢", title: alone ? "show all maps" : "show this map alone" });
  button.setAttribute("aria-label", button.title);
  button.addEventListener("click", (event) => { event.stopPropagation(); go({ panel: alone ? "" : frame.map.role }); });
  button.addEventListener("pointerdown", (event) => event.stopPropagation());
  return button;
}

/** Marks a scene's selection on the frames, and later what is pointed at. */
function markFrames(scene, frames) {
  const mark = (target) => { for (const frame of frames) frame.marks.replaceChildren(...frame.selected, ...marksOf(scene, frame, target)); };
  for (const frame of frames) {
    frame.scene = scene;
    frame.selected = frame.rows.mark(scene.row);
    frame.named.replaceChildren(...frame.columns.mark(scene.column));
  }
  scene.marked.push(mark);
  mark(null);
}

export function mapsView(scene, go, width) {
  const layout = framesOf(scene, width);
  const shape = shapeOf(layout.frames);
  const plot = element("div", { className: "plot" }, [svg("svg", { width: 0, height: 0, "aria-hidden": "true" }, [hatchPattern(scene.palette)])]);
  plot.style.height = `${layout.height}px`;
  for (const frame of layout.frames) {
    plot.append(panelOf(scene, frame, go).panel);
    enablePointing(frame, go);
  }
  let filled = "";
  const update = (now) => {
    const numbers = madeFrom(now, MAP_FIELDS, width) + now.windowRoom;
    if (numbers !== filled) {
      const { frames } = filled === "" ? layout : framesOf(now, width);
      if (filled !== "" && shapeOf(frames) !== shape) return false;
      frames.forEach((frame, index) => layout.frames[index].fill(now, frame));
      filled = numbers;
    }
    markFrames(now, layout.frames);
    return true;
  };
  return { nodes: scene.beside ? [plot] : [...panelChoice(scene, go), plot], update };
}

const PANEL_WORDS = { before: "before", after: "after", difference: "change" };

/** Where one map of several is seen: which, so that a click from one to the next shows what changes. */
function panelChoice({ maps, selection }, go) {
  if (!selection.panel || maps.length < 2) return [];
  const choices = [...maps.map(({ role }) => [role, PANEL_WORDS[role]]), ["", "side by side"]];
  return [element("div", { className: "toggles panels" }, choices.map(([panel, textContent]) => {
    const button = element("button", { type: "button", textContent });
    button.setAttribute("aria-pressed", String(panel === selection.panel));
    button.addEventListener("click", () => go({ panel }));
    return button;
  }))];
}

/** The maps for a file. */
export function mapsFigure(scene, width) {
  const layout = framesOf(scene, width);
  const groups = layout.frames.map((frame) => ({
    x: frame.x, y: frame.y, pictures: frame.pictures,
    nodes: [...columnHeads(scene, frame), ...surroundings(scene, frame), ...frame.rows.mark(scene.row), ...frame.columns.mark(scene.column), ...statements(scene, frame), svg("g", { class: "marks" }, marksOf(scene, frame, null))],
  }));
  return { groups, width: layout.width, height: layout.height };
}
