/** Sliders, switches and choices, labelled for eyes and for screen readers alike. */

export interface Control {
  readonly element: HTMLElement;
  /** Shows the value that the state has now. */
  show(): void;
}

interface SliderOptions {
  readonly label: string;
  /** The values that the slider stops at, increasing. */
  readonly values: readonly number[];
  /** Instead of them: whole numbers from 0 to this one, which may change. */
  readonly last?: () => number;
  readonly get: () => number;
  readonly set: (value: number) => void;
  readonly text: (value: number) => string;
  /** What it is, in a few words, where the label is a symbol. */
  readonly hint?: string;
}

let count = 0;
function freshId(): string {
  return `control-${count++}`;
}

export function slider({ label, values, last, get, set, text, hint }: SliderOptions): Control {
  const id = freshId();
  const element = document.createElement("div");
  element.className = "slider";
  element.innerHTML = `<label for="${id}">${label}</label><output for="${id}"></output>
    <input id="${id}" type="range" min="0" max="${last === undefined ? values.length - 1 : last()}" step="1">`;
  const input = element.querySelector("input")!;
  const output = element.querySelector("output")!;
  if (hint !== undefined) input.title = hint;
  input.addEventListener("input", () => set(last === undefined ? values[Number(input.value)] : Number(input.value)));
  let shown = "";
  return {
    element,
    show() {
      const value = get();
      const most = last === undefined ? values.length - 1 : last();
      const words = text(value);
      if (`${value} ${most}` === shown) return;
      shown = `${value} ${most}`;
      if (input.max !== String(most)) input.max = String(most);
      input.value = String(last === undefined ? nearest(values, value) : value);
      output.textContent = words;
      input.setAttribute("aria-valuetext", words);
      input.style.setProperty("--filled", `${(100 * Number(input.value)) / most}%`);
    },
  };
}

function nearest(values: readonly number[], value: number): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (Math.abs(values[i] - value) < Math.abs(values[best] - value)) best = i;
  return best;
}

interface ChoiceOptions<Choice extends string> {
  readonly legend: string;
  readonly choices: readonly (readonly [Choice, string])[];
  readonly get: () => Choice;
  readonly set: (choice: Choice) => void;
}

export function choice<Choice extends string>({ legend, choices, get, set }: ChoiceOptions<Choice>): Control {
  const name = freshId();
  const element = document.createElement("fieldset");
  element.className = "choice";
  element.innerHTML =
    `<legend>${legend}</legend>` +
    choices
      .map(([value, text]) => `<label><input type="radio" name="${name}" value="${value}"><span>${text}</span></label>`)
      .join("");
  const inputs = [...element.querySelectorAll("input")];
  for (const input of inputs) input.addEventListener("change", () => set(input.value as Choice));
  return {
    element,
    show() {
      const now = get();
      for (const input of inputs) if (input.checked !== (input.value === now)) input.checked = input.value === now;
    },
  };
}

interface SwitchOptions {
  readonly label: string;
  readonly hint?: string;
  readonly get: () => boolean;
  readonly set: (on: boolean) => void;
}

export function toggle({ label, hint, get, set }: SwitchOptions): Control {
  const element = document.createElement("label");
  element.className = "toggle";
  element.innerHTML = `<input type="checkbox"><span>${label}</span>`;
  const input = element.querySelector("input")!;
  if (hint !== undefined) element.title = hint;
  input.addEventListener("change", () => set(input.checked));
  return {
    element,
    show() {
      if (input.checked !== get()) input.checked = get();
    },
  };
}

/** Even numbers from each first to each last, by each step: [0, 1, 0.1] and so on. */
export function stops(...runs: readonly (readonly [number, number, number])[]): number[] {
  const values = new Set<number>();
  for (const [first, last, step] of runs) {
    for (let i = 0; first + i * step <= last + 1e-9; i++) values.add(Number((first + i * step).toPrecision(6)));
  }
  return [...values];
}

/** Numbers in even ratios, in two significant digits. */
export function ratios(first: number, last: number, perDecade: number): number[] {
  const n = Math.round(Math.log10(last / first) * perDecade);
  const values = Array.from({ length: n + 1 }, (_, i) => Number((first * (last / first) ** (i / n)).toPrecision(2)));
  return [...new Set(values)];
}
