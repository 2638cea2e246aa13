/** Many noisy runs of one method, and the mean and spread of f over them. */

import type { Landscape } from "./landscape";
import { run, type MethodName, type Setting } from "./methods";

export interface Ensemble {
  readonly runs: number;
  /** Element 2 (k runs + i) is the first coordinate of run i at step k. */
  readonly x: Float64Array;
  /** Mean of f(x_k) - f* over the runs, k = 0, ..., K. */
  readonly mean: Float64Array;
  /** The tenth and the ninetieth percentile. */
  readonly low: Float64Array;
  readonly high: Float64Array;
}

export function ensemble(
  method: MethodName,
  setting: Setting,
  f: Landscape,
  start: readonly [number, number],
  steps: number,
  sigma: number,
  noise: Float32Array,
  runs: number,
): Ensemble {
  const x = run(method, setting, f, start, steps, sigma, noise, runs);
  const mean = new Float64Array(steps + 1);
  const low = new Float64Array(steps + 1);
  const high = new Float64Array(steps + 1);
  const values = new Float64Array(runs);
  for (let k = 0; k <= steps; k++) {
    let sum = 0;
    for (let i = 0; i < runs; i++) {
      const at = 2 * (k * runs + i);
      values[i] = f.value(x[at], x[at + 1]);
      sum += values[i];
    }
    mean[k] = sum / runs;
    values.sort();
    low[k] = values[Math.floor(0.1 * (runs - 1))];
    high[k] = values[Math.ceil(0.9 * (runs - 1))];
  }
  return { runs, x, mean, low, high };
}
