"""Scoring and answering as one reading: the answer goes on from what the probe's layers computed of the kept
chunks.

Ours, not the paper's, which reads the kept chunks again (Early Noise Dropping, section 2.3). What is
approximate stands in `denoise_core.local.keeping.one_pass`; `OnePassAnswers.apart` says how far the first answer's
prompt was from its exact reading on the user's own model.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from denoise_core._optional import require
from denoise_core.end.scorer import ProbeScorer
from denoise_core.errors import InputError
from denoise_core.local.generation.llm import LocalLLM
from denoise_core.local.layout import token_ids
from denoise_core.running.offload import offload
from denoise_core.types import Passage, Reply, well_formed

if TYPE_CHECKING:
    from denoise_core.local.keeping.kv import Page
    from denoise_core.local.keeping.one_pass import OnePass


BETWEEN = "\n\nPassage:\n"  # between two chunks, where the layout has one slot
CUE = "\n\nAnswer:"  # after the question, where no chat template ends with the model's turn

log = logging.getLogger("denoise")


@dataclass(frozen=True, slots=True)
class Apart:
    """One pass against the exact reading of the same prompt: the first token's distributions.

    ``divergence`` is the Kullback-Leibler divergence of the one-pass distribution from the exact one, in nats;
    ``same`` whether both have the same most likely token; ``tokens`` is the prompt's length.
    """

    divergence: float
    same: bool
    tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """An answer, and what has been read for it; `OnePassAnswers.again` goes on from there."""

    reply: Reply
    query: str
    page: Page
    ids: tuple[int, ...]


class OnePassAnswers:
    """Answers of ``llm`` from what ``scorer`` has read; both must have the very same model object.

    What the scorer computed stays in its reader's prefix cache (`HiddenReader`, 512 MiB unless told otherwise),
    and with it the states before the probe's last block; chunks that have left the cache are read again. An
    answer's own keys and values live as long as its `Read`: ``page.nbytes``.

    ``off()`` says why prompts have to be read exactly on this model, or is None. Raises `InputError` when
    the two do not share a model, or the scorer's layout has the query before the passage.
    """

    def __init__(self, scorer: Any, llm: Any) -> None:
        if not isinstance(scorer, ProbeScorer) or not isinstance(llm, LocalLLM):
            raise InputError(
                "reading='one_pass' goes on from a probe's first layers in the same model: expected a ProbeScorer "
                f"and a LocalLLM, got {type(scorer).__name__} and {type(llm).__name__}"
            )
        self.scorer: ProbeScorer = scorer
        self.llm: LocalLLM = llm
        self.apart: Apart | None = None
        self._one_pass: OnePass | None = None

    def off(self) -> str | None:
        """Why prompts have to be read exactly on this model, or None."""
        one_pass = self._ready()
        return one_pass if isinstance(one_pass, str) else one_pass.off()

    def answer(self, query: str, texts: Sequence[str], feedback: str = "") -> Read:
        """Read ``texts``, as they were scored for ``query``, then question and feedback, and answer.

        Raises `InputError` where `off` has a reason, and without texts.
        """
        return self._read(query, texts, None, feedback)

    def again(self, before: Read, texts: Sequence[str], feedback: str = "") -> Read:
        """Append ``texts`` to what was read, then question and feedback: nothing before is read again.

        The result is that of reading the same chunks in the same order from the start.
        """
        return self._read(before.query, texts, before.page, feedback)

    def stream(self, query: str, texts: Sequence[str], feedback: str = "") -> Generator[str, None, Read]:
        """`answer` in pieces; joined they are its text. Returns the `Read`, from which `again` goes on."""
        page = self._page(query, texts, None, feedback)
        made: list[str] = []
        stream = self.llm.stream_on(page.ids, page.past())
        try:
            while True:
                made.append(next(stream))
                yield made[-1]
        except StopIteration as stop:
            return Read(Reply("".join(made), stop.value.usage), query, page, tuple(page.ids))
        finally:
            stream.close()

    def _read(self, query: str, texts: Sequence[str], page: Page | None, feedback: str) -> Read:
        page = self._page(query, texts, page, feedback)
        return Read(self.llm.go_on(page.ids, page.past()), query, page, tuple(page.ids))

    def _page(self, query: str, texts: Sequence[str], page: Page | None, feedback: str) -> Page:
        from denoise_core.local.keeping.one_pass import Chunk

        if page is None and not texts:
            raise InputError("nothing to read: an answer in one pass needs at least one text")
        one_pass = self._ready()
        why = one_pass if isinstance(one_pass, str) else one_pass.off()
        if why is not None or isinstance(one_pass, str):
            raise InputError(f"this prompt cannot be read in one pass: {why}")
        reader = self.scorer.reader
        found = reader.kept([(query, well_formed(t)) for t in texts], self.scorer.probe.reading.layer)
        chunks = [Chunk(p.ids, *p.passage, kept) for p, kept in found]
        (asked,) = reader.layout.encode([f"{query}\n\n{feedback}" if feedback else query])
        empty = reader.layout.assemble((), asked)
        tail = [*empty.ids[empty.passage[1] :], *self._cue()]
        with reader.backbone.early.lock:
            page = one_pass.read(page, chunks, self._own(BETWEEN), tail)
            if self.apart is None and len(chunks) > 1:
                self.apart = self._compare(page)
                log.info("one pass and exact reading of %d tokens: %s", len(page.ids), self.apart)
        return page

    def _ready(self) -> OnePass | str:
        if self._one_pass is None:
            require("torch", extra="end")
            from denoise_core.local.first_layers import early_layers
            from denoise_core.local.keeping.one_pass import OnePass

            reader, layer = self.scorer.reader, self.scorer.probe.reading.layer
            self.llm.load()
            early = reader.backbone.early
            if early_layers(self.llm.model) is not early:
                raise InputError(
                    "reading='one_pass' needs one model in memory: give ProbeScorer and LocalLLM the same loaded "
                    "object, ProbeScorer(model, probe, tokenizer=tokenizer) and LocalLLM(model, tokenizer)"
                )
            why = reader.keep_states(layer)
            if why is not None:
                return why
            self._one_pass = OnePass(early, layer, int(getattr(self.llm.tokenizer, "pad_token_id", None) or 0))
        return self._one_pass

    def _own(self, text: str) -> list[int]:
        return token_ids(self.scorer.reader.backbone.tokenizer, [text], own_text=True)[0]

    def _cue(self) -> list[int]:
        chat = self.scorer.reader.settings.layout is None or self.scorer.reader.settings.layout.chat
        ends_by_itself = chat and getattr(self.scorer.reader.backbone.tokenizer, "chat_template", None)
        return [] if ends_by_itself else self._own(CUE)

    def _compare(self, page: Page) -> Apart:
        torch = require("torch", extra="end")
        model: Any = self.llm.model
        with torch.inference_mode():
            ids = torch.tensor([page.ids], device=model.device)
            exact = torch.log_softmax(model(input_ids=ids).logits[0, -1].float(), -1)
            at = torch.tensor([[len(page.ids) - 1]], device=model.device)
            out = model(input_ids=ids[:, -1:], position_ids=at, past_key_values=page.past())
            mine = torch.log_softmax(out.logits[0, -1].float(), -1)
            divergence = float((exact.exp() * (exact - mine)).sum())
        return Apart(max(0.0, divergence), int(exact.argmax()) == int(mine.argmax()), len(page.ids))


class Request(Protocol):
    """What a loop asks for (`denoise_core.augmenter.drafting.DraftRequest`)."""

    @property
    def question(self) -> str: ...

    @property
    def evidence(self) -> Sequence[Passage]: ...

    @property
    def feedback(self) -> str: ...


class OnePassDrafter:
    """Drafts from the evidence of a request: ``augmenter.answer(question, drafter=OnePassDrafter(answers))``.

    Evidence that follows what was read before, such as one re-admitted chunk, is appended; other evidence is read
    from the start. Drafts of one drafter belong to one question at a time: give each run a drafter of its own.
    Raises `InputError` where `OnePassAnswers.off` has a reason, and for a request without evidence.
    """

    repeatable = True

    def __init__(self, answers: OnePassAnswers) -> None:
        self.answers = answers
        self._read: Read | None = None
        self._texts: tuple[str, ...] = ()

    def draft(self, request: Request) -> Reply:
        texts = tuple(p.headed for p in request.evidence)
        before, had = self._read, self._texts
        if before is not None and before.query == request.question and texts[: len(had)] == had:
            self._read = self.answers.again(before, texts[len(had) :], request.feedback)
        else:
            self._read = self.answers.answer(request.question, texts, request.feedback)
        self._texts = texts
        return self._read.reply

    async def adraft(self, request: Request) -> Reply:
        return await offload(self.draft, request)
