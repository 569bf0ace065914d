"""Components of LlamaIndex in a pickle: the caller's stay whole, and keys stay here.

LlamaIndex's own pickling deletes from the living object what does not pickle, and keeps keys.
"""

from __future__ import annotations

import pickle
from typing import Any

from llama_index.core.schema import BaseComponent

from denoise_core._secrets import Pickled


class Carries(Pickled):
    """Base of a class around a component, of which a pickle has a copy without secrets: loaded, that takes its own
    from the environment, as one made without a key does. Pickling raises TypeError naming a field that cannot go.
    """

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        for held in state:
            component = state[held]
            fields = component.__dict__ if isinstance(component, BaseComponent) else {}
            for name, value in fields.items():
                try:
                    if name != "callback_manager":
                        pickle.dumps(value)
                except Exception as error:
                    at = f"{type(self).__name__}.{held}.{name}"
                    said = f"{at} cannot be pickled, so this cannot go to another process: {error}"
                    raise TypeError(said) from error
        return state


class Whole(BaseComponent):
    """Base of a component of ours, whose pickling changes nothing and says itself what does not pickle. Callbacks,
    which hold open handles, start anew, as they do for every copy that LlamaIndex loads."""

    def __getstate__(self) -> dict[str, Any]:
        fields = {name: value for name, value in self.__dict__.items() if name != "callback_manager"}
        made = {"__pydantic_fields_set__": set(fields), "__pydantic_extra__": None, "__pydantic_private__": None}
        return {"__dict__": fields, **made}
