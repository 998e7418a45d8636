//! The syntax of the simulated shell: commands joined by `;`, `&&` and `||`, with quotes and
//! variables. Everything else of a shell is an error that names it.

/// The most fields and bytes that the expansion of one command may have.
const LONGEST_EXPANSION: usize = 1024 * 1024;

/// A command, and the outcome of the one before it on which it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) when: When,
    pub(super) words: Vec<Word>,
}

/// The outcome of the command before on which a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    Succeeded,
    Failed,
}

/// A word of a command before its expansion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Plain(String),
    Quoted(String),
    Variable { name: String, is_quoted: bool },
}

/// Words with a meaning in the syntax of a shell, which this one does not have.
const RESERVED: [&str; 13] =
    ["if", "then", "for", "while", "until", "do", "done", "case", "function", "{", "}", "!", "[["];

/// Parses a script.
///
/// # Errors
/// Returns a message about syntax that is wrong, or that the simulated shell does not have.
pub(super) fn parse(script: &str) -> Result<Vec<Command>, String> {
    let mut parser = Parser { rest: script.chars().peekable(), commands: Vec::new(), when: When::Always };
    parser.run()?;
    Ok(parser.commands)
}

struct Parser<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    commands: Vec<Command>,
    when: When,
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), String> {
        let mut words = Vec::new();
        loop {
            match self.rest.peek().copied() {
                None => return self.end(&mut words),
                Some('\n' | ';') => {
                    let sign = self.rest.next();
                    if sign == Some(';') && words.is_empty() {
                        return Err("syntax error: unexpected \";\"".to_owned());
                    }
                    // A line may end after `&&` and `||`.
                    if !words.is_empty() {
                        self.finish(&mut words, When::Always)?;
                    }
                }
                Some(sign @ ('&' | '|')) => {
                    self.rest.next();
                    if self.rest.next_if_eq(&sign).is_none() {
                        return Err(unsupported(&sign.to_string()));
                    }
                    if words.is_empty() {
                        return Err(format!("syntax error: unexpected \"{sign}{sign}\""));
                    }
                    let when = if sign == '&' { When::Succeeded } else { When::Failed };
                    self.finish(&mut words, when)?;
                }
                Some(sign @ ('<' | '>' | '(' | ')')) => return Err(unsupported(&sign.to_string())),
                Some('#') => while self.rest.next_if(|it| *it != '\n').is_some() {},
                Some(it) if it.is_whitespace() => drop(self.rest.next()),
                Some(_) => words.push(self.word()?),
            }
        }
    }

    /// Ends a command. The next one runs as `next` says.
    fn finish(&mut self, words: &mut Vec<Word>, next: When) -> Result<(), String> {
        if let Some([Part::Plain(first)]) = words.first().map(|it| &*it.0)
            && RESERVED.contains(&first.as_str())
        {
            return Err(unsupported(first));
        }
        self.commands.push(Command { when: self.when, words: std::mem::take(words) });
        self.when = next;
        Ok(())
    }

    fn end(&mut self, words: &mut Vec<Word>) -> Result<(), String> {
        match (words.is_empty(), self.when) {
            (false, _) => self.finish(words, When::Always),
            (true, When::Always) => Ok(()),
            (true, _) => Err("syntax error: unexpected end of the script".to_owned()),
        }
    }

    fn word(&mut self) -> Result<Word, String> {
        let mut word = Word::default();
        while let Some(sign) = self.rest.next_if(|it| !it.is_whitespace() && !";&|<>()".contains(*it)) {
            match sign {
                '\'' => word.0.push(Part::Quoted(self.until_quote('\'')?)),
                '"' => self.double_quoted(&mut word)?,
                '\\' => {
                    // A backslash at the end of a line continues it.
                    if let Some(next) = self.rest.next().filter(|it| *it != '\n') {
                        word.0.push(Part::Quoted(next.to_string()));
                    }
                }
                '$' => self.variable(&mut word, false)?,
                '`' => return Err(unsupported("`")),
                sign => word.plain(sign),
            }
        }
        Ok(word)
    }

    fn until_quote(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        loop {
            match self.rest.next() {
                Some(it) if it == quote => return Ok(text),
                Some(it) => text.push(it),
                None => return Err(format!("syntax error: no closing {quote}")),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), String> {
        let mut text = String::new();
        loop {
            match self.rest.next() {
                None => return Err("syntax error: no closing \"".to_owned()),
                Some('"') => {
                    word.0.push(Part::Quoted(text));
                    return Ok(());
                }
                Some('\\') => match self.rest.next() {
                    Some(it @ ('"' | '\\' | '$' | '`')) => text.push(it),
                    Some('\n') | None => {}
                    Some(it) => text.extend(['\\', it]),
                },
                Some('$') => {
                    word.0.push(Part::Quoted(std::mem::take(&mut text)));
                    self.variable(word, true)?;
                }
                Some('`') => return Err(unsupported("`")),
                Some(it) => text.push(it),
            }
        }
    }

    /// Reads what follows a dollar sign.
    fn variable(&mut self, word: &mut Word, is_quoted: bool) -> Result<(), String> {
        let is_name = |it: &char| it.is_ascii_alphanumeric() || *it == '_';
        let name = match self.rest.peek().copied() {
            Some('(') => return Err(unsupported("$(")),
            Some('{') => {
                self.rest.next();
                let name = self.until_quote('}')?;
                if name.is_empty() || !(name == "?" || name.chars().all(|it| is_name(&it))) {
                    return Err(unsupported(&format!("${{{name}}}")));
                }
                name
            }
            Some(sign @ ('?' | '$' | '#' | '@' | '*' | '!')) => {
                self.rest.next();
                sign.to_string()
            }
            Some(it) if is_name(&it) => {
                let mut name = String::new();
                while let Some(it) = self.rest.next_if(is_name) {
                    name.push(it);
                }
                name
            }
            _ => {
                word.0.push(Part::Quoted("$".to_owned()));
                return Ok(());
            }
        };
        word.0.push(Part::Variable { name, is_quoted });
        Ok(())
    }
}

impl Word {
    fn plain(&mut self, sign: char) {
        match self.0.last_mut() {
            Some(Part::Plain(text)) => text.push(sign),
            _ => self.0.push(Part::Plain(sign.to_string())),
        }
    }

    /// Returns the name that the word assigns a value to, and the word for the value.
    pub(super) fn assignment(&self) -> Option<(String, Self)> {
        let Some((Part::Plain(first), rest)) = self.0.split_first() else { return None };
        let (name, value) = first.split_once('=')?;
        if !is_variable_name(name) {
            return None;
        }
        let mut word = Self(vec![Part::Quoted(value.to_owned())]);
        // The value of an assignment is one field, whatever its variables contain.
        word.0.extend(rest.iter().cloned().map(|it| match it {
            Part::Variable { name, .. } => Part::Variable { name, is_quoted: true },
            part => part,
        }));
        Some((name.to_owned(), word))
    }
}

/// Returns true for a valid name of a variable.
pub(super) fn is_variable_name(name: &str) -> bool {
    name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// Replaces the variables of words, and splits the words into fields as a shell does.
///
/// # Errors
/// Returns a message if the fields are too long together.
pub(super) fn expand(words: &[Word], lookup: impl Fn(&str) -> String) -> Result<Vec<String>, String> {
    let (mut fields, mut size) = (Vec::new(), 0_usize);
    for word in words {
        let mut field: Option<String> = None;
        for part in &word.0 {
            match part {
                Part::Plain(text) | Part::Quoted(text) => field.get_or_insert_default().push_str(text),
                Part::Variable { name, is_quoted: true } => {
                    field.get_or_insert_default().push_str(&lookup(name));
                }
                Part::Variable { name, is_quoted: false } => {
                    let value = lookup(name);
                    if value.starts_with(char::is_whitespace) {
                        fields.extend(field.take());
                    }
                    for (at, piece) in value.split_whitespace().enumerate() {
                        if at > 0 {
                            fields.extend(field.take());
                        }
                        field.get_or_insert_default().push_str(piece);
                    }
                    if value.ends_with(char::is_whitespace) {
                        fields.extend(field.take());
                    }
                    size = size.saturating_add(value.len());
                }
            }
            // Before the next part, so that many references cannot take much memory.
            let growth = field.as_ref().map_or(0, String::len);
            if size.saturating_add(growth) > LONGEST_EXPANSION {
                return Err("argument list too long".to_owned());
            }
        }
        size = size.saturating_add(field.as_ref().map_or(0, String::len));
        fields.extend(field);
    }
    Ok(fields)
}

fn unsupported(syntax: &str) -> String {
    format!("the simulated shell does not support `{syntax}`")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(script: &str) -> Result<Vec<(When, Vec<String>)>, String> {
        let lookup = |name: &str| match name {
            "TWO" => "a  b".to_owned(),
            "?" => "7".to_owned(),
            _ => String::new(),
        };
        let commands = parse(script)?;
        commands.iter().map(|it| Ok((it.when, expand(&it.words, lookup)?))).collect()
    }

    #[test]
    fn words_are_quoted_and_expanded_as_in_a_shell() {
        for (script, expected) in [
            ("echo a  b", vec!["echo", "a", "b"]),
            ("echo 'a  $TWO' \"b $TWO\"", vec!["echo", "a  $TWO", "b a  b"]),
            ("echo x${TWO}y $TWO", vec!["echo", "xa", "by", "a", "b"]),
            ("echo $NONE \"$NONE\" ''", vec!["echo", "", ""]),
            ("echo \\$TWO \"\\$TWO \\n\" a\\ b", vec!["echo", "$TWO", "$TWO \\n", "a b"]),
            ("echo $? $ a$", vec!["echo", "7", "$", "a$"]),
            ("echo a#b # comment", vec!["echo", "a#b"]),
            ("echo a\\\nb", vec!["echo", "ab"]),
        ] {
            let found = fields(script).unwrap();
            let expected: Vec<_> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(found, [(When::Always, expected)], "{script}");
        }
    }

    #[test]
    fn commands_are_joined() {
        let found = fields("a && b || c; d\n\ne &&\n f;").unwrap();
        let found: Vec<_> = found.iter().map(|(when, words)| (*when, words[0].as_str())).collect();
        let expected = [
            (When::Always, "a"),
            (When::Succeeded, "b"),
            (When::Failed, "c"),
            (When::Always, "d"),
            (When::Always, "e"),
            (When::Succeeded, "f"),
        ];
        assert_eq!(found, expected);
        assert_eq!(fields(" \n# nothing\n"), Ok(Vec::new()));
    }

    #[test]
    fn other_syntax_is_an_error_that_names_it() {
        for (script, expected) in [
            ("a | b", "does not support `|`"),
            ("a & b", "does not support `&`"),
            ("a > b", "does not support `>`"),
            ("(a)", "does not support `(`"),
            ("echo $(a)", "does not support `$(`"),
            ("echo `a`", "does not support ``"),
            ("echo ${A:-b}", "does not support `${A:-b}`"),
            ("if true; then false; fi", "does not support `if`"),
            ("a 'b", "no closing '"),
            ("a \"b", "no closing \""),
            ("a ${b", "no closing }"),
            ("a &&", "unexpected end"),
            ("&& a", "unexpected \"&&\""),
            ("; a", "unexpected \";\""),
        ] {
            let error = fields(script).unwrap_err();
            assert!(error.contains(expected), "{script}: {error}");
        }
    }

    #[test]
    fn an_assignment_is_one_field() {
        let commands = parse("A=x$TWO 1=2 'B=3' =4").unwrap();
        let assigned: Vec<_> = commands[0].words.iter().map(|it| it.assignment().map(|it| it.0)).collect();
        assert_eq!(assigned, [Some("A".to_owned()), None, None, None]);
        let (_, value) = commands[0].words[0].assignment().unwrap();
        assert_eq!(expand(&[value], |_| "a  b".to_owned()), Ok(vec!["xa  b".to_owned()]));
    }

    #[test]
    fn an_expansion_is_limited() {
        let commands = parse(&format!("echo {}", "$A".repeat(1000))).unwrap();
        for value in ["x".repeat(10_000), " y".repeat(5_000)] {
            let expanded = expand(&commands[0].words, |_| value.clone());
            assert_eq!(expanded.unwrap_err(), "argument list too long");
        }
    }
    proptest! {
        #[test]
        fn quoted_words_are_passed_on_unchanged(words in proptest::collection::vec("[^']{0,12}", 1..6)) {
            let script: Vec<_> = words.iter().map(|it| format!("'{it}'")).collect();
            prop_assert_eq!(fields(&script.join(" ")), Ok(vec![(When::Always, words)]));
        }

        #[test]
        fn every_script_is_parsed_or_refused(script in "[a-z $'\"\\\\{}();&|<>#`?\n]{0,40}") {
            if let Ok(commands) = fields(&script) {
                prop_assert!(commands.len() <= script.len());
            }
        }
    }
}
