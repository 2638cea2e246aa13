/** What a memory is: decays step by step and, for most, a memory function in continuous time. */

/** m(t) with m(0) = 0, increasing, and what follows from it. */
export interface MemoryFunction {
  /** m(s)/m(t), finite also where m itself leaves the floats. */
  survival(s: number, t: number): number;
  /** The weight density m'(s)/m(t) of the gradient at time s in the step at time t. */
  influence(s: number, t: number): number;
  /** The coefficient m'(t)/m(t) of MG-ODE, t > 0. */
  rate(t: number): number;
}

export interface Memory {
  readonly family: Family;
  /** The text form, as in the library: poly:2, exp:0.9. */
  readonly text: string;
  /** Time between two steps: t = kh. */
  readonly h: number;
  /** b_k = M_k/M_{k+1}, the share of the old average that is kept; b_0 = 0. */
  decay(k: number): number;
  /** 1 - b_k without cancellation: the weight of the newest gradient. */
  fresh(k: number): number;
  /** Null for memories that have decays but no memory function. */
  readonly flow: MemoryFunction | null;
}

export type Family = "poly" | "exp" | "inst" | "log" | "stretch" | "power" | "draw";

/** The memory function of a method whose steps take the time `step`, so that t_k = k step. */
export function inTimeOf(memory: Memory, step: number): MemoryFunction | null {
  const flow = memory.flow;
  if (flow === null) return null;
  const c = memory.h / step;
  return {
    survival: (s, t) => flow.survival(c * s, c * t),
    influence: (s, t) => c * flow.influence(c * s, c * t),
    rate: (t) => c * flow.rate(c * t),
  };
}
