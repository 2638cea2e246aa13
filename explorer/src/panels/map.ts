/** The map: methods upwards, curvatures to the right, and what becomes of them. Computed, cell by cell. */

import { interpolateRgb } from "d3-interpolate";
import { scaleLinear, scaleLog } from "d3-scale";

import { describe } from "../announce";
import {
  ATLAS,
  ATLAS_CURVATURES,
  COLUMNS,
  ROWS,
  curvatureAt,
  shareOf,
  valueAt,
  type Atlas,
  type AtlasFamily,
} from "../atlas";
import type { Control } from "../controls";
import type { Engine } from "../engine";
import { mixtureOfState } from "../model";
import { short } from "../numbers";
import { colorOf } from "../palette";
import { Plot, type Scale } from "../plot";
import type { Shade, State } from "../state";
import type { Store } from "../store";
import { drawPath } from "./modes";
import { canvasOf, find, placeNamed, write, type Panel } from "./panel";

/** From the color of little to that of much: what the ends stand for. */
const ENDS: Readonly<Record<Shade, readonly [number, number]>> = { left: [-6, 0], crossings: [0, 40], noise: [-1, 1] };

/** Ticks of the axes of degrees and viscosities. */
const DEGREES = [0.5, 1, 2, 4, 8, 16, 32];

const CAPTIONS: Readonly<Record<Shade, (steps: number) => string>> = {
  left: (steps) => `What is left of the start after ${steps} steps: from a millionth, light, to all of it, dark.`,
  crossings: (steps) => `How often the path crosses 0 in ${steps} steps: light never, dark 40 times and more.`,
  noise: (steps) => `The noise at step ${steps}: light a tenth of SGD’s in the long run, dark ten times it and more.`,
};

export class MapPanel implements Panel {
  readonly #store: Store;
  readonly #engine: Engine;
  readonly #plot: Plot;
  readonly #there: Plot;
  readonly #controls: readonly Control[];
  readonly #image = document.createElement("canvas");
  #painted: { atlas: Atlas; shade: Shade; ink: string } | null = null;

  constructor(store: Store, engine: Engine) {
    this.#store = store;
    this.#engine = engine;
    const redraw = () => store.redraw();
    this.#plot = new Plot(canvasOf("atlas"), redraw);
    this.#there = new Plot(canvasOf("there"), redraw);
    this.#controls = placeNamed(store, "map-sliders", ["steps", "lam", "equal"]);
    this.#image.width = COLUMNS;
    this.#image.height = ROWS;
    const { canvas } = this.#plot;
    canvas.addEventListener("click", (event) => this.#goTo(event.offsetX, event.offsetY));
    canvas.addEventListener("keydown", (event) => {
      const at = this.#plot.reader.at;
      if (event.key === "Enter" && at !== null) this.#goTo(at.x, at.y);
    });
  }

  draw(): void {
    const { state } = this.#store;
    if (state.panel !== "map") return;
    for (const control of this.#controls) control.show();
    const mixture = mixtureOfState(state);
    write(find("map-text"), mixture.text.includes("draw:") ? "drawn" : mixture.text);
    this.#drawMap(state);
    drawPath(this.#there, state, ["memory"]);
    write(find("there-caption"), "The path there: exact mean, step by step. Hover for its noise.");
    write(find("atlas-caption"), `${CAPTIONS[state.shade](state.steps)} Hatched: the path grows.`);
  }

  summary(): string {
    const { state } = this.#store;
    if (state.panel !== "map") return "";
    return `Map of ${ATLAS[state.family].label}, chosen: ${state.memory} where ηλ is ${short(state.lam)}.`;
  }

  #scales(family: AtlasFamily): { x: Scale; y: Scale } {
    const plot = this.#plot;
    const { low, high } = ATLAS_CURVATURES;
    const ends = [family.low, family.high];
    const range = [plot.bottom, plot.top];
    return {
      x: scaleLog([low, high], [plot.left, plot.right]),
      y: family.isLog ? scaleLog(ends, range) : scaleLinear(ends, range),
    };
  }

  #drawMap(state: State): void {
    const plot = this.#plot;
    const { answer } = this.#engine.ask("atlas", {
      kind: "atlas",
      family: state.family,
      steps: state.steps,
      isEqual: state.equal === 1,
    });
    if (!plot.begin()) return;
    const family = ATLAS[state.family];
    const { x, y } = this.#scales(family);
    if (answer !== null) this.#paint(answer, state.shade);
    const c = plot.context;
    if (answer !== null) {
      c.imageSmoothingEnabled = true;
      c.drawImage(this.#image, plot.left, plot.top, plot.right - plot.left, plot.bottom - plot.top);
      hatch(plot, answer);
    } else plot.label("computing …", (plot.left + plot.right) / 2, (plot.top + plot.bottom) / 2, "--muted", "center");
    const yValues = family.isLog ? DEGREES.filter((each) => each >= family.low && each <= family.high) : undefined;
    plot.axes({
      x,
      y,
      xLabel: "step size × curvature, ηλ",
      yLabel: family.axis,
      xIsLog: true,
      yTicks: 5,
      yValues,
      isBare: true,
    });
    this.#drawChosen(state, x, y);
    plot.readBy((px, py) => {
      const spot = this.#spot(px, py);
      if (answer === null || spot === null) return null;
      const { row, column, value, lam } = spot;
      const at = row * COLUMNS + column;
      const fate = answer.grows[at] === 1 ? "grows" : answer.crossings[at] > 0 ? "rings" : "decays";
      const lines = [
        `${family.mixture(value).text}, ηλ = ${short(lam)}`,
        `${fate}, crossing 0 ${answer.crossings[at]} times`,
        `left of the start: ${short(10 ** answer.left[at])}`,
        `noise: ${short(answer.noise[at])} of SGD’s`,
      ];
      return { x: px, y: py, lines };
    });
    describe(
      plot.canvas,
      `Map of ${family.label}: ${family.axis} upwards, step size times curvature to the right. ${this.summary()} Enter goes to the point that is read.`,
    );
  }

  #drawChosen(state: State, x: Scale, y: Scale): void {
    const plot = this.#plot;
    const at = this.#valueOf(state);
    plot.inside(() => {
      plot.line(2, (i) => [x(state.lam), i === 0 ? plot.top : plot.bottom], { color: "--ink", width: 1, dash: [2, 3] });
      if (at === null) return;
      plot.line(2, (i) => [i === 0 ? plot.left : plot.right, y(at)], { color: "--ink", width: 1, dash: [2, 3] });
      plot.marker({ marker: "circle", color: "--ink" }, x(state.lam), y(at), 6);
    });
  }

  /** Where the chosen mixture lies on the map, or null. */
  #valueOf(state: State): number | null {
    const family = ATLAS[state.family];
    const text = mixtureOfState(state).text;
    for (const number of text.match(/[\d.]+/g)?.map(Number) ?? []) {
      // The parameter is one of the numbers in the text form, or follows from it.
      for (const value of [number, 1 - number, number - 1]) {
        const rounded = Number(value.toPrecision(6));
        const share = shareOf(family, rounded);
        if (share >= 0 && share <= 1 && family.mixture(rounded).text === text) return rounded;
      }
    }
    return null;
  }

  #spot(px: number, py: number): { row: number; column: number; value: number; lam: number } | null {
    const plot = this.#plot;
    const [u, v] = [(px - plot.left) / (plot.right - plot.left), (plot.bottom - py) / (plot.bottom - plot.top)];
    if (!(u >= 0 && u < 1 && v >= 0 && v < 1)) return null;
    const [row, column] = [Math.floor(v * ROWS), Math.floor(u * COLUMNS)];
    const family = ATLAS[this.#store.state.family];
    return {
      row,
      column,
      value: valueAt(family, (row + 0.5) / ROWS),
      lam: Number(curvatureAt((column + 0.5) / COLUMNS).toPrecision(3)),
    };
  }

  #goTo(px: number, py: number): void {
    const spot = this.#spot(px, py);
    if (spot === null) return;
    const { state } = this.#store;
    this.#store.set({ memory: ATLAS[state.family].mixture(spot.value).text, lam: spot.lam });
  }

  #paint(atlas: Atlas, shade: Shade): void {
    const ink = colorOf("--map-far");
    const known = this.#painted;
    if (known !== null && known.atlas === atlas && known.shade === shade && known.ink === ink) return;
    this.#painted = { atlas, shade, ink };
    const context = this.#image.getContext("2d")!;
    const image = context.createImageData(COLUMNS, ROWS);
    const mix = interpolateRgb(colorOf("--map-near"), ink);
    const table = Array.from({ length: 65 }, (_, i) =>
      mix(i / 64)
        .match(/\d+/g)!
        .map(Number),
    );
    const [near, far] = ENDS[shade];
    for (let row = 0; row < ROWS; row++) {
      for (let column = 0; column < COLUMNS; column++) {
        const at = row * COLUMNS + column;
        const value = shade === "noise" ? Math.log10(Math.max(atlas.noise[at], 1e-9)) : atlas[shade][at];
        const share = Math.min(1, Math.max(0, (value - near) / (far - near)));
        const [red, green, blue] = table[Math.round(64 * (Number.isNaN(share) ? 1 : share))];
        // Rows of the image go down, those of the map up.
        image.data.set([red, green, blue, 255], 4 * ((ROWS - 1 - row) * COLUMNS + column));
      }
    }
    context.putImageData(image, 0, 0);
  }
}

/** Lines over the cells in which the path grows. */
function hatch(plot: Plot, { grows }: Atlas): void {
  const c = plot.context;
  const [w, h] = [(plot.right - plot.left) / COLUMNS, (plot.bottom - plot.top) / ROWS];
  c.save();
  c.beginPath();
  for (let row = 0; row < ROWS; row++) {
    for (let column = 0; column < COLUMNS; column++) {
      if (grows[row * COLUMNS + column] === 1)
        c.rect(plot.left + column * w, plot.bottom - (row + 1) * h, w + 0.5, h + 0.5);
    }
  }
  c.clip();
  c.fillStyle = colorOf("--surface");
  c.globalAlpha = 0.55;
  c.fillRect(plot.left, plot.top, plot.right - plot.left, plot.bottom - plot.top);
  c.globalAlpha = 1;
  c.strokeStyle = colorOf("--warn-ink");
  c.lineWidth = 1.5;
  c.beginPath();
  for (let x = plot.left - (plot.bottom - plot.top); x < plot.right; x += 7) {
    c.moveTo(x, plot.bottom);
    c.lineTo(x + plot.bottom - plot.top, plot.top);
  }
  c.stroke();
  c.restore();
}
