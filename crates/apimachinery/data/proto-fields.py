#!/usr/bin/env python3
"""Makes proto-fields.tsv from the .proto files of Kubernetes.

    proto-fields.py VERSIONS DIR... > proto-fields.tsv

The directories are those of the Go modules k8s.io/api, k8s.io/apimachinery, k8s.io/apiextensions-apiserver and
k8s.io/kube-aggregator, of one or several versions of Kubernetes. Fields are added and removed between versions, and
a number keeps its meaning: one that has two is an error.
"""
import pathlib
import re
import sys

SCALARS = {"string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double", "float", "sint32", "sint64"}


def messages(text):
    """Returns the package of a file and its messages, each with its fields."""
    text = re.sub(r"//[^\n]*", "", text)
    package = re.search(r"^package\s+([\w.]+);", text, re.M).group(1)
    found = []
    for name, body in re.findall(r"^message\s+(\w+)\s*\{(.*?)^\}", text, re.M | re.S):
        fields = []
        for label, kind, field, number in re.findall(
            r"(optional|repeated)?\s*(map<\s*\w+\s*,\s*[\w.]+\s*>|\.?[\w.]+)\s+(\w+)\s*=\s*(\d+)\s*(?:\[[^\]]*\])?;", body
        ):
            fields.append((int(number), label, kind, field))
        found.append((name, sorted(fields)))
    return package, found


def qualified(kind, package):
    """Returns a type with its package."""
    entry = re.fullmatch(r"map<\s*(\w+)\s*,\s*([\w.]+)\s*>", kind)
    if entry:
        return f"{entry.group(1)},{qualified(entry.group(2), package)}"
    kind = kind.lstrip(".")
    return kind if kind in SCALARS or "." in kind else f"{package}.{kind}"


def main():
    versions, *folders = sys.argv[1:]
    rows = set()
    for folder in folders:
        for file in pathlib.Path(folder).rglob("generated.proto"):
            if "testapigroup" in file.parts or "testing" in file.parts or "example" in file.parts:
                continue
            package, found = messages(file.read_text())
            for name, fields in found:
                rows.add((package, name, 0, "", "", ""))
                for number, label, kind, field in fields:
                    label = "map" if kind.startswith("map<") else label
                    rows.add((package, name, number, label, qualified(kind, package), field))
    numbers = [row[:3] for row in rows]
    ambiguous = {it for it in numbers if numbers.count(it) > 1} if len(set(numbers)) < len(numbers) else set()
    if ambiguous:
        sys.exit(f"these numbers have two meanings: {sorted(ambiguous)}")
    print(
        f"# Kubernetes {versions} protobuf schema as facts: package, message, field number, label, type, JSON name."
        " A row without a number names a message."
    )
    for package, name, number, label, kind, field in sorted(rows):
        print(package, name, number or "", label, kind, field, sep="\t")


main()
