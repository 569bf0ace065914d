"""What the benchmarks of END with the reader share: the model as END and as LLM, and prose it never saw.

Every figure's name ends with what it was measured with: the first digits of the model's fingerprint, the decoding,
the seed and the number of questions. Quick forms run a tiny random model of the same make, which knows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.errors import InputError
from denoise_core.local.generation.llm import LocalLLM, prompt_ids
from denoise_core.types import Message
from denoise_lab import FOLDER
from denoise_lab.experiments import Bench, read
from denoise_lab.probes import reader_probe
from denoise_lab.worlds.prose import prose

HAYSTACK = "haystack_holmes"
NEW_TOKENS = 16
UNSEEN = ("I", "VIII", "X", "XI")  # stories that the reader was not trained on


@dataclass(frozen=True)
class Loaded:
    """``llm`` decodes greedily; ``mark`` is the start of its fingerprint over all layers.

    ``probe`` is the shipped one of layout scq, if it belongs to these weights: then they are the shipped reader's.
    """

    llm: LocalLLM
    mark: str
    probe: Probe | None

    @property
    def model(self) -> Any:
        return self.llm.model

    @property
    def tokenizer(self) -> Any:
        return self.llm.tokenizer

    def tokens(self, messages: Sequence[Message]) -> int:
        return len(prompt_ids(self.tokenizer, messages))

    def reading(self, layout: Any = None) -> HiddenReader:
        return HiddenReader(self.model, tokenizer=self.tokenizer, settings=ReadingSettings(layout=layout))


def load(bench: Bench, folder: Path) -> Loaded:
    """The model in ``folder``, or for the quick form of the shipped one a tiny stand-in; noted in the results."""
    import torch

    from denoise_core.local.loading import load_model, load_tokenizer

    torch.set_num_threads(1)
    if bench.options.quick and folder == FOLDER:
        model, tokenizer = tiny()
    else:
        if not (folder / "config.json").is_file():
            raise SystemExit(f"{folder} holds no model: --model must name a folder that transformers loads")
        model, tokenizer = load_model(folder, generates=True), load_tokenizer(folder)
    by = HiddenReader(model, tokenizer=tokenizer)
    mark = by.reading(by.layers).model.weights[:8]
    probe = _shipped_probe(by)
    named = "another model" if probe is None else "the shipped reader"
    if bench.options.quick and folder == FOLDER:
        named = "a tiny random model"
    bench.about["model"] = f"{named}, fingerprint {mark}"
    bench.about["decoding"] = f"greedy, at most {NEW_TOKENS} new tokens"
    return Loaded(LocalLLM(model, tokenizer, max_new_tokens=NEW_TOKENS), mark, probe)


def _shipped_probe(by: HiddenReader) -> Probe | None:
    try:
        probe = reader_probe()
    except InputError:  # a copy of the repository without the probes
        return None
    return None if probe.reading.differences(by.reading(min(probe.reading.layer, by.layers))) else probe


def tiny(seed: int = 0) -> tuple[Any, Any]:
    """A random model of the reader's make, of two small blocks, with a tokenizer trained on a little text."""
    import torch

    from denoise_lab.training.network import Network, Shape, hugging_face
    from denoise_lab.training.vocabulary import train_tokenizer

    tokenizer = train_tokenizer(conversations=30)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network(Shape(width=32, inner=48, layers=2, first=2, heads=4))
    return hugging_face(network, tokenizer), tokenizer


def haystack(bench: Bench) -> tuple[str, str]:
    """Prose to hide sentences in, and what it is; without ``--data`` that of the training, which is said."""
    options = bench.options
    if options.quick or options.data is None:
        bench.about["prose"] = "of the reader's training: no --data was given"
        return "\n".join(prose()), "prose of the reader's training"
    bench.about["prose"] = "never seen by the reader"
    stories = [r for r in read(options.data, HAYSTACK) if r["title"].split(".")[0] in UNSEEN]
    return "\n".join(r["text"] for r in stories), "prose the reader never saw"
