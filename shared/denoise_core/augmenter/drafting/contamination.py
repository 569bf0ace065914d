"""Keep a draft from fetching its own evidence.

A model that made something up will, asked again, search for what it made up, and find
text about it. So a search whose words come only from a rejected draft brings no
evidence, and neither does a tool result that only echoes the tool's arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from denoise_core.augmenter.drafting.drafter import DraftReply, RetrievedEvidence
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import with_title_line
from denoise_core.spans import Ranges
from denoise_core.support.citation_marks import remove_citations
from denoise_core.support.citing import matching_runs
from denoise_core.support.layout import blank_ranges
from denoise_core.text.words import content_words, split_words, word_spans
from denoise_core.types import Passage

# Words in a row that a tool result shares with the arguments: from 3 on they count as
# an echo, from 6 on they are blanked. Shorter runs are what a search was for.
_MIN_ECHO_WORDS = 3
_MIN_BLANKED_WORDS = 6
_MAX_ECHO_SHARE = 0.6  # of a tool result's words, from which on it says nothing new


def rejected_draft_words(memory: WorkingMemory) -> frozenset[str]:
    """Words that only the rejected drafts have.

    Neither the question, nor the conversation, nor the evidence has them.
    """
    draft_texts = []
    known_words = _user_words(memory) | _passage_words(memory.evidence)
    for attempt in memory.attempts:
        if attempt.verdict.passed:
            continue
        draft_texts.append(remove_citations(attempt.text_without_reasoning))
        known_words |= _passage_words(attempt.evidence)
    return _words_of(draft_texts) - known_words


def is_contaminated(query: str, rejected_words: frozenset[str]) -> bool:
    """Whether a query has one of the `rejected_draft_words`."""
    return not rejected_words.isdisjoint(content_words(query))


def split_evidence(
    draft_reply: DraftReply, memory: WorkingMemory
) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """Split the passages of a draft into evidence and excluded ones.

    Excluded is what a user or a model wrote, what a tool only echoed, and, after a
    rejected draft, what a search for that draft's words brought. If the words of a
    search are not known, a passage that has such a word is excluded.
    """
    rejected_words = rejected_draft_words(memory)
    user_words = _user_words(memory)
    counted: list[Passage] = []
    excluded: list[Passage] = []
    for evidence in draft_reply.retrieved:
        query = evidence.query
        for passage in evidence.passages:
            without_echo = _remove_echo(passage, query, user_words)
            if without_echo is None:
                excluded.append(passage)
                continue
            searched_text = query
            if searched_text is None:
                searched_text = with_title_line(passage)
            is_suspect = is_contaminated(searched_text, rejected_words)
            if passage.counts and not is_suspect:
                counted.append(without_echo)
            else:
                excluded.append(without_echo)
    return tuple(counted), tuple(excluded)


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
    suspect_words = _words_of(rejected_drafts) - _words_of([question])
    for search in searches:
        if not is_contaminated(search.query or "", suspect_words):
            suspect_words -= _passage_words(search.passages)
    # A second pass: what a later search brought clears an earlier query too.
    clean_searches = []
    for search in searches:
        if not is_contaminated(search.query or "", suspect_words):
            clean_searches.append(search)
    return tuple(clean_searches)


def _remove_echo(
    passage: Passage, query: str | None, user_words: frozenset[str]
) -> Passage | None:
    """A tool result without the arguments it repeats, which a model wrote.

    Returns None when it is mostly echo. Words of the user's are no echo. Long echoes
    are blanked, so that offsets in the text stay.
    """
    if passage.provenance != "tool" or query is None:
        return passage
    query_words = _words_of([query])
    if query_words <= user_words:
        return passage
    words = word_spans(passage.text)
    echoes = _find_echoes(words, query, user_words)
    echo_count = sum(end - first for first, end in echoes)
    is_mostly_echo = echo_count >= _MAX_ECHO_SHARE * len(words)
    if is_mostly_echo or query_words >= _words_of([passage.text]):
        return None
    long_ranges = []
    for first, end in echoes:
        if end - first >= _MIN_BLANKED_WORDS:
            _, start_offset, _ = words[first]
            _, _, end_offset = words[end - 1]
            long_ranges.append((start_offset, end_offset))
    return replace(passage, text=blank_ranges(passage.text, long_ranges))


def _find_echoes(
    words: Sequence[tuple[str, int, int]], query: str, user_words: frozenset[str]
) -> Ranges:
    """The runs of a result's words, as ranges of them, that come from its query alone."""
    plain_words = [word for word, _, _ in words]
    echoes = []
    for first, end in matching_runs(plain_words, split_words(query)):
        run_text = " ".join(plain_words[first:end])
        is_users = _words_of([run_text]) <= user_words
        if end - first >= _MIN_ECHO_WORDS and not is_users:
            echoes.append((first, end))
    return echoes


def _user_words(memory: WorkingMemory) -> frozenset[str]:
    """Words of the question and of what the user said before it."""
    return _words_of([memory.question, *memory.user_turns])


def _passage_words(passages: Iterable[Passage]) -> frozenset[str]:
    return _words_of(map(with_title_line, passages))


def _words_of(texts: Iterable[str]) -> frozenset[str]:
    """The content words of all texts."""
    words: set[str] = set()
    for text in texts:
        words.update(content_words(text))
    return frozenset(words)
