"""Sub-questions: the answers to them are no evidence, what was found for them is."""

import json

from llama_index.core import get_response_synthesizer
from llama_index.core.query_engine import SubQuestionQueryEngine
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.tools import QueryEngineTool
from llamaindex_inns import QUESTION, assert_told_apart, index


def test_sub_questions(scripted):
    plan = json.dumps([{"sub_question": QUESTION, "tool_name": "inns"}])

    def make(llm):
        tool = QueryEngineTool.from_defaults(index().as_query_engine(llm=llm), name="inns", description="inns")
        asks = LLMQuestionGenerator.from_defaults(llm=scripted(lambda m: plan))
        return SubQuestionQueryEngine(asks, get_response_synthesizer(llm=llm), [tool], use_async=False)

    assert_told_apart(make, scripted)
