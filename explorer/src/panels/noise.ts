/** Hundreds of noisy runs, their mean and spread, beside exact moments and the theorem's bound. */

import { scaleLinear, scaleLog } from "d3-scale";

import { describe } from "../announce";
import type { Control } from "../controls";
import { instantaneous } from "../families";
import { METHODS, type MethodName } from "../methods";
import { Ensembles } from "../ensembles";
import type { Engine } from "../engine";
import { boundFor, exactLossOf, flowLossOf, landscapeOf, memoryOf, nesterovFlowLossOf } from "../model";
import { limitLoss } from "../moments";
import { short } from "../numbers";
import { lookOf } from "../looks";
import { STYLES, colorOf } from "../palette";
import { Plot } from "../plot";
import type { State } from "../state";
import type { Store } from "../store";
import type { Terrain, View } from "../terrain";
import { legend } from "./legend";
import { canvasOf, drawNow, find, labelEnds, place, placeNamed, readSteps, write, type Panel } from "./panel";

const NO_MEMORY = instantaneous();

export class NoisePanel implements Panel {
  readonly #store: Store;
  readonly #cloud: Plot;
  readonly #curve: Plot;
  readonly #terrain: Terrain;
  readonly #controls: readonly Control[];
  readonly #ensembles: Ensembles;

  constructor(store: Store, terrain: Terrain, engine: Engine) {
    this.#store = store;
    this.#ensembles = new Ensembles(engine);
    this.#terrain = terrain;
    const redraw = () => store.redraw();
    this.#cloud = new Plot(canvasOf("cloud"), redraw, { top: 0, right: 0, bottom: 0, left: 0 });
    this.#curve = new Plot(canvasOf("spread"), redraw);
    const sliders = placeNamed(store, "noise-sliders", ["noise", "runs", "lr", "kappa", "steps", "momentum", "equal"]);
    const shape = placeNamed(store, "noise-shape", ["shape"]);
    const shown = legend(store, ["memory", "sgd", "hb", "nag", "ode"], { ode: "continuous time" });
    place("noise-legend", shown);
    this.#controls = [...sliders, ...shape, ...shown];
    find("noise-add").addEventListener("click", () => store.set({ noise: 0.4 }));
  }

  draw(): void {
    const { state } = this.#store;
    if (state.panel !== "noise") return;
    for (const control of this.#controls) control.show();
    find("noise-quiet").hidden = state.noise > 0;
    const shown = METHODS.filter((method) => state.show.includes(method) && this.#ensembles.of(method, state) !== null);
    this.#drawCloud(state, shown);
    this.#drawSpread(state, shown);
    write(find("bound-note"), boundFor(state).because);
    write(find("noise-note"), this.#lost(state, shown));
    write(find("limit-note"), this.#limit(state));
  }

  summary(): string {
    const { state } = this.#store;
    if (state.noise === 0 || state.panel !== "noise") return "";
    const parts = METHODS.filter((method) => state.show.includes(method)).flatMap((method) => {
      const found = this.#ensembles.of(method, state);
      return found === null
        ? []
        : [`${lookOf(method, state).label} ${short(found.mean[Math.min(state.k, found.mean.length - 1)])}`];
    });
    return parts.length === 0 ? "" : `Mean loss of ${state.runs} runs at step ${state.k}: ${parts.join(", ")}.`;
  }

  /** Which methods have left, and when. */
  #lost(state: State, shown: readonly MethodName[]): string {
    const first = landscapeOf(state.f, state.kappa).value(state.x, state.y);
    const gone = shown.flatMap((method) => {
      const k = this.#ensembles.of(method, state)!.mean.findIndex((loss) => !(loss < 1e4 * first));
      return k < 0 ? [] : [`${lookOf(method, state).label} diverged at step ${k}`];
    });
    return gone.length === 0 ? "" : `${gone.join(", ")}: choose a smaller η.`;
  }

  /** What the noise leaves for ever, against SGD. */
  #limit(state: State): string {
    const { spectrum } = landscapeOf(state.f, state.kappa);
    if (spectrum === null || state.noise === 0 || !state.show.includes("memory")) return "";
    const memory = memoryOf(state);
    if (memory === null) return "";
    const limit = limitLoss(memory, state.lr, spectrum, state.noise);
    const sgd = limitLoss(NO_MEMORY, state.lr, spectrum, state.noise);
    if (limit === null || sgd === null) return "";
    return `In the long run this memory’s expected loss settles at ${short(limit)}, ${short(limit / sgd)} times SGD’s.`;
  }

  #drawCloud(state: State, shown: readonly MethodName[]): void {
    const plot = this.#cloud;
    if (!plot.begin()) return;
    const view = this.#terrain.draw(plot, landscapeOf(state.f, state.kappa));
    const c = plot.context;
    for (const method of [...shown].reverse()) {
      const { x, runs } = this.#ensembles.of(method, state)!;
      c.fillStyle = colorOf(lookOf(method, state).color);
      c.globalAlpha = 0.62;
      const from = 2 * Math.min(state.k, x.length / (2 * runs) - 1) * runs;
      c.beginPath();
      for (let i = 0; i < runs; i++) {
        addShape(c, lookOf(method, state).marker, view.x(x[from + 2 * i]), view.y(x[from + 2 * i + 1]));
      }
      c.fill();
      c.globalAlpha = 1;
    }
    for (const method of shown) this.#drawEllipse(plot, view, state, method);
    plot.readBy((px, py) => {
      const nearby = shown.map((method) => {
        const { x, runs } = this.#ensembles.of(method, state)!;
        const from = 2 * Math.min(state.k, x.length / (2 * runs) - 1) * runs;
        let count = 0;
        for (let i = 0; i < runs; i++) {
          if (Math.hypot(view.x(x[from + 2 * i]) - px, view.y(x[from + 2 * i + 1]) - py) < 20) count++;
        }
        return `${lookOf(method, state).label}: ${count} of ${runs} runs near here`;
      });
      const place = `x = ${short(view.x.invert(px))}, y = ${short(view.y.invert(py))}`;
      return { x: px, y: py, lines: [place, ...nearby] };
    });
    describe(plot.canvas, `Map with the positions of all runs at step ${state.k}. ${this.summary()}`);
  }

  /** Two standard deviations around the mean, along the axes. */
  #drawEllipse(plot: Plot, view: View, state: State, method: MethodName): void {
    if (state.noise === 0 || state.k === 0) return;
    const { x, runs } = this.#ensembles.of(method, state)!;
    const from = 2 * Math.min(state.k, x.length / (2 * runs) - 1) * runs;
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
    plot.line(73, at, { ...lookOf(method, state), width: 2 });
  }

  #drawSpread(state: State, shown: readonly MethodName[]): void {
    const plot = this.#curve;
    if (!plot.begin()) return;
    const f = landscapeOf(state.f, state.kappa);
    const first = Math.max(f.value(state.x, state.y), 1e-6);
    const bound = boundFor(state);
    let [low, high] = [first / 10, first * 2];
    for (const method of shown) {
      const { mean } = this.#ensembles.of(method, state)!;
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
        const { at, low: bottom, high: top } = this.#ensembles.of(method, state)!;
        if (state.noise > 0) {
          const { color } = lookOf(method, state);
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
        const { mean } = this.#ensembles.of(method, state)!;
        plot.line(n, (k) => [x(k), level(mean[k])], { ...lookOf(method, state), dash: [], width: 2 });
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
      drawNow(plot, x(state.k));
      for (const method of shown) {
        plot.marker(lookOf(method, state), x(state.k), level(this.#ensembles.of(method, state)!.mean[state.k]), 5);
      }
    });
    this.#annotate(plot, state, shown, x, level, bound.values);
    readSteps(plot, x, state.steps, (k) => [
      ...shown.map((method) => {
        const exact = exactLossOf(method, state);
        const mean = short(this.#ensembles.of(method, state)!.mean[k]);
        return `${lookOf(method, state).label} ${mean}${exact === null ? "" : `, exactly ${short(exact[k])}`}`;
      }),
      ...flows.map(({ flow, name }) => `${name} ${short(flow[k])}`),
      ...(bound.values === null ? [] : [`theorem ${short(bound.values[k])}`]),
    ]);
    describe(
      plot.canvas,
      `Mean and spread of the loss over the steps, logarithmic. ${this.summary()} ${bound.because}`,
    );
  }

  #annotate(
    plot: Plot,
    state: State,
    shown: readonly MethodName[],
    x: (k: number) => number,
    level: (value: number) => number,
    bound: Float64Array | null,
  ): void {
    labelEnds(
      plot,
      shown.map((method) => ({
        text: lookOf(method, state).label,
        style: lookOf(method, state),
        y: level(this.#ensembles.of(method, state)!.mean[state.steps]),
      })),
    );
    if (bound === null) return;
    const middle = Math.floor(state.steps * 0.55);
    plot.label("theorem", x(middle), Math.max(plot.top + 6, level(bound[middle]) - 10), "--ink", "center");
  }
}

/** A small mark of a method's own shape, so that clouds can be told apart without colors. */
function addShape(c: CanvasRenderingContext2D, marker: string, x: number, y: number): void {
  const r = 2.5;
  if (marker === "circle") {
    c.moveTo(x + r, y);
    c.arc(x, y, r, 0, 2 * Math.PI);
  } else if (marker === "square") c.rect(x - r, y - r, 2 * r, 2 * r);
  else if (marker === "triangle") {
    c.moveTo(x, y - 1.4 * r);
    c.lineTo(x + 1.3 * r, y + r);
    c.lineTo(x - 1.3 * r, y + r);
  } else {
    c.moveTo(x, y - 1.5 * r);
    c.lineTo(x + 1.5 * r, y);
    c.lineTo(x, y + 1.5 * r);
    c.lineTo(x - 1.5 * r, y);
  }
}

/** The expected losses in continuous time of those methods that are shown. */
function flowsOf(state: State): { flow: Float64Array; color: string; name: string }[] {
  if (!state.show.includes("ode") || state.equal === 1) return [];
  const known = [
    { flow: state.show.includes("memory") ? flowLossOf(state) : null, color: "--ode", name: "MG-SDE" },
    {
      flow: state.show.includes("nag") ? nesterovFlowLossOf(state) : null,
      color: STYLES.nag.color,
      name: "Nesterov’s SDE",
    },
  ];
  return known.flatMap(({ flow, ...rest }) => (flow === null ? [] : [{ flow, ...rest }]));
}
