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
from command_line import python_output
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
    line = "serve --port 0 --cache-bytes 10000 --access-log"
    with (
        subprocess.Popen(
            [COMMAND, *line.split()],
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


def test_a_request_that_takes_all_its_time_is_finished_at_the_end():
    program = (
        "import uvicorn; from denoise_core.cli import main; uvicorn.Server.run = "
        "lambda server, sockets: print(server.config.timeout_graceful_shutdown); main()"
    )
    line = "serve --port 0 --timeout 90 --body-timeout 20"
    assert float(python_output("-c", program, *line.split())) >= 110


def test_it_answers_to_this_machine_and_to_the_names_it_was_given():
    program = (
        "import uvicorn; from starlette.testclient import TestClient as Client; "
        "from denoise_core.cli import main; uvicorn.Server.run = lambda server, "
        "sockets: [print(Client(server.config.app, f'http://{host}').get('/livez')"
        ".status_code) for host in ('localhost', 'a.internal', '10.1.2.3')]; main()"
    )
    line = ["serve", "--host=0.0.0.0", "--port=0", "--name=a.internal"]
    assert python_output("-c", program, *line) == "200\n200\n400\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--host no.such.host.invalid", "cannot listen on no.such.host.invalid"),
        ("--keys no/keys.toml", "no/keys.toml"),
        ("--denoiser missing/folder", "missing/folder"),
    ],
)
def test_what_cannot_be_served_is_said(arguments, says):
    asked = CliRunner().invoke(load_app("serve"), f"serve --port 0 {arguments}")
    assert asked.exit_code != 0
    assert says in f"{asked.output} {asked.exception}"
    assert isinstance(asked.exception, (InputError, SystemExit))
