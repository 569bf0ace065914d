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
    return tmp_path / "in"


def built(folder, denoiser=None):
    return build_server(denoiser or ENDDenoiser(BM25Scorer(), keep=1), None, [folder])


async def test_the_three_tools_give_spans_as_structured_content(folder):
    async with mcp.Client(built(folder)) as client:
        tools = {t.name: t for t in (await client.list_tools()).tools}
        assert sorted(tools) == ["check", "denoise", "recall"]
        assert all(t.description for t in tools.values())
        results = (
            await client.call_tool("denoise", {"question": QUESTION, "passages": TEXTS})
        ).structured_content
        (remaining_steps,) = results["passages"]
        assert all(
            remaining_steps["text"] == TEXTS[int(s["id"])][s["start"] : s["end"]]
            for s in remaining_steps["spans"]
        )
        (dropped,) = results["dropped"]
        seen_prompts = {
            "result": results["result"],
            "id": dropped["id"],
            "start": dropped["start"],
            "end": dropped["end"],
        }
        assert (await client.call_tool("recall", seen_prompts)).structured_content[
            "text"
        ] == TEXTS[1]
        full_answer = {"result": results["result"], "id": "0"}
        assert (await client.call_tool("recall", full_answer)).structured_content[
            "text"
        ] == TEXTS[0]
        seen_prompts = {
            "answer": "The tower was built in 1894.",
            "sources": TEXTS,
            "question": QUESTION,
        }
        reply_text = (await client.call_tool("check", seen_prompts)).structured_content
        assert reply_text["claims"][0]["text"] == "The tower was built in 1894."
        assert reply_text["outcome"] in ("supported", "unsupported", "unknown")
        for quote in reply_text["claims"][0]["quotes"]:
            assert (
                TEXTS[int(quote["file"])][quote["start"] : quote["end"]]
                == quote["text"]
            )


async def test_files_are_read_below_the_folders_alone(folder):
    async with mcp.Client(built(folder)) as client:
        seen_prompts = {"question": QUESTION, "files": [str(folder / "notes.md")]}
        results = (await client.call_tool("denoise", seen_prompts)).structured_content
        assert "1894" in results["passages"][0]["text"]
        for path in (
            folder / "link.md",
            folder.parent / "secret.md",
            folder / ".." / "secret.md",
            "/etc/hostname",
        ):
            reply = await client.call_tool(
                "denoise", {"question": QUESTION, "files": [str(path)]}
            )
            assert reply.is_error
            assert "not below a folder" in reply.content[0].text
            assert "4711" not in reply.content[0].text


@pytest.mark.parametrize(
    ("tool", "seen_prompts", "says"),
    [
        ("denoise", {"question": QUESTION}, "expected 1 to 1000 passages"),
        (
            "denoise",
            {"question": QUESTION, "passages": ["a"] * 1001},
            "expected 1 to 1000 passages",
        ),
        ("recall", {"result": "none", "id": "0"}, "no such passage"),
        ("check", {"answer": "It is old."}, "expected 1 to 1000 passages"),
    ],
)
async def test_what_cannot_be_done_is_said(folder, tool, seen_prompts, says):
    async with mcp.Client(built(folder)) as client:
        reply = await client.call_tool(tool, seen_prompts)
        assert reply.is_error
        assert says in reply.content[0].text


async def test_a_failure_says_and_logs_no_text(folder, caplog, capfd):
    caplog.set_level(logging.DEBUG, "denoise")

    def fails(query, text):
        raise OSError(f"{text} sk-live-5Zq8mYv2LkQ")

    async with mcp.Client(built(folder, ENDDenoiser(FunctionScorer(fails)))) as client:
        reply = await client.call_tool(
            "denoise", {"question": QUESTION, "passages": ["my diary"]}
        )
        assert reply.is_error
        assert reply.content[0].text.endswith("failed: OSError")
    seen_events = "".join(capfd.readouterr()) + caplog.text
    assert "diary" not in seen_events
    assert "sk-live" not in seen_events


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
async def test_a_pipe_is_refused_and_a_bad_file_is_named(folder):
    os.mkfifo(folder / "pipe")
    (folder / "bad.pdf").write_bytes(b"no pdf")
    async with mcp.Client(built(folder)) as client:
        arguments = {"question": QUESTION, "files": [str(folder / "pipe")]}
        reply = await client.call_tool("denoise", arguments)
        assert reply.is_error
        assert "cannot be read" in reply.content[0].text
        arguments = {"question": QUESTION, "files": [str(folder)]}
        reply = await client.call_tool("denoise", arguments)
        (warning,) = reply.structured_content["warnings"]
        assert "bad.pdf" in warning


@pytest.fixture
def url(folder):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        Path(sys.executable).with_name("rag-denoise"),
        "mcp",
        "--http",
        str(port),
        "--folder",
        str(folder),
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
        while running.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
        running.terminate()


@pytest.mark.enable_socket
async def test_the_command_serves_over_http(folder, url):
    async with mcp.Client(url) as client:
        seen_prompts = {
            "question": QUESTION,
            "passages": TEXTS,
            "files": [str(folder / "notes.md")],
        }
        results = (await client.call_tool("denoise", seen_prompts)).structured_content
        assert results["passages"]
        for remaining_steps in results["passages"]:
            seen_prompts = {"result": results["result"], "id": remaining_steps["id"]}
            text = (await client.call_tool("recall", seen_prompts)).structured_content[
                "text"
            ]
            assert remaining_steps["text"] == "".join(
                text[s["start"] : s["end"]] for s in remaining_steps["spans"]
            )
