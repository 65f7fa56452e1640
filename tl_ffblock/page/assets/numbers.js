/* Packed numbers in, readable numbers out. */

/** The inverse of `pack` in numbers.py: three bytes a number, the upper bytes of a float32. */
function unpackNumbers(base64) {
  const bytes = atob(base64);
  const bits = new Uint32Array(bytes.length / 3);
  for (let i = 0, b = 0; i < bits.length; i++, b += 3) {
    bits[i] = (bytes.charCodeAt(b) << 8) | (bytes.charCodeAt(b + 1) << 16) | (bytes.charCodeAt(b + 2) << 24);
  }
  return new Float32Array(bits.buffer);
}

function withMinus(digits) {
  return digits.replace("-", "−");
}

const PERCENT = "\u00a0%";

/** Four significant digits; very large and very small numbers in powers of ten. */
function formatNumber(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e5 || size < 1e-4) return withMinus(value.toExponential(3));
  return withMinus(size >= 1e4 ? value.toFixed(0) : value.toPrecision(4));
}

function formatPercent(share) {
  if (!Number.isFinite(share)) return "–";
  const size = Math.abs(share);
  if (share === 0) return "0" + PERCENT;
  if (size < 1e-5) return withMinus((100 * share).toExponential(3)) + PERCENT;
  return withMinus((100 * share).toPrecision(4)) + PERCENT;
}

/** Two digits, for the ends of scales. */
function formatRough(value, asShare) {
  if (value === 0) return "0";
  const number = asShare ? 100 * value : value;
  const size = Math.abs(number);
  const digits = size >= 1e5 || size < 1e-3 ? number.toExponential(1) : String(Number(number.toPrecision(2)));
  return withMinus(digits) + (asShare ? PERCENT : "");
}

function formatError(value) {
  return value === 0 ? "0" : withMinus(value.toExponential(1));
}
