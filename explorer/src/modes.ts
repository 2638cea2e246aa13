/** Every curvature of a quadratic is a race of its own: exact errors and noise of a method, curvature by curvature. */

import type { Schedule } from "./methods";
import { methodMoments } from "./moments";

/** Curvatures as step size times curvature, in even ratios. */
export const CURVATURES: Float64Array = Float64Array.from({ length: 121 }, (_, i) => 10 ** (-4 + (i * 4.6) / 120));

export interface Modes {
  readonly steps: number;
  /** Element i (K+1) + k: the mean of x_k over x_0, in the direction of curvature i. */
  readonly mean: Float32Array;
  /** The variance of x_k over lr^2 sigma^2: what a unit of noise in every gradient leaves. */
  readonly variance: Float32Array;
}

/** The schedule must be that of the step size 1: curvatures are in units of it. */
export function modesOf(schedule: Schedule): Modes {
  const n = schedule.steps + 1;
  const mean = new Float32Array(n * CURVATURES.length);
  const variance = new Float32Array(n * CURVATURES.length);
  CURVATURES.forEach((lam, i) => {
    const found = methodMoments(schedule, lam, 1, 1);
    mean.set(found.mean, i * n);
    variance.set(found.variance, i * n);
  });
  return { steps: schedule.steps, mean, variance };
}

/** What a path does, from its mean: it grows, rings around 0, or decays without crossing it. */
export interface Character {
  readonly kind: "grows" | "rings" | "decays";
  /** How often it crosses 0. */
  readonly crossings: number;
  /** The largest |x| over the last fifth of the steps: what is left of the start, without the ringing. */
  readonly left: number;
}

export function characterOf(mean: ArrayLike<number>): Character {
  const n = mean.length;
  let crossings = 0;
  for (let k = 1; k < n; k++) if (mean[k] * mean[k - 1] < 0) crossings++;
  const largest = (from: number, to: number) => {
    let found = 0;
    for (let k = Math.floor(from); k < Math.floor(to); k++) {
      const size = Math.abs(mean[k]);
      if (!(size <= found)) found = size;
    }
    return found;
  };
  const left = largest(0.8 * n, n);
  const grows = !Number.isFinite(left) || (left > 1 && left > largest(0.4 * n, 0.6 * n) * (1 + 1e-9));
  return { kind: grows ? "grows" : crossings > 0 ? "rings" : "decays", crossings, left };
}

/** A few curvatures between 1/kappa and 1 whose sum is a loss, with starts that weigh alike in it. */
export const SUMMANDS = 9;

export interface LossParts {
  readonly curvatures: Float64Array;
  /** Element i (K+1) + k: lam (E x_k^2) / 2 of curvature i, where all start with the same share of a loss of 1. */
  readonly parts: Float64Array;
  readonly total: Float64Array;
}

/** The loss as the sum that it is, for noise of standard deviation sigma in every direction. */
export function lossParts(schedule: Schedule, kappa: number, sigma: number): LossParts {
  const n = schedule.steps + 1;
  const curvatures = Float64Array.from({ length: SUMMANDS }, (_, i) => kappa ** (i / (SUMMANDS - 1) - 1));
  const parts = new Float64Array(n * SUMMANDS);
  const total = new Float64Array(n);
  curvatures.forEach((lam, i) => {
    const x0 = Math.sqrt(2 / (SUMMANDS * lam));
    const { mean, variance } = methodMoments(schedule, lam, x0, sigma);
    for (let k = 0; k < n; k++) {
      parts[i * n + k] = (lam * (mean[k] ** 2 + variance[k])) / 2;
      total[k] += parts[i * n + k];
    }
  });
  return { curvatures, parts, total };
}
