//! Resource quantities such as `500m` and `1Gi`: their value and their canonical form.
//!
//! Mirrors k8s.io/apimachinery v0.36.4 pkg/api/resource/quantity.go.

use serde_json::Value;

/// A quantity in billionths, and the format it was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// Saturates at both ends of its type.
    nano: i128,
    format: Format,
    /// The quantity as written, if it is too large for `nano`.
    large: Option<LargeValue>,
}

/// A quantity that is too large to be counted in billionths: `digits * 10^exponent`. kube-apiserver
/// keeps such quantities exactly, and caps only those in binary units, at 2^63-1
/// (`resource.ParseQuantity`). Here the first [`SIGNIFICANT`] digits are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LargeValue {
    digits: i128,
    exponent: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

const BILLION: i128 = 1_000_000_000;
/// The largest quantity in binary units.
const CAP: i128 = i64::MAX as i128 * BILLION;
/// The number of digits that are read. Further digits are less than a billionth, or the quantity is
/// beyond 10^29.
const SIGNIFICANT: usize = 30;
/// The same for binary units, so that the product with the largest of them fits.
const SIGNIFICANT_BINARY: usize = 19;
/// The exponent from which on any quantity is formatted with it. kube-apiserver writes all zeroes:
/// a quantity of megabytes, which defaults and messages would repeat for each container of a pod.
const MAX_EXPONENT: i32 = 1_000;
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
    /// Parses a quantity from a string or a number. Fractions of a billionth are rounded up.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    /// Parses a quantity from a string.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
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
        let (unit, format) = unit_of(suffix)?;
        let whole = whole.trim_start_matches('0');
        let all = whole.bytes().chain(fraction.bytes()).skip_while(|it| *it == b'0');
        let significant = if format == Format::Binary { SIGNIFICANT_BINARY } else { SIGNIFICANT };
        let (mut digits, mut dropped, mut lost) = (0_i128, 0_i64, false);
        for (at, digit) in all.enumerate() {
            let digit = i128::from(digit.wrapping_sub(b'0'));
            if at < significant {
                digits = digits.saturating_mul(10).saturating_add(digit);
            } else {
                dropped = dropped.saturating_add(1);
                lost |= digit != 0;
            }
        }
        let places = i64::try_from(fraction.len()).ok()?;
        let exponent = unit.exponent.saturating_sub(places).saturating_add(dropped);
        let (nano, cut) = nano_of(digits.saturating_mul(unit.factor), exponent);
        let mut read = Self { nano: nano.saturating_add(i128::from(cut || lost)), format, large: None };
        if format == Format::Binary {
            read.nano = read.nano.min(CAP);
        } else if read.nano == i128::MAX {
            // An exponent that does not fit has the same effect as the largest one.
            let exponent = i32::try_from(exponent).unwrap_or(i32::MAX);
            read.large = Some(LargeValue { digits, exponent });
        }
        Some(if negative { read.negated() } else { read })
    }

    fn negated(self) -> Self {
        let large = self.large.map(|it| LargeValue { digits: it.digits.saturating_neg(), ..it });
        Self { nano: self.nano.saturating_neg(), large, ..self }
    }

    /// Creates a quantity from a count.
    pub fn count(number: usize) -> Self {
        let nano = i128::try_from(number).unwrap_or(i128::MAX).saturating_mul(BILLION);
        Self { nano, format: Format::Decimal, large: None }
    }

    /// Adds two quantities, in the format of the first unless that is zero.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        // Only the exponent format can express what is beyond billionths and all units.
        let beyond_units = self.large.is_none() && other.large.is_some();
        let format = if self.is_zero() || beyond_units { other.format } else { self.format };
        let large = self.large.or(other.large);
        Self { nano: self.nano.saturating_add(other.nano), format, large }.normalized()
    }

    /// Subtracts a quantity; the result is at least zero.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self { nano: self.nano.saturating_sub(other.nano).max(0), ..self }.normalized()
    }

    /// Subtracts a quantity; the result may be negative.
    #[must_use]
    pub(crate) fn minus(self, other: Self) -> Self {
        self.plus(other.negated())
    }

    /// Returns which of two quantities is less.
    pub(crate) fn order(self, other: Self) -> std::cmp::Ordering {
        if self.equals(other) {
            std::cmp::Ordering::Equal
        } else if self.exceeds(other) {
            std::cmp::Ordering::Greater
        } else {
            std::cmp::Ordering::Less
        }
    }

    /// Returns the value, if it is an integer of 64 bits.
    pub(crate) fn as_integer(self) -> Option<i64> {
        i64::try_from(self.nano / BILLION).ok().filter(|_| self.is_whole() && self.large.is_none())
    }

    /// Returns the value as a float.
    pub(crate) fn as_float(self) -> f64 {
        match self.large {
            Some(large) => large.digits as f64 * 10_f64.powi(large.exponent),
            None => self.nano as f64 / BILLION as f64,
        }
    }

    /// Rounds up to an integer.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        Self { nano: self.units().saturating_mul(BILLION), ..self }.normalized()
    }

    /// Rounds to thousandths, away from zero.
    #[must_use]
    pub fn rounded_to_thousandths(self) -> Self {
        const MILLION: i128 = BILLION / 1000;
        let off = self.nano % MILLION;
        if off == 0 || self.large.is_some() {
            return self;
        }
        let step = if off > 0 { MILLION } else { MILLION.saturating_neg() };
        Self { nano: self.nano.saturating_sub(off).saturating_add(step), ..self }
    }

    /// Drops `large` if the result fits into billionths after all.
    fn normalized(self) -> Self {
        let large = self.large.filter(|_| self.nano.saturating_abs() == i128::MAX);
        Self { large, ..self }
    }

    /// Returns the value in units, rounded up.
    pub fn units(self) -> i128 {
        self.nano.div_euclid(BILLION) + i128::from(self.nano.rem_euclid(BILLION) > 0)
    }

    /// Returns the value in thousandths, rounded up.
    pub fn thousandths(self) -> i128 {
        let million = BILLION / 1000;
        self.nano.div_euclid(million) + i128::from(self.nano.rem_euclid(million) > 0)
    }

    /// Returns true if the quantity is less than zero.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Returns true if the quantity is zero.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Returns true if the quantity is an integer.
    pub fn is_whole(self) -> bool {
        self.nano % BILLION == 0
    }

    /// Returns true if the quantity is more than another one, whatever their formats.
    pub fn exceeds(self, other: Self) -> bool {
        match (self.large, other.large) {
            (Some(one), Some(two)) if self.nano == other.nano => one.magnitude() > two.magnitude(),
            _ => self.nano > other.nano,
        }
    }

    /// Returns true if the quantity equals another one, whatever their formats.
    pub fn equals(self, other: Self) -> bool {
        self.nano == other.nano
            && self.large.map(LargeValue::magnitude) == other.large.map(LargeValue::magnitude)
    }

    /// Formats the quantity in its canonical form: the largest unit that needs no fraction.
    pub fn canonical(self) -> String {
        if self.nano == 0 {
            return "0".to_owned();
        }
        let small = self.nano.saturating_abs() < 1024 * BILLION;
        if self.format == Format::Binary && self.is_whole() && !small {
            let mut number = self.nano / BILLION;
            let mut unit = 0;
            while number % 1024 == 0 && unit < BINARY.len() {
                number /= 1024;
                unit += 1;
            }
            let suffix = if unit == 0 { "" } else { BINARY[unit - 1] };
            return format!("{number}{suffix}");
        }
        let (mut number, mut exponent) = match self.large {
            None => (self.nano, -9),
            Some(large) => large.in_thousands(),
        };
        let has_exponent = self.format == Format::Exponent || exponent > MAX_EXPONENT;
        let largest = if has_exponent { i32::MAX - 3 } else { 18 };
        while number % 1000 == 0 && exponent < largest {
            number /= 1000;
            exponent += 3;
        }
        match (has_exponent, exponent) {
            (true, 0) => number.to_string(),
            (true, _) => format!("{number}e{exponent}"),
            // There is no larger unit than `E`.
            (false, 19..) => {
                let zeroes = usize::try_from(exponent.saturating_sub(18)).unwrap_or(0);
                format!("{number}{}E", "0".repeat(zeroes))
            }
            (false, _) => {
                let suffix = DECIMAL.iter().find(|(_, of)| *of == exponent).map_or("", |(suffix, _)| suffix);
                format!("{number}{suffix}")
            }
        }
    }
}

impl LargeValue {
    /// Returns the same quantity with an exponent that is a multiple of three, as it is formatted.
    fn in_thousands(self) -> (i128, i32) {
        let (mut digits, mut exponent) = (self.digits, self.exponent);
        while exponent % 3 != 0 {
            digits = digits.saturating_mul(10);
            exponent -= 1;
        }
        (digits, exponent)
    }

    /// Returns a value by which such quantities are ordered: by sign, by the position of the first
    /// digit, by all digits.
    fn magnitude(self) -> (i64, i128) {
        let (mut digits, mut place) = (self.digits, i64::from(self.exponent));
        while digits.unsigned_abs() < 10_u128.pow(33) {
            digits = digits.saturating_mul(10);
            place = place.saturating_sub(1);
        }
        (if self.digits < 0 { place.saturating_neg() } else { place }, digits)
    }
}

/// The value of a suffix: `factor * 10^exponent`.
struct Unit {
    factor: i128,
    exponent: i64,
}

/// Converts `number * 10^exponent` to billionths. The flag is true if a remainder was cut off.
fn nano_of(number: i128, exponent: i64) -> (i128, bool) {
    let shift = exponent.saturating_add(9);
    let power = u32::try_from(shift.unsigned_abs()).ok().and_then(|it| 10_i128.checked_pow(it));
    match (number, power) {
        (0, _) => (0, false),
        (_, Some(power)) if shift >= 0 => (number.saturating_mul(power), false),
        (_, Some(power)) => (number / power, number % power != 0),
        (_, None) if shift >= 0 => (i128::MAX, false),
        (_, None) => (0, true),
    }
}

/// Returns the value of a suffix, and its format.
fn unit_of(suffix: &str) -> Option<(Unit, Format)> {
    if let Some(unit) = BINARY.iter().position(|known| *known == suffix) {
        let factor = 1024_i128.checked_pow(u32::try_from(unit).ok()?.checked_add(1)?)?;
        return Some((Unit { factor, exponent: 0 }, Format::Binary));
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((Unit { factor: 1, exponent: i64::from(*exponent) }, Format::Decimal));
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Unit { factor: 1, exponent }, Format::Exponent))
}

/// Rewrites a quantity in canonical form; other values stay unchanged.
pub(crate) fn rewrite(value: &mut Value) {
    if let Some(quantity) = Quantity::read(value) {
        *value = quantity.canonical().into();
    }
}

/// Rewrites a quantity in a resource list in canonical form, rounded to thousandths
/// (`SetDefaults_ResourceList` of k8s.io/kubernetes v1.36.4 pkg/apis/core/v1/defaults.go).
pub(crate) fn rewrite_resource(value: &mut Value) {
    if let Some(quantity) = Quantity::read(value) {
        *value = quantity.rounded_to_thousandths().canonical().into();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_canonical_form_of_a_huge_quantity_is_short() {
        let canonical = |text: &str| Quantity::parse(text).expect("a quantity").canonical();
        let zeroes = |count: usize| format!("1{}", "0".repeat(count));
        assert_eq!(canonical(&zeroes(900)), format!("1{}E", "0".repeat(882)));
        assert_eq!(canonical(&zeroes(3_000)), "1e3000");
        assert_eq!(canonical(&zeroes(1_500_001)), "10e1500000");
        assert_eq!(canonical("1e3000"), "1e3000");
    }

    #[test]
    fn every_quantity_has_one_canonical_form() {
        for (text, canonical) in [
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
            ("1e21", "1e21"),
            ("1e-4", "100e-6"),
            ("0.9e29", "90e27"),
            ("-0.9e29", "-90e27"),
            ("1e2147483647", "10e2147483646"),
            ("9999999999E", "9999999999E"),
            ("999999999999999999E", "999999999999999999E"),
            ("1e-400", "1e-9"),
            ("-1e-400", "-1e-9"),
            ("0e2147483647", "0"),
            ("16Ei", "9223372036854775807"),
            ("8Ei", "9223372036854775807"),
            ("7Ei", "7Ei"),
            ("9223372036854775808", "9223372036854775808"),
            ("99999999999999999999", "99999999999999999999"),
            ("-99999999999999999999", "-99999999999999999999"),
            ("99999999999999999999999999999000000000000", "99999999999999999999999999999T"),
            ("12345678901234567890.123456789", "12345678901234567890123456789n"),
            ("123456789012345678901234567890e30", "123456789012345678901234567890e30"),
            ("100000000000000000000000000000000000000000000000000", "100000000000000000000000000000000E"),
            ("0.00000000000000000000001", "1n"),
            ("1.00000000000000000000001", "1000000001n"),
        ] {
            assert_eq!(Quantity::parse(text).expect(text).canonical(), canonical, "{text}");
        }
        for wrong in ["", "x", "1x", "1.2.3", "-", "."] {
            assert_eq!(Quantity::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn quantities_are_added_subtracted_and_rounded() {
        let of = |text: &str| Quantity::parse(text).expect("a quantity");
        assert_eq!(of("500m").plus(of("1")).canonical(), "1500m");
        assert_eq!(of("0").plus(of("1Gi")).canonical(), "1Gi", "zero has no format of its own");
        assert_eq!(of("1Gi").plus(of("1")).canonical(), "1073741825");
        assert_eq!(
            (of("3").less(of("1")).canonical(), of("1").less(of("3")).canonical()),
            ("2".into(), "0".into())
        );
        assert_eq!((of("1500m").units(), of("1500m").thousandths(), of("1n").thousandths()), (2, 1500, 1));
        assert_eq!((of("0.5").rounded_up(), Quantity::count(3)), (Quantity::count(1), of("3")));
    }

    #[test]
    fn quantities_in_resource_lists_are_rounded_to_thousandths() {
        for (written, rounded) in [
            ("1u", "1m"),
            ("0.5m", "1m"),
            ("-1n", "-1m"),
            ("1500u", "2m"),
            ("1m", "1m"),
            ("1.0000001Ki", "1024001m"),
        ] {
            let mut value = Value::from(written);
            rewrite_resource(&mut value);
            assert_eq!(value, rounded, "{written}");
        }
    }

    #[test]
    fn quantities_beyond_billionths_are_ordered() {
        let of = |text: &str| Quantity::parse(text).expect("a quantity");
        let ordered = [
            "-1e400",
            "-2e39",
            "-1e39",
            "-1",
            "0",
            "1",
            "9e28",
            "1e30",
            "2e30",
            "12e30",
            "1e400",
            "1e2147483647",
        ];
        for (at, one) in ordered.iter().enumerate() {
            for (other_at, other) in ordered.iter().enumerate() {
                assert_eq!(of(one).exceeds(of(other)), at > other_at, "{one} and {other}");
                assert_eq!(of(one).equals(of(other)), at == other_at, "{one} and {other}");
            }
        }
        assert!(of("10e400").equals(of("1e401")));
        let most = of("1e400");
        assert_eq!(most.plus(most).canonical(), "10e399");
        assert_eq!(
            (most.less(of("1e401")).canonical(), most.rounded_up().canonical()),
            ("0".into(), "10e399".into())
        );
        assert_eq!(of("1").plus(of("1e400")).canonical(), "10e399");
    }

    proptest! {
        #[test]
        fn arbitrary_quantities_survive_formatting_and_parsing(text in "[+-]?[0-9]{0,45}[.]?[0-9]{0,45}(e[+-]?[0-9]{1,20}|[numkMGTPE]i?)?") {
            if let Some(read) = Quantity::parse(&text) {
                let written = read.canonical();
                let again = Quantity::parse(&written).expect("the canonical form is a quantity");
                prop_assert!(again.equals(read), "{:?} is formatted as {} and parsed as {:?}", read, written, again);
                let _ = (read.plus(read), read.less(read), read.rounded_up(), read.units(), read.thousandths());
            }
        }

        #[test]
        fn the_canonical_form_keeps_the_value(number in 0_i64..10_000_000, unit in 0_usize..10) {
            let suffix = ["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "u", "e3"][unit];
            let read = Quantity::parse(&format!("{number}{suffix}")).expect("a quantity");
            let again = Quantity::parse(&read.canonical()).expect("the canonical form is a quantity");
            prop_assert!(again.equals(read));
            prop_assert_eq!(again.canonical(), read.canonical());
        }
    }
}
