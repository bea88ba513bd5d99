"""The hot loops. Each has two bodies with one name and one signature: Numba in `cpu/`, CUDA C++ launched from `cuda/`.

May import `_array`. Arguments are not checked here. Both bodies give the same bits where the kernel promises it. Start
with `products`, which chooses between them for the membership operator.
"""
