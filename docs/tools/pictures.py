"""``python docs/tools/pictures.py``: draws the pictures of README and site into ``docs/pictures``, as small SVG.

The curves are of ``benchmarks/results/default.json``, the lines of what the default keeps of a file that ships.
All have a light card of their own, so that they are read on dark pages too.
"""

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "pictures"
INK, GREY, LINE, KEPT, DROPPED = "#1f2933", "#5a6672", "#c3ccd5", "#0b6e4f", "#a33a2c"
SETS = ("NQ", "HotpotQA", "MuSiQue", "2Wiki", "OTT-QA", "DSTC11", "XQuAD", "PoisonedNQ", "RAMDocs")
WAYS = {"default": KEPT, "cosine": "#2563a8", "BM25": "#b7791f", "first": "#8a8f98"}


def text(x: float, y: float, words: str, size: int = 13, fill: str = INK, **more: str) -> str:
    rest = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}"{rest}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, lines: list[str], fill: str = "#eef2f6") -> str:
    drawn = [
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}" stroke="{LINE}"/>'
    ]
    top = y + height / 2 - 8 * (len(lines) - 1) + 4
    for n, line in enumerate(lines):
        weight = "bold" if n == 0 else "normal"
        drawn.append(text(x + width / 2, top + 16 * n, line, 11, text_anchor="middle", font_weight=weight))
    return "".join(drawn)


def arrow(x1: float, y1: float, x2: float, y2: float, said: str = "") -> str:
    label = text((x1 + x2) / 2 + 5, (y1 + y2) / 2 - 4, said, 11, GREY) if said else ""
    return f'<path d="M{x1:g} {y1:g} L{x2:g} {y2:g}" stroke="{GREY}" marker-end="url(#a)"/>{label}'


def card(width: int, height: int, title: str, drawn: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" width="{width}"'
    point = f'<path d="M0 0 L8 4 L0 8 z" fill="{GREY}"/>'
    size = 'markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"'
    marker = f'<defs><marker id="a" {size}>{point}</marker></defs>'
    ground = f'<rect width="{width}" height="{height}" rx="10" fill="#ffffff"/>'
    font = 'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif"'
    return f"{head} {font}><title>{escape(title)}</title>{marker}{ground}{''.join(drawn)}</svg>\n"


WIDE = 380  # pixels: what a telephone shows without scrolling


def architecture() -> str:
    steps = [
        ("Your retriever", "or a tool, or a PDF"),
        ("Denoiser", "END scores, or S2A: a model selects"),
        ("Kept and dropped", "places, scores, reasons"),
        ("Your model", "writes a draft"),
        ("Judge", "checks it against the evidence"),
        ("Answer with verdict", ""),
    ]
    drawn = []
    for n, lines in enumerate(steps):
        fill = "#e3f1ea" if n in (2, 5) else "#eef2f6"
        drawn.append(box(14, 14 + 74 * n, 256, 48, [line for line in lines if line], fill))
        if n:
            drawn.append(arrow(142, 62 + 74 * (n - 1), 142, 14 + 74 * n, "supported" if n == 5 else ""))
    back = f'<path d="M270 334 H372 V260 H274" fill="none" stroke="{GREY}" marker-end="url(#a)"/>'
    said = ("not supported:", "search again,", "try again")
    drawn += [back, *(text(277, 282 + 15 * n, line, 11, GREY) for n, line in enumerate(said))]
    return card(WIDE, 452, "From retriever to checked answer", drawn)


def which() -> str:
    rows = [
        (["Does the message hold", "opinions?"], ["S2A on the message", "clears what is asked"]),
        (["Five passages", "or fewer?"], ["Nothing", "pass them all"]),
        (["50 labelled", "questions?"], ["rag-denoise evaluate", "from 200 on: fit"]),
        (["Sentences, and may it", "cost a call?"], ["S2A select", "a model names them"]),
        (["Your model's weights", "here, and labels?"], ["END with a probe", "its early layers score"]),
    ]
    drawn = [text(8, 26, "Which one? Yes: right, no: down", 14, font_weight="bold")]
    for n, (asked, outcome) in enumerate(rows):
        y = 42 + 74 * n
        drawn += [box(8, y, 164, 46, asked), arrow(172, y + 23, 204, y + 23), arrow(90, y + 46, 90, y + 74)]
        drawn.append(box(208, y, 164, 46, outcome, "#e3f1ea"))
    y = 42 + 74 * len(rows)
    drawn.append(box(8, y, 164, 46, ["The default", "END, small encoder"], "#e3f1ea"))
    drawn.append(box(208, y, 164, 46, ["Must answers hold?", "Add LLM-Augmenter"], "#e3f1ea"))
    return card(WIDE, y + 60, "Which method to take", drawn)


def rows() -> dict[str, dict]:
    found = json.loads((ROOT / "benchmarks" / "results" / "default.json").read_text("utf-8"))["rows"]
    return {row["measure"]: row for row in found}


def gold_kept(found: dict[str, dict], which_set: str, way: str) -> dict:
    rest = "" if way == "default" else ", as many passages"
    return found[f"{which_set}: gold kept, {way}{rest}"]


def curve() -> str:
    """Gold kept on each set, with the default's interval; sets from most to least gold kept by the default."""
    found = rows()
    order = sorted(SETS, key=lambda s: -gold_kept(found, s, "default")["value"])
    left, top, width, row = 96, 76, 270, 34

    def x(value: float) -> float:
        return left + width * value

    bottom = top + row * len(order)
    drawn = [text(14, 26, "Gold passages kept, at equal numbers", 15, font_weight="bold")]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        drawn.append(f'<path d="M{x(tick):g} {top - 8} V{bottom - 10}" stroke="{LINE}"/>')
        drawn.append(text(x(tick), bottom + 6, f"{tick:g}", 11, GREY, text_anchor="middle"))
    for n, name in enumerate(order):
        y = top + row * n + 8
        low, high = gold_kept(found, name, "default")["interval"]
        drawn.append(f'<path d="M{x(low):.1f} {y} H{x(high):.1f}" stroke="{KEPT}" stroke-width="2"/>')
        drawn.append(text(14, y, name, 11))
        kept = found[f"{name}: text kept, default"]["value"]
        drawn.append(text(14, y + 13, f"{kept:.0%} of text", 10, GREY))
        for way, colour in reversed(WAYS.items()):
            at = x(gold_kept(found, name, way)["value"])
            drawn.append(f'<circle cx="{at:.1f}" cy="{y}" r="{5 if way == "default" else 4}" fill="{colour}"/>')
    for m, (way, colour) in enumerate(WAYS.items()):
        drawn.append(f'<circle cx="{20 + 90 * m}" cy="46" r="5" fill="{colour}"/>')
        drawn.append(text(30 + 90 * m, 50, way, 12))
    return card(
        WIDE,
        bottom + 16,
        "Gold passages kept on nine sets by the default, cosine, BM25 and the first passages",
        drawn,
    )


SHOWN_FILE = "course-navigation-2.md"
SHOWN_QUESTION = "What does the second navigation course cost somebody who is not a member?"


def kept_and_dropped() -> str:
    """One of the files that ship, line by line: what the default keeps of it for a question about all of them."""
    from denoise_core import Passage
    from denoise_core.embedded import default_denoiser, sample_folder

    passages = [Passage(path.read_text("utf-8"), path.name) for path in sorted(sample_folder().iterdir())]
    result = default_denoiser().denoise(SHOWN_QUESTION, passages)
    total = sum(len(passage.text) for passage in passages)
    share = sum(len(passage.text) for passage in result.passages) / total
    whole = next(passage.text for passage in passages if passage.id == SHOWN_FILE)
    spans = next(passage.source_spans for passage in result.passages if passage.id == SHOWN_FILE)
    drawn = [
        text(14, 26 + 18 * n, line, 14, font_weight="bold") for n, line in enumerate(wrap(SHOWN_QUESTION, 48))
    ]
    drawn.append(text(14, 66, f"{len(passages)} files, {share:.0%} of the text kept; of this one:", 12, GREY))
    drawn.append(text(14, 84, SHOWN_FILE, 12, font_family="monospace"))
    y, start = 92, 0
    for line in whole.splitlines(keepends=True):
        end = start + len(line.rstrip())
        is_kept = any(span.start < end and start < span.end for span in spans)
        start += len(line)
        if not line.strip():
            continue
        lines = wrap(line.strip(), 54)[: 3 if is_kept else 1]
        colour = KEPT if is_kept else DROPPED
        drawn.append(f'<rect x="14" y="{y}" width="4" height="{15 * len(lines)}" fill="{colour}"/>')
        for n, words in enumerate(lines):
            struck = {} if is_kept else {"text_decoration": "line-through"}
            fill = INK if is_kept else GREY
            drawn.append(text(24, y + 12 + 15 * n, words, 11, fill, **struck))
        y += 15 * len(lines) + 3
    return card(WIDE, y + 14, "Lines of one file, kept and dropped for a question", drawn)


def drawn() -> Iterator[tuple[str, str]]:
    yield "architecture.svg", architecture()
    yield "which.svg", which()
    yield "sets.svg", curve()
    yield "kept.svg", kept_and_dropped()


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for name, content in drawn():
        (OUT / name).write_text(content, "utf-8")
