"""Evaluators in the shapes of other packages: each says yes to a claim that speaks of floors."""

from types import SimpleNamespace


def yes(text):
    return "floors" in text


class RagasMetric:
    name = "faithfulness"

    async def single_turn_ascore(self, sample, callbacks=None):
        assert sample.retrieved_contexts
        return 0.9 if yes(sample.response) else 0.1


class RagasNewer:
    async def ascore(self, user_input, response, retrieved_contexts):
        return SimpleNamespace(value=0.9 if yes(response) else 0.1, reason="r")


class TruLens:
    def groundedness(self, source, statement):
        return (0.9 if yes(statement) else 0.1), {"reasons": "STATEMENT 0: criteria"}


def openevals(*, inputs, outputs, context, **kwargs):
    return {"key": "groundedness", "score": yes(outputs), "comment": "c"}


async def openevals_async(*, inputs, outputs, context):
    return {
        "key": "groundedness",
        "score": 1.0 if yes(outputs) else 0.0,
        "comment": "c",
    }


class DeepEval:
    reason = "of the metric"

    def measure(self, test_case, _show_indicator=False):
        return 0.9 if yes(test_case.actual_output) else 0.1

    async def a_measure(self, test_case, _show_indicator=False):
        return self.measure(test_case)


class LangChainEvaluator:
    def evaluate_strings(self, *, prediction, reference=None, input=None):
        return {"score": 1 if yes(prediction) else 0, "value": "Y", "reasoning": "r"}


class LlamaIndexEvaluator:
    async def aevaluate(self, query=None, response=None, contexts=None, **kwargs):
        return SimpleNamespace(
            passing=yes(response), score=None, feedback="f", invalid_result=False
        )

    def evaluate(self, query=None, response=None, contexts=None, **kwargs):
        return SimpleNamespace(
            passing=yes(response), score=None, feedback="f", invalid_result=False
        )


SHAPES = {
    "float": lambda question, evidence, claim: 0.9 if yes(claim) else 0.1,
    "float by place": lambda q, e, c: 0.9 if yes(c) else 0.1,
    "bool": lambda claim, context: yes(claim),
    "RAGAS": RagasMetric(),
    "RAGAS, newer": RagasNewer(),
    "TruLens": TruLens().groundedness,
    "openevals": openevals,
    "openevals, asynchronous": openevals_async,
    "DeepEval": DeepEval(),
    "LangChain": LangChainEvaluator(),
    "LlamaIndex": LlamaIndexEvaluator(),
}
