#!/usr/bin/env python3
"""The same runs of the real codex through `berth exec-server` and through its own: what completes, what is blocked.

compare.py --program BERTH --packages DIR [--table FILE [--write]] [--only ROW]

Each run asks for something that it may do and for something that its policy forbids. Whether that really happened is
looked for where it would have happened: on the disk, on a socket. Exits 77 when DIR has no codex (./dev deps sdk).
"""
import argparse
import base64
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent.parent / "server"))
from codex_client import Client, uri, workspace_write  # noqa: E402
from fake_model import apply_patch, command, view_image, write_stdin  # noqa: E402
from harness import ExecServer, binaries, codex  # noqa: E402

BEGIN, END = "<!-- begin: codex beside its own exec-server -->", "<!-- end: codex beside its own exec-server -->"
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


class Upstream:
    """codex's own exec-server; below a temporary directory its helpers would not be made."""

    def __init__(self, binary: pathlib.Path, place: pathlib.Path):
        home, temporary = place / "server-home", place / "server-tmp"
        home.mkdir()
        temporary.mkdir()
        self.log = open(place / "upstream.log", "w", encoding="utf-8")
        self.process = subprocess.Popen([str(binary), "exec-server", "--listen", "ws://127.0.0.1:0"], stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, stdin=subprocess.DEVNULL,
                                        env={**os.environ, "CODEX_HOME": str(home), "HOME": str(home), "TMPDIR": str(temporary)})
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("ws://"), pathlib.Path(self.log.name).read_text(encoding="utf-8")
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Stage:
    """A workspace, a place outside of it, and one of the two servers."""

    def __init__(self, who: str, program: str, binary: pathlib.Path, place: pathlib.Path, version: tuple):
        self.who, self.program, self.binary, self.place, self.version = who, program, binary, place, version
        self.ws, self.outside = place / "ws", place / "outside"
        for directory in (self.ws, self.outside):
            directory.mkdir(parents=True)
        self.server = None

    def serve(self, *options: str):
        self.server = ExecServer(self.program, self.place, *options) if self.who == "berth" else Upstream(self.binary, self.place)
        return self.server

    def codex(self, steps: list, *options: str, url: str = "", **more):
        if self.server is None:
            self.serve()
        run = codex(self.binary, self.place, self.ws, url or self.server.url, steps, *options, **more)
        assert run.code == 0, (run.code, run.errors[-2000:])
        return run


# Each returns whether it completed, and whether what is forbidden was kept from happening (None: nothing was).


def row_read_only(s: Stage):
    (s.ws / "f").write_text("old")
    run = s.codex([command(f"cat f; echo new > f; touch {s.outside}/x; true")], "-s", "read-only")
    return "old" in run.output(), (s.ws / "f").read_text() == "old" and not (s.outside / "x").exists()


def row_workspace_write(s: Stage):
    run = s.codex([command(f"echo new > f && cat f; touch {s.outside}/x; true")], "-s", "workspace-write")
    return "new" in run.output() and (s.ws / "f").exists(), not (s.outside / "x").exists()


def row_git_is_not_written(s: Stage):
    (s.ws / ".git").mkdir()
    (s.ws / ".git/config").write_text("old")
    run = s.codex([command("echo new > f && cat f; echo bad > .git/config; mv .git moved; true")], "-s", "workspace-write")
    return "new" in run.output(), (s.ws / ".git/config").read_text() == "old"


def row_nested_git_is_not_written(s: Stage):
    (s.ws / "sub/.git").mkdir(parents=True)
    (s.ws / "sub/.git/config").write_text("old")
    run = s.codex([command("echo new > f && cat f; echo bad > sub/.git/config; true")], "-s", "workspace-write")
    return "new" in run.output(), (s.ws / "sub/.git/config").read_text() == "old"


def row_network_is_off(s: Stage):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        run = s.codex([command(f"echo ran; bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'; true")], "-s", "workspace-write")
        listener.settimeout(0.2)
        try:
            listener.accept()
            connected = True
        except TimeoutError:
            connected = False
    return "ran" in run.output(), not connected


def row_full_access(s: Stage):
    s.serve("--unsandboxed", "allow")
    run = s.codex([command(f"touch {s.outside}/x && echo ran")], "-s", "danger-full-access")
    return "ran" in run.output() and (s.outside / "x").exists(), None


def row_full_access_an_operator_does_not_grant(s: Stage):
    run = s.codex([command(f"touch {s.outside}/x; true")], "-s", "danger-full-access")
    return len(run.results) == 1, not (s.outside / "x").exists()


def row_add_dir(s: Stage):
    run = s.codex([command(f"touch {s.outside}/x && echo ran; touch {s.place}/y; true")], "-s", "workspace-write",
                  "--add-dir", str(s.outside))
    return "ran" in run.output() and (s.outside / "x").exists(), not (s.place / "y").exists()


def row_profile_with_a_denied_directory(s: Stage):
    if s.version < (0, 166):
        return None
    (s.ws / "secrets").mkdir()
    (s.ws / "secrets/key").write_text("hidden-words")
    profile = ('default_permissions = "tight"\n[permissions.tight.filesystem]\n":minimal" = "read"\n'
               '[permissions.tight.filesystem.":workspace_roots"]\n"." = "write"\n"secrets" = "deny"\n')
    run = s.codex([command("echo ran; cat secrets/key; true")], config=profile)
    return "ran" in run.output(), "hidden-words" not in run.output()


def row_profile_with_a_denied_pattern_also_for_a_new_file(s: Stage):
    if s.version < (0, 166):
        return None
    (s.ws / "a.env").write_text("hidden-words")
    profile = ('default_permissions = "tight"\n[permissions.tight.filesystem]\n":minimal" = "read"\n'
               '[permissions.tight.filesystem.":workspace_roots"]\n"." = "write"\n"**/*.env" = "deny"\n')
    run = s.codex([command("echo ran; cat a.env; echo later-words > b.env; cat b.env; true")], config=profile)
    shown = run.results[0] if run.results else ""
    return "ran" in shown, "hidden-words" not in shown and "later-words" not in shown


def row_terminal_with_input(s: Stage):
    def keys(told: str) -> dict:
        return write_stdin(int(re.search(r"session ID (\d+)", told).group(1)), f"abc\ntouch {s.outside}/x\nexit\n")

    run = s.codex([command("read line; echo got:$line; exec bash --norc -i", tty=True, yield_time_ms=1500), keys], "-s", "workspace-write")
    return "got:abc" in run.results[-1], not (s.outside / "x").exists()


def row_apply_patch(s: Stage):
    (s.ws / "old.txt").write_text("one\ntwo\n")
    (s.ws / "link").symlink_to(s.outside)
    good = "*** Begin Patch\n*** Add File: sub/new.txt\n+hello\n*** Update File: old.txt\n@@\n one\n-two\n+three\n*** End Patch"
    bad = "*** Begin Patch\n*** Add File: link/p\n+no\n*** End Patch"
    s.codex([apply_patch(good), apply_patch(bad)], "-s", "workspace-write")
    done = (s.ws / "sub/new.txt").exists() and (s.ws / "old.txt").read_text() == "one\nthree\n"
    return done, not (s.outside / "p").exists()


def row_view_image(s: Stage):
    if s.version < (0, 166):
        (s.ws / "dot.png").write_bytes(PIXEL)
        return "data:image" in s.codex([view_image("dot.png")], "-s", "read-only").results[0], None
    (s.ws / "secrets").mkdir()
    for path in (s.ws / "dot.png", s.ws / "secrets/dot.png"):
        path.write_bytes(PIXEL)
    profile = ('default_permissions = "tight"\n[permissions.tight.filesystem]\n":minimal" = "read"\n'
               '[permissions.tight.filesystem.":workspace_roots"]\n"." = "write"\n"secrets" = "deny"\n')
    run = s.codex([view_image("dot.png"), view_image("secrets/dot.png")], config=profile)
    return "data:image" in run.results[0], "data:image" not in run.results[1]


def row_connection_cut_in_the_middle(s: Stage):
    server, cuts, told = s.serve(), [], []

    def pipe(source, sink, from_server):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
                if from_server and b"process/output" in data and not cuts:
                    told.append(1)
                    if len(told) == 3:
                        cuts.append(1)
                        break
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def accept(listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", server.port))
            threading.Thread(target=pipe, args=(client, far, False), daemon=True).start()
            threading.Thread(target=pipe, args=(far, client, True), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        run = s.codex([command(f"for i in 1 2 3 4 5 6 7 8; do echo line:$i; sleep 0.3; done; touch {s.outside}/x; true")],
                      "-s", "workspace-write", url=f"ws://127.0.0.1:{listener.getsockname()[1]}")
    lines = re.findall(r"line:\d", run.results[0]) if run.results else []
    return bool(cuts) and lines == [f"line:{i}" for i in range(1, 9)], not (s.outside / "x").exists()


def row_terminated_command_leaves_no_trace(s: Stage):
    """By a client of ours: codex itself waits for its commands."""
    server = s.serve()
    client = Client(server.port)
    client.start("p", "echo ready; sleep 1000", str(s.ws), workspace_write(s.ws))
    client.wait(lambda: client.of("p"))
    client.call("process/terminate", {"processId": "p"})
    client.finish("p")
    client.cut()
    server.stop()
    return True, not any(s.ws.iterdir())


def row_large_file_in_one_answer(s: Stage):
    (s.ws / "large").write_bytes(b"x" * (20 << 20))
    client = Client(s.serve().port)
    got = client.call("fs/readFile", {"path": uri(s.ws / "large"), "sandbox": workspace_write(s.ws)})
    return len(got["dataBase64"]) > (20 << 20), max(client.frames) <= (16 << 20)


def title(name: str) -> str:
    return name[4:].replace("_", " ").replace("read only", "`-s read-only`").replace("add dir", "`--add-dir`")


def cell(seen) -> str:
    if seen is None:
        return "–"
    done, blocked = seen
    words = ["completes" if done else "**does not complete**"]
    if blocked is not None:
        words.append("blocked" if blocked else "**not blocked**")
    return ", ".join(words)


def render(rows: dict, columns: list) -> str:
    lines = ["| run | " + " | ".join(f"{who} {version}" for who, version in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, cells in rows.items():
        lines.append(f"| {title(name)} | " + " | ".join(cell(cells[column]) for column in columns) + " |")
    return BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END


def compare(file: pathlib.Path, text: str, write: bool, marks: tuple = (BEGIN, END)) -> bool:
    page = file.read_text(encoding="utf-8")
    before, _, rest = page.partition(marks[0])
    shown, _, after = rest.partition(marks[1])
    if write:
        file.write_text(before + text + after, encoding="utf-8")
        return True
    if marks[0] + shown + marks[1] == text:
        return True
    print(f"{file} does not say what was seen; --write puts it there:\n{text}")
    return False


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--packages", required=True, type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    found = binaries(options.packages.resolve())
    if not found:
        print(f"skipped: no codex in {options.packages}; ./dev deps sdk installs it (npm must be reachable)")
        return 77
    versions = sorted(found, key=lambda v: [int(n) for n in v.split(".")], reverse=True)
    columns = [(who, version) for version in versions for who in ("berth", "codex")]
    rows, failed = {}, False
    home = pathlib.Path.home() if os.access(pathlib.Path.home(), os.W_OK) else pathlib.Path("/var/tmp")
    for name, row in list(globals().items()):
        if not name.startswith("row_") or options.only not in name:
            continue
        rows[name] = {}
        for who, version in columns:
            place = pathlib.Path(tempfile.mkdtemp(prefix="berth-compare-", dir="/var/tmp" if who == "berth" else home))
            place.chmod(0o755)
            stage = Stage(who, options.program, found[version], place, tuple(int(n) for n in version.split(".")[:2]))
            try:
                rows[name][who, version] = row(stage)
            except Exception as error:  # noqa: BLE001: one run that cannot be made is a row that did not complete
                print(f"{name} {who} {version}: {error!r}", flush=True)
                rows[name][who, version] = (False, None)
            if stage.server:
                stage.server.stop()
            shutil.rmtree(place, ignore_errors=True)
            print(f"{title(name)}: {who} {version}: {cell(rows[name][who, version])}", flush=True)
            mine = rows[name][who, version]
            failed |= who == "berth" and mine is not None and (not mine[0] or mine[1] is False) and "pattern" not in name
    if options.table and not options.only:
        failed |= not compare(options.table, render(rows, columns), options.write)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
