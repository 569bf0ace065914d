"""Quotations checked by code: true ones are found in any form, and no other is called verbatim."""

import random
import re

import pytest
from growth import slope
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Passage
from denoise_core.embedded.sample import sample_questions
from denoise_core.support import check, check_quotations
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
    ],
)
def test_what_is_no_quotation(answer):
    assert statuses(answer) == []


def quotations(count, seed=11):
    """Real passages, and from each a true quotation and a fabricated or stitched one."""
    rng = random.Random(seed)
    pools = [question.passages for question in sample_questions()]
    while count:
        passages = rng.choice(pools)[:6]
        words = [re.findall(r"\S+", passage.text) for passage in passages]
        chosen = rng.randrange(len(words))
        if min(map(len, words)) < 30:
            continue
        length = rng.randrange(6, 12)
        start = rng.randrange(len(words[chosen]) - length)
        true = words[chosen][start : start + length]
        text = " ".join(true)
        if len(re.findall(r"\w+", text)) < 6 or '"' in text or "..." in text:
            continue
        count -= 1
        other = words[(chosen + 1) % len(words)]
        way = count % 5
        false = list(true)
        if way == 0:
            false[length // 2] = "seventeen" + false[length // 2]
        elif way == 1:
            false.insert(length // 2, "never")
        elif way == 2:
            false = [*true[: length // 2], *other[5 : 5 + length // 2]]
        elif way == 3:
            false = [*true[:3], "...", *other[5:8]]
            if other[5] in passages[chosen].text:
                false = ["never", *true]
        else:
            false = true[length // 2 :] + true[: length // 2]
        yield passages, text, " ".join(false)


def test_no_fabricated_quotation_is_verbatim_and_no_true_one_is_missed():
    marks = ('"{}"', "“{}”", "„{}“", "> {}\n", "**“{}”** [1]")
    true_count = false_count = 0
    for number, (passages, true, false) in enumerate(quotations(100)):
        mark = marks[number % len(marks)]
        for text, is_true in ((true, True), (false, False)):
            found = check_quotations("It says so:\n\n" + mark.format(text), passages)
            assert len(found) == 1, (text, found)
            is_verbatim = found[0].status in ("verbatim", "misattributed")
            assert is_verbatim is is_true, (text, found)
            true_count += is_true
            false_count += not is_true
    assert (true_count, false_count) == (100, 100)


PIECES = ["“", "”", '"', "the", "tower", " ", "\n", "> ", "[1]", "1889", ".", "…", "ß"]


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


@pytest.mark.parametrize("unit", ['"a b c d" ', "“", '"'])
def test_checking_takes_linear_time(unit):
    passages = [Passage("a b c d e f g. " * 10, "a")]

    def work(size):
        for cached_function in (fold_text, _parse_cached):
            cached_function.cache_clear()
        return lambda: check_quotations((unit * size)[:size], passages)

    assert slope(work, (2000, 4000, 8000)) < 1.6


def test_every_verdict_has_them_with_and_without_a_judge():
    answer = "It says “was completed in 1890”."
    for judge in (None, lambda question, evidence, claim: 1.0):
        verdict = check("When?", answer, PASSAGES, judge=judge)
        assert [q.status for q in verdict.quotations] == ["nowhere"]
