/** Everything a view consists of: one value, which the address of the page holds completely. */

import type { AtlasName } from "./atlas";
import type { LandscapeName } from "./landscape";
import type { MethodName } from "./methods";

/** What can be shown beside one another: the methods, and the memory's path in continuous time. */
export type Shown = MethodName | "ode";
export const SHOWN: readonly Shown[] = ["memory", "sgd", "hb", "nag", "ode"];

export type Theme = "auto" | "light" | "dark";

/** The panels, in the order in which the story first tells of them. */
export type PanelName = "descent" | "weights" | "modes" | "noise" | "clocks" | "map" | "powerlaw";
export const PANELS: readonly PanelName[] = ["descent", "weights", "modes", "noise", "clocks", "map", "powerlaw"];

/** What is followed over the steps beside the weights. */
export type History = "gain" | "noise" | "first";
export const HISTORIES: readonly History[] = ["gain", "noise", "first"];

/** What colors the map. */
export type Shade = "left" | "crossings" | "noise";
export const SHADES: readonly Shade[] = ["left", "crossings", "noise"];

export const SCENES = 13;

export interface State {
  /** Scene of the story, 1 to 13. */
  readonly step: number;
  readonly panel: PanelName;
  /** Text form of the memory or mixture. */
  readonly memory: string;
  /** 1: every step is divided by the gain of its method. */
  readonly equal: number;
  /** The step k that all panels look at. */
  readonly k: number;
  /** K, how many steps there are. */
  readonly steps: number;
  readonly lr: number;
  readonly momentum: number;
  readonly f: LandscapeName;
  readonly kappa: number;
  readonly x: number;
  readonly y: number;
  /** Standard deviation of the gradient's noise in each direction. */
  readonly noise: number;
  readonly seed: number;
  readonly show: readonly Shown[];
  /** How many runs the ensemble has. */
  readonly runs: number;
  /** 0: both clocks run alike; 1: the memory's clock is warped. */
  readonly warp: number;
  readonly history: History;
  /** The curvature that is followed, times the step size. */
  readonly lam: number;
  /** The family of the map. */
  readonly family: AtlasName;
  readonly shade: Shade;
  /** Exponents of the power laws: of the spectrum, and of the target. */
  readonly nu: number;
  readonly zeta: number;
  /** The size of the minibatches there. */
  readonly batch: number;
  readonly theme: Theme;
}

export const DEFAULTS: State = {
  step: 1,
  panel: "descent",
  memory: "exp:0.9",
  equal: 0,
  k: 60,
  steps: 200,
  lr: 0.1,
  momentum: 0.9,
  f: "quadratic",
  kappa: 10,
  x: -1.2,
  y: 0.9,
  noise: 0,
  seed: 1,
  show: ["memory", "sgd", "nag", "ode"],
  runs: 200,
  warp: 0,
  history: "gain",
  lam: 0.01,
  family: "poly",
  shade: "left",
  nu: 2,
  zeta: 0.5,
  batch: 1,
  theme: "auto",
};

/** The smallest and the largest value of each number. */
export const RANGES = {
  step: { low: 1, high: SCENES },
  equal: { low: 0, high: 1 },
  k: { low: 0, high: 1000 },
  steps: { low: 20, high: 1000 },
  lr: { low: 0.005, high: 2 },
  momentum: { low: 0, high: 0.99 },
  kappa: { low: 1, high: 1000 },
  x: { low: -4, high: 4 },
  y: { low: -3, high: 3 },
  noise: { low: 0, high: 3 },
  seed: { low: 0, high: 9999 },
  runs: { low: 50, high: 500 },
  warp: { low: 0, high: 1 },
  lam: { low: 1e-4, high: 10 },
  nu: { low: 1.1, high: 3 },
  zeta: { low: 0.1, high: 1 },
  batch: { low: 1, high: 256 },
} as const;

export type NumberName = keyof typeof RANGES;
export const WHOLE: ReadonlySet<NumberName> = new Set(["step", "equal", "k", "steps", "seed", "runs", "batch"]);
