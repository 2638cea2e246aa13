"""What a step does: `Method`, and the named methods as functions that return one."""

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

__all__ = [
    "METHODS",
    "Method",
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
