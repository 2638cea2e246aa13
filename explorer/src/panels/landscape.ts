/** Panel 2: one run of each method on a landscape, beside the memory's path in continuous time. */

import { scaleLinear, scaleLog } from "d3-scale";

import { describe } from "../announce";
import { choice, ratios, slider, stops, type Control } from "../controls";
import type { Landscape, LandscapeName } from "../landscape";
import { METHODS } from "../methods";
import { landscapeOf, memoryOf, odeOf, pathOf, weightsAt } from "../model";
import { short } from "../numbers";
import { STYLES, colorOf } from "../palette";
import { Plot } from "../plot";
import type { State } from "../state";
import type { Store } from "../store";
import type { Terrain, View } from "../terrain";
import { StartHandle } from "./handle";
import { legend } from "./legend";
import { canvasOf, find, place, write, type Panel } from "./panel";

const NO_MARGIN = { top: 0, right: 0, bottom: 0, left: 0 };

const LANDSCAPES: readonly (readonly [LandscapeName, string])[] = [
  ["quadratic", "quadratic"],
  ["quartic", "quartic"],
  ["logcosh", "log-cosh"],
  ["valley", "bent valley"],
];

const FORMULAS: Readonly<Record<LandscapeName, string>> = {
  quadratic: tex`f = \tfrac{1}{2}\,(x^2/\kappa + y^2)`,
  quartic: tex`f = 0.8\,x^4 + 0.4\,y^4`,
  logcosh: tex`f = \log\cosh x + \log\cosh y`,
  valley: tex`f = \tfrac{1}{20}(1-x)^2 + \tfrac{1}{4}(y-x^2)^2`,
};

/** Where runs on each landscape start unless they are told otherwise. */
const STARTS: Readonly<Record<LandscapeName, readonly [number, number]>> = {
  quadratic: [-1.2, 0.9],
  quartic: [1, 1],
  logcosh: [-3, 2],
  valley: [-1.4, 1.2],
};

export class LandscapePanel implements Panel {
  readonly #store: Store;
  readonly #map: Plot;
  readonly #loss: Plot;
  readonly #terrain: Terrain;
  readonly #handle: StartHandle;
  readonly #controls: readonly Control[];
  readonly #conditioning: Control;
  readonly #momentum: Control;

  constructor(store: Store, terrain: Terrain) {
    this.#store = store;
    this.#terrain = terrain;
    const redraw = () => store.redraw();
    this.#map = new Plot(canvasOf("map"), redraw, NO_MARGIN);
    this.#loss = new Plot(canvasOf("loss"), redraw);
    this.#handle = new StartHandle(store, this.#map.canvas);
    this.#conditioning = slider({
      label: "conditioning κ",
      values: ratios(1, 200, 24),
      get: () => store.state.kappa,
      set: (kappa) => store.set({ kappa }),
      text: String,
      hint: "The ratio of the largest to the smallest curvature.",
    });
    this.#momentum = slider({
      label: "heavy-ball’s β",
      values: stops([0, 0.95, 0.01], [0.95, 0.99, 0.005]),
      get: () => store.state.momentum,
      set: (momentum) => store.set({ momentum }),
      text: String,
    });
    const shape = choice({
      legend: "Landscape",
      choices: LANDSCAPES,
      get: () => store.state.f,
      set: (f) => store.set({ f, x: STARTS[f][0], y: STARTS[f][1] }),
    });
    const others = [
      slider({
        label: "step size η",
        values: ratios(0.005, 2, 24),
        get: () => store.state.lr,
        set: (lr) => store.set({ lr }),
        text: String,
        hint: "The same for all methods.",
      }),
      slider({
        label: "noise σ",
        values: stops([0, 0.1, 0.01], [0.1, 1, 0.02], [1, 3, 0.1]),
        get: () => store.state.noise,
        set: (noise) => store.set({ noise }),
        text: String,
        hint: "Standard deviation of the gradient’s noise in each direction.",
      }),
      slider({
        label: "steps K",
        values: stops([20, 200, 10], [200, 1000, 50]),
        get: () => store.state.steps,
        set: (steps) => store.set({ steps, k: Math.min(steps, store.state.k) }),
        text: String,
      }),
    ];
    place("landscape-shape", [shape]);
    place("landscape-sliders", [this.#conditioning, ...others, this.#momentum]);
    const shown = legend(store, ["memory", "ode", "sgd", "hb", "nag"]);
    place("landscape-legend", shown);
    this.#controls = [shape, this.#conditioning, ...others, this.#momentum, ...shown];
    find("new-noise").addEventListener("click", () => store.set({ seed: (store.state.seed + 1) % 10_000 }));
  }

  draw(): void {
    const state = this.#store.state;
    for (const control of this.#controls) control.show();
    this.#conditioning.element.hidden = state.f !== "quadratic";
    this.#momentum.element.hidden = !state.show.includes("hb");
    find("new-noise").hidden = state.noise === 0;
    const formula = find("landscape-formula");
    if (formula.dataset.of !== state.f) {
      formula.dataset.of = state.f;
      formula.innerHTML = FORMULAS[state.f];
    }
    this.#drawMap(state);
    this.#drawLoss(state);
    write(find("landscape-note"), this.#note(state));
  }

  summary(): string {
    const { state } = this.#store;
    const f = landscapeOf(state.f, state.kappa);
    const parts = METHODS.filter((method) => state.show.includes(method)).map((method) => {
      const path = pathOf(method, state);
      return `${STYLES[method].label} ${short(f.value(path[2 * state.k], path[2 * state.k + 1]))}`;
    });
    return parts.length === 0 ? "" : `On the ${state.f} landscape f is, at step ${state.k}: ${parts.join(", ")}.`;
  }

  #note(state: State): string {
    const memory = memoryOf(state.memory);
    if (memory.flow === null && memory.family !== "inst" && state.show.includes("ode")) {
      return "This memory is discrete only: it has decays, but no memory function and so no ODE.";
    }
    const gone = METHODS.filter((method) => state.show.includes(method) && !isFinite(pathOf(method, state).at(-1)!));
    if (gone.length > 0)
      return `${gone.map((method) => STYLES[method].label).join(", ")} diverged: choose a smaller η.`;
    if (state.noise > 0 && state.show.includes("ode")) return "The ODE is that of the gradient without its noise.";
    return "";
  }

  #drawMap(state: State): void {
    const plot = this.#map;
    if (!plot.begin()) return;
    const f = landscapeOf(state.f, state.kappa);
    const view = this.#terrain.draw(plot, f);
    const draw = (path: Float64Array, upTo: number, style: Parameters<Plot["line"]>[2]) =>
      plot.line(upTo + 1, (i) => [view.x(path[2 * i]), view.y(path[2 * i + 1])], style);
    const ode = odeOf(state);
    if (state.show.includes("ode") && ode !== null) {
      draw(ode, state.steps, { color: "--ode", width: 8, alpha: 0.38 });
    }
    for (const method of [...METHODS].reverse()) {
      if (!state.show.includes(method)) continue;
      const path = pathOf(method, state);
      draw(path, state.steps, { ...STYLES[method], width: 1.25, alpha: 0.35 });
      draw(path, state.k, STYLES[method]);
    }
    if (state.show.includes("memory")) this.#drawRemembered(plot, view, f, state);
    for (const method of [...METHODS].reverse()) {
      if (!state.show.includes(method)) continue;
      const path = pathOf(method, state);
      plot.marker(STYLES[method], view.x(path[2 * state.k]), view.y(path[2 * state.k + 1]), 6.5);
    }
    this.#handle.show(view);
    describe(plot.canvas, `Map of the ${state.f} landscape with the paths of the methods. ${this.summary()}`);
  }

  /** Every past iterate, as large as its gradient weighs now; the newest gradient, and the remembered one. */
  #drawRemembered(plot: Plot, view: View, f: Landscape, state: State): void {
    const path = pathOf("memory", state);
    const w = weightsAt(memoryOf(state.memory), state.k);
    const c = plot.context;
    c.fillStyle = colorOf("--memory");
    c.globalAlpha = 0.5;
    for (let j = 0; j <= state.k; j++) {
      const radius = Math.min(11, 26 * Math.sqrt(w[j]));
      if (radius < 0.7) continue;
      c.beginPath();
      c.arc(view.x(path[2 * j]), view.y(path[2 * j + 1]), radius, 0, 2 * Math.PI);
      c.fill();
    }
    c.globalAlpha = 1;
    if (state.k >= state.steps) return;
    const at = 2 * state.k;
    const g = new Float64Array(2);
    f.gradient(path[at], path[at + 1], g);
    const u = [(path[at] - path[at + 2]) / state.lr, (path[at + 1] - path[at + 3]) / state.lr];
    const longest = Math.max(Math.hypot(g[0], g[1]), Math.hypot(u[0], u[1]), 1e-9);
    // Long arrows are cut, short ones grow: their ratio is what matters.
    const scale = Math.min(90, 26 + 240 * longest) / longest;
    const [x, y] = [view.x(path[at]), view.y(path[at + 1])];
    plot.arrow(x, y, -g[0] * scale, g[1] * scale, "--ink", 1.5);
    plot.arrow(x, y, -u[0] * scale, u[1] * scale, "--memory", 3);
  }

  #drawLoss(state: State): void {
    const plot = this.#loss;
    if (!plot.begin()) return;
    const f = landscapeOf(state.f, state.kappa);
    const first = f.value(state.x, state.y);
    const x = scaleLinear([0, state.steps], [plot.left, plot.right]);
    const y = scaleLog([Math.max(first, 1e-6) * 1e-6, Math.max(first, 1e-6) * 4], [plot.bottom, plot.top]);
    plot.axes({ x, y, xLabel: "step k", yLabel: "f(xₖ) − f*", yIsLog: true, yTicks: 7 });
    const draw = (path: Float64Array, style: Parameters<Plot["line"]>[2]) =>
      plot.line(state.steps + 1, (k) => [x(k), y(Math.max(1e-300, f.value(path[2 * k], path[2 * k + 1])))], style);
    plot.inside(() => {
      const ode = odeOf(state);
      if (state.show.includes("ode") && ode !== null) draw(ode, { color: "--ode", width: 6, alpha: 0.38 });
      for (const method of [...METHODS].reverse()) {
        if (state.show.includes(method)) draw(pathOf(method, state), STYLES[method]);
      }
      plot.line(2, (i) => [x(state.k), i === 0 ? plot.top : plot.bottom], { color: "--ink", width: 1, dash: [2, 3] });
      for (const method of METHODS) {
        if (!state.show.includes(method)) continue;
        const path = pathOf(method, state);
        const loss = f.value(path[2 * state.k], path[2 * state.k + 1]);
        plot.marker(STYLES[method], x(state.k), y(Math.max(1e-300, loss)), 5);
      }
    });
    describe(plot.canvas, `The loss over the steps on a logarithmic scale. ${this.summary()}`);
  }
}
