"""Who may send requests: keys from a file.

The file is TOML, a table for each name::

    [search]
    sha256 = "9f86d0..."       # of the key; or key = "..." itself
"""

from __future__ import annotations

import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from fastapi.security.utils import get_authorization_scheme_param
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from denoise_core.errors import InputError


class PlainKey(BaseModel, extra="forbid", strict=True):
    """A table of the file with a key."""

    key: str = Field(min_length=1)


class HashedKey(BaseModel, extra="forbid", strict=True):
    """A table of the file with the digest of a key."""

    sha256: str = Field(pattern="^[0-9a-fA-F]{64}$")


_KEY_FILE = TypeAdapter(Annotated[dict[str, PlainKey | HashedKey], Field(min_length=1)])


class ApiKeys:
    """The keys of a file by their digests; without a file no key is needed.

    Raises `InputError` for an invalid file.
    """

    def __init__(self, file: Path | None) -> None:
        self._names: dict[str, str] = {}  # by the key's digest
        if file is None:
            return
        try:
            file_text = file.read_text("utf-8")
            file_data = tomllib.loads(file_text)
            tables = _KEY_FILE.validate_python(file_data)
            for name, table in tables.items():
                if isinstance(table, PlainKey):
                    digest = _digest(table.key)
                else:
                    digest = table.sha256.lower()
                self._names[digest] = name
            if len(self._names) < len(tables):
                raise ValueError
        except (OSError, ValueError) as error:  # its message may quote a key
            location: tuple[Any, ...] = ()
            if isinstance(error, ValidationError):
                location = error.errors()[0]["loc"][:1]
            raise InputError(
                f"keys: {file} {[*location]}: {type(error).__name__}; expected TOML "
                "with a table for each name, in it only a key or its sha256 of 64 "
                "digits, each key once"
            ) from None

    def identify(self, header: str) -> str | None:
        """Return the name of the key in an ``Authorization`` header.

        '' where no key is needed; None for a wrong one.
        """
        if not self._names:
            return ""
        scheme, key = get_authorization_scheme_param(header)
        if scheme.lower() != "bearer":
            return None
        digest = _digest(key)
        return self._names.get(digest)


def _digest(key: str) -> str:
    key_bytes = key.encode("utf-8", "surrogatepass")
    return sha256(key_bytes).hexdigest()
