/** The paper's story in six steps: a view each, what to see in it, and why it is so. */

import { DEFAULTS, type State } from "./state";

export interface Preset {
  readonly title: string;
  /** The panel in which it is seen. */
  readonly panel: "memory" | "landscape" | "ensemble" | "timewarp";
  readonly view: Partial<State>;
  readonly see: string;
  readonly why: string;
  readonly try: string;
}

export const PRESETS: readonly Preset[] = [
  {
    title: "Every step is an average of the past",
    panel: "memory",
    view: { memory: "exp:0.9", k: 150, show: ["memory", "sgd", "ode"] },
    see:
      "The bars are the weights of all gradients so far in the step taken now. With momentum β = 0.9 they fall off " +
      "by a tenth a step into the past: after 150 steps as after 1500, the average is 9 steps old.",
    why:
      `Momentum, Adam and SGD all move along ${tex`u_k = \sum_{j \le k} w(j,k)\, g_j`}, and differ in the weights. ` +
      `A <em>memory</em> is the rule ${tex`w(j,k) = (M_{j+1} - M_j)/M_{k+1}`}: weights that always sum to 1.`,
    try: "Press play and watch the bars. Then drag β towards 0, where only the newest gradient is left: SGD.",
  },
  {
    title: "Memory need not fade exponentially",
    panel: "memory",
    view: { memory: "poly:2", k: 150, show: ["memory", "sgd", "ode"] },
    see:
      "Under linear memory the weights rise like a ramp from the first gradient to the newest. Nothing is ever " +
      "forgotten: the mean age is a third of all steps taken, and grows with them.",
    why:
      `In continuous time a memory is an increasing function with ${tex`m(0) = 0`}, and the gradient of time ` +
      `${tex`s`} weighs ${tex`\dot m(s)/m(t)`} at time ${tex`t`}. ${tex`m(t) = t^p`} gives ${tex`b_k = k/(k+p)`}, ` +
      "the same picture at every scale.",
    try: "In the carpet below, polynomial memory is a fan and exponential memory a band. Switch between them.",
  },
  {
    title: "A method with memory follows a flow",
    panel: "landscape",
    view: { memory: "poly:2", k: 80, steps: 200, lr: 0.1, kappa: 10, show: ["memory", "sgd", "ode"] },
    see:
      "The dots of the method lie on the wide ribbon, which is the solution of a differential equation. Memory makes " +
      "the path overshoot and ring where SGD creeps down.",
    why:
      `The ribbon is MG-ODE, ${tex`\ddot X + \frac{\dot m}{m}\,(\dot X + \nabla f(X)) = 0`}: the velocity is minus ` +
      "the remembered gradient. Steps of size η are steps of time.",
    try: "Drag the start. Raise η until dots and ribbon part. The arrows are today’s gradient and the remembered one.",
  },
  {
    title: "Nesterov’s method is linear memory on a faster clock",
    panel: "timewarp",
    view: {
      memory: "poly:2",
      k: 150,
      steps: 240,
      lr: 0.1,
      kappa: 40,
      x: -1.4,
      warp: 0,
      show: ["memory", "nag", "ode"],
    },
    see:
      "Both runners are on the same path, always. Nesterov’s is behind at first and then runs away: its clock " +
      "goes as the square of the memory’s.",
    why:
      `If ${tex`X`} solves MG-ODE with ${tex`m = t^2`}, then ${tex`Y(t) = X(t^2/8)`} solves Nesterov’s equation ` +
      `${tex`\ddot Y + \frac{3}{t} \dot Y + \nabla f(Y) = 0`}. Acceleration is not a better path; it is speed.`,
    try: "Drag the warp to 1: the two curves become one, and the runners meet.",
  },
  {
    title: "Speed has a price: noise",
    panel: "ensemble",
    view: {
      memory: "poly:3",
      k: 400,
      steps: 400,
      lr: 0.1,
      kappa: 4,
      noise: 0.4,
      x: -1.2,
      y: 0.9,
      show: ["memory", "nag", "ode"],
      runs: 200,
    },
    see:
      "With noisy gradients the memory’s cloud contracts to a ball and stays there. Nesterov’s is ahead at first, " +
      "and then spreads, to twenty times the loss.",
    why:
      `Nesterov’s steps grow with ${tex`t`}, and amplify the noise with the signal. The variance of its equation, the ` +
      `wide violet line, grows like ${tex`t`} without end; the method itself levels off high above. Weights that sum to ` +
      "1 cannot amplify: " +
      `${tex`\operatorname{Var} x_k \to \frac{p}{2p-1}\,\eta\sigma^2/\lambda`}.`,
    try: "Dashed lines are exact, not averages of the runs. Add SGD and heavy-ball, or change the noise.",
  },
  {
    title: "What is proved, and what is paid",
    panel: "ensemble",
    view: {
      memory: "poly:2",
      k: 300,
      steps: 600,
      lr: 0.05,
      f: "quartic",
      noise: 1,
      x: 1,
      y: 1,
      show: ["memory", "sgd"],
      runs: 150,
    },
    see:
      "On the paper’s quartic the memory’s path is far smoother than SGD’s, and ends a little higher. The theorem’s " +
      "line stays above the mean of the runs, all the way.",
    why:
      `For convex ${tex`f`}, ${tex`p \ge 2`} and ${tex`\eta \le \frac{p-1}{pL}`} the last iterate obeys ` +
      `<span class="display">${tex`\mathbb{E} f(x_k) - f^* \le \frac{(p-1)^2 |x_0 - x^*|^2}{2 \eta p\,(k+p-1)}`} ` +
      `${tex`{} + \frac{p\,d\,\eta\,\varsigma^2}{2} \cdot \frac{k}{k+p-1}`}.</span>`,
    try: "Raise η until the theorem falls silent, and read why. On a quadratic the price tends to 4/3 of SGD’s noise as η falls.",
  },
];

/** The whole view of a step, 1 to 6. */
export function presetState(step: number): State {
  return { ...DEFAULTS, ...PRESETS[step - 1].view, step };
}
