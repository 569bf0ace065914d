"""Nodes are converted inside the guard: one that is broken follows the policy, in its place."""

import pytest
from broken_parts import TWO_SENTENCES as TEXT
from broken_parts import Uncopied, Unspeakable, first_sentence
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_denoisers import Joins, ids_of, processed, scored, sync_and_async

from denoise_core.runtime import fallbacks
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


async def kept_nodes(broken, sync, **settings):
    postprocessor = DenoisePostprocessor(denoiser=first_sentence(), **settings)
    if sync:
        return postprocessor.postprocess_nodes(nodes(broken), query_str="How tall?")
    return await postprocessor.apostprocess_nodes(nodes(broken), query_str="How tall?")


@sync_and_async
@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_node_follows_the_policy_and_costs_no_other(name, sync, caplog):
    broken = BROKEN[name]()
    first, second, third = await kept_nodes(broken, sync)
    assert ids_of([first, third]) == ["a", "b"]
    for hit in (first, third):
        assert hit.node.text.strip() == "The tower is tall."
        assert record(hit.node)["fallback"] is None
    assert second.node is broken
    assert "conversion" in caplog.text
    assert ids_of(await kept_nodes(broken, sync, on_error="drop")) == ["a", "b"]
    with pytest.raises((RuntimeError, KeyError, ValueError)):
        await kept_nodes(broken, sync, on_error="raise")


@pytest.mark.parametrize("order", ["input", "score"])
async def test_nothing_is_lost_by_order_or_number(order):
    kept_items = await kept_nodes(BROKEN["no text"](), True, order=order, top_n=1)
    assert sorted(ids_of(kept_items)) == ["a", "x"]


@pytest.mark.parametrize("scores", [(0.2, 0.9), (None, 0.9), (0.9, 0.2), (None, None)])
def test_text_of_several_nodes_has_their_best_score(scores):
    nodes = [scored("A tower.", scores[0]), scored("A wall.", scores[1])]
    [joint] = processed(Joins(), nodes)
    expected = 0.9 if 0.9 in scores else None
    assert joint.score == expected
