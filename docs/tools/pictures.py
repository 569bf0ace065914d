"""``python docs/tools/pictures.py``: draws the pictures of README and site into ``docs/pictures``, as small SVG.

The curves are of ``benchmarks/results/default.json``, the passages of what the default keeps and drops. All stand
on a light card of their own, so that they are read on dark pages too.
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
        drawn.append(text(x + width / 2, top + 16 * n, line, 12, text_anchor="middle", font_weight=weight))
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


def architecture() -> str:
    drawn = [
        box(20, 70, 130, 56, ["Your retriever", "or tool, or PDF"]),
        arrow(150, 98, 196, 98),
        box(
            200,
            30,
            190,
            136,
            ["Denoiser", "END: scores", "S2A: a model selects", "or any scorer,", "or a chain of them"],
        ),
        arrow(390, 98, 436, 98),
        box(440, 60, 150, 76, ["Kept and dropped", "spans, scores,", "why; nothing lost"], "#e3f1ea"),
        arrow(590, 98, 636, 98),
        box(640, 70, 110, 56, ["Your model", "writes a draft"]),
        arrow(695, 126, 695, 186),
        box(610, 190, 170, 60, ["Judge", "holds it against evidence"]),
        arrow(610, 220, 520, 220),
        text(528, 212, "does not hold", 11, GREY),
        box(330, 190, 190, 60, ["Feedback", "repair, search, try again"]),
        arrow(330, 220, 85, 130),
        arrow(695, 250, 695, 284, "holds"),
        box(610, 288, 170, 40, ["Answer with verdict"], "#e3f1ea"),
        text(
            20, 310, "The core knows neither framework; LangChain and LlamaIndex parts convert, call it,", 12, GREY
        ),
        text(20, 327, "and convert back.", 12, GREY),
    ]
    return card(800, 345, "From retriever to checked answer", drawn)


def which() -> str:
    drawn = [
        text(20, 28, "Which one", 16, font_weight="bold"),
        box(20, 50, 210, 44, ["Is the question", "free of opinion?"]),
        arrow(230, 72, 486, 72, "no"),
        box(490, 50, 290, 44, ["S2A on the message", "it clears what is asked"], "#e3f1ea"),
        arrow(125, 94, 125, 126, "yes"),
        box(20, 130, 210, 44, ["More than a few passages?"]),
        arrow(230, 152, 486, 152, "no"),
        box(490, 130, 290, 44, ["Nothing: pass them all", "below about five, dropping saves little"]),
        arrow(125, 174, 125, 206, "yes"),
        box(20, 210, 210, 44, ["50 labelled questions", "at hand?"]),
        arrow(230, 232, 486, 232, "yes: measure first"),
        box(490, 210, 290, 44, ["rag-denoise evaluate", "200 or more: rag-denoise fit"], "#e3f1ea"),
        arrow(125, 254, 125, 286, "no"),
        box(20, 290, 210, 44, ["Must it be sentences,", "and may it cost calls?"]),
        arrow(230, 312, 486, 312, "yes"),
        box(490, 290, 290, 44, ["S2A, variant select", "the model names sentences to keep"], "#e3f1ea"),
        arrow(125, 334, 125, 366, "no"),
        box(20, 370, 210, 44, ["Do your own model's weights", "run where you are?"]),
        arrow(230, 392, 486, 392, "yes, and labels"),
        box(490, 370, 290, 44, ["END with a probe of your model", "its first layers score passages"], "#e3f1ea"),
        arrow(125, 414, 125, 446, "no"),
        box(20, 450, 210, 44, ["The default", "END with embedded scores"], "#e3f1ea"),
        box(
            490, 450, 290, 44, ["Must answers hold? Add the loop", "LLM-Augmenter, around any of these"], "#e3f1ea"
        ),
    ]
    return card(800, 512, "Which method to take", drawn)


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
    left, top, width, height = 60, 50, 700, 250

    def x(n: int) -> float:
        return left + 30 + n * (width - 60) / (len(order) - 1)

    def y(value: float) -> float:
        return top + height * (1 - value)

    drawn = [text(20, 28, "Gold passages kept, at equal numbers of passages", 15, font_weight="bold")]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        drawn.append(f'<path d="M{left} {y(tick):g} H{left + width}" stroke="{LINE}"/>')
        drawn.append(text(left - 8, y(tick) + 4, f"{tick:g}", 11, GREY, text_anchor="end"))
    for n, name in enumerate(order):
        low, high = gold_kept(found, name, "default")["interval"]
        drawn.append(f'<path d="M{x(n):.1f} {y(low):.1f} V{y(high):.1f}" stroke="{KEPT}" stroke-width="2"/>')
        kept = found[f"{name}: text kept, default"]["value"]
        drawn.append(text(x(n), top + height + 20, name, 11, text_anchor="middle"))
        drawn.append(text(x(n), top + height + 36, f"{kept:.0%} of text", 10, GREY, text_anchor="middle"))
    for m, (way, colour) in enumerate(WAYS.items()):
        values = [gold_kept(found, name, way)["value"] for name in order]
        points = " ".join(f"{x(n):.1f},{y(v):.1f}" for n, v in enumerate(values))
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn += [f'<circle cx="{x(n):.1f}" cy="{y(v):.1f}" r="3" fill="{colour}"/>' for n, v in enumerate(values)]
        drawn.append(f'<circle cx="{left + 20 + 130 * m}" cy="{top + height + 58}" r="5" fill="{colour}"/>')
        drawn.append(text(left + 32 + 130 * m, top + height + 62, way, 12))
    return card(
        800, 375, "Gold passages kept on nine sets by the default, cosine, BM25 and the first passages", drawn
    )


def kept_and_dropped() -> str:
    """What the default keeps of a question that ships: kept text plain, dropped text struck through."""
    from denoise_core.embedded import default_denoiser, sample

    question = sample()[2]
    passages = question.passages[:8]
    result = default_denoiser().denoise(question.text, passages)
    scores = {chunk.span.passage_id: (chunk.score, True) for chunk in result.kept}
    scores |= {c.span.passage_id: (c.score, False) for c in result.dropped if c.span.passage_id not in scores}
    drawn = [text(20, 28, question.text[0].upper() + question.text[1:] + "?", 15, font_weight="bold")]
    y = 52
    for passage in passages:
        score, kept = scores[passage.id]
        colour = KEPT if kept else DROPPED
        lines = wrap(passage.text, 100)[:2]
        lines[-1] += " ..." if len(wrap(passage.text, 100)) > 2 else ""
        drawn.append(f'<rect x="20" y="{y}" width="4" height="{16 * len(lines) + 6}" fill="{colour}"/>')
        drawn.append(text(34, y + 16, f"{score:.2f}", 12, colour))
        drawn.append(text(74, y + 16, "kept" if kept else "dropped", 12, colour))
        for n, line in enumerate(lines):
            struck = {} if kept else {"text_decoration": "line-through"}
            drawn.append(text(138, y + 16 + 16 * n, line, 12, INK if kept else GREY, **struck))
        y += 16 * len(lines) + 16
    return card(820, y + 4, "Passages of one question, kept and dropped", drawn)


def drawn() -> Iterator[tuple[str, str]]:
    yield "architecture.svg", architecture()
    yield "which.svg", which()
    yield "sets.svg", curve()
    yield "kept.svg", kept_and_dropped()


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for name, content in drawn():
        (OUT / name).write_text(content, "utf-8")
