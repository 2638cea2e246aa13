/** Power-law spectra: the exact risk of streaming least squares, and the exponents that theory gives. */

import { scaleLog } from "d3-scale";

import { describe } from "../announce";
import type { Control } from "../controls";
import type { Engine } from "../engine";
import { polynomial } from "../families";
import type { Risk } from "../jobs";
import { METHODS, type MethodName } from "../methods";
import { plain } from "../mixture";
import { methodMixture, mixtureOfState } from "../model";
import { short } from "../numbers";
import { lookOf } from "../looks";
import { STYLES, type Style } from "../palette";
import { Plot, type Scale } from "../plot";
import { exponentOf } from "../powerlaw";
import type { State } from "../state";
import type { Store } from "../store";
import { legend } from "./legend";
import { canvasOf, find, labelEnds, place, placeNamed, write, type EndLabel, type Panel } from "./panel";

/** Steps of the risk: the last decade gives the exponent. */
const STEPS = 30_000;
/** A memory with gain 1, for comparison. */
const AVERAGE = plain(polynomial(8));
const AVERAGE_STYLE: Style = { label: "poly:8", color: "--exp", dash: [6, 2, 2, 2], width: 2, marker: "square" };

interface Curve {
  readonly name: string;
  readonly label: string;
  readonly style: Style;
  readonly risk: Risk;
}

export class PowerLawPanel implements Panel {
  readonly #store: Store;
  readonly #engine: Engine;
  readonly #plot: Plot;
  readonly #controls: readonly Control[];
  #curves: readonly Curve[] = [];

  constructor(store: Store, engine: Engine) {
    this.#store = store;
    this.#engine = engine;
    this.#plot = new Plot(canvasOf("risk"), () => store.redraw());
    const shown = legend(store, ["memory", "sgd", "hb", "nag"]);
    place("powerlaw-legend", shown);
    const names = ["nu", "zeta", "batch", "lr", "momentum", "equal"] as const;
    this.#controls = [...placeNamed(store, "powerlaw-sliders", names), ...shown];
    find("take-gain").addEventListener("click", () => {
      const exponent = Number((1 - 1 / store.state.nu).toPrecision(3));
      store.set({ memory: `inst + 0.1*(1+k)^${exponent}*poly:4` });
    });
  }

  draw(): void {
    const { state } = this.#store;
    if (state.panel !== "powerlaw") return;
    for (const control of this.#controls) control.show();
    const chosen = lookOf("memory", state);
    const shown = METHODS.filter(
      (method) => state.show.includes(method) && (method === "memory" || STYLES[method] !== chosen),
    );
    const asked = shown.map((method) => ({
      name: method as string,
      label: lookOf(method, state).label,
      style: lookOf(method, state),
      mixture: methodMixture(method as MethodName, state),
    }));
    asked.push({ name: "average", label: AVERAGE_STYLE.label, style: AVERAGE_STYLE, mixture: AVERAGE });
    this.#curves = asked.flatMap(({ name, label, style, mixture }) => {
      const { answer } = this.#engine.ask(`risk ${name}`, {
        kind: "risk",
        memory: mixture.text,
        lr: state.lr,
        steps: STEPS,
        isEqual: state.equal === 1,
        nu: state.nu,
        zeta: state.zeta,
        batch: state.batch,
      });
      return answer === null ? [] : [{ name, label, style, risk: answer }];
    });
    this.#draw(state);
    write(find("powerlaw-note"), this.#exponents(state));
    write(
      find("risk-caption"),
      `Exact expected risk over ${STEPS.toLocaleString("en")} steps, ν = ${state.nu}, ζ = ${state.zeta}, minibatches of ${state.batch}. ` +
        "Dotted: the slopes that theory gives.",
    );
  }

  summary(): string {
    return this.#store.state.panel === "powerlaw" ? this.#exponents(this.#store.state) : "";
  }

  #exponents(state: State): string {
    const found = this.#curves.map(({ label, risk }) => {
      const exponent = exponentOf(risk.at, risk.risk);
      if (exponent !== null) return `${label} ${exponent.toFixed(2)}`;
      const lost = risk.at[risk.risk.findIndex((value) => !Number.isFinite(value))];
      return `${label} diverged before step ${lost}`;
    });
    const theory = `Theory: ${short(state.zeta)} for gain 1, ${short(state.zeta * (2 - 1 / state.nu))} for the gain that fits.`;
    return found.length === 0 ? "Computing …" : `Exponents over the last decade: ${found.join(", ")}. ${theory}`;
  }

  #draw(state: State): void {
    const plot = this.#plot;
    if (!plot.begin()) return;
    let [low, high] = [Infinity, 0];
    for (const { risk } of this.#curves) {
      for (const value of risk.risk) {
        if (value > 0 && value < 1e3) {
          low = Math.min(low, value);
          high = Math.max(high, value);
        }
      }
    }
    if (high === 0) [low, high] = [0.01, 1];
    const x = scaleLog([1, STEPS], [plot.left, plot.right]);
    const y = scaleLog([low / 2.5, Math.min(high, 30) * 1.5], [plot.bottom, plot.top]);
    plot.axes({ x, y, xLabel: "step k", yLabel: "excess risk", xIsLog: true, yIsLog: true, yTicks: 6 });
    const ends: EndLabel[] = [];
    plot.inside(() => {
      this.#drawTheory(state, x, y);
      for (const { style, risk } of [...this.#curves].reverse()) {
        const at = (i: number): [number, number] => [x(Math.max(1, risk.at[i])), y(Math.max(risk.risk[i], 1e-300))];
        plot.line(risk.at.length, at, style);
        for (let i = 12; i < risk.at.length; i += 24) plot.marker(style, ...at(i), 4.5);
      }
    });
    for (const { label, style, risk } of this.#curves) {
      ends.push({ text: label, style, y: y(Math.max(risk.risk[risk.risk.length - 1], 1e-300)) });
    }
    labelEnds(plot, ends);
    plot.readBy((px) => {
      const k = Math.round(x.invert(px));
      const lines = this.#curves.map(({ label, risk }) => {
        const i = risk.at.findIndex((each) => each >= k);
        return `${label} ${short(risk.risk[i < 0 ? risk.risk.length - 1 : i])}`;
      });
      return { x: px, lines: [`step ${k}`, ...lines] };
    });
    describe(plot.canvas, `The risk over the steps, both logarithmic. ${this.summary()}`);
  }

  /** Lines of the exponents, a little above the curves that they belong to. */
  #drawTheory(state: State, x: Scale, y: Scale): void {
    const chosen = this.#curves.find(({ name }) => name === "memory")?.risk;
    const gained = mixtureOfState(state).memory === null ? chosen : undefined;
    const lines: [Risk | undefined, number, number][] = [
      [this.#curves.find(({ name }) => name === "average")?.risk, state.zeta, 1.8],
      [gained, state.zeta * (2 - 1 / state.nu), 0.5],
    ];
    for (const [risk, exponent, apart] of lines) {
      if (risk === undefined) continue;
      const i = risk.at.findIndex((k) => k >= STEPS / 10);
      const value = risk.risk[i];
      if (!Number.isFinite(value)) continue;
      const at = (k: number): [number, number] => [x(k), y(apart * value * (k / risk.at[i]) ** -exponent)];
      this.#plot.line(2, (end) => at(end === 0 ? STEPS / 300 : STEPS), { color: "--ink", width: 1.5, dash: [1.5, 4] });
      const [left, top] = at(STEPS / 60);
      this.#plot.label(`theory: slope −${short(exponent)}`, left, top + (apart > 1 ? -14 : 14), "--ink", "center");
    }
  }
}
