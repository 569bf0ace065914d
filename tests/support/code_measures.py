"""Measures of source code: size in syntax nodes, names, statements and prose.

Size is the number of expressions and statements, never of lines, so writing more densely gains nothing.
"""

import ast
import io
import re
import tokenize
from collections import Counter
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

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "denoise_core": ROOT / "shared",
    "langchain_denoise": ROOT,
    "llamaindex_denoise": ROOT,
}
"""Where each package of the product lies."""


def modules_of(packages):
    """The file of every module of these packages, by its name."""
    modules = {}
    for package, base in packages.items():
        for path in python_files(base / package):
            name = ".".join(path.relative_to(base).with_suffix("").parts)
            modules[name.removesuffix(".__init__")] = path
    return modules


@cache
def parse_file(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def python_files(*folders):
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


@cache
def count_in_file(path, kinds):
    return sum(isinstance(node, kinds) for node in ast.walk(parse_file(path)))


def count_nodes(paths, kinds=(ast.expr, ast.stmt)):
    """Number of expressions and statements, or of nodes of other kinds."""
    return sum(count_in_file(path, kinds) for path in paths)


def nodes_per_line(paths):
    return count_nodes(paths) / sum(map(count_code_lines, paths))


def docstring_nodes(tree):
    """The string constants that are docstrings of modules, classes and functions."""
    docstrings = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str()) as docstring), *_]:
                    docstrings.append(docstring)
    return docstrings


@cache
def count_code_lines(path):
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


def comments_of(path):
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


class Names:
    """The names that code defines: classes, functions, parameters and assigned names."""

    def __init__(self):
        self.defined = []
        self.classes, self.module_functions = Counter(), Counter()

    @property
    def mean_length(self):
        return sum(map(len, self.defined)) / len(self.defined)

    def share(self, test):
        return sum(map(test, self.defined)) / len(self.defined)


def collect_names(paths):
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


def is_one_word(name):
    words = NAME_WORDS.findall(name)
    return len(words) == 1 and len(words[0]) > 1


def is_one_letter(name):
    return len(name.strip("_")) == 1


def is_bare_participle(name):
    words = NAME_WORDS.findall(name)
    if len(words) != 1:
        return False
    word = words[0].lower()
    return word in IRREGULAR_PARTICIPLES or (word.endswith("ed") and len(word) > 4)


def shared_names(counter):
    """The names that are defined more than once, with how often."""
    return {name: count for name, count in counter.items() if count > 1}


def user_facing_texts(path):
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
