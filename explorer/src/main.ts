/** The page: one state, panels that draw it, and an address that holds it. */

import "./style.css";

import { readAddress, writeAddress } from "./address";
import { Announcer } from "./announce";
import { Engine } from "./engine";
import { functions } from "./golden";
import { readColors } from "./palette";
import { ClocksPanel } from "./panels/clocks";
import { DescentPanel } from "./panels/descent";
import { MapPanel } from "./panels/map";
import { ModesPanel } from "./panels/modes";
import { NoisePanel } from "./panels/noise";
import { find, isInDocs, type Panel } from "./panels/panel";
import { PowerLawPanel } from "./panels/powerlaw";
import { Story } from "./panels/story";
import { Tabs } from "./panels/tabs";
import { Transport } from "./panels/transport";
import { WeightsPanel } from "./panels/weights";
import { explainTerms } from "./reader";
import { SCENES } from "./scenes";
import type { State, Theme } from "./state";
import { Store } from "./store";
import { Terrain } from "./terrain";
import { mixtureFromText } from "./model";
import { torchLine } from "./torchline";

const ADDRESS_DELAY = 250;
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
const dark = window.matchMedia("(prefers-color-scheme: dark)");
/** Where the story stands above its panel instead of beside it; see style.css. */
const narrow = window.matchMedia("(max-width: 1000px)");
/** How far the box of a superscript ends above that of its letter, in em. */
const SUPERSCRIPT = 0.27;
/** Complaints about a link that are shown; more would hide the page. */
const MOST_NOTICES = 4;

let addressTimer = 0;
let written = "";

const { state, complaints } = readAddress(location.hash);
const store = new Store(state);
const announcer = new Announcer(find("live"));
const transport = new Transport(store, () => {
  writeAddressSoon();
  announcer.now(summary());
});
const engine = new Engine(() => store.redraw());
const terrain = new Terrain();
const panels: readonly Panel[] = [
  // The story first: it moves controls into the panel that is then drawn.
  new Story(store, narrow, replaceAddress, (isNew) => {
    complain([]);
    store.drawNow();
    showTold(calm.matches ? "auto" : "smooth");
    pushAddress();
    transport.pause();
    // Reduced motion: the view stands at the step it was made for.
    if (isNew && !calm.matches && SCENES[store.state.step - 1].plays) transport.play(0);
  }),
  new Tabs(store, replaceAddress, () => {
    store.drawNow();
    pushAddress();
  }),
  new DescentPanel(store, terrain),
  new WeightsPanel(store),
  new ModesPanel(store),
  new NoisePanel(store, terrain, engine),
  new ClocksPanel(store, terrain),
  new MapPanel(store, engine),
  new PowerLawPanel(store, engine),
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
  const more = messages.length - MOST_NOTICES;
  const shown = more > 0 ? [...messages.slice(0, MOST_NOTICES), `and ${more} more.`] : messages;
  find("notices-list").replaceChildren(
    ...shown.map((message) => {
      const item = document.createElement("li");
      item.textContent = message;
      return item;
    }),
  );
}

/** Shows an element from its top. Not by scrollIntoView, which would also scroll a page that this one is part of. */
function scrollTo(element: HTMLElement, behavior: ScrollBehavior): void {
  window.scrollTo({ top: Math.max(0, element.getBoundingClientRect().top + window.scrollY - 8), behavior });
}

/** Brings what the scene tells into view: its words and its figure, or the figure alone where there is no room. */
function showTold(behavior: ScrollBehavior): void {
  const figure = find(`panel-${store.state.panel}`).querySelector<HTMLElement>(
    ".is-building .builder, .figures figure",
  )!;
  const story = find("story");
  const bottom = figure.getBoundingClientRect().bottom - story.getBoundingClientRect().top;
  const room = window.innerHeight - find("transport").offsetHeight;
  if (!narrow.matches) window.scrollTo({ top: 0, behavior });
  else scrollTo(bottom > room ? figure : story, behavior);
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
  addressTimer = window.setTimeout(replaceAddress, ADDRESS_DELAY);
}

function replaceAddress(): void {
  window.clearTimeout(addressTimer);
  written = writeAddress(store.state);
  history.replaceState(null, "", written);
}

/** A scene or a panel that a reader chose is one step back in the browser’s history. */
function pushAddress(): void {
  window.clearTimeout(addressTimer);
  const address = writeAddress(store.state);
  if (address === location.hash) return;
  written = address;
  history.pushState(null, "", written);
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
for (const link of document.querySelectorAll<HTMLAnchorElement>("a[href='#panels']")) {
  link.addEventListener("click", (event) => {
    // The address holds the view, so it must not become that of an anchor.
    event.preventDefault();
    const panel = find(`panel-${store.state.panel}`);
    scrollTo(panel, "auto");
    panel.querySelector<HTMLElement>("h3")!.focus({ preventScroll: true });
  });
}
window.addEventListener("hashchange", () => {
  if (location.hash === written) return;
  const read = readAddress(location.hash);
  transport.pause();
  store.set(read.state);
  complain(read.complaints);
  store.drawNow();
  showTold("auto");
});
document.addEventListener("read", (event) => announcer.now((event as CustomEvent<string>).detail));
explainTerms();
for (const link of document.querySelectorAll<HTMLElement>(".docs-link")) link.hidden = !isInDocs;
document.addEventListener("click", (event) => {
  // Within a frame of the documentation, links lead out of it.
  const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a[href]") : null;
  if (link !== null && window.top !== window && !link.getAttribute("href")!.startsWith("#")) link.target = "_top";
});
document.addEventListener("keydown", (event) => {
  // Space plays and pauses wherever it does nothing else.
  const busy = (event.target as HTMLElement).closest("input, button, select, a, summary, [role='slider']");
  if (event.key === " " && busy === null) {
    event.preventDefault();
    find("play").click();
  }
});

async function copyLink(): Promise<void> {
  replaceAddress();
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

/** Without a maths font superscripts hang a line above: measure one, and lower them by what is too much. */
function mendSuperscripts(): void {
  const probe = document.createElement("p");
  probe.innerHTML = tex`x^2`;
  document.body.append(probe);
  const [base, raised] = [...probe.querySelector("msup")!.children].map((each) => each.getBoundingClientRect());
  const size = Number.parseFloat(getComputedStyle(probe.querySelector("math")!).fontSize);
  probe.remove();
  // With a maths font the raised box ends about a third of the letters above the line they stand on.
  const excess = (base.bottom - raised.bottom) / size - SUPERSCRIPT;
  if (excess > 0.1) document.documentElement.style.setProperty("--sup-drop", `${excess.toFixed(2)}em`);
}

readColors();
mendSuperscripts();
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
  isIdle: () => engine.isIdle,
  torchLine: (text: string, lr: number) => torchLine(mixtureFromText(text), lr),
  address: () => writeAddress(store.state),
  read: (hash: string) => readAddress(hash),
};
