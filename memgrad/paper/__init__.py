"""The paper as data: its experiments with their settings, its figures, and its claims with their decision rules.

`catalogue` reads the table of figures, `verdicts` is the table of claims. `settings` says what is run without data, and
`scales` (with `experiments.toml` and `scales.toml`) what is run on data sets, with the paper's grid of step sizes.
`continuous`, `odes` and `smoothing` run what needs no data, `figures` draws it, and `training_figures` draws training
from stored rows. `reproduction` does all of it: in `pieces` for several processes, with a `ledger` of what is done and
the `progress` of the rest; `published` rows, and `data_facts` beside them, stand in for training and data sets.

`claims` says what a claim and a verdict are, and `evidence` brings results into the form that rules ask for. Each claim
is beside the rule that decides it and the thresholds of its own; the margin of 10 % that several share is in `rules`::

    synthetic_claims        S1 to S7
    guarantees              S8
    loss_claims             R1 to R3, R7 to R10
    step_size_claims        R4 to R6
    adaptive                A1
    power_laws              M1, beyond the paper
    language                L1 to L6, beyond the paper, with their experiments
    rules                   what the comparisons of R and A have in common: tests, their correction, margins
"""

from memgrad.extras import require

require("memgrad.paper", extra="lab", modules=("matplotlib", "scipy"))
