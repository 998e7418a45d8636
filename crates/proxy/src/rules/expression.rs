//! Conditions and changes of rules that are written in the Common Expression Language. The variable
//! `object` is the stored object in a condition, and the object so far in a change.

use std::sync::Arc;

use dogwatch_apimachinery::cel::{Activation, Environment, Program, Type, Value as CelValue};
use serde_json::Value;

/// An expression that is true for the objects of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Condition(Arc<Program>);

impl Condition {
    /// Compiles a condition; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let program = compile(text)?;
        match program.result_type() {
            Type::Bool | Type::Dyn => Ok(Self(program)),
            _ => Err("the expression of `when` must be true or false".to_owned()),
        }
    }

    /// Returns the result for an object; `None` if there is none, because a field is missing or has
    /// another type, or the evaluation was too long.
    pub(crate) fn holds(&self, object: &Value) -> Option<bool> {
        match evaluate(&self.0, object) {
            Some(Value::Bool(holds)) => Some(holds),
            _ => None,
        }
    }
}

/// An expression whose result is a merge patch.
#[derive(Clone, Debug)]
pub(crate) struct PatchExpression(Arc<Program>);

impl PatchExpression {
    /// Compiles an expression; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let program = compile(text)?;
        match program.result_type() {
            Type::Map(..) | Type::Dyn => Ok(Self(program)),
            _ => Err("the expression of a patch must be a map, which is applied as a merge patch".to_owned()),
        }
    }

    /// Returns the patch for an object; `None` if there is none.
    pub(crate) fn patch(&self, object: &Value) -> Option<Value> {
        evaluate(&self.0, object).filter(Value::is_object)
    }
}

fn compile(text: &str) -> Result<Arc<Program>, String> {
    // Patches have values of several types.
    let environment = Environment::new().dynamic_variable("object").mixed_literals();
    let program = Program::compile(text, &environment).map_err(|error| error.to_string())?;
    Ok(Arc::new(program))
}

fn evaluate(program: &Program, object: &Value) -> Option<Value> {
    let activation = Activation::new().with("object", CelValue::of_json(object));
    program.evaluate(&activation).outcome.ok()?.to_json().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_holds_does_not_hold_or_has_no_result() {
        let service =
            json!({ "metadata": { "labels": { "a-b": "x" } }, "spec": { "ports": [{ "port": 80 }] } });
        for (text, expected) in [
            ("object.spec.ports.exists(it, it.port == 80)", Some(true)),
            ("object.metadata.labels['a-b'] == 'y'", Some(false)),
            ("object.spec.type == 'NodePort'", None),
            ("has(object.spec.type) && object.spec.type == 'NodePort'", Some(false)),
            ("object.?spec.?type.orValue('') == ''", Some(true)),
            ("object.spec", None),
        ] {
            assert_eq!(Condition::parse(text).unwrap().holds(&service), expected, "{text}");
        }
    }

    #[test]
    fn an_expression_that_would_take_long_has_no_result() {
        let text = "object.all(a, object.all(b, object.all(c, object.all(d, a + b + c + d >= 0))))";
        assert_eq!(Condition::parse(text).unwrap().holds(&json!(vec![1; 1_000])), None);
    }

    #[test]
    fn a_patch_is_computed_from_the_object() {
        let patch = PatchExpression::parse(
            "{'metadata': {'annotations': {'ports': string(object.spec.ports.size())}}, 'spec': {'type': null}}",
        );
        let object = json!({ "spec": { "ports": [1, 2] } });
        assert_eq!(
            patch.unwrap().patch(&object),
            Some(json!({ "metadata": { "annotations": { "ports": "2" } }, "spec": { "type": null } }))
        );
        assert_eq!(PatchExpression::parse("object.missing").unwrap().patch(&object), None);
        assert_eq!(PatchExpression::parse("object.spec.ports").unwrap().patch(&object), None);
    }

    #[test]
    fn an_expression_of_the_wrong_type_or_with_an_unknown_variable_is_refused() {
        assert!(Condition::parse("1 + 1").unwrap_err().contains("true or false"));
        assert!(PatchExpression::parse("'text'").unwrap_err().contains("must be a map"));
        assert!(Condition::parse("oldObject.x").unwrap_err().contains("undeclared reference"));
        assert!(Condition::parse("object.x ==").unwrap_err().contains("1:12"));
    }
}
