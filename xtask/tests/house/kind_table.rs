//! The table of built-in kinds in docs/book/src/kinds.md: one row for each kind that the server
//! has, with known states, and no others.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::crates::{list, text};

/// The states a kind can have, in the order in which a row names them.
const STATES: [&str; 4] = ["enforced", "kept", "simulated", "stored"];

/// Returns the differences between the kinds in the generated table of resources and the rows of
/// the chapter, as messages.
pub(crate) fn violations(resources: &Value, chapter: &str) -> Vec<String> {
    let group = |it: &Value| match text(it, "group") {
        "" => "core".to_owned(),
        group => group.to_owned(),
    };
    let resources = list(resources, "resources").iter();
    let kinds: BTreeSet<_> = resources.map(|it| (group(it), text(it, "kind").to_owned())).collect();
    let (mut listed, mut violations) = (BTreeSet::new(), Vec::new());
    for line in chapter.lines().skip_while(|it| !it.starts_with("| kind | group |")).skip(2) {
        if !line.starts_with('|') {
            break;
        }
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, kind, group, states, ..] = cells[..] else {
            violations.push(format!("a row without a state: {line}"));
            continue;
        };
        let kind = (group.to_owned(), kind.trim_matches('`').to_owned());
        violations.extend(wrong_states(states).map(|it| format!("{}: {it}", name(&kind))));
        if !listed.insert(kind.clone()) {
            violations.push(format!("two rows for {}", name(&kind)));
        }
    }
    violations.extend(kinds.difference(&listed).map(|it| format!("no row for {}", name(it))));
    violations.extend(listed.difference(&kinds).map(|it| format!("there is no kind {}", name(it))));
    violations
}

/// Returns what is wrong with the states of a row: one that is unknown, repeated or out of order,
/// or `stored` next to another one.
fn wrong_states(states: &str) -> Option<String> {
    let order: Option<Vec<_>> =
        states.split(", ").map(|state| STATES.iter().position(|it| *it == state)).collect();
    let Some(order) = order else { return Some(format!("`{states}` is none of {STATES:?}")) };
    if !order.is_sorted_by(|a, b| a < b) {
        return Some(format!("`{states}` is not in the order of {STATES:?}"));
    }
    (order.len() > 1 && states.contains("stored")).then(|| format!("`{states}`: stored means nothing else"))
}

fn name((group, kind): &(String, String)) -> String {
    format!("{kind} of {group}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_that_are_missing_gone_repeated_or_in_no_state_are_reported() {
        let resources = json!({ "resources": [
            { "group": "", "kind": "Pod" }, { "group": "apps", "kind": "Deployment" },
        ] });
        let table = "text\n\n| kind | group | state | more |\n|---|---|---|---|\n\
            | `Pod` | core | enforced, simulated | a |\n| `Deployment` | apps | stored | |\n\n| `X` | y | z |\n";
        assert_eq!(violations(&resources, table), [""; 0]);

        let wrong = table.replace("`Deployment`", "`Job`").replace("enforced, simulated", "simulated, kept");
        assert_eq!(
            violations(&resources, &wrong),
            [
                r#"Pod of core: `simulated, kept` is not in the order of ["enforced", "kept", "simulated", "stored"]"#,
                "no row for Deployment of apps",
                "there is no kind Job of apps",
            ]
        );
        let twice = table.replace("`Deployment` | apps | stored", "`Pod` | core | kept, stored");
        assert_eq!(
            violations(&resources, &twice),
            [
                "Pod of core: `kept, stored`: stored means nothing else",
                "two rows for Pod of core",
                "no row for Deployment of apps",
            ]
        );
    }
}
