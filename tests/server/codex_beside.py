#!/usr/bin/env python3
"""Codex's exec-server: commands beside each other, and what they leave to each other.

codex_beside.py BERTH
"""
import os
import pathlib
import resource
import sys
import time

import codex_client
from codex_client import at, intent, run_all, special, uri, workspace_write


def Place():  # noqa: N802: it makes one
    return codex_client.Place(sys.argv[1])


def until(name: str) -> str:
    return f"until [ -e {name} ]; do sleep 0.01; done"


# -- names that do not exist ---------------------------------------------------------------------------------------------


def narrowed(ws):
    return intent([special("root", "read"), special("project_roots", "write"),
                   special("project_roots", "deny", subpath="secrets"),
                   special("project_roots", "read", subpath="kept/deep")], ws)


def test_what_must_not_be_made_stays_so_when_another_command_ends():
    with Place() as place:
        client = place.server().client()
        box = narrowed(place.ws)
        client.start("first", until("go1"), str(place.ws), box)
        client.start("second", until("go2") + "; mkdir secrets && echo made; echo x > secrets/a && echo written;"
                     "mkdir -p kept/deep && echo made; echo x > kept/deep/a && echo written; true", str(place.ws), box)
        (place.ws / "go1").touch()
        assert client.finish("first")[0] == 0
        assert (place.ws / "secrets").is_dir() and (place.ws / "kept").is_dir()
        (place.ws / "go2").touch()
        code, told = client.finish("second")
        assert code == 0 and "made" not in told and "written" not in told, told
        assert sorted(p.name for p in place.ws.iterdir()) == ["go1", "go2"]


def test_what_stands_for_a_name_is_not_there_for_who_asks_about_files():
    """Codex takes a directory with a .git for the root of the project."""
    with Place() as place:
        client = place.server().client()
        client.start("p", "sleep 1000", str(place.ws), workspace_write(place.ws))
        assert (place.ws / ".git").is_dir()
        options = {"maxDepth": 3, "maxDirectories": 9, "maxEntries": 99, "followDirectorySymlinks": False}

        def found(box) -> list:
            ask = {"path": uri(place.ws), "sandbox": box}
            listed = [e["fileName"] for e in client.call("fs/readDirectory", ask)["entries"]]
            walked = [e["path"].rsplit("/", 1)[1] for e in client.call("fs/walk", {**ask, "options": options})["entries"]]
            return [client.code("fs/getMetadata", {"path": uri(place.ws / ".git"), "sandbox": box}), sorted(listed), sorted(walked)]

        for box in (None, workspace_write(place.ws)):
            assert found(box) == [-32004, [], []], found(box)
        (place.ws / ".git/HEAD").write_text("")  # now it is somebody's
        for box in (None, workspace_write(place.ws)):
            assert found(box) == [0, [".git"], [".git", "HEAD"]], found(box)
        client.call("process/terminate", {"processId": "p"})
        client.finish("p")


def test_what_is_made_by_others_meanwhile_is_denied():
    with Place() as place:
        client = place.server().client()
        box = narrowed(place.ws)
        client.start("first", until("go1"), str(place.ws), box)
        client.start("second", until("go2") + "; cat secrets/key", str(place.ws), box)
        (place.ws / "go1").touch()
        client.finish("first")
        (place.ws / "secrets/key").write_text("secret")
        (place.ws / "go2").touch()
        code, told = client.finish("second")
        assert code != 0 and "secret\n" not in told + "\n" and "denied" in told, told


def test_a_command_starts_while_another_one_ends():
    with Place() as place:
        client = place.server().client()
        ws = str(place.ws)
        shown = intent([special("root", "read"), at(place.ws / "secrets", "read")], place.ws)
        for number in range(30):
            for label, first, then in (("skip", workspace_write(ws), None), ("deny", narrowed(ws), None),
                                       ("read", narrowed(ws), shown)):
                name = f"{label}{number}"
                client.start(name, "sleep 100", ws, first)
                client.call("process/terminate", {"processId": name})
                assert client.run("true", ws, then or first) == (0, ""), name
                try:
                    client.run("true", ws + "/nowhere", first)
                except codex_client.RpcError as error:
                    assert "nowhere" in error.message, error
                assert client.run("true", ws, then or first) == (0, ""), name
                client.finish(name)
        assert list(place.ws.iterdir()) == []


# -- without a sandbox ---------------------------------------------------------------------------------------------------


LEAVES = "sleep 1000 & echo $! > a; (setsid sh -c 'echo $$ > b; sleep 1000' &) ; until [ -s b ]; do sleep 0.01; done"


def gone(ws) -> None:
    """All that was started has ended."""
    deadline = time.monotonic() + 20
    for name in ("a", "b"):
        pid = int((ws / name).read_text())
        while pathlib.Path(f"/proc/{pid}").exists() and state_of(pid) != "Z":
            assert time.monotonic() < deadline, name
            time.sleep(0.01)
        (ws / name).unlink()


def state_of(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def test_without_a_sandbox_everything_ends_with_the_command():
    with Place() as place:
        server = place.server("--unsandboxed", "allow")
        client = server.client()
        ws = str(place.ws)
        for tty in (False, True):
            name = f"ends{tty}"
            client.start(name, f"exec >/dev/null 2>&1; {LEAVES}; exit 3", ws, tty=tty)
            assert client.finish(name) == (3, "")
            gone(place.ws)
            name = f"terminated{tty}"
            client.start(name, f"{LEAVES}; echo ready; sleep 1000", ws, tty=tty)
            client.wait(lambda: any("chunk" in e["params"] for e in client.of(name)))  # noqa: B023
            assert client.call("process/terminate", {"processId": name}) == {"running": True}
            assert client.finish(name)[0] == 137
            gone(place.ws)
        client.start("signalled", f"trap 'echo caught; exit 4' INT; {LEAVES}; echo ready; sleep 1000 & wait", ws)
        client.wait(lambda: any("chunk" in e["params"] for e in client.of("signalled")))
        client.call("process/signal", {"processId": "signalled", "signal": "interrupt"})
        assert client.finish("signalled") == (4, "ready\ncaught\n")
        gone(place.ws)
        client.start("killed", f"{LEAVES}; echo ready; sleep 1000", ws)
        client.wait(lambda: any("chunk" in e["params"] for e in client.of("killed")))
        server.kill()
        gone(place.ws)


def test_many_commands_run_at_once_under_a_small_limit_of_open_files():
    """The soft limit is for programs that wait with select(): the server has some descriptors for each command."""
    with Place() as place:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        server = place.server("--unsandboxed", "allow")
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        client = server.client()
        pid = server.process.pid

        def descriptors() -> int:
            return len(os.listdir(f"/proc/{pid}/fd"))

        def children() -> int:
            return sum(len(pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split()) for task in os.listdir(f"/proc/{pid}/task"))

        before, others, count = descriptors(), children(), 60
        for number in range(count):
            client.start(f"p{number}", ["sleep", "1000"], str(place.ws), workspace_write(place.ws), pipeStdin=True)
        # Of each its streams, its end and its names; nothing and nobody that it needed only to begin.
        assert descriptors() - before <= 16 * count, (descriptors(), before)
        assert children() == count + others, (children(), others)
        for number in range(count):
            client.call("process/terminate", {"processId": f"p{number}"})
            assert client.finish(f"p{number}") == (137, "")
        # Whoever runs with the server's own rights has the server's own limit.
        assert client.run("ulimit -Sn; ulimit -Hn", str(place.ws)) == (0, f"256\n{hard}\n")


def test_a_signal_of_a_filter_is_a_refusal_in_a_sandbox_alone():
    with Place() as place:
        client = place.server("--unsandboxed", "allow").client()
        for name, box in (("bare", None), ("boxed", workspace_write(place.ws))):
            client.start(name, "kill -SYS $$", str(place.ws), box)
            assert client.finish(name)[0] == 159
            ended = next(e["params"] for e in client.of(name) if e["method"] == "process/exited")
            assert ended["sandboxDenied"] == (box is not None), ended


def test_without_a_sandbox_what_cannot_start_is_told():
    with Place() as place:
        client = place.server("--unsandboxed", "allow").client()
        for argv, cwd, words in ((["/nowhere/x"], place.ws, "/nowhere/x"), (["nowhere"], place.ws, "nowhere"),
                                 (["/etc/passwd"], place.ws, "/etc/passwd"), (["true"], place.path / "none", "none")):
            try:
                client.run(argv, str(cwd))
                raise AssertionError(argv)
            except codex_client.RpcError as error:
                assert error.code == -32603 and words in error.message, error
        assert client.run(["sh", "-c", "echo $0; pwd"], str(place.ws)) == (0, f"sh\n{place.ws}\n")
        assert client.run("kill -TERM $$")[0] == 143


if __name__ == "__main__":
    run_all(globals())
