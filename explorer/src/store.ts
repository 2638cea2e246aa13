/** The one view that is shown. Whoever changes it says what; whoever draws it is called once a frame at most. */

import type { State } from "./state";

export class Store {
  #state: State;
  #scheduled = false;
  readonly #draw: ((state: State) => void)[] = [];
  /** Milliseconds that the latest frames took to compute and draw. */
  readonly frameTimes: number[] = [];

  constructor(state: State) {
    this.#state = state;
  }

  get state(): State {
    return this.#state;
  }

  set(change: Partial<State>): void {
    this.#state = { ...this.#state, ...change };
    this.redraw();
  }

  onDraw(draw: (state: State) => void): void {
    this.#draw.push(draw);
  }

  redraw(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => this.drawNow());
  }

  drawNow(): void {
    this.#scheduled = false;
    const begin = performance.now();
    for (const draw of this.#draw) draw(this.#state);
    this.frameTimes.push(performance.now() - begin);
    if (this.frameTimes.length > 600) this.frameTimes.shift();
  }
}
