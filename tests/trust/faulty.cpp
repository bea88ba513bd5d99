// Preloaded into a process, this makes one of its calls go wrong: the N-th that changes a file below a folder, or the
// N-th large allocation. A full disk stays full: every later change fails, too. Death comes in the middle of a write.
// What a C library writes from its own buffers does not come by here; a limit on the size of files shows that.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {
constexpr int KILL = -1;
char folder[4096], names[1 << 16];
std::atomic<long> calls{0}, large{0};
long bad_call = 0, bad_allocation = 0;
size_t large_bytes = SIZE_MAX;
int how = 0;

template <class F> F next(F, const char *name) { return reinterpret_cast<F>(dlsym(RTLD_NEXT, name)); }
#define REAL(name) next(&::name, #name)

bool below(const char *path) { return *folder && strncmp(path, folder, strlen(folder)) == 0; }

bool below(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = *folder ? readlink(link, path, sizeof path - 1) : -1;
    return n > 0 && (path[n] = 0, below(path));
}

// Counts a call; whether it is to go wrong.
bool wrong(const char *name) {
    long n = ++calls;
    if (strlen(names) + strlen(name) + 2 < sizeof names) strcat(strcat(names, name), " ");
    bool now = bad_call && (how == ENOSPC ? n >= bad_call : n == bad_call);
    if (now && how == KILL) kill(getpid(), SIGKILL);
    if (now) errno = how;
    return now;
}

bool no_room(size_t bytes) { return bytes >= large_bytes && ++large == bad_allocation && (errno = ENOMEM); }
}  // namespace

extern "C" {
void faulty_arm(const char *where, long call, int what) {
    bad_call = call, how = what, calls = 0, *names = 0;
    strcpy(folder, where);
}
const char *faulty_calls() { return names; }
void faulty_arm_memory(size_t bytes, long allocation) { large_bytes = bytes, bad_allocation = allocation, large = 0; }
long faulty_allocations() { return large; }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = va_arg(more, mode_t); \
        va_end(more); \
        bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT); \
        return writes && below(path) && wrong("open") ? -1 : REAL(name)(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = va_arg(more, mode_t); \
        va_end(more); \
        bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT); \
        return writes && below(path) && wrong("open") ? -1 : REAL(name)(at, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int file, const void *data, size_t n) {
    if (!below(file)) return REAL(write)(file, data, n);
    bool first = calls + 1 == bad_call;
    if (first && (how == KILL || how == ENOSPC)) {
        ssize_t done = REAL(write)(file, data, n / 2);
        return wrong("write") && done > 0 ? done : -1;
    }
    return wrong("write") ? -1 : REAL(write)(file, data, n);
}

#define CHANGE(result, name, parameters, arguments, place) \
    result name parameters { return below(place) && wrong(#name) ? (result)-1 : REAL(name) arguments; }
CHANGE(ssize_t, pwrite, (int file, const void *data, size_t n, off_t at), (file, data, n, at), file)
CHANGE(ssize_t, pwrite64, (int file, const void *data, size_t n, off64_t at), (file, data, n, at), file)
CHANGE(int, fsync, (int file), (file), file)
CHANGE(int, fdatasync, (int file), (file), file)
CHANGE(int, ftruncate, (int file, off_t n), (file, n), file)
CHANGE(int, ftruncate64, (int file, off64_t n), (file, n), file)
CHANGE(int, chmod, (const char *path, mode_t mode), (path, mode), path)
CHANGE(int, fchmod, (int file, mode_t mode), (file, mode), file)
CHANGE(int, fchmodat, (int at, const char *path, mode_t mode, int flags), (at, path, mode, flags), path)
CHANGE(int, link, (const char *path, const char *other), (path, other), other)
CHANGE(int, rename, (const char *path, const char *other), (path, other), other)
CHANGE(int, renameat, (int a, const char *path, int b, const char *other), (a, path, b, other), other)
int unlink(const char *path) {
    if (below(path)) wrong("unlink");  // death only: what cannot be removed has to stay
    return REAL(unlink)(path);
}
CHANGE(int, mkdir, (const char *path, mode_t mode), (path, mode), path)

#define MAP(name, offset) \
    void *name(void *at, size_t n, int allows, int flags, int file, offset from) { \
        bool writes = (flags & MAP_SHARED) && (allows & PROT_WRITE) && file >= 0; \
        return writes && below(file) && wrong("mmap") ? MAP_FAILED : REAL(name)(at, n, allows, flags, file, from); \
    }
MAP(mmap, off_t)
MAP(mmap64, off64_t)

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *malloc(size_t n) { return no_room(n) ? nullptr : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return no_room(n * size) ? nullptr : __libc_calloc(n, size); }
void *realloc(void *old, size_t n) { return no_room(n) ? nullptr : __libc_realloc(old, n); }
}
