/** Several memories at once, each with a gain: the library's mixtures (memgrad/memory/mixture.py and gains.py). */

import { instantaneous, polynomial } from "./families";
import type { Memory } from "./memory";

/** A factor of a gain, a function of the step k and, for some, of the memory beside it. */
export type Factor =
  | { readonly kind: "power"; readonly exponent: number }
  | { readonly kind: "ramp"; readonly steps: number }
  | { readonly kind: "sum" }
  | { readonly kind: "cold" };

/** A number times factors times a memory: one summand of a text form. */
export interface Part {
  readonly scale: number;
  readonly factors: readonly Factor[];
  readonly memory: Memory;
}

export interface Mixture {
  /** The text form, as in the library: inst + (1+k)^0.15*poly:8. */
  readonly text: string;
  readonly parts: readonly Part[];
  /** The memory that it is, where it has one part with gain 1. */
  readonly memory: Memory | null;
  /** The memories that need a buffer each: all but inst. */
  readonly buffers: readonly Memory[];
  /** The gain of the newest gradient alone. */
  instant(k: number): number;
  /** The gain of each buffer, in their order. */
  gainOf(buffer: number, k: number): number;
  /** The total gain, by which a constant gradient is multiplied. */
  gain(k: number): number;
}

/** The gain of a part at step k. */
export function partGain({ scale, factors, memory }: Part, k: number): number {
  let value = scale;
  for (const factor of factors) value *= factorAt(factor, memory, k);
  return value;
}

function factorAt(factor: Factor, memory: Memory, k: number): number {
  switch (factor.kind) {
    case "power":
      return (k + 1) ** factor.exponent;
    case "ramp":
      return Math.min((k + 1) / factor.steps, 1);
    case "sum":
      return 1 / memory.fresh(k);
    case "cold":
      // 1 - beta^(k+1) of exponential memory, whose decay tends to beta.
      return -Math.expm1((k + 1) * Math.log(memory.decay(1e15)));
  }
}

export function factorText(factor: Factor): string {
  switch (factor.kind) {
    case "power":
      return factor.exponent === 1 ? "(1+k)" : `(1+k)^${factor.exponent}`;
    case "ramp":
      return `ramp(${factor.steps})`;
    default:
      return factor.kind;
  }
}

export function partText({ scale, factors, memory }: Part): string {
  const words = factors.map(factorText);
  if (scale !== 1) words.unshift(String(scale));
  return [...words, memory.text].join("*");
}

/** The mixture of these parts. Parts of one memory stand together, and those with equal factors are added up. */
export function mixtureOf(parts: readonly Part[]): Mixture {
  const memories = new Map<string, Memory>();
  for (const { memory } of parts) if (!memories.has(memory.text)) memories.set(memory.text, memory);
  const merged = [...memories.values()].flatMap((memory) => {
    const terms = new Map<string, Part>();
    for (const part of parts.filter((each) => each.memory.text === memory.text)) {
      const factors = inOrder(part.factors);
      const key = factors.map(factorText).join("*");
      const known = terms.get(key);
      terms.set(key, { scale: (known?.scale ?? 0) + part.scale, factors, memory });
    }
    return [...terms.values()].filter(({ scale }) => scale !== 0);
  });
  if (merged.length === 0) throw new RangeError("a mixture needs a part with a gain above 0");
  const buffers = [...memories.values()].filter(
    ({ family, text }) => family !== "inst" && merged.some(({ memory }) => memory.text === text),
  );
  const of = new Map(buffers.map(({ text }) => [text, merged.filter(({ memory }) => memory.text === text)]));
  const newest = merged.filter(({ memory }) => memory.family === "inst");
  const sum = (terms: readonly Part[], k: number) => terms.reduce((total, part) => total + partGain(part, k), 0);
  const only = merged[0];
  return {
    text: merged.map(partText).join(" + "),
    parts: merged,
    memory: merged.length === 1 && only.scale === 1 && only.factors.length === 0 ? only.memory : null,
    buffers,
    instant: (k) => sum(newest, k),
    gainOf: (buffer, k) => sum(of.get(buffers[buffer].text)!, k),
    gain: (k) => sum(merged, k),
  };
}

/** Powers are added up and stand first; the others by their names. */
function inOrder(factors: readonly Factor[]): Factor[] {
  const exponent = factors.reduce((total, each) => total + (each.kind === "power" ? each.exponent : 0), 0);
  const rest = factors.filter(({ kind }) => kind !== "power");
  rest.sort((a, b) => (factorText(a) < factorText(b) ? -1 : 1));
  return exponent === 0 ? rest : [{ kind: "power", exponent }, ...rest];
}

export function plain(memory: Memory): Mixture {
  return mixtureOf([{ scale: 1, factors: [], memory }]);
}

export const SGD = plain(instantaneous());

/** Nesterov's method with the momentum k/(k+q); q = 3 is his own, whose equation has the viscosity 3/t. */
export function nesterov(q: number): Mixture {
  const memory = polynomial(q + 1);
  return mixtureOf([
    { scale: 1, factors: [], memory: instantaneous() },
    { scale: 1 / (q + 1), factors: [{ kind: "power", exponent: 1 }], memory },
  ]);
}

/** w(0,k), ..., w(k,k): numbers >= 0 whose sum is the gain, or 1 where the gain is divided out. */
export function mixtureWeights(mixture: Mixture, k: number, isEqual = false): Float64Array {
  const w = new Float64Array(k + 1);
  w[k] = mixture.instant(k);
  mixture.buffers.forEach((memory, i) => {
    let kept = mixture.gainOf(i, k);
    for (let j = k; j >= 0 && kept > 0; j--) {
      w[j] += kept * memory.fresh(j);
      kept *= memory.decay(j);
    }
  });
  if (isEqual) {
    const total = mixture.gain(k);
    for (let j = 0; j <= k; j++) w[j] /= total;
  }
  return w;
}

export interface MixturePassport {
  readonly gain: number;
  readonly meanAge: number;
  readonly halfLife: number;
  readonly varianceFactor: number;
  readonly newestWeight: number;
  readonly firstWeight: number;
}

/** What a mixture remembers at step k, and how strongly. */
export function mixturePassport(mixture: Mixture, k: number, isEqual = false): MixturePassport {
  const w = mixtureWeights(mixture, k, isEqual);
  let [gain, ages, squares] = [0, 0, 0];
  for (let j = 0; j <= k; j++) {
    gain += w[j];
    ages += w[j] * (k - j);
    squares += w[j] * w[j];
  }
  let left = gain;
  let halfLife = k;
  for (let j = k; j >= 0; j--) {
    left -= w[j];
    // The sum carries rounding errors: a tie with one half must still count as reached.
    if (left <= gain * (0.5 + 1e-12)) {
      halfLife = k - j;
      break;
    }
  }
  return { gain, meanAge: ages / gain, halfLife, varianceFactor: squares, newestWeight: w[k], firstWeight: w[0] };
}

/** Gain, variance factor and weight of the first gradient at the steps 0, ..., K. */
export interface Histories {
  readonly gain: Float64Array;
  readonly noise: Float64Array;
  readonly first: Float64Array;
}

/**
 * Step by step, without the weights of all steps: with the sums P_il = sum_j w_i(j,k) w_l(j,k) of two memories,
 * P' = b_i b_l P + f_i f_l, and the variance factor is the sum of gain_i gain_l P_il.
 */
export function histories(mixture: Mixture, steps: number, isEqual = false): Histories {
  const memories = [...mixture.buffers, instantaneous()];
  const n = memories.length;
  const products = new Float64Array(n * n);
  const first = new Float64Array(n).fill(1);
  const found = {
    gain: new Float64Array(steps + 1),
    noise: new Float64Array(steps + 1),
    first: new Float64Array(steps + 1),
  };
  const [b, f, gains] = [new Float64Array(n), new Float64Array(n), new Float64Array(n)];
  for (let k = 0; k <= steps; k++) {
    for (let i = 0; i < n; i++) {
      b[i] = memories[i].decay(k);
      f[i] = memories[i].fresh(k);
      gains[i] = i === n - 1 ? mixture.instant(k) : mixture.gainOf(i, k);
      first[i] = k === 0 ? 1 : first[i] * b[i];
    }
    let [gain, noise, oldest] = [0, 0, 0];
    for (let i = 0; i < n; i++) {
      gain += gains[i];
      oldest += gains[i] * first[i];
      for (let l = 0; l < n; l++) {
        products[i * n + l] = b[i] * b[l] * products[i * n + l] + f[i] * f[l];
        noise += gains[i] * gains[l] * products[i * n + l];
      }
    }
    found.gain[k] = isEqual ? 1 : gain;
    found.noise[k] = isEqual ? noise / gain ** 2 : noise;
    found.first[k] = isEqual ? oldest / gain : oldest;
  }
  return found;
}
