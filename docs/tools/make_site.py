"""``make docs``: the site, built strictly into ``build/site/html``.

The pages are laid into ``build/site/docs`` as they stand, with what the repository keeps elsewhere (changelog,
security, contributing) and the reference. Parts between marks become tabs. Links that leave ``docs`` become
addresses of the repository, which ``pyproject.toml`` names. A page that the menu leaves out, a link that leads
nowhere and any warning of the builder end the build.
"""

import itertools
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from html import escape, unescape
from pathlib import Path

from reference import pages

ROOT = Path(__file__).parents[2]
DOCS, STAGE = ROOT / "docs", ROOT / "build" / "site"
BROUGHT = {"CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md", "CONTRIBUTING.md": "contributing.md"}
PICTURES = {".svg", ".png"}
NOT_ON_SITE = {"listing", "tools", "style.md"}  # for other places, and for contributors
BAR = re.compile(r"(?<=`)[^`\n]*\\\|[^`\n]*(?=`)")
NO_CONTENTS = "---\nhide:\n  - toc\n---\n\n"  # the width is for the script
TABS = re.compile(r"<!-- tabs -->\n(.*?)<!-- end tabs -->\n", re.S)  # on the site each ### between them is a tab
TELEPHONE, LETTER, BETWEEN = (358, 7.6, 20)  # pixels: the page's width, a letter in a table, the space of a column
LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)#\s]+)")


def repository() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"].rstrip("/")


def linked(text: str, source: Path) -> str:
    """``text`` of the page at ``source``, its links as they are on the site; raises where a file is missing.

    A picture from outside ``docs`` is brought along. A bar in the code of a table needs its backslash where the
    repository is read and would show it here.
    """
    to_page = {(ROOT / name).resolve(): page for name, page in BROUGHT.items()}

    def placed(found: re.Match[str]) -> str:
        target = (source.parent / found[1]).resolve()
        if not target.exists():
            raise SystemExit(f"{source.relative_to(ROOT)}: no such file: {found[1]}")
        up = "../" * (len(source.relative_to(DOCS).parts) - 1) if source.is_relative_to(DOCS) else ""
        if target in to_page:
            return up + to_page[target]
        on_site = target.is_relative_to(DOCS) and target.relative_to(DOCS).parts[0] not in NOT_ON_SITE
        if on_site and target.suffix in {".md", *PICTURES}:
            return up + str(target.relative_to(DOCS)) if not source.is_relative_to(DOCS) else found[1]
        if target.suffix in PICTURES:
            (STAGE / "docs" / "brought").mkdir(parents=True, exist_ok=True)
            shutil.copy(target, STAGE / "docs" / "brought")
            return f"{up}brought/{target.name}"
        kind = "tree" if target.is_dir() else "blob"
        return f"{repository()}/{kind}/main/{target.relative_to(ROOT)}"

    return BAR.sub(lambda cell: cell[0].replace("\\|", "|"), LINK.sub(placed, text))


def tabbed(text: str) -> str:
    def tab(found: re.Match[str]) -> str:
        name, body = found[1].split("\n", 1)
        return f'=== "{name}"\n{textwrap.indent(body, "    ")}'

    return TABS.sub(lambda tabs: re.sub(r"^### (.*?)(?=^### |\Z)", tab, tabs[1], flags=re.M | re.S), text)


def stage() -> None:
    """Write every page of the site, and the builder's settings beside them."""
    shutil.rmtree(STAGE, ignore_errors=True)
    for source in sorted(DOCS.rglob("*")):
        target = STAGE / "docs" / source.relative_to(DOCS)
        if source.suffix == ".md" and source.relative_to(DOCS).parts[0] not in NOT_ON_SITE:
            target.parent.mkdir(parents=True, exist_ok=True)
            text = tabbed(linked(source.read_text("utf-8"), source))
            target.write_text(NO_CONTENTS + text if "<!-- script: " in text else text, "utf-8")
        elif source.suffix in {".css", *PICTURES} or source.name == "llms.txt":
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for name, page in BROUGHT.items():
        source = ROOT / name
        (STAGE / "docs" / page).write_text(linked(source.read_text("utf-8"), source), "utf-8")
    (STAGE / "docs" / "reference").mkdir()
    written = pages()
    for module, text in written.items():
        (STAGE / "docs" / "reference" / f"{module}.md").write_text(text, "utf-8")
    menu = ", ".join(
        f'{{ "{module.removeprefix("denoise_core.")}" = "reference/{module}.md" }}' for module in written
    )
    settings = (DOCS / "tools" / "zensical.toml").read_text("utf-8")
    (STAGE / "zensical.toml").write_text(
        settings.replace("REPOSITORY", repository()).replace('"REFERENCE"', menu), "utf-8"
    )


def stacked(page: str) -> str:
    """Marks the tables that do not fit a telephone, and each cell with its column; `site.css` stacks them."""

    def plain(cell: str) -> str:
        return unescape(re.sub(r"<[^>]+>", "", cell)).strip()

    def marked(found: re.Match[str]) -> str:
        rows = [
            re.findall(r"<t[hd][^>]*>.*?</t[hd]>", row, re.S)
            for row in re.findall(r"<tr>.*?</tr>", found[0], re.S)
        ]
        longest = [
            max(len(word) for cell in column for word in plain(cell).split() or [""]) for column in zip(*rows)
        ]
        if sum(longest) * LETTER + len(longest) * BETWEEN <= TELEPHONE:
            return found[0]
        names = itertools.cycle(plain(cell) for cell in rows[0])
        labelled = re.sub(r"<td", lambda _: f'<td data-label="{escape(next(names))}"', found[0])
        return labelled.replace("<table", "<table data-stack", 1)

    return re.sub(r"<table>.*?</table>", marked, page, flags=re.S)


def in_menu(entries: list) -> set[str]:
    """The pages that a menu names."""
    found = set()
    for entry in entries:
        inner = next(iter(entry.values())) if isinstance(entry, dict) else entry
        found |= in_menu(inner) if isinstance(inner, list) else {inner}
    return found


def main() -> int:
    stage()
    menu = in_menu(tomllib.loads((STAGE / "zensical.toml").read_text("utf-8"))["project"]["nav"])
    written = {str(p.relative_to(STAGE / "docs")) for p in (STAGE / "docs").rglob("*.md")}
    if menu != written:
        raise SystemExit(f"menu and pages differ: {sorted(menu ^ written)}")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    status = subprocess.run(command, cwd=STAGE, check=False).returncode
    for page in (STAGE / "html").rglob("*.html"):
        page.write_text(stacked(page.read_text("utf-8")), "utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
