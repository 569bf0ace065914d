"""A run shown as a page: everything is there, and nothing from outside is markup."""

from augmenter_doubles import RIGHT, WRONG, recorded, scripted
from bs4 import BeautifulSoup

from denoise_core import Passage
from denoise_core.augmenter import Augmenter
from denoise_core.report.loop import to_html
from denoise_core.testing import ListRetriever


def page_of(answer):
    return BeautifulSoup(to_html(answer), "html.parser")


def test_the_page_shows_attempts_verdicts_evidence_and_what_was_cited(
    passages, question
):
    page = page_of(recorded(passages, question, WRONG, RIGHT))
    shown = (question, WRONG, RIGHT, "supported", "fail", "missing: 1925")
    for words in (*shown, "cited", "Bananas", "draft", "20 tokens"):
        assert words in page.text


def test_the_page_escapes_what_came_from_outside():
    evil = "<script>alert(1)</script><img src=x onerror=y>\ud83d"
    page = page_of(recorded((Passage(evil, evil),), evil, evil, OSError(evil)))
    assert not page.find_all(["script", "img"])
    assert evil in page.text


def test_a_page_without_attempts_is_a_page(question):
    answer = Augmenter(scripted(""), ListRetriever([])).answer(question)
    assert "None was made." in page_of(answer).text
