"""Questions that nobody has labelled: by a model, made of documents; each marked as such."""

import pytest
from json_files import write_json_lines

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


def read_rows(tmp_path, rows):
    return read_cases(write_json_lines(tmp_path / "q.jsonl", *rows))


def test_a_model_says_which_passages_hold_the_answer_and_the_report_says_so(tmp_path):
    def judging(messages):
        text = messages[-1].content
        if "cut" in text:
            raise ConnectionError("away")
        return "1" if "When was" in text else "NONE"

    asked = ("When was the tower finished?", "Who is cut?", "Who sings?")
    rows = [{"question": query, "passages": TEXTS} for query in asked]
    cases = read_rows(tmp_path, rows)
    cases = label_cases(cases, FunctionLLM(judging), "my-model")
    assert [case.gold_from for case in cases.cases] == ["model", None, None]
    assert cases.cases[0].question.labels == (True, False, False)
    failed, unneeded = [warning.reason for warning in cases.problems]
    assert "away" in failed
    assert unneeded == "no passage is needed, says the model (my-model)"
    summary = " ".join(summary_lines(evaluate(cases)))
    assert "that my-model selects: rougher than a person's labels" in summary


def test_a_persons_labels_are_not_asked_about(tmp_path):
    row = {"question": "When?", "passages": TEXTS}
    cases = read_rows(tmp_path, [row | {"gold": [0]}, row | {"answers": ["1889"]}])
    llm = FunctionLLM(lambda messages: "yes")
    cases = label_cases(cases, llm, "m")
    assert [case.gold_from for case in cases.cases] == ["labels", "answers"]
    assert llm.received_messages == []
    assert cases.notes == ()


TOPICS = ("tower", "river", "garden", "library", "station", "harbour")


def document_about(topic):
    text = (
        f"The {topic} of the town was opened by its mayor in spring. "
        f"Many people came to see the {topic} on that day. "
        f"It rained in the evening, and the {topic} was closed at nine."
    )
    return Passage(text, f"{topic}.md")


def test_questions_are_made_of_documents_and_marked():
    documents = [document_about(topic) for topic in TOPICS]
    cases = generate_cases(documents, question_count=4, top_k=5)
    assert len(cases.cases) == 4
    for case in cases.cases:
        question = case.question
        assert case.gold_from == "made"
        assert len(question.passages) == 5
        (gold,) = (p for p in question.passages if p.id in question.gold)
        assert question.text not in gold.text
    assert "sentences taken out" in cases.notes[0]
    with pytest.raises(InputError, match="k=1"):
        generate_cases(documents, top_k=1)
