//! The upstream scenarios of leader election, and those of upstream's bugs, in paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::scripted::{Connection, Delivery, Outcome, Server};
use super::{ElectionEnded, LeaderElector, Leadership, record};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn elector(connection: Connection, identity: &str) -> LeaderElector {
    LeaderElector::with_lock(connection, "lock").identity(identity).build().expect("valid settings")
}

/// Returns work that sets a flag while it leads, and clears it when it is dropped.
fn flag() -> (Arc<AtomicBool>, impl FnOnce(Leadership) -> BoxFuture<'static, ()>) {
    struct Lower(Arc<AtomicBool>);
    impl Drop for Lower {
        fn drop(&mut self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }
    let up = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&up);
    let lead = move |_led: Leadership| {
        raised.store(true, Ordering::SeqCst);
        let lower = Lower(raised);
        let work: BoxFuture<'static, ()> = Box::pin(async move {
            let _lower = lower;
            std::future::pending().await
        });
        work
    };
    (up, lead)
}

#[tokio::test(start_paused = true)]
async fn le_2_fast_path_a_leader_renews_without_reading() {
    let server = Arc::new(Server::default());
    let elector = elector(Connection::good(&server), "me");
    elector.run_while_leading(|_| sleep(s(5))).await.expect("led");
    assert_eq!(server.log(), ["get", "create me", "update me", "update me", "get", "update "]);
}

#[tokio::test(start_paused = true)]
async fn le_2_fast_path_a_conflict_is_read_again_in_the_same_attempt() {
    let server = Arc::new(Server::default());
    let elector = elector(Connection::good(&server), "me");
    let work = async {
        sleep(s(1)).await;
        server.edit(|lease| lease);
        sleep(s(4)).await;
    };
    elector.run_while_leading(|_| work).await.expect("led");
    let expected = ["get", "create me", "update me", "get", "update me", "update me", "get", "update "];
    assert_eq!(server.log(), expected);
}

#[tokio::test(start_paused = true)]
async fn le_2_an_expired_lease_is_taken_when_its_own_duration_is_over_since_it_was_seen() {
    let server = Arc::new(Server::default());
    let other = json!({ "metadata": { "name": "lock" }, "spec": { "holderIdentity": "other",
        "leaseDurationSeconds": 7, "leaseTransitions": 4, "renewTime": "1999-01-01T00:00:00.000000Z" } });
    server.edit(|_| Some(serde_json::from_value(other).expect("a lease")));
    let elector = elector(Connection::good(&server), "me");
    let mut leaders = elector.leaders();
    let start = Instant::now();
    let transitions =
        elector.run_while_leading(async |led: Leadership| led.transitions()).await.expect("led");
    assert_eq!(transitions, 5);
    let waited = start.elapsed();
    assert!(waited >= s(7) && waited < s(7) + ms(10), "{waited:?}");
    assert_eq!(leaders.borrow_and_update().as_deref(), None, "released");
}

/// Replicas that all have the same name, or a pod that was force-deleted while its node kept
/// running.
#[tokio::test(start_paused = true)]
async fn two_processes_with_one_identity_do_not_both_lead() {
    let server = Arc::new(Server::default());
    let (first, second) =
        (elector(Connection::good(&server), "me"), elector(Connection::good(&server), "me"));
    let ((up, lead), (second_up, second_lead)) = (flag(), flag());
    let mut leading = tokio::spawn(async move { first.run_while_leading(lead).await });
    sleep(s(1)).await;
    assert!(up.load(Ordering::SeqCst));
    let waiting = tokio::spawn(async move { second.run_while_leading(second_lead).await });
    for _ in 0..600 {
        sleep(Duration::from_millis(100)).await;
        assert!(up.load(Ordering::SeqCst) && !second_up.load(Ordering::SeqCst), "one of them leads");
    }
    // The first one crashes: its lease expires, and the second one does not lead before that.
    leading.abort();
    assert!((&mut leading).await.is_err_and(|it| it.is_cancelled()));
    sleep(s(10)).await;
    assert!(!second_up.load(Ordering::SeqCst), "the lease has not expired");
    sleep(s(8)).await;
    assert!(second_up.load(Ordering::SeqCst));
    waiting.abort();
}

/// A standby that stops must not release the lease of another process with its identity.
#[tokio::test(start_paused = true)]
async fn a_standby_of_the_same_identity_that_stops_leaves_the_lease_alone() {
    let server = Arc::new(Server::default());
    let (_, lead) = flag();
    let first = elector(Connection::good(&server), "me");
    let leading = tokio::spawn(async move { first.run_while_leading(lead).await });
    sleep(s(1)).await;
    // The outcome of its write is unknown to it.
    let second = elector(Connection::good(&server), "me");
    second.candidate.lock().await.in_doubt = true;
    let stopped = second.run_until(sleep(s(5)), |_| async {}).await;
    assert!(matches!(stopped, Err(ElectionEnded::Stopped)));
    assert_eq!(server.holder().as_deref(), Some("me"));
    leading.abort();
}

/// Runs are serialised, but a run that only waits for another one must not outlast its stop.
#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_another_of_its_elector_can_be_stopped() {
    let server = Arc::new(Server::default());
    let (up, lead) = flag();
    let elector = elector(Connection::good(&server), "me");
    let first = elector.clone();
    let leading = tokio::spawn(async move { first.run_while_leading(lead).await });
    sleep(s(1)).await;
    let stopped = tokio::time::timeout(s(60), elector.run_until(sleep(s(5)), |_| async {})).await;
    assert!(matches!(stopped, Ok(Err(ElectionEnded::Stopped))), "{stopped:?}");
    assert!(up.load(Ordering::SeqCst) && server.holder().as_deref() == Some("me"));
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_work_is_done_returns_while_another_of_its_elector_leads() {
    let server = Arc::new(Server::default());
    let elector = elector(Connection::good(&server), "me");
    let second = elector.clone();
    let next = tokio::spawn(async move {
        sleep(s(1)).await;
        second.run_while_leading(|_| std::future::pending::<()>()).await
    });
    let first = tokio::time::timeout(s(60), elector.run_while_leading(|_| sleep(s(5)))).await;
    assert!(matches!(first, Ok(Ok(()))), "{first:?}");
    sleep(s(30)).await;
    assert!(elector.is_leader(), "the second run leads after the first has released the lease");
    next.abort();
}

/// A holder that writes no instance is recognised by its identity, as in client-go.
#[tokio::test(start_paused = true)]
async fn le_2_a_lease_of_our_identity_without_an_instance_is_our_own() {
    let server = Arc::new(Server::default());
    let own = json!({ "metadata": { "name": "lock" }, "spec": { "holderIdentity": "me",
        "leaseDurationSeconds": 15, "renewTime": "1999-01-01T00:00:00.000000Z" } });
    server.edit(|_| Some(serde_json::from_value(own).expect("a lease")));
    let start = Instant::now();
    elector(Connection::good(&server), "me").run_while_leading(|_| async {}).await.expect("led");
    assert!(start.elapsed() < s(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn le_2_any_request_that_fails_while_acquiring_is_retried() {
    let server = Arc::new(Server::default());
    let (no, yes) = (Outcome::Refused(500), Outcome::Answered);
    let elector = elector(
        Connection::script(&server, [no, Outcome::Cut, yes, no, yes, Outcome::AnswerLost, yes, no]),
        "me",
    );
    elector.run_while_leading(|_| async {}).await.expect("led");
    let expected = ["get", "get", "create me", "get", "get", "update me", "get", "update "];
    assert_eq!(server.log(), expected);
}

#[tokio::test(start_paused = true)]
async fn le_3_a_leader_that_cannot_renew_stops_at_the_deadline_since_its_last_renewal() {
    for end in [Outcome::Cut, Outcome::Silent, Outcome::Refused(500)] {
        let server = Arc::new(Server::default());
        let broken = Arc::new(AtomicBool::new(false));
        let connection = {
            let broken = Arc::clone(&broken);
            Connection::new(&server, move |_| {
                Delivery::prompt(if broken.load(Ordering::SeqCst) { end } else { Outcome::Answered })
            })
        };
        let elector = elector(connection, "me");
        let start = Instant::now();
        let (up, lead) = flag();
        let run = elector.run_while_leading(lead);
        let watch = async {
            sleep(s(3)).await;
            broken.store(true, Ordering::SeqCst);
            // The last renewal was sent 2 s after the start, so the deadline is 12 s after it.
            sleep(s(9) - ms(2)).await;
            assert!(up.load(Ordering::SeqCst) && elector.is_leader(), "{end:?}: before the deadline");
            sleep(Duration::from_millis(4)).await;
            assert!(!up.load(Ordering::SeqCst) && !elector.is_leader(), "{end:?}: after it");
        };
        let (ended, ()) = tokio::join!(run, watch);
        assert!(matches!(ended, Err(ElectionEnded::NotRenewed { .. })), "{end:?}: {ended:?}");
        assert!(start.elapsed() < s(12) + ms(5), "{end:?}: {:?}", start.elapsed());
        assert_eq!(server.holder().as_deref(), Some("me"), "a lost lease is not released");
    }
}

/// Upstream counts the deadline from the response and the wait after it, so a slow server stretches
/// it beyond the lease.
#[tokio::test(start_paused = true)]
async fn le_3_the_deadline_counts_from_when_a_renewal_was_sent() {
    let server = Arc::new(Server::default());
    let mut requests = 0;
    let connection = Connection::new(&server, move |_| {
        requests += 1;
        match requests {
            1 | 2 => Delivery::prompt(Outcome::Answered),
            // Carried out at once, answered 4 s later.
            3 => Delivery { there: Duration::ZERO, back: s(4), end: Outcome::Answered },
            _ => Delivery::prompt(Outcome::Cut),
        }
    });
    let start = Instant::now();
    let ended = elector(connection, "me").run_while_leading(|_| std::future::pending::<()>()).await;
    assert!(matches!(ended, Err(ElectionEnded::NotRenewed { source: Some(_) })), "{ended:?}");
    let elapsed = start.elapsed();
    assert!(elapsed >= s(12) && elapsed < s(12) + ms(5), "{elapsed:?}");
}

/// Upstream continues until its deadline although it has read that another candidate holds the
/// lease.
#[tokio::test(start_paused = true)]
async fn le_3_a_leader_that_sees_another_stops_at_once() {
    let server = Arc::new(Server::default());
    let elector = elector(Connection::good(&server), "me");
    let start = Instant::now();
    let usurper = async {
        sleep(s(1)).await;
        server.edit(|lease| {
            lease.map(|mut lease| {
                lease.spec.get_or_insert_default().holder_identity = Some("usurper".to_owned());
                lease
            })
        });
    };
    let (ended, ()) = tokio::join!(elector.run_while_leading(|_| std::future::pending::<()>()), usurper);
    let ended = ended.expect_err("lost");
    assert_eq!(ended.to_string(), "the lease was taken by usurper");
    assert!(start.elapsed() < s(2) + ms(5));
    assert_eq!((server.holder().as_deref(), elector.leader().as_deref()), (Some("usurper"), Some("usurper")));
}

#[tokio::test(start_paused = true)]
async fn le_3_a_deleted_lease_is_recreated_by_the_leader_and_not_taken_by_a_standby_that_saw_it() {
    let server = Arc::new(Server::default());
    let me = elector(Connection::good(&server), "me");
    let other = elector(Connection::good(&server), "other");
    let (up, lead) = flag();
    let run = me.run_while_leading(lead);
    let standby = async {
        sleep(s(1)).await;
        other.run_while_leading(|_| async {}).await
    };
    let meddler = async {
        sleep(Duration::from_millis(3_900)).await;
        server.edit(|_| None);
        sleep(s(30)).await;
        assert!(up.load(Ordering::SeqCst), "still leads");
        assert_eq!(server.holder().as_deref(), Some("me"));
    };
    tokio::select! {
        biased;
        _ = run => panic!("the leader stopped leading"),
        _ = standby => panic!("the standby became leader"),
        () = meddler => {}
    }
}

/// A candidate that never saw the lease, or last saw it as its own, cannot know that another one
/// leads.
#[tokio::test(start_paused = true)]
async fn a_newcomer_that_waits_before_creating_does_not_lead_next_to_a_leader_whose_lease_was_deleted() {
    let server = Arc::new(Server::default());
    let cautious = |who: &str| {
        LeaderElector::with_lock(Connection::good(&server), "lock")
            .identity(who)
            .wait_before_creating()
            .build()
            .expect("valid")
    };
    let (me, newcomer) = (cautious("me"), cautious("newcomer"));
    let (up, lead) = flag();
    let began = Instant::now();
    let run = me.run_while_leading(lead);
    let meddler = async {
        sleep(s(14)).await;
        assert!(!up.load(Ordering::SeqCst), "it waits for a whole lease duration");
        sleep(s(5)).await;
        assert!(up.load(Ordering::SeqCst) && began.elapsed() == s(19));
        server.edit(|_| None);
        let second = newcomer.run_while_leading(|_| std::future::pending::<()>());
        assert!(tokio::time::timeout(s(60), second).await.is_err());
        assert!(up.load(Ordering::SeqCst) && server.holder().as_deref() == Some("me"));
    };
    tokio::select! {
        biased;
        _ = run => panic!("the leader stopped leading"),
        () = meddler => {}
    }
}

#[tokio::test(start_paused = true)]
async fn le_4_release_lease_lets_another_lead_within_a_retry_period() {
    let server = Arc::new(Server::default());
    let [one, other] = ["one", "other"].map(|it| elector(Connection::good(&server), it));
    let stop = Notify::new();
    let first = one.run_until(stop.notified(), |_| std::future::pending::<()>());
    let stopped = async {
        sleep(s(20)).await;
        stop.notify_one();
        Instant::now()
    };
    let second = async {
        sleep(s(1)).await;
        other.run_while_leading(async |led: Leadership| (led.transitions(), Instant::now())).await
    };
    let (ended, at, next) = tokio::join!(first, stopped, second);
    assert!(matches!(ended, Err(ElectionEnded::Stopped)));
    let (transitions, led_at) = next.expect("led");
    assert_eq!(transitions, 1);
    assert!(led_at - at <= s(2) + ms(2), "{:?}", led_at - at);
}

/// Upstream compares only the last observed holder, so it clears the lease of a later holder.
#[tokio::test(start_paused = true)]
async fn le_4_release_compares_the_fetched_holder_and_leaves_anothers_lease() {
    let server = Arc::new(Server::default());
    let elector = elector(Connection::good(&server), "me");
    let work = async {
        server.edit(|lease| {
            lease.map(|mut lease| {
                lease.spec.get_or_insert_default().holder_identity = Some("other".to_owned());
                lease
            })
        });
    };
    elector.run_while_leading(|_| work).await.expect("the work ends before the loss is noticed");
    assert_eq!(server.holder().as_deref(), Some("other"));
    assert_eq!(server.log(), ["get", "create me", "get"]);
}

#[tokio::test(start_paused = true)]
async fn le_4_release_retries_on_conflict() {
    let server = Arc::new(Server::default());
    let connection = {
        let (server, mut gets) = (Arc::clone(&server), 0);
        Connection::new(&Arc::clone(&server), move |verb| {
            gets += usize::from(verb == "get");
            // Another client touches the lease between the first read of the release and its write.
            if verb == "update" && gets == 2 {
                server.edit(|lease| lease);
                gets += 1;
            }
            Delivery::prompt(Outcome::Answered)
        })
    };
    elector(connection, "me").run_while_leading(|_| async {}).await.expect("led");
    assert_eq!(server.log(), ["get", "create me", "get", "update ", "get", "update "]);
    assert_eq!(server.holder(), None);
}

#[tokio::test(start_paused = true)]
async fn le_4_the_work_has_ended_before_the_lease_is_released() {
    let server = Arc::new(Server::default());
    let (up, lead) = flag();
    let connection = {
        let (up, server) = (Arc::clone(&up), Arc::clone(&server));
        Connection::new(&server.clone(), move |_| {
            let released = server.lease().is_some_and(|it| record::holder(&it).is_none());
            assert!(!(released && up.load(Ordering::SeqCst)), "released while the work went on");
            Delivery::prompt(Outcome::Answered)
        })
    };
    let ended = elector(connection, "me").run_until(sleep(s(5)), lead).await;
    assert!(matches!(ended, Err(ElectionEnded::Stopped)) && !up.load(Ordering::SeqCst));
    assert_eq!(server.holder(), None);
}

#[tokio::test(start_paused = true)]
async fn le_4_release_on_cancellation_during_a_write_whose_outcome_is_unknown() {
    let server = Arc::new(Server::default());
    let connection = Connection::script(&server, [Outcome::Answered, Outcome::AnswerSilent]);
    let ended = elector(connection, "me").run_until(sleep(s(1)), |_| async {}).await;
    assert!(matches!(ended, Err(ElectionEnded::Stopped)));
    assert_eq!(server.log(), ["get", "create me", "get", "update "]);
    assert_eq!(server.holder(), None);
}

#[tokio::test(start_paused = true)]
async fn le_4_cancellation_during_a_read_has_nothing_to_release() {
    let server = Arc::new(Server::default());
    let connection = Connection::script(&server, [Outcome::Silent]);
    let ended = elector(connection, "me").run_until(sleep(s(1)), |_| async {}).await;
    assert!(matches!(ended, Err(ElectionEnded::Stopped)));
    assert_eq!(server.log(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn le_4_without_release_on_stop_the_lease_expires() {
    let server = Arc::new(Server::default());
    let elector =
        LeaderElector::with_lock(Connection::good(&server), "lock").identity("me").release_on_stop(false);
    elector.build().expect("valid").run_while_leading(|_| async {}).await.expect("led");
    assert_eq!(server.holder().as_deref(), Some("me"));
}

#[tokio::test(start_paused = true)]
async fn le_5_labels_and_whole_seconds_are_written_to_the_lease() {
    let server = Arc::new(Server::default());
    let elector = LeaderElector::with_lock(Connection::good(&server), "lock")
        .identity("me")
        .label("app", "mine")
        .lease_duration(Duration::from_millis(2_100))
        .renew_deadline(s(2))
        .retry_period(s(1))
        .release_on_stop(false);
    elector.build().expect("valid").run_while_leading(|_| async {}).await.expect("led");
    let lease = server.lease().expect("there");
    assert_eq!(record::duration(&lease), Some(s(3)));
    assert_eq!(lease.metadata.labels.expect("labels")["app"], "mine");
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_waits_for_the_leader_ends_only_a_standby() {
    let server = Arc::new(Server::default());
    let [one, other] = ["one", "other"].map(|it| elector(Connection::good(&server), it));
    let orderly = async |elector: &LeaderElector| {
        sleep(s(5)).await;
        if elector.is_leader() {
            std::future::pending().await
        }
    };
    let leader = one.run_until(orderly(&one), async |_| {
        sleep(s(9)).await;
        "drained"
    });
    let standby = async {
        sleep(s(1)).await;
        other.run_until(orderly(&other), async |_| "led").await
    };
    let (first, second) = tokio::join!(leader, standby);
    assert_eq!(first.expect("ends by itself"), "drained");
    assert!(matches!(second, Err(ElectionEnded::Stopped)));
}

#[tokio::test(start_paused = true)]
async fn many_leases_of_one_process_are_led_at_once() {
    let servers = [(); 20].map(|()| Arc::new(Server::default()));
    let electors = servers.each_ref().map(|it| elector(Connection::good(it), "me"));
    let together = tokio::sync::Barrier::new(20);
    let runs = electors.iter().map(|it| it.run_while_leading(async |_| together.wait().await.is_leader()));
    let all = futures_util::future::join_all(runs).await;
    assert_eq!(all.into_iter().filter(|it| matches!(it, Ok(true))).count(), 1, "all of them lead at once");
}

#[tokio::test(start_paused = true)]
async fn a_cloned_leadership_handle_shows_when_its_term_is_over() {
    let server = Arc::new(Server::default());
    let elector = elector(Connection::good(&server), "me");
    let kept = elector.run_while_leading(async |led: Leadership| led).await.expect("led");
    assert!(!kept.is_leading());
    kept.lost().await;
    let next =
        elector.run_while_leading(async |led: Leadership| led.is_leading()).await.expect("leads again");
    assert!(next && !kept.is_leading(), "a new term is not the old one");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_drops_the_work_and_ends_the_renewals() {
    let server = Arc::new(Server::default());
    let elector = elector(Connection::good(&server), "me");
    let (up, lead) = flag();
    let cut = tokio::time::timeout(s(3), elector.run_while_leading(lead)).await;
    assert!(cut.is_err() && !up.load(Ordering::SeqCst) && !elector.is_leader());
    server.log();
    sleep(s(60)).await;
    assert_eq!(server.log(), [""; 0], "no more renewals");
}

/// A future that computes without yielding cannot be dropped. The renewals and the term continue in
/// parallel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_blocks_its_thread_does_not_keep_the_lease_from_being_renewed() {
    let server = Arc::new(Server::default());
    let elector = LeaderElector::with_lock(Connection::good(&server), "lock")
        .identity("me")
        .lease_duration(s(600))
        .renew_deadline(s(500))
        .retry_period(Duration::from_millis(1))
        .build()
        .expect("valid");
    let watched = Arc::clone(&server);
    let work = move |_: Leadership| async move {
        let updates = || watched.log().iter().filter(|it| *it == "update me").count();
        let mut seen = 0;
        while seen < 3 {
            seen += updates();
            std::thread::yield_now();
        }
    };
    tokio::spawn(async move { elector.run_while_leading(work).await }).await.expect("no panic").expect("led");
}
