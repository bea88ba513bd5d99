// What clusters cost, from integer counts: the tables of k-means over labels, and bounds of how far they moved.
//
// gpuensemble/_kernels/cuda/pricing.py launches these kernels; gpuensemble/_kernels/cpu/kmeans/pricing.py has the same functions on
// the CPU, with the same bits: products, quotients and roots are rounded once each, sums have a fixed order, and
// --fmad=false keeps a product and a sum apart.
//
// Partition i owns the columns offsets[i] .. offsets[i + 1] - 1; K clusters. Rows of tables of costs are `pitch` numbers
// apart, in whole sectors for those who read them. All tables are small beside the codes, and read once or twice; what
// matters is that nothing of them leaves the device.

typedef long long int64;

enum Kind { SEC, CATEGORY, COSINE };

__device__ double positive_infinity() { return __longlong_as_double(0x7ff0000000000000LL); }

// table[c, k] of each column, parts[i, k] and terms[i, k] of each partition; seen[i, k]: whether any row of cluster k is in
// partition i. A thread owns one (i, k), neighbours have neighbouring k.
//
// Bytes: counts twice, the table once. Two dependent passes over a partition's columns limit it; r * K threads run.
template <typename T>
__global__ void price(int kind, const int64* __restrict__ counts, const int64* __restrict__ masses, int n_masses,
                      const double* __restrict__ of_column, const double* __restrict__ of_partition,
                      const int* __restrict__ offsets, int r, int K, double scale, double unit, T* __restrict__ table,
                      int pitch, double* __restrict__ parts, double* __restrict__ terms, int* __restrict__ seen) {
    const int64 n_cells = static_cast<int64>(r) * K;
    for (int64 cell = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; cell < n_cells;
         cell += static_cast<int64>(gridDim.x) * blockDim.x) {
        const int i = static_cast<int>(cell / K), k = static_cast<int>(cell % K);
        double square = 0, sum = 0;
        int any = 0;
        for (int c = offsets[i]; c < offsets[i + 1]; ++c) {
            const int64 number = counts[static_cast<int64>(c) * K + k];
            const double count = static_cast<double>(number) * (kind == SEC ? 1.0 : of_column[2 * c + 1]);
            square += count * count * (kind == SEC ? of_column[2 * c] : 1.0);
            sum += count;
            any |= number != 0;
        }
        double factor, part = 0, term;
        if (kind == SEC) {
            const int64 mass = masses[n_masses > 1 ? cell : k];
            factor = (mass > 0 ? 1.0 / static_cast<double>(mass) : 0.0) / unit;
            part = scale * unit * square * (factor * factor);
            term = -(square * factor);
        } else if (kind == CATEGORY) {
            factor = sum > 0 ? 1.0 / sum : 0.0;
            term = -of_partition[i] * (square * factor);
        } else {
            const double root = sqrt(square);
            factor = root > 0 ? 1.0 / root : 0.0;
            term = -of_partition[i] * root;
        }
        parts[cell] = part;
        terms[cell] = term;
        seen[cell] = any;
        for (int c = offsets[i]; c < offsets[i + 1]; ++c) {
            const double number = static_cast<double>(counts[static_cast<int64>(c) * K + k]);
            const double weight = of_column[2 * c], label = of_column[2 * c + 1];
            double cost;
            if (kind == SEC)
                cost = number * (-2 * scale * weight) * factor;
            else if (kind == CATEGORY)
                cost = (square * (factor * factor) - 2 * (number * label) * factor) * (weight * scale);
            else
                cost = -(number * label) * factor * (weight * scale);
            table[static_cast<int64>(c) * pitch + k] = static_cast<T>(cost);
        }
    }
}

// A sum that keeps what its additions rounded off.
struct Sum {
    double high, low;

    __device__ void add(double term) {
        const double before = high;
        high = before + term;
        const double back = high - before;
        low += (before - (high - back)) + (term - back);
    }
};

// of_partitions: the parts, or, if `summed`, the sum of each cluster's; facts[0] = total and all terms, facts[1] = how many
// clusters no partition saw a row of. One block: a thread owns a cluster, then the first one adds the clusters up.
template <typename T>
__global__ void add_up(const double* __restrict__ parts, const double* __restrict__ terms, const int* __restrict__ seen,
                       int r, int K, int summed, double total, T* __restrict__ of_partitions, double* of_clusters,
                       double* __restrict__ facts) {
    for (int k = threadIdx.x; k < K; k += blockDim.x) {
        Sum sum = {0, 0};
        double part = 0;
        int any = 0;
        for (int i = 0; i < r; ++i) {
            const int64 cell = static_cast<int64>(i) * K + k;
            part += parts[cell];
            sum.add(terms[cell]);
            any |= seen[cell];
            if (!summed) of_partitions[cell] = static_cast<T>(parts[cell]);
        }
        if (summed) of_partitions[k] = static_cast<T>(part);
        of_clusters[3 * k] = sum.high;
        of_clusters[3 * k + 1] = sum.low;
        of_clusters[3 * k + 2] = any ? 0 : 1;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        Sum sum = {total, 0};
        double empty = 0;
        for (int k = 0; k < K; ++k) {
            const double before = sum.high, term = of_clusters[3 * k];
            sum.high = before + term;
            const double back = sum.high - before;
            sum.low += (before - (sum.high - back)) + (term - back) + of_clusters[3 * k + 1];
            empty += of_clusters[3 * k + 2];
        }
        facts[0] = sum.high + sum.low;
        facts[1] = empty;
    }
}

// The least and the largest change of an entry from one table to the next, and the largest finite entry, of each partition
// and cluster. A thread owns one (i, k). Bytes: both tables once.
template <typename T>
__global__ void changes(const T* __restrict__ before, const T* __restrict__ after, int pitch_before, int pitch_after,
                        const int* __restrict__ offsets, int r, int K, double* __restrict__ low,
                        double* __restrict__ high, double* __restrict__ size) {
    const int64 n_cells = static_cast<int64>(r) * K;
    for (int64 cell = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; cell < n_cells;
         cell += static_cast<int64>(gridDim.x) * blockDim.x) {
        const int i = static_cast<int>(cell / K), k = static_cast<int>(cell % K);
        double least = positive_infinity(), largest = -positive_infinity(), finite = 0;
        for (int c = offsets[i]; c < offsets[i + 1]; ++c) {
            const double entry = after[static_cast<int64>(c) * pitch_after + k];
            double change = entry - static_cast<double>(before[static_cast<int64>(c) * pitch_before + k]);
            if (change != change) change = 0;  // infinite before and after
            if (change < least) least = change;
            if (change > largest) largest = change;
            const double magnitude = entry < 0 ? -entry : entry;
            if (magnitude < positive_infinity() && magnitude > finite) finite = magnitude;
        }
        low[cell] = least;
        high[cell] = largest;
        size[cell] = finite;
    }
}

// rounding[b] of each bin of weights. One block: each thread finds the largest sums of its clusters, the first one the
// largest of all. `sums` has room for two numbers of each thread.
template <typename T>
__global__ void round_off(const double* __restrict__ size, int r, int K, const T* __restrict__ parts, int n_parts,
                          double unit, const double* __restrict__ edges, int n_bins, double* sums,
                          double* __restrict__ rounding) {
    double largest = 0, largest_part = 0;
    for (int k = threadIdx.x; k < K; k += blockDim.x) {
        double of_table = 0, of_parts = 0;
        for (int i = 0; i < r; ++i) of_table += size[static_cast<int64>(i) * K + k];
        for (int i = 0; i < n_parts; ++i) {
            const double part = parts[static_cast<int64>(i) * K + k];
            of_parts += part < 0 ? -part : part;
        }
        if (of_table > largest) largest = of_table;
        if (of_parts > largest_part) largest_part = of_parts;
    }
    sums[2 * threadIdx.x] = largest;
    sums[2 * threadIdx.x + 1] = largest_part;
    __syncthreads();
    for (int thread = 0; thread < blockDim.x; ++thread) {
        if (sums[2 * thread] > largest) largest = sums[2 * thread];
        if (sums[2 * thread + 1] > largest_part) largest_part = sums[2 * thread + 1];
    }
    for (int b = threadIdx.x; b < n_bins; b += blockDim.x)
        rounding[b] = unit * largest + unit * largest_part * edges[b + 1];
}

// least[e, k] and largest[e, k]: bounds of the change of the cost of cluster k for a row whose weight is edges[e]. With holes
// a partition may not count. A thread owns one (e, k).
template <typename T>
__global__ void bound(const double* __restrict__ low, const double* __restrict__ high, int r, int K,
                      const T* __restrict__ before, const T* __restrict__ after, int n_parts, int complete,
                      const double* __restrict__ edges, int n_edges, double* __restrict__ least,
                      double* __restrict__ largest) {
    const int64 n_cells = static_cast<int64>(n_edges) * K;
    for (int64 cell = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; cell < n_cells;
         cell += static_cast<int64>(gridDim.x) * blockDim.x) {
        const int e = static_cast<int>(cell / K), k = static_cast<int>(cell % K);
        double down = 0, up = 0;
        for (int i = 0; i < r; ++i) {
            const int64 own = static_cast<int64>(i) * K + k;
            double change = 0;
            if (n_parts > 1) change = (static_cast<double>(after[own]) - static_cast<double>(before[own])) * edges[e];
            const double lower = low[own] + change, upper = high[own] + change;
            down += complete || lower < 0 ? lower : 0;
            up += complete || upper > 0 ? upper : 0;
        }
        if (n_parts == 1) {  // the sum of all partitions, the same for every row
            const double change = (static_cast<double>(after[k]) - static_cast<double>(before[k])) * edges[e];
            down += change;
            up += change;
        }
        // not a number: costs that became infinite, and others that ceased to be
        least[cell] = down != down ? -positive_infinity() : down;
        largest[cell] = up != up ? positive_infinity() : up;
    }
}

// taken[b, k]: what a row of bin b with label k may have lost of its margin. A block is one warp and owns a bin; it passes
// over the clusters twice: for the least bound of all and of the others, then for each cluster.
__global__ void take(const double* __restrict__ least, const double* __restrict__ largest, int n_bins, int K,
                     float* __restrict__ taken) {
    for (int b = blockIdx.x; b < n_bins; b += gridDim.x) {
        const double* one = least + static_cast<int64>(b) * K;
        double first = positive_infinity(), second = positive_infinity();
        for (int k = threadIdx.x; k < K; k += 32) {
            const double lower = one[K + k] < one[k] ? one[K + k] : one[k];
            if (lower < first) {
                second = first;
                first = lower;
            } else if (lower < second) {
                second = lower;
            }
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
            const double other = __shfl_xor_sync(0xffffffffu, first, step);
            const double next = __shfl_xor_sync(0xffffffffu, second, step);
            const double loser = other < first ? first : other;
            if (other < first) first = other;
            if (next < second) second = next;
            if (loser < second) second = loser;
        }
        for (int k = threadIdx.x; k < K; k += 32) {
            const double lower = one[K + k] < one[k] ? one[K + k] : one[k];
            const double* top = largest + static_cast<int64>(b) * K + k;
            const double upper = top[K] > top[0] ? top[K] : top[0];
            const double others = K == 1 ? 0.0 : lower == first ? second : first;
            const double most = upper - others + 1e-9 * ((upper < 0 ? -upper : upper) + (others < 0 ? -others : others));
            const float up = static_cast<float>(most);
            taken[static_cast<int64>(b) * K + k] = up + (up < 0 ? -up : up) * 2.384185791015625e-7f + 1e-37f;
        }
    }
}
