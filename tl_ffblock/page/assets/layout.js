/* Where everything in the figure stands, in pixels, for screen and export alike. */

const LABEL = { size: 12, smallest: 9.5, index: 10, row: 88, column: 84, axis: 18, spacing: 10 };
const TITLE_HEIGHT = 44;
const STRIP = { gap: 6, width: 12 };
const PANEL_GAP = 22;
const CELL = { largest: 44, comfortable: 12, enough: 250, across: 640 };

/** Room for the position number between a token's name and the map. */
function indexWidth(run) {
  return 12 + Math.ceil(textWidth(String(run.nColumns - 1), LABEL.index));
}

function labelWidth(run, most) {
  const widest = run.tokens.reduce((width, token) => Math.max(width, textWidth(token, LABEL.size)), 0);
  return Math.ceil(Math.min(most, widest)) + indexWidth(run);
}

function stripsOf(view) {
  return view.maps[0].remainder ? ["bias", "remainder"] : ["bias"];
}

/** Left margins: token names on every map where there is room, else on the first of a line only. */
function leftMargins(view, perLine, full, width) {
  const roomy = width / perLine > full + 300;
  return view.maps.map((_, index) => LABEL.axis + (roomy || index % perLine === 0 ? full : indexWidth(view.run)));
}

function cellsWidth(view, width, perLine, margins, strips) {
  const line = margins.slice(0, perLine).reduce((sum, margin) => sum + margin + strips, 0);
  return (width - line - PANEL_GAP * (perLine - 1)) / perLine;
}

/** As many maps side by side as leave the cells readable. */
function chooseLines(view, width, full, strips) {
  const readable = Math.min(CELL.comfortable * view.run.nColumns, CELL.enough);
  for (let perLine = view.maps.length; perLine > 1; perLine--) {
    const margins = leftMargins(view, perLine, full, width);
    if (cellsWidth(view, width, perLine, margins, strips) >= readable) return perLine;
  }
  return 1;
}

function cellSize(run, room) {
  const wide = Math.min(CELL.largest, CELL.across / run.nColumns, room / run.nColumns);
  const width = wide >= 6 ? Math.floor(wide) : wide;
  const few = run.nRows < run.nColumns;
  return { width, height: few ? Math.max(width, Math.min(22, (run.nColumns * width) / run.nRows)) : width };
}

function layoutOf(view, width) {
  const full = labelWidth(view.run, LABEL.row);
  const strips = stripsOf(view).length * (STRIP.gap + STRIP.width) + 8;
  const perLine = chooseLines(view, width, full, strips);
  const margins = leftMargins(view, perLine, full, width);
  const cell = cellSize(view.run, cellsWidth(view, width, perLine, margins, strips));
  const top = TITLE_HEIGHT + LABEL.axis + labelWidth(view.run, LABEL.column);
  const [across, down] = [cell.width * view.run.nColumns, cell.height * view.run.nRows];
  const places = view.maps.map((map, index) => ({
    map, cell, top, across, down, left: margins[index],
    fullLabels: margins[index] > LABEL.axis + indexWidth(view.run),
    width: Math.max(margins[index] + across + strips, 210),
  }));
  return arrange(view, places, perLine);
}

/** Sets x, y and height of each place; lines as high as their longest legend. */
function arrange(view, places, perLine) {
  let [x, y, wide] = [0, 0, 0];
  for (let first = 0; first < places.length; first += perLine) {
    const line = places.slice(first, first + perLine);
    for (const place of line) place.notes = notesOf(view, place);
    const height = places[0].top + places[0].down + 46 + 15 * Math.max(...line.map((place) => place.notes.length));
    x = 0;
    for (const place of line) { Object.assign(place, { x, y, height }); x += place.width + PANEL_GAP; }
    wide = Math.max(wide, x - PANEL_GAP);
    y += height + 14;
  }
  return { places, width: Math.ceil(wide), height: Math.ceil(y) };
}
