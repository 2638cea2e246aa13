/** What the panels draw, computed from the state, and computed again only when what it depends on has changed. */

import { boundOf } from "./bounds";
import { ensemble, type Ensemble } from "./ensemble";
import { instantaneous, polynomial } from "./families";
import { gradientFlow, heavyBallFlow, memoryFlow, warpedFlow } from "./flow";
import { landscape, type Landscape } from "./landscape";
import { keepLatest } from "./latest";
import { inTimeOf, type Memory } from "./memory";
import { METHODS, NESTEROV_VISCOSITY, mixtureFor, run, scheduleOf, type MethodName, type Schedule } from "./methods";
import { SGD, histories, mixturePassport, mixtureWeights, type Mixture } from "./mixture";
import { lossParts, modesOf } from "./modes";
import { expectedLoss, flowVariance, hasFiniteVariance, methodMoments } from "./moments";
import { normals } from "./noise";
import { passport } from "./passport";
import type { State } from "./state";
import { parseMixture } from "./textform";
import { polynomialWarp, timeWarp, type TimeWarp } from "./timewarp";

function forEachMethod<Made>(make: (method: MethodName) => Made): Record<MethodName, Made> {
  return Object.fromEntries(METHODS.map((method) => [method, make(method)])) as Record<MethodName, Made>;
}

export const mixtureFromText = keepLatest((text: string): Mixture => parseMixture(text));
export const passportAt = keepLatest(passport);
export const landscapeOf = keepLatest(landscape);
const noiseOf = keepLatest((steps: number, runs: number, seed: number) => normals(2 * steps * runs, seed));

/** The mixture of the page. */
export function mixtureOfState(state: State): Mixture {
  return mixtureFromText(state.memory);
}

/** The memory of the page, where it is one with gain 1; null where it is a mixture. */
export function memoryOf(state: State): Memory | null {
  return mixtureFromText(state.memory).memory;
}

/** The mixture of a method, the same object for as long as nothing changes that it depends on. */
export function methodMixture(method: MethodName, state: State): Mixture {
  return mixtures[method](method === "memory" ? mixtureOfState(state) : SGD, method === "hb" ? state.momentum : 0);
}
const mixtures = forEachMethod((method) =>
  keepLatest((chosen: Mixture, momentum: number) => mixtureFor(method, chosen, momentum)),
);

/** The numbers of all steps of a method. */
function scheduleFor(method: MethodName, state: State): Schedule {
  return schedules[method](methodMixture(method, state), state.lr, state.steps, state.equal === 1);
}
const schedules = forEachMethod(() => keepLatest(scheduleOf));
/** The same for steps of size 1, for those who count curvatures in units of the step size. */
function unitSchedule(method: MethodName, state: State): Schedule {
  return unitSchedules[method](methodMixture(method, state), 1, state.steps, state.equal === 1);
}
const unitSchedules = forEachMethod(() => keepLatest(scheduleOf));

export function weightsOf(state: State): Float64Array {
  return weightsAt(mixtureOfState(state), state.k, state.equal === 1);
}
const weightsAt = keepLatest(mixtureWeights);

export function mixturePassportOf(state: State) {
  return mixturePassportAt(mixtureOfState(state), state.k, state.equal === 1);
}
const mixturePassportAt = keepLatest(mixturePassport);

export function historiesOf(method: MethodName, state: State) {
  return pastOf[method](methodMixture(method, state), state.steps, state.equal === 1);
}
const pastOf = forEachMethod(() => keepLatest(histories));

/** Errors and noise of a method by curvature. */
export function modesFor(method: MethodName, state: State) {
  return modesBy[method](unitSchedule(method, state));
}
const modesBy = forEachMethod(() => keepLatest(modesOf));

/** The path of one curvature, in units of the step size: mean and variance. */
export function pathOfCurvature(method: MethodName, state: State) {
  return curvatures[method](unitSchedule(method, state), state.lam, 1, 1);
}
const curvatures = forEachMethod(() => keepLatest(methodMoments));

/** The loss of this memory as the sum over curvatures that it is. */
export function lossPartsOf(state: State) {
  return lossPartsBy(scheduleFor("memory", state), state.kappa, state.noise);
}
const lossPartsBy = keepLatest(lossParts);

const paths = forEachMethod(() =>
  keepLatest((schedule: Schedule, f: Landscape, x: number, y: number, sigma: number, seed: number) =>
    run(schedule, f, [x, y], sigma, sigma > 0 ? pathNoise(schedule.steps, seed) : null),
  ),
);
const pathNoise = keepLatest((steps: number, seed: number) => normals(2 * steps, seed));

/** All iterates of one run of a method: x_0, y_0, x_1, y_1, ... */
export function pathOf(method: MethodName, state: State): Float64Array {
  const f = landscapeOf(state.f, state.kappa);
  return paths[method](scheduleFor(method, state), f, state.x, state.y, state.noise, state.seed);
}

/** The memory's path in continuous time at t = k lr, k = 0, ..., K; null for mixtures and where m is unknown. */
export function odeOf(state: State): Float64Array | null {
  const memory = memoryOf(state);
  if (memory === null) return null;
  return ode(memory, landscapeOf(state.f, state.kappa), state.x, state.y, state.lr, state.steps);
}
const ode = keepLatest((memory: Memory, f: Landscape, x: number, y: number, lr: number, steps: number) => {
  const times = timesOf(steps, lr);
  const m = inTimeOf(memory, lr);
  if (m === null && memory.family !== "inst") return null;
  const later = m === null ? gradientFlow(f, [x, y], times) : memoryFlow(m, f, [x, y], times);
  return later === null ? null : Float64Array.of(x, y, ...later);
});

const ensembles = forEachMethod(() =>
  keepLatest((schedule: Schedule, f: Landscape, x: number, y: number, sigma: number, seed: number, runs: number) =>
    ensemble(schedule, f, [x, y], sigma, noiseOf(schedule.steps, runs, seed), runs),
  ),
);

/** Many noisy runs of a method. Seeds differ from those of the single run, so that it is none of them. */
export function ensembleOf(method: MethodName, state: State): Ensemble {
  const f = landscapeOf(state.f, state.kappa);
  const { x, y, noise, seed, runs } = state;
  return ensembles[method](scheduleFor(method, state), f, x, y, noise, seed + 20_000, runs);
}

const losses = forEachMethod(() =>
  keepLatest((schedule: Schedule, f: Landscape, x: number, y: number, sigma: number) =>
    f.spectrum === null ? null : expectedLoss(schedule, f.spectrum, [x, y], sigma),
  ),
);

/** E f(x_k) exactly, on a quadratic. */
export function exactLossOf(method: MethodName, state: State): Float64Array | null {
  const f = landscapeOf(state.f, state.kappa);
  return losses[method](scheduleFor(method, state), f, state.x, state.y, state.noise);
}

/** Times 1, ..., K of methods whose steps take the time `step`. */
function timesOf(steps: number, step: number): Float64Array {
  return Float64Array.from({ length: steps }, (_, k) => (k + 1) * step);
}

/** The variance of X along both axes of a quadratic, for volatility 1; null where an SDE has none. */
type Variances = readonly [Float64Array, Float64Array] | null;

function variancesOf(f: Landscape, variance: (lam: number) => Float64Array | null): Variances {
  if (f.spectrum === null) return null;
  const [first, second] = f.spectrum.map(variance);
  return first === null || second === null ? null : [first, second];
}

/** E f of a mean path and variances, k = 0, ..., K. */
function lossOf(f: Landscape, mean: Float64Array, variances: Variances, volatility: number): Float64Array | null {
  if (variances === null) return null;
  return Float64Array.from({ length: mean.length / 2 }, (_, k) => {
    let loss = 0;
    for (const i of [0, 1]) {
      const variance = k === 0 ? 0 : volatility ** 2 * variances[i][k - 1];
      loss += (f.spectrum![i] * (mean[2 * k + i] ** 2 + variance)) / 2;
    }
    return loss;
  });
}

/** E f(X(k lr)) of MG-SDE, on a quadratic. The volatility that models steps of size lr is sqrt(lr) sigma. */
export function flowLossOf(state: State): Float64Array | null {
  const f = landscapeOf(state.f, state.kappa);
  const [memory, mean] = [memoryOf(state), odeOf(state)];
  if (memory === null || mean === null) return null;
  return flowLoss(f, mean, memoryVariances(memory, f, state.lr, state.steps), state.lr, state.noise);
}
const flowLoss = keepLatest((f: Landscape, mean: Float64Array, variances: Variances, lr: number, noise: number) =>
  lossOf(f, mean, variances, Math.sqrt(lr) * noise),
);
const memoryVariances = keepLatest((memory: Memory, f: Landscape, lr: number, steps: number): Variances => {
  const m = inTimeOf(memory, lr);
  if (m === null || !hasFiniteVariance(m)) return null;
  return variancesOf(f, (lam) => flowVariance("memory", m.rate, lam, timesOf(steps, lr)));
});

/** E f(Y(k sqrt(lr))) of Nesterov's SDE, on a quadratic. Its steps take the time sqrt(lr), and so does the noise. */
export function nesterovFlowLossOf(state: State): Float64Array | null {
  const f = landscapeOf(state.f, state.kappa);
  if (f.spectrum === null) return null;
  const { x, y, lr, steps, noise } = state;
  return nesterovLoss(f, nesterovMean(f, x, y, lr, steps), nesterovVariances(f, lr, steps), lr, noise);
}
const nesterovViscosity = (t: number) => NESTEROV_VISCOSITY / t;
const nesterovLoss = keepLatest(
  (f: Landscape, mean: Float64Array | null, variances: Variances, lr: number, noise: number) =>
    mean === null ? null : lossOf(f, mean, variances, lr ** 0.25 * noise),
);
const nesterovMean = keepLatest((f: Landscape, x: number, y: number, lr: number, steps: number) => {
  const times = timesOf(steps, Math.sqrt(lr));
  const later = heavyBallFlow(nesterovViscosity, NESTEROV_VISCOSITY, f, [x, y], times);
  return later === null ? null : Float64Array.of(x, y, ...later);
});
const nesterovVariances = keepLatest((f: Landscape, lr: number, steps: number): Variances =>
  variancesOf(f, (lam) => flowVariance("heavy ball", nesterovViscosity, lam, timesOf(steps, Math.sqrt(lr)))),
);

export function boundFor(state: State) {
  const f = landscapeOf(state.f, state.kappa);
  return bound(memoryOf(state), state.lr, f, state.x, state.y, state.noise, state.steps);
}
const bound = keepLatest(
  (memory: Memory | null, lr: number, f: Landscape, x: number, y: number, noise: number, steps: number) =>
    boundOf(memory, lr, f, [x, y], noise, steps),
);

/** Two solutions of two equations along one path. */
export interface Warped {
  /** The memory that is warped; linear memory where the chosen one has no warp. */
  readonly memory: Memory;
  readonly isChosen: boolean;
  readonly warp: TimeWarp;
  /** The heavy ball's clock. */
  readonly t: Float64Array;
  /** The memory's clock beside it, between t and tau(t). */
  readonly tau: Float64Array;
  readonly memoryPath: Float64Array;
  readonly heavyBallPath: Float64Array;
}

const WARP_POINTS = 480;
/** Later than this the paths have settled, and their ripples only cost time. */
const LATEST = 60;

export function warpEnd(state: State): number {
  return Math.min(LATEST, state.steps * state.lr);
}

export function warpedOf(state: State): Warped | null {
  const f = landscapeOf(state.f, state.kappa);
  return warped(memoryOf(state) ?? NONE, f, state.x, state.y, state.lr, warpEnd(state), state.warp);
}
const warped = keepLatest(
  (memory: Memory, f: Landscape, x: number, y: number, lr: number, end: number, share: number): Warped | null => {
    const { warp, chosen } = warpFor(memory, lr);
    const t = clock(end);
    const tau = share === 0 ? t : t.map((time) => (1 - share) * time + share * warp.memoryTime(time));
    const later = heavyBall(memory, lr, f, x, y, end);
    if (later === null) return null;
    const m = inTimeOf(chosen, lr)!;
    const memoryPath = Float64Array.of(x, y, ...memoryFlow(m, f, [x, y], tau.subarray(1)));
    return { memory: chosen, isChosen: chosen === memory, warp, t, tau, memoryPath, heavyBallPath: later };
  },
);
const heavyBall = keepLatest((memory: Memory, lr: number, f: Landscape, x: number, y: number, end: number) => {
  const { warp, chosen } = warpFor(memory, lr);
  const times = clock(end).subarray(1);
  const later =
    chosen.family === "poly" || chosen.family === "exp"
      ? heavyBallFlow(warp.viscosity, warp.q, f, [x, y], times)
      : warpedFlow(inTimeOf(chosen, lr)!, warp.q, f, [x, y], times);
  return later === null ? null : Float64Array.of(x, y, ...later);
});
const clock = keepLatest((end: number) =>
  Float64Array.from({ length: WARP_POINTS + 1 }, (_, i) => (end * i) / WARP_POINTS),
);
const LINEAR = polynomial(2);
const NONE = instantaneous();
const warpFor = keepLatest((memory: Memory, lr: number): { warp: TimeWarp; chosen: Memory } => {
  const warp = timeWarp(memory, inTimeOf(memory, lr), lr);
  return warp === null ? { warp: polynomialWarp(2), chosen: LINEAR } : { warp, chosen: memory };
});
