//! The fifth stage of a write: rejects an object that breaks the rules of its kind.

use serde_json::Value;

use super::signers::certificate_problem;
use super::write::Write;
use crate::admission_policy::check;
use crate::custom;
use crate::kinds::core::pod;
use crate::kinds::json_access::text;
use crate::kinds::signing;
use crate::kinds::validate;
use crate::kinds::{
    DEFINITION, MUTATING_BINDING, MUTATING_POLICY, MUTATING_WEBHOOKS, SIGNING_REQUEST, VALIDATING_BINDING,
    VALIDATING_POLICY, VALIDATING_WEBHOOKS,
};
use crate::ownership;
use crate::protobuf;
use crate::{ApiError, FieldError, FieldErrorKind, FieldErrors};

impl Write<'_> {
    /// Validates an object that is prepared.
    ///
    /// # Errors
    /// 422 with all problems.
    pub(super) fn validate(&mut self) -> Result<(), ApiError> {
        let kind = self.place.kind;
        let is_custom = kind.custom_version().is_some();
        let mut problems = if is_custom { self.problems_of_custom() } else { self.problems_of_builtin() };
        // Only an object that is well formed names parameters.
        if problems.is_empty() && self.place.part.is_empty() {
            problems.extend(self.problem_of_params());
        }
        if !problems.is_empty() {
            let name = if self.base.is_some() { self.place.name } else { text(&self.new, "/metadata/name") };
            return Err(kind.invalid(name, &problems));
        }
        if is_custom {
            custom::object::settle_numbers(&mut self.new);
        }
        if kind.is(&DEFINITION) {
            // One that cannot be encoded would fail every list of definitions in protobuf, and so
            // all clients that follow them. Decoding should have rejected it.
            protobuf::encode(&self.new).map_err(|it| ApiError::bad_request(it.to_string()))?;
        }
        if let Some(base) = self.base {
            ownership::keep_times_if_unchanged(base.object, &mut self.new);
        }
        Ok(())
    }

    fn problems_of_custom(&self) -> FieldErrors {
        let (kind, new) = (self.place.kind, &self.new);
        let Some(version) = kind.custom_version() else { return FieldErrors::default() };
        let common = || validate::metadata::common(kind.traits.name, kind.def.namespaced, new);
        match (self.base, self.place.part) {
            (None, _) => {
                let mut problems = common();
                problems.append(custom::object::validate_create(new, version));
                problems
            }
            (Some(base), "status") => {
                let mut problems = validate::metadata::update_common(new, base.object);
                problems.append(custom::object::validate_status(new, base.object, version));
                problems
            }
            (Some(base), _) => {
                let mut problems = common();
                problems.append(validate::metadata::update_common(new, base.object));
                problems.append(custom::object::validate_update(new, base.object, version));
                problems
            }
        }
    }

    /// Returns the problems of a policy, a binding or a webhook configuration: its expressions must
    /// compile.
    fn problems_of_admission(&self, old: Option<&Value>) -> FieldErrors {
        let (kind, new) = (self.place.kind, &self.new);
        if kind.is(&VALIDATING_POLICY) {
            check::validating_policy(new, old)
        } else if kind.is(&MUTATING_POLICY) {
            check::mutating_policy(new, old)
        } else if kind.is(&VALIDATING_BINDING) {
            check::validating_binding(new)
        } else if kind.is(&MUTATING_BINDING) {
            check::mutating_binding(new)
        } else if kind.is(&VALIDATING_WEBHOOKS) || kind.is(&MUTATING_WEBHOOKS) {
            check::webhook_configuration(new, old)
        } else {
            FieldErrors::new()
        }
    }

    fn problems_of_builtin(&self) -> FieldErrors {
        let (kind, new) = (self.place.kind, &self.new);
        let Some(base) = self.base else {
            let mut problems = validate::create(kind.rules, kind.def.namespaced, new);
            problems.append(self.problems_of_admission(None));
            if kind.is(&DEFINITION) {
                let more = custom::check::check_create(new);
                let more: Vec<_> = more.into_iter().filter(|it| !problems.contains(it)).collect();
                problems.extend(more);
            }
            return problems;
        };
        let old = base.object;
        match self.place.part {
            "status" | "eviction" => {
                let mut problems = self.problems_of_claim_status();
                problems.append(validate::update_status(kind.rules, new, old));
                if kind.is(&DEFINITION) {
                    problems.append(custom::check::check_status(new));
                }
                if kind.is(&SIGNING_REQUEST) {
                    problems.append(signing::problems(new, old, false));
                    problems.extend(certificate_problem(new, old).map(|why| {
                        let shown = r#""<certificate data>""#;
                        FieldError::with_value("status.certificate", FieldErrorKind::Invalid, shown, &why)
                    }));
                }
                problems
            }
            "finalize" => {
                let mut problems = validate::metadata::namespace_finalizers(new);
                problems.append(validate::metadata::update_common(new, old));
                problems
            }
            // Binding is the only way to set `spec.nodeName`, so the validation of updates is
            // skipped.
            "binding" => validate::metadata::update_common(new, old),
            "approval" => {
                let mut problems = signing::problems(new, old, true);
                problems.append(validate::metadata::update_common(new, old));
                problems
            }
            part @ ("ephemeralcontainers" | "resize") => pod::update_part(part, new, old),
            _ => {
                let mut problems = validate::update(kind.rules, new, old);
                problems.append(self.problems_of_admission(Some(old)));
                if kind.is(&DEFINITION) {
                    problems.append(custom::check::check_update(new, old));
                }
                problems
            }
        }
    }
}
