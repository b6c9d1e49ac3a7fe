#!/usr/bin/env python3
"""e2b.py BERTH: a proof through E2B's protocol, in a sandbox of a real `berth serve`."""
import pathlib
import sys

from person import Place, wrong
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))
from served import Server  # noqa: E402


def main() -> int:
    program = sys.argv[1]
    with Place(program) as place:
        server = Server(program, str(place.root / "server-data"))
        try:
            place.environment |= {"E2B_API_KEY": server.key, "E2B_API_URL": server.url, "E2B_SANDBOX_URL": server.url}
            box = place.create("--backend", "e2b", "--net", "off", "--prove")
            # A program of that name is not asked.
            place.well("exec", "--user", "root", box, "--", "sh", "-c", "for d in /usr/local/bin /usr/bin /bin; do "
                       "printf '#!/bin/sh\\necho asked >> /tmp/asked\\n' > $d/berth-prober; chmod 755 $d/berth-prober; done")
            receipt = place.prove(box)
            assert receipt["held"] and receipt["backend"] == "e2b", wrong(receipt)
            told = {one["probe"].split(" ")[0]: one for one in receipt["probes"] if one["verdict"] == "held"}
            for name in ("work_in", "read_file_of_the_host", "reach_loopback_of_the_host", "connect_to_metadata_address",
                         "talk_over_own_loopback"):
                assert name in told, (name, sorted(told))
            # The cloud may be anywhere: what it cannot reach of this machine proves little.
            assert not told["reach_loopback_of_the_host"]["sure"]
            assert any(one["rule"] == "pids 4096" and "not held" in one["why"] for one in receipt["untried"]), receipt["untried"]
            assert place.run("exec", box, "--", "cat", "/tmp/asked").returncode != 0
            left = place.well("exec", box, "--", "sh", "-c", "ls -A /tmp | grep berth; true")
            assert left == "", left
            print(f"{len(receipt['probes'])} probes")
            place.well("rm", box)
        finally:
            server.stop()
    return 0


sys.exit(main())
