"""What the scripts of ``docs/how_to`` print, each in a process of its own that has what its page installs."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how_to"
SCRIPTS = tuple(sorted(path.stem for path in HOW_TO.glob("*.py")))


class Names:
    """The model of the server that ``openai_endpoint`` asks: it names the pieces that speak of a cost."""

    def reply(self, text: str) -> tuple[str, int]:
        pieces = re.findall(r"^(\d+) .*\bcosts\b.*$", text, re.M)
        return ", ".join(pieces) or "NONE", len(text.split())


@contextmanager
def beside(script: str) -> Iterator[dict[str, str]]:
    """The environment variables that ``script`` asks for; a server lives as long as the block."""
    if script == "openai_endpoint":
        sys.path.insert(0, str(ROOT / "tests" / "support"))
        from openai_server import serving

        with serving(Names()) as server:
            yield {"BASE_URL": server.url}
    elif script in {"own_model", "vllm_end"}:
        sys.path.insert(0, str(ROOT / "tests" / "support"))
        from small_model import model_folder

        yield {"MODEL": str(model_folder())}
    else:
        yield {}


def page_of(script: str) -> Path:
    return HOW_TO / f"{script}.md"


def installed(page: str) -> set[str]:
    """The distributions that the ``pip install`` lines of a page bring, with all that these need."""
    lines = re.findall(r"^    pip install (.*)$", page, re.MULTILINE)
    names = re.compile(r"[a-zA-Z][\w.-]*(?:\[[\w,]+\])?")
    asked = [name for line in lines for name in names.findall(line.partition("#")[0])]
    asked += [name for line in lines for name in re.findall(r"rag-denoise\[[\w,]+\]", line)]  # "or ..." as well
    todo, done = [Requirement(name) for name in asked], set()
    while todo:
        need = todo.pop()
        for extra in {"", *need.extras} - {e for n, e in done if n == need.name}:
            done.add((need.name, extra))
            needs = map(Requirement, metadata.requires(need.name) or ())
            todo += [n for n in needs if n.marker is None or n.marker.evaluate({"extra": extra})]
    return {canonicalize_name(name) for name, _ in done}


def hidden(page: str) -> set[str]:
    """Modules that are here, but not where only the page's lines were typed."""
    there = installed(page)
    found = metadata.packages_distributions()
    return {m for m, of in found.items() if not there & set(map(canonicalize_name, of))} - {"denoise_lab"}


# Some modules are not found, as if they were not installed; what a package carries in a folder of its own is.
HIDING = """
import site, sys
from importlib.machinery import PathFinder
class Seen(PathFinder):
    def find_spec(name, path=None, target=None):
        if path is None and name in HIDDEN:
            path = [p for p in sys.path if p not in site.getsitepackages()]
        return PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Seen
"""
RUNNING = """
import runpy
sys.argv = sys.argv[1:]
sys.path[0] = str(__import__("pathlib").Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def hiding_code(page: str) -> str:
    """Python that, run first, hides the modules that the ``pip install`` lines of ``page`` do not bring."""
    return f"HIDDEN = {sorted(hidden(page))!r}\n{HIDING}"


def result_of(script: str, folder: Path) -> str:
    """What ``script`` prints in ``folder``; raises `RuntimeError` with its last words when it fails."""
    return printed_by(script, HOW_TO / f"{script}.py", page_of(script), folder)


def printed_by(script: str, path: Path, page: Path, folder: Path) -> str:
    """What the file at ``path`` prints where what ``page`` says was installed."""
    with beside(script) as needed:
        paths = os.pathsep.join([*(p for p in sys.path if p), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-c", hiding_code(page.read_text("utf-8")) + RUNNING, str(path)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8", **needed},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{script}: {done.stderr[-2000:]}")
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())
