"""Run all benchmarks, or those named by --only; the others' results stay as they are.

A benchmark that needs real data is left out, and said so, when no --data is given.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_BENCHMARKS = {
    "harness",
    "run",
    "engines",
}  # the last needs an engine's environment: make engines


def scripts() -> dict[str, Path]:
    """Every benchmark by name; parts that several share are none."""
    found = sorted(HERE.glob("*.py"), key=lambda p: p.stem)
    return {
        p.stem: p
        for p in found
        if p.stem not in NOT_BENCHMARKS and not p.stem.startswith("_")
    }


def environment() -> dict[str, str]:
    """Where the harness is found."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def main() -> int:
    every = scripts()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="", help="comma-separated names: " + ", ".join(every)
    )
    parser.add_argument("--data", default="", help="folder with the real data sets")
    parser.add_argument("--quick", action="store_true", help="small forms only")
    given, more = parser.parse_known_args()  # what else a script takes is handed to it
    wanted = [n for n in given.only.split(",") if n] or list(every)
    unknown = sorted(set(wanted) - every.keys())
    if unknown:
        print(
            f"unknown benchmark {', '.join(unknown)}; there are: {', '.join(every)}",
            file=sys.stderr,
        )
        return 2
    failed = []
    for name in wanted:
        command = [sys.executable, str(every[name]), *more]
        command += ["--data", given.data] if given.data else []
        command += ["--quick"] if given.quick else []
        print(f"== {name}", flush=True)
        if subprocess.run(command, env=environment(), check=False).returncode:
            failed.append(name)
    if failed:
        print(f"did not finish: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
