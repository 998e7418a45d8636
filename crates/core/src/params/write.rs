//! The parameters of creates, replaces, patches and applies.

use super::query::{InvalidParams, Query, put};

/// The parameters of a create or a replace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteParams {
    /// Processes the request without storing anything.
    pub dry_run: bool,
    /// The field manager, which owns the written fields.
    pub field_manager: Option<String>,
    /// The policy for unknown and duplicate fields.
    pub field_validation: Option<FieldValidation>,
}

/// The parameters of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PatchParams {
    /// Dry run, field manager and validation, as for every write.
    pub write: WriteParams,
    /// Takes over fields that another manager owns. Only for server-side apply.
    pub force: bool,
}

/// The policy for unknown and duplicate fields of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldValidation {
    /// Drops them silently.
    Ignore,
    /// Drops them and sends a warning.
    Warn,
    /// Rejects the request.
    Strict,
}

impl WriteParams {
    /// Processes the request without storing anything.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Sets the field manager, which owns the written fields.
    #[must_use]
    pub fn manager(mut self, manager: impl Into<String>) -> Self {
        self.field_manager = Some(manager.into());
        self
    }

    /// Sets the policy for unknown and duplicate fields.
    #[must_use]
    pub fn validation(mut self, validation: FieldValidation) -> Self {
        self.field_validation = Some(validation);
        self
    }

    /// Returns the query of the request.
    pub fn query(&self) -> Query {
        let mut query = Query::new();
        put(&mut query, "dryRun", self.dry_run.then_some("All"));
        put(&mut query, "fieldManager", self.field_manager.as_deref().filter(|it| !it.is_empty()));
        let validation = self.field_validation.map(|it| match it {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        });
        put(&mut query, "fieldValidation", validation);
        query
    }
}

impl PatchParams {
    /// Creates the parameters of a server-side apply with this field manager.
    pub fn apply(manager: impl Into<String>) -> Self {
        Self { write: WriteParams::default().manager(manager), force: false }
    }

    /// Takes over fields that another manager owns.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Processes the request without storing anything.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.write.dry_run = true;
        self
    }

    /// Sets the field manager, which owns the written fields.
    #[must_use]
    pub fn manager(mut self, manager: impl Into<String>) -> Self {
        self.write = self.write.manager(manager);
        self
    }

    /// Sets the policy for unknown and duplicate fields.
    #[must_use]
    pub fn validation(mut self, validation: FieldValidation) -> Self {
        self.write = self.write.validation(validation);
        self
    }

    /// Returns the query of the request. `apply` is true for a server-side apply.
    ///
    /// # Errors
    /// Returns an error if `force` is set without an apply, or an apply has no field manager.
    pub fn query(&self, apply: bool) -> Result<Query, InvalidParams> {
        if self.force && !apply {
            return Err(InvalidParams::ForceWithoutApply);
        }
        if apply && self.write.field_manager.as_deref().is_none_or(str::is_empty) {
            return Err(InvalidParams::ApplyWithoutManager);
        }
        let mut query = self.write.query();
        put(&mut query, "force", self.force.then_some(true));
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::text;
    use super::*;

    #[test]
    fn writes_have_manager_validation_and_dry_run() {
        let write = WriteParams::default().dry_run().manager("m").validation(FieldValidation::Strict);
        assert_eq!(text(write.query()), "dryRun=All&fieldManager=m&fieldValidation=Strict");
        assert_eq!(
            text(PatchParams::apply("m").force().query(true).expect("valid")),
            "fieldManager=m&force=true"
        );
    }

    #[test]
    fn rq_3_unset_parameters_are_omitted() {
        assert_eq!(text(WriteParams::default().query()), "");
    }

    #[test]
    fn only_an_apply_can_be_forced_and_it_needs_a_manager() {
        assert_eq!(PatchParams::default().force().query(false), Err(InvalidParams::ForceWithoutApply));
        assert_eq!(PatchParams::default().query(true), Err(InvalidParams::ApplyWithoutManager));
    }
}
