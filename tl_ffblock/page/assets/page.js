/* The page: one set of data, one set of choices, drawn anew at each change. */

const DATA = readData();
const CHOICE = {
  ...DATA.start,
  normalise: DATA.signed ? "none" : "row",
  sharing: "shared",
  range: "off-diagonal",
  hideDiagonal: false,
  pinned: null,
};
let shown = null;

function drawHeader() {
  document.title = `${DATA.model}: contribution maps`;
  document.getElementById("model").textContent = DATA.model;
  const what = DATA.signed ? "difference of two results" : "contribution maps";
  const rows = DATA.nRows < DATA.nColumns ? `, ${DATA.nRows} of them as destinations` : "";
  document.getElementById("facts").textContent = `${what} · order ${DATA.order} · ${DATA.causal ? "causal" : "bidirectional"} · ${DATA.nColumns} token${DATA.nColumns === 1 ? "" : "s"}${rows}`;
  document.getElementById("worst").textContent = worstText(DATA.worst);
  document.getElementById("drawn").textContent = `${drawnText()} Numbers are rounded for the page, by at most ${formatError(DATA.precision)} of themselves.`;
  document.getElementById("provenance").textContent = Object.entries(DATA.provenance).map(([name, value]) => `${name}: ${value}`).join(" · ");
}

function worstText(worst) {
  if (!worst) return "";
  const where = `${worst.scope}, layer ${worst.layer}, “${DATA.tokens[worst.query]}” at position ${worst.query}`;
  return `Parts + bias = the model's own tensor to ${formatError(worst.error)} of its length (worst place: ${where}).`;
}

function drawnText() {
  const { version, largest: most } = DATA.circuitsvis;
  if (version) return `Cells drawn by CircuitsVis ${version}.`;
  if (DATA.nColumns > most) return `Maps above ${most} tokens are drawn on canvas; CircuitsVis takes about 4 s for three maps of 128 tokens.`;
  return "Maps with a choice of rows are drawn on canvas; CircuitsVis draws square maps.";
}

function panelOf(view, frame) {
  const cells = element("div", { className: "cells" });
  Object.assign(cells.style, { left: `${frame.left}px`, top: `${frame.top}px`, width: `${frame.across}px`, height: `${frame.down}px` });
  frame.host = element("div", { className: "host" });
  cells.append(frame.host);
  frame.marks = svg("g", { class: "marks" });
  const drawing = svg("svg", { width: frame.width, height: frame.height, "aria-hidden": "true" }, [...mapFurniture(view, frame), frame.marks]);
  frame.panel = element("div", { className: "panel", tabIndex: 0 }, [cells, drawing]);
  frame.panel.setAttribute("role", "application");
  frame.panel.setAttribute("aria-label", `${titleOf(view, frame.map)}. Arrow keys read cells, Enter pins the row.`);
  frame.panel.dataset.role = frame.map.role;
  Object.assign(frame.panel.style, { left: `${frame.x}px`, top: `${frame.y}px`, width: `${frame.width}px`, height: `${frame.height}px` });
  return frame.panel;
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
function drawCells(view, plot, allFrames) {
  const charts = [];
  let freed = false;
  plot.free = () => { freed = true; charts.forEach((free) => free()); };
  return Promise.all(allFrames.map((frame) => new Promise((resolve) => {
    if (!canCircuitsVis(DATA)) { drawOnCanvas(view, frame, frame.host); resolve(); return; }
    drawWithCircuitsVis(view, frame, frame.host, (free) => { if (freed) free(); else charts.push(free); resolve(); });
  })));
}

function drawFigure(view) {
  const host = document.getElementById("figure");
  const layout = layoutOf(view, host.clientWidth);
  const plot = element("div", { className: "plot coming" }, layout.frames.map((frame) => panelOf(view, frame)));
  plot.prepend(svg("svg", { width: 0, height: 0, "aria-hidden": "true" }, [hatchPattern()]));
  document.body.dataset.state = "drawing";
  host.append(plot);
  for (const frame of layout.frames) enablePointing(view, frame, layout.frames, pinRow);
  drawMarks(view, layout.frames, null);
  drawCells(view, plot, layout.frames).then(() => { if (plot.isConnected) replacePlots(host, plot, layout); });
  return layout;
}

function draw() {
  const view = viewOf(DATA, CHOICE);
  if (CHOICE.pinned === null) CHOICE.pinned = mostChangedRow(view);
  shown = { view, layout: drawFigure(view) };
  drawReading(view, document.getElementById("reading"), pinRow);
  markControls(view);
}

/** Takes a choice; several within one frame (a held arrow key) are drawn once. */
function choose(change) {
  Object.assign(CHOICE, change);
  if (document.body.dataset.state !== "waiting") requestAnimationFrame(draw);
  document.body.dataset.state = "waiting";
}

/** Reads another destination; keeps the focus in the sentence line it came from. */
function pinRow(row, role) {
  CHOICE.pinned = row;
  drawReading(shown.view, document.getElementById("reading"), pinRow);
  drawMarks(shown.view, shown.layout.frames, null);
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
layerControls(DATA, choose);
stepControls(DATA, choose);
colourControls(DATA, CHOICE, choose);
enableExports();
draw();
followWidth();
