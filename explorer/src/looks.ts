/** How the methods of a view are drawn: what is chosen has the look of the method that it is. */

import type { MethodName } from "./methods";
import { mixtureOfState } from "./model";
import { STYLES, type Style } from "./palette";
import type { Shown, State } from "./state";

/** Text forms that are methods with a look of their own. */
const KNOWN: readonly (readonly [RegExp, MethodName])[] = [
  [/^inst$/, "sgd"],
  [/^sum\*(exp|poly):[\d.]+$/, "hb"],
  [/^inst \+ [\d.]+\*(\(1\+k\)\*poly|sum\*exp):[\d.]+$/, "nag"],
];

export function lookOf(shown: Shown, state: State): Style {
  if (shown !== "memory") return STYLES[shown];
  const { text } = mixtureOfState(state);
  const known = KNOWN.find(([pattern]) => pattern.test(text));
  return known === undefined ? STYLES.memory : STYLES[known[1]];
}
