/* Where: layers x steps, coloured by how much each step changed the map; a click goes there. */

/** The tracks of the block that is shown: one group of columns each. */
function tracksOf(scene) {
  const { data, selection } = scene;
  return data.runs[selection.run].blocks[data.channels.get(selection.scope).blockName].tracks;
}

/** Columns of the overview: track, channel, what a click chooses. */
function whereColumns(scene) {
  const { data, selection } = scene;
  const blockName = data.channels.get(selection.scope).blockName;
  return tracksOf(scene).flatMap((track, group) => track.columns.map((column) => ({
    ...column, group, track,
    key: channelKey(data, blockName, column.channel),
    refKey: column.ref && channelKey(data, blockName, column.ref),
  })));
}

function isChosenColumn(scene, column) {
  const { selection } = scene;
  if (selection.scope !== column.key) return false;
  return selection.run !== selection.refRun || column.refKey === null || selection.ref === column.refKey;
}

/** Sizes of the overview: upright beside the maps, or lying above them where the page is narrow. */
function whereGrid(scene, columns, width, lying) {
  const n = scene.data.layers.length;
  const groups = columns.length ? columns[columns.length - 1].group : 0;
  const [label, head] = lying ? [72, 16] : [26, 22 + Math.max(30, Math.min(70, 9 * Math.max(0, ...columns.map((column) => column.label.length))))];
  const along = lying ? Math.max(4, Math.min(24, (width - label - 6) / n)) : Math.max(9, Math.min(20, 480 / n));
  const wide = lying ? 15 : Math.max(8, Math.min(26, (width - label - 14 * groups - 4) / Math.max(1, columns.length)));
  const offset = (index) => columns[index].group * (lying ? 8 : 14) + index * wide;
  const place = (layer, index) => (lying ? [label + layer * along, head + offset(index)] : [label + offset(index), head + layer * along]);
  const end = columns.length ? offset(columns.length - 1) + wide : 0;
  const size = lying ? [label + n * along + 4, head + end + 4] : [label + end + 4, head + n * along + 4];
  return { place, cell: lying ? [along, wide] : [wide, along], size, label, head, lying };
}

function whereLabels(scene, columns, grid) {
  const { palette, data, selection } = scene;
  const [wide, high] = grid.cell;
  const every = Math.max(1, Math.ceil((grid.lying ? 16 : 11) / (grid.lying ? wide : high)));
  const layers = data.layers.flatMap((layer, index) => {
    const selected = layer === selection.layer;
    if (index % every && !selected) return [];
    const [x, y] = columns.length ? grid.place(index, 0) : [grid.label, grid.head];
    const style = { "font-size": 11, fill: selected ? palette.ink : palette.grey, "font-weight": selected ? 700 : 400 };
    return [grid.lying ? text(layer, x + wide / 2, grid.head - 5, { ...style, "text-anchor": "middle" }) : text(layer, grid.label - 6, y + high / 2 + 4, { ...style, "text-anchor": "end" })];
  });
  const steps = columns.map((column, index) => {
    const [x, y] = grid.place(0, index);
    const weight = isChosenColumn(scene, column) ? 700 : 400;
    const style = { "font-size": 11, fill: palette.ink, "font-weight": weight };
    return grid.lying
      ? text(fitText(column.label, 11, grid.label - 8), grid.label - 6, y + high - 4, { ...style, "text-anchor": "end" })
      : upright(fitText(column.label, 11, grid.head - 22), x + wide / 2 + 4, grid.head - 5, style);
  });
  const headings = grid.lying ? [] : columns.flatMap((column, index) => {
    if (index && columns[index - 1].group === column.group) return [];
    return [text(column.track.title, grid.place(0, index)[0], 12, { "font-size": 11, fill: palette.grey })];
  });
  return [...layers, ...steps, ...headings];
}

/** Where a track's colours begin and end. */
function trackRange(track) {
  const numbers = Object.values(track.values).flat().filter((value) => value !== null);
  return [track.stretched ? Math.min(...numbers) : 0, largest(numbers.map(Math.abs))];
}

function whereCell(scene, column, layerIndex, place, [wide, high], [least, most]) {
  const { palette, data } = scene;
  const value = column.track.values[column.channel][layerIndex];
  const colour = value === null ? palette.outRgb : colourOf(palette, value - least, most - least, column.track.signed ? "signed" : "contribution", column.track.stretched ? 0 : 1);
  const shape = rectangle(place[0], place[1], wide - 1, high - 1, rgbToHex(colour));
  shape.append(svg("title", {}, [`layer ${data.layers[layerIndex]}, ${column.words}: ${value === null ? "undefined" : formatNumber(value)}`]));
  shape.dataset.layer = data.layers[layerIndex];
  shape.dataset.channel = column.key;
  shape.dataset.ref = column.refKey ?? "";
  return shape;
}

/** A small picture of a map in its place of the overview. */
function thumbnail(scene, column, layerIndex, [x, y], [wide, high]) {
  const { data, selection } = scene;
  const layer = data.layers[layerIndex];
  const picture = sceneOf(data, { ...selection, layer, scope: column.key, ref: "", refRun: selection.run, zoom: "" });
  Object.assign(picture, { palette: scene.palette });
  const canvas = paintCells(picture, picture.maps[0], picture.window, (wide - 1) * scene.ratio, (high - 1) * scene.ratio);
  Object.assign(canvas.style, { position: "absolute", left: `${x}px`, top: `${y}px`, width: `${wide - 1}px`, height: `${high - 1}px`, pointerEvents: "none" });
  return canvas;
}

/** Draws thumbnails a few at a time, so that nothing waits for them; stops when the drawing is replaced. */
async function fillThumbnails(scene, host, every, grid) {
  const columns = every.filter(({ group }) => group === 0);
  for (const column of new Set(columns.map(({ key }) => key))) await scene.data.load(scene.selection.run, column);
  const places = scene.data.layers.flatMap((_, layer) => columns.map((column, index) => [column, layer, grid.place(layer, index)]));
  const step = () => {
    const until = performance.now() + 12;
    while (places.length && performance.now() < until) host.append(thumbnail(scene, ...places.shift(), grid.cell));
    if (places.length && host.isConnected) setTimeout(step);
  };
  step();
}

function chooseByKey(scene, columns, go, event) {
  const { data, selection } = scene;
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [-data.layers.length, 0], End: [data.layers.length, 0] }[event.key];
  if (!step || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  const layer = data.layers[Math.max(0, Math.min(data.layers.length - 1, data.layers.indexOf(selection.layer) + step[0]))];
  const now = Math.max(0, columns.findIndex((column) => isChosenColumn(scene, column)));
  const column = columns[Math.max(0, Math.min(columns.length - 1, now + step[1]))];
  go(step[1] && column ? { layer, scope: column.key, ...whereRef(scene, column) } : { layer });
}

/** A column is compared with its own reference, unless two runs are compared. */
function whereRef(scene, column) {
  return scene.selection.run === scene.selection.refRun ? { ref: column.refKey ?? "" } : {};
}

/** The overview as an element. */
function whereView(scene, go, width, lying) {
  const { data, selection, palette } = scene;
  const columns = whereColumns(scene);
  const grid = whereGrid(scene, columns, width, lying);
  const ranges = tracksOf(scene).map(trackRange);
  const shapes = data.layers.flatMap((_, layer) => columns.map((column, index) => whereCell(scene, column, layer, grid.place(layer, index), grid.cell, ranges[column.group])));
  const chosen = columns.flatMap((column, index) => {
    if (!isChosenColumn(scene, column)) return [];
    const [x, y] = grid.place(data.layers.indexOf(selection.layer), index);
    return [frameAround(x, y, grid.cell[0] - 1, grid.cell[1] - 1, palette.mark), frameAround(x - 1.5, y - 1.5, grid.cell[0] + 2, grid.cell[1] + 2, palette.paper)];
  });
  const drawing = svg("svg", { width: grid.size[0], height: grid.size[1], "aria-hidden": "true" }, [...whereLabels(scene, columns, grid), ...shapes, ...chosen]);
  const host = element("div", { className: "overview", tabIndex: 0 }, [drawing]);
  host.setAttribute("role", "application");
  host.setAttribute("aria-label", `Layers and steps, arrow keys choose. Now layer ${selection.layer}, ${channelWords(data, selection.scope)}.`);
  host.addEventListener("click", (event) => {
    const cell = event.target.closest("[data-layer]");
    const column = cell && columns.find(({ key, refKey }) => key === cell.dataset.channel && (refKey ?? "") === cell.dataset.ref);
    if (column) go({ layer: Number(cell.dataset.layer), scope: column.key, ...whereRef(scene, column) });
  });
  host.addEventListener("keydown", (event) => chooseByKey(scene, columns, go, event));
  if (selection.thumbs) fillThumbnails(scene, host, columns, grid);
  return host;
}

function whereNote(scene) {
  return tracksOf(scene).map((track) => track.note).join(" ");
}
