"""The field's judges by model name, as judges: each claim with its probability and the window that decided it.

Each claim is held against windows of whole sentences that fit the model; the best window counts, and is the quote.
Nothing is cut silently: where a claim leaves no room for evidence, nothing is known of it. Nothing is loaded
before the first call, and no code of a model's repository is ever run.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.running.offload import offload
from denoise_core.support.judging import Claim, Claims, Judged, Quote
from denoise_core.text.chunk import sentences
from denoise_core.text.facts import Difference
from denoise_core.types import Passage, Span

Family = Literal["entailment", "cross_encoder", "tokens", "minicheck", "hhem", "guardian"]
FAMILIES: tuple[Family, ...] = get_args(Family)

HHEM = "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {text1}\n\nHypothesis: {text2}"
LETTUCE = (
    "Briefly answer the following question:\n{question}\nBear in mind that your response should be strictly "
    "based on the following {count} passages:\n{passages}\nIn case the passages do not contain the necessary "
    'information to answer the question, please reply with: "Unable to answer based on given passages."\noutput:'
)
CONSISTENT = (
    "Determine whether the provided claim is consistent with the corresponding document. Consistency in this "
    "context implies that all information presented in the claim is substantiated by the document. If not, it "
    "should be considered inconsistent. Please assess the claim's consistency with the document by responding "
    'with either "Yes" or "No".'
)
_BATCH = 16  # pairs read at once
_ROOM = 0.5  # share of a model's window that a claim may take
_LONGEST = 100_000  # a tokenizer that names a longer window names none
_DEFAULT = 512
_WRONG = ("hallucinated", "hallucination", "unsupported")  # names of the output that marks
_MARKED = 0.5  # probability from which on a token counts as unsupported


Score: TypeAlias = tuple[float, float]
"""Probabilities that a window supports a claim and, of models that know it, that it contradicts it."""
Marks: TypeAlias = list[tuple[int, int, float]]
"""Tokens of an answer, characters ``[start, end)``, with the probability that no evidence supports them."""


class ModelJudge:
    """A Hugging Face model as a judge; loaded at its first call, its repository's code never run.

    The config tells which ``family`` it is of, else give it: ``tokens`` (LettuceDetect: marks unsupported
    words), ``minicheck`` (RoBERTa, DeBERTa and T5), ``hhem``, ``guardian`` (Granite Guardian, Bespoke-MiniCheck:
    yes or no by its own template), ``entailment`` (NLI), ``cross_encoder`` (one logit). ``label`` is the output to
    read where the config's names do not say; ``ask`` puts the question before each claim. Raises `InputError` at
    the first call for a model of none of these.

    >>> ModelJudge("KRLabsOrg/lettucedect-base-modernbert-en-v1").id
    'KRLabsOrg/lettucedect-base-modernbert-en-v1'
    """

    def __init__(
        self,
        model: str,
        *,
        family: Family | None = None,
        label: str | None = None,
        threshold: float = 0.5,
        ask: bool | None = None,
        device: str = "cpu",
    ) -> None:
        if not isinstance(model, str) or not model:
            raise InputError(f"model: expected the name or folder of a model, got {type(model).__name__}")
        if family is not None and family not in FAMILIES:
            raise InputError(f"family={family!r}: expected {', '.join(map(repr, FAMILIES))}")
        if not 0.0 <= threshold <= 1.0:
            raise InputError(f"threshold={threshold}: expected 0 to 1")
        self.model, self.label, self.threshold = model, label, threshold
        self.family: Family | None = family
        self.ask, self.device = ask, device
        self._lock = threading.Lock()  # tokenizers are not safe in two threads at once
        self._loaded: _Pairs | None = None

    @property
    def id(self) -> str:
        """The model's name."""
        return self.model

    def judge(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> tuple[Judged, ...]:
        shown = [p for p in passages if p.text.strip()]
        if not shown:
            return tuple(_unknown(c, "empty_evidence", "there is no evidence to hold it against") for c in claims)
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self)
            return self._loaded.judged(question, claims, shown)

    async def ajudge(
        self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]
    ) -> tuple[Judged, ...]:
        """`judge`, on a thread."""
        return await offload(self.judge, question, claims, passages)


def _load(judge: ModelJudge) -> _Pairs:
    transformers, torch = require("transformers", extra="end"), require("torch", extra="end")
    model, family = judge.model, judge.family
    if family == "hhem" or (family is None and _raw_config(model).get("model_type") == "HHEMv2"):
        return _hhem(judge)
    # False and not None: None asks on standard input whether a repository's code may run.
    config = transformers.AutoConfig.from_pretrained(model, trust_remote_code=False)
    told = " ".join(getattr(config, "architectures", None) or ())
    auto, kind = next((f for part, *f in _ARCHITECTURES if part in told), ("SequenceClassification", ""))
    kind = kind or ("cross_encoder" if int(config.num_labels) == 1 else "entailment")
    wanted = family or kind
    if wanted != kind and {kind, wanted} & {"tokens", "guardian"}:
        raise InputError(f"{model}: its config describes {kind!r}, not {wanted!r}; leave family= out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model, trust_remote_code=False)
    network = getattr(transformers, f"AutoModelFor{auto}").from_pretrained(model, trust_remote_code=False)
    longest = int(tokenizer.model_max_length)
    room = longest if longest < _LONGEST else int(getattr(config, "max_position_embeddings", _DEFAULT))
    names = {int(i): str(n) for i, n in dict(config.id2label).items()}
    read = _Tokens if wanted == "tokens" else _Pairs
    made = read(judge, torch, tokenizer, network.to(judge.device).eval(), room, names)
    _FAMILIES["t5" if kind == "minicheck" else wanted](made)
    return made


def _hhem(judge: ModelJudge) -> _Pairs:
    """Vectara's HHEM 2: a T5 encoder whose first token is classified; its own class is code that is not run."""
    transformers, torch = require("transformers", extra="end"), require("torch", extra="end")
    told = _raw_config(judge.model)
    foundation = str(told.get("foundation", "google/flan-t5-base"))
    local = Path(judge.model, foundation)
    base = str(local) if local.is_dir() else foundation
    config = transformers.AutoConfig.from_pretrained(base, trust_remote_code=False)
    config.num_labels = 2
    network = transformers.T5ForTokenClassification(config)
    state = require("safetensors.torch", extra="end").load_file(_file(judge.model, "model.safetensors"))
    missing, extra = network.load_state_dict({k.removeprefix("t5."): v for k, v in state.items()}, strict=False)
    tied = ("transformer.encoder.embed_tokens.weight", "transformer.shared.weight")
    if extra or any(k not in tied for k in missing):
        raise InputError(
            f"{judge.model}: expected the weights of HHEM 2; missing {missing[:3]}, unknown {extra[:3]}"
        )
    tokenizer = transformers.AutoTokenizer.from_pretrained(base, trust_remote_code=False)
    made = _Pairs(judge, torch, tokenizer, network.to(judge.device).eval(), _DEFAULT, {})
    prompt = str(told.get("prompt", HHEM))
    made.text = lambda window, claim: prompt.format(text1=window, text2=claim)
    made.logits = lambda inputs: network(**inputs).logits[:, 0, :]
    return made


def _second(logits: Any) -> Score:
    """The probability of the second of two outputs."""
    return float(logits.softmax(-1)[1]), 0.0


@dataclass
class _Pairs:
    """A model that reads a window and a claim, as two texts or, where there is ``text``, as the one that it makes
    of them. ``logits`` are the network's unless given; ``names`` are those of its outputs."""

    owner: ModelJudge
    torch: Any
    tokenizer: Any
    network: Any
    room: int
    names: dict[int, str]
    text: Callable[[str, str], str] | None = None
    logits: Callable[[Any], Any] | None = None
    score: Callable[[Any], Score] = _second
    asks: bool = False
    special: bool = True

    def __post_init__(self) -> None:
        if getattr(self.tokenizer, "pad_token", None) is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.tokenizer.padding_side = "right"

    def judged(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> tuple[Judged, ...]:
        asks = self.asks if self.owner.ask is None else self.owner.ask
        special = int(self.tokenizer.num_special_tokens_to_add(pair=True)) if self.special else 0
        asked: list[tuple[int, Span, str, str]] = []
        for n, claim in enumerate(f"{question} {c.whole}".strip() if asks else c.whole for c in claims):
            around = self.length(self.text("", claim) if self.text else claim) + special
            if self.length(claim) <= _ROOM * self.room and around < self.room:
                asked += [
                    (n, span, head + p.text[span.start : span.end], claim)
                    for p in passages
                    for head in (f"{p.header}\n" if p.header else "",)
                    for span in windows(p, self.room - around - self.length(head), self.length)
                ]
        scores: list[Score] = []
        for start in range(0, len(asked), _BATCH):
            scores += self._read([(w, c) for _, _, w, c in asked[start : start + _BATCH]])
        texts = {p.id: p.text for p in passages}
        found: list[list[tuple[Score, Quote]]] = [[] for _ in claims]
        for (n, span, _, _), score in zip(asked, scores, strict=True):
            found[n].append((score, Quote(span, texts[span.passage_id][span.start : span.end])))
        return tuple(_said(c, own, self.owner.threshold) for c, own in zip(claims, found, strict=True))

    def _read(self, pairs: list[tuple[str, str]]) -> list[Score]:
        shown: Any = pairs if self.text is None else [self.text(w, c) for w, c in pairs]
        inputs = self.tokenizer(shown, padding=True, return_tensors="pt", add_special_tokens=self.special)
        inputs = inputs.to(self.owner.device)
        with self.torch.inference_mode():
            found = self.logits(inputs) if self.logits else self.network(**inputs).logits
            return [self.score(row) for row in found]

    def length(self, text: str) -> int:
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def output(self, *usual: str, default: int | None = None) -> int:
        """The output to read; asked for when the config's names do not tell. Two classes without names, as
        LettuceDetect's, are "supported" and what ``default`` says."""
        label = self.owner.label
        sought = (label.casefold(),) if label else usual
        for index, name in self.names.items():
            if name.casefold() in sought:
                return index
        if default is not None and not label and sorted(self.names.values()) == ["LABEL_0", "LABEL_1"]:
            return default
        raise InputError(
            f"{self.owner.model} has no label {' or '.join(map(repr, sought))}; pass label= one of "
            f"{', '.join(self.names.values())}, or family='minicheck' for a model whose label 1 is support"
        )


class _Tokens(_Pairs):
    """A token classifier that marks unsupported words of the answer (LettuceDetect's form)."""

    def judged(self, question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> tuple[Judged, ...]:
        if isinstance(claims, Claims) and claims.answer:
            marked = self._marked(question, claims.answer, passages)
            return tuple(_of_words(c, marked, 0) for c in claims)
        return tuple(_of_words(c, self._marked(question, c.text, passages), c.start) for c in claims)

    def _marked(self, question: str, answer: str, passages: Sequence[Passage]) -> Marks | None:
        """None where the answer leaves the evidence no room."""
        room = self.room - int(self.tokenizer.num_special_tokens_to_add(pair=True))
        room -= self.length(self._prompt(question, [""])) + self.length(answer)
        if room < self.room * (1 - _ROOM) / 2:
            return None
        parts: list[list[str]] = [[]]
        left = room
        for passage in passages:
            for span in windows(passage, room // 2 if self.length(passage.headed) > room else room, self.length):
                shown = f"{passage.header}\n" * bool(passage.header) + passage.text[span.start : span.end]
                size = self.length(shown)
                if size > left and parts[-1]:
                    parts.append([])
                    left = room
                parts[-1].append(shown)
                left -= size + self.length("passage 00: \n")
        read = [self._read(self._prompt(question, part), answer) for part in parts]
        return [(a, b, min(p for _, _, p in same)) for same in zip(*read, strict=True) for a, b, _ in same[:1]]

    def _read(self, prompt: str, answer: str) -> Marks:  # type: ignore[override]
        inputs = self.tokenizer(
            prompt, answer, return_tensors="pt", return_offsets_mapping=True, truncation="only_first",
            max_length=self.room,
        )  # fmt: skip
        places = inputs.pop("offset_mapping")[0].tolist()
        index = self.output(*_WRONG, default=1)
        with self.torch.inference_mode():
            wrong = self.network(**inputs.to(self.owner.device)).logits[0].softmax(-1)[:, index]
        own = [i for i, part in enumerate(inputs.sequence_ids(0)) if part == 1]
        return [(*places[i], float(wrong[i])) for i in own if places[i][1] > places[i][0]]

    def _prompt(self, question: str, passages: Sequence[str]) -> str:
        shown = "\n".join(f"passage {n}: {text}" for n, text in enumerate(passages, 1))
        return LETTUCE.format(question=question, count=len(passages), passages=shown) if question else shown


# --- What the families differ in


def _entailment(model: _Pairs) -> None:
    entailed = model.output("entailment")
    denied = next((i for i, n in model.names.items() if n.casefold() == "contradiction"), None)

    def score(logits: Any) -> Score:
        found = logits.softmax(-1)
        return float(found[entailed]), 0.0 if denied is None else float(found[denied])

    model.score = score


def _cross_encoder(model: _Pairs) -> None:
    model.asks, model.score = True, lambda logits: (float(logits.sigmoid()[0]), 0.0)


def _minicheck(model: _Pairs) -> None:
    """Document and claim as one text, label 1 is support."""
    between = model.tokenizer.sep_token or model.tokenizer.eos_token
    model.text = lambda window, claim: between.join((window, claim))


def _t5(model: _Pairs) -> None:
    """MiniCheck's T5: one step of the decoder, the logits of the first token of "0" and of "1"."""
    torch, tokenizer = model.torch, model.tokenizer
    ends = [tokenizer(x, add_special_tokens=False)["input_ids"][0] for x in ("0", "1")]

    def logits(inputs: Any) -> Any:
        start = torch.zeros((inputs["input_ids"].shape[0], 1), dtype=torch.long, device=model.owner.device)
        return model.network(**inputs, decoder_input_ids=start).logits[:, 0, ends]

    model.room, model.logits = max(model.room, _DEFAULT), logits
    model.text = lambda window, claim: f"predict: {tokenizer.eos_token.join((window, claim))}"


def _guardian(model: _Pairs) -> None:
    """A generative guardian: its own template, and the logits of yes and no as the next token. Granite Guardian's
    yes means a risk; others are asked whether the claim is consistent with the document."""
    torch, tokenizer = model.torch, model.tokenizer
    template = tokenizer.chat_template
    if not template:
        raise InputError("a generative guardian needs a tokenizer with a chat template")
    granite = "guardian_config" in (template if isinstance(template, str) else json.dumps(template))
    first = {w: tokenizer(w, add_special_tokens=False)["input_ids"][0] for w in ("No", "no", "Yes", "yes")}
    no, yes = sorted({first["No"], first["no"]}), sorted({first["Yes"], first["yes"]})
    sides = (yes, no) if granite else (no, yes)  # the second one is that of support

    def text(window: str, claim: str) -> str:
        if granite:
            messages = [{"role": "context", "content": window}, {"role": "assistant", "content": claim}]
            config = {"risk_name": "groundedness", "criteria_id": "groundedness"}
            told = {"guardian_config": config, "documents": [{"doc_id": "0", "text": window}]}
        else:
            user = f"Document: {window}\nClaim: {claim}"
            messages = [{"role": "system", "content": CONSISTENT}, {"role": "user", "content": user}]
            told = {}
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **told))

    def logits(inputs: Any) -> Any:
        ends = inputs["attention_mask"].sum(-1) - 1
        found = model.network(**inputs).logits[torch.arange(len(ends)), ends]
        return torch.stack([torch.logsumexp(found[:, side], -1) for side in sides], -1)

    model.text, model.logits, model.special = text, logits, False


# What stands in the config's architectures, the class of transformers that loads it, the family that it is.
_ARCHITECTURES = (
    ("TokenClassification", "TokenClassification", "tokens"),
    ("ConditionalGeneration", "Seq2SeqLM", "minicheck"),
    ("CausalLM", "CausalLM", "guardian"),
)
_FAMILIES: dict[str, Callable[[_Pairs], object]] = {
    "entailment": _entailment,
    "cross_encoder": _cross_encoder,
    "minicheck": _minicheck,
    "t5": _t5,
    "guardian": _guardian,
    "tokens": lambda model: model.output(*_WRONG, default=1),  # a model without one is refused at once
}


# --- Windows, and what was said of them


def windows(passage: Passage, room: int, length: Callable[[str], int]) -> Iterator[Span]:
    """Whole sentences packed into ``room`` pieces, each window beginning with the last one of the one before; a
    longer sentence is halved at white space until it fits."""
    held: list[tuple[Span, int]] = []
    for piece, size in _pieces(passage, room, length):
        if held and sum(n for _, n in held) + size > room:
            yield Span(passage.id, held[0][0].start, held[-1][0].end)
            held = held[-1:] if held[-1][1] + size <= room else []
        held.append((piece, size))
    if held:
        yield Span(passage.id, held[0][0].start, held[-1][0].end)


def _pieces(passage: Passage, room: int, length: Callable[[str], int]) -> Iterator[tuple[Span, int]]:
    todo = [(s.start, s.end) for s in sentences(passage)][::-1]
    while todo:
        start, end = todo.pop()
        piece = passage.text[start:end]
        size = length(piece)
        if size <= room:
            yield Span(passage.id, start, end), size
            continue
        middle = piece.rfind(" ", 1, len(piece) // 2 + 1)
        middle = middle + 1 if middle > 0 else len(piece) // 2
        if not 0 < middle < len(piece):
            raise InputError(f"a single character does not fit the model's window of {room} pieces")
        todo += [(start + middle, end), (start, start + middle)]


def _said(claim: Claim, found: Sequence[tuple[Score, Quote]], threshold: float) -> Judged:
    """The window that supports a claim best decides; else the one that contradicts it most."""
    if not found:
        return _unknown(claim, "length", "the claim leaves the evidence no room in the model's window")
    (supports, _), quote = max(found, key=lambda f: f[0][0])
    (_, contradicts), against = max(found, key=lambda f: f[0][1])
    probability = min(1.0, supports)
    if probability >= threshold:
        return Judged(claim.text, claim.start, claim.end, True, probability, (quote,))
    quotes: tuple[Quote, ...] = ()
    kind, why = "unsupported", "the evidence does not say this"
    if contradicts >= 0.5:
        against = replace(against, relation="contradicts")
        quotes, kind, why = (against,), "contradicted", "the evidence says otherwise"
    return Judged(claim.text, claim.start, claim.end, False, probability, quotes, (), kind, why)


def _of_words(claim: Claim, marked: Marks | None, offset: int) -> Judged:
    """A claim of whose words some are marked, at places less ``offset``; neighbours are one difference."""
    if marked is None:
        return _unknown(claim, "length", "the answer leaves the evidence no room in the model's window")
    own = [(max(a + offset, claim.start), min(b + offset, claim.end), p) for a, b, p in marked]
    own = [(a, b, p) for a, b, p in own if a < b]
    probability = 1.0 - max((p for _, _, p in own), default=0.0)
    spans: list[tuple[int, int]] = []
    for a, b, p in own:
        if p >= _MARKED:
            goes_on = spans and not any(map(str.isalnum, claim.text[spans[-1][1] - claim.start : a - claim.start]))
            spans = [*spans[:-1], (spans[-1][0], b)] if goes_on else [*spans, (a, b)]
    if not spans:
        return Judged(claim.text, claim.start, claim.end, True, probability)
    said = [(claim.text[a - claim.start : b - claim.start], a, b) for a, b in spans]
    differs = tuple(Difference("unsupported", words, "", a, b) for words, a, b in said)
    why = "the evidence does not say these words"
    return Judged(claim.text, claim.start, claim.end, False, probability, (), differs, "unsupported", why)


def _unknown(claim: Claim, kind: str, why: str) -> Judged:
    return Judged(claim.text, claim.start, claim.end, None, kind=kind, why=why)


def _raw_config(model: str) -> dict[str, Any]:
    """The config as it stands: a type that transformers does not know is read without its code."""
    return dict(json.loads(Path(_file(model, "config.json")).read_text("utf-8")))


def _file(model: str, name: str) -> str:
    local = Path(model, name)
    if local.parent.is_dir():
        return str(local)
    return str(require("transformers", extra="end").utils.cached_file(model, name))
