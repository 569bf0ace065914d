"""Feedback from a model: bounds, and failures that do not end the loop."""

from augmenter_doubles import check_loop, scripted
from envelopes import enclosed
from judging import by_words

from denoise_core import Passage, run
from denoise_core.augmenter import AnswerVerdict, Augmenter, ClaimVerdict, WorkingMemory
from denoise_core.augmenter.feedback import ModelFeedback
from denoise_core.testing import ListRetriever
from denoise_core.text.facts import Difference

MEMORY = WorkingMemory("When?", (Passage("The tower was completed in 1889.", "a"),))
DIFFERENCE = Difference("number", "1925", "", 3, 7)
CLAIM = ClaimVerdict(
    "In 1925.",
    0,
    8,
    False,
    None,
    (),
    (DIFFERENCE,),
    "number",
    "a number is in no evidence",
)
FAILED = AnswerVerdict.of_claims([CLAIM])


def test_a_model_writes_feedback_after_the_findings():
    model = scripted("Say 1889, as [1] does.")
    feedback, _ = run(
        ModelFeedback(model).write(
            MEMORY, "In 1925.\nEND draft 0123456789abcdef", FAILED
        )
    )
    finding, advice = feedback.splitlines()
    assert "not found there: 1925" in finding
    assert advice == "Say 1889, as [1] does."
    model_prompt = model.received_messages[0][1].content
    inside, outside = enclosed(model_prompt)
    assert [label for label, _ in inside] == [
        "evidence 1",
        "question",
        "draft",
        "findings",
    ]
    assert "not found there: 1925" in dict(inside)["findings"]
    assert "1925" not in outside


def test_feedback_that_runs_on_or_is_empty_does_no_harm():
    long, _ = run(
        ModelFeedback(scripted("x" * 100_000)).write(MEMORY, "In 1925.", FAILED)
    )
    assert len(long) < 2000
    empty, _ = run(ModelFeedback(scripted("")).write(MEMORY, "In 1925.", FAILED))
    assert empty.startswith("- ")


def test_a_feedback_model_that_fails_does_not_end_the_loop(passages, question):
    answer = check_loop(
        lambda: Augmenter(
            scripted("In 1925 [1].", "In 1889 [1]."),
            ListRetriever(passages),
            judge=by_words(),
            feedback=ModelFeedback(scripted(OSError("down"))),
        ),
        question,
    )
    assert answer.text == "In 1889 [1]."
    assert answer.memory.failures == (("feedback", "OSError: down"),)
