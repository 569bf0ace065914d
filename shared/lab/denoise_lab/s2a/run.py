"""Ask every system every case, judge the answers, and never pay twice for what is on disk.

Answers and verdicts are lines of one JSON Lines file, written as they come. A run that was killed is started again
with the same file: what is there is not asked again; a torn last line is asked again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from denoise_core.errors import InputError, format_error, is_user_error
from denoise_core.protocols import LLM
from denoise_core.runtime.budget import Budget
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.flow import run
from denoise_core.runtime.thread_pool import DaemonThreadPool
from denoise_core.s2a.answer import S2A, S2AAnswer
from denoise_core.s2a.options import Options
from denoise_lab.s2a.baselines import Baseline
from denoise_lab.s2a.cases import Case
from denoise_lab.s2a.judges import Judge


class System(Protocol):
    """Answers a case; the seed is for models that sample."""

    def __call__(self, case: Case, seed: int) -> Flow[S2AAnswer]: ...


@dataclass(frozen=True, slots=True)
class Score:
    """One verdict. ``value`` None is unknown; ``error`` says what failed where there is no answer."""

    system: str
    case: str
    kind: str
    seed: int
    judge: str
    value: float | None
    answer: str
    tokens: int
    error: str | None = None

    @property
    def key(self) -> tuple[str, str, int, str]:
        """System, case, seed and judge: what one mark is of."""
        return self.system, self.case, self.seed, self.judge


def paper_systems(
    llm_for: Callable[[int], LLM], options: Options | None = None
) -> dict[str, System]:
    """The paper's baselines and variants, and ours. ``llm_for(seed)`` is the model at that seed."""

    def baseline(kind: Any, clean: bool) -> System:
        def answer(case: Case, seed: int) -> Flow[S2AAnswer]:
            question = case.clean_question if clean else case.question
            passages = case.clean_passages if clean else case.passages
            return Baseline(llm_for(seed), kind=kind).flow(question, passages)

        return answer

    def s2a(variant: Any) -> System:
        def answer(case: Case, seed: int) -> Flow[S2AAnswer]:
            return S2A(llm_for(seed), variant=variant, options=options).flow(
                case.question, case.passages
            )

        return answer

    variants = (
        "default",
        "single",
        "keep_original",
        "not_instructed",
        "relevance",
        "select",
        "remove",
    )
    return {
        "plain": baseline("plain", clean=False),
        "instructed": baseline("instructed", clean=False),
        "stepwise": baseline("stepwise", clean=False),
        "oracle": baseline("plain", clean=True),
        **{f"s2a {v}": s2a(v) for v in variants},
    }


def evaluate(
    systems: Mapping[str, System],
    cases: Sequence[Case],
    judges: Sequence[Judge],
    path: str | Path,
    *,
    seeds: Sequence[int] = (0,),
    max_concurrency: int = 10,
    budget: Budget | None = None,
) -> list[Score]:
    """Every system on every case at every seed, judged by every judge; the scores, in that order.

    A call that fails makes that score unknown, with the error in it, and is tried again by the next run with the
    same file; a mistake (a refused key, a missing extra) ends the run. ``budget`` is for each case; when it ends a
    case, that is such a failure. Raises `InputError` for two cases with one id, and for a file with lines that are
    no scores.
    """
    if len({c.id for c in cases}) != len(cases):
        raise InputError("two cases share an id: scores are kept by case id")
    path = Path(path)
    on_disk = load_scores(path) if path.exists() else []
    known = {s.key: s for s in on_disk if s.error is None}
    answers = {s.key[:3]: s for s in on_disk if s.answer}
    todo = [
        (name, case, seed)
        for name in systems
        for case in cases
        for seed in seeds
        if any((name, case.id, seed, j.name) not in known for j in judges)
    ]

    def work(name: str, case: Case, seed: int) -> list[Score]:
        missing = [j for j in judges if (name, case.id, seed, j.name) not in known]
        answered = answers.get((name, case.id, seed))
        return list(_scores(name, systems[name], case, seed, missing, answered, budget))

    pool = DaemonThreadPool(max_concurrency)
    with open(
        path, "a", encoding="utf-8", errors="replace"
    ) as out:  # a reply may hold half a character
        _end_torn_line(path, out)
        waiting = [pool.submit(partial(work, *t)) for t in todo]
        try:
            for done in as_completed(waiting):
                for score in done.result():
                    known[score.key] = score
                    out.write(json.dumps(asdict(score), ensure_ascii=False) + "\n")
                out.flush()
        finally:  # after a mistake or Ctrl-C nobody waits for what is under way, and nothing new begins
            pool.close()
    order = [
        (n, c.id, seed, j.name)
        for n in systems
        for c in cases
        for seed in seeds
        for j in judges
    ]
    return [known[key] for key in order]


def load_scores(path: str | Path) -> list[Score]:
    """The scores of a file, the last of each; a torn last line is left out. Raises `InputError` for others."""
    found: dict[tuple[str, str, int, str], Score] = {}
    lines = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            score = Score(**json.loads(line))
        except (ValueError, TypeError) as error:
            if (
                line is lines[-1]
                or not any(rest.strip() for rest in lines[number:])
                or _torn(line)
            ):
                continue
            raise InputError(f"{path}, line {number}: not a score ({error})") from error
        found[score.key] = score
    return list(found.values())


def _torn(line: str) -> bool:
    """A line that a kill cut short: it begins like a score and does not end like one."""
    return line.startswith('{"system"') and not line.rstrip().endswith("}")


def _end_torn_line(path: Path, out: Any) -> None:
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        out.write("\n")


def _scores(
    name: str,
    system: System,
    case: Case,
    seed: int,
    judges: Iterable[Judge],
    answered: Score | None,
    budget: Budget | None,
) -> Iterator[Score]:
    text, tokens = (answered.answer, answered.tokens) if answered else ("", 0)
    if answered is None:
        try:
            answer, trace = run(system(case, seed), budget=budget)
            text, tokens = answer.text, trace.usage.total
        except Exception as error:
            if is_user_error(error):
                raise
            why = format_error(error)
            for judge in judges:
                yield Score(
                    name, case.id, case.kind, seed, judge.name, None, "", 0, why
                )
            return
    for judge in judges:
        try:
            value, _ = run(judge.judge(case, text))
            yield Score(name, case.id, case.kind, seed, judge.name, value, text, tokens)
        except Exception as error:
            if is_user_error(error):
                raise
            why = format_error(error)
            yield Score(
                name, case.id, case.kind, seed, judge.name, None, text, tokens, why
            )
