"""``python tests/packaging/fresh.py``: what ``make dist`` wrote into ``dist/``, as a new user gets it.

Twine reads each distribution strictly. Then each framework's pip line of README is installed from ``dist/`` and
the package index into an environment of its own, ``pip check`` runs, and README's block prints what README shows;
what does not ends it with 1. Says where an environment is above 350 MB, or took above 60 s of CPU.
"""

import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
MEGABYTES, SECONDS = 350, 60
BLOCK = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.S)
EXTRAS = {"langchain": "langchain_denoise", "llamaindex": "llamaindex_denoise"}


def run(*command: object, **given: object) -> str:
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, check=False, **given
    )
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return done.stdout


def seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fresh(extra: str, folder: Path) -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    code, shown = next(
        block for block in blocks if f"from {EXTRAS[extra]} import" in block[0]
    )
    run(sys.executable, "-m", "venv", folder)
    python, before = folder / "bin" / "python", seconds()
    (wheel,) = DIST.glob("rag_denoise-*.whl")
    run(
        python,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--find-links",
        DIST,
        f"{wheel}[{extra}]",
    )
    installed = seconds() - before
    run(python, "-m", "pip", "check")
    before = seconds()
    printed = run(python, "-c", code, cwd=folder)
    ran = seconds() - before
    if printed != shown:
        raise SystemExit(f"README shows:\n{shown}\nit prints:\n{printed}")
    size = (
        sum(
            p.stat().st_size
            for p in folder.rglob("*")
            if p.is_file() and not p.is_symlink()
        )
        / 1e6
    )
    print(
        f"{extra}: {size:.0f} MB, {installed:.0f} s of CPU to install, {ran:.1f} s to run README's block"
    )
    if size > MEGABYTES or installed + ran > SECONDS:
        print(f"   missed: {MEGABYTES} MB and {SECONDS} s")


def main() -> None:
    files = sorted(p for p in DIST.iterdir() if p.name.endswith((".whl", ".tar.gz")))
    print(run(sys.executable, "-m", "twine", "check", "--strict", *files).strip())
    with tempfile.TemporaryDirectory() as scratch:
        for extra in EXTRAS:
            fresh(extra, Path(scratch) / extra)


if __name__ == "__main__":
    main()
