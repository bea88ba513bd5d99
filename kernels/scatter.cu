// H.T @ rows on CUDA: sums over rows, in floating point and in a fixed order. rows.cu says what codes and offsets are.

#include "rows.cu"

constexpr int SECTOR = 32;                           // bytes; the launcher knows these three as well
constexpr int CODE_BYTES = 2048, ROW_BYTES = 4096;  // of shared memory for codes and rows that are on their way

// Neighbouring numbers on their way from device to shared memory, in registers while the block works on those before.
// A warp reads from the start of a sector on, so that a block reads no sector of them twice.
template <typename Number, int BYTES, int THREADS>
struct Staged {
    static constexpr int SLOTS = (BYTES / int(sizeof(Number)) + THREADS - 1) / THREADS;
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

// How a launch divides its work; the launcher chooses it.
struct Tiling {
    int group, tile;  // partitions and columns k of a block
    int per;          // neighbouring partitions that share a line of cells, and `lanes` neighbouring threads
    int lanes;
    int pitch;        // cells from line to line
    int chunk;        // rows that are in shared memory at a time
    int capacity;     // cells that are there
};

// The cells of one thread: column k of the tile in up to EACH partitions of the group. Neighbouring partitions have
// slots of their own in the lines of cells, and so banks of their own: whatever their codes, threads that share a
// wavefront meet in no bank. In each slot the clusters of its partitions lie one below the other.
template <int EACH>
struct Owned {
    bool any;
    int lane, k;
    int height;  // lines of the slot
    int partition[EACH];
    int first[EACH];       // line of the partition's first cluster
    unsigned width[EACH];  // clusters; 0: there is no such partition, and every code is beyond

    __device__ Owned(const int* offsets, const Tiling& of, int columns, int partitions) {
        const int stride = ((partitions + of.per - 1) / of.per + EACH - 1) / EACH;
        const int mine = threadIdx.x / of.lanes;
        lane = threadIdx.x % of.lanes;
        const int slot = lane / of.tile;
        k = lane % of.tile;
        any = mine < stride && slot < of.per && k < columns;
        height = 0;
        int above = slot;
        const auto pile = [&](int end) {
            for (; above < end; above += of.per) height += offsets[above + 1] - offsets[above];
        };
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            const int other = (mine + e * stride) * of.per + slot;
            const bool there = any && other < partitions;
            if (there) pile(other);
            partition[e] = there ? other : 0;
            first[e] = height;
            width[e] = there ? offsets[other + 1] - offsets[other] : 0;
        }
        if (any) pile(partitions);
    }

    // Calls visit(line, column of the group) for each cell.
    template <typename Visit>
    __device__ void for_each_cell(const int* offsets, Visit visit) const {
#pragma unroll
        for (int e = 0; e < EACH; ++e)
#pragma unroll 1
            for (int c = 0; c < static_cast<int>(width[e]); ++c)
                visit(first[e] + c, offsets[partition[e]] - offsets[0] + c);
    }

    // Adds rows to sums in shared memory. A hole goes to the cell `spare`, which costs no branch; the sums of EACH
    // partitions do not wait for one another.
    template <typename T, typename Code>
    __device__ void add(const Code* codes, int r, const T* rows, int K, int count, T* cells, int pitch,
                        int spare) const {
        for (int x = 0; x < count; ++x) {
            const T value = rows[x * K + k];
            int place[EACH];
            T sum[EACH];
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const unsigned code = static_cast<unsigned>(codes[x * r + partition[e]]);
                place[e] = code < width[e] ? (first[e] + static_cast<int>(code)) * pitch + lane : spare;
            }
#pragma unroll
            for (int e = 0; e < EACH; ++e) sum[e] = cells[place[e]];
#pragma unroll
            for (int e = 0; e < EACH; ++e) cells[place[e]] = sum[e] + value;
        }
    }

    // Adds rows to sums in device memory.
    template <typename T, typename Code>
    __device__ void add_far(const Code* codes, int r, const T* rows, int K, int count, const int* offsets,
                            T* sums) const {
        for (int x = 0; x < count; ++x)
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const unsigned code = static_cast<unsigned>(codes[x * r + partition[e]]);
                const int64 column = static_cast<int64>(offsets[partition[e]] - offsets[0]) + code;
                if (code < width[e]) sums[column * K] += rows[x * K + k];
            }
    }
};

// partial[s, c, k] = sum over the rows x of segment s in column c of rows[x, k], in ascending x: the parts of
// H.T @ rows, to be added up in ascending s. No atomics: the same bits in every run, on any grid, as on the CPU.
//
// A block owns a segment, `group` partitions and `tile` columns k; a thread owns whole cells, so that no two threads
// meet in one. Sums live in shared memory where those of a slot are at most `capacity`, else in `partial` itself.
// Codes and rows come through shared memory, `chunk` rows at a time, and the next ones are read while these are added.
//
// Bytes per row, in T of `size` and codes of `code` bytes: g groups read all K entries, t tiles all r codes,
//     g * K * size + t * r * code, where g * t >= C * K * size / S
// if a block has S bytes for sums: the less, the more shared memory it has, but not less than
// 2 * sqrt(C * K * size / S * K * size * r * code) for any g and t, however the sums are arranged; and in whole
// sectors, as a block that needs few bytes of a row reads all of their sectors. A segment of two processors has
// g * t >= 2. A block reads no sector twice and none that it does not need; device memory gives each input once, what
// groups and tiles share comes from the L2 cache. The launcher takes the fewest sectors of tilings that take few
// wavefronts of shared memory. Those limit the kernel: a processor serves one a cycle, as it does one sector of the
// L2 cache. 16 doubles need one to read the sums and one to write them, and up to three for codes and rows.
// Counted per row of double and codes of a byte in the PTX run, with 64 segments for 128 processors; the ideal is each
// input once.
//                                 sectors and wavefronts, by the shared memory that a block may have
//       r       C    K   ideal           48 KB           99 KB          163 KB          227 KB
//      50     500   10     4.1      6.7    162      6.7    162      6.7    162      6.7    162
//      50     500   50    14.1     27.6    573     21.1    593     16.8    580     16.8    580
//      50   1,000   20     6.6     13.0    243      9.2    296      8.2    296      8.2    296
//     100   2,000   50    15.6    103.0  1,289     52.0  1,054     38.4  1,046     28.2  1,127
//     100  10,000   10     5.6     62.5    328     35.0    281     23.8    262     17.0    326
//     100  10,000   50    15.6    312.5  1,688    167.0  1,448    118.8  1,324     89.1  1,173
//
// The bounds keep compilers from giving 512 threads more registers than a block can have.
template <typename T, typename Code, int EACH, int THREADS>
__global__ void __launch_bounds__(THREADS, 1) scatter_add(const Code* __restrict__ codes, const int* __restrict__ offsets,
                int64 n, int r, const T* __restrict__ rows, int K, int64 segment_rows, int n_segments, int group,
                int tile, int per, int lanes, int pitch, int chunk, int capacity, T* __restrict__ partial) {
    DYNAMIC_SHARED(T, cells);  // capacity, then a spare one for each thread
    __shared__ Code near_codes[CODE_BYTES / sizeof(Code)];
    __shared__ T near_rows[ROW_BYTES / sizeof(T)];
    const Tiling tiling = {group, tile, per, lanes, pitch, chunk, capacity};
    const int n_groups = (r + group - 1) / group, n_tiles = (K + tile - 1) / tile;
    const int64 n_tasks = static_cast<int64>(n_segments) * n_groups * n_tiles;
    const int spare = capacity + static_cast<int>(threadIdx.x);
    cells[spare] = 0;
    for (int64 task = blockIdx.x; task < n_tasks; task += gridDim.x) {
        const int k0 = static_cast<int>(task % n_tiles) * tile;
        const int i0 = static_cast<int>(task / n_tiles % n_groups) * group;
        const int64 segment = task / n_tiles / n_groups;
        const int columns = K - k0 < tile ? K - k0 : tile;
        const int partitions = r - i0 < group ? r - i0 : group;
        const Owned<EACH> owned(offsets + i0, tiling, columns, partitions);
        const bool fits = static_cast<int64>(owned.height) * pitch <= capacity;
        T* sums = partial + (segment * offsets[r] + offsets[i0]) * K + k0 + owned.k;
        owned.for_each_cell(offsets + i0, [&](int line, int column) {
            if (fits)
                cells[line * pitch + owned.lane] = 0;
            else
                sums[static_cast<int64>(column) * K] = 0;
        });
        const int64 first = segment * segment_rows;
        const int64 last = n - first < segment_rows ? n : first + segment_rows;
        Staged<Code, CODE_BYTES, THREADS> next_codes;
        Staged<T, ROW_BYTES, THREADS> next_rows;
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
                owned.add(here, r, row, K, count, cells, pitch, spare);
            else
                owned.add_far(here, r, row, K, count, offsets + i0, sums);
        }
        if (!fits) continue;
        owned.for_each_cell(offsets + i0, [&](int line, int column) {
            sums[static_cast<int64>(column) * K] = cells[line * pitch + owned.lane];
        });
        // No barrier: a thread reads and clears no cell but its own.
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
