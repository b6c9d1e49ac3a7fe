#!/usr/bin/env python3
"""berth's own API below /v1. own_api.py BERTH [CHECK]"""
import base64
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

from description import Description
from served import Checks, Server, take_instance_away

check = Checks()
described: list[Description] = []


def description(server: Server) -> Description:
    if not described:
        described.append(Description(json.loads(server.request("GET", "/openapi.json", None, {})[2])))
    return described[0]


def ask(server: Server, method: str, path: str, document=None, key: str | None = None, body: bytes | None = None, **headers):
    data = body if body is not None else None if document is None else json.dumps(document).encode()
    given = {"Authorization": "Bearer " + (server.key if key is None else key), **{k.replace("_", "-"): v for k, v in headers.items()}}
    status, head, text = server.request(method, path, data, given)
    kind = {name.lower(): value for name, value in dict(head).items()}.get("content-type", "")
    told = json.loads(text) if text and text[:1] in b"{[" else text
    described_as = told if kind.startswith("application/json") else None
    description(server).check(method, path, document, status, described_as)
    return status, told


def make(server: Server, **fields) -> str:
    status, made = ask(server, "POST", "/v1/sandboxes", fields)
    assert status == 201 and made["outcome"] == "fresh" and made["state"] == "running", (status, made)
    return "/v1/sandboxes/" + made["id"]


def run(server: Server, box: str, *argv: str, **fields) -> str:
    status, started = ask(server, "POST", box + "/execs", {"argv": list(argv), **fields})
    assert status == 201, started
    return f"{box}/execs/{started['id']}"


def events(server: Server, exec_path: str, **headers) -> list[dict]:
    status, text = ask(server, "GET", exec_path + "/events", **headers)
    assert status == 200, text
    told = [json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: ")]
    for one in told:
        description(server).event("GET", exec_path + "/events", one)
    return told


def output(all_events: list[dict], stream: str = "stdout") -> bytes:
    return b"".join(base64.b64decode(e["data"]) for e in all_events if e["event"] == stream)


@check
def the_document_lists_every_route_and_each_answers(server: Server):
    status, document = ask(server, "GET", "/openapi.json")
    assert status == 200 and document["openapi"].startswith("3."), document
    fill = {"{sandbox}": "sbx_00000000000000000000000000", "{snapshot}": "snap_00000000000000000000000000", "{exec}": "exec_00000000000000000000000000",
            "{port}": "80", "{path}": "x", "{policy}": "none"}
    count = 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"] and operation["responses"], (path, method)
            real = path
            for name, value in fill.items():
                real = real.replace(name, value)
            # Without a key the router is never reached; with one, what is not there is 404 with a reason of its own.
            assert ask(server, method.upper(), real, key="x")[0] in (401, 200), (path, method)
            if "{" in path:
                status, told = ask(server, method.upper(), real + "?path=/x", {"argv": ["x"]} if path.endswith("/execs") else None)
                assert status == 404, (path, method, status, told)
                assert method == "head" or "no s" in told["error"]["message"], (path, method, status, told)
            count += 1
    assert count >= 48, count
    assert ask(server, "GET", "/v1/nothing")[0] == 404
    assert ask(server, "PATCH", "/v1/sandboxes")[0] == 405


@check
def a_policy_is_proven_and_its_receipts_are_kept(server: Server):
    box = make(server, policy="read-only", prove=True)
    status, receipt = ask(server, "POST", box + "/prove")
    assert status == 201 and receipt["held"] and receipt["backend"] == "local", receipt
    assert receipt["policy_hash"].startswith("sha256:") and len(receipt["probes"]) > 30, receipt
    tiers = {one["rule"]: one["tier"] for one in receipt["rules"]}
    assert tiers["network off"] == "outside" and tiers["read :root"] == "outside", receipt["rules"]
    assert all(one["how"] for one in receipt["rules"]), receipt["rules"]
    status, kept = ask(server, "GET", box + "/receipts")
    assert status == 200 and len(kept["receipts"]) == 2 and kept["receipts"][1] == receipt, kept
    assert server.data not in json.dumps(kept), "where the server keeps its state is nobody's business"
    assert ask(server, "POST", box + "/prove", {"all": True})[0] == 400
    assert ask(server, "POST", "/v1/sandboxes", {"prove": "yes"})[0] == 400
    assert ask(server, "DELETE", box)[1]["state"] == "destroyed"


@check
def a_command_and_its_events(server: Server):
    box = make(server, env={"A": "b"}, labels={"for": "a test"})
    path = run(server, box, "sh", "-c", "echo $A; echo err >&2; exit 3")
    seen = events(server, path)
    assert output(seen) == b"b\n" and output(seen, "stderr") == b"err\n", seen
    assert [e["event"] for e in seen if e["event"] in ("start", "exit", "closed")][-2:] == ["exit", "closed"], seen
    assert next(e for e in seen if e["event"] == "exit")["code"] == 3
    deadline = time.monotonic() + 20
    while ask(server, "GET", path)[1]["running"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ask(server, "GET", path)[1]["outcome"] == "exit 3"
    assert len(ask(server, "GET", box + "/execs")[1]["execs"]) == 1
    assert ask(server, "DELETE", box)[1]["state"] == "destroyed"


@check
def a_stream_can_be_resumed_where_it_broke(server: Server):
    box = make(server)
    path = run(server, box, "sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.05; done")
    everything = events(server, path)
    for at in (0, len(everything) // 2, len(everything) - 2):
        rest = events(server, path, Last_Event_ID=str(everything[at]["seq"]))
        assert output(everything) == output(everything[:at + 1]) + output(rest)
    assert ask(server, "GET", path + f"/events?after={everything[-1]['seq']}")[0] == 200
    assert ask(server, "GET", path + "/events?after=x")[0] == 400
    ask(server, "DELETE", box)


@check
def input_signals_and_timeouts(server: Server):
    box = make(server)
    cat = run(server, box, "cat", stdin=True)
    assert ask(server, "POST", cat + "/input?write=1", body=b"hello ")[1]["taken"] == 6
    assert ask(server, "POST", cat + "/input?write=1", body=b"hello ")[0] == 200  # again: written once
    assert ask(server, "POST", cat + "/input?write=2", body=b"there")[1]["taken"] == 5
    assert ask(server, "POST", cat + "/input?write=1", body=b"late")[0] == 409  # a later one was taken
    assert ask(server, "POST", cat + "/size", {"rows": 31, "columns": 101})[0] == 400  # it has no terminal
    assert ask(server, "DELETE", cat + "/input?write=3")[0] == 204
    assert output(events(server, cat)) == b"hello there"
    status, told = ask(server, "POST", cat + "/input?write=4", body=b"x")
    assert status == 409 and "reads no input" in told["error"]["message"], (status, told)
    status, told = ask(server, "POST", box + "/execs", {"argv": []})
    assert status == 400 and "/argv" in told["error"]["message"], (status, told)
    sleeper = run(server, box, "sleep", "1000")
    assert ask(server, "POST", sleeper + "/signal", {"signal": 15})[0] == 204
    assert next(e for e in events(server, sleeper) if e["event"] == "exit")["signal"] == 15
    late = run(server, box, "sleep", "1000", timeout_seconds=0.3)
    assert next(e for e in events(server, late) if e["event"] == "exit")["signal"] == 9
    killed = run(server, box, "sh", "-c", "sleep 1000 & sleep 1000")
    assert ask(server, "DELETE", killed + "?grace_seconds=0")[0] == 204
    assert ask(server, "GET", killed)[1]["outcome"] == "signal 9", "it answers when it has ended"
    assert ask(server, "DELETE", killed)[0] == 204, "once more is success"
    trapped = run(server, box, "sh", "-c", "trap 'exit 3' TERM; touch /tmp/up; while :; do sleep 0.05; done")
    deadline = time.monotonic() + 60
    while ask(server, "GET", box + "/stat?path=/tmp/up")[0] != 200:
        assert time.monotonic() < deadline
    for bad in ("x", "-1", "61", "1m", ""):
        assert ask(server, "DELETE", trapped + "?grace_seconds=" + bad)[0] == 400, bad
    assert ask(server, "DELETE", trapped + "?grace_seconds=30.5")[0] == 204
    assert ask(server, "GET", trapped)[1]["outcome"] == "exit 3"
    pty = run(server, box, "sh", "-c", "until [ \"$(stty size)\" = '31 101' ]; do sleep 0.05; done; stty size",
              terminal={"rows": 30, "columns": 100}, timeout_seconds=120)
    assert ask(server, "POST", pty + "/size", {"rows": 31, "columns": 101})[0] == 204
    assert b"31 101" in output(events(server, pty), "pty")
    ask(server, "DELETE", box)


@check
def turns_with_a_command(server: Server):
    box = make(server)
    cat = run(server, box, "cat", stdin=True)
    said, after = "", 0
    status, turn = ask(server, "POST", cat + "/yield", {"input": "one\n", "write": 1})
    assert status == 200 and turn["running"] and turn["taken"] == 4, (status, turn)
    assert ask(server, "POST", cat + "/yield", {"input": "one\n", "write": 1})[1]["taken"] == 4  # again: written once
    while len(said) < 4:  # poll until it is all there
        said, after = said + turn["output"], turn["next_seq"]
        turn = ask(server, "POST", cat + "/yield", {"next_seq": after})[1]
    assert said == "one\n" and turn["output"] == "" and turn["running"], (said, turn)
    status, told = ask(server, "POST", cat + "/yield", {"input": "late", "write": 0})
    assert status == 400 and "/write" in told["error"]["message"], (status, told)
    begun = time.monotonic()
    two = {"input_base64": base64.b64encode(b"two").decode(), "write": 2, "close": True, "next_seq": turn["next_seq"], "yield_ms": 30000}
    status, turn = ask(server, "POST", cat + "/yield", two)
    assert status == 200 and not turn["running"] and turn["code"] == 0 and turn["output"] == "two", (status, turn)
    assert base64.b64decode(turn["output_base64"]) == b"two" and turn["sandbox"] in box and turn["exec"] in cat, turn
    assert time.monotonic() - begun < 20, "an end is not waited out"
    assert ask(server, "GET", cat)[1]["outcome"] == "exit 0"
    status, turn = ask(server, "POST", cat + "/yield", {"input": "x", "next_seq": turn["next_seq"]})
    assert status == 200 and turn["taken"] == 0 and turn["code"] == 0 and turn["output"] == "", (status, turn)
    long = run(server, box, "sh", "-c", "seq 1 10000; sleep 1000")
    turn = ask(server, "POST", long + "/yield", {"max_output_tokens": 10})[1]
    assert turn["running"] and turn["original_tokens"] > 10000 and "bytes left out" in turn["output"], turn
    status, told = ask(server, "POST", long + "/yield", {"input": "x"})
    assert status == 409 and "reads no input" in told["error"]["message"], (status, told)
    for wrong in ({"input": "x", "input_base64": "eA=="}, {"input_base64": "?"}, {"yield_ms": -1}, {"max_output_tokens": 0}, {"inputs": "x"}):
        assert ask(server, "POST", long + "/yield", wrong)[0] == 400, wrong
    assert ask(server, "POST", box + "/execs/exec_00000000000000000000000000/yield", {})[0] == 404
    assert ask(server, "GET", long)[1]["running"], "nothing of this ends a command"
    ask(server, "DELETE", box)


@check
def files(server: Server):
    box = make(server)
    data = bytes(range(256)) * 4096
    assert ask(server, "PUT", box + "/files?path=/home/user/f&mode=600", body=data)[0] == 204
    assert ask(server, "GET", box + "/files?path=/home/user/f")[1] == data
    entry = ask(server, "GET", box + "/stat?path=/home/user/f")[1]
    assert (entry["kind"], entry["size"], entry["mode"], entry["uid"]) == ("file", len(data), "0600", 1000), entry
    assert ask(server, "PUT", box + "/directory?path=/tmp/a/b")[0] == 204
    assert [e["name"] for e in ask(server, "GET", box + "/directory?path=/tmp/a")[1]["entries"]] == ["b"]
    assert ask(server, "DELETE", box + "/files?path=/tmp/a")[0] in (400, 409)
    assert ask(server, "DELETE", box + "/files?path=/tmp/a&tree=true")[0] == 204
    assert ask(server, "GET", box + "/stat?path=/tmp/a")[0] == 404
    for bad in ("", "?path=", "?path=relative", "?path=a%00b"):
        assert ask(server, "GET", box + "/files" + bad)[0] == 400, bad
    ask(server, "DELETE", box)


@check
def snapshots_and_forks(server: Server):
    box = make(server)
    ask(server, "PUT", box + "/files?path=/home/user/f", body=b"first")
    status, taken = ask(server, "POST", box + "/snapshots", {"note": "for later"})
    assert status == 201 and taken["note"] == "for later", taken
    # By its note a template is found, by whoever runs the server too.
    for note in ["template here mine", "build step 0123", "x" * 5000]:
        assert ask(server, "POST", box + "/snapshots", {"note": note})[0] == 400, note
    assert ask(server, "GET", "/v1/snapshots/" + taken["id"])[1]["bytes"] >= len(b"first")
    ask(server, "PUT", box + "/files?path=/home/user/f", body=b"second")
    status, made = ask(server, "POST", f"/v1/snapshots/{taken['id']}/restore", {})
    assert status == 201 and made["outcome"] == "restored", made
    assert ask(server, "GET", f"/v1/sandboxes/{made['id']}/files?path=/home/user/f")[1] == b"first"
    status, again = ask(server, "POST", f"/v1/snapshots/{taken['id']}/restore", {"backend": made["backend"]})
    assert status == 201 and again["backend"] == made["backend"] and again["id"] != made["id"], again
    assert ask(server, "POST", f"/v1/snapshots/{taken['id']}/restore", {"backend": "elsewhere"})[0] == 403
    assert ask(server, "POST", f"/v1/snapshots/{taken['id']}/restore", {"back": "local"})[0] == 400
    listed = ask(server, "GET", "/v1/snapshots")[1]["snapshots"]
    assert taken["bytes"] is None and [s["bytes"] > 0 for s in listed if s["id"] == taken["id"]] == [True], listed
    status, forks = ask(server, "POST", box + "/fork", {"count": 2})
    assert status == 201 and len(forks["sandboxes"]) == 2, forks
    for one in [made, again, *forks["sandboxes"]]:
        ask(server, "DELETE", "/v1/sandboxes/" + one["id"])
    assert ask(server, "DELETE", "/v1/snapshots/" + taken["id"])[0] == 204
    assert ask(server, "DELETE", "/v1/snapshots/" + taken["id"])[0] == 404
    ask(server, "DELETE", box)


@check
def a_key_finds_the_same_sandbox_and_states_change(server: Server):
    status, one = ask(server, "POST", "/v1/sandboxes", {"key": "mine"})
    assert status == 201
    status, again = ask(server, "POST", "/v1/sandboxes", {"key": "mine"})
    assert (status, again["id"], again["outcome"]) == (200, one["id"], "attached")
    box = "/v1/sandboxes/" + one["id"]
    assert ask(server, "POST", box + "/stop", {})[1]["state"] == "stopped"
    assert ask(server, "POST", box + "/start", {})[1]["outcome"] == "started"
    status, paused = ask(server, "POST", box + "/pause")
    if status != 501:  # nobody freezes for an ordinary user here
        assert (status, paused["state"]) == (200, "paused"), paused
        assert ask(server, "POST", box + "/resume")[1]["state"] == "running"
    else:
        description(server).seen |= {("POST", f"/v1/sandboxes/{{sandbox}}/{word}") for word in ("pause", "resume")}
    seen = {e["type"] for e in ask(server, "GET", "/v1/events")[1]["events"] if e["sandbox"] == one["id"]}
    assert {"sandbox_created", "sandbox_stopped"} <= seen, seen
    ask(server, "DELETE", box)


@check
def policies_are_shown_checked_and_explained(server: Server):
    presets = ask(server, "GET", "/v1/policies")[1]["presets"]
    assert "workspace-write" in presets, presets
    whole = ask(server, "GET", "/v1/policies/workspace-write")[1]
    assert whole["network"] == "off" and whole["protect"], whole
    assert ask(server, "GET", "/v1/policies/nobodys")[0] == 404
    assert ask(server, "POST", "/v1/policies/check", {"policy": whole})[1]["policy"] == whole
    status, told = ask(server, "POST", "/v1/policies/check", {"policy": {"network": "sometimes"}})
    assert status == 400 and "/network" in told["error"]["message"], told
    explained = ask(server, "POST", "/v1/policies/explain", {"policy": "read-only"})[1]
    assert explained["admitted"] and {"rule", "tier", "how"} <= explained["rules"][0].keys(), explained
    box = make(server, policy="read-only")
    assert ask(server, "GET", box + "/policy")[1]["rules"] == explained["rules"]
    ask(server, "DELETE", box)


def head_of(server: Server, method: str, path: str, body: bytes | None = None) -> tuple[int, dict]:
    status, head, answer = server.request(method, path, body, {"Authorization": "Bearer " + server.key})
    return status, head if status < 400 else head | {"body": answer}


def take_away(server: Server, box: str) -> None:
    """As if somebody had removed its instance, and told nobody."""
    take_instance_away(server, ask(server, "GET", box)[1]["native"])


def collected(server: Server) -> None:
    """The keepers whose directories were taken end."""
    subprocess.run([server.program, "gc", "--data", server.data], check=True, capture_output=True)


@check
def one_that_is_gone_comes_back_and_every_answer_says_so(server: Server):
    box = make(server)
    file = box + "/files?path=/home/user/f"
    ask(server, "PUT", file, body=b"first")
    taken = ask(server, "POST", box + "/snapshots")[1]["id"]
    ask(server, "PUT", file, body=b"second")
    assert "berth-outcome" not in head_of(server, "GET", file)[1], "one that runs is nothing to tell"

    take_away(server, box)
    status, started = ask(server, "POST", box + "/execs", {"argv": ["cat", "f"]})
    assert status == 201 and (started["outcome"], started["snapshot"]) == ("restored", taken), started
    assert started["lost_seconds"] >= 0 and taken in started["notes"][0], started
    assert output(events(server, f"{box}/execs/{started['id']}")) == b"first"
    again = ask(server, "POST", box + "/execs", {"argv": ["true"]})[1]
    assert (again["outcome"], again["snapshot"], again["notes"]) == ("attached", None, []), again

    put = b"third"
    for method, path, body, good in (("GET", file, None, 200), ("PUT", file, put, 204), ("GET", box + "/stat?path=/home/user/f", None, 200),
                                     ("GET", box + "/directory?path=/home/user", None, 200), ("GET", box + "/archive?path=/home/user", None, 200),
                                     ("GET", box + "/stat?path=/no/such", None, 404)):
        take_away(server, box)
        status, head = head_of(server, method, path, body)
        assert status == good and head.get("berth-outcome", "").startswith(f"restored {taken}; lost_seconds="), (method, path, status, head)
        assert taken in head["berth-note"], head
    ask(server, "PUT", file, body=put)
    assert ask(server, "GET", file)[1] == put

    ask(server, "POST", box + "/stop")
    assert head_of(server, "GET", file)[1]["berth-outcome"] == "started"
    ask(server, "POST", box + "/stop")
    assert ask(server, "POST", box + "/execs", {"argv": ["true"]})[1]["outcome"] == "started"
    ask(server, "DELETE", box)
    ask(server, "DELETE", "/v1/snapshots/" + taken)
    collected(server)


@check
def one_that_is_gone_without_a_snapshot_is_told_as_such(server: Server):
    box = make(server)
    take_away(server, box)
    for method, path, wish in (("POST", "/execs", {"argv": ["true"]}), ("GET", "/files?path=/etc/passwd", None)):
        status, told = ask(server, method, box + path, wish)
        assert status == 404 and "has no snapshot" in told["error"]["message"], (status, told)
    ask(server, "DELETE", box)
    collected(server)


@check
def what_a_client_may_not_have_is_refused(server: Server):
    for wish, status in (({"template": "dir:/"}, 400), ({"mounts": []}, 400), ({"labels": {"berth.tenant": "x"}}, 400),
                         ({"policy": {"network": "host"}}, 403), ({"policy": "no-such"}, 404), ({"policy": {"devices": ["/dev/kvm"]}}, 403),
                         ({"policy": {"limits": {"pids": 5000}}}, 403), ({"policy": {"limits": {"pids": "unlimited"}}}, 403),
                         ({"policy": {"limits": {"open_files": "unlimited"}}}, 403),
                         ({"env": {"A=B": "x"}}, 400), ({"idle_seconds": 0}, 400), ([], 400)):
        got, told = ask(server, "POST", "/v1/sandboxes", wish)
        assert got in (status, 400) and got != 201, (wish, got, told)


@check
def tenants_do_not_meet(server: Server):
    box = make(server)
    path = run(server, box, "true")
    other = subprocess.run([server.program, "key", "add", "--tenant", "eve", "--data", server.data], check=True,
                           capture_output=True, text=True).stdout.strip()
    for method, where in (("GET", box), ("DELETE", box), ("POST", box + "/stop"), ("GET", path), ("GET", path + "/events"),
                          ("POST", box + "/snapshots"), ("POST", box + "/fork"), ("GET", box + "/files?path=/etc/passwd"),
                          ("POST", path + "/input"), ("DELETE", path)):
        assert ask(server, method, where, key=other)[0] == 404, (method, where)
    assert ask(server, "GET", "/v1/sandboxes", key=other)[1] == {"sandboxes": []}
    assert ask(server, "GET", "/v1/events", key=other)[1]["events"] == []
    status, theirs = ask(server, "POST", "/v1/sandboxes", {"key": "shared"}, key=other)
    status, ours = ask(server, "POST", "/v1/sandboxes", {"key": "shared"})
    assert ours["id"] != theirs["id"]
    ask(server, "DELETE", "/v1/sandboxes/" + theirs["id"], key=other)
    ask(server, "DELETE", "/v1/sandboxes/" + ours["id"])
    ask(server, "DELETE", box)


@check
def the_server_ends_while_commands_run(server: Server):
    box = make(server)
    run(server, box, "sleep", "1000")
    path = run(server, box, "sleep", "1000")
    other = server.create()
    stream, _ = other.start("sleep 1000")
    reader = threading.Thread(target=lambda: quiet(server, path))
    reader.start()
    time.sleep(0.3)
    begun = time.monotonic()
    assert server.stop() == 0
    reader.join()
    assert time.monotonic() - begun < 30
    server = Server(server.program, server.data)
    assert ask(server, "GET", path)[1]["running"] is True
    stream.close()
    server.api("DELETE", f"/sandboxes/{other.id}")
    ask(server, "DELETE", box)
    return server


@check
def the_description_has_what_the_source_asks_for(server: Server):
    """Parameters are read by their names; every one of those is described, and no other."""
    source = pathlib.Path(__file__).parents[2] / "src/server/own"
    read = {name for file in source.glob("*.cpp") for name in re.findall(r'parameter\("(\w+)"\)', file.read_text())}
    told = {one["name"] for _, _, _, operation in description(server).operations for one in operation.get("parameters", []) if one["in"] == "query"}
    assert read == told, read ^ told


@check
def every_answer_was_held_against_the_description(server: Server):
    if len(sys.argv) > 2:
        return  # not all of the checks were run
    missing = description(server).answers() - description(server).seen
    assert not missing, missing


def quiet(server: Server, path: str) -> None:
    try:
        events(server, path)
    except Exception:  # noqa: BLE001: the server ends under it
        pass


if __name__ == "__main__":
    sys.exit(check.main())
