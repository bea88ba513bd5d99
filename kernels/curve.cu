// The search for PCE's F on CUDA: the rows that it depends on, and a step of it from their inner products.
//
// gpuensemble/_kernels/cuda/pce/curve.py compiles this file with NVRTC and launches it; cpu/pce/curve.py has the same
// functions on the CPU, and says what they compute: `frame` with the same bits (--fmad=false), `curve` but for
// rounding.

typedef long long int64;

constexpr unsigned WARP = 0xffffffffu;
constexpr double EPSILON = 2.220446049250313e-16;

// out, n x 4K: X, g = D X - T - X S, T = V^2 mean + table[labels], and D g, with D = V^2 + gamma; product is X S.
//
// A thread owns an entry, so that neighbours read and write neighbours. Bytes per row: 3 K numbers, a reliability and a
// label read, 4 K numbers written; the table from L1. Memory bandwidth limits it. The plain expressions would be nine
// launches, with 20 K numbers read and written.
template <typename T>
__global__ void frame(const T* __restrict__ points, const T* __restrict__ product, const T* __restrict__ mean,
                      const T* __restrict__ reliability, const int* __restrict__ labels, const T* __restrict__ table,
                      T gamma, int64 n, int K, T* __restrict__ out) {
    const int64 stride = static_cast<int64>(gridDim.x) * blockDim.x;
    for (int64 at = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; at < n * K; at += stride) {
        const int64 row = at / K;
        const int k = static_cast<int>(at % K);
        const T x = points[at], square = reliability[row] * reliability[row], diagonal = square + gamma;
        const T target = mean[at] * square + table[static_cast<int64>(labels[row]) * K + k];
        const T gradient = diagonal * x - target - product[at];
        T* entry = out + row * 4 * K + k;
        entry[0] = x;
        entry[K] = gradient;
        entry[2 * K] = target;
        entry[3 * K] = diagonal * gradient;
    }
}

// What the threads of the one block of `curve` share. Matrices are row-major; loops over entries end in a barrier.
struct Block {
    double* sums;  // a place for each warp

    template <typename Entry>
    __device__ void fill(double* out, int rows, int columns, Entry entry) const {
        for (int at = threadIdx.x; at < rows * columns; at += blockDim.x) out[at] = entry(at / columns, at % columns);
        __syncthreads();
    }

    // The sum of entry(i, j), in every thread, in a fixed order.
    template <typename Entry>
    __device__ double sum(int rows, int columns, Entry entry) const {
        double value = 0;
        for (int at = threadIdx.x; at < rows * columns; at += blockDim.x) value += entry(at / columns, at % columns);
#pragma unroll
        for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(WARP, value, step);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
        __syncthreads();
        double total = 0;
        for (int warp = 0; warp < blockDim.x / 32; ++warp) total += sums[warp];
        __syncthreads();  // before the next sum
        return total;
    }

    // The inverse of a K x K matrix in its place, by Gauss and Jordan. Its symmetric part is at least I, so that no
    // pivot is small. `column` has K numbers.
    __device__ void invert(double* matrix, double* column, int K) const {
        for (int pivot = 0; pivot < K; ++pivot) {
            const double inverse = 1 / matrix[pivot * K + pivot];
            for (int i = threadIdx.x; i < K; i += blockDim.x) column[i] = matrix[i * K + pivot];
            __syncthreads();
            for (int j = threadIdx.x; j < K; j += blockDim.x)
                matrix[pivot * K + j] = (j == pivot ? 1 : matrix[pivot * K + j]) * inverse;
            __syncthreads();
            for (int at = threadIdx.x; at < K * K; at += blockDim.x) {
                const int i = at / K, j = at % K;
                if (i != pivot) matrix[at] = (j == pivot ? 0 : matrix[at]) - column[i] * matrix[pivot * K + j];
            }
            __syncthreads();
        }
    }
};

// The sum of left(m) * right(m) over m < length.
template <typename Left, typename Right>
__device__ double dot(int length, Left left, Right right) {
    double sum = 0;
    for (int m = 0; m < length; ++m) sum += left(m) * right(m);
    return sum;
}

// A step of the search from gram = Z'Z, 4K x 4K, Z the rows of `frame` with S = centre: see cpu/pce/curve.py.
//   step    what to try first; 0: a tenth of a radian
//   move    2K x K: the new point is [X g] @ move
//   after   K x K: S at the new point
//   next    what to try next
//   work    14 K^2 + K numbers
// One block, since each product waits for the one before it. Bytes: 16 K^2 * 8 of gram for each of four products; all
// of it stays in L1. Some 30 barriers, and 3 K for the inverse, limit it: K = 10, about 20 microseconds for each trial.
// As expressions it would be some 60 launches, and a host that waits for each trial. A template of the only type that
// it has, so that asking for `frame` does not compile it.
template <typename T>
__global__ void curve(const T* __restrict__ gram, int K, int is_long, int max_trials, double decrease,
                      double max_turn, double noise, const T* __restrict__ centre, const T* __restrict__ step,
                      T* move, T* after, T* next, T* work) {
    __shared__ double sums[32];
    const Block block = {sums};
    const int K2 = 2 * K, K4 = 4 * K, size = K * K;
    double *even = work, *odd = even + size, *across = odd + size, *inverse = across + size, *shift = inverse + size;
    double *error = shift + size, *raw = error + size, *s = raw + 2 * size, *image = s + 2 * size;
    double* column = image + 4 * size;
    const auto M = [&](int i, int j) { return gram[static_cast<int64>(i) * K4 + j]; };
    const auto I = [](int i, int j) { return i == j ? 1.0 : 0.0; };
    // Parts of X'g, symmetric and skew; the inner products of the part of g that is orthogonal to X.
    block.fill(even, K, K, [&](int i, int j) { return (M(i, K + j) + M(j, K + i)) / 2; });
    block.fill(odd, K, K, [&](int i, int j) { return (M(i, K + j) - M(j, K + i)) / 2; });
    block.fill(across, K, K, [&](int i, int j) {
        return M(K + i, K + j) - dot(K, [&](int m) { return M(m, K + i); }, [&](int m) { return M(m, K + j); });
    });
    const double square = block.sum(K, 1, [&](int i, int) { return M(K + i, K + i); });
    const double inside = block.sum(K, K, [&](int i, int j) {
        return odd[i * K + j] * odd[i * K + j] - even[i * K + j] * even[i * K + j];
    });
    const double turn = 2 * (square + inside);  // |W|^2
    const bool still = !(turn > noise * EPSILON * square);
    double eta = *step;
    if (!still) {
        const double radian = 1 / sqrt(turn);
        eta = eta > 0 ? eta : 0.1 * radian;
        eta = eta < max_turn * radian ? eta : max_turn * radian;
    }
    bool accepted = false;
    for (int trial = 0; trial < max_trials && !still && !accepted; ++trial) {
        block.fill(inverse, K, K, [&](int i, int j) {
            return I(i, j) + (2 * eta * odd[i * K + j] + eta * eta * across[i * K + j]);
        });
        block.invert(inverse, column, K);
        block.fill(shift, K, K, [&](int i, int j) {
            return dot(K, [&](int m) { return -inverse[i * K + m]; },
                       [&](int m) { return 2 * eta * odd[m * K + j] + eta * eta * across[m * K + j]; }) +
                   dot(K, [&](int m) { return 2 * eta * even[i * K + m] - eta * eta * across[i * K + m]; },
                       [&](int m) { return inverse[m * K + j]; });
        });
        // move = [I + shift; -2 eta inverse] (I - error / 2): error is how far the columns are from orthonormal.
        block.fill(move, K2, K, [&](int i, int j) {
            return i < K ? I(i, j) + shift[i * K + j] : -2 * eta * inverse[(i - K) * K + j];
        });
        block.fill(raw, K2, K, [&](int i, int j) {
            return dot(K2, [&](int m) { return M(i, m); }, [&](int m) { return move[m * K + j]; });
        });
        block.fill(error, K, K, [&](int i, int j) {
            return dot(K2, [&](int m) { return move[m * K + i]; }, [&](int m) { return raw[m * K + j]; }) - I(i, j);
        });
        block.fill(s, K2, K, [&](int i, int j) {
            const double start = i < K ? shift[i * K + j] : move[i * K + j];
            return start - dot(K, [&](int m) { return move[i * K + m]; }, [&](int m) { return error[m * K + j] / 2; });
        });
        // The slope along s, and half of the change of the gradient, D s.
        block.fill(image, K4, K, [&](int i, int j) {
            const int row = i % K;
            const auto lead = [&](int m) { return I(m, j) + s[m * K + j] / 2; };
            if (i < K) return dot(K, [&](int m) { return centre[i * K + m]; }, lead);
            return i < K2 ? lead(row) : i < 3 * K ? s[row * K + j] / 2 : s[(K + row) * K + j] / 2;
        });
        const double change = block.sum(K2, K, [&](int i, int j) {
            return s[i * K + j] * dot(K4, [&](int m) { return M(i, m); }, [&](int m) { return image[m * K + j]; });
        });
        const double expected = eta * turn;
        accepted = change <= -decrease * expected;
        if (!accepted) {  // the minimum of the parabola, but between 1/10 and 1/2 of the step
            const double ratio = expected / (2 * (change + expected));
            eta *= ratio > 0.1 ? (ratio < 0.5 ? ratio : 0.5) : 0.1;
        }
    }
    if (!accepted) {
        block.fill(move, K2, K, [&](int i, int j) { return I(i, j); });
        block.fill(after, K, K, [&](int i, int j) { return centre[i * K + j] + even[i * K + j]; });
        if (threadIdx.x == 0) *next = still ? eta : 0;
        return;
    }
    block.fill(move, K2, K, [&](int i, int j) { return I(i, j) + s[i * K + j]; });
    // The gradient among all matrices at the new point, S P + P + T (P - I) + Q in the columns of Z.
    block.fill(image, K4, K, [&](int i, int j) {
        const int row = i % K;
        if (i < K) return dot(K, [&](int m) { return centre[i * K + m]; }, [&](int m) { return move[m * K + j]; });
        return i < K2 ? move[row * K + j] : i < 3 * K ? s[row * K + j] : s[(K + row) * K + j];
    });
    block.fill(raw, K2, K, [&](int i, int j) {
        return dot(K4, [&](int m) { return M(i, m); }, [&](int m) { return image[m * K + j]; });
    });
    const auto inner = [&](int i, int j) {
        return dot(K2, [&](int m) { return move[m * K + i]; }, [&](int m) { return raw[m * K + j]; });
    };
    block.fill(after, K, K, [&](int i, int j) { return (inner(i, j) + inner(j, i)) / 2; });
    // What the gradient within the manifold has changed by.
    block.fill(image, K2, K, [&](int i, int j) {
        const double within = dot(K, [&](int m) { return move[i * K + m]; }, [&](int m) { return after[m * K + j]; });
        return (i < K ? image[i * K + j] + even[i * K + j] : s[(i - K) * K + j]) - within;
    });
    const auto times = [&](const double* left, int n_left, const double* right, int n_right) {
        return block.sum(n_left, K, [&](int i, int j) {
            const double product = dot(n_right, [&](int m) { return M(i, m); }, [&](int m) { return right[m * K + j]; });
            return left[i * K + j] * product;
        });
    };
    const double sy = fabs(times(s, K2, image, K4));
    const double numerator = is_long ? times(s, K2, s, K2) : sy, divisor = is_long ? sy : times(image, K4, image, K4);
    if (threadIdx.x == 0) *next = divisor > 0 ? 0.5 * numerator / divisor : 0;
}
