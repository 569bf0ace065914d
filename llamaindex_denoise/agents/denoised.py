"""`denoised`: agent tools whose results contain only what helps."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from llama_index.core.base.llms.types import TextBlock
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolOutput
from llama_index.core.tools.types import BaseTool, ToolMetadata, adapt_to_async_tool
from llama_index.core.workflow import Context
from pydantic import BaseModel
from typing_extensions import override

from denoise_core import Denoiser, DenoiseResult, Guard, InputError
from denoise_core.end.tool_results import for_tool_results
from denoise_core.runtime.guard import FailurePolicy
from denoise_core.text.omissions import omission_note
from denoise_core.tool_results import (
    MIN_CHARACTERS,
    OMITTED_STATE_KEY,
    RECALL_TOOL,
    OmittedText,
    Pin,
    ReducedResult,
    ToolResult,
    build_query,
    query_from_arguments,
    read_pin,
    read_result,
    recall_text,
)
from llamaindex_denoise.nodes.convert import are_scored_nodes


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
    a pydantic object or dataclass one of its class, and JSON stays JSON. Images, errors
    and ``raw_output`` are not changed.

    Args:
        tools: The tools. A CodeActAgent cannot use the copies, which need a context.
        denoiser: Any denoiser; None is the embedded default, which keeps three eighths
            of a text of 1,000 characters or more.
        min_characters: A shorter result passes unchanged.
        must_keep: What is always shown: a regular expression, fields with an expression
            for their value (``{"status": "failed"}``), or a function of a text.
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
    read_pin(must_keep)
    denoised_tools: list[AsyncBaseTool] = []
    for tool in tools:
        cut = OutputCut(min_characters, must_keep, recall)
        denoised_tools.append(DenoisedTool(tool, denoiser, cut, on_error))
    if recall:
        denoised_tools.append(RecallTool())
    return denoised_tools


class ContextTool(FunctionTool):
    """A tool that gets the agent's context."""

    def __init__(self, metadata: ToolMetadata) -> None:
        super().__init__(async_fn=self.acall, metadata=metadata)
        self.requires_context = True
        self.ctx_param_name = "ctx"


@dataclass(frozen=True, slots=True)
class OutputCut:
    """How a tool's output becomes shorter; the fields are settings of `denoised`."""

    min_characters: int
    must_keep: Pin | None
    has_recall: bool


class DenoisedTool(ContextTool):
    """A tool whose results are denoised."""

    def __init__(
        self,
        tool: BaseTool,
        denoiser: Denoiser,
        cut: OutputCut,
        on_error: FailurePolicy,
    ) -> None:
        super().__init__(tool.metadata)
        self.tool = adapt_to_async_tool(tool)
        self.cut = cut
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
        if ctx is None or output.is_error:
            return output
        texts = read_output(output, self.cut)
        tool_result = texts.tool_result
        if not tool_result.passages or tool_result.characters < self.cut.min_characters:
            return output
        user_message = await ctx.store.get("user_msg_str", default="") or ""
        query = build_query(user_message, query_from_arguments(arguments))
        denoiser = for_tool_results(self.denoiser, tool_result.passages)
        guard = Guard(denoiser, on_error=self.on_error)
        denoise_result = await guard.adenoise(query, tool_result.passages)
        reduced = texts.reduce(denoise_result, self.cut.has_recall)
        if self.cut.has_recall:
            for omitted_text in reduced.omitted_texts:
                key = f"{OMITTED_STATE_KEY}.{omitted_text.id}"
                await ctx.store.set(key, omitted_text.text)
        if not reduced.omitted_texts:
            return output
        return output.model_copy(update={"blocks": reduced.value})


@dataclass(frozen=True, slots=True)
class OutputTexts:
    """The texts of an output: those of its blocks, by index."""

    output: ToolOutput
    tool_result: ToolResult
    block_indices: tuple[int, ...] = ()

    def reduce(self, result: DenoiseResult, has_recall: bool) -> ReducedResult:
        """The blocks with what is kept, and what they lose."""
        reduced = self.tool_result.reduce(result, has_recall=has_recall)
        blocks = list(self.output.blocks)
        for index, text in zip(self.block_indices, reduced.value, strict=True):
            blocks[index] = TextBlock(text=text)
        return replace(reduced, value=blocks)


class OutputValue(OutputTexts):
    """A value that the output shows as Python prints it, such as a dict."""

    @override
    def reduce(self, result: DenoiseResult, has_recall: bool) -> ReducedResult:
        reduced = self.tool_result.reduce(result, has_recall=has_recall)
        if isinstance(self.output.raw_output, list):
            reduced = replace(reduced, value=list(reduced.value))
        return _printed(self.output, reduced)


class OutputNodes(OutputTexts):
    """A list of nodes, which are shown or left out one by one."""

    @override
    def reduce(self, result: DenoiseResult, has_recall: bool) -> ReducedResult:
        kept_ids = set(self.tool_result.pinned_ids())
        for passage in result.passages:
            kept_ids.add(passage.id)
            kept_ids.update(span.passage_id for span in passage.source_spans)
        shown_items: list[Any] = []
        omitted_texts = []
        nodes = self.output.raw_output
        passages = self.tool_result.passages
        for item, passage in zip(nodes, passages, strict=True):
            if passage.id in kept_ids:
                shown_items.append(item)
            else:
                omitted_texts.append(passage.text)
        if not omitted_texts:
            return ReducedResult(self.output.blocks)
        recall_id = ""
        if has_recall:
            recall_id = passages[0].id
        dropped_count = len(nodes) - len(shown_items)
        note = omission_note(len(nodes), dropped_count, "nodes", recall_id)
        omitted_text = OmittedText(passages[0].id, "\n\n".join(omitted_texts))
        value = [*shown_items, note]
        return _printed(self.output, ReducedResult(value, (omitted_text,)))


def read_output(output: ToolOutput, cut: OutputCut) -> OutputTexts:
    """Return the texts of an output: of the value the tool returned, if it shows that."""
    value = output.raw_output
    blocks = list(output.blocks)
    shows_value = [type(block) for block in blocks] == [TextBlock]
    if shows_value and _prints_fields(value) and output.content == str(value):
        name = _result_name([output.content])
        if are_scored_nodes(value):
            node_texts = [item.get_content() for item in value]
            result = read_result(node_texts, name=name, must_keep=cut.must_keep)
            if len(result.passages) == len(value):
                return OutputNodes(output, result)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            # A list of texts would be read as blocks, which are never left out.
            value = tuple(value)
        result = read_result(value, name=name, must_keep=cut.must_keep)
        return OutputValue(output, result)
    texts = {}  # by index of the block
    for index, content_block in enumerate(blocks):
        if isinstance(content_block, TextBlock) and content_block.text.strip():
            texts[index] = content_block.text
    block_texts = list(texts.values())
    name = _result_name(block_texts)
    result = read_result(block_texts, name=name, must_keep=cut.must_keep)
    return OutputTexts(output, result, tuple(texts))


def _prints_fields(value: Any) -> bool:
    """Whether Python prints all of the value, unlike a response, which prints its text."""
    if isinstance(value, dict | list | tuple):
        return True
    print_method: Any = type(value).__str__
    return print_method in (object.__str__, BaseModel.__str__)


def _printed(output: ToolOutput, reduced: ReducedResult) -> ReducedResult:
    """Return the value as one block of text; unchanged if that is not shorter."""
    text = str(reduced.value)
    if len(text) >= len(output.content):
        return ReducedResult(output.blocks)
    return replace(reduced, value=[TextBlock(text=text)])


def _result_name(texts: Sequence[str]) -> str:
    """A name of the result's content, so that ids of two results never collide."""
    content = "\n".join(texts).encode("utf-8", "surrogatepass")
    return f"{hashlib.sha256(content).hexdigest()[:8]}-"


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
        text = recall_text(omitted_texts, str(arguments.get("id", *args)))
        return ToolOutput(
            content=text, tool_name=RECALL_TOOL, raw_input=arguments, raw_output=text
        )
