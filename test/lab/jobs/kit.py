"""Parts that the laboratory's jobs are made of: datasets, steps, loaders and savers that note what they do."""

import os
import socket
import struct
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset

from truth import Truth

ITEM_FLOATS = 4096


def spin(seconds):
    """Python and PyTorch work that takes `seconds` of CPU time, however long it has to wait for the CPU."""
    a = torch.rand(64, 64)
    deadline = time.thread_time() + seconds
    while time.thread_time() < deadline:
        a = (a @ a).clamp(-1, 1)


def drop_cache(path):
    """Put one file out of the page cache: reads of it are cold again."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def write_files(folder, count, size, cold=False):
    """Make `count` files of `size` bytes below `folder` (kept when they exist) and return their paths."""
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, f"{i:05d}.bin") for i in range(count)]
    block = os.urandom(1 << 20)
    for path in paths:
        if not (os.path.exists(path) and os.path.getsize(path) == size):
            with open(path, "wb") as f:
                for start in range(0, size, len(block)):
                    f.write(block[: size - start])
    for path in paths if cold else ():
        drop_cache(path)
    return paths


class Items(Dataset):
    """`count` samples; what getting one costs is the function `cost(index, worker_id)`, which must be picklable."""

    def __init__(self, count, cost, floats=ITEM_FLOATS):
        self.count, self.cost, self.floats = count, cost, floats

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        info = torch.utils.data.get_worker_info()
        self.cost(index, info.id if info else None)
        return torch.full((self.floats,), float(index))


def cost_cpu(index, worker, seconds):
    spin(seconds)


def cost_sleep(index, worker, seconds):
    time.sleep(seconds)


def cost_read(index, worker, paths):
    with open(paths[index % len(paths)], "rb", buffering=0) as f:
        while f.read(1 << 20):
            pass


def cost_one_slow(index, worker, slow, fast):
    """The worker with id 0 pays `slow`, the others `fast`."""
    (slow if worker == 0 else fast)(index, worker)


def cost_fetch(index, worker, port, size):
    """`size` bytes from the server on loopback, by recv()."""
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(struct.pack("!I", size))
        left = size
        while left:
            left -= len(s.recv(min(left, 1 << 16)))


def note_worker(worker_id, then=None):
    Truth(f"worker-{os.getpid()}").log("worker", slot=worker_id)
    if then:
        then()


def make_loader(dataset, workers, batch_size=4, **kwargs):
    torch.set_num_threads(1)
    kwargs.setdefault("worker_init_fn", note_worker)
    return DataLoader(dataset, batch_size=batch_size, num_workers=workers, **kwargs)


def epoch(truth, loader, step, after=None):
    """One pass: waiting in next() is data_wait (the loader's own start included), step(batch) is compute."""
    wait = truth.current if truth.current == "startup" else "data_wait"
    truth.phase(wait)
    batches = iter(loader)
    n = 0
    while True:
        truth.phase(wait)
        batch = next(batches, None)
        if batch is None:
            break
        wait = "data_wait"
        truth.phase("compute")
        step(batch)
        n += 1
        if after:
            after(n)
    del batches


def step_spin(seconds):
    return lambda batch: spin(seconds)


def step_sleep(seconds):
    """A step on an accelerator that the host waits for without using a CPU."""
    return lambda batch: time.sleep(seconds)


def state(megabytes, tensors=8):
    """A model state of so many megabytes."""
    n = (megabytes << 20) // 4 // tensors
    return {f"layer{i}.weight": torch.rand(n) for i in range(tensors)}


def write_state(truth, weights, path, mode="blocking", fsync=False, rename=False):
    """torch.save of `weights` to `path`, noted as one save."""
    target = path + ".tmp" if rename else path
    start = time.monotonic_ns()
    if fsync:
        with open(target, "wb") as f:
            torch.save(weights, f)
            f.flush()
            os.fsync(f.fileno())
    else:
        torch.save(weights, target)
    if rename:
        os.replace(target, path)
    truth.save(path, start, os.path.getsize(path), mode, synced=fsync)


def blocking_save(truth, weights, path, **kwargs):
    with truth.during("checkpoint"):
        write_state(truth, weights, path, **kwargs)


def thread_save(truth, weights, path, **kwargs):
    """A save in a thread of the rank. Join the result before the end."""
    with truth.during("checkpoint"):  # the snapshot that an asynchronous save takes first
        copy = {k: v.clone() for k, v in weights.items()}
    own = Truth(f"saver-{os.getpid()}")
    t = threading.Thread(target=write_state, args=(own, copy, path, "background"), kwargs=kwargs)
    t.start()
    return t


def fork_save(truth, weights, path, **kwargs):
    """A save in a forked child. Returns its pid, to be waited for."""
    pid = os.fork()
    if pid == 0:
        try:
            write_state(Truth(f"saver-{os.getpid()}"), weights, path, "background", **kwargs)
        finally:
            os._exit(0)
    return pid
