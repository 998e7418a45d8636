//! The prose of comments: documentation begins with a noun phrase or a verb, and uses the words of
//! the field.
//!
//! Works on texts that the caller has read. It knows a few mistakes that are easy to find;
//! CONTRIBUTING.md describes the style.

use std::path::Path;

/// Words that begin a subordinate clause where a noun phrase or a verb belongs.
const LEADS: [&str; 9] = ["What", "How", "Who", "Whoever", "Whether", "Whose", "Where", "Why", "Which"];

/// Words that hide the actor, or that are not those of the field, and the words to use instead.
const WORDS: [(&str, &str); 14] = [
    ("told", "is notified, receives, is reported"),
    ("tell", "notify, report, print, return"),
    ("tells", "notifies, reports, prints, returns"),
    ("telling", "notifying, reporting"),
    ("somebody", "name the actor: the caller, the client, the server"),
    ("nobody", "name the actor: no caller, no client"),
    ("whoever", "name the actor: the caller, the client, the server"),
    ("everybody", "name the actors: all callers, all handlers"),
    ("anybody", "name the actor: any caller"),
    ("weather", "faults, fault injection"),
    ("in step", "synced"),
    ("the original", "kube-apiserver, client-go, kubectl, by name"),
    ("of no matter", "is ignored"),
    ("is to be had", "is available"),
];

/// Describes each comment of a source that breaks the rules. `path` is relative to the root of the
/// repository.
pub(crate) fn violations(path: &Path, source: &str) -> Vec<String> {
    let mut violations = Vec::new();
    let mut previous_is_doc = false;
    for (number, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let report = |what: String| format!("{}:{}: {what}", path.display(), number + 1);
        if let Some(text) = doc.filter(|_| !previous_is_doc) {
            let first = text.trim_start().split(|it: char| !it.is_alphabetic()).next().unwrap_or_default();
            if LEADS.contains(&first) {
                violations.push(report(format!(
                    "documentation begins with {first:?}: use a noun phrase or a verb"
                )));
            }
        }
        if let Some(comment) = line.strip_prefix("//") {
            let comment = words(comment);
            let found = WORDS.iter().filter(|(word, _)| comment.contains(&format!(" {word} ")));
            violations.extend(found.map(|(word, better)| report(format!("{word:?} in a comment: {better}"))));
        }
        previous_is_doc = doc.is_some();
    }
    violations
}

/// The text in lower case with one blank around each word.
fn words(text: &str) -> String {
    let separate = |it: char| !it.is_alphanumeric() && it != '_';
    let words: Vec<_> = text.split(separate).filter(|it| !it.is_empty()).collect();
    format!(" {} ", words.join(" ").to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> usize {
        violations(Path::new("a.rs"), source).len()
    }

    #[test]
    fn plain_documentation_is_accepted() {
        assert_eq!(
            found(
                "//! The store.\n/// Returns the keys.\n/// Whether it works is another question.\nfn f() {}"
            ),
            0
        );
        assert_eq!(found("let told = 1; // The server reports it.\n// somebody_else is a name"), 0);
    }

    #[test]
    fn a_subordinate_clause_at_the_beginning_is_reported() {
        for lead in LEADS {
            assert!(found(&format!("/// {lead} it is.\n")) > 0, "{lead}");
        }
        assert_eq!(found("/// The key.\nkey: u8,\n/// How many.\ncount: u8,\n"), 1);
    }

    #[test]
    fn each_word_of_the_list_is_reported() {
        for (word, _) in WORDS {
            assert_eq!(found(&format!("// It is {word}, here.\n")), 1, "{word}");
        }
    }
}
