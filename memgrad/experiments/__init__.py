"""Experiments: from a spec to a plan of runs, to rows in a store, on one machine or on many."""
