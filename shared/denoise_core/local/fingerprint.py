"""Which model a probe was fitted on, precise enough to refuse another one; plain data, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from denoise_core.errors import InputError


@dataclass(frozen=True, slots=True)
class ModelFingerprint:
    """What decides a hidden state, apart from layer, layout and pooling (the probe has those).

    ``weights`` is a sha256 over a sample of every tensor of the embeddings and of the blocks up to the
    probe's layer (`denoise_core.local.partial_forward` takes it): a model changed under the same name differs,
    while
    the same weights under another name or path, or loaded without their upper layers, do not. ``tokenizer``
    is a sha256 of the tokenizer's own definition.

    ``name``, ``revision`` and ``layers`` say where to find the model again; two fingerprints that differ
    only there are equal.
    """

    name: str = field(compare=False)
    architecture: str  # the config's model_type
    hidden_size: int
    dtype: str  # "float32", "bfloat16", ...
    weights: str = ""
    tokenizer: str = ""
    revision: str | None = field(
        default=None, compare=False
    )  # commit of the hub, where there is one
    layers: int | None = field(default=None, compare=False)  # blocks of the whole model

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` takes them back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ModelFingerprint:
        """Raises `InputError` naming every missing or ill-typed field."""
        field_types: dict[str, Any] = dict.fromkeys(
            ("name", "architecture", "dtype", "weights", "tokenizer"), str
        )
        field_types |= {
            "hidden_size": int,
            "revision": str | None,
            "layers": int | None,
        }
        return cls(**read_fields(data, field_types, "model fingerprint"))

    def differences(self, other: ModelFingerprint) -> list[str]:
        """Each way in which ``other``, the model at hand, would give other states; [] when it fits."""
        problems = []
        for name in ("architecture", "hidden_size", "dtype"):
            own_value, other_value = getattr(self, name), getattr(other, name)
            if own_value != other_value:
                problems.append(
                    f"{name}: the probe was fitted on {own_value!r}, this model has {other_value!r}"
                )
        if self.weights != other.weights and not problems:
            model_names = f"{self.name!r} and {other.name!r}"
            if self.name == other.name:
                model_names = "the same name"
            problems.append(
                f"weights: {model_names}, but other values in the layers the probe reads"
            )
        if self.tokenizer != other.tokenizer:
            problems.append(
                "tokenizer: another vocabulary or other splitting rules than the probe was fitted with"
            )
        return problems


def read_fields(data: Any, field_types: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The values of these fields of a JSON object; others are ignored.

    Raises:
        InputError: It is no object, or values are missing or of another type; names them all.
    """
    if not isinstance(data, Mapping):
        raise InputError(
            f"expected a {what} as a JSON object, got {type(data).__name__}"
        )
    values = {name: data.get(name) for name in field_types}
    problems = []
    for name, field_type in field_types.items():
        # bool is an int, but no number.
        if not isinstance(values[name], field_type) or isinstance(values[name], bool):
            type_name = getattr(field_type, "__name__", field_type)
            problems.append(f"{name!r}: expected {type_name}, got {values[name]!r}")
    if problems:
        raise InputError(f"not a {what}: " + "; ".join(problems))
    return values
