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


if __name__ == "__main__":
    sys.exit(check.main())
