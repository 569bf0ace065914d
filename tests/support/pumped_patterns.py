"""Every regular expression of the package, and strings that are to show which is slow.

All of them are found: in the source, each call of `re` is looked up; a pattern that cannot be read from there
is taken from the imported module. Each is pumped with strings made from its own letters and classes.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    from re import _constants as code
    from re import _parser as parser

    CLASSES = {
        code.CATEGORY_DIGIT: "7", code.CATEGORY_SPACE: "\t", code.CATEGORY_WORD: "w",
        code.CATEGORY_NOT_DIGIT: "q", code.CATEGORY_NOT_SPACE: "q", code.CATEGORY_NOT_WORD: "-",
    }  # fmt: skip
except ImportError:  # pragma: no cover
    code = parser = None

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "denoise_core": ROOT / "shared",
    "langchain_denoise": ROOT,
    "llamaindex_denoise": ROOT,
}
CALLS = {
    "compile",
    "search",
    "match",
    "fullmatch",
    "split",
    "findall",
    "finditer",
    "sub",
    "subn",
}
SCREEN, SIZES = 4_000, (10_000, 20_000, 40_000)
SEPARATORS = (", ", "; ", " and ", "\n", ",\n", " - ", "  ")
TAILS = (" are relevant.", "\x00")
SLOW = 0.004  # seconds for 4,000 characters: a quadratic pattern takes ten times that, a linear one a tenth


# Patterns made of escaped words, alternatives of literals without a repetition, and those that a user gives.
LOCAL = {
    "'(' + mark_pattern + ')'",
    "must_keep",
    "expression",
    "f'(?:(?:{labels.ADJECTIVES})[ _])?(?:{names})'",
}


@dataclass(frozen=True)
class Found:
    where: str
    pattern: re.Pattern[str]
    methods: frozenset[str]


def modules() -> Iterator[tuple[str, Path]]:
    for package, root in FOLDERS.items():
        for path in sorted((root / package).rglob("*.py")):
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path


def calls_of_re(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        home = node.func.value
        if node.func.attr in CALLS and isinstance(home, ast.Name) and home.id == "re":
            yield node


def evaluated(node: ast.expr, names: dict[str, Any]) -> Any:
    return eval(
        compile(ast.Expression(node), "<pattern>", "eval"), dict(names)
    )  # our own source


def held_in(value: Any, depth: int = 4) -> Iterator[re.Pattern[str]]:
    """The compiled patterns among a module's values, and in its mappings, sequences and dataclasses."""
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif depth and isinstance(value, dict):
        for inner in value.values():
            yield from held_in(inner, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for inner in value:
            yield from held_in(inner, depth - 1)
    elif (
        depth and hasattr(value, "__dataclass_fields__") and not isinstance(value, type)
    ):
        yield from held_in(
            [getattr(value, f) for f in value.__dataclass_fields__], depth - 1
        )


def patterns_of(name: str, path: Path) -> Iterator[Found]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = list(calls_of_re(tree))
    if not calls:
        return
    names = vars(importlib.import_module(name))
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in CALLS
            and isinstance(node.value, (ast.Name, ast.Subscript))
        ):
            own = (
                node.value.id
                if isinstance(node.value, ast.Name)
                else ast.unparse(node.value.value)
            )
            used.setdefault(own, set()).add(node.attr)
    assigned = {
        id(call): target.id
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
        for call in ast.walk(node.value)
        if isinstance(call, ast.Call)
    }
    for call in calls:
        where = f"{name}:{call.lineno}"
        try:
            first = evaluated(call.args[0], names)
            flags = [k.value for k in call.keywords if k.arg == "flags"]
            if call.func.attr == "compile" and len(call.args) > 1:
                flags.append(call.args[1])
            pattern = re.compile(first, evaluated(flags[0], names) if flags else 0)
        except NameError:
            made = ast.unparse(call.args[0])
            loose = list(held_in(names))
            assert made in LOCAL or loose, (
                f"{where}: {made}: the pattern is made from local names and kept nowhere"
            )
            for number, pattern in enumerate(loose if made not in LOCAL else ()):
                yield Found(
                    f"{where}#{number}",
                    pattern,
                    frozenset(m for ms in used.values() for m in ms),
                )
            continue
        methods = {call.func.attr} - {"compile"} or used.get(
            assigned.get(id(call), ""), set()
        )
        if isinstance(pattern.pattern, str):
            yield Found(where, pattern, frozenset(methods))


ALL: list[Found] = []
UNREAD: list[str] = []  # modules of a framework that is not installed
for _name, _path in modules():
    try:
        ALL += patterns_of(_name, _path)
    except ImportError as error:
        if (error.name or "").startswith("denoise_core"):
            raise
        UNREAD.append(_name)


ALL = list(
    {(f.pattern.pattern, f.pattern.flags, f.methods): f for f in reversed(ALL)}.values()
)[::-1]


def letters(pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Characters and words that the pattern speaks of."""
    chars: dict[str, None] = dict.fromkeys(" \na0A")
    words: dict[str, None] = {}

    def read_class(kind: Any, item: Any) -> None:
        if kind is code.RANGE:
            kind, item = code.LITERAL, item[0]
        if kind in (code.LITERAL, code.NOT_LITERAL):
            chars[chr(item)] = None
        elif kind is code.CATEGORY:
            chars[CLASSES.get(item, "x")] = None

    def read_inner(value: Any) -> None:
        if isinstance(value, parser.SubPattern):
            walk(value)
        elif isinstance(value, (tuple, list)):
            for inner in value[:8]:
                read_inner(inner)

    def walk(parsed: Any) -> None:
        run = ""
        for op, value in [*parsed, (None, None)]:
            if op is code.LITERAL:
                run += chr(value)
            elif len(run) > 1:
                words[run] = None
            if op is not code.LITERAL:
                run = ""
            if op is code.IN:
                for kind, item in value[:12]:
                    read_class(kind, item)
            else:
                read_class(op, value)
                read_inner(value)

    walk(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
    return list(chars)[:12], list(words)[:5]


def pumps(pattern: re.Pattern[str]) -> Iterator[tuple[str, str, str]]:
    """(head, what is repeated, tail)."""
    chars, words = letters(pattern)
    parts = [*chars, *words]
    for part in parts:
        yield "", part, ""
        yield "", part, "\x00"
    if len(pattern.pattern) > 200:
        parts = parts[:7]
    for one, other in itertools.permutations(parts, 2):
        yield one, other, "\x00"
        yield "", one + other, "\x00"
    yield from lists(parts)


def lists(parts: list[str]) -> Iterator[tuple[str, str, str]]:
    """A token and a separator, again and again: numbers parted by commas, and text after the last of them."""
    tokens = dict.fromkeys(
        ["12", "word", *[part for part in parts if part.isalnum()][:4]]
    )
    for token, separator, tail in itertools.product(tokens, SEPARATORS, TAILS):
        yield token, separator + token, tail


def text(pump: tuple[str, str, str], size: int) -> str:
    head, part, tail = pump
    return head + part * (size // len(part)) + tail


def uses(found: Found) -> list[Callable[[str], Any]]:
    methods = found.methods or {"sub"}
    out: list[Callable[[str], Any]] = []
    if methods - {"match", "fullmatch"}:
        out.append(lambda s: found.pattern.sub("", s))
    out += [getattr(found.pattern, m) for m in ("match", "fullmatch") if m in methods]
    return out


def seconds(use: Callable[[str], Any], text: str, repeats: int = 1) -> float:
    best = float("inf")
    for _ in range(repeats):
        began = time.thread_time()
        use(text)
        best = min(best, time.thread_time() - began)
    return best


def screened(use: Callable[[str], Any], pump: tuple[str, str, str]) -> float:
    """Seconds for 4,000 characters; infinite when it is clear from fewer that they would be too many.

    A pattern whose time doubles with each repetition would never be done with 250 characters: it is given a few
    repetitions first, then a quarter more at a time, of which each takes at most a little longer than the limit.
    """
    repetitions, few = 4, []
    while (size := repetitions * len(pump[1])) < 250:
        few.append((size, SLOW))
        repetitions += max(1, repetitions // 4)
    for size, limit in (*few, (250, SLOW), (1_000, SLOW * 2), (SCREEN, SLOW * 10)):
        taken = seconds(use, text(pump, size))
        if taken > limit and seconds(use, text(pump, size), 3) > limit:
            return float("inf")
    return taken


def pumped(found: Found) -> tuple[int, str]:
    """How many strings the pattern was given, and what is wrong with its time; "" where nothing is."""
    strings = 0
    for use in uses(found):
        worst = (0.0, ("", "", ""))
        for pump in pumps(found.pattern):
            taken = screened(use, pump)
            strings += 1
            if taken == float("inf"):
                return (
                    strings,
                    f"{found.pattern.pattern!r}: more than {SLOW} s for a few characters of {pump!r}",
                )
            worst = max(worst, (taken, pump))
        if worst[0] < SLOW / 10:
            continue  # nothing to see: 40,000 characters take a few milliseconds
        times = [seconds(use, text(worst[1], size), 3) for size in SIZES]
        growth = [b / max(a, 1e-6) for a, b in itertools.pairwise(times)]
        if min(growth) >= 3 and times[-1] >= 0.01:
            return strings, f"{found.pattern.pattern!r} on {worst[1]!r}: {times}"
    return strings, ""
