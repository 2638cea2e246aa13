/** Exact mean and variance on a quadratic: of the methods step by step, and of MG-SDE and HB-SDE in time. */

import type { Memory, MemoryFunction } from "./memory";
import { momentumAt, type MethodName, type Setting } from "./methods";
import { integrate } from "./ode";

/** Means and variances of one direction, k = 0, ..., K. */
export interface Moments {
  readonly mean: Float64Array;
  readonly variance: Float64Array;
}

/** One step of (x, a): both are linear in x, a and the noise. */
type Matrix = readonly [xx: number, xa: number, ax: number, aa: number, noiseX: number, noiseA: number];

function stepOf(method: MethodName, { memory, lr, momentum }: Setting, lam: number, k: number): Matrix {
  switch (method) {
    case "memory": {
      const [b, f] = [memory.decay(k), memory.fresh(k)];
      return [1 - lr * f * lam, -lr * b, f * lam, b, -lr * f, f];
    }
    case "sgd":
      return [1 - lr * lam, 0, 0, 0, -lr, 0];
    case "hb":
      return [1 - lr * lam, momentum, -lr * lam, momentum, -lr, -lr];
    case "nag": {
      // a is the point z before the extrapolation.
      const b = momentumAt(k + 1);
      return [(1 + b) * (1 - lr * lam), -b, 1 - lr * lam, 0, -(1 + b) * lr, -lr];
    }
  }
}

/** The moments of a method in a direction of curvature lam, for noise of standard deviation sigma. */
export function methodMoments(
  method: MethodName,
  setting: Setting,
  lam: number,
  x0: number,
  sigma: number,
  steps: number,
): Moments {
  const mean = new Float64Array(steps + 1);
  const variance = new Float64Array(steps + 1);
  let [x, a] = [x0, method === "nag" ? x0 : 0];
  let [vxx, vxa, vaa] = [0, 0, 0];
  mean[0] = x0;
  for (let k = 0; k < steps; k++) {
    const [xx, xa, ax, aa, nx, na] = stepOf(method, setting, lam, k);
    [x, a] = [xx * x + xa * a, ax * x + aa * a];
    [vxx, vxa, vaa] = [
      xx * xx * vxx + 2 * xx * xa * vxa + xa * xa * vaa + (nx * sigma) ** 2,
      xx * ax * vxx + (xx * aa + xa * ax) * vxa + xa * aa * vaa + nx * na * sigma * sigma,
      ax * ax * vxx + 2 * ax * aa * vxa + aa * aa * vaa + (na * sigma) ** 2,
    ];
    mean[k + 1] = x;
    variance[k + 1] = vxx;
  }
  return { mean, variance };
}

/** E f(x_k) of a method on f = (lam_1 x^2 + lam_2 y^2)/2. */
export function expectedLoss(
  method: MethodName,
  setting: Setting,
  spectrum: readonly [number, number],
  start: readonly [number, number],
  sigma: number,
  steps: number,
): Float64Array {
  const loss = new Float64Array(steps + 1);
  for (const i of [0, 1]) {
    const { mean, variance } = methodMoments(method, setting, spectrum[i], start[i], sigma, steps);
    for (let k = 0; k <= steps; k++) loss[k] += (spectrum[i] * (mean[k] ** 2 + variance[k])) / 2;
  }
  return loss;
}

/**
 * The variance of X at times > 0 under MG-SDE (its gain is its viscosity) or HB-SDE (gain 1), for volatility 1.
 *
 * The moment equations xx' = 2 xv, xv' = vv - a xv - c lam xx, vv' = -2 a vv - 2 c lam xv + c^2, from the right data
 * near 0, where the viscosity is p/t.
 */
export function flowVariance(
  kind: "memory" | "heavy ball",
  viscosity: (t: number) => number,
  lam: number,
  times: ArrayLike<number>,
): Float64Array | null {
  const begin = 1e-7 * times[0];
  const p = viscosity(begin) * begin;
  const share = p / (2 * p - 1);
  const slow = begin / (2 * p + 1);
  const first =
    kind === "memory"
      ? Float64Array.of(2 * share * begin, share, (share * p) / begin)
      : Float64Array.of((2 * slow * begin ** 2) / (3 * (p + 2)), (slow * begin) / (p + 2), slow);
  const solution = integrate(
    (t, y, out) => {
      const a = viscosity(t);
      const c = kind === "memory" ? a : 1;
      out[0] = 2 * y[1];
      out[1] = y[2] - a * y[1] - c * lam * y[0];
      out[2] = -2 * a * y[2] - 2 * c * lam * y[1] + c * c;
    },
    begin,
    first,
    times,
    { rtol: 1e-8, atol: 1e-12, firstStep: begin, most: 10_000 },
  );
  return solution === null ? null : solution.filter((_, i) => i % 3 === 0);
}

/** Whether the velocity of MG-SDE has finite variance: t^p near 0 needs p > 1/2. */
export function hasFiniteVariance(m: MemoryFunction): boolean {
  return 1e-12 * m.rate(1e-12) > 0.5 + 1e-6;
}

/** E f(x_k) as k grows, on a quadratic; null where no closed form is known. */
export function limitLoss(
  memory: Memory,
  lr: number,
  spectrum: readonly [number, number],
  sigma: number,
): number | null {
  let loss = 0;
  for (const lam of spectrum) {
    const variance = limitVariance(memory, lr, lam, sigma);
    if (variance === null) return null;
    loss += (lam * variance) / 2;
  }
  return loss;
}

/** The variance of x_k as k grows, in a direction of curvature lam; null where no closed form is known. */
export function limitVariance(memory: Memory, lr: number, lam: number, sigma: number): number | null {
  if (memory.family === "poly") {
    const p = memory.fresh(1) / memory.decay(1);
    return p > 0.5 ? (p * lr * sigma ** 2) / ((2 * p - 1) * lam) : null;
  }
  if (memory.family !== "exp" && memory.family !== "inst") return null;
  const b = memory.family === "inst" ? 0 : memory.decay(1e9);
  const room = 2 * (1 + b) - (1 - b) * lr * lam;
  return room > 0 ? (lr * (1 + b) * sigma ** 2) / (lam * room) : null;
}
