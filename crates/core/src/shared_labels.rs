//! Label sets that objects share: the pods of one ReplicaSet have the same labels.

use std::cell::RefCell;
use std::sync::Arc;

use compact_str::CompactString;

/// Labels, sorted by key.
pub(crate) type SharedLabels = Arc<[(CompactString, CompactString)]>;

/// The number of label sets that a thread remembers. Objects with the same labels mostly arrive
/// together, since their names begin alike and lists are sorted.
const REMEMBERED: usize = 256;

/// The maximum number of labels, and of bytes in them, of a set that is remembered.
const LARGEST: usize = 32;
const LARGEST_BYTES: usize = 4096;

thread_local! {
    /// The last label sets, each at the place that its hash gives.
    static LAST: RefCell<Vec<SharedLabels>> = const { RefCell::new(Vec::new()) };
}

/// Returns these labels, shared with earlier objects of the same labels if this thread has decoded
/// them recently.
///
/// Half of the memory of a small view is labels. A thread remembers the last 256 label sets of an
/// ordinary size, also after their objects are gone; that takes some 100 KB, and at most 2 MB.
pub(crate) fn shared(labels: Vec<(CompactString, CompactString)>) -> SharedLabels {
    let bytes = || labels.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    if labels.len() > LARGEST || bytes() > LARGEST_BYTES {
        return labels.into();
    }
    if labels.is_empty() {
        return Arc::default();
    }
    let place = place(&labels);
    LAST.with_borrow_mut(|last| {
        if last.is_empty() {
            last.resize_with(REMEMBERED, Arc::default);
        }
        if *last[place] != *labels {
            last[place] = labels.into();
        }
        Arc::clone(&last[place])
    })
}

/// Returns the place of labels by a hash of their values, in which objects of one kind differ.
/// Labels at the same place displace each other, which only costs memory.
fn place(labels: &[(CompactString, CompactString)]) -> usize {
    let mut hash = 0_usize;
    for byte in labels.iter().flat_map(|(_, value)| value.bytes()) {
        hash = (hash ^ usize::from(byte)).wrapping_mul(0x0100_0193);
    }
    (hash ^ hash >> 16) % REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(value: &str) -> Vec<(CompactString, CompactString)> {
        vec![("app".into(), "web".into()), ("hash".into(), value.into())]
    }

    #[test]
    fn equal_labels_are_shared_and_others_are_not() {
        let (one, two, other) = (shared(labels("a")), shared(labels("a")), shared(labels("b")));
        assert!(Arc::ptr_eq(&one, &two));
        assert_eq!((&*one, &*other), (&*labels("a"), &*labels("b")));
        assert!(shared(Vec::new()).is_empty());
    }

    #[test]
    fn the_memory_of_a_thread_is_bounded() {
        for number in 0..10 * REMEMBERED {
            assert_eq!(*shared(labels(&number.to_string())), *labels(&number.to_string()));
        }
        LAST.with_borrow(|last| assert_eq!(last.len(), REMEMBERED));
    }

    #[test]
    fn large_label_sets_are_not_remembered() {
        let many = |number: usize| (0..100).map(|at| (format!("{number}-{at}").into(), "".into())).collect();
        let long = |number: usize| vec![(format!("{number}").into(), "x".repeat(5_000).into())];
        for number in 0..REMEMBERED {
            assert_eq!(shared(many(number)).len(), 100);
            assert_eq!(shared(long(number)).len(), 1);
        }
        LAST.with_borrow(|last| assert!(last.iter().all(|it| it.is_empty())));
    }
}
