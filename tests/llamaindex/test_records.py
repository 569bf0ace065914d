"""What is noted about a node: out of every prompt, true about the characters it names."""

from hypothesis import given, settings
from hypothesis import strategies as st
from kept_texts import Keeping
from llama_index.core.node_parser import SentenceSplitter, SentenceWindowNodeParser
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.schema import (
    Document,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    TextNode,
)
from llamaindex_denoisers import (
    RedSentences,
    Untouched,
    both,
    kept_characters,
    nodes_of,
)

from denoise_core import DenoiseResult, Passage
from denoise_core.text.chunk import sentence_spans
from llamaindex_denoise import DenoisePostprocessor, record


class AllAsOne(Untouched):
    def denoise(self, query, passages):
        return DenoiseResult(
            query,
            tuple(passages),
            fallback="; ".join(f"{passage.id}: model is down" for passage in passages),
        )


def test_a_record_lists_every_range():
    text = "abcdefgh" * 150
    every_other = Keeping(lambda text: [(i, i + 1) for i in range(0, 1200, 2)])
    (out,) = both(DenoisePostprocessor(denoiser=every_other), nodes_of([text]))
    note = record(out.node)
    assert len(note["origin_spans"]) == 600
    assert kept_characters(text, note) == out.node.text


def test_what_went_wrong_with_many_nodes_is_cut():
    texts = [f"The red tower {number}." for number in range(100)]
    postprocessor = DenoisePostprocessor(denoiser=AllAsOne())
    for hit in both(postprocessor, nodes_of(texts)):
        note = record(hit.node)
        assert len(note["fallback"]) <= 200


def test_none_leaves_no_record():
    (bare_node, *_) = both(
        DenoisePostprocessor(denoiser=RedSentences(), record="none"), nodes_of()
    )
    assert record(bare_node.node) is None


def test_no_metadata_mode_and_no_chunk_of_the_node_shows_the_record():
    node = TextNode(text="The red tower. " * 30, id_="x", metadata={"title": "Towers"})
    (out,) = both(
        DenoisePostprocessor(denoiser=Untouched()), [NodeWithScore(node=node)]
    )
    assert out.node.get_content(MetadataMode.ALL) == node.get_content(MetadataMode.ALL)
    assert out.node.hash == node.hash, "a docstore would take it for another node"
    chunks = SentenceSplitter(chunk_size=60, chunk_overlap=0)([out.node])
    assert len(chunks) > 1
    for chunk in chunks:
        assert "origin" not in chunk.get_content(MetadataMode.ALL)
        assert chunk.get_content(MetadataMode.NONE) in node.text
        assert record(chunk) == record(out.node), "a chunk still names the user's node"


def test_a_node_without_a_document_becomes_its_own_source_and_the_others_keep_theirs():
    (out,) = both(
        DenoisePostprocessor(denoiser=Untouched()),
        [NodeWithScore(node=TextNode(text="red", id_="x"))],
    )
    assert out.node.ref_doc_id == "x"
    (first, *_) = both(DenoisePostprocessor(denoiser=Untouched()), nodes_of())
    source = first.node.relationships[NodeRelationship.SOURCE]
    assert source.node_id == "doc"
    assert source.metadata["title"] == "Towers"


SENTENCES = "A blue cat sits here. The red tower is in Porto. Bread is cheap there. Ships are long."


def test_after_metadata_replacement_spans_name_characters_of_the_window():
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    stored = parser.get_nodes_from_documents([Document(text=SENTENCES, id_="doc")])
    results = [
        NodeWithScore(node=stored[2].model_copy(), score=0.9)
    ]  # "Bread is cheap there."
    window = MetadataReplacementPostProcessor(
        target_metadata_key="window"
    ).postprocess_nodes(results)
    (out,) = both(DenoisePostprocessor(denoiser=RedSentences()), window)
    note = record(out.node)
    assert note["origin_id"] == stored[2].node_id
    entry = stored[2].metadata["window"]
    assert note["origin_hash"] == window[0].node.hash != stored[2].hash
    assert kept_characters(entry, note) == out.node.text
    assert "origin_range" not in note, "the window's place in the document is not known"
    assert out.node.start_char_idx is None
    assert out.node.end_char_idx is None


def keep_sentences(chosen):
    """A denoiser of the sentences whose place in the text is in ``chosen``."""

    def choose(text):
        spans = sentence_spans(Passage(text, "p"))
        return [(span.start, span.end) for i, span in enumerate(spans) if i in chosen]

    return Keeping(choose)


PIECES = ["Red is on. ", "塔が立つ。", "برج أحمر. ", "Ok 🙂 so! ", "Same here. "]


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=8),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7)),
)
def test_two_cuts_in_a_row_still_give_exact_characters(pieces, first, second):
    text = "".join(pieces)
    node = TextNode(text=text, id_="a", start_char_idx=50, end_char_idx=50 + len(text))
    nodes = [NodeWithScore(node=node)]
    for chosen in (first, second):
        denoise = DenoisePostprocessor(denoiser=keep_sentences(chosen))
        nodes = denoise.postprocess_nodes(nodes, query_str="q")
    for hit in nodes:
        note = record(hit.node)
        assert note["origin_extractive"]
        assert note["origin_range"] == [50, 50 + len(text)]
        own_value = kept_characters(text, note)
        assert own_value.strip() == hit.node.text.strip()
