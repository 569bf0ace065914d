"""What fails is named by its error's class; and it raises where that is asked for."""

import asyncio
import time

import pytest
from llama_index.core.query_engine import CustomQueryEngine
from llamaindex_engines import QUESTION, RIGHT, Fixed, inner

from denoise_core.augmenter import LoopLimits
from llamaindex_denoise import Checked


class Broken(Fixed):
    def _retrieve(self, query_bundle):
        return {}["a secret of the user"]


def down(messages):
    raise ConnectionError("no route")


class Whole(CustomQueryEngine):
    def custom_query(self, query_str):
        raise KeyError(query_str)


BROKEN = {
    "retriever": (inner(RIGHT, Broken([])), KeyError),
    "synthesizer": (inner(down), ConnectionError),
    "whole": (Whole(), KeyError),
}


@pytest.mark.parametrize("which", BROKEN)
@pytest.mark.parametrize("streaming", [False, True, "draft"])
def test_the_error_is_named(which, streaming):
    engine, error = BROKEN[which]
    response = Checked(engine, streaming=streaming).query(QUESTION)
    assert (
        str(response)
        == f"No answer can be given: the engine failed ({error.__name__})."
    )
    [failure, *_] = response.metadata["denoise"]["failures"]
    assert failure["error"].startswith(error.__name__)


@pytest.mark.parametrize("which", BROKEN)
def test_the_error_itself_where_it_is_asked_for(which):
    engine, error = BROKEN[which]
    ours = Checked(engine, on_error="raise")
    with pytest.raises(error):
        ours.query(QUESTION)
    with pytest.raises(error):
        asyncio.run(ours.aquery(QUESTION))


class Slow(CustomQueryEngine):
    def custom_query(self, query_str):
        time.sleep(0.3)
        return RIGHT


def test_time_that_is_up_is_an_error_too():
    ours = Checked(Slow(), limits=LoopLimits(call_seconds=0.05), on_error="raise")
    with pytest.raises(TimeoutError):
        ours.query(QUESTION)
