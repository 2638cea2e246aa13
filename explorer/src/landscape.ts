/** What is minimised: functions of two variables with their gradients and constants. */

export type LandscapeName = "quadratic" | "quartic" | "logcosh" | "valley";

export interface Landscape {
  readonly name: LandscapeName;
  value(x: number, y: number): number;
  /** Writes the gradient into `out`, because it is asked for hundreds of thousands of times a second. */
  gradient(x: number, y: number, out: Float64Array): void;
  /** The eigenvalues of a constant Hessian along the axes, for exact moments. */
  readonly spectrum: readonly [number, number] | null;
  readonly minimiser: readonly [number, number];
  readonly isConvex: boolean;
  /** L, or where the Hessian is unbounded its largest value on the box |x_i| <= radius. */
  smoothness(radius: number): number;
  readonly hasLocalSmoothness: boolean;
  /** What is drawn, 4 by 3. */
  readonly view: { readonly x: readonly [number, number]; readonly y: readonly [number, number] };
}

const AROUND_ORIGIN = { minimiser: [0, 0], isConvex: true } as const;

function quadratic(kappa: number): Landscape {
  const a = 1 / kappa;
  return {
    ...AROUND_ORIGIN,
    name: "quadratic",
    value: (x, y) => (a * x * x + y * y) / 2,
    gradient: (x, y, out) => {
      out[0] = a * x;
      out[1] = y;
    },
    spectrum: [a, 1],
    smoothness: () => 1,
    hasLocalSmoothness: false,
    view: { x: [-1.6, 1.6], y: [-1.2, 1.2] },
  };
}

/** The paper's .8 x^4 + .4 y^4. */
const QUARTIC: Landscape = {
  ...AROUND_ORIGIN,
  name: "quartic",
  // Products, because ** takes ten times as long.
  value: (x, y) => 0.8 * (x * x) * (x * x) + 0.4 * (y * y) * (y * y),
  gradient: (x, y, out) => {
    out[0] = 3.2 * x * x * x;
    out[1] = 1.6 * y * y * y;
  },
  spectrum: null,
  smoothness: (radius) => 12 * radius * radius * 0.8,
  hasLocalSmoothness: true,
  view: { x: [-1.6, 1.6], y: [-1.2, 1.2] },
};

function logCosh(x: number): number {
  const a = Math.abs(x);
  // Each form where it neither overflows nor cancels.
  return a < 1 ? Math.log1p(2 * Math.sinh(x / 2) ** 2) : a + Math.log1p(Math.exp(-2 * a)) - Math.LN2;
}

const LOG_COSH: Landscape = {
  ...AROUND_ORIGIN,
  name: "logcosh",
  value: (x, y) => logCosh(x) + logCosh(y),
  gradient: (x, y, out) => {
    out[0] = Math.tanh(x);
    out[1] = Math.tanh(y);
  },
  spectrum: null,
  smoothness: () => 1,
  hasLocalSmoothness: false,
  view: { x: [-4, 4], y: [-3, 3] },
};

/** Rosenbrock's valley, made gentle enough for the step sizes of the other landscapes. */
const VALLEY: Landscape = {
  name: "valley",
  value: (x, y) => {
    const bend = y - x * x;
    return (((1 - x) * (1 - x)) / 5 + bend * bend) / 4;
  },
  gradient: (x, y, out) => {
    const bend = y - x * x;
    out[0] = ((x - 1) / 5 - 2 * x * bend) / 2;
    out[1] = bend / 2;
  },
  spectrum: null,
  minimiser: [1, 1],
  isConvex: false,
  smoothness: () => Infinity,
  hasLocalSmoothness: false,
  view: { x: [-2, 2], y: [-0.9, 2.1] },
};

export function landscape(name: LandscapeName, kappa: number): Landscape {
  switch (name) {
    case "quadratic":
      return quadratic(kappa);
    case "quartic":
      return QUARTIC;
    case "logcosh":
      return LOG_COSH;
    case "valley":
      return VALLEY;
  }
}
