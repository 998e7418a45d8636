//! The delay of a fault: fixed, or random within a range.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::Rng;
use serde::{Deserialize, Serialize};

/// A fixed delay, or a range of delays. Written `250ms`, or `10ms..2s` for a range.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_apiserver::faults::Delay;
///
/// let delay: Delay = "10ms..2s".parse()?;
/// assert_eq!(delay, Delay::between(Duration::from_millis(10), Duration::from_secs(2)));
/// assert_eq!(Delay::of(Duration::from_millis(250)).to_string(), "250ms");
/// # Ok::<(), dogwatch_apiserver::faults::DelayError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Delay {
    from: Duration,
    to: Duration,
}

/// An error of parsing a [`Delay`].
///
/// ```
/// use dogwatch_apiserver::faults::Delay;
///
/// let error = "soon".parse::<Delay>().expect_err("it has no unit");
/// assert!(error.to_string().contains("soon"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a delay such as `250ms`, `1.5s` or `10ms..2s`")]
pub struct DelayError(String);

impl Delay {
    /// Returns a fixed delay.
    pub fn of(duration: Duration) -> Self {
        Self { from: duration, to: duration }
    }

    /// Returns a range of delays; the bounds may come in either order.
    pub fn between(one: Duration, other: Duration) -> Self {
        Self { from: one.min(other), to: one.max(other) }
    }

    /// Draws a delay from the range, both bounds included.
    pub(super) fn draw(self, random: &mut impl Rng) -> Duration {
        if self.from == self.to { self.from } else { random.random_range(self.from..=self.to) }
    }
}

impl From<Duration> for Delay {
    fn from(duration: Duration) -> Self {
        Self::of(duration)
    }
}

impl FromStr for Delay {
    type Err = DelayError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = |part: &str| duration(part.trim()).ok_or_else(|| DelayError(text.to_owned()));
        match text.split_once("..") {
            None => read(text).map(Self::of),
            Some((from, to)) => match (read(from)?, read(to)?) {
                (from, to) if from <= to => Ok(Self { from, to }),
                _ => Err(DelayError(text.to_owned())),
            },
        }
    }
}

impl TryFrom<String> for Delay {
    type Error = DelayError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Delay> for String {
    fn from(delay: Delay) -> Self {
        delay.to_string()
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.from)?;
        if self.from == self.to { Ok(()) } else { write!(f, "..{:?}", self.to) }
    }
}

/// Parses a number and a unit, as `Debug` of a duration prints them, and minutes. Returns `None`
/// for more than a day.
fn duration(text: &str) -> Option<Duration> {
    const DAY: f64 = 86_400.0;
    let unit = text.trim_start_matches(|it: char| it.is_ascii_digit() || it == '.');
    let scale = match unit {
        "ns" => 1e-9,
        "µs" | "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return None,
    };
    let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = number * scale;
    (seconds <= DAY).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn delays_are_parsed_and_printed() {
        let ms = Duration::from_millis;
        for (text, from, to, written) in [
            ("250ms", ms(250), ms(250), "250ms"),
            ("1.5s", ms(1500), ms(1500), "1.5s"),
            ("2m", ms(120_000), ms(120_000), "120s"),
            ("10ms..2s", ms(10), ms(2000), "10ms..2s"),
            ("10us .. 1ms", Duration::from_micros(10), ms(1), "10µs..1ms"),
        ] {
            let delay: Delay = text.parse().expect("valid");
            assert_eq!((delay.from, delay.to, delay.to_string().as_str()), (from, to, written), "{text}");
            assert_eq!(delay.to_string().parse(), Ok(delay));
        }
        for wrong in ["", "5", "5 parsecs", "-1s", "2s..1s", "1s..", "1e9s", "999999m", "1.1.1s"] {
            assert!(wrong.parse::<Delay>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_drawn_delay_is_in_range_and_determined_by_the_seed() {
        let delay: Delay = "10ms..20ms".parse().expect("valid");
        let draw = |seed| {
            let mut random = StdRng::seed_from_u64(seed);
            (0..100).map(|_| delay.draw(&mut random)).collect::<Vec<_>>()
        };
        assert!(draw(1).iter().all(|it| (10..=20).contains(&it.as_millis())));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
