// The rotations R_i of PCE's base partitions on CUDA: the sums that they depend on, and all of them one after another.
//
// gpuensemble/_kernels/cuda/pce/rotations.py compiles this file with NVRTC and launches it; cpu/pce/rotations.py has the
// same functions on the CPU: `count_pairs` with the same integers, the others but for rounding.
//
// offsets, r + 1: partition i owns the rows offsets[i] .. offsets[i + 1] - 1 of a C x K table, K_i of them.

#include "rows.cu"

constexpr unsigned WARP = 0xffffffffu;
constexpr double EPSILON = 2.220446049250313e-16;
constexpr int SWEEPS = 40;  // of Jacobi's method at most

// out[c - offsets[first], d] += weight of the rows in column c, of a partition from `first` to before `last`, and in
// column d of any partition: those rows of H.T @ diag(weight) @ H, in integers. `weight` may be null: all 1.
//
// A block serves one partition i and a group of others (bounds[g] .. bounds[g + 1] - 1, at most blockDim.x of them)
// over its share of the rows. If the cells fit into `capacity` counters of shared memory they are counted there and
// added to `out` once per block, else they are counted in `out`.
//
// Bytes per row, for each i: its code, the codes of all partitions and 8 of the weight, from the L2 cache but for the
// first time. Atomics in shared memory limit it, r^2 a row. One launch of `count` for each i would read the codes as
// often, and wait for a launch r times.
template <typename Code>
__global__ void count_pairs(const Code* __restrict__ codes, const int* __restrict__ offsets, int64 n, int r, int first,
                            int last, const int* __restrict__ bounds, int n_groups, const int64* __restrict__ weight,
                            int capacity, uint64* out) {
    DYNAMIC_SHARED(uint64, cells);
    for (int task = blockIdx.y; task < (last - first) * n_groups; task += gridDim.y) {
        const int i = first + task / n_groups, g = task % n_groups;
        const int lowest = bounds[g], width = bounds[g + 1] - lowest;
        const int across = offsets[lowest + width] - offsets[lowest];
        const int64 n_cells = static_cast<int64>(offsets[i + 1] - offsets[i]) * across;
        uint64* target = out + static_cast<int64>(offsets[i] - offsets[first]) * offsets[r] + offsets[lowest];
        const bool fits = n_cells <= capacity;
        if (fits) {
            for (int cell = threadIdx.x; cell < n_cells; cell += blockDim.x) cells[cell] = 0;
            __syncthreads();
        }
        const int rows = blockDim.x / width;
        const int j = lowest + threadIdx.x % width;
        const int shift = offsets[j] - offsets[lowest];
        int64 x = static_cast<int64>(blockIdx.x) * rows + threadIdx.x / width;
        if (threadIdx.x >= rows * width) x = n;
        for (; x < n; x += static_cast<int64>(gridDim.x) * rows) {
            const Code own = codes[x * r + i], other = codes[x * r + j];
            if (is_hole(own) || is_hole(other)) continue;
            const uint64 amount = weight ? static_cast<uint64>(weight[x]) : 1;
            const int64 d = shift + static_cast<int>(other);
            if (fits)
                atomicAdd(cells + static_cast<int64>(own) * across + d, amount);
            else
                atomicAdd(target + static_cast<int64>(own) * offsets[r] + d, amount);
        }
        if (fits) {
            __syncthreads();
            for (int cell = threadIdx.x; cell < n_cells; cell += blockDim.x)
                if (cells[cell])
                    atomicAdd(target + static_cast<int64>(cell / across) * offsets[r] + cell % across, cells[cell]);
            // No barrier: for the next task each thread clears the cells that it has just read.
        }
    }
}

__device__ inline double warp_sum(double value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(WARP, value, step);
    return value;
}

// out[i - first, j] = unit * sum over c of i and d of j of counts[c, d] (R_c . R_d), and out[i - first, r] = sum over c
// of i of rows[c] . R_c: G and f of the programme for the weights, for the partitions from `first` to before `last`.
// `counts` has the rows of these partitions alone.
//
// A template of the only type that it has, so that asking for another kernel of this file does not compile it.
// A warp serves a pair (i, j). Bytes: the counts once, C^2 * 8, which limits it; the tables from the L2 cache.
// The plain expression (products of tables, times counts, times one-hot matrices) makes two more C x C arrays.
template <typename T>
__global__ void programme(const int* __restrict__ offsets, int r, int first, int last, int K,
                          const T* __restrict__ tables, const T* __restrict__ rows,
                          const int64* __restrict__ counts, double unit, T* __restrict__ out) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const int64 n_tasks = static_cast<int64>(last - first) * (r + 1);
    int64 task = static_cast<int64>(blockIdx.x) * warps + threadIdx.x / 32;
    for (; task < n_tasks; task += static_cast<int64>(gridDim.x) * warps) {
        const int i = first + static_cast<int>(task / (r + 1)), j = static_cast<int>(task % (r + 1));
        const int begin = offsets[i], height = offsets[i + 1] - begin;
        double sum = 0;
        if (j == r) {
            for (int at = lane; at < height * K; at += 32) {
                const int64 place = static_cast<int64>(begin) * K + at;
                sum += rows[place] * tables[place];
            }
        } else {
            const int width = offsets[j + 1] - offsets[j];
            for (int64 cell = lane; cell < static_cast<int64>(height) * width; cell += 32) {
                const int64 c = begin + cell / width, d = offsets[j] + cell % width;
                double product = 0;
                for (int k = 0; k < K; ++k) product += tables[c * K + k] * tables[d * K + k];
                sum += unit * static_cast<double>(counts[(c - offsets[first]) * offsets[r] + d]) * product;
            }
        }
        sum = warp_sum(sum);
        if (lane == 0) out[task] = sum;
    }
}

// The sum over all threads of the block, in every thread, in a fixed order; `sums` has a place for each warp, and
// between two sums there must be a barrier.
__device__ inline double block_sum(double value, double* sums) {
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    double total = 0;
    for (int warp = 0; warp < blockDim.x / 32; ++warp) total += sums[warp];
    return total;
}

// Turns pairs of the p lines (of `pitch` numbers) until no two of them have an inner product over the first q numbers:
// Jacobi's method from one side. In each round every line is in one pair, and a warp turns a pair.
__device__ inline void orthogonalise(double* lines, int p, int q, int pitch, int* turned) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const int others = p - 1 + p % 2;  // of a line; with an odd number of lines one of them is none
    const double tolerance = EPSILON * q;
    for (int sweep = 0; sweep < SWEEPS; ++sweep) {
        int mine = 0;
        for (int round = 0; round < others; ++round) {
            for (int pair = warp; pair <= others / 2; pair += warps) {
                const int one = pair == 0 ? others : (round + pair) % others, two = (round - pair + others) % others;
                if (one >= p || two >= p) continue;
                double* a = lines + static_cast<int64>(one < two ? one : two) * pitch;
                double* b = lines + static_cast<int64>(one < two ? two : one) * pitch;
                double aa = 0, bb = 0, ab = 0;
                for (int l = lane; l < q; l += 32) {
                    aa += a[l] * a[l];
                    bb += b[l] * b[l];
                    ab += a[l] * b[l];
                }
                aa = warp_sum(aa);
                bb = warp_sum(bb);
                ab = warp_sum(ab);
                if (!(ab * ab > tolerance * tolerance * aa * bb)) continue;
                mine = 1;
                const double slope = (bb - aa) / (2 * ab);
                const double root = 1 / (fabs(slope) + sqrt(slope * slope + 1));
                const double tangent = slope < 0 ? -root : root;
                const double cosine = 1 / sqrt(tangent * tangent + 1), sine = tangent * cosine;
                for (int l = lane; l < pitch; l += 32) {
                    const double x = a[l], y = b[l];
                    a[l] = cosine * x - sine * y;
                    b[l] = sine * x + cosine * y;
                }
            }
            __syncthreads();
        }
        if (lane == 0) turned[warp] = mine;
        __syncthreads();
        bool any = false;
        for (int w = 0; w < warps; ++w) any |= turned[w] != 0;
        if (!any) break;
    }
}

// A partition and the lines of its matrix x, K_i x K: the rows of x or, where K_i > K, its columns, and beside them the
// identity.
struct Lines {
    int begin, width, K;  // where the partition begins in the tables, and K_i
    int p, q, pitch;      // p lines of q numbers, and of p more
    bool upright;         // K_i > K
    double* numbers;

    __device__ Lines(const int* offsets, int i, int n_columns, double* work) {
        begin = offsets[i];
        width = offsets[i + 1] - begin;
        K = n_columns;
        upright = width > K;
        p = upright ? K : width;
        q = upright ? width : K;
        pitch = p + q;
        numbers = work;
    }
    __device__ double& x(int c, int k) const {
        return numbers[upright ? static_cast<int64>(k) * pitch + c : static_cast<int64>(c) * pitch + k];
    }
    // Calls visit(c, k, place of this entry in a table), a thread for each entry of x.
    template <typename Visit>
    __device__ void for_each(Visit visit) const {
        for (int cell = threadIdx.x; cell < width * K; cell += blockDim.x)
            visit(cell / K, cell % K, static_cast<int64>(begin + cell / K) * K + cell % K);
    }
    __device__ void append_identity() const {
        for (int cell = threadIdx.x; cell < p * p; cell += blockDim.x)
            numbers[static_cast<int64>(cell / p) * pitch + q + cell % p] = cell / p == cell % p;
    }
    // Makes the lines as long as 1, a warp for each.
    __device__ void normalise() const {
        for (int m = threadIdx.x / 32; m < p; m += blockDim.x / 32) {
            double* line = numbers + static_cast<int64>(m) * pitch;
            double square = 0;
            for (int l = threadIdx.x % 32; l < q; l += 32) square += line[l] * line[l];
            const double length = sqrt(warp_sum(square));
            for (int l = threadIdx.x % 32; l < q; l += 32) line[l] = line[l] / length;
        }
    }
    // Entry (c, k) of U V', from lines that are V' and U'.
    __device__ double factor(int c, int k) const {
        const double* left = numbers + q + (upright ? k : c);
        const double* right = numbers + (upright ? c : k);
        double sum = 0;
        for (int m = 0; m < p; ++m) sum += left[static_cast<int64>(m) * pitch] * right[static_cast<int64>(m) * pitch];
        return sum;
    }
};

// R_i of each partition from `first` to before `last`, one after another, so that each sees the new ones: the polar
// factor U V' of x = U S V' = rows_i - unit (N_i a R - own a_i R_i), N_i the rows of `counts`, which has those of these
// partitions alone, own the diagonal of N_ii, or its largest entry where K_i > K. With `counts` null x is rows_i. Where
// x lacks the rank to decide, it is the factor nearest to R_i: x is drawn to it by `closeness` of its length.
//
// share, C: the weight a_i of each row. weighted, C x K, receives a R. work, p * (p + q) numbers for the largest of the
// partitions: turned until they are orthogonal, the lines are S V' and U'. Lines of any length become orthogonal to
// rounding, so that the factor is exact also where x is nearly singular.
//
// One block of at most 512 threads does it all, as each R_i waits for the one before it. Bytes: the counts once,
// C^2 * 8; tables and lines stay in L1. 6 sweeps or so of p - 1 rounds, of perhaps 600 cycles each, limit it: at K = 10
// about 25 microseconds a partition. The plain expression is for each partition a product, an SVD of several launches
// and, on the host, two transfers.
template <typename T>
__global__ void __launch_bounds__(512, 1) rotate(const int* __restrict__ offsets, int first, int last, int C, int K,
                       const T* __restrict__ rows, const int64* __restrict__ counts, double unit, double closeness,
                       const T* __restrict__ share, T* tables, T* weighted, T* work) {
    __shared__ double sums[32];
    __shared__ int turned[32];
    if (counts)
        for (int64 at = threadIdx.x; at < static_cast<int64>(C) * K; at += blockDim.x)
            weighted[at] = share[at / K] * tables[at];
    for (int i = first; i < last; ++i) {
        __syncthreads();  // all of the weighted tables are there
        const Lines lines(offsets, i, K, work);
        const int64* own_rows = counts + static_cast<int64>(lines.begin - offsets[first]) * C;
        double largest = 0;
        if (counts && lines.upright)
            for (int c = 0; c < lines.width; ++c) {
                const double own = static_cast<double>(own_rows[static_cast<int64>(c) * C + lines.begin + c]);
                if (own > largest) largest = own;
            }
        double square = 0;
        lines.for_each([&](int c, int k, int64 at) {
            double x = rows[at];
            if (counts) {
                const int64* row = own_rows + static_cast<int64>(c) * C;
                double sum = 0;
                for (int d = 0; d < C; ++d)
                    sum += static_cast<double>(row[d]) * weighted[static_cast<int64>(d) * K + k];
                const double own = lines.upright ? largest : static_cast<double>(row[lines.begin + c]);
                x -= unit * (sum - own * weighted[at]);
            }
            square += x * x;
            lines.x(c, k) = x;
        });
        const double length = sqrt(block_sum(square, sums));
        const double pull = closeness * (length > 0 ? length : 1);
        lines.for_each([&](int c, int k, int64 at) { lines.x(c, k) += pull * tables[at]; });
        lines.append_identity();
        __syncthreads();
        orthogonalise(work, lines.p, lines.q, lines.pitch, turned);
        lines.normalise();
        __syncthreads();
        lines.for_each([&](int c, int k, int64 at) {
            tables[at] = lines.factor(c, k);
            if (counts) weighted[at] = share[lines.begin + c] * tables[at];
        });
    }
}
