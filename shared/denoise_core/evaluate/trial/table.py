"""An evaluation as rows of text, for a terminal and a page."""

from __future__ import annotations

from collections.abc import Sequence

from denoise_core.evaluate.datasets import BadRecord
from denoise_core.evaluate.trial.evaluation import Evaluation
from denoise_core.evaluate.trial.figures import Mean


def rows_of(found: Evaluation) -> list[list[str]]:
    """Header and one row a way; columns that no question can tell of are left out."""
    header = [
        "way",
        "tokens",
        "gold kept",
        "95 %",
        "right",
        "exact",
        "F1",
        "harmed",
        "helped",
        "net, 95 %",
        "seconds",
        "read",
        "written",
        "cached",
        "money",
    ]
    rows = [header]
    for f in found.figures:
        net = f.change.net if f.change is not None else None
        rows.append(
            [
                f"{f.name} *" if f.name == found.recommended.name else f.name,
                f"{f.tokens:,.0f} ({f.share:.0%})",
                _percent(f.gold),
                _interval(f.gold),
                _percent(f.right),
                "" if f.exact is None else f"{f.exact:.0%}",
                "" if f.f1 is None else f"{f.f1:.2f}",
                "" if f.change is None else str(len(f.change.harmed)),
                "" if f.change is None else str(len(f.change.helped)),
                "" if net is None else f"{100 * net.value:+.1f} ({100 * net.low:+.1f} to {100 * net.high:+.1f})",
                "" if f.seconds is None else f"{f.seconds:.3f}",
                "" if f.read is None else f"{f.read:,.0f}",
                "" if f.written is None else f"{f.written:,.0f}",
                "" if f.cached is None else f"{f.cached:,.0f}",
                "" if f.money is None else f"{f.money:.6f}",
            ]
        )
    used = [i for i in range(len(header)) if i == 0 or any(row[i] for row in rows[1:])]
    return [[row[i] for i in used] for row in rows]


def short_rows_of(found: Evaluation) -> list[list[str]]:
    """As `rows_of`, for a terminal of 80 columns: intervals in brackets, harmed and helped in one column."""
    rows = [["way", "tokens", "", "gold kept", "right", "hurt/help", "net (95 %)", "s"]]
    for f in found.figures:
        change = f.change
        rows.append(
            [
                f"{f.name} *" if f.name == found.recommended.name else f.name,
                f"{f.tokens:,.0f}",
                f"{f.share:.0%}",
                "" if f.gold is None else f"{f.gold.value:.0%} ({100 * f.gold.low:.0f}-{100 * f.gold.high:.0f})",
                _percent(f.right),
                "" if change is None else f"{len(change.harmed)}/{len(change.helped)}",
                ""
                if change is None
                else "{:+.0f} ({:+.0f} to {:+.0f})".format(
                    *(100 * x for x in (change.net.value, change.net.low, change.net.high))
                ),
                "" if f.seconds is None else f"{f.seconds:.2f}",
            ]
        )
    used = [i for i in range(len(rows[0])) if i == 0 or any(row[i] for row in rows[1:])]
    return [[row[i] for i in used] for row in rows]


def told(found: Evaluation) -> list[str]:
    """What must be said beside the table, a sentence or two each."""
    by = found.gold_from
    known = {
        "labels": "by labels",
        "answers": "by the answers that stand in them",
        "model": "by a model's labels",
        "made": "by the pieces that questions were made from",
        "cited": "by what recorded answers cite",
        "nothing": "unknown",
    }
    gold = ", ".join(f"{n} {known[name]}" for name, n in sorted(by.items()))
    out = [f"{found.questions} questions; gold passages: {gold}; answered by: {found.answered_by or 'nobody'}."]
    out += [f"{a[:1].upper()}{a[1:]}: rougher than a person's labels." for a in found.about]
    if found.budget is not None:
        out.append(f"Ways that rank were given {found.budget:,} tokens a question, as many as the default kept.")
    out += [f"{str(a)[:1].upper()}{str(a)[1:]}." for a in found.apart]
    out.append(f"Recommended (*): {found.recommended.name}: {found.recommended.why}.")
    if any(f.read is not None for f in found.figures) and all(f.money is None for f in found.figures):
        out.append("Money is not told: no price was given (--price READ,WRITTEN).")
    if found.bad:
        out.append(f"Left out: {_places(found.bad)}.")
    if found.noted:
        out.append(f"To be known: {_places(found.noted)}.")
    for f in found.figures:
        if f.failed:
            out.append(
                f"{f.name} failed on {len(f.failed)} questions, first line {f.failed[0][0]}: {f.failed[0][1]}."
            )
    return out


def _places(given: Sequence[BadRecord]) -> str:
    shown = "; ".join(f"line {b.place}: {b.reason}" for b in given[:5])
    more = f"; and {len(given) - 5} more" if len(given) > 5 else ""
    return f"{len(given)} ({shown}{more})"


def _percent(mean: Mean | None) -> str:
    return "" if mean is None else f"{mean.value:.0%}"


def _interval(mean: Mean | None) -> str:
    return "" if mean is None else f"{mean.low:.0%} to {mean.high:.0%}"
