"""The laws that every run of the loop keeps."""

from denoise_core.augmenter.answer import Outcome, StopReason
from denoise_core.augmenter.memory import attempt_rank
from denoise_core.augmenter.prompts import QUESTION_ANSWERING
from denoise_core.text.delimit import copies_envelope, envelope_markers


def check_answer(answer):
    """The laws that can be read off one answer.

    Supported is what passed and nothing else; what is sent is the best attempt as it was written, the earliest
    of equals, or a sentence where nobody wrote one; evidence is nothing that a user or a model wrote; every draft
    that came back is an attempt or a failure in the trace.
    """
    memory = answer.memory
    best = memory.best
    supported = answer.outcome is Outcome.SUPPORTED
    assert supported == (best is not None and best.verdict.passed), (
        f"{answer.outcome} but best is {best}"
    )
    assert supported == (answer.stop_reason is StopReason.PASSED), (
        f"{answer.outcome}, {answer.stop_reason}"
    )
    last = memory.last
    is_believed = last is not None and last.is_abstention and best is last
    if best is not None and not is_believed:
        better = [
            item for item in memory.attempts if attempt_rank(item) > attempt_rank(best)
        ]
        assert not better, f"a better attempt than the one chosen: {better[0]}"
        earliest = next(
            item for item in memory.attempts if attempt_rank(item) == attempt_rank(best)
        )
        assert earliest is best, "an earlier attempt is as good as the one chosen"
    if answer.outcome in (Outcome.SUPPORTED, Outcome.UNSUPPORTED, Outcome.UNKNOWN):
        assert best is not None, "an answer was sent that no attempt holds"
        is_withheld = (
            answer.outcome is Outcome.UNKNOWN
            and answer.text == QUESTION_ANSWERING.abstention_text
        )
        assert answer.text == best.candidate or is_withheld, (
            "the text sent is not the best attempt's"
        )
    if answer.outcome is Outcome.ABSTAINED and best is not None:
        assert answer.text == best.candidate or not best.is_abstention, (
            "a model's abstention was rewritten"
        )
    assert all(p.counts for item in memory.attempts for p in item.evidence), (
        "held against what is no evidence"
    )
    drafts = [
        event
        for event in answer.trace.events
        if event.tag == "draft" and is_kept_draft(event)
    ]
    assert len(drafts) == memory.draft_count, (
        f"{len(drafts)} drafts came back, {memory.draft_count} are kept"
    )
    for earlier in memory.attempts[:-1]:
        if earlier.verdict.outcome == "unknown":
            assert not earlier.feedback, "unknown was fed back"


def is_kept_draft(event):
    """Whether a text came back that does not only copy its prompt's delimiters."""
    text = getattr(event.reply, "text", None)
    if not isinstance(text, str):
        return False
    markers = envelope_markers(event.effect.messages)
    return not copies_envelope(text, markers)
