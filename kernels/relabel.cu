// An iteration of k-means over labels: new labels of all rows. counts.cu counts what that changes.
//
// gpuensemble/_kernels/cuda/relabel.py launches it; gpuensemble/_kernels/cpu/kmeans/relabel.py has the same function on the CPU.
#include "short.cu"

const float SHRINK_SLACK = 0.999999523162841796875f;  // 1 - 2**-21: more than a slack in float32 is rounded by
const double SHRINK_MARGIN = 0.999999523162841796875;
const double LARGEST_SLACK = 3e38;
const int NEW_ROW = 255;  // the bin of a row that was never evaluated

// The last bin whose lower edge is not above the weight.
template <typename T>
__device__ int bin_of(T weight, const double* edges, int n_bins) {
    int low = 0, high = n_bins - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (edges[middle] <= weight)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

// The degree of a row: the sum of the sizes of its clusters, without the last `shift` bits; 1 at least.
template <typename Code, int G>
__device__ int64 degree(const Group<G>& group, const Code* row, const int* offsets, int r, const int64* sizes, int shift) {
    int64 total = 0;
    for (int i = group.lane; i < r; i += G)
        if (!is_hole(row[i])) total += sizes[offsets[i] + static_cast<int>(row[i])];
#pragma unroll
    for (int step = G / 2; step > 0; step /= 2) total += __shfl_xor_sync(group.mask, total, step, G);
    total = (total + ((1LL << shift) >> 1)) >> shift;
    return total > 1 ? total : 1;
}

// Labels, slacks and bins of all rows for new tables of costs (see `assign` of membership.cu); facts[0] += the rows that
// moved, facts[1] += those that were evaluated.
//
// slack[x] is a lower bound of the margin, the second cost less the first. New tables take taken[bin, label] off it; a row
// whose slack is still above rounding[bin] keeps its label, and costs 13 bytes. The others are decided by the table in 16
// bits (N pairs of entries a lane; 0: there is none, as K is too large), or, if that leaves it open or decides nothing, by
// the whole costs, at once and by the same lanes: a row in a hundred or fewer.
//
// Bytes per row that is evaluated: r codes from device memory; r * W entries of 2 bytes from the L2 cache, which limits it.
// All sectors per row, counted in the PTX run, in double and without holes: by 16 bits, and by the whole costs.
//       r       C    K   16 bits   whole costs
//     100   2,000   10       115           283
//     100   5,000   50       417         1,305
//     100   5,000  100       747         2,524
// weight: of each row, or null: the degree if `sizes` are given, else 1.
template <typename T, typename Code, int G, int N>
__global__ void relabel(const Code* __restrict__ codes, const int* __restrict__ offsets, int64 n, int r,
                        const T* __restrict__ table, const T* __restrict__ per_partition, int summed, int K, int pitch,
                        const unsigned short* __restrict__ short_table, const unsigned short* __restrict__ short_parts,
                        const float* __restrict__ base, const double* __restrict__ short_facts, int bits,
                        const T* __restrict__ weight, const int64* __restrict__ sizes, int shift,
                        int* __restrict__ labels, float* __restrict__ slack, unsigned char* __restrict__ bins,
                        const double* __restrict__ edges, int n_bins, const float* __restrict__ taken,
                        const double* __restrict__ rounding, uint64* facts) {
    constexpr int V = 4;
    __shared__ uint64 found[2];
    if (threadIdx.x < 2) found[threadIdx.x] = 0;
    __syncthreads();
    const Group<G> group;
    int moved = 0, evaluated = 0;
    for (int64 x = group.row; x < n; x += group.stride) {
        const int old = labels[x];
        int bin = bins[x];
        if (bin != NEW_ROW) {
            const float left = (slack[x] - taken[static_cast<int64>(bin) * K + old]) * SHRINK_SLACK;
            __syncwarp(group.mask);  // all lanes have read the slack
            if (group.lane == 0) slack[x] = left;
            if (left > rounding[bin]) continue;  // NaN, where all costs are infinite, is not enough
        }
        const Code* row = codes + x * r;
        const T w = weight  ? weight[x]
                    : sizes ? static_cast<T>(degree(group, row, offsets, r, sizes, shift))
                            : T(1);
        if (bin == NEW_ROW) bin = bin_of(w, edges, n_bins);
        int k = 0;
        double margin = -infinity<double>();
        if constexpr (N > 0) {
            const Short<G, N> in_short(short_table, short_parts, base, short_facts, bits);
            if (in_short.unit > 0) k = in_short.cheapest(group, row, offsets, r, K, w, margin);
        }
        if (!(margin > rounding[bin])) {
            Best<T> best = best_column<false, V>(group, row, offsets, r, table, per_partition, summed, w, K, pitch);
            margin = static_cast<double>(best.second) - static_cast<double>(best.cost);
            if (best.cost == infinity<T>())
                best = best_column<true, V>(group, row, offsets, r, table, per_partition, summed, w, K, pitch);
            k = best.k;
        }
        ++evaluated;
        const double left = (margin - rounding[bin]) * SHRINK_MARGIN;
        __syncwarp(group.mask);  // all lanes have read label and bin
        if (group.lane == 0) {
            labels[x] = k;
            slack[x] = static_cast<float>(left > LARGEST_SLACK ? LARGEST_SLACK : left);
            bins[x] = static_cast<unsigned char>(bin);
        }
        moved += k != old;
    }
    if (group.lane == 0) {
        if (moved) atomicAdd(found, static_cast<uint64>(moved));
        if (evaluated) atomicAdd(found + 1, static_cast<uint64>(evaluated));
    }
    __syncthreads();
    if (threadIdx.x < 2 && found[threadIdx.x]) atomicAdd(facts + threadIdx.x, found[threadIdx.x]);
}
