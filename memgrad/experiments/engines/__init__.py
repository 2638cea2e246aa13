"""Where batches of runs are trained: on this machine's cores, or on a Ray cluster."""
