"""A model's selection labels questions, and END is calibrated on them."""

from dataclasses import replace

import pytest
from augmenter_doubles import scripted
from bs4 import BeautifulSoup
from headless import chromium, told_by

from denoise_core import InputError, Passage, calibrate
from denoise_core.embedded import sample_questions
from denoise_core.evaluate.datasets import read_questions
from denoise_core.question import Question
from denoise_core.s2a.llm_labels import label_questions, write_labels
from denoise_core.testing import FunctionLLM, ListRetriever

from .fakes import call_count, pieces, request


def shortened(question):
    """The question with its gold and two other passages, in their order."""
    gold_first = sorted(question.passages, key=lambda p: p.id not in question.gold)
    kept = gold_first[: len(question.gold) + 2]
    return replace(question, passages=tuple(p for p in question.passages if p in kept))


ASKED = {question.text: shortened(question) for question in sample_questions()[:22]}


class FoundRetriever(ListRetriever):
    def retrieve(self, query):
        return ASKED[query].passages


def selecting(messages):
    """Names the pieces that hold an answer, as a good model does."""
    text = request(messages)
    if "out of order" in text:
        raise ConnectionError("away")
    named = []
    for question in ASKED.values():
        if question.text in text:
            for number, piece in pieces(messages).items():
                if any(answer in piece for answer in question.answers):
                    named.append(str(number))
    return ", ".join(named) or "NONE"


def gold_texts(question):
    return {p.text for p in question.passages if p.id in question.gold}


def test_one_call_labels_and_calibrates_and_labels_of_people_are_not_asked_about(
    tmp_path,
):
    llm, path = FunctionLLM(selecting), tmp_path / "labels.jsonl"
    calibrated = calibrate(FoundRetriever([]), ASKED, llm, labels=path)
    labelled = read_questions(path).questions
    assert 20 <= calibrated.evaluation.questions == len(labelled) <= 22
    assert calibrated.evaluation.text_needed["fitted"][0][0] < 0.5
    right = [q for q in labelled if gold_texts(q) & gold_texts(ASKED[q.text])]
    assert len(right) >= 20
    calls = call_count(llm)
    # As a person may have corrected them.
    assert calibrate(None, labelled, llm).scale == calibrated.scale
    assert call_count(llm) == calls


def test_what_the_model_fails_on_is_told_in_its_place():
    passages = (Passage("It rained.", "a"), Passage("Chess is a game.", "b"))
    questions = [
        Question(text, passages, frozenset())
        for text in ("Is it out of order?", "Who?")
    ]
    llm = FunctionLLM(selecting)
    failed, unanswered = label_questions(questions, llm)
    assert "away" in failed
    assert unanswered == "no passage is needed, says the model"
    with pytest.raises(InputError, match="give a retriever"):
        calibrate(None, ["Who?"], llm)
    with pytest.raises(InputError, match="expected 20 or more"):
        calibrate(None, questions, llm)


HOSTILE = '</script><script>alert(1)</script> <img src=x onerror="alert(2)"> {{ 7*7 }} \u2028\r\n&amp; ]]>'


def hostile(question):
    passages = [
        Passage(f"{p.text} {HOSTILE}", p.id, metadata={"source": HOSTILE})
        for p in question.passages
    ]
    return replace(
        question,
        text=f"{question.text} {HOSTILE}",
        passages=tuple(passages),
        answers=(HOSTILE,),
        id=f"{question.id}{HOSTILE}",
    )


def test_every_label_and_passage_stands_in_the_page_beside_the_labels_and_is_no_markup(
    tmp_path,
):
    questions = list(map(hostile, ASKED.values()))
    write_labels(questions, tmp_path / "labels.jsonl")
    html = (tmp_path / "labels.jsonl.html").read_text("utf-8")
    page = BeautifulSoup(html, "html.parser")
    expected_ticks = []
    shown_texts = (" ".join(text.split()) for text in page.find_all(string=True))
    for question in questions:
        expected_ticks += question.labels
        for text in (question.text, *(p.text_with_header for p in question.passages)):
            shown = " ".join(text.split())
            assert any(shown in shown_text for shown_text in shown_texts), text
    ticks = [box.has_attr("checked") for box in page.find_all("input")]
    assert ticks == expected_ticks
    assert page.img is None
    assert len(page.find_all("script")) == 2


@pytest.mark.skipif(chromium() is None, reason="there is no Chromium here")
def test_what_is_downloaded_is_the_labels_as_they_are_ticked(tmp_path):
    questions = list(map(hostile, list(ASKED.values())[:3]))
    path = write_labels(questions, tmp_path / "labels.jsonl")
    expected = list(read_questions(path).questions)
    page = tmp_path / "labels.jsonl.html"
    corrected = b"""<script>
    document.querySelectorAll("section")[1].querySelectorAll("input").forEach(box => box.click());
    const told = document.createElement("pre"); told.id = "told"; told.textContent = JSON.stringify(labels());
    document.body.append(told);
    </script></body>"""
    page.write_bytes(page.read_bytes().replace(b"</body>", corrected))
    downloaded = tmp_path / "again.jsonl"
    downloaded.write_bytes(told_by(page, "light", budget=5000).encode())
    corrected_gold = {p.id for p in questions[1].passages} - questions[1].gold
    expected[1] = replace(expected[1], gold=corrected_gold)
    assert list(read_questions(downloaded).questions) == expected


def test_the_nearest_pieces_are_no_label_where_nothing_answers():
    question = replace(next(iter(ASKED.values())), gold=frozenset())
    (reason,) = label_questions([question], scripted("1, 2\nANSWERED: no"))
    assert reason == "no passage is needed, says the model"
