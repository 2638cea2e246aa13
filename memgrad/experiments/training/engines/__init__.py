"""Where run groups are trained: on the cores of this machine, or on a Ray cluster."""
