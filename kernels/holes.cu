// The holes of PCE's base partitions on CUDA: each is filled with the label that lowers the objective most.
//
// gpuensemble/_kernels/cuda/pce/holes.py compiles this file with NVRTC and launches it; cpu/pce/holes.py has the same
// function on the CPU, with the same bits: every operation is rounded once (--fmad=false), in the same order.

#include "rows.cu"

// codes, n x r: where `observed` has a hole, the label c of least lengths[c] - 2 rest . rotations[c], with rest = the
// row of `points` less the rows of `weighted` of its other labels; the lowest of equals. One partition after another, so
// that each sees the labels before it. A hole of `codes` holds nothing yet. Tables are C x K, offsets as in
// membership.cu.
//
// A row is served by a group of G neighbouring lanes, the least of 4, 8, 16, 32 that holds the widest partition. A lane
// owns the entries lane, lane + G, ... of the rest, and compares the labels lane, lane + G, ... of a partition; the
// rest lies in shared memory, or in `rests` where this is not null, a row for each group of the grid.
//
// Bytes per row: r codes, 2 r if it has a hole, and then K entries of `points`; a code for each hole. The tables come
// from the caches: r rows of `weighted`, and for each hole the K_i rows of `rotations`, whose sectors neighbouring
// lanes read at different places, so that L1 serves them. The K_i * K products of a hole limit it. The plain
// expressions need for each partition a pass over its holes, whose number the host waits for, and n x K rests in
// device memory.
template <typename T, typename Code, int G>
__global__ void impute(Code* codes, const Code* __restrict__ observed, const int* __restrict__ offsets, int64 n, int r,
                       const T* __restrict__ points, const T* __restrict__ rotations, const T* __restrict__ weighted,
                       const T* __restrict__ lengths, int K, T* rests) {
    DYNAMIC_SHARED(T, shared_rests);
    const int lane = threadIdx.x % G, per_block = blockDim.x / G, group = threadIdx.x / G;
    const unsigned mask = (0xffffffffu >> (32 - G)) << (threadIdx.x % 32 / G * G);
    const int64 first = static_cast<int64>(blockIdx.x) * per_block + group;
    T* rest = rests ? rests + first * K : shared_rests + group * K;
    for (int64 x = first; x < n; x += static_cast<int64>(gridDim.x) * per_block) {
        const Code* seen = observed + x * r;
        Code* row = codes + x * r;
        int missing = 0;
        for (int i = lane; i < r; i += G) missing += is_hole(seen[i]);
#pragma unroll
        for (int step = G / 2; step > 0; step /= 2) missing += __shfl_xor_sync(mask, missing, step, G);
        if (missing == 0) continue;
        for (int k = lane; k < K; k += G) {
            T value = points[x * K + k];
            for (int i = 0; i < r; ++i)
                if (!is_hole(row[i])) value -= weighted[(offsets[i] + static_cast<int64>(row[i])) * K + k];
            rest[k] = value;
        }
        for (int i = 0; i < r; ++i) {
            if (!is_hole(seen[i])) continue;
            const int begin = offsets[i], end = offsets[i + 1];
            if (!is_hole(row[i]))
                for (int k = lane; k < K; k += G) rest[k] += weighted[(begin + static_cast<int64>(row[i])) * K + k];
            __syncwarp(mask);  // the rest is complete, and the label that is overwritten has been read
            T least = infinity<T>();
            int best = begin;
            for (int c = begin + lane; c < end; c += G) {
                T product = 0;
                for (int k = 0; k < K; ++k) product += rest[k] * rotations[static_cast<int64>(c) * K + k];
                const T cost = lengths[c] - 2 * product;
                if (cost < least) {
                    least = cost;
                    best = c;
                }
            }
#pragma unroll
            for (int step = G / 2; step > 0; step /= 2) {
                const T cost = __shfl_xor_sync(mask, least, step, G);
                const int c = __shfl_xor_sync(mask, best, step, G);
                if (cost < least || (cost == least && c < best)) {
                    least = cost;
                    best = c;
                }
            }
            if (lane == 0) row[i] = static_cast<Code>(best - begin);
            __syncwarp(mask);  // all lanes have compared with the rest
            for (int k = lane; k < K; k += G) rest[k] -= weighted[static_cast<int64>(best) * K + k];
        }
    }
}
