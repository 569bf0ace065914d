"""`denoised`: agent tools whose results contain only what helps."""

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
    """Return copies of an agent's tools whose results are denoised.

        FunctionAgent(tools=denoised([search], recall=True), llm=llm)

    The query is the user's message with the arguments of the call. Texts are cut by
    their structure and keep their shape: JSON stays JSON. Images, errors and
    ``raw_output`` are not changed.

    Args:
        tools: The tools. A CodeActAgent cannot use the copies, which need a context.
        denoiser: Any denoiser; None is the embedded default, which keeps three eighths
            of a text of 1,000 characters or more.
        recall: Whether to append the ids and first words of what was removed, and a
            tool ``recall(id)``. The removed text is in the agent's state and never in
            the prompt.
        on_error: What a failure returns.

    Raises:
        InputError: An item is not a tool, or a name occurs twice.
    """
    if isinstance(tools, BaseTool) or not all(isinstance(t, BaseTool) for t in tools):
        raise InputError(
            "tools: expected a list of tools, such as "
            "[FunctionTool.from_defaults(search)]"
        )
    tool_names = [tool.metadata.get_name() for tool in tools]
    if RECALL_TOOL in tool_names or len(set(tool_names)) < len(tool_names):
        raise InputError(
            f"tools={tool_names}: expected each name once, and none called {RECALL_TOOL!r}"
        )
    if denoiser is None:
        from denoise_core.embedded import default_denoiser

        denoiser = default_denoiser()
    denoised_tools: list[AsyncBaseTool] = []
    for tool in tools:
        denoised_tools.append(DenoisedTool(tool, denoiser, recall, on_error))
    if recall:
        denoised_tools.append(RecallTool())
    return denoised_tools


class ContextTool(FunctionTool):
    """A tool that gets the agent's context."""

    def __init__(self, metadata: ToolMetadata) -> None:
        super().__init__(async_fn=self.acall, metadata=metadata)
        self.requires_context = True
        self.ctx_param_name = "ctx"


class DenoisedTool(ContextTool):
    """A tool whose results are denoised."""

    def __init__(
        self, tool: BaseTool, denoiser: Denoiser, recall: bool, on_error: FailurePolicy
    ) -> None:
        super().__init__(tool.metadata)
        self.tool = adapt_to_async_tool(tool)
        self.recall = recall
        # The guard raises for an object that is no denoiser.
        self.denoiser = Guard(denoiser, on_error=on_error).denoiser
        self.on_error: FailurePolicy = on_error

    async def acall(
        self, *args: Any, ctx: Context | None = None, **arguments: Any
    ) -> ToolOutput:
        """Call the tool and denoise the texts of its result."""
        tool = self.tool
        tool_arguments: dict[str, Any] = dict(arguments)
        if isinstance(tool, FunctionTool) and tool.ctx_param_name:
            tool_arguments[tool.ctx_param_name] = ctx
        output = await tool.acall(*args, **tool_arguments)
        content_blocks = list(output.blocks)
        texts = {}  # by index of the block
        for index, content_block in enumerate(content_blocks):
            if isinstance(content_block, TextBlock) and content_block.text.strip():
                texts[index] = content_block.text
        if ctx is None or output.is_error or not texts:
            return output
        user_message = await ctx.store.get("user_msg_str", default="") or ""
        query = build_query(user_message, query_from_arguments(arguments))
        tool_result = read_result(list(texts.values()), name=_result_name(texts))
        denoiser = for_tool_results(self.denoiser, tool_result.passages)
        guard = Guard(denoiser, on_error=self.on_error)
        denoise_result = await guard.adenoise(query, tool_result.passages)
        for index, text in zip(texts, tool_result.restore(denoise_result), strict=True):
            content_blocks[index] = TextBlock(text=text)
        content_blocks = [
            b for b in content_blocks if not isinstance(b, TextBlock) or b.text.strip()
        ]
        if not content_blocks:
            content_blocks = [TextBlock(text=EMPTY_RESULT_TEXT)]
        omitted_texts = tool_result.omitted_texts(denoise_result) if self.recall else ()
        for omitted_text in omitted_texts:
            await ctx.store.set(
                f"{OMITTED_STATE_KEY}.{omitted_text.id}", omitted_text.text
            )
        if omitted_texts:
            content_blocks.append(TextBlock(text=omission_notice(omitted_texts)))
        return output.model_copy(update={"blocks": content_blocks})


def _result_name(texts: dict[int, str]) -> str:
    """A name of the result's content, so that ids of two results never collide."""
    content = "\n".join(texts.values()).encode("utf-8", "surrogatepass")
    return f"{hashlib.sha256(content).hexdigest()[:8]}-"


class RecallTool(ContextTool):
    """Returns what a `DenoisedTool` removed."""

    def __init__(self) -> None:
        # The signature and the docstring are the tool's description for the model.
        def recall(id: str) -> str:
            """Gives back a part of a tool's result that was left out, by its id at the end."""
            return id

        super().__init__(FunctionTool.from_defaults(recall).metadata)

    async def acall(
        self, *args: Any, ctx: Context | None = None, **arguments: Any
    ) -> ToolOutput:
        """Return the removed text with this id."""
        omitted_texts = {}
        if ctx is not None:
            omitted_texts = await ctx.store.get(OMITTED_STATE_KEY, default={})
        text = recall_text(omitted_texts, str(arguments.get("id", *args)))
        return ToolOutput(
            content=text, tool_name=RECALL_TOOL, raw_input=arguments, raw_output=text
        )
