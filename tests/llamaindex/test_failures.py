"""What fails is named by its error's class; and it raises where that is asked for."""

import asyncio
import time

import pytest
from llama_index.core.query_engine import CustomQueryEngine
from llamaindex_engines import QUESTION, RIGHT, Fixed, inner

from denoise_core.augmenter import LoopLimits
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
    """Each way to fail: the engine and the class."""
    right = scripted_llm(lambda messages: RIGHT)
    return {
        "retriever": (inner(right, Broken([])), KeyError),
        "synthesizer": (inner(scripted_llm(down)), ConnectionError),
        "whole": (Whole(), KeyError),
    }


@pytest.mark.parametrize("which", ["retriever", "synthesizer", "whole"])
@pytest.mark.parametrize("streaming", [False, True, "draft"])
def test_the_error_is_named(scripted_llm, which, streaming):
    engine, error = engines(scripted_llm)[which]
    ours = Checked(engine, streaming=streaming)
    response = ours.query(QUESTION)
    text = str(response)
    assert text == f"No answer can be given: the engine failed ({error.__name__})."
    [failure, *_] = response.metadata["denoise"]["failures"]
    assert failure["error"].startswith(error.__name__)


@pytest.mark.parametrize("which", ["retriever", "synthesizer", "whole"])
def test_the_error_itself_where_it_is_asked_for(scripted_llm, which):
    engine, error = engines(scripted_llm)[which]
    ours = Checked(engine, on_error="raise")
    with pytest.raises(error):
        ours.query(QUESTION)
    with pytest.raises(error):
        asyncio.run(ours.aquery(QUESTION))


class Slow(CustomQueryEngine):
    """An engine that takes longer than it may."""

    def custom_query(self, query_str):
        time.sleep(0.3)
        return RIGHT


def test_time_that_is_up_is_an_error_too():
    ours = Checked(Slow(), limits=LoopLimits(call_seconds=0.05), on_error="raise")
    with pytest.raises(TimeoutError):
        ours.query(QUESTION)
