#!/usr/bin/env python3
"""The command line against a server: berth --server URL. remote_cli.py BERTH [CHECK]"""
import base64
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from served import Checks, Server

check = Checks()


def berth(server: Server, *words: str, key: str | None = None, **more) -> subprocess.CompletedProcess:
    """As somebody who has nothing but the address and the key."""
    environment = {**os.environ, "BERTH_SERVER": server.url, "BERTH_API_KEY": server.key if key is None else key,
                   "BERTH_DATA": "/nonexistent/berth"}
    return subprocess.run([server.program, *words], capture_output=True, text=True, check=False, timeout=120, env=environment, **more)


def good(ended: subprocess.CompletedProcess) -> str:
    assert ended.returncode == 0, ended
    return ended.stdout


def make(server: Server, *words: str) -> str:
    return good(berth(server, "create", "-q", *words)).strip()


@check
def a_sandbox_lives_its_life(server: Server):
    wish = ("--key", "demo", "--label", "team=blue", "--env", "A=b")
    box = make(server, *wish)
    assert make(server, *wish) == box, "found by its key"
    assert box in good(berth(server, "ls")) and good(berth(server, "ls", "-q")).split() == [box]
    (listed,) = json.loads(good(berth(server, "ls", "--json")))["sandboxes"]
    assert listed["id"] == box and listed["state"] == "running"
    assert json.loads(good(berth(server, "inspect", "demo", "--json")))["spec"]["labels"]["team"] == "blue"
    assert good(berth(server, "exec", "demo", "--", "sh", "-c", "echo $A > kept; echo $A")) == "b\n"
    assert good(berth(server, "stop", box)).strip() == box
    assert good(berth(server, "start", box[:20])).strip() == box
    assert good(berth(server, "exec", box, "--", "cat", "kept")) == "b\n"
    snapshot = good(berth(server, "snapshot", box, "--note", "first")).strip()
    assert snapshot.startswith("snap_")
    twins = good(berth(server, "fork", box, "-n", "2")).split()
    assert len(twins) == 2 and good(berth(server, "exec", twins[1], "--", "cat", "kept")) == "b\n"
    assert good(berth(server, "rm", box, *twins)).split() == [box, *twins]
    assert good(berth(server, "ls", "-q")) == ""


@check
def a_command_is_truthful(server: Server):
    box = make(server)
    assert berth(server, "exec", box, "--", "sh", "-c", "exit 7").returncode == 7
    assert berth(server, "exec", box, "--", "sh", "-c", "kill -9 $$").returncode == 137
    assert berth(server, "exec", box, "--", "/no/such/program").returncode == 127
    assert berth(server, "exec", box, "--timeout", "1s", "--", "sleep", "100").returncode == 124
    both = berth(server, "exec", box, "--", "sh", "-c", "echo out; echo err >&2")
    assert (both.stdout, both.stderr) == ("out\n", "err\n")
    sent = "".join(f"line {i}\n" for i in range(20_000))
    assert good(berth(server, "exec", "-i", box, "--", "cat", input=sent)) == sent
    events = [json.loads(line) for line in good(berth(server, "exec", "--json", box, "--", "echo", "seen")).splitlines()]
    assert [e["event"] for e in events if e["event"] != "start"] == ["stdout", "exit", "closed"], events
    assert base64.b64decode(next(e["data"] for e in events if "data" in e)) == b"seen\n"
    good(berth(server, "rm", box))


@check
def a_detached_command_is_found_in_its_log(server: Server):
    box = make(server)
    exec_id = good(berth(server, "exec", "-d", box, "--", "sh", "-c", "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two")).strip()
    deadline = time.monotonic() + 60
    while good(berth(server, "logs", box, exec_id)) != "one\n":
        assert time.monotonic() < deadline
    good(berth(server, "exec", box, "--", "touch", "go"))
    assert good(berth(server, "logs", box, exec_id, "--follow")) == "one\ntwo\n"
    assert good(berth(server, "logs", box, exec_id, "--after", "1")) == "two\n"
    good(berth(server, "rm", box))


@check
def an_interrupt_reaches_the_command(server: Server):
    box = make(server)
    environment = {**os.environ, "BERTH_SERVER": server.url, "BERTH_API_KEY": server.key}
    with subprocess.Popen([server.program, "exec", box, "--", "sh", "-c", "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGINT)
        assert running.stdout.read() == "caught\n"
        assert running.wait(60) == 3
    good(berth(server, "rm", box))


@check
def files_go_in_and_out(server: Server):
    box = make(server)
    place = pathlib.Path(server.data).parent / "files"
    place.mkdir()
    data = os.urandom(3_000_000)
    (place / "a.bin").write_bytes(data)
    good(berth(server, "cp", str(place / "a.bin"), f"{box}:/home/user/"))
    good(berth(server, "cp", f"{box}:a.bin", str(place / "b.bin")))
    assert (place / "b.bin").read_bytes() == data
    good(berth(server, "cp", "-", f"{box}:/tmp/typed", input="typed"))
    assert good(berth(server, "cp", f"{box}:/tmp/typed", "-")) == "typed"
    assert berth(server, "cp", f"{box}:/tmp/none", str(place / "none")).returncode == 3
    assert sorted(p.name for p in place.iterdir()) == ["a.bin", "b.bin"], "nothing half done is left"
    tree = berth(server, "cp", str(place), f"{box}:/tmp/")
    assert tree.returncode == 6 and "directory" in tree.stderr, tree
    good(berth(server, "rm", box))


@check
def what_cannot_be_done_there_says_so_by_name(server: Server):
    for verb in ("run", "shell", "port", "move", "gc", "attach", "restore", "events"):
        ended = berth(server, verb, "x")
        assert ended.returncode == 6 and f"berth {verb} does not work with a server" in ended.stderr, ended
    assert "berth" in good(berth(server, "version"))
    ended = berth(server, "doctor", "--server", server.url)
    assert ended.returncode == 6 and "this machine" in ended.stderr, ended
    assert berth(server, "exec", "-t", "x", "--", "true").returncode == 125


@check
def strangers_and_typos_are_refused(server: Server):
    box = make(server)
    wrong = berth(server, "ls", key="e2b_00")
    assert wrong.returncode == 5 and "e2b_00" not in wrong.stderr + wrong.stdout, wrong
    other = subprocess.run([server.program, "key", "add", "--tenant", "other", "--data", server.data], check=True, capture_output=True, text=True).stdout.strip()
    assert good(berth(server, "ls", "-q", key=other)) == ""
    assert berth(server, "inspect", box, key=other).returncode == 3
    assert berth(server, "rm", box, key=other).returncode == 3
    assert berth(server, "inspect", "nothing").returncode == 3
    nobody = berth(server, "ls", "--server", "http://127.0.0.1:1")
    assert nobody.returncode == 7 and "berth serve" in nobody.stderr, nobody
    assert berth(server, "ls", "--server", "ftp://x").returncode == 2
    assert berth(server, "ls", "--server").returncode == 2
    good(berth(server, "rm", box))


if __name__ == "__main__":
    sys.exit(check.main())
