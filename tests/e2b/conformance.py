#!/usr/bin/env python3
"""conformance.py PROGRAM [GROUP...]: the suite of every backend, for backend e2b and a real `berth serve`."""
import json
import pathlib
import subprocess
import sys
import tempfile

from cloud import environment, remove_all
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))
from served import Server  # noqa: E402


def main() -> int:
    program, groups = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="berth-e2b-", ignore_cleanup_errors=True) as place:
        server = Server(program, place + "/data")
        try:
            only = [word for group in groups for word in ("--only", group)]
            ran = subprocess.run([program, "conformance", "--backend", "e2b", "--data", place + "/client", *only],
                                 env=environment(server), text=True, stdout=subprocess.PIPE, check=False)
            print(ran.stdout)
            if ran.returncode != 0:
                print(f"FAILED: code {ran.returncode}; the server said:")
                print("\n".join(pathlib.Path(server.log.name).read_text(encoding="utf-8").splitlines()[-40:]))
            status, left = server.api("GET", "/v2/sandboxes")
            if status != 200 or left:
                print(f"FAILED: the server still has {json.dumps(left)}")
                return 1
            return ran.returncode
        finally:
            remove_all(server)
            server.stop()


sys.exit(main())
