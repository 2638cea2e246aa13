"""Where memory pays: claims of our own about a language model (L1 to L6), their experiments and their verdicts.

`stages` has the experiments, `study` their results, each built from what the earlier ones selected, `claims` the rules,
and `running` trains and decides.
"""
