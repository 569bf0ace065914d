"""Make the reader that ships, from the folder of question sets:

    python -m denoise_core.embedded.reader.make --data FOLDER [--seconds N | --steps N] [--out FOLDER]

Trains, writes ``reader.safetensors`` (what training changes in MiniLM, half precision) and ``card.json`` (data,
rule of the split, course of the run), then reads the held-out part once and adds its figures to the card.
``--figures`` alone measures what lies in ``--out`` again. ``fit.split`` says which questions are held out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from denoise_core._files import write_whole
from denoise_core.embedded.weights import HUB_NAME, minilm

HERE = Path(__file__).parents[1] / "data" / "reader"
WEIGHTS, CARD = "reader.safetensors", "card.json"
FAST = {  # keeps freed memory in the process: where page faults are dear, training is eight times faster
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
    "OMP_NUM_THREADS": "1",
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the sets named in fit.split.SHARE")
    parser.add_argument("--seconds", type=float, default=3000, help="how long to train")
    parser.add_argument("--steps", type=int, help="how many steps instead; the same seed then gives the same run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write weights and card to")
    parser.add_argument("--figures", action="store_true", help="do not train, only measure")
    parser.add_argument("--no-figures", action="store_true", help="train, do not measure")
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    if not given.figures:
        train(given.data, given.out, given.seconds, given.steps, given.seed)
    if not given.no_figures:
        measure(given.data, given.out)


def train(data: Path, out: Path, seconds: float, steps: int | None, seed: int) -> None:
    """Train and write weights and card; at every look too, so that a run that is stopped leaves something."""
    import torch
    from rich.progress import Progress
    from safetensors.numpy import save

    from denoise_core.embedded.reader.fit import network as nets
    from denoise_core.embedded.reader.fit.data import load
    from denoise_core.embedded.reader.fit.train import Course, fit
    from denoise_core.embedded.reader.windows import tokens

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    parts = load(data, tokens())
    network = nets.Network(nets.minilm_weights(minilm()), torch.bfloat16)

    def keep(network: nets.Network, course: Course) -> None:
        write_whole(out / WEIGHTS, save(network.trained()))
        card = {
            "encoder": HUB_NAME,
            "licence": "weights: CC BY-SA 4.0, as the strictest of the sets; see ATTRIBUTION.md",
            "split": "sha256 of 'rag-denoise:' + id (XQuAD: text of the gold passage), see fit/split.py",
            "trained on": dict(Counter(e.name for e in parts.training)),
            "development": dict(Counter(e.name for e in parts.development)),
            "left out because the held-out part has the same question or text": parts.dropped,
            "passages for clozes": len(parts.pool),
            "rank": nets.RANK,
            "frozen layers": nets.FROZEN,
            "seed": seed,
            "course": asdict(course),
        }
        write_card(out, card)

    with Progress() as progress:
        bar = progress.add_task("training", total=1.0)

        def show(done: float, said: str) -> None:
            progress.update(bar, completed=done, description=said)

        keep(
            network,
            fit(network, parts, tokens(), seconds=seconds, steps=steps, seed=seed, progress=show, keep=keep),
        )


def measure(data: Path, out: Path) -> None:
    """Read the held-out part and add its figures to the card."""
    from rich.progress import track

    from denoise_core.embedded.reader.fit import measure as figures
    from denoise_core.embedded.reader.fit.split import SHARE, for_training, read
    from denoise_core.embedded.reader.forward import load
    from denoise_core.embedded.reader.span_reader import SpanReader
    from denoise_core.embedded.reader.windows import tokens

    reader = SpanReader(load(minilm(), out / WEIGHTS), tokens())
    found: dict[str, Any] = {}
    for name in track(list(SHARE), description="held-out part"):
        questions = figures.usable(q for q in read(data, name) if not for_training(name, q))
        found[name] = {
            "answers": figures.answers(reader, questions),
            "right against wrong, AUC": figures.curves(figures.cases(reader, questions)),
        }
        write_card(out, {"held-out figures": found})


def write_card(out: Path, entries: dict[str, Any]) -> None:
    """Put entries into the card, the others kept."""
    path = out / CARD
    card = json.loads(path.read_text("utf-8")) if path.exists() else {}
    write_whole(path, json.dumps({**card, **entries}, indent=1, ensure_ascii=False) + "\n")


def start() -> None:
    """`main` in a process with the environment `FAST`, which only counts when it stands at the beginning."""
    if not FAST.items() <= os.environ.items():
        again = [sys.executable, "-m", "denoise_core.embedded.reader.make", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, **FAST})
    main()


if __name__ == "__main__":
    start()
