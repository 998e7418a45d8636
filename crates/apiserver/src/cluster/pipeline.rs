//! The stages of every write that creates or changes an object, in order.

use super::WriteOutcome;
use super::charges::Charge;
use super::commit::Attempt;
use super::conflict::check_version;
use super::definition_checks::check_accepts_new;
use super::name_checks::check_name;
use super::namespaces::{admit_to_namespace, settle_namespace};
use super::object_fields::metadata_mut;
use super::prepare::keep_system_fields;
use super::service_addresses::{AddressClaim, ServiceAddresses};
use super::write::Write;
use crate::ApiError;
use crate::authorization::{AccessRequest, AccessTarget, Decision};
use crate::kinds::NAMESPACE;
use crate::kinds::json_access::text;

/// The number of attempts to find a free generated name: `maxNameGenerationCreateAttempts` in
/// k8s.io/apiserver v0.36.4 pkg/registry/generic/registry/store.go.
const NAME_ATTEMPTS: usize = 8;
/// The number of characters of `generateName` that are kept: `MaxGeneratedNameLength` in
/// k8s.io/apiserver v0.36.4 pkg/storage/names/generate.go.
const LONGEST_BASE: usize = 58;

impl<'a> Write<'a> {
    /// Creates the object.
    ///
    /// # Errors
    /// The error of the first stage that rejects it.
    pub(super) async fn create(mut self) -> Result<WriteOutcome, ApiError> {
        let name = text(&self.new, "/metadata/name");
        check_accepts_new(&self.cluster.catalog(), self.place.kind, name)?;
        // As in k8s.io/apiserver v0.36.4 pkg/admission/errors.go: the name is not generated yet.
        let known = [name, text(&self.new, "/metadata/generateName"), "Unknown"];
        let known = known.into_iter().find(|it| !it.is_empty()).unwrap_or_default();
        admit_to_namespace(self.cluster, self.place, known)?;
        let version = self.remove_system_fields();
        self.own().await;
        self.apply_plugins().await?;
        self.mutate().await?;
        self.reapply_plugins()?;
        self.refuse_escalation()?;
        if !text(&self.new, "/metadata/name").is_empty()
            || text(&self.new, "/metadata/generateName").is_empty()
        {
            return self.create_named(&version).await;
        }
        for attempt in 1.. {
            let mut named = self.clone();
            named.generate_name();
            match named.create_named(&version).await {
                Err(refusal) if !refusal.0.is_already_exists() => return Err(refusal),
                Err(mut refusal) if attempt == NAME_ATTEMPTS => {
                    refusal.0.details.get_or_insert_default().retry_after_seconds = 1;
                    return Err(refusal);
                }
                Err(_) => {}
                written => return written,
            }
        }
        unreachable!("the loop ends at the last attempt")
    }

    /// Runs the stages of a creation that need the name of the object. `version` is the resource
    /// version that the client sent.
    async fn create_named(mut self, version: &str) -> Result<WriteOutcome, ApiError> {
        self.identify()?;
        let _claim = self.claim_addresses();
        self.prepare()?;
        self.validate()?;
        self.warn();
        let admitted = self.admit_new(version).await;
        let _charge = admitted.inspect_err(|_| self.keep_warnings())?;
        self.commit_new().await
    }

    /// Lets everything check a new object that may reject it although it is valid.
    async fn admit_new(&mut self, version: &str) -> Result<Option<Charge<'a>>, ApiError> {
        self.check_creation()?;
        self.check_plugins()?;
        self.check_signer()?;
        self.review().await?;
        self.refuse_version(version)?;
        self.charge_quotas().await
    }

    /// Makes one attempt to change the object.
    ///
    /// # Errors
    /// The error of the first stage that rejects the new state.
    pub(super) async fn attempt(mut self) -> Result<Attempt, ApiError> {
        let base = self.base.ok_or_else(|| ApiError::internal("a change needs a stored object"))?;
        self.compare_system_fields();
        keep_system_fields(base.object, &mut self.new);
        self.own().await;
        // For these subresources the webhooks have been called before, with the subresource instead
        // of the whole object.
        let calls_webhooks = !matches!(self.place.part, "binding" | "eviction" | "scale");
        if calls_webhooks {
            self.apply_plugins().await?;
            self.mutate().await?;
            self.reapply_plugins()?;
            // A webhook must not move the object to another namespace: `BeforeUpdate` in
            // k8s.io/apiserver v0.36.4 pkg/registry/rest/update.go.
            settle_namespace(self.place, &mut self.new)?;
        }
        self.refuse_escalation()?;
        if let Some((version, needed)) = &self.expected {
            check_version(self.place, version, base.stored, *needed)?;
        }
        let _claim = self.claim_addresses();
        self.prepare()?;
        self.validate()?;
        self.warn();
        let admitted = self.admit_change(calls_webhooks).await;
        let _charge = admitted.inspect_err(|_| self.keep_warnings())?;
        self.commit_change(base).await
    }

    /// Lets everything check a changed object that may reject it although it is valid.
    async fn admit_change(&mut self, calls_webhooks: bool) -> Result<Option<Charge<'a>>, ApiError> {
        self.check_plugins()?;
        self.check_signer()?;
        if calls_webhooks {
            self.review().await?;
        }
        self.charge_quotas().await
    }

    /// Keeps the warnings for the response to a write that is rejected.
    fn keep_warnings(&self) {
        self.writer.refused_warnings.add(self.warnings.clone());
    }

    /// Rejects a creation by an update or an apply if the user may not create objects.
    fn check_creation(&self) -> Result<(), ApiError> {
        if !self.creates_on_update {
            return Ok(());
        }
        let (def, user) = (&self.place.kind.def, &self.writer.user);
        let target = AccessTarget::Resource {
            group: &def.group,
            resource: &def.plural,
            subresource: "",
            // A namespace is in the one of its name.
            namespace: match self.place.namespace {
                None if self.place.kind.is(&NAMESPACE) => self.place.name,
                namespace => namespace.unwrap_or_default(),
            },
            name: self.place.name,
        };
        let request = AccessRequest { verb: "create".into(), target };
        match self.cluster.authorize(user, &request) {
            Decision { allowed: true, .. } => Ok(()),
            Decision { reason, .. } => Err(request.forbidden(&user.name, &reason)),
        }
    }

    /// Removes the fields of a new object that only the server sets. Returns the resource version,
    /// which is checked later.
    fn remove_system_fields(&mut self) -> String {
        let version = text(&self.new, "/metadata/resourceVersion").to_owned();
        let metadata = metadata_mut(&mut self.new);
        for field in [
            "resourceVersion",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ] {
            metadata.remove(field);
        }
        version
    }

    fn generate_name(&mut self) {
        let base = text(&self.new, "/metadata/generateName");
        let kept = base.char_indices().nth(LONGEST_BASE).map_or(base, |(at, _)| &base[..at]);
        let name = format!("{kept}{}", self.cluster.source.suffix());
        metadata_mut(&mut self.new).insert("name".to_owned(), name.into());
    }

    /// Gives a new object its namespace and its uid.
    fn identify(&mut self) -> Result<(), ApiError> {
        // Webhooks may have changed the metadata. A namespace other than that of the request is
        // rejected, as by `BeforeCreate` in k8s.io/apiserver v0.36.4 pkg/registry/rest/create.go. A
        // new object may get another name, unless the request names it.
        settle_namespace(self.place, &mut self.new)?;
        if !self.place.name.is_empty() {
            check_name(self.place, &self.new)?;
        }
        metadata_mut(&mut self.new).insert("uid".to_owned(), self.cluster.source.uid().into());
        Ok(())
    }

    /// Rejects a new object with a resource version.
    fn refuse_version(&mut self, version: &str) -> Result<(), ApiError> {
        if version.is_empty() || version == "0" {
            return Ok(());
        }
        // In kube-apiserver the storage layer rejects this (k8s.io/apiserver v0.36.4
        // pkg/storage/errors.go), which a dry run never reaches.
        if !self.writer.dry_run {
            return Err(ApiError::unexplained("resourceVersion should not be set on objects to be created"));
        }
        metadata_mut(&mut self.new).insert("resourceVersion".to_owned(), version.into());
        Ok(())
    }
}

impl<'a> Write<'a> {
    /// Starts to claim addresses for the object. They are released unless the object is stored.
    fn claim_addresses(&self) -> AddressClaim<'a> {
        let (addresses, kind) = (ServiceAddresses::of(self.cluster), self.place.kind);
        match self.base {
            Some(base) => addresses.claim(kind, base.stored.uid(), Some(base.stored.key().clone())),
            None => {
                let key = self.place.key_of(text(&self.new, "/metadata/name")).ok();
                addresses.claim(kind, text(&self.new, "/metadata/uid"), key)
            }
        }
    }
}
