//! The JSONPath of printer columns and selectable fields: fields, indexes, slices, `[*]`, unions
//! and filters such as `[?(@.type=="Ready")]` (k8s.io/client-go v0.36.4 util/jsonpath). Ranges and
//! text around the path, which kubectl's templates have, are not supported in columns.

use serde_json::Value;

use crate::plain_json;

/// The number of values that one evaluation of a path may visit. Without it, repeated `..` and
/// unions visit the same values again and again: `n` of them take time that is exponential in `n`.
pub(crate) const MAX_VISITED: usize = 1_000_000;

/// The number of bytes whose comparison counts as one visit. A path can compare the same long
/// string with itself again and again.
const BYTES_PER_VISIT: usize = 64;

/// The number of bytes of all steps of a path. kube-apiserver has no limit of its own.
const MAX_LENGTH: usize = 64 * 1024;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Every,
    Descend,
    Slice { from: Option<i64>, to: Option<i64>, step: Option<i64> },
    Index(i64),
    Filter { left: Operand, test: Option<(Comparison, Operand)> },
    Union(Vec<Step>),
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a path such as `.spec.replicas`. Returns `None` if it is not valid.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        let (steps, rest) = parse_steps(text.strip_prefix('$').unwrap_or(text), "")?;
        rest.is_empty().then_some(Self(steps))
    }

    /// Returns the values that the path selects; `None` if it cannot be followed, as when an index
    /// is out of bounds or a value that is not a list is indexed, or when too many values would
    /// have to be visited. A missing field selects nothing, which is not an error.
    pub fn find<'a>(&self, value: &'a Value) -> Option<Vec<&'a Value>> {
        self.find_within(value, &mut Visits::default())
    }

    /// Like [`Self::find`], for one of several paths that share a number of visits.
    pub(crate) fn find_within<'a>(&self, value: &'a Value, visits: &mut Visits) -> Option<Vec<&'a Value>> {
        walk(&self.0, vec![value], visits)
    }
}

/// Parses steps up to one of the characters in `stops`, or to the end.
fn parse_steps<'a>(text: &'a str, stops: &str) -> Option<(Vec<Step>, &'a str)> {
    let mut steps = Vec::new();
    let mut rest = text;
    loop {
        if rest.starts_with(|next| stops.contains(next)) || rest.is_empty() {
            return Some((steps, rest));
        }
        if let Some(after) = rest.strip_prefix("..") {
            steps.push(Step::Descend);
            if after.starts_with('[') {
                rest = after;
                continue;
            }
            let (step, after) = parse_field(after, stops)?;
            steps.push(step);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            if after.is_empty() || after.starts_with('[') {
                rest = after;
                continue;
            }
            let (step, after) = parse_field(after, stops)?;
            steps.push(step);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (step, after) = parse_brackets(after)?;
            steps.push(step);
            rest = after;
        } else {
            return None;
        }
    }
}

/// Parses the name of a field, in which a backslash escapes dots and the like.
fn parse_field<'a>(text: &'a str, stops: &str) -> Option<(Step, &'a str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, ch)) = chars.next() {
        match ch {
            '\\' => name.push(chars.next()?.1),
            '.' | '[' | ']' | '|' | ' ' | ')' => {
                end = at;
                break;
            }
            ch if stops.contains(ch) => {
                end = at;
                break;
            }
            ch => name.push(ch),
        }
    }
    match name.as_str() {
        "" => None,
        "*" => Some((Step::Every, &text[end..])),
        _ => Some((Step::Field(name), &text[end..])),
    }
}

/// Parses the content of brackets. Returns it with the text after the closing bracket.
fn parse_brackets(text: &str) -> Option<(Step, &str)> {
    if let Some(filter) = text.strip_prefix("?(") {
        return parse_filter(filter);
    }
    let end = closing(text)?;
    let (inside, rest) = (&text[..end], &text[end + 1..]);
    let parts = split_outside_quotes(inside, ',');
    let mut steps = parts.into_iter().map(parse_subscript).collect::<Option<Vec<Step>>>()?;
    let step = if steps.len() == 1 { steps.remove(0) } else { Step::Union(steps) };
    Some((step, rest))
}

fn parse_subscript(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::Every);
    }
    if let Some(name) = unquoted(text) {
        return Some(Step::Field(name));
    }
    let number = |part: &str| match part.trim() {
        "" => Some(None),
        digits => digits.parse::<i64>().ok().map(Some),
    };
    match text.split(':').collect::<Vec<_>>().as_slice() {
        [index] => number(index)?.map(Step::Index),
        [from, to] => Some(Step::Slice { from: number(from)?, to: number(to)?, step: None }),
        [from, to, step] => Some(Step::Slice { from: number(from)?, to: number(to)?, step: number(step)? }),
        _ => None,
    }
}

fn parse_filter(text: &str) -> Option<(Step, &str)> {
    let end = filter_end(text)?;
    let (inside, rest) = (text[..end].trim(), &text[end + 2..]);
    const SIGNS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let sign = outside_quotes(inside).find_map(|at| {
        SIGNS
            .iter()
            .find(|(sign, _)| inside[at..].starts_with(sign))
            .map(|(sign, comparison)| (at, sign.len(), *comparison))
    });
    let Some((at, length, comparison)) = sign else {
        return Some((Step::Filter { left: parse_operand(inside)?, test: None }, rest));
    };
    let left = parse_operand(&inside[..at])?;
    let right = parse_operand(&inside[at + length..])?;
    Some((Step::Filter { left, test: Some((comparison, right)) }, rest))
}

fn parse_operand(text: &str) -> Option<Operand> {
    let text = text.trim();
    if let Some(path) = text.strip_prefix('@') {
        let (steps, rest) = parse_steps(path, "")?;
        return rest.is_empty().then_some(Operand::Path(steps));
    }
    if let Some(text) = unquoted(text) {
        return Some(Operand::Literal(Value::String(text)));
    }
    let literal = plain_json::from_str(text).ok()?;
    (literal.is_number() || literal.is_boolean()).then_some(Operand::Literal(literal))
}

fn unquoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    Some(inner.replace(&format!("\\{quote}"), &quote.to_string()))
}

/// Returns the byte offsets of a text that are not inside quotes.
fn outside_quotes(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut quote: Option<char> = None;
    text.char_indices().filter_map(move |(at, ch)| match quote {
        Some(open) => {
            if ch == open {
                quote = None;
            }
            None
        }
        None if matches!(ch, '\'' | '"') => {
            quote = Some(ch);
            None
        }
        None => Some(at),
    })
}

fn closing(text: &str) -> Option<usize> {
    outside_quotes(text).find(|at| text[*at..].starts_with(']'))
}

fn filter_end(text: &str) -> Option<usize> {
    outside_quotes(text).find(|at| text[*at..].starts_with(")]"))
}

fn split_outside_quotes(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for at in outside_quotes(text).filter(|at| text[*at..].starts_with(separator)) {
        parts.push(&text[start..at]);
        start = at + separator.len_utf8();
    }
    parts.push(&text[start..]);
    parts
}

/// The number of values that may still be visited.
pub(crate) struct Visits(usize);

impl Default for Visits {
    fn default() -> Self {
        Self(MAX_VISITED)
    }
}

impl Visits {
    /// Returns this number of visits, or that of one evaluation if that is less.
    pub(crate) fn at_most(count: usize) -> Self {
        Self(count.min(MAX_VISITED))
    }

    /// Returns the number of values that may still be visited.
    pub(crate) fn left(&self) -> usize {
        self.0
    }

    /// Returns true if no further value may be visited.
    pub(crate) fn are_spent(&self) -> bool {
        self.0 == 0
    }

    fn take(&mut self, count: usize) -> Option<()> {
        let left = self.0.checked_sub(count);
        self.0 = left.unwrap_or(0);
        left.map(drop)
    }
}

fn walk<'a>(steps: &[Step], values: Vec<&'a Value>, visits: &mut Visits) -> Option<Vec<&'a Value>> {
    steps.iter().try_fold(values, |values, step| apply(step, &values, visits))
}

fn apply<'a>(step: &Step, values: &[&'a Value], visits: &mut Visits) -> Option<Vec<&'a Value>> {
    visits.take(values.len() + 1)?;
    let mut found = Vec::new();
    let there = values.iter().copied().filter(|value| !value.is_null());
    match step {
        Step::Field(name) => {
            visits.take(values.len().saturating_mul(name.len() / BYTES_PER_VISIT))?;
            found.extend(there.filter_map(|value| value.as_object()?.get(name)));
        }
        Step::Every => {
            for value in there {
                let children = children(value);
                visits.take(children.len())?;
                found.extend(children);
            }
        }
        Step::Descend => {
            for value in there {
                descend(value, &mut found, visits)?;
            }
        }
        Step::Index(index) => {
            for value in there {
                found.push(at(value.as_array()?, *index)?);
            }
        }
        Step::Slice { from, to, step } => {
            for value in there {
                let items = slice(value.as_array()?, *from, *to, *step)?;
                visits.take(items.len())?;
                found.extend(items);
            }
        }
        Step::Filter { left, test } => {
            for value in values {
                for item in value.as_array()? {
                    visits.take(1)?;
                    if passes(item, left, test.as_ref(), visits)? {
                        found.push(item);
                    }
                }
            }
        }
        Step::Union(steps) => {
            for step in steps {
                found.extend(apply(step, values, visits)?);
            }
        }
    }
    Some(found)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(object) => object.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>, visits: &mut Visits) -> Option<()> {
    let children = children(value);
    visits.take(children.len())?;
    if !children.is_empty() {
        found.push(value);
    }
    children.into_iter().try_for_each(|child| descend(child, found, visits))
}

/// Returns the item at an index. Negative indexes count from the end.
fn at(items: &[Value], index: i64) -> Option<&Value> {
    let length = i64::try_from(items.len()).ok()?;
    let index = if index < 0 { index + length } else { index };
    items.get(usize::try_from(index).ok()?)
}

fn slice(items: &[Value], from: Option<i64>, to: Option<i64>, step: Option<i64>) -> Option<Vec<&Value>> {
    let length = i64::try_from(items.len()).ok()?;
    let wrap = |index: i64| if index < 0 { index + length } else { index };
    let (from, to) = (wrap(from.unwrap_or(0)), wrap(to.unwrap_or(length)));
    if from == to {
        return Some(Vec::new());
    }
    let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0)?;
    let items = items.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)?;
    Some(items.iter().step_by(step).collect())
}

fn passes(
    item: &Value,
    left: &Operand,
    test: Option<&(Comparison, Operand)>,
    visits: &mut Visits,
) -> Option<bool> {
    let Some((comparison, right)) = test else {
        let found = operands(left, item, visits).is_some_and(|found| !found.as_slice().is_empty());
        return (visits.0 > 0).then_some(found);
    };
    let (left, right) = (operands(left, item, visits)?, operands(right, item, visits)?);
    match (left.as_slice(), right.as_slice()) {
        ([], _) | (_, []) => Some(false),
        ([left], [right]) => {
            visits.take(bytes_compared(left, right) / BYTES_PER_VISIT)?;
            compare(left, *comparison, right)
        }
        _ => None,
    }
}

fn operands<'a>(operand: &'a Operand, item: &'a Value, visits: &mut Visits) -> Option<Found<'a>> {
    match operand {
        Operand::Literal(literal) => Some(Found::One(literal)),
        Operand::Path(steps) if steps.is_empty() => Some(Found::One(item)),
        Operand::Path(steps) => walk(steps, vec![item], visits).map(Found::Any),
    }
}

/// The values of an operand. The usual single one needs no allocation for each item of a list.
enum Found<'a> {
    One(&'a Value),
    Any(Vec<&'a Value>),
}

impl<'a> Found<'a> {
    fn as_slice(&self) -> &[&'a Value] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Any(values) => values,
        }
    }
}

/// Returns the number of bytes that a comparison of two values reads at most.
fn bytes_compared(left: &Value, right: &Value) -> usize {
    match (left, right) {
        (Value::String(left), Value::String(right)) => left.len().min(right.len()),
        _ => 0,
    }
}

fn compare(left: &Value, comparison: Comparison, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?)?,
        (Value::Bool(left), Value::Bool(right))
            if matches!(comparison, Comparison::Equal | Comparison::NotEqual) =>
        {
            left.cmp(right)
        }
        _ => return None,
    };
    Some(match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_select_the_same_values_as_in_kube_apiserver() {
        let value = json!({
            "a": {"b.c/d": 1, "n": null},
            "l": [{"type": "Ready", "status": "True", "n": 2}, {"type": "Up", "status": "False"}],
        });
        for (path, found) in [
            (".a['b.c/d']", Some(vec![json!(1)])),
            (r".a.b\.c/d", Some(vec![json!(1)])),
            (".a.n", Some(vec![json!(null)])),
            (".a.n.x", Some(vec![])),
            (".missing.x", Some(vec![])),
            (".l[0].type", Some(vec![json!("Ready")])),
            (".l[-1].type", Some(vec![json!("Up")])),
            (".l[5]", None),
            (".a[0]", None),
            (".l[*].type", Some(vec![json!("Ready"), json!("Up")])),
            (".l[0:1].type", Some(vec![json!("Ready")])),
            (".l[0,1].type", Some(vec![json!("Ready"), json!("Up")])),
            (r#".l[?(@.type=="Ready")].status"#, Some(vec![json!("True")])),
            (r#".l[?(@.type == 'Up')].status"#, Some(vec![json!("False")])),
            (".l[?(@.n)].type", Some(vec![json!("Ready")])),
            (".l[?(@.n>1)].type", Some(vec![json!("Ready")])),
            (".l[?(@.n>2)].type", Some(vec![])),
            ("..type", Some(vec![json!("Ready"), json!("Up")])),
        ] {
            let parsed = JsonPath::parse(path).unwrap_or_else(|| panic!("{path} is a path"));
            let got = parsed.find(&value).map(|found| found.into_iter().cloned().collect::<Vec<_>>());
            assert_eq!(got, found, "{path}");
        }
        for path in [".l[", ".l[?(@.a", ".a[x]", "a"] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }

    #[test]
    fn a_path_that_visits_values_again_and_again_finds_nothing() {
        let nested = (0..50).fold(json!([1]), |inner, _| json!([inner, 1]));
        for (path, finds) in [
            ("..[*]".to_owned(), true),
            ("..[*]".repeat(20), false),
            ("[*,*]".repeat(40), false),
            (format!("..[?(@{})]", "..[*]".repeat(20)), false),
        ] {
            let parsed = JsonPath::parse(&path).unwrap_or_else(|| panic!("{path} is a path"));
            assert_eq!(parsed.find(&nested).is_some(), finds, "{path}");
        }
        assert_eq!(JsonPath::parse(&".a".repeat(MAX_LENGTH)), None);
    }

    #[test]
    fn a_path_that_compares_a_long_string_again_and_again_finds_nothing() {
        let often = format!("[{}0]", "0,".repeat(499));
        let path = JsonPath::parse(&format!(".l{often}{often}[?(@==@)]")).expect("it is a path");
        let list = |length: usize| json!({ "l": [[["x".repeat(length)]]] });
        assert_eq!(path.find(&list(1)).map(|it| it.len()), Some(250_000));
        assert_eq!(path.find(&list(100_000)), None);
    }
}
