//! What happens in one run, as a value that prints: the settings of the informers, and the steps in their order.
//!
//! A seed gives a schedule, always the same one. Nothing here performs anything; the world does.

use std::fmt;
use std::time::Duration;

use dogwatch_apiserver::faults::{Delay, Rule};
use dogwatch_informer::Overflow;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// The namespaces in which something happens.
pub(crate) const NAMESPACES: [&str; 3] = ["a", "b", "c"];
/// How many names there are in each: few, so that names come back.
const NAMES: u8 = 6;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) setting: Setting,
    pub(crate) steps: Vec<Step>,
}

/// How the informers of a run are built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setting {
    /// Whether collections are streamed first, or listed.
    pub(crate) watch_list: bool,
    /// Objects a page; 0 leaves it to the informer.
    pub(crate) page_size: u32,
    /// How many deltas may wait, and are applied at once.
    pub(crate) queue: usize,
    /// Whether the definition is there from the start.
    pub(crate) defined: bool,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Time passes.
    Pass(Duration),
    /// Everybody else has this many turns, in no time.
    Turns(u8),
    /// An object is created or changed; whether it carries the label that one of the informers selects by.
    Put(Place, bool),
    /// The same, and whoever wrote it waits until the informer of all has it.
    PutAndRead(Place),
    /// An object is created or changed so that informers cannot decode it; whether its writer waits, too.
    Poison(Place, bool),
    /// Many objects of a namespace are written, one right after the other.
    Burst(Kind, &'static str),
    Delete(Place),
    /// An object goes, and another comes under its name at once.
    Recreate(Place),
    /// A namespace goes with everything in it. It comes back with the next write.
    RemoveNamespace(&'static str),
    RemoveDefinition,
    ReturnDefinition,
    /// Something goes wrong until the sky clears.
    Trouble(Box<Rule>),
    /// Something goes wrong now.
    Order(Order),
    /// No rule is left, and nothing is paused.
    ClearSky,
    /// Somebody wants to be told of changes.
    Join(Member),
    /// One of those leaves: by its place among those that are there, and whether its end is waited for.
    Leave(usize, bool),
    /// Every store is compared with what the server had at the store's version.
    Look,
    /// A copy of the cluster is put aside.
    Snapshot,
    /// The server ends, and another takes its place.
    Restart(Restart),
}

/// What the server that takes the place of another knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    /// Everything: only the connections are gone.
    Same,
    /// Nothing, like a server that keeps its objects in memory. Its versions are above those of the last one.
    Empty,
    /// What was put aside last: versions go backwards, and mean something else from there on.
    Snapshot,
}

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) kind: Kind,
    pub(crate) namespace: &'static str,
    pub(crate) name: u8,
}

/// What kind of object it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Map,
    /// One whose definition comes and goes.
    Buoy,
}

/// What all watches are made to do at once, or what is done to the server's memory.
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
    /// The maps of all namespaces.
    Maps,
    /// The maps of two namespaces, each read by itself.
    TwoNamespaces,
    /// The maps with a label.
    Labelled,
    Buoys,
}

pub(crate) const WATCHED: [Watched; 4] =
    [Watched::Maps, Watched::TwoNamespaces, Watched::Labelled, Watched::Buoys];

/// Who is told of changes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) of: Watched,
    pub(crate) overflow: Overflow,
    pub(crate) manner: Manner,
}

/// How somebody takes what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// A handler.
    Called,
    /// A handler that panics at every so many calls.
    Panicking(u32),
    /// A handler behind a filter.
    Filtered,
    /// A handler that is told of everything again, this often and after every new list.
    Again(Duration),
    /// A stream that is read with this pause after each change.
    Reading(Duration),
}

impl Schedule {
    /// The schedule of a seed.
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

/// Chance, and what is made of it.
struct Draw(StdRng);

impl Draw {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        *of.choose(&mut self.0).expect("there is something to choose from")
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
        // Who makes the informer wait must not make it wait for ever.
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

    /// A rule of any kind there is, on any of the requests there are.
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
