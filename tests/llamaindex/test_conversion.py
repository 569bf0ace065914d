"""Nodes are converted inside the guard: one that is broken follows the policy, in its place."""

import pytest
from broken_parts import TWO_SENTENCES as TEXT
from broken_parts import Uncopied, Unspeakable, first_sentence
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_denoisers import Joins, ids_of

from denoise_core.runtime import fallbacks
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import FunctionLLM
from llamaindex_denoise import DenoisePostprocessor, record


@pytest.fixture(autouse=True)
def _first_of_its_kind():
    fallbacks._counts.clear()


class Stuck(Uncopied, TextNode):
    pass


TITLED = {"title": "Towers"}
BROKEN = {
    "a metadata template with a foreign field": lambda: TextNode(
        text=TEXT, metadata=TITLED, metadata_template="{nobody}"
    ),
    "metadata that cannot be shown": lambda: TextNode(
        text=TEXT, metadata={"title": Unspeakable()}
    ),
    "no text": lambda: TextNode.model_construct(
        text=None, metadata={}, relationships={}
    ),
    "one that cannot be copied": lambda: Stuck(text=f"{TEXT} Now."),
}


def nodes(broken):
    broken.id_ = "x"
    return [
        NodeWithScore(node=n)
        for n in (
            TextNode(text=TEXT, id_="a"),
            broken,
            TextNode(text=f"{TEXT} Yes.", id_="b"),
        )
    ]


async def processed(broken, sync, **settings):
    postprocessor = DenoisePostprocessor(denoiser=first_sentence(), **settings)
    if sync:
        return postprocessor.postprocess_nodes(nodes(broken), query_str="How tall?")
    return await postprocessor.apostprocess_nodes(nodes(broken), query_str="How tall?")


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_node_follows_the_policy_and_costs_no_other(name, sync, caplog):
    broken = BROKEN[name]()
    kept_items = await processed(broken, sync)
    assert ids_of(kept_items) == ["a", "x", "b"]
    assert [hit.node.text.strip() for hit in (kept_items[0], kept_items[2])] == [
        "The tower is tall."
    ] * 2
    assert [record(hit.node)["fallback"] for hit in (kept_items[0], kept_items[2])] == [
        None,
        None,
    ]
    assert kept_items[1].node is broken
    assert "conversion" in caplog.text
    assert [
        hit.node.node_id for hit in await processed(broken, sync, on_error="drop")
    ] == [
        "a",
        "b",
    ]
    with pytest.raises((RuntimeError, KeyError, ValueError)):
        await processed(broken, sync, on_error="raise")


@pytest.mark.parametrize("order", ["input", "score"])
async def test_nothing_is_lost_by_order_or_number(order):
    kept_items = await processed(BROKEN["no text"](), True, order=order, top_n=1)
    assert sorted(hit.node.node_id for hit in kept_items) == ["a", "x"]


def test_a_question_that_could_not_be_cleared_is_said_beside_each_node():
    def names_the_opinion(messages):
        return "2" if "cut into numbered pieces" in messages[-1].content else "1"

    postprocessor = DenoisePostprocessor(
        denoiser=S2ADenoiser(FunctionLLM(names_the_opinion))
    )
    inputs = [NodeWithScore(node=TextNode(text=TEXT, id_="a"))]
    kept_items = postprocessor.postprocess_nodes(
        inputs, query_str="How tall is the tower? I think 200 m."
    )
    assert all(
        "no part that asks" in record(hit.node)["question_note"] for hit in kept_items
    )


@pytest.mark.parametrize("scores", [(0.2, 0.9), (None, 0.9), (0.9, 0.2), (None, None)])
def test_text_of_several_nodes_has_their_best_score(scores):
    scored_nodes = []
    for id_, score in zip("ab", scores, strict=True):
        node = TextNode(text=f"Tower {id_}.", id_=id_)
        scored_nodes.append(NodeWithScore(node=node, score=score))
    denoiser = DenoisePostprocessor(denoiser=Joins())
    [joint] = denoiser.postprocess_nodes(scored_nodes, query_str="q")
    expected = 0.9 if 0.9 in scores else None
    assert joint.score == expected
