/** Ensembles of runs: small ones within the frame, large ones by the worker, with the one before them meanwhile. */

import type { Engine } from "./engine";
import type { Ensemble } from "./ensemble";
import { METHODS, type MethodName } from "./methods";
import { ensembleOf } from "./model";
import type { State } from "./state";

/** Runs times steps times methods that fit into a frame, with room for the drawing. */
const SMALL = 100_000;

export class Ensembles {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Many runs of a method; null while the first of its size is on its way. */
  of(method: MethodName, state: State): Ensemble | null {
    const methods = METHODS.filter((each) => state.show.includes(each)).length;
    if (state.runs * state.steps * methods <= SMALL) return ensembleOf(method, state);
    const { lr, steps, f, kappa, noise, runs } = state;
    const { answer } = this.#engine.ask(`ensemble ${method}`, {
      kind: "ensemble",
      method,
      // What a method does not depend on must not make it be computed again.
      memory: method === "memory" ? state.memory : "inst",
      momentum: method === "hb" ? state.momentum : 0,
      lr,
      steps,
      isEqual: state.equal === 1,
      f,
      kappa,
      start: [state.x, state.y],
      noise,
      seed: state.seed + 20_000,
      runs,
    });
    // An answer for other numbers of steps cannot be drawn over these.
    return answer !== null && answer.mean.length === steps + 1 ? answer : null;
  }
}
