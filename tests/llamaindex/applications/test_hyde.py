"""HyDE through ours: what is invented serves the search, reaches it whole, and is no evidence."""

from judging import InOnePassage
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.query_engine import TransformQueryEngine
from llamaindex_inns import QUESTION, RIGHT, WRONG, assert_told_apart, index, judged

from llamaindex_denoise import AugmentedQueryEngine, Checked


def test_hyde_within(scripted):
    invents = HyDEQueryTransform(llm=scripted(lambda m: WRONG))
    assert_told_apart(lambda llm: TransformQueryEngine(index().as_query_engine(llm=llm), invents), scripted)


def test_hyde_around(scripted):
    invents = HyDEQueryTransform(llm=scripted(lambda m: "The inn of Marne opens late."), include_original=False)
    llm = scripted(lambda m: RIGHT)
    own = AugmentedQueryEngine.from_args(index().as_retriever(similarity_top_k=1), llm, judge=InOnePassage())
    checked = Checked(index().as_query_engine(llm=llm, similarity_top_k=1), judge=InOnePassage())
    for engine in (own, checked):
        response = TransformQueryEngine(engine, invents).query(QUESTION)
        assert [n.node_id for n in response.source_nodes] == ["Marne"]
        assert judged(response) != "supported"
