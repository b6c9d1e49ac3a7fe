"""What the suites of this folder share: berth with its eyes on a server, and servers that lie."""
import json
import os
import socket
import subprocess
import threading


def environment(server, **more) -> dict:
    """Nothing but what a person would set."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("E2B_", "BERTH_"))}
    return {**kept, "E2B_API_KEY": server.key, "E2B_API_URL": server.url, "E2B_SANDBOX_URL": server.url, **more}


def remove_all(server) -> None:
    """However a test ended, no sandbox outlives it."""
    if server.process.poll() is not None:
        return
    _, left = server.api("GET", "/v2/sandboxes")
    for one in left or []:
        server.api("DELETE", "/sandboxes/" + one["sandboxID"])


class Person:
    """berth as a person runs it, with a state directory of its own."""

    def __init__(self, program: str, data: str, env: dict):
        self.program, self.data, self.env = program, data, env

    def start(self, *words: str, **more) -> subprocess.Popen:
        return subprocess.Popen([self.program, *words], env={**self.env, "BERTH_DATA": self.data}, text=True,
                                stdin=more.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **more)

    def run(self, *words: str, given: str | None = None, timeout: float = 120) -> tuple[int, str, str]:
        """Code, standard output and standard error."""
        child = self.start(*words, stdin=subprocess.PIPE if given is not None else subprocess.DEVNULL)
        out, err = child.communicate(given, timeout)
        return child.returncode, out, err

    def well(self, *words: str, given: str | None = None) -> str:
        code, out, err = self.run(*words, given=given)
        assert code == 0, (words, code, out, err)
        return out


class Liar:
    """A server that answers each request with the bytes a function gives, and closes. Counts what it is asked."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.key = "e2b_00"
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
            connection.settimeout(30)
            data = b""
            try:
                while b"\r\n\r\n" not in data:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    data += piece
                head, _, body = data.partition(b"\r\n\r\n")
                length = 0
                for line in head.lower().split(b"\r\n"):
                    if line.startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                while len(body) < length:
                    body += connection.recv(65536)
                request = head.split(b"\r\n")[0].decode()
                self.asked.append(request)
                self.answer(connection, request, head.decode("latin-1"), body)
            except OSError:
                return

    def close(self) -> None:
        self.socket.close()


def respond(connection: socket.socket, status: int, document=None, **headers) -> None:
    body = b"" if document is None else json.dumps(document).encode()
    lines = {"Content-Length": str(len(body)), "Content-Type": "application/json", "Connection": "close",
             **{k.replace("_", "-"): v for k, v in headers.items()}}
    head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"
    connection.sendall(head.encode() + body)
