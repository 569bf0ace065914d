"""A real engine in processes of its own, while a block runs."""

from __future__ import annotations

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
        command = [str(python), "-m", SERVER, "--model", str(folder)]
        command += ["--runner", "pooling", "--dtype", "float32"]
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
        shown = "\n".join(lines[-40:])
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
        # All processes of the engine are of the session that it began.
        command = ["pgrep", "--session", str(self._process.pid), "Engine"]
        process_ids = subprocess.run(
            command, capture_output=True, text=True, check=True
        )
        for process_id in process_ids.stdout.split():
            os.kill(int(process_id), signal.SIGKILL)


def versions(python: Path) -> str:
    """Return the versions of the engine and of what it computes with."""
    command = [str(python), "-m", "pip", "freeze"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    names = ("vllm", "torch==", "transformers==")
    lines = [line for line in listed.stdout.splitlines() if line.startswith(names)]
    return ", ".join(lines)
