/* View: a target shared out. Tokens with what they bring, layers by tokens with what flows, biases beside them, heads. */

const STREAM = { left: 34, gap: 34, smallest: 9, largest: 20, tall: 440, head: 20, enough: 330, legend: 190 };

function hasLogit(data) {
  return logitBlocks(data, 0).length > 0;
}

/** What its drawing is made from; layer, token and head are marks. */
function logitFields() {
  return ["run", "block", "words", "hide", "zoom", "range", "root"];
}

/** Where the stream, the biases beside it and the heads stand in `width` pixels; heads below where there is no room beside. */
function logitPlace(scene, width) {
  const { data, selection, window: [, , first, last] } = scene;
  const block = chosenLogit(data, selection);
  const rows = block.residual.length;
  const tall = scene.room ? Math.min(STREAM.tall, scene.room - 130) : STREAM.tall;
  const height = Math.max(scene.room ? 4 : STREAM.smallest, Math.min(STREAM.largest, tall / rows));
  const heads = block.heads ? block.heads[0].length : 0;
  const biased = block.biases.some(([, , share]) => share !== 0);
  const beyond = STREAM.left + (biased ? STRIP.gap + STRIP.width : 0) + 8;
  const across = heads ? Math.max(6, Math.min(STREAM.head, (width / 3) / heads)) : 0;
  const beside = heads > 0 && width - beyond - STREAM.gap - across * heads >= STREAM.enough;
  const room = width - beyond - (beside ? STREAM.gap + across * heads : 0);
  const cell = { width: Math.min(CELL.largest, room / (last - first + 1)), height };
  const map = { labels: labelsOf(scene) };
  const top = 26 + labelWidth(scene, shownLabels(scene, map), LABEL.column, labelSize(cell.width));
  const frame = { left: STREAM.left, top, cell, across: cell.width * (last - first + 1), down: height * rows, map };
  const bottom = top + frame.down + 34;
  const narrow = beside ? across : Math.min(STREAM.head, (width - STREAM.left - 8) / Math.max(1, heads));
  const headFrame = {
    left: beside ? frame.across + beyond - 8 + STREAM.gap : STREAM.left, top: beside ? top : bottom + 36,
    cell: { width: narrow, height }, across: narrow * heads, down: height * (rows - 1),
  };
  return { block, frame, heads, headFrame, beside, strip: biased ? frame.left + frame.across + STRIP.gap : null, height: heads && !beside ? headFrame.top + headFrame.down + 8 : bottom };
}

/** What is painted, and where. */
function logitPictures(scene, place) {
  const { block, frame, headFrame, heads, strip } = place;
  const { cells, limit, rows } = logitStream(scene);
  const shown = { scale: "signed", root: scene.selection.root };
  const [, , first, last] = scene.window;
  const pictures = [
    { picture: { ...shown, cells, limit, nColumns: scene.axes.nColumns, window: [0, rows.length - 1, first, last] }, x: frame.left, y: frame.top, width: frame.across, height: frame.down },
  ];
  if (strip !== null) {
    const biases = Float32Array.from(rows, (_, row) => logitBiasesAt(block, row));
    pictures.push({ picture: { ...shown, cells: biases, limit, nColumns: 1, window: [0, rows.length - 1, 0, 0] }, x: strip, y: frame.top, width: STRIP.width, height: frame.down });
  }
  if (heads) {
    const flat = Float32Array.from(block.heads.flat());
    pictures.push({ picture: { ...shown, cells: flat, limit: largest(flat), nColumns: heads, window: [0, rows.length - 2, 0, heads - 1] }, x: headFrame.left, y: headFrame.top, width: headFrame.across, height: headFrame.down });
  }
  return pictures;
}

function logitLayerLabels(scene, place, { left, top }, rows) {
  const { palette, selection } = scene;
  const { height } = place.frame.cell;
  const every = Math.max(1, Math.ceil(11 / height));
  return Array.from({ length: rows }, (_, row) => row).flatMap((row) => {
    const chosen = row === selection.layer;
    const crowded = row % every || (!chosen && Math.abs(row - selection.layer) < every);
    if (crowded && !chosen) return [];
    const style = { "text-anchor": "end", "font-size": 11, fill: chosen ? palette.ink : palette.grey, "font-weight": chosen ? 700 : 400 };
    return [text(logitRowName(place.block, row), left - 5, top + (row + 0.5) * height + 4, style)];
  });
}

/** Axes, frames and names that stay while layer and token change. */
function logitSurroundings(scene, place) {
  const { palette } = scene;
  const { frame, headFrame, heads, strip } = place;
  const grey = { "font-size": 11, fill: palette.grey };
  const outline = (x, y, width, height) => svg("rect", { x, y, width, height, fill: "none", stroke: palette.line });
  const nodes = [
    text("layer", 0, frame.top - 5, grey), outline(frame.left, frame.top, frame.across, frame.down),
    ...logitLegend(scene, place),
  ];
  if (strip !== null) nodes.push(upright("biases", strip + STRIP.width - 2, frame.top - 5, grey), outline(strip, frame.top, STRIP.width, frame.down));
  if (heads) {
    const every = Math.max(1, Math.ceil(16 / headFrame.cell.width));
    nodes.push(text("head", headFrame.left, headFrame.top - 20, grey), outline(headFrame.left, headFrame.top, headFrame.across, headFrame.down));
    for (let head = 0; head < heads; head += every) nodes.push(text(head, headFrame.left + (head + 0.5) * headFrame.cell.width, headFrame.top - 5, { ...grey, "text-anchor": "middle" }));
  }
  return nodes;
}

function logitLegend(scene, { frame, block }) {
  const { limit, top } = logitStream(scene);
  const gradient = rampGradient(scene, { limit, scale: "signed" }, -limit);
  const [y, width] = [frame.top + frame.down + 8, Math.min(STREAM.legend, frame.across)];
  const [less, more] = top > limit * 1.0001 ? ["≤ ", "≥ "] : ["", ""];
  const tick = (content, share, anchor) => text(content, frame.left + share * width, y + 20, { "font-size": 11, "text-anchor": anchor, fill: scene.palette.ink });
  return [
    svg("defs", {}, [gradient]), svg("rect", { x: frame.left, y, width, height: 9, fill: `url(#${gradient.id})`, stroke: scene.palette.line, class: "legend" }),
    tick(`${less}−${formatRough(limit, false)}`, 0, "start"), tick("0", 0.5, "middle"), tick(`${more}+${formatRough(limit, false)}${logitUnit(block)}`, 1, width < 150 ? "middle" : "end"),
  ];
}

/** The selected layer, token and head; what is pointed at. */
function logitMarks(scene, place, target) {
  const { palette, selection } = scene;
  const { block, frame, headFrame, heads } = place;
  const line = ({ left, top, across, cell }) => frameAround(left, top + selection.layer * cell.height, across, cell.height, palette.mark);
  const shapes = [line(frame), ...columnMark(scene, frame, ownColumn(scene), palette.mark)];
  if (target && target.column !== undefined) shapes.push(...columnMark(scene, frame, target.column, palette.read));
  if (!heads) return shapes;
  const head = logitHead(block, selection);
  const chosen = head < 0 ? [] : [frameAround(headFrame.left + head * headFrame.cell.width, headFrame.top + selection.layer * headFrame.cell.height, headFrame.cell.width, headFrame.cell.height, palette.mark)];
  return [...shapes, line(headFrame), ...chosen];
}

/** What lies under a point: a row with a column of tokens, with a head, or with the biases. */
function logitUnder(place, scene, event, host) {
  const box = host.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const inside = ({ left, top, across, down }) => x >= left && x < left + across && y >= top && y < top + down;
  const { frame, headFrame, heads, strip } = place;
  const row = ({ top, cell }) => Math.floor((y - top) / cell.height);
  if (inside(frame)) return { layer: row(frame), column: scene.window[2] + Math.floor((x - frame.left) / frame.cell.width) };
  if (strip !== null && inside({ ...frame, left: strip, across: STRIP.width })) return { layer: row(frame), biases: true };
  if (heads && inside(headFrame)) return { layer: row(headFrame), head: Math.floor((x - headFrame.left) / headFrame.cell.width) };
  return null;
}

/** The change of the selection that a token means: the one that is read. */
function logitTokenChange({ data, axes, selection }, column) {
  const position = axes.columns[column].position;
  const row = axes.rowOf(position);
  return selection.read === "row" && row >= 0 ? { to: axes.rows[row].position } : { from: position, read: "column" };
}

/** The change that a click means; a layer of which the page has no maps cannot be selected. */
function logitChange(scene, { layer, column, head }) {
  const change = scene.data.layers.includes(layer) ? { layer } : {};
  if (column !== undefined) Object.assign(change, logitTokenChange(scene, column));
  if (head !== undefined) change.heads = String(head);
  return change;
}

function logitTip(scene, block, { layer, column, head }) {
  const at = tipLine("layer", layer === block.residual.length - 1 && head === undefined ? "end" : `${layer}${head === undefined ? ", its input" : ""}`);
  const number = (share) => element("div", { textContent: Number.isNaN(share) ? "hidden" : `${formatChange(share, false)}${logitUnit(block)}` });
  if (head !== undefined) return [at, tipLine("head", String(head)), number(block.heads[layer][head])];
  if (column === undefined) return [at, ...block.biases.filter(([, from]) => from === layer).map(([name, , share]) => tipLine("bias", `${name} ${formatChange(share, false)}`))];
  return [at, tipLine("token", tokenAt(scene, labelsOf(scene)[column], scene.axes.columns[column].position)), number(logitColumns(scene, block.residual[layer])[column])];
}

/** Arrow keys: up and down another layer, left and right another token. */
function logitKey(scene, go, event) {
  const { data, selection, axes } = scene;
  const layer = data.layers.indexOf(selection.layer);
  const column = ownColumn(scene);
  const actions = {
    ArrowUp: () => layer > 0 && go({ layer: data.layers[layer - 1] }),
    ArrowDown: () => layer < data.layers.length - 1 && go({ layer: data.layers[layer + 1] }),
    ArrowLeft: () => column > 0 && go(logitTokenChange(scene, column - 1)),
    ArrowRight: () => column < axes.nColumns - 1 && go(logitTokenChange(scene, column + 1)),
    Home: () => go({ layer: data.layers[0] }),
    End: () => go({ layer: data.layers[data.layers.length - 1] }),
  };
  if (!(event.key in actions) || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  actions[event.key]();
}

/** Pointer and keys; `current()` is the scene of now. */
function connectLogit(host, place, go, current) {
  host.addEventListener("pointermove", (event) => {
    const scene = current();
    const target = logitUnder(place, scene, event, host);
    const tip = byId("tooltip");
    tip.hidden = !target;
    scene.hover(target && target.column !== undefined ? { column: target.column } : null);
    if (target) { tip.replaceChildren(...logitTip(scene, place.block, target)); placeTip(tip, event.clientX, event.clientY); }
  });
  host.addEventListener("pointerleave", () => { byId("tooltip").hidden = true; current().hover(null); });
  host.addEventListener("click", (event) => {
    const target = logitUnder(place, current(), event, host);
    if (target) go(logitChange(current(), target));
  });
  host.addEventListener("keydown", (event) => logitKey(current(), go, event));
}

/** The text, each token on the ground of what it brings, the number below it. */
function logitTokens(scene, block, go, current) {
  const shares = logitColumns(scene, block.entering);
  const limit = largest(shares);
  const labels = labelsOf(scene);
  const chips = Array.from(shares, (share, column) => {
    const number = Number.isNaN(share) ? "–" : formatChange(share, false);
    const title = `${labels[column]} · position ${scene.axes.columns[column].position}: ${number}${logitUnit(block)}`;
    const chip = shareChip(labels[column], number, title, Number.isNaN(share) || limit === 0 ? null : shadeOf(scene.palette, share, limit, "signed", scene.selection.root));
    chip.classList.toggle("later", Number.isNaN(share));
    chip.addEventListener("click", () => go(logitTokenChange(current(), column)));
    return chip;
  });
  const host = element("ol", { className: "tokens shared" }, chips);
  host.setAttribute("aria-label", `what each token brings to the ${block.target}`);
  host.tabIndex = 0;
  host.classList.toggle("long", chips.length > 40);
  return { host, chips };
}

/** The list of targets, and the way to the signed map of the selected layer. */
function logitChoice(scene, go, current) {
  const { data, selection } = scene;
  const blocks = logitBlocks(data, selection.run);
  const nodes = [];
  if (blocks.length > 1) {
    const select = element("select", { autocomplete: "off" }, blocks.map(([name, block]) => option(name, `${block.target} (${block.rules})`)));
    select.value = blocks.find(([, block]) => block === chosenLogit(data, selection))[0];
    select.setAttribute("aria-label", "target");
    select.addEventListener("change", () => go({ block: select.value }));
    nodes.push(select);
  }
  if (logitMapKey(data, selection)) {
    const button = element("button", { type: "button", textContent: "signed map of this layer beside its norms", title: "what each contribution of the layer carries to the target, destinations by sources" });
    button.addEventListener("click", () => go(logitMapChange(data, current().selection)));
    nodes.push(button);
  }
  return nodes.length ? [element("div", { className: "toggles" }, nodes)] : [];
}

function logitView(scene, go, width) {
  let shown = scene;
  const current = () => shown;
  const place = logitPlace(scene, width);
  const { block } = place;
  const [labels, marks] = [svg("g"), svg("g")];
  const canvases = logitPictures(scene, place).map(({ picture, x, y, width: wide, height }) => placed(paint(picture, scene.palette, wide * scene.ratio, height * scene.ratio), x, y, wide, height));
  const columns = columnLabels(scene, place.frame);
  const drawing = svg("svg", { width, height: place.height, "aria-hidden": "true" }, [...logitSurroundings(scene, place), ...columns.nodes, labels, marks]);
  const host = element("div", { className: "logit", tabIndex: 0 }, [...canvases, drawing]);
  host.setAttribute("role", "application");
  connectLogit(host, place, go, current);
  const tokens = logitTokens(scene, block, go, current);
  const update = (now) => {
    shown = now;
    host.setAttribute("aria-label", `Layers by tokens, arrow keys choose. ${logitSentence(now)}`);
    labels.replaceChildren(...columns.mark(ownColumn(now)), ...logitLayers(now, place));
    tokens.chips.forEach((chip, column) => chip.setAttribute("aria-current", String(column === ownColumn(now))));
    const mark = (target) => marks.replaceChildren(...logitMarks(now, place, target));
    now.marked.push(mark);
    mark(null);
  };
  const note = logitNote(scene, 1 / (place.frame.cell.width * scene.ratio));
  const nodes = [
    ...logitChoice(scene, go, current), element("h3", { textContent: "What each token brings" }), tokens.host,
    element("p", { className: "note", textContent: logitEquation(block) }), element("h3", { textContent: "What flows through each token, layer by layer" }), host,
    element("p", { className: "note", textContent: note }),
  ];
  return { nodes, update };
}

/** Numbers of layers, beside the stream and beside heads that stand below it. */
function logitLayers(scene, place) {
  const { block, frame, headFrame, heads, beside } = place;
  return [...logitLayerLabels(scene, place, frame, block.residual.length), ...(heads && !beside ? logitLayerLabels(scene, place, headFrame, block.residual.length - 1) : [])];
}

/** The layers for a file. */
function logitFigure(scene, width) {
  const place = logitPlace(scene, width);
  const columns = columnLabels(scene, place.frame);
  const nodes = [...logitSurroundings(scene, place), ...columns.nodes, ...columns.mark(ownColumn(scene)), ...logitLayers(scene, place), ...logitMarks(scene, place, null)];
  return { groups: [{ x: 0, y: 0, pictures: logitPictures(scene, place), nodes }], height: place.height };
}
