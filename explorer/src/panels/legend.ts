/** The methods with their line styles, to be switched on and off. */

import { toggle, type Control } from "../controls";
import { lookOf } from "../looks";
import { STYLES, type Style } from "../palette";
import { SHOWN, type Shown } from "../state";
import type { Store } from "../store";

const SHAPES: Readonly<Record<Style["marker"], string>> = {
  circle: '<circle cx="16" cy="6" r="3.6"/>',
  square: '<rect x="12.7" y="2.7" width="6.6" height="6.6"/>',
  triangle: '<path d="M16 1.5l4.4 8h-8.8z"/>',
  diamond: '<path d="M16 1l4.6 5-4.6 5-4.6-5z"/>',
  none: "",
};

/** A line with its marker: what tells methods apart where colors do not. */
function swatch({ color, dash, width, marker }: Style): string {
  const opacity = marker === "none" ? 0.45 : 1;
  return (
    `<svg class="swatch" viewBox="0 0 32 12" width="32" height="12" aria-hidden="true"><line x1="1" y1="6" x2="31" ` +
    `y2="6" stroke="var(${color})" stroke-width="${Math.min(width, 7)}" stroke-opacity="${opacity}" ` +
    `stroke-dasharray="${dash.join(" ")}"/><g fill="var(${color})" stroke="var(--surface)">${SHAPES[marker]}</g></svg>`
  );
}

export function legend(store: Store, shown: readonly Shown[], names: Partial<Record<Shown, string>> = {}): Control[] {
  return shown.map((each) => {
    const control = toggle({
      label: "",
      get: () => store.state.show.includes(each),
      set: (on) => {
        store.set({ show: SHOWN.filter((other) => (other === each ? on : store.state.show.includes(other))) });
      },
    });
    const words = control.element.querySelector("span")!;
    let look: Style | null = null;
    return {
      element: control.element,
      show() {
        control.show();
        const now = lookOf(each, store.state);
        if (now === look) return;
        look = now;
        // What is chosen keeps its name here also where it is a method that is known by another.
        const name = names[each] ?? (each === "memory" && now !== STYLES.memory ? `chosen: ${now.label}` : now.label);
        words.innerHTML = `${swatch(now)} ${name}`;
      },
    };
  });
}
