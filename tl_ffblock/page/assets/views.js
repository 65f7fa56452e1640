/* From the run and the reader's choices to the maps that are shown. */

/** The run as the page's data block holds it, with its maps unpacked on demand. */
function readRun() {
  const run = JSON.parse(document.getElementById("run").textContent);
  const unpacked = new Map();
  run.table = (name, scope, layer) => {
    const key = JSON.stringify([name, scope, layer]);
    if (!unpacked.has(key)) unpacked.set(key, unpackTable(run, name, scope, layer));
    return unpacked.get(key);
  };
  run.reaches = (row, column) => !run.causal || column <= run.queries[row];
  run.nRows = run.queries.length;
  run.nColumns = run.tokens.length;
  return run;
}

function unpackTable(run, name, scope, layer) {
  const numbers = unpackNumbers(run[name][scope][run.layers.indexOf(layer)]);
  return name === "values" ? spread(run, numbers) : numbers;
}

/** Cells in their places; NaN where a causal model cannot reach. */
function spread(run, numbers) {
  const cells = new Float32Array(run.nRows * run.nColumns).fill(NaN);
  let next = 0;
  for (let row = 0; row < run.nRows; row++) {
    for (let column = 0; column < run.nColumns; column++) {
      if (run.reaches(row, column)) cells[row * run.nColumns + column] = numbers[next++];
    }
  }
  return cells;
}

/** Each row or column divided by its sum, so that cells become shares. */
function normalised(run, cells, how) {
  if (how === "none") return cells;
  const place = how === "row" ? (index) => Math.floor(index / run.nColumns) : (index) => index % run.nColumns;
  const sums = new Float64Array(how === "row" ? run.nRows : run.nColumns);
  cells.forEach((value, index) => { if (!Number.isNaN(value)) sums[place(index)] += value; });
  return cells.map((value, index) => (sums[place(index)] > 0 ? value / sums[place(index)] : value));
}

function minus(after, before) {
  return after.map((value, index) => value - before[index]);
}

function isDiagonal(run, index) {
  return run.queries[Math.floor(index / run.nColumns)] === index % run.nColumns;
}

function sizes(run, cells, withDiagonal) {
  const found = [];
  cells.forEach((value, index) => { if (!Number.isNaN(value) && (withDiagonal || !isDiagonal(run, index))) found.push(Math.abs(value)); });
  return found;
}

function largest(numbers) {
  return numbers.reduce((most, number) => Math.max(most, number), 0);
}

/** Where the colour scale ends. A lone diagonal (one token) has no other cells to go by. */
function limitOf(run, cells, range) {
  const others = sizes(run, cells, false);
  const used = range === "all" || others.length === 0 ? sizes(run, cells, true) : others;
  if (range !== "percentile") return largest(used);
  used.sort((a, b) => a - b);
  return used[Math.floor(0.99 * (used.length - 1))] || largest(used);
}

function mapOf(run, choice, scope, role) {
  const raw = run.table("values", scope, choice.layer);
  return {
    role, scope, raw,
    cells: normalised(run, raw, choice.normalise),
    scale: run.signed ? "signed" : "contribution",
    bias: run.table("bias", scope, choice.layer),
    remainder: run.remainder && run.table("remainder", scope, choice.layer),
    completeness: run.table("completeness", scope, choice.layer),
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

function setLimits(run, choice, maps) {
  for (const map of maps) map.limit = limitOf(run, map.cells, choice.range);
  const pair = maps.filter((map) => map.role !== "difference");
  if (choice.sharing === "shared") for (const map of pair) map.limit = Math.max(...pair.map((one) => one.limit));
  for (const map of maps) map.top = largest(sizes(run, map.cells, !choice.hideDiagonal));
}

/** Everything that is drawn: one map, or before, after and difference. */
function viewOf(run, choice) {
  const step = run.steps.find((one) => one.scope === choice.scope);
  const after = mapOf(run, choice, step.scope, step.before ? "after" : "only");
  const before = step.before && mapOf(run, choice, step.before, "before");
  const maps = before ? [before, after, differenceOf(before, after)] : [after];
  setLimits(run, choice, maps);
  return { run, choice, step, maps };
}

/** The row that the step changed most; the last row where there is nothing to compare. */
function mostChangedRow(view) {
  const difference = view.maps.find((map) => map.role === "difference");
  if (!difference) return view.run.nRows - 1;
  const sums = new Float64Array(view.run.nRows);
  difference.cells.forEach((value, index) => { sums[Math.floor(index / view.run.nColumns)] += Math.abs(value) || 0; });
  return sums.indexOf(largest(Array.from(sums)));
}
