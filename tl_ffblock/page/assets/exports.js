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
function figureOf(bench) {
  const size = byId("figure-size").value;
  const onScreen = Math.max(640, bench.width);
  const [shown, width, tall] = FIGURE_SIZES[size] || [onScreen, onScreen, 0];
  const side = size === "page" || size === "slide" ? panelsOf(bench.scene).length : 0;
  const scene = { ...bench.scene, palette: paletteOf("light"), exporting: true, ratio: 4, perLine: side, tall: tall && tall - 330 };
  const layout = layoutOf(scene, width - 16);
  const { ink, grey } = scene.palette;
  const head = wrapped(headlineOf(scene), 14, width - 16, 0, 12, { "font-weight": 600, fill: ink });
  const top = head.length * 18.2 + 10;
  const words = `${bench.data.model}: “${sentenceText(bench.data, scene.selection.run, 600)}”, layer ${scene.selection.layer}. tl_ffblock ${bench.data.provenance.tl_ffblock || ""}`;
  const foot = wrapped(words, 9, width - 16, 0, top + layout.height + 8, { fill: grey });
  const height = Math.max(top + layout.height + foot.length * 11.7 + 8, tall - 16) + 16;
  const panels = layout.frames.map((frame) => {
    frame.pictures = picturesOf(scene, frame);
    const nodes = [...surroundings(scene, frame), ...selectedLabels(scene, frame), ...statements(scene, frame)];
    return { frame, x: frame.x, y: frame.y + top, nodes };
  });
  return { scene, head, foot, panels, width, height, shown };
}

/** The figure as SVG; `cellsOf(frame)` gives the shapes of a frame's cells, `ground` what lies below all. */
function figureSvg({ scene, head, foot, panels, width, height, shown }, cellsOf, ground) {
  const groups = panels.map(({ frame, x, y, nodes }) => svg("g", { transform: `translate(${x} ${y})` }, [...cellsOf(frame), ...nodes]));
  const drawing = svg("svg", { xmlns: SVG, width: shown, height: (height * shown) / width, viewBox: `-8 -8 ${width} ${height}`, "font-family": FONT }, [
    hatchPattern(scene.palette), ...ground, ...head, ...groups, ...foot,
  ]);
  return new XMLSerializer().serializeToString(drawing);
}

function svgText(bench) {
  const figure = figureOf(bench);
  const { palette } = figure.scene;
  const cellsOf = (frame) => frame.pictures.flatMap(({ picture, x, width }) => shapesOf(picture, palette, x, frame.top, width, frame.down));
  return figureSvg(figure, cellsOf, [rectangle(-8, -8, figure.width, figure.height, palette.paper)]);
}

function saveSvg(bench) {
  save(new Blob([svgText(bench)], { type: "image/svg+xml" }), fileName(bench.scene, "svg"));
}

const PNG_SCALE = 3;

/** Paints the figure's ground and cells; what stands around them is drawn over it. */
function paintFigure(context, { scene, panels, width, height }) {
  const [across, down] = [context.canvas.width / width, context.canvas.height / height];
  context.setTransform(across, 0, 0, down, 8 * across, 8 * down);
  context.imageSmoothingEnabled = false;
  context.fillStyle = scene.palette.paper;
  context.fillRect(-8, -8, width, height);
  for (const { frame, x: left, y: top } of panels) {
    for (const { picture, x, width: wide } of frame.pictures) {
      const [first, last, from, to] = picture.window;
      context.drawImage(paint(picture, scene.palette, to - from + 1, last - first + 1), left + x, top + frame.top, wide, frame.down);
    }
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
}

/** Bytes of a canvas as PNG; `toBlob` would wait for a quiet second. */
function pngOf(canvas) {
  return new Blob([bytesOf(canvas.toDataURL("image/png").split(",")[1])], { type: "image/png" });
}

function savePng(bench) {
  const figure = figureOf(bench);
  const image = new Image();
  image.onload = () => {
    const canvas = element("canvas", { width: PNG_SCALE * image.width, height: PNG_SCALE * image.height });
    const context = canvas.getContext("2d");
    paintFigure(context, figure);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    save(pngOf(canvas), fileName(bench.scene, "png"));
  };
  // A data URL, not a blob URL: in a notebook's sandboxed frame the latter would taint the canvas.
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(figureSvg(figure, () => [], []));
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
  const labels = labelsOf(scene);
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
