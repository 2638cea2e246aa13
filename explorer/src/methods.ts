/** The methods, each a linear recursion driven by gradients, for many runs at once. */

import type { Landscape } from "./landscape";
import type { Memory } from "./memory";

export type MethodName = "memory" | "sgd" | "hb" | "nag";
export const METHODS: readonly MethodName[] = ["memory", "sgd", "hb", "nag"];

/** Nesterov's beta_k = k/(k+q), whose ODE has the viscosity q/t. */
export const NESTEROV_VISCOSITY = 3;

export interface Setting {
  readonly memory: Memory;
  /** Step size eta, the same for all methods. */
  readonly lr: number;
  /** Momentum beta of heavy-ball. */
  readonly momentum: number;
}

export function momentumAt(k: number): number {
  return k / (k + NESTEROV_VISCOSITY);
}

/**
 * All iterates of `runs` runs: element 2 (k runs + i) is the first coordinate of run i at step k.
 *
 * The noise holds two normals a run and step, in the same order. Nesterov's iterates are the points at which it asks
 * for gradients, as in the library.
 */
export function run(
  method: MethodName,
  { memory, lr, momentum }: Setting,
  f: Landscape,
  start: readonly [number, number],
  steps: number,
  sigma = 0,
  noise: ArrayLike<number> | null = null,
  runs = 1,
): Float64Array {
  const x = new Float64Array(2 * runs * (steps + 1));
  // The average u, the velocity v, or Nesterov's z.
  const a = new Float64Array(2 * runs);
  const g = new Float64Array(2);
  for (let i = 0; i < 2 * runs; i++) {
    x[i] = start[i % 2];
    if (method === "nag") a[i] = start[i % 2];
  }
  const width = 2 * runs;
  for (let k = 0; k < steps; k++) {
    const b = method === "memory" ? memory.decay(k) : method === "hb" ? momentum : momentumAt(k + 1);
    const fresh = method === "memory" ? memory.fresh(k) : 1;
    const now = k * width;
    for (let i = 0; i < width; i += 2) {
      f.gradient(x[now + i], x[now + i + 1], g);
      for (let j = i; j < i + 2; j++) {
        const at = now + j;
        const slope = noise === null ? g[j - i] : g[j - i] + sigma * noise[at];
        const next = at + width;
        if (method === "memory") {
          a[j] = b * a[j] + fresh * slope;
          x[next] = x[at] - lr * a[j];
        } else if (method === "sgd") {
          x[next] = x[at] - lr * slope;
        } else if (method === "hb") {
          a[j] = b * a[j] - lr * slope;
          x[next] = x[at] + a[j];
        } else {
          const z = x[at] - lr * slope;
          x[next] = z + b * (z - a[j]);
          a[j] = z;
        }
      }
    }
  }
  return x;
}
