/** What a step does: every method here follows a mixture, and is a linear recursion driven by gradients. */

import type { Landscape } from "./landscape";
import { exponential } from "./families";
import { SGD, mixtureOf, nesterov, type Mixture } from "./mixture";

export type MethodName = "memory" | "sgd" | "hb" | "nag";
export const METHODS: readonly MethodName[] = ["memory", "sgd", "hb", "nag"];

/** Nesterov's beta_k = k/(k+q), whose ODE has the viscosity q/t. */
export const NESTEROV_VISCOSITY = 3;

export const NESTEROV = nesterov(NESTEROV_VISCOSITY);

/** Heavy ball sums gradients instead of averaging them: sum*exp:beta. */
export function heavyBall(momentum: number): Mixture {
  if (momentum === 0) return SGD;
  return mixtureOf([{ scale: 1, factors: [{ kind: "sum" }], memory: exponential(momentum) }]);
}

/** The mixture of a method; the page's own is `chosen`. */
export function mixtureFor(method: MethodName, chosen: Mixture, momentum: number): Mixture {
  switch (method) {
    case "memory":
      return chosen;
    case "sgd":
      return SGD;
    case "hb":
      return heavyBall(momentum);
    case "nag":
      return NESTEROV;
  }
}

/**
 * The numbers of all steps: u_i = decay u_i + fresh g for each buffer, and x = x - instant g - sum_i push_i u_i.
 * Computed once, because thousands of runs and curvatures share them.
 */
export interface Schedule {
  readonly steps: number;
  readonly lr: number;
  readonly instant: Float64Array;
  readonly decay: readonly Float64Array[];
  readonly fresh: readonly Float64Array[];
  readonly push: readonly Float64Array[];
}

/** With `isEqual` each step is divided by the gain, so that all methods move alike under a constant gradient. */
export function scheduleOf(mixture: Mixture, lr: number, steps: number, isEqual = false): Schedule {
  const step = new Float64Array(steps);
  for (let k = 0; k < steps; k++) step[k] = isEqual ? lr / mixture.gain(k) : lr;
  const table = (value: (k: number) => number) => Float64Array.from({ length: steps }, (_, k) => value(k));
  return {
    steps,
    lr,
    instant: table((k) => step[k] * mixture.instant(k)),
    decay: mixture.buffers.map((memory) => table(memory.decay)),
    fresh: mixture.buffers.map((memory) => table(memory.fresh)),
    push: mixture.buffers.map((_, i) => table((k) => step[k] * mixture.gainOf(i, k))),
  };
}

/**
 * All iterates of `runs` runs: element 2 (k runs + i) is the first coordinate of run i at step k.
 *
 * The noise holds two normals a run and step, in the same order. Nesterov's iterates are the points at which it asks
 * for gradients, as in the library.
 */
export function run(
  schedule: Schedule,
  f: Landscape,
  start: readonly [number, number],
  sigma = 0,
  noise: ArrayLike<number> | null = null,
  runs = 1,
): Float64Array {
  const { steps, instant, decay, fresh, push } = schedule;
  const width = 2 * runs;
  const x = new Float64Array(width * (steps + 1));
  const u = decay.map(() => new Float64Array(width));
  const g = new Float64Array(width);
  const one = new Float64Array(2);
  for (let i = 0; i < width; i++) x[i] = start[i % 2];
  for (let k = 0; k < steps; k++) {
    const [now, next] = [k * width, (k + 1) * width];
    const newest = instant[k];
    for (let i = 0; i < width; i += 2) {
      f.gradient(x[now + i], x[now + i + 1], one);
      g[i] = one[0];
      g[i + 1] = one[1];
    }
    if (noise !== null) for (let i = 0; i < width; i++) g[i] += sigma * noise[now + i];
    for (let i = 0; i < width; i++) x[next + i] = x[now + i] - newest * g[i];
    for (let n = 0; n < u.length; n++) {
      const [average, b, w, e] = [u[n], decay[n][k], fresh[n][k], push[n][k]];
      for (let i = 0; i < width; i++) {
        average[i] = b * average[i] + w * g[i];
        x[next + i] -= e * average[i];
      }
    }
  }
  return x;
}

/** The first step at which a run has left the floats, or the landscape by far; null where it stays. */
export function divergedAt(path: Float64Array, far: number): number | null {
  for (let i = 0; i < path.length; i += 2) {
    if (!(Math.abs(path[i]) < far && Math.abs(path[i + 1]) < far)) return i / 2;
  }
  return null;
}
