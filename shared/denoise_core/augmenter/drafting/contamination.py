"""Keep a draft from fetching its own evidence.

A model that made something up will, asked again, search for what it made up, and find
text about it. So a search whose words come only from a rejected draft brings no
evidence, and neither does a tool result that mostly echoes the tool's arguments: of it
only a number counts that the arguments do not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from denoise_core.augmenter.drafting.drafter import RetrievedEvidence
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import with_title_line
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.spans import Ranges
from denoise_core.support.citation_marks import remove_citations
from denoise_core.support.citing import matching_runs
from denoise_core.support.layout import blank_ranges
from denoise_core.text.facts.comparison import find_differences
from denoise_core.text.words import content_words, split_words, word_spans
from denoise_core.types import Passage

# Words in a row that a tool result shares with the arguments: from 3 on they count as
# an echo, from 6 on they are blanked. Shorter runs are what a search was for.
_MIN_ECHO_WORDS = 3
_MIN_BLANKED_WORDS = 6
_MAX_ECHO_SHARE = 0.6  # of a tool result's words, from which on it is mostly echo
_COMPONENT = "Augmenter evidence"
_CONTAMINATED = "a search for what only a rejected draft says"
_UNCOUNTED = "that is no evidence"


def rejected_draft_words(memory: WorkingMemory) -> frozenset[str]:
    """Words that only the rejected drafts have.

    Neither the question, nor the conversation, nor the evidence has them.
    """
    draft_texts = []
    user_words = _user_words(memory)
    evidence_words = _passage_words(memory.evidence)
    known_words = user_words | evidence_words
    for attempt in memory.attempts:
        if attempt.verdict.passed:
            continue
        draft_text = attempt.text_without_reasoning
        uncited_text = remove_citations(draft_text)
        draft_texts.append(uncited_text)
        known_words |= _passage_words(attempt.evidence)
    draft_words = _words_of(draft_texts)
    return draft_words - known_words


def is_contaminated(query: str | None, rejected_words: frozenset[str]) -> bool:
    """Whether a query has one of the `rejected_draft_words`; an unknown one has none."""
    query_words = content_words(query or "")
    return not rejected_words.isdisjoint(query_words)


def split_evidence(
    evidence: RetrievedEvidence, memory: WorkingMemory
) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """Split what one search of a draft brought into evidence and excluded passages.

    Excluded is what a user or a model wrote, what a tool only echoed, and, after a
    rejected draft, what a search for that draft's words brought. If the words of a
    search are not known, a passage that has such a word is excluded.
    """
    rejected_words = rejected_draft_words(memory)
    user_words = _user_words(memory)
    counted: list[Passage] = []
    excluded: list[Passage] = []
    query = evidence.query
    for passage in evidence.passages:
        without_echo = _remove_echo(passage, query, user_words)
        if without_echo != passage:
            log_fallback(_COMPONENT, "a tool repeats its arguments", _UNCOUNTED)
        if without_echo is None:
            excluded.append(passage)
            continue
        searched_text = query
        if searched_text is None:
            searched_text = with_title_line(passage)
        is_suspect = is_contaminated(searched_text, rejected_words)
        if is_suspect:
            log_fallback(_COMPONENT, _CONTAMINATED, _UNCOUNTED)
        if passage.counts and not is_suspect:
            counted.append(without_echo)
        else:
            excluded.append(without_echo)
    counted_passages = tuple(counted)
    return counted_passages, tuple(excluded)


def drop_contaminated_searches(
    question: str,
    searches: Sequence[RetrievedEvidence],
    rejected_drafts: Sequence[str],
) -> tuple[RetrievedEvidence, ...]:
    """Drop an agent's searches for what only a rejected draft says.

    A word that an earlier search brought may be searched.

    Args:
        question: All that the user said.
        searches: The searches with their results, in order.
        rejected_drafts: The drafts judged before these searches are read again.
    """
    draft_words = _words_of(rejected_drafts)
    question_words = _words_of([question])
    suspect_words = draft_words - question_words
    for search in searches:
        is_suspect = is_contaminated(search.query, suspect_words)
        if not is_suspect:
            suspect_words -= _passage_words(search.passages)
    # A second pass: what a later search brought clears an earlier query too.
    clean_searches = []
    for search in searches:
        is_suspect = is_contaminated(search.query, suspect_words)
        if is_suspect:
            log_fallback(_COMPONENT, _CONTAMINATED, _UNCOUNTED)
        else:
            clean_searches.append(search)
    return tuple(clean_searches)


def _remove_echo(
    passage: Passage, query: str | None, user_words: frozenset[str]
) -> Passage | None:
    """A tool result without the arguments it repeats, which a model wrote.

    Returns None when it is mostly echo and adds no number. Words of the user's are no
    echo. Long echoes are blanked, so that offsets in the text stay.
    """
    if passage.provenance != "tool" or query is None:
        return passage
    query_words = _words_of([query])
    if query_words <= user_words:
        return passage
    result_text = passage.text
    result_words = _words_of([result_text])
    if query_words >= result_words:
        return None
    words = word_spans(result_text)
    echoes = _find_echoes(words, query, user_words)
    echo_count = 0
    blanked_ranges = []
    for first, end in echoes:
        echo_length = end - first
        echo_count += echo_length
        if echo_length >= _MIN_BLANKED_WORDS:
            _, start_offset, _ = words[first]
            _, _, end_offset = words[end - 1]
            blanked_range = (start_offset, end_offset)
            blanked_ranges.append(blanked_range)
    if echo_count >= _MAX_ECHO_SHARE * len(words):
        return _added_number(passage, query)
    blanked_text = blank_ranges(result_text, blanked_ranges)
    return replace(passage, text=blanked_text)


def _added_number(passage: Passage, query: str) -> Passage | None:
    """What a tool result has besides the words of its query; None without a number.

    A calculation repeats its arguments before its value, a note repeats the claim that it
    stores, in other words too: so a shared word counts wherever it is.
    """
    query_words = set(split_words(query))
    shared_ranges = []
    for word, start, end in word_spans(passage.text):
        if word in query_words:
            shared_ranges.append((start, end))
    added_text = blank_ranges(passage.text, shared_ranges)
    differences = find_differences(added_text, query)
    if all(difference.kind == "name" for difference in differences):
        return None
    return replace(passage, text=added_text)


def _find_echoes(
    words: Sequence[tuple[str, int, int]], query: str, user_words: frozenset[str]
) -> Ranges:
    """The runs of a result's words, as ranges of them, that come from its query alone."""
    plain_words = [word for word, _, _ in words]
    query_words = split_words(query)
    shared_runs = matching_runs(plain_words, query_words)
    echoes = []
    for first, end in shared_runs:
        run_text = " ".join(plain_words[first:end])
        is_users = _words_of([run_text]) <= user_words
        if end - first >= _MIN_ECHO_WORDS and not is_users:
            echoes.append((first, end))
    return echoes


def _user_words(memory: WorkingMemory) -> frozenset[str]:
    """Words of the question and of what the user said before it."""
    user_texts = [memory.question, *memory.user_turns]
    return _words_of(user_texts)


def _passage_words(passages: Iterable[Passage]) -> frozenset[str]:
    titled_texts = map(with_title_line, passages)
    return _words_of(titled_texts)


def _words_of(texts: Iterable[str]) -> frozenset[str]:
    """The content words of all texts."""
    all_words: set[str] = set()
    for text in texts:
        text_words = content_words(text)
        all_words.update(text_words)
    return frozenset(all_words)
