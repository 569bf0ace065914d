"""Everything that becomes HTML, for notebooks and for report files.

In come results, answers and evaluations, out come pages or fragments without scripts in
which every text is escaped. Read `context` first: denoised passages, and the templates that
the others fill too. `checked` shows claims with their quotes, `loop` a run of the
LLM-Augmenter, `evaluation` a comparison, `result` a result alone, `labels` questions to
correct. Each has a ``fragment`` for `_repr_html_`; a new view is such a module.
"""
