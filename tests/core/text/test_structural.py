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
from denoise_core.text.tree_records import (
    count_empty_values,
    load_yaml_nodes,
    parse_xml,
)
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
    numbered_texts("2031-08-19T22:0{n}:32Z INFO  [labels] printed {n} labels\n", 9)
).replace("4 labels\n", "4 labels\n  Traceback\n    at line 3\n")

TALK = """Transcript of tape 3.

[00:00:04] Interviewer: What did you wear?
[00:00:20] Marit Aune: My good coat.
[00:00:40] Interviewer: And the boss?
[00:00:54] Marit Aune: He was away.
[00:01:14] Interviewer: How did it end?
[00:01:25] Marit Aune: With fans.
"""

FUNCTION = """def f{n}(a):
    if a:
        return os.path(a)

    for b in a:
        print(b)
    return {n}"""
# The context of a long unit without indentation was the empty range before it.
CALLS = "\n".join(numbered_texts("call_{n}(first_argument, second_argument)", 50))
CODE = "import os\n\n\n" + "\n\n".join([*numbered_texts(FUNCTION, 12), CALLS])

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
    "jsonl": "\n".join(numbered_texts('{"id": {n}, "said": "x{n}"}', 5)),
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
@example("\ufeff")
@example(f"\ufeff{PAGE}")
@example("<!doctype html><title>Opening hours of the depot</title>")
@example("<!doctype html><table><tr><th>Day</th><th>Opens</th></tr></table>")
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
    assert (
        any(chunk.is_scored_in(text) or chunk.display_text for chunk in chunked.chunks)
        or not text.strip()
    )


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


@pytest.mark.parametrize(
    ("lead", "items", "is_list"),
    [
        ("It was approved by", ["Dr. Weber in", "12. It is"], False),
        ("The steps:", ["2. Open it.", "3. Close it."], True),
        ("the end of the second item", ["3. chairs", "4. tables"], True),
        ("It is the second item.", ["3. chairs"], True),
        ("We need", ["1. chairs", "- tables"], True),
        ("They must", ["(a) pay and", "(b) leave"], True),
        ("> They must", ["> i. pay", "> ii. leave"], True),
        ("The rules", ["1a. Pay", "1b. Leave"], True),
        ("The rules:", ["A1. Pay", "A2. Leave"], True),
        ("It was lent by", ["Dr. Wu and", "Mr. Li to", "us. It"], False),
    ],
)
def test_a_line_of_a_paragraph_is_an_item_only_if_it_begins_a_list(
    lead, items, is_list
):
    lines = [lead, *items]
    text = "\n".join(lines)
    assert raw_texts(text) == (lines if is_list else [text])


QUESTION = "Transcript of tape 3.\n[00:00:04] Interviewer: What did you wear?"
PAGES = [
    "Manual of the Sun hotel. Page 4.\n\nRule one says that guests pay at the desk.",
    "Manual of the Sun hotel. Page 5.\n\nRule two says that guests pay at the desk.",
    "Manual of the Sun hotel. Page 6.\n\nRule three says that guests pay at the desk.",
]


TERMS = """<h2>VPN</h2><div>Errors:<dl><dt>691</dt><dd>Locked.</dd></div><p>Call Bo.</p></dl>
<details><summary>Who pays?</summary><p>The sender.</p></details><p>By post.</p>
<h2>We are shut</h2><details></details>
<h2>Sites</h2><table><tr><td>Leeds</td><td><table><tr><td>TLS</td></tr></table></td></tr></table>"""


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
        ("# A\n\n```npm ci```\n\n## B\n\nIt is nine.", "nine", "# A\n## B"),
        ("Stop\n~~~~\n\nPress red.\n\nGo\n~~~\n\nPull.", "Pull", "Go\n~~~"),
        ("Run\n~~~\na\n\n# b\n~~~\n\nDone.", "Done", ""),
        ("Run this:\n~~~\na\n\nb\n~~~\n", "a\n\nb", ""),
        ("# A\n\n**Dogs**\n\nAsk first.\n\n**Cats**\n\nNo.", "No", "# A\n**Cats**"),
        ("Spa\n\nA.\n\nPool\n\n**Fee**\n\n12.", "12", "Pool\n**Fee**"),
        ("§ 1 Rent\n\nIt is due.\n\n§ 2 End\n\nIn May.", "May", "§ 2 End"),
        ("<html><title>A</title><p>Two.</p></html>", "Two", "A"),
        ("---\ntitle: A\nby: Bo\n---\n\nC.\n\nD.", "D", "title: A\nby: Bo\n---"),
        ("Bo Lang\nLeeds, 12\n\nAda Kim\nPorto, 14\n\nHugo Marx\nOslo, 16", "14", ""),
        ("How?\n\n```\na\n```\n\nWho?\n\nBo.\n\nWhen?\n\nMay.", "Bo", ""),
        ("# A\n- B (1)\n  - C (2)\n- D (3)\n  - E (4)\n  - F", "E", "# A\n- D (3)"),
        (TERMS, "Locked", "VPN\nErrors:\n691"),
        (TERMS, "Call Bo", "VPN\nErrors:"),
        (TERMS, "The sender", "VPN\nWho pays?"),
        (TERMS, "By post", "VPN"),
        (TERMS, "We are shut", ""),
        (TERMS, "TLS", "Sites"),
        ("[a]\nn = 1\n\n[b]\nm = 2\n\n; per day\nn = 3\n", "n = 3", "[b]"),
        ("[a]\nn = 1\n[b]\nhost\n", "host", "[b]"),
        ("# A\n\n[TOC]\n\nSee a?b=1.\n\n# B\n\nD.", "D", "# B"),
        ("# A\n\nRun:\n\n[s]\nn = 1\n\n# B\n\nC.", "C", "# B"),
        ("# All\n[a]\n\n# seconds\nn = 1\n", "n = 1", "# All\n[a]"),
        ("[a]\nn = 1\n# Second\n[b]\nm = 2\n", "m = 2", "# Second\n[b]"),
        ("**A**\n\nRooms\n\nB.\n\n**C**\n\nRooms\n\nD.", "D", "Rooms"),
        ("A.\n\n___\nName: Bo\nRole: chief\n\nB.\n\nC.", "C", ""),
        ("# A\n\nB.\n\n--- Page 2 ---\n\n\nC.\n\nD.", "D", "# A"),
        ("Note: shut\n in May\n\n# A\n\nB.\n\nC.", "C", "# A"),
        ("**Which?**\n- oak\n- elm\n", "elm", "**Which?**"),
        ("OAK LTD\nTERMS\n\n" + "Pay. " * 400, "Pay", "OAK LTD\nTERMS"),
        ("> Ada\n\nIt is nine.", "nine", ""),
        ("OAK LTD rents. It is 9.\n\n" + "Pay. " * 400, "Pay", "OAK LTD rents."),
        ("Bo\n\nTel: 1\nBy: A\n\nHi.\n\nDi\n\nTel: 2\nBy: B\n\nWe do.", "do", "Di"),
        ("# A\nTel: 1\nBy: Bo\n\n## B\nTel: 2\nBy: Di\n\nWe do.", "do", "# A\n## B"),
        (
            "A: 1\nB: 2\n\n# C\n\n> A: 3\n> B: 4\n>\n> At 9?\n\nYes.",
            "Yes",
            "A: 1\nB: 2\n# C",
        ),
        (
            "From: Bo\nDate: 2 May\n\nYes.\n\n> From: Di\n> Date: 1 May\n>\n> At nine?",
            "nine",
            "> From: Di\n> Date: 1 May\n>",
        ),
        ("git a\nBy Bo\n\n    B.\n\n    C.\n\ngit d\n\n    E.", "C", "git a\nBy Bo"),
        # Of a PDF: short paragraphs that differ only in a number that counts up.
        ("\n\n".join(PAGES), "two", "Manual of the Sun hotel. Page 5."),
    ],
)
def test_a_chunk_is_read_with_its_headings_header_author_or_question(
    text, phrase, context
):
    assert read_chunk(text, phrase)[0] == context


def test_long_code_begins_with_its_announcement_and_a_long_item_is_cut_above_code():
    code_texts = raw_texts("Go:\n\n```\n" + "run(a)\n" * 300)
    assert code_texts[0].startswith("Go:\n\n```\nrun(a)")
    assert len(raw_texts("1." + " It runs." * 150 + "\n\n   ```\n   a\n   ```")) > 3


@pytest.mark.parametrize("mark", ["\ufeff", "\ufeff" * 2000])
@pytest.mark.parametrize("text", TEXTS)
def test_a_byte_order_mark_changes_no_chunk(text, mark):
    for phrase in raw_texts(text):
        kept_text = kept_with(f"{mark}{text}", phrase)
        assert kept_text.lstrip("\ufeff") == kept_with(text, phrase)


def test_html_is_cut_in_the_raw_text_and_read_without_tags():
    cut_texts = raw_texts(PAGE)
    assert "<li>Two <em>and</em> a half</li>" in cut_texts
    for unread in ("Home", "let p", "p{}", "<title>"):
        assert unread not in "".join(cut_texts)


def test_an_entry_has_the_lines_that_follow_it_and_a_mail_its_subject():
    entries = raw_texts(LOG)
    assert len(entries) == 9
    assert entries[4].endswith("at line 3")
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


@pytest.mark.parametrize("first_row", ["town,2032,2031\n", "town,sum,sum\n"])
def test_a_row_that_may_be_a_header_is_scored_and_comes_with_each_row(first_row):
    rows = ["oak,1,2\n", "elm,3,4\n"]
    assert raw_texts(first_row + "".join(rows)) == [
        first_row.strip(),
        "oak,1,2",
        "elm,3,4",
    ]
    assert kept_with(first_row + "".join(rows), "elm") == first_row + rows[1]
    # A value repeats in its column, or the numbers do not count: these are no names.
    for data_row in ("oak,ash,ash\n", "ash,2031,7\n", "ash,2031-01-02,7\n"):
        assert kept_with(data_row + "".join(rows), "elm") == rows[1]


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


@pytest.mark.parametrize("newer_text", ["", "For you.\n", THREAD.partition("--")[0]])
@pytest.mark.parametrize("divider", ["-----Original Message-----", "_" * 32])
def test_a_quoted_mail_without_quote_marks_keeps_its_own_head(newer_text, divider):
    """One of its fields is empty, and one has two lines."""
    head = "Von: Bo\nAn: Ada,\n Di\nCc:\nDatum: 4. Februar\n"
    quoted_mail = f"{divider}\n{head}\nIt is, at 40 euros.\n"
    assert kept_with(newer_text + quoted_mail, "40 euros") == quoted_mail


def test_a_question_is_read_with_the_paragraph_under_it():
    questions = ["Subject: Who?", "Who?\n\nBo.\nDi.", "Ed.", "Ann?", "**Fay?**\n\nNo."]
    assert raw_texts("\n\n".join(questions)) == questions
    text = THREAD.replace("Ada\n\n-----------------", f"Who pays?\n\n{'_' * 32}")
    assert "Who pays?" in raw_texts(text)


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
@pytest.mark.parametrize(
    "name", ["Petra", "Petra (QA)", "Bo, Petra \U0001f338", "+49 1"]
)
def test_a_question_in_a_chat_keeps_the_answer_of_somebody_else(
    asked, kept_turns, name
):
    chat = "\n".join(CHAT).replace("Petra", name)
    kept_text = kept_with(chat, asked).replace(name, "Petra")
    assert kept_text.splitlines() == list(kept_turns)


def test_a_chat_without_times_is_no_yaml():
    turns = ("Ada: who pays?", "Bo: they do", "Ada: all of it?", "Bo: yes") * 2
    assert chunk_text("\n".join(turns)).text_format == "entries"
    fields = "\n".join(numbered_texts("field_{n}: value", 8))
    assert chunk_text(fields).text_format == "yaml"


def test_a_long_chat_keeps_answers_too():
    """Its chunks hold several turns each."""
    turns = numbered_texts("Ada: where is box {n}?\nBo: shelf {n}\n", 400)
    text = "".join(turns)
    longest_chunk = max(chunk.length for chunk in chunk_text(text).chunks)
    assert longest_chunk > 2 * len(turns[0])
    for number in range(0, 400, 7):
        assert f"shelf {number}\n" in kept_with(text, f"box {number}?")


@pytest.mark.parametrize(
    ("title", "section"), [("", "--- Day {n} ---\n"), ("# Plan\n\n", "## Item {n}\n\n")]
)
def test_a_turn_is_kept_under_its_own_day_or_topic(title, section):
    sections = numbered_texts(f"{section}Ada: who is {{n}}?\nBo: Cy is {{n}}\n", 4)
    assert kept_with(title + "".join(sections), "Cy is 2") == title + sections[2]


MINUTES = """# Council

## 14 January

*D-25-01: Two shifts from 1 March.*

*D-25-02: The stock is 300 pieces.*

## 11 February

*D-25-09 replaces D-25-01: The second shift starts on 1 April.*

Nothing else was said.
"""


FACTS = {
    "Ada": "The oak is cut.",
    "Bo": "Rent is due.",
    "Cy": "We meet at nine.",
    "Di": "Bring shoes.",
}


@pytest.mark.parametrize("count", [2, 3, 4])
def test_short_mails_keep_their_own_sender(count):
    """The names of their fields repeat as speakers do."""
    recipient = "To: all@mill.example\n"
    mails = [
        f"From: {sender} <a@mill.example>\n{recipient}Subject: Hall\n\n{fact}\n\n"
        for sender, fact in FACTS.items()
    ]
    for mail, fact in zip(mails[:count], FACTS.values(), strict=False):
        kept_text = kept_with("".join(mails[:count]), fact)
        assert kept_text == mail.replace(recipient, "")


@pytest.mark.parametrize("count", [4, 400])
def test_fields_of_records_between_blank_lines_are_no_speakers(count):
    records = numbered_texts(
        "Name: Pump {n}\nPrice: {n} EUR\nStock: {n} of it\n\n", count
    )
    assert chunk_text("".join(records)).text_format == "text"
    assert f"Name: Pump {count - 1}\n" in kept_with("".join(records), f"{count - 1} of")


@pytest.mark.parametrize(
    "record", ["Room: {n}\nBeds: 2\nFee: 9\n\n", "room {n} is free.\n\n"]
)
def test_short_records_that_count_up_are_no_headings(record):
    records = numbered_texts(record, 4)
    assert raw_texts("".join(records)) == [text.strip() for text in records]
    assert kept_with("".join(records), "3") == records[3]


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
LINKS = "[[Ada]] met [[Bo]].\n\nThe price is 9.\n\n[[Di]] pays.\n"
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
        (LINKS, "is 9", "The price is 9.\n\n"),
        (LINKS.replace("]] met [[", "], ["), "is 9", "The price is 9.\n\n"),
        # A question that nobody else answers.
        (
            "Ada: who pays?\nAda: a\nAda: b\nAda: c\nAda: d\nBo: fine\nBo: yes\n",
            "who pays",
            "Ada: who pays?\n",
        ),
        ("[(1, 'a'), (2, 'b')] rows: 2", "'b'", "(2, 'b')"),
        (
            "sites:\n  a:\n    gates:\n      - name: n\n        opens: 1\n"
            "      - name: m\n        opens: 2\n    # of all\n    places: 3\n",
            "opens: 2",
            "sites:\n  a:\n    gates:\n      - name: m\n        opens: 2\n",
        ),
        (
            "m:\n- name: n\n  opens: 1\n  # shuts: 3\n- name: m\n  opens: 2\n",
            "opens: 2",
            "m:\n- name: m\n  opens: 2\n",
        ),
        # The level of an entry is nobody who speaks.
        (LEVELS, "step 5", "2031-08-19 22:00:05 ERROR: step 5 is done\n"),
        (REFERENCE, "key_3", REFERENCE),
        (OPENING + "\n\n".join(POINTS), "Point 6", f"{OPENING}{POINTS[6]}\n\n"),
        (BOOK, "Bed 9", "Handover book\n\nDay of 5 May\n\nBed 9 ate.\n"),
        (
            MINUTES,
            "1 March",
            "# Council\n\n## 14 January\n\n*D-25-01: Two shifts from 1 March.*\n\n"
            "## 11 February\n\n"
            "*D-25-09 replaces D-25-01: The second shift starts on 1 April.*\n\n",
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
    for record, cut_text in zip(records, raw_texts(text), strict=True):
        assert cut_text.startswith(record.strip())


def test_records_inside_a_long_record_are_chunks():
    hour = {"time": "2026-10-10T08:00", "gust_kmh": 30.5, "summary": "rain"}
    day = {"date": "2026-10-10", "hours": [hour] * 14}
    chunks = chunk_text({"daily": [day, day]}).chunks
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


TREE_YAML = """service: webshop
environments:
  production:
    replicas: 4
alerts:
  - name: late
    minutes: 1
  - name: down
    minutes: 2
"""
TREE_XML = (
    "<office><hours>8 to 17</hours><rooms>"
    '<room n="1">Elm</room><room n="2">Oak</room><room n="3">Ash</room></rooms></office>'
)


@pytest.mark.parametrize(
    ("text", "phrase", "needed"),
    [
        (TREE_YAML, "replicas", "replicas: 4"),
        (TREE_XML, "17", "<hours>8 to 17</hours>"),
    ],
)
def test_values_outside_the_lists_of_a_file_are_read_like_its_records(
    text, phrase, needed
):
    kept_text = kept_with(text, phrase)
    assert needed in kept_text
    assert "name: down" not in kept_text
    assert "Ash" not in kept_text


@pytest.mark.parametrize(
    ("head", "entry"),
    [
        ("", "Room {n}: with a balcony\n"),
        ("\ufeffservices:\n", "  # about {n}\n  s{n}:\n    port: {n}\n"),
        ("", "---\nkind: k{n}\nmetadata:\n  name: town\n"),
        ("names:\n", "  - 'name: {n}'\n"),
    ],
)
def test_long_yaml_without_records_is_cut_at_keys_and_items(head, entry):
    entries = numbered_texts(entry, 60)
    text = head + "".join(entries)
    assert chunk_text(text).text_format == "yaml"
    assert kept_with(text, entries[7].strip()) == head + entries[7]
    assert cut(text, entries[7]) == text  # a tool's result stays whole


@pytest.mark.parametrize("element", ["<e n='1'/>", "<e>run a/></e>", "<e></e>", "<e/>"])
def test_an_element_ends_where_its_own_tag_does(element):
    root = parse_xml(f"<log>{element}<e>b</e></log>")
    assert root.children[0].end == len("<log>") + len(element)


YAML_ROWS = "".join(numbered_texts("  - name: n{n}\n    size: {n}\n", 4))


@pytest.mark.parametrize(
    "text",
    [
        f"rows: &rows\n{YAML_ROWS}loop: &loop\n  me: *loop\n",
        f"rows: &rows\n{YAML_ROWS}again: *rows\n",
    ],
    ids=["cyclic", "a list twice"],
)
def test_yaml_with_an_alias_is_chunked_by_its_lines(text):
    assert chunk_text(text).text_format != "yaml"
    assert load_yaml_nodes(text) is None
    assert count_empty_values(text) is None
    assert load_yaml_nodes(text.replace("*", "")) is not None


@pytest.mark.parametrize(
    ("root", "text_format"),
    [
        ("<div><h1>Hall</h1><p>Open.</p><x:map/><ul><li>Oak</li></ul></div>", "html"),
        ("<TABLE><TR><TH>a</TH></TR><TR><TD>1</TD></TR></TABLE>", "html"),
        (
            "<section><title>Hall</title><room>Oak</room><room>Elm</room></section>",
            "xml",
        ),
        ("<section><param name='a'/><param name='b'/></section>", "xml"),
        ("<menu><li><name>Pie</name><price>5</price></li></menu>", "xml"),
    ],
)
def test_a_part_of_a_page_that_is_well_formed_is_html(root, text_format):
    assert parse_xml(root) is not None
    assert chunk_text(root).text_format == text_format


@pytest.mark.parametrize("depth", [20, 3000])
def test_xml_of_any_depth_is_chunked(depth):
    records = "".join(numbered_texts("<row id='{n}'>town {n}</row>", 4))
    text = "<a>" * depth + records + "</a>" * depth
    passage, chunked = Passage(text, "x"), chunk_text(text)
    check_tiling(passage, structural_chunker(passage))
    assert chunked.text_format == "xml"
    read_texts = [chunk.display_text for chunk in chunked.scored_chunks]
    assert read_texts == numbered_texts("town {n}", 4)
