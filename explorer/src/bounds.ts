/** The theorem about MemSGD-p, with its assumptions checked as the library checks them. */

import type { Landscape } from "./landscape";
import type { Memory } from "./memory";

/** d, the number of parameters. */
const DIMENSION = 2;

/** UAI 2019, Theorem E.2, with the factor k/(k+p-1) of its proof: a bound of E f(x_k) - f*, p >= 2. */
export function memsgdBound(k: number, p: number, lr: number, distance: number, noise: number, d: number): number {
  const rate = ((p - 1) ** 2 * distance ** 2) / (2 * lr * p * (k + p - 1));
  return rate + ((p * d * lr * noise ** 2) / 2) * (k / (k + p - 1));
}

export interface BoundedLoss {
  /** k = 0, ..., K; null where an assumption fails. */
  readonly values: Float64Array | null;
  /** What was checked, or which assumption fails and what to do. */
  readonly because: string;
}

export function boundOf(
  memory: Memory | null,
  lr: number,
  f: Landscape,
  start: readonly [number, number],
  noise: number,
  steps: number,
): BoundedLoss {
  const no = (because: string): BoundedLoss => ({ values: null, because });
  if (memory === null) return no("The theorem covers memories with gain 1, and this mixture amplifies.");
  if (memory.family !== "poly") return no("The theorem covers polynomial memory only: choose it, with p ≥ 2.");
  // b_1 = 1/(1+p)
  const p = memory.fresh(1) / memory.decay(1);
  if (p < 2 - 1e-12) return no(`The theorem needs p ≥ 2, and p is ${format(p)}: choose a larger p.`);
  if (!f.isConvex) return no("The theorem needs a convex function: choose another landscape.");
  const radius = Math.max(Math.abs(start[0]), Math.abs(start[1]), 1e-9);
  const smoothness = f.smoothness(radius);
  const largest = (p - 1) / (p * smoothness);
  if (lr > largest * (1 + 1e-12)) {
    return no(`The theorem needs η ≤ (p−1)/(pL) = ${format(largest)}, and η is ${format(lr)}: choose a smaller step.`);
  }
  const distance = Math.hypot(start[0] - f.minimiser[0], start[1] - f.minimiser[1]);
  const values = new Float64Array(steps + 1);
  for (let k = 0; k <= steps; k++) values[k] = memsgdBound(k, p, lr, distance, noise, DIMENSION);
  const local = f.hasLocalSmoothness ? ", with L taken over the box that the start spans" : "";
  return { values, because: `Theorem E.2 holds: p ≥ 2 and η ≤ (p−1)/(pL) = ${format(largest)}${local}.` };
}

function format(x: number): string {
  return String(Number(x.toPrecision(3)));
}
