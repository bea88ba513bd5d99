"""What chooses the first centres of k-means has two bodies; this chooses between them."""

from typing import Any

from gpuensemble._array.devices import Array, device_of
from gpuensemble._kernels.cpu.features import seeding as cpu
from gpuensemble._kernels.cuda import seeding as cuda


def twin(array: Array) -> Any:
    """Return the kernels of the device that an array is on, which is CuPy's current one."""
    return cpu if device_of(array) == "cpu" else cuda
