"""``rag-denoise calibrate``: the same as `fit`, under the name of what it is for where a model labels."""

from __future__ import annotations

from denoise_core.cli.fit import fit
from denoise_core.cli.options import app

app.command(
    "calibrate", help="Calibrate a denoiser on questions of your own, labelled by people or by your model."
)(fit)
