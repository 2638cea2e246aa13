/** The start of all runs, to be dragged or moved by the arrow keys. */

import { landscapeOf } from "../model";
import { short } from "../numbers";
import type { Store } from "../store";
import type { View } from "../terrain";

export class StartHandle {
  readonly #store: Store;
  readonly #button: HTMLButtonElement;
  #view: View | null = null;

  constructor(store: Store, canvas: HTMLCanvasElement) {
    this.#store = store;
    this.#button = document.createElement("button");
    this.#button.type = "button";
    this.#button.className = "handle";
    this.#button.setAttribute("aria-roledescription", "movable point");
    canvas.after(this.#button);
    this.#name();
    this.#button.addEventListener("keydown", (event) => this.#press(event));
    for (const element of [this.#button, canvas] as readonly HTMLElement[]) {
      element.addEventListener("pointerdown", (event) => {
        // A finger on the map scrolls the page, unless it takes the handle; a tap still moves it.
        if (element === canvas && event.pointerType === "touch") return;
        event.preventDefault();
        element.setPointerCapture(event.pointerId);
        this.#button.focus({ preventScroll: true });
        this.#dragTo(event, canvas);
      });
      element.addEventListener("pointermove", (event) => {
        if (element.hasPointerCapture(event.pointerId)) this.#dragTo(event, canvas);
      });
    }
    canvas.addEventListener("click", (event) => this.#dragTo(event, canvas));
  }

  show(view: View): void {
    this.#view = view;
    const { x, y } = this.#store.state;
    this.#button.style.transform = `translate(${view.x(x).toFixed(1)}px, ${view.y(y).toFixed(1)}px)`;
    this.#name();
  }

  #name(): void {
    const { x, y } = this.#store.state;
    const words = `Start at x = ${short(x)}, y = ${short(y)}. The arrow keys move it, with Shift in larger steps.`;
    if (this.#button.getAttribute("aria-label") !== words) this.#button.setAttribute("aria-label", words);
  }

  #dragTo(event: MouseEvent, canvas: HTMLCanvasElement): void {
    if (this.#view === null) return;
    const box = canvas.getBoundingClientRect();
    this.#moveTo(this.#view.x.invert(event.clientX - box.left), this.#view.y.invert(event.clientY - box.top));
  }

  #press(event: KeyboardEvent): void {
    const { x, y } = this.#store.state;
    const { view } = landscapeOf(this.#store.state.f, this.#store.state.kappa);
    const far = ((view.x[1] - view.x[0]) / 100) * (event.shiftKey ? 5 : 1);
    const moves: Readonly<Record<string, readonly [number, number]>> = {
      ArrowLeft: [-far, 0],
      ArrowRight: [far, 0],
      ArrowUp: [0, far],
      ArrowDown: [0, -far],
    };
    const move = moves[event.key];
    if (move === undefined) return;
    event.preventDefault();
    this.#moveTo(x + move[0], y + move[1]);
  }

  #moveTo(x: number, y: number): void {
    const { view } = landscapeOf(this.#store.state.f, this.#store.state.kappa);
    const inside = (value: number, [low, high]: readonly [number, number]) =>
      Number(Math.min(high, Math.max(low, value)).toFixed(2));
    this.#store.set({ x: inside(x, view.x), y: inside(y, view.y) });
  }
}
