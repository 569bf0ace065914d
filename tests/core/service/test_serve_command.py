"""``rag-denoise serve`` as a process: it ends after what is under way, and says what it cannot serve."""

import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.enable_socket

COMMAND = Path(sys.executable).with_name("rag-denoise")


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_and_ends_after_what_is_under_way(by):
    with subprocess.Popen(
        [COMMAND, "serve", "--port", "0", "--cache-bytes", "10000"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:
        said = ""
        while not (
            found := re.search(r"serving 'end' at (http://127\.0\.0\.1:\d+)/", said)
        ):
            line = running.stderr.readline()
            assert line, said
            said += line
        metrics = httpx.get(found[1] + "/metrics", timeout=60).text
        bounds = re.findall(r'is_limit="yes"} (\S+)', metrics)
        assert {float(bound) for bound in bounds} == {10_000.0}
        answered = []
        texts = [f"The tower {i} is in Porto, and a secret. " * 8 for i in range(60)]

        def ask():
            body = {"query": "Where is the tower?", "passages": texts}
            answered.append(
                httpx.post(found[1] + "/v1/denoise", json=body, timeout=60).json()
            )

        thread = threading.Thread(target=ask)
        thread.start()
        while not httpx.get(found[1] + "/livez", timeout=60).json()["working"]:
            time.sleep(0.01)
        running.send_signal(by)
        thread.join()
        said += running.stderr.read()
    assert answered[0]["passages"]
    assert said.endswith("closed\n")
    assert running.returncode == 0
    assert "secret" not in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        (["--port", "70000"], "--port"),
        (["--keys", "no/keys.toml"], "no/keys.toml"),
        (["--denoiser", "missing/folder"], "missing/folder"),
        (["--method", "s2a-select"], "--method"),
    ],
)
def test_what_cannot_be_served_is_said(arguments, says):
    found = subprocess.run(
        [COMMAND, "serve", "--port", "0", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode != 0
    assert says in found.stderr
    assert "Traceback" not in found.stderr
