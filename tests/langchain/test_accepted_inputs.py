"""Wherever a model or a scorer is wanted, what people have will do; and the moves from LangChain's own pieces."""

import asyncio
import json
import math
import re

import pytest
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.load import dumpd, load
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI

from denoise_core import Guard
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import FunctionLLM, FunctionScorer
from langchain_denoise import DenoiseCompressor, DenoisingRetriever, EmbeddedEmbeddings
from langchain_denoise.convert.messages import to_langchain_messages

QUESTION = "candlepin bowling"
TEXTS = [
    "The moon is round.",
    "Candlepin bowling is old. It rains.",
    "A bowling ball.",
    "candlepin bowling",
]
DOCUMENTS = [
    Document(page_content=t, id=str(i), metadata={"n": i}) for i, t in enumerate(TEXTS)
]


class Counts(Embeddings):
    """The number of each word of the question, and one for the rest."""

    def embed_query(self, text):
        return [float(text.lower().count(w)) for w in QUESTION.split()] + [0.1]

    def embed_documents(self, texts):
        return [self.embed_query(t) for t in texts]


class Overlap(BaseCrossEncoder):
    def score(self, text_pairs):
        return [
            float(sum(w in text.lower() for w in query.split()))
            for query, text in text_pairs
        ]


def both(compressor):
    found = compressor.compress_documents(DOCUMENTS, QUESTION)
    assert asyncio.run(compressor.acompress_documents(DOCUMENTS, QUESTION)) == found
    return found


def texts(found):
    return [d.page_content for d in found]


def test_a_cross_encoder_reads_the_text_alone_unless_a_header_is_asked_for(kit):
    read = []

    class Notes(BaseCrossEncoder):
        def score(self, text_pairs):
            read.append([text for _, text in text_pairs])
            return [1.0] * len(text_pairs)

    titled = [Document(page_content="It is tall.", metadata={"title": "Eiffel Tower"})]
    DenoiseCompressor.from_cross_encoder(Notes()).compress_documents(titled, QUESTION)
    DenoisingRetriever.from_cross_encoder(
        Notes(), retriever=kit.ListRetriever(found=titled)
    ).invoke(QUESTION)
    assert read == [["It is tall."]] * 2
    DenoiseCompressor.from_cross_encoder(
        Notes(), header_keys=["title"]
    ).compress_documents(titled, QUESTION)
    assert read[-1] == ["Eiffel Tower\nIt is tall."]


def wanted(messages):
    """A model that finds sentences about candlepin needed."""
    text = messages[-1].text.split("BEGIN", 1)[1].split("\nEND ")[0]
    return ", ".join(re.findall(r"^(\d+) .*andlepin", text, re.MULTILINE)) or "NONE"


def test_what_a_sentence_points_back_to_comes_along_or_stays_behind(kit):
    document = Document(
        page_content="Candlepin bowling is old. It began in Worcester. The moon is round."
    )
    expected = {
        True: "Candlepin bowling is old. It began in Worcester.",
        False: "It began in Worcester.",
    }
    for context in (True, False):
        compressor = DenoiseCompressor.from_llm(
            kit.chat(lambda m: "2"), context=context
        )
        (kept,) = compressor.compress_documents([document], QUESTION)
        assert kept.page_content.rstrip() == expected[context]
    with pytest.raises(
        ValueError, match="context=False: a setting of System 2 Attention"
    ):
        DenoiseCompressor(scorer=Counts(), context=False)


MODELS = {
    "a chat model": lambda kit: kit.chat(wanted),
    "with settings": lambda kit: kit.chat(wanted).with_config(tags=["x"]).with_retry(),
    "a runnable": lambda kit: RunnableLambda(wanted),
    "a core LLM": lambda kit: FunctionLLM(
        lambda messages: wanted(to_langchain_messages(messages))
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_whatever_is_a_model(kind, kit):
    model = MODELS[kind](kit)
    assert texts(both(DenoiseCompressor.from_llm(model))) == [
        "Candlepin bowling is old. ",
        "candlepin bowling",
    ]
    retriever = DenoisingRetriever.from_llm(
        model, retriever=kit.ListRetriever(found=DOCUMENTS)
    )
    assert len(retriever.invoke(QUESTION)) == 2


@pytest.mark.parametrize(
    "scorer", [Counts(), Overlap(), FunctionScorer(lambda q, t: float("andlepin" in t))]
)
def test_whatever_is_a_scorer(scorer, kit):
    assert texts(both(DenoiseCompressor(scorer=scorer, keep=1))) in (
        TEXTS[1:2],
        TEXTS[3:],
    )
    retriever = DenoisingRetriever(
        retriever=kit.ListRetriever(found=DOCUMENTS), scorer=scorer, top_n=3
    )
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
    assert asyncio.run(embeddings.aembed_query("a city")) == pytest.approx(
        vectors[0], abs=1e-5
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"denoiser": Counts()},
            "denoiser: expected an object with denoise and adenoise, got a Counts",
        ),
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
        (
            {"denoiser": Guard(ENDDenoiser(FunctionScorer(len))), "scorer": Overlap()},
            "not beside denoiser",
        ),
        ({"top_n": 0}, "top_n"),
        ({"order": "best"}, "order"),
        ({"record": "all"}, "record"),
    ],
)
def test_wrong_settings_are_said_when_it_is_built(settings, message):
    with pytest.raises(ValueError, match=message):
        DenoiseCompressor(**settings)


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
        keep=0.5,
        top_n=3,
        order="score",
        header_keys=("title", "year"),
        record="full",
        chunks=200,
    )
    assert again(made) == made
    model = ChatOpenAI(model="local", base_url="http://127.0.0.1:9/v1", api_key="none")
    made = DenoiseCompressor.from_llm(model, max_concurrency=3)
    loaded = again(made)
    assert (loaded.variant, loaded.max_concurrency, loaded.model.model_name) == (
        "select",
        3,
        "local",
    )
    assert isinstance(loaded.denoiser_for({}), S2ADenoiser)


def test_top_n_beside_keep_is_top_n_but_a_threshold_is_a_threshold(kit):
    found = kit.ListRetriever(found=DOCUMENTS)
    scorer = FunctionScorer(lambda q, t: -1.0 if "moon" in t else 1.0)
    assert (
        len(
            DenoisingRetriever(
                retriever=found, denoiser=ENDDenoiser(scorer, keep=0.3), top_n=3
            ).invoke("q")
        )
        == 3
    )
    assert (
        len(
            DenoisingRetriever(
                retriever=found, scorer=scorer, keep=0.3, top_n=3
            ).invoke("q")
        )
        == 3
    )
    assert (
        len(
            DenoisingRetriever(
                retriever=found, scorer=scorer, threshold=0.0, top_n=4
            ).invoke("q")
        )
        == 3
    )
    assert (
        len(
            DenoisingRetriever(
                retriever=found, denoiser=ENDDenoiser(scorer, keep=0.3)
            ).invoke("q")
        )
        == 2
    )


def test_titles_and_named_metadata_are_read_with_the_text(kit):
    read, tower = [], {"title": "Eiffel Tower"}
    documents = [
        Document(
            page_content="It is tall.",
            metadata={**tower, "year": 1889, "tags": ["iron", "Paris"]},
        ),
        Document(
            page_content="Eiffel Tower: it is tall.", metadata={**tower, "year": None}
        ),
        Document(page_content="It is tall."),
    ]

    def spy(query, given):
        from denoise_core import DenoiseResult

        read.append([p.header for p in given])
        return DenoiseResult(query, given)

    for keys in (["title"], ["title", "year", "tags"], []):
        out = DenoiseCompressor(
            denoiser=kit.Answers(spy), header_keys=keys
        ).compress_documents(documents, "q")
        assert texts(out) == texts(documents)
    assert read == [
        ["Eiffel Tower", "", ""],
        ["Eiffel Tower\nyear: 1889\ntags: iron, Paris", "", ""],
        ["", "", ""],
    ]


def test_a_probe_folder(tmp_path):
    from denoise_core.embedded import sample_questions
    from denoise_core.embedded.fitted import torch_minilm
    from denoise_core.end import HiddenReader
    from denoise_core.end.fit import fit_probe

    folder = fit_probe(
        HiddenReader(torch_minilm()[0], tokenizer=torch_minilm()[1]),
        sample_questions()[:2],
        layers=[1],
    ).probe.save(tmp_path / "probe")
    scored = DenoiseCompressor.from_probe(folder, torch_minilm(), keep=2)
    assert math.isfinite(both(scored)[0].metadata["relevance_score"])
