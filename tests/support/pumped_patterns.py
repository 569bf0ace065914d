"""Every regular expression of the package, and strings that are to show which is slow.

Those that a module holds are taken from the imported module, those in a call of `re` from its source. Each is
pumped with strings made from its own letters and classes.
"""

import ast
import importlib
import itertools
import re
import time
import timeit
from collections import defaultdict, namedtuple
from dataclasses import fields, is_dataclass

from code_measures import PACKAGES, modules_of, parse_file

try:
    from re import _constants as code
    from re import _parser as parser

    CLASSES = {
        code.CATEGORY_DIGIT: "7", code.CATEGORY_SPACE: "\t", code.CATEGORY_WORD: "w",
        code.CATEGORY_NOT_DIGIT: "q", code.CATEGORY_NOT_SPACE: "q", code.CATEGORY_NOT_WORD: "-",
    }  # fmt: skip
except ImportError:  # pragma: no cover
    code = parser = None

METHODS = {
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


Found = namedtuple("Found", ("where", "pattern", "methods"))


def held_in(value, depth=4):
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


def patterns_of(name, path):
    """Patterns that a module holds or gives to `re`, with the methods that it calls of them."""
    methods_of = defaultdict(set)
    literals = []
    for node in ast.walk(parse_file(path)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name("re"), attr=method),
                args=[ast.Constant(str() as text), *_],
            ) if method in METHODS:
                literals.append((node.lineno, re.compile(text), method))
            case ast.Attribute(value=value, attr=method) if method in METHODS:
                methods_of[ast.unparse(value).partition("[")[0]].add(method)
    for line, pattern, method in literals:
        yield Found(f"{name}:{line}", pattern, frozenset({method}))
    for variable, value in vars(importlib.import_module(name)).items():
        for pattern in held_in(value):
            yield Found(f"{name}:{variable}", pattern, frozenset(methods_of[variable]))


BY_USE = {}
for _name, _path in modules_of(PACKAGES).items():
    if "import re\n" in _path.read_text(encoding="utf-8"):
        for _found in patterns_of(_name, _path):
            BY_USE.setdefault((_found.pattern, _found.methods), _found)
ALL = list(BY_USE.values())


def letters(pattern):
    """Characters and words that the pattern speaks of."""
    chars = dict.fromkeys(" \na0A")
    words = {}

    def walk(parsed):
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


def pumps(pattern):
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


def text(pump, size):
    head, part, tail = pump
    return head + part * (size // len(part)) + tail


def uses(found):
    methods = found.methods & {"match", "fullmatch"}
    calls = [getattr(found.pattern, method) for method in methods]
    if methods != found.methods or not methods:
        calls.append(lambda s: found.pattern.sub("", s))
    return calls


def seconds(use, text, repeats=1):
    clock = time.thread_time
    return min(
        timeit.repeat(
            lambda: use(text),
            timer=clock,
            number=1,
            repeat=repeats,
        )
    )


def screened(use, pump):
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


def pumped(found):
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
