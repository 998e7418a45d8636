//! Custom resources as rows of a table: the columns of their definition and the cells of an object.

use jiff::Timestamp;
use serde_json::{Number, Value, json};

use super::go_format::{json as compact, shown_number};
use super::jsonpath::{JsonPath, MAX_VISITED, Visits};

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources \
                    may allow a client to request the generation of an appropriate name automatically. Name is primarily \
                    intended for creation idempotence and configuration definition. Cannot be updated. More info: \
                    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
                   guaranteed to be set in happens-before order across separate operations. Clients may not set this \
                   value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null \
                   for lists. More info: \
                   https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The length of a timestamp in bytes. A longer one has annotations, which RFC 3339 does not have
/// and the parser would read to their end.
const MAX_TIMESTAMP: usize = 64;

/// The number of bytes of text in a row of a table from which on cells are null. kube-apiserver has
/// no limit.
const MAX_ROW_BYTES: usize = 3 * 1024 * 1024;

/// The number of values that the columns of a table may visit for each byte of an object. A simple
/// path visits one for each of its steps, and `..` every value, each of which has several bytes.
const VISITS_PER_BYTE: usize = 16;

/// The text that the cells of a table may still have, and the values that its columns may still
/// visit, both shared by its rows. Without it, a table would be as large as all objects times the
/// columns, each of which may show the whole object. kube-apiserver has no limit.
///
/// Begins with the limits of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRoom {
    bytes: usize,
    visits: usize,
}

impl Default for CellRoom {
    fn default() -> Self {
        Self { bytes: MAX_ROW_BYTES, visits: MAX_VISITED }
    }
}

impl CellRoom {
    /// Adds room for an object of this size in bytes: the cells of most objects are shorter.
    pub fn add(&mut self, size: usize) {
        self.bytes = self.bytes.saturating_add(size);
        self.visits = self.visits.saturating_add(size.saturating_mul(VISITS_PER_BYTE));
    }

    /// Adds room for the next row of a table without end, which has an object of this size in
    /// bytes. What earlier rows have left does not add up to more than the room of one row.
    pub fn renew(&mut self, size: usize) {
        let one = Self::default();
        *self = Self { bytes: self.bytes.min(one.bytes), visits: self.visits.min(one.visits) };
        self.add(size);
    }
}

/// One column of `additionalPrinterColumns`.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// `integer`, `number`, `string`, `boolean` or `date`.
    pub kind: String,
    /// A hint for clients.
    pub format: String,
    /// The description; derived from the path if the definition has none.
    pub description: String,
    /// 0 for columns that are always shown.
    pub priority: i64,
    /// The path of the cell in the object; `None` if it cannot be parsed.
    pub path: Option<JsonPath>,
}

impl Column {
    /// Reads a column of a definition.
    pub fn read(column: &Value) -> Self {
        let text = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = text("jsonPath");
        let description = Some(text("description")).filter(|description| !description.is_empty());
        let made = || format!("Custom resource definition column (in JSONPath format): {path}");
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: description.unwrap_or_else(made),
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
            path: JsonPath::parse(&path),
        }
    }

    /// Returns the column that shows the age, for definitions without columns.
    pub fn age() -> Self {
        Self {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: AGE.to_owned(),
            priority: 0,
            path: JsonPath::parse(".metadata.creationTimestamp"),
        }
    }
}

/// Returns the `columnDefinitions` of a table: the name, then these columns.
pub fn definitions(columns: &[Column]) -> Vec<Value> {
    let name =
        json!({"name": "Name", "type": "string", "format": "name", "description": NAME, "priority": 0});
    // A column whose path cannot be parsed is dropped with all columns after it: `New` in
    // k8s.io/apiextensions-apiserver v0.36.4
    // pkg/registry/customresource/tableconvertor/tableconvertor.go.
    let usable = columns.iter().take_while(|column| column.path.is_some());
    let others = usable.map(|column| {
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    });
    std::iter::once(name).chain(others).collect()
}

/// Returns the cells of an object: its name, then one for each column, null if there is nothing to
/// show.
///
/// Cells after the first 3 MiB of text are null, and those for which the table has no room: each of
/// many columns may show the whole object. The columns also share the number of values that one
/// path may visit, and the rows that of the table.
pub fn cells(object: &Value, columns: &[Column], now: Timestamp, room: &mut CellRoom) -> Vec<Value> {
    let (mut bytes, mut visits) = (0, Visits::at_most(room.visits));
    let (most, granted) = (room.bytes.min(MAX_ROW_BYTES), visits.left());
    let name = object.pointer("/metadata/name").cloned().unwrap_or_else(|| Value::String(String::new()));
    let paths = columns.iter().map_while(|column| column.path.as_ref().map(|path| (column, path)));
    let others = paths.map(|(column, path)| {
        if bytes >= most || visits.are_spent() {
            return Value::Null;
        }
        let found = path.find_within(object, &mut visits).unwrap_or_default();
        let cell = found.first().map_or(Value::Null, |value| cell(&column.kind, value, now));
        bytes += found.len() + cell.as_str().map_or(0, str::len);
        cell
    });
    let cells = std::iter::once(name).chain(others).collect();
    room.bytes = room.bytes.saturating_sub(bytes);
    room.visits = room.visits.saturating_sub(granted - visits.left());
    cells
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", value) => Value::String(printed(value)),
        ("integer", Value::Number(number)) => whole(number),
        ("number", Value::Number(number)) => float(number),
        ("boolean", Value::Bool(flag)) => Value::Bool(*flag),
        ("date", Value::String(text)) => Value::String(age_of(text, now)),
        _ => Value::Null,
    }
}

fn printed(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => shown_number(number),
        Value::String(text) => text.clone(),
        other => compact(other),
    }
}

fn whole(number: &Number) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "cells of integers are truncated on purpose")]
    let cut = |float: f64| float as i64;
    number.as_i64().or_else(|| number.as_f64().map(cut)).map_or(Value::Null, Value::from)
}

/// Converts a number of a `number` column. Whole numbers become integers: in JSON 7 and 7.0 are the
/// same.
fn float(number: &Number) -> Value {
    match number.as_f64() {
        Some(float) if float.fract() == 0.0 => whole(number),
        _ => Value::Number(number.clone()),
    }
}

fn age_of(text: &str, now: Timestamp) -> String {
    if text.len() > MAX_TIMESTAMP {
        return "<invalid>".to_owned();
    }
    match text.parse::<Timestamp>() {
        _ if text.is_empty() || text == "null" => "<unknown>".to_owned(),
        Ok(then) => age(now.as_second() - then.as_second()),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// Formats a number of seconds in at most two units, as `HumanDuration` in k8s.io/apimachinery
/// v0.36.4 pkg/util/duration/duration.go does.
pub(crate) fn age(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |big: i64, unit: &str, small: i64, smaller: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{smaller}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 2920 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_at_most_two_units() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (9 * 3600 + 60, "9h"),
            (2 * 86_400 + 3600, "2d1h"),
            (9 * 86_400 + 3600, "9d"),
            (731 * 86_400, "2y1d"),
            (3000 * 86_400, "8y"),
        ] {
            assert_eq!(age(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn the_columns_of_a_row_share_the_number_of_values_that_are_visited() {
        let object = json!({"metadata": {"name": "a"}, "spec": {"a": "v", "list": vec![0; 300_000]}});
        let columns = vec![Column::read(&json!({"name": "c", "type": "string", "jsonPath": "..a"})); 20];
        let cells = cells(&object, &columns, Timestamp::UNIX_EPOCH, &mut CellRoom::default());
        assert_eq!(
            (cells.len(), &cells[1], &cells[20]),
            (21, &json!("v"), &Value::Null),
            "the last column is too many"
        );
    }

    #[test]
    fn the_text_of_a_row_is_limited() {
        let object = json!({"metadata": {"name": "a"}, "spec": "x".repeat(MAX_ROW_BYTES / 2)});
        let columns = vec![Column::read(&json!({"name": "c", "type": "string", "jsonPath": ".spec"})); 100];
        let cells = cells(&object, &columns, Timestamp::UNIX_EPOCH, &mut CellRoom::default());
        assert_eq!(cells.len(), 101);
        assert_eq!(cells.iter().filter(|cell| cell.is_null()).count(), 98, "two cells reach the limit");
    }

    #[test]
    fn the_rows_of_a_watch_have_room_in_proportion_to_their_objects() {
        let list = vec![1; 100];
        let object = json!({"metadata": {"name": "a"}, "spec": {"l": [list]}});
        let path = format!(".spec.l[{}0][?(@==1)]", "0,".repeat(8_999));
        let columns = [Column::read(&json!({"name": "c", "type": "integer", "jsonPath": path}))];
        let mut room = CellRoom::default();
        let mut cell = || {
            room.renew(object.to_string().len());
            cells(&object, &columns, Timestamp::UNIX_EPOCH, &mut room).remove(1)
        };
        assert_eq!((cell(), cell()), (json!(1), Value::Null), "the first row takes what one row may take");
    }

    #[test]
    fn a_long_text_is_no_date() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(age_of("1970-01-01T00:00:00Z", now), "0s");
        assert_eq!(age_of(&format!("1970-01-01T00:00:00Z{}", "[a=b]".repeat(20)), now), "<invalid>");
    }

    #[test]
    fn the_rows_of_a_table_share_the_room_for_text() {
        const SIZE: usize = 100_000;
        let object = json!({"metadata": {"name": "a"}, "spec": "x".repeat(SIZE)});
        let columns = vec![Column::read(&json!({"name": "c", "type": "string", "jsonPath": ".spec"})); 20];
        let mut room = CellRoom::default();
        let mut shown = || {
            room.add(SIZE);
            let cells = cells(&object, &columns, Timestamp::UNIX_EPOCH, &mut room);
            assert_eq!((cells.len(), &cells[0]), (21, &json!("a")), "the name is always shown");
            cells.iter().skip(1).filter(|cell| !cell.is_null()).count()
        };
        // The last cell may exceed the room.
        let rows: Vec<usize> = std::iter::repeat_with(&mut shown).take(5).collect();
        assert_eq!(rows, [20, 14, 1, 1, 1], "a row has always room for its own object");
    }

    #[test]
    fn the_rows_of_a_table_share_the_number_of_values_that_are_visited() {
        let object = json!({"metadata": {"name": "a"}, "spec": {"a": "v"}});
        let column = |path: &str| Column::read(&json!({"name": "c", "type": "string", "jsonPath": path}));
        // Each of the last columns visits a value in each of its steps.
        let columns = [vec![column(".spec.a")], vec![column(&".a".repeat(10_000)); 30]].concat();
        let mut room = CellRoom::default();
        for _ in 0..10 {
            room.add(100);
            let cells = cells(&object, &columns, Timestamp::UNIX_EPOCH, &mut room);
            assert_eq!(cells[1], json!("v"), "a row has always room for a simple column");
        }
        assert!(room.visits < 10_000, "{room:?}");
    }
}
