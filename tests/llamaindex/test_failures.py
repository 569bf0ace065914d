"""What fails is named: the part and its error's class; and it raises where that is asked for."""

import asyncio

import pytest
from llama_index.core.query_engine import CustomQueryEngine
from llamaindex_engines import QUESTION, RIGHT, Fixed, inner

from llamaindex_denoise import Checked


class Broken(Fixed):
    """A retriever with a mistake in it."""

    def _retrieve(self, query_bundle):
        return {}["a secret of the user"]


def down(messages):
    """A model that cannot be reached."""
    raise ConnectionError("no route")


class Whole(CustomQueryEngine):
    """An engine of the user's that raises."""

    def custom_query(self, query_str):
        raise KeyError(query_str)


def engines(scripted_llm):
    """Each way to fail: the engine, the part, the class."""
    right = scripted_llm(lambda messages: RIGHT)
    return {
        "retriever": (inner(right, Broken([])), "the engine's retrieval", KeyError),
        "synthesizer": (
            inner(scripted_llm(down)),
            "the engine's synthesis",
            ConnectionError,
        ),
        "whole": (Whole(), "the engine", KeyError),
    }


@pytest.mark.parametrize("which", ["retriever", "synthesizer", "whole"])
@pytest.mark.parametrize("streaming", [False, True, "draft"])
def test_the_part_that_failed_is_named(scripted_llm, which, streaming):
    engine, part, error = engines(scripted_llm)[which]
    ours = Checked(engine, streaming=streaming)
    response = ours.query(QUESTION)
    text = str(response)
    assert text == f"No answer can be given: {part} failed ({error.__name__})."
    assert response.metadata["denoise"]["failed"] == {
        "part": part,
        "error": error.__name__,
    }


@pytest.mark.parametrize("which", ["retriever", "synthesizer", "whole"])
def test_the_error_itself_where_it_is_asked_for(scripted_llm, which):
    engine, _, error = engines(scripted_llm)[which]
    ours = Checked(engine, on_error="raise")
    with pytest.raises(error):
        ours.query(QUESTION)
    with pytest.raises(error):
        asyncio.run(ours.aquery(QUESTION))
