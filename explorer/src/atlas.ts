/** The map: what each method of a family does to each curvature, computed cell by cell by exact recursions. */

import { exponential, instantaneous, polynomial } from "./families";
import { heavyBall, scheduleOf } from "./methods";
import { mixtureOf, nesterov, plain, type Mixture } from "./mixture";
import { characterOf } from "./modes";
import { methodMoments } from "./moments";

export type AtlasName = "poly" | "exp" | "hb" | "nag" | "dana";

export interface AtlasFamily {
  readonly label: string;
  /** The name of what varies upwards. */
  readonly axis: string;
  readonly low: number;
  readonly high: number;
  readonly isLog: boolean;
  mixture(value: number): Mixture;
}

/** The degree of the memory whose gain the map's kappa sets, as in ADana. */
const DELTA = 8;

export const ATLAS: Readonly<Record<AtlasName, AtlasFamily>> = {
  poly: {
    label: "polynomial memory",
    axis: "degree p",
    low: 0.5,
    high: 32,
    isLog: true,
    mixture: (p) => plain(polynomial(p)),
  },
  exp: {
    label: "exponential memory",
    axis: "decay β",
    low: 0.01,
    high: 0.99,
    isLog: false,
    mixture: (beta) => plain(exponential(beta)),
  },
  hb: {
    label: "heavy ball",
    axis: "momentum β",
    low: 0.01,
    high: 0.99,
    isLog: false,
    mixture: heavyBall,
  },
  nag: {
    label: "Nesterov",
    axis: "viscosity q",
    low: 0.5,
    high: 32,
    isLog: true,
    mixture: nesterov,
  },
  dana: {
    label: "growing gain",
    axis: "κ",
    low: 0,
    high: 1,
    isLog: false,
    mixture: (kappa) =>
      mixtureOf([
        { scale: 1, factors: [], memory: instantaneous() },
        { scale: 1, factors: [{ kind: "power", exponent: tidy(1 - kappa) }], memory: polynomial(DELTA) },
      ]),
  },
};

/** Step size times curvature, over the map. */
export const ATLAS_CURVATURES = { low: 0.001, high: 10 } as const;
export const COLUMNS = 100;
export const ROWS = 66;

export interface Atlas {
  /** Row by row from the bottom: what is left of the start, in powers of ten. */
  readonly left: Float32Array;
  /** How often the path crosses 0. */
  readonly crossings: Float32Array;
  /** lam Var x_K, in units of SGD's limit for small steps: lr sigma^2 / 2. */
  readonly noise: Float32Array;
  /** 1 where the path grows. */
  readonly grows: Uint8Array;
}

function tidy(value: number): number {
  return Number(value.toPrecision(3));
}

/** The value of a share of the way up the map. */
export function valueAt(family: AtlasFamily, share: number): number {
  const { low, high, isLog } = family;
  return tidy(isLog ? low * (high / low) ** share : low + share * (high - low));
}

export function shareOf({ low, high, isLog }: AtlasFamily, value: number): number {
  return isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

export function curvatureAt(share: number): number {
  const { low, high } = ATLAS_CURVATURES;
  return low * (high / low) ** share;
}

export interface Cell {
  readonly left: number;
  readonly crossings: number;
  readonly noise: number;
  readonly grows: boolean;
}

/** One cell: steps of size 1 on the curvature `lam`, which is then step size times curvature. */
export function cellOf(mixture: Mixture, lam: number, steps: number, isEqual = false): Cell {
  return cellBy(scheduleOf(mixture, 1, steps, isEqual), lam);
}

function cellBy(schedule: ReturnType<typeof scheduleOf>, lam: number): Cell {
  const { mean, variance } = methodMoments(schedule, lam, 1, 1);
  const { kind, crossings, left } = characterOf(mean);
  return { left, crossings, noise: 2 * lam * variance[schedule.steps], grows: kind === "grows" };
}

export function atlasOf(name: AtlasName, steps: number, isEqual: boolean): Atlas {
  const family = ATLAS[name];
  const n = COLUMNS * ROWS;
  const atlas = {
    left: new Float32Array(n),
    crossings: new Float32Array(n),
    noise: new Float32Array(n),
    grows: new Uint8Array(n),
  };
  for (let row = 0; row < ROWS; row++) {
    const schedule = scheduleOf(family.mixture(valueAt(family, (row + 0.5) / ROWS)), 1, steps, isEqual);
    for (let column = 0; column < COLUMNS; column++) {
      const cell = cellBy(schedule, curvatureAt((column + 0.5) / COLUMNS));
      const at = row * COLUMNS + column;
      atlas.left[at] = Math.log10(Math.max(cell.left, 1e-30));
      atlas.crossings[at] = cell.crossings;
      atlas.noise[at] = cell.noise;
      atlas.grows[at] = cell.grows ? 1 : 0;
    }
  }
  return atlas;
}
