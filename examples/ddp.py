#!/usr/bin/env python3
"""Train the CNN of train.py on several ranks with DistributedDataParallel.

    ptlaunch -- torchrun --standalone --nproc_per_node 2 examples/ddp.py --workers 2

Uses NCCL and one GPU per rank where there are GPUs, else gloo on the CPU. Rank 0 saves the checkpoints.
"""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DistributedSampler

from train import ImageFolder, build_model, make_loader, parse_args, save_checkpoint, train_epoch, write_dataset


def main():
    args = parse_args(__doc__.split("\n")[0])
    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")

    if local_rank == 0 and not os.path.isdir(args.data):
        write_dataset(args.data, args.images)
    dist.barrier()
    dataset = ImageFolder(args.data)
    sampler = DistributedSampler(dataset)
    loader = make_loader(args, dataset, sampler)
    torch.manual_seed(1)
    model = build_model(dataset.classes).to(device)
    first = 1
    state = torch.load(args.resume, map_location=device) if args.resume else None
    if state:
        model.load_state_dict(state["model"])
        first = state["epoch"] + 1
    model = nn.parallel.DistributedDataParallel(model, device_ids=[local_rank] if cuda else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    if state:
        optimizer.load_state_dict(state["optimizer"])

    if rank == 0:
        print(f"{len(dataset)} images, {dist.get_world_size()} ranks x {args.workers} workers, device {device}", flush=True)
    for epoch in range(first, args.epochs + 1):
        sampler.set_epoch(epoch)
        start = time.perf_counter()
        loss, accuracy, seen = train_epoch(model, loader, optimizer, device)
        if rank == 0:
            rate = seen * dist.get_world_size() / (time.perf_counter() - start)
            print(f"epoch {epoch}/{args.epochs}  loss {loss:.3f}  accuracy {accuracy:.1%}  {rate:.0f} images/s", flush=True)
            if args.save_every and epoch % args.save_every == 0:
                save_checkpoint(os.path.join(args.checkpoint_dir, f"epoch-{epoch:03d}.pt"), model.module, optimizer, epoch)
        dist.barrier()  # nobody runs ahead of the save: a collective that waits too long for rank 0 ends in a timeout
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
