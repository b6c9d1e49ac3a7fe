#!/usr/bin/env python3
"""Codex's exec-server: commands beside each other, and what they leave to each other.

codex_beside.py BERTH
"""
import sys

import codex_client
from codex_client import at, intent, run_all, special, uri, workspace_write


def Place():  # noqa: N802: it makes one
    return codex_client.Place(sys.argv[1])


def until(name: str) -> str:
    return f"until [ -e {name} ]; do sleep 0.01; done"


# -- names that do not exist ---------------------------------------------------------------------------------------------


def narrowed(ws):
    return intent([special("root", "read"), special("project_roots", "write"),
                   special("project_roots", "deny", subpath="secrets"),
                   special("project_roots", "read", subpath="kept/deep")], ws)


def test_what_must_not_be_made_stays_so_when_another_command_ends():
    with Place() as place:
        client = place.server().client()
        box = narrowed(place.ws)
        client.start("first", until("go1"), str(place.ws), box)
        client.start("second", until("go2") + "; mkdir secrets && echo made; echo x > secrets/a && echo written;"
                     "mkdir -p kept/deep && echo made; echo x > kept/deep/a && echo written; true", str(place.ws), box)
        (place.ws / "go1").touch()
        assert client.finish("first")[0] == 0
        assert (place.ws / "secrets").is_dir() and (place.ws / "kept").is_dir()
        (place.ws / "go2").touch()
        code, told = client.finish("second")
        assert code == 0 and "made" not in told and "written" not in told, told
        assert sorted(p.name for p in place.ws.iterdir()) == ["go1", "go2"]


def test_what_is_made_by_others_meanwhile_is_denied():
    with Place() as place:
        client = place.server().client()
        box = narrowed(place.ws)
        client.start("first", until("go1"), str(place.ws), box)
        client.start("second", until("go2") + "; cat secrets/key", str(place.ws), box)
        (place.ws / "go1").touch()
        client.finish("first")
        (place.ws / "secrets/key").write_text("secret")
        (place.ws / "go2").touch()
        code, told = client.finish("second")
        assert code != 0 and "secret\n" not in told + "\n" and "denied" in told, told


def test_a_command_starts_while_another_one_ends():
    with Place() as place:
        client = place.server().client()
        ws = str(place.ws)
        shown = intent([special("root", "read"), at(place.ws / "secrets", "read")], place.ws)
        for number in range(30):
            for label, first, then in (("skip", workspace_write(ws), None), ("deny", narrowed(ws), None),
                                       ("read", narrowed(ws), shown)):
                name = f"{label}{number}"
                client.start(name, "sleep 100", ws, first)
                client.call("process/terminate", {"processId": name})
                assert client.run("true", ws, then or first) == (0, ""), name
                try:
                    client.run("true", ws + "/nowhere", first)
                except codex_client.RpcError as error:
                    assert "nowhere" in error.message, error
                assert client.run("true", ws, then or first) == (0, ""), name
                client.finish(name)
        assert list(place.ws.iterdir()) == []


if __name__ == "__main__":
    run_all(globals())
