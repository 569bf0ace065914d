"""What may be given where a model, a scorer, a denoiser or a share is wanted: for type checkers.

At run time each is `Any`: `as_llm`, `as_scorer` and their like look at what is given, and say what to type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from langchain_core.cross_encoders import BaseCrossEncoder
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable

    from denoise_core import LLM, Denoiser, Scorer
    from denoise_core.end.selection import Rule

    LLMLike: TypeAlias = Runnable[Any, BaseMessage] | Runnable[Any, str] | LLM | str
    ScorerLike: TypeAlias = Embeddings | BaseCrossEncoder | Runnable[Any, Any] | Scorer | None
    DenoiserLike: TypeAlias = Denoiser | None
    KeepLike: TypeAlias = float | int | Literal["auto"] | Rule | None
    RetrieverLike: TypeAlias = Runnable[str, list[Document]]
else:
    LLMLike = ScorerLike = DenoiserLike = KeepLike = RetrieverLike = Any
