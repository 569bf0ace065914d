"""`evaluate.comparison`: reading a user's file, comparing, recommending, and loading the setting again."""

import json
import re
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from json_files import write_json_lines

from denoise_core import ENDDenoiser, InputError, Passage, load_denoiser
from denoise_core.embedded import shared_encoder
from denoise_core.evaluate.comparison import Strategy, evaluate, read_cases
from denoise_core.evaluate.comparison.cases import build_search
from denoise_core.evaluate.comparison.evaluation import summary_lines, table_rows
from denoise_core.evaluate.comparison.setting import (
    denoiser_from_setting,
    describe_use,
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
from denoise_core.testing import FunctionLLM, FunctionScorer
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
    passages = tuple(Passage(text, f"p{index}") for index, text in enumerate(texts))
    gold, answers = frozenset({f"p{gold_at}"}), (str(1800 + n),)
    return Question(f"When was tower {n} finished?", passages, gold, answers)


TOWERS = [question(n) for n in range(10, 30)]


class YearReader:
    """Answers with the first year in the passages, wrongly where a passage is missing."""

    name = "years"

    def answer(self, question, passages):
        words = " ".join(p.text for p in passages).replace(".", "").split()
        return Reply(next((w for w in words if w.isdigit() and len(w) == 4), "unknown"))


def ranking(name, sign):
    """A strategy that keeps the chunk with the tower, or one without it."""
    scorer = FunctionScorer(lambda query, text: sign * float("Tower" in text))
    return Strategy(name, {"kind": "bm25", "tokens": 9}, ENDDenoiser(scorer, keep=1))


GOOD, BAD = ranking("good", 1), ranking("bad", -1)


def test_a_file_gives_labels_answers_or_neither_and_bad_lines_are_named(tmp_path):
    with_keys = [{"body": TOWER, "key": "a"}, {"body": "y", "key": "b"}]
    plain = {"q": "plain?", "hits": ["one", "two"]}
    path = write_json_lines(
        tmp_path / "q.jsonl",
        {"q": "when?", "hits": with_keys, "truth": "1889"},
        "{broken",
        {"q": "no passages?"},
        {"q": "gold by id?", "hits": with_keys, "gold": "b"},
        plain,
        plain | {"truth": ["three"]},
        plain | {"gold": ["z"]},
        plain | {"labels": [0, 1]},
    )
    ours = ("question", "passages", "text", "id", "answers")
    theirs = ("q", "hits", "body", "key", "truth")
    cases = read_cases(path, columns=dict(zip(ours, theirs, strict=True)))
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
    assert [problem.line_number for problem in cases.problems] == [2, 3, 6, 7]
    assert cases.problems[2].reason == "no answer in the retrieved passages"


def test_a_file_without_a_usable_line_and_a_foreign_column_are_mistakes(tmp_path):
    record = {"query": "when?", "passages": ["x"]}
    path = write_json_lines(tmp_path / "q.jsonl", record)
    with pytest.raises(
        InputError, match=r"no question can be used.*'question': expected a text"
    ):
        read_cases(path)
    with pytest.raises(InputError, match="'questions' is not known"):
        read_cases(path, columns={"questions": "query"})


def test_documents_are_cut_and_searched(tmp_path):
    page = f"# Tower\n\n{TOWER}\n\n" + "The sea is deep. " * 90
    search = build_search(
        [Passage(page, "tower.md"), Passage("Lava.", "lava.md")], top_k=3
    )
    record = {"question": "When was the Eiffel Tower finished?", "answers": ["1889"]}
    path = write_json_lines(tmp_path / "q.jsonl", record)
    (case,) = read_cases(path, search_passages=search).cases
    assert 1 <= len(case.question.passages) <= 3
    (gold,) = (p for p in case.question.passages if p.id in case.question.gold)
    assert TOWER in gold.text
    assert gold.metadata["source"] == "tower.md"
    assert gold.text in page


def test_figures_count_what_is_kept_answered_harmed_and_helped():
    evaluation = evaluate(TOWERS, [GOOD, BAD], answerer=YearReader())
    everything, good, bad = evaluation.figures
    assert (everything.name, everything.kept_fraction) == ("everything", 1)
    shares = [figures.needed_kept.value for figures in evaluation.figures]
    accuracies = [figures.accuracy.value for figures in evaluation.figures]
    assert shares == accuracies == [1, 1, 0]
    assert (good.accuracy_change.harmed, good.accuracy_change.helped) == ((), ())
    assert bad.accuracy_change.harmed == tuple(range(1, 21))
    assert bad.accuracy_change.net.value == -1
    assert 0 < good.kept_tokens < everything.kept_tokens
    assert evaluation.recommendation.name == "good"


def test_where_the_best_strategy_costs_answers_everything_is_recommended():
    class NeedsAll(YearReader):
        def answer(self, question, passages):
            return super().answer(question, passages if len(passages) == 5 else ())

    recommendation = evaluate(TOWERS, [GOOD], answerer=NeedsAll()).recommendation
    assert recommendation.name == "everything"
    assert "costs right answers: -100.0 points" in recommendation.reason


class FailingReader(YearReader):
    def __init__(self, error):
        self.error = error

    def answer(self, question, passages):
        if question == TOWERS[2].text:
            raise self.error
        return super().answer(question, passages)


def test_a_model_that_fails_on_some_questions_is_counted_and_the_rest_goes_on():
    reader = FailingReader(RuntimeError("the model is away"))
    evaluation = evaluate(TOWERS[:6], [GOOD], answerer=reader)
    failures = ((3, "RuntimeError: the model is away"),)
    for figures in evaluation.figures:
        assert (figures.questions, figures.failures) == (5, failures)
        assert figures.needed_kept.count == 6, "what was kept is known all the same"
    assert "failed on 1 questions, first line 3" in " ".join(summary_lines(evaluation))


def test_what_a_failed_denoiser_passed_on_is_no_figure_of_its():
    def fail(messages):
        raise ConnectionError("the model is away")

    s2a = Strategy("S2A", {"kind": "s2a", "variant": "select"})
    reader = YearReader()
    evaluation = evaluate(TOWERS[:6], [s2a], answerer=reader, llm=FunctionLLM(fail))
    figures = evaluation.figures_for("S2A")
    assert (figures.questions, len(figures.failures)) == (0, 6)
    assert figures.needed_kept is None
    assert figures.accuracy is None
    assert evaluation.recommendation.name == "everything"
    assert "S2A failed" in evaluation.recommendation.reason


def test_a_mistake_raises():
    reader = FailingReader(InputError("a wrong setting"))
    with pytest.raises(InputError, match="a wrong setting"):
        evaluate(TOWERS[:6], [GOOD], answerer=reader)
    with pytest.raises(InputError, match="no question"):
        evaluate(EvaluationCases(()))


def test_strategies_of_equal_length_keep_at_most_what_the_default_keeps():
    evaluation = evaluate(TOWERS[:4])
    kept = {figures.name: figures.kept_tokens for figures in evaluation.figures}
    assert list(kept) == ["everything", "default", "first", "BM25", "cosine"]
    assert evaluation.budget == round(kept["default"])
    assert max(kept["first"], kept["BM25"], kept["cosine"]) <= evaluation.budget
    record = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    assert record["questions"] == 4


def test_a_denoiser_and_a_setting_are_strategies():
    sources = {"mine": BAD.denoiser, "k": {"kind": "first", "tokens": 5}}
    with pytest.raises(InputError, match="take another name"):
        evaluate(TOWERS[:1], {"everything": BAD.denoiser})
    evaluation = evaluate(TOWERS[:3], sources)
    assert {"mine", "k", "default"} <= {row.name for row in evaluation.figures}
    # A denoiser that only Python knows cannot be written down.
    assert evaluation.recommendation.name != "mine"


def test_a_saved_setting_loads_as_the_same_denoiser(tmp_path):
    evaluation = evaluate(TOWERS[:4])
    path = evaluation.save_setting(tmp_path / "denoise.json")
    setting = dict(evaluation.recommendation.setting)
    record = json.loads(path.read_text("utf-8"))
    assert record["denoiser"] == setting
    assert record["evidence"]["reason"] == evaluation.recommendation.reason
    unseen = question(40)
    loaded, built = [
        denoiser.denoise(unseen.text, unseen.passages).passages
        for denoiser in (load_denoiser(path), denoiser_from_setting(setting))
    ]
    assert loaded == built
    with pytest.raises(InputError, match="says itself how much is kept"):
        load_denoiser(path, keep=3)


HEADER = '"format": "rag-denoise setting", "version": 1'


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", f'{{{HEADER}, "denoiser": {{"kind": "magic"}}}}']
)
def test_a_foreign_file_is_refused(tmp_path, content):
    (tmp_path / "denoise.json").write_text(content)
    with pytest.raises(InputError, match="holds no setting, as 'rag-denoise evaluate'"):
        load_denoiser(tmp_path / "denoise.json")


def test_a_folder_is_written_as_seen_from_the_file_and_found_again(tmp_path):
    probe = tmp_path / "probe"
    setting = {"kind": "fitted", "folder": str(probe)}
    path = save_setting(tmp_path / "denoise.json", setting, {})
    assert json.loads(path.read_text("utf-8"))["denoiser"]["folder"] == "probe"
    assert Path(read_setting(path)["folder"]) == probe.resolve()


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
    query, passages = TOWERS[1].text, TOWERS[1].passages

    def kept_by(**setting):
        return denoiser_from_setting(setting).denoise(query, passages).passages

    assert [p.text for p in kept_by(kind="everything")] == [p.text for p in passages]
    token_count = shared_encoder().count_tokens(passages[0].text)
    assert [p.id for p in kept_by(kind="first", tokens=token_count)] == ["p0"]


def test_a_setting_comes_with_a_line_to_type(tmp_path):
    setting = {"kind": "first", "tokens": 9}
    path = save_setting(tmp_path / "denoise.json", setting, {})
    _, _, code = describe_use(setting, path).partition("order: ")
    imports, _, expression = code.partition("; ")
    names = {"query": TOWERS[0].text, "passages": TOWERS[0].passages}
    exec(imports, names)
    assert eval(expression, names).passages
    assert shlex.split(describe_use({"kind": "s2a"}, "my denoise.json"))[3::6] == [
        "my denoise.json",
        "http://host:port/v1#name",
    ]


def test_needed_texts_must_all_be_kept_with_the_title_that_names_them():
    text = "# Pump 260\n\n| Noise | 58 dB |"
    record = {
        "question": "How loud is pump 260?",
        "passages": [text, "Rain fell."],
        "needs": ["Noise | 58 dB", "#  Pump\n260"],
    }

    def cut_there(document):
        fact_start = document.text.find("| Noise")
        edges = sorted({0, max(0, fact_start), len(document.text)})
        return [Span(document.id, *pair) for pair in pairwise(edges)]

    loud_first = FunctionScorer(lambda query, piece: float("Noise" in piece))
    fact_alone = ENDDenoiser(loud_first, keep=1, chunker=cut_there)
    both = ENDDenoiser(loud_first, keep=1)
    evaluation = evaluate([record] * 3, {"both": both, "fact alone": fact_alone})
    assert evaluation.figures_for("both").needed_kept.value == 1
    assert evaluation.figures_for("fact alone").needed_kept.value == 0
    assert "by all texts that they need" in " ".join(summary_lines(evaluation))


def test_an_answer_in_a_dropped_part_of_a_gold_passage_is_not_kept():
    shortest_first = FunctionScorer(lambda query, piece: -float(len(piece)))
    shortest = ENDDenoiser(shortest_first, keep=1)
    evaluation = evaluate(TOWERS[:2], {"shortest": shortest})
    assert evaluation.figures_for("everything").needed_kept.value == 1
    assert evaluation.figures_for("shortest").needed_kept.value == 0


def test_below_the_bar_everything_is_recommended():
    questions = [question(n, gold_at=4) for n in range(20)]
    front = Strategy("front", {"kind": "first", "tokens": 12})
    recommendation = evaluate(questions, [front]).recommendation
    assert recommendation.name == "everything"
    assert "no strategy keeps 95%" in recommendation.reason


def test_a_peer_that_is_as_good_and_cheaper_is_recommended():
    strategies = [
        Strategy("default", {"kind": "default", "keep": "auto"}),
        Strategy("BM25", {"kind": "bm25", "tokens": "same"}),
    ]
    recommendation = evaluate(TOWERS[:10], strategies).recommendation
    assert recommendation.name == "BM25"
    assert "no difference was found from default: of these" in recommendation.reason


def test_what_the_passages_never_had_counts_for_no_strategy():
    missing = {
        "question": "How loud is it?",
        "passages": ["Rain fell.", "It is 58 dB."],
        "needs": ["99 dB"],
        "answers": ["12 dB"],
        "gold": [1],
    }
    cases = parse_cases([(1, missing)])
    assert [problem.reason for problem in cases.problems] == [NEEDS_NOT_THERE]
    evaluation = evaluate(cases)
    assert evaluation.figures_for("everything").needed_kept.value == 1
    lines = " ".join(summary_lines(evaluation))
    assert "by gold passages of which something is kept" in lines


class YearRetriever:
    def retrieve(self, query):
        return question(int(query.split()[3])).passages


def test_the_users_own_retriever_finds_the_passages():
    records = [{"question": q.text, "answers": q.answers} for q in TOWERS[:2]]
    evaluation = evaluate(records, retriever=YearRetriever())
    assert evaluation.questions == 2
    assert evaluation.figures_for("everything").needed_kept.value == 1
    with pytest.raises(InputError, match="no 'passages'"):
        evaluate(records)
    mixed = evaluate([records[0], TOWERS[1]], retriever=YearRetriever())
    assert mixed.questions == 2, "a question has its passages"


def test_the_plot_has_a_point_and_a_name_for_each_strategy(tmp_path):
    evaluation = evaluate(TOWERS[:2], {"<mine>": GOOD})
    page = evaluation.save_page(tmp_path / "report.html").read_text("utf-8")
    picture = ElementTree.fromstring(re.search("<svg.*?</svg>", page, re.DOTALL)[0])
    texts = [element.text for element in picture.iterfind(".//{*}text")]
    assert len(picture.findall(".//{*}circle")) == len(evaluation.figures)
    for figures in evaluation.figures:
        assert any(text.startswith(figures.name) for text in texts)


def test_tables_have_a_row_per_strategy_and_no_empty_columns():
    unlabelled = [replace(q, gold=frozenset(), answers=()) for q in TOWERS[:2]]
    evaluation = evaluate(unlabelled)
    assert table_rows(evaluation)[0] == ["strategy", "tokens", "s"]
    assert len(table_rows(evaluation)) == 1 + len(evaluation.figures)
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


def test_a_question_without_passages_is_measured_as_every_other():
    passages = (Passage("Ada wrote it.", "a"), Passage("Bananas.", "b"))
    found = Question("who wrote it?", passages, frozenset({"a"}))
    evaluation = evaluate([found, Question("what?", (), frozenset())])
    for outcomes in evaluation.outcomes.values():
        assert all(outcome.result is not None for outcome in outcomes)
