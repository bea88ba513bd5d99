"""CuPy compiles the kernels of the files of kernels/ at their first launch.

Arrays must be on CuPy's current device; kernels go to its current stream.
"""

import functools
import re
from pathlib import Path

MAX_BLOCKS = 1 << 14  # of a grid; the kernels stride over the rest
TYPE = {"float32": "float", "float64": "double", "int64": "long long"}  # of C


def function(expression: str, file: str):
    """Return one instantiation of a kernel of that file; CuPy compiles it once for each kind of device.

    From 14.2 on CuPy keeps it on disk; earlier versions compile templates anew in every process.
    """
    import cupy

    return _compiled(cupy, expression, file)


@functools.cache
def _compiled(cupy, expression, file):
    # --fmad=false: a product and a sum are rounded one after the other, as on the CPU.
    module = cupy.RawModule(code=source(file), options=("-std=c++17", "--fmad=false"), name_expressions=(expression,))
    return module.get_function(expression)


def source(file: str) -> str:
    """Read a file of kernels/; the text of a file that it includes takes the place of the line that does.

    The folder is inside the package once installed, and beside it in a checkout.
    """
    package = Path(__file__).parents[2]
    folder = next(path for path in (package / "kernels", package.parent / "kernels") if path.is_dir())
    text = (folder / file).read_text()
    return re.sub(r'^#include "(.+)"\n', lambda match: source(match[1]), text, flags=re.MULTILINE)


def grid(n_blocks: int) -> int:
    """Return so many blocks, or as many as a grid may have."""
    return min(n_blocks, MAX_BLOCKS)
