/** Okabe and Ito's colours, safe for colour-blind readers, with a line style and a marker each beside them. */

import type { Shown } from "./state";

export interface Style {
  readonly label: string;
  /** The custom property of the style sheet that holds the colour. */
  readonly color: string;
  readonly dash: readonly number[];
  readonly width: number;
  readonly marker: "circle" | "square" | "triangle" | "diamond" | "none";
}

export const STYLES: Readonly<Record<Shown, Style>> = {
  memory: { label: "this memory", color: "--memory", dash: [], width: 2.25, marker: "circle" },
  sgd: { label: "SGD", color: "--sgd", dash: [2, 3], width: 2, marker: "square" },
  hb: { label: "heavy-ball", color: "--hb", dash: [9, 3, 2, 3], width: 2, marker: "triangle" },
  nag: { label: "Nesterov", color: "--nag", dash: [7, 4], width: 2, marker: "diamond" },
  ode: { label: "its ODE", color: "--ode", dash: [], width: 7, marker: "none" },
};

let known: { readonly [property: string]: string } = {};

/** Reads the colours anew, after the theme has changed. */
export function readColours(): void {
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
  ];
  known = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(name).trim()]));
}

export function colour(property: string): string {
  return known[property];
}
