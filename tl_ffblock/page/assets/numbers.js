/* Packed numbers in, readable numbers out. No DOM. */

export function bytesOf(base64) {
  const { fromBase64 } = /** @type {any} */ (Uint8Array);
  if (fromBase64) return fromBase64.call(Uint8Array, base64);
  const written = atob(base64);
  const bytes = new Uint8Array(written.length);
  for (let i = 0; i < written.length; i++) bytes[i] = written.charCodeAt(i);
  return bytes;
}

/** Bytes of a deflated base64 text. */
export async function inflate(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Codes of one layer from a table's bytes, high bytes of all layers first; `reference` has that layer's codes of the table that differences were sent to. */
export function codesOf(bytes, packed, layer, reference) {
  const all = bytes.length / packed.bytes;
  const codes = new Uint16Array(all / packed.low.length);
  for (let i = 0, at = layer * codes.length; i < codes.length; i++, at++) {
    const sent = packed.bytes === 2 ? bytes[at] * 256 + bytes[all + at] : bytes[at];
    codes[i] = reference ? reference[i] + (sent % 2 ? -(sent + 1) / 2 : sent / 2) : sent;
  }
  return codes;
}

/**
 * The inverse of `pack` in numbers.py: numbers of one layer from its codes on its logarithmic scale.
 * Code 0 is zero, the largest is NaN; of a signed table the upper half of the codes is negative.
 */
export function numbersOf(codes, packed, layer) {
  const last = 256 ** packed.bytes - 1;
  const levels = packed.signed ? (last - 1) / 2 : last - 1;
  const step = packed.step[layer] ?? packed.step;
  const numbers = new Float32Array(codes.length);
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i];
    if (code === 0) continue;
    if (code === last) { numbers[i] = NaN; continue; }
    const negative = code > levels;
    const size = Math.exp(packed.low[layer] + step * (code - 1 - (negative ? levels : 0)));
    numbers[i] = negative ? -size : size;
  }
  return numbers;
}

function withMinus(digits) {
  return digits.replaceAll("-", "−");
}

const PERCENT = "\u00a0%";

/** Significant digits; very large and very small numbers in powers of ten. */
export function formatNumber(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e5 || size < 1e-4) return withMinus(value.toExponential(digits - 1));
  return withMinus(size >= 10 ** (digits + 1) ? String(Math.round(value)) : String(Number(value.toPrecision(digits))));
}

export function formatPercent(share, digits = 3) {
  return Number.isFinite(share) ? formatNumber(100 * share, digits) + PERCENT : "–";
}

/** A change of a share, in percentage points: from 29 % to 17 % it is −12 points, not −12 %. */
export function formatPoints(change, digits = 3) {
  if (!Number.isFinite(change)) return "–";
  const shown = formatNumber(100 * change, digits);
  return `${shown}\u00a0point${/^−?1$/.test(shown) ? "" : "s"}`;
}

/** With its sign, for changes. */
export function formatChange(value, asShare, digits = 3) {
  const shown = asShare ? formatPoints(value, digits) : formatNumber(value, digits);
  return value > 0 ? `+${shown}` : shown;
}

const ROUND = [8, 6, 5, 4, 3, 2.5, 2, 1.5, 1];

/** The largest round number up to this one. */
export function roundDown(size) {
  const power = 10 ** Math.floor(Math.log10(size) + 1e-9);
  return power * ROUND.find((digits) => digits * power <= size * (1 + 1e-8));
}

/** Two digits, for the ends of scales; `change` says that a share is a change of one. */
export function formatRough(value, asShare, change = false) {
  if (!asShare) return formatNumber(value, 2);
  return change ? formatPoints(value, 2) : formatPercent(value, 2);
}

export function formatError(value) {
  return value === 0 ? "0" : withMinus(value.toExponential(1));
}
