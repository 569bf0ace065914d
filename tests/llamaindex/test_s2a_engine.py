"""The S2A engine answers from what it kept, and asks nobody when there is nothing to answer from."""

from llama_index.core.schema import QueryBundle
from llamaindex_engines import QUESTION, Fixed, both, keep_red, nodes

from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2A
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import DenoisePostprocessor, LlamaLLM, S2AQueryEngine, record


def s2a_engine(scripted_llm, retriever=None, **settings):
    s2a = S2A(LlamaLLM(scripted_llm(keep_red)), variant="select")
    return S2AQueryEngine(s2a, retriever or Fixed(nodes()), **settings)


def test_s2a_answers_from_what_it_kept(scripted_llm):
    response = both(lambda: s2a_engine(scripted_llm))
    assert "The red tower is in Porto." in str(response)
    assert "bread" not in str(response).lower()
    assert "bridge" not in str(response)
    (node,) = response.source_nodes
    assert record(node.node)["origin_spans"] == [[0, 27]]
    note = response.metadata["denoise"]
    assert note["outcome"] == "answered"
    assert note["calls"] == 2
    assert {d["id"] for d in note["dropped"]} == {"n0", "n1", "n2"}


def test_s2a_without_context_asks_nobody(scripted_llm):
    response = both(lambda: s2a_engine(scripted_llm, Fixed([])))
    assert str(response) == "Empty Response"
    assert response.metadata["denoise"] == {"outcome": "no_context", "calls": 0}


def test_s2a_delegates_streams_and_runs_postprocessors(scripted_llm):
    drop_ships = DenoisePostprocessor(
        denoiser=ENDDenoiser(
            FunctionScorer(lambda q, t: float("Ships" not in t)), threshold=0.5
        )
    )
    engine = s2a_engine(scripted_llm, node_postprocessors=[drop_ships], streaming=True)
    assert [hit.node.node_id for hit in engine.retrieve(QueryBundle(QUESTION))] == [
        "n0",
        "n1",
    ]
    response = engine.query(QUESTION)
    assert "The red tower is in Porto." in "".join(response.response_gen)
    assert record(response.source_nodes[0].node)["op"] == "ENDDenoiser > S2A.select"
