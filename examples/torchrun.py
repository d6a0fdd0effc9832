#!/usr/bin/env python3
"""torchrun for PyTorch 1.13 on Python 3.11, the pair that Debian 12 ships; with any other pair it is plain torchrun.

Since Python 3.11 iterating over a Flag leaves out its zero member, so Std.from_str("0") of PyTorch 1.13 finds nothing and
torchrun dies with "'NoneType' object has no attribute 'get'". Later releases of PyTorch do not iterate.
"""

import sys

from torch.distributed.elastic.multiprocessing.api import Std
from torch.distributed.run import main

if Std.from_str("0") is None:
    parse = Std.from_str

    def from_str(text):
        parsed = parse(text)
        if isinstance(parsed, dict):
            return {rank: Std.NONE if std is None else std for rank, std in parsed.items()}
        return Std.NONE if parsed is None else parsed

    Std.from_str = from_str

if __name__ == "__main__":
    sys.exit(main())
