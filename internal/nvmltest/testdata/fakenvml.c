/* A stand-in for NVIDIA's libnvidia-ml.so.1, driven by a text file.
 *
 * The file's name is in FAKE_NVML_SCENARIO. It is read again at every call, so a test changes a GPU by writing the file.
 * Each line is
 *
 *     AT GPU KEY VALUE
 *
 * AT     seconds after this library was loaded from which the line holds; of several that hold, the last counts
 * GPU    0, 1, …; 0/0 for a MIG instance of GPU 0; * for all; - for what belongs to no GPU
 * KEY    what is asked for: see the calls below
 * VALUE  a number or text; "error N" returns NVML's code N; "hang" never returns; "hang S" returns after S seconds,
 *        with the value of the line before it
 *
 * A key without a line is "not supported" (3). Types and constants are as in nvml.h, declared here again so that no
 * header of NVIDIA's is needed. -DWITHOUT_TEMPERATURE leaves that symbol out, as an old driver would. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <limits.h>

typedef int ret_t;
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7 };
struct dev { char id[16]; };
typedef struct dev *dev_t_;

static struct timespec loaded;
static struct dev devices[64], instances[64];

__attribute__((constructor)) static void load(void) {
	clock_gettime(CLOCK_MONOTONIC, &loaded);
	for (int i = 0; i < 64; i++) snprintf(devices[i].id, sizeof devices[i].id, "%d", i);
	for (int i = 0; i < 64; i++) snprintf(instances[i].id, sizeof instances[i].id, "%d/%d", i / 8, i % 8);
}

static double elapsed(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)(t.tv_sec - loaded.tv_sec) + (double)(t.tv_nsec - loaded.tv_nsec) / 1e9;
}

/* find copies the value of a key, and returns NVML's code. It may never return. */
static ret_t find(const char *gpu, const char *key, char *value, size_t size) {
	const char *name = getenv("FAKE_NVML_SCENARIO");
	FILE *f = name ? fopen(name, "r") : NULL;
	char line[4096], hang[64] = "";
	int found = 0;
	double now = elapsed();
	if (!f) return NOT_SUPPORTED;
	while (fgets(line, sizeof line, f)) {
		double at; char g[16], k[64]; int n = 0;
		line[strcspn(line, "\n")] = 0;
		if (line[0] == '#' || sscanf(line, "%lf %15s %63s %n", &at, g, k, &n) < 3 || n == 0) continue;
		if (at > now || strcmp(k, key) || (strcmp(g, "*") && strcmp(g, gpu))) continue;
		if (!strncmp(line + n, "hang", 4)) { snprintf(hang, sizeof hang, "%s", line + n); continue; }
		snprintf(value, size, "%s", line + n);
		hang[0] = 0;
		found = 1;
	}
	fclose(f);
	if (hang[0]) {
		double s = atof(hang + 4);
		if (s <= 0) for (;;) pause();
		usleep((useconds_t)(s * 1e6));
	}
	if (!found) return NOT_SUPPORTED;
	if (!strncmp(value, "error ", 6)) return atoi(value + 6);
	return OK;
}

static ret_t text(dev_t_ d, const char *key, char *out, unsigned size) {
	char v[4096];
	ret_t r = find(d->id, key, v, sizeof v);
	if (r == OK) snprintf(out, size, "%s", v);
	return r;
}

static ret_t number(const char *gpu, const char *key, unsigned long long *out) {
	char v[4096];
	ret_t r = find(gpu, key, v, sizeof v);
	if (r == OK) *out = strtoull(v, NULL, 0);
	return r;
}

static ret_t small(const char *gpu, const char *key, unsigned *out) {
	unsigned long long n = 0;
	ret_t r = number(gpu, key, &n);
	if (r == OK) *out = (unsigned)n;
	return r;
}

const char *nvmlErrorString(ret_t r) { (void)r; return "fake error"; }

/* Keys of the library: init, shutdown (0 when without a line), count. */
ret_t nvmlInit_v2(void) { unsigned n; ret_t r = small("-", "init", &n); return r == NOT_SUPPORTED ? OK : r; }
ret_t nvmlInit(void) { return nvmlInit_v2(); }
ret_t nvmlInitWithFlags(unsigned f) { (void)f; return nvmlInit_v2(); }
ret_t nvmlShutdown(void) { unsigned n; ret_t r = small("-", "shutdown", &n); return r == NOT_SUPPORTED ? OK : r; }
ret_t nvmlDeviceGetCount_v2(unsigned *n) { return small("-", "count", n); }
ret_t nvmlDeviceGetCount(unsigned *n) { return nvmlDeviceGetCount_v2(n); }

/* handle: 0 when without a line. */
ret_t nvmlDeviceGetHandleByIndex_v2(unsigned i, dev_t_ *d) {
	unsigned n;
	if (i >= 64) return INVALID;
	ret_t r = small(devices[i].id, "handle", &n);
	if (r != OK && r != NOT_SUPPORTED) return r;
	*d = &devices[i];
	return OK;
}
ret_t nvmlDeviceGetHandleByIndex(unsigned i, dev_t_ *d) { return nvmlDeviceGetHandleByIndex_v2(i, d); }

/* Keys of a GPU. */
ret_t nvmlDeviceGetUUID(dev_t_ d, char *s, unsigned n) { return text(d, "uuid", s, n); }
ret_t nvmlDeviceGetName(dev_t_ d, char *s, unsigned n) { return text(d, "name", s, n); }
ret_t nvmlDeviceGetMinorNumber(dev_t_ d, unsigned *n) { return small(d->id, "minor", n); }

/* utilization, memory_utilization: percent. */
struct util { unsigned gpu, memory; };
ret_t nvmlDeviceGetUtilizationRates(dev_t_ d, struct util *u) {
	ret_t r = small(d->id, "utilization", &u->gpu);
	if (r == OK && small(d->id, "memory_utilization", &u->memory) != OK) u->memory = 0;
	return r;
}

/* samples: "TIME:PERCENT …", microseconds. Without a line the driver keeps none. */
struct sample { unsigned long long at; union { double d; unsigned u; unsigned long long ull; } v; };
ret_t nvmlDeviceGetSamples(dev_t_ d, int type, unsigned long long last, int *kind, unsigned *count, struct sample *out) {
	char v[4096], *p = v;
	if (type != 1) return NOT_SUPPORTED;
	ret_t r = find(d->id, "samples", v, sizeof v);
	if (r != OK) return r;
	unsigned n = 0;
	for (char *word; (word = strsep(&p, " "));) {
		unsigned long long at; unsigned value;
		if (sscanf(word, "%llu:%u", &at, &value) != 2 || at <= last) continue;
		if (out) {
			if (n >= *count) return SMALL;
			out[n].at = at;
			out[n].v.ull = 0;
			out[n].v.u = value;
		}
		n++;
	}
	*kind = 1; /* unsigned int */
	*count = n;
	return n ? OK : NOT_FOUND;
}

/* memory_total, memory_used: bytes. */
struct memory { unsigned long long total, free, used; };
ret_t nvmlDeviceGetMemoryInfo(dev_t_ d, struct memory *m) {
	ret_t r = number(d->id, "memory_total", &m->total);
	if (r == OK) r = number(d->id, "memory_used", &m->used);
	m->free = m->total - m->used;
	return r;
}

ret_t nvmlDeviceGetPowerUsage(dev_t_ d, unsigned *mw) { return small(d->id, "power", mw); }
ret_t nvmlDeviceGetEnforcedPowerLimit(dev_t_ d, unsigned *mw) { return small(d->id, "power_limit", mw); }
#ifndef WITHOUT_TEMPERATURE
ret_t nvmlDeviceGetTemperature(dev_t_ d, int sensor, unsigned *c) { (void)sensor; return small(d->id, "temperature", c); }
#endif
ret_t nvmlDeviceGetClockInfo(dev_t_ d, int type, unsigned *mhz) { return type == 1 ? small(d->id, "sm_clock", mhz) : NOT_SUPPORTED; }
ret_t nvmlDeviceGetMaxClockInfo(dev_t_ d, int type, unsigned *mhz) { return type == 1 ? small(d->id, "max_sm_clock", mhz) : NOT_SUPPORTED; }
ret_t nvmlDeviceGetCurrentClocksEventReasons(dev_t_ d, unsigned long long *mask) { return number(d->id, "throttle", mask); }
ret_t nvmlDeviceGetCurrentClocksThrottleReasons(dev_t_ d, unsigned long long *mask) { return number(d->id, "throttle", mask); }

/* pcie_tx, pcie_rx: KB/s. */
ret_t nvmlDeviceGetPcieThroughput(dev_t_ d, int counter, unsigned *kbs) { return small(d->id, counter == 0 ? "pcie_tx" : "pcie_rx", kbs); }

/* ecc_corrected, ecc_uncorrected: since the driver was loaded. */
ret_t nvmlDeviceGetTotalEccErrors(dev_t_ d, int type, int counter, unsigned long long *n) {
	return counter == 0 ? number(d->id, type == 0 ? "ecc_corrected" : "ecc_uncorrected", n) : NOT_SUPPORTED;
}

/* nvlink_tx, nvlink_rx: KiB since the start, over all links. */
struct field { unsigned id, scope; long long at, latency; int kind; ret_t code; union { double d; unsigned u; unsigned long long ull; } v; };
ret_t nvmlDeviceGetFieldValues(dev_t_ d, int n, struct field *f) {
	for (int i = 0; i < n; i++) {
		unsigned long long v = 0;
		f[i].code = f[i].scope != UINT_MAX ? INVALID : f[i].id == 138 ? number(d->id, "nvlink_tx", &v) : f[i].id == 139 ? number(d->id, "nvlink_rx", &v) : NOT_SUPPORTED;
		f[i].kind = 3; /* unsigned long long */
		f[i].v.ull = v;
	}
	return OK;
}

/* mig: 1 when the GPU is split; instances: how many there are. */
ret_t nvmlDeviceGetMigMode(dev_t_ d, unsigned *now, unsigned *pending) { ret_t r = small(d->id, "mig", now); *pending = *now; return r; }
ret_t nvmlDeviceGetMaxMigDeviceCount(dev_t_ d, unsigned *n) { (void)d; *n = 7; return OK; }
ret_t nvmlDeviceGetMigDeviceHandleByIndex(dev_t_ d, unsigned i, dev_t_ *out) {
	unsigned n = 0;
	ret_t r = small(d->id, "instances", &n);
	if (r != OK) return r;
	if (i >= n || i >= 8) return NOT_FOUND;
	*out = &instances[atoi(d->id) * 8 + (int)i];
	return OK;
}
