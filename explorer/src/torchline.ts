/** The line of Python that trains with what the page shows. */

import { KNOTS, KNOT_STEPS, readHeights } from "./drawn";
import { mixtureOf, type Factor, type Mixture, type Part } from "./mixture";

/** A drawn memory is given to the library by its decays, for this many steps. */
const DRAWN_STEPS = 100_000;

export function torchLine(mixture: Mixture, lr: number): string {
  const drawing = mixture.parts.find(({ memory }) => memory.family === "draw");
  const line = (memory: string) => `MemSGD(model.parameters(), lr=${lr}, memory=${memory})`;
  if (drawing === undefined) return `from memgrad import MemSGD\noptimizer = ${line(JSON.stringify(mixture.text))}`;
  const rest = mixture.parts.filter((part) => part !== drawing);
  const sum = [gainCode(drawing) + "FromDecays(M[:-1] / M[1:])"];
  if (rest.length > 0) sum.unshift(`Mixture.parse(${JSON.stringify(mixtureOf(rest).text)})`);
  const heights = readHeights(drawing.memory.text.slice("draw:".length));
  return [
    "import numpy as np",
    "from memgrad import FromDecays, Gain, MemSGD, Mixture",
    ...(drawing.factors.some(({ kind }) => kind === "sum") ? ["from memgrad.memory.gains import SUM"] : []),
    `v = np.interp(np.arange(${DRAWN_STEPS + 1}), ${KNOT_STEPS} * np.arange(${KNOTS}), [${heights.join(", ")}])`,
    "M = np.concatenate([[0.0], np.cumsum((v[1:] + v[:-1]) / 2)])",
    `optimizer = ${line(sum.join(" + "))}`,
  ].join("\n");
}

function gainCode({ scale, factors }: Part): string {
  const words = factors.map(factorCode);
  if (scale !== 1) words.unshift(String(scale));
  return words.map((word) => `${word} * `).join("");
}

function factorCode(factor: Factor): string {
  switch (factor.kind) {
    case "power":
      return `Gain.power(${factor.exponent})`;
    case "ramp":
      return `Gain.ramp(${factor.steps})`;
    default:
      return factor.kind.toUpperCase();
  }
}
