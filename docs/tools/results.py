"""What the scripts of ``docs/how_to`` print, each in a process of its own, with what it needs beside it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
        from denoise_lab import FOLDER

        yield {"MODEL": str(FOLDER)}
    else:
        yield {}


def result_of(script: str, folder: Path) -> str:
    """What ``script`` prints in ``folder``; raises `RuntimeError` with its last words when it fails."""
    with beside(script) as needed:
        paths = os.pathsep.join([*(p for p in sys.path if p), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, str(HOW_TO / f"{script}.py")],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8", **needed},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{script}: {done.stderr[-2000:]}")
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())
