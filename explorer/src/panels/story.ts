/** The paper's story: six steps, each a view with a few sentences. */

import { PRESETS, presetState } from "../presets";
import type { Store } from "../store";
import { find, type Panel } from "./panel";

export class Story implements Panel {
  readonly #store: Store;
  readonly #buttons: readonly HTMLButtonElement[];
  #shown = 0;

  /** `arrived` hears of a step that a reader has chosen. */
  constructor(store: Store, arrived: () => void) {
    this.#store = store;
    const list = find("story-steps");
    this.#buttons = PRESETS.map((preset, i) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = String(i + 1);
      button.setAttribute("aria-label", `Step ${i + 1}: ${preset.title}`);
      button.title = preset.title;
      item.append(button);
      list.append(item);
      return button;
    });
    const go = (step: number) => {
      const { theme } = store.state;
      store.set({ ...presetState(step), theme });
      arrived();
    };
    this.#buttons.forEach((button, i) => button.addEventListener("click", () => go(i + 1)));
    find("story-back").addEventListener("click", () => go(Math.max(1, store.state.step - 1)));
    find("story-on").addEventListener("click", () => go(Math.min(PRESETS.length, store.state.step + 1)));
    find("story-again").addEventListener("click", () => go(store.state.step));
  }

  draw(): void {
    const { step } = this.#store.state;
    if (step === this.#shown) return;
    this.#shown = step;
    const preset = PRESETS[step - 1];
    find("story-title").textContent = preset.title;
    find("story-count").textContent = `Step ${step} of ${PRESETS.length}`;
    find("story-see").innerHTML = preset.see;
    find("story-why").innerHTML = preset.why;
    find("story-try").innerHTML = preset.try;
    find<HTMLAnchorElement>("story-link").href = `#panel-${preset.panel}`;
    find<HTMLButtonElement>("story-back").disabled = step === 1;
    find<HTMLButtonElement>("story-on").disabled = step === PRESETS.length;
    this.#buttons.forEach((button, i) => {
      if (i + 1 === step) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    });
    for (const { panel } of PRESETS) {
      find(`panel-${panel}`).classList.toggle("is-told", panel === preset.panel);
    }
  }

  summary(): string {
    return `Step ${this.#store.state.step}: ${PRESETS[this.#store.state.step - 1].title}.`;
  }
}
