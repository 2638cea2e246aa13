/** The landscape from above: tinted level sets, painted once for all maps and kept until landscape or theme change. */

import { contours } from "d3-contour";
import { interpolateRgb } from "d3-interpolate";
import { scaleLinear } from "d3-scale";

import type { Landscape } from "./landscape";
import { colorOf } from "./palette";
import type { Plot, Scale } from "./plot";

/** Cells of the landscape's own view; beyond its edges the grid goes on, so that no level ends in the picture. */
const CELLS = 72;
const LEVELS = 12;

export interface View {
  readonly x: Scale;
  readonly y: Scale;
}

/** What is drawn: the landscape's view, and more of it to the sides or above where the picture has room. */
interface Window {
  readonly x: readonly [number, number];
  readonly y: readonly [number, number];
}

interface Levels {
  readonly columns: number;
  readonly rows: number;
  readonly sets: ReturnType<ReturnType<typeof contours>>;
}

/** Cells of the grid beyond each edge. */
const BEYOND = 3;

export class Terrain {
  #of: Landscape | null = null;
  #colors = "";
  /** Painted maps by their size: those of the panels are alike, so that there is usually one. */
  readonly #painted = new Map<string, HTMLCanvasElement>();

  /** Draws the landscape over the whole plot, and returns the scales of its coordinates. */
  draw(plot: Plot, f: Landscape): View {
    const window = windowOf(f, plot.width / plot.height);
    const x = scaleLinear([...window.x], [0, plot.width]);
    const y = scaleLinear([...window.y], [plot.height, 0]);
    if (f !== this.#of || colorOf("--surface") !== this.#colors) this.#painted.clear();
    this.#of = f;
    this.#colors = colorOf("--surface");
    const { width, height } = plot.canvas;
    const key = `${width} ${height}`;
    const image = this.#painted.get(key) ?? paint(levelsOf(f, window), width, height);
    this.#painted.set(key, image);
    plot.context.drawImage(image, 0, 0, plot.width, plot.height);
    const [mx, my] = f.minimiser;
    cross(plot.context, x(mx), y(my));
    return { x, y };
  }
}

/** The landscape's view, widened to the shape of the picture, so that circles stay circles. */
function windowOf({ view }: Landscape, aspect: number): Window {
  const [width, height] = [view.x[1] - view.x[0], view.y[1] - view.y[0]];
  const more = [Math.max(0, height * aspect - width) / 2, Math.max(0, width / aspect - height) / 2];
  return {
    x: [view.x[0] - more[0], view.x[1] + more[0]],
    y: [view.y[0] - more[1], view.y[1] + more[1]],
  };
}

function levelsOf(f: Landscape, window: Window): Levels {
  const [width, height] = [window.x[1] - window.x[0], window.y[1] - window.y[0]];
  const cell = Math.max(width, height) / (1.34 * CELLS);
  const [columns, rows] = [Math.ceil(width / cell), Math.ceil(height / cell)];
  const [dx, dy] = [width / columns, height / rows];
  const [n, m] = [columns + 2 * BEYOND, rows + 2 * BEYOND];
  const heights = new Array<number>(n * m);
  let highest = 0;
  for (let j = 0; j < m; j++) {
    for (let i = 0; i < n; i++) {
      const value = f.value(window.x[0] + (i - BEYOND + 0.5) * dx, window.y[1] - (j - BEYOND + 0.5) * dy);
      heights[j * n + i] = value;
      const isSeen = i >= BEYOND && i < n - BEYOND && j >= BEYOND && j < m - BEYOND;
      if (isSeen) highest = Math.max(highest, value);
    }
  }
  // Levels in even ratios show the bottom of the valley as well as its walls.
  const thresholds = Array.from({ length: LEVELS }, (_, i) => highest * 10 ** (-3 + (3 * i) / LEVELS));
  return { columns, rows, sets: contours().size([n, m]).thresholds(thresholds)(heights) };
}

function paint({ columns, rows, sets }: Levels, width: number, height: number): HTMLCanvasElement {
  const image = document.createElement("canvas");
  image.width = width;
  image.height = height;
  const c = image.getContext("2d")!;
  c.scale(width / columns, height / rows);
  c.translate(-BEYOND, -BEYOND);
  c.fillStyle = colorOf("--low");
  c.fillRect(0, 0, columns + 2 * BEYOND, rows + 2 * BEYOND);
  const shade = interpolateRgb(colorOf("--low"), colorOf("--high"));
  c.lineWidth = 1.2 * (columns / width);
  c.strokeStyle = colorOf("--contour");
  for (const [i, level] of sets.entries()) {
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
