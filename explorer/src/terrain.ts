/** The landscape from above: tinted level sets, drawn once and kept until landscape, size or theme change. */

import { contours } from "d3-contour";
import { interpolateRgb } from "d3-interpolate";
import { scaleLinear } from "d3-scale";

import type { Landscape } from "./landscape";
import { colour } from "./palette";
import type { Plot, Scale } from "./plot";

const [COLUMNS, ROWS] = [112, 84];
const LEVELS = 13;

export interface View {
  readonly x: Scale;
  readonly y: Scale;
}

export class Terrain {
  readonly #image = document.createElement("canvas");
  #made: readonly unknown[] = [];

  /** Draws the landscape over the whole plot, and returns the scales of its coordinates. */
  draw(plot: Plot, f: Landscape): View {
    const x = scaleLinear([...f.view.x], [0, plot.width]);
    const y = scaleLinear([...f.view.y], [plot.height, 0]);
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const key = [f, plot.width, plot.height, ratio, colour("--surface")];
    if (key.some((each, i) => each !== this.#made[i])) this.#paint(plot, f, ratio);
    this.#made = key;
    plot.context.drawImage(this.#image, 0, 0, plot.width, plot.height);
    const [mx, my] = f.minimiser;
    cross(plot.context, x(mx), y(my));
    return { x, y };
  }

  #paint(plot: Plot, f: Landscape, ratio: number): void {
    const heights = new Array<number>(COLUMNS * ROWS);
    const [dx, dy] = [(f.view.x[1] - f.view.x[0]) / COLUMNS, (f.view.y[1] - f.view.y[0]) / ROWS];
    let highest = 0;
    for (let j = 0; j < ROWS; j++) {
      for (let i = 0; i < COLUMNS; i++) {
        const value = f.value(f.view.x[0] + (i + 0.5) * dx, f.view.y[1] - (j + 0.5) * dy);
        heights[j * COLUMNS + i] = value;
        highest = Math.max(highest, value);
      }
    }
    this.#image.width = Math.round(plot.width * ratio);
    this.#image.height = Math.round(plot.height * ratio);
    const c = this.#image.getContext("2d")!;
    c.scale(this.#image.width / COLUMNS, this.#image.height / ROWS);
    c.fillStyle = colour("--low");
    c.fillRect(0, 0, COLUMNS, ROWS);
    // Levels in even ratios show the bottom of the valley as well as its walls.
    const thresholds = Array.from({ length: LEVELS }, (_, i) => highest * 10 ** (-3 + (3 * i) / LEVELS));
    const shade = interpolateRgb(colour("--low"), colour("--high"));
    const tint = contours().size([COLUMNS, ROWS]).thresholds(thresholds);
    c.lineWidth = COLUMNS / plot.width;
    for (const [i, level] of tint(heights).entries()) {
      c.beginPath();
      for (const polygon of level.coordinates) {
        for (const ring of polygon) {
          ring.forEach(([u, v], at) => (at === 0 ? c.moveTo(u, v) : c.lineTo(u, v)));
          c.closePath();
        }
      }
      c.fillStyle = shade((i + 1) / LEVELS);
      c.fill();
      c.strokeStyle = colour("--contour");
      c.stroke();
    }
  }
}

function cross(c: CanvasRenderingContext2D, x: number, y: number): void {
  c.strokeStyle = colour("--ink");
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(x - 5, y);
  c.lineTo(x + 5, y);
  c.moveTo(x, y - 5);
  c.lineTo(x, y + 5);
  c.stroke();
}
