#!/usr/bin/env python3
"""Every intent with every operation, by a process and by fs/*: what may happen happens, what may not does not.

codex_matrix.py BERTH [VARIANT]     each cell is judged by what is on the disk afterwards
codex_matrix.py --upstream DIR [--table FILE [--write]]
                                    the same cells with the real `codex exec-server` of DIR (./dev deps sdk), newest version:
                                    prints those it gets wrong, and compares them with the list in FILE
"""
import argparse
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading

from codex_client import Client, Place, RpcError, at, b64, glob, intent, read_only, special, uri, workspace_write

BEGIN, END = "<!-- begin: cells that codex exec-server gets wrong -->", "<!-- end: cells that codex exec-server gets wrong -->"
SKIP = [{**special("project_roots", "read", subpath=n), "missing_path_behavior": "skip"} for n in (".git", ".agents", ".codex", ".aws")]


class World:
    """The same files before each cell."""

    def __init__(self, place: Place):
        self.ws, self.extra, self.outside = place.ws, place.path / "extra", place.path / "outside"
        self.tmp = pathlib.Path(f"/tmp/berth-matrix-{os.getpid()}")
        self.files = {"ws": self.ws / "file", "git": self.ws / ".git/config", "nested": self.ws / "sub/.git/config",
                      "secret": self.ws / "secrets/key", "env": self.ws / "sub/a.env", "extra": self.extra / "file",
                      "outside": self.outside / "file", "tmp": self.tmp / "file"}
        self.link = self.ws / "link"
        self.missing = self.ws / ".codex"
        self.reset()

    def reset(self) -> None:
        for path in self.files.values():
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_file() or path.read_text() != "old":
                path.write_text("old")
        if not self.link.is_symlink():
            self.link.unlink(missing_ok=True)
            self.link.symlink_to(self.files["outside"])
        for path in (self.missing, self.ws / "new", self.ws / ".git-moved"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def path(self, target: str) -> pathlib.Path:
        return {"link": self.link, "etc": pathlib.Path("/etc/passwd"), "missing": self.missing,
                "new": self.ws / "new"}.get(target) or self.files[target]

    def close(self) -> None:
        shutil.rmtree(self.tmp, ignore_errors=True)


def variants(w: World) -> dict:
    """Name to intent, what may be read, what may be written; `refused` where no process may start at all."""
    everything = {"ws", "git", "nested", "secret", "env", "extra", "outside", "tmp", "link", "etc"}
    mine = {"ws", "secret", "env", "new"}
    base = [special("root", "read"), special("project_roots", "write")]
    tmp = [special("slash_tmp", "write"), special("tmpdir", "write")]
    minimal = [special("minimal", "read"), special("project_roots", "write")]
    old = workspace_write(w.ws)
    old.pop("workspaceRoots")
    return {
        "read-only": (read_only(w.ws), everything, set()),
        "read-only, no roots": (read_only(), everything, set()),
        "workspace-write": (workspace_write(w.ws), everything, mine | {"tmp"}),
        "workspace-write, older client": (old, everything, mine | {"tmp"}),
        "workspace-write, add-dir": (workspace_write(w.ws, w.extra), everything, mine | {"tmp", "extra"}),
        "workspace-write, no roots": ({**workspace_write(cwd=w.ws), "workspaceRoots": []}, everything, {"tmp"}),
        "without temporary directories": (intent([*base, *SKIP], w.ws), everything, mine),
        "names without entries": (intent([*base, *tmp], w.ws), everything, mine | {"tmp"}),
        "one path more": (intent([*base, at(w.outside, "write")], w.ws), everything, mine | {"outside", "link"}),
        "deny a directory": (intent([*base, special("project_roots", "deny", subpath="secrets")], w.ws),
                             everything - {"secret"}, mine - {"secret"}),
        "deny a file": (intent([*base, at(w.files["secret"], "none")], w.ws), everything - {"secret"}, mine - {"secret"}),
        "deny beside a nested name": (intent([*base, at(w.files["env"], "deny")], w.ws), everything - {"env"}, mine - {"env"}),
        "read-only beside a nested name": (intent([*base, at(w.files["env"], "read")], w.ws), everything, mine - {"env"}),
        "deny a protected name": (intent([*base, at(w.files["git"].parent, "deny")], w.ws), everything - {"git"}, mine),
        "deny in a protected name": (intent([*base, at(w.files["git"], "deny")], w.ws), everything - {"git"}, mine),
        "deny outside": (intent([*base, at(w.outside, "deny")], w.ws), everything - {"outside", "link"}, mine),
        "read-only below the workspace": (intent([*base, special("project_roots", "read", subpath="secrets")], w.ws),
                                          everything, mine - {"secret"}),
        "git made writable": (intent([*base, special("project_roots", "write", subpath=".git")], w.ws), everything,
                              mine | {"git", "nested"}),
        "narrow reads": (intent(minimal, w.ws), {"ws", "git", "nested", "secret", "env", "etc"}, mine),
        "narrow reads and one path": (intent([*minimal, at(w.extra, "read")], w.ws),
                                      {"ws", "git", "nested", "secret", "env", "etc", "extra"}, mine),
        "client-local helper": (intent([*base, at("/home/nobody-here/.codex/tmp/arg0", "read")], w.ws), everything, mine),
        "unknown symbol": (intent([special("root", "read"), special("unknown", "write", path=":new")], w.ws), everything, set()),
        "network asked, none granted": (workspace_write(w.ws, network="enabled"), everything, mine | {"tmp"}),
        "deny pattern": (intent([*base, glob("codex-project-roots://**/*.env")], w.ws), everything - {"env"}, mine - {"env"}),
        "deny pattern, absolute": (intent([*base, glob(f"{w.ws}/**/*.env")], w.ws), everything - {"env"}, mine - {"env"}),
        "deny pattern of a directory": (intent([*base, glob("codex-project-roots://secr*/**")], w.ws), everything - {"secret"},
                                        mine - {"secret"}),
        "deny pattern, narrow reads": (intent([*minimal, glob("codex-project-roots://**/*.env")], w.ws),
                                       {"ws", "git", "nested", "secret", "etc"}, mine - {"env"}),
        "deny pattern outside": (intent([*base, glob(f"{w.outside}/*")], w.ws), everything - {"outside", "link"}, mine),
        "writes everywhere": (intent([special("root", "write")], w.ws), set(), set(), "refused", "refused"),
        "unrestricted files": (intent(None, w.ws), set(), set(), "refused", "refused"),
        "no sandbox": (None, everything, set(), "refused"),
    }


class Cells:
    def __init__(self, client, world: World, lenient: bool = False):
        self.client, self.world, self.count, self.wrong, self.lenient = client, world, 0, [], lenient
        self.cells: list[tuple] = []
        self.blocked_port, self.listener = self.listen()

    @staticmethod
    def listen() -> tuple[int, socket.socket]:
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=lambda: [listener.accept() for _ in iter(int, 1)], daemon=True).start()
        return listener.getsockname()[1], listener

    def process(self, script: str, sandbox) -> str:
        try:
            return "allow" if self.client.run(script, "/", sandbox)[0] == 0 else "deny"
        except RpcError as error:
            assert self.lenient or error.code == -32602, str(error)
            return "refused"

    def file(self, method: str, sandbox, **params) -> str:
        try:
            self.client.call(method, {"sandbox": sandbox, **params})
            return "allow"
        except RpcError as error:
            return "refused" if error.code == -32602 else "deny"

    def cell(self, name: str, how: str, operation: str, target: str, act, expected: str, happened=None) -> None:
        """One operation on untouched files: what came of it, and whether it happened where that can be looked for."""
        self.count += 1
        # A busy machine has codex fail now and then: its cell is wrong when it comes out so every time. Ours is at once.
        for _ in range(3 if self.lenient else 1):
            self.world.reset()
            got = act()
            # Whether it is refused before it runs or fails in its walls is all one to what must not happen.
            if self.lenient and got == "refused":
                got = "deny"
            came = happened() if happened else None
            if got == expected and (came is None or came == (expected == "allow")):
                return
        self.wrong.append(f"{name}: {operation} {target} by {how}: {got}, happened={came}; expected {expected}")
        became = "fails" if got != "allow" else "**happens**" if came is not False else "told as done, but nothing happens"
        self.cells.append((name, f"{operation} {target}", how, became))

    def variant(self, name: str, sandbox, readable: set, writable: set, process: str = "", files: str = "") -> None:
        w = self.world

        def both(operation: str, target: str, allowed: bool, script: str, method: str, params: dict, happened=None) -> None:
            by_process(operation, target, allowed, script, happened)
            self.cell(name, "fs", operation, target, lambda: self.file(method, sandbox, **params),
                      files or ("allow" if allowed else "deny"), happened)

        def by_process(operation: str, target: str, allowed: bool, script: str, happened=None) -> None:
            self.cell(name, "process", operation, target, lambda: self.process(script, sandbox),
                      process or ("allow" if allowed else "deny"), happened)

        for target in ("ws", "git", "nested", "secret", "env", "extra", "outside", "tmp", "link", "etc"):
            path = w.path(target)
            both("read", target, target in readable, f"cat {path} >/dev/null", "fs/readFile", {"path": uri(path)})
        for target in ("ws", "git", "nested", "secret", "env", "extra", "outside", "tmp", "link", "new"):
            path = w.path(target)
            both("write", target, target in writable, f"printf changed > {path}", "fs/writeFile",
                 {"path": uri(path), "dataBase64": b64(b"changed")}, lambda: path.exists() and path.read_text() == "changed")
        for target in ("ws", "git", "secret", "outside"):
            path = w.path(target)
            both("remove", target, target in writable, f"rm {path}", "fs/remove",
                 {"path": uri(path), "force": False, "recursive": False}, lambda: not path.exists())
        both("create", "a missing protected name", False, f"mkdir {w.missing} && touch {w.missing}/x", "fs/createDirectory",
             {"path": uri(w.missing)}, w.missing.exists)
        moved = w.ws / ".git-moved"
        by_process("rename", "a protected name", "git" in writable, f"mv {w.ws}/.git {moved}", moved.exists)
        by_process("connect", "the host's loopback", False,
                   f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{self.blocked_port}' 2>/dev/null")
        w.reset()


def run_all(cells: Cells, only: str = "") -> None:
    for name, variant in variants(cells.world).items():
        if only and only != name:
            continue
        # What our operator does not grant is no fault of theirs.
        if cells.lenient and ("refused" in variant[4:] or name in ("no sandbox", "network asked, none granted")):
            continue
        before = len(cells.wrong)
        cells.variant(name, *(variant[:3] if cells.lenient else variant))
        print(f"{'ok' if len(cells.wrong) == before else 'WRONG':6}{name}", flush=True)


def ours(program: str, only: str) -> int:
    with Place(program) as place:
        world = World(place)
        try:
            cells = Cells(place.server().client(), world)
            run_all(cells, only)
            left = subprocess.run(["find", str(place.ws), "-name", ".aws", "-o", "-name", ".agents"], capture_output=True,
                                  text=True, check=True).stdout
            if left:
                cells.wrong.append("left behind: " + left)
        finally:
            world.close()
        print(f"{cells.count} cells, {len(cells.wrong)} wrong")
        for line in cells.wrong:
            print(line)
        assert only or cells.count >= 200
        return 1 if cells.wrong else 0


def table_of(cells: Cells, version: str) -> str:
    """By what was done: where it happened although it must not, and where it did not although it may."""
    rows: dict = {}
    for name, what, how, became in cells.cells:
        rows.setdefault((what, how, became), []).append(name)
    lines = [f"codex {version}: {len(cells.cells)} of {cells.count} cells.", "", "| operation | by | | under |", "|---|---|---|---|"]
    for (what, how, became), names in sorted(rows.items()):
        lines.append(f"| {what} | {how} | {became} | {'; '.join(names)} |")
    return BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END


def theirs(packages: pathlib.Path, table: pathlib.Path | None, write: bool) -> int:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "sdk" / "codex"))
    from compare import Upstream, compare  # noqa: PLC0415: only this mode has codex
    from harness import binaries  # noqa: PLC0415
    found = binaries(packages.resolve())
    if not found:
        print(f"skipped: no codex in {packages}; ./dev deps sdk installs it (npm must be reachable)")
        return 77
    version = max(found, key=lambda v: [int(n) for n in v.split(".")])
    with Place("") as place:
        world = World(place)
        server = Upstream(found[version], place.path)
        try:
            cells = Cells(Client(server.port), world, lenient=True)
            run_all(cells)
        finally:
            server.stop()
            world.close()
        text = table_of(cells, version)
        print(text)
        return 0 if table is None or compare(table, text, write, (BEGIN, END)) else 1


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?")
    parser.add_argument("variant", nargs="?", default="")
    parser.add_argument("--upstream", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.upstream:
        return theirs(options.upstream, options.table, options.write)
    return ours(options.program, options.variant)


if __name__ == "__main__":
    sys.exit(main())
