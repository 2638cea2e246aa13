/** A memory drawn by hand: m'(t) is linear between knots, and m(t) its exact integral. */

import type { Memory } from "./memory";

/** Knots lie at the steps 0, 4, 8, ..., 100. Past the last one m' stays as it is. */
export const KNOT_STEPS = 4;
export const KNOTS = 26;
/** Heights are whole numbers up to this; the lowest is not 0, because m must increase. */
export const TALLEST = 99;
export const LOWEST = 1;

/** A hump: what many expect of a memory, and no family has. */
export const FIRST_DRAWING: readonly number[] = Array.from({ length: KNOTS }, (_, i) =>
  Math.round(8 + 84 * Math.exp(-(((i - 17) / 5) ** 2))),
);

export function drawn(heights: readonly number[]): Memory {
  const areas = new Float64Array(KNOTS);
  for (let i = 1; i < KNOTS; i++) areas[i] = areas[i - 1] + (KNOT_STEPS * (heights[i - 1] + heights[i])) / 2;
  const last = KNOTS - 1;
  const dm = (t: number) => {
    const i = Math.floor(t / KNOT_STEPS);
    if (i >= last) return heights[last];
    return heights[i] + (t / KNOT_STEPS - i) * (heights[i + 1] - heights[i]);
  };
  const m = (t: number) => {
    const i = Math.min(Math.floor(t / KNOT_STEPS), last);
    return areas[i] + ((t - KNOT_STEPS * i) * (heights[i] + dm(t))) / 2;
  };
  return {
    family: "draw",
    text: `draw:${writeHeights(heights)}`,
    h: 1,
    decay: (k) => m(k) / m(k + 1),
    // The trapezoid is exact: no knot lies inside a step.
    fresh: (k) => (dm(k) + dm(k + 1)) / 2 / m(k + 1),
    flow: {
      survival: (s, t) => m(s) / m(t),
      influence: (s, t) => dm(s) / m(t),
      rate: (t) => dm(t) / m(t),
    },
  };
}

/** Two digits a knot, so that a drawing fits in an address. */
export function writeHeights(heights: readonly number[]): string {
  return heights.map((height) => String(height).padStart(2, "0")).join("");
}

export function readHeights(text: string): number[] {
  if (text.length !== 2 * KNOTS || !/^\d+$/.test(text)) {
    throw new RangeError(`a drawn memory has ${2 * KNOTS} digits, two a knot, got ${JSON.stringify(text)}`);
  }
  return Array.from({ length: KNOTS }, (_, i) => Math.max(LOWEST, Number(text.slice(2 * i, 2 * i + 2))));
}
