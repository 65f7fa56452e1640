/* What stands along the rows and columns of a map: tokens, or the words they make up. No DOM. */

/** Letters as a reader counts them: an emoji of several code points is one. */
export function letters(content) {
  return Array.from(new Intl.Segmenter().segment(content), (part) => part.segment);
}

/** Words as lists of positions: a position whose `words` entry equals its neighbour's belongs to the same word. */
export function wordsOf(words) {
  const groups = [];
  words.forEach((word, position) => {
    if (position && word === words[position - 1]) groups[groups.length - 1].push(position);
    else groups.push([position]);
  });
  return groups;
}

/** A word as a reader writes it: its pieces without the marks of continuation and of white space. */
function wordLabel(pieces) {
  if (pieces.length === 1) return pieces[0];
  return pieces.map((piece, index) => (index ? piece.replace(/^##/, "") : piece)).join("");
}

/**
 * Columns and rows as they are shown. `members` of a column are positions, of a row the indices of the map's own rows;
 * `own[row]` is the column of the row itself.
 */
export function axesOf(data, words) {
  const groups = words ? wordsOf(data.words) : data.words.map((_, position) => [position]);
  const columnOf = [];
  groups.forEach((group, column) => group.forEach((position) => { columnOf[position] = column; }));
  const rows = [];
  data.queries.forEach((position, index) => {
    const row = rows.find((candidate) => candidate.own === columnOf[position]);
    if (row) row.members.push(index);
    else rows.push({ own: columnOf[position], members: [index], position });
  });
  const own = rows.map((row) => row.own);
  return {
    columns: groups.map((members) => ({ members, position: members[0] })),
    rows, own, columnOf,
    nRows: rows.length,
    nColumns: groups.length,
    reaches: (row, column) => !data.causal || column <= own[row],
    rowOf: (position) => own.indexOf(columnOf[position]),
    labels: (tokens) => groups.map((members) => wordLabel(members.map((position) => tokens[position]))),
  };
}

/** "position 3"; nothing where positions have names, which stand in the labels. */
export function positionWords(data, position) {
  return data.named ? "" : `position ${position}`;
}

/** "from position 3 to position 5"; nothing where positions have names. */
export function pairPlaces(data, from, to) {
  return data.named ? "" : `from ${positionWords(data, from)} to ${positionWords(data, to)}`;
}

/** The number that an axis shows beside a label. */
export function positionNumber(data, position) {
  return data.named ? "" : position;
}

/** The number of the segment that a position belongs to; 0 where a text has none. */
export function segmentOf(data, position) {
  return Math.max(0, data.segments.filter(([, start]) => start <= position).length - 1);
}

/** Labels of two runs as one: where they differ, both. */
export function jointLabels(first, second) {
  return first.map((label, index) => (label === second[index] ? label : `${label}→${second[index]}`));
}

/** A map of tokens as a map of words: the sum over a word's sources, the mean over its destinations. */
export function mapOfWords(axes, cells, nPositions) {
  const pooled = new Float32Array(axes.nRows * axes.nColumns).fill(NaN);
  axes.rows.forEach((row, r) => axes.columns.forEach((column, c) => {
    let [total, reached] = [0, false];
    for (const index of row.members) {
      for (const position of column.members) {
        const value = cells[index * nPositions + position];
        if (!Number.isNaN(value)) { total += value; reached = true; }
      }
    }
    if (reached) pooled[r * axes.nColumns + c] = total / row.members.length;
  }));
  return pooled;
}

/** One number a row: the mean over a word's destinations. */
export function rowsOfWords(axes, numbers) {
  return Float32Array.from(axes.rows, (row) => row.members.reduce((sum, index) => sum + numbers[index], 0) / row.members.length);
}
