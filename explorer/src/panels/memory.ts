/** Panel 1: choose a memory, and see what it remembers. */

import { scaleLinear } from "d3-scale";

import { describe } from "../announce";
import { Carpet } from "../carpet";
import { choice, ratios, slider, stops, type Control } from "../controls";
import { FIRST_DRAWING, drawn } from "../drawn";
import type { Family } from "../memory";
import { memoryOf, passportAt, weightsAt } from "../model";
import { short } from "../numbers";
import { colorOf } from "../palette";
import { Plot } from "../plot";
import type { Store } from "../store";
import { PARAMETERS, build, readParameters } from "../textform";
import { DrawingBoard } from "./drawingboard";
import { canvasOf, find, place, write, type Panel } from "./panel";

const FAMILIES: readonly (readonly [Family, string])[] = [
  ["poly", "polynomial"],
  ["exp", "exponential"],
  ["inst", "none (SGD)"],
  ["log", "logarithmic"],
  ["stretch", "super-exponential"],
  ["power", "Adafactor’s"],
  ["draw", "draw your own"],
];

const FORMULAS: Readonly<Record<Family, string>> = {
  poly: tex`m(t) = t^p, \quad b_k = \frac{k}{k+p}`,
  exp: tex`m(t) = e^{\alpha t} - 1, \quad b_k = \beta\,\frac{1-\beta^k}{1-\beta^{k+1}}, \quad \beta = e^{-\alpha}`,
  inst: tex`b_k = 0`,
  log: tex`m(t) = \log(1+t), \quad b_k = \frac{\log(1+kh)}{\log(1+(k+1)h)}`,
  stretch: tex`m(t) = e^{t^\alpha} - 1, \quad b_k = \frac{m(kh)}{m((k+1)h)}`,
  power: tex`1 - b_k = (k+1)^{-c}`,
  draw: tex`m(t) = \int_0^t \dot m(s)\, ds, \quad b_k = \frac{m(k)}{m(k+1)}`,
};

const ABOUT: Readonly<Record<Family, string>> = {
  poly: "p = 1 is the plain average of all gradients, p = 2 linear memory. The larger p, the closer to SGD.",
  exp: "Adam’s average with its bias correction, and in the long run momentum, divided by 1 − β.",
  inst: "SGD: the newest gradient is all there is.",
  log: "Longer than long: the only family here that favours the oldest gradients.",
  stretch: "α > 1 forgets faster than exponentially, α < 1 more slowly; h sets how soon.",
  power: "c = 1 is the plain average, smaller c forgets faster. It has decays, but no memory function.",
  draw: "Any curve above 0 is the slope of a memory function. Draw one in the first picture.",
};

const STOPS: Readonly<Record<string, readonly number[]>> = {
  p: stops([0.25, 4, 0.05], [4, 10, 0.25], [10, 20, 1], [20, 100, 5]),
  beta: stops([0.01, 0.05, 0.04], [0.05, 0.95, 0.01], [0.95, 0.99, 0.005], [0.99, 0.999, 0.001]),
  h: ratios(0.001, 10, 20),
  alpha: stops([0.25, 4, 0.05]),
  c: stops([0.05, 2, 0.01]),
};

const NAMES: Readonly<Record<string, readonly [string, string]>> = {
  p: ["degree p", "Degree of the polynomial. 1 weighs all gradients alike; larger degrees favour recent ones."],
  beta: ["decay β", "How much of the old average is kept in the long run."],
  h: ["time per step h", "How much of the memory’s own time a step takes."],
  alpha: ["exponent α", "1 is exponential memory."],
  c: ["exponent c", "0.8 is Adafactor’s default."],
};

export class MemoryPanel implements Panel {
  readonly #store: Store;
  readonly #growth: Plot;
  readonly #influence: Plot;
  readonly #carpet: Carpet;
  readonly #board: DrawingBoard;
  readonly #families: Control;
  #parameters: readonly Control[] = [];
  #family: Family | null = null;
  /** What each family was last set to, so that trying another loses nothing. */
  readonly #latest = new Map<Family, string>();

  constructor(store: Store) {
    this.#store = store;
    const redraw = () => store.redraw();
    this.#growth = new Plot(canvasOf("growth"), redraw);
    this.#influence = new Plot(canvasOf("influence"), redraw);
    this.#carpet = new Carpet(canvasOf("carpet"), redraw);
    this.#board = new DrawingBoard(store);
    this.#families = choice({
      legend: "Family",
      choices: FAMILIES,
      get: () => memoryOf(store.state.memory).family,
      set: (family) => store.set({ memory: this.#latest.get(family) ?? firstOf(family) }),
    });
    place("memory-family", [this.#families]);
  }

  draw(): void {
    const { memory: text, k, steps } = this.#store.state;
    const memory = memoryOf(text);
    this.#latest.set(memory.family, text);
    if (memory.family !== this.#family) this.#showParametersOf(memory.family);
    for (const control of [this.#families, ...this.#parameters]) control.show();
    write(find("memory-text"), memory.family === "draw" ? "draw:…" : text);
    this.#board.draw();
    if (memory.family !== "draw") this.#drawGrowth();
    this.#drawInfluence();
    this.#carpet.draw(memory, k, steps);
    this.#writePassport();
  }

  summary(): string {
    const { memory, k } = this.#store.state;
    const p = passportAt(memoryOf(memory), k);
    return (
      `Memory ${memory.startsWith("draw") ? "drawn by hand" : memory} at step ${k}: mean age ${short(p.meanAge)} steps, ` +
      `half-life ${p.halfLife} steps, ${short(p.effectiveSamples)} effective samples.`
    );
  }

  #showParametersOf(family: Family): void {
    this.#family = family;
    find("memory-parameters").replaceChildren();
    this.#parameters = PARAMETERS[family].map(({ name }) =>
      slider({
        label: NAMES[name][0],
        hint: NAMES[name][1],
        values: STOPS[name],
        get: () => readParameters(this.#store.state.memory, () => {}).values[name],
        set: (value) => {
          const { values } = readParameters(this.#store.state.memory, () => {});
          this.#store.set({ memory: build(family, { ...values, [name]: value }).text });
        },
        text: (value) => String(value),
      }),
    );
    place("memory-parameters", this.#parameters);
    find("memory-formula").innerHTML = FORMULAS[family];
    write(find("memory-about"), ABOUT[family]);
    find("growth-figure").hidden = family === "draw";
    find("board-figure").hidden = family !== "draw";
  }

  /** The share of the weight on gradients up to each step: m(s)/m(t). */
  #drawGrowth(): void {
    const plot = this.#growth;
    if (!plot.begin()) return;
    const { memory: text, k, steps } = this.#store.state;
    const memory = memoryOf(text);
    const x = scaleLinear([0, steps], [plot.left, plot.right]);
    const y = scaleLinear([0, 1], [plot.bottom, plot.top]);
    plot.axes({ x, y, xLabel: "time, in steps", yLabel: "m(s) / m(now)", yTicks: 4 });
    const w = weightsAt(memory, k);
    plot.inside(() => {
      const flow = memory.flow;
      if (flow !== null) {
        const now = (k + 1) * memory.h;
        const at = (i: number): [number, number] => {
          const j = (steps * i) / 400;
          return [x(j), y(flow.survival(j * memory.h, now))];
        };
        plot.line(401, at, { color: "--muted", width: 1.25, dash: [3, 4], alpha: 0.8 });
        const upTo = Math.floor((400 * (k + 1)) / steps);
        plot.line(Math.min(401, upTo + 1), at, { color: "--memory", width: 2.5 });
      }
      // The discrete shares M_j / M_{k+1}, as steps.
      const c = plot.context;
      c.fillStyle = colorOf("--memory");
      let share = 0;
      const thin = Math.max(1, Math.ceil(steps / 100));
      for (let j = 0; j <= k; j++) {
        share += w[j];
        if (j % thin === 0 || j === k) c.fillRect(x(j + 1) - 1.5, y(share) - 1.5, 3, 3);
      }
    });
    const { halfLife } = passportAt(memory, k);
    const half = x(Math.max(0, k - halfLife));
    plot.line(2, (i) => [i === 0 ? plot.left : x(k), y(0.5)], { color: "--ink", width: 1, dash: [2, 3] });
    plot.line(2, (i) => [half, i === 0 ? y(0.5) : plot.bottom], { color: "--ink", width: 1, dash: [2, 3] });
    const words = halfLife === 0 ? "half: the newest" : `half: the last ${halfLife + 1}`;
    const fits = plot.left + plot.context.measureText(words).width + 14 < half;
    plot.label(words, fits ? plot.left + 5 : x(k) + 8, y(0.5) - 10);
    describe(
      plot.canvas,
      `The memory function over its value now, rising from 0 to 1 at step ${k}. ` +
        `The newest ${halfLife + 1} gradients hold half of the weight.`,
    );
  }

  #drawInfluence(): void {
    const plot = this.#influence;
    if (!plot.begin()) return;
    const { memory: text, k, steps } = this.#store.state;
    const memory = memoryOf(text);
    const w = weightsAt(memory, k);
    const largest = w.reduce((a, b) => Math.max(a, b), 0);
    const x = scaleLinear([-0.5, steps + 0.5], [plot.left, plot.right]);
    const y = scaleLinear([0, largest * 1.18], [plot.bottom, plot.top]);
    plot.axes({ x, y, xLabel: "gradient of step j", yLabel: "weight w(j, k)", yTicks: 4 });
    const c = plot.context;
    const width = x(1) - x(0);
    c.fillStyle = colorOf("--memory");
    c.globalAlpha = 0.55;
    for (let j = 0; j <= k; j++) {
      const gap = width > 4 ? 1 : 0;
      c.fillRect(x(j - 0.5) + gap / 2, y(w[j]), Math.max(width - gap, 0.7), plot.bottom - y(w[j]));
    }
    c.globalAlpha = 1;
    const flow = memory.flow;
    if (flow !== null && k > 0) {
      const now = (k + 1) * memory.h;
      plot.inside(() =>
        plot.line(
          301,
          (i) => {
            // Never at 0 itself, where some influences are infinite.
            const j = ((k + 1) * (i + 0.5)) / 301;
            return [x(j - 0.5), y(memory.h * flow.influence(j * memory.h, now))];
          },
          { color: "--memory", width: 2 },
        ),
      );
    }
    const { meanAge } = passportAt(memory, k);
    const even = y(1 / (k + 1));
    plot.line(2, (i) => [i === 0 ? x(-0.5) : x(k + 0.5), even], { color: "--ink", width: 1, dash: [2, 3] });
    if (k > 8 && plot.bottom - even > 12) plot.label("all alike", x(-0.5) + 4, even - 9, "--muted");
    const mean = x(k - meanAge);
    plot.line(2, (i) => [mean, i === 0 ? plot.top + 14 : plot.bottom], { color: "--ink", width: 1.25 });
    plot.label(`mean age ${short(meanAge)}`, mean, plot.top + 5, "--ink", "center");
    describe(
      plot.canvas,
      `Bar chart of the weights of the gradients 0 to ${k} in step ${k}: the oldest weighs ${short(w[0])}, ` +
        `the newest ${short(w[k])}, and their mean age is ${short(meanAge)} steps.`,
    );
  }

  #writePassport(): void {
    const { memory, k } = this.#store.state;
    const p = passportAt(memoryOf(memory), k);
    const rows: readonly (readonly [string, string])[] = [
      ["step", `${k}`],
      ["mean-age", `${short(p.meanAge)} steps`],
      ["half-life", `${p.halfLife} steps`],
      ["effective-samples", short(p.effectiveSamples)],
      ["variance-factor", short(p.varianceFactor)],
      ["newest-weight", short(p.newestWeight)],
      ["local-degree", p.localDegree === null ? "any" : short(p.localDegree)],
      ["equivalent-beta", short(p.equivalentBeta)],
    ];
    for (const [name, text] of rows) write(find(`passport-${name}`), text);
  }
}

function firstOf(family: Family): string {
  if (family === "draw") return drawn(FIRST_DRAWING).text;
  return build(family, Object.fromEntries(PARAMETERS[family].map(({ name, start }) => [name, start]))).text;
}
