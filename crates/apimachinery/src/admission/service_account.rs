//! ServiceAccount: the identity of a pod, and the token by which its containers prove it.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 plugin/pkg/admission/serviceaccount/admission.go.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::kinds::json_access::{at, each, items, object, text};

/// The directory in which containers find their token.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The start of the name of the volume with the token.
const VOLUME: &str = "kube-api-access-";
/// The annotation of the copy of a pod that a kubelet runs from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The lifetime of a token in seconds: an hour, and some seconds by which the issuer recognizes it
/// (`WarnOnlyBoundTokenExpirationSeconds` in k8s.io/kubernetes v1.36.4
/// pkg/serviceaccount/claims.go).
const TOKEN_SECONDS: i64 = 60 * 60 + 7;

/// Returns true for the copy of a pod that a kubelet runs from a file. It has no identity.
pub fn is_mirror(pod: &Value) -> bool {
    at(pod, "/metadata/annotations").is_some_and(|it| it.get(MIRROR).is_some())
}

/// Gives a pod the account `default` if it names none. Returns the name of its account.
pub fn name(pod: &mut Value) -> String {
    if text(pod, "/spec/serviceAccountName").is_empty()
        && let Some(map) = pod.as_object_mut()
    {
        let spec = object(map, "spec");
        for field in ["serviceAccountName", "serviceAccount"] {
            spec.insert(field.to_owned(), "default".into());
        }
    }
    text(pod, "/spec/serviceAccountName").to_owned()
}

/// Mounts the token of its account into each container of a pod, and lets the pod pull images with
/// the secrets of the account. `suffix` returns the end of the name of the volume.
pub fn fill(pod: &mut Value, account: &Value, suffix: impl FnOnce() -> String) {
    let field = "automountServiceAccountToken";
    let choices = [at(pod, "/spec").and_then(|it| it.get(field)), account.get(field)];
    let mounts = choices.into_iter().flatten().find_map(Value::as_bool).unwrap_or(true);
    let Some(map) = pod.as_object_mut() else { return };
    let spec = object(map, "spec");
    if mounts {
        mount_token(spec, suffix);
    }
    let has_secrets = spec.get("imagePullSecrets").and_then(Value::as_array).is_some_and(|it| !it.is_empty());
    let secrets = items(account, "/imagePullSecrets");
    if !has_secrets && !secrets.is_empty() {
        let named = secrets.iter().map(|it| json!({ "name": text(it, "/name") }));
        spec.insert("imagePullSecrets".to_owned(), named.collect());
    }
}

fn mount_token(spec: &mut serde_json::Map<String, Value>, suffix: impl FnOnce() -> String) {
    let existing = each(spec, "volumes").find_map(|it| {
        it.get("name").and_then(Value::as_str).filter(|it| it.starts_with(VOLUME)).map(str::to_owned)
    });
    let has_volume = existing.is_some();
    let volume = existing.unwrap_or_else(|| format!("{VOLUME}{}", suffix()));
    let mut is_needed = false;
    for list in ["initContainers", "containers"] {
        for container in each(spec, list) {
            let slot = container.entry("volumeMounts").or_insert(Value::Null);
            // A mount of the pod's own at this path replaces the token.
            if slot.as_array().is_some_and(|it| it.iter().any(|it| text(it, "/mountPath") == TOKEN_PATH)) {
                continue;
            }
            if !slot.is_array() {
                *slot = json!([]);
            }
            if let Some(mounts) = slot.as_array_mut() {
                mounts.push(json!({ "name": volume, "readOnly": true, "mountPath": TOKEN_PATH }));
                is_needed = true;
            }
        }
    }
    if is_needed && !has_volume {
        let slot = spec.entry("volumes").or_insert(Value::Null);
        if !slot.is_array() {
            *slot = json!([]);
        }
        slot.as_array_mut().into_iter().for_each(|it| it.push(token_volume(&volume)));
    }
}

fn token_volume(name: &str) -> Value {
    let namespace =
        json!({ "path": "namespace", "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" } });
    json!({ "name": name, "projected": { "defaultMode": 0o644, "sources": [
        { "serviceAccountToken": { "path": "token", "expirationSeconds": TOKEN_SECONDS } },
        { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
        { "downwardAPI": { "items": [namespace] } },
    ] } })
}

/// Returns the message if a mirror pod refers to what its kubelet cannot read.
pub fn refuse_mirror(pod: &Value) -> Option<&'static str> {
    let sources = || items(pod, "/spec/volumes").iter().flat_map(|it| items(it, "/projected/sources"));
    if !text(pod, "/spec/serviceAccountName").is_empty() {
        Some("a mirror pod may not reference service accounts")
    } else if has_secrets(pod) {
        Some("a mirror pod may not reference secrets")
    } else if sources().any(|it| at(it, "/serviceAccountToken").is_some()) {
        Some("a mirror pod may not use ServiceAccountToken volume projections")
    } else {
        None
    }
}

/// Returns true if a pod refers to a secret (`VisitPodSecretNames` in k8s.io/kubernetes v1.36.4
/// pkg/api/pod/util.go).
fn has_secrets(pod: &Value) -> bool {
    const SOURCES: [&str; 11] = [
        "/azureFile/secretName",
        "/cephfs/secretRef",
        "/cinder/secretRef",
        "/flexVolume/secretRef",
        "/rbd/secretRef",
        "/secret/secretName",
        "/scaleIO/secretRef",
        "/iscsi/secretRef",
        "/storageos/secretRef",
        "/csi/nodePublishSecretRef",
        "/projected/sources",
    ];
    let in_volume = |volume: &Value| {
        SOURCES.iter().any(|source| match *source {
            "/projected/sources" => items(volume, source).iter().any(|it| at(it, "/secret").is_some()),
            source => at(volume, source).is_some_and(|it| *it != ""),
        })
    };
    !items(pod, "/spec/imagePullSecrets").is_empty()
        || CONTAINERS.iter().any(|(list, _)| items(pod, list).iter().any(|it| !secrets_of(it).is_empty()))
        || items(pod, "/spec/volumes").iter().any(in_volume)
}

/// The lists of containers, with the words for one of each.
const CONTAINERS: [(&str, &str); 3] = [
    ("/spec/initContainers", "init container"),
    ("/spec/containers", "container"),
    ("/spec/ephemeralContainers", "ephemeral container"),
];

/// Returns the secrets in the environment of a container, each with where it is used.
fn secrets_of(container: &Value) -> Vec<(String, &str)> {
    let variables = items(container, "/env").iter().filter_map(|it| {
        at(it, "/valueFrom/secretKeyRef")
            .map(|secret| (format!("envVar {}", text(it, "/name")), text(secret, "/name")))
    });
    let sources = items(container, "/envFrom").iter().filter_map(|it| at(it, "/secretRef"));
    variables.chain(sources.map(|it| ("envFrom".to_owned(), text(it, "/name")))).collect()
}

/// Returns the message if a pod refers to secrets that its account does not list, and the account
/// says that only these may be used. `part` is the written subresource.
pub fn refuse(pod: &Value, account: &Value, part: &str) -> Option<String> {
    let annotation =
        at(account, "/metadata/annotations")?.get("kubernetes.io/enforce-mountable-secrets")?.as_str()?;
    if !matches!(annotation, "1" | "t" | "T" | "TRUE" | "true" | "True") {
        return None;
    }
    let named = |list| items(account, list).iter().map(|it| text(it, "/name")).collect::<HashSet<_>>();
    let (listed, name) = (named("/secrets"), text(account, "/metadata/name"));
    let lacks = format!("is not allowed because service account {name} does not reference that");
    if part.is_empty() {
        let secrets = items(pod, "/spec/volumes").iter().filter_map(|it| at(it, "/secret"));
        if let Some(secret) = secrets.map(|it| text(it, "/secretName")).find(|it| !listed.contains(it)) {
            return Some(format!("volume with secret.secretName=\"{secret}\" {lacks} secret"));
        }
    }
    let is_checked = |list| (list == "/spec/ephemeralContainers") != part.is_empty();
    for (list, words) in CONTAINERS.into_iter().filter(|(list, _)| is_checked(*list)) {
        for container in items(pod, list) {
            if let Some((at, secret)) = secrets_of(container).into_iter().find(|(_, it)| !listed.contains(it))
            {
                let container = text(container, "/name");
                return Some(format!(
                    "{words} {container} with {at} referencing secret.secretName=\"{secret}\" {lacks} secret"
                ));
            }
        }
    }
    if !part.is_empty() {
        return None;
    }
    let pulls = named("/imagePullSecrets");
    let mut secrets = items(pod, "/spec/imagePullSecrets").iter().map(|it| text(it, "/name")).enumerate();
    let (index, secret) = secrets.find(|(_, it)| !pulls.contains(it))?;
    Some(format!("imagePullSecrets[{index}].name=\"{secret}\" {lacks} imagePullSecret"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_container_gets_the_token_unless_it_mounts_something_else_there() {
        let mut pod = json!({ "spec": { "initContainers": [{ "name": "i" }],
            "containers": [{ "name": "a", "volumeMounts": [{ "name": "own", "mountPath": TOKEN_PATH }] }, { "name": "b" }] } });
        let account = json!({ "imagePullSecrets": [{ "name": "registry" }] });
        fill(&mut pod, &account, || "abcde".to_owned());
        fill(&mut pod, &account, || unreachable!("it has the volume"));
        let spec = &pod["spec"];
        let mount = json!([{ "name": "kube-api-access-abcde", "readOnly": true, "mountPath": TOKEN_PATH }]);
        assert_eq!(
            (&spec["initContainers"][0]["volumeMounts"], &spec["containers"][1]["volumeMounts"]),
            (&mount, &mount)
        );
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], "own");
        assert_eq!(spec["volumes"].as_array().unwrap().len(), 1);
        assert_eq!(
            spec["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"],
            3607
        );
        assert_eq!(spec["imagePullSecrets"], json!([{ "name": "registry" }]));
    }

    #[test]
    fn the_choice_of_the_pod_comes_before_that_of_its_account() {
        let account = |choice: bool| json!({ "automountServiceAccountToken": choice });
        let pod = |choice: Value| json!({ "spec": { "automountServiceAccountToken": choice, "containers": [{ "name": "a" }] } });
        for (mut pod, account, expected) in [
            (pod(Value::Null), account(false), false),
            (pod(true.into()), account(false), true),
            (pod(false.into()), account(true), false),
            (pod(Value::Null), json!({}), true),
        ] {
            fill(&mut pod, &account, || "x".to_owned());
            assert_eq!(pod["spec"].get("volumes").is_some(), expected, "{pod} {account}");
        }
    }

    #[test]
    fn a_pod_without_an_account_gets_the_default_one() {
        let mut pod = json!({ "spec": {} });
        assert_eq!(name(&mut pod), "default");
        assert_eq!(pod["spec"], json!({ "serviceAccountName": "default", "serviceAccount": "default" }));
        let mut named = json!({ "spec": { "serviceAccountName": "robot" } });
        assert_eq!(name(&mut named), "robot");
    }

    #[test]
    fn mirror_pods_have_no_identity_and_no_secrets() {
        for (spec, why) in [
            (json!({ "serviceAccountName": "a" }), Some("a mirror pod may not reference service accounts")),
            (
                json!({ "volumes": [{ "secret": { "secretName": "s" } }] }),
                Some("a mirror pod may not reference secrets"),
            ),
            (
                json!({ "containers": [{ "envFrom": [{ "secretRef": { "name": "s" } }] }] }),
                Some("a mirror pod may not reference secrets"),
            ),
            (
                json!({ "volumes": [{ "projected": { "sources": [{ "serviceAccountToken": {} }] } }] }),
                Some("a mirror pod may not use ServiceAccountToken volume projections"),
            ),
            (json!({ "volumes": [{ "emptyDir": {} }] }), None),
        ] {
            assert_eq!(refuse_mirror(&json!({ "spec": spec })), why, "{spec}");
        }
    }

    #[test]
    fn an_account_can_limit_the_secrets_of_its_pods() {
        let account = |enforce: &str| {
            json!({ "metadata": { "name": "robot", "annotations": { "kubernetes.io/enforce-mountable-secrets": enforce } },
                "secrets": [{ "name": "ok" }], "imagePullSecrets": [{ "name": "pull" }] })
        };
        let with = |spec: Value| json!({ "spec": spec });
        let lacks = "is not allowed because service account robot does not reference that";
        let env = |secret: &str| {
            json!([{ "name": "c", "env": [
            { "name": "V", "valueFrom": { "secretKeyRef": { "name": secret } } }] }])
        };
        for (spec, part, why) in [
            (
                json!({ "volumes": [{ "secret": { "secretName": "no" } }] }),
                "",
                Some(format!("volume with secret.secretName=\"no\" {lacks} secret")),
            ),
            (
                json!({ "initContainers": env("no") }),
                "",
                Some(format!(
                    "init container c with envVar V referencing secret.secretName=\"no\" {lacks} secret"
                )),
            ),
            (
                json!({ "imagePullSecrets": [{ "name": "pull" }, { "name": "ok" }] }),
                "",
                Some(format!("imagePullSecrets[1].name=\"ok\" {lacks} imagePullSecret")),
            ),
            (json!({ "containers": env("ok"), "volumes": [{ "secret": { "secretName": "ok" } }] }), "", None),
            (json!({ "ephemeralContainers": env("no"), "containers": env("ok") }), "", None),
            (
                json!({ "ephemeralContainers": env("no"), "containers": env("no") }),
                "ephemeralcontainers",
                Some(format!(
                    "ephemeral container c with envVar V referencing secret.secretName=\"no\" {lacks} secret"
                )),
            ),
        ] {
            let pod = with(spec);
            assert_eq!(refuse(&pod, &account("true"), part), why, "{pod}");
            assert_eq!(refuse(&pod, &account("no"), part), None);
        }
    }
}
