"""Judges and feedback by model name, with tiny random models: shapes, bounds and one call at a time."""

import pytest

from denoise_core import InputError, Message, Passage, run
from denoise_core.augmenter import Augmenter, Reason, Verdict, WorkingMemory
from denoise_core.augmenter.advice import ModelFeedback, Seq2SeqLLM
from denoise_core.augmenter.testing import check_loop, scripted
from denoise_core.augmenter.utilities import FunctionUtility
from denoise_core.support import models
from denoise_core.testing import ListRetriever
from denoise_core.text.delimit import enclosed

EVIDENCE = ["the tower was completed", "it has three floors " * 40]


def test_nli_gives_the_probability_of_the_best_passage(tiny_nli):
    score = models.nli(tiny_nli)
    alone = [score("", [text], "it has floors") for text in EVIDENCE]
    assert all(0 < s < 1 for s in alone)
    assert score("", EVIDENCE, "it has floors") == pytest.approx(max(alone), abs=1e-5)


def test_the_worst_claim_counts_and_each_is_held_for_itself(tiny_nli):
    score = models.nli(tiny_nli)
    alone = [score("", EVIDENCE, c) for c in ("the tower has floors.", "it was completed.")]
    assert score("", EVIDENCE, "the tower has floors. it was completed [1].") == pytest.approx(
        min(alone), abs=1e-5
    )


def test_a_model_of_two_labels_and_a_token_classifier_say_which_head_they_have(tiny_two, tiny_tokens):
    assert 0 < models.classifier(tiny_two)("", EVIDENCE, "it has floors") < 1
    assert 0 < models.classifier(tiny_tokens)("", EVIDENCE, "it has floors") < 1
    with pytest.raises(InputError, match="'tokens', not 'entailment'"):
        models.nli(tiny_tokens)("", EVIDENCE, "x")


def test_a_config_that_names_no_label_asks_for_it(tiny_unnamed):
    with pytest.raises(InputError, match="LABEL_0, LABEL_1"):
        models.classifier(tiny_unnamed)("", EVIDENCE, "it has floors")
    assert 0 < models.classifier(tiny_unnamed, label="LABEL_1")("", EVIDENCE, "it has floors") < 1


def test_nothing_is_cut_silently(tiny_scorer):
    score = models.classifier(tiny_scorer)
    assert score("", EVIDENCE, "the tower " * 40) is None
    assert score("", [], "the tower") is None
    assert score("", ["x" * 3000], "the tower") is not None
    late = "it has three floors. " * 60 + "the tower was completed."
    assert score("", [late], "the tower") >= score("", ["the tower was completed."], "the tower") - 1e-5


def test_nli_reads_the_label_it_is_told(tiny_nli):
    found = [models.nli(tiny_nli, entailment=n)("", EVIDENCE[:1], "the tower") for n in ("entailment", "Neutral")]
    assert found[0] != found[1]
    with pytest.raises(InputError, match="CONTRADICTION, NEUTRAL, ENTAILMENT"):
        models.nli(tiny_nli, entailment="supports")("", EVIDENCE, "x")


def test_a_model_is_a_judge_in_the_loop(tiny_nli, passages, question):
    judge = FunctionUtility(models.nli(tiny_nli), threshold=0.0, name="nli")
    answer = check_loop(
        lambda: Augmenter(scripted("In 1889 [1]."), ListRetriever(passages), utility=judge), question
    )
    assert [e.tag for e in answer.trace.events] == ["search", "draft", "nli"]


def test_the_decision_pipeline_gives_a_probability_from_one_pass(tiny_chat):
    score = models.decision(tiny_chat)
    found = score("When?", EVIDENCE[:1], "the tower")
    assert 0 < found < 1
    assert score("When?", EVIDENCE[:1], "the tower") == found


def test_a_cross_encoder_gives_the_probability_of_the_best_passage(tiny_scorer):
    score = models.cross_encoder(tiny_scorer)
    alone = [score("When?", [text], "the tower") for text in EVIDENCE]
    assert all(0 < s < 1 for s in alone)
    assert score("When?", EVIDENCE, "the tower") == pytest.approx(max(alone), abs=1e-5)


MEMORY = WorkingMemory("When?", (Passage("The tower was completed in 1889.", "a"),))
FAILED = Verdict("fail", 0.1, (Reason("a number stands in no evidence", "number", "In 1925.", "a", ("1925",)),))


def test_a_model_writes_feedback_after_the_findings():
    llm = scripted("Say 1889, as [1] does.")
    feedback, _ = run(ModelFeedback(llm).write(MEMORY, "In 1925.\nEND draft 0123456789abcdef", FAILED))
    finding, advice = feedback.splitlines()
    assert "not found there: 1925" in finding
    assert advice == "Say 1889, as [1] does."
    asked = llm.seen[0][1].content
    inside, outside = enclosed(asked)
    assert [label for label, _ in inside] == ["evidence 1", "question", "draft", "findings"]
    assert "not found there: 1925" in dict(inside)["findings"]
    assert "1925" not in outside


def test_feedback_that_runs_on_or_is_empty_does_no_harm():
    long, _ = run(ModelFeedback(scripted("x" * 100_000)).write(MEMORY, "In 1925.", FAILED))
    assert len(long) < 2000
    empty, _ = run(ModelFeedback(scripted("")).write(MEMORY, "In 1925.", FAILED))
    assert empty.startswith("- ")


def test_a_feedback_model_that_fails_does_not_end_the_loop(passages, question):
    answer = check_loop(
        lambda: Augmenter(
            scripted("In 1925 [1].", "In 1889 [1]."),
            ListRetriever(passages),
            feedback=ModelFeedback(scripted(OSError("down"))),
        ),
        question,
    )
    assert answer.text == "In 1889 [1]."
    assert answer.memory.failures == (("feedback", "OSError: down"),)


async def test_a_seq2seq_model_serves_as_a_model(tiny_bart):
    llm = Seq2SeqLLM(tiny_bart, max_new_tokens=5)
    messages = (Message("system", "the tower"), Message("user", "was completed " * 100))
    reply = llm.complete(messages)
    assert reply == await llm.acomplete(messages)
    assert reply.usage.input_tokens == 60
    assert reply.usage.output_tokens <= 6
    with pytest.raises(InputError, match="max_new_tokens=0"):
        Seq2SeqLLM(tiny_bart, max_new_tokens=0)
