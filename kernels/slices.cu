// Singular value thresholding of a batch of small slices on CUDA, in place: singular values are reduced, to 0 at least.
//
// gpuensemble/_kernels/cuda compiles this file with NVRTC and launches it; gpuensemble/_kernels/cpu/slices/shrinking.py has the
// same function on the CPU, with the same bits: sums have a fixed shape, and every operation is rounded once (--fmad=false).
//
// A slice X has V rows of `length` complex numbers, V from 2 to 8. With X X' = U diag(sigma^2) U', the V x V Gram matrix
// made diagonal by Jacobi's method (for V = 2 one rotation, which is the closed form), the result is
// U diag((1 - threshold / sigma)_+) U' X. All of this is in double precision, also for float; X is multiplied in its own.
//
// Small singular values: the Gram matrix carries an error of the order of eps sigma_1^2, hence sigma one of
// eps sigma_1^2 / sigma. Nothing is lost by it where sigma, or its threshold, is above CARE sigma_1. If a value lies
// below, the slice takes a second look: the Gram matrix of U' X, whose rows are of their own size, one more rotation of
// U; after that the error is of the order of eps sigma_1, as LAPACK's is.

typedef long long int64;

constexpr int THREADS = 128;  // of a block; also the number of sums that run side by side
constexpr double CARE = 1e-4;
constexpr double EPSILON = 2.220446049250313e-16;
constexpr int SWEEPS = 20;  // of Jacobi's method at most

template <typename T>
struct __align__(2 * sizeof(T)) Complex {
    T re, im;
};

// Keeps the compiler from holding V x V shared matrices in registers through a loop: there are not enough for V = 8.
__device__ inline void reload() { asm volatile("" ::: "memory"); }

// Where a slice lies. `period` > 0: rows 2 j and 2 j + 1 are row j of frequency f, and the conjugate of that of -f.
template <typename T>
struct Place {
    Complex<T>* data;
    int64 f, slice_stride, row_stride, step, period;

    __device__ Complex<T>* row(int v) const {
        if (period == 0) return data + f * slice_stride + v * row_stride;
        const int64 frequency = v % 2 && f > 0 ? period - f : f;
        return data + frequency * slice_stride + v / 2 * row_stride;
    }
    __device__ T sign(int v) const { return period > 0 && v % 2 ? T(-1) : T(1); }
    __device__ Complex<T> load(int v, int64 i) const {
        const Complex<T> value = row(v)[i * step];
        return {value.re, sign(v) * value.im};
    }
    __device__ void store(int v, int64 i, Complex<T> value) const {
        row(v)[i * step] = {value.re, sign(v) * value.im};
    }
};

// What the threads of a block share about its slice. The sums of the products x_i conj(x_j) are numbered in the order
// |x_0|^2, re and im of (0, 1), (0, 2), ..., |x_1|^2, ...
template <int V>
struct Shared {
    double sums[THREADS / 32][V * V];
    double gram[2][V][V], rotation[2][V][V], factor[2][V][V];
    double share[V];
    int unsure[V];

    // Columns p and q of row k of a matrix: (x, y) becomes (c x - conj(s) y, s x + c y), s = a + i b.
    static __device__ void turn(double matrix[2][V][V], int k, int p, int q, double cosine, double a, double b) {
        const double x = matrix[0][k][p], xi = matrix[1][k][p], y = matrix[0][k][q], yi = matrix[1][k][q];
        matrix[0][k][p] = cosine * x - (a * y + b * yi);
        matrix[1][k][p] = cosine * xi - (a * yi - b * y);
        matrix[0][k][q] = (a * x - b * xi) + cosine * y;
        matrix[1][k][q] = (a * xi + b * x) + cosine * yi;
    }

    // Jacobi's method by one warp: the Gram matrix becomes diagonal, `rotation` collects the rotations.
    __device__ void diagonalise(int lane) {
        for (int sweep = 0; sweep < SWEEPS; ++sweep) {
            bool turned = false;
            for (int p = 0; p < V - 1; ++p) {
                for (int q = p + 1; q < V; ++q) {
                    const double re = gram[0][p][q], im = gram[1][p][q], low = gram[0][p][p], high = gram[0][q][q];
                    const double square = re * re + im * im;
                    if (!(square > EPSILON * EPSILON * fabs(low * high))) continue;
                    turned = true;
                    const double size = sqrt(square);
                    const double slope = (high - low) / (2 * size);
                    const double root = 1 / (fabs(slope) + sqrt(slope * slope + 1));
                    const double tangent = slope < 0 ? -root : root;
                    const double cosine = 1 / sqrt(tangent * tangent + 1);
                    const double a = tangent * cosine * (re / size), b = tangent * cosine * (im / size);
                    __syncwarp();  // all lanes have read what follows overwrites
                    if (lane < V) turn(rotation, lane, p, q, cosine, a, b);
                    if (lane == p) {
                        gram[0][p][p] = low - tangent * size;
                        gram[0][q][q] = high + tangent * size;
                        gram[0][p][q] = gram[1][p][q] = gram[0][q][p] = gram[1][q][p] = 0;
                    } else if (lane < V && lane != q) {
                        turn(gram, lane, p, q, cosine, a, b);
                        gram[0][p][lane] = gram[0][lane][p];
                        gram[1][p][lane] = -gram[1][lane][p];
                        gram[0][q][lane] = gram[0][lane][q];
                        gram[1][q][lane] = -gram[1][lane][q];
                    }
                    __syncwarp();
                }
            }
            if (!turned) break;
        }
    }

    // The share of component i that is kept, and whether its singular value counts but is too small to be exact.
    __device__ void shrink(int i, double tau, const double* weights) {
        const double square = gram[0][i][i];
        double largest = 0;
        int rank = 0;
        for (int j = 0; j < V; ++j) {
            const double other = gram[0][j][j];
            if (other > largest) largest = other;
            rank += other > square || (other == square && j < i);
        }
        const double sigma = square > 0 ? sqrt(square) : 0;
        const double threshold = weights ? tau * weights[rank] : tau;
        unsure[i] = (sigma > threshold ? sigma : threshold) < CARE * sqrt(largest);
        share[i] = sigma > threshold ? 1 - threshold / sigma : 0;
    }

    // Entry (j, k) of U diag(share) U'.
    __device__ void combine(int j, int k) {
        double re = 0, im = 0;
        for (int i = 0; i < V; ++i) {
            const double a = share[i] * rotation[0][j][i], b = share[i] * rotation[1][j][i];
            const double c = rotation[0][k][i], d = rotation[1][k][i];
            re += a * c + b * d;
            im += b * c - a * d;
        }
        factor[0][j][k] = re;
        factor[1][j][k] = im;
    }

    // Entries (i, j) of the Gram matrix from the sums of the warps, in ascending order.
    __device__ void gather(int i, int j) {
        const int low = i < j ? i : j, high = i < j ? j : i;
        const int cell = low * (2 * V - low) + (i == j ? 0 : 2 * (high - low) - 1);
        double re = 0, im = 0;
        for (int warp = 0; warp < THREADS / 32; ++warp) {
            re += sums[warp][cell];
            if (i != j) im += sums[warp][cell + 1];
        }
        gram[0][i][j] = re;
        gram[1][i][j] = i < j ? im : -im;
    }
};

// The sums of x_i conj(x_j) over the slice by this warp; with ROTATED of y = U' x.
template <bool ROTATED, int V, typename T>
__device__ void sum_products(const Place<T>& place, int64 length, Shared<V>& shared) {
    double sum[V * V] = {};
    for (int64 at = threadIdx.x; at < length; at += THREADS) {
        reload();
        Complex<double> x[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const Complex<T> value = place.load(v, at);
            x[v] = {value.re, value.im};
        }
        if (ROTATED) {
            Complex<double> y[V];
#pragma unroll
            for (int i = 0; i < V; ++i) {
                y[i] = {0, 0};
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    const double a = shared.rotation[0][v][i], b = -shared.rotation[1][v][i];
                    y[i].re += a * x[v].re - b * x[v].im;
                    y[i].im += a * x[v].im + b * x[v].re;
                }
            }
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = y[v];
        }
#pragma unroll
        for (int i = 0; i < V; ++i) {
            const int cell = i * (2 * V - i);
            sum[cell] += x[i].re * x[i].re + x[i].im * x[i].im;
#pragma unroll
            for (int j = i + 1; j < V; ++j) {
                sum[cell + 2 * (j - i) - 1] += x[i].re * x[j].re + x[i].im * x[j].im;
                sum[cell + 2 * (j - i)] += x[i].im * x[j].re - x[i].re * x[j].im;
            }
        }
    }
#pragma unroll
    for (int cell = 0; cell < V * V; ++cell) {
#pragma unroll
        for (int step = 16; step > 0; step /= 2) sum[cell] += __shfl_xor_sync(0xffffffffu, sum[cell], step);
        if (threadIdx.x % 32 == 0) shared.sums[threadIdx.x / 32][cell] = sum[cell];
    }
}

// data: n_slices slices in place; row v of slice f starts at f * slice_stride + v * row_stride, and its entries are
// `step` apart, all counted in complex numbers; `period` as in Place. The singular values of each slice are reduced by
// tau times the weight of their rank (`weights` may be null: all 1), to 0 at least. Blocks have THREADS threads.
//
// Bytes per slice: 2 V `length` complex numbers from and to device memory; the second reading, for the product, finds the
// slice in the L2 cache (V = 2, length 2000 in double: 64 KB a block). Device memory limits it in double; in float, on
// devices with few double units, the V^2 sums do. The batched SVD of CuPy is a Python loop at these shapes, and the plain
// expression (matmul, eigh, matmul) reads the slices twice from device memory and writes a copy.
template <typename T, int V>
__global__ void shrink_slices(T* data, int64 n_slices, int64 length, int64 slice_stride, int64 row_stride, int64 step,
                              int64 period, double tau, const double* __restrict__ weights) {
    __shared__ Shared<V> shared;
    const int thread = threadIdx.x;
    for (int64 f = blockIdx.x; f < n_slices; f += gridDim.x) {
        const Place<T> place = {reinterpret_cast<Complex<T>*>(data), f, slice_stride, row_stride, step, period};
        if (thread < V * V) {
            shared.rotation[0][thread / V][thread % V] = thread / V == thread % V;
            shared.rotation[1][thread / V][thread % V] = 0;
        }
        bool unsure = true;
        for (int look = 0; look < 2 && unsure; ++look) {
            if (look == 0)
                sum_products<false, V>(place, length, shared);
            else
                sum_products<true, V>(place, length, shared);
            __syncthreads();
            if (thread < V * V) shared.gather(thread / V, thread % V);
            __syncthreads();
            if (thread < 32) shared.diagonalise(thread);
            if (thread < V) shared.shrink(thread, tau, weights);  // the same warp
            __syncthreads();
            unsure = false;
            for (int i = 0; i < V; ++i) unsure |= shared.unsure[i] != 0;
        }
        if (thread < V * V) shared.combine(thread / V, thread % V);
        __syncthreads();
        for (int64 at = thread; at < length; at += THREADS) {
            reload();
            Complex<T> x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = place.load(v, at);
#pragma unroll
            for (int i = 0; i < V; ++i) {
                Complex<T> y = {0, 0};
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    const T a = static_cast<T>(shared.factor[0][i][j]), b = static_cast<T>(shared.factor[1][i][j]);
                    y.re += a * x[j].re - b * x[j].im;
                    y.im += a * x[j].im + b * x[j].re;
                }
                place.store(i, at, y);
            }
        }
    }
}
