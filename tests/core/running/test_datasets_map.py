"""`datasets.map(num_proc=2)`: what is mapped travels to its processes and does there what it does here."""

import pytest

from denoise_core import Guard, Passage
from denoise_core.embedded import DefaultScorer, default_denoiser
from denoise_core.end import ENDDenoiser
from denoise_core.scorers import BM25Scorer

datasets = pytest.importorskip("datasets", reason="datasets is not installed: its map is not tested")

ROWS = [
    {"query": f"Where is tower {n}?", "passages": ["Bread is cheap.", f"Tower {n} is in Porto.", "Rain fell."]}
    for n in range(8)
]
PARTS = {
    "default": lambda: default_denoiser(keep=1),
    "guarded BM25": lambda: Guard(ENDDenoiser(BM25Scorer(), keep=1)),
}


class Kept:
    """A row to the texts that are left."""

    def __init__(self, denoiser):
        self.denoiser = denoiser

    def __call__(self, row):
        found = self.denoiser.denoise(row["query"], [Passage(t, str(n)) for n, t in enumerate(row["passages"])])
        return {"left": [p.text for p in found.passages]}


class Scored:
    def __init__(self, scorer):
        self.scorer = scorer

    def __call__(self, row):
        return {"scores": self.scorer.score(row["query"], row["passages"]).tolist()}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)


@pytest.mark.parametrize("name", PARTS)
def test_a_denoiser_does_there_what_it_does_here(name):
    here = Kept(PARTS[name]())
    expected = [here(row)["left"] for row in ROWS]  # used, so that there is something to leave behind
    found = datasets.Dataset.from_list(ROWS).map(here, num_proc=2)
    assert found["left"][:] == expected


def test_a_scorer_does_there_what_it_does_here():
    here = Scored(DefaultScorer())
    found = datasets.Dataset.from_list(ROWS).map(here, num_proc=2)
    for row, scores in zip(ROWS, found["scores"][:], strict=True):
        assert scores == pytest.approx(here(row)["scores"], abs=1e-5)
