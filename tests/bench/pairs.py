#!/usr/bin/env python3
"""Compares two release builds in turn: does the new one need more time?

usage: pairs.py OLD NEW [PAIRS]

Each pair starts three replicas of OLD, then of NEW, and loads them in the same way (64 connections,
1 KiB values). The steady figure is the CPU time of all replicas for 1,000 requests; each row has
the medians of both and the median of the ratios NEW / OLD pair by pair, so that a machine that gets
slower does not matter. Needs wrk.
"""
import contextlib
import io
import re
import statistics
import sys
import tempfile

import figures

PAIRS = 10
SECONDS = 2
ROWS = ["raw read", "JSON read", "write"]


def measure(zabra, lua):
    """CPU ms per 1,000 and requests per second of each row."""
    ensemble = figures.Ensemble(zabra, 3)
    try:
        ensemble.request(0, "PUT", "/znodes/v1/k?upsert=true", b"x" * 1024,
                         {"Content-Type": "application/octet-stream"})
        lead = ensemble.leader()
        other = (lead + 1) % 3
        plans = [(other, ["-H", "Accept: application/octet-stream"]), (other, []),
                 (lead, ["-s", lua])]
        return [one(ensemble, index, args) for index, args in plans]
    finally:
        ensemble.close()


def one(ensemble, index, args):
    url = f"http://127.0.0.1:{ensemble.port(index)}/znodes/v1/k"
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        each = figures.wrk(url, "", 64, args, ensemble.cpu_ms)
    if "FAILED" in output.getvalue():
        raise SystemExit(f"requests failed: {output.getvalue().strip()}")
    return each, float(re.search(r"([\d.]+)/s", output.getvalue())[1])


def show(old, new):
    print(f"{'':12}{'CPU ms/1000':>24}{'ratio':>8}{'range':>16}{'requests/s':>22}{'ratio':>8}")
    for row, name in enumerate(ROWS):
        cpu = [[run[row][0] for run in side] for side in (old, new)]
        rate = [[run[row][1] for run in side] for side in (old, new)]
        ratios = [b / a for a, b in zip(*cpu)]
        print(f"{name:12}{statistics.median(cpu[0]):12.1f}{statistics.median(cpu[1]):12.1f}"
              f"{statistics.median(ratios):8.3f}{min(ratios):8.2f}{max(ratios):8.2f}"
              f"{statistics.median(rate[0]):11.0f}{statistics.median(rate[1]):11.0f}"
              f"{statistics.median(b / a for a, b in zip(*rate)):8.3f}")


def main():
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    pairs = int(sys.argv[3]) if len(sys.argv) == 4 else PAIRS
    figures.SECONDS = SECONDS
    sides = ([], [])
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as lua:
        lua.write(figures.PUT_LUA)
        lua.flush()
        for _ in range(pairs):
            for side, zabra in zip(sides, sys.argv[1:3]):
                side.append(measure(zabra, lua.name))
    print(f"{pairs} pairs, {SECONDS} s a row, three replicas: old, new")
    show(*sides)


if __name__ == "__main__":
    main()
