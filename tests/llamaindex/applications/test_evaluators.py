"""Evaluators: ours in LlamaIndex's batch runner, LlamaIndex's as our judge."""

from judging import InOnePassage
from llama_index.core.evaluation import BatchEvalRunner, FaithfulnessEvaluator
from llamaindex_inns import QUESTION, RIGHT, WRONG, index, judged

from llamaindex_denoise import Checked, UtilityEvaluator


async def test_evaluators(scripted):
    engines = [index().as_query_engine(llm=scripted(lambda m, said=said: said)) for said in (RIGHT, WRONG)]
    responses = [await engine.aquery(QUESTION) for engine in engines]
    runner = BatchEvalRunner({"holds": UtilityEvaluator(InOnePassage())}, workers=2)
    right, wrong = (await runner.aevaluate_responses([QUESTION] * 2, responses))["holds"]
    assert right.passing
    assert not wrong.passing
    says_no = FaithfulnessEvaluator(llm=scripted(lambda m: "NO"))
    assert judged(Checked(engines[0], judge=says_no).query(QUESTION)) == "unsupported"
