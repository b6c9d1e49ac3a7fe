#!/usr/bin/env python3
"""What a client may do wrong, or worse: the right status, and the server goes on. bad_input.py BERTH [CHECK]"""
import json
import os
import socket
import sys
import threading
import time

from served import Checks, Server, envelope, envelopes, parse, read_all

check = Checks()
WRONG = "e2b_" + "0" * 40


@check
def no_key_and_a_wrong_key_are_401(server: Server):
    for key in ("", WRONG, "x" * 10000):
        status, body = server.api("GET", "/v2/sandboxes", key=key)
        assert (status, body["code"]) == (401, 401), (status, body)


@check
def unknown_paths_and_methods(server: Server):
    assert server.api("GET", "/v3/templates/x/y")[0] == 501
    assert server.api("PATCH", "/sandboxes")[0] == 405
    assert server.request("GET", "/nothing")[0] == 404
    assert server.api("POST", "/secrets", {})[0] == 501


@check
def unknown_ids_are_404_and_bad_ones_400(server: Server):
    assert server.api("GET", "/sandboxes/i00000000000000000000")[0] == 404
    assert server.api("DELETE", "/sandboxes/i00000000000000000000")[0] == 404
    assert server.api("GET", "/sandboxes/a-b-c")[0] == 400
    assert server.api("GET", "/sandboxes/..%2f..%2fetc")[0] == 400


@check
def another_tenants_sandbox_is_not_there(server: Server):
    import subprocess
    box = server.create()
    other = subprocess.run([server.program, "key", "add", "--tenant", "eve", "--data", server.data], check=True,
                           capture_output=True, text=True).stdout.strip()
    for method, path, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/pause", {}), ("POST", "/timeout", {"timeout": 1}),
                               ("POST", "/connect", {"timeout": 1}), ("POST", "/snapshots", {}), ("POST", "/fork", {}),
                               ("GET", "/metrics", None), ("GET", "/logs", None), ("PUT", "/network", {}),
                               ("POST", "/refreshes", {}), ("POST", "/resume", {})):
        assert server.api(method, f"/sandboxes/{box.id}{path}", body, key=other)[0] == 404, path
    assert server.api("GET", "/v2/sandboxes", key=other) == (200, [])
    assert server.api("GET", f"/sandboxes/metrics?sandbox_ids={box.id}", key=other) == (200, {"sandboxes": {}})
    status, taken = server.api("POST", f"/sandboxes/{box.id}/snapshots", {"name": "mine"})
    assert status == 201, taken
    assert server.api("GET", "/snapshots", key=other) == (200, [])
    assert server.api("POST", "/v2/sandboxes", {"templateID": taken["snapshotID"]}, key=other)[0] == 404
    assert server.api("DELETE", "/templates/" + taken["snapshotID"].replace("/", "%2F"), key=other)[0] == 404
    assert server.api("DELETE", "/templates/" + taken["snapshotID"].replace("/", "%2F"))[0] == 204
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def bad_documents_are_400(server: Server):
    for body in (b"", b"{", b"[]", b'{"templateID":7}', b'{"templateID":"base","timeout":0}', b'{"templateID":"a b"}', b"\xff\xfe",
                 b'{"a":1,"a":2,"templateID":"base"}', b'{"templateID":"base","envVars":{"A=B":"x"}}', b"[" * 100000):
        status, _, text = server.request("POST", "/v2/sandboxes", body, {"X-API-Key": server.key})
        assert status == 400 and json.loads(text)["code"] == 400, (body[:40], status, text)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/connect+json"):
        status, _, text = server.request("POST", "/v2/sandboxes", b'{"templateID":"base"}', {"X-API-Key": server.key, "Content-Type": kind})
        assert status == 400 and "Content-Type" in json.loads(text)["message"], (kind, status, text)
    for query in ("limit=0", "limit=x", "state=dead", "nextToken=%21", "metadata=a", "order=up", "startedAfter=now"):
        assert server.api("GET", "/v2/sandboxes?" + query)[0] == 400, query


@check
def a_body_that_is_too_large_is_refused_before_it_is_read(server: Server):
    head = f"POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {server.key}\r\nContent-Length: 99999999999\r\n\r\n"
    assert parse(server.raw(head.encode()))[0] == 413
    with server.connect() as s:
        s.sendall(f"POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {server.key}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        try:
            for _ in range(200):
                s.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        except OSError:
            pass
        assert parse(read_all(s))[0] in (0, 413)


@check
def requests_that_two_readers_would_read_differently_are_refused(server: Server):
    for bad in (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
                b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX : y\r\n\r\n", b"GET /healthz HTTP/1.1\r\n folded: x\r\n\r\n",
                *(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " + coding + b"\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
                  for coding in (b"xchunked", b"chunked, identity", b"identity", b"gzip, chunked", b"chunked\r\nTransfer-Encoding: chunked")),
                b"POST / HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                *(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + twice + b"\r\n" + twice + b"\r\n\r\n"
                  for twice in (b"Host: localhost", b"Origin: http://localhost", b"X-API-Key: a", b"X-Access-Token: a", b"E2b-Sandbox-Id: a")),
                b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        answer = server.raw(bad + b"\r\n\r\n")
        assert parse(answer)[0] == 400 and b"HTTP/1.1 2" not in answer, (bad, answer)


@check
def a_last_chunk_that_comes_in_pieces_ends_nothing_else(server: Server):
    for pieces in ((b"0\r\n", b"\r", b"\n"), (b"0\r\n", b"a", b"b", b"c\rN\n0\r\n\r\n"), (b"0", b"\r", b"\n", b"\r", b"\n")):
        with server.connect() as s:
            s.sendall(f"POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {server.key}\r\nTransfer-Encoding: chunked\r\n"
                      "Connection: close\r\n\r\n".encode())
            for piece in pieces:
                time.sleep(0.02)
                s.sendall(piece)
            assert parse(read_all(s))[0] == 400, pieces
        assert server.request("GET", "/healthz")[0] == 200


@check
def a_head_without_end_is_refused(server: Server):
    assert parse(server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * 100_000 + b"\r\n\r\n"))[0] == 431
    with server.connect() as s:
        try:
            s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            for i in range(20_000):
                s.sendall(f"X-{i}: {'y' * 50}\r\n".encode())
        except OSError:
            return
        assert parse(read_all(s))[0] in (0, 431)


@check
def foreign_hosts_and_pages_are_refused(server: Server):
    def status(host: str, **headers) -> int:
        return server.request("GET", "/healthz", None, {"Host": host, **headers})[0]
    assert status("evil.example") == 403
    assert status("127.0.0.1.evil.example") == 403
    assert status("localhost", Origin="https://evil.example") == 403
    assert status("localhost", Origin="null") == 403
    assert status("localhost", Origin="http://localhost:3000") == 200


@check
def envd_without_its_token_is_401(server: Server):
    box = server.create()
    for token in ("", "x", box.token[:-1], box.token + "0"):
        for path in ("/process.Process/List", "/filesystem.Filesystem/Stat", "/files?path=/etc/passwd", "/metrics", "/envs"):
            method = "POST" if path.startswith(("/process", "/filesystem")) else "GET"
            status, _, text = server.request(method, path, b"{}" if method == "POST" else None,
                                             {**box.headers(), "X-Access-Token": token, "Content-Type": "application/json"})
            assert (status, json.loads(text)["code"]) == (401, 401), (path, status, text)
    other = server.create()
    status, _, _ = server.request("POST", "/process.Process/List", b"{}",
                                  {**box.headers(), "X-Access-Token": other.token, "Content-Type": "application/json"})
    assert status == 401
    assert server.request("GET", "/health", None, {"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "49983"})[0] == 204
    for box in (box, other):
        server.api("DELETE", f"/sandboxes/{box.id}")


@check
def bad_routing_is_400_and_unknown_sandboxes_502(server: Server):
    ask = lambda **headers: server.request("GET", "/health", None, {k.replace("_", "-"): v for k, v in headers.items()})  # noqa: E731
    assert ask(E2b_Sandbox_Id="abc")[0] == 400
    assert ask(E2b_Sandbox_Port="1")[0] == 400
    assert ask(E2b_Sandbox_Id="../x", E2b_Sandbox_Port="49983")[0] == 400
    assert ask(E2b_Sandbox_Id="abc", E2b_Sandbox_Port="99999")[0] == 400
    status, _, body = ask(E2b_Sandbox_Id="abc", E2b_Sandbox_Port="49983")
    assert (status, json.loads(body)) == (502, {"sandboxId": "abc", "message": "The sandbox was not found", "code": 502})


@check
def internal_paths_of_envd_are_hidden(server: Server):
    box = server.create()
    for path in ("/init", "/init/", "//init", "/freeze", "/upgrade"):
        for method in ("GET", "POST"):
            for token in (box.token, "wrong"):
                status, _, told = box.ask(method, path, b"{}" if method == "POST" else None, X_Access_Token=token)
                assert status == 404 and json.loads(told)["path"] == path, (path, token, status, told)
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def malformed_envelopes_end_with_an_error(server: Server):
    box = server.create()
    good = json.dumps({"process": {"cmd": "true"}}).encode()
    for body in (b"", b"\x00", envelope(good)[:-1], envelope(good) + b"\x00", envelope(good, 1), envelope(good, 4), envelope(good, 2),
                 envelope(good) * 2, b"\x00\xff\xff\xff\xff" + good, envelope(b"{"), envelope(b"[]"), envelope(b"{}"),
                 envelope(b'{"process":{"cmd":"true","args":"x"}}')):
        status, _, answer = box.stream("process.Process/Start", body)
        frames = envelopes(answer)
        assert status == 200 and len(frames) == 1 and frames[0][0] == 2 and frames[0][1]["error"]["code"], (body[:30], status, answer)
    for kind in ("application/json", "application/connect+proto", "text/plain", ""):
        assert box.ask("POST", "/process.Process/Start", envelope(good), Content_Type=kind)[0] == 415
    assert box.ask("POST", "/process.Process/List", b"{}", Content_Type="application/proto")[0] == 415
    assert box.unary("process.Process/Nothing", {})[0] == 404
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def unknown_processes_and_users(server: Server):
    box = server.create()
    for call in ("SendInput", "SendSignal", "CloseStdin", "Update"):
        status, body = box.unary("process.Process/" + call, {"process": {"pid": 999999}, "signal": 9, "input": {"stdin": ""}})
        assert (status, body["code"]) == (404, "not_found"), (call, body)
        status, body = box.unary("process.Process/" + call, {})
        assert (status, body["code"]) == (501, "unimplemented"), (call, body)
    status, _, body = box.ask("POST", "/filesystem.Filesystem/Stat", b'{"path":"/"}', Content_Type="application/json", Authorization="Basic bm9ib2R5eDo=")
    assert (status, json.loads(body)["code"]) == (401, "unauthenticated"), body
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def paths_lead_nowhere_but_inside(server: Server):
    box = server.create()
    secret = server.data + "/keys.json"
    box.run("ln -s / up; ln -s /proc/1/root deep; ln -s loop loop; mkfifo pipe; ln -s /dev/zero zero")
    for path in (secret, "/../../../.." + secret, "up" + secret, "deep" + secret, "/proc/1/root" + secret, "/proc/self/root" + secret,
                 "/proc/self/cwd/../../../.." + secret):
        status, _, body = box.ask("GET", "/files?path=" + path)
        assert status in (400, 403, 404) and b"sha256" not in body, (path, status, body)
        status, body = box.unary("filesystem.Filesystem/Stat", {"path": path})
        assert status != 200, (path, body)
        status, body = box.unary("filesystem.Filesystem/Move", {"source": path, "destination": "/tmp/x"})
        assert status != 200, (path, body)
        status, body = box.unary("filesystem.Filesystem/Remove", {"path": path})
    assert os.path.exists(secret)
    for path in ("loop", "pipe", "zero", "/dev/zero", "/proc/kmsg", "~root/x", "a%00b"):
        status = box.ask("GET", "/files?path=" + path)[0]
        assert status in (400, 403, 404, 409, 500), (path, status)
    status, _, _ = box.ask("POST", "/files?path=pipe", b"x", Content_Type="application/octet-stream")
    assert status in (400, 403), status
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def bad_uploads_are_refused(server: Server):
    box = server.create()
    kind = "multipart/form-data; boundary=X"
    part = b'--X\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhi\r\n'
    for body, content, status in ((part + part + b"--X--\r\n", kind, 400), (part, kind, 400), (b"nonsense", kind, 400), (b"x", "text/plain", 400),
                                  (b"x", "multipart/form-data", 400), (b"x", "application/octet-stream", 400)):
        got = box.ask("POST", "/files", body, Content_Type=content)[0]
        assert got == status, (body, got)
    assert box.ask("POST", "/files?path=/tmp", b"x", Content_Type="application/octet-stream")[0] == 400
    assert box.ask("POST", "/files?path=z", b"not gzip", Content_Type="application/octet-stream", Content_Encoding="gzip")[0] == 400
    assert box.ask("GET", "/files?path=/tmp")[0] == 400
    assert box.ask("GET", "/files?path=/none")[0] == 404
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def a_small_body_that_unpacks_to_much_stops_nobody(server: Server):
    import gzip
    box = server.create()
    kind = "multipart/form-data; boundary=X"
    bombs = (gzip.compress(b"\r\n--X\r\n\r\n" * 2_000_000, 9), gzip.compress(b"--X\r\n\r\n" + b"\0" * (256 << 20), 9))
    answers = []
    ask = lambda body: answers.append(box.ask("POST", "/files", body, Content_Type=kind, Content_Encoding="gzip")[0])
    threads = [threading.Thread(target=ask, args=(body,)) for body in bombs]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert server.request("GET", "/healthz", timeout=10)[0] == 200
    assert answers == [400, 400], answers
    files = b"".join(b'--X\r\nContent-Disposition: form-data; name="file"; filename="many/%d"\r\n\r\nhi\r\n' % i for i in range(2000))
    assert box.ask("POST", "/files", files + b"--X--\r\n", Content_Type=kind)[0] == 200
    assert box.ask("GET", "/files?path=many/1999")[2] == b"hi"
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def an_upload_that_is_cut_off_leaves_the_old_file(server: Server):
    box = server.create()
    assert box.ask("POST", "/files?path=old", b"as it was", Content_Type="application/octet-stream")[0] == 200
    lines = {"Host": "localhost", "Content-Type": "application/octet-stream", "Content-Length": "1000000", **box.headers()}
    head = "POST /files?path=old HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"
    with server.connect() as s:
        s.sendall(head.encode() + b"x" * 500_000)
    for _ in range(5):
        assert box.ask("GET", "/files?path=old")[2] == b"as it was"
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def ranges_of_a_file(server: Server):
    box = server.create()
    assert box.ask("POST", "/files?path=f", b"0123456789", Content_Type="application/octet-stream")[0] == 200
    for asked, status, body in (("bytes=2-4", 206, b"234"), ("bytes=-3", 206, b"789"), ("bytes=8-", 206, b"89"), ("bytes=5-99", 206, b"56789"),
                                ("bytes=10-", 416, b""), ("bytes=x", 200, b"0123456789"), ("bytes=1-2,4-5", 200, b"0123456789")):
        got = box.ask("GET", "/files?path=f", Range=asked)
        assert (got[0], got[2]) == (status, body), (asked, got)
    assert box.ask("GET", "/files?path=f", Accept_Encoding="identity;q=0")[0] == 406
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def a_client_that_never_reads_holds_no_memory(server: Server):
    box = server.create()
    s, pid = box.start("cat /dev/zero | head -c 200000000")
    before = server.memory()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # until the command is done, or stands still for want of a reader
        status, body = box.unary("process.Process/List", {})
        if not body.get("processes"):
            break
        time.sleep(0.2)
    grown = server.memory() - before
    assert grown < 64 << 20, f"{grown >> 20} MiB"
    assert box.run("echo others are served")[0] == "others are served\n"
    s.close()
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def many_idle_connections_and_others_are_served(server: Server):
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(10_000, hard - 200)
    before = server.memory()
    idle = [server.connect() for _ in range(count)]
    for s in idle[::10]:
        s.sendall(b"GET / HTT")  # and half a request each tenth
    assert server.request("GET", "/healthz")[0] == 200
    each = (server.memory() - before) / count
    assert each < 64 << 10, f"{each} bytes a connection"
    for s in idle:
        s.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert server.request("GET", "/healthz")[0] == 200


@check
def keep_alive_and_pipelining(server: Server):
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert server.raw(one * 20 + last).count(b"HTTP/1.1 200 OK") == 21
    with server.connect() as s:
        for _ in range(3):
            s.sendall(f"POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {server.key}\r\nContent-Length: 1\r\n\r\n".encode())
            time.sleep(0.05)
            s.sendall(b"{")
            assert b"400 Bad Request" in s.recv(65536)


@check
def many_requests_at_once(server: Server):
    wrong = []

    def work():
        for _ in range(20):
            if server.api("GET", "/v2/sandboxes")[0] != 200:
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@check
def too_many_requests_and_connections_are_refused(server: Server):
    import tempfile
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        small = Server(server.program, place + "/data", "--rate", "1", "--connections", "20")
        answers = [small.api("GET", path)[0] for path in ("/v2/sandboxes", "/v1/sandboxes") * 10]
        assert answers[:10] == [200] * 10 and 429 in answers, answers
        status, headers, _ = small.request("GET", "/v2/sandboxes", None, {"X-API-Key": small.key})
        assert status == 200 or headers["retry-after"] == "1", headers
        assert small.request("GET", "/healthz")[0] == 200
        many = [small.connect() for _ in range(40)]
        time.sleep(0.2)
        closed = 0
        for s in many:
            s.settimeout(0.2)
            try:
                closed += s.recv(1) == b""
            except TimeoutError:
                pass
        assert closed == 20, closed
        for s in many:
            s.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                if small.request("GET", "/healthz")[0] == 200:
                    break
            except OSError:
                pass
        assert small.request("GET", "/healthz")[0] == 200
        assert small.stop() == 0


@check
def metrics_are_told(server: Server):
    status, headers, body = server.request("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain"), headers
    assert b'berth_http_requests_total{status="2xx"}' in body
    assert server.request("GET", "/readyz")[0] == 200


if __name__ == "__main__":
    socket.setdefaulttimeout(60)
    sys.exit(check.main())
