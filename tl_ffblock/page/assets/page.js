/* The page: one run, one set of choices, drawn anew at each change. */

const run = readRun();
const choice = {
  ...run.start,
  normalise: run.signed ? "none" : "row",
  sharing: "shared",
  range: "off-diagonal",
  hideDiagonal: false,
  pinned: null,
};
let shown = null;

function drawHeader() {
  document.title = `${run.model}: contribution maps`;
  document.getElementById("model").textContent = run.model;
  const what = run.signed ? "difference of two results" : "contribution maps";
  const rows = run.nRows < run.nColumns ? `, ${run.nRows} of them as destinations` : "";
  document.getElementById("facts").textContent = `${what} · order ${run.order} · ${run.causal ? "causal" : "bidirectional"} · ${run.nColumns} token${run.nColumns === 1 ? "" : "s"}${rows}`;
  document.getElementById("worst").textContent = worstText(run.worst);
  document.getElementById("drawn").textContent = `${drawnText()} Numbers are rounded for the page, by at most ${formatError(run.precision)} of themselves.`;
  document.getElementById("provenance").textContent = Object.entries(run.provenance).map(([name, value]) => `${name}: ${value}`).join(" · ");
}

function worstText(worst) {
  if (!worst) return "";
  const place = `${worst.scope}, layer ${worst.layer}, “${run.tokens[worst.query]}” at position ${worst.query}`;
  return `Parts + bias = the model's own tensor to ${formatError(worst.error)} of its length (worst place: ${place}).`;
}

function drawnText() {
  const { version, largest: most } = run.circuitsvis;
  if (version) return `Cells drawn by CircuitsVis ${version}.`;
  if (run.nColumns > most) return `Maps above ${most} tokens are drawn on canvas; CircuitsVis takes about 4 s for three maps of 128 tokens.`;
  return "Maps with a choice of rows are drawn on canvas; CircuitsVis draws square maps.";
}

function panelOf(view, place) {
  const cells = element("div", { className: "cells" });
  Object.assign(cells.style, { left: `${place.left}px`, top: `${place.top}px`, width: `${place.across}px`, height: `${place.down}px` });
  place.host = element("div", { className: "host" });
  cells.append(place.host);
  place.marks = svg("g", { class: "marks" });
  const drawing = svg("svg", { width: place.width, height: place.height, "aria-hidden": "true" }, [...mapFurniture(view, place), place.marks]);
  place.panel = element("div", { className: "panel", tabIndex: 0 }, [cells, drawing]);
  place.panel.setAttribute("role", "application");
  place.panel.setAttribute("aria-label", `${titleOf(view, place.map)}. Arrow keys read cells, Enter pins the row.`);
  place.panel.dataset.role = place.map.role;
  Object.assign(place.panel.style, { left: `${place.x}px`, top: `${place.y}px`, width: `${place.width}px`, height: `${place.height}px` });
  return place.panel;
}

/** Puts a finished plot in the place of all older ones. */
function replacePlots(host, plot, layout) {
  for (const older of Array.from(host.children)) {
    if (older === plot) break;
    older.free();
    older.remove();
  }
  plot.classList.remove("coming");
  host.style.height = `${layout.height}px`;
  if (plot === host.lastElementChild && document.body.dataset.state === "drawing") document.body.dataset.state = "drawn";
  if (!performance.getEntriesByName("first-picture").length) performance.mark("first-picture");
}

/** Draws the cells; resolves when every map is there. Each plot can free its charts, also those that come late. */
function drawCells(view, plot, places) {
  const charts = [];
  let freed = false;
  plot.free = () => { freed = true; charts.forEach((free) => free()); };
  return Promise.all(places.map((place) => new Promise((resolve) => {
    if (!canCircuitsVis(run)) { drawOnCanvas(view, place, place.host); resolve(); return; }
    drawWithCircuitsVis(view, place, place.host, (free) => { if (freed) free(); else charts.push(free); resolve(); });
  })));
}

function drawFigure(view) {
  const host = document.getElementById("figure");
  const layout = layoutOf(view, host.clientWidth);
  const plot = element("div", { className: "plot coming" }, layout.places.map((place) => panelOf(view, place)));
  plot.prepend(svg("svg", { width: 0, height: 0, "aria-hidden": "true" }, [hatchPattern()]));
  document.body.dataset.state = "drawing";
  host.append(plot);
  for (const place of layout.places) enablePointing(view, place, layout.places, pin);
  drawMarks(view, layout.places, null);
  drawCells(view, plot, layout.places).then(() => { if (plot.isConnected) replacePlots(host, plot, layout); });
  return layout;
}

function draw() {
  const view = viewOf(run, choice);
  if (choice.pinned === null) choice.pinned = mostChangedRow(view);
  shown = { view, layout: drawFigure(view) };
  drawReading(view, document.getElementById("reading"), pin);
  markControls(view);
}

/** Takes a choice; several within one frame (a held arrow key) are drawn once. */
function go(change) {
  Object.assign(choice, change);
  if (document.body.dataset.state !== "waiting") requestAnimationFrame(draw);
  document.body.dataset.state = "waiting";
}

/** Reads another destination; keeps the focus in the sentence line it came from. */
function pin(row, role) {
  choice.pinned = row;
  drawReading(shown.view, document.getElementById("reading"), pin);
  drawMarks(shown.view, shown.layout.places, null);
  if (role) document.querySelector(`.line[data-role="${role}"] .tokens`).focus();
}

function followWidth() {
  const host = document.getElementById("figure");
  let width = host.clientWidth;
  new ResizeObserver(() => {
    if (host.clientWidth === width) return;
    width = host.clientWidth;
    requestAnimationFrame(draw);
  }).observe(host);
}

function enableExports() {
  document.getElementById("save-png").addEventListener("click", () => savePng(shown.view, shown.layout));
  document.getElementById("save-svg").addEventListener("click", () => saveSvg(shown.view, shown.layout));
  document.getElementById("save-csv").addEventListener("click", () => saveCsv(shown.view));
}

drawHeader();
layerControls(run, go);
stepControls(run, go);
colourControls(run, choice, go);
enableExports();
draw();
followWidth();
