"""Evaluators are functions of inputs, outputs and reference outputs; no account, no network."""

from uuid import uuid4

import pytest
from judging import WordForWord
from langchain_core.documents import Document
from langsmith import RunTree
from langsmith.evaluation import run_evaluator
from langsmith.schemas import Example

from langchain_denoise import Verifier
from langchain_denoise.evaluators import Supported, gold_kept, tokens_saved

PARIS = "Paris is the capital of France."
INPUTS = {"question": "What is the capital of France?", "documents": [PARIS, "Bananas are yellow. " * 5]}
GOLD = {"gold": ["the capital\nof France", "in Lyon"]}


def out(answer, documents):
    return {"answer": answer, "context": documents}


def test_gold_and_tokens():
    made = out(PARIS, [Document(page_content=PARIS), {"page_content": "More."}])
    assert gold_kept(made, GOLD) == {"key": "gold_kept", "score": 0.5, "comment": "1 of 2"}
    assert tokens_saved(INPUTS, made)["score"] == pytest.approx(1 - 36 / 131)
    assert gold_kept(made, {})["score"] is None


def test_supported():
    judge = Supported()
    assert judge(INPUTS, out(PARIS, [PARIS]))["score"] == 1
    assert judge(INPUTS, out("It is Lyon, since 1789.", [PARIS]))["score"] == 0
    assert judge(INPUTS, out(PARIS, []))["score"] is None


def test_what_is_missing_is_said():
    with pytest.raises(ValueError, match="none of the keys answer"):
        Supported()(INPUTS, {"says": "x"})
    with pytest.raises(ValueError, match="outputs as dicts"):
        gold_kept(None, GOLD)


HELD = Supported(Verifier(judge=WordForWord()))


@pytest.mark.parametrize("evaluator", [gold_kept, tokens_saved, HELD], ids=["gold", "tokens", "supported"])
def test_as_langsmith_calls_them(evaluator):
    made = out(PARIS, [PARIS])
    root = RunTree(name="app", inputs={}, outputs=made)
    example = Example(id=uuid4(), dataset_id=uuid4(), inputs=INPUTS, outputs=GOLD)
    score = {gold_kept: 0.5, tokens_saved: pytest.approx(1 - 31 / 131)}.get(evaluator, 1)
    assert run_evaluator(evaluator).evaluate_run(root, example).score == score
