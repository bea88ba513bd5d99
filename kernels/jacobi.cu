// One-sided Jacobi rotations on CUDA: the rows of each matrix of a stack are turned into each other, in place, until they are
// orthogonal, which is a singular value decomposition.
//
// gpuensemble/_kernels/cuda compiles this file with NVRTC and launches it; gpuensemble/_kernels/cpu/slices/jacobi.py has the
// same function on the CPU, with the same bits: sums have a fixed shape, and every operation is rounded once (--fmad=false).
//
// With R unitary and the rows of Y = R X orthogonal, their lengths are the singular values of X. The kernel is given any such
// R and Y, and turns rows p and q of both until no two rows of Y are further from orthogonal than rounding. Small singular
// values are as exact as large ones, since each pair is judged by its own lengths; a Gram matrix could not do that. It is fast
// where Y is almost orthogonal to begin with: the caller takes the eigenvectors of X X' for R.
//
// In a sweep every row meets every other one, in laps of a tournament: in a lap each row is in one pair at most, so that the
// warps turn pairs side by side. Products are summed in double precision, also for float; rows are turned in their own.

typedef long long int64;

constexpr int WARPS = 16;    // of a block at most
constexpr int SWEEPS = 100;  // at most; from eigenvectors it is 3, and 18 where singular values fall by 12 decades

// One number: real, or with PARTS = 2 real and imaginary part.
template <typename T, int PARTS>
struct __align__(PARTS * sizeof(T)) Number {
    T part[PARTS];
};

// |x|^2, |y|^2 and x y' of two rows.
struct Products {
    double xx, yy, re, im;
};

__device__ inline double over_warp(double sum) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}

template <typename T, int PARTS>
__device__ Products products(const Number<T, PARTS>* x, const Number<T, PARTS>* y, int64 length) {
    Products sum = {0, 0, 0, 0};
    for (int64 at = threadIdx.x % 32; at < length; at += 32) {
        const Number<T, PARTS> one = x[at], two = y[at];
        const double a = one.part[0], c = two.part[0];
        if (PARTS == 1) {
            sum.xx += a * a;
            sum.yy += c * c;
            sum.re += a * c;
        } else {
            const double b = one.part[PARTS - 1], d = two.part[PARTS - 1];
            sum.xx += a * a + b * b;
            sum.yy += c * c + d * d;
            sum.re += a * c + b * d;
            sum.im += b * c - a * d;
        }
    }
    return {over_warp(sum.xx), over_warp(sum.yy), over_warp(sum.re), PARTS == 1 ? 0 : over_warp(sum.im)};
}

// Rows x and y become c x - s y and conj(s) x + c y, s = a + i b, written with h = 1 - c: a rounded c would stretch all of
// a row, and rotation by rotation more.
template <typename T, int PARTS>
__device__ void turn(Number<T, PARTS>* x, Number<T, PARTS>* y, int64 length, T h, T a, T b) {
    for (int64 at = threadIdx.x % 32; at < length; at += 32) {
        const Number<T, PARTS> one = x[at], two = y[at];
        const T u = one.part[0], v = two.part[0];
        if (PARTS == 1) {
            x[at] = {u - (h * u + a * v)};
            y[at] = {v + (a * u - h * v)};
        } else {
            const T ui = one.part[PARTS - 1], vi = two.part[PARTS - 1];
            Number<T, PARTS> first, second;
            first.part[0] = u - (h * u + (a * v - b * vi));
            first.part[PARTS - 1] = ui - (h * ui + (a * vi + b * v));
            second.part[0] = v + ((a * u + b * ui) - h * v);
            second.part[PARTS - 1] = vi + ((a * ui - b * u) - h * vi);
            x[at] = first;
            y[at] = second;
        }
    }
}

// data: n_slices matrices of n_rows x length numbers, the rows to make orthogonal; turns: n_slices matrices n_rows x n_rows,
// whose rows are turned with them; a slice is left alone if wanted[f] is 0. Two rows are orthogonal if the cosine between them
// is at most `tolerance`; a row counts as zero if its length is at most `noise` times the longest one's. Blocks have whole
// warps, WARPS at most, and a slice each; a warp for each pair of a lap is best.
//
// Bytes per sweep of a slice: n_rows^2 / 2 pairs read 2 rows, and a pair that is turned writes them, and reads and writes 2
// rows of `turns`. From eigenvectors a slice of 40 x 40 in double has 25 KB with its turns, one of 100 x 100 160 KB: the
// sweeps run in the L1 or L2 cache, whose bandwidth limits it. CuPy's batched SVD stops at 32 x 32, and is a loop of gesvd on
// the host beyond.
template <typename T, int PARTS>
__global__ void __launch_bounds__(32 * WARPS, 1) orthogonalise(T* data, T* turns, const unsigned char* wanted,
                              int64 n_slices, int n_rows, int64 length, double tolerance, double noise) {
    __shared__ double longest_of[WARPS];
    __shared__ int turned_by[WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32, size = n_rows + n_rows % 2;
    for (int64 f = blockIdx.x; f < n_slices; f += gridDim.x) {
        Number<T, PARTS>* rows = reinterpret_cast<Number<T, PARTS>*>(data) + f * n_rows * length;
        Number<T, PARTS>* with = reinterpret_cast<Number<T, PARTS>*>(turns) + f * n_rows * n_rows;
        bool turned = wanted[f];
        for (int sweep = 0; sweep < SWEEPS && turned; ++sweep) {
            double longest = 0;
            for (int i = warp; i < n_rows; i += warps) {
                const double square = products(rows + i * length, rows + i * length, length).xx;
                if (square > longest) longest = square;
            }
            if (lane == 0) longest_of[warp] = longest;
            __syncthreads();
            for (int other = 0; other < warps; ++other)
                if (longest_of[other] > longest) longest = longest_of[other];
            const double floor = noise * noise * longest;
            bool mine = false;
            for (int lap = 0; lap < size - 1; ++lap) {
                for (int k = warp; k < size / 2; k += warps) {
                    const int one = (lap + k) % (size - 1);
                    const int two = k ? (lap - k + size - 1) % (size - 1) : size - 1;
                    const int p = one < two ? one : two, q = one < two ? two : one;
                    if (q >= n_rows) continue;
                    const Products of = products(rows + p * length, rows + q * length, length);
                    const double square = of.re * of.re + of.im * of.im;
                    if (!(square > tolerance * tolerance * of.xx * of.yy && of.xx > floor && of.yy > floor)) continue;
                    mine = true;
                    const double part = sqrt(square);
                    const double slope = (of.yy - of.xx) / (2 * part);
                    const double root = 1 / (fabs(slope) + sqrt(slope * slope + 1));
                    const double tangent = slope < 0 ? -root : root;
                    const double cosine = 1 / sqrt(tangent * tangent + 1);
                    const double sine = tangent * cosine;
                    const T h = static_cast<T>(sine * sine / (1 + cosine));
                    const T a = static_cast<T>(sine * (of.re / part));
                    const T b = static_cast<T>(sine * (of.im / part));
                    turn(rows + p * length, rows + q * length, length, h, a, b);
                    turn(with + int64(p) * n_rows, with + int64(q) * n_rows, n_rows, h, a, b);
                }
                __syncthreads();
            }
            if (lane == 0) turned_by[warp] = mine;
            __syncthreads();
            turned = false;
            for (int other = 0; other < warps; ++other) turned |= turned_by[other] != 0;
        }
    }
}
