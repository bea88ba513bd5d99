// First centres of k-means on CUDA: greedy k-means++ for several starts side by side, and QR with pivoting.
//
// gpuensemble/_kernels/cuda/seeding.py compiles this file with NVRTC and launches it;
// gpuensemble/_kernels/cpu/features/seeding.py has the same functions on the CPU, with the same bits: every operation is
// rounded once (--fmad=false), in the same order, and what several threads add to is an integer. Any grid gives the same
// result.
//
// Arguments that the kernels of k-means++ have:
//   step     of the starts: how many of their rows are chosen
//   m        rows that a start chooses from: rows[s * m + y], or y where `rows` is null
//   sizes    S: how many rows start s is to choose, at most k
//   tries    S: how many are drawn at a time, after the first, at most n_tries
//   weight   of each row, or one for all (weight_step 0)
//   drawn    S x n_tries: the rows that are tried in this step
//   costs    S x m: the distance of each row from the nearest row chosen
//   fresh    S x m x n_tries: what it becomes with each of those drawn
//   totals   S x n_tries: the sum of those, times weights, in units of 1 / scales[s]

#include "warps.cu"

constexpr int THREADS = 256;  // of a block of draw_rows; the launcher knows it as well

// Chooses the cheapest of the rows that were tried, the first of equals, takes over its costs, and draws the rows to be
// tried next: at places, 0 to 1, of cost times weight, one row after another, in whole units so that prefix sums are exact.
// found[s] counts the steps that had a cost left. A start that has all its rows is left alone.
//
// A block owns a start. Bytes per start: 8 m of fresh costs, a sector each, and 8 m of weights; costs are written once and
// read twice, from the L2 cache. Latency limits it: a start has some thousands of rows. A library needs more than twenty
// launches for a start.
__global__ void draw_rows(int step, const double* __restrict__ places, int n_places, const int* __restrict__ tries,
                          int n_tries, const int* __restrict__ sizes, int n_starts, int k,
                          const int64* __restrict__ rows, int64 m, const double* __restrict__ weight, int weight_step,
                          const double* __restrict__ fresh, double* costs, uint64* totals, double* scales,
                          int64* drawn, int64* chosen, int* found) {
    __shared__ int64 ends[THREADS];
    __shared__ double largest[THREADS];
    const int thread = threadIdx.x;
    for (int64 s = blockIdx.x; s < n_starts; s += gridDim.x) {
        if (step > sizes[s]) continue;
        int best = 0;
        if (step > 0) {
            for (int t = 1; t < tries[s]; ++t)
                if (totals[s * n_tries + t] < totals[s * n_tries + best]) best = t;
            if (thread == 0) chosen[s * k + step - 1] = drawn[s * n_tries + best];
        }
        if (step == sizes[s]) continue;
        const auto row_of = [&](int64 y) { return rows ? rows[s * m + y] : y; };
        const auto potential = [&](int64 y) {
            const double own = weight[row_of(y) * weight_step];
            return step > 0 ? costs[s * m + y] * own : own;
        };
        double most = 0;
        for (int64 y = thread; y < m; y += THREADS) {
            costs[s * m + y] = step > 0 ? fresh[(s * m + y) * n_tries + best] : infinity<double>();
            most = max(most, potential(y));
        }
        largest[thread] = most;
        __syncthreads();  // all have read what was tried, and all costs are there
        for (int i = 0; i < THREADS; ++i) most = max(most, largest[i]);
        const double scale = 4611686018427387904.0 / (static_cast<double>(m) * (most > 0 ? most : 1.0));

        const int64 each = (m + THREADS - 1) / THREADS, first = thread * each, last = min(m, first + each);
        int64 own = 0;
        for (int64 y = first; y < last; ++y) own += static_cast<int64>(potential(y) * scale);
        ends[thread] = own;
        __syncthreads();
        int64 begin = 0, total = 0;
        for (int i = 0; i < THREADS; ++i) {
            if (i == thread) begin = total;
            total += ends[i];
        }
        for (int t = 0; t < (step == 0 ? 1 : tries[s]); ++t) {
            const double place = places[s * n_places + (step == 0 ? 0 : 1 + (step - 1) * tries[s] + t)];
            const int64 target = min(static_cast<int64>(place * static_cast<double>(total)), total - 1);
            if (total == 0 && thread == 0) drawn[s * n_tries + t] = row_of(0);
            if (target < begin || target >= begin + own) continue;
            int64 y = first, end = begin;
            while (true) {
                end += static_cast<int64>(potential(y) * scale);
                if (target < end) break;
                ++y;
            }
            drawn[s * n_tries + t] = row_of(y);
        }
        for (int t = thread; t < n_tries; t += THREADS) totals[s * n_tries + t] = 0;
        if (thread == 0) {
            scales[s] = scale;
            if (most > 0) found[s] = step + 1;
        }
    }
}

// fresh[s, y, t] = the distance of row y from the row that is tried, or from the nearest one chosen, the least of both, and
// totals[s, t] += that times its weight. The distance is |x - c|^2, or |x| - x.c / |c| if `cosine` is 1, times `factor`;
// what is at most `noise` times the constant of a row, its distance without a centre, counts as 0.
//
// A warp owns a row of a start at a time. Bytes per row: 8 d, 8 of its costs, and 8 for each try; rows that are tried come
// from the first cache. A product has fewer operations to do, but its result has to be written and read by a dozen launches.
template <typename T>
__global__ void try_rows(int step, const T* __restrict__ x, int d, const double* __restrict__ constant, int cosine,
                         double factor, double noise, const int* __restrict__ tries, int n_tries,
                         const int* __restrict__ sizes, int n_starts, const int64* __restrict__ rows, int64 m,
                         const double* __restrict__ weight, int weight_step, const double* __restrict__ scales,
                         const int64* __restrict__ drawn, const double* __restrict__ costs,
                         double* __restrict__ fresh, uint64* totals) {
    const Warps warps;
    for (int64 s = blockIdx.y; s < n_starts; s += gridDim.y) {
        if (step >= sizes[s]) continue;
        const int n = step == 0 ? 1 : tries[s];
        int64 total = 0;
        for (int64 y = warps.first; y < m; y += warps.stride) {
            const int64 row = rows ? rows[s * m + y] : y;
            for (int t = 0; t < n; ++t) {
                const int64 other = drawn[s * n_tries + t];
                double sum = 0, square = 0;
                for (int j = warps.lane; j < d; j += 32) {
                    const double a = static_cast<double>(x[row * d + j]), b = static_cast<double>(x[other * d + j]);
                    sum += cosine ? a * b : (a - b) * (a - b);
                    square += b * b;
                }
                sum = sum_of_lanes(sum);
                if (cosine) square = sum_of_lanes(square);
                double cost = factor * sum;
                if (cosine) cost = constant[row] - (square > 0 ? factor * (sum / sqrt(square)) : 0.0);
                if (cost <= noise * fabs(constant[row])) cost = 0;
                cost = min(cost, costs[s * m + y]);
                if (warps.lane != t) continue;
                fresh[(s * m + y) * n_tries + t] = cost;
                if (n > 1) total += static_cast<int64>(cost * weight[row * weight_step] * scales[s]);
            }
        }
        if (n > 1 && warps.lane < n) atomicAdd(totals + s * n_tries + warps.lane, static_cast<uint64>(total));
    }
}

// The longest of some rows, the first of equals.
struct Longest {
    double square;
    int64 row;

    __device__ void with(double other, int64 where) {
        if (other > square || (other == square && where < row)) {
            square = other;
            row = where;
        }
    }
    __device__ void over_lanes() {
        for (int step = 16; step > 0; step /= 2) {
            const double other = __shfl_xor_sync(0xffffffffu, square, step);
            with(other, __shfl_xor_sync(0xffffffffu, row, step));
        }
    }
};

// Notes the longest row, of those that the warps of the launch before found to be longest of theirs (squares, rows), as
// number `step`, counted from 1, and writes to `after` what rows (m x d) have beyond it. Then each warp says which is its
// longest. Step 0 only does the latter, with the rows as they are.
//
// A warp owns a row at a time. Bytes per row: 16 d in float64. That is the L2 cache for the few thousand rows that it is
// meant for, and latency limits it: one launch for a row that is chosen, where the library needs ten.
__global__ void pivot(int step, const double* __restrict__ before, int64 m, int d, const double* __restrict__ squares,
                      const int64* __restrict__ rows, int n_found, double* __restrict__ after,
                      double* __restrict__ squares_after, int64* __restrict__ rows_after, int64* chosen,
                      double* lengths) {
    const Warps warps;
    Longest newest = {-1.0, 0};
    const double* pivot_row = before;
    double square = 1;
    if (step > 0) {
        square = 0;
        for (int i = warps.lane; i < n_found; i += 32) newest.with(squares[i], rows[i]);
        newest.over_lanes();
        pivot_row = before + newest.row * d;
        for (int j = warps.lane; j < d; j += 32) square += pivot_row[j] * pivot_row[j];
        square = max(sum_of_lanes(square), 1e-300);
        if (warps.first == 0 && warps.lane == 0) {
            chosen[step - 1] = newest.row;
            lengths[step - 1] = newest.square;
        }
    }
    Longest own = {-1.0, 0};
    for (int64 x = warps.first; x < m; x += warps.stride) {
        const double* row = before + x * d;
        double along = 0, left = 0;
        if (step > 0)
            for (int j = warps.lane; j < d; j += 32) along += row[j] * pivot_row[j];
        along = sum_of_lanes(along) / square;
        for (int j = warps.lane; j < d; j += 32) {
            const double value = step > 0 ? row[j] - along * pivot_row[j] : row[j];
            after[x * d + j] = value;
            left += value * value;
        }
        own.with(sum_of_lanes(left), x);
    }
    if (warps.lane == 0) {
        squares_after[warps.first] = own.square;
        rows_after[warps.first] = own.row;
    }
}
