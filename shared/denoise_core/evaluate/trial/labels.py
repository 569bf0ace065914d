"""Gold passages where nobody has labelled any: by a model, by questions made of one's own documents.

Such labels are rougher than a person's. Each case says where its own come from (`Case.gold_from`), and the report
does so too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from denoise_core.augmenter.knowledge.hybrid import HybridRetriever
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.embedded.default import encoder
from denoise_core.end.fit.data import ask_for_questions, questions_from_documents
from denoise_core.errors import InputError, is_mistake, said
from denoise_core.evaluate.datasets import BadRecord
from denoise_core.evaluate.trial.cases import Case, Cases, Find
from denoise_core.protocols import LLM
from denoise_core.running.flow import run
from denoise_core.running.offload import offload
from denoise_core.scorers.discrim import YES, LLMDiscrim
from denoise_core.text.cutting import cut as cut_text
from denoise_core.types import Passage, check_passages

FOUND = 20  # passages for a question
AT_ONCE = 64  # pieces that are read between two words of progress


def searching(documents: Sequence[Passage], *, k: int = FOUND, progress: Progress | None = None) -> Find:
    """A search over the pieces of ``documents``: BM25 and the embedded encoder, fused by rank.

    Each piece is a passage ``document#n`` under its heading, with the document's id as its source. All are read at
    the first search; ``progress`` hears of pieces read, and of all. Raises `InputError` when the documents hold no
    text or ``k < 1``.
    """
    own = cut(documents)
    found = HybridRetriever([BM25Retriever(own, k=max(k, 50)), _Nearest(own, max(k, 50), progress)], k=k)
    return found.retrieve


def cut(documents: Sequence[Passage]) -> tuple[Passage, ...]:
    """The pieces of ``documents``, as `searching` finds them. Raises `InputError` when there is no text."""
    own = tuple(p for d in documents for p in _cut(d))
    if not own:
        raise InputError("the documents hold no text")
    return own


def _cut(document: Passage) -> list[Passage]:
    own = cut_text(document.text)
    out = []
    for n, piece in enumerate(own.pieces, 1):
        above, said = own.read(piece)
        if not piece.frame and said.strip():
            metadata = {**document.metadata, "source": document.id}
            name = f"{document.id}#{n}"
            out.append(replace(document, text=said.strip(), id=name, metadata=metadata, header=above))
    return out


class _Nearest:
    """The ``k`` passages nearest to the query by the encoder's cosine; all are read at the first search."""

    def __init__(self, passages: Sequence[Passage], k: int, progress: Progress | None) -> None:
        self.passages = check_passages(passages)
        self.k = k
        self.progress = progress
        self._vectors: NDArray[np.float32] | None = None

    def retrieve(self, query: str) -> tuple[Passage, ...]:
        if self._vectors is None:
            self._vectors = np.concatenate(list(self._read()))
        near = self._vectors @ encoder().vectors([query])[0]
        return tuple(self.passages[i] for i in np.argsort(-near, kind="stable")[: self.k].tolist())

    def _read(self) -> Iterator[NDArray[np.float32]]:
        for start in range(0, len(self.passages), AT_ONCE):
            part = self.passages[start : start + AT_ONCE]
            yield encoder().vectors([p.headed for p in part])
            if self.progress is not None:
                self.progress(start + len(part), len(self.passages))

    async def aretrieve(self, query: str) -> tuple[Passage, ...]:
        return await offload(self.retrieve, query)


QUESTIONS = 50  # made of documents, unless told

Progress = Callable[[int, int], None]


def labelled_by(cases: Cases, llm: LLM, name: str, *, progress: Progress | None = None) -> Cases:
    """The cases of which nothing is known, with the passages as gold of which ``llm`` says that they hold the
    answer.

    One call a passage (`scorers.discrim`). A case in which it finds none, or on which it fails, stays as it is and
    is noted. ``name`` stands in the report; ``progress`` hears of cases done, and of all.
    """
    scorer = LLMDiscrim(llm)
    out: list[Case] = []
    noted = list(cases.noted)
    asked = 0
    for n, case in enumerate(cases.cases, 1):
        if case.gold_from is None:
            asked += 1
            try:
                found = _labelled(case, scorer)
            except Exception as error:  # a model that fails on one question is noted, a mistake raises
                if is_mistake(error):
                    raise
                noted.append(BadRecord(case.place, f"it could not be labelled: {said(error)}"))
                found = case
            else:
                if found.gold_from is None:
                    noted.append(BadRecord(case.place, f"{name} found no passage that holds its answer"))
            case = found
        out.append(case)
        if progress is not None:
            progress(n, len(cases.cases))
    about = f"gold passages of {asked} questions are those of which {name} says that they hold the answer"
    return replace(cases, cases=tuple(out), noted=tuple(noted), about=(*cases.about, *((about,) if asked else ())))


def _labelled(case: Case, scorer: LLMDiscrim) -> Case:
    question = case.question
    scores = scorer.score(question.text, [p.headed for p in question.passages])
    gold = frozenset(p.id for p, s in zip(question.passages, scores.tolist(), strict=True) if s == YES)
    return replace(case, question=replace(question, gold=gold), gold_from="model") if gold else case


def made_from(
    documents: Sequence[Passage],
    *,
    n: int = QUESTIONS,
    k: int = FOUND,
    llm: LLM | None = None,
    name: str = "a model",
    seed: int = 0,
) -> Cases:
    """Questions made of pieces of ``documents``, each among ``k`` passages, half of them those most alike.

    With ``llm`` it writes one for a piece; without, a sentence is taken out of a piece and stands as the question.
    Raises `InputError` when no question can be made.
    """
    pieces = cut(documents)
    if k < 2:
        raise InputError(f"k={k}: expected 2 passages or more, so that some are irrelevant")
    if llm is None:
        found = questions_from_documents(pieces, n=n, negatives=k - 1, seed=seed)
        how = "questions are sentences taken out of the documents; their gold passage is the rest of the piece"
    else:
        found = run(ask_for_questions(pieces, n=n, negatives=k - 1, seed=seed), llm=llm)[0]
        how = f"questions were written by {name}, each to one piece of the documents, its gold passage"
    return Cases(tuple(Case(q, n, "made") for n, q in enumerate(found, 1)), about=(how,))
