"""``rag-denoise serve`` as a process: it ends after what is under way, and says what it cannot serve."""

import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from denoise_core import InputError
from denoise_core.cli import load_app

pytestmark = pytest.mark.enable_socket

COMMAND = Path(sys.executable).with_name("rag-denoise")
SECRET_TEXT = "The tower {} is in Porto, and a secret. " * 8
TEXTS = [SECRET_TEXT.replace("{}", str(i)) for i in range(60)]
BODY = {"query": "Where is the tower?", "passages": TEXTS}


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_and_ends_after_what_is_under_way(by):
    options = ["--port", "0", "--cache-bytes", "10000", "--access-log"]
    with (
        subprocess.Popen(
            [COMMAND, "serve", *options],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as running,
        ThreadPoolExecutor() as pool,
    ):
        said = running.stderr.readline()
        found = re.search(r"serving 'end' at (http://127\.0\.0\.1:\d+)/", said)
        assert found, said + running.stderr.read()
        with httpx.Client(base_url=found[1], timeout=60) as client:
            metrics = client.get("/metrics").text
            bounds = re.findall(r'is_limit="yes"} (\S+)', metrics)
            assert {float(bound) for bound in bounds} == {10_000.0}
            asked = pool.submit(client.post, "/v1/denoise", json=BODY)
            while not client.get("/livez").json()["working"]:
                time.sleep(0.01)
            running.send_signal(by)
            assert asked.result().json()["passages"]
        said = running.stderr.read()
    assert said.endswith("closed\n")
    assert "- POST /v1/denoise 200 " in said
    assert running.returncode == 0
    assert "secret" not in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        (["--port", "70000"], "--port"),
        (["--keys", "no/keys.toml"], "no/keys.toml"),
        (["--denoiser", "missing/folder"], "missing/folder"),
    ],
)
def test_what_cannot_be_served_is_said(arguments, says):
    command = ["serve", "--port", "0", *arguments]
    asked = CliRunner().invoke(load_app("serve"), command)
    assert asked.exit_code != 0
    assert says in f"{asked.output} {asked.exception}"
    assert isinstance(asked.exception, (InputError, SystemExit))
