/** What the page computes, for those who check it against the library: window.memgradExplorer. */

import { memsgdBound } from "./bounds";
import { gradientFlow, heavyBallFlow, memoryFlow, warpedFlow } from "./flow";
import { landscape, type LandscapeName } from "./landscape";
import { inTimeOf } from "./memory";
import { run, type MethodName } from "./methods";
import { expectedLoss, flowVariance, limitVariance, methodMoments } from "./moments";
import { passport, weights } from "./passport";
import { parseMemory } from "./textform";
import { timeWarp } from "./timewarp";

const EXACT = { rtol: 1e-10, atol: 1e-12, most: 100_000 };
type Pair = readonly [number, number];

export const functions = {
  decays: (memory: string, k: number[]) => k.map(parseMemory(memory).decay),
  fresh: (memory: string, k: number[]) => k.map(parseMemory(memory).fresh),
  weights: (memory: string, k: number) => [...weights(parseMemory(memory), k)],
  passport: (memory: string, k: number) => passport(parseMemory(memory), k),
  rates: (memory: string, t: number[]) => t.map(parseMemory(memory).flow!.rate),
  influences: (memory: string, s: number[], t: number) => s.map((each) => parseMemory(memory).flow!.influence(each, t)),
  survivals: (memory: string, s: number[], t: number) => s.map((each) => parseMemory(memory).flow!.survival(each, t)),
  values: (f: LandscapeName, kappa: number, x: Pair[]) => x.map(([a, b]) => landscape(f, kappa).value(a, b)),
  run: (
    method: MethodName,
    memory: string,
    lr: number,
    momentum: number,
    f: LandscapeName,
    kappa: number,
    start: Pair,
    noise: number[],
  ) => [
    ...run(
      method,
      { memory: parseMemory(memory), lr, momentum },
      landscape(f, kappa),
      start,
      noise.length / 2,
      1,
      noise,
    ),
  ],
  flow: (memory: string, lr: number, f: LandscapeName, kappa: number, start: Pair, times: number[]) => {
    const m = inTimeOf(parseMemory(memory), lr);
    const surface = landscape(f, kappa);
    const found = m === null ? gradientFlow(surface, start, times, EXACT) : memoryFlow(m, surface, start, times, EXACT);
    return [...found!];
  },
  nesterovFlow: (f: LandscapeName, kappa: number, start: Pair, times: number[]) => [
    ...heavyBallFlow((t) => 3 / t, 3, landscape(f, kappa), start, times, EXACT)!,
  ],
  warpedFlow: (memory: string, lr: number, f: LandscapeName, kappa: number, start: Pair, times: number[]) => {
    const m = inTimeOf(parseMemory(memory), lr)!;
    const { q } = timeWarp(parseMemory(memory), m, lr)!;
    return [...warpedFlow(m, q, landscape(f, kappa), start, times, EXACT)!];
  },
  methodMoments: (
    method: MethodName,
    memory: string,
    lr: number,
    momentum: number,
    lam: number,
    x0: number,
    sigma: number,
    steps: number,
  ) => {
    const { mean, variance } = methodMoments(
      method,
      { memory: parseMemory(memory), lr, momentum },
      lam,
      x0,
      sigma,
      steps,
    );
    return { mean: [...mean], variance: [...variance] };
  },
  expectedLoss: (
    method: MethodName,
    memory: string,
    lr: number,
    momentum: number,
    spectrum: Pair,
    start: Pair,
    sigma: number,
    steps: number,
  ) => [...expectedLoss(method, { memory: parseMemory(memory), lr, momentum }, spectrum, start, sigma, steps)],
  memoryVariance: (memory: string, lr: number, lam: number, times: number[]) => [
    ...flowVariance("memory", inTimeOf(parseMemory(memory), lr)!.rate, lam, times)!,
  ],
  nesterovVariance: (lam: number, times: number[]) => [...flowVariance("heavy ball", (t) => 3 / t, lam, times)!],
  limitVariance: (memory: string, lr: number, lam: number, sigma: number) =>
    limitVariance(parseMemory(memory), lr, lam, sigma),
  memsgdBound: (k: number[], p: number, lr: number, distance: number, noise: number, d: number) =>
    k.map((each) => memsgdBound(each, p, lr, distance, noise, d)),
  warp: (memory: string, lr: number, t: number[]) => {
    const parsed = parseMemory(memory);
    const { memoryTime, heavyBallTime, viscosity } = timeWarp(parsed, inTimeOf(parsed, lr), lr)!;
    return {
      memoryTime: t.map(memoryTime),
      back: t.map((each) => heavyBallTime(memoryTime(each))),
      viscosity: t.map(viscosity),
    };
  },
};
