"""A judge, model or function, counts where its word is clear; anything else is unknown or an error."""

from augmenter_doubles import check_loop, scripted

from denoise_core.augmenter import Augmenter, Outcome
from denoise_core.testing import ListRetriever


def test_any_function_is_a_judge(passages, question):
    seen = []

    def score(asked_question, evidence, candidate):
        seen.append((asked_question, list(evidence), candidate))
        return 0.9 if "1889" in candidate else 0.1

    answer = check_loop(
        lambda: Augmenter(
            scripted("1925", "1889"), ListRetriever(passages), judge=score
        ),
        question,
    )
    assert (answer.text, answer.outcome) == ("1889", Outcome.SUPPORTED)
    assert seen[0] == (question, [p.text_with_header for p in passages], "1925")
    assert [event.tag for event in answer.trace.events].count("judge") == 2
