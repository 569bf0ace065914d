"""How well S2A's gate tells text that the source bears out from text that it does not.

Real passages are rewritten with known edits, as a model might: sentences copied, tidied, shortened or joined whole
(borne out), and sentences with a changed number, an added or lost negation, a swapped name, an invented sentence
and two sentences conflated into one claim (not borne out). A scripted model returns the rewrite; `S2ADenoiser`
reads and checks it the usual way. The gate was developed on HotpotQA and 2Wiki texts; the held-out figures are of
NQ, XQuAD and CLAPNQ texts.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from _s2a_shared import SMALL, sentences_of, wilson
from harness import Benchmark, Options, arguments, read

from denoise_core import Passage
from denoise_core.s2a import FidelityGate, S2ADenoiser
from denoise_core.s2a import Options as S2AOptions
from denoise_core.testing import FunctionLLM

DEVELOPED_ON = ("hotpotqa_distractor", "2wikimultihopqa")
HELD_OUT = ("nq_gold_distractors20", "xquad_en", "clapnq")
CORRUPT = ("number changed", "negation", "name swapped", "invented", "conflated")
HARMLESS = ("copied", "tidied", "shortened", "joined")
_AUXILIARY = re.compile(r"\b(is|was|are|were|has|had|can|could|will|would)\b (?!not\b)")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?![\w]|[.,]\d)")
_SUBJECT = re.compile(
    r"(?!(?:The|A|An|He|She|It|They|This|That|These|Those|His|Her|Its|Their|In|On|At)\b)[A-Z]\w+ "
)


def _words(text: str) -> set[str]:
    return {w for w in re.findall(r"\w+", text.lower()) if len(w) > 3}


@dataclass
class Written:
    text: str
    edit: str


def number_changed(sentence: str, rng: random.Random, others: list[str]) -> str | None:
    found = list(_NUMBER.finditer(sentence))
    if not found:
        return None
    at = rng.choice(found)
    digits = list(at[0])
    place = rng.randrange(len(digits))
    digits[place] = rng.choice([d for d in "123456789" if d != digits[place]])
    return sentence[: at.start()] + "".join(digits) + sentence[at.end() :]


def negation(sentence: str, rng: random.Random, others: list[str]) -> str | None:
    if " not " in sentence and rng.random() < 0.5:
        return sentence.replace(" not ", " ", 1)
    found = _AUXILIARY.search(sentence)
    return sentence[: found.end()] + "not " + sentence[found.end() :] if found else None


def name_swapped(sentence: str, rng: random.Random, others: list[str]) -> str | None:
    found = list(_NAME.finditer(sentence))
    names = sorted({m[0] for o in others for m in _NAME.finditer(o)} - {m[0] for m in found})
    names = [n for n in names if not any(set(n.split()) & set(m[0].split()) for m in found)]
    if not found or not names:
        return None
    at = rng.choice(found)
    return sentence[: at.start()] + rng.choice(names) + sentence[at.end() :]


def conflated(sentence: str, rng: random.Random, others: list[str]) -> str | None:
    """The subject of one sentence with what another says of somebody else.

    Both subjects are names that the other sentence does not hold: with a pronoun or *the club* for a subject the
    new claim would often be true.
    """
    cut = _AUXILIARY.search(sentence)
    if not cut:
        return None
    for other in rng.sample(others, len(others)):
        there = _AUXILIARY.search(other)
        if not there or len(other) - there.end() <= 20:
            continue
        subjects = sentence[: cut.start()], other[: there.start()]
        if all(_SUBJECT.match(s) for s in subjects) and not _words(subjects[0]) & _words(other):
            if _words(subjects[1]) & _words(sentence):
                continue
            return sentence[: cut.start()] + other[there.start() :]
    return None


def tidied(sentence: str, rng: random.Random, others: list[str]) -> str | None:
    return " ".join(sentence.split()).replace('"', "'").replace("–", "-").rstrip(".") + "."


def shortened(sentence: str, rng: random.Random, others: list[str]) -> str | None:
    without = re.sub(r" \([^()]*\)", "", sentence)
    return without if without != sentence and len(without) > 25 else None


EDITS: dict[str, Callable[[str, random.Random, list[str]], str | None]] = {
    "number changed": number_changed,
    "negation": negation,
    "name swapped": name_swapped,
    "conflated": conflated,
    "copied": lambda s, rng, others: s,
    "tidied": tidied,
    "shortened": shortened,
}


def rewrite(text: str, foreign: list[str], rng: random.Random) -> list[Written]:
    """A rewrite of ``text``: each sentence once, with at most one edit."""
    own = [s for s in sentences_of(text) if 30 <= len(s) <= 400 and s[0].isupper() and s[-1] in ".!?"]
    written: list[Written] = []
    skip = False
    for i, sentence in enumerate(own):
        if skip:
            skip = False
            continue
        others = own[:i] + own[i + 1 :]
        edit = rng.choice((*CORRUPT, *CORRUPT, *["conflated"] * 6, *HARMLESS, *HARMLESS, "copied", "copied"))
        if edit == "joined" and i + 1 < len(own) and sentence[-1] == ".":
            following = own[i + 1]
            written.append(Written(f"{sentence[:-1]}, and {following}", "joined"))
            skip = True
        elif edit == "invented" and foreign:
            strange = rng.choice(foreign)
            if strange not in text:
                written += [Written(strange, "invented")]
        elif edit in EDITS:
            changed = EDITS[edit](sentence, rng, others)
            if changed is not None and (edit not in CORRUPT or changed not in text):
                written.append(Written(changed, edit))
    return written


def texts(options: Options, name: str, limit: int) -> list[str]:
    found: dict[str, None] = {}
    for record in read(options.data, name):
        for p in record["passages"]:
            if len(sentences_of(p["text"])) >= 3:
                found[p["text"]] = None
        if len(found) >= limit:
            break
    return list(found)[:limit]


def judge(all_texts: list[str], seed: int) -> Iterator[tuple[Written, bool, bool, int]]:
    """For each written sentence: whether the gate calls it added, whether repair left it in, sources found."""
    rng = random.Random(seed)
    for number, text in enumerate(all_texts):
        elsewhere = sentences_of(all_texts[(number + len(all_texts) // 2) % len(all_texts)])
        foreign = [s for s in elsewhere if 30 <= len(s) <= 400 and s[-1] in ".!?"]
        written = rewrite(text, foreign, rng)
        if not written:
            continue
        reply = "Context: " + "\n".join(w.text for w in written) + "\nQuestion: What is said?"
        llm = FunctionLLM(lambda _, reply=reply: reply)
        options = S2AOptions(gate=FidelityGate(policy="flag"), window=10**7)
        report = S2ADenoiser(llm, options=options).denoise("What is said?", [Passage(text, "p")]).reports[0]
        repaired = S2ADenoiser(llm, options=S2AOptions(window=10**7)).denoise(
            "What is said?", [Passage(text, "p")]
        )
        left = "\n".join(p.text for p in repaired.passages)
        at = 0
        assert report.written is not None
        for w in written:
            start = report.written.index(w.text, at)
            at = start + len(w.text)
            own = [s for s in report.sentences if s.start < at and s.end > start]
            sources = {span for s in own for span in s.spans}
            yield w, any(s.kind == "added" for s in own), w.text in left, len(sources)


def measure(bench: Benchmark, label: str, all_texts: list[str], *, target: bool) -> None:
    flagged: Counter[str] = Counter()
    total: Counter[str] = Counter()
    survived = two_sources = 0
    examples: dict[str, list[str]] = defaultdict(list)
    for w, added, left, sources in judge(all_texts, bench.options.seed):
        total[w.edit] += 1
        flagged[w.edit] += added
        survived += left and w.edit in CORRUPT
        two_sources += w.edit == "joined" and sources >= 2
        if added != (w.edit in CORRUPT):
            examples[w.edit].append(w.text)
    right = sum(flagged[e] for e in CORRUPT)
    corrupt = sum(total[e] for e in CORRUPT)
    called = sum(flagged.values())
    least = 0.95 if target else None
    bench.row(
        f"{label}: precision", right / max(1, called), "share", at_least=least, interval=wilson(right, called)
    )
    bench.row(
        f"{label}: recall", right / max(1, corrupt), "share", at_least=least, interval=wilson(right, corrupt)
    )
    for edit in (*CORRUPT, *HARMLESS):
        name = f"{label}: {edit}, called added (n={total[edit]})"
        bench.row(name, flagged[edit] / max(1, total[edit]), "share", interval=wilson(flagged[edit], total[edit]))
    bench.row(f"{label}: corrupted sentences left after repair", survived, "sentences")
    bench.row(f"{label}: joined sentences aligned to both", two_sources / max(1, total["joined"]), "share")
    bench.examples = dict(examples)  # type: ignore[attr-defined]


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("s2a_fidelity", options)
    if options.quick:
        measure(bench, "quick", list(SMALL) * 10, target=False)
        return bench.finish()
    developed = [t for name in DEVELOPED_ON for t in texts(options, name, 600)]
    measure(bench, "developed on", developed, target=False)
    held_out = [t for name in HELD_OUT for t in texts(options, name, 700)]
    measure(bench, "held out", held_out, target=True)
    return bench.finish()


if __name__ == "__main__":
    main()
