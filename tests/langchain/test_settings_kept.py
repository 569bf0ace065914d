"""Nothing that is set around a model or a retriever is lost on the way in."""

import asyncio

import pytest
from langchain_agents import both_ways, run
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from openai import BadRequestError

from denoise_core import InputError, Message
from denoise_core.end import ENDDenoiser
from denoise_core.end.denoiser import NOT_RELEVANT
from denoise_core.runtime.fallbacks import fallback_counts
from denoise_core.testing import FunctionScorer
from langchain_denoise import (
    ChatModelLLM,
    DenoiseCompressor,
    DenoisingRetriever,
)

QUESTION_INPUT = (Message("user", "which?"),)
SCHEMA = {
    "type": "object",
    "properties": {"keep": {"type": "array", "items": {"type": "integer"}}},
}


@pytest.fixture
def client(server):
    server.fields = {"keep": [1]}

    def client(**settings):
        settings = {
            "max_retries": 0,
            "profile": {"structured_output": True},
            **settings,
        }
        return ChatOpenAI(model="tiny", base_url=server.url, api_key="none", **settings)

    return client


WRAPPED_MODELS = {
    "bound": lambda model: model.bind(temperature=0, seed=1, stop=["\n\n"]),
    "configured": lambda model: model.with_config(tags=["x"]).bind(
        temperature=0, seed=1, stop=["\n\n"]
    ),
    "fallbacks": lambda model: model.bind(
        temperature=0, seed=1, stop=["\n\n"]
    ).with_fallbacks([model]),
}


@pytest.mark.enable_socket
@pytest.mark.parametrize("name", WRAPPED_MODELS)
def test_settings_around_a_model_are_on_the_wire_and_it_is_asked_for_text(
    server, client, name
):
    local_llm = ChatModelLLM(WRAPPED_MODELS[name](client()))
    reply = local_llm.complete_json(QUESTION_INPUT, SCHEMA)
    assert asyncio.run(local_llm.acomplete_json(QUESTION_INPUT, SCHEMA)) == reply
    assert len(server.requests) == 2
    for sent_messages in server.requests:
        assert (
            sent_messages["temperature"],
            sent_messages["seed"],
            sent_messages["stop"],
        ) == (0, 1, ["\n\n"])
        assert "response_format" not in sent_messages
    with pytest.raises(InputError, match="leave behind what it sets"):
        ChatModelLLM(WRAPPED_MODELS[name](client()), structured=True)


@pytest.mark.enable_socket
def test_a_refused_text_changes_nothing_in_how_a_model_is_asked(server, client):
    """A content filter's 400 was taken for a refusal of the form: tried in all others, and text ever after."""
    local_llm = ChatModelLLM(client())
    right = local_llm.complete_json(QUESTION_INPUT, SCHEMA)
    server.faults = [400]
    with pytest.raises(BadRequestError):
        local_llm.complete_json(QUESTION_INPUT, SCHEMA)
    assert local_llm.complete_json(QUESTION_INPUT, SCHEMA) == right
    assert len(server.requests) == 3
    assert all("response_format" in sent_messages for sent_messages in server.requests)


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


def keep_all(**settings):
    return ENDDenoiser(
        FunctionScorer(lambda query, text: 1.0), threshold=0.0, **settings
    )


def only(tenant):
    return lambda document: document.metadata["tenant"] == tenant


@both_ways
async def test_a_filter_in_the_config_or_with_the_call_reaches_the_store(is_sync):
    inner = tenants().configurable_fields(search_kwargs=ConfigurableField(id="search"))
    retriever = DenoisingRetriever(retriever=inner, denoiser=keep_all())
    config = {"configurable": {"search": {"k": 4, "filter": only("b")}}}
    found_documents = await run(retriever, is_sync, "q", config)
    assert sorted(document.id for document in found_documents) == ["b1", "b2"]
    retriever = DenoisingRetriever(retriever=tenants(), denoiser=keep_all())
    filtering = retriever.bind(filter=only("a"))
    found_documents = await run(filtering, is_sync, "q")
    assert sorted(document.id for document in found_documents) == ["a1", "a2"]


def test_an_argument_that_would_be_left_out_is_an_error(test_kit):
    with pytest.raises(
        InputError, match="filter: ListRetriever takes no such argument"
    ):
        DenoisingRetriever(
            retriever=test_kit.ListRetriever(found=TENANTS), denoiser=keep_all()
        ).invoke("q", filter="a")


class Tenants(BaseRetriever):
    """Finds the tenants' documents."""

    def _get_relevant_documents(self, query, *, run_manager):
        return list(TENANTS)


# Settings for one request


def scored(**settings):
    ranks = FunctionScorer(
        lambda query, text: float(text[-1]) + (10 if "b" in text else 0)
    )
    return DenoisingRetriever(retriever=Tenants(), scorer=ranks, **settings)


def asking(**settings):
    return {"configurable": {"denoise": settings}}


def ids(found):
    return [document.id for document in found]


def test_keep_top_n_and_order_for_one_request():
    retriever = scored(keep=1)
    assert ids(retriever.invoke("q")) == ["b2"]
    assert ids(retriever.invoke("q", asking(keep=0.5))) == ["b1", "b2"]
    assert ids(retriever.invoke("q", asking(top_n=3))) == ["a2", "b1", "b2"]
    assert ids(retriever.invoke("q", asking(top_n=3, order="score"))) == [
        "b2",
        "b1",
        "a2",
    ]
    assert ids(retriever.invoke("q", asking(threshold=2.0))) == ["a2", "b1", "b2"]
    assert ids(scored(threshold=2.0).invoke("q", asking(keep=1))) == ["b2"]


def test_a_score_is_written_where_a_request_asks_for_its_order():
    """Only an order set on the retriever brought scores."""
    plain_text, asked_for = (
        scored(keep=2).invoke("q", config)[0]
        for config in (None, asking(order="score"))
    )
    assert not {"relevance_score", "denoise_score"} & set(plain_text.metadata)
    assert (
        asked_for.metadata["relevance_score"]
        == asked_for.metadata["denoise_score"]
        == 12
    )


def test_the_same_through_configurable_fields():
    field = scored(keep=1).configurable_fields(
        keep=ConfigurableField(id="share"), top_n=ConfigurableField(id="n")
    )
    assert ids(field.invoke("q", {"configurable": {"share": 0.5}})) == ["b1", "b2"]
    assert ids(field.invoke("q", {"configurable": {"n": 3}})) == ["a2", "b1", "b2"]
    assert ids(field.invoke("q")) == ["b2"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share": 1}, "share"),
        ({"variant": "select"}, "variant"),
        ({"keep": 7.5}, "keep"),
    ],
)
def test_what_cannot_be_asked_for_is_an_error(settings, message):
    with pytest.raises(ValueError, match=message):
        scored(on_error="raise").invoke("q", asking(**settings))


TOWERS = [
    Document(page_content="The red tower is in Ulm.", id="a"),
    Document(page_content="Bananas are yellow and sweet.", id="b"),
    Document(page_content="A tower of blue stone fell.", id="c"),
]
FAR_QUESTION = "Which enzyme do limpets lack?"


def test_a_model_that_finds_no_answer_marks_the_nearest_documents(test_kit):
    model = test_kit.chat(lambda messages: "1\nANSWERED: no")
    chain_input = {"documents": TOWERS, "query": FAR_QUESTION}
    (nearest,) = DenoiseCompressor(model=model).invoke(chain_input)
    assert nearest.metadata["denoise_relevant"] is False
    assert "finds no answer" in nearest.metadata["denoise_note"]
    dropping = DenoiseCompressor(model=model, on_irrelevant="drop")
    assert dropping.invoke(chain_input) == []
    asked_input = {"configurable": {"denoise": {"on_irrelevant": "drop"}}}
    assert DenoiseCompressor(model=model).invoke(chain_input, asked_input) == []


def test_risk_and_tokens_reach_the_denoiser_also_of_one_request():
    compressor = DenoiseCompressor(max_tokens=8, top_n=3)
    chain_input = {"documents": TOWERS, "query": "Where is the red tower?"}
    assert len(compressor.invoke(chain_input)) == 1
    assert len(compressor.invoke(chain_input, asking(max_tokens=20))) == 2
    assert DenoiseCompressor(risk=0.2).denoiser_for({}).rule.risk == 0.2
    assert compressor.denoiser_for({"risk": 0.05, "keep": "auto"}).rule.risk == 0.05


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
def test_one_refused_document_costs_one_document(server, client):
    server.refuses = "Fact 7 "
    documents = []
    for i in range(20):
        text = f"Fact {i} is known. So is more."
        documents.append(Document(page_content=text, id=str(i)))
    compressor = DenoiseCompressor(model=client(), on_empty="raise")
    found = compressor.invoke({"documents": documents, "query": "What is known?"})
    failed = [item.id for item in found if "denoise_fallback" in item.metadata]
    assert failed == ["7"]
    assert len(server.requests) <= 14  # three of them look for another form
