"""Evaluators are functions of a run and an example; no account, no network."""

import inspect
from types import SimpleNamespace
from uuid import uuid4

import pytest
from langchain_core.documents import Document
from langsmith import RunTree
from langsmith.evaluation import run_evaluator
from langsmith.schemas import Example

from langchain_denoise.evaluators import Supported, gold_kept, tokens_saved

PARIS = "Paris is the capital of France."
EXAMPLE = {
    "inputs": {"question": "What is the capital of France?", "documents": [PARIS, "Bananas are yellow. " * 5]},
    "outputs": {"gold": ["the capital\nof France", "in Lyon"]},
}


def run(answer, documents):
    return SimpleNamespace(outputs={"answer": answer, "context": documents})


def test_gold_and_tokens():
    made = run(PARIS, [Document(page_content=PARIS), {"page_content": "More."}])
    assert gold_kept(made, EXAMPLE) == {"key": "gold_kept", "score": 0.5, "comment": "1 of 2"}
    assert tokens_saved(made, EXAMPLE)["score"] == pytest.approx(1 - 36 / 131)
    assert gold_kept(made, {"outputs": {}})["score"] is None


def test_supported():
    judge = Supported()
    assert judge(run(PARIS, [PARIS]), EXAMPLE)["score"] == 1
    assert judge(run("It is Lyon, since 1789.", [PARIS]), EXAMPLE)["score"] == 0
    assert judge(run(PARIS, []), EXAMPLE)["score"] is None


def test_what_is_missing_is_said():
    with pytest.raises(ValueError, match="none of the keys answer"):
        Supported()(SimpleNamespace(outputs={"says": "x"}), EXAMPLE)
    with pytest.raises(ValueError, match="with outputs as a dict"):
        gold_kept(SimpleNamespace(outputs=None), EXAMPLE)


@pytest.mark.parametrize("evaluator", [gold_kept, tokens_saved, Supported()], ids=["gold", "tokens", "supported"])
def test_by_run_and_example_or_by_name_as_langsmith_calls_them(evaluator):
    made = run(PARIS, [PARIS])
    by_name = {"inputs": EXAMPLE["inputs"], "outputs": made.outputs, "reference_outputs": EXAMPLE["outputs"]}
    assert evaluator(**by_name) == evaluator(made, EXAMPLE)
    asked = set(inspect.signature(evaluator).parameters)
    assert asked == {"run", "example", "inputs", "outputs", "reference_outputs"}
    wrapped = run_evaluator(evaluator)
    root = RunTree(name="app", inputs={}, outputs=made.outputs)
    example = Example(id=uuid4(), dataset_id=uuid4(), inputs=EXAMPLE["inputs"], outputs=EXAMPLE["outputs"])
    assert wrapped.evaluate_run(root, example).score == evaluator(made, EXAMPLE)["score"]
