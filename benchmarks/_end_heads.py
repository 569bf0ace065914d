"""END by attention heads next to the pooled probe: equal labels, the same questions, a real model.

Called by ``end_model``; alone it prints its rows. Heads and probe are fitted on the same first
questions of a set and measured on the next ones. "All tokens" is the full listwise form, in
which passages see those before them: nothing of it can be kept.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import read
from numpy.typing import NDArray

from denoise_core.end import HeadReader, HiddenReader, ProbeScorer
from denoise_core.end.fit import fit_heads, fit_probe
from denoise_core.end.fit.probe import question_auc
from denoise_core.evaluate.datasets import parse_cases
from denoise_core.local.block_attention import BlockPrompt, passage_attention
from denoise_core.protocols import Scorer
from denoise_core.question import Question

SETS = {
    "NQ": "nq_gold_distractors20",
    "HotpotQA": "hotpotqa_distractor",
    "MuSiQue": "musique",
    "2WikiMultihopQA": "2wikimultihopqa",
}
FITTED = 50  # questions of a set, for heads and probe alike
PROBE_LAYERS = (10, 14, 18)  # the fit takes one
HEAD_LAYERS = range(1, 21)

Values = NDArray[np.float64]
MeasuredRow = tuple[str, Values, str]  # what, one value a question, unit


def head_rows(
    data: Path | None,
    model: str,
    questions: int,
    *,
    fitted: int = FITTED,
    passages: int | None = None,
) -> Iterator[MeasuredRow]:
    """The rows of every set, one value for each question.

    Args:
        data: Folder of the real sets.
        model: Name, folder or GGUF file.
        questions: How many are measured in each set.
        fitted: How many others heads and probe are fitted on.
        passages: At most so many of each question, the needed ones among them.
    """
    for name, file in SETS.items():
        records = enumerate(read(data, file), 1)
        cases = parse_cases(records, labelled=True, skip_bad=False).questions
        usable = [q for q in cases if 0 < len(q.gold) < len(q.passages)]
        if passages is not None:
            usable = [_cut_list(q, passages) for q in usable]
        yield from _set_rows(
            name, model, usable[:fitted], usable[fitted : fitted + questions]
        )


def _cut_list(question: Question, count: int) -> Question:
    others = [p.id for p in question.passages if p.id not in question.gold]
    chosen = question.gold | set(others[: max(1, count - len(question.gold))])
    kept = tuple(p for p in question.passages if p.id in chosen)
    return replace(question, passages=kept)


def _set_rows(
    name: str, model: str, fitted: Sequence[Question], measured: Sequence[Question]
) -> Iterator[MeasuredRow]:
    head_reader = HeadReader(model)
    heads = fit_heads(head_reader, fitted, layers=HEAD_LAYERS).probe
    probe_reader = HiddenReader(model)
    probe = fit_probe(probe_reader, fitted, layers=PROBE_LAYERS).probe
    head_scorer = ProbeScorer(head_reader, heads)
    runs = {
        "heads": _run(head_scorer, measured),
        "heads, again": _run(head_scorer, measured),
        "heads, all tokens": _run(ProbeScorer(JointReader(model), heads), measured),
        "probe": _run(ProbeScorer(probe_reader, probe), measured),
    }
    for run, (areas, _) in runs.items():
        if run != "heads, again":
            yield f"{name}: AUC, {run}", areas, "AUC"
    areas = {run: run_areas for run, (run_areas, _) in runs.items()}
    yield f"{name}: heads over probe", areas["heads"] - areas["probe"], "AUC"
    loss = areas["heads, all tokens"] - areas["heads"]
    yield f"{name}: all tokens over passages alone", loss, "AUC"
    seconds = {run: run_seconds for run, (_, run_seconds) in runs.items()}
    yield (
        f"{name}: warm over the probe's time",
        (seconds["heads, again"] / seconds["probe"]),
        "ratio",
    )
    yield from _token_rows(name, head_scorer, measured)


def _token_rows(
    name: str, scorer: ProbeScorer, measured: Sequence[Question]
) -> Iterator[MeasuredRow]:
    """Tokens through layers: of a list read the first time, and of one that is known."""
    reader = scorer.reader
    assert isinstance(reader, HeadReader)
    cold, warm = [], []
    for question in measured:
        prompt, _, _ = reader._build_list(
            [(question.text, p.text_with_header) for p in question.passages]
        )
        passage_tokens = sum(map(len, prompt.passages))
        pointwise = passage_tokens + len(prompt.passages) * (
            len(prompt.head) + len(prompt.tail)
        )
        cold.append((passage_tokens + len(prompt.tail)) / passage_tokens)
        warm.append(len(prompt.tail) / pointwise)
    yield f"{name}: tokens, cold over the passages", np.array(cold), "ratio"
    yield f"{name}: tokens, warm over a pointwise pass", np.array(warm), "ratio"


def _run(scorer: Scorer, questions: Sequence[Question]) -> tuple[Values, Values]:
    """Each question's area under the curve, and processor seconds."""
    areas, seconds = [], []
    for question in questions:
        texts = [p.text_with_header for p in question.passages]
        start = time.process_time()
        scores = scorer.score(question.text, texts)
        seconds.append(time.process_time() - start)
        labels = np.array(question.labels)
        one_list = np.zeros(len(labels), dtype=np.intp)
        areas.append(question_auc(np.asarray(scores), labels, one_list))
    return np.array(areas), np.array(seconds)


class JointReader(HeadReader):
    """Reads all passages as one text, so that each sees those before it."""

    def _read_list(self, pairs: Any, blocks: Any) -> Any:
        attention = self._open_attention()
        prompt, rows, window_index = self._build_list(pairs)
        joined = tuple(token for ids in prompt.passages for token in ids)
        joint_prompt = BlockPrompt(prompt.head, (joined,), prompt.tail)
        by_block = attention.attend(
            joint_prompt,
            blocks,
            lambda weights: passage_attention(weights, prompt, rows),
        )
        values = {block: by_block[block].T.cpu().numpy() for block in by_block}
        return values, window_index


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--fitted", type=int, default=FITTED)
    parser.add_argument("--passages", type=int)
    given = parser.parse_args()
    rows = head_rows(
        given.data,
        given.model,
        given.questions,
        fitted=given.fitted,
        passages=given.passages,
    )
    for measure, values, unit in rows:
        print(f"{measure}: {values.mean():.3f} {unit} ({len(values)} questions)")


if __name__ == "__main__":
    main()
