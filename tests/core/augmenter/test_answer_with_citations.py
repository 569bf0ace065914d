"""One call answers and cites; code checks the citations; the judge reads only what is left."""

import pytest
from augmenter_doubles import check_loop
from envelopes import enclosed

from denoise_core import Passage
from denoise_core.augmenter import (
    Augmenter,
    Outcome,
    Rules,
    answer_with_citations,
)
from denoise_core.support.quoting import TASK
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


class Writer:
    """Writes ``answer``; judges what it is asked about with ``verdict``."""

    def __init__(self, answer, verdict="not_stated"):
        self.answer = answer
        self.verdict = verdict
        self.prompts = []

    def model(self):
        return FunctionLLM(self.reply)

    def reply(self, messages):
        prompt = messages[-1].content
        self.prompts.append("\n\n".join(m.content for m in messages))
        if TASK not in prompt:
            return self.answer
        units = dict(enclosed(prompt)[0])["answer"].splitlines()
        lines = [f"{unit.partition(':')[0]} {self.verdict}" for unit in units]
        return "\n".join([*lines, "answers"])


def ask(answer, **options):
    writer = Writer(answer, **options)
    return answer_with_citations(writer.model(), QUESTION, PASSAGES), writer.prompts


@pytest.mark.parametrize(
    "text",
    [
        "It was completed in 1801 [1.1].",
        "1801 [1.1]",
        "- The tower was completed in 1801 [1.1].\n- Visitors pay 3 euros [1.4].",
        "The bridge was completed in 1802 [2.1], visitors pay 4 euros [2.4].",
    ],
)
def test_units_whose_citations_code_can_check_need_no_judge(text):
    answer, prompts = ask(text)
    assert (answer.text, answer.outcome, len(prompts)) == (text, Outcome.SUPPORTED, 1)
    assert all(unit.quotes for unit in answer.units)
    for unit in answer.units:
        for quote in unit.quotes:
            passage = next(p for p in PASSAGES if p.id == quote.span.passage_id)
            assert passage.text[quote.span.start : quote.span.end] == quote.text
    assert answer.citations


@pytest.mark.parametrize(
    "text",
    [
        "It was completed in 1801.",  # no citation
        "It was completed in 1802 [1.1].",  # another number
        "It was completed in 1801 [2.1].",  # another passage's sentence
        "It was not completed in 1801 [1.1].",  # a word that the sentence lacks
        "The tower was paid for by Maria [1.2].",
        "It was completed in 1801 [1.99].",  # a label of nothing
        "It was completed in 1801 [1].",  # a passage, no sentence
        "The tower was completed before 1801 [1.1].",
    ],
)
def test_what_code_cannot_check_goes_to_the_judge(text):
    answer, prompts = ask(text)
    assert (answer.text, len(prompts)) == (text, 2)
    assert answer.outcome is Outcome.UNSUPPORTED


def test_only_the_units_left_are_judged_and_both_prompts_begin_alike():
    text = "It was completed in 1801 [1.1]. It is the tallest of all."
    answer, (draft_prompt, judge_prompt) = ask(text)
    assert answer.outcome is Outcome.PARTLY_SUPPORTED
    assert [unit.supported for unit in answer.units] == [True, False]
    assert judge_prompt.endswith("Now judge only the units 2.")
    shared = draft_prompt.index("Answer the question from the evidence")
    assert draft_prompt[:shared] == judge_prompt[:shared]
    assert all(passage.text[:40] in draft_prompt[:shared] for passage in PASSAGES)


def test_a_line_about_a_unit_that_code_has_checked_is_not_asked_for():
    """The fake judges every unit; what it says of the checked ones changes nothing."""
    text = "It was completed in 1801 [1.1]. It is the tallest of all."
    answer, _ = ask(text, verdict="contradicted 1.1")
    assert [unit.supported for unit in answer.units] == [True, False]


def test_right_answers_cost_at_most_twice_a_draft_and_one_judge_call_at_most():
    texts = [
        "1801 [1.1]",
        "The tower was completed in 1801 [1.1].",
        "It was completed in 1801 [1.1]. Visitors pay 3 euros [1.4].",
        "The tower of Porto: completed in 1801 [1.1]",
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


def test_it_is_the_loop_with_one_draft_sync_and_async():
    text = "It was completed in 1801 [1.1]."

    def make():
        return Augmenter(Writer(text).model(), Given(), policy=Rules(widen=False))

    assert check_loop(make, QUESTION).outcome is Outcome.SUPPORTED


class Given:
    """A retriever that finds the passages."""

    def retrieve(self, query):
        return PASSAGES

    async def aretrieve(self, query):
        return PASSAGES
