"""An answer is parsed before it is judged: total, linear, and every place is one of the answer."""

import json

import pytest
from growth import slope
from hypothesis import example, given, settings
from hypothesis import strategies as st

from denoise_core.support.answers import _parse_cached, parse_answer

PIECES = [
    *'*`\n{}"é\r\x00\\\t“”:ß\u2028İ',
    "**",
    "```",
    "```json\n",
    "\n\n",
    "- ",
    "1. ",
    "> ",
    "# ",
    "| ",
    " |",
    "|---|---|\n",
    "[1]",
    "[2, 3]",
    "](",
    "<think>",
    "</think>",
    '": ',
    "Yes, ",
    "No.",
    " the tower ",
    "1889",
    "中文。",
    "\r\n",
    "\\|",
    "&amp;",
    "<b>",
    "</b>",
    "  ",
    "? ",
    ". ",
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
def test_places_are_exact_for_any_text(answer):
    parsed = parse_answer(answer, "Was the tower completed in 1889?")
    last = 0
    for piece in parsed.units:
        assert last <= piece.start < piece.end <= len(answer)
        last = piece.end
        if piece.kind in ("reasoning", "code"):
            assert piece.text == answer[piece.start : piece.end]


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
    "Run `{} with\n{}` now. {}",  # code over a line break was judged by nobody
    "![{}\n{}](http://x.y/z) {}",
    "{}\n\n[{}]() {}",
]


@given(st.permutations(FORMS), st.integers(1, 3))
def test_each_word_of_an_answer_is_in_exactly_one_unit(forms, count):
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
def test_work_grows_with_the_length_alone(unit):
    assert (
        slope(
            lambda size: (
                lambda: _parse_cached.__wrapped__((unit * size)[:size], "", ())
            ),
            (2000, 4000, 8000),
        )
        < 1.6
    )


def kinds(answer, question=""):
    return [(p.kind, p.standalone_text) for p in parse_answer(answer, question).units]


def cited_texts(answer, unit):
    return [answer[start:end] for start, end in unit.citations]


def test_what_asserts_nothing_is_no_claim():
    for answer in (
        "Hello! How can I help you today?",
        "Could you tell me which tower you mean?",
        "<think>1889?</think>",
        "Sure! Let me know if you need anything else.",
    ):
        assert parse_answer(answer).units, answer
        assert not parse_answer(answer).claims, answer


def test_reasoning_is_not_what_is_sent():
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
        ("<td>It is in Paris.</td>", ["It is in Paris."]),
        ("<p>\n\nIt is in Paris.\n</p>", ["It is in Paris."]),
        ('<img alt="300 m">', ['<img alt="300 m">']),  # read by a person
        ("It is in Paris <since 1925>.", ["It is in Paris <since 1925>."]),
        ("| a <branch> |\n|---|\n| b<br>c |", ["a <branch>", "a <branch>: b c"]),
        ('It is <b class="x">in</B><BR/>Paris.', ["It is in Paris."]),
        ("```text\nIt is high. It is red.\n```", ["It is high.", "It is red."]),
        # Words are in normal form, and code is on one line.
        (
            "Cafe\u0301 “X” was com-\npleted\u200b.\n\n```\na = 1\n  b\n```",
            ['Café "X" was completed.', "a = 1 ⏎ b"],
        ),
    ],
)
def test_only_what_is_markup_is_hidden_from_a_judge(answer, shown_texts):
    units = parse_answer(answer).shown_units
    assert [unit.shown_text for unit in units] == shown_texts


def test_yes_and_no_are_claims_with_their_question():
    question = "Was the tower completed in 1890?"
    assert kinds("No. It was completed in 1889.", question) == [
        ("polarity", "Was the tower completed in 1890? No."),
        ("sentence", "It was completed in 1889."),
    ]
    assert kinds("No, it was 1889.", question)[0][0] == "polarity"
    fields = '{"answer": "No", "year": "1889"}'
    assert kinds(fields, question) == [
        ("polarity", "Was the tower completed in 1890? answer: No"),
        ("field", "year: 1889"),
    ]
    assert kinds('{"confidence": "No"}', question) == [("talk", "confidence: No")]
    assert kinds("Yes, it was.")[0][0] == "sentence"
    for answer in ("In 1889. No, in 1890.", "No single ship sank."):
        assert kinds(answer, question)[-1][0] == "sentence"


def test_rows_carry_their_columns_and_fields_their_path():
    table = "| Film | Year |\n|---|---|\n| *88:88* | 2015 [1] |\n| Sailor | |"
    assert kinds(table) == [
        ("lead", "Film; Year"),
        ("row", "Film: 88:88; Year: 2015"),
        ("row", "Film: Sailor"),
    ]
    row = parse_answer(table).claims[0]
    assert table[row.start : row.end] == "*88:88* | 2015 [1]"
    assert cited_texts(table, row) == ["[1]"]
    fields = '{"builtIn": {"year": 1889, "by": "Caf\\u00e9 \\"X\\" & Co"}, "confidence": 0.9, "open": null}'
    reply = f"```json\n{fields}\n```"
    assert kinds(reply) == [
        ("field", "built In: year: 1889"),
        ("field", 'built In: by: Café "X" & Co'),
        ("talk", "confidence: 0.9"),
        ("talk", "open: null"),
    ]
    assert len(parse_answer(reply).shown_units) == 4


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
def test_a_number_alone_is_a_claim_and_no_list(answer, units):
    """Nobody judged "1889.": Markdown reads it as the number of an empty item."""
    assert [p.text for p in parse_answer(answer, "When?").claims] == units


def test_a_list_carries_the_line_before_it():
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
    assert cited_texts(answer, item) == ["[2]"]


def test_a_lead_that_nothing_follows_is_a_claim():
    answer = "It is one of these:\n- a tower\n\nIt was built in 1889:\n\nThanks:"
    assert [p.kind for p in parse_answer(answer).units] == [
        "lead",
        "item",
        "sentence",
        "talk",
    ]


def test_names_of_passages_in_brackets_are_citations():
    for answer, expected in (("It is 1 [doc-7].", ["[doc-7]"]), ("It is 1 [sic].", [])):
        (claim,) = parse_answer(answer, ids=["doc-7"]).claims
        assert cited_texts(answer, claim) == expected


@pytest.mark.parametrize("place", ["[1](https://x.y/a.b).", "[1].\n\n[1]: a.b"])
def test_a_link_whose_text_is_a_citation_is_one(place):
    answer = f"It was 1889 {place}"
    (claim,) = parse_answer(answer).claims
    assert claim.text == "It was 1889."
    assert cited_texts(answer, claim) == ["[1]"]
    assert answer[claim.end :] in ("", "\n\n[1]: a.b")
