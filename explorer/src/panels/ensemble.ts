/** Panel 3: hundreds of noisy runs, their mean and spread, beside exact moments and the theorem's bound. */

import { scaleLinear, scaleLog } from "d3-scale";

import { describe } from "../announce";
import { slider, stops, type Control } from "../controls";
import { instantaneous } from "../families";
import { METHODS } from "../methods";
import { boundFor, ensembleOf, exactLossOf, flowLossOf, landscapeOf, memoryOf, nesterovFlowLossOf } from "../model";
import { limitLoss } from "../moments";
import { short } from "../numbers";
import { STYLES, colorOf, type Style } from "../palette";
import { Plot } from "../plot";
import type { State } from "../state";
import type { Store } from "../store";
import type { Terrain, View } from "../terrain";
import { legend } from "./legend";
import { canvasOf, find, place, write, type Panel } from "./panel";

const NO_MEMORY = instantaneous();

export class EnsemblePanel implements Panel {
  readonly #store: Store;
  readonly #cloud: Plot;
  readonly #curve: Plot;
  readonly #terrain: Terrain;
  readonly #controls: readonly Control[];

  constructor(store: Store, terrain: Terrain) {
    this.#store = store;
    this.#terrain = terrain;
    const redraw = () => store.redraw();
    this.#cloud = new Plot(canvasOf("cloud"), redraw, { top: 0, right: 0, bottom: 0, left: 0 });
    this.#curve = new Plot(canvasOf("spread"), redraw);
    const sliders = [
      slider({
        label: "noise σ",
        values: stops([0, 0.1, 0.01], [0.1, 1, 0.02], [1, 3, 0.1]),
        get: () => store.state.noise,
        set: (noise) => store.set({ noise }),
        text: String,
      }),
      slider({
        label: "runs",
        values: stops([50, 500, 50]),
        get: () => store.state.runs,
        set: (runs) => store.set({ runs }),
        text: String,
      }),
    ];
    const shown = legend(store, ["memory", "sgd", "hb", "nag", "ode"], { ode: "continuous time" });
    place("ensemble-sliders", sliders);
    place("ensemble-legend", shown);
    this.#controls = [...sliders, ...shown];
    find("ensemble-noise").addEventListener("click", () => store.set({ noise: 0.4 }));
  }

  draw(): void {
    const { state } = this.#store;
    for (const control of this.#controls) control.show();
    find("ensemble-quiet").hidden = state.noise > 0;
    // Hidden panels cost nothing: the runs are computed only where they are drawn.
    const shown = METHODS.filter((method) => state.show.includes(method));
    this.#drawCloud(state, shown);
    this.#drawSpread(state, shown);
    write(find("bound-note"), boundFor(state).because);
    write(find("limit-note"), this.#limit(state));
  }

  summary(): string {
    const { state } = this.#store;
    if (state.noise === 0) return "";
    const parts = METHODS.filter((method) => state.show.includes(method)).map(
      (method) => `${STYLES[method].label} ${short(ensembleOf(method, state).mean[state.k])}`,
    );
    return parts.length === 0 ? "" : `Mean loss of ${state.runs} runs at step ${state.k}: ${parts.join(", ")}.`;
  }

  /** What the noise leaves for ever, against SGD. */
  #limit(state: State): string {
    const { spectrum } = landscapeOf(state.f, state.kappa);
    if (spectrum === null || state.noise === 0 || !state.show.includes("memory")) return "";
    const limit = limitLoss(memoryOf(state.memory), state.lr, spectrum, state.noise);
    const sgd = limitLoss(NO_MEMORY, state.lr, spectrum, state.noise);
    if (limit === null || sgd === null) return "";
    return `In the long run this memory’s expected loss settles at ${short(limit)}, ${short(limit / sgd)} times SGD’s.`;
  }

  #drawCloud(state: State, shown: readonly (typeof METHODS)[number][]): void {
    const plot = this.#cloud;
    if (!plot.begin()) return;
    const view = this.#terrain.draw(plot, landscapeOf(state.f, state.kappa));
    const c = plot.context;
    for (const method of [...shown].reverse()) {
      const { x, runs } = ensembleOf(method, state);
      c.fillStyle = colorOf(STYLES[method].color);
      c.globalAlpha = 0.62;
      const from = 2 * state.k * runs;
      const size = method === "memory" ? 2.6 : 2.2;
      c.beginPath();
      for (let i = 0; i < runs; i++) {
        const [u, v] = [view.x(x[from + 2 * i]), view.y(x[from + 2 * i + 1])];
        if (method === "memory") {
          c.moveTo(u + size, v);
          c.arc(u, v, size, 0, 2 * Math.PI);
        } else c.rect(u - size, v - size, 2 * size, 2 * size);
      }
      c.fill();
      c.globalAlpha = 1;
    }
    for (const method of shown) this.#drawEllipse(plot, view, state, method);
    describe(plot.canvas, `Map with the positions of all runs at step ${state.k}. ${this.summary()}`);
  }

  /** Two standard deviations around the mean, along the axes. */
  #drawEllipse(plot: Plot, view: View, state: State, method: (typeof METHODS)[number]): void {
    if (state.noise === 0 || state.k === 0) return;
    const { x, runs } = ensembleOf(method, state);
    const from = 2 * state.k * runs;
    const [mean, square] = [
      [0, 0],
      [0, 0],
    ];
    for (let i = 0; i < 2 * runs; i++) {
      mean[i % 2] += x[from + i] / runs;
      square[i % 2] += x[from + i] ** 2 / runs;
    }
    const sd = [0, 1].map((i) => Math.sqrt(Math.max(0, square[i] - mean[i] ** 2)));
    const [cx, cy] = [view.x(mean[0]), view.y(mean[1])];
    const [rx, ry] = [view.x(mean[0] + 2 * sd[0]) - cx, cy - view.y(mean[1] + 2 * sd[1])];
    if (![cx, cy, rx, ry].every(Number.isFinite) || rx > 1e4 || ry > 1e4) return;
    const angle = (i: number) => (2 * Math.PI * i) / 72;
    const at = (i: number): [number, number] => [cx + rx * Math.cos(angle(i)), cy + ry * Math.sin(angle(i))];
    plot.line(73, at, { color: "--surface", width: 4, alpha: 0.8 });
    plot.line(73, at, { ...STYLES[method], width: 2 });
  }

  #drawSpread(state: State, shown: readonly (typeof METHODS)[number][]): void {
    const plot = this.#curve;
    if (!plot.begin()) return;
    const f = landscapeOf(state.f, state.kappa);
    const first = Math.max(f.value(state.x, state.y), 1e-6);
    const bound = boundFor(state);
    let [low, high] = [first / 10, first * 2];
    for (const method of shown) {
      const { mean } = ensembleOf(method, state);
      for (const value of mean) {
        if (value > 0 && Number.isFinite(value)) {
          low = Math.min(low, value);
          high = Math.max(high, value);
        }
      }
    }
    const flows = flowsOf(state);
    for (const { flow } of flows) high = Math.max(high, flow[state.steps]);
    if (bound.values !== null) high = Math.max(high, Math.min(bound.values[0], 20 * first));
    low = Math.max(low / 4, high * 1e-8);
    const x = scaleLinear([0, state.steps], [plot.left, plot.right]);
    const y = scaleLog([low, Math.min(high * 1.6, low * 1e10)], [plot.bottom, plot.top]);
    plot.axes({ x, y, xLabel: "step k", yLabel: "f(xₖ) − f*: mean, and 80 % of the runs", yIsLog: true, yTicks: 6 });
    const n = state.steps + 1;
    const level = (value: number) => y(Math.max(value, 1e-300));
    plot.inside(() => {
      for (const method of shown) {
        const { at, low: bottom, high: top } = ensembleOf(method, state);
        if (state.noise > 0) {
          const { color } = STYLES[method];
          plot.band(
            at.length,
            (i) => x(at[i]),
            (i) => level(bottom[i]),
            (i) => level(top[i]),
            color,
          );
        }
      }
      for (const method of [...shown].reverse()) {
        const { mean } = ensembleOf(method, state);
        plot.line(n, (k) => [x(k), level(mean[k])], { ...STYLES[method], dash: [], width: 2 });
        const exact = exactLossOf(method, state);
        if (exact !== null) {
          plot.line(n, (k) => [x(k), level(exact[k])], { color: "--surface", width: 3.5, alpha: 0.7 });
          plot.line(n, (k) => [x(k), level(exact[k])], { color: "--ink", width: 1.25, dash: [5, 3] });
        }
      }
      for (const { flow, color } of flows) {
        plot.line(n, (k) => [x(k), level(flow[k])], { color, width: 6, alpha: 0.35 });
      }
      if (bound.values !== null) {
        const { values } = bound;
        plot.line(n, (k) => [x(k), level(values[k])], { color: "--memory", width: 2.25, dash: [1, 4] });
      }
      plot.line(2, (i) => [x(state.k), i === 0 ? plot.top : plot.bottom], { color: "--ink", width: 1, dash: [2, 3] });
    });
    this.#annotate(plot, state, shown, x, level, bound.values);
    describe(
      plot.canvas,
      `Mean and spread of the loss over the steps, logarithmic. ${this.summary()} ${bound.because}`,
    );
  }

  #annotate(
    plot: Plot,
    state: State,
    shown: readonly (typeof METHODS)[number][],
    x: (k: number) => number,
    level: (value: number) => number,
    bound: Float64Array | null,
  ): void {
    const labels: { text: string; style?: Style; y: number }[] = shown.map((method) => ({
      text: STYLES[method].label,
      style: STYLES[method],
      y: level(ensembleOf(method, state).mean[state.steps]),
    }));
    if (bound !== null) labels.push({ text: "theorem", y: level(bound[Math.floor(state.steps * 0.55)]) });
    const at = (text: string) => (text === "theorem" ? x(state.steps * 0.55) : plot.right - 4);
    labels.sort((a, b) => a.y - b.y);
    let last = -Infinity;
    for (const { text, style, y } of labels) {
      if (!Number.isFinite(y)) continue;
      // Labels of lines that meet stand below one another.
      const free = Math.min(plot.bottom - 8, Math.max(plot.top + 6, y - 10, last + 15));
      last = free;
      plot.label(text, at(text), free, "--ink", text === "theorem" ? "center" : "right");
      // The text is ink, which is readable in any color scheme; the marker tells the method.
      if (style) plot.marker(style, at(text) - plot.context.measureText(text).width - 9, free, 4.5);
    }
  }
}

/** The expected losses in continuous time of those methods that are shown. */
function flowsOf(state: State): { flow: Float64Array; color: string }[] {
  if (!state.show.includes("ode")) return [];
  const known = [
    { flow: state.show.includes("memory") ? flowLossOf(state) : null, color: "--ode" },
    { flow: state.show.includes("nag") ? nesterovFlowLossOf(state) : null, color: STYLES.nag.color },
  ];
  return known.flatMap(({ flow, color }) => (flow === null ? [] : [{ flow, color }]));
}
