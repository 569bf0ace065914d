"""What tools return to agents, through `DenoiseToolResults(tools=[...])`: shape, needed parts, characters left.

Twenty results by another hand (search, SQL, tickets, code, mail, MCP, tables, logs), each with the task it was
asked for, substrings that an answer needs and substrings of its form that must stay. Then the two sets of twenty
of `_payload_cases`, on which nothing was chosen. Of all: results that a parser no longer reads, values that moved
to another record, and cuts without a note.
"""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

import yaml
from _payload_cases import build_cases
from harness import Benchmark, arguments
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.types import Command

from langchain_denoise.middleware import DenoiseToolResults

# What the quick form holds: one result, in the shape of the files of ``DATA/payloads``.
OWN = {
    "id": "opening hours",
    "kind": "json",
    "tool": "search",
    "query": "opening hours of the pool",
    "task": "When does the pool open?",
    "result": {"results": [{"id": n, "text": f"Room {n} has two beds and a desk."} for n in range(9)]
               + [{"id": 9, "text": "The pool opens at nine."}]},
    "needed": ["The pool opens at nine."],
    "must_stay": ["results"],
}  # fmt: skip


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("payloads", options)
    if options.quick or options.data is None:
        cases = [OWN]
    else:
        cases = [
            json.loads(p.read_text("utf-8"))
            for p in sorted((options.data / "payloads").glob("*.json"))
        ]
    measure_cases(bench, "", cases)
    if not options.quick:
        measure_cases(bench, "second set: ", build_cases("shipments"))
        measure_cases(
            bench, "third set: ", build_cases("loans", ("tsv", "json values"))
        )
    bench.about["middleware"] = (
        "DenoiseToolResults(tools=[...], min_characters=0, where='state'), the embedded default; the user's "
        "message is the task"
    )
    bench.about["chosen on"] = (
        "the first twenty: weights, share and cutting were chosen with these results in sight; the second set was "
        "written before the notes and the parsers, the third, of another domain, after them; nothing was chosen "
        "on either"
    )
    return bench.finish()


def measure_cases(bench: Benchmark, title: str, cases: list[dict[str, Any]]) -> None:
    """Add the rows of one set of results."""
    shaped, complete, whole, shares = [], [], [], []
    unread_count = moved_count = silent_count = 0
    for case in cases:
        middleware = DenoiseToolResults(
            tools=[case["tool"]], min_characters=0, where="state"
        )
        given = as_returned(case)
        got = middleware.wrap_tool_call(request_of(case), lambda _, given=given: given)
        after = written(got)
        missing = [n for n in case["needed"] if n not in said(got)]
        stands = in_shape(given, got) and all(
            m in after or m in said(got) for m in case["must_stay"]
        )
        texts_before, texts_after = texts_of(given), texts_of(got)
        for before, after_text in zip(texts_before, texts_after, strict=True):
            unread_count += not is_read_as_before(before, after_text)
            moved_count += count_moved_values(before, after_text)
            has_note = "left out" in after_text or "[...]" in after_text
            silent_count += after_text != before and not has_note
        shaped.append(stands)
        complete.append(not missing)
        whole.append(stands and not missing)
        shares.append(read_count(got) / read_count(given))
        bench.row(f"{title}{case['id']}: characters left", shares[-1], "share")
        kept = len(case["needed"]) - len(missing)
        bench.row(
            f"{title}{case['id']}: needed parts kept, in shape: {stands}",
            kept / len(case["needed"]),
            "share",
        )
    bench.right(f"{title}in shape", shaped)
    bench.right(f"{title}all needed parts", complete)
    bench.row(
        f"{title}in shape with all needed parts",
        sum(whole),
        "results",
        at_least=0.9 * len(cases),
    )
    bench.mean(
        f"{title}characters left, mean",
        shares,
        at_most=0.40,
    )
    for measure, count in (
        ("results that a parser no longer reads", unread_count),
        ("records with a value of another one", moved_count),
        ("texts cut without a note", silent_count),
    ):
        bench.row(
            f"{title}{measure}",
            count,
            "results",
            at_most=0,
        )


def texts_of(result: Any) -> list[str]:
    """The texts that a model reads, one a block."""
    texts = []
    for message in messages_of(result):
        content = message.content
        blocks = [content] if isinstance(content, str) else content
        for block in blocks:
            if isinstance(block, dict):
                block = block.get("text", _json(block))
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
    """The objects without objects in them, and the rows of tables by column or in parts."""
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


def request_of(case: dict[str, Any]) -> ToolCallRequest:
    """The call: the user's task, and the words the tool was asked with."""
    call: Any = {
        "name": case["tool"],
        "args": {"query": case["query"]},
        "id": "call",
        "type": "tool_call",
    }
    state = {"messages": [HumanMessage(case["task"])]}
    runtime: Any = None
    return ToolCallRequest(tool_call=call, tool=None, state=state, runtime=runtime)


def as_returned(case: dict[str, Any]) -> ToolMessage | Command[Any]:
    """The result as LangChain hands it on: JSON as text, MCP's blocks with their structure, a command."""
    result, about = case["result"], {"tool_call_id": "call", "name": case["tool"]}
    if case["kind"] == "langgraph_command_dict":
        update = dict(result["update"])
        update["messages"] = [message_of(m) for m in update["messages"]]
        return Command(update=update, goto=result["goto"] or ())
    if case["kind"] == "mcp_tool_result":
        structure = {
            "structured_content": result["structuredContent"],
            "is_error": result["isError"],
        }
        return ToolMessage(result["content"], artifact=structure, **about)
    if isinstance(result, dict):
        return ToolMessage(json.dumps(result, ensure_ascii=False), **about)
    return ToolMessage(result, **about)


def message_of(given: dict[str, Any]) -> BaseMessage:
    """A message of a command that was written down as JSON."""
    return ToolMessage(**given) if given["type"] == "tool" else AIMessage(**given)


def messages_of(result: Any) -> list[Any]:
    return (
        [result] if isinstance(result, ToolMessage) else list(result.update["messages"])
    )


def text_of(message: Any) -> str:
    """What of a message the model reads."""
    content = message.content
    return content if isinstance(content, str) else _json(content)


def read_count(result: Any) -> int:
    return sum(len(text_of(message)) for message in messages_of(result))


def written(result: Any) -> str:
    """All that the model would read, and what stands beside it in a command or an artifact."""
    parts = []
    ids = []
    for message in messages_of(result):
        parts.append(text_of(message))
        artifact = getattr(message, "artifact", None)
        if artifact is not None:
            parts.append(_json(artifact))
        if isinstance(message, ToolMessage):
            ids.append({"tool_call_id": message.tool_call_id})
    if isinstance(result, Command):
        rest = dict(result.update or {})
        rest.pop("messages", None)
        command = {
            "graph": result.graph,
            "update": {"messages": ids, **rest},
            "goto": result.goto,
        }
        parts.append(_json(command))
    elif result.artifact is not None:  # what MCP calls these parts
        parts.append(_json(["content", "structuredContent", "isError"]))
    return "\n".join(parts)


def said(result: Any) -> str:
    """The strings of a result as they read: of JSON its values, unescaped."""
    found = texts_of(result)
    for text in texts_of(result):
        found += leaves(_parsed(text))
    for message in messages_of(result):
        found += leaves(getattr(message, "artifact", None))
    return "\n".join(found)


def same_keys(was: Any, now: Any) -> bool:
    """The same type, and of an object the same keys but for rows that are left out and the note about them."""
    if type(was) is not type(now):
        return False
    if not isinstance(was, dict) or "left_out" not in now:
        return not isinstance(was, dict) or list(was) == list(now)
    are_rows = len({tuple(row) for row in was.values() if isinstance(row, dict)}) == 1
    names = [name for name in now if name != "left_out"]
    return set(names) <= set(was) if are_rows else names == list(was)


def in_shape(given: Any, got: Any) -> bool:
    """The same kind of result: as many messages and blocks, JSON that is JSON with the same keys at its top."""
    if type(given) is not type(got):
        return False
    for before, after in zip(messages_of(given), messages_of(got), strict=True):
        if (before.type, before.id) != (after.type, after.id) or type(
            before.content
        ) is not type(after.content):
            return False
        if isinstance(before.content, str):
            was, now = _parsed(before.content), _parsed(str(after.content))
            if not same_keys(was, now):
                return False
        elif [_kind(b) for b in before.content] != [_kind(b) for b in after.content]:
            return False
    return not isinstance(given, Command) or (given.goto, list(given.update or {})) == (
        got.goto,
        list(got.update),
    )


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield str(key)
            yield from leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from leaves(one)
    elif value is not None:
        yield str(value)


def _kind(block: Any) -> str:
    return "text" if isinstance(block, str) else str(block.get("type"))


def _parsed(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, (dict, list)) else None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


if __name__ == "__main__":
    main()
