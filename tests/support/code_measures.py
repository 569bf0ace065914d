"""Measures of source code: size in syntax nodes, names, statements and prose.

Size is the number of expressions and statements, never of lines, so writing more densely gains nothing.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

NAME_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
IRREGULAR_PARTICIPLES = frozenset(
    """
    said told found given made left held kept read written shown begun taken brought known spent gone cut put lost
    sent chosen meant stood
    """.split()  # noqa: SIM905  a list of literals is no easier to read
)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def parse_file(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def python_files(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


@cache
def nodes_of(path: Path) -> int:
    nodes = ast.walk(parse_file(path))
    return sum(isinstance(node, (ast.expr, ast.stmt)) for node in nodes)


def count_nodes(paths: list[Path]) -> int:
    """Number of expressions and statements."""
    return sum(map(nodes_of, paths))


def nodes_per_line(paths: list[Path]) -> float:
    return count_nodes(paths) / sum(map(count_code_lines, paths))


def docstring_nodes(tree: ast.Module) -> list[ast.Constant]:
    """The string constants that are docstrings of modules, classes and functions."""
    docstrings = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str()) as docstring), *_]:
                    docstrings.append(docstring)
    return docstrings


@cache
def count_code_lines(path: Path) -> int:
    """Lines that are neither blank, comment nor docstring."""
    docstring_lines = set()
    for docstring in docstring_nodes(parse_file(path)):
        docstring_lines.update(range(docstring.lineno, docstring.end_lineno + 1))
    count = 0
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        is_code = (
            line.strip()
            and not line.strip().startswith("#")
            and number not in docstring_lines
        )
        count += bool(is_code)
    return count


@dataclass
class Statements:
    """How statements are written; rates are per 1,000 code lines."""

    comprehensions: float
    ternaries: float
    comments: float


def measure_statements(paths: list[Path]) -> Statements:
    lines = sum(count_code_lines(path) for path in paths)
    comprehensions = ternaries = comments = 0
    for path in paths:
        nodes = list(ast.walk(parse_file(path)))
        comprehensions += sum(isinstance(node, COMPREHENSIONS) for node in nodes)
        ternaries += sum(isinstance(node, ast.IfExp) for node in nodes)
        comments += len(comments_of(path))
    per_thousand = 1000 / lines
    return Statements(
        comprehensions * per_thousand,
        ternaries * per_thousand,
        comments * per_thousand,
    )


def comments_of(path: Path) -> list[tuple[int, str]]:
    """Line number and text of each comment; markers for tools (``noqa``, ``type:``) are no comments."""
    comments = []
    for token in tokenize.generate_tokens(
        io.StringIO(path.read_text(encoding="utf-8")).readline
    ):
        text = token.string.lstrip("# ")
        if token.type == tokenize.COMMENT and not text.startswith(
            ("noqa", "type:", "pyright:", "fmt:", "!")
        ):
            comments.append((token.start[0], text))
    return comments


@dataclass
class Names:
    """The names that code defines: classes, functions, parameters and assigned names."""

    defined: list[str] = field(default_factory=list)
    classes: Counter = field(default_factory=Counter)
    module_functions: Counter = field(default_factory=Counter)

    @property
    def mean_length(self) -> float:
        return sum(map(len, self.defined)) / len(self.defined)

    def share(self, test) -> float:
        return sum(map(test, self.defined)) / len(self.defined)


def collect_names(paths: list[Path]) -> Names:
    names = Names()
    for path in paths:
        tree = parse_file(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names.classes[node.name.lstrip("_")] += 1
                names.defined.append(node.name)
            elif isinstance(node, FUNCTIONS) and not node.name.startswith("__"):
                names.defined.append(node.name)
            elif isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
                names.defined.append(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.defined.append(node.id)
        for node in tree.body:
            if isinstance(node, FUNCTIONS):
                names.module_functions[node.name.lstrip("_")] += 1
    return names


def is_one_word(name: str) -> bool:
    words = NAME_WORDS.findall(name)
    return len(words) == 1 and len(words[0]) > 1


def is_one_letter(name: str) -> bool:
    return len(name.strip("_")) == 1


def is_bare_participle(name: str) -> bool:
    words = NAME_WORDS.findall(name)
    if len(words) != 1:
        return False
    word = words[0].lower()
    return word in IRREGULAR_PARTICIPLES or (word.endswith("ed") and len(word) > 4)


def shared_share(counter: Counter) -> float:
    """Share of definitions whose name is defined more than once."""
    shared = sum(count for count in counter.values() if count > 1)
    return shared / sum(counter.values())


def user_facing_texts(path: Path) -> list[tuple[int, str]]:
    """Line and text of docstrings, comments, and every string with a space in it (errors, help, reasons)."""
    texts = comments_of(path)
    for node in ast.walk(parse_file(path)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value
        ):
            texts.append((node.lineno, node.value))
    return texts
