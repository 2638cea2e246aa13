/**
 * One color, line style and marker for each method: those of memgrad/figures/methods.py, which a test compares.
 * Dashes are in pixels, those of the figures times a width of 2.
 */

import type { Shown } from "./state";

export interface Style {
  readonly label: string;
  /** The custom property of the style sheet that holds the color. */
  readonly color: string;
  readonly dash: readonly number[];
  readonly width: number;
  readonly marker: "circle" | "square" | "triangle" | "diamond" | "none";
}

export const STYLES: Readonly<Record<Shown, Style>> = {
  memory: { label: "this memory", color: "--memory", dash: [12.8, 3.2, 2, 3.2], width: 2.25, marker: "triangle" },
  sgd: { label: "SGD", color: "--sgd", dash: [], width: 2, marker: "circle" },
  hb: { label: "heavy ball", color: "--hb", dash: [7.4, 3.2], width: 2, marker: "square" },
  nag: { label: "Nesterov", color: "--nag", dash: [16, 4], width: 2, marker: "diamond" },
  ode: { label: "its ODE", color: "--ode", dash: [], width: 7, marker: "none" },
};

let known: { readonly [property: string]: string } = {};

/** Reads the colors again, after the theme has changed. */
export function readColors(): void {
  const style = getComputedStyle(document.documentElement);
  const names = [
    "--memory",
    "--sgd",
    "--hb",
    "--nag",
    "--ode",
    "--ink",
    "--muted",
    "--grid",
    "--surface",
    "--low",
    "--high",
    "--contour",
    "--accent",
    "--warn-ink",
    "--map-far",
    "--map-near",
    "--exp",
    "--memory-dark",
  ];
  known = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(name).trim()]));
}

export function colorOf(property: string): string {
  return known[property];
}
