"""END probes of the shipped reader, one for each prompt layout, and the command that makes them.

    python -m denoise_lab.probes                # minutes on one core; seeded
    python -m denoise_lab.probes --model FOLDER --out FOLDER

Fitted on NoisyRetrieval over the reader's training prose and on scenes of its world, all questions of the kind its
training draws; calibrated on other questions of the same kinds. A probe belongs to the weights it was fitted on:
for other weights run the command again. Early Noise Dropping, sections 2.2 and 3.3; Table 4 compares the layouts.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from denoise_core.end.fit import fit_probe
from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.errors import InputError
from denoise_core.local.layout import SCQ
from denoise_lab.controls import controls
from denoise_lab.layouts import DISTINGUISH, QSC, SC, SQC
from denoise_lab.model import FOLDER
from denoise_lab.probe_data import mixed_questions
from denoise_lab.worlds.prose import prose

PROBES = Path(__file__).parent / "data" / "probes"
LAYOUTS = {layout.name: layout for layout in (SCQ, SQC, QSC, SC, DISTINGUISH)}
NAME = "the shipped reader"  # a fingerprint tells the weights; where they lay when it was fitted helps nobody
QUESTIONS, CALIBRATION = 160, 100


def reader_probe(layout: str = "scq") -> Probe:
    """The shipped probe for one of the layouts "scq", "sqc", "qsc", "sc" and "distinguish".

    Use it with the shipped reader's weights, from the files or as an object that is in memory already::

        ProbeScorer(denoise_lab.FOLDER, reader_probe())
        ProbeScorer(llm.model, reader_probe(), tokenizer=llm.tokenizer)  # llm: a `LocalLLM` that was used before

    It is calibrated, so ``ENDDenoiser(scorer, keep="calibrated")`` works; how good it is stands in its card.
    The "sc" probe never sees the question and is a control. Layouts other than "scq" are given to the scorer too:
    ``settings=ReadingSettings(layout=LAYOUTS[layout])``. Raises `InputError` for another layout.
    """
    if layout not in LAYOUTS:
        raise InputError(f"layout={layout!r}: the reader has probes for {', '.join(map(repr, LAYOUTS))}")
    return Probe.load(PROBES / layout)


def make(
    model: Any,
    tokenizer: Any,
    layout: str,
    *,
    questions: int = QUESTIONS,
    calibration: int = CALIBRATION,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> Probe:
    """A probe for one layout: ``questions`` to fit on and choose the layer with, ``calibration`` others.

    Raises `InputError` for another layout than `reader_probe` knows.
    """
    if layout not in LAYOUTS:
        raise InputError(f"layout={layout!r}: expected one of {', '.join(map(repr, LAYOUTS))}")
    haystack = "\n".join(prose())
    fitting = mixed_questions(haystack, questions, seed=2 * seed)
    asked = {q.text for q in fitting}
    others = [q for q in mixed_questions(haystack, calibration, seed=2 * seed + 1) if q.text not in asked]
    card = {
        "data from": "NoisyRetrieval, levels 0 to 4 with 200 to 1600 characters of prose a chunk, and scenes of "
        "the reader's synthetic world, half each; prose: the reader's training prose (A. Conan Doyle, 1892, "
        "public domain); asked combinations, names and wordings: those that training may draw",
        "seed": seed,
    }
    reader = HiddenReader(model, tokenizer=tokenizer, settings=ReadingSettings(layout=LAYOUTS[layout]))
    trained = fit_probe(
        reader,
        fitting,
        calibration=others,
        card=card,
        progress=lambda done, of: progress(f"{layout}: {done} of {of} questions read"),
    ).probe
    named = replace(trained.reading, model=replace(trained.reading.model, name=NAME))
    controlled = controls(reader, fitting, named.layer).items()
    rows = [{"control": name, **control.summary()} for name, control in controlled]
    told = {**trained.card, "controls, same layer, held-out questions": rows}
    return Probe(trained.weight, trained.bias, named, trained.threshold, told, trained.calibration)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=FOLDER, help="folder of the reader's weights")
    parser.add_argument("--out", type=Path, default=PROBES, help="a probe folder for each layout goes here")
    parser.add_argument("--only", default=",".join(LAYOUTS), help="layouts, with commas between")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--calibration", type=int, default=CALIBRATION)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    from denoise_core.local.loading import load_model, load_tokenizer  # torch, which loading a probe does not need

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    log = logging.getLogger(__name__)
    model, tokenizer = load_model(given.model), load_tokenizer(given.model)
    for layout in given.only.split(","):
        probe = make(
            model,
            tokenizer,
            layout,
            questions=given.questions,
            calibration=given.calibration,
            seed=given.seed,
            progress=log.info,
        )
        probe.save(given.out / layout)
        log.info(f"{given.out / layout}: layer {probe.reading.layer}")


if __name__ == "__main__":
    main()
