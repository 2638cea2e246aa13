/** Weights of past gradients, and what a memory amounts to at step k. */

import type { Memory } from "./memory";

/** Cumulative weights carry rounding errors of this size. A tie with 1/2 must still count as reached. */
const HALF = 0.5 + 1e-12;

export interface Passport {
  readonly k: number;
  readonly meanAge: number;
  readonly halfLife: number;
  readonly effectiveSamples: number;
  readonly varianceFactor: number;
  readonly newestWeight: number;
  /** Null at k = 0, where all memories agree. */
  readonly localDegree: number | null;
  readonly equivalentBeta: number;
}

/** w(0,k), ..., w(k,k): numbers >= 0 that sum to 1. */
export function weights(memory: Memory, k: number): Float64Array {
  const w = new Float64Array(k + 1);
  let kept = 1;
  for (let j = k; j >= 0; j--) {
    w[j] = kept * memory.fresh(j);
    kept *= memory.decay(j);
  }
  return w;
}

export function passport(memory: Memory, k: number): Passport {
  let left = 1;
  let meanAge = 0;
  let squares = 0;
  let halfLife = -1;
  for (let j = k; j >= 0; j--) {
    const w = left * memory.fresh(j);
    squares += w * w;
    left *= memory.decay(j);
    // The mean of an age is the sum over a of its chance to be above a.
    meanAge += left;
    if (halfLife < 0 && left <= HALF) halfLife = k - j;
  }
  const b = memory.decay(k);
  const fresh = memory.fresh(k);
  return {
    k,
    meanAge,
    halfLife,
    effectiveSamples: 1 / squares,
    varianceFactor: squares,
    newestWeight: fresh,
    localDegree: k === 0 ? null : b === 0 ? Infinity : (k * fresh) / b,
    equivalentBeta: meanAge / (1 + meanAge),
  };
}
