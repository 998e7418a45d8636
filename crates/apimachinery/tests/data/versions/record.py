#!/usr/bin/env python3
"""Sends the objects of autoscaling.json to kube-apiserver 1.36.4 again, and records them in both versions.

    record.py SERVER TOKEN

A row is a write (`sent`, to the object or to its status) and the object as versions 1 and 2 show it afterwards. To add a
row, write its `sent`. Objects live in a namespace of their own, which is deleted at the end.
"""
import json, os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from record import call, clean

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "autoscaling.json")
NS = "recorded-versions"

def path(version, name=""):
    return f"/apis/autoscaling/{version}/namespaces/{NS}/horizontalpodautoscalers" + (f"/{name}" if name else "")

def shown(version, name):
    got = clean(call("GET", path(version, name))[1])
    for key in ("namespace", "generation"): got["metadata"].pop(key, None)
    return got

call("POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
rows = []
for row in json.load(open(FILE)):
    sent, status = row["sent"], row["status"]
    version, name = sent["apiVersion"].split("/")[1], sent["metadata"]["name"]
    code, got = call("PUT", path(version, name) + "/status", sent) if status else call("POST", path(version), sent)
    if code not in (200, 201): print("NOT WRITTEN", name, got.get("message")); continue
    rows.append({"sent": sent, "status": status, "v1": shown("v1", name), "v2": shown("v2", name)})
call("DELETE", "/api/v1/namespaces/" + NS)
with open(FILE, "w") as f:
    f.write("[\n" + ",\n".join(" " + json.dumps(row) for row in rows) + "\n]\n")
print(len(rows), "rows")
