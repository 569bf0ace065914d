"""Texts of any length in forms whose cost once grew faster than their length, or whose reply did."""

from denoise_core import Passage


def nested_list(size):
    """Each item below the one before it, 200 levels deep; then again."""
    lines = []
    length = number = 0
    while length < size:
        lines.append("  " * (number % 200) + f"- item {number}\n")
        length += len(lines[-1])
        number += 1
    return "".join(lines)


def repeated(unit, before="", after=""):
    return lambda size: before + unit * (size // len(unit)) + after


def numbered(form):
    return lambda size: "".join(form(n) for n in range(size // 4))[:size]


TEXTS = {
    "nested list": nested_list,
    "one run of backticks": repeated("`"),
    "runs of backticks": numbered(lambda n: "`" * (n % 40 + 1) + " a "),
    "table of one column": repeated("value here\n", "name\n"),
    "open brackets": repeated("["),
    "closed brackets": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "Markdown table": repeated("| one | two |\n", "| a | b |\n|---|---|\n"),
    "CJK without stops": repeated("東京大学の建物"),
    "unclosed style": repeated("<style>a{b:c}", "<html><body><p>a</p>"),
    "unclosed script": repeated("<script>var a=1;", "<html><body><p>a</p>"),
    "unclosed comments": repeated("<!-- a", "<html><p>a</p>"),
    "headings without text": repeated("# a\n"),
    "headings of six levels": numbered(
        lambda n: "#" * (n % 6 + 1) + f" head {n}\n\ntext of it {n}.\n\n"
    ),
    "paragraphs": repeated("The tower was finished in 1890. It is old.\n\n"),
    "one line": repeated("The tower was finished in 1890. "),
    "no stops": repeated("tower harbour old "),
    "no blanks": repeated("a"),
    "JSON records": lambda size: (
        "["
        + ", ".join(f'{{"a": {n}, "b": "some text"}}' for n in range(size // 31))
        + "]"
    ),
    "text in JSON": repeated("It is one. ", '{"report": "', '"}'),
    "JSON lines": repeated('{"a": 1, "t": "some text"}\n'),
    "CSV": repeated("1,two words,3\n", "a,b,c\n"),
    "nested blocks": lambda size: (
        "<html><body>" + "<div>" * (size // 11) + "</div>" * (size // 11)
    ),
    "HTML list": repeated("<li>item one</li>", "<html><body><ul>", "</ul>"),
    "HTML table": repeated("<tr><td>one</td><td>two</td></tr>", "<table>", "</table>"),
    "log": numbered(lambda n: f"2024-01-01 10:00:{n % 60:02} ERROR it failed {n}\n"),
    "transcript": repeated("Anna: I saw it.\nBen: So did I.\n"),
    "deep quotes": numbered(lambda n: ">" * (n % 50 + 1) + " quoted words\n"),
    "mail": repeated(
        "> On Monday you wrote:\n> yes\n\nno\n\n", "From: a@b.c\nSubject: x\n\n"
    ),
    "source code": repeated("def f(a):\n    return a + 1\n\n\n"),
    "code fences": repeated("```\ncode\n"),
    "bullets": repeated("- item one two\n"),
    "blank lines": repeated("\n"),
    "quotation marks": repeated('"'),
    "rows as Python prints them": lambda size: (
        "[" + ", ".join(f"({n}, 'a')" for n in range(size // 10)) + "]"
    ),
}


def numbered_texts(template, count):
    """A text for each number from 0, with the number where the template has ``{n}``."""
    return [template.replace("{n}", str(n)) for n in range(count)]


def passages_of(texts):
    """Passages of these texts, with their numbers from 0 as ids."""
    return [Passage(text, str(n)) for n, text in enumerate(texts)]
