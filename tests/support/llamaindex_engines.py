"""Query engines over three nodes, with a model that is right once it is told what was wrong."""

import asyncio

from llama_index.core.llms import LLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llamaindex_denoisers import QUESTION, frozen, scored
from llamaindex_doubles import scripted_llm

from denoise_core.augmenter import Augmenter
from llamaindex_denoise import Checked

RIGHT = "The red tower is in Porto. [1]"
WRONG = "The red tower is in Lisbon, built in 1755."


def nodes():
    """Three scored nodes; the first has the answer."""
    texts = [
        "The red tower is in Porto. Bread is cheap there.",
        "The blue bridge crosses the river.",
        "Ships are long.",
    ]
    return [
        scored(text, 0.9 - i / 10, id_=f"n{i}", metadata={"page": i})
        for i, text in enumerate(texts)
    ]


class Fixed(BaseRetriever):
    """Finds the same nodes for every query and remembers the queries; has no async form of its own."""

    def __init__(self, results):
        self.found, self.queries = results, []
        super().__init__()

    def _retrieve(self, query_bundle):
        self.queries.append(query_bundle)
        return self.found


def first_wrong_then_right(messages):
    seen_prompts = " ".join(message.content or "" for message in messages)
    return RIGHT if "Lisbon" in seen_prompts else WRONG


def keep_red(messages):
    """A model for S2A: keeps the first piece of what says red, and answers with what it was asked."""
    seen_prompts = messages[-1].content
    if "Which pieces" in seen_prompts:
        return "1"
    return f"Heard: {seen_prompts}"


def inner(reply, retriever=None, **settings):
    """An engine of LlamaIndex's own, around a model or one that `scripted_llm` makes of the reply."""
    is_model = reply is None or isinstance(reply, LLM)
    llm = reply if is_model else scripted_llm(reply)
    retriever = retriever or Fixed(nodes())
    return RetrieverQueryEngine.from_args(retriever, llm=llm, **settings)


def checked_engine(reply=first_wrong_then_right, retriever=None, **settings):
    return Checked(inner(reply, retriever), augmenter=Augmenter(**settings))


def both(make_engine, question=QUESTION):
    """Sync and async response of fresh engines, after checking that they agree."""
    sync = make_engine().query(question)
    later = asyncio.run(make_engine().aquery(question))
    assert str(sync) == str(later)
    assert sync.metadata == later.metadata
    assert frozen(sync.source_nodes) == frozen(later.source_nodes)
    return sync


def outcome_of(response):
    return response.metadata["denoise"]["outcome"]
