"""Bad input, failing sources and too much evidence: each gives an outcome and a reason, and none passes."""

import asyncio
from dataclasses import replace

import pytest
from augmenter_doubles import RIGHT, WRONG, check_loop, scripted
from augmenter_laws import check_answer
from growing_texts import numbered_texts, passages_of
from hypothesis import given
from hypothesis import strategies as st
from laws import check_tiling

from denoise_core import Passage, Reply
from denoise_core.augmenter import (
    AnswerVerdict,
    Augmenter,
    Consolidator,
    LoopLimits,
    Outcome,
    StopReason,
)
from denoise_core.augmenter.actions import Draft, Search
from denoise_core.augmenter.drafting import FixedText
from denoise_core.augmenter.knowledge.evidence_budget import (
    blank_over_budget,
    count_tokens,
    truncate_to_budget,
)
from denoise_core.augmenter.utility import without_effects
from denoise_core.runtime.fallbacks import fallback_counts
from denoise_core.testing import ListRetriever
from denoise_core.text.words import content_words


class Lenient:
    """Passes whatever it is asked about."""

    name = "lenient"

    def assess(self, memory, candidate):
        return without_effects(AnswerVerdict(True, 1.0))


@pytest.mark.parametrize(
    ("draft", "outcome"),
    [
        ("", Outcome.FAILED),
        ("  \n", Outcome.FAILED),
        ("<think>In 18", Outcome.FAILED),
        ("In 1889.</think>", Outcome.FAILED),
        ("<analysis>In 1889.</analysis>", Outcome.FAILED),
        ("[1]", Outcome.FAILED),
        ("\u200b", Outcome.FAILED),
        ('{"answered": false}', Outcome.ABSTAINED),
        ('{"answer": null}', Outcome.ABSTAINED),
        ("when was the eiffel tower completed", Outcome.UNSUPPORTED),
    ],
)
def test_a_draft_without_an_answer_passes_no_judge(passages, question, draft, outcome):
    for drafter, model in ((FixedText(draft, passages), None), (None, scripted(draft))):
        loop = Augmenter(model, judge=Lenient())
        answer = loop.answer(question, drafter=drafter, evidence=passages)
        check_answer(answer)
        assert answer.outcome is outcome
        assert answer.memory.attempts[0].verdict.reasons
        expected = draft
        if not draft.strip() or draft.startswith("<think"):
            expected = "No answer can be given: the model wrote no answer."
            assert answer.verdict is None
        assert answer.text == expected


def test_an_abstention_widens_the_search_once_and_then_ends(passages, question):
    model = scripted("unknown")
    wide = ListRetriever(passages)
    answer = check_loop(
        lambda: Augmenter(
            model, Consolidator(ListRetriever(passages[1:]), wide=(wide,))
        ),
        question,
    )
    assert answer.outcome is Outcome.ABSTAINED
    assert [type(action) for action in answer.memory.actions[:4]] == [
        Search,
        Draft,
        Search,
        Draft,
    ]
    assert answer.memory.draft_count == 2
    assert all(
        "did not hold" not in message.content
        for messages in model.received_messages
        for message in messages
    )


@pytest.mark.parametrize(
    ("failures", "outcome"), [(1, Outcome.SUPPORTED), (2, Outcome.UNKNOWN)]
)
def test_a_judge_that_fails_is_asked_once_more_and_then_nothing_is_known(
    build_loop, question, failures, outcome
):
    judged_texts = []

    class Judge(Lenient):
        def assess(self, memory, candidate):
            judged_texts.append(candidate)
            if len(judged_texts) <= failures:
                raise OSError("judge")
            return super().assess(memory, candidate)

    loop = build_loop(RIGHT, judge=Judge())
    answer = loop.answer(question)
    assert (answer.text, answer.outcome) == (RIGHT, outcome)
    is_lost = outcome is Outcome.UNKNOWN
    assert (answer.stop_reason is StopReason.JUDGE_ERROR) is is_lost
    assert (len(judged_texts), len(loop.llm.received_messages)) == (2, 1)


def test_a_thousand_passages_make_no_longer_a_prompt_than_the_limit(question):
    text = "Passage {n} speaks of tower number {n} and of little else. " * 12
    rows = passages_of(numbered_texts(text, 1000))
    limits = LoopLimits(evidence_tokens=3000)
    model = scripted(WRONG, RIGHT)
    answer = Augmenter(model, ListRetriever(rows), limits=limits).answer(question)
    check_answer(answer)
    assert [p.id for p in answer.memory.attempts[0].evidence][:2] == ["0", "1"]
    for messages in model.received_messages:
        assert sum(len(message.content) for message in messages) < 3000 * 4 * 1.5
    too_much = "LoopLimits(evidence_tokens=) is less than the evidence given"
    before = fallback_counts().get(("Augmenter", too_much), 0)
    drafter = FixedText(RIGHT, rows)
    answer = Augmenter(limits=limits).answer(question, drafter=drafter)
    evidence = answer.memory.evidence
    assert fallback_counts()["Augmenter", too_much] == before + 1
    assert count_tokens(evidence) <= 3000
    assert len(evidence) == len(rows)


def test_a_long_passage_is_read_where_it_speaks_of_the_question(question):
    filler = "Bananas are a yellow fruit rich in potassium. " * 220
    long = Passage(f"{filler}The Eiffel Tower was completed in 1889. {filler}", "long")
    limits = LoopLimits(evidence_tokens=2000)
    loop = Augmenter(scripted(RIGHT), ListRetriever([long]), limits=limits)
    answer = loop.answer(question)
    assert answer.outcome is Outcome.SUPPORTED
    (shown,) = answer.memory.evidence
    assert count_tokens([shown]) <= 2000
    parts = [long.text[span.start : span.end] for span in shown.spans]
    assert "".join(parts) == shown.text


texts = st.text("ab .\n语", max_size=1000)


@given(st.lists(texts, max_size=4), st.integers(1, 250), st.text("ab ", max_size=9))
def test_what_is_shown_fits_and_with_what_is_left_out_it_is_all_there_was(
    results, tokens, about
):
    rows = tuple(passages_of(results))
    kept_passages, dropped = truncate_to_budget(rows, tokens, about)
    assert count_tokens(kept_passages) <= tokens
    spans = [s for p in kept_passages for s in p.source_spans]
    spans += [drop.span for drop in dropped]
    for row in rows:
        check_tiling(row, [s for s in spans if s.passage_id == row.id])
    numbered = blank_over_budget(rows, tokens, about)
    assert [p.id for p in numbered] == [p.id for p in rows]
    assert count_tokens(numbered) <= tokens


def test_what_did_not_count_counts_once_it_is_retrieved(passages, question):
    """A user's copy of a passage hid it from the judge for good."""
    copy = replace(passages[0], id="pasted", provenance="user")
    sources = ListRetriever([copy, passages[0]])
    searched = Augmenter(scripted(RIGHT), sources).answer(question, evidence=[copy])
    drafter = FixedText(RIGHT)
    evidence = (copy, passages[0])
    fixed = Augmenter().answer(question, drafter=drafter, evidence=evidence)
    chain = FixedText(RIGHT, passages)
    brought = Augmenter().answer(question, drafter=chain, evidence=[copy])
    for answer in (searched, fixed, brought):
        assert answer.outcome is Outcome.SUPPORTED


MADE_UP = "Otto Brenner Grand Hall 1912 built completed tower river opera in the by"


def drafts_as_queries(memory, wide):
    drafts = [attempt.candidate for attempt in memory.attempts]
    return without_effects((memory.question, *drafts))


@given(st.lists(st.sampled_from(MADE_UP.split()), min_size=1, max_size=12))
def test_no_word_that_a_draft_made_up_is_searched_for(drafted):
    question = "When was the opera house completed?"
    house = Passage("The opera house was completed by the river.", "house")
    draft = " ".join(drafted).capitalize() + "."
    retriever = ListRetriever([house])
    consolidator = Consolidator(retriever, queries=drafts_as_queries)
    loop = Augmenter(
        scripted(draft),
        consolidator,
        judge=lambda claim: 0.0,
    )
    failures = loop.answer(question).memory.failures
    is_made_up = not set(content_words(f"{question} {house.text}")).issuperset(
        content_words(draft)
    )
    assert (draft in retriever.queries) is not is_made_up
    assert [what for what, _ in failures] == ["query"] * is_made_up


def test_when_decides_what_is_judged_at_all(passages, question):
    loop = Augmenter(judge=Lenient(), when=lambda asked, text: "1889" in text)
    for text in ("You're welcome.", "Hello! It was completed in 1889."):
        answer = loop.answer(question, drafter=FixedText(text, passages))
        check_answer(answer)
        is_judged = "1889" in text
        assert answer.text == text
        assert (answer.outcome is Outcome.SUPPORTED) is is_judged
        assert (answer.stop_reason is StopReason.UNJUDGED) is not is_judged


def test_a_when_that_fails_loses_no_draft(passages, question):
    def when(asked, text):
        raise ConnectionError("no route")

    loop = Augmenter(judge=Lenient(), when=when)
    answer = loop.answer(question, drafter=FixedText("In 1889.", passages))
    assert (answer.text, answer.outcome) == ("In 1889.", Outcome.SUPPORTED)
    assert answer.memory.failures == (("when", "ConnectionError: no route"),)


class Slow:
    """Hangs at the n-th thing it is asked for."""

    def __init__(self, n, passages):
        self.left = n
        self.passages = passages
        self.reached = asyncio.Event()

    async def reply(self, value):
        self.left -= 1
        if self.left < 0:
            self.reached.set()
            await asyncio.sleep(60)
        return value

    async def aretrieve(self, query):
        return await self.reply(self.passages)

    async def acomplete(self, messages):
        return await self.reply(Reply(WRONG))

    def retrieve(self, query):
        raise AssertionError("sync is not used")

    complete = retrieve


@pytest.mark.parametrize("n", range(3))
async def test_cancelling_in_the_middle_of_any_effect_ends_the_run(
    passages, question, n
):
    slow = Slow(n, passages)
    loop = Augmenter(slow, slow, limits=LoopLimits(patience=3))
    task = asyncio.create_task(loop.aanswer(question))
    await asyncio.wait_for(slow.reached.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_passage_without_sentence_ends_leaves_the_others_their_place():
    endless = Passage("塔は一八八九年に完成した" * 300, "endless")
    short = Passage("塔は赤い。", "short")
    shown = blank_over_budget([endless, short], 500, "塔は何色か")
    assert shown[1].text == short.text
    long = Passage("The tower opened in 1889. " + "x" * 6000, "long")
    notes = passages_of(numbered_texts("Fact {n}: the tower has {n} doors.", 5))
    shown = blank_over_budget(
        [long, *notes],
        1000,
        "tower opened doors 1889",
    )
    assert [p.text for p in shown[1:]] == [note.text for note in notes]
    again = replace(notes[0], id="again")
    shown = blank_over_budget([notes[0], again, *notes[1:]], count_tokens(notes), "")
    assert [p.id for p in shown if not p.text] == ["again"]
