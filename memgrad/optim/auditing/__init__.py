"""Auditing: what any torch optimizer remembers, measured from outside.

`evidence` chooses gradients, `watching` feeds them to an optimizer and records its steps and buffers; `evidence` then
says which of these are weighted sums of gradients or squares, and `audit` puts it into words. `fitting` finds the
memory that is nearest to measured weights, `mixing` the mixture, with gains that are free at every step in
`free_gains`; `least_squares` solves the small problems of both.
"""
