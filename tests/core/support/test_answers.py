"""An answer is parsed before it is judged: total, linear, and every place is one of the answer."""

import json

import pytest
from growth import slope
from hypothesis import example, given, settings
from hypothesis import strategies as st

from denoise_core.support.answers import _parse_cached, parse_answer

PIECES = [
    *(
        "**",
        "*",
        "`",
        "```",
        "```json\n",
        "\n",
        "\n\n",
        "- ",
        "1. ",
        "> ",
        "# ",
        "| ",
        " |",
        "|---|---|\n",
        "[1]",
    ),
    *(
        "[2, 3]",
        "](",
        "<think>",
        "</think>",
        "{",
        "}",
        '"',
        '": ',
        "Yes, ",
        "No.",
        " the tower ",
        "1889",
        "é",
    ),
    *(
        "中文。",
        "\r\n",
        "\r",
        "\x00",
        "\\",
        "\\|",
        "&amp;",
        "<b>",
        "</b>",
        "  ",
        "\t",
        "“",
        "”",
        ":",
        "? ",
        ". ",
    ),
    *("ß", "\u2028", "İ"),
]
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=100)
@given(st.one_of(MARKDOWN, st.text(max_size=200), JSON.map(json.dumps)))
@example(
    answer="It was <think>so</think> in 1889."
)  # a sentence does not go on behind reasoning
@example(answer="```json\n**<think></think>**")  # nor code
@example(answer="|---|---|\n|---|---|\n| ")  # a row without a cell
@example(answer="```json\n```**")  # a fence with nothing in it claims nothing
def test_places_are_exact_for_any_text(answer: str) -> None:
    parsed = parse_answer(answer, "Was the tower completed in 1889?")
    last = 0
    for piece in parsed.units:
        assert last <= piece.start < piece.end <= len(answer)
        last = piece.end
        if piece.kind in ("reasoning", "code"):
            assert piece.text == answer[piece.start : piece.end]
            continue


@given(
    st.recursive(
        st.integers(10, 99),
        lambda inner: st.lists(inner, min_size=1, max_size=4),
        max_leaves=12,
    )
)
def test_each_value_of_json_is_found_at_its_place(value: object) -> None:
    written_text = json.dumps({"value": value}, indent=1)
    results = [written_text[p.start : p.end] for p in parse_answer(written_text).claims]
    first, *others = json.dumps(value).translate(str.maketrans("[],", "   ")).split()
    assert results[0].startswith('value"')
    assert results[0].endswith(first)
    assert results[1:] == others


FORMS = [
    "{}. {}! {}?",
    "# {}\n\n{} and {}",
    "- {}\n- {}\n  - {}",
    "1. {}. {}\n2. {}",
    "| {} | {} |\n|---|---|\n| {} | x |",
    "> {}\n> {}\n\n{}",
    "```python\n{}\n\n{}\n```\n{}",
    "**{}** [1], *{}* `{}` [2].",
    "Based on {}, {}: {}",
    "Yes, {}. Let me know, {}! {}",
    "<think>{} {}</think>{}",
    "[{}](http://x.y/z) {} ~~{}~~",
    "[ref]: http://x.y '{}'\n\n{}\n\n{}",
    "<b>{}</b><br>{}\n{}",
    "{}\n===\n{}\n---\n{}",
    "    {}\n\n***\n\n{}\\\n{}",
    '{{"{}": "{}", "b": {{"c": ["{}"]}}}}',
    '```json\n{{"score": "{}", "a": "{}. {}"}}\n```',
    "Term\n: {}\n\n[^1]: {}\n\n{}",
]


@given(st.permutations(FORMS), st.integers(1, 3))
def test_each_word_of_an_answer_is_in_exactly_one_unit(forms, count) -> None:
    words = [f"word{n}x" for n in range(3 * count)]
    blocks = []
    for number, form in enumerate(forms[:count]):
        blocks.append(form.format(*words[3 * number : 3 * number + 3]))
    answer = "\n\n".join(blocks)
    units = parse_answer(answer, "Is it so?").units
    for word in words:
        position = answer.index(word)
        holders = [unit for unit in units if unit.start <= position < unit.end]
        assert len(holders) == 1, (word, answer, units)
        assert word in holders[0].shown_text or holders[0].kind == "reasoning"


@pytest.mark.parametrize(
    "unit",
    [
        "**a** ",
        "[1] ",
        "- x\n",
        "| a | b |\n",
        '"',
        "“a” ",
        "<think>",
        "`",
        "Yes. ",
        "(((",
        "> ",
        "\\u00e9",
    ],
)
def test_work_grows_with_the_length_alone(unit: str) -> None:
    assert (
        slope(
            lambda size: (
                lambda: _parse_cached.__wrapped__((unit * size)[:size], "", ())
            ),
            (2000, 4000, 8000),
        )
        < 1.6
    )


def kinds(answer: str, question: str = "") -> list[tuple[str, str]]:
    return [(p.kind, p.standalone_text) for p in parse_answer(answer, question).units]


def test_what_asserts_nothing_is_no_claim() -> None:
    for answer in (
        "Hello! How can I help you today?",
        "Could you tell me which tower you mean?",
        "<think>1889?</think>",
        "Sure! Let me know if you need anything else.",
    ):
        assert parse_answer(answer).units, answer
        assert not parse_answer(answer).claims, answer


def test_reasoning_is_not_what_is_sent() -> None:
    parsed = parse_answer("<think>Maybe 1890?</think>\nIt was completed in 1889.")
    assert [p.kind for p in parsed.units] == ["reasoning", "sentence"]
    assert parsed.text_without_reasoning == "It was completed in 1889."
    assert (
        parse_answer("so it was 1890.</think>It was 1889.").text_without_reasoning
        == "It was 1889."
    )
    assert not parse_answer("<think>It was 18").claims


@pytest.mark.parametrize(
    ("answer", "shown_texts"),
    [
        (
            "It was 1925. Write `</think>` last.",
            ["It was 1925.", "Write last."],
        ),
        ("Write `<think>`. It was 1925.", ["Write <think>.", "It was 1925."]),
        ("It is <not> in Paris.", ["It is <not> in Paris."]),
        ("It is in Paris <since 1925>.", ["It is in Paris <since 1925>."]),
        ("| a <branch> |\n|---|\n| b<br>c |", ["a <branch>", "a <branch>: b c"]),
        ('It is <b class="x">in</B><BR/>Paris.', ["It is in Paris."]),
    ],
)
def test_only_what_is_markup_is_hidden_from_a_judge(answer, shown_texts) -> None:
    units = parse_answer(answer).shown_units
    assert [unit.shown_text for unit in units] == shown_texts


def test_yes_and_no_are_claims_with_their_question() -> None:
    question = "Was the tower completed in 1890?"
    assert kinds("No. It was completed in 1889.", question) == [
        ("polarity", "Was the tower completed in 1890? No."),
        ("sentence", "It was completed in 1889."),
    ]
    assert kinds("No, it was 1889.", question)[0][0] == "polarity"
    assert kinds("Yes, it was.")[0][0] == "sentence"
    assert kinds("In 1889. No, in 1890.", question)[1][0] == "sentence"
    assert kinds("No single ship sank.", question) == [
        ("sentence", "No single ship sank.")
    ]


def test_rows_carry_their_columns_and_fields_their_path() -> None:
    table = "| Film | Year |\n|---|---|\n| *88:88* | 2015 [1] |\n| Sailor | |"
    assert kinds(table) == [
        ("lead", "Film; Year"),
        ("row", "Film: 88:88; Year: 2015"),
        ("row", "Film: Sailor"),
    ]
    row = parse_answer(table).claims[0]
    assert table[row.start : row.end] == "*88:88* | 2015 [1]"
    assert [table[a:b] for a, b in row.citations] == ["[1]"]
    fields = '{"builtIn": {"year": 1889, "by": "Caf\\u00e9 \\"X\\" & Co"}, "confidence": 0.9, "open": null}'
    reply = f"```json\n{fields}\n```"
    assert kinds(reply) == [
        ("field", "built In: year: 1889"),
        ("field", 'built In: by: Café "X" & Co'),
        ("talk", "confidence: 0.9"),
        ("talk", "open: null"),
    ]
    assert len(parse_answer(reply).shown_units) == 4


def test_what_is_shown_is_in_normal_form_and_of_code_on_one_line() -> None:
    answer = "Cafe\u0301 “X” was com-\npleted\u200b.\n\n```\na = 1\n  b\n```"
    shown = [unit.shown_text for unit in parse_answer(answer).shown_units]
    assert shown == ['Café "X" was completed.', "a = 1 ⏎ b"]


@pytest.mark.parametrize(
    ("answer", "units"),
    [
        ("1889.", ["1889"]),
        ("12.", ["12."]),
        ("1889. It is high.", ["1889", "It is high."]),
        ("1. It is high.", ["It is high."]),
        ("It is high.\n\n[1] [2]", ["It is high."]),
    ],
)
def test_a_number_alone_is_a_claim_and_no_list(answer, units) -> None:
    """Nobody judged "1889.": Markdown reads it as the number of an empty item."""
    assert [p.text for p in parse_answer(answer, "When?").claims] == units


def test_a_list_carries_the_line_before_it() -> None:
    answer = (
        "It comes in two kinds:\n\n- a lager\n- **a dark** [2]\n\nBoth are exported."
    )
    assert kinds(answer) == [
        ("lead", "It comes in two kinds:"),
        ("item", "It comes in two kinds: a lager"),
        ("item", "It comes in two kinds: a dark"),
        ("sentence", "Both are exported."),
    ]
    item = parse_answer(answer).claims[1]
    assert [answer[a:b] for a, b in item.citations] == ["[2]"]


def test_a_lead_that_nothing_follows_is_a_claim() -> None:
    answer = "It is one of these:\n- a tower\n\nIt was built in 1889:\n\nThanks:"
    assert [p.kind for p in parse_answer(answer).units] == [
        "lead",
        "item",
        "sentence",
        "talk",
    ]


def test_a_fence_of_text_is_read_as_an_answer() -> None:
    answer = "```text\nIt is high. It is red.\n```"
    shown = ["It is high.", "It is red."]
    assert [p.text for p in parse_answer(answer).claims] == shown


def test_names_of_passages_in_brackets_are_citations() -> None:
    assert [
        p.citations for p in parse_answer("It was 1889 [doc-7].", ids=["doc-7"]).claims
    ] == [((12, 19),)]
    assert [p.citations for p in parse_answer("It was 1889 [sic].").claims] == [()]
