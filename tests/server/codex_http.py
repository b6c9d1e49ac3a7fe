#!/usr/bin/env python3
"""http/request of Codex's exec-server: only where the operator says so, and only to whom.

codex_http.py BERTH [PART OF A NAME]
"""
import base64
import contextlib
import http.server
import json
import socket
import subprocess
import sys
import threading
import time

import codex_client
from codex_client import Client, RpcError, b64, run_all
from served import Server

PROGRAM = sys.argv[1]
BIG = 40 << 20


def Place():  # noqa: N802: it makes one
    return codex_client.Place(PROGRAM)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def piece(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def answer(self):
        web: Web = self.server.web
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        web.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        path, _, query = self.path.partition("?")
        if path == "/to":
            self.say(int(query[:3]), b"moved", ("Location", query[4:]))
        elif path == "/loop":
            self.say(302, b"", ("Location", "/loop"))
        elif path == "/cookies":
            self.say(200, b"", ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"))
        elif path == "/missing":
            self.say(404, b"nothing here")
        elif path == "/silent":
            web.asked.set()
            with contextlib.suppress(OSError):
                self.connection.recv(1)  # until whoever asked is gone
            web.left.set()
            self.close_connection = True
        elif path == "/big":
            self.send_response(200)
            self.send_header("Content-Length", str(BIG))
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(BIG >> 20):
                    self.wfile.write(bytes(1 << 20))
        elif path == "/pieces":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.piece(b"one ")
            web.go_on.wait(60)
            self.piece(b"two ")
            if query == "cut":
                self.close_connection = True
                return
            self.piece(b"three")
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.say(200, json.dumps({"method": self.command, "path": self.path, "body": body.decode()}).encode(), ("X-Mine", "yes"))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer  # noqa: N815


class Web:
    """A server on the loopback of this machine."""

    def __init__(self):
        self.seen: list[tuple] = []
        self.asked, self.left, self.go_on = threading.Event(), threading.Event(), threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.web = self
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()


def ask(client, url: str, method: str = "GET", **more) -> dict:
    return client.call("http/request", {"method": method, "url": url, "requestId": f"r{next(client.numbers)}", **more})


def body_of(answer: dict) -> bytes:
    return base64.b64decode(answer["bodyBase64"])


def refused(client, url: str, *words: str, **more) -> int:
    try:
        got = ask(client, url, **more)
    except RpcError as error:
        assert all(word in error.message for word in words), (url, str(error))
        return error.code
    raise AssertionError((url, got))


def deltas(client, name: str) -> list[dict]:
    return [e["params"] for e in client.events if e["method"] == "http/request/bodyDelta" and e["params"]["requestId"] == name]


def test_without_the_operators_word_there_is_no_such_method():
    with Place() as place, Web() as web:
        assert refused(place.server().client(), web.url + "/") == -32601
        assert refused(place.server("--net", "off", "--http-allow", "example.org").client(), web.url + "/", "127.0.0.1") == -32600
        assert web.seen == []


def test_requests_go_out_and_come_back_as_they_are():
    with Place() as place, Web() as web:
        client = place.server("--http-allow", f"127.0.0.1:{web.port}").client()
        early = Client(place.servers[0].port, initialize=False)
        assert early.code("http/request", {}) == -32600
        got = ask(client, web.url + "/a%20b?q=1#part", headers=[{"name": "X-Test", "value": "v"}, {"name": "x-test", "value": "w"}])
        assert got["status"] == 200 and {"name": "x-mine", "value": "yes"} in got["headers"], got
        assert json.loads(body_of(got)) == {"method": "GET", "path": "/a%20b?q=1", "body": ""}
        assert web.seen[-1][2]["x-test"] == "v, w" and web.seen[-1][2]["host"] == f"127.0.0.1:{web.port}"
        for method in ("POST", "put", "PATCH", "DELETE", "OPTIONS"):
            got = json.loads(body_of(ask(client, web.url, method, bodyBase64=b64(b"sent"))))
            assert got == {"method": method.upper(), "path": "/", "body": "sent"}, got
        got = ask(client, web.url + "/x", "HEAD")
        assert got["status"] == 200 and got["bodyBase64"] == ""
        got = ask(client, web.url + "/missing")
        assert got["status"] == 404 and body_of(got) == b"nothing here"
        got = ask(client, web.url + "/cookies")
        assert [h["value"] for h in got["headers"] if h["name"] == "set-cookie"] == ["a=1", "b=2"]


def test_what_is_no_request_is_refused_before_anybody_is_asked():
    with Place() as place, Web() as web:
        client = place.server("--http-allow", f"127.0.0.1:{web.port}").client()
        for change in ({"url": "ftp://127.0.0.1/"}, {"url": "file:///etc/passwd"}, {"url": "127.0.0.1"}, {"url": "http://"}, {"url": 7},
                       {"url": web.url.replace("//", "//user:word@")}, {"url": web.url + "/a b"}, {"url": web.url + "/a\r\nX: y"},
                       {"url": web.url + "/" + "x" * 20_000}, {"method": "TRACE"}, {"method": "CONNECT"}, {"method": "GET / HTTP/1.1\r\n"}, {"method": None},
                       {"requestId": ""}, {"requestId": None}, {"timeoutMs": -1}, {"timeoutMs": "1"}, {"redirectPolicy": "maybe"},
                       {"streamResponse": "yes"}, {"bodyBase64": "%"}, {"headers": {}}, {"headers": [{"name": "X"}]},
                       {"headers": [{"name": "Host", "value": "other"}]}, {"headers": [{"name": "Transfer-Encoding", "value": "chunked"}]},
                       {"headers": [{"name": "Content-Length", "value": "3"}]}, {"headers": [{"name": "X", "value": "a\r\nY: b"}]},
                       {"headers": [{"name": "X:", "value": ""}]}, {"headers": [{"name": "Authorization", "value": "", "valueEnvVar": "HOME"}]}):
            params = {"method": "GET", "url": web.url + "/", "requestId": "r", **change}
            assert client.code("http/request", params) == -32602, change
        assert web.seen == []


def test_names_and_addresses_lead_only_where_the_operator_said():
    with Place() as place, Web() as web:
        client = place.server("--http-allow", f"127.0.0.1:{web.port}", "--http-allow", "localhost", "--http-allow", "*.localhost:1").client()
        assert ask(client, web.url)["status"] == 200
        assert ask(client, f"http://localhost:{web.port}/")["status"] == 200  # the name is allowed, and so is what it leads to
        other = place.server("--http-allow", "localhost").client()
        assert refused(other, f"http://localhost:{web.port}/", "leads to", "not of the internet") == -32600
        before = len(web.seen)
        for host in ("127.0.0.2", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "169.254.169.254", "0.0.0.0",
                     "127.0.0.1.", "sub.localhost", "example.org"):
            code = refused(client, f"http://{host}:{web.port}/")
            assert code in (-32600, -32602), (host, code)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
            assert refused(client, f"http://127.0.0.1:{port}/", str(port)) == -32600
        assert len(web.seen) == before
        assert refused(place.server("--http-allow", "127.0.0.1").client(), f"http://127.0.0.1:{port}/") == -32603  # nobody listens there now


def test_redirects_are_asked_about_again():
    with Place() as place, Web() as web, Web() as other, Web() as third:
        client = place.server("--http-allow", f"127.0.0.1:{web.port}", "--http-allow", f"127.0.0.1:{other.port}").client()
        secret = [{"name": "Authorization", "value": "Bearer secret"}, {"name": "Cookie", "value": "c=1"}, {"name": "X-Open", "value": "1"}]
        for location in (f"{web.url}/end", "/end", f"//127.0.0.1:{web.port}/end", "end"):
            assert json.loads(body_of(ask(client, f"{web.url}/to?302={location}", headers=secret)))["path"] == "/end", location
        assert web.seen[1][2]["authorization"] == "Bearer secret"
        assert ask(client, f"{web.url}/to?302={other.url}/end", headers=secret)["status"] == 200
        assert "authorization" not in other.seen[-1][2] and "cookie" not in other.seen[-1][2] and other.seen[-1][2]["x-open"] == "1"
        for status, method in ((301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")):
            got = json.loads(body_of(ask(client, f"{web.url}/to?{status}=/end", "POST", bodyBase64=b64(b"sent"))))
            assert got == {"method": method, "path": "/end", "body": "sent" if method == "POST" else ""}, (status, got)
        got = ask(client, f"{web.url}/to?302={third.url}/end", redirectPolicy="stop")
        assert got["status"] == 302 and {"name": "location", "value": f"{third.url}/end"} in got["headers"]
        assert refused(client, f"{web.url}/to?302={third.url}/end", str(third.port)) == -32600
        assert refused(client, f"{web.url}/to?302=http://169.254.169.254/latest") == -32600
        assert refused(client, f"{web.url}/to?302=file:///etc/passwd") == -32603
        before = len(web.seen)
        assert refused(client, f"{web.url}/loop", "redirects") == -32603
        assert len(web.seen) - before == 11 and third.seen == []


def test_a_body_comes_in_pieces_as_they_come():
    with Place() as place, Web() as web:
        client = place.server("--http-allow", f"127.0.0.1:{web.port}").client()
        got = ask(client, web.url + "/pieces", requestId="s", streamResponse=True)
        assert got["status"] == 200 and got["bodyBase64"] == "", got
        client.wait(lambda: deltas(client, "s"))
        assert client.code("http/request", {"method": "GET", "url": web.url, "requestId": "s"}) == -32600  # it is not over
        assert not any(d["done"] for d in deltas(client, "s"))
        web.go_on.set()
        client.wait(lambda: deltas(client, "s")[-1]["done"])
        told = deltas(client, "s")
        assert [d["seq"] for d in told] == list(range(1, len(told) + 1)) and all(d["error"] is None for d in told), told
        assert b"".join(base64.b64decode(d["deltaBase64"]) for d in told) == b"one two three"
        assert ask(client, web.url, requestId="s")["status"] == 200  # its number is free again
        # The answer is on the wire before the first piece.
        ask(client, web.url + "/pieces?cut", requestId="cut", streamResponse=True)
        client.wait(lambda: deltas(client, "cut") and deltas(client, "cut")[-1]["done"])
        assert deltas(client, "cut")[-1]["error"], deltas(client, "cut")


def test_sizes_and_times_are_bounded():
    with Place() as place, Web() as web:
        client = place.server("--http-allow", f"127.0.0.1:{web.port}").client()
        assert refused(client, web.url + "/big", "streamResponse") == -32603
        ask(client, web.url + "/big", requestId="big", streamResponse=True)
        client.wait(lambda: deltas(client, "big") and deltas(client, "big")[-1]["done"])
        told = deltas(client, "big")
        assert sum(len(base64.b64decode(d["deltaBase64"])) for d in told) == BIG
        assert max(len(d["deltaBase64"]) for d in told) <= 4 * (1 << 20) // 3 + 4
        assert refused(client, web.url + "/silent", timeoutMs=200) == -32603
        assert client.call("environment/status") == {"status": "ready"}


def test_who_leaves_leaves_nothing_open():
    with Place() as place, Web() as web:
        server = place.server("--http-allow", f"127.0.0.1:{web.port}")
        client = server.client()
        client.send("http/request", {"method": "GET", "url": web.url + "/silent", "requestId": "a"})
        assert web.asked.wait(60)
        client.cut()
        assert web.left.wait(60)
        web.asked.clear()
        last = server.client()
        last.send("http/request", {"method": "GET", "url": web.url + "/silent", "requestId": "a", "streamResponse": True})
        assert web.asked.wait(60)
        assert server.stop() == 0


def test_more_than_there_are_threads_wait_for_nobody():
    with Place() as place, Web() as web:
        client = place.server("--http-allow", f"127.0.0.1:{web.port}").client()
        for i in range(32):
            client.send("http/request", {"method": "GET", "url": web.url + "/silent", "requestId": f"q{i}"})
        deadline = time.monotonic() + 60
        while len(web.seen) < 32:
            assert time.monotonic() < deadline, len(web.seen)
            time.sleep(0.02)
        assert refused(client, web.url, "at once") == -32603
        assert client.call("environment/status") == {"status": "ready"}
        assert client.run("echo fine", str(place.ws), codex_client.read_only())[1] == "fine\n"


def test_serve_takes_the_same_word():
    with Place() as place, Web() as web:
        server = Server(PROGRAM, str(place.path / "data2"), "--codex-root", str(place.ws), "--codex-http-allow", f"127.0.0.1:{web.port}")
        client = Client(server.port, f"/codex?key={server.key}")
        assert ask(client, web.url)["status"] == 200
        assert refused(client, f"http://127.0.0.1:{server.port}/") == -32600
        assert server.stop() == 0


def test_what_is_no_host_is_told_at_once():
    with Place() as place:
        for host in ("", "http://x", "a b", "10.0.0.0/8", "x:0", "x:70000", "[::1", "127.1", "*", "x:"):
            done = subprocess.run([PROGRAM, "exec-server", "--http-allow", host, "--data", str(place.path / "data")], capture_output=True, text=True,
                                  timeout=60, check=False)
            assert done.returncode == 2 and done.stderr, (host, done)


if __name__ == "__main__":
    run_all(globals())
