//! The decoded query of a request.

use crate::ApiError;
use crate::strconv;

/// The decoded pairs of a query.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Decodes the part of a URL after the question mark.
    pub(super) fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self { pairs: pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect() }
    }

    /// Returns all pairs.
    pub(super) fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    /// Returns the first value of a key, unless it is empty.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.first(key).filter(|it| !it.is_empty())
    }

    /// Returns all values of a key.
    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(it, _)| it == key).map(|(_, value)| value.as_str())
    }

    /// Returns a boolean: a key that is present is true unless its value is `0` or `false`, as
    /// `Convert_Slice_string_To_bool` in k8s.io/apimachinery v0.36.4 pkg/runtime/conversion.go.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.first(key).map(|it| it != "0" && !it.eq_ignore_ascii_case("false"))
    }

    /// Returns an integer.
    ///
    /// # Errors
    ///
    /// Returns 400 for any other value.
    pub(super) fn integer(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.first(key) else { return Ok(None) };
        let refuse = |it| ApiError::bad_request(strconv::error("ParseInt", text, &it));
        text.parse().map(Some).map_err(refuse)
    }

    /// Returns the first value of a key.
    pub(super) fn first(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(it, _)| it == key).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_and_flags_default_to_true() {
        let query =
            Query::parse(Some("labelSelector=a%3Db+c&watch&no=False&zero=0&some=abc&n=-5&dryRun=a&dryRun=b"));
        assert_eq!(query.get("labelSelector"), Some("a=b c"));
        let flags = ["watch", "no", "zero", "some", "none"].map(|it| query.flag(it));
        assert_eq!(flags, [Some(true), Some(false), Some(false), Some(true), None]);
        assert_eq!(query.integer("n"), Ok(Some(-5)));
        assert_eq!(query.all("dryRun").collect::<Vec<_>>(), ["a", "b"]);
        let refusal = query.integer("some").expect_err("not a number");
        assert_eq!(refusal.0.message, "strconv.ParseInt: parsing \"abc\": invalid syntax");
    }
}
