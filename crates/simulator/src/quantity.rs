//! Amounts of resources, such as `100m`, `2Gi` and `1e3`, in thousandths.

/// Returns an amount in thousandths, rounded up. Returns `None` if it cannot be read, or is too
/// large.
pub(crate) fn parse(text: &str) -> Option<i128> {
    let end = text
        .find(|it: char| !(it.is_ascii_digit() || it == '.' || it == '+' || it == '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (binary, power) = match suffix {
        "n" => (None, -9),
        "u" => (None, -6),
        "m" => (None, -3),
        "" => (None, 0),
        "k" => (None, 3),
        "M" => (None, 6),
        "G" => (None, 9),
        "T" => (None, 12),
        "P" => (None, 15),
        "E" => (None, 18),
        "Ki" => (Some(10), 0),
        "Mi" => (Some(20), 0),
        "Gi" => (Some(30), 0),
        "Ti" => (Some(40), 0),
        "Pi" => (Some(50), 0),
        "Ei" => (Some(60), 0),
        exponent => {
            (None, exponent.strip_prefix(['e', 'E'])?.parse::<i32>().ok().filter(|it| it.abs() <= 30)?)
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.get(..fraction.len().min(12))?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = digits.checked_mul(1_i128.checked_shl(binary.unwrap_or(0))?)?;
    let power = power.checked_add(3)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let factor = 10_i128.checked_pow(power.unsigned_abs())?;
    if power >= 0 {
        return scaled.checked_mul(factor);
    }
    let quotient = scaled.checked_div_euclid(factor)?;
    Some(if scaled.checked_rem_euclid(factor)? > 0 { quotient.checked_add(1)? } else { quotient })
}

/// Returns an amount of thousandths as Kubernetes writes it: without a fraction, and with the
/// largest decimal suffix.
pub(crate) fn written(thousandths: i128) -> String {
    let (mut amount, mut suffix) = (thousandths, "m");
    for larger in ["", "k", "M", "G", "T", "P", "E"] {
        if amount % 1000 != 0 || (amount == 0 && suffix.is_empty()) {
            break;
        }
        (amount, suffix) = (amount / 1000, larger);
    }
    format!("{amount}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_with_the_largest_suffix() {
        for (thousandths, expected) in [
            (0, "0"),
            (80, "80m"),
            (1500, "1500m"),
            (2000, "2"),
            (1_000_000, "1k"),
            (104_857_600_000, "104857600"),
            (5_000_000_000_000, "5G"),
            (-250, "-250m"),
        ] {
            assert_eq!(written(thousandths), expected);
            assert_eq!(parse(expected), Some(thousandths));
        }
    }

    #[test]
    fn amounts_are_read_in_thousandths() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("100m", Some(100)),
            ("1.5", Some(1500)),
            ("2Ki", Some(2_048_000)),
            ("0.5Gi", Some(536_870_912_000)),
            ("1k", Some(1_000_000)),
            ("1e3", Some(1_000_000)),
            ("1E", Some(1_000_000_000_000_000_000_000)),
            ("1u", Some(1)),
            ("1n", Some(1)),
            ("-1", Some(-1000)),
            ("", None),
            ("Gi", None),
            ("1X", None),
            ("1e99", None),
            ("1-1", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        assert_eq!(parse(&"9".repeat(60)), None);
    }
}
