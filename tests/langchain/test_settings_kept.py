"""Nothing that is set around a model or a retriever is lost on the way in."""

import asyncio

import pytest
from chain_parts import chat
from langchain_agents import both_ways, run
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from openai import BadRequestError

from denoise_core import InputError, Message
from denoise_core.end import ENDDenoiser
from denoise_core.end.denoiser import NOT_RELEVANT
from denoise_core.runtime.fallbacks import fallback_counts
from denoise_core.s2a.prompts import REPLY_FORMS
from denoise_core.testing import FunctionScorer
from langchain_denoise import (
    ChatModelLLM,
    DenoiseCompressor,
    DenoisingRetriever,
)

QUESTION_INPUT = (Message("user", "which?"),)
SCHEMA = REPLY_FORMS["select"].schema


@pytest.fixture
def model(server, client):
    server.fields = {"keep": [1]}
    return client(profile={"structured_output": True})


def bound(model):
    return model.bind(temperature=0, seed=1, stop=["\n\n"])


WRAPPED_MODELS = {
    "bound": bound,
    "configured": lambda model: bound(model.with_config(tags=["x"])),
    "fallbacks": lambda model: bound(model).with_fallbacks([model]),
}


@pytest.mark.enable_socket
@pytest.mark.parametrize("name", WRAPPED_MODELS)
def test_settings_around_a_model_are_on_the_wire_and_it_is_asked_for_text(
    server, model, name
):
    wrapped = WRAPPED_MODELS[name](model)
    local_llm = ChatModelLLM(wrapped)
    reply = local_llm.complete_json(QUESTION_INPUT, SCHEMA)
    assert asyncio.run(local_llm.acomplete_json(QUESTION_INPUT, SCHEMA)) == reply
    settings = {"temperature": 0, "seed": 1, "stop": ["\n\n"]}
    assert len(server.requests) == 2
    for sent in server.requests:
        assert {**sent, **settings} == sent
        assert "response_format" not in sent
    with pytest.raises(InputError, match="leave behind what it sets"):
        ChatModelLLM(wrapped, structured=True)


@pytest.mark.enable_socket
def test_a_refused_text_changes_nothing_in_how_a_model_is_asked(server, model):
    """A content filter's 400 was taken for a refusal of the form: tried in all others, and text ever after."""
    local_llm = ChatModelLLM(model)
    right = local_llm.complete_json(QUESTION_INPUT, SCHEMA)
    server.faults = [400]
    with pytest.raises(BadRequestError):
        local_llm.complete_json(QUESTION_INPUT, SCHEMA)
    assert local_llm.complete_json(QUESTION_INPUT, SCHEMA) == right
    assert len(server.requests) == 3
    assert all("response_format" in sent for sent in server.requests)


# Retrievers

TENANTS = [
    Document(
        page_content=f"red fish {text}{i}", id=f"{text}{i}", metadata={"tenant": text}
    )
    for text in "ab"
    for i in "12"
]


def tenants():
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents(TENANTS)
    return store.as_retriever(search_kwargs={"k": 4})


def keep_all():
    return ENDDenoiser(FunctionScorer(lambda query, text: 1.0), threshold=0.0)


def ids(found):
    return [document.id for document in found]


def only(tenant):
    return lambda document: document.metadata["tenant"] == tenant


@both_ways
async def test_a_filter_in_the_config_or_with_the_call_reaches_the_store(is_sync):
    inner = tenants().configurable_fields(search_kwargs=ConfigurableField(id="search"))
    retriever = DenoisingRetriever(retriever=inner, denoiser=keep_all())
    config = {"configurable": {"search": {"k": 4, "filter": only("b")}}}
    found_documents = await run(retriever, is_sync, "q", config)
    assert sorted(ids(found_documents)) == ["b1", "b2"]
    retriever = DenoisingRetriever(retriever=tenants(), denoiser=keep_all())
    found_documents = await run(retriever.bind(filter=only("a")), is_sync, "q")
    assert sorted(ids(found_documents)) == ["a1", "a2"]


class Tenants(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return list(TENANTS)


def test_an_argument_that_would_be_left_out_is_an_error():
    retriever = DenoisingRetriever(retriever=Tenants(), denoiser=keep_all())
    with pytest.raises(InputError, match="filter: Tenants takes no argument"):
        retriever.invoke("q", filter="a")


# Settings for one request


def scored(**settings):
    ranks = FunctionScorer(
        lambda query, text: float(text[-1]) + (10 if "b" in text else 0)
    )
    return DenoisingRetriever(retriever=Tenants(), scorer=ranks, **settings)


def asking(**settings):
    return {"configurable": {"denoise": settings}}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["b2"]),
        ({"keep": 0.5}, ["b1", "b2"]),
        ({"top_n": 3}, ["a2", "b1", "b2"]),
        ({"top_n": 3, "order": "score"}, ["b2", "b1", "a2"]),
        ({"threshold": 2.0}, ["a2", "b1", "b2"]),
    ],
)
def test_keep_top_n_and_order_for_one_request(asked, expected):
    assert ids(scored(keep=1).invoke("q", asking(**asked))) == expected


def test_a_keep_of_one_request_takes_the_place_of_a_threshold():
    assert ids(scored(threshold=2.0).invoke("q", asking(keep=1))) == ["b2"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [({}, ["b2"]), ({"share": 0.5}, ["b1", "b2"]), ({"n": 3}, ["a2", "b1", "b2"])],
)
def test_the_same_through_configurable_fields(asked, expected):
    field = scored(keep=1).configurable_fields(
        keep=ConfigurableField(id="share"), top_n=ConfigurableField(id="n")
    )
    assert ids(field.invoke("q", {"configurable": asked})) == expected


TOWERS = [
    Document(page_content="The red tower is in Ulm.", id="a"),
    Document(page_content="Bananas are yellow and sweet.", id="b"),
    Document(page_content="A tower of blue stone fell.", id="c"),
]
FAR_QUESTION = "Which enzyme do limpets lack?"


def test_a_model_that_finds_no_answer_marks_the_nearest_documents():
    model = chat(lambda messages: "1\nANSWERED: no")
    chain_input = {"documents": TOWERS, "query": FAR_QUESTION}
    (nearest,) = DenoiseCompressor(model=model).invoke(chain_input)
    assert nearest.metadata["denoise_relevant"] is False
    assert "finds no answer" in nearest.metadata["denoise_note"]
    dropping = DenoiseCompressor(model=model, on_irrelevant="drop")
    assert dropping.invoke(chain_input) == []
    asked = asking(on_irrelevant="drop")
    assert DenoiseCompressor(model=model).invoke(chain_input, asked) == []


def test_documents_say_that_nothing_is_relevant_and_may_be_dropped_for_it():
    yours = RunnableLambda(lambda question: TOWERS)
    retriever = DenoisingRetriever(retriever=yours, k=2)
    for document in retriever.invoke(FAR_QUESTION):
        assert document.metadata["denoise_relevant"] is False
        assert document.metadata["denoise_note"].startswith("nothing seems to bear")
    near = retriever.invoke("Where is the red tower?")
    assert not any("denoise_relevant" in document.metadata for document in near)
    kind = ("ENDDenoiser", NOT_RELEVANT)
    count = fallback_counts().get(kind, 0)
    assert retriever.invoke(FAR_QUESTION, on_irrelevant="drop") == []
    assert fallback_counts()[kind] == count + 1


@pytest.mark.enable_socket
def test_one_refused_document_costs_one_document(server, model):
    server.refuses = "Fact 7 "
    documents = []
    for i in range(20):
        documents.append(Document(f"Fact {i} is known. So is more.", id=str(i)))
    compressor = DenoiseCompressor(model=model, on_empty="raise")
    found = compressor.invoke({"documents": documents, "query": "What is known?"})
    failed = [item.id for item in found if "denoise_fallback" in item.metadata]
    assert failed == ["7"]
    # All at once in three forms, then each alone.
    assert len(server.requests) <= 3 + len(documents)
