/** The mixture, part by part: named methods to start from, parts with gain and memory, its text, and its line of code. */

import { choice, ratios, slider, stops, type Control } from "../controls";
import { FIRST_DRAWING, drawn } from "../drawn";
import type { Family } from "../memory";
import { mixtureFromText } from "../model";
import { mixtureOf, type Factor, type Mixture, type Part } from "../mixture";
import { NAMES, STOPS } from "../settings";
import type { Store } from "../store";
import { GAINS, MOST_PARTS, PARAMETERS, build, parseMixture, readParameters } from "../textform";
import { torchLine } from "../torchline";
import { find, isInDocs, place, write } from "./panel";

interface Named {
  readonly name: string;
  readonly label: string;
  readonly text: string;
  readonly about: string;
  /** Where the method comes from, and its place in the documentation. */
  readonly paper: string | null;
  readonly docs: string;
  readonly formula: string;
  readonly is: (mixture: Mixture) => boolean;
}

const single = (family: Family) => (mixture: Mixture) => mixture.memory?.family === family;
const shaped = (pattern: RegExp) => (mixture: Mixture) => pattern.test(mixture.text);

/** The methods to start from. The one that fits the mixture is marked. */
const NAMED: readonly Named[] = [
  {
    name: "inst",
    paper: null,
    docs: "methods.html",
    label: "SGD",
    text: "inst",
    about: "The newest gradient is all there is.",
    formula: tex`b_k = 0`,
    is: single("inst"),
  },
  {
    name: "poly",
    paper: "https://proceedings.mlr.press/v115/orvieto20a.html",
    docs: "memory.html",
    label: "polynomial",
    text: "poly:2",
    about: "MemSGD-p. p = 1 is the plain average, p = 2 linear memory; the larger p, the closer to SGD.",
    formula: tex`m(t) = t^p, \quad b_k = \frac{k}{k+p}`,
    is: single("poly"),
  },
  {
    name: "exp",
    paper: "https://arxiv.org/abs/1412.6980",
    docs: "methods.html#adam-and-adamw",
    label: "exponential",
    text: "exp:0.9",
    about: "Adam’s average with its bias correction; in the long run momentum, divided by its gain.",
    formula: tex`m(t) = e^{\alpha t} - 1, \quad b_k = \beta\,\frac{1-\beta^k}{1-\beta^{k+1}}`,
    is: single("exp"),
  },
  {
    name: "hb",
    paper: "https://doi.org/10.1016/0041-5553(64)90137-5",
    docs: "methods.html#heavy-ball",
    label: "heavy ball",
    text: "sum*exp:0.9",
    about: "Momentum: gradients are summed, not averaged. Its gain levels off at 1/(1 − β).",
    formula: tex`\Gamma_k = \frac{1-\beta^{k+1}}{1-\beta}`,
    is: shaped(/^sum\*(exp|poly):[\d.]+$/),
  },
  {
    name: "nag",
    paper: "https://arxiv.org/abs/1503.01243",
    docs: "methods.html#mixtures",
    label: "Nesterov",
    text: "inst + 0.25*(1+k)*poly:4",
    about: "Momentum k/(k+3), with gradients taken ahead. Its gain grows with every step.",
    formula: tex`\Gamma_k = 1 + \frac{k+1}{4}`,
    is: shaped(/^inst \+ [\d.]+\*(\(1\+k\)\*poly|sum\*exp):[\d.]+$/),
  },
  {
    name: "adana",
    paper: "https://arxiv.org/abs/2602.05298",
    docs: "methods.html#mixtures",
    label: "ADana",
    text: "inst + (1+k)^0.15*poly:8",
    about: "DANA and the numerator of ADana: a slowly growing gain on a long memory.",
    formula: tex`\Gamma_k = 1 + (1+k)^{1-\kappa}`,
    is: shaped(/^inst \+ ([\d.]+\*)?\(1\+k\)\^[\d.]+\*poly:[\d.]+$/),
  },
  {
    name: "ademamix",
    paper: "https://arxiv.org/abs/2409.03137",
    docs: "methods.html#mixtures",
    label: "AdEMAMix",
    text: "exp:0.9 + 5*cold*exp:0.9999",
    about: "Two exponential averages, a fast and a slow one, which starts from 0.",
    formula: tex`\Gamma_k = 1 + 5\,(1 - \beta_3^{k+1})`,
    is: shaped(/^exp:[\d.]+ \+ [\d.]+\*cold\*(ramp\(\d+\)\*)?exp:[\d.]+$/),
  },
  {
    name: "qhm",
    paper: "https://arxiv.org/abs/1810.06801",
    docs: "methods.html#mixtures",
    label: "QHM",
    text: "0.3*inst + 0.7*cold*exp:0.999",
    about: "Quasi-hyperbolic momentum: a little of the newest gradient, much of an average that starts from 0.",
    formula: tex`\Gamma_k = 1 - \nu \beta^{k+1}`,
    is: shaped(/^[\d.]+\*inst \+ [\d.]+\*cold\*exp:[\d.]+$/),
  },
  {
    name: "log",
    paper: "https://proceedings.mlr.press/v115/orvieto20a.html",
    docs: "families.html",
    label: "logarithmic",
    text: "log",
    about: "Longer than long: the only family here that favors the oldest gradients.",
    formula: tex`m(t) = \log(1+t)`,
    is: single("log"),
  },
  {
    name: "stretch",
    paper: "https://proceedings.mlr.press/v115/orvieto20a.html",
    docs: "families.html",
    label: "super-exponential",
    text: "stretch:1.5,h=0.05",
    about: "α > 1 forgets faster than exponentially, α < 1 more slowly; h sets how soon.",
    formula: tex`m(t) = e^{t^\alpha} - 1`,
    is: single("stretch"),
  },
  {
    name: "power",
    paper: "https://arxiv.org/abs/1804.04235",
    docs: "methods.html#adafactor",
    label: "Adafactor’s",
    text: "power:0.8",
    about: "c = 1 is the plain average, smaller c forgets faster. It has decays, but no memory function.",
    formula: tex`1 - b_k = (k+1)^{-c}`,
    is: single("power"),
  },
  {
    name: "draw",
    paper: null,
    docs: "families.html",
    label: "draw your own",
    text: drawn(FIRST_DRAWING).text,
    about: "Any curve above 0 is the slope of a memory function. Draw one in the picture below.",
    formula: tex`m(t) = \int_0^t \dot m(s)\, ds, \quad b_k = \frac{m(k)}{m(k+1)}`,
    is: single("draw"),
  },
];
const OTHER = {
  about: "A mixture of your own.",
  paper: null,
  docs: "mixtures.html",
  formula: tex`n_k = \sum_i \gamma_i(k)\, u^i_k`,
};

const FAMILY_NAMES: readonly (readonly [Family, string])[] = [
  ["inst", "newest gradient"],
  ["poly", "polynomial"],
  ["exp", "exponential"],
  ["log", "logarithmic"],
  ["stretch", "super-exponential"],
  ["power", "Adafactor’s"],
  ["draw", "drawn"],
];

type GainKind = "number" | "power" | "sum" | "cold" | "ramp";
const GAIN_NAMES: readonly (readonly [GainKind, string])[] = [
  ["number", "constant"],
  ["power", "growing, (1+k)^a"],
  ["sum", "sum (heavy ball)"],
  ["cold", "cold start"],
  ["ramp", "ramp"],
];

export class Builder {
  readonly #store: Store;
  readonly #methods: Control;
  #rows: readonly Control[] = [];
  #shape = "";
  #formula = "";
  /** What each method was last set to, so that trying another loses nothing. */
  readonly #latest = new Map<string, string>();

  constructor(store: Store) {
    this.#store = store;
    this.#methods = choice({
      legend: "Start from a method",
      choices: NAMED.map(({ name, label }) => [name, label] as const),
      get: () => this.#named()?.name ?? "",
      set: (name) => store.set({ memory: this.#latest.get(name) ?? NAMED.find((each) => each.name === name)!.text }),
    });
    place("memory-methods", [this.#methods]);
    find("part-add").addEventListener("click", () => {
      const { parts } = this.#mixture();
      const memory = parts.some((part) => part.memory.family === "poly")
        ? build("exp", { beta: 0.99 })
        : build("poly", { p: 4 });
      this.#set([...parts, { scale: 0.5, factors: [], memory }]);
    });
    const form = find<HTMLInputElement>("memory-form");
    form.addEventListener("change", () => this.#read(form.value));
    find("copy-form").addEventListener("click", () => copyText(find("copy-form"), form.value));
    find("copy-torch").addEventListener("click", () =>
      copyText(find("copy-torch"), torchLine(this.#mixture(), store.state.lr)),
    );
  }

  draw(): void {
    const mixture = this.#mixture();
    const named = this.#named();
    if (named !== undefined) this.#latest.set(named.name, mixture.text);
    const shape = mixture.parts.map(shapeOf).join(" + ");
    if (shape !== this.#shape) this.#showParts(mixture);
    this.#shape = shape;
    for (const control of [this.#methods, ...this.#rows]) control.show();
    const { about, formula, paper, docs } = named ?? OTHER;
    if (formula !== this.#formula) {
      find("memory-formula").innerHTML = this.#formula = formula;
      const links = [
        ...(paper === null ? [] : [`<a href="${paper}">paper</a>`]),
        ...(isInDocs ? [`<a href="../${docs}">docs</a>`] : []),
      ];
      find("memory-about").innerHTML = `${about} ${links.join(" ")}`;
    }
    find<HTMLButtonElement>("part-add").disabled = mixture.parts.length >= MOST_PARTS;
    const form = find<HTMLInputElement>("memory-form");
    if (document.activeElement !== form && form.value !== mixture.text) {
      form.value = mixture.text;
      write(find("memory-form-note"), "");
    }
    write(find("memory-torch"), torchLine(mixture, this.#store.state.lr));
  }

  #mixture(): Mixture {
    return mixtureFromText(this.#store.state.memory);
  }

  #named(): Named | undefined {
    return NAMED.find(({ is }) => is(this.#mixture()));
  }

  #set(parts: readonly Part[]): void {
    this.#store.set({ memory: mixtureOf(parts).text });
  }

  #read(text: string): void {
    const complaints: string[] = [];
    try {
      const { text: memory } = parseMixture(text, (message) => complaints.push(message));
      this.#store.set({ memory });
      find<HTMLInputElement>("memory-form").value = memory;
    } catch (error) {
      complaints.push(`${(error as Error).message}.`);
    }
    write(find("memory-form-note"), complaints.join(" "));
  }

  #showParts(mixture: Mixture): void {
    const list = find("memory-parts");
    const focused = list.contains(document.activeElement)
      ? document.activeElement!.getAttribute("aria-label")
      : undefined;
    this.#rows = mixture.parts.flatMap((_, i) => this.#controlsOf(i, mixture.parts.length));
    list.replaceChildren(
      ...mixture.parts.map((part, i) => {
        const row = document.createElement("div");
        row.className = "part";
        row.setAttribute("role", "group");
        row.setAttribute("aria-label", `Part ${i + 1} of ${mixture.parts.length}`);
        row.append(...this.#selects(part, i));
        return row;
      }),
    );
    this.#rows.forEach((control) => list.children[Number(control.element.dataset.part)].append(control.element));
    if (mixture.parts.length > 1) {
      mixture.parts.forEach((_, i) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = "Remove";
        button.addEventListener("click", () => this.#set(this.#mixture().parts.filter((__, other) => other !== i)));
        list.children[i].append(button);
      });
    }
    if (focused !== undefined) list.querySelector<HTMLElement>(`[aria-label="${focused}"]`)?.focus();
  }

  /** Which gain and which memory. */
  #selects(part: Part, i: number): HTMLElement[] {
    const kinds = GAIN_NAMES.filter(([kind]) => (kind === "cold" ? part.memory.family === "exp" : true));
    const gain = select(`gain of part ${i + 1}`, "gain", kinds, gainKind(part), (kind) =>
      this.#change(i, withGain(part, kind)),
    );
    const family = select(`memory of part ${i + 1}`, "memory", FAMILY_NAMES, part.memory.family, (name) => {
      const memory = name === "draw" ? drawn(FIRST_DRAWING) : buildFirst(name);
      const factors = name === "exp" ? part.factors : part.factors.filter(({ kind }) => kind !== "cold");
      this.#change(i, { ...part, memory, factors });
    });
    return [gain, family];
  }

  #change(i: number, part: Part): void {
    this.#set(this.#mixture().parts.map((each, other) => (other === i ? part : each)));
  }

  #controlsOf(i: number, count: number): Control[] {
    const part = () => this.#mixture().parts[i];
    const change = (changed: Partial<Part>) => this.#change(i, { ...part(), ...changed });
    const mine = (control: Control) => {
      control.element.dataset.part = String(i);
      return control;
    };
    const kind = gainKind(part());
    const isPlain = count === 1 && kind === "number" && part().scale === 1;
    const controls: Control[] = [];
    if (!isPlain) {
      const { low, high } = GAINS.scale;
      controls.push(
        slider({
          label: kind === "number" ? "gain" : "times",
          values: [...new Set([...ratios(low, high, 12), 0.25, 0.5, 0.75, 1, 2, 5])].sort((a, b) => a - b),
          get: () => part()?.scale ?? 1,
          set: (scale) => change({ scale }),
          text: String,
        }),
      );
    }
    const power = part().factors.find((factor) => factor.kind === "power");
    if (power !== undefined) {
      controls.push(
        slider({
          label: "exponent a",
          values: stops([-2, 2, 0.05]),
          get: () => exponentOf(part()),
          set: (exponent) => {
            if (exponent === 0) return;
            change({
              factors: part().factors.map((each) => (each.kind === "power" ? { kind: "power", exponent } : each)),
            });
          },
          text: String,
        }),
      );
    }
    const ramp = part().factors.find((factor) => factor.kind === "ramp");
    if (ramp !== undefined) {
      controls.push(
        slider({
          label: "ramp, in steps",
          values: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000],
          get: () => part().factors.reduce((found, each) => (each.kind === "ramp" ? each.steps : found), 1),
          set: (steps) => {
            change({ factors: part().factors.map((each) => (each.kind === "ramp" ? { kind: "ramp", steps } : each)) });
          },
          text: String,
        }),
      );
    }
    const { family } = part().memory;
    for (const { name } of PARAMETERS[family]) {
      controls.push(
        slider({
          label: NAMES[name][0],
          hint: NAMES[name][1],
          values: STOPS[name],
          get: () => {
            const memory = part()?.memory;
            return memory?.family === family ? readParameters(memory.text, () => {}).values[name] : STOPS[name][0];
          },
          set: (value) => {
            const { values } = readParameters(part().memory.text, () => {});
            change({ memory: build(family, { ...values, [name]: value }) });
          },
          text: String,
        }),
      );
    }
    return controls.map(mine);
  }
}

function gainKind({ factors }: Part): GainKind {
  return factors.length === 0 ? "number" : factors[0].kind;
}

function exponentOf(part: Part): number {
  return part.factors.reduce((found, each) => (each.kind === "power" ? each.exponent : found), 1);
}

function withGain(part: Part, kind: GainKind): Part {
  const made: Readonly<Record<GainKind, readonly Factor[]>> = {
    number: [],
    power: [{ kind: "power", exponent: 0.5 }],
    sum: [{ kind: "sum" }],
    cold: [{ kind: "cold" }],
    ramp: [{ kind: "ramp", steps: 50 }],
  };
  return { ...part, factors: made[kind] };
}

function buildFirst(family: Family) {
  return build(family, Object.fromEntries(PARAMETERS[family].map(({ name, start }) => [name, start])));
}

/** What the controls of a part depend on, apart from their values. */
function shapeOf(part: Part): string {
  const isOne = part.scale === 1 ? "1" : "c";
  return `${part.factors.length === 0 ? isOne : part.factors.map(({ kind }) => kind).join("*")} ${part.memory.family}`;
}

function select<Choice extends string>(
  role: string,
  label: string,
  choices: readonly (readonly [Choice, string])[],
  chosen: Choice,
  set: (choice: Choice) => void,
): HTMLElement {
  const element = document.createElement("label");
  element.className = "select";
  element.innerHTML =
    `<span>${label}</span><select aria-label="${role}">` +
    choices
      .map(([value, text]) => `<option value="${value}"${value === chosen ? " selected" : ""}>${text}</option>`)
      .join("") +
    "</select>";
  const list = element.querySelector("select")!;
  list.addEventListener("change", () => set(list.value as Choice));
  return element;
}

export function copyText(button: HTMLElement, text: string): void {
  const before = button.textContent;
  const say = (words: string) => {
    button.textContent = words;
    window.setTimeout(() => (button.textContent = before), 2000);
  };
  navigator.clipboard
    ?.writeText(text)
    .then(() => say("Copied"))
    // Pages opened from a file or in a frame may not write to the clipboard: let the reader copy the text itself.
    .catch(() => window.prompt("Copy this:", text)) ?? window.prompt("Copy this:", text);
}
