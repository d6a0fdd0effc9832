"""Scenarios of checkpoints written by one rank."""

import os
from functools import partial

from kit import (Items, blocking_save, cost_cpu, epoch, fork_save, make_loader, state, step_spin, thread_save)

SLOW = os.environ.get("LAB_SLOW", "")
DIR = os.environ.get("LAB_DIR", ".")


def train(truth, save, batches=120, every=30):
    """Healthy training that calls save(n) every so many batches."""
    loader = make_loader(Items(batches * 4, partial(cost_cpu, seconds=0.002)), 2)
    epoch(truth, loader, step_spin(0.1), after=lambda n: n % every == 0 and save(n))


def save_blocking(truth):
    weights = state(96)
    train(truth, lambda n: blocking_save(truth, weights, os.path.join(DIR, f"step-{n}.pt")))


def save_overwrite(truth):
    """The same file again and again."""
    weights = state(96)
    train(truth, lambda n: blocking_save(truth, weights, os.path.join(DIR, "last.ckpt")))


def save_rename(truth):
    weights = state(96)
    train(truth, lambda n: blocking_save(truth, weights, os.path.join(DIR, f"step-{n}.pt"), rename=True))


def save_fsync_slow(truth):
    weights = state(64)
    train(truth, lambda n: blocking_save(truth, weights, os.path.join(SLOW, f"step-{n}.pt"), fsync=True), batches=90)


def save_thread(truth):
    weights = state(64)
    threads = []
    train(truth, lambda n: threads.append(thread_save(truth, weights, os.path.join(SLOW, f"step-{n}.pt"), fsync=True)),
          batches=155, every=40)
    with truth.during("checkpoint"):
        for t in threads:
            t.join()


def save_child(truth):
    weights = state(64)
    children = []
    train(truth, lambda n: children.append(fork_save(truth, weights, os.path.join(SLOW, f"step-{n}.pt"), fsync=True)),
          batches=155, every=40)
    with truth.during("checkpoint"):
        for pid in children:
            os.waitpid(pid, 0)


def save_small(truth):
    """Control of a kind: saves of 200 kB, which nobody needs to hear about."""
    import torch
    weights = {"adapter": torch.rand(50_000)}
    train(truth, lambda n: torch.save(weights, os.path.join(DIR, "adapter.pt")), every=10)


PREPARE = {}

SCENARIOS = [save_blocking, save_overwrite, save_rename, save_fsync_slow, save_thread, save_child, save_small]
