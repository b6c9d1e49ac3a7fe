#!/usr/bin/env python3
"""prober.py PROBER: the prober where there is no wall at all. It must see that, and harm nothing: what was there
before is not moved, changed or removed, not for a moment (whoever is killed in that moment would have done it)."""
import ctypes
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

PROBER = os.path.realpath(sys.argv[1])
LIBC = ctypes.CDLL(None, use_errno=True)
IN_MODIFY, IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE, IN_MOVE_SELF = 2, 4, 0x40, 0x80, 0x100, 0x200, 0x800
OURS = ".berth-probe-"


def ask(*acts: list[str], token: str = "t0") -> list[list[str]]:
    """The outcome, the certainty and the words of each act."""
    lines = [f"0\ttoken\t{token}", *("\t".join([str(i + 1), *act]) for i, act in enumerate(acts))]
    done = subprocess.run([PROBER], input="\n".join(lines) + "\n", text=True, capture_output=True, check=True, timeout=100)
    answers = [line.split("\t")[1:] for line in done.stdout.splitlines() if line.count("\t") == 4]
    assert [a[0] for a in answers] == [str(i + 1) for i in range(len(acts))], done.stdout
    return [a[1:] for a in answers]


def watch(directories: list[pathlib.Path]) -> int:
    fd = LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    for one in directories:
        mask = IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_MOVE_SELF
        assert LIBC.inotify_add_watch(fd, str(one).encode(), mask) >= 0
    return fd


def happened(fd: int) -> list[tuple[int, str]]:
    out = []
    try:
        while data := os.read(fd, 1 << 16):
            at = 0
            while at < len(data):
                _, mask, _, size = struct.unpack_from("iIII", data, at)
                out.append((mask, data[at + 16:at + 16 + size].rstrip(b"\0").decode()))
                at += 16 + size
    except BlockingIOError:
        pass
    return out


def project(top: pathlib.Path) -> pathlib.Path:
    work = top / "work"
    for name in (".git", "part/deep/.git", "src"):
        (work / name).mkdir(parents=True)
    for name in (".git/config", "part/deep/.git/config", "src/main.c", "file"):
        (work / name).write_text(name)
    return work


def snapshot(top: pathlib.Path) -> dict:
    return {str(p): (p.lstat().st_ino, p.lstat().st_mode, p.lstat().st_nlink, p.read_text() if p.is_file() else "") for p in top.rglob("*")}


def every_change(work: pathlib.Path) -> list[list[str]]:
    acts = [["over", f"{work}/file"], ["over", f"{work}/.git"]]  # an act that once was; an unknown one is harmless too
    for path in (f"{work}/file", f"{work}/.git", f"{work}/src"):
        acts += [[act, path] for act in ("write", "create", "away", "make", "by-proc", "reopen", "remount")]
        acts += [["hard-link", path, str(work)], ["link", path, str(work)]]
    acts += [["make", f"{work}/.codex"], ["deep", str(work), ".git"], ["work", str(work)], ["devices", str(work)],
             ["disk", str(work), "1000000"], ["mounts"], ["namespaces"], ["kernel-settings"], ["sweep", str(work)]]
    return acts


def without_a_wall_nothing_is_touched(top: pathlib.Path) -> None:
    work = project(top)
    before = snapshot(top)
    fd = watch([top, *(p for p in top.rglob("*") if p.is_dir())])
    outcomes = dict(zip(map(tuple, every_change(work)), ask(*every_change(work))))
    # Links to a file of ours come and go: its count changes, it does not.
    events = [(mask, name) for mask, name in happened(fd) if not name.startswith(OURS) and not (mask & 0xfff) == IN_ATTRIB]
    assert not events, events
    assert snapshot(top) == before
    for act in ("write", "create", "away", "by-proc", "reopen"):
        for name in ("file", ".git"):
            if (act, name) != ("create", "file"):
                assert outcomes[act, f"{work}/{name}"][0] == "permitted", (act, name, outcomes[act, f"{work}/{name}"])
    assert outcomes["make", f"{work}/.codex"][0] == "permitted"
    assert outcomes["deep", str(work), ".git"][0] == "permitted"


def what_could_not_be_set_up_is_untried(top: pathlib.Path) -> None:
    nowhere = f"{top}/nowhere"
    (top / "file").write_text("x")
    for act in (["link", f"{top}/file", nowhere], ["hard-link", f"{top}/file", nowhere], ["disk", nowhere, "1"], ["make", f"{nowhere}/x"]):
        assert ask(act)[0][0] == "untried", (act, ask(act))


def a_sweep_takes_nothing_that_holds_something(top: pathlib.Path) -> None:
    kept = [f"{OURS}t0-1", f"{OURS}t0-2/mine", "other"]
    (top / f"{OURS}t0-2").mkdir()
    for name in kept:
        (top / name).write_text("of somebody")
    (top / f"{OURS}t0-3").touch()
    (top / f"{OURS}t0-4").mkdir()
    (top / f"{OURS}t0-4/file").write_text("berth")
    (top / f"{OURS}t0-5").symlink_to("other")
    (top / f"{OURS}t1-1").touch()  # of a proof that may still run
    ask(["sweep", str(top)])
    assert {str(p.relative_to(top)) for p in top.rglob("*")} == {*kept, f"{OURS}t0-2", f"{OURS}t1-1"}, list(top.rglob("*"))
    for name in kept:
        assert (top / name).read_text() == "of somebody"


def killed_at_any_moment_it_leaves_what_was_there(top: pathlib.Path) -> None:
    work = project(top)
    before = snapshot(top)
    lines = "0\ttoken\tt0\n" + "".join("\t".join(["1", *act]) + "\n" for act in every_change(work) if act[0] not in ("sweep", "namespaces")) * 3
    for step in range(60):
        child = subprocess.Popen([PROBER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        child.stdin.write(lines)
        child.stdin.close()
        time.sleep(step * 0.0007)
        child.send_signal(signal.SIGKILL)
        child.stdout.read()  # its act, which dies with it, has the other end too
        child.wait()
        ask(["sweep", *(str(p) for p in (work, work / ".git", work / "src", work / "part/deep/.git"))])
        after = snapshot(top)
        assert {k: v[3] for k, v in after.items()} == {k: v[3] for k, v in before.items()}, (step, set(after) ^ set(before))


INSIDE = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"; mkdir "$1/a"; mount --bind "$1/a" "$1/a"; mount -o remount,bind,ro "$1/a"
mkdir "$1/b"; echo x > "$1/b/file"; mount --bind "$1/b/file" "$1/b/file"; exec "$2" "$3" "$4" "$1" mounts
"""


def mounts_are_tried_and_never_changed(top: pathlib.Path) -> None:
    rights = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    if subprocess.run([*rights, "true"], capture_output=True, check=False).returncode != 0:
        print("skipped a part: no mount namespace may be made here; as root it runs")
        return
    subprocess.run([*rights, "sh", "-c", INSIDE, "sh", str(top), sys.executable, str(pathlib.Path(__file__).resolve()), PROBER],
                   check=True, timeout=100)


def inside(top: pathlib.Path) -> None:
    """In a mount namespace of our own, with the right to mount: the table of mounts is not touched."""
    import select
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        before = table.read()
        changes = select.poll()
        changes.register(table.fileno(), select.POLLPRI)
        changes.poll(0)
        answers = ask(["remount", f"{top}/a"], ["mounts"], ["away", f"{top}/a"], ["away", f"{top}/b/file"], ["write", f"{top}/a"])
        assert not changes.poll(0), "the mounts were changed"
        table.seek(0)
        assert table.read() == before
    assert [a[0] for a in answers] == ["permitted", "permitted", "refused", "refused", "refused"], answers
    assert answers[2][1] == answers[3][1] == "1", answers


def main() -> int:
    if len(sys.argv) > 3 and sys.argv[3] == "mounts":
        inside(pathlib.Path(sys.argv[2]))
        return 0
    for check in (without_a_wall_nothing_is_touched, what_could_not_be_set_up_is_untried, a_sweep_takes_nothing_that_holds_something,
                  killed_at_any_moment_it_leaves_what_was_there, mounts_are_tried_and_never_changed):
        with tempfile.TemporaryDirectory(prefix="berth-prober-") as top:
            check(pathlib.Path(top))
        print(f"ok {check.__name__}", flush=True)
    return 0


sys.exit(main())
