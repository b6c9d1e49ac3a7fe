#!/usr/bin/env python3
"""Rules of E2B's protocol that no SDK's own calls would show broken. e2b_rules.py BERTH [CHECK]"""
import json
import os
import sys

from served import Box, Checks, Server, envelope, envelopes

check = Checks()
FILES = "filesystem.Filesystem/"


def as_root(box: Box, command: str) -> str:
    start = {"process": {"cmd": "/bin/bash", "args": ["-c", command]}, "stdin": False}
    _, _, body = box.stream("process.Process/Start", envelope(json.dumps(start).encode()), Authorization="Basic cm9vdDo=")
    return "".join(__import__("base64").b64decode(m["event"].get("data", {}).get("stdout", "")).decode()
                   for flags, m in envelopes(body) if not flags & 2)


# ---------------------------------------------------------------- files

@check
def a_move_that_fails_leaves_what_was_there(server: Server):
    status, volume = server.api("POST", "/volumes", {"name": "over"})
    assert status == 201, volume
    box = server.create(volumeMounts=[{"name": "over", "path": "/mnt/v"}])
    box.run("echo old > /mnt/v/f; echo old > /dev/shm/f; echo new > /home/user/n")
    for to in ("/mnt/v/f", "/dev/shm/f"):
        status, answer = box.unary(FILES + "Move", {"source": "/home/user/n", "destination": to})
        assert status == 501, (to, status, answer)
        assert box.run(f"cat {to} /home/user/n")[0] == "old\nnew\n", to
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204
    assert server.api("DELETE", "/volumes/" + volume["volumeID"])[0] == 204


@check
def a_move_is_a_rename(server: Server):
    box = server.create()
    box.run("cd; echo 1 > one; echo 2 > two; mkdir -p tree/below empty full/x; ln -s one link")

    def move(source: str, destination: str) -> int:
        return box.unary(FILES + "Move", {"source": source, "destination": destination})[0]

    assert move("one", "two") == 200
    assert box.run("cat two; ls")[0] == "1\nempty\nfull\nlink\ntree\ntwo\n"
    assert move("two", "two") == 200 and box.run("cat two")[0] == "1\n"
    assert move("none", "two") == 404 and box.run("cat two")[0] == "1\n"
    assert move("tree", "full") != 200 and move("two", "full") != 200 and move("tree", "two") != 200
    assert box.run("cat two; ls full tree")[0] == "1\nfull:\nx\n\ntree:\nbelow\n"
    assert move("tree", "empty") == 200 and box.run("ls empty; ls -d tree")[0] == "below\n"
    assert move("two", "link") == 200 and box.run("test ! -L link && cat link")[0] == "1\n"
    assert server.api("DELETE", f"/sandboxes/{box.id}")[0] == 204


if __name__ == "__main__":
    sys.exit(check.main())
