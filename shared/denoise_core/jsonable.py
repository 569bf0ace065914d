"""Our frozen dataclasses as plain JSON and back: one converter for what is written and read again.

A dataclass is an object of its fields, a tuple a list, an enum its value. What JSON cannot say is changed, never
refused: a number that is not finite becomes None, another object its string. Fields that are not compared (a
model, an origin) are left out. `from_jsonable` reads by the type hints, passes over fields that it does not know,
and takes a list for a dataclass whose values stand in the order of its fields.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_jsonable(value: Any, *, list_classes: tuple[type, ...] = ()) -> Any:
    """Strings, numbers, booleans, None, lists and dicts that say the same. Dataclasses of a class in ``listed``
    become lists of their values.

    >>> from denoise_core.types import Span
    >>> to_jsonable(Span("a", 0, 3)), to_jsonable(Span("a", 0, 3), list_classes=(Span,))
    ({'passage_id': 'a', 'start': 0, 'end': 3}, ['a', 0, 3])
    """
    if isinstance(value, Enum):
        return to_jsonable(value.value, list_classes=list_classes)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if is_dataclass(value) and not isinstance(value, type):
        written = {
            _json_name(f): to_jsonable(
                getattr(value, f.name), list_classes=list_classes
            )
            for f in fields(value)
            if f.compare
        }
        return list(written.values()) if isinstance(value, list_classes) else written
    if isinstance(value, Mapping):
        return {
            str(key): to_jsonable(item, list_classes=list_classes)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [to_jsonable(item, list_classes=list_classes) for item in value]
    return str(value)


def from_jsonable(kind: type[T] | Any, data: Any) -> T | Any:
    """``data`` as a ``kind``: a dataclass, or a type hint built of dataclasses, tuples, lists, dicts, unions,
    literals, enums and plain values. Raises `TypeError` or `ValueError` for anything else, with what was expected.

    >>> from denoise_core.types import Span
    >>> from_jsonable(tuple[Span, ...], [{"passage_id": "a", "start": 0, "end": 3}, ["b", 1, 2]])
    (Span(passage_id='a', start=0, end=3), Span(passage_id='b', start=1, end=2))
    """
    if kind is Any:
        return data
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _from_union(get_args(kind), data)
    if origin is Literal:
        if data not in get_args(kind):
            raise ValueError(f"expected one of {get_args(kind)}, got {data!r:.80}")
        return data
    if origin is not None:
        return _from_collection(origin, get_args(kind), data)
    if is_dataclass(kind):
        return _from_fields(kind, data)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    return _from_plain(kind, data)


def _from_union(kinds: tuple[Any, ...], data: Any) -> Any:
    """The first of several types that takes the data; None is taken by None alone."""
    if data is None and type(None) in kinds:
        return None
    reasons = []
    for kind in kinds:
        if kind is type(None):
            continue
        try:
            return from_jsonable(kind, data)
        except (TypeError, ValueError) as error:
            reasons.append(str(error))
    raise TypeError("; ".join(reasons) or f"expected None, got {type(data).__name__}")


def _from_collection(origin: Any, kinds: tuple[Any, ...], data: Any) -> Any:
    if issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise TypeError(f"expected an object, got {type(data).__name__}")
        key_kind, value_kind = kinds
        return {
            from_jsonable(key_kind, key): from_jsonable(value_kind, value)
            for key, value in data.items()
        }
    if not isinstance(data, (list, tuple)):
        raise TypeError(f"expected a list, got {type(data).__name__}")
    if origin is tuple and kinds[-1] is not Ellipsis:
        return tuple(
            from_jsonable(kind, item) for kind, item in zip(kinds, data, strict=True)
        )
    items = [from_jsonable(kinds[0], item) for item in data]
    return items if origin is list else tuple(items)


def _from_fields(kind: Any, data: Any) -> Any:
    hints = _hints(kind)
    if isinstance(data, (list, tuple)):
        data = dict(zip(hints, data, strict=False))
    if not isinstance(data, Mapping):
        raise TypeError(
            f"{kind.__name__}: expected an object, got {type(data).__name__}"
        )
    values = {}
    for key, (field_name, hint) in hints.items():
        if key not in data:
            continue
        try:
            values[field_name] = from_jsonable(hint, data[key])
        except (TypeError, ValueError) as error:
            raise type(error)(f"{kind.__name__}.{key}: {error}") from error
    return kind(**values)


def _from_plain(kind: Any, data: Any) -> Any:
    if kind is float:
        if data is None:  # a number that is not finite
            return math.nan
        if isinstance(data, (int, float)) and not isinstance(data, bool):
            return float(data)
    elif kind not in (str, int, bool) or type(data) is kind:
        return data  # another object was written as its string
    raise TypeError(f"expected {kind.__name__}, got {type(data).__name__}")


def _json_name(field: Field[Any]) -> str:
    """The key of a field in JSON: its own name, unless ``field(metadata={"json": ...})`` keeps an older one."""
    return str(field.metadata.get("json", field.name))


@cache
def _hints(kind: Any) -> dict[str, tuple[str, Any]]:
    """By JSON key, the name and the type hint of each field that is written of a dataclass."""
    hints = get_type_hints(kind)
    return {
        _json_name(f): (f.name, hints[f.name])
        for f in fields(kind)
        if f.init and f.compare
    }
