"""The `:path` of HTTP/2 requests, from header blocks that may be captured only in part (HPACK, RFC 7541).

HPACK's dynamic table numbers entries from the newest backwards, so after a block of which a part is
hidden nobody knows which entry an index means.  But a client names its one authority in every request by
the same entry, right beside the path: this shows how many entries there are.  The Huffman code, integers
and the static table are those of the package `hpack`; its own decoder needs every byte of every block.
"""

from typing import NamedTuple

from hpack.exceptions import HPACKError
from hpack.hpack import decode_integer
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

PATH, AUTHORITY = b":path", b":authority"
MAX_BLOCK_NBYTES = 1 << 13  # read of one block; what lies beyond counts as hidden
MAX_ENTRIES = 1 << 10  # remembered of a table: one of the usual 4096 bytes has at most 128
_INTEGER_NBYTES = 12  # at most of an integer
_STATIC = HeaderTable.STATIC_TABLE
_MOST_ENTRIES = 1 << 16
_AUTHORITY_BY_ENTRY, _AUTHORITY_BY_NAME = b"\x41", b"\x40\x0a:authority"
_SAME_FOR_ALL = (b":method", b":scheme")


class Field(NamedTuple):
    """One header field: an entry of the table, or a literal, whose name may be an entry's.

    `entry` is the table's number, 0 for none.  `name` and `value` are None for what the table holds;
    `is_added`: it becomes the newest entry.
    """

    entry: int
    name: bytes | None
    value: bytes | None
    is_added: bool


class Paths:
    """What one client's header blocks say of the paths that it asks for; give it each block in order."""

    def __init__(self) -> None:
        self._added = 0  # entries since the table began, or since the authority was first met
        self._is_known = True  # whether `_added` is right
        self._authority: int | None = None  # which of these entries names the authority
        self._paths: dict[int, bytes] = {}
        self._place = 0  # of the path among the fields that differ between requests

    def read(self, block: bytes, *, is_whole: bool) -> str | None:
        """The path that a block asks for, None if it is not known."""
        found, cut = _readable_fields(block[:MAX_BLOCK_NBYTES])
        telling = [field for field in found if field.name not in _SAME_FOR_ALL][:2]
        names = [field.name for field in telling]
        if AUTHORITY in names or PATH in names:
            self._place = int(names[:1] == [AUTHORITY] or names[1:] == [PATH])
        if not self._is_known and len(telling) > 1:
            self._count(found, telling[1 - self._place])
        path = None
        for field in found:
            field_path = self._path(field)
            path = field_path if path is None else path
            self._add(field, field_path)
        if self._authority is None and len(telling) == 1 and telling[0].is_added and _is_authority(cut):
            self._authority = self._added
        self._is_known = self._is_known and is_whole and not cut and len(block) <= MAX_BLOCK_NBYTES
        return None if path is None else path.decode("ascii", "replace")

    def miss(self) -> None:
        """Blocks may have been hidden here altogether."""
        self._is_known = False

    def _path(self, field: Field) -> bytes | None:
        if field.name == PATH:
            return field.value
        known = self._paths.get(self._number(field.entry)) if field.name is None and self._is_known else None
        return field.value if known is not None and field.value is not None else known

    def _number(self, entry: int) -> int:
        """Which of all that were added an entry is now (RFC 7541, section 2.3.3)."""
        return self._added - 1 - (entry - len(_STATIC) - 1)

    def _add(self, field: Field, path: bytes | None) -> None:
        if not field.is_added:
            return
        if field.name == AUTHORITY:
            self._authority = self._added
        if path is not None and self._is_known:
            self._paths[self._added] = path
            if len(self._paths) > MAX_ENTRIES:
                del self._paths[next(iter(self._paths))]
        self._added += 1

    def _count(self, found: list[Field], authority: Field) -> None:
        """Find out how many entries there were before a block, by the place of the authority in the table."""
        before = sum(field.is_added for field in found[: found.index(authority)])
        if authority.is_added:  # a new one: entries before it are out of reach
            self._paths.clear()
        elif authority.entry <= len(_STATIC):
            return
        elif self._authority is None:
            self._authority, self._added = 0, authority.entry - len(_STATIC) - before
            self._paths.clear()
        else:
            added = self._authority + authority.entry - len(_STATIC) - before
            if added < self._added:  # entries never get fewer: this is another authority
                self._paths.clear()
            self._added = added
        self._is_known = True


def _readable_fields(block: bytes) -> tuple[list[Field], bytes]:
    """What comes before the first field that cannot be read whole, and the block from there on."""
    found: list[Field] = []
    at = 0
    try:
        while at < len(block):
            field, at = _field(block, at)
            if field is not None:
                found.append(field)
    except HPACKError:
        return found, block[at:]
    return found, b""


def _field(block: bytes, at: int) -> tuple[Field | None, int]:
    """The field at `at`, and where the next begins; None for a new size of the table."""
    first = block[at]
    if first & 0xE0 == 0x20:  # entries that fall out of a smaller table are not named again
        return None, at + decode_integer(block[at : at + _INTEGER_NBYTES], 5)[1]
    prefix = 7 if first & 0x80 else 6 if first & 0x40 else 4
    entry, used = decode_integer(block[at : at + _INTEGER_NBYTES], prefix)
    if entry > _MOST_ENTRIES or (prefix == 7 and entry == 0):
        raise HPACKError(f"the header tables have no entry {entry}")
    at += used
    name = value = None
    if 0 < entry <= len(_STATIC):
        name, value = _STATIC[entry - 1]
    if prefix != 7:
        if entry == 0:
            name, at = _string(block, at)
        value, at = _string(block, at)
    return Field(entry, name, value, is_added=prefix == 6), at


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    nbytes, used = decode_integer(block[at : at + _INTEGER_NBYTES], 7)
    start, end = at + used, at + used + nbytes
    if end > len(block):
        raise HPACKError("the block ends in the middle of a string")
    return (decode_huffman(block[start:end]) if block[at] & 0x80 else block[start:end]), end


def _is_authority(cut: bytes) -> bool:
    """Whether a block was cut off in a field that adds the authority to the table, by what is left of it."""
    return cut[:1] == _AUTHORITY_BY_ENTRY or (len(cut) > 3 and _AUTHORITY_BY_NAME.startswith(cut[:12]))
