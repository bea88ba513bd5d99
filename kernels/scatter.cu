// H.T @ rows on CUDA: sums over rows, in floating point and in a fixed order. rows.cu says what codes and offsets are.

#include "rows.cu"

constexpr int THREADS = 256;  // of a block; the launcher knows these four as well
constexpr int SECTOR = 32;    // bytes
constexpr int CODE_SLOTS = 8, ROW_SLOTS = 4;  // numbers that a thread brings to shared memory at a time

// Neighbouring numbers on their way from device to shared memory, in registers while the block works on those before.
// A warp reads from the start of a sector on, so that a block reads no sector of them twice.
template <typename Number, int SLOTS>
struct Staged {
    Number held[SLOTS];
    unsigned which;  // of the slots hold a number

    // Where the first of them goes in shared memory: as far from a sector's start as it is in device memory.
    static __device__ int shift(const Number* first) {
        return static_cast<int>(reinterpret_cast<uint64>(first) % SECTOR / sizeof(Number));
    }

    // Of each `period` of the `count` numbers the first `wanted` are read.
    __device__ void load(const Number* first, unsigned count, unsigned period, unsigned wanted) {
        const unsigned before = shift(first);
        const uint64 inverse = 0xffffffffu / period + uint64(1);  // divides what is below 2^12
        which = 0;
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot) {
            const unsigned at = slot * THREADS + threadIdx.x - before;  // wraps where it is before the first
            const unsigned within = at - static_cast<unsigned>(at * inverse >> 32) * period;
            if (at >= count || within >= wanted) continue;
            held[slot] = first[at];
            which |= 1u << slot;
        }
    }

    __device__ void store(Number* shared) const {
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot)
            if (which >> slot & 1) shared[slot * THREADS + threadIdx.x] = held[slot];
    }
};

// The cells of one thread: column k of the tile in up to EACH partitions of the group. A partition has `lanes`
// neighbouring threads, a power of two, so that those that share a wavefront meet in few banks.
template <int EACH>
struct Owned {
    bool any;
    int k;
    int partition[EACH];
    int first[EACH];       // row of cells of the partition's first cluster
    unsigned width[EACH];  // clusters; 0: there is no such partition, and every code is beyond

    __device__ Owned(const int* offsets, int lanes, int columns, int partitions) {
        const int stride = (partitions + EACH - 1) / EACH;
        const int mine = threadIdx.x / lanes;
        k = threadIdx.x % lanes;
        any = mine < stride && k < columns;
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            const int other = mine + e * stride;
            const bool there = any && other < partitions;
            partition[e] = there ? other : 0;
            first[e] = offsets[partition[e]] - offsets[0];
            width[e] = there ? offsets[other + 1] - offsets[other] : 0;
        }
    }

    // Adds rows to sums in shared memory. A hole goes to the cell `spare`, which costs no branch; the sums of EACH
    // partitions do not wait for one another.
    template <typename T, typename Code>
    __device__ void add(const Code* codes, int r, const T* rows, int K, int count, T* cells, int tile, int spare) const {
        for (int x = 0; x < count; ++x) {
            const T value = rows[x * K + k];
            int place[EACH];
            T sum[EACH];
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const unsigned code = static_cast<unsigned>(codes[x * r + partition[e]]);
                place[e] = code < width[e] ? (first[e] + static_cast<int>(code)) * tile + k : spare;
            }
#pragma unroll
            for (int e = 0; e < EACH; ++e) sum[e] = cells[place[e]];
#pragma unroll
            for (int e = 0; e < EACH; ++e) cells[place[e]] = sum[e] + value;
        }
    }

    // Adds rows to sums in device memory.
    template <typename T, typename Code>
    __device__ void add_far(const Code* codes, int r, const T* rows, int K, int count, T* sums) const {
        for (int x = 0; x < count; ++x)
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const unsigned code = static_cast<unsigned>(codes[x * r + partition[e]]);
                if (code < width[e]) sums[(static_cast<int64>(first[e]) + code) * K + k] += rows[x * K + k];
            }
    }
};

// partial[s, c, k] = sum over the rows x of segment s in column c of rows[x, k], in ascending x: the parts of
// H.T @ rows, to be added up in ascending s. No atomics: the same bits in every run, on any grid, as on the CPU.
//
// A block owns a segment, `group` partitions and `tile` columns k; a thread owns whole cells, so that no two threads
// meet in one. Sums live in shared memory where those of the group are at most `capacity`, else in `partial` itself.
// Codes and rows come through shared memory, `chunk` rows at a time, and the next ones are read while these are added.
//
// Bytes per row: for each group the K entries, for each tile the codes. A block reads no sector twice and none that it
// does not need, so that device memory gives each input once; what groups and tiles share comes from the L2 cache.
// Wavefronts of shared memory limit it, of which a processor serves one a cycle, as it does one sector of the L2 cache:
// for 16 doubles one to read the sums and one to write them, and up to three for codes and rows. Counted per row of
// double in the PTX run, with 64 segments; the ideal is each input once, and a device that 128 blocks fill makes two
// groups of what would fit into one. A warp for each partition and 32 k, code by code, would need the last column.
//       r       C    K     sectors   ideal   wavefronts   sectors of a warp each
//      50     500   10         8.1     4.1          161                      200
//      50     500   50        43.5    14.1          653                      775
//      50   1,000   20        26.9     6.6          335                      300
//     100   2,000   50       128.5    15.6        1,381                    1,550
//     100  10,000   10        88.1     5.6          417                      400
//     100  10,000   50       671.0    15.6        1,974                    1,550
template <typename T, typename Code, int EACH>
__global__ void scatter_add(const Code* __restrict__ codes, const int* __restrict__ offsets, int64 n, int r,
                            const T* __restrict__ rows, int K, int64 segment_rows, int n_segments, int group, int tile,
                            int lanes, int chunk, int capacity, T* __restrict__ partial) {
    DYNAMIC_SHARED(T, cells);  // capacity, then a spare one for each thread
    __shared__ Code near_codes[CODE_SLOTS * THREADS];
    __shared__ T near_rows[ROW_SLOTS * THREADS];
    const int n_groups = (r + group - 1) / group, n_tiles = (K + tile - 1) / tile;
    const int64 n_tasks = static_cast<int64>(n_segments) * n_groups * n_tiles;
    for (int64 task = blockIdx.x; task < n_tasks; task += gridDim.x) {
        const int k0 = static_cast<int>(task % n_tiles) * tile;
        const int i0 = static_cast<int>(task / n_tiles % n_groups) * group;
        const int64 segment = task / n_tiles / n_groups;
        const int columns = K - k0 < tile ? K - k0 : tile;
        const int partitions = r - i0 < group ? r - i0 : group;
        const int n_rows = offsets[i0 + partitions] - offsets[i0];
        const bool fits = static_cast<int64>(n_rows) * tile <= capacity;
        const Owned<EACH> owned(offsets + i0, lanes, columns, partitions);
        T* sums = partial + (segment * offsets[r] + offsets[i0]) * K + k0;
        if (fits) {
            for (int cell = threadIdx.x; cell < n_rows * tile; cell += THREADS) cells[cell] = 0;
            cells[capacity + threadIdx.x] = 0;
        } else {
            for (int64 cell = threadIdx.x; cell < static_cast<int64>(n_rows) * columns; cell += THREADS)
                sums[cell / columns * K + cell % columns] = 0;
        }
        const int64 first = segment * segment_rows;
        const int64 last = n - first < segment_rows ? n : first + segment_rows;
        Staged<Code, CODE_SLOTS> next_codes;
        Staged<T, ROW_SLOTS> next_rows;
        const auto fetch = [&](int64 x) {
            const int more = last - x < chunk ? static_cast<int>(last - x) - 1 : chunk - 1;
            next_codes.load(codes + x * r + i0, more * r + partitions, r, partitions);
            next_rows.load(rows + x * K + k0, more * K + columns, K, columns);
        };
        fetch(first);
        for (int64 x = first; x < last; x += chunk) {
            __syncthreads();  // the rows before are added
            next_codes.store(near_codes);
            next_rows.store(near_rows);
            __syncthreads();
            if (x + chunk < last) fetch(x + chunk);
            const int count = last - x < chunk ? static_cast<int>(last - x) : chunk;
            const Code* here = near_codes + next_codes.shift(codes + x * r + i0);
            const T* row = near_rows + next_rows.shift(rows + x * K + k0);
            if (!owned.any) continue;
            if (fits)
                owned.add(here, r, row, K, count, cells, tile, capacity + static_cast<int>(threadIdx.x));
            else
                owned.add_far(here, r, row, K, count, sums);
        }
        if (!fits) continue;
        __syncthreads();
        for (int cell = threadIdx.x; cell < n_rows * tile; cell += THREADS)
            if (cell % tile < columns) sums[static_cast<int64>(cell / tile) * K + cell % tile] = cells[cell];
        // No barrier: for the next task each thread clears the cells that it has just read.
    }
}

// out[j] = sum over s of parts[s, j], in ascending s. Device memory limits it: each part is read once.
template <typename T>
__global__ void add_parts(const T* __restrict__ parts, int64 size, int n_parts, T* __restrict__ out) {
    const int64 stride = static_cast<int64>(gridDim.x) * blockDim.x;
    for (int64 j = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; j < size; j += stride) {
        T sum = parts[j];
#pragma unroll 8
        for (int s = 1; s < n_parts; ++s) sum += parts[s * size + j];
        out[j] = sum;
    }
}
