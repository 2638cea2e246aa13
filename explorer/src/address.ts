/** A view as the part of the address after #, and back. What is out of range is clamped, and said. */

import { landscape, type LandscapeName } from "./landscape";
import { sceneState } from "./scenes";
import {
  HISTORIES,
  PANELS,
  RANGES,
  SHADES,
  SHOWN,
  WHOLE,
  type NumberName,
  type Shown,
  type State,
  type Theme,
} from "./state";
import { ATLAS, type AtlasName } from "./atlas";
import { clamp, parseMixture } from "./textform";

const LANDSCAPES: readonly LandscapeName[] = ["quadratic", "quartic", "logcosh", "valley"];
const THEMES: readonly Theme[] = ["auto", "light", "dark"];
const CHOICES = {
  f: LANDSCAPES,
  theme: THEMES,
  panel: PANELS,
  history: HISTORIES,
  shade: SHADES,
  family: Object.keys(ATLAS) as AtlasName[],
} as const;

/** Only what differs from the story's scene is written, so that addresses stay short. */
export function writeAddress(state: State): string {
  const base = sceneState(state.step);
  const words = [`step=${state.step}`];
  for (const [name, value] of Object.entries(state)) {
    const text = textOf(value);
    if (name !== "step" && text !== textOf(base[name as keyof State])) words.push(`${name}=${text}`);
  }
  return `#${words.join("&")}`;
}

/** As short as an address allows: mixtures without their spaces, and signs that need no code as they are. */
function textOf(value: State[keyof State]): string {
  if (Array.isArray(value)) return value.join(",") || "none";
  const codes: Readonly<Record<string, string>> = { "%3A": ":", "%2C": ",", "%3D": "=", "%2B": "+", "%5E": "^" };
  return encodeURIComponent(String(value).replaceAll(" ", "")).replace(/%3A|%2C|%3D|%2B|%5E/g, (code) => codes[code]);
}

/** The view of an address, and a sentence about everything in it that could not be shown as written. */
export function readAddress(hash: string): { state: State; complaints: string[] } {
  const complaints: string[] = [];
  const complain = (message: string) => void complaints.push(message);
  const words = new Map<string, string>();
  for (const word of hash.replace(/^#/, "").split("&")) {
    const at = word.indexOf("=");
    if (word !== "") words.set(at < 0 ? word : word.slice(0, at), at < 0 ? "" : decode(word.slice(at + 1)));
  }
  const step = words.has("step") ? readNumber("step", words.get("step")!, 1, complain) : 1;
  const base = sceneState(step);
  const state: { -readonly [Name in keyof State]: State[Name] } = { ...base };
  for (const [name, text] of words) {
    if (name === "step") continue;
    else if (name === "memory") state.memory = readMemory(text, base.memory, complain);
    else if (Object.hasOwn(CHOICES, name)) {
      const key = name as keyof typeof CHOICES;
      Object.assign(state, { [key]: readChoice(key, text, CHOICES[key], base[key], complain) });
    } else if (name === "show") state.show = readShown(text, complain);
    else if (Object.hasOwn(RANGES, name)) {
      state[name as NumberName] = readNumber(name as NumberName, text, base[name as NumberName], complain);
    } else complain(`${name}: the page has no such setting, so it is ignored.`);
  }
  state.k = clamp(state.k, { low: 0, high: state.steps }, "k", complain);
  const { view } = landscape(state.f, state.kappa);
  state.x = clamp(state.x, { low: view.x[0], high: view.x[1] }, "x", words.has("x") ? complain : () => {});
  state.y = clamp(state.y, { low: view.y[0], high: view.y[1] }, "y", words.has("y") ? complain : () => {});
  return { state, complaints };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function readNumber(name: NumberName, text: string, fallback: number, complain: (message: string) => void): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) {
    complain(`${name}: ${JSON.stringify(text)} is not a number, so ${fallback} is shown.`);
    return fallback;
  }
  return clamp(WHOLE.has(name) ? Math.round(value) : value, RANGES[name], name, complain);
}

function readMemory(text: string, fallback: string, complain: (message: string) => void): string {
  try {
    return parseMixture(text, complain).text;
  } catch (error) {
    complain(`memory: ${(error as Error).message}, so ${fallback} is shown.`);
    return fallback;
  }
}

function readChoice<Choice extends string>(
  name: string,
  text: string,
  choices: readonly Choice[],
  fallback: Choice,
  complain: (message: string) => void,
): Choice {
  const found = choices.find((choice) => choice === text);
  if (found === undefined) complain(`${name}: ${JSON.stringify(text)} is none of ${choices.join(", ")}.`);
  return found ?? fallback;
}

function readShown(text: string, complain: (message: string) => void): Shown[] {
  const words = text === "none" || text === "" ? [] : text.split(",");
  const unknown = words.filter((word) => !(SHOWN as readonly string[]).includes(word));
  if (unknown.length > 0) complain(`show: ${unknown.join(", ")} is none of ${SHOWN.join(", ")}.`);
  return SHOWN.filter((each) => words.includes(each));
}
