#!/usr/bin/env python3
"""hostile.py PROGRAM [PART OF A NAME]: backend e2b with servers that are busy, gone, or lie."""
import base64
import json
import struct
import sys
import tempfile
import time
import traceback

from cloud import Liar, Person, environment, respond

checks = []
MADE = {"sandboxID": "i" + "0" * 20, "templateID": "base", "clientID": "x", "envdVersion": "0.6.13",
        "envdAccessToken": "token", "domain": None}


def check(work):
    checks.append(work)
    return work


def envelope(document, flags: int = 0) -> bytes:
    payload = document if isinstance(document, bytes) else json.dumps(document).encode()
    return struct.pack(">BI", flags, len(payload)) + payload


def chunked(connection, *pieces: bytes, end: bool = True) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\n"
                       b"Transfer-Encoding: chunked\r\n\r\n")
    for piece in pieces:
        connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
    if end:
        connection.sendall(b"0\r\n\r\n")


class Cloud:
    """A control plane that makes one sandbox, and a daemon that answers a Start as `stream` says."""

    def __init__(self, stream=None, create=None):
        self.metadata, self.made = {}, False
        self.stream, self.create = stream, create
        self.liar = Liar(self.answer)

    def answer(self, connection, request, head, body):
        method, path, _ = request.split()
        if method == "POST" and path == "/v2/sandboxes":
            if self.create and self.create(connection):
                return
            self.metadata, self.made = json.loads(body)["metadata"], True
            respond(connection, 201, MADE)
        elif path.startswith("/v2/sandboxes?"):
            listed = {**MADE, "state": "running", "startedAt": "2026-01-01T00:00:00Z", "metadata": self.metadata}
            respond(connection, 200, [listed] if self.made else [])
        elif path.endswith("/connect"):
            respond(connection, 200, MADE)
        elif method == "DELETE":
            self.made = False
            respond(connection, 204)
        elif path.startswith("/sandboxes/"):
            if self.made:
                respond(connection, 200, {**MADE, "state": "running", "startedAt": "2026-01-01T00:00:00Z",
                                          "metadata": self.metadata})
            else:
                respond(connection, 404, {"code": 404, "message": "not found"})
        elif path == "/health":
            respond(connection, 204 if self.made else 502)
        else:
            self.stream(connection, path, body)


def person(program: str, place: str, server) -> Person:
    return Person(program, tempfile.mkdtemp(dir=place) + "/client", environment(server))


START = envelope({"event": {"start": {"pid": 42}}})
END = envelope({"event": {"end": {"exited": True, "status": "exit status 0"}}}) + envelope({}, 2)


def after_create(program, place, stream):
    """One command on a server whose daemon does `stream`."""
    cloud = Cloud(stream)
    me = person(program, place, cloud.liar)
    box = json.loads(me.well("create", "--backend", "e2b", "--json"))["id"]
    begun = time.monotonic()
    code, out, err = me.run("exec", box, "--", "true", timeout=60)
    cloud.liar.close()
    return code, out, err, time.monotonic() - begun


@check
def mounts_are_refused_before_any_call(program, place):
    cloud = Cloud()
    me = person(program, place, cloud.liar)
    code, _, err = me.run("create", "--backend", "e2b", "--mount", f"{place}:/mnt/x")
    assert code == 6 and "/mnt/x" in err, (code, err)
    code, _, err = me.run("create", "--backend", "e2b", "--workspace", place)
    assert code == 6, (code, err)
    assert cloud.liar.asked == [], cloud.liar.asked


@check
def what_is_not_held_is_refused_before_any_call(program, place):
    cloud = Cloud()
    me = person(program, place, cloud.liar)
    for words in (["--policy", "read-only"], ["--memory", "64M"], ["--template", "tar:/nowhere.tar"]):
        code, _, err = me.run("create", "--backend", "e2b", *words)
        assert code in (3, 6), (words, code, err)
    assert cloud.liar.asked == [], cloud.liar.asked


@check
def a_busy_server_is_asked_again_when_it_says(program, place):
    refused = []

    def busy(connection):
        if len(refused) == 2:
            return False
        refused.append(time.monotonic())
        respond(connection, 429, {"code": 429, "message": "too many"}, Retry_After="1")
        return True

    cloud = Cloud(create=busy)
    me = person(program, place, cloud.liar)
    me.well("create", "--backend", "e2b")
    assert len(refused) == 2 and refused[1] - refused[0] >= 0.9, refused


@check
def a_server_that_stays_busy_is_an_error(program, place):
    cloud = Cloud(create=lambda c: respond(c, 429, {"code": 429, "message": "too many"}, Retry_After="0") or True)
    me = person(program, place, cloud.liar)
    code, _, err = me.run("create", "--backend", "e2b")
    assert code != 0 and "too many" in err, (code, err)
    assert 2 <= sum(r.startswith("POST /v2/sandboxes ") for r in cloud.liar.asked) <= 5, cloud.liar.asked


@check
def a_create_whose_answer_is_lost_is_not_sent_twice(program, place):
    cloud = Cloud(create=lambda c: c.close() or True)
    me = person(program, place, cloud.liar)
    code, _, _ = me.run("create", "--backend", "e2b")
    assert code != 0
    assert sum(r.startswith("POST /v2/sandboxes ") for r in cloud.liar.asked) == 1, cloud.liar.asked


@check
def a_sandbox_without_a_token_is_not_taken(program, place):
    def open_to_all(connection):
        respond(connection, 201, {**MADE, "envdAccessToken": None})
        return True

    cloud = Cloud(create=open_to_all)
    me = person(program, place, cloud.liar)
    code, _, err = me.run("create", "--backend", "e2b")
    assert code == 5 and "token" in err, (code, err)
    assert any(r.startswith("DELETE /sandboxes/") for r in cloud.liar.asked), cloud.liar.asked


@check
def an_id_that_leads_elsewhere_is_not_taken(program, place):
    def odd(connection):
        respond(connection, 201, {**MADE, "sandboxID": "../../etc"})
        return True

    code, _, err = person(program, place, Cloud(create=odd).liar).run("create", "--backend", "e2b")
    assert code != 0, err


@check
def a_header_in_a_token_is_not_taken(program, place):
    def odd(connection):
        respond(connection, 201, {**MADE, "envdAccessToken": "x\r\nX-Evil: 1"})
        return True

    code, _, err = person(program, place, Cloud(create=odd).liar).run("create", "--backend", "e2b")
    assert code != 0, err


@check
def a_server_without_the_newer_connect_is_asked_by_the_older(program, place):
    cloud = Cloud(lambda connection, path, body: chunked(connection, START, END))
    older = cloud.answer

    def answer(connection, request, head, body):
        if request.split()[1].startswith("/v2/") and request.split()[1].endswith("/connect"):
            return respond(connection, 404, {"code": 404, "message": "page not found"})
        older(connection, request, head, body)

    cloud.liar.answer = answer
    me = person(program, place, cloud.liar)
    box = json.loads(me.well("create", "--backend", "e2b", "--json"))["id"]
    me.well("stop", box)
    me.well("start", box)
    assert any(one.startswith("POST /sandboxes/") and "/connect" in one for one in cloud.liar.asked), cloud.liar.asked
    cloud.liar.close()


@check
def a_command_runs_on_a_server_that_does_not_lie(program, place):
    data = envelope({"event": {"data": {"stdout": base64.b64encode(b"hi\n").decode()}}})
    # Frames that come in single bytes, and several in one piece.
    pieces = [bytes([b]) for b in START + data] + [END]
    code, out, err, _ = after_create(program, place, lambda c, p, b: chunked(c, *pieces))
    assert (code, out) == (0, "hi\n"), (code, out, err)


@check
def an_envelope_without_bounds_is_refused(program, place):
    code, _, err, took = after_create(program, place, lambda c, p, b: chunked(
        c, START, struct.pack(">BI", 0, 0xFFFFFFF0) + b"x" * 1000, end=False))
    assert code == 125 and "envelope" in err and took < 20, (code, err, took)


@check
def a_compressed_or_unknown_envelope_is_refused(program, place):
    for flags in (1, 0x40):
        code, _, err, took = after_create(program, place, lambda c, p, b: chunked(
            c, START, envelope(b"{}", flags), end=False))
        assert code == 125 and "envelope" in err and took < 20, (flags, code, err, took)


@check
def a_message_that_is_no_json_is_refused(program, place):
    code, _, err, took = after_create(program, place, lambda c, p, b: chunked(c, START, envelope(b"\xff{"), end=False))
    assert code == 125 and took < 20, (code, err, took)


@check
def an_end_that_is_no_end_is_never_a_success(program, place):
    for end in ({"exited": True, "exitCode": 70000}, {"exited": False, "status": "signal: invented"}, {}):
        def stream(c, p, b, end=end):
            chunked(c, START, envelope({"event": {"end": end}}), envelope({}, 2))
        code, _, err, _ = after_create(program, place, stream)
        assert code == 125, (end, code, err)


@check
def what_comes_instead_of_a_start_is_an_error(program, place):
    code, _, err, _ = after_create(program, place, lambda c, p, b: respond(c, 200, {}))
    assert code == 125, (code, err)
    code, _, err, _ = after_create(program, place, lambda c, p, b: c.sendall(b"SSH-2.0-x\r\n"))
    assert code == 125, (code, err)


@check
def output_before_the_start_is_refused(program, place):
    data = envelope({"event": {"data": {"stdout": "YQ=="}}})
    code, out, err, _ = after_create(program, place, lambda c, p, b: chunked(c, data, START, END))
    assert code == 125 and out == "", (code, out, err)


@check
def a_list_without_end_is_refused(program, place):
    page = [0]

    def endless(connection, request, head, body):
        page[0] += 1
        listed = {**MADE, "state": "running", "startedAt": "2026-01-01T00:00:00Z", "metadata": {"x": "y" * 900}}
        respond(connection, 200, [listed] * 100, X_Next_Token=str(page[0] // 2))

    liar = Liar(endless)
    code, _, err = person(program, place, liar).run("create", "--backend", "e2b", timeout=60)
    assert code != 0 and "without end" in err, (code, err)


@check
def a_server_that_goes_away_is_never_a_success(program, place):
    def stream(connection, path, body):
        if path.endswith("/Start"):
            cloud.liar.close()
            chunked(connection, START, envelope({"event": {"data": {"stdout": "YQ=="}}}), end=False)

    cloud = Cloud(stream)
    me = person(program, place, cloud.liar)
    box = json.loads(me.well("create", "--backend", "e2b", "--json"))["id"]
    code, out, err = me.run("exec", box, "--", "true", timeout=120)
    assert code == 125 and out == "a" and "E2B" in err, (code, out, err)


@check
def a_sandbox_that_ends_meanwhile_leaves_an_unknown_end(program, place):
    def stream(connection, path, body):
        if path.endswith("/Start"):
            cloud.made = False
            chunked(connection, START, end=False)

    cloud = Cloud(stream)
    me = person(program, place, cloud.liar)
    box = json.loads(me.well("create", "--backend", "e2b", "--json"))["id"]
    code, _, err = me.run("exec", box, "--", "true", timeout=60)
    assert code == 125, (code, err)


def main() -> int:
    program, only = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="berth-e2b-", ignore_cleanup_errors=True) as place:
        for work in checks:
            name = work.__name__.replace("_", " ")
            if only not in name:
                continue
            try:
                work(program, place)
                print(f"ok {name}", flush=True)
            except Exception:  # noqa: BLE001: a check that fails is told, whatever it was
                failed += 1
                print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
    return 1 if failed else 0


sys.exit(main())
