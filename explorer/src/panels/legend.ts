/** The methods with their line styles, to be switched on and off. */

import { toggle, type Control } from "../controls";
import { STYLES } from "../palette";
import { SHOWN, type Shown } from "../state";
import type { Store } from "../store";

export function swatch(shown: Shown): string {
  const { color, dash, width } = STYLES[shown];
  const opacity = shown === "ode" ? 0.45 : 1;
  return (
    `<svg class="swatch" viewBox="0 0 28 10" width="28" height="10" aria-hidden="true"><line x1="1" y1="5" x2="27" ` +
    `y2="5" stroke="var(${color})" stroke-width="${Math.min(width, 7)}" stroke-opacity="${opacity}" ` +
    `stroke-dasharray="${dash.join(" ")}"/></svg>`
  );
}

export function legend(store: Store, shown: readonly Shown[], names: Partial<Record<Shown, string>> = {}): Control[] {
  return shown.map((each) =>
    toggle({
      label: `${swatch(each)} ${names[each] ?? STYLES[each].label}`,
      get: () => store.state.show.includes(each),
      set: (on) => {
        store.set({ show: SHOWN.filter((other) => (other === each ? on : store.state.show.includes(other))) });
      },
    }),
  );
}
