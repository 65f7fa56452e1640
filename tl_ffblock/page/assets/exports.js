/* What is seen, as files: SVG with vector cells, PNG, CSV; and words to copy. */

function save(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  byId("copied").textContent = `saved as ${name}, unless this frame may not save files`;
}

function nameOf(bench, ending, view = bench.view()) {
  return fileName(bench.scene, view.words(bench.scene), ending);
}

const NOTHING_DRAWN = "nothing is drawn here that could be saved";

function saveSvg(bench) {
  const figure = figureOf(bench);
  if (!figure) { byId("copied").textContent = NOTHING_DRAWN; return; }
  save(new Blob([vectorFigure(figure)], { type: "image/svg+xml" }), nameOf(bench, "svg"));
}

const PNG_SCALE = 3;

/** Bytes of a canvas as PNG; `toBlob` would wait for a quiet second. */
function pngOf(canvas) {
  return new Blob([bytesOf(canvas.toDataURL("image/png").split(",")[1])], { type: "image/png" });
}

function savePng(bench) {
  const figure = figureOf(bench);
  if (!figure) { byId("copied").textContent = NOTHING_DRAWN; return; }
  const name = nameOf(bench, "png");
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
  if (count > CSV_NUMBERS) { byId("copied").textContent = `${formatNumber(count)} numbers are too many for one file; in Python .to_dataframe() has them`; return; }
  save(new Blob([csvText(table)], { type: "text/csv;charset=utf-8" }), nameOf(bench, "csv", view));
}

/** Copies text; where the browser refuses, as in a frame, shows it to be copied by hand. */
async function copyText(content) {
  try {
    await navigator.clipboard.writeText(content);
    byId("copied").textContent = "copied";
  } catch {
    byId("caption").textContent = content;
    byId("figure-tools").hidden = false;
    byId("copied").textContent = "this frame may not copy: the words stand below";
  }
}

/** Writes the caption, and lets the buttons be pressed that the view has an answer to. */
function markExports(bench) {
  const view = bench.view();
  for (const id of ["save-png", "save-svg", "save-csv"]) {
    const there = Boolean(id === "save-csv" ? view.table : view.figure);
    byId(id).disabled = !there;
    byId(id).title = there ? "" : "this view has no such file; PDF (print) has what is seen";
  }
  byId("caption").textContent = captionOf(bench.scene, view.words(bench.scene));
}

function connectExports(bench) {
  byId("save-png").addEventListener("click", () => savePng(bench));
  byId("save-svg").addEventListener("click", () => saveSvg(bench));
  byId("save-csv").addEventListener("click", () => saveCsv(bench, bench.view()));
  byId("pairs-csv").addEventListener("click", () => saveCsv(bench, { table: mapsTable, words: mapsWords }));
  byId("print").addEventListener("click", () => window.print());
  byId("copy-caption").addEventListener("click", () => copyText(captionOf(bench.scene, bench.view().words(bench.scene))));
  byId("copy-link").addEventListener("click", () => copyText(bench.address()));
  byId("figure-mode").addEventListener("click", () => {
    const tools = byId("figure-tools");
    tools.hidden = !tools.hidden;
    byId("figure-mode").setAttribute("aria-expanded", String(!tools.hidden));
    markExports(bench);
    bench.resized();
  });
}
