"""``rag-denoise mcp``: denoise, recall and check over the Model Context Protocol."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from denoise_core._optional import require
from denoise_core.cli.check import judge_from_option, verdict_json
from denoise_core.cli.options import JudgeOption, KeepOption, app
from denoise_core.cli.read import read_passages
from denoise_core.cli.run import build_denoiser
from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.support.check import check
from denoise_core.support.judging import Judge
from denoise_core.types import Passage, unique_ids
from denoise_core.weighted_cache import WeightedLRUCache

ResultT = TypeVar("ResultT")

MAX_PASSAGES = 1000  # of one call
MAX_CHARACTERS = 4_000_000  # of one call
REMEMBERED_CHARACTERS = 10_000_000  # of passages that `recall` can return
_INSTRUCTIONS = (
    "Takes out what does not help to answer a question before you read it, and "
    "checks answers against sources."
)


@app.command()
def mcp(
    http: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="The port for HTTP; without it, standard input and output.",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on; 127.0.0.1 is reached from this machine only."
        ),
    ] = "127.0.0.1",
    folder: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="A folder whose files may be read; repeat it for more.",
        ),
    ] = None,
    keep: KeepOption = None,
    llm: JudgeOption = None,
) -> None:
    """Offer denoising to agents over the Model Context Protocol: denoise, recall and check."""
    denoiser = build_denoiser("end", keep)
    mcp_server = build_server(denoiser, judge_from_option(llm), folder or [])
    if http is None:
        mcp_server.run("stdio")
        return
    mcp_server.run(
        "streamable-http",
        host=host,
        port=http,
        stateless_http=True,
        json_response=True,
    )


def build_server(
    denoiser: Denoiser, judge: Judge | None, folders: Sequence[Path] = ()
) -> Any:
    """Return the server with its three tools; needs the extra ``mcp``.

    Errors of the tools never quote the text that they got.

    Args:
        denoiser: What ``denoise`` runs.
        judge: What ``check`` runs; None compares by code alone.
        folders: Files are read below these folders alone.
    """
    server_class = require("mcp.server", extra="mcp").MCPServer
    tools = _ServerTools(denoiser, judge, folders)
    # Its log would quote the text that it gets.
    mcp_server = server_class(
        "rag-denoise", instructions=_INSTRUCTIONS, log_level="CRITICAL"
    )
    mcp_server.add_tool(tools.denoise, name="denoise")
    mcp_server.add_tool(tools.recall, name="recall")
    mcp_server.add_tool(tools.check, name="check")
    return mcp_server


def _count_characters(passages: dict[str, Passage]) -> int:
    return sum(len(passage.text) for passage in passages.values())


class _ServerTools:
    """The tools; their docstrings and parameters are what an agent reads."""

    def __init__(
        self, denoiser: Denoiser, judge: Judge | None, folders: Sequence[Path]
    ) -> None:
        exceptions = require("mcp.server.mcpserver.exceptions", extra="mcp")
        self._tool_error: type[Exception] = exceptions.ToolError
        self._denoiser = denoiser
        self._judge = judge
        self._folders = [folder.resolve(strict=True) for folder in folders]
        self._recent_calls: WeightedLRUCache[str, dict[str, Passage]] = (
            WeightedLRUCache(REMEMBERED_CHARACTERS, _count_characters)
        )

    async def denoise(
        self,
        question: str,
        passages: list[str] = [],  # noqa: B006
        files: list[str] = [],  # noqa: B006
    ) -> dict[str, Any]:
        """What of the passages, and of the files, helps to answer the question: texts with the characters
        [start, end) where they are in their passage, and what was dropped with its reason. ``recall`` gives back
        any of it.
        """

        def run_denoiser() -> tuple[tuple[Passage, ...], dict[str, Any]]:
            inputs, warnings = self._load_passages(passages, files)
            result = self._denoiser.denoise(question, inputs).as_json()
            return inputs, {**result, "warnings": warnings}

        inputs, result = await self._run(run_denoiser)
        call_id = uuid.uuid4().hex[:12]
        by_id = {input_passage.id: input_passage for input_passage in inputs}
        self._recent_calls.put(call_id, by_id)
        return {"result": call_id, **result}

    async def recall(
        self, result: str, id: str, start: int = 0, end: int | None = None
    ) -> dict[str, Any]:
        """A passage of an earlier ``denoise`` as it came, or its characters [start, end)."""
        input_passage = (self._recent_calls.get(result) or {}).get(id)
        if input_passage is None:
            raise self._tool_error(
                "no such passage: expected a recent result of denoise, and an id of its "
                "spans"
            )
        text_length = len(input_passage.text)
        last = text_length if end is None else min(end, text_length)
        if not 0 <= start <= last:
            raise self._tool_error(f"expected characters within 0 and {text_length}")
        return {
            "id": id,
            "start": start,
            "end": last,
            "text": input_passage.text[start:last],
        }

    async def check(
        self,
        answer: str,
        sources: list[str] = [],  # noqa: B006
        files: list[str] = [],  # noqa: B006
        question: str = "",
    ) -> dict[str, Any]:
        """Whether the sources, and the files, support the answer: each claim with its verdict and the quotes on
        which that rests, as characters [start, end) of the answer and of a source. Unknown is said.
        """

        def run_check() -> dict[str, Any]:
            inputs, warnings = self._load_passages(sources, files, visible_text=True)
            verdict = check(question, answer, inputs, judge=self._judge)
            return {**verdict_json(verdict, inputs), "warnings": warnings}

        return await self._run(run_check)

    async def _run(self, function: Callable[[], ResultT]) -> ResultT:
        try:
            return await run_in_pool(function)
        except self._tool_error:
            raise
        except Exception as error:  # its text may contain the user's
            raise self._tool_error(f"failed: {type(error).__name__}") from None

    def _load_passages(
        self, texts: Sequence[str], files: Sequence[str], visible_text: bool = False
    ) -> tuple[tuple[Passage, ...], list[str]]:
        """Return the passages of texts and files, and what was left out of these."""
        passages = [Passage(text, str(index)) for index, text in enumerate(texts)]
        warnings: list[str] = []
        for index, file in enumerate(files):
            file_path = Path(file).resolve()
            if not any(file_path.is_relative_to(folder) for folder in self._folders):
                raise self._tool_error(
                    f"files[{index}] is not below a folder that may be read (--folder)"
                )
            is_readable = file_path.is_file() or file_path.is_dir()  # a pipe would wait
            try:
                if not is_readable:
                    raise InputError(f"{file_path} is no file")
                loaded = read_passages(str(file_path), visible_text=visible_text)
            except InputError:
                raise self._tool_error(f"files[{index}] cannot be read") from None
            passages += loaded.passages
            warnings += loaded.warnings
        ids = unique_ids([input_passage.id for input_passage in passages])
        passages = [replace(p, id=id) for p, id in zip(passages, ids, strict=True)]
        total_characters = sum(len(input_passage.text) for input_passage in passages)
        if not 1 <= len(passages) <= MAX_PASSAGES or total_characters > MAX_CHARACTERS:
            raise self._tool_error(
                f"expected 1 to {MAX_PASSAGES} passages of {MAX_CHARACTERS:,} "
                "characters in all"
            )
        return tuple(passages), warnings
