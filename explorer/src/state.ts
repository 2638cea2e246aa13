/** Everything a view consists of: one value, which the address of the page holds completely. */

import type { LandscapeName } from "./landscape";
import type { MethodName } from "./methods";

/** What can be shown beside one another: the methods, and the memory's path in continuous time. */
export type Shown = MethodName | "ode";
export const SHOWN: readonly Shown[] = ["memory", "sgd", "hb", "nag", "ode"];

export type Theme = "auto" | "light" | "dark";

export interface State {
  /** Step of the story, 1 to 6. */
  readonly step: number;
  /** Text form of the memory. */
  readonly memory: string;
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
  readonly theme: Theme;
}

export const DEFAULTS: State = {
  step: 1,
  memory: "exp:0.9",
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
  theme: "auto",
};

/** The smallest and the largest value of each number. */
export const RANGES = {
  step: { low: 1, high: 6 },
  k: { low: 0, high: 1000 },
  steps: { low: 20, high: 1000 },
  lr: { low: 0.005, high: 2 },
  momentum: { low: 0, high: 0.99 },
  kappa: { low: 1, high: 200 },
  x: { low: -4, high: 4 },
  y: { low: -3, high: 3 },
  noise: { low: 0, high: 3 },
  seed: { low: 0, high: 9999 },
  runs: { low: 50, high: 500 },
  warp: { low: 0, high: 1 },
} as const;

export type NumberName = keyof typeof RANGES;
export const WHOLE: ReadonlySet<NumberName> = new Set(["step", "k", "steps", "seed", "runs"]);
