"""Evaluators both ways: a verdict crosses over whole, and unknown never becomes a pass."""

import asyncio
import threading

import pytest
from judging import by_words
from llama_index.core import Settings
from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation import (
    AnswerRelevancyEvaluator,
    BatchEvalRunner,
    ContextRelevancyEvaluator,
    CorrectnessEvaluator,
    EvaluationResult,
    FaithfulnessEvaluator,
    GuidelineEvaluator,
    RelevancyEvaluator,
)
from llama_index.core.evaluation.base import BaseEvaluator
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetryQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode

from denoise_core import Budget, InputError, MissingExtra, Passage, run
from denoise_core.augmenter import Augmenter, WorkingMemory
from denoise_core.running import fallbacks
from denoise_core.testing import FunctionLLM, ListRetriever
from llamaindex_denoise import AugmentedQueryEngine, EvaluatorUtility, UtilityEvaluator
from llamaindex_denoise.nodes.convert import to_passages

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
    for response, contexts in ((RIGHT, []), (RIGHT, [""]), ("I do not know.", CONTEXT), (RIGHT, None)):
        unknown = both(evaluator, response, contexts)
        assert unknown.passing is None
        assert unknown.score is None
        assert unknown.invalid_result
        assert unknown.invalid_reason


def test_an_empty_answer_does_not_pass():
    assert both(UtilityEvaluator(by_words()), "").passing is False


def test_a_utility_that_breaks_is_unknown_with_the_reason():
    class Breaks:
        def assess(self, memory, candidate):
            raise ConnectionError("judge is down")
            yield

    result = both(UtilityEvaluator(Breaks()), RIGHT)
    assert result.passing is None
    assert "judge is down" in result.invalid_reason


def test_a_mistake_of_a_judge_raises_and_a_failure_is_heard(caplog):
    class Breaks:
        def __init__(self, error):
            self.error = error

        def assess(self, memory, candidate):
            raise self.error
            yield

    fallbacks.forget()
    both(UtilityEvaluator(Breaks(ConnectionError("down"))), RIGHT)
    assert "nothing is known of the answer" in caplog.text
    for error in (AttributeError("x"), MissingExtra("pip install it")):
        with pytest.raises(type(error)):
            UtilityEvaluator(Breaks(error)).evaluate(QUESTION, RIGHT, CONTEXT)
        with pytest.raises(type(error)):
            asyncio.run(UtilityEvaluator(Breaks(error)).aevaluate(QUESTION, RIGHT, CONTEXT))


@pytest.mark.parametrize(("query", "response"), [(None, "x"), ("x", None)])
def test_missing_arguments_are_named(query, response):
    with pytest.raises(InputError, match="must be given"):
        UtilityEvaluator(by_words()).evaluate(query, response, CONTEXT)


def test_the_sync_form_starts_no_loop():
    async def inside_a_loop():
        return UtilityEvaluator(by_words()).evaluate(QUESTION, RIGHT, CONTEXT)

    assert asyncio.run(inside_a_loop()).passing is True


def response_of(text):
    return Response(text, [NodeWithScore(node=TextNode(text=CONTEXT[0], metadata={"title": "Torre vermelha"}))])


def test_a_response_is_judged_with_its_titles():
    evaluator = UtilityEvaluator(by_words())
    result = evaluator.evaluate_response(QUESTION, response_of(RIGHT))
    assert result.passing is True
    assert asyncio.run(evaluator.aevaluate_response(QUESTION, response_of(RIGHT))) == result


async def test_in_the_batch_runner():
    runner = BatchEvalRunner({"grounded": UtilityEvaluator(by_words())}, workers=2)
    results = await runner.aevaluate_responses([QUESTION] * 3, [response_of(t) for t in (RIGHT, WRONG, RIGHT)])
    assert [r.passing for r in results["grounded"]] == [True, False, True]


def test_in_the_retry_query_engine(scripted):
    """LlamaIndex's engine makes its feedback transform on Settings.llm whatever model is used: one is lent."""

    def reply(messages):
        return RIGHT if "1755" in messages[-1].content else WRONG

    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import BaseRetriever

    class Fixed(BaseRetriever):
        def _retrieve(self, query_bundle):
            return response_of("").source_nodes

    Settings.llm = MockLLM()
    try:
        engine = RetryQueryEngine(
            RetrieverQueryEngine.from_args(Fixed(), llm=scripted(reply)), UtilityEvaluator(by_words())
        )
        assert str(engine.query(QUESTION)) == RIGHT
    finally:
        Settings._llm = None


class Fixed(BaseEvaluator):
    """An evaluator that says what it is told to say."""

    def __init__(self, **result):
        self.result, self.seen = result, []

    async def aevaluate(self, query=None, response=None, contexts=None, **kwargs):
        await asyncio.sleep(0)
        self.seen.append((query, response, contexts))
        if "error" in self.result:
            raise self.result["error"]
        return EvaluationResult(**self.result)

    def _get_prompts(self):
        return {}

    def _update_prompts(self, prompts):
        return


def verdict_of(evaluator, **settings):
    memory = WorkingMemory(QUESTION, evidence=(Passage("a" * 30, "1"), Passage("b" * 30, "2")))
    return run(EvaluatorUtility(evaluator, **settings).assess(memory, "said"))[0]


@pytest.mark.parametrize(
    ("result", "outcome", "score"),
    [
        ({"passing": True}, "pass", 1.0),
        ({"passing": True, "score": 0.8}, "pass", 0.8),
        ({"passing": True, "score": 7.0}, "pass", 1.0),
        ({"passing": False}, "fail", 0.0),
        ({"passing": False, "score": 0.3}, "fail", 0.3),
        ({"passing": None, "score": 1.0}, "unknown", 0.0),
        ({"passing": True, "invalid_result": True}, "unknown", 0.0),
        ({}, "unknown", 0.0),
    ],
)
def test_an_evaluators_result_becomes_a_verdict(result, outcome, score):
    verdict = verdict_of(Fixed(**result, feedback="because"))
    assert (verdict.outcome, verdict.score) == (outcome, score)
    assert [r.text for r in verdict.reasons] == ([] if outcome == "pass" else ["because"])


def test_scores_on_another_scale():
    assert verdict_of(Fixed(passing=True, score=4.0), best_score=5.0).score == 0.8


def test_evidence_is_capped():
    evaluator = Fixed(passing=True)
    verdict_of(evaluator, max_characters=40)
    assert evaluator.seen == [(QUESTION, "said", ["a" * 30, "b" * 10])]


def test_an_evaluator_reads_what_stands_in_the_metadata():
    evaluator = Fixed(passing=True)
    node = TextNode(text="Revenue was 12.4 million.", metadata={"company": "Acme", "year": 2022})
    memory = WorkingMemory("Acme's revenue?", evidence=to_passages([NodeWithScore(node=node)]))
    run(EvaluatorUtility(evaluator).assess(memory, "12.4 million."))
    assert evaluator.seen[0][2] == ["company: Acme\nyear: 2022\nRevenue was 12.4 million."]


def test_an_error_keeps_its_own_type():
    with pytest.raises(RuntimeError, match="out of memory"):
        verdict_of(Fixed(error=RuntimeError("CUDA out of memory")))


def loop(utility, **settings):
    llm = FunctionLLM(lambda messages: RIGHT)
    return Augmenter(llm, ListRetriever([Passage(CONTEXT[0], "1")]), judge=utility, **settings)


@pytest.mark.parametrize(("said", "outcome"), [("YES", "supported"), ("NO", "unsupported")])
def test_llamaindexs_faithfulness_in_the_loop(scripted, said, outcome):
    utility = EvaluatorUtility(FaithfulnessEvaluator(llm=scripted(lambda m: said)))
    answer = loop(utility).answer(QUESTION)
    later = asyncio.run(loop(utility).aanswer(QUESTION))
    assert answer.outcome == later.outcome == outcome
    assert sum(e.tag == "evaluate" for e in answer.trace.events) >= 1


def test_correctness_with_its_five_marks(scripted):
    utility = EvaluatorUtility(CorrectnessEvaluator(llm=scripted(lambda m: "4.5\nfine")), best_score=5.0)
    assert loop(utility).answer(QUESTION).score == 0.9


EVALUATORS = {
    FaithfulnessEvaluator: ("YES", "pass"),
    RelevancyEvaluator: ("YES", "pass"),
    CorrectnessEvaluator: ("1\nwrong", "fail"),
    ContextRelevancyEvaluator: ("Fine.\n[RESULT] 4", "unknown"),
    AnswerRelevancyEvaluator: ("Fine.\n[RESULT] 2", "unknown"),
    GuidelineEvaluator: ('{"passing": true, "feedback": "fine"}', "pass"),
}


@pytest.mark.parametrize("kind", EVALUATORS)
def test_evaluators_are_asked_synchronously_without_a_loop_or_a_thread(local, monkeypatch, kind):
    reply, outcome = EVALUATORS[kind]
    here, asked = threading.current_thread(), []
    llm = local(lambda prompt: asked.append(threading.current_thread()) or reply)

    def refuses(*_):
        raise AssertionError("a synchronous judge started an event loop")

    monkeypatch.setattr(asyncio, "new_event_loop", refuses)
    assert verdict_of(kind(llm=llm)).outcome == outcome
    assert asked
    assert set(asked) == {here}


async def test_the_synchronous_form_of_a_model_is_used_and_only_that(scripted, monkeypatch):
    """Inside a running loop too, as in a notebook; and the user's evaluator keeps its own model."""
    llm = scripted(lambda m: "YES")

    async def refuses(*_, **__):
        raise AssertionError("the asynchronous form was asked")

    monkeypatch.setattr(type(llm), "achat", refuses)
    evaluator = FaithfulnessEvaluator(llm=llm)
    assert verdict_of(evaluator).outcome == "pass"
    assert evaluator._llm is llm


class Waits(Fixed):
    async def aevaluate(self, **asked):
        await asyncio.sleep(0.001)
        return await super().aevaluate(**asked)


async def test_an_evaluator_that_needs_a_loop_says_what_to_do():
    def judged():
        return loop(EvaluatorUtility(Waits(passing=True)))

    with pytest.raises(InputError, match=r"Waits waits for an event loop.*aquery"):
        judged().answer(QUESTION)
    with pytest.raises(InputError, match=r"Waits waits for an event loop.*aquery"):
        await asyncio.to_thread(judged().answer, QUESTION)
    assert (await judged().aanswer(QUESTION)).outcome == "supported"


class OwnForm(Waits):
    def evaluate(self, query=None, response=None, contexts=None, **kwargs):
        return EvaluationResult(passing=True)


def test_an_evaluate_of_its_own_is_asked():
    assert verdict_of(OwnForm()).outcome == "pass"


def test_an_evaluator_that_fails_is_no_pass():
    answer = loop(EvaluatorUtility(Fixed(error=ConnectionError("down")))).answer(QUESTION)
    assert answer.outcome == "unknown"
    assert any("down" in error for _, error in answer.memory.failures)


def test_an_evaluation_counts_as_a_call():
    answer = loop(EvaluatorUtility(Fixed(passing=False)), budget=Budget(calls=3)).answer(QUESTION)
    assert answer.stopped_because == "budget"


def test_around_an_engine(scripted):
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import BaseRetriever

    class Found(BaseRetriever):
        def _retrieve(self, query_bundle):
            return response_of("").source_nodes

    inner = RetrieverQueryEngine.from_args(Found(), llm=scripted(lambda m: RIGHT))
    utility = EvaluatorUtility(FaithfulnessEvaluator(llm=scripted(lambda m: "YES")))
    response = AugmentedQueryEngine.around(inner, Augmenter(judge=utility)).query(QUESTION)
    assert response.metadata["denoise"]["outcome"] == "supported"


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: UtilityEvaluator("x"), "expected a function"),
        (lambda: EvaluatorUtility("x"), "expected a llama_index evaluator"),
        (lambda: EvaluatorUtility(Fixed(), best_score=0), "expected both above 0"),
        (lambda: EvaluatorUtility(Fixed(), max_characters=0), "expected both above 0"),
    ],
)
def test_wrong_parts_are_named(build, says):
    with pytest.raises(InputError, match=says):
        build()


async def test_llamaindexs_retrieval_metrics_still_count_after_denoising():
    from llama_index.core.evaluation import RetrieverEvaluator
    from llama_index.core.retrievers import BaseRetriever

    from denoise_core.end import ENDDenoiser
    from denoise_core.testing import FunctionScorer
    from llamaindex_denoise import DenoisePostprocessor

    class Three(BaseRetriever):
        def _retrieve(self, query_bundle):
            return [NodeWithScore(node=TextNode(text=t, id_=t), score=0.5) for t in ("blue", "red", "green")]

    def evaluator(*kept):
        scorer = FunctionScorer(lambda q, t: float(t in kept))
        denoise = DenoisePostprocessor(denoiser=ENDDenoiser(scorer, threshold=0.5))
        return RetrieverEvaluator.from_metric_names(
            ["hit_rate", "mrr"], retriever=Three(), node_postprocessors=[denoise]
        )

    kept = await evaluator("red").aevaluate("q", expected_ids=["red"])
    assert kept.retrieved_ids == ["red"]
    assert kept.metric_vals_dict == {"hit_rate": 1.0, "mrr": 1.0}
    lost = await evaluator("blue").aevaluate("q", expected_ids=["red"])
    assert lost.metric_vals_dict["hit_rate"] == 0.0
