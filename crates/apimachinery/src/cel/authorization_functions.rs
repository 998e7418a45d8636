//! The functions of the authorizer library (k8s.io/apiserver v0.36.4 pkg/cel/library/authz.go).

use std::sync::Arc;

use super::authorization::{AccessQuestion, Authorization, ResourceQuestion, Stage};
use super::error::EvaluationError;
use super::value::Value;
use crate::names;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Calls a function; `None` if there is none for these arguments.
pub(crate) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    let (Value::Authorization(it), rest) = args.split_first()? else { return None };
    let found = match rest {
        [] => return decision(function, it),
        [Value::String(text)] => with_text(function, it, text)?,
        [Value::String(namespace), Value::String(name)] if function == "serviceAccount" => {
            service_account(it, namespace, name)
        }
        _ => return None,
    };
    Some(found.map(|it| Value::Authorization(Arc::new(it))))
}

fn with_text<'a>(
    function: &str,
    it: &Authorization<'a>,
    text: &str,
) -> Option<Result<Authorization<'a>, EvaluationError>> {
    let not_empty = |what: &str| match text.trim() {
        "" => Err(EvaluationError::failed(format!("{what} must not be empty"))),
        _ => Ok(text.to_owned()),
    };
    Some(match (function, &it.stage) {
        ("path", Stage::Authorizer) => {
            not_empty("path").map(|path| it.at(Stage::Question(AccessQuestion::Path(path))))
        }
        ("group", Stage::Authorizer) => Ok(it.at(Stage::Group(text.to_owned()))),
        ("resource", Stage::Group(group)) => not_empty("resource").map(|resource| {
            it.about(ResourceQuestion { group: group.clone(), resource, ..ResourceQuestion::default() })
        }),
        ("check", Stage::Question(question)) => Ok(it.decide(question, text)),
        (function, Stage::Question(AccessQuestion::Resource(question))) => {
            let (mut question, text) = (question.clone(), text.to_owned());
            match function {
                "subresource" => question.subresource = text,
                "namespace" => question.namespace = text,
                "name" => question.name = text,
                // The authorizers of this server do not read selectors, as those of kube-apiserver
                // but the node authorizer do not.
                "fieldSelector" | "labelSelector" => {}
                _ => return None,
            }
            Ok(it.about(question))
        }
        _ => return None,
    })
}

fn service_account<'a>(
    it: &Authorization<'a>,
    namespace: &str,
    name: &str,
) -> Result<Authorization<'a>, EvaluationError> {
    if !matches!(it.stage, Stage::Authorizer) {
        return Err(EvaluationError::no_such_overload());
    }
    if !names::subdomain(name).is_empty() {
        return Err(EvaluationError::failed("Invalid service account name"));
    }
    if !names::label(namespace).is_empty() {
        return Err(EvaluationError::failed("Invalid service account namespace"));
    }
    Ok(it.for_service_account(namespace, name))
}

fn decision<'a>(function: &str, it: &Authorization<'a>) -> Option<Outcome<'a>> {
    let Stage::Decision(decision) = &it.stage else { return None };
    Some(Ok(match function {
        "allowed" => Value::Bool(decision.allowed),
        "reason" => Value::text(decision.reason.as_str()),
        "errored" => Value::Bool(decision.error.is_some()),
        "error" => Value::text(decision.error.as_deref().unwrap_or_default()),
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::authorization::{AccessDecision, AccessSubject, Authorize};
    use super::super::{Activation, Environment, Program};
    use super::*;

    /// Allows what its text contains.
    #[derive(Debug)]
    struct Listed(&'static str);

    impl Authorize for Listed {
        fn decide(&self, subject: &AccessSubject, question: &AccessQuestion, verb: &str) -> AccessDecision {
            let asked = format!("{subject:?} {question:?} {verb}");
            AccessDecision { allowed: asked.contains(self.0), reason: asked, error: None }
        }
    }

    fn answer(expression: &str, allowed: &'static str) -> String {
        let program = Program::compile(expression, &Environment::new().authorizer()).unwrap();
        let authorizer = Listed(allowed);
        let activation =
            Activation::new().with_authorizer(&authorizer, ("apps", "deployments"), "scale", ("ns", "web"));
        let evaluated = program.evaluate(&activation);
        match evaluated.outcome {
            Ok(Value::Bool(it)) => format!("{it} {}", evaluated.cost),
            Ok(Value::String(text)) => text.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_question_is_built_step_by_step_and_costs_as_much_as_in_kube_apiserver() {
        let expression =
            "authorizer.group('').resource('pods').namespace('a').name('b').check('get').allowed()";
        let listed = r#"resource: "pods", subresource: "", namespace: "a", name: "b" }) get"#;
        assert_eq!(answer(expression, listed), "true 350006");
        assert_eq!(answer(expression, "no such text"), "false 350006");
        let own = "authorizer.requestResource.check('update').reason()";
        assert!(answer(own, "").contains(r#"group: "apps", resource: "deployments", subresource: "scale""#));
        let path = "authorizer.serviceAccount('ns', 'sa').path('/healthz').check('get').reason()";
        assert_eq!(
            answer(path, ""),
            r#"ServiceAccount { namespace: "ns", name: "sa" } Path("/healthz") get"#
        );
    }

    #[test]
    fn incomplete_questions_fail() {
        for (expression, message) in [
            ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
            ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
            (
                "authorizer.serviceAccount('a', 'B').path('/').check('get').allowed()",
                "Invalid service account name",
            ),
        ] {
            assert!(answer(expression, "").contains(message), "{expression}");
        }
        let error = Program::compile("authorizer.resource('pods')", &Environment::new().authorizer());
        let message = error.map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("found no matching overload for 'resource'"), "{message}");
    }
}
