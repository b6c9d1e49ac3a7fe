#!/usr/bin/env python3
"""local.py BERTH: `berth policy prove` on the local backend, as whoever runs it."""
import json
import os
import pathlib
import subprocess
import sys
import time

from person import EXIT_NOT_HELD, Place, check_receipt, tree, wrong

NARROW = """
name = "narrow"
files = [ { read = ":minimal" }, { write = ":workspace_roots" }, { write = ":tmpdir" },
          { deny = ":workspace_roots/secret" }, { read = ":workspace_roots/src" } ]
protect = [".git"]
[limits]
pids = 200
open_files = 300
"""


PATTERNS = """
name = "patterns"
files = [ { read = ":root" }, { write = ":workspace_roots" }, { write = ":tmpdir" }, { deny = ":workspace_roots/**/*.env" },
          { deny = "**/.netrc" }, { deny = ":workspace_roots/vault/**" }, { deny = "/etc/*.key" } ]
protect = [".git"]
"""


def names(receipt: dict) -> set[str]:
    return {one["probe"].split(" ")[0] for one in receipt["probes"] if one["verdict"] == "held"}


def every_preset_holds(place: Place) -> None:
    work = place.workspace()
    before = tree(work)
    for policy in ("sandbox", "read-only", "workspace-write", "full-access"):
        box = place.create("--policy", policy, "--workspace", str(work))
        receipt = place.prove(box)
        check_receipt(receipt)
        print(f"{policy}: {len(receipt['probes'])} probes")
        assert {"reach_loopback_of_the_host", "reach_the_host_by_udp", "reach_abstract_socket_of_the_host",
                "reach_unix_socket_of_the_host", "reach_an_ipv6_literal", "ask_another_dns_server",
                "reach_metadata_address", "use_inherited_descriptor", "read_file_of_the_host",
                "gain_privileges_by_set_id", "make_more_processes", "open_more_files"} <= names(receipt), names(receipt)
        if policy in ("read-only", "workspace-write"):
            assert {"write_directly", "make_directory_in", "rename_away", "write_by_proc_root",
                    "write_by_descriptor", "remount_writable"} <= names(receipt), names(receipt)
        if policy == "workspace-write":
            assert {"write_through_symlink", "write_by_hard_link", "write_what_lies_deeper"} <= names(receipt)
            # A refusal that something else may explain is told as such; of the walls of files none is.
            unsure = [p for p in receipt["probes"] if p["rule"].startswith("protect") and (p["must"], p["user"]) == ("fail", "user")
                      and p["verdict"] == "held" and not p["sure"]]
            assert not unsure, unsure
        left = place.well("exec", box, "--", "sh", "-c", "find /tmp /home /var/tmp -name '.berth*' 2>/dev/null; true")
        assert left == "", left
        listed = place.document("policy", "receipts", box)["receipts"]
        assert [one["id"] for one in listed] == [receipt["id"]] and listed[0]["probes"] == receipt["probes"], listed
        assert place.document("inspect", box)["proof"]["id"] == receipt["id"]
        assert not place.document("inspect", box)["execs"][:-1], "a proof is not among the commands of a person"
        place.well("rm", box)
        place.run("doctor", "--clean")  # placeholders of protected names
        assert tree(work) == before, (policy, tree(work))


def a_narrow_policy_holds_with_its_limits(place: Place) -> None:
    work = place.workspace()
    (place.root / "narrow.toml").write_text(NARROW)
    box = place.create("--policy", str(place.root / "narrow.toml"), "--workspace", str(work), "--name", "narrow")
    receipt = place.prove("narrow")
    check_receipt(receipt)
    held = {(one["rule"], one["probe"].split(" ")[0]) for one in receipt["probes"] if one["verdict"] == "held"}
    assert ("deny :workspace_roots/secret", "look_at") in held, held
    assert ("read :workspace_roots/src", "write_directly") in held, held
    assert ("deny everything else", "look_at") in held, held
    assert ("pids 200", "make_more_processes") in held and ("open files 300", "open_more_files") in held, held
    shown = place.run("policy", "prove", "narrow", "--all").stdout
    assert "held: policy narrow" in shown and "look_at" in shown, shown
    place.well("rm", box)


def deny_patterns_hold_for_what_is_made_later(place: Place) -> None:
    work = place.workspace()
    before = tree(work)
    (place.root / "patterns.toml").write_text(PATTERNS)
    box = place.create("--policy", str(place.root / "patterns.toml"), "--workspace", str(work))
    receipt = place.prove(box)
    check_receipt(receipt)
    tried = {"read_a_match", "rename_a_match_away", "read_a_match_by_hard_link", "read_a_match_through_symlink", "make_a_match",
             "rename_into_a_match"}
    users = {"user", "root"} if os.geteuid() == 0 else {"user"}
    for rule in ("deny :workspace_roots/**/*.env", "deny **/.netrc", "deny :workspace_roots/vault/**"):
        of = [one for one in receipt["probes"] if one["rule"] == rule]
        for user in users:
            held = {one["probe"].split(" ")[0] for one in of if (one["user"], one["must"], one["verdict"]) == (user, "fail", "held")}
            # In a workspace root inside makes nothing: some ways cannot be tried by it.
            assert held == tried if user == "user" else {"read_a_match", "rename_a_match_away", "make_a_match"} <= held, (rule, user, held)
        assert any(one["probe"].startswith("work_beside_a_match") and one["verdict"] == "held" for one in of), of
        unsure = [one for one in of if one["user"] == "user" and one["verdict"] == "held" and not one["sure"]]
        assert not unsure, unsure
    assert any(one["rule"] == "deny /etc/*.key" for one in receipt["untried"]), receipt["untried"]
    left = place.well("exec", box, "--", "sh", "-c", "find /tmp /home /var/tmp -name '.berth*' 2>/dev/null; true")
    assert left == "", left
    # What a killed proof left there, where nobody inside may remove it, goes with the next one.
    old = work / ".berth-probe-old-1.env"
    old.write_text("left")
    os.utime(old, (1, 1))
    assert place.prove(box)["held"] and not old.exists()
    place.well("rm", box)
    place.run("doctor", "--clean")  # placeholders of protected names
    assert tree(work) == before, tree(work)


def a_wider_policy_holds_what_it_still_has(place: Place) -> None:
    limits = "memory = '64MiB'\ncpus = 0.5\n" if os.geteuid() == 0 else ""
    (place.root / "wide.toml").write_text(
        f"name = 'wide'\nnested_namespaces = true\nnetwork = 'host'\n[limits]\npids = 64\n{limits}")
    box = place.create("--policy", str(place.root / "wide.toml"))
    receipt = place.prove(box)
    check_receipt(receipt)
    held = {(one["probe"], one["must"]) for one in receipt["probes"] if one["verdict"] == "held"}
    assert {("reach_loopback_of_the_host", "pass"), ("make_a_user_namespace", "pass"), ("mount", "fail"),
            ("make_more_processes", "fail")} <= held, held
    if limits:
        assert {("use_more_memory", "fail"), ("use_more_processors", "fail")} <= held, held
    place.well("rm", box)


def home_is_what_the_backend_bound(place: Place) -> None:
    """Not what a variable says, and not root's own in the half of root."""
    (place.root / "home.toml").write_text('name = "home"\nfiles = [ { read = ":root" }, { write = ":home" } ]\n')
    box = place.create("--policy", str(place.root / "home.toml"), "--env", "HOME=/etc")
    receipt = place.prove(box)
    check_receipt(receipt)
    places = {one["probe"] for one in receipt["probes"] if one["rule"] == "write :home" and one["must"] == "pass"}
    assert places == {"work_in /home/user"}, places
    assert not any(one["probe"].endswith(" /root") and one["rule"] == "write :home" for one in receipt["probes"])
    place.well("rm", box)


def nobody_is_starved_by_a_proof(place: Place) -> None:
    box = place.create()
    place.well("exec", "--detach", box, "--", "sleep", "100")
    receipt = place.prove(box)
    assert receipt["held"], wrong(receipt)
    assert any("starve" in one["why"] for one in receipt["untried"]), receipt["untried"]
    assert not any(one["probe"] == "make_more_processes" for one in receipt["probes"])
    place.well("rm", box)


def what_a_command_left_is_not_starved(place: Place) -> None:
    box = place.create()
    place.well("exec", box, "--", "sh", "-c", "setsid sleep 100 >/dev/null 2>&1 </dev/null &")
    receipt = place.prove(box)
    assert any("starve" in one["why"] for one in receipt["untried"]), receipt["untried"]
    assert not any(one["probe"] == "make_more_processes" for one in receipt["probes"])
    place.well("rm", box)


FORGER = r"""
name=berth
while :; do for p in /proc/[0-9]*; do
    case "$(tr '\0' ' ' 2>/dev/null < $p/cmdline)" in *$name-prober*)
        printf '0\tfacts\t0\t0\tx\ty\t/\n1\trefused\t1\tforged\n' 2>/dev/null > $p/fd/1 && echo wrote >> /tmp/forged;; esac
done; done 2>/dev/null
"""


def nobody_answers_in_its_name(place: Place) -> None:
    """A process of the same user writes to whatever the prober has for its output: it may not even open it."""
    box = place.create()
    place.well("exec", "--detach", box, "--", "sh", "-c", FORGER)
    receipt = place.prove(box)
    assert receipt["held"] and not any(one["saw"] == "forged" for one in receipt["probes"]), wrong(receipt)
    assert place.run("exec", box, "--", "cat", "/tmp/forged").returncode != 0
    # It runs beside the forger, who looks for something else to write to: the forger works.
    place.well("exec", box, "--", "sh", "-c", "sh -c 'sleep 20; : berth-prober' > /tmp/other & n=0; "
               "while [ ! -s /tmp/forged ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done; test -s /tmp/forged")
    place.well("rm", box)


def one_proof_at_a_time(place: Place) -> None:
    box = place.create()
    children = [subprocess.Popen([place.program, "policy", "prove", box, "--json"], env=place.environment, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(2)]
    told = [(child.communicate()[0], child.returncode) for child in children]
    assert sorted(code == 0 for _, code in told) == [False, True], told
    assert any("is under way" in text for text, _ in told), told
    place.well("rm", box)


def a_sandbox_is_handed_out_proven(place: Place) -> None:
    box = place.create("--prove", "--key", "proven")
    assert len(place.document("policy", "receipts", box)["receipts"]) == 1
    assert place.create("--prove", "--key", "proven") == box
    assert len(place.document("policy", "receipts", "proven")["receipts"]) == 2
    place.well("rm", box)
    # The ledger keeps what its sandbox does not outlive.
    assert place.well("events", "--type", "berth.policy_proved", "--json").count('"berth.policy_proved"') >= 2


def a_killed_proof_leaves_nothing_for_long(place: Place) -> None:
    box = place.create()
    before = place.baits()
    child = subprocess.Popen([place.program, "policy", "prove", box], env=place.environment, stdout=subprocess.DEVNULL)
    data = place.root / "data"
    deadline = time.monotonic() + 60
    while child.poll() is None and not list(data.glob("berth-prove-*/canary")) and time.monotonic() < deadline:
        pass
    child.kill()
    child.wait()
    left = list(data.glob("berth-prove-*"))
    assert {os.path.realpath(one.read_text()) for one in data.glob("berth-prove-*/other")} <= {os.path.realpath(one) for one in place.baits()}
    receipt = place.prove(box)
    assert receipt["held"], wrong(receipt)
    assert not list(data.glob("berth-prove-*")), left
    assert place.baits() == before
    place.well("rm", box)


def bad_words_are_refused(place: Place) -> None:
    assert place.run("policy", "prove", "nobody").returncode == 3
    assert place.run("policy", "prove").returncode == 2
    assert place.run("policy", "explain", "sandbox", "--backend", "nowhere").returncode != 0


def every_backend_explains_itself(place: Place) -> None:
    local = place.document("policy", "explain", "workspace-write")
    assert local["admitted"] and {one["tier"] for one in local["rules"]} == {"outside"}, local
    told = json.loads(place.run("policy", "explain", "sandbox", "--backend", "e2b", "--json", E2B_API_KEY="e2b_00").stdout)
    assert told["admitted"], told
    tiers = {one["rule"]: one["tier"] for one in told["rules"]}
    assert tiers["network off"] == "vendor" and tiers["pids 4096"] == "none", tiers
    refused = place.run("policy", "explain", "read-only", "--backend", "e2b", "--json", E2B_API_KEY="e2b_00")
    assert refused.returncode == EXIT_NOT_HELD and not json.loads(refused.stdout)["admitted"], refused.stdout


def main() -> int:
    for check in (every_preset_holds, a_narrow_policy_holds_with_its_limits,
                  deny_patterns_hold_for_what_is_made_later, a_wider_policy_holds_what_it_still_has,
                  home_is_what_the_backend_bound, nobody_is_starved_by_a_proof, what_a_command_left_is_not_starved,
                  nobody_answers_in_its_name, one_proof_at_a_time, a_sandbox_is_handed_out_proven,
                  a_killed_proof_leaves_nothing_for_long, bad_words_are_refused, every_backend_explains_itself):
        with Place(sys.argv[1]) as place:
            before = place.baits()
            check(place)
            left = place.baits() - before
            assert not left, left
            assert not list(pathlib.Path(place.root / "data").glob("berth-prove-*"))
        print(f"ok {check.__name__}", flush=True)
    return 0


sys.exit(main())
