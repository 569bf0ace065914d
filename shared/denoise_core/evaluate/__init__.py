"""Measuring what denoising does on labelled questions.

In come files of questions, out come figures with 95 % intervals. `datasets` reads the files
(a new format goes there), `metrics` has the measures, and `comparison` runs several
strategies on the same questions; read it first.
"""
