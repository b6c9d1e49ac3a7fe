#!/usr/bin/env python3
"""Images from registries: berth template pull, and templates of the E2B API that begin with one. images.py BERTH [CHECK]"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import registry
from served import Box, Checks, Server

check = Checks()
IMAGE = registry.Image()
ROOT = os.getuid() == 0


def berth(server: Server, *words: str, **more) -> subprocess.CompletedProcess:
    environment = {**os.environ, **more.pop("env", {}), "BERTH_DATA": server.data}
    return subprocess.run([server.program, *words], capture_output=True, text=True, check=False, timeout=300, env=environment, **more)


def document(ended: subprocess.CompletedProcess) -> dict:
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def place_of(server: Server, name: str) -> str:
    return str(pathlib.Path(server.data).parent / name)


def images(server: Server) -> list[dict]:
    return document(berth(server, "template", "ls", "--json"))["images"]


def left_behind(server: Server) -> list[str]:
    return [p.name for p in (pathlib.Path(server.data) / "images").iterdir() if p.name.endswith(".tmp")]


def build(server: Server, name: str, **start) -> tuple[dict, str, str]:
    """The final status, and what it is called."""
    status, made = server.api("POST", "/v3/templates", {"name": name})
    assert status == 202, made
    target = f"{made['templateID']}/builds/{made['buildID']}"
    status, told = server.api("POST", f"/v2/templates/{target}", {"steps": [], **start})
    assert status == 202, told
    return finished(server, target), made["templateID"], made["buildID"]


def finished(server: Server, target: str) -> dict:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        status, told = server.api("GET", f"/templates/{target}/status?logsOffset=0")
        assert status == 200, told
        if told["status"] not in ("building", "waiting"):
            return told
        time.sleep(0.1)
    raise AssertionError("the build does not end")


def create(server: Server, name: str) -> Box:
    status, made = server.api("POST", "/v2/sandboxes", {"templateID": name})
    assert status == 201, made
    return Box(server, made["sandboxID"], made["envdAccessToken"])


def shell(server: Server, command: str) -> dict:
    return {"type": "RUN", "args": [command]}


@check
def an_image_is_pulled_listed_used_and_removed(server: Server):
    host = registry.Registry(place_of(server, "open"))
    try:
        name = host.push(IMAGE, "some/image", "1.0")
        got = document(berth(server, "template", "pull", name, "--json"))
        assert got["digest"] == IMAGE.digest and got["name"] == name, got
        assert [one["name"] for one in images(server)] == [name]
        ran = berth(server, "run", "--template", "image:" + name, "--", "cat", "/etc/mark")
        assert (ran.returncode, ran.stdout) == (0, "from the image\n"), ran
        again = document(berth(server, "template", "pull", name, "--json"))
        assert again["created"] == got["created"], "nothing was fetched a second time"
        by_digest = f"{host.host}/some/image@{IMAGE.digest}"
        assert document(berth(server, "template", "pull", by_digest, "--json"))["digest"] == IMAGE.digest
        # What lies here already: a layout, and an archive of one.
        layout = got["template"].removeprefix("oci:")
        archive = place_of(server, "image.tar")
        subprocess.run(["tar", "-C", layout, "-cf", archive, "oci-layout", "index.json", "blobs"], check=True)
        for source in ("oci:" + layout, "docker-archive:" + archive):
            good = document(berth(server, "template", "import", source, "mine/own:1", "--json"))
            assert good["name"] == "docker.io/mine/own:1", good
            ran = berth(server, "run", "--template", "image:mine/own:1", "--", "cat", "/etc/mark")
            assert (ran.returncode, ran.stdout) == (0, "from the image\n"), (source, ran)
            assert berth(server, "template", "rm", "mine/own:1").returncode == 0
        assert berth(server, "template", "import", "docker-archive:/etc/passwd", "x").returncode == 2
        made = document(berth(server, "create", "--template", "image:" + name, "--json"))
        refused = berth(server, "template", "rm", name)
        assert refused.returncode == 4 and "is made from this image" in refused.stderr, refused
        assert berth(server, "rm", made["id"]).returncode == 0
        assert berth(server, "template", "rm", name, "--dry-run").returncode == 0
        assert len(images(server)) == 2
        assert berth(server, "template", "rm", name).returncode == 0
        assert berth(server, "template", "rm", by_digest).returncode == 0
        assert images(server) == []
        missing = berth(server, "run", "--template", "image:" + name, "--", "true")
        assert missing.returncode == 125 and "berth template pull" in missing.stderr, missing
        unknown = berth(server, "template", "pull", f"{host.host}/some/other:1")
        assert unknown.returncode == 3, unknown
    finally:
        host.stop()


@check
def a_registry_that_wants_a_login_gets_it(server: Server):
    for auth in ("basic", "token"):
        host = registry.Registry(place_of(server, auth), auth)
        try:
            name = host.push(IMAGE, "private/image", "1")
            nobody = berth(server, "template", "pull", name)
            assert nobody.returncode == 5, (auth, nobody)
            user, password = host.LOGIN
            wrong = berth(server, "template", "pull", name, "--username", user, "--password-stdin", input="not it\n")
            assert wrong.returncode == 5, (auth, wrong)
            assert "not it" not in wrong.stderr + wrong.stdout
            right = berth(server, "template", "pull", name, "--username", user, env={"BERTH_REGISTRY_PASSWORD": password})
            assert right.returncode == 0, (auth, right)
            assert berth(server, "template", "rm", name).returncode == 0
        finally:
            host.stop()


@check
def a_registry_that_lies_is_refused(server: Server):
    def changed(path, _, body):
        if path.endswith(IMAGE.layer):
            return 200, body[:-1] + b"x", {}

    def longer(path, _, body):
        if path.endswith(IMAGE.layer):
            return 200, body + b"more", {}

    def other_manifest(path, _, body):
        if path.endswith(IMAGE.digest):
            return 200, body + b" ", {}

    def endless(path, _, __):
        if "/manifests/" in path:
            return 200, b"[" * (16 << 20), {}

    def elsewhere(path, _, __):
        if path.endswith(IMAGE.layer):
            return 307, b"", {"Location": "http://192.0.2.1/blob"}

    def round_and_round(path, _, __):
        return 307, b"", {"Location": path}

    def file_of_ours(path, _, __):
        if path.endswith(IMAGE.layer):
            return 307, b"", {"Location": "file:///etc/passwd"}

    for lie in (changed, longer, other_manifest, endless, elsewhere, round_and_round, file_of_ours):
        host = registry.Hostile(IMAGE, lie)
        try:
            ended = berth(server, "template", "pull", host.name)
            assert ended.returncode not in (0, -6, -11), (lie.__name__, ended)
            assert images(server) == [], lie.__name__
            assert left_behind(server) == [], lie.__name__
        finally:
            host.stop()


@check
def a_transfer_that_breaks_off_is_tried_again(server: Server):
    tries = []

    def busy_twice(path, _, __):
        if path.endswith(IMAGE.layer) and len(tries) < 2:
            tries.append(path)
            return 503, b"", {}

    host = registry.Hostile(IMAGE, busy_twice)
    try:
        assert berth(server, "template", "pull", host.name).returncode == 0
        assert len(tries) == 2
        assert berth(server, "template", "rm", host.name).returncode == 0
    finally:
        host.stop()


@check
def a_template_begins_with_an_image_of_an_allowed_registry(server: Server):
    host = registry.Registry(place_of(server, "served"))
    other = Server(server.program, place_of(server, "allowing"), "--registry", host.host)
    try:
        name = host.push(IMAGE, "some/image", "2")
        told, _, _ = build(server, "refused", fromImage=name)
        assert told["status"] == "error" and told["reason"]["step"] == "base", told
        assert "--registry" in told["reason"]["message"], told
        steps = [shell(other, "cat /etc/mark > ~/seen; echo $FROM_IMAGE >> ~/seen")]
        if ROOT:
            steps += [{"type": "RUN", "args": ["echo app:x:4711:4711::/srv:/bin/sh >> /etc/passwd; mkdir -p /srv; chown 4711 /srv", "root"]},
                      {"type": "USER", "args": ["app"]}, {"type": "WORKDIR", "args": ["/srv"]},
                      shell(other, "id -u > who; echo $HOME >> who")]
        told, _, _ = build(other, "from-image", fromImage=name, steps=steps)
        assert told["status"] == "ready", told
        box = create(other, "from-image")
        if ROOT:
            assert box.run("id -u; pwd; cat who")[0] == "4711\n/srv\n4711\n/srv\n"
            assert box.run("cat /home/user/seen")[0] == "from the image\nyes\n"
            assert box.ask("GET", "/files?path=/home/user/seen&username=user")[0] == 200
        else:
            assert box.run("cat ~/seen")[0] == "from the image\nyes\n"
        # Its image cannot be removed under it.
        (image,) = images(other)
        refused = berth(other, "template", "rm", image["digest"].removeprefix("sha256:")[:20])
        assert refused.returncode == 4, refused
        assert other.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
        assert other.api("DELETE", "/templates/from-image")[0] == 204
        # What the operator has pulled is known without asking anybody.
        assert berth(server, "template", "pull", name).returncode == 0
        host.stop()
        told, _, _ = build(server, "known", fromImage=name, steps=[shell(server, "cat /etc/mark")])
        assert told["status"] == "ready", told
        assert server.api("DELETE", "/templates/known")[0] == 204
    finally:
        host.stop()
        assert other.stop() == 0
        Server.started.remove(other)


@check
def a_killed_server_leaves_no_half_of_a_template(server: Server):
    _, made = server.api("POST", "/v3/templates", {"name": "cut"})
    target = f"{made['templateID']}/builds/{made['buildID']}"
    assert server.api("POST", f"/v2/templates/{target}", {"steps": [shell(server, "echo begun; sleep 600")]})[0] == 202
    deadline = time.monotonic() + 120
    while not any("begun" in line["message"] and "stdout" in line["message"]
                  for line in server.api("GET", f"/templates/{target}/status")[1]["logEntries"]):
        assert time.monotonic() < deadline, "the step never ran"
        time.sleep(0.05)
    assert len(document(berth(server, "ls", "--json"))["sandboxes"]) == 1
    server.kill()
    server = Server(server.program, server.data)
    status, told = server.api("GET", f"/templates/{target}/status")
    assert (status, told["status"]) == (200, "error"), told
    assert "restarted" in told["reason"]["message"]
    assert document(berth(server, "ls", "--json"))["sandboxes"] == []
    assert document(berth(server, "snapshots", "--json"))["snapshots"] == []
    assert server.api("POST", "/v2/sandboxes", {"templateID": "cut"})[0] == 404
    told, _, _ = build(server, "cut", steps=[shell(server, "echo again > ~/again")])
    assert told["status"] == "ready", told
    # And a template outlives its server.
    server.kill()
    server = Server(server.program, server.data)
    box = create(server, "cut")
    assert box.run("cat ~/again")[0] == "again\n"
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    assert berth(server, "gc", "--keep-last", "0").returncode == 0
    box = create(server, "cut")
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    assert server.api("DELETE", "/templates/cut")[0] == 204
    assert document(berth(server, "snapshots", "--json"))["snapshots"] == []
    return server


@check
def a_template_that_is_removed_ends_its_build(server: Server):
    _, made = server.api("POST", "/v3/templates", {"name": "gone"})
    target = f"{made['templateID']}/builds/{made['buildID']}"
    assert server.api("POST", f"/v2/templates/{target}", {"steps": [shell(server, "sleep 600")]})[0] == 202
    deadline = time.monotonic() + 120
    while not document(berth(server, "ls", "--json"))["sandboxes"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert server.api("DELETE", f"/templates/{made['templateID']}")[0] == 204
    while document(berth(server, "ls", "--json"))["sandboxes"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert server.api("GET", f"/templates/{made['templateID']}")[0] == 404


if __name__ == "__main__":
    if registry.missing():
        print("skipped:", registry.missing())
        sys.exit(77)
    sys.exit(check.main())
