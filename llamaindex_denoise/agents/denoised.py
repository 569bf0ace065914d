"""`denoised`: tools of an agent whose results come without the noise."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import TextBlock
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolOutput
from llama_index.core.tools.types import BaseTool, ToolMetadata, adapt_to_async_tool
from llama_index.core.workflow import Context

from denoise_core import Denoiser, Guard, InputError
from denoise_core.end.results import for_tool_results
from denoise_core.runtime.guard import FailurePolicy
from denoise_core.tool_results import (
    EMPTY_RESULT_TEXT,
    OMITTED_STATE_KEY,
    RECALL_TOOL,
    build_query,
    omission_notice,
    query_from_arguments,
    read_result,
    recall_text,
)


def denoised(
    tools: Sequence[BaseTool],
    denoiser: Denoiser | None = None,
    *,
    recall: bool = False,
    on_error: FailurePolicy = "keep",
) -> list[AsyncBaseTool]:
    """Copies of an agent's tools that give what helps with the user's message and the words of the call.

        FunctionAgent(tools=denoised([search], recall=True), llm=llm)

    Texts are cut by their structure and written back in the same shape; JSON stays JSON, images stay, and so do
    errors and ``raw_output``. ``denoiser`` is any of the core's, None the embedded default, which leaves three
    eighths of 1,000 characters or more. With ``recall`` the ids and first words of what was cut out stand at the
    end, the text in the agent's state and never in the prompt, and the last of the tools is ``recall(id)``. A
    CodeActAgent takes no such tools, which need a context. Raises `InputError` for what is no tool.
    """
    if isinstance(tools, BaseTool) or not all(isinstance(t, BaseTool) for t in tools):
        raise InputError(
            "tools: expected a list of tools, such as [FunctionTool.from_defaults(search)]"
        )
    if denoiser is None:
        from denoise_core.embedded import default_denoiser

        denoiser = default_denoiser()
    names = [t.metadata.get_name() for t in tools]
    if len({*names, RECALL_TOOL}) <= len(names):
        raise InputError(
            f"tools={names}: expected each name once, and none called {RECALL_TOOL!r}"
        )
    made: list[AsyncBaseTool] = [
        DenoisedTool(t, denoiser, recall, on_error) for t in tools
    ]
    return [*made, RecallTool()] if recall else made


class ContextTool(FunctionTool):
    """A tool that is given the agent's context."""

    def __init__(self, metadata: ToolMetadata) -> None:
        super().__init__(async_fn=self.acall, metadata=metadata)
        self.requires_context, self.ctx_param_name = True, "ctx"


class DenoisedTool(ContextTool):
    """A tool of which an agent reads what helps with its question."""

    def __init__(
        self, tool: BaseTool, denoiser: Denoiser, recall: bool, on_error: FailurePolicy
    ) -> None:
        super().__init__(tool.metadata)
        self.tool, self.recall = adapt_to_async_tool(tool), recall
        self.denoiser = Guard(
            denoiser, on_error=on_error
        ).denoiser  # raises for what is none
        self.on_error: FailurePolicy = on_error

    async def acall(
        self, *args: Any, ctx: Context | None = None, **arguments: Any
    ) -> ToolOutput:
        of = self.tool
        given: dict[str, Any] = dict(arguments)
        if isinstance(of, FunctionTool) and of.ctx_param_name:
            given[of.ctx_param_name] = ctx
        output = await of.acall(*args, **given)
        blocks = list(output.blocks)
        at = [
            n
            for n, b in enumerate(blocks)
            if isinstance(b, TextBlock) and b.text.strip()
        ]
        if ctx is None or output.is_error or not at:
            return output
        texts = [b.text for b in blocks if isinstance(b, TextBlock) and b.text.strip()]
        digest = hashlib.sha256(
            "\n".join(texts).encode("utf-8", "surrogatepass")
        ).hexdigest()
        read = read_result(texts, name=f"{digest[:8]}-")
        query = build_query(
            await ctx.store.get("user_msg_str", default="") or "",
            query_from_arguments(arguments),
        )
        guard = Guard(
            for_tool_results(self.denoiser, read.passages), on_error=self.on_error
        )
        found = await guard.adenoise(query, read.passages)
        for n, text in zip(at, read.restore(found), strict=True):
            blocks[n] = TextBlock(text=text)
        blocks = [
            b for b in blocks if not isinstance(b, TextBlock) or b.text.strip()
        ] or [TextBlock(text=EMPTY_RESULT_TEXT)]
        gone = read.omitted_texts(found) if self.recall else ()
        for part in gone:
            await ctx.store.set(f"{OMITTED_STATE_KEY}.{part.id}", part.text)
        said = [TextBlock(text=omission_notice(gone))] if gone else []
        return output.model_copy(update={"blocks": [*blocks, *said]})


class RecallTool(ContextTool):
    """Gives back what a `DenoisedTool` left out."""

    def __init__(self) -> None:
        def recall(id: str) -> str:
            """Gives back a part of a tool's result that was left out, by the id that stands at the end of it."""
            return id

        super().__init__(FunctionTool.from_defaults(recall).metadata)

    async def acall(
        self, *args: Any, ctx: Context | None = None, **arguments: Any
    ) -> ToolOutput:
        kept = {} if ctx is None else await ctx.store.get(OMITTED_STATE_KEY, default={})
        text = recall_text(kept, str(arguments.get("id", *args)))
        return ToolOutput(
            content=text, tool_name=RECALL_TOOL, raw_input=arguments, raw_output=text
        )
