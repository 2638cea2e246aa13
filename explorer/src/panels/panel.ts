/** What the panels have in common: a place in the page, controls, and a way to draw. */

import type { Control } from "../controls";

export interface Panel {
  draw(): void;
  /** What it shows now, for those who do not see it. */
  summary(): string;
}

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

/** Writes text, without touching the page where nothing has changed. */
export function write(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
