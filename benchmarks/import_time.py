"""What `import memgrad` costs beyond `import numpy`: medians of fresh interpreters that take turns.

python benchmarks/import_time.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys

CODE = "import time; import numpy; a = time.perf_counter(); import {}; print(time.perf_counter() - a)"


def main() -> None:
    times: dict[str, list[float]] = {"memgrad": [], "memgrad.optim": [], "torch": []}
    for _ in range(11):
        for module, taken in times.items():
            done = subprocess.run(
                [sys.executable, "-c", CODE.format(module)], capture_output=True, text=True, check=True
            )
            taken.append(float(done.stdout))
    for module, taken in times.items():
        print(f"import {module:14} {1e3 * statistics.median(taken):7.1f} ms after numpy")


if __name__ == "__main__":
    main()
