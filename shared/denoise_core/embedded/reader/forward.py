"""The reader's network in NumPy: no torch where questions are answered.

MiniLM-L6 (six layers of 384, twelve heads) with what training changed merged into its weights when it is
loaded. `denoise_lab.span_reader.network` is the same in torch; a test holds the two together within 1e-4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from denoise_core.embedded.minilm import LAYERS, PIECES, WIDTH, Floats, MiniLM, Weights, f32, gelu
from denoise_core.embedded.reader.features import Batch, Row, batch
from denoise_core.embedded.reader.span_reader import Logits
from denoise_core.local.batching import batches


class Network(MiniLM):
    """``base`` are MiniLM's weights by name, ``trained`` what `denoise_lab.span_reader` trained."""

    def __init__(self, base: Weights, trained: Weights) -> None:
        own = {name: np.asarray(value, dtype=np.float32) for name, value in trained.items()}
        super().__init__(base, own)
        self.marked_from = next(i for i in range(LAYERS) if f"layers.{i}.qkv.a" in own)
        self.marks = own["marks"]
        self.span = f32(own["span.weight"].T), own["span.bias"]
        self.hidden = f32(own["hidden.weight"].T), own["hidden.bias"]
        self.holds = f32(own["holds.weight"].T), own["holds.bias"]

    def logits(self, rows: Sequence[Row]) -> list[Logits]:
        """What the network says of each row's window, in the order of the rows. A row's logits do not depend
        on the others beyond rounding."""
        out: list[Logits | None] = [None] * len(rows)
        for numbers in batches([len(r) for r in rows], PIECES):
            start, end, holds = self(batch([rows[i] for i in numbers]))
            for n, i in enumerate(numbers):
                inside = slice(rows[i].start, rows[i].end)
                out[i] = Logits(start[n, inside], end[n, inside], float(holds[n]))
        return [x for x in out if x is not None]

    def __call__(self, given: Batch) -> tuple[Floats, Floats, Floats]:
        """Start and end logits ``(rows, length)``, meaningful inside of windows only, and presence ``(rows,)``."""
        h = self.read(given.ids, given.real, {self.marked_from: self.marks[given.marks.reshape(-1)]})
        span = (h.reshape(-1, WIDTH) @ self.span[0] + self.span[1]).reshape(*given.ids.shape, 2)
        holds = gelu(h[:, 0] @ self.hidden[0] + self.hidden[1]) @ self.holds[0] + self.holds[1]
        return span[..., 0], span[..., 1], holds[:, 0]
