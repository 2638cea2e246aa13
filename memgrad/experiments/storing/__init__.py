"""Storing: rows in Parquet chunks, checkpoints, where they come from, and their upkeep.

`chunk` defines the columns of the rows and their file format, and `store` reads and writes the files.
"""
