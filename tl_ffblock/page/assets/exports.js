/* What is seen, as files: SVG with vector cells, PNG, CSV; and words to copy. */

/* Width of the file in pixels (96 an inch), width it is laid out at (type of 12 becomes 7 points on paper), height. */
const FIGURE_SIZES = { column: [326, 420, 0], page: [672, 900, 0], slide: [1280, 1280, 720] };

function save(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  byId("copied").textContent = `saved as ${name}, unless this frame may not save files`;
}

function wrapped(content, size, width, x, y, attributes) {
  return wrapText(content, size * (attributes["font-weight"] ? 1.2 : 1), width).map((line, index) => text(line, x, y + index * size * 1.3, { "font-size": size, ...attributes }));
}

/** The maps in the size asked for, with a headline above and the sentence, model, layer and versions below. */
function figureSvg(bench) {
  const size = byId("figure-size").value;
  const onScreen = Math.max(640, bench.width);
  const [shown, width, tall] = FIGURE_SIZES[size] || [onScreen, onScreen, 0];
  const side = size === "page" || size === "slide" ? panelsOf(bench.scene).length : 0;
  const scene = { ...bench.scene, palette: paletteOf("light"), exporting: true, ratio: 4, perLine: side, tall: tall && tall - 330 };
  const layout = layoutOf(scene, width - 16);
  const { ink, grey, paper } = scene.palette;
  const head = wrapped(headlineOf(scene), 14, width - 16, 0, 12, { "font-weight": 600, fill: ink });
  const top = head.length * 18.2 + 10;
  const words = `${bench.data.model}: “${sentenceText(bench.data, scene.selection.run, 600)}”, layer ${scene.selection.layer}. tl_ffblock ${bench.data.provenance.tl_ffblock || ""}`;
  const foot = wrapped(words, 9, width - 16, 0, top + layout.height + 8, { fill: grey });
  const panels = layout.frames.map((frame) => svg("g", { transform: `translate(${frame.x} ${frame.y + top})` }, [...cellsForFile(scene, frame), ...furniture(scene, frame)]));
  const height = Math.max(top + layout.height + foot.length * 11.7 + 8, tall - 16);
  return svg("svg", { xmlns: SVG, width: shown, height: ((height + 16) * shown) / width, viewBox: `-8 -8 ${width} ${height + 16}`, "font-family": FONT }, [
    hatchPattern(scene.palette), rectangle(-8, -8, width, height + 16, paper), ...head, ...panels, ...foot,
  ]);
}

function svgText(bench) {
  return new XMLSerializer().serializeToString(figureSvg(bench));
}

function saveSvg(bench) {
  save(new Blob([svgText(bench)], { type: "image/svg+xml" }), fileName(bench.scene, "svg"));
}

const PNG_SCALE = 3;

function savePng(bench) {
  const image = new Image();
  image.onload = () => {
    const canvas = element("canvas", { width: PNG_SCALE * image.width, height: PNG_SCALE * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, fileName(bench.scene, "png")), "image/png");
  };
  // A data URL, not a blob URL: in a notebook's sandboxed frame the latter would taint the canvas.
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText(bench));
}

/** A CSV field: quoted; what a spreadsheet would read as a formula begins with an apostrophe. */
function csvField(value) {
  const written = String(value);
  return `"${(/^[=+\-@\t\r]/.test(written) ? `'${written}` : written).replaceAll('"', '""')}"`;
}

function csvNumber(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(5))) : "";
}

function csvName(scene, map) {
  return map.role === "difference" ? "difference" : sideName(scene.data, map.run, map.key);
}

function csvRows(scene, row) {
  const { axes, maps, selection, strips, asShare } = scene;
  const labels = maps[maps.length - 1].labels;
  const start = [selection.layer, axes.rows[row].position, csvField(labels[axes.own[row]])];
  const lines = [];
  for (let column = 0; column < axes.nColumns; column++) {
    if (!axes.reaches(row, column)) continue;
    const index = row * axes.nColumns + column;
    const shares = asShare ? maps.map((map) => csvNumber(map.cells[index])) : [];
    lines.push([start[0], "token", ...start.slice(1), axes.columns[column].position, csvField(labels[column]), ...maps.map((map) => csvNumber(map.raw[index])), ...shares]);
  }
  for (const name of strips.filter((label) => label !== "own")) {
    lines.push([start[0], name, ...start.slice(1), "", "", ...maps.map((map) => csvNumber((map.columns[name] || [])[row])), ...(asShare ? maps.map(() => "") : [])]);
  }
  return lines.map((line) => line.join(","));
}

function csvText(scene) {
  const names = scene.maps.map((map) => csvName(scene, map));
  const suffix = { others: "share_of_others", row: "share_of_row", column: "share_of_column" }[scene.selection.cells];
  const shares = scene.asShare ? names.map((name) => `${name}_${suffix}`) : [];
  const head = ["layer", "part", "query", "query_token", "key", "key_token", ...names, ...shares].map(csvField).join(",");
  return [head, ...scene.axes.rows.flatMap((_, row) => csvRows(scene, row)), ""].join("\n");
}

function saveCsv(scene) {
  save(new Blob([csvText(scene)], { type: "text/csv;charset=utf-8" }), fileName(scene, "csv"));
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

function connectExports(bench) {
  byId("save-png").addEventListener("click", () => savePng(bench));
  byId("save-svg").addEventListener("click", () => saveSvg(bench));
  byId("save-csv").addEventListener("click", () => saveCsv(bench.scene));
  byId("print").addEventListener("click", () => window.print());
  byId("copy-caption").addEventListener("click", () => copyText(captionOf(bench.scene)));
  byId("copy-link").addEventListener("click", () => copyText(bench.address()));
  byId("figure-mode").addEventListener("click", () => {
    const tools = byId("figure-tools");
    tools.hidden = !tools.hidden;
    byId("figure-mode").setAttribute("aria-expanded", String(!tools.hidden));
    byId("caption").textContent = captionOf(bench.scene);
    bench.resized();
  });
}
