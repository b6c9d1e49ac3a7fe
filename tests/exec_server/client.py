#!/usr/bin/env python3
"""client.py PROGRAM [PART OF A NAME]: berth's command line on backend exec-server, with a real `berth exec-server`."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback

from there import Person, There, environment

checks = []


def check(work):
    checks.append(work)
    return work


def created(me: Person, *words: str) -> str:
    return json.loads(me.well("create", "--backend", "exec-server", "--json", *words))["id"]


def eventually(what, holds, patience: float = 60) -> None:
    until = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.05)


@check
def every_verb_works(there):
    me = there.person()
    box = created(me, "--name", "one")
    assert me.well("exec", box, "--", "echo", "hello") == "hello\n"
    assert "exec-server" in me.well("ls")
    source = pathlib.Path(me.data) / "file"
    source.write_bytes(bytes(range(256)) * 40000)
    me.well("cp", str(source), f"{box}:/home/user/file")
    me.well("cp", f"{box}:/home/user/file", str(source) + ".back")
    assert pathlib.Path(str(source) + ".back").read_bytes() == source.read_bytes()
    assert me.well("exec", box, "--", "wc", "-c", "file").split()[0] == str(256 * 40000)
    me.well("rm", box)
    assert there.sandboxes() == []


@check
def codes_input_and_signals_are_true(there):
    me = there.person()
    box = created(me)
    assert me.run("exec", box, "--", "sh", "-c", "exit 7")[0] == 7
    assert me.run("exec", box, "--", "sh", "-c", "exit 137")[0] == 137
    assert me.run("exec", box, "--", "sh", "-c", "kill -9 $$")[0] == 137
    assert me.well("exec", "-i", box, "--", "cat", given="typed\n") == "typed\n"
    code, _, err = me.run("exec", "--timeout", "1s", box, "--", "sleep", "60")
    assert code == 124, (code, err)
    assert me.run("exec", box, "--", "no-such-command")[0] == 127
    me.well("rm", box)


@check
def a_snapshot_of_the_work_is_restored(there):
    me = there.person()
    box = created(me)
    me.well("exec", box, "--", "sh", "-c", "mkdir sub; echo work > sub/file; ln -s sub/file link")
    snapshot = json.loads(me.well("snapshot", box, "--kind", "berth_workspace_tar", "--json"))
    assert snapshot["kind"] == "berth_workspace_tar", snapshot
    me.well("exec", box, "--", "rm", "-r", "sub")
    me.well("restore", snapshot["id"])
    assert me.well("exec", box, "--", "cat", "link") == "work\n"
    me.well("rm", box)


@check
def a_killed_client_loses_nothing(there):
    """The session is taken up by the next process, with every number."""
    me = there.person()
    box = created(me)
    script = "i=0; while [ $i -lt 300 ]; do echo $i; sleep 0.02; i=$((i+1)); done; exit 5"
    first = me.start("exec", box, "--", "sh", "-c", script)
    lines = [first.stdout.readline() for _ in range(20)]
    assert lines[-1] == "19\n", lines
    first.send_signal(signal.SIGKILL)
    first.wait()
    exec_id = json.loads(me.well("inspect", box, "--json"))["execs"][0]["id"]
    code, out, err = me.run("logs", box, exec_id, "--follow")
    assert out == "".join(f"{i}\n" for i in range(300)), (out[-200:], err)
    assert "exit code 5" in err, (code, err)
    me.well("rm", box)


@check
def a_cut_connection_is_resumed(there):
    """Through a relay of ours that is cut in the middle."""
    import socket
    import threading
    port = there.server.port
    listener = socket.create_server(("127.0.0.1", 0))
    pairs = []

    def pump(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        for one in (a, b):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def serve():
        while True:
            try:
                a, _ = listener.accept()
            except OSError:
                return
            b = socket.create_connection(("127.0.0.1", port))
            pairs.append((a, b))
            threading.Thread(target=pump, args=(a, b), daemon=True).start()
            threading.Thread(target=pump, args=(b, a), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    me = there.person(BERTH_EXEC_SERVER_URL=f"ws://127.0.0.1:{listener.getsockname()[1]}")
    box = created(me)
    script = "i=0; while [ $i -lt 3000 ]; do echo line $i of many; i=$((i+1)); [ $((i%10)) != 0 ] || sleep 0.01; done; exit 6"
    run = me.start("exec", box, "--", "sh", "-c", script)
    first = run.stdout.readline()
    for _ in range(4):
        time.sleep(0.4)
        for a, b in pairs:
            for one in (a, b):
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        pairs.clear()
    out, err = run.stdout.read(), run.stderr.read()
    assert run.wait(120) == 6, (run.returncode, err)
    assert first + out == "".join(f"line {i} of many\n" for i in range(3000)), len(out)
    me.well("rm", box)
    listener.close()


@check
def what_nobody_takes_up_is_unknown(there):
    me = there.person()
    box = created(me)
    first = me.start("exec", box, "--", "sh", "-c", "echo begun; sleep 300")
    assert first.stdout.readline() == "begun\n"
    first.send_signal(signal.SIGKILL)
    first.wait()
    exec_id = json.loads(me.well("inspect", box, "--json"))["execs"][0]["id"]
    session = next(pathlib.Path(me.data).rglob(f"{exec_id}/session")).read_text()[:26]
    ended = "its client did not come back"  # after half a minute; the log has the beginning of its id
    eventually("the server ends the session",
               lambda: any(ended in line and session in line for line in there.server.told().splitlines()), 120)
    code, out, err = me.run("logs", box, exec_id, "--follow")
    assert out == "begun\n" and "unknown" in err, (code, out, err)
    me.well("rm", box)


@check
def a_policy_goes_with_every_call(there):
    me = there.person()
    secret = there.place / "secret"
    secret.write_text("not for sandboxes")
    box = created(me)
    code, out, err = me.run("exec", box, "--", "cat", str(secret))
    assert code != 0 and "not for" not in out, (code, out)
    code, out, err = me.run("cp", f"{box}:{secret}", str(pathlib.Path(me.data) / "stolen"))
    assert code != 0 and not (pathlib.Path(me.data) / "stolen").exists(), (code, err)
    other = created(me)
    me.well("exec", other, "--", "sh", "-c", "echo mine > file")
    theirs = there.root / other / "work" / "file"
    assert theirs.read_text() == "mine\n"
    for one in ((), ("--policy", "read-only")):
        prober = created(me, *one)
        code, out, _ = me.run("exec", prober, "--", "cat", str(theirs))
        assert code != 0 and "mine" not in out, (one, code, out)
        me.well("rm", prober)
    reader = created(me, "--policy", "read-only")
    code, _, _ = me.run("exec", reader, "--", "touch", "x")
    assert code != 0
    for one in (box, other, reader):
        me.well("rm", one)


@check
def protected_names_are_told_one_by_one(there):
    """The protocol knows four names, at the top: the rest are entries, and those deeper are looked for."""
    me = there.person()
    box = created(me, "--policy", "workspace-write")
    me.well("exec", box, "--", "sh", "-c", "mkdir -p sub/deep; echo free > sub/deep/file; cat sub/deep/file")
    work = there.root / box / "work"
    for name in (".idea", "sub/.idea", "sub/deep/.vscode", ".claude"):  # as a person with a shell there would
        (work / name).mkdir(exist_ok=True)
        (work / name / "config").write_text("kept")
        if os.geteuid() == 0:
            owner = work.stat()
            for one in (work / name, work / name / "config"):
                os.chown(one, owner.st_uid, owner.st_gid)
    for script in ("echo changed > .idea/config", "echo changed > sub/.idea/config", "echo x > sub/deep/.vscode/new", "mv sub/.idea sub/moved",
                   "mv sub elsewhere", "rm -rf sub/deep", "echo x > .claude/new", "mkdir .husky && echo x > .husky/new", "echo x > .mcp.json",
                   "mkdir .git", "ln -s sub/.idea link; echo changed > link/config"):
        assert me.run("exec", box, "--", "sh", "-c", script)[0] != 0, script
    source = pathlib.Path(me.data) / "file"
    source.write_text("changed")
    for name in (".idea/config", "sub/.idea/config", "sub/deep/.vscode/new", ".cursor"):
        assert me.run("cp", str(source), f"{box}:/home/user/{name}")[0] != 0, name
    me.well("exec", box, "--", "sh", "-c", "echo more >> sub/deep/file; rm link; touch .gitignore")
    left = sorted(str(p.relative_to(work)) for p in work.rglob("*") if p.is_file())
    assert left == [".claude/config", ".gitignore", ".idea/config", "sub/.idea/config", "sub/deep/.vscode/config", "sub/deep/file"], left
    assert all((work / name / "config").read_text() == "kept" for name in (".idea", "sub/.idea", "sub/deep/.vscode", ".claude"))
    # What cannot be looked into is refused, for its owner could open it again.
    me.well("exec", box, "--", "sh", "-c", "mkdir closed; chmod 0 closed")
    code, _, err = me.run("exec", box, "--", "true")
    assert code == 125 and "protect" in err, (code, err)
    (work / "closed").chmod(0o755)
    me.well("rm", box)
    wide = pathlib.Path(me.data) / "wide.json"
    wide.write_text(json.dumps({"name": "wide", "files": [{"read": ":root"}, {"write": "/srv/data"}], "protect": [".git"]}))
    code, _, err = me.run("create", "--backend", "exec-server", "--policy", str(wide))
    assert code == 6 and "protect .git below write /srv/data" in err, (code, err)


@check
def what_the_server_keeps_is_removed_with_its_sandbox(there):
    """A clone has a .git, which nobody may change afterwards."""
    me = there.person()
    box = created(me)
    me.well("exec", box, "--", "sh", "-c", "mkdir -p sub/.git/objects sub/deep/.codex/.git; echo x > sub/.git/config; echo x > sub/deep/.codex/.git/x")
    assert me.run("exec", box, "--", "rm", "-rf", "sub")[0] != 0
    me.well("rm", box)
    assert there.sandboxes() == []


@check
def what_cannot_be_carried_is_refused_by_name(there):
    me = there.person()
    for words, named in ((("--net", "open"), "network open"), (("--memory", "64MiB"), "memory"), (("--policy", "full-access"), "full-access"),
                         (("--template", "dir:/usr"), "template"),
                         (("--user", "root"), "user root")):
        code, _, err = me.run("create", "--backend", "exec-server", *words)
        assert code == 6 and named in err, (words, code, err)
    box = created(me)
    for verb in ("pause", "stop"):
        code, _, err = me.run(verb, box)
        assert code == 6, (verb, code, err)
    me.well("rm", box)
    assert there.sandboxes() == []


@check
def an_unsandboxed_one_must_be_granted_there(there):
    me = there.person()
    code, _, err = me.run("create", "--backend", "exec-server", "--policy", "full-access", "--net", "host")
    if code == 0:  # it runs nothing yet
        code, _, err = me.run("exec", json.loads(me.well("ls", "--json"))["sandboxes"][0]["id"], "--", "true")
    assert code != 0 and "no sandbox was asked for" in err, (code, err)
    for one in json.loads(me.well("ls", "--json"))["sandboxes"]:
        me.well("rm", one["id"])


@check
def a_token_is_sent_and_never_shown(there):
    with tempfile.TemporaryDirectory() as place:
        token = pathlib.Path(place) / "token"
        token.write_text("s3cr3t-token-of-this-test\n")
        guarded = There(there.program, "--token-file", str(token))
        try:
            me = guarded.person(BERTH_EXEC_SERVER_TOKEN="s3cr3t-token-of-this-test", BERTH_LOG="debug")
            code, out, err = me.run("create", "--backend", "exec-server", "--json")
            assert code == 0, err
            assert "s3cr3t" not in out + err
            me.well("rm", json.loads(out)["id"])
            by_file = guarded.person(BERTH_EXEC_SERVER_TOKEN_FILE=str(token))
            by_file.well("rm", created(by_file))
            wrong = guarded.person(BERTH_EXEC_SERVER_TOKEN="wr0ng", BERTH_LOG="debug")
            code, out, err = wrong.run("create", "--backend", "exec-server")
            assert code == 5 and "wr0ng" not in out + err and "BERTH_EXEC_SERVER_TOKEN" in err, (code, err)
        finally:
            guarded.close()


@check
def a_server_behind_tls_is_believed_by_its_certificate(there):
    """`/codex` of `berth serve`: the host where the operator serves it, by wss and a key."""
    served = subprocess.Popen([there.program, "serve", "--listen", "127.0.0.1:0", "--data", str(there.place / "served"), "--json",
                               "--tls-self-signed", "--codex-root", str(there.place)], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    try:
        said = json.loads(served.stdout.readline())
        url = said["listening"].replace("https://", "wss://") + "/codex"
        me = there.person(BERTH_EXEC_SERVER_URL=url, BERTH_EXEC_SERVER_TOKEN=said["key"], SSL_CERT_FILE=said["ca"])
        box = created(me)
        assert me.well("exec", "-i", box, "--", "sh", "-c", "cat > f; cat f", given="x" * 200_000) == "x" * 200_000
        me.well("exec", box, "--", "true")
        me.well("rm", box)
        by_address = there.person(BERTH_EXEC_SERVER_URL=f"{url}?key={said['key']}", SSL_CERT_FILE=said["ca"])
        by_address.well("rm", created(by_address))
        code, _, err = there.person(BERTH_EXEC_SERVER_URL=url, BERTH_EXEC_SERVER_TOKEN=said["key"]).run(
            "create", "--backend", "exec-server")
        assert code != 0 and "certificate" in err and said["key"] not in err, (code, err)
        other = there.person(BERTH_EXEC_SERVER_URL=url.replace("127.0.0.1", "127.0.0.2"), BERTH_EXEC_SERVER_TOKEN=said["key"],
                             SSL_CERT_FILE=said["ca"])
        assert other.run("create", "--backend", "exec-server")[0] != 0
    finally:
        served.send_signal(signal.SIGTERM)
        assert served.wait(60) == 0


@check
def nobody_there_is_an_outage(there):
    me = there.person()
    box = created(me)
    away = Person(me.program, me.data, {**me.env, "BERTH_EXEC_SERVER_URL": "ws://127.0.0.1:9"})
    code, _, err = away.run("exec", box, "--", "true")
    assert code == 125 and "cannot be reached" in err, (code, err)
    assert json.loads(me.well("inspect", box, "--json"))["state"] == "running"
    code, _, err = me.run("create", "--backend", "exec-server", "--json")
    assert code == 0, err
    for one in json.loads(me.well("ls", "--json"))["sandboxes"]:
        me.well("rm", one["id"])
    nowhere = Person(me.program, me.data, {k: v for k, v in me.env.items() if k != "BERTH_EXEC_SERVER_URL"})
    code, _, err = nowhere.run("create", "--backend", "exec-server")
    assert code == 2 or "BERTH_EXEC_SERVER_URL" in err, (code, err)


@check
def the_address_may_be_an_option(there: There) -> None:
    me = there.person()
    other = Person(me.program, me.data, {**me.env, "BERTH_EXEC_SERVER_URL": "ws://127.0.0.1:9"})
    unset = Person(me.program, me.data, {k: v for k, v in me.env.items() if k != "BERTH_EXEC_SERVER_URL"})
    for person in (other, unset):
        assert person.well("run", "--backend", "exec-server", "--url", there.url, "--", "echo", "far").split() == ["far"]
    box = json.loads(unset.well("create", "--backend", "exec-server", "--url", there.url, "--json"))["id"]
    assert there.sandboxes() == [box]
    # The same for every verb that names a backend.
    me.well("exec", box, "--", "sh", "-c", "echo work > file")
    snapshot = json.loads(me.well("snapshot", box, "--kind", "berth_workspace_tar", "--json"))["id"]
    second = unset.well("restore", snapshot, "--new", "--backend", "exec-server", "--url", there.url, "-q").strip()
    assert me.well("exec", second, "--", "cat", "file") == "work\n"
    third = json.loads(unset.well("create", "--json"))["id"]
    unset.well("exec", third, "--", "sh", "-c", "echo local > file")
    unset.well("move", third, "--to", "exec-server", "--url", there.url)
    assert me.well("exec", third, "--", "cat", "file") == "local\n"
    assert "passed, " in unset.well("conformance", "--backend", "exec-server", "--url", there.url, "--only", "exit code 42 is told")
    for verb in (["restore", snapshot], ["restore", snapshot, "--backend", "local"], ["move", box, "--to", "local"], ["conformance"],
                 ["exec-server", "--stdio"], ["exec-server", "--stdio", "--backend", "docker"], ["serve"]):
        code, _, err = unset.run(*verb, "--url", there.url)
        assert code == 2 and "--url is for" in err, (verb, code, err)
    for one in (box, second, third):
        me.well("rm", one)
    for words in (["--backend", "exec-server", "--url", there.url + "/?key=s3cr3t"], ["--backend", "exec-server", "--url", "ws://s3cr3t@x"],
                  ["--backend", "exec-server", "--url", "http://x"], ["--url", there.url]):
        code, out, err = unset.run("create", *words)
        assert code != 0 and "s3cr3t" not in out + err and ("--url" in err or "BERTH_EXEC_SERVER_URL" in err), (words, code, err)


def main() -> int:
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    there, failed, ran = There(sys.argv[1]), 0, 0
    try:
        for work in checks:
            name = work.__name__.replace("_", " ")
            if only not in name:
                continue
            ran += 1
            try:
                work(there)
                print(f"ok {name}", flush=True)
            except Exception:  # noqa: BLE001: a check that fails is told, whatever it was
                failed += 1
                print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
        if failed:
            print(there.server.told()[-2000:])
    finally:
        there.close()
    print(f"{ran - failed} held, {failed} did not")
    return 1 if failed else 0


sys.exit(main())
