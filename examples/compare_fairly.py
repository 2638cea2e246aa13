"""Is MemSGD better than AdamW on my problem? Step sizes of each, paired seeds, intervals, a figure.

    python examples/compare_fairly.py --figure comparison.svg

does in code what these commands do:

    memgrad init compare_fairly.toml --problem my_problem.py:problem    # and edit it
    memgrad plan compare_fairly.toml                                    # what it would cost
    memgrad run compare_fairly.toml                                     # stop it any time; run it again to resume
    memgrad compare compare_fairly.toml --out comparison.svg
"""

from __future__ import annotations

import argparse
from pathlib import Path

from memgrad import figures
from memgrad.experiments import LocalEngine, Spec, Store, execute, results_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", type=Path, default=Path(__file__).with_name("compare_fairly.toml"))
    parser.add_argument("--store", type=Path, default=Path("memgrad-store"), help="the folder of the rows")
    parser.add_argument("--figure", type=Path, help="write a figure: .png, .svg or .pdf")
    options = parser.parse_args()

    spec, store = Spec.load(options.spec), Store.open(options.store)
    outcome = execute(spec, store, LocalEngine())
    print(f"{outcome.trained} runs trained in {outcome.seconds:.0f} s, {outcome.there} were already in the store.")

    results = results_of(spec, store)
    for row in results.compare("loss", reference="AdamW"):
        beside = "" if row.ratio is None else f"; {row.ratio} times that of AdamW, p = {row.adjusted_p_value:.2g}"
        print(f"{row.method}, lr {row.lr:g}: final loss {row.final}{beside}")
    if options.figure:
        print(f"wrote {figures.save(figures.comparison(results, 'loss'), options.figure)}")


if __name__ == "__main__":
    main()
