"""What tools return to agents, through `DenoiseToolResults(tools=[...])`: shape, needed parts, characters left.

Twenty results that others wrote (search, SQL, tickets, code, mail, MCP, tables, logs), each with the task it was
asked for, parts that an answer needs and parts of its form that must stay. Then the two sets of twenty of
`_payload_cases`, on which nothing was chosen. Of all: results that a parser no longer reads, values that moved to
another record, and cuts without a note.
"""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias
from xml.etree import ElementTree

import yaml
from _payload_cases import build_cases
from harness import Benchmark
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import HumanMessage, ToolMessage, convert_to_messages
from langgraph.types import Command

from langchain_denoise.middleware import DenoiseToolResults

Case: TypeAlias = dict[str, Any]
Result: TypeAlias = Any
"""A `ToolMessage`, or a `Command` with messages in its update."""

QUICK_ITEMS = [
    {"id": number, "text": f"Room {number} has two beds and a desk."}
    for number in range(9)
]
# The quick form's one result, with the fields of the files of ``DATA/payloads``.
QUICK_CASE: Case = {
    "id": "opening hours",
    "kind": "json",
    "tool": "search",
    "query": "opening hours of the pool",
    "task": "When does the pool open?",
    "result": {"results": [*QUICK_ITEMS, {"id": 9, "text": "The pool opens at nine."}]},
    "needed": ["The pool opens at nine."],
    "must_stay": ["results"],
}


def main() -> None:
    bench = Benchmark("payloads", __doc__)
    cases = [QUICK_CASE]
    if bench.data is not None and not bench.quick:
        cases = []
        for path in sorted((bench.data / "payloads").glob("*.json")):
            cases.append(json.loads(path.read_text("utf-8")))
    report_cases(bench, cases)
    if not bench.quick:
        report_cases(bench.under("second set: "), build_cases("shipments"))
        loans = build_cases("loans", ("tsv", "json values"))
        report_cases(bench.under("third set: "), loans)
    bench.about["middleware"] = (
        "DenoiseToolResults(tools=[...], min_characters=0, where='state'), the embedded default; the user's "
        "message is the task"
    )
    bench.about["chosen on"] = (
        "the first twenty: weights, share and cutting were chosen with these results in sight; the second set was "
        "written before the notes and the parsers, the third, of another domain, after them; nothing was chosen "
        "on either"
    )
    bench.finish()


def report_cases(bench: Benchmark, cases: Sequence[Case]) -> None:
    """Add the rows of one set of results; those that lose their form or a needed part are printed."""
    whole_count = unread_count = moved_count = silent_count = 0
    shares = []
    for case in cases:
        returned_result = as_returned(case)
        denoised_result = denoise_result(case, returned_result)
        if is_whole(case, returned_result, denoised_result):
            whole_count += 1
        else:
            print(f"not whole: {case['id']}")
        texts = zip(texts_of(returned_result), texts_of(denoised_result), strict=True)
        for before, after in texts:
            has_note = "left out" in after or "[...]" in after
            unread_count += not is_read_as_before(before, after)
            moved_count += count_moved_values(before, after)
            silent_count += after != before and not has_note
        characters = count_characters(returned_result)
        shares.append(count_characters(denoised_result) / characters)
    least_whole = 0.9 * len(cases)
    bench.row(
        "in shape with all needed parts", whole_count, "results", at_least=least_whole
    )
    bench.mean("characters left, mean", shares, at_most=0.40)
    for measure, count in (
        ("results that a parser no longer reads", unread_count),
        ("records with a value of another one", moved_count),
        ("texts cut without a note", silent_count),
    ):
        bench.row(measure, count, "results", at_most=0)


def denoise_result(case: Case, returned_result: Result) -> Result:
    middleware = DenoiseToolResults(
        tools=[case["tool"]], min_characters=0, where="state"
    )
    return middleware.wrap_tool_call(request_of(case), lambda request: returned_result)


def is_whole(case: Case, returned_result: Result, denoised_result: Result) -> bool:
    """Whether the needed parts are there, those of its form that must stay, and all keys at the top of JSON."""
    text = readable_text(denoised_result)
    parts = [*case["needed"], *case["must_stay"]]
    has_parts = all(part in text for part in parts)
    texts = zip(texts_of(returned_result), texts_of(denoised_result), strict=True)
    for before, after in texts:
        value = parse_json_container(before)
        has_parts &= has_same_keys(value, parse_json_container(after))
    return has_parts


def texts_of(result: Result) -> list[str]:
    """Return the texts that a model reads, one a block."""
    texts = []
    for message in messages_of(result):
        blocks = message.content
        if isinstance(blocks, str):
            blocks = [blocks]
        for block in blocks:
            if isinstance(block, dict):
                block = block.get("text", to_json(block))
            texts.append(block)
    return texts


def is_read_as_before(before: str, after: str) -> bool:
    """Whether every parser that reads the one text reads the other as the same type."""
    for parse in _PARSERS:
        value = _value_of(parse, before)
        if value is not None and type(value) is not type(_value_of(parse, after)):
            return False
    return True


def count_moved_values(before: str, after: str) -> int:
    """Return how many records of JSON, JSON lines or printed rows are not one of those before."""
    for parse in _RECORD_PARSERS:
        value = _value_of(parse, before)
        if value is None:
            continue
        records_before = list(records_of(value))
        count = 0
        for record in records_of(_value_of(parse, after)):
            is_same = any(_is_same_record(record, other) for other in records_before)
            count += not is_same
        return count
    return 0


def records_of(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects without objects in them, and the rows of tables by column or in parts."""
    if isinstance(value, tuple):
        value = dict(enumerate(value))
    if isinstance(value, list):
        for item in value:
            yield from records_of(item)
        return
    if not isinstance(value, dict) or ("left_out" in value and len(value) == 1):
        return
    value = {name: item for name, item in value.items() if name != "left_out"}
    members = list(value.values())
    if {"columns", "index", "data"} <= set(value):
        for number, row in zip(value["index"], value["data"], strict=True):
            yield {"index": number, "row": row}
    elif members and all(isinstance(member, dict) for member in members):
        has_columns = all(name.isdigit() for member in members for name in member)
        if has_columns:
            for number in members[0]:
                yield {name: value[name][number] for name in value}
        else:
            yield from records_of(members)
    elif any(isinstance(member, (dict, list)) for member in members):
        yield from records_of(members)
    elif len(members) > 1:
        yield value


def _is_same_record(record: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two records agree, but for the strings that were cut."""
    if list(record) != list(other):
        return False
    for name, item in record.items():
        is_cut = isinstance(item, str) and "[...]" in item
        if item != other[name] and not is_cut:
            return False
    return True


def _json_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _yaml_value(text: str) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)


_RECORD_PARSERS: tuple[Callable[[str], Any], ...] = (
    json.loads,
    _json_lines,
    ast.literal_eval,
)
_PARSERS = (*_RECORD_PARSERS, _yaml_value, ElementTree.fromstring)


def _value_of(parse: Callable[[str], Any], text: str) -> Any:
    """What a parser makes of a text if it is more than a string; None for a text that it cannot read."""
    with contextlib.suppress(ValueError, SyntaxError, yaml.YAMLError):
        value = parse(text)
        if not isinstance(value, str | int | float):
            return value
    return None


# -- results of tools ------------------------------------------------------------------


def request_of(case: Case) -> ToolCallRequest:
    """Return the call: the user's task, and the words the tool was asked with."""
    call: Any = {
        "name": case["tool"],
        "args": {"query": case["query"]},
        "id": "call",
        "type": "tool_call",
    }
    state = {"messages": [HumanMessage(case["task"])]}
    runtime: Any = None
    return ToolCallRequest(tool_call=call, tool=None, state=state, runtime=runtime)


def as_returned(case: Case) -> Result:
    """Return the result as LangChain passes it on: JSON as text, MCP's blocks with their structure, a command."""
    result = case["result"]
    if case["kind"] == "langgraph_command_dict":
        messages = convert_to_messages(result["update"]["messages"])
        update = {**result["update"], "messages": messages}
        return Command(update=update, goto=result["goto"] or ())
    artifact = None
    if case["kind"] == "mcp_tool_result":
        artifact = {
            "structured_content": result["structuredContent"],
            "is_error": result["isError"],
        }
        result = result["content"]
    elif isinstance(result, dict):
        result = to_json(result)
    return ToolMessage(
        result, artifact=artifact, tool_call_id="call", name=case["tool"]
    )


def messages_of(result: Result) -> list[Any]:
    if isinstance(result, ToolMessage):
        return [result]
    return list(result.update["messages"])


def count_characters(result: Result) -> int:
    """Return the characters that a model is sent: of texts, or of blocks as JSON."""
    count = 0
    for message in messages_of(result):
        content = message.content
        if not isinstance(content, str):
            content = to_json(content)
        count += len(content)
    return count


def readable_text(result: Result) -> str:
    """Return all keys and values of a result as they read, of JSON too: unescaped."""
    parts: list[Any] = []
    for message in messages_of(result):
        parts += [message.content, getattr(message, "artifact", None)]
        parts.append({"tool_call_id": getattr(message, "tool_call_id", None)})
    if isinstance(result, Command):
        update = {**(result.update or {}), "messages": []}
        fields = {"graph": result.graph, "update": update, "goto": result.goto}
        parts.append(fields)
    parts.append("content structuredContent isError")  # MCP's names of its parts
    return "\n".join(leaf_strings(parts))


def leaf_strings(value: Any) -> Iterator[str]:
    """Yield the keys and values of plain data, and of JSON in its texts, as strings."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from leaf_strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaf_strings(item)
    elif value is not None:
        yield str(value)
        yield from leaf_strings(parse_json_container(str(value)))


def has_same_keys(before: Any, after: Any) -> bool:
    """Whether two values have one type and, as objects, the same keys.

    Rows that are left out of a table by row, and the note about them, may differ.
    """
    if not isinstance(before, dict) or not isinstance(after, dict):
        return type(before) is type(after)
    names = [name for name in after if name != "left_out"]
    row_forms = {tuple(row) for row in before.values() if isinstance(row, dict)}
    if "left_out" in after and len(row_forms) == 1:
        return set(names) <= set(before)
    return names == list(before)


def parse_json_container(text: str) -> Any:
    """Return the object or list of a JSON text, None for any other text."""
    return _value_of(json.loads, text)


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


if __name__ == "__main__":
    main()
