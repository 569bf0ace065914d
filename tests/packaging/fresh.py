"""``python tests/packaging/fresh.py``: what ``make dist`` wrote into ``dist/``, as a new user gets it.

Twine reads each distribution strictly. Then each framework's pip line of README is installed from ``dist/`` and
the package index into an environment of its own, ``pip check`` runs, and README's block prints what README shows;
what does not ends it with 1.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
BLOCK = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.S)
EXTRAS = {"langchain": "langchain_denoise", "llamaindex": "llamaindex_denoise"}


def run(*command, **given):
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, check=False, **given
    )
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return done.stdout


def fresh(extra, folder):
    blocks = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    code, shown = next(
        block for block in blocks if f"from {EXTRAS[extra]} import" in block[0]
    )
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    (wheel,) = DIST.glob("rag_denoise-*.whl")
    line = "-m pip install --disable-pip-version-check --find-links"
    run(python, *line.split(), DIST, f"{wheel}[{extra}]")
    run(python, "-m", "pip", "check")
    printed = run(python, "-c", code, cwd=folder)
    if printed != shown:
        raise SystemExit(f"README shows:\n{shown}\nit prints:\n{printed}")
    print(f"{extra}: installed, and README's block prints what README shows")


def main():
    files = sorted(p for p in DIST.iterdir() if p.name.endswith((".whl", ".tar.gz")))
    print(run(sys.executable, "-m", "twine", "check", "--strict", *files).strip())
    with tempfile.TemporaryDirectory() as scratch:
        for extra in EXTRAS:
            fresh(extra, Path(scratch) / extra)


if __name__ == "__main__":
    main()
