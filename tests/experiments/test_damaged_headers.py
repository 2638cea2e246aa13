"""Headers of chunks that contradict themselves."""

from __future__ import annotations

import json

import pyarrow
import pytest
from pyarrow import parquet

from memgrad.experiments.storing.chunk import KEY, decode_header


def test_a_header_with_a_digest_of_no_run_is_damaged() -> None:
    header = {"format": 1, "shared": {}, "runs": [], "digests": ["a" * 32], "diverged": {}}
    out = pyarrow.BufferOutputStream()
    with parquet.ParquetWriter(out, pyarrow.schema([])) as writer:
        writer.add_key_value_metadata({KEY: json.dumps({**header, "about": {}})})
    with pytest.raises(ValueError, match="not a chunk of memgrad's"):
        decode_header(out.getvalue().to_pybytes())
