"""END on a model server: a probe fitted here is exported as a checkpoint, which vLLM serves, and asked over HTTP.

vllm serve exported --task classify --port 8000     then, at the same time, ENGINE=http://127.0.0.1:8000
"""

import os

from denoise_core.embedded import sample_questions
from denoise_core.end import ENDDenoiser, HiddenReader, ReadingSettings
from denoise_core.end.fit import fit_probe
from denoise_core.end.remote import RemoteScorer
from denoise_lab.export import export_probe

# An engine serves the state of the last token.
reader = HiddenReader(os.environ["MODEL"], settings=ReadingSettings(pooling="last"))
if not os.path.exists("exported"):
    training = fit_probe(reader, sample_questions()[:6], layers=[12])
    written = export_probe(reader, training.probe, "exported")
    print("written:", *sorted(os.listdir("exported")))
if "ENGINE" in os.environ:
    question = sample_questions()[0]
    denoiser = ENDDenoiser(RemoteScorer(os.environ["ENGINE"], "exported"), keep=3)
    print(len(denoiser.denoise(question.text, question.passages).passages), "passages kept by the server's scores")
