#!/usr/bin/env python3
"""client.py PROGRAM [PART OF A NAME]: berth's command line on backend e2b, with a real `berth serve`."""
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

from cloud import Person, environment, remove_all
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))
from served import Checks, Server  # noqa: E402

check = Checks()
places = []


def person(server: Server, **more) -> Person:
    place = tempfile.TemporaryDirectory(prefix="berth-e2b-", ignore_cleanup_errors=True)
    places.append(place)
    return Person(server.program, place.name + "/client", environment(server, **more))


def created(me: Person, *words: str) -> str:
    return json.loads(me.well("create", "--backend", "e2b", "--json", *words))["id"]


def eventually(what, holds, patience: float = 60) -> None:
    until = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.05)


@check
def every_verb_works(server):
    me = person(server)
    box = created(me, "--name", "one")
    assert me.well("exec", box, "--", "echo", "hello") == "hello\n"
    assert "e2b" in me.well("ls")
    source = pathlib.Path(me.data).parent / "file"
    source.write_bytes(bytes(range(256)) * 400)
    me.well("cp", str(source), f"{box}:/home/user/file")
    me.well("cp", f"{box}:/home/user/file", str(source) + ".back")
    assert pathlib.Path(str(source) + ".back").read_bytes() == source.read_bytes()
    me.well("stop", box)
    code, _, err = me.run("inspect", box)
    assert code == 0, err
    me.well("start", box)
    assert me.well("exec", box, "--", "wc", "-c", "/home/user/file").split()[0] == "102400"
    snapshot = json.loads(me.well("snapshot", box, "--json"))["id"]
    me.well("exec", box, "--", "rm", "/home/user/file")
    me.well("restore", snapshot)
    assert me.well("exec", box, "--", "ls", "/home/user").strip() == "file"
    me.well("rm", box)
    assert server.api("GET", "/v2/sandboxes") == (200, [])


@check
def a_tree_goes_in_and_out(server):
    me = person(server)
    box = created(me)
    tree = pathlib.Path(me.data).parent / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "a b").write_text("inside\n")
    (tree / "link").symlink_to("sub/a b")
    me.well("cp", str(tree), f"{box}:/home/user/tree")
    assert me.well("exec", box, "--", "cat", "/home/user/tree/link") == "inside\n"
    me.well("cp", f"{box}:/home/user/tree", str(tree) + ".back")
    assert (pathlib.Path(str(tree) + ".back") / "link").readlink() == pathlib.Path("sub/a b")


@check
def codes_input_and_signals_are_true(server):
    me = person(server)
    box = created(me)
    assert me.run("exec", box, "--", "sh", "-c", "exit 7")[0] == 7
    assert me.run("exec", box, "--", "sh", "-c", "kill -9 $$")[0] == 137
    assert me.well("exec", "-i", box, "--", "cat", given="typed\n") == "typed\n"
    code, _, err = me.run("exec", "--timeout", "1s", box, "--", "sleep", "60")
    assert code == 124, (code, err)
    assert me.run("exec", box, "--", "no-such-command")[0] == 127


@check
def what_was_left_running_is_found_again_with_a_gap(server):
    me = person(server)
    box = created(me)
    script = "i=0; while [ $i -lt 200 ]; do echo $i; sleep 0.05; i=$((i+1)); done; exit 5"
    exec_id = json.loads(me.well("exec", "--detach", "--json", box, "--", "sh", "-c", script))["exec"]
    code, out, err = me.run("logs", "--follow", box, exec_id)
    assert "199\n" in out, (code, out[-200:], err)
    assert "may be missing" in err, err
    assert "exit code 5" in err, err


@check
def a_restart_of_the_server_ends_no_command(server):
    me = person(server)
    box = created(me)
    script = "echo begun; i=0; while [ $i -lt 60 ]; do sleep 0.1; i=$((i+1)); done; echo done; exit 6"
    child = me.start("exec", box, "--", "sh", "-c", script)
    assert child.stdout.readline() == "begun\n"
    server.kill()
    again = Server(server.program, server.data, listen=f"127.0.0.1:{server.port}")
    out, err = child.communicate(timeout=60)
    assert out.endswith("done\n") and child.returncode == 6, (out, err, child.returncode)
    return again


@check
def a_busy_sandbox_outlives_its_time(server):
    me = person(server, E2B_TIMEOUT_MS="15000")
    box = created(me)
    child = me.start("exec", box, "--", "sh", "-c", "echo begun; sleep 22; echo lived")
    assert child.stdout.readline() == "begun\n"
    out, err = child.communicate(timeout=60)
    assert out == "lived\n", (out, err)


@check
def time_that_runs_out_keeps_the_files(server):
    me = person(server)
    box = created(me)
    me.well("exec", box, "--", "sh", "-c", "echo kept > file")
    cloud = server.api("GET", "/v2/sandboxes")[1][0]["sandboxID"]
    assert server.api("POST", f"/sandboxes/{cloud}/timeout", {"timeout": 0})[0] == 204
    eventually("its end", lambda: server.api("GET", f"/sandboxes/{cloud}")[1]["state"] == "paused")
    me.well("start", box)
    assert me.well("exec", box, "--", "cat", "file") == "kept\n"


@check
def sandboxes_are_secured(server):
    me = person(server)
    created(me)
    cloud = server.api("GET", "/v2/sandboxes")[1][0]["sandboxID"]
    status, _, _ = server.request("POST", "/process.Process/List", b"{}",
                                  {"E2b-Sandbox-Id": cloud, "E2b-Sandbox-Port": "49983",
                                   "Content-Type": "application/json"})
    assert status == 401, status


@check
def a_wrong_key_is_denied_and_not_shown(server):
    me = person(server, E2B_API_KEY="e2b_0123456789abcdef")
    code, out, err = me.run("create", "--backend", "e2b")
    assert code == 5 and "E2B_API_KEY" in err, (code, err)
    assert "0123456789abcdef" not in out + err


@check
def no_key_says_what_to_set(server):
    me = person(server, E2B_API_KEY="")
    code, _, err = me.run("create", "--backend", "e2b")
    assert code == 2 and "E2B_API_KEY" in err, (code, err)
    # Who never used it is not asked for a key.
    me.well("gc")


@check
def another_tenants_sandboxes_are_not_there(server):
    me = person(server)
    box = created(me)
    key = subprocess.run([server.program, "key", "add", "--tenant", "other"], env={**me.env, "BERTH_DATA": server.data},
                         text=True, check=True, stdout=subprocess.PIPE).stdout.split()[-1]
    cloud = server.api("GET", "/v2/sandboxes")[1][0]["sandboxID"]
    other = Person(me.program, me.data, {**me.env, "E2B_API_KEY": key})
    code, _, err = other.run("exec", box, "--", "true")
    assert code == 125 and cloud not in err.replace(box, ""), (code, err)
    me.well("rm", box)


@check
def tls_is_by_name_and_its_certificate_is_looked_at(server):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = tempfile.TemporaryDirectory(prefix="berth-e2b-", ignore_cleanup_errors=True)
    places.append(place)
    domain = f"sbx.localhost:{port}"
    secure = Server(server.program, place.name + "/data", "--domain", domain, "--tls-self-signed",
                    listen=f"127.0.0.1:{port}")
    try:
        env = {k: v for k, v in environment(secure).items() if not k.endswith("_URL")}
        me = Person(server.program, place.name + "/client",
                    {**env, "E2B_DOMAIN": domain, "SSL_CERT_FILE": place.name + "/data/tls/ca.pem"})
        box = created(me)
        assert me.well("exec", "-i", box, "--", "wc", "-c", given="x" * 1000000) == "1000000\n"
        trusting = Person(me.program, me.data, {**env, "E2B_DOMAIN": domain})
        code, _, err = trusting.run("exec", box, "--", "true")
        assert code == 125 and "certificate" in err, (code, err)
        me.well("rm", box)
    finally:
        secure.stop()
        Server.started.remove(secure)


class Busy:
    """A gateway before the server that sends the first calls to a sandbox away, by method."""

    def __init__(self, server: Server, first: int):
        self.server, self.left, self.refused = server, {}, {}
        self.first = first
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        with connection:
            seen = b""
            while b"\r\n\r\n" not in seen:
                piece = connection.recv(65536)
                if not piece:
                    return
                seen += piece
            method = seen.split(b" ")[1].decode()
            if method.startswith("/process.") and self.left.setdefault(method, self.first) > 0:
                self.left[method] -= 1
                self.refused[method] = self.refused.get(method, 0) + 1
                connection.sendall(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            with self.server.connect() as there:
                there.sendall(seen)
                ways = [threading.Thread(target=pour, args=way, daemon=True) for way in ((connection, there), (there, connection))]
                for way in ways:
                    way.start()
                for way in ways:
                    way.join()


def pour(source: socket.socket, target: socket.socket) -> None:
    try:
        source.settimeout(None)
        while piece := source.recv(65536):
            target.sendall(piece)
    except OSError:
        pass
    for one in (source, target):
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


@check
def a_busy_gateway_is_asked_again(server):
    busy = Busy(server, 2)
    me = person(server, E2B_SANDBOX_URL=busy.url)
    box = created(me)
    assert me.well("exec", "-i", box, "--", "cat", given="once\n") == "once\n"
    assert busy.refused["/process.Process/Start"] == 2, busy.refused
    assert all(count == 2 for count in busy.refused.values()), busy.refused
    assert len(busy.refused) > 1, "not only streams"
    never = Busy(server, 1000)
    code, _, err = Person(me.program, me.data, {**me.env, "E2B_SANDBOX_URL": never.url}).run("exec", box, "--", "true")
    assert code == 125 and never.refused["/process.Process/Start"] <= 4, (code, err, never.refused)
    me.well("rm", box)


def main() -> int:
    try:
        return check.main()
    finally:
        for server in Server.started:
            remove_all(server)
        for place in places:
            place.cleanup()


sys.exit(main())
