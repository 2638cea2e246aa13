/** Play, pause and scrub: the step k that all panels look at. */

import type { Store } from "../store";
import { find, write, type Panel } from "./panel";

/** A pass over all steps takes this long, in milliseconds. */
const PASS = 9000;

export class Transport implements Panel {
  readonly #store: Store;
  readonly #button: HTMLButtonElement;
  readonly #slider: HTMLInputElement;
  readonly #whenPaused: () => void;
  #playing = false;
  #clock = 0;
  /** k with its fraction, so that slow passes do not stall. */
  #exact = 0;

  constructor(store: Store, whenPaused: () => void) {
    this.#store = store;
    this.#whenPaused = whenPaused;
    this.#button = find<HTMLButtonElement>("play");
    this.#slider = find<HTMLInputElement>("scrub");
    this.#button.addEventListener("click", () => (this.#playing ? this.pause() : this.play()));
    this.#slider.addEventListener("input", () => {
      this.pause();
      store.set({ k: Number(this.#slider.value) });
    });
  }

  get isPlaying(): boolean {
    return this.#playing;
  }

  play(from = this.#store.state.k): void {
    this.#exact = from >= this.#store.state.steps ? 0 : from;
    this.#playing = true;
    this.#clock = performance.now();
    this.#store.set({ k: Math.floor(this.#exact) });
    requestAnimationFrame((now) => this.#advance(now));
  }

  pause(): void {
    if (!this.#playing) return;
    this.#playing = false;
    this.#store.redraw();
    this.#whenPaused();
  }

  #advance(now: number): void {
    if (!this.#playing) return;
    const { steps } = this.#store.state;
    // A hidden tab stops the clock; on its return the steps go on from where they were. A frame may have begun before
    // the clock was set: time never runs back.
    this.#exact += (Math.min(Math.max(now - this.#clock, 0), 100) / PASS) * steps;
    this.#clock = now;
    const k = Math.min(steps, Math.floor(this.#exact));
    if (k !== this.#store.state.k) this.#store.set({ k });
    if (k >= steps) this.pause();
    else requestAnimationFrame((next) => this.#advance(next));
  }

  draw(): void {
    const { k, steps, panel } = this.#store.state;
    // Power laws have steps of their own, thousands of them.
    find("transport").classList.toggle("has-no-steps", panel === "powerlaw");
    if (this.#slider.max !== String(steps)) this.#slider.max = String(steps);
    if (this.#slider.value !== String(k)) this.#slider.value = String(k);
    this.#slider.setAttribute("aria-valuetext", `step ${k} of ${steps}`);
    this.#slider.style.setProperty("--filled", `${(100 * k) / steps}%`);
    write(find("scrub-text"), `${k} / ${steps}`);
    const label = this.#playing ? "Pause" : "Play";
    if (this.#button.getAttribute("aria-label") !== label) {
      this.#button.setAttribute("aria-label", label);
      this.#button.classList.toggle("is-playing", this.#playing);
    }
  }

  summary(): string {
    return "";
  }
}
