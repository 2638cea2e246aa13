/** Exact mean and variance on a quadratic: of the methods step by step, and of MG-SDE and HB-SDE in time. */

import type { Memory, MemoryFunction } from "./memory";
import type { Schedule } from "./methods";
import { integrate } from "./ode";

/** Means and variances of one direction, k = 0, ..., K. */
export interface Moments {
  readonly mean: Float64Array;
  readonly variance: Float64Array;
}

/**
 * The moments of a method in a direction of curvature lam, for noise of standard deviation sigma.
 *
 * z = (x, u_1, ..., u_n) is linear in itself and the noise, so that its second moments follow a linear recursion.
 */
export function methodMoments(schedule: Schedule, lam: number, x0: number, sigma: number): Moments {
  const { steps, decay } = schedule;
  const mean = new Float64Array(steps + 1);
  const variance = new Float64Array(steps + 1);
  if (decay.length <= 1) oneBuffer(schedule, lam, x0, sigma, mean, variance);
  else manyBuffers(schedule, lam, x0, sigma, mean, variance);
  return { mean, variance };
}

/** Written out, because the modes ask for it thousands of times a frame. */
function oneBuffer(
  { steps, instant, decay, fresh, push }: Schedule,
  lam: number,
  x0: number,
  sigma: number,
  mean: Float64Array,
  variance: Float64Array,
): void {
  const has = decay.length === 1;
  const noise = sigma * sigma;
  let [x, u, vxx, vxu, vuu] = [x0, 0, 0, 0, 0];
  mean[0] = x0;
  for (let k = 0; k < steps; k++) {
    const b = has ? decay[0][k] : 0;
    const f = has ? fresh[0][k] : 0;
    const e = has ? push[0][k] : 0;
    const c = instant[k] + e * f;
    const xx = 1 - c * lam;
    const xu = -e * b;
    const ux = f * lam;
    const nextU = ux * x + b * u;
    x = xx * x + xu * u;
    u = nextU;
    const nextXX = xx * xx * vxx + 2 * xx * xu * vxu + xu * xu * vuu + c * c * noise;
    const nextXU = xx * ux * vxx + (xx * b + xu * ux) * vxu + xu * b * vuu - c * f * noise;
    vuu = ux * ux * vxx + 2 * ux * b * vxu + b * b * vuu + f * f * noise;
    vxx = nextXX;
    vxu = nextXU;
    mean[k + 1] = x;
    variance[k + 1] = vxx;
  }
}

function manyBuffers(
  schedule: Schedule,
  lam: number,
  x0: number,
  sigma: number,
  mean: Float64Array,
  variance: Float64Array,
): void {
  const n = schedule.decay.length;
  const u = new Float64Array(n);
  const second = new Float64Array((n + 1) ** 2);
  const step = stepOf(schedule);
  let x = (mean[0] = x0);
  for (let k = 0; k < schedule.steps; k++) {
    step.to(k);
    const g = lam * x;
    x -= step.newest * g;
    for (let i = 0; i < n; i++) {
      u[i] = step.b[i] * u[i] + step.f[i] * g;
      x -= step.e[i] * u[i];
    }
    step.advance(second, 0, lam, sigma * sigma);
    mean[k + 1] = x;
    variance[k + 1] = second[0];
  }
}

export interface Step {
  newest: number;
  readonly b: Float64Array;
  readonly f: Float64Array;
  readonly e: Float64Array;
  /** Takes the numbers of step k. */
  to(k: number): void;
  /** Carries the second moments of (x, u_1, ..., u_n), a matrix from `at` on, over the step: g = lam x + noise. */
  advance(second: Float64Array, at: number, lam: number, noise: number): void;
}

/** A step of any number of buffers: u' = b u + f g, x' = x - newest g - sum_i e_i u_i'. Nothing is allocated on the way. */
export function stepOf({ instant, decay, fresh, push }: Schedule): Step {
  const n = decay.length;
  const [b, f, e] = [new Float64Array(n), new Float64Array(n), new Float64Array(n)];
  /** E[x u_i'] and E[g u_i']. */
  const [xu, gu] = [new Float64Array(n), new Float64Array(n)];
  const row = n + 1;
  return {
    newest: 0,
    b,
    f,
    e,
    to(k) {
      this.newest = instant[k];
      for (let i = 0; i < n; i++) {
        b[i] = decay[i][k];
        f[i] = fresh[i][k];
        e[i] = push[i][k];
      }
    },
    advance(second, at, lam, noise) {
      const { newest } = this;
      const xx = second[at];
      const gx = lam * xx;
      const gg = lam * gx + noise;
      for (let i = 0; i < n; i++) {
        const before = second[at + i + 1];
        xu[i] = b[i] * before + f[i] * gx;
        gu[i] = b[i] * lam * before + f[i] * gg;
      }
      // With E[g u_i'] known: E[u_i' u_j'] = b_i b_j E[u_i u_j] + b_i f_j E[g u_i] + f_i E[g u_j'].
      for (let i = 0; i < n; i++) {
        const mine = lam * second[at + i + 1];
        for (let j = i; j < n; j++) {
          const here = at + (i + 1) * row + j + 1;
          second[here] = b[i] * b[j] * second[here] + b[i] * f[j] * mine + f[i] * gu[j];
          second[at + (j + 1) * row + i + 1] = second[here];
        }
      }
      let next = xx - 2 * newest * gx + newest * newest * gg;
      for (let i = 0; i < n; i++) {
        let mixed = xu[i] - newest * gu[i];
        next += -2 * e[i] * xu[i] + 2 * newest * e[i] * gu[i];
        for (let j = 0; j < n; j++) {
          const pair = second[at + (i + 1) * row + j + 1];
          mixed -= e[j] * pair;
          next += e[i] * e[j] * pair;
        }
        second[at + i + 1] = second[at + (i + 1) * row] = mixed;
      }
      second[at] = next;
    },
  };
}

/** E f(x_k) of a method on f = (lam_1 x^2 + lam_2 y^2)/2. */
export function expectedLoss(
  schedule: Schedule,
  spectrum: readonly [number, number],
  start: readonly [number, number],
  sigma: number,
): Float64Array {
  const loss = new Float64Array(schedule.steps + 1);
  for (const i of [0, 1]) {
    const { mean, variance } = methodMoments(schedule, spectrum[i], start[i], sigma);
    for (let k = 0; k <= schedule.steps; k++) loss[k] += (spectrum[i] * (mean[k] ** 2 + variance[k])) / 2;
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
