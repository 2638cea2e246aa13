"""Where memory pays: claims of our own about a language model (L1 to L6), their experiments and their verdicts.

`stages` has the experiments, `study` their results, each built from what the earlier ones selected, `claims` the rules,
and `running` finds or trains results and decides. `beside` compares what no claim is about, `savings` says what a loss
is worth in steps, `board` and `pictures` make tables and figures, and `costs` lists what is left to train.
"""
