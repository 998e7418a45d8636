//! Values in the text format of Prometheus, as API servers and the proxy serve it.

/// Returns the sum of the samples with this name and these labels, such as `verb="WATCH"`. `None`
/// if there are none.
pub fn sum(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (pairs, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest),
        };
        let is_wanted = labels.iter().all(|it| pairs.split(',').any(|pair| pair == *it));
        value.strip_prefix(' ').filter(|_| is_wanted)?.split(' ').next()?.parse::<f64>().ok()
    });
    values.fold(None, |sum, value| Some(sum.unwrap_or_default() + value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP watches Open watches.\n# TYPE watches gauge\n\
        watches{group=\"\",resource=\"pods\",scope=\"cluster\",verb=\"WATCH\"} 2\n\
        watches{group=\"\",resource=\"pods\",scope=\"namespace\",verb=\"WATCH\"} 3 1700000000000\n\
        watches{group=\"\",resource=\"nodes\",scope=\"cluster\",verb=\"WATCH\"} 7\n\
        watches_total 100\nprocess_cpu_seconds_total 1.25e+01\n";

    #[test]
    fn samples_are_selected_by_their_name_and_labels() {
        let pods = ["resource=\"pods\"", "verb=\"WATCH\""];
        assert_eq!(sum(TEXT, "watches", &pods), Some(5.0));
        assert_eq!(sum(TEXT, "watches", &[]), Some(12.0));
        assert_eq!(sum(TEXT, "process_cpu_seconds_total", &[]), Some(12.5));
    }

    #[test]
    fn a_metric_that_is_not_there_has_no_sum() {
        assert_eq!(sum(TEXT, "watch", &[]), None);
        assert_eq!(sum(TEXT, "watches", &["resource=\"secrets\""]), None);
    }
}
