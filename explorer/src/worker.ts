/** The worker's side: a job comes in, its answer goes out. */

import { perform, type Job } from "./jobs";

self.addEventListener(
  "message",
  ({ data: { slot, key, job } }: MessageEvent<{ slot: string; key: string; job: Job }>) => {
    self.postMessage({ slot, key, answer: perform(job) });
  },
);
