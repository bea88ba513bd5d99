// Lets g++ compile a CUDA file as C++17. shim.cpp is the runtime, shim.py the loader.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#define __global__ __attribute__((noinline))
#define __device__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Blocks run one after another on one system thread. thread_local puts the variables into a segment of their own,
// which is how the runtime finds them, also those of templates, for which g++ ignores a section attribute.
// Without `used` g++ takes a variable that no code writes for a constant 0, and the checker would not see it read.
#define __shared__ static thread_local __attribute__((used))
#define DYNAMIC_SHARED(type, name) type* name = static_cast<type*>(shim::dynamic_shared())

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };

// Calls, not variables: a variable would be one more place in memory for the checker to know.
#define threadIdx shim::thread_index()
#define blockIdx shim::block_index()
#define blockDim shim::block_size()
#define gridDim shim::grid_size()
constexpr int warpSize = 32;

namespace shim {

uint3 thread_index();
uint3 block_index();
dim3 block_size();
dim3 grid_size();
void* dynamic_shared();

enum class WarpOp { barrier, index, exclusive_or, down, up };
void block_barrier(int line);
std::uint64_t warp_exchange(WarpOp op, unsigned mask, std::uint64_t value, int operand, int width, int line);
void atomic_access(const void* address, std::size_t bytes);

template <typename To, typename From>
To same_bits(From from) {
    To to = 0;
    __builtin_memcpy(&to, &from, sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From));
    return to;
}

template <typename T>
T shuffle(WarpOp op, unsigned mask, T value, int operand, int width, int line) {
    static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "CUDA shuffles 4 or 8 bytes");
    return same_bits<T>(warp_exchange(op, mask, same_bits<std::uint64_t>(value), operand, width, line));
}

// Out of the sanitizer's sight, which would take it for a plain read and a plain write.
template <typename T, typename Change>
__attribute__((noinline, no_sanitize("thread", "undefined"))) T atomic(T* address, Change change) {
    atomic_access(address, sizeof(T));
    const T old = *address;
    *address = change(old);
    return old;
}

// A kernel and its parameters, as the loader sees them. `kind` and `bytes` are those of the value, or of what a
// pointer points to.
struct Parameter {
    int is_pointer, is_const, bytes;
    char kind;  // 'f' floating, 'i' integral, 'x' other
};

struct Kernel {
    const char* name;
    void (*call)(void** arguments);
    const Parameter* parameters;
    int n_parameters;
};

template <typename P>
constexpr Parameter parameter() {
    using Value = std::remove_pointer_t<P>;
    return {std::is_pointer_v<P>, std::is_const_v<Value>, sizeof(Value),
            std::is_floating_point_v<Value> ? 'f' : std::is_integral_v<Value> ? 'i' : 'x'};
}

template <auto function>
struct Entry;

template <typename... A, void (*function)(A...)>
struct Entry<function> {
    static constexpr Parameter parameters[] = {parameter<A>()..., {}};

    // Not sanitized: the arguments lie in the loader's memory.
    template <std::size_t... I>
    __attribute__((no_sanitize("thread", "undefined"))) static void call(void** arguments, std::index_sequence<I...>) {
        function(*static_cast<A*>(arguments[I])...);
    }

    static constexpr Kernel kernel(const char* name) {
        return {name, [](void** arguments) { call(arguments, std::index_sequence_for<A...>()); }, parameters,
                sizeof...(A)};
    }
};

}  // namespace shim

inline void __syncthreads(int line = __builtin_LINE()) { shim::block_barrier(line); }

inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
    shim::warp_exchange(shim::WarpOp::barrier, mask, 0, 0, warpSize, line);
}

#define SHIM_SHUFFLE(name, op, Operand)                                                                            \
    template <typename T>                                                                                          \
    T name(unsigned mask, T value, Operand operand, int width = warpSize, int line = __builtin_LINE()) {           \
        return shim::shuffle(shim::WarpOp::op, mask, value, static_cast<int>(operand), width, line);               \
    }
SHIM_SHUFFLE(__shfl_sync, index, int)
SHIM_SHUFFLE(__shfl_xor_sync, exclusive_or, int)
SHIM_SHUFFLE(__shfl_down_sync, down, unsigned)
SHIM_SHUFFLE(__shfl_up_sync, up, unsigned)

// Only the types that CUDA has.
#define SHIM_ATOMIC_ADD(T) \
    inline T atomicAdd(T* address, T value) { return shim::atomic(address, [=](T old) -> T { return old + value; }); }
#define SHIM_ATOMIC_REST(T)                                                                                        \
    inline T atomicMin(T* address, T value) {                                                                      \
        return shim::atomic(address, [=](T old) -> T { return value < old ? value : old; });                       \
    }                                                                                                              \
    inline T atomicMax(T* address, T value) {                                                                      \
        return shim::atomic(address, [=](T old) -> T { return value > old ? value : old; });                       \
    }                                                                                                              \
    inline T atomicExch(T* address, T value) { return shim::atomic(address, [=](T) -> T { return value; }); }      \
    inline T atomicCAS(T* address, T expected, T value) {                                                          \
        return shim::atomic(address, [=](T old) -> T { return old == expected ? value : old; });                   \
    }
SHIM_ATOMIC_ADD(int)
SHIM_ATOMIC_ADD(unsigned)
SHIM_ATOMIC_ADD(unsigned long long)
SHIM_ATOMIC_ADD(float)
SHIM_ATOMIC_ADD(double)
SHIM_ATOMIC_REST(int)
SHIM_ATOMIC_REST(unsigned)
SHIM_ATOMIC_REST(unsigned long long)

template <typename T> T __ldg(const T* address) { return *address; }
template <typename T> T min(T a, T b) { return b < a ? b : a; }
template <typename T> T max(T a, T b) { return a < b ? b : a; }
inline float __int_as_float(int value) { return shim::same_bits<float>(value); }
inline int __float_as_int(float value) { return shim::same_bits<int>(value); }
inline double __longlong_as_double(long long value) { return shim::same_bits<double>(value); }
inline long long __double_as_longlong(double value) { return shim::same_bits<long long>(value); }
