#!/usr/bin/env python3
"""The command line against a server: berth --server URL. remote_cli.py BERTH [CHECK]"""
import base64
import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

from served import Checks, Server, take_instance_away

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
    assert [e["event"] for e in events if e["event"] != "start"] == ["exec", "stdout", "exit", "closed"], events
    assert (events[0]["sandbox"], events[0]["outcome"]) == (box, "attached") and events[0]["exec"].startswith("exec_"), events
    assert base64.b64decode(next(e["data"] for e in events if "data" in e)) == b"seen\n"
    good(berth(server, "rm", box))


@check
def what_is_lost_is_said_as_it_is_here(server: Server):
    place = pathlib.Path(server.data).parent / "lost"
    place.mkdir()
    (place / "x").write_text("x")
    box = make(server, "--key", "lost")
    good(berth(server, "exec", box, "--", "sh", "-c", "echo a > f"))
    snapshot = good(berth(server, "snapshot", box)).strip()
    good(berth(server, "exec", box, "--", "sh", "-c", "echo b > f"))

    def take_away() -> None:
        take_instance_away(server, json.loads(good(berth(server, "inspect", box, "--json")))["native"])

    def said(*words: str, **more) -> subprocess.CompletedProcess:
        take_away()
        ended = berth(server, *words, **more)
        first, second, *_ = ended.stderr.splitlines()
        assert first.startswith(f"berth: restored {box} from {snapshot}, without the last "), ended
        assert second.startswith(f"berth: made anew from {snapshot}: "), ended
        return ended

    assert good(said("exec", box, "--", "cat", "f")) == "a\n"
    assert good(said("exec", "-d", box, "--", "true")).startswith("exec_")
    assert good(said("cp", f"{box}:f", "-")) == "a\n"
    good(said("cp", str(place / "x"), f"{box}:/tmp/x"))
    good(said("start", box))
    assert good(said("create", "--key", "lost")).strip() == box
    assert said("port", box, "9", "--stdio", input="").returncode == 7
    take_away()
    first = json.loads(good(berth(server, "exec", "--json", box, "--", "cat", "f")).splitlines()[0])
    assert (first["event"], first["outcome"], first["snapshot"]) == ("exec", "restored", snapshot), first
    # And by the words of the verb here.
    take_away()
    here = subprocess.run([server.program, "exec", "--data", server.data, box, "--", "cat", "f"], capture_output=True, text=True, check=True)
    there = said("exec", box, "--", "cat", "f")
    assert [line.split(" without")[0] for line in here.stderr.splitlines()[:1]] == [line.split(" without")[0] for line in there.stderr.splitlines()[:1]]
    assert berth(server, "exec", box, "--", "true").stderr == "", "of one that runs nothing is said"
    good(berth(server, "stop", box))
    assert berth(server, "exec", box, "--", "true").stderr == f"berth: started {box}\n"
    good(berth(server, "rm", box))
    good(berth(server, "snapshots", "rm", snapshot))
    subprocess.run([server.program, "gc", "--data", server.data], check=True, capture_output=True)


@check
def a_detached_command_is_found_in_its_log(server: Server):
    box = make(server)
    behind = berth(server, "exec", box, "--detach", "true")
    assert behind.returncode == 125 and f"options stand before the sandbox, or -- behind them: berth exec --detach {box} -- true" in behind.stderr, behind
    exec_id = good(berth(server, "exec", "-d", box, "--", "sh", "-c", "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two")).strip()
    deadline = time.monotonic() + 60
    while good(berth(server, "logs", box, exec_id)) != "one\n":
        assert time.monotonic() < deadline
    good(berth(server, "exec", box, "--", "touch", "go"))
    assert good(berth(server, "logs", box, exec_id, "--follow")) == "one\ntwo\n"
    assert good(berth(server, "logs", box, exec_id, "--after", "1")) == "two\n"
    assert good(berth(server, "logs", box, exec_id[:25])).startswith("one\n")
    for words, code in (((), 143), (("--grace", "0s"), 137), (("--signal", "TERM"), 143)):
        sleeper = good(berth(server, "exec", "-d", box, "--", "sleep", "1000")).strip()
        assert good(berth(server, "kill", box, sleeper, *words)).strip() == sleeper
        last = [json.loads(line) for line in good(berth(server, "logs", box, sleeper, "--follow", "--json")).splitlines()]
        assert next(e for e in last if e["event"] == "exit")["signal"] == code - 128, last
        told = json.loads(good(berth(server, "kill", box, sleeper, "--json")))  # once more is success
        assert told["id"] == sleeper and told["outcome"] == f"signal {code - 128}", told
        assert berth(server, "kill", box, sleeper, "--signal", "TERM").returncode == 4
    assert berth(server, "kill", box, "exec_none").returncode == 3
    assert berth(server, "exec", box, "--", "no-such-program").returncode == 127
    for words in ((), ("--follow",)):
        unstarted = berth(server, "logs", box, *words)
        assert unstarted.returncode == 3 and "has no log, it was not started: command not found" in unstarted.stderr, unstarted
    good(berth(server, "rm", box))


@check
def a_key_is_never_mistaken_for_the_end_of_another(server: Server):
    box = make(server, "--key", "team:demo")
    assert berth(server, "rm", "demo").returncode == 3
    assert good(berth(server, "rm", "team:demo")).strip() == box


@check
def what_does_not_work_there_is_told(server: Server):
    ran = berth(server, "run", "--json", "--", "true")
    assert ran.returncode == 125 and json.loads(ran.stdout)["error"]["code"] == "unsupported", ran
    assert "unset BERTH_SERVER" in berth(server, "gc").stderr
    assert "leave --server out" in berth(server, "gc", "--server", server.url).stderr
    assert berth(server, "rnu").stderr == "berth: unknown verb 'rnu', did you mean run?\n"
    named = berth(server, "create", "--name", "mine")
    assert named.returncode == 2 and named.stderr.startswith("berth: --name does not work with a server"), named
    assert berth(server, "create", "--nmae", "mine").stderr.startswith("berth: unknown option --nmae")
    wrong = berth(server, "ls", "--server", "nowhere", "--json")
    assert wrong.returncode == 2 and json.loads(wrong.stdout)["error"]["code"] == "invalid", wrong


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
def input_waits_for_a_server_that_is_away(server: Server):
    box = make(server)
    environment = {**os.environ, "BERTH_SERVER": server.url, "BERTH_API_KEY": server.key}
    with subprocess.Popen([server.program, "exec", "-i", box, "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          bufsize=1, env=environment) as running:
        try:
            running.stdin.write("one\n")
            assert running.stdout.readline() == "one\n"
            server.kill()
            running.stdin.write("two\n")
            time.sleep(1)  # it is asked in vain
            server = Server(server.program, server.data, listen=f"127.0.0.1:{server.port}")
            assert select.select([running.stdout], [], [], 60)[0], "what was typed meanwhile is lost"
            assert running.stdout.readline() == "two\n"
            running.stdin.close()
            assert running.wait(60) == 0
        finally:
            running.kill()
    good(berth(server, "rm", box))
    return server


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
    os.mkfifo(place / "pipe")
    refused = berth(server, "cp", f"{box}:/tmp/typed", str(place / "pipe"))
    assert refused.returncode == 2 and "no regular file" in refused.stderr and (place / "pipe").is_fifo(), refused
    (place / "pipe").unlink()
    assert sorted(p.name for p in place.iterdir()) == ["a.bin", "b.bin"], "nothing half done is left"
    good(berth(server, "rm", box))


@check
def trees_go_in_and_out(server: Server):
    box = make(server)
    place = pathlib.Path(server.data).parent / "trees"
    (place / "in/a/b").mkdir(parents=True)
    for i in range(30):
        (place / f"in/a/b/{i}").write_text(str(i) * i)
    (place / "in/link").symlink_to("a/b/1")
    (place / "in/run").write_text("#!/bin/sh\n")
    (place / "in/run").chmod(0o755)
    good(berth(server, "cp", str(place / "in"), f"{box}:/tmp/"))  # into a directory that is there
    assert good(berth(server, "exec", box, "--", "sh", "-c", "cat /tmp/in/link; ls /tmp/in/a/b | wc -l; test -x /tmp/in/run && echo runs")) == "130\nruns\n"
    good(berth(server, "cp", f"{box}:/tmp/in", str(place / "out")))  # under a new name
    for i in range(30):
        assert (place / f"out/a/b/{i}").read_text() == str(i) * i
    assert os.readlink(place / "out/link") == "a/b/1" and os.access(place / "out/run", os.X_OK)
    good(berth(server, "cp", str(place / "in") + "/.", f"{box}:/tmp/renamed"))
    assert good(berth(server, "exec", box, "--", "ls", "/tmp/renamed")).split() == ["a", "link", "run"]
    assert berth(server, "cp", f"{box}:/tmp/none/", str(place / "none")).returncode == 3
    good(berth(server, "rm", box))


@check
def a_terminal_there_is_like_one_here(server: Server):
    box = make(server)
    environment = {**os.environ, "BERTH_SERVER": server.url, "BERTH_API_KEY": server.key, "TERM": "dumb"}
    for words in (("exec", "-it", box, "--", "sh"), ("shell", box)):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
        before = termios.tcgetattr(theirs)
        with subprocess.Popen([server.program, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True) as running:
            def says(wanted: bytes) -> bytes:
                seen = b""
                while wanted not in seen:
                    if not select.select([ours], [], [], 60)[0]:
                        running.kill()  # else it would be waited for
                        raise AssertionError(f"{words} does not say {wanted} after {seen}")
                    seen += os.read(ours, 65536)
                return seen
            os.write(ours, b"stty size; echo re''ady\n")
            assert b"33 111" in says(b"ready")
            fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 122, 0, 0))
            os.kill(running.pid, signal.SIGWINCH)
            os.write(ours, b"until stty size | grep 44; do sleep 0.05; done\n")
            says(b"44 122")
            # By the program that is interrupted: a shell that was, before it began one, waits for it all the same.
            os.write(ours, b"sh -c 'echo be\"\"gun; exec sleep 1000'\n")
            says(b"begun")
            os.write(ours, b"\x03")  # the terminal there makes a signal of it
            says(b"$ ")
            os.write(ours, b"echo st''ill\n")
            says(b"still")
            os.write(ours, b"exit 7\n")
            assert running.wait(60) == 7
        assert termios.tcgetattr(theirs) == before, "and our terminal is what it was"
        os.close(ours)
        os.close(theirs)
    good(berth(server, "rm", box))


@check
def a_port_there_is_reached_from_here(server: Server):
    box = make(server)
    echo = "import socket; s=socket.create_server(('127.0.0.1',9000)); print('ready',flush=True)\nwhile 1:\n c=s.accept()[0]\n d=b''\n while p:=c.recv(65536): d+=p\n c.sendall(d[::-1]); c.close()"
    exec_id = good(berth(server, "exec", "-d", box, "--", "python3", "-c", echo)).strip()
    deadline = time.monotonic() + 60
    while "ready" not in good(berth(server, "logs", box, exec_id)):
        assert time.monotonic() < deadline
    assert good(berth(server, "port", box, "9000", "--stdio", input="hello")) == "olleh"
    environment = {**os.environ, "BERTH_SERVER": server.url, "BERTH_API_KEY": server.key}
    with subprocess.Popen([server.program, "port", box, "9000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as running:
        host, _, port = running.stdout.readline().strip().rpartition(":")
        for text in (b"one", bytes(range(256)) * 5000):
            with socket.create_connection((host, int(port)), 60) as s:
                sender = threading.Thread(target=lambda: (s.sendall(text), s.shutdown(socket.SHUT_WR)))
                sender.start()
                got = b""
                while piece := s.recv(65536):
                    got += piece
                sender.join()
            assert got == text[::-1]
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0
    nobody = berth(server, "port", box, "9001", "--stdio", input="")
    assert nobody.returncode == 7 and "nobody listens" in nobody.stderr, nobody
    good(berth(server, "rm", box))


@check
def all_of_it_by_tls(server: Server):
    assert server.stop() == 0
    secure = Server(server.program, server.data, "--tls-self-signed")
    assert secure.url.startswith("https://") and os.path.exists(secure.authority)
    untrusted = berth(secure, "ls")
    assert untrusted.returncode == 7 and "certificate" in untrusted.stderr, untrusted
    os.environ["SSL_CERT_FILE"] = secure.authority
    try:
        box = make(secure)
        sent = "".join(f"line {i}\n" for i in range(20_000))
        assert good(berth(secure, "exec", "-i", box, "--", "cat", input=sent)) == sent
        echo = "import socket; s=socket.create_server(('127.0.0.1',9000)); print('ready',flush=True); c=s.accept()[0]; d=b''\nwhile len(d)<1_000_000: d+=c.recv(65536)\nc.sendall(d[::-1]); c.close()"
        exec_id = good(berth(secure, "exec", "-d", box, "--", "python3", "-c", echo)).strip()
        deadline = time.monotonic() + 60
        while "ready" not in good(berth(secure, "logs", box, exec_id)):
            assert time.monotonic() < deadline
        data = "0123456789" * 100_000
        assert good(berth(secure, "port", box, "9000", "--stdio", input=data)) == data[::-1]
        good(berth(secure, "rm", box))
    finally:
        del os.environ["SSL_CERT_FILE"]
    assert secure.stop() == 0
    return Server(server.program, server.data)


@check
def snapshots_and_events_there(server: Server):
    box = make(server, "--key", "kept")
    good(berth(server, "exec", box, "--", "sh", "-c", "echo first > f"))
    snapshot = good(berth(server, "snapshot", box, "--note", "one")).strip()
    assert snapshot in good(berth(server, "snapshots", "-q")).split()
    assert good(berth(server, "snapshots", box, "-q")).split() == [snapshot]
    assert "one" in good(berth(server, "snapshots"))
    twin = good(berth(server, "restore", snapshot[:20])).strip()
    assert twin != box and good(berth(server, "exec", twin, "--", "cat", "f")) == "first\n"
    types = [json.loads(line)["type"] for line in good(berth(server, "events", box, "--json")).splitlines()]
    assert "sandbox_created" in types, types
    assert "sandbox_created" in good(berth(server, "events", box))
    environment = {**os.environ, "BERTH_SERVER": server.url, "BERTH_API_KEY": server.key}
    with subprocess.Popen([server.program, "events", "--follow", "--json"], stdout=subprocess.PIPE, text=True, env=environment) as running:
        good(berth(server, "rm", twin))
        while json.loads(running.stdout.readline())["type"] != "berth.sandbox_destroyed":
            pass
        running.terminate()
    assert good(berth(server, "snapshots", "rm", snapshot)).split() == [snapshot]
    assert good(berth(server, "snapshots", box, "-q")) == ""
    good(berth(server, "rm", box))


@check
def what_cannot_be_done_there_says_so_by_name(server: Server):
    for verb in ("run", "move", "gc", "attach", "volume"):
        ended = berth(server, verb, "x")
        assert ended.returncode == (125 if verb == "run" else 6) and f"berth {verb} does not work with a server" in ended.stderr, ended
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
