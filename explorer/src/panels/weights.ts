/** What is remembered, and how strongly: weights, gain, noise and forgetting, the carpet and the passport. */

import { scaleLinear, scaleLog } from "d3-scale";

import { describe } from "../announce";
import { Carpet } from "../carpet";
import type { Control } from "../controls";
import { exponential, polynomial } from "../families";
import { METHODS, type MethodName } from "../methods";
import { histories, plain } from "../mixture";
import { historiesOf, memoryOf, mixtureOfState, mixturePassportOf, passportAt, weightsOf } from "../model";
import { short } from "../numbers";
import { lookOf } from "../looks";
import { STYLES, colorOf } from "../palette";
import { Plot, type Scale } from "../plot";
import { SCENES, type History, type State } from "../state";
import type { Store } from "../store";
import { Builder } from "./builder";
import { DrawingBoard } from "./drawingboard";
import { legend } from "./legend";
import { canvasOf, drawNow, find, labelEnds, place, placeNamed, readSteps, write, type Panel } from "./panel";

const CAPTIONS: Readonly<Record<History, string>> = {
  gain: "The gain: the sum of all weights, by which a constant slope is multiplied.",
  noise: "The variance factor: the sum of the squared weights, by which the variance of errors is multiplied.",
  first: "The weight that is left of the first gradient. Straight lines are powers of k.",
};
const AXES: Readonly<Record<History, string>> = {
  gain: "gain Γₖ = Σ w(j, k)",
  noise: "variance factor Σ w(j, k)²",
  first: "weight of the first gradient, w(0, k)",
};

/** The passport's entries: what each is, and its definition. */
const TERMS: Readonly<Record<string, readonly [string, string]>> = {
  gain: ["gain", "The sum of all weights: by how much a constant gradient is multiplied. 1 for a memory."],
  meanAge: ["mean age", "How old the gradients in the step are on average, each counted by its weight."],
  halfLife: ["half-life", "The smallest age such that all older gradients together hold at most half of the weight."],
  noise: [
    "variance factor",
    "The sum of the squared weights: by how much the variance of independent errors is multiplied.",
  ],
  samples: ["effective samples", "How many equally weighted gradients would average the noise as well."],
  newest: ["newest weight", "The weight of the gradient of this very step, 1 − bₖ for a memory."],
  first: ["first gradient’s weight", "What is left of the gradient of step 0."],
  degree: ["local degree p", "The degree of the polynomial memory that has the same newest weight at this step."],
  beta: ["equivalent β", "The constant decay whose average is as old in the long run."],
};

const EXPONENTIAL = plain(exponential(0.9));
const AVERAGE = plain(polynomial(1));

export class WeightsPanel implements Panel {
  readonly #store: Store;
  readonly #growth: Plot;
  readonly #influence: Plot;
  readonly #history: Plot;
  readonly #carpet: Carpet;
  readonly #board: DrawingBoard;
  readonly #builder: Builder;
  readonly #controls: readonly Control[];
  #passport = "";

  constructor(store: Store) {
    this.#store = store;
    const redraw = () => store.redraw();
    this.#growth = new Plot(canvasOf("growth"), redraw);
    this.#influence = new Plot(canvasOf("influence"), redraw);
    this.#history = new Plot(canvasOf("history"), redraw);
    this.#carpet = new Carpet(canvasOf("carpet"), redraw);
    this.#board = new DrawingBoard(store);
    this.#builder = new Builder(store);
    const shown = legend(store, ["sgd", "hb", "nag"]);
    place("weights-legend", shown);
    this.#controls = [...placeNamed(store, "history-choice", ["history", "equal"]), ...shown];
  }

  draw(): void {
    const { state } = this.#store;
    if (state.panel !== "weights") return;
    for (const control of this.#controls) control.show();
    this.#builder.draw();
    find("panel-weights").classList.toggle("is-building", state.step === SCENES);
    const mixture = mixtureOfState(state);
    const isDrawn = mixture.parts.some(({ memory }) => memory.family === "draw");
    find("growth-figure").hidden = isDrawn;
    find("board-figure").hidden = !isDrawn;
    this.#board.draw();
    if (!isDrawn) this.#drawGrowth(state);
    this.#drawInfluence(state);
    this.#drawHistory(state);
    this.#carpet.draw(mixture, state.k, state.steps, state.equal === 1);
    this.#writePassport(state);
  }

  summary(): string {
    const { state } = this.#store;
    if (state.panel !== "weights") return "";
    const { gain, meanAge, halfLife, varianceFactor } = mixturePassportOf(state);
    const name = state.memory.includes("draw:") ? "drawn by hand" : state.memory;
    return (
      `Memory ${name} at step ${state.k}: gain ${short(gain)}, mean age ${short(meanAge)} steps, ` +
      `half-life ${halfLife} steps, variance factor ${short(varianceFactor)}.`
    );
  }

  /** The share of the weight on gradients up to each step. */
  #drawGrowth(state: State): void {
    const plot = this.#growth;
    if (!plot.begin()) return;
    const { k, steps } = state;
    const memory = memoryOf(state);
    const x = scaleLinear([0, steps], [plot.left, plot.right]);
    const y = scaleLinear([0, 1], [plot.bottom, plot.top]);
    plot.axes({ x, y, xLabel: "time, in steps", yLabel: "share of the weight", yTicks: 4 });
    const w = weightsOf(state);
    const { gain, halfLife } = mixturePassportOf(state);
    const shares = new Float64Array(k + 1);
    w.forEach((weight, j) => (shares[j] = (j === 0 ? 0 : shares[j - 1]) + weight / gain));
    plot.inside(() => {
      const flow = memory?.flow ?? null;
      if (memory !== null && flow !== null) {
        const now = (k + 1) * memory.h;
        const at = (i: number): [number, number] => {
          const j = ((k + 1) * i) / 400;
          return [x(j), y(flow.survival(j * memory.h, now))];
        };
        plot.line(401, at, { color: "--memory", width: 2.5 });
      }
      // The discrete shares, as steps.
      const c = plot.context;
      c.fillStyle = colorOf("--memory");
      const thin = Math.max(1, Math.ceil(steps / 100));
      for (let j = 0; j <= k; j++) {
        if (j % thin === 0 || j === k) c.fillRect(x(j + 1) - 2, y(shares[j]) - 2, 4, 4);
      }
    });
    const half = x(Math.max(0, k - halfLife));
    plot.line(2, (i) => [i === 0 ? half : x(k), y(0.5)], { color: "--ink", width: 1, dash: [2, 3] });
    plot.line(2, (i) => [half, i === 0 ? y(0.5) : plot.bottom], { color: "--ink", width: 1, dash: [2, 3] });
    const words = `half-life ${halfLife}`;
    const fits = plot.left + plot.context.measureText(words).width + 14 < half;
    plot.label(words, fits ? half - 6 : x(k) + 8, y(0.5) - 10, "--ink", fits ? "right" : "left");
    readSteps(plot, x, k, (j) => [`gradients up to here hold ${short(100 * shares[j])} %`]);
    describe(
      plot.canvas,
      `The share of the weight on the gradients up to each step, rising from 0 to 1 at step ${k}. ` +
        `The half-life is ${halfLife} steps.`,
    );
  }

  #drawInfluence(state: State): void {
    const plot = this.#influence;
    if (!plot.begin()) return;
    const { k, steps } = state;
    const mixture = mixtureOfState(state);
    const w = weightsOf(state);
    const { gain, meanAge, varianceFactor } = mixturePassportOf(state);
    const amplifies = Math.abs(gain - 1) > 1e-9;
    // Beside the variance factor stand its summands: the squares.
    const isSquared = state.history === "noise";
    const bars = isSquared ? w.map((weight) => weight * weight) : w;
    const largest = bars.reduce((a, b) => Math.max(a, b), 0);
    const x = scaleLinear([-0.5, steps + 0.5], [plot.left, plot.right]);
    const y = scaleLinear([0, largest * 1.2], [plot.bottom, plot.top]);
    const yLabel = isSquared ? "squared weight w(j, k)²" : "weight w(j, k)";
    plot.axes({ x, y, xLabel: "gradient of step j", yLabel, yTicks: 4 });
    drawBars(plot, bars, x, y, lookOf("memory", state).color);
    const flow = mixture.memory?.flow ?? null;
    if (mixture.memory !== null && flow !== null && k > 0 && !isSquared) drawDensity(plot, mixture.memory, k, x, y);
    if (amplifies) drawOutlines(plot, bars, isSquared ? gain * gain : gain, x, y);
    const mean = x(k - meanAge);
    plot.line(2, (i) => [mean, i === 0 ? plot.top + 14 : plot.bottom], { color: "--ink", width: 1.25 });
    plot.label(`mean age ${short(meanAge)}`, mean, plot.top + 5, "--ink", "center");
    plot.label(`sum ${short(isSquared ? varianceFactor : gain)}`, plot.left + 6, plot.top + 5);
    if (state.history === "first") {
      plot.label(`first ${short(w[0])}`, x(0) + 8, y(w[0]) - 16);
      plot.arrow(x(0) + 14, y(w[0]) - 11, -11, 9, "--ink", 1.25);
    }
    const squared =
      "The squares of the weights, by which errors add up. Outlines: after dividing the weights by their sum.";
    write(
      find("influence-caption"),
      isSquared
        ? squared.slice(0, amplifies ? undefined : squared.indexOf(" Outlines"))
        : amplifies
          ? "How much each past gradient counts now. Outlines: the same weights divided by their sum."
          : "How much each past gradient counts now. They sum to 1." +
            (flow === null || isSquared ? "" : " The line is their continuous limit."),
    );
    readSteps(plot, x, k, (j) => [
      `weight ${short(w[j])}`,
      ...(isSquared ? [`squared ${short(bars[j])}`] : []),
      ...(amplifies ? [`normalized ${short(w[j] / gain)}`] : []),
      `age ${k - j}`,
    ]);
    describe(
      plot.canvas,
      `Bar chart of the weights of the gradients 0 to ${k} in step ${k}: the oldest weighs ${short(w[0])}, ` +
        `the newest ${short(w[k])}, their sum is ${short(gain)} and their mean age ${short(meanAge)} steps.`,
    );
  }

  #drawHistory(state: State): void {
    const plot = this.#history;
    if (!plot.begin()) return;
    const { history, steps, k } = state;
    const isLog = history !== "gain";
    const chosen = lookOf("memory", state);
    // A method that is the chosen one is not drawn a second time.
    const shown: readonly MethodName[] = METHODS.filter(
      (name) => name === "memory" || (state.show.includes(name) && STYLES[name] !== chosen),
    );
    const curves = shown.map((name) => ({
      label: lookOf(name, state).label,
      style: lookOf(name, state),
      values: historiesOf(name, state)[history],
    }));
    const references = referencesOf(state);
    const all = [...curves, ...references].flatMap(({ values }) => [...values]).filter((value) => value > 0);
    const high = Math.max(1, ...all) * (isLog ? 1.5 : 1.12);
    const low = isLog ? Math.max(Math.min(...all), high * 1e-8) / 1.5 : 0;
    const x = isLog
      ? scaleLog([1, steps + 1], [plot.left, plot.right])
      : scaleLinear([0, steps], [plot.left, plot.right]);
    const at = (i: number) => x(isLog ? i + 1 : i);
    const y: Scale = isLog
      ? scaleLog([low, high], [plot.bottom, plot.top])
      : scaleLinear([low, high], [plot.bottom, plot.top]);
    plot.axes({
      x,
      y,
      xLabel: isLog ? "step k + 1" : "step k",
      yLabel: AXES[history],
      xIsLog: isLog,
      yIsLog: isLog,
      yTicks: 5,
    });
    const level = (value: number) => y(Math.max(value, isLog ? 1e-300 : 0));
    plot.inside(() => {
      for (const { values, dash } of references) {
        plot.line(steps + 1, (i) => [at(i), level(values[i])], { color: "--muted", width: 1.5, dash });
      }
      for (const { values, style } of [...curves].reverse()) {
        plot.line(steps + 1, (i) => [at(i), level(values[i])], {
          color: style.color,
          dash: style.dash,
          width: 1.25,
          alpha: 0.5,
        });
        plot.line(k + 1, (i) => [at(i), level(values[i])], style);
      }
      drawNow(plot, at(k));
      for (const { values, style } of curves) plot.marker(style, at(k), level(values[k]), 5.5);
    });
    labelEnds(plot, [
      ...curves.map(({ label, style, values }) => ({ text: label, style, y: level(values[steps]) })),
      ...references.map(({ label, values }) => ({ text: label, y: level(values[steps]) })),
    ]);
    write(find("history-caption"), CAPTIONS[history]);
    plot.readBy((px) => {
      const i = Math.min(steps, Math.max(0, Math.round(x.invert(px) - (isLog ? 1 : 0))));
      const lines = [...curves, ...references].map(({ label, values }) => `${label} ${short(values[i])}`);
      return { x: at(i), lines: [`step ${i}`, ...lines] };
    });
    const words = curves.map(({ label, values }) => `${label} ${short(values[k])}`).join(", ");
    describe(plot.canvas, `${CAPTIONS[history]} At step ${k}: ${words}.`);
  }

  #writePassport(state: State): void {
    const memory = memoryOf(state);
    const of = mixturePassportOf(state);
    const rows: [string, string][] = [
      ["gain", short(of.gain)],
      ["meanAge", `${short(of.meanAge)} steps`],
      ["halfLife", `${of.halfLife} steps`],
      ["noise", short(of.varianceFactor)],
      ["newest", short(of.newestWeight)],
      ["first", short(of.firstWeight)],
    ];
    if (memory !== null) {
      const p = passportAt(memory, state.k);
      rows.push(["samples", short(p.effectiveSamples)]);
      rows.push(["degree", p.localDegree === null ? "any" : short(p.localDegree)]);
      rows.push(["beta", short(p.equivalentBeta)]);
    }
    write(find("passport-step"), String(state.k));
    const names = rows.map(([name]) => name).join(" ");
    if (names !== this.#passport) {
      this.#passport = names;
      find("passport").innerHTML = rows
        .map(([name]) => {
          const [term, tip] = TERMS[name];
          return `<div><dt><button type="button" class="term" data-tip="${tip}">${term}</button></dt><dd id="passport-${name}"></dd></div>`;
        })
        .join("");
    }
    for (const [name, text] of rows) write(find(`passport-${name}`), text);
  }
}

/** Bars with gaps for as long as there is room for them. */
function drawBars(plot: Plot, w: Float64Array, x: Scale, y: Scale, color: string): void {
  const c = plot.context;
  const width = x(1) - x(0);
  const gap = width > 2.5 ? Math.max(1, 0.22 * width) : 0;
  c.fillStyle = colorOf(color);
  c.globalAlpha = 0.8;
  for (let j = 0; j < w.length; j++) {
    c.fillRect(x(j - 0.5) + gap / 2, y(w[j]), Math.max(width - gap, 0.7), plot.bottom - y(w[j]));
  }
  c.globalAlpha = 1;
}

/** The same weights divided by their sum, as a staircase. */
function drawOutlines(plot: Plot, w: Float64Array, gain: number, x: Scale, y: Scale): void {
  const at = (i: number): [number, number] => [x((i >> 1) - 0.5 + (i & 1)), y(w[i >> 1] / gain)];
  plot.line(2 * w.length, at, { color: "--surface", width: 3.5 });
  plot.line(2 * w.length, at, { color: "--ink", width: 1.25 });
}

function drawDensity(plot: Plot, memory: ReturnType<typeof polynomial>, k: number, x: Scale, y: Scale): void {
  const now = (k + 1) * memory.h;
  const at = (i: number): [number, number] => {
    // Never at 0 itself, where some influences are infinite.
    const j = ((k + 1) * (i + 0.5)) / 301;
    return [x(j - 0.5), y(memory.h * memory.flow!.influence(j * memory.h, now))];
  };
  plot.inside(() => plot.line(301, at, { color: "--memory-dark", width: 1.75 }));
}

interface Reference {
  readonly label: string;
  readonly values: Float64Array;
  readonly dash: readonly number[];
}

/** What to compare with: the same weights normalized, and for forgetting an exponential memory and the plain average. */
function referencesOf(state: State): Reference[] {
  const mixture = mixtureOfState(state);
  const found: Reference[] = [];
  if (mixture.memory === null && state.equal === 0) {
    found.push({ label: "normalized", values: histories(mixture, state.steps, true)[state.history], dash: [2, 3] });
  }
  if (state.history === "first") {
    for (const [label, other, dash] of [
      ["exponential, β = 0.9", EXPONENTIAL, [5, 3]],
      ["plain average", AVERAGE, [1, 3]],
    ] as const) {
      if (other.text !== mixture.text) found.push({ label, values: histories(other, state.steps).first, dash });
    }
  }
  return found;
}
