"""A model's selection labels questions, and END is calibrated on them."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from headless import chromium, told_by

from denoise_core import InputError, Passage, calibrate
from denoise_core.embedded import sample_questions
from denoise_core.evaluate.datasets import read_questions
from denoise_core.question import Question
from denoise_core.s2a.llm_labels import label_questions, write_labels
from denoise_core.testing import FunctionLLM

ASKED = sample_questions()[:22]


def few(one_question):
    other_passages = [
        one_passage
        for one_passage in one_question.passages
        if one_passage.id not in one_question.gold
    ][:4]
    return tuple(
        one_passage
        for one_passage in one_question.passages
        if one_passage.id in one_question.gold or one_passage in other_passages
    )


class FoundRetriever:
    def retrieve(self, query):
        return few(
            next(one_question for one_question in ASKED if one_question.text == query)
        )

    async def aretrieve(self, query):
        return self.retrieve(query)


def selecting(messages):
    """Names the pieces that hold an answer, as a good model does."""
    text = messages[-1].content
    if "out of order" in text:
        raise ConnectionError("away")
    own_value = next(
        (one_question for one_question in ASKED if one_question.text in text), None
    )
    numbered = re.findall(r"^(\d+) (.+)$", text, re.M)
    named_numbers = [
        position
        for position, shown_text in numbered
        if own_value and any(a in shown_text for a in own_value.answers)
    ]
    return f"KEEP: {', '.join(named_numbers) or 'NONE'}"


def test_one_call_labels_and_calibrates(tmp_path):
    fake_llm = FunctionLLM(selecting)
    actual_result = calibrate(
        FoundRetriever(),
        [one_question.text for one_question in ASKED],
        fake_llm,
        labels=tmp_path / "labels.jsonl",
    )
    assert 20 <= actual_result.evaluation.questions <= 22
    assert actual_result.evaluation.relevant_text_share < 0.5
    labels = read_questions(tmp_path / "labels.jsonl").questions
    assert len(labels) == actual_result.evaluation.questions
    gold = {
        one_question.text: {
            one_passage.text
            for one_passage in one_question.passages
            if one_passage.id in one_question.gold
        }
        for one_question in ASKED
    }
    assert (
        sum(
            bool(
                gold[one_question.text]
                & {
                    one_passage.text
                    for one_passage in one_question.passages
                    if one_passage.id in one_question.gold
                }
            )
            for one_question in labels
        )
        >= 20
    )
    second_result = calibrate(
        None, labels, None
    )  # as a person may have corrected them; nobody is asked
    assert second_result.scale == actual_result.scale


def test_labels_of_people_are_not_asked_about():
    own_value = [
        replace(one_question, passages=few(one_question)) for one_question in ASKED
    ]
    fake_llm = FunctionLLM(selecting)
    assert calibrate(None, own_value, fake_llm).evaluation.questions == 22
    assert fake_llm.received_messages == []


def test_what_the_model_fails_on_is_told_in_its_place():
    passages = (Passage("It rained.", "a"), Passage("Chess is a game.", "b"))
    model_calls = [
        Question(text, passages, frozenset())
        for text in ("Is it out of order?", "Who?")
    ]
    actual_result = list(label_questions(model_calls, FunctionLLM(selecting)))
    assert "away" in actual_result[0]
    assert actual_result[1] == "no passage is needed, says the model"
    with pytest.raises(InputError, match="give a retriever"):
        calibrate(None, ["Who?"], FunctionLLM(selecting))
    with pytest.raises(InputError, match="expected 20 or more"):
        calibrate(None, model_calls, FunctionLLM(selecting))


HOSTILE = '</script><script>alert(1)</script> <img src=x onerror="alert(2)"> {{ 7*7 }} \u2028\r\n&amp; ]]>'


class PageParser(HTMLParser):
    """Ticks, texts and tags in their order."""

    def __init__(self, html):
        super().__init__()
        self.ticks, self.said, self.tags = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "input":
            self.ticks.append("checked" in dict(attrs))

    def handle_data(self, data):
        self.said.append(data)


def hostile(position):
    passages = tuple(
        Passage(f"{one_passage.text} {HOSTILE}", one_passage.id, {"source": HOSTILE})
        for one_passage in few(ASKED[position])
    )
    return Question(
        f"{ASKED[position].text} {HOSTILE}",
        passages,
        ASKED[position].gold,
        (HOSTILE,),
        f"{position}{HOSTILE}",
    )


def test_every_label_and_passage_stands_in_the_page_beside_the_labels_and_is_no_markup(
    tmp_path,
):
    plain_text = PageParser(
        (
            write_labels(ASKED, tmp_path / "plain.jsonl").with_name("plain.jsonl.html")
        ).read_text("utf-8")
    )
    assert plain_text.ticks == [
        label for one_question in ASKED for label in one_question.labels
    ]
    model_calls = [hostile(position) for position in range(len(ASKED))]
    write_labels(model_calls, tmp_path / "labels.jsonl")
    page = PageParser((tmp_path / "labels.jsonl.html").read_text("utf-8"))
    assert page.ticks == [
        label for one_question in model_calls for label in one_question.labels
    ]
    assert "img" not in page.tags
    assert page.tags.count("script") == 2
    shown_text = [" ".join(one_span.split()) for one_span in page.said]
    shown_pieces = iter(shown_text)
    for one_question in model_calls:
        for text in (
            one_question.text,
            *(one_passage.text_with_header for one_passage in one_question.passages),
        ):
            assert any(
                " ".join(text.split()) in one_span for one_span in shown_pieces
            ), text


@pytest.mark.skipif(chromium() is None, reason="there is no Chromium here")
def test_what_is_downloaded_is_the_labels_as_they_are_ticked(tmp_path):
    model_calls = [hostile(position) for position in range(3)]
    path = write_labels(model_calls, tmp_path / "labels.jsonl")
    before = read_questions(path).questions
    page = tmp_path / "labels.jsonl.html"
    html = page.read_bytes().decode()
    corrected = """<script>
    document.querySelectorAll("section")[1].querySelectorAll("input").forEach(box => box.click());
    const told = document.createElement("pre"); told.id = "told"; told.textContent = JSON.stringify(labels());
    document.body.append(told);
    </script></body>"""
    page.write_bytes(html.replace("</body>", corrected).encode())
    (tmp_path / "again.jsonl").write_bytes(told_by(page, "light", budget=5000).encode())
    after = read_questions(tmp_path / "again.jsonl").questions
    assert [one_question.passages for one_question in after] == [
        one_question.passages for one_question in before
    ]
    assert [one_question.gold for one_question in after][::2] == [
        one_question.gold for one_question in before
    ][::2]
    assert (
        after[1].gold
        == {one_passage.id for one_passage in model_calls[1].passages}
        - model_calls[1].gold
    )
    assert [
        (one_question.text, one_question.answers, one_question.id)
        for one_question in after
    ] == [
        (one_question.text, one_question.answers, one_question.id)
        for one_question in before
    ]


def test_the_nearest_pieces_are_no_label_where_nothing_answers():
    model = FunctionLLM(lambda messages: "1, 2\nANSWERED: no")
    (reason,) = label_questions([replace(ASKED[0], gold=frozenset())], model)
    assert reason == "no passage is needed, says the model"
