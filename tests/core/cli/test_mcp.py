"""``rag-denoise mcp`` as the protocol's own client meets it, in this process."""

import logging
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from denoise_core.cli.mcp import build_server
from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.testing import FunctionScorer

mcp = pytest.importorskip(
    "mcp", reason="mcp is not installed: the server for agents is not tested"
)
TEXTS = ["The tower is in Porto. It was built in 1894.", "Bread is cheap and good."]
QUESTION = "When was the tower built?"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "notes.md").write_text(
        "# Tower\n\nThe tower was built in 1894 by a clerk.\n"
    )
    (tmp_path / "secret.md").write_text("The tower opens with 4711.")
    (tmp_path / "in" / "link.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "in" / "loop.md").symlink_to("loop.md")
    return tmp_path / "in"


def build(*folders, denoiser=None):
    return build_server(denoiser or ENDDenoiser(BM25Scorer(), keep=1), None, folders)


async def call(client, tool, **arguments):
    """What a tool gives as structured content."""
    reply = await client.call_tool(tool, arguments)
    return reply.structured_content


async def refusal(client, tool, **arguments):
    """What a tool says that refuses."""
    reply = await client.call_tool(tool, arguments)
    assert reply.is_error
    return reply.content[0].text


async def check_kept(client, results, texts):
    """What is kept is in its place in the whole texts, which the server still knows."""
    assert results["passages"]
    for kept in results["passages"]:
        whole = await call(client, "recall", result=results["result"], id=kept["id"])
        text = whole["text"]
        assert text in texts
        parts = [text[span["start"] : span["end"]] for span in kept["spans"]]
        assert kept["text"] == "".join(parts)


async def test_the_three_tools_give_spans_as_structured_content(folder):
    async with mcp.Client(build(folder)) as client:
        tools = (await client.list_tools()).tools
        assert sorted(tool.name for tool in tools) == ["check", "denoise", "recall"]
        assert all(tool.description for tool in tools)
        results = await call(client, "denoise", question=QUESTION, passages=TEXTS)
        await check_kept(client, results, TEXTS[:1])
        (dropped,) = results["dropped"]
        recalled = await call(
            client, "recall", result=results["result"], id=dropped["id"]
        )
        assert recalled["text"] == TEXTS[1]
        answer = TEXTS[0].partition(". ")[2]
        verdict = await call(
            client, "check", answer=answer, sources=TEXTS, question=QUESTION
        )
        (claim,) = verdict["claims"]
        assert claim["text"] == answer
        assert verdict["outcome"] in ("supported", "unsupported", "unknown")
        for quote in claim["quotes"]:
            span = quote["span"]
            text = TEXTS[int(span["passage_id"])]
            assert text[span["start"] : span["end"]] == quote["text"]


async def test_files_are_read_below_the_folders_alone(folder):
    outside = folder.parent / "secret.md"
    second = folder.parent / "second"
    second.mkdir()
    (second / "link.md").write_text("The tower was built in 1894.")
    async with mcp.Client(build(folder, second)) as client:
        assert str(folder) in client.instructions
        for inside in (str(folder / "notes.md"), "notes.md", "link.md"):
            results = await call(client, "denoise", question=QUESTION, files=[inside])
            assert "1894" in results["passages"][0]["text"]
        for path in (
            "../secret.md",
            folder / "link.md",
            outside,
            folder / ".." / outside.name,
            "/etc/hostname",
        ):
            says = await refusal(client, "denoise", question="q", files=[str(path)])
            assert "not below a folder" in says
            assert "4711" not in says


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("denoise", {"question": QUESTION}, "expected 1 to 1000 passages"),
        (
            "denoise",
            {"question": QUESTION, "passages": ["a"] * 1001},
            "expected 1 to 1000 passages",
        ),
        ("denoise", {"question": "q", "passages": "abc"}, "should be a valid list"),
        (
            "denoise",
            {"question": "q", "files": ["notes.md", "bad.pdf"]},
            "files[1] cannot",
        ),
        *(
            ("denoise", {"question": "q", "files": [name]}, "files[0] cannot")
            for name in ("none.md", "loop.md", "", "x" * 5000, "a\0")
        ),
        ("recall", {"result": "none", "id": "0"}, "no such passage"),
        ("check", {"answer": "It is old."}, "expected 1 to 1000 passages"),
    ],
)
async def test_what_cannot_be_done_is_said(folder, tool, arguments, says):
    (folder / "bad.pdf").write_bytes(b"no pdf")
    async with mcp.Client(build(folder)) as client:
        refused = await refusal(client, tool, **arguments)
    assert says in refused
    assert "abc" not in refused


async def test_a_failure_says_and_logs_no_text(folder, caplog, capfd):
    caplog.set_level(logging.DEBUG, "denoise")

    def fail(query, text):
        raise OSError(f"{text} sk-live-5Zq8mYv2LkQ")

    async with mcp.Client(
        build(folder, denoiser=ENDDenoiser(FunctionScorer(fail)))
    ) as client:
        says = await refusal(client, "denoise", question="q", passages=["my diary"])
    assert says.endswith("failed: OSError")
    written = "".join(capfd.readouterr()) + caplog.text
    assert "diary" not in written
    assert "sk-live" not in written


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
async def test_a_pipe_is_refused_and_a_bad_file_is_named(folder):
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    (folder / "bad.pdf").write_bytes(b"no pdf")
    async with mcp.Client(build(folder)) as client:
        says = await refusal(client, "denoise", question=QUESTION, files=[str(pipe)])
        assert "cannot be read" in says
        files = [str(folder)]
        results = await call(client, "denoise", question=QUESTION, files=files)
    assert "bad.pdf" in str(results["warnings"])


@pytest.fixture
def url(folder):
    """The address of the command, which serves in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("rag-denoise")
    arguments = ["mcp", "--http", str(port), "--folder", str(folder)]
    with subprocess.Popen([program, *arguments], stderr=subprocess.DEVNULL) as running:
        while running.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
        running.terminate()


@pytest.mark.enable_socket
async def test_the_command_serves_over_http(folder, url):
    files = [str(folder / "notes.md")]
    async with mcp.Client(url) as client:
        results = await call(client, "denoise", question=QUESTION, files=files)
        await check_kept(client, results, [(folder / "notes.md").read_text()])
