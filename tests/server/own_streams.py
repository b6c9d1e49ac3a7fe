#!/usr/bin/env python3
"""What of berth's own API goes on and on, or goes through: WebSockets of commands, ports, events, trees; and policies.
own_streams.py BERTH [CHECK]"""
import base64
import io
import json
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time

from codex_client import frame, upgrade
from own_api import ask, make, output, run
from served import Checks, Server, parse, read_all

check = Checks()


class Socket:
    """A WebSocket's messages, one after the other."""

    def __init__(self, server: Server, path: str, key: str | None = None):
        self.socket, self.status, self.buffer = upgrade(server.port, path, Authorization="Bearer " + (server.key if key is None else key))
        self.code = None

    def need(self, n: int) -> bytes:
        while len(self.buffer) < n:
            piece = self.socket.recv(1 << 16)
            if not piece:
                raise EOFError
            self.buffer += piece
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out

    def __iter__(self):
        message = b""
        while True:
            first, size = self.need(2)
            if size == 126:
                size = struct.unpack(">H", self.need(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.need(8))[0]
            payload = self.need(size)
            if first & 0xf == 8:
                self.code = struct.unpack(">H", payload[:2])[0] if payload else 1005
                self.socket.sendall(frame(payload, 8))
                return
            if first & 0xf == 9:
                self.socket.sendall(frame(payload, 10))
            elif first & 0xf in (0, 1, 2):
                message += payload
                if first & 0x80:
                    yield json.loads(message)
                    message = b""

    def say(self, **message) -> None:
        self.socket.sendall(frame(json.dumps(message).encode()))

    def until(self, holds) -> list[dict]:
        seen = []
        for one in self:
            seen.append(one)
            if holds(one):
                return seen
        raise AssertionError(f"it ended: {seen}")


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@check
def a_command_on_one_websocket(server: Server):
    box = make(server)
    cat = run(server, box, "cat", stdin=True)
    ws = Socket(server, cat + "/stream")
    assert ws.status == 101
    ws.say(input=text(b"hello "), write=1)
    ws.say(input=text(b"there"), write=2)
    ws.say(input=text(b"there"), write=2)  # again, as somebody does whose answer was lost
    ws.say(close_input=True, write=3)
    seen = list(ws)
    assert output([e for e in seen if "data" in e]) == b"hello there", seen
    assert [e["event"] for e in seen if e.get("event") in ("exit", "closed")] == ["exit", "closed"], seen
    assert ws.code == 1000, "and says that this was the end"
    # The last answer may come too late for a command that ended by what it answers.
    assert [e["write"] for e in seen if e.get("event") == "input"] in ([1, 2, 2], [1, 2, 2, 3]), seen
    numbers = [e["seq"] for e in seen if "seq" in e]
    assert numbers == sorted(set(numbers)), seen
    ask(server, "DELETE", box)


@check
def a_websocket_is_resumed_where_it_broke(server: Server):
    box = make(server)
    path = run(server, box, "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.05; done")
    ws = Socket(server, path + "/stream")
    first = ws.until(lambda e: e.get("event") == "stdout")
    ws.socket.close()
    rest = list(Socket(server, f"{path}/stream?after={first[-1]['seq']}"))
    assert output(first) + output(rest) == b"".join(b"%d\n" % i for i in range(1, 9)), (first, rest)
    assert [e["seq"] for e in first + rest] == list(range(first[0]["seq"], first[0]["seq"] + len(first + rest)))
    assert list(Socket(server, f"{path}/stream?after={rest[-1]['seq']}")) == [], "nothing is left"
    ask(server, "DELETE", box)


@check
def a_terminal_by_websocket(server: Server):
    box = make(server)
    path = run(server, box, "sh", "-c", "stty -echo; echo ready; read a; stty size; read b; echo got $b", terminal={"rows": 30, "columns": 100})
    ws = Socket(server, path + "/stream")
    ws.until(lambda e: b"ready" in base64.b64decode(e.get("data", "")))
    ws.say(resize={"rows": 41, "columns": 141})
    ws.say(input=text(b"\n"))
    ws.until(lambda e: b"41 141" in base64.b64decode(e.get("data", "")))
    ws.say(input=text(b"it\n"))
    assert b"got it" in output(list(ws), "pty")
    ask(server, "DELETE", box)


@check
def signals_do_not_wait_behind_input_that_nobody_reads(server: Server):
    box = make(server)
    path = run(server, box, "sleep", "1000", stdin=True)
    ws = Socket(server, path + "/stream")
    ws.say(input=text(b"x" * 1_000_000), write=1)
    ws.say(signal=15)
    seen = ws.until(lambda e: e.get("event") == "exit")
    assert seen[-1]["signal"] == 15, seen
    other = run(server, box, "sh", "-c", "sleep 1000 & sleep 1000")
    killed = Socket(server, other + "/stream")
    killed.say(kill=True)
    assert killed.until(lambda e: e.get("event") == "exit")[-1]["signal"] == 9
    ask(server, "DELETE", box)


@check
def what_a_websocket_may_not_say_is_answered(server: Server):
    box = make(server)
    path = run(server, box, "sleep", "1000", stdin=True)
    ws = Socket(server, path + "/stream")
    for bad in (b"{", b"[]", b"{}", b'{"input":"%%%"}', b'{"input":1}', b'{"input":"","write":0}', b'{"signal":0}', b'{"signal":9999}',
                b'{"resize":{"rows":0,"columns":1}}', b'{"resize":{"rows":5,"columns":5}}', b'{"shout":true}', b"\xff\xfe"):
        ws.socket.sendall(frame(bad, 2))
        told = ws.until(lambda e: "error" in e)[-1]
        assert told["error"]["code"] in ("invalid", "conflict"), (bad, told)
    ws.say(kill=True)
    assert ws.until(lambda e: e.get("event") == "exit")[-1]["signal"] == 9, "and the rest goes on"
    large = Socket(server, path + "/stream")
    try:
        large.socket.sendall(frame(b"x" * (5 << 20)))
        list(large)
    except (EOFError, OSError):
        pass
    assert ask(server, "GET", path + "/stream")[0] == 400, "without an upgrade"
    assert Socket(server, path + "/stream", key="e2b_00").status == 401
    assert Socket(server, path + "/stream?after=x").status == 400
    ask(server, "DELETE", box)


# -- ports ---------------------------------------------------------------------------------------------------------

PROGRAM = r'''
import socket, sys, threading
def talk(c):
    data = b""
    while b"\r\n\r\n" not in data and b"ECHO\n" not in data:
        piece = c.recv(65536)
        if not piece:
            return c.close()
        data += piece
    if b"ECHO\n" in data:
        c.sendall(data.partition(b"ECHO\n")[2])
        while True:
            piece = c.recv(65536)
            if not piece:
                break
            c.sendall(piece)
        c.sendall(b"bye")
        return c.close()
    head = data.partition(b"\r\n\r\n")[0]
    if b" /early" in head:
        c.sendall(b"HTTP/1.1 413 Too much\r\nContent-Length: 5\r\n\r\nearly")
        return c.close()
    if b" /slow" in head:
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
        while c.recv(65536):
            pass
        return c.close()
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(head) + head)
    c.close()
s = socket.create_server(("127.0.0.1", 8000))
print("ready", flush=True)
while True:
    threading.Thread(target=talk, args=(s.accept()[0],), daemon=True).start()
'''


def listening(server: Server) -> str:
    box = make(server)
    path = run(server, box, "python3", "-c", PROGRAM)
    Socket(server, path + "/stream").until(lambda e: b"ready" in base64.b64decode(e.get("data", "")))
    return box


def open_port(server: Server, box: str, port: int = 8000, **headers) -> socket.socket:
    s = server.connect()
    lines = {"Host": "127.0.0.1", "Authorization": "Bearer " + server.key, "Connection": "Upgrade", "Upgrade": "tcp", **headers}
    s.sendall((f"GET {box}/ports/{port} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += s.recv(1)
    assert head.startswith(b"HTTP/1.1 101 "), head
    return s


@check
def a_port_as_bytes_both_ways(server: Server):
    box = listening(server)
    with open_port(server, box) as s:
        s.sendall(b"ECHO\n")
        data = bytes(range(256)) * 4096
        got = bytearray()
        reader = threading.Thread(target=lambda: got.extend(read_all(s)))
        reader.start()
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)  # its end reaches the program, and what it says then reaches us
        reader.join(60)
        assert bytes(got) == data + b"bye", (len(got), bytes(got[-10:]))
    status, told = ask(server, "GET", box + "/ports/8001")
    assert status == 502 and "nobody listens" in told["error"]["message"], (status, told)
    for bad in ("0", "65536", "x", "-1"):
        assert ask(server, "GET", f"{box}/ports/{bad}")[0] == 400, bad
    ask(server, "DELETE", box)


@check
def a_port_as_http(server: Server):
    box = listening(server)
    status, headers, body = server.request("POST", box + "/ports/8000/a%2Fb/c?d=e&f", b"data", {"Authorization": "Bearer " + server.key, "X-Mine": "yes"})
    assert status == 200 and body.startswith(b"POST /a%2Fb/c?d=e&f HTTP/1.1\r\n"), body
    assert b"X-Mine: yes" in body and server.key.encode() not in body, "our key is nothing for the program"
    assert headers["content-security-policy"].startswith("sandbox"), "its pages are not ours"
    for path in ("/ports/8000", "/ports/8000/", "/ports/8000?q"):
        status, _, body = server.request("GET", box + path, None, {"X-API-Key": server.key, "Authorization": "Basic inside"})
        assert status == 200 and body.startswith(b"GET /" + (b"?q" if "?" in path else b"") + b" HTTP/1.1"), body
        assert b"Authorization: Basic inside" in body and server.key.encode() not in body
    status, _, _ = server.request("HEAD", box + "/ports/8000/x", None, {"X-API-Key": server.key})
    assert status == 200
    other = subprocess.run([server.program, "key", "add", "--tenant", "mallory", "--data", server.data], check=True, capture_output=True, text=True).stdout.strip()
    assert ask(server, "GET", box + "/ports/8000/x", key=other)[0] == 404
    ask(server, "DELETE", box)


@check
def an_early_answer_does_not_wait_for_the_body(server: Server):
    box = listening(server)
    with server.connect() as s:
        s.sendall((f"POST {box}/ports/8000/early HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {server.key}\r\nContent-Length: 1000000\r\n\r\n").encode() + b"x" * 1000)
        status, _, body = parse(read_all(s))  # 999 000 bytes are never sent
    assert (status, body) == (413, b"early"), (status, body)
    with server.connect() as s:  # one who sends all the same does not lose it
        s.sendall((f"POST {box}/ports/8000/early HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {server.key}\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n").encode() + b"x" * 1_000_000)
        status, _, body = parse(read_all(s))
    assert (status, body) == (413, b"early"), (status, body)
    ask(server, "DELETE", box)


@check
def an_open_port_does_not_keep_the_server(server: Server):
    box = listening(server)
    s = open_port(server, box)
    assert server.stop() == 0
    assert read_all(s) == b""
    s.close()
    server = Server(server.program, server.data)
    ask(server, "DELETE", box)
    return server


# -- the rest ------------------------------------------------------------------------------------------------------

@check
def events_are_followed_and_resumed(server: Server):
    with server.connect() as s:
        s.sendall(f"GET /v1/events?follow=true&after=0 HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {server.key}\r\n\r\n".encode())
        box = make(server)
        name = box.rsplit("/", 1)[1]
        seen = b""
        while b"sandbox_created" not in seen.partition(name.encode())[2]:
            seen += s.recv(65536)
    last = max(int(line[3:]) for line in seen.decode().splitlines() if line.startswith("id: "))
    ask(server, "POST", box + "/stop")
    with server.connect() as s:
        s.sendall(f"GET /v1/events?follow=true&sandbox={name} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {server.key}\r\nLast-Event-ID: {last}\r\n\r\n".encode())
        seen = b""
        while b"sandbox_stopped" not in seen:
            seen += s.recv(65536)
    ids = [int(line[3:]) for line in seen.decode().splitlines() if line.startswith("id: ")]
    assert ids == sorted(ids) and min(ids) > last and b"sandbox_created" not in seen, seen
    assert [e["type"] for e in ask(server, "GET", f"/v1/events?sandbox={name}&type=sandbox_created")[1]["events"]] == ["sandbox_created"]
    ask(server, "DELETE", box)


@check
def trees_go_in_and_out_as_tars(server: Server):
    box = make(server)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for i in range(50):
            member = tarfile.TarInfo(f"d{i % 5}/f{i}")
            member.size = i * 100
            member.mode = 0o640
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    assert ask(server, "PUT", box + "/directory?path=/tmp/tree")[0] == 204
    assert ask(server, "PUT", box + "/archive?path=/tmp/tree", body=packed.getvalue())[0] == 204
    status, out = ask(server, "GET", box + "/archive?path=/tmp/tree")
    with tarfile.open(fileobj=io.BytesIO(out)) as tar:
        sizes = {m.name.removeprefix("./"): (m.size, m.mode) for m in tar.getmembers() if m.isfile()}
    assert status == 200 and sizes == {f"d{i % 5}/f{i}": (i * 100, 0o640) for i in range(50)}, sizes
    hostile = io.BytesIO()
    with tarfile.open(fileobj=hostile, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("good"))
        tar.addfile(tarfile.TarInfo("../bad"))
    assert ask(server, "PUT", box + "/archive?path=/tmp/tree", body=hostile.getvalue())[0] == 400
    assert ask(server, "PUT", box + "/archive?path=/tmp/tree", body=packed.getvalue()[:3000])[0] == 400
    names = [e["name"] for e in ask(server, "GET", box + "/directory?path=/tmp/tree")[1]["entries"]]
    assert sorted(names) == ["d0", "d1", "d2", "d3", "d4"], "of a bad one nothing is written"
    assert ask(server, "GET", box + "/archive?path=/tmp/none")[0] == 404
    ask(server, "DELETE", box)


@check
def policies_are_shown_checked_and_explained(server: Server):
    names = ask(server, "GET", "/v1/policies")[1]["presets"]
    assert {"sandbox", "read-only", "workspace-write", "full-access"} <= set(names), names
    shown = ask(server, "GET", "/v1/policies/read-only")[1]
    assert ask(server, "POST", "/v1/policies/check", {"policy": shown})[1]["policy"] == shown
    status, told = ask(server, "POST", "/v1/policies/check", {"policy": {"network": "sideways"}})
    assert status == 400 and "network" in told["error"]["message"], told
    assert ask(server, "GET", "/v1/policies/none")[0] == 404
    told = ask(server, "POST", "/v1/policies/explain", {"policy": {"limits": {"pids": 100}}})[1]
    assert told["backend"] == "local" and any(rule["feature"] and rule["how"] for rule in told["rules"]), told
    refused = ask(server, "POST", "/v1/policies/explain", {"policy": {"network": {"allow": [{"host": "example.org"}]}}})[1]
    assert refused["admitted"] is False and [rule for rule in refused["rules"] if rule["refused"]], refused
    box = make(server, policy="read-only")
    held = ask(server, "GET", box + "/policy")[1]
    assert held["admitted"] and held["policy"] == shown and all(rule["held"] for rule in held["rules"] if "limit" not in rule["feature"]), held
    ask(server, "DELETE", box)


if __name__ == "__main__":
    sys.exit(check.main())
