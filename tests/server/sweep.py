#!/usr/bin/env python3
"""What time does to sandboxes while a server runs: nobody calls berth gc here. sweep.py BERTH [CHECK]"""
import json
import os
import subprocess
import sys
import threading
import time

from served import Checks, Server

check = Checks()


def cli(server: Server, *words: str, program: str | None = None, code: int | None = 0, **environment: str) -> str:
    ended = subprocess.run([program or server.program, words[0], "--data", server.data, *words[1:]], capture_output=True, text=True,
                           check=False, timeout=120, env={**os.environ, **environment})
    assert code is None or ended.returncode == code, (words, ended)
    return ended.stdout


def ask(server: Server, method: str, path: str, document=None):
    body = None if document is None else json.dumps(document).encode()
    status, _, text = server.request(method, path, body, {"Authorization": "Bearer " + server.key})
    return status, json.loads(text) if text else None


def make(server: Server, **fields) -> str:
    status, made = ask(server, "POST", "/v1/sandboxes", fields)
    assert status == 201, made
    return made["id"]


def recorded(server: Server, sandbox: str) -> dict:
    """As the store has it, without asking the backend or the server."""
    return next(one for one in json.loads(cli(server, "ls", "--all", "--json"))["sandboxes"] if one["id"] == sandbox)


def becomes(server: Server, sandbox: str, state: str) -> None:
    deadline = time.monotonic() + 60
    while (seen := recorded(server, sandbox)["state"]) != state:
        assert time.monotonic() < deadline, f"{sandbox} is {seen}, and was to become {state}"
        time.sleep(0.1)


def told(server: Server, sandbox: str) -> list[str]:
    lines = cli(server, "events", "--json", sandbox).splitlines()
    return [json.loads(line)["type"] for line in lines]


@check
def the_idle_are_stopped_whoever_made_them(server: Server):
    mine = make(server, idle_seconds=1)
    other = cli(server, "create", "-q", "--idle", "1s").strip()
    kept = make(server)
    for one in (mine, other):
        becomes(server, one, "stopped")
        assert "berth.sandbox_idle_stopped" in told(server, one)
    assert recorded(server, kept)["state"] == "running", "one without a deadline is left alone"
    # Used again, it is there again with its files; and stopped again when nobody does.
    assert ask(server, "PUT", f"/v1/sandboxes/{mine}/files?path=/tmp/x", {"kept": 1})[0] == 204
    assert ask(server, "GET", f"/v1/sandboxes/{mine}/files?path=/tmp/x") == (200, {"kept": 1})
    becomes(server, mine, "stopped")
    cli(server, "rm", mine, other, kept)


@check
def a_running_command_pins(server: Server):
    box = make(server, idle_seconds=1)
    twin = make(server, idle_seconds=1)
    status, started = ask(server, "POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sh", "-c", "while [ ! -e go ]; do sleep 0.05; done"]})
    assert status == 201, started
    becomes(server, twin, "stopped")  # of the same age: sweeps have been there
    before = server_count(server)
    assert recorded(server, box)["state"] == "running"
    third = make(server, idle_seconds=1)
    becomes(server, third, "stopped")
    assert recorded(server, box)["state"] == "running" and server_count(server) > before
    cli(server, "exec", box, "--", "touch", "go")
    becomes(server, box, "stopped")
    cli(server, "rm", box, twin, third)


def server_count(server: Server) -> int:
    _, _, text = server.request("GET", "/metrics")
    return next(int(line.split()[1]) for line in text.decode().splitlines() if line.startswith("berth_sweep_actions_total "))


@check
def to_be_found_again_or_copied_to_is_use(server: Server):
    box = make(server, key="used", idle_seconds=3600)
    here = cli(server, "create", "-q", "--key", "used here", "--idle", "1h").strip()

    def counts(sandbox: str, what) -> None:
        before = recorded(server, sandbox)["last_used"]
        deadline = time.monotonic() + 60
        while recorded(server, sandbox)["last_used"] == before:  # written once a second
            assert time.monotonic() < deadline, what
            what()

    counts(box, lambda: ask(server, "POST", "/v1/sandboxes", {"key": "used", "idle_seconds": 3600}))
    counts(box, lambda: ask(server, "GET", f"/v1/sandboxes/{box}/directory?path=/tmp"))
    counts(here, lambda: cli(server, "create", "-q", "--key", "used here"))
    counts(here, lambda: cli(server, "cp", f"{here}:/etc/hostname", "-"))
    cli(server, "rm", box, here)


def begun_upload(server: Server, box: str):
    """That of a client that has sent a part of a file."""
    s = server.connect()
    s.sendall(f"PUT /v1/sandboxes/{box}/files?path=/tmp/x HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.key}\r\n"
              "Content-Length: 2\r\n\r\n1".encode())
    return lambda: (s.sendall(b"2"), s.recv(4096), s.close())


def begun_connection(server: Server, box: str):
    listen = "import socket; s=socket.create_server(('127.0.0.1',9000)); c=s.accept()[0]; c.recv(1)"
    status, _ = ask(server, "POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sh", "-c", f'setsid python3 -c "{listen}" </dev/null >/dev/null 2>&1 &']})
    assert status == 201  # it ends at once: what listens is nobody's command
    deadline = time.monotonic() + 60
    while True:  # until it listens
        s = server.connect()
        s.sendall(f"GET /v1/sandboxes/{box}/ports/9000 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.key}\r\n"
                  "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n".encode())
        if b" 101 " in (said := s.recv(4096)):
            return s.close
        s.close()
        assert time.monotonic() < deadline, said
        time.sleep(0.05)


def begun_copy(server: Server, box: str):
    running = subprocess.Popen([server.program, "cp", "--data", server.data, "-", f"{box}:/tmp/x"], stdin=subprocess.PIPE)
    return lambda: (running.stdin.close(), running.wait(60))


def begun_forward(server: Server, box: str):
    running = subprocess.Popen([server.program, "port", "--data", server.data, box, "9000"], stdout=subprocess.PIPE)
    assert running.stdout.readline()
    return lambda: (running.terminate(), running.wait(60), running.stdout.close())


@check
def a_long_copy_or_connection_pins(server: Server):
    ends = {}
    for begin in (begun_copy, begun_upload, begun_forward, begun_connection):
        box = make(server, idle_seconds=3)
        ends[box] = begin(server, box)
    twin = make(server, idle_seconds=3)
    becomes(server, twin, "stopped")  # younger than any of them
    for box in ends:
        assert recorded(server, box)["state"] == "running", "it is in use"
        ends[box]()
    for box in ends:
        becomes(server, box, "stopped")
    cli(server, "rm", twin, *ends)


@check
def a_lifetime_ends_and_idle_ones_are_kept_or_destroyed_as_asked(server: Server):
    short = make(server, lifetime_seconds=1)
    gone = make(server, idle_seconds=1, on_idle="destroy")
    kept = make(server, idle_seconds=1, on_idle="snapshot_then_stop")
    for one in (short, gone):
        becomes(server, one, "destroyed")
        assert ask(server, "GET", f"/v1/sandboxes/{one}/execs/exec_00000000000000000000000000")[0] == 404
    becomes(server, kept, "stopped")
    _, listed = ask(server, "GET", "/v1/snapshots")
    assert [one["sandbox"] for one in listed["snapshots"]] == [kept], listed
    assert ask(server, "DELETE", "/v1/snapshots/" + listed["snapshots"][0]["id"])[0] == 204
    cli(server, "rm", kept)


@check
def what_killed_makers_left_is_gone_after_a_start(server: Server):
    hooks = server.program + "-hooks"
    if not os.path.exists(hooks):
        raise AssertionError(f"{hooks} is not there: ninja berth-hooks makes it")
    assert server.stop() == 0
    for label in ("sandbox recorded", "instance made"):
        cli(server, "create", "-q", program=hooks, code=-9, BERTH_TEST_KILL=label)
    box = cli(server, "create", "-q").strip()
    cli(server, "stop", box, program=hooks, code=-9, BERTH_TEST_KILL="instance stopped")
    assert recorded(server, box)["state"] == "running", "nobody has told the store"
    states = [one["state"] for one in json.loads(cli(server, "ls", "--all", "--json"))["sandboxes"]]
    assert states.count("creating") == 2, states
    server = Server(server.program, server.data)
    becomes(server, box, "stopped")
    listed = json.loads(cli(server, "ls", "--all", "--json"))["sandboxes"]
    assert not [one for one in listed if one["state"] == "creating"], listed
    left = [one for one in json.loads(cli(server, "gc", "--json", "--dry-run"))["actions"] if one["what"] != "remove"]
    assert not left, f"nothing is left for gc but layers: {left}"
    cli(server, "rm", box)
    return server


@check
def what_others_make_meanwhile_is_not_touched(server: Server):
    """Servers on other ports would be refused; any number of gc may run beside one."""
    over = threading.Event()
    failed: list[object] = []

    def collect() -> None:
        while not over.is_set():
            ended = subprocess.run([server.program, "gc", "--json", "--data", server.data], capture_output=True, text=True, check=False)
            if ended.returncode != 0 or [one for one in json.loads(ended.stdout)["actions"] if one["what"] not in ("stop", "remove")]:
                failed.append((ended.returncode, ended.stdout, ended.stderr))

    def use(i: int) -> None:
        for _ in range(3):
            try:
                box = cli(server, "create", "-q", "--key", f"k{i}", "--idle", "3s").strip()
                assert cli(server, "exec", box, "--", "echo", str(i)) == f"{i}\n"
            except AssertionError as e:
                failed.append(e)

    collectors = [threading.Thread(target=collect) for _ in range(2)]
    users = [threading.Thread(target=use, args=(i,)) for i in range(4)]
    for one in collectors + users:
        one.start()
    for one in users:
        one.join()
    over.set()
    for one in collectors:
        one.join()
    assert not failed, failed
    boxes = [one["id"] for one in json.loads(cli(server, "ls", "--json"))["sandboxes"]]
    assert len(boxes) == 4, boxes
    for one in boxes:
        becomes(server, one, "stopped")
        assert told(server, one).count("berth.sandbox_idle_stopped") <= 3, "each end is told once"
    cli(server, "rm", *boxes)


if __name__ == "__main__":
    sys.exit(check.main())
