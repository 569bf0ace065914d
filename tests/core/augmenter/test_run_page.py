"""A run shown as a page: everything is there, and nothing from outside is markup."""

from html.parser import HTMLParser

from augmenter_doubles import RIGHT, WRONG, recorded, scripted

from denoise_core import Passage
from denoise_core.augmenter import Augmenter
from denoise_core.report.loop import to_html
from denoise_core.testing import ListRetriever


class Text(HTMLParser):
    def __init__(self, answer):
        super().__init__()
        self.tags = set()
        self.text = ""
        self.feed(to_html(answer))

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.text += data


def test_the_page_shows_attempts_verdicts_evidence_and_what_was_cited(
    passages, question
):
    page = Text(recorded(passages, question, WRONG, RIGHT))
    shown = (question, WRONG, RIGHT, "supported", "unsupported", "missing: 1925")
    for words in (*shown, "cited", "Bananas", "draft", "20 tokens"):
        assert words in page.text


def test_the_page_escapes_what_came_from_outside():
    evil = "<script>alert(1)</script><img src=x onerror=y>\ud83d"
    page = Text(recorded((Passage(evil, evil),), evil, evil, OSError(evil)))
    assert page.tags.isdisjoint({"script", "img"})
    assert evil in page.text


def test_a_page_without_attempts_is_a_page(question):
    answer = Augmenter(scripted(""), ListRetriever([])).answer(question)
    assert "None was made." in Text(answer).text
