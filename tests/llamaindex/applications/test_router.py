"""A router over two indexes: what it chose is checked against what that index found."""

from llama_index.core.query_engine import RouterQueryEngine
from llama_index.core.schema import TextNode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool
from llamaindex_inns import assert_told_apart, index


def test_router(scripted):
    choose = scripted(lambda m: '[{"choice": 2, "reason": "it is about inns"}]')

    def make(llm):
        bridges = index([TextNode(text="The bridge of Tessel opens at 10:00.")]).as_query_engine(llm=llm)
        inns = index().as_query_engine(llm=llm)
        tools = [
            QueryEngineTool.from_defaults(engine, name=name, description=f"about {name}")
            for name, engine in (("bridges", bridges), ("inns", inns))
        ]
        selector = LLMSingleSelector.from_defaults(llm=choose)
        return RouterQueryEngine(selector=selector, query_engine_tools=tools, llm=choose)

    assert_told_apart(make, scripted)
