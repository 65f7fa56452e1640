/* The page of signed shares: tokens in the colour of what they bring, maps of layers, tables. It has no selection but a row and a cell. */

const PIECE = { left: 46, top: 18, label: 11 };

/** A value's colour on a scale that ends at `limit` on both sides. */
function inkOf(palette, value, limit) {
  return shadeOf(palette, value, limit, "signed");
}

/** Numbers as they were sent, with NaN for what is not there. */
function withGaps(numbers) {
  return numbers.map((number) => number ?? NaN);
}

/** Where the colours of rows of cells end: of many columns at the 99th percentile, since few cells hold nearly all of a long text's share. */
function endOf(values) {
  const [nRows, nColumns] = [values.length, values[0].length];
  const axes = { nRows, nColumns, own: Array(nRows).fill(-1) };
  return limitOf(axes, Float32Array.from(values.flat()), nColumns >= MANY_TOKENS ? "percentile" : "all");
}

/** By what a cell is: one end of colours for all maps of one quantity, so that equal numbers look alike. */
function limitsOf(maps) {
  return new Map(maps.map(({ note }) => [note, endOf(maps.filter((map) => map.note === note).flatMap(({ values }) => values))]));
}

/** The scale of a map or a text, from loss to gain; `most` is the largest size, where that is beyond its end. */
function scaleView(palette, limit, most = limit) {
  const canvas = element("canvas", { width: 121, height: 1 });
  const pen = canvas.getContext("2d");
  for (let x = 0; x < 121; x++) {
    pen.fillStyle = inkOf(palette, (x - 60) / 60, 1).hex;
    pen.fillRect(x, 0, 1, 1);
  }
  canvas.setAttribute("aria-hidden", "true");
  const beyond = most > limit * 1.0001 ? [element("span", { textContent: `(99th percentile; cells reach ${formatNumber(most)})` })] : [];
  return element("div", { className: "share-scale" }, [`−${formatNumber(limit)}`, canvas, `+${formatNumber(limit)}`, ...beyond]);
}

/** The text, each token with its share; `marked` is the position of the token that is explained, behind which nothing is. */
function tokensView(palette, tokens, shares, marked) {
  const limit = largest(shares);
  const chips = tokens.map((token, position) => {
    const number = marked < 0 || position < marked ? formatChange(shares[position]) : "\u00a0";
    const chip = shareChip(token, number, `position ${position}`, inkOf(palette, shares[position] || 0, limit));
    if (position === marked) chip.setAttribute("aria-current", "true");
    return chip;
  });
  return element("div", {}, [element("ol", { className: "tokens shared" }, chips), scaleView(palette, limit)]);
}

/** A map's cells, one pixel each, as an image that is drawn large. */
function pictureOf(palette, values, limit) {
  const [rows, columns] = [values.length, values[0].length];
  const picture = { cells: Float32Array.from(values.flat()), nColumns: columns, window: [0, rows - 1, 0, columns - 1], scale: "signed", limit, root: 0 };
  return paint(picture, palette, columns, rows).toDataURL();
}

/** Which of many labels have room: every first, second, fifth, tenth ... */
function everyOf(count, size) {
  return [1, 2, 5, 10, 20, 50, 100, 200, 500].find((step) => step * size >= PIECE.label + 2) || count;
}

/**
 * A map that says what is pointed at. `pick(row, column)` is called for the cell that is clicked; where there is none, cells are
 * said on pointing alone. Arrow keys move the cell.
 */
function shareMap(palette, map, limit, width, pick) {
  const [rows, columns] = [map.rows.length, map.columns.length];
  const longest = Math.min(110, Math.max(...[`${map.row} ↓`, ...map.rows].map((name) => textWidth(name, PIECE.label))) + 8);
  const left = Math.max(PIECE.left, longest);
  const cell = Math.max(6, Math.min(34, (width - left - 8) / columns));
  const tall = Math.max(5, Math.min(20, 460 / rows));
  const widest = Math.max(...map.columns.map((name) => textWidth(name, PIECE.label)));
  const lying = widest < cell - 2;
  const below = lying ? 20 : Math.min(90, widest) + 14;
  const [w, h] = [cell * columns, tall * rows];
  const ring = svg("rect", { fill: "none", stroke: palette.mark, "stroke-width": 1.5, visibility: "hidden", width: cell, height: tall });
  const drawing = svg("svg", { width: left + w + 6, height: PIECE.top + h + below, tabindex: 0, role: "img" }, [
    svg("image", { href: pictureOf(palette, map.values, limit), x: left, y: PIECE.top, width: w, height: h, preserveAspectRatio: "none" }),
    svg("rect", { x: left, y: PIECE.top, width: w, height: h, fill: "none", stroke: palette.line }),
    ring,
  ]);
  drawing.setAttribute("aria-label", `${map.title}; arrow keys choose a cell`);
  const label = (content, attributes) => text(content, 0, 0, { "font-size": PIECE.label, fill: palette.grey, ...attributes });
  const names = svg("g", { class: "share-names" }, [rectangle(0, 0, left - 1, PIECE.top + h + below, palette.paper)]);
  for (let r = 0; r < rows; r += everyOf(rows, tall)) {
    names.append(label(fitText(map.rows[r], PIECE.label, left - 8), { x: left - 5, y: PIECE.top + (r + 0.5) * tall + 4, "text-anchor": "end" }));
  }
  for (let c = 0; c < columns; c += everyOf(columns, cell)) {
    const [x, y] = [left + (c + 0.5) * cell + (lying ? 0 : 4), PIECE.top + h + (lying ? 14 : 6)];
    const turned = lying ? { "text-anchor": "middle" } : { transform: `rotate(-90 ${x} ${y})`, "text-anchor": "end" };
    drawing.append(label(lying ? map.columns[c] : fitText(map.columns[c], PIECE.label, below - 12), { x, y, ...turned }));
  }
  names.append(label(`${map.row} ↓`, { x: left - 5, y: 11, "text-anchor": "end" }));
  drawing.append(label(`${map.column} →`, { x: left, y: 11 }), names);
  const said = element("p", { className: "share-said", textContent: "Point at a cell, or move to one with the arrow keys." });
  said.setAttribute("role", "status");
  let at = null;
  const say = (r, c) => {
    at = [r, c];
    for (const [name, value] of Object.entries({ x: left + c * cell, y: PIECE.top + r * tall, visibility: "visible" })) ring.setAttribute(name, value);
    said.replaceChildren(`${map.row} `, element("bdi", { textContent: map.rows[r] }), ` · ${map.column} `, element("bdi", { textContent: map.columns[c] }), `: ${formatChange(map.values[r][c])}`);
    for (const [name, share] of map.details[`${r},${c}`] || []) said.append(" · ", element("bdi", { textContent: name }), ` ${formatChange(share)}`);
  };
  const cellOf = (event) => {
    if (event.target.closest(".share-names")) return null;
    const box = drawing.getBoundingClientRect();
    const [c, r] = [Math.floor((event.clientX - box.left - left) / cell), Math.floor((event.clientY - box.top - PIECE.top) / tall)];
    return r >= 0 && c >= 0 && r < rows && c < columns ? [r, c] : null;
  };
  drawing.addEventListener("pointermove", (event) => { const place = cellOf(event); if (place) say(...place); });
  drawing.addEventListener("click", (event) => { const place = cellOf(event); if (place) { say(...place); if (pick) pick(...place); } });
  drawing.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter" && at && pick) pick(...at);
    if (!step) return;
    event.preventDefault();
    const [r, c] = at || [rows - 1, 0];
    say(Math.min(rows - 1, Math.max(0, r + (at ? step[0] : 0))), Math.min(columns - 1, Math.max(0, c + (at ? step[1] : 0))));
  });
  const host = element("div", { className: "share-map" }, [drawing]);
  host.addEventListener("scroll", () => names.setAttribute("transform", `translate(${host.scrollLeft})`)); // names of rows stay in sight
  return element("div", {}, [host, said, scaleView(palette, limit, largest(map.values.map(largest)))]);
}

/** Names with their shares and bars of their sizes. */
function shareTable(palette, { title, note, entries }) {
  const limit = largest(entries.map(([, share]) => share));
  const lines = entries.map(([name, share]) => {
    const bar = element("span", { className: "share-bar" });
    bar.style.width = `${limit ? Math.round(60 * Math.abs(share) / limit) : 0}px`;
    bar.style.background = palette[share < 0 ? "loss" : "gain"];
    return element("tr", {}, [element("td", {}, [element("bdi", { textContent: name })]), element("td", {}, [bar]), element("td", { textContent: formatChange(share) })]);
  });
  const remark = note ? [element("p", { className: "note", textContent: note })] : [];
  return element("section", { className: "share-table" }, [element("h2", { textContent: title }), ...remark, element("table", {}, lines)]);
}

function section(title, note, children, wide) {
  const parts = [element("h2", { textContent: title }), element("p", { className: "note", textContent: note }), ...children];
  return element("section", { className: wide ? "wide" : "" }, parts);
}

function sumsText(row) {
  const parts = row.sums.map(([name, share]) => `${name} ${formatChange(share)}`);
  return `${formatNumber(row.value, 4)} = ${parts.join(" · ")}`;
}

/** Draws everything; `chosen` is the row whose shares colour the text. */
function drawShares(data, chosen, palette) {
  const view = byId("view");
  const width = view.clientWidth;
  const row = data.rows[chosen]; // none on a page that is maps alone
  const several = data.rows.length > 1;
  const marked = several ? data.tokens.length - data.rows.length + chosen : -1;
  const named = several ? `What brought ${quoted(row.name)}` : "What each token brings";
  const note = several ? "Choose another row in the matrix below." : "Signed, in the target's units: what flows in through the embedding of a token, with those of its position and type.";
  const parts = row ? [section(named, note, [tokensView(palette, data.tokens, row.shares, marked), element("p", { className: "share-sums", textContent: sumsText(row) })], true)] : [];
  if (several) {
    const matrix = {
      title: "Every token of the continuation", row: "target", column: "source", rows: data.rows.map(({ name }) => name),
      columns: data.tokens, values: data.rows.map(({ shares }) => shares), details: {},
    };
    parts.push(section(matrix.title, "A row: the shares of all tokens before it, which with the other summands above are the target's value.", [shareMap(palette, matrix, endOf(matrix.values), width, (r) => drawShares(data, r, palette))], true));
  }
  const half = width > 1080 ? (width - 28) / 2 : width;
  const limits = limitsOf(data.maps);
  for (const map of data.maps) parts.push(section(map.title, map.note, [shareMap(palette, map, limits.get(map.note), map.columns.length > 40 ? width : half, null)], map.columns.length > 40));
  for (const table of data.tables) parts.push(shareTable(palette, table));
  view.replaceChildren(...parts);
  document.body.dataset.state = "drawn";
  if (window.parent !== window) window.parent.postMessage({ tlFfblock: "height", height: Math.ceil(document.body.scrollHeight) + 2 }, "*");
}

function quoted(name) {
  return `“${name}”`;
}

function startShares() {
  const data = JSON.parse(byId("data").textContent);
  for (const row of data.rows) row.shares = withGaps(row.shares);
  for (const map of data.maps) map.values = map.values.map(withGaps);
  document.title = data.heading;
  byId("heading").textContent = data.heading;
  byId("facts").textContent = data.facts;
  byId("certificate").textContent = data.certificate;
  byId("drawn").textContent = `Numbers on this page have ${data.digits} digits at most.`;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let drawn = 0;
  const draw = () => {
    drawn = byId("view").clientWidth;
    drawShares(data, 0, paletteOf(dark.matches && !document.body.classList.contains("paper") ? "dark" : "light"));
  };
  draw();
  dark.addEventListener("change", draw);
  for (const name of ["beforeprint", "afterprint"]) window.addEventListener(name, () => { document.body.classList.toggle("paper", name === "beforeprint"); draw(); });
  new ResizeObserver(() => { if (byId("view").clientWidth !== drawn) draw(); }).observe(byId("view"));
}

startShares();
