#include <stdint.h>

struct ptlaunch_inherited {
	uint64_t ignored; // bit n-1: signal n was SIG_IGN
	uint64_t blocked; // the signal mask
	uint32_t closed;  // bit n: descriptor n was not open
};

extern struct ptlaunch_inherited ptlaunch_inherited;
