/** Error and noise of every curvature, the path of one of them, and the sum that the loss is. */

import { scaleLinear, scaleLog } from "d3-scale";

import { describe } from "../announce";
import type { Control } from "../controls";
import { METHODS, type MethodName } from "../methods";
import { lossPartsOf, modesFor, pathOfCurvature } from "../model";
import { CURVATURES, SUMMANDS, characterOf } from "../modes";
import { short } from "../numbers";
import { lookOf } from "../looks";
import { colorOf } from "../palette";
import { Plot, type Scale } from "../plot";
import type { State } from "../state";
import type { Store } from "../store";
import { legend } from "./legend";
import { canvasOf, drawNow, find, labelEnds, place, placeNamed, readSteps, write, type Panel } from "./panel";

const FIRST = CURVATURES[0];
const LAST = CURVATURES[CURVATURES.length - 1];

export class ModesPanel implements Panel {
  readonly #store: Store;
  readonly #front: Plot;
  readonly #path: Plot;
  readonly #floor: Plot;
  readonly #sum: Plot;
  readonly #controls: readonly Control[];

  constructor(store: Store) {
    this.#store = store;
    const redraw = () => store.redraw();
    this.#front = new Plot(canvasOf("front"), redraw);
    this.#path = new Plot(canvasOf("path"), redraw);
    this.#floor = new Plot(canvasOf("floor"), redraw);
    this.#sum = new Plot(canvasOf("sum"), redraw);
    const shown = legend(store, ["memory", "sgd", "hb", "nag"]);
    place("modes-legend", shown);
    const names = ["lam", "kappa", "lr", "noise", "steps", "momentum", "equal"] as const;
    this.#controls = [...placeNamed(store, "modes-sliders", names), ...shown];
    for (const plot of [this.#front, this.#floor]) {
      const choose = (px: number) => {
        const at = curvatureScale(plot).invert(px);
        store.set({ lam: Number(Math.min(LAST, Math.max(FIRST, at)).toPrecision(2)) });
      };
      plot.canvas.addEventListener("click", (event) => choose(event.offsetX));
      plot.canvas.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && plot.reader.at !== null) choose(plot.reader.at.x);
      });
    }
  }

  draw(): void {
    const { state } = this.#store;
    if (state.panel !== "modes") return;
    for (const control of this.#controls) control.show();
    const shown = METHODS.filter((method) => state.show.includes(method));
    this.#drawFront(state, shown);
    drawPath(this.#path, state, shown);
    this.#drawFloor(state, shown);
    this.#drawSum(state);
    write(
      find("modes-character"),
      shown.map((method) => `${lookOf(method, state).label} ${characterText(method, state)}`).join("; ") + ".",
    );
  }

  summary(): string {
    const { state } = this.#store;
    if (state.panel !== "modes") return "";
    const parts = METHODS.filter((method) => state.show.includes(method)).map(
      (method) => `${lookOf(method, state).label} ${short(pathOfCurvature(method, state).mean[state.k])}`,
    );
    return `What is left of the start at step ${state.k}, where ηλ is ${short(state.lam)}: ${parts.join(", ")}.`;
  }

  /** |E x_k| over its start, for all curvatures. */
  #drawFront(state: State, shown: readonly MethodName[]): void {
    const plot = this.#front;
    if (!plot.begin()) return;
    const x = curvatureScale(plot);
    const y = scaleLinear([0, 1.15], [plot.bottom, plot.top]);
    plot.axes({
      x,
      y,
      xLabel: "step size × curvature, ηλ",
      yLabel: `|E xₖ| / |x₀| at step ${state.k}`,
      xIsLog: true,
      yTicks: 4,
    });
    const left = (method: MethodName, i: number) => {
      const { mean, steps } = modesFor(method, state);
      return Math.abs(mean[i * (steps + 1) + state.k]);
    };
    plot.inside(() => {
      for (const method of [...shown].reverse()) {
        const at = (i: number): [number, number] => [x(CURVATURES[i]), y(Math.min(left(method, i), 9))];
        const { color } = lookOf(method, state);
        plot.band(
          CURVATURES.length,
          (i) => x(CURVATURES[i]),
          () => y(0),
          (i) => at(i)[1],
          color,
        );
        plot.line(CURVATURES.length, at, lookOf(method, state));
      }
      drawNow(plot, x(state.lam));
      for (const method of shown) {
        const now = Math.abs(pathOfCurvature(method, state).mean[state.k]);
        plot.marker(lookOf(method, state), x(state.lam), y(Math.min(now, 1.15)), 5.5);
      }
    });
    this.#labelFronts(plot, state, shown, x, y, left);
    this.#readCurvature(plot, x, (i) =>
      shown.map((method) => `${lookOf(method, state).label} ${short(100 * left(method, i))} % left`),
    );
    describe(plot.canvas, `Curve over the curvatures, from flat to steep. ${this.summary()}`);
  }

  /** Where each method has done all but a part e^-1 of the way: its front. */
  #labelFronts(
    plot: Plot,
    state: State,
    shown: readonly MethodName[],
    x: Scale,
    y: Scale,
    left: (method: MethodName, i: number) => number,
  ): void {
    if (state.k === 0) return;
    const level = Math.exp(-1);
    shown.forEach((method, row) => {
      const i = CURVATURES.findIndex((_, at) => left(method, at) < level);
      if (i <= 0) return;
      const [at, look, top] = [x(CURVATURES[i]), lookOf(method, state), plot.top + 8 + 16 * row];
      plot.line(2, (end) => [at, end === 0 ? y(level) : top + 8], { color: look.color, width: 1.5 });
      plot.marker(look, at, y(level), 4.5);
      plot.label(`${look.label}’s front: ${short(CURVATURES[i])}`, at - 4, top, "--ink");
    });
  }

  #drawFloor(state: State, shown: readonly MethodName[]): void {
    const plot = this.#floor;
    if (!plot.begin()) return;
    const x = curvatureScale(plot);
    const level = (method: MethodName, i: number) => {
      const { variance, steps } = modesFor(method, state);
      return 2 * CURVATURES[i] * variance[i * (steps + 1) + state.k];
    };
    let high = 3;
    for (const method of shown) {
      for (let i = 0; i < CURVATURES.length; i++) {
        const value = level(method, i);
        if (Number.isFinite(value) && value < 1e4) high = Math.max(high, value);
      }
    }
    const y = scaleLog([0.01, high * 1.6], [plot.bottom, plot.top]);
    plot.axes({
      x,
      y,
      xLabel: "step size × curvature, ηλ",
      yLabel: `noise at step ${state.k}`,
      xIsLog: true,
      yIsLog: true,
    });
    plot.inside(() => {
      for (const method of [...shown].reverse()) {
        plot.line(
          CURVATURES.length,
          (i) => [x(CURVATURES[i]), y(Math.max(level(method, i), 1e-9))],
          lookOf(method, state),
        );
      }
      drawNow(plot, x(state.lam));
      for (const method of shown) {
        const now = 2 * state.lam * pathOfCurvature(method, state).variance[state.k];
        plot.marker(lookOf(method, state), x(state.lam), y(Math.max(now, 1e-9)), 5.5);
      }
    });
    this.#readCurvature(plot, x, (i) =>
      shown.map((method) => `${lookOf(method, state).label} ${short(level(method, i))}`),
    );
    describe(plot.canvas, `The noise by curvature at step ${state.k}, in units of SGD’s in the long run.`);
  }

  #readCurvature(plot: Plot, x: Scale, lines: (i: number) => string[]): void {
    plot.readBy((px) => {
      const share = (px - plot.left) / (plot.right - plot.left);
      const i = Math.min(CURVATURES.length - 1, Math.max(0, Math.round(share * (CURVATURES.length - 1))));
      return { x: x(CURVATURES[i]), lines: [`ηλ = ${short(CURVATURES[i])}`, ...lines(i)] };
    });
  }

  /** The loss of this memory: nine curvatures and their total. */
  #drawSum(state: State): void {
    const plot = this.#sum;
    if (!plot.begin()) return;
    const { curvatures, parts, total } = lossPartsOf(state);
    const n = state.steps + 1;
    let [low, high] = [1, 1];
    for (const value of total) {
      if (value > 0) low = Math.min(low, value);
      if (value < 1e6) high = Math.max(high, value);
    }
    const x = scaleLinear([0, state.steps], [plot.left, plot.right]);
    const y = scaleLog([Math.max(low, 1e-6) / 30, high * 1.5], [plot.bottom, plot.top]);
    plot.axes({ x, y, xLabel: "step k", yLabel: "E f(xₖ), and its parts", yIsLog: true, yTicks: 5 });
    const level = (value: number) => y(Math.max(value, 1e-300));
    plot.inside(() => {
      for (let i = 0; i < SUMMANDS; i++) {
        const alpha = 0.25 + (0.6 * i) / (SUMMANDS - 1);
        plot.line(n, (k) => [x(k), level(parts[i * n + k])], { color: "--memory", width: 1.25, alpha });
      }
      plot.line(n, (k) => [x(k), level(total[k])], { color: "--ink", width: 2.25 });
      drawNow(plot, x(state.k));
      plot.marker({ marker: "circle", color: "--ink" }, x(state.k), level(total[state.k]), 4.5);
    });
    readSteps(plot, x, state.steps, (k) => [
      `loss ${short(total[k])}`,
      `flattest, λ = ${short(curvatures[0])}: ${short(parts[k])}`,
      `steepest, λ = 1: ${short(parts[(SUMMANDS - 1) * n + k])}`,
    ]);
    describe(
      plot.canvas,
      `The loss over the steps and its parts by curvature; at step ${state.k} it is ${short(total[state.k])}.`,
    );
  }
}

function curvatureScale(plot: Plot): Scale {
  return scaleLog([FIRST, LAST], [plot.left, plot.right]);
}

/** In words: decays, rings or grows. */
function characterText(method: MethodName, state: State): string {
  const { kind, crossings } = characterOf(pathOfCurvature(method, state).mean);
  return kind === "rings" ? `rings, crossing 0 ${crossings} time${crossings === 1 ? "" : "s"}` : kind;
}

/** The mean of one curvature over the steps, within the noise that a unit of it leaves. */
export function drawPath(plot: Plot, state: State, shown: readonly MethodName[]): void {
  if (!plot.begin()) return;
  const x = scaleLinear([0, state.steps], [plot.left, plot.right]);
  let size = 1;
  for (const method of shown) {
    for (const value of pathOfCurvature(method, state).mean)
      if (Math.abs(value) < 1e3) size = Math.max(size, Math.abs(value));
  }
  const y = scaleLinear([-size * 1.12, size * 1.12], [plot.bottom, plot.top]);
  plot.axes({ x, y, xLabel: "step k", yLabel: `E xₖ / x₀ where ηλ = ${short(state.lam)}`, yTicks: 5 });
  const c = plot.context;
  c.strokeStyle = colorOf("--muted");
  c.beginPath();
  c.moveTo(plot.left, y(0));
  c.lineTo(plot.right, y(0));
  c.stroke();
  plot.inside(() => {
    for (const method of [...shown].reverse()) {
      const { mean } = pathOfCurvature(method, state);
      const at = (k: number): [number, number] => [x(k), y(mean[k])];
      plot.line(state.steps + 1, at, { ...lookOf(method, state), width: 1.25, alpha: 0.4 });
      plot.line(state.k + 1, at, lookOf(method, state));
    }
    drawNow(plot, x(state.k));
    for (const method of shown)
      plot.marker(lookOf(method, state), x(state.k), y(pathOfCurvature(method, state).mean[state.k]), 5.5);
  });
  labelEnds(
    plot,
    shown.map((method) => ({
      text: lookOf(method, state).label,
      style: lookOf(method, state),
      y: y(Math.max(-size, Math.min(size, pathOfCurvature(method, state).mean[state.steps]))),
    })),
  );
  readSteps(plot, x, state.steps, (k) =>
    shown.flatMap((method) => {
      const { mean, variance } = pathOfCurvature(method, state);
      return [`${lookOf(method, state).label} ${short(mean[k])}, noise ${short(2 * state.lam * variance[k])}`];
    }),
  );
  const words = shown.map((method) => `${lookOf(method, state).label} ${characterText(method, state)}`).join(", ");
  describe(plot.canvas, `The path of the curvature ηλ = ${short(state.lam)}: ${words}.`);
}
