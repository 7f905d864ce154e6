/* Loaded before libc: the n-th call of the armed kind fails, is cut short, or ends the process.
 *
 *     cc -shared -fPIC -O1 -o fault.so fault.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NO_SPACE = 1, IO_ERROR = 2, SHORT = 3, KILL = 4 };
enum { WRITES = 1, READS = 2 };

static long left = -1, seen = 0;
static int what = 0, where = 0;

/* Arm: call number n (from 0) of the family (WRITES or READS) meets the fault; n < 0 only counts. */
void fault_arm(int family, int fault, long n) { where = family; what = fault; left = n; seen = 0; }
long fault_seen(void) { return seen; }

static int hit(int family) {
    if (family != where) return 0;
    seen++;
    if (left < 0 || left-- > 0) return 0;
    where = 0; /* once */
    if (what == KILL) raise(SIGKILL);
    errno = what == NO_SPACE ? ENOSPC : EIO;
    return what;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t n) {
    REAL(write);
    int fault = fd > 2 ? hit(WRITES) : 0;
    if (fault == SHORT) return real(fd, data, n > 1 ? n / 2 : n);
    return fault ? -1 : real(fd, data, n);
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL(writev);
    int fault = fd > 2 ? hit(WRITES) : 0;
    if (fault == SHORT) return real(fd, parts, 1);
    return fault ? -1 : real(fd, parts, n);
}

ssize_t read(int fd, void *data, size_t n) {
    REAL(read);
    int fault = fd > 2 ? hit(READS) : 0;
    if (fault == SHORT) return real(fd, data, n > 1 ? n / 2 : n);
    return fault ? -1 : real(fd, data, n);
}

/* Of these, SHORT is no fault: the call is made as it is. */
#define PLAIN(type, name, family, parameters, arguments)   \
    type name parameters {                                 \
        REAL(name);                                        \
        int fault = hit(family);                           \
        return fault && fault != SHORT ? -1 : real arguments; \
    }
PLAIN(int, fsync, WRITES, (int fd), (fd))
PLAIN(int, rename, WRITES, (const char *from, const char *to), (from, to))
PLAIN(int, link, WRITES, (const char *from, const char *to), (from, to))
PLAIN(int, linkat, WRITES, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
PLAIN(int, unlink, WRITES, (const char *path), (path))
PLAIN(int, chmod, WRITES, (const char *path, mode_t mode), (path, mode))
PLAIN(int, flock, WRITES, (int fd, int operation), (fd, operation))

#define OPENING(name)                                                 \
    int name(const char *path, int flags, ...) {                      \
        REAL(name);                                                   \
        va_list more;                                                 \
        va_start(more, flags);                                        \
        mode_t mode = (flags & O_CREAT) ? va_arg(more, mode_t) : 0;   \
        va_end(more);                                                 \
        int fault = hit((flags & O_CREAT) ? WRITES : READS);          \
        return fault && fault != SHORT ? -1 : real(path, flags, mode); \
    }
OPENING(open)
OPENING(open64)
