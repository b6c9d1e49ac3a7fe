#!/usr/bin/env python3
"""Codex's exec-server inside sandboxes: a chosen one, one for each session, and intents on top of both.

codex_sandbox.py BERTH [PART OF A NAME]
"""
import base64
import json
import os
import pathlib
import subprocess
import sys
import time

import codex_client
from codex_client import (Client, RpcError, at, b64, glob, intent, read_only, run_all, special, upgrade, uri, workspace_write)
from served import Server

PROGRAM = sys.argv[1]
WHERE = ["--backend", "local"]  # codex_docker.py runs the same with containers
HOME = "/home/user"
WS = HOME + "/ws"


def Place():  # noqa: N802: it makes one
    return codex_client.Place(PROGRAM)


def berth(place, *words: str, data: str = "data") -> str:
    done = subprocess.run([PROGRAM, *words], env={**os.environ, "BERTH_DATA": str(place.path / data)}, capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, (words, done)
    return done.stdout


def sandbox(place, *options: str) -> str:
    box = json.loads(berth(place, "create", "--json", *WHERE, *options))["id"]
    if "read-only" not in options:
        berth(place, "exec", box, "--", "mkdir", "-p", WS)
    return box


def inside(place, box: str, script: str) -> str:
    return berth(place, "exec", box, "--", "sh", "-c", script)


def live(place, data: str = "data") -> list[str]:
    return [one["id"] for one in json.loads(berth(place, "ls", "--json", data=data))["sandboxes"]]


def soon(what: str, holds, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Chosen:
    """An exec-server that runs everything in one sandbox."""

    def __init__(self, place, *options: str):
        self.place, self.box = place, sandbox(place, *options)
        self.server = place.server("--sandbox", self.box)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop()
        berth(self.place, "rm", self.box)


# -- where ---------------------------------------------------------------------------------------------------------------


def test_commands_and_files_are_the_sandboxs():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        info = client.call("environment/info")
        assert info["shell"]["path"].startswith("/bin/") and info["userHomeDir"] == uri(HOME), info
        assert client.run("pwd; id -un; echo here > made", WS) == (0, f"{WS}\nuser\n")
        assert inside(place, chosen.box, f"cat {WS}/made") == "here\n"
        assert not pathlib.Path(WS, "made").exists()
        client.call("fs/writeFile", {"path": uri(WS + "/by-fs"), "dataBase64": b64(b"two")})
        assert inside(place, chosen.box, f"cat {WS}/by-fs") == "two"
        assert client.code("fs/readFile", {"path": uri(place.path / "exec-server.log")}) == -32004
        assert client.run("exit 7", WS)[0] == 7 and client.run("kill -9 $$", WS)[0] == 137
        assert client.code("process/start", {"processId": "x", "argv": ["/no/such"], "cwd": uri(WS), "env": {}, "tty": False}) == -32603
        assert client.code("process/start", {"processId": "y", "argv": ["true"], "cwd": uri("/no/such"), "env": {}, "tty": False}) == -32603


def test_streams_input_terminals_and_signals():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        for box in (None, workspace_write(WS)):
            mark = "n" if box is None else "w"
            assert client.run("head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2", WS, box)[1].replace("end\n", "") == "x" * 3000000
            client.start("in" + mark, "read a; echo got:$a", WS, box, pipeStdin=True)
            assert client.call("process/write", {"processId": "in" + mark, "chunk": b64(b"abc\n"), "writeId": "1"}) == {"status": "accepted"}
            assert client.finish("in" + mark) == (0, "got:abc\n")
            client.start("tty" + mark, "stty size; read a; echo got:$a", WS, box, tty=True)
            client.wait(lambda: any("process/output" == e["method"] for e in client.of("tty" + mark)))
            client.call("process/write", {"processId": "tty" + mark, "chunk": b64(b"abc\n"), "writeId": "1"})
            code, text = client.finish("tty" + mark)
            assert code == 0 and "24 80" in text and "got:abc" in text, text
            client.start("sig" + mark, "trap 'echo trapped; exit 3' INT; echo ready; while :; do sleep 0.1; done", WS, box)
            client.wait(lambda: client.of("sig" + mark))
            assert client.call("process/signal", {"processId": "sig" + mark, "signal": "interrupt"}) == {}
            assert client.finish("sig" + mark) == (3, "ready\ntrapped\n")
            client.start("end" + mark, "echo ready; sleep 1000", WS, box)
            client.wait(lambda: client.of("end" + mark))
            assert client.call("process/terminate", {"processId": "end" + mark}) == {"running": True}
            assert client.finish("end" + mark)[0] == 137
            assert client.call("process/terminate", {"processId": "end" + mark}) == {"running": False}
            show = "tr '\\0' '|' < /proc/$$/cmdline"
            assert client.run(["sh", "-c", show], WS, box, arg0="-a name") == (0, f"-a name|-c|{show}|")


def test_a_session_is_taken_up_again():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        client.start("p", "for i in 1 2 3 4 5 6 7 8 9 10; do echo line:$i; sleep 0.2; done", WS, read_only())
        client.wait(lambda: len(client.of("p")) >= 2)
        session = client.session
        client.cut()
        again = Client(chosen.server.port, resume=session)
        assert again.session == session
        got = again.call("process/read", {"processId": "p", "afterSeq": 0, "maxBytes": None, "waitMs": 0})
        again.finish_from("p", got, len("".join(f"line:{i}\n" for i in range(1, 11))))


def test_a_watch_fires_when_something_appears():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        ask = {"watchId": 7, "missing": [uri(WS + "/AGENTS.md"), uri(WS + "/a/b")], "present": uri(WS)}
        assert client.call("fs/watchMissing", ask) == {"watching": True}
        assert client.call("fs/watchMissing", ask) == {"watching": False}  # its number is in use
        inside(place, chosen.box, f"touch {WS}/AGENTS.md")
        client.wait(lambda: any(e["method"] == "fs/missingChanged" and e["params"] == {"watchId": 7} for e in client.events))
        assert client.call("fs/watchMissing", {**ask, "watchId": 8}) == {"watching": False}  # it is there


def test_a_watch_survives_the_directory_that_it_follows():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        inside(place, chosen.box, f"mkdir {WS}/m")
        ask = {"watchId": 7, "missing": [uri(WS + "/m/x")], "present": uri(WS + "/m/y")}
        assert client.call("fs/watchMissing", ask) == {"watching": True}
        inside(place, chosen.box, f"cd {WS}; mv m away; mkdir m; touch m/x")
        client.wait(lambda: any(e["method"] == "fs/missingChanged" and e["params"] == {"watchId": 7} for e in client.events), 20)


# -- intents -------------------------------------------------------------------------------------------------------------


def word(client, method: str, **params) -> str:
    try:
        client.call(method, params)
        return "allow"
    except RpcError as error:
        return "refused" if error.code == -32602 else "deny"


def test_a_matrix_of_intents_holds_for_commands_and_files_alike():
    files = {"ws": f"{WS}/file", "git": f"{WS}/.git/config", "secret": f"{WS}/secrets/key", "outside": f"{HOME}/outside/file",
             "tmp": "/tmp/file", "link": f"{WS}/link", "new": f"{WS}/new"}
    setup = (f"rm -rf {WS}/new {WS}/.codex; mkdir -p {WS}/.git {WS}/secrets {HOME}/outside; "
             f"for f in {' '.join(files[n] for n in ('ws', 'git', 'secret', 'outside', 'tmp'))}; do printf old > $f; done; "
             f"ln -sfn {HOME}/outside/file {WS}/link")
    base = [special("root", "read"), special("project_roots", "write")]
    everything = {"ws", "git", "secret", "outside", "tmp", "link"}
    variants = {
        "read-only": (read_only(WS), everything, set()),
        "workspace-write": (workspace_write(WS), everything, {"ws", "secret", "tmp", "new"}),
        "names without entries": (intent(base, WS), everything, {"ws", "secret", "new"}),
        "deny a directory": (intent([*base, special("project_roots", "deny", subpath="secrets")], WS), everything - {"secret"}, {"ws", "new"}),
        "deny outside": (intent([*base, at(HOME + "/outside", "deny")], WS), everything - {"outside", "link"}, {"ws", "secret", "new"}),
        "read-only below": (intent([*base, special("project_roots", "read", subpath="secrets")], WS), everything, {"ws", "new"}),
        "git made writable": (intent([*base, special("project_roots", "write", subpath=".git")], WS), everything, {"ws", "secret", "git", "new"}),
        "narrow reads": (intent([special("minimal", "read"), special("project_roots", "write")], WS), {"ws", "git", "secret"},
                         {"ws", "secret", "new"}),
        "writes everywhere": (intent([special("root", "write")], WS), everything, everything | {"new"}),
        "unrestricted files": (intent(None, WS), everything, everything | {"new"}),
        "no sandbox": (None, everything, everything | {"new"}),
    }
    wrong, count = [], 0
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        for name, (box, readable, writable) in variants.items():
            for target, path in files.items():
                for operation, allowed in (("read", readable), ("write", writable)):
                    for how in ("process", "fs"):
                        if operation == "read" and target == "new":
                            continue
                        assert client.run(setup, WS)[0] == 0
                        if how == "process":
                            got = "allow" if client.run(f"cat {path}" if operation == "read" else f"printf changed > {path}", WS, box)[0] == 0 else "deny"
                        elif operation == "read":
                            got = word(client, "fs/readFile", path=uri(path), sandbox=box)
                        else:
                            got = word(client, "fs/writeFile", path=uri(path), dataBase64=b64(b"changed"), sandbox=box)
                        expected = "allow" if target in allowed else "deny"
                        now = client.run(f"cat {path} 2>/dev/null; true", WS)[1]
                        count += 1
                        if got != expected or (operation == "write" and (now == "changed") != (expected == "allow")):
                            wrong.append(f"{name}: {operation} {target} by {how}: {got}, expected {expected}, then {now!r}")
            for how in ("process", "fs"):
                client.run(setup, WS)
                got = (("allow" if client.run(f"mkdir {WS}/.codex && touch {WS}/.codex/x", WS, box)[0] == 0 else "deny") if how == "process"
                       else word(client, "fs/createDirectory", path=uri(WS + "/.codex"), sandbox=box))
                expected = "allow" if "link" in writable else "deny"
                count += 1
                # While a command runs something stands there; it goes with the command, a moment after its end is told.
                wait = "" if expected == "allow" else "n=0; while [ -e .codex ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n+1)); done; "
                there = "there" in client.run(wait + "[ -e .codex ] && echo there; true", WS)[1]
                if got != expected or there != (expected == "allow"):
                    wrong.append(f"{name}: create .codex by {how}: {got}, there={there}; expected {expected}")
        left = inside(place, chosen.box, f"ls -A {WS}").split()
        assert ".agents" not in left and ".aws" not in left, left
    print(f"{count} cells, {len(wrong)} wrong", *wrong, sep="\n")
    assert not wrong


def test_the_rest_of_the_file_methods_under_an_intent():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        for box in (None, workspace_write(WS), intent([special("minimal", "read"), special("project_roots", "write")], WS)):
            ask = lambda method, **p: client.call(method, {"sandbox": box, **p})  # noqa: E731, B023
            code = lambda method, **p: client.code(method, {"sandbox": box, **p})  # noqa: E731, B023
            client.run(f"rm -rf {WS}/* ; mkdir -p {WS}/d/e; echo one > {WS}/d/f; ln -s .. {WS}/d/e/up; ln -s d {WS}/l; ln -s nowhere {WS}/broken", WS)
            assert ask("fs/getMetadata", path=uri(WS + "/d"))["isDirectory"]
            found = ask("fs/getMetadata", path=uri(WS + "/l/f"))
            assert found["isFile"] and found["size"] == 4 and not found["isSymlink"] and found["modifiedAtMs"] > 1e12, found
            assert ask("fs/getMetadata", path=uri(WS + "/l"))["isSymlink"]
            assert code("fs/getMetadata", path=uri(WS + "/none")) == -32004
            assert code("fs/getMetadata", path=uri(WS + "/broken")) == -32004
            assert code("fs/getMetadata", path=uri(WS + "/l"), followSymlinks=False) == -32600
            assert code("fs/readFile", path=uri(WS + "/l/f"), followSymlinks=False) == -32603
            assert code("fs/readFile", path=uri(WS + "/d")) == -32600
            assert ask("fs/canonicalize", path=uri(WS + "/l/f")) == {"path": uri(WS + "/d/f")}
            names = {e["fileName"]: e["isDirectory"] for e in ask("fs/readDirectory", path=uri(WS))["entries"]}
            assert names == {"d": True, "l": True}, names
            options = {"maxDepth": 5, "maxDirectories": 100, "maxEntries": 100, "followDirectorySymlinks": False}
            walked = ask("fs/walk", path=uri(WS), options=options)
            assert [(e["path"], e["kind"]) for e in walked["entries"]] == [
                (uri(WS + "/d"), "directory"), (uri(WS + "/d/e"), "directory"), (uri(WS + "/d/f"), "file")], walked
            followed = ask("fs/walk", path=uri(WS), options={**options, "followDirectorySymlinks": True})
            told = [e["path"].removeprefix(uri(WS) + "/") for e in followed["entries"]]
            assert told == ["d", "l", "d/e", "d/f", "d/e/up"], told  # each directory once, and every link
            assert ask("fs/walk", path=uri(WS), options={**options, "maxEntries": 1})["truncated"]
            assert code("fs/copy", sourcePath=uri(WS + "/d"), destinationPath=uri(WS + "/c"), recursive=False) == -32600
            assert code("fs/copy", sourcePath=uri(WS + "/d"), destinationPath=uri(WS + "/d/x"), recursive=True) == -32600
            ask("fs/writeFile", path=uri(WS + "/same"), dataBase64=b64(b"x"))
            assert code("fs/copy", sourcePath=uri(WS + "/same"), destinationPath=uri(WS + "/same"), recursive=False) == -32600
            assert ask("fs/readFile", path=uri(WS + "/same")) == {"dataBase64": b64(b"x")}
            ask("fs/remove", path=uri(WS + "/same"))
            ask("fs/copy", sourcePath=uri(WS + "/d"), destinationPath=uri(WS + "/c"), recursive=True)
            assert base64.b64decode(ask("fs/readFile", path=uri(WS + "/c/f"))["dataBase64"]) == b"one\n"
            assert code("fs/remove", path=uri(WS + "/c"), recursive=False) == -32603
            ask("fs/remove", path=uri(WS + "/c"))
            ask("fs/remove", path=uri(WS + "/c"))
            assert code("fs/remove", path=uri(WS + "/c"), force=False) == -32004
            assert code("fs/writeFile", path=uri(WS + "/no/such"), dataBase64="") == -32004
            assert code("fs/createDirectory", path=uri(WS + "/no/such"), recursive=False) == -32004
            ask("fs/createDirectory", path=uri(WS + "/yes/such"))
            assert code("fs/createDirectory", path=uri(WS + "/yes"), recursive=False) == -32603
            ask("fs/writeFile", path=uri(WS + "/empty"), dataBase64="")
            assert ask("fs/readFile", path=uri(WS + "/empty")) == {"dataBase64": ""}
            big = os.urandom(5 << 20)
            ask("fs/writeFile", path=uri(WS + "/big'\n name"), dataBase64=b64(big))
            assert base64.b64decode(ask("fs/readFile", path=uri(WS + "/big'\n name"))["dataBase64"]) == big
            assert ask("fs/open", handleId="h", path=uri(WS + "/big'\n name")) == {"handleId": "h"}
            block = ask("fs/readBlock", handleId="h", offset=1 << 20, len=1 << 20)
            assert base64.b64decode(block["chunk"]) == big[1 << 20:2 << 20] and not block["eof"]
            ask("fs/close", handleId="h")
            assert code("fs/open", handleId="w", path=uri(WS + "/big"), mode="replace") == -32602


def test_a_large_file_is_read_in_pieces_under_an_intent():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        made = f"mkdir {WS}/secret; cd {WS}; echo hidden > secret/f; truncate -s 60M big; printf end >> big; printf mid | dd of=big bs=1 seek=40M conv=notrunc"
        inside(place, chosen.box, made)
        rules = intent([special("root", "read"), special("project_roots", "write"), at(WS + "/secret", "deny")], WS)
        for box in (rules, read_only(WS), None):
            block = lambda offset, size: client.call("fs/readBlock", {"handleId": "h", "offset": offset, "len": size})  # noqa: E731
            client.call("fs/open", {"handleId": "h", "path": uri(WS + "/big"), "sandbox": box})
            assert block((40 << 20) - 1, 5) == {"chunk": b64(b"\0mid\0"), "eof": False}
            assert block(0, 1 << 20) == {"chunk": b64(bytes(1 << 20)), "eof": False}
            assert block(60 << 20, 3) == {"chunk": b64(b"end"), "eof": False}
            assert block(60 << 20, 4) == {"chunk": b64(b"end"), "eof": True}
            for beyond in ((60 << 20) + 3, 1 << 40):
                assert block(beyond, 4) == {"chunk": "", "eof": True}
            client.call("fs/close", {"handleId": "h"})
        assert client.code("fs/open", {"handleId": "s", "path": uri(WS + "/secret/f"), "sandbox": rules}) == -32600
        assert client.code("fs/open", {"handleId": "s", "path": uri(WS), "sandbox": rules}) == -32600
        # Another file that has taken the name is not what was opened.
        client.call("fs/open", {"handleId": "h", "path": uri(WS + "/big"), "sandbox": rules})
        inside(place, chosen.box, f"cd {WS}; cp secret/f other; mv big away; mv other big")
        assert client.code("fs/readBlock", {"handleId": "h", "offset": 0, "len": 1}) == -32603


def test_protected_names_are_held_at_any_depth():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        made = f"mkdir -p {WS}/s/.git {WS}/a/b/.codex {WS}/new; echo kept > {WS}/s/.git/config; echo kept > {WS}/a/b/.codex/x"
        assert client.run(made, WS) == (0, "")
        box = workspace_write(WS)
        script = ("echo x > s/.git/config; touch s/.git/new; mv s/.git s/g; mv s t; rm -r a/b/.codex; mv a c;"
                  "touch s/free new/free && echo free; mkdir new/.git && touch new/.git/x && echo new")
        assert client.run(f"({script}) 2>/dev/null", WS, box) == (0, "free\nnew\n")
        for path in ("s/.git/config", "s/.git/new", "a/b/.codex/x"):
            assert client.code("fs/writeFile", {"path": uri(f"{WS}/{path}"), "dataBase64": "", "sandbox": box}) == -32603, path
        assert client.code("fs/remove", {"path": uri(f"{WS}/s"), "sandbox": box}) == -32603
        # What a command has made at depth is its own; from the next one on it is held.
        assert client.run("touch new/.git/y", WS, box)[0] == 1
        assert inside(place, chosen.box, f"cd {WS}; cat s/.git/* a/b/.codex/*; ls -A new/.git") == "kept\nkept\nx\n"


def test_what_the_sandbox_itself_has_is_not_exceeded():
    with Place() as place, Chosen(place, "--policy", "read-only") as chosen:
        client = chosen.server.client()
        assert client.run(f"touch {HOME}/x", "/", workspace_write(HOME))[0] != 0
        assert client.run(f"touch {HOME}/x", "/")[0] != 0
        assert word(client, "fs/writeFile", path=uri(HOME + "/x"), dataBase64="", sandbox=workspace_write(HOME)) != "allow"
        assert "no more than read" in chosen.server.told()


def test_what_cannot_be_held_is_refused_by_name():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        inside(place, chosen.box, f"ln -s {HOME}/elsewhere {WS}/link; mkdir {HOME}/elsewhere")
        box = intent([special("root", "read"), special("project_roots", "write"), at(WS + "/link", "deny")], WS)
        for method, params in (("process/start", {"processId": "p", "argv": ["true"], "cwd": uri(WS), "env": {}, "tty": False}),
                               ("fs/writeFile", {"path": uri(WS + "/x"), "dataBase64": ""})):
            try:
                client.call(method, {**params, "sandbox": box})
                raise AssertionError(method)
            except RpcError as error:
                assert error.code == -32602 and "link" in error.message, error
        assert client.code("process/start", {"processId": "q", "argv": ["true"], "cwd": uri(WS), "env": {}, "tty": False,
                                             "enforceManagedNetwork": True, "sandbox": read_only()}) == -32602


def denied_as_told(client, script: str, box) -> tuple[str, bool]:
    name = f"told{next(client.numbers)}"
    client.start(name, script, WS, box)
    output = client.finish(name)[1]
    return output, next(e["params"]["sandboxDenied"] for e in client.of(name) if e["method"] == "process/exited")


def test_deny_patterns_hold_for_commands_and_files_of_a_sandbox():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        box = intent([special("root", "read"), special("project_roots", "write"), special("slash_tmp", "write"),
                      glob("codex-project-roots://**/*.env"), glob("codex-project-roots://vault/**")], WS)
        secrets = "a.env deep/b.env vault/key"
        inside(place, chosen.box, f"cd {WS}; mkdir deep vault; for f in {secrets}; do printf 'secret words' > $f; done; printf mine > open")
        for script in ("cat a.env", "cat deep/b.env vault/key", "mv a.env b; cat b", "mv vault v; cat v/key; rm -rf v", "ln a.env l; cat l",
                       "ln -s a.env s; cat s; rm s", f"cat /proc/self/root{WS}/a.env", "cd deep && cat b.env", "cp -r deep copy; cat copy/*; rm -r copy",
                       "exec 3< .; cat /proc/self/fd/3/a.env", "sh a.env", "echo secret words > made.env; cat made.env"):
            output, told = denied_as_told(client, script, box)
            assert "secret words" not in output and told, (script, output)
            assert inside(place, chosen.box, f"cd {WS}; cat {secrets}; ls") == "secret words" * 3 + "a.env\ndeep\nopen\nvault\n", script
        assert denied_as_told(client, "cat open; echo more > x; mv x y; cat y; rm y; ls deep", box) == ("minemore\nb.env\n", False)
        assert denied_as_told(client, "echo permission denied; exit 1", box) == ("permission denied\n", False)
        # By somebody else, while it runs.
        client.start("later", "echo ready; until [ -e later.env ]; do :; done; cat later.env; cat open", WS, box)
        client.wait(lambda: client.of("later"))
        inside(place, chosen.box, f"printf 'secret words' > {WS}/later.env")
        output = client.finish("later")[1]
        assert "secret words" not in output and "mine" in output, output
        # A terminal, input, an end that is asked for, and a command that is not there.
        code, output = client.run(["/bin/bash", "-c", "cat <(echo through); tty; echo typed > /dev/tty"], WS, box, tty=True)
        assert code == 0 and "through" in output and "/dev/pts/" in output and "typed" in output, output
        client.start("in", "read a; echo got:$a", WS, box, pipeStdin=True)
        client.call("process/write", {"processId": "in", "chunk": b64(b"abc\n"), "writeId": "1"})
        assert client.finish("in") == (0, "got:abc\n")
        client.start("end", "echo ready; sleep 1000", WS, box)
        client.wait(lambda: client.of("end"))
        assert client.call("process/terminate", {"processId": "end"}) == {"running": True}
        assert client.finish("end")[0] == 137
        for missing in ("no-such-thing", "/no/such", WS + "/a.env"):
            assert client.code("process/start", {"processId": missing, "argv": [missing], "cwd": uri(WS), "env": {"PATH": "/usr/bin:/bin"},
                                                 "tty": False, "sandbox": box}) == -32603, missing
        # The same decision for files.
        for path, expected in (("a.env", "deny"), ("deep/b.env", "deny"), ("vault/key", "deny"), ("later.env", "deny"), ("open", "allow")):
            assert word(client, "fs/readFile", path=uri(f"{WS}/{path}"), sandbox=box) == expected, path
        assert word(client, "fs/writeFile", path=uri(WS + "/new.env"), dataBase64="", sandbox=box) == "deny"
        assert word(client, "fs/remove", path=uri(WS + "/a.env"), force=False, sandbox=box) == "deny"
        assert word(client, "fs/copy", sourcePath=uri(WS + "/a.env"), destinationPath=uri(WS + "/c"), recursive=False, sandbox=box) == "deny"
        assert word(client, "fs/writeFile", path=uri(WS + "/new"), dataBase64="", sandbox=box) == "allow"
        soon("a placeholder stays", lambda: inside(place, chosen.box, f"ls -A {WS}").split() == ["a.env", "deep", "later.env", "new", "open", "vault"])
        soon("a supervisor is left", lambda: "berth-supervisor" not in inside(place, chosen.box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))


def test_a_worktrees_directory_is_protected_however_it_is_written():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        box = intent([special("root", "read"), special("project_roots", "write")], WS)
        for text in ("gitdir: real\\r\\n", "gitdir : real \\n"):
            inside(place, chosen.box, f"cd {WS}; mkdir -p real; printf '{text}' > .git")
            assert "Read-only" in client.run("echo new > real/config", WS, box)[1], text
            assert word(client, "fs/writeFile", path=uri(WS + "/real/config"), dataBase64="", sandbox=box) == "deny", text


def test_a_deny_pattern_is_held_as_it_is_meant_or_refused():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        inside(place, chosen.box, f"cd {WS}; mkdir secret; printf 'secret words' > secret/a.pem")
        base = [special("root", "read"), special("project_roots", "write")]
        read = lambda box: client.code("fs/readFile", {"path": uri(WS + "/secret/a.pem"), "sandbox": box})  # noqa: E731
        for pattern in ("**/*.{env,pem}", "secret/{a,b}.pem"):
            box = intent([*base, glob(pattern)], WS)
            assert read(box) == -32600, pattern
            assert "secret words" not in client.run("cat secret/a.pem", WS, box)[1], pattern
        assert read(intent([*base, glob("secret/a\\.pem")], WS)) == -32602
        homeless = intent([*base, glob("secret/*.pem")], WS)
        del homeless["cwd"]
        assert read(homeless) == -32602
        # It holds where it leads, too; what the command could lead elsewhere is refused.
        inside(place, chosen.box, f"ln -s ws {HOME}/way; ln -s secret {WS}/link")
        for box in (intent([*base, glob(f"{HOME}/way/secret/*.pem")], WS), intent([*base, glob("secret/*.pem")], WS, cwd=HOME + "/way"),
                    intent([*base, glob(f"{HOME}/way/secret")], WS)):
            assert read(box) == -32600, box
            assert "secret words" not in client.run("cat secret/a.pem ../way/secret/a.pem", WS, box)[1], box
        turned = intent([*base, glob("codex-project-roots://link/*.pem")], WS)
        assert read(turned) == -32602
        start = {"processId": "t", "argv": ["true"], "cwd": uri(WS), "env": {}, "tty": False, "sandbox": turned}
        assert client.code("process/start", start) == -32602


def test_a_rule_about_roots_that_nobody_names_is_refused():
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        inside(place, chosen.box, f"cd {WS}; mkdir secret; printf 'secret words' > secret/key")
        box = intent([special("root", "read"), special("project_roots", "deny", subpath="secret")])
        ask = {"path": uri(WS + "/secret/key"), "sandbox": box}
        for roots, cwd, expected in ((None, None, -32602), (None, uri(WS), -32600), ([uri(WS)], None, -32600)):
            box["workspaceRoots"], box["cwd"] = roots, cwd
            assert client.code("fs/readFile", ask) == expected, (roots, cwd)


def test_a_backend_without_policies_of_commands_refuses_them():
    """E2B's protocol has no word for one; the cloud is a berth of ours."""
    with Place() as place:
        cloud = Server(PROGRAM, str(place.path / "cloud"))
        environment = {**os.environ, "E2B_API_KEY": cloud.key, "E2B_API_URL": cloud.url, "E2B_SANDBOX_URL": cloud.url}
        server = place.server("--backend", "e2b", "--template", "image:base", environment=environment)
        client = server.client()
        assert client.run("echo $((6*7)); id -un", HOME) == (0, "42\nuser\n")
        client.call("fs/writeFile", {"path": uri(HOME + "/f"), "dataBase64": b64(b"x")})
        assert client.run("cat f", HOME) == (0, "x")
        named = {"processId": "n", "argv": ["true"], "cwd": uri(HOME), "env": {}, "tty": False, "arg0": "other"}
        assert client.code("process/start", named) == -32602  # nor for another name
        assert client.run(["/bin/echo", "x"], HOME, arg0="/bin/echo") == (0, "x\n")
        try:
            client.start("p", "true", HOME, read_only())
            raise AssertionError("it was started")
        except RpcError as error:
            assert error.code == -32602 and "e2b" in error.message, error
        assert word(client, "fs/writeFile", path=uri(HOME + "/f"), dataBase64="", sandbox=read_only()) == "refused"
        assert server.stop() == 0
        assert cloud.api("GET", "/v2/sandboxes")[1] == []
        assert cloud.stop() == 0


# -- whose ---------------------------------------------------------------------------------------------------------------


def test_serve_lets_a_tenant_into_its_own_sandboxes_alone():
    with Place() as place:
        server = Server(PROGRAM, str(place.path / "data"))
        other = berth(place, "key", "add", "--tenant", "other").strip()
        own = berth(place, "create", "--json")
        status, made = server.api("POST", "/v1/sandboxes", {})
        assert status == 201, made
        box = made["id"]
        client = Client(server.port, f"/codex?key={server.key}&sandbox={box}")
        assert client.run("echo mine > f; cat f", HOME, workspace_write(HOME)) == (0, "mine\n")
        assert inside(place, box, f"cat {HOME}/f") == "mine\n"
        for path, key in ((box, other), (json.loads(own)["id"], server.key), ("sbx_00000000000000000000000000", server.key),
                          (box[:10], server.key), ("", server.key), ("..%2f" + box, server.key)):
            assert upgrade(server.port, f"/codex?sandbox={path}", Authorization=f"Bearer {key}")[1] == 404, (path, key)
        assert upgrade(server.port, f"/codex?sandbox={box}")[1] == 401
        session = client.session
        stranger = Client(server.port, f"/codex?key={other}", initialize=False)
        assert stranger.code("initialize", {"clientName": "x", "resumeSessionId": session}) == -32600
        assert server.stop() == 0
        assert inside(place, box, f"cat {HOME}/f") == "mine\n"  # it outlives the session


def test_each_session_has_a_sandbox_of_its_own():
    with Place() as place:
        server = Server(PROGRAM, str(place.path / "data"))
        one, two = (Client(server.port, f"/codex?key={server.key}") for _ in range(2))
        # The client's directories are its own machine's: here they are made, and empty.
        cwd = "/srv/client/project" if os.geteuid() == 0 else HOME + "/project"
        assert one.run("echo one > f; cat f; touch .git/x || echo kept; touch /var/x || echo kept", cwd, workspace_write(cwd))[1].count("kept") == 2
        assert two.run("cat f", cwd)[0] != 0
        assert len(live(place)) == 2
        session = one.session
        one.cut()
        again = Client(server.port, f"/codex?key={server.key}", resume=session)
        again.start("again", "cat f", cwd)
        assert again.finish("again") == (0, "one\n")
        assert server.stop() == 0
        assert live(place) == []


def test_a_session_of_lines_ends_with_its_input():
    with Place() as place:
        process = subprocess.Popen([PROGRAM, "exec-server", "--stdio", "--backend", "local", "--workspace", str(place.ws),
                                    "--data", str(place.path / "data")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for message in ({"id": 1, "method": "initialize", "params": {"clientName": "x"}}, {"method": "initialized"},
                        {"id": 2, "method": "process/start", "params": {
                            "processId": "p", "argv": ["/bin/sh", "-c", "echo hi > made; mkdir .git"], "cwd": uri(place.ws), "env": {}, "tty": False,
                            "sandbox": workspace_write(place.ws)}}):
            process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        told = ""
        while "process/closed" not in told:
            line = process.stdout.readline()
            assert line, told
            told += line
        process.stdin.close()
        assert process.wait(60) == 0
        assert (place.ws / "made").read_text() == "hi\n"
        soon("a placeholder stays", lambda: sorted(p.name for p in place.ws.iterdir()) == ["made"])
        assert live(place) == []


# -- ends ----------------------------------------------------------------------------------------------------------------


def test_a_killed_server_leaves_nothing_to_its_successor():
    with Place() as place:
        box = sandbox(place)
        for options, cwd in ((("--sandbox", box), WS), (WHERE, HOME)):
            server = place.server(*options)
            client = server.client()
            client.start("p", "echo new > written; echo ready; sleep 1000", cwd, workspace_write(cwd))
            client.wait(lambda: client.of("p"))
            server.kill()
            if "--sandbox" in options:
                assert "sleep" in inside(place, box, "cat /proc/*/cmdline | tr '\\0' ' '")
            else:
                assert len(live(place)) == 2
            place.server(*options).stop()
            soon("a command is left", lambda: "sleep 1000" not in inside(place, box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))
            assert live(place) == [box]
            assert inside(place, box, f"ls -A {WS}") == "written\n"
            assert not list((place.path / "data/codex").glob("*.trace")), "a trace is left"
        berth(place, "rm", box)


def test_terminate_and_cut_leave_the_workspace_as_it_was():
    with Place() as place, Chosen(place) as chosen:
        before = inside(place, chosen.box, f"ls -lAR --time-style=+%s {WS}")
        client = chosen.server.client()
        for end in ("terminate", "cut"):
            client.start(end, "echo ready; sleep 1000", WS, workspace_write(WS))
            client.wait(lambda: client.of(end))
            if end == "terminate":
                client.call("process/terminate", {"processId": end})
                client.finish(end)
            else:
                client.cut()
                chosen.server.stop()
            soon(end, lambda: "sleep 1000" not in inside(place, chosen.box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))
            soon(end, lambda: inside(place, chosen.box, f"ls -lAR {WS} | grep -c '^d' || true").strip() == "0")
        assert inside(place, chosen.box, f"ls -lAR --time-style=+%s {WS}").splitlines()[1:] == before.splitlines()[1:]


def test_commands_in_a_row_leave_no_names_behind():
    """The next one begins while what stood for names goes: it must hold them too, and remove them when it was the last."""
    with Place() as place, Chosen(place) as chosen:
        client = chosen.server.client()
        rules = workspace_write(WS)
        for i in range(8):
            assert client.run(f"mkdir .git 2>/dev/null || echo kept {i}", WS, rules) == (0, f"kept {i}\n")
            client.call("fs/writeFile", {"path": uri(WS + "/f"), "dataBase64": "", "sandbox": rules})
            assert client.code("fs/getMetadata", {"path": uri(WS + "/.git"), "sandbox": rules}) == -32004
        soon("a placeholder stays", lambda: inside(place, chosen.box, f"ls -A {WS}") == "f\n")


def test_options_that_contradict_each_other():
    with Place() as place:
        for words in (["--sandbox", "x", "--backend", "local"], ["--template", "host"], ["--workspace", "."],
                      ["--sandbox", "x", "--root", "/tmp"], ["--backend", "local", "--unsandboxed", "allow"],
                      ["--backend", "no-such"], ["--sandbox", "sbx_00000000000000000000000000"]):
            done = subprocess.run([PROGRAM, "exec-server", *words, "--data", str(place.path / "data")], capture_output=True, text=True,
                                  timeout=30, check=False)
            assert done.returncode != 0 and done.stderr, (words, done)


if __name__ == "__main__":
    run_all(globals())
