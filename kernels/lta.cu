// The iterations of LTA on CUDA: two n x n matrices at a time, stacked.
//
// gpuensemble/_cuda.py compiles this file with NVRTC and launches it; gpuensemble/_cpu_lta.py has the same functions on
// the CPU, with the same bits: every operation is rounded once (--fmad=false), in the same order.
// Every loop is a grid-stride loop: any grid gives the same result.

typedef long long int64;

constexpr int SIDE = 32;  // of a tile, and the lanes of a warp
constexpr int LINES = 8;  // rows of a tile that the threads of a block work on at a time

template <typename T>
__device__ T larger(T x, T y) {
    return x > y ? x : y;
}

template <typename T>
__device__ T size_of(T x) {
    return x < 0 ? -x : x;
}

// The factors of an iteration with penalty mu, and those of the T of the next one; refine.Step.
template <typename T>
struct Step {
    T mu, inverse, next_inverse, share, back, next_back;
};

template <typename T>
struct Arrays {
    T *p1, *p2;
    const T* a;
    T *e, *l1, *l3;
    int64 n;
};

template <typename T>
struct Tile {
    T first[SIDE][SIDE + 1], third[SIDE][SIDE + 1];  // + 1: no two rows of a column in one bank

    // P + L / mu of the tile that begins at (i, j).
    __device__ void load(const Arrays<T>& x, T inverse, int64 i, int64 j) {
        const int column = threadIdx.x % SIDE;
        for (int line = threadIdx.x / SIDE; line < SIDE; line += LINES) {
            if (i + line >= x.n || j + column >= x.n) continue;
            const int64 at = (i + line) * x.n + j + column;
            first[line][column] = x.p1[at] + x.l1[at] * inverse;
            third[line][column] = x.p2[at] + x.l3[at] * inverse;
        }
    }
};

// The symmetric part, clipped to [0, 1].
template <typename T>
__device__ T middle(T own, T mirror) {
    const T value = (own + mirror) * T(0.5);
    return larger(T(0), value > T(1) ? T(1) : value);
}

// The tile that begins at (i, j): Eq. 13 to 22. Returns the largest residual of this thread's entries.
template <typename T>
__device__ T update_tile(const Arrays<T>& x, const Step<T>& step, int64 i, int64 j, const Tile<T>& own,
                         const Tile<T>& mirror, T worst) {
    const int column = threadIdx.x % SIDE;
    for (int line = threadIdx.x / SIDE; line < SIDE; line += LINES) {
        if (i + line >= x.n || j + column >= x.n) continue;
        const int64 at = (i + line) * x.n + j + column;
        const T a = x.a[at], p1 = x.p1[at], p2 = x.p2[at];
        const T b = a == T(1) ? T(1) : middle(own.first[line][column], mirror.first[column][line]);
        const T c = middle(own.third[line][column], mirror.third[column][line]);
        const T e = (a - p2 + step.back * x.e[at]) * step.share;
        const T l1 = x.l1[at] + step.mu * (p1 - b);
        const T l3 = x.l3[at] + step.mu * (p2 - c);
        x.e[at] = e;
        x.l1[at] = l1;
        x.l3[at] = l3;
        x.p1[at] = b - l1 * step.next_inverse;
        x.p2[at] = (a - e + step.next_back * e + c - l3 * step.next_inverse) * T(0.5);
        worst = larger(worst, size_of(p1 - b));
        worst = larger(worst, larger(size_of(p2 - c), size_of(p2 + e - a)));
    }
    return worst;
}

// What an iteration does after P: E, B, C and the multipliers L1 and L3, and the next T in the place of P. `tensor` are
// P1 and P2. B and C are not stored; L2 is -2 lambda E. largest[w]: the largest residual that warp w of the grid met.
//
// A block of 32 x 8 threads works on a tile of 32 x 32 entries and on its mirror image, since B and C are symmetric
// parts. Bytes per entry in double: 48 read (P1, P2, L1, L3, E, A) and 40 written, all of them coalesced; P and L are
// read twice, the second time from the L1 cache. Memory bandwidth limits it. The plain expressions read and write
// about 30 arrays, two of them against the grain.
template <typename T>
__global__ void lta_update(T* tensor, const T* __restrict__ a, T* e, T* l1, T* l3, int64 n, T mu, T inverse,
                           T next_inverse, T share, T back, T next_back, T* __restrict__ largest) {
    __shared__ Tile<T> upper, lower;
    const Arrays<T> x = {tensor, tensor + n * n, a, e, l1, l3, n};
    const Step<T> step = {mu, inverse, next_inverse, share, back, next_back};
    const int64 across = (n + SIDE - 1) / SIDE;
    T worst = 0;
    for (int64 tile = blockIdx.x; tile < across * across; tile += gridDim.x) {
        const int64 i = tile / across * SIDE, j = tile % across * SIDE;
        if (j < i) continue;  // done with its mirror image
        upper.load(x, inverse, i, j);
        if (i != j) lower.load(x, inverse, j, i);
        __syncthreads();
        worst = update_tile(x, step, i, j, upper, i == j ? upper : lower, worst);
        if (i != j) worst = update_tile(x, step, j, i, lower, upper, worst);
        __syncthreads();  // before the next tiles overwrite these
    }
    for (int lanes = SIDE / 2; lanes > 0; lanes /= 2) worst = larger(worst, __shfl_xor_sync(0xffffffffu, worst, lanes));
    if (threadIdx.x % SIDE == 0) largest[blockIdx.x * LINES + threadIdx.x / SIDE] = worst;
}

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
