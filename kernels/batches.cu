// Lloyd's step over features on CUDA, for several sets of centres side by side: B partitions of the same rows.
//
// gpuensemble/_kernels/cuda/batches.py compiles this file with NVRTC and launches it;
// gpuensemble/_kernels/cpu/features/batches.py has the same functions on the CPU, with the same bits: every operation is
// rounded once (--fmad=false), in the same order. Every loop is a grid-stride loop: any grid gives the same result, and so
// does any order of the threads, because what several of them add to is an integer.
//
// Arguments that several kernels have:
//   starts   B + 1: set b owns the centres starts[b] .. starts[b + 1] - 1, C in all
//   labels   B x n: the centre of row x in set b, counted from the first one of the set; -1 is none
//   before   B x n: what it was before the step
//   n, begin, n_rows   the rows of the whole; those begin .. begin + n_rows - 1 are worked on

#include "warps.cu"

// A double of less than 2^51 in size, rounded to a whole number, ties to even; but what is not 0 is at least 1 in size,
// so that the sum of a cluster never lacks an entry that one of its rows has ("kl").
__device__ int64 whole(double value) {
    const int64 found = __double_as_longlong(value + 6755399441055744.0) - 0x4338000000000000LL;
    return found != 0 || value == 0 ? found : value > 0 ? 1 : -1;
}

// out[x - begin, c] = row x of the CSR matrix . column c of the table (d x C), or += where `add` is not 0.
//
// A thread owns an entry of the result; neighbours read neighbours of the table's rows, and the same entry of the matrix.
// Bytes per row of m entries: 12 m (double) and 8 C written from and to device memory; 8 m C of the table, which the L2
// cache serves as long as the table fits there (d = 10,000 and C = 30 in double: 2.4 MB). The L2 bandwidth limits it.
// A block of dense rows would write and read 8 d per row (d = 10,000, m = 60: 160,000 bytes instead of 720), and
// multiply zeros. A library's sparse product has the same bytes to move; here the order of the additions is known.
template <typename T>
__global__ void csr_scores(const T* __restrict__ data, const int* __restrict__ indices,
                           const int64* __restrict__ indptr, int64 begin, int64 n_rows, const T* __restrict__ table,
                           int n_columns, int add, T* __restrict__ out) {
    const int64 stride = static_cast<int64>(gridDim.x) * blockDim.x;
    int64 at = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; at < n_rows * n_columns; at += stride) {
        const int64 row = begin + at / n_columns;
        const T* column = table + at % n_columns;
        T sum = 0;
        for (int64 i = indptr[row]; i < indptr[row + 1]; ++i)
            sum += data[i] * column[static_cast<int64>(indices[i]) * n_columns];
        out[at] = add ? out[at] + sum : sum;
    }
}

// out[y] = row rows[y] of the CSR matrix; `out` (n_rows x d) holds zeros before.
//
// A warp owns a row. Bytes of a row of m entries: 12 m read, 8 m written, to sectors of their own where columns lie apart.
// It is for the few rows that become centres. The host need not know how many entries they have.
template <typename T>
__global__ void csr_rows(const T* __restrict__ data, const int* __restrict__ indices, const int64* __restrict__ indptr,
                         const int64* __restrict__ rows, int64 n_rows, int d, T* out) {
    const Warps warps;
    for (int64 y = warps.first; y < n_rows; y += warps.stride)
        for (int64 i = indptr[rows[y]] + warps.lane; i < indptr[rows[y] + 1]; i += 32) out[y * d + indices[i]] = data[i];
}

// labels[b, x] = the cheapest centre of each set: least scores[x - begin, c] + offset[c], the first of equals; `before`
// takes what the label was, and moved[b] counts the rows whose label changes. A set with a status other than 0 keeps its
// labels.
//
// A warp owns a row and a set. Bytes per row: the scores once, 8 C in double, 8 B of labels read and written twice.
// Memory bandwidth limits it. The plain expressions write and read the scores once more for the offset, and need a
// launch for each set.
template <typename T>
__global__ void choose(const T* __restrict__ scores, const T* __restrict__ offset, const int* __restrict__ starts,
                       const int* __restrict__ status, int n_sets, int64 n, int64 begin, int64 n_rows, int* labels,
                       int* before, int* moved) {
    const Warps warps;
    const int64 n_centers = starts[n_sets];
    for (int64 task = warps.first; task < n_rows * n_sets; task += warps.stride) {
        const int b = static_cast<int>(task % n_sets);
        const int64 y = task / n_sets, at = b * n + begin + y;
        const int first = starts[b], size = starts[b + 1] - first;
        T least = infinity<T>();
        int best = 0;
        if (status[b] == 0) {
            for (int k = warps.lane; k < size; k += 32) {
                const T cost = scores[y * n_centers + first + k] + offset[first + k];
                if (cost < least) {
                    least = cost;
                    best = k;
                }
            }
        }
        for (int step = 16; step > 0; step /= 2) {
            const T other = __shfl_xor_sync(0xffffffffu, least, step);
            const int k = __shfl_xor_sync(0xffffffffu, best, step);
            if (other < least || (other == least && k < best)) {
                least = other;
                best = k;
            }
        }
        if (warps.lane == 0) {
            const int old = labels[at], now = status[b] == 0 ? best : old;
            before[at] = old;
            labels[at] = now;
            if (now != old) atomicAdd(moved + b, 1);
        }
    }
}

// What a row adds to, or takes from, the sums of a cluster.
struct Sums {
    const double* scale;  // of each column: its units of 1, a power of two
    uint64 *sums, *counts, *masses;
    int64 d;

    __device__ void add(int64 center, int64 column, double value, bool takes) const {
        const int64 units = whole(value * scale[column]);
        atomicAdd(sums + center * d + column, static_cast<uint64>(takes ? -units : units));
    }
    __device__ void count(int64 center, double weight, double mass_scale, bool takes) const {
        const int64 units = whole(weight * mass_scale);
        atomicAdd(counts + center, static_cast<uint64>(takes ? -1LL : 1LL));
        atomicAdd(masses + center, static_cast<uint64>(takes ? -units : units));
    }
};

// Calls visit(x, centre, takes) for every row that has changed its label: on all lanes of a warp, first for the centre
// that the row leaves, then for the one it comes to.
template <typename Visit>
__device__ void for_each_moved(const int* starts, const int* labels, const int* before, int n_sets, int64 n,
                               Visit visit) {
    const Warps warps;
    for (int64 task = warps.first; task < n * n_sets; task += warps.stride) {
        const int b = static_cast<int>(task % n_sets);
        const int64 x = task / n_sets;
        const int old = before[b * n + x], now = labels[b * n + x];
        if (old == now) continue;
        if (old >= 0) visit(x, static_cast<int64>(starts[b] + old), true);
        if (now >= 0) visit(x, static_cast<int64>(starts[b] + now), false);
    }
}

// Moves the dense rows that changed their label from the sums of the one cluster to those of the other: sums (C x d) in
// units of 1 / scale[column], counts (C), and masses (C) in units of 1 / mass_scale. `weight` has a number for each row, or
// one for all (weight_step 0); rows that are not `present` (null: all are) count in no cluster, and hold zeros.
//
// A warp owns a row and a set. Bytes per row: 8 B of labels; of a row that moved 8 d (double), and 16 d atomic additions
// of 8 bytes in the L2 cache. In the first step all rows move, and the atomics limit it; later few do, and the labels
// do. A product with one-hot matrices writes and reads 16 n C bytes in every step, whatever moved.
template <typename T>
__global__ void move_dense(const T* __restrict__ rows, int64 n, int d, const double* __restrict__ scale,
                           const double* __restrict__ weight, int weight_step, double mass_scale,
                           const bool* __restrict__ present, const int* __restrict__ starts,
                           const int* __restrict__ labels, const int* __restrict__ before, int n_sets, uint64* sums,
                           uint64* counts, uint64* masses) {
    const Sums to{scale, sums, counts, masses, d};
    for_each_moved(starts, labels, before, n_sets, n, [&](int64 x, int64 center, bool takes) {
        if (present && !present[x]) return;
        const double w = weight[x * weight_step];
        for (int j = threadIdx.x % 32; j < d; j += 32) to.add(center, j, w * static_cast<double>(rows[x * d + j]), takes);
        if (threadIdx.x % 32 == 0) to.count(center, w, mass_scale, takes);
    });
}

// Does the same with the rows of a CSR matrix. Bytes of a row of m entries that moved: 12 m, and 16 m in the L2 cache.
template <typename T>
__global__ void move_sparse(const T* __restrict__ data, const int* __restrict__ indices,
                            const int64* __restrict__ indptr, int64 n, int d, const double* __restrict__ scale,
                            const double* __restrict__ weight, int weight_step, double mass_scale,
                            const bool* __restrict__ present, const int* __restrict__ starts,
                            const int* __restrict__ labels, const int* __restrict__ before, int n_sets, uint64* sums,
                            uint64* counts, uint64* masses) {
    const Sums to{scale, sums, counts, masses, d};
    for_each_moved(starts, labels, before, n_sets, n, [&](int64 x, int64 center, bool takes) {
        if (present && !present[x]) return;
        const double w = weight[x * weight_step];
        for (int64 i = indptr[x] + threadIdx.x % 32; i < indptr[x + 1]; i += 32)
            to.add(center, indices[i], w * static_cast<double>(data[i]), takes);
        if (threadIdx.x % 32 == 0) to.count(center, w, mass_scale, takes);
    });
}

// From sums (C x d) and masses (C) of one block of columns, in units, this makes what the next step and `judge` need of its
// centres: the table (C x d) that rows are multiplied with, what each centre costs every row, and what it saves. The
// distance is the cosine's (`cosine` is 1) or the squared Euclidean one; it counts `weight` times. With `partial`, the
// costs of rows that some are absent from, `offset` stays without them. The first block sets `empty` and `offset`, a
// further one (`add`) adds to them; an empty cluster costs infinity.
//
// A warp owns a centre, and adds up in an order that d alone decides. Bytes per centre: 16 d read, the second time from
// the L2 cache, and 8 d written (double). It is one launch; the plain expressions are more than twenty.
template <typename T>
__global__ void place(const int64* __restrict__ sums, const int64* __restrict__ counts,
                      const int64* __restrict__ masses, const double* __restrict__ scale, double mass_scale,
                      int n_centers, int d, int cosine, double weight, int add, T* __restrict__ table, T* offset,
                      T* partial, double* __restrict__ saved, bool* empty) {
    const Warps warps;
    for (int64 c = warps.first; c < n_centers; c += warps.stride) {
        double square = 0, own = 0;
        for (int j = warps.lane; j < d; j += 32) {
            const double sum = static_cast<double>(sums[c * d + j]) / scale[j];
            square += sum * sum;
        }
        square = sum_of_lanes(square);
        const double size = cosine ? sqrt(square) : static_cast<double>(masses[c]) / mass_scale;
        for (int j = warps.lane; j < d; j += 32) {
            const double position = size > 0 ? static_cast<double>(sums[c * d + j]) / scale[j] / size : 0.0;
            table[c * d + j] = static_cast<T>(weight * (cosine ? -position : -2.0 * position));
            own += position * position;
        }
        own = sum_of_lanes(own);
        if (warps.lane == 0) {
            const T cost = static_cast<T>(cosine ? 0.0 : weight * own);
            const bool lacking = counts[c] == 0 || (add && empty[c]);
            saved[c] = size > 0 ? weight * (cosine ? size : square / size) : 0.0;
            empty[c] = lacking;
            if (partial) partial[c] = cost;
            const T whole = (add ? offset[c] : T(0)) + (partial ? T(0) : cost);
            offset[c] = lacking ? infinity<T>() : whole;
        }
    }
}

// Ends the step of each set that is under way (status 0): one more of its `steps`, and its costs (parts x B), totals less
// what its centres have saved (parts x C). The status becomes 2 where a cluster is empty, else 1 where no row has
// moved, `limit` steps are done, or the objective, the sum of the costs, has fallen by at most tol times itself. A set that
// goes on has moved nothing yet.
//
// A warp owns a set, and adds up in an order that its number of clusters alone decides. Bytes: 8 C for each part. It is
// one launch, and no number that the host would have to wait for.
__global__ void judge(const double* __restrict__ saved, const double* __restrict__ totals,
                      const bool* __restrict__ empty, const int* __restrict__ starts, int n_sets, int n_parts,
                      int* moved, double tol, int limit, double* objective, double* costs, int* steps, int* status) {
    const Warps warps;
    for (int64 b = warps.first; b < n_sets; b += warps.stride) {
        if (status[b] != 0) continue;
        const int first = starts[b], last = starts[b + 1];
        int n_empty = 0;
        for (int c = first + warps.lane; c < last; c += 32) n_empty += empty[c];
        for (int step = 16; step > 0; step /= 2) n_empty += __shfl_xor_sync(0xffffffffu, n_empty, step);
        double found = 0;
        for (int part = 0; part < n_parts; ++part) {
            double sum = 0;
            for (int c = first + warps.lane; c < last; c += 32) sum += saved[static_cast<int64>(part) * starts[n_sets] + c];
            sum = sum_of_lanes(sum);
            const double cost = totals[part * n_sets + b] - sum;
            found += cost > 0 ? cost : 0;
            if (warps.lane == 0) costs[part * n_sets + b] = cost > 0 ? cost : 0;
        }
        __syncwarp();  // all lanes have read the status
        if (warps.lane == 0) {
            const bool ends = moved[b] == 0 || steps[b] + 1 == limit || objective[b] - found <= tol * found;
            steps[b] += 1;
            if (n_empty == 0) objective[b] = found;
            status[b] = n_empty ? 2 : ends ? 1 : 0;
            if (status[b] == 0) moved[b] = 0;
        }
    }
}
