"""Runs code for clients of a code interpreter, inside the sandbox: an HTTP server on loopback, and a process of its
own for each context, so that one can be interrupted, restarted or lost without the others.

POST /execute           {"code", "context_id"?, "language"?, "env_vars"?}: lines of JSON, as things happen
GET, POST /contexts     all of them; a new one {"language"?, "cwd"?}
DELETE /contexts/ID     POST /contexts/ID/restart

BASH_WORKER and JAVASCRIPT_WORKER stand before this text: they are files of their own.
"""
import http.server
import json
import os
import queue
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading

PORT = 49999
MOST_CONTEXTS = 64
LARGEST_BODY = 32 << 20
LANGUAGES = {"python": "python", "python3": "python", "py": "python", "bash": "bash", "javascript": "javascript",
             "js": "javascript", "typescript": "typescript", "ts": "typescript"}

WORKER = r'''
import ast, asyncio, base64, builtins, inspect, io, json, linecache, os, signal, subprocess, sys, traceback, types

requests, events = os.fdopen(int(sys.argv[1]), "r"), os.fdopen(int(sys.argv[2]), "w", buffering=1)
sys.argv = [""]
sys.stdout.reconfigure(line_buffering=True)
sys.stderr.reconfigure(line_buffering=True)
os.environ.setdefault("MPLBACKEND", "Agg")
# What cells define is in a module that can be found by its name: pickle, and so multiprocessing, looks there.
worker, main = sys.modules["__main__"], types.ModuleType("__main__")
main.__builtins__ = builtins
sys.modules["__main__"] = main
space = main.__dict__
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)


def tell(**event):
    events.write(json.dumps(event, allow_nan=False) + "\n")


FORMS = {"html": "_repr_html_", "markdown": "_repr_markdown_", "svg": "_repr_svg_", "png": "_repr_png_",
         "jpeg": "_repr_jpeg_", "pdf": "_repr_pdf_", "latex": "_repr_latex_", "json": "_repr_json_",
         "javascript": "_repr_javascript_"}
TYPES = {"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg",
         "image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex",
         "application/json": "json", "application/javascript": "javascript"}


def plain(value):
    if isinstance(value, tuple):  # with metadata, which nobody asks for
        value = value[0]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return value


def shown(value):
    """Every form in which the object can show itself."""
    out = {}
    own = not isinstance(value, type)
    bundle = getattr(value, "_repr_mimebundle_", None) if own else None
    if callable(bundle):
        try:
            got = bundle(include=None, exclude=None)
            for kind, data in (got[0] if isinstance(got, tuple) else got or {}).items():
                out[TYPES.get(kind, kind)] = plain(data)
        except Exception:
            pass
    for name, method in FORMS.items():
        form = getattr(value, method, None) if own else None
        if name in out or not callable(form):
            continue
        try:
            got = plain(form())
        except Exception:
            continue
        if got is not None:
            out[name] = got
    if isinstance(value, (list, dict)) and "json" not in out and is_json(value):
        out["json"] = value
    out.setdefault("text", text_of(value))
    return out


def is_json(value):
    try:
        json.dumps(value, allow_nan=False)
        return True
    except Exception:
        return False


def text_of(value):
    """As a notebook shows it; a text without its quotes, as E2B's clients know it."""
    text = repr(value)
    quoted = isinstance(value, str) and len(text) > 1 and text[0] in "'\"" and text[0] == text[-1]
    return text[1:-1] if quoted else text


def result(value, main):
    bundle = shown(value)
    try:
        tell(type="result", is_main_result=main, **bundle)
    except (TypeError, ValueError):
        tell(type="result", is_main_result=main, text=bundle["text"])


def display(*values, **_):
    for value in values:
        result(value, False)


def shell(command):
    return subprocess.run(command, shell=True, executable="/bin/bash" if os.path.exists("/bin/bash") else None).returncode


builtins.display = display
builtins._berth_shell = shell


def figures():
    """What was drawn and not shown."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        image = io.BytesIO()
        figure.savefig(image, format="png", bbox_inches="tight")
        tell(type="result", is_main_result=False, text=repr(figure), png=base64.b64encode(image.getvalue()).decode())
        pyplot.close(figure)


def outdented(code):
    """Without the indent of its first statement, as notebooks take code that stands indented in a program."""
    lines = code.split("\n")
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    indent = first[:len(first) - len(first.lstrip())]
    return "\n".join(line[len(indent):] if line.startswith(indent) else line for line in lines)


def parse(code, name):
    try:
        return ast.parse(code, name)
    except SyntaxError:
        lines = []
        for line in code.split("\n"):
            bare = line.lstrip()
            indent = line[:len(line) - len(bare)]
            if bare.startswith("!"):
                line = indent + "_berth_shell(%r)" % bare[1:]
            elif bare.startswith("%pip "):
                line = indent + "_berth_shell(%r)" % (sys.executable + " -m " + bare[1:])
            lines.append(line)
        if "\n".join(lines) == code:
            raise
        tree = ast.parse("\n".join(lines), name)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and getattr(last.value.func, "id", "") == "_berth_shell":
            tree.body[-1] = ast.copy_location(ast.Assign([ast.Name("_", ast.Store())], last.value), last)
            ast.fix_missing_locations(tree)
        return tree


def waits(code):
    return code.co_flags & inspect.CO_COROUTINE


async def work_waiting(codes):
    value = None
    for code in codes:
        value = await eval(code, space) if waits(code) else eval(code, space)
    return value


def work(body, last, name):
    """The value of the last expression. Where any of it waits, all of it runs in the loop: one part may make the
    tasks that the other waits for."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    codes = [compile(body, name, "exec", flags=flags)] if body.body else []
    if last is not None:
        codes.append(compile(last, name, "eval", flags=flags))
    if any(map(waits, codes)):
        return loop.run_until_complete(work_waiting(codes))
    value = None
    for code in codes:
        value = eval(code, space)
    return value


def execute(code, number):
    name = "<cell %d>" % number
    code = outdented(code)
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    try:
        tree = parse(code, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        value = work(tree, last, name)
        if value is not None and not code.rstrip().endswith(";"):
            space["_"] = value
            result(value, True)
        figures()
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != name:
            trace = trace.tb_next
        told = "".join(traceback.format_exception(type(error), error, trace))
        tell(type="error", name=type(error).__name__, value=str(error), traceback=told)


count = 0
signal.signal(signal.SIGINT, signal.SIG_IGN)
for line in requests:
    request = json.loads(line)
    count += 1
    tell(type="number_of_executions", execution_count=count)
    before = {name: os.environ.get(name) for name in request["env"]}
    os.environ.update(request["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        execute(request["code"], count)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name, value in before.items():
        os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
    # Whatever was printed before it has been read once this is.
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            stream.flush()
        except Exception:
            pass
        os.write(number, request["end"].encode())
    tell(type="end")
'''


def command(language: str, *descriptors: str) -> list:
    if language == "python":
        return [sys.executable, "-c", WORKER, *descriptors]
    if language == "bash":
        return [sys.executable, "-c", BASH_WORKER, *descriptors]
    return ["node", "--no-warnings", "-e", JAVASCRIPT_WORKER, "--", *descriptors, language]


def known_language(request: dict) -> str:
    asked = (request.get("language") or "python").lower()
    language = LANGUAGES.get(asked)
    if language is None:
        raise ValueError(f"language '{asked}': this interpreter runs python, bash, javascript and typescript")
    program = {"python": sys.executable, "bash": "bash"}.get(language, "node")
    if shutil.which(program) is None:
        raise ValueError(f"language '{asked}': this sandbox has no {program}")
    return language


class Context:
    def __init__(self, language: str, cwd: str):
        self.id, self.language, self.cwd = secrets.token_hex(16), language, cwd
        self.turn = threading.Lock()
        self.process = None  # until something is to be run

    def begin(self) -> None:
        own_in, their_out = os.pipe()
        their_in, own_out = os.pipe()
        try:
            self.process = subprocess.Popen(command(self.language, str(their_in), str(their_out)), cwd=self.cwd,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                            pass_fds=(their_in, their_out), start_new_session=True)
        except OSError:
            os.close(own_in)
            os.close(own_out)
            raise
        finally:
            os.close(their_in)
            os.close(their_out)
        self.requests, self.events = os.fdopen(own_out, "w", buffering=1), os.fdopen(own_in, "r")

    def prepare(self) -> None:
        """Has a process afterwards, or raises: while a refusal can still be answered."""
        if self.process is None:
            with self.turn:
                if self.process is None:
                    self.begin()

    def end(self) -> None:
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass
        self.process.wait()

    def restart(self) -> None:
        self.end()
        with self.turn:
            self.begin()

    def describe(self) -> dict:
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    def run(self, code: str, env: dict, tell) -> None:
        """Calls tell with each event; it says False when nobody listens any more."""
        with self.turn:
            if self.process.poll() is not None:
                self.begin()
            end = f"\0end {secrets.token_hex(12)}\0"
            told: queue.Queue = queue.Queue(maxsize=1000)
            readers = [threading.Thread(target=self.read_output, args=(stream, name, end, told), daemon=True)
                       for stream, name in ((self.process.stdout, "stdout"), (self.process.stderr, "stderr"))]
            readers.append(threading.Thread(target=self.read_events, args=(told,), daemon=True))
            for reader in readers:
                reader.start()
            try:
                self.requests.write(json.dumps({"code": code, "env": env, "end": end}) + "\n")
            except OSError:
                pass
            left, listening, died = len(readers), True, False
            while left:
                try:
                    event = told.get(timeout=0.25)
                except queue.Empty:
                    event = {}
                if event is None:
                    left -= 1
                    continue
                died = died or event.get("type") == "died"
                if listening and not tell(event):
                    listening = False
                    self.interrupt()
            if died:
                self.bury()
            if died and listening:
                tell({"type": "error", "name": "ContextEnded", "traceback": "",
                      "value": "the process of this context ended before the code did"})

    def bury(self) -> None:
        """It has let go of its pipes, and is not quite gone: the next code must not be given to it."""
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            self.end()

    def interrupt(self) -> None:
        try:
            os.kill(self.process.pid, signal.SIGINT)
        except OSError:
            pass

    def read_events(self, told: queue.Queue) -> None:
        for line in self.events:
            event = json.loads(line)
            if event["type"] == "end":
                break
            told.put(event)
        else:
            told.put({"type": "died"})
        told.put(None)

    @staticmethod
    def read_output(stream, name: str, end: str, told: queue.Queue) -> None:
        mark, kept = end.encode(), b""
        while True:
            piece = os.read(stream.fileno(), 1 << 16)
            kept += piece
            at = kept.find(mark)
            text = kept[:at] if at >= 0 else kept
            if at < 0 and piece:
                # What may be the beginning of the mark, or of a character, waits for more.
                hold = max((n for n in range(1, min(len(mark), len(kept)) + 1) if mark.startswith(kept[-n:])), default=0)
                for n in range(1, min(4, len(kept)) + 1):
                    byte = kept[-n]
                    if byte & 0xC0 != 0x80:
                        need = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
                        hold = max(hold, n if need > n else 0)
                        break
                text = kept[:len(kept) - hold]
            kept = kept[len(text):]
            if text:
                told.put({"type": name, "text": text.decode("utf-8", "replace")})
            if at >= 0 or not piece:
                break
        told.put(None)


contexts: dict = {}
making = threading.Lock()


def default_directory() -> str:
    home = os.path.expanduser("~")
    return home if os.path.isdir(home) else "/"


def make_context(language: str, cwd: str) -> Context:
    with making:
        if len(contexts) >= MOST_CONTEXTS:
            raise ValueError(f"{MOST_CONTEXTS} contexts: remove one")
        context = Context(language, cwd)
        context.prepare()
        contexts[context.id] = context
        return context


def default_context(language: str) -> Context:
    """What code runs in that names no context: there from the beginning, and again when it was removed."""
    name = "default" if language == "python" else "default-" + language
    with making:
        if name not in contexts:
            contexts[name] = Context(language, default_directory())
            contexts[name].id = name
        return contexts[name]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status: int, document=None) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status: int, message: str) -> None:
        self.answer(status, {"code": status, "message": message})

    def body(self) -> dict:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            text = b""
            while True:
                size = int(self.rfile.readline(64).split(b";")[0], 16)
                if len(text) + size > LARGEST_BODY:
                    raise ValueError("the request is too large")
                text += self.rfile.read(size)
                self.rfile.readline(8)
                if size == 0:
                    break
        else:
            size = int(self.headers.get("Content-Length") or 0)
            if size > LARGEST_BODY:
                raise ValueError("the request is too large")
            text = self.rfile.read(size)
        document = json.loads(text or b"{}")
        if not isinstance(document, dict):
            raise ValueError("the body must be a JSON object")
        return document

    def route(self) -> list:
        return [part for part in self.path.split("?")[0].split("/") if part]

    def handle_safely(self, work) -> None:
        try:
            work()
        except (ValueError, OSError, KeyError) as error:
            try:
                self.refuse(400, str(error))
            except OSError:
                pass

    def do_GET(self):
        parts = self.route()
        if parts == ["contexts"]:
            self.answer(200, [context.describe() for context in list(contexts.values())])
        elif parts == ["health"]:
            self.answer(200, {"status": "ok"})
        else:
            self.refuse(404, "there is nothing here")

    def do_DELETE(self):
        parts = self.route()
        context = contexts.pop(parts[1], None) if len(parts) == 2 and parts[0] == "contexts" else None
        if context is None:
            self.refuse(404, "context not found")
            return
        context.end()
        self.answer(204)

    def do_POST(self):
        self.handle_safely(self.post)

    def post(self) -> None:
        parts = self.route()
        request = self.body()
        if parts == ["execute"]:
            self.execute(request)
        elif parts == ["contexts"]:
            language = known_language(request)
            cwd = request.get("cwd") or default_directory()
            if not os.path.isdir(cwd):
                raise ValueError(f"cwd '{cwd}' does not exist")
            self.answer(200, make_context(language, cwd).describe())
        elif len(parts) == 3 and parts[0] == "contexts" and parts[2] == "restart":
            context = contexts.get(parts[1])
            if context is None:
                self.refuse(404, "context not found")
                return
            context.restart()
            self.answer(200, context.describe())
        else:
            self.refuse(404, "there is nothing here")

    def execute(self, request: dict) -> None:
        code, env = request.get("code"), request.get("env_vars") or {}
        if not isinstance(code, str) or not isinstance(env, dict):
            raise ValueError("code must be a text, and env_vars an object")
        if request.get("context_id"):
            context = contexts.get(request["context_id"])
            if context is None:
                self.refuse(404, "context not found")
                return
        else:
            context = default_context(known_language(request))
        context.prepare()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        context.run(code, {str(k): str(v) for k, v in env.items()}, self.tell)
        try:
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def tell(self, event: dict) -> bool:
        try:
            if event and event["type"] != "died":
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                return True
            ready, _, _ = select.select([self.connection], [], [], 0)
            return not ready or self.connection.recv(1, socket.MSG_PEEK) != b""
        except OSError:
            self.close_connection = True
            return False


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


default_context("python")
if shutil.which("node") is not None:
    default_context("javascript")
Server(("127.0.0.1", PORT), Handler).serve_forever()
