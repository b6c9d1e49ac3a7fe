#!/usr/bin/env python3
"""What answers at the ports of E2B's sandboxes: the code interpreter, and programs of the client's. e2b_ports.py BERTH [CHECK]"""
import json
import sys
import time

from served import Box, Checks, Server

check = Checks()


def runs(box: Box, code: str) -> list[dict]:
    """The events of one execution."""
    status, _, body = box.server.request("POST", "/execute", json.dumps({"code": code}).encode(),
                                         {**box.headers(49999), "Content-Type": "application/json"})
    assert status == 200, (status, body)
    return [json.loads(line) for line in body.splitlines()]


def result(box: Box, code: str) -> dict:
    """The main result, of code that raises nothing."""
    events = runs(box, code)
    assert not [one for one in events if one["type"] == "error"], events
    return next((one for one in events if one.get("is_main_result")), {})


@check
def what_a_cell_defines_can_be_found_by_its_name(server: Server):
    box = server.create(templateID="code-interpreter-v1")
    runs(box, "import multiprocessing, pickle, typing\nfrom concurrent.futures import ProcessPoolExecutor\n"
              "class A:\n    other: 'B'\nclass B: pass\ndef square(n): return n * n")
    assert result(box, "type(pickle.loads(pickle.dumps(A()))) is A")["text"] == "True"
    assert result(box, "with multiprocessing.get_context('fork').Pool(2) as pool: got = pool.map(square, range(4))\ngot")["text"] == "[0, 1, 4, 9]"
    assert result(box, "with ProcessPoolExecutor(2, multiprocessing.get_context('fork')) as pool: got = list(pool.map(square, range(3)))\n"
                       "got")["text"] == "[0, 1, 4]"
    assert result(box, "typing.get_type_hints(A) == {'other': B}")["text"] == "True"
    assert result(box, "import __main__; __main__.square(5), __name__, 'requests' in globals()")["text"] == "(25, '__main__', False)"
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def what_waits_and_what_is_waited_for_share_a_loop(server: Server):
    box = server.create(templateID="code-interpreter-v1")
    runs(box, "import asyncio\nasync def twice(n):\n    await asyncio.sleep(0)\n    return 2 * n")
    assert result(box, "tasks = [asyncio.create_task(twice(n)) for n in range(3)]\nawait asyncio.gather(*tasks)")["text"] == "[0, 2, 4]"
    assert result(box, "await asyncio.sleep(0)\nasyncio.get_running_loop().is_running()")["text"] == "True"
    assert result(box, "x = await twice(4)") == {} and result(box, "x")["text"] == "8"
    assert result(box, "asyncio.run(twice(5))")["text"] == "10", "what waits for nothing is outside the loop"
    told = runs(box, "await twice(1)\n1 / 0")[-1]
    assert told["name"] == "ZeroDivisionError" and "work_waiting" not in told["traceback"] and "<cell 7>" in told["traceback"], told
    assert runs(box, "print(1)\nyield 1")[1]["name"] == "SyntaxError"
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def lists_and_objects_are_results_as_json(server: Server):
    box = server.create(templateID="code-interpreter-v1")
    got = result(box, "{'a': [1, None, 'x'], 2: True}")
    assert got["json"] == {"a": [1, None, "x"], "2": True} and got["text"] == "{'a': [1, None, 'x'], 2: True}", got
    assert result(box, "[]")["json"] == []
    for code in ("[float('nan')]", "{'a': object()}", "x = []; x.append(x); x", "(1, 2)", "7", "{(1, 2): 3}"):
        got = result(box, code)
        assert "json" not in got and got["text"], (code, got)
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def a_program_has_secrets_of_its_own(server: Server):
    box = server.create()
    program = ("import http.server, json\n"
               "class H(http.server.BaseHTTPRequestHandler):\n"
               "    def do_GET(self):\n"
               "        self.send_response(200); self.end_headers(); self.wfile.write(json.dumps({k.lower(): v for k, v in self.headers.items()}).encode())\n"
               "http.server.HTTPServer(('127.0.0.1', 8000), H).serve_forever()\n")
    held, _ = box.start(f"exec python3 -c '{program.replace(chr(39), chr(34))}'")

    def seen(**more) -> dict:
        headers = {"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "8000", **{k.replace("_", "-"): v for k, v in more.items()}}
        for _ in range(100):  # until it listens
            status, _, body = server.request("GET", "/", headers=headers)
            if status == 200:
                return {name: value for name, value in json.loads(body).items() if name.startswith(("x-a", "e2b"))}
            time.sleep(0.05)
        raise AssertionError((status, body))

    assert seen(X_API_Key="its own", X_Access_Token="another") == {"x-api-key": "its own", "x-access-token": "another"}
    assert seen(X_API_Key=server.key, X_Access_Token=box.token, E2b_Traffic_Access_Token="t") == {}
    assert seen(X_API_Key=box.token, X_Access_Token=server.key + "x") == {"x-api-key": box.token, "x-access-token": server.key + "x"}
    held.close()
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


if __name__ == "__main__":
    sys.exit(check.main())
