//go:build cgo

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture.h"

struct ptlaunch_inherited ptlaunch_inherited;

// The kernel's own layout of the first word; glibc's sigaction refuses signals 32 and 33, the system call does not.
struct kernel_sigaction {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

// Runs before the Go runtime: the entry point is libc's, which calls constructors first.
__attribute__((constructor)) static void ptlaunch_capture(void) {
	int saved = errno;
	for (int sig = 1; sig <= 64; sig++) {
		struct kernel_sigaction sa = {0};
		if (syscall(SYS_rt_sigaction, sig, (void *)0, &sa, sizeof(uint64_t)) == 0 && sa.handler == (void *)SIG_IGN)
			ptlaunch_inherited.ignored |= (uint64_t)1 << (sig - 1);
	}
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, (void *)0, &ptlaunch_inherited.blocked, sizeof(uint64_t));
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			ptlaunch_inherited.closed |= 1 << fd;
	errno = saved;
}
