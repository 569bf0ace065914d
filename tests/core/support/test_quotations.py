"""Quotations checked by code: true ones are found in any form, and no other is called verbatim."""

import re

import pytest
from growth import slope
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Passage
from denoise_core.embedded.sample import sample_questions
from denoise_core.support import check_quotations
from denoise_core.support.answers import _parse_cached
from denoise_core.support.normal_form import fold_text

PASSAGES = [
    Passage(
        "The Eiffel\n Tower in Paris — “la dame” — was comp\u00adleted in 1889. It has three floors[3], not two.",
        "p",
        header="The iron towers of Paris",
    ),
    Passage("The bridge was well-\nknown and cost 5.5 % more. Cafe\u0301 de la Paix is near.", "b"),
    Passage("หอไอเฟลสร้างเสร็จในปี พ.ศ. 2432 ที่กรุงปารีส", "th"),
    Passage("埃菲尔铁塔于1889年完工，位于巴黎。", "zh"),
]  # fmt: skip


def statuses(answer, passages=PASSAGES):
    return [(q.text, q.status) for q in check_quotations(answer, passages)]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ('It says "the eiffel tower in paris" [1].', "verbatim"),
        ('It says **"the Eiffel Tower in Paris"** [2].', "misattributed"),
        ("„was completed in 1889“", "verbatim"),
        ("«three floors, not two»", "verbatim"),
        ("« three floors, not two »", "verbatim"),
        ("«\u202fthree floors, not six\u202f»", "nowhere"),
        ("»three floors, not two«", "verbatim"),
        ("«three « floors », not six»", "nowhere"),  # whole, with what it quotes
        ("“three floors [1], not two”", "verbatim"),
        ("‘The bridge was well-known’", "verbatim"),
        ("“cost 5.5 % more”", "verbatim"),
        ("“cost 55 % more”", "nowhere"),
        ("“cost 5.5 more. Caf\u00e9”", "nowhere"),
        ("“Café de la Paix”", "verbatim"),
        ("“สร้างเสร็จในปี พ.ศ. 2432”", "verbatim"),
        ("「埃菲尔铁塔于1889年完工」", "verbatim"),
        ("「埃菲尔铁塔于1899年完工」", "nowhere"),
        ("文章说「埃菲尔铁塔于1889年完工」吗。", "verbatim"),
        ('文章说"埃菲尔铁塔于1889年完工"。', "verbatim"),
        ("บอกว่า“สร้างเสร็จในปี พ.ศ. 2432”ไว้", "verbatim"),
        ("“the iron towers of Paris”", "verbatim"),
        ("“was completed in 188”", "nowhere"),
        ("“Tower in Paris ... in 1889”", "verbatim"),
        ("“It has three ... was completed in 1889”", "stitched"),
        ("“was completed in 1889 the bridge was wellknown”", "stitched"),
        ("> was completed\n> in 1889\n> — a book", "verbatim"),
        ("> was completed in 1890", "nowhere"),
        ("The Eiffel Tower in Paris [2].", "misattributed"),
        ("It has three floors, not two [1].", "verbatim"),
        ("It is high [9].", "nowhere"),
    ],
)
def test_each_status(answer, status):
    assert [found for _, found in statuses(answer)] == [status]


def test_a_table_in_a_block_quote_shifts_no_quotation_behind_it():
    row = "> | was completed | in 1889 |"
    answer = f'> | a | b |\n> |---|---|\n{row}\n\nIt says "three floors, not two".'
    assert statuses(answer) == [
        (row, "verbatim"),
        ("three floors, not two", "verbatim"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "It is 5' 10\" high.",
        'The "dame" is a "Big Iron" one.',
        '```\nprint("no quotation of any passage")\n```',
        '{"answer": "it was in another year"}',
        '<think>"it was in another year"</think>',
        "The workers' tower and the dogs’ tower’s top.",
        "It was finished in 1889 [1].",
        'He said "nothing that ends',
        "Of «A» and what is said of «B» here.",
    ],
)
def test_what_is_no_quotation(answer):
    assert statuses(answer) == []


def falsified(words, other_words):
    """A quotation with a word changed, added or moved, or with words of another passage."""
    half = len(words) // 2
    yield [*words[:half], f"seventeen{words[half]}", *words[half + 1 :]]
    yield [*words[:half], "never", *words[half:]]
    yield [*words[:half], *other_words[5 : 5 + half]]
    yield [*words[:3], "...", *other_words[5:8]]
    yield words[half:] + words[:half]


def quotations():
    """Real passages, and from each pool a true quotation and five false ones."""
    for question in sample_questions():
        passages = question.passages[:3]
        words, other_words, *_ = (passage.text.split() for passage in passages)
        if len(other_words) < 12 or other_words[5] in words:
            continue
        for start in range(3, len(words) - 8, 8):
            true = words[start : start + 8]
            text = " ".join(true)
            is_plain = len(set(true)) == len(true)
            if is_plain and re.fullmatch(r"[\w ,]+", text):
                for false in falsified(true, other_words):
                    yield passages, text, " ".join(false)


def test_no_fabricated_quotation_is_verbatim_and_no_true_one_is_missed():
    marks = ('"{}"', "“{}”", "„{}“", "> {}\n", "**“{}”** [1]")
    cases = list(quotations())[:100]
    assert len(cases) == 100
    for number, (passages, true, false) in enumerate(cases):
        mark = marks[number // 5 % len(marks)]
        for text in (true, false):
            answer = "It says so:\n\n" + mark.format(text)
            (found,) = check_quotations(answer, passages)
            is_verbatim = found.status in ("verbatim", "misattributed")
            assert is_verbatim is (text == true), (text, found)


PIECES = [*'“”" \n.…ß', "the", "tower", "> ", "[1]", "1889", "“1889 İ the tower”"]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_spans_are_exact_for_any_answer(answer):
    passages = [Passage("the tower, the\ntower. ß 1889 İ the tower", "a")]
    last_start = 0
    for quotation in check_quotations(answer, passages):
        assert answer[quotation.start : quotation.end] == quotation.text
        assert quotation.start >= last_start
        last_start = quotation.start
        for span in quotation.spans:
            assert passages[0].text[span.start : span.end]


def test_a_long_passage_is_folded_once_for_all_quotations():
    assert fold_text("a " * 120_000) is fold_text("a " * 120_000)


@pytest.mark.parametrize("unit", ['"a b c d" ', "“", '"'])
def test_checking_takes_linear_time(unit):
    passages = [Passage("a b c d e f g. " * 10, "a")]

    def work(size):
        fold_text.cache_clear()
        _parse_cached.cache_clear()
        return lambda: check_quotations((unit * size)[:size], passages)

    assert slope(work, (2000, 4000, 8000)) < 1.6
