"""A real `berth serve` for tests, and requests to it byte by byte."""
import json
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import traceback

from memory import resident


class Server:
    started: list["Server"] = []

    def __init__(self, program: str, data: str, *options: str, listen: str = "127.0.0.1:0", before=None, environment: dict | None = None):
        """`before` runs in the child, before the program does."""
        self.program, self.data = program, data
        self.log = open(pathlib.Path(data).parent / "server.log", "a", encoding="utf-8")
        self.process = subprocess.Popen(
            [program, "serve", "--listen", listen, "--data", data, "--json", *options],
            stdout=subprocess.PIPE, stderr=self.log, text=True, preexec_fn=before,
            env=None if environment is None else {**os.environ, **environment})
        Server.started.append(self)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the server did not start:\n" + pathlib.Path(self.log.name).read_text(encoding="utf-8"))
        said = json.loads(line)
        self.url, self.key, self.authority = said["listening"], said.get("key", ""), said.get("ca", "")
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def memory(self) -> int:
        """Resident, in bytes."""
        return resident(self.process.pid)

    # -- requests ------------------------------------------------------------------------------------------------

    def connect(self, timeout: float = 30) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def raw(self, data: bytes, timeout: float = 30) -> bytes:
        """Sends and reads until the other side closes."""
        with self.connect(timeout) as s:
            s.sendall(data)
            return read_all(s)

    def request(self, method: str, path: str, body: bytes | None = None, headers: dict | None = None,
                timeout: float = 60) -> tuple[int, dict, bytes]:
        lines = {"Host": f"127.0.0.1:{self.port}", "Connection": "close", **(headers or {})}
        if body is not None and "Transfer-Encoding" not in lines:
            lines["Content-Length"] = str(len(body))
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"
        return parse(self.raw(head.encode() + (body or b""), timeout))

    def api(self, method: str, path: str, document=None, key: str | None = None) -> tuple[int, object]:
        body = None if document is None else json.dumps(document).encode()
        status, _, text = self.request(method, path, body, {"X-API-Key": self.key if key is None else key})
        return status, json.loads(text) if text else None

    def create(self, **fields) -> "Box":
        status, made = self.api("POST", "/v2/sandboxes", {"templateID": "base", **fields})
        assert status == 201, (status, made)
        return Box(self, made["sandboxID"], made["envdAccessToken"])


class Box:
    def __init__(self, server: Server, name: str, token: str):
        self.server, self.id, self.token = server, name, token

    def headers(self, port: int = 49983, **more) -> dict:
        return {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(port), "X-Access-Token": self.token, **more}

    def ask(self, method: str, path: str, body: bytes | None = None, **headers):
        return self.server.request(method, path, body, {**self.headers(), **{k.replace("_", "-"): v for k, v in headers.items()}})

    def unary(self, call: str, document) -> tuple[int, object]:
        status, _, text = self.ask("POST", "/" + call, json.dumps(document).encode(), Content_Type="application/json")
        return status, json.loads(text) if text else None

    def stream(self, call: str, body: bytes, **headers):
        return self.ask("POST", "/" + call, body, Content_Type="application/connect+json", **headers)

    def run(self, command: str) -> tuple[str, dict]:
        """What it printed and how it ended."""
        start = {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command]}, "stdin": False}
        status, _, body = self.stream("process.Process/Start", envelope(json.dumps(start).encode()))
        assert status == 200, (status, body)
        return told(body)

    def start(self, command: str, **more) -> tuple[socket.socket, int]:
        """A stream that is left open, and the process's number."""
        start = {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command]}, "stdin": False, **more}
        body = envelope(json.dumps(start).encode())
        lines = {"Host": "127.0.0.1", "Content-Type": "application/connect+json", "Content-Length": str(len(body)), **self.headers()}
        head = "POST /process.Process/Start HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"
        s = self.server.connect()
        s.sendall(head.encode() + body)
        seen = b""
        while b'"pid":' not in seen or not seen.rstrip().endswith(b"}}}"):
            seen += s.recv(65536)
        return s, int(seen.split(b'"pid":')[1].split(b"}")[0])


def take_instance_away(server: Server, native: str) -> None:
    """As if somebody had removed it and told nobody: its directory is gone, and so is its keeper."""
    place = pathlib.Path(server.data).parent / "taken"
    place.mkdir(exist_ok=True)
    os.rename(f"{server.data}/sandbox/{native}", place / native)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[0] == b"k" and words[1].endswith(b"/" + native.encode()):
                keeper = os.pidfd_open(int(pid))
                signal.pidfd_send_signal(keeper, signal.SIGKILL)
                select.select([keeper], [], [], 60)  # as long as it is dying, its files can be read
                os.close(keeper)
        except (OSError, IndexError):
            pass


def envelope(payload: bytes, flags: int = 0) -> bytes:
    return struct.pack(">BI", flags, len(payload)) + payload


def envelopes(body: bytes) -> list[tuple[int, dict]]:
    out = []
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        out.append((flags, json.loads(body[5:5 + size])))
        body = body[5 + size:]
    return out


def told(body: bytes) -> tuple[str, dict]:
    import base64
    out, end = b"", {}
    for flags, message in envelopes(body):
        if flags & 2:
            end = {**end, **message}
            continue
        event = message["event"]
        out += base64.b64decode(event.get("data", {}).get("stdout", ""))
        end = event.get("end", end)
    return out.decode(), end


def read_all(s: socket.socket) -> bytes:
    out = b""
    while True:
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            return out
        if not piece:
            return out
        out += piece


def parse(answer: bytes) -> tuple[int, dict, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
    if headers.get("transfer-encoding") == "chunked":
        rest, body = body, b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            n = int(size, 16)
            if n == 0:
                break
            body += rest[:n]
            rest = rest[n + 2:]
    return int(lines[0].split()[1]) if lines[0] else 0, headers, body


class Checks:
    """Named checks, run one after the other; each that fails is told and counted."""

    def __init__(self) -> None:
        self.all = []

    def __call__(self, work):
        self.all.append(work)
        return work

    def main(self, *options: str) -> int:
        program = sys.argv[1]
        only = sys.argv[2] if len(sys.argv) > 2 else ""
        failed = 0
        with tempfile.TemporaryDirectory(prefix="berth-served-", ignore_cleanup_errors=True) as place:
            server = Server(program, place + "/data", *options)
            for work in self.all:
                name = work.__name__.replace("_", " ")
                if only not in name:
                    continue
                try:
                    server = work(server) or server
                    print(f"ok {name}", flush=True)
                except Exception:  # noqa: BLE001: a check that fails is told, whatever it was
                    failed += 1
                    print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
                    server = Server.started[-1]
                if server.process.poll() is not None:
                    failed += 1
                    print(f"the server ended in: {name}, code {server.process.returncode}", flush=True)
                    server = Server(program, place + "/data", *options)
            code = server.stop()
            if code != 0:
                failed += 1
                print(f"the server ended with {code}")
            for one in Server.started:
                if one.process.poll() is None:
                    one.kill()
            left = subprocess.run([program, "ls", "--json", "--data", place + "/data"], check=False,
                                  capture_output=True, text=True).stdout
            for one in json.loads(left or "{}").get("sandboxes", []):
                subprocess.run([program, "rm", one["id"], "--data", place + "/data"], check=False)
            if failed:
                print(pathlib.Path(place + "/server.log").read_text(encoding="utf-8")[-6000:])
        print(f"{len(self.all) - failed} held, {failed} did not")
        return 1 if failed else 0
