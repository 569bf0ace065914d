"""``rag-denoise mcp``: denoise, recall and check for agents, over the Model Context Protocol."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from cachetools import LRUCache

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
from denoise_core.types import Passage

T = TypeVar("T")
MAX_PASSAGES, MAX_CHARACTERS = 1000, 4_000_000  # of one call
REMEMBERED_CALLS = 32  # calls whose passages `recall` still knows
_ABOUT = "Takes out what does not help to answer a question before you read it, and checks answers against sources."


@app.command()
def mcp(
    http: Annotated[
        int | None, typer.Option(min=0, max=65535, help="A port for HTTP, else stdio.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="127.0.0.1 is for this machine only.")
    ] = "127.0.0.1",
    folder: Annotated[
        list[Path] | None,
        typer.Option(help="Files below it may be read; again for more."),
    ] = None,
    keep: KeepOption = None,
    llm: JudgeOption = None,
) -> None:
    """Offer denoising to agents over the Model Context Protocol: denoise, recall and check."""
    made = build_server(
        build_denoiser("end", keep), judge_from_option(llm), folder or []
    )
    if http is None:
        made.run("stdio")
    else:
        made.run(
            "streamable-http",
            host=host,
            port=http,
            stateless_http=True,
            json_response=True,
        )


def build_server(
    denoiser: Denoiser, judge: Judge | None, folders: Sequence[Path] = ()
) -> Any:
    """The server with its three tools. Files are read below ``folders`` alone. Needs the extra ``mcp``.

    What a tool cannot do is said in its result, without a word of the text it was given.
    """
    given = require("mcp.server", extra="mcp")
    wrong = require("mcp.server.mcpserver.exceptions", extra="mcp").ToolError
    allowed = [f.resolve(strict=True) for f in folders]
    known: LRUCache[str, dict[str, Passage]] = LRUCache(REMEMBERED_CALLS)
    silent = {"log_level": "CRITICAL"}  # its log quotes what was given
    made = given.MCPServer("rag-denoise", instructions=_ABOUT, **silent)

    def passages_of(
        passages: Sequence[str], files: Sequence[str]
    ) -> tuple[Passage, ...]:
        found = [Passage(text, str(n)) for n, text in enumerate(passages)]
        for n, file in enumerate(files):
            path = Path(file).resolve()
            if not any(path.is_relative_to(folder) for folder in allowed):
                raise wrong(
                    f"files[{n}] is not below a folder that may be read (--folder)"
                )
            try:
                found += read_passages(str(path)).passages
            except InputError:
                raise wrong(f"files[{n}] cannot be read") from None
        if len({p.id for p in found}) < len(found):
            found = [
                Passage(p.text, f"{n}-{p.id}", metadata=p.metadata)
                for n, p in enumerate(found)
            ]
        size = sum(len(p.text) for p in found)
        if not found or len(found) > MAX_PASSAGES or size > MAX_CHARACTERS:
            raise wrong(
                f"expected 1 to {MAX_PASSAGES} passages of {MAX_CHARACTERS:,} characters in all"
            )
        return tuple(found)

    async def done(call: Callable[[], T]) -> T:
        try:
            return await run_in_pool(call)
        except wrong:
            raise
        except Exception as error:  # its text may be the user's
            raise wrong(f"failed: {type(error).__name__}") from None

    async def denoise(
        question: str, passages: list[str] = [], files: list[str] = []
    ) -> dict[str, Any]:  # noqa: B006
        """What of the passages, and of the files, helps to answer the question: texts with the characters
        [start, end) where they stand in their passage, and what was dropped with its reason. ``recall`` gives back
        any of it."""

        def call() -> tuple[tuple[Passage, ...], dict[str, Any]]:
            some = passages_of(passages, files)
            return some, denoiser.denoise(question, some).as_json()

        some, found = await done(call)
        name = uuid.uuid4().hex[:12]
        known[name] = {p.id: p for p in some}
        return {"result": name, **found}

    async def recall(
        result: str, id: str, start: int = 0, end: int | None = None
    ) -> dict[str, Any]:
        """A passage of an earlier ``denoise`` as it came, or its characters [start, end)."""
        passages = known.get(result)
        passage = passages.get(id) if passages is not None else None
        if passage is None:
            raise wrong(
                "no such passage: expected a result of denoise, not too long ago, and an id of its spans"
            )
        last = len(passage.text) if end is None else min(end, len(passage.text))
        if not 0 <= start <= last:
            raise wrong(f"expected characters within 0 and {len(passage.text)}")
        return {"id": id, "start": start, "end": last, "text": passage.text[start:last]}

    async def checked(
        answer: str,
        sources: list[str] = [],  # noqa: B006
        files: list[str] = [],  # noqa: B006
        question: str = "",
    ) -> dict[str, Any]:
        """Whether the sources, and the files, support the answer: each claim with its verdict and the quotes on
        which that rests, as characters [start, end) of the answer and of a source. Unknown is said."""

        def call() -> dict[str, Any]:
            some = passages_of(sources, files)
            return verdict_json(check(question, answer, some, judge=judge), some)

        return await done(call)

    for tool, name in ((denoise, "denoise"), (recall, "recall"), (checked, "check")):
        made.add_tool(tool, name=name)
    return made
