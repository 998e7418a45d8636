//! Expressions and objects that are made to exhaust a stack, memory or time.
//!
//! Each expression is small and cheap by the costs of kube-apiserver. The limits of the tests are a
//! multiple of what a build without optimizations takes, and a small part of what the expressions
//! took before.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::*;
use crate::schema::Topology;

/// The processor time of a test, in seconds.
const LONGEST: u64 = 60;

fn field(name: &str, of: DeclaredType) -> DeclaredField {
    DeclaredField { name: name.to_owned(), of, takes_space: false }
}

fn declared() -> Arc<DeclaredType> {
    let keyed = DeclaredType::object(vec![field("k", DeclaredType::long_string())]);
    let keys = Topology::Map(vec!["k".to_owned()]);
    let of = DeclaredType::object(vec![
        field("text", DeclaredType::long_string()),
        field("bytes", DeclaredType::bytes(MAX_REQUEST_SIZE)),
        field("wait", DeclaredType::duration()),
        field("numbers", DeclaredType::list(DeclaredType::int(), None, Topology::Atomic)),
        field("set", DeclaredType::list(DeclaredType::long_string(), Some(10), Topology::Set)),
        field("any", DeclaredType::list(DeclaredType::any(), Some(10), Topology::Set)),
        field("keyed", DeclaredType::list(keyed, Some(10), keys)),
        field("map", DeclaredType::map(DeclaredType::int(), Some(10))),
    ]);
    Arc::new(of.named("selfType"))
}

/// Evaluates an expression for an object, with a twentieth of the usual limit. Returns the result
/// and the processor time in seconds.
fn evaluate(source: &str, object: &Json) -> (Result<Json, EvaluationError>, u64) {
    evaluate_within(PER_CALL_LIMIT / 20, source, object)
}

fn evaluate_within(limit: u64, source: &str, object: &Json) -> (Result<Json, EvaluationError>, u64) {
    let start = cpu_time::ThreadTime::now();
    let declared = declared();
    let environment = Environment::new().variable("self", &declared);
    let program = Program::compile(source, &environment).unwrap_or_else(|error| panic!("{source}: {error}"));
    let activation =
        Activation::new().with("self", Value::of_declared(object, &declared).unwrap()).limit(limit);
    let outcome = program.evaluate(&activation).outcome.and_then(|it| it.to_json());
    (outcome, start.elapsed().as_secs())
}

#[track_caller]
fn is_stopped(source: &str, object: &Json) {
    is_stopped_within(PER_CALL_LIMIT / 20, source, object);
}

#[track_caller]
fn is_stopped_within(limit: u64, source: &str, object: &Json) {
    let (outcome, seconds) = evaluate_within(limit, source, object);
    let kind = outcome.map_err(|it| it.kind);
    assert!(matches!(kind, Err(EvaluationErrorKind::LimitExceeded)), "{source}: {kind:?}");
    assert!(seconds < LONGEST, "{source} took {seconds} s");
}

/// Regression test: the depth was only compared when the tree was complete. Each chain in each
/// bracket made it deeper, and a tree of this depth overflows the stack when it is dropped.
#[test]
fn chains_in_brackets_are_refused_before_their_tree_is_deep() {
    let chain = |operator: &str| operator.repeat(140);
    let (fields, products, sums) = (chain(".b"), chain("*1"), chain("+1"));
    let deep = format!("{}x{}", "(".repeat(48), format!("{fields}{products}{sums})").repeat(48));
    let copied = format!("a[{deep}].optMap(x, x)");
    let in_list = format!("[{deep}].all(x, x)");
    let hostile = [deep, copied, in_list];
    std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(move || {
            for source in hostile {
                let error = Program::compile(&source, &Environment::new()).unwrap_err();
                assert!(error.issues()[0].message.contains("recursion limit"), "{error}");
            }
        })
        .unwrap()
        .join()
        .unwrap();
}

/// Regression test: a type that contains another one twice was copied as a tree.
#[test]
fn types_that_double_with_each_step_are_refused() {
    let start = cpu_time::ThreadTime::now();
    let doubled = format!("[1]{}.size() > 0", ".map(a, {a: a})".repeat(40));
    let parameters =
        format!("{}true{}", "[[]].all(a, [[]].all(b, a == [{b[0]: b[0]}] || ".repeat(20), "))".repeat(20));
    let nested = format!("{}1{}", "[".repeat(40), "]".repeat(40));
    for source in [doubled, parameters, format!("{nested} == {nested}")] {
        let _ = Program::compile(&source, &Environment::new());
    }
    let shared = format!("[1]{}.size() > 0", ".map(a, {a: a})".repeat(30));
    let error = Program::compile(&shared, &Environment::new()).unwrap_err();
    assert!(error.to_string().contains("types"), "{error}");
    assert!(start.elapsed().as_secs() < LONGEST, "{:?}", start.elapsed());
}

/// Regression test: the names of types were paths from the root, and each had a copy of a long key.
#[test]
fn the_names_of_types_below_a_long_key_are_short() {
    let many = (0..1_000).map(|it| field(&format!("f{it}"), DeclaredType::object(Vec::new()))).collect();
    let below = vec![field(&"k".repeat(1 << 16), DeclaredType::object(many))];
    let declared = DeclaredType::object(below).named("selfType");
    let inner = declared.field(&"k".repeat(1 << 16)).unwrap();
    let names: Vec<_> =
        (0..1_000).map(|it| inner.field(&format!("f{it}")).unwrap().name().to_owned()).collect();
    assert!(names.iter().all(|it| it.len() < 2_000), "{}", names[0].len());
    assert_eq!(names.iter().collect::<std::collections::HashSet<_>>().len(), 1_000, "each has its own");
}

/// Regression test: the memory of decoded bytes, and the time to decode them, were not counted.
#[test]
fn decoded_texts_are_counted() {
    let numbers: Vec<u32> = (0..20_000).collect();
    let object = json!({ "numbers": numbers, "bytes": "AAAA".repeat(100_000) });
    is_stopped("self.numbers.map(x, self.bytes).size() > 0", &object);
    let object = json!({ "numbers": numbers, "wait": "0s".repeat(100_000) });
    is_stopped("self.numbers.all(x, self.wait == self.wait)", &object);
}

/// Regression test: values that share their parts were copied as trees.
#[test]
fn a_value_that_contains_itself_many_times_is_not_copied() {
    let doubled = format!("[1]{}", ".map(a, [a, a])".repeat(30));
    let object = json!({ "any": ["x"] });
    let (result, seconds) = evaluate(&doubled, &object);
    assert!(result.is_err() && seconds < LONGEST, "{seconds} s");
    is_stopped(&format!("(self.any + dyn({doubled})).size() > 0"), &object);
}

/// Regression test: the items of sets, and the keys of items, were compared for the price of their
/// number.
#[test]
fn long_items_of_sets_and_maps_are_counted() {
    let (numbers, long): (Vec<u32>, _) = ((0..20_000).collect(), "x".repeat(200_000));
    let object = json!({ "numbers": numbers, "set": [long], "keyed": [{ "k": long }], "map": { "a": 1 },
        "text": long });
    for source in [
        "self.numbers.all(x, self.set == self.set)",
        "self.numbers.all(x, self.keyed == self.keyed)",
        "self.numbers.all(x, (self.keyed + self.keyed).size() > 0)",
        "self.numbers.all(x, !(self.text in self.map))",
        "self.numbers.all(x, self.map[self.text] == 1 || true)",
        "self.numbers.all(x, timestamp('2026-01-01T00:00:00Z').getDate(self.text) == 1 || true)",
    ] {
        is_stopped(source, &object);
    }
}

/// Regression test: each parameter was compared with all before it.
#[test]
fn the_parameters_of_a_url_take_linear_time() {
    let query: String = (0..60_000).map(|it| format!("p{it}&")).collect();
    let object = json!({ "text": format!("https://a/?{query}") });
    let (result, seconds) = evaluate("url(self.text).getQuery().size() == 60000", &object);
    assert_eq!(result.ok(), Some(json!(true)));
    assert!(seconds < LONGEST, "{seconds} s");
}

/// Regression tests: a search was counted as if every expression were small, each of many matches
/// may read the rest of the text, and compiling an expression was cheap.
#[test]
fn searches_are_counted_by_the_size_of_their_expression() {
    let bits: String = (0..400_000_u32).map(|it| if it.count_ones() % 2 == 0 { 'a' } else { 'b' }).collect();
    let object = json!({ "text": bits, "numbers": (0..20_000).collect::<Vec<u32>>() });
    let long = "self.text.matches('(a|b)*a(a|b){900}(a|b){900}(a|b){900}c') || true";
    is_stopped_within(PER_CALL_LIMIT, long, &object);
    is_stopped_within(PER_CALL_LIMIT / 4, "self.text.findAll('.*c|[ab]').size() > 0", &object);
    is_stopped("self.numbers.all(x, 'a'.matches('(a{90}){9' + string(x % 9) + '}') || true)", &object);
}

/// Regression test: an absorbed failure was copied for each item, with the text in its message.
#[test]
fn the_message_of_a_failure_is_short() {
    let object = json!({ "text": "x".repeat(1 << 18) });
    let (result, _) = evaluate("url(self.text).getHost() == ''", &object);
    let message = result.unwrap_err().message;
    assert!(message.starts_with("URL parse error") && message.len() < 5_000, "{}", message.len());
}
