/** The exact risk of streaming least squares with a power-law spectrum, for any mixture. */

import type { Schedule } from "./methods";
import { stepOf } from "./moments";

/** Curvatures with multiplicities, and the mean square of the error in each direction at the start. */
export interface Spectrum {
  readonly curvature: Float64Array;
  readonly multiplicity: Float64Array;
  readonly square: Float64Array;
}

const BINS = 110;
/** Directions up to here, in bins of even ratios: far beyond what any run of the page resolves. */
const LAST = 1e8;

/**
 * lam_j = j^-nu, and a target of which the directions below the curvature l hold a share ~ l^zeta: the risk of
 * direction j is j^(-nu zeta - 1) at the start.
 */
export function powerLaw(nu: number, zeta: number): Spectrum {
  const [curvature, multiplicity, square] = [[], [], []] as number[][];
  let first = 1;
  for (let i = 1; i <= BINS; i++) {
    const last = Math.max(first, Math.round(LAST ** (i / BINS)));
    if (last < first) continue;
    const lam = meanOfPowers(nu, first, last);
    curvature.push(lam);
    multiplicity.push(last - first + 1);
    square.push(meanOfPowers(nu * zeta + 1, first, last) / lam);
    first = last + 1;
  }
  return {
    curvature: Float64Array.from(curvature),
    multiplicity: Float64Array.from(multiplicity),
    square: Float64Array.from(square),
  };
}

/** The mean of j^-s for j from first to last: by Euler and Maclaurin, exact enough from the first terms on. */
function meanOfPowers(s: number, first: number, last: number): number {
  let [sum, from] = [0, first];
  for (; from <= last && from < first + 16; from++) sum += from ** -s;
  if (from <= last) {
    const slope = (s * (from ** (-s - 1) - last ** (-s - 1))) / 12;
    sum += (from ** (1 - s) - last ** (1 - s)) / (s - 1) + (from ** -s + last ** -s) / 2 + slope;
  }
  return sum / (last - first + 1);
}

/** Steps at which a risk is known: 0, and then in even ratios. */
export function riskSteps(steps: number, perDecade = 24): Int32Array {
  const found = new Set([0]);
  const n = Math.ceil(Math.log10(steps) * perDecade);
  for (let i = 0; i <= n; i++) found.add(Math.round(steps ** (i / n)));
  return Int32Array.from(found);
}

/**
 * The expected excess risk at the steps `at`, for features a ~ N(0, H), minibatches of `batch` and label noise.
 *
 * E[a a'D a a'] = 2HDH + H tr(HD), so the directions meet in the risk alone: the variance of g_j is
 * q_j = (lam_j^2 X_j + lam_j R)/B with R = sum_i lam_i X_i + label^2, and the second moments of each direction go on alone.
 */
export function risks(
  schedule: Schedule,
  { curvature, multiplicity, square }: Spectrum,
  batch: number,
  label: number,
  at: ArrayLike<number>,
): Float64Array {
  const bins = curvature.length;
  const found = new Float64Array(at.length).fill(Infinity);
  const size = (schedule.decay.length + 1) ** 2;
  const isShort = schedule.decay.length <= 1;
  const [xx, xu, uu] = [square.slice(), new Float64Array(bins), new Float64Array(bins)];
  const second = new Float64Array(isShort ? 0 : bins * size);
  const step = stepOf(schedule);
  if (!isShort) square.forEach((each, i) => (second[i * size] = each));
  let wanted = 0;
  for (let k = 0; wanted < at.length; k++) {
    let excess = 0;
    for (let i = 0; i < bins; i++) excess += multiplicity[i] * curvature[i] * (isShort ? xx[i] : second[i * size]);
    if (k === at[wanted]) found[wanted++] = excess;
    // A risk that has left by far never comes back.
    if (k >= schedule.steps || !(excess < 1e12)) break;
    const risk = excess + label * label;
    if (isShort) {
      advance(schedule, k, curvature, risk, batch, xx, xu, uu);
      continue;
    }
    step.to(k);
    for (let i = 0; i < bins; i++) {
      const lam = curvature[i];
      step.advance(second, i * size, lam, (lam * lam * second[i * size] + lam * risk) / batch);
    }
  }
  return found;
}

/** One step of all directions, for a method with one buffer or none. */
function advance(
  { instant, decay, fresh, push }: Schedule,
  k: number,
  curvature: Float64Array,
  risk: number,
  batch: number,
  xx: Float64Array,
  xu: Float64Array,
  uu: Float64Array,
): void {
  const has = decay.length === 1;
  const b = has ? decay[0][k] : 0;
  const f = has ? fresh[0][k] : 0;
  const e = has ? push[0][k] : 0;
  const c = instant[k] + e * f;
  for (let i = 0; i < xx.length; i++) {
    const lam = curvature[i];
    const s = xx[i];
    const t = xu[i];
    const v = uu[i];
    const q = (lam * lam * s + lam * risk) / batch;
    const p = 1 - c * lam;
    const o = -e * b;
    const r = f * lam;
    xx[i] = p * p * s + 2 * p * o * t + o * o * v + c * c * q;
    xu[i] = p * r * s + (p * b + o * r) * t + o * b * v - c * f * q;
    uu[i] = r * r * s + 2 * r * b * t + b * b * v + f * f * q;
  }
}

/** The slope of log risk over log k in the last decade of the steps: the exponent, with its sign turned. */
export function exponentOf(at: ArrayLike<number>, risk: ArrayLike<number>): number | null {
  const last = at[at.length - 1];
  let [n, sx, sy, sxx, sxy] = [0, 0, 0, 0, 0];
  for (let i = 0; i < at.length; i++) {
    if (at[i] < last / 10 || at[i] === 0) continue;
    if (!(risk[i] > 0 && Number.isFinite(risk[i]))) return null;
    const [x, y] = [Math.log(at[i]), Math.log(risk[i])];
    n++;
    sx += x;
    sy += y;
    sxx += x * x;
    sxy += x * y;
  }
  return n < 3 ? null : -(n * sxy - sx * sy) / (n * sxx - sx * sx);
}
