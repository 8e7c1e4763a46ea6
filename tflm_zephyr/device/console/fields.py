# SPDX-License-Identifier: Apache-2.0
"""`key=value` fields of a record, read strictly: any other form is damage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

Choice = TypeVar("Choice", bound=str)

_HEX32 = re.compile(r"[0-9a-f]{8}")
_DECIMAL = re.compile(r"[0-9]{1,19}")


class DamagedError(Exception):
    """A record breaks the protocol."""


class Fields:
    """One record's fields; a getter raises DamagedError when the value is missing or not of its form."""

    def __init__(self, text: str) -> None:
        """`text` is the record after its kind: fields separated by blanks, no key twice."""
        fields: dict[str, str] = {}
        for token in text.split():
            key, equals, value = token.partition("=")
            if not equals or not key or key in fields:
                raise DamagedError(f"not a field: {token[:40]!r}")
            fields[key] = value
        self._fields: Mapping[str, str] = fields

    def __contains__(self, key: str) -> bool:
        return key in self._fields

    def text(self, key: str) -> str:
        """The value as it stands; never empty."""
        if not self._fields.get(key):
            raise DamagedError(f"no {key}=")
        return self._fields[key]

    def number(self, key: str) -> int:
        """A whole number from 0 up, in decimal."""
        value = self.text(key)
        if not _DECIMAL.fullmatch(value):
            raise DamagedError(f"{key}= is no number")
        return int(value)

    def optional_number(self, key: str) -> int | None:
        """As `number`; None when the key is absent."""
        return self.number(key) if key in self else None

    def hex32(self, key: str) -> int:
        """Eight lower-case hex digits."""
        value = self.text(key)
        if not _HEX32.fullmatch(value):
            raise DamagedError(f"{key}= is no CRC-32")
        return int(value, 16)

    def data(self, key: str) -> bytes:
        """Bytes as hex digits, two each."""
        value = self.text(key)
        try:
            return bytes.fromhex(value)
        except ValueError as err:
            raise DamagedError(f"{key}= is not hex") from err

    def choice(self, key: str, choices: tuple[Choice, ...]) -> Choice:
        """One of `choices`."""
        value = self.text(key)
        for choice in choices:
            if choice == value:
                return choice
        raise DamagedError(f"{key}= is none of {', '.join(choices)}")
