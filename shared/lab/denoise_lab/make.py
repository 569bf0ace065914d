"""Make the reader anew: vocabulary, training, curve, abilities, card.

    python -m denoise_lab.make OUT                 # two cores: under three hours
    python -m denoise_lab.make OUT --device cuda   # minutes
    python -m denoise_lab.make OUT --ship          # then put the result where the package keeps it

A run that was killed goes on where it last saved when the command is given again. On a CPU set
MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456 first: page faults
otherwise take most of the time.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from denoise_core._files import write_whole
from denoise_core._optional import require
from denoise_core.local.generation.llm import LocalLLM
from denoise_lab.model import FOLDER
from denoise_lab.training.abilities import Ability, below, measure
from denoise_lab.training.card import card

CURVE = "training.png"


def main(argv: Sequence[str] | None = None) -> None:
    from rich.console import Console

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the run: its state, its log, and the model")
    parser.add_argument("--tokens", type=int, help="length of the run (default: that of the shipped model)")
    parser.add_argument("--seed", type=int, default=0, help="decides weights and data")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1 ...")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument(
        "--eager", action="store_true", help="do not compile (default: compile where a C++ compiler is)"
    )
    parser.add_argument("--asked", type=int, default=200, help="questions per ability")
    parser.add_argument(
        "--ship", action="store_true", help="copy the model, its card and its curve into the package"
    )
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    train(given.out, given)
    plot(given.out / "log.jsonl", given.out / CURVE)
    abilities = abilities_of(given.out / "model", given.asked)
    record = json.loads((given.out / "progress.json").read_text("utf-8"))
    write_whole(given.out / "model" / "README.md", card(record, abilities))
    write_whole(given.out / "abilities.json", json.dumps([a.record() for a in abilities], indent=1) + "\n")
    shipped = FOLDER / "abilities.json"
    if shipped.exists():
        told = [Ability(**r) for r in json.loads(shipped.read_text("utf-8"))]
        lines = below(abilities, told)
        said = (
            "below the shipped reader:\n" + "\n".join(lines)
            if lines
            else "as the shipped reader, within 10 points"
        )
        Console().print(said)
    if given.ship:
        ship(given.out)


def train(out: Path, given: Any) -> None:
    """The run itself, with a progress bar."""
    from rich.progress import Progress, TimeRemainingColumn

    torch = require("torch", extra="reader")
    from denoise_lab.training.train import Run, TrainingSettings

    torch.set_num_threads(given.threads)
    settings = replace(TrainingSettings(), seed=given.seed, tokens=given.tokens or TrainingSettings().tokens)
    compiles = not given.eager and (given.device != "cpu" or shutil.which("g++") is not None)
    run = Run(out, vocabulary(out / "tokenizer", given.seed), settings, device=given.device, compile=compiles)
    with Progress(*Progress.get_default_columns()[:-1], TimeRemainingColumn()) as bar:
        task = bar.add_task("training", total=settings.tokens, completed=run.progress.tokens)

        def report(row: dict[str, Any]) -> None:
            said = f"{row['stage']}: loss {row['loss']:.2f}, first token {row['first_token']:.2f}"
            bar.update(task, completed=row["tokens"], description=said)

        run.train(report=report)


def vocabulary(folder: Path, seed: int) -> Any:
    """The tokenizer in ``folder``, trained first if there is none."""
    from denoise_core.local.loading import load_tokenizer
    from denoise_lab.training.vocabulary import train_tokenizer

    if not (folder / "tokenizer.json").exists():
        train_tokenizer(seed).save_pretrained(folder)
    return load_tokenizer(folder)


def abilities_of(folder: Path, asked: int) -> list[Ability]:
    """Every ability in turn, with a progress bar."""
    from rich.progress import track

    from denoise_lab.tasks import TASKS

    llm = LocalLLM(folder, max_new_tokens=96)
    return list(track(measure(llm, asked=asked), "abilities", total=len(TASKS)))


def plot(log: Path, path: Path) -> Path:
    """Loss and first-token accuracy by tokens, with the stages' borders, from the run's log."""
    figure = require("matplotlib.figure", extra="evaluate").Figure(figsize=(7.5, 4.2), layout="constrained")
    rows = list({r["step"]: r for r in map(json.loads, log.read_text("utf-8").splitlines())}.values())
    tokens = [r["tokens"] / 1e6 for r in rows]
    left = figure.add_subplot()
    right = left.twinx()
    left.plot(tokens, [r["loss"] for r in rows], color="tab:blue", linewidth=0.8, label="loss")
    right.plot(
        tokens, [r["first_token"] for r in rows], color="tab:orange", linewidth=0.8, label="first token right"
    )
    begins = [(now["tokens"] / 1e6, now["stage"]) for b, now in pairwise(rows) if b["stage"] != now["stage"]]
    for n, (at, stage) in enumerate(begins):
        left.axvline(at, color="gray", linestyle=":", linewidth=0.8)
        # Between the two curves; to the left of the line where the next one leaves no room.
        tight = any(0 < later - at < 0.02 * tokens[-1] for later, _ in begins[n + 1 :])
        side = "right" if tight else "left"
        left.text(
            at,
            0.24,
            f" {stage} ",
            rotation=90,
            va="bottom",
            ha=side,
            fontsize=7,
            transform=left.get_xaxis_transform(),
        )
    left.set(xlabel="million tokens", ylabel="loss", ylim=(0, None))
    right.set(ylabel="share of replies", ylim=(0, 1))
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    figure.savefig(path, dpi=150)
    return path


def ship(out: Path, folder: Path = FOLDER) -> None:
    """The files of the model, and nothing of the run, into the package, without harm to who has the old ones."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (*sorted((out / "model").iterdir()), out / CURVE, out / "abilities.json"):
        write_whole(folder / file.name, file.read_bytes())


if __name__ == "__main__":
    main()
