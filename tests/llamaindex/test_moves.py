"""Each row of the table of moves in docs/llamaindex.md: both sides are run as written there, and compared."""

import re
from pathlib import Path

import pytest
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.postprocessor import (
    LLMRerank,
    SentenceEmbeddingOptimizer,
    SentenceTransformerRerank,
    SimilarityPostprocessor,
)
from llama_index.core.query_engine import RetryQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_engines import QUESTION, RIGHT, first_wrong_then_right, inner

from denoise_core.augmenter import Groundedness
from denoise_core.text.chunk import sentences
from llamaindex_denoise import Checked, DenoisePostprocessor, UtilityEvaluator

PAGE = Path(__file__).parents[2] / "docs" / "llamaindex.md"
PARTS = {
    part.__name__: part
    for part in (
        Checked,
        DenoisePostprocessor,
        LLMRerank,
        RetryQueryEngine,
        SentenceEmbeddingOptimizer,
        SentenceTransformerRerank,
        SimilarityPostprocessor,
        sentences,
    )
}
GOLD = "The red tower is in Porto."
TEXTS = [
    "The blue bridge crosses the river.",
    f"{GOLD} It is the tower of the town.",
    "Bread is cheap.",
    "Ships are long. Ships are slow.",
    "A red tower.",
    "Rain is wet.",
]


def rows():
    """``{peer: (its code, ours)}``, as the page has them."""
    text = PAGE.read_text("utf-8")
    table = text[text.index("## Moving over") :].split("\n\n")[2]
    found = re.findall(r"^\| `(.+)` \| `(.+)` \|$", table, re.M)
    return {re.match(r"\w+", theirs)[0]: (theirs, ours) for theirs, ours in found}


class Words(BaseEmbedding):
    """One axis for each word of the question, and one for all else."""

    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)

    def _get_text_embedding(self, text):
        said = set(re.findall(r"\w+", text.casefold()))
        asked = ["red", "tower", "where"]
        return [*(float(w in said) for w in asked), 0.1 * len(said.difference(asked, ("the", "is")))]

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


def found():
    return [NodeWithScore(node=TextNode(text=t, id_=f"n{i}"), score=0.5) for i, t in enumerate(TEXTS)]


def outcome(part, nodes):
    """Ids, gold and characters of what is left."""
    out = part.postprocess_nodes(nodes, query_str=QUESTION)
    texts = [n.node.get_content() for n in out]
    return [n.node.node_id for n in out], sum(GOLD in t for t in texts), sum(map(len, texts))


def compared(peer, nodes=found, **names):
    theirs, ours = (eval(code, {**PARTS, **names}) for code in rows()[peer])
    return outcome(theirs, nodes()), outcome(ours, nodes())


def at_least_as_good(theirs, ours):
    assert ours[1] >= theirs[1] == 1, "gold"
    assert ours[2] <= theirs[2], "characters, and so tokens"


def test_peers_are_measured_at_their_own_defaults():
    """`LLMRerank` was set to ask about one node a call; its own default is ten."""
    source = (Path(__file__).parents[2] / "benchmarks" / "llamaindex_peers.py").read_text("utf-8")
    (built,) = re.findall(r"LLMRerank\((.*?)\)\n", source)
    assert set(re.findall(r"(\w+)=", built)) == {"llm", "top_n"}


def test_the_page_has_every_peer():
    assert set(rows()) == {
        "LLMRerank",
        "SentenceEmbeddingOptimizer",
        "SimilarityPostprocessor",
        "SentenceTransformerRerank",
        "RetryQueryEngine",
    }


def test_from_llm_rerank(scripted):
    def reply(messages):
        asked = messages[-1].content
        if "BEGIN " not in asked:  # LlamaIndex's prompt, which numbers its documents
            return "Doc: 2, Relevance: 9"
        return re.search(r"(\d+) The red tower is in Porto", asked)[1]

    at_least_as_good(*compared("LLMRerank", llm=scripted(reply)))


def test_what_a_sentence_points_back_to_may_stay_behind(scripted):
    nodes = [NodeWithScore(node=TextNode(text="The red tower is old. It is in Porto."))]
    llm = scripted(lambda m: "2")
    (kept,) = DenoisePostprocessor.from_llm(llm).postprocess_nodes(nodes, query_str=QUESTION)
    assert kept.node.text == "The red tower is old. It is in Porto."
    (kept,) = DenoisePostprocessor.from_llm(llm, context=False).postprocess_nodes(nodes, query_str=QUESTION)
    assert kept.node.text == "It is in Porto."


def test_from_sentence_embedding_optimizer():
    at_least_as_good(*compared("SentenceEmbeddingOptimizer", e=Words()))


def test_from_similarity_postprocessor():
    e = Words()
    index = VectorStoreIndex([n.node for n in found()], embed_model=e)
    retriever = index.as_retriever(similarity_top_k=len(TEXTS))
    theirs, ours = compared("SimilarityPostprocessor", lambda: retriever.retrieve(QUESTION), e=e)
    assert theirs == ours, "the index scores with the same cosine"
    assert 0 < len(theirs[0]) < len(TEXTS)
    unscored = DenoisePostprocessor.from_embed_model(e, threshold=0.7)
    assert outcome(unscored, [NodeWithScore(node=n.node) for n in found()])[1] == 1
    none_reaches = DenoisePostprocessor.from_embed_model(e, threshold=0.9999)
    assert outcome(none_reaches, found()) == (["n4"], 0, len(TEXTS[4])), "the best one stays"


@pytest.fixture
def encoder(tmp_path):
    """A cross-encoder of one random layer on disk."""
    from sentence_transformers import CrossEncoder
    from tokenizers import Tokenizer, models, pre_tokenizers
    from torch import manual_seed
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    manual_seed(0)
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted({w for t in [*TEXTS, QUESTION] for w in re.findall(r"\w+|[.?]", t)})
    backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*names, *words])}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), names))
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(names) + len(words), num_labels=1, **size)
    folder = tmp_path / "encoder"
    BertForSequenceClassification(config).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(folder)
    assert CrossEncoder(str(folder), device="cpu").predict([("a", "b")]).shape == (1,)
    return str(folder)


def test_from_sentence_transformer_rerank(encoder):
    theirs, ours = compared("SentenceTransformerRerank", name=encoder)
    assert theirs == ours, "the same nodes, best first"
    assert len(ours[0]) == 2
    score = DenoisePostprocessor.from_cross_encoder(encoder, top_n=1, scores="replace")
    (best,) = score.postprocess_nodes(found(), query_str=QUESTION)
    assert best.node.node_id == ours[0][0]
    assert type(best.score) is float


@pytest.mark.parametrize("sync", [True, False])
async def test_from_retry_query_engine(scripted, sync):
    def names():
        llm = scripted(first_wrong_then_right)
        return llm, {"engine": inner(llm), "evaluator": UtilityEvaluator(Groundedness())}

    theirs, ours = rows()["RetryQueryEngine"]
    llm, given = names()
    Settings.llm = llm  # LlamaIndex's engine makes parts of Settings
    try:
        said = eval(theirs, {**PARTS, **given}).query(QUESTION)
    finally:
        Settings._llm = None
    calls = len(llm.asked)
    llm, given = names()
    checked = eval(ours, {**PARTS, **given})
    response = checked.query(QUESTION) if sync else await checked.aquery(QUESTION)
    assert str(said) == str(response) == RIGHT
    assert len(llm.asked) <= calls
