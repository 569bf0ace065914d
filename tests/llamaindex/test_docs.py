"""The page's code runs, the tests it names are there, and so are the names in its tables."""

import ast
import inspect
import re
import tomllib
from pathlib import Path

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.postprocessor import sbert_rerank
from llama_index.core.schema import Document
from llamaindex_doubles import Calling
from llamaindex_engines import RIGHT, always

import llamaindex_denoise

PAGE = Path(__file__).parents[2] / "docs" / "llamaindex.md"
TEXT = PAGE.read_text(encoding="utf-8")


async def test_the_code_runs(scripted_llm, monkeypatch):
    pytest.importorskip("tokenizers")
    index = VectorStoreIndex.from_documents(
        [Document(text="The red tower is in Porto. Bread is cheap there.")],
        embed_model=MockEmbedding(4),
    )
    agent = FunctionAgent(
        name="guide",
        llm=Calling(script=lambda messages, **_: ChatMessage(RIGHT, role="assistant")),
    )
    names = {"index": index, "llm": scripted_llm(always(RIGHT)), "agent": agent}
    blocks = [
        b
        for b in re.findall(r"```python\n(.*?)```", TEXT, re.S)
        if "ProbeScorer" not in b
    ]  # test_local.py
    assert len(blocks) == 4
    monkeypatch.setattr(
        get_dispatcher(), "event_handlers", [*get_dispatcher().event_handlers]
    )
    for block in blocks:
        waits = eval(
            compile(block, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT),
            names,
        )
        if waits is not None:
            await waits
    assert names["response"].metadata["denoise"]["outcome"] == "supported"
    assert names["output"].metadata["denoise"]["outcome"] == "unknown"


def test_every_test_it_names_is_there():
    named = set(
        re.findall(
            r"`((?:applications/)?test_\w+\.py)`", TEXT[: TEXT.index("## Recipes")]
        )
    )
    assert len(named) > 10
    assert not [n for n in named if not (Path(__file__).parent / n).exists()]


def test_every_name_of_ours_in_the_first_table_is_there():
    table = TEXT[TEXT.index("| you have") : TEXT.index("```python")]
    ours = {
        n for n in re.findall(r"`(\w+)[(.`]", table) if n in llamaindex_denoise.__all__
    }
    assert len(ours) >= 5
    for cls, method in re.findall(r"`(\w+)\.(from_\w+)\(", table):
        assert callable(getattr(getattr(llamaindex_denoise, cls), method))


def test_every_paragraph_of_what_holds_names_its_tests():
    part = TEXT[
        TEXT.index("## What holds everywhere") : TEXT.index("## Checked answers")
    ]
    paragraphs = [p for p in part.split("\n\n") if p.startswith("**")]
    assert len(paragraphs) >= 9
    assert not [p for p in paragraphs if not re.search(r"`test_\w+\.py`", p)]


def test_what_it_says_to_install_is_there():
    extras = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text("utf-8"))
    named = {
        e
        for one in re.findall(r"'rag-denoise\[([\w,]+)\]'", TEXT)
        for e in one.split(",")
    }
    assert named == {"llamaindex"}
    assert named <= set(extras["project"]["optional-dependencies"])


def test_what_it_says_of_llamaindexs_reranker_is_so():
    """Code that comes with a model is run there by default; ours never runs it (`test_package.py`)."""
    source = inspect.getsource(sbert_rerank)
    assert re.search(r"trust_remote_code[^\n]*True", source)
