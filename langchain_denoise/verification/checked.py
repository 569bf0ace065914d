"""The loop as a runnable, whole and as a stream of checked text: under `verified` and `AugmentedRunnable`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.callbacks import AsyncParentRunManager, ParentRunManager
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from langchain_core.runnables.utils import Input, Output
from pydantic import ConfigDict
from typing_extensions import override

from denoise_core import Message
from denoise_core._secrets import PickledModel
from denoise_core.augmenter import Answer, Augmenter
from denoise_core.augmenter.drafting import Drafter
from denoise_core.augmenter.streaming import StreamEvent, draft_first, held_back
from denoise_core.running.budget import at_most
from langchain_denoise.observe import atell, short_record, tell
from langchain_denoise.verification.streamed import Streamed

Show = Literal["held_back", "draft_first"]
_FOLLOW = {"held_back": held_back, "draft_first": draft_first}


@dataclass(frozen=True, slots=True)
class Asked:
    """One input as the loop takes it; ``told`` is called with the answer, ``output`` gives what is put in its
    place and the record of the run."""

    loop: Augmenter
    question: str
    history: tuple[Message, ...]
    told: Callable[[Answer], Answer]
    output: Callable[[Answer], tuple[Any, dict[str, Any]]]
    drafter: Drafter | None = None


class Checked(PickledModel, RunnableSerializable[Input, Output]):
    """Answers that are judged before they are given.

    ``stream`` yields one value: nothing is shown before it is judged. `stream_checked` shows sentences as they
    pass, or the draft first and its verdict after. Inner calls are children of this run.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    def _asked(self, input: Input, options: dict[str, Any]) -> Asked:
        raise NotImplementedError

    @property
    def _most(self) -> int | None:
        """At most so many calls of the loop at once."""
        return None

    @override
    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        return self._call_with_config(self._answer, input, config, **kwargs)

    @override
    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        return await self._acall_with_config(self._aanswer, input, config, **kwargs)

    def _answer(
        self, input: Input, run_manager: ParentRunManager, config: RunnableConfig, **kwargs: Any
    ) -> Output:
        asked = self._asked(input, kwargs)
        with at_most(self._most), at_most(config.get("max_concurrency")):
            answer = asked.told(asked.loop.answer(asked.question, asked.history, drafter=asked.drafter))
        output, record = asked.output(answer)
        tell(run_manager, {"question": asked.question}, short_record(record), record)
        made: Output = output
        return made

    async def _aanswer(
        self, input: Input, run_manager: AsyncParentRunManager, config: RunnableConfig, **kwargs: Any
    ) -> Output:
        asked = self._asked(input, kwargs)
        with at_most(self._most), at_most(config.get("max_concurrency")):
            answer = asked.told(await asked.loop.aanswer(asked.question, asked.history, drafter=asked.drafter))
        output, record = asked.output(answer)
        await atell(run_manager, {"question": asked.question}, short_record(record), record)
        made: Output = output
        return made

    def stream_checked(
        self, input: Input, config: RunnableConfig | None = None, *, show: Show = "held_back"
    ) -> Iterator[StreamEvent]:
        """`denoise_core.augmenter.streaming` events: `Text` as sentences pass (``"held_back"``) or as the first
        draft is written (``"draft_first"``), `Restarted` when it is withdrawn, at last `Finished` or `Revised`
        with the `Answer`."""
        streamed, begin = self._streamed(input, show)
        yield from streamed.events(lambda: iter(begin()), config)

    async def astream_checked(
        self, input: Input, config: RunnableConfig | None = None, *, show: Show = "held_back"
    ) -> AsyncIterator[StreamEvent]:
        """`stream_checked` for async."""
        streamed, begin = self._streamed(input, show)
        async with aclosing(streamed.aevents(lambda: aiter(begin()), config)) as events:
            async for event in events:
                yield event

    def _streamed(self, input: Input, show: Show) -> tuple[Streamed, Callable[[], Any]]:
        asked = self._asked(input, {})

        def begin() -> Any:
            return _FOLLOW[show](asked.loop, asked.question, asked.history, drafter=asked.drafter)

        return Streamed(self.get_name(), input, asked.question, asked.told, self._most), begin
