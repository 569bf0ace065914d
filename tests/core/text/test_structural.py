"""Chunks tile any text, have the context they need, and are restored to the text's shape."""

import json
from itertools import pairwise

import pytest
from growing_texts import numbered_texts
from hypothesis import example, given
from hypothesis import strategies as st
from kept_texts import Keeping
from laws import check_tiling

from denoise_core import InputError, Passage
from denoise_core.end import ENDDenoiser
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

# A text of each format.
SAMPLES = {
    "text": MARKDOWN,
    "html": PAGE,
    "entries": LOG,
    "code": CODE,
    "csv": TABLE,
    "json": json.dumps(RECORDS, indent=2),
    "jsonl": "\n".join(json.dumps({"id": n, "said": "x" * n}) for n in range(5)),
}
TEXTS = [*SAMPLES.values(), MAIL, TALK, json.dumps(RECORDS)]
LINES = "\n".join((MARKDOWN, PAGE, MAIL, LOG, TALK, TABLE)).split("\n")
MARKS = ["{", "}", "[1,", '"a": 2', "<p", "<!--", "\t", "\r", "```", "\u2028"]
LONG_LINES = ["word " * 200, "a" * 3000]
SCRAPS = st.lists(
    st.sampled_from(LINES + MARKS + LONG_LINES),
    max_size=50,
).map("\n".join)
PARTS = st.builds(
    lambda text, start, end: text[start:end],
    st.sampled_from(TEXTS),
    st.integers(0, 900),
    st.integers(0, 2000),
)


def read_chunk(text, phrase):
    """Context and text of the scored chunk that contains a phrase."""
    chunked = chunk_text(text)
    for chunk in chunked.scored_chunks:
        context, own_text = chunked.chunk_context_and_text(chunk)
        if phrase in own_text:
            return context, own_text
    raise AssertionError(f"no chunk holds {phrase!r}")


def raw_texts(text):
    chunked = chunk_text(text)
    return [text[chunk.start : chunk.end].strip() for chunk in chunked.scored_chunks]


def kept_with(text, phrase):
    """The text kept with the one chunk that holds the phrase."""
    scorer = FunctionScorer(lambda query, read_text: float(phrase in read_text))
    denoiser = ENDDenoiser(scorer, keep=1, chunker="auto")
    return denoiser.denoise("q", [Passage(text, "p")]).passages[0].text


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
@example(LOG)
@example(CODE)
def test_chunks_tile_any_text_and_their_context_is_inside_it(text):
    passage = Passage(text, "p")
    check_tiling(passage, structural_chunker(passage))
    chunked = chunk_text(text)
    for chunk in chunked.chunks:
        for start, end in (*chunk.context_spans, *chunked.context_ranges(*chunk.span)):
            assert 0 <= start < end <= len(text)
        parts = chunked.split_chunk(chunk)
        assert parts[0][0] == chunk.start
        assert parts[-1][1] == chunk.end
        for part, next_part in pairwise(parts):
            assert part[1] == next_part[0]
    assert chunked.scored_chunks or not text.strip()


def test_every_format_is_known():
    formats = [chunk_text(text).text_format for text in TEXTS]
    assert formats == [*SAMPLES, "text", "entries", "json"]


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


QUESTION = "Transcript of tape 3.\n[00:00:04] Interviewer: What did you wear?"
PAGES = [
    "Manual of the Sun hotel. Page 4.\n\nRule one says that guests pay at the desk.",
    "Manual of the Sun hotel. Page 5.\n\nRule two says that guests pay at the desk.",
    "Manual of the Sun hotel. Page 6.\n\nRule three says that guests pay at the desk.",
]


@pytest.mark.parametrize(
    ("text", "phrase", "context"),
    [
        (
            MARKDOWN,
            "120",
            "# Hotel Sun\n## Rooms\n### Prices\n| room | euros |\n|---|---|",
        ),
        (MARKDOWN, "nine", "# Hotel Sun\n## Pool"),
        (PAGE, "The customer pays for the return label.", "Returns"),
        (PAGE, "Ireland | 3 euro", "Returns\nPrices\nCountry | Cost"),
        (MAIL, "chairs", "> On Wed, Bo wrote:\n>"),
        (MAIL, "Which hall", ">> On Mon, Ada wrote:\n>>"),
        (TALK, "good coat", QUESTION),
        # Of a PDF: short paragraphs that differ only in a number that counts up.
        ("\n\n".join(PAGES), "two", "Manual of the Sun hotel. Page 5."),
    ],
)
def test_a_chunk_is_read_with_its_headings_header_author_or_question(
    text, phrase, context
):
    assert read_chunk(text, phrase)[0] == context


def test_html_is_cut_in_the_raw_text_and_read_without_tags():
    cut_texts = raw_texts(PAGE)
    assert "<li>Two <em>and</em> a half</li>" in cut_texts
    for unread in ("Home", "let p", "p{}"):
        assert unread not in "".join(cut_texts)


def test_an_entry_has_the_lines_that_follow_it_and_a_mail_its_subject():
    assert len(raw_texts(LOG)) == 9
    assert raw_texts(LOG)[4].endswith("at line 3")
    assert "Subject: Hall" in read_chunk(MAIL, "is booked")[0]


def test_the_numbered_header_of_each_page_is_no_text_of_its_own():
    text = "\n\n".join(PAGES)
    assert raw_texts(text) == [page.split("\n\n")[1] for page in PAGES]
    # No pages: the numbers do not count up.
    assert len(raw_texts(text.replace("Page 5", "Page 9"))) == 6


def test_rows_of_csv_are_read_with_their_names_and_may_run_over_lines():
    _, own_text = read_chunk(TABLE, "lock")
    assert own_text == "code: A2; item: Nut, lock\nlong; price, net: 1.05"
    assert raw_texts(TABLE)[1] == 'A2,"Nut, lock\nlong",1.05'


def test_a_value_that_is_neither_text_nor_json_is_an_error():
    with pytest.raises(
        InputError,
        match="expected a text, or a list or dict that JSON holds, got object",
    ):
        chunk_text(object())


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


MINUTES = """# Council

## 14 January

*D-25-01: Two shifts from 1 March.*

*D-25-02: The stock is 300 pieces.*

## 11 February

*D-25-09 replaces D-25-01: The second shift starts on 1 April.*

Nothing else was said.
"""


FACTS = ["The oak is cut.", "Rent is due.", "We meet at nine.", "Bring shoes."]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_short_mails_keep_their_own_sender(count):
    """The names of their fields repeat as speakers do."""
    mails = []
    for day, fact in enumerate(FACTS[:count], 1):
        sender = f"From: {'Ada' if day % 2 else 'Bo'} <a@mill.example>\n"
        date = f"Date: {day} Feb 2031\n"
        subject = "Subject: Hall\n\n"
        mails.append((sender, date, subject, f"{fact}\n\n"))
    text = "".join(
        f"{mail[0]}To: all@mill.example\n{''.join(mail[1:])}" for mail in mails
    )
    for mail, fact in zip(mails, FACTS, strict=False):
        assert kept_with(text, fact) == "".join(mail)


TURNS = """[2031-02-19 09:14] Bo: nice weather
[2031-02-19 09:15] Ada: who pays for the hose?
[2031-02-19 09:16] Bo: they do
[2031-02-19 09:17] Bo: but give them 20 m
[2031-02-19 09:18] Ada: fine
"""
LEVELS = """2031-08-19 22:00:00 INFO: step 0 is done
2031-08-19 22:00:01 ERROR: step 1 is done
2031-08-19 22:00:02 INFO: step 2 is done
2031-08-19 22:00:03 ERROR: step 3 is done
2031-08-19 22:00:04 INFO: step 4 is done
2031-08-19 22:00:05 ERROR: step 5 is done
"""
REFERENCE = """# Reference

## Buffer

```yaml
buffer:
  key_0: 0,
  key_1: 1,
  key_2: 2,
  key_3: 3,
  key_4: 4,
  key_5: 5,
  key_6: 6,
  key_7: 7,
  key_8: 8,
```
"""
BOOK = "Handover book\n\nNight of 4 May\n\nBed 2 slept.\n\nDay of 5 May\n\nBed 9 ate.\n"
OPENING = "These rules hold for the car park. "
POINTS = numbered_texts("Point {n} is about another thing. " * 9, 8)
POOL = MARKDOWN.replace("The pool opens", "The pool is warm.\n\nIt opens")


@pytest.mark.parametrize(
    ("text", "phrase", "kept_text"),
    [
        (
            POOL,
            "nine",
            "# Hotel Sun\n\n## Pool\n\nThe pool is warm.\n\nIt opens at nine.\n",
        ),
        (TABLE, "Washer", 'code,item,"price, net"\nA3,Washer,0.85\n'),
        (
            THREAD,
            "40 euros",
            "From: Bo <bo@mill.example>\nDate: Tue, 4 Feb 2031\nSubject: RE: Hall\n\n"
            "It is, at 40 euros.\n\n",
        ),
        (
            TURNS,
            "20 m",
            TURNS[TURNS.index("[2031-02-19 09:15") : TURNS.index("[2031-02-19 09:18")],
        ),
        # The level of an entry is nobody who speaks.
        (LEVELS, "step 5", "2031-08-19 22:00:05 ERROR: step 5 is done\n"),
        (REFERENCE, "key_3", REFERENCE),
        (OPENING + "\n\n".join(POINTS), "Point 6", f"{OPENING}{POINTS[6]}\n\n"),
        (BOOK, "Bed 9", "Handover book\n\nDay of 5 May\n\nBed 9 ate.\n"),
        (
            MINUTES,
            "1 March",
            MINUTES.replace("*D-25-02: The stock is 300 pieces.*\n\n", "").replace(
                "Nothing else was said.\n", ""
            ),
        ),
        (
            MINUTES,
            "300 pieces",
            "# Council\n\n## 14 January\n\n*D-25-02: The stock is 300 pieces.*\n\n",
        ),
    ],
)
def test_a_kept_chunk_comes_with_what_it_is_not_understood_without(
    text, phrase, kept_text
):
    assert kept_with(text, phrase) == kept_text


def test_a_decision_that_is_named_often_brings_nothing():
    text = MINUTES.replace("Nothing else", "Of D-25-01 nothing else")
    assert "1 April" not in kept_with(text, "1 March")


def test_the_scorer_reads_a_chunk_with_its_heading_and_header():
    def score(query, read_text):
        assert read_text.startswith("Guide\n# Hotel Sun\n")
        return 0.0

    denoiser = ENDDenoiser(FunctionScorer(score), keep=1, chunker="auto")
    denoiser.denoise("q", [Passage(MARKDOWN, "p", header="Guide")])


@given(SCRAPS, SCRAPS)
def test_laws_hold_with_chunks_and_headers(first_text, second_text):
    passages = [Passage(first_text, "a", header="Title"), Passage(second_text, "b")]
    scorer = FunctionScorer(lambda query, text: float(len(text) % 7))
    check_denoiser(lambda: ENDDenoiser(scorer, keep=0.4, chunker="auto"), "q", passages)


def test_a_rule_between_records_ends_them_and_their_fields_are_no_speakers():
    records = numbered_texts(
        "[{n}] Town {n}\nURL: https://a.example/{n}\n"
        "Snippet: In town {n} it rains, and the harbour is old.\n",
        6,
    )
    text = "Found 6 results\n\n" + "---\n".join(records)
    assert chunk_text(text).text_format == "text"
    cut_texts = raw_texts(text)
    for name in numbered_texts("Town {n}", 6):
        assert sum(name in cut_text for cut_text in cut_texts) == 1
    for cut_text in cut_texts:
        assert cut_text.count("Snippet") < 2


def test_records_inside_a_long_record_are_chunks():
    hours = [
        {"time": f"2026-10-10T{hour:02}:00", "gust_kmh": 30.5, "summary": "rain"}
        for hour in range(14)
    ]
    days = [{"date": f"2026-10-{day}", "hours": hours} for day in (10, 11)]
    chunks = chunk_text({"daily": days}).chunks
    assert sum(chunk.path[-2:-1] == ("hours",) for chunk in chunks) == 28


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
    rows = numbered_texts("{n},town\u2028{n}\n", 4)
    text = "id,place\n" + "".join(rows)
    assert raw_texts(text) == [row.strip() for row in rows]


def test_long_code_without_indentation_has_no_empty_context():
    """The context was the empty range before the unit."""
    calls = "\n".join(numbered_texts("call_{n}(first_argument, second_argument)", 50))
    text = "\n\n".join([CODE, CODE, CODE, f"{calls}\n"])
    chunked = chunk_text(text)
    assert chunked.text_format == "code"
    last_chunks = [c for c in chunked.chunks if c.start > text.index("call_1(")]
    assert len(last_chunks) > 1
    for chunk in last_chunks:
        assert not chunk.context_spans


YAML_ROWS = "".join(numbered_texts("  - name: n{n}\n    size: {n}\n", 4))


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
    assert chunk_text(text).text_format != "yaml"
    assert load_yaml_nodes(text) is None
    assert count_empty_values(text) is None
    assert load_yaml_nodes(text.replace("*", "")) is not None


@pytest.mark.parametrize("depth", [20, 3000])
def test_xml_of_any_depth_is_chunked(depth):
    records = "".join(numbered_texts("<row id='{n}'>town {n}</row>", 4))
    text = "<a>" * depth + records + "</a>" * depth
    passage, chunked = Passage(text, "x"), chunk_text(text)
    check_tiling(passage, structural_chunker(passage))
    assert chunked.text_format == "xml"
    read_texts = [chunk.display_text for chunk in chunked.scored_chunks]
    assert read_texts == numbered_texts("town {n}", 4)
