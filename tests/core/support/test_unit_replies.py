"""The reader of a judge's lines: many ways of writing them, and never more than they say."""

import pytest
from growth import slope
from hypothesis import given
from hypothesis import strategies as st

from denoise_core.support.unit_replies import UnitLine, read_unit_replies

SUPPORTED = UnitLine("supported", ("1.2", "3.1"))


@pytest.mark.parametrize(
    "line",
    [
        "2 supported 1.2 3.1",
        "2. Supported: 1.2, 3.1.",
        "- **2** supported [1.2] [3.1]",
        "[2] SUPPORTED (1.2; 3.1)",
        "* Unit 2: supported - evidence 1.2, 3.1",
        "2) supported 1.2; 3.1",
        "unit_2 supported 1.2 3.1",
        "Unit-2: supported-1.2, 3.1",
        "2 supported evidence_1.2 evidence-3.1",
        "```\n2 supported 1.2 3.1\n```",
        "<think>2 contradicted 1.1</think>\n2 supported 1.2 3.1",
    ],
)
def test_one_line_in_many_forms(line):
    assert read_unit_replies(line, [1, 2]).lines == {2: SUPPORTED}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('1 contradicted 1.4 "in 1899"', UnitLine("contradicted", ("1.4",), "in 1899")),
        ("1 not_stated “and twins”", UnitLine("not_stated", (), "and twins")),
        ("1: not stated", UnitLine("not_stated")),
        ("1 not-supported", UnitLine("not_stated")),
        ("1 unsupported because it is new", None),
        ("1 unsupported", UnitLine("not_stated")),
        ("1 no claim", UnitLine("no_claim")),
        ("1 supported 1.2-1.4", UnitLine("supported", ("1.2", "1.3", "1.4"))),
        ("1 supported 1.10", UnitLine("supported", ("1.10",))),
        ("1 supported 1.1783 1002.4", UnitLine("supported", ("1.1783", "1002.4"))),
        ("1 supported 1.1783-1.1790", UnitLine("supported", ("1.1783", "1.1790"))),
        ("1 supported 1.1 2023", None),
    ],
)  # fmt: skip
def test_each_verdict_with_labels_and_words(line, expected):
    assert read_unit_replies(line, [1]).lines.get(1) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "1",
        "supported 1.1",
        "1 supported by nothing",
        "1 not really supported 1.1",
        "1 supported, but the date 1.1",
        "1 supported 1.1 except the year",
        '1 supported 1.1 "only this"',
        "1 partly supported 1.1",
        "1.1 supported",
        "7 supported 1.1",
        "99999999999999999999 supported 1.1",
        "<think>1 supported 1.1",
        "1 isn't supported 1.1",
        "1 supported? no 1.1",
        "1 supported? 1.1",
        "1 no_claim 1.1 contradicted",
        '1 no_claim "in 1899" is wrong',
        "answers 1.1 but not what was asked",
        "answers?",
    ],
)
def test_what_is_not_a_whole_line_lets_nothing_pass(line):
    replies = read_unit_replies(line, [1])
    assert not replies.lines
    assert not replies.answer_kind


def test_of_two_lines_the_worse_counts_and_several_units_may_share_one():
    text = "1 supported 1.1\n2-4 supported 1.1\n1 contradicted 1.2\n2 unclear\nanswers\nabstains"
    replies = read_unit_replies(text, range(1, 5))
    verdicts = {n: line.verdict for n, line in sorted(replies.lines.items())}
    assert verdicts == {
        1: "contradicted",
        2: "unclear",
        3: "supported",
        4: "supported",
    }
    assert replies.answer_kind == "abstains"


@pytest.mark.parametrize(
    ("text", "kind", "labels"),
    [
        ("answers", "answers", ()),
        ("**Off question**", "off_question", ()),
        ("wrongly_abstains 1.3", "wrongly_abstains", ("1.3",)),
        ("the answer answers", "", ()),
        ("1 answers", "", ()),
    ],
)
def test_the_last_line(text, kind, labels):
    replies = read_unit_replies(text, [1])
    assert (replies.answer_kind, replies.labels) == (kind, labels)


PIECES = [*'12 _-"“\n{}:,²٣', "supported", "not", "1.1", "answers"]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text())
def test_any_text_is_read(text):
    replies = read_unit_replies(text, [1, 2])
    assert set(replies.lines) <= {1, 2}


@pytest.mark.parametrize(
    "unit", ["1 supported 1.1\n", '"', "1", "1-", "{", "supported "]
)
def test_reading_takes_linear_time(unit):
    def read(size):
        return lambda: read_unit_replies(unit * (size // len(unit)), [1])

    assert slope(read, (4000, 8000, 16000)) < 1.6
