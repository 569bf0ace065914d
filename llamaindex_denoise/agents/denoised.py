"""`denoised`: agent tools whose results contain only what helps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.llms.types import TextBlock
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolOutput
from llama_index.core.tools.types import BaseTool, ToolMetadata, adapt_to_async_tool
from llama_index.core.workflow import Context
from pydantic import BaseModel

from denoise_core import Denoiser, Guard, InputError
from denoise_core._frameworks import check_characters
from denoise_core.end.tool_results import for_tool_results
from denoise_core.runtime.guard import FailurePolicy
from denoise_core.tool_results import (
    MIN_CHARACTERS,
    OMITTED_STATE_KEY,
    RECALL_TOOL,
    Pin,
    ToolResult,
    build_query,
    read_pin,
    read_result,
    recall_text,
)
from llamaindex_denoise.nodes.convert import are_scored_nodes

RestoreBlocks: TypeAlias = Callable[[Any], list[Any]]


def denoised(
    tools: Sequence[BaseTool],
    denoiser: Denoiser | None = None,
    *,
    min_characters: int = MIN_CHARACTERS,
    must_keep: Pin | None = None,
    recall: bool = False,
    on_error: FailurePolicy = "keep",
) -> list[AsyncBaseTool]:
    """Return copies of an agent's tools whose results are shorter.

        FunctionAgent(tools=denoised([search], recall=True), llm=llm)

    The query is the user's message with the arguments of the call. Records, rows,
    paragraphs and nodes are shown whole or left out, and a note in the text counts
    them. What the tool returned is read, not its text: nodes stay nodes, a dict a dict,
    a pydantic object or dataclass one of its class, and JSON stays JSON. Images, errors,
    ``raw_output`` and results of tools with ``return_direct`` are not changed. Called
    without an agent's context, a tool is denoised by its arguments alone, and its notes
    name no id.

    Args:
        tools: The tools. A CodeActAgent, which gives tools no context, refuses the copies.
        denoiser: Any denoiser; None is the embedded default, which keeps three eighths
            of a text of 1,000 characters or more.
        min_characters: A shorter result passes unchanged.
        must_keep: What is always shown: a regular expression, such as
            ``"status: failed"`` for a field of a record of JSON or CSV, or a
            function of a text; XML and other tables are read as they are written.
        recall: Whether notes name an id, and the agent gets a tool ``recall(id)``. The
            removed text is in the agent's state and never in the prompt.
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
    check_characters("min_characters", min_characters)
    read_pin(must_keep)
    guard = Guard(denoiser, on_error=on_error)  # raises for an object that is none
    denoised_tools: list[AsyncBaseTool] = [
        DenoisedTool(tool, guard, min_characters, must_keep, recall) for tool in tools
    ]
    if recall:
        denoised_tools.append(RecallTool())
    return denoised_tools


class ContextTool(FunctionTool):
    """A tool that gets the agent's context, and can be called without one."""

    def __init__(self, metadata: ToolMetadata) -> None:
        super().__init__(async_fn=self.acall, metadata=metadata)
        self.requires_context = True
        self.ctx_param_name = "ctx"

    def call(self, *args: Any, **arguments: Any) -> ToolOutput:
        """Do what ``acall`` does."""
        output: ToolOutput = asyncio_run(self.acall(*args, **arguments))
        return output


class DenoisedTool(ContextTool):
    """A tool whose results are denoised; the other arguments are those of `denoised`."""

    def __init__(
        self,
        tool: BaseTool,
        guard: Guard,
        min_characters: int,
        must_keep: Pin | None,
        has_recall: bool,
    ) -> None:
        super().__init__(tool.metadata)
        self.tool = adapt_to_async_tool(tool)
        self.guard = guard
        self.min_characters = min_characters
        self.must_keep = must_keep
        self.has_recall = has_recall

    async def acall(
        self, *args: Any, ctx: Context | None = None, **arguments: Any
    ) -> ToolOutput:
        """Call the tool and denoise the texts of its result."""
        tool = self.tool
        tool_arguments: dict[str, Any] = dict(arguments)
        if isinstance(tool, FunctionTool) and tool.ctx_param_name and ctx is not None:
            tool_arguments[tool.ctx_param_name] = ctx
        output = await tool.acall(*args, **tool_arguments)
        # The user reads what a tool returns directly, and no model does.
        if output.is_error or self.metadata.return_direct:
            return output
        tool_result, restore_blocks = read_output(output, self.must_keep)
        if not tool_result.passages or tool_result.characters < self.min_characters:
            return output
        user_message = ""
        if ctx is not None:
            user_message = await ctx.store.get("user_msg_str", default="") or ""
        positional_arguments = dict(enumerate(args))
        query = build_query(user_message, {**positional_arguments, **arguments})
        if not query:  # nothing says what helps
            return output
        denoiser = for_tool_results(self.guard.denoiser, tool_result.passages)
        guard = Guard(denoiser, on_error=self.guard.on_error)
        denoise_result = await guard.adenoise(query, tool_result.passages)
        has_recall = self.has_recall and ctx is not None
        reduced = tool_result.reduce(denoise_result, has_recall=has_recall)
        blocks = restore_blocks(reduced.value)
        if not reduced.omitted_texts or blocks == output.blocks:
            return output
        if ctx is not None and has_recall:
            for omitted_text in reduced.omitted_texts:
                key = f"{OMITTED_STATE_KEY}.{omitted_text.id}"
                await ctx.store.set(key, omitted_text.text)
        return output.model_copy(update={"blocks": blocks})


def _restore_nodes(texts: Sequence[str], nodes: Sequence[NodeWithScore]) -> list[Any]:
    """The nodes of these texts, in their order; a note stays a text."""
    nodes_by_text: dict[str, list[NodeWithScore]] = {}
    for node in nodes:
        nodes_by_text.setdefault(node.get_content(), []).append(node)
    shown_items: list[Any] = []
    for text in texts:
        waiting_nodes = nodes_by_text.get(text)
        shown_items.append(waiting_nodes.pop(0) if waiting_nodes else text)
    return shown_items


def read_output(
    output: ToolOutput, must_keep: Pin | None
) -> tuple[ToolResult, RestoreBlocks]:
    """Return the texts of an output, and a function from what is kept to blocks.

    The texts are those of the value that the tool returned, if its blocks show that.
    """
    value = output.raw_output
    texts = {}  # by index of the block
    for index, content_block in enumerate(output.blocks):
        if isinstance(content_block, TextBlock) and content_block.text.strip():
            texts[index] = content_block.text
    block_texts = list(texts.values())
    name = _result_name(block_texts)
    has_one_block = len(output.blocks) == 1
    if has_one_block and _prints_fields(value) and block_texts == [str(value)]:
        if are_scored_nodes(value):
            value = [item.get_content() for item in value]
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            # A list of texts would be read as blocks, which are never left out.
            value = tuple(value)
        result = read_result(value, name=name, must_keep=must_keep)
        return result, partial(_print_value, output)
    result = read_result(block_texts, name=name, must_keep=must_keep)
    return result, partial(_replace_texts, output, list(texts))


def _replace_texts(
    output: ToolOutput, block_indices: Sequence[int], texts: Sequence[str]
) -> list[Any]:
    blocks: list[Any] = list(output.blocks)
    for index, text in zip(block_indices, texts, strict=True):
        blocks[index] = TextBlock(text=text)
    return blocks


def _print_value(output: ToolOutput, value: Any) -> list[Any]:
    """One block with the value as Python prints it; the blocks as they were if shorter."""
    if are_scored_nodes(output.raw_output):
        value = _restore_nodes(value, output.raw_output)
    elif isinstance(output.raw_output, list):
        value = list(value)
    text = str(value)
    if len(text) >= len(output.content):
        return list(output.blocks)
    return [TextBlock(text=text)]


def _prints_fields(value: Any) -> bool:
    """Whether Python prints all of the value, unlike a response, which prints its text."""
    if isinstance(value, dict | list | tuple):
        return True
    print_method: Any = type(value).__str__
    return print_method in (object.__str__, BaseModel.__str__)


def _result_name(texts: Sequence[str]) -> str:
    """A name of the result's content, so that ids of two results never collide."""
    content = "\n".join(texts).encode("utf-8", "surrogatepass")
    content_digest = hashlib.sha256(content).hexdigest()
    return f"{content_digest[:8]}-"


class RecallTool(ContextTool):
    """Returns what a `DenoisedTool` removed."""

    def __init__(self) -> None:
        # The signature and the docstring are the tool's description for the model.
        def recall(id: str) -> str:
            """Returns the part of a tool's result that was left out, by the id in its note."""
            return id

        super().__init__(FunctionTool.from_defaults(recall).metadata)

    async def acall(
        self, *args: Any, ctx: Context | None = None, **arguments: Any
    ) -> ToolOutput:
        """Return the removed text with this id."""
        omitted_texts = {}
        if ctx is not None:
            omitted_texts = await ctx.store.get(OMITTED_STATE_KEY, default={})
        omitted_id = arguments.get("id", *args)
        text = recall_text(omitted_texts, str(omitted_id))
        return ToolOutput(
            content=text, tool_name=RECALL_TOOL, raw_input=arguments, raw_output=text
        )
