// What the kernels on rows of the membership operator share. `_kernels/cuda/source.py` puts this file in the place of
// the line that includes it, as NVRTC has no folder to look in.
//
// Arguments that these functions have:
//   codes    n x r, row-major: the label of row x in partition i, counted from 0; all bits set is a hole
//   offsets  r + 1: partition i owns the columns offsets[i] .. offsets[i + 1] - 1 of H
// Tables are C x `pitch`, with the first K entries of a row in use. The host makes the pitch a multiple of 32 bytes,
// so that a row of a table starts on a memory sector.
//
// A row of H is served by a group of G neighbouring lanes (4, 8, 16 or 32: the least that holds K, so that few lanes
// idle when K is small). Lane l holds V sums, for the columns l, l + G, ... of a chunk of G * V columns.
// The sums run over the partitions in ascending order, each addition rounded once: compile with --fmad=false.

#ifndef DYNAMIC_SHARED  // a compiler for the CPU brings its own
#define DYNAMIC_SHARED(type, name)                                   \
    extern __shared__ __align__(16) unsigned char dynamic_shared[]; \
    type* name = reinterpret_cast<type*>(dynamic_shared)
#endif

typedef long long int64;
typedef unsigned long long uint64;

template <typename Code>
__device__ bool is_hole(Code code) {
    return code == static_cast<Code>(-1);
}

template <typename T> __device__ T infinity();
template <> __device__ float infinity<float>() { return __int_as_float(0x7f800000); }
template <> __device__ double infinity<double>() { return __longlong_as_double(0x7ff0000000000000LL); }

template <int G>
struct Group {
    int lane;       // of this thread in its group
    unsigned mask;  // of the group in its warp
    int64 row, stride;

    __device__ Group() {
        const int thread = threadIdx.x;
        const int per_block = blockDim.x / G;
        lane = thread % G;
        mask = (0xffffffffu >> (32 - G)) << (thread % 32 / G * G);
        row = static_cast<int64>(blockIdx.x) * per_block + thread / G;
        stride = static_cast<int64>(gridDim.x) * per_block;
    }
};

// Calls visit(i, column) for every observed partition i of a row, in ascending order, on all lanes of the group at
// once. Each lane decodes one of G partitions; shuffles hand the columns round.
template <int G, typename Code, typename Visit>
__device__ void for_each_observed(const Group<G>& group, const Code* row, const int* offsets, int r, Visit visit) {
    for (int first = 0; first < r; first += G) {
        const int mine = first + group.lane;
        int column = -1;
        if (mine < r) {
            const Code code = row[mine];
            if (!is_hole(code)) column = offsets[mine] + static_cast<int>(code);
        }
        const int last = r - first < G ? r - first : G;
        for (int j = 0; j < last; ++j) {
            const int shared_column = __shfl_sync(group.mask, column, j, G);
            if (shared_column >= 0) visit(first + j, shared_column);
        }
    }
}

// The best column so far: fewest infinite terms, then least cost, then lowest index; and the least cost of the others.
template <typename T>
struct Best {
    int infinite;
    T cost;
    int k;
    T second;

    static __device__ Best none(int r, int K) { return {r + 1, infinity<T>(), K, infinity<T>()}; }

    __device__ void take(int other_infinite, T other_cost, int other_k) {
        const bool better = other_infinite != infinite ? other_infinite < infinite
                            : other_cost != cost       ? other_cost < cost
                                                       : other_k < k;
        const T loser = better ? cost : other_cost;
        if (loser < second) second = loser;
        if (better) {
            infinite = other_infinite;
            cost = other_cost;
            k = other_k;
        }
    }

    template <int G>
    __device__ void reduce(const Group<G>& group) {
#pragma unroll
        for (int step = G / 2; step > 0; step /= 2) {
            const T other_second = __shfl_xor_sync(group.mask, second, step, G);
            if (other_second < second) second = other_second;
            take(__shfl_xor_sync(group.mask, infinite, step, G), __shfl_xor_sync(group.mask, cost, step, G),
                 __shfl_xor_sync(group.mask, k, step, G));
        }
    }
};

// The columns of one row compared. COUNT_INFINITE sums the finite terms and counts the infinite ones apart, which
// only a row whose every cost is infinite needs.
template <bool COUNT_INFINITE, int V, typename T, typename Code, int G>
__device__ Best<T> best_column(const Group<G>& group, const Code* row, const int* offsets, int r, const T* table,
                               const T* per_partition, bool summed, T weight, int K, int pitch) {
    Best<T> best = Best<T>::none(r, K);
    for (int base = group.lane; base - group.lane < K; base += G * V) {
        T t[V] = {}, p[V] = {};
        int infinite[V] = {};
        for_each_observed(group, row, offsets, r, [&](int i, int column) {
            const T* entry = table + static_cast<int64>(column) * pitch + base;
            const T* part = per_partition + static_cast<int64>(i) * pitch + base;
#pragma unroll
            for (int v = 0; v < V; ++v) {
                if (base + v * G >= K) continue;
                const T term = entry[v * G];
                if (COUNT_INFINITE && term == infinity<T>())
                    ++infinite[v];
                else
                    t[v] += term;
                if (!summed) p[v] += part[v * G];
            }
        });
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const int k = base + v * G;
            if (k >= K) continue;
            if (summed) p[v] = per_partition[k];
            const T cost = t[v] + weight * p[v];
            best.take(infinite[v], cost < infinity<T>() ? cost : infinity<T>(), k);  // a sum that overflowed may be NaN
        }
    }
    best.reduce(group);
    return best;
}
