//! A schedule: the settings of the informers and the steps of one run, as a printable value.
//!
//! A seed always gives the same schedule. Nothing here performs the steps; `world.rs` does.

use std::fmt;
use std::time::Duration;

use dogwatch_apiserver::faults::{Delay, Rule};
use dogwatch_informer::Overflow;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// The namespaces of the objects.
pub(crate) const NAMESPACES: [&str; 3] = ["a", "b", "c"];
/// The number of names in each namespace: few, so that names are reused.
const NAMES: u8 = 6;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) setting: Setting,
    pub(crate) steps: Vec<Step>,
}

/// The settings of the informers of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setting {
    /// True if collections are read by initial events, false if by lists.
    pub(crate) watch_list: bool,
    /// The page size; 0 leaves it to the informer.
    pub(crate) page_size: u32,
    /// The capacity of the delta queue, and the size of its batches.
    pub(crate) queue: usize,
    /// True if the definition exists from the start.
    pub(crate) defined: bool,
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Time passes.
    Pass(Duration),
    /// All other tasks run this many times, without time passing.
    Turns(u8),
    /// An object is created or changed, with or without the label that one of the informers selects
    /// by.
    Put(Place, bool),
    /// An object is created or changed, and its writer waits until the informer of the kind shows
    /// it.
    PutAndRead(Place),
    /// An object is created or changed so that informers cannot decode it. If set, its writer waits
    /// as well.
    Poison(Place, bool),
    /// Many objects of a namespace are written in quick succession.
    Burst(Kind, &'static str),
    Delete(Place),
    /// An object is deleted, and another one is created with its name at once.
    Recreate(Place),
    /// A namespace is deleted with everything in it. The next write recreates it.
    RemoveNamespace(&'static str),
    RemoveDefinition,
    ReturnDefinition,
    /// A fault rule is in force until faults are cleared.
    Trouble(Box<Rule>),
    /// A fault is injected now.
    Order(Order),
    /// All rules and pauses are removed.
    ClearSky,
    /// A handler or a stream is added.
    Join(Member),
    /// A member leaves: its index among the members, and whether its end is awaited.
    Leave(usize, bool),
    /// Every store is compared with the server's state at the store's version.
    Look,
    /// A copy of the cluster is saved.
    Snapshot,
    /// The server ends, and another one replaces it.
    Restart(Restart),
}

/// The state of the server that replaces another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    /// The same state: only the connections are lost.
    Same,
    /// No objects, like a server that keeps its objects in memory. Its versions are above those of
    /// the last one.
    Empty,
    /// The saved copy: versions go back, and belong to different states from there on.
    Snapshot,
}

/// The location of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) kind: Kind,
    pub(crate) namespace: &'static str,
    pub(crate) name: u8,
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Map,
    /// A custom resource whose definition is removed and recreated.
    Buoy,
}

/// A fault that affects all watches at once, or the server's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Drop,
    Cut,
    Bookmark,
    Pause,
    Resume,
    Compact,
    Expire,
}

/// The informers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// The config maps of all namespaces.
    Maps,
    /// The config maps of two namespaces, each listed and watched separately.
    TwoNamespaces,
    /// The config maps with a label.
    Labelled,
    Buoys,
}

pub(crate) const WATCHED: [Watched; 4] =
    [Watched::Maps, Watched::TwoNamespaces, Watched::Labelled, Watched::Buoys];

/// A receiver of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) of: Watched,
    pub(crate) overflow: Overflow,
    pub(crate) manner: Manner,
}

/// The manner in which a member receives changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// A handler.
    Called,
    /// A handler that panics at every n-th call.
    Panicking(u32),
    /// A handler behind a filter.
    Filtered,
    /// A handler with a resync at this interval and after every relist.
    Again(Duration),
    /// A stream that is read with this pause after each change.
    Reading(Duration),
}

impl Schedule {
    /// Returns the schedule of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut draw = Draw(StdRng::seed_from_u64(seed));
        let setting = Setting {
            watch_list: draw.0.random_bool(0.6),
            page_size: draw.one(&[0, 0, 1, 2, 5]),
            queue: draw.one(&[1, 2, 7, 64, 1024]),
            defined: draw.0.random_bool(0.7),
        };
        let count = draw.0.random_range(20..60);
        let steps = (0..count).map(|_| draw.step()).collect();
        Self { seed, setting, steps }
    }
}

/// The random choices of a schedule.
struct Draw(StdRng);

impl Draw {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        *of.choose(&mut self.0).expect("the slice is not empty")
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.random_range(0..end)
    }

    fn step(&mut self) -> Step {
        match self.below(100) {
            0..8 => self.passing(),
            8..18 => Step::Turns(self.0.random_range(1..40)),
            18..31 => Step::Put(self.place(), self.0.random_bool(0.6)),
            31..34 => Step::Poison(self.place(), self.0.random_bool(0.3)),
            34..37 => Step::PutAndRead(self.place()),
            37..41 => Step::Burst(self.kind(), self.one(&NAMESPACES)),
            41..48 => Step::Delete(self.place()),
            48..54 => Step::Recreate(self.place()),
            54..56 => Step::RemoveNamespace(self.one(&NAMESPACES)),
            56..59 => Step::RemoveDefinition,
            59..62 => Step::ReturnDefinition,
            62..72 => Step::Trouble(Box::new(self.rule())),
            72..80 => Step::Order(self.order()),
            80..82 => Step::ClearSky,
            82..90 => Step::Join(self.member()),
            90..93 => Step::Leave(self.below(16) as usize, self.0.random_bool(0.5)),
            93 => Step::Snapshot,
            94 => Step::Restart(self.one(&[Restart::Same, Restart::Empty, Restart::Snapshot])),
            _ => Step::Look,
        }
    }

    fn passing(&mut self) -> Step {
        let milliseconds = self.one(&[1, 20, 300, 1_000, 5_000, 40_000, 400_000]);
        Step::Pass(Duration::from_millis(milliseconds))
    }

    fn kind(&mut self) -> Kind {
        self.one(&[Kind::Map, Kind::Map, Kind::Map, Kind::Buoy])
    }

    fn place(&mut self) -> Place {
        let (kind, namespace) = (self.kind(), self.one(&NAMESPACES));
        Place { kind, namespace, name: self.0.random_range(0..NAMES) }
    }

    fn order(&mut self) -> Order {
        use Order::{Bookmark, Compact, Cut, Drop, Expire, Pause, Resume};
        self.one(&[Drop, Cut, Bookmark, Pause, Resume, Compact, Expire])
    }

    fn member(&mut self) -> Member {
        let overflow = self.one(&[
            Overflow::Coalesce,
            Overflow::Coalesce,
            Overflow::Grow,
            Overflow::Block(0),
            Overflow::Block(3),
            Overflow::Block(20),
        ]);
        // A member that blocks the informer must not block it for ever.
        let pauses: &[u64] = if matches!(overflow, Overflow::Block(_)) {
            &[0, 1, 50, 700]
        } else {
            &[0, 1, 50, 1_000, 5_000, 60_000]
        };
        let manner = match self.below(8) {
            0..2 => Manner::Called,
            2 => Manner::Panicking(self.one(&[1, 2, 5])),
            3 => Manner::Filtered,
            4 => Manner::Again(Duration::from_secs(self.one(&[10, 60, 600]))),
            _ => Manner::Reading(Duration::from_millis(self.one(pauses))),
        };
        Member { of: self.one(&WATCHED), overflow, manner }
    }

    /// Returns a rule with any effect, on any requests.
    fn rule(&mut self) -> Rule {
        let effect = self.below(13);
        let on_watches = effect >= 8;
        let mut rule = match (on_watches, self.below(4)) {
            (true, _) | (false, 0) => Rule::on("watch"),
            (false, 1) => Rule::on("list").or("watch"),
            (false, 2) => Rule::on("create").or("update").or("delete"),
            _ => Rule::on_everything(),
        };
        rule = match self.below(4) {
            0 => rule.resource("configmaps"),
            1 => rule.resource("buoys.soak.example"),
            2 => rule.namespace(self.one(&NAMESPACES)),
            _ => rule,
        };
        if self.0.random_bool(0.6) {
            rule = rule.times(self.0.random_range(1..6));
        }
        if self.0.random_bool(0.6) {
            rule = rule.probability(self.one(&[0.1, 0.3, 0.7]), self.0.random());
        }
        let length = |draw: &mut Self| {
            let ends = [1, 30, 900, 4_000, 20_000];
            let (one, other) = (draw.one(&ends), draw.one(&ends));
            Delay::between(Duration::from_millis(one), Duration::from_millis(other))
        };
        match effect {
            0 => rule.refuse(429).retry_after(self.0.random_range(0..4)),
            1 => rule.refuse(500),
            2 => rule.refuse(self.one(&[502, 503, 504])),
            3 => rule.refuse(410).reason("Expired"),
            4 => rule.refuse(self.one(&[400, 401, 403, 409, 422])),
            5 => rule.reset_before(),
            6 => rule.reset_after(),
            7 => rule.delay(length(self)),
            8 => rule.lag(length(self)),
            9 => rule.pause(),
            10 if self.0.random_bool(0.5) => rule.drop_after(self.below(6)),
            10 => rule.cut_after(self.below(6)),
            11 => rule.split(self.0.random_range(1..60)),
            _ => rule.coalesce(length(self)),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {:?}", self.seed, self.setting)?;
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{number:3} {step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trouble(rule) => {
                write!(f, "Trouble {}", serde_json::to_string(rule).map_err(|_| fmt::Error)?)
            }
            Self::Put(place, on) => write!(f, "Put {place}{}", if *on { ", labelled" } else { "" }),
            Self::PutAndRead(place) => write!(f, "PutAndRead {place}"),
            Self::Poison(place, read) => {
                write!(f, "Poison {place}{}", if *read { ", and read" } else { "" })
            }
            Self::Delete(place) => write!(f, "Delete {place}"),
            Self::Recreate(place) => write!(f, "Recreate {place}"),
            Self::Join(Member { of, overflow, manner }) => write!(f, "Join {of:?} {overflow:?} {manner:?}"),
            other => write!(f, "{other:?}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}/n{}", self.kind, self.namespace, self.name)
    }
}
