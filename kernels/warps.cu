// What kernels share whose warps take one task at a time: rows, centres or sets.

typedef long long int64;
typedef unsigned long long uint64;

template <typename T> __device__ T infinity();
template <> __device__ float infinity<float>() { return __int_as_float(0x7f800000); }
template <> __device__ double infinity<double>() { return __longlong_as_double(0x7ff0000000000000LL); }

// The warps of a grid, each of which takes one task at a time.
struct Warps {
    int lane;
    int64 first, stride;

    __device__ Warps() {
        const int per_block = blockDim.x / 32;
        lane = threadIdx.x % 32;
        first = static_cast<int64>(blockIdx.x) * per_block + threadIdx.x / 32;
        stride = static_cast<int64>(gridDim.x) * per_block;
    }
};

// A sum over the lanes of a warp, which all of them get.
__device__ double sum_of_lanes(double value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}
