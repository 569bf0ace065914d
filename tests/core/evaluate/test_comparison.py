"""`evaluate.comparison`: reading a user's file, comparing, recommending, and loading the setting again."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import ENDDenoiser, InputError, Passage, load_denoiser
from denoise_core.embedded import shared_encoder
from denoise_core.evaluate.comparison import Strategy, evaluate, read_cases
from denoise_core.evaluate.comparison.cases import _fuse_rankings, build_search
from denoise_core.evaluate.comparison.evaluation import summary_lines, table_rows
from denoise_core.evaluate.comparison.figures import paired_difference
from denoise_core.evaluate.comparison.setting import (
    OriginalOrderScorer,
    denoiser_from_setting,
    read_setting,
    save_setting,
)
from denoise_core.evaluate.datasets import (
    NEEDS_NOT_THERE,
    EvaluationCases,
    parse_cases,
)
from denoise_core.evaluate.metrics import exact_match
from denoise_core.question import Question
from denoise_core.testing import FunctionScorer
from denoise_core.types import Reply, Span

TOWER = "The Eiffel Tower was finished in 1889."
NOISE = [
    "Bananas are rich in potassium.",
    "Chess is a board game.",
    "Lava is hot.",
    "Rust is a colour.",
]


def question(n, gold_at=2):
    texts = [f"{text} {n}" for text in NOISE]
    texts.insert(gold_at, f"Tower {n} was finished in {1800 + n}.")
    passages = tuple(
        Passage(text, f"p{index}", metadata={"source": f"s{index % 2}"})
        for index, text in enumerate(texts)
    )
    return Question(
        f"When was tower {n} finished?",
        passages,
        frozenset({f"p{gold_at}"}),
        (str(1800 + n),),
    )


class YearReader:
    """Answers with the first year in the passages, wrongly where a passage is missing."""

    name = "years"

    def __init__(self, fails=()):
        self.fails, self.seen = fails, []

    def answer(self, question, passages):
        self.seen.append(question)
        if question in self.fails:
            raise RuntimeError("the model is away")
        words = " ".join(p.text for p in passages).replace(".", "").split()
        return Reply(next((w for w in words if w.isdigit() and len(w) == 4), "unknown"))


def ranking(name, sign):
    """A strategy that keeps the chunk with the tower, or one without it."""
    scorer = FunctionScorer(lambda query, text: sign * float("Tower" in text))
    return Strategy(name, {"kind": "bm25", "tokens": 9}, ENDDenoiser(scorer, keep=1))


GOOD, BAD = ranking("good", 1), ranking("bad", -1)


def write(path, *records):
    path.write_text(
        "\n".join(r if isinstance(r, str) else json.dumps(r) for r in records), "utf-8"
    )
    return path


def test_a_file_gives_labels_answers_or_neither_and_bad_lines_are_named(tmp_path):
    path = write(
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
        {"q": "no answer?", "hits": ["one", "two"], "truth": ["three"]},
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
    cases = read_cases(path, columns=names)
    assert [
        (case.line_number, case.gold_from, sorted(case.question.gold))
        for case in cases.cases
    ] == [
        (1, "answers", ["a"]),
        (4, "labels", ["b"]),
        (5, None, []),
        (6, "answers", []),
        (8, "labels", ["passage-1"]),
    ]
    assert [problem.line_number for problem in cases.rejected_records] == [2, 3, 7]
    assert [(warning.line_number, warning.reason) for warning in cases.warnings] == [
        (6, "no answer in the retrieved passages")
    ]


def test_a_file_without_a_usable_line_and_a_foreign_column_are_mistakes(tmp_path):
    path = write(tmp_path / "q.jsonl", {"query": "when?", "passages": ["x"]})
    with pytest.raises(
        InputError, match=r"no question can be used.*'question': expected a text"
    ):
        read_cases(path)
    with pytest.raises(InputError, match="'questions' is not known"):
        read_cases(path, columns={"questions": "query"})


def test_documents_are_cut_and_searched(tmp_path):
    pages = [
        Passage(f"# Tower\n\n{TOWER}\n\n" + "The sea is deep. " * 90, "tower.md"),
        Passage("Lava.", "lava.md"),
    ]
    path = write(
        tmp_path / "q.jsonl",
        {"question": "When was the Eiffel Tower finished?", "answers": ["1889"]},
    )
    (case,) = read_cases(path, search_passages=build_search(pages, top_k=3)).cases
    assert 1 <= len(case.question.passages) <= 3
    (gold,) = (p for p in case.question.passages if p.id in case.question.gold)
    assert TOWER in gold.text
    assert gold.metadata["source"] == "tower.md"
    assert gold.text in pages[0].text


def test_rankings_are_fused_by_rank_and_equal_texts_are_one():
    fused = _fuse_rankings(([0, 1], [2, 1, 3]), ["a", "b", "b", "c"])
    assert fused == [(1, 1 / 62 + 1 / 61), (0, 1 / 61), (3, 1 / 63)]


def test_figures_count_what_is_kept_answered_harmed_and_helped():
    questions = [question(n) for n in range(10, 30)]
    evaluation = evaluate(questions, [GOOD, BAD], answerer=YearReader())
    everything, good, bad = evaluation.figures
    assert (everything.name, everything.kept_fraction) == ("everything", 1)
    recalls = [figures.gold_recall.value for figures in evaluation.figures]
    accuracies = [figures.accuracy.value for figures in evaluation.figures]
    assert recalls == accuracies == [1, 1, 0]
    assert (good.accuracy_change.harmed, good.accuracy_change.helped) == ((), ())
    assert bad.accuracy_change.harmed == tuple(range(1, 21))
    assert bad.accuracy_change.net.value == -1
    assert 0 < good.kept_tokens < everything.kept_tokens
    assert evaluation.recommendation.name == "good"


def test_where_the_best_strategy_costs_answers_everything_is_recommended():
    class NeedsAll(YearReader):
        def answer(self, question, passages):
            if len(passages) < 5:
                return Reply("unknown")
            return super().answer(question, passages)

    questions = [question(n) for n in range(10, 30)]
    recommendation = evaluate(questions, [GOOD], answerer=NeedsAll()).recommendation
    assert recommendation.name == "everything"
    assert "costs right answers: -100.0 points" in recommendation.reason


def test_equal_strategies_show_no_difference():
    twins = [replace(GOOD, name=name) for name in ("one", "two")]
    evaluation = evaluate([question(n) for n in range(10, 20)], twins)
    (comparison,) = evaluation.comparisons
    sentence = str(comparison)
    assert "no difference found between one and two in needed kept" in sentence
    assert not comparison.is_significant


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_paired_intervals_hold_their_mean_and_turn_with_their_sides(pairs):
    first, second = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    one, two = paired_difference(first, second), paired_difference(second, first)
    assert one.low <= one.value <= one.high
    assert one.value == pytest.approx(-two.value)
    assert (one.low, one.high) == pytest.approx((-two.high, -two.low), abs=0.2)


def test_a_model_that_fails_on_some_questions_is_counted_and_the_rest_goes_on():
    questions = [question(n) for n in range(10, 16)]
    reader = YearReader(fails={questions[2].text})
    evaluation = evaluate(questions, [GOOD], answerer=reader)
    failures = ((3, "RuntimeError: the model is away"),)
    for figures in evaluation.figures:
        assert (figures.questions, figures.failures) == (5, failures)
    assert "failed on 1 questions, first line 3" in " ".join(summary_lines(evaluation))


def test_a_mistake_raises():
    class Mistaken(YearReader):
        def answer(self, question, passages):
            raise InputError("a wrong setting")

    with pytest.raises(InputError, match="a wrong setting"):
        evaluate([question(10)], [GOOD], answerer=Mistaken())
    with pytest.raises(InputError, match="no question"):
        evaluate(EvaluationCases(()))


def test_strategies_of_equal_length_keep_at_most_what_the_default_keeps():
    evaluation = evaluate([question(n) for n in range(10, 14)])
    kept = {figures.name: figures.kept_tokens for figures in evaluation.figures}
    assert list(kept) == ["everything", "default", "first", "BM25", "cosine"]
    assert evaluation.budget == round(kept["default"])
    assert max(kept["first"], kept["BM25"], kept["cosine"]) <= evaluation.budget
    record = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    assert record["questions"] == 4


def test_a_denoiser_and_a_setting_are_strategies():
    sources = {"mine": BAD.denoiser, "k": {"kind": "first", "tokens": 5}}
    evaluation = evaluate([question(n) for n in range(10, 13)], sources)
    assert {"mine", "k", "default"} <= {row.name for row in evaluation.figures}
    # A denoiser that only Python knows cannot be written down.
    assert evaluation.recommendation.name != "mine"


def test_a_saved_setting_loads_as_the_same_denoiser(tmp_path):
    evaluation = evaluate([question(n) for n in range(10, 14)])
    path = evaluation.save_setting(tmp_path / "denoise.json")
    setting = dict(evaluation.recommendation.setting)
    record = json.loads(path.read_text("utf-8"))
    assert record["denoiser"] == setting
    assert record["evidence"]["figures"]["name"] == evaluation.recommendation.name
    results = [
        denoiser.denoise(question(20).text, question(20).passages)
        for denoiser in (load_denoiser(path), denoiser_from_setting(setting))
    ]
    assert results[0].passages == results[1].passages
    with pytest.raises(InputError, match="says itself how much is kept"):
        load_denoiser(path, keep=3)


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


def test_a_cross_encoder_that_cannot_be_loaded_is_an_error_before_the_first_question(
    tmp_path,
):
    pytest.importorskip("sentence_transformers")
    setting = {"kind": "cross-encoder", "model": "/no/such/model", "tokens": 50}
    path = save_setting(tmp_path / "denoise.json", setting, {})
    with pytest.raises(InputError, match="model='/no/such/model': no such model"):
        load_denoiser(path)


def test_a_folder_is_written_as_seen_from_the_file_and_found_again(tmp_path):
    (tmp_path / "probe").mkdir()
    path = save_setting(
        tmp_path / "denoise.json",
        {"kind": "fitted", "folder": str(tmp_path / "probe")},
        {},
    )
    assert json.loads(path.read_text("utf-8"))["denoiser"]["folder"] == "probe"
    assert Path(read_setting(path)["folder"]) == (tmp_path / "probe").resolve()


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
    query, passages = question(11).text, question(11).passages

    def kept_by(**setting):
        return denoiser_from_setting(setting).denoise(query, passages).passages

    assert [p.text for p in kept_by(kind="everything")] == [p.text for p in passages]
    token_count = shared_encoder().count_tokens(passages[0].text)
    assert [p.id for p in kept_by(kind="first", tokens=token_count)] == ["p0"]
    assert OriginalOrderScorer().score("q", ["a", "b"]).tolist() == [0, -1]


def test_needed_texts_must_all_be_kept_with_the_title_that_names_them():
    text = "# Pump 260\n\n| Noise | 58 dB |"
    record = {
        "question": "How loud is pump 260?",
        "passages": [{"id": "a", "text": text}, {"id": "b", "text": "Rain fell."}],
        "needs": ["Noise | 58 dB", {"text": "#  Pump\n260"}],
    }

    fact_start = text.index("| Noise")

    def cut_there(document):
        middle = fact_start if document.text == text else len(document.text)
        edges = sorted({0, middle, len(document.text)})
        return [Span(document.id, *pair) for pair in pairwise(edges)]

    loud_first = FunctionScorer(lambda query, piece: float("Noise" in piece))
    fact_alone = ENDDenoiser(loud_first, keep=1, chunker=cut_there)
    both = ENDDenoiser(loud_first, keep=1)
    evaluation = evaluate([record] * 3, {"both": both, "fact alone": fact_alone})
    assert evaluation.figures_for("both").needed_kept.value == 1
    assert evaluation.figures_for("fact alone").needed_kept.value == 0
    assert "by all texts that they need" in " ".join(summary_lines(evaluation))


def test_an_answer_in_a_dropped_part_of_a_gold_passage_is_not_kept():
    asked = [question(n) for n in (10, 11)]
    shortest_first = FunctionScorer(lambda query, piece: -float(len(piece)))
    shortest = ENDDenoiser(shortest_first, keep=1)
    evaluation = evaluate(asked, {"shortest": shortest})
    assert evaluation.figures_for("everything").needed_kept.value == 1
    assert evaluation.figures_for("shortest").needed_kept.value == 0


def test_below_the_bar_everything_is_recommended():
    evaluation = evaluate(
        [question(n, gold_at=4) for n in range(10, 30)],
        [Strategy("front", {"kind": "first", "tokens": 12})],
    )
    assert evaluation.recommendation.name == "everything"
    assert "no strategy keeps 95%" in evaluation.recommendation.reason


def test_a_peer_that_is_as_good_and_cheaper_is_recommended():
    strategies = [
        Strategy("default", {"kind": "default", "keep": "auto"}),
        Strategy("BM25", {"kind": "bm25", "tokens": "same"}),
    ]
    evaluation = evaluate([question(n) for n in range(10, 20)], strategies)
    assert evaluation.recommendation.name == "BM25"
    assert "cheaper than default" in evaluation.recommendation.reason


def test_what_the_passages_never_had_counts_for_no_strategy():
    missing = {
        "question": "How loud is it?",
        "passages": ["Rain fell.", "It is 58 dB."],
        "needs": ["99 dB"],
        "answers": ["12 dB"],
        "gold": [1],
    }
    cases = parse_cases([(1, missing)])
    assert [problem.reason for problem in cases.warnings] == [NEEDS_NOT_THERE]
    evaluation = evaluate(cases)
    assert evaluation.figures_for("everything").needed_kept.value == 1
    lines = " ".join(summary_lines(evaluation))
    assert "by gold passages of which something is kept" in lines


def test_a_retriever_for_questions_with_passages_is_refused():
    class NeverAsked:
        def retrieve(self, query):
            raise AssertionError

    with pytest.raises(InputError, match="retriever= finds"):
        evaluate([question(10)], retriever=NeverAsked())


def test_everything_cannot_be_replaced():
    with pytest.raises(InputError, match="take another name"):
        evaluate([question(10)], {"everything": ENDDenoiser(OriginalOrderScorer())})


def test_the_users_own_retriever_finds_the_passages():
    class YearRetriever:
        def retrieve(self, query):
            return question(int(query.split()[3])).passages

    records = [
        {"question": question(n).text, "answers": [str(1800 + n)]} for n in (10, 11)
    ]
    evaluation = evaluate(records, retriever=YearRetriever())
    assert evaluation.questions == 2
    assert evaluation.figures_for("everything").needed_kept.value == 1
    with pytest.raises(InputError, match="no 'passages'"):
        evaluate(records)


def test_the_plot_has_a_point_and_a_name_for_each_strategy(tmp_path):
    questions = [question(n) for n in (10, 11)]
    evaluation = evaluate(questions, {"<mine>": GOOD})
    page = evaluation.save_page(tmp_path / "report.html").read_text("utf-8")
    picture = ElementTree.fromstring(re.search("<svg.*?</svg>", page, re.DOTALL)[0])
    texts = [element.text for element in picture.iterfind(".//{*}text")]
    points = list(picture.iterfind(".//{*}circle"))
    assert len(points) == len(evaluation.figures)
    for figures in evaluation.figures:
        assert any(text.startswith(figures.name) for text in texts)


def test_tables_have_a_row_per_strategy_and_no_empty_columns():
    unlabelled = [replace(question(n), gold=frozenset(), answers=()) for n in (10, 11)]
    evaluation = evaluate(unlabelled)
    assert table_rows(evaluation)[0] == ["strategy", "tokens", "s"]
    assert len(table_rows(evaluation, short=True)) == 1 + len(evaluation.figures)
    assert evaluation.recommendation.name == "everything"
    assert "nothing was measured" in evaluation.recommendation.reason


@pytest.mark.parametrize(
    ("reply_text", "answers", "exact"),
    [
        ("The Eiffel Tower", ["eiffel tower"], True),
        ("eiffel tower in Paris", ["Eiffel Tower"], False),
        ("", ["x"], False),
        ("x", [], False),
    ],
)
def test_answers_are_compared_by_squads_rules(reply_text, answers, exact):
    assert exact_match(reply_text, answers) is exact
