/** What a screen reader says of a change: one sentence, once things have come to rest. */

const REST = 700;

export class Announcer {
  readonly #element: HTMLElement;
  #timer = 0;
  #said = "";

  constructor(element: HTMLElement) {
    this.#element = element;
  }

  /** Says the latest of these once nothing new has come for a while. */
  later(sentence: () => string): void {
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.now(sentence()), REST);
  }

  now(sentence: string): void {
    if (sentence === this.#said) return;
    this.#said = sentence;
    this.#element.textContent = sentence;
  }
}

/** Describes a picture in words, without touching the page where nothing has changed. */
export function describe(canvas: HTMLElement, words: string): void {
  if (canvas.getAttribute("aria-label") !== words) canvas.setAttribute("aria-label", words);
}
