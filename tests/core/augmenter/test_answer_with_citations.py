"""One call answers and cites; code knows what repeats a cited sentence; the judge reads what is left."""

import pytest
from answer_forms import writer_and_judge
from augmenter_doubles import prompts_of
from envelopes import enclosed

from denoise_core import Passage
from denoise_core.augmenter import (
    Outcome,
    answer_with_citations,
)
from denoise_core.support.quoting import ANSWER_TASK
from denoise_core.testing import FunctionLLM
from denoise_core.text.token_budget import estimate_tokens

TOPICS = ("tower", "bridge", "church", "harbour", "castle")
PASSAGES = tuple(
    Passage(
        f"The {topic} of Porto was completed in {1801 + number}. It was not paid for by the king. "
        + f"A storm closed the {topic} for a year. Visitors pay {number + 3} euros. "
        * 4,
        topic,
        metadata={"title": f"The {topic}"},
    )
    for number, topic in enumerate(TOPICS)
)
QUESTION = "When was the tower of Porto completed?"


@pytest.fixture(autouse=True)
def words_judge():
    """Here the model that drafts judges, as in the product."""


def ask(text, passages=PASSAGES, verdict="not_stated", **options):
    """The answer of a model that writes the text and judges it, and the model's prompts."""
    model = FunctionLLM(writer_and_judge(text, verdict, **options))
    return answer_with_citations(model, QUESTION, passages), prompts_of(model)


@pytest.mark.parametrize(
    "text",
    [
        "The tower of Porto was completed in 1801 [1.1].",
        "the **tower of Porto** was completed in 1801 [1.1, 1.4]",
        "The tower of Porto was completed in 1801 [1.1-1.2].",
        "- The tower of Porto was completed in 1801 [1.1].\n- Visitors pay 3 euros [1.4].",
        "The tower of Porto was completed in 1801 [1.1; 2.1]. Visitors pay 3 euros. [1.4]",
    ],
)
def test_a_cited_sentence_word_for_word_needs_only_whether_it_answers(text):
    answer, prompts = ask(text)
    assert (answer.text, answer.outcome, len(prompts)) == (text, Outcome.SUPPORTED, 2)
    assert ANSWER_TASK in prompts[1]
    assert answer.verdict.calls == 1
    shown = dict(enclosed(prompts[1])[0])
    assert "title: The tower" in shown["evidence 1"]
    assert "bridge" not in prompts[1]  # no unit repeats a sentence about it
    for unit in answer.units:
        assert unit.quotes
        for quote in unit.quotes:
            passage = next(p for p in PASSAGES if p.id == quote.span.passage_id)
            assert passage.text[quote.span.start : quote.span.end] == quote.text
    assert answer.citations


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("off_question", Outcome.UNSUPPORTED),
        ("abstains", Outcome.ABSTAINED),
        ("I cannot say.", Outcome.UNKNOWN),
    ],
)
def test_true_sentences_that_do_not_answer_are_not_supported(kind, outcome):
    answer, prompts = ask("Visitors pay 3 euros [1.4].", kind=kind)
    assert (answer.outcome, len(prompts)) == (outcome, 2)
    assert [unit.supported for unit in answer.units] == [True]


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        ("The drug is not safe for children.", "The drug is safe for children [1.1]."),
        ("It was never open.", "It was open [1.1]."),
        ("If it rains, the park is closed.", "The park is closed [1.1]."),
        ("It is false that he won.", "He won [1.1]."),
        ("The dog bit the man.", "The man bit the dog [1.1]."),
        ("Is the drug safe?", "Is the drug safe [1.1]."),
        ("Is the drug safe?", "Is the drug safe? [1.1]"),
        ("He won [1.1], they say.", "He won [1.1]."),
        ("He re-signed with the club.", "He resigned with the club [1.1]."),
        ("We're not there.", "Were not there [1.1]."),
        ("The profit was (5) million.", "The profit was 5 million [1.1]."),
        ("He won.", "He won? [1.1]"),
        ("The daily dose is ≤ 5 mg.", "The daily dose is ≥ 5 mg [1.1]."),
        ("It is so where a > b.", "It is so where a < b [1.1]."),
    ],
)
def test_words_of_a_sentence_that_are_not_the_sentence_are_judged(evidence, text):
    answer, prompts = ask(text, [Passage(evidence, "p")], "contradicted 1.1")
    assert (answer.outcome, len(prompts)) == (Outcome.UNSUPPORTED, 2)


@pytest.mark.parametrize("verdict", ["not_stated", "contradicted 1.1"])
def test_only_the_units_left_are_judged_and_both_prompts_begin_alike(verdict):
    """The fake judges every unit; what it says of the checked one changes nothing."""
    text = "The tower of Porto was completed in 1801 [1.1]. It is the tallest of all."
    answer, (draft_prompt, judge_prompt) = ask(text, verdict=verdict)
    assert [unit.supported for unit in answer.units] == [True, False]
    assert judge_prompt.endswith("Now judge only the units 2.")
    shared = draft_prompt.index("Answer the question from the evidence")
    assert draft_prompt[:shared] == judge_prompt[:shared]
    assert all(passage.text[:40] in draft_prompt[:shared] for passage in PASSAGES)


def test_right_answers_cost_at_most_twice_a_draft_and_one_judge_call_at_most():
    texts = [
        "The tower of Porto was completed in 1801 [1.1]",
        "The tower of Porto was completed in 1801 [1.1].",
        "The tower of Porto was completed in 1801 [1.1]. Visitors pay 3 euros [1.4].",
        "The **tower of Porto** was completed in 1801 [1.1]",
        "In 1801.",
    ]
    input_tokens = draft_tokens = calls = 0
    for text in texts:
        answer, prompts = ask(text, verdict="supported 1.1")
        assert answer.outcome is Outcome.SUPPORTED
        input_tokens += sum(map(estimate_tokens, prompts))
        draft_tokens += estimate_tokens(prompts[0])
        calls += len(prompts) - 1
    assert input_tokens <= 2.0 * draft_tokens
    assert calls <= 1.2 * len(texts)
