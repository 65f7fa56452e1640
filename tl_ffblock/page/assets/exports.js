/* What is seen, as files: PNG, SVG with vector cells, CSV. */

function fileName(view, ending) {
  const { data, choice, step } = view;
  const scopes = step.before ? `${step.before}-${step.scope}` : step.scope;
  return `${data.model}_layer${choice.layer}_${scopes}`.replace(/[^A-Za-z0-9._-]+/g, "-") + `.${ending}`;
}

function save(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const HEADING = 34;

function figureSvg(view, layout) {
  const [width, height] = [layout.width + 32, layout.height + HEADING + 32];
  const heading = `${view.data.model} · layer ${view.choice.layer} · ${view.step.component} (${view.step.shows})`;
  const panels = layout.frames.map((frame) =>
    svg("g", { transform: `translate(${frame.x} ${frame.y + HEADING})` }, [...cellVectors(view, frame), ...mapFurniture(view, frame)]));
  return svg("svg", { xmlns: SVG, width, height, viewBox: `-16 -16 ${width} ${height}`, "font-family": FONT }, [
    hatchPattern(),
    rectangle(-16, -16, width, height, "#ffffff"),
    text(fitText(heading, 15, layout.width), 0, 12, { "font-size": 15, "font-weight": 600 }),
    ...panels,
  ]);
}

function svgText(view, layout) {
  return new XMLSerializer().serializeToString(figureSvg(view, layout));
}

function saveSvg(view, layout) {
  save(new Blob([svgText(view, layout)], { type: "image/svg+xml" }), fileName(view, "svg"));
}

function savePng(view, layout) {
  const image = new Image();
  image.onload = () => {
    const canvas = element("canvas", { width: 2 * image.width, height: 2 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, fileName(view, "png")), "image/png");
  };
  // A data URL, not a blob URL: in a notebook's sandboxed frame the latter would taint the canvas.
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText(view, layout));
}

function quoted(value) {
  return `"${String(value).replaceAll('"', '""')}"`;
}

function csvHeader(view) {
  const share = view.choice.normalise === "none" ? [] : view.maps.map((map) => `${nameInCsv(map)}_share_of_${view.choice.normalise}`);
  return ["layer", "part", "query", "query_token", "key", "key_token", ...view.maps.map(nameInCsv), ...share];
}

function nameInCsv(map) {
  return map.role === "difference" ? "difference" : map.scope;
}

function csvNumber(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(6))) : "";
}

function csvCells(view, row) {
  const { data, choice, maps } = view;
  const lines = [];
  for (let column = 0; column < data.nColumns; column++) {
    if (!data.reaches(row, column)) continue;
    const index = row * data.nColumns + column;
    const shares = choice.normalise === "none" ? [] : maps.map((map) => csvNumber(map.cells[index]));
    lines.push(["token", column, quoted(data.tokens[column]), ...maps.map((map) => csvNumber(map.raw[index])), ...shares]);
  }
  return lines;
}

function csvStrips(view, row) {
  const shares = view.choice.normalise === "none" ? [] : view.maps.map(() => "");
  return stripsOf(view).map((name) => [name, "", "", ...view.maps.map((map) => csvNumber(map[name][row])), ...shares]);
}

function csvText(view) {
  const { data, choice } = view;
  const lines = data.queries.flatMap((query, row) => [...csvCells(view, row), ...csvStrips(view, row)].map(([part, ...rest]) =>
    [choice.layer, part, query, quoted(data.tokens[query]), ...rest].join(",")));
  return [csvHeader(view).map(quoted).join(","), ...lines, ""].join("\n");
}

function saveCsv(view) {
  save(new Blob([csvText(view)], { type: "text/csv;charset=utf-8" }), fileName(view, "csv"));
}
