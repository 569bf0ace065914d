"""One run as an HTML page: attempts with their verdicts, the evidence, and every call."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.prompts import cited_passages, with_title_line
from denoise_core.report.checked import claim_sections
from denoise_core.report.context import render_template
from denoise_core.support.judging import ClaimVerdict
from denoise_core.types import Passage


def to_html(answer: Answer) -> str:
    """Render a page. Needs the extra ``cli``."""
    return render_template("run.html", title=answer.memory.question, **_values(answer))


def fragment(answer: Answer) -> str:
    """Render a part for a notebook, with its own styles."""
    return render_template("run.html", **_values(answer))


def _values(answer: Answer) -> dict[str, Any]:
    """The answer, and the claims of the text that was sent, if they were judged."""
    best_attempt = answer.memory.best
    cited_ids = set()
    claim_verdicts: Sequence[ClaimVerdict] = ()
    answer_evidence: Sequence[Passage] = ()
    if best_attempt is not None:
        cited_ids = {passage.id for passage in cited_passages(best_attempt)}
        if answer.text == best_attempt.candidate:
            claim_verdicts = best_attempt.verdict.claims
            answer_evidence = best_attempt.evidence
    # Two answers in one notebook need different HTML ids.
    run_text = f"{answer.memory.question} {answer.text}"
    id_checksum = zlib.crc32(run_text.encode("utf-8", "replace"))
    return {
        "answer": answer,
        "best": best_attempt,
        "cited": cited_ids,
        "titled": with_title_line,
        **claim_sections(
            answer.text, claim_verdicts, answer_evidence, f"c{id_checksum:08x}-"
        ),
    }
