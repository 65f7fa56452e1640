/* From the data and the reader's choices to the maps that are shown. */

/** The page's data block, with its maps unpacked on demand. */
function readData() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const unpacked = new Map();
  data.table = (name, scope, layer) => {
    const key = JSON.stringify([name, scope, layer]);
    if (!unpacked.has(key)) unpacked.set(key, unpackTable(data, name, scope, layer));
    return unpacked.get(key);
  };
  data.reaches = (row, column) => !data.causal || column <= data.queries[row];
  data.nRows = data.queries.length;
  data.nColumns = data.tokens.length;
  return data;
}

function unpackTable(data, name, scope, layer) {
  const numbers = unpackNumbers(data[name][scope][data.layers.indexOf(layer)]);
  return name === "values" ? spread(data, numbers) : numbers;
}

/** Cells in their places; NaN where a causal model cannot reach. */
function spread(data, numbers) {
  const cells = new Float32Array(data.nRows * data.nColumns).fill(NaN);
  let next = 0;
  for (let row = 0; row < data.nRows; row++) {
    for (let column = 0; column < data.nColumns; column++) {
      if (data.reaches(row, column)) cells[row * data.nColumns + column] = numbers[next++];
    }
  }
  return cells;
}

/** Each row or column divided by its sum, so that cells become shares. */
function normalised(data, cells, how) {
  if (how === "none") return cells;
  const line = how === "row" ? (index) => Math.floor(index / data.nColumns) : (index) => index % data.nColumns;
  const sums = new Float64Array(how === "row" ? data.nRows : data.nColumns);
  cells.forEach((value, index) => { if (!Number.isNaN(value)) sums[line(index)] += value; });
  return cells.map((value, index) => (sums[line(index)] > 0 ? value / sums[line(index)] : value));
}

function minus(after, before) {
  return after.map((value, index) => value - before[index]);
}

function isDiagonal(data, index) {
  return data.queries[Math.floor(index / data.nColumns)] === index % data.nColumns;
}

function sizes(data, cells, withDiagonal) {
  const found = [];
  cells.forEach((value, index) => { if (!Number.isNaN(value) && (withDiagonal || !isDiagonal(data, index))) found.push(Math.abs(value)); });
  return found;
}

function largest(numbers) {
  return numbers.reduce((most, number) => Math.max(most, number), 0);
}

/** Where the colour scale ends. A lone diagonal (one token) has no other cells to go by. */
function limitOf(data, cells, range) {
  const others = sizes(data, cells, false);
  const used = range === "all" || others.length === 0 ? sizes(data, cells, true) : others;
  if (range !== "percentile") return largest(used);
  used.sort((a, b) => a - b);
  return used[Math.floor(0.99 * (used.length - 1))] || largest(used);
}

function mapOf(data, choice, scope, role) {
  const raw = data.table("values", scope, choice.layer);
  return {
    role, scope, raw,
    cells: normalised(data, raw, choice.normalise),
    scale: data.signed ? "signed" : "contribution",
    bias: data.table("bias", scope, choice.layer),
    remainder: data.remainder && data.table("remainder", scope, choice.layer),
    completeness: data.table("completeness", scope, choice.layer),
  };
}

function differenceOf(before, after) {
  return {
    role: "difference",
    scope: `${after.scope} − ${before.scope}`,
    raw: minus(after.raw, before.raw),
    cells: minus(after.cells, before.cells),
    scale: "signed",
    bias: minus(after.bias, before.bias),
    remainder: after.remainder && minus(after.remainder, before.remainder),
    completeness: null,
  };
}

function setLimits(data, choice, maps) {
  for (const map of maps) map.limit = limitOf(data, map.cells, choice.range);
  const pair = maps.filter((map) => map.role !== "difference");
  if (choice.sharing === "shared") for (const map of pair) map.limit = Math.max(...pair.map((one) => one.limit));
  for (const map of maps) map.top = largest(sizes(data, map.cells, !choice.hideDiagonal));
}

/** Everything that is drawn: one map, or before, after and difference. */
function viewOf(data, choice) {
  const step = data.steps.find((one) => one.scope === choice.scope);
  const after = mapOf(data, choice, step.scope, step.before ? "after" : "only");
  const before = step.before && mapOf(data, choice, step.before, "before");
  const maps = before ? [before, after, differenceOf(before, after)] : [after];
  setLimits(data, choice, maps);
  return { data, choice, step, maps };
}

/** The columns of numbers beside each map, one number a row. */
function stripsOf(view) {
  return view.maps[0].remainder ? ["bias", "remainder"] : ["bias"];
}

/** The row that the step changed most; the last row where there is nothing to compare. */
function mostChangedRow(view) {
  const difference = view.maps.find((map) => map.role === "difference");
  if (!difference) return view.data.nRows - 1;
  const sums = new Float64Array(view.data.nRows);
  difference.cells.forEach((value, index) => { sums[Math.floor(index / view.data.nColumns)] += Math.abs(value) || 0; });
  return sums.indexOf(largest(Array.from(sums)));
}
