"""Where in the shipped reader a passage's relevance can be read: by layer, by prompt layout, and across tasks.

Early Noise Dropping, Figures 2 and 5 and Tables 3 and 4, in miniature. Probes are fitted on questions that the
reader's training may have asked, in its prose, and judged on combinations, names and wordings that were kept
apart, in other prose. Controls: fresh blocks with the embeddings kept, and a layout without the question ([S|C]).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness import RESULTS, Benchmark, reader_arguments

from denoise_lab.experiments.end import haystack, load
from denoise_lab.experiments.layers import CUT, NOISY, Data, Sizes, Study, draw, plot, study, table
from denoise_lab.noisy_retrieval import LEVELS


def report(bench: Benchmark, found: Study, data: Data, with_what: str) -> None:
    bench.row(f"layer chosen on the questions fitted on ({with_what})", found.layer, "layer")
    for name, by_layer in found.curves.items():
        for layer, recall in by_layer.items():
            for cut, values in recall.items():
                target = 0.95 if name == NOISY and layer == found.layer and cut == CUT else None
                bench.mean(
                    f"{name}, layer {layer}: gold at {cut} ({len(values)} questions, {with_what})",
                    values,
                    at_least=target,
                )
    own = found.curves[NOISY][found.layer][CUT]
    for level in LEVELS:
        values = own[data.levels == level]
        label = (
            f"{NOISY}, level {level}, layer {found.layer}: gold at {CUT} ({len(values)} questions, {with_what})"
        )
        bench.mean(label, values)
    for name, recall in found.layouts.items():
        label = f"fitted on [S|C|Q], judged on {name}, layer {found.layer}: gold at {CUT} ({with_what})"
        bench.mean(label, recall[CUT])


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options, folder = reader_arguments(__doc__ or "", argv)
    bench = Benchmark("probe_layers", options)
    loaded = load(bench, folder)
    prose, what = haystack(bench)
    with_what = f"reader {loaded.mark}, seed {options.seed}"
    sizes = Sizes(1, 1, 4, 3, 60) if options.quick else Sizes()
    data = draw(prose, sizes, options.seed)
    found = study(loaded, data)
    report(bench, found, data, with_what)
    with_what = (
        f"{with_what}; NoisyRetrieval: {len(data.noisy_fit)} questions fitted on, {len(data.noisy_test)} judged; "
        f"people and towns: {len(data.scenes_fit)} and {len(data.scenes_test)}; judged in {what}"
    )
    out = Path(tempfile.mkdtemp()) if options.quick else RESULTS
    (out / "probe_layers.md").write_text(table(found, data, with_what), encoding="utf-8")
    plot(found, out / "probe_layers.png", with_what)
    return bench.finish()


if __name__ == "__main__":
    main()
