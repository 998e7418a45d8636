//! The parts of a connection that can be disabled, by their names in the table.

use anyhow::{Context, Result};
use dogwatch_grpc::measure::{Parts, Turns};

/// One row of the table: our channel with these parts, or tonic's channels for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switches {
    AllOn,
    CoalescingOff,
    TurnsOff,
    TurnsAlways,
    TrackerOff,
    AllOff,
    /// One tonic channel per pod, for comparison.
    Tonic,
}

/// All rows, in the order of the table.
pub(super) const ALL: [Switches; 7] = [
    Switches::AllOn,
    Switches::CoalescingOff,
    Switches::TurnsOff,
    Switches::TurnsAlways,
    Switches::TrackerOff,
    Switches::AllOff,
    Switches::Tonic,
];

impl Switches {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AllOn => "all-on",
            Self::CoalescingOff => "coalescing-off",
            Self::TurnsOff => "turns-off",
            Self::TurnsAlways => "turns-always",
            Self::TrackerOff => "tracker-off",
            Self::AllOff => "all-off",
            Self::Tonic => "tonic-each",
        }
    }

    /// Returns the row of this name.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn named(name: &str) -> Result<Self> {
        let found = ALL.into_iter().find(|it| it.name() == name);
        found.with_context(|| format!("unknown combination of parts {name:?}"))
    }

    /// Returns the enabled parts, or `None` for tonic's channels.
    pub(super) fn parts(self) -> Option<Parts> {
        let all = Parts::default();
        Some(match self {
            Self::AllOn => all,
            Self::CoalescingOff => Parts { write_coalescing: false, ..all },
            Self::TurnsOff => Parts { turns: Turns::Never, ..all },
            Self::TurnsAlways => Parts { turns: Turns::Always, ..all },
            Self::TrackerOff => Parts { tracker: false, ..all },
            Self::AllOff => Parts { write_coalescing: false, turns: Turns::Never, tracker: false },
            Self::Tonic => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_name_and_differs_from_the_others() {
        for row in ALL {
            assert_eq!(Switches::named(row.name()).unwrap(), row);
            assert_eq!(ALL.iter().filter(|it| it.parts() == row.parts()).count(), 1, "{row:?}");
        }
        assert!(Switches::named("nothing").is_err());
    }
}
