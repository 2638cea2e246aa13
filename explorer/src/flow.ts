/** Methods in continuous time, without noise: MG-ODE, HB-ODE and the gradient flow. */

import type { Landscape } from "./landscape";
import type { MemoryFunction } from "./memory";
import { integrate } from "./ode";
import { viscosityAt } from "./timewarp";

export interface Tolerances {
  readonly rtol: number;
  readonly atol: number;
  /** Steps after which an equation counts as too stiff. */
  readonly most: number;
}

/** Enough for a picture, and little enough to draw it while a slider moves. */
export const PICTURE: Tolerances = { rtol: 1e-6, atol: 1e-8, most: 6000 };

type Point = readonly [number, number];

/** The time at which integration begins, in units of the first time wanted: the start is right to first order in it. */
const EARLY = 1e-9;

/**
 * X(t) of MG-ODE, X'' + (m'/m)(X' + grad f) = 0, at increasing times > 0: two numbers a time.
 *
 * The coefficient is singular at 0 and fixes the velocity there: V(0+) = -grad f(x0).
 */
export function memoryFlow(
  m: MemoryFunction,
  f: Landscape,
  start: Point,
  times: ArrayLike<number>,
  tolerances: Tolerances = PICTURE,
): Float64Array {
  const g = new Float64Array(2);
  const begin = EARLY * times[0];
  f.gradient(start[0], start[1], g);
  const first = Float64Array.of(start[0] - begin * g[0], start[1] - begin * g[1], -g[0], -g[1]);
  const solution = integrate(
    (t, y, out) => {
      const a = m.rate(t);
      f.gradient(y[0], y[1], g);
      out[0] = y[2];
      out[1] = y[3];
      out[2] = -a * (y[2] + g[0]);
      out[3] = -a * (y[3] + g[1]);
    },
    begin,
    first,
    times,
    tolerances,
  );
  return solution === null ? bySplitting(m, f, start, times) : positions(solution, times.length);
}

/** X(t) of HB-ODE, X'' + a(t) X' + grad f = 0, where a(t) is q/t near 0, so that V = -t grad f(x0)/(q+1) there. */
export function heavyBallFlow(
  viscosity: (t: number) => number,
  q: number,
  f: Landscape,
  start: Point,
  times: ArrayLike<number>,
  tolerances: Tolerances = PICTURE,
): Float64Array | null {
  const g = new Float64Array(2);
  // The position moves with the square of the time, so a later start than that of memory is as exact.
  const begin = 1e-6 * times[0];
  f.gradient(start[0], start[1], g);
  const first = Float64Array.of(start[0], start[1], (-begin * g[0]) / (q + 1), (-begin * g[1]) / (q + 1));
  const solution = integrate(
    (t, y, out) => {
      const a = viscosity(t);
      f.gradient(y[0], y[1], g);
      out[0] = y[2];
      out[1] = y[3];
      out[2] = -a * y[2] - g[0];
      out[3] = -a * y[3] - g[1];
    },
    begin,
    first,
    times,
    tolerances,
  );
  return solution === null ? null : positions(solution, times.length);
}

/**
 * The heavy ball of any memory function: its viscosity at time t is sqrt(r) (1 + r'/(2 r^2)), r = m'/m, at the memory's
 * time tau(t), which is a fifth unknown here, with tau' = 1/sqrt(r).
 */
export function warpedFlow(
  m: MemoryFunction,
  q: number,
  f: Landscape,
  start: Point,
  times: ArrayLike<number>,
  tolerances: Tolerances = PICTURE,
): Float64Array | null {
  const g = new Float64Array(2);
  const begin = 1e-6 * times[0];
  f.gradient(start[0], start[1], g);
  const [u, v] = [(-begin * g[0]) / (q + 1), (-begin * g[1]) / (q + 1)];
  // Near 0 the memory function is a power t^p with q = 2p - 1, and tau is t^2/(4p).
  const first = Float64Array.of(start[0], start[1], u, v, begin ** 2 / (2 * (q + 1)));
  const solution = integrate(
    (_, y, out) => {
      const a = viscosityAt(m, y[4]);
      f.gradient(y[0], y[1], g);
      out[0] = y[2];
      out[1] = y[3];
      out[2] = -a * y[2] - g[0];
      out[3] = -a * y[3] - g[1];
      out[4] = 1 / Math.sqrt(m.rate(y[4]));
    },
    begin,
    first,
    times,
    tolerances,
  );
  return solution === null ? null : positions(solution, times.length);
}

/** X' = -grad f(X): what is left of MG-ODE without memory. */
export function gradientFlow(
  f: Landscape,
  start: Point,
  times: ArrayLike<number>,
  tolerances: Tolerances = PICTURE,
): Float64Array | null {
  const g = new Float64Array(2);
  return integrate(
    (_, y, out) => {
      f.gradient(y[0], y[1], g);
      out[0] = -g[0];
      out[1] = -g[1];
    },
    0,
    Float64Array.of(start[0], start[1]),
    times,
    { ...tolerances, firstStep: 1e-3 * times[0] },
  );
}

/** Half a step of the position, the exact kick of the velocity, the other half: second order, for any rate m'/m. */
function bySplitting(m: MemoryFunction, f: Landscape, start: Point, times: ArrayLike<number>): Float64Array {
  const found = new Float64Array(2 * times.length);
  const g = new Float64Array(2);
  f.gradient(start[0], start[1], g);
  let [x, y] = start;
  let [u, v] = [-g[0], -g[1]];
  let t = 0;
  const substeps = 8;
  for (let i = 0; i < times.length; i++) {
    const h = (times[i] - t) / substeps;
    for (let n = 0; n < substeps; n++) {
      const b = t === 0 ? 0 : m.survival(t, t + h);
      x += (h * u) / 2;
      y += (h * v) / 2;
      f.gradient(x, y, g);
      u = b * u - (1 - b) * g[0];
      v = b * v - (1 - b) * g[1];
      x += (h * u) / 2;
      y += (h * v) / 2;
      t += h;
    }
    t = times[i];
    found[2 * i] = x;
    found[2 * i + 1] = y;
  }
  return found;
}

/** The first two of the unknowns at each of n times. */
function positions(states: Float64Array, n: number): Float64Array {
  const unknowns = states.length / n;
  return Float64Array.from({ length: 2 * n }, (_, i) => states[unknowns * (i >> 1) + (i & 1)]);
}
