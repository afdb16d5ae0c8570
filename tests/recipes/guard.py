"""A resource that detects use without the lock: the command that lock tests run while they hold it.

guard.py write|read DIRECTORY. It records violations in DIRECTORY and prevents none.
"""

import os
import pathlib
import sys
import time

READERS = 4      # The first readers wait for each other: they must hold the lock together.
COMPANY_S = 150  # Long enough for an election on an overloaded machine.
INSIDE_S = 0.02  # Long enough for a second holder to show.


def violation(here, text):
    with open(here / "violations", "a", encoding="utf-8") as file:
        file.write(text + "\n")


def write(here, fence):
    """Not atomic on purpose: two concurrent writers lose an update."""
    try:
        os.mkdir(here / "writing")
    except FileExistsError:
        violation(here, f"{fence} is not alone")
    for reader in here.glob("reading-*"):
        violation(here, f"{fence} writes while {reader.name} is there")
    lines = (here / "written").read_text().split()
    if lines and fence <= int(lines[-1]):
        violation(here, f"{fence} comes after {lines[-1]}")
    time.sleep(INSIDE_S)
    (here / "written").write_text("\n".join([*lines, str(fence)]) + "\n")
    os.rmdir(here / "writing")


def read(here, fence):
    mine = here / f"reading-{fence}"
    mine.touch()
    end = time.monotonic() + COMPANY_S
    while not (here / "company").exists():
        if len(list(here.glob("reading-*"))) >= READERS:
            (here / "company").touch()
        elif time.monotonic() > end:
            violation(here, f"{fence} reads alone")
            break
        time.sleep(INSIDE_S)
    if (here / "writing").exists():
        violation(here, f"{fence} reads during a write")
    mine.unlink()


def main():
    kind, directory = sys.argv[1:]
    here = pathlib.Path(directory)
    {"write": write, "read": read}[kind](here, int(os.environ["ZABRA_FENCE"]))


main()
