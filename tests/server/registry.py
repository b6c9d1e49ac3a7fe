"""A real docker-registry on loopback, and a small image in it; and servers that are none."""
import base64
import gzip
import hashlib
import http.server
import io
import json
import os
import pathlib
import platform
import shutil
import socket
import subprocess
import tarfile
import threading
import time
import urllib.error
import urllib.request

PROGRAM = "/usr/bin/docker-registry"
PROGRAMS = ["sh", "bash", "cat", "chmod", "chown", "cp", "dirname", "echo", "env", "find", "id", "ls", "mkdir", "rm", "sleep", "stat", "true"]
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
OTHER = "arm64" if ARCHITECTURE != "arm64" else "amd64"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def missing() -> str:
    return "" if os.access(PROGRAM, os.X_OK) else "no docker-registry here: ./dev deps test"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def small_root() -> bytes:
    """A layer with a shell, a few programs of this machine and what they load."""
    files: dict[str, str] = {}
    for name in PROGRAMS:
        path = shutil.which(name, path="/usr/bin:/bin")
        if path is None:
            continue
        files["bin/" + name] = path
        for line in subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout.splitlines():
            for word in line.split():
                if word.startswith("/"):
                    files[word.lstrip("/")] = word
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        made: set[str] = set()

        def directory(path: str, mode: int = 0o755) -> None:
            if not path or path in made:
                return
            directory(str(pathlib.PurePosixPath(path).parent).removeprefix("."))
            made.add(path)
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)

        def file(path: str, data: bytes, mode: int = 0o644) -> None:
            directory(str(pathlib.PurePosixPath(path).parent).removeprefix("."))
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))

        for path, source in sorted(files.items()):
            file(path, pathlib.Path(source).read_bytes(), 0o755)
        file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\ntaken:x:1000:1000::/:/bin/sh\n")
        file("etc/group", b"root:x:0:\ntaken:x:1000:\n")
        file("etc/mark", b"from the image\n")
        for path in ("root", "proc", "sys", "dev"):
            directory(path)
        directory("tmp", 0o1777)
    return out.getvalue()


class Image:
    """One image for two platforms; only one of them runs here."""

    def __init__(self) -> None:
        layer = small_root()
        packed = gzip.compress(layer, 1, mtime=0)
        self.blobs = {digest(packed): packed}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        index = []
        for architecture in (OTHER, ARCHITECTURE):
            config = json.dumps({"os": "linux", "architecture": architecture, "config": {"Env": ["FROM_IMAGE=yes"], "WorkingDir": "/"},
                                 "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}}).encode()
            self.blobs[digest(config)] = config
            manifest = json.dumps({
                "schemaVersion": 2, "mediaType": MANIFEST,
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(config), "size": len(config)},
                "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest(packed), "size": len(packed)}]}).encode()
            self.manifests[digest(manifest)] = (MANIFEST, manifest)
            index.append({"mediaType": MANIFEST, "digest": digest(manifest), "size": len(manifest),
                          "platform": {"os": "linux", "architecture": architecture}})
            self.digest = digest(manifest)
            self.config = digest(config)
        self.layer = digest(packed)
        self.index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": index}).encode()


class Registry:
    """`docker-registry serve` with a directory of its own. auth: "" | "basic" | "token"."""

    LOGIN = ("somebody", "pass word")

    def __init__(self, place: str, auth: str = ""):
        self.place, self.auth, self.port = pathlib.Path(place), auth, free_port()
        self.place.mkdir(parents=True)
        self.host = f"127.0.0.1:{self.port}"
        config = {"version": 0.1, "log": {"level": "error"}, "storage": {"filesystem": {"rootdirectory": str(self.place / "store")}},
                  "http": {"addr": self.host}}
        self.tokens = None
        if auth == "basic":
            import crypt  # pylint: disable=deprecated-module
            hashed = crypt.crypt(self.LOGIN[1], crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16))
            (self.place / "passwords").write_text(f"{self.LOGIN[0]}:{hashed}\n")
            config["auth"] = {"htpasswd": {"realm": "here", "path": str(self.place / "passwords")}}
        elif auth == "token":
            self.tokens = TokenServer(self.place, self.LOGIN)
            config["auth"] = {"token": {"realm": self.tokens.url, "service": "registry", "issuer": "tests",
                                        "rootcertbundle": str(self.place / "cert.pem")}}
        (self.place / "config.yml").write_text(json.dumps(config))
        self.log = open(self.place / "log", "w", encoding="utf-8")
        self.process = subprocess.Popen([PROGRAM, "serve", str(self.place / "config.yml")], stdout=self.log, stderr=self.log,
                                        env={**os.environ, "OTEL_TRACES_EXPORTER": "none"})
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise RuntimeError("the registry did not start: " + (self.place / "log").read_text()) from None
                time.sleep(0.05)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.tokens:
            self.tokens.stop()

    def call(self, method: str, target: str, body: bytes | None = None, kind: str = "application/octet-stream", repository: str = ""):
        url = target if target.startswith("http") else f"http://{self.host}{target}"
        request = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": kind} if body is not None else {})
        if self.auth == "basic":
            request.add_header("Authorization", "Basic " + base64.b64encode(":".join(self.LOGIN).encode()).decode())
        if self.auth == "token":
            request.add_header("Authorization", "Bearer " + self.tokens.token(repository, ["pull", "push"]))
        return urllib.request.urlopen(request, timeout=60)

    def push(self, image: Image, repository: str, tag: str) -> str:
        for name, data in image.blobs.items():
            place = self.call("POST", f"/v2/{repository}/blobs/uploads/", b"", repository=repository).headers["Location"]
            self.call("PUT", f"{place}{'&' if '?' in place else '?'}digest={name}", data, repository=repository)
        for name, (kind, data) in image.manifests.items():
            self.call("PUT", f"/v2/{repository}/manifests/{name}", data, kind, repository=repository)
        self.call("PUT", f"/v2/{repository}/manifests/{tag}", image.index, INDEX, repository=repository)
        return f"{self.host}/{repository}:{tag}"


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status: int, body: bytes, **headers) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        try:
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # whoever asked has heard enough
            self.close_connection = True


def serve(handler) -> http.server.ThreadingHTTPServer:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class TokenServer:
    """Tokens as the registry checks them: signed by a key whose certificate it knows."""

    def __init__(self, place: pathlib.Path, login: tuple[str, str]):
        self.place, self.asked = place, []
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tests",
                        "-keyout", str(place / "key.pem"), "-out", str(place / "cert.pem")], check=True, capture_output=True)
        wanted = "Basic " + base64.b64encode(":".join(login).encode()).decode()
        outer = self

        class Handler(Quiet):
            def do_GET(self):
                outer.asked.append((self.path, self.headers.get("Authorization")))
                if self.headers.get("Authorization") != wanted:
                    self.answer(401, b"{}")
                    return
                self.answer(200, json.dumps({"token": outer.token("private/image", ["pull"])}).encode())

        self.server = serve(Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/token"

    def token(self, repository: str, actions: list[str]) -> str:
        der = subprocess.run(["openssl", "x509", "-in", str(self.place / "cert.pem"), "-outform", "DER"], check=True, capture_output=True).stdout
        now = int(time.time())
        parts = [{"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(der).decode()]},
                 {"iss": "tests", "sub": "", "aud": "registry", "exp": now + 600, "nbf": now - 60, "iat": now, "jti": "1",
                  "access": [{"type": "repository", "name": repository, "actions": actions}]}]
        text = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
        signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", str(self.place / "key.pem")], input=text, check=True, capture_output=True).stdout
        return (text + b"." + base64.urlsafe_b64encode(signed).rstrip(b"=")).decode()

    def stop(self) -> None:
        self.server.shutdown()


class Hostile:
    """Answers as a registry would, but for what `lie` changes: lie(path, status, body) -> (status, body, headers)."""

    def __init__(self, image: Image, lie):
        self.asked: list[str] = []
        outer = self

        class Handler(Quiet):
            def do_GET(self):
                outer.asked.append(self.path)
                name = self.path.rsplit("/", 1)[1]
                headers = {}
                if name in image.blobs:
                    body = image.blobs[name]
                elif name in image.manifests:
                    headers["Content_Type"], body = image.manifests[name]
                else:
                    headers["Content_Type"], body = INDEX, image.index
                status, body, more = lie(self.path, 200, body) or (200, body, {})
                self.answer(status, body, **{**headers, **more})

        self.server = serve(Handler)
        self.name = f"127.0.0.1:{self.server.server_address[1]}/any/image:1"

    def stop(self) -> None:
        self.server.shutdown()
