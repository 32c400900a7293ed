"""Text from files, wires and file names as a terminal may see it: no control characters.

An escape sequence in a file's name would set the terminal's title, wipe it, or write elsewhere on it.
"""

_UNKNOWN = "\ufffd"
_PICTURES = 0x2400  # Unicode's pictures of C0, in their order
_KEPT = "\n\t"
_TURNS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)  # the direction of writing

_TABLE = {
    **{code: chr(_PICTURES + code) for code in range(0x20) if chr(code) not in _KEPT},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), _UNKNOWN),  # C1
    **dict.fromkeys(_TURNS, _UNKNOWN),
    0x2028: _UNKNOWN,  # line and paragraph separators
    0x2029: _UNKNOWN,
    **dict.fromkeys(range(0xD800, 0xE000), _UNKNOWN),  # bytes of a name that are not UTF-8
}


def plain(text: str) -> str:
    """The text with a visible character in place of each that would control the terminal.

    Line breaks and tabs stay.
    """
    return text.translate(_TABLE)
