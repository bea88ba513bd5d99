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

// The matrices of a step; those in the columns of Z have K rows for each of X, g, T and D g, in this order.
struct Curve {
    Block block;
    const double *gram, *centre;
    int K;
    double *move, *even, *odd, *across, *inverse, *shift, *error, *raw, *s, *image, *column;

    __device__ Curve(double* sums, const double* gram_, const double* centre_, int K_, double* move_, double* work)
        : block{sums}, gram(gram_), centre(centre_), K(K_), move(move_) {
        const int size = K * K;
        even = work;
        odd = even + size;
        across = odd + size;
        inverse = across + size;
        shift = inverse + size;
        error = shift + size;
        raw = error + size;
        s = raw + 2 * size;
        image = s + 2 * size;
        column = image + 4 * size;
    }
    static __device__ double identity(int i, int j) { return i == j; }
    __device__ double M(int i, int j) const { return gram[static_cast<int64>(i) * 4 * K + j]; }

    // Entry (i, j) of the first n columns of gram times x.
    __device__ double times(int i, int j, const double* x, int n) const {
        return dot(n, [&](int m) { return M(i, m); }, [&](int m) { return x[m * K + j]; });
    }
    // Entry (i, j) of S x.
    __device__ double centred(int i, int j, const double* x) const {
        return dot(K, [&](int m) { return centre[i * K + m]; }, [&](int m) { return x[m * K + j]; });
    }
    // The inner product of two matrices in the columns of Z, of n and m rows.
    __device__ double inner(const double* x, int n, const double* y, int m) const {
        return block.sum(n, K, [&](int i, int j) { return x[i * K + j] * times(i, j, y, m); });
    }

    // The parts of X'g, even and odd, the inner products of the part of g that is orthogonal to X; returns |W|^2.
    __device__ double divide(double* square) const {
        block.fill(even, K, K, [&](int i, int j) { return (M(i, K + j) + M(j, K + i)) / 2; });
        block.fill(odd, K, K, [&](int i, int j) { return (M(i, K + j) - M(j, K + i)) / 2; });
        block.fill(across, K, K, [&](int i, int j) {
            return M(K + i, K + j) - dot(K, [&](int m) { return M(m, K + i); }, [&](int m) { return M(m, K + j); });
        });
        *square = block.sum(K, 1, [&](int i, int) { return M(K + i, K + i); });
        return 2 * (*square + block.sum(K, K, [&](int i, int j) {
            return odd[i * K + j] * odd[i * K + j] - even[i * K + j] * even[i * K + j];
        }));
    }
    // s: what the step eta adds to X, in the columns of [X g].
    __device__ void go(double eta) const {
        const auto turned = [&](int i, int j) { return 2 * eta * odd[i * K + j] + eta * eta * across[i * K + j]; };
        block.fill(inverse, K, K, [&](int i, int j) { return identity(i, j) + turned(i, j); });
        block.invert(inverse, column, K);
        block.fill(shift, K, K, [&](int i, int j) {
            const auto left = [&](int m) { return 2 * eta * even[i * K + m] - eta * eta * across[i * K + m]; };
            return dot(K, left, [&](int m) { return inverse[m * K + j]; }) -
                   dot(K, [&](int m) { return inverse[i * K + m]; }, [&](int m) { return turned(m, j); });
        });
        block.fill(move, 2 * K, K, [&](int i, int j) {
            return i < K ? identity(i, j) + shift[i * K + j] : -2 * eta * inverse[(i - K) * K + j];
        });
        // How far the columns of the new point are from orthonormal: half of it is taken away.
        block.fill(raw, 2 * K, K, [&](int i, int j) { return times(i, j, move, 2 * K); });
        block.fill(error, K, K, [&](int i, int j) {
            const auto left = [&](int m) { return move[m * K + i]; };
            return dot(2 * K, left, [&](int m) { return raw[m * K + j]; }) - identity(i, j);
        });
        block.fill(s, 2 * K, K, [&](int i, int j) {
            const auto half = [&](int m) { return error[m * K + j] / 2; };
            return (i < K ? shift : move)[i * K + j] - dot(K, [&](int m) { return move[i * K + m]; }, half);
        });
    }
    // What s adds to the value: its inner product with the gradient and half of D s.
    __device__ double change() const {
        block.fill(raw, 2 * K, K, [&](int i, int j) { return identity(i, j) + s[i * K + j] / 2; });
        block.fill(image, 4 * K, K, [&](int i, int j) {
            if (i < K) return centred(i, j, raw);
            return i < 2 * K ? raw[(i - K) * K + j] : s[(i - 2 * K) * K + j] / 2;
        });
        return inner(s, 2 * K, image, 4 * K);
    }
    // move: the new point in the columns of [X g]; after: its S; image: how the gradient within the manifold changes.
    __device__ void settle(double* after) const {
        block.fill(move, 2 * K, K, [&](int i, int j) { return identity(i, j) + s[i * K + j]; });
        block.fill(image, 4 * K, K, [&](int i, int j) {
            if (i < K) return centred(i, j, move);
            return i < 2 * K ? move[(i - K) * K + j] : s[(i - 2 * K) * K + j];
        });
        block.fill(raw, 2 * K, K, [&](int i, int j) { return times(i, j, image, 4 * K); });
        const auto product = [&](int i, int j) {
            return dot(2 * K, [&](int m) { return move[m * K + i]; }, [&](int m) { return raw[m * K + j]; });
        };
        block.fill(after, K, K, [&](int i, int j) { return (product(i, j) + product(j, i)) / 2; });
        block.fill(image, 2 * K, K, [&](int i, int j) {
            const auto right = [&](int m) { return after[m * K + j]; };
            const double part = dot(K, [&](int m) { return move[i * K + m]; }, right);
            return (i < K ? image[i * K + j] + even[i * K + j] : s[(i - K) * K + j]) - part;
        });
    }
    // Half of the long or short step of Barzilai and Borwein.
    __device__ double following(bool is_long) const {
        const double sy = fabs(inner(s, 2 * K, image, 4 * K));
        const double numerator = is_long ? inner(s, 2 * K, s, 2 * K) : sy;
        const double divisor = is_long ? sy : inner(image, 4 * K, image, 4 * K);
        return divisor > 0 ? 0.5 * numerator / divisor : 0;
    }
};

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
__global__ void curve(const T* __restrict__ gram, int K, int is_long, int max_trials, double decrease, double max_turn,
                      double noise, const T* __restrict__ centre, const T* __restrict__ step, T* move, T* after,
                      T* next, T* work) {
    __shared__ double sums[32];
    const Curve curve(sums, gram, centre, K, move, work);
    double square;
    const double turn = curve.divide(&square);
    const bool still = !(turn > noise * EPSILON * square);
    const double radian = still ? 0 : 1 / sqrt(turn), first = *step > 0 ? *step : 0.1 * radian;
    double eta = first < max_turn * radian ? first : max_turn * radian;
    bool accepted = false;
    for (int trial = 0; trial < max_trials && !still && !accepted; ++trial) {
        curve.go(eta);
        const double change = curve.change(), expected = eta * turn;
        accepted = change <= -decrease * expected;
        if (!accepted) {  // the minimum of the parabola, but between 1/10 and 1/2 of the step
            const double ratio = expected / (2 * (change + expected));
            eta *= ratio > 0.1 ? (ratio < 0.5 ? ratio : 0.5) : 0.1;
        }
    }
    if (accepted) {
        curve.settle(after);
        eta = curve.following(is_long);
    } else {
        curve.block.fill(move, 2 * K, K, [&](int i, int j) { return Curve::identity(i, j); });
        curve.block.fill(after, K, K, [&](int i, int j) { return centre[i * K + j] + curve.even[i * K + j]; });
        eta = still ? *step : 0;
    }
    if (threadIdx.x == 0) *next = eta;
}
