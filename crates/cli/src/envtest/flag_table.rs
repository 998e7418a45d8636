//! The flags of kube-apiserver 1.36, and what our kube-apiserver does with each: a table in
//! `data/kube-apiserver-flags.tsv`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("../../data/kube-apiserver-flags.tsv");

/// A flag of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    /// True if it has a value only after `=`, like every boolean flag of Go's `pflag`.
    pub(super) is_switch: bool,
    pub(super) treatment: Treatment,
}

/// The treatment of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It has the effect that it has in kube-apiserver.
    Used,
    /// It is about a part that this server does not have, such as etcd; no client notices.
    Unneeded,
    /// It has no effect, and a line on stderr says so.
    Ignored,
    /// It is an error: without its effect, more would be permitted than its user wants.
    Refused,
}

/// Returns the flag of a name, written with `-` or, as kube-apiserver accepts, with `_`.
pub(super) fn find(name: &str) -> Option<Flag> {
    flags().get(name.replace('_', "-").as_str()).copied()
}

/// Returns all flags in the order of their names.
pub(super) fn flags() -> &'static BTreeMap<&'static str, Flag> {
    static FLAGS: LazyLock<BTreeMap<&'static str, Flag>> = LazyLock::new(|| {
        let lines = TABLE.lines().filter(|it| !it.starts_with('#'));
        lines.filter_map(read).map(|it| (it.name, it)).collect()
    });
    &FLAGS
}

/// Reads a line of the table.
fn read(line: &'static str) -> Option<Flag> {
    let mut fields = line.split('\t');
    let name = fields.next()?;
    let is_switch = match fields.next()? {
        "switch" => true,
        "value" => false,
        _ => return None,
    };
    let treatment = match fields.next()? {
        "used" => Treatment::Used,
        "unneeded" => Treatment::Unneeded,
        "ignored" => Treatment::Ignored,
        "refused" => Treatment::Refused,
        _ => return None,
    };
    Some(Flag { name, is_switch, treatment })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_flag() {
        let lines = TABLE.lines().filter(|it| !it.starts_with('#')).count();
        assert_eq!((flags().len(), lines), (170, 170));
    }

    #[test]
    fn a_flag_is_found_with_hyphens_and_with_underscores() {
        for name in ["service-cluster-ip-range", "service_cluster_ip_range"] {
            let flag = find(name).unwrap();
            assert_eq!((flag.treatment, flag.is_switch), (Treatment::Used, false), "{name}");
        }
        assert!(find("anonymous-auth").unwrap().is_switch);
        assert_eq!(find("insecure-port"), None);
    }
}
