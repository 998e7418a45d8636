//! The query of a request, decoded.

use crate::refusal::Refusal;
use crate::strconv;

/// The decoded pairs of a query.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Decodes what stands behind the question mark.
    pub(super) fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self { pairs: pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect() }
    }

    /// All pairs.
    pub(super) fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    /// The first value of a key, unless it is empty.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.first(key).filter(|it| !it.is_empty())
    }

    /// All values of a key.
    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(it, _)| it == key).map(|(_, value)| value.as_str())
    }

    /// A truth value as the original reads it: what is there is true, unless it says otherwise.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.first(key).map(|it| it != "0" && !it.eq_ignore_ascii_case("false"))
    }

    /// A whole number.
    ///
    /// # Errors
    /// 400 for anything else.
    pub(super) fn integer(&self, key: &str) -> Result<Option<i64>, Refusal> {
        let Some(text) = self.first(key) else { return Ok(None) };
        let refuse = |it| Refusal::bad_request(strconv::error("ParseInt", text, &it));
        text.parse().map(Some).map_err(refuse)
    }

    /// The first value of a key.
    pub(super) fn first(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(it, _)| it == key).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_and_flags_are_true_unless_they_say_otherwise() {
        let query =
            Query::parse(Some("labelSelector=a%3Db+c&watch&no=False&zero=0&some=abc&n=-5&dryRun=a&dryRun=b"));
        assert_eq!(query.get("labelSelector"), Some("a=b c"));
        let flags = ["watch", "no", "zero", "some", "none"].map(|it| query.flag(it));
        assert_eq!(flags, [Some(true), Some(false), Some(false), Some(true), None]);
        assert_eq!(query.integer("n"), Ok(Some(-5)));
        assert_eq!(query.all("dryRun").collect::<Vec<_>>(), ["a", "b"]);
        let refusal = query.integer("some").expect_err("no number");
        assert_eq!(refusal.0.message, "strconv.ParseInt: parsing \"abc\": invalid syntax");
    }
}
