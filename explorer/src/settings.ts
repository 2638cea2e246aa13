/** The controls by their names, so that a scene and its panel can both have them. */

import { ATLAS, type AtlasName } from "./atlas";
import { choice, ratios, slider, stops, toggle, type Control } from "./controls";
import { exponential, instantaneous } from "./families";
import type { LandscapeName } from "./landscape";
import { mixtureFromText } from "./model";
import { DEFAULTS, type History, type NumberName, type Shade } from "./state";
import type { Store } from "./store";
import { PARAMETERS, build, readParameters } from "./textform";

export const LANDSCAPES: readonly (readonly [LandscapeName, string])[] = [
  ["quadratic", "quadratic"],
  ["quartic", "quartic"],
  ["logcosh", "log-cosh"],
  ["valley", "bent valley"],
];

/** Where runs on each landscape start unless they are told otherwise. */
const STARTS: Readonly<Record<LandscapeName, readonly [number, number]>> = {
  quadratic: [DEFAULTS.x, DEFAULTS.y],
  quartic: [1, 1],
  logcosh: [-3, 2],
  valley: [-1.4, 1.2],
};

const HISTORY_NAMES: readonly (readonly [History, string])[] = [
  ["gain", "gain"],
  ["noise", "noise"],
  ["first", "first gradient"],
];

const SHADE_NAMES: readonly (readonly [Shade, string])[] = [
  ["left", "rate"],
  ["crossings", "ringing"],
  ["noise", "noise"],
];

/** The values that a memory's parameters stop at, and their names. */
export const STOPS: Readonly<Record<string, readonly number[]>> = {
  p: stops([0.25, 4, 0.05], [4, 10, 0.25], [10, 20, 1], [20, 100, 5]),
  beta: [...stops([0.01, 0.05, 0.04], [0.05, 0.95, 0.01], [0.95, 0.99, 0.005], [0.99, 0.999, 0.001]), 0.9999],
  h: ratios(0.001, 10, 20),
  alpha: stops([0.25, 4, 0.05]),
  c: stops([0.05, 2, 0.01]),
};
export const NAMES: Readonly<Record<string, readonly [string, string]>> = {
  p: ["degree p", "Degree of the polynomial. 1 weighs all gradients alike; larger degrees favor recent ones."],
  beta: ["decay β", "How much of the old average is kept in the long run."],
  h: ["time per step h", "How much of the memory’s own time a step takes."],
  alpha: ["exponent α", "1 is exponential memory."],
  c: ["exponent c", "0.8 is Adafactor’s default."],
};

interface NumberSetting {
  readonly label: string;
  readonly values: readonly number[];
  readonly hint?: string;
  readonly text?: (value: number) => string;
}

const NUMBERS: Partial<Record<NumberName, NumberSetting>> = {
  lr: { label: "step size η", values: ratios(0.005, 2, 24), hint: "The same for all methods." },
  noise: {
    label: "noise σ",
    values: stops([0, 0.1, 0.01], [0.1, 1, 0.02], [1, 3, 0.1]),
    hint: "Standard deviation of the gradient’s noise in each direction.",
  },
  kappa: {
    label: "conditioning κ",
    values: ratios(1, 1000, 24),
    hint: "The ratio of the largest to the smallest curvature.",
  },
  momentum: { label: "heavy ball’s β", values: stops([0, 0.95, 0.01], [0.95, 0.99, 0.005]) },
  runs: { label: "runs", values: stops([50, 500, 50]) },
  warp: {
    label: "warp of the memory’s clock",
    values: stops([0, 1, 0.01]),
    text: (value) => (value === 0 ? "0: the same clock" : value === 1 ? "1: warped" : String(value)),
  },
  lam: {
    label: "curvature × step size, ηλ",
    values: ratios(1e-4, 10, 24),
    hint: "The direction whose path is drawn.",
  },
  nu: { label: "spectrum exponent ν", values: stops([1.1, 3, 0.05]), hint: "Curvatures fall as j to the power −ν." },
  zeta: {
    label: "target exponent ζ",
    values: stops([0.1, 1, 0.05]),
    hint: "How much of the target lies in flat directions.",
  },
  batch: { label: "minibatch", values: [1, 2, 4, 8, 16, 32, 64, 128, 256] },
};

export type ControlName =
  | Exclude<NumberName, "step" | "equal" | "x" | "y" | "seed">
  | "equal"
  | "recall"
  | "beta"
  | "p"
  | "forget"
  | "history"
  | "family"
  | "shade"
  | "shape";

/** A new control of this name. */
export function control(store: Store, name: ControlName): Control {
  const made = make(store, name);
  made.element.dataset.control = name;
  return made;
}

function make(store: Store, name: ControlName): Control {
  switch (name) {
    case "recall":
      return recall(store);
    case "beta":
    case "p":
      return parameter(store, name);
    case "forget":
      return forget(store);
    case "equal":
      return toggle({
        label: "equal effective step",
        hint: "Divides each step by the gain of its method, so that a constant gradient moves all of them alike.",
        get: () => store.state.equal === 1,
        set: (on) => store.set({ equal: on ? 1 : 0 }),
      });
    case "history":
      return choice({
        legend: "Over the steps",
        choices: HISTORY_NAMES,
        get: () => store.state.history,
        set: (history) => store.set({ history }),
      });
    case "family":
      return choice<AtlasName>({
        legend: "Family of the map",
        choices: Object.entries(ATLAS).map(([value, { label }]) => [value as AtlasName, label] as const),
        get: () => store.state.family,
        set: (family) => store.set({ family }),
      });
    case "shade":
      return choice({
        legend: "What colors the map",
        choices: SHADE_NAMES,
        get: () => store.state.shade,
        set: (shade) => store.set({ shade }),
      });
    case "shape":
      return choice({
        legend: "Landscape",
        choices: LANDSCAPES,
        get: () => store.state.f,
        set: (f) => store.set({ f, x: STARTS[f][0], y: STARTS[f][1] }),
      });
    case "steps":
      return slider({
        label: "steps K",
        values: stops([20, 200, 10], [200, 1000, 50]),
        get: () => store.state.steps,
        set: (steps) => store.set({ steps, k: Math.min(steps, store.state.k) }),
        text: String,
      });
    case "k":
      return slider({
        label: "step k",
        values: [],
        last: () => store.state.steps,
        get: () => store.state.k,
        set: (k) => store.set({ k }),
        text: String,
      });
    default: {
      const { label, values, hint, text = String } = NUMBERS[name]!;
      return slider({
        label,
        values,
        hint,
        text,
        get: () => store.state[name],
        set: (value) => store.set({ [name]: value }),
      });
    }
  }
}

/** The parameter of the memory, where it is one memory of the family that has it. */
function parameter(store: Store, name: "beta" | "p"): Control {
  const family = name === "beta" ? "exp" : "poly";
  const of = () => mixtureFromText(store.state.memory).parts.find(({ memory }) => memory.family === family);
  const start = PARAMETERS[family].find((each) => each.name === name)!.start;
  return slider({
    label: NAMES[name][0],
    hint: NAMES[name][1],
    values: STOPS[name],
    get: () => {
      const part = of();
      return part === undefined ? start : readParameters(part.memory.text, () => {}).values[name];
    },
    set: (value) => {
      const part = of();
      const values = part === undefined ? {} : readParameters(part.memory.text, () => {}).values;
      store.set({ memory: build(family, { h: 1, ...values, [name]: value }).text });
    },
    text: String,
  });
}

/** How many gradients a step averages: an exponential memory by its mean age, in words that need no formula. */
function recall(store: Store): Control {
  const ages = stops([0, 10, 1], [10, 30, 2], [30, 60, 5]);
  return slider({
    label: "how far back it remembers",
    hint: "The mean age of the gradients in a step.",
    values: ages,
    get: () => {
      const memory = mixtureFromText(store.state.memory).memory;
      if (memory === null || memory.family !== "exp") return 0;
      const beta = memory.decay(1e9);
      return Number((beta / (1 - beta)).toPrecision(6));
    },
    set: (age) => {
      const memory = age === 0 ? instantaneous() : exponential(Number((age / (1 + age)).toPrecision(6)));
      store.set({ memory: memory.text });
    },
    text: (age) => (age === 0 ? "not at all" : `about ${Math.round(age)} step${age === 1 ? "" : "s"}`),
  });
}

/** Memories that forget in different ways. */
function forget(store: Store): Control {
  const choices = [
    ["exp:0.9", "exponential"],
    ["poly:4", "p = 4"],
    ["poly:2", "p = 2"],
    ["poly:1", "plain average"],
  ] as const;
  return choice<string>({
    legend: "Memory",
    choices,
    get: () => store.state.memory,
    set: (memory) => store.set({ memory }),
  });
}
