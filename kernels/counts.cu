// H.T @ onehot on CUDA: sums over rows in integers, which atomics add up exactly in any order. rows.cu says what codes
// and offsets are.

#include "rows.cu"

// Adds to cells that other threads add to as well. Differences wrap around, and come out right in the end.
template <typename Counter>
struct Tally {
    Counter* cells;
    int K;

    __device__ void add(int64 line, int label, int64 amount) const {
        atomicAdd(cells + line * K + label, static_cast<Counter>(amount));
    }
};

__device__ int64 signed_count(unsigned cell) { return static_cast<int>(cell); }
__device__ int64 signed_count(uint64 cell) { return static_cast<int64>(cell); }

// out[c, k] += weight of the rows in column c with label k, i.e. H.T @ diag(weight) @ onehot(labels).
// MASSES: also out[C + i, k] += mass of the rows with label k that partition i saw.
// MOVES: the rows in `before` have other labels; those whose label changes add to that of `labels`, and take from that
// of `before`. `rows` may be null: all n; else the n rows to look at, in labels, weight and mass as well.
// `weight` may be null: all 1. Counter is `unsigned` without weights (half the shared memory) and `uint64` with.
//
// A block serves `group` partitions over its share of the rows. Where their cells fit into `capacity` bytes of shared
// memory they are counted there and added to `out` once per block, else in `out`.
//
// Bytes per row: the codes once, 4 of each label and 8 of weight and mass for each group; with MOVES the labels only of
// a row that stays. Atomics limit it: in shared memory r per row, spread over the cells of a partition; and those of
// each block to `out`, one for a cell that is not 0. So a block has at least 4 labels for each cell that it clears, and
// there are no more blocks in all than fill a device. Atomics to `out`, counted in the PTX run, with up to 256 blocks a
// group of one for each 256 rows, and now: 183,975 and 122,804 for 500,000 labels (n = 10,000, r = 50, C = 500, K = 10),
// 390,312 and 275,713 for 400,000 (n = 4,000, r = 100, C = 10,000, K = 50). For 100,000,000 of the latter, n =
// 1,000,000, it would be 69 and 5.5 million.
template <typename Counter, typename Code, bool MOVES, bool MASSES>
__global__ void count(const Code* __restrict__ codes, const int* __restrict__ offsets, int64 n, int r, int group,
                      const int64* __restrict__ rows, const int* __restrict__ before, const int* __restrict__ labels,
                      const int64* __restrict__ weight, const int64* __restrict__ mass, int K, int capacity,
                      uint64* out) {
    DYNAMIC_SHARED(uint64, near);
    const int n_groups = (r + group - 1) / group;
    for (int g = blockIdx.y; g < n_groups; g += gridDim.y) {
        const int first = g * group;
        const int width = r - first < group ? r - first : group;
        const int n_masses = MASSES ? group * K : 0;  // also where the last group is smaller: cells keep their places
        const int64 n_cells = static_cast<int64>(offsets[first + width] - offsets[first]) * K;
        const Tally<uint64> near_masses = {near, K}, far_masses = {out + (static_cast<int64>(offsets[r]) + first) * K, K};
        const Tally<Counter> near_cells = {reinterpret_cast<Counter*>(near + n_masses), K};
        const Tally<uint64> far_cells = {out + static_cast<int64>(offsets[first]) * K, K};
        const bool fits = n_cells * sizeof(Counter) + n_masses * sizeof(uint64) <= capacity;
        if (fits) {
            for (int cell = threadIdx.x; cell < n_masses; cell += blockDim.x) near_masses.cells[cell] = 0;
            for (int cell = threadIdx.x; cell < n_cells; cell += blockDim.x) near_cells.cells[cell] = 0;
            __syncthreads();
        }
        const int at_once = blockDim.x / width;
        const int i = first + threadIdx.x % width;
        const int shift = offsets[i] - offsets[first];
        const int64 stride = static_cast<int64>(gridDim.x) * at_once;
        int64 y = static_cast<int64>(blockIdx.x) * at_once + threadIdx.x / width;
        if (threadIdx.x >= at_once * width) y = n;
        for (; y < n; y += stride) {
            const int64 x = rows ? rows[y] : y;
            const int label = labels[x], old = MOVES ? before[x] : -1;
            if (MOVES && label == old) continue;
            const Code code = codes[x * r + i];
            if (is_hole(code)) continue;
            const int64 amount = weight ? weight[x] : 1, of_mass = MASSES ? mass[x] : 0;
            const auto tally = [&](int k, int sign) {
                if (fits) near_cells.add(shift + static_cast<int>(code), k, sign * amount);
                else far_cells.add(shift + static_cast<int>(code), k, sign * amount);
                if (MASSES && fits) near_masses.add(i - first, k, sign * of_mass);
                if (MASSES && !fits) far_masses.add(i - first, k, sign * of_mass);
            };
            tally(label, 1);
            if (MOVES) tally(old, -1);
        }
        if (!fits) continue;
        __syncthreads();
        for (int cell = threadIdx.x; cell < (MASSES ? width * K : 0); cell += blockDim.x)
            if (near_masses.cells[cell]) atomicAdd(far_masses.cells + cell, near_masses.cells[cell]);
        for (int cell = threadIdx.x; cell < n_cells; cell += blockDim.x)
            if (const int64 total = signed_count(near_cells.cells[cell]))
                atomicAdd(far_cells.cells + cell, static_cast<uint64>(total));
        // No barrier: for the next group each thread clears the cells that it has just read.
    }
}
