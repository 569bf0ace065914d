"""Lone surrogates, which come out of JSON with half an escaped emoji, never make an output unwritable."""

import pytest
from command_line import command_caller
from json_files import write_json_lines
from laws import check_result

from denoise_core import Passage
from denoise_core.augmenter.knowledge import BM25Retriever
from denoise_core.cli import escape_control, main
from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer
from denoise_core.testing import FunctionScorer

HALF = "half \ud83d, the other \udc00"
PASSAGES = [
    Passage(f"The tower is tall. {HALF}", HALF, header=HALF),
    Passage("Bananas are yellow.", "b"),
]


@pytest.mark.parametrize("language", ["english", "german", None])
def test_words_are_scored(language):
    denoiser = ENDDenoiser(BM25Scorer(language=language), keep=1)
    result = denoiser.denoise(f"tower {HALF}", PASSAGES[::-1])
    check_result(PASSAGES, result)
    assert [p.id for p in result.passages] == [HALF]


def test_a_scorer_is_asked_with_whole_characters():
    asked = []
    scorer = FunctionScorer(lambda query, text: asked.extend((query, text)) or 1.0)
    ENDDenoiser(scorer, keep=0.5).denoise(HALF, PASSAGES)
    assert "".join(asked).encode()


def test_words_are_found():
    assert BM25Retriever(PASSAGES).retrieve(f"tower {HALF}")[0].id == HALF


def test_the_terminal_is_shown_whole_characters():
    assert escape_control(HALF) == "half \ufffd, the other \ufffd"


@pytest.mark.parametrize(
    ("options", "status"), [("", 0), ("--json", 0), ("--keep \udc80", 2)]
)
def test_the_command_prints(tmp_path, capsys, monkeypatch, options, status):
    """What pytest captures is strict UTF-8, as a terminal is."""
    pytest.importorskip("typer")
    row = {"text": f"The tower is tall. {HALF}", "id": HALF, "title": HALF}
    path = write_json_lines(tmp_path / "passages.jsonl", row)
    command = command_caller(main, capsys, monkeypatch)
    done = command(f"run -q 'tower \udc81' -p {path} --method bm25 {options}")
    assert done.returncode == status
    assert done.stderr.strip() if status else done.stdout.strip()
