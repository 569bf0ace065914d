"""``rag-denoise mcp``: denoise, recall and check over the Model Context Protocol."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from denoise_core._optional import require
from denoise_core.cli.check import judge_from_option, verdict_json
from denoise_core.cli.options import LLMOption, app
from denoise_core.cli.read import read_passages
from denoise_core.cli.run import build_denoiser
from denoise_core.errors import InputError
from denoise_core.protocols import Denoiser
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.support.check import check
from denoise_core.support.judging import Judge
from denoise_core.types import Passage, unique_ids
from denoise_core.weighted_cache import WeightedLRUCache

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
    folder: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="A folder whose files may be read; repeat it for more.",
        ),
    ] = None,
    llm: LLMOption = None,
) -> None:
    """Offer denoising to agents over the Model Context Protocol: denoise, recall and check."""
    judge = judge_from_option(llm)
    mcp_server = build_server(build_denoiser("end"), judge, folder or [])
    if http is None:
        mcp_server.run("stdio")
        return
    mcp_server.run(
        "streamable-http",
        host="127.0.0.1",
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
    tool_class = require("mcp.server.mcpserver.tools", extra="mcp").Tool
    functions = _ServerTools(denoiser, judge, folders)
    tools = []
    for function in (functions.denoise, functions.recall, functions.check):
        tool = tool_class.from_function(function)
        arguments_class = tool.fn_metadata.arg_model
        arguments_class.model_config["hide_input_in_errors"] = True
        arguments_class.model_rebuild(force=True)
        tools.append(tool)
    folder_names = ", ".join(map(str, functions.folders)) or "no folder"
    instructions = f"{_INSTRUCTIONS} Files are read below {folder_names}."
    # Its log would quote the text that it gets.
    return server_class(
        "rag-denoise", instructions=instructions, tools=tools, log_level="CRITICAL"
    )


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
        self.folders = [folder.resolve(strict=True) for folder in folders]
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

        def run_denoiser() -> dict[str, Any]:
            inputs, warnings = self._load_passages(passages, files)
            result = self._denoiser.denoise(question, tuple(inputs.values()))
            call_id = uuid.uuid4().hex[:12]
            self._recent_calls.put(call_id, inputs)
            return {"result": call_id, **result.as_json(), "warnings": warnings}

        return await self._run(run_denoiser)

    async def recall(self, result: str, id: str) -> dict[str, Any]:
        """A passage of an earlier ``denoise`` as it came."""
        passage = (self._recent_calls.get(result) or {}).get(id)
        if passage is None:
            raise self._tool_error(
                "no such passage: expected a recent result of denoise, and an id of its "
                "spans"
            )
        return {"id": id, "text": passage.text}

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
            sources_read = tuple(inputs.values())
            verdict = check(question, answer, sources_read, judge=self._judge)
            return {**verdict_json(verdict), "warnings": warnings}

        return await self._run(run_check)

    async def _run(self, function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return await run_in_pool(function)
        except self._tool_error:
            raise
        except Exception as error:  # its text may contain the user's
            raise self._tool_error(f"failed: {type(error).__name__}") from None

    def _load_passages(
        self, texts: Sequence[str], files: Sequence[str], visible_text: bool = False
    ) -> tuple[dict[str, Passage], list[str]]:
        """Return passages of texts and files by id, and what was left out of these."""
        passages = [Passage(text, str(index)) for index, text in enumerate(texts)]
        warnings: list[str] = []
        for index, file in enumerate(files):
            try:
                path = self._find_file(index, file)
                loaded = read_passages(str(path), visible_text=visible_text)
            except ValueError:  # as `InputError` is
                raise self._tool_error(f"files[{index}] cannot be read") from None
            passages += loaded.passages
            warnings += loaded.warnings
        ids = unique_ids([input_passage.id for input_passage in passages])
        by_id = {
            passage_id: replace(passage, id=passage_id)
            for passage, passage_id in zip(passages, ids, strict=True)
        }
        characters = _count_characters(by_id)
        if not 1 <= len(by_id) <= MAX_PASSAGES or characters > MAX_CHARACTERS:
            raise self._tool_error(
                f"expected 1 to {MAX_PASSAGES} passages of {MAX_CHARACTERS:,} "
                "characters in all"
            )
        return by_id, warnings

    def _find_file(self, index: int, file: str) -> Path:
        """Return the path of a file that may be read; a relative one is of a folder.

        Raises `ValueError` where there is none that can be read.
        """
        bases = [*self.folders, Path()]  # an absolute path stays itself below any
        paths = [Path(os.path.realpath(base / file)) for base in bases]
        allowed_paths = [
            path for path in paths if any(map(path.is_relative_to, self.folders))
        ]
        if not allowed_paths:
            raise self._tool_error(
                f"files[{index}] is not below a folder that may be read (--folder)"
            )
        for path in allowed_paths:
            # A pipe would wait, and no name at all would be the folder itself.
            if file and (os.path.isfile(path) or os.path.isdir(path)):
                return path
        raise InputError(f"no such file: {file!r}")
