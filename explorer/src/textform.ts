/** Memories from their text forms, as the library reads them, kept inside what the page's sliders reach. */

import { drawn, readHeights } from "./drawn";
import { exponential, instantaneous, logarithmic, polynomial, powerDecay, stretched } from "./families";
import type { Family, Memory } from "./memory";

export interface Range {
  readonly low: number;
  readonly high: number;
}

export interface Parameter extends Range {
  /** The name in text forms. */
  readonly name: string;
  /** Whether the text form gives it by its place, without its name. */
  readonly unnamed: boolean;
  readonly start: number;
}

const TIME_STEP = { name: "h", unnamed: false, low: 0.001, high: 10 };

/** The parameters of each family, in the order of their text form. */
export const PARAMETERS: Readonly<Record<Family, readonly Parameter[]>> = {
  poly: [{ name: "p", unnamed: true, low: 0.25, high: 100, start: 2 }],
  exp: [{ name: "beta", unnamed: true, low: 0.01, high: 0.999, start: 0.9 }],
  inst: [],
  log: [{ ...TIME_STEP, start: 1 }],
  stretch: [
    { name: "alpha", unnamed: true, low: 0.25, high: 4, start: 1.5 },
    { ...TIME_STEP, start: 0.05 },
  ],
  power: [{ name: "c", unnamed: true, low: 0.05, high: 2, start: 0.8 }],
  draw: [],
};

const NAMED: Readonly<Record<string, string>> = {
  constant: "poly:1",
  "square-root": "poly:1.5",
  linear: "poly:2",
  quadratic: "poly:3",
  cubic: "poly:4",
  "p=inf": "inst",
  "p=e": "exp:0.9",
};

export function build(family: Family, values: Readonly<Record<string, number>>): Memory {
  switch (family) {
    case "poly":
      return polynomial(values.p);
    case "exp":
      return exponential(values.beta, values.h);
    case "inst":
      return instantaneous();
    case "log":
      return logarithmic(values.h);
    case "stretch":
      return stretched(values.alpha, values.h);
    case "power":
      return powerDecay(values.c);
    case "draw":
      throw new RangeError("a drawn memory has heights, not parameters");
  }
}

/** The family and the parameters of a text form; `complain` hears of what had to be changed. */
export function readParameters(
  text: string,
  complain: (message: string) => void,
): { family: Family; values: Record<string, number> } {
  const plain = text.trim().toLowerCase();
  const known = NAMED[plain] ?? (plain.startsWith("p=") ? `poly:${plain.slice(2)}` : plain);
  const [name, rest = ""] = known.split(/:(.*)/s);
  if (!Object.hasOwn(PARAMETERS, name) || name === "draw") {
    throw new RangeError(`unknown memory ${JSON.stringify(text)}; known: ${Object.keys(PARAMETERS).join(", ")}`);
  }
  const family = name as Family;
  const parameters: readonly Parameter[] =
    family === "exp" ? [...PARAMETERS.exp, { ...TIME_STEP, start: 1 }] : PARAMETERS[family];
  // Text that leaves h out means h = 1; only the sliders start elsewhere.
  const values = Object.fromEntries(parameters.map(({ name, start }) => [name, name === "h" ? 1 : start]));
  const unnamed = parameters.filter((each) => each.unnamed);
  for (const [i, word] of (rest === "" ? [] : rest.split(",")).entries()) {
    const [key, number] = word.includes("=") ? word.split("=") : [unnamed[i]?.name, word];
    const parameter = parameters.find((each) => each.name === key.trim());
    if (parameter === undefined || number.trim() === "" || !Number.isFinite(Number(number))) {
      throw new RangeError(`cannot read ${JSON.stringify(word)} in the memory ${JSON.stringify(text)}`);
    }
    values[parameter.name] = clamp(Number(number), parameter, `${parameter.name} of ${text}`, complain);
  }
  return { family, values };
}

export function parseMemory(text: string, complain: (message: string) => void = () => {}): Memory {
  if (text.startsWith("draw:")) return drawn(readHeights(text.slice("draw:".length)));
  const { family, values } = readParameters(text, complain);
  return build(family, values);
}

export function clamp(value: number, range: Range, what: string, complain: (message: string) => void): number {
  const inside = Math.min(range.high, Math.max(range.low, value));
  if (inside !== value) complain(`${what}: ${value} is outside ${range.low} to ${range.high}, so ${inside} is shown.`);
  return inside;
}
