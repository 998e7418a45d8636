//! The variables of a scenario, substituted into its later requests: `${rv}`, `${rv+5}`,
//! `${repeat:N:text}`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rand::Rng;
use regex::{Captures, Regex};
use serde_json::Value;

static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{([A-Za-z_][A-Za-z0-9_]*)([+-]\d+)?\}").expect("a valid pattern"));
static REPEAT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{repeat:(\d+):((?:[^{}]|\{[^{}]*\})*)\}").expect("a valid pattern"));

/// The characters of the unique string of a run: those of generated names, which are valid in every
/// name.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The values of a run by name. `id` and `ns`, its unique string and its namespace, are always set.
#[derive(Debug)]
pub(crate) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(crate) fn new() -> Self {
        let mut random = rand::rng();
        let letter = |_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())]);
        let id: String = "q".chars().chain((0..9).map(letter)).collect();
        let namespace = format!("orc-{id}");
        Self([("id".to_owned(), id), ("ns".to_owned(), namespace)].into())
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.0["ns"]
    }

    /// Returns the names that this run chose, with their symbols.
    pub(crate) fn own_names(&self) -> [(String, String); 2] {
        ["ns", "id"].map(|it| (self.0[it].clone(), format!("${{{it}}}")))
    }

    /// Sets a variable, or removes it if there is no value.
    pub(crate) fn save(&mut self, name: &str, value: Option<&Value>) {
        match value.filter(|it| !it.is_null()) {
            None => self.0.remove(name),
            Some(Value::String(text)) => self.0.insert(name.to_owned(), text.clone()),
            Some(other) => self.0.insert(name.to_owned(), other.to_string()),
        };
    }

    /// Returns the text with its variables substituted, or an error that names an unset one.
    pub(crate) fn resolve(&self, text: &str) -> Result<String, String> {
        let repeated = REPEAT.replace_all(text, |found: &Captures<'_>| {
            found[2].repeat(found[1].parse().expect("the pattern allows only digits"))
        });
        let mut problem = None;
        let resolved = VARIABLE.replace_all(&repeated, |found: &Captures<'_>| {
            self.value(&found[1], found.get(2).map(|it| it.as_str())).unwrap_or_else(|why| {
                problem.get_or_insert(why);
                String::new()
            })
        });
        problem.map_or_else(|| Ok(resolved.into_owned()), Err)
    }

    fn value(&self, name: &str, added: Option<&str>) -> Result<String, String> {
        let unset = || format!("{name} is not set: an earlier step did not return it");
        let value = self.0.get(name).ok_or_else(unset)?;
        let Some(added) = added else { return Ok(value.clone()) };
        let number: i64 = value.parse().map_err(|_| format!("{name} is not a number: {value:?}"))?;
        let added: i64 = added.parse().map_err(|_| format!("{added} is out of range"))?;
        Ok((number + added).to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_substituted_added_to_and_repeated() {
        let mut variables = Variables::new();
        variables.save("rv", Some(&json!("41")));
        variables.save("n", Some(&json!(7)));
        let resolve = |text| variables.resolve(text).unwrap();
        assert_eq!(resolve("a${rv}/${rv+1}/${n-9}"), "a41/42/-2");
        assert_eq!(resolve("${repeat:3:ab}"), "ababab");
        assert_eq!(resolve("${ns}"), format!("orc-{}", resolve("${id}")));
    }

    #[test]
    fn unset_variables_and_non_numbers_are_errors() {
        let mut variables = Variables::new();
        variables.save("text", Some(&json!("x")));
        variables.save("text", None);
        assert_eq!(
            variables.resolve("${text}").unwrap_err(),
            "text is not set: an earlier step did not return it"
        );
        variables.save("text", Some(&json!("x")));
        assert_eq!(variables.resolve("${text+1}").unwrap_err(), r#"text is not a number: "x""#);
    }
}
