/** Memories from their text forms, as the library reads them, kept inside what the page's sliders reach. */

import { drawn, readHeights } from "./drawn";
import { exponential, instantaneous, logarithmic, polynomial, powerDecay, stretched } from "./families";
import type { Family, Memory } from "./memory";
import { mixtureOf, type Factor, type Mixture, type Part } from "./mixture";

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
  exp: [{ name: "beta", unnamed: true, low: 0.01, high: 0.9999, start: 0.9 }],
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
  if (plain === "") throw new RangeError("a part is empty; write it as in inst + 5*exp:0.99");
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

/** The mixture with this text form; a memory is one of a single part with gain 1. */
export function parseMixture(text: string, complain: (message: string) => void = () => {}): Mixture {
  const summands = split(text.trim().toLowerCase(), "+");
  if (summands.length > MOST_PARTS)
    throw new RangeError(`the page shows up to ${MOST_PARTS} parts, got ${summands.length}`);
  return mixtureOf(summands.map((summand) => parsePart(summand, text, complain)));
}

export const MOST_PARTS = 6;
/** The smallest and the largest numbers of gains. */
export const GAINS = {
  scale: { low: 0.001, high: 100 },
  exponent: { low: -2, high: 2 },
  ramp: { low: 1, high: 10_000 },
} as const;

function parsePart(summand: string, text: string, complain: (message: string) => void): Part {
  const words = split(summand, "*");
  const memory = parseMemory(words.pop()!, complain);
  let scale = 1;
  const factors: Factor[] = [];
  for (const word of words) {
    const factor = readFactor(word, complain);
    if (factor === null) {
      throw new RangeError(
        `cannot read the gain ${JSON.stringify(word)} in ${JSON.stringify(text)}: write a number, (1+k)^0.15, ramp(100), ` +
          "sum or cold",
      );
    }
    if (typeof factor === "number") scale *= factor;
    else factors.push(factor);
  }
  if (factors.some(({ kind }) => kind === "cold") && memory.family !== "exp") {
    throw new RangeError(`cold needs an exponential memory, as in cold*exp:0.9, got ${memory.text}`);
  }
  if (scale !== 1) scale = clamp(scale, GAINS.scale, `the gain of ${summand}`, complain);
  return { scale, factors, memory };
}

function readFactor(word: string, complain: (message: string) => void): Factor | number | null {
  const power = /^\((?:1\s*\+\s*k|k\s*\+\s*1)\)(?:\^\(?([^()]+)\)?)?$/.exec(word);
  if (power !== null) {
    const exponent = power[1] === undefined ? 1 : readNumber(power[1]);
    return exponent === null ? null : { kind: "power", exponent: clamp(exponent, GAINS.exponent, word, complain) };
  }
  const ramp = /^ramp\((.+)\)$/.exec(word);
  if (ramp !== null) {
    const steps = readNumber(ramp[1]);
    return steps === null ? null : { kind: "ramp", steps: clamp(steps, GAINS.ramp, word, complain) };
  }
  if (word === "sum" || word === "cold") return { kind: word };
  const number = readNumber(word);
  return number !== null && number >= 0 ? number : null;
}

function readNumber(text: string): number | null {
  const number = Number(text);
  return text.trim() === "" || !Number.isFinite(number) ? null : number;
}

/** The pieces between signs that stand outside of parentheses and of numbers such as 1e+05. */
function split(text: string, sign: "+" | "*"): string[] {
  const pieces: string[] = [];
  let [depth, start] = [0, 0];
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "(") depth++;
    if (text[i] === ")") depth--;
    const isExponent = sign === "+" && /[\d.]e$/.test(text.slice(0, i)) && /\d/.test(text[i + 1] ?? "");
    if (text[i] !== sign || depth !== 0 || isExponent) continue;
    pieces.push(text.slice(start, i).trim());
    start = i + 1;
  }
  return [...pieces, text.slice(start).trim()];
}

export function clamp(value: number, range: Range, what: string, complain: (message: string) => void): number {
  const inside = Math.min(range.high, Math.max(range.low, value));
  if (inside !== value) complain(`${what}: ${value} is outside ${range.low} to ${range.high}, so ${inside} is shown.`);
  return inside;
}
