"""Racing: which method, at which learning rate, decided by as few runs as the evidence allows.

`sequential` has the statistics of a race and `learning_rates` the search before it; both know nothing of training.
`course` joins them, from measured losses to the runs that are needed next; `costs` has how many these are in all, and
which of them a budget keeps back. The `candidates` are those of the default `portfolio`, or of a spec. `tuner` asks for
runs and is told their losses, `tune` lets the engine train them at the `pace` that a budget of time allows, `answer` is
the result, and `words` writes it for people.
"""
