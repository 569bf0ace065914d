"""The page's code runs, the tests it names are there, and so are the names in its tables."""

import inspect
import re
from pathlib import Path

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.postprocessor import sbert_rerank

import llamaindex_denoise

PAGE = Path(__file__).parents[2] / "docs" / "llamaindex.md"
TEXT = PAGE.read_text(encoding="utf-8")


APPLICATIONS = re.findall(
    r"^## ([^\n]+)\n\n```python\n(.*?)```\n\nIt prints:\n\n```text\n(.*?)```",
    TEXT,
    re.M | re.S,
)


def test_every_block_is_a_whole_application():
    assert len(APPLICATIONS) == TEXT.count("```python") >= 5
    assert len(TEXT.split()) <= 1700
    assert "assert" not in TEXT


@pytest.mark.parametrize(("title", "code", "output"), APPLICATIONS)
def test_an_application_prints_what_the_page_says(
    title, code, output, monkeypatch, capsys
):
    pytest.importorskip("tokenizers")
    handlers = list(get_dispatcher().event_handlers)
    monkeypatch.setattr(get_dispatcher(), "event_handlers", handlers)
    exec(compile(code, str(PAGE), "exec"), {"__name__": "application"})
    assert capsys.readouterr().out == output


def test_every_name_of_ours_in_the_first_table_is_there():
    table = TEXT[TEXT.index("| you have") : TEXT.index("```python")]
    named = set(re.findall(r"`(\w+)\(", table)) - {"LlamaRetriever", "Augmenter"}
    assert "DenoiseTransform" in named
    assert named <= set(llamaindex_denoise.__all__)


def test_every_test_it_names_is_there():
    named = set(re.findall(r"`((?:applications/)?test_\w+\.py)`", TEXT))
    assert len(named) > 10
    assert not [n for n in named if not (Path(__file__).parent / n).exists()]


def test_every_line_of_what_holds_names_its_tests():
    part = TEXT[TEXT.index("## What holds everywhere") : TEXT.index("## Engine by")]
    lines = re.split(r"^- ", part, flags=re.M)[1:]
    assert len(lines) >= 6
    assert not [line for line in lines if not re.search(r"`test_\w+\.py`", line)]


def test_what_it_says_of_llamaindexs_reranker_is_so():
    """Code that comes with a model is run there by default; ours never runs it (`test_package.py`)."""
    source = inspect.getsource(sbert_rerank)
    assert re.search(r"trust_remote_code[^\n]*True", source)
