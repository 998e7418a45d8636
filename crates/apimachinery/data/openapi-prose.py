#!/usr/bin/env python3
"""Makes openapi-prose.tsv: what the API says, in words, about its definitions and their fields.

Reads the OpenAPI v2 document of a kube-apiserver (`kubectl get --raw /openapi/v2`) from standard input and writes the
table to standard output. A line that begins a definition is its name, a tab and its words; the lines of its fields come
after it, each a tab, the name of the field, a tab and its words. Line ends, tabs and backslashes inside the words are
written as \\n, \\t and \\\\. What is said nothing about is left out. Custom kinds are left out by their names.
"""

import json
import sys


def words(schema):
    text = schema.get("description", "")
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


for name, schema in sorted(json.load(sys.stdin)["definitions"].items()):
    if not name.startswith("io.k8s."):
        continue
    print(f"{name}\t{words(schema)}")
    for field, inner in sorted(schema.get("properties", {}).items()):
        if words(inner):
            print(f"\t{field}\t{words(inner)}")
