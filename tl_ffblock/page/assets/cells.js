/* The cells of a map: by CircuitsVis, by a canvas of our own, or as vectors for export. */

function canCircuitsVis(data) {
  return data.circuitsvis.version !== null && typeof CircuitsVis === "object";
}

/** The chart inside the element tree that CircuitsVis's component returns. */
function chartWithin(tree) {
  if (!tree || !tree.props) return null;
  return tree.props.type === "matrix" ? tree : chartWithin(tree.props.children);
}

let hosts = 0;

/** Draws with CircuitsVis into `host`; calls `done` with a function that frees the chart. */
function drawWithCircuitsVis(view, frame, host, done) {
  const { data } = view;
  const rows = data.queries.map((_, row) => Array.from(frame.map.cells.subarray(row * data.nColumns, (row + 1) * data.nColumns), (value) => value || 0));
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
    tokens: data.tokens,
    maxValue: frame.map.limit || 1,
    minValue: -(frame.map.limit || 1),
    positiveColor: frame.map.scale === "signed" ? INK.gain : INK.contribution,
    negativeColor: INK.loss,
    upperTriColor: NOT_REACHABLE,
    maskUpperTri: data.causal,
    showAxisLabels: false,
  });
}

/** One pixel a cell, enlarged without smoothing. */
function drawOnCanvas(view, frame, host) {
  const { data } = view;
  const image = new ImageData(data.nColumns, data.nRows);
  frame.map.cells.forEach((value, index) => {
    const colour = Number.isNaN(value) ? hexToRgb(NOT_REACHABLE) : colourOf(value, frame.map.limit, frame.map.scale);
    image.data.set([...colour, 255], 4 * index);
  });
  const small = element("canvas", { width: data.nColumns, height: data.nRows });
  small.getContext("2d").putImageData(image, 0, 0);
  const ratio = window.devicePixelRatio || 1;
  const canvas = element("canvas", { width: Math.round(frame.across * ratio), height: Math.round(frame.down * ratio) });
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  host.append(canvas);
}

/** One rectangle a cell. */
function cellVectors(view, frame) {
  const { data } = view;
  return Array.from(frame.map.cells).flatMap((value, index) => {
    if (Number.isNaN(value)) return [];
    const [row, column] = [Math.floor(index / data.nColumns), index % data.nColumns];
    const { width, height } = frame.cell;
    return [rectangle(frame.left + column * width, frame.top + row * height, width, height, rgbToHex(colourOf(value, frame.map.limit, frame.map.scale)))];
  });
}
