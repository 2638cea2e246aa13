"""The paper as data: its experiments with their settings, its figures, and its claims with their decision rules.

`catalogue` is the table of figures and `verdicts` the table of claims. `settings` and `scales` say what is run;
`continuous`, `odes` and `synthetic` run it, `figures` and `training` draw it. Claims stand beside the rules and
thresholds that decide them: in `synthetic_claims` and `guarantees`, and on real data in `losses`, `step_sizes` and
`adaptive`. `reproduction` does all of it.
"""

from memgrad.extras import require

require("memgrad.paper", extra="lab", modules=("matplotlib", "scipy"))
