"""Words that do not come back in README and docs; `docs/style.md` has what to write in their place."""

import json
import re

import pytest
from code_measures import ROOT

GONE_WORDS = re.compile(
    r"\b(?:mend(?:s|ed|ing)?|b(?:ear|ears|earing|ore|orne)\b[^.|]{0,30}\bout|beside|stands?|stood"
    r"|lies? (?:in|at|on|there|where|beside|halfway|behind)|lay (?:in|at|on)|in (?:the|its|their) place of"
    r"|in its place your|who(?:so)?ever|by another hand"
    r"|(?:held|holds?) (?:it |them |(?:a|an|the|each) \w+ |)against|aimed at|in the mean"
    r"|what becomes of|what comes of|nowhere|save (?:what|where|those)|sp(?:oke|eaks?) for nothing)\b",
    re.IGNORECASE,
)
QUOTED = re.compile(
    r"```text\n.*?```|`[^`\n]+`", re.DOTALL
)  # what programs print, and names
NAMED = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [
    p for p in [*NAMED, *sorted((ROOT / "docs").rglob("*.md"))] if p.name != "style.md"
]
PAGES = [p for p in PAGES if "tools" not in p.relative_to(ROOT).parts]


def found(text):
    return [m[0] for m in GONE_WORDS.finditer(QUOTED.sub("", text))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_words_of_the_list_do_not_come_back(page):
    assert not found(page.read_text("utf-8")), "docs/style.md says what to write"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "cookbook").glob("*.ipynb")), ids=lambda p: p.stem
)
def test_nor_in_the_recipes(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    assert not found(
        "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    )
