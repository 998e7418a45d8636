//! Mutating admission policies: patches of the object of a request.
//!
//! Mirrors k8s.io/apiserver v0.36.4 pkg/admission/plugin/policy/mutating.

use serde_json::Value as Json;

use crate::kinds::json_access::{at, items, text};
use crate::schema::{Definitions, Schema};

use super::evaluation::{BUDGET, PolicyInput, Scope};
use super::expression::{Compiler, Declared, Expression, Returns, Variable};
use super::match_conditions::MatchConditions;
use super::patches::{Target, apply_configuration, apply_json_patch};

/// A mutating admission policy, compiled.
#[derive(Debug)]
pub struct MutatingPolicy {
    variables: Vec<Variable>,
    conditions: MatchConditions,
    mutations: Vec<Mutation>,
    ignores_errors: bool,
    is_reinvoked: bool,
}

/// One mutation of a policy.
#[derive(Debug)]
pub struct Mutation {
    kind: MutationKind,
    expression: Expression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MutationKind {
    ApplyConfiguration,
    JsonPatch,
}

impl Mutation {
    /// Returns true for a JSON patch, and false for an apply configuration.
    pub fn is_json_patch(&self) -> bool {
        self.kind == MutationKind::JsonPatch
    }
}

impl MutatingPolicy {
    /// Compiles a policy. Expressions that do not compile fail when they are evaluated.
    pub fn compile(policy: &Json) -> Self {
        let declared =
            Declared { params: at(policy, "/spec/paramKind").is_some(), authorizer: true, patches: false };
        let patches = Declared { patches: true, ..declared };
        let ignores_errors = text(policy, "/spec/failurePolicy") == "Ignore";
        let mut compiler = Compiler::composing();
        for variable in items(policy, "/spec/variables") {
            compiler.add_variable(text(variable, "/name"), text(variable, "/expression"), declared);
        }
        let mutation = |it: &Json| {
            let (kind, source, returns) = match text(it, "/patchType") {
                "JSONPatch" => (MutationKind::JsonPatch, "/jsonPatch/expression", Returns::Patches),
                _ => (MutationKind::ApplyConfiguration, "/applyConfiguration/expression", Returns::Object),
            };
            Mutation { kind, expression: compiler.compile(text(it, source), returns, patches) }
        };
        let conditions = items(policy, "/spec/matchConditions");
        Self {
            conditions: MatchConditions::compile(conditions, &compiler, declared, ignores_errors),
            mutations: items(policy, "/spec/mutations").iter().map(mutation).collect(),
            ignores_errors,
            is_reinvoked: text(policy, "/spec/reinvocationPolicy") == "IfNeeded",
            variables: compiler.into_variables(),
        }
    }

    /// Returns true if failures are ignored.
    pub fn ignores_errors(&self) -> bool {
        self.ignores_errors
    }

    /// Returns true if the policy is applied again after later changes of the object.
    pub fn is_reinvoked(&self) -> bool {
        self.is_reinvoked
    }

    /// Returns true if the match conditions do not exclude a request.
    ///
    /// # Errors
    /// The failures of conditions, unless they are ignored.
    pub fn matches(&self, input: &PolicyInput<'_>) -> Result<bool, String> {
        self.conditions.matches_with(input, &self.variables)
    }

    /// Returns the mutations in the order in which they are applied.
    pub fn mutations(&self) -> &[Mutation] {
        &self.mutations
    }

    /// Returns the object of a request after a mutation. `schema` and `definitions` describe it.
    ///
    /// # Errors
    /// The expression fails, or its patch does not apply.
    pub fn apply(
        &self,
        mutation: &Mutation,
        input: &PolicyInput<'_>,
        schema: &Schema,
        definitions: &dyn Definitions,
    ) -> Result<Json, String> {
        let object = input.object.ok_or_else(|| "there is no object to change".to_owned())?;
        if let Err(problem) = &mutation.expression.program {
            return Err(problem.clone());
        }
        let scope = Scope::new(input, &self.variables);
        let mut budget = BUDGET;
        let made = scope.evaluate(&mutation.expression, &mut budget)??;
        let target = Target { schema, definitions };
        match mutation.kind {
            MutationKind::ApplyConfiguration => apply_configuration(&made, object, target),
            MutationKind::JsonPatch => apply_json_patch(&made, object, target),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::evaluation::tests::AllowAll;
    use super::*;
    use crate::builtin::BuiltinDefinitions;

    fn mutate(patch_type: &str, field: &str, expression: &str) -> Result<Json, String> {
        let policy = json!({ "spec": { "variables": [{ "name": "team", "expression": "'red'" }],
            "mutations": [{ "patchType": patch_type, field: { "expression": expression } }] } });
        let policy = MutatingPolicy::compile(&policy);
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "a", "labels": { "app/x": "web" } }, "data": { "a": "1" } });
        let request = json!({ "operation": "CREATE" });
        let input = PolicyInput {
            object: Some(&object),
            old_object: None,
            params: None,
            request: &request,
            namespace: None,
            authorizer: &AllowAll,
        };
        let schema = BuiltinDefinitions.of_kind("", "v1", "ConfigMap").expect("built in");
        policy.apply(&policy.mutations()[0], &input, &schema, &BuiltinDefinitions)
    }

    #[test]
    fn an_apply_configuration_is_merged() {
        let apply = |it| mutate("ApplyConfiguration", "applyConfiguration", it);
        let changed =
            apply("Object{metadata: Object.metadata{labels: {'team': variables.team}}, data: {'b': '2'}}")
                .unwrap();
        assert_eq!(changed["metadata"], json!({ "name": "a", "labels": { "app/x": "web", "team": "red" } }));
        assert_eq!(changed["data"], json!({ "a": "1", "b": "2" }));
        let error = apply("Object{metadata: Object.spec{labels: {'a': 'b'}}}").unwrap_err();
        assert_eq!(
            error,
            "type mismatch: unexpected type name \"Object.spec\", expected \"Object.metadata\", which matches field \
             name path from root Object type"
        );
        let error = apply("Object{size: 1}").unwrap_err();
        assert!(
            error.starts_with("error applying patch: failed to convert patch object to typed object"),
            "{error}"
        );
    }

    #[test]
    fn a_json_patch_is_applied_unless_its_test_fails() {
        let patch = |it| mutate("JSONPatch", "jsonPatch", it);
        let changed = patch(
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('app/y'), value: variables.team}, \
             JSONPatch{op: 'remove', path: '/data'}]",
        )
        .unwrap();
        assert_eq!(changed["metadata"]["labels"], json!({ "app/x": "web", "app/y": "red" }));
        assert_eq!(changed.get("data"), None);
        let unchanged = patch(
            "[JSONPatch{op: 'test', path: '/data/a', value: '2'}, JSONPatch{op: 'remove', path: '/data'}]",
        );
        assert_eq!(unchanged.unwrap()["data"], json!({ "a": "1" }));
        let error = patch("[JSONPatch{op: 'remove', path: '/data/x/y'}]").unwrap_err();
        assert!(error.starts_with("JSON Patch: "), "{error}");
    }
}
