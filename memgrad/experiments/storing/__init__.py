"""Storing: rows in Parquet chunks, checkpoints, where they come from, and their upkeep."""
