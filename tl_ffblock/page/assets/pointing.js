/* Reading single cells, by pointer and by keyboard. */

function tokenAt(data, position) {
  return `${data.tokens[position]} (position ${position})`;
}

/** The cell, or the number in a strip beside the map, under a point of the panel. */
function targetAt(view, frame, x, y) {
  const row = Math.floor((y - frame.top) / frame.cell.height);
  if (row < 0 || row >= view.data.nRows || x < LABEL.axis) return null;
  const column = Math.floor((x - frame.left) / frame.cell.width);
  if (column < 0) return { row };
  if (column < view.data.nColumns) return { row, column };
  const order = Math.floor((x - frame.left - frame.across - STRIP.gap / 2) / (STRIP.width + STRIP.gap));
  const name = stripsOf(view)[order];
  return name ? { row, strip: name } : null;
}

function numbersLine(label, maps, numberOf, format) {
  const cells = maps.map((map) => element("td", { textContent: format(numberOf(map)) }));
  return element("tr", {}, [element("th", { textContent: label, scope: "row" }), ...cells]);
}

function headLine(view) {
  const heads = view.maps.map((map) => element("th", { textContent: map.role === "difference" ? "difference" : map.scope, scope: "col" }));
  return element("tr", {}, [element("td"), ...heads]);
}

function cellNumbers(view, { row, column }) {
  const index = row * view.data.nColumns + column;
  const lines = [headLine(view), numbersLine("norm", view.maps, (map) => map.raw[index], formatNumber)];
  if (view.choice.normalise !== "none") {
    lines.push(numbersLine(`share of ${view.choice.normalise}`, view.maps, (map) => map.cells[index], formatPercent));
  }
  return element("table", {}, lines);
}

function tipLine(label, content) {
  return element("div", {}, [element("span", { className: "tip-label", textContent: label }), element("bdi", { textContent: content })]);
}

function tipContent(view, target) {
  const { data } = view;
  const lines = [tipLine("to", tokenAt(data, data.queries[target.row]))];
  if (target.strip) {
    const table = element("table", {}, [headLine(view), numbersLine(target.strip, view.maps, (map) => map[target.strip][target.row], formatNumber)]);
    return [...lines, table];
  }
  lines.push(tipLine("from", tokenAt(data, target.column)));
  if (data.reaches(target.row, target.column)) return [...lines, cellNumbers(view, target)];
  return [...lines, element("div", { textContent: "Not reachable: this model looks at earlier tokens only." })];
}

function placeTip(tip, x, y) {
  tip.style.left = `${Math.max(4, Math.min(x + 16, window.innerWidth - tip.offsetWidth - 8))}px`;
  const below = y + 18 + tip.offsetHeight < window.innerHeight;
  tip.style.top = `${Math.max(4, below ? y + 18 : y - tip.offsetHeight - 12)}px`;
}

function showTip(view, target, x, y) {
  const tip = document.getElementById("tooltip");
  tip.hidden = !target || (target.column === undefined && !target.strip);
  if (tip.hidden) return;
  tip.replaceChildren(...tipContent(view, target));
  placeTip(tip, x, y);
}

/** A frame just outside the cells, which may be smaller than its line. */
function outline(x, y, width, height, className) {
  return svg("rect", { x: x - 0.75, y: y - 0.75, width: width + 1.5, height: height + 1.5, class: className });
}

/** The pinned row, and row and column of the cell that is read, on every map. */
function drawMarks(view, allFrames, target) {
  for (const frame of allFrames) {
    const { left, top, cell, across, down, marks } = frame;
    const shapes = [outline(left, top + view.choice.pinned * cell.height, across, cell.height, "pinned")];
    if (target) shapes.push(outline(left, top + target.row * cell.height, across, cell.height, "read"));
    if (target && target.column !== undefined) {
      shapes.push(outline(left + target.column * cell.width, top, cell.width, down, "read"));
    }
    marks.replaceChildren(...shapes);
  }
}

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function moved(data, target, [down, right]) {
  const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
  return { row: clamp(target.row + down, data.nRows), column: clamp((target.column || 0) + right, data.nColumns) };
}

/** Connects one map's panel with the tooltip, the marks and the pinning of rows. */
function enablePointing(view, frame, allFrames, pin) {
  const { panel } = frame;
  let read = null;
  const show = (target, x, y) => { read = target; drawMarks(view, allFrames, target); showTip(view, target, x, y); };
  const underPointer = (event) => {
    const box = panel.getBoundingClientRect();
    return targetAt(view, frame, event.clientX - box.left, event.clientY - box.top);
  };
  const byKeyboard = (target) => {
    const box = panel.getBoundingClientRect();
    show(target, box.left + frame.left + (target.column + 1) * frame.cell.width, box.top + frame.top + (target.row + 1) * frame.cell.height);
  };
  panel.addEventListener("pointermove", (event) => show(underPointer(event), event.clientX, event.clientY));
  panel.addEventListener("pointerleave", () => show(null));
  panel.addEventListener("blur", () => show(null));
  panel.addEventListener("click", (event) => { const target = underPointer(event); if (target) pin(target.row); });
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape") show(null);
    else if (event.key === "Enter" && read) pin(read.row);
    else if (ARROWS[event.key]) byKeyboard(moved(view.data, read || { row: view.choice.pinned, column: 0 }, ARROWS[event.key]));
    else return;
    event.preventDefault();
  });
}
