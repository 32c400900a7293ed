"""A BPF object in the kernel: load it, write its maps, pin its program.  libbpf through ctypes.

One call of a C function per map update costs a few microseconds; a process per rule costs
milliseconds, and a fabric has ten thousand rules.
"""

import ctypes
import errno
import mmap
import os
import struct
from collections.abc import Mapping
from ctypes import CFUNCTYPE, c_char_p, c_int, c_long, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from types import MappingProxyType
from typing import Self

_Print = CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)
_LOG_LINE_NBYTES = 4096
_PRINT_WARN = 0  # LIBBPF_WARN
_BPF_NOEXIST = 1
_SK_BUFF_NBYTES = 192  # struct __sk_buff
_CONTEXT = struct.Struct("=40xI4x5I")  # of it: ifindex, cb
_Sample = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)
_MEMBARRIER = {"x86_64": 324}.get(os.uname().machine, 283)  # membarrier(2), which has no function in libc
_MEMBARRIER_CMD_GLOBAL = 1


class ProgramRun(ctypes.Structure):
    """struct bpf_test_run_opts of libbpf: a program run on one packet, or many times on it."""

    _fields_ = (
        ("sz", c_size_t),
        ("data_in", c_char_p),
        ("data_out", c_void_p),
        ("data_size_in", c_uint32),
        ("data_size_out", c_uint32),
        ("ctx_in", c_char_p),
        ("ctx_out", c_void_p),
        ("ctx_size_in", c_uint32),
        ("ctx_size_out", c_uint32),
        ("retval", c_uint32),
        ("repeat", c_int),
        ("duration", c_uint32),
        ("flags", c_uint32),
        ("cpu", c_uint32),
        ("batch_size", c_uint32),
    )


class BpfError(OSError):
    """The kernel or libbpf refused; the text is one line with libbpf's own reason."""


class _Libbpf:
    """libbpf.so.1 with the signatures of what is used here, and what it last complained about."""

    def __init__(self) -> None:
        try:
            self.lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
        except OSError as error:
            raise BpfError(f"libbpf.so.1 does not load: run apt-get install libbpf1 ({error})") from error
        self._libc = ctypes.CDLL(None)
        self.complaints: list[str] = []
        for name, result, arguments in (
            ("bpf_object__open_file", c_void_p, [c_char_p, c_void_p]),
            ("bpf_object__load", c_int, [c_void_p]),
            ("bpf_object__close", None, [c_void_p]),
            ("bpf_object__find_map_by_name", c_void_p, [c_void_p, c_char_p]),
            ("bpf_map__set_initial_value", c_int, [c_void_p, c_char_p, c_size_t]),
            ("bpf_object__find_program_by_name", c_void_p, [c_void_p, c_char_p]),
            ("bpf_object__find_map_fd_by_name", c_int, [c_void_p, c_char_p]),
            ("bpf_program__fd", c_int, [c_void_p]),
            ("bpf_program__pin", c_int, [c_void_p, c_char_p]),
            ("bpf_map_update_elem", c_int, [c_int, c_char_p, c_char_p, c_uint64]),
            ("bpf_map_update_batch", c_int, [c_int, c_char_p, c_char_p, c_void_p, c_void_p]),
            ("bpf_map_delete_elem", c_int, [c_int, c_char_p]),
            ("bpf_prog_test_run_opts", c_int, [c_int, c_void_p]),
            ("ring_buffer__new", c_void_p, [c_int, _Sample, c_void_p, c_void_p]),
            ("ring_buffer__consume", c_int, [c_void_p]),
            ("ring_buffer__free", None, [c_void_p]),
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


def grace_period() -> None:
    """Wait until no program that runs now, on whatever processor, runs any longer (some milliseconds)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(c_long(_MEMBARRIER), c_int(_MEMBARRIER_CMD_GLOBAL), c_int(0), c_int(0)):
        raise BpfError(f"membarrier: {os.strerror(ctypes.get_errno())}")


class Map:
    """One map of a loaded object; keys and values are the bytes that the C structs have."""

    def __init__(self, libbpf: _Libbpf, name: str, fd: int) -> None:
        self._libbpf, self._name, self.fd = libbpf, name, fd

    def __setitem__(self, key: bytes, value: bytes) -> None:
        if self._libbpf.lib.bpf_map_update_elem(self.fd, key, value, 0):
            raise self._libbpf.error(f"the kernel refused to update map {self._name}")

    def insert(self, key: bytes, value: bytes) -> bool:
        """As `map[key] = value`; True if there was no such key before."""
        update = self._libbpf.lib.bpf_map_update_elem
        if update(self.fd, key, value, _BPF_NOEXIST):
            if ctypes.get_errno() != errno.EEXIST:
                raise self._libbpf.error(f"the kernel refused to update map {self._name}")
            self[key] = value
            return False
        return True

    def update(self, keys: bytes, values: bytes, n: int) -> None:
        """As `map[key] = value` for `n` keys and their values, one after the other in both."""
        count = c_uint32(n)
        if self._libbpf.lib.bpf_map_update_batch(self.fd, keys, values, ctypes.byref(count), None):
            raise self._libbpf.error(f"the kernel refused to update map {self._name}")

    def __delitem__(self, key: bytes) -> None:
        if self._libbpf.lib.bpf_map_delete_elem(self.fd, key):
            raise self._libbpf.error(f"the kernel refused to delete an entry of map {self._name}")

    def memory(self, nbytes: int) -> mmap.mmap:
        """The values of an array map made with BPF_F_MMAPABLE, shared with the kernel."""
        pages = -(-nbytes // mmap.PAGESIZE)
        return mmap.mmap(self.fd, pages * mmap.PAGESIZE)


class Ring:
    """The user's end of a ring buffer map; `fd` is readable while there are records."""

    def __init__(self, libbpf: _Libbpf, ring: Map) -> None:
        self.fd = ring.fd
        self._lib = libbpf.lib
        self._records: list[bytes] = []
        self._most = 0
        self._sample = _Sample(self._keep)  # must live as long as the ring
        self._ring = self._lib.ring_buffer__new(ring.fd, self._sample, None, None)
        if not self._ring:
            raise libbpf.error("cannot make a ring buffer")

    def records(self, most: int) -> list[bytes]:
        """What has come, `most` at a time."""
        self._records, self._most = [], most
        self._lib.ring_buffer__consume(self._ring)
        return self._records

    def close(self) -> None:
        self._lib.ring_buffer__free(self._ring)

    def _keep(self, _context: int, data: int, nbytes: int) -> int:
        self._records.append(ctypes.string_at(data, nbytes))
        return -1 if len(self._records) == self._most else 0


class BpfObject:
    """A compiled object, loaded and verified by the kernel; a context manager, closes its handles."""

    def __init__(self, path: Path, constants: Mapping[str, bytes] = MappingProxyType({})) -> None:
        """`constants` are the contents of read-only sections of the object, by their names.

        Raise BpfError if the object is missing or has no such section, or if the kernel refuses it.
        """
        self._libbpf = _Libbpf()
        lib = self._libbpf.lib
        self._object = lib.bpf_object__open_file(os.fsencode(path), None)
        if not self._object:
            raise self._libbpf.error(f"{path}: libbpf cannot open it as a BPF object")
        for name, value in constants.items():
            section = lib.bpf_object__find_map_by_name(self._object, name.encode())
            if not section or lib.bpf_map__set_initial_value(section, value, len(value)):
                error = self._libbpf.error(f"{path}: it has no section {name} of {len(value)} bytes")
                lib.bpf_object__close(self._object)
                raise error
        if lib.bpf_object__load(self._object):
            error = self._libbpf.error(f"{path}: the kernel refused to load it")
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

    def ring(self, name: str) -> Ring:
        return Ring(self._libbpf, self.map(name))

    def run_program(self, name: str, frame: bytes, ifindex: int, words: tuple[int, ...]) -> int:
        """What a tc program returns for a frame from an interface; `words` are in `__sk_buff.cb`.

        Packets that it sends are sent, but by `bpf_redirect` nothing is.  Raise BpfError for a frame
        that the kernel does not take (too short, too long).
        """
        context = _CONTEXT.pack(ifindex, *words).ljust(_SK_BUFF_NBYTES, b"\0")
        run = ProgramRun(
            sz=ctypes.sizeof(ProgramRun),
            data_in=frame,
            data_size_in=len(frame),
            ctx_in=context,
            ctx_size_in=len(context),
        )
        if self._libbpf.lib.bpf_prog_test_run_opts(self.program_fd(name), ctypes.byref(run)):
            raise self._libbpf.error(
                f"the kernel refused to run program {name} on a frame of {len(frame)} bytes"
            )
        return int(run.retval)

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
