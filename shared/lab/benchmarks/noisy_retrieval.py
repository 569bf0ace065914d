"""NoisyRetrieval with the shipped reader: everything in, LLM-Discrim, END and the gold chunk alone.

Early Noise Dropping, Tables 1 and 2, in miniature: a password among twelve look-alikes inside prose, at five
levels of likeness, about 4,000 of the reader's tokens (standard) or 8,000 (extended). Asked are only
combinations that the reader's training never asked for. An answer is right when it names the password, no other.
END's probe is the shipped one; for other weights (--model) one is fitted first, on the same kind of questions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from harness import RESULTS, Benchmark, reader_arguments

from denoise_core.end.probe import Probe
from denoise_core.evaluate.metrics import bootstrap
from denoise_lab.experiments.end import Loaded, haystack, load
from denoise_lab.experiments.passwords import SYSTEMS, Cell, cells, plot, table
from denoise_lab.probe_data import CHARACTERS
from denoise_lab.probes import make
from denoise_lab.protocols.noisy import NAMES, SHARE

QUESTIONS = 40  # a cell
RECOVERS_AT = (3, 4)


def report(bench: Benchmark, cell: Cell, with_what: str) -> None:
    """Rows of one cell; targets where the issue sets them."""
    n = len(cell.recall)
    note = f"{with_what}, {n} questions"
    for system in SYSTEMS:
        right = cell.right(system)
        bench.share(f"{cell.label}, {system}: right ({note})", int(right.sum()), n)
        bench.row(f"{cell.label}, {system}: another's password ({note})", cell.share(system, "another's"), "share")
        for what in ("read", "whole"):
            tokens = float(np.mean([getattr(o, what) for o in cell.outcomes[system]]))
            name = "tokens read" if what == "read" else "tokens read, in passes of all layers"
            bench.row(f"{cell.label}, {system}: {name} ({note})", tokens, "tokens a question")
    bench.share(f"{cell.label}: probe recall at {SHARE:.0%} ({note})", int(cell.recall.sum()), n, at_least=0.95)
    more = cell.right("END") - cell.right("all in")
    bench.mean(f"{cell.label}: END over all in ({note})", more)
    if cell.level in RECOVERS_AT:
        low, _ = bootstrap(more)
        bench.row(f"{cell.label}: END over all in, lower end of 95 % ({note})", low, "share", at_least=0.01)


def main(argv: Sequence[str] | None = None, *, progress: Callable[[str], None] = print) -> Benchmark:
    options, folder = reader_arguments(__doc__ or "", argv)
    bench = Benchmark("noisy_retrieval", options)
    loaded = load(bench, folder)
    prose, what = haystack(bench)
    with_what = f"reader {loaded.mark}, greedy, seed {options.seed}"
    quick = options.quick
    probe = _probe(loaded, quick=quick)
    bench.about["probe"] = "fitted here, layout scq" if loaded.probe is None else "the shipped one, layout scq"
    bench.row("layer of the probe", probe.reading.layer, f"of {loaded.reading().layers}")
    measured = []
    counts = {False: 2} if quick else dict.fromkeys(NAMES, QUESTIONS)
    measuring = cells(loaded, probe, prose, counts, seed=options.seed, characters=60 if quick else CHARACTERS)
    try:
        for cell in measuring:
            report(bench, cell, with_what)
            measured.append(cell)
            progress(f"{cell.label}: " + ", ".join(f"{s} {cell.right(s).mean():.2f}" for s in SYSTEMS))
    except KeyboardInterrupt:
        bench.about["stopped"] = f"after {len(measured)} cells"  # what was measured until then is kept
    out = Path(tempfile.mkdtemp()) if quick else RESULTS
    with_what = f"{with_what}; {what}; probe of layer {probe.reading.layer} of {loaded.reading().layers}"
    (out / "noisy_retrieval.md").write_text(table(measured, with_what), encoding="utf-8")
    plot(measured, out / "noisy_retrieval.png", with_what)
    return bench.finish()


def _probe(loaded: Loaded, *, quick: bool) -> Probe:
    if loaded.probe is not None:
        return loaded.probe
    few = (8, 4) if quick else (120, 40)
    return make(loaded.model, loaded.tokenizer, "scq", questions=few[0], calibration=few[1])


if __name__ == "__main__":
    main()
