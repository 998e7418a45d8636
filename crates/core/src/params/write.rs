//! How to create, replace, patch and apply.

use super::query::{InvalidParams, Query, put};

/// How to create or replace an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteParams {
    /// Go through everything but storing.
    pub dry_run: bool,
    /// Who owns the fields that are written.
    pub field_manager: Option<String>,
    /// What to do about unknown and duplicate fields.
    pub field_validation: Option<FieldValidation>,
}

/// How to patch an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PatchParams {
    /// Dry run, manager and validation, as for every write.
    pub write: WriteParams,
    /// Take over fields another manager owns. Server-side apply only.
    pub force: bool,
}

/// What to do about unknown and duplicate fields of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldValidation {
    /// Drop them in silence.
    Ignore,
    /// Drop them and send a warning.
    Warn,
    /// Refuse the request.
    Strict,
}

impl WriteParams {
    /// Goes through everything but storing.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Says who owns the fields that are written.
    #[must_use]
    pub fn manager(mut self, manager: impl Into<String>) -> Self {
        self.field_manager = Some(manager.into());
        self
    }

    /// Says what to do about unknown and duplicate fields.
    #[must_use]
    pub fn validation(mut self, validation: FieldValidation) -> Self {
        self.field_validation = Some(validation);
        self
    }

    /// The query of the request.
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
    /// For server-side apply: who applies.
    pub fn apply(manager: impl Into<String>) -> Self {
        Self { write: WriteParams::default().manager(manager), force: false }
    }

    /// Takes over fields another manager owns.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Goes through everything but storing.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.write.dry_run = true;
        self
    }

    /// Says who owns the fields that are written.
    #[must_use]
    pub fn manager(mut self, manager: impl Into<String>) -> Self {
        self.write = self.write.manager(manager);
        self
    }

    /// Says what to do about unknown and duplicate fields.
    #[must_use]
    pub fn validation(mut self, validation: FieldValidation) -> Self {
        self.write = self.write.validation(validation);
        self
    }

    /// The query of the request; `apply` says whether it is a server-side apply.
    ///
    /// # Errors
    /// When it is forced without being an apply, or an apply without a manager.
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
    fn writes_say_manager_validation_and_dry_run() {
        let write = WriteParams::default().dry_run().manager("m").validation(FieldValidation::Strict);
        assert_eq!(text(write.query()), "dryRun=All&fieldManager=m&fieldValidation=Strict");
        assert_eq!(
            text(PatchParams::apply("m").force().query(true).expect("valid")),
            "fieldManager=m&force=true"
        );
    }

    #[test]
    fn rq_3_what_is_not_asked_for_is_left_out() {
        assert_eq!(text(WriteParams::default().query()), "");
    }

    #[test]
    fn only_an_apply_is_forced_and_it_names_its_manager() {
        assert_eq!(PatchParams::default().force().query(false), Err(InvalidParams::ForceWithoutApply));
        assert_eq!(PatchParams::default().query(true), Err(InvalidParams::ApplyWithoutManager));
    }
}
