"""Tables of the pages, made from the files of ``benchmarks/results``."""

import json
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
    lines = [
        "| set | questions | text kept | default | cosine | BM25 | first |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in SETS:
        ways = {way: gold_kept(found, name, way) for way in ("default", "cosine", "BM25", "first")}
        best = max(round(row["value"], 3) for row in ways.values())
        cells = [
            f"**{interval(row)}**" if round(row["value"], 3) == best else interval(row) for row in ways.values()
        ]
        shown = NAMES.get(name, name) + (" (not fitted on)" if name in UNSEEN else "")
        questions, kept = found[f"{name}: questions"]["value"], found[f"{name}: text kept, default"]["value"]
        lines.append(f"| {shown} | {questions:.0f} | {kept:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def behind() -> str:
    """Where the default keeps less gold than another way, in words."""
    found = rows()
    said = []
    for name in SETS:
        ours = gold_kept(found, name, "default")["value"]
        for way in ("BM25", "cosine", "first"):
            theirs = gold_kept(found, name, way)["value"]
            if round(theirs, 3) > round(ours, 3):
                called = "the first passages as they came" if way == "first" else way
                said.append(f"- {NAMES.get(name, name)}: {called} {theirs:.3f}, the default {ours:.3f}")
    return "\n".join(said)


def gpu() -> str:
    """One pass and END on a GPU, as last measured there; what to run where nobody has."""
    path = RESULTS / "gpu_end_wallclock.json"
    if not path.is_file():
        return "Not measured: no GPU was at hand. `python benchmarks/gpu_end_wallclock.py` fills this table."
    record = json.loads(path.read_text("utf-8"))
    found = {r["measure"]: r["value"] for r in record["rows"]}
    ways = list(dict.fromkeys(m.split(" tokens, ")[1] for m in found if " tokens, " in m and m[0].isdigit()))
    ways = [w for w in ways if "/" not in w and "peak" not in w]
    cases = list(dict.fromkeys(m.split(" tokens, ")[0] for m in found if " tokens, " in m and m[0].isdigit()))
    lines = [
        f"Seconds, and MiB above the weights at the peak, on {record.get('about', {}).get('device', 'a GPU')}:",
        "",
    ]
    lines += ["| shape, tokens | " + " | ".join(ways) + " |", "|---|" + "---|" * len(ways)]
    for case in cases:
        cells = []
        for way in ways:
            name = f"{case} tokens, {way}"
            peak = found.get(f"{name}, peak memory above the weights")
            cells.append("" if name not in found else f"{found[name]:.3f}" + (f" ({peak:.0f})" if peak else ""))
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def answers() -> str:
    """Right answers by the small reader that ships, from what each way keeps."""
    found = {r["measure"]: r for r in json.loads((RESULTS / "answers.json").read_text("utf-8"))["rows"]}
    ways = ("everything", "default", "cosine", "BM25", "first", "gold")
    sets = [m.removesuffix(": questions") for m in found if m.endswith(": questions")]
    lines = ["| set | questions | " + " | ".join(ways) + " |", "|---|---|" + "---|" * len(ways)]
    for name in sets:
        cells = [f"{found[f'{name}: right from {way}']['value']:.2f}" for way in ways]
        lines.append(f"| {name} | {found[f'{name}: questions']['value']:.0f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def judges() -> str:
    """What the judge that ships passes and leaves open at each operating point, set by set."""
    found = {r["measure"]: r for r in json.loads((RESULTS / "judges.json").read_text("utf-8"))["rows"]}
    points = ("lenient", "even", "strict")
    lines = [
        f"| set | answers | AUC | words' AUC | {' | '.join(f'{p}: right / wrong / unknown' for p in points)} |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in (m.removesuffix(": answers") for m in found if m.endswith(": answers")):
        auc = found[f"{name}: shipped judge"]
        cells = [name, f"{found[f'{name}: answers']['value']:.0f}", interval(auc) + _missed(auc)]
        cells.append(f"{found[f'{name}: words alone']['value']:.2f}")
        for point in points:
            rows = [found[f"{name}: {point}, {what}"] for what in ("right passed", "wrong passed", "unknown")]
            cells.append(" / ".join(f"{r['value']:.2f}{_missed(r)}" for r in rows))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _missed(row: dict) -> str:
    return "" if row["holds"] is not False else f" (**missed**, {row['target']})"


def laboratory() -> str:
    """Answers and gold kept, and compute saved, by END and by cheaper ways, level by level."""
    found = {r["measure"]: r for r in json.loads((RESULTS / "end_laboratory.json").read_text("utf-8"))["rows"]}
    ways = ("everything", "END", "cosine", "BM25", "first chunks")
    lines = ["| level | " + " | ".join(ways) + " |", "|---|" + "---|" * len(ways)]
    for level in sorted({m.split(",")[0] for m in found}):
        cells = []
        for way in ways:
            right = found[f"{level}, {way}: right"]
            compute = found[f"{level}, {way}: compute, of reading everything"]["value"]
            kept = "" if way == "everything" else f"{found[f'{level}, {way}: gold kept']['value']:.2f}, "
            low, high = right["interval"]
            cells.append(f"{right['value']:.2f} ({low:.2f} to {high:.2f}); {kept}{compute:.2f}")
        lines.append(f"| {level.removeprefix('level ')} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


TABLES = {
    "gold": gold,
    "behind": behind,
    "answers": answers,
    "judges": judges,
    "laboratory": laboratory,
    "gpu": gpu,
}
