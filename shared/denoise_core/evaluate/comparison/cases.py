"""Cases without a person's labels: searched in documents, generated, or labelled by a model.

Such labels are rougher than a person's; `EvaluationCase.gold_from` tells the source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from denoise_core.augmenter.knowledge.retrieve import (
    BM25Retriever,
    DenseRetriever,
    HybridRetriever,
)
from denoise_core.embedded.default import shared_encoder
from denoise_core.end.fit.data import questions_from_documents
from denoise_core.errors import DenoiseError, InputError
from denoise_core.evaluate.datasets import (
    EvaluationCase,
    EvaluationCases,
    PassageSearch,
    RecordProblem,
)
from denoise_core.protocols import LLM, Retriever
from denoise_core.question import Question
from denoise_core.s2a.llm_labels import label_questions
from denoise_core.text.structural import chunk_text
from denoise_core.types import Passage

DEFAULT_TOP_K = 20
DEFAULT_QUESTION_COUNT = 50
FUSED_K = 50  # each ranking's length, so that fusing by rank has something to fuse

Progress = Callable[[int, int], None]


def build_search(
    documents: Sequence[Passage], *, top_k: int = DEFAULT_TOP_K
) -> PassageSearch:
    """Build a search over documents: BM25 and the embedded encoder, fused by rank.

    Its passages are chunks named ``document#n``, under their heading, with the document's id
    as ``source``. All are embedded at the first search.

    Args:
        documents: The documents.
        top_k: How many passages to find.

    Raises:
        InputError: The documents hold no text, or ``top_k`` is below 1.
    """
    document_chunks = split_documents(documents)
    ranking_k = max(top_k, FUSED_K)
    retrievers: list[Retriever] = [
        BM25Retriever(document_chunks, k=ranking_k),
        DenseRetriever(document_chunks, shared_encoder().embed_texts, k=ranking_k),
    ]
    return HybridRetriever(retrievers, k=top_k).retrieve


def split_documents(documents: Sequence[Passage]) -> tuple[Passage, ...]:
    """Split documents into the chunks that `build_search` finds.

    Raises:
        InputError: The documents hold no text.
    """
    document_chunks = []
    for document in documents:
        chunked_document = chunk_text(document.text)
        metadata = {**document.metadata, "source": document.id}
        for n, piece in enumerate(chunked_document.chunks, 1):
            piece_header, piece_text = chunked_document.chunk_context_and_text(piece)
            if piece.is_structural or not piece_text.strip():
                continue
            chunk = replace(
                document,
                text=piece_text.strip(),
                id=f"{document.id}#{n}",
                metadata=metadata,
                header=piece_header,
            )
            document_chunks.append(chunk)
    if not document_chunks:
        raise InputError("the documents hold no text")
    return tuple(document_chunks)


def label_cases(
    cases: EvaluationCases,
    llm: LLM,
    model_name: str,
    *,
    progress: Progress | None = None,
) -> EvaluationCases:
    """Have a model select the gold passages of the cases without gold (`s2a.llm_labels`).

    A case for which it selects none, or on which it fails, gets a warning.

    Args:
        cases: The cases.
        llm: The model.
        model_name: Its name in the report.
        progress: Called with the questions labelled and their number.

    Raises:
        DenoiseError: No case has gold passages then.
    """
    unlabelled_cases = [case for case in cases.cases if case.gold_from is None]
    if not unlabelled_cases:
        return cases
    questions = [case.question for case in unlabelled_cases]
    label_results = iter(label_questions(questions, llm, progress))
    labelled_cases = []
    labelled_count = 0
    problems = list(cases.problems)
    for case in cases.cases:
        if case.gold_from is None:
            label_result = next(label_results)
            if isinstance(label_result, Question):
                case = replace(case, question=label_result, gold_from="model")
                labelled_count += 1
            else:
                reason = f"{label_result} ({model_name})"
                problems.append(RecordProblem(case.line_number, reason))
        labelled_cases.append(case)
    if not labelled_count and len(unlabelled_cases) == len(labelled_cases):
        raise DenoiseError(f"no question was labelled: {problems[-1].reason}")
    source_note = f"gold passages of {labelled_count} questions are those that {model_name} selects"
    return replace(
        cases,
        cases=tuple(labelled_cases),
        problems=tuple(problems),
        notes=(*cases.notes, source_note),
    )


def generate_cases(
    documents: Sequence[Passage],
    *,
    question_count: int = DEFAULT_QUESTION_COUNT,
    top_k: int = DEFAULT_TOP_K,
) -> EvaluationCases:
    """Generate questions from chunks of documents: a sentence is taken out and becomes the question.

    Args:
        documents: The documents.
        question_count: How many questions to generate.
        top_k: Passages per question; half of the others are those most like the gold one.

    Raises:
        InputError: No question can be generated.
    """
    document_chunks = split_documents(documents)
    if top_k < 2:
        raise InputError(
            f"k={top_k}: expected 2 passages or more, so that some are irrelevant"
        )
    source_questions = questions_from_documents(
        document_chunks, n=question_count, negatives=top_k - 1
    )
    source_note = (
        "questions are sentences taken out of the documents; their gold passage is "
        "the rest of the chunk"
    )
    cases = []
    for number, question in enumerate(source_questions, 1):
        cases.append(EvaluationCase(question, number, "made"))
    return EvaluationCases(tuple(cases), notes=(source_note,))
