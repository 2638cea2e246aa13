/** Memory and a heavy ball run through one path at different speeds. */

import { scaleLinear, scaleLog } from "d3-scale";

import { describe } from "../announce";
import type { Control } from "../controls";
import { landscapeOf, warpEnd, warpedOf, type Warped } from "../model";
import { short } from "../numbers";
import { STYLES } from "../palette";
import { Plot } from "../plot";
import type { State } from "../state";
import type { Store } from "../store";
import type { Terrain } from "../terrain";
import { canvasOf, drawNow, find, placeNamed, write, type Panel } from "./panel";

export class ClocksPanel implements Panel {
  readonly #store: Store;
  readonly #race: Plot;
  readonly #clock: Plot;
  readonly #terrain: Terrain;
  readonly #controls: readonly Control[];

  constructor(store: Store, terrain: Terrain) {
    this.#store = store;
    this.#terrain = terrain;
    const redraw = () => store.redraw();
    this.#race = new Plot(canvasOf("race"), redraw, { top: 0, right: 0, bottom: 0, left: 0 });
    this.#clock = new Plot(canvasOf("clock"), redraw);
    this.#controls = placeNamed(store, "clocks-sliders", ["warp", "p", "kappa", "lr", "steps"]);
  }

  draw(): void {
    const { state } = this.#store;
    if (state.panel !== "clocks") return;
    for (const control of this.#controls) control.show();
    const warped = warpedOf(state);
    write(find("warp-note"), this.#note(state, warped));
    write(find("warp-partner"), this.#partner(warped));
    if (warped === null) return;
    this.#drawRace(state, warped);
    this.#drawClock(state, warped);
  }

  summary(): string {
    const { state } = this.#store;
    const warped = state.panel === "clocks" ? warpedOf(state) : null;
    if (warped === null) return "";
    const time = this.#time(state);
    return `At time ${short(time)} the heavy ball is where the memory is at time ${short(warped.warp.memoryTime(time))}.`;
  }

  #time(state: State): number {
    return (warpEnd(state) * state.k) / state.steps;
  }

  #partner(warped: Warped | null): string {
    if (warped === null) return "";
    const { memory, warp } = warped;
    if (memory.family === "poly") {
      const q = short(warp.q);
      return `${memory.text} is the heavy ball with viscosity ${q}/t${warp.q === 3 ? ": Nesterov’s equation" : ""}`;
    }
    if (memory.family === "exp") return `${memory.text} is the heavy ball with viscosity √α coth(√α t)`;
    return `${memory.family === "draw" ? "this memory" : memory.text} is a heavy ball too, with a viscosity of its own`;
  }

  #note(state: State, warped: Warped | null): string {
    if (warped === null)
      return "The heavy ball cannot be followed here: choose a slower memory, a smaller η or another start.";
    const time = this.#time(state);
    const tau = warped.warp.memoryTime(time);
    const partner = warped.warp.q === 3 ? "Nesterov’s runner" : "the heavy ball";
    const sentence = `At t = ${short(time)} ${partner} is where the memory is at t = ${short(tau)}.`;
    return warped.isChosen
      ? sentence
      : `The chosen memory or mixture has no warp, so linear memory is shown. ${sentence}`;
  }

  #drawRace(state: State, warped: Warped): void {
    const plot = this.#race;
    if (!plot.begin()) return;
    const f = landscapeOf(state.f, state.kappa);
    const view = this.#terrain.draw(plot, f);
    const { memoryPath, heavyBallPath, t } = warped;
    const at =
      (path: Float64Array) =>
      (i: number): [number, number] => [view.x(path[2 * i]), view.y(path[2 * i + 1])];
    const done = Math.ceil((state.k / state.steps) * (t.length - 1)) + 1;
    plot.line(t.length, at(memoryPath), { color: "--memory", width: 8, alpha: 0.14 });
    plot.line(t.length, at(heavyBallPath), { ...STYLES.nag, width: 1.25, alpha: 0.5 });
    plot.line(done, at(memoryPath), { color: "--memory", width: 8, alpha: 0.4 });
    plot.line(done, at(heavyBallPath), { ...STYLES.nag, width: 2.25 });
    plot.marker({ marker: "circle", color: "--ink" }, view.x(state.x), view.y(state.y), 5);
    const now = (state.k / state.steps) * (t.length - 1);
    const [mx, my] = between(memoryPath, now);
    const [hx, hy] = between(heavyBallPath, now);
    // The labels stand on the far sides of the two runners.
    const isAbove = my >= hy;
    plot.marker(STYLES.memory, view.x(mx), view.y(my), 9);
    plot.marker(STYLES.nag, view.x(hx), view.y(hy), 7);
    const partner = warped.warp.q === 3 ? "Nesterov" : "heavy ball";
    plot.label("memory", view.x(mx), view.y(my) + (isAbove ? -19 : 19), "--ink", "center");
    plot.label(partner, view.x(hx), view.y(hy) + (isAbove ? 19 : -19), "--ink", "center");
    plot.readBy((px, py) => {
      const [at, height] = [view.x.invert(px), view.y.invert(py)];
      return { x: px, y: py, lines: [`x = ${short(at)}, y = ${short(height)}`, `f = ${short(f.value(at, height))}`] };
    });
    describe(plot.canvas, `Map with the memory and the heavy ball on one path. ${this.summary()}`);
  }

  #drawClock(state: State, warped: Warped): void {
    const plot = this.#clock;
    if (!plot.begin()) return;
    const f = landscapeOf(state.f, state.kappa);
    const { memoryPath, heavyBallPath, t } = warped;
    const end = t[t.length - 1];
    const first = Math.max(f.value(state.x, state.y), 1e-6);
    const x = scaleLinear([0, end], [plot.left, plot.right]);
    let highest = first;
    for (let i = 0; i < 2 * t.length; i += 2) {
      highest = Math.max(highest, f.value(heavyBallPath[i], heavyBallPath[i + 1]));
    }
    const y = scaleLog([first * 1e-5, Math.min(3 * highest, 1e4 * first)], [plot.bottom, plot.top]);
    plot.axes({ x, y, xLabel: "time t of the heavy ball", yLabel: "f − f*", yIsLog: true, yTicks: 6 });
    const loss =
      (path: Float64Array) =>
      (i: number): [number, number] => [x(t[i]), y(Math.max(1e-300, f.value(path[2 * i], path[2 * i + 1])))];
    plot.inside(() => {
      plot.line(t.length, loss(memoryPath), { color: "--memory", width: 7, alpha: 0.4 });
      plot.line(t.length, loss(heavyBallPath), { ...STYLES.nag, width: 2 });
      const now = Math.round((state.k / state.steps) * (t.length - 1));
      drawNow(plot, x(t[now]));
      plot.marker(STYLES.memory, ...loss(memoryPath)(now), 7);
      plot.marker(STYLES.nag, ...loss(heavyBallPath)(now), 5.5);
    });
    const partner = warped.warp.q === 3 ? "Nesterov" : "heavy ball";
    plot.readBy((px) => {
      const i = Math.min(t.length - 1, Math.max(0, Math.round((x.invert(px) / end) * (t.length - 1))));
      const of = (path: Float64Array) => short(f.value(path[2 * i], path[2 * i + 1]));
      const lines = [`t = ${short(t[i])}`, `memory ${of(memoryPath)}`, `${partner} ${of(heavyBallPath)}`];
      return { x: x(t[i]), lines };
    });
    describe(
      plot.canvas,
      `The loss of both over time. ${state.warp === 1 ? "With the clock warped, the curves coincide." : ""} ${this.summary()}`,
    );
  }
}

function between(path: Float64Array, i: number): [number, number] {
  const low = Math.min(Math.floor(i), path.length / 2 - 2);
  const share = i - low;
  return [
    path[2 * low] + share * (path[2 * low + 2] - path[2 * low]),
    path[2 * low + 1] + share * (path[2 * low + 3] - path[2 * low + 1]),
  ];
}
