"""What the postprocessor is told with one word each."""

from llama_index.core.schema import NodeRelationship, RelatedNodeInfo
from llamaindex_denoisers import QUESTION, scored, texts_of
from llamaindex_engines import nodes

from denoise_core.end import ENDDenoiser
from denoise_core.end.denoiser import NOT_RELEVANT
from denoise_core.runtime.fallbacks import fallback_counts
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import DenoisePostprocessor, record


def texts(hits=None, **settings):
    postprocessor = DenoisePostprocessor(**settings)
    return texts_of(
        postprocessor.postprocess_nodes(hits or nodes(), query_str=QUESTION)
    )


def test_keep_is_the_rule_of_the_default():
    assert len(texts(keep=1)) == 1
    assert texts(threshold=-1e9) == texts_of(nodes())


def test_settings_reach_the_denoiser_and_the_record_says_what_it_found():
    assert len(texts(max_tokens=12)) == 1
    assert DenoisePostprocessor(risk=0.2).active_denoiser.rule.risk == 0.2
    far_question = {"query_str": "Which enzyme do limpets lack?"}
    [nearest, *_] = DenoisePostprocessor().postprocess_nodes(nodes(), **far_question)
    note = record(nearest.node)
    assert note["relevant"] is False
    assert note["note"].startswith("nothing seems to bear")
    kind = ("ENDDenoiser", NOT_RELEVANT)
    count = fallback_counts().get(kind, 0)
    emptied = DenoisePostprocessor(on_irrelevant="drop", top_n=2)
    assert emptied.postprocess_nodes(nodes(), **far_question) == []
    assert fallback_counts()[kind] == count + 1


def test_nodes_of_one_document_share_its_title_and_its_table_header():
    sheet = (
        "# Pump 260\n\n| What | Value |\n|---|---|\n| Noise | 58 dB |\n| Fuse | 6 A |\n"
    )
    position = sheet.index("| Fuse")
    document = RelatedNodeInfo(node_id="sheet")
    pieces = []
    for start, end in ((0, position), (position, len(sheet))):
        place = {"start_char_idx": start, "end_char_idx": end}
        relationships = {NodeRelationship.SOURCE: document}
        pieces.append(scored(sheet[start:end], **place, relationships=relationships))
    scorer = FunctionScorer(lambda query, text: float("6 A" in text))
    end = ENDDenoiser(scorer, keep=1, chunker="auto")
    assert texts(pieces, denoiser=end) == [
        "# Pump 260\n\n| What | Value |\n|---|---|\n",
        "| Fuse | 6 A |\n",
    ]
