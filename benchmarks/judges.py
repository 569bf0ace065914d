"""What the default judge passes and stops, on right and wrong answers to real questions.

Wrong answers are of the errors that noise causes: a name from a distractor passage, a span of the same type,
another span of the right passage; beside them RAMDocs' own wrong answers, HaluEval's made-up ones (pairs of
like length), MTRAG's answers of models rated by people, and FEVER's claims. Questions that the reader was
trained on are left out, and so are those that the judge's thresholds were chosen on (`CHOOSING` more of a set;
for MTRAG and FEVER a half, by a hash). The judge is words, reader and encoder together; beside
it stand words and reader, the words alone, the older word rule and the
share of stemmed content words that the best passage has. Style controls: right answers with another question of
the set; wrong answers of the same type and number of words. Writes the judge's error rates to where it finds
them (not in quick form).
"""

from __future__ import annotations

import hashlib
import json
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _bench_reader import ABOUT, bench_reader
from _word_rule import score as word_rule
from denoise_core.support.meaning import Embed
from harness import Benchmark, Options, arguments, read

import denoise_core.augmenter.utilities as utilities
from denoise_core.augmenter.utilities.calibrate import area_under_curve
from denoise_core.augmenter.vectors import KeptVectors
from denoise_core.embedded import encoder
from denoise_core.embedded.reader.fit.split import SHARE
from denoise_core.evaluate.datasets import read_questions
from denoise_core.question import Question
from denoise_core.support import Reader, check
from denoise_core.text.facts import Fact, facts
from denoise_core.text.lexemes import lexemes
from denoise_core.text.stems import content
from denoise_core.text.words import words
from denoise_core.types import Passage
from denoise_lab.split import place

SHIPPED = "words, reader and encoder"
MOST = 200  # questions of a set
CHOOSING = 0.1  # of a set, on which thresholds were chosen
TYPES = ("date", "number", "name")
Judges = dict[str, tuple[Reader | None, Embed | None]]


@dataclass(frozen=True)
class Example:
    """An answer to a question over passages, and whether it is right."""

    question: str
    passages: tuple[Passage, ...]
    answer: str
    right: bool


TARGETS = {
    "NQ, wrong name": 0.90, "HotpotQA, wrong name": 0.90, "NQ, same type": 0.85, "HotpotQA, same type": 0.85,
    "XQuAD, other span": 0.93, "MuSiQue, same type": 0.72, "RAMDocs": 0.90, "HaluEval, like length": 0.95,
    "MTRAG": 0.86, "FEVER": 0.71,
}  # fmt: skip
PASSING = ("NQ, wrong name", "NQ, same type", "XQuAD, other span")


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("judges", options)
    reader, kept = bench_reader()
    rng = np.random.default_rng(options.seed)
    judges: Judges = {"words": (None, None), "words and reader": (reader, None), SHIPPED: (reader, _embed())}
    bench.about |= {"judge": SHIPPED, "reader": ABOUT}
    rates: dict[str, list[list[object]]] = {name: [] for name in judges}
    for name, examples in sets(options).items():
        _measure(bench, name, examples, judges, rng, rates)
        kept.forget()
    if not options.quick:
        path = Path(utilities.__file__).parent / "judges.json"
        path.write_text(json.dumps({k: v for k, v in rates.items() if v}, indent=1) + "\n", "utf-8")
    return bench.finish()


def sets(options: Options) -> dict[str, list[Example]]:
    """The labelled answers, set by set."""
    if options.quick:
        return {"made up": _made_up()}
    assert options.data is not None or read(None, "nq_gold_distractors20")
    folder = options.data or Path()
    nq, hotpot = (_questions(folder, n) for n in ("nq_gold_distractors20", "hotpotqa_distractor"))
    xquad, musique = (_questions(folder, n) for n in ("xquad_en", "musique"))
    found = {
        "NQ, wrong name": _pairs(nq, _from_distractor("name")),
        "NQ, same type": _pairs(nq, _from_distractor(None)),
        "HotpotQA, wrong name": _pairs(hotpot, _from_distractor("name")),
        "HotpotQA, same type": _pairs(hotpot, _from_distractor(None)),
        "XQuAD, other span": _pairs(xquad, _other_span),
        "MuSiQue, same type": _pairs(musique, _from_distractor(None)),
        "RAMDocs": list(_ramdocs(options)),
        "HaluEval, like length": list(_halueval(options)),
        "MTRAG": list(_mtrag(options)),
        "FEVER": list(_fever(options)),
        "NQ, another question (style control)": _another_question(nq),
        "XQuAD, another question (style control)": _another_question(xquad),
        "NQ, same type and length (style control)": _pairs(nq, _from_distractor(None, same_length=True)),
    }
    return {name: examples[: 2 * MOST] for name, examples in found.items() if examples}


def _measure(
    bench: Benchmark,
    name: str,
    examples: list[Example],
    judges: Judges,
    rng: np.random.Generator,
    rates: dict[str, list[list[object]]],
) -> None:
    right = [e.right for e in examples]
    print(name, len(examples), flush=True)
    bench.row(f"{name}: answers", len(examples), "count")
    for judge, (reader, embed) in judges.items():
        found = [check(e.question, e.answer, e.passages, reader, embed=embed) for e in examples]
        scores = [c.score for c in found]
        shipped = judge == SHIPPED
        least = TARGETS.get(name) if shipped else None
        auc, ends = area_under_curve(scores, right), _interval(scores, right, rng)
        bench.row(f"{name}: {judge}", auc, "AUC", at_least=least, interval=ends)
        good = statistics.fmean(c.passed for c, ok in zip(found, right, strict=True) if ok)
        bad = statistics.fmean(c.passed for c, ok in zip(found, right, strict=True) if not ok)
        aimed = shipped and name in PASSING
        bench.row(f"{name}: {judge}, right passed", good, "share", at_least=0.85 if aimed else None)
        bench.row(f"{name}: {judge}, wrong passed", bad, "share", at_most=0.25 if aimed else None)
        if "control" not in name:
            rates[judge].append([name, round(good, 4), round(bad, 4), len(examples)])
    for rule, scored in {"older word rule": word_rule, "stemmed content words": _precision}.items():
        scores = [scored(e.question, e.answer, e.passages) for e in examples]
        bench.row(
            f"{name}: {rule}", area_under_curve(scores, right), "AUC", interval=_interval(scores, right, rng)
        )


def _embed() -> Embed:
    return KeptVectors(encoder().vectors)


def _questions(folder: Path, name: str) -> list[Question]:
    """Of the part that the reader was not trained on, without yes/no questions; in the order of a hash."""
    found = read_questions(folder / f"{name}.jsonl.gz").questions
    kept = [q for q in found if q.gold and q.answers and _unseen(name, q)]
    kept = [q for q in kept if q.answers[0].casefold() not in ("yes", "no")]
    return sorted(kept, key=lambda q: hashlib.sha256(q.id.encode()).hexdigest())[:MOST]


def _unseen(name: str, question: Question, *, choosing: bool = False) -> bool:
    """Neither trained on nor chosen on; with ``choosing``, of those that were chosen on."""
    key = question.id
    if name == "xquad_en":
        key = next(p.text for p in question.passages if p.id in question.gold)
    at = place(key) - SHARE[name]
    return 0 <= at < CHOOSING if choosing else at >= CHOOSING


def _pairs(questions: Sequence[Question], wrong: Callable[[Question, random.Random], str]) -> list[Example]:
    """A right and a wrong answer to each question that has both."""
    out: list[Example] = []
    for q in questions:
        other = wrong(q, random.Random(q.id))
        if other:
            out += [Example(q.text, q.passages, q.answers[0], True), Example(q.text, q.passages, other, False)]
    return out


def _from_distractor(kind: str | None, *, same_length: bool = False) -> Callable[[Question, random.Random], str]:
    """A fact of a passage that is not gold: a name, or one of the right answer's own type."""

    def wrong(question: Question, rng: random.Random) -> str:
        own = _type(question.answers[0])
        if own is None or (kind and own != kind):
            return ""
        length = len(question.answers[0].split())
        found = []
        for passage in question.passages:
            if passage.id not in question.gold:
                found += [t for t in _spans(passage.text, own) if _differs(t, question)]
        if same_length:
            found = [t for t in found if len(t.split()) == length]
        return rng.choice(sorted(set(found))) if found else ""

    return wrong


def _other_span(question: Question, rng: random.Random) -> str:
    """Another span of the right passage, of the right answer's type where there is one."""
    gold = next(p for p in question.passages if p.id in question.gold)
    own = _type(question.answers[0])
    for kinds in ((own,) if own else (), TYPES):
        found = [t for kind in kinds for t in _spans(gold.text, kind) if _differs(t, question)]
        if found:
            return rng.choice(sorted(set(found)))
    return ""


def _spans(text: str, kind: str) -> list[str]:
    return [text[f.start : f.end].strip() for f in facts(text, language="en") if f.kind == kind and not f.doubtful]


def _type(answer: str) -> str | None:
    """The kind of fact that makes up most of an answer."""
    found = [f for f in facts(f"It is {answer}", language="en") if f.kind in TYPES]
    best: Fact | None = max(found, key=lambda f: f.end - f.start, default=None)
    return best.kind if best and 2 * (best.end - best.start) >= len(answer) else None


def _differs(text: str, question: Question) -> bool:
    """It shares no word with a right answer, and is not in the question."""
    own = set(words(text))
    right = {w for a in question.answers for w in words(a)}
    return bool(own) and not own & right and not own <= set(words(question.text))


def _another_question(questions: Sequence[Question]) -> list[Example]:
    """Right answers, with the question of the next item put to the same passages as wrong ones."""
    out: list[Example] = []
    for q, other in zip(questions, [*questions[1:], *questions[:1]], strict=True):
        out += [
            Example(q.text, q.passages, q.answers[0], True),
            Example(other.text, q.passages, q.answers[0], False),
        ]
    return out


def _ramdocs(options: Options) -> Iterator[Example]:
    for row in read(options.data, "ramdocs"):
        if place(row["id"]) < SHARE["ramdocs"] + CHOOSING or not row["wrong_answers"] or not row["answers"]:
            continue
        passages = tuple(Passage(p["text"], p["id"], header=p["title"]) for p in row["passages"])
        yield Example(row["question"], passages, row["answers"][0], True)
        yield Example(row["question"], passages, row["wrong_answers"][0], False)


def _halueval(options: Options) -> Iterator[Example]:
    for row in read(options.data, "halueval_qa"):
        short, long = sorted((len(row["right_answer"]), len(row["hallucinated_answer"])))
        if place(row["id"]) < SHARE["halueval_qa"] + CHOOSING or long > 1.5 * short:
            continue
        passages = (Passage(row["context"], "context"),)
        yield Example(row["question"], passages, row["right_answer"], True)
        yield Example(row["question"], passages, row["hallucinated_answer"], False)


def _mtrag(options: Options) -> Iterator[Example]:
    for row in read(options.data, "mtrag_human_eval"):
        passages = tuple(
            Passage(p["text"], f"p{n}", header=p.get("title") or "") for n, p in enumerate(row["passages"])
        )
        if not passages or _building(row["question"]):
            continue
        for response in row["responses"]:
            rated = response["human"].get("faithfulness")
            if rated:
                yield Example(row["question"], passages, response["text"], statistics.median_low(rated) >= 4)


def _fever(options: Options) -> Iterator[Example]:
    for row in read(options.data, "fever_symmetric"):
        if not _building(row["evidence"]):
            yield Example("", (Passage(row["evidence"], "e"),), row["claim"], row["label"] == "SUPPORTS")


def _building(text: str) -> bool:
    """Of the half that was looked at while the judge was built."""
    return hashlib.sha256(text.encode()).digest()[0] < 128


def _precision(question: str, answer: str, passages: Sequence[Passage]) -> float:
    """The share of the answer's stemmed content words (its numbers too) that the best passage has."""
    own = _stems(answer)
    return max((len(own & _stems(p.headed)) / len(own) for p in passages), default=0.0) if own else 0.0


def _stems(text: str) -> set[str]:
    found = lexemes(text)
    return {w.stem for w in content(found, "en")} | {x.text for x in found if x.shape == "number"}


def _interval(scores: Sequence[float], right: Sequence[bool], rng: np.random.Generator) -> tuple[float, float]:
    """95 % percentile bootstrap, 300 draws within each class."""
    values, labels = np.asarray(scores), np.asarray(right)
    yes, no = np.flatnonzero(labels), np.flatnonzero(~labels)
    drawn = []
    for _ in range(300):
        at = np.concatenate([rng.choice(yes, len(yes)), rng.choice(no, len(no))])
        drawn.append(area_under_curve(values[at].tolist(), labels[at].tolist()))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def _made_up() -> list[Example]:
    text = "The {0} bridge was opened in 19{1} and is {1} metres long."
    out = []
    for n, name in enumerate(("Elm", "Oak", "Ash", "Fir")):
        passages = (Passage(text.format(name, n + 10), "p"),)
        for year in (1910 + n, 1950 + n):
            out.append(Example("When was it opened?", passages, f"It was opened in {year}.", year < 1950))
    return out


if __name__ == "__main__":
    main()
