/** The weights of all steps at once: row k holds w(0,k), ..., w(k,k), dark where much is remembered. */

import { scaleLinear } from "d3-scale";

import { describe } from "./announce";
import { mixtureWeights, type Mixture } from "./mixture";
import { short } from "./numbers";
import { colorOf } from "./palette";
import { Plot } from "./plot";

const SIZE = 160;

export class Carpet {
  readonly #plot: Plot;
  readonly #image = document.createElement("canvas");
  #made = "";

  constructor(canvas: HTMLCanvasElement, redraw: () => void) {
    this.#plot = new Plot(canvas, redraw);
    this.#image.width = this.#image.height = SIZE;
  }

  draw(mixture: Mixture, k: number, steps: number, isEqual: boolean): void {
    const plot = this.#plot;
    if (!plot.begin()) return;
    const key = `${mixture.text} ${steps} ${isEqual} ${colorOf("--memory")}`;
    if (key !== this.#made) this.#weave(mixture, steps, isEqual);
    this.#made = key;
    const x = scaleLinear([0, steps], [plot.left, plot.right]);
    const y = scaleLinear([0, steps], [plot.top, plot.bottom]);
    const c = plot.context;
    plot.axes({ x, y, xLabel: "gradient of step j", yLabel: "step k, downwards" });
    c.imageSmoothingEnabled = false;
    c.drawImage(this.#image, plot.left, plot.top, plot.right - plot.left, plot.bottom - plot.top);
    plot.line(2, (i) => [i === 0 ? plot.left : x(k), y(k)], { color: "--ink", width: 1.5 });
    plot.marker({ marker: "circle", color: "--ink" }, x(k), y(k), 4.5);
    const isLow = y(k) > plot.bottom - 14;
    plot.label(`k = ${k}`, x(k) + 9, isLow ? y(k) - 16 : y(k), "--ink");
    plot.readBy((px, py) => {
      const [j, row] = [Math.round(x.invert(px)), Math.round(y.invert(py))];
      if (j < 0 || row > steps || j > row) return null;
      const weight = mixtureWeights(mixture, row, isEqual)[j];
      return { x: px, y: py, lines: [`gradient ${j} in step ${row}`, `weight ${short(weight)}`] };
    });
    describe(
      plot.canvas,
      "Triangular heat map of all weights: one row a step, one column a past gradient. " +
        "Polynomial memory is a fan that widens with the steps, exponential memory a band along the diagonal.",
    );
  }

  #weave(mixture: Mixture, steps: number, isEqual: boolean): void {
    const context = this.#image.getContext("2d")!;
    const image = context.createImageData(SIZE, SIZE);
    const [red, green, blue] = channels(colorOf("--memory"));
    for (let row = 0; row < SIZE; row++) {
      const k = Math.round(((row + 0.5) / SIZE) * steps);
      const w = mixtureWeights(mixture, k, isEqual);
      for (let column = 0; column < SIZE; column++) {
        const j = Math.floor(((column + 0.5) / SIZE) * steps);
        if (j > k) break;
        const at = 4 * (row * SIZE + column);
        // In units of the plain average, so that rows compare; the root lifts what is faint.
        const shade = Math.sqrt(Math.min(1, (w[j] * (k + 1)) / 6));
        image.data[at] = red;
        image.data[at + 1] = green;
        image.data[at + 2] = blue;
        image.data[at + 3] = Math.round(12 + 243 * shade);
      }
    }
    context.putImageData(image, 0, 0);
  }
}

function channels(hex: string): [number, number, number] {
  const n = Number.parseInt(hex.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}
