"""What a process holds in memory, and what it may hold."""
import pathlib


def _of(pid: int, what: str) -> int:
    """In KiB."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"process {pid} has no {what}")


def resident(pid: int) -> int:
    return _of(pid, "VmRSS") * 1024


def largest(pid: int) -> int:
    """The most it ever held."""
    return _of(pid, "VmHWM") * 1024


def bound(pid: int, size: int) -> int:
    """A sanitizer keeps what was freed for a while and books of every byte: its programs may hold more. One is known by
    the terabytes of address space that it reserves for those books."""
    return 6 * size + (600 << 20) if _of(pid, "VmSize") > 1 << 30 else size
