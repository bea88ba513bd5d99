// Two stacked matrices whose Fourier slices are n x 2, on CUDA: Gram matrices of the slices, and products with factors.
//
// gpuensemble/_kernels/cuda/slices.py compiles this file with NVRTC and launches it; gpuensemble/_kernels/cpu/slices/pairs.py has
// the same functions on the CPU, with the same bits: every operation is rounded once (--fmad=false), in the same order.
// Every loop is a grid-stride loop: any grid gives the same result.

typedef long long int64;

// sums[k, :, f]: over the rows q of block k, |y1|^2, |y2|^2 and both parts of y1' y2, with [y1 y2] the numbers of row q
// and frequency f in the basis with the columns (alpha, -beta') and (beta, alpha'). `spectrum` is 2 x n x F complex,
// `basis` 2 x F.
//
// A thread owns a block of rows and a frequency, so no two of them meet; neighbours read neighbours.
// Bytes per entry of the spectrum (two complex numbers, 32 in double): read once; 4 * 8 / rows_per_block written, and
// the basis from the L2 cache. Memory bandwidth limits it. The plain expressions would write and read y1 and y2 and
// three products.
template <typename T>
__global__ void pair_gram(const T* __restrict__ spectrum, const double* __restrict__ basis, int64 n, int64 n_columns,
                          int rows_per_block, double* __restrict__ sums) {
    const int64 n_blocks = (n + rows_per_block - 1) / rows_per_block;
    const int64 stride = static_cast<int64>(gridDim.x) * blockDim.x;
    int64 task = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; task < n_blocks * n_columns; task += stride) {
        const int64 f = task % n_columns, block = task / n_columns;
        const double a = basis[2 * f], ai = basis[2 * f + 1];
        const double b = basis[2 * (n_columns + f)], bi = basis[2 * (n_columns + f) + 1];
        double one = 0, two = 0, re = 0, im = 0;
        const int64 last = n - block * rows_per_block < rows_per_block ? n : (block + 1) * rows_per_block;
        for (int64 row = block * rows_per_block; row < last; ++row) {
            const T* z1 = spectrum + 2 * (row * n_columns + f);
            const T* z2 = z1 + 2 * n * n_columns;
            const double u = z1[0], ui = z1[1], v = z2[0], vi = z2[1];
            const double p = (u * a - ui * ai) - (v * b + vi * bi), pi = (u * ai + ui * a) - (vi * b - v * bi);
            const double q = (u * b - ui * bi) + (v * a + vi * ai), qi = (u * bi + ui * b) + (vi * a - v * ai);
            one += p * p + pi * pi;
            two += q * q + qi * qi;
            re += p * q + pi * qi;
            im += p * qi - pi * q;
        }
        double* out = sums + 4 * block * n_columns + f;
        out[0] = one;
        out[n_columns] = two;
        out[2 * n_columns] = re;
        out[3 * n_columns] = im;
    }
}

// [z1 z2] times the Hermitian factor (w11, w22, re w12, im w12) of its frequency, in place. `spectrum` is 2 x n x F
// complex, `factor` 4 x F.
//
// Bytes per entry (two complex numbers, 32 in double): read and written once, the factor from the L2 cache. Memory
// bandwidth limits it. The plain expressions would write and read four products.
template <typename T>
__global__ void pair_multiply(T* spectrum, const T* __restrict__ factor, int64 n, int64 n_columns) {
    const int64 stride = static_cast<int64>(gridDim.x) * blockDim.x;
    int64 at = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; at < n * n_columns; at += stride) {
        const int64 f = at % n_columns;
        const T a = factor[f], b = factor[n_columns + f], c = factor[2 * n_columns + f], d = factor[3 * n_columns + f];
        T* z1 = spectrum + 2 * at;
        T* z2 = z1 + 2 * n * n_columns;
        const T u = z1[0], ui = z1[1], v = z2[0], vi = z2[1];
        z1[0] = u * a + (v * c + vi * d);
        z1[1] = ui * a + (vi * c - v * d);
        z2[0] = v * b + (u * c - ui * d);
        z2[1] = vi * b + (ui * c + u * d);
    }
}
