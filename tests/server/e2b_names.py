#!/usr/bin/env python3
"""Names of E2B's templates and snapshots: what each stands for, and what is told of it. e2b_names.py BERTH [CHECK]"""
import os
import subprocess
import sys
from urllib.parse import quote

from e2b_rules import build, snapshot
from served import Checks, Server

check = Checks()


def removed(server: Server, name: str) -> int:
    return server.api("DELETE", "/templates/" + quote(name, safe=""))[0]


def listed(server: Server, what: str) -> list[str]:
    return [one[{"snapshots": "snapshotID", "templates": "templateID"}[what]] for one in server.api("GET", "/" + what)[1]]


@check
def a_name_is_a_template_or_a_snapshot(server: Server):
    template, box = build(server, "foo"), server.create()
    for name in ("foo", "FOO:v2", "default/foo", template):
        status, told = server.api("POST", f"/sandboxes/{box.id}/snapshots", {"name": name})
        assert status == 409 and "template" in told["message"], (name, status, told)
    assert listed(server, "snapshots") == []
    assert snapshot(box, name="bar:v1") == "default/bar:v1"
    for name in ("bar", "bar:v2", "default/bar"):
        status, told = server.api("POST", "/v3/templates", {"name": name})
        assert status == 409 and "snapshot" in told["message"], (name, status, told)
    assert listed(server, "templates") == [template, "base"]
    assert removed(server, "default/bar:v1") == 204 and removed(server, "default/bar:v1") == 404
    other = build(server, "bar")
    assert removed(server, "bar:v1") == removed(server, "default/foo:default") == removed(server, "foo:default") == 404
    assert sorted(listed(server, "templates")) == sorted([template, other, "base"])
    assert build(server, "foo") == template, "a template is built again under its own name"
    assert removed(server, "bar") == removed(server, "default/foo") == 204
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


@check
def a_snapshot_takes_the_place_of_an_older_one_of_its_name(server: Server):
    box = server.create()
    box.run("echo 1 > n")
    taken = snapshot(box, name="same")
    tagged = snapshot(box, name="same:v1")
    box = server.create(templateID=taken)
    box.run("echo 2 > n")
    assert snapshot(box, name="same") == taken
    assert listed(server, "snapshots") == [taken, tagged]
    for name, number in ((taken, "2"), (tagged, "1")):
        twin = server.create(templateID=name)
        assert twin.run("cat n")[0] == number + "\n", name
        assert server.api("DELETE", f"/sandboxes/{twin.id}")[0] == 204
    for one in server.api("GET", "/v2/sandboxes?state=running,paused")[1]:
        assert server.api("DELETE", f"/sandboxes/{one['sandboxID']}")[0] == 204
    assert removed(server, taken) == removed(server, tagged) == 204 and listed(server, "snapshots") == []
    assert os.listdir(os.path.join(server.data, "e2b", "origins")) == []


@check
def a_sandbox_of_a_snapshot_tells_its_id(server: Server):
    box = server.create()
    unnamed, named = snapshot(box), snapshot(box, name="Named:v1")
    assert unnamed.endswith(":default") and named == "default/named:v1", (unnamed, named)
    for sent, wanted in ((unnamed, unnamed.split(":")[0]), (unnamed.split(":")[0], unnamed.split(":")[0]), ("named:v1", None), (named, None)):
        twin = server.create(templateID=sent)
        status, told = server.api("GET", f"/sandboxes/{twin.id}")
        assert status == 200 and told["templateID"].startswith("snap_") and told["templateID"] == (wanted or told["templateID"]), told
        assert wanted or told["alias"] == "named", told
        assert twin.run("echo $E2B_TEMPLATE_ID; cat /run/e2b/.E2B_TEMPLATE_ID")[0].split() == [told["templateID"]] * 2
        for query in (told["templateID"], *([] if wanted else ["named"])):
            assert twin.id in [one["sandboxID"] for one in server.api("GET", f"/v2/sandboxes?template={query}")[1]], query
        assert server.create(templateID=told["templateID"]).run("true")[1].get("exited"), "that is a template, too"
    for one in server.api("GET", "/v2/sandboxes?state=running,paused")[1]:
        assert server.api("DELETE", f"/sandboxes/{one['sandboxID']}")[0] == 204
    assert removed(server, unnamed) == removed(server, named) == 204


@check
def templates_that_nobody_built_are_there(server: Server):
    for name in ("base", "code-interpreter-v1", "mcp-gateway"):
        assert server.api("GET", f"/templates/aliases/{name}") == (200, {"templateID": name, "public": True}), name
        status, told = server.api("GET", f"/templates/{name}")
        assert status == 200 and (told["templateID"], told["public"], told["builds"]) == (name, True, []), told
        box = server.create(templateID=name.upper())
        assert server.api("GET", f"/sandboxes/{box.id}")[1]["templateID"] == name
        assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
        assert removed(server, name) == 403
    own = build(server, "mcp-gateway")
    assert server.api("GET", "/templates/aliases/mcp-gateway") == (200, {"templateID": own, "public": False})
    assert server.api("GET", "/templates/mcp-gateway")[1]["templateID"] == own
    assert removed(server, "mcp-gateway") == 204 and server.api("GET", "/templates/aliases/mcp-gateway")[1]["public"]
    assert server.api("GET", "/templates/aliases/nothing")[0] == server.api("GET", "/templates/aliases/a%20b")[0] == 404


@check
def a_tenant_with_capitals_has_names(server: Server):
    key = subprocess.run([server.program, "key", "add", "--tenant", "Alice", "--data", server.data], check=True, capture_output=True,
                         text=True).stdout.strip()
    status, made = server.api("POST", "/v2/sandboxes", {"templateID": "base"}, key=key)
    assert status == 201, made
    if os.geteuid() != 0:  # nothing that runs can be frozen
        assert server.api("POST", f"/sandboxes/{made['sandboxID']}/pause", {"memory": False}, key=key)[0] == 204
    for name in ("mine", "alice/mine", "Alice/mine"):
        status, taken = server.api("POST", f"/sandboxes/{made['sandboxID']}/snapshots", {"name": name}, key=key)
        assert (status, taken.get("snapshotID")) == (201, "alice/mine:default"), (name, taken)
    assert server.api("POST", f"/sandboxes/{made['sandboxID']}/snapshots", {"name": "default/mine"}, key=key)[0] == 403
    assert server.api("DELETE", f"/sandboxes/{made['sandboxID']}", key=key)[0] == 204
    assert server.api("DELETE", "/templates/alice%2Fmine%3Adefault", key=key)[0] == 204


if __name__ == "__main__":
    sys.exit(check.main())
