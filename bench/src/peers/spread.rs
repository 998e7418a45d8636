//! The median of some values, and how far they are apart.

/// The median and the extremes of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    lowest: f64,
    highest: f64,
}

impl Spread {
    /// Returns the spread of the values; `None` without values. The median of an even number of
    /// values is the mean of the two in the middle.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (*values.first()?, *values.last()?);
        let upper = values[values.len() / 2];
        let lower = values[(values.len() - 1) / 2];
        Some(Self { median: f64::midpoint(lower, upper), lowest, highest })
    }

    /// Returns half the distance between the extremes, as a percentage of the median.
    pub(super) fn percent(&self) -> f64 {
        let half = (self.highest - self.lowest) / 2.0;
        if self.median == 0.0 { 0.0 } else { half / self.median * 100.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_depend_on_the_order() {
        let median = |values: &[f64]| Spread::of(values.iter().copied()).map(|it| it.median);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_spread_is_half_the_distance_of_the_extremes() {
        let percent = |values: &[f64]| Spread::of(values.iter().copied()).map(|it| it.percent());
        assert_eq!(percent(&[9.0, 10.0, 13.0]), Some(20.0));
        assert_eq!(percent(&[5.0]), Some(0.0));
        assert_eq!(percent(&[0.0, 0.0]), Some(0.0));
    }
}
