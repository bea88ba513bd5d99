// Runs the kernels of one file on the CPU and checks how they use barriers, shuffles and memory.
//
// Every CUDA thread of a block is a fiber: a stack of its own, left and resumed with _setjmp and _longjmp. A barrier
// or a shuffle leaves the fiber until all that must meet there have come. Blocks run one after another. The first
// error ends the launch: its fibers are abandoned where they stand, which kernels allow as they own nothing.
//
// The kernel file compiled with -fsanitize=thread reports every access to memory to the __tsan_ functions below,
// which take the place of that sanitizer's own library. What is checked there, per byte:
//   - it belongs to an argument, to shared memory or to the thread's own stack; to write it, not to a const argument;
//   - it was written before it is read, if it is shared memory or an argument that came uninitialised;
//   - no two threads use it unordered, unless both read it or both use atomics. A block barrier orders the threads
//     of a block, __syncwarp the lanes it names, a shuffle orders nothing, and nothing orders two blocks.
#include "shim.h"

#include <link.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr unsigned max_threads = 1024;
constexpr std::size_t max_dynamic_shared = 227 << 10;  // what no device has more of; shim.py knows what a kernel may have
constexpr std::size_t stack_bytes = 64 << 10;
constexpr std::size_t red_zone = 4 << 10;  // around dynamic shared memory, and behind the null pointer
constexpr unsigned char garbage = 0xa5;    // what uninitialised shared memory holds

enum class State { ready, at_block_barrier, at_warp_op, exited };

struct Thread {
    unsigned number;
    State state;
    int line;  // of the barrier or shuffle it waits at
    shim::WarpOp op;
    unsigned mask;
    unsigned source;  // lane to receive from
    std::uint64_t sent, received;
    std::uint32_t seen[warpSize];  // per lane of the warp: up to which of its __syncwarp it is ordered before this one

    unsigned lane() const { return number % warpSize; }
};

// Where a thread goes on. Its fiber runs that thread of each block in turn.
struct Fiber {
    bool is_started;
    jmp_buf resume;
};

struct Buffer {
    const char* begin;
    std::int64_t bytes;
    int argument, is_read_only, is_uninitialised;
};

struct Launch {
    const shim::Kernel* kernel;
    dim3 grid, block;
    std::int64_t dynamic_shared;
    int is_checked, is_reversed;
    void** arguments;
    const Buffer* buffers;
    int n_buffers;
    char* stacks;  // the loader's, for all launches: to map such an amount of memory anew costs more than most launches
};

Launch launch;
uint3 block;                // the one that runs
std::int64_t block_number;  // of that block, counted from 1 in the order of running
std::uint32_t epoch;        // counts block barriers and starts of blocks
std::vector<Thread> threads;
std::vector<Fiber> fibers;  // one for each thread
unsigned n_at_barrier;
Thread* current;
jmp_buf scheduler;
ucontext_t entry;  // of a fiber
alignas(16) char dynamic_shared[red_zone + max_dynamic_shared + red_zone];
thread_local char in_static_shared;  // lies in one segment with the kernels' __shared__ variables
char message[600];

uint3 index_of(std::int64_t number, dim3 size) {
    return {static_cast<unsigned>(number % size.x), static_cast<unsigned>(number / size.x % size.y),
            static_cast<unsigned>(number / size.x / size.y)};
}

template <typename... Values>
void report(const Thread& thread, const char* kind, const char* format, Values... values) {
    const uint3 at = index_of(thread.number, launch.block);
    const int length = snprintf(message, sizeof message, "%s: %.150s, block (%u, %u, %u), thread (%u, %u, %u): ", kind,
                                launch.kernel->name, block.x, block.y, block.z, at.x, at.y, at.z);
    snprintf(message + length, sizeof message - length, format, values...);
}

// Ends the launch from inside a fiber.
template <typename... Values>
[[noreturn]] void fail(const char* kind, const char* format, Values... values) {
    report(*current, kind, format, values...);
    _longjmp(scheduler, 1);
}

// -------------------------------------------------------------------------------- fibers

char* stack_of(const Thread& thread) { return launch.stacks + thread.number * stack_bytes; }

void yield() {
    if (!_setjmp(fibers[current->number].resume)) _longjmp(scheduler, 1);
}

void run_thread() {
    while (true) {
        launch.kernel->call(launch.arguments);
        current->state = State::exited;
        yield();  // until the next block
    }
}

void start(Thread& thread) {
    fibers[thread.number].is_started = true;
    entry.uc_stack.ss_sp = stack_of(thread);
    entry.uc_stack.ss_size = stack_bytes;
    makecontext(&entry, run_thread, 0);
    setcontext(&entry);
}

void resume(Thread& thread) {
    current = &thread;
    if (_setjmp(scheduler)) return;
    if (!fibers[thread.number].is_started) start(thread);
    _longjmp(fibers[thread.number].resume, 1);
}

// -------------------------------------------------------------------------------- warps

// As the PTX instruction shfl defines it: beyond the segment of `width` lanes means the own value.
unsigned source_lane(shim::WarpOp op, unsigned lane, unsigned operand, unsigned width) {
    const unsigned first = lane / width * width, last = first + width - 1;
    const unsigned step = operand % warpSize;
    unsigned source = lane;
    if (op == shim::WarpOp::index) source = first + operand % width;
    if (op == shim::WarpOp::exclusive_or) source = lane ^ step;
    if (op == shim::WarpOp::down) source = lane + step;
    if (op == shim::WarpOp::up && step <= lane - first) source = lane - step;
    return source <= last ? source : lane;
}

template <typename Visit>
void for_lanes(unsigned mask, Visit visit) {
    for (unsigned lane = 0; lane < warpSize; ++lane)
        if (mask >> lane & 1) visit(lane);
}

// Lane `lane` of the thread's warp, null if the block ends before it.
const Thread* neighbour(const Thread& thread, unsigned lane) {
    const unsigned number = thread.number - thread.lane() + lane;
    return number < threads.size() ? &threads[number] : nullptr;
}

bool waits_with(const Thread* other, const Thread& thread) {
    return other && other->state == State::at_warp_op && other->op == thread.op && other->mask == thread.mask;
}

// Stricter than CUDA, which lets a mask name lanes that have exited.
bool have_all_lanes_come(const Thread& thread) {
    bool all = true;
    for_lanes(thread.mask, [&](unsigned lane) { all = all && waits_with(neighbour(thread, lane), thread); });
    return all;
}

void order_lanes(Thread* warp, unsigned mask) {
    std::uint32_t seen[warpSize] = {};
    for_lanes(mask, [&](unsigned lane) {
        for (int other = 0; other < warpSize; ++other) seen[other] = std::max(seen[other], warp[lane].seen[other]);
    });
    for_lanes(mask, [&](unsigned lane) {
        std::copy(seen, seen + warpSize, warp[lane].seen);
        ++warp[lane].seen[lane];
    });
}

void complete_warp_op(Thread& thread) {
    Thread* warp = &thread - thread.lane();
    if (thread.op == shim::WarpOp::barrier) order_lanes(warp, thread.mask);
    for_lanes(thread.mask, [&](unsigned lane) {
        warp[lane].received = warp[warp[lane].source].sent;
        warp[lane].state = State::ready;
    });
}

// -------------------------------------------------------------------------------- memory

enum Kind : unsigned char { reads = 1, writes = 2, updates = 4 };  // updates: an atomic

const char* verb(int kinds) { return kinds & writes ? "writes" : kinds & updates ? "updates" : "reads"; }

int racing_with(Kind kind) {
    return kind == reads ? writes | updates : kind == updates ? reads | writes : reads | writes | updates;
}

struct Access {
    unsigned thread;
    std::uint32_t clock;  // of that thread: its own entry of `seen`
    Kind kind;
};

struct Byte {
    std::int64_t block = 0;
    std::uint32_t epoch = 0;
    unsigned char kinds = 0, kinds_of_earlier_blocks = 0;
    unsigned char kinds_of_accesses = 0;
    bool is_written = false;
    std::vector<Access> accesses;            // since the last block barrier, from the last plain write on
    std::vector<std::uint64_t> accessed_by;  // where they are many, a bit for each thread and kind of them

    void forget() {
        accesses.clear();
        accessed_by.clear();
        kinds_of_accesses = 0;
    }

    // Whether that thread and kind were marked; from now on they are.
    bool mark(unsigned thread, Kind kind) {
        const unsigned place = 3 * thread + kind / 2;
        const std::uint64_t bit = std::uint64_t(1) << place % 64;
        const bool was_marked = accessed_by[place / 64] & bit;
        accessed_by[place / 64] |= bit;
        return was_marked;
    }

    // The access of that thread and kind, null if there is none: the caller then adds it.
    Access* find(unsigned thread, Kind kind) {
        if (accesses.size() > 16) {  // often all threads of a block read a byte: none should look at all others
            if (accessed_by.empty()) {
                accessed_by.resize(3 * max_threads / 64);
                for (const Access& access : accesses) mark(access.thread, access.kind);
            }
            if (!mark(thread, kind)) return nullptr;
        }
        const auto known = std::find_if(accesses.rbegin(), accesses.rend(), [&](const Access& access) {
            return access.thread == thread && access.kind == kind;
        });
        return known == accesses.rend() ? nullptr : &*known;
    }
};

struct Region {
    const char* begin;
    std::size_t size;
    int argument;  // -1: shared memory
    bool is_read_only, is_written;
    std::vector<Byte> bytes;

    bool is_shared() const { return argument < 0; }
    bool holds(const char* address, std::size_t n) const { return address >= begin && address + n <= begin + size; }
    std::size_t distance(const char* address) const {
        return address < begin ? begin - address : address < begin + size ? 0 : address - begin - size;
    }
};

std::vector<Region> regions;

struct Attempt {
    const char* address;
    std::size_t size;
    Kind kind;

    // Ends the launch with "writes 4 bytes at offset 40 of argument 3 (40 bytes)", and what is added.
    template <typename... Values>
    [[noreturn]] void refuse(const char* error, const Region& region, const char* format = "", Values... values) const {
        char where[24] = "shared memory", why[100];
        if (!region.is_shared()) snprintf(where, sizeof where, "argument %d", region.argument);
        snprintf(why, sizeof why, format, values...);
        fail(error, "%s %zu bytes at offset %td of %s (%zu bytes)%s", verb(kind), size, address - region.begin, where,
             region.size, why);
    }
};

bool is_ordered_before(const Access& access, const Thread& thread) {
    if (access.thread == thread.number) return true;
    if (access.thread / warpSize != thread.number / warpSize) return false;
    return access.clock <= thread.seen[access.thread % warpSize];
}

// Drops what the block or the barriers have put behind.
void bring_up_to_date(Byte& byte, const Region& region) {
    if (byte.block != block_number) {
        if (region.is_shared()) byte.is_written = false;
        else byte.kinds_of_earlier_blocks |= byte.kinds;
        byte.kinds = 0;
        byte.block = block_number;
    }
    if (byte.epoch != epoch) {
        byte.forget();
        byte.epoch = epoch;
    }
}

void check_byte(const Byte& byte, const Region& region, const Attempt& attempt) {
    const int racing = racing_with(attempt.kind);
    if (attempt.kind != writes && !byte.is_written) attempt.refuse("uninitialised", region, ", never written");
    if (const int kinds = byte.kinds_of_earlier_blocks & racing)
        attempt.refuse("race", region, ", which another block %s", verb(kinds));
    if (!(byte.kinds_of_accesses & racing)) return;
    for (const Access& access : byte.accesses)
        if (access.kind & racing && !is_ordered_before(access, *current)) {
            const uint3 other = index_of(access.thread, launch.block);
            attempt.refuse("race", region, ", which thread (%u, %u, %u) %s with no barrier between", other.x, other.y,
                           other.z, verb(access.kind));
        }
}

void remember(Byte& byte, Kind kind) {
    const Access access = {current->number, current->seen[current->lane()], kind};
    byte.kinds |= kind;
    byte.is_written = byte.is_written || kind != reads;
    // A write without a race is ordered after all before it: what races with them races with the write.
    if (kind == writes) byte.forget();
    byte.kinds_of_accesses |= kind;
    if (Access* known = byte.find(access.thread, kind)) known->clock = access.clock;
    else byte.accesses.push_back(access);
}

[[noreturn]] void refuse_out_of_bounds(const Attempt& attempt) {
    if (attempt.address < reinterpret_cast<char*>(red_zone))
        fail("out of bounds", "%s through a null pointer", verb(attempt.kind));
    attempt.refuse("out of bounds", *std::min_element(regions.begin(), regions.end(), [&](auto& a, auto& b) {
        return a.distance(attempt.address) < b.distance(attempt.address);
    }));
}

void check(const void* pointer, std::size_t size, Kind kind) {
    const Attempt attempt = {static_cast<const char*>(pointer), size, kind};
    const char* stack = stack_of(*current);
    if (attempt.address >= stack && attempt.address + size <= stack + stack_bytes) return;
    const auto region = std::find_if(regions.begin(), regions.end(), [&](const Region& candidate) {
        return candidate.holds(attempt.address, size);
    });
    if (region == regions.end()) refuse_out_of_bounds(attempt);
    if (region->is_read_only && kind != reads) attempt.refuse("read-only", *region);
    if (region->is_read_only) return;
    for (std::size_t i = 0; i < size; ++i) {
        Byte& byte = region->bytes[attempt.address - region->begin + i];
        bring_up_to_date(byte, *region);
        check_byte(byte, *region, attempt);
        remember(byte, kind);
    }
}

int find_static_shared(dl_phdr_info* info, std::size_t, void* found) {
    char* begin = static_cast<char*>(info->dlpi_tls_data);
    for (int i = 0; begin && i < info->dlpi_phnum; ++i) {
        const Region region = {begin, info->dlpi_phdr[i].p_memsz, -1, false, false, {}};
        if (info->dlpi_phdr[i].p_type != PT_TLS || !region.holds(&in_static_shared, 1)) continue;
        *static_cast<Region*>(found) = region;
        return 1;
    }
    return 0;
}

void lay_out_memory() {
    in_static_shared = 1;  // the segment does not exist before its first use
    Region static_shared = {};
    dl_iterate_phdr(find_static_shared, &static_shared);
    regions = {static_shared,
               {dynamic_shared + red_zone, static_cast<std::size_t>(launch.dynamic_shared), -1, false, false, {}}};
    for (const Buffer* buffer = launch.buffers; buffer < launch.buffers + launch.n_buffers; ++buffer)
        regions.push_back({buffer->begin, static_cast<std::size_t>(buffer->bytes), buffer->argument,
                           buffer->is_read_only != 0, !buffer->is_uninitialised, {}});
    if (!launch.is_checked) return;
    for (Region& region : regions) {
        if (!region.is_read_only) region.bytes.resize(region.size);
        for (Byte& byte : region.bytes) byte.is_written = region.is_written;
    }
}

// -------------------------------------------------------------------------------- launches

void begin_block(std::int64_t number) {
    block = index_of(number, launch.grid);
    ++block_number;
    ++epoch;
    n_at_barrier = 0;
    for (const Region& region : regions)
        if (region.is_shared()) std::memset(const_cast<char*>(region.begin), garbage, region.size);
    for (unsigned i = 0; i < threads.size(); ++i) {
        threads[i] = {};
        threads[i].number = i;
        threads[i].seen[i % warpSize] = 1;
    }
}

struct Whereabouts {
    char text[40];

    explicit Whereabouts(const Thread* thread) {
        if (!thread) snprintf(text, sizeof text, "is not in the block");
        else if (thread->state == State::exited) snprintf(text, sizeof text, "has exited");
        else snprintf(text, sizeof text, "waits in line %d", thread->line);
    }
};

void report_deadlock(const Thread& thread) {
    unsigned lane = 0;
    while (!(thread.mask >> lane & 1) || waits_with(neighbour(thread, lane), thread)) ++lane;
    report(thread, "deadlock", "waits in line %d with mask %08x for lane %u, which %s", thread.line, thread.mask, lane,
           Whereabouts(neighbour(thread, lane)).text);
}

void report_divergence(const Thread& thread) {
    const Thread& other = *std::find_if(threads.begin(), threads.end(), [](const Thread& candidate) {
        return candidate.state != State::at_block_barrier;
    });
    const uint3 at = index_of(other.number, launch.block);
    report(thread, "barrier divergence", "waits at the barrier in line %d for thread (%u, %u, %u), which %s",
           thread.line, at.x, at.y, at.z, Whereabouts(&other).text);
}

// No thread can go on: reports one that waits for a lane, else one that waits at a barrier, else all is well.
void report_stuck() {
    for (const State state : {State::at_warp_op, State::at_block_barrier})
        for (const Thread& thread : threads)
            if (thread.state == state)
                return state == State::at_warp_op ? report_deadlock(thread) : report_divergence(thread);
}

void run_block(std::int64_t number) {
    begin_block(number);
    for (bool any = true; any;) {
        any = false;
        for (std::size_t i = 0; i < threads.size(); ++i) {
            Thread& thread = threads[launch.is_reversed ? threads.size() - 1 - i : i];
            if (thread.state != State::ready) continue;
            resume(thread);
            if (*message) return;
            any = true;
        }
    }
    report_stuck();
}

bool is_launchable() {
    const dim3 grid = launch.grid, size = launch.block;
    const std::uint64_t n_threads = std::uint64_t(size.x) * size.y * size.z;
    if (n_threads == 0 || n_threads > max_threads)
        snprintf(message, sizeof message, "block size: %.150s: %u x %u x %u threads, not 1 to %u", launch.kernel->name,
                 size.x, size.y, size.z, max_threads);
    else if (grid.x - 1 >= 0x7fffffff || grid.y - 1 >= 65535 || grid.z - 1 >= 65535)
        snprintf(message, sizeof message, "grid size: %.150s: %u x %u x %u blocks", launch.kernel->name, grid.x,
                 grid.y, grid.z);
    else if (static_cast<std::uint64_t>(launch.dynamic_shared) > max_dynamic_shared)
        snprintf(message, sizeof message, "shared memory: %.150s: %lld dynamic bytes, not 0 to %zu",
                 launch.kernel->name, static_cast<long long>(launch.dynamic_shared), max_dynamic_shared);
    return !*message;
}

}  // namespace

// Runs a launch; returns null, or one line about the first error.
extern "C" __attribute__((visibility("default"))) const char* shim_launch(const Launch* given) {
    launch = *given;
    *message = 0;
    block_number = 0;
    if (!is_launchable()) return message;
    lay_out_memory();
    threads.resize(launch.block.x * launch.block.y * launch.block.z);
    fibers.assign(threads.size(), {});
    getcontext(&entry);
    const std::int64_t n_blocks = std::int64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
    for (std::int64_t i = 0; i < n_blocks && !*message; ++i) run_block(launch.is_reversed ? n_blocks - 1 - i : i);
    regions.clear();
    return *message ? message : nullptr;
}

// -------------------------------------------------------------------------------- called by kernels

uint3 shim::thread_index() { return index_of(current->number, launch.block); }
uint3 shim::block_index() { return block; }
dim3 shim::block_size() { return launch.block; }
dim3 shim::grid_size() { return launch.grid; }
void* shim::dynamic_shared() { return ::dynamic_shared + red_zone; }

void shim::block_barrier(int line) {
    current->state = State::at_block_barrier;
    current->line = line;
    if (++n_at_barrier < threads.size()) return yield();
    for (Thread& thread : threads) {
        if (thread.line != line) fail("barrier divergence", "waits in line %d, others in line %d", line, thread.line);
        thread.state = State::ready;
    }
    n_at_barrier = 0;
    ++epoch;
}

std::uint64_t shim::warp_exchange(WarpOp op, unsigned mask, std::uint64_t value, int operand, int width, int line) {
    Thread& thread = *current;
    if (!(mask >> thread.lane() & 1)) fail("mask", "mask %08x in line %d does not name the caller", mask, line);
    if (width < 1 || width > warpSize || width & (width - 1)) fail("width", "shuffle width %d in line %d", width, line);
    thread.source = source_lane(op, thread.lane(), operand, width);
    if (!(mask >> thread.source & 1))
        fail("mask", "mask %08x in line %d does not name lane %u, which is read", mask, line, thread.source);
    thread.state = State::at_warp_op;
    thread.op = op;
    thread.mask = mask;
    thread.sent = value;
    thread.line = line;
    if (have_all_lanes_come(thread)) complete_warp_op(thread);
    else yield();
    return thread.received;
}

void shim::atomic_access(const void* address, std::size_t bytes) {
    if (launch.is_checked) check(address, bytes, updates);
}

// -------------------------------------------------------------------------------- called by sanitized code

#define SHIM_ACCESS(name, bytes)                                                             \
    extern "C" void __tsan_##name##read##bytes(void* address) { check(address, bytes, reads); } \
    extern "C" void __tsan_##name##write##bytes(void* address) { check(address, bytes, writes); }
SHIM_ACCESS(, 1)
SHIM_ACCESS(, 2)
SHIM_ACCESS(, 4)
SHIM_ACCESS(, 8)
SHIM_ACCESS(, 16)
SHIM_ACCESS(unaligned_, 2)
SHIM_ACCESS(unaligned_, 4)
SHIM_ACCESS(unaligned_, 8)
SHIM_ACCESS(unaligned_, 16)
extern "C" void __tsan_read_range(void* address, std::size_t bytes) { check(address, bytes, reads); }
extern "C" void __tsan_write_range(void* address, std::size_t bytes) { check(address, bytes, writes); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}

struct SourceLocation {
    const char* file;
    std::uint32_t line, column;
};

#define SHIM_UNDEFINED(name, kind, what)                                            \
    extern "C" void __ubsan_handle_##name##_abort(const SourceLocation* location) { \
        fail(kind, what " in line %u", location->line);                             \
    }
SHIM_UNDEFINED(out_of_bounds, "out of bounds", "array index")
SHIM_UNDEFINED(shift_out_of_bounds, "undefined", "shift")
SHIM_UNDEFINED(add_overflow, "undefined", "integer overflow")
SHIM_UNDEFINED(sub_overflow, "undefined", "integer overflow")
SHIM_UNDEFINED(mul_overflow, "undefined", "integer overflow")
SHIM_UNDEFINED(negate_overflow, "undefined", "integer overflow")
SHIM_UNDEFINED(divrem_overflow, "undefined", "integer division by zero")
