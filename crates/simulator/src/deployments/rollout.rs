//! The next sizes of the ReplicaSets of a Deployment, as rolling.go, recreate.go and sync.go in
//! k8s.io/kubernetes v1.36.4 pkg/controller/deployment decide them.

use super::model::{Desired, ReplicaSetState};

/// The next step of a Deployment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RolloutStep {
    /// Creates a ReplicaSet of this size for its template.
    Create(i64),
    /// Gives these ReplicaSets another size, or updates their annotations.
    Resize(Vec<(String, i64)>),
    /// No step for now.
    Rest,
}

/// Decides the next step. `olds` are all ReplicaSets of other templates; `old_pods` is set while
/// pods of those exist.
pub(super) fn step(
    wanted: &Desired,
    new: Option<&ReplicaSetState>,
    olds: &[ReplicaSetState],
    old_pods: bool,
) -> RolloutStep {
    let all = || olds.iter().chain(new);
    let rescaled =
        all().filter(|it| it.replicas > 0).any(|it| it.desired.is_some_and(|it| it != wanted.replicas));
    let resizes = if wanted.paused || rescaled {
        scale(wanted, new, olds)
    } else if wanted.recreate {
        let active: Vec<_> =
            olds.iter().filter(|it| it.replicas > 0).map(|it| (it.name.clone(), 0)).collect();
        match new {
            _ if !active.is_empty() => active,
            _ if old_pods => Vec::new(),
            None => return RolloutStep::Create(wanted.replicas),
            Some(new) => resize(new, wanted.replicas),
        }
    } else {
        let Some(new) = new else { return RolloutStep::Create(grown(wanted, olds, None)) };
        let size =
            if new.replicas > wanted.replicas { wanted.replicas } else { grown(wanted, olds, Some(new)) };
        let up = resize(new, size);
        if up.is_empty() { shrink(wanted, new, olds) } else { up }
    };
    if resizes.is_empty() { RolloutStep::Rest } else { RolloutStep::Resize(resizes) }
}

fn resize(set: &ReplicaSetState, size: i64) -> Vec<(String, i64)> {
    if set.replicas == size { Vec::new() } else { vec![(set.name.clone(), size)] }
}

/// Returns the size to which the new ReplicaSet may grow.
fn grown(wanted: &Desired, olds: &[ReplicaSetState], new: Option<&ReplicaSetState>) -> i64 {
    let size = new.map_or(0, |it| it.replicas);
    let total = size + olds.iter().map(|it| it.replicas).sum::<i64>();
    let room = wanted.maximum() - total;
    if room <= 0 { size } else { size + room.min(wanted.replicas - size) }
}

/// Returns the new sizes of old ReplicaSets so that enough pods stay available; unavailable pods
/// are removed first.
fn shrink(wanted: &Desired, new: &ReplicaSetState, olds: &[ReplicaSetState]) -> Vec<(String, i64)> {
    let mut olds: Vec<ReplicaSetState> = olds.iter().filter(|it| it.replicas > 0).cloned().collect();
    olds.sort_by(|left, right| left.age().cmp(&right.age()));
    let before: Vec<i64> = olds.iter().map(|it| it.replicas).collect();
    let total = new.replicas + before.iter().sum::<i64>();
    let needed = wanted.replicas - wanted.unavailable;
    let mut unhealthy = total - needed - (new.replicas - new.available);
    if unhealthy <= 0 {
        return Vec::new();
    }
    for set in &mut olds {
        let down = unhealthy.min(set.replicas - set.available).max(0);
        set.replicas -= down;
        unhealthy -= down;
    }
    let available = new.available + olds.iter().map(|it| it.available).sum::<i64>();
    let mut spare = (available - needed).max(0);
    for set in &mut olds {
        let down = spare.min(set.replicas);
        set.replicas -= down;
        spare -= down;
    }
    let changed = olds.into_iter().zip(before).filter(|(set, before)| set.replicas != *before);
    changed.map(|(set, _)| (set.name, set.replicas)).collect()
}

/// Returns the sizes after the Deployment itself was scaled: each ReplicaSet changes in proportion,
/// as in k8s.io/kubernetes v1.36.4 pkg/controller/deployment/sync.go.
fn scale(wanted: &Desired, new: Option<&ReplicaSetState>, olds: &[ReplicaSetState]) -> Vec<(String, i64)> {
    let mut active: Vec<&ReplicaSetState> = olds.iter().chain(new).filter(|it| it.replicas > 0).collect();
    let newest = || new.or_else(|| olds.iter().max_by(|left, right| left.age().cmp(&right.age())));
    match active.as_slice() {
        [] => return newest().map_or_else(Vec::new, |it| resize(it, wanted.replicas)),
        // Even at the right size, its annotations must be updated.
        [only] => return vec![(only.name.clone(), wanted.replicas)],
        _ => {}
    }
    let full = |it: &ReplicaSetState| {
        it.replicas == wanted.replicas
            && it.desired == Some(wanted.replicas)
            && it.available == wanted.replicas
    };
    if new.is_some_and(full) {
        return olds.iter().filter(|it| it.replicas > 0).map(|it| (it.name.clone(), 0)).collect();
    }
    if wanted.recreate {
        return Vec::new();
    }
    let allowed = if wanted.replicas > 0 { wanted.maximum() } else { 0 };
    let to_add = allowed - active.iter().map(|it| it.replicas).sum::<i64>();
    // The largest first; of the same size, newer ones grow first and older ones shrink first.
    active.sort_by(|left, right| {
        let age = if to_add > 0 { right.age().cmp(&left.age()) } else { left.age().cmp(&right.age()) };
        right.replicas.cmp(&left.replicas).then(age)
    });
    let mut added = 0;
    let mut sizes: Vec<(String, i64)> = Vec::new();
    for set in &active {
        let left = to_add - added;
        let share = fraction(wanted, set);
        let part = if to_add > 0 { share.min(left) } else { share.max(left) };
        let part = if left == 0 { 0 } else { part };
        added += part;
        sizes.push((set.name.clone(), set.replicas + part));
    }
    if let Some((_, size)) = sizes.first_mut() {
        *size = (*size + to_add - added).max(0);
    }
    sizes
}

/// Returns the change of a ReplicaSet if all change in proportion.
fn fraction(wanted: &Desired, set: &ReplicaSetState) -> i64 {
    if wanted.replicas == 0 {
        return -set.replicas;
    }
    // Anyone can write the annotation that the maximum comes from.
    let before = set.maximum.filter(|it| *it > 0).unwrap_or(wanted.status_replicas);
    if before <= 0 {
        return 0;
    }
    // Rounded to the nearest, halves away from zero; neither is ever negative here.
    let (replicas, maximum, before) =
        (i128::from(set.replicas), i128::from(wanted.maximum()), i128::from(before));
    let size = (2 * replicas * maximum + before) / (2 * before);
    i64::try_from(size).unwrap_or(i64::MAX).saturating_sub(set.replicas)
}

/// Returns the ReplicaSets beyond the revision history limit of a Deployment, oldest first.
pub(super) fn expired_revisions(limit: Option<i64>, olds: &[ReplicaSetState]) -> Vec<String> {
    let Some(limit) = limit.filter(|it| *it != i64::from(i32::MAX)) else { return Vec::new() };
    let mut past: Vec<&ReplicaSetState> = olds.iter().filter(|it| !it.deleting).collect();
    past.sort_by(|left, right| left.revision.cmp(&right.revision).then(left.age().cmp(&right.age())));
    let excess = past.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    let empty = |it: &&&ReplicaSetState| it.replicas == 0 && it.actual == 0 && it.observed;
    past[..excess].iter().filter(empty).map(|it| it.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(replicas: i64, surge: i64, unavailable: i64) -> Desired {
        Desired { replicas, surge, unavailable, ..Desired::default() }
    }

    fn set(name: &str, replicas: i64, available: i64) -> ReplicaSetState {
        ReplicaSetState {
            name: name.to_owned(),
            replicas,
            actual: replicas,
            ready: available,
            available,
            observed: true,
            created: name.to_owned(),
            ..ReplicaSetState::default()
        }
    }

    fn resized(sizes: &[(&str, i64)]) -> RolloutStep {
        RolloutStep::Resize(sizes.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect())
    }

    #[test]
    fn the_first_set_is_created_at_full_size_and_the_next_within_the_surge() {
        assert_eq!(step(&wanted(3, 1, 0), None, &[], false), RolloutStep::Create(3));
        assert_eq!(step(&wanted(3, 1, 0), None, &[set("1", 3, 3)], true), RolloutStep::Create(1));
        assert_eq!(step(&wanted(3, 0, 1), None, &[set("1", 3, 3)], true), RolloutStep::Create(0));
    }

    #[test]
    fn a_rollout_moves_by_surge_and_availability_until_it_is_done() {
        for (surge, unavailable, new, old, expected) in [
            // One more is allowed: it is created, becomes available, and an old one is removed.
            (1, 0, (1, 0), (3, 3), RolloutStep::Rest),
            (1, 0, (1, 1), (3, 3), resized(&[("1", 2)])),
            (1, 0, (1, 1), (2, 2), resized(&[("2", 2)])),
            (1, 0, (3, 3), (1, 1), resized(&[("1", 0)])),
            (1, 0, (3, 3), (0, 0), RolloutStep::Rest),
            // One fewer may be available: an old one is removed first.
            (0, 1, (0, 0), (3, 3), resized(&[("1", 2)])),
            (0, 1, (0, 0), (2, 2), resized(&[("2", 1)])),
            // Old ones that are not available are removed without waiting.
            (1, 0, (1, 1), (3, 1), resized(&[("1", 2)])),
            (1, 1, (1, 1), (3, 0), resized(&[("1", 1)])),
        ] {
            let got = step(
                &wanted(3, surge, unavailable),
                Some(&set("2", new.0, new.1)),
                &[set("1", old.0, old.1)],
                true,
            );
            assert_eq!(got, expected, "surge {surge}, unavailable {unavailable}, new {new:?}, old {old:?}");
        }
    }

    #[test]
    fn recreate_waits_until_the_old_ones_are_gone() {
        let wanted = Desired { recreate: true, ..wanted(3, 0, 0) };
        assert_eq!(step(&wanted, None, &[set("1", 3, 3)], true), resized(&[("1", 0)]));
        assert_eq!(step(&wanted, None, &[set("1", 0, 0)], true), RolloutStep::Rest);
        assert_eq!(step(&wanted, None, &[set("1", 0, 0)], false), RolloutStep::Create(3));
        assert_eq!(step(&wanted, Some(&set("2", 0, 0)), &[set("1", 0, 0)], false), resized(&[("2", 3)]));
    }

    #[test]
    fn a_new_size_is_shared_by_the_sets_of_a_rollout() {
        let known = |set: ReplicaSetState, desired, maximum| ReplicaSetState {
            desired: Some(desired),
            maximum: Some(maximum),
            ..set
        };
        let only = known(set("1", 3, 3), 3, 4);
        assert_eq!(step(&wanted(5, 1, 0), Some(&only), &[], false), resized(&[("1", 5)]));
        // Ten replicas with a surge of three, in the middle of a rollout; then twice as many.
        let (new, old) = (known(set("2", 5, 5), 10, 13), known(set("1", 8, 8), 10, 13));
        assert_eq!(
            step(&wanted(20, 5, 0), Some(&new), std::slice::from_ref(&old), true),
            resized(&[("1", 15), ("2", 10)])
        );
        assert_eq!(step(&wanted(0, 0, 0), Some(&new), &[old], true), resized(&[("1", 0), ("2", 0)]));
    }

    #[test]
    fn a_paused_deployment_scales_and_does_not_roll() {
        let paused = |replicas| Desired { paused: true, ..wanted(replicas, 1, 0) };
        assert_eq!(step(&paused(3), None, &[], false), RolloutStep::Rest);
        assert_eq!(step(&paused(5), None, &[set("1", 3, 3)], true), resized(&[("1", 5)]));
        let full = ReplicaSetState { desired: Some(3), ..set("2", 3, 3) };
        assert_eq!(step(&paused(3), Some(&full), &[set("1", 1, 1)], true), resized(&[("1", 0)]));
    }

    #[test]
    fn old_sets_beyond_the_history_limit_are_deleted() {
        let past =
            |name: &str, revision, replicas| ReplicaSetState { revision, ..set(name, replicas, replicas) };
        let olds = [past("c", 3, 0), past("a", 1, 0), past("b", 2, 1), past("d", 4, 0)];
        assert_eq!(expired_revisions(Some(2), &olds), ["a"], "one that has pods is kept");
        assert_eq!(expired_revisions(Some(0), &olds), ["a", "c", "d"]);
        assert!(expired_revisions(Some(10), &olds).is_empty() && expired_revisions(None, &olds).is_empty());
    }

    proptest::proptest! {
        /// A rollout ends, never has more replicas than allowed, and never fewer available than
        /// required.
        #[test]
        fn every_rollout_ends_within_its_bounds(replicas in 0..20i64, surge in 0..5i64, unavailable in 0..5i64, old in 0..20i64) {
            let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
            let wanted = wanted(replicas, surge, unavailable);
            let mut new: Option<ReplicaSetState> = None;
            let mut olds = vec![set("1", old, old)];
            for _ in 0..200 {
                match step(&wanted, new.as_ref(), &olds, true) {
                    RolloutStep::Create(size) => new = Some(set("2", size, 0)),
                    RolloutStep::Resize(sizes) => {
                        let before: i64 = olds.iter().chain(&new).map(|it| it.available).sum();
                        for (name, size) in sizes {
                            let all = olds.iter_mut().chain(&mut new);
                            for it in all.filter(|it| it.name == name) {
                                it.replicas = size;
                                it.available = it.available.min(size);
                            }
                        }
                        let available: i64 = olds.iter().chain(&new).map(|it| it.available).sum();
                        let must = (replicas - unavailable).min(before);
                        proptest::prop_assert!(available >= must, "{available} < {must}");
                    }
                    RolloutStep::Rest => match new.as_mut().filter(|it| it.available < it.replicas) {
                        Some(new) => new.available += 1,
                        None => break,
                    },
                }
                let total: i64 = olds.iter().chain(&new).map(|it| it.replicas).sum();
                proptest::prop_assert!(total <= wanted.maximum().max(old));
            }
            proptest::prop_assert_eq!(new.map(|it| it.replicas), Some(replicas));
            proptest::prop_assert_eq!(olds[0].replicas, 0);
        }
    }
}
