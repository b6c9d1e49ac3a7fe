#!/usr/bin/env python3
"""`berth template build --backend local`: a Dockerfile becomes a template of this machine, without a server. local_templates.py BERTH"""
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile

import registry


class Place:
    def __init__(self, program: str, root: str):
        self.program, self.root, self.data = program, pathlib.Path(root), root + "/data"

    def run(self, *words: str, program: str | None = None, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run([program or self.program, *words], capture_output=True, text=True, check=False, timeout=300,
                              env={**os.environ, "BERTH_DATA": self.data, **environment})

    def well(self, *words: str) -> str:
        ended = self.run(*words)
        assert ended.returncode == 0, (words, ended)
        return ended.stdout

    def context(self, dockerfile: str, **files: str) -> str:
        where = pathlib.Path(tempfile.mkdtemp(dir=self.root))
        (where / "Dockerfile").write_text(dockerfile)
        for name, text in files.items():
            (where / name).write_text(text)
        return str(where / "Dockerfile")

    def build(self, file: str, name: str, *more: str) -> str:
        """What it said."""
        ended = self.run("template", "build", "--backend", "local", file, "--name", name, *more)
        assert ended.returncode == 0 and ended.stdout == name + "\n", ended
        return ended.stderr

    def inside(self, template: str, script: str) -> str:
        box = self.well("restore", template, "-q").strip()
        told = self.well("exec", box, "--", "sh", "-c", script)
        self.well("rm", box)
        return told

    def sandboxes(self) -> list[dict]:
        return json.loads(self.well("ls", "--json"))["sandboxes"]


def made_before(said: str) -> list[bool]:
    return [line.endswith("(made before)") for line in said.splitlines() if line.startswith("berth: [")]


STEPS = """FROM base
ENV GREETING=hello MORE="$GREETING world"
WORKDIR /home/user/app
COPY one two ./texts/
RUN echo "$MORE" > made && date +%N > moment && echo printed
"""


def steps_files_and_variables(place: Place) -> None:
    said = place.build(place.context(STEPS, one="1", two="2"), "first")
    assert "printed\n" in said and made_before(said) == [False] * 4, said
    assert place.inside("first", "pwd; whoami; echo $MORE; cat made texts/one texts/two") == "/home/user/app\nuser\nhello world\nhello world\n12"
    assert place.sandboxes() == [], "the build's own is gone"


def what_was_made_before_is_not_made_again(place: Place) -> None:
    place.build(place.context(STEPS, one="1", two="2"), "first")
    moment = place.inside("first", "cat moment")
    said = place.build(place.context(STEPS + "RUN echo more > more\n", one="1", two="2"), "second")
    assert made_before(said) == [True] * 4 + [False], said
    assert place.inside("second", "cat moment more; echo $MORE") == moment + "more\nhello world\n"
    said = place.build(place.context(STEPS, one="1", two="other"), "second")
    assert made_before(said) == [True, True, False, False], said
    assert place.inside("second", "cat texts/two; ls more 2>/dev/null; true") == "other"
    assert made_before(place.build(place.context(STEPS, one="1", two="2"), "third", "--force")) == [False] * 4
    assert place.inside("third", "cat moment") != moment
    assert place.inside("first", "cat moment") == moment


def one_template_begins_with_another(place: Place) -> None:
    place.build(place.context("FROM base\nENV A=1\nRUN echo below > ~/below\n"), "below")
    place.build(place.context("FROM below\nRUN echo $A > ~/above\n"), "above")
    assert place.inside("above", "cat ~/below ~/above") == "below\n1\n"
    listed = json.loads(place.well("template", "ls", "--json"))["templates"]
    assert {"below", "above"} <= {one["name"] for one in listed}, listed
    place.well("template", "rm", "below")
    assert place.inside("above", "cat ~/below") == "below\n", "it stands on its own"
    assert place.run("restore", "below").returncode == 3


def sandboxes_are_made_from_it_by_name(place: Place) -> None:
    place.build(place.context("FROM base\nENV A=1 B=2\nWORKDIR /home/user/app\nRUN echo mine > file\n"), "mine")
    said = place.well("run", "--template", "mine", "--env", "B=3", "--", "sh", "-c", "cat file; pwd; echo $A $B")
    assert said == "mine\n/home/user/app\n1 3\n", said
    assert place.sandboxes() == [], "that one was thrown away"
    assert place.run("run", "--template", "mine", "--", "sh", "-c", "exit 7").returncode == 7
    box = place.well("create", "--key", "demo", "--template", "mine", "-q").strip()
    place.well("exec", box, "--", "sh", "-c", "echo changed > file")
    again = place.run("create", "--key", "demo", "--template", "mine")
    assert again.stdout.strip() == box and "attached" in again.stderr, again
    assert place.well("exec", "demo", "--", "cat", "file") == "changed\n"
    assert place.well("run", "--template", "built:mine", "--workdir", "/", "--", "pwd") == "/\n"
    place.build(place.context("FROM base\nRUN echo newer > ~/file\n"), "mine")
    newer = place.run("create", "--key", "demo", "--template", "mine")
    assert newer.stdout.strip() != box and "fresh" in newer.stderr and box in newer.stderr, "another template is another sandbox"
    assert place.well("exec", "demo", "--", "cat", "/home/user/file") == "newer\n"
    place.well("rm", box)  # is superseded, and not in the list any more
    for words, code, why in ((("nowhere",), 3, "berth template ls"), (("built:nowhere",), 3, "no template 'nowhere' was built here"), (("built:a/b",), 2, "a/b"),
                             (("mine", "--backend", "e2b"), 3, "mine"), (("built:mine", "--backend", "docker"), 6, "docker")):
        refused = place.run("create", "--template", *words)
        assert refused.returncode == code and why in refused.stderr and refused.stderr.count("\n") == 1, (words, refused)
    (place.root / "here" / "mine").mkdir(parents=True)
    both = subprocess.run([os.path.abspath(place.program), "create", "--template", "mine"], capture_output=True, text=True, check=False, cwd=place.root / "here",
                          env={**os.environ, "BERTH_DATA": place.data})
    assert both.returncode == 4 and "built:mine or ./mine" in both.stderr, both


def image(place: Place) -> str:
    """A docker-archive with a shell and an account that has the number `user` would get."""
    layer = registry.small_root()
    config = json.dumps({"architecture": registry.ARCHITECTURE, "os": "linux", "config": {"Env": ["PATH=/bin"]},
                         "rootfs": {"type": "layers", "diff_ids": [registry.digest(layer)]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": ["small:1"], "Layers": ["layer.tar"]}]).encode()
    path = place.root / "image.tar"
    with tarfile.open(path, "w") as tar:
        for name, data in (("manifest.json", manifest), ("config.json", config), ("layer.tar", layer)):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return str(path)


def one_begins_with_an_image(place: Place) -> None:
    place.well("template", "import", "docker-archive:" + image(place), "small:1")
    place.build(place.context("FROM small:1\nENV A=1\nRUN echo $A > /tmp/file\nRUN id -u > /tmp/number\n"), "small")
    told = place.inside("small", "cat /etc/mark /tmp/file; id -u; cat /tmp/number")
    lines = told.split("\n")
    assert lines[:2] == ["from the image", "1"] and lines[2] == lines[3], told
    if os.geteuid() == 0:
        assert lines[2] == "1001", "1000 is somebody else's in this image"
        place.build(place.context("FROM small\nUSER root\nRUN echo 'other:x:4321:4321::/tmp:/bin/sh' >> /etc/passwd\nUSER other\nRUN id -u > /tmp/other\n"), "others")
        assert place.inside("others", "id -u; cat /tmp/other; cat /tmp/file") == "4321\n4321\n1\n"


def a_step_that_fails_is_named_and_leaves_nothing(place: Place) -> None:
    file = place.context("FROM base\nRUN echo 1 > ~/one\nRUN echo why >&2; exit 7\n")
    ended = place.run("template", "build", "--backend", "local", file, "--name", "broken")
    assert ended.returncode != 0 and "line 3" in ended.stderr and "why" in ended.stderr and "7" in ended.stderr, ended
    assert place.run("restore", "broken").returncode == 3 and place.sandboxes() == []
    assert made_before(place.build(place.context("FROM base\nRUN echo 1 > ~/one\nRUN true\n"), "broken")) == [True, False]


def killed_anywhere_it_has_its_name_or_not(place: Place) -> None:
    old = place.context("FROM base\nRUN echo old > ~/it\n")
    for label in ("build begun", "build step kept", "build described", "build named"):
        place.build(old, "kept")
        file = place.context(f"FROM base\nRUN echo '{label}' > ~/it\nRUN echo more >> ~/it\n")
        ended = place.run("template", "build", "--backend", "local", file, "--name", "kept", program=place.program + "-hooks", BERTH_TEST_KILL=label)
        assert ended.returncode == 128 + signal.SIGKILL and "interrupted" in ended.stderr, ended
        assert place.sandboxes() == [], "who stood beside it has removed its sandbox"
        assert place.inside("kept", "cat ~/it") == (f"{label}\nmore\n" if label == "build named" else "old\n")
        place.build(file, "kept")
        assert place.inside("kept", "cat ~/it") == f"{label}\nmore\n"
        assert len([one for one in json.loads(place.well("snapshots", "--json"))["snapshots"] if one["note"] == "template here kept"]) == 1


def ended_in_the_middle_of_a_step(place: Place) -> None:
    file = place.context("FROM base\nRUN echo 1 > ~/one\nRUN sleep 1000\n")
    for signo, code, left in ((signal.SIGINT, 128 + signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL, 1)):
        build = subprocess.Popen([place.program, "template", "build", "--backend", "local", file, "--name", "slow"], stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.PIPE, start_new_session=True, env={**os.environ, "BERTH_DATA": place.data})
        while "[2/2]" not in build.stderr.readline():
            assert build.poll() is None, build
        if signo == signal.SIGKILL:
            os.killpg(build.pid, signo)  # with who stands beside it
        else:
            build.send_signal(signo)
        _, said = build.communicate(timeout=60)
        assert build.returncode == code and ("interrupted" in said) == (left == 0), (signo, build.returncode, said)
        boxes = place.sandboxes()
        assert len(boxes) == left and all(one["lifetime_seconds"] == 3600 for one in boxes), (signo, boxes)
        for one in boxes:
            place.well("rm", one["id"])
        assert place.run("restore", "slow").returncode == 3


def what_cannot_be_is_refused(place: Place) -> None:
    file = place.context("FROM base\nRUN true\n")
    for words in (("--name", "a/b"), ("--name", "base"), ("--name", "live"), ("--name", "snap_1"), ("--name", "good", "--tag", "x"), ("--name", "good", "--start", "x")):
        assert place.run("template", "build", "--backend", "local", file, *words).returncode != 0, words
    ended = place.run("template", "build", "--backend", "local", place.context("FROM nowhere:1\nRUN true\n"), "--name", "good")
    assert ended.returncode == 3 and "berth template pull nowhere:1" in ended.stderr, ended
    assert place.run("template", "build", "--backend", "local", place.context("FROM base\nCOPY ../x y\n"), "--name", "good").returncode != 0
    assert place.sandboxes() == []


def main() -> int:
    failed = 0
    for check in (steps_files_and_variables, what_was_made_before_is_not_made_again, one_template_begins_with_another,
                  sandboxes_are_made_from_it_by_name, one_begins_with_an_image,
                  a_step_that_fails_is_named_and_leaves_nothing, ended_in_the_middle_of_a_step, killed_anywhere_it_has_its_name_or_not, what_cannot_be_is_refused):
        with tempfile.TemporaryDirectory(prefix="berth-templates-", ignore_cleanup_errors=True) as root:
            place = Place(sys.argv[1], root)
            try:
                check(place)
                print("ok  ", check.__name__)
            except AssertionError as why:
                failed += 1
                print("FAIL", check.__name__, why)
            for one in place.sandboxes():
                place.run("rm", one["id"])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
