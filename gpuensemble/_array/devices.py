"""This file finds the library of the arrays at hand, chooses a device and moves data: it alone names both libraries."""

import contextlib
import functools
import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy

from gpuensemble._array.messages import shown

Array = Any  # numpy.ndarray or cupy.ndarray
Method = TypeVar("Method", bound=Callable)
# where a container's limit is written, in the second and the first version of control groups
MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

DLPACK_CUDA = (2, 13)  # device memory, and memory that host and device share


def namespace(*arrays: Array) -> Any:
    """Return CuPy if any of the arrays is CuPy's, else NumPy."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and any(isinstance(array, cupy.ndarray) for array in arrays):
        return cupy
    return numpy


def device_of(array: Array) -> str:
    """Say where an array lives: "cpu" or "cuda:0", "cuda:1", ..."""
    return "cpu" if namespace(array) is numpy else f"cuda:{array.device.id}"


ALL = "cuda:all"  # every CUDA device of this process


def choose_devices(device: str, *inputs: Array) -> list[str]:
    """Return the devices that blocks of rows go to: all for "cuda:all", else the one of `choose_device`."""
    if not isinstance(device, str) or device != ALL:
        return [choose_device(device, *inputs)]
    count = cuda_count()
    if not count:
        raise ValueError(f"`device` must be one that is there, got {shown(device)}: {why_no_cuda()}.")
    return [f"cuda:{index}" for index in range(count)]


def choose_device(device: str, *inputs: Array) -> str:
    """Return the device that is asked for; "auto" is where the inputs are, else CUDA if there is one, else the CPU."""
    if not isinstance(device, str):  # an array cannot be compared with one
        raise ValueError(f'`device` must be "auto", "cpu", "cuda" or "cuda:N", got {shown(device)}.')
    if device == ALL:
        rule = '`device` must be "auto", "cpu", "cuda" or "cuda:N" where rows do not come in blocks'
        raise ValueError(f"{rule}, got {shown(device)}.")
    if device == "auto":
        home = next((device_of(x) for x in inputs if namespace(x) is not numpy), None)
        return home or _automatic()
    if device == "cpu":
        return "cpu"
    match = re.fullmatch(r"cuda(?::(\d+))?", device)
    if match is None:
        raise ValueError(f'`device` must be "auto", "cpu", "cuda" or "cuda:N", got {shown(device)}.')
    count = cuda_count()
    if not count:
        raise ValueError(f"`device` must be one that is there, got {shown(device)}: {why_no_cuda()}.")
    index = int(match[1] or 0)
    if index >= count:
        raise ValueError(
            f"`device` must name one of the {count} CUDA devices (cuda:0 to cuda:{count - 1}), got {shown(device)}."
        )
    return f"cuda:{index}"


def _automatic() -> str:
    """Return "cuda:0" if a CUDA device can be used, else "cpu"; if one is there all the same, say once why not."""
    if cuda_count():
        return "cuda:0"
    cupy = sys.modules.get("cupy")
    if cupy is not None and _devices_there(cupy):
        _warn_once(f"A CUDA device is there, but the CPU is used: {why_no_cuda()}.")
    return "cpu"


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=2)


def cuda_count() -> int:
    """Count the CUDA devices that can be used; there are 0 without CuPy, or without a library that it needs."""
    try:
        import cupy
    except ImportError:
        return 0
    count = _devices_there(cupy)
    return 0 if count and _fault(cupy) else count


def _devices_there(cupy: Any) -> int:
    return cupy.cuda.runtime.getDeviceCount() if cupy.cuda.is_available() else 0


def why_no_cuda() -> str:
    """Say why no CUDA device can be used, as the end of a sentence."""
    try:
        import cupy
    except ImportError as error:
        return f"CuPy cannot be imported ({error}); `pip install gpuensemble[cuda13]` or `[cuda12]` brings it"
    return _fault(cupy) if _devices_there(cupy) else "CuPy finds no CUDA device"


LIBRARIES = {"cuBLAS": "cublas", "cuSOLVER": "cusolver", "cuFFT": "cufft"}  # and their modules of cupy.cuda


@functools.cache
def _fault(cupy: Any) -> str:
    """Say which parts of CUDA do not work, as the end of a sentence; nothing if all do.

    CuPy looks for a library when its module is asked for, and for the rest when it compiles its first kernel.
    """
    trials: dict[str, Callable] = {"NVRTC or the CUDA headers": lambda: cupy.zeros(1) + 1}
    trials |= {library: functools.partial(getattr, cupy.cuda, module) for library, module in LIBRARIES.items()}
    found = {}
    for part, trial in trials.items():
        try:
            trial()
        except (ImportError, MemoryError, OSError, RuntimeError, *compile_errors()) as error:
            found[part] = str(error).strip().partition("\n")[0].rstrip(".:") or type(error).__name__
    if not found:
        return ""
    brings = "`pip install gpuensemble[cuda13]` or `[cuda12]` brings what is missing"
    return f"CuPy cannot use {', '.join(found)} ({next(iter(found.values()))}); {brings}"


def compile_errors() -> tuple:
    """Return what CuPy raises where a kernel does not compile; it is known once CuPy has been imported."""
    compiler = sys.modules.get("cupy.cuda.compiler")
    return () if compiler is None else (compiler.CompileException,)


def memory(device: str) -> int | None:
    """Return how many bytes are free on a CUDA device, or the host has within its container's limit; None if unknown.

    What CuPy's pool holds and does not use counts as free.
    """
    if device != "cpu":
        import cupy

        with on(device):
            return cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes()
    sizes = []
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not POSIX
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for file in MEMORY_LIMITS:
        with contextlib.suppress(ValueError, OSError):  # no such file, or "max"
            sizes.append(int(Path(file).read_text()))
    return min(sizes, default=None)


def to_device(array: Array, device: str) -> Array:
    """Return the array on a device: itself if it is there already, else a copy."""
    if device_of(array) == device:
        return array
    if device == "cpu":
        return array.get()
    import cupy

    with on(device):
        return cupy.asarray(array)


def is_on_cuda(value: Any) -> bool:
    """Tell whether an array of another library is on a CUDA device, by the protocol that it speaks."""
    if hasattr(value, "__cuda_array_interface__"):
        return True
    return hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) in DLPACK_CUDA


def from_cuda(value: Any) -> Array:
    """Return an array of another library on a CUDA device as one of CuPy, without a copy."""
    try:
        import cupy
    except ImportError:
        raise ImportError(f"An array on a CUDA device, {type(value).__name__}, needs CuPy: {why_no_cuda()}.") from None
    return cupy.asarray(value) if hasattr(value, "__cuda_array_interface__") else cupy.from_dlpack(value)


def to_host(array: Array) -> numpy.ndarray:
    """Return the array as a NumPy array."""
    return to_device(array, "cpu")


def on(device: str) -> contextlib.AbstractContextManager:
    """Return a context in which new CuPy arrays are made, and kernels launched, on that device."""
    if device == "cpu":
        return contextlib.nullcontext()
    import cupy

    return cupy.cuda.Device(int(device.removeprefix("cuda:")))


def on_own_device(method: Method) -> Method:
    """Run a method with the device of its object as CuPy's current device."""

    @functools.wraps(method)
    def wrapped(self, *args, **kwargs):
        with on(self.device):
            return method(self, *args, **kwargs)

    return cast(Method, wrapped)
