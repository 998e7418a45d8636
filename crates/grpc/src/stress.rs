//! Stress tests of the types that calls and the balancer share, on real threads. The loom models of
//! the same steps are in `tests/it/loom_models.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::load::Load;
use crate::policy::{Group, LeastRequest, Member, Policy, PolicyState};
use crate::random;

const ENDPOINTS: usize = 8;
const CALLERS: usize = 4;
const PICKS: usize = 5_000;

fn loads() -> Vec<Arc<Load>> {
    (0..ENDPOINTS).map(|_| Arc::new(Load::new(Duration::from_millis(1), 0))).collect()
}

/// Returns a snapshot of the endpoints whose bit is set; each slot names its snapshot and its
/// index.
fn group(bits: usize, loads: &[Arc<Load>], policy: &Policy) -> Group<(usize, usize)> {
    let keys: Vec<_> = (0..ENDPOINTS).map(|it| it.to_string()).collect();
    let member = |index: usize| Member {
        key: &keys[index],
        weight: 1,
        zone: None,
        ready: Some(((bits, index), Arc::clone(&loads[index]))),
        connecting: false,
        admission: u32::MAX,
    };
    let members = (0..ENDPOINTS).filter(|it| bits & 1 << it != 0).map(member).collect();
    Group::new(members, policy, None, Arc::new(PolicyState::new()))
}

/// Counts a caller down when it ends, also by a panic: the test ends with its last caller.
struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Snapshots are replaced as fast as possible while calls pick from them and hold on to their
/// picks.
#[test]
fn picks_come_from_one_snapshot_and_every_call_is_uncounted() {
    for policy in [Policy::RoundRobin, LeastRequest::default().into()] {
        let loads = loads();
        let snapshot = ArcSwap::from_pointee(group(0xff, &loads, &policy));
        let callers = AtomicUsize::new(CALLERS);
        thread::scope(|scope| {
            for _ in 0..CALLERS {
                scope.spawn(|| {
                    let _leaving = Leaving(&callers);
                    let mut held = Vec::new();
                    for _ in 0..PICKS {
                        let snapshot = snapshot.load();
                        let (slot, call) = snapshot.pick(|| None).expect("one endpoint is always ready");
                        assert!(slot.0 & 1 << slot.1 != 0, "{slot:?} is not in its snapshot");
                        held.push(call);
                        if held.len() > 16 {
                            held.swap_remove(random::below(16));
                        }
                    }
                });
            }
            scope.spawn(|| {
                while callers.load(Ordering::SeqCst) > 0 {
                    let bits = 1 + random::below(255);
                    snapshot.store(Arc::new(group(bits, &loads, &policy)));
                }
            });
        });
        assert!(loads.iter().all(|it| it.in_flight() == 0));
        drop(snapshot);
        assert!(loads.iter().all(|it| Arc::strong_count(it) == 1), "a snapshot or a call is left");
    }
}

/// Calls come and go on other threads while one task repeatedly waits for an idle moment: it is
/// always woken.
#[test]
fn waiting_for_no_calls_in_flight_never_misses_a_wakeup() {
    let load = Arc::new(Load::new(Duration::from_millis(1), 0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let (one, other) = (load.begin(), load.begin());
                    drop(one);
                    drop(other);
                    thread::yield_now();
                }
            });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let in_time = async |waits| {
            let waiting = async {
                for _ in 0..waits {
                    load.wait_until_idle().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), waiting).await.is_ok()
        };
        let woken = runtime.block_on(in_time(2_000));
        stop.store(true, Ordering::SeqCst);
        assert!(woken, "the task was not woken");
        assert!(runtime.block_on(in_time(1)), "the task was not woken at the end");
    });
    assert_eq!(load.in_flight(), 0);
}
