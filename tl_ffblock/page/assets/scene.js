/* Data and selection -> the maps that are shown, with their shares, columns and scales. No DOM. */

function mapOf(scene, run, key, role) {
  const { data, axes, selection, hidden } = scene;
  const pooled = (cells) => (selection.words ? mapOfWords(axes, cells, data.words.length) : cells);
  const rows = (numbers) => numbers && (selection.words ? rowsOfWords(axes, numbers) : numbers);
  const raw = pooled(data.matrix(run, key, selection.layer));
  const named = Object.keys(data.block(key).columns);
  const columns = Object.fromEntries(named.map((name) => [name, rows(data.column(run, key, name, selection.layer))]));
  if (selection.cells === "others") columns.own = ownShares(axes, raw, hidden);
  return {
    role, key, run, raw, columns,
    cells: sharesOf(axes, raw, hidden, selection.cells),
    scale: data.block(key).signed ? "signed" : "contribution",
    labels: axes.labels(data.runs[run].tokens),
  };
}

function differenceOf(before, after) {
  const shared = Object.keys(after.columns).filter((name) => name in before.columns);
  return {
    role: "difference", key: after.key, run: after.run,
    raw: minus(after.raw, before.raw),
    cells: minus(after.cells, before.cells),
    columns: Object.fromEntries(shared.map((name) => [name, minus(after.columns[name], before.columns[name])])),
    scale: "signed",
    labels: jointLabels(before.labels, after.labels),
  };
}

/** Columns of numbers beside the maps: those that are not zero in all of them; the own share first. */
function stripsOf(maps) {
  const names = ["own", ...Object.keys(maps[0].columns).filter((name) => name !== "own")];
  return names.filter((name) => maps.some((map) => map.columns[name] && largest(map.columns[name].map(Math.abs)) > 0));
}

/** One map, or before, after and difference: everything that is drawn of maps. */
function sceneOf(data, selection) {
  const axes = axesOf(data, selection.words === 1);
  const hidden = hiddenColumns(data, axes, selection.hide);
  const scene = { data, selection, axes, hidden, window: windowOf(axes, selection.zoom) };
  const after = mapOf(scene, selection.run, selection.scope, selection.ref ? "after" : "only");
  const before = selection.ref && mapOf(scene, selection.refRun, selection.ref, "before");
  scene.maps = before ? [before, after, differenceOf(before, after)] : [after];
  scene.strips = stripsOf(scene.maps);
  for (const map of scene.maps) map.limit = limitOf(axes, map.cells, selection.range);
  if (before && !selection.each) before.limit = after.limit = Math.max(before.limit, after.limit);
  for (const map of scene.maps) map.top = largest(map.cells.map(Math.abs));
  scene.asShare = selection.cells !== "none";
  scene.row = Math.max(0, axes.rowOf(selection.to));
  scene.column = axes.columnOf[selection.from];
  return scene;
}

/** What is drawn of the scene's maps: all, or the one that the reader enlarged. */
function panelsOf(scene) {
  const single = scene.maps.filter((map) => map.role === scene.selection.panel);
  return single.length ? single : scene.maps;
}

/** The row and, in it, the column that changed most; of one map its largest cell of another token. */
function strongestCell(scene, rowAsked = -1) {
  const { axes, maps } = scene;
  const cells = maps[maps.length - 1].cells;
  let best = [-1, rowAsked < 0 ? axes.nRows - 1 : rowAsked, 0];
  for (let index = 0; index < cells.length; index++) {
    const [row, column] = [Math.floor(index / axes.nColumns), index % axes.nColumns];
    if (Number.isNaN(cells[index]) || axes.own[row] === column || (rowAsked >= 0 && row !== rowAsked)) continue;
    if (Math.abs(cells[index]) > best[0]) best = [Math.abs(cells[index]), row, column];
  }
  return { row: best[1], column: best[2] };
}

/** The values along which the sentence is coloured: sources of a row, or destinations of a column. */
function profileOf(scene, map) {
  const { axes, selection, row, column } = scene;
  const values = new Float32Array(axes.nColumns).fill(NaN);
  if (selection.read === "row") values.set(map.cells.subarray(row * axes.nColumns, (row + 1) * axes.nColumns));
  else axes.own.forEach((at, r) => { values[at] = map.cells[r * axes.nColumns + column]; });
  return values;
}

/** The column of the token whose sources or destinations are read. */
function ownColumn(scene) {
  return scene.selection.read === "row" ? scene.axes.own[scene.row] : scene.column;
}

/** Where the sentence's scale ends: at the largest value of another token, so that a token's own does not drown the rest. */
function profileLimit(scene) {
  const own = scene.selection.read === "row" ? scene.axes.own[scene.row] : scene.column;
  const pair = scene.maps.filter((map) => map.role !== "difference");
  return largest(pair.flatMap((map) => Array.from(profileOf(scene, map)).filter((value, at) => at !== own && !Number.isNaN(value)).map(Math.abs)));
}

/** The axes of one row alone, where the others do not matter. */
function rowAxes(axes, row) {
  return { ...axes, nRows: 1, rows: [axes.rows[row]], own: [axes.own[row]] };
}

/** Each layer's sources of `to` (or destinations of `from`) at one scope: rows are layers, columns tokens. */
function biographyOf(scene, run, key) {
  const { data, selection, axes } = scene;
  const alone = selection.read === "row" && selection.cells !== "column";
  const reduced = alone ? { ...scene, axes: rowAxes(axes, scene.row), row: 0 } : scene;
  const cells = new Float32Array(data.layers.length * axes.nColumns);
  data.layers.forEach((layer, index) => {
    const whole = data.matrix(run, key, layer);
    const start = scene.row * axes.nColumns;
    const raw = selection.words ? mapOfWords(reduced.axes, whole, data.words.length) : alone ? whole.subarray(start, start + axes.nColumns) : whole;
    const shown = sharesOf(reduced.axes, raw, scene.hidden, selection.cells);
    cells.set(profileOf(reduced, { cells: shown }), index * axes.nColumns);
  });
  return cells;
}

/** Where the colours of such a picture end: as those of a map whose rows' own column is the token's. */
function biographyLimit(scene, cells) {
  const { data, axes, selection } = scene;
  return limitOf({ ...axes, own: data.layers.map(() => ownColumn(scene)) }, cells, selection.range);
}
