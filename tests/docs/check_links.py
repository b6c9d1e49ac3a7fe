#!/usr/bin/env python3
"""check_links.py TREE: every relative link of the Markdown files names a file, every anchor a heading."""
import pathlib
import re
import sys


def anchors(page: pathlib.Path) -> set[str]:
    heads = re.findall(r"^#+ +(.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def main(tree: pathlib.Path) -> int:
    wrong, seen = [], 0
    for page in sorted([*tree.glob("*.md"), *(tree / "docs").rglob("*.md")]):
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", link):
                continue
            seen += 1
            path, _, anchor = link.partition("#")
            target = (page.parent / path) if path else page
            if not target.exists():
                wrong.append(f"{page.relative_to(tree)}: {link} names no file")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                wrong.append(f"{page.relative_to(tree)}: {link} names no heading")
    print("\n".join(wrong) or f"{seen} links lead somewhere")
    return 1 if wrong or seen == 0 else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
