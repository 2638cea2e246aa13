"""What a step does: `Method`, and the named methods as functions that return one.

Where to find what::

    method                  `Method` and its weight decay
    named                   the named methods (`adam`, `nesterov`, ...) and their table, `METHODS`
    schedule                learning rates over the steps: warm-up, decay, floor
    text                    text forms and plain data, in both directions
"""

from memgrad.method.method import Method, WeightDecay
from memgrad.method.named import (
    METHODS,
    adagrad,
    adam,
    adamw,
    adana,
    ademamix,
    aggmo,
    dana,
    heavy_ball,
    memadam,
    memsgd,
    nadam,
    nesterov,
    polyadam,
    qhm,
    sgd,
)
from memgrad.method.schedule import Schedule

__all__ = [
    "METHODS",
    "Method",
    "Schedule",
    "WeightDecay",
    "adagrad",
    "adam",
    "adamw",
    "adana",
    "ademamix",
    "aggmo",
    "dana",
    "heavy_ball",
    "memadam",
    "memsgd",
    "nadam",
    "nesterov",
    "polyadam",
    "qhm",
    "sgd",
]
