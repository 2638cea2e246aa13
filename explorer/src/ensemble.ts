/** Many noisy runs of one method, and the mean and spread of f over them. */

import type { Landscape } from "./landscape";
import { run, type Schedule } from "./methods";

/** Steps at which the spread is known: more could not be told apart on a screen. */
const POINTS = 160;

export interface Ensemble {
  readonly runs: number;
  /** Element 2 (k runs + i) is the first coordinate of run i at step k. */
  readonly x: Float64Array;
  /** Mean of f(x_k) - f* over the runs, k = 0, ..., K. */
  readonly mean: Float64Array;
  /** The tenth and the ninetieth percentile, at the steps `at`. */
  readonly at: readonly number[];
  readonly low: Float64Array;
  readonly high: Float64Array;
}

export function ensemble(
  schedule: Schedule,
  f: Landscape,
  start: readonly [number, number],
  sigma: number,
  noise: Float32Array,
  runs: number,
): Ensemble {
  const { steps } = schedule;
  const x = run(schedule, f, start, sigma, noise, runs);
  const n = Math.min(POINTS, steps);
  const at = Array.from({ length: n + 1 }, (_, i) => Math.round((i * steps) / n));
  const mean = new Float64Array(steps + 1);
  const low = new Float64Array(at.length);
  const high = new Float64Array(at.length);
  const values = new Float64Array(runs);
  let next = 0;
  for (let k = 0; k <= steps; k++) {
    let sum = 0;
    for (let i = 0; i < runs; i++) {
      const from = 2 * (k * runs + i);
      values[i] = f.value(x[from], x[from + 1]);
      sum += values[i];
    }
    mean[k] = sum / runs;
    if (k !== at[next]) continue;
    values.sort();
    low[next] = values[Math.floor(0.1 * (runs - 1))];
    high[next] = values[Math.ceil(0.9 * (runs - 1))];
    next++;
  }
  return { runs, x, mean, at, low, high };
}
