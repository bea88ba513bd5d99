// The membership operator H on CUDA: n rows, C columns, one 1 per row and observed partition.
//
// gpuensemble/_kernels/cuda compiles this file with NVRTC and launches it; gpuensemble/_kernels/cpu/membership.py has the same
// functions on the CPU. No standard header is included, so the file compiles the same everywhere.
// rows.cu says what codes, offsets and tables are. Every loop is a grid-stride loop: any grid gives the same result.

#include "rows.cu"

// out[x, k] = sum over the observed i of table[column of x in i, k], i.e. H @ table.
//
// Bytes per row: r codes and K outputs from and to device memory; r * K table entries, which the L2 cache serves as
// long as the table fits there (C = 10,000 and K = 50 in double: 4 MB). The L2 bandwidth limits it.
// The plain expression table[codes].sum(axis=1) writes and reads all r * K entries in device memory as well.
template <typename T, typename Code, int G, int V>
__global__ void gather_sum(const Code* __restrict__ codes, const int* __restrict__ offsets, int64 n, int r,
                           const T* __restrict__ table, int K, int pitch, T* __restrict__ out) {
    const Group<G> group;
    for (int64 x = group.row; x < n; x += group.stride) {
        for (int base = group.lane; base - group.lane < K; base += G * V) {
            T sum[V] = {};
            for_each_observed(group, codes + x * r, offsets, r, [&](int, int column) {
                const T* entry = table + static_cast<int64>(column) * pitch + base;
#pragma unroll
                for (int v = 0; v < V; ++v)
                    if (base + v * G < K) sum[v] += entry[v * G];
            });
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (base + v * G < K) out[x * K + base + v * G] = sum[v];
        }
    }
}

template <typename T>
__device__ T weight_of(const T* weight, int64 x) {
    return weight ? weight[x] : T(1);
}

// What `assign` says of a row.
template <typename T>
struct Assigned {
    int* __restrict__ labels;
    T* __restrict__ costs;
    T* __restrict__ seconds;

    // Writes the best column of row x, and tells whether every cost was infinite.
    template <int G>
    __device__ bool tell(const Group<G>& group, int64 x, const Best<T>& best) const {
        if (group.lane == 0) {
            labels[x] = best.k;
            costs[x] = best.cost;
            seconds[x] = best.second;
        }
        return best.cost == infinity<T>();
    }
};

// labels[x] = the k that minimises t + weight[x] * p, t = sum of table[column of x in i, k] and p = sum of
// per_partition[i, k] over the observed i; costs[x] = that minimum, seconds[x] = the least cost of the other k. Ties go
// to the lowest k. Where every cost is infinite, the k with the fewest infinite terms wins, then the one with the least
// sum of the finite ones.
// `summed`: per_partition is one row, the sum over all partitions (no row has a hole). `weight` may be null: all 1.
//
// Bytes per row: r codes, a weight, a label and two costs from and to device memory; r * K table entries from the L2
// cache, and with holes as many of per_partition from L1. The L2 bandwidth limits it; the n x K costs never exist.
// The plain expression would write and read them, and r * K gathered entries, in device memory.
template <typename T, typename Code, int G, int V>
__global__ void assign(const Code* __restrict__ codes, const int* __restrict__ offsets, int64 n, int r,
                       const T* __restrict__ table, const T* __restrict__ per_partition, int summed,
                       const T* __restrict__ weight, int K, int pitch, int* __restrict__ labels,
                       T* __restrict__ costs, T* __restrict__ seconds) {
    const Group<G> group;
    const Assigned<T> assigned = {labels, costs, seconds};
    for (int64 x = group.row; x < n; x += group.stride) {
        const Code* row = codes + x * r;
        const T w = weight_of(weight, x);
        const auto best = best_column<false, V>(group, row, offsets, r, table, per_partition, summed, w, K, pitch);
        if (!assigned.tell(group, x, best)) continue;
        const auto other = best_column<true, V>(group, row, offsets, r, table, per_partition, summed, w, K, pitch);
        if (group.lane == 0) labels[x] = other.k;
    }
}

// Does `assign` with the table in shared memory, `group` partitions at a time, for K of at most G * V columns.
//
// A group of lanes has the sums of U rows in registers, so that a block reads the table once for each
// blockDim.x / G * U rows, in place of r rows of it for each row. The sums run over the partitions in ascending order,
// and a hole adds 0, which changes no sum that began with 0: the bits are those of `assign`.
//
// Bytes per row: as `assign`, but C * K / (rows of a block) table entries from the L2 cache. Wavefronts of shared memory
// limit it, of which a processor serves one a cycle, as it does one sector of the L2 cache. Counted per row in the PTX
// run, in double and without holes: sectors of the table with `assign`, then sectors and wavefronts here.
//       r       C    K    assign    here   wavefronts
//      50   1,000   50       650     203          251
//     100   2,000   20       500      78          220
//     100   2,000   50     1,300     406          502
//     100  10,000   10       298     117          129
//     100  10,000   50     1,300   2,031          908
// So it pays where a block has several times as many rows as a partition has clusters (in the last line it does not,
// and `assign` is launched), and where the table is too large for the first cache, which these counts leave out.
template <typename T, typename Code, int G, int V, bool SUMMED>
__global__ void assign_tiled(const Code* __restrict__ codes, const int* __restrict__ offsets, int64 n, int r,
                             const T* __restrict__ table, const T* __restrict__ per_partition,
                             const T* __restrict__ weight, int K, int pitch, int partitions, int* __restrict__ labels,
                             T* __restrict__ costs, T* __restrict__ seconds) {
    constexpr int U = (SUMMED ? 16 : 8) / V;
    DYNAMIC_SHARED(T, near);
    const Group<G> group;
    const Assigned<T> assigned = {labels, costs, seconds};
    const int apart = blockDim.x / G;  // rows of one group of lanes
    const int64 of_block = static_cast<int64>(apart) * U;
    for (int64 start = blockIdx.x * of_block; start < n; start += gridDim.x * of_block) {
        const int64 x0 = start + threadIdx.x / G;
        T t[U][V] = {}, p[U][V] = {};
        for (int i0 = 0; i0 < r; i0 += partitions) {
            const int end = r - i0 < partitions ? r : i0 + partitions;
            const int n_entries = (offsets[end] - offsets[i0] - 1) * pitch + K;  // behind the last row may be nothing
            const T* far = table + static_cast<int64>(offsets[i0]) * pitch;
            __syncthreads();  // all are done with the partitions before
            for (int entry = threadIdx.x; entry < n_entries; entry += blockDim.x) near[entry] = far[entry];
            __syncthreads();
            for (int first = i0; first < end; first += G) {
                const int mine = first + group.lane;
                int column[U];
#pragma unroll
                for (int u = 0; u < U; ++u) {
                    column[u] = -1;
                    const int64 x = x0 + u * apart;
                    if (mine >= end || x >= n) continue;
                    const Code code = codes[x * r + mine];
                    if (!is_hole(code)) column[u] = offsets[mine] - offsets[i0] + static_cast<int>(code);
                }
                const int last = end - first < G ? end - first : G;
                for (int j = 0; j < last; ++j) {
                    T part[V];
#pragma unroll
                    for (int v = 0; v < V; ++v) {
                        const int k = group.lane + v * G;
                        part[v] = !SUMMED && k < K ? per_partition[static_cast<int64>(first + j) * pitch + k] : T(0);
                    }
#pragma unroll
                    for (int u = 0; u < U; ++u) {
                        const int line = __shfl_sync(group.mask, column[u], j, G);
#pragma unroll
                        for (int v = 0; v < V; ++v) {
                            const int k = group.lane + v * G;
                            t[u][v] += line >= 0 && k < K ? near[line * pitch + k] : T(0);
                            if (!SUMMED) p[u][v] += line >= 0 ? part[v] : T(0);
                        }
                    }
                }
            }
        }
        unsigned infinite = 0;  // a bit for each row whose every cost is infinite
#pragma unroll
        for (int u = 0; u < U; ++u) {
            const int64 x = x0 + u * apart;
            if (x >= n) break;
            const T w = weight_of(weight, x);
            Best<T> best = Best<T>::none(r, K);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const int k = group.lane + v * G;
                if (k >= K) continue;
                const T cost = t[u][v] + w * (SUMMED ? per_partition[k] : p[u][v]);
                best.take(0, cost < infinity<T>() ? cost : infinity<T>(), k);
            }
            best.reduce(group);
            infinite |= static_cast<unsigned>(assigned.tell(group, x, best)) << u;
        }
#pragma unroll 1
        for (int64 x = x0; infinite; infinite >>= 1, x += apart) {
            if (!(infinite & 1)) continue;
            const T w = weight_of(weight, x);
            const auto best = best_column<true, V>(group, codes + x * r, offsets, r, table, per_partition, SUMMED, w, K,
                                                   pitch);
            if (group.lane == 0) labels[x] = best.k;
        }
    }
}

// out[p - begin, q] = (agreements - penalty * disagreements of p and q) / r over the partitions that saw both,
// for the rows p of begin .. begin + n_rows - 1 and all q: a block of rows of the co-association matrix.
//
// A block of 16 x 16 threads serves a tile of 16 x 16 pairs and passes over the partitions 32 at a time, with both
// sets of codes in shared memory.
// Bytes per pair: an output, and r / 8 codes from the L2 cache. The r comparisons limit it from r = 30 or so.
// The plain expression (a loop over partitions of codes[:, None] == codes[None, :]) reads and writes the pair r times.
template <typename T, typename Code>
__global__ void coassociation(const Code* __restrict__ codes, int64 n, int r, int64 begin, int64 n_rows, int penalty,
                              T* __restrict__ out) {
    __shared__ Code left[16][33], right[16][33];  // 33: no two rows of a column in one bank
    const int lane = threadIdx.x % 16, line = threadIdx.x / 16;
    const int64 across = (n + 15) / 16;
    const int64 n_tiles = (n_rows + 15) / 16 * across;
    for (int64 tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
        const int64 p0 = tile / across * 16, q0 = tile % across * 16;
        int agree = 0, seen = 0;
        for (int i0 = 0; i0 < r; i0 += 32) {
            for (int i = lane; i < 32; i += 16) {
                const bool inside = i0 + i < r;
                left[line][i] = inside && p0 + line < n_rows ? codes[(begin + p0 + line) * r + i0 + i]
                                                             : static_cast<Code>(-1);
                right[line][i] = inside && q0 + line < n ? codes[(q0 + line) * r + i0 + i] : static_cast<Code>(-1);
            }
            __syncthreads();
            for (int i = 0; i < 32; ++i) {
                const Code a = left[line][i], b = right[lane][i];
                const bool both = !is_hole(a) && !is_hole(b);
                seen += both;
                agree += both && a == b;
            }
            __syncthreads();  // before the next partitions overwrite the codes
        }
        if (p0 + line < n_rows && q0 + lane < n)
            out[(p0 + line) * n + q0 + lane] = static_cast<T>(agree - penalty * (seen - agree)) / static_cast<T>(r);
    }
}
