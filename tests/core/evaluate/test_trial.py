"""`evaluate.comparison`: what is read of a user's file, what is compared, what is recommended, what loads it again."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import ENDDenoiser, InputError, Passage, load_denoiser
from denoise_core.embedded import shared_encoder
from denoise_core.evaluate.comparison import Strategy, evaluate, read_cases
from denoise_core.evaluate.comparison.cases import build_search
from denoise_core.evaluate.comparison.evaluation import summary_lines, table_rows
from denoise_core.evaluate.comparison.figures import (
    paired_difference,
    required_questions,
)
from denoise_core.evaluate.comparison.setting import (
    OriginalOrderScorer,
    denoiser_from_setting,
    read_setting,
    save_setting,
)
from denoise_core.evaluate.datasets import EvaluationCases
from denoise_core.evaluate.metrics import exact_match, token_f1
from denoise_core.question import Question
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.testing import FunctionScorer
from denoise_core.types import Reply

TOWER = "The Eiffel Tower was finished in 1889."
NOISE = [
    "Bananas are rich in potassium.",
    "Chess is a board game.",
    "Lava is hot.",
    "Rust is a colour.",
]


def question(n, gold_at=2):
    texts = [f"{t} {n}" for t in NOISE]
    texts.insert(gold_at, f"Tower {n} was finished in {1800 + n}.")
    passages = tuple(
        Passage(t, f"p{i}", metadata={"source": f"s{i % 2}"})
        for i, t in enumerate(texts)
    )
    return Question(
        f"When was tower {n} finished?",
        passages,
        frozenset({f"p{gold_at}"}),
        (str(1800 + n),),
    )


class YearReader:
    """Answers with the first year that stands in what it is shown, wrongly where a passage is missing."""

    name = "years"

    def __init__(self, fails=()):
        self.fails, self.seen = fails, []

    def answer(self, question, passages):
        self.seen.append(question)
        if question in self.fails:
            raise RuntimeError("the model is away")
        words = " ".join(p.text for p in passages).replace(".", "").split()
        return Reply(next((w for w in words if w.isdigit() and len(w) == 4), "unknown"))


def ways(*names):
    makers = {
        "good": lambda: ENDDenoiser(
            FunctionScorer(lambda q, t: float("Tower" in t)), keep=1
        ),
        "bad": lambda: ENDDenoiser(
            FunctionScorer(lambda q, t: -float("Tower" in t)), keep=1
        ),
    }
    return [Strategy(n, {"kind": "bm25", "tokens": 9}, makers[n]()) for n in names]


def write(path, *records):
    path.write_text(
        "\n".join(r if isinstance(r, str) else json.dumps(r) for r in records), "utf-8"
    )
    return path


def test_a_file_gives_labels_answers_or_neither_and_bad_lines_are_named(tmp_path):
    file = write(
        tmp_path / "q.jsonl",
        {
            "q": "when?",
            "hits": [{"body": TOWER, "key": "a"}, {"body": "Lava."}],
            "truth": "1889",
        },
        "{broken",
        {"q": "no passages?"},
        {
            "q": "gold by id?",
            "hits": [{"body": "x", "key": "a"}, {"body": "y", "key": "b"}],
            "gold": "b",
        },
        {"q": "neither?", "hits": ["one", "two"]},
        {"q": "answer nowhere?", "hits": ["one", "two"], "truth": ["three"]},
        {"q": "unknown gold?", "hits": ["one"], "gold": ["z"]},
        {"q": "labels?", "hits": ["one", "two"], "labels": [0, 1]},
    )
    names = {
        "question": "q",
        "passages": "hits",
        "text": "body",
        "id": "key",
        "answers": "truth",
    }
    found = read_cases(file, columns=names)
    assert [
        (c.line_number, c.gold_from, sorted(c.question.gold)) for c in found.cases
    ] == [
        (1, "answers", ["a"]),
        (4, "labels", ["b"]),
        (5, None, []),
        (6, "answers", []),
        (8, "labels", ["passage-1"]),
    ]
    assert [b.line_number for b in found.rejected_records] == [2, 3, 7]
    assert [(n.line_number, n.reason) for n in found.warnings] == [
        (6, "no answer in the retrieved passages")
    ]


def test_a_file_without_a_usable_line_and_a_foreign_column_are_mistakes(tmp_path):
    file = write(tmp_path / "q.jsonl", {"query": "when?", "passages": ["x"]})
    with pytest.raises(
        InputError, match=r"no question can be used.*'question': expected a text"
    ):
        read_cases(file)
    with pytest.raises(InputError, match="'questions' is not known"):
        read_cases(file, columns={"questions": "query"})


def test_documents_are_cut_and_searched(tmp_path):
    pages = [
        Passage(f"# Tower\n\n{TOWER}\n\n" + "The sea is deep. " * 90, "tower.md"),
        Passage("Lava.", "lava.md"),
    ]
    file = write(
        tmp_path / "q.jsonl",
        {"question": "When was the Eiffel Tower finished?", "answers": ["1889"]},
    )
    (case,) = read_cases(file, search_passages=build_search(pages, top_k=3)).cases
    assert 1 <= len(case.question.passages) <= 3
    (gold,) = (p for p in case.question.passages if p.id in case.question.gold)
    assert TOWER in gold.text
    assert gold.metadata["source"] == "tower.md"
    assert gold.text in pages[0].text


def test_figures_count_what_is_kept_answered_harmed_and_helped():
    found = evaluate(
        [question(n) for n in range(10, 30)], ways("good", "bad"), answerer=YearReader()
    )
    good, bad, whole = (
        found.figures_for("good"),
        found.figures_for("bad"),
        found.figures_for("everything"),
    )
    assert (whole.gold_recall.value, whole.accuracy.value, whole.kept_fraction) == (
        1,
        1,
        1,
    )
    assert (
        good.gold_recall.value,
        good.accuracy.value,
        good.accuracy_change.harmed,
        good.accuracy_change.helped,
    ) == (1, 1, (), ())
    assert (bad.gold_recall.value, bad.accuracy.value, bad.accuracy_change.harmed) == (
        0,
        0,
        tuple(range(1, 21)),
    )
    assert bad.accuracy_change.net.value == -1
    assert good.recall_curve[0][1] <= good.recall_curve[-1][1] == 1
    assert 0 < good.kept_tokens < whole.kept_tokens
    assert found.recommendation.name == "good"


def test_where_the_best_way_costs_answers_everything_is_recommended():
    class NeedsAll(YearReader):
        def answer(self, question, passages):
            return (
                super().answer(question, passages)
                if len(passages) == 5
                else Reply("unknown")
            )

    found = evaluate(
        [question(n) for n in range(10, 30)], ways("good"), answerer=NeedsAll()
    )
    assert found.recommendation.name == "everything"
    assert "costs right answers: -100.0 points" in found.recommendation.reason


def test_no_difference_is_said_as_such_and_how_many_questions_would_tell():
    twins = {
        n: Strategy(n, {"kind": "bm25", "tokens": 9}, ways("good")[0].denoiser)
        for n in ("one", "two")
    }
    found = evaluate([question(n) for n in range(10, 20)], list(twins.values()))
    assert "no difference found between one and two in gold kept" in str(
        found.comparisons[0]
    )
    assert "the same on every question" in str(found.comparisons[0])
    assert not found.comparisons[0].is_significant
    assert required_questions([0.0, 0.0]) is None
    assert required_questions(
        np.tile([1.0, 0.0, 0.0, 0.0, -0.5], 10)
    ) > required_questions(np.tile([1.0, 0.0, 0.0, 0.0, 0.0], 10))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_paired_intervals_hold_their_mean_and_turn_with_their_sides(pairs):
    first, second = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    one, two = paired_difference(first, second), paired_difference(second, first)
    assert one.low <= one.value <= one.high
    assert one.value == pytest.approx(-two.value)
    assert (one.low, one.high) == pytest.approx((-two.high, -two.low), abs=0.2)


def test_a_model_that_fails_on_some_questions_is_counted_and_the_rest_goes_on():
    asked = [question(n) for n in range(10, 16)]
    found = evaluate(asked, ways("good"), answerer=YearReader(fails={asked[2].text}))
    for figures in found.figures:
        assert (figures.questions, figures.failures) == (
            5,
            ((3, "RuntimeError: the model is away"),),
        )
    assert any(
        "failed on 1 questions, first line 3" in line for line in summary_lines(found)
    )


def test_a_mistake_raises():
    class Mistaken(YearReader):
        def answer(self, question, passages):
            raise InputError("a wrong setting")

    with pytest.raises(InputError, match="a wrong setting"):
        evaluate([question(10)], ways("good"), answerer=Mistaken())
    with pytest.raises(InputError, match="no question"):
        evaluate(EvaluationCases(()))


def test_the_ways_of_equal_length_keep_at_most_what_the_default_keeps_on_average():
    found = evaluate([question(n) for n in range(10, 14)])
    assert [f.name for f in found.figures] == [
        "everything",
        "default",
        "first",
        "BM25",
        "cosine",
    ]
    assert found.budget == round(found.figures_for("default").kept_tokens)
    assert all(
        found.figures_for(n).kept_tokens <= found.budget for n in ("first", "BM25", "cosine")
    )
    assert found.figures_for("everything").kept_fraction == 1
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["questions"] == 4


def test_a_denoiser_of_ones_own_and_a_setting_are_ways():
    found = evaluate(
        [question(n) for n in range(10, 13)],
        {"mine": ways("bad")[0].denoiser, "k": {"kind": "first", "tokens": 5}},
    )
    assert {"mine", "k", "default"} <= {f.name for f in found.figures}
    assert found.recommendation.name != "mine"  # it cannot be written down


def test_a_setting_that_is_saved_loads_as_the_same_denoiser(tmp_path):
    found = evaluate([question(n) for n in range(10, 14)])
    file = found.save_setting(tmp_path / "denoise.json")
    record = json.loads(file.read_text("utf-8"))
    assert record["denoiser"] == dict(found.recommendation.setting)
    assert record["evidence"]["figures"]["name"] == found.recommendation.name
    own = question(20)
    assert (
        load_denoiser(file).denoise(own.text, own.passages).passages
        == denoiser_from_setting(found.recommendation.setting)
        .denoise(own.text, own.passages)
        .passages
    )
    with pytest.raises(InputError, match="says itself how much is kept"):
        load_denoiser(file, keep=3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "holds no setting"),
        ("{}", "no setting of this release"),
        (
            '{"format": "rag-denoise setting", "version": 1, "denoiser": {"kind": "magic"}}',
            "must name a kind",
        ),
    ],
)
def test_a_foreign_file_is_refused(tmp_path, content, message):
    (tmp_path / "denoise.json").write_text(content)
    with pytest.raises(InputError, match=message):
        load_denoiser(tmp_path / "denoise.json")


def test_a_folder_is_written_as_seen_from_the_file_and_found_again(tmp_path):
    (tmp_path / "probe").mkdir()
    file = save_setting(
        tmp_path / "denoise.json",
        {"kind": "probe", "folder": str(tmp_path / "probe"), "tokens": 9},
        {},
    )
    assert json.loads(file.read_text("utf-8"))["denoiser"]["folder"] == "probe"
    assert Path(read_setting(file)["folder"]) == (tmp_path / "probe").resolve()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"kind": "bm25"}, "tokens: expected a whole number"),
        ({"kind": "s2a"}, "pass llm="),
        ({"kind": "fitted"}, "folder: expected a text"),
        ({"kind": "?"}, "is not known"),
    ],
)
def test_a_setting_that_cannot_be_used_says_why(setting, message):
    with pytest.raises(InputError, match=message):
        denoiser_from_setting(setting)


def test_everything_keeps_everything_and_first_keeps_from_the_front():
    own = question(11)
    whole = denoiser_from_setting({"kind": "everything"}).denoise(
        own.text, own.passages
    )
    assert whole.passages == own.passages or [p.text for p in whole.passages] == [
        p.text for p in own.passages
    ]
    tokens = shared_encoder().count_tokens(own.passages[0].text)
    (only,) = (
        denoiser_from_setting({"kind": "first", "tokens": tokens})
        .denoise(own.text, own.passages)
        .passages
    )
    assert only.id == "p0"
    assert OriginalOrderScorer().score("q", ["a", "b"]).tolist() == [0, -1]
    assert math.isfinite(BM25Scorer().score("tower", ["tower"])[0])


def test_tables_have_a_row_for_each_way_and_leave_out_what_nobody_can_tell():
    unlabelled = [
        Question(q.text, q.passages, frozenset()) for q in map(question, range(10, 13))
    ]
    found = evaluate(unlabelled)
    assert table_rows(found)[0] == ["strategy", "tokens", "s"]
    assert len(table_rows(found, short=True)) == 1 + len(found.figures)
    assert found.recommendation.name == "default"
    assert "nothing was measured" in found.recommendation.reason


@pytest.mark.parametrize(
    ("said", "answers", "exact", "f1"),
    [
        ("The Eiffel Tower", ["eiffel tower"], True, 1.0),
        ("eiffel tower in Paris", ["Eiffel Tower"], False, 2 / 3),
        ("", ["x"], False, 0.0),
        ("x", [], False, 0.0),
    ],
)
def test_answers_are_compared_by_squads_rules(said, answers, exact, f1):
    assert exact_match(said, answers) is exact
    assert token_f1(said, answers) == pytest.approx(f1)
