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

/** The decay and the weight of the new gradient in a_k = b a_{k-1} + w g_k, where x_{k+1} = x_k - lr a_k. */
function averageAt(method: Exclude<MethodName, "nag">, { memory, momentum }: Setting, k: number): [number, number] {
  if (method === "memory") return [memory.decay(k), memory.fresh(k)];
  // Heavy-ball is an average that is not normalised: its weights add up to 1/(1 - beta).
  return method === "hb" ? [momentum, 1] : [0, 1];
}

/**
 * All iterates of `runs` runs: element 2 (k runs + i) is the first coordinate of run i at step k.
 *
 * The noise holds two normals a run and step, in the same order. Nesterov's iterates are the points at which it asks
 * for gradients, as in the library.
 */
export function run(
  method: MethodName,
  setting: Setting,
  f: Landscape,
  start: readonly [number, number],
  steps: number,
  sigma = 0,
  noise: ArrayLike<number> | null = null,
  runs = 1,
): Float64Array {
  const { lr } = setting;
  const width = 2 * runs;
  const x = new Float64Array(width * (steps + 1));
  // The average a, or Nesterov's point z before the extrapolation.
  const a = new Float64Array(width);
  const g = new Float64Array(2);
  for (let i = 0; i < width; i++) x[i] = start[i % 2];
  const isNesterov = method === "nag";
  if (isNesterov) a.set(x.subarray(0, width));
  for (let k = 0; k < steps; k++) {
    const [b, w] = isNesterov ? [momentumAt(k + 1), 0] : averageAt(method, setting, k);
    for (let i = 0; i < width; i += 2) {
      const at = k * width + i;
      f.gradient(x[at], x[at + 1], g);
      if (noise !== null) {
        g[0] += sigma * noise[at];
        g[1] += sigma * noise[at + 1];
      }
      // Written out for both coordinates: this line runs hundreds of thousands of times a frame.
      if (isNesterov) {
        const [z0, z1] = [x[at] - lr * g[0], x[at + 1] - lr * g[1]];
        x[at + width] = z0 + b * (z0 - a[i]);
        x[at + width + 1] = z1 + b * (z1 - a[i + 1]);
        a[i] = z0;
        a[i + 1] = z1;
      } else {
        a[i] = b * a[i] + w * g[0];
        a[i + 1] = b * a[i + 1] + w * g[1];
        x[at + width] = x[at] - lr * a[i];
        x[at + width + 1] = x[at + 1] - lr * a[i + 1];
      }
    }
  }
  return x;
}
