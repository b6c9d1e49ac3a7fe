"""The real codex with our model and our exec-server, each in a place of its own."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fake_model import FakeModel  # noqa: E402

CONFIG = """\
model = "gpt-5.5"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
{more}
"""


def binaries(packages: pathlib.Path) -> dict[str, pathlib.Path]:
    """Version to program: codex itself, without the script around it."""
    out = {}
    for package in ("codex-new", "codex-old"):
        for found in (packages / "node_modules" / package).glob("vendor/*/bin/codex"):
            version = json.loads((packages / "node_modules" / package / "package.json").read_text())["version"]
            out[version.partition("-")[0]] = found
    return out


class ExecServer:
    """One `berth exec-server` on a free port."""

    def __init__(self, program: str, place: pathlib.Path, *options: str, environment: dict | None = None):
        self.log = open(place / "exec-server.log", "a", encoding="utf-8")
        self.process = subprocess.Popen(
            [program, "exec-server", "--listen", "ws://127.0.0.1:0", "--data", str(place / "data"), "--log-level", "info",
             *options], stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError("the exec-server did not start: " + self.told())
        self.port = int(self.url.rsplit(":", 1)[1])

    def told(self) -> str:
        return pathlib.Path(self.log.name).read_text(encoding="utf-8")[-6000:]

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return -9


class Run:
    """What codex did: its events, what its tools told the model, how it ended."""

    def __init__(self, done: subprocess.CompletedProcess, results: list[str]):
        self.code, self.results, self.errors = done.returncode, results, done.stderr
        self.events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def commands(self) -> list[dict]:
        return [e["item"] for e in self.events
                if e["type"] == "item.completed" and e["item"]["type"] == "command_execution"]

    def output(self, index: int = 0) -> str:
        """By its events and by what the model was told: 0.150 leaves the first piece out of the events now and then."""
        told = self.results[index] if index < len(self.results) else ""
        return f'{self.commands()[index]["aggregated_output"]}\n{told}'


def codex(binary: pathlib.Path, place: pathlib.Path, workspace: pathlib.Path, url: str, steps: list, *options: str,
          config: str = "", environments: str = "", variables: dict | None = None, timeout: float = 120) -> Run:
    home = place / "codex-home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    model = FakeModel(steps)
    # Keys without a table come first.
    (home / "config.toml").write_text(config.partition("[")[0] + CONFIG.format(
        port=model.port, more="".join(config.partition("[")[1:])))
    environment = {**os.environ, "CODEX_HOME": str(home), "HOME": str(home), "FAKE_KEY": "x", **(variables or {})}
    environment.pop("CODEX_EXEC_SERVER_URL", None)
    if environments:
        (home / "environments.toml").write_text(environments)
    else:
        environment["CODEX_EXEC_SERVER_URL"] = url
    try:
        done = subprocess.run([str(binary), "exec", "--skip-git-repo-check", "--json", *options, "go"], cwd=workspace,
                              env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout, check=False)
    finally:
        model.close()
    return Run(done, model.results)
