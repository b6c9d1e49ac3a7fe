#!/usr/bin/env python3
"""codex.py PROGRAM PACKAGES [PART OF A NAME]: berth's client against the real `codex exec-server`, newest and older.

PACKAGES holds node_modules with @openai/codex (./dev deps sdk puts them there). Exits 77 when they are missing.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import traceback

from there import HERE, Person, environment, outside_tmp
sys.path.insert(0, str(HERE.parent / "sdk" / "codex"))
from harness import binaries  # noqa: E402

checks = []


def check(work):
    checks.append(work)
    return work


class CodexServer:
    """A real one, with a home of its own (below /tmp its helpers would not be made)."""

    def __init__(self, binary: pathlib.Path, place: pathlib.Path):
        self.place = place
        home = place / "codex-home"
        home.mkdir()
        temporary = place / "tmp"
        temporary.mkdir()
        self.log = open(place / "codex.log", "w", encoding="utf-8")
        self.process = subprocess.Popen([str(binary), "exec-server", "--listen", "ws://127.0.0.1:0"], stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, stdin=subprocess.DEVNULL,
                                        env={**os.environ, "CODEX_HOME": str(home), "HOME": str(home), "TMPDIR": str(temporary)})
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("ws://"), pathlib.Path(self.log.name).read_text(encoding="utf-8")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def created(me: Person, *words: str) -> str:
    return json.loads(me.well("create", "--backend", "exec-server", "--json", *words))["id"]


@check
def a_sandbox_lives_and_dies(me, root):
    box = created(me)
    assert me.well("exec", box, "--", "sh", "-c", "pwd; echo kept > file").strip() == str(root / box / "work")
    assert me.well("exec", box, "--", "cat", "file") == "kept\n"
    assert me.run("exec", box, "--", "sh", "-c", "exit 9")[0] == 9
    assert me.run("exec", box, "--", "sh", "-c", "kill -9 $$")[0] == 137
    assert me.run("exec", box, "--", "no-such-command")[0] == 127
    assert me.well("exec", "-i", box, "--", "cat", given="typed\n") == "typed\n"
    assert me.run("exec", "--timeout", "1s", box, "--", "sleep", "60")[0] == 124
    me.well("rm", box)
    assert not (root / box).exists()


@check
def files_go_in_and_out(me, root):
    box = created(me)
    source = pathlib.Path(me.data) / "file"
    source.write_bytes(bytes(range(256)) * 16000)
    me.well("cp", str(source), f"{box}:/home/user/file")
    assert me.well("exec", box, "--", "wc", "-c", "file").split()[0] == str(256 * 16000)
    me.well("cp", f"{box}:/home/user/file", str(source) + ".back")
    assert pathlib.Path(str(source) + ".back").read_bytes() == source.read_bytes()
    me.well("rm", box)


@check
def the_policy_is_held_there(me, root):
    box = created(me)
    outside = root.parent / "outside"
    outside.write_text("secret")
    code, out, _ = me.run("exec", box, "--", "sh", "-c", f"cat {outside}; echo x > {outside}")
    assert "secret" not in out and outside.read_text() == "secret", out
    routes = me.well("exec", box, "--", "cat", "/proc/net/route")
    assert len(routes.splitlines()) <= 1, routes
    me.well("rm", box)


@check
def patterns_that_do_not_hold_are_refused(me, root):
    """Codex's deny globs are a snapshot: a file made later is readable."""
    policy = pathlib.Path(me.data) / "globs.json"
    policy.write_text(json.dumps({"files": [{"read": ":root"}, {"write": ":workspace_roots"},
                                            {"deny": ":workspace_roots/**/*.secret"}]}))
    code, _, err = me.run("create", "--backend", "exec-server", "--policy", str(policy))
    assert code == 6 and "patterns" in err, (code, err)


@check
def a_killed_client_is_followed_by_another(me, root):
    box = created(me)
    first = me.start("exec", box, "--", "sh", "-c", "i=0; while [ $i -lt 200 ]; do echo $i; sleep 0.02; i=$((i+1)); done; exit 5")
    for _ in range(10):
        first.stdout.readline()
    first.send_signal(signal.SIGKILL)
    first.wait()
    exec_id = json.loads(me.well("inspect", box, "--json"))["execs"][0]["id"]
    code, out, err = me.run("logs", box, exec_id, "--follow")
    assert out == "".join(f"{i}\n" for i in range(200)) and "exit code 5" in err, (code, out[-100:], err)
    me.well("rm", box)


def main() -> int:
    program, packages = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    found = binaries(packages)
    if not found:
        print(f"skipped: no codex below {packages}; ./dev deps sdk installs it")
        return 77
    failed = ran = 0
    for version, binary in sorted(found.items()):
        place = outside_tmp()
        server = CodexServer(binary, place)
        try:
            for work in checks:
                name = f"{version}: {work.__name__.replace('_', ' ')}"
                if only not in name:
                    continue
                ran += 1
                data = place / f"client-{ran}"
                data.mkdir(mode=0o700)
                me = Person(program, str(data), environment(server.url, place / "sandboxes"))
                try:
                    work(me, place / "sandboxes")
                    print(f"ok {name}", flush=True)
                except Exception:  # noqa: BLE001: a check that fails is told, whatever it was
                    failed += 1
                    print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
        finally:
            server.stop()
            shutil.rmtree(place, ignore_errors=True)
    print(f"{ran - failed} held, {failed} did not")
    return 1 if failed else 0


sys.exit(main())
