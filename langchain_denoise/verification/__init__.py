"""Answers checked against the evidence that they were written from.

A chain, a runnable or an agent's last model call goes in; its answer comes out with a
record of the checks, rewritten if it did not hold. Read `verifier.py` first: `Verifier`
holds the settings. `chain.py` verifies any chain, `evidence.py` collects what retrievers
and tools found, `redraft.py` brings feedback to the model. A judge goes to
`Verifier(judge=...)`.
"""
