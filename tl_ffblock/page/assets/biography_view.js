/* Through the layers: one token, rows are layers, columns the same tokens as in the maps. */

/** What its drawing is made from; layer and the cell's other end are marks. */
function biographyFields({ selection }) {
  return ["run", "scope", "read", "cells", "range", "root", "words", "hide", "zoom", selection.read === "row" ? "to" : "from"];
}

function biographyTitle(scene) {
  const { selection, axes, row, column } = scene;
  const name = sideName(scene.data, selection.run, selection.scope);
  return selection.read === "row"
    ? `Through the layers: where ${tokenWords(scene, axes.own[row])} takes from (${name})`
    : `Through the layers: who takes from ${tokenWords(scene, column)} (${name})`;
}

/** The columns that the token can take from (or give to), within the window. */
function biographyWindow(scene) {
  const { data, selection, window: [top, bottom, first, last] } = scene;
  if (!data.causal) return scene.window;
  const edge = ownColumn(scene);
  const part = selection.read === "row" ? [first, Math.min(last, Math.max(edge, first))] : [Math.max(first, Math.min(edge, last)), last];
  return [top, bottom, ...part];
}

function biographyFrame(scene, width) {
  const { data, selection, axes, window: [, , first, last] } = scene;
  const columns = last - first + 1;
  const layers = data.layers.length;
  const left = 34;
  const map = shownMap(scene);
  const cell = { width: Math.max(1, Math.min(CELL.largest, (width - left - 12) / columns)), height: Math.max(9, Math.min(20, 420 / layers)) };
  const top = 26 + labelWidth(scene, shownLabels(scene, map), LABEL.column, labelSize(cell.width));
  const cells = biographyOf(scene, selection.run, selection.scope);
  const picture = { cells, nColumns: axes.nColumns, window: [0, layers - 1, first, last], scale: map.scale, limit: biographyLimit(scene, cells), root: selection.root };
  return { left, top, cell, across: columns * cell.width, down: layers * cell.height, map, picture };
}

function layerLabels(scene, frame) {
  const every = labelStep(frame.cell.height);
  const chosen = scene.data.layers.indexOf(scene.selection.layer);
  return scene.data.layers.flatMap((layer, index) => {
    const selected = index === chosen;
    if (!isLabelled(index, every, chosen)) return [];
    const y = frame.top + (index + 0.5) * frame.cell.height + 4;
    return [text(layer, frame.left - 6, y, { "text-anchor": "end", "font-size": 11, fill: selected ? scene.palette.ink : scene.palette.grey, "font-weight": selected ? 700 : 400 })];
  });
}

/** The column of the selected cell's other end. */
function otherColumn(scene) {
  return scene.selection.read === "row" ? scene.column : scene.axes.own[scene.row];
}

function biographyMarks(scene, frame, target) {
  const { palette, data, selection } = scene;
  const y = frame.top + data.layers.indexOf(selection.layer) * frame.cell.height;
  const pointed = target && target.column !== undefined ? columnMark(scene, frame, target.column, palette.read) : [];
  const [, , first, last] = scene.window;
  const other = otherColumn(scene);
  const tick = other >= first && other <= last ? [tickAt(frame.left + (other - first + 0.5) * frame.cell.width, frame.top + frame.down + 1, "up", palette.mark)] : [];
  return [frameAround(frame.left, y, frame.across, frame.cell.height, palette.mark), ...tick, ...pointed];
}

function biographyTarget(scene, frame, event) {
  const box = event.currentTarget.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left - frame.left, event.clientY - box.top - frame.top];
  if (x < 0 || y < 0 || x >= frame.across || y >= frame.down) return null;
  return { index: Math.floor(y / frame.cell.height), column: scene.window[2] + Math.floor(x / frame.cell.width) };
}

function biographyTip(scene, frame, target) {
  const { axes, data } = scene;
  const value = frame.picture.cells[target.index * axes.nColumns + target.column];
  const label = tokenAt(scene, frame.map.labels[target.column], axes.columns[target.column].position);
  return [
    tipLine("layer", String(data.layers[target.index])), tipLine(scene.selection.read === "row" ? "from" : "to", label),
    element("div", { textContent: Number.isNaN(value) ? "not among these shares, or out of reach" : shownOf(frame.map, value, frame.map.asShare) }),
  ];
}

/** A point of the drawing: the tooltip, and a click that goes to the layer and to the token. */
function connectBiography(host, frame, go) {
  const under = (event) => biographyTarget(frame.scene, frame, event);
  host.addEventListener("pointermove", (event) => {
    const target = under(event);
    const tip = byId("tooltip");
    tip.hidden = !target;
    frame.scene.hover(target && { column: target.column });
    if (target) { tip.replaceChildren(...biographyTip(frame.scene, frame, target)); placeTip(tip, event.clientX, event.clientY); }
  });
  host.addEventListener("pointerleave", () => { byId("tooltip").hidden = true; frame.scene.hover(null); });
  host.addEventListener("click", (event) => {
    const target = under(event);
    if (!target) return;
    const { axes, data, selection } = frame.scene;
    const position = axes.columns[target.column].position;
    const layer = data.layers[target.index];
    if (selection.read === "row") go({ layer, from: position });
    else if (data.queries.includes(position)) go({ layer, to: position });
  });
}

function biographyView(whole, go, width) {
  const narrowed = (scene) => ({ ...scene, window: biographyWindow(scene) });
  const scene = narrowed(whole);
  const { palette, ratio } = scene;
  const frame = biographyFrame(scene, width);
  const columns = columnLabels(scene, frame);
  const canvas = placed(paint(frame.picture, palette, frame.across * ratio, frame.down * ratio), frame.left, frame.top, frame.across, frame.down);
  const [layers, marks] = [svg("g"), svg("g")];
  const drawing = svg("svg", { width: frame.left + frame.across + 4, height: frame.top + frame.down + 10, "aria-hidden": "true" }, [
    text("layer", 0, frame.top - 5, { "font-size": 11, fill: palette.grey }), ...columns.nodes, layers,
    svg("rect", { x: frame.left, y: frame.top, width: frame.across, height: frame.down, fill: "none", stroke: palette.line }), marks,
  ]);
  const host = element("div", { className: "biography" }, [canvas, drawing]);
  host.setAttribute("role", "img");
  host.setAttribute("aria-label", biographyTitle(scene));
  connectBiography(host, frame, go);
  const update = (now) => {
    frame.scene = narrowed(now);
    const selected = columns.mark(otherColumn(now));
    const mark = (target) => marks.replaceChildren(...selected, ...biographyMarks(frame.scene, frame, target));
    layers.replaceChildren(...layerLabels(now, frame));
    now.marked.push(mark);
    mark(null);
  };
  return { nodes: [element("h3", { textContent: biographyTitle(scene) }), host], update };
}
