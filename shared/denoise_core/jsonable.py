"""Convert our frozen dataclasses to plain JSON values and back.

A dataclass becomes an object of its fields, a tuple a list, an enum its value. Values
that JSON does not have are converted, never refused: a number that is not finite
becomes None, any other object its string. Fields that are not compared (a model, an
origin) are left out.

`from_jsonable` reads by the type hints, ignores unknown fields, and accepts a list for
a dataclass if its values are in the order of the fields.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from functools import cache
from numbers import Integral, Real
from typing import (
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")


def to_jsonable(value: Any, *, list_classes: tuple[type, ...] = ()) -> Any:
    """Return strings, numbers, booleans, None, lists and dicts equivalent to a value.

    >>> from denoise_core.types import Span
    >>> to_jsonable(Span("a", 0, 3))
    {'passage_id': 'a', 'start': 0, 'end': 3}
    >>> to_jsonable(Span("a", 0, 3), list_classes=(Span,))
    ['a', 0, 3]

    Args:
        value: Any value.
        list_classes: Dataclasses that become lists of their field values.
    """

    def convert(item: Any) -> Any:
        return to_jsonable(item, list_classes=list_classes)

    if isinstance(value, Enum):
        return convert(value.value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        is_finite = math.isfinite(number)
        return number if is_finite else None
    if is_dataclass(value) and not isinstance(value, type):
        json_fields = _written_fields(value)
        if isinstance(value, list_classes):
            field_values = list(json_fields.values())
            return convert(field_values)
        return convert(json_fields)
    if isinstance(value, Mapping):
        return {str(key): convert(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [convert(item) for item in value]
    return str(value)  # a string too: a subclass becomes a plain one


def from_jsonable(type_hint: type[T] | Any, data: Any) -> T | Any:
    """Return ``data`` as a value of this type.

    >>> from denoise_core.types import Span
    >>> spans = [{"passage_id": "a", "start": 0, "end": 3}, ["b", 1, 2]]
    >>> from_jsonable(tuple[Span, ...], spans)
    (Span(passage_id='a', start=0, end=3), Span(passage_id='b', start=1, end=2))

    Args:
        type_hint: A dataclass, or a type hint of dataclasses, tuples, lists, dicts,
            unions, literals, enums and plain values.
        data: What `to_jsonable` returned.

    Raises:
        TypeError: The data has another type; the message names the field.
        ValueError: The data has another value.
    """
    if type_hint is Any:
        return data
    origin = get_origin(type_hint)
    type_arguments = get_args(type_hint)
    if origin in (Union, types.UnionType):
        return _read_union(type_arguments, data)
    if origin is Literal:
        if data not in type_arguments:
            raise ValueError(f"expected one of {type_arguments}, got {data!r:.80}")
        return data
    if origin is not None:
        return _read_collection(origin, type_arguments, data)
    if is_dataclass(type_hint):
        return _read_fields(type_hint, data)
    if isinstance(type_hint, type) and issubclass(type_hint, Enum):
        return type_hint(data)
    return _read_plain(type_hint, data)


def _read_union(type_hints: tuple[Any, ...], data: Any) -> Any:
    """Return the data as the first type that accepts it; only None accepts None."""
    if data is None and type(None) in type_hints:
        return None
    reasons = []
    for type_hint in type_hints:
        if type_hint is type(None):
            continue
        try:
            return from_jsonable(type_hint, data)
        except (TypeError, ValueError) as error:
            error_text = str(error)
            reasons.append(error_text)
    if not reasons:
        raise TypeError(f"expected None, got {type(data).__name__}")
    all_reasons = "; ".join(reasons)
    raise TypeError(all_reasons)


def _read_collection(origin: Any, type_hints: tuple[Any, ...], data: Any) -> Any:
    if issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise TypeError(f"expected an object, got {type(data).__name__}")
        key_hint, value_hint = type_hints
        typed_values = {}
        for json_key, json_value in data.items():
            key = from_jsonable(key_hint, json_key)
            typed_values[key] = from_jsonable(value_hint, json_value)
        return typed_values
    if not isinstance(data, (list, tuple)):
        raise TypeError(f"expected a list, got {type(data).__name__}")
    if origin is tuple and type_hints[-1] is not Ellipsis:
        typed_items = zip(type_hints, data, strict=True)
        return tuple(from_jsonable(type_hint, item) for type_hint, item in typed_items)
    items = [from_jsonable(type_hints[0], item) for item in data]
    if origin is list:
        return items
    return tuple(items)


def _read_fields(dataclass_type: Any, data: Any) -> Any:
    field_hints = _field_hints(dataclass_type)
    if isinstance(data, (list, tuple)):
        named_values = zip(field_hints, data, strict=False)
        data = dict(named_values)
    type_name = dataclass_type.__name__
    if not isinstance(data, Mapping):
        raise TypeError(f"{type_name}: expected an object, got {type(data).__name__}")
    field_values = {}
    for json_name, (field_name, type_hint) in field_hints.items():
        if json_name not in data:
            continue
        try:
            json_value = data[json_name]
            field_values[field_name] = from_jsonable(type_hint, json_value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{type_name}.{json_name}: {error}") from error
    return dataclass_type(**field_values)


def _read_plain(plain_type: Any, data: Any) -> Any:
    if plain_type is float:
        if data is None:  # a number that is not finite
            return math.nan
        is_number = isinstance(data, (int, float)) and not isinstance(data, bool)
        if is_number:
            return float(data)
    elif plain_type not in (str, int, bool) or type(data) is plain_type:
        return data  # any other object was written as its string
    raise TypeError(f"expected {plain_type.__name__}, got {type(data).__name__}")


def _written_fields(value: Any) -> dict[str, Any]:
    """Return the values of the fields that are written, by JSON key."""
    written_fields = {}
    for item in fields(value):
        if not item.compare:
            continue
        json_name = _json_name(item)
        written_fields[json_name] = getattr(value, item.name)
    return written_fields


def _json_name(dataclass_field: Field[Any]) -> str:
    """Return a field's key in JSON.

    ``field(metadata={"json": ...})`` keeps a key that is older than the field's name.
    """
    json_name = dataclass_field.metadata.get("json", dataclass_field.name)
    return str(json_name)


@cache
def _field_hints(dataclass_type: Any) -> dict[str, tuple[str, Any]]:
    """Return name and type hint of each written field by its JSON key."""
    type_hints = get_type_hints(dataclass_type)
    field_hints = {}
    for item in fields(dataclass_type):
        is_read = item.init and item.compare
        if not is_read:
            continue
        json_name = _json_name(item)
        type_hint = type_hints[item.name]
        field_hints[json_name] = item.name, type_hint
    return field_hints
