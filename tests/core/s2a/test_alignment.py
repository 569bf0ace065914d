"""Rewriting variants show the source that covers what was written; what nothing covers is listed."""

import json
from pathlib import Path

import pytest
from augmenter_doubles import scripted

from denoise_core import Passage
from denoise_core.s2a.alignment import SourceIndex
from denoise_core.s2a.pieces import split_pieces
from denoise_core.testing import check_denoiser

from .fakes import cut_at, denoised, s2a

BY_HAND = Path(__file__).parents[2] / "data" / "s2a" / "rewrites_by_hand.jsonl"
RECORDS = list(map(json.loads, BY_HAND.read_text(encoding="utf-8").splitlines()))
VELTRIN = Passage(
    "She took over the programme in 2015 and published the phase II results two years later. Her supervisor had "
    "led the trial until 2014. The drug has not been approved by the FDA.",
    "v",
)


def sentences(text):
    return cut_at(text, split_pieces(Passage(text, "p")))


def covering(source, written):
    """For each written sentence, the numbers of the source's sentences that cover it."""
    index = SourceIndex(sentences(source))
    return [set(index.align(text)) for text in sentences(written)]


def rewritten(written, **settings):
    """The result of a model that writes this of the passage."""
    denoiser = s2a(f"Context: {written}", variant="default", **settings)
    return denoiser.denoise("Who?", [VELTRIN])


def test_a_faithful_rewrite_in_two_sentences_loses_nothing_in_silence():
    """The gate before this one showed the last sentence alone, without a word."""
    result = rewritten(
        "Lena Horváth took over the Veltrin programme in 2015 and published its phase II results "
        "in 2017. The drug has not been approved by the FDA."
    )
    assert "took over" in result.passages[0].text
    assert "FDA" in result.passages[0].text
    assert result.reports[0].uncovered_sentences == ()


def test_by_hand():
    faithful = [record for record in RECORDS if not record["wrong"]]
    needed_count = found_count = complete_count = surplus_count = written_count = 0
    for record in faithful:
        needed = set(record["needed_sentences"])
        covers = covering(record["source"], record["written"])
        assert all(covers)
        shown = set.union(*covers)
        needed_count += len(needed)
        found_count += len(needed & shown)
        complete_count += needed <= shown
        surplus_count += len(shown - needed)
        written_count += len(covers)
    assert found_count >= 0.96 * needed_count
    assert complete_count >= 0.95 * len(faithful)
    assert surplus_count <= 0.25 * written_count


def test_foreign_text_has_no_source():
    for record, other in zip(RECORDS, RECORDS[7:] + RECORDS[:7], strict=True):
        if other["source"] != record["source"]:
            assert not any(covering(other["source"], record["written"])), record


def test_when_nothing_written_has_a_source_it_is_a_failure():
    invention = "Bridges rust quickly. So do gates."
    result = rewritten(invention)
    assert result.passages == (VELTRIN,)
    assert "covers" in result.failures["v"]
    assert len(result.reports[0].uncovered_sentences) == 2
    dropped = rewritten(invention, on_error="drop")
    assert dropped.passages == ()
    assert dropped.failures


@pytest.mark.parametrize("nothing", ["N/A", "(none)", "null", "[None]"])
def test_a_word_for_nothing_is_no_text(nothing):
    result = denoised(
        json.dumps({"context": nothing}),
        [VELTRIN],
        variant="relevance",
        shown_text="written",
        on_error="raise",
    )
    assert result.passages == ()


def test_written_text_is_shown_as_it_is_and_marked():
    written = "The drug has been approved by the FDA."
    llm = scripted(f"Context: {written}")
    result = check_denoiser(
        lambda: s2a(llm, variant="default", shown_text="written"), "Who?", [VELTRIN]
    )
    (passage,) = result.passages
    assert passage.text == written
    assert passage.is_rewritten is True


def test_written_text_that_nothing_covers_does_not_replace_the_passage():
    settings = {"variant": "default", "shown_text": "written", "on_error": "raise"}
    result = denoised("Context: I refuse.", [VELTRIN], **settings)
    assert result.passages == (VELTRIN,)
