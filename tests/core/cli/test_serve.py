"""``rag-denoise serve`` as a user types it: it says where it is, serves, and ends with Ctrl-C."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tiny_llm import tiny_llm

pytestmark = pytest.mark.enable_socket

COMMAND = Path(sys.executable).with_name("rag-denoise")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny"
    llm = tiny_llm()
    llm.model.save_pretrained(path)
    llm.tokenizer.save_pretrained(path)
    return path


def test_it_serves_a_folder_until_it_is_interrupted(folder):
    with subprocess.Popen(
        [COMMAND, "serve", folder, "--port", "0", "--max-tokens", "3"],
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests run as a shell's background job, interrupts are ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:
        said = ""
        while not (found := re.search(r"serving 'tiny' at (http://127\.0\.0\.1:\d+/v1) ", said)):
            line = running.stderr.readline()
            assert line, said  # it has ended
            said += line
        asked = {"model": "tiny", "messages": [{"role": "user", "content": "a secret"}]}
        request = urllib.request.Request(
            f"{found[1]}/chat/completions", json.dumps(asked).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            assert json.load(response)["usage"]["completion_tokens"] == 3
        running.send_signal(signal.SIGINT)
        said += running.stderr.read()
    assert running.returncode == 0
    assert "200 POST" in said
    assert "closed" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing/folder"], "cannot load 'missing/folder'"),
        (["--host", "no.such.host.invalid", "{folder}"], "cannot listen on no.such.host.invalid"),
        (["--port", "70000", "{folder}"], "--port"),
        (["--name", " ", "{folder}"], "name is empty"),
    ],
)
def test_what_cannot_be_served_is_said(folder, arguments, says):
    given = [a.replace("{folder}", str(folder)) for a in arguments]
    done = subprocess.run([COMMAND, "serve", *given], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in done.stderr
