//! Readers concurrent with the writer: waiting for a version, and consistency under real threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use dogwatch_core::ResourceVersion;
use dogwatch_informer::{Delta, Index, StoreWriter, WaitError};

use crate::store::{TestStore, Thing, list, thing};

/// Ends the readers when the writer ends, also by a panic.
struct EndReaders<'a>(&'a AtomicBool);

impl Drop for EndReaders<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_the_store_has_reached_the_version() {
    let mut it = TestStore::new();
    let store = it.store.clone();
    let synced = tokio::spawn({
        let store = store.clone();
        async move { store.wait_synced().await }
    });
    let reached = tokio::spawn({
        let store = store.clone();
        async move {
            store.wait_until(&"7".into()).await?;
            Ok::<_, WaitError>(store.version())
        }
    });
    tokio::task::yield_now().await;
    it.apply(list("5", []));
    assert_eq!(synced.await.unwrap(), Ok(()));
    it.apply([Delta::Applied(thing("a/x", "6"))]);
    tokio::task::yield_now().await;
    assert!(!reached.is_finished());
    it.apply([Delta::Bookmark("10".into())]);
    assert_eq!(reached.await.unwrap(), Ok(ResourceVersion::new("10")));
    for past in ["", "5", "10"] {
        assert_eq!(store.wait_until(&past.into()).await, Ok(()), "{past:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_version_that_cannot_come_is_an_error() {
    let mut it = TestStore::new();
    it.apply(list("5", []));
    assert_eq!(it.store.wait_until(&"abc".into()).await, Err(WaitError::Incomparable));
    it.apply(list("abc", []));
    assert_eq!(it.store.wait_until(&"abc".into()).await, Ok(()));
    it.apply(list("6", []));
    let store = it.store.clone();
    let waiting = tokio::spawn(async move { store.wait_until(&"7".into()).await });
    tokio::task::yield_now().await;
    let store = it.store.clone();
    drop(it);
    assert_eq!(waiting.await.unwrap(), Err(WaitError::Closed));
    assert_eq!(
        (store.wait_until(&"6".into()).await, store.is_synced()),
        (Ok(()), true),
        "the last state stays readable"
    );
    let TestStore { writer, store } = TestStore::new();
    drop(writer);
    assert_eq!(store.wait_synced().await, Err(WaitError::Closed));
}

/// The writer moves amounts between accounts, two deltas per batch: every snapshot has the same
/// sum, in the tree and in the index.
#[test]
fn readers_on_other_threads_never_see_a_mix_of_two_states() {
    const ACCOUNTS: usize = 500;
    const BATCHES: usize = 3_000;
    let account = |number: usize, version: usize, amount: i64| Thing {
        number: amount,
        ..thing(&format!("ns-{}/{number}", number % 7), &version.to_string())
    };
    let mut writer = StoreWriter::<Thing>::new();
    let store = writer.store();
    store.add_index(Index::new("debt", |it: &Thing| (it.number < 0).then(|| "yes".to_owned()))).unwrap();
    let mut changes = Vec::new();
    writer.apply(list("1", (0..ACCOUNTS).map(|it| account(it, 1, 0))), &mut changes);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = EndReaders(&done);
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let snapshot = store.snapshot();
                    let sum: i64 = snapshot.iter().map(|it| it.number).sum();
                    let by_namespace: usize =
                        (0..7).map(|it| snapshot.in_namespace(&format!("ns-{it}")).count()).sum();
                    let debts = snapshot.iter().filter(|it| it.number < 0).count();
                    assert_eq!((sum, snapshot.len(), by_namespace), (0, ACCOUNTS, ACCOUNTS));
                    assert_eq!(snapshot.by_index("debt", "yes").unwrap().len(), debts);
                    let version: usize = snapshot.version().as_str().parse().unwrap();
                    assert!(version >= last, "{version} after {last}");
                    last = version;
                }
            });
        }
        let mut amounts = [0i64; ACCOUNTS];
        for batch in 0..BATCHES {
            let (from, to) = (batch * 31 % ACCOUNTS, (batch * 17 + 5) % ACCOUNTS);
            amounts[from] -= 3;
            amounts[to] += 3;
            let version = 10 + batch * 2;
            let mut deltas = vec![Delta::Applied(account(from, version, amounts[from]))];
            deltas.push(Delta::Applied(account(to, version + 1, amounts[to])));
            if batch % 500 == 499 {
                let all =
                    amounts.iter().enumerate().map(|(number, amount)| account(number, version + 1, *amount));
                deltas = list(&(version + 1).to_string(), all);
            }
            changes.clear();
            writer.apply(deltas, &mut changes);
        }
    });
    assert_eq!(store.len(), ACCOUNTS);
}

/// The writer and index changes derive new states in turns: neither loses the other's changes, and
/// an index that exists is complete.
#[test]
fn indexes_can_be_added_and_removed_concurrently_with_the_writer() {
    const OBJECTS: usize = 200;
    const BATCHES: usize = 2_000;
    let object = |number: usize, version: usize| Thing {
        number: version as i64,
        ..thing(&format!("ns/{number}"), &version.to_string())
    };
    let by_parity =
        || Index::new("parity", |it: &Thing| [if it.number % 2 == 0 { "even" } else { "odd" }.to_owned()]);
    let mut writer = StoreWriter::<Thing>::new();
    let store = writer.store();
    let mut changes = Vec::new();
    writer.apply(list("1", (0..OBJECTS).map(|it| object(it, 1))), &mut changes);
    let (done, whole) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _end = EndReaders(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.add_index(by_parity()).unwrap();
                thread::yield_now();
                store.remove_index("parity").unwrap();
            }
        });
        for reader in 0..2 {
            let (store, done, whole) = (&store, &done, &whole);
            scope.spawn(move || {
                let key = format!("ns/{reader}").parse().unwrap();
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let snapshot = store.snapshot();
                    if let (Ok(even), Ok(odd)) =
                        (snapshot.by_index("parity", "even"), snapshot.by_index("parity", "odd"))
                    {
                        assert!(even.iter().all(|it| it.number % 2 == 0));
                        assert!(odd.iter().all(|it| it.number % 2 != 0));
                        assert_eq!(even.len() + odd.len(), OBJECTS);
                        whole.fetch_add(1, Ordering::Relaxed);
                    }
                    let seen = store.get(&key).expect("the object is never deleted").number;
                    assert!(seen >= last, "{seen} after {last}");
                    last = seen;
                }
            });
        }
        // Until a reader has seen an index, however the threads are scheduled.
        for batch in (0..).take_while(|it| *it < BATCHES || whole.load(Ordering::Relaxed) == 0) {
            changes.clear();
            writer.apply([Delta::Applied(object(batch % OBJECTS, batch + 2))], &mut changes);
        }
    });
    assert_eq!(store.len(), OBJECTS);
}

/// All waiters wait for every version before the next one comes, so a lost wake-up at any of them
/// would hang the test.
#[test]
fn waiters_on_other_threads_are_woken_at_every_version() {
    const WAITERS: usize = 4;
    const VERSIONS: usize = 1_000;
    let mut writer = StoreWriter::<Thing>::new();
    let store = writer.store();
    let arrived = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(async {
                    for version in 1..=VERSIONS {
                        let version = ResourceVersion::new(&version.to_string());
                        store.wait_until(&version).await.unwrap();
                        assert!(!store.version().is_older_than(&version));
                        arrived.fetch_add(1, Ordering::Relaxed);
                    }
                });
            });
        }
        let mut changes = Vec::new();
        writer.apply(list("1", []), &mut changes);
        for version in 2..=VERSIONS + 1 {
            while arrived.load(Ordering::Relaxed) < WAITERS * (version - 1) {
                thread::yield_now();
            }
            writer.apply([Delta::Bookmark(ResourceVersion::new(&version.to_string()))], &mut changes);
        }
    });
}
