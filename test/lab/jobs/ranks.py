"""Scenarios of two ranks that wait for each other. They run under torchrun with gloo."""

import gc
import os
import subprocess
import sys
import time
from functools import partial

import torch
import torch.distributed as dist

from kit import Items, blocking_save, cost_cpu, epoch, make_loader, spin, state

SLOW = os.environ.get("LAB_SLOW", "")
DIR = os.environ.get("LAB_DIR", ".")


def meet(truth):
    """All ranks meet: what a collective outside backward() looks like."""
    with truth.during("peer_wait"):
        dist.barrier()


def train(truth, step, after=None, batches=120):
    dist.init_process_group("gloo")
    loader = make_loader(Items(batches * 4, partial(cost_cpu, seconds=0.002)), 1)
    gradients = torch.rand(1 << 16)

    def synced(batch):
        step(batch)
        with truth.during("peer_wait"):
            dist.all_reduce(gradients)
    epoch(truth, loader, synced, after)
    meet(truth)


def ddp_healthy(truth):
    train(truth, lambda batch: time.sleep(0.1))


def straggler(truth):
    train(truth, lambda batch: spin(0.2 if truth.rank == 1 else 0.05), batches=70)


def gc_pauses(truth):
    """Rank 1 stops now and then for a full collection of many objects."""
    junk = [[i] for i in range(4_000_000)] if truth.rank == 1 else None
    gc.freeze() if junk is None else None

    def after(n):
        if n % 20 == 0 and truth.rank == 1:
            with truth.during("other_wait"):
                for _ in range(3):
                    gc.collect()
    train(truth, lambda batch: time.sleep(0.08), after)
    del junk


def sharded_save(truth):
    """Each rank writes its half, all at once."""
    weights = state(64)

    def after(n):
        if n % 30 == 0:
            os.makedirs(os.path.join(DIR, f"step-{n}"), exist_ok=True)
            blocking_save(truth, weights, os.path.join(DIR, f"step-{n}", f"__{truth.rank}_0.distcp"))
            meet(truth)
    train(truth, lambda batch: time.sleep(0.1), after)


def rank0_saves(truth):
    """Rank 0 writes to a slow disk while rank 1 waits for it."""
    weights = state(64) if truth.rank == 0 else None

    def after(n):
        if n % 30 == 0:
            if truth.rank == 0:
                blocking_save(truth, weights, os.path.join(SLOW, f"step-{n}.pt"), fsync=True)
            meet(truth)
    train(truth, lambda batch: time.sleep(0.1), after, batches=90)


STOP = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from truth import Truth
rank, truth = int(sys.argv[2]), Truth()
time.sleep(6)
os.kill(rank, signal.SIGSTOP)
truth.log("phase", phase="other_wait")
time.sleep(6)
truth.log("phase", phase="compute")
os.kill(rank, signal.SIGCONT)
"""


def stopped(truth):
    """Rank 1 is stopped from outside for six seconds."""
    helper = None
    if truth.rank == 1:
        here = os.path.dirname(os.path.abspath(__file__))
        helper = subprocess.Popen([sys.executable, "-c", STOP, here, str(os.getpid())])
    train(truth, lambda batch: time.sleep(0.1))
    if helper:
        helper.wait()


PREPARE = {}

SCENARIOS = [ddp_healthy, straggler, gc_pauses, sharded_save, rank0_saves, stopped]
