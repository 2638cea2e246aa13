/** The story: scenes of a few words each, beside the panel that shows what they tell. */

import type { Control } from "../controls";
import { SCENES, sceneState } from "../scenes";
import { control } from "../settings";
import type { State } from "../state";
import type { Store } from "../store";
import { find, type Panel } from "./panel";

export class Story implements Panel {
  readonly #store: Store;
  readonly #buttons: readonly HTMLButtonElement[];
  readonly #articles: readonly HTMLElement[];
  readonly #tries: readonly HTMLElement[];
  readonly #whys: readonly HTMLElement[];
  readonly #titles: readonly string[];
  /** The views as the reader left them. */
  readonly #kept = new Map<number, State>();
  readonly #narrow: MediaQueryList;
  #controls: readonly Control[] = [];
  #shown = "";

  /** `leaving` hears of a scene that is left, and `arrived` of the next one, and whether it is new to the reader. */
  constructor(store: Store, narrow: MediaQueryList, leaving: () => void, arrived: (isNew: boolean) => void) {
    this.#store = store;
    this.#narrow = narrow;
    this.#articles = [...find("story").querySelectorAll("article")];
    this.#tries = this.#articles.map((article) => article.querySelector<HTMLElement>(".try")!);
    this.#whys = this.#articles.map((article) => article.querySelector<HTMLElement>(".why")!);
    this.#titles = this.#articles.map((article) => article.querySelector("h2")!.textContent!);
    for (const element of this.#tries) {
      const place = document.createElement("div");
      place.className = "named";
      element.append(place);
    }
    this.#buttons = this.#titles.map((title, i) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = String(i + 1);
      button.setAttribute("aria-label", `Scene ${i + 1}: ${title}`);
      button.title = title;
      item.append(button);
      find("story-steps").append(item);
      return button;
    });
    const go = (step: number) => {
      const { state } = store;
      leaving();
      this.#kept.set(state.step, state);
      const isNew = !this.#kept.has(step);
      store.set({ ...(this.#kept.get(step) ?? sceneState(step)), theme: state.theme });
      arrived(isNew);
    };
    this.#buttons.forEach((button, i) => button.addEventListener("click", () => go(i + 1)));
    find("story-back").addEventListener("click", () => go(Math.max(1, store.state.step - 1)));
    find("story-on").addEventListener("click", () => go(Math.min(SCENES.length, store.state.step + 1)));
    find("story-again").addEventListener("click", () => {
      store.set({ ...sceneState(store.state.step), theme: store.state.theme });
      arrived(true);
    });
    narrow.addEventListener("change", () => store.redraw());
  }

  draw(): void {
    const { step, panel } = this.#store.state;
    const key = `${step} ${panel} ${this.#narrow.matches}`;
    if (key !== this.#shown) this.#arrange(step, panel);
    this.#shown = key;
    for (const each of this.#controls) each.show();
  }

  /** What to try stands under the figure; on narrow screens the reasons do too, so that the figure comes first. */
  #arrange(step: number, panel: string): void {
    this.#articles.forEach((article, i) => {
      const isNow = i + 1 === step;
      article.hidden = !isNow;
      if (isNow) return;
      article.append(this.#tries[i], this.#whys[i]);
      this.#tries[i].querySelector(".named")!.replaceChildren();
    });
    const slot = find(`panel-${panel}`).querySelector(".slot")!;
    const [tried, why] = [this.#tries[step - 1], this.#whys[step - 1]];
    slot.append(tried);
    (this.#narrow.matches ? slot : this.#articles[step - 1]).append(why);
    (this.#narrow.matches ? slot : find("story")).append(find("story-again").parentElement!);
    this.#controls = SCENES[step - 1].controls.map((name) => control(this.#store, name));
    tried.querySelector(".named")!.replaceChildren(...this.#controls.map(({ element }) => element));
    // A control that stands in the scene is not needed a second time in its panel.
    for (const element of document.querySelectorAll<HTMLElement>("main [data-control]")) {
      const isTwice = SCENES[step - 1].controls.includes(element.dataset.control as never) && !tried.contains(element);
      element.classList.toggle("is-twice", isTwice);
    }
    const [back, on] = [find<HTMLButtonElement>("story-back"), find<HTMLButtonElement>("story-on")];
    back.disabled = step === 1;
    on.disabled = step === SCENES.length;
    find("story-next").textContent = step < SCENES.length ? `Next: ${this.#titles[step]}` : "The end";
    on.setAttribute("aria-label", step < SCENES.length ? `Next: ${this.#titles[step]}` : "Next");
    this.#buttons.forEach((button, i) => {
      if (i + 1 === step) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    });
  }

  summary(): string {
    const { step } = this.#store.state;
    return `Scene ${step}: ${this.#titles[step - 1]}.`;
  }
}
