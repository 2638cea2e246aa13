"""Training: run groups as stacks or alone, their checkpoints and events, and the engines that host them.

`train` is the loop and reports `events`; `stack` and `alone` take its steps, `minibatch_order` draws its minibatches,
`averages` follow its iterates, `checkpoint` is the saved state, with `nested` values packed, and `engines` are where it
runs. `schedule_free` is an optimizer that only the experiments need.
"""
