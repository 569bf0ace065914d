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
    rows = [{"question": q, "passages": TEXTS} for q in questions]
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
    found = label_cases(cases, FunctionLLM(judging), "my-model")
    assert [c.gold_from for c in found.cases] == ["model", None, None]
    assert {
        p.text
        for p in found.cases[0].question.passages
        if p.id in found.cases[0].question.gold
    } == {TEXTS[0]}
    reasons = [n.reason for n in found.warnings]
    assert "away" in reasons[0]
    assert reasons[1] == "my-model: no passage is needed, says the model"
    said = " ".join(summary_lines(evaluate(found)))
    assert "1 by a model's labels" in said
    assert "that my-model selects: rougher than a person's labels" in said


def test_a_persons_labels_are_not_asked_about(tmp_path):
    rows = [
        {"question": "When?", "passages": TEXTS, "gold": [0]},
        {"question": "When?", "passages": TEXTS, "answers": ["1889"]},
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    llm = FunctionLLM(lambda m: "yes")
    found = label_cases(read_cases(tmp_path / "q.jsonl"), llm, "m")
    assert ([c.gold_from for c in found.cases], llm.received_messages, found.notes) == (
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
        f"The {t} of the town was opened by its mayor in {1800 + n}. Many people came to see the {t} on that day. "
        f"It rained in the evening, and the {t} was closed at nine."
        for n, t in enumerate(topics)
    ]
    return [Passage(text, f"{t}.md") for t, text in zip(topics, texts, strict=True)]


@pytest.mark.parametrize("asked", [False, True])
def test_questions_are_made_of_documents_and_marked(documents, asked):
    llm = FunctionLLM(lambda m: "When was it opened by the mayor?") if asked else None
    found = generate_cases(
        documents, question_count=4, top_k=5, llm=llm, model_name="my-model"
    )
    assert len(found.cases) == 4
    for case in found.cases:
        assert case.gold_from == "made"
        assert (len(case.question.passages), len(case.question.gold)) == (5, 1)
        if not asked:
            (gold,) = (p for p in case.question.passages if p.id in case.question.gold)
            assert case.question.text not in gold.text
    assert ("my-model" in found.notes[0]) == asked
    said = " ".join(summary_lines(evaluate(found)))
    assert "4 by the passages that questions were made from" in said
    with pytest.raises(InputError, match="k=1"):
        generate_cases(documents, top_k=1)
