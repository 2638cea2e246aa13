"""Where memory pays: claims of our own about a language model (L1 to L6), their experiments and their verdicts.

`stages` has the experiments, each built from what the earlier ones selected, `claims` the rules, `running` both together.
"""
