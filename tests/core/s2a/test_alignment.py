"""Rewriting variants show the source that covers what was written; what nothing covers is listed."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Passage
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.s2a.alignment import SourceIndex
from denoise_core.s2a.pieces import split_pieces
from denoise_core.testing import FunctionLLM, check_denoiser

from .fakes import says

BY_HAND = Path(__file__).parents[2] / "data" / "s2a" / "rewrites_by_hand.jsonl"
VELTRIN = Passage(
    "She took over the programme in 2015 and published the phase II results two years later. Her supervisor had "
    "led the trial until 2014. The drug has not been approved by the FDA.",
    "v",
)


def shown(source, written_text):
    """Numbers of the source's sentences that cover what was written, and whether every written sentence has
    some."""
    passage = Passage(source, "p")
    clause_spans = split_pieces(passage)
    actual_result = SourceIndex(
        [source[one_span.start : one_span.end] for one_span in clause_spans]
    )
    covers = [
        actual_result.align(
            written_text[one_span.start : one_span.end]
        ).sentence_indices
        for one_span in split_pieces(Passage(written_text, "w"))
    ]
    return {position for c in covers for position in c}, all(covers)


def test_a_faithful_rewrite_in_two_sentences_loses_nothing_in_silence():
    """The gate before this one showed the last sentence alone, without a word."""
    written_text = (
        "Context: Lena Horváth took over the Veltrin programme in 2015 and published its phase II results "
        "in 2017. The drug has not been approved by the FDA."
    )
    s2a_result = S2ADenoiser(says(written_text), variant="default").denoise(
        "Who?", [VELTRIN]
    )
    assert "took over" in s2a_result.passages[0].text
    assert "FDA" in s2a_result.passages[0].text
    assert s2a_result.reports[0].uncovered_sentences == ()


def test_by_hand():
    records = [
        json.loads(line) for line in BY_HAND.read_text(encoding="utf-8").splitlines()
    ]
    needed_pieces = actual_result = complete = superfluous = written_text = 0
    faithful = [one_record for one_record in records if not one_record["wrong"]]
    for record in faithful:
        expected_value, (got, every) = (
            set(record["needed_sentences"]),
            shown(record["source"], record["written"]),
        )
        needed_pieces, actual_result, complete = (
            needed_pieces + len(expected_value),
            actual_result + len(expected_value & got),
            complete + (expected_value <= got),
        )
        superfluous += len(got - expected_value)
        written_text += len(split_pieces(Passage(record["written"], "w")))
        assert every
    assert actual_result >= 0.96 * needed_pieces
    assert complete >= 0.95 * len(faithful)
    assert superfluous <= 0.25 * written_text


def test_foreign_text_has_no_source():
    records = [
        json.loads(line) for line in BY_HAND.read_text(encoding="utf-8").splitlines()
    ]
    for position, record in enumerate(records):
        other = records[(position + 7) % len(records)]
        if other["source"] != record["source"]:
            assert shown(other["source"], record["written"])[0] == set(), record[
                "written"
            ]


def test_when_nothing_written_has_a_source_it_is_a_failure():
    fake_llm = says("Context: Bridges rust quickly. So do gates.")
    kept_pieces = S2ADenoiser(fake_llm, variant="default").denoise("Who?", [VELTRIN])
    assert kept_pieces.passages == (VELTRIN,)
    assert "covers" in kept_pieces.failures["v"]
    assert len(kept_pieces.reports[0].uncovered_sentences) == 2
    dropped = S2ADenoiser(fake_llm, variant="default", on_error="drop").denoise(
        "Who?", [VELTRIN]
    )
    assert dropped.passages == ()
    assert dropped.failures


def test_written_text_is_shown_as_it_is_and_marked_with_the_checkers_word():
    written_text = "The drug has been approved by the FDA."
    options = Options(shown_text="written")
    s2a_result = check_denoiser(
        lambda: S2ADenoiser(
            says(f"Context: {written_text}"), variant="default", options=options
        ),
        "Who?",
        [VELTRIN],
    )
    (passage,) = s2a_result.passages
    assert (passage.text, passage.is_rewritten) == (written_text, True)
    (sentence,) = s2a_result.reports[0].sentences
    assert sentence.supported is not True


def test_flag_adds_the_checkers_word_to_the_source():
    fake_llm = FunctionLLM(
        lambda sent_messages: "Context: She took over the programme in 2019."
    )
    plain_text, flagged = (
        S2ADenoiser(
            fake_llm, variant="default", options=Options(check_sentences=one_field)
        ).denoise("Who?", [VELTRIN])
        for one_field in (False, True)
    )
    assert plain_text.passages == flagged.passages
    assert plain_text.reports[0].sentences[0].reason == ""
    assert flagged.reports[0].unsupported_sentences == flagged.reports[0].sentences


@given(
    st.lists(
        st.sampled_from(
            ["She took over in 2015.", "Bananas rot.", "It rained.", "He won 3 prizes."]
        ),
        max_size=6,
    )
)
def test_sentences_of_the_source_cover_themselves(sentences):
    text = " ".join(sentences)
    clause_spans = split_pieces(Passage(text, "p"))
    source = SourceIndex(
        [text[one_span.start : one_span.end] for one_span in clause_spans]
    )
    for one_span in clause_spans:
        chosen = source.align(text[one_span.start : one_span.end]).sentence_indices
        assert any(
            text[clause_spans[position].start : clause_spans[position].end].strip()
            == text[one_span.start : one_span.end].strip()
            for position in chosen
        )
