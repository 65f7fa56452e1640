/* Reading, choosing and zooming on a map, by pointer, touch and keyboard. */

import { LABEL, STRIP, TITLE_HEIGHT } from "./layout.js";
import { zoomText } from "./selection.js";
import { svg } from "./svg.js";
import { showTip } from "./tooltip.js";

/** What lies under a point of the panel: a cell, a number of a strip, the label of a row or of a column. */
function targetAt(scene, frame, x, y) {
  const { window: [top, bottom, left, right] } = scene;
  const row = top + Math.floor((y - frame.top) / frame.cell.height);
  const column = left + Math.floor((x - frame.left) / frame.cell.width);
  const inColumns = column >= left && column <= right;
  if (y < frame.top) return inColumns && y > TITLE_HEIGHT ? { column } : null;
  if (row > bottom || x < LABEL.axis) return null;
  if (column < left) return { row };
  if (inColumns) return { row, column };
  const order = Math.floor((x - frame.left - frame.across - STRIP.gap / 2) / (STRIP.width + STRIP.gap));
  const name = scene.strips.filter((label) => frame.map.columns[label])[order];
  return name ? { row, strip: name } : null;
}

/** The selection that a click on a target means.
 * @param {any} scene
 * @param {{ row?: number, column?: number }} target */
export function selectionAt(scene, { row, column }) {
  const { axes, selection } = scene;
  const position = row === undefined ? undefined : axes.rows[row].position;
  if (column === undefined) return { to: position, read: "row" };
  const source = axes.columns[column].position;
  return row === undefined ? { from: source, read: "column" } : { to: position, from: source, read: selection.read };
}

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function movedTarget(scene, target, [down, right]) {
  const [top, bottom, left, last] = scene.window;
  const clamp = (value, least, most) => Math.max(least, Math.min(most, value));
  return { row: clamp((target.row ?? scene.row) + down, top, bottom), column: clamp((target.column ?? scene.column) + right, left, last) };
}

/** A rectangle drawn with the mouse becomes the window; returns handlers for the panel's pointer events. */
function brushOf(frame, go) {
  let start = null;
  const band = svg("rect", { class: "band" });
  const within = (target) => target && target.row !== undefined && target.column !== undefined;
  return {
    down: (event, target, x, y) => {
      if (event.button === 0 && event.pointerType !== "touch" && within(target)) start = { target, x, y };
    },
    move: (x, y) => {
      if (!start || Math.hypot(x - start.x, y - start.y) < 6) return;
      const box = { x: Math.min(x, start.x), y: Math.min(y, start.y), width: Math.abs(x - start.x), height: Math.abs(y - start.y) };
      for (const [key, value] of Object.entries(box)) band.setAttribute(key, value);
      if (!band.isConnected) frame.marks.parentNode.append(band);
    },
    up: (target) => {
      const drawn = band.isConnected && start;
      band.remove();
      const from = start && start.target;
      start = null;
      if (!drawn) return false;
      if (!within(target)) return true;
      const rows = [from.row, target.row].sort((a, b) => a - b);
      const columns = [from.column, target.column].sort((a, b) => a - b);
      if (rows[1] > rows[0] && columns[1] > columns[0]) go({ zoom: zoomText([...rows, ...columns]) });
      return true;
    },
  };
}

/** Connects one map's panel with the tooltip, the marks, the selection and the zoom; `frame.scene` is the scene of now. */
export function enablePointing(frame, go) {
  const { panel } = frame;
  let [read, brushed] = [null, false];
  const brush = brushOf(frame, go);
  const at = (event) => {
    const box = panel.getBoundingClientRect();
    const over = event.target.closest(".heads") ? frame.top - 1 : event.clientY - box.top; // names of columns that lie over cells
    return [event.clientX - box.left, over];
  };
  const under = (event) => targetAt(frame.scene, frame, ...at(event));
  const show = (target, x, y) => { read = target; frame.scene.hover(target); showTip(frame.scene, target, x, y); };
  const byKeyboard = (target) => {
    const box = panel.getBoundingClientRect();
    const [top, , left] = frame.scene.window;
    show(target, box.left + frame.left + (target.column - left + 1) * frame.cell.width, box.top + frame.top + (target.row - top + 1) * frame.cell.height);
  };
  panel.addEventListener("pointerdown", (event) => { brushed = false; brush.down(event, under(event), ...at(event)); });
  panel.addEventListener("pointermove", (event) => { brush.move(...at(event)); show(under(event), event.clientX, event.clientY); });
  panel.addEventListener("pointerup", (event) => { brushed = brush.up(under(event)); });
  panel.addEventListener("pointerleave", (event) => { brush.up(null); if (event.pointerType !== "touch") show(null); }); // a tap's number stays
  panel.addEventListener("blur", () => show(null));
  panel.addEventListener("click", (event) => {
    const target = under(event);
    if (target && !brushed) go(selectionAt(frame.scene, target));
    if (/** @type {PointerEvent} */ (event).pointerType === "touch") show(target, event.clientX, event.clientY);
  });
  panel.addEventListener("dblclick", () => go({ zoom: "" }));
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && read) show(null);
    else if (event.key === "Enter" && read) go(selectionAt(frame.scene, read));
    else if (ARROWS[event.key] && !event.altKey) byKeyboard(movedTarget(frame.scene, /** @type {any} */ (read || {}), ARROWS[event.key]));
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}
