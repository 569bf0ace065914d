"""A probe for a model of your own: fitted on labelled questions, judged on folds it did not see, saved, used.

MODEL is a Hugging Face folder or name. Fewer than 200 questions make a poor probe; these are an example.
"""

import os
import warnings
from dataclasses import replace

from denoise_core import fit_denoiser, load_denoiser
from denoise_core.embedded import sample_questions

warnings.filterwarnings("ignore", module="sklearn")
few = sample_questions()[:20]  # with five passages each and those that are needed: soon read
questions = [
    replace(q, passages=tuple(p for n, p in enumerate(q.passages) if n < 5 or p.id in q.gold)) for q in few
]
fitted = fit_denoiser(questions, os.environ["MODEL"], layers=[12])
fitted.save("mine")
denoiser = load_denoiser("mine")

question = questions[0]
result = denoiser.denoise(question.text, question.passages)
print("files:", *sorted(os.listdir("mine")))
print(f"kept {len(result.passages)} of {len(question.passages)} passages for: {question.text}")
