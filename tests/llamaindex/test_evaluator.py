"""Evaluators both ways: a verdict crosses over whole, and unknown never becomes a pass."""

import asyncio

import pytest
from judging import by_words
from llama_index.core import Settings
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetryQueryEngine
from llamaindex_engines import inner

from denoise_core import InputError, MissingExtra
from denoise_core.runtime import fallbacks
from llamaindex_denoise import UtilityEvaluator

QUESTION = "Where is the red tower?"
CONTEXT = ["The red tower is in Porto. Bread is cheap there."]
RIGHT, WRONG = "The red tower is in Porto.", "The red tower was built in 1755."


def both(evaluator, response, contexts=CONTEXT):
    result = evaluator.evaluate(QUESTION, response, contexts)
    assert asyncio.run(evaluator.aevaluate(QUESTION, response, contexts)) == result
    return result


def test_a_utility_passes_fails_and_cannot_say():
    evaluator = UtilityEvaluator(by_words())
    good, bad = both(evaluator, RIGHT), both(evaluator, WRONG)
    assert (good.passing, good.invalid_result) == (True, False)
    assert (bad.passing, bad.invalid_result) == (False, False)
    assert good.score > bad.score
    assert "1755" in bad.feedback
    for response, contexts in (
        (RIGHT, []),
        (RIGHT, [""]),
        ('{"answered": false}', CONTEXT),
        (RIGHT, None),
    ):
        unknown = both(evaluator, response, contexts)
        assert unknown.passing is None
        assert unknown.score is None
        assert unknown.invalid_result
        assert unknown.invalid_reason


def test_a_model_judges_as_it_does_in_checked(scripted_llm):
    prompts = []

    def reply(messages):
        prompts.append(messages[-1].content)
        return "no judge would say this"

    result = UtilityEvaluator(scripted_llm(reply)).evaluate(
        QUESTION,
        RIGHT,
        CONTEXT,
    )
    assert result.invalid_result
    assert RIGHT in prompts[0]
    assert CONTEXT[0][:20] in prompts[0]


def test_a_mistake_of_a_judge_raises_and_a_failure_is_heard(caplog):
    class Breaks:
        def __init__(self, error):
            self.error = error

        def assess(self, memory, candidate):
            raise self.error
            yield

    fallbacks._counts.clear()
    result = both(UtilityEvaluator(Breaks(ConnectionError("down"))), RIGHT)
    assert result.passing is None
    assert "ConnectionError: down" in result.invalid_reason
    assert "nothing is known of the answer" in caplog.text
    for error in (AttributeError("x"), MissingExtra("pip install it")):
        with pytest.raises(type(error)):
            UtilityEvaluator(Breaks(error)).evaluate(
                QUESTION,
                RIGHT,
                CONTEXT,
            )
        with pytest.raises(type(error)):
            asyncio.run(
                UtilityEvaluator(Breaks(error)).aevaluate(
                    QUESTION,
                    RIGHT,
                    CONTEXT,
                )
            )


@pytest.mark.parametrize(("query", "response"), [(None, "x"), ("x", None)])
def test_missing_arguments_are_named(query, response):
    with pytest.raises(InputError, match="must be given"):
        UtilityEvaluator(by_words()).evaluate(query, response, CONTEXT)


def test_the_sync_form_starts_no_loop():
    async def inside_a_loop():
        return UtilityEvaluator(by_words()).evaluate(QUESTION, RIGHT, CONTEXT)

    assert asyncio.run(inside_a_loop()).passing is True


def test_in_the_retry_query_engine(scripted_llm):
    """LlamaIndex's engine makes its feedback transform on Settings.llm whatever model is used: one is lent."""

    def reply(messages):
        return RIGHT if "1755" in messages[-1].content else WRONG

    Settings.llm = MockLLM()
    try:
        engine = RetryQueryEngine(
            inner(scripted_llm(reply)),
            UtilityEvaluator(by_words()),
        )
        assert str(engine.query(QUESTION)) == RIGHT
    finally:
        Settings._llm = None
