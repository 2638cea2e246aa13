/** What the panels have in common: a place in the page, controls, and a way to draw. */

import type { Control } from "../controls";
import type { Plot, Scale } from "../plot";
import { control, type ControlName } from "../settings";
import type { Store } from "../store";

export interface Panel {
  draw(): void;
  /** What it shows now, for those who do not see it. */
  summary(): string;
}

/** Whether the page is part of the documentation; elsewhere links into it would lead nowhere. */
export const isInDocs = /\/_static\/[^/]+$/.test(location.pathname);

export function find<Kind extends HTMLElement = HTMLElement>(id: string): Kind {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no element with the id ${id}.`);
  return element as Kind;
}

export function canvasOf(id: string): HTMLCanvasElement {
  return find<HTMLCanvasElement>(id);
}

export function place(id: string, controls: readonly Control[]): void {
  find(id).append(...controls.map((control) => control.element));
}

/** Controls by their names, placed in an element of the page. */
export function placeNamed(store: Store, id: string, names: readonly ControlName[]): Control[] {
  const controls = names.map((name) => control(store, name));
  place(id, controls);
  return controls;
}

/** Writes text, without touching the page where nothing has changed. */
export function write(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Reads values off a picture over the steps: those of the step that is nearest to the pointer. */
export function readSteps(plot: Plot, x: Scale, steps: number, lines: (k: number) => readonly string[]): void {
  plot.readBy((px) => {
    const k = Math.min(steps, Math.max(0, Math.round(x.invert(px))));
    return { x: x(k), lines: [`step ${k}`, ...lines(k)] };
  });
}

/** The step that all panels look at, as a dotted line. */
export function drawNow(plot: Plot, x: number): void {
  plot.line(2, (i) => [x, i === 0 ? plot.top : plot.bottom], { color: "--ink", width: 1, dash: [2, 3] });
}

export interface EndLabel {
  readonly text: string;
  readonly y: number;
  readonly style?: Parameters<Plot["marker"]>[0];
}

/** Names at the right ends of lines; those of lines that meet stand below one another. */
export function labelEnds(plot: Plot, labels: readonly EndLabel[]): void {
  const at = plot.right - 4;
  let last = -Infinity;
  for (const { text, style, y } of [...labels].sort((a, b) => a.y - b.y)) {
    if (!Number.isFinite(y)) continue;
    const free = Math.min(plot.bottom - 8, Math.max(plot.top + 6, y - 10, last + 15));
    last = free;
    plot.label(text, at, free, "--ink", "right");
    // The text is ink, which is readable in any color scheme; the marker tells the method.
    if (style) plot.marker(style, at - plot.context.measureText(text).width - 9, free, 4.5);
  }
}
