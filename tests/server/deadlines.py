#!/usr/bin/env python3
"""Timeouts of commands, when whoever minds them is killed: their keepers hold them, and where those cannot, any server
and berth gc. deadlines.py BERTH [CHECK]"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from served import Checks, Server

check = Checks()
TIMED_OUT = "timed out, signal 9"
# With a child in its group, and one that left it: found where there are control groups.
TREE = "sleep 7531 & setsid sleep 7531 & wait" if os.geteuid() == 0 else "sleep 7531 & wait"


def cli(server: Server, *words: str, program: str | None = None, code: int = 0, **environment: str) -> str:
    ended = subprocess.run([program or server.program, words[0], "--data", server.data, *words[1:]], capture_output=True, text=True,
                           check=False, timeout=120, env={**os.environ, **environment})
    assert ended.returncode == code, (words, ended)
    return ended.stdout


def ask(server: Server, method: str, path: str, document=None):
    body = None if document is None else json.dumps(document).encode()
    status, _, text = server.request(method, path, body, {"Authorization": "Bearer " + server.key})
    return status, json.loads(text) if text else None


def without_keeper(server: Server) -> Server:
    """The same with sandboxes whose keepers know no times, like those of an older program."""
    assert server.stop() == 0
    return Server(server.program.removesuffix("-hooks") + "-hooks", server.data, environment={"BERTH_TEST_LACK": "keeper-time"})


def with_keeper(server: Server) -> Server:
    return Server(server.program.removesuffix("-hooks"), server.data)


def make(server: Server) -> str:
    status, made = ask(server, "POST", "/v1/sandboxes", {})
    assert status == 201, made
    return made["id"]


def start(server: Server, box: str, seconds: float) -> str:
    status, told = ask(server, "POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sh", "-c", TREE], "timeout_seconds": seconds})
    assert status == 201, told
    return told["id"]


def recorded(server: Server, box: str, exec_: str) -> dict:
    """As the store has it."""
    return next(one for one in json.loads(cli(server, "inspect", box, "--json"))["execs"] if one["id"] == exec_)


def ends(server: Server, box: str, exec_: str, how=lambda: None) -> dict:
    until = time.monotonic() + 60
    while (seen := recorded(server, box, exec_))["running"]:
        assert time.monotonic() < until, seen
        how()
        time.sleep(0.1)
    return seen


def left(server: Server, box: str) -> str:
    """Of the tree, by what the sandbox itself sees."""
    return cli(server, "exec", box, "--", "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 75[3]1' || true").strip()


def minders(server: Server) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:3] == [b"berth", b"mind", server.data.encode()]:
            found.append(int(pid))
    return found


def kill_minders(server: Server) -> None:
    for pid in minders(server):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it had nothing to mind any more


def followed(server: Server, box: str, exec_: str) -> tuple[str, dict]:
    """What `berth logs` tells of its end, to people and to programs, when it has come. It keeps nothing to its time."""
    said = subprocess.run([server.program, "logs", "--data", server.data, box, exec_, "--follow"], capture_output=True, text=True,
                          check=True, timeout=120).stderr
    lines = [json.loads(line) for line in cli(server, "logs", box, exec_, "--json").splitlines()]
    return said, next(line for line in lines if line["event"] == "exit")


@check
def the_keeper_holds_it_when_nothing_else_of_ours_lives(server: Server):
    box = make(server)
    attended = start(server, box, 1.5)
    detached = cli(server, "exec", "--detach", "--timeout", "1.5s", box, "--", "sh", "-c", TREE).strip()
    ended_before = cli(server, "exec", "--detach", "--timeout", "1000s", box, "--", "sh", "-c", "kill -9 $$").strip()
    server.kill()
    kill_minders(server)
    for exec_ in (attended, detached):
        said, exit_ = followed(server, box, exec_)
        assert "ended: " + TIMED_OUT in said, said
        assert exit_["status"] == TIMED_OUT and exit_["timed_out"] is True and exit_["signal"] == 9, exit_
    assert followed(server, box, ended_before)[1]["timed_out"] is False
    # Whoever looks first records it, and says the same.
    server = Server(server.program, server.data)
    for exec_ in (attended, detached):
        assert ends(server, box, exec_, lambda: cli(server, "gc"))["outcome"] == TIMED_OUT
        status, _, stream = server.request("GET", f"/v1/sandboxes/{box}/execs/{exec_}/events", None,
                                           {"Authorization": "Bearer " + server.key})
        assert status == 200 and b'"timed_out":true' in stream, stream
    assert ends(server, box, ended_before, lambda: cli(server, "gc"))["outcome"] == "signal 9"
    assert left(server, box) == "0"
    cli(server, "rm", box)
    return server


@check
def a_server_holds_it_and_says_so(server: Server):
    server = without_keeper(server)
    box = make(server)
    exec_ = start(server, box, 0.3)
    seen = ends(server, box, exec_)
    assert seen["outcome"] == TIMED_OUT and seen["timeout_seconds"] == 0.3, seen
    assert left(server, box) == "0"
    by_himself = ask(server, "POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sh", "-c", "kill -9 $$"], "timeout_seconds": 600})[1]["id"]
    assert ends(server, box, by_himself)["outcome"] == "signal 9"
    cli(server, "rm", box)
    server.stop()
    return with_keeper(server)


@check
def the_next_server_holds_what_a_killed_one_had(server: Server):
    server = without_keeper(server)
    box = make(server)
    longer = start(server, box, 10_000)
    exec_ = start(server, box, 3)
    server.kill()
    assert recorded(server, box, exec_)["running"]
    server = Server(server.program, server.data, environment={"BERTH_TEST_LACK": "keeper-time"})
    assert ends(server, box, exec_)["outcome"] == TIMED_OUT
    assert recorded(server, box, longer)["running"]
    assert "timed out" in cli(server, "events", "--json", box)
    cli(server, "rm", box)
    server.stop()
    return with_keeper(server)


@check
def gc_holds_it_where_no_server_runs(server: Server):
    server = without_keeper(server)
    box = make(server)
    exec_ = start(server, box, 3)
    server.kill()
    hooks = server.program
    for label in ("exec overdue", "overdue exec killed"):
        until = time.monotonic() + 60
        while subprocess.run([hooks, "gc", "--data", server.data], capture_output=True, check=False, timeout=120,
                             env={**os.environ, "BERTH_TEST_KILL": label}).returncode != -signal.SIGKILL:
            assert time.monotonic() < until, label
            time.sleep(0.2)
    assert ends(server, box, exec_, lambda: cli(server, "gc"))["outcome"] == TIMED_OUT
    assert left(server, box) == "0"
    cli(server, "rm", box)
    return with_keeper(server)


@check
def a_detached_command_has_somebody_who_stays(server: Server):
    assert server.stop() == 0
    box = cli(server, "create", "-q").strip()
    old = {"program": server.program + "-hooks", "BERTH_TEST_LACK": "keeper-time"}
    exec_ = cli(server, "exec", "--detach", "--timeout", "0.5s", box, "--", "sh", "-c", TREE, **old).strip()
    assert ends(server, box, exec_)["outcome"] == TIMED_OUT
    assert left(server, box) == "0"
    short = cli(server, "exec", "--detach", "--timeout", "1000s", box, "--", "true").strip()
    assert ends(server, box, short)["outcome"] == "exit 0"
    until = time.monotonic() + 60
    while minders(server):
        assert time.monotonic() < until, "he goes when there is nothing to mind"
        time.sleep(0.1)
    # And where he is killed, whoever collects.
    late = cli(server, "exec", "--detach", "--timeout", "1s", box, "--", "sh", "-c", TREE, **old).strip()
    kill_minders(server)
    assert ends(server, box, late, lambda: cli(server, "gc"))["outcome"] == TIMED_OUT
    cli(server, "rm", box)
    return Server(server.program, server.data)


if __name__ == "__main__":
    sys.exit(check.main())
