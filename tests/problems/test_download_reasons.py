"""What went wrong with a download, in words, for each kind of error; and which files a folder has."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from memgrad.problems.datasets.archives import in_folder
from memgrad.problems.datasets.download import _reason

URL = "https://data.example/file.gz"


def answer(status: int, reason: str) -> requests.Response:
    response = requests.Response()
    response.status_code, response.reason = status, reason
    return response


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (requests.HTTPError(response=answer(404, "Not Found")), f"data.example answers 404 Not Found for {URL}."),
        (requests.exceptions.ProxyError(), "the proxy does not connect to data.example."),
        (requests.ConnectTimeout(), "data.example does not respond."),
        (requests.ReadTimeout(), "data.example does not respond."),
        (requests.ConnectionError(), "no connection to data.example."),
        (
            requests.exceptions.ChunkedEncodingError(),
            "the connection to data.example was lost; what has arrived is kept.",
        ),
    ],
)
def test_each_error_has_its_words(error: Exception, words: str) -> None:
    assert _reason(URL, error) == words


def test_a_folder_has_its_own_files_and_those_below_it_only_if_asked(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "here.bin").write_bytes(b"1")
    (tmp_path / "below" / "there.bin").write_bytes(b"2")
    assert sorted(in_folder(tmp_path).paths) == ["here.bin"]
    assert sorted(in_folder(tmp_path, deep=True).paths) == ["here.bin", "there.bin"]
