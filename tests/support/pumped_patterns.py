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
import timeit
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
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
CALLS = frozenset(
    [
        "compile",
        "search",
        "match",
        "fullmatch",
        "split",
        "findall",
        "finditer",
        "sub",
        "subn",
    ]
)
RE_CALL = re.compile(rf"re\.(?:{'|'.join(CALLS)})\(")
SCREEN, SIZES = 4_000, (10_000, 20_000, 40_000)
SEPARATORS = (", ", "; ", " and ", "\n", ",\n", " - ", "  ")
TAILS = (" are relevant.", "\x00")
SLOW = 0.004  # seconds for 4,000 characters: a quadratic pattern takes ten times that, a linear one a tenth


# Patterns made of escaped words, alternatives of literals without a repetition, and those that a user gives.
LOCAL = {
    "'(' + mark_pattern + ')'",
    "must_keep",
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


def held_in(value: Any, depth: int = 4) -> Iterator[re.Pattern[str]]:
    """The compiled patterns of a value: itself, or in its mappings, sequences and dataclasses."""
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    if is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, dict):
        value = list(value.values())
    if depth and isinstance(value, (list, tuple)):
        for inner in value:
            yield from held_in(inner, depth - 1)


def patterns_of(name: str, path: Path) -> Iterator[Found]:
    """Patterns that a module holds or gives to `re`, with the methods that it calls of them."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    methods_of = defaultdict(set)
    variable_of = {}  # by the call that is assigned
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in CALLS:
            variable = ast.unparse(node.value).partition("[")[0]
            methods_of[variable].add(node.attr)
        elif isinstance(node, ast.Assign):
            variable_of[node.value] = ast.unparse(node.targets[0])
    if "re" not in methods_of:
        return
    names = dict(vars(importlib.import_module(name)))
    held = set()
    for variable, value in names.items():
        for pattern in held_in(value):
            held.add(pattern)
            methods = frozenset(methods_of[variable])
            yield Found(f"{name}:{variable}", pattern, methods)
    for node in nodes:
        if not isinstance(node, ast.Call) or not RE_CALL.match(ast.unparse(node)):
            continue
        source = ast.unparse(node.args[0])
        where = f"{name}:{node.lineno}"
        flags = [k.value for k in node.keywords if k.arg == "flags"]
        methods = {node.func.attr}
        if methods == {"compile"}:
            flags += node.args[1:]
            methods = methods_of[variable_of.get(node)]
        try:
            text, *flag = (eval(ast.unparse(n), names) for n in (node.args[0], *flags))
        except NameError:
            assert source in LOCAL or held, f"{where}: {source} is kept nowhere"
            continue
        pattern = re.compile(text, *flag)
        if pattern not in held:
            yield Found(where, pattern, frozenset(methods))


BY_USE: dict[Any, Found] = {}
UNREAD: list[str] = []  # modules of a framework that is not installed
for _name, _path in modules():
    try:
        for _found in patterns_of(_name, _path):
            BY_USE.setdefault((_found.pattern, _found.methods), _found)
    except ImportError as error:
        if (error.name or "").startswith("denoise_core"):
            raise
        UNREAD.append(_name)
ALL = list(BY_USE.values())


def letters(pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Characters and words that the pattern speaks of."""
    chars: dict[str, None] = dict.fromkeys(" \na0A")
    words: dict[str, None] = {}

    def walk(parsed: Any) -> None:
        run = ""
        for item in parsed:
            match item:
                case (code.LITERAL, value):
                    run += chr(value)
                    chars[chr(value)] = None
                    continue
                case (code.NOT_LITERAL, value) | (code.RANGE, (value, _)):
                    chars[chr(value)] = None
                case (code.CATEGORY, kind):
                    chars[CLASSES.get(kind, "x")] = None
                case tuple() | list() | parser.SubPattern():
                    walk(item)
            words[run] = None
            run = ""
        words[run] = None

    walk(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
    return list(chars)[:12], [word for word in words if len(word) > 1][:5]


def pumps(pattern: re.Pattern[str]) -> Iterator[tuple[str, str, str]]:
    """(head, what is repeated, tail)."""
    chars, words = letters(pattern)
    parts = [*chars, *words]
    yield from itertools.product([""], parts, ["", "\x00"])
    if len(pattern.pattern) > 200:
        parts = parts[:7]
    for one, other in itertools.permutations(parts, 2):
        yield one, other, "\x00"
        yield "", one + other, "\x00"
    # Numbers and words parted by separators, and text after the last of them.
    tokens = dict.fromkeys(["12", "word", *filter(str.isalnum, parts)])
    for token, separator, tail in itertools.product([*tokens][:6], SEPARATORS, TAILS):
        yield token, separator + token, tail


def text(pump: tuple[str, str, str], size: int) -> str:
    head, part, tail = pump
    return head + part * (size // len(part)) + tail


def uses(found: Found) -> list[Callable[[str], Any]]:
    methods = found.methods & {"match", "fullmatch"}
    calls = [getattr(found.pattern, method) for method in methods]
    if methods != found.methods or not methods:
        calls.append(lambda s: found.pattern.sub("", s))
    return calls


def seconds(use: Callable[[str], Any], text: str, repeats: int = 1) -> float:
    clock = time.thread_time
    return min(
        timeit.repeat(
            lambda: use(text),
            timer=clock,
            number=1,
            repeat=repeats,
        )
    )


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
        worst, worst_pump = 0.0, ("", "", "")
        for pump in pumps(found.pattern):
            taken = screened(use, pump)
            strings += 1
            if taken == float("inf"):
                problem = f"more than {SLOW} s for a few characters of {pump!r}"
                return strings, f"{found.pattern.pattern!r}: {problem}"
            worst, worst_pump = max((worst, worst_pump), (taken, pump))
        if worst < SLOW / 10:
            continue  # nothing to see: 40,000 characters take a few milliseconds
        times = [seconds(use, text(worst_pump, size), 3) for size in SIZES]
        growth = [b / max(a, 1e-6) for a, b in itertools.pairwise(times)]
        if min(growth) >= 3 and times[-1] >= 0.01:
            return strings, f"{found.pattern.pattern!r} on {worst_pump!r}: {times}"
    return strings, ""
