"""What a laboratory job really did, written down as it does it.

One JSON line per fact, in $LAB_TRUTH/rank-<n>.jsonl of the rank (workers and savers append to files of their own, named by pid):

    t       CLOCK_MONOTONIC, ns: the clock that ptlaunch's frames run on
    w       wall clock, ns
    pid     who writes
    rank
    e       what: phase, save, end, worker, fetch, note

`phase` marks the moment from which on the rank is in a phase; the phase ends at the next such line. The names are ptlaunch's:
startup, compute, data_wait, checkpoint, peer_wait, other_wait, shutdown. A rank is in startup until its first batch is there.
`save` is one checkpoint file, from just before
open() to just after close() or rename().
"""

import json
import os
import time
from contextlib import contextmanager


class Truth:
    """The log of one process. Not for concurrent use, but for phase() of the main thread beside save() of another."""

    def __init__(self, name=None):
        self.rank = int(os.environ.get("RANK", 0))
        name = name or f"rank-{self.rank}"
        path = os.path.join(os.environ["LAB_TRUTH"], f"{name}.jsonl")
        # One write per line, unbuffered: nothing is lost with the process, and a line costs some 5 us.
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self.current = None

    def log(self, event, **facts):
        line = {"t": time.monotonic_ns(), "w": time.time_ns(), "pid": os.getpid(), "rank": self.rank, "e": event, **facts}
        os.write(self.fd, (json.dumps(line) + "\n").encode())

    def phase(self, name):
        if name != self.current:
            self.current = name
            self.log("phase", phase=name)

    @contextmanager
    def during(self, name):
        """The phase `name` while the block runs, the previous one after it."""
        before = self.current
        self.phase(name)
        try:
            yield
        finally:
            self.phase(before)

    def begin(self):
        """The first line of a rank: `t` is when the process was born, not now."""
        with open("/proc/self/stat") as f:
            ticks = int(f.read().rsplit(")", 1)[1].split()[19])
        # Field 22 counts from boot with the time asleep in it (CLOCK_BOOTTIME); CLOCK_MONOTONIC leaves that out.
        born = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        shift = time.monotonic_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.current = "startup"
        line = {"t": born + shift, "w": time.time_ns(), "pid": os.getpid(), "rank": self.rank, "e": "phase", "phase": "startup"}
        os.write(self.fd, (json.dumps(line) + "\n").encode())

    def end(self):
        self.phase("shutdown")
        self.log("end")

    def save(self, path, start, size, mode, **facts):
        """A checkpoint file: opened at monotonic `start` (ns), complete now."""
        self.log("save", start=start, path=os.path.abspath(path), size=size, mode=mode, **facts)
