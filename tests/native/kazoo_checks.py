"""Checks with kazoo against any servers of the ZooKeeper protocol.

kazoo_checks.py [--fast] [--control PORT] [--kind NAME] [--tls DIRECTORY] ADDRESSES [CHECK...]
ADDRESSES: host:port,host:port. Without a control port (servers.py) nothing is killed.
"""

import argparse
import faulthandler
import logging
import sys
import time
import traceback

import checks_recipes  # noqa: F401  These register their checks.
import checks_session  # noqa: F401
import checks_tls  # noqa: F401
import checks_tree  # noqa: F401
import checks_watch  # noqa: F401
from world import CHECKS, World, use_tls

CHECK_S = 90  # No check takes longer; the threads are printed, and the program ends.


def run(function, options):
    world = None
    faulthandler.dump_traceback_later(CHECK_S, exit=True)
    try:
        world = World(options.addresses, function.__name__, options.control, options.kind)
        function(world)
        world.close()
        return True
    except Exception:
        traceback.print_exc()
        for client in world.clients if world else []:
            client.stop()
        return False
    finally:
        faulthandler.cancel_dump_traceback_later()


def main():
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--control", type=int)
    parser.add_argument("--kind", default="zookeeper")
    parser.add_argument("--tls", help="ca.pem, and the certificate of the client bob")
    parser.add_argument("addresses")
    parser.add_argument("checks", nargs="*")
    options = parser.parse_args()
    if options.tls:
        use_tls(options.tls)
    chosen = [function for function in CHECKS
              if (function.fast or not options.fast)
              and (not options.checks or function.__name__ in options.checks)
              and ("kill" not in function.needs or options.control)
              and ("tls" in function.needs if options.tls and options.fast else
                   "tls" not in function.needs or options.tls)]
    assert chosen, "no such check"
    failed = []
    for function in chosen:
        began = time.monotonic()
        if not run(function, options):
            failed.append(function.__name__)
        print(f"{'FAILED' if function.__name__ in failed else 'ok'} {function.__name__} "
              f"{time.monotonic() - began:.1f} s", flush=True)
    print(f"kazoo on {options.kind}: {len(chosen) - len(failed)} of {len(chosen)} checks passed",
          *(f"failed: {name}" for name in failed))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
