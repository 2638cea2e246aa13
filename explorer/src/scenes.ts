/** The story's scenes: the view of each, the controls it names, and the panel it is seen in. Its words are in index.html. */

import type { ControlName } from "./settings";
import { DEFAULTS, type PanelName, type State } from "./state";

export interface Scene {
  readonly panel: PanelName;
  readonly view: Partial<State>;
  /** The controls that the scene names, which stand beside its figure. */
  readonly controls: readonly ControlName[];
  /** Whether the steps play when a reader arrives. */
  readonly plays: boolean;
}

const NESTEROV = "inst + 0.25*(1+k)*poly:4";

export const SCENES: readonly Scene[] = [
  {
    panel: "descent",
    view: { memory: "inst", k: 120, steps: 120, lr: 0.12, kappa: 6, noise: 0.6, show: ["memory"], seed: 7 },
    controls: ["recall"],
    plays: true,
  },
  {
    panel: "weights",
    view: { memory: "exp:0.9", k: 50, steps: 80, history: "gain", show: ["memory"] },
    controls: ["beta"],
    plays: true,
  },
  {
    panel: "weights",
    view: { memory: "poly:2", k: 50, steps: 80, history: "first", show: ["memory"] },
    controls: ["forget"],
    plays: true,
  },
  {
    panel: "weights",
    view: { memory: NESTEROV, k: 60, steps: 80, history: "gain", show: ["memory", "sgd", "hb"] },
    controls: ["equal"],
    plays: true,
  },
  {
    panel: "modes",
    view: { memory: NESTEROV, k: 100, steps: 200, lam: 0.002, show: ["memory", "sgd"] },
    controls: ["equal", "lam"],
    plays: true,
  },
  {
    panel: "weights",
    view: { memory: NESTEROV, k: 60, steps: 80, history: "noise", show: ["memory", "sgd", "hb"] },
    controls: ["equal"],
    plays: true,
  },
  {
    panel: "noise",
    view: {
      memory: "poly:3",
      k: 400,
      steps: 400,
      kappa: 4,
      noise: 0.4,
      show: ["memory", "nag"],
      runs: 200,
    },
    controls: ["noise", "equal"],
    plays: true,
  },
  {
    panel: "descent",
    view: { memory: "poly:2", k: 80, steps: 200, show: ["memory", "sgd", "ode"] },
    controls: ["lr", "p"],
    plays: true,
  },
  {
    panel: "clocks",
    view: { memory: "poly:2", k: 150, steps: 240, kappa: 40, x: -1.4, warp: 0, show: ["memory", "nag", "ode"] },
    controls: ["warp"],
    plays: true,
  },
  {
    panel: "map",
    view: { memory: "poly:2", k: 200, steps: 200, lam: 0.5, family: "poly", shade: "left", show: ["memory"] },
    controls: ["family", "shade"],
    plays: false,
  },
  {
    panel: "powerlaw",
    view: { memory: "inst + 0.1*(1+k)^0.5*poly:4", lr: 0.3, nu: 2, zeta: 0.5, show: ["memory", "sgd", "nag"] },
    controls: ["nu", "batch"],
    plays: false,
  },
  {
    panel: "noise",
    view: {
      memory: "poly:2",
      k: 300,
      steps: 600,
      lr: 0.05,
      f: "quartic",
      noise: 1,
      x: 1,
      y: 1,
      show: ["memory", "sgd"],
      runs: 150,
    },
    controls: ["lr", "noise"],
    plays: true,
  },
  {
    panel: "weights",
    view: { memory: "inst + (1+k)^0.15*poly:8", k: 60, steps: 80, history: "gain", show: ["memory", "sgd", "nag"] },
    controls: [],
    plays: false,
  },
];

/** The complete view of a scene, 1 to 13. */
export function sceneState(step: number): State {
  const { view, panel } = SCENES[step - 1];
  return { ...DEFAULTS, ...view, panel, step };
}
