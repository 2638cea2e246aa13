/** What is too long for a frame: computed by a worker, or here where a browser has none. */

import { atlasOf, type Atlas, type AtlasName } from "./atlas";
import { ensemble, type Ensemble } from "./ensemble";
import { landscape, type LandscapeName } from "./landscape";
import { keepLatest } from "./latest";
import { mixtureFor, scheduleOf, type MethodName } from "./methods";
import { normals } from "./noise";
import { powerLaw, riskSteps, risks } from "./powerlaw";
import { parseMixture } from "./textform";

export interface AtlasJob {
  readonly kind: "atlas";
  readonly family: AtlasName;
  readonly steps: number;
  readonly isEqual: boolean;
}

export interface RiskJob {
  readonly kind: "risk";
  readonly memory: string;
  readonly lr: number;
  readonly steps: number;
  readonly isEqual: boolean;
  readonly nu: number;
  readonly zeta: number;
  readonly batch: number;
}

export interface EnsembleJob {
  readonly kind: "ensemble";
  readonly method: MethodName;
  readonly memory: string;
  readonly momentum: number;
  readonly lr: number;
  readonly steps: number;
  readonly isEqual: boolean;
  readonly f: LandscapeName;
  readonly kappa: number;
  readonly start: readonly [number, number];
  readonly noise: number;
  readonly seed: number;
  readonly runs: number;
}

export interface Risk {
  readonly at: Int32Array;
  readonly risk: Float64Array;
}

export type Job = AtlasJob | RiskJob | EnsembleJob;
export type Answer<Asked extends Job> = Asked extends AtlasJob ? Atlas : Asked extends RiskJob ? Risk : Ensemble;

/** All methods have the same noise, which takes longer to make than their steps. */
const noiseOf = keepLatest((steps: number, runs: number, seed: number) => normals(2 * steps * runs, seed));

export function perform(job: Job): Answer<Job> {
  switch (job.kind) {
    case "atlas":
      return atlasOf(job.family, job.steps, job.isEqual);
    case "risk": {
      const at = riskSteps(job.steps);
      const schedule = scheduleOf(parseMixture(job.memory), job.lr, job.steps, job.isEqual);
      return { at, risk: risks(schedule, powerLaw(job.nu, job.zeta), job.batch, 0, at) };
    }
    case "ensemble": {
      const { method, memory, momentum, lr, steps, isEqual, f, kappa, start, noise, seed, runs } = job;
      const schedule = scheduleOf(mixtureFor(method, parseMixture(memory), momentum), lr, steps, isEqual);
      return ensemble(schedule, landscape(f, kappa), start, noise, noiseOf(steps, runs, seed), runs);
    }
  }
}
