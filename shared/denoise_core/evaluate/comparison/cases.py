"""Questions where nobody has labelled any: searched in documents, made of them, labelled by a model.

Such labels are rougher than a person's: `Case.gold_from` says where they are from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from denoise_core.augmenter.knowledge.retrieve import (
    BM25Retriever,
    DenseRetriever,
    HybridRetriever,
)
from denoise_core.embedded.default import shared_encoder
from denoise_core.end.fit.data import generate_questions, questions_from_documents
from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import (
    EvaluationCase,
    EvaluationCases,
    PassageSearch,
    RecordProblem,
)
from denoise_core.protocols import LLM
from denoise_core.question import Question
from denoise_core.runtime.flow import run
from denoise_core.s2a.llm_labels import label_questions
from denoise_core.text.structural import chunk_text as cut_text
from denoise_core.types import Passage

FOUND = 20  # passages for a question
AT_ONCE = 64  # pieces that are read between two words of progress


def build_search(
    documents: Sequence[Passage],
    *,
    top_k: int = FOUND,
    progress: Progress | None = None,
) -> PassageSearch:
    """A search over the pieces of ``documents``: BM25 and the embedded encoder, fused by rank.

    Each piece is a passage ``document#n`` under its heading, with the document's id as its source. All are read at
    the first search; ``progress`` hears of pieces read, and of all. Raises `InputError` when the documents hold no
    text or ``k < 1``.
    """
    own = cut(documents)

    def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        parts = []
        for start in range(0, len(texts), AT_ONCE):
            parts.append(shared_encoder().embed_texts(texts[start : start + AT_ONCE]))
            if progress is not None and len(texts) > 1:  # the question is one
                progress(min(start + AT_ONCE, len(texts)), len(texts))
        return np.concatenate(parts)

    most = max(top_k, 50)
    return HybridRetriever(
        [BM25Retriever(own, k=most), DenseRetriever(own, vectors, k=most)], k=top_k
    ).retrieve


def cut(documents: Sequence[Passage]) -> tuple[Passage, ...]:
    """The pieces of ``documents``, as `searching` finds them. Raises `InputError` when there is no text."""
    out = []
    for document in documents:
        own, metadata = (
            cut_text(document.text),
            {**document.metadata, "source": document.id},
        )
        for n, piece in enumerate(own.chunks, 1):
            above, said = own.chunk_context_and_text(piece)
            if not piece.is_structural and (text := said.strip()):
                out.append(
                    replace(
                        document,
                        text=text,
                        id=f"{document.id}#{n}",
                        metadata=metadata,
                        header=above,
                    )
                )
    if not out:
        raise InputError("the documents hold no text")
    return tuple(out)


DEFAULT_QUESTION_COUNT = 50  # made of documents, unless told

Progress = Callable[[int, int], None]


def label_cases(
    cases: EvaluationCases,
    llm: LLM,
    model_name: str,
    *,
    progress: Progress | None = None,
) -> EvaluationCases:
    """The cases of which nothing is known, with the passages as gold that ``llm`` selects (`s2a.llm_labels`); one in
    which it selects none, or on which it fails, stays as it is and is noted. ``name`` stands in the report."""
    out, noted = list(cases.cases), list(cases.warnings)
    asked = [n for n, case in enumerate(out) if case.gold_from is None]
    for n, question in zip(
        asked,
        label_questions([out[n].question for n in asked], llm, progress),
        strict=True,
    ):
        if isinstance(question, Question):
            out[n] = replace(out[n], question=question, gold_from="model")
        else:
            noted.append(RecordProblem(out[n].line_number, f"{model_name}: {question}"))
    about = (
        f"gold passages of {len(asked)} questions are those that {model_name} selects"
    )
    return replace(
        cases,
        cases=tuple(out),
        warnings=tuple(noted),
        notes=(*cases.notes, *((about,) if asked else ())),
    )


def generate_cases(
    documents: Sequence[Passage],
    *,
    question_count: int = DEFAULT_QUESTION_COUNT,
    top_k: int = FOUND,
    llm: LLM | None = None,
    model_name: str = "a model",
    seed: int = 0,
) -> EvaluationCases:
    """Questions made of pieces of ``documents``, each among ``k`` passages, half of them those most alike.

    With ``llm`` it writes one for a piece; without, a sentence is taken out of a piece and stands as the question.
    Raises `InputError` when no question can be made.
    """
    pieces = cut(documents)
    if top_k < 2:
        raise InputError(
            f"k={top_k}: expected 2 passages or more, so that some are irrelevant"
        )
    if llm is None:
        found = questions_from_documents(
            pieces, n=question_count, negatives=top_k - 1, seed=seed
        )
        how = "questions are sentences taken out of the documents; their gold passage is the rest of the piece"
    else:
        found = run(
            generate_questions(
                pieces, n=question_count, negatives=top_k - 1, seed=seed
            ),
            llm=llm,
        )[0]
        how = f"questions were written by {model_name}, each to one piece of the documents, its gold passage"
    return EvaluationCases(
        tuple(EvaluationCase(q, n, "made") for n, q in enumerate(found, 1)),
        notes=(how,),
    )
