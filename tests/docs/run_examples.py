#!/usr/bin/env python3
"""run_examples.py PAGE.md --program PATH: runs the examples of a page and compares what they print.

An example is a fenced block below the comment `<!-- test: run -->` (or `<!-- test: run exit=7 -->`). It is
given to bash in an empty directory where build/berth is the program, with a home and state of its own.
A block below `<!-- test: output -->` holds lines the example before it must have printed, in that order; `...`
in such a line stands for anything. All blocks of a page share their directory, as for a reader who pastes.

run_examples.py --self-test checks this runner with made-up pages.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

BLOCK = re.compile(r"^<!-- test: (run|output)(?: exit=(\d+))? -->\n+```\w*\n(.*?)^```", re.S | re.M)


def missing_line(expected: str, printed: str) -> str | None:
    """The first expected line that does not follow its predecessors, or None."""
    lines = iter(printed.splitlines())
    for want in expected.splitlines():
        pattern = ".*".join(re.escape(piece) for piece in want.rstrip().split("..."))
        if not any(re.fullmatch(pattern, line.rstrip()) for line in lines):
            return want
    return None


def wait_for_ended(files) -> None:
    """Servers that a page started and told to end, by the files it keeps their numbers in: they still write."""
    until = time.monotonic() + 30
    for file in files:
        while os.path.exists(f"/proc/{file.read_text().strip()}") and time.monotonic() < until:
            time.sleep(0.05)


def run_page(page: pathlib.Path, program: str) -> list[str]:
    """Everything in which the page was wrong."""
    wrong, printed, count = [], "", 0
    with tempfile.TemporaryDirectory(prefix="berth-docs.") as place:
        for name in ("home", "work/build"):
            os.makedirs(f"{place}/{name}")
        os.symlink(program, f"{place}/work/build/berth")
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        environment = keep | {"HOME": f"{place}/home", "BERTH_DATA": f"{place}/data"}
        for kind, code, body in BLOCK.findall(page.read_text()):
            if kind == "output":
                line = missing_line(body, printed)
                if line is not None:
                    wrong.append(f"{page.name}: example {count} did not print: {line}\n--- it printed:\n{printed}")
                continue
            count += 1
            done = subprocess.run(["bash", "-c", body], cwd=f"{place}/work", env=environment, text=True, timeout=120,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
            printed = done.stdout
            if done.returncode != int(code or 0):
                wrong.append(f"{page.name}: example {count} exited {done.returncode}, not {code or 0}:\n{body}--- it printed:\n{printed}")
        wait_for_ended(pathlib.Path(place, "work").glob("*.pid"))
        # What a page leaves its reader to try is nobody's once its state directory is gone.
        for kept in (*pathlib.Path(place).glob("*/sandbox"), *pathlib.Path(place).glob("*/*/sandbox")):
            subprocess.run([program, "rm", "--all", "--data", str(kept.parent)], check=False, capture_output=True, timeout=120)
    if count == 0:
        wrong.append(f"{page.name}: no example is marked <!-- test: run -->")
    return wrong


def self_test() -> int:
    def page(body: str, output: str | None = None, mark: str = "run") -> str:
        text = f"# t\n\n<!-- test: {mark} -->\n```sh\n{body}\n```\n"
        return text if output is None else text + f"\n<!-- test: output -->\n```text\n{output}\n```\n"

    cases = [  # page, is it wrong
        (page("echo one; echo two", "one\ntwo"), False),
        (page("echo one; echo two", "two\none"), True),
        (page("echo took 12 ms", "took ... ms"), False),
        (page("echo took 12 s", "took ... ms"), True),
        (page("exit 7"), True),
        (page("exit 7", mark="run exit=7"), False),
        (page("test -L build/berth && test -n \"$BERTH_DATA\""), False),
        ("# nothing\n", True),
    ]
    failed = 0
    for text, expected in cases:
        with tempfile.TemporaryDirectory() as place:
            file = pathlib.Path(place) / "page.md"
            file.write_text(text)
            if bool(run_page(file, "/bin/true")) != expected:
                failed += 1
                print(f"self-test: expected {'a complaint' if expected else 'none'} about:\n{text}")
    return 1 if failed else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--program", required=True)
    arguments = parser.parse_args()
    if not os.access(arguments.program, os.X_OK):
        print(f"there is no program {arguments.program}: ./dev build")
        return 1
    wrong = run_page(arguments.page, arguments.program)
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
