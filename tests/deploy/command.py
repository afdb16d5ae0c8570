"""Commands that must succeed, for the programs of this folder."""

import subprocess

SHOWN_MAX = 3000  # Characters of what a failed command said last.


class Failed(Exception):
    """What does not hold, in one sentence."""


def run(*words, **kept):
    """Runs a command; its output. Fails with the end of the output when the command does."""
    ended = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False, **kept)
    if ended.returncode:
        raise Failed(f"{' '.join(str(word) for word in words)}: {ended.stdout[-SHOWN_MAX:]}")
    return ended.stdout
