"""The paper as data: its experiments with their settings, its figures, and its claims with their decision rules.

`settings` and `catalogue` say what is run and drawn; `continuous`, `odes` and `synthetic` run it; `figures` draws what
they return; `claims` holds the claims and their rules, `verdicts` and `guarantees` decide them.
"""

from memgrad.extras import require

require("memgrad.paper", extra="lab", modules=("matplotlib", "scipy"))
