"""Our engine in and around LlamaIndex's own: theirs need not know of the loop, and what they say is checked."""

import asyncio

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex, get_response_synthesizer
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.query_engine import RetryQueryEngine, SubQuestionQueryEngine
from llama_index.core.schema import QueryBundle
from llamaindex_engines import (
    QUESTION,
    RIGHT,
    WRONG,
    always,
    around,
    both,
    first_wrong_then_right,
    inner,
    nodes,
    own_loop,
)

from denoise_core.augmenter import Augmenter, LoopLimits
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import Checked, DenoisePostprocessor


class Whole(BaseQueryEngine):
    """An engine without ``retrieve`` and ``synthesize``: it can only be asked."""

    def __init__(self, answer):
        super().__init__(None)
        self.answer, self.asked = answer, []

    def _query(self, query_bundle):
        self.asked.append(query_bundle)
        return Response(self.answer(query_bundle.query_str), nodes()[:2], {"inner": 1})

    async def _aquery(self, query_bundle):
        return self._query(query_bundle)

    def _get_prompt_modules(self):
        return {}


def test_around_an_engine_that_can_only_be_asked():
    def make_engine(limits=LoopLimits(rerun=True)):  # noqa: B008
        engine = Whole(lambda q: RIGHT if "Lisbon" in q else WRONG)
        return Checked(engine, augmenter=Augmenter(limits=limits))

    once = make_engine(limits=None)
    assert once.query(QUESTION).metadata["denoise"]["outcome"] == "unsupported"
    assert len(once.query_engine.asked) == 1, "what it does would be done twice"
    response = both(make_engine)
    assert response.metadata["denoise"]["outcome"] == "supported"
    assert response.metadata["inner"] == 1
    assert [n.node.node_id for n in response.source_nodes] == ["n0", "n1"]
    engine = make_engine()
    engine.query(QUESTION)
    first, second = engine.query_engine.asked
    assert first.query_str == QUESTION
    assert second.embedding_strs == [QUESTION], "feedback would be embedded"
    with pytest.raises(NotImplementedError, match="Whole does not support synthesize"):
        engine.synthesize(QueryBundle(QUESTION), nodes())


def test_an_engine_that_streams_inside_is_read_and_checked(scripted):
    def make_engine():
        return Checked(inner(scripted(first_wrong_then_right), streaming=True))

    sync = make_engine().query(QUESTION)
    assert str(sync) == RIGHT
    assert str(asyncio.run(make_engine().aquery(QUESTION))) == RIGHT
    assert isinstance(sync, Response)


def test_a_judge_that_would_ask_the_engine_as_a_model_is_told_off(scripted):
    from denoise_core.augmenter.utilities.groundedness import Groundedness
    from denoise_core.running.effects import complete
    from denoise_core.types import Message

    class Judge(Groundedness):
        def assess(self, memory, candidate):
            yield from complete((Message("user", "is it true?"),), tag="judge")
            return self.judge(memory, candidate)

    with pytest.raises(TypeError, match="model of its own"):
        around(scripted, judge=Judge()).query(QUESTION)


def test_over_a_vector_index(scripted):
    index = VectorStoreIndex([n.node for n in nodes()], embed_model=MockEmbedding(embed_dim=4))
    engine = Checked(
        index.as_query_engine(
            llm=scripted(first_wrong_then_right),
            similarity_top_k=3,
            node_postprocessors=[
                DenoisePostprocessor(
                    denoiser=ENDDenoiser(FunctionScorer(lambda q, t: float("Porto" in t)), threshold=0.5)
                )
            ],
        )
    )
    response = engine.query(QUESTION)
    assert str(response) == RIGHT
    assert [n.node.node_id for n in response.source_nodes] == ["n0"]


def test_inside_a_condense_question_chat_engine(scripted):
    chat = CondenseQuestionChatEngine.from_defaults(
        query_engine=own_loop(scripted), llm=scripted(always(QUESTION))
    )
    response = chat.chat(QUESTION)
    assert response.response == RIGHT
    assert response.sources[0].raw_output.metadata["denoise"]["outcome"] == "supported"


def test_inside_a_sub_question_engine_and_a_retry_engine(scripted):
    from llama_index.core.evaluation import FaithfulnessEvaluator
    from llama_index.core.tools import QueryEngineTool

    class OneQuestion:
        def generate(self, tools, query):
            from llama_index.core.question_gen.types import SubQuestion

            return [SubQuestion(sub_question=QUESTION, tool_name="towers")]

        def _get_prompts(self):
            return {}

    llm = scripted(always(RIGHT))
    outer = SubQuestionQueryEngine(
        question_gen=OneQuestion(),
        response_synthesizer=get_response_synthesizer(llm=llm, use_async=False),
        query_engine_tools=[QueryEngineTool.from_defaults(own_loop(scripted), name="towers")],
        verbose=False,
        use_async=False,
    )
    assert str(outer.query(QUESTION)) == RIGHT
    judged = RetryQueryEngine(own_loop(scripted), FaithfulnessEvaluator(llm=scripted(always("YES"))))
    assert judged.query(QUESTION).metadata["denoise"]["outcome"] == "supported"
