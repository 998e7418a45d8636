//! A bounded list of validation errors.
//!
//! A request of 3 MiB can have a million invalid values, and some messages show a whole list for
//! each invalid item of it. kube-apiserver reports all (`ErrorList.ToAggregate` of
//! k8s.io/apimachinery v0.36.4 pkg/util/validation/field/errors.go); a server whose memory is
//! shared with tests cannot.

use std::ops::Deref;

use crate::api_error::{FieldError, FieldErrorKind};

/// The maximum number of errors that are reported.
const MAX_ERRORS: usize = 1_000;

/// The size of all messages, in bytes, from which on no more errors are added.
const MAX_BYTES: usize = 1024 * 1024;

/// The field of the note about errors that were left out. An error that is not about one field has
/// the same one in kube-apiserver.
const NO_FIELD: &str = "<nil>";

/// The validation errors of an object, in the order in which they were found.
///
/// After the first thousand errors, or the first MiB of messages, further errors are only counted.
/// The last error then is a note with their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    /// The errors; the last one is the note if any were left out.
    errors: Vec<FieldError>,
    bytes: usize,
    left_out: usize,
}

impl FieldErrors {
    /// Returns the empty list.
    pub const fn new() -> Self {
        Self { errors: Vec::new(), bytes: 0, left_out: 0 }
    }

    /// Returns the number of errors that were found, including those that were left out.
    pub fn count(&self) -> usize {
        self.errors.len() - usize::from(self.left_out > 0) + self.left_out
    }

    /// Returns true if further errors are only counted.
    pub fn is_full(&self) -> bool {
        self.left_out > 0 || self.errors.len() >= MAX_ERRORS || self.bytes >= MAX_BYTES
    }

    /// Adds an error.
    pub fn push(&mut self, error: FieldError) {
        self.push_with(|| error);
    }

    /// Adds an error, which is only created if it is reported.
    pub fn push_with(&mut self, error: impl FnOnce() -> FieldError) {
        if self.is_full() {
            return self.leave_out(1);
        }
        let error = error();
        self.bytes += error.field.len() + error.message.len();
        self.errors.push(error);
    }

    /// Adds all errors of another list.
    pub fn append(&mut self, mut other: Self) {
        if other.left_out > 0 {
            other.errors.pop();
        }
        self.extend(other.errors);
        self.leave_out(other.left_out);
    }

    /// Sorts the errors by field and message.
    pub(crate) fn sort(&mut self) {
        let noted = usize::from(self.left_out > 0);
        let end = self.errors.len() - noted;
        self.errors[..end].sort_by_cached_key(ToString::to_string);
    }

    /// Counts errors without adding them.
    pub(crate) fn leave_out(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        if self.left_out > 0 {
            self.errors.pop();
        }
        self.left_out += count;
        let detail = format!("{} more errors were found and are not shown", self.left_out);
        self.errors.push(FieldError::new(NO_FIELD, FieldErrorKind::TooMany, &detail));
    }
}

impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.errors
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<T: IntoIterator<Item = FieldError>>(&mut self, errors: T) {
        errors.into_iter().for_each(|error| self.push(error));
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<T: IntoIterator<Item = FieldError>>(errors: T) -> Self {
        let mut all = Self::new();
        all.extend(errors);
        all
    }
}

impl<const N: usize> PartialEq<[FieldError; N]> for FieldErrors {
    fn eq(&self, other: &[FieldError; N]) -> bool {
        self.errors == other
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(count: usize, length: usize) -> FieldErrors {
        (0..count).map(|_| FieldError::new("f", FieldErrorKind::Required, &"x".repeat(length))).collect()
    }

    #[test]
    fn errors_beyond_the_limits_are_counted_and_not_kept() {
        assert_eq!(errors(MAX_ERRORS, 1).len(), MAX_ERRORS);
        let mut many = errors(MAX_ERRORS + 2, 1);
        assert_eq!((many.len(), many.count()), (MAX_ERRORS + 1, MAX_ERRORS + 2));
        let last = |errors: &FieldErrors| errors.last().map(ToString::to_string).unwrap_or_default();
        assert_eq!(last(&many), "<nil>: Too many: 2 more errors were found and are not shown");
        many.append(errors(MAX_ERRORS + 3, 1));
        assert_eq!((many.len(), many.count()), (MAX_ERRORS + 1, 2 * MAX_ERRORS + 5));
        assert_eq!(last(&many), "<nil>: Too many: 1005 more errors were found and are not shown");
        let mut large = errors(3, MAX_BYTES);
        assert_eq!((large.len(), large.count()), (2, 3));
        large.push_with(|| unreachable!("an error that is not kept is not created"));
        assert_eq!(large.count(), 4);
    }
}
