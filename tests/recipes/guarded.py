"""The test's view of the resource of guard.py."""

import pathlib
import sys
import tempfile

GUARD = str(pathlib.Path(__file__).with_name("guard.py"))


class Resource:
    def __init__(self, world):
        self.here = pathlib.Path(tempfile.mkdtemp(prefix="resource-", dir=world.directory))
        self.world = world
        (self.here / "written").touch()

    # --- Commands to run inside of a lock ---

    def write(self):
        return [sys.executable, GUARD, "write", str(self.here)]

    def read(self):
        return [sys.executable, GUARD, "read", str(self.here)]

    def hold_until(self, name):
        """Touches NAME.held, and ends when the test touches NAME."""
        held, end = self.world.file(f"{name}.held"), self.world.file(name)
        script = f'touch "{held}"; until [ -e "{end}" ]; do sleep 0.02; done'
        return ["sh", "-c", script]

    # --- Results ---

    def is_held(self, name):
        return pathlib.Path(self.world.file(f"{name}.held")).exists()

    def written(self):
        """The fencing numbers of the writers, in order."""
        return [int(word) for word in (self.here / "written").read_text().split()]

    def readers(self):
        return list(self.here.glob("reading-*"))

    def check(self, writers):
        violations = self.here / "violations"
        assert not violations.exists(), violations.read_text()
        assert len(self.written()) == writers, self.written()
        return self.written()
