"""Text that comes from files, made safe to print: it cannot move a cursor, change colours or reverse the text around it."""

import unicodedata

FORBIDDEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Unicode's categories of control, format, private and surrogate characters, and of separators of lines."""


def printable(text: str) -> str:
    """Return text without control characters; line breaks and tabs become spaces."""
    return "".join(
        " " if character in "\n\r\t" else "" if unicodedata.category(character) in FORBIDDEN else character
        for character in text
    )
