"""Wherever a model or a scorer is wanted, what people have will do; and the moves from LangChain's own pieces."""

import asyncio
import json
import math
import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.load import dumpd, load
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI

from denoise_core import Guard, Passage
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import FunctionLLM, FunctionScorer
from langchain_denoise import Denoise, DenoiseCompressor, DenoisingRetriever, EmbeddedEmbeddings
from langchain_denoise.convert.messages import to_messages
from langchain_denoise.ranking import ordered, top

QUESTION = "candlepin bowling"
TEXTS = ["The moon is round.", "Candlepin bowling is old. It rains.", "A bowling ball.", "candlepin bowling"]
DOCUMENTS = [Document(page_content=t, id=str(i), metadata={"n": i}) for i, t in enumerate(TEXTS)]


class Counts(Embeddings):
    """The number of each word of the question, and one for the rest."""

    def embed_query(self, text):
        return [float(text.lower().count(w)) for w in QUESTION.split()] + [0.1]

    def embed_documents(self, texts):
        return [self.embed_query(t) for t in texts]


class Overlap(BaseCrossEncoder):
    def score(self, text_pairs):
        return [float(sum(w in text.lower() for w in query.split())) for query, text in text_pairs]


def both(compressor):
    found = compressor.compress_documents(DOCUMENTS, QUESTION)
    assert asyncio.run(compressor.acompress_documents(DOCUMENTS, QUESTION)) == found
    return found


def texts(found):
    return [d.page_content for d in found]


def peers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # EmbeddingsFilter imports langchain-community, which warns
        from langchain_classic.retrievers import document_compressors
    return document_compressors


def test_moving_from_embeddings_filter():
    theirs = peers().EmbeddingsFilter(embeddings=Counts(), k=2).compress_documents(DOCUMENTS, QUESTION)
    ours = both(DenoiseCompressor.from_embeddings(Counts(), keep=2))
    assert sorted(texts(ours)) == sorted(texts(theirs))
    theirs = peers().EmbeddingsFilter(embeddings=Counts(), k=None, similarity_threshold=0.8)
    ours = both(DenoiseCompressor.from_embeddings(Counts(), threshold=0.8))
    assert sorted(texts(ours)) == sorted(texts(theirs.compress_documents(DOCUMENTS, QUESTION)))


def test_moving_from_cross_encoder_reranker():
    theirs = peers().CrossEncoderReranker(model=Overlap(), top_n=3).compress_documents(DOCUMENTS, QUESTION)
    assert texts(both(DenoiseCompressor.from_cross_encoder(Overlap(), top_n=3))) == texts(theirs)


def test_a_cross_encoder_reads_what_it_read_before_unless_a_header_is_asked_for(kit):
    read = []

    class Notes(BaseCrossEncoder):
        def score(self, text_pairs):
            read.append([text for _, text in text_pairs])
            return [1.0] * len(text_pairs)

    titled = [Document(page_content="It is tall.", metadata={"title": "Eiffel Tower"})]
    peers().CrossEncoderReranker(model=Notes()).compress_documents(titled, QUESTION)
    DenoiseCompressor.from_cross_encoder(Notes()).compress_documents(titled, QUESTION)
    DenoisingRetriever.from_cross_encoder(Notes(), retriever=kit.ListRetriever(found=titled)).invoke(QUESTION)
    assert read == [["It is tall."]] * 3
    DenoiseCompressor.from_cross_encoder(Notes(), header_keys=["title"]).compress_documents(titled, QUESTION)
    assert read[-1] == ["Eiffel Tower\nIt is tall."]


def wanted(messages):
    """A model that finds sentences about candlepin needed, in each of the forms that it is asked in."""
    prompt = messages[-1].text
    if "Extracted relevant parts:" in prompt:
        context = prompt.split(">>>")[1]
        return "\n".join(s for s in context.split(". ") if "andlepin" in s) or "NO_OUTPUT"
    if "> Relevant (YES / NO):" in prompt:
        return "YES" if "andlepin" in prompt.split(">>>")[1] else "NO"
    text = prompt.split("BEGIN", 1)[1].split("\nEND ")[0]
    return ", ".join(re.findall(r"^(\d+) .*andlepin", text, re.MULTILINE)) or "NONE"


def test_moving_from_llm_chain_extractor_and_filter(kit):
    model = kit.chat(wanted)
    ours = both(DenoiseCompressor.from_llm(model, context=False))
    assert texts(ours) == ["Candlepin bowling is old.", "candlepin bowling"]
    extracted = peers().LLMChainExtractor.from_llm(model).compress_documents(DOCUMENTS, QUESTION)
    assert [t.strip(" .") for t in texts(extracted)] == [t.strip(" .") for t in texts(ours)]
    ours = both(DenoiseCompressor.from_llm(model))
    filtered = peers().LLMChainFilter.from_llm(model).compress_documents(DOCUMENTS, QUESTION)
    assert [d.id for d in filtered] == [d.id for d in ours]


@pytest.mark.parametrize(
    ("made_by", "given", "settings"),
    [
        ("from_llm", lambda kit: kit.chat(wanted), {"context": False}),
        ("from_embeddings", lambda kit: Counts(), {"keep": 2}),
        ("from_embeddings", lambda kit: Counts(), {"threshold": 0.8}),
        ("from_cross_encoder", lambda kit: Overlap(), {}),
    ],
)
def test_the_same_lines_on_the_retriever_and_the_middleware(made_by, given, settings, kit):
    from langchain_denoise.middleware import DenoiseToolResults

    expected = both(getattr(DenoiseCompressor, made_by)(given(kit), **settings))
    assert 0 < len(expected) <= 3
    inner = kit.ListRetriever(found=DOCUMENTS)
    retriever = getattr(DenoisingRetriever, made_by)(given(kit), retriever=inner, **settings)
    assert texts(retriever.invoke(QUESTION)) == texts(expected)
    chosen = getattr(Denoise, made_by)(given(kit), **settings)
    assert texts(DenoisingRetriever(retriever=inner, settings=chosen).invoke(QUESTION)) == texts(expected)
    made = DenoiseToolResults(chosen, tools=["search"])
    assert sorted(texts(both(made.compressor))) == sorted(texts(expected))


def test_what_a_sentence_points_back_to_comes_along_or_stays_behind(kit):
    """LLMChainExtractor brings the sentences that were named; so does ours with context=False."""
    document = Document(page_content="Candlepin bowling is old. It began in Worcester. The moon is round.")

    def second(messages):
        return "It began in Worcester." if "Extracted relevant parts:" in messages[-1].text else "2"

    (theirs,) = peers().LLMChainExtractor.from_llm(kit.chat(second)).compress_documents([document], QUESTION)
    for context, expected in (
        (True, "Candlepin bowling is old. It began in Worcester."),
        (False, theirs.page_content),
    ):
        (ours,) = DenoiseCompressor.from_llm(kit.chat(second), context=context).compress_documents(
            [document], QUESTION
        )
        assert ours.page_content.rstrip() == expected
        assert context or ours.page_content == expected, "no white space that nobody named"
    with pytest.raises(ValueError, match="context=False: a setting of System 2 Attention"):
        DenoiseCompressor(scorer=Counts(), context=False)


MODELS = {
    "a chat model": lambda kit: kit.chat(wanted),
    "with settings": lambda kit: kit.chat(wanted).with_config(tags=["x"]).with_retry(),
    "a runnable": lambda kit: RunnableLambda(wanted),
    "a core LLM": lambda kit: FunctionLLM(lambda messages: wanted(to_messages(messages))),
}


@pytest.mark.parametrize("kind", MODELS)
def test_whatever_is_a_model(kind, kit):
    model = MODELS[kind](kit)
    assert texts(both(DenoiseCompressor.from_llm(model))) == ["Candlepin bowling is old. ", "candlepin bowling"]
    retriever = DenoisingRetriever.from_llm(model, retriever=kit.ListRetriever(found=DOCUMENTS))
    assert len(retriever.invoke(QUESTION)) == 2


@pytest.mark.parametrize("scorer", [Counts(), Overlap(), FunctionScorer(lambda q, t: float("andlepin" in t))])
def test_whatever_is_a_scorer(scorer, kit):
    assert texts(both(DenoiseCompressor(scorer=scorer, keep=1))) in (TEXTS[1:2], TEXTS[3:])
    retriever = DenoisingRetriever(retriever=kit.ListRetriever(found=DOCUMENTS), scorer=scorer, k=3)
    assert len(retriever.invoke(QUESTION)) == 3


def test_nothing_said_is_the_embedded_default():
    found = both(DenoiseCompressor(keep=2))
    assert {"1", "3"} == {d.id for d in found}
    assert both(DenoiseCompressor())


def test_the_shipped_encoder_as_embeddings():
    embeddings = EmbeddedEmbeddings()
    vectors = embeddings.embed_documents(["a city", "a town", "algebra"])
    assert [len(v) for v in vectors] == [384] * 3
    near, far = (sum(a * b for a, b in zip(vectors[0], v)) for v in vectors[1:])
    assert near > far
    assert embeddings.embed_documents([]) == []
    assert asyncio.run(embeddings.aembed_query("a city")) == pytest.approx(vectors[0], abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"denoiser": Counts()}, "denoiser: expected an object with denoise and adenoise, got a Counts"),
        ({"denoiser": ENDDenoiser}, "the class ENDDenoiser"),
        ({"scorer": "bm25"}, "scorer: expected embeddings"),
        ({"scorer": RunnableLambda(str)}, "a chat model goes to from_llm"),
        ({"scorer": ENDDenoiser(FunctionScorer(len))}, "pass denoiser="),
        ({"model": 7}, "model: expected a chat model"),
        ({"keep": 7.5}, "keep=7.5"),
        ({"keep": 3, "threshold": 0.5}, "give one of the two"),
        ({"variant": "select"}, "needs model="),
        ({"header_keys": "title"}, "expected a list of metadata keys"),
        ({"scorer": Overlap(), "model": RunnableLambda(str)}, "not several"),
        ({"model": RunnableLambda(str), "keep": 3}, "there is variant="),
        ({"denoiser": Guard(ENDDenoiser(FunctionScorer(len))), "scorer": Overlap()}, "not beside denoiser"),
        ({"top_n": 0}, "top_n"),
        ({"order": "best"}, "order"),
        ({"record": "all"}, "record"),
    ],
)
def test_wrong_settings_are_said_when_it_is_built(settings, message):
    with pytest.raises(ValueError, match=message):
        DenoiseCompressor(**settings)


def test_a_store_without_as_retriever_is_told_so(kit):
    class Store:
        def as_retriever(self):
            return None

    with pytest.raises(ValueError, match="pass its as_retriever"):
        DenoisingRetriever(retriever=Store())


# Plain settings are plain JSON


def again(part):
    return load(
        json.loads(json.dumps(dumpd(part))),
        allowed_objects=[type(part), ChatOpenAI],
        valid_namespaces=["langchain_denoise"],
        secrets_map={"OPENAI_API_KEY": "none"},
    )


def test_a_compressor_is_rebuilt_from_json():
    made = DenoiseCompressor(
        keep=0.5, top_n=3, order="score", header_keys=("title", "year"), record="full", chunks=200
    )
    assert again(made) == made
    model = ChatOpenAI(model="local", base_url="http://127.0.0.1:9/v1", api_key="none")
    made = DenoiseCompressor.from_llm(model, max_concurrency=3)
    loaded = again(made)
    assert (loaded.variant, loaded.max_concurrency, loaded.model.model_name) == ("select", 3, "local")
    assert isinstance(loaded.denoiser_for({}), S2ADenoiser)


# k and order

passages = st.lists(st.tuples(st.text("ab", min_size=1, max_size=4), st.floats(-5, 5)), max_size=8)


@given(passages, st.integers(1, 9), st.sampled_from([0.3, 1, 2]))
def test_k_is_k_and_the_laws_hold(made, k, keep):
    given = [Passage(text, str(i)) for i, (text, _) in enumerate(made)]
    scores = dict(made)
    result = ENDDenoiser(FunctionScorer(lambda q, t: scores[t]), keep=keep).denoise("q", given)
    cut = top(result, given, k, fill=True)
    assert len(cut.passages) == min(k, len(given))
    assert [p.id for p in cut.passages] == sorted((p.id for p in cut.passages), key=int)
    covered = [s for p in cut.passages for s in p.covered] + [d.span for d in cut.dropped]
    assert sorted((s.passage_id, s.start, s.end) for s in covered) == sorted((p.id, 0, len(p.text)) for p in given)
    assert {c.span for c in cut.kept} == {s for p in cut.passages for s in p.covered}
    by_score = ordered(cut, "score").passages
    assert [p.score for p in by_score] == sorted((p.score for p in cut.passages), reverse=True)


def test_k_beside_keep_is_k_but_a_threshold_is_a_threshold(kit):
    found = kit.ListRetriever(found=DOCUMENTS)
    scorer = FunctionScorer(lambda q, t: -1.0 if "moon" in t else 1.0)
    assert len(DenoisingRetriever(retriever=found, denoiser=ENDDenoiser(scorer, keep=0.3), k=3).invoke("q")) == 3
    assert len(DenoisingRetriever(retriever=found, scorer=scorer, keep=0.3, k=3).invoke("q")) == 3
    assert len(DenoisingRetriever(retriever=found, scorer=scorer, threshold=0.0, k=4).invoke("q")) == 3
    assert len(DenoisingRetriever(retriever=found, denoiser=ENDDenoiser(scorer, keep=0.3)).invoke("q")) == 2


def test_titles_and_named_metadata_are_read_with_the_text(kit):
    read, tower = [], {"title": "Eiffel Tower"}
    documents = [
        Document(page_content="It is tall.", metadata={**tower, "year": 1889, "tags": ["iron", "Paris"]}),
        Document(page_content="Eiffel Tower: it is tall.", metadata={**tower, "year": None}),
        Document(page_content="It is tall."),
    ]

    def spy(query, given):
        from denoise_core import DenoiseResult

        read.append([p.header for p in given])
        return DenoiseResult(query, given)

    for keys in (["title"], ["title", "year", "tags"], []):
        out = DenoiseCompressor(denoiser=kit.Answers(spy), header_keys=keys).compress_documents(documents, "q")
        assert texts(out) == texts(documents)
    assert read == [
        ["Eiffel Tower", "", ""],
        ["Eiffel Tower\nyear: 1889\ntags: iron, Paris", "", ""],
        ["", "", ""],
    ]


def test_a_probe_folder(tmp_path):
    from denoise_core.embedded import sample
    from denoise_core.embedded.fitted import torch_minilm
    from denoise_core.end import HiddenReader
    from denoise_core.end.fit import fit_probe

    folder = fit_probe(
        HiddenReader(torch_minilm()[0], tokenizer=torch_minilm()[1]), sample()[:2], layers=[1]
    ).probe.save(tmp_path / "probe")
    scored = DenoiseCompressor.from_probe(folder, torch_minilm(), keep=2)
    assert math.isfinite(both(scored)[0].metadata["relevance_score"])
