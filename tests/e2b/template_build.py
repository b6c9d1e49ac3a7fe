#!/usr/bin/env python3
"""`berth template build --backend e2b`: a Dockerfile becomes a template of a real `berth serve`, and of servers that lie.

template_build.py BERTH
"""
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "server"))
from cloud import Liar, Person, environment, remove_all, respond  # noqa: E402
from served import Server  # noqa: E402

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def context(place: str, dockerfile: str, **files: str) -> str:
    where = pathlib.Path(tempfile.mkdtemp(dir=place))
    (where / "Dockerfile").write_text(dockerfile)
    for name, text in files.items():
        file = where / name.replace("__", "/").replace("_DOT_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return str(where / "Dockerfile")


def inside(server: Server, person: Person, template: str, command: str) -> str:
    person.env = {**person.env, "E2B_TEMPLATE": template}
    return person.well("run", "--backend", "e2b", "--net", "off", "--", "sh", "-c", command)


@check
def steps_files_and_variables(server: Server, person: Person, place: str):
    file = context(place, """# a comment
FROM base
ENV GREETING=hello MORE="$GREETING world"
WORKDIR /home/user/app
COPY --chmod=600 one.txt two.txt ./texts/
COPY tree \\
  /home/user/tree
COPY *.cfg conf/
RUN echo "$MORE" > made && \\
    # in between
    echo printed
EXPOSE 80
""", one_DOT_txt="1", two_DOT_txt="2", tree__a__b="deep", tree__skipped="no", a_DOT_cfg="a", b_DOT_cfg="b",
        _DOT_dockerignore="tree/skip*\n")
    code, out, err = person.run("template", "build", "--backend", "e2b", file, "--name", "steps")
    assert code == 0 and out == "steps\n", (code, out, err)
    assert "printed" in err and "[builder" in err and "EXPOSE" in err, err
    told = inside(server, person, "steps", "pwd; cat /home/user/app/made texts/one.txt texts/two.txt; cat /home/user/tree/a/b; ls /home/user/tree conf; stat -c %a texts/one.txt")
    assert "hello world\n12deep" in told and "a.cfg\nb.cfg" in told and "skipped" not in told and told.endswith("600\n"), told


@check
def files_that_are_there_are_not_sent_again(server: Server, person: Person, place: str):
    file = context(place, "FROM base\nCOPY x /home/user/\n", x="y" * 1000)
    _, _, first = person.run("template", "build", file, "--name", "again")
    _, _, second = person.run("template", "build", file, "--name", "again")
    assert "uploaded" in first and "are there already" in second, (first, second)


@check
def the_start_command_runs_in_each_sandbox(server: Server, person: Person, place: str):
    file = context(place, 'FROM base\nWORKDIR /home/user\nCMD ["sh", "-c", "echo it is here > began; sleep 1000"]\n')
    person.well("template", "build", file, "--name", "begins", "--ready", "test -s /home/user/began")
    assert inside(server, person, "begins", "cat /home/user/began") == "it is here\n"


@check
def tags_and_size(server: Server, person: Person, place: str):
    file = context(place, "FROM base\nRUN true\n")
    told = json.loads(person.well("template", "build", file, "--name", "sized:one", "--tag", "two", "--memory", "512MiB", "--cpus", "1", "--json"))
    status, shown = server.api("GET", "/templates/" + told["template_id"])
    assert status == 200 and shown["buildID"] == told["build_id"], shown
    status, tags = server.api("GET", f"/templates/{told['template_id']}/tags")
    assert {one["tag"] for one in tags} >= {"one", "two"}, tags
    if os.geteuid() == 0 and shown["memoryMB"] == 512:  # else it is told that nothing is held
        limit = inside(server, person, "sized:two", "true")
        assert limit == ""
        status, made = server.api("POST", "/v2/sandboxes", {"templateID": "sized:two"})
        status, detail = server.api("GET", "/sandboxes/" + made["sandboxID"])
        assert (detail["memoryMB"], detail["cpuCount"]) == (512, 1), detail


@check
def a_step_that_fails_is_named(server: Server, person: Person, place: str):
    file = context(place, "FROM base\nRUN true\nRUN echo seen; exit 3\n")
    code, out, err = person.run("template", "build", file, "--name", "fails")
    assert code == 2 and out == "" and "seen" in err and "at step 2" in err, (code, err)
    assert server.api("POST", "/v2/sandboxes", {"templateID": "fails"})[0] == 404


@check
def what_no_template_can_be_is_refused_before_any_call(server: Server, person: Person, place: str):
    bad = {"FROM base\nCOPY ../x /\n": "not below the context", "FROM base\nCOPY none /x\n": "No such file",
           "RUN true\n": "begins with FROM", "FROM a\nFROM b\n": "one stage", "FROM base\nCOPY $X /y\n": "with a variable",
           "FROM base\nADD https://example.org/x /x\n": "other machines", "FROM base\nRUN\n": "without anything",
           "FROM base\nVOLUME /data\n": "nothing a template has", "FROM base\nRUN a \\\n": "should go on",
           "FROM base\nCOPY --from=x a b\n": "not understood", "FROM base\nENV X\n": "without a value"}
    liar = Liar(lambda connection, *rest: respond(connection, 500))
    lost = Person(person.program, person.data, environment(liar))
    for text, why in bad.items():
        code, _, err = lost.run("template", "build", context(place, text), "--name", "x")
        assert code != 0 and why in err, (text, code, err)
    assert liar.asked == [], liar.asked
    liar.close()
    code, _, err = person.run("template", "build", "--backend", "docker", context(place, "FROM base\n"), "--name", "x")
    assert code == 6 and "builds no templates" in err, (code, err)


@check
def servers_that_lie(server: Server, person: Person, place: str):
    file = context(place, "FROM base\nCOPY f /f\n", f="secret of the context")
    good = {"templateID": "tpl", "buildID": "b-1"}
    seen = []

    def lying(files=None, status=None, new=good):
        def answer(connection, request, head, body):
            seen.append((request, head, body))
            if request.startswith("POST /v3/templates "):
                respond(connection, 202, new)
            elif "/files/" in request:
                respond(connection, 201, files)
            elif "/status" in request:
                respond(connection, 200, status)
            else:
                respond(connection, 202)
        return answer

    cases = [
        (lying(new={"templateID": "../../sandboxes", "buildID": "x"}), "an id that is none"),
        (lying(files={"present": False}), "no place"),
        (lying(files={"present": False, "url": "file:///etc/passwd"}), ""),
        (lying(files={"present": False, "url": "http://127.0.0.1:1/x", "headers": {"A\r\nB": "c"}}), "header"),
        (lying(files={"present": True}, status={"status": "error", "logEntries": [], "reason": {"message": "no \x1b[31mway", "step": "1"}}), "at step 1"),
        (lying(files={"present": True}, status={"status": 7}), ""),
    ]
    for answer, why in cases:
        liar = Liar(answer)
        code, out, err = Person(person.program, person.data, environment(liar)).run("template", "build", file, "--name", "x")
        assert code != 0 and out == "" and why in err and "\x1b" not in err, (why, code, out, err)
        liar.close()
    # Where the files go is another place, which must not see the key.
    seen.clear()
    other = Liar(lambda connection, request, head, body: (seen.append((request, head, body)), respond(connection, 200)))
    liar = Liar(lying(files={"present": False, "url": other.url + "/put?x=1", "headers": {"X-Extra": "1"}},
                      status={"status": "ready", "logEntries": []}))
    code, out, err = Person(person.program, person.data, environment(liar)).run("template", "build", file, "--name", "x")
    assert code == 0 and out == "x\n", (code, err)
    put = next(one for one in seen if one[0].startswith("PUT /put?x=1 "))
    assert "x-api-key" not in put[1].lower() and "x-extra: 1" in put[1].lower(), put[1]
    assert f"content-length: {len(put[2])}" in put[1].lower() and put[2][:2] == b"\x1f\x8b", put[1]
    liar.close()
    other.close()


def main() -> int:
    only = sys.argv[2:]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="berth-build-") as place:
        server = Server(sys.argv[1], place + "/served")
        try:
            for one in CHECKS:
                if only and one.__name__ not in only:
                    continue
                person = Person(sys.argv[1], place + "/person", environment(server))
                try:
                    one(server, person, place)
                    print("ok", one.__name__, flush=True)
                except Exception as error:  # noqa: BLE001: counted and told
                    failed += 1
                    print("FAILED", one.__name__, repr(error)[:4000], flush=True)
                remove_all(server)
        finally:
            server.stop()
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
