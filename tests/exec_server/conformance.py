#!/usr/bin/env python3
"""conformance.py PROGRAM [GROUP...]: the suite of every backend, for backend exec-server and `berth exec-server`."""
import subprocess
import sys

from there import There, environment


def main() -> int:
    program, groups = sys.argv[1], sys.argv[2:]
    there = There(program)
    try:
        only = [word for group in groups for word in ("--only", group)]
        ran = subprocess.run([program, "conformance", "--backend", "exec-server", "--data", str(there.place / "client"), *only],
                             env=environment(there.url, there.root), text=True, stdout=subprocess.PIPE, check=False)
        print(ran.stdout)
        if ran.returncode != 0:
            print(f"FAILED: code {ran.returncode}; the server said:")
            print("\n".join(there.server.told().splitlines()[-40:]))
        if there.sandboxes():
            print(f"FAILED: the server still has {there.sandboxes()}")
            return 1
        return ran.returncode
    finally:
        there.close()


sys.exit(main())
