#!/usr/bin/env python3
"""The corners of E2B's protocol that no SDK visits, and what a client may do wrong there. edges.py BERTH [CHECK]"""
import base64
import hashlib
import json
import pathlib
import os
import subprocess
import sys
import time
from urllib.parse import quote

from served import Checks, Server, envelope, envelopes

check = Checks()


def volume_of(server: Server, name: str, key: str | None = None) -> dict:
    status, made = server.api("POST", "/volumes", {"name": name}, **({"key": key} if key else {}))
    assert status == 201, (status, made)
    return made


def content(server: Server, volume: dict, method: str, what: str, path: str, body: bytes | None = None, token: str | None = None, **query):
    more = "".join(f"&{k}={v}" for k, v in query.items())
    headers = {"Authorization": "Bearer " + (volume["token"] if token is None else token)}
    if body is not None:
        headers["Content-Type"] = "application/octet-stream"
    status, _, text = server.request(method, f"/volumecontent/{volume['volumeID']}/{what}?path={quote(path)}{more}", body, headers)
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text


def other_key(server: Server) -> str:
    return subprocess.run([server.program, "key", "add", "--tenant", "eve", "--data", server.data], check=True,
                          capture_output=True, text=True).stdout.strip()


# ---------------------------------------------------------------- volumes

@check
def the_token_of_a_volume_opens_that_volume_alone(server: Server):
    one, two = volume_of(server, "token-one"), volume_of(server, "token-two")
    for token in ("", "x", two["token"], server.key, one["token"] + "0"):
        status, told = content(server, one, "GET", "path", "/", token=token)
        assert status == 401 and told["code"] == "unauthorized", (token, status, told)
    status, _, _ = server.request("GET", f"/volumecontent/{one['volumeID']}/path?path=/")
    assert status == 401, status
    gone = {**one, "volumeID": "vol00000000000000000000"}
    assert content(server, gone, "GET", "path", "/")[0] == 404
    for volume in (one, two):
        assert server.api("DELETE", "/volumes/" + volume["volumeID"])[0] == 204
    assert content(server, one, "GET", "path", "/")[0] == 404


@check
def paths_of_a_volume_lead_nowhere_else(server: Server):
    volume = volume_of(server, "paths")
    for path in ("../../../../etc/passwd", "/../../etc/passwd", "/%2e%2e/x", "/a/../../b"):
        status, told = content(server, volume, "GET", "file", path)
        assert status == 404, (path, status, told)
    box = server.create(volumeMounts=[{"name": "paths", "path": "/mnt/v"}])
    box.run("cd /mnt/v; ln -s /etc/passwd out; ln -s / root; ln -s ../.. up; ln -s loop loop; mkfifo pipe; mkdir d; echo kept > d/f; "
            "ln -s d/f in; ln -s /d absolute" + ("; chmod 000 d/f" if os.geteuid() == 0 else ""))
    for path in ("/out", "/root/etc/passwd", "/up/etc/passwd", "/loop"):
        status, told = content(server, volume, "GET", "file", path)
        assert status in (400, 404, 500), (path, status, told)
        assert b"root:" not in (told if isinstance(told, bytes) else b""), path
    # What a link means inside the volume it means here: an absolute one begins at the volume's own root.
    assert content(server, volume, "GET", "file", "/in") == (200, b"kept\n")
    assert content(server, volume, "GET", "file", "/absolute/f") == (200, b"kept\n")
    assert content(server, volume, "GET", "file", "/pipe")[0] == 400
    status, told = content(server, volume, "GET", "path", "/out")
    assert status == 200 and (told["type"], told["target"]) == ("symlink", "/etc/passwd"), told
    before = os.stat("/etc/passwd")
    assert content(server, volume, "PUT", "file", "/out", b"gone")[0] in (400, 404, 409), "a link to nothing in the volume"
    assert content(server, volume, "PATCH", "path", "/out", json.dumps({"mode": 0o777}).encode())[0] in (400, 404)
    content(server, volume, "DELETE", "path", "/root")
    content(server, volume, "DELETE", "path", "/up")
    after = os.stat("/etc/passwd")
    assert (before.st_size, before.st_mode, before.st_ino) == (after.st_size, after.st_mode, after.st_ino)
    assert content(server, volume, "DELETE", "path", "/")[0] == 400
    assert content(server, volume, "GET", "file", "/d/f") == (200, b"kept\n")
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    assert server.api("DELETE", "/volumes/" + volume["volumeID"])[0] == 204


@check
def bad_volumes_are_refused(server: Server):
    for body in ({}, {"name": ""}, {"name": "a/b"}, {"name": "x" * 1000}, {"name": 7}, {"name": "é"}):
        assert server.api("POST", "/volumes", body)[0] == 400, body
    volume = volume_of(server, "mounted")
    for mounts in ([{"name": "none", "path": "/x"}], [{"name": "mounted", "path": "x"}], [{"name": "mounted", "path": "/a/../b"}],
                   [{"name": "mounted", "path": "/"}], [{"name": "mounted", "path": "/x/"}], [{"name": "mounted"}], "no", [7],
                   [{"name": "mounted", "path": "/x"}, {"name": "mounted", "path": "/y"}]):
        status, told = server.api("POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": mounts})
        assert status == 400, (mounts, status, told)
    eve = other_key(server)
    assert server.api("GET", "/volumes", key=eve) == (200, [])
    assert server.api("GET", "/volumes/" + volume["volumeID"], key=eve)[0] == 404
    assert server.api("DELETE", "/volumes/" + volume["volumeID"], key=eve)[0] == 404
    assert server.api("POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": [{"name": "mounted", "path": "/x"}]}, key=eve)[0] == 400
    hers = volume_of(server, "mounted", eve)
    assert hers["volumeID"] != volume["volumeID"]
    assert server.api("DELETE", "/volumes/" + hers["volumeID"], key=eve)[0] == 204
    assert server.api("DELETE", "/volumes/" + volume["volumeID"])[0] == 204


@check
def an_upload_to_a_volume_that_is_cut_off_leaves_the_old_file(server: Server):
    volume = volume_of(server, "cut")
    assert content(server, volume, "PUT", "file", "/f", b"old")[0] == 201
    with server.connect() as s:
        s.sendall((f"PUT /volumecontent/{volume['volumeID']}/file?path=/f HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {volume['token']}\r\n"
                   "Content-Length: 1000000\r\n\r\n").encode() + b"new" * 1000)
    assert content(server, volume, "GET", "file", "/f") == (200, b"old")
    for name, value in (("uid", "-1"), ("uid", "99999999999"), ("mode", "zz"), ("depth", "-3")):
        assert content(server, volume, "PUT" if name != "depth" else "GET", "file" if name != "depth" else "dir", "/f", **{name: value},
                       **({"body": b"x"} if name != "depth" else {}))[0] == 400, name
    assert content(server, volume, "GET", "file", "/f") == (200, b"old")
    assert server.api("DELETE", "/volumes/" + volume["volumeID"])[0] == 204


@check
def volumes_outlive_the_server(server: Server):
    volume = volume_of(server, "outlives")
    assert content(server, volume, "PUT", "file", "/f", b"kept")[0] == 201
    box = server.create(volumeMounts=[{"name": "outlives", "path": "/mnt/v"}])
    server.kill()
    server = Server(server.program, server.data)
    box.server = server
    assert content(server, volume, "GET", "file", "/f") == (200, b"kept")
    assert box.run("cat /mnt/v/f")[0] == "kept"
    status, detail = server.api("GET", f"/sandboxes/{box.id}")
    assert detail["volumeMounts"] == [{"name": "outlives", "path": "/mnt/v"}], detail
    assert server.api("DELETE", "/volumes/" + volume["volumeID"])[0] == 409
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    assert server.api("DELETE", "/volumes/" + volume["volumeID"])[0] == 204
    return server


# ---------------------------------------------------------------- files

@check
def metadata_has_bounds(server: Server):
    box = server.create()

    def put(**headers):
        return box.ask("POST", "/files?path=/tmp/m", b"x", Content_Type="application/octet-stream", **headers)
    for headers in ({"X_Metadata_a": "é"}, {"X_Metadata_" + "k" * 247: "v"}, {"X_Metadata_a": "v" * 4096}, {"X_Metadata_": "v"}):
        status, _, body = put(**headers)
        assert status == 400 and json.loads(body)["code"] == 400, (headers, status, body)
    status, _, body = put(X_Metadata_Author="Me", X_METADATA_two="2")
    assert status == 200 and json.loads(body)[0]["metadata"] == {"author": "Me", "two": "2"}, body
    status, told = box.unary("filesystem.Filesystem/Stat", {"path": "/tmp/m"})
    assert told["entry"]["metadata"] == {"author": "Me", "two": "2"}, told
    box.run("""python3 -c 'import os; os.setxattr("/tmp/m", "user.e2b.raw", b"\\xff\\xfe"); os.setxattr("/tmp/m", "user.other", b"x")'""")
    status, told = box.unary("filesystem.Filesystem/Stat", {"path": "/tmp/m"})
    assert told["entry"]["metadata"] == {"author": "Me", "two": "2"}, told
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def signatures_cannot_be_bent(server: Server):
    box = server.create()
    box.ask("POST", "/files?path=/tmp/s", b"signed", Content_Type="application/octet-stream")

    def link(path="/tmp/s", use="read", user="", until=None, token=box.token):
        raw = f"{path}:{use}:{user}:{token}" + (f":{until}" if until is not None else "")
        return "v1_" + base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode().rstrip("=")

    def get(method="GET", body=None, basic=None, **query):
        text = "&".join(f"{k}={quote(str(v), safe='')}" for k, v in query.items())
        headers = {"Content-Type": "application/octet-stream"} if body is not None else {}
        if basic:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{basic}:".encode()).decode()
        status, _, told = server.request(method, "/files?" + text, body, headers)
        return status, told
    later = int(time.time()) + 600
    assert get(path="/tmp/s", signature=link()) == (200, b"signed")
    assert get(path="/tmp/s", signature=link(until=later), signature_expiration=later) == (200, b"signed")
    # It is of the user it was signed for: a relative path is below that one's home.
    box.ask("POST", "/files?path=mine", b"of user", Content_Type="application/octet-stream")
    assert get(path="mine", signature=link("mine"), basic="root") == (200, b"of user")
    assert get(path="mine", username="user", signature=link("mine", user="user"), basic="root") == (200, b"of user")
    bent = [
        {"path": "/tmp/s", "signature": link(path="/tmp/other")}, {"path": "/etc/passwd", "signature": link()},
        {"path": "/tmp/s", "signature": link(use="write")}, {"path": "/tmp/s", "username": "root", "signature": link()},
        {"path": "/tmp/s", "signature": link(until=later), "signature_expiration": later + 1}, {"path": "/tmp/s", "signature": link(until=later)},
        {"path": "/tmp/s", "signature": link(), "signature_expiration": later}, {"path": "/tmp/s", "signature": link(token="x")},
        {"path": "/tmp/s", "signature": link()[:-1]}, {"path": "/tmp/s", "signature": link() + "="}, {"path": "/tmp//s", "signature": link()},
        {"path": "/tmp/s", "username": "x" * 60_000, "signature": link(user="x" * 60_000)},
        {"path": "/tmp/s", "signature": "v2" + link()[2:]}, {"path": "/tmp/s", "signature": "x" * 1000},
    ]
    for query in bent:
        assert get(**query)[0] == 401, query
    past = int(time.time()) - 5
    status, told = get(path="/tmp/s", signature=link(until=past), signature_expiration=past)
    assert (status, json.loads(told)) == (401, {"code": 401, "message": "signature is already expired"}), told
    for until in ("soon", "-1", "9" * 30):
        assert get(path="/tmp/s", signature=link(until=until), signature_expiration=until)[0] == 401, until
    assert get("POST", b"y", path="/tmp/s", signature=link())[0] == 401, "a link to read is none to write"
    assert get("POST", b"new", path="/tmp/s", signature=link(use="write"))[0] == 200
    # A wrong token is not made good by a good signature.
    status, _, _ = box.ask("GET", f"/files?path=/tmp/s&signature={quote(link(), safe='')}", X_Access_Token="wrong")
    assert status == 401, status
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def conditional_and_partial_reads(server: Server):
    box = server.create()
    box.ask("POST", "/files?path=/tmp/c.txt", b"0123456789", Content_Type="application/octet-stream")
    status, headers, body = box.ask("GET", "/files?path=/tmp/c.txt")
    named = {k.lower(): v for k, v in headers.items()}
    assert (status, body, named["accept-ranges"], named["content-length"]) == (200, b"0123456789", "bytes", "10"), headers
    date = named["last-modified"]
    assert box.ask("GET", "/files?path=/tmp/c.txt", If_Modified_Since=date)[0] == 304
    assert box.ask("GET", "/files?path=/tmp/c.txt", If_Modified_Since="Fri, 01 Jan 2100 00:00:00 GMT")[0] == 304
    assert box.ask("GET", "/files?path=/tmp/c.txt", If_Modified_Since="Mon, 01 Jan 2001 00:00:00 GMT")[0] == 200
    assert box.ask("GET", "/files?path=/tmp/c.txt", If_Modified_Since="yesterday")[0] == 200
    assert box.ask("GET", "/files?path=/tmp/c.txt", If_Modified_Since=date, If_None_Match='"abc"')[0] == 200
    status, _, body = box.ask("GET", "/files?path=/tmp/c.txt", Range="bytes=2-4", If_Range=date)
    assert (status, body) == (206, b"234"), (status, body)
    status, _, body = box.ask("GET", "/files?path=/tmp/c.txt", Range="bytes=2-4", If_Range="Mon, 01 Jan 2001 00:00:00 GMT")
    assert (status, len(body)) == (200, 10), (status, body)
    assert box.ask("GET", "/files?path=/tmp/c.txt", Accept_Encoding="gzip;q=0, identity;q=0")[0] == 406
    box.ask("POST", "/files?path=/tmp/empty", b"", Content_Type="application/octet-stream")
    for part in ("bytes=0-", "bytes=-5", "bytes=7-9"):
        status, headers, body = box.ask("GET", "/files?path=/tmp/empty", Range=part)
        named = {k.lower(): v for k, v in headers.items()}
        assert (status, body, named["content-length"], named.get("content-range")) == (200, b"", "0", None), (part, status, headers)
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def calls_in_another_form_are_415(server: Server):
    box = server.create()
    for method, kind in (("process.Process/List", "text/plain"), ("process.Process/Start", "application/json"),
                         ("filesystem.Filesystem/Stat", "application/connect+json"), ("process.Process/Start", "application/grpc"),
                         ("process.Process/List", "application/proto")):
        status, _, _ = box.ask("POST", "/" + method, b"{}", Content_Type=kind)
        assert status == 415, (method, kind, status)
    status, _, body = box.ask("POST", "/process.Process/None", b"{}", Content_Type="application/json")
    assert status == 404, (status, body)
    server.api("DELETE", f"/sandboxes/{box.id}")


# ---------------------------------------------------------------- processes

@check
def processes_by_tag_and_what_they_refuse(server: Server):
    box = server.create()
    start = {"process": {"cmd": "/bin/cat"}, "tag": "mine", "stdin": True}
    connection, pid = begin(box, start)
    by_tag = {"process": {"tag": "mine"}}
    text = base64.b64encode(b"hello\n").decode()
    assert box.unary("process.Process/SendInput", {**by_tag, "input": {"stdin": text}}) == (200, {})
    status, told = box.unary("process.Process/SendInput", {**by_tag, "input": {"pty": text}})
    assert (status, told["code"]) == (500, "internal"), told
    status, told = box.unary("process.Process/Update", {**by_tag, "pty": {"size": {"cols": 1, "rows": 1}}})
    assert (status, told["code"]) == (500, "internal"), told
    for signal in (0, "SIGNAL_UNSPECIFIED", 1, 2):
        status, told = box.unary("process.Process/SendSignal", {**by_tag, "signal": signal})
        assert told["code"] in ("unimplemented", "invalid_argument"), (signal, told)
    status, told = box.unary("process.Process/SendSignal", {"signal": "SIGNAL_SIGTERM"})
    assert (status, told["code"]) == (501, "unimplemented"), told
    frames = b"".join(envelope(json.dumps(one).encode()) for one in (
        {"start": by_tag}, {"data": {"input": {"stdin": text}}}, {"keepalive": {}}, {"data": {"input": {"stdin": text}}}))
    status, _, body = box.stream("process.Process/StreamInput", frames)
    assert status == 200 and envelopes(body)[-1] == (2, {}), body
    status, _, body = box.stream("process.Process/StreamInput", frames[:-3])
    assert envelopes(body)[-1][1]["error"]["code"] == "invalid_argument", body
    status, _, body = box.stream("process.Process/StreamInput", envelope(json.dumps({"start": {"process": {"pid": 99999}}}).encode()))
    assert envelopes(body)[-1][1]["error"]["code"] == "not_found", body
    assert box.unary("process.Process/CloseStdin", by_tag) == (200, {})
    assert box.unary("process.Process/CloseStdin", by_tag)[0] in (200, 404)
    connection.close()
    server.api("DELETE", f"/sandboxes/{box.id}")


def begin(box, start: dict, **headers):
    """A process whose stream stays open: the connection and its number."""
    body = envelope(json.dumps(start).encode())
    connection = box.server.connect()
    lines = {"Host": f"127.0.0.1:{box.server.port}", **box.headers(), "Content-Type": "application/connect+json",
             "Content-Length": str(len(body)), **headers}
    connection.sendall(("POST /process.Process/Start HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode() + body)
    data = b""
    while b'"pid":' not in data or b"}}}" not in data:
        piece = connection.recv(65536)
        assert piece, data
        data += piece
    return connection, int(data.split(b'"pid":')[1].split(b"}")[0])


@check
def a_restart_forgets_neither_tags_nor_terminals_nor_deadlines(server: Server):
    box = server.create()
    kept, _ = begin(box, {"process": {"cmd": "/bin/cat"}, "tag": "tagged", "stdin": True})
    pty, number = begin(box, {"process": {"cmd": "/bin/bash", "args": ["-i"]}, "pty": {"size": {"cols": 80, "rows": 24}}})
    timed, late = begin(box, {"process": {"cmd": "/bin/sleep", "args": ["1000"]}, "tag": "timed"}, **{"Connect-Timeout-Ms": "3000"})
    server.kill()
    for connection in (kept, pty, timed):
        connection.close()
    server = Server(server.program, server.data)
    box.server = server
    status, told = box.unary("process.Process/List", {})
    tags = {one.get("tag") for one in told["processes"]}
    assert "tagged" in tags, told
    text = base64.b64encode(b"x\n").decode()
    assert box.unary("process.Process/SendInput", {"process": {"tag": "tagged"}, "input": {"stdin": text}}) == (200, {})
    assert box.unary("process.Process/Update", {"process": {"pid": number}, "pty": {"size": {"cols": 100, "rows": 30}}}) == (200, {})
    until = time.monotonic() + 30
    while box.run(f"kill -0 {late}")[1].get("status") == "exit status 0":
        assert time.monotonic() < until, "its time is over"
        time.sleep(0.1)
    server.api("DELETE", f"/sandboxes/{box.id}")
    return server


def watched_by(server: Server) -> int:
    """Directories that the server has the kernel watch."""
    folder = pathlib.Path(f"/proc/{server.process.pid}/fdinfo")
    count = 0
    for one in folder.iterdir():
        try:
            count += sum(line.startswith("inotify wd:") for line in one.read_text().splitlines())
        except FileNotFoundError:
            pass  # a connection, over by now
    return count


@check
def a_watch_of_one_directory_watches_that_alone(server: Server):
    box = server.create()
    assert box.run("mkdir -p top/{1..40}/deep")[1]["status"] == "exit status 0"
    before = watched_by(server)
    status, one = box.unary("filesystem.Filesystem/CreateWatcher", {"path": "top", "recursive": False})
    assert status == 200 and watched_by(server) == before + 1, (one, watched_by(server))
    status, all_below = box.unary("filesystem.Filesystem/CreateWatcher", {"path": "top", "recursive": True})
    assert status == 200 and watched_by(server) == before + 81, watched_by(server)
    assert box.run("mkdir top/new; touch top/new/below top/3/inner top/file; mv top/5 top/six; rmdir top/7/deep")[1]["status"] == "exit status 0"

    def seen(watcher: dict, wanted: set[str]) -> set[str]:
        names: set[str] = set()
        until = time.monotonic() + 30
        while not wanted <= names:
            assert time.monotonic() < until, names
            _, told = box.unary("filesystem.Filesystem/GetWatcherEvents", watcher)
            names |= {event["name"] for event in told.get("events", [])}
        return names

    assert "new/below" in seen(all_below, {"new", "3/inner", "file", "six", "7/deep"})
    assert not [name for name in seen(one, {"new", "file", "5", "six"}) if "/" in name]
    for watcher in (one, all_below):
        assert box.unary("filesystem.Filesystem/RemoveWatcher", watcher) == (200, {})
    assert watched_by(server) == before
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def files_are_composed(server: Server):
    box = server.create()
    assert box.run("mkdir parts other; for i in 1 2 3; do printf part$i > parts/$i; done; ln -s 1 parts/link")[1]["status"] == "exit status 0"

    def compose(**wish):
        status, _, body = box.ask("POST", "/files/compose", json.dumps(wish).encode(), Content_Type="application/json")
        return status, json.loads(body)

    for bad, code in (({"source_paths": [], "destination": "x"}, 400), ({"source_paths": ["parts/1"], "destination": ""}, 400),
                      ({"source_paths": ["parts/1", "parts/none"], "destination": "x"}, 404), ({"source_paths": ["parts"], "destination": "x"}, 400),
                      ({"source_paths": ["parts/link"], "destination": "x"}, 400), ({"source_paths": ["parts/1"], "destination": "parts/../parts/1"}, 400),
                      ({"source_paths": "parts/1", "destination": "x"}, 400), ({"destination": "x"}, 400)):
        status, told = compose(**bad)
        assert status == code, (bad, status, told)
    assert box.run("ls parts | wc -l; ls x 2>&1 | wc -l")[0].split() == ["4", "1"], "what is refused changes nothing"
    status, told = compose(source_paths=["parts/2", "/home/user/parts/1", "parts/3"], destination="other/whole")
    assert (status, told) == (200, {"path": "/home/user/other/whole", "name": "whole", "type": "file"}), told
    assert box.run("cat other/whole; echo; ls parts; stat -c %U other/whole")[0].split() == ["part2part1part3", "link", "user"]
    status, _, _ = server.request("POST", "/files/compose", b"{}", {**box.headers(), "X-Access-Token": "wrong"})
    assert status == 401
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def a_page_is_told_the_headers_it_may_send(server: Server):
    box = server.create()
    asked = {"Origin": "http://localhost:5173", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-access-token"}
    for headers in (asked, {**box.headers(), **asked}):
        path = "/files" if "E2b-Sandbox-Id" in headers else "/v1/sandboxes"
        status, answer, _ = server.request("OPTIONS", path, None, headers)
        allowed = {name.strip() for name in answer["access-control-allow-headers"].split(",")}
        assert status == 204 and allowed == {"authorization", "x-access-token"}, (path, status, answer)
    status, answer, _ = server.request("GET", "/v2/sandboxes", None, {"Origin": asked["Origin"], "X-API-Key": server.key})
    assert (status, answer["access-control-expose-headers"]) == (200, "*"), answer
    server.api("DELETE", f"/sandboxes/{box.id}")


# ---------------------------------------------------------------- control plane

@check
def logs_have_pages(server: Server):
    box = server.create()
    for i in range(3):
        box.run(f"echo {i}")
    until = time.monotonic() + 30
    everything = []
    while sum("exit 0" in json.dumps(one) for one in everything) < 3:  # an end is recorded a moment after it is told
        assert time.monotonic() < until, everything
        status, told = server.api("GET", f"/v2/sandboxes/{box.id}/logs")
        assert status == 200, told
        everything = told["logs"]
    assert server.api("GET", f"/v2/sandboxes/{box.id}/logs?limit=2")[1]["logs"] == everything[:2]
    backward = server.api("GET", f"/v2/sandboxes/{box.id}/logs?limit=2&direction=backward")[1]["logs"]
    newest = server.api("GET", f"/v2/sandboxes/{box.id}/logs?direction=backward")[1]["logs"]
    assert backward == newest[:2] and newest[-1] == everything[0], (backward, newest)
    assert server.api("GET", f"/v2/sandboxes/{box.id}/logs?cursor=4000000000000")[1]["logs"] == []
    assert server.api("GET", f"/v2/sandboxes/{box.id}/logs?level=error")[1]["logs"] == []
    found = server.api("GET", f"/v2/sandboxes/{box.id}/logs?search=process_started")[1]["logs"]
    assert found and all("process_started" in json.dumps(one) for one in found), found
    for bad in ("limit=1001", "limit=x", "direction=up", "level=loud", "search=" + "x" * 257, "cursor=-1"):
        assert server.api("GET", f"/v2/sandboxes/{box.id}/logs?{bad}")[0] == 400, bad
    first = server.api("GET", f"/sandboxes/{box.id}/logs?limit=1")[1]
    assert len(first["logs"]) == len(first["logEntries"]) == 1, first
    line = json.loads(first["logs"][0]["line"])  # a document in a text: clients parse it
    assert (line["level"], line["logger"], line["message"]) == ("info", "berth", first["logEntries"][0]["message"]), line
    server.api("DELETE", f"/sandboxes/{box.id}")


@check
def a_team_is_its_tenant(server: Server):
    status, teams = server.api("GET", "/teams")
    assert status == 200 and len(teams) == 1, teams
    box = server.create()
    team = teams[0]["teamID"]
    status, told = server.api("GET", f"/teams/{team}/metrics")
    assert status == 200 and told[-1]["concurrentSandboxes"] >= 1, told
    status, told = server.api("GET", f"/teams/{team}/metrics/max?metric=concurrent_sandboxes")
    assert status == 200 and told["value"] >= 1, told
    assert server.api("GET", f"/teams/{team}/metrics/max?metric=x")[0] == 400
    assert server.api("GET", f"/teams/{team}/metrics", key=other_key(server))[0] == 404
    server.api("DELETE", f"/sandboxes/{box.id}")


if __name__ == "__main__":
    sys.exit(check.main())
