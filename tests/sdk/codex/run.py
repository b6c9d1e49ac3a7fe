#!/usr/bin/env python3
"""The real codex, newest and older, with a model of ours, through `berth exec-server` and `berth serve`.

run.py --program BERTH --packages DIR

DIR holds node_modules with @openai/codex (./dev deps sdk puts them there). Exits 77 when they are missing.
"""
import argparse
import base64
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from fake_model import apply_patch, command, view_image, write_stdin  # noqa: E402
from harness import ExecServer, binaries, codex  # noqa: E402

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
FORBIDDEN = "echo $? ; touch in.txt && echo in:yes; touch {out} && echo out:yes; touch .git/x && echo git:yes; true"


class Stage:
    def __init__(self, program: str, binary: pathlib.Path, place: pathlib.Path):
        self.program, self.binary, self.place = program, binary, place
        self.ws = place / "ws"
        self.outside = place / "outside"
        for directory in (self.ws, self.outside, self.ws / ".git"):
            directory.mkdir(parents=True)
        (self.ws / ".git/HEAD").write_text("ref: refs/heads/main\n")
        self.server: ExecServer | None = None

    def serve(self, *options: str) -> ExecServer:
        self.server = ExecServer(self.program, self.place, *options)
        return self.server

    def codex(self, steps: list, *options: str, **more):
        run = codex(self.binary, self.place, self.ws, self.server.url, steps, *options, **more)
        assert run.code == 0, (run.code, run.errors[-2000:], run.events[-3:])
        return run

    def tree(self, directory: pathlib.Path | None = None) -> dict:
        top = directory or self.ws
        return {str(p.relative_to(top)): p.read_bytes() if p.is_file() else None for p in sorted(top.rglob("*"))}


def check_workspace_write(stage: Stage):
    stage.serve("--root", str(stage.ws))
    before = stage.tree(stage.outside)
    run = stage.codex([command(FORBIDDEN.format(out=stage.outside / "x"))], "-s", "workspace-write")
    assert "in:yes" in run.output() and "out:yes" not in run.output() and "git:yes" not in run.output(), run.output()
    assert stage.tree(stage.outside) == before
    assert set(stage.tree()) == {".git", ".git/HEAD", "in.txt"}, stage.tree()


def check_read_only(stage: Stage):
    stage.serve()
    before = stage.tree()
    run = stage.codex([command("cat .git/HEAD; " + FORBIDDEN.format(out=stage.outside / "x"))], "-s", "read-only")
    assert "refs/heads/main" in run.output() and ":yes" not in run.output(), run.output()
    assert stage.tree() == before and not (stage.outside / "x").exists()


def check_full_access(stage: Stage):
    stage.serve("--unsandboxed", "allow")
    run = stage.codex([command(FORBIDDEN.format(out=stage.outside / "x"))], "-s", "danger-full-access")
    assert all(f"{name}:yes" in run.output() for name in ("in", "out", "git")), run.output()
    assert (stage.outside / "x").exists()


def check_full_access_refused(stage: Stage):
    stage.serve()
    run = stage.codex([command(f"touch {stage.outside}/x")], "-s", "danger-full-access")
    assert "no sandbox was asked for" in run.results[0], run.results
    assert not (stage.outside / "x").exists()


def check_add_dir(stage: Stage):
    stage.serve()
    run = stage.codex([command(f"touch {stage.outside}/x && echo extra:yes; touch {stage.place}/y && echo other:yes; true")],
                      "-s", "workspace-write", "--add-dir", str(stage.outside))
    assert "extra:yes" in run.output() and "other:yes" not in run.output(), run.output()
    assert (stage.outside / "x").exists() and not (stage.place / "y").exists()


def check_apply_patch(stage: Stage):
    stage.serve()
    (stage.ws / "old.txt").write_text("one\ntwo\n")
    (stage.ws / "away.txt").write_text("x\n")
    patch = ("*** Begin Patch\n*** Add File: sub/new.txt\n+hello\n*** Update File: old.txt\n@@\n one\n-two\n+three\n"
             "*** Delete File: away.txt\n*** End Patch")
    run = stage.codex([apply_patch(patch)], "-s", "workspace-write")
    assert (stage.ws / "sub/new.txt").read_text() == "hello\n", run.results
    assert (stage.ws / "old.txt").read_text() == "one\nthree\n" and not (stage.ws / "away.txt").exists()
    before = stage.tree()
    stage.codex([apply_patch("*** Begin Patch\n*** Add File: " + str(stage.outside / "p") + "\n+no\n*** End Patch")],
                "-s", "workspace-write")
    assert stage.tree() == before and not (stage.outside / "p").exists()


def check_terminal(stage: Stage):
    stage.serve()

    def keys(told: str) -> dict:
        number = re.search(r"session ID (\d+)", told)
        assert number, told
        return write_stdin(int(number.group(1)), "abc\n")

    run = stage.codex([command("stty size; read line; echo got:$line", tty=True, yield_time_ms=5000), keys], "-s", "workspace-write")
    assert "24 80" in run.results[0], run.results
    assert "got:abc" in run.results[1], run.results


def check_view_image(stage: Stage):
    stage.serve()
    (stage.ws / "dot.png").write_bytes(PIXEL)
    run = stage.codex([view_image("dot.png")], "-s", "read-only")
    assert "data:image" in run.results[0], run.results


def check_network(stage: Stage):
    stage.serve()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        run = stage.codex([command(f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' && echo net:yes; true")], "-s", "workspace-write")
        assert "net:yes" not in run.output(), run.output()
        listener.settimeout(0.2)
        try:
            listener.accept()
            raise AssertionError("somebody connected")
        except TimeoutError:
            pass


def check_network_granted(stage: Stage):
    (stage.place / "token").write_text("a-token-of-ours")
    stage.serve("--net", "host", "--token-file", str(stage.place / "token"))
    stage.server.url += "/?key=a-token-of-ours"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        run = stage.codex([command(f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' && echo net:yes; true")], "-s", "workspace-write",
                          "-c", "sandbox_workspace_write.network_access=true")
        assert "net:yes" in run.output(), run.output()
        run = stage.codex([command(f"cat {stage.place}/token; true")], "-s", "workspace-write")
        assert "a-token-of-ours" not in run.output(), run.output()


def check_cut_socket(stage: Stage):
    """A proxy cuts the connection in the middle of a command: codex comes back and misses nothing."""
    server = stage.serve()
    cuts, told = [], []

    def pipe(source, sink, other):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
                if b"process/output" not in data or cuts or source is not other:
                    continue
                told.append(1)
                if len(told) == 3:
                    cuts.append(1)
                    break
        except OSError:
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def accept(listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            inside = socket.create_connection(("127.0.0.1", server.port))
            threading.Thread(target=pipe, args=(client, inside, inside), daemon=True).start()
            threading.Thread(target=pipe, args=(inside, client, inside), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        run = codex(stage.binary, stage.place, stage.ws, f"ws://127.0.0.1:{listener.getsockname()[1]}",
                    [command("for i in 1 2 3 4 5 6 7 8; do echo line:$i; sleep 0.3; done")], "-s", "workspace-write")
    assert cuts and run.commands()[0]["exit_code"] == 0, run.events
    assert [f"line:{i}" for i in range(1, 9)] == re.findall(r"line:\d", run.results[0]), run.results


def check_bearer_and_stdio(stage: Stage):
    if stage.version < (0, 166):
        return
    (stage.place / "token").write_text("a-token-of-ours")
    server = stage.serve("--token-file", str(stage.place / "token"))
    box = f'default = "box"\ninclude_local = false\n[[environments]]\nid = "box"\n'
    run = stage.codex([command("echo bearer:$((6*7))")], "-s", "read-only",
                      environments=box + f'url = "{server.url}"\nauth_bearer_token = "a-token-of-ours"\n')
    assert "bearer:42" in run.output(), run.results
    run = stage.codex([command("echo lines:$((6*7))")], "-s", "read-only", environments=box +
                      f'program = "{stage.program}"\nargs = ["exec-server", "--stdio", "--data", "{stage.place}/data2"]\n')
    assert "lines:42" in run.output(), run.results


def check_serve(stage: Stage):
    """At /codex of berth serve, with the key in the address."""
    stage.serve()
    process = subprocess.Popen([stage.program, "serve", "--listen", "127.0.0.1:0", "--data", str(stage.place / "served"), "--json",
                                "--codex-root", str(stage.ws)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = json.loads(process.stdout.readline())
    url = said["listening"].replace("http", "ws") + "/codex?key=" + said["key"]
    run = codex(stage.binary, stage.place, stage.ws, url, [command("echo served > made; cat made")], "-s", "workspace-write")
    process.send_signal(signal.SIGTERM)
    log = process.communicate(timeout=30)[1]
    assert "served" in run.output() and (stage.ws / "made").read_text() == "served\n", run.results
    assert said["key"] not in log


def check_tls(stage: Stage):
    """By wss, with an authority of the server's own that codex is told to trust; without the word it is not trusted."""
    stage.serve()
    process = subprocess.Popen([stage.program, "serve", "--listen", "127.0.0.1:0", "--data", str(stage.place / "served"), "--json",
                                "--tls-self-signed", "--codex-root", str(stage.ws)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = json.loads(process.stdout.readline())
    url = said["listening"].replace("https", "wss") + "/codex?key=" + said["key"]
    step = command("echo sealed > made; cat made")
    stranger = codex(stage.binary, stage.place, stage.ws, url, [step], "-s", "workspace-write")
    assert not (stage.ws / "made").exists(), stranger.results
    run = codex(stage.binary, stage.place, stage.ws, url, [step], "-s", "workspace-write", variables={"SSL_CERT_FILE": said["ca"]})
    process.send_signal(signal.SIGTERM)
    log = process.communicate(timeout=30)[1]
    assert "sealed" in run.output() and (stage.ws / "made").read_text() == "sealed\n", run.results
    assert said["key"] not in log


def check_sandbox_of_a_session(stage: Stage):
    """Not on the host but in a sandbox that is made for the session and shows the workspace."""
    stage.serve("--backend", "local", "--workspace", str(stage.ws))
    (stage.ws / "dot.png").write_bytes(PIXEL)
    patch = "*** Begin Patch\n*** Add File: sub/new.txt\n+hello\n*** End Patch"
    run = stage.codex([command(FORBIDDEN.format(out="/usr/x") + "; hostname"), apply_patch(patch), view_image("dot.png")],
                      "-s", "workspace-write")
    assert "in:yes" in run.output() and "out:yes" not in run.output() and "git:yes" not in run.output(), run.output()
    assert socket.gethostname() not in run.output(), run.output()
    assert (stage.ws / "sub/new.txt").read_text() == "hello\n", run.results
    assert "data:image" in run.results[2], run.results
    # What stood for names that must not be made goes a moment after the command.
    left = {".git", ".git/HEAD", "dot.png", "in.txt", "sub", "sub/new.txt"}
    until = time.monotonic() + 20
    while set(stage.tree()) != left and time.monotonic() < until:
        time.sleep(0.05)
    assert set(stage.tree()) == left, stage.tree()
    before = stage.tree()
    run = stage.codex([command(f"echo changed > in.txt; touch {stage.ws}/no; true")], "-s", "read-only")
    until = time.monotonic() + 20
    while stage.tree() != before and time.monotonic() < until:
        time.sleep(0.05)
    assert stage.tree() == before


def check_deny_profile(stage: Stage):
    """A profile with its own rules: what is denied stays out of reach."""
    if stage.version < (0, 166):
        return
    stage.serve()
    (stage.ws / "secrets").mkdir()
    (stage.ws / "secrets/key").write_text("hidden-words")
    profile = ('default_permissions = "tight"\n[permissions.tight.filesystem]\n":minimal" = "read"\n'
               '[permissions.tight.filesystem.":workspace_roots"]\n"." = "write"\n"secrets" = "deny"\n')
    run = stage.codex([command("cat secrets/key; touch ok && echo in:yes; ls /opt >/dev/null 2>&1 && echo opt:yes; true")], config=profile)
    assert "in:yes" in run.output() and "hidden-words" not in run.output() and "opt:yes" not in run.output(), run.output()


def check_pattern_profile(stage: Stage):
    """A profile with patterns: what they name is out of reach, also when the command has made it itself."""
    if stage.version < (0, 166):
        return
    stage.serve()
    (stage.ws / "deep").mkdir()
    for name in ("a.env", "deep/b.env"):
        (stage.ws / name).write_text("hidden-words")
    profile = ('default_permissions = "tight"\n[permissions.tight.filesystem]\n":minimal" = "read"\nglob_scan_max_depth = 3\n'
               '[permissions.tight.filesystem.":workspace_roots"]\n"." = "write"\n"**/*.env" = "deny"\n')
    run = stage.codex([command("cat a.env deep/b.env; mv a.env b; cat b; echo hidden-words > c.env; cat c.env; echo fine > d; cat d")],
                      config=profile)
    output = run.results[0]  # what the model is told: of a command that was denied something codex tells no event
    assert "fine" in output and "denied" in output and "hidden-words" not in output, output
    assert (stage.ws / "a.env").read_text() == "hidden-words" and not (stage.ws / "c.env").exists()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--packages", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    found = binaries(options.packages.resolve())
    if len(found) < 2:
        print(f"skipped: no codex in {options.packages}; ./dev deps sdk installs it (npm must be reachable)")
        return 77
    failed = 0
    for version, binary in sorted(found.items(), reverse=True):
        for name, check in list(globals().items()):
            if not name.startswith("check_") or options.only not in name:
                continue
            with tempfile.TemporaryDirectory(prefix="berth-codex-", dir="/var/tmp", ignore_cleanup_errors=True) as place:
                os.chmod(place, 0o755)
                stage = Stage(options.program, binary, pathlib.Path(place))
                stage.version = tuple(int(n) for n in version.split(".")[:2])
                try:
                    check(stage)
                    print(f"ok {version} {name[6:].replace('_', ' ')}", flush=True)
                except Exception:  # noqa: BLE001: a check that fails is told, whatever it was
                    failed += 1
                    print(f"FAILED {version} {name[6:]}\n{traceback.format_exc()}", flush=True)
                    if stage.server:
                        print(stage.server.told())
                if stage.server and stage.server.stop() != 0:
                    failed += 1
                    print(f"the exec-server did not end well in {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
