/** One run of each method on a landscape, beside the memory's path in continuous time. */

import { scaleLinear, scaleLog } from "d3-scale";

import { describe } from "../announce";
import type { Control } from "../controls";
import type { Landscape, LandscapeName } from "../landscape";
import { METHODS, divergedAt, type MethodName } from "../methods";
import { landscapeOf, memoryOf, odeOf, pathOf, weightsOf } from "../model";
import { short } from "../numbers";
import { lookOf } from "../looks";
import { STYLES, colorOf } from "../palette";
import { Plot } from "../plot";
import type { State } from "../state";
import type { Store } from "../store";
import type { Terrain, View } from "../terrain";
import { StartHandle } from "./handle";
import { legend } from "./legend";
import { canvasOf, drawNow, find, labelEnds, place, placeNamed, readSteps, write, type Panel } from "./panel";

const NO_MARGIN = { top: 0, right: 0, bottom: 0, left: 0 };

const FORMULAS: Readonly<Record<LandscapeName, string>> = {
  quadratic: tex`f = \tfrac{1}{2}\,(x^2/\kappa + y^2)`,
  quartic: tex`f = 0.8\,x^4 + 0.4\,y^4`,
  logcosh: tex`f = \log\cosh x + \log\cosh y`,
  valley: tex`f = \tfrac{1}{20}(1-x)^2 + \tfrac{1}{4}(y-x^2)^2`,
};

export class DescentPanel implements Panel {
  readonly #store: Store;
  readonly #map: Plot;
  readonly #loss: Plot;
  readonly #terrain: Terrain;
  readonly #handle: StartHandle;
  readonly #controls: readonly Control[];
  readonly #byName = new Map<string, Control>();

  constructor(store: Store, terrain: Terrain) {
    this.#store = store;
    this.#terrain = terrain;
    const redraw = () => store.redraw();
    this.#map = new Plot(canvasOf("map"), redraw, NO_MARGIN);
    this.#loss = new Plot(canvasOf("loss"), redraw);
    this.#handle = new StartHandle(store, this.#map.canvas);
    const names = ["kappa", "lr", "noise", "steps", "momentum", "equal"] as const;
    const sliders = placeNamed(store, "descent-sliders", names);
    names.forEach((name, i) => this.#byName.set(name, sliders[i]));
    const shape = placeNamed(store, "descent-shape", ["shape"]);
    const shown = legend(store, ["memory", "ode", "sgd", "hb", "nag"]);
    place("descent-legend", shown);
    this.#controls = [...sliders, ...shape, ...shown];
    find("new-noise").addEventListener("click", () => store.set({ seed: (store.state.seed + 1) % 10_000 }));
  }

  draw(): void {
    const state = this.#store.state;
    if (state.panel !== "descent") return;
    for (const control of this.#controls) control.show();
    this.#byName.get("kappa")!.element.hidden = state.f !== "quadratic";
    this.#byName.get("momentum")!.element.hidden = !state.show.includes("hb");
    // The first scene has one ball and one slider, before there is anything else to understand.
    find("panel-descent").classList.toggle("is-simple", state.step === 1);
    find("new-noise").hidden = state.noise === 0;
    const formula = find("descent-formula");
    if (formula.dataset.of !== state.f) {
      formula.dataset.of = state.f;
      formula.innerHTML = FORMULAS[state.f];
    }
    this.#drawMap(state);
    this.#drawLoss(state);
    write(find("descent-note"), this.#note(state));
  }

  summary(): string {
    const { state } = this.#store;
    const f = landscapeOf(state.f, state.kappa);
    const parts = METHODS.filter((method) => state.show.includes(method)).map((method) => {
      const path = pathOf(method, state);
      return `${lookOf(method, state).label} ${short(f.value(path[2 * state.k], path[2 * state.k + 1]))}`;
    });
    return parts.length === 0 || state.panel !== "descent"
      ? ""
      : `On the ${state.f} landscape f is, at step ${state.k}: ${parts.join(", ")}.`;
  }

  #note(state: State): string {
    const shown = METHODS.filter((method) => state.show.includes(method));
    const gone = shown.flatMap((method) => {
      const k = this.#lost(method, state);
      return k === null ? [] : [`${lookOf(method, state).label} diverged at step ${k}`];
    });
    if (gone.length > 0) return `${gone.join(", ")}: choose a smaller η.`;
    if (!state.show.includes("ode") || state.step === 1) return "";
    const memory = memoryOf(state);
    if (memory === null) return "A mixture with gain has no ODE here: only memories whose weights sum to 1 do.";
    if (memory.flow === null && memory.family !== "inst") {
      return "This memory is discrete only: it has decays, but no memory function and so no ODE.";
    }
    return state.noise > 0 ? "The ODE is that of the gradient without its noise." : "";
  }

  /** The step at which a run is ten views away, or null. */
  #lost(method: MethodName, state: State): number | null {
    const { view } = landscapeOf(state.f, state.kappa);
    return divergedAt(pathOf(method, state), 10 * (view.x[1] - view.x[0]));
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
      draw(path, state.steps, { ...lookOf(method, state), width: 1.25, alpha: 0.35 });
      draw(path, state.k, state.step === 1 ? { ...lookOf(method, state), dash: [] } : lookOf(method, state));
    }
    if (state.show.includes("memory") && state.step !== 1) this.#drawRemembered(plot, view, f, state);
    for (const method of [...METHODS].reverse()) {
      if (!state.show.includes(method)) continue;
      const path = pathOf(method, state);
      const size = state.step === 1 ? 9 : 6.5;
      plot.marker(lookOf(method, state), view.x(path[2 * state.k]), view.y(path[2 * state.k + 1]), size);
    }
    this.#handle.show(view);
    plot.readBy((px, py) => {
      const [at, height] = [view.x.invert(px), view.y.invert(py)];
      return { x: px, y: py, lines: [`x = ${short(at)}, y = ${short(height)}`, `f = ${short(f.value(at, height))}`] };
    });
    describe(plot.canvas, `Map of the ${state.f} landscape with the paths of the methods. ${this.summary()}`);
  }

  /** Every past iterate, as large as its gradient weighs now; the newest gradient, and the remembered one. */
  #drawRemembered(plot: Plot, view: View, f: Landscape, state: State): void {
    const path = pathOf("memory", state);
    const w = weightsOf(state);
    const gain = w.reduce((sum, each) => sum + each, 0);
    const c = plot.context;
    c.fillStyle = colorOf(lookOf("memory", state).color);
    c.globalAlpha = 0.5;
    for (let j = 0; j <= state.k; j++) {
      const radius = Math.min(11, 26 * Math.sqrt(w[j] / Math.max(1, gain)));
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
    plot.arrow(x, y, -u[0] * scale, u[1] * scale, lookOf("memory", state).color, 3);
  }

  #drawLoss(state: State): void {
    const plot = this.#loss;
    if (!plot.begin()) return;
    const f = landscapeOf(state.f, state.kappa);
    const first = f.value(state.x, state.y);
    const x = scaleLinear([0, state.steps], [plot.left, plot.right]);
    const y = scaleLog([Math.max(first, 1e-6) * 1e-6, Math.max(first, 1e-6) * 4], [plot.bottom, plot.top]);
    plot.axes({ x, y, xLabel: "step k", yLabel: "f(xₖ) − f*", yIsLog: true, yTicks: 7 });
    const lossAt = (path: Float64Array, k: number) => f.value(path[2 * k], path[2 * k + 1]);
    const level = (loss: number) => y(Math.max(1e-300, loss));
    const draw = (path: Float64Array, style: Parameters<Plot["line"]>[2]) =>
      plot.line(state.steps + 1, (k) => [x(k), level(lossAt(path, k))], style);
    const shown = METHODS.filter((method) => state.show.includes(method));
    const ode = state.show.includes("ode") ? odeOf(state) : null;
    plot.inside(() => {
      if (ode !== null) draw(ode, { color: "--ode", width: 6, alpha: 0.38 });
      for (const method of [...shown].reverse()) draw(pathOf(method, state), lookOf(method, state));
      drawNow(plot, x(state.k));
      for (const method of shown) {
        plot.marker(lookOf(method, state), x(state.k), level(lossAt(pathOf(method, state), state.k)), 5);
      }
    });
    labelEnds(
      plot,
      shown.map((method) => ({
        text: lookOf(method, state).label,
        style: lookOf(method, state),
        y: level(lossAt(pathOf(method, state), state.steps)),
      })),
    );
    readSteps(plot, x, state.steps, (k) => [
      ...shown.map((method) => `${lookOf(method, state).label} ${short(lossAt(pathOf(method, state), k))}`),
      ...(ode === null ? [] : [`${STYLES.ode.label} ${short(lossAt(ode, k))}`]),
    ]);
    describe(plot.canvas, `The loss over the steps on a logarithmic scale. ${this.summary()}`);
  }
}
