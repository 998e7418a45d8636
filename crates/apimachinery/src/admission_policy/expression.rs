//! Compiled expressions of policies, and the variables that a policy composes them of.

use crate::cel::{Environment, Program, RecordType, Type};

use super::request_types::{NAMESPACE, REQUEST};

/// The optional declarations of an expression.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Declared {
    /// The variable `params`.
    pub(super) params: bool,
    /// The variables `authorizer` and `authorizer.requestResource`.
    pub(super) authorizer: bool,
    /// The types `Object` and `JSONPatch`.
    pub(super) patches: bool,
}

/// The types that the result of an expression may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returns {
    Anything,
    Bool,
    Text,
    TextOrNull,
    Object,
    Patches,
}

impl Returns {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Anything => &[],
            Self::Bool => &["bool"],
            Self::Text => &["string"],
            Self::TextOrNull => &["string", "null_type"],
            Self::Object => &["Object"],
            Self::Patches => &["list(JSONPatch)"],
        }
    }

    fn check(self, of: &Type) -> Result<(), String> {
        let (names, found) = (self.names(), of.runtime_name());
        match names {
            [] => Ok(()),
            names if names.contains(&found.as_str()) => Ok(()),
            [name] => Err(format!("must evaluate to {name} but got {found}")),
            names => Err(format!("must evaluate to one of [{}] but got {found}", names.join(" "))),
        }
    }
}

/// An expression, compiled.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) source: String,
    /// The program, or the reason why there is none.
    pub(super) program: Result<Program, String>,
}

/// An expression with a name, which other expressions read as `variables.NAME`.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) expression: Expression,
}

/// Compiles the expressions of one policy.
#[derive(Debug, Default)]
pub(super) struct Compiler {
    composes: bool,
    variables: Vec<Variable>,
}

impl Compiler {
    /// Returns a compiler without the variable `variables`.
    pub(super) fn stateless() -> Self {
        Self::default()
    }

    /// Returns a compiler for expressions that can read variables, of which there are none yet.
    pub(super) fn composing() -> Self {
        Self { composes: true, variables: Vec::new() }
    }

    /// Compiles a variable, which the expressions after it can read. Returns the reason if that
    /// fails.
    pub(super) fn add_variable(&mut self, name: &str, source: &str, declared: Declared) -> Option<String> {
        let expression = self.compile(source, Returns::Anything, declared);
        let problem = expression.program.as_ref().err().cloned();
        self.variables.push(Variable { name: name.to_owned(), expression });
        problem
    }

    /// Compiles an expression.
    pub(super) fn compile(&self, source: &str, returns: Returns, declared: Declared) -> Expression {
        let program = Program::compile(source, &self.environment(declared))
            .map_err(|error| format!("compilation failed: {error}"))
            .and_then(|it| returns.check(it.result_type()).map(|()| it));
        Expression { source: source.to_owned(), program }
    }

    /// Returns the compiled variables.
    pub(super) fn into_variables(self) -> Vec<Variable> {
        self.variables
    }

    fn environment(&self, declared: Declared) -> Environment {
        let mut environment = Environment::new()
            .dynamic_variable("object")
            .dynamic_variable("oldObject")
            .typed_variable("namespaceObject", NAMESPACE.clone())
            .typed_variable("request", REQUEST.clone());
        if declared.params {
            environment = environment.dynamic_variable("params");
        }
        if declared.authorizer {
            environment = environment.authorizer();
        }
        if declared.patches {
            environment = environment.patch_types();
        }
        if self.composes {
            let fields = self.variables.iter().map(|it| (it.name.as_str(), type_of(&it.expression)));
            let record = RecordType::new("kubernetes.variables", fields);
            environment = environment.typed_variable("variables", Type::record(record));
        }
        environment
    }
}

/// Returns the type of a variable in other expressions. Types that no schema can express are only
/// known at run time (`convertCelTypeToDeclType` of k8s.io/apiserver v0.36.4
/// pkg/admission/plugin/cel/composition.go).
fn type_of(expression: &Expression) -> Type {
    expression.program.as_ref().map_or(Type::Dyn, |it| composed(it.result_type()))
}

fn composed(of: &Type) -> Type {
    match of {
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => of.clone(),
        Type::List(item) => composed(item).list(),
        Type::Map(key, value) => Type::Map(composed(key).into(), composed(value).into()),
        _ => Type::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Declared = Declared { params: true, authorizer: true, patches: true };

    fn problem(compiler: &Compiler, source: &str, returns: Returns, declared: Declared) -> String {
        let problem = compiler.compile(source, returns, declared).program.err();
        problem.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn results_have_the_type_that_their_use_needs() {
        let compiler = Compiler::stateless();
        for (source, returns, expected) in [
            ("object.a == 1", Returns::Bool, ""),
            ("object.a", Returns::Bool, "must evaluate to bool but got dyn"),
            ("1", Returns::Text, "must evaluate to string but got int"),
            ("null", Returns::TextOrNull, ""),
            (
                "[null]",
                Returns::TextOrNull,
                "must evaluate to one of [string null_type] but got list(null_type)",
            ),
            ("Object{a: Object.a{b: 1}}", Returns::Object, ""),
            ("Object.a{}", Returns::Object, "must evaluate to Object but got Object.a"),
            ("[JSONPatch{op: 'add', path: '/a', value: 1}]", Returns::Patches, ""),
            ("[1]", Returns::Patches, "must evaluate to list(JSONPatch) but got list(int)"),
        ] {
            assert_eq!(problem(&compiler, source, returns, ALL), expected, "{source}");
        }
    }

    #[test]
    fn only_declared_names_can_be_used() {
        let compiler = Compiler::stateless();
        for source in ["params", "authorizer", "Object{}", "jsonpatch.escapeKey('a')", "variables.a"] {
            let found = problem(&compiler, source, Returns::Anything, Declared::default());
            assert!(found.contains("undeclared reference to"), "{source}: {found}");
        }
        assert_eq!(problem(&compiler, "request.userInfo.groups[0] == ''", Returns::Bool, ALL), "");
        let found = problem(&compiler, "request.object", Returns::Anything, ALL);
        assert_eq!(found, "compilation failed: ERROR: <input>:1:8: undefined field 'object'");
    }

    #[test]
    fn variables_are_known_by_their_type_to_the_expressions_after_them() {
        let mut compiler = Compiler::composing();
        assert_eq!(compiler.add_variable("size", "size(object.list)", ALL), None);
        assert_eq!(problem(&compiler, "variables.size > 2", Returns::Bool, ALL), "");
        let found = problem(&compiler, "variables.size > 'a'", Returns::Bool, ALL);
        assert!(found.contains("no matching overload for '_>_' applied to '(int, string)'"), "{found}");
        assert!(compiler.add_variable("b", "variables.c", ALL).unwrap().contains("undefined field 'c'"));
    }
}
