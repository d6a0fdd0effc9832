#!/usr/bin/env python3
"""A pass-through FUSE file system whose open() takes 20 ms: slowfs.py LOWER MOUNTPOINT. Needs fusepy."""

import os
import sys
import time

from fusepy import FUSE, FuseOSError, Operations  # Debian's name for it; PyPI's is "fuse"


class Slow(Operations):
    def __init__(self, lower):
        self.lower = lower

    def path(self, name):
        return os.path.join(self.lower, name.lstrip("/"))

    def getattr(self, name, fh=None):
        try:
            st = os.lstat(self.path(name))
        except OSError as err:
            raise FuseOSError(err.errno)
        return {k: getattr(st, k) for k in ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")}

    def readdir(self, name, fh):
        return [".", "..", *os.listdir(self.path(name))]

    def open(self, name, flags):
        time.sleep(0.02)
        return os.open(self.path(name), flags)

    def create(self, name, mode, fi=None):
        return os.open(self.path(name), os.O_WRONLY | os.O_CREAT, mode)

    def read(self, name, size, offset, fh):
        return os.pread(fh, size, offset)

    def write(self, name, data, offset, fh):
        return os.pwrite(fh, data, offset)

    def truncate(self, name, length, fh=None):
        os.truncate(self.path(name), length)

    def mkdir(self, name, mode):
        os.mkdir(self.path(name), mode)

    def rename(self, old, new):
        os.rename(self.path(old), self.path(new))

    def unlink(self, name):
        os.unlink(self.path(name))

    def release(self, name, fh):
        os.close(fh)


if __name__ == "__main__":
    FUSE(Slow(sys.argv[1]), sys.argv[2], foreground=True, nothreads=False, big_writes=True)
