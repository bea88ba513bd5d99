// Sums of a table's rows on CUDA, as `gather_sum` has them, for tables of float64 that many rows read: of a spectral cut.
//
// gpuensemble/_kernels/cuda/embedding.py compiles this file with NVRTC and launches it;
// gpuensemble/_kernels/cpu/features/embedding.py has the same functions on the CPU, with the same bits: sums run over the
// partitions in ascending order, each addition rounded once (--fmad=false). Any grid gives the same result.
//
// codes, offsets: see rows.cu. The table is C x K.

#include "rows.cu"

constexpr int THREADS = 384;  // of a block; the launcher knows both as well
constexpr int ROWS = 16;      // of a warp
constexpr int TILE = ROWS * THREADS / 32;  // rows of a block

// Calls visit(k, sum) for each of the ROWS neighbouring rows of each warp of a block, first + k, and a chunk of 32 V
// columns from `base` on: lane l has the sums of the columns base + l, base + l + 32, ... The part of the table that belongs
// to a partition and the chunk is read once for all rows of the block, into shared memory of `capacity` numbers; where it
// does not fit there, each row reads its own. All threads of a block call this together.
template <typename Code, int V, typename Visit>
__device__ void for_each_sum(const Code* __restrict__ codes, const int* __restrict__ offsets, int64 n, int r,
                             const double* __restrict__ table, int K, int base, int64 first, double* near, int capacity,
                             Visit visit) {
    constexpr int WIDE = 32 * V;
    const int lane = threadIdx.x % 32;
    double sum[ROWS][V] = {};
    for (int begin = 0; begin < r; begin += 32) {
        Code seen[ROWS];  // by lanes: the labels of 32 partitions
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            const bool there = first + k < n && begin + lane < r;
            seen[k] = there ? codes[(first + k) * r + begin + lane] : static_cast<Code>(-1);
        }
        for (int i = begin; i < r && i < begin + 32; ++i) {
            const int size = offsets[i + 1] - offsets[i];
            const bool fits = size * WIDE <= capacity;
            const double* part = table + static_cast<int64>(offsets[i]) * K;
            if (fits) {
                __syncthreads();  // all rows have read the partition before
                for (int at = threadIdx.x; at < size * WIDE; at += THREADS) {
                    const int column = base + at % WIDE;
                    near[at] = column < K ? part[static_cast<int64>(at / WIDE) * K + column] : 0.0;
                }
                __syncthreads();
            }
#pragma unroll
            for (int k = 0; k < ROWS; ++k) {
                const Code code = static_cast<Code>(__shfl_sync(0xffffffffu, static_cast<int>(seen[k]), i - begin));
                if (is_hole(code)) continue;
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    const int column = lane + 32 * v;
                    if (fits)
                        sum[k][v] += near[static_cast<int>(code) * WIDE + column];
                    else if (base + column < K)
                        sum[k][v] += part[static_cast<int64>(code) * K + base + column];
                }
            }
        }
    }
#pragma unroll
    for (int k = 0; k < ROWS; ++k) visit(k, sum[k]);
}

// The first of the rows of a warp, in a tile of rows that a block takes.
__device__ int64 first_row(int64 tile) { return tile * TILE + threadIdx.x / 32 * ROWS; }

// out[x] (K numbers) = the sum of the table's rows that row x names, times share[x], rounded to whole multiples of a unit:
// *magic is added and taken off again.
//
// A block owns TILE rows. Bytes per row: r codes and 8 + 8 K; 8 C K of the table for each block, from the L2 cache
// (K = 56, r = 100 partitions of 50 clusters: 11.7 KB a row, where `gather_sum` asks for 44.8), and 8 r K from shared
// memory, which limits it. `gather_sum` and three more passes would write and read the n x K numbers four times.
template <typename Code, int V>
__global__ void gather_shares(const Code* __restrict__ codes, const int* __restrict__ offsets, int64 n, int r,
                              const double* __restrict__ table, int K, int capacity, const double* __restrict__ share,
                              const double* __restrict__ magic, double* __restrict__ out) {
    DYNAMIC_SHARED(double, near);
    for (int64 tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
        const int64 first = first_row(tile);
        for (int base = 0; base < K; base += 32 * V)
            for_each_sum<Code, V>(codes, offsets, n, r, table, K, base, first, near, capacity,
                                  [&](int k, const double (&sum)[V]) {
                                      if (first + k >= n) return;
#pragma unroll
                                      for (int v = 0; v < V; ++v) {
                                          const int column = base + threadIdx.x % 32 + 32 * v;
                                          const double value = sum[v] * share[first + k];
                                          if (column < K) out[(first + k) * K + column] = value + *magic - *magic;
                                      }
                                  });
    }
}

// out[x] = the length of the sum of the table's rows that row x names.
//
// Bytes per row: r codes and 8; else as above. The n x K sums never exist.
template <typename Code, int V>
__global__ void gather_lengths(const Code* __restrict__ codes, const int* __restrict__ offsets, int64 n, int r,
                               const double* __restrict__ table, int K, int capacity, double* __restrict__ out) {
    DYNAMIC_SHARED(double, near);
    for (int64 tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
        const int64 first = first_row(tile);
        double square[ROWS] = {};
        for (int base = 0; base < K; base += 32 * V)
            for_each_sum<Code, V>(codes, offsets, n, r, table, K, base, first, near, capacity,
                                  [&](int k, const double (&sum)[V]) {
#pragma unroll
                                      for (int v = 0; v < V; ++v) square[k] += sum[v] * sum[v];
                                  });
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            for (int step = 16; step > 0; step /= 2) square[k] += __shfl_xor_sync(0xffffffffu, square[k], step);
            if (threadIdx.x % 32 == 0 && first + k < n) out[first + k] = sqrt(square[k]);
        }
    }
}
