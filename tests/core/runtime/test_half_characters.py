"""Lone surrogates, which come out of JSON with half an escaped emoji, never make an output unwritable."""

import io
import json

import numpy as np
import pytest
from laws import check_result

from denoise_core import Passage
from denoise_core.augmenter.knowledge import BM25Retriever
from denoise_core.cli import escape_control
from denoise_core.end import ENDDenoiser, Probe
from denoise_core.end.probe import HiddenStateSpec
from denoise_core.local.fingerprint import ModelFingerprint
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


def test_a_card_is_written(tmp_path):
    reading = HiddenStateSpec(ModelFingerprint("m", "llama", 3, "float32"), 1, "layout")
    Probe(np.ones(3, np.float32), 0.5, reading, {"data": HALF}).save(tmp_path / "probe")
    assert Probe.load(tmp_path / "probe").card["data"] == "half ?, the other ?"


def test_the_terminal_is_shown_whole_characters():
    assert escape_control(HALF) == "half \ufffd, the other \ufffd"


@pytest.mark.parametrize(
    ("how", "code"), [([], 0), (["--json"], 0), (["--keep", "\udc80"], 2)]
)
def test_the_command_prints(tmp_path, monkeypatch, how, code):
    pytest.importorskip("typer")
    from denoise_core.cli import main

    source, screen = tmp_path / "passages.jsonl", io.BytesIO()
    text = f"The tower is tall. {HALF}"
    source.write_text(json.dumps({"text": text, "id": HALF, "title": HALF}))
    terminal = io.TextIOWrapper(screen, "utf-8", write_through=True)
    monkeypatch.setattr("sys.stderr" if code else "sys.stdout", terminal)
    asked = ["run", "-q", "tower \udc81", "-p", str(source), "--method", "bm25", *how]
    monkeypatch.setattr("sys.argv", ["rag-denoise", *asked])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert screen.getvalue().strip()
