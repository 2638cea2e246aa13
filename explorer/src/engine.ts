/** Long computations off the main thread. While an answer is on its way, the one before it is shown. */

import { perform, type Answer, type Job } from "./jobs";
import EngineWorker from "./worker?worker&inline";

interface Slot {
  key: string;
  answer: Answer<Job> | null;
  /** What was asked for last, and is not yet answered. */
  asked: string | null;
}

export class Engine {
  readonly #slots = new Map<string, Slot>();
  readonly #whenAnswered: () => void;
  #worker: Worker | null = null;

  constructor(whenAnswered: () => void) {
    this.#whenAnswered = whenAnswered;
    try {
      this.#worker = new EngineWorker();
      this.#worker.addEventListener("message", ({ data: { slot, key, answer } }) => this.#take(slot, key, answer));
      // A browser that refuses the worker still shows the page, if a little slower.
      this.#worker.addEventListener("error", (event) => {
        event.preventDefault();
        this.#worker = null;
        for (const slot of this.#slots.values()) slot.asked = null;
        this.#whenAnswered();
      });
    } catch {
      this.#worker = null;
    }
  }

  /** Whether everything that was asked for is answered. */
  get isIdle(): boolean {
    return [...this.#slots.values()].every(({ asked }) => asked === null);
  }

  /** The answer to a job, or the slot's answer before it, or null. Each slot has one job on its way at a time. */
  ask<Asked extends Job>(name: string, job: Asked): { answer: Answer<Asked> | null; isFresh: boolean } {
    const key = JSON.stringify(job);
    let slot = this.#slots.get(name);
    if (slot === undefined) this.#slots.set(name, (slot = { key: "", answer: null, asked: null }));
    if (slot.key !== key && slot.asked === null) {
      if (this.#worker === null) Object.assign(slot, { key, answer: perform(job) });
      else {
        slot.asked = key;
        this.#worker.postMessage({ slot: name, key, job });
      }
    }
    return { answer: slot.answer as Answer<Asked> | null, isFresh: slot.key === key };
  }

  #take(name: string, key: string, answer: Answer<Job>): void {
    const slot = this.#slots.get(name)!;
    Object.assign(slot, { key, answer, asked: null });
    this.#whenAnswered();
  }
}
