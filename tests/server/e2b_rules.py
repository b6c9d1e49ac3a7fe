#!/usr/bin/env python3
"""Rules of E2B's protocol that no SDK's own calls would show broken. e2b_rules.py BERTH [CHECK]"""
import base64
import gzip
import json
import os
import sys
import threading
import time
from urllib.parse import quote

from served import Box, Checks, Server, envelope, envelopes, parse, read_all

check = Checks()
FILES = "filesystem.Filesystem/"


def as_root(box: Box, command: str) -> str:
    start = {"process": {"cmd": "/bin/bash", "args": ["-c", command]}, "stdin": False}
    _, _, body = box.stream("process.Process/Start", envelope(json.dumps(start).encode()), Authorization="Basic cm9vdDo=")
    return "".join(base64.b64decode(m["event"].get("data", {}).get("stdout", "")).decode()
                   for flags, m in envelopes(body) if not flags & 2)


def build(server: Server, name: str, **start) -> str:
    """A template of base's; its id."""
    status, made = server.api("POST", "/v3/templates", {"name": name})
    assert status == 202, made
    target = f"{made['templateID']}/builds/{made['buildID']}"
    assert server.api("POST", f"/v2/templates/{target}", {"fromTemplate": "base", "steps": [], **start})[0] == 202
    while (told := server.api("GET", f"/templates/{target}/status")[1])["status"] in ("building", "waiting"):
        time.sleep(0.05)
    assert told["status"] == "ready", told
    return made["templateID"]


def processes(box: Box) -> list[dict]:
    return box.unary("process.Process/List", {})[1].get("processes", [])


def connected(box: Box, selector: dict, **headers) -> list[dict]:
    _, _, body = box.stream("process.Process/Connect", envelope(json.dumps({"process": selector}).encode()), **headers)
    return [message.get("event", message) for _, message in envelopes(body)]


# ---------------------------------------------------------------- files

@check
def a_move_that_fails_leaves_what_was_there(server: Server):
    status, volume = server.api("POST", "/volumes", {"name": "over"})
    assert status == 201, volume
    box = server.create(volumeMounts=[{"name": "over", "path": "/mnt/v"}])
    box.run("echo old > /mnt/v/f; echo old > /dev/shm/f; echo new > /home/user/n")
    for to in ("/mnt/v/f", "/dev/shm/f"):
        status, answer = box.unary(FILES + "Move", {"source": "/home/user/n", "destination": to})
        assert status == 501, (to, status, answer)
        assert box.run(f"cat {to} /home/user/n")[0] == "old\nnew\n", to
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    assert server.api("DELETE", "/volumes/" + volume["volumeID"])[0] == 204


@check
def a_move_is_a_rename(server: Server):
    box = server.create()
    box.run("cd; echo 1 > one; echo 2 > two; mkdir -p tree/below empty full/x; ln -s one link")

    def move(source: str, destination: str) -> int:
        return box.unary(FILES + "Move", {"source": source, "destination": destination})[0]

    assert move("one", "two") == 200
    assert box.run("cat two; ls")[0] == "1\nempty\nfull\nlink\ntree\ntwo\n"
    assert move("two", "two") == 200 and box.run("cat two")[0] == "1\n"
    assert move("none", "two") == 404 and box.run("cat two")[0] == "1\n"
    assert move("tree", "full") != 200 and move("two", "full") != 200 and move("tree", "two") != 200
    assert box.run("cat two; ls full tree")[0] == "1\nfull:\nx\n\ntree:\nbelow\n"
    assert move("tree", "empty") == 200 and box.run("ls empty; ls -d tree")[0] == "below\n"
    assert move("two", "link") == 200 and box.run("test ! -L link && cat link")[0] == "1\n"
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def a_move_makes_the_way_for_the_user_or_not_at_all(server: Server):
    if os.geteuid() != 0:
        return  # there is no root inside
    box = server.create()

    def move(source: str, destination: str) -> int:
        return box.unary(FILES + "Move", {"source": source, "destination": destination})[0]

    # Out of another's directory: whoever may take it from there may not write where it is to go.
    as_root(box, "echo 1 > /tmp/g; chown user /tmp/g; install -d -o 1234 -g 1234 -m 755 /opt/dd; echo 2 > /opt/dd/f; mkdir /opt/there")
    assert move("/tmp/g", "/9/a/g") == 200
    assert as_root(box, "stat -c %U:%a /9 /9/a; cat /9/a/g").split() == ["user:755", "user:755", "1"]
    assert move("/opt/dd/f", "/8/a/f") == 403 and as_root(box, "ls -d /8 2>&1; cat /opt/dd/f").endswith("2\n")
    assert move("/opt/dd/f", "/opt/there/a/f") == 403 and as_root(box, "ls -d /8; ls -A /opt/there; ls /opt") == "dd\nthere\n"
    assert move("/opt/none", "/8/a/f") == 404 and move("/9/a/g", "/9/a/g/b/c") != 200
    assert as_root(box, "ls -d /8; find /9 /home/user -name b; cat /9/a/g") == "1\n"
    assert move("/9/a/g", "below/x/g") == 200 and box.run("stat -c %U below below/x; cat below/x/g")[0] == "user\nuser\n1\n"
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def what_is_made_as_root_is_the_users(server: Server):
    if os.geteuid() != 0:
        return  # there is no root inside
    box = server.create()

    def put(path: str, **headers) -> int:
        return box.ask("POST", f"/files?path={path}", b"x", Content_Type="application/octet-stream", **headers)[0]

    def owners(*paths: str) -> str:
        return as_root(box, "stat -c %U:%G:%a " + " ".join(paths)).replace("\n", " ").strip()

    as_root(box, "echo kept > /opt/old; chmod 644 /opt/old; mkdir -m 755 /opt/there; ln -s /opt/there /tmp/way; chown -h user /tmp/way; ln -s /opt/aim /opt/link")
    assert put("/0/below/f") == 200
    assert owners("/0", "/0/below", "/0/below/f") == "user:user:755 user:user:755 user:user:644"
    assert put("/opt/f") == 200 and owners("/opt", "/opt/f") == "root:root:755 user:user:644"
    assert put("/opt/old") == 200 and owners("/opt/old") == "root:root:644", "what was there is whose it was"
    assert put("/opt/g", X_Metadata_k="v") == 200 and owners("/opt/g") == "user:user:644"
    assert put("/opt/r", Authorization="Basic cm9vdDo=") == 200 and owners("/opt/r") == "root:root:644"
    assert box.unary(FILES + "MakeDir", {"path": "/1/a/b"})[0] == 200
    assert owners("/1", "/1/a", "/1/a/b") == "user:user:755 user:user:755 user:user:755"
    assert box.unary(FILES + "MakeDir", {"path": "/opt/there/d"})[0] == 200
    assert owners("/opt/there", "/opt/there/d") == "root:root:755 user:user:755"
    # By way of a link the directory it leads to stays root's.
    assert put("/tmp/way/f") == 200 and owners("/opt/there", "/opt/there/f") == "root:root:755 user:user:644"
    assert put("/opt/link") != 200 and as_root(box, "ls /opt/aim 2>/dev/null") == "", "a link to nothing is not followed"
    as_root(box, "echo moved > /opt/from")
    assert box.unary(FILES + "Move", {"source": "/opt/from", "destination": "/2/to"})[0] == 200
    assert owners("/2/to") == "root:root:644"
    assert put("/opt/p1") == put("/opt/p2") == 200
    wish = json.dumps({"source_paths": ["/opt/p1", "/opt/p2"], "destination": "/opt/both"}).encode()
    assert box.ask("POST", "/files/compose", wish, Content_Type="application/json")[0] == 200
    assert owners("/opt/both") == "user:user:644"
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def what_only_root_may_read_is_watched(server: Server):
    if os.geteuid() != 0:
        return  # there is no root inside
    box = server.create()
    as_root(box, "mkdir -m 700 /opt/closed")
    assert box.unary(FILES + "ListDir", {"path": "/opt/closed"})[0] == 200
    status, made = box.unary(FILES + "CreateWatcher", {"path": "/opt/closed"})
    assert status == 200, made
    as_root(box, "touch /opt/closed/f")
    seen = []
    while not seen:
        status, told = box.unary(FILES + "GetWatcherEvents", {"watcherId": made["watcherId"]})
        assert status == 200, told
        seen = told.get("events", [])
    assert seen[0]["name"] == "f" and seen[0]["type"] == "EVENT_TYPE_CREATE", seen
    assert box.unary(FILES + "RemoveWatcher", {"watcherId": made["watcherId"]})[0] == 200
    _, _, body = box.stream(FILES + "WatchDir", envelope(json.dumps({"path": "/opt/closed"}).encode()), Connect_Timeout_Ms="200")
    assert envelopes(body)[0][1] == {"start": {}}, body
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def a_watched_directory_that_is_removed_is_told(server: Server):
    box = server.create()
    for deep in (False, True):
        box.run("mkdir -p /tmp/watched/below")
        status, made = box.unary(FILES + "CreateWatcher", {"path": "/tmp/watched", "recursive": deep})
        assert status == 200, made

        def events() -> list[tuple]:
            status, told = box.unary(FILES + "GetWatcherEvents", {"watcherId": made["watcherId"]})
            assert status == 200, told
            return [(one["name"], one["type"]) for one in told.get("events", [])]

        body = envelope(json.dumps({"path": "/tmp/watched", "recursive": deep}).encode())
        lines = {"Host": "127.0.0.1", "Connection": "close", "Content-Type": "application/connect+json", "Content-Length": str(len(body)),
                 "Connect-Timeout-Ms": "2500", "Keepalive-Ping-Interval": "1", **box.headers()}
        with server.connect() as s:
            s.sendall((f"POST /{FILES}WatchDir HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode() + body)
            seen = b""
            while b'"start"' not in seen:
                seen += s.recv(65536)
            box.run("rm -r /tmp/watched; mkdir /tmp/watched; touch /tmp/watched/f")
            *told, (flags, end) = envelopes(parse(seen + read_all(s))[2])
        streamed = [(one["filesystem"]["name"], one["filesystem"]["type"]) for _, one in told if "filesystem" in one]
        polled = events()
        while (".", "EVENT_TYPE_REMOVE") not in polled:
            polled += events()
        for seen in (streamed, polled):
            assert ("below", "EVENT_TYPE_REMOVE") in seen and seen[-1] == (".", "EVENT_TYPE_REMOVE") and seen.count(seen[-1]) == 1, (deep, seen)
        assert flags & 2 and end["error"]["code"] == "deadline_exceeded" and {"keepalive": {}} in [one for _, one in told], (told, end)
        assert events() == events() == [], "of another directory in its place nothing is told"
        assert box.unary(FILES + "RemoveWatcher", {"watcherId": made["watcherId"]})[0] == 200
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def a_watched_directory_that_is_renamed_is_told(server: Server):
    box = server.create()
    for deep in (False, True):
        box.run("mkdir -p /tmp/watched/below")
        status, made = box.unary(FILES + "CreateWatcher", {"path": "/tmp/watched", "recursive": deep, "includeEntry": True})
        assert status == 200, made
        box.run("mv /tmp/watched/below /tmp/watched/under; mv /tmp/watched /tmp/elsewhere; touch /tmp/elsewhere/f")
        seen: list[dict] = []
        until = time.monotonic() + 30
        while not [one for one in seen if one["name"] == "f"]:
            assert time.monotonic() < until, seen
            status, told = box.unary(FILES + "GetWatcherEvents", {"watcherId": made["watcherId"]})
            assert status == 200, told
            seen += told.get("events", [])
        assert [one for one in seen if one["name"] == "."] == [{"name": ".", "type": "EVENT_TYPE_RENAME"}], (deep, seen)
        names = [(one["name"], one["type"]) for one in seen]
        assert names[:3] == [("below", "EVENT_TYPE_RENAME"), ("under", "EVENT_TYPE_CREATE"), (".", "EVENT_TYPE_RENAME")], (deep, seen)
        assert box.unary(FILES + "RemoveWatcher", {"watcherId": made["watcherId"]})[0] == 200
        box.run("rm -r /tmp/elsewhere")
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def root_reaches_what_others_have_closed(server: Server):
    if os.geteuid() != 0:
        return  # there is no root inside
    box = server.create()
    root = "Basic cm9vdDo="
    closed = {"/home/user/closed": 1000, "/opt/closed": 1234}
    for directory, owner in closed.items():
        as_root(box, f"install -d -o {owner} -g {owner} -m 700 {directory}; cd {directory}; echo mine > f; chown {owner}:{owner} f; chmod 600 f")

    def call(method: str, **message) -> int:
        return box.ask("POST", "/" + FILES + method, json.dumps(message).encode(), Content_Type="application/json", Authorization=root)[0]

    def put(path: str) -> int:
        return box.ask("POST", f"/files?path={path}", b"new", Content_Type="application/octet-stream", Authorization=root)[0]

    for directory, owner in closed.items():
        status, _, body = box.ask("GET", f"/files?path={directory}/f", Authorization=root)
        assert (status, body) == (200, b"mine\n"), (directory, status, body)
        assert call("ListDir", path=directory, depth=1) == call("Stat", path=directory + "/f") == 200
        assert call("CreateWatcher", path=directory) == 200
        assert put(directory + "/f") == put(directory + "/g") == call("MakeDir", path=directory + "/d") == 200
        assert call("Move", source=directory + "/f", destination=directory + "/h") == 200
        told = as_root(box, f"cd {directory}; cat h; stat -c ' %u:%g:%a' h g d").replace("\n", "")
        assert told == f"new {owner}:{owner}:600 0:0:644 0:0:755", told
        assert call("Remove", path=directory + "/none") == 200 and call("Stat", path=directory + "/none") == 404
        for name in ("d", "g", "h"):
            assert call("Remove", path=f"{directory}/{name}") == 200 and call("Stat", path=f"{directory}/{name}") == 404
    # In root's directory, with something in it: that needs root and its owner, and nothing of it goes.
    assert put("/opt/closed/kept") == 200 and call("Remove", path="/opt/closed") == 403 and call("Stat", path="/opt/closed/kept") == 200
    # One owner's closed directory in another's: nobody of the two sees both.
    as_root(box, "install -d -o 1234 -g 1234 -m 700 /opt/a; install -d -o 1000 -g 1000 -m 700 /opt/a/b; touch /opt/a/b/f")
    assert call("Stat", path="/opt/a/b") == 200 and call("Stat", path="/opt/a/b/f") == 403
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def permissions_begin_with_what_it_is(server: Server):
    box = server.create()
    box.run("cd; mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; chmod 600 pipe socket; mkdir -m 1777 d; ln -s pipe link")
    entries = {one["name"]: one["permissions"] for one in box.unary(FILES + "ListDir", {"path": "/home/user"})[1]["entries"]}
    wanted = {"pipe": "prw-------", "socket": "Srw-------", "d": "dtrwxrwxrwx", "link": "Lrwxrwxrwx"}
    assert {name: entries[name] for name in wanted} == wanted, entries
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def a_link_is_told_by_where_it_ends(server: Server):
    box = server.create()
    box.run("mkdir -p /tmp/real/sub /tmp/way; cd /tmp; echo right > real/f; echo wrong > f; ln -s /tmp/real d; ln -s /tmp/d/f l; ln -s real/sub s; ln -s s/../f up;"
            "ln -s ../d way/back; ln -s way/back/f far; ln -s none broken; ln -s loop loop; ln -s ../../../.. top; ln -s ./d//./f dots;"
            "ln -s f c0; for i in $(seq 1 45); do ln -s c$((i - 1)) c$i; done")

    def target(path: str) -> str:
        status, told = box.unary(FILES + "Stat", {"path": path})
        assert status == 200, told
        return told["entry"]["symlinkTarget"]

    for name in ("l", "up", "far", "dots"):
        assert target("/tmp/" + name) == "/tmp/real/f" == box.run(f"realpath /tmp/{name}")[0].strip(), name
    assert target("/tmp/d") == target("/tmp/way/back") == "/tmp/real" and target("/tmp/top") == "/"
    assert target("/bin/sh") == box.run("realpath /bin/sh")[0].strip()
    for name in ("broken", "loop", "c45"):
        assert target("/tmp/" + name) == "/tmp/" + name
    assert target("/tmp/c39") == "/tmp/f"
    box.run("cd /tmp/real; ln -s f beside")
    entries = {one["name"]: one.get("symlinkTarget") for one in box.unary(FILES + "ListDir", {"path": "/tmp/d"})[1]["entries"]}
    assert entries == {"f": None, "sub": None, "beside": "/tmp/real/f"}, entries
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def whoever_takes_gzip_alone_gets_it(server: Server):
    box = server.create()
    box.run("seq 200000 > n; : > empty")
    plain = "".join(f"{i}\n" for i in range(1, 200001)).encode()

    def get(path: str, accept: str, **more):
        return box.ask("GET", f"/files?path={path}", Accept_Encoding=accept, **more)

    for accept in ("gzip;q=1, identity;q=0", "GZIP, *;q=0", "identity;q=0, *;q=0.5"):
        status, headers, body = get("n", accept)
        assert status == 200 and headers["content-encoding"] == "gzip" and gzip.decompress(body) == plain, (accept, status, headers)
        status, headers, body = get("n", accept, Range="bytes=0-3")
        assert status == 200 and gzip.decompress(body) == plain, (status, headers)
    for accept in ("gzip", "gzip, deflate", "", "gzip;q=0"):
        status, headers, body = get("n", accept)
        assert status == 200 and "content-encoding" not in headers and body == plain, (accept, status)
    assert get("empty", "gzip, identity;q=0")[0::2] == (200, b"")
    for accept in ("identity;q=0", "gzip;q=0, *;q=0", "br, identity;q=0"):
        assert get("n", accept)[0] == 406, accept
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


# ---------------------------------------------------------------- snapshots

START = "echo begun >> /home/user/starts; exec sleep 1000"
READY = "test -s /home/user/starts"


def snapshot(box: Box, **body) -> str:
    if os.geteuid() != 0:  # nothing that runs can be frozen
        assert box.server.api("POST", f"/sandboxes/{box.id}/pause", {"memory": False})[0] in (204, 409)  # or paused already
    status, taken = box.server.api("POST", f"/sandboxes/{box.id}/snapshots", body)
    assert status == 201, taken
    return taken["snapshotID"]


def starts(box: Box) -> int:
    return int(box.run("grep -c . /home/user/starts")[0])


@check
def what_a_template_gives_is_there_after_a_snapshot(server: Server):
    steps = [{"type": "ENV", "args": ["GIVEN", "by template"]}, {"type": "RUN", "args": ["mkdir -p /srv/work; chown user /srv/work", "root"]},
             {"type": "WORKDIR", "args": ["/srv/work"]}] if os.geteuid() == 0 else [
                 {"type": "ENV", "args": ["GIVEN", "by template"]}, {"type": "WORKDIR", "args": ["/home/user"]}]
    template = build(server, "giver", steps=steps, startCmd=START, readyCmd=READY)
    box = server.create(templateID="giver", envVars={"MADE": "secret"})
    look = 'echo "$GIVEN,$MADE,$PWD,$(id -un)"'
    seen, begun = box.run(look)[0], starts(box)
    assert seen.startswith("by template,secret,"), seen
    assert [one.get("tag") for one in processes(box)] == ["startCmd"], processes(box)
    taken = snapshot(box, name="kept")
    for alive in (True, False):
        if not alive:
            assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
            server.kill()
            with open(os.path.join(server.data, "e2b", "origins", "i" + "0" * 20 + ".json"), "w") as left:
                left.write("as a kill before a snapshot leaves it")
            server = Server(server.program, server.data)
        twin = server.create(templateID=taken)
        assert twin.run(look)[0] == seen.replace("secret", ""), "what a client gave is not handed on"
        assert starts(twin) == begun + 1, alive
        assert [one.get("tag") for one in processes(twin)] == ["startCmd"]
        assert server.api("DELETE", f"/sandboxes/{twin.id}")[0] == 204
    status, listed = server.api("GET", f"/snapshots?sandboxID={box.id}")
    assert status == 200 and [one["snapshotID"] for one in listed] == [taken], listed
    origins = os.path.join(server.data, "e2b", "origins")
    assert os.listdir(origins) == [box.id + ".json"]
    with open(os.path.join(origins, box.id + ".json"), encoding="utf-8") as kept:
        assert "secret" not in kept.read()
    assert server.api("DELETE", "/templates/" + quote(taken, safe=""))[0] == 204
    assert os.listdir(origins) == []
    assert server.api("DELETE", f"/templates/{template}")[0] == 204
    return server


@check
def a_start_command_runs_where_processes_begin_anew(server: Server):
    template = build(server, "starter", startCmd=START, readyCmd=READY)
    box = server.create(templateID="starter")
    begun = starts(box)
    status, forks = server.api("POST", f"/sandboxes/{box.id}/fork", {"count": 2, "timeout": 60})
    if os.geteuid() != 0 and status == 501:  # nothing that runs can be frozen
        forks = []
    assert status == 201 or forks == [], forks
    for one in forks:
        made = one["sandbox"]
        twin = Box(server, made["sandboxID"], made["envdAccessToken"])
        assert starts(twin) == begun + 1 and [p.get("tag") for p in processes(twin)] == ["startCmd"]
        assert server.api("DELETE", f"/sandboxes/{twin.id}")[0] == 204
    for turn in (1, 2):
        assert server.api("POST", f"/sandboxes/{box.id}/pause", {"memory": False})[0] == 204
        assert server.api("POST", f"/v2/sandboxes/{box.id}/connect", {})[0] == 201
        assert starts(box) == begun + turn
        assert [p.get("tag") for p in processes(box)] == ["startCmd"]
    if server.api("POST", f"/sandboxes/{box.id}/pause", {})[0] == 204:  # with memory, where there is a freezer
        assert server.api("POST", f"/v2/sandboxes/{box.id}/connect", {})[0] == 201
        assert starts(box) == begun + 2
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    assert server.api("DELETE", f"/templates/{template}")[0] == 204


@check
def code_runs_in_what_is_made_from_a_snapshot(server: Server):
    def runs(one: Box) -> bytes:
        return server.request("POST", "/execute", json.dumps({"code": "6 * 7"}).encode(),
                              {**one.headers(49999), "Content-Type": "application/json"})[2]

    box = server.create(templateID="code-interpreter-v1")
    assert b'"42"' in runs(box)
    taken = snapshot(box)
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    twin = server.create(templateID=taken)
    assert b'"42"' in runs(twin), runs(twin)
    assert server.api("DELETE", f"/sandboxes/{twin.id}")[0] == 204
    assert server.api("DELETE", "/templates/" + quote(taken, safe=""))[0] == 204


@check
def a_tag_is_no_uuid(server: Server):
    uuid = "01234567-89ab-cdef-0123-456789ABCDEF"
    assert server.api("POST", "/v3/templates", {"name": "t:" + uuid})[0] == 400
    assert server.api("POST", "/v3/templates", {"name": "t", "tags": [uuid]})[0] == 400
    template = build(server, "tagged")
    assert server.api("POST", "/templates/tags", {"target": "tagged", "tags": [uuid]})[0] == 400
    assert server.api("POST", "/templates/tags", {"target": "tagged", "tags": [uuid[:-1]]})[0] == 201
    assert server.api("DELETE", f"/templates/{template}")[0] == 204


@check
def templates_come_in_pages(server: Server):
    made = [build(server, f"page-{i}") for i in range(2)]
    seen, token = [], ""
    for _ in range(3):
        status, headers, body = server.request("GET", f"/v2/templates?limit=1{token}", headers={"X-API-Key": server.key})
        assert status == 200 and len(page := json.loads(body)) == 1, body
        seen.append(page[0]["templateID"])
        token = "&nextToken=" + headers.get("x-next-token", "")
    assert token == "&nextToken=" and seen == [made[1], made[0], "base"], (seen, token)
    assert server.api("GET", "/v2/templates?limit=0")[0] == server.api("GET", "/v2/templates?nextToken=x")[0] == 400
    assert len(server.api("GET", "/templates?limit=1")[1]) == len(server.api("GET", "/v2/templates")[1]) == 3
    for one in made:
        assert server.api("DELETE", f"/templates/{one}")[0] == 204


@check
def what_a_sandbox_uses_is_told(server: Server):
    box = server.create()

    def metrics() -> dict:
        status, _, body = box.ask("GET", "/metrics")
        assert status == 200, body
        return json.loads(body)

    told, files = metrics(), os.statvfs(server.data)
    assert told["disk_total"] == files.f_blocks * files.f_frsize, (told, files)
    used = (files.f_blocks - files.f_bfree) * files.f_frsize
    assert abs(told["disk_used"] - used) < 1 << 30, (told, used)
    assert 0 <= told["mem_cache"] and 0 <= told["mem_used"] < told["mem_total"], told
    # Without a group of its own nobody can say whose memory it is.
    if os.geteuid() == 0:
        s, _ = box.start("(head -c 67108864 /dev/zero; sleep 1000) | tail")
        until = time.monotonic() + 30
        while (told := metrics())["mem_used"] < 60 << 20:
            assert time.monotonic() < until, told
            time.sleep(0.2)
        assert told["mem_used"] < 90 << 20, told
        s.close()
    now = int(time.time())
    for unit in (1, 1000):  # clients exist that mean milliseconds
        status, seen = server.api("GET", f"/sandboxes/{box.id}/metrics?start={(now - 600) * unit}&end={(now + 600) * unit}")
        assert status == 200 and seen, (unit, status, seen)
        for empty in (f"end={(now - 600) * unit}", f"start={(now + 600) * unit}"):
            assert server.api("GET", f"/sandboxes/{box.id}/metrics?{empty}") == (200, []), (unit, empty)
    other = server.create()
    other.ask("GET", "/metrics")
    for ids in (f"sandbox_ids={box.id},{other.id}", f"sandbox_ids={box.id}&sandbox_ids={other.id}"):
        assert server.api("GET", f"/sandboxes/metrics?{ids}")[1]["sandboxes"].keys() == {box.id, other.id}, ids
    for one in (box, other):
        assert server.api("DELETE", f"/sandboxes/{one.id}")[0] == 204


@check
def states_are_listed_however_they_are_written(server: Server):
    running, paused = server.create(metadata={"states": "x"}), server.create(metadata={"states": "x"})
    status, _ = server.api("POST", f"/sandboxes/{paused.id}/pause", {"memory": False})
    assert status == 204, status
    for states in ("", "&state=running,paused", "&state=running&state=paused", "&state=paused&state=running"):
        listed = {one["sandboxID"] for one in server.api("GET", f"/v2/sandboxes?metadata=states%3Dx{states}")[1]}
        assert listed == {running.id, paused.id}, (states, listed)
    assert server.api("GET", "/v2/sandboxes?state=running&state=gone")[0] == 400
    for one in (running, paused):
        assert server.api("DELETE", f"/sandboxes/{one.id}")[0] == 204


# ---------------------------------------------------------------- processes

@check
def who_comes_while_it_is_paused_wakes_it(server: Server):
    if os.geteuid() != 0:
        return  # nobody else has a freezer
    box = server.create(autoPause=True, autoResume={"enabled": True})
    start = envelope(json.dumps({"process": {"cmd": "/bin/true"}}).encode())
    ends: list = []
    over = threading.Event()

    def come() -> None:
        while not over.is_set():
            status, _, body = box.stream("process.Process/Start", start)
            frames = envelopes(body)
            # To its end, or cut by the pause; that it was paused is no fault of the command's.
            ends.append((status or 200, frames[-1][1] if frames and frames[-1][0] & 2 else {}))

    threads = [threading.Thread(target=come) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        assert server.api("POST", f"/sandboxes/{box.id}/pause", {})[0] in (204, 409)
        time.sleep(0.05)
    over.set()
    for thread in threads:
        thread.join(60)
    wrong = [one for one in ends if one != (200, {})]
    assert len(ends) > 20 and not wrong, wrong[:3]
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def a_second_process_of_a_tag_hides_no_first(server: Server):
    box = server.create()
    first, old = box.start("sleep 1000", tag="t")
    second, new = box.start("sleep 1001", tag="t")
    assert {one["pid"] for one in processes(box)} == {old, new}
    assert box.unary("process.Process/SendSignal", {"process": {"tag": "t"}, "signal": "SIGNAL_SIGKILL"})[0] == 200
    while len(left := processes(box)) != 1:
        time.sleep(0.02)
    assert left[0]["pid"] == old, (left, old, new)
    assert box.unary("process.Process/SendSignal", {"process": {"pid": old}, "signal": "SIGNAL_SIGKILL"})[0] == 200
    first.close(), second.close()
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def an_exited_process_is_told_as_such_alone(server: Server):
    box = server.create()
    wish = {"process": {"cmd": "/bin/sh", "args": ["-c", "echo printed; exit 3"]}, "stdin": False, "tag": "over"}
    _, _, body = box.stream("process.Process/Start", envelope(json.dumps(wish).encode()))
    pid = envelopes(body)[0][1]["event"]["start"]["pid"]
    for selector in ({"pid": pid}, {"tag": "over"}):
        start_event, end_event, rest = connected(box, selector)
        assert start_event == {"start": {"pid": pid}} and end_event["end"]["exitCode"] == 3 and rest == {}, (start_event, end_event, rest)
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def a_relative_directory_begins_at_the_home(server: Server):
    template = build(server, "placed", steps=[{"type": "WORKDIR", "args": ["/tmp"]}])
    box = server.create(templateID="placed")
    box.run("mkdir -p /home/user/below /tmp/below")

    def runs_in(**where) -> str:
        wish = {"process": {"cmd": "/bin/pwd", "args": [], **where}, "stdin": False}
        _, _, body = box.stream("process.Process/Start", envelope(json.dumps(wish).encode()))
        return "".join(base64.b64decode(m["event"].get("data", {}).get("stdout", "")).decode() for f, m in envelopes(body) if not f & 2).strip()

    assert runs_in() == "/tmp"
    assert runs_in(cwd="below") == "/home/user/below" and runs_in(cwd="~/below") == "/home/user/below"
    assert box.unary(FILES + "Stat", {"path": ""})[1]["entry"]["path"] == "/tmp", "no path is where commands begin"
    assert [one["path"] for one in box.unary(FILES + "ListDir", {})[1]["entries"]] == ["/tmp/below"]
    assert box.unary(FILES + "Stat", {"path": "below"})[1]["entry"]["path"] == "/home/user/below"
    assert b"'/tmp' is a directory" in box.ask("GET", "/files")[2]
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    assert server.api("DELETE", f"/templates/{template}")[0] == 204


if __name__ == "__main__":
    sys.exit(check.main())
