/** What the page computes, for those who check it against the library: window.memgradExplorer. */

import { ATLAS, cellOf, type AtlasName } from "./atlas";
import { memsgdBound } from "./bounds";
import { gradientFlow, heavyBallFlow, memoryFlow, warpedFlow } from "./flow";
import { landscape, type LandscapeName } from "./landscape";
import { inTimeOf } from "./memory";
import { mixtureFor, run, scheduleOf, type MethodName } from "./methods";
import { histories, mixturePassport, mixtureWeights } from "./mixture";
import { lossParts } from "./modes";
import { expectedLoss, flowVariance, limitVariance, methodMoments } from "./moments";
import { passport, weights } from "./passport";
import { powerLaw, risks } from "./powerlaw";
import { parseMemory, parseMixture } from "./textform";
import { timeWarp } from "./timewarp";

const EXACT = { rtol: 1e-10, atol: 1e-12, most: 100_000 };
type Pair = readonly [number, number];

function planOf(method: MethodName, text: string, lr: number, momentum: number, steps: number, isEqual = false) {
  return scheduleOf(mixtureFor(method, parseMixture(text), momentum), lr, steps, isEqual);
}

export const functions = {
  decays: (memory: string, k: number[]) => k.map(parseMemory(memory).decay),
  fresh: (memory: string, k: number[]) => k.map(parseMemory(memory).fresh),
  weights: (memory: string, k: number) => [...weights(parseMemory(memory), k)],
  passport: (memory: string, k: number) => passport(parseMemory(memory), k),
  mixtureText: (text: string) => parseMixture(text).text,
  mixtureWeights: (text: string, k: number) => [...mixtureWeights(parseMixture(text), k)],
  mixtureGains: (text: string, k: number[]) => k.map(parseMixture(text).gain),
  mixturePassport: (text: string, k: number) => mixturePassport(parseMixture(text), k),
  histories: (text: string, k: number[]) => {
    const { gain, noise, first } = histories(parseMixture(text), k[k.length - 1]);
    const at = (values: Float64Array) => k.map((each) => values[each]);
    return { gain: at(gain), noise: at(noise), first: at(first) };
  },
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
    isEqual = false,
  ) => {
    const schedule = planOf(method, memory, lr, momentum, noise.length / 2, isEqual);
    return [...run(schedule, landscape(f, kappa), start, 1, noise)];
  },
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
    isEqual = false,
  ) => {
    const { mean, variance } = methodMoments(planOf(method, memory, lr, momentum, steps, isEqual), lam, x0, sigma);
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
  ) => [...expectedLoss(planOf(method, memory, lr, momentum, steps), spectrum, start, sigma)],
  lossParts: (memory: string, lr: number, kappa: number, sigma: number, steps: number) => {
    const { curvatures, total } = lossParts(scheduleOf(parseMixture(memory), lr, steps), kappa, sigma);
    return { curvatures: [...curvatures], total: [...total] };
  },
  atlasCell: (family: AtlasName, value: number, curvature: number, steps: number) => {
    const { left, crossings, noise, grows } = cellOf(ATLAS[family].mixture(value), curvature, steps);
    return { left, crossings, noise, grows: grows ? 1 : 0 };
  },
  risks: (memory: string, lr: number, spectrum: number[][], batch: number, label: number, at: number[]) => {
    const [curvature, multiplicity, square] = spectrum.map((each) => Float64Array.from(each));
    const schedule = scheduleOf(parseMixture(memory), lr, at[at.length - 1]);
    return [...risks(schedule, { curvature, multiplicity, square }, batch, label, at)];
  },
  powerLaw: (nu: number, zeta: number) => {
    const { curvature, multiplicity, square } = powerLaw(nu, zeta);
    const sum = (value: (i: number) => number) => curvature.reduce((total, _, i) => total + value(i), 0);
    return {
      trace: sum((i) => multiplicity[i] * curvature[i]),
      risk: sum((i) => multiplicity[i] * curvature[i] * square[i]),
    };
  },
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
