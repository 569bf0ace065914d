"""The language of a text: an alarm needs evidence."""

from pathlib import Path

import pytest

from denoise_core.end.selection import ScoreCalibration
from denoise_core.text.language import detect_language, identify_language

# Fifty tables, logs, programs and lists in English with names from everywhere.
ENGLISH_FILES = (
    (Path(__file__).parents[2] / "data" / "languages" / "english_files.txt")
    .read_text("utf-8")
    .split("=====\n")
)
FOREIGN_QUESTIONS = {
    "de": [
        "Wann wurde die Pumpe zuletzt gewartet?",
        "Welche Garantie gilt für das Modell 40?",
        "Wie hoch ist der maximale Druck?",
        "Wer hat den Auftrag bestätigt?",
    ],
    "fr": [
        "Quelle est la pression maximale de la pompe ?",
        "Qui a confirmé la commande ?",
        "Combien de pannes y a-t-il eu en mars ?",
        "Quand la garantie expire-t-elle ?",
    ],
    "es": [
        "¿Cuál es la presión máxima de la bomba?",
        "¿Quién confirmó el pedido?",
        "¿Cuántos fallos hubo en marzo?",
        "¿Cuándo vence la garantía?",
    ],
}
ENGLISH_SCALE = ScoreCalibration({0.1: 0.5}, 1.0, 99.0, 10, language="en")


def test_no_english_file_raises_an_alarm():
    assert len(ENGLISH_FILES) == 50
    alarms = [text for text in ENGLISH_FILES if ENGLISH_SCALE.language_mismatch(text)]
    assert not alarms


@pytest.mark.parametrize("language", FOREIGN_QUESTIONS)
def test_questions_in_other_languages_are_recognised(language):
    for question in FOREIGN_QUESTIONS[language]:
        assert identify_language(question) == language
        assert ENGLISH_SCALE.language_mismatch(question)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", ""),
        ("48 %, 12:30", ""),
        ("el;la;no;es\n1;2;3;4", ""),
        ("Wie hoch ist der Turm in der Stadt?", "de"),
        ("这座塔有多高?城市在哪里?", "zh"),
        ("Who did John Elway play for in Super Bowl XXXIII?", "en"),
    ],
)
def test_thin_evidence_is_no_language(text, language):
    assert identify_language(text) == language


def test_a_text_without_letters_or_with_a_tie_has_the_default_language():
    assert detect_language("48 %", "en") == "en"
    assert detect_language("Die Schule wurde 1903 gegründet.") == "de"
