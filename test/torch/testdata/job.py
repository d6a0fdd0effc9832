#!/usr/bin/env python3
"""A small PyTorch job that writes down who it is: one JSON line per rank, DataLoader worker and other child.

Lines go to $TRUTH/<pid>.jsonl, so that no two processes share a file. Every worker reads its part of --bytes-per-epoch from
files below --data with plain read(2).
"""

import argparse
import functools
import json
import multiprocessing
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

ITEM = 256 << 10  # bytes of one sample


def tell(role, **facts):
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    line = {"role": role, "pid": os.getpid(), "ticks": ticks, "mono": time.monotonic_ns(), **facts}
    with open(os.path.join(os.environ["TRUTH"], f"{os.getpid()}.jsonl"), "a") as f:
        f.write(json.dumps(line) + "\n")


class Reads(Dataset):
    def __init__(self, path, items):
        self.path, self.items = path, items

    def __len__(self):
        return self.items

    def __getitem__(self, index):
        with open(self.path, "rb", buffering=0) as f:
            f.seek(index * ITEM)
            data = bytearray(f.read(ITEM))
        return torch.frombuffer(data, dtype=torch.uint8)[:4096].float()


def worker_init(worker_id, rank, loader, generation):
    tell("worker", rank=rank, loader=loader, slot=worker_id, generation=generation)


def pool_init(rank):
    tell("pool_child", rank=rank)


def double(x):
    return 2 * x


def make_loader(args, rank, loader, generation):
    items = args.bytes_per_epoch // ITEM
    return DataLoader(
        Reads(args.data, items),
        batch_size=8,
        num_workers=args.workers,
        persistent_workers=args.persistent,
        multiprocessing_context=args.start_method,
        worker_init_fn=functools.partial(worker_init, rank=rank, loader=loader, generation=generation),
    )


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", required=True)
    p.add_argument("--bytes-per-epoch", type=int, default=8 << 20)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--loaders", type=int, default=1, help="1: train; 2: train and validation")
    p.add_argument("--start-method", default="fork")
    p.add_argument("--persistent", action="store_true")
    p.add_argument("--pool", action="store_true", help="also run a multiprocessing.Pool and a subprocess")
    p.add_argument("--step", type=float, default=0.1, help="seconds of work per batch")
    p.add_argument("--exit", type=int, default=0)
    args = p.parse_args()

    torch.set_num_threads(1)
    rank = int(os.environ.get("RANK", 0))
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    tell("rank", rank=rank)
    pool = helper = None
    if args.pool:
        pool = multiprocessing.get_context(args.start_method).Pool(2, initializer=pool_init, initargs=(rank,))
        pool.map(double, range(8))
        helper = subprocess.Popen(["sleep", "1000"])

    model = torch.nn.Linear(4096, 64)
    loaders = [make_loader(args, rank, i, 0) for i in range(args.loaders)]
    for epoch in range(args.epochs):
        for i, loader in enumerate(loaders):
            # worker_init_fn travels to the workers when they start: a later generation gets its own number.
            if not args.persistent:
                loader.worker_init_fn.keywords["generation"] = epoch
            for batch in loader:
                deadline = time.perf_counter() + args.step
                while time.perf_counter() < deadline:
                    model(batch).sum().backward()
        if dist.is_initialized():
            dist.barrier()
        print(f"rank {rank} epoch {epoch}", flush=True)
    if helper:
        helper.kill()
        helper.wait()
        pool.terminate()
        pool.join()
    sys.exit(args.exit)


if __name__ == "__main__":
    main()
