//! Conversions to and from the types of kube-core, for programs that also use kube-rs.
//!
//! A conversion that could fail, because kube-core keeps selectors as text, is a `TryFrom`.
//! Settings that kube-core does not have (the shard of a list, for example) are lost on the way to
//! it, and each such impl says so.

use std::time::Duration;

use kube_core::discovery::{ApiResource, Scope as KubeScope};
use kube_core::gvk::{GroupVersionKind, GroupVersionResource};
use kube_core::params as kube;
use kube_core::response::{
    Status as KubeStatus, StatusCause as KubeCause, StatusDetails as KubeDetails, StatusSummary,
};
use kube_core::{Expression, Selector as KubeSelector};

use crate::field_selector::FieldSelectorError;
use crate::kind::{Gvk, Gvr, ResourceType, Scope};
use crate::label_selector::{LabelSelector, LabelSelectorError};
use crate::params::{
    DeleteParams, FieldValidation, GetParams, ListParams, PatchParams, Preconditions, Propagation,
    VersionMatch, WatchParams, WriteParams,
};
use crate::requirement::{Operator, Requirement};
use crate::selectors::Selectors;
use crate::status::{Cause, Details, Reason, Status};
use crate::version::ResourceVersion;

/// A selector of kube-core's parameters that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// The label selector.
    #[error("invalid label selector")]
    Labels(#[from] LabelSelectorError),
    /// The field selector.
    #[error("invalid field selector")]
    Fields(#[from] FieldSelectorError),
}

impl From<GroupVersionKind> for Gvk {
    fn from(kind: GroupVersionKind) -> Self {
        Self::new(&kind.group, &kind.version, &kind.kind)
    }
}

impl From<Gvk> for GroupVersionKind {
    fn from(kind: Gvk) -> Self {
        Self::gvk(&kind.group, &kind.version, &kind.kind)
    }
}

impl From<GroupVersionResource> for Gvr {
    fn from(resource: GroupVersionResource) -> Self {
        Self::new(&resource.group, &resource.version, &resource.resource)
    }
}

impl From<Gvr> for GroupVersionResource {
    fn from(resource: Gvr) -> Self {
        Self::gvr(&resource.group, &resource.version, &resource.resource)
    }
}

impl From<KubeScope> for Scope {
    fn from(scope: KubeScope) -> Self {
        match scope {
            KubeScope::Cluster => Self::Cluster,
            KubeScope::Namespaced => Self::Namespaced,
        }
    }
}

impl From<Scope> for KubeScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Cluster => Self::Cluster,
            Scope::Namespaced => Self::Namespaced,
        }
    }
}

impl From<(ApiResource, KubeScope)> for ResourceType {
    /// Takes the scope separately: kube-core keeps it in `ApiCapabilities`.
    fn from((resource, scope): (ApiResource, KubeScope)) -> Self {
        Self {
            gvk: Gvk::new(&resource.group, &resource.version, &resource.kind),
            plural: resource.plural.into(),
            scope: scope.into(),
        }
    }
}

impl From<&ResourceType> for ApiResource {
    fn from(resource: &ResourceType) -> Self {
        resource.api_resource()
    }
}

impl From<KubeStatus> for Status {
    fn from(status: KubeStatus) -> Self {
        Self {
            status: status.status.map(|it| match it {
                StatusSummary::Success => "Success".to_owned(),
                StatusSummary::Failure => "Failure".to_owned(),
            }),
            message: status.message,
            reason: Reason::from(status.reason.as_str()),
            details: status.details.map(Details::from),
            code: status.code,
        }
    }
}

impl From<Status> for KubeStatus {
    fn from(status: Status) -> Self {
        Self {
            status: match status.status.as_deref() {
                Some("Success") => Some(StatusSummary::Success),
                Some("Failure") => Some(StatusSummary::Failure),
                _ => None,
            },
            code: status.code,
            message: status.message,
            metadata: None,
            reason: status.reason.as_str().to_owned(),
            details: status.details.map(KubeDetails::from),
        }
    }
}

impl From<KubeDetails> for Details {
    fn from(details: KubeDetails) -> Self {
        let cause = |it: KubeCause| Cause { reason: it.reason, message: it.message, field: it.field };
        Self {
            name: details.name,
            group: details.group,
            kind: details.kind,
            uid: details.uid,
            causes: details.causes.into_iter().map(cause).collect(),
            retry_after_seconds: details.retry_after_seconds,
        }
    }
}

impl From<Details> for KubeDetails {
    fn from(details: Details) -> Self {
        let cause = |it: Cause| KubeCause { reason: it.reason, message: it.message, field: it.field };
        Self {
            name: details.name,
            group: details.group,
            kind: details.kind,
            uid: details.uid,
            causes: details.causes.into_iter().map(cause).collect(),
            retry_after_seconds: details.retry_after_seconds,
        }
    }
}

impl TryFrom<KubeSelector> for LabelSelector {
    type Error = LabelSelectorError;

    /// Fails for keys and values that a server rejects, and for an empty set of values: kube-core
    /// does not check them.
    fn try_from(selector: KubeSelector) -> Result<Self, LabelSelectorError> {
        selector.into_iter().try_fold(Self::everything(), |all, it| match it {
            Expression::In(key, values) => all.and(&key, Operator::In, values.iter().map(String::as_str)),
            Expression::NotIn(key, values) => {
                all.and(&key, Operator::NotIn, values.iter().map(String::as_str))
            }
            Expression::Equal(key, value) => all.and(&key, Operator::Equals, [&*value]),
            Expression::NotEqual(key, value) => all.and(&key, Operator::NotEquals, [&*value]),
            Expression::Exists(key) => all.and(&key, Operator::Exists, []),
            Expression::DoesNotExist(key) => all.and(&key, Operator::DoesNotExist, []),
        })
    }
}

impl TryFrom<LabelSelector> for KubeSelector {
    type Error = LabelSelectorError;

    /// Fails for `>` and `<`, which kube-core does not have.
    fn try_from(selector: LabelSelector) -> Result<Self, LabelSelectorError> {
        selector.requirements().iter().map(expression).collect()
    }
}

fn expression(requirement: &Requirement) -> Result<Expression, LabelSelectorError> {
    let (key, mut values) = (requirement.key().to_owned(), requirement.values().map(str::to_owned));
    let mut value = || values.next().unwrap_or_default();
    Ok(match requirement.operator() {
        Operator::Equals => Expression::Equal(key, value()),
        Operator::NotEquals => Expression::NotEqual(key, value()),
        Operator::In => Expression::In(key, values.collect()),
        Operator::NotIn => Expression::NotIn(key, values.collect()),
        Operator::Exists => Expression::Exists(key),
        Operator::DoesNotExist => Expression::DoesNotExist(key),
        Operator::GreaterThan | Operator::LessThan => {
            return Err(LabelSelectorError::not_in_kube(requirement));
        }
    })
}

impl TryFrom<kube::ListParams> for ListParams {
    type Error = SelectorError;

    fn try_from(params: kube::ListParams) -> Result<Self, SelectorError> {
        Ok(Self {
            selectors: selectors(params.label_selector, params.field_selector)?,
            limit: params.limit,
            continue_token: params.continue_token,
            version: version(params.resource_version),
            version_match: params.version_match.map(VersionMatch::from),
            // kube-core's has no effect on lists and is deprecated.
            timeout: None,
        })
    }
}

impl From<ListParams> for kube::ListParams {
    /// The shard and the timeout are lost.
    fn from(params: ListParams) -> Self {
        Self {
            label_selector: text(params.selectors.labels.to_string()),
            field_selector: text(params.selectors.fields.to_string()),
            limit: params.limit,
            continue_token: params.continue_token,
            version_match: params.version_match.map(kube::VersionMatch::from),
            resource_version: text(params.version.to_string()),
            ..Self::default()
        }
    }
}

impl TryFrom<kube::WatchParams> for WatchParams {
    type Error = SelectorError;

    /// kube-core keeps the version apart from the parameters; it is unset here.
    fn try_from(params: kube::WatchParams) -> Result<Self, SelectorError> {
        let mut watch = if params.send_initial_events { Self::initial_events() } else { Self::default() };
        watch.selectors = selectors(params.label_selector, params.field_selector)?;
        watch.timeout = params.timeout.map(seconds);
        watch.bookmarks = params.bookmarks;
        Ok(watch)
    }
}

impl From<WatchParams> for kube::WatchParams {
    /// The version, its match and the shard are lost: kube-core takes the version as another
    /// argument.
    fn from(params: WatchParams) -> Self {
        Self {
            label_selector: text(params.selectors.labels.to_string()),
            field_selector: text(params.selectors.fields.to_string()),
            timeout: params.timeout.map(whole_seconds),
            bookmarks: params.bookmarks,
            send_initial_events: params.send_initial_events.unwrap_or_default(),
        }
    }
}

impl From<kube::GetParams> for GetParams {
    fn from(params: kube::GetParams) -> Self {
        Self::at(version(params.resource_version))
    }
}

impl From<GetParams> for kube::GetParams {
    fn from(params: GetParams) -> Self {
        Self { resource_version: text(params.version.to_string()) }
    }
}

impl From<kube::PostParams> for WriteParams {
    fn from(params: kube::PostParams) -> Self {
        Self { dry_run: params.dry_run, field_manager: params.field_manager, ..Self::default() }
    }
}

impl From<WriteParams> for kube::PostParams {
    /// The field validation is lost.
    fn from(params: WriteParams) -> Self {
        Self { dry_run: params.dry_run, field_manager: params.field_manager }
    }
}

impl From<kube::PatchParams> for PatchParams {
    fn from(params: kube::PatchParams) -> Self {
        let mut patch = Self { force: params.force, ..Self::default() };
        patch.write.dry_run = params.dry_run;
        patch.write.field_manager = params.field_manager;
        patch.write.field_validation = params.field_validation.map(FieldValidation::from);
        patch
    }
}

impl From<PatchParams> for kube::PatchParams {
    fn from(params: PatchParams) -> Self {
        Self {
            dry_run: params.write.dry_run,
            force: params.force,
            field_manager: params.write.field_manager,
            field_validation: params.write.field_validation.map(kube::ValidationDirective::from),
        }
    }
}

impl From<kube::DeleteParams> for DeleteParams {
    fn from(params: kube::DeleteParams) -> Self {
        Self {
            dry_run: params.dry_run,
            grace_period: params.grace_period_seconds.map(seconds),
            propagation: params.propagation_policy.map(Propagation::from),
            preconditions: params.preconditions.map(Preconditions::from),
            ..Self::default()
        }
    }
}

impl From<DeleteParams> for kube::DeleteParams {
    /// `ignore_store_read_error` is lost.
    fn from(params: DeleteParams) -> Self {
        Self {
            dry_run: params.dry_run,
            grace_period_seconds: params.grace_period.map(whole_seconds),
            propagation_policy: params.propagation.map(kube::PropagationPolicy::from),
            preconditions: params.preconditions.map(kube::Preconditions::from),
        }
    }
}

impl From<kube::Preconditions> for Preconditions {
    fn from(it: kube::Preconditions) -> Self {
        Self { uid: it.uid, resource_version: it.resource_version }
    }
}

impl From<Preconditions> for kube::Preconditions {
    fn from(it: Preconditions) -> Self {
        Self { uid: it.uid, resource_version: it.resource_version }
    }
}

/// Converts between two enums with the same variants.
macro_rules! same_variants {
    ($ours:ident, $theirs:ident: $($variant:ident),+) => {
        impl From<kube::$theirs> for $ours {
            fn from(it: kube::$theirs) -> Self {
                match it { $(kube::$theirs::$variant => Self::$variant,)+ }
            }
        }

        impl From<$ours> for kube::$theirs {
            fn from(it: $ours) -> Self {
                match it { $($ours::$variant => Self::$variant,)+ }
            }
        }
    };
}

same_variants!(VersionMatch, VersionMatch: NotOlderThan, Exact);
same_variants!(FieldValidation, ValidationDirective: Ignore, Warn, Strict);
same_variants!(Propagation, PropagationPolicy: Orphan, Background, Foreground);

fn selectors(labels: Option<String>, fields: Option<String>) -> Result<Selectors, SelectorError> {
    let mut selectors = Selectors::default();
    if let Some(labels) = labels {
        selectors.labels = labels.parse()?;
    }
    if let Some(fields) = fields {
        selectors.fields = fields.parse()?;
    }
    Ok(selectors)
}

fn version(text: Option<String>) -> ResourceVersion {
    text.map_or(ResourceVersion::UNSET, |it| ResourceVersion::new(&it))
}

/// kube-core leaves out what is not set.
fn text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

/// Rounds up, as the server counts whole seconds and zero would mean "no limit".
fn whole_seconds(duration: Duration) -> u32 {
    let rounded = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    u32::try_from(rounded).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_resources_survive_both_ways() {
        let kind = Gvk::new("apps", "v1", "Deployment");
        assert_eq!(Gvk::from(GroupVersionKind::from(kind.clone())), kind);
        let resource = ResourceType::namespaced(kind, "deployments");
        assert_eq!(ResourceType::from((ApiResource::from(&resource), KubeScope::Namespaced)), resource);
        assert_eq!(Gvr::from(GroupVersionResource::from(resource.gvr())), resource.gvr());
        assert_eq!(Scope::from(KubeScope::from(Scope::Cluster)), Scope::Cluster);
    }

    #[test]
    fn a_status_survives_both_ways() {
        let status: Status = serde_json::from_value(serde_json::json!({
            "status": "Failure", "message": "no", "reason": "Invalid", "code": 422,
            "details": { "name": "a", "group": "apps", "kind": "deployments", "uid": "u", "retryAfterSeconds": 3,
                "causes": [{ "reason": "FieldValueInvalid", "message": "m", "field": "spec" }] },
        }))
        .unwrap();
        assert_eq!(Status::from(KubeStatus::from(status.clone())), status);
    }

    #[test]
    fn parameters_survive_both_ways() {
        let list = ListParams::default()
            .labels("app=web".parse().unwrap())
            .fields("metadata.name=a".parse().unwrap())
            .limit(5)
            .continue_token("next");
        assert_eq!(ListParams::try_from(kube::ListParams::from(list.clone())), Ok(list));
        let list = ListParams::default().at("12").matching(VersionMatch::Exact);
        assert_eq!(ListParams::try_from(kube::ListParams::from(list.clone())), Ok(list));
        for watch in [
            WatchParams::default(),
            WatchParams::initial_events(),
            WatchParams::default().without_bookmarks(),
        ] {
            assert_eq!(WatchParams::try_from(kube::WatchParams::from(watch.clone())), Ok(watch));
        }
        let get = GetParams::at("0");
        assert_eq!(GetParams::from(kube::GetParams::from(get.clone())), get);
        let write = WriteParams::default().dry_run().manager("me");
        assert_eq!(WriteParams::from(kube::PostParams::from(write.clone())), write);
        let patch = PatchParams::apply("me").force().validation(FieldValidation::Strict);
        assert_eq!(PatchParams::from(kube::PatchParams::from(patch.clone())), patch);
        let delete = DeleteParams::foreground()
            .grace_period(Duration::from_secs(9))
            .preconditions(Preconditions::uid("u"));
        assert_eq!(DeleteParams::from(kube::DeleteParams::from(delete.clone())), delete);
    }

    #[test]
    fn a_selector_survives_both_ways() {
        for text in ["", "a=b", "a!=b,c", "!a", "a in (b,c),d notin (e)", "a notin (b,c)"] {
            let ours: LabelSelector = text.parse().unwrap();
            let theirs = KubeSelector::try_from(ours.clone()).unwrap();
            assert_eq!(theirs.to_string(), ours.to_string());
            assert_eq!(LabelSelector::try_from(theirs).unwrap(), ours);
        }
        let nothing = KubeSelector::try_from(LabelSelector::nothing()).unwrap();
        assert!(LabelSelector::try_from(nothing).unwrap().is_nothing());
    }

    #[test]
    fn a_selector_without_a_counterpart_is_rejected() {
        let more = KubeSelector::try_from("generation>3".parse::<LabelSelector>().unwrap()).unwrap_err();
        assert_eq!(more.to_string(), "label selector \"generation>3\": kube-core has no GreaterThan");
        for bad in [
            Expression::In("a".to_owned(), [].into()),
            Expression::Exists("not a key".to_owned()),
            Expression::Equal("a".to_owned(), "not a value".to_owned()),
        ] {
            let bad = KubeSelector::from(bad);
            assert!(LabelSelector::try_from(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_selector_that_cannot_be_parsed_is_named() {
        let params = kube::ListParams::default().labels("a in (");
        assert!(matches!(ListParams::try_from(params), Err(SelectorError::Labels(_))));
        let params = kube::WatchParams::default().fields("no operator");
        assert!(matches!(WatchParams::try_from(params), Err(SelectorError::Fields(_))));
    }

    #[test]
    fn parts_of_a_second_are_rounded_up() {
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_secs(2)), 2);
        assert_eq!(whole_seconds(Duration::MAX), u32::MAX);
    }
}
