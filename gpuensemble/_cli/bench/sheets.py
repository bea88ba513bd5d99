"""What public data sheets say of a few GPUs, for the model of `gpuensemble bench --model`.

Rates are the peaks that the makers state, without sparsity and without tensor cores, in bytes or operations a second.
Where no sheet has a figure, the note says what is taken instead.
"""

from typing import NamedTuple


class Sheet(NamedTuple):
    """A device, and where its figures are from."""

    name: str
    memory: float  # bytes a second
    cache: float  # bytes a second of the L2 cache
    cache_bytes: int
    bus: float  # bytes a second in one direction
    float64: float
    float32: float
    source: str


LAUNCH = 5e-6  # seconds that the host needs for a launch
READ = 15e-6  # seconds that the host waits for a number beside the work that it waits for
LATENCIES = (
    "A launch takes 5 us of the host: NVIDIA's developer blog (Getting Started with CUDA Graphs) has 3.8 us from one "
    "launch of a short kernel to the next, CuPy's own benchmarks had 11 us for an elementwise call in 2020 (cupy pull "
    "request 3298). A read by the host takes 15 us, a round figure for a copy of a few bytes and a queue that runs dry."
)
ADA = "no sheet has the L2 rate: taken as 5 TB/s for AD102 and in proportion to multiprocessors times clock for AD104"

SHEETS = {
    "A100": Sheet(
        *("A100 SXM 80 GB", 2.039e12, 5120 * 1.41e9, 40 << 20, 32e9, 9.7e12, 19.5e12),
        "NVIDIA A100 80GB data sheet (2039 GB/s, FP64 9.7, FP32 19.5 TFLOPS, PCIe 4.0 x16 64 GB/s in both directions); "
        "NVIDIA A100 architecture white paper (L2: 40 MB, read at 5120 bytes a clock; boost clock 1410 MHz)",
    ),
    "H100": Sheet(
        *("H100 SXM 80 GB", 3.35e12, 5120 * 1.755e9, 50 << 20, 64e9, 34e12, 67e12),
        "NVIDIA H100 data sheet (3.35 TB/s, FP64 34, FP32 67 TFLOPS, PCIe 5.0 x16 128 GB/s in both directions); H100 "
        "architecture white paper (L2: 50 MB); no sheet has the L2 rate: taken as A100's bytes a clock at 1755 MHz",
    ),
    "RTX4090": Sheet(
        *("GeForce RTX 4090", 1.008e12, 5.0e12, 72 << 20, 32e9, 82.6e12 / 64, 82.6e12),
        "NVIDIA Ada GPU architecture white paper (1008 GB/s, FP32 82.6 TFLOPS, FP64 a 64th of it, L2 72 MB, PCIe 4.0 "
        f"x16); {ADA}",
    ),
    "L4": Sheet(
        *("L4", 300e9, 5.0e12 * 58 * 2.04 / (128 * 2.52), 48 << 20, 32e9, 30.3e12 / 64, 30.3e12),
        "NVIDIA L4 data sheet (300 GB/s, FP32 30.3 TFLOPS, PCIe 4.0 x16 64 GB/s in both directions, 24 GB); Ada white "
        f"paper (FP64 a 64th of FP32, L2 48 MB); {ADA}",
    ),
}
