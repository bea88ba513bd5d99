// The iterations of LTA on CUDA: two n x n matrices at a time, stacked.
//
// gpuensemble/_kernels/cuda compiles this file with NVRTC and launches it; gpuensemble/_kernels/cpu/lta.py has the same functions on
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

// The factors of an iteration with penalty mu, and those of the T of the next one; Step of estimators/lta/solver.py.
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
