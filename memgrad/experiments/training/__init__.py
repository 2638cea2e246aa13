"""Training: run groups as stacks or alone, their checkpoints and events, and the engines that host them."""
