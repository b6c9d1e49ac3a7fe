#!/usr/bin/env python3
"""Codex's exec-server in containers of a real engine: what codex_sandbox.py asks of a sandbox, and one of a session's own.

codex_docker.py BERTH [PART OF A NAME]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import codex_sandbox as suite
from codex_client import Client, RpcError, b64, glob, intent, run_all, special, upgrade, uri, workspace_write
from codex_sandbox import HOME, Place, live
from served import Server

ENGINE = pathlib.Path(__file__).resolve().parent.parent / "support" / "docker-engine"
SAME = ("commands_and_files_are_the_sandboxs", "streams_input_terminals_and_signals", "a_session_is_taken_up_again",
        "a_matrix_of_intents_holds_for_commands_and_files_alike", "the_rest_of_the_file_methods_under_an_intent",
        "what_the_sandbox_itself_has_is_not_exceeded", "a_killed_server_leaves_nothing_to_its_successor",
        "terminate_and_cut_leave_the_workspace_as_it_was")


def containers() -> list[dict]:
    import http.client
    import socket

    class Unix(http.client.HTTPConnection):
        def connect(self):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(os.environ["DOCKER_HOST"].removeprefix("unix://"))

    engine = Unix("engine")
    engine.request("GET", "/containers/json?all=1")
    return json.loads(engine.getresponse().read())


def test_each_session_has_a_container_of_its_own():
    with Place() as place:
        server = place.server(*suite.WHERE, "--workspace", str(place.ws))
        os.chmod(place.ws, 0o777)
        one, two = server.client(), server.client()
        box = workspace_write(place.ws)
        assert one.run("echo one > f; cat f; touch .git/x || echo kept; touch /var/x || echo kept", str(place.ws), box)[1].count("kept") == 2
        assert (place.ws / "f").read_text() == "one\n"  # the workspace is this machine's, the rest the container's
        assert one.run("echo mine > own; cat own", HOME) == (0, "mine\n") and two.run("cat own", HOME)[0] != 0
        one.call("fs/writeFile", {"path": uri(place.ws / "g"), "dataBase64": b64(b"two"), "sandbox": box})
        assert (place.ws / "g").read_text() == "two"
        assert one.code("fs/writeFile", {"path": uri("/etc/x"), "dataBase64": "", "sandbox": box}) != 0
        assert len(live(place)) == 2 and len(containers()) == 2
        try:
            one.start("p", "true", HOME, intent([special("root", "read"), special("project_roots", "write"), glob("codex-project-roots://**/*.env")], HOME))
            raise AssertionError("it was started")
        except RpcError as error:
            assert error.code == -32602 and ("docker" in error.message or "pattern" in error.message), error
        assert server.stop() == 0
        assert live(place) == [] and containers() == []
        suite.soon("a placeholder stays", lambda: sorted(p.name for p in place.ws.iterdir()) == ["f", "g"])


def test_serve_lets_a_tenant_into_its_own_container():
    with Place() as place:
        server = Server(suite.PROGRAM, str(place.path / "data"))
        other = suite.berth(place, "key", "add", "--tenant", "other").strip()
        box = suite.sandbox(place, "--label", "berth.tenant=default")
        client = Client(server.port, f"/codex?key={server.key}&sandbox={box}")
        assert client.call("environment/info")["userHomeDir"] == uri(HOME)
        rules = workspace_write(suite.WS)
        code, said = client.run("echo mine > f; cat f; touch .git/x || echo kept; touch ../x || echo kept", suite.WS, rules)
        assert code == 0 and said.startswith("mine\n") and said.count("kept") == 2, said
        client.call("fs/writeFile", {"path": uri(suite.WS + "/g"), "dataBase64": b64(b"two"), "sandbox": rules})
        assert client.code("fs/writeFile", {"path": uri(HOME + "/x"), "dataBase64": "", "sandbox": rules}) != 0
        assert suite.inside(place, box, f"cat {suite.WS}/f {suite.WS}/g; ls {HOME}") == "mine\ntwows\n"
        # A pattern must hold for what is made later, which the walls of a container's command cannot.
        secret = intent([special("root", "read"), special("project_roots", "write"), glob("codex-project-roots://**/*.env")], suite.WS)
        try:
            client.start("p", "true", suite.WS, secret)
            raise AssertionError("it was started")
        except RpcError as error:
            assert error.code == -32602 and ("docker" in error.message or "pattern" in error.message), error
        assert upgrade(server.port, f"/codex?sandbox={box}", Authorization=f"Bearer {other}")[1] == 404
        assert server.stop() == 0
        assert suite.inside(place, box, f"cat {suite.WS}/f") == "mine\n"  # it outlives the session
        suite.berth(place, "rm", box)


def main() -> None:
    directory = tempfile.mkdtemp(prefix="berth-docker-")
    engine = subprocess.Popen([str(ENGINE), directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        said = engine.stdout.readline().strip()
        if said != "ready":
            print(f"skipped: {said}")
            sys.exit(77)
        os.environ["DOCKER_HOST"] = f"unix://{directory}/sock"
        suite.WHERE[:] = ["--backend", "docker", "--template", f"tar:{directory}/root.tar"]
        run_all({"test_" + name: getattr(suite, "test_" + name) for name in SAME} | globals())
    finally:
        engine.stdin.close()
        engine.wait()


if __name__ == "__main__":
    main()
