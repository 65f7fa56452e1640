/* View: one token through all layers; rows are layers, columns the same tokens as in the maps. */

function biographyTitle(scene) {
  const { selection, maps, axes, row, column } = scene;
  const labels = maps[0].labels;
  const name = sideName(scene.data, selection.run, selection.scope);
  return selection.read === "row"
    ? `Through the layers: where ${quotation(labels[axes.own[row]])} takes from (${name})`
    : `Through the layers: who takes from ${quotation(labels[column])} (${name})`;
}

/** The columns that the token can take from (or give to), within the window. */
function biographyWindow(scene) {
  const { data, axes, selection, window: [top, bottom, first, last] } = scene;
  if (!data.causal) return scene.window;
  const edge = ownColumn(scene);
  const part = selection.read === "row" ? [first, Math.min(last, Math.max(edge, first))] : [Math.max(first, Math.min(edge, last)), last];
  return [top, bottom, ...part];
}

function biographyFrame(scene, width) {
  const { data, axes, maps, window: [, , first, last] } = scene;
  const columns = last - first + 1;
  const left = 34;
  const top = 26 + Math.ceil(Math.min(LABEL.column, Math.max(...shownLabels(scene, maps[0]).map((label) => textWidth(label.slice(0, 60), LABEL.size))))) + indexWidth(scene);
  const cell = { width: Math.max(1, Math.min(CELL.largest, (width - left - 12) / columns)), height: Math.max(9, Math.min(20, 420 / data.layers.length)) };
  const map = { cells: biographyOf(scene, scene.selection.run, scene.selection.scope), labels: maps[0].labels, scale: maps[maps.length > 1 ? 1 : 0].scale, across: axes.nColumns };
  map.limit = biographyLimit(scene, map.cells);
  return { left, top, cell, across: columns * cell.width, down: data.layers.length * cell.height, map };
}

function layerLabels(scene, frame) {
  const every = Math.max(1, Math.ceil(11 / frame.cell.height));
  return scene.data.layers.flatMap((layer, index) => {
    const selected = layer === scene.selection.layer;
    if (index % every && !selected) return [];
    const y = frame.top + (index + 0.5) * frame.cell.height + 4;
    return [text(layer, frame.left - 6, y, { "text-anchor": "end", "font-size": 11, fill: selected ? scene.palette.ink : scene.palette.grey, "font-weight": selected ? 700 : 400 })];
  });
}

function biographyMarks(scene, frame, target) {
  const { palette, data, selection, window: [, , first] } = scene;
  const y = frame.top + data.layers.indexOf(selection.layer) * frame.cell.height;
  const column = target && target.column !== undefined ? columnMark(scene, { ...frame }, target.column, palette.read) : [];
  const chosen = selection.read === "row" ? scene.column : scene.axes.own[scene.row];
  return [
    frameAround(frame.left, y, frame.across, frame.cell.height, palette.mark),
    tickAt(frame.left + (chosen - first + 0.5) * frame.cell.width, frame.top + frame.down + 1, "up", palette.mark),
    ...column,
  ];
}

function biographyTarget(scene, frame, event) {
  const box = event.currentTarget.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left - frame.left, event.clientY - box.top - frame.top];
  if (x < 0 || y < 0 || x >= frame.across || y >= frame.down) return null;
  return { index: Math.floor(y / frame.cell.height), column: scene.window[2] + Math.floor(x / frame.cell.width) };
}

function biographyTip(scene, frame, target) {
  const { axes, data } = scene;
  const value = frame.map.cells[target.index * axes.nColumns + target.column];
  const shown = scene.asShare ? formatPercent(value) : formatNumber(value);
  const label = tokenAt(frame.map.labels[target.column], axes.columns[target.column].position);
  return [tipLine("layer", String(data.layers[target.index])), tipLine(scene.selection.read === "row" ? "from" : "to", label), element("div", { textContent: Number.isNaN(value) ? "not among these shares, or out of reach" : shown })];
}

/** The drawing; a click goes to the layer and to the token. */
function biographyView(whole, go, width) {
  const scene = { ...whole, window: biographyWindow(whole) };
  const frame = biographyFrame(scene, width);
  const canvas = paintCells(scene, frame.map, [0, scene.data.layers.length - 1, scene.window[2], scene.window[3]], frame.across * scene.ratio, frame.down * scene.ratio);
  Object.assign(canvas.style, { position: "absolute", left: `${frame.left}px`, top: `${frame.top}px`, width: `${frame.across}px`, height: `${frame.down}px` });
  const marks = svg("g", {}, biographyMarks(scene, frame, null));
  const { palette } = scene;
  const drawing = svg("svg", { width: frame.left + frame.across + 4, height: frame.top + frame.down + 10, "aria-hidden": "true" }, [
    text("layer", 0, frame.top - 5, { "font-size": 11, fill: palette.grey }),
    ...layerLabels(scene, frame), ...columnLabels(scene, frame),
    svg("rect", { x: frame.left, y: frame.top, width: frame.across, height: frame.down, fill: "none", stroke: palette.line }), marks,
  ]);
  const host = element("div", { className: "biography" }, [canvas, drawing]);
  host.setAttribute("role", "img");
  host.setAttribute("aria-label", biographyTitle(scene));
  scene.marked.push((target) => marks.replaceChildren(...biographyMarks(scene, frame, target)));
  host.addEventListener("pointermove", (event) => {
    const target = biographyTarget(scene, frame, event);
    const tip = byId("tooltip");
    tip.hidden = !target;
    scene.hover(target && { column: target.column });
    if (target) { tip.replaceChildren(...biographyTip(scene, frame, target)); placeTip(tip, event.clientX, event.clientY); }
  });
  host.addEventListener("pointerleave", () => { byId("tooltip").hidden = true; scene.hover(null); });
  host.addEventListener("click", (event) => {
    const target = biographyTarget(scene, frame, event);
    if (!target) return;
    const position = scene.axes.columns[target.column].position;
    const layer = scene.data.layers[target.index];
    if (scene.selection.read === "row") go({ layer, from: position });
    else if (scene.data.queries.includes(position)) go({ layer, to: position });
  });
  return host;
}
