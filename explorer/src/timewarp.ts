/**
 * One path at two speeds: memory in time tau is a heavy ball in time t.
 *
 * With tau'^2 = m(tau)/m'(tau), a solution X of MG-ODE gives the solution Y(t) = X(tau(t)) of HB-ODE.
 */

import type { Memory, MemoryFunction } from "./memory";

export interface TimeWarp {
  /** tau(t): the time in MG-ODE of the heavy ball's time t. */
  memoryTime(t: number): number;
  /** t(tau), its inverse. */
  heavyBallTime(tau: number): number;
  /** The viscosity a(t) of the heavy ball. */
  viscosity(t: number): number;
  /** q, where the viscosity is q/t near 0. */
  readonly q: number;
}

/** tau = t^2/(4p): t^p is the heavy ball with viscosity (2p-1)/t, and linear memory Nesterov's. */
export function polynomialWarp(p: number): TimeWarp {
  return {
    memoryTime: (t) => (t * t) / (4 * p),
    heavyBallTime: (tau) => 2 * Math.sqrt(p * tau),
    viscosity: (t) => (2 * p - 1) / t,
    q: 2 * p - 1,
  };
}

/** tau = (2/alpha) log cosh(sqrt(alpha) t/2), with the viscosity sqrt(alpha) coth(sqrt(alpha) t). */
export function exponentialWarp(alpha: number): TimeWarp {
  const root = Math.sqrt(alpha);
  return {
    memoryTime: (t) => {
      const z = (root * t) / 2;
      // Each form where it neither overflows nor cancels.
      const logCosh = z < 1 ? Math.log1p(2 * Math.sinh(z / 2) ** 2) : z + Math.log1p(Math.exp(-2 * z)) - Math.LN2;
      return (2 / alpha) * logCosh;
    },
    heavyBallTime: (tau) => {
      const y = (alpha * tau) / 2;
      return (2 / root) * (y + Math.log1p(Math.sqrt(-Math.expm1(-2 * y))));
    },
    viscosity: (t) => root / Math.tanh(root * t),
    q: 1,
  };
}

/** The warp of any memory function: t(tau) is the integral of sqrt(m'/m), inverted by Newton's method. */
export function quadratureWarp(m: MemoryFunction): TimeWarp {
  const early = 1e-9;
  const degree = m.rate(early) * early;
  const [u, du] = legendre(32);
  const heavyBallTime = (tau: number) => {
    if (tau <= 0) return 0;
    let sum = 0;
    // s = tau u^4 removes the singularity at 0.
    for (let i = 0; i < u.length; i++) sum += Math.sqrt(m.rate(tau * u[i] ** 4)) * 4 * tau * u[i] ** 3 * du[i];
    return sum;
  };
  const memoryTime = (t: number) => {
    if (t <= 0) return 0;
    // In sqrt(tau) the function is almost straight near 0.
    let z = t / (2 * Math.sqrt(degree));
    for (let i = 0; i < 50; i++) {
      const step = (heavyBallTime(z * z) - t) / (2 * z * Math.sqrt(m.rate(z * z)));
      z = Math.max(z - step, z / 10);
      if (Math.abs(step) <= 1e-12 * z) break;
    }
    return z * z;
  };
  return { memoryTime, heavyBallTime, viscosity: (t) => viscosityAt(m, memoryTime(t)), q: 2 * degree - 1 };
}

/** The viscosity of the heavy ball at the memory's time tau: sqrt(r) (1 + r'/(2 r^2)) with r = m'/m. */
export function viscosityAt(m: MemoryFunction, tau: number): number {
  const e = 1e-3 * tau;
  const r = m.rate(tau);
  // Five points: an error of e^4 in the derivative, well above rounding.
  const near = m.rate(tau + e) - m.rate(tau - e);
  const far = m.rate(tau + 2 * e) - m.rate(tau - 2 * e);
  return Math.sqrt(r) * (1 + (8 * near - far) / (12 * e) / (2 * r * r));
}

/** The warp of a memory whose steps take the time `step`; null where it has none. */
export function timeWarp(memory: Memory, m: MemoryFunction | null, step: number): TimeWarp | null {
  if (m === null) return null;
  if (memory.family === "exp") return exponentialWarp(m.rate(1e9 * step));
  if (memory.family !== "poly") {
    const warp = quadratureWarp(m);
    return warp.q > 0 ? warp : null;
  }
  const p = m.rate(1);
  return p > 0.5 ? polynomialWarp(p) : null;
}

/** Points and weights of Gauss-Legendre on [0, 1]. */
function legendre(n: number): [Float64Array, Float64Array] {
  const points = new Float64Array(n);
  const weights = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    let x = Math.cos((Math.PI * (i + 0.75)) / (n + 0.5));
    let slope = 1;
    for (let newton = 0; newton < 20; newton++) {
      let [before, now] = [1, x];
      for (let j = 2; j <= n; j++) [before, now] = [now, ((2 * j - 1) * x * now - (j - 1) * before) / j];
      slope = (n * (x * now - before)) / (x * x - 1);
      x -= now / slope;
    }
    points[i] = (1 - x) / 2;
    weights[i] = 1 / ((1 - x * x) * slope * slope);
  }
  return [points, weights];
}
