"""Tables of the pages, made from the files of ``benchmarks/results``."""

import json
import textwrap
from pathlib import Path

from pictures import SETS, gold_kept, rows

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
NAMES = {"2Wiki": "2WikiMultihopQA", "DSTC11": "DSTC11 track 5", "XQuAD": "XQuAD, paragraphs of one article"}
UNSEEN = {"PoisonedNQ", "RAMDocs"}


def interval(row: dict) -> str:
    low, high = row["interval"]
    return f"{row['value']:.3f} ({low:.2f} to {high:.2f})"


def gold() -> str:
    """Gold kept by the default and by others that keep as many passages, on every set; the best is bold."""
    found = rows()
    lines = ["| set | questions | text kept | default | cosine | BM25 | first |", "|---|---|---|---|---|---|---|"]
    for name in SETS:
        ways = {way: gold_kept(found, name, way) for way in ("default", "cosine", "BM25", "first")}
        best = max(round(row["value"], 3) for row in ways.values())
        cells = [
            f"**{interval(row)}**" if round(row["value"], 3) == best else interval(row) for row in ways.values()
        ]
        shown = NAMES.get(name, name) + (" (not fitted on)" if name in UNSEEN else "")
        questions, kept = (found[f"{name}: questions"]["value"], found[f"{name}: text kept, default"]["value"])
        lines.append(f"| {shown} | {questions:.0f} | {kept:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def behind() -> str:
    """Where the default keeps less gold than another way, in words."""
    found = rows()
    said = []
    for name in SETS:
        ours = gold_kept(found, name, "default")["value"]
        better = []
        for way in ("BM25", "cosine", "first"):
            theirs = gold_kept(found, name, way)["value"]
            if round(theirs, 3) > round(ours, 3):
                called = "the first passages as they came" if way == "first" else way
                better.append(f"{called} {theirs:.3f}")
        if better:
            said.append(f"- {NAMES.get(name, name)}: {', '.join(better)}, the default {ours:.3f}")
    return "\n".join(said)


WAYS = {
    "everything": "all passages",
    "cosine, as much as the default": "cosine, as much text as the default",
    "the default": "**the default** (no model)",
    "cosine, as much as select": "cosine, as much text as `select`",
    "select": "**`select`** with a large language model",
}
JUDGES = {
    "words": "shared words (no model)",
    "judge by units, prompts 2": "**your model as the judge** (a large language model)",
}
READ = ("the whole file", "what the default keeps", "what cosine keeps in as much")


def real_model() -> tuple[dict, dict[str, dict]]:
    record = json.loads((RESULTS / "real_model.json").read_text("utf-8"))
    return record["about"], {r["measure"]: r for r in record["rows"]}


def buys() -> str:
    """What is kept of HotpotQA's questions, and which answers pass a judge: figures that fit the first screen."""
    about, found = real_model()
    sets = [m.removesuffix(": questions") for m in found if m.startswith("HotpotQA") and m.endswith(": questions")]
    counts = {name: found[f"{name}: questions"]["value"] for name in sets}
    total = sum(counts.values())
    lines = ["| what the model reads | gold passages kept | answer still there | text |", "|---|---|---|---|"]
    for way, shown in WAYS.items():
        cells = []
        for what in ("gold passages kept", "answer kept", "text kept"):
            mean = sum(n * found[f"{name}: {what}, {way}"]["value"] for name, n in counts.items()) / total
            cells.append(f"{mean:.0%}")
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    lines += ["", verdicts()]
    whole, default, cosine = (
        f"{found[f'ordinary files: answers right, from {way}']['value']:.0%}" for way in READ
    )
    text = f"{found['ordinary files: text shown, what the default keeps']['value']:.0%}"
    asked = found["ordinary files: asked"]["value"]
    right, wrong = found["right answers"]["value"], found["wrong answers"]["value"]
    said = " and ".join(f"{n:.0f} to version {name[-1]}" for name, n in counts.items())
    told = (
        f"{total:.0f} HotpotQA questions of ten documents; {right:.0f} right and {wrong:.0f} wrong answers. "
        f"Of {asked:.0f} questions about handbooks, minutes, logs, mails, tables and web pages "
        f"a large language model answers {whole} from the whole file, {default} from what the default keeps "
        f"({text} of the text), {cosine} from as much by cosine. "
        f"Replies of {about['model']}, recorded {about['date']}, are replayed ({said} of the prompts): "
        "`make bench ONLY=real_model DATA=folder`."
    )
    return "\n".join([*lines, "", *textwrap.wrap(told, 118, break_on_hyphens=False)])


FILTERS = {
    "no filter": "no filter",
    "cosine, top 2": "cosine, `top_n=2` (LlamaIndex's default)",
    "cosine, top 4": "cosine, `top_n=4` (LangChain's default)",
    "BM25, top 4": "BM25, `top_n=4`",
    "BM25 at as much text": "BM25, as much text as the default",
    "cosine at as much text": "cosine, as much text as the default",
    "cross-encoder, top 4": "cross-encoder, `top_n=4`",
    "the default": "**the default** of rag-denoise",
}


def _filter_rows() -> dict[str, dict]:
    record = json.loads((RESULTS / "company_filters.json").read_text("utf-8"))
    return {row["measure"]: row for row in record["rows"]}


def filters() -> str:
    """What filters keep of company files on which nothing was tuned."""
    found = _filter_rows()
    lines = [
        "| filter | needed text kept | with its title | text kept | tokens a question | ms |",
        "|---|---|---|---|---|---|",
    ]
    for name, shown in FILTERS.items():
        if f"unseen set, {name}: text" not in found or name == "BM25 at as much text":
            continue
        cells = []
        for what in ("needed text", "needed text with its title", "text"):
            cells.append(f"{found[f'unseen set, {name}: {what}']['value']:.0%}")
        for what, form in (("tokens", ".0f"), ("time", ".2g")):
            row = found.get(f"unseen set, {name}: {what}")
            cells.append("" if row is None else format(row["value"], form))
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    record = json.loads((RESULTS / "company.json").read_text("utf-8"))
    selected = {row["measure"]: row["value"] for row in record["rows"]}
    cells = []
    for what in ("needed text", "both", "text"):
        cells.append(f"{selected[f'unseen set, select, answerable: {what}']:.0%}")
    lines.append(f"| **`select`**: a large language model names the pieces | {' | '.join(cells)} | | |")
    return "\n".join(lines)


def company() -> str:
    """Needed text with its title, and text kept, on both sets, with intervals."""
    found = _filter_rows()
    names = ("unseen set", "development half")
    counts = [f"{name}, {found[f'{name}: questions']['value']:.0f}" for name in names]
    lines = ["| filter | " + " | text | ".join(counts) + " | text |", "|---|---|---|---|---|"]
    for name, shown in FILTERS.items():
        if f"{names[0]}, {name}: text" not in found:
            continue
        cells = []
        for set_name in names:
            cells.append(interval(found[f"{set_name}, {name}: needed text with its title"]))
            cells.append(f"{found[f'{set_name}, {name}: text']['value']:.2f}")
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return "\n".join(lines)


def verdicts() -> str:
    """Which answers pass a judge."""
    _, found = real_model()
    lines = ["| who checks the answer | right answers passed | wrong answers passed |", "|---|---|---|"]
    for judge, shown in JUDGES.items():
        right, wrong = (found[f"{label} answers passed, {judge}"]["value"] for label in ("right", "wrong"))
        lines.append(f"| {shown} | {right:.0%} | {wrong:.0%} |")
    return "\n".join(lines)


def recorded() -> str:
    """Every row of `real_model` that compares ways, without "everything", which keeps all."""
    _, found = real_model()
    lines = ["| set, questions | way | gold passages | answer | text |", "|---|---|---|---|---|"]
    for name in (m.removesuffix(": questions") for m in found if m.endswith(": questions")):
        shown, version = name.split(", prompts ")
        count = found[f"{name}: questions"]["value"]
        for way in WAYS:
            if way == "everything":
                continue
            cells = [interval(found[f"{name}: {what}, {way}"]) for what in ("gold passages kept", "answer kept")]
            size = found[f"{name}: text kept, {way}"]["value"]
            told = f"`select`, prompts {version}" if way == "select" else way
            lines.append(f"| {shown}, {count:.0f} | {told} | {cells[0]} | {cells[1]} | {size:.2f} |")
    return "\n".join(lines)


def checking() -> str:
    """Right and wrong answers that each judge of `real_model` passes."""
    about, found = real_model()
    lines = ["| judge | model, date, prompts | right passed | wrong passed |", "|---|---|---|---|"]
    for judge in JUDGES:
        name, _, version = judge.partition(", prompts ")
        who = f"{about['model']}, {about['date']}, judge {version}" if version else "none"
        cells = [interval(found[f"{label} answers passed, {judge}"]) for label in ("right", "wrong")]
        lines.append(f"| {name} | {who} | {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES = {
    "filters": filters,
    "gold": gold,
    "behind": behind,
    "buys": buys,
    "checking": checking,
    "company": company,
    "recorded": recorded,
    "verdicts": verdicts,
}
