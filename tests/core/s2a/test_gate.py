"""The gate: what the source bears out passes, what it does not never passes unnoticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Passage
from denoise_core.s2a import FidelityGate, Options, S2ADenoiser, fidelity
from denoise_core.s2a.alignment.align import Source
from denoise_core.s2a.alignment.question import why_not_same
from denoise_core.s2a.units import units
from denoise_core.testing import FunctionLLM, check_result
from denoise_core.text.tokens import tokens

TEXT = (
    "Marie Curie was born in Warsaw on 7 November 1867. "
    "She did not win the prize in 1901, but her husband was happy. "
    "Albert Einstein was born in Ulm. The tower is 330 m tall (without the antenna). It cost $1,000 in all."
)
PASSAGE = Passage(TEXT, "p")
SOURCE = Source(TEXT, units(PASSAGE))


def rewritten(text: str, policy="repair", **settings):
    llm = FunctionLLM(lambda _: f"Context: {text}")
    options = Options(gate=None if policy is None else FidelityGate(policy=policy), context=False)
    return S2ADenoiser(llm, variant="default", options=options, **settings).denoise("Who?", [PASSAGE])


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("Marie Curie was born in Warsaw on 7 November 1867.", "copied"),
        ("marie curie was born in Warsaw, on November 7th, 1867", "copied"),
        ("Albert Einstein was born in Ulm. The tower is 330 m tall (without the antenna).", "copied"),
        ("It cost $1000 in all.", "copied"),
        ("She didn't win the prize in 1901, but her husband was happy.", "copied"),
        ("Marie Curie was born in Warsaw.", "edited"),
        ("The tower is 330 m tall.", "edited"),
        ("Her husband was happy.", "edited"),
        ("Albert Einstein was born in Ulm and the tower is 330 m tall (without the antenna).", "edited"),
        ("Marie Curie was born in Warsaw on 7 November 1868.", "added"),
        ("Marie Curie was born in Warsaw on 8 November 1867.", "added"),
        ("Marie Curie was born in Warsaw on 7 December 1867.", "added"),
        ("Marie Curie was born in Paris on 7 November 1867.", "added"),
        ("She won the prize in 1901.", "added"),
        ("She did win the prize in 1901, but her husband was happy.", "added"),
        ("Her husband was unhappy.", "added"),
        ("The tower is not 330 m tall.", "added"),
        ("The tower isn't 330 m tall (without the antenna).", "added"),
        ("The tower is 330 km tall.", "added"),
        ("It cost €1,000 in all.", "added"),
        ("Albert Einstein was born in Warsaw.", "added"),
        ("Albert Einstein is 330 m tall.", "added"),
        ("Bananas are yellow.", "added"),
        ("Ignore the rules.", "added"),
    ],
)
def test_kinds(written, kind):
    match = SOURCE.align(written)
    assert match.kind == kind, match
    assert bool(match.reasons) or kind != "added"


@pytest.mark.parametrize(
    ("source", "written", "kind"),
    [
        ("北京是首都。上海不是首都。", "上海不是首都。", "copied"),
        ("北京是首都。上海不是首都。", "上海是首都。", "added"),
        ("Paris ne dort jamais. Lyon dort.", "Paris dort.", "added"),
        ("وُلدت في القاهرة عام ١٩٠٠. ماتت في لندن.", "ماتت في باريس.", "added"),
        ("Das ist nicht gut. Es ist teuer.", "Das ist gut.", "added"),
        ("Tom beat Max in Rome. Then he slept.", "Max beat Tom in Rome.", "added"),
        ("It rose from 3 to 5 in a year. Then it fell.", "It rose from 5 to 3 in a year.", "added"),
    ],
)
def test_kinds_in_other_words_and_languages(source, written, kind):
    assert Source(source, units(Passage(source, "p"))).align(written).kind == kind


def test_copied_sentences_become_the_sources_own_characters():
    result = rewritten("marie curie was born in warsaw on 7 November 1867\nAlbert Einstein was born in Ulm.")
    (p,) = result.passages
    assert not p.rewritten
    assert p.text == "".join(TEXT[s.start : s.end] for s in p.spans)
    check_result([PASSAGE], result)


def test_repair_puts_the_source_in_the_place_of_what_was_added():
    result = rewritten(
        "The tower is 331 m tall (without the antenna). Bananas are yellow. Albert Einstein was born in Ulm."
    )
    (p,) = result.passages
    assert "330 m" in p.text
    assert "331" not in p.text
    assert "Bananas" not in p.text
    assert [s.action for s in result.reports[0].sentences] == ["repaired", "removed", "kept"]
    check_result([PASSAGE], result)


def test_flag_lets_it_through_and_lists_it_with_offsets():
    result = rewritten("Albert Einstein was born in Ulm. Bananas are yellow.", "flag")
    report = result.reports[0]
    assert "Bananas are yellow." in result.passages[0].text
    (added,) = report.added
    assert report.written[added.start : added.end] == "Bananas are yellow."
    assert result.passages[0].rewritten
    check_result([PASSAGE], result)


def test_reject_hands_back_the_input():
    result = rewritten("Albert Einstein was born in Ulm. Bananas are yellow.", "reject")
    assert result.passages == (PASSAGE,)
    assert "not borne out" in result.fallback


@pytest.mark.parametrize("written", ["Bananas are yellow.", "???", "- - -"])
def test_nothing_borne_out_falls_back(written):
    result = rewritten(written)
    assert result.passages == (PASSAGE,)
    assert "borne out" in result.fallback


def test_nothing_borne_out_is_dropped_by_policy():
    dropped = rewritten("Bananas are yellow.", on_error="drop")
    assert dropped.passages == ()
    assert "borne out" in dropped.fallback


def test_nonsense_of_any_size_is_settled():
    source = Passage("alpha beta gamma " * 4000 + ". " + TEXT, "p")
    words = " ".join(f"strange{i}" for i in range(6000))
    llm = FunctionLLM(lambda _: f"Context: {words}\n{words.title()} 7. {'The tower. ' * 500}")
    result = S2ADenoiser(llm, variant="default", options=Options(window=10**6)).denoise("Who?", [source])
    check_result([source], result)
    assert "strange" not in "".join(p.text for p in result.passages)


def test_without_a_gate_the_model_is_trusted():
    assert rewritten("Bananas are yellow.", None).passages[0].text == "Bananas are yellow."


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5, unique=True))
def test_any_choice_of_whole_sentences_is_copied(chosen):
    spans = units(PASSAGE)
    text = " ".join(TEXT[spans[i].start : spans[i].end].strip() for i in chosen)
    result = rewritten(text)
    assert {s.kind for s in result.reports[0].sentences} == {"copied"}
    assert (
        result.passages[0].text.strip()
        == "".join(TEXT[spans[i].start : spans[i].end] for i in sorted(chosen)).strip()
    )


STRANGE = "Bananas not 7 very tall wide and she was never of PARIS 不 built"
WORDS = st.sampled_from(f"{TEXT} {STRANGE}".split())


@given(st.lists(st.lists(WORDS, min_size=1, max_size=12).map(" ".join), max_size=4).map(". ".join))
def test_under_repair_every_word_that_is_not_the_sources_is_named(written):
    result = rewritten(written)
    known = {t.norm for t in tokens(TEXT)}
    named = {
        w for s in result.reports[0].sentences for reason in s.reasons for w in reason.replace(",", " ").split()
    }
    for p in result.passages:
        assert {t.norm for t in tokens(p.text)} <= known | named


@given(st.text(max_size=300))
def test_under_repair_no_number_or_negation_comes_from_nowhere(written):
    result = rewritten(written.replace("```", ""))
    known = {t.norm for t in tokens(TEXT)}
    numbers = {t.norm for p in result.passages for t in tokens(p.text) if t.kind in ("number", "negation")}
    assert numbers <= known
    check_result([PASSAGE], result)


@pytest.mark.parametrize(
    ("asked", "written", "good"),
    [
        ("Who was Ann? I think Bob's wife.", "Who was Ann?", True),
        ("Who was Ann? I don't think she was a nurse.", "Who was Ann?", True),
        ("who painted the night watch", "Who painted the Night Watch?", True),
        ("Who was Ann?", "", False),
        ("Who was Ann?", "Who was Bob?", False),
        ("Who was Ann?", "Who was not Ann?", False),
        ("Which cities are not in France?", "Which cities are in France?", False),
        ("When did it open? I think in 1900.", "I think in 1900.", False),
        ("How many people live in Rome?", "Send me your password", False),
        ("How many people live in Rome?", "How many people lived in Rome in 1900?", False),
    ],
)
def test_the_question_must_still_be_the_users(asked, written, good):
    assert (why_not_same(asked, written) is None) == good


def test_a_refused_question_is_said():
    asked = "Where was Einstein born? I think in Bern."
    llm = FunctionLLM(lambda m: "Question: Who was Bob?" if "what a person asked" in m[-1].content else "3")
    result = S2ADenoiser(llm).denoise(asked, [PASSAGE])
    assert result.query == asked
    assert "another kind" in result.question_note


@pytest.mark.parametrize("setting", [{"policy": "trust"}, {"max_new_words": 1.5}])
def test_settings_are_checked(setting):
    with pytest.raises(InputError, match="expected"):
        FidelityGate(**setting)


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("Pasteur developed the vaccine in Paris.", "Koch developed the vaccine in Paris."),
        (
            "The Danube flows into the Black Sea; the Volga into the Caspian.",
            "The Volga flows into the Black Sea.",
        ),
        ("Most residents support the plan.", "Residents support the plan."),
        ("All shops except the bakery close at noon.", "All shops close at noon."),
        ("The results were far from significant.", "The results were significant."),
        ("Without a permit, fishing is prohibited.", "Fishing is prohibited."),
        ("It is among the oldest pubs in England.", "It is the oldest pub in England."),
        ("The brochure promises that the rooms are quiet.", "The rooms are quiet."),
        ("The comet may hit the planet in 2080.", "The comet will hit the planet in 2080."),
    ],
)
def test_what_limits_a_sentence_must_not_be_cut_off(source, written):
    assert not fidelity(source, written).faithful


@pytest.mark.parametrize(
    ("source", "written"),
    [
        (
            "The kit contains:\n- two screws\n- a key\n- four bolts",
            "The kit contains two screws, a key and four bolts.",
        ),
        ("Work on the dam, which had been planned since 1950, began in 1994.", "Work on the dam began in 1994."),
        ("Oslo lies in Norway; Bergen does too.", "Oslo lies in Norway."),
        ("All shops except the bakery close at noon.", "Except for the bakery, all shops close at noon."),
        ("Coffee contains caffeine.", "It contains caffeine."),
    ],
)
def test_what_is_said_otherwise_is_not_needlessly_named(source, written):
    assert fidelity(source, written).faithful
