"""The package around the memory: what importing it costs, and what is said when a part is missing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import metadata, requires

import pytest

import memgrad
from memgrad.extras import require


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_memgrad_loads_no_package_but_numpy() -> None:
    loaded = run_python(
        "import sys, numpy; before = set(sys.modules); import memgrad;"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))"
    )
    assert set(loaded.split()) <= {"memgrad", "numpy"}


def test_the_bare_install_needs_numpy_alone() -> None:
    bare = [line for line in requires("memgrad") or [] if "extra ==" not in line]
    assert [line.split(">")[0] for line in bare] == ["numpy"]


def test_every_public_name_exists_and_is_documented() -> None:
    for name in memgrad.__all__:
        value = getattr(memgrad, name)
        assert name == "__version__" or isinstance(value, memgrad.Memory) or value.__doc__


def test_the_version_is_the_installed_one() -> None:
    assert metadata("memgrad")["Version"] == memgrad.__version__


def test_a_missing_extra_is_named() -> None:
    with pytest.raises(ImportError, match=r"memgrad\.x needs no_such_module, which is not installed.*memgrad\[lab\]"):
        require("memgrad.x", extra="lab", modules=("numpy", "no_such_module"))


HIDE = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
import importlib.util as u
real = u.find_spec
u.find_spec = lambda name, package=None: None if name.split(".")[0] in {hidden!r} else real(name, package)
sys.meta_path.insert(0, Hide())
"""


def test_the_command_line_without_its_extra_says_what_to_install() -> None:
    code = HIDE.format(hidden={"typer"}) + "from memgrad.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("needs typer, which is not installed: pip install 'memgrad[lab]'")
    assert "Traceback" not in done.stderr


def test_figures_without_matplotlib_say_what_to_install() -> None:
    code = HIDE.format(hidden={"matplotlib"}) + "import memgrad.figures"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "ImportError: memgrad.figures needs matplotlib" in done.stderr


def test_bounds_without_scipy_say_what_to_install() -> None:
    code = HIDE.format(hidden={"scipy"}) + "import memgrad.theory"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "ImportError: memgrad.theory needs scipy, which is not installed: pip install 'memgrad[lab]'" in done.stderr
