//! CronJobs as their users see them, on a paused clock that starts at 2026-01-02T03:04:05Z.

use std::time::Duration;

use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster};

const CRON_JOBS: Kind = ("batch/v1", "CronJob");
const JOBS: Kind = ("batch/v1", "Job");
const MINUTE: Duration = Duration::from_secs(60);

/// Returns a CronJob whose Jobs take this long.
fn cron_job(schedule: &str, takes: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut cron_job = json!({ "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": { "name": "backup", "namespace": "default" },
        "spec": { "schedule": schedule, "jobTemplate": { "metadata": { "labels": { "app": "backup" } },
            "spec": { "template": {
                "metadata": { "annotations": { "simulator.dogwatch.dev/complete-after": takes } },
                "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } } } });
    change(&mut cron_job["spec"]);
    cron_job
}

fn is_complete(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Complete" && it["status"] == "True")
}

/// Returns the times for which Jobs were created.
fn scheduled(jobs: &[Value]) -> Vec<&str> {
    let name = "batch.kubernetes.io/cronjob-scheduled-timestamp";
    jobs.iter().map(|it| it["metadata"]["annotations"][name].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn jobs_start_at_the_times_of_the_schedule_and_only_the_last_ones_are_kept() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(cron_job("*/5 * * * *", "1s", |_| ())).await;
    it.advance(30 * MINUTE).await;
    let jobs = it.all(JOBS);
    assert_eq!(scheduled(&jobs), ["2026-01-02T03:20:00Z", "2026-01-02T03:25:00Z", "2026-01-02T03:30:00Z"]);
    assert!(jobs.iter().all(is_complete));
    assert_eq!(jobs[0]["metadata"]["labels"]["app"], "backup");
    let status = it.get(CRON_JOBS, "default/backup").unwrap()["status"].clone();
    assert_eq!((status.get("active"), &status["lastScheduleTime"]), (None, &json!("2026-01-02T03:30:00Z")));
    assert!(status["lastSuccessfulTime"].as_str().unwrap() > "2026-01-02T03:30:00Z");
}

#[tokio::test(start_paused = true)]
async fn the_concurrency_policy_decides_about_a_job_that_still_runs() {
    for (policy, expected) in [("Allow", 3), ("Forbid", 1), ("Replace", 1)] {
        let it = TestCluster::with(Settings::instant()).await;
        it.add(cron_job("* * * * *", "1h", |it| it["concurrencyPolicy"] = policy.into())).await;
        it.advance(3 * MINUTE).await;
        let jobs = it.until(JOBS, |all| all.len() == expected).await;
        let last = if policy == "Forbid" { "2026-01-02T03:05:00Z" } else { "2026-01-02T03:07:00Z" };
        assert_eq!(scheduled(&jobs).last(), Some(&last), "{policy}");
        let active = it.get(CRON_JOBS, "default/backup").unwrap()["status"]["active"].clone();
        assert_eq!(active.as_array().map(Vec::len), Some(expected), "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspended_schedule_rests_and_catches_up_within_its_deadline() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(cron_job("*/10 * * * *", "1s", |it| {
        it["suspend"] = true.into();
        it["startingDeadlineSeconds"] = 120.into();
    }))
    .await;
    it.advance(30 * MINUTE).await;
    assert!(it.all(JOBS).is_empty());
    // It is 03:34: the time of 03:30 is too long ago.
    it.change(CRON_JOBS, "default/backup", |it| it["spec"]["suspend"] = false.into()).await;
    it.advance(MINUTE).await;
    assert!(it.all(JOBS).is_empty());
    it.change(CRON_JOBS, "default/backup", |it| it["spec"]["startingDeadlineSeconds"] = 600.into()).await;
    let jobs = it.until(JOBS, |all| !all.is_empty()).await;
    assert_eq!(scheduled(&jobs), ["2026-01-02T03:30:00Z"]);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_in_its_time_zone() {
    if jiff::tz::TimeZone::get("Asia/Tokyo").is_err() {
        return; // a machine without a database of time zones
    }
    let it = TestCluster::with(Settings::instant()).await;
    it.add(cron_job("30 12 * * *", "1s", |it| it["timeZone"] = "Asia/Tokyo".into())).await;
    it.advance(30 * MINUTE).await;
    let jobs = it.until(JOBS, |all| !all.is_empty()).await;
    assert_eq!(scheduled(&jobs), ["2026-01-02T12:30:00+09:00"]);
    assert!(jobs[0]["metadata"]["name"].as_str().unwrap().starts_with("backup-"));
}
