#!/usr/bin/env python3
"""One job of the laboratory: job.py [--prepare] SCENARIO."""

import os
import sys

import data
import ranks
import saves
from truth import Truth


def main():
    name = sys.argv[-1]
    if "--prepare" in sys.argv:
        for module in (data, saves, ranks):
            module.PREPARE.get(name, lambda: None)()
        return
    truth = Truth()
    truth.begin()
    scenario = {f.__name__: f for module in (data, saves, ranks) for f in module.SCENARIOS}[name]
    try:
        scenario(truth)
    finally:
        truth.end()


if __name__ == "__main__":
    main()
