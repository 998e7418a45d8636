//! The paths of the fields that were dropped from an object, to be reported.

use super::value_path::ValuePath;

/// The maximum number of unknown fields that are reported: as many as in the strict decoding of
/// built-in kinds. kube-apiserver reports all of them for custom resources.
const MAX_PATHS: usize = 100;

/// The size of all paths, in bytes, from which on no more are added.
const MAX_BYTES: usize = 1024 * 1024;

/// The paths of unknown fields, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct UnknownFields {
    paths: Vec<String>,
    bytes: usize,
}

impl UnknownFields {
    /// Adds a path, unless there are too many.
    pub(crate) fn push(&mut self, path: &ValuePath<'_>) {
        if self.paths.len() < MAX_PATHS && self.bytes < MAX_BYTES {
            let path = path.to_string();
            self.bytes += path.len();
            self.paths.push(path);
        }
    }

    /// Returns the paths.
    pub(crate) fn into_paths(self) -> Vec<String> {
        self.paths
    }

    /// Returns the paths, sorted.
    pub(crate) fn into_sorted(mut self) -> Vec<String> {
        self.paths.sort();
        self.paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_unknown_fields_are_reported() {
        let mut unknown = UnknownFields::default();
        for index in 0..200 {
            unknown.push(&ValuePath::Item(&ValuePath::Root("l"), index));
        }
        let paths = unknown.into_paths();
        assert_eq!((paths.len(), paths[99].as_str()), (MAX_PATHS, "l[99]"));
        let long = "k".repeat(MAX_BYTES);
        let mut unknown = UnknownFields::default();
        (0..3).for_each(|_| unknown.push(&ValuePath::Root(&long)));
        assert_eq!(unknown.into_paths().len(), 1);
    }
}
