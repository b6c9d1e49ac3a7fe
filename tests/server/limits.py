#!/usr/bin/env python3
"""What a tenant may ask for at most, told by every protocol in its own words. limits.py BERTH [CHECK]"""
import json
import subprocess
import sys
import threading
import time

from codex_client import Client, RpcError
from own_api import ask
from served import Checks, Server

check = Checks()
MOST = 3
OPTIONS = ("--max-sandboxes", str(MOST))


def key_of(server: Server, tenant: str) -> str:
    return subprocess.run([server.program, "key", "add", "--tenant", tenant, "--data", server.data], check=True,
                          capture_output=True, text=True).stdout.strip()


def asked(server: Server, method: str, path: str, document, key: str) -> tuple[int, dict, dict]:
    body = None if document is None else json.dumps(document).encode()
    status, headers, text = server.request(method, path, body, {"X-API-Key": key})
    return status, headers, json.loads(text) if text else {}


@check
def a_tenant_has_no_more_than_its_number(server: Server):
    key = key_of(server, "greedy")
    boxes = []
    for _ in range(MOST - 1):
        status, _, made = asked(server, "POST", "/v1/sandboxes", {}, key)
        assert status == 201, made
        boxes.append(made["id"])
    status, _, e2b = asked(server, "POST", "/v2/sandboxes", {"templateID": "base"}, key)
    assert status == 201, e2b
    status, headers, told = asked(server, "POST", "/v1/sandboxes", {}, key)
    assert status == 429 and headers["retry-after"] and told["error"]["code"] == "exhausted" and "3 sandboxes" in told["error"]["message"], (status, headers, told)
    status, headers, told = asked(server, "POST", "/v2/sandboxes", {"templateID": "base"}, key)
    assert status == 429 and headers["retry-after"] and told["code"] == 429 and "3 sandboxes" in told["message"], (status, headers, told)
    assert asked(server, "POST", f"/v1/sandboxes/{boxes[0]}/fork", {"count": 1}, key)[0] == 429
    # A stopped one counts; another tenant does not.
    assert asked(server, "POST", f"/v1/sandboxes/{boxes[0]}/stop", None, key)[0] == 200
    assert asked(server, "POST", "/v1/sandboxes", {}, key)[0] == 429
    status, made = ask(server, "POST", "/v1/sandboxes", {"key": "mine"})
    assert status == 201 and ask(server, "POST", "/v1/sandboxes", {"key": "mine"})[0] == 200
    ask(server, "DELETE", "/v1/sandboxes/" + made["id"])
    # One that goes makes room for one.
    assert asked(server, "DELETE", f"/v1/sandboxes/{boxes[1]}", None, key)[0] == 200
    status, _, made = asked(server, "POST", "/v1/sandboxes", {"key": "again"}, key)
    assert status == 201, made
    assert asked(server, "POST", "/v1/sandboxes", {"key": "again"}, key)[0] == 200, "what a key finds is there already"
    assert asked(server, "POST", "/v1/sandboxes", {}, key)[0] == 429
    for one in (boxes[0], made["id"]):
        assert asked(server, "DELETE", "/v1/sandboxes/" + one, None, key)[0] == 200
    assert server.request("DELETE", "/sandboxes/" + e2b["sandboxID"], None, {"X-API-Key": key})[0] == 204


@check
def nor_when_it_asks_for_many_at_once(server: Server):
    key = key_of(server, "hasty")
    answers: list[tuple[int, dict]] = []

    def make() -> None:
        status, _, made = asked(server, "POST", "/v1/sandboxes", {}, key)
        answers.append((status, made))

    threads = [threading.Thread(target=make) for _ in range(4 * MOST)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    made = [told["id"] for status, told in answers if status == 201]
    assert len(made) == MOST and {status for status, _ in answers} == {201, 429}, answers
    for one in made:
        assert asked(server, "DELETE", "/v1/sandboxes/" + one, None, key)[0] == 200


@check
def a_session_of_codex_is_one_of_them(server: Server):
    key = key_of(server, "coder")
    clients = [Client(server.port, f"/codex?key={key}") for _ in range(MOST)]
    late = Client(server.port, f"/codex?key={key}", initialize=False)
    try:
        late.call("initialize", {"clientName": "test", "resumeSessionId": None})
        raise AssertionError("one more than all")
    except RpcError as error:
        assert "3 sandboxes" in error.message, error
    assert asked(server, "POST", "/v1/sandboxes", {}, key)[0] == 429
    # Whoever comes back needs no other; and room is made for whoever asks again.
    clients[0].cut()
    clients[0] = Client(server.port, f"/codex?key={key}", resume=clients[0].session)
    status, _, boxes = asked(server, "GET", "/v1/sandboxes", None, key)
    assert status == 200 and len(boxes["sandboxes"]) == MOST, boxes
    assert asked(server, "DELETE", "/v1/sandboxes/" + boxes["sandboxes"][0]["id"], None, key)[0] == 200
    assert late.call("initialize", {"clientName": "test", "resumeSessionId": None})["sessionId"]
    for client in (*clients, late):
        client.cut()


@check
def requests_have_a_rate(server: Server):
    assert server.stop() == 0
    server = Server(server.program, server.data, *OPTIONS, "--rate", "1")
    key, other = key_of(server, "quick"), key_of(server, "slow")
    for path, code in (("/v1/sandboxes", lambda told: told["error"]["code"] == "exhausted"), ("/v2/sandboxes", lambda told: told["code"] == 429)):
        for _ in range(40):
            status, headers, told = asked(server, "GET", path, None, key)
            if status == 429:
                break
            assert status == 200, told
        assert status == 429 and headers["retry-after"] == "1" and code(told) and headers["x-request-id"], (path, status, headers, told)
    assert asked(server, "GET", "/v1/sandboxes", None, other)[0] == 200, "each has his own"
    assert server.request("GET", "/healthz")[0] == 200
    assert server.stop() == 0
    return Server(server.program, server.data, *OPTIONS)


@check
def every_request_is_in_the_log_by_its_id(server: Server):
    status, headers, _ = server.request("GET", "/v1/sandboxes?secret=hidden", None, {"X-API-Key": server.key})
    assert status == 200
    lines: list[str] = []
    deadline = time.monotonic() + 30
    while not lines and time.monotonic() < deadline:  # it is written when the answer has been sent
        with open(server.log.name, encoding="utf-8") as log:
            lines = [line for line in log if headers["x-request-id"] in line]
    assert len(lines) == 1 and "/v1/sandboxes" in lines[0] and "200" in lines[0], lines
    assert "hidden" not in lines[0] and server.key not in lines[0], "what may be secret is not"


if __name__ == "__main__":
    sys.exit(check.main(*OPTIONS))
