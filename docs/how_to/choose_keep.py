"""How much to keep: what each setting loses and saves, on 20 real questions that ship; put yours there."""

from denoise_core import default_denoiser
from denoise_core.embedded import sample_questions
from denoise_core.end import TokenLimit

questions = sample_questions()[:20]
settings = {
    'keep="auto"': default_denoiser(),
    'keep="auto", risk=0.05': default_denoiser(risk=0.05),
    'keep="auto", risk=0.20': default_denoiser(risk=0.20),
    "keep=0.3": default_denoiser(keep=0.3),
    "keep=3": default_denoiser(keep=3),
    "keep=TokenLimit(400)": default_denoiser(keep=TokenLimit(400)),
}
print(f"{'setting':24} {'answer kept':>12} {'text kept':>10}")
for name, denoiser in settings.items():
    right, before, after = 0, 0, 0
    for question in questions:
        result = denoiser.denoise(question.text, question.passages)
        ids = {kept.span.passage_id for kept in result.kept}
        right += any(gold in ids for gold in question.gold)
        before += sum(len(p.text) for p in question.passages)
        after += sum(len(p.text) for p in result.passages)
    print(f"{name:24} {right:>5} of {len(questions)} {after / before:>10.0%}")
