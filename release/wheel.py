"""Build the sdist and the wheel into dist/, and try the wheel in an environment that does not see the checkout.

    python release/wheel.py            # a new environment with all dependencies: what `make wheel` runs, minutes
    python release/wheel.py --borrow   # the dependencies of the running environment: what `make test` runs, seconds

Both need the packages `build` and `hatchling` (extra `dev`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
SAMPLES = """
from memgrad.problems import datasets
for name in datasets.names():
    print(datasets.sample(name))
"""
# The same experiment as in examples/, cut to a second.
SHORTER = {"epochs = 40": "epochs = 1", "seeds = 8": "seeds = 2", "times = 41": "times = 3"}


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """The output of a command. One that fails ends the program with the command and all that it wrote."""
    # The checkout must not be importable, and no setting of the caller's may choose another store or cache.
    hidden = ("PYTHONPATH", "PYTHONHOME", "MEMGRAD_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    environment["PIP_CONSTRAINT"] = str(ROOT / "constraints.txt")
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nfailed with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build() -> Path:
    """Build the sdist from the checkout and the wheel from the sdist; return the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST)
    (wheel,) = DIST.glob("*.whl")
    return wheel


def entries(wheel: Path) -> dict[str, bytes]:
    """The files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def package_files(root: Path) -> dict[str, bytes]:
    """The files of the package in a checkout, by the names that they have in a wheel."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in (root / "memgrad").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def differing(first: dict[str, bytes], second: dict[str, bytes]) -> list[str]:
    """The names of the files that are missing on one side, or are not the same on both."""
    return sorted({name for name, _ in first.items() ^ second.items()})


def check_contents(wheel: Path, folder: Path) -> None:
    """End the program unless the wheel is that of the checkout, and holds all of the package and nothing else."""
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder)
    (other,) = folder.glob("*.whl")
    built = entries(wheel)
    if names := differing(built, entries(other)):
        sys.exit(f"the sdist builds another wheel than the checkout; these files differ: {', '.join(names)}")
    packed = {name: content for name, content in built.items() if ".dist-info/" not in name}
    if names := differing(packed, package_files(ROOT)):
        sys.exit(f"the wheel does not hold the package of the checkout; these files differ: {', '.join(names)}")


def make_environment(folder: Path, wheel: Path, *, borrow: bool) -> Path:
    """Install the wheel into a new environment; return the folder of its programs."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check", "install"]
    if not borrow:
        run(*install, wheel)
        run(python, "-c", "import memgrad; print(memgrad.Memory.parse('poly:2').weights(3))", cwd=folder)
        run(*install, f"{wheel}[lab]")
        return python.parent
    run(*install, "--no-deps", wheel)
    # A plain path: the editable install there, itself a .pth file, is not followed.
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.parent


def try_out(programs: Path, folder: Path) -> None:
    """Use the installed package as a new user would, in a folder of its own. Every kind of package data is read."""
    for name in ("README.md", "examples/my_problem.py", "examples/compare_fairly.toml"):
        shutil.copy(ROOT / name, folder)
    spec = folder / "compare_fairly.toml"
    text = spec.read_text()
    for long, short in SHORTER.items():
        if long not in text:
            sys.exit(f"{spec.name} no longer says {long!r}: change SHORTER in {Path(__file__).name} with it")
        text = text.replace(long, short)
    spec.write_text(text)

    python, memgrad = programs / "python", programs / "memgrad"
    where = run(python, "-c", "import memgrad; print(memgrad.__file__)", cwd=folder).strip()
    if not Path(where).is_relative_to(programs.parent):
        sys.exit(f"the environment imports memgrad from {where}, not from the wheel")
    commands: list[list[str | Path]] = [
        [python, "-m", "doctest", "README.md"],
        [python, "-c", SAMPLES],
        [memgrad, "memories"],
        [memgrad, "plot", "memories", "--out", "memories.svg"],
        [memgrad, "explore", "--print-url"],
        [memgrad, "init", "new.toml"],
        [memgrad, "run", "compare_fairly.toml", "--workers", "1"],
        [memgrad, "compare", "compare_fairly.toml", "--out", "comparison.svg"],
        [memgrad, "reproduce", "bound-beta", "--quiet"],
    ]
    for command in commands:
        start = time.perf_counter()
        run(*command, cwd=folder)
        shown = " ".join(str(part) for part in command[1:] if "\n" not in str(part))
        print(f"  {time.perf_counter() - start:5.1f} s  {Path(command[0]).name} {shown}", flush=True)
    for made in ("memories.svg", "new.toml", "comparison.svg", "reproduction/report.html"):
        if not (folder / made).is_file():
            sys.exit(f"the commands above did not write {made}")


def main() -> None:
    """Build, compare, install, try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--borrow", action="store_true", help="use the dependencies of the running environment")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memgrad-wheel-") as temporary:
        folder = Path(temporary)
        wheel = build()
        check_contents(wheel, folder / "from-checkout")
        (sdist,) = DIST.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            print(f"{sdist.name}: {len(archive.getnames())} files; {wheel.name}: {len(entries(wheel))} files")
        programs = make_environment(folder / "environment", wheel, borrow=options.borrow)
        work = folder / "work"
        work.mkdir()
        try_out(programs, work)
    print("The wheel works without the checkout.")


if __name__ == "__main__":
    main()
