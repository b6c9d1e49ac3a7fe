#!/usr/bin/env python3
"""The unmodified npm package sandbox-agent with its E2B provider against `berth serve`, by name and over TLS.

run.py --program BERTH --packages DIR --node NODE

DIR holds node_modules (./dev deps sdk puts them there). The SDK is the newest with which this package's provider works:
it calls Sandbox.betaCreate, which later ones have not. Exits 77 when the packages are missing.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from run import Server, free_port  # noqa: E402: beside this folder


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--packages", required=True, type=pathlib.Path)
    parser.add_argument("--node", required=True, type=pathlib.Path)
    options = parser.parse_args()
    packages = options.packages.resolve()
    if not options.node.exists() or not (packages / "node_modules/sandbox-agent/package.json").exists():
        print(f"skipped: no sandbox-agent in {packages}; ./dev deps sdk installs it (npm must be reachable)")
        return 77
    shutil.copyfile(HERE / "agent.mjs", packages / "agent.mjs")
    shutil.copyfile(HERE.parent / "names.mjs", packages / "names.mjs")
    port = free_port()
    domain = f"sbx.localhost:{port}"
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory(prefix="berth-agent-") as place:
        server = Server(options.program, place + "/data", f"127.0.0.1:{port}", ("--domain", domain, "--tls-self-signed"))
        environment = {**{k: v for k, v in os.environ.items() if not k.startswith("E2B_")},
                       "E2B_API_KEY": server.key, "E2B_DOMAIN": domain, "NODE_EXTRA_CA_CERTS": server.authority,
                       "BERTH_AGENT_FREEZES": "1" if root else "0"}
        code = 1
        try:
            code = subprocess.run([str(options.node.resolve()), "--import", str(packages / "names.mjs"),
                                   str(packages / "agent.mjs")], env=environment, cwd=packages, check=False,
                                  timeout=300).returncode
        finally:
            if code != 0:
                print(server.told())
            ended = server.stop()
    if ended != 0:
        print(f"the server ended with {ended}")
    return 1 if code != 0 or ended != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
