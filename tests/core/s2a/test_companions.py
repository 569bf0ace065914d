"""Kept pieces bring what they cannot be read without; budgets; long texts of every kind, at exact spans."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from growth import slope
from laws import check_result

from denoise_core import Passage
from denoise_core.end.selection import TokenLimit
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.s2a.pieces import group_slices, slice_passage, split_pieces
from denoise_core.testing import FunctionLLM

from .fakes import document, keeps, pieces, says

TABLE = "| City | People |\n|---|---|\n| Ulm | 126,000 |\n| Bern | 134,000 |\n| Graz | 292,000 |\n"
LIST = "The kit contains:\n- a torch\n- two spare bulbs\n- a rope\n\nBatteries are sold separately."
PROSE = "Marie Curie moved to Paris. She studied physics there. The weather was mild. Bananas are yellow."
CODE = "def area(r):\n    pi = 3.14\n    return pi * r\n\ndef other():\n    return 1\n"


@pytest.mark.parametrize(
    ("text", "expected_value", "kept_pieces", "context_added"),
    [
        (TABLE, "Bern", "| City | People |\n|---|---|\n| Bern | 134,000 |\n", 2),
        (LIST, "bulbs", "The kit contains:\n- two spare bulbs\n", 1),
        (
            PROSE,
            "studied",
            "Marie Curie moved to Paris. She studied physics there. ",
            1,
        ),
        (PROSE, "mild", "The weather was mild. ", 0),
        (CODE, "return pi", "def area(r):\n    return pi * r\n\n", 1),
    ],
)
def test_a_kept_piece_brings_what_it_cannot_be_read_without(
    text, expected_value, kept_pieces, context_added
):
    passage = Passage(text, "p")
    s2a_result = S2ADenoiser(keeps(lambda t: expected_value in t)).denoise(
        "What is it?", [passage]
    )
    assert s2a_result.passages[0].text == kept_pieces
    assert len(s2a_result.reports[0].context_spans) == context_added
    assert all(
        one_span not in [one_drop.span for one_drop in s2a_result.dropped]
        for one_span in s2a_result.reports[0].context_spans
    )
    check_result([passage], s2a_result)
    lone_passage = S2ADenoiser(
        keeps(lambda t: expected_value in t), options=Options(keep_context=False)
    ).denoise("What is it?", [passage])
    assert expected_value in lone_passage.passages[0].text
    assert len(lone_passage.passages[0].text) <= len(kept_pieces)
    assert lone_passage.passages[0].text == lone_passage.passages[0].text.rstrip(), (
        "nor white space that nobody named"
    )
    check_result([passage], lone_passage)


def test_a_pronoun_beside_its_kept_sentence_brings_nothing():
    s2a_result = S2ADenoiser(keeps(lambda t: "Curie" in t or "studied" in t)).denoise(
        "Who?", [Passage(PROSE, "p")]
    )
    assert s2a_result.reports[0].context_spans == ()


def test_a_budget_of_tokens_takes_the_most_important_first():
    text = (
        "Alpha one is here. Beta two is here. Gamma three is here. Delta four is here. "
    )
    fake_llm = says("3, 1, 4")
    s2a_result = S2ADenoiser(fake_llm, keep=TokenLimit(11)).denoise(
        "Which?", [Passage(text, "p")]
    )
    assert s2a_result.passages[0].text == "Alpha one is here. Gamma three is here. "
    assert "most important comes first" in fake_llm.received_messages[0][-1].content
    reasons = {
        text[one_drop.span.start : one_drop.span.end].split()[0]: one_drop.reason
        for one_drop in s2a_result.dropped
    }
    assert reasons == {
        "Beta": "not needed for the question",
        "Delta": "over the budget of 11 tokens",
    }
    check_result([Passage(text, "p")], s2a_result)


SHEET = "# Pump 260\n\n## Noise\n\nAt one metre it is 58 dB.\n\n## Fuse\n\nThe fuse has 6 A.\n"


def test_a_selected_piece_comes_with_title_and_heading_also_of_another_passage():
    select = S2ADenoiser(keeps(lambda t: "6 A" in t))
    whole = [Passage(SHEET, "whole")]
    result = select.denoise("Which fuse?", whole)
    assert result.passages[0].text == "# Pump 260\n\n## Fuse\n\nThe fuse has 6 A.\n"
    check_result(whole, result)
    position = SHEET.index("The fuse")
    pieces_of_sheet = []
    for start, end in ((0, position), (position, len(SHEET))):
        metadata = {"source": "sheet.md", "start_index": start}
        pieces_of_sheet.append(Passage(SHEET[start:end], str(start), metadata=metadata))
    result = select.denoise("Which fuse?", pieces_of_sheet)
    kept_texts = [passage.text for passage in result.passages]
    assert kept_texts == ["# Pump 260\n\n## Fuse\n\n", "The fuse has 6 A.\n"]
    assert result.reports[0].context_spans
    check_result(pieces_of_sheet, result)
    alone = S2ADenoiser(
        keeps(lambda t: "6 A" in t), options=Options(keep_context=False)
    )
    result = alone.denoise("Which fuse?", pieces_of_sheet)
    assert [passage.id for passage in result.passages] == [str(position)]


@pytest.mark.parametrize(("window", "most"), [(3000, 60), (24_000, 7), (10**8, 60)])
def test_calls_hold_every_piece_once_in_order_and_fit(window, most):
    """Nobody counts well beyond sixty: so many pieces at most are numbered in a call."""
    texts = [
        "One two. " * position for position in (5, 400, 100, 1, 90, 20, 61, 3000, 60)
    ]
    options = Options(max_characters=window, max_pieces=most)
    passages = [Passage(t, str(position)) for position, t in enumerate(texts)]
    parts = [
        part for one_passage in passages for part in slice_passage(one_passage, options)
    ]
    groups = group_slices(parts, 4000, options)
    assert [one_passage for g in groups for one_passage in g] == parts
    assert [one_span for one_passage in parts for one_span in one_passage.pieces] == [
        one_span
        for position, t in enumerate(texts)
        for one_span in split_pieces(Passage(t, str(position)))
    ]
    for group in groups:
        assert sum(len(one_passage.pieces) for one_passage in group) <= most
        assert (
            sum(len(one_passage.text) for one_passage in group) <= window
            or len(group) == 1
        )


LONG = {
    "prose": "The river rises in the hills near Ulm. It flows for 120 km. ",
    "table": "| Ulm | 126,000 | yes |\n",
    "code": "def f(x):\n    return x + 1\n\n",
    "markdown": "## Heading\n\n- first item\n- second item\n\nA sentence with **bold** text.\n\n",
    "chinese": "长江全长约6300公里。它流经十一个省。",
    "arabic": "يقع السد على نهر النيل. افتتح عام 1902. ",
    "thai": "กรุงเทพเป็นเมืองหลวงของประเทศไทย มีประชากรแปดล้านคน\n",
}


def one_text(kind):
    """A text of so many characters of one kind."""
    return lambda size: [
        Passage((LONG[kind] * (size // len(LONG[kind]) + 1))[:size], "p")
    ]


def texts_of_every_kind(count):
    """Short ones share calls under ``select``, each has its own under ``default``."""
    texts = [text * (900 // len(text)) for text in LONG.values()]
    return [
        Passage(texts[position % len(texts)], str(position))
        for position in range(count)
    ]


def every_third(messages):
    return (
        ", ".join(str(position) for position in pieces(messages) if position % 3 == 0)
        or "1"
    )


def one_sentence(messages):
    return f"Context: {next(t.strip() for t in LONG.values() if t.strip() in document(messages))}"


@pytest.mark.parametrize(
    ("variant", "model_reply"), [("select", every_third), ("default", one_sentence)]
)
@pytest.mark.parametrize(
    ("passages_of", "sizes"),
    [
        *((one_text(kind), (5_000, 10_000, 20_000)) for kind in LONG),
        (texts_of_every_kind, (25, 50, 100)),
    ],
    ids=[*LONG, "every kind"],
)
def test_texts_of_every_kind_keep_exact_spans_with_linear_work(
    passages_of, sizes, variant, model_reply
):
    def of_size(size):
        # Texts of their own, so that no cache has read them before.
        prefix = f"{next(call_numbers):04d} "
        passages = [replace(p, text=prefix + p.text) for p in passages_of(size)]
        denoiser = S2ADenoiser(FunctionLLM(model_reply), variant=variant)
        denoiser.record.is_readable = True  # a new model is asked once alone

        def denoise():
            results.append((passages, denoiser.denoise("Which river?", passages)))

        return denoise

    results = []
    call_numbers = itertools.count()
    assert slope(of_size, sizes) < 1.4
    for passages, s2a_result in results:
        assert not s2a_result.failures
        assert len(s2a_result.passages) > len(passages) / 2
        texts = {one_passage.id: one_passage.text for one_passage in passages}
        for one_passage in s2a_result.passages:
            assert not one_passage.is_rewritten
            assert one_passage.text == "".join(
                texts[one_passage.id][one_span.start : one_span.end]
                for one_span in one_passage.source_spans
            )
        check_result(passages, s2a_result)
