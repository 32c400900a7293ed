"""A BPF object in the kernel: load it, write its maps, pin its program.  libbpf through ctypes.

One call of a C function per map update costs a few microseconds; a process per rule costs
milliseconds, and a fabric has ten thousand rules.
"""

import ctypes
import mmap
import os
from ctypes import CFUNCTYPE, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Self

_Print = CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)
_LOG_LINE_NBYTES = 4096
_PRINT_WARN = 0  # LIBBPF_WARN


class BpfError(OSError):
    """The kernel or libbpf refused; the text is one line with libbpf's own reason."""


class _Libbpf:
    """libbpf.so.1 with the signatures of what is used here, and what it last complained about."""

    def __init__(self) -> None:
        try:
            self.lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
        except OSError as error:
            raise BpfError(f"libbpf.so.1 is missing: apt-get install libbpf1 ({error})") from error
        self._libc = ctypes.CDLL(None)
        self.complaints: list[str] = []
        for name, result, arguments in (
            ("bpf_object__open_file", c_void_p, [c_char_p, c_void_p]),
            ("bpf_object__load", c_int, [c_void_p]),
            ("bpf_object__close", None, [c_void_p]),
            ("bpf_object__find_program_by_name", c_void_p, [c_void_p, c_char_p]),
            ("bpf_object__find_map_fd_by_name", c_int, [c_void_p, c_char_p]),
            ("bpf_program__fd", c_int, [c_void_p]),
            ("bpf_program__pin", c_int, [c_void_p, c_char_p]),
            ("bpf_map_update_elem", c_int, [c_int, c_char_p, c_char_p, c_uint64]),
            ("bpf_map_delete_elem", c_int, [c_int, c_char_p]),
            ("libbpf_set_print", c_void_p, [_Print]),
        ):
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
        self._print = _Print(self._keep)  # must live as long as libbpf may call it
        self.lib.libbpf_set_print(self._print)

    def _keep(self, level: int, form: bytes, arguments: int) -> int:
        if level == _PRINT_WARN:
            line = ctypes.create_string_buffer(_LOG_LINE_NBYTES)
            self._libc.vsnprintf(line, c_size_t(_LOG_LINE_NBYTES), form, c_void_p(arguments))
            self.complaints.append(line.value.decode(errors="replace"))
        return 0

    def error(self, what: str) -> BpfError:
        number = ctypes.get_errno()
        said = " / ".join(" ".join(text.split()) for text in self.complaints)
        self.complaints.clear()
        return BpfError(f"{what}: {os.strerror(number)}" + (f": {said}" if said else ""))


class Map:
    """One map of a loaded object; keys and values are the bytes that the C structs have."""

    def __init__(self, libbpf: _Libbpf, name: str, fd: int) -> None:
        self._libbpf, self._name, self.fd = libbpf, name, fd

    def __setitem__(self, key: bytes, value: bytes) -> None:
        if self._libbpf.lib.bpf_map_update_elem(self.fd, key, value, 0):
            raise self._libbpf.error(f"map {self._name}: update refused")

    def __delitem__(self, key: bytes) -> None:
        if self._libbpf.lib.bpf_map_delete_elem(self.fd, key):
            raise self._libbpf.error(f"map {self._name}: delete refused")

    def memory(self, nbytes: int) -> mmap.mmap:
        """The values of an array map made with BPF_F_MMAPABLE, shared with the kernel."""
        pages = -(-nbytes // mmap.PAGESIZE)
        return mmap.mmap(self.fd, pages * mmap.PAGESIZE)


class BpfObject:
    """A compiled object, loaded and verified by the kernel; a context manager, closes its handles."""

    def __init__(self, path: Path) -> None:
        """Raise BpfError if there is no such object or the kernel refuses it."""
        self._libbpf = _Libbpf()
        lib = self._libbpf.lib
        self._object = lib.bpf_object__open_file(os.fsencode(path), None)
        if not self._object:
            raise self._libbpf.error(f"{path}: cannot be opened as a BPF object")
        if lib.bpf_object__load(self._object):
            error = self._libbpf.error(f"{path}: the kernel does not load it")
            lib.bpf_object__close(self._object)
            raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._libbpf.lib.bpf_object__close(self._object)

    def map(self, name: str) -> Map:
        fd = self._libbpf.lib.bpf_object__find_map_fd_by_name(self._object, name.encode())
        if fd < 0:
            raise self._libbpf.error(f"the object has no map {name}")
        return Map(self._libbpf, name, fd)

    def program_fd(self, name: str) -> int:
        return int(self._libbpf.lib.bpf_program__fd(self._program(name)))

    def pin_program(self, name: str, path: Path) -> None:
        """Give the program a path in a bpffs, where `tc` finds it; it stays until it is unlinked."""
        if self._libbpf.lib.bpf_program__pin(self._program(name), os.fsencode(path)):
            raise self._libbpf.error(f"{path}: cannot pin the program; is a bpffs mounted there?")

    def _program(self, name: str) -> int:
        program: int | None = self._libbpf.lib.bpf_object__find_program_by_name(self._object, name.encode())
        if not program:
            raise self._libbpf.error(f"the object has no program {name}")
        return program
