//! Collections that the server does not serve, or appears not to serve: what happens to their
//! objects.

use std::time::Duration;

use dogwatch_core::Reason;
use dogwatch_informer::{HandlerOptions, HealthState, OnGone, SharedInformer};

use crate::informer::{add, settle, started};
use crate::live::Live;
use crate::script::{MINUTE, SECOND};

/// A proxy, a load balancer or a server that has just started answers 404 too: nothing may be taken
/// for deleted because of it.
#[tokio::test(start_paused = true)]
async fn a_collection_that_is_not_found_for_a_while_loses_nothing() {
    for page in [false, true] {
        let live = Live::defined(&["a@1", "b@2"]);
        let informer = SharedInformer::builder(live.clone()).on_gone(OnGone::Clear).build();
        informer.start();
        informer.synced().await.expect("the informer syncs");
        let (received, _) = add(&informer, HandlerOptions::default());
        settle().await;
        received.take();
        if page {
            live.answer_with_a_page()
        } else {
            live.refuse(Some(Reason::NotFound))
        }
        let time = if page { 60 * MINUTE } else { MINUTE + 30 * SECOND };
        tokio::time::sleep(time).await;
        let health = informer.health();
        assert!(matches!(health.state, HealthState::Retrying { .. }), "page: {page}: {health}");
        assert_eq!((informer.store().len(), received.take().len()), (2, 0), "page: {page}");
        live.refuse(None);
        tokio::time::sleep(2 * MINUTE).await;
        assert!(informer.health().is_ok(), "{}", informer.health());
        assert_eq!(received.take(), Vec::<String>::new(), "page: {page}");
    }
}

/// Like client-go, the informer retries for ever and keeps the known objects; in addition, the
/// health reports the problem.
#[tokio::test(start_paused = true)]
async fn a_collection_that_is_gone_keeps_its_objects_until_it_is_back() {
    let live = Live::defined(&["a@1", "c@2"]);
    let informer = started(&live).await;
    let (received, _) = add(&informer, HandlerOptions::default());
    live.refuse(Some(Reason::NotFound));
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!(informer.health().state, HealthState::NotServed);
    assert_eq!(received.take(), ["!a@1", "!c@2"]);
    assert!(informer.store().len() == 2 && !informer.is_stopped());

    tokio::time::sleep(10 * MINUTE).await;
    let asked = live.lists();
    tokio::time::sleep(MINUTE).await;
    assert!(live.lists() - asked <= 8, "it retries rarely");

    live.set(&["b@9", "c@2"]);
    live.refuse(None);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(received.take(), ["~a@1", "+b@9"]);
    assert!(informer.health().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_is_gone_is_emptied_under_the_clear_policy_unless_it_is_built_in() {
    for (live, kept) in [(Live::defined(&["a@1"]), false), (Live::new(&["a@1"]), true)] {
        let informer = SharedInformer::builder(live.clone()).on_gone(OnGone::Clear).build();
        informer.start();
        let (received, registration) = add(&informer, HandlerOptions::default());
        registration.synced().await.expect("the handler syncs");
        received.take();
        live.refuse(Some(Reason::NotFound));
        tokio::time::sleep(5 * MINUTE).await;
        assert_eq!(informer.health().state, HealthState::NotServed);
        assert_eq!(informer.store().is_empty(), !kept);
        assert_eq!(received.take(), if kept { vec![] } else { vec!["~a@1"] });

        // A collection that is back must again be gone for the full period.
        live.set(&["a@9"]);
        live.refuse(None);
        tokio::time::sleep(MINUTE).await;
        assert_eq!(received.take(), if kept { ["a@1>9"] } else { ["+a@9"] });
        live.refuse(Some(Reason::NotFound));
        tokio::time::sleep(MINUTE).await;
        assert_eq!((informer.store().len(), received.take().len()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_is_gone_ends_an_informer_without_revival() {
    for never in [None, Some(Duration::ZERO)] {
        let live = Live::new(&["a@1"]);
        live.refuse(Some(Reason::NotFound));
        let informer = SharedInformer::builder(live).retry_not_served_after(never).build();
        informer.start();
        let error = informer.synced().await.expect_err("the collection is gone");
        assert!(
            error.to_string().starts_with("informer things ended before it was synced: not served"),
            "{error}"
        );
        assert!(informer.is_stopped());
    }
}
