#!/usr/bin/env python3
"""A supervisor that puts the server into a control group of its own, ends what is in it, and starts it again: sandboxes
and what runs in them go on. supervisor.py BERTH [CHECK]"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

from restart import all_of, wait_for
from served import Box, Server, envelope, envelopes, parse, read_all

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def v2_mount() -> pathlib.Path | None:
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return pathlib.Path(where)
    return None


def own_v2_group() -> pathlib.Path | None:
    mount = v2_mount()
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        if mount and line.startswith("0::"):
            return mount / line[4:]
    return None


class Supervisor:
    """A unit has a group; what is left in it is ended; `trims`, as systemd does: empty groups below it are removed."""

    def __init__(self, program: str, data: str, group: pathlib.Path):
        self.program, self.data, self.group = program, data, group
        self.trims = group.name.endswith(".service")
        group.mkdir(parents=True, exist_ok=True)
        self.server: Server | None = None

    def start(self) -> Server:
        procs = os.open(self.group / "cgroup.procs", os.O_WRONLY)
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        told.bind("\0berth-supervisor-" + str(os.getpid()))
        told.settimeout(30)
        try:
            self.server = Server(self.program, self.data, before=lambda: os.write(procs, b"0"),
                                 environment={"NOTIFY_SOCKET": "@berth-supervisor-" + str(os.getpid())})
            assert told.recv(100) == b"READY=1", "it tells when it is ready"
        finally:
            os.close(procs)
            told.close()
        return self.server

    def members(self) -> list[int]:
        """Of the unit, without what sandboxes have below it."""
        out = []
        for where, below, _ in os.walk(self.group):
            if "berth" in below:
                below.remove("berth")
            try:
                out += [int(pid) for pid in (pathlib.Path(where) / "cgroup.procs").read_text().split()]
            except OSError:
                pass  # a group that went meanwhile
        return out

    def strangers(self) -> list[str]:
        """Programs in it that are not the server's own: a keeper is another one."""
        programs = {}
        for pid in self.members():
            try:
                programs[pid] = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                pass  # it ended meanwhile
        assert self.server.process.pid in programs
        return [one for one in programs.values() if one != self.program]

    def end(self, kill: signal.Signals) -> None:
        for pid in self.members():
            try:
                os.kill(pid, kill)
            except ProcessLookupError:
                pass  # it ended with the one before
        self.server.process.wait(60)
        wait_for(lambda: not self.members(), "the unit is empty")
        for where, _, _ in os.walk(self.group, topdown=False) if self.trims else ():
            try:
                os.rmdir(where)
            except OSError:
                pass  # somebody lives in it
        self.group.mkdir(exist_ok=True)

    def keepers(self) -> int:
        """Processes of sandboxes in groups below or beside the unit."""
        count = 0
        for where, _, files in os.walk(self.group.parent):
            if "berth-keep-" in where and "cgroup.procs" in files:
                count += len((pathlib.Path(where) / "cgroup.procs").read_text().split())
        return count


def connected(box: Box, pid: int) -> tuple[socket.socket, bytes]:
    """What a process prints from now on, and what has come of it: the server has said that it is there."""
    body = envelope(json.dumps({"process": {"pid": pid}}).encode())
    lines = {"Host": "127.0.0.1", "Connection": "close", "Content-Type": "application/connect+json", "Content-Length": str(len(body)), **box.headers()}
    s = box.server.connect()
    s.sendall(("POST /process.Process/Connect HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode() + body)
    seen = b""
    while b'"start"' not in seen:
        piece = s.recv(65536)
        assert piece, seen
        seen += piece
    return s, seen


def goes_on(supervisor: Supervisor, kill: signal.Signals) -> None:
    server = supervisor.server or supervisor.start()
    boxes = [server.create(metadata={"n": str(i)}) for i in range(3)]
    busy, quiet = boxes[0], boxes[1:]
    stream, pid = busy.start("i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i > count; echo line $i; sleep 0.02; done; echo bye")
    assert supervisor.strangers() == [], "nothing but the server is in its part"
    assert supervisor.keepers() >= 4, "each sandbox has processes in groups of its own"
    stream.close()
    supervisor.end(kill)
    assert supervisor.keepers() >= 4, "and keeps them"
    server = supervisor.start()
    assert {one["sandboxID"] for one in all_of(server) if one["state"] == "running"} == {box.id for box in boxes}
    for box in boxes:
        box.server = server
    for box in quiet:
        assert box.run("echo again")[0] == "again\n"
    count = lambda: int(busy.ask("GET", "/files?path=count")[2] or b"0")
    before = count()
    wait_for(lambda: count() > before, "the command goes on")
    stream, seen = connected(busy, pid)
    with stream:
        busy.ask("POST", "/files?path=stop", b"", Content_Type="application/octet-stream")
        _, _, body = parse(seen + read_all(stream))
    assert envelopes(body)[-2][1]["event"]["end"]["status"] == "exit status 0", body
    assert supervisor.strangers() == []
    for box in boxes:
        assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


def units_are_what_systemd_reads(program: str, place: str) -> None:
    build = pathlib.Path(program).resolve().parent
    units = build / "packaging/systemd"
    if os.access(build, os.W_OK):  # cmake leaves a list of what it installed there
        subprocess.run(["cmake", "--install", str(build), "--prefix", place + "/usr"], check=True, capture_output=True)
        units = pathlib.Path(place, "usr/lib/systemd")
    for manager in ("system", "user"):
        unit = units / manager / "berth.service"
        lines = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line and not line.startswith("#"))
        assert lines["Delegate"] == "yes" and lines["KillMode"] == "process" and lines["Slice"] == "berth.slice", lines
        weak = [name for name in lines if name.startswith(("NoNewPrivileges", "Restrict", "Protect", "Private", "SystemCall", "Lock", "MemoryDeny"))
                and name != "RestartSec"]
        assert not weak, f"takes away what sandboxes need: {weak}"
        slice_unit = SOURCE / "packaging/systemd/berth.slice"
        assert units == build / "packaging/systemd" or unit.with_name("berth.slice").read_bytes() == slice_unit.read_bytes()
        if not shutil.which("systemd-analyze"):
            print(f"only read by eye, not by systemd, {manager} (to have it: apt-get install systemd)", flush=True)
            continue
        # The program the unit names is not where the unit will be used; everything else is.
        looked = unit.read_text().replace(lines["ExecStart"].split()[0], program)
        checked = pathlib.Path(place, manager)
        checked.mkdir()
        (checked / "berth.service").write_text(looked)
        shutil.copy(slice_unit, checked)
        ended = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--{manager}", str(checked / "berth.service")],
                               capture_output=True, text=True, check=False, env={**os.environ, "XDG_RUNTIME_DIR": place})
        about = [line for line in ended.stderr.splitlines() if "berth" in line]
        assert ended.returncode == 0 and not about, ended


def main() -> int:
    program = os.path.realpath(sys.argv[1])
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    failed = count = 0
    with tempfile.TemporaryDirectory(prefix="berth-supervised-", ignore_cleanup_errors=True) as place:
        checks = [("the units are what systemd reads", lambda: units_are_what_systemd_reads(program, place))]
        above = own_v2_group()
        root = above / f"berth-test-{os.getpid()}" if above else None
        made = None
        if root is not None and os.access(root.parent, os.W_OK):
            made = root
            for name, group in (("in a group of its own", root / "alone"), ("in a unit of our slice", root / "berth.slice/berth.service")):
                supervisor = Supervisor(program, f"{place}/{group.name}/data", group)
                os.mkdir(f"{place}/{group.name}")
                for kill in (signal.SIGTERM, signal.SIGKILL):
                    checks.append((f"sandboxes go on when a supervisor ends a server {name} by {kill.name}",
                                   lambda supervisor=supervisor, kill=kill: goes_on(supervisor, kill)))
        else:
            print("not tried: no control group of v2 that we may write in (as root, or systemd-run --user --scope -p Delegate=yes …)", flush=True)
        for name, work in checks:
            if only not in name:
                continue
            count += 1
            try:
                work()
                print(f"ok {name}", flush=True)
            except Exception:  # noqa: BLE001: a check that fails is told, whatever it was
                failed += 1
                print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
        for one in Server.started:
            if one.process.poll() is None:
                one.stop()
            left = subprocess.run([program, "ls", "-q", "--data", one.data], check=False, capture_output=True, text=True).stdout.split()
            if left:
                subprocess.run([program, "rm", *left, "--data", one.data], check=False, capture_output=True)
        if made is not None:
            deadline = time.monotonic() + 60
            while made.exists() and time.monotonic() < deadline:
                for where, _, _ in os.walk(made, topdown=False):
                    try:
                        os.rmdir(where)
                    except OSError:
                        time.sleep(0.02)
            if made.exists():
                failed += 1
                print(f"FAILED somebody is left in {made}", flush=True)
        if failed:
            for log in pathlib.Path(place).glob("*/server.log"):
                print(log.read_text(encoding="utf-8")[-4000:])
    print(f"{count - failed} held, {failed} did not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
