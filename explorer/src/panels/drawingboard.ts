/** Where a memory is drawn: m'(s), with the mouse, a finger or the keyboard. */

import { scaleLinear } from "d3-scale";

import { KNOTS, KNOT_STEPS, LOWEST, TALLEST, drawn, readHeights } from "../drawn";
import { mixtureFromText } from "../model";
import { mixtureOf } from "../mixture";
import { Plot } from "../plot";
import type { Store } from "../store";
import { canvasOf } from "./panel";

export class DrawingBoard {
  readonly #store: Store;
  readonly #plot: Plot;
  /** The knot that the keyboard moves. */
  #chosen = 12;
  /** Where the pen was, while it is down. */
  #pen: { knot: number; height: number } | null = null;

  constructor(store: Store) {
    this.#store = store;
    const canvas = canvasOf("board");
    this.#plot = new Plot(canvas, () => store.redraw());
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      canvas.focus({ preventScroll: true });
      this.#pen = null;
      this.#drawTo(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.#pen !== null) this.#drawTo(event);
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (this.#pen = null));
    canvas.addEventListener("keydown", (event) => this.#press(event));
    canvas.addEventListener("focus", () => store.redraw());
    canvas.addEventListener("blur", () => store.redraw());
  }

  get #heights(): number[] {
    const { text } = this.#part().memory;
    return readHeights(text.slice("draw:".length));
  }

  /** The first drawn part of the mixture. */
  #part() {
    return mixtureFromText(this.#store.state.memory).parts.find(({ memory }) => memory.family === "draw")!;
  }

  #set(heights: readonly number[]): void {
    const part = this.#part();
    const parts = mixtureFromText(this.#store.state.memory).parts;
    const changed = parts.map((each) => (each.memory === part.memory ? { ...each, memory: drawn(heights) } : each));
    this.#store.set({ memory: mixtureOf(changed).text });
  }

  #scales() {
    const plot = this.#plot;
    return {
      x: scaleLinear([0, (KNOTS - 1) * KNOT_STEPS], [plot.left, plot.right]),
      y: scaleLinear([0, TALLEST + 1], [plot.bottom, plot.top]),
    };
  }

  draw(): void {
    if (this.#part() === undefined) return;
    const plot = this.#plot;
    if (!plot.begin()) return;
    const { x, y } = this.#scales();
    const heights = this.#heights;
    plot.axes({ x, y, xLabel: "time s, in steps", yLabel: "ṁ(s), in units of your own", yTicks: 3 });
    plot.band(
      KNOTS,
      (i) => x(i * KNOT_STEPS),
      () => plot.bottom,
      (i) => y(heights[i]),
      "--memory",
    );
    plot.line(KNOTS, (i) => [x(i * KNOT_STEPS), y(heights[i])], { color: "--memory", width: 2.5 });
    for (let i = 0; i < KNOTS; i++) {
      plot.marker({ marker: "circle", color: "--memory" }, x(i * KNOT_STEPS), y(heights[i]), 4);
    }
    if (document.activeElement === plot.canvas) {
      const at = x(this.#chosen * KNOT_STEPS);
      plot.marker({ marker: "diamond", color: "--nag" }, at, y(heights[this.#chosen]), 7);
    }
    plot.readBy((px) => {
      const i = bounded(Math.round(x.invert(px) / KNOT_STEPS), 0, KNOTS - 1);
      return { x: x(i * KNOT_STEPS), lines: [`step ${i * KNOT_STEPS}`, `height ${heights[i]}`] };
    });
    const canvas = plot.canvas;
    canvas.setAttribute("aria-valuenow", String(heights[this.#chosen]));
    canvas.setAttribute("aria-valuetext", `${heights[this.#chosen]} at step ${this.#chosen * KNOT_STEPS}`);
  }

  #drawTo(event: PointerEvent): void {
    const { x, y } = this.#scales();
    const knot = bounded(Math.round(x.invert(event.offsetX) / KNOT_STEPS), 0, KNOTS - 1);
    const height = bounded(Math.round(y.invert(event.offsetY)), LOWEST, TALLEST);
    const from = this.#pen ?? { knot, height };
    const heights = this.#heights;
    // A fast hand skips knots: they get the straight line between.
    const distance = Math.abs(knot - from.knot);
    for (let i = 0; i <= distance; i++) {
      const share = distance === 0 ? 1 : i / distance;
      const at = Math.round(from.knot + share * (knot - from.knot));
      heights[at] = Math.round(from.height + share * (height - from.height));
    }
    this.#pen = { knot, height };
    this.#chosen = knot;
    this.#set(heights);
  }

  #press(event: KeyboardEvent): void {
    const far = event.shiftKey ? 10 : 2;
    const heights = this.#heights;
    const chosen = this.#chosen;
    switch (event.key) {
      case "ArrowLeft":
        this.#chosen = Math.max(0, chosen - 1);
        break;
      case "ArrowRight":
        this.#chosen = Math.min(KNOTS - 1, chosen + 1);
        break;
      case "ArrowUp":
        heights[chosen] = bounded(heights[chosen] + far, LOWEST, TALLEST);
        break;
      case "ArrowDown":
        heights[chosen] = bounded(heights[chosen] - far, LOWEST, TALLEST);
        break;
      case "Home":
        heights[chosen] = LOWEST;
        break;
      case "End":
        heights[chosen] = TALLEST;
        break;
      default:
        return;
    }
    event.preventDefault();
    this.#set(heights);
  }
}

function bounded(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}
