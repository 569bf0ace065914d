"""Chunks tile any text, have the context they need, and are restored to the text's shape."""

import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kept_texts import Keeping
from laws import check_tiling

from denoise_core import InputError, Passage
from denoise_core.end import ENDDenoiser
from denoise_core.spans import join_spans
from denoise_core.testing import FunctionScorer, check_denoiser
from denoise_core.text.structural import (
    chunk_text,
    structural_chunker,
)
from denoise_core.text.tree_records import count_empty_values, load_yaml_nodes
from denoise_core.tool_results import read_result

MARKDOWN = """# Hotel Sun

Open from May.

## Rooms

Every room has a bed. It costs 80 euros.

- with breakfast
- with a view
  and a chair

To book, run:

```sh
book --room

book --pay
```

### Prices

| room | euros |
|---|---|
| single | 80 |
| double | 120 |

## Pool

The pool opens at nine.
"""

PAGE = """<!doctype html><html><head><title>T</title><style>p{}</style></head><body><nav><a href="/">Home</a></nav>
<h1>Returns</h1><p>The customer pays for the <b>return</b> label.</p>
<h2>Prices</h2><table><tr><th>Country</th><th>Cost</th></tr><tr><td>Ireland</td><td>3 euro</td></tr></table>
<ul><li>One</li><li>Two <em>and</em> a half</li></ul><script>let p = "<p>no</p>";</script></body></html>
"""

MAIL = """From: Ada
To: Bo
Date: Thu, 17 Apr
Subject: Hall

The hall is booked.

Ada

> On Wed, Bo wrote:
>
> How many chairs?
>
>> On Mon, Ada wrote:
>>
>> Which hall?
"""

LOG = "".join(
    f"2031-08-19T22:0{n}:32Z INFO  [labels] printed {n} labels\n" for n in range(9)
).replace("printed 4 labels\n", "printed 4 labels\n  Traceback\n    at line 3\n")

TALK = """Transcript of tape 3.

[00:00:04] Interviewer: What did you wear?
[00:00:20] Marit Aune: My good coat.
[00:00:40] Interviewer: And the boss?
[00:00:54] Marit Aune: He was away.
[00:01:14] Interviewer: How did it end?
[00:01:25] Marit Aune: With fans.
"""

CODE = "import os\n\n\n" + "\n\n".join(
    f"def f{n}(a):\n    if a:\n        return os.path(a)\n\n    for b in a:\n        print(b)\n    return {n}"
    for n in range(4)
)

TABLE = 'code,item,"price, net"\nA1,Hex bolt,3.10\nA2,"Nut, lock\nlong",1.05\nA3,Washer,0.85\n'

RECORDS = {
    "count": 2,
    "next": "abc",
    "results": [
        {"id": 1, "title": "Boats", "note": "Extended until 19 June"},
        {"id": 2, "title": "Cars \u00e9\n", "note": 'half "of" it'},
    ],
    "log": "First line of it, which is long enough. " * 12
    + "\n\n"
    + "Second \U0001f600 paragraph, also quite long. " * 12,
}

SAMPLES = {
    "markdown": MARKDOWN,
    "page": PAGE,
    "mail": MAIL,
    "log": LOG,
    "talk": TALK,
    "code": CODE,
    "table": TABLE,
    "json": json.dumps(RECORDS, indent=2),
    "escaped": json.dumps(RECORDS),
    "lines": "\n".join(json.dumps({"id": n, "said": "x" * n}) for n in range(5)),
}
KINDS = {
    "markdown": "text",
    "page": "html",
    "mail": "text",
    "log": "entries",
    "talk": "entries",
    "code": "code",
    "table": "csv",
    "json": "json",
    "escaped": "json",
    "lines": "jsonl",
}

SCRAPS = st.lists(
    st.sampled_from(
        [
            *(
                line
                for text in (MARKDOWN, PAGE, MAIL, LOG, TALK, TABLE)
                for line in text.split("\n")
            ),
            *(
                "{",
                "}",
                "[1,",
                '"a": 2',
                "<p",
                "<!--",
                "\t",
                "\r",
                "```",
                "word " * 200,
                "a" * 3000,
                "\u2028",
            ),
        ]
    ),
    max_size=50,
).map("\n".join)


PARTS = st.builds(
    lambda name, start, end: SAMPLES[name][start:end],
    st.sampled_from(sorted(SAMPLES)),
    st.integers(0, 900),
    st.integers(0, 2000),
)


def read_chunk(text, phrase):
    """Context and text of the scored chunk that contains a phrase."""
    chunked_text = chunk_text(text)
    return next(
        chunked_text.chunk_context_and_text(chunk)
        for chunk in chunked_text.chunks
        if not chunk.is_structural
        and phrase in chunked_text.chunk_context_and_text(chunk)[1]
    )


def raw_texts(text):
    return [
        text[chunk.start : chunk.end].strip()
        for chunk in chunk_text(text).chunks
        if not chunk.is_structural
    ]


@given(
    st.one_of(
        st.text(),
        SCRAPS,
        PARTS,
        st.recursive(st.text() | st.integers(), st.lists).map(json.dumps),
    )
)
@example("# Alone\n" * 200)
@example("a" * 5000)
@example("\r\n".join(["a,b"] * 9))
@example('{"a": "\\ud83d\\ude00 \\u00e9"}')
@example("[" * 3000)
def test_chunks_tile_any_text_and_their_context_is_inside_it(text):
    passage = Passage(text, "p")
    check_tiling(passage, structural_chunker(passage))
    chunked_text = chunk_text(text)
    for chunk in chunked_text.chunks:
        assert all(0 <= start < end <= len(text) for start, end in chunk.context_spans)
        assert all(
            0 <= start < end <= len(text)
            for start, end in chunked_text.context_ranges(*chunk.span)
        )
        part_spans = chunked_text.split_chunk(chunk)
        assert [part_spans[0][0], part_spans[-1][1]] == [chunk.start, chunk.end]
        assert all(start[1] == end[0] for start, end in pairwise(part_spans))
    assert not text.strip() or any(
        not chunk.is_structural for chunk in chunked_text.chunks
    )


def test_every_format_is_known():
    formats = {name: chunk_text(text).text_format for name, text in SAMPLES.items()}
    assert formats == KINDS


def test_markdown_is_cut_at_headings_paragraphs_items_rows_and_its_code_stays_whole():
    assert raw_texts(MARKDOWN) == [
        "Open from May.",
        "Every room has a bed. It costs 80 euros.",
        "- with breakfast",
        "- with a view\n  and a chair",
        "To book, run:\n\n```sh\nbook --room\n\nbook --pay\n```",
        "| single | 80 |",
        "| double | 120 |",
        "The pool opens at nine.",
    ]
    assert read_chunk(MARKDOWN, "120")[0].split("\n") == [
        "# Hotel Sun",
        "## Rooms",
        "### Prices",
        "| room | euros |",
        "|---|---|",
    ]
    assert read_chunk(MARKDOWN, "nine")[0] == "# Hotel Sun\n## Pool"


def test_html_is_cut_in_the_raw_text_and_read_without_tags():
    assert read_chunk(PAGE, "return label") == (
        "Returns",
        "The customer pays for the return label.",
    )
    assert read_chunk(PAGE, "Ireland") == (
        "Returns\nPrices\nCountry | Cost",
        "Ireland | 3 euro",
    )
    assert "<li>Two <em>and</em> a half</li>" in raw_texts(PAGE)
    assert not any(
        "Home" in raw_text or "let p" in raw_text or "p{}" in raw_text
        for raw_text in raw_texts(PAGE)
    )


def test_a_reply_has_its_author_as_context_and_each_quote_its_own():
    assert "Subject: Hall" in read_chunk(MAIL, "is booked")[0]
    assert read_chunk(MAIL, "chairs")[0] == "> On Wed, Bo wrote:\n>"
    assert read_chunk(MAIL, "Which hall")[0] == ">> On Mon, Ada wrote:\n>>"


def test_an_entry_has_the_lines_that_follow_it_and_an_answer_the_question_before():
    assert len(raw_texts(LOG)) == 9
    assert any(raw_text.endswith("at line 3") for raw_text in raw_texts(LOG))
    assert (
        read_chunk(TALK, "good coat")[0]
        == "Transcript of tape 3.\n[00:00:04] Interviewer: What did you wear?"
    )


def test_rows_of_csv_are_read_with_their_names_and_may_run_over_lines():
    assert (
        read_chunk(TABLE, "lock")[1]
        == "code: A2; item: Nut, lock\nlong; price, net: 1.05"
    )
    assert raw_texts(TABLE)[1] == 'A2,"Nut, lock\nlong",1.05'
    kept_start = TABLE.index("A3")
    retained_spans = chunk_text(TABLE).retained_spans([(kept_start, kept_start + 5)])
    assert join_spans(TABLE, retained_spans).startswith('code,item,"price, net"\nA3')


def test_a_value_that_is_neither_text_nor_json_is_an_error():
    with pytest.raises(
        InputError,
        match="expected a text, bytes, or a list or dict that JSON holds, got object",
    ):
        chunk_text(object())


def test_a_kept_chunk_keeps_its_heading_and_the_antecedent_of_its_pronoun():
    denoiser = ENDDenoiser(
        FunctionScorer(lambda query, chunk_text_: float("nine" in chunk_text_)),
        keep=1,
        chunker="auto",
    )
    text = MARKDOWN.replace("The pool opens", "The pool is warm.\n\nIt opens")
    kept_passage = denoiser.denoise("when?", [Passage(text, "p")]).passages[0]
    assert kept_passage.text == (
        "# Hotel Sun\n\n## Pool\n\nThe pool is warm.\n\nIt opens at nine.\n"
    )


THREAD = """From: Ada <ada@mill.example>
To: Bo <bo@mill.example>
Date: Mon, 3 Feb 2031
Subject: Hall

Is the hall free on 21 March?

Ada

-----------------
From: Bo <bo@mill.example>
To: Ada <ada@mill.example>
Cc: Cy <cy@mill.example>
Date: Tue, 4 Feb 2031
Subject: RE: Hall

It is, at 40 euros.

Bo
"""


def test_a_kept_part_of_a_mail_says_who_wrote_it_when_and_about_what():
    assert kept_with(THREAD, "40 euros") == (
        "From: Bo <bo@mill.example>\nDate: Tue, 4 Feb 2031\nSubject: RE: Hall\n\n"
        "It is, at 40 euros.\n\n"
    )


@pytest.mark.parametrize("count", [2, 3, 4])
def test_short_mails_keep_their_own_sender(count):
    """The names of their fields repeat as speakers do."""
    names = ["Ada", "Bo"]
    facts = ["The oak is cut.", "Rent is due.", "We meet at nine.", "Bring shoes."]
    mails = []
    for number in range(count):
        mails.append(
            f"From: {names[number % 2]} <a@mill.example>\nTo: all@mill.example\n"
            f"Date: {number + 1} Feb 2031\nSubject: Hall\n\n{facts[number]}\n\n"
        )
    for number in range(count):
        kept_text = kept_with("".join(mails), facts[number])
        assert kept_text.startswith(f"From: {names[number % 2]} <")
        assert kept_text.count("From:") == 1
        assert f"Date: {number + 1} Feb" in kept_text


def test_a_turn_with_a_date_keeps_what_it_answers():
    turns = (
        "[2031-02-19 09:14] Bo: nice weather",
        "[2031-02-19 09:15] Ada: who pays for the hose?",
        "[2031-02-19 09:16] Bo: they do",
        "[2031-02-19 09:17] Bo: but give them 20 m",
        "[2031-02-19 09:18] Ada: fine",
    )
    kept_text = kept_with("\n".join(turns), "20 m")
    assert kept_text == "\n".join(turns[1:4]) + "\n"


CHAT = (
    "[09:12] Mara: how many crates came in warm last night?",
    "[09:30] Petra: four, all from the rear third",
    "[09:30] Petra: quality has them",
    "[09:31] Mara: fine",
    "[09:40] Tom: lunch at the van?",
    "[09:41] Petra: on my way",
    "[09:55] Mara: the van is at http://van.example/day?where=hall today",
    "[09:58] Petra: thanks",
)


@pytest.mark.parametrize(
    ("asked", "kept_turns"),
    [
        ("how many crates", CHAT[:3]),  # all that she answers
        ("lunch", CHAT[3:6]),  # a turn also keeps what it may answer
        ("today", CHAT[5:7]),  # a question mark in an address asks nothing
    ],
)
def test_a_question_in_a_chat_keeps_the_answer_of_somebody_else(asked, kept_turns):
    kept_text = kept_with("\n".join(CHAT), asked)
    assert kept_text.splitlines() == list(kept_turns)


def test_a_chat_without_times_is_no_yaml():
    turns = ("Ada: who pays?", "Bo: they do", "Ada: all of it?", "Bo: yes") * 2
    assert chunk_text("\n".join(turns)).text_format == "entries"
    fields = "\n".join(f"field_{n}: value" for n in range(8))
    assert chunk_text(fields).text_format == "yaml"


def test_a_question_without_an_answer_keeps_nothing_more():
    turns = ["Ada: who pays?", *[f"Ada: note {n}" for n in range(4)], "Bo: fine"]
    assert kept_with("\n".join([*turns, "Bo: yes"]), "who pays") == turns[0] + "\n"


def test_a_long_chat_keeps_answers_too():
    """Its chunks hold several turns each."""
    turns = []
    for number in range(400):
        turns.append(f"Ada: where is box {number}?\nBo: shelf {number}\n")
    text = "".join(turns)
    longest_chunk = max(chunk.length for chunk in chunk_text(text).chunks)
    assert longest_chunk > 2 * len(turns[0])
    for number in range(0, 400, 7):
        assert f"shelf {number}\n" in kept_with(text, f"box {number}?")


def test_the_level_of_a_log_entry_is_nobody_who_speaks():
    entries = []
    for second in range(8):
        level = ("INFO", "ERROR")[second % 2]
        entries.append(f"2031-08-19 22:00:0{second} {level}: step {second} is done\n")
    assert kept_with("".join(entries), "step 5") == entries[5]


def test_a_markdown_page_with_much_indented_code_is_no_code():
    code_lines = "".join(f"  key_{n}: {n},\n" for n in range(9))
    text = f"# Reference\n\n## Buffer\n\n```yaml\nbuffer:\n{code_lines}```\n"
    assert chunk_text(text).text_format == "text"
    assert kept_with(text, "key_3") == text


def test_a_long_text_without_a_title_keeps_the_sentence_that_opens_it():
    opening = "These rules hold for the car park. "
    paragraphs = [f"Point {n} is about another thing. " * 9 for n in range(8)]
    text = "\n\n".join([opening + paragraphs[0], *paragraphs[1:]])
    assert kept_with(text, "Point 6") == f"{opening}{paragraphs[6]}\n\n"


def test_a_first_line_above_a_heading_is_the_title():
    text = "Handover book\n\nNight of 4 May\n\nBed 2 slept.\n\nDay of 5 May\n\nBed 9 ate.\n"
    assert kept_with(text, "Bed 9") == "Handover book\n\nDay of 5 May\n\nBed 9 ate.\n"


MINUTES = """# Council

## 14 January

*D-25-01: Two shifts from 1 March.*

*D-25-02: The stock is 300 pieces.*

## 11 February

*D-25-09 replaces D-25-01: The second shift starts on 1 April.*

Nothing else was said.
"""


def test_a_later_part_that_names_the_same_decision_comes_with_its_date():
    assert kept_with(MINUTES, "1 March") == MINUTES.replace(
        "*D-25-02: The stock is 300 pieces.*\n\n", ""
    ).replace("Nothing else was said.\n", "")
    assert kept_with(MINUTES, "300 pieces") == (
        "# Council\n\n## 14 January\n\n*D-25-02: The stock is 300 pieces.*\n\n"
    )
    often_named = MINUTES.replace("Nothing else", "Of D-25-01 nothing else")
    assert "1 April" not in kept_with(often_named, "1 March")


def kept_with(text, phrase):
    """The text kept with the one chunk that holds the phrase."""
    scorer = FunctionScorer(lambda query, chunk_text_: float(phrase in chunk_text_))
    denoiser = ENDDenoiser(scorer, keep=1, chunker="auto")
    return denoiser.denoise("q", [Passage(text, "p")]).passages[0].text


def test_the_scorer_reads_a_chunk_with_its_heading_and_header():
    scorer_inputs = []
    scorer = FunctionScorer(
        lambda query, chunk_text_: scorer_inputs.append(chunk_text_) or 0.0
    )
    ENDDenoiser(scorer, keep=1, chunker="auto").denoise(
        "q", [Passage(MARKDOWN, "p", header="Guide")]
    )
    assert all(
        chunk_text_.startswith("Guide\n# Hotel Sun\n") for chunk_text_ in scorer_inputs
    )


@given(SCRAPS, SCRAPS)
def test_laws_hold_with_chunks_and_headers(first_text, second_text):
    passages = [Passage(first_text, "a", header="Title"), Passage(second_text, "b")]
    check_denoiser(
        lambda: ENDDenoiser(
            FunctionScorer(lambda query, chunk_text_: float(len(chunk_text_) % 7)),
            keep=0.4,
            chunker="auto",
        ),
        "q",
        passages,
    )


def test_a_rule_between_records_ends_them_and_their_fields_are_no_speakers():
    record_template = (
        "[{0}] Town {0}\nURL: https://a.example/{0}\n"
        "Snippet: In town {0} it rains, and the harbour is old.\n"
    )
    text = "Found 6 results\n\n" + "---\n".join(
        record_template.format(n) for n in range(6)
    )
    chunked_text = chunk_text(text)
    assert chunked_text.text_format == "text"
    assert [
        n
        for n in range(6)
        if sum(
            f"Town {n}" in text[chunk.start : chunk.end]
            for chunk in chunked_text.chunks
        )
        == 1
    ] == [*range(6)]
    assert all(
        text[chunk.start : chunk.end].count("Snippet") < 2
        for chunk in chunked_text.chunks
    )


def test_records_inside_a_long_record_are_chunks():
    hour_records = [
        {
            "time": f"2026-10-10T{hour:02}:00",
            "gust_kmh": 30.5 + hour,
            "summary": "windy with rain",
        }
        for hour in range(14)
    ]
    chunked_text = chunk_text(
        {
            "daily": [
                {"date": f"2026-10-{day}", "hours": hour_records} for day in (10, 11)
            ]
        }
    )
    assert sum(chunk.path[-2:-1] == ("hours",) for chunk in chunked_text.chunks) == 28


def cut(value, kept_text):
    tool_result = read_result(value)
    start = tool_result.passages[0].text.index(kept_text)
    denoiser = Keeping(lambda text: [(start, start + 4)])
    return tool_result.reduce(denoiser.denoise("q", tool_result.passages)).value


def test_kept_json_is_spelled_as_in_the_source():
    long_row = '{"t": "' + "x" * 99 + '"}'
    kept_row = '{"t": "\\u00e9\\/"}'
    head = '{"a": 1.50, "a": 2e2, "rows": ['
    restored_text = cut(f"{head}{long_row}, {kept_row}, {long_row}]}}", kept_row)
    assert restored_text.startswith(head)
    assert kept_row in restored_text
    assert "xx" not in restored_text


def test_keys_and_rows_keep_the_types_that_json_does_not_have():
    value = {1: (1, 2), "1": [{"t": "x" * 99}, {"t": "y"}], None: "z"}
    restored_value = cut(value, '{"t": "y"}')
    note = {"left_out": "1 of 2 items shown; 1 left out"}
    assert restored_value == {1: (1, 2), "1": [note, {"t": "y"}], None: "z"}
    assert restored_value[1] is value[1]


def test_a_line_separator_in_a_cell_begins_no_row():
    text = "id,place\n" + "".join(f"{n},town\u2028{n}\n" for n in range(4))
    assert raw_texts(text) == [f"{n},town\u2028{n}" for n in range(4)]


def test_long_code_without_indentation_has_no_empty_context():
    """The context was the empty range before the unit."""
    calls = "\n".join(f"call_{n}(first_argument, second_argument)" for n in range(50))
    text = f"{CODE}\n\n{CODE}\n\n{CODE}\n\n{calls}\n"
    chunked_text = chunk_text(text)
    assert chunked_text.text_format == "code"
    last_chunks = [c for c in chunked_text.chunks if c.start > text.index("call_1(")]
    assert len(last_chunks) > 1
    assert not any(chunk.context_spans for chunk in last_chunks)


YAML_ROWS = "".join(f"  - name: n{n}\n    size: {n}\n" for n in range(4))


@pytest.mark.parametrize(
    "text",
    [
        f"rows: &rows\n{YAML_ROWS}loop: &loop\n  me: *loop\n",
        f"rows: &rows\n{YAML_ROWS}again: *rows\n",
        "a0: &a0\n  x: 1\n"
        + "".join(f"a{n + 1}: &a{n + 1}\n  x: *a{n}\n  y: *a{n}\n" for n in range(40)),
    ],
    ids=["cyclic", "a list twice", "chain"],
)
def test_yaml_with_an_alias_is_chunked_by_its_lines(text):
    chunked = chunk_text(text)
    check_tiling(Passage(text, "x"), structural_chunker(Passage(text, "x")))
    assert chunked.text_format != "yaml"
    assert load_yaml_nodes(text) is None
    assert count_empty_values(text) is None
    assert load_yaml_nodes(text.replace("*", "")) is not None


@pytest.mark.parametrize("depth", [20, 3000])
def test_xml_of_any_depth_is_chunked(depth):
    records = "".join(f"<row id='{n}'>town {n}</row>" for n in range(4))
    text = "<a>" * depth + records + "</a>" * depth
    chunked = chunk_text(text)
    check_tiling(Passage(text, "x"), structural_chunker(Passage(text, "x")))
    assert chunked.text_format == "xml"
    assert [c.display_text for c in chunked.scored_chunks] == [
        f"town {n}" for n in range(4)
    ]


def test_the_numbered_header_of_each_page_is_the_heading_of_its_page():
    """Of a PDF: short paragraphs that differ only in a number that counts up."""
    pages = []
    for number, word in enumerate(("one", "two", "three"), 4):
        rule = f"Rule {word} says that guests pay at the desk."
        pages.append(f"Manual of the Sun hotel. Page {number}.\n\n{rule}")
    text = "\n\n".join(pages)
    assert read_chunk(text, "two")[0] == "Manual of the Sun hotel. Page 5."
    assert raw_texts(text) == [page.split("\n\n")[1] for page in pages]
    unnumbered = text.replace(
        "Page 5", "Page 9"
    )  # no pages: the numbers do not count up
    assert len(raw_texts(unnumbered)) == 6
