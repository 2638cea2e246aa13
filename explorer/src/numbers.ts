/** Numbers as people read them. */

/** Three significant digits, without zeros that say nothing. */
export function short(x: number): string {
  if (x === Infinity) return "∞";
  if (!Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) {
    const [mantissa, exponent] = x.toExponential(1).split("e");
    return `${mantissa.replace(/\.0$/, "")}·10${superscript(Number(exponent))}`;
  }
  return String(Number(x.toPrecision(3))).replace("-", "−");
}

export function superscript(n: number): string {
  return [...String(n)].map((digit) => (digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)])).join("");
}

/** The exponent of a power of ten, or null where a number is none. */
export function exponentOfTen(x: number): number | null {
  const exponent = Math.round(Math.log10(x));
  return Math.abs(x / 10 ** exponent - 1) > 1e-6 ? null : exponent;
}
