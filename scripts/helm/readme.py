#!/usr/bin/env python3
"""Writes the tables of helm/ebb/README.md from the comments of values.yaml; with --check only says whether they are current.

A comment above a key is its meaning; `## Title` begins a table. A key without a comment belongs to the one above it."""

import json
import re
import sys
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parents[2] / "helm" / "ebb"
BEGIN, END = "<!-- values: made by `make helm-readme` -->\n", "<!-- end of values -->\n"
KEY = re.compile(r"( *)([A-Za-z_][\w.-]*):")


def documented(text):
    """(title, path, meaning) of every commented key, in order."""
    title, comment, path = "", [], []
    for line in text.splitlines():
        if line.startswith("## "):
            title, comment = line[3:], []
        elif line.lstrip().startswith("# "):
            comment.append(line.strip()[2:])
        elif match := KEY.match(line):
            depth = len(match[1]) // 2
            path = path[:depth] + [match[2]]
            if comment:
                yield title, tuple(path), " ".join(comment)
            comment = []
        else:
            comment = []


def default(values, path):
    for step in path:
        values = values[step]
    return values


def tables(text):
    values = yaml.safe_load(text)
    rows = list(documented(text))
    paths = {path for _, path, _ in rows}
    out, last = [], None
    for title, path, meaning in rows:
        if title != last:
            out += ["", f"### {title}", "", "| key | default | meaning |", "|---|---|---|"]
            last = title
        is_section = any(other[: len(path)] == path and other != path for other in paths)
        shown = "" if is_section else f"`{json.dumps(default(values, path), ensure_ascii=False)}`"
        out.append(f"| `{'.'.join(path)}` | {shown} | {meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(out[1:]) + "\n"


def main():
    readme = CHART / "README.md"
    before, rest = readme.read_text().split(BEGIN)
    _, after = rest.split(END)
    wanted = f"{before}{BEGIN}\n{tables((CHART / 'values.yaml').read_text())}\n{END}{after}"
    if "--check" in sys.argv[1:]:
        if wanted != readme.read_text():
            sys.exit("helm/ebb/README.md is not what values.yaml says; run `make helm-readme`")
    else:
        readme.write_text(wanted)


if __name__ == "__main__":
    main()
