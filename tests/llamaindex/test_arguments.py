"""What is said to a front door acts, what nothing reads is an error, and a question's bundle travels whole."""

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.evaluation import SemanticSimilarityEvaluator
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.query_engine import TransformQueryEngine
from llama_index.core.schema import QueryBundle, TextNode
from llamaindex_doubles import Calling
from llamaindex_engines import QUESTION, RIGHT, Fixed, around, first_wrong_then_right, inner, nodes, own_loop

from denoise_core import Budget, InputError
from denoise_core.augmenter import Augmenter, Groundedness, LoopLimits
from denoise_core.support import judges
from llamaindex_denoise import AugmentedQueryEngine, UtilityEvaluator, VerifiedFunctionAgent


def never(claim, passages):
    """A judge that lets nothing pass."""
    return False


@pytest.mark.parametrize("make", ["around", "from_args"])
def test_a_judge_acts(scripted, make):
    engine = _made(make, scripted(lambda m: RIGHT), judge=judges.function(never))
    assert engine.query(QUESTION).metadata["denoise"]["outcome"] == "unsupported"
    assert _made(make, scripted(lambda m: RIGHT)).query(QUESTION).metadata["denoise"]["outcome"] == "supported"


@pytest.mark.parametrize("make", ["around", "from_args"])
def test_a_budget_acts(scripted, make):
    response = _made(make, scripted(first_wrong_then_right), budget=Budget(calls=1)).query(QUESTION)
    assert response.metadata["denoise"]["stopped_because"] == "budget"


@pytest.mark.parametrize("make", ["around", "from_args"])
def test_limits_and_what_becomes_of_an_unsupported_answer_act(scripted, make):
    settings = {"limits": LoopLimits(attempts=1, repair=False), "unsupported": "abstain"}
    response = _made(make, scripted(first_wrong_then_right), **settings).query(QUESTION)
    note = response.metadata["denoise"]
    assert (note["outcome"], len(note["attempts"])) == ("abstained", 1)


def _made(make, llm, **settings):
    if make == "around":
        return AugmentedQueryEngine.around(inner(llm), **settings)
    return AugmentedQueryEngine.from_args(Fixed(nodes()), llm, **settings)


@pytest.mark.parametrize("setting", [{"keep": 2}, {"utility": Groundedness()}, {"top_n": 2}])
def test_a_setting_that_nothing_reads_is_an_error(scripted, setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        AugmentedQueryEngine.from_args(Fixed(nodes()), scripted(lambda m: RIGHT), **setting)
    with pytest.raises(ValueError, match=next(iter(setting))):
        VerifiedFunctionAgent(name="guide", llm=Calling(script=None), **setting)


def test_what_llamaindex_itself_names_is_taken(scripted):
    engine = AugmentedQueryEngine.from_args(
        Fixed(nodes()), scripted(lambda m: RIGHT), response_mode="tree_summarize", use_async=False
    )
    assert str(engine.query(QUESTION)) == RIGHT


@pytest.mark.parametrize(
    "wrong", [{"budget": 3}, {"limits": 2}, {"judge": "gpt"}, {"judge": Groundedness}, {"unsupported": "drop"}]
)
def test_values_of_the_wrong_kind_are_errors(scripted, wrong):
    with pytest.raises(InputError):
        AugmentedQueryEngine.around(inner(scripted(lambda m: RIGHT)), **wrong)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        VerifiedFunctionAgent(name="guide", llm=Calling(script=None), **wrong)


def test_an_augmenter_and_its_settings_are_not_both_given(scripted):
    with pytest.raises(InputError, match="Augmenter"):
        AugmentedQueryEngine.around(inner(scripted(lambda m: RIGHT)), Augmenter(), budget=Budget(calls=1))


def test_an_agent_takes_judge_budget_and_limits():
    agent = VerifiedFunctionAgent(
        name="guide", llm=Calling(script=None), judge=judges.function(never), limits=LoopLimits(attempts=1)
    )
    assert agent.augmenter.limits.attempts == 1
    assert agent.augmenter.utility.name != VerifiedFunctionAgent(name="g", llm=agent.llm).augmenter.utility.name


def test_an_evaluator_that_compares_with_a_reference_is_refused(scripted):
    with pytest.raises(InputError, match="reference"):
        AugmentedQueryEngine.around(
            inner(scripted(lambda m: RIGHT)), judge=SemanticSimilarityEvaluator(embed_model=MockEmbedding(8))
        )


def test_a_class_is_no_judge():
    with pytest.raises(InputError, match="Groundedness"):
        UtilityEvaluator(Groundedness)


BUNDLE = QueryBundle(QUESTION, image_path="a.png", custom_embedding_strs=["towers"], embedding=[0.5] * 8)


@pytest.mark.parametrize("make", [around, own_loop])
async def test_the_bundle_arrives_whole(scripted, make):
    retriever = Fixed(nodes())
    engine = make(scripted, retriever=retriever)
    engine.query(BUNDLE)
    await engine.aquery(BUNDLE)
    engine.retrieve(BUNDLE)
    await engine.aretrieve(BUNDLE)
    assert len(retriever.queries) == 4
    assert all(q == BUNDLE for q in retriever.queries)
    assert BUNDLE.query_str == QUESTION  # feedback went into a copy


async def test_feedback_stands_in_the_words_and_not_in_the_vector(scripted):
    heard = []

    class Whole(type(inner(scripted(lambda m: RIGHT)))):
        def synthesize(self, query_bundle, nodes, additional_source_nodes=None):
            heard.append(query_bundle)
            return super().synthesize(query_bundle, nodes, additional_source_nodes)

    plain = inner(scripted(first_wrong_then_right))
    whole = Whole(plain._retriever, plain._response_synthesizer)
    AugmentedQueryEngine.around(whole).query(BUNDLE)
    first, second = heard
    assert first == BUNDLE
    assert "Lisbon" in second.query_str
    assert (second.embedding, second.custom_embedding_strs, second.image_path) == ([0.5] * 8, ["towers"], "a.png")


class ByWord(MockEmbedding):
    """A vector by one word: what speaks of stone lies in one direction, all else in the other."""

    def _get_vector(self):
        raise NotImplementedError

    def _get_text_embedding(self, text):
        return [1.0, 0.0] if "granite" in text else [0.0, 1.0]

    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)


@pytest.mark.parametrize("from_args", [True, False])
def test_hyde_through_ours_finds_what_the_question_does_not(scripted, from_args):
    texts = [TextNode(text="It is granite from Porto.", id_="stone"), TextNode(text="Bread.", id_="bread")]
    index = VectorStoreIndex(texts, embed_model=ByWord(embed_dim=2))
    llm = scripted(lambda m: "granite" if "passage" in m[-1].content else "It is granite from Porto. [1]")
    retriever = index.as_retriever(similarity_top_k=1)
    ours = (
        AugmentedQueryEngine.from_args(retriever, llm)
        if from_args
        else AugmentedQueryEngine.around(inner(llm, retriever))
    )
    hyde = HyDEQueryTransform(llm=llm, include_original=False)
    assert [n.node_id for n in ours.query("Which stone?").source_nodes] == ["bread"]
    assert [n.node_id for n in TransformQueryEngine(ours, hyde).query("Which stone?").source_nodes] == ["stone"]
