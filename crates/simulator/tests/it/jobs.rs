//! Jobs, and pods that end, as their users see them.

use std::time::Duration;

use dogwatch_core::DeleteParams;
use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster};

const JOBS: Kind = ("batch/v1", "Job");
const PODS: Kind = ("v1", "Pod");

fn job(change: impl FnOnce(&mut Value)) -> Value {
    let mut job = json!({ "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": "sum", "namespace": "default" },
        "spec": { "template": { "metadata": {}, "spec": { "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": "i" }] } } } });
    change(&mut job["spec"]);
    job
}

fn annotate(spec: &mut Value, name: &str, value: &str) {
    let name = format!("simulator.dogwatch.dev/{name}");
    spec["template"]["metadata"]["annotations"][name] = value.into();
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind)["status"] == "True"
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|it| it["type"] == kind).unwrap_or(&Value::Null)
}

fn uncounted(job: &Value) -> &Value {
    &job["status"]["uncountedTerminatedPods"]
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_when_enough_pods_have_succeeded() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(job(|it| {
        it["completions"] = 5.into();
        it["parallelism"] = 2.into();
    }))
    .await;
    let done = it
        .until_one(JOBS, "default/sum", |it| {
            let count = |field: &str| it["status"][field].as_i64().unwrap_or(0);
            assert!(count("active") <= 2 && count("ready") <= count("active"), "{}", it["status"]);
            is_true(it, "Complete")
        })
        .await;
    assert_eq!((&done["status"]["succeeded"], done["status"].get("active")), (&json!(5), None));
    assert!(is_true(&done, "SuccessCriteriaMet") && done["status"]["completionTime"].is_string());
    assert_eq!(condition(&done, "Complete")["reason"], "CompletionsReached");
    assert_eq!(uncounted(&done), &json!({}));
    let pods = it.all(PODS);
    assert_eq!(pods.len(), 5);
    assert!(
        pods.iter().all(|it| it["status"]["phase"] == "Succeeded" && it["metadata"]["finalizers"].is_null())
    );
    let revision = it.server.revision();
    it.advance(Duration::from_secs(1000)).await;
    assert_eq!(it.server.revision(), revision, "nothing is left to do");
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_runs_a_pod_for_each_index() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(job(|it| {
        it["completions"] = 4.into();
        it["parallelism"] = 3.into();
        it["completionMode"] = "Indexed".into();
    }))
    .await;
    let done = it.until_one(JOBS, "default/sum", |it| is_true(it, "Complete")).await;
    assert_eq!(
        (&done["status"]["completedIndexes"], &done["status"]["succeeded"]),
        (&json!("0-3"), &json!(4))
    );
    let mut hosts: Vec<_> =
        it.all(PODS).iter().map(|it| it["spec"]["hostname"].clone().to_string()).collect();
    hosts.sort();
    assert_eq!(hosts, ["\"sum-0\"", "\"sum-1\"", "\"sum-2\"", "\"sum-3\""]);
}

#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_with_a_back_off_until_the_limit() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(job(|it| {
        it["backoffLimit"] = 2.into();
        annotate(it, "exit-code", "3");
    }))
    .await;
    let start = tokio::time::Instant::now();
    let failed = it.until_one(JOBS, "default/sum", |it| is_true(it, "Failed")).await;
    assert_eq!(condition(&failed, "Failed")["reason"], "BackoffLimitExceeded");
    assert!(is_true(&failed, "FailureTarget"));
    assert_eq!((&failed["status"]["failed"], failed["status"].get("succeeded")), (&json!(3), None));
    assert!(
        start.elapsed() >= Duration::from_secs(30),
        "the delays are 10 s and 20 s: {:?}",
        start.elapsed()
    );
    let pods = it.all(PODS);
    assert_eq!(pods.len(), 3);
    let state = &pods[0]["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&pods[0]["status"]["phase"], &state["exitCode"], &state["reason"]),
        (&json!("Failed"), &json!(3), &json!("Error"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_job_and_its_pods() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(job(|it| {
        it["activeDeadlineSeconds"] = 60.into();
        annotate(it, "complete-after", "1h");
    }))
    .await;
    let start = tokio::time::Instant::now();
    let failed = it.until_one(JOBS, "default/sum", |it| is_true(it, "Failed")).await;
    assert_eq!(condition(&failed, "Failed")["reason"], "DeadlineExceeded");
    assert!((59..65).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(failed["status"].get("active"), None);
    it.until(PODS, |all| all.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(job(|it| {
        it["parallelism"] = 2.into();
        it["completions"] = 2.into();
        annotate(it, "complete-after", "30s");
    }))
    .await;
    it.until_one(JOBS, "default/sum", |it| it["status"]["ready"] == 2).await;
    it.change(JOBS, "default/sum", |it| it["spec"]["suspend"] = true.into()).await;
    it.until(PODS, |all| all.is_empty()).await;
    it.until_one(JOBS, "default/sum", |it| is_true(it, "Suspended") && it["status"].get("active").is_none())
        .await;
    it.change(JOBS, "default/sum", |it| it["spec"]["suspend"] = false.into()).await;
    let done = it.until_one(JOBS, "default/sum", |it| is_true(it, "Complete")).await;
    assert_eq!((&done["status"]["succeeded"], done["status"].get("failed")), (&json!(2), None));
    assert_eq!(condition(&done, "Suspended")["reason"], "JobResumed");
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_is_deleted_after_its_time_to_live() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(job(|it| it["ttlSecondsAfterFinished"] = 100.into())).await;
    it.until_one(JOBS, "default/sum", |it| is_true(it, "Complete")).await;
    let start = tokio::time::Instant::now();
    it.until_gone(JOBS, "default/sum").await;
    assert!((98..105).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    it.until(PODS, |all| all.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_policy_ends_a_job_or_ignores_a_pod() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(job(|it| {
        it["podFailurePolicy"] = json!({ "rules": [
            { "action": "FailJob", "onExitCodes": { "operator": "In", "values": [42] } }] });
        annotate(it, "exit-code", "42");
    }))
    .await;
    let failed = it.until_one(JOBS, "default/sum", |it| is_true(it, "Failed")).await;
    assert_eq!(condition(&failed, "Failed")["reason"], "PodFailurePolicy");
    assert_eq!(it.all(PODS).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_index_has_a_limit_of_failures_of_its_own() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(job(|it| {
        it["completions"] = 2.into();
        it["parallelism"] = 2.into();
        it["completionMode"] = "Indexed".into();
        it["backoffLimitPerIndex"] = 1.into();
        annotate(it, "exit-code", "1");
    }))
    .await;
    let failed = it.until_one(JOBS, "default/sum", |it| is_true(it, "Failed")).await;
    assert_eq!(condition(&failed, "Failed")["reason"], "FailedIndexes");
    assert_eq!((&failed["status"]["failedIndexes"], &failed["status"]["failed"]), (&json!("0,1"), &json!(4)));
    let mut counts: Vec<_> = it
        .all(PODS)
        .iter()
        .map(|it| it["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"].to_string())
        .collect();
    counts.sort();
    assert_eq!(counts, ["\"0\"", "\"0\"", "\"1\"", "\"1\""]);
}

#[tokio::test(start_paused = true)]
async fn a_success_policy_ends_a_job_early() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(job(|it| {
        it["completions"] = 10.into();
        it["parallelism"] = 1.into();
        it["completionMode"] = "Indexed".into();
        it["successPolicy"] = json!({ "rules": [{ "succeededIndexes": "0-2", "succeededCount": 2 }] });
    }))
    .await;
    let done = it.until_one(JOBS, "default/sum", |it| is_true(it, "Complete")).await;
    assert_eq!(condition(&done, "Complete")["reason"], "SuccessPolicy");
    assert_eq!(done["status"]["completedIndexes"], "0,1");
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_deleted_job_are_not_held() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(job(|it| {
        it["parallelism"] = 3.into();
        annotate(it, "complete-after", "1h");
    }))
    .await;
    it.until_one(JOBS, "default/sum", |it| it["status"]["ready"] == 3).await;
    it.delete(JOBS, "default/sum", DeleteParams::background()).await;
    it.until(PODS, |all| all.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn the_requests_for_a_job_do_not_depend_on_other_jobs_and_pods() {
    let mut counts = Vec::new();
    for others in [1, 20] {
        let it = TestCluster::with(Settings::instant()).await;
        let mut other = job(|it| {
            it["parallelism"] = others.into();
            annotate(it, "complete-after", "1h");
        });
        other["metadata"]["name"] = "other".into();
        it.add(other).await;
        it.until_one(JOBS, "default/other", |it| it["status"]["ready"] == others).await;
        it.advance(Duration::from_secs(10)).await;
        it.server.request_log().clear();
        it.add(job(|_| ())).await;
        it.until_one(JOBS, "default/sum", |it| is_true(it, "Complete")).await;
        it.advance(Duration::from_secs(10)).await;
        counts.push(it.server.requests().count());
    }
    assert_eq!(counts[0], counts[1]);
}

#[tokio::test(start_paused = true)]
async fn a_bare_pod_ends_or_restarts_as_its_policy_says() {
    let it = TestCluster::with(Settings::default()).await;
    let pod = |name: &str, policy: &str, annotations: Value| {
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default", "annotations": annotations },
            "spec": { "restartPolicy": policy, "containers": [{ "name": "c", "image": "i" }] } })
    };
    it.add(pod("once", "Never", json!({}))).await;
    it.add(pod("again", "OnFailure", json!({ "simulator.dogwatch.dev/failures": "2" }))).await;
    it.add(pod("crashing", "Always", json!({ "simulator.dogwatch.dev/exit-code": "1" }))).await;
    it.add(pod("stays", "Always", json!({}))).await;
    it.until_one(PODS, "default/once", |it| it["status"]["phase"] == "Succeeded").await;
    let again = it.until_one(PODS, "default/again", |it| it["status"]["phase"] == "Succeeded").await;
    let container = &again["status"]["containerStatuses"][0];
    assert_eq!(
        (&container["restartCount"], &container["lastState"]["terminated"]["exitCode"]),
        (&json!(2), &json!(1))
    );
    let start = tokio::time::Instant::now();
    let waiting =
        |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"].to_string();
    let crashing = it.until_one(PODS, "default/crashing", |it| waiting(it).contains("back-off 40s")).await;
    assert!(start.elapsed() >= Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(crashing["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!((&crashing["status"]["phase"], is_true(&crashing, "Ready")), (&json!("Running"), false));
    let stays = it.get(PODS, "default/stays").unwrap();
    assert_eq!(
        (is_true(&stays, "Ready"), &stays["status"]["containerStatuses"][0]["restartCount"]),
        (true, &json!(0))
    );
}

#[tokio::test(start_paused = true)]
async fn annotations_delay_the_start_and_fail_pulls() {
    let it = TestCluster::with(Settings::default()).await;
    let pod = |name: &str, annotations: Value| {
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default", "annotations": annotations },
            "spec": { "containers": [{ "name": "c", "image": "i" }] } })
    };
    let start = tokio::time::Instant::now();
    it.add(pod("slow", json!({ "simulator.dogwatch.dev/start-after": "1m" }))).await;
    it.add(pod("unpulled", json!({ "simulator.dogwatch.dev/image-pull-failures": "2" }))).await;
    it.add(pod("wrong", json!({ "simulator.dogwatch.dev/start-after": "soon" }))).await;
    let reason = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
    it.until_one(PODS, "default/unpulled", |it| reason(it) == "ErrImagePull").await;
    it.until_one(PODS, "default/unpulled", |it| reason(it) == "ImagePullBackOff").await;
    it.until_one(PODS, "default/unpulled", |it| is_true(it, "Ready")).await;
    assert!((30..35).contains(&start.elapsed().as_secs()), "10 s and 20 s: {:?}", start.elapsed());
    it.until_one(PODS, "default/slow", |it| is_true(it, "Ready")).await;
    assert!((60..65).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    let events = it.all(("v1", "Event"));
    let warned = events.iter().filter(|it| it["reason"] == "InvalidAnnotation").collect::<Vec<_>>();
    assert_eq!((warned.len(), &warned[0]["involvedObject"]["name"]), (1, &json!("wrong")));
}
