"""docs/langchain.md: its code runs from top to bottom, and the tests and names it speaks of are there."""

import re
import tomllib
from pathlib import Path

import pytest
from function_chat_model import FunctionChatModel
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_denoise import EmbeddedEmbeddings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "langchain.md"
RIGHT = "The Eiffel Tower was completed in 1889."
TEXTS = [
    RIGHT,
    "Bananas are yellow.",
    "The Louvre is a museum in Paris.",
    "Chess is a board game.",
    "Lava is hot.",
]


def rewritten(messages):
    return (
        RIGHT
        if any(isinstance(message, AIMessage) for message in messages)
        else "It was completed in 1912 by Otto Brenner."
    )


def search_then_answer(messages):
    call = {"name": "search", "args": {"query": "Eiffel Tower"}, "id": "1"}
    return RIGHT if messages[-1].type == "tool" else AIMessage("", tool_calls=[call])


@pytest.mark.filterwarnings(
    "ignore::langchain_core._api.beta_decorator.LangChainBetaWarning"
)
def test_the_code_runs_from_top_to_bottom():
    embeddings = EmbeddedEmbeddings()
    documents = [
        Document(page_content=text, id=str(i), metadata={"tenant": "ab"[i % 2]})
        for i, text in enumerate(TEXTS)
    ]
    store = InMemoryVectorStore(embeddings)
    store.add_documents(documents)
    retriever = store.as_retriever(search_kwargs={"k": 5})
    names = {
        "documents": documents,
        "question": "When was the Eiffel Tower completed?",
        "right": RIGHT,
        "embeddings": embeddings,
        "retriever": retriever,
        "model": FunctionChatModel(reply=lambda message: "1"),
        "answering": FunctionChatModel(reply=rewritten),
        "agent_model": FunctionChatModel(reply=search_then_answer),
        "search": create_retriever_tool(
            retriever, "search", "Finds.", response_format="content_and_artifact"
        ),
    }
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) > 8
    for block in (
        block for block in blocks if "pipeline_llm" not in block
    ):  # that one runs in test_local.py, on a model
        exec(compile(block, str(PAGE), "exec"), names)


def test_the_tests_and_names_it_speaks_of_are_there():
    from langchain.agents import middleware as theirs

    import langchain_denoise
    from langchain_denoise import middleware

    page = PAGE.read_text("utf-8")
    for path in re.findall(r"`(tests/[\w/]+\.py)`", page):
        assert (ROOT / path).exists(), path
    for notebook in re.findall(r"\]\(\.\./(cookbook/\w+\.ipynb)\)", page):
        assert (ROOT / notebook).exists(), notebook
    there = (langchain_denoise, theirs, middleware)
    for name in re.findall(r"`(\w+Middleware|DenoiseTool\w*)`", page):
        assert any(hasattr(part, name) for part in there), name
    public = set(langchain_denoise.__all__)
    assert {n for n in public if n not in page} <= {"DenoiseInput"}


def test_what_it_says_to_install_is_there():
    page = PAGE.read_text("utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    named_value = re.findall(r"'rag-denoise\[([\w,]+)\]'", page)
    assert named_value == ["langchain", "agents"]
    assert {event for one in named_value for event in one.split(",")} <= set(extras)
