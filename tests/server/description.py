"""What /openapi.json says, held against what a server takes and gives."""
import json
import re


class Description:
    def __init__(self, document: dict):
        self.schemas = document["components"]["schemas"]
        self.operations = []
        self.seen: set[tuple[str, str]] = set()  # whose answers were held against it
        for path, methods in document["paths"].items():
            pattern = re.compile(re.sub(r"\\\{path\\\}", ".*", re.sub(r"\\\{(?!path)\w+\\\}", "[^/]+", re.escape(path))))
            for method, operation in methods.items():
                self.operations.append((method.upper(), path, pattern, operation))

    def operation(self, method: str, target: str):
        for one, path, pattern, operation in self.operations:
            if one == method and pattern.fullmatch(target.split("?")[0]):
                return path, operation
        return None, None

    def answers(self) -> set[tuple[str, str]]:
        """Those that say what document they give."""
        return {(method, path) for method, path, _, operation in self.operations
                if any("application/json" in one.get("content", {}) for status, one in operation["responses"].items() if status != "default")}

    def check(self, method: str, target: str, asked, status: int, told) -> None:
        path, operation = self.operation(method, target)
        if operation is None or status in (401, 405) or "/ports/" in path:
            return
        if status < 400:
            for name in re.findall(r"[?&](\w+)=", target):
                assert name in {one["name"] for one in operation.get("parameters", []) if one["in"] == "query"}, (path, "parameter", name)
            assert str(status) in operation["responses"], (method, path, status)
            body = operation.get("requestBody")
            if asked:
                assert body, (method, path, "takes no body")
                self.hold(body["content"]["application/json"]["schema"], asked, f"{method} {path} asked")
        if not isinstance(told, (dict, list)):
            return
        answer = operation["responses"]["default" if status >= 400 else str(status)]
        self.hold(answer["content"]["application/json"]["schema"], told, f"{method} {path} {status}")
        if status < 400:
            self.seen.add((method, path))

    def event(self, method: str, target: str, event: dict) -> None:
        path, operation = self.operation(method, target)
        self.hold(operation["responses"]["200"]["content"]["text/event-stream"]["x-event"], event, f"{method} {path} event")

    def hold(self, schema: dict, value, where: str) -> None:
        if "$ref" in schema:
            return self.hold(self.schemas[schema["$ref"].rsplit("/", 1)[1]], value, where)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return self.hold_one(schema[word], value, where)
        kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "array": list, "null": type(None)}
        kind = schema["type"]
        assert isinstance(value, kinds[kind]) and (kind == "boolean" or not isinstance(value, bool)), (where, kind, value)
        if kind == "array":
            for number, one in enumerate(value):
                self.hold(schema["items"], one, f"{where}/{number}")
        if kind != "object" or not ("properties" in schema or isinstance(schema.get("additionalProperties"), dict)):
            return None
        known = schema.get("properties", {})
        for name in schema.get("required", []):
            assert name in value, (where, "lacks", name)
        for name, one in value.items():
            more = schema.get("additionalProperties")
            inside = known.get(name) or (more if isinstance(more, dict) else None)
            assert inside is not None, (where, "does not know", name, json.dumps(one)[:200])
            self.hold(inside, one, f"{where}/{name}")
        return None

    def hold_one(self, schemas: list[dict], value, where: str) -> None:
        why = None
        for one in schemas:
            try:
                return self.hold(one, value, where)
            except AssertionError as failed:
                why = failed
        raise why
