"""A model that says what a script tells it, on loopback: as much of the Responses API as codex needs."""
import http.server
import json
import threading


class FakeModel:
    """`steps` are items to answer with, one a request; a callable gets the last result and returns the item."""

    def __init__(self, steps: list):
        self.steps = [*steps, {"type": "message", "role": "assistant", "id": "m1",
                               "content": [{"type": "output_text", "text": "done"}]}]
        self.results: list[str] = []
        self.asked = 0
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if not self.path.endswith("/responses"):
                    self.do_GET()
                    return
                answer = model.answer(json.loads(body))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request: dict) -> bytes:
        last = request["input"][-1]
        if str(last.get("type", "")).endswith("_output"):
            told = last.get("output", "")
            self.results.append(told if isinstance(told, str) else json.dumps(told))
        step = self.steps[min(self.asked, len(self.steps) - 1)]
        if callable(step):
            step = step(self.results[-1] if self.results else "")
        self.asked += 1
        name = f"resp_{self.asked}"
        usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None,
                 "total_tokens": 2}
        events = [{"type": "response.created", "response": {"id": name}},
                  {"type": "response.output_item.done", "item": step},
                  {"type": "response.completed", "response": {"id": name, "usage": usage}}]
        return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def command(text: str, **more) -> dict:
    arguments = {"cmd": text, "yield_time_ms": 20000, **more}
    return {"type": "function_call", "name": "exec_command", "call_id": f"c{abs(hash(text)) % 10**9}",
            "arguments": json.dumps(arguments)}


def write_stdin(session: int, text: str) -> dict:
    return {"type": "function_call", "name": "write_stdin", "call_id": f"w{abs(hash(text)) % 10**9}",
            "arguments": json.dumps({"session_id": session, "chars": text, "yield_time_ms": 3000})}


def apply_patch(text: str) -> dict:
    return {"type": "custom_tool_call", "name": "apply_patch", "call_id": f"p{abs(hash(text)) % 10**9}", "input": text}


def view_image(path: str) -> dict:
    return {"type": "function_call", "name": "view_image", "call_id": "v1", "arguments": json.dumps({"path": path})}
