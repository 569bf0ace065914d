"""Make the reader that ships, from the folder of question sets:

    python -m denoise_core.embedded.reader.make --data FOLDER [--seconds N | --steps N] [--out FOLDER]

Trains, writes ``reader.safetensors`` (what training changes in MiniLM, 8 bit) and ``card.json`` (data,
rule of the split, course of the run), then reads the held-out part once and adds its figures to the card.
``--begin`` goes on from what lies in ``--out``; ``--average FOLDER`` puts the mean of its weights and another's
there. ``--figures`` alone measures what lies in ``--out`` again. ``fit.split`` says which questions are held out.
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
from denoise_core.embedded.minilm import HUB_NAME, minilm
from denoise_core.embedded.reader.packed import load_packed, pack
from denoise_core.errors import InputError
from denoise_core.question import Question

HERE = Path(__file__).parents[1] / "data" / "reader"
WEIGHTS, CARD, CALIBRATION = "reader.safetensors", "card.json", "calibration.json"
CALIBRATED_ON = ("nq_gold_distractors20", "xquad_en", "hotpotqa_distractor", "ramdocs")
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
    parser.add_argument("--begin", type=float, default=0.0, help="go on from --out, so much of the run being done")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write weights and card to")
    parser.add_argument("--average", type=Path, help="do not train: the mean of --out's weights and this folder's")
    parser.add_argument("--figures", action="store_true", help="do not train, only measure")
    parser.add_argument("--limit", type=int, help="held-out questions of a set, at most")
    parser.add_argument("--only", nargs="*", default=(), help="sets to measure, each into a file of its own")
    parser.add_argument("--no-figures", action="store_true", help="train, do not measure")
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    if given.average:
        average(given.out, given.average)
    elif not given.figures:
        train(given.data, given.out, given.seconds, given.steps, given.seed, given.begin)
    if not given.no_figures:
        measure(given.data, given.out, given.limit, given.only)


def train(data: Path, out: Path, seconds: float, steps: int | None, seed: int, begin: float = 0.0) -> None:
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
    before: list[dict[str, Any]] = []
    if begin:
        network.take(load_packed(out / WEIGHTS))
        before = json.loads((out / CARD).read_text("utf-8"))["course"]

    def keep(network: nets.Network, course: Course) -> None:
        write_whole(out / WEIGHTS, save(pack(network.trained())))
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
            "course": [*before, {"begin": begin, "seed": seed, **asdict(course)}],
        }
        write_card(out, card)

    with Progress() as progress:
        bar = progress.add_task("training", total=1.0)

        def show(done: float, said: str) -> None:
            progress.update(bar, completed=done, description=said)

        course = fit(
            network,
            parts,
            tokens(),
            seconds=seconds,
            steps=steps,
            seed=seed,
            begin=begin,
            progress=show,
            keep=keep,
        )
        keep(network, course)


def average(out: Path, other: Path) -> None:
    """Put the mean of the weights in two folders into ``out``. Raises `InputError` when they are not alike."""
    from safetensors.numpy import save

    one, two = (load_packed(folder / WEIGHTS) for folder in (out, other))
    if {n: v.shape for n, v in one.items()} != {n: v.shape for n, v in two.items()}:
        raise InputError(f"{other / WEIGHTS} has other weights than {out / WEIGHTS}: expected two of one reader")
    write_whole(out / WEIGHTS, save(pack({n: (v + two[n]) / 2 for n, v in one.items()})))
    write_card(
        out, {"averaged": "the mean of the weights where the last run began and where it ended (--average)"}
    )


def measure(data: Path, out: Path, limit: int | None = None, only: Sequence[str] = ()) -> None:
    """Calibrate on the development part, then read the held-out part and add its figures to the card.

    ``limit`` is how many held-out questions of a set at most, in the order of a hash. With ``only`` nothing is
    calibrated and the figures go into files of their own.
    """
    import torch
    from rich.progress import track

    from denoise_core.embedded.reader.calibration import Calibration
    from denoise_core.embedded.reader.fit.calibrate import calibrate
    from denoise_core.embedded.reader.fit.measure import Figures, Kept, usable
    from denoise_core.embedded.reader.fit.network import Network, minilm_weights
    from denoise_core.embedded.reader.fit.split import SHARE, for_development, for_training, place, read
    from denoise_core.embedded.reader.fit.train import Bound
    from denoise_core.embedded.reader.span_reader import SpanReader
    from denoise_core.embedded.reader.windows import tokens

    torch.set_num_threads(1)
    network = Network(minilm_weights(minilm()), torch.bfloat16)
    network.take(load_packed(out / WEIGHTS))
    kept = Kept(Bound(network))
    reader = SpanReader(kept, tokens())

    def figures(questions: Sequence[Question], name: str) -> Figures:
        told = Figures()
        for number, q in enumerate(track(questions, description=name)):
            told.add(reader, q, questions[(number + len(questions) // 2) % len(questions)])
            kept.forget()
        return told

    if not only:
        mixed = []
        for name in CALIBRATED_ON:
            chosen = usable(q for q in read(data, name) if for_training(name, q) and for_development(q))
            mixed += [figures(chosen, f"{name}, development")] if chosen else []
        calibrate(mixed).save(out / CALIBRATION)
    calibration = Calibration.load(out / CALIBRATION)
    found: dict[str, Any] = {}
    for name in only or SHARE:
        questions = usable(q for q in read(data, name) if not for_training(name, q))
        questions = sorted(questions, key=lambda q: place(f"figures:{q.id}"))[:limit]
        found[name] = figures(questions, name).summary(calibration)
        if only:
            write_whole(out / f"figures-{name}.json", json.dumps(found[name], indent=1) + "\n")
        else:
            write_card(out, {"calibration": asdict(calibration), "held-out figures": found})


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
