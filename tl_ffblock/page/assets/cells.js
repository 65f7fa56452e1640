/* The cells of a map: by CircuitsVis, by a canvas of our own, or as vectors for export. */

function canCircuitsVis(run) {
  return run.circuitsvis.version !== null && typeof CircuitsVis === "object";
}

/** The chart inside the element tree that CircuitsVis's component returns. */
function chartWithin(tree) {
  if (!tree || !tree.props) return null;
  return tree.props.type === "matrix" ? tree : chartWithin(tree.props.children);
}

let hosts = 0;

/** Draws with CircuitsVis into `host`; calls `done` with a function that frees the chart. */
function drawWithCircuitsVis(view, place, host, done) {
  const { run } = view;
  const rows = run.queries.map((_, row) => Array.from(place.map.cells.subarray(row * run.nColumns, (row + 1) * run.nColumns), (value) => value || 0));
  const keepChart = (chart) => { if (chart) done(() => chart.destroy()); };
  // CircuitsVis hands out neither its React root nor its chart, which would outlive every redraw: ask for the chart here.
  const Pattern = (properties) => {
    const tree = CircuitsVis.AttentionPattern(properties);
    const chart = chartWithin(tree);
    if (chart) chart.ref = keepChart;
    else setTimeout(() => done(() => {}));
    return tree;
  };
  host.id = `circuitsvis-${hosts++}`;
  CircuitsVis.render(host.id, Pattern, {
    attention: rows,
    tokens: run.tokens,
    maxValue: place.map.limit || 1,
    minValue: -(place.map.limit || 1),
    positiveColor: place.map.scale === "signed" ? INK.gain : INK.contribution,
    negativeColor: INK.loss,
    upperTriColor: NOT_REACHABLE,
    maskUpperTri: run.causal,
    showAxisLabels: false,
  });
}

/** One pixel a cell, enlarged without smoothing. */
function drawOnCanvas(view, place, host) {
  const { run } = view;
  const image = new ImageData(run.nColumns, run.nRows);
  place.map.cells.forEach((value, index) => {
    const colour = Number.isNaN(value) ? hexToRgb(NOT_REACHABLE) : colourOf(value, place.map.limit, place.map.scale);
    image.data.set([...colour, 255], 4 * index);
  });
  const small = element("canvas", { width: run.nColumns, height: run.nRows });
  small.getContext("2d").putImageData(image, 0, 0);
  const ratio = window.devicePixelRatio || 1;
  const canvas = element("canvas", { width: Math.round(place.across * ratio), height: Math.round(place.down * ratio) });
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  host.append(canvas);
}

/** One rectangle a cell. */
function cellVectors(view, place) {
  const { run } = view;
  return Array.from(place.map.cells).flatMap((value, index) => {
    if (Number.isNaN(value)) return [];
    const [row, column] = [Math.floor(index / run.nColumns), index % run.nColumns];
    const { width, height } = place.cell;
    return [rectangle(place.left + column * width, place.top + row * height, width, height, rgbToHex(colourOf(value, place.map.limit, place.map.scale)))];
  });
}
