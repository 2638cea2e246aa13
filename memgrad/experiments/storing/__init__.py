"""Storing: rows in Parquet chunks, checkpoints, where they come from, and their upkeep.

`chunk` defines the columns of the rows and their file format, `store` reads and writes the files, and `folder` words
what is wrong with a store. `provenance` says where rows were made, `upkeep` lists and cleans up a store, and
`tensorboard` writes event files beside it.
"""
