/** The landscape from above: tinted level sets, painted once for all maps and kept until landscape or theme change. */

import { contours } from "d3-contour";
import { interpolateRgb } from "d3-interpolate";
import { scaleLinear } from "d3-scale";

import type { Landscape } from "./landscape";
import { colorOf } from "./palette";
import type { Plot, Scale } from "./plot";

const [COLUMNS, ROWS] = [96, 72];
const LEVELS = 12;

export interface View {
  readonly x: Scale;
  readonly y: Scale;
}

type Levels = ReturnType<ReturnType<typeof contours>>;

export class Terrain {
  #levels: Levels = [];
  #of: Landscape | null = null;
  #colors = "";
  /** Painted maps by their size: those of the panels are alike, so that there is usually one. */
  readonly #painted = new Map<string, HTMLCanvasElement>();

  /** Draws the landscape over the whole plot, and returns the scales of its coordinates. */
  draw(plot: Plot, f: Landscape): View {
    const x = scaleLinear([...f.view.x], [0, plot.width]);
    const y = scaleLinear([...f.view.y], [plot.height, 0]);
    if (f !== this.#of) this.#levels = levelsOf(f);
    if (f !== this.#of || colorOf("--surface") !== this.#colors) this.#painted.clear();
    this.#of = f;
    this.#colors = colorOf("--surface");
    const { width, height } = plot.canvas;
    const key = `${width} ${height}`;
    const image = this.#painted.get(key) ?? paint(this.#levels, width, height);
    this.#painted.set(key, image);
    plot.context.drawImage(image, 0, 0, plot.width, plot.height);
    const [mx, my] = f.minimiser;
    cross(plot.context, x(mx), y(my));
    return { x, y };
  }
}

function levelsOf(f: Landscape): Levels {
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
  // Levels in even ratios show the bottom of the valley as well as its walls.
  const thresholds = Array.from({ length: LEVELS }, (_, i) => highest * 10 ** (-3 + (3 * i) / LEVELS));
  return contours().size([COLUMNS, ROWS]).thresholds(thresholds)(heights);
}

function paint(levels: Levels, width: number, height: number): HTMLCanvasElement {
  const image = document.createElement("canvas");
  image.width = width;
  image.height = height;
  const c = image.getContext("2d")!;
  c.scale(width / COLUMNS, height / ROWS);
  c.fillStyle = colorOf("--low");
  c.fillRect(0, 0, COLUMNS, ROWS);
  const shade = interpolateRgb(colorOf("--low"), colorOf("--high"));
  c.lineWidth = 1.2 * (COLUMNS / width);
  c.strokeStyle = colorOf("--contour");
  for (const [i, level] of levels.entries()) {
    c.beginPath();
    for (const polygon of level.coordinates) {
      for (const ring of polygon) smoothly(c, ring as [number, number][]);
    }
    c.fillStyle = shade((i + 1) / LEVELS);
    c.fill();
    c.stroke();
  }
  return image;
}

/** A closed curve through the middles of the sides of a polygon: the grid's corners are not the landscape's. */
function smoothly(c: CanvasRenderingContext2D, ring: readonly (readonly [number, number])[]): void {
  const n = ring.length - 1; // the last point repeats the first
  const middle = (i: number) => [0, 1].map((axis) => (ring[i % n][axis] + ring[(i + 1) % n][axis]) / 2);
  c.moveTo(middle(0)[0], middle(0)[1]);
  for (let i = 1; i <= n; i++) {
    const [x, y] = middle(i);
    c.quadraticCurveTo(ring[i % n][0], ring[i % n][1], x, y);
  }
  c.closePath();
}

function cross(c: CanvasRenderingContext2D, x: number, y: number): void {
  c.strokeStyle = colorOf("--ink");
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(x - 5, y);
  c.lineTo(x + 5, y);
  c.moveTo(x, y - 5);
  c.lineTo(x, y + 5);
  c.stroke();
}
