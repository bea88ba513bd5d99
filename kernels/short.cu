// Tables of costs in 16 bits, which decide most rows with certainty: how they are made, and how a row is decided.
//
// gpuensemble/_kernels/cuda/short.py launches `middles` and `shorten`; gpuensemble/_kernels/cpu/kmeans/short.py has the same
// on the CPU, with the same bits, and says why a row that is decided has the label of its whole costs.
//
// An entry is the number of units that a cost is above the middle of its partition, plus LEVELS, so that it is not negative:
// two of them lie in a word of 32 bits, and eight such words add up without a carry from one to the other. What LEVELS
// adds is the same for all clusters. A row of the table has W entries, a power of two, in whole memory sectors; those
// beyond K are LEVELS.
#include "rows.cu"

const int LEVELS = 4095;  // of an entry on either side of the middle

__device__ double larger(double one, double two) { return two > one ? two : one; }

// The least and the largest of some costs.
struct Range {
    double low, high;

    static __device__ Range none() { return {infinity<double>(), -infinity<double>()}; }

    __device__ void take(double least, double most) {
        if (least < low) low = least;
        if (most > high) high = most;
    }

    // With what the other lanes of the warp have taken.
    __device__ void reduce() {
#pragma unroll
        for (int step = 16; step > 0; step /= 2)
            take(__shfl_xor_sync(0xffffffffu, low, step), __shfl_xor_sync(0xffffffffu, high, step));
    }

    __device__ double middle() const { return (low + high) / 2; }

    // Infinite also where all costs are, and their difference is not a number.
    __device__ double width() const { return high - low >= 0 ? high - low : infinity<double>(); }
};

__device__ double largest_of_warp(double value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value = larger(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

// middle[i, k] of the costs of each partition and cluster, and width[i], how far apart costs of one cluster are at most.
// With holes a partition may be left out: what is taken off its entries must then be the same for all clusters.
// of_parts[i], of_parts[r + i]: the same of the costs of partitions, if there are several, which count with holes only.
//
// A block is one warp and owns a partition. Bytes: the table once; the columns of a partition, one after the other, limit it.
template <typename T>
__global__ void middles(const T* __restrict__ table, const int* __restrict__ offsets, int r, int K, int pitch, int complete,
                        const T* __restrict__ parts, int n_parts, double* __restrict__ middle, double* __restrict__ width,
                        double* __restrict__ of_parts) {
    for (int i = blockIdx.x; i < r; i += gridDim.x) {
        Range all = Range::none(), of_part = Range::none();
        double widest = 0;
        for (int k = threadIdx.x; k < K; k += 32) {
            Range own = Range::none();
            for (int c = offsets[i]; c < offsets[i + 1]; ++c) {
                const double entry = table[static_cast<int64>(c) * pitch + k];
                own.take(entry, entry);
            }
            all.take(own.low, own.high);
            widest = larger(widest, own.width());
            if (complete) middle[static_cast<int64>(i) * K + k] = own.middle();
            if (n_parts > 1) {
                const double part = parts[static_cast<int64>(i) * pitch + k];
                of_part.take(part, part);
            }
        }
        all.reduce();
        of_part.reduce();
        widest = largest_of_warp(widest);
        for (int k = threadIdx.x; k < (complete ? 0 : K); k += 32) middle[static_cast<int64>(i) * K + k] = all.middle();
        if (threadIdx.x != 0) continue;
        width[i] = complete ? widest : all.width();
        if (n_parts == 1) continue;
        of_parts[i] = of_part.middle();
        of_parts[r + i] = of_part.width();
    }
}

// The unit of entries that are so wide; infinite, if one is. All lanes of a warp find it together.
__device__ double unit_of(const double* width, int r) {
    double widest = 0;
    for (int i = threadIdx.x % 32; i < r; i += 32) widest = larger(widest, width[i]);
    return larger(largest_of_warp(widest) / (2 * LEVELS), 1e-290);
}

template <typename T>
__device__ unsigned short rounded(T cost, double middle, double unit) {
    return static_cast<unsigned short>(LEVELS + static_cast<int>(rint((static_cast<double>(cost) - middle) / unit)));
}

// base[k]: what the table leaves out of a cluster's cost, and base[W + k]: the factor of a row's weight, both in units.
// facts: the unit, or 0 if the table decides nothing; the unit of the costs of partitions in units of the table; by how many
// units a difference of costs can be wrong, and by how many more for each unit of a row's weight. One block works on it.
template <typename T>
__device__ void state_bases(const T* parts, int n_parts, int r, int K, int W, int complete, const double* middle, double unit,
                            double ratio, double heaviest, int bits, float* base, double* facts) {
    __shared__ double sums[256];  // W at most
    for (int k = threadIdx.x; k < K; k += blockDim.x) {
        double sum = 0;
        for (int i = 0; i < r; ++i) sum += middle[static_cast<int64>(i) * K + k];
        sums[k] = sum;
    }
    __syncthreads();
    double mean = 0;
    for (int k = 0; k < K; ++k) mean += sums[k];
    mean /= K;
    const double room = static_cast<double>(1LL << (30 - bits));  // a cost and a number share 32 bits
    for (int k = threadIdx.x; k < W; k += blockDim.x) {
        const bool used = k < K;
        base[k] = static_cast<float>(!used ? room / 2 : complete ? (sums[k] - mean) / unit : 0);
        base[W + k] = static_cast<float>(used && n_parts == 1 ? static_cast<double>(parts[k]) / unit : 0);
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    double largest = 0, largest_part = 0;
    for (int k = threadIdx.x; k < K; k += 32) {
        largest = larger(larger(largest, base[k]), -base[k]);
        largest_part = larger(larger(largest_part, base[W + k]), -base[W + k]);
    }
    largest = largest_of_warp(largest) + heaviest * largest_of_warp(largest_part);
    largest += heaviest * ratio * r * LEVELS;
    if (threadIdx.x != 0) return;
    const bool fits = unit < infinity<double>() && largest + static_cast<double>(r) * LEVELS < room / 2;
    facts[0] = fits ? unit : 0;
    facts[1] = ratio;
    facts[2] = r + 2 + largest * 0x1p-20;  // sums, what is cut off costs when they become integers, float32
    facts[3] = r * ratio;
}

// The table in 16 bits, C x W, the costs of partitions, r x W, if there are several, and what goes with them.
//
// A block owns a partition, and has a whole number of rows of W threads; each warp finds the units for itself, and the
// first block states the bases. Bytes: the table once, and a quarter of that. Divisions in float64 limit it, one an entry.
template <typename T>
__global__ void shorten(const T* __restrict__ table, const int* __restrict__ offsets, int r, int K, int pitch, int complete,
                        const T* __restrict__ parts, int n_parts, const double* __restrict__ middle,
                        const double* __restrict__ width, const double* __restrict__ of_parts, double heaviest, int bits,
                        int W, unsigned short* __restrict__ short_table, unsigned short* __restrict__ short_parts, float* base,
                        double* __restrict__ facts) {
    const double unit = unit_of(width, r), of_part = n_parts > 1 ? unit_of(of_parts + r, r) : 0;
    if (blockIdx.x == 0)
        state_bases(parts, n_parts, r, K, W, complete, middle, unit, of_part / unit, heaviest, bits, base, facts);
    if (!(unit < infinity<double>())) return;
    const int k = threadIdx.x % W, apart = blockDim.x / W;
    for (int i = blockIdx.x; i < r; i += gridDim.x) {
        const double own = k < K ? middle[static_cast<int64>(i) * K + k] : 0;
        for (int64 c = offsets[i] + threadIdx.x / W; c < offsets[i + 1]; c += apart)
            short_table[c * W + k] = k < K ? rounded(table[c * pitch + k], own, unit) : LEVELS;
        if (n_parts == 1 || threadIdx.x >= W) continue;
        const int64 line = i;
        short_parts[line * W + k] = k < K ? rounded(parts[line * pitch + k], of_parts[i], of_part) : LEVELS;
    }
}

// What a lane loads at once of a row of the table: the entries of 2 * N neighbouring clusters.
template <int N>
struct __align__(4 * N) Pairs {
    unsigned of[N];

    __device__ void add(Pairs other) {
#pragma unroll
        for (int v = 0; v < N; ++v) of[v] += other.of[v];
    }
};

struct __align__(16) Four {
    float of[4];
};

// Sums of entries in 32 bits.
template <int N>
struct Totals {
    int of[2 * N];

    __device__ void add(const Pairs<N>& pairs) {
#pragma unroll
        for (int v = 0; v < N; ++v) {
            of[2 * v] += pairs.of[v] & 0xffff;
            of[2 * v + 1] += pairs.of[v] >> 16;
        }
    }
};

// The two least costs of a row, with the numbers of their clusters as last bits.
struct Least {
    int first, second;

    __device__ void take(int least, int next) {
        const int loser = least < first ? first : least;
        if (least < first) first = least;
        if (next < second) second = next;
        if (loser < second) second = loser;
    }
};

// A table in 16 bits, as a group of G lanes reads it: lane l has the clusters 2 * N * l and those after it.
template <int G, int N>
struct Short {
    static constexpr int TOGETHER = 8;  // entries that add up in 16 bits: 8 * 2 * LEVELS is less than 2**16
    const Pairs<N>* __restrict__ table;
    const Pairs<N>* __restrict__ parts;  // null: one row for all, which is in the base
    const Four* __restrict__ base;
    int bits;
    double unit, ratio, error, part_error;

    __device__ Short(const unsigned short* table, const unsigned short* parts, const float* base, const double* facts,
                     int bits)
        : table(reinterpret_cast<const Pairs<N>*>(table)), parts(reinterpret_cast<const Pairs<N>*>(parts)),
          base(reinterpret_cast<const Four*>(base)), bits(bits), unit(facts[0]), ratio(facts[1]), error(facts[2]),
          part_error(facts[3]) {}

    // Adds up the entries of the observed partitions of a row, of the table and of partitions. A lane none of whose
    // clusters is among the K loads nothing.
    template <typename Code>
    __device__ void add_up(const Group<G>& group, const Code* row, const int* offsets, int r, int K, Totals<N>& sums,
                           Totals<N>& part_sums) const {
        const bool idle = 2 * N * group.lane >= K;
        constexpr int AHEAD = 4;
        constexpr int EACH = G < TOGETHER ? TOGETHER / G : 1;  // partitions that a lane decodes
        int observed = 0;
        for (int first = 0; first < r; first += EACH * G) {
            int column[EACH];
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const int mine = first + e * G + group.lane;
                column[e] = -1;
                if (mine >= r) continue;
                const Code code = row[mine];
                if (!is_hole(code)) column[e] = offsets[mine] + static_cast<int>(code);
            }
            for (int begin = 0; begin < EACH * G && first + begin < r; begin += TOGETHER) {
                Pairs<N> some = {}, some_parts = {};
#pragma unroll
                for (int half = 0; half < TOGETHER; half += AHEAD) {
                    Pairs<N> entry[AHEAD] = {};  // loads that go on at the same time
#pragma unroll
                    for (int j = half; j < half + AHEAD; ++j) {
                        const int line = __shfl_sync(group.mask, column[EACH == 1 ? 0 : j / G], begin + j % G, G);
                        if (line < 0 || idle) continue;
                        ++observed;
                        entry[j - half] = table[static_cast<int64>(line) * G + group.lane];
                        if (parts) some_parts.add(parts[static_cast<int64>(first + begin + j) * G + group.lane]);
                    }
#pragma unroll
                    for (int j = 0; j < AHEAD; ++j) some.add(entry[j]);
                }
                sums.add(some);
                part_sums.add(some_parts);
            }
        }
#pragma unroll
        for (int v = 0; v < 2 * N; ++v) {
            sums.of[v] -= LEVELS * observed;
            if (parts) part_sums.of[v] -= LEVELS * observed;
        }
    }

    // The cheapest cluster of a row; margin: what the next one costs more, at least. It is right if that is positive.
    template <typename Code>
    __device__ int cheapest(const Group<G>& group, const Code* row, const int* offsets, int r, int K, double weight,
                            double& margin) const {
        Totals<N> sums = {}, part_sums = {};
        add_up(group, row, offsets, r, K, sums, part_sums);
        Least least = {0x7fffffff, 0x7fffffff};
#pragma unroll
        for (int v = 0; v < 2 * N; v += 4) {
            const int k = 2 * N * group.lane + v;
            const Four left_out = base[k / 4], factors = base[(2 * N * G + k) / 4];
#pragma unroll
            for (int d = 0; d < 4; ++d) {
                const float of_parts = static_cast<float>(ratio) * static_cast<float>(part_sums.of[v + d]);
                const float rest = left_out.of[d] + static_cast<float>(weight) * (factors.of[d] + of_parts);
                const int cost = sums.of[v + d] + static_cast<int>(rest);
                least.take(static_cast<int>(static_cast<unsigned>(cost) << bits) | (k + d), 0x7fffffff);
            }
        }
#pragma unroll
        for (int step = G / 2; step > 0; step /= 2) {
            const int first = __shfl_xor_sync(group.mask, least.first, step, G);
            least.take(first, __shfl_xor_sync(group.mask, least.second, step, G));
        }
        margin = ((least.second >> bits) - (least.first >> bits) - (error + weight * part_error)) * unit;
        return least.first & ((1 << bits) - 1);
    }
};
