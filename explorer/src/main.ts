/** The page: one state, panels that draw it, and an address that holds it. */

import "./style.css";

import { readAddress, writeAddress } from "./address";
import { Announcer } from "./announce";
import { functions } from "./golden";
import { readColors } from "./palette";
import { EnsemblePanel } from "./panels/ensemble";
import { LandscapePanel } from "./panels/landscape";
import { MemoryPanel } from "./panels/memory";
import { find, type Panel } from "./panels/panel";
import { Story } from "./panels/story";
import { TimeWarpPanel } from "./panels/timewarp";
import { Transport } from "./panels/transport";
import { PRESETS } from "./presets";
import type { State, Theme } from "./state";
import { Store } from "./store";
import { Terrain } from "./terrain";

const ADDRESS_DELAY = 250;
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
const dark = window.matchMedia("(prefers-color-scheme: dark)");
/** Where the story stands beside the panels, it stays in sight while they scroll; see style.css. */
const storyStays = window.matchMedia("(min-width: 1081px)");

let addressTimer = 0;
let written = "";

const { state, complaints } = readAddress(location.hash);
const store = new Store(state);
const announcer = new Announcer(find("live"));
const transport = new Transport(store, () => {
  writeAddressSoon();
  announcer.now(summary());
});
const story = new Story(store, () => {
  complain([]);
  showTold(calm.matches ? "auto" : "smooth");
  // Reduced motion: the view stands at the step it was made for.
  if (!calm.matches) transport.play(0);
});
const terrain = new Terrain();
const panels: readonly Panel[] = [
  story,
  new MemoryPanel(store),
  new LandscapePanel(store, terrain),
  new EnsemblePanel(store, terrain),
  new TimeWarpPanel(store, terrain),
  transport,
];

function summary(): string {
  return panels
    .map((panel) => panel.summary())
    .filter((words) => words !== "")
    .join(" ");
}

function complain(messages: readonly string[]): void {
  const notices = find("notices");
  notices.hidden = messages.length === 0;
  find("notices-list").replaceChildren(
    ...messages.map((message) => {
      const item = document.createElement("li");
      item.textContent = message;
      return item;
    }),
  );
}

/** Shows a panel. Not by scrollIntoView, which would also scroll a page that this one is part of. */
function scrollTo(panel: HTMLElement, behavior: ScrollBehavior): void {
  const top = panel.getBoundingClientRect().top + window.scrollY;
  const isSeenFromTheTop = storyStays.matches && top < window.innerHeight / 2;
  window.scrollTo({ top: isSeenFromTheTop ? 0 : top - 16, behavior });
}

/** Shows the panel of the story's step, where the story stays in sight. */
function showTold(behavior: ScrollBehavior): void {
  if (storyStays.matches) scrollTo(find(`panel-${PRESETS[store.state.step - 1].panel}`), behavior);
}

function showTheme(theme: Theme): void {
  const isDark = theme === "dark" || (theme === "auto" && dark.matches);
  const root = document.documentElement;
  if (root.dataset.theme === (isDark ? "dark" : "light")) return;
  root.dataset.theme = isDark ? "dark" : "light";
  readColors();
  find("theme").setAttribute("aria-label", isDark ? "Switch to light colors" : "Switch to dark colors");
}

/** Browsers refuse more than about three changes of the address a second. */
function writeAddressSoon(): void {
  window.clearTimeout(addressTimer);
  addressTimer = window.setTimeout(() => {
    written = writeAddress(store.state);
    history.replaceState(null, "", written);
  }, ADDRESS_DELAY);
}

let drawn: State | null = null;
store.onDraw((now) => {
  showTheme(now.theme);
  for (const panel of panels) panel.draw();
  if (now !== drawn && drawn !== null && !transport.isPlaying) {
    writeAddressSoon();
    announcer.later(summary);
  }
  drawn = now;
});

find("theme").addEventListener("click", () => {
  store.set({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
});
dark.addEventListener("change", () => store.redraw());
find("notices-close").addEventListener("click", () => complain([]));
find("copy").addEventListener("click", () => void copyLink());
for (const link of document.querySelectorAll<HTMLAnchorElement>("a[href^='#panel-']")) {
  link.addEventListener("click", (event) => {
    // The address holds the view, so it must not become that of an anchor.
    event.preventDefault();
    const panel = find(link.hash.slice(1));
    scrollTo(panel, calm.matches ? "auto" : "smooth");
    panel.querySelector<HTMLElement>("h2")!.focus({ preventScroll: true });
  });
}
window.addEventListener("hashchange", () => {
  if (location.hash === written) return;
  const read = readAddress(location.hash);
  transport.pause();
  store.set(read.state);
  complain(read.complaints);
});
document.addEventListener("keydown", (event) => {
  // Space plays and pauses wherever it does nothing else.
  const busy = (event.target as HTMLElement).closest("input, button, select, a, summary, [tabindex='0']");
  if (event.key === " " && busy === null) {
    event.preventDefault();
    find("play").click();
  }
});

async function copyLink(): Promise<void> {
  written = writeAddress(store.state);
  history.replaceState(null, "", written);
  const button = find("copy");
  const say = (words: string) => {
    find("copy-text").textContent = words;
    announcer.now(words);
    window.setTimeout(() => (find("copy-text").textContent = "Copy link"), 2000);
  };
  try {
    await navigator.clipboard.writeText(location.href);
    say("Link copied");
  } catch {
    // Pages opened from a file or in a frame may not write to the clipboard: let the reader copy the address itself.
    window.prompt("Copy this link:", location.href);
    button.focus();
  }
}

readColors();
complain(complaints);
store.drawNow();
showTold("instant");
const firstDraw = performance.now();

declare global {
  interface Window {
    memgradExplorer: unknown;
  }
}

window.memgradExplorer = {
  functions,
  state: () => store.state,
  set: (change: Partial<State>) => store.set(change),
  /** Milliseconds from the start of loading to the end of the first drawing. */
  firstDraw,
  frameTimes: () => [...store.frameTimes],
  address: () => writeAddress(store.state),
  read: (hash: string) => readAddress(hash),
};
