"""Carrying a method out: effects, their drivers, and what limits and protects a run.

A method is a generator that yields effects (`effects`); `flow.run` and `flow.arun`
carry them out with a `budget` and return the value and the trace. `guard` decides what
follows a failure, `pipeline` joins denoisers, `caches` and `engines` serve models,
`record` writes results as JSON. Read `effects` first, then `flow`. A new kind of model
server goes into `engines`, a new store is any `caches.Store`.
"""
