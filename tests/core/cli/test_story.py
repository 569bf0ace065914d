"""Stories: the same question by every way, with a model that reads by a stated rule; and how they are shown."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from denoise_core import Passage
from denoise_core.augmenter.answer import Outcome
from denoise_core.cli.story import Teller, named, reader_stories
from denoise_core.cli.story_view import print_stories, score, story_values
from denoise_core.end import ENDDenoiser
from denoise_core.question import Question
from denoise_core.report.context import rendered
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.testing import FunctionLLM

FACTS = [f"The mayor of {town} is {mayor}." for town, mayor in (("Lund", "Ada"), ("Bern", "Bo"), ("Rome", "Cy"))]
QUESTION = Question(
    "Who is the mayor of Bern?", tuple(Passage(f, str(i)) for i, f in enumerate(FACTS)), {"1"}, ("Bo",)
)
SUPPORTED = '{"verdict": "supported", "score": 9, "problems": []}'


def first_mayor(messages):
    """Answers with the first mayor it reads about, keeps the sentence about Bern, trusts every draft."""
    system, user = messages[0].content, messages[-1].content
    if "<draft>" in user:
        return SUPPORTED
    if "BEGIN" in user:
        lines = user.split("BEGIN", 1)[1].split("\nEND ")[0].splitlines()
        return ", ".join(line[1] for line in lines if "Bern" in line) or "NONE"
    found = [word for word in ("Ada", "Bo", "Cy") if word in user]
    return f"{min(found, key=user.index)} [1]" if "[1]" in system else min(found, key=user.index)


@pytest.fixture(scope="module")
def story():
    question = named(QUESTION)
    end = ENDDenoiser(BM25Scorer(), keep=1)
    return Teller(FunctionLLM(first_mayor), end, question.passages, found=3).tell(question)


def test_each_way_answers_from_what_it_was_given(story):
    by_name = {way.name: way for way in story.ways}
    assert story.gold_found
    assert story.found[0].id == "/1"
    order = [p.text for p in story.found]
    assert by_name["everything found"].answer == "Bo"  # BM25 puts the right passage first here
    assert by_name["everything found"].kept.startswith(f"{len(order)} of {len(order)} passages, 100%")
    assert by_name["S2A select"].kept.startswith(f"1 of {len(order)} passages")
    assert by_name["S2A select"].right
    assert by_name["END"].right
    assert by_name["END"].kept.startswith(f"1 of {len(order)} passages")
    loop = by_name["END in the loop"]
    assert (loop.right, loop.trusted, loop.judged) == (True, True, "verified")
    assert all(way.seconds > 0 for way in story.ways)


def test_the_table_counts_right_answers_and_the_judges_agreement(story):
    rows = score([story, story])
    assert rows[0][1:4] == ["right", "wrong", "no answer"]
    assert [row[0] for row in rows[1:]] == [way.name for way in story.ways]
    assert rows[-1][1:] == ["2 of 2", "0 of 2", "0 of 2", "2 of 2", "0 of 0"]


@pytest.mark.parametrize(
    ("said", "mark"), [("Bo.", "right"), ("Ada", "wrong"), ("unknown", "no answer"), ("", "no answer")]
)
def test_an_answer_that_is_none_is_not_called_wrong(said, mark):
    told = Teller(FunctionLLM(lambda m: said), ENDDenoiser(BM25Scorer()), QUESTION.passages).tell(QUESTION)
    assert told.ways[0].mark == mark


def test_it_is_shown_on_the_terminal_and_on_the_page_without_being_obeyed(story):
    out = io.StringIO()
    print_stories(Console(file=out, width=120), [story])
    assert "Who is the mayor of Bern?" in out.getvalue()
    assert "END in the loop" in out.getvalue()
    evil = named(Question("<script>?", QUESTION.passages, {"1"}, ("\x1b[2J",)))
    told = Teller(FunctionLLM(lambda m: "\x1b[2J<b>"), ENDDenoiser(BM25Scorer()), evil.passages).tell(evil)
    out = io.StringIO()
    print_stories(Console(file=out, width=120), [told])
    assert "\x1b" not in out.getvalue()
    values = {"stories": [story_values(story), story_values(told)], "told": "T", "score": score([story])}
    page = rendered("demo.html", items=[], lead="L", table=[["a"], ["b"]], **values)
    assert "&lt;script&gt;?" in page
    assert "<script" not in page
    assert page.count("<table") == 4
    assert '<span class="dropped"' in page


def test_the_shipped_reader_tells_the_same_story_twice():
    first, second = reader_stories(1, others=1), reader_stories(1, others=1)
    assert [replace(way, seconds=0, result=None) for way in first[0].ways] == [
        replace(way, seconds=0, result=None) for way in second[0].ways
    ]
    (everything, s2a, end, loop) = first[0].ways
    assert everything.kept.startswith(f"{len(first[0].found)} of {len(first[0].found)}")
    assert {p.id for p in end.result.passages} <= {p.id for p in first[0].found}
    assert end.result.passages
    assert s2a.result.fallback is None
    assert loop.judged in set(Outcome)
