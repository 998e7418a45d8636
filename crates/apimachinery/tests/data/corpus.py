"""The objects that record.py sends: minimal, full and invalid ones, updates, and objects with a status for tables."""

RESOURCES = {
    "ConfigMap": ("v1", "configmaps", True), "Secret": ("v1", "secrets", True), "Namespace": ("v1", "namespaces", False),
    "Pod": ("v1", "pods", True), "Service": ("v1", "services", True), "Endpoints": ("v1", "endpoints", True),
    "Node": ("v1", "nodes", False), "PersistentVolume": ("v1", "persistentvolumes", False),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims", True), "ServiceAccount": ("v1", "serviceaccounts", True),
    "ReplicationController": ("v1", "replicationcontrollers", True), "PodTemplate": ("v1", "podtemplates", True),
    "LimitRange": ("v1", "limitranges", True), "ResourceQuota": ("v1", "resourcequotas", True), "Event": ("v1", "events", True),
    "Deployment": ("apps/v1", "deployments", True), "ReplicaSet": ("apps/v1", "replicasets", True),
    "StatefulSet": ("apps/v1", "statefulsets", True), "DaemonSet": ("apps/v1", "daemonsets", True),
    "ControllerRevision": ("apps/v1", "controllerrevisions", True),
    "Job": ("batch/v1", "jobs", True), "CronJob": ("batch/v1", "cronjobs", True),
    "Ingress": ("networking.k8s.io/v1", "ingresses", True), "IngressClass": ("networking.k8s.io/v1", "ingressclasses", False),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies", True),
    "EndpointSlice": ("discovery.k8s.io/v1", "endpointslices", True), "Lease": ("coordination.k8s.io/v1", "leases", True),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets", True),
    "HorizontalPodAutoscaler": ("autoscaling/v2", "horizontalpodautoscalers", True),
    "Role": ("rbac.authorization.k8s.io/v1", "roles", True), "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "StorageClass": ("storage.k8s.io/v1", "storageclasses", False), "CSIDriver": ("storage.k8s.io/v1", "csidrivers", False),
    "CSINode": ("storage.k8s.io/v1", "csinodes", False), "VolumeAttachment": ("storage.k8s.io/v1", "volumeattachments", False),
    "PriorityClass": ("scheduling.k8s.io/v1", "priorityclasses", False), "RuntimeClass": ("node.k8s.io/v1", "runtimeclasses", False),
    "FlowSchema": ("flowcontrol.apiserver.k8s.io/v1", "flowschemas", False),
    "PriorityLevelConfiguration": ("flowcontrol.apiserver.k8s.io/v1", "prioritylevelconfigurations", False),
    "ResourceClaim": ("resource.k8s.io/v1", "resourceclaims", True), "ServiceCIDR": ("networking.k8s.io/v1", "servicecidrs", False), "IPAddress": ("networking.k8s.io/v1", "ipaddresses", False),
    "ValidatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", False),
}
RBAC = "rbac.authorization.k8s.io"

def m(name="x", **more): return dict({"name": name}, **more)
C = {"name": "c", "image": "img:1"}
def pod(spec=None, meta=None, containers=None, **more):
    return dict({"metadata": meta or m(), "spec": dict({"containers": containers or [C]}, **(spec or {}))}, **more)
def template(spec=None, labels=None, containers=None):
    return {"metadata": {"labels": labels if labels is not None else {"app": "x"}}, "spec": dict({"containers": containers or [C]}, **(spec or {}))}
SEL = {"matchLabels": {"app": "x"}}
def workload(template_=None, **spec): return {"metadata": m(), "spec": dict({"selector": SEL, "template": template_ or template()}, **spec)}
def service(**spec): return {"metadata": m(), "spec": dict({"ports": [{"port": 80}]}, **spec)}

RICH = [
    {"name": "a", "image": "img", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}],
     "env": [{"name": "A", "value": "b"}, {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
             {"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}, {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
     "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
     "livenessProbe": {"httpGet": {"port": 80}}, "readinessProbe": {"tcpSocket": {"port": "dns"}, "periodSeconds": 5},
     "startupProbe": {"exec": {"command": ["true"]}}, "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/x"}}},
     "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    {"name": "b", "image": "reg.io:5000/img@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "livenessProbe": {"grpc": {"port": 5}}},
    {"name": "d", "image": "reg.io:5000/img", "imagePullPolicy": "Never"}, {"name": "e", "image": "reg.io/img:latest"}]
RICH_SPEC = {"serviceAccountName": "sa", "initContainers": [{"name": "i", "image": "img:2", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
    "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}, {"name": "cm", "configMap": {"name": "c"}},
        {"name": "d", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "h", "hostPath": {"path": "/h"}}, {"name": "pv", "persistentVolumeClaim": {"claimName": "q"}},
        {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"configMap": {"name": "c"}}, {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
        {"name": "is", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:storage", "lun": 0}},
        {"name": "rbd", "rbd": {"monitors": ["a"], "image": "i"}}, {"name": "az", "azureDisk": {"diskName": "d", "diskURI": "https://blob/u"}},
        {"name": "sc", "scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "s"}, "volumeName": "v"}}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SEL}],
    "tolerations": [{"key": "k", "operator": "Exists"}]}

DEFAULTS = {
    "core": [
        ("ConfigMap", {"metadata": m()}), ("ConfigMap", {"metadata": m(labels={}), "data": {}, "binaryData": {"k": "aGk="}}),
        ("Secret", {"metadata": m()}), ("Secret", {"metadata": m(), "data": {"a": "aGk=", "b": "eA=="}, "stringData": {"b": "yy", "c": ""}}),
        ("Secret", {"metadata": m(), "type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}),
        ("Namespace", {"metadata": m()}), ("Namespace", {"metadata": m(labels={"a": "b"}), "spec": {"finalizers": ["x.io/y"]}, "status": {"phase": "Terminating"}}),
        ("Endpoints", {"metadata": m()}), ("Endpoints", {"metadata": m(), "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "t", "port": 80}, {"name": "u", "port": 81, "protocol": "UDP"}]}]}),
        ("Node", {"metadata": m()}), ("Node", {"metadata": m(), "spec": {"podCIDR": "10.2.0.0/24", "taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "4", "pods": "110"}}}),
        ("PersistentVolume", {"metadata": m(), "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}),
        ("PersistentVolume", {"metadata": m(), "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:storage", "lun": 0}}}),
        ("PersistentVolumeClaim", {"metadata": m(), "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ("ServiceAccount", {"metadata": m()}), ("ServiceAccount", {"metadata": m(), "imagePullSecrets": [{"name": "s"}]}),
        ("ReplicationController", {"metadata": m(), "spec": {"template": template()}}), ("PodTemplate", {"metadata": m(), "template": template()}),
        ("LimitRange", {"metadata": m(), "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Mi"}}]}}),
        ("ResourceQuota", {"metadata": m(), "spec": {"hard": {"pods": "3"}}}),
        ("Event", {"metadata": m(namespace="recorded"), "involvedObject": {"kind": "Pod", "name": "p", "namespace": "recorded"}}),
    ],
    "pod": [
        ("Pod", pod()), ("Pod", pod(RICH_SPEC, containers=RICH)), ("Pod", pod({"hostNetwork": True}, containers=[dict(C, ports=[{"containerPort": 80}])])),
        ("Pod", pod({"serviceAccountName": "sa"})), ("Pod", pod({"serviceAccount": "sa"})), ("Pod", pod({"restartPolicy": "Never", "nodeName": "n"}, status={"phase": "Running"})),
        ("Pod", pod({"securityContext": {"runAsUser": 1}, "terminationGracePeriodSeconds": 0, "priorityClassName": "system-node-critical"})),
        ("Pod", pod(containers=[dict(C, resources={"limits": {"cpu": "1", "memory": "1Gi"}})])),
        ("Pod", pod(containers=[dict(C, resources={"requests": {"cpu": "100m"}})])),
        ("Pod", pod(containers=[dict(C, resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "512Mi"}})])),
        ("Pod", pod({"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}], "schedulingGates": [{"name": "g"}]})),
    ],
    "workloads": [
        ("Deployment", workload()), ("Deployment", workload(strategy={"type": "Recreate"}, replicas=0, paused=True, minReadySeconds=3)), ("Deployment", workload(strategy={"rollingUpdate": {"maxSurge": 2}})),
        ("Deployment", workload(template(RICH_SPEC, containers=RICH))), ("Deployment", dict(workload(), status={"replicas": 5})),
        ("ReplicaSet", workload()), ("StatefulSet", workload()), ("StatefulSet", workload(serviceName="s", updateStrategy={"type": "OnDelete"}, volumeClaimTemplates=[{"metadata": m("v"), "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}])),
        ("StatefulSet", workload(updateStrategy={"type": "RollingUpdate"})), ("DaemonSet", workload()), ("DaemonSet", workload(updateStrategy={"type": "OnDelete"})),
        ("ControllerRevision", {"metadata": m(), "revision": 1, "data": {"a": 1}}),
        ("CronJob", {"metadata": m(), "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}),
        ("CronJob", {"metadata": m(), "spec": {"schedule": "@daily", "suspend": True, "concurrencyPolicy": "Forbid", "timeZone": "Etc/UTC", "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": template({"restartPolicy": "OnFailure"})}}}}),
    ],
    "jobs": [
        ("Job", {"metadata": m(), "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [C]}}}}),
        ("Job", {"metadata": m(), "spec": {"completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1, "template": template({"restartPolicy": "Never"})}}),
        ("Job", {"metadata": m(), "spec": {"manualSelector": True, "selector": SEL, "template": template({"restartPolicy": "Never"})}}),
        ("Job", {"metadata": m(labels={"q": "r"}), "spec": {"parallelism": 2, "template": template({"restartPolicy": "Never"})}}),
    ],
    "services": [
        ("Service", service()), ("Service", service(type="NodePort")), ("Service", service(type="LoadBalancer")), ("Service", {"metadata": m(), "spec": {"type": "ExternalName", "externalName": "a.b"}}),
        ("Service", service(clusterIP="None")), ("Service", service(sessionAffinity="ClientIP", selector={"a": "b"}, ports=[{"port": 1, "name": "a"}, {"port": 2, "name": "b", "protocol": "UDP", "targetPort": "x"}])),
        ("Service", {"metadata": m(), "spec": {"clusterIP": "None", "selector": {"a": "b"}}}),
    ],
    "others": [
        ("Ingress", {"metadata": m(), "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}), ("IngressClass", {"metadata": m(), "spec": {"controller": "x.io/y"}}),
        ("NetworkPolicy", {"metadata": m(), "spec": {"podSelector": {}}}), ("NetworkPolicy", {"metadata": m(), "spec": {"podSelector": {}, "egress": [{"ports": [{"port": 5}]}], "ingress": [{"ports": [{"port": 6, "protocol": "UDP"}]}]}}),
        ("EndpointSlice", {"metadata": m(), "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}), ("EndpointSlice", {"metadata": m(), "addressType": "IPv4", "endpoints": []}),
        ("Lease", {"metadata": m()}), ("Lease", {"metadata": m(), "spec": {"holderIdentity": "h"}}), ("PodDisruptionBudget", {"metadata": m(), "spec": {"minAvailable": 1, "selector": SEL}}),
        ("HorizontalPodAutoscaler", {"metadata": m(), "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3}}),
        ("HorizontalPodAutoscaler", {"metadata": m(), "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}}}),
        ("Role", {"metadata": m()}), ("Role", {"metadata": m(), "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}), ("ClusterRole", {"metadata": m("recorded-x"), "rules": []}),
        ("RoleBinding", {"metadata": m(), "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "u"}, {"kind": "ServiceAccount", "name": "u", "namespace": "n"}]}),
        ("ClusterRoleBinding", {"metadata": m("recorded-x"), "roleRef": {"kind": "ClusterRole", "name": "r", "apiGroup": RBAC}}),
        ("StorageClass", {"metadata": m("recorded-x"), "provisioner": "p"}), ("CSIDriver", {"metadata": m("recorded-x"), "spec": {}}), ("CSINode", {"metadata": m("recorded-x"), "spec": {"drivers": []}}),
        ("VolumeAttachment", {"metadata": m("recorded-x"), "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}}),
        ("PriorityClass", {"metadata": m("recorded-x"), "value": 5}), ("RuntimeClass", {"metadata": m("recorded-x"), "handler": "h"}),
    ],
}

EMPTY_C = {"name": "c", "image": "img:1", "command": [], "args": [], "env": [{"name": "A", "value": ""}], "ports": [], "stdin": False, "tty": False, "workingDir": "", "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": False, "subPath": ""}],
           "resources": {"limits": {}, "requests": {"cpu": 0.5, "memory": "1024Mi", "ephemeral-storage": "1.5Gi"}}, "securityContext": {}, "livenessProbe": {"exec": {"command": ["x"]}, "initialDelaySeconds": 0, "periodSeconds": 0}, "lifecycle": {}}
EMPTY_SPEC = {"hostNetwork": False, "hostPID": False, "nodeName": "", "nodeSelector": {}, "tolerations": [], "imagePullSecrets": [], "initContainers": [], "hostAliases": [], "volumes": [{"name": "v", "emptyDir": {"medium": "", "sizeLimit": "0.5Gi"}}, {"name": "w", "persistentVolumeClaim": {"claimName": "q", "readOnly": False}}, {"name": "s", "secret": {"secretName": "s", "items": [], "optional": False}}, {"name": "h", "hostPath": {"path": "/x", "type": "Directory"}}],
              "affinity": {}, "shareProcessNamespace": False, "automountServiceAccountToken": False, "dnsConfig": {"nameservers": []}, "securityContext": {"runAsNonRoot": False, "supplementalGroups": []}, "priority": None, "readinessGates": [], "topologySpreadConstraints": []}
DEFAULTS["empty"] = [
    ("Pod", pod(EMPTY_SPEC, meta=m(labels={}, annotations={}, finalizers=[], ownerReferences=[], generateName=""), containers=[EMPTY_C])),
    ("Deployment", workload(template(EMPTY_SPEC, containers=[EMPTY_C]), minReadySeconds=0, paused=False, strategy={})),
    ("ReplicaSet", workload(minReadySeconds=0)), ("StatefulSet", workload(minReadySeconds=0, volumeClaimTemplates=[], updateStrategy={"rollingUpdate": {"partition": 0}})), ("DaemonSet", workload(minReadySeconds=0, updateStrategy={})),
    ("Service", service(selector={}, externalIPs=[], publishNotReadyAddresses=False, loadBalancerIP="", externalName="", ports=[{"port": 80, "name": "", "nodePort": 0, "targetPort": 0}])),
    ("ConfigMap", {"metadata": m(), "data": {"a": ""}, "binaryData": {}, "immutable": False}), ("Secret", {"metadata": m(), "type": "", "data": {}, "immutable": False}),
    ("ServiceAccount", {"metadata": m(), "secrets": [], "imagePullSecrets": [], "automountServiceAccountToken": False}), ("Node", {"metadata": m(), "spec": {"unschedulable": False, "taints": []}}),
    ("PersistentVolumeClaim", {"metadata": m("pvc-e"), "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "", "resources": {"requests": {"storage": "1024Mi"}}}}),
    ("PersistentVolume", {"metadata": m(), "spec": {"capacity": {"storage": "0.5Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "", "mountOptions": [], "nfs": {"server": "s", "path": "/p", "readOnly": False}}}),
    ("Ingress", {"metadata": m(), "spec": {"tls": [], "rules": [{"host": "", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80, "name": ""}}}}]}}]}}),
    ("NetworkPolicy", {"metadata": m(), "spec": {"podSelector": {"matchLabels": {}}, "ingress": [], "egress": []}}), ("NetworkPolicy", {"metadata": m(), "spec": {"podSelector": {}, "ingress": [{}]}}),
    ("Role", {"metadata": m(), "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": []}]}), ("RoleBinding", {"metadata": m(), "roleRef": {"kind": "Role", "name": "r"}, "subjects": []}),
    ("PodDisruptionBudget", {"metadata": m(), "spec": {"selector": {}}}), ("PriorityClass", {"metadata": m("recorded-x"), "value": 0, "globalDefault": False, "description": ""}), ("StorageClass", {"metadata": m("recorded-x"), "provisioner": "p", "parameters": {}, "mountOptions": []}),
    ("CronJob", {"metadata": m(), "spec": {"schedule": "* * * * *", "concurrencyPolicy": "", "jobTemplate": {"metadata": {"labels": {}}, "spec": {"template": template({"restartPolicy": "Never"})}}}}),
    ("ResourceQuota", {"metadata": m(), "spec": {"hard": {"cpu": "0.5", "memory": "2048Ki"}}}), ("EndpointSlice", {"metadata": m(), "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}, "hostname": "h"}], "ports": []}),
    ("Event", {"metadata": m(), "involvedObject": {"kind": "Pod", "namespace": "recorded"}, "count": 0, "message": "", "source": {"component": ""}, "firstTimestamp": None, "series": None}),
]

LONG = "a" * 254
def limited(*amounts): return pod(containers=[dict(C, name="c%d" % i, resources={"limits": {"memory": it}}) for i, it in enumerate(amounts)])
DEFAULTS["amounts"] = [
    ("Pod", limited("9223372036854775808", "99999999999999999999999", "12345678901234567890.5", "1e30", "8Ei", "16Ei")),
    ("Pod", limited("1u", "0.5m", "1n", "1.0000001Ki", "1500u", "1e-10", " 1Gi ")),
    ("PersistentVolumeClaim", {"metadata": m(), "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1.0001"}}}}),
    ("PriorityLevelConfiguration", {"metadata": m(), "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}}),
    ("PriorityLevelConfiguration", {"metadata": m(), "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "limitResponse": {"type": "Reject"}}}}),
] + [
    ("PersistentVolumeClaim", {"metadata": m(), "spec": dict({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}, **{key: source})})
    for key in ("dataSource", "dataSourceRef") for source in ({"kind": "PersistentVolumeClaim", "name": "q"}, {"apiGroup": "x.y", "kind": "Z", "name": "q"}, {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "q"})
] + [
    ("ResourceClaim", {"metadata": m(), "spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "x"}}, {"name": "b", "exactly": {"deviceClassName": "x", "allocationMode": "All"}}, {"name": "c", "firstAvailable": [{"name": "d", "deviceClassName": "x"}]}]}}}),
]

REFUSED = {
    "metadata": [
        ("ConfigMap", {"metadata": {}}), ("ConfigMap", {"metadata": m("Bad_Name")}), ("ConfigMap", {"metadata": m(LONG)}), ("Service", {"metadata": m("1a"), "spec": {"ports": [{"port": 80}]}}),
        ("Namespace", {"metadata": m("a.b")}), ("Namespace", {"metadata": m("a" * 64)}), ("Role", {"metadata": m("a/b")}), ("Role", {"metadata": m("..")}), ("Role", {"metadata": m("a%b")}),
        ("ConfigMap", {"metadata": {"generateName": "Bad_"}}), ("ConfigMap", {"metadata": m(labels={"bad key!": "v"})}), ("ConfigMap", {"metadata": m(labels={"a/b/c": "v"})}),
        ("ConfigMap", {"metadata": m(labels={"/b": "v"})}), ("ConfigMap", {"metadata": m(labels={"A_/b": "v"})}), ("ConfigMap", {"metadata": m(labels={"": "v"})}), ("ConfigMap", {"metadata": m(labels={"a/": "v"})}),
        ("ConfigMap", {"metadata": m(labels={"k" * 64: "v"})}), ("ConfigMap", {"metadata": m(labels={"k": "v" * 64})}), ("ConfigMap", {"metadata": m(labels={"k": "bad value!"})}),
        ("ConfigMap", {"metadata": m(annotations={"bad key!": "v"})}), ("ConfigMap", {"metadata": m(finalizers=["nodomain"])}), ("ConfigMap", {"metadata": m(finalizers=["a/b/c"])}),
        ("ConfigMap", {"metadata": m(finalizers=["orphan", "foregroundDeletion"])}),
        ("ConfigMap", {"metadata": m(ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}])}), ("ConfigMap", {"metadata": m(ownerReferences=[{"uid": "u"}])}),
        ("ConfigMap", {"metadata": m(ownerReferences=[{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "u"}])}),
        ("ConfigMap", {"metadata": m(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "controller": True}, {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "w", "controller": True}])}),
        ("ConfigMap", {"metadata": m(ownerReferences=[{"apiVersion": "a/b/c", "kind": "Pod", "name": "a", "uid": "u"}])}),
    ],
    "pod": [
        ("Pod", {"metadata": m(), "spec": {"containers": []}}), ("Pod", pod(containers=[{"image": "i"}])), ("Pod", pod(containers=[{"name": "c"}])), ("Pod", pod(containers=[{"name": "C_", "image": "i"}])), ("Pod", pod(containers=[C, C])), ("Pod", pod(containers=[{"name": "c", "image": " i "}])),
        ("Pod", pod({"restartPolicy": "Sometimes"})), ("Pod", pod({"dnsPolicy": "X"})), ("Pod", pod(containers=[dict(C, imagePullPolicy="X")])), ("Pod", pod({"terminationGracePeriodSeconds": -1})), ("Pod", pod({"activeDeadlineSeconds": 0})),
        ("Pod", pod(containers=[dict(C, ports=[{"containerPort": 0}])])), ("Pod", pod(containers=[dict(C, ports=[{"containerPort": 70000}])])), ("Pod", pod(containers=[dict(C, ports=[{"containerPort": 80, "protocol": "X"}])])),
        ("Pod", pod(containers=[dict(C, ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}])])), ("Pod", pod(containers=[dict(C, ports=[{"containerPort": 80, "name": "BAD_"}])])), ("Pod", pod(containers=[dict(C, ports=[{"containerPort": 80, "hostPort": 99999}])])),
        ("Pod", pod(containers=[dict(C, ports=[{"containerPort": 80, "name": "abcdefghijklmnopq"}])])),
        ("Pod", pod({"hostNetwork": True}, containers=[dict(C, ports=[{"containerPort": 80, "hostPort": 81}])])),
        ("Pod", pod(containers=[dict(C, env=[{"name": ""}])])), ("Pod", pod(containers=[dict(C, env=[{"name": "a=b"}])])), ("Pod", pod(containers=[dict(C, env=[{"name": "a", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])])), ("Pod", pod(containers=[dict(C, env=[{"name": "a", "valueFrom": {}}])])),
        ("Pod", pod(containers=[dict(C, env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.foo"}}}])])), ("Pod", pod(containers=[dict(C, env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}])])),
        ("Pod", pod(containers=[dict(C, env=[{"name": "a", "valueFrom": {"configMapKeyRef": {"key": "k"}}}])])), ("Pod", pod(containers=[dict(C, env=[{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s"}}}])])),
        ("Pod", pod(containers=[dict(C, envFrom=[{"configMapRef": {}}])])), ("Pod", pod(containers=[dict(C, envFrom=[{}])])),
        ("Pod", pod(containers=[dict(C, volumeMounts=[{"name": "v", "mountPath": "/v"}])])), ("Pod", pod({"volumes": [{"name": "v"}]}, containers=[dict(C, volumeMounts=[{"name": "v"}])])), ("Pod", pod({"volumes": [{"name": "v"}]}, containers=[dict(C, volumeMounts=[{"mountPath": "/v"}])])),
        ("Pod", pod({"volumes": [{"name": "v"}]}, containers=[dict(C, volumeMounts=[{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}])])), ("Pod", pod({"volumes": [{"name": "v"}]}, containers=[dict(C, volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "/a"}])])),
        ("Pod", pod({"volumes": [{"name": "v"}]}, containers=[dict(C, volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "../a"}])])),
        ("Pod", pod({"volumes": [{"name": "v"}, {"name": "v"}]})), ("Pod", pod({"volumes": [{"name": "V_"}]})), ("Pod", pod({"volumes": [{"emptyDir": {}}]})), ("Pod", pod({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]})),
        ("Pod", pod({"volumes": [{"name": "v", "hostPath": {"path": ""}}]})), ("Pod", pod({"volumes": [{"name": "v", "secret": {}}]})), ("Pod", pod({"volumes": [{"name": "v", "configMap": {}}]})), ("Pod", pod({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]})),
        ("Pod", pod({"volumes": [{"name": "v", "hostPath": {"path": "/x", "type": "Foo"}}]})), ("Pod", pod({"volumes": [{"name": "v", "secret": {"secretName": "s", "items": [{"key": "", "path": ""}]}}]})), ("Pod", pod({"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 1000}}]})),
        ("Pod", pod({"initContainers": [C]})), ("Pod", pod({"initContainers": [{"name": "i", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}}]})),
        ("Pod", pod(containers=[dict(C, livenessProbe={})])), ("Pod", pod(containers=[dict(C, livenessProbe={"exec": {"command": ["x"]}, "httpGet": {"port": 80}})])), ("Pod", pod(containers=[dict(C, livenessProbe={"exec": {}})])), ("Pod", pod(containers=[dict(C, livenessProbe={"httpGet": {"port": 0}})])), ("Pod", pod(containers=[dict(C, livenessProbe={"tcpSocket": {"port": "BAD_"}})])),
        ("Pod", pod(containers=[dict(C, livenessProbe={"exec": {"command": ["x"]}, "successThreshold": 2})])), ("Pod", pod(containers=[dict(C, livenessProbe={"exec": {"command": ["x"]}, "periodSeconds": -1})])),
        ("Pod", pod(containers=[dict(C, lifecycle={"preStop": {}})])),
        ("Pod", pod(containers=[dict(C, resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})])), ("Pod", pod(containers=[dict(C, resources={"requests": {"cpu": "-1"}})])), ("Pod", pod(containers=[dict(C, resources={"requests": {"foo": "1"}})])), ("Pod", pod(containers=[dict(C, resources={"requests": {"x.io/foo": "1"}})])), ("Pod", pod(containers=[dict(C, resources={"limits": {"x.io/foo": "1500m"}})])),
        ("Pod", pod({"nodeName": "Bad_"})), ("Pod", pod({"serviceAccountName": "Bad_"})), ("Pod", pod({"hostname": "Bad_"})), ("Pod", pod({"subdomain": "Bad_"})), ("Pod", pod({"nodeSelector": {"bad key!": "v"}})), ("Pod", pod({"nodeSelector": {"k": "bad v!"}})), ("Pod", pod({"imagePullSecrets": [{}]})) ,
        ("Pod", pod({"tolerations": [{"key": "k", "operator": "X"}]})), ("Pod", pod({"tolerations": [{"operator": "Equal"}]})), ("Pod", pod({"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]})), ("Pod", pod({"tolerations": [{"key": "k", "effect": "X"}]})), ("Pod", pod({"tolerations": [{"key": "k", "effect": "NoSchedule", "tolerationSeconds": 3}]})),
        ("Pod", pod({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}]})), ("Pod", pod({"readinessGates": [{"conditionType": "bad!"}]})), ("Pod", pod({"priorityClassName": "Bad_"})) , ("Pod", pod({"schedulerName": "Bad_"})),
        ("Pod", pod({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}})),
        ("Pod", pod(containers=[dict(C, terminationMessagePolicy="X")])),
        ("Pod", pod({"ephemeralContainers": [{"name": "e", "image": "i"}]})), ("Pod", pod(meta=m("Bad_"), containers=[{"name": "c"}])),
    ],
    "workloads": [
        ("Deployment", {"metadata": m(), "spec": {}}), ("Deployment", {"metadata": m(), "spec": {"selector": {}, "template": template()}}), ("Deployment", workload(template(labels={"app": "y"}))), ("Deployment", workload(replicas=-1)), ("Deployment", workload(template({"restartPolicy": "Never"}))),
        ("Deployment", workload(strategy={"type": "X"})), ("Deployment", workload(strategy={"type": "Recreate", "rollingUpdate": {}})), ("Deployment", workload(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})), ("Deployment", workload(strategy={"rollingUpdate": {"maxSurge": "x"}})), ("Deployment", workload(strategy={"rollingUpdate": {"maxUnavailable": "101%"}})), ("Deployment", workload(strategy={"rollingUpdate": {"maxUnavailable": -1}})),
        ("Deployment", workload(minReadySeconds=-1)), ("Deployment", workload(minReadySeconds=600)), ("Deployment", workload(revisionHistoryLimit=-1)), ("Deployment", workload(progressDeadlineSeconds=-1)), ("Deployment", workload(template({"activeDeadlineSeconds": 5}))), ("Deployment", workload(template(containers=[{"name": "c"}]))), ("Deployment", workload(template(labels={"app": "x", "bad key!": "v"}))),
        ("Deployment", workload(selector={"matchExpressions": [{"key": "a", "operator": "X"}]})), ("Deployment", workload(selector={"matchExpressions": [{"key": "a", "operator": "In"}]})), ("Deployment", workload(selector={"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["q"]}]})), ("Deployment", workload(selector={"matchLabels": {"bad key!": "v"}})), ("Deployment", workload(selector={"matchLabels": {"app": "bad value!"}})),
        ("ReplicaSet", {"metadata": m(), "spec": {}}), ("ReplicaSet", workload(template(labels={"app": "y"}))), ("ReplicaSet", workload(replicas=-1)), ("ReplicaSet", workload(minReadySeconds=-1)), ("ReplicaSet", workload(template({"restartPolicy": "OnFailure"}))), ("ReplicaSet", {"metadata": m(), "spec": {"selector": SEL}}), 
        ("StatefulSet", {"metadata": m(), "spec": {}}), ("StatefulSet", workload(template(labels={"app": "y"}))), ("StatefulSet", workload(replicas=-1)), ("StatefulSet", workload(podManagementPolicy="X")), ("StatefulSet", workload(updateStrategy={"type": "X"})), ("StatefulSet", workload(template({"restartPolicy": "Never"}))), ("StatefulSet", workload(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": -1}})), ("StatefulSet", workload(updateStrategy={"type": "OnDelete", "rollingUpdate": {}})),
        ("DaemonSet", {"metadata": m(), "spec": {}}), ("DaemonSet", workload(template(labels={"app": "y"}))), ("DaemonSet", workload(template({"restartPolicy": "Never"}))), ("DaemonSet", workload(updateStrategy={"type": "X"})), ("DaemonSet", workload(minReadySeconds=-1)), ("DaemonSet", workload(updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})), ("DaemonSet", workload(updateStrategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})),
        ("ReplicationController", {"metadata": m(), "spec": {}}), ("ReplicationController", {"metadata": m(), "spec": {"selector": {"a": "b"}, "template": template()}}), ("ReplicationController", {"metadata": m(), "spec": {"replicas": -1, "template": template()}}),
        ("Job", {"metadata": m(), "spec": {"template": template()}}), ("Job", {"metadata": m(), "spec": {"template": template({"restartPolicy": "Never"}), "parallelism": -1}}), ("Job", {"metadata": m(), "spec": {"template": template({"restartPolicy": "Never"}), "completions": -1}}), ("Job", {"metadata": m(), "spec": {"template": template({"restartPolicy": "Never"}), "backoffLimit": -1}}), ("Job", {"metadata": m(), "spec": {"template": template({"restartPolicy": "Never"}), "activeDeadlineSeconds": -1}}), ("Job", {"metadata": m(), "spec": {"template": template({"restartPolicy": "Never"}), "ttlSecondsAfterFinished": -1}}),
        ("Job", {"metadata": m(), "spec": {"template": template({"restartPolicy": "Never"}), "completionMode": "Indexed"}}), ("Job", {"metadata": m(), "spec": {"template": template({"restartPolicy": "Never"}), "completionMode": "X"}}), ("Job", {"metadata": m(), "spec": {"template": template({"restartPolicy": "Never"}), "selector": SEL}}), ("Job", {"metadata": m(), "spec": {"template": template({"restartPolicy": "Never"}), "manualSelector": True}}),
        ("Job", {"metadata": m("a" * 64), "spec": {"template": template({"restartPolicy": "Never"})}}),
        ("CronJob", {"metadata": m(), "spec": {"jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}), ("CronJob", {"metadata": m(), "spec": {"schedule": "bad", "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}), ("CronJob", {"metadata": m(), "spec": {"schedule": "* * * * * *", "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}), ("CronJob", {"metadata": m(), "spec": {"schedule": "60 * * * *", "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}),
        ("CronJob", {"metadata": m(), "spec": {"schedule": "x * * * *", "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}), ("CronJob", {"metadata": m(), "spec": {"schedule": "5-2 * * * *", "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}), ("CronJob", {"metadata": m(), "spec": {"schedule": "*/0 * * * *", "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}), ("CronJob", {"metadata": m(), "spec": {"schedule": "@foo", "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}),
        ("CronJob", {"metadata": m(), "spec": {"schedule": "* * * * *", "concurrencyPolicy": "X", "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}), ("CronJob", {"metadata": m(), "spec": {"schedule": "* * * * *", "startingDeadlineSeconds": -1, "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}), ("CronJob", {"metadata": m(), "spec": {"schedule": "* * * * *", "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -1, "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}),
        ("CronJob", {"metadata": m(), "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template()}}}}), ("CronJob", {"metadata": m("a" * 53), "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}), ("CronJob", {"metadata": m(), "spec": {"schedule": "TZ=UTC * * * * *", "timeZone": "Nope/No", "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}),
    ],
    "others": [
        ("ConfigMap", {"metadata": m(), "data": {"bad key": "v"}}), ("ConfigMap", {"metadata": m(), "data": {"a": "b"}, "binaryData": {"a": "aGk="}}), ("ConfigMap", {"metadata": m(), "data": {"": "b"}}), ("ConfigMap", {"metadata": m(), "data": {"..": "b"}}), ("ConfigMap", {"metadata": m(), "data": {"..a": "b"}}), ("ConfigMap", {"metadata": m(), "data": {"k" * 254: "b"}}),
        ("Secret", {"metadata": m(), "data": {"bad key": "eA=="}}), ("Secret", {"metadata": m(), "type": "kubernetes.io/tls"}), ("Secret", {"metadata": m(), "type": "kubernetes.io/dockerconfigjson"}), ("Secret", {"metadata": m(), "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "x"}}), ("Secret", {"metadata": m(), "type": "kubernetes.io/basic-auth"}), ("Secret", {"metadata": m(), "type": "kubernetes.io/ssh-auth"}), ("Secret", {"metadata": m(), "type": "kubernetes.io/service-account-token"}), ("Secret", {"metadata": m(), "type": "kubernetes.io/dockercfg"}),
        ("Service", {"metadata": m(), "spec": {}}), ("Service", service(ports=[{"port": 0}])), ("Service", service(ports=[{"port": 80}, {"port": 81}])), ("Service", service(ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "a"}])), ("Service", service(ports=[{"port": 80, "name": "A_"}])), ("Service", service(ports=[{"port": 80, "protocol": "X"}])), ("Service", service(ports=[{"port": 80, "name": "a"}, {"port": 80, "name": "b"}])), ("Service", service(ports=[{"port": 80, "targetPort": 99999}])), ("Service", service(ports=[{"port": 80, "targetPort": "BAD_"}])), ("Service", service(ports=[{"port": 80, "nodePort": 30000}])), ("Service", service(type="X")), ("Service", service(sessionAffinity="X")), ("Service", service(type="ExternalName")), ("Service", service(selector={"bad key!": "v"})), ("Service", service(type="LoadBalancer", clusterIP="None")), ("Service", service(clusterIP="x")), ("Service", service(externalTrafficPolicy="Local")), ("Service", service(externalIPs=["x"])),
        ("Ingress", {"metadata": m(), "spec": {}}), ("Ingress", {"metadata": m(), "spec": {"rules": [{"host": "BAD_", "http": {"paths": []}}]}}), ("Ingress", {"metadata": m(), "spec": {"rules": [{"http": {"paths": [{"path": "x", "pathType": "Exact", "backend": {}}]}}]}}), ("Ingress", {"metadata": m(), "spec": {"rules": [{"http": {"paths": [{"path": "/x", "backend": {"service": {"name": "s", "port": {"number": 1}}}}]}}]}}), ("Ingress", {"metadata": m(), "spec": {"rules": [{"host": "1.2.3.4", "http": {"paths": [{"path": "/x", "pathType": "Foo", "backend": {"service": {"name": "S_", "port": {}}}}]}}]}}), ("Ingress", {"metadata": m(), "spec": {"defaultBackend": {"service": {"port": {"number": 1, "name": "a"}}}}}), ("Ingress", {"metadata": m(), "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 70000}}}}}),
        ("Lease", {"metadata": m(), "spec": {"leaseDurationSeconds": 0}}), ("Lease", {"metadata": m(), "spec": {"leaseTransitions": -1}}),
        ("PodDisruptionBudget", {"metadata": m(), "spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": SEL}}), ("PodDisruptionBudget", {"metadata": m(), "spec": {"minAvailable": -1, "selector": SEL}}), ("PodDisruptionBudget", {"metadata": m(), "spec": {"maxUnavailable": "x", "selector": SEL}}), ("PodDisruptionBudget", {"metadata": m(), "spec": {"unhealthyPodEvictionPolicy": "X", "selector": SEL}}),
        ("HorizontalPodAutoscaler", {"metadata": m(), "spec": {"maxReplicas": 0, "scaleTargetRef": {}}}), ("HorizontalPodAutoscaler", {"metadata": m(), "spec": {"maxReplicas": 1, "minReplicas": 2, "scaleTargetRef": {"kind": "D", "name": "d"}}}), ("HorizontalPodAutoscaler", {"metadata": m(), "spec": {"maxReplicas": 1, "minReplicas": 0, "scaleTargetRef": {"kind": "D", "name": "d"}}}),
        ("Role", {"metadata": m(), "rules": [{"verbs": []}]}), ("Role", {"metadata": m(), "rules": [{"verbs": ["get"], "apiGroups": [""]}]}), ("Role", {"metadata": m(), "rules": [{"verbs": ["get"], "resources": ["a"]}]}), ("Role", {"metadata": m(), "rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]}), ("ClusterRole", {"metadata": m(), "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["a"], "nonResourceURLs": ["/a"]}]}),
        ("RoleBinding", {"metadata": m(), "roleRef": {}}), ("RoleBinding", {"metadata": m(), "roleRef": {"kind": "X", "name": "r", "apiGroup": "x"}}), ("RoleBinding", {"metadata": m(), "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "X", "name": "u"}, {"kind": "User"}, {"kind": "ServiceAccount", "name": "A_"}]}), ("ClusterRoleBinding", {"metadata": m(), "roleRef": {"kind": "Role", "name": "r"}}), ("RoleBinding", {"metadata": m(), "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u", "apiGroup": "x"}, {"kind": "Group", "name": "u", "apiGroup": "x"}, {"kind": "ServiceAccount", "name": "s", "apiGroup": "x", "namespace": "n"}]}),
        ("Namespace", {"metadata": m(), "spec": {"finalizers": ["bad"]}}), ("Event", {"metadata": m(), "involvedObject": {"kind": "Pod", "name": "o", "namespace": "other"}}),
        ("PersistentVolumeClaim", {"metadata": m(), "spec": {}}), ("PersistentVolumeClaim", {"metadata": m(), "spec": {"accessModes": ["X"], "resources": {"requests": {"storage": "1Gi"}}}}), ("PersistentVolumeClaim", {"metadata": m(), "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "0"}}}}), ("PersistentVolume", {"metadata": m(), "spec": {}}),
        ("StorageClass", {"metadata": m()}), ("StorageClass", {"metadata": m(), "provisioner": "p", "reclaimPolicy": "X"}), ("StorageClass", {"metadata": m(), "provisioner": "p", "volumeBindingMode": "X"}), ("PriorityClass", {"metadata": m("system-x"), "value": 5}), ("PriorityClass", {"metadata": m(), "value": 2000000000}), ("PriorityClass", {"metadata": m(), "value": 1, "preemptionPolicy": "X"}), ("RuntimeClass", {"metadata": m()}), ("RuntimeClass", {"metadata": m(), "handler": "A_"}),
        ("EndpointSlice", {"metadata": m(), "addressType": "X", "endpoints": []}), ("EndpointSlice", {"metadata": m(), "endpoints": []}), ("EndpointSlice", {"metadata": m(), "addressType": "IPv4", "endpoints": [{"addresses": []}]}), ("EndpointSlice", {"metadata": m(), "addressType": "IPv4", "endpoints": [{"addresses": ["x"]}]}), ("Endpoints", {"metadata": m(), "subsets": [{}]}), ("Endpoints", {"metadata": m(), "subsets": [{"addresses": [{"ip": "x"}], "ports": [{"port": 0}]}]}),
        ("NetworkPolicy", {"metadata": m(), "spec": {"podSelector": {}, "policyTypes": ["X"]}}), ("NetworkPolicy", {"metadata": m(), "spec": {"podSelector": {}, "ingress": [{"from": [{}]}]}}), ("NetworkPolicy", {"metadata": m(), "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 0}]}]}}), ("NetworkPolicy", {"metadata": m(), "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "x"}}]}]}}),
    ],
}

STATUS = [
    ("Pod", pod(), {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"nodeName": "n"}, "status": {"phase": "Running", "qosClass": None, "podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}], "conditions": [{"type": "Ready", "status": "True"}]}}),
    ("Deployment", workload(), {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"replicas": 4}, "status": {"replicas": 1, "observedGeneration": 1}}),
    ("ReplicaSet", workload(), {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"replicas": 4}, "status": {"replicas": 1}}), ("StatefulSet", workload(), {"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 4}, "status": {"replicas": 1}}), ("DaemonSet", workload(), {"metadata": {"labels": {"a": "b"}}, "status": {"numberReady": 1}}),
    ("Service", service(), {"metadata": {"labels": {"a": "b"}}, "spec": {"selector": {"q": "r"}}, "status": {"loadBalancer": {}}}), ("Node", {"metadata": m("recorded-s")}, {"metadata": {"labels": {"a": "b"}}, "spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "1"}}}), ("Namespace", {"metadata": m("recorded-s")}, {"metadata": {"labels": {"a": "b"}}, "status": {"conditions": [{"type": "X", "status": "True"}]}}),
    ("ResourceQuota", {"metadata": m(), "spec": {"hard": {"pods": "3"}}}, {"metadata": {"labels": {"a": "b"}}, "spec": {"hard": {"pods": "4"}}, "status": {"hard": {"pods": "3"}}}), ("Ingress", {"metadata": m(), "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}, {"metadata": {"labels": {"a": "b"}}, "spec": {"ingressClassName": "q"}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),
    ("PodDisruptionBudget", {"metadata": m(), "spec": {"minAvailable": 1, "selector": SEL}}, {"metadata": {"labels": {"a": "b"}}, "spec": {"minAvailable": 5}, "status": {"expectedPods": 3}}), ("ReplicationController", {"metadata": m(), "spec": {"template": template()}}, {"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 4}, "status": {"replicas": 1}}),
    ("CronJob", {"metadata": m(), "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template({"restartPolicy": "Never"})}}}}, {"metadata": {"labels": {"a": "b"}}, "spec": {"suspend": True}, "status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}}), ("HorizontalPodAutoscaler", {"metadata": m(), "spec": {"scaleTargetRef": {"kind": "D", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3}}, {"metadata": {"labels": {"a": "b"}}, "spec": {"maxReplicas": 9}, "status": {"desiredReplicas": 2}}),
]

JOB = {"metadata": m(), "spec": {"template": template({"restartPolicy": "Never"})}}
CHANGED = [
    ("ConfigMap", {"metadata": m(), "data": {"a": "b"}, "immutable": True}, {"data": {"a": "c"}}), ("ConfigMap", {"metadata": m(), "data": {"a": "b"}, "immutable": True}, {"immutable": False}), ("ConfigMap", {"metadata": m(), "data": {"a": "b"}, "immutable": True}, {"binaryData": {"z": "aGk="}}),
    ("Secret", {"metadata": m(), "data": {"a": "aGk="}, "immutable": True}, {"data": {"a": "aGo="}}), ("Secret", {"metadata": m()}, {"type": "x"}), ("Secret", {"metadata": m()}, {"stringData": {"a": "b"}}),
    ("ConfigMap", {"metadata": m()}, {"metadata": {"labels": {"bad key!": "v"}}}), ("ConfigMap", {"metadata": m()}, {"metadata": {"uid": "x"}}), ("ConfigMap", {"metadata": m()}, {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}), ("ConfigMap", {"metadata": m()}, {"metadata": {"generateName": "x"}}),
    ("Pod", pod(), {"spec": {"containers": [{"name": "c", "image": "img:2"}]}}), ("Pod", pod(), {"spec": {"containers": [{"name": "d", "image": "img:1"}]}}), ("Pod", pod(), {"spec": {"restartPolicy": "Never"}}), ("Pod", pod(), {"spec": {"activeDeadlineSeconds": 5}}), ("Pod", pod({"activeDeadlineSeconds": 5}), {"spec": {"activeDeadlineSeconds": 6}}), ("Pod", pod(), {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}), ("Pod", pod(), {"spec": {"containers": []}}), ("Pod", pod(), {"metadata": {"labels": {"a": "b"}}}), ("Pod", pod(), {"spec": {"terminationGracePeriodSeconds": 5}}), ("Pod", pod(), {"status": {"phase": "Running"}}),
    ("Deployment", workload(), {"spec": {"selector": {"matchLabels": {"app": "y"}}, "template": {"metadata": {"labels": {"app": "y"}}}}}), ("Deployment", workload(), {"spec": {"replicas": -1}}), ("Deployment", workload(), {"spec": {"replicas": 3}}), ("Deployment", workload(), {"metadata": {"labels": {"a": "b"}}}), ("Deployment", workload(), {"metadata": {"annotations": {"a": "b"}}}), ("Deployment", workload(), {"status": {"replicas": 3}}), ("Deployment", workload(), {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}),
    ("ReplicaSet", workload(), {"spec": {"selector": {"matchLabels": {"app": "y"}}, "template": {"metadata": {"labels": {"app": "y"}}}}}), ("ReplicaSet", workload(), {"spec": {"replicas": 3}}), ("DaemonSet", workload(), {"spec": {"selector": {"matchLabels": {"app": "y"}}, "template": {"metadata": {"labels": {"app": "y"}}}}}), ("DaemonSet", workload(), {"spec": {"template": {"metadata": {"annotations": {"app": "y"}}}}}),
    ("StatefulSet", workload(), {"spec": {"serviceName": "y"}}), ("StatefulSet", workload(), {"spec": {"replicas": 2}}), ("StatefulSet", workload(), {"spec": {"podManagementPolicy": "Parallel"}}),
    ("Job", JOB, {"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}}), ("Job", JOB, {"spec": {"completions": 5}}), ("Job", JOB, {"spec": {"parallelism": 5}}), ("Job", JOB, {"spec": {"suspend": True}}), ("Job", JOB, {"spec": {"selector": {"matchLabels": {"a": "b"}}}}), ("Job", JOB, {"spec": {"completionMode": "Indexed"}}),
    ("Service", service(), {"spec": {"clusterIP": "10.0.0.99"}}), ("Service", service(), {"spec": {"selector": {"a": "b"}}}), ("Service", service(), {"spec": {"ports": None}}), ("Service", service(), {"spec": {"type": "ExternalName", "externalName": "a.b"}}),
    ("Service", service(), {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]}}), ("Service", service(type="NodePort", ports=[{"port": 80, "nodePort": 30124}]), {"spec": {"type": "ClusterIP"}}), ("Service", service(type="NodePort", ports=[{"port": 80, "nodePort": 30125}]), {"spec": {"ports": [{"port": 80, "targetPort": 90}]}}), ("Service", service(clusterIP="None", selector={"a": "b"}), {"spec": {"ports": [{"port": 81}]}}),
    ("Pod", pod(), {"spec": {"tolerations": None}}), ("Pod", pod({"tolerations": [{"key": "a", "operator": "Exists"}]}), {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}}), ("Pod", pod(), {"spec": {"priority": None, "preemptionPolicy": None}}), ("Pod", pod({"schedulingGates": [{"name": "g"}]}), {"spec": {"nodeSelector": {"a": "b"}}}), ("Pod", pod({"schedulingGates": [{"name": "g"}]}), {"spec": {"schedulingGates": None}}),
    ("EndpointSlice", {"metadata": m(), "addressType": "IPv4", "endpoints": []}, {"metadata": {"labels": {"a": "b"}}}), ("Deployment", workload(), {"spec": {"replicas": None}}), ("Job", {"metadata": m(), "spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": template({"restartPolicy": "Never"})}}, {"spec": {"completions": 3, "parallelism": 3}}),
    ("Namespace", {"metadata": m("recorded-y")}, {"spec": {"finalizers": []}}), ("Namespace", {"metadata": m("recorded-w")}, {"metadata": {"labels": {"kubernetes.io/metadata.name": None}}}),
    ("PersistentVolumeClaim", {"metadata": m(), "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}, {"spec": {"accessModes": ["ReadWriteMany"]}}),
    ("RoleBinding", {"metadata": m(), "roleRef": {"kind": "Role", "name": "r"}}, {"roleRef": {"name": "s"}}), ("StorageClass", {"metadata": m("recorded-y"), "provisioner": "p"}, {"provisioner": "q"}), ("PriorityClass", {"metadata": m("recorded-y"), "value": 5}, {"value": 6}), ("RuntimeClass", {"metadata": m("recorded-y"), "handler": "h"}, {"handler": "i"}),
    ("EndpointSlice", {"metadata": m(), "addressType": "IPv4", "endpoints": []}, {"addressType": "IPv6"}), ("PodDisruptionBudget", {"metadata": m(), "spec": {"minAvailable": 1, "selector": SEL}}, {"spec": {"minAvailable": 2}}), ("ControllerRevision", {"metadata": m(), "revision": 1, "data": {"a": 1}}, {"data": {"a": 2}}), ("ControllerRevision", {"metadata": m(), "revision": 1, "data": {"a": 1}}, {"revision": 2}),
    ("Ingress", {"metadata": m(), "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}, {"spec": {"ingressClassName": "q"}}), ("NetworkPolicy", {"metadata": m(), "spec": {"podSelector": {}}}, {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}), ("CronJob", {"metadata": m(), "spec": {"schedule": "* * * * *", "jobTemplate": JOB}}, {"spec": {"suspend": True}}),
    ("HorizontalPodAutoscaler", {"metadata": m(), "spec": {"scaleTargetRef": {"kind": "D", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3}}, {"spec": {"maxReplicas": 4}}), ("Lease", {"metadata": m()}, {"spec": {"holderIdentity": "b"}}), ("Node", {"metadata": m("recorded-y")}, {"spec": {"unschedulable": True}}),
]

T0 = "2020-01-01T00:00:00Z"
def running(ready=True, restarts=0, **state): return {"name": "c", "ready": ready, "restartCount": restarts, "image": "i", "imageID": "i", "state": state or {"running": {"startedAt": T0}}, "lastState": {}}
def status(phase, *containers, **more): return dict({"phase": phase, "containerStatuses": list(containers)}, **more)
TWO = [C, {"name": "d", "image": "img:2"}]
PRINTED = {
    "pods": [
        ("Pod", pod()), ("Pod", pod({"nodeName": "n1"}, status=status("Running", running(), podIP="10.1.2.3", podIPs=[{"ip": "10.1.2.3"}], conditions=[{"type": "Ready", "status": "True"}]))),
        ("Pod", pod(containers=TWO, status=status("Running", running(), dict(running(False, 3, waiting={"reason": "CrashLoopBackOff"}), name="d", lastState={"terminated": {"exitCode": 1, "finishedAt": T0}})))),
        ("Pod", pod(status=status("Failed", running(False, 0, terminated={"exitCode": 3, "reason": "Error"})))), ("Pod", pod(status=status("Failed", running(False, 0, terminated={"exitCode": 3})))), ("Pod", pod(status=status("Failed", running(False, 0, terminated={"exitCode": 0, "signal": 9})))),
        ("Pod", pod(status=status("Succeeded", running(False, 0, terminated={"exitCode": 0, "reason": "Completed"})))), ("Pod", pod(status=status("Failed", reason="Evicted"))), ("Pod", pod(status=status("Running", reason="NodeLost"))),
        ("Pod", pod({"initContainers": [{"name": "i", "image": "i"}, {"name": "j", "image": "i"}]}, status=dict(status("Pending"), initContainerStatuses=[dict(running(False, 1), name="i", state={"terminated": {"exitCode": 0}}), dict(running(False), name="j", state={"waiting": {"reason": "PodInitializing"}})]))),
        ("Pod", pod({"initContainers": [{"name": "i", "image": "i"}]}, status=dict(status("Pending"), initContainerStatuses=[dict(running(False, 1), name="i", state={"terminated": {"exitCode": 2}})]))),
        ("Pod", pod({"initContainers": [{"name": "i", "image": "i"}]}, status=dict(status("Pending"), initContainerStatuses=[dict(running(False, 1), name="i", state={"waiting": {"reason": "ImagePullBackOff"}})]))),
        ("Pod", pod({"initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}]}, status=dict(status("Running", running(True, 2)), initContainerStatuses=[dict(running(True, 4), name="i", started=True)], conditions=[{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}]))),
        ("Pod", pod({"schedulingGates": [{"name": "g"}]}, status={"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]})),
        ("Pod", pod({"readinessGates": [{"conditionType": "a.b/c"}, {"conditionType": "d"}]}, status=status("Running", running(), nominatedNodeName="n2", conditions=[{"type": "a.b/c", "status": "True"}]))),
        ("Pod", pod(containers=TWO, status=status("Running", running(False, 0, terminated={"exitCode": 0, "reason": "Completed"}), dict(running(), name="d"), conditions=[{"type": "Ready", "status": "True"}]))),
        ("Pod", pod(containers=TWO, status=status("Running", running(False, 0, terminated={"exitCode": 0, "reason": "Completed"}), dict(running(), name="d"), conditions=[{"type": "Ready", "status": "False"}]))),
    ],
    "core": [
        ("ConfigMap", {"metadata": m(), "data": {"a": "b"}, "binaryData": {"k": "aGk="}}), ("Secret", {"metadata": m(), "data": {"a": "aGk="}}), ("Namespace", {"metadata": m("recorded-z")}), ("Endpoints", {"metadata": m()}),
        ("Endpoints", {"metadata": m(), "subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"name": "t", "port": 80}, {"name": "u", "port": 81, "protocol": "UDP"}]}]}), ("Endpoints", {"metadata": m(), "subsets": [{"addresses": [{"ip": "10.0.0.1"}]}, {"notReadyAddresses": [{"ip": "10.0.0.3"}], "ports": [{"port": 1}]}]}),
        ("Node", {"metadata": m("recorded-z")}), ("Node", {"metadata": m("recorded-z", labels={"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "master"}), "spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}, {"type": "ExternalIP", "address": "5.6.7.8"}], "nodeInfo": {"kubeletVersion": "v1.36.4", "osImage": "OS", "kernelVersion": "6.1", "containerRuntimeVersion": "containerd://1", "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"}}}),
        ("Node", {"metadata": m("recorded-z"), "status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        ("PersistentVolume", {"metadata": m("recorded-z"), "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "storageClassName": "sc", "claimRef": {"namespace": "a", "name": "b"}, "hostPath": {"path": "/x"}}}),
        ("PersistentVolumeClaim", {"metadata": m("pvc-a"), "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "sc", "resources": {"requests": {"storage": "1Gi"}}}}),
        ("PersistentVolumeClaim", {"metadata": m("pvc-b"), "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteMany"]}}),
        ("ServiceAccount", {"metadata": m()}), ("ReplicationController", {"metadata": m(), "spec": {"template": template()}}), ("PodTemplate", {"metadata": m(), "template": template()}), ("LimitRange", {"metadata": m(), "spec": {"limits": []}}), ("ResourceQuota", {"metadata": m(), "spec": {"hard": {"pods": "3", "limits.cpu": "2"}}, "status": {"hard": {"pods": "3", "limits.cpu": "2"}, "used": {"pods": "1"}}}),
        ("Event", {"metadata": m(), "involvedObject": {"kind": "Pod", "name": "p", "namespace": "recorded", "fieldPath": "spec.containers{c}"}, "reason": "R", "message": " hello\n", "type": "Normal", "count": 3, "firstTimestamp": T0, "lastTimestamp": T0, "source": {"component": "k", "host": "h"}}), ("Event", {"metadata": m(), "involvedObject": {"kind": "Pod", "namespace": "recorded"}}),
        ("Event", {"metadata": m(), "involvedObject": {"kind": "Pod", "name": "p", "namespace": "recorded"}, "reason": "R", "action": "a", "reportingComponent": "x.io/y", "reportingInstance": "i", "type": "Normal", "eventTime": "2020-01-01T00:00:00.000000Z", "series": {"count": 7, "lastObservedTime": "2020-01-01T00:00:00.000000Z"}}),
    ],
    "services": [
        ("Service", service()), ("Service", service(type="NodePort", selector={"a": "b", "c": "d"}, ports=[{"name": "x", "port": 80, "nodePort": 30080}, {"name": "y", "port": 53, "protocol": "UDP", "nodePort": 30053}])), ("Service", service(type="LoadBalancer")), ("Service", dict(service(type="LoadBalancer"), status={"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h.example"}]}})), ("Service", service(type="LoadBalancer", externalIPs=["9.9.9.9"])), ("Service", {"metadata": m(), "spec": {"type": "ExternalName", "externalName": "a.b"}}), ("Service", service(clusterIP="None")), ("Service", service(externalIPs=["1.1.1.1", "2.2.2.2"])), ("Service", {"metadata": m(), "spec": {"clusterIP": "None", "selector": {"a": "b"}}}),
    ],
    "workloads": [
        ("Deployment", dict(workload(template(containers=TWO), replicas=3), status={"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2})), ("ReplicaSet", dict(workload(), status={"replicas": 1, "readyReplicas": 1})), ("StatefulSet", dict(workload(), status={"replicas": 1, "readyReplicas": 1})), ("DaemonSet", dict(workload(template({"nodeSelector": {"a": "b"}})), status={"desiredNumberScheduled": 3, "currentNumberScheduled": 2, "numberReady": 1, "numberMisscheduled": 0, "updatedNumberScheduled": 2, "numberAvailable": 1})), ("DaemonSet", workload()),
        ("Deployment", workload(selector={"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["y", "x"]}, {"key": "z", "operator": "DoesNotExist"}]})),
        ("ControllerRevision", {"metadata": m(ownerReferences=[{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}]), "revision": 4, "data": {"a": 1}}),
        ("Job", JOB), ("Job", {"metadata": m(), "spec": {"parallelism": 3, "template": template({"restartPolicy": "Never"})}}), ("Job", {"metadata": m(), "spec": {"suspend": True, "completions": 4, "template": template({"restartPolicy": "Never"})}}),
        ("Job", dict(JOB, status={"startTime": T0, "completionTime": "2020-01-01T00:01:05Z", "succeeded": 1, "uncountedTerminatedPods": {}, "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]})),
        ("CronJob", {"metadata": m(), "spec": {"schedule": "* * * * *", "jobTemplate": JOB}}), ("CronJob", {"metadata": m(), "spec": {"schedule": "* * * * *", "suspend": True, "timeZone": "Etc/UTC", "jobTemplate": JOB}, "status": {"lastScheduleTime": T0, "active": [{"name": "a"}]}}),
    ],
    "others": [
        ("Ingress", {"metadata": m(), "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}), ("Ingress", {"metadata": m(), "spec": {"ingressClassName": "n", "tls": [{"hosts": ["a"]}], "rules": [{"host": "a.b", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}, {"host": "c.d"}]}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}), ("IngressClass", {"metadata": m("recorded-z"), "spec": {"controller": "x.io/y", "parameters": {"kind": "K", "name": "n", "apiGroup": "g.io"}}}), ("IngressClass", {"metadata": m("recorded-z"), "spec": {"controller": "x.io/y"}}),
        ("NetworkPolicy", {"metadata": m(), "spec": {"podSelector": {}}}), ("NetworkPolicy", {"metadata": m(), "spec": {"podSelector": {"matchLabels": {"a": "b"}}}}), ("EndpointSlice", {"metadata": m(), "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.3"]}, {"addresses": ["10.0.0.4"]}], "ports": [{"port": 80}, {"name": "q", "port": 443}]}), ("EndpointSlice", {"metadata": m(), "addressType": "IPv4", "endpoints": []}),
        ("Lease", {"metadata": m()}), ("Lease", {"metadata": m(), "spec": {"holderIdentity": "h"}}), ("PodDisruptionBudget", {"metadata": m(), "spec": {"minAvailable": 1, "selector": SEL}}), ("PodDisruptionBudget", {"metadata": m(), "spec": {"maxUnavailable": "50%", "selector": SEL}, "status": {"disruptionsAllowed": 2, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}}),
        ("HorizontalPodAutoscaler", {"metadata": m(), "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3}}), ("HorizontalPodAutoscaler", {"metadata": m(), "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3, "metrics": [{"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"}}}, {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}, "status": {"currentReplicas": 2, "desiredReplicas": 2, "currentMetrics": [{"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "50Mi"}}}, {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 12, "averageValue": "5m"}}}], "conditions": []}}),
        ("Role", {"metadata": m()}), ("ClusterRole", {"metadata": m("recorded-z"), "rules": []}), ("RoleBinding", {"metadata": m(), "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}), ("ClusterRoleBinding", {"metadata": m("recorded-z"), "roleRef": {"kind": "ClusterRole", "name": "r", "apiGroup": RBAC}}),
        ("StorageClass", {"metadata": m("recorded-z", annotations={"storageclass.kubernetes.io/is-default-class": "true"}), "provisioner": "p", "allowVolumeExpansion": True}), ("StorageClass", {"metadata": m("recorded-z"), "provisioner": "p"}), ("CSIDriver", {"metadata": m("recorded-z"), "spec": {}}), ("CSINode", {"metadata": m("recorded-z"), "spec": {"drivers": []}}), ("VolumeAttachment", {"metadata": m("recorded-z"), "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}}), ("PriorityClass", {"metadata": m("recorded-z"), "value": 5}), ("RuntimeClass", {"metadata": m("recorded-z"), "handler": "h"}),
    ],
}

# Selector terms, rules and references inside objects.
def nodes(*expressions): return {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
def to_nodes(*expressions): return pod({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": nodes(*expressions)}}})
BAD_LABELS = {"matchLabels": {"a": "b c"}}
def failing(**rule): return {"metadata": m(), "spec": {"podFailurePolicy": {"rules": [rule]}, "template": {"spec": {"restartPolicy": "Never", "containers": [C]}}}}
CONDITION = [{"type": "Ready", "status": "True"}]
def scaler(**spec): return {"metadata": m(), "spec": dict({"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}, **spec)}
def metric(kind, source, **target): return {"type": kind, source: dict({"target": target}, **({"name": "cpu"} if source == "resource" else {"metric": {"name": "q"}}))}
def flow(**rule): return {"metadata": m(), "spec": {"priorityLevelConfiguration": {"name": "x"}, "rules": [{"subjects": [{"kind": "User", "user": {"name": "u"}}], "resourceRules": [dict({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}, **rule)]}]}}
HOOK = {"name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": "https://a.b/c"}}
REFUSED["terms"] = [
    ("Pod", to_nodes({"key": "a", "operator": "Bogus", "values": ["b"]})), ("Pod", to_nodes({"key": "a b", "operator": "In"})),
    ("Pod", to_nodes({"key": "a", "operator": "Exists", "values": ["b"]}, {"key": "a", "operator": "Gt", "values": ["1", "2"]})),
    ("Pod", to_nodes({"key": "a", "operator": "In", "values": ["b c"]})),
    ("Pod", pod({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "preference": {"matchExpressions": [{"key": "a", "operator": "x"}]}}]}}})),
    ("Pod", pod({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": BAD_LABELS}]}}})),
    ("Pod", pod({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {"topologyKey": "a b", "labelSelector": {}}}]}}})),
    ("Pod", pod({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": BAD_LABELS}]})),
    ("Job", failing(action="Ignore")), ("Job", failing(action="Bogus", onPodConditions=CONDITION)), ("Job", failing(onPodConditions=CONDITION)),
    ("Job", failing(action="FailIndex", onPodConditions=CONDITION)), ("Job", failing(action="Count", onPodConditions=[{"type": "a b", "status": "Maybe"}])),
    ("StatefulSet", dict(workload(), spec=dict(workload()["spec"], serviceName="s", persistentVolumeClaimRetentionPolicy={"whenDeleted": "Never"}))),
    ("ControllerRevision", {"metadata": m(), "revision": 1}), ("ControllerRevision", {"metadata": m(), "revision": 1, "data": 5}),
    ("HorizontalPodAutoscaler", scaler(scaleTargetRef={"apiVersion": "v1", "kind": "Deployment", "name": "d"})),
    ("HorizontalPodAutoscaler", scaler(metrics=[metric("Resource", "resource", type="Utilization")])),
    ("HorizontalPodAutoscaler", scaler(metrics=[metric("Resource", "resource", type="Utilization", averageUtilization=0, averageValue="0")])),
    ("HorizontalPodAutoscaler", scaler(metrics=[metric("Pods", "pods", type="Bogus", averageValue="1")])),
    ("HorizontalPodAutoscaler", scaler(behavior={"scaleDown": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 1801}]}})),
    ("HorizontalPodAutoscaler", scaler(behavior={"scaleUp": {"policies": [{"type": "Bogus", "value": 1, "periodSeconds": 0}]}})),
    ("ValidatingWebhookConfiguration", {"metadata": m(), "webhooks": [HOOK, HOOK]}),
    ("IngressClass", {"metadata": m(), "spec": {"controller": "a.b/c", "parameters": {"kind": "X", "name": "y", "scope": "Namespace"}}}),
    ("IngressClass", {"metadata": m(), "spec": {"controller": "a.b/c", "parameters": {"kind": "X", "name": "y", "scope": "Bogus"}}}),
    ("IngressClass", {"metadata": m(), "spec": {"controller": "a.b/c", "parameters": {"kind": "X", "name": "y", "scope": "Cluster", "namespace": "n"}}}),
    ("CSIDriver", {"metadata": m(), "spec": {"fsGroupPolicy": "Some"}}), ("CSIDriver", {"metadata": m(), "spec": {"tokenRequests": [{"audience": "a"}, {"audience": "a"}]}}),
    ("StorageClass", {"metadata": m(), "provisioner": "A b"}), ("StorageClass", {"metadata": m(), "provisioner": "a", "allowedTopologies": [{"matchLabelExpressions": [{"key": "*", "values": []}]}]}),
    ("ServiceCIDR", {"metadata": m(), "spec": {}}), ("ServiceCIDR", {"metadata": m(), "spec": {"cidrs": ["x"]}}),
    ("IPAddress", {"metadata": m("1.2.3.4"), "spec": {}}), ("IPAddress", {"metadata": m("1.2.3.4"), "spec": {"parentRef": {"name": "-5%"}}}),
    ("RuntimeClass", {"metadata": m(), "handler": "h", "scheduling": {"nodeSelector": {"a": "b c"}, "tolerations": [{"key": "a", "operator": "Bogus"}]}}),
    ("EndpointSlice", {"metadata": m(), "addressType": "IPv4", "ports": [], "endpoints": [{"addresses": ["1.2.3.4"], "nodeName": "A b", "hints": {"forZones": [{"name": "/x"}]}}]}),
    ("Endpoints", {"metadata": m(), "subsets": [{"addresses": [{"ip": "1.2.3.4", "nodeName": "A b"}], "ports": [{"port": 1}]}]}),
    ("VolumeAttachment", {"metadata": m(), "spec": {"attacher": "a.b", "nodeName": "True", "source": {"persistentVolumeName": "v"}}}),
    ("VolumeAttachment", {"metadata": m(), "spec": {"attacher": "a.b", "nodeName": "n", "source": {}}}),
    ("FlowSchema", flow(resources=[])), ("FlowSchema", flow(namespaces=[])), ("FlowSchema", flow(apiGroups=[], verbs=[])),
    ("LimitRange", {"metadata": m(), "spec": {"limits": [{"type": "None"}]}}),
    ("Node", {"metadata": m(), "spec": {"podCIDR": "::1", "podCIDRs": ["::1"]}}),
    ("PersistentVolume", {"metadata": m(), "spec": {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, "nodeAffinity": {"required": nodes({"key": "5%", "operator": "In", "values": ["b"]})}}}),
    ("PersistentVolumeClaim", {"metadata": m(), "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "dataSource": {"kind": "PersistentVolumeClaim", "name": ""}}}),
    ("ConfigMap", {"metadata": m(generation=-5)}),
    ("PersistentVolumeClaim", {"metadata": m(), "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "dataSource": {"kind": "PersistentVolumeClaim", "name": "q"}, "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "r"}}}),
    ("Ingress", {"metadata": m(), "spec": {"tls": [{"secretName": "a/b"}], "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}),
    ("HorizontalPodAutoscaler", scaler(metrics=[{"type": "Pods", "pods": {"metric": {}, "target": {"type": "AverageValue", "averageValue": "1"}}}])),
    ("ClusterRole", {"metadata": m(), "aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}]}}),
]
