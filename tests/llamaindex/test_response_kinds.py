"""Each kind of response comes back as its engine gives it: several answers, sources alone, labels, streams."""

from enum import Enum
from typing import Literal

import pytest
from llama_index.core.base.response.schema import PydanticResponse
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import CustomQueryEngine
from llamaindex_denoisers import ids_of
from llamaindex_doubles import scripted_llm
from llamaindex_engines import QUESTION, RIGHT, Fixed, inner, nodes, outcome_of
from pydantic import BaseModel

from llamaindex_denoise import Checked, LlamaLLM
from llamaindex_denoise.engines.base import response_text

FACT = RIGHT.removesuffix(" [1]")


class Kind(Enum):
    """What is built."""

    TOWER = "landmark"


class Place(BaseModel):
    """An object with labels, which nobody finds in a text."""

    town: str
    kind: Kind = Kind.TOWER
    size: Literal["tall", "small"] = "tall"
    topics: list[Literal["travel", "food"]] = ["travel"]
    sure: bool = True


class Gives(CustomQueryEngine):
    """An engine whose answer is an object, about what its retriever found."""

    town: str
    retriever: object

    def custom_query(self, query_str):
        return PydanticResponse(
            Place(town=self.town), source_nodes=self.retriever.retrieve(query_str)
        )


def test_the_answers_of_accumulate_are_passed_on_as_they_are():
    engine = inner(FACT, response_mode="accumulate")
    judge = {"judge": lambda question, evidence, claim: "Porto" in claim}
    response = Checked(engine, **judge).query(QUESTION)
    assert outcome_of(response) == "supported"
    between = "\n---------------------\n"
    assert str(response) == between.join(f"Response {n}: {FACT}" for n in (1, 2, 3))


@pytest.mark.parametrize("streaming", [False, True])
def test_sources_alone_are_no_abstention(streaming, monkeypatch):
    from llama_index.core import Settings

    monkeypatch.setattr(Settings, "_llm", scripted_llm(RIGHT))
    engine = inner(None, response_mode="no_text")
    monkeypatch.setattr(Settings, "_llm", None)
    response = Checked(engine, streaming=streaming).query(QUESTION)
    assert str(response) in ("", "None")  # LlamaIndex prints no text so
    assert ids_of(response.source_nodes) == ["n0", "n1", "n2"]
    assert outcome_of(response) == "unknown"
    assert response.metadata["denoise"]["calls"] == 0


@pytest.mark.parametrize(
    ("town", "outcome"), [("Porto", "supported"), ("Lisbon", "unsupported")]
)
def test_labels_are_not_held_against_the_sources(town, outcome):
    engine = Checked(Gives(town=town, retriever=Fixed(nodes())))
    response = engine.query(QUESTION)
    assert outcome_of(response) == outcome
    assert response.response == Place(town=town), "the object comes back whole"


def test_a_llamaindex_model_is_a_judge():
    llm = scripted_llm(RIGHT)
    engine = Checked(inner(llm), judge=llm)
    assert isinstance(engine.augmenter.utility.judge.llm, LlamaLLM)


def test_the_record_of_every_kind_of_response_says_what_each_claim_rests_on():
    llm = scripted_llm(FACT)
    chat = ContextChatEngine.from_defaults(
        retriever=Fixed(nodes()), llm=llm, memory=ChatMemoryBuffer.from_defaults()
    )
    streamed_text = Checked(chat).stream_chat(QUESTION)
    assert "".join(streamed_text.response_gen) == FACT
    texts = {hit.node.node_id: hit.node.text for hit in nodes()}
    for response in (
        Checked(inner(llm)).query(QUESTION),
        Checked(chat).chat(QUESTION),
        streamed_text,
    ):
        [claim] = response.metadata["denoise"]["claims"]
        assert FACT[claim["start"] : claim["end"]].startswith("The red tower")
        [quote, *_] = claim["quotes"]
        source_text = texts[quote["id"]]
        assert source_text[quote["start"] : quote["end"]] == quote["text"]


def test_no_judge_reads_what_stands_for_an_empty_reply():
    asked = []
    engine = Checked(inner(""), judge=lambda *claim: asked.append(claim))
    response = engine.query(QUESTION)
    assert str(response) == "Empty Response"
    assert response.source_nodes
    assert outcome_of(response) == "unknown"
    assert not asked


class Nothing(BaseModel):
    def __len__(self):
        return 0


def test_an_object_that_is_false_has_a_text():
    assert response_text(PydanticResponse(Nothing())) == "{}"
