//go:build cgo

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
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

// Signals that the Go runtime catches and drops until somebody asks for them. Held back from here on, they wait for the
// supervisor to ask: one that is sent in our first milliseconds reaches the job.
static const int dropped[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGIO, SIGPWR};

static void hold_back(void) {
	uint64_t set = 0;
	for (unsigned i = 0; i < sizeof dropped / sizeof dropped[0]; i++)
		set |= (uint64_t)1 << (dropped[i] - 1);
	for (int sig = 35; sig <= 64; sig++)
		set |= (uint64_t)1 << (sig - 1);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, (void *)0, sizeof(uint64_t));
}

// Runs before the Go runtime: the entry point is libc's, which calls constructors first. glibc passes the arguments of main;
// only the form that runs a job has a "--", and nothing else is to be started with signals blocked.
__attribute__((constructor)) static void ptlaunch_capture(int argc, char **argv) {
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
#ifdef __GLIBC__
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--") == 0) {
			hold_back();
			break;
		}
#endif
	errno = saved;
}
