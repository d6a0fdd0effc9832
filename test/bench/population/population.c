/*
 * A job that looks like data-parallel training to whoever samples /proc, and costs next to nothing itself:
 *
 *     root -> RANKS ranks (executed, with RANK and LOCAL_RANK) -> WORKERS forked children each
 *
 * Every process has THREADS threads, all but the first asleep for good, and every PERIOD ms writes and reads back 4 KiB of
 * a file of its own. CHURN > 0: each rank kills and reaps its workers every CHURN ms and forks new ones, as a training
 * loop does with its DataLoader at the end of an epoch.
 *
 * population root RANKS WORKERS THREADS PERIOD CHURN FOLDER
 * population stamp             print CLOCK_MONOTONIC in ns: the first thing a job does
 * population cpu|io N FOLDER   N rounds of work; print the nanoseconds they took, by the clock and of CPU
 *
 * Built by test/bench. The binary's name matters: ptlaunch takes the topmost process called python with a RANK for a rank.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ranks, workers, threads, period, churn;
static const char *folder;

static void fail(const char *what) {
	perror(what);
	_exit(1);
}

static void sleep_ms(long ms) {
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	while (nanosleep(&t, &t) < 0 && errno == EINTR) {
	}
}

static void *asleep(void *unused) {
	for (;;)
		pause();
	return unused;
}

/* A child dies with its parent: nothing may be left on the machine when the benchmark is killed. */
static void follow(pid_t parent) {
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
}

static void start_threads(void) {
	pthread_attr_t a;
	pthread_t t;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 65536);
	for (int i = 1; i < threads; i++)
		if ((errno = pthread_create(&t, &a, asleep, NULL)))
			fail("start a thread");
}

static int open_own(void) {
	char path[4096];
	snprintf(path, sizeof path, "%s/%d", folder, getpid());
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		fail(path);
	unlink(path);
	return fd;
}

static void do_io(int fd) {
	static char buf[4096];
	if (pwrite(fd, buf, sizeof buf, 0) != sizeof buf || pread(fd, buf, sizeof buf, 0) != sizeof buf)
		fail("write and read");
}

static void worker(int index) {
	prctl(PR_SET_NAME, "pt_data_worker"); /* as PyTorch's workers call themselves */
	start_threads();
	int fd = open_own();
	sleep_ms(index * 7919L % period); /* not all at once */
	for (;;) {
		do_io(fd);
		sleep_ms(period);
	}
}

static void fork_workers(pid_t *pids) {
	pid_t self = getpid();
	for (int i = 0; i < workers; i++) {
		pid_t p = fork();
		if (p < 0)
			fail("fork a worker");
		if (p == 0) {
			follow(self);
			worker(i);
		}
		pids[i] = p;
	}
}

static void rank(void) {
	pid_t *pids = calloc(workers + 1, sizeof *pids);
	if (!pids)
		fail("allocate");
	fork_workers(pids); /* before the threads: as PyTorch's ranks fork from their main thread */
	start_threads();
	int fd = open_own();
	int step = churn > 0 && churn < period ? churn : period;
	for (long t = 0;; t += step) {
		do_io(fd);
		sleep_ms(step);
		if (churn > 0 && (t + step) / churn > t / churn) {
			for (int i = 0; i < workers; i++)
				kill(pids[i], SIGTERM);
			for (int i = 0; i < workers; i++)
				waitpid(pids[i], NULL, 0);
			fork_workers(pids);
		}
	}
}

static long long now(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A loop that only computes, or one that only reads and writes: whether somebody watches must not show in either. */
static int work(const char *kind, long rounds) {
	volatile unsigned sum = 0;
	int fd = open_own();
	long long wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	for (long i = 0; i < rounds; i++) {
		if (!strcmp(kind, "io"))
			do_io(fd);
		else
			for (int k = 0; k < 1000; k++)
				sum = sum * 1664525u + 1013904223u;
	}
	printf("%lld %lld\n", now(CLOCK_MONOTONIC) - wall, now(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	return 0;
}

int main(int argc, char **argv) {
	if (argc == 2 && !strcmp(argv[1], "stamp"))
		return printf("%lld\n", now(CLOCK_MONOTONIC)) < 0;
	if (argc == 4) {
		folder = argv[3];
		return work(argv[1], atol(argv[2]));
	}
	if (argc != 8) {
		fprintf(stderr, "usage: %s root|rank RANKS WORKERS THREADS PERIOD CHURN FOLDER\n", argv[0]);
		return 2;
	}
	ranks = atoi(argv[2]), workers = atoi(argv[3]), threads = atoi(argv[4]);
	period = atoi(argv[5]), churn = atoi(argv[6]), folder = argv[7];
	if (!strcmp(argv[1], "rank"))
		rank();
	pid_t self = getpid();
	for (int i = 0; i < ranks; i++) {
		pid_t p = fork();
		if (p < 0)
			fail("fork a rank");
		if (p > 0)
			continue;
		follow(self);
		char text[16];
		snprintf(text, sizeof text, "%d", i);
		setenv("RANK", text, 1);
		setenv("LOCAL_RANK", text, 1);
		snprintf(text, sizeof text, "%d", ranks);
		setenv("WORLD_SIZE", text, 1);
		argv[1] = "rank";
		execv("/proc/self/exe", argv);
		fail("execute a rank");
	}
	start_threads();
	for (;;)
		pause();
}
