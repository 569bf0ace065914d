"""Lone surrogates, which come out of JSON with half an escaped emoji, never make an output unwritable."""

import json
import os
import subprocess
import sys

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
    result = ENDDenoiser(BM25Scorer(language=language), keep=1).denoise(
        f"tower {HALF}", PASSAGES
    )
    check_result(PASSAGES, result)
    assert [p.id for p in result.passages] == [HALF]
    assert (
        BM25Scorer(language=language).score(f"tower {HALF}", [p.text for p in PASSAGES])
        > 0
    ).tolist() == [
        True,
        False,
    ]


def test_a_scorer_is_asked_with_whole_characters():
    asked = []
    scorer = FunctionScorer(lambda query, text: asked.extend((query, text)) or 1.0)
    ENDDenoiser(scorer, keep=0.5).denoise(HALF, PASSAGES)
    assert "".join(asked).encode()


def test_words_are_found():
    assert BM25Retriever(PASSAGES).retrieve(f"tower {HALF}")[0].id == HALF


def test_a_card_is_written(tmp_path):
    reading = HiddenStateSpec(ModelFingerprint("m", "llama", 3, "float32"), 1, "layout")
    Probe(np.ones(3, np.float32), 0.5, reading, 0.0, {"data": HALF}).save(
        tmp_path / "probe"
    )
    assert Probe.load(tmp_path / "probe").card["data"] == "half ?, the other ?"


def test_the_terminal_is_shown_whole_characters():
    assert escape_control(HALF) == "half \ufffd, the other \ufffd"


@pytest.mark.parametrize("how", [[], ["--json"], ["--keep", "\udc80"]])
@pytest.mark.skipif(os.name == "nt", reason="arguments of POSIX are bytes")
def test_the_command_prints(tmp_path, how):
    pytest.importorskip("typer")
    source = tmp_path / "passages.jsonl"
    source.write_text(
        json.dumps({"text": f"The tower is tall. {HALF}", "id": HALF, "title": HALF})
        + "\n"
    )
    program = "from denoise_core.cli import main; main()"
    asked = ["run", "-q", "tower \udc81", "-p", str(source), "--method", "bm25", *how]
    done = subprocess.run(
        [sys.executable, "-c", program, *asked], capture_output=True, check=False
    )
    assert done.returncode == (2 if "--keep" in how else 0), done.stderr
    assert (done.stdout or done.stderr).decode().strip()
