"""Questions that nobody has labelled: by a model, made of documents; each marked as such."""

import json

import pytest

from denoise_core import InputError, Passage
from denoise_core.evaluate.comparison import evaluate, read_cases
from denoise_core.evaluate.comparison.cases import generate_cases, label_cases
from denoise_core.evaluate.comparison.evaluation import summary_lines
from denoise_core.testing import FunctionLLM

TEXTS = [
    "The tower was finished in 1889.",
    "Bananas are rich in potassium.",
    "Chess is a game.",
]


def unlabelled(tmp_path, *questions):
    rows = [{"question": query, "passages": TEXTS} for query in questions]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return read_cases(tmp_path / "q.jsonl")


def test_a_model_says_which_passages_hold_the_answer_and_the_report_says_so(tmp_path):
    def judging(messages):
        text = messages[-1].content
        if "cut" in text:
            raise ConnectionError("away")
        return "KEEP: 1" if "When was" in text else "NONE"

    cases = unlabelled(
        tmp_path, "When was the tower finished?", "Who is cut?", "Who sings?"
    )
    cases = label_cases(cases, FunctionLLM(judging), "my-model")
    assert [case.gold_from for case in cases.cases] == ["model", None, None]
    assert {
        p.text
        for p in cases.cases[0].question.passages
        if p.id in cases.cases[0].question.gold
    } == {TEXTS[0]}
    reasons = [warning.reason for warning in cases.warnings]
    assert "away" in reasons[0]
    assert reasons[1] == "my-model: no passage is needed, says the model"
    summary = " ".join(summary_lines(evaluate(cases)))
    assert "1 by a model's labels" in summary
    assert "that my-model selects: rougher than a person's labels" in summary


def test_a_persons_labels_are_not_asked_about(tmp_path):
    rows = [
        {"question": "When?", "passages": TEXTS, "gold": [0]},
        {"question": "When?", "passages": TEXTS, "answers": ["1889"]},
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    llm = FunctionLLM(lambda messages: "yes")
    cases = label_cases(read_cases(tmp_path / "q.jsonl"), llm, "m")
    assert (
        [case.gold_from for case in cases.cases],
        llm.received_messages,
        cases.notes,
    ) == (
        ["labels", "answers"],
        [],
        (),
    )


@pytest.fixture(scope="module")
def documents():
    topics = [
        "tower",
        "river",
        "garden",
        "library",
        "station",
        "harbour",
        "museum",
        "castle",
    ]
    texts = [
        f"The {topic} of the town was opened by its mayor in {1800 + number}. "
        f"Many people came to see the {topic} on that day. "
        f"It rained in the evening, and the {topic} was closed at nine."
        for number, topic in enumerate(topics)
    ]
    return [
        Passage(text, f"{topic}.md") for topic, text in zip(topics, texts, strict=True)
    ]


@pytest.mark.parametrize("has_model", [False, True])
def test_questions_are_made_of_documents_and_marked(documents, has_model):
    llm = (
        FunctionLLM(lambda messages: "When was it opened by the mayor?")
        if has_model
        else None
    )
    cases = generate_cases(
        documents, question_count=4, top_k=5, llm=llm, model_name="my-model"
    )
    assert len(cases.cases) == 4
    for case in cases.cases:
        assert case.gold_from == "made"
        assert (len(case.question.passages), len(case.question.gold)) == (5, 1)
        if not has_model:
            (gold,) = (p for p in case.question.passages if p.id in case.question.gold)
            assert case.question.text not in gold.text
    assert ("my-model" in cases.notes[0]) == has_model
    summary = " ".join(summary_lines(evaluate(cases)))
    assert "4 by the passages that questions were made from" in summary
    with pytest.raises(InputError, match="k=1"):
        generate_cases(documents, top_k=1)
