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
)
from llamaindex_denoisers import (
    RedSentences,
    Untouched,
    kept_characters,
    nodes_of,
    processed,
    scored,
)

from denoise_core import Passage
from denoise_core.text.chunk import sentence_spans
from llamaindex_denoise import record


def test_no_metadata_mode_and_no_chunk_of_the_node_shows_the_record():
    hit = scored("The red tower. " * 30, id_="x", metadata={"title": "Towers"})
    node = hit.node
    (out,) = processed(Untouched(), [hit])
    assert out.node.get_content(MetadataMode.ALL) == node.get_content(MetadataMode.ALL)
    assert out.node.hash == node.hash, "a docstore would take it for another node"
    chunks = SentenceSplitter(chunk_size=60, chunk_overlap=0)([out.node])
    assert len(chunks) > 1
    for chunk in chunks:
        assert "origin" not in chunk.get_content(MetadataMode.ALL)
        assert chunk.get_content(MetadataMode.NONE) in node.text
        assert record(chunk) == record(out.node), "a chunk still names the user's node"


def test_a_node_without_a_document_becomes_its_own_source_and_the_others_keep_theirs():
    (out,) = processed(Untouched(), [scored("red", id_="x")])
    assert out.node.ref_doc_id == "x"
    (first, *_) = processed(Untouched(), nodes_of())
    source = first.node.relationships[NodeRelationship.SOURCE]
    assert source.node_id == "doc"
    assert source.metadata["title"] == "Towers"


SENTENCES = "A blue cat sits here. The red tower is in Porto. Bread is cheap there. Ships are long."


def test_after_metadata_replacement_spans_name_characters_of_the_window():
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    stored = parser.get_nodes_from_documents([Document(text=SENTENCES, id_="doc")])
    sentence = stored[2]  # "Bread is cheap there."
    results = [NodeWithScore(node=sentence.model_copy(), score=0.9)]
    replacement = MetadataReplacementPostProcessor(target_metadata_key="window")
    window = replacement.postprocess_nodes(results)
    (out,) = processed(RedSentences(), window)
    note = record(out.node)
    assert note["origin_id"] == sentence.node_id
    assert note["origin_hash"] == window[0].node.hash != sentence.hash
    assert kept_characters(sentence.metadata["window"], note) == out.node.text
    assert "origin_range" not in note, "the window's place in the document is not known"
    assert out.node.start_char_idx is None
    assert out.node.end_char_idx is None


def keep_sentences(chosen):
    """A denoiser of the sentences whose place in the text is in ``chosen``."""

    def choose(text):
        spans = sentence_spans(Passage(text, "p"))
        return [(span.start, span.end) for i, span in enumerate(spans) if i in chosen]

    return Keeping(choose)


@settings(max_examples=40)
@given(
    st.lists(
        st.sampled_from(
            ["Red is on. ", "塔が立つ。", "برج أحمر. ", "Ok 🙂 so! ", "Same here. "]
        ),
        min_size=1,
        max_size=8,
    ),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7)),
)
def test_two_cuts_in_a_row_still_give_exact_characters(pieces, first, second):
    text = "".join(pieces)
    end = 50 + len(text)
    nodes = [scored(text, id_="a", start_char_idx=50, end_char_idx=end)]
    for chosen in (first, second):
        nodes = processed(keep_sentences(chosen), nodes)
    for hit in nodes:
        note = record(hit.node)
        assert note["origin_extractive"]
        assert note["origin_range"] == [50, end]
        assert kept_characters(text, note).strip() == hit.node.text.strip()
