//! The survey of a server as text. [`crate::survey`] sends the requests.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use crate::survey::{Objects, Survey};

/// Explains the empty cells of the last column.
const COUNTED: &str = "Objects are counted only for a few well-known resources.";

/// Formats the survey.
pub(super) fn text(survey: &Survey) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{} runs Kubernetes {}\n", survey.server, survey.version);

    let mut groups = table(["GROUP", "VERSIONS"]);
    for group in &survey.groups {
        let name = if group.name.is_empty() { "(core)" } else { &group.name };
        groups.add_row([name, &group.versions.join(", ")]);
    }
    let _ = writeln!(text, "{}\n", groups.trim_fmt());

    let mut resources = table(["RESOURCE", "SHORT", "GROUP/VERSION", "KIND", "SCOPE", "OBJECTS"]);
    for resource in &survey.resources {
        let objects = match resource.objects {
            Objects::Counted(count) => count.to_string(),
            Objects::Forbidden => "forbidden".to_owned(),
            Objects::NotAsked => String::new(),
        };
        resources.add_row([
            resource.plural.as_str(),
            &resource.short_names.join(", "),
            &resource.group_version,
            &resource.kind,
            if resource.namespaced { "namespaced" } else { "cluster" },
            &objects,
        ]);
    }
    if let Some(objects) = resources.column_mut(5) {
        objects.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{}\n\n{COUNTED}", resources.trim_fmt());
    text
}

/// Creates a table like kubectl's: no borders, two spaces between columns.
fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::{Group, Resource};

    fn resource(plural: &str, short_names: &[&str], objects: Objects) -> Resource {
        Resource {
            plural: plural.to_owned(),
            short_names: short_names.iter().map(|it| (*it).to_owned()).collect(),
            group_version: "v1".to_owned(),
            kind: "Kind".to_owned(),
            namespaced: plural != "nodes",
            objects,
        }
    }

    #[test]
    fn a_survey_reads_like_a_table_of_kubectl() {
        let survey = Survey {
            server: "https://127.0.0.1:6443".to_owned(),
            version: "v1.36.4".to_owned(),
            groups: vec![
                Group { name: String::new(), versions: vec!["v1".to_owned()] },
                Group { name: "apps".to_owned(), versions: vec!["v1".to_owned(), "v1beta1".to_owned()] },
            ],
            resources: vec![
                resource("pods", &["po"], Objects::Counted(12)),
                resource("nodes", &["no"], Objects::Forbidden),
                resource("events", &["ev", "e"], Objects::NotAsked),
            ],
        };
        let expected = "\
https://127.0.0.1:6443 runs Kubernetes v1.36.4

GROUP   VERSIONS
(core)  v1
apps    v1, v1beta1

RESOURCE  SHORT  GROUP/VERSION  KIND  SCOPE         OBJECTS
pods      po     v1             Kind  namespaced         12
nodes     no     v1             Kind  cluster     forbidden
events    ev, e  v1             Kind  namespaced

Objects are counted only for a few well-known resources.
";
        assert_eq!(text(&survey), expected);
    }
}
