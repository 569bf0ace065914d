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
from denoise_core.support.citation_marks import remove_citations
from denoise_core.support.citing import matching_runs
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
    draft_words: set[str] = set()
    known_words = _user_words(memory) | _passage_words(memory.evidence)
    for attempt in memory.attempts:
        if attempt.verdict.passed:
            continue
        draft_text = remove_citations(attempt.text_without_reasoning)
        draft_words.update(content_words(draft_text))
        known_words |= _passage_words(attempt.evidence)
    return frozenset(draft_words) - known_words


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
    draft_words: set[str] = set()
    for draft_text in rejected_drafts:
        draft_words.update(content_words(draft_text))
    suspect_words = draft_words - set(content_words(question))
    for search in searches:
        query_words = content_words(search.query or "")
        if suspect_words.isdisjoint(query_words):
            suspect_words -= _passage_words(search.passages)
    # A second pass: what a later search brought clears an earlier query too.
    clean_searches = []
    for search in searches:
        query_words = content_words(search.query or "")
        if suspect_words.isdisjoint(query_words):
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
    query_words = frozenset(content_words(query))
    if query_words <= user_words:
        return passage
    text = passage.text
    words = word_spans(text)
    echoes: list[tuple[int, int]] = []
    plain_words = [word for word, _, _ in words]
    echo_count = 0
    for first, end in matching_runs(plain_words, split_words(query)):
        run_length = end - first
        run_text = " ".join(plain_words[first:end])
        is_users = user_words.issuperset(content_words(run_text))
        if run_length >= _MIN_ECHO_WORDS and not is_users:
            echoes.append((first, end))
            echo_count += run_length
    is_mostly_echo = echo_count >= _MAX_ECHO_SHARE * len(words)
    if is_mostly_echo or query_words.issuperset(content_words(text)):
        return None
    for first, end in echoes:
        if end - first < _MIN_BLANKED_WORDS:
            continue
        start_offset = words[first][1]
        end_offset = words[end - 1][2]
        blanks = " " * (end_offset - start_offset)
        text = text[:start_offset] + blanks + text[end_offset:]
    if text == passage.text:
        return passage
    return replace(passage, text=text)


def _user_words(memory: WorkingMemory) -> frozenset[str]:
    """Words of the question and of what the user said before it."""
    words = set(content_words(memory.question))
    for message in memory.history:
        if message.role == "user":
            words.update(content_words(message.content))
    return frozenset(words)


def _passage_words(passages: Iterable[Passage]) -> frozenset[str]:
    words: set[str] = set()
    for passage in passages:
        text = with_title_line(passage)
        words.update(content_words(text))
    return frozenset(words)
