"""Auditing: what any torch optimizer remembers, measured from outside.

`watching` feeds an optimizer gradients and records its steps and buffers, `evidence` says which of them are weighted
sums of gradients or squares, and `audit` puts it into words. `fitting` finds the memory that is nearest to measured
weights, `mixing` the mixture, with gains that are free at every step in `free_gains`; `least_squares` solves the small
problems of both.
"""
