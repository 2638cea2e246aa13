"""What a release needs: one version everywhere, pinned actions, and a check of the wheel that finds what is missing."""

from __future__ import annotations

import importlib.util
import re
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import memgrad

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").exists())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def wheel() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wheel", ROOT / "release" / "wheel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit_with_its_version_beside_it(path: Path) -> None:
    used = re.findall(r"uses: *(.*)", path.read_text())
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []


def test_only_the_upload_may_ask_for_an_identity() -> None:
    granted = {path.name: path.read_text().count("id-token: write") for path in WORKFLOWS}
    assert granted == {"publish.yml": 1, "tests.yml": 0}


def test_citation_and_package_name_one_version() -> None:
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == memgrad.__version__


def test_pre_commit_runs_the_ruff_that_make_runs() -> None:
    pinned = re.search(r"^ruff==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    hook = re.search(r"ruff-pre-commit\n +rev: v(\S+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert pinned is not None
    assert hook is not None
    assert hook[1] == pinned[1]


def test_a_wheel_without_a_file_of_the_package_is_noticed(wheel: ModuleType, tmp_path: Path) -> None:
    for name, content in {"__init__.py": "one = 1\n", "data/sample.npz": "numbers", "__pycache__/x.pyc": ""}.items():
        path = tmp_path / "memgrad" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    with zipfile.ZipFile(tmp_path / "small.whl", "w") as archive:
        archive.writestr("memgrad/__init__.py", "one = 1\n")
    packed = wheel.entries(tmp_path / "small.whl")
    assert wheel.differing(packed, wheel.package_files(tmp_path)) == ["memgrad/data/sample.npz"]


def test_a_changed_file_and_a_file_too_many_are_noticed(wheel: ModuleType) -> None:
    checkout = {"memgrad/a.py": b"1", "memgrad/b.py": b"2"}
    assert wheel.differing(checkout, {"memgrad/a.py": b"1", "memgrad/b.py": b"3"}) == ["memgrad/b.py"]
    assert wheel.differing(checkout, {**checkout, "memgrad/c.py": b""}) == ["memgrad/c.py"]
    assert wheel.differing(checkout, dict(checkout)) == []


def test_a_command_that_fails_ends_the_trial_with_what_it_wrote(wheel: ModuleType) -> None:
    with pytest.raises(SystemExit, match="failed with status 3:\nhere is why"):
        wheel.run(wheel.sys.executable, "-c", "print('here is why'); raise SystemExit(3)")
