"""What a question asks for, by the classifier that ships."""

import json
from importlib.resources import files

import numpy as np
import pytest

from denoise_core import Passage
from denoise_core.embedded import DefaultScorer, default_denoiser, sample_questions
from denoise_core.embedded.kinds import KINDS, classify_question, kind_probabilities
from denoise_core.embedded.sample import sample_answers
from denoise_lab.question_kinds import WRITTEN_ORIGIN, read_written

QUESTIONS = {  # none of them was fitted on
    "lookup": ["Who painted the ceiling?", "How much is the fish of the day?"],
    "list": [
        "List all trams that pass the opera.",
        "How many of the cups are chipped?",
    ],
    "compare": [
        "Which is faster, the tram or the bus?",
        "What is the difference between the two passports?",
    ],
    "summary": [
        "Summarise the captain's log.",
        "Give me a short overview of the strike.",
    ],
}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_plain_questions_have_the_kind_of_their_form(kind):
    fitted_texts = {question.text for question in read_written()}
    for question in QUESTIONS[kind]:
        assert question not in fitted_texts
        assert DefaultScorer().question_kind(question) == kind


def test_most_real_questions_for_one_fact_are_lookups():
    kinds = [DefaultScorer().question_kind(q.text) for q in sample_questions()]
    assert kinds.count("lookup") >= 0.8 * len(kinds)


def test_other_languages_and_empty_questions_are_lookups():
    for question in ("Fasse den Bericht über den Unfall bitte zusammen.", "", "?"):
        assert DefaultScorer().question_kind(question) == "lookup"


def test_probabilities_sum_to_one_and_follow_the_weights():
    weights = np.eye(3, 2, dtype=np.float32)
    probabilities = kind_probabilities(np.float32([1, 2, 0]), weights, np.zeros(2))
    assert probabilities.sum() == pytest.approx(1)
    assert probabilities[1] > probabilities[0]


def test_an_unsure_question_is_a_lookup():
    class FlatEncoder:
        """Reads every question as nothing: only the intercepts are left."""

        def embed_question(self, query):
            return np.zeros(768, dtype=np.float32)

    assert classify_question(FlatEncoder(), "anything") == "lookup"


def test_the_card_covers_what_was_fitted_and_the_kinds():
    data_folder = files("denoise_core.embedded") / "data"
    card = json.loads((data_folder / "kinds_card.json").read_text("utf-8"))
    assert card["kinds"] == list(KINDS)
    assert card["fitted on"][WRITTEN_ORIGIN] == len(list(read_written()))
    assert {question.kind for question in read_written()} == set(KINDS)


FLOOD_REPORT = """# Report on the flood at Harbour Street

On 3 May the river rose above the wall.

The pumps of the car park failed within an hour.

Damage is put at two million.

The council will raise the wall by 80 cm.

Insurance was notified on Friday."""


def test_a_summary_keeps_its_document_and_says_so():
    menu = "# Lunch menu\n\nSoup of the day.\n\nFish with potatoes."
    passages = [Passage(FLOOD_REPORT, "report"), Passage(menu, "menu")]
    result = default_denoiser().denoise("Summarise the report on the flood.", passages)
    kept_text = {passage.id: passage.text for passage in result.passages}["report"]
    for paragraph in FLOOD_REPORT.split("\n\n")[1:]:
        assert paragraph in kept_text
    assert "asks for a summary" in result.note


def test_a_second_step_is_looked_for_where_the_question_takes_two():
    question = "Who manages the warehouse that ships the blue vases?"
    assert DefaultScorer().question_kind(question) == "two_step"
    texts = [a.question.text for a in sample_answers()[:8]]
    texts += ["The blue vases are shipped from Tarn.", "Tarn is run by Lena Moss."]
    np.testing.assert_array_equal(
        DefaultScorer().score(question, texts),
        DefaultScorer(boost_multi_hop=True).score(question, texts),
    )
