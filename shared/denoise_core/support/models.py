"""Judges by model name, as score functions for `FunctionUtility`. Nothing is loaded before the first call.

`classifier` reads which head a model has from its config: three-label and two-label entailment models give the
probability of entailment, models of one logit its sigmoid, token classifiers what is left when the least supported
word is unsupported. Each claim of an answer is held against windows of whole sentences that fit the model, in
batches; the best window counts for a claim, and the worst claim for the answer. Nothing is cut silently: where a
claim leaves no room for evidence, the judge cannot say (None).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.running.travel import Travels
from denoise_core.support.citing import cited
from denoise_core.support.claims import parts
from denoise_core.text.chunk import sentences
from denoise_core.text.delimit import envelope
from denoise_core.text.language import language_of
from denoise_core.types import Passage

Score: TypeAlias = Callable[[str, Sequence[str], str], float | None]
Head = Literal["entailment", "logit", "tokens"]

GROUNDED = "Is every statement of the answer said by the evidence? Judge by the evidence alone."
_BATCH = 16  # pairs read at once
_ROOM = 0.5  # share of a model's window that a claim may take
_LONGEST = 100_000  # a tokenizer that names a longer window names none
_DEFAULT = 512


def classifier(
    model: str, *, label: str | None = None, head: Head | None = None, ask: bool = False, device: str = "cpu"
) -> Score:
    """The score of a Hugging Face classifier by name, 0 to 1.

    ``label`` is the output to read: that of entailment (the one called so by default), or for token classifiers
    that of unsupported words. ``head`` is told by the config; give it to insist. ``ask`` puts the question before
    each claim, for models that were trained so. Raises `InputError` at the first call when the config does not say
    which output to read.
    """
    return _Judge(model, label, head, ask, device)


def nli(model: str, *, entailment: str | None = None, device: str = "cpu") -> Score:
    """`classifier` for entailment models of two or three labels."""
    return classifier(model, label=entailment, head="entailment", device=device)


def cross_encoder(model: str, *, device: str = "cpu") -> Score:
    """`classifier` for models of one logit, given question and claim: a sigmoid, never a softmax of one."""
    return classifier(model, head="logit", ask=True, device=device)


def unsupported_words(model: str, *, unsupported: str | None = None, device: str = "cpu") -> Score:
    """`classifier` for token classifiers that mark unsupported words."""
    return classifier(model, label=unsupported, head="tokens", device=device)


def decision(decide: Any) -> Score:
    """The probability of yes to "is every statement said by the evidence?", from one forward pass.

    ``decide`` is a model name for the ``decision`` pipeline of transformers, such a pipeline, or any callable
    that takes ``{"state": text, "questions": {name: {"type": "noul", "instructions": text}}}`` and returns
    ``{name: {"noul": probability}}``.
    """
    return _Decision(decide)


def claims_of(candidate: str) -> list[str]:
    """The claims of an answer as texts, without markup and citations; the whole of it when it has none."""
    numbered = [Passage("", f"#{n}") for n in range(1, 1000)]
    found = [
        " ".join(p.text.split()) for p in parts(candidate, cited(candidate, numbered), language_of(candidate))
    ]
    return found or ([candidate.strip()] if candidate.strip() else [])


def head_of(config: Any) -> Head:
    """Which head the config of a model describes."""
    architectures = " ".join(getattr(config, "architectures", None) or ())
    if "TokenClassification" in architectures:
        return "tokens"
    return "logit" if int(config.num_labels) == 1 else "entailment"


class _Classifier:
    """One loaded model with its tokenizer."""

    def __init__(self, model: str, label: str | None, head: Head | None, device: str) -> None:
        self._torch = require("torch", extra="end")
        transformers = require("transformers", extra="end")
        config = transformers.AutoConfig.from_pretrained(model)
        told = head_of(config)
        if head is not None and head != told:
            raise InputError(
                f"{model}: its config describes {told!r}, not {head!r}; leave head= out, or load another"
            )
        self.head = told
        names = {int(i): str(n) for i, n in dict(config.id2label).items()}
        self._index = 0 if told == "logit" else _label(model, names, label, told)
        kind = "AutoModelForTokenClassification" if told == "tokens" else "AutoModelForSequenceClassification"
        self._device = device
        self._network = getattr(transformers, kind).from_pretrained(model).to(device).eval()
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        longest = int(self._tokenizer.model_max_length)
        self._room = longest if longest < _LONGEST else int(getattr(config, "max_position_embeddings", _DEFAULT))

    def scores(self, asked: tuple[Sequence[str], Sequence[str]]) -> list[float | None]:
        """For each claim the best window's score; None where a claim leaves the evidence no room."""
        claims, evidence = asked
        pairs: list[tuple[int, str, str]] = []
        special = int(self._tokenizer.num_special_tokens_to_add(pair=True))
        for n, claim in enumerate(claims):
            length = self._length(claim)
            if length <= _ROOM * self._room:
                room = self._room - special - length
                pairs += [(n, window, claim) for text in evidence for window in self._windows(text, room)]
        best: list[float | None] = [None] * len(claims)
        for start in range(0, len(pairs), _BATCH):
            batch = pairs[start : start + _BATCH]
            for (n, _, _), found in zip(batch, self._read([(w, c) for _, w, c in batch]), strict=True):
                best[n] = max(found, best[n] or 0.0)
        return best

    def _read(self, pairs: list[tuple[str, str]]) -> list[float]:
        inputs = self._tokenizer(pairs, padding=True, return_tensors="pt")
        with self._torch.inference_mode():
            logits = self._network(**inputs.to(self._device)).logits
        if self.head == "logit":
            return [float(x) for x in logits[:, 0].sigmoid()]
        if self.head == "entailment":
            return [float(x) for x in logits.softmax(-1)[:, self._index]]
        wrong = logits.softmax(-1)[..., self._index]
        out = []
        for n in range(len(pairs)):
            own = [i for i, part in enumerate(inputs.sequence_ids(n)) if part == 1]
            out.append(1.0 - float(wrong[n][own].max()))
        return out

    def _windows(self, text: str, room: int) -> Iterator[str]:
        """Whole sentences packed into ``room`` pieces, each window beginning with the last one of the one before;
        a longer sentence is halved at white space until it fits."""
        held: list[tuple[str, int]] = []
        fresh = False
        for piece, length in self._pieces(text, room):
            if held and sum(n for _, n in held) + length > room:
                yield "".join(p for p, _ in held).strip()
                held = held[-1:] if held[-1][1] + length <= room else []
            held.append((piece, length))
            fresh = True
        if held and fresh:
            yield "".join(p for p, _ in held).strip()

    def _pieces(self, text: str, room: int) -> Iterator[tuple[str, int]]:
        todo = [text[s.start : s.end] for s in sentences(Passage(text, "e"))][::-1]
        while todo:
            piece = todo.pop()
            length = self._length(piece)
            if length <= room:
                yield piece, length
                continue
            middle = piece.rfind(" ", 1, len(piece) // 2 + 1)
            middle = middle + 1 if middle > 0 else len(piece) // 2
            if not 0 < middle < len(piece):
                raise InputError(f"a single character does not fit the model's window of {self._room} pieces")
            todo += [piece[middle:], piece[:middle]]

    def _length(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])


class _Judge(Travels):
    """`classifier`."""

    named = ("model",)

    def __init__(self, model: str, label: str | None, head: Head | None, ask: bool, device: str) -> None:
        self.model, self.label, self.head, self.ask, self.device = model, label, head, ask, device
        self._judge = _OneAtATime(lambda: _Classifier(model, label, head, device).scores)

    def __call__(self, question: str, evidence: Sequence[str], candidate: str) -> float | None:
        claims = claims_of(candidate)
        told = [f"{question} {c}".strip() if self.ask else c for c in claims]
        if not told or not any(e.strip() for e in evidence):
            return None
        found: list[float | None] = self._judge((told, [e for e in evidence if e.strip()]))
        known = [f for f in found if f is not None]
        return min(known) if len(known) == len(found) else None


class _Decision(Travels):
    """`decision`."""

    named = ("decide",)

    def __init__(self, decide: Any) -> None:
        self.decide = decide
        self._named = _OneAtATime(lambda: require("transformers", extra="end").pipeline("decision", model=decide))

    def __call__(self, question: str, evidence: Sequence[str], candidate: str) -> float:
        shown = "\n".join(envelope(e, f"evidence {n}") for n, e in enumerate(evidence, 1))
        state = f"{shown}\n{envelope(question, 'question')}\n{envelope(candidate, 'draft')}"
        asked = {"state": state, "questions": {"grounded": {"type": "noul", "instructions": GROUNDED}}}
        found = self._named(asked) if isinstance(self.decide, str) else self.decide(asked)
        return float(found["grounded"]["noul"])


class _OneAtATime:
    """A model loaded at the first call; tokenizers and pipelines are not safe in two threads at once."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._model: Any = None

    def __call__(self, asked: Any) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return self._model(asked)


def _label(model: str, names: dict[int, str], wanted: str | None, head: Head) -> int:
    """The output to read; asked for when the config's names do not tell."""
    usual = ("entailment",) if head == "entailment" else ("hallucinated", "unsupported", "hallucination")
    sought = (wanted.casefold(),) if wanted else usual
    for index, name in names.items():
        if name.casefold() in sought:
            return index
    option = "entailment=" if head == "entailment" else "unsupported="
    raise InputError(
        f"{model} has no label {' or '.join(sought)!r}; pass {option} (label=) one of {', '.join(names.values())}"
    )
