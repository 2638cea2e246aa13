/** The panels, one at a time, in the order in which the story tells of them. */

import { mixtureOfState } from "../model";
import { PANELS, type PanelName } from "../state";
import type { Store } from "../store";
import { find, write, type Panel } from "./panel";

const TITLES: Readonly<Record<PanelName, string>> = {
  descent: "Descent",
  weights: "Weights",
  modes: "Curvatures",
  noise: "Noise",
  clocks: "Clocks",
  map: "Map",
  powerlaw: "Power laws",
};

export class Tabs implements Panel {
  readonly #store: Store;
  readonly #buttons: ReadonlyMap<PanelName, HTMLButtonElement>;
  readonly #names = [...document.querySelectorAll<HTMLElement>(".memory-name")];

  constructor(store: Store, leaving: () => void, arrived: () => void) {
    this.#store = store;
    this.#buttons = new Map(
      PANELS.map((panel) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = TITLES[panel];
        button.addEventListener("click", () => {
          leaving();
          store.set({ panel });
          arrived();
        });
        return [panel, button];
      }),
    );
    find("tabs").append(...this.#buttons.values());
  }

  draw(): void {
    const { state } = this.#store;
    for (const [panel, button] of this.#buttons) {
      const isNow = panel === state.panel;
      if (button.getAttribute("aria-pressed") !== String(isNow)) button.setAttribute("aria-pressed", String(isNow));
      find(`panel-${panel}`).hidden = !isNow;
    }
    const text = mixtureOfState(state).text.replace(/draw:\d+/g, "draw:…");
    for (const name of [...this.#names, find("memory-text")]) write(name, text);
  }

  summary(): string {
    return "";
  }
}
