"""Leaving a forward pass in the middle: dormant hooks before every block, woken by a context variable.

When the pass arrives at the layer a request stops at, the hook takes the state and leaves the model through an
exception. The model object stays as it is, and other threads do not notice.
"""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from denoise_core.errors import InputError
from denoise_core.local.last_token import last_token

if TYPE_CHECKING:
    from denoise_core.local.first_layers import EarlyLayers

Pool = Callable[[torch.Tensor], torch.Tensor]


class Exit(BaseException):
    """Leaves a forward pass. Not an `Exception`, so that no ``except Exception`` in a model eats it."""


@dataclass(slots=True)
class Request:
    """One pass: pool the state at each layer of ``pools``, leave at ``stop``; ``entered`` counts blocks run.

    With ``last`` the final block of the pass runs for the last token only; ``inside`` is set meanwhile. Block n
    gets ``masks[n]``, where there is one, in place of the attention mask that the model made for it.
    """

    owner: EarlyLayers
    pools: Mapping[int, Pool]
    stop: int
    last: bool = False
    masks: Sequence[torch.Tensor] = ()
    inside: bool = False
    entered: int = 0
    found: dict[int, torch.Tensor] = field(default_factory=dict)

    def arrive(self, layer: int, state: Any, entering: bool) -> None:
        if layer in self.pools and layer not in self.found:
            if not isinstance(state, torch.Tensor) or state.ndim != 3 or state.shape[-1] != self.owner.width:
                shape = tuple(state.shape) if isinstance(state, torch.Tensor) else type(state).__name__
                raise InputError(
                    f"between its blocks this model carries {shape}, not one vector of width {self.owner.width} "
                    "for each token, so a probe cannot read it"
                )
            self.found[layer] = self.pools[layer](state)
        if layer >= self.stop:
            raise Exit
        self.entered += entering

    def finish(self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run the final block for the last token and leave; come back when it has to be run whole."""
        self.inside = True
        try:
            state = last_token(block, args, kwargs)
        finally:
            self.inside = False
        if state is not None:
            self.arrive(self.stop, state, entering=False)


current_request: contextvars.ContextVar[Request | None] = contextvars.ContextVar("end_request", default=None)


class Watch:
    """The hook before block ``n``: its input is ``h_n``. It knows its owner weakly, or models would live on."""

    def __init__(self, n: int, owner: EarlyLayers | None) -> None:
        self.n = n
        self.owner = weakref.ref(owner) if owner is not None else lambda: None

    def __reduce__(self) -> tuple[Any, ...]:
        return Watch, (self.n, None)  # in a copy of the model it watches nothing

    def before(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        request = self._request()
        if request is None:
            return None
        request.arrive(self.n, args[0] if args else kwargs.get("hidden_states"), entering=True)
        if request.last and self.n == request.stop - 1:
            request.finish(module, args, kwargs)
        if not request.masks:
            return None
        if "attention_mask" not in kwargs:
            raise InputError("this model's blocks take no attention mask by name")
        return args, kwargs | {"attention_mask": request.masks[self.n]}

    def after(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        request = self._request()
        if request is not None:
            request.arrive(self.n, output[0] if isinstance(output, tuple) else output, entering=False)

    def _request(self) -> Request | None:
        """The pass that is under way in this thread, if it is one of the model watched."""
        request, owner = current_request.get(), self.owner()
        return request if request is not None and owner is request.owner and not request.inside else None
