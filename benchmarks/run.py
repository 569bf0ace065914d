"""Run all benchmarks, or those named by --only; the others' results stay as they are.

A benchmark that needs real data is left out, and said so, when no --data is given.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NOT_BENCHMARKS = {"harness", "run", "engines"}  # the last needs an engine's environment: make engines


def names() -> list[str]:
    """Every benchmark that ``make bench`` runs: the scripts here that are not shared parts or GPU scripts."""
    found = sorted(p.stem for p in HERE.glob("*.py"))
    return [n for n in found if n not in NOT_BENCHMARKS and not n.startswith(("_", "gpu_"))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="comma-separated names: " + ", ".join(names()))
    parser.add_argument("--data", default="", help="folder with the real data sets")
    parser.add_argument("--quick", action="store_true", help="small forms only")
    given = parser.parse_args()
    wanted = [n for n in given.only.split(",") if n] or names()
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    failed = []
    for name in wanted:
        command = [sys.executable, str(HERE / f"{name}.py")]
        command += ["--data", given.data] if given.data else []
        command += ["--quick"] if given.quick else []
        print(f"== {name}", flush=True)
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"did not finish: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
