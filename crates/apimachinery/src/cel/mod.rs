//! The Common Expression Language as Kubernetes uses it: a parser, a type checker, an estimate of
//! costs and an evaluator with a budget.
//!
//! An [`Environment`] declares variables. [`Program::compile`] checks an expression against it,
//! with the messages of kube-apiserver. [`Program::evaluate`] reads JSON through the declared types
//! of an [`Activation`], without copying it, and stops when the expression has used its budget. No
//! expression loops for long or takes much memory, whatever it says.
//!
//! ```
//! use dogwatch_apimachinery::cel::{Activation, Environment, Program, Value};
//! use serde_json::json;
//!
//! let environment = Environment::new().dynamic_variable("object");
//! let rule = "object.spec.replicas > 1 && has(object.metadata)";
//! let program = Program::compile(rule, &environment).unwrap();
//! let object = json!({ "metadata": {}, "spec": { "replicas": 3 } });
//! let activation = Activation::new().with("object", Value::of_json(&object));
//! assert!(matches!(program.evaluate(&activation).outcome, Ok(Value::Bool(true))));
//! ```
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod error;
mod ast;
mod lexer;
mod macros;
mod parser;
mod escaping;
mod declared;
mod types;
mod functions;
mod unify;
mod checker;
mod cost;
mod meter;
mod moments;
mod networks;
mod urls;
mod semver;
mod named_formats;
mod regexes;
mod authorization;
mod value;
mod formatting;
mod texts;
mod operators;
mod list_functions;
mod library_functions;
mod authorization_functions;
mod runtime_cost;
mod interpreter;
mod format_checks;
mod program;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod hostile_tests;

pub use authorization::{AccessDecision, AccessQuestion, AccessSubject, Authorize, ResourceQuestion};
pub use declared::{DeclaredField, DeclaredType, MAX_REQUEST_SIZE};
pub use error::{CompileError, EvaluationError, EvaluationErrorKind, Issue};
pub use escaping::escape;
pub(crate) use escaping::is_reserved;
pub use interpreter::LazyVariables;
pub use meter::PER_CALL_LIMIT;
pub use program::{Activation, Environment, Evaluated, Program};
pub use types::{RecordType, Type};
pub use value::{JsonValue, Key, LibraryValue, MadeObject, Text, Value};
