#!/usr/bin/env python3
"""The unmodified E2B SDKs, newest and older, against a real `berth serve` on loopback.

run.py --program BERTH --packages DIR [--table FILE [--write]]

DIR holds node_modules (./dev deps sdk puts them there). With --table the compatibility table in FILE must say what
was seen; --write puts it there instead. Exits 77 when the packages are missing.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SDKS = [("e2b", "e2b"), ("e2b-old", "e2b-old")]
BEGIN, END = "<!-- begin: written by tests/sdk/run.py -->", "<!-- end -->"


def versions(packages: pathlib.Path) -> dict[str, str]:
    out = {}
    for name, _ in SDKS:
        out[name] = json.loads((packages / "node_modules" / name / "package.json").read_text())["version"]
    return out


class Server:
    """One `berth serve` with a state directory of its own."""

    def __init__(self, program: str, data: str, listen: str = "127.0.0.1:0", options: tuple = ()):
        self.data = data
        self.log = open(pathlib.Path(data).parent / "server.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [program, "serve", "--listen", listen, "--data", data, "--json", *options],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server did not start: {self.told()}")
        said = json.loads(line)
        self.url, self.key, self.authority = said["listening"], said["key"], said.get("ca", "")

    def told(self) -> str:
        self.log.flush()
        return pathlib.Path(self.log.name).read_text(encoding="utf-8")[-4000:]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return -9


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def by_name(program: str, packages: pathlib.Path, node: pathlib.Path, place: str) -> bool:
    """TLS and a domain: the mode in which getHost() leads somewhere."""
    port = free_port()
    domain = f"sbx.localhost:{port}"
    server = Server(program, place + "/named", f"127.0.0.1:{port}", ("--domain", domain, "--tls-self-signed"))
    good = True
    try:
        for _, package in SDKS:
            environment = {**{k: v for k, v in os.environ.items() if not k.startswith("E2B_")}, "E2B_API_KEY": server.key,
                           "E2B_DOMAIN": domain, "NODE_EXTRA_CA_CERTS": server.authority}
            good &= subprocess.run([str(node.resolve()), "--import", str(packages / "names.mjs"), str(packages / "domain.mjs"), package],
                                   env=environment, cwd=packages, check=False, timeout=120).returncode == 0
    finally:
        if not good:
            print(server.told())
        good &= server.stop() == 0
    return good


def table(results: dict[str, list[dict]], version: dict[str, str]) -> str:
    rows: dict[tuple[str, str], dict[str, bool]] = {}
    for sdk, checks in results.items():
        for check in checks:
            rows.setdefault((check["area"], check["call"]), {})[sdk] = check["ok"]
    word = {True: "yes", False: "**no**", None: "–"}
    head = " | ".join(f"npm `e2b` {version[sdk]}" for sdk, _ in SDKS)
    lines = [BEGIN, "", f"| | call | {head} |", "|---|---|" + "---|" * len(SDKS)]
    for (area, call), seen in rows.items():
        lines.append(f"| {area} | {call} | " + " | ".join(word[seen.get(sdk)] for sdk, _ in SDKS) + " |")
    return "\n".join([*lines, "", END])


def compare(file: pathlib.Path, text: str, write: bool) -> bool:
    page = file.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    shown, _, after = rest.partition(END)
    if write:
        file.write_text(before + text + after, encoding="utf-8")
        return True
    if BEGIN + shown + END == text:
        return True
    print(f"{file} does not say what was seen; tests/sdk/run.py --write puts it there:\n{text}")
    return False


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--packages", required=True, type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.packages = options.packages.resolve()
    node = options.packages / "node_modules/.bin/node"
    if not node.exists():
        print(f"skipped: no SDKs in {options.packages}; ./dev deps sdk installs them (npm must be reachable)")
        return 77
    version = versions(options.packages)
    # Beside the packages, where the modules' names are found from.
    suite = options.packages / "suite.mjs"
    for name in ("suite.mjs", "templates.mjs", "volumes.mjs", "domain.mjs", "names.mjs"):
        shutil.copyfile(HERE / name, options.packages / name)
    failed = False
    results = {}
    with tempfile.TemporaryDirectory(prefix="berth-sdk-") as place:
        data = place + "/data"
        server = Server(options.program, data)
        try:
            other = subprocess.run([options.program, "key", "add", "--tenant", "other", "--data", data],
                                   check=True, capture_output=True, text=True).stdout.strip()
            for sdk, package in SDKS:
                print(f"== {sdk} {version[sdk]}", flush=True)
                file = pathlib.Path(place) / f"{sdk}.json"
                environment = {**os.environ, "E2B_API_KEY": server.key, "E2B_API_URL": server.url,
                               "E2B_SANDBOX_URL": server.url, "E2B_VOLUME_API_URL": server.url, "BERTH_OTHER_KEY": other}
                code = subprocess.run([str(node.resolve()), str(suite), package, str(file)],
                                      env=environment, cwd=options.packages, check=False).returncode
                failed |= code != 0
                if not file.exists():
                    raise RuntimeError(f"the suite ended early with {code}")
                results[sdk] = json.loads(file.read_text())
        finally:
            told = server.told() if failed else ""
            code = server.stop()
            left = subprocess.run([options.program, "ls", "--json", "--data", data], check=False,
                                  capture_output=True, text=True).stdout
            for one in json.loads(left or "{}").get("sandboxes", []):
                subprocess.run([options.program, "rm", one["id"], "--data", data], check=False)
        if code != 0:
            print(f"the server ended with {code}")
            failed = True
        failed |= not by_name(options.program, options.packages, node, place)
        if failed:
            print(told)
    if options.table and not os.environ.get("BERTH_SDK_ONLY"):
        failed |= not compare(options.table, table(results, version), options.write)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
