/** Dormand and Prince's method of order 5 (MATLAB's ode45), with its dense output. */

export type Derivative = (t: number, y: Float64Array, out: Float64Array) => void;

const C = [0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1];
const A = [
  [],
  [1 / 5],
  [3 / 40, 9 / 40],
  [44 / 45, -56 / 15, 32 / 9],
  [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
  [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
  [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
];
/** The difference of the two embedded solutions. */
const E = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40];
/** Hairer's coefficients of the dense output. */
const D = [
  -12715105075 / 11282082432,
  0,
  87487479700 / 32700410799,
  -10690763975 / 1880347072,
  701980252875 / 199316789632,
  -1453857185 / 822651844,
  69997945 / 29380423,
];

/**
 * The solution at increasing `times` > `begin`, one row each; null where it takes more than `most` steps or leaves
 * the floats.
 */
export function integrate(
  derivative: Derivative,
  begin: number,
  first: Float64Array,
  times: ArrayLike<number>,
  { rtol = 1e-7, atol = 1e-9, firstStep = begin, most = 20_000 } = {},
): Float64Array | null {
  const n = first.length;
  const found = new Float64Array(n * times.length);
  const k = Array.from({ length: 7 }, () => new Float64Array(n));
  let y = first.slice();
  let next = new Float64Array(n);
  let t = begin;
  let h = firstStep;
  let wanted = 0;
  const end = times[times.length - 1];
  derivative(t, y, k[0]);
  for (let taken = 0; wanted < times.length; taken++) {
    if (taken >= most) return null;
    h = Math.min(h, end - t);
    for (let stage = 1; stage < 7; stage++) {
      for (let i = 0; i < n; i++) {
        let sum = 0;
        for (let s = 0; s < stage; s++) sum += A[stage][s] * k[s][i];
        next[i] = y[i] + h * sum;
      }
      derivative(t + C[stage] * h, next, k[stage]);
    }
    let error = 0;
    for (let i = 0; i < n; i++) {
      let sum = 0;
      for (let s = 0; s < 7; s++) sum += E[s] * k[s][i];
      const scale = atol + rtol * Math.max(Math.abs(y[i]), Math.abs(next[i]));
      error += ((h * sum) / scale) ** 2;
    }
    error = Math.sqrt(error / n);
    if (!Number.isFinite(error)) {
      if (h < 1e-12 * Math.max(t, 1e-300)) return null;
      h /= 10;
      continue;
    }
    if (error <= 1) {
      const last = t + h >= end * (1 - 1e-15);
      while (wanted < times.length && (times[wanted] <= t + h || last)) {
        dense(found, wanted * n, Math.min(1, (times[wanted] - t) / h), h, y, next, k);
        wanted++;
      }
      t += h;
      [y, next] = [next, y];
      k[0].set(k[6]);
    }
    h *= Math.min(5, Math.max(0.2, 0.9 * Math.max(error, 1e-10) ** -0.2));
  }
  return found;
}

function dense(
  out: Float64Array,
  offset: number,
  theta: number,
  h: number,
  y: Float64Array,
  next: Float64Array,
  k: readonly Float64Array[],
): void {
  for (let i = 0; i < y.length; i++) {
    const rise = next[i] - y[i];
    const bend = h * k[0][i] - rise;
    let bow = 0;
    for (let s = 0; s < 7; s++) bow += D[s] * k[s][i];
    const rest = rise - h * k[6][i] - bend + (1 - theta) * h * bow;
    out[offset + i] = y[i] + theta * (rise + (1 - theta) * (bend + theta * rest));
  }
}
