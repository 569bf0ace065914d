"""From calls to outcomes: asked once, once more in the same call where the reply cannot be read, then part by
part. A joint call that the model's side refuses is halved until the part is found that it refuses.

Whether a model can be held to a JSON schema is found by the first call, which is made alone where nobody knows
yet; the adapter remembers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from denoise_core.errors import BrokenLaw, BudgetExceeded, UnparsableReply, is_mistake
from denoise_core.protocols import LLM, by_schema, held_to_schema
from denoise_core.running.effects import Complete, Failed, Flow, batch
from denoise_core.s2a.asks import Ask, alone, halved
from denoise_core.s2a.options import Options
from denoise_core.s2a.prompts import said_again
from denoise_core.s2a.replies import Outcome, failed
from denoise_core.text.delimit import envelope, shown
from denoise_core.types import Message, Reply

CORRECTED = "asked again in the same call: the first reply was unreadable"
ALONE = "asked again, alone: the joint replies were unreadable"
HALVED = "asked again with fewer: the joint call was refused"
_SHOWN = 2000  # characters of an unreadable reply that are shown to the model again


@dataclass(frozen=True, slots=True)
class Asker:
    """Who is asked, and how. ``read`` gives the outcomes of a reply, or raises `UnparsableReply`."""

    llm: LLM
    options: Options
    tag: str
    read: Callable[[Ask, Reply], list[Outcome]]
    numbered: bool

    def outcomes(self, asks: Sequence[Ask]) -> Flow[list[list[Outcome]]]:
        """The outcomes of each call. Raises a mistake; anything else becomes the problem of the parts it was
        about."""
        found = yield from self._once(asks)
        yield from self._halved(asks, found)
        unread = [n for n, outcomes in enumerate(found) if _unread(outcomes)]
        if not unread:
            return found
        again = yield from self._batch([self._corrected(asks[n], found[n][0]) for n in unread])
        for n, reply in zip(unread, again, strict=True):
            found[n] = _noted(self._outcomes(asks[n], reply), CORRECTED, calls=2)
        yield from self._part_by_part(asks, found, [n for n in unread if _unread(found[n])])
        return found

    def _halved(self, asks: Sequence[Ask], found: list[list[Outcome]], depth: int = 0) -> Flow[None]:
        """The joint calls that were refused again, in halves; ``found`` is changed in its places. Where halves and
        their halves are all refused too it is no matter of one part, and they are left as they are."""
        if any(o.problem is None for outcomes in found for o in outcomes):
            depth = 0
        left = [n for n, a in enumerate(asks) if len(a.parts) > 1 and _of_the_request(found[n][0].error, depth)]
        halves = [half for n in left for half in halved(asks[n], self.options, numbered=self.numbered)]
        if not halves:
            return
        again = yield from self._once(halves)
        yield from self._halved(halves, again, depth + 1)
        for place, n in enumerate(left):
            own = [*again[2 * place], *again[2 * place + 1]]
            found[n] = [replace(o, notes=(*o.notes, HALVED), calls=o.calls + 1) for o in own]

    def _part_by_part(self, asks: Sequence[Ask], found: list[list[Outcome]], left: list[int]) -> Flow[None]:
        """The calls ``left`` that hold several parts again, a call a part; ``found`` is changed in its places."""
        singles = [(n, ask) for n in left for ask in alone(asks[n], self.options, numbered=self.numbered)]
        singles = [(n, ask) for n, ask in singles if len(asks[n].parts) > 1]
        if not singles:
            return
        last = yield from self._once([ask for _, ask in singles])
        for n in dict.fromkeys(n for n, _ in singles):
            own = [o for (at, _), outcomes in zip(singles, last, strict=True) if at == n for o in outcomes]
            found[n] = _noted(own, ALONE, calls=3)

    def _once(self, asks: Sequence[Ask]) -> Flow[list[list[Outcome]]]:
        replies: list[Reply | Failed] = []
        if len(asks) > 1 and self.options.structured and by_schema(self.llm) is None:
            replies = yield from self._batch([self._effect(asks[0])])
        replies += yield from self._batch([self._effect(ask) for ask in asks[len(replies) :]])
        return [self._outcomes(ask, reply) for ask, reply in zip(asks, replies, strict=True)]

    def _batch(self, calls: list[Complete]) -> Flow[list[Reply | Failed]]:
        if not calls:
            return []
        replies: list[Reply | Failed] = yield from batch(tuple(calls))
        return replies

    def _effect(self, ask: Ask, turns: tuple[Message, ...] = ()) -> Complete:
        held = self.options.structured and by_schema(self.llm) is not False
        llm = held_to_schema(self.llm, ask.form) if held else self.llm
        if self.options.cache is not None:
            llm = self.options.cache.bind(llm, lambda reply: not _unread(self._outcomes(ask, reply)))
        return Complete((*ask.messages(held), *turns), self.tag, llm)

    def _corrected(self, ask: Ask, outcome: Outcome) -> Complete:
        """The same call with the reply in it, and one turn that asks for the form alone.

        What was wrong is enclosed: it may quote the reply, and so the document.
        """
        given = getattr(outcome.error, "reply", "") or "(nothing)"
        wanted = (
            f"That could not be read:\n{envelope(str(outcome.problem), 'problem')}\n\n"
            f"Give the same reply again, as JSON and nothing else: {said_again(ask.form)}"
        )
        return self._effect(ask, (Message("assistant", shown(given[:_SHOWN])), Message("user", wanted)))

    def _outcomes(self, ask: Ask, reply: Reply | Failed) -> list[Outcome]:
        if isinstance(reply, Failed):
            if is_mistake(reply.error):
                raise reply.error
            return failed(ask, reply.error)
        try:
            return self.read(ask, reply)
        except UnparsableReply as error:
            error.reply = reply.text if isinstance(reply.text, str) else ""  # type: ignore[attr-defined]
            return failed(ask, error)


def _unread(outcomes: Sequence[Outcome]) -> bool:
    return any(isinstance(o.error, UnparsableReply) for o in outcomes)


def _of_the_request(error: Exception | None, depth: int) -> bool:
    """Whether a call may have failed for one of the parts in it, ``depth`` rounds after one came through: a status
    says that the request was refused, or there is none and the error is none of the moment."""
    if error is None or isinstance(error, (UnparsableReply, BudgetExceeded)):
        return False
    places = (error, getattr(error, "response", None))
    told = [getattr(p, name, None) for p in places for name in ("status_code", "status", "code")]
    statuses = [s for s in told if isinstance(s, int)]
    if statuses:
        return statuses[0] in (400, 413, 422) and depth < 2
    return depth < 1 and not isinstance(error, (TimeoutError, OSError, BrokenLaw))


def _noted(outcomes: list[Outcome], note: str, *, calls: int) -> list[Outcome]:
    return [replace(o, notes=(*o.notes, note), calls=calls) for o in outcomes]
