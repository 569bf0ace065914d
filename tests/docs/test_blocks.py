"""Every Python block of README and docs is run: here, by its page's own test, or as a script of how_to."""

import contextlib
import io
import re
from pathlib import Path

import pytest
from code_measures import ROOT
from tiny_models import build_probe, tiny_pair

DOCS = ROOT / "docs"
BLOCK = re.compile(
    r"```python\n(?P<code>.*?)```\n(?:(?:\nIt prints:\n)?\n```text\n(?P<output>.*?)```)?",
    re.S,
)

RUN_ELSEWHERE = {  # a test of the page runs its blocks from top to bottom
    "docs/evaluate.md": "tests/core/evaluate/test_docs.py",
    "docs/langchain.md": "tests/langchain/test_docs.py",
    "docs/llamaindex.md": "tests/llamaindex/test_docs.py",
}


def blocks(page):
    return list(BLOCK.finditer((ROOT / page).read_text("utf-8")))


def pages():
    found = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [
        str(p.relative_to(ROOT))
        for p in found
        if not p.is_relative_to(DOCS / "listing")
    ]


def run(page, names):
    """Run the page's blocks in one namespace; what shows an output prints it. Returns the namespace."""
    for block in blocks(page):
        code = block["code"]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(ROOT / page), "exec"), names)
        if block["output"] is not None:
            assert printed.getvalue() == block["output"], page
    return names


FIRST = ("README.md", "docs/index.md", "docs/start.md")
PLAIN = ("docs/questions.md",)  # as they stand, from top to bottom
HERE = {
    *FIRST,
    *PLAIN,
    *(f"docs/{name}.md" for name in ("augmenter", "end", "s2a", "scale")),
}


def test_no_page_has_a_block_that_nothing_runs():
    with_blocks = {page for page in pages() if blocks(page)}
    scripts = {page for page in with_blocks if page.startswith("docs/how_to/")}
    assert len(scripts) >= 10
    assert with_blocks - scripts == HERE | set(RUN_ELSEWHERE)
    for page, test in RUN_ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text("utf-8")


@pytest.mark.parametrize("page", PLAIN)
def test_a_page_of_plain_lines(page):
    run(page, {})


def test_the_loops_page(monkeypatch):
    from denoise_core.embedded import shared_encoder

    # The page names a model of the hub; the same weights ship.
    monkeypatch.setattr(
        "denoise_core.scorers.encoders._embedders",
        lambda name: (shared_encoder().embed_texts, shared_encoder().embed_texts),
    )
    made = run("docs/augmenter.md", {"__name__": "docs"})
    answer = made["answer"]
    assert (answer.outcome.value, answer.best.draft) == ("supported", 1)
    assert answer.trace.usage.input_tokens == 620
    assert "completed" in made["page"]


def test_the_page_of_end(tmp_path, monkeypatch):
    from denoise_core import Passage
    from denoise_core.embedded import sample_questions
    from denoise_core.end import LocalLLM
    from denoise_core.s2a.llm_labels import write_labels

    monkeypatch.chdir(tmp_path)
    write_labels(sample_questions()[:12], "labelled.jsonl")
    model, tokenizer = tiny_pair()
    model.save_pretrained("folder-or-name-of-a-model")
    tokenizer.save_pretrained("folder-or-name-of-a-model")
    names = {
        "LocalLLM": LocalLLM,
        "model": model,
        "tokenizer": tokenizer,
        "probe": build_probe(model, tokenizer),
        "passages": [
            Passage("Priya Ralkalo works as a weaver.", "a"),
            Passage("It rains in June.", "b"),
        ],
        "admitted": [Passage("Omar Delgari works as a baker.", "c")],
        "feedback": "Say the job.",
    }
    run("docs/end.md", names)
    assert Path("probe").is_dir()


def test_the_page_of_s2a(tmp_path, monkeypatch):
    from denoise_core.testing import FunctionLLM

    monkeypatch.chdir(tmp_path)
    names = {"llm": FunctionLLM(lambda messages: "1")}
    made = run("docs/s2a.md", names)
    assert made["result"].passages[0].text.startswith("The tower is 330 m tall.")


@pytest.mark.enable_socket
def test_the_page_of_many_machines(tmp_path, monkeypatch):
    """The clients ask a service that runs here; a pool needs a program of its own, and its block is built only."""
    from service_server import serving

    from denoise_core.embedded import default_denoiser
    from denoise_core.service import Service
    from denoise_core.testing import FunctionLLM

    monkeypatch.chdir(tmp_path)
    names = {"llm": FunctionLLM(lambda messages: "1"), "__name__": "page"}
    with serving(Service(default_denoiser())) as address:
        for block in blocks("docs/scale.md"):
            code = block["code"].replace("http://127.0.0.1:8080", address)
            exec(compile(code, "docs/scale.md", "exec"), names)
    assert names["scorer"] is not None
    assert names["cache"] is not None


@pytest.fixture
def fill(docs_tool):
    return docs_tool("fill")


def test_code_and_tables_are_those_of_their_files(fill):
    stale = [
        page
        for page in pages()
        if (text := (ROOT / page).read_text("utf-8"))
        != fill.filled(text, lambda _: None)
    ]
    assert not stale, "run: python docs/tools/fill.py tables"
    assert (fill.OUT / "sets.svg").read_text("utf-8") == fill.curve(), (
        "run: python docs/tools/fill.py tables"
    )


def test_scripts_are_short_and_each_has_a_page(fill):
    told = "".join((ROOT / page).read_text("utf-8") for page in pages())
    for name in fill.SCRIPTS:
        code = (DOCS / "how_to" / f"{name}.py").read_text("utf-8")
        assert code.count("\n") <= 60, name
        assert f"<!-- script: {name} -->" in told, name


@pytest.mark.parametrize(
    ("page", "number"), [(page, n) for page in FIRST for n in range(len(blocks(page)))]
)
def test_a_first_block_runs_where_only_its_page_was_followed(
    page, number, fill, tmp_path
):
    """In a process of its own, in which what the page's pip lines do not bring cannot be imported."""
    block = blocks(page)[number]
    script = tmp_path / "block.py"
    script.write_text(block["code"], "utf-8")
    assert fill.printed_by("", script, ROOT / page, tmp_path) == block["output"].strip()


def test_what_a_page_does_not_install_is_not_found(fill, tmp_path):
    script, page = tmp_path / "block.py", tmp_path / "page.md"
    script.write_text("import langchain_core\n", "utf-8")
    page.write_text("    pip install 'rag-denoise[cli]'\n", "utf-8")
    with pytest.raises(RuntimeError, match="No module named 'langchain_core'"):
        fill.printed_by("", script, page, tmp_path)


LOOSE = {"own_model", "vllm_end"}  # fitted figures differ from machine to machine


@pytest.mark.enable_socket
@pytest.mark.parametrize("name", sorted(p.stem for p in (DOCS / "how_to").glob("*.py")))
def test_a_script_prints_what_its_page_shows(name, fill, tmp_path):
    printed = fill.result_of(name, tmp_path)
    page = fill.page_of(name).read_text("utf-8")
    block = re.search(rf"<!-- script: {name} -->\n(.*?)<!-- end -->", page, re.S)[1]
    shown = re.search(r"```text\n(.*?)\n```", block, re.S)[1]
    assert shown, "run: python docs/tools/fill.py"
    if name in LOOSE:
        shown, printed = (
            re.sub(r"[\d.,]+", "0", text).split() for text in (shown, printed)
        )
        assert set(shown[:5]) <= set(printed)
    else:
        assert printed == shown
