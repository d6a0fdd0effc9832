"""Scenarios of data loading: healthy ones, and one per reason why a rank waits for its data."""

import os
import random
import sys
import time
from functools import partial

import torch

from kit import (Items, cost_cpu, cost_fetch, cost_one_slow, cost_read, cost_sleep, epoch, make_loader, note_worker, spin,
                 step_sleep, step_spin, write_files)

SLOW = os.environ.get("LAB_SLOW", "")  # folder on the slow file system, where the scenario has one
DIR = os.environ.get("LAB_DIR", ".")  # scratch folder


def run(truth, cost, *, batches, workers, step, epochs=1, batch_size=4, **kwargs):
    loader = make_loader(Items(batches * batch_size, cost), workers, batch_size, **kwargs)
    for _ in range(epochs):
        epoch(truth, loader, step)


def healthy(truth):
    run(truth, partial(cost_cpu, seconds=0.002), batches=50, epochs=3, workers=2, step=step_spin(0.1), persistent_workers=True)


def healthy_sleep(truth):
    run(truth, partial(cost_cpu, seconds=0.005), batches=150, workers=2, step=step_sleep(0.1))


def no_workers(truth):
    run(truth, partial(cost_cpu, seconds=0.015), batches=150, workers=0, step=step_spin(0.04))


def no_workers_cheap(truth):
    """Control: loading in the rank itself that costs nothing to speak of."""
    run(truth, partial(cost_cpu, seconds=0.0002), batches=150, workers=0, step=step_spin(0.1))


def too_few_workers(truth):
    run(truth, partial(cost_cpu, seconds=0.025), batches=130, workers=1, step=step_sleep(0.02))


def too_few_workers_asleep(truth):
    run(truth, partial(cost_sleep, seconds=0.025), batches=220, workers=2, step=step_spin(0.01))


def worker_cpu(truth):
    run(truth, partial(cost_cpu, seconds=0.025), batches=250, workers=2, step=step_sleep(0.01))


def slow_worker_cpu(truth):
    cost = partial(cost_one_slow, slow=partial(cost_cpu, seconds=0.06), fast=partial(cost_cpu, seconds=0.004))
    run(truth, cost, batches=180, workers=3, step=step_sleep(0.02))


def slow_worker_asleep(truth):
    cost = partial(cost_one_slow, slow=partial(cost_sleep, seconds=0.06), fast=partial(cost_cpu, seconds=0.004))
    run(truth, cost, batches=180, workers=3, step=step_sleep(0.02))


def slow_worker_disk(truth):
    slow = partial(cost_read, paths=files(SLOW, 64, 64 << 10))
    fast = partial(cost_read, paths=files(DIR, 64, 64 << 10))
    run(truth, partial(cost_one_slow, slow=slow, fast=fast), batches=700, workers=3, step=step_sleep(0.01))


def cpu_quota(truth):
    run(truth, partial(cost_cpu, seconds=0.015), batches=120, workers=6, step=step_sleep(0.01))


def crowded(truth):
    """The same without a quota: six busy workers share the machine's CPUs."""
    run(truth, partial(cost_cpu, seconds=0.025), batches=250, workers=6, step=step_sleep(0.01))


def init_slowly(worker_id):
    note_worker(worker_id)
    time.sleep(3)


def restart(truth):
    run(truth, partial(cost_cpu, seconds=0.001), batches=20, epochs=4, workers=2, step=step_sleep(0.1), worker_init_fn=init_slowly)


def restart_persistent(truth):
    """Control: the same slow start, once."""
    run(truth, partial(cost_cpu, seconds=0.001), batches=40, epochs=3, workers=2, step=step_sleep(0.1), worker_init_fn=init_slowly,
        persistent_workers=True)


def files(folder, count, size):
    return [os.path.join(folder, f"{size}-{count}", f"{i:05d}.bin") for i in range(count)]


def prepare_files(folder, count, size, cold=False):
    write_files(os.path.join(folder, f"{size}-{count}"), count, size, cold)


def fuse(truth):
    run(truth, partial(cost_read, paths=files(SLOW, 256, 64 << 10)), batches=300, workers=2, step=step_spin(0.01))


def fuse_control(truth):
    """Control: the same small files without the mount, and steps that are slower than they."""
    run(truth, partial(cost_read, paths=files(DIR, 256, 64 << 10)), batches=200, workers=2, step=step_spin(0.06))


def disk(truth):
    run(truth, partial(cost_read, paths=files(SLOW, 40, 8 << 20)), batches=40, batch_size=1, workers=2, step=step_spin(0.05))


def cold_warm(truth):
    run(truth, partial(cost_read, paths=files(SLOW, 20, 8 << 20)), batches=20, epochs=5, batch_size=1, workers=2,
        step=step_spin(0.1), persistent_workers=True)


def no_workers_disk(truth):
    run(truth, partial(cost_read, paths=files(SLOW, 40, 8 << 20)), batches=40, batch_size=1, workers=0, step=step_spin(0.05))


def cost_mmap(index, worker, path, pages):
    """Touch `pages` random pages of a mapped file, without read-ahead."""
    import mmap
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
        m.madvise(mmap.MADV_RANDOM)
        rng = random.Random(index)
        for _ in range(pages):
            m[rng.randrange(len(m) // 4096) * 4096]


def mapped(truth):
    run(truth, partial(cost_mmap, path=files(SLOW, 1, 256 << 20)[0], pages=400), batches=70, workers=2, step=step_spin(0.02))


def cost_lmdb(index, worker, path, count):
    import lmdb
    global _env  # one environment per worker process, opened after the fork
    if "_env" not in globals():
        _env = lmdb.open(path, readonly=True, lock=False, readahead=False)
    with _env.begin() as txn:
        txn.get(f"{(index * 7919) % count:08d}".encode())


def prepare_lmdb():
    import lmdb
    from kit import drop_cache
    path = os.path.join(SLOW, "lmdb")
    with lmdb.open(path, map_size=1 << 30) as env:
        for start in range(0, 1200, 100):
            with env.begin(write=True) as txn:
                for i in range(start, start + 100):
                    txn.put(f"{i:08d}".encode(), os.urandom(200_000))
    drop_cache(os.path.join(path, "data.mdb"))


def lmdb_cold(truth):
    run(truth, partial(cost_lmdb, path=os.path.join(SLOW, "lmdb"), count=1200), batches=300, workers=2, step=step_spin(0.005))


def network(truth):
    cost = partial(cost_fetch, port=int(os.environ["LAB_PORT"]), size=128 << 10)
    run(truth, cost, batches=60, workers=2, step=step_spin(0.02))


def cost_hoard(index, worker, paths, hoard=[]):
    """Keep memory that pushes the page cache, and read a file that will have been pushed out."""
    if len(hoard) < 60:
        hoard.append(bytearray(os.urandom(1 << 20)))
    cost_read(index, worker, paths)


def memory(truth):
    run(truth, partial(cost_hoard, paths=files(SLOW, 30, 8 << 20)), batches=30, epochs=4, batch_size=1, workers=2,
        step=step_spin(0.05), persistent_workers=True)


def shm_full(truth):
    loader = make_loader(Items(400, partial(cost_cpu, seconds=0.01), floats=1 << 20), 2, 4)
    epoch(truth, loader, step_spin(0.3))


def main_thread(truth):
    """Batches are ready, but the rank's own Python takes them apart before each step."""
    def step(batch):
        with truth.during("other_wait"):
            total = 0.0
            for row in batch:
                total += sum(x for x in row.tolist() * 150)
        spin(0.02)
    run(truth, partial(cost_cpu, seconds=0.001), batches=180, workers=2, step=step)


def output_blocked(truth):
    """Somebody stops reading our output for a while: the runner does."""
    def step(batch):
        spin(0.05)
        with truth.during("other_wait"):
            os.write(1, b"x" * 4000 + b"\n")
    run(truth, partial(cost_cpu, seconds=0.001), batches=150, workers=2, step=step)


def logs(truth):
    """Control: logs, event files and a cache are written, and none of them is a checkpoint."""
    log = open(os.path.join(DIR, "train.log"), "a", buffering=1)
    events = open(os.path.join(DIR, "events.out.tfevents.1.host"), "ab", buffering=0)
    cache = open(os.path.join(DIR, "cache.arrow"), "wb")
    count = 0

    def step(batch):
        nonlocal count
        spin(0.1)
        log.write(f"step {count} " + "x" * 400 + "\n")
        events.write(os.urandom(400))
        if count % 5 == 0:
            cache.write(os.urandom(1 << 20))
        count += 1
    run(truth, partial(cost_cpu, seconds=0.002), batches=150, workers=2, step=step)
    print("done", file=sys.stderr)


PREPARE = {
    "slow_worker_disk": lambda: (prepare_files(SLOW, 64, 64 << 10), prepare_files(DIR, 64, 64 << 10)),
    "fuse": lambda: prepare_files(SLOW, 256, 64 << 10),
    "fuse_control": lambda: prepare_files(DIR, 256, 64 << 10),
    "disk": lambda: prepare_files(SLOW, 40, 8 << 20, cold=True),
    "cold_warm": lambda: prepare_files(SLOW, 20, 8 << 20, cold=True),
    "no_workers_disk": lambda: prepare_files(SLOW, 40, 8 << 20, cold=True),
    "mapped": lambda: prepare_files(SLOW, 1, 256 << 20, cold=True),
    "lmdb_cold": prepare_lmdb,
    "memory": lambda: prepare_files(SLOW, 30, 8 << 20, cold=True),
}

SCENARIOS = [healthy, healthy_sleep, no_workers, no_workers_cheap, no_workers_disk, too_few_workers, too_few_workers_asleep,
             worker_cpu, slow_worker_cpu, slow_worker_asleep, slow_worker_disk, cpu_quota, crowded, restart, restart_persistent,
             fuse, fuse_control, disk, cold_warm, mapped, lmdb_cold, network, memory, shm_full, main_thread, output_blocked, logs]
