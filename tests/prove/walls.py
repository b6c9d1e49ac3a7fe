#!/usr/bin/env python3
"""walls.py BERTH-HOOKS: takes each wall away in turn; the proof must notice, and name the probe.

The program is the twin of berth whose walls tests may switch off. What a wall stops is looked at by probes: the
table printed here says by which. As root the half of root, as anybody else that of an ordinary user."""
import json
import os
import pathlib
import signal
import subprocess
import sys

from person import EXIT_NOT_HELD, Place, tree, wrong

ROOT = os.geteuid() == 0
# Wall -> what is created, and a probe that must turn red.
WALLS = {
    "pivot-root": ([], "read_file_of_the_host"),
    "filter": ([], "use_keyrings_of_the_host"),
    "capabilities": ([], "have_capabilities_that_reach_beyond"),
    "no-new-privs": ([], "gain_privileges_by_set_id"),
    "net-namespace": ([], "reach_loopback_of_the_host"),
    "close-descriptors": ([], "use_inherited_descriptor"),
    "file-mounts,landlock": (["--policy", "workspace-write", "--workspace", "WORK"], "write_directly"),
    "landlock": (["--net", "host"], "reach_abstract_socket_of_the_host"),
    "supervisor": (["--policy", "PATTERNS", "--workspace", "WORK"], "make_a_match"),
    "mask-kcore": ([], "look_behind_mask"),
    "mask-keys": ([], "look_behind_mask"),
    "mask-acpi": ([], "look_behind_mask"),
}
# A kept sandbox has a second wall behind this one: its keeper lets nothing through that it was not given.
DOUBLED = {"close-descriptors"}
# Where ids cannot be mapped the backend says so itself and is weaker: the receipt tells it too.
# So with abstract sockets on the host's own network, which only newer kernels keep apart.
TOLD = {"user-namespace", "landlock"}
FOR_ROOT = {"user-namespace": ([], "be_root_of_the_host"),
            # With mapped ids nobody inside owns a setting: the mount is the wall where they are missing.
            "mask-sys": ([], "change_kernel_settings", {"BERTH_TEST_LACK": "idmap"}),
            "cgroup": (["--memory", "64M", "--limits", "best-effort"], "use_more_memory")}
FOR_USER = {"rlimits": (["--pids", "100"], "make_more_processes")}
# Made for a protected name that is not there, and removed by `doctor --clean`.
PLACEHOLDERS = (".husky", ".agents", ".claude", ".codex", ".cursor", ".opencode", ".pi", ".mcp.json", ".devcontainer", ".idea", ".vscode")


def present(wall: str) -> bool:
    return not wall.startswith("mask-") or wall == "mask-sys" or pathlib.Path("/proc", wall[5:]).exists()


def a_key_is_not_lost() -> None:
    """What is to take over a key has it when it has stood its proof, and not before."""
    with Place(sys.argv[1]) as place:
        old = place.create("--key", "mine")
        place.well("exec", old, "--", "sh", "-c", "echo work > /tmp/work")
        refused = place.run("create", "--key", "mine", "--prove", "--pids", "77", BERTH_TEST_WALLS_OFF="filter")
        assert refused.returncode == EXIT_NOT_HELD, refused
        assert [one["id"] for one in place.document("ls")["sandboxes"]] == [old], place.document("ls")
        killed = place.run("create", "--key", "mine", "--prove", "--pids", "77", BERTH_TEST_KILL="sandbox judged")
        assert killed.returncode == -signal.SIGKILL, killed
        place.well("gc")
        assert [one["id"] for one in place.document("ls")["sandboxes"]] == [old], place.document("ls")
        assert place.create("--key", "mine") == old
        assert place.well("exec", "mine", "--", "cat", "/tmp/work") == "work\n"


def main() -> int:
    a_key_is_not_lost()
    unseen = []
    table = {**WALLS, **(FOR_ROOT if ROOT else FOR_USER)}
    print(f"{'wall':<22} probes that turned red without it")
    for wall, (words, expected, *lack) in table.items():
        if not present(wall):
            print(f"{wall:<22} - (this machine has nothing behind it)")
            continue
        with Place(sys.argv[1]) as place:
            off = {"BERTH_TEST_WALLS_OFF": wall, **(lack[0] if lack else {})}
            workspace = place.workspace()
            before = [line for line in tree(workspace) if not line.startswith(PLACEHOLDERS)]
            work = str(workspace)
            patterns = place.root / "patterns.toml"
            patterns.write_text('name = "patterns"\nfiles = [ { read = ":root" }, { write = ":workspace_roots" }, '
                                '{ deny = ":workspace_roots/**/*.env" } ]\n')
            words = [{"WORK": work, "PATTERNS": str(patterns)}.get(word, word) for word in words]
            # Something to inherit, for the wall that stops it.
            held = os.open("/etc/passwd", os.O_RDONLY)
            os.set_inheritable(held, True)
            made = subprocess.run([place.program, "create", "--quiet", *words], env={**place.environment, **off},
                                  text=True, capture_output=True, pass_fds=[held], check=False)
            if made.returncode != 0:
                print(f"{wall:<22} - (without it there is no sandbox: {made.stderr.strip()[:100]})")
                continue
            done = place.run("policy", "prove", made.stdout.strip(), "--json", **off)
            receipt = json.loads(done.stdout)
            # A wall that does not hold costs nobody his files.
            after = [line for line in tree(workspace) if not line.startswith(PLACEHOLDERS)]
            if after != before:
                unseen.append(f"{wall}: the workspace was changed: {sorted(set(after) ^ set(before))}")
            if "error" in receipt:  # fails closed: without this one no command can be started at all
                print(f"{wall:<22} - (nothing runs without it: {receipt['error']['message']})")
                assert done.returncode != 0
                place.well("rm", made.stdout.strip())
                continue
            told = [one for one in receipt["probes"] if one["probe"] == expected and one["verdict"] == "absent"]
            if wall in TOLD:
                print(f"{wall:<22} {expected} tells: {told[0]['saw'] if told else 'NOTHING'}")
                if not told:
                    unseen.append(f"{wall}: {expected} does not tell")
                place.well("rm", made.stdout.strip())
                continue
            if wall in DOUBLED:
                print(f"{wall:<22} - (held all the same: the keeper closes what it was not given)")
                assert receipt["held"], wrong(receipt)
                place.well("rm", made.stdout.strip())
                continue
            red = sorted({one["probe"].split(" ")[0] for one in wrong(receipt)})
            print(f"{wall:<22} {', '.join(red) or 'NONE'}", flush=True)
            if expected not in red or done.returncode != EXIT_NOT_HELD or receipt["held"]:
                unseen.append(f"{wall}: {expected} of {red}, code {done.returncode}")
            place.well("rm", made.stdout.strip())
            # At create: nothing is handed out, nothing stays, and the error names a probe.
            refused = subprocess.run([place.program, "create", "--prove", "--json", *words], text=True, capture_output=True,
                                     env={**place.environment, **off}, pass_fds=[held], check=False)
            os.close(held)
            told = json.loads(refused.stdout)["error"] if refused.returncode == EXIT_NOT_HELD else {}
            if not any(name in told.get("message", "") for name in red) or place.document("ls")["sandboxes"]:
                unseen.append(f"{wall}: create --prove ended with {refused.returncode}: {refused.stdout} {refused.stderr}")
    for line in unseen:
        print("FAILED", line)
    return 1 if unseen else 0


sys.exit(main())
