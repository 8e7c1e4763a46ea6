# SPDX-License-Identifier: Apache-2.0
"""Generated C and C++ in lines of at most 120 columns; a tab is eight."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_COLUMNS = 120
_TAB = 8
_LITERAL = r'"(?:\\.|[^"\\])*"|' + r"'(?:\\.|[^'\\])'"
_TOKEN = re.compile(rf"{_LITERAL}|//.*|[,;{{(] ?|(?:&&|\|\||[?:=]) |\s+|[^\s\"',;{{(/&|?:=]+|.")
_BREAKS = (", ", "{", "{ ", "&& ", "|| ", "? ", "= ")
_CHARACTER = re.compile(r"\\(?:[0-7]{1,3}|x[0-9a-fA-F]+|.)|.")


def broken(text: str) -> str:
    """`text` with its long lines broken: code behind a comma or an operator, comments and literals where it fits.

    Lines of the preprocessor, and those that end in a backslash, stay as they are.
    """
    return "\n".join(short for line in text.split("\n") for short in _lines(line))


def columns(line: str) -> int:
    """The width of a line."""
    return len(line.expandtabs(_TAB))


def _lines(line: str) -> Iterator[str]:
    if columns(line) <= MOST_COLUMNS or line.lstrip().startswith("#") or line.endswith("\\"):
        yield line
        return
    indent = line[: len(line) - len(line.lstrip())]
    tokens = _TOKEN.findall(line[len(indent) :])
    comment = tokens.pop() if tokens[-1].startswith("//") else ""
    code = "".join(tokens).rstrip()
    if comment:
        yield from _comment(indent, comment)
    if code:
        yield from _code(indent, tokens)


def _comment(indent: str, comment: str) -> Iterator[str]:
    room = MOST_COLUMNS - columns(indent)
    while len(comment) > room:
        at = comment.rfind(" ", len("// ") + 1, room + 1)
        at = room if not comment[2:at].strip() else at
        yield indent + comment[:at].rstrip()
        comment = f"// {comment[at:].lstrip()}"
    yield indent + comment


def _code(indent: str, tokens: list[str]) -> Iterator[str]:
    """Each line ends at the last place for a break that fits, behind a parenthesis where there is no other."""
    more = indent + "\t"
    line, cut, call = indent, 0, 0
    for token in _short(tokens, MOST_COLUMNS - columns(more) - 1):
        if columns((line + token).rstrip()) > MOST_COLUMNS and (cut or call):
            at = cut or call
            yield line[:at].rstrip()
            line, cut, call = more + line[at:].lstrip(), 0, 0
        line += token
        if token in _BREAKS or token.startswith('"'):
            cut = len(line)
        call = len(line) if token == "(" else call
    yield line.rstrip()


def _short(tokens: list[str], room: int) -> Iterator[str]:
    """The tokens, with literals that are longer than `room` as several ones."""
    for token in tokens:
        if not token.startswith('"') or len(token) <= room:
            yield token
            continue
        part = ""
        for character in _CHARACTER.findall(token[1:-1]):
            if len(part) + len(character) + 2 > room:
                yield f'"{part}"'
                yield " "
                part = ""
            part += character
        yield f'"{part}"'
