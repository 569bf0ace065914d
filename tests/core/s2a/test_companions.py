"""Kept pieces bring what they cannot be read without; budgets; long texts of every kind, at exact spans."""

import itertools
from dataclasses import replace

import pytest
from augmenter_doubles import scripted
from growth import slope
from laws import check_result

from denoise_core import Passage
from denoise_core.end.selection import TokenLimit
from denoise_core.testing import FunctionLLM

from .fakes import denoised, document, ids, keeps, pieces, s2a, texts, texts_at

TABLE = "| City | People |\n|---|---|\n| Ulm | 126,000 |\n| Bern | 134,000 |\n| Graz | 292,000 |\n"
LIST = "The kit contains:\n- a torch\n- two spare bulbs\n- a rope\n\nBatteries are sold separately."
PROSE = "Marie Curie moved to Paris. She studied physics there. The weather was mild. Bananas are yellow."
CODE = "def area(r):\n    pi = 3.14\n    return pi * r\n\ndef other():\n    return 1\n"


@pytest.mark.parametrize(
    ("text", "needed", "kept_text", "context_count"),
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
        # The key of a block is in one piece with the line before it.
        ("a:\n  b: 1\nc:\n  d: 2\n", "d: 2", "c:\n  d: 2\n", 1),
        (CODE, "return pi", "def area(r):\n    return pi * r\n\n", 1),
    ],
)
def test_a_kept_piece_brings_what_it_cannot_be_read_without(
    text, needed, kept_text, context_count
):
    passage = Passage(text, "p")
    llm = keeps(lambda piece: needed in piece)
    result = denoised(llm, [passage])
    assert texts(result.passages) == [kept_text]
    context_spans = result.reports[0].context_spans
    assert len(context_spans) == context_count
    assert not {drop.span for drop in result.dropped}.intersection(context_spans)
    check_result([passage], result)
    result = denoised(llm, [passage], keep_context=False)
    (lone_text,) = texts(result.passages)
    assert needed in lone_text
    assert len(lone_text) <= len(kept_text)
    check_result([passage], result)


def test_a_pronoun_beside_its_kept_sentence_brings_nothing():
    result = denoised("1, 2", [Passage(PROSE, "p")])
    assert result.reports[0].context_spans == ()


def test_a_budget_of_tokens_takes_the_most_important_first():
    passage = Passage("Alpha one here. Beta two here. Gamma three here. Delta.", "p")
    llm = scripted("3, 1, 4")
    result = denoised(llm, [passage], keep=TokenLimit(9))
    assert texts(result.passages) == ["Alpha one here. Gamma three here. "]
    assert "most important comes first" in llm.received_messages[0][-1].content
    assert texts_at(passage.text, result.dropped) == ["Beta two here. ", "Delta."]
    assert [drop.reason for drop in result.dropped] == [
        "not needed for the question",
        "over the budget of 9 tokens",
    ]
    check_result([passage], result)


TITLE, NOISE, HEADING, FUSE = (
    "# Pump 260\n\n",
    "## Noise\n\nAt one metre it is 58 dB.\n\n",
    "## Fuse\n\n",
    "The fuse has 6 A.\n",
)


@pytest.mark.parametrize(
    ("parts", "kept_texts"),
    [
        ([TITLE + NOISE + HEADING + FUSE], [TITLE + HEADING + FUSE]),
        ([TITLE + NOISE + HEADING, FUSE], [TITLE + HEADING, FUSE]),
    ],
)
def test_a_selected_piece_comes_with_title_and_heading_also_of_another_passage(
    parts, kept_texts
):
    passages, start = [], 0
    for text in parts:
        metadata = {"source": "sheet.md", "start_index": start}
        passages.append(Passage(text, str(start), metadata=metadata))
        start += len(text)
    llm = keeps(lambda piece: "6 A" in piece)
    result = denoised(llm, passages)
    assert texts(result.passages) == kept_texts
    assert result.reports[0].context_spans
    check_result(passages, result)
    result = denoised(llm, passages, keep_context=False)
    assert ids(result.passages) == ids(passages[-1:])


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
    return ", ".join(str(n) for n in pieces(messages) if n % 3 == 0) or "1"


def one_sentence(messages):
    shown = document(messages)
    return f"Context: {next(t.strip() for t in LONG.values() if t.strip() in shown)}"


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
        denoiser = s2a(FunctionLLM(model_reply), variant=variant)
        denoiser.record.is_readable = True  # a new model is asked once alone

        def denoise():
            results.append((passages, denoiser.denoise("Which river?", passages)))

        return denoise

    results = []
    call_numbers = itertools.count()
    assert slope(of_size, sizes) < 1.4
    for passages, result in results:
        assert not result.failures
        assert len(result.passages) > len(passages) / 2
        for passage in result.passages:
            assert not passage.is_rewritten
        check_result(passages, result)


SHEET = f"{TITLE}{TABLE}"


@pytest.mark.parametrize("limit", [8, 30, 60, 100])
def test_a_piece_brings_its_context_within_the_budget_and_it_counts_once(limit):
    llm = keeps(lambda piece: "000" in piece)
    budget = TokenLimit(limit, len)
    result = denoised(llm, [Passage(SHEET, "p")], keep=budget)
    kept_text = "".join(texts(result.passages))
    assert len(kept_text) <= limit
    assert ("Pump" in kept_text) == ("City" in kept_text) == ("Ulm" in kept_text)
    assert ("Ulm" in kept_text) == (limit >= 60)
    assert ("Graz" in kept_text) == (limit >= 100)


@pytest.mark.parametrize("answered", ["yes", "no"])
def test_a_budget_that_keeps_none_of_the_named_pieces_says_so(answered):
    passage = Passage(PROSE, "p")
    note = denoised(f"1\nANSWERED: {answered}", [passage], keep=TokenLimit(1)).note
    assert "leaves no room" in note
    assert ("no answer" in note) == (answered == "no")
