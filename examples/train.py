#!/usr/bin/env python3
"""Train a small CNN on a folder of images, on CPU or GPU.

Needs PyTorch (1.13 or later) and nothing else. The folder named by --data holds one sub-folder per class with PPM images
in it; when it does not exist, a small artificial data set is written there first.

    ptlaunch -- python3 examples/train.py --workers 2
"""

import argparse
import os
import random
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 64  # pixels
CLASSES = ("horizontal", "vertical", "diagonal", "dots")


def pattern(label, shift, period):
    """A SIDE x SIDE picture in 0..1 that shows the pattern of class `label`."""
    y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    phase = (y, x, x + y, (x % period) * (y % period))[label] + shift
    return ((phase % period) * 2 < period).float()


def write_dataset(root, count):
    """Write `count` images below `root`, one folder per class."""
    print(f"writing {count} images to {root}", flush=True)
    rng = random.Random(0)
    torch.manual_seed(0)
    partial = f"{root}.partial"
    for name in CLASSES:
        os.makedirs(os.path.join(partial, name), exist_ok=True)
    for i in range(count):
        label = i % len(CLASSES)
        base = pattern(label, rng.randrange(16), rng.randrange(8, 20))
        image = torch.rand(3, 1, 1) * base + 0.4 * torch.rand(3, SIDE, SIDE)
        pixels = (image.clamp(0, 1) * 255).byte().permute(1, 2, 0).contiguous()
        with open(os.path.join(partial, CLASSES[label], f"{i:06d}.ppm"), "wb") as f:
            f.write(b"P6\n%d %d\n255\n" % (SIDE, SIDE) + bytes(pixels.flatten().tolist()))
    os.rename(partial, root)  # an interrupted run leaves no half data set behind


def read_ppm(path):
    """Read a binary PPM file (P6, 8 bits) as a uint8 tensor of shape (3, height, width)."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    magic, width, height, depth = data[:64].split(maxsplit=4)[:4]
    if magic != b"P6" or depth != b"255":
        raise ValueError(f"{path}: not an 8-bit P6 image")
    width, height = int(width), int(height)
    pixels = torch.frombuffer(data, dtype=torch.uint8, offset=len(data) - 3 * width * height)
    return pixels.view(height, width, 3).permute(2, 0, 1)


class ImageFolder(Dataset):
    """The images below root/<class>/, cropped and mirrored at random, as (image, label)."""

    def __init__(self, root):
        names = sorted(d.name for d in os.scandir(root) if d.is_dir())
        self.samples = [
            (os.path.join(root, name, file), label)
            for label, name in enumerate(names)
            for file in sorted(os.listdir(os.path.join(root, name)))
        ]
        self.classes = len(names)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        image = read_ppm(path).float() / 255
        image = nn.functional.pad(image, (8, 8, 8, 8))
        top, left = random.randrange(17), random.randrange(17)
        image = image[:, top:top + SIDE, left:left + SIDE]
        if label != 2 and random.random() < 0.5:
            image = image.flip(2)
        return image, label


def build_model(classes):
    def block(inputs, outputs):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2))

    return nn.Sequential(
        block(3, 16), block(16, 32), block(32, 64), nn.Flatten(),
        nn.Linear(64 * (SIDE // 8) ** 2, 1024), nn.ReLU(), nn.Linear(1024, classes),
    )


def make_loader(args, dataset, sampler=None):
    workers = args.workers
    return DataLoader(
        dataset,
        batch_size=args.batch_size,
        shuffle=sampler is None,
        sampler=sampler,
        drop_last=True,
        num_workers=workers,
        pin_memory=args.pin_memory,
        persistent_workers=args.persistent_workers and workers > 0,
        multiprocessing_context=args.start_method if workers > 0 else None,
    )


def train_epoch(model, loader, optimizer, device):
    """One pass over the data. Returns mean loss, accuracy and the number of images."""
    model.train()
    total_loss, right, seen = 0.0, 0, 0
    for images, labels in loader:
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        output = model(images)
        loss = nn.functional.cross_entropy(output, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total_loss += loss.item() * len(labels)
        right += (output.argmax(1) == labels).sum().item()
        seen += len(labels)
    return total_loss / max(seen, 1), right / max(seen, 1), seen


def save_checkpoint(path, model, optimizer, epoch):
    """Write beside the target, then rename: a job killed meanwhile leaves the previous checkpoint whole."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def parse_args(description):
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--data", default="data/patterns", help="folder of the data set; written when it does not exist")
    p.add_argument("--images", type=int, default=1200, help="how many images to write")
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--workers", type=int, default=2, help="DataLoader workers per rank; 0 loads in the rank itself")
    p.add_argument("--start-method", choices=("fork", "spawn", "forkserver"), default="fork", help="of the workers")
    p.add_argument("--persistent-workers", action="store_true", help="keep the workers between epochs")
    p.add_argument("--pin-memory", action="store_true")
    p.add_argument("--save-every", type=int, default=1, help="epochs between two checkpoints; 0 saves none")
    p.add_argument("--checkpoint-dir", default="checkpoints")
    p.add_argument("--resume", metavar="FILE", help="checkpoint to go on from")
    return p.parse_args()


def main():
    args = parse_args(__doc__.split("\n")[0])
    if not os.path.isdir(args.data):
        write_dataset(args.data, args.images)
    dataset = ImageFolder(args.data)
    loader = make_loader(args, dataset)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    model = build_model(dataset.classes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    first = 1
    if args.resume:
        state = torch.load(args.resume, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1

    print(f"{len(dataset)} images, {dataset.classes} classes, {args.workers} workers, device {device}", flush=True)
    for epoch in range(first, args.epochs + 1):
        start = time.perf_counter()
        loss, accuracy, seen = train_epoch(model, loader, optimizer, device)
        rate = seen / (time.perf_counter() - start)
        print(f"epoch {epoch}/{args.epochs}  loss {loss:.3f}  accuracy {accuracy:.1%}  {rate:.0f} images/s", flush=True)
        if args.save_every and epoch % args.save_every == 0:
            save_checkpoint(os.path.join(args.checkpoint_dir, f"epoch-{epoch:03d}.pt"), model, optimizer, epoch)


if __name__ == "__main__":
    main()
