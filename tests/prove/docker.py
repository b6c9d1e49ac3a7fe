#!/usr/bin/env python3
"""docker.py BERTH: proofs in containers of a real engine, one of them of an image with nothing in it."""
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile

from person import Place, check_receipt

ENGINE = pathlib.Path(__file__).parent.parent / "support" / "docker-engine"


def empty_image(path: pathlib.Path) -> None:
    """No shell, no library, no tool: a directory to write in and the two accounts."""
    with tarfile.open(path, "w") as tar:
        for name, mode in (("tmp", 0o1777), ("etc", 0o755), ("home", 0o755), ("home/user", 0o777), ("root", 0o700)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        text = b"root:x:0:0:root:/root:/none\nuser:x:1000:1000:user:/home/user:/none\n"
        entry = tarfile.TarInfo("etc/passwd")
        entry.size, entry.mode = len(text), 0o644
        tar.addfile(entry, io.BytesIO(text))


def main() -> int:
    program = sys.argv[1]
    directory = tempfile.mkdtemp(prefix="berth-docker-")
    engine = subprocess.Popen([str(ENGINE), directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        said = engine.stdout.readline().strip()
        if said != "ready":
            print(f"skipped: {said}")
            return 0
        with Place(program, DOCKER_HOST=f"unix://{directory}/sock") as place:
            image = place.root / "empty.tar"
            empty_image(image)
            for template in (f"{directory}/root.tar", str(image)):
                box = place.create("--backend", "docker", "--template", f"tar:{template}", "--memory", "64M", "--pids", "300", "--prove")
                receipt = place.prove(box)
                check_receipt(receipt)
                held = {one["probe"].split(" ")[0] for one in receipt["probes"] if one["verdict"] == "held"}
                assert {"use_more_memory", "make_more_processes", "reach_loopback_of_the_host",
                        "read_file_of_the_host", "gain_privileges_by_set_id", "call_the_kernel_unfiltered"} <= held, held
                print(f"{pathlib.Path(template).name}: {len(receipt['probes'])} probes")
                place.well("rm", box)
            box = place.create("--backend", "docker", "--template", f"tar:{directory}/root.tar", "--policy", "read-only")
            receipt = place.prove(box)
            check_receipt(receipt)
            print(f"read-only: {len(receipt['probes'])} probes")
            place.well("rm", box)
            place.well("policy", "explain", "read-only", "--backend", "docker")
            (place.root / "wide.toml").write_text("name = 'wide'\nnested_namespaces = true\n")
            refused = place.run("policy", "explain", str(place.root / "wide.toml"), "--backend", "docker")
            assert refused.returncode == 6 and "REFUSED" in refused.stdout, refused
    finally:
        engine.stdin.close()
        engine.wait()
    return 0


sys.exit(main())
