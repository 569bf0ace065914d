"""Make the reader and the judge that ship, from the folder of question and grounding sets:

    python -m denoise_lab.span_reader.make spans     --data FOLDER --out FOLDER [--steps N] [--seconds N]
    python -m denoise_lab.span_reader.make claims    --data FOLDER --out FOLDER [--steps N] [--seconds N]
    python -m denoise_lab.span_reader.make calibrate --data FOLDER --out FOLDER
    python -m denoise_lab.span_reader.make ship      --out FOLDER

``spans`` trains what finds answers, ``claims``, which begins with its weights, what judges claims in free words.
Both save as they go: stopped, or after ``--seconds``, the same command goes on. ``--begin FILE`` starts from
finished weights. ``calibrate`` fits probabilities and operating points on parts of the sets that nothing was
trained on. ``ship`` copies what is in ``--out`` into the package and prints the digests to write into
`denoise_core.embedded.reader.judge`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

import denoise_core.embedded as embedded
from denoise_core._files import write_whole
from denoise_core.embedded.minilm import HUB_NAME, minilm, weights

CONSOLE = Console(highlight=False, soft_wrap=True)
HERE = Path(embedded.__file__).parent / "data" / "reader"
SPANS, CLAIMS, CARD, CALIBRATION = "reader.safetensors", "claims.safetensors", "card.json", "calibration.json"
STEPS = {"spans": 800, "claims": 1200}  # the full recipe, under three hours on two cores
RATE = {"spans": 2e-3, "claims": 1e-3}
FLOOR_FROM = ("nq_gold_distractors20", "xquad_en", "hotpotqa_distractor")
FAST = {  # keeps freed memory in the process: where page faults are dear, training is eight times faster
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
    "OMP_NUM_THREADS": "1",
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("spans", "claims", "calibrate", "ship"))
    parser.add_argument("--data", type=Path, help="folder with the sets of split.SHARE and the grounding sets")
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoints, weights and card")
    parser.add_argument("--begin", type=Path, help="weights to start from instead of MiniLM's own")
    parser.add_argument("--steps", type=int, help="of the whole run")
    parser.add_argument("--seconds", type=float, default=10_800, help="of this call at most; the next goes on")
    parser.add_argument("--rate", type=float, help="of learning, at its height")
    parser.add_argument("--limit", type=int, default=100, help="claims and questions of a set to calibrate on")
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    if given.what == "ship":
        ship(given.out)
        return
    if given.data is None:
        parser.error("--data: expected the folder of the sets")
    if given.what == "calibrate":
        calibrate(given.data, given.out, given.limit)
    else:
        steps, rate = given.steps or STEPS[given.what], given.rate or RATE[given.what]
        course = {"steps": steps, "rate": rate}
        train(given.what, given.data, given.out, given.begin, course, given.seconds)


def train(what: str, data: Path, out: Path, begin: Path | None, course: dict[str, Any], seconds: float) -> None:
    """Train one of the two networks, or go on with it, and write its weights and its curve."""
    import torch
    from denoise_core.embedded.reader.windows import tokens
    from safetensors.numpy import load_file, save

    from denoise_lab.span_reader import network as nets
    from denoise_lab.span_reader.claims import Claims, fresh, training, watched
    from denoise_lab.span_reader.course import train as follow
    from denoise_lab.span_reader.data import load
    from denoise_lab.span_reader.train import Steps, look

    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = nets.Network(weights(minilm()))
    parts = load(data, tokens())
    if what == "claims":
        network.take(load_file(begin or out / SPANS))
        fresh(network)
        pairs = training(data, parts.training)
        claims, watch = Claims(pairs, tokens()), watched(data, tokens())
        curve = follow(
            network,
            lambda rng, done: claims.loss(network, rng),
            out,
            what,
            look=lambda: watch(network),
            **course,
            seconds=seconds,
            say=CONSOLE.print,
        )
        trained = Counter(p.name for p in pairs)
    else:
        if begin:
            network.take(load_file(begin))
        drawn = Steps(parts, tokens(), begin=0.5 if begin else 0.0)
        curve = follow(
            network,
            lambda rng, done: drawn.loss(network, rng, done),
            out,
            what,
            look=lambda: look(network, parts, tokens()),
            seconds=seconds,
            say=CONSOLE.print,
            **course,
        )
        trained = Counter(e.name for e in parts.training)
    write_whole(out / (CLAIMS if what == "claims" else SPANS), save(network.trained()))
    said = {
        "trained on": dict(trained),
        "began with": str(begin) if begin else SPANS if what == "claims" else "MiniLM",
        "curve": curve,
    }
    write_card(out, {"encoder": HUB_NAME, "rank": nets.RANK, "frozen layers": nets.FROZEN, what: said | course})


def calibrate(data: Path, out: Path, limit: int) -> None:
    """Fit and write the calibration, and put figures of the last part into the card."""
    from denoise_core.embedded.reader.forward import Network
    from denoise_core.embedded.reader.judge import Calibration, ShippedJudge
    from denoise_core.embedded.reader.span_reader import NOWHERE, SpanReader
    from denoise_core.embedded.reader.windows import tokens
    from safetensors.numpy import load_file

    from denoise_lab.span_reader import calibrate as lines
    from denoise_lab.span_reader.claims import TRAINING, grounding, sample_of

    base = weights(minilm())
    reader = SpanReader(Network(base, load_file(out / SPANS)), tokens())
    judge = ShippedJudge(reader, Network(base, load_file(out / CLAIMS)), Calibration())
    found = []
    for name in lines.SETS:
        CONSOLE.print("calibrating on", name)
        found += lines.of_answers(judge, lines.questions(data, name, "calibration")[:limit], name)
    found = [c for c in found if c.read.fit is not NOWHERE]  # the others are judged as claims
    answers = lines.fitted([c.read.answers for c in found], found, "answers")
    pairs = [p for name in TRAINING for p in sample_of(grounding(data, name), "calibration", limit)]
    read = lines.of_claims(judge, pairs)
    claims = lines.fitted([c.read.claims for c in read], read, "claims")
    held = [
        a[0].holds
        for name in FLOOR_FROM
        for q in lines.questions(data, name, "calibration")[:30]
        if (a := reader.answers(q.text, [p for p in q.passages if p.id in q.gold], 1))
    ]
    floor = sorted(held)[int((1 - lines.ANSWERED) * len(held))]
    told = asdict(Calibration(answers, claims, round(floor, 3)))
    (out / CALIBRATION).write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    counts = Counter(f"{c.name}, {'right' if c.right else 'wrong'}" for c in [*found, *read])
    write_card(out, {"calibrated on": dict(counts)})


def ship(out: Path) -> None:
    """Copy weights, calibration and card into the package and print their digests."""
    for name in (SPANS, CLAIMS, CALIBRATION, CARD):
        shutil.copyfile(out / name, HERE / name)
        CONSOLE.print(f'    "{name}": "{hashlib.sha256((HERE / name).read_bytes()).hexdigest()}",')


def write_card(out: Path, entries: dict[str, Any]) -> None:
    """Put entries into the card, the others kept."""
    path = out / CARD
    card = json.loads(path.read_text("utf-8")) if path.exists() else {}
    write_whole(path, json.dumps({**card, **entries}, indent=1, ensure_ascii=False) + "\n")


def start() -> None:
    """`main` in a process with the environment `FAST`, which only counts when it stands at the beginning."""
    if not FAST.items() <= os.environ.items():
        again = [sys.executable, "-m", "denoise_lab.span_reader.make", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, **FAST})
    main()


if __name__ == "__main__":
    start()
