/** The families of memories, with the library's own formulas (memgrad/memory/families.py). */

import type { Memory, MemoryFunction } from "./memory";

const { exp, expm1, log, log1p, pow } = Math;

/** y/(1 - e^-y), which is 1 at y = 0. */
function overOneMinusExp(y: number): number {
  return y === 0 ? 1 : y / -expm1(-y);
}

/** m(t) = t^p and MemSGD-p's own decays b_k = k/(k+p). */
export function polynomial(p: number): Memory {
  return {
    family: "poly",
    text: `poly:${p}`,
    h: 1,
    decay: (k) => k / (k + p),
    fresh: (k) => p / (k + p),
    flow: {
      survival: (s, t) => pow(s / t, p),
      influence: (s, t) => (p / t) * pow(s / t, p - 1),
      rate: (t) => p / t,
    },
  };
}

/** m(t) = e^(alpha t) - 1 with beta = e^(-alpha h): Adam's bias-corrected average. */
export function exponential(beta: number, h = 1): Memory {
  const alpha = -log(beta) / h;
  const x = alpha * h;
  const rate = (t: number) => overOneMinusExp(alpha * t) / t;
  return {
    family: "exp",
    text: `exp:${beta}` + (h === 1 ? "" : `,h=${h}`),
    h,
    decay: (k) => beta * (expm1(-x * k) / expm1(-x * (k + 1))),
    fresh: (k) => expm1(-x) / expm1(-x * (k + 1)),
    flow: {
      survival: (s, t) => (exp(-alpha * (t - s)) * expm1(-alpha * s)) / expm1(-alpha * t),
      influence: (s, t) => exp(-alpha * (t - s)) * rate(t),
      rate,
    },
  };
}

/** No memory, b_k = 0: SGD. */
export function instantaneous(): Memory {
  return { family: "inst", text: "inst", h: 1, decay: () => 0, fresh: () => 1, flow: null };
}

/** m(t) = log(1+t), which favours old gradients. */
export function logarithmic(h = 1): Memory {
  return {
    family: "log",
    text: h === 1 ? "log" : `log:h=${h}`,
    h,
    decay: (k) => log1p(k * h) / log1p((k + 1) * h),
    fresh: (k) => log1p(h / (1 + k * h)) / log1p((k + 1) * h),
    flow: {
      survival: (s, t) => log1p(s) / log1p(t),
      influence: (s, t) => 1 / ((1 + s) * log1p(t)),
      rate: (t) => 1 / ((1 + t) * log1p(t)),
    },
  };
}

/** m(t) = e^(t^alpha) - 1: super-exponential for alpha > 1. */
export function stretched(alpha: number, h = 1): Memory {
  /** t_{k+1}^alpha, and its difference to t_k^alpha without cancellation. */
  const exponents = (k: number): [number, number] => {
    const newer = pow((k + 1) * h, alpha);
    return [newer, k === 0 ? newer : newer * -expm1(alpha * log1p(-1 / (k + 1)))];
  };
  const rate = (t: number) => (alpha / t) * overOneMinusExp(pow(t, alpha));
  const difference = (s: number, t: number) =>
    s < 0.5 * t ? pow(t, alpha) - pow(s, alpha) : -pow(t, alpha) * expm1(alpha * log1p((s - t) / t));
  const flow: MemoryFunction = {
    survival: (s, t) => (s <= 0 ? 0 : (exp(-difference(s, t)) * expm1(-pow(s, alpha))) / expm1(-pow(t, alpha))),
    influence: (s, t) => rate(t) * pow(s / t, alpha - 1) * exp(-difference(s, t)),
    rate,
  };
  return {
    family: "stretch",
    text: `stretch:${alpha}` + (h === 1 ? "" : `,h=${h}`),
    h,
    decay: (k) => {
      const [newer, gone] = exponents(k);
      return (exp(-gone) * expm1(-pow(k * h, alpha))) / expm1(-newer);
    },
    fresh: (k) => {
      const [newer, gone] = exponents(k);
      return expm1(-gone) / expm1(-newer);
    },
    flow,
  };
}

/** Adafactor's schedule 1 - b_k = (k+1)^-c; it has no memory function in closed form. */
export function powerDecay(c: number): Memory {
  return {
    family: "power",
    text: `power:${c}`,
    h: 1,
    decay: (k) => -expm1(-c * log1p(k)),
    fresh: (k) => pow(k + 1, -c),
    flow: null,
  };
}
