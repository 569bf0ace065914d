"""From calls to outcomes: asked once, once more in the same call where the reply cannot be read, then part by
part.

Whether a model can be held to a JSON schema is found by the first call, which is made alone where nobody knows
yet; the adapter remembers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from denoise_core.errors import UnparsableReply, is_mistake
from denoise_core.protocols import LLM
from denoise_core.running.effects import Complete, Failed, Flow, batch
from denoise_core.running.structured import by_schema, held_to_schema
from denoise_core.s2a.asks import Ask, alone
from denoise_core.s2a.forms import said_again
from denoise_core.s2a.options import Options
from denoise_core.s2a.reading import Outcome, failed
from denoise_core.text.delimit import envelope, shown
from denoise_core.types import Message, Reply

CORRECTED = "asked again in the same call: the first reply was unreadable"
ALONE = "asked again, alone: the joint replies were unreadable"
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
        unread = [n for n, outcomes in enumerate(found) if _unread(outcomes)]
        if not unread:
            return found
        again = yield from self._batch([self._corrected(asks[n], found[n][0]) for n in unread])
        for n, reply in zip(unread, again, strict=True):
            found[n] = _noted(self._outcomes(asks[n], reply), CORRECTED, calls=2)
        yield from self._part_by_part(asks, found, [n for n in unread if _unread(found[n])])
        return found

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


def _noted(outcomes: list[Outcome], note: str, *, calls: int) -> list[Outcome]:
    return [replace(o, notes=(*o.notes, note), calls=calls) for o in outcomes]
