//! One run as a printable value: what happens to parents, children and the server, in order. A seed
//! determines one schedule.

use std::fmt;
use std::time::Duration;

use dogwatch_apiserver::faults::{Delay, Rule};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// The maximum number of parents. Few, so that names are reused.
const PARENTS: u8 = 4;
/// The maximum number of children of a parent.
const CHILDREN: u8 = 3;

/// A schedule: the steps of one run.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    pub(crate) steps: Vec<Step>,
}

/// One step of a schedule.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Time passes.
    Pass(Duration),
    /// Every other task is polled this many times, without any time passing.
    Turns(u8),
    /// A parent is created or changed: its number of children.
    Want(u8, u8),
    /// A parent is created or changed so that the controller's informer cannot decode it.
    Poison(u8),
    /// A parent is deleted.
    Drop(u8),
    /// Another client deletes a child.
    Steal(u8, u8),
    /// Another client creates a child under its owner, and deletes it at once.
    Flash(u8, u8),
    /// Another client changes the contents of a child.
    Spoil(u8, u8),
    /// Another client gives a child to another parent, and may delete it at once.
    Move { child: (u8, u8), to: u8, delete: bool },
    /// A fault until the next [`Step::Clear`].
    Fault(Box<Rule>),
    /// All watches end.
    CutWatches,
    /// The history is compacted, so that every watch that resumes expires.
    Expire,
    /// Nothing is delivered to watches until the next [`Step::Clear`].
    Pause,
    /// All faults end.
    Clear,
    /// The controller's process exits, and another one starts.
    RestartController,
    /// The server exits, and one with the same objects starts.
    RestartServer,
}

impl Schedule {
    /// Returns the schedule of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut draw = Draw(StdRng::seed_from_u64(seed));
        let workers = draw.one(&[1, 1, 2, 4]);
        let count = draw.0.random_range(15..50);
        // At least one parent, so that there is something to disturb.
        let parents: Vec<_> =
            (0..PARENTS).map(|it| Step::Want(it, draw.0.random_range(0..=CHILDREN))).collect();
        let steps = parents.into_iter().chain((0..count).map(|_| draw.step())).collect();
        Self { seed, workers, steps }
    }
}

struct Draw(StdRng);

impl Draw {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        *of.choose(&mut self.0).expect("the choices are not empty")
    }

    fn parent(&mut self) -> u8 {
        self.0.random_range(0..PARENTS)
    }

    fn child(&mut self) -> (u8, u8) {
        (self.parent(), self.0.random_range(0..CHILDREN))
    }

    fn step(&mut self) -> Step {
        let (parent, child) = self.child();
        match self.0.random_range(0..100) {
            0..12 => {
                let milliseconds = self.one(&[1, 20, 300, 1_000, 5_000, 40_000, 400_000]);
                Step::Pass(Duration::from_millis(milliseconds))
            }
            12..22 => Step::Turns(self.0.random_range(1..60)),
            22..37 => Step::Want(parent, self.0.random_range(0..=CHILDREN)),
            37..40 => Step::Poison(parent),
            40..45 => Step::Drop(parent),
            45..57 => Step::Steal(parent, child),
            57..63 => Step::Flash(parent, child),
            63..68 => Step::Spoil(parent, child),
            68..74 => {
                Step::Move { child: (parent, child), to: self.parent(), delete: self.0.random_bool(0.5) }
            }
            74..84 => Step::Fault(Box::new(self.rule())),
            84..87 => Step::CutWatches,
            87..90 => Step::Expire,
            90..93 => Step::Pause,
            93..96 => Step::Clear,
            96..98 => Step::RestartController,
            _ => Step::RestartServer,
        }
    }

    fn rule(&mut self) -> Rule {
        let effect = self.0.random_range(0..7);
        let mut rule = match self.0.random_range(0..4) {
            // Only events can lag.
            _ if effect == 6 => Rule::on("watch"),
            0 => Rule::on("watch"),
            1 => Rule::on("list").or("watch"),
            2 => Rule::on("create").or("update").or("delete"),
            _ => Rule::on_everything(),
        };
        if self.0.random_bool(0.7) {
            rule = rule.times(self.0.random_range(1..6));
        }
        if self.0.random_bool(0.6) {
            rule = rule.probability(self.one(&[0.1, 0.3, 0.7]), self.0.random());
        }
        let most = Duration::from_millis(self.one(&[5, 300, 4_000, 20_000]));
        match effect {
            0 => rule.refuse(429).retry_after(self.0.random_range(0..4)),
            1 => rule.refuse(self.one(&[500, 503, 504])),
            2 => rule.refuse(409),
            3 => rule.reset_before(),
            4 => rule.reset_after(),
            5 => rule.delay(Delay::between(Duration::from_millis(1), most)),
            _ => rule.lag(Delay::between(Duration::from_millis(1), most)),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {} workers", self.seed, self.workers)?;
        for (number, step) in self.steps.iter().enumerate() {
            match step {
                Step::Fault(rule) => {
                    let rule = serde_json::to_string(rule).map_err(|_| fmt::Error)?;
                    writeln!(f, "{number:3} Fault {rule}")?;
                }
                other => writeln!(f, "{number:3} {other:?}")?,
            }
        }
        Ok(())
    }
}
