"""Racing: which method, at which learning rate, decided by as few runs as the evidence allows.

`sequential` has the statistics of a race and `learning_rates` the search before it; both know nothing of training.
`course` joins them, from measured losses to the runs that are needed next. `tuner` asks and is told, `tune` lets the
engine train, and `answer` is what they come to.
"""
