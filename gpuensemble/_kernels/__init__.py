"""These are the hot loops: Numba in `cpu/`, CUDA C++ launched from `cuda/`.

A kernel of `cuda/` has a twin of its name and signature in `cpu/`; both give the same bits where the kernel promises
it. `features.steps` and `features.lloyd` are for the CPU only. This room may import `_array`. Arguments are not
checked here. Start with `products`, which chooses between the twins for the membership operator.
"""
