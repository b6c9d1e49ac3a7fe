#!/usr/bin/env python3
"""kill -9 of the server with sandboxes and running commands; another one goes on. restart.py BERTH [CHECK]"""
import fcntl
import json
import os
import subprocess
import sys
import threading
import time

from served import Box, Checks, Server, envelope, envelopes

check = Checks()
COUNT = int(os.environ.get("BERTH_RESTART_SANDBOXES", "12"))
RUNNING = max(1, COUNT // 4)


def again(server: Server) -> Server:
    server.kill()
    return Server(server.program, server.data)


def all_of(server: Server) -> list[dict]:
    out, token = [], ""
    while True:
        status, headers, body = server.request("GET", "/v2/sandboxes?limit=50&nextToken=" + token, None, {"X-API-Key": server.key})
        assert status == 200, body
        out += json.loads(body)
        token = headers.get("x-next-token", "")
        if not token:
            return out


def wait_for(question, what: str):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = question()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError("never: " + what)


@check
def sandboxes_and_commands_outlive_a_killed_server(server: Server):
    boxes = [server.create(metadata={"n": str(i)}) for i in range(COUNT)]
    for i, box in enumerate(boxes):
        assert box.run(f"echo {i} > mine")[1]["status"] == "exit status 0"
    streams = [box.start("i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i > count; echo line $i; sleep 0.02; done; echo bye") for box in boxes[:RUNNING]]
    key = server.key
    server = again(server)
    assert server.key == key, "the key is the same"
    listed = all_of(server)
    assert {one["sandboxID"] for one in listed} == {box.id for box in boxes}
    assert all(one["state"] == "running" for one in listed)
    for i, box in enumerate(boxes):
        box.server = server
        status, told = server.api("POST", f"/v2/sandboxes/{box.id}/connect", {})
        assert (status, told["envdAccessToken"]) == (200, box.token), "the token is the same"
        assert box.ask("GET", "/files?path=mine")[2] == f"{i}\n".encode()
        assert box.run("echo again")[0] == "again\n"
    for box, (stream, pid) in zip(boxes, streams):
        stream.close()
        status, processes = box.unary("process.Process/List", {})
        assert status == 200 and [p["pid"] for p in processes["processes"]] == [pid], processes
        before = int(box.ask("GET", "/files?path=count")[2] or b"0")
        wait_for(lambda: int(box.ask("GET", "/files?path=count")[2] or b"0") > before, "the command goes on")
        box.ask("POST", "/files?path=stop", b"", Content_Type="application/octet-stream")
        select = envelope(json.dumps({"process": {"pid": pid}}).encode())
        status, _, body = box.stream("process.Process/Connect", select)
        frames = envelopes(body)
        assert frames[0][1] == {"event": {"start": {"pid": pid}}}, frames[0]
        assert frames[-1] == (2, {}) and frames[-2][1]["event"]["end"]["status"] == "exit status 0", frames[-3:]
    for box in boxes:
        assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    return server


@check
def one_that_was_paused_meanwhile_is_resumed_by_a_connect(server: Server):
    boxes = [server.create() for _ in range(2)]
    verbs = ("pause", "stop") if os.geteuid() == 0 else ("stop", "stop")  # nobody else has a freezer
    for box in boxes:
        box.run("echo kept > f")
    server.kill()
    for box, verb in zip(boxes, verbs):
        subprocess.run([server.program, verb, box.id, "--data", server.data], check=True, capture_output=True)
    server = Server(server.program, server.data)
    for box in boxes:
        box.server = server
        status, told = server.api("POST", f"/v2/sandboxes/{box.id}/connect", {})
        assert status == 201, told
        assert box.run("cat f")[0] == "kept\n"
        assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    return server


@check
def a_paused_one_stays_paused(server: Server):
    box = server.create()
    stream, pid = box.start("sleep 1000")
    status, told = server.api("POST", f"/sandboxes/{box.id}/pause", {})
    if status == 501:  # no freezer for an ordinary user here: refused with the reason, and it goes on
        assert "cannot be paused" in told["message"], told
        assert box.run("echo on")[0] == "on\n"
        stream.close()
        assert server.api("POST", f"/sandboxes/{box.id}/pause", {"memory": False})[0] == 204
        assert server.api("POST", f"/v2/sandboxes/{box.id}/connect", {})[0] == 201
        assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
        return server
    assert status == 204, told
    stream.close()
    server = again(server)
    box.server = server
    assert server.api("GET", f"/sandboxes/{box.id}")[1]["state"] == "paused"
    assert box.ask("GET", "/health")[0] == 502
    assert server.api("POST", f"/v2/sandboxes/{box.id}/connect", {})[0] == 201
    status, processes = box.unary("process.Process/List", {})
    assert [p["pid"] for p in processes["processes"]] == [pid], processes
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    return server


@check
def one_whose_time_ran_out_meanwhile_ends(server: Server):
    box = server.create(timeout=1)
    kept = server.create(timeout=1, autoPause=True)
    server.kill()
    time.sleep(1.2)
    server = Server(server.program, server.data)
    box.server = kept.server = server
    wait_for(lambda: server.api("GET", f"/sandboxes/{box.id}")[0] == 404, "it ends")
    wait_for(lambda: server.api("GET", f"/sandboxes/{kept.id}")[1]["state"] == "paused", "it is paused")
    server.api("DELETE", f"/sandboxes/{kept.id}")
    return server


@check
def one_that_somebody_else_removed_is_gone(server: Server):
    box = server.create()
    server.kill()
    ids = [one["id"] for one in json.loads(subprocess.run([server.program, "ls", "--json", "--data", server.data], check=True,
                                                          capture_output=True, text=True).stdout)["sandboxes"]]
    subprocess.run([server.program, "rm", *ids, "--data", server.data], check=True, capture_output=True)
    server = Server(server.program, server.data)
    assert server.api("GET", f"/sandboxes/{box.id}")[0] == 404
    assert server.api("GET", "/v2/sandboxes") == (200, [])
    return server


@check
def what_somebody_else_does_to_a_sandbox_is_seen(server: Server):
    def cli(*words: str) -> None:
        subprocess.run([server.program, *words, "--data", server.data], check=True, capture_output=True)
    box = server.create()
    listed = subprocess.run([server.program, "ls", "--json", "--data", server.data], check=True, capture_output=True, text=True).stdout
    own = json.loads(listed)["sandboxes"][-1]["id"]
    cli("stop", own)
    wait_for(lambda: server.api("GET", f"/sandboxes/{box.id}")[1]["state"] == "paused", "a stopped one is paused")
    assert box.ask("GET", "/health")[0] == 502
    cli("start", own)
    wait_for(lambda: server.api("GET", f"/sandboxes/{box.id}")[1]["state"] == "running", "a started one is running")
    assert box.run("echo on")[0] == "on\n"
    cli("rm", own)
    wait_for(lambda: server.api("GET", f"/sandboxes/{box.id}")[0] == 404, "a removed one is gone")


@check
def nothing_is_left_of_what_was_being_made(server: Server):
    made = []
    threads = [threading.Thread(target=lambda: made.append(quiet(server))) for _ in range(8)]
    for t in threads:
        t.start()
    time.sleep(0.15)
    server.kill()
    for t in threads:
        t.join()
    server = Server(server.program, server.data)
    _, listed = server.api("GET", "/v2/sandboxes")
    ids = {one["sandboxID"] for one in listed}
    assert {box.id for box in made if box} <= ids, "what a client was told of is there"
    for one in ids:
        assert server.api("DELETE", f"/sandboxes/{one}")[0] == 204

    def gone() -> bool:
        """What the server itself is collecting just now is left to it."""
        subprocess.run([server.program, "gc", "--grace", "0s", "--data", server.data], check=False, capture_output=True)
        left = subprocess.run([server.program, "ls", "--json", "--data", server.data], check=True, capture_output=True, text=True)
        return json.loads(left.stdout)["sandboxes"] == []
    wait_for(gone, "nothing of it is left")
    return server


def quiet(server: Server) -> Box | None:
    try:
        return server.create()
    except Exception:  # noqa: BLE001: the server is killed under it
        return None


@check
def what_a_killed_server_had_just_started_is_waited_for(server: Server):
    """A helper has the descriptors of whoever started it until it has begun, and so the lock."""
    server.kill()
    lock = os.open(server.data + "/serve.lock", os.O_RDWR | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    threading.Timer(0.5, os.close, [lock]).start()
    return Server(server.program, server.data)


@check
def a_second_server_is_refused(server: Server):
    second = subprocess.run([server.program, "serve", "--listen", "127.0.0.1:0", "--data", server.data],
                            check=False, capture_output=True, text=True, timeout=60)
    assert second.returncode == 4 and "another berth serve" in second.stderr, second
    assert server.api("GET", "/v2/sandboxes")[0] == 200


@check
def a_graceful_end_lets_requests_finish(server: Server):
    box = server.create()
    told = []
    worker = threading.Thread(target=lambda: told.append(box.run("touch begun; sleep 1; echo done")))
    worker.start()
    wait_for(lambda: box.ask("GET", "/files?path=begun")[0] == 200, "it runs")
    assert server.stop() == 0
    worker.join()
    assert told and told[0][0] == "done\n", told
    server = Server(server.program, server.data)
    server.api("DELETE", f"/sandboxes/{box.id}")
    return server


if __name__ == "__main__":
    sys.exit(check.main())
