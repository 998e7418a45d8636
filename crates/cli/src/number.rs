//! The parsers of flags that are numbers, whose errors say which ones are expected.
//!
//! Those of the standard library, which clap would print, say what is wrong with a digit.

use std::num::IntErrorKind;
use std::ops::RangeInclusive;

/// Returns a parser of whole numbers of this range. A range up to `u64::MAX` has no upper end for
/// users.
pub(crate) fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let (least, most) = (range.start(), range.end());
        let number = text.parse::<u64>();
        // The limit is only mentioned where it is the reason.
        let is_huge = number.as_ref().is_err_and(|it| *it.kind() == IntErrorKind::PosOverflow);
        let number = number.ok().filter(|it| range.contains(it)).and_then(|it| T::try_from(it).ok());
        number.ok_or_else(|| match (least, most) {
            (_, &u64::MAX) if is_huge => format!("expected a whole number of at most {}", u64::MAX),
            (0, &u64::MAX) => "expected a whole number".to_owned(),
            (least, &u64::MAX) => format!("expected a whole number of at least {least}"),
            (least, most) => format!("expected a whole number from {least} to {most}"),
        })
    }
}

/// Returns a parser of whole numbers, 0 included.
pub(crate) fn any() -> impl Fn(&str) -> Result<u64, String> + Clone {
    whole(0..=u64::MAX)
}

/// Returns a parser of ports, of which 0 stands for a free one.
pub(crate) fn port() -> impl Fn(&str) -> Result<u16, String> + Clone {
    whole(0..=u16::MAX.into())
}

/// Parses a probability.
pub(crate) fn probability(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok().filter(|it| (0.0..=1.0).contains(it));
    number.ok_or("expected a number from 0 to 1, for example 0.25")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_which_numbers_are_expected() {
        let least = |text| whole::<u64>(1..=u64::MAX)(text);
        assert_eq!(least("7"), Ok(7));
        for text in ["abc", "0", "-1", "", "1.5", "1s", " 1"] {
            assert_eq!(least(text), Err("expected a whole number of at least 1".to_owned()), "{text:?}");
        }
        let huge = Err("expected a whole number of at most 18446744073709551615".to_owned());
        assert_eq!(least("99999999999999999999"), huge);
        assert_eq!(any()("x"), Err("expected a whole number".to_owned()));
    }

    #[test]
    fn both_ends_of_a_range_are_named() {
        assert_eq!((port()("65535"), port()("0")), (Ok(65535), Ok(0)));
        for text in ["65536", "http", "-1", "99999999999999999999"] {
            assert_eq!(port()(text), Err("expected a whole number from 0 to 65535".to_owned()), "{text:?}");
        }
    }

    #[test]
    fn a_probability_is_a_number_from_zero_to_one() {
        assert_eq!((probability("0"), probability("0.25"), probability("1")), (Ok(0.0), Ok(0.25), Ok(1.0)));
        for text in ["1.5", "-0.1", "half", "NaN", "inf", "25%"] {
            assert!(
                probability(text).is_err_and(|it| it.starts_with("expected a number from 0 to 1")),
                "{text}"
            );
        }
    }
}
