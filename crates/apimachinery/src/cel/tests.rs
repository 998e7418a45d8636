//! Tests of whole expressions.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::*;

fn field(name: &str, of: DeclaredType) -> DeclaredField {
    DeclaredField { name: name.to_owned(), of, takes_space: false }
}

/// Returns the type that most tests use.
fn declared() -> Arc<DeclaredType> {
    let port =
        DeclaredType::object(vec![field("name", DeclaredType::string(40)), field("port", DeclaredType::int())]);
    let keys = Topology::Map(vec!["name".to_owned()]);
    let of = DeclaredType::object(vec![
        field("name", DeclaredType::string(40)),
        field("long", DeclaredType::long_string()),
        field("size", DeclaredType::int()),
        field("ratio", DeclaredType::double()),
        field("on", DeclaredType::bool()),
        field("limit", DeclaredType::int_or_string(40)),
        field("wait", DeclaredType::duration()),
        field("at", DeclaredType::date_time()),
        field("data", DeclaredType::bytes(100)),
        field("namespace", DeclaredType::string(40)),
        field("maybe", DeclaredType::string(40).nullable(true)),
        field("tags", DeclaredType::list(DeclaredType::string(40), Some(10), Topology::Set)),
        field("open", DeclaredType::list(DeclaredType::long_string(), None, Topology::Atomic)),
        field("ports", DeclaredType::list(port, Some(10), keys)),
        field("labels", DeclaredType::map(DeclaredType::string(40), Some(10))),
        field("raw", DeclaredType::hidden()),
    ]);
    Arc::new(of.named("selfType1"))
}

fn object() -> Json {
    json!({
        "name": "web", "long": "text", "size": 3, "ratio": 1, "on": true, "limit": "50%", "wait": "1h30m",
        "at": "2026-01-31T12:00:00Z", "data": "aGk=", "namespace": "prod", "maybe": null,
        "tags": ["a", "b"], "open": ["x"], "labels": { "app": "web", "tier-1": "front" },
        "ports": [{ "name": "http", "port": 80 }, { "name": "dns", "port": 53 }], "raw": { "any": 1 },
    })
}

fn environment(declared: &Arc<DeclaredType>) -> Environment {
    Environment::new().variable("self", declared).optional_variable("oldSelf", declared).dynamic_variable("any")
}

/// Evaluates an expression; a failure is shown after `error: `.
fn run(source: &str) -> String {
    let declared = declared();
    let program = match Program::compile(source, &environment(&declared)) {
        Ok(program) => program,
        Err(error) => return format!("compile: {}", error.issues()[0].message),
    };
    let (object, any) = (object(), json!({ "n": 1, "d": 1.5, "l": [1, "a"], "big": u64::MAX }));
    let activation = Activation::new()
        .with("self", Value::of_declared(&object, &declared).unwrap())
        .with_optional("oldSelf", None)
        .with("any", Value::of_json(&any));
    match program.evaluate(&activation).outcome {
        Ok(value) => value.to_json().map_or_else(|error| format!("error: {error}"), |it| it.to_string()),
        Err(error) => format!("error: {error}"),
    }
}

#[track_caller]
fn all_true(sources: &[&str]) {
    for source in sources {
        assert_eq!(run(source), "true", "{source}");
    }
}

#[test]
fn fields_are_read_with_their_declared_types() {
    all_true(&[
        "self.size == 3 && self.ratio == 1.0 && self.on",
        "self.wait == duration('90m') && self.wait.getMinutes() == 90",
        "self.at.getFullYear() == 2026 && self.at < timestamp('2026-02-01T00:00:00Z')",
        "self.data == b'hi' && string(self.data) == 'hi'",
        "self.__namespace__ == 'prod'",
        "type(self.limit) == string && self.limit.endsWith('%')",
        "self.maybe == null && has(self.maybe)",
        "self.labels['app'] == 'web' && self.labels['tier-1'] == 'front' && 'app' in self.labels",
        "has(self.labels.app) && !has(self.labels.other)",
        "self.ports.exists(p, p.name == 'dns' && p.port == 53)",
        "self.tags == ['b', 'a'] && self.tags + ['b', 'c'] == ['a', 'b', 'c']",
        "self.ports[0].port == 80 && self.ports.size() == 2",
        "!has(oldSelf.size) && oldSelf.?size.orValue(7) == 7 && !oldSelf.hasValue()",
        "self.?name.orValue('x') == 'web' && self.labels[?'none'].orValue('d') == 'd'",
        "any.n == 1 && any.d == 1.5 && any.l[1] == 'a' && any.big > 1",
    ]);
    assert_eq!(run("self.labels.other"), "error: no such key: other");
    assert_eq!(run("self.ports[5].port"), "error: index out of bounds: 5");
    assert_eq!(run("any.missing.more"), "error: no such key: missing");
}

#[test]
fn operators_work_on_all_their_types() {
    all_true(&[
        "1 + 2 * 3 == 7 && 7 / 2 == 3 && -7 % 3 == -1 && 2u + 3u == 5u",
        "1 == 1.0 && 1u == 1 && dyn(1) < 2.5 && 2.5 > 1",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab' && [1] + [2] == [1, 2]",
        "timestamp('2026-01-01T00:00:00Z') - duration('1h') == timestamp('2025-12-31T23:00:00Z')",
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "!(1 / 0 == 1 && false)",
        "{'a': 1}.a == 1 && {'a': {'b': 2}}.a.b == 2 && 1 in [1, 2] && !(3 in [1, 2])",
        "'a' in {'a': 1} && [1, 2].all(x, x > 0) && [1, 2].exists_one(x, x == 1)",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6] && [1, 2, 3].filter(x, x > 1).size() == 2",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6] && {'a': 1, 'b': 2}.map(k, k) == ['a', 'b']",
        "['a', 'b'].all(i, v, i < 2 && v != '') && {'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "[1, 2].transformList(i, v, i + v) == [1, 3] && {'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 'x'}.transformMapEntry(k, v, {v: k}) == {'x': 'a'}",
        "[3, 1, 2].sortBy(x, -x) == [3, 2, 1] && optional.of(1).optMap(x, x + 1).value() == 2",
        "type(1) == int && type('') == string && type([]) == list && type(1.0) == double",
        "string(1.5) == '1.5' && int('12') == 12 && double('1.5') == 1.5 && int(2.9) == 2 && bool('true')",
        "[1, 2, 0].exists(x, 2 / x == 1)",
        "has({'a': 1}.a) && {?'a': optional.none(), 'b': 1}.size() == 1 && [?optional.of(1), 2].size() == 2",
    ]);
    for (source, error) in [
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("[1].map(x, 1 / 0) == [1]", "division by zero"),
        ("any.n + 'a' == ''", "no such overload"),
        ("[0, 1].all(x, 1 / x > 0)", "division by zero"),
    ] {
        assert_eq!(run(source), format!("error: {error}"), "{source}");
    }
}

#[test]
fn the_libraries_of_kubernetes_are_there() {
    all_true(&[
        "'Ab'.lowerAscii() == 'ab' && 'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b'",
        "'abc'.substring(1) == 'bc' && 'abc'.charAt(1) == 'b' && 'abca'.lastIndexOf('a') == 3",
        "'aXbX'.replace('X', '-') == 'a-b-' && 'aXbX'.replace('X', '-', 1) == 'a-bX' && ' a '.trim() == 'a'",
        "'%s is %d of %.2f'.format(['x', 3, 1.5]) == 'x is 3 of 1.50'",
        "'%s'.format([[1, 2]]) == '[1, 2]' && '%x'.format([255]) == 'ff'",
        "'abc 123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2'] && 'abc'.matches('^a.c$')",
        "[1, 2, 3].sum() == 6 && [1, 3].max() == 3 && [1, 2].isSorted() && [1, 2, 1].indexOf(1) == 0",
        "[3, 1].sort() == [1, 3] && lists.range(3) == [0, 1, 2] && [1, 1].distinct() == [1]",
        "[[1], [2]].flatten() == [1, 2] && [1, 2, 3].slice(1, 2) == [2] && [1, 2].reverse() == [2, 1]",
        "sets.contains([1, 2], [1]) && sets.equivalent([1, 2], [2, 1]) && sets.intersects([1], [1, 2])",
        "url('https://example.com:80/a?b=c').getHost() == 'example.com:80' && !isURL('a')",
        "url('https://example.com/?k=a').getQuery() == {'k': ['a']}",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && !isIP('x') && ip.isCanonical('::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.1.1') && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('500m').compareTo(quantity('0.5')) == 0",
        "quantity('1').sub(quantity('2')) == quantity('-1') && sign(quantity('-1')) == -1",
        "quantity('2k').asInteger() == 2000 && isQuantity('1') && !isQuantity('x')",
        "semver('1.10.0').isGreaterThan(semver('1.9.0')) && semver('v1.2', true).minor() == 2",
        "format.dns1123Label().validate('-').hasValue() && !format.dns1123Label().validate('a').hasValue()",
        "format.named('uuid').hasValue() && !format.named('nothing').hasValue()",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "[optional.of(1), optional.none()].unwrapOpt() == [1] && [1, 2].first().value() == 1",
    ]);
}

#[test]
fn an_expression_with_wrong_types_does_not_compile() {
    for (source, message) in [
        ("selfish.a", "undeclared reference to 'selfish' (in container '')"),
        ("self.other", "undefined field 'other'"),
        ("self.size.more", "type 'int' does not support field selection"),
        ("self.size == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.size + 1.5 > 1", "found no matching overload for '_+_' applied to '(int, double)'"),
        ("self.name.length() > 1", "undeclared reference to 'length' (in container '')"),
        ("self.name.startsWith(1)", "found no matching overload for 'startsWith' applied to 'string.(int)'"),
        ("self.ports.all(p, p.other == 1)", "undefined field 'other'"),
        ("self.size.all(x, true)", "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)"),
        ("[1, 'a'].size() == 2", "expected type 'int' but found 'string'"),
        ("self.raw == 1", "undefined field 'raw'"),
        ("self.name && true", "expected type 'bool' but found 'string'"),
        ("self.name.matches('[')", "invalid matches argument"),
        ("self.wait > duration('1 day')", "invalid duration argument"),
        ("self.ports[0].name.size() ==", "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"),
        ("@result", "Syntax error: token recognition error at: '@'"),
        ("cel.bind(x, 1, x)", "undeclared reference to 'x' (in container '')"),
    ] {
        assert_eq!(run(source), format!("compile: {message}"), "{source}");
    }
    let declared = declared();
    let result = |source: &str| Program::compile(source, &environment(&declared)).unwrap().result_type().to_string();
    assert_eq!(result("self.ports.map(p, p.port)"), "list(int)");
    assert_eq!(result("self.labels"), "map(string, string)");
    assert_eq!(result("any.x"), "dyn");
    assert_eq!(result("oldSelf.?size"), "optional_type(int)");
    assert_eq!(result("self.on ? [] : ['a']"), "list(string)");
}

#[test]
fn a_rule_on_lists_without_a_limit_is_estimated_to_be_expensive() {
    let declared = declared();
    let cost = |source: &str| {
        Program::compile(source, &environment(&declared)).unwrap().estimated_cost(&declared)
    };
    // A field costs 1 and an identifier 1; comparing two scalars costs nothing more.
    assert_eq!(cost("self.size == 3"), 2);
    assert_eq!(cost("has(self.size)"), 1);
    assert_eq!(cost("self.name == 'abc'"), 3);
    // 10 items, each with 2 for the condition, 1 for the accumulator and 3 for the comparison.
    assert_eq!(cost("self.ports.all(p, p.port > 0)"), 2 + 10 * (2 + 1 + 3) + 1);
    assert!(cost("self.open.all(x, x.startsWith('a'))") > 5_000_000);
    assert!(cost("self.open.all(x, self.open.all(y, x != y))") > 100_000_000_000);
}

#[test]
fn every_evaluation_ends_within_its_budget() {
    let start = cpu_time();
    let big = Json::Array((0..100_000).map(Json::from).collect());
    let long = json!("x".repeat(1 << 20));
    let environment = Environment::new().dynamic_variable("l").dynamic_variable("s");
    for source in [
        "l.all(x, l.all(y, x + y >= 0))",
        "l.map(x, l + l).size() > 0",
        "l.map(x, l.map(y, [x, y])).size() > 0",
        "l.all(x, s.size() > 0)",
        "l.all(x, s + s != '')",
        "l.all(x, [s] == [s])",
        "l.all(x, s.contains('y' + s))",
        "l.all(x, s.matches('(x+x+)+y'))",
        "l.all(x, s.split('').size() > 0)",
        "lists.range(1000000000).size() > 0",
        "l.distinct().size() > 0",
        "l.map(x, s.replace('x', s)).size() > 0",
        "l.all(x, '%s'.format([l]) != '')",
        "l.transformMap(i, x, l).size() > 0 && l.transformMap(i, x, l + l).size() > 0",
    ] {
        let program = Program::compile(source, &environment).unwrap();
        let activation = Activation::new().with("l", Value::of_json(&big)).with("s", Value::of_json(&long));
        let evaluated = program.evaluate(&activation);
        let kind = evaluated.outcome.unwrap_err().kind;
        assert_eq!(kind, EvaluationErrorKind::LimitExceeded, "{source}");
    }
    let seconds = cpu_time().saturating_sub(start);
    assert!(seconds < 120, "{seconds} s");
}

fn cpu_time() -> u64 {
    cpu_time::ThreadTime::now().as_duration().as_secs()
}

#[test]
fn the_deepest_expressions_fit_on_a_small_stack() {
    let sources = [
        format!("{}true{}", "(!".repeat(90), ")".repeat(90)),
        format!("1{} > 0", " + 1".repeat(190)),
        format!("{}1{} == []", "[".repeat(95), "]".repeat(95)),
        format!("{}true", "true ? true : ".repeat(95)),
        format!("{}true{}", "[1].all(x, ".repeat(40), ")".repeat(40)),
    ];
    std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(move || {
            for source in sources {
                match Program::compile(&source, &Environment::new()) {
                    Ok(program) => {
                        program.estimated_cost(&DeclaredType::any());
                        assert!(program.evaluate(&Activation::new()).outcome.is_ok(), "{source}");
                    }
                    Err(error) => assert!(error.to_string().contains("overload"), "{error}"),
                }
            }
        })
        .unwrap()
        .join()
        .unwrap();
}
