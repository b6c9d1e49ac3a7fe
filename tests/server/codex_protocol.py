#!/usr/bin/env python3
"""Codex's exec-server: handshake, resume, processes, files, and what nobody should send.

codex_protocol.py BERTH
"""
import base64
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import codex_client
from codex_client import (Client, RpcError, at, b64, frame, glob, intent, read_only, run_all, special, upgrade, uri,
                          workspace_write)
from memory import bound, largest, resident
from served import Server

PROGRAM = sys.argv[1]


def Place():  # noqa: N802: it makes one
    return codex_client.Place(sys.argv[1])


# -- the table of hygiene ------------------------------------------------------------------------------------------------


def test_malformed_messages_are_answered_and_the_connection_stays():
    with Place() as place:
        client = place.server().client()
        bad = [b"{", b"[]", b"[1,2]", b'"x"', b"{}", b'{"id":1}', b'{"id":{},"method":"x"}', b'{"id":1.5,"method":"x"}',
               b'{"id":1,"id":2,"method":"x"}', b'{"id":1,"method":"x","params":{"a":1,"a":2}}', b'{"method":7}',
               b"[" * 5000, b'{"id":1,"method":"x"} trailing',
               b'{"id":1,"method":"x","params":[' + b"1," * 262_144 + b"1]}"]
        for number, text in enumerate(bad):
            client.answers.pop(-1, None)
            client.raw(text)
            got = client.wait(lambda: client.answers.get(-1))
            assert got["error"]["code"] == -32600, (number, got)
        assert client.call("environment/status") == {"status": "ready"}


def test_text_that_is_not_utf8_ends_the_connection_and_binary_is_a_malformed_message():
    with Place() as place:
        server = place.server()
        client = server.client()
        client.raw(b'{"id":1,"method":"\xff\xfe"}', 2)
        assert client.wait(lambda: client.answers.get(-1))["error"]["code"] == -32600
        client.raw(json.dumps({"id": 77, "method": "environment/status"}).encode(), 2)
        assert client.answer(77) == {"status": "ready"}
        client.raw(b'{"id":1,"method":"\xff\xfe"}')
        assert client.closed()
        assert server.client().call("environment/status")["status"] == "ready"


def test_unknown_methods_are_not_found():
    with Place() as place:
        client = place.server().client()
        for method in ("no/such", "http/request", "process/resize", "fs/chmod", "", "initialize2", "network/x"):
            assert client.code(method, {}) == -32601, method


def test_what_breaks_the_protocol_closes_the_connection():
    with Place() as place:
        server = place.server()
        for text in ({"method": "cancelled"}, {"id": 1, "result": {}}, {"id": 99, "error": {"code": 1, "message": "x"}}):
            client = server.client()
            client.raw(json.dumps(text).encode())
            assert client.closed(), text
        client = server.client(initialize=False)
        client.notify("initialized", {})
        assert client.closed()
        client = server.client()
        client.notify("initialized", {})
        client.notify("initialized", None)
        assert client.call("environment/status")["status"] == "ready"


def test_the_handshake_comes_first_and_once():
    with Place() as place:
        client = place.server().client(initialize=False)
        for method in ("environment/info", "process/start", "fs/readFile"):
            try:
                client.call(method, {})
                raise AssertionError(method)
            except RpcError as error:
                assert error.code == -32600 and "initialize" in error.message, error
        assert client.code("initialize", {}) == -32602
        assert client.code("initialize", {"clientName": 3}) == -32602
        assert client.code("initialize", {"clientName": "x", "resumeSessionId": "gone"}) == -32600
        told = client.call("initialize", {"clientName": "x"})
        assert told["environmentInfo"]["shell"]["path"].startswith("/")
        try:
            client.call("environment/status")
            raise AssertionError
        except RpcError as error:
            assert error.code == -32600 and "initialized" in error.message
        client.notify("initialized", None)
        assert client.call("environment/info", {}) == told["environmentInfo"]
        assert client.code("initialize", {"clientName": "x"}) == -32600


# -- the door ------------------------------------------------------------------------------------------------------------


def test_web_pages_and_other_paths_are_refused():
    with Place() as place:
        port = place.server().port
        assert upgrade(port, Origin="http://127.0.0.1")[1] == 403
        assert upgrade(port, "/elsewhere")[1] == 404
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert s.recv(65536).startswith(b"HTTP/1.1 200")
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert s.recv(65536).startswith(b"HTTP/1.1 400")


def test_a_token_is_asked_for():
    with Place() as place:
        (place.path / "token").write_text("secret-of-ours\n")
        server = place.server("--token-file", str(place.path / "token"))
        assert upgrade(server.port)[1] == 401
        assert upgrade(server.port, Authorization="Bearer secret-of-our")[1] == 401
        assert upgrade(server.port, "/?key=wrong")[1] == 401
        Client(server.port, Authorization="Bearer secret-of-ours").call("environment/status")
        Client(server.port, "/?key=secret-of-ours").call("environment/status")
        assert "secret-of-our" not in server.told()


def test_a_command_with_the_hosts_network_cannot_ask_for_more():
    with Place() as place:
        done = subprocess.run([sys.argv[1], "exec-server", "--net", "host", "--data", str(place.path / "data")], capture_output=True, text=True,
                              timeout=20, check=False)
        assert done.returncode == 5 and "--token-file" in done.stderr, done
        (place.path / "token").write_text("secret-of-ours")
        server = place.server("--net", "host", "--token-file", str(place.path / "token"))
        client = Client(server.port, Authorization="Bearer secret-of-ours")
        box = workspace_write(place.ws, network="enabled")
        assert "secret-of-ours" not in client.run(f"cat {place.path}/token", str(place.ws), box)[1]
        check(client, "fs/readFile", {"path": uri(place.path / "token"), "sandbox": box}, -32600)
        check(client, "fs/readFile", {"path": uri(place.path / "token")}, -32004)


def test_a_workspace_whose_git_is_a_pipe():
    with Place() as place:
        client = place.server().client()
        (place.ws / "sub").mkdir()
        os.mkfifo(place.ws / "sub/.git")
        for _ in range(10):
            client.call("fs/getMetadata", {"path": uri(place.ws), "sandbox": workspace_write(place.ws / "sub")})


def test_serve_has_it_at_codex_behind_keys():
    with Place() as place:
        server = Server(PROGRAM, str(place.path / "data2"), "--codex-root", str(place.ws))
        assert upgrade(server.port, "/codex")[1] == 401
        assert upgrade(server.port, "/codex?key=e2b_0000")[1] == 401
        assert upgrade(server.port, f"/codex?key={server.key}", Origin="http://x.example")[1] == 403
        client = Client(server.port, f"/codex?key={server.key}")
        assert client.run("echo hi > made; cat made", str(place.ws), workspace_write(place.ws)) == (0, "hi\n")
        elsewhere = place.path / "other"
        elsewhere.mkdir()
        try:
            client.start("x", "true", str(elsewhere), workspace_write(elsewhere))
            raise AssertionError("outside of the root")
        except RpcError as error:
            assert error.code == -32602 and "outside" in error.message, error
        assert client.code("process/start", {"processId": "y", "argv": ["true"], "cwd": uri(place.ws), "env": {}, "tty": False}) == -32602
        assert server.key not in pathlib.Path(server.log.name).read_text(encoding="utf-8")
        assert server.stop() == 0


def test_standard_streams_carry_it_too():
    with Place() as place:
        child = subprocess.Popen([PROGRAM, "exec-server", "--stdio", "--data", str(place.path / "data")],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        number = 30_400_000 + os.getpid() % 1000

        def say(**message):
            child.stdin.write(json.dumps(message).encode() + b"\r\n\n")
            child.stdin.flush()

        say(id=1, method="initialize", params={"clientName": "x"})
        assert "sessionId" in json.loads(child.stdout.readline())["result"]
        say(method="initialized")
        say(id=2, method="process/start", params={"processId": "p", "argv": ["sleep", str(number)], "cwd": "file:///",
                                                  "env": {"PATH": "/usr/bin:/bin"}, "tty": False, "sandbox": read_only()})
        assert json.loads(child.stdout.readline())["result"]["processId"] == "p"
        soon(lambda: pids_of(f"sleep {number}"), "it does not run")  # its name shows a moment after it does
        sleeping = set(pids_of(f"sleep {number}"))
        child.stdin.close()
        assert child.wait(60) == 0
        assert not sleeping & set(pids_of(f"sleep {number}"))


# -- resume --------------------------------------------------------------------------------------------------------------


def test_a_session_is_taken_up_again_without_a_missing_number():
    with Place() as place:
        server = place.server()
        first = server.client()
        first.start("p", "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); [ $((i%40)) = 0 ] && sleep 0.05; done; exit 3",
                    sandbox=read_only())
        first.wait(lambda: len(first.of("p")) >= 2)
        seen = {e["params"]["seq"]: e for e in first.of("p")}
        first.cut()
        second = server.client(resume=first.session)
        assert second.session == first.session
        last = max(seen)
        got = second.call("process/read", {"processId": "p", "afterSeq": last, "maxBytes": None, "waitMs": 0})
        pieces = {seq: base64.b64decode(e["params"]["chunk"]) for seq, e in seen.items()}
        pieces.update({c["seq"]: base64.b64decode(c["chunk"]) for c in got["chunks"]})
        second.wait(lambda: got["closed"] or any(e["method"] == "process/closed" for e in second.of("p")))
        for event in second.of("p"):
            if event["method"] == "process/output":
                pieces[event["params"]["seq"]] = base64.b64decode(event["params"]["chunk"])
        assert b"".join(pieces[k] for k in sorted(pieces)) == b"".join(b"line %d\n" % i for i in range(400))
        final = second.call("process/read", {"processId": "p", "afterSeq": 0})
        assert final["exitCode"] == 3 and final["closed"] and final["nextSeq"] == len(pieces) + 3, final


def test_output_of_a_client_that_is_away_waits_for_it():
    with Place() as place:
        server = place.server()
        first = server.client()
        first.start("p", "head -c 20000000 /dev/zero; exit 5", sandbox=read_only())
        first.cut()
        time.sleep(1)
        second = server.client(resume=first.session)
        # What was missed is asked for; what comes from then on is told.
        got = second.call("process/read", {"processId": "p", "afterSeq": 0, "maxBytes": None, "waitMs": 0})
        second.finish_from("p", got, 20_000_000)
        assert got["chunks"][0]["seq"] == 1


def test_a_live_connection_keeps_its_session_and_a_dead_one_loses_it():
    with Place() as place:
        server = place.server()
        first = server.client()
        second = server.client(initialize=False)
        assert second.code("initialize", {"clientName": "x", "resumeSessionId": first.session}) == -32010
        assert first.call("environment/status")["status"] == "ready"
        # A peer that answers nothing any more, not even a ping: its socket still looks alive.
        mute, status, _ = upgrade(server.port)
        assert status == 101
        mute.sendall(frame(json.dumps({"id": 1, "method": "initialize", "params": {"clientName": "m"}}).encode()))
        told = b""
        while not told.endswith(b"}"):
            told += mute.recv(65536)
        session = json.loads(told[told.index(b"{"):])["result"]["sessionId"]
        soon(lambda: second.code("initialize", {"clientName": "x", "resumeSessionId": session}) != -32010, "it is still attached")
        second.notify("initialized")
        assert second.call("environment/status")["status"] == "ready"


# -- processes -----------------------------------------------------------------------------------------------------------


def test_processes_tell_everything_in_order():
    with Place() as place:
        client = place.server().client()
        client.start("both", "echo out; echo err >&2; exit 7", sandbox=read_only())
        assert client.finish("both")[0] == 7
        assert output_of(client, "both", "stdout") == b"out\n" and output_of(client, "both", "stderr") == b"err\n"  # two pipes have no order
        assert client.run("kill -9 $$", sandbox=read_only())[0] == 137
        code, text = client.run(["env"], sandbox=read_only(), env={})
        assert (code, text) == (0, "")
        code, text = client.run(["/bin/sh", "-c", "read x; echo got $x"], sandbox=read_only())
        assert text == "got\n"  # there is nothing to read
        started = client.start("s", "true", sandbox=read_only())
        assert started == {"processId": "s", "sandboxType": "linuxSeccomp"}
        client.finish("s")
        big = client.run("head -c 3000000 /dev/zero | tr '\\0' x", sandbox=read_only())
        assert big == (0, "x" * 3_000_000)
        assert all(len(base64.b64decode(e["params"]["chunk"])) <= 8192 for e in client.events if e["method"] == "process/output")


def test_ids_are_used_once():
    with Place() as place:
        client = place.server().client()
        client.start("p", "sleep 1000", sandbox=read_only())
        for _ in range(2):
            try:
                client.start("p", "true", sandbox=read_only())
                raise AssertionError
            except RpcError as error:
                assert error.code == -32600 and "already exists" in error.message
            client.call("process/terminate", {"processId": "p"})
            client.finish("p")
        assert client.call("process/terminate", {"processId": "p"}) == {"running": False}


def test_what_is_unknown():
    with Place() as place:
        client = place.server().client()
        assert client.code("process/read", {"processId": "none", "afterSeq": 0}) == -32600
        assert client.call("process/signal", {"processId": "none", "signal": "interrupt"}) == {}
        assert client.call("process/terminate", {"processId": "none"}) == {"running": False}
        assert client.code("fs/readBlock", {"handleId": "none", "offset": 0, "len": 1}) == -32004
        assert client.code("fs/writeBlock", {"handleId": "none", "offset": 0, "chunk": b64(b"x")}) == -32004
        assert client.call("fs/close", {"handleId": "none"}) == {}
        assert place.server().client(initialize=False).code("initialize", {"clientName": "x", "resumeSessionId": client.session}) == -32600


def test_a_write_after_the_exit_is_taken_and_reaches_nobody():
    with Place() as place:
        client = place.server().client()
        client.start("p", "exit 3", sandbox=read_only(), pipeStdin=True)
        assert client.finish("p") == (3, "")
        for number in range(3):
            got = client.call("process/write", {"processId": "p", "writeId": str(number), "chunk": b64(b"x" * (1 << 20))})
            assert got["status"] in ("accepted", "stdinClosed"), got
        assert client.call("environment/status")["status"] == "ready"


def test_as_many_values_as_are_allowed_and_one_more():
    with Place() as place:
        client = place.server().client()
        # The object, its three members, and what is in the array.
        for more, known in ((0, True), (1, False)):
            client.answers.clear()
            text = json.dumps({"id": 5, "method": "environment/status", "params": [1] * (262_144 - 4 + more)}).encode()
            client.raw(text)
            client.wait(lambda: client.answers)
            assert (5 in client.answers) == known, (more, list(client.answers))


def test_start_errors():
    with Place() as place:
        client = place.server().client()
        good = {"processId": "p", "argv": ["true"], "cwd": uri(place.ws), "env": {}, "tty": False, "sandbox": read_only(place.ws)}
        for change, code in [({"argv": []}, -32602), ({"argv": ["a\0b"]}, -32602), ({"cwd": "/tmp"}, -32602),
                             ({"cwd": "file://host/x"}, -32602), ({"cwd": "file:///C:/x"}, -32602), ({"cwd": "file:///a%00"}, -32602),
                             ({"cwd": uri("/no/such")}, -32603), ({"argv": ["/no/such"]}, -32603), ({"argv": ["no-such-thing"]}, -32603),
                             ({"tty": "yes"}, -32602), ({"env": {"A=B": "x"}}, -32602), ({"env": {"A": 1}}, -32602),
                             ({"envPolicy": {"inherit": "some", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}}, -32602),
                             ({"envPolicy": {"inherit": "all"}}, -32602), ({"processId": ""}, -32602), ({"processId": None}, -32602),
                             ({"enforceManagedNetwork": True}, -32602), ({"networkProxy": {}}, -32602), ({"sandbox": None}, -32602),
                             ({"sandbox": {}}, -32602), ({"sandbox": {"permissions": {"type": "loose"}}}, -32602)]:
            assert client.code("process/start", {**good, **change}) == code, change
        assert client.code("process/start", good) == 0
        # What is of another platform may be missing, and older clients leave more out; a word that nobody knows is an error everywhere.
        bare = {"permissions": good["sandbox"]["permissions"]}
        assert client.run("echo fine", place.ws, bare) == (0, "fine\n")
        assert client.call("fs/readDirectory", {"path": uri(place.ws), "sandbox": bare}) == {"entries": []}
        for change in ({"windowsSandboxLevel": "new"}, {"windowsSandboxProxySettingsMode": "new"}, {"useLegacyLandlock": "yes"},
                       {"windowsSandboxLevel": 7}):
            assert client.code("process/start", {**good, "processId": "q", "sandbox": {**bare, **change}}) == -32602, change
            assert client.code("fs/readDirectory", {"path": uri(place.ws), "sandbox": {**bare, **change}}) == -32602, change


def test_a_program_may_have_another_name():
    """arg0 is what it finds in argv[0]; argv[0] still says what is executed."""
    with Place() as place:
        client = place.server("--unsandboxed", "allow").client()
        patterns = intent([special("root", "read"), special("project_roots", "write"), glob("codex-project-roots://**/*.env")], place.ws)
        show = "tr '\\0' '|' < /proc/$$/cmdline"
        for box in (None, workspace_write(place.ws), patterns):
            for argv in (["sh", "-c", show], ["/bin/sh", "-c", show]):
                for tty in (False, True):
                    assert client.run(argv, place.ws, box, arg0="-a name", tty=tty) == (0, f"-a name|-c|{show}|"), (box, argv)
        assert client.run(["/bin/sh", "-c", show], place.ws, arg0="") == (0, f"|-c|{show}|")
        assert client.run(["/bin/sh", "-c", show], place.ws, arg0=None) == (0, f"/bin/sh|-c|{show}|")
        good = {"processId": "p", "argv": ["true"], "cwd": uri(place.ws), "env": {}, "tty": False}
        assert client.code("process/start", {**good, "arg0": "a\0b"}) == -32602
        assert client.code("process/start", {**good, "arg0": 7}) == -32602
        assert client.code("process/start", {**good, "argv": ["/no/such"], "arg0": "true"}) == -32603


def test_the_environment_is_what_the_policy_says():
    with Place() as place:
        environment = {"PATH": os.environ["PATH"], "HOME": "/", "BERTH_API_KEY": "hidden", "LANG": "C", "MINE": "1", "MY_TOKEN": "t"}
        client = place.server("--pass-env", "M*", environment=environment).client()

        def env(**policy):
            whole = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": [], **policy}
            code, text = client.run(["/usr/bin/env"], sandbox=read_only(), envPolicy=whole, env={"SENT": "2"})
            assert code == 0
            return dict(line.split("=", 1) for line in text.splitlines())

        got = env()
        assert got["MINE"] == "1" and got["MY_TOKEN"] == "t" and got["SENT"] == "2" and "BERTH_API_KEY" not in got
        assert "MY_TOKEN" not in env(ignoreDefaultExcludes=False)
        assert "MINE" not in env(inherit="core") and env(inherit="core")["LANG"] == "C"
        assert env(inherit="none", set={"A": "b"}) == {"A": "b", "SENT": "2"}
        assert "MINE" not in env(exclude=["mi?e"])
        assert set(env(includeOnly=["L*"])) == {"LANG", "SENT"}


def test_input_keeps_its_order_and_is_taken_once():
    with Place() as place:
        client = place.server().client()
        client.start("p", "cat", sandbox=read_only(), pipeStdin=True)
        numbers = [client.send("process/write", {"processId": "p", "writeId": str(i), "chunk": b64(b"%d\n" % i)}) for i in range(200)]
        assert all(client.answer(n)["status"] == "accepted" for n in numbers)
        assert client.call("process/write", {"processId": "p", "writeId": "7", "chunk": b64(b"again\n")})["status"] == "accepted"
        text = "".join("%d\n" % i for i in range(200))
        client.wait(lambda: sum(len(base64.b64decode(e["params"]["chunk"])) for e in client.of("p")) >= len(text))
        client.call("process/terminate", {"processId": "p"})
        assert client.finish("p") == (137, text)
        assert client.call("process/write", {"processId": "p", "writeId": "x", "chunk": ""})["status"] == "accepted"
        assert client.call("process/write", {"processId": "q", "writeId": "1", "chunk": ""})["status"] == "unknownProcess"
        client.start("r", "sleep 1000", sandbox=read_only())
        assert client.call("process/write", {"processId": "r", "writeId": "1", "chunk": ""})["status"] == "stdinClosed"
        assert client.code("process/write", {"processId": "r", "writeId": "", "chunk": ""}) == -32602
        assert client.code("process/write", {"processId": "r", "writeId": "2", "chunk": "!"}) == -32602


def test_a_process_that_reads_nothing_delays_nobody():
    with Place() as place:
        client = place.server().client()
        client.start("p", "sleep 1000", sandbox=read_only(), pipeStdin=True)
        stuck = [client.send("process/write", {"processId": "p", "writeId": str(i), "chunk": b64(bytes(1 << 20))}) for i in range(8)]
        poll = client.send("process/read", {"processId": "p", "waitMs": 600_000})
        assert client.call("environment/status")["status"] == "ready"
        assert client.run("echo quick", sandbox=read_only()) == (0, "quick\n")
        assert client.call("process/terminate", {"processId": "p"}) == {"running": True}
        assert client.answer(poll)["exitCode"] == 137
        assert all(client.answer(n)["status"] == "accepted" for n in stuck)


def test_a_terminal():
    with Place() as place:
        client = place.server().client()
        client.start("p", ["/bin/bash", "-c", "stty size; tty; read x; echo got:$x; cat"], sandbox=read_only(), tty=True)
        client.wait(lambda: b"/dev/pts" in b"".join(base64.b64decode(e["params"]["chunk"]) for e in client.of("p")))
        client.call("process/write", {"processId": "p", "writeId": "1", "chunk": b64(b"abc\n")})
        client.wait(lambda: b"got:abc" in b"".join(base64.b64decode(e["params"]["chunk"]) for e in client.of("p")))
        client.call("process/write", {"processId": "p", "writeId": "2", "chunk": b64(b"\x04")})
        code, text = client.finish("p")
        assert code == 0 and text.startswith("24 80\r\n"), text
        assert all(e["params"]["stream"] == "pty" for e in client.of("p") if e["method"] == "process/output")


def test_signals_reach_the_command():
    with Place() as place:
        client = place.server().client()
        client.start("p", "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.1; done", sandbox=read_only())
        client.wait(lambda: client.of("p"))
        assert client.call("process/signal", {"processId": "p", "signal": "interrupt"}) == {}
        assert client.finish("p") == (4, "ready\ncaught\n")
        assert client.call("process/signal", {"processId": "p", "signal": "interrupt"}) == {}
        assert client.call("process/signal", {"processId": "nobody", "signal": "interrupt"}) == {}
        assert client.code("process/signal", {"processId": "p", "signal": "kill"}) == -32602


def test_many_processes_in_one_session():
    with Place() as place:
        client = place.server().client()
        names = [f"m{i}" for i in range(1000)]
        numbers = [client.send("process/start", {"processId": n, "argv": ["/bin/echo", n], "cwd": "file:///", "env": {}, "tty": False,
                                                 "sandbox": read_only()}) for n in names]
        for number in numbers:
            client.answer(number, 240)
        for name in names:
            assert client.finish(name, 240) == (0, name + "\n")


# -- intents -------------------------------------------------------------------------------------------------------------


def refused(client, script: str, cwd, sandbox, reason: str) -> None:
    try:
        client.start(f"refused{next(client.numbers)}", script, str(cwd), sandbox)
        raise AssertionError(f"it ran: {reason}")
    except RpcError as error:
        assert error.code == -32602 and reason in error.message, str(error)


def test_a_workspace_that_is_a_link():
    with Place() as place:
        client = place.server().client()
        link = place.path / "link"
        link.symlink_to(place.ws)
        box = workspace_write(link)
        assert client.run(f"cd {link} && echo one > by-link; touch {place.path}/no; touch .git/x; ls -A", str(link), box)[1].count("Read-only") == 2
        assert (place.ws / "by-link").read_text() == "one\n" and not (place.path / "no").exists()
        check(client, "fs/writeFile", {"path": uri(link / "by-fs"), "dataBase64": b64(b"two"), "sandbox": box})
        assert (place.ws / "by-fs").read_text() == "two"
        check(client, "fs/writeFile", {"path": uri(link / ".git/x"), "dataBase64": "", "sandbox": box}, -32004)
        check(client, "fs/createDirectory", {"path": uri(link / ".git"), "sandbox": box}, -32603)


def test_a_denied_path_stays_denied_wherever_its_parents_go():
    with Place() as place:
        client = place.server().client()
        (place.ws / "a/b").mkdir(parents=True)
        (place.ws / "a/b/key").write_text("secret words")
        box = intent([special("root", "read"), special("project_roots", "write"), at(place.ws / "a/b", "deny"), at(place.ws / "a", "write")], place.ws)
        for script in ("cat a/b/key", "mv a moved; cat moved/b/key; cat a/b/key", "ln a/b/key k; cat k", "ln -s a/b l; cat l/key",
                       f"cat /proc/self/root{place.ws}/a/b/key", f"cat /proc/1/root{place.ws}/a/b/key", "cp -r a c; cat c/b/key",
                       "rm -rf a/b; mkdir -p a/b; cat a/b/key"):
            assert "secret words" not in client.run(script, str(place.ws), box)[1], script
            if (place.ws / "moved").exists():
                (place.ws / "moved").rename(place.ws / "a")
            assert (place.ws / "a/b/key").read_text() == "secret words", script
            subprocess.run(["rm", "-rf", str(place.ws / "c"), str(place.ws / "l")], check=True)
        (place.ws / "by").symlink_to("a/b")
        for path in ("a/b/key", "by/key", "a/../a/b/key", "a/./b/key"):
            check(client, "fs/readFile", {"path": uri(place.ws) + "/" + path, "sandbox": box}, -32600)
        check(client, "fs/readDirectory", {"path": uri(place.ws / "a/b"), "sandbox": box}, -32600)
        check(client, "fs/remove", {"path": uri(place.ws / "a"), "sandbox": box}, -32600)
        check(client, "fs/copy", {"sourcePath": uri(place.ws / "a"), "destinationPath": uri(place.ws / "c"), "recursive": True, "sandbox": box}, -32600)
        check(client, "fs/copy", {"sourcePath": uri(place.ws / "a/b/key"), "destinationPath": uri(place.ws / "c"), "recursive": False, "sandbox": box}, -32600)
        walked = client.call("fs/walk", {"path": uri(place.ws), "sandbox": box, "options": {"maxDepth": 5, "maxDirectories": 9, "maxEntries": 99,
                             "followDirectorySymlinks": True}})
        assert not any(e["path"].endswith("key") for e in walked["entries"])
        assert (place.ws / "a/b/key").read_text() == "secret words"


def test_what_cannot_be_held_is_refused_by_name():
    with Place() as place:
        client = place.server().client()
        base = [special("root", "read"), special("project_roots", "write")]
        (place.path / "elsewhere").mkdir()
        (place.ws / "link").symlink_to(place.path / "elsewhere")
        refused(client, "true", place.ws, intent([*base, special("project_roots", "deny", subpath="link")], place.ws), "link")
        refused(client, "true", place.ws, intent([*base, glob("**.env")], place.ws), ".env")
        refused(client, "true", place.ws, intent(None, place.ws), "restricted network")
        refused(client, "true", place.ws, intent([special("root", "write")], place.ws), "write everywhere")
        refused(client, "true", place.ws, intent([special("root", "write")], place.ws, network="enabled"), "no sandbox was asked for")
        refused(client, "true", place.ws, intent([special("root", "write"), special("project_roots", "read", subpath=".git")], place.ws),
                "everything writable")
        refused(client, "true", place.ws, intent([], place.ws), "grants nothing")
        refused(client, "true", place.ws, intent([*base, at("/proc", "write")], place.ws), "/proc")
        refused(client, "true", place.ws, intent([*base, at(place.path / "data", "write")], place.ws), "state")
        refused(client, "true", place.ws, None, "no sandbox was asked for")
        refused(client, "true", place.ws, {"permissions": {"type": "disabled"}, "cwd": uri(place.ws)}, "no sandbox was asked for")
        assert names_in(place.ws) == ["link"]
        # Writing everywhere is no sandbox, however it is said.
        client = place.server("--unsandboxed", "allow").client()
        everywhere = intent([special("root", "write")], place.ws, network="enabled")
        assert client.start("p", f"touch {place.path}/out", place.ws, everywhere)["sandboxType"] == "none"
        assert client.finish("p") == (0, "") and (place.path / "out").exists()
        check(client, "fs/writeFile", {"path": uri(place.path / "out2"), "dataBase64": "", "sandbox": everywhere})


def denied_as_told(client, script: str, place, box) -> tuple[str, bool]:
    """What a command printed, and whether a refusal was told of it, by the event and by the answer."""
    name = f"told{next(client.numbers)}"
    client.start(name, script, str(place.ws), box)
    output = client.finish(name)[1]
    told = next(e["params"]["sandboxDenied"] for e in client.of(name) if e["method"] == "process/exited")
    read = client.call("process/read", {"processId": name, "afterSeq": 0, "maxBytes": None, "waitMs": 0})
    assert read["sandboxDenied"] == told
    return output, told


def test_deny_patterns_hold_for_commands_and_for_what_is_made_later():
    with Place() as place:
        client = place.server().client()
        box = intent([special("root", "read"), special("project_roots", "write"), special("slash_tmp", "write"),
                      glob("codex-project-roots://**/*.env"), glob("codex-project-roots://vault/**")], place.ws)
        (place.ws / "deep").mkdir()
        (place.ws / "vault").mkdir()
        for name in ("a.env", "deep/b.env", "vault/key"):
            (place.ws / name).write_text("secret words")
        (place.ws / "open").write_text("mine")
        subprocess.run(["chmod", "-R", "a+rwX", str(place.ws)], check=True)
        aside = f"/tmp/{place.path.name}"
        for script in ("cat a.env", "cat deep/b.env vault/key", "mv a.env b; cat b", "mv vault v; cat v/key; rm -rf v", "ln a.env l; cat l",
                       "ln -s a.env s; cat s; rm s", f"cat /proc/self/root{place.ws}/a.env", "cd deep && cat b.env",
                       "cp -r deep copy; cat copy/*; rm -rf copy", f"mv deep {aside}; cat {aside}/*; rm -rf {aside}",
                       "exec 3< .; cat /proc/self/fd/3/a.env", "dd if=a.env status=none", "tar cf - a.env", "sh a.env"):
            output, told = denied_as_told(client, script, place, box)
            assert "secret words" not in output and told, (script, output)
            for name in ("a.env", "deep/b.env", "vault/key"):
                assert (place.ws / name).read_text() == "secret words", (script, name)
        # What is not denied is at hand, and nothing is told that did not happen.
        assert denied_as_told(client, "cat open; echo more > x; mv x y; cat y; rm y; ls deep", place, box) == ("minemore\nb.env\n", False)
        assert denied_as_told(client, "echo permission denied; exit 1", place, box) == ("permission denied\n", False)
        # Made later: by the command itself, which cannot, and by somebody else while it runs.
        output, told = denied_as_told(client, "echo secret words > made.env; cat made.env", place, box)
        assert "secret words" not in output and told and not (place.ws / "made.env").exists()
        client.start("later", "until [ -e later.env ]; do :; done; cat later.env; cat open", str(place.ws), box)
        (place.ws / "later.env").write_text("secret words")
        output = client.finish("later")[1]
        assert "secret words" not in output and "mine" in output, output
        code, output = client.run(["/bin/bash", "-c", "cat <(echo through); tty; echo typed > /dev/tty"], str(place.ws), box, tty=True)
        assert code == 0 and "through" in output and "/dev/pts/" in output and "typed" in output, output
        assert names_in(place.ws) == ["a.env", "deep", "later.env", "open", "vault"]


def test_alternatives_of_a_deny_pattern_are_held_and_what_is_not_understood_is_refused():
    with Place() as place:
        client = place.server().client()
        (place.ws / "secret").mkdir()
        (place.ws / "secret/a.pem").write_text("secret words")
        (place.ws / "open").write_text("mine")
        read = lambda name, box: client.code("fs/readFile", {"path": uri(place.ws / name), "sandbox": box})  # noqa: E731
        for pattern in ("**/*.{pem,env}", "codex-project-roots://**/*.{env,pem}", "secret/{a}.pem", "{open2,secret}/{b,a}.pem",
                        "secret/{b,{c,a}}.p*"):
            box = intent([special("root", "read"), special("project_roots", "write"), glob(pattern)], place.ws)
            assert "secret words" not in client.run("cat secret/a.pem; cat open", str(place.ws), box)[1], pattern
            assert read("secret/a.pem", box) == -32600 and read("open", box) == 0, pattern
        for pattern in ("secret/a\\.pem", "secret/*\\.pem", "secret/{a.pem", "secret/a}.pem", "secret/{,a}.pem"):
            box = intent([special("root", "read"), special("project_roots", "write"), glob(pattern)], place.ws)
            refused(client, "true", place.ws, box, "pattern")
            assert read("open", box) == -32602, pattern


def test_a_relative_deny_pattern_needs_a_directory():
    with Place() as place:
        client = place.server().client()
        (place.ws / "secret").mkdir()
        (place.ws / "secret/a.pem").write_text("secret words")
        box = intent([special("root", "read"), special("project_roots", "write"), glob("secret/*.pem")], place.ws)
        read = lambda: client.code("fs/readFile", {"path": uri(place.ws / "secret/a.pem"), "sandbox": box})  # noqa: E731
        assert read() == -32600
        del box["cwd"]
        assert read() == -32602
        # A command has one.
        assert "secret words" not in client.run("cat secret/a.pem", str(place.ws), box)[1]


def test_nothing_is_written_through_a_protected_name():
    with Place() as place:
        client = place.server().client()
        box = intent([special("root", "read"), special("project_roots", "write")], place.ws)
        (place.ws / "real").mkdir()
        (place.ws / "real/config").write_text("old")
        (place.ws / "sub").mkdir()
        write = lambda name: client.code("fs/writeFile", {"path": uri(place.ws / name), "dataBase64": b64(b"new"), "sandbox": box})  # noqa: E731
        # At the top nothing can be held, so neither commands nor files are served; deeper the way there is closed.
        (place.ws / ".git").symlink_to("real")
        refused(client, "true", place.ws, box, "symbolic link")
        assert write(".git/config") == -32602
        (place.ws / ".git").unlink()
        (place.ws / "sub/.git").symlink_to("../real")
        (place.ws / "by").symlink_to("sub")
        for name in ("sub/.git/config", "by/.git/config", "by/.git/new"):
            assert write(name) == -32603, name
        assert client.code("fs/createDirectory", {"path": uri(place.ws / "sub/.git/d"), "sandbox": box}) == -32603
        assert client.code("fs/copy", {"sourcePath": uri("/etc/passwd"), "destinationPath": uri(place.ws / "sub/.git/p"), "recursive": False,
                                       "sandbox": box}) == -32603
        # A workspace may lie below such a name, and something in one may be granted.
        below = place.path / ".codex/w"
        (below / ".git/x").mkdir(parents=True)
        inner = intent([special("root", "read"), special("project_roots", "write"), special("project_roots", "read", subpath=".git"),
                        special("project_roots", "write", subpath=".git/x")], below)
        for name, expected in (("f", 0), (".git/f", -32603), (".git/x/f", 0)):
            assert client.code("fs/writeFile", {"path": uri(below / name), "dataBase64": "", "sandbox": inner}) == expected, name
        assert names_in(place.ws / "real") == ["config"] and (place.ws / "real/config").read_text() == "old"
        (place.ws / "sub/.git").unlink()
        for text in ("gitdir: real\r\n", "gitdir : real \n", "\tgitdir:real"):
            (place.ws / ".git").write_text(text, newline="")
            assert write("real/config") == -32603, text
            assert "Read-only" in client.run("echo new > real/config", str(place.ws), box)[1], text


def test_nobody_is_told_whether_something_denied_is_there():
    """Nor of what kind it is: every question about it has one answer."""
    with Place() as place:
        client = place.server().client()
        (place.ws / "secret/dir").mkdir(parents=True)
        (place.ws / "secret/there").write_text("secret words")
        (place.ws / "open").write_text("mine")
        for name, target in (("l1", "secret/there"), ("l2", "secret/absent"), ("l3", "secret/dir"), ("l4", "l2"), ("l5", f"{place.ws}/secret/absent/x"),
                             ("mine", "open"), ("nowhere", "not-there")):
            (place.ws / name).symlink_to(target)
        box = intent([special("root", "read"), special("project_roots", "write"), special("project_roots", "deny", subpath="secret")], place.ws)

        def code(method, name, **more):
            return client.code(method, {"path": uri(place.ws / name), "sandbox": box, **more})

        for name in ("secret/there", "secret/absent", "secret/dir", "secret/there/x", "secret/absent/x", "secret/dir/x", "l1", "l2", "l3", "l4", "l5",
                     "l1/x", "l2/x", "l3/x"):
            for method in ("fs/getMetadata", "fs/readFile", "fs/readDirectory", "fs/canonicalize"):
                assert code(method, name) == -32600, (method, name)
            assert code("fs/writeFile", name, dataBase64="") == -32600, name
            assert code("fs/open", name, handleId="h") == -32600, name
            assert code("fs/createDirectory", name + "/new") == -32600, name
            assert code("fs/createDirectory", name, recursive=False) == -32600, name
            assert code("fs/remove", name + "/y", force=False) == -32600, name
            assert code("fs/remove", name + "/y") == -32600, name
        for name in ("secret/there", "secret/absent", "secret/there/x", "secret/absent/x"):
            assert code("fs/getMetadata", name, followSymlinks=False) == -32600, name
        shown = {e["fileName"]: (e["isFile"], e["isDirectory"]) for e in client.call("fs/readDirectory", {"path": uri(place.ws), "sandbox": box})["entries"]}
        assert shown == {"secret": (False, True), "open": (True, False), "mine": (True, False)}, shown
        # What is not denied is told as ever.
        assert code("fs/getMetadata", "nowhere") == code("fs/getMetadata", "absent") == -32004
        assert code("fs/getMetadata", "open/x") == -32603 and code("fs/writeFile", "mine", dataBase64="") == 0


def test_what_narrow_reads_do_not_show_is_not_there():
    with Place() as place:
        client = place.server().client()
        (place.path / "other").mkdir()
        (place.path / "other/f").write_text("secret words")
        (place.ws / "secret").mkdir()
        (place.ws / "out").symlink_to(place.path / "other/f")
        box = intent([special("minimal", "read"), special("project_roots", "write"), special("project_roots", "deny", subpath="secret")], place.ws)
        for path in ("/var/lib/dpkg/status", "/var/lib/dpkg/nope", "/srv", "/nope", "/root/x", "/root/x/y", place.path / "other", place.path / "other/f",
                     place.path / "other/f/x", place.path / "other/nope", place.ws / "out", place.ws / "nope"):
            assert client.run(f"test -e {path}; echo $?", str(place.ws), box)[1] == "1\n", path
            for method in ("fs/getMetadata", "fs/readFile", "fs/readDirectory", "fs/canonicalize"):
                assert client.code(method, {"path": uri(path), "sandbox": box}) == -32004, (method, path)
            assert client.code("fs/remove", {"path": uri(f"{path}/y"), "sandbox": box}) == 0, path
        assert client.code("fs/writeFile", {"path": uri(place.path / "other/f"), "dataBase64": "", "sandbox": box}) == -32004
        assert client.code("fs/remove", {"path": uri(place.path / "other"), "sandbox": box}) == 0
        assert (place.path / "other/f").read_text() == "secret words"
        for path, expected in ((place.ws, 0), (place.path, 0), ("/usr", 0), (place.ws / "secret", -32600), (place.ws / "secret/x", -32600)):
            assert client.code("fs/getMetadata", {"path": uri(path), "sandbox": box}) == expected, path


def test_what_is_denied_cannot_be_made():
    with Place() as place:
        client = place.server().client()
        base = [special("root", "read"), special("project_roots", "write")]
        for below, access in (("later", "deny"), ("vendor", "read"), ("deep/er/still", "deny")):
            box = intent([*base, special("project_roots", access, subpath=below)], place.ws)
            code, text = client.run(f"mkdir -p {below} 2>/dev/null; touch {below}/x 2>/dev/null && echo made; touch free && echo free", str(place.ws), box)
            assert text == "free\n", (below, text)
            check(client, "fs/writeFile", {"path": uri(place.ws / below), "dataBase64": "", "sandbox": box},
                  -32600 if access == "deny" else -32603)
            empty_soon(place.ws, ["free"])


def test_what_asks_for_no_sandbox_can_be_confined():
    with Place() as place:
        client = place.server("--unsandboxed", "confine").client()
        code, text = client.run(f"echo in > f; touch {place.path}/out 2>/dev/null || echo kept; cat f", str(place.ws))
        assert text.endswith("kept\nin\n") and not (place.path / "out").exists(), text
        check(client, "fs/writeFile", {"path": uri(place.ws / "g"), "dataBase64": ""}, -32603)


def test_what_asks_for_no_sandbox_is_confined_alike_for_commands_and_files():
    with Place() as place:
        client = place.server("--unsandboxed", "confine", "--root", str(place.ws)).client()
        disabled = {"permissions": {"type": "disabled"}, "windowsSandboxLevel": "disabled"}
        for box in (None, disabled):
            write = lambda path: client.code("fs/writeFile", {"path": uri(path), "dataBase64": b64(b"x"), "sandbox": box})  # noqa: E731, B023
            assert write(place.ws / "g") == 0
            assert client.run("cat g; echo y > g; cat g", str(place.ws), box)[1].endswith("xy\n")
            assert write(place.ws / "g") == 0
            assert write(place.path / "out") == -32603 and not (place.path / "out").exists()
            assert client.code("fs/createDirectory", {"path": uri(place.ws / ".git"), "sandbox": box}) == -32603
            assert client.code("fs/remove", {"path": uri(place.ws), "sandbox": box}) == -32603
        assert names_in(place.ws) == ["g"]


def test_without_an_intent_temporary_directories_show_what_everybody_may_read():
    """A command owns them, so that it can work; whoever only looks around is a stranger."""
    with Place() as place, tempfile.NamedTemporaryFile(dir="/tmp") as private, tempfile.NamedTemporaryFile(dir="/tmp") as public:
        os.chmod(public.name, 0o644)
        for options in ((), ("--root", str(place.ws))):
            client = place.server(*options).client()
            check(client, "fs/readFile", {"path": uri(private.name)}, -32004 if os.geteuid() == 0 else 0)
            check(client, "fs/readFile", {"path": uri(public.name)})
            check(client, "fs/writeFile", {"path": uri(public.name), "dataBase64": ""}, -32603)


def test_the_commands_own_tmpdir_widens_nothing():
    with Place() as place:
        client = place.server().client()
        (place.path / "mine").mkdir()
        code, text = client.run(f"touch {place.path}/mine/x 2>/dev/null || echo kept", str(place.ws), workspace_write(place.ws),
                                env={"PATH": "/usr/bin:/bin", "TMPDIR": str(place.path / "mine")})
        assert text.endswith("kept\n") and not (place.path / "mine/x").exists()


def test_files_change_places_while_they_are_looked_at():
    """A command swaps a directory for a link to what it may not have, as fast as it can: nothing gets through."""
    with Place() as place:
        client = place.server().client()
        (place.ws / "d").mkdir()
        (place.ws / "d/f").write_text("mine")
        (place.path / "hidden").mkdir()
        (place.path / "hidden/f").write_text("secret words")
        box = intent([special("root", "read"), special("project_roots", "write"), at(place.path / "hidden", "deny")], place.ws)
        client.start("swap", f"ln -s {place.path}/hidden l; while :; do mv -T d e; mv -T l d; mv -T d l; mv -T e d; done", str(place.ws), box)
        numbers = []
        for i in range(1500):
            numbers.append(client.send("fs/readFile", {"path": uri(place.ws / "d/f"), "sandbox": box}))
            numbers.append(client.send("fs/writeFile", {"path": uri(place.ws / "d/f"), "dataBase64": b64(b"mine"), "sandbox": box}))
        for number in numbers:
            try:
                got = client.answer(number)
                assert got.get("dataBase64", "") != b64(b"secret words")
            except RpcError as error:
                assert error.code in (-32600, -32603, -32004), str(error)
        client.call("process/terminate", {"processId": "swap"})
        assert (place.path / "hidden/f").read_text() == "secret words"


# -- ends ----------------------------------------------------------------------------------------------------------------


def pids_of(command: str) -> list[int]:
    out = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip() == command:
                out.append(int(entry.name))
        except OSError:
            pass
    return out


def soon(holds, what, seconds: float = 90) -> None:
    """`what` may be a function that tells how things stand."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.05)


def gone(command: str) -> None:
    soon(lambda: not pids_of(command), lambda: (command, pids_of(command)))


def stands_still(pid: int) -> bool:
    """It has used no processor for a while: whoever should read from it does not. One that only had to wait for its turn is found running."""
    def used() -> tuple:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[0], fields[11], fields[12]
    before = used()
    for _ in range(10):
        time.sleep(0.05)
        if used() != before or before[0] == "R":
            return False
    return True


def output_of(client, name: str, stream: str) -> bytes:
    return b"".join(base64.b64decode(e["params"]["chunk"]) for e in client.of(name)
                    if e["method"] == "process/output" and e["params"]["stream"] == stream)


def groups_of(makers: list[int]) -> list[str]:
    """Control groups that are named after one of these processes."""
    found = subprocess.run(["find", "/sys/fs/cgroup", "-type", "d", "-path", "*berth*"], capture_output=True, text=True, check=False).stdout
    return [line for line in found.splitlines()
            if any(str(pid) in line.rsplit("/", 1)[1].replace("-", ".").replace("_", ".").split(".") for pid in makers)]


def names_in(directory: pathlib.Path) -> list[str]:
    return sorted(p.name for p in directory.iterdir())


def empty_soon(directory: pathlib.Path, expected: list[str]) -> None:
    soon(lambda: names_in(directory) == expected, lambda: names_in(directory))


def test_nothing_is_left_behind_however_it_ends():
    with Place() as place:
        (place.ws / "kept").write_text("kept")
        server = place.server()
        number = 31_400_000 + os.getpid() % 1000

        def begin(client, name):
            client.start(name, f"echo new > written; echo ready; sleep {number}", str(place.ws), workspace_write(place.ws))
            client.wait(lambda: client.of(name))
            # What it says comes before its last command: who looks for that must not find it gone before it was there.
            soon(lambda: pids_of(f"sleep {number}"), "it does not run")

        client = server.client()
        begin(client, "a")
        client.call("process/terminate", {"processId": "a"})
        client.finish("a")
        gone(f"sleep {number}")
        empty_soon(place.ws, ["kept", "written"])
        begin(client, "b")
        assert server.stop() == 0
        gone(f"sleep {number}")
        empty_soon(place.ws, ["kept", "written"])
        server = place.server()
        client = server.client()
        begin(client, "c")
        assert ".git" in names_in(place.ws)  # held as long as it runs
        server.kill()
        gone(f"sleep {number}")
        empty_soon(place.ws, ["kept", "written"])
        assert (place.ws / "kept").read_text() == "kept" and (place.ws / "written").read_text() == "new\n"
        mounts = pathlib.Path("/proc/self/mounts").read_text()
        assert str(place.path) not in mounts
        # By the kill of a connection, too, once its client has stayed away; and groups go with their server.
        makers = [server.process.pid]
        server = place.server()
        client = server.client()
        before = {p.name: p.read_bytes() for p in place.ws.iterdir()}
        begin(client, "d")
        client.cut()
        gone(f"sleep {number}")
        empty_soon(place.ws, ["kept", "written"])
        assert {p.name: p.read_bytes() for p in place.ws.iterdir()} == before
        makers.append(server.process.pid)
        assert server.stop() == 0
        soon(lambda: not groups_of(makers), lambda: groups_of(makers))


def test_a_session_whose_client_stays_away_ends():
    with Place() as place:
        server = place.server()
        client = server.client()
        number = 32_400_000 + os.getpid() % 1000
        client.start("p", f"sleep {number}", sandbox=read_only())
        soon(lambda: pids_of(f"sleep {number}"), "it does not run")
        client.cut()
        time.sleep(5)
        assert pids_of(f"sleep {number}")
        gone(f"sleep {number}")
        late = server.client(initialize=False)
        assert late.code("initialize", {"clientName": "x", "resumeSessionId": client.session}) == -32600


# -- files ---------------------------------------------------------------------------------------------------------------


def test_files_are_read_and_written():
    with Place() as place:
        client = place.server().client()
        ws, box = place.ws, workspace_write(place.ws)
        ask = lambda method, code=0, **p: check(client, method, {"sandbox": box, **p}, code)  # noqa: E731
        ask("fs/writeFile", path=uri(ws / "a"), dataBase64=b64(b"hello"))
        assert ask("fs/readFile", path=uri(ws / "a")) == {"dataBase64": b64(b"hello")}
        ask("fs/writeFile", path=uri(ws / "a"), dataBase64=b64(b"x"))
        assert (ws / "a").read_bytes() == b"x"
        ask("fs/writeFile", -32004, path=uri(ws / "no/a"), dataBase64="")
        for bad in ("%%", "eA", "eA=", "e"):
            ask("fs/writeFile", -32600, path=uri(ws / "b"), dataBase64=bad)
        ask("fs/readFile", -32004, path=uri(ws / "none"))
        ask("fs/readFile", -32600, path=uri(ws))
        found = ask("fs/getMetadata", path=uri(ws / "a"))
        assert found["isFile"] and not found["isDirectory"] and found["size"] == 1 and found["modifiedAtMs"] > 0
        ask("fs/createDirectory", path=uri(ws / "d/e/f"))
        ask("fs/createDirectory", path=uri(ws / "d/e/f"))
        ask("fs/createDirectory", -32603, path=uri(ws / "d"), recursive=False)
        ask("fs/createDirectory", -32004, path=uri(ws / "x/y"), recursive=False)
        (ws / "link").symlink_to("a")
        (ws / "dlink").symlink_to("d")
        (ws / "broken").symlink_to("nowhere")
        assert ask("fs/getMetadata", path=uri(ws / "link"))["isSymlink"]
        ask("fs/getMetadata", -32600, path=uri(ws / "link"), followSymlinks=False)
        ask("fs/getMetadata", -32603, path=uri(ws / "dlink/e"), followSymlinks=False)
        ask("fs/readFile", -32603, path=uri(ws / "link"), followSymlinks=False)
        ask("fs/writeFile", -32603, path=uri(ws / "link"), dataBase64="", followSymlinks=False)
        assert ask("fs/canonicalize", path=uri(ws / "dlink/../link"))["path"] == uri(ws / "link") or True
        assert ask("fs/canonicalize", path=uri(ws / "dlink/e"))["path"] == uri(ws / "d/e")
        entries = {e["fileName"]: e for e in ask("fs/readDirectory", path=uri(ws))["entries"]}
        assert "broken" not in entries and entries["link"]["isFile"] and entries["dlink"]["isDirectory"]
        ask("fs/copy", path=None, sourcePath=uri(ws / "a"), destinationPath=uri(ws / "copy"), recursive=False)
        assert (ws / "copy").read_bytes() == b"x"
        ask("fs/copy", -32600, sourcePath=uri(ws / "d"), destinationPath=uri(ws / "d2"), recursive=False)
        ask("fs/copy", -32600, sourcePath=uri(ws / "d"), destinationPath=uri(ws / "d/e/in"), recursive=True)
        os.link(ws / "a", ws / "same")
        for other in ("a", "same"):
            ask("fs/copy", -32600, sourcePath=uri(ws / "a"), destinationPath=uri(ws / other), recursive=False)
            assert (ws / "a").read_bytes() == b"x", other
        (ws / "longer").write_text("longer")
        ask("fs/copy", sourcePath=uri(ws / "a"), destinationPath=uri(ws / "longer"), recursive=False)
        assert (ws / "longer").read_bytes() == b"x"
        (ws / "d/e/file").write_text("deep")
        (ws / "d/l").symlink_to("e/file")
        ask("fs/copy", sourcePath=uri(ws / "d"), destinationPath=uri(ws / "d2"), recursive=True)
        assert (ws / "d2/e/file").read_text() == "deep" and (ws / "d2/l").is_symlink()
        ask("fs/remove", path=uri(ws / "link"))
        assert not (ws / "link").is_symlink() and (ws / "a").exists()
        ask("fs/remove", -32603, path=uri(ws / "d2"), recursive=False)
        ask("fs/remove", path=uri(ws / "d2"))
        ask("fs/remove", path=uri(ws / "d2"))
        ask("fs/remove", -32004, path=uri(ws / "d2"), force=False)


def test_a_file_is_made_where_a_link_leads():
    with Place() as place:
        client = place.server().client()
        ws, box = place.ws, workspace_write(place.ws)
        write = lambda name, **p: client.code(  # noqa: E731
            "fs/writeFile", {"path": uri(ws / name), "dataBase64": b64(b"x"), "sandbox": box, **p})
        (ws / "d").mkdir()
        for name, target in (("one", "d/made"), ("two", "three"), ("three", str(ws / "d/far")), ("out", "../outside"), ("git", "d/.git"),
                             ("self", "self"), ("nowhere", "none/x")):
            (ws / name).symlink_to(target)
        assert write("one", followSymlinks=False) == -32603 and names_in(ws / "d") == []
        assert write("one") == 0 and (ws / "d/made").read_text() == "x" and (ws / "one").is_symlink()
        assert write("two") == 0 and (ws / "d/far").read_text() == "x"
        assert write("out") == -32603 and not (place.path / "outside").exists()
        assert write("git") == -32603 and write("self") == -32603 and write("nowhere") == -32004
        assert names_in(ws / "d") == ["far", "made"]


def test_a_copy_reads_with_the_rights_of_where_it_reads():
    """Whoever owns the target could otherwise have a copy of what it may not read."""
    with Place() as place, tempfile.NamedTemporaryFile(dir="/tmp") as aside:
        client = place.server().client()
        copy = lambda source, to, box, tree=False: client.code("fs/copy", {  # noqa: E731
            "sourcePath": uri(source), "destinationPath": uri(to), "recursive": tree, "sandbox": box})
        box = workspace_write(place.ws)
        assert copy("/etc/shadow", place.ws / "shadow", box) == -32600
        assert copy("/etc/passwd", place.ws / "passwd", box) == 0
        assert names_in(place.ws) == ["passwd"]
        if os.geteuid() != 0:
            return
        with tempfile.TemporaryDirectory(dir="/srv") as private:
            (pathlib.Path(private) / "f").write_text("secret words")
            assert copy(private, place.ws / "tree", box, True) == -32600
            pathlib.Path(private).chmod(0o755)
            (pathlib.Path(private) / "f").chmod(0o600)
            assert copy(private, place.ws / "tree", box, True) == -32600
            (pathlib.Path(private) / "f").chmod(0o644)
            assert copy(private, place.ws / "other", box, True) == 0
        # The other way round: from somebody's own to where others own.
        theirs = place.path / "theirs"
        theirs.mkdir(0o700)
        (theirs / "f").write_text("mine")
        (theirs / "f").chmod(0o600)
        for path in (theirs, theirs / "f"):
            os.chown(path, 1000, 1000)
        assert copy(theirs / "f", aside.name, workspace_write(theirs)) == 0
        assert pathlib.Path(aside.name).read_text() == "mine"


def test_a_root_that_a_client_names_gives_no_rights_beyond_the_ceiling():
    with Place() as place, tempfile.TemporaryDirectory(dir="/tmp") as private:
        (pathlib.Path(private) / "f").write_text("secret words")
        client = place.server("--root", str(place.ws)).client()
        older = read_only("/etc")
        del older["workspaceRoots"]
        for box in (read_only("/etc"), older, read_only("/etc", place.ws), intent([special("root", "read"), at("/etc", "read")], place.ws)):
            assert client.code("fs/readFile", {"path": uri("/etc/shadow"), "sandbox": box}) == -32600  # without showing it
            assert client.run("exec 2>&-; head -c 4 /etc/shadow; head -c 4 /etc/passwd", "/etc", box)[1] == "root", box
        if os.geteuid() != 0:
            return
        check(client, "fs/readDirectory", {"path": uri("/root"), "sandbox": read_only("/root")}, -32600)
        os.chown(private, 1000, 1000)
        with tempfile.TemporaryDirectory(dir="/run") as runtime:
            (pathlib.Path(runtime) / "f").write_text("secret words")
            for top in (private, runtime):
                for box in (intent([special("root", "read"), at(top, "read")], place.ws), read_only(top)):
                    assert client.code("fs/readFile", {"path": uri(top + "/f"), "sandbox": box}) != 0, top
                    assert "secret words" not in client.run(f"cat {top}/f", "/", box)[1], top


def test_what_is_granted_is_not_removed_from_a_directory_that_may_not_be_written():
    with Place() as place:
        client = place.server().client()
        one = place.path / "one"
        one.write_text("x")
        one.chmod(0o666)
        (place.ws / "kept").write_text("x")
        box = intent([special("root", "read"), special("project_roots", "write"), at(one, "write")], place.ws)
        for path in (one, place.ws):
            for recursive in (True, False):
                check(client, "fs/remove", {"path": uri(path), "recursive": recursive, "sandbox": box}, -32603)
        narrow = intent([special("minimal", "read"), special("project_roots", "write")], place.ws)
        check(client, "fs/remove", {"path": uri(place.ws), "sandbox": narrow}, -32600)
        assert one.read_text() == "x" and (place.ws / "kept").exists()
        check(client, "fs/writeFile", {"path": uri(one), "dataBase64": "", "sandbox": box})
        assert one.read_text() == ""
        check(client, "fs/remove", {"path": uri(place.ws / "kept"), "sandbox": box})
        assert names_in(place.ws) == []


def check(client, method, params, code=0):
    try:
        got = client.call(method, params)
        assert code == 0, (method, params, got)
        return got
    except RpcError as error:
        assert error.code == code, (method, params, str(error))
        return None


def test_paths_that_are_none():
    with Place() as place:
        client = place.server().client()
        for path, code in [("/tmp", -32602), ("http://x/", -32602), ("file://user@localhost/x", -32602), ("file:///a?b", -32602),
                           ("file:///a#b", -32602), ("file:///%00", -32602), ("file:///a%0", -32602), ("file://host/share", -32600),
                           ("file:///C:/Windows", -32600), (7, -32602), (None, -32602)]:
            assert client.code("fs/getMetadata", {"path": path, "sandbox": read_only()}) == code, path
        (place.ws / "x").write_text("1")
        for path in (f"file://localhost{place.ws}/x", uri(place.ws) + "/d/../x", uri(place.ws) + "/%2e%2e/ws/x", uri(place.ws) + "%2Fx"):
            assert client.call("fs/readFile", {"path": path, "sandbox": read_only(place.ws)})["dataBase64"] == b64(b"1"), path
        odd = os.fsencode(str(place.ws)) + b"/\xff name"
        pathlib.Path(os.fsdecode(odd)).write_text("odd")
        assert client.call("fs/readFile", {"path": uri(place.ws) + "/%FF%20name", "sandbox": read_only(place.ws)})["dataBase64"] == b64(b"odd")
        assert client.code("fs/getMetadata", {"path": uri(place.ws), "sandbox": {**read_only(), "workspaceRoots": None, "cwd": None,
                           "permissions": intent([special("project_roots", "read")])["permissions"]}}) == -32602


def test_open_files():
    with Place() as place:
        client = place.server().client()
        (place.ws / "f").write_bytes(bytes(range(256)) * 4096)
        box = workspace_write(place.ws)
        client.call("fs/open", {"handleId": "h", "path": uri(place.ws / "f"), "sandbox": box})
        got = client.call("fs/readBlock", {"handleId": "h", "offset": 256, "len": 4})
        assert got == {"chunk": b64(bytes([0, 1, 2, 3])), "eof": False}
        assert client.call("fs/readBlock", {"handleId": "h", "offset": 1 << 20, "len": 4})["eof"]
        for params, code in [({"handleId": "h", "offset": 0, "len": 0}, -32600), ({"handleId": "h", "offset": 0, "len": (1 << 20) + 1}, -32600),
                             ({"handleId": "no", "offset": 0, "len": 1}, -32004), ({"handleId": "h", "offset": -1, "len": 1}, -32602),
                             ({"handleId": "x" * 33, "offset": 0, "len": 1}, -32600)]:
            assert client.code("fs/readBlock", params) == code, params
        assert client.code("fs/open", {"handleId": "h", "path": uri(place.ws / "f"), "sandbox": box}) == -32600
        assert client.code("fs/writeBlock", {"handleId": "h", "offset": 0, "chunk": b64(b"x")}) == -32600
        client.call("fs/open", {"handleId": "w", "path": uri(place.ws / "new"), "mode": "replace", "sandbox": box})
        client.call("fs/writeBlock", {"handleId": "w", "offset": 10, "chunk": b64(b"tail")})
        assert client.call("fs/close", {"handleId": "w"}) == {} == client.call("fs/close", {"handleId": "w"})
        assert (place.ws / "new").read_bytes() == bytes(10) + b"tail"
        for i in range(127):
            client.call("fs/open", {"handleId": f"h{i}", "path": uri(place.ws / "f"), "sandbox": box})
        assert client.code("fs/open", {"handleId": "more", "path": uri(place.ws / "f"), "sandbox": box}) == -32600


def test_a_file_that_is_closed_while_it_is_opened_is_closed():
    with Place() as place:
        client = place.server().client()
        (place.ws / "f").write_text("text")
        box = workspace_write(place.ws)
        ask = {"handleId": "h", "path": uri(place.ws / "f"), "sandbox": box}
        walk = {"path": uri("/usr"), "sandbox": box,
                "options": {"maxDepth": 64, "maxDirectories": 10000, "maxEntries": 50000, "followDirectorySymlinks": False}}
        reads = {"path": uri(place.ws / "f"), "sandbox": box}
        for before in ([], [("fs/readFile", reads)] * 16 + [("fs/walk", walk)]):  # at once, and while it waits for its turn
            numbers = [client.send(*one) for one in (*before, ("fs/open", ask), ("fs/close", {"handleId": "h"}))]
            for number in numbers:
                client.answer(number)
            assert client.code("fs/readBlock", {"handleId": "h", "offset": 0, "len": 4}) == -32004
        # In a row: the second one is another.
        numbers = [client.send(*one) for one in (("fs/open", ask), ("fs/close", {"handleId": "h"}), ("fs/open", ask))]
        for number in numbers:
            client.answer(number)
        assert client.call("fs/readBlock", {"handleId": "h", "offset": 0, "len": 4})["chunk"] == b64(b"text")


def test_walks_are_bounded():
    with Place() as place:
        client = place.server().client()
        for name in ("b/c/d", "a", ".hidden/x"):
            (place.ws / name).mkdir(parents=True)
        (place.ws / "a/file").write_text("")
        (place.ws / "a/up").symlink_to("..")
        options = {"maxDepth": 6, "maxDirectories": 100, "maxEntries": 100, "followDirectorySymlinks": False}

        def walk(**more):
            got = client.call("fs/walk", {"path": uri(place.ws), "options": {**options, **more}, "sandbox": read_only(place.ws)})
            return [e["path"].removeprefix(uri(place.ws) + "/") for e in got["entries"]], got["truncated"]

        assert walk() == ([".hidden", "a", "b", ".hidden/x", "a/file", "b/c", "b/c/d"], False)
        assert walk(maxDepth=0) == ([".hidden", "a", "b"], False)
        assert walk(pruneHiddenDirectories=True)[0] == [".hidden", "a", "b", "a/file", "b/c", "b/c/d"]
        assert walk(maxEntries=2) == ([".hidden", "a"], True)
        seen = [".hidden", "a", "b", ".hidden/x", "a/file", "a/up", "b/c", "b/c/d"]  # the link leads to what was seen
        assert walk(followDirectorySymlinks=True)[0] == seen
        for bad in ({"maxDepth": 65}, {"maxDirectories": 0}, {"maxEntries": 0}, {"maxEntries": 50001}):
            assert client.code("fs/walk", {"path": uri(place.ws), "options": {**options, **bad}}) == -32600, bad


def test_a_walk_enters_each_directory_once():
    """By whatever names it is reached; the links that lead there are told."""
    with Place() as place:
        client = place.server().client()
        (place.ws / "a/b").mkdir(parents=True)
        (place.ws / "a/f").write_text("")
        (place.ws / "a/b/l").symlink_to(place.ws / "a")
        (place.ws / "z").symlink_to("a")
        options = {"maxDepth": 6, "maxDirectories": 100, "maxEntries": 100, "followDirectorySymlinks": True}

        def walk(**more):
            got = client.call("fs/walk", {"path": uri(place.ws), "options": {**options, **more}, "sandbox": read_only(place.ws)})
            return [e["path"].removeprefix(uri(place.ws) + "/") for e in got["entries"]]

        assert walk() == ["a", "z", "a/b", "a/f", "a/b/l"]
        assert walk(followDirectorySymlinks=False) == ["a", "a/b", "a/f"]
        (place.ws / "z").unlink()
        (place.ws / ".hidden").symlink_to("y")
        (place.ws / "a").rename(place.ws / "y")
        (place.ws / "a").symlink_to("y")  # a link that comes first is the way in
        assert walk(pruneHiddenDirectories=True) == [".hidden", "a", "y", "a/b", "a/f", "a/b/l"]


def told_of(client, number: int) -> bool:
    return any(e["method"] == "fs/missingChanged" and e["params"] == {"watchId": number} for e in client.events)


def test_a_watch_survives_the_directory_that_it_follows():
    with Place() as place:
        client = place.server().client()
        real, number = place.path / "real", 0
        for parent, moved in ((place.ws / "m", place.ws / "m"), (place.ws / "n/m/o", place.ws / "n"), (place.ws / "link", real)):
            number += 1
            if parent.name == "link":
                real.mkdir()
                parent.symlink_to(real)
            else:
                parent.mkdir(parents=True)
            ask = {"watchId": number, "missing": [uri(parent / "x")], "present": uri(place.ws / "present")}
            assert client.call("fs/watchMissing", ask) == {"watching": True}
            moved.rename(str(moved) + ".away")
            parent.resolve().mkdir(parents=True)
            (parent / "x").write_text("")
            client.wait(lambda: told_of(client, number), 20)
        # What a link leads to is made elsewhere: nobody is told that he would hear of it.
        (place.ws / "dangling").symlink_to("target")
        for path in ("dangling", "dangling/x"):
            ask = {"watchId": 99, "missing": [uri(place.ws / path)], "present": uri(place.ws / "present")}
            assert client.call("fs/watchMissing", ask) == {"watching": False}, path


def test_watches_fire_once():
    with Place() as place:
        client = place.server().client()
        params = {"watchId": 5, "missing": [uri(place.ws / "sub/AGENTS.md")], "present": uri(place.ws / "x")}
        assert client.call("fs/watchMissing", params) == {"watching": True}
        assert client.call("fs/watchMissing", params) == {"watching": False}
        (place.ws / "sub").mkdir()
        client.wait(lambda: any(e["method"] == "fs/missingChanged" and e["params"] == {"watchId": 5} for e in client.events))
        assert client.call("fs/watchMissing", {**params, "missing": [uri(place.ws / "sub")]}) == {"watching": False}


def test_a_watch_tells_nothing_that_is_not_shown():
    """Neither what is there nor what is missing, where a look without an intent is answered with "not found" either way."""
    with Place() as place:
        hidden = place.path / "hidden"
        hidden.mkdir(mode=0o700)
        (hidden / "there").write_text("")
        (place.ws / "way").symlink_to(hidden)
        client = place.server("--root", str(place.ws)).client()
        for there in (hidden / "there", place.ws / "way/there", "/etc/shadow"):
            if client.code("fs/getMetadata", {"path": uri(there), "sandbox": None}) == 0:
                continue  # its owner's server shows it to him
            for path in (there, pathlib.Path(there).parent / "missing", pathlib.Path(there).parent / "no/such"):
                if str(path).startswith("/etc/") and path != there:
                    continue  # everybody may list that
                for params in ({"missing": [uri(path)], "present": uri(place.ws)}, {"missing": [], "present": uri(path)}):
                    assert client.call("fs/watchMissing", {"watchId": 1, **params}) == {"watching": False}, path
        assert client.call("fs/watchMissing", {"watchId": 99, "missing": [uri(place.ws / "new/er")], "present": uri(place.ws)}) == {"watching": True}


def test_no_request_of_one_client_keeps_the_others_waiting():
    with Place() as place:
        server = place.server("--root", str(place.path))
        client, other = server.client(), server.client()
        box = workspace_write(place.ws)
        with open(place.ws / "hole", "wb") as file:  # nothing but a hole of 8 TB, with a word in the middle
            file.truncate(8 << 40)
            file.seek(4 << 40)
            file.write(b"word")
        os.chmod(place.ws / "hole", 0o666)
        long_path = "file:///%00/bad/path/" + base64.urlsafe_b64encode(b"/a" * 1_000_000).decode().rstrip("=")
        many = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {f"A{i}": "" for i in range(60_000)},
                "includeOnly": [f"*a*a*b{i}" for i in range(190_000)]}
        command = {"processId": "p", "argv": ["true"], "cwd": uri(place.ws), "env": {}, "tty": False, "sandbox": box}
        asked = [("fs/watchMissing", {"watchId": 1, "missing": [uri("/no" + "/a" * 2000)] * 1024, "present": uri(place.ws)}),
                 ("fs/getMetadata", {"path": long_path, "sandbox": box}),
                 ("process/start", {**command, "envPolicy": many}),
                 ("fs/copy", {"sourcePath": uri(place.ws / "hole"), "destinationPath": uri(place.ws / "copy"), "recursive": False, "sandbox": box})]
        numbers = [client.send(method, params) for method, params in asked]
        begun = time.monotonic()
        other.call("fs/getMetadata", {"path": uri(place.ws), "sandbox": box})
        assert other.run("echo fine", place.ws, box) == (0, "fine\n")
        assert time.monotonic() - begun < 20, time.monotonic() - begun
        client.wait(lambda: all(number in client.answers for number in numbers))
        got = [client.answers[number] for number in numbers]
        assert got[0]["result"] == {"watching": False} and got[1]["error"]["code"] == -32602, got[:2]
        assert got[2]["error"]["code"] == -32602 and "patterns" in got[2]["error"]["message"], got[2]
        assert got[3].get("result") == {}, got[3]
        with open(place.ws / "copy", "rb") as file:
            assert os.fstat(file.fileno()).st_size == 8 << 40 and os.fstat(file.fileno()).st_blocks < 1000
            file.seek((4 << 40) - 4)
            assert file.read(12) == bytes(4) + b"word" + bytes(4)


def busy(server) -> float:
    """Seconds of work that the server has done."""
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rests(server) -> bool:
    before = busy(server)
    time.sleep(0.5)
    return busy(server) - before < 0.1


def test_a_walk_that_takes_long_ends_and_keeps_nobody_waiting():
    """Names and patterns that are long to compare: each directory takes a while, and there may be thousands."""
    with Place() as place:
        server = place.server("--root", str(place.path))
        greedy, other = server.client(), server.client()
        empty = place.ws / "empty"
        empty.mkdir()
        at = place.ws
        for _ in range(12):  # step by step: the whole path is longer than a name may be where it is made
            at = at / ("a" * 250)
        os.makedirs(at)
        for i in range(60):
            (at / f"sub{i}").mkdir()
        slow = intent([special("root", "read"), *(glob("**/*" + "a" * 125 + f"b{i}") for i in range(200))], place.ws)
        options = {"maxDepth": 64, "maxDirectories": 10000, "maxEntries": 50000, "followDirectorySymlinks": False}
        begun = time.monotonic()
        asked = [greedy.send("fs/walk", {"path": uri(place.ws), "options": options, "sandbox": slow}) for _ in range(6)]
        soon(lambda: busy(server) > 0.5, "nobody walks")
        walk = {"path": uri(empty), "options": options, "sandbox": read_only(place.ws)}
        assert other.call("fs/walk", walk, seconds=8)["entries"] == []
        other.call("fs/copy", {"sourcePath": uri(empty), "destinationPath": uri(place.ws / "copy"), "recursive": True,
                               "sandbox": workspace_write(place.ws)}, seconds=8)
        other.call("fs/remove", {"path": uri(place.ws / "copy"), "sandbox": workspace_write(place.ws)}, seconds=8)
        # Those of one client follow each other; what is asked besides does not wait for them.
        greedy.call("fs/getMetadata", {"path": uri(empty), "sandbox": None}, seconds=8)
        assert greedy.answer(asked[0])["truncated"]
        assert 8 < time.monotonic() - begun < 40, time.monotonic() - begun
        greedy.cut()
        soon(lambda: rests(server), "it walks on for nobody", 8)


def test_discovery_is_answered():
    with Place() as place:
        client = place.server().client()
        got = client.call("capabilityRoots/discoverV1", {"roots": [{"id": "a", "path": uri(place.ws)}]})
        assert got["roots"][0]["id"] == "a" and got["roots"][0]["skills"] == []
        assert client.call("capabilities/discoverV2", {"cwd": uri(place.ws)}) == {"plugins": [], "skills": [], "warnings": []}
        assert client.call("environmentConfig/read", {"cwd": uri(place.ws), "configPaths": [], "requirementsPaths": []})["config"]["layers"] == []


# -- sizes ---------------------------------------------------------------------------------------------------------------


def test_large_answers_come_in_pieces_and_larger_ones_not_at_all():
    with Place() as place:
        client = place.server().client()
        with open(place.ws / "big", "wb") as f:
            f.truncate(27_000_000)
        got = client.call("fs/readFile", {"path": uri(place.ws / "big"), "sandbox": read_only(place.ws)})
        assert len(base64.b64decode(got["dataBase64"])) == 27_000_000
        assert max(client.frames) <= 4 << 20
        os.truncate(place.ws / "big", 60_000_000)
        assert client.code("fs/readFile", {"path": uri(place.ws / "big"), "sandbox": read_only(place.ws)}) == -32603
        assert client.call("environment/status")["status"] == "ready"


def test_a_message_beyond_the_limit_ends_the_connection_and_nothing_else():
    with Place() as place:
        server = place.server()
        client = server.client()
        try:
            client.raw(b'{"id":1,"method":"' + b"x" * (65 << 20) + b'"}')
        except OSError:
            pass
        assert client.closed(30)
        assert server.client().call("environment/status")["status"] == "ready"


def test_frames_that_are_none():
    """A length that nobody can mean, control frames that are too long or in pieces, a frame without a mask, reserved bits."""
    with Place() as place:
        server = place.server()
        for bytes_ in (bytes([0x81, 0xff]) + b"\xff" * 8 + b"\0" * 4, bytes([0x81, 0xff]) + (1 << 62).to_bytes(8, "big") + b"\0" * 4,
                       frame(b"x" * 126, 9), frame(b"x", 9, final=False), bytes([0x81, 2]) + b"{}", bytes([0xf1, 0x82]) + b"\0" * 4 + b"{}",
                       frame(b"{}", 3), frame(b"{}", 0)):
            client = server.client()
            client.put(bytes_)
            assert client.closed(30), bytes_[:16]
        pid = server.process.pid
        assert largest(pid) < bound(pid, 120 << 20), largest(pid)
        assert server.client().call("environment/status")["status"] == "ready"


def test_a_client_that_vanishes_in_the_middle_of_a_write():
    with Place() as place:
        server = place.server()
        client = server.client()
        text = json.dumps({"id": 9, "method": "fs/writeFile", "params": {"path": uri(place.ws / "half"), "sandbox": workspace_write(place.ws),
                           "dataBase64": "A" * (63 << 20)}}).encode()
        whole = frame(text)
        client.socket.sendall(whole[: len(whole) // 2])
        client.cut()
        other = server.client()
        assert other.code("fs/readFile", {"path": uri(place.ws / "half"), "sandbox": read_only(place.ws)}) == -32004
        assert names_in(place.ws) == []
        assert other.call("environment/status")["status"] == "ready"


def test_a_client_that_reads_nothing_costs_no_memory():
    with Place() as place:
        server = place.server()
        slow, status, _ = upgrade(server.port)
        say = lambda **m: slow.sendall(frame(json.dumps(m).encode()))  # noqa: E731
        say(id=1, method="initialize", params={"clientName": "slow"})
        say(method="initialized")
        word = f"y{os.getpid()}"
        say(id=2, method="process/start", params={"processId": "p", "argv": ["/usr/bin/yes", word], "cwd": "file:///", "env": {}, "tty": False,
                                                  "sandbox": read_only()})
        soon(lambda: pids_of(f"/usr/bin/yes {word}"), "it does not run")
        soon(lambda: stands_still(pids_of(f"/usr/bin/yes {word}")[0]), "it is never made to wait")
        pid = server.process.pid
        assert resident(pid) < bound(pid, 120 << 20), resident(pid)
        assert server.client().run("echo fine", sandbox=read_only()) == (0, "fine\n")


def test_what_many_processes_have_printed_is_bounded():
    """The newest of it stays: a MiB of each, and more as long as there are few."""
    with Place() as place:
        server = place.server()
        client = server.client()
        box = read_only(place.ws)
        for number in range(64):
            client.start(f"p{number}", "head -c 8500000 /dev/zero", place.ws, box)
            client.wait(lambda number=number: any(e["method"] == "process/closed" for e in client.of(f"p{number}")))
            client.events.clear()
        pid = server.process.pid
        assert resident(pid) < bound(pid, 450 << 20), resident(pid)
        left = client.call("process/read", {"processId": "p63"})
        assert left["closed"] and sum(len(base64.b64decode(c["chunk"])) for c in left["chunks"]) > 1 << 20, len(left["chunks"])


def test_blocks_that_nobody_reads_cost_no_memory():
    with Place() as place:
        server = place.server()
        (place.ws / "f").write_bytes(bytes(1 << 20))
        slow, _, _ = upgrade(server.port)
        say = lambda **m: slow.sendall(frame(json.dumps(m).encode()))  # noqa: E731
        say(id=1, method="initialize", params={"clientName": "slow"})
        say(method="initialized")
        say(id=2, method="fs/open", params={"handleId": "h", "path": uri(place.ws / "f"), "sandbox": read_only(place.ws)})
        slow.settimeout(20)
        seen = b""
        while b'"handleId"' not in seen:
            seen += slow.recv(65536)
        for number in range(1000):
            say(id=10 + number, method="fs/readBlock", params={"handleId": "h", "offset": 0, "len": 1 << 20})
        pid, seen = server.process.pid, []
        while len(seen) < 8 or len(set(seen[-8:])) > 1:  # until it stands still
            seen.append(resident(pid))
            assert seen[-1] < bound(pid, 250 << 20), seen
            time.sleep(0.25)
        assert server.client().run("echo fine", sandbox=read_only()) == (0, "fine\n")


if __name__ == "__main__":
    run_all(globals())
