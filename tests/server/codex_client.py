"""A client of Codex's exec-server, byte by byte: what the real one would never send can be sent."""
import base64
import itertools
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.parse


class ExecServer:
    """One `berth exec-server` with a state directory of its own."""

    def __init__(self, program: str, place: str | pathlib.Path, *options: str, environment: dict | None = None):
        self.place = pathlib.Path(place)
        self.log = open(self.place / "exec-server.log", "a", encoding="utf-8")
        self.process = subprocess.Popen(
            [program, "exec-server", "--listen", "ws://127.0.0.1:0", "--data", str(self.place / "data"),
             "--log-level", "info", *options],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError("the exec-server did not start:\n" + self.told())
        self.port = int(self.url.rsplit(":", 1)[1])

    def told(self) -> str:
        return pathlib.Path(self.log.name).read_text(encoding="utf-8")

    def client(self, **more) -> "Client":
        return Client(self.port, **more)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Gone(Exception):
    """The server has closed the connection."""


class RpcError(Exception):
    def __init__(self, error: dict):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code, self.message = error["code"], error["message"]


def upgrade(port: int, path: str = "/", **headers) -> tuple[socket.socket, int, bytes]:
    s = socket.create_connection(("127.0.0.1", port), 30)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = {"Host": f"127.0.0.1:{port}", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), **headers}
    s.sendall((f"GET {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = s.recv(65536)
        if not piece:
            raise Gone("during the handshake")
        head += piece
    head, _, rest = head.partition(b"\r\n\r\n")
    return s, int(head.split()[1]), rest


def frame(payload: bytes, opcode: int = 1, final: bool = True) -> bytes:
    size = len(payload)
    head = bytes([opcode | (0x80 if final else 0)])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    return head + b"\0\0\0\0" + payload  # a mask of zeros changes nothing


class Client:
    def __init__(self, port: int, path: str = "/", initialize: bool = True, resume: str | None = None, **headers):
        self.socket, status, self.buffer = upgrade(port, path, **headers)
        if status != 101:
            raise RuntimeError(f"the upgrade was answered with {status}")
        self.socket.settimeout(None)  # whoever waits has a deadline of his own; silence ends no connection
        self.sending = threading.Lock()  # the thread that reads answers pings
        self.numbers = itertools.count(1)
        self.events: list[dict] = []
        self.answers: dict = {}
        self.frames: list[int] = []  # sizes of what came
        self.condition = threading.Condition()
        self.over = False
        self.session = None
        threading.Thread(target=self._read_all, daemon=True).start()
        if initialize:
            self.session = self.call("initialize", {"clientName": "test", "resumeSessionId": resume})["sessionId"]
            self.notify("initialized", {})

    # -- bytes ---------------------------------------------------------------------------------------------------

    def _need(self, n: int) -> bytes:
        while len(self.buffer) < n:
            piece = self.socket.recv(1 << 20)
            if not piece:
                raise Gone
            self.buffer += piece
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out

    def _read_all(self) -> None:
        message = b""
        try:
            while True:
                first, size = self._need(2)
                size &= 0x7f
                if size == 126:
                    size = struct.unpack(">H", self._need(2))[0]
                elif size == 127:
                    size = struct.unpack(">Q", self._need(8))[0]
                payload = self._need(size)
                opcode = first & 0xf
                if opcode == 9:
                    self.put(frame(payload, 10))
                    continue
                if opcode == 8:
                    raise Gone
                if opcode == 10:
                    continue
                self.frames.append(size)
                message += payload
                if first & 0x80:
                    self._take(json.loads(message))
                    message = b""
        except (Gone, OSError):
            pass
        with self.condition:
            self.over = True
            self.condition.notify_all()

    def _take(self, message: dict) -> None:
        with self.condition:
            if "method" in message:
                self.events.append(message)
            else:
                self.answers[message["id"]] = message
            self.condition.notify_all()

    def put(self, frames: bytes) -> None:
        with self.sending:
            self.socket.sendall(frames)

    def raw(self, payload: bytes, opcode: int = 1) -> None:
        self.put(frame(payload, opcode))

    def cut(self) -> None:
        """Without a word, as the real client leaves."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.shutdown(socket.SHUT_RDWR)  # the thread that reads would keep it open
        self.socket.close()

    def wait(self, holds, seconds: float = 60):
        deadline = time.monotonic() + seconds
        with self.condition:
            while True:
                found = holds()
                if found:
                    return found
                left = deadline - time.monotonic()
                if self.over:
                    raise Gone
                if left <= 0:
                    raise TimeoutError(f"not within {seconds} s")
                self.condition.wait(left)

    def closed(self, seconds: float = 60) -> bool:
        deadline = time.monotonic() + seconds
        with self.condition:
            while not self.over and time.monotonic() < deadline:
                self.condition.wait(deadline - time.monotonic())
            return self.over

    # -- messages ------------------------------------------------------------------------------------------------

    def notify(self, method: str, params=None) -> None:
        self.raw(json.dumps({"method": method, "params": params}).encode())

    def send(self, method: str, params=None) -> int:
        number = next(self.numbers)
        self.raw(json.dumps({"id": number, "method": method, "params": params}).encode())
        return number

    def answer(self, number, seconds: float = 60) -> dict:
        got = self.wait(lambda: self.answers.get(number), seconds)
        if "error" in got:
            raise RpcError(got["error"])
        return got["result"]

    def call(self, method: str, params=None, seconds: float = 60):
        return self.answer(self.send(method, params), seconds)

    def code(self, method: str, params=None) -> int:
        """The error's code; 0 when there is none."""
        try:
            self.call(method, params)
            return 0
        except RpcError as error:
            return error.code

    # -- processes -----------------------------------------------------------------------------------------------

    def start(self, name: str, script: str | list, cwd: str = "/", sandbox=None, **more) -> dict:
        argv = script if isinstance(script, list) else ["/bin/sh", "-c", script]
        params = {"processId": name, "argv": argv, "cwd": uri(cwd), "env": {"PATH": "/usr/bin:/bin"}, "tty": False,
                  "sandbox": sandbox, **more}
        return self.call("process/start", params)

    def of(self, name: str) -> list[dict]:
        return sorted((e for e in self.events if e["params"].get("processId") == name), key=lambda e: e["params"]["seq"])

    def finish(self, name: str, seconds: float = 60) -> tuple[int, str]:
        """The exit code and all output, in order."""
        self.wait(lambda: any(e["method"] == "process/closed" for e in self.of(name)), seconds)
        events = self.of(name)
        assert [e["params"]["seq"] for e in events] == list(range(1, len(events) + 1)), events
        assert events[-1]["method"] == "process/closed"
        code = next(e["params"]["exitCode"] for e in events if e["method"] == "process/exited")
        text = b"".join(base64.b64decode(e["params"]["chunk"]) for e in events if e["method"] == "process/output")
        return code, text.decode(errors="replace")

    def finish_from(self, name: str, got: dict, size: int, seconds: float = 60) -> None:
        """What a resumed client makes of the answer to its question and of what it is told: nothing is missing."""
        self.wait(lambda: any(e["method"] == "process/closed" for e in self.of(name)), seconds)
        pieces = {c["seq"]: c["chunk"] for c in got["chunks"]}
        told = self.of(name)
        assert len([e for e in told if e["params"]["seq"] < got["nextSeq"]]) <= 256, "too much came before the answer"
        pieces.update({e["params"]["seq"]: e["params"].get("chunk", "") for e in told})
        assert sorted(pieces) == list(range(1, len(pieces) + 1)), "a number is missing"
        assert sum(len(base64.b64decode(c)) for c in pieces.values()) == size

    def run(self, script: str | list, cwd: str = "/", sandbox=None, **more) -> tuple[int, str]:
        name = f"p{next(self.numbers)}"
        self.start(name, script, cwd, sandbox, **more)
        return self.finish(name)


def uri(path: str | pathlib.Path) -> str:
    return "file://" + urllib.parse.quote(str(path))


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# -- intents -----------------------------------------------------------------------------------------------------------


def special(kind: str, access: str, **value) -> dict:
    return {"path": {"type": "special", "value": {"kind": kind, **value}}, "access": access}


def at(path, access: str) -> dict:
    return {"path": {"type": "path", "path": uri(path)}, "access": access}


def glob(pattern: str) -> dict:
    return {"path": {"type": "glob_pattern", "pattern": pattern}, "access": "deny"}


def intent(entries: list | None, *roots, network: str = "restricted", cwd=None) -> dict:
    files = {"type": "unrestricted"} if entries is None else {"type": "restricted", "entries": entries}
    return {"permissions": {"type": "managed", "file_system": files, "network": network},
            "cwd": uri(cwd or (roots[0] if roots else "/")), "workspaceRoots": [uri(r) for r in roots],
            "windowsSandboxLevel": "disabled", "windowsSandboxProxySettingsMode": "reconcile", "useLegacyLandlock": False}


def read_only(*roots) -> dict:
    return intent([special("root", "read")], *roots)


def workspace_write(*roots, **more) -> dict:
    names = [{**special("project_roots", "read", subpath=n), "missing_path_behavior": "skip"}
             for n in (".git", ".agents", ".codex", ".aws")]
    return intent([special("root", "read"), special("project_roots", "write"), special("slash_tmp", "write"),
                   special("tmpdir", "write"), *names], *roots, **more)


def run_all(names: dict) -> None:
    """Every test_… of a module, or those whose name has the second argument in it."""
    import sys
    import traceback
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    failed = 0
    for name, test in list(names.items()):
        if not name.startswith("test_") or only not in name:
            continue
        try:
            test()
            print(f"ok {name[5:].replace('_', ' ')}", flush=True)
        except Exception:  # noqa: BLE001: a check that fails is told, whatever it was
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
    sys.exit(1 if failed else 0)


class Place:
    """A directory that strangers may reach, with a workspace."""

    def __init__(self, program: str):
        import tempfile
        self.program = program
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="berth-codex-", dir="/var/tmp"))
        self.path.chmod(0o755)
        self.ws = self.path / "ws"
        self.ws.mkdir()
        self.servers: list[ExecServer] = []

    def server(self, *options, **more) -> ExecServer:
        self.servers.append(ExecServer(self.program, self.path, *options, **more))
        return self.servers[-1]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        codes = [server.stop() for server in self.servers]
        if kind:
            for server in self.servers:
                print(server.told()[-3000:])
        # A sandbox outlives its servers; without its state directory nobody would find it again.
        for state in self.path.glob("*/sandbox"):
            subprocess.run([self.program, "rm", "--all", "--data", str(state.parent)], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", str(self.path)], check=False)
        assert kind or all(code in (0, -9) for code in codes), f"a server ended with {codes}"
