"""Compiles CUDA C++ with NVRTC as CuPy does, which needs no GPU, and reads what ptxas says about the result."""

import functools
import json
import re
from importlib import metadata
from typing import NamedTuple

from cudasim import store

OPTIONS = ("-std=c++17", "--fmad=false")  # unless others are given: g++ fuses nothing either, so that bits can be equal
CUPY_OPTIONS = ("-ftz=true", "-default-device")  # what CuPy appends


class Compiled(NamedTuple):
    """PTX, the mangled name of each name expression, and the log of NVRTC and ptxas."""

    ptx: str
    lowered: dict
    log: str


class Usage(NamedTuple):
    """What ptxas says about one kernel."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


@functools.cache
def missing():
    """The reason why NVRTC cannot be used here, or an empty string."""
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()  # `import cupy` succeeds without the NVRTC library
    except (ImportError, OSError, RuntimeError) as error:
        return f"NVRTC through CuPy is not usable: {error}"
    return ""


@functools.cache
def compile(source, expressions, arch, options=OPTIONS):
    """Compiles for `arch`; sm_XX also runs ptxas, which writes to the log, and compute_XX stops at PTX."""
    flags = (*options, *CUPY_OPTIONS, f"-arch={arch}", "--ptxas-options=-v")
    inputs = (*_versions(), source, *expressions, *flags)
    path = store.made(inputs, ".json", lambda product: product.write_text(json.dumps(_run(source, expressions, flags))))
    return Compiled(*json.loads(path.read_text()))


def _run(source, expressions, flags):
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(source, "kernel.cu", [], [])
    try:
        for expression in expressions:
            nvrtc.addNameExpression(program, expression)
        try:
            nvrtc.compileProgram(program, list(flags))
        except nvrtc.NVRTCError as error:
            raise ValueError(f"NVRTC with {' '.join(flags)}: {_text(nvrtc.getProgramLog(program))}") from error
        lowered = {expression: _text(nvrtc.getLoweredName(program, expression)) for expression in expressions}
        return Compiled(_text(nvrtc.getPTX(program)), lowered, _text(nvrtc.getProgramLog(program)))
    finally:
        nvrtc.destroyProgram(program)


@functools.cache
def _versions():
    """What tells one NVRTC from another; the library itself leaves out the last part of its version."""
    from cupy.cuda import nvrtc

    wheels = [wheel for wheel in metadata.distributions() if wheel.name.startswith("nvidia-cuda-nvrtc")]
    return (str(nvrtc.getVersion()), *sorted(f"{wheel.name} {wheel.version}" for wheel in wheels))


def usage(log):
    """The Usage of each kernel in a log, by mangled name."""
    kernel = re.compile(
        r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
        r"(\d+) bytes spill loads.*?Used (\d+) registers",
        re.DOTALL,
    )
    return {
        name: Usage(int(registers), int(stack), int(stores), int(loads))
        for name, stack, stores, loads, registers in kernel.findall(log)
    }


def _text(value):
    """NVRTC gives bytes or str by version; PTX ends with a zero byte in some."""
    text = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
    return text.rstrip("\0")
