"""How much stays of a tool's result, where nobody says: a share of its characters, by score, words and records."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.end.selection import MarginRule, TokenLimit
from denoise_core.protocols import Denoiser, Scorer
from denoise_core.text.structural import chunk_text, structural_chunker
from denoise_core.text.text_chunk import MAX_CHUNK_CHARACTERS
from denoise_core.text.words import content_words, split_words
from denoise_core.types import Passage

LONG_RESULT_CHARACTERS = (
    1000  # characters from which on a result is cut down to `SHARE` of them
)
KEPT_FRACTION = 3 / 8
REPETITION_PENALTY = 2.0  # what a text loses that says nothing new


def for_tool_results(denoiser: Denoiser, passages: Sequence[Passage]) -> Denoiser:
    """The denoiser as it reads these texts of a tool's result.

    END cuts them by their structure. Where its rule is ``keep="auto"``, the best pieces stay up to `SHARE` of the
    characters, with what they bring along; of less than `LONG_RESULT` what lies within the margin.
    """
    if not isinstance(denoiser, ENDDenoiser):
        return denoiser
    made = copy.copy(denoiser)
    made.chunker, made.attaches_context = structural_chunker, True
    characters = sum(len(p.text) for p in passages)
    if isinstance(made.rule, MarginRule) and characters >= LONG_RESULT_CHARACTERS:
        made.rule = TokenLimit(
            int(KEPT_FRACTION * characters), len, drop_headers_first=False
        )
        made.scorer = LexicalBoostScorer(made.scorer, group_chunks(passages))
    return made


class LexicalBoostScorer:
    """A scorer for rows, log lines and templated hits, which an encoder of sentences hardly tells apart.

    A text gains by the rare words that it shares with the query, at most 1, is lifted half way to a better
    neighbour, and counts as much as the best part of what it is a part of: ``parts`` are such parts' numbers, as
    `wholes` gives them. It loses by what better texts have said: `SAID` where it has no new word of its own.
    """

    listwise = True

    def __init__(self, scorer: Scorer, parts: Sequence[int] = ()) -> None:
        self.scorer = scorer
        self.parts = np.array(parts, dtype=np.intp)

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Higher is better; float32 ``(len(texts),)``."""
        asked, having = set(split_words(query)), [set(split_words(t)) for t in texts]
        holding: dict[str, list[int]] = {}
        for i, found in enumerate(having):
            for word in found:
                holding.setdefault(word, []).append(i)
        weight = {
            w: math.log(1 + len(texts) / len(found)) for w, found in holding.items()
        }
        wanted = set(content_words(query)) & weight.keys()
        shared = np.array([sum(weight[w] for w in found & wanted) for found in having])
        scores = np.asarray(self.scorer.score(query, texts)) + shared / max(
            shared.max(initial=0), 1e-9
        )
        padded = np.pad(scores, 1, constant_values=-np.inf)
        scores = (scores + np.maximum(np.maximum(padded[:-2], padded[2:]), scores)) / 2
        if len(self.parts) == len(texts):
            best = np.full(len(texts), -np.inf)
            np.maximum.at(best, self.parts, scores)
            scores = best[self.parts]
        own = [found - asked for found in having]
        size = np.array([sum(weight[w] for w in found) or 1.0 for found in own])
        out, said, left = (
            np.empty(len(texts), np.float32),
            np.zeros(len(texts)),
            np.ones(len(texts), np.bool_),
        )
        for _ in texts:
            now = np.where(left, scores - REPETITION_PENALTY * said / size, -np.inf)
            i = int(now.argmax())
            out[i], left[i] = now[i], False
            for word in own[i]:
                said[holding.pop(word, [])] += weight[word]
        return out


def group_chunks(passages: Sequence[Passage]) -> list[int]:
    """For each piece that is read the number of the first piece of what it is a part of, of `LONG` characters at
    most: a record of JSON, what stands under a heading; else its own."""
    out: list[int] = []
    for passage in passages:
        made = chunk_text(passage.text).chunks
        frames = {(p.start, p.end) for p in made if p.is_structural}
        read = [
            p
            for p in made
            if not p.is_structural and passage.text[p.start : p.end].strip()
        ]
        of: list[Hashable] = []
        for p in read:
            over = [r for r in p.context_spans if r in frames]
            record = max(
                (n for n, step in enumerate(p.path, 1) if isinstance(step, int)),
                default=0,
            )
            of.append(p.path[:record] if record else over[-1] if over else p.start)
        size = Counter[Hashable]()
        for whole, p in zip(of, read, strict=True):
            size[whole] += p.end - p.start
        at, first = len(out), dict[Hashable, int]()
        for n, whole in enumerate(of, at):
            out.append(
                first.setdefault(whole, n) if size[whole] <= MAX_CHUNK_CHARACTERS else n
            )
    return out
