/* From norms to what is shown: shares, differences, and where colour scales end. No DOM. */

/** Cells that take part: not out of reach, not hidden, and of "shares of the others" not the row's own. */
export function taken(axes, cells, hidden, withoutOwn) {
  const kept = new Float32Array(cells);
  for (let row = 0; row < axes.nRows; row++) {
    const start = row * axes.nColumns;
    for (const column of hidden) kept[start + column] = NaN;
    if (withoutOwn) kept[start + axes.own[row]] = NaN;
  }
  return kept;
}

/** Each row or column divided by its sum, so that cells become shares; `how` is "others", "row", "column" or "none". */
export function sharesOf(axes, cells, hidden, how) {
  const shares = taken(axes, cells, hidden, how === "others");
  if (how === "none") return shares;
  const { nRows, nColumns } = axes;
  const line = how === "column" ? (row, column) => column : (row) => row;
  const sums = new Float64Array(how === "column" ? nColumns : nRows);
  for (let row = 0, at = 0; row < nRows; row++) {
    for (let column = 0; column < nColumns; column++, at++) if (!Number.isNaN(shares[at])) sums[line(row, column)] += shares[at];
  }
  for (let row = 0, at = 0; row < nRows; row++) {
    for (let column = 0; column < nColumns; column++, at++) if (sums[line(row, column)] > 0) shares[at] /= sums[line(row, column)];
  }
  return shares;
}

/** What each row keeps for itself: its own cell as a share of the whole row; NaN where it is hidden. */
export function ownShares(axes, cells, hidden) {
  const kept = taken(axes, cells, hidden, false);
  return Float32Array.from(axes.own, (column, row) => {
    let total = 0;
    for (let c = 0; c < axes.nColumns; c++) total += kept[row * axes.nColumns + c] || 0;
    return total > 0 ? kept[row * axes.nColumns + column] / total : NaN;
  });
}

export function minus(after, before) {
  const differences = new Float32Array(after.length);
  for (let at = 0; at < after.length; at++) differences[at] = after[at] - before[at];
  return differences;
}

/** The largest size of a number; what is NaN does not count. */
export function largest(numbers) {
  let most = 0;
  for (const number of numbers) if (Math.abs(number) > most) most = Math.abs(number);
  return most;
}

/** Sizes of the cells that are there, with the rows' own or without, of rows that have at least so many. */
function sizesOf(axes, cells, withOwn, least = 0) {
  const sizes = new Float32Array(cells.length);
  let count = 0;
  for (let row = 0, at = 0; row < axes.nRows; row++) {
    const before = count;
    for (let column = 0; column < axes.nColumns; column++, at++) {
      if (!Number.isNaN(cells[at]) && (withOwn || axes.own[row] !== column)) sizes[count++] = Math.abs(cells[at]);
    }
    if (count - before < least) count = before;
  }
  return sizes.subarray(0, count);
}

/** The number that stands at `place` among the sorted ones, by Hoare's selection; their order changes. */
export function sortedAt(numbers, place) {
  let [low, high] = [0, numbers.length - 1];
  while (low < high) {
    const pivot = numbers[(low + high) >> 1];
    let [left, right] = [low, high];
    while (left <= right) {
      while (numbers[left] < pivot) left++;
      while (numbers[right] > pivot) right--;
      if (left > right) break;
      [numbers[left], numbers[right]] = [numbers[right], numbers[left]];
      left++;
      right--;
    }
    if (place <= right) high = right;
    else if (place >= left) low = left;
    else break;
  }
  return numbers[place];
}

/** From so many tokens on scales end at the 99th percentile unless the reader chooses otherwise: few cells hold most of a long text. */
export const MANY_TOKENS = 20;

/** Shares of fewer tokens are always large: the only other source of a causal model's second token is the first. */
const FEW_OTHERS = 3;

/**
 * Where a colour scale ends: at the 99th percentile, at the largest cell of another token (where there is one), or at the largest
 * of all. Of shares, rows of few tokens do not count where there are others.
 */
export function limitOf(axes, cells, range, asShare = false) {
  const all = range === "all";
  const several = asShare && !all ? sizesOf(axes, cells, false, FEW_OTHERS) : [];
  const away = several.length ? several : sizesOf(axes, cells, all);
  const sizes = away.length ? away : sizesOf(axes, cells, true);
  if (range !== "percentile") return largest(sizes);
  return sortedAt(sizes, Math.floor(0.99 * (sizes.length - 1))) || largest(sizes);
}

/** Place on a scale from 0 to 1; `root` spreads small values. */
export function placeOnScale(value, limit, root) {
  const share = limit > 0 ? Math.min(1, Math.abs(value) / limit) : 0;
  return root ? Math.sqrt(share) : share;
}

/**
 * Pixels of a window of a map: in each the strongest of its cells, so that no cell is lost where cells are smaller than
 * pixels. `window` is [first row, last row, first column, last column].
 */
export function pixelsOf(cells, nColumns, [top, bottom, left, right], width, height) {
  const pixels = new Float32Array(width * height).fill(NaN);
  const [rows, columns] = [bottom - top + 1, right - left + 1];
  if (rows === height && columns === width) {
    for (let row = 0; row < rows; row++) pixels.set(cells.subarray((top + row) * nColumns + left, (top + row) * nColumns + right + 1), row * columns);
    return pixels;
  }
  const cover = (count, room) => Array.from({ length: count }, (_, i) => {
    const first = Math.floor((i * room) / count);
    return [first, Math.max(first + 1, Math.floor(((i + 1) * room) / count))];
  });
  const [down, across] = [cover(rows, height), cover(columns, width)];
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const value = cells[(top + row) * nColumns + left + column];
      if (Number.isNaN(value)) continue;
      for (let y = down[row][0]; y < down[row][1]; y++) {
        for (let x = across[column][0]; x < across[column][1]; x++) {
          const at = y * width + x;
          if (!(Math.abs(pixels[at]) >= Math.abs(value))) pixels[at] = value;
        }
      }
    }
  }
  return pixels;
}
