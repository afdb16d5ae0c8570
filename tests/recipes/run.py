"""Runs the programs of one page of docs/recipes and checks the property of the recipe.

run.py --zabra BINARY RECIPE; RECIPE "examples": the commands to try on all pages.
Exit code 77: a program is missing, nothing was tested.
"""

import argparse
import importlib
import pathlib
import shutil
import sys
import tempfile

import pages
from clients import COMMANDS, World
from ensemble import Ensemble

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "recipes"
SKIPPED = 77
TAIL = 3000  # Printed bytes of each log after a failure.


def show(world, ensemble):
    for client in world.clients:
        print(client)
    for path in sorted(ensemble.data.glob("*.log")):
        print(f"--- {path.name}\n{path.read_text(errors='replace')[-TAIL:]}")


def run(recipe, binary, root):
    check = importlib.import_module(f"recipe_{recipe.replace('-', '_')}").check
    programs = root / "programs"
    data = root / "data"
    programs.mkdir()
    data.mkdir()
    for name in pages.names(DOCS) if recipe == "examples" else [recipe]:
        pages.write_all(DOCS, name, programs)
    ensemble = Ensemble(binary, data)
    world = World(recipe, ensemble, programs, DOCS)
    try:
        check(world)
    except BaseException:
        show(world, ensemble)
        raise
    finally:
        world.close()
        ensemble.close()
    complaint = ensemble.complaint()
    assert not complaint, complaint


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zabra", required=True)
    parser.add_argument("recipe")
    options = parser.parse_args()
    missing = [name for name in [*COMMANDS.values(), "curl"] if not shutil.which(name)]
    if missing:
        print("skipped: missing", *missing)
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="zabra-recipe-") as root:
        run(options.recipe, options.zabra, pathlib.Path(root))


main()
