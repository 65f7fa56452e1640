/* What is seen, as files: SVG with vector cells, PNG, CSV; and words to copy. */

import { option } from "./controls.js";
import { csvText, mapsTable } from "./csv.js";
import { figureChoice, figureOf, figureScene, figureSvg, paintFigure, vectorFigure } from "./figure.js";
import { bytesOf, formatNumber } from "./numbers.js";
import { captionOf, fileName, mapsWords, titleOf } from "./phrases.js";
import { byId, element, writeText } from "./svg.js";

function save(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  byId("copied").textContent = `saved as ${name}${window.parent === window ? "" : ", unless this frame blocks downloads"}`;
}

function nameOf({ scene }, ending, view) {
  return fileName(scene, view.words(scene), ending);
}

/** A picture's name: with the map that it is of alone, and the size that it was made for. */
function pictureName(bench, { scene }, ending) {
  const { size } = figureChoice(bench);
  const words = bench.view().words(scene);
  const made = [scene.maps.length > 1 && bench.view().name === "maps" ? scene.selection.panel : "", size === "screen" ? "" : size].filter(Boolean);
  return fileName(scene, { ...words, file: [...words.file, ...made] }, ending);
}

const NOTHING_DRAWN = "this view has nothing to save";

function saveSvg(bench) {
  const figure = figureOf(bench);
  if (!figure) { byId("copied").textContent = NOTHING_DRAWN; return; }
  save(new Blob([vectorFigure(figure)], { type: "image/svg+xml" }), pictureName(bench, figure, "svg"));
}

const PNG_SCALE = 3;

/** Bytes of a canvas as PNG; `toBlob` would wait for a quiet second. */
function pngOf(canvas) {
  return new Blob([bytesOf(canvas.toDataURL("image/png").split(",")[1])], { type: "image/png" });
}

function savePng(bench) {
  const figure = figureOf(bench);
  if (!figure) { byId("copied").textContent = NOTHING_DRAWN; return; }
  const name = pictureName(bench, figure, "png");
  const image = new Image();
  image.onload = () => {
    const canvas = element("canvas", { width: PNG_SCALE * image.width, height: PNG_SCALE * image.height });
    const context = canvas.getContext("2d");
    paintFigure(context, figure);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    save(pngOf(canvas), name);
  };
  // A data URL, not a blob URL: in a notebook's sandboxed frame the latter would taint the canvas.
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(figureSvg(figure, () => [], []));
}

const CSV_NUMBERS = 4e6;

/** A view's table as a file; one that no spreadsheet would open is not made. */
function saveCsv(bench, view) {
  const table = view.table(bench.scene);
  if (!table) { byId("copied").textContent = NOTHING_DRAWN; return; }
  const count = table.count * table.head.length;
  if (count > CSV_NUMBERS) { byId("copied").textContent = `${formatNumber(count)} numbers are too many for one file; use .to_dataframe() in Python`; return; }
  save(new Blob([csvText(table)], { type: "text/csv;charset=utf-8" }), nameOf(bench, "csv", view));
}

/** Copies text and says so in `note`; where the browser refuses, as in a frame, shows it to be copied by hand. */
async function copyText(content, note) {
  try {
    await navigator.clipboard.writeText(content);
    note.textContent = "copied";
    setTimeout(() => { note.textContent = ""; }, 4000);
  } catch {
    byId("caption").textContent = content;
    byId("figure-tools").hidden = false;
    byId("copied").textContent = "this frame blocks copying: select the text below";
  }
}

function captionNow(bench) {
  const scene = figureScene(bench);
  return captionOf(scene, bench.view().words(scene));
}

/** Writes which maps a figure can be of; of other views there is nothing to choose. */
function markFigureMaps(bench) {
  const { scene } = bench;
  const { panel, roles } = figureChoice(bench);
  const words = (role) => (role === "" ? "all maps" : titleOf(scene, scene.maps.find((map) => map.role === role)));
  byId("figure-maps").replaceChildren(...roles.map((role) => option(role, words(role))));
  byId("figure-maps").value = panel;
  const ofMaps = bench.view().name === "maps";
  byId("figure-maps-label").hidden = roles.length < 2 || !ofMaps;
  writeText(byId("figure-size").querySelector("[value=column]"), ofMaps ? "one column (3.4 in), one map" : "one column (3.4 in)");
}

/** Writes the caption, and lets the buttons be pressed that the view has an answer to. */
export function markExports(bench) {
  const view = bench.view();
  markFigureMaps(bench);
  for (const id of ["save-png", "save-svg", "save-csv"]) {
    const there = Boolean(id === "save-csv" ? view.table : view.figure);
    byId(id).disabled = !there;
    byId(id).title = there ? "" : "this view has no such file; use PDF (print)";
  }
  byId("caption").textContent = captionNow(bench);
}

export function connectExports(bench) {
  byId("save-png").addEventListener("click", () => savePng(bench));
  byId("save-svg").addEventListener("click", () => saveSvg(bench));
  byId("save-csv").addEventListener("click", () => saveCsv(bench, bench.view()));
  byId("pairs-csv").addEventListener("click", () => saveCsv(bench, { table: mapsTable, words: mapsWords }));
  byId("print").addEventListener("click", () => window.print());
  byId("copy-caption").addEventListener("click", () => copyText(captionNow(bench), byId("copied")));
  byId("figure-size").addEventListener("change", () => { bench.figureOfMap = null; markExports(bench); });
  byId("figure-maps").addEventListener("change", () => { bench.figureOfMap = byId("figure-maps").value; markExports(bench); });
  byId("copy-link").addEventListener("click", () => copyText(bench.address(), byId("link-note")));
  byId("figure-mode").addEventListener("click", () => {
    const tools = byId("figure-tools");
    tools.hidden = !tools.hidden;
    byId("figure-mode").setAttribute("aria-expanded", String(!tools.hidden));
    markExports(bench);
    bench.resized();
  });
}
