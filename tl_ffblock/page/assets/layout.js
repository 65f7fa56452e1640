/* Where everything in the figure stands, in pixels, for screen and export alike. */

const LABEL = { size: 12, smallest: 9.5, index: 10, row: 88, column: 84, axis: 18, spacing: 10 };
const TITLE_HEIGHT = 44;
const STRIP = { gap: 6, width: 12 };
const PANEL_GAP = 22;
const CELL = { largest: 44, comfortable: 12, enough: 250, across: 640 };

/** Room for the position number between a token's name and the map. */
function indexWidth(data) {
  return 12 + Math.ceil(textWidth(String(data.nColumns - 1), LABEL.index));
}

function labelWidth(data, most) {
  const widest = data.tokens.reduce((width, token) => Math.max(width, textWidth(token, LABEL.size)), 0);
  return Math.ceil(Math.min(most, widest)) + indexWidth(data);
}

/** Left margins: token names on every map where there is room, else on the first of a line only. */
function leftMargins(view, perLine, full, width) {
  const roomy = width / perLine > full + 300;
  return view.maps.map((_, index) => LABEL.axis + (roomy || index % perLine === 0 ? full : indexWidth(view.data)));
}

function cellsWidth(view, width, perLine, margins, strips) {
  const line = margins.slice(0, perLine).reduce((sum, margin) => sum + margin + strips, 0);
  return (width - line - PANEL_GAP * (perLine - 1)) / perLine;
}

/** As many maps side by side as leave the cells readable. */
function chooseLines(view, width, full, strips) {
  const readable = Math.min(CELL.comfortable * view.data.nColumns, CELL.enough);
  for (let perLine = view.maps.length; perLine > 1; perLine--) {
    const margins = leftMargins(view, perLine, full, width);
    if (cellsWidth(view, width, perLine, margins, strips) >= readable) return perLine;
  }
  return 1;
}

function cellSize(data, room) {
  const wide = Math.min(CELL.largest, CELL.across / data.nColumns, room / data.nColumns);
  const width = wide >= 6 ? Math.floor(wide) : wide;
  const few = data.nRows < data.nColumns;
  return { width, height: few ? Math.max(width, Math.min(22, (data.nColumns * width) / data.nRows)) : width };
}

function layoutOf(view, width) {
  const full = labelWidth(view.data, LABEL.row);
  const strips = stripsOf(view).length * (STRIP.gap + STRIP.width) + 8;
  const perLine = chooseLines(view, width, full, strips);
  const margins = leftMargins(view, perLine, full, width);
  const cell = cellSize(view.data, cellsWidth(view, width, perLine, margins, strips));
  const top = TITLE_HEIGHT + LABEL.axis + labelWidth(view.data, LABEL.column);
  const [across, down] = [cell.width * view.data.nColumns, cell.height * view.data.nRows];
  const allFrames = view.maps.map((map, index) => ({
    map, cell, top, across, down, left: margins[index],
    fullLabels: margins[index] > LABEL.axis + indexWidth(view.data),
    width: Math.max(margins[index] + across + strips, 210),
  }));
  return arrange(view, allFrames, perLine);
}

/** Sets x, y and height of each frame; lines as high as their longest legend. */
function arrange(view, allFrames, perLine) {
  let [x, y, wide] = [0, 0, 0];
  for (let first = 0; first < allFrames.length; first += perLine) {
    const line = allFrames.slice(first, first + perLine);
    for (const frame of line) frame.notes = notesOf(view, frame.map, frame.width - frame.left + PANEL_GAP - 8);
    const height = allFrames[0].top + allFrames[0].down + 46 + 15 * Math.max(...line.map((frame) => frame.notes.length));
    x = 0;
    for (const frame of line) { Object.assign(frame, { x, y, height }); x += frame.width + PANEL_GAP; }
    wide = Math.max(wide, x - PANEL_GAP);
    y += height + 14;
  }
  return { frames: allFrames, width: Math.ceil(wide), height: Math.ceil(y) };
}
