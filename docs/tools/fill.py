"""``python docs/tools/fill.py [SCRIPT ... | tables]``: writes into the pages what is made from elsewhere.

Between ``<!-- script: NAME -->`` and ``<!-- end -->`` stand the code of ``how_to/NAME.py`` and what it prints;
between ``<!-- table: NAME -->`` and ``<!-- end -->`` a table of `tables`. Without arguments every script is
run, with ``tables`` none. The curves over all sets are drawn anew each time.
"""

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pictures import OUT, curve
from results import HOW_TO, SCRIPTS, page_of, printed_by, result_of
from tables import TABLES

DOCS = HOW_TO.parent
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
__all__ = ["BLOCK", "OUT", "SCRIPTS", "curve", "filled", "page_of", "printed_by", "result_of"]

BLOCK = re.compile(r"(<!-- (?P<kind>script|table): (?P<name>[\w-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.S)


def script_block(name: str, printed: str) -> str:
    code = (HOW_TO / f"{name}.py").read_text("utf-8").strip()
    return f"```python\n{code}\n```\n\nIt prints:\n\n```text\n{printed}\n```"


def filled(text: str, printed: Callable[[str], str | None]) -> str:
    """``text`` with its blocks as they should be; ``printed`` says what a script prints, None to leave it."""

    def body(found: re.Match[str]) -> str:
        if found["kind"] == "table":
            made = TABLES[found["name"]]()
        else:
            said = printed(found["name"])
            if said is None:
                said = (re.findall(r"```text\n(.*?)\n```", found["body"], re.S) or [""])[0]
            made = script_block(found["name"], said)
        return f"{found[1]}\n{made}\n\n{found[5]}"

    return BLOCK.sub(body, text)


def main(asked: list[str]) -> None:
    known = {}
    for name in [n for n in asked or SCRIPTS if n != "tables"]:
        with tempfile.TemporaryDirectory() as folder:
            known[name] = result_of(name, Path(folder))
        print(f"{name}:\n{known[name]}\n")
    for page in PAGES:
        before = page.read_text("utf-8")
        after = filled(before, known.get)
        if after != before:
            page.write_text(after, "utf-8")
    (OUT / "sets.svg").write_text(curve(), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
