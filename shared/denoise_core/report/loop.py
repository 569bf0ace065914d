"""One run as an HTML page: attempts with their verdicts, the evidence, what was cited, every call."""

from __future__ import annotations

import zlib
from typing import Any

from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.prompts import cited_passages, with_title_line
from denoise_core.report.checked import claim_sections
from denoise_core.report.context import render_template


def to_html(answer: Answer) -> str:
    """A complete page without scripts or outside parts. All texts are escaped. Needs the extra ``cli``."""
    return render_template("run.html", title=answer.memory.question, **_values(answer))


def fragment(answer: Answer) -> str:
    """The same for a notebook, with its own styles."""
    return render_template("run.html", **_values(answer))


def _values(answer: Answer) -> dict[str, Any]:
    """The answer, and the claims of the text that was sent, where these were judged, with their quotes."""
    best = answer.memory.best
    own = best if best is not None and answer.text == best.candidate else None
    mark = zlib.crc32(
        f"{answer.memory.question} {answer.text}".encode("utf-8", "replace")
    )
    claims = claim_sections(
        answer.text,
        own.verdict.claims if own else (),
        own.evidence if own else (),
        f"c{mark:08x}-",
    )
    cited = (
        {p.id for p in cited_passages(best.candidate, best.evidence)} if best else set()
    )
    return {
        "answer": answer,
        "best": best,
        "cited": cited,
        "titled": with_title_line,
        **claims,
    }
