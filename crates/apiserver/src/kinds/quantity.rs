//! Amounts of resources such as `500m` and `1Gi`: what they are worth, and the one way to write each.

use serde_json::Value;

/// An amount in billionths, and how it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    nano: i128,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

const BILLION: i128 = 1_000_000_000;
const BINARY: &[&str] = &["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: &[(&str, i32)] = &[
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

impl Quantity {
    /// Reads an amount from text or a number. Smaller parts than a billionth are rounded up.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    /// Reads an amount from text.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, suffix) = rest.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (scale, form) = scale_of(suffix)?;
        let mut nano = 0_i128;
        let mut place = scale;
        for digit in whole.bytes() {
            nano = nano.checked_mul(10)?.checked_add(scale.checked_mul(i128::from(digit - b'0'))?)?;
        }
        let mut lost = false;
        for digit in fraction.bytes().map(|digit| i128::from(digit - b'0')) {
            lost |= (place * digit) % 10 != 0 && place < 10;
            nano += place * digit / 10;
            place /= 10;
        }
        nano += i128::from(lost);
        Some(Self { nano: if negative { -nano } else { nano }, form })
    }

    /// So many of something.
    pub fn count(number: usize) -> Self {
        let nano = i128::try_from(number).unwrap_or(i128::MAX / BILLION) * BILLION;
        Self { nano, form: Form::Decimal }
    }

    /// Both together, written as the first unless that is nothing.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let form = if self.is_zero() { other.form } else { self.form };
        Self { nano: self.nano.saturating_add(other.nano), form }
    }

    /// What is left when that much is taken away: nothing at the least.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self { nano: self.nano.saturating_sub(other.nano).max(0), ..self }
    }

    /// The next whole number.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        Self { nano: self.units() * BILLION, ..self }
    }

    /// In units, rounded up.
    pub fn units(self) -> i128 {
        self.nano.div_euclid(BILLION) + i128::from(self.nano.rem_euclid(BILLION) > 0)
    }

    /// In thousandths, rounded up.
    pub fn thousandths(self) -> i128 {
        let million = BILLION / 1000;
        self.nano.div_euclid(million) + i128::from(self.nano.rem_euclid(million) > 0)
    }

    /// Whether it is less than nothing.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether it is a whole number.
    pub fn is_whole(self) -> bool {
        self.nano % BILLION == 0
    }

    /// Whether it is more than another amount, however both are written.
    pub fn exceeds(self, other: Self) -> bool {
        self.nano > other.nano
    }

    /// Whether it is as much as another amount, however both are written.
    pub fn equals(self, other: Self) -> bool {
        self.nano == other.nano
    }

    /// The one way to write it: the largest unit that needs no fraction.
    pub fn canonical(self) -> String {
        if self.nano == 0 {
            return "0".to_owned();
        }
        let small = self.nano.abs() < 1024 * BILLION;
        if self.form == Form::Binary && self.is_whole() && !small {
            let mut number = self.nano / BILLION;
            let mut unit = 0;
            while number % 1024 == 0 && unit < BINARY.len() {
                number /= 1024;
                unit += 1;
            }
            let suffix = if unit == 0 { "" } else { BINARY[unit - 1] };
            return format!("{number}{suffix}");
        }
        let (mut number, mut exponent) = (self.nano, -9);
        while number % 1000 == 0 && exponent < 18 {
            number /= 1000;
            exponent += 3;
        }
        match (self.form, exponent) {
            (Form::Exponent, 0) => number.to_string(),
            (Form::Exponent, _) => format!("{number}e{exponent}"),
            _ => {
                let suffix = DECIMAL.iter().find(|(_, of)| *of == exponent).map_or("", |(suffix, _)| suffix);
                format!("{number}{suffix}")
            }
        }
    }
}

/// What one is worth in billionths with a suffix, and which form that is.
fn scale_of(suffix: &str) -> Option<(i128, Form)> {
    if let Some(unit) = BINARY.iter().position(|known| *known == suffix) {
        let factor = 1024_i128.checked_pow(u32::try_from(unit).ok()? + 1)?;
        return Some((factor * BILLION, Form::Binary));
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((10_i128.checked_pow(u32::try_from(exponent + 9).ok()?)?, Form::Decimal));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = u32::try_from(exponent + 9).ok()?;
    Some((10_i128.checked_pow(power)?, Form::Exponent))
}

/// Writes an amount the one way; what is none stays as it is.
pub(crate) fn rewrite(value: &mut Value) {
    if let Some(quantity) = Quantity::read(value) {
        *value = quantity.canonical().into();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_amount_has_one_way_to_write_it() {
        for (written, canonical) in [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512", "512"),
            ("1000", "1k"),
            ("1000Ki", "1000Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("-1", "-1"),
            ("0", "0"),
            ("1E", "1E"),
            ("100n", "100n"),
        ] {
            assert_eq!(Quantity::parse(written).expect(written).canonical(), canonical, "{written}");
        }
        for wrong in ["", "x", "1x", "1.2.3", "-", "."] {
            assert_eq!(Quantity::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn amounts_are_added_taken_away_and_rounded() {
        let of = |text: &str| Quantity::parse(text).expect("an amount");
        assert_eq!(of("500m").plus(of("1")).canonical(), "1500m");
        assert_eq!(of("0").plus(of("1Gi")).canonical(), "1Gi", "nothing has no way to be written");
        assert_eq!(of("1Gi").plus(of("1")).canonical(), "1073741825");
        assert_eq!(
            (of("3").less(of("1")).canonical(), of("1").less(of("3")).canonical()),
            ("2".into(), "0".into())
        );
        assert_eq!((of("1500m").units(), of("1500m").thousandths(), of("1n").thousandths()), (2, 1500, 1));
        assert_eq!((of("0.5").rounded_up(), Quantity::count(3)), (Quantity::count(1), of("3")));
    }

    proptest! {
        #[test]
        fn writing_it_in_the_one_way_keeps_what_it_is_worth(number in 0_i64..10_000_000, unit in 0_usize..10) {
            let suffix = ["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "u", "e3"][unit];
            let read = Quantity::parse(&format!("{number}{suffix}")).expect("an amount");
            let again = Quantity::parse(&read.canonical()).expect("what was written");
            prop_assert!(again.equals(read));
            prop_assert_eq!(again.canonical(), read.canonical());
        }
    }
}
