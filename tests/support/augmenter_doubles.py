"""What several tests of the loop share: drafts, scores from a table, a denoiser of one rule, scripted models."""

import asyncio

from augmenter_laws import check_answer

from denoise_core import DenoiseResult, Drop, Reply, Span, Usage
from denoise_core.augmenter import AnswerVerdict, Augmenter, ClaimVerdict
from denoise_core.augmenter.drafting import DraftReply, RetrievedEvidence
from denoise_core.augmenter.utility import without_effects
from denoise_core.support.judging import ProviderCitation
from denoise_core.testing import FunctionLLM, ListRetriever

RIGHT = "It was completed in 1889 [1]."
WRONG = "It was completed in 1925 [1]."


class Scores:
    """A utility that is a table from candidate to score; passes at 0.9."""

    def __init__(self, **scores):
        self.scores = scores

    def assess(self, memory, candidate):
        score = self.scores[candidate]
        if score >= 0.9:
            return without_effects(AnswerVerdict(True, score))
        failed = ClaimVerdict(
            candidate, 0, len(candidate), False, kind="other", reason="not good enough"
        )
        return without_effects(
            AnswerVerdict(False, score, (failed,), None, failed.kind, failed.reason)
        )


class Script:
    """A policy that is a list of actions."""

    def __init__(self, *actions):
        self.actions = actions

    def choose(self, memory):
        return self.actions[min(len(memory.actions), len(self.actions) - 1)]


class HalfDenoiser:
    """Keeps the first passage, drops the others with scores."""

    def denoise(self, query, passages):
        first, *other_items = passages
        drops = tuple(
            Drop(Span(p.id, 0, len(p.text)), "low", n / 10)
            for n, p in enumerate(other_items)
        )
        return DenoiseResult(query, (first,), drops)

    async def adenoise(self, query, passages):
        return self.denoise(query, passages)


def next_outcome(outcomes):
    """Take the next of a list, of which the last stays for ever; raise it if it is an exception."""
    outcome = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


class Chain:
    """Plays drafts, the last for ever; counts what it did outside."""

    def __init__(self, *drafts, repeatable=True):
        self.left = list(drafts)
        self.repeatable = repeatable
        self.asked = []

    def draft(self, request):
        self.asked.append(request)
        return next_outcome(self.left)

    async def adraft(self, request):
        return self.draft(request)


class Pieces:
    """A streaming model: plays drafts in pieces of ``size`` characters; an exception among them is raised."""

    def __init__(self, *drafts, size=7, usage=None):
        self.left = list(drafts)
        self.size = size
        self.usage = usage
        self.sent = 0
        self.closed = 0

    def _draft(self):
        reply_text = next_outcome(self.left)
        for at in range(0, len(reply_text), self.size):
            self.sent += 1
            yield reply_text[at : at + self.size]
        if self.usage:
            yield self.usage

    def stream(self, messages):
        yield from self._draft()

    async def astream(self, messages):
        try:
            for piece in self._draft():
                await asyncio.sleep(0)
                yield piece
        finally:
            self.closed += 1

    def complete(self, messages):
        return Reply("".join(p for p in self._draft() if isinstance(p, str)))

    async def acomplete(self, messages):
        return self.complete(messages)


def scripted(*replies):
    """A model that says these in turn, and the last one for ever; an exception among them is raised."""
    left = list(replies)
    return FunctionLLM(lambda messages: next_outcome(left))


def prompts_of(model):
    return [
        "\n\n".join(message.content for message in messages)
        for messages in model.received_messages
    ]


def check_loop(make, question, make_drafter=lambda: None):
    """Run a fresh loop sync and async, check the laws of `check_answer` and that both are the same."""
    answer = make().answer(question, drafter=make_drafter())
    check_answer(answer)
    other = asyncio.run(make().aanswer(question, drafter=make_drafter()))
    check_answer(other)
    for what in ("text", "outcome", "stop_reason", "memory", "citations"):
        ours, theirs = getattr(answer, what), getattr(other, what)
        assert ours == theirs, f"sync and async differ in {what}:\n{ours}\n{theirs}"
    tags = [[event.tag for event in item.trace.events] for item in (answer, other)]
    assert tags[0] == tags[1], (
        f"sync and async made different calls:\n{tags[0]}\n{tags[1]}"
    )
    return answer


def recorded(passages, question, *replies, **options):
    """The answer of a loop with a model that says these: texts, or what `scripted` takes."""
    model = scripted(
        *(Reply(r, Usage(7, 3)) if isinstance(r, str) else r for r in replies)
    )
    return Augmenter(
        model, ListRetriever(passages), denoiser=HalfDenoiser(), **options
    ).answer(question)


def recorded_drafter(passages, question):
    """The answer of a loop with a drafter that finds these passages, is wrong first and then cites one."""
    found = (RetrievedEvidence(passages, question),)
    wrong = DraftReply(WRONG, Usage(9, 3), calls=2, retrieved=found)
    cited = (ProviderCitation(0, 5, passages[0].text),)
    chain = Chain(wrong, DraftReply(RIGHT, Usage(8, 2), citations=cited))
    return Augmenter().answer(question, drafter=chain)
