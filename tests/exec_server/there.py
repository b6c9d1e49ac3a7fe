"""What the suites of this folder share: an exec-server with a directory for sandboxes, and berth as its client."""
import os
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "server"))
sys.path.insert(0, str(HERE.parent / "e2b"))
from cloud import Person  # noqa: E402,F401
from codex_client import ExecServer  # noqa: E402


def outside_tmp() -> pathlib.Path:
    """A new directory that no rule on temporary directories covers, where there is one."""
    for above in (pathlib.Path.home(), pathlib.Path("/srv"), pathlib.Path("/opt")):
        if os.access(above, os.W_OK) and not str(above.resolve()).startswith(("/tmp", "/var/tmp")):
            return pathlib.Path(tempfile.mkdtemp(prefix="berth-exec-server-", dir=above))
    return pathlib.Path(tempfile.mkdtemp(prefix="berth-exec-server-"))  # only the conformance suite needs more


def environment(url: str, root, **more) -> dict:
    """Nothing but what a person would set."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("E2B_", "BERTH_"))}
    return {**kept, "BERTH_EXEC_SERVER_URL": url, "BERTH_EXEC_SERVER_ROOT": str(root), **more}


class There:
    """A `berth exec-server` of its own; everything is gone with it."""

    def __init__(self, program: str, *options: str):
        self.program = program
        self.place = outside_tmp()
        self.root = self.place / "sandboxes"
        self.server = ExecServer(program, self.place, "--root", str(self.place), *options)
        self.url = self.server.url

    def person(self, **more) -> Person:
        data = tempfile.mkdtemp(prefix="client-", dir=self.place)
        return Person(self.program, data, environment(self.url, self.root, **more))

    def sandboxes(self) -> list[str]:
        return sorted(p.name for p in self.root.glob("sbx_*")) if self.root.exists() else []

    def close(self) -> None:
        self.server.stop()
        shutil.rmtree(self.place, ignore_errors=True)
