"""Tuning of a script that is launched as a process, several at a time. Replace COMMAND by your own.

    python examples/tune_processes.py --jobs 2 --file tuning.json

The script is told the method, the learning rate and the seed, and prints its losses as one line of JSON, NaN if
training diverged. If it fails, its error is shown and tuning stops; with --file, the same command continues. Here the
script is this file itself, which trains as tune_my_loop.py does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from tune_my_loop import CANDIDATES, EVERY, PROBLEM, RULES, STEPS, train

from memgrad.experiments import Trial, Tuner

COMMAND = [sys.executable, __file__, "--train"]


def launched(trial: Trial) -> list[float]:
    """The losses that the script prints. A script that fails raises: a fault in it is no divergence."""
    settings = {"name": trial.name, "lr": trial.lr, "seed": trial.seed, "options": dict(trial.options)}
    command = [*COMMAND, json.dumps(settings)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603  # our own command
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="how many scripts run at a time")
    parser.add_argument("--file", type=Path, help="file that stores the results, to continue later")
    parser.add_argument("--runs", type=int, help="maximum number of runs")
    parser.add_argument("--train", metavar="JSON", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        print(json.dumps(train(**json.loads(options.train))))
        return

    tuner = Tuner(CANDIDATES, rules=RULES, runs=options.runs, file=options.file, problem=PROBLEM)
    running: dict[Future[list[float]], Trial] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        while not tuner.done:
            while len(running) < options.jobs and (trial := tuner.ask()):
                running[pool.submit(launched, trial)] = trial
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                trial = running.pop(future)
                tuner.tell(trial, future.result(), steps=range(0, STEPS + 1, EVERY))
                print(f"{trial.stage}: {trial} is done")
    print(tuner.answer().verdict)


if __name__ == "__main__":
    main()
