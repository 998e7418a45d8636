#!/usr/bin/env python3
"""Records the responses of kube-apiserver 1.36.4 to the objects in corpus.py: defaults, errors and table rows.

    record.py SERVER TOKEN

Rewrites defaults/, refusals/, statuses/ and tables/ beside this file. Creates are dry runs, except where a
status has to be written first; those objects live in a namespace of their own, which is deleted at the end.
Identifiers, versions, times and managers are left out of what is kept.
"""
import json, os, ssl, sys, urllib.request, urllib.error

HERE = os.path.dirname(os.path.abspath(__file__))
NS = "recorded"
CTX = ssl.create_default_context(); CTX.check_hostname = False; CTX.verify_mode = ssl.CERT_NONE

def call(method, path, body=None, accept="application/json", ctype="application/json"):
    # Without spaces: the server compares the raw bytes of a ControllerRevision, and encodes without spaces.
    data = json.dumps(body, separators=(",", ":")).encode() if body is not None else None
    req = urllib.request.Request(sys.argv[1] + path, data=data, method=method, headers={
        "Authorization": "Bearer " + sys.argv[2], "Accept": accept, "Content-Type": ctype})
    try:
        with urllib.request.urlopen(req, context=CTX) as r: return r.status, json.load(r)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)

def path_of(resource):
    gv, plural, scoped = resource
    root = "/api/" if "/" not in gv else "/apis/"
    return root + gv + ("/namespaces/" + NS if scoped else "") + "/" + plural

def clean(o):
    m = o.get("metadata", {})
    for k in ("uid", "resourceVersion", "creationTimestamp", "managedFields"): m.pop(k, None)
    return o

def write(folder, name, rows):
    os.makedirs(os.path.join(HERE, folder), exist_ok=True)
    with open(os.path.join(HERE, folder, name + ".json"), "w") as f:
        f.write("[\n" + ",\n".join(" " + json.dumps(r) for r in rows) + "\n]\n")
    print(folder, name, len(rows))

from corpus import RESOURCES, DEFAULTS, REFUSED, CHANGED, STATUS, PRINTED

def main():
    call("POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
    for name, bodies in DEFAULTS.items():
        rows = []
        for kind, body in bodies:
            gv, plural, scoped = RESOURCES[kind]
            code, got = call("POST", path_of(RESOURCES[kind]) + "?dryRun=All", dict(body, apiVersion=gv, kind=kind))
            if code != 201: print("NOT CREATED", kind, got.get("message")); continue
            rows.append({"kind": kind, "apiVersion": gv, "sent": body, "stored": clean(got)})
        write("defaults", name, rows)
    for name, bodies in REFUSED.items():
        rows = []
        for kind, body in bodies:
            gv, plural, scoped = RESOURCES[kind]
            code, got = call("POST", path_of(RESOURCES[kind]) + "?dryRun=All", dict(body, apiVersion=gv, kind=kind))
            if code != 422: print("NOT REFUSED", kind, code, json.dumps(body)[:100], got.get("message")); continue
            rows.append({"kind": kind, "apiVersion": gv, "sent": body, "message": got["message"], "causes": got["details"].get("causes", [])})
        write("refusals", name, rows)
    rows = []
    for kind, body, patch in CHANGED:
        gv, plural, scoped = RESOURCES[kind]
        url = path_of(RESOURCES[kind])
        code, old = call("POST", url, dict(body, apiVersion=gv, kind=kind))
        if code != 201: print("NOT CREATED", kind, old.get("message")); continue
        one = url + "/" + old["metadata"]["name"]
        code, got = call("PATCH", one, patch, ctype="application/merge-patch+json")
        row = {"kind": kind, "apiVersion": gv, "old": clean(old), "patch": patch}
        if code == 200: row["stored"] = clean(got)
        else: row.update(message=got["message"], causes=got.get("details", {}).get("causes", []))
        rows.append(row)
        call("DELETE", one, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    write("refusals", "updates", rows)
    rows = []
    for kind, body, patch in STATUS:
        gv, plural, scoped = RESOURCES[kind]
        url = path_of(RESOURCES[kind])
        code, old = call("POST", url, dict(body, apiVersion=gv, kind=kind))
        if code != 201: print("NOT CREATED", kind, old.get("message")); continue
        one = url + "/" + old["metadata"]["name"]
        code, got = call("PATCH", one + "/status", patch, ctype="application/merge-patch+json")
        if code != 200: print("STATUS", kind, got.get("message"))
        else: rows.append({"kind": kind, "apiVersion": gv, "old": clean(old), "patch": patch, "stored": clean(got)})
        call("DELETE", one, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    write("statuses", "all", rows)
    for name, bodies in PRINTED.items():
        rows = []
        for kind, body in bodies:
            gv, plural, scoped = RESOURCES[kind]
            url = path_of(RESOURCES[kind])
            code, got = call("POST", url, dict(body, apiVersion=gv, kind=kind))
            if code != 201: print("NOT CREATED", kind, got.get("message")); continue
            one = url + "/" + got["metadata"]["name"]
            if "status" in body:
                code, s = call("PATCH", one + "/status", {"status": body["status"]}, ctype="application/merge-patch+json")
                if code != 200: print("STATUS", kind, s.get("message"))
            _, obj = call("GET", one)
            _, table = call("GET", one, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
            obj["metadata"].pop("managedFields", None)
            rows.append({"resource": gv + "/" + plural if "/" in gv else "/" + gv + "/" + plural, "object": obj, "cells": table["rows"][0]["cells"]})
            call("DELETE", one, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        write("tables", name, rows)
    for ns in (NS, "recorded-s", "recorded-w", "recorded-y", "recorded-z"):
        call("DELETE", "/api/v1/namespaces/" + ns)
        left = call("GET", "/api/v1/namespaces/" + ns)[1]
        if "spec" in left:
            left["spec"] = {"finalizers": []}
            left["metadata"].pop("resourceVersion")
            call("PUT", "/api/v1/namespaces/" + ns + "/finalize", left)


if __name__ == "__main__": main()
