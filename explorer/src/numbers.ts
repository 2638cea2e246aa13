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

/** Ticks of a logarithmic axis: 1, 10, 100, but 10⁻⁴ where zeros would have to be counted. */
export function powerOfTen(x: number): string {
  const exponent = Math.round(Math.log10(x));
  if (Math.abs(x / 10 ** exponent - 1) > 1e-6) return "";
  return exponent >= -2 && exponent <= 3 ? String(Number(x.toPrecision(1))) : `10${superscript(exponent)}`;
}
