"""LlamaIndex models, retrievers, embeddings and rerankers for the core, and back.

Read `llm` first: a LlamaIndex LLM as the core's. `retriever` and `scorers` do the same
for retrievers, embedding models and rerankers; `local` shares a loaded model with END;
`threads` keeps blocking models off the event loop. A new kind of model gets its adapter
here.
"""
