"""Chat engines, retriever tools and agents: the methods where people use them, and what must stay true there."""

import asyncio

import pytest
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llamaindex_engines import QUESTION, RIGHT, Fixed, always, inner

from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import (
    Checked,
    DenoisePostprocessor,
)

WRONG = "The red tower was built in 1755."


def one_text():
    """A retriever that finds one text."""
    text = "The red tower is in Porto. Bread is cheap there."
    return Fixed([NodeWithScore(node=TextNode(text=text), score=0.5)])


class Listens:
    """A scorer that remembers the questions it was asked and keeps what says red."""

    def __init__(self):
        self.questions = []

    def score(self, query, texts):
        self.questions.append(query)
        return FunctionScorer(lambda q, t: float("red" in t)).score(query, texts)


def listening():
    scorer = Listens()
    return scorer, DenoisePostprocessor(
        denoiser=ENDDenoiser(scorer, threshold=0.5), on_error="raise"
    )


@pytest.mark.parametrize(
    "question", [QUESTION, "what input is valid?", "two\nlines", "input is odd"]
)
def test_a_retriever_tools_prefix_is_not_part_of_the_question(question):
    scorer, postprocessor = listening()
    tool = RetrieverTool.from_defaults(
        one_text(), node_postprocessors=[postprocessor], description="towers"
    )
    output = tool.call(input=question)
    later = asyncio.run(tool.acall(input=question))
    assert scorer.questions == [question, question]
    assert (
        output.content
        == later.content
        == "The red tower is in Porto. Bread is cheap there.\n\n"
    )


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (RIGHT, ""),
        (WRONG, "(unsupported"),
        ("unknown", "(abstained"),
    ],
)
def test_the_tool_tells_the_agent_the_verdict(scripted_llm, text, label):
    tool = Checked(
        QueryEngineTool.from_defaults(
            inner(scripted_llm(always(text)), one_text()),
            name="towers",
            description="about towers",
        )
    )
    output = tool.call(QUESTION)
    later = asyncio.run(tool.acall(input=QUESTION))
    assert output.content == later.content
    assert output.content.startswith(label)
    assert output.content.endswith(text) or label == "(abstained"
    assert output.raw_output.metadata["denoise"]["outcome"] in (
        "supported",
        "unsupported",
        "abstained",
    )
    assert (output.content == text) == (text == RIGHT)
