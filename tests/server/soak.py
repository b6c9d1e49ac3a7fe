#!/usr/bin/env python3
"""Many sandboxes of one server for a long time, some of them always at work. soak.py BERTH [SANDBOXES [ACTIVE [MINUTES]]]

ACTIVE commands run at any moment, each in the next sandbox of the round; each prints a word and stays for a while. Told
are errors, how long the word took (by minute), and what a sandbox costs in memory and in descriptors of the server.
Without numbers it is small, and judges no times. ./dev soak-server runs the real one.
"""
import asyncio
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from served import Server, envelope

SANDBOXES, ACTIVE, MINUTES = 40, 10, 0.05
AT_ONCE = 8  # creates and kills under way
STAY = 2  # seconds a command lives
WORD, SEEN = "begun", b"YmVndW4K"  # as the protocol carries it
MEMORY_BAR, DESCRIPTOR_BAR, RATIO_BAR = 520, 3, 1.3
JUDGED_FROM = 2  # minutes


async def request(port: int, head: str, body: bytes, until: bytes = b"") -> tuple[bytes, float]:
    """The whole answer, and how long it took until `until` was in it."""
    begun = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{head}Host: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        seen, taken = b"", 0.0
        while piece := await asyncio.wait_for(reader.read(65536), 120):
            seen += piece
            if not taken and until and until in seen:
                taken = time.monotonic() - begun
        return seen, taken
    finally:
        writer.close()


async def create(server: Server) -> tuple[str, str]:
    body = json.dumps({"templateID": "base", "timeout": 3600}).encode()
    head = f"POST /v2/sandboxes HTTP/1.1\r\nX-API-Key: {server.key}\r\nContent-Type: application/json\r\n"
    answer, _ = await request(server.port, head, body)
    if not answer.startswith(b"HTTP/1.1 201"):
        raise RuntimeError("not created: " + answer[:300].decode("latin-1"))
    made = json.loads(answer.partition(b"\r\n\r\n")[2])
    return made["sandboxID"], made["envdAccessToken"]


async def kill(server: Server, box: tuple[str, str]) -> None:
    answer, _ = await request(server.port, f"DELETE /sandboxes/{box[0]} HTTP/1.1\r\nX-API-Key: {server.key}\r\n", b"")
    if not answer.startswith(b"HTTP/1.1 204"):
        raise RuntimeError("not killed: " + answer[:300].decode("latin-1"))


async def command(server: Server, box: tuple[str, str]) -> float:
    start = {"process": {"cmd": "/bin/sh", "args": ["-c", f"echo {WORD}; exec sleep {STAY}"]}, "stdin": False}
    head = (f"POST /process.Process/Start HTTP/1.1\r\nE2b-Sandbox-Id: {box[0]}\r\nE2b-Sandbox-Port: 49983\r\n"
            f"X-Access-Token: {box[1]}\r\nContent-Type: application/connect+json\r\n")
    answer, taken = await request(server.port, head, envelope(json.dumps(start).encode()), SEEN)
    if not taken or b"exit status 0" not in answer:
        raise RuntimeError(f"{box[0]}: " + answer[-300:].decode("latin-1"))
    return taken


async def each(work, items: list) -> list:
    """`work` of every item, a few at once, in their order."""
    out, waiting = [None] * len(items), list(enumerate(items))[::-1]

    async def some() -> None:
        while waiting:
            at, item = waiting.pop()
            out[at] = await work(item)
    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return out


async def rotate(server: Server, boxes: list, active: int, seconds: float) -> tuple[list, list]:
    """(when, how long) of every command, and what went wrong."""
    took, wrong, turn = [], [], iter(range(1 << 60))
    begun = time.monotonic()

    async def work() -> None:
        while (now := time.monotonic() - begun) < seconds:
            try:
                took.append((now, await command(server, boxes[next(turn) % len(boxes)])))
            except (OSError, RuntimeError, asyncio.TimeoutError) as e:
                wrong.append(repr(e))
    await asyncio.gather(*(work() for _ in range(active)))
    return took, wrong


def percentile(samples: list[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def kernel_memory() -> int:
    """What the kernel holds for good, in KiB, as `berth bench density` counts it."""
    counted = {"SUnreclaim:", "PageTables:", "Percpu:", "Shmem:", "VmallocUsed:"}
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return sum(int(words[1]) for words in map(str.split, lines) if words[0] in counted)


def keepers_memory(data: str) -> int:
    """Of all keepers of a state directory, in KiB."""
    stat, total = os.stat(data), 0
    mark = f"{stat.st_dev:x}.{stat.st_ino:x}/".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if len(words) > 1 and words[0] == b"k" and words[1].startswith(mark):
                status = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))
        except OSError:
            continue
    return total


def held(server: Server) -> dict[str, float]:
    return {"server": server.memory() / 1024, "keepers": keepers_memory(server.data), "kernel": kernel_memory(),
            "descriptors": len(os.listdir(f"/proc/{server.process.pid}/fd")),
            "threads": len(os.listdir(f"/proc/{server.process.pid}/task"))}


async def soak(server: Server, count: int, active: int, minutes: float) -> list[str]:
    failed = []
    first = await create(server)  # the template is made with it
    await command(server, first)
    before, begun = held(server), time.monotonic()
    boxes = [first, *await each(lambda _: create(server), [None] * (count - 1))]
    print(f"{count} sandboxes after {time.monotonic() - begun:.1f} s", flush=True)
    idle = held(server)
    more = {name: (idle[name] - before[name]) / max(count - 1, 1) for name in idle}
    memory = more["server"] + more["keepers"] + more["kernel"]
    print(f"each idle one: {memory:.0f} KiB (server {more['server']:.0f}, keeper {more['keepers']:.0f}, kernel {more['kernel']:.0f}), "
          f"{more['descriptors']:.2f} descriptors, {idle['threads']:.0f} threads in all", flush=True)
    if more["descriptors"] > DESCRIPTOR_BAR:
        failed.append(f"descriptors {more['descriptors']:.2f}, the bar is {DESCRIPTOR_BAR}")
    took, wrong = await rotate(server, boxes, active, minutes * 60)
    print(f"{len(took)} commands, {len(wrong)} errors", flush=True)
    failed += sorted(set(wrong))[:5]
    by_minute = {}
    for when, taken in took:
        by_minute.setdefault(int(when // 60), []).append(taken * 1000)
    for minute, samples in sorted(by_minute.items()):
        print(f"minute {minute + 1}: {len(samples)} commands, p50 {percentile(samples, 0.5):.1f} ms, p99 {percentile(samples, 0.99):.1f} ms")
    after = held(server)
    print(f"server: {before['server'] / 1024:.1f} MiB with one, {idle['server'] / 1024:.1f} with all, {after['server'] / 1024:.1f} after; "
          f"descriptors {before['descriptors']:.0f}, {idle['descriptors']:.0f}, {after['descriptors']:.0f}")
    if minutes >= JUDGED_FROM:
        whole = [m for m in by_minute if m + 1 <= minutes]
        ratio = percentile(by_minute[whole[-1]], 0.99) / percentile(by_minute[whole[0]], 0.99)
        print(f"p99 of the last minute: {ratio:.2f} x that of the first (bar {RATIO_BAR})")
        if ratio > RATIO_BAR:
            failed.append(f"p99 grew {ratio:.2f} times")
        if memory > MEMORY_BAR:
            failed.append(f"{memory:.0f} KiB each, the bar is {MEMORY_BAR}")
    begun = time.monotonic()
    await each(lambda box: kill(server, box), boxes)
    print(f"all killed after {time.monotonic() - begun:.1f} s", flush=True)
    return failed


def main() -> int:
    program, *numbers = sys.argv[1:]
    count, active, minutes = [float(n) for n in numbers] + [SANDBOXES, ACTIVE, MINUTES][len(numbers):]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="berth-soak-", ignore_cleanup_errors=True) as place:
        server = Server(program, place + "/data", "--pool", "0")
        try:
            failed = asyncio.run(soak(server, int(count), int(active), minutes))
        except Exception as e:  # noqa: BLE001: what is left is removed, whatever it was
            failed = [repr(e)]
        code = server.stop()
        if code != 0:
            failed.append(f"the server ended with {code}")
        left = os.listdir(place + "/data/sandbox")
        if left:
            failed.append(f"{len(left)} instances are left")
            listed = json.loads(subprocess.run([program, "ls", "--json", "--data", place + "/data"], check=False,
                                               capture_output=True, text=True).stdout or "{}")
            for one in listed.get("sandboxes", []):
                subprocess.run([program, "rm", one["id"], "--data", place + "/data"], check=False)
    for one in failed:
        print("FAILED", one)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
