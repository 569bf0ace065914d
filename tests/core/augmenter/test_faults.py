"""Fault injection: any effect may fail or return nonsense at any point: an answer, or a mistake that is raised."""

import pytest
from augmenter_doubles import check_loop, next_outcome
from faults import RAISED
from hypothesis import given, settings
from hypothesis import strategies as st

from denoise_core import (
    Budget,
    BudgetExceeded,
    DenoiseResult,
    Drop,
    Passage,
    Reply,
    Span,
    Usage,
)
from denoise_core.augmenter import Augmenter, Consolidator, LoopLimits, Outcome, Rules
from denoise_core.augmenter.utility import Groundedness
from denoise_core.errors import is_user_error
from denoise_core.support import judges
from denoise_core.support.judges import FunctionJudge
from denoise_core.support.quoting import LLMJudge

EVIDENCE = (
    Passage("The tower was completed in 1889.", "a"),
    Passage("Rome is in Italy.", "b"),
)

FAULTS = st.sampled_from(
    [
        BudgetExceeded("tokens", 1, 2),
        *(make() for name, make in RAISED.items() if name != "StopIteration"),
    ]
)
NONSENSE = st.sampled_from(
    [
        None,
        7,
        b"bytes",
        "text",
        [None],
        {"a": 1},
        object,
        float("nan"),
        Reply(None),
        Reply(None, Usage(1, 1)),
    ]
)
TEXT = st.sampled_from(
    [
        "1889",
        "Completed in 1889 [1].",
        "1925 [9]",
        "unknown",
        "",
        "\x00",
        "1 supported 1.1\nanswers",
        "1 contradicted 1.1\nanswers",
        "```json\n[]\n```",
        "[1]" * 50,
    ]
)
SERVED = st.one_of(
    FAULTS,
    NONSENSE,
    TEXT.map(Reply),
    TEXT.map(lambda text: Reply(text, Usage(5, 5))),
)
FOUND = st.one_of(
    FAULTS, NONSENSE, st.just(EVIDENCE), st.just(()), st.just(EVIDENCE[:1] * 3)
)
DENOISED = st.one_of(
    FAULTS,
    NONSENSE,
    st.just(DenoiseResult("q", EVIDENCE[:1], (Drop(Span("b", 0, 17), "low", 0.1),))),
    st.just(
        DenoiseResult(
            "q", (), (Drop(Span("nobody", 0, 1), "low"), Drop(Span("a", 0, 500), "low"))
        )
    ),
    st.just(DenoiseResult("q", (Passage("Rewritten.", "a", is_rewritten=True),))),
)
SCORED = st.one_of(
    FAULTS, st.sampled_from([0.0, 0.4, 1.0, None, float("nan"), 7.0, "high"])
)


class Outside:
    """Plays a list of outcomes, the last for ever, to whoever asks: model, retriever, denoiser, function."""

    def __init__(self, outcomes):
        self.left = list(outcomes)

    def next(self, *_):
        return next_outcome(self.left)

    async def anext(self, *_):
        return self.next()

    complete = retrieve = denoise = next
    acomplete = aretrieve = adenoise = anext


def outcomes(kind):
    return st.lists(kind, min_size=1, max_size=6)


UTILITIES = st.sampled_from(["groundedness", "quoting", "function"])


@pytest.fixture(autouse=True, scope="module")
def one_claim_at_a_time():
    """A list of scores is played in the order of the calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judges, "_CLAIMS_AT_ONCE", 1)
        yield


@settings(max_examples=100)
@given(
    outcomes(SERVED),
    outcomes(FOUND),
    outcomes(DENOISED),
    outcomes(SCORED),
    UTILITIES,
    st.one_of(st.none(), st.integers(0, 8)),
    st.sampled_from(["always", "never"]),
    st.integers(1, 4),
)
def test_whatever_the_outside_does_the_result_is_an_answer(
    reply_text, results, cleaned, scored, judge, calls, consult, failures
):
    def make():
        utility = {
            "groundedness": Groundedness,
            "quoting": LLMJudge,
            "function": lambda: FunctionJudge(Outside(scored).next),
        }[judge]()
        return Augmenter(
            Outside(reply_text),
            Consolidator(
                Outside(results), wide=(Outside(results),), denoiser=Outside(cleaned)
            ),
            judge=utility,
            policy=Rules(consult=consult, without_evidence="draft"),
            budget=Budget(calls=calls),
            limits=LoopLimits(failures=failures),
        )

    try:
        answer = check_loop(make, "When was the tower completed?")
    except Exception as error:
        if not is_user_error(error):
            raise
        return
    assert answer.outcome in Outcome
    used = sum(
        event.tag != "denoise"
        and "BudgetExceeded: budget of" not in (event.error or "")
        for event in answer.trace.events
    )
    assert calls is None or used <= calls
