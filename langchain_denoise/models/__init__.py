"""Models of LangChain for the core, and of the core for LangChain.

`chat_llm.py`, the file to read first: a chat model as the core's `LLM`. `scoring.py`:
embeddings and cross-encoders as the core's `Scorer`. `bindings.py` looks inside bound
settings and fallbacks. A new kind of model or scorer is recognised in `as_llm` or
`as_scorer`.
"""
