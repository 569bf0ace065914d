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


def shown(source, written):
    """Numbers of the source's sentences that cover what was written, and whether every written sentence has
    some."""
    passage = Passage(source, "p")
    spans = split_pieces(passage)
    found = SourceIndex([source[s.start : s.end] for s in spans])
    covers = [
        found.align(written[s.start : s.end]).sentence_indices
        for s in split_pieces(Passage(written, "w"))
    ]
    return {n for c in covers for n in c}, all(covers)


def test_a_faithful_rewrite_in_two_sentences_loses_nothing_in_silence():
    """The gate before this one showed the last sentence alone, without a word."""
    written = (
        "Context: Lena Horváth took over the Veltrin programme in 2015 and published its phase II results "
        "in 2017. The drug has not been approved by the FDA."
    )
    result = S2ADenoiser(says(written), variant="default").denoise("Who?", [VELTRIN])
    assert "took over" in result.passages[0].text
    assert "FDA" in result.passages[0].text
    assert result.reports[0].uncovered_sentences == ()


def test_by_hand():
    records = [
        json.loads(line) for line in BY_HAND.read_text(encoding="utf-8").splitlines()
    ]
    needed = found = complete = superfluous = written = 0
    faithful = [r for r in records if not r["wrong"]]
    for record in faithful:
        wanted, (got, every) = (
            set(record["needed_sentences"]),
            shown(record["source"], record["written"]),
        )
        needed, found, complete = (
            needed + len(wanted),
            found + len(wanted & got),
            complete + (wanted <= got),
        )
        superfluous += len(got - wanted)
        written += len(split_pieces(Passage(record["written"], "w")))
        assert every
    assert found >= 0.96 * needed
    assert complete >= 0.95 * len(faithful)
    assert superfluous <= 0.25 * written


def test_foreign_text_has_no_source():
    records = [
        json.loads(line) for line in BY_HAND.read_text(encoding="utf-8").splitlines()
    ]
    for n, record in enumerate(records):
        other = records[(n + 7) % len(records)]
        if other["source"] != record["source"]:
            assert shown(other["source"], record["written"])[0] == set(), record[
                "written"
            ]


def test_when_nothing_written_has_a_source_it_is_a_failure():
    llm = says("Context: Bridges rust quickly. So do gates.")
    kept = S2ADenoiser(llm, variant="default").denoise("Who?", [VELTRIN])
    assert kept.passages == (VELTRIN,)
    assert "covers" in kept.failures["v"]
    assert len(kept.reports[0].uncovered_sentences) == 2
    dropped = S2ADenoiser(llm, variant="default", on_error="drop").denoise(
        "Who?", [VELTRIN]
    )
    assert dropped.passages == ()
    assert dropped.failures


def test_written_text_is_shown_as_it_is_and_marked_with_the_checkers_word():
    written = "The drug has been approved by the FDA."
    options = Options(shown_text="written")
    result = check_denoiser(
        lambda: S2ADenoiser(
            says(f"Context: {written}"), variant="default", options=options
        ),
        "Who?",
        [VELTRIN],
    )
    (passage,) = result.passages
    assert (passage.text, passage.is_rewritten) == (written, True)
    (sentence,) = result.reports[0].sentences
    assert sentence.supported is not True


def test_flag_adds_the_checkers_word_to_the_source():
    llm = FunctionLLM(lambda m: "Context: She took over the programme in 2019.")
    plain, flagged = (
        S2ADenoiser(llm, variant="default", options=Options(check_sentences=f)).denoise(
            "Who?", [VELTRIN]
        )
        for f in (False, True)
    )
    assert plain.passages == flagged.passages
    assert plain.reports[0].sentences[0].reason == ""
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
    spans = split_pieces(Passage(text, "p"))
    source = SourceIndex([text[s.start : s.end] for s in spans])
    for s in spans:
        chosen = source.align(text[s.start : s.end]).sentence_indices
        assert any(
            text[spans[n].start : spans[n].end].strip() == text[s.start : s.end].strip()
            for n in chosen
        )
