#!/usr/bin/env python3
"""hostile.py PROGRAM: exec-servers that lie, stall, flood or hold nothing of what they are asked to."""
import base64
import hashlib
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from there import Person, There, environment, outside_tmp
from codex_client import Client

checks = []


def check(work):
    checks.append(work)
    return work


def frame(payload: bytes, opcode: int = 1) -> bytes:
    size = len(payload)
    head = bytes([0x80 | opcode])
    if size < 126:
        return head + bytes([size]) + payload
    if size < 65536:
        return head + bytes([126]) + struct.pack(">H", size) + payload
    return head + bytes([127]) + struct.pack(">Q", size) + payload


class Peer:
    """One client of a lying server."""

    def __init__(self, connection: socket.socket, head: str):
        self.connection, self.head, self.buffer, self.lock = connection, head, b"", threading.Lock()

    def need(self, n: int) -> bytes:
        while len(self.buffer) < n:
            piece = self.connection.recv(65536)
            if not piece:
                raise OSError("gone")
            self.buffer += piece
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out

    def read(self) -> dict:
        message = b""
        while True:
            first, size = self.need(2)
            masked, size = size & 0x80, size & 0x7f
            if size == 126:
                size = struct.unpack(">H", self.need(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.need(8))[0]
            mask = self.need(4) if masked else b"\0\0\0\0"
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.need(size)))
            if first & 0x0f in (8, 9, 10):
                continue
            message += data
            if first & 0x80:
                return json.loads(message)

    def send(self, document) -> None:
        with self.lock:
            self.connection.sendall(frame(json.dumps(document).encode()))


class Liar:
    """Answers initialize well, then whatever `answer(peer, request)` does; None is an empty result."""

    def __init__(self, answer=None, hello=None, status: int = 101):
        self.answer, self.hello, self.status, self.heads = answer, hello, status, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection: socket.socket) -> None:
        with connection:
            try:
                data = b""
                while b"\r\n\r\n" not in data:
                    data += connection.recv(65536) or b"\r\n\r\n"
                head = data.decode("latin-1")
                self.heads.append(head)
                key = next((line.split(":", 1)[1].strip() for line in head.split("\r\n")
                            if line.lower().startswith("sec-websocket-key:")), "")
                accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
                connection.sendall(f"HTTP/1.1 {self.status} X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n".encode()
                                   + b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
                if self.status != 101:
                    return
                peer = Peer(connection, head)
                while True:
                    request = peer.read()
                    if "id" not in request or "method" not in request:
                        continue
                    if request["method"] == "initialize":
                        peer.send({"id": request["id"], "result": self.hello or {
                            "sessionId": "s", "environmentInfo": {"shell": {"name": "sh", "path": "/bin/sh"},
                                                                  "userHomeDir": "file:///home/liar"}}})
                        continue
                    try:
                        result = self.answer(peer, request) if self.answer else None
                    except StopIteration:  # it has answered
                        continue
                    peer.send({"id": request["id"], "result": {} if result is None else result})
            except OSError:
                return

    def close(self) -> None:
        self.socket.close()


def create(program: str, url: str, *words: str, timeout: float = 100) -> tuple[int, str, float]:
    with tempfile.TemporaryDirectory(prefix="berth-liar-") as data:
        begun = time.monotonic()
        code, _, err = Person(program, data, environment(url, "/home/liar/box")).run(
            "create", "--backend", "exec-server", *words, timeout=timeout)
        return code, err, time.monotonic() - begun


def refused(program: str, liar: Liar, *words: str) -> str:
    code, err, took = create(program, liar.url, *words)
    liar.close()
    assert code not in (0, -6, -11, -9, 139, 134), (code, err)
    assert took < 90, took
    return err


@check
def no_websocket(program):
    for status in (200, 401, 404, 500):
        err = refused(program, Liar(status=status))
        assert "HTTP" in err or "cannot be reached" in err, err


@check
def no_json(program):
    def answer(peer, request):
        peer.connection.sendall(frame(b"{not json"))
        raise OSError
    refused(program, Liar(answer))


@check
def bad_hello(program):
    for hello in ({}, {"sessionId": ""}, {"sessionId": 7}, {"sessionId": "x" * 1000}, {"sessionId": "s", "environmentInfo": {"userHomeDir": "http://x"}},
                  {"sessionId": "s", "environmentInfo": []}):
        refused(program, Liar(hello=hello))


@check
def a_flood(program):
    def answer(peer, request):
        huge = struct.pack(">BBQ", 0x81, 127, 1 << 40)
        peer.connection.sendall(huge + b"x" * 100000)
        time.sleep(1)
        raise OSError
    refused(program, Liar(answer))


@check
def answers_nobody_asked_for(program):
    def answer(peer, request):
        for number in (0, -1, 10**6, "x", None):
            peer.send({"id": number, "result": {}})
        peer.send({"id": 7, "method": "network/policyRequest", "params": {}})
        peer.send({"method": "process/output", "params": {"processId": "nobody", "seq": 1, "stream": "stdout", "chunk": "!!"}})
        return {"dataBase64": "????"}
    refused(program, Liar(answer))


@check
def events_out_of_order(program):
    def answer(peer, request):
        if request["method"] == "process/start":
            name = request["params"]["processId"]
            for seq in (5, 1, 2**60, -3):
                peer.send({"method": "process/output", "params": {"processId": name, "seq": seq, "stream": "stdout", "chunk": ""}})
            return {"processId": name}
        if request["method"] == "fs/getMetadata":
            return {"isDirectory": True}
        return {"dataBase64": ""}
    refused(program, Liar(answer))


@check
def a_record_of_somebody_else(program):
    def answer(peer, request):
        if request["method"] == "fs/readFile":
            return {"dataBase64": base64.b64encode(b'{"v":1,"made":true,"spec":{"id":"../../etc"},"labels":{}}').decode()}
        return {"isDirectory": True}
    refused(program, Liar(answer))


class NoWalls:
    """Runs everything and touches every file with its own rights, whatever it is asked to hold: it only carries intents.

    `words(argv)` may put something before a command, so that some of it is held after all.
    """

    def __init__(self, root: pathlib.Path, words=lambda argv: argv):
        self.root, self.seen, self.words, self.commands = root, [], words, {}
        self.liar = Liar(self.answer, hello={"sessionId": "s", "environmentInfo": {
            "shell": {"name": "sh", "path": "/bin/sh"}, "userHomeDir": "file://" + str(root)}})

    def answer(self, peer, request):
        params, method = request["params"], request["method"]
        self.seen.append((method, params.get("sandbox", "absent")))
        path = pathlib.Path(params.get("path", "file:///")[7:])
        if method == "fs/getMetadata" and not path.exists():
            return self.error(peer, request, -32004, "No such file or directory (os error 2)")
        if method == "fs/readFile":
            if not path.is_file():
                return self.error(peer, request, -32004, "No such file or directory (os error 2)")
            return {"dataBase64": base64.b64encode(path.read_bytes()).decode()}
        if method == "fs/writeFile":
            path.write_bytes(base64.b64decode(params["dataBase64"]))
        if method == "fs/createDirectory":
            path.mkdir(exist_ok=True)
        if method == "fs/remove":
            shutil.rmtree(path, ignore_errors=True)
        if method == "process/start":
            self.start(peer, request)
            raise StopIteration
        if method == "process/write":
            command = self.commands[params["processId"]]
            try:
                command.stdin.write(base64.b64decode(params["chunk"]))
                command.stdin.flush()
            except OSError:
                return {"status": "stdinClosed"}
            return {"status": "accepted"}
        if method == "process/terminate" and params["processId"] in self.commands:
            self.commands[params["processId"]].kill()
        if method == "fs/readDirectory":
            return {"entries": [{"fileName": one.name, "isDirectory": one.is_dir(), "isFile": one.is_file()} for one in path.iterdir()]}
        return {}

    def start(self, peer, request) -> None:
        params = request["params"]
        name = params["processId"]
        command = subprocess.Popen(self.words(params["argv"]), cwd=params["cwd"][7:], env=params["env"], stdout=subprocess.PIPE,
                                   stdin=subprocess.PIPE if params.get("pipeStdin") else subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.commands[name] = command
        peer.send({"id": request["id"], "result": {"processId": name, "sandboxType": "linuxSeccomp"}})

        def tell() -> None:
            numbers = iter(range(1, 1 << 30))

            def event(kind, **more):
                peer.send({"method": "process/" + kind, "params": {"processId": name, "seq": next(numbers), **more}})
            try:
                while piece := os.read(command.stdout.fileno(), 8192):
                    event("output", stream="stdout", chunk=base64.b64encode(piece).decode())
                event("exited", exitCode=command.wait() % 256)
                event("closed")
            except OSError:
                command.kill()
                command.wait()
        threading.Thread(target=tell, daemon=True).start()

    @staticmethod
    def error(peer, request, code, message):
        peer.send({"id": request["id"], "error": {"code": code, "message": message}})
        raise StopIteration


@check
def a_server_that_holds_nothing_admits_only_full_access(program):
    place = outside_tmp()
    try:
        walls = NoWalls(place)
        for words in ((), ("--policy", "read-only")):
            with tempfile.TemporaryDirectory(prefix="berth-liar-") as data:
                code, _, err = Person(program, data, environment(walls.liar.url, place / "box")).run(
                    "create", "--backend", "exec-server", *words)
            assert code == 6 and "does not hold what it is asked to" in err and "probe" in err, (words, code, err)
        assert not list((place / "box").glob("sbx_*"))
        assert all(sandbox not in (None, "absent") for method, sandbox in walls.seen if method.startswith(("fs/", "process/start"))), \
            [method for method, sandbox in walls.seen if sandbox in (None, "absent")]
        with tempfile.TemporaryDirectory(prefix="berth-liar-") as data:
            code, _, err = Person(program, data, environment(walls.liar.url, place / "box")).run(
                "create", "--backend", "exec-server", "--policy", "full-access", "--net", "host")
        assert code == 0, (code, err)
        walls.liar.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)


class Onward(Client):
    """What a server answers goes to the peer."""

    def __init__(self, port: int, peer: Peer):
        self.peer = peer
        super().__init__(port, initialize=False)
        self.numbers = iter(range(1 << 40, 1 << 41))
        self.info = self.call("initialize", {"clientName": "test"})["environmentInfo"]
        self.notify("initialized", {})

    def _take(self, message: dict) -> None:
        if message.get("id", 0) >= 1 << 40:
            super()._take(message)
        elif self.peer:
            self.peer.send(message)


class Forgetful:
    """Stands before a real exec-server, and hands on what `keeps(entry)` is true for of each intent."""

    def __init__(self, there: There, keeps=lambda entry: True):
        self.port, self.keeps, self.onward, self.methods = there.server.port, keeps, {}, []
        self.liar = Liar(self.answer, hello={"sessionId": "s", "environmentInfo": Onward(self.port, None).info})

    def answer(self, peer, request):
        self.methods.append(request["method"])
        sandbox = request["params"].get("sandbox")
        if sandbox:
            files = sandbox["permissions"]["file_system"]
            files["entries"] = [entry for entry in files["entries"] if self.keeps(entry)]
        if peer not in self.onward:
            self.onward[peer] = Onward(self.port, peer)
        self.onward[peer].raw(json.dumps(request).encode())
        raise StopIteration


@check
def what_a_server_forgets_of_an_intent_is_found_out(program):
    """Each rule of a policy is tried there, by the probes of `policy prove`, before a sandbox with it is made."""
    there = There(program)
    # Where no permission of its own refuses it: root's commands are strangers there.
    private = pathlib.Path(tempfile.mkdtemp(prefix="berth-private-", dir="/srv" if os.geteuid() == 0 else there.place))
    private.chmod(0o755)
    (private / "file").write_text("private")
    policy = there.place / "policy.json"
    policy.write_text(json.dumps({"files": [{"read": ":root"}, {"write": ":workspace_roots"}, {"deny": str(private)}],
                                  "protect": [".git", ".idea"]}))

    def is_private(entry):
        return entry["path"].get("path") == "file://" + str(private)

    def is_named(entry):
        return entry["path"].get("value", {}).get("subpath") == ".idea"

    def is_kept(entry):
        return ".berth-kept" in entry["path"].get("path", "") or entry["path"].get("value", {}).get("subpath") == ".berth-kept"

    try:
        for forgotten, named in ((is_private, "deny "), (is_named, "protect "), (is_kept, "protect "), (lambda entry: False, None)):
            before = Forgetful(there, lambda entry, forgotten=forgotten: not forgotten(entry))
            if there.root.exists():
                (there.root / ".trial-1000000000-left").mkdir()  # by somebody who was killed, long ago
            me = there.person(BERTH_EXEC_SERVER_URL=before.liar.url)
            code, out, err = me.run("create", "--backend", "exec-server", "--policy", str(policy), "--json")
            if named is not None:
                assert code == 6 and f"does not hold what it is asked to: {named}" in out, (named, code, out, err)
                assert there.sandboxes() == [], there.sandboxes()
                continue
            assert code == 0, err
            # Once: neither a command nor another sandbox with the same policy asks again.
            box = json.loads(out)["id"]
            tried = before.methods.count("process/start")
            me.well("create", "--backend", "exec-server", "--policy", str(policy))
            assert before.methods.count("process/start") == tried, before.methods[-20:]
            me.well("exec", box, "--", "true")  # a look for protected names, and the command
            assert before.methods.count("process/start") == tried + 2, before.methods[-20:]
            assert me.run("policy", "prove", box)[0] == 0, me.run("policy", "prove", box)
        assert not list(there.root.glob(".trial-*"))
    finally:
        there.close()
        shutil.rmtree(private, ignore_errors=True)


@check
def silence_has_an_end(program):
    """A server that takes the connection and never says a word."""
    quiet = socket.create_server(("127.0.0.1", 0))
    code, err, took = create(program, f"ws://127.0.0.1:{quiet.getsockname()[1]}")
    assert code != 0 and took < 60, (code, took, err)
    quiet.close()


def main() -> int:
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    failed = ran = 0
    for work in checks:
        name = work.__name__.replace("_", " ")
        if only not in name:
            continue
        ran += 1
        try:
            work(os.path.abspath(sys.argv[1]))
            print(f"ok {name}", flush=True)
        except Exception:  # noqa: BLE001: a check that fails is told, whatever it was
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
    print(f"{ran - failed} held, {failed} did not")
    return 1 if failed else 0


sys.exit(main())
