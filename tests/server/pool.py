#!/usr/bin/env python3
"""Sandboxes that a server makes before they are asked for: seen by nobody, given once, gone with it. pool.py BERTH [CHECK]"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from served import Checks, Server

check = Checks()
PLACES = 2


def wait_for(question, what: str):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = question()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError("never: " + what)


def metrics(server: Server) -> dict[str, int]:
    status, _, text = server.request("GET", "/metrics")
    assert status == 200, text
    return {line.split()[0]: int(line.split()[1]) for line in text.decode().splitlines() if line.startswith("berth_pool_")}


def full(server: Server) -> dict[str, int]:
    return wait_for(lambda: (m := metrics(server))["berth_pool_parked"] == PLACES and m, "the places are filled")


def instances(server: Server) -> set[str]:
    return set(os.listdir(pathlib.Path(server.data) / "sandbox"))


def mark_of(data: str) -> bytes:
    stat = os.stat(data)
    return f"{stat.st_dev:x}.{stat.st_ino:x}/".encode()


def marked(mark: bytes) -> int:
    """Processes that are the first of a sandbox of one state directory: their arguments name it."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        count += len(words) > 1 and words[0] == b"k" and words[1].startswith(mark)
    return count


def keepers(server: Server) -> int:
    return marked(mark_of(server.data))


def cli(server: Server, *words: str) -> str:
    return subprocess.run([server.program, *words, "--data", server.data], check=True, capture_output=True, text=True).stdout


def warm(server: Server) -> Server:
    server.stop()
    return Server(server.program, server.data, "--pool", str(PLACES))


@check
def nobody_sees_what_is_parked(server: Server):
    server = warm(server)
    full(server)
    assert len(instances(server)) == PLACES and keepers(server) == PLACES
    assert json.loads(cli(server, "ls", "--all", "--json"))["sandboxes"] == []
    assert server.api("GET", "/v2/sandboxes") == (200, [])
    assert server.api("GET", "/v1/sandboxes") == (200, {"sandboxes": []})
    for name in instances(server):
        assert server.api("GET", f"/v1/sandboxes/{name}")[0] == 404
    cli(server, "gc", "--orphans")
    assert keepers(server) == PLACES, "who collects leaves a living server's alone"
    return server


@check
def each_is_given_once_and_is_like_any_other(server: Server):
    server = warm(server)
    before = full(server)
    parked = instances(server)
    boxes = [server.create(metadata={"n": str(i)}) for i in range(PLACES + 2)]
    after = metrics(server)
    assert after["berth_pool_claimed_total"] - before["berth_pool_claimed_total"] >= PLACES, after
    records = json.loads(cli(server, "ls", "--json"))["sandboxes"]
    assert len({one["id"] for one in records}) == len(boxes) and parked <= {one["id"] for one in records}
    hosts = [box.run("uname -n; cat /etc/machine-id")[0].split() for box in boxes]
    assert [host for host, _ in hosts] == [box.id for box in boxes], hosts
    assert len({machine for _, machine in hosts}) == len(boxes), hosts
    for one in records:
        inspected = json.loads(cli(server, "inspect", one["id"], "--json"))
        assert inspected["state"] == "running", inspected
    for box in boxes:
        assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    return server


@check
def a_claimed_one_outlives_the_server(server: Server):
    server = warm(server)
    full(server)
    box = server.create()
    assert box.run("echo mine > note")[1]["status"] == "exit status 0"
    server.kill()
    wait_for(lambda: keepers(server) == 1, "what the killed one had parked ends with it")
    left = instances(server)
    server = Server(server.program, server.data, "--pool", str(PLACES))
    box.server = server
    assert box.run("uname -n; cat note")[0] == f"{box.id}\nmine\n"
    full(server)
    assert keepers(server) == PLACES + 1, "what the killed one had parked is gone"
    assert len(left & instances(server)) == 1, (left, instances(server))
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    return server


@check
def a_server_that_ends_takes_them_along(server: Server):
    server = warm(server)
    full(server)
    assert server.stop() == 0
    assert (keepers(server), instances(server)) == (0, set())
    return Server(server.program, server.data)


@check
def what_a_killed_one_left_is_collected(server: Server):
    server = warm(server)
    full(server)
    server.kill()
    wait_for(lambda: keepers(server) == 0, "they end with their maker")
    assert len(instances(server)) == PLACES
    cli(server, "gc")
    assert instances(server) == set()
    return Server(server.program, server.data)


@check
def they_end_with_a_killed_server_whose_directory_is_gone(server: Server):
    server.stop()
    data = tempfile.mkdtemp()
    removed = Server(server.program, data, "--pool", str(PLACES))
    full(removed)
    mark = mark_of(data)
    subprocess.run(["chmod", "-R", "u+rwX", data + "/sandbox"], check=True)
    shutil.rmtree(data + "/sandbox")
    assert keepers(removed) == PLACES
    removed.kill()
    wait_for(lambda: marked(mark) == 0, "they end with their maker, whatever is left of their directory")
    shutil.rmtree(data)
    return Server(server.program, server.data)


@check
def with_none_nothing_is_made_ahead(server: Server):
    server.stop()
    server = Server(server.program, server.data, "--pool", "0")
    assert metrics(server) == {}
    box = server.create()
    assert instances(server) == {json.loads(cli(server, "ls", "--json"))["sandboxes"][0]["id"]}
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    return server


if __name__ == "__main__":
    sys.exit(check.main())
