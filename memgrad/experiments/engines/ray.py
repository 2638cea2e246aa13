"""A Ray cluster."""
