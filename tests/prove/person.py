"""berth as a person runs it, for the suites of this folder."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

EXIT_NOT_HELD = 6


def owner_of(path: pathlib.Path) -> int | None:
    try:
        return path.stat().st_uid
    except FileNotFoundError:  # another's, who has ended
        return None


class Place:
    """A state directory and a workspace of their own, gone afterwards with every sandbox."""

    def __init__(self, program: str, **environment: str):
        self.program = program
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="berth-prove-test-"))
        self.root.chmod(0o755)
        self.tmp = self.root / "tmp"
        self.tmp.mkdir()
        self.tmp.chmod(0o1777)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("E2B_", "BERTH_"))}
        self.environment = {**kept, "BERTH_DATA": str(self.root / "data"), "TMPDIR": str(self.tmp), **environment}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.document("ls", "--all")["sandboxes"] if (self.root / "data").exists() else []:
            self.run("rm", one["id"])
        subprocess.run(["rm", "-rf", str(self.root)], check=False)
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, *words: str, timeout: float = 200, **more: str) -> subprocess.CompletedProcess:
        return subprocess.run([self.program, *words], env={**self.environment, **more}, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, capture_output=True, close_fds=True, check=False)

    def well(self, *words: str, **more: str) -> str:
        done = self.run(*words, **more)
        assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def document(self, *words: str) -> dict:
        return json.loads(self.well(*words, "--json"))

    def create(self, *words: str, **more: str) -> str:
        return self.well("create", "--quiet", *words, **more).strip()

    def prove(self, ref: str, code: int = 0, **more: str) -> dict:
        done = self.run("policy", "prove", ref, "--json", **more)
        assert done.returncode == code, (done.returncode, wrong_of(done.stdout), done.stderr)
        return json.loads(done.stdout)

    def baits(self) -> set[str]:
        """What proofs of this user have put where everybody may go: our own TMPDIR, or /tmp where others do not reach that."""
        reached = all(one.stat().st_mode & 1 for one in (self.tmp, *self.tmp.parents))
        found = (self.tmp if reached else pathlib.Path("/tmp")).glob("berth-prove-*")
        return {str(one) for one in found if "test" not in one.name and owner_of(one) == os.geteuid()}

    def workspace(self) -> pathlib.Path:
        """A project with git in two depths, as agents find it."""
        work = self.root / "work"
        for name in (".git/hooks", "part/deep/.git", "src"):
            (work / name).mkdir(parents=True)
        (work / ".git/config").write_text("[core]\n")
        (work / "part/deep/.git/config").write_text("[core]\n")
        (work / "src/main.c").write_text("int main;\n")
        (work / "secret").mkdir()
        (work / "secret/key").write_text("do not read\n")
        return work


def tree(top: pathlib.Path) -> list[str]:
    """Everything below a directory, with what it holds."""
    return sorted(f"{p.relative_to(top)} {p.read_text() if p.is_file() and not p.is_symlink() else ''}" for p in top.rglob("*"))


def wrong_of(text: str) -> list:
    try:
        return wrong(json.loads(text))
    except (ValueError, KeyError):
        return [text]


def wrong(receipt: dict) -> list[dict]:
    return [one for one in receipt["probes"] if one["verdict"] in ("not_held", "unclear")]


def check_receipt(receipt: dict) -> None:
    """Held, and every rule was tried both ways or says why not."""
    assert receipt["held"] and not wrong(receipt), wrong(receipt)
    assert receipt["policy_hash"].startswith("sha256:") and receipt["kernel"] and receipt["time"], receipt
    explained = {one["rule"] for one in receipt["untried"]}
    for rule in {one["rule"] for one in receipt["probes"]}:
        held = {one["must"] for one in receipt["probes"] if one["rule"] == rule and one["verdict"] == "held"}
        assert held == {"fail", "pass"} or rule in explained or rule in ONE_WAY, (rule, held)


# What has one way to be tried: making a namespace either works or does not.
ONE_WAY = {"no nested namespaces", "nested namespaces"}
