"""Run all benchmarks, or those named by --only; the others' results stay as they are.

A benchmark that needs real data ends with a sentence when no --data is given.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
# `engines` needs an environment with an engine: make engines.
NOT_BENCHMARKS = {"harness", "run", "engines"}


def scripts() -> dict[str, Path]:
    """Return the path of every benchmark by name, without the modules that they share."""
    paths = {}
    for path in sorted(FOLDER.glob("*.py")):
        if path.stem not in NOT_BENCHMARKS and not path.stem.startswith("_"):
            paths[path.stem] = path
    return paths


def main() -> int:
    paths = scripts()
    known_names = ", ".join(paths)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help=f"comma-separated: {known_names}")
    parser.add_argument("--data", default="", help="folder with the real data sets")
    # Arguments that only a benchmark knows are passed on to it.
    options, script_arguments = parser.parse_known_args()
    if options.data:
        script_arguments += ["--data", options.data]
    names = [name for name in options.only.split(",") if name] or list(paths)
    failed_names = []
    for name in names:
        if name not in paths:
            parser.error(f"unknown benchmark {name}; there are: {known_names}")
        print(f"== {name}", flush=True)
        command = [sys.executable, str(paths[name]), *script_arguments]
        if subprocess.run(command, check=False).returncode:
            failed_names.append(name)
    if failed_names:
        sys.stderr.write(f"did not finish: {', '.join(failed_names)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
