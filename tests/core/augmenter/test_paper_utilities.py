"""The paper's utilities: knowledge F1 of words, and self-criticism by a model, on replies as models write them."""

import pytest
from augmenter_doubles import RIGHT, WRONG, check_loop
from judging import TEXT, judged

from denoise_core.augmenter import (
    Augmenter,
    KnowledgeF1,
    LoopLimits,
    Outcome,
    SelfCriticism,
)
from denoise_core.augmenter.paper_utilities import read_criticism
from denoise_core.testing import FunctionLLM, ListRetriever


def test_knowledge_f1_is_that_of_the_sentence_that_fits_best():
    verdict = judged(
        "It has 5,300 seats [1].",
        TEXT,
        "Nothing alike.",
        utility=KnowledgeF1(),
    )
    assert (verdict.outcome, verdict.score) == ("pass", 1.0)
    half = judged("It has", TEXT, utility=KnowledgeF1())
    assert half.score == pytest.approx(2 * 2 / (2 + 4))
    assert judged("Nothing alike.", TEXT, utility=KnowledgeF1()).outcome == "fail"
    assert judged("It has seats.", utility=KnowledgeF1()).kinds == {"empty_evidence"}


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("supported", "pass"),
        ("**Supported.**", "pass"),
        ("<think>hm</think>\nVerdict: supported", "pass"),
        ('{"verdict": "supported"}', "pass"),
        ("unsupported\n- 1925: it was 1889", "fail"),
        ("Not supported.\n- 1925: it was 1889", "fail"),
        ("Not supported: it was 1889", "unknown"),
        ("Supported? No, it was 1889.", "unknown"),
        ("supported in part", "unknown"),
        ("supported\n- 1925: it was 1889", "unknown"),
        ("unsupported or unclear", "unknown"),
        ("Verdict", "unknown"),
        ("unclear", "unknown"),
        ("abstains", "unknown"),
        ("I think it is fine.", "unknown"),
        ("No - not since yesterday it is supported", "unknown"),
        ("<think>supported", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_criticism_is_read_as_models_write_it(reply, outcome):
    assert read_criticism(reply).outcome == outcome


def test_self_criticism_is_fed_back(passages, question):
    def reply(messages):
        """The one model drafts and criticises."""
        prompt = messages[-1].content
        if "You check a draft" in messages[0].content:
            return "supported" if "1889 [1]" in prompt else "unsupported\n1925 is wrong"
        return RIGHT if "1925 is wrong" in prompt else WRONG

    answer = check_loop(
        lambda: Augmenter(
            FunctionLLM(reply), ListRetriever(passages), judge=SelfCriticism()
        ),
        question,
    )
    assert (answer.text, answer.outcome, answer.judge) == (
        RIGHT,
        Outcome.SUPPORTED,
        "self-criticism",
    )


def test_feedback_fires_on_a_draft_that_is_not_of_the_evidence(build_loop, question):
    loop = build_loop(
        "No idea whatsoever about that one.",
        RIGHT,
        judge=KnowledgeF1(),
        limits=LoopLimits(attempts=2),
    )
    assert loop.answer(question).text == RIGHT
    assert "few words of the evidence" in loop.llm.received_messages[1][-1].content
