"""CUDA kernels on the CPU: `ShimModule` stands in for `cupy.RawModule`, NumPy arrays for device memory.

g++ compiles the CUDA source with shim.h in front of it; shim.cpp runs it, a fiber for each CUDA thread.
With `checked=True` every access to memory is checked as well: see shim.cpp for what it finds.
"""

import ctypes
import functools
import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from cudasim import store

HERE = Path(__file__).parent
HEADER = (HERE / "shim.h").read_text()
COMMON = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-U_FORTIFY_SOURCE", f"-I{HERE}")
KERNEL = ("-O1", "-fno-exceptions")
CHECKED = (
    "-fsanitize=thread,bounds,shift,signed-integer-overflow,integer-divide-by-zero",
    "-fno-sanitize-recover=all",
)
ALIGNMENT = 256  # of device memory
SHARED_BYTES = 48 << 10  # of a block, unless a kernel asks for more
RED_ZONE = 1 << 20  # between two arrays, so that an overrun of one does not end in another
GARBAGE = 0xA5
MAX_THREADS, STACK = 1024, 64 << 10  # of a block, and the bytes of each: as in shim.cpp


class ShimError(RuntimeError):
    """What a kernel did wrong; the message starts with the kind of error."""


class Uninitialised(np.ndarray):
    """An array that a checked kernel must write before it reads: what `empty` returns."""


def empty(shape, dtype):
    """An array full of garbage."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8).fill(GARBAGE)
    return array.view(Uninitialised)


def gxx():
    """The path of g++, or None where kernels cannot be compiled."""
    return shutil.which("g++") if sys.platform == "linux" else None


class ShimModule:
    """Stands in for `cupy.RawModule`. `order` is that of threads and blocks, forward or reverse."""

    def __init__(self, code, options=(), name_expressions=(), checked=False, order="forward"):
        if order not in ("forward", "reverse"):
            raise ValueError(f"`order` must be 'forward' or 'reverse', got {order!r}.")
        self.code = code
        self.flags = tuple(option for option in options if option.startswith(("-D", "-I")))  # the rest is NVRTC's
        self.name_expressions = tuple(name_expressions)
        self.checked = checked
        self.order = order

    def get_function(self, expression):
        """The kernel of that name. Each is compiled on its own, when first asked for."""
        if expression not in self.name_expressions:
            raise ValueError(f"`name_expressions` must contain {expression!r}.")
        return ShimKernel(_build(self.code, expression, self.flags, self.checked), self.checked, self.order)


class ShimKernel:
    """A compiled kernel, called as `cupy.RawKernel` is."""

    def __init__(self, path, checked, order):
        library = ctypes.PyDLL(str(path))  # keeps the interpreter's lock: the runtime's state is global
        self._launch = library.shim_launch
        self._launch.restype = ctypes.c_char_p
        self._kernel = _Kernel.in_dll(library, "shim_kernel")
        self.name = self._kernel.name.decode()
        self.parameters = self._kernel.parameters[: self._kernel.n_parameters]
        self.checked = checked
        self.order = order
        self.max_dynamic_shared_size_bytes = SHARED_BYTES

    def __call__(self, grid, block, args, *, shared_mem=0):
        """Run the kernel; a `ShimError` says what it did wrong, and leaves the arrays as they were."""
        self._check(args)
        if shared_mem > self.max_dynamic_shared_size_bytes:
            most = self.max_dynamic_shared_size_bytes
            raise ShimError(f"shared memory: {self.name}: {shared_mem} dynamic bytes, not 0 to {most}")
        arrays = {i: value for i, value in enumerate(args) if isinstance(value, np.ndarray)}
        written = {i for i in arrays if not self.parameters[i].is_const}
        arena = _arena(arrays)
        buffers = [
            _Buffer(copy.ctypes.data, copy.nbytes, i, i not in written, isinstance(arrays[i], Uninitialised))
            for i, copy in arena.items()
        ]
        values = [np.uintp(arena[i].ctypes.data) if i in arena else value for i, value in enumerate(args)]
        self._run(grid, block, shared_mem, values, buffers)
        for i in written:
            arrays[i][...] = arena[i]

    def _run(self, grid, block, shared_mem, values, buffers):
        cells = [np.array(value) for value in values]
        launch = _Launch(
            ctypes.pointer(self._kernel),
            _three(grid),
            _three(block),
            shared_mem,
            self.checked,
            self.order == "reverse",
            (ctypes.c_void_p * len(cells))(*[cell.ctypes.data for cell in cells]),
            (_Buffer * len(buffers))(*buffers),
            len(buffers),
            _stacks().ctypes.data,
        )
        error = self._launch(ctypes.byref(launch))
        if error:
            raise ShimError(error.decode())

    def _check(self, args):
        if len(args) != len(self.parameters):
            raise TypeError(f"{self.name}: {len(self.parameters)} arguments wanted, got {len(args)}.")
        for i, (parameter, value) in enumerate(zip(self.parameters, args, strict=True)):
            if not parameter.accepts(value):
                got = f"{type(value).__name__} of {getattr(value, 'dtype', 'no dtype')}"
                raise TypeError(f"{self.name}: argument {i} must be {parameter}, got {got}.")
        arrays = [i for i, value in enumerate(args) if isinstance(value, np.ndarray)]
        for i, j in itertools.combinations(arrays, 2):
            both_const = self.parameters[i].is_const and self.parameters[j].is_const
            if not both_const and np.may_share_memory(args[i], args[j]):
                raise TypeError(f"{self.name}: arguments {i} and {j} overlap, and one of them is written.")


class _Parameter(ctypes.Structure):
    """shim::Parameter"""

    _fields_ = [(name, ctypes.c_int) for name in ("is_pointer", "is_const", "bytes")] + [("kind", ctypes.c_char)]

    def accepts(self, value):
        """Whether a launch may pass `value` here: the size must be exact, CuPy would pass anything else as garbage."""
        if self.is_pointer and isinstance(value, np.integer):
            return value.itemsize == ctypes.sizeof(ctypes.c_void_p) and value == 0
        if not isinstance(value, np.ndarray if self.is_pointer else np.generic):
            return False
        if self.is_pointer and not (value.flags.c_contiguous and (self.is_const or value.flags.writeable)):
            return False
        kind = {"f": "f", "i": "i", "u": "i", "b": "i"}.get(value.dtype.kind, "x")
        return value.itemsize == self.bytes and kind == self.kind.decode()

    def __str__(self):
        kind = {"f": "floating", "i": "integer", "x": "structured"}[self.kind.decode()]
        what = f"{kind} of {self.bytes} bytes"
        array = "contiguous" if self.is_const else "contiguous, writeable"
        return f"a {array} array of {what}, or a null pointer" if self.is_pointer else f"a NumPy scalar, {what}"


class _Kernel(ctypes.Structure):
    """shim::Kernel"""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("parameters", ctypes.POINTER(_Parameter)),
        ("n_parameters", ctypes.c_int),
    ]


class _Buffer(ctypes.Structure):
    """Buffer of shim.cpp"""

    _fields_ = [
        ("begin", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("argument", ctypes.c_int),
        ("is_read_only", ctypes.c_int),
        ("is_uninitialised", ctypes.c_int),
    ]


class _Launch(ctypes.Structure):
    """Launch of shim.cpp"""

    _fields_ = [
        ("kernel", ctypes.POINTER(_Kernel)),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("dynamic_shared", ctypes.c_int64),
        ("is_checked", ctypes.c_int),
        ("is_reversed", ctypes.c_int),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("buffers", ctypes.POINTER(_Buffer)),
        ("n_buffers", ctypes.c_int),
        ("stacks", ctypes.c_void_p),
    ]


def _three(sizes):
    """A grid or block as three sizes."""
    return (ctypes.c_uint * 3)(*sizes, *[1] * (3 - len(sizes)))


@functools.cache
def _stacks():
    """Room for the stacks of all threads of a block: one launch runs at a time."""
    return np.empty(MAX_THREADS * STACK, np.uint8)


def _arena(arrays):
    """Copies of the arrays in one piece of memory, with red zones around each."""
    room = {i: array.nbytes + RED_ZONE + -array.nbytes % ALIGNMENT for i, array in arrays.items()}
    memory = np.empty(sum(room.values()) + RED_ZONE + ALIGNMENT, np.uint8)
    at = RED_ZONE + -memory.ctypes.data % ALIGNMENT
    copies = {}
    for i, array in arrays.items():
        copies[i] = memory[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
        copies[i][...] = array
        at += room[i]
    return copies


# ------------------------------------------------------------------------------------------------ compiling


def _build(code, expression, flags, checked):
    """The shared library with one kernel."""
    source = (
        f'#line 1 "kernel.cu"\n{code}\n'
        'extern "C" __attribute__((visibility("default"))) const shim::Kernel shim_kernel =\n'
        f'    shim::Entry<&{expression}>::kernel("{expression}");\n'
    )
    runtime = _object((HERE / "shim.cpp").read_text(), (*COMMON, "-O2"))
    flags = (*COMMON, *KERNEL, *flags, *(CHECKED if checked else ()))
    # The header is half of the work, so that it is compiled once. g++ finds it by its name without the last ending.
    header = _made((*flags, "-x", "c++-header", str(HERE / "shim.h")), "", ".h.gch")
    kernel = _object(source, (*flags, "-include", str(header.with_suffix(""))))
    # Without -fsanitize: the sanitizers' functions are the runtime's own.
    return _made((*_linker(), "-shared", str(kernel), str(runtime)), "", ".so")


def _object(source, flags):
    return _made((*flags, "-c", "-x", "c++", "-"), source, ".o")


def _made(arguments, source, suffix):
    """What g++ makes of the source, from the store if it was made before."""

    def compile(product):
        command = [gxx(), *arguments, "-o", str(product)]
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"g++ failed:\n{done.stderr}")

    return store.made((_version(), HEADER, source, *arguments), suffix, compile)


@functools.cache
def _linker():
    """Gold where it is installed: it needs half the time of the usual linker."""
    return ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()


@functools.cache
def _version():
    if gxx() is None:
        raise RuntimeError("Kernels run on the CPU only where g++ is found, on Linux.")
    return subprocess.run([gxx(), "--version"], capture_output=True, text=True, check=True).stdout
