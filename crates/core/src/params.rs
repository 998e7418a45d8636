//! What one asks of a server besides the path: list, watch, get, write, patch and delete parameters (rule RQ-3).
//!
//! Every struct turns into query pairs with `query()`. Empty and zero values are left out, as the server's defaults
//! are theirs. What the server is known to refuse is refused here, before any I/O.

use std::time::Duration;

use serde::Serialize;

use crate::field_selector::FieldSelector;
use crate::label_selector::LabelSelector;
use crate::version::ResourceVersion;

/// Key and value of a query, not yet encoded.
type Query = Vec<(&'static str, String)>;

/// Which objects to list, and from which point in history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListParams {
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects with these fields.
    pub fields: FieldSelector,
    /// At most this many objects a page; `None` is one page with everything.
    pub limit: Option<u32>,
    /// Where the page before ended.
    pub continue_token: Option<String>,
    /// How fresh the answer must be.
    pub version: ResourceVersion,
    /// How `version` is meant.
    pub version_match: Option<VersionMatch>,
    /// How long the server may take.
    pub timeout: Option<Duration>,
    /// Only the objects of one shard, in the server's own words (alpha in Kubernetes 1.36).
    pub shard_selector: Option<String>,
}

/// Which objects to watch, and from which point in history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchParams {
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects with these fields.
    pub fields: FieldSelector,
    /// Send what happened after this version.
    pub version: ResourceVersion,
    /// How `version` is meant; needed with `send_initial_events`.
    pub version_match: Option<VersionMatch>,
    /// When the server ends the watch.
    pub timeout: Option<Duration>,
    /// Ask for bookmarks: on unless turned off.
    pub bookmarks: bool,
    /// Begin with the objects that are there, closed by a bookmark (WatchList).
    pub send_initial_events: Option<bool>,
    /// Only the objects of one shard, in the server's own words (alpha in Kubernetes 1.36).
    pub shard_selector: Option<String>,
}

/// How fresh a single object must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GetParams {
    /// Unset reads the newest; `0` takes the server's cache.
    pub version: ResourceVersion,
}

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

/// How to delete. Travels as a `DeleteOptions` body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteParams {
    /// Go through everything but deleting.
    pub dry_run: bool,
    /// How long the object may take to end; `None` leaves it to its kind.
    pub grace_period: Option<Duration>,
    /// What becomes of its dependents; `None` leaves it to its kind.
    pub propagation: Option<Propagation>,
    /// Delete only this very object.
    pub preconditions: Option<Preconditions>,
    /// Delete an object the server cannot read from its storage. Breaks what relied on it.
    pub ignore_store_read_error: bool,
}

/// How a resource version in a request is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionMatch {
    /// This version or a newer one.
    NotOlderThan,
    /// This very version.
    Exact,
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

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Propagation {
    /// They stay, without an owner.
    Orphan,
    /// They are collected afterwards.
    Background,
    /// They go first.
    Foreground,
}

/// What must still be true of an object for it to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// It is still this object, not another of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// It did not change since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// Parameters that contradict each other; the server would refuse them too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidParams {
    /// A version match needs a version to match.
    #[error("resourceVersionMatch needs a resourceVersion")]
    MatchWithoutVersion,
    /// `Exact` needs a point in history.
    #[error("resourceVersionMatch=Exact needs a resourceVersion other than \"0\"")]
    ExactWithoutVersion,
    /// A continue token carries its own version.
    #[error("a continue token and a resourceVersion exclude each other")]
    ContinueWithVersion,
    /// Initial events need `NotOlderThan`, and the other way round.
    #[error("sendInitialEvents and resourceVersionMatch=NotOlderThan go together on a watch")]
    InitialEventsWithoutMatch,
    /// Only server-side apply can be forced.
    #[error("force is for server-side apply only")]
    ForceWithoutApply,
    /// Server-side apply must say who applies.
    #[error("server-side apply needs a field manager")]
    ApplyWithoutManager,
}

impl ListParams {
    /// Only objects with these labels.
    #[must_use]
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.labels = labels;
        self
    }

    /// Only objects with these fields.
    #[must_use]
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.fields = fields;
        self
    }

    /// At most this many objects a page; 0 is no limit.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = (limit > 0).then_some(limit);
        self
    }

    /// Goes on where the page before ended.
    #[must_use]
    pub fn continue_token(mut self, token: impl Into<String>) -> Self {
        self.continue_token = Some(token.into());
        self
    }

    /// Reads at this version, as the server understands it without a match.
    #[must_use]
    pub fn at(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.version = version.into();
        self
    }

    /// Says how the version is meant.
    #[must_use]
    pub fn matching(mut self, version_match: VersionMatch) -> Self {
        self.version_match = Some(version_match);
        self
    }

    /// How long the server may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Only the objects of one shard, for example `shardRange(object.metadata.uid,'0x0','0x8')`.
    #[must_use]
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.shard_selector = Some(selector.into());
        self
    }

    /// The query of the request.
    ///
    /// # Errors
    /// When parameters contradict each other.
    pub fn query(&self) -> Result<Query, InvalidParams> {
        match self.version_match {
            Some(_) if self.version.is_unset() => return Err(InvalidParams::MatchWithoutVersion),
            Some(VersionMatch::Exact) if !self.version.is_exact() => {
                return Err(InvalidParams::ExactWithoutVersion);
            }
            _ => {}
        }
        let continues = self.continue_token.as_deref().is_some_and(|it| !it.is_empty());
        if continues && self.version.is_exact() {
            return Err(InvalidParams::ContinueWithVersion);
        }
        let mut query = Query::new();
        selectors(&mut query, &self.labels, &self.fields);
        versions(&mut query, &self.version, self.version_match);
        seconds(&mut query, self.timeout);
        put(&mut query, "limit", self.limit.filter(|it| *it > 0));
        put(&mut query, "continue", self.continue_token.as_deref().filter(|it| !it.is_empty()));
        put(&mut query, "shardSelector", self.shard_selector.as_deref().filter(|it| !it.is_empty()));
        Ok(query)
    }
}

impl Default for WatchParams {
    /// Everything from now on, with bookmarks.
    fn default() -> Self {
        Self {
            labels: LabelSelector::everything(),
            fields: FieldSelector::everything(),
            version: ResourceVersion::UNSET,
            version_match: None,
            timeout: None,
            bookmarks: true,
            send_initial_events: None,
            shard_selector: None,
        }
    }
}

impl WatchParams {
    /// Watches from this version on.
    pub fn from(version: impl Into<ResourceVersion>) -> Self {
        Self { version: version.into(), ..Self::default() }
    }

    /// Begins with the objects that are there, closed by a bookmark that says so (WatchList).
    pub fn initial_events() -> Self {
        Self {
            send_initial_events: Some(true),
            version_match: Some(VersionMatch::NotOlderThan),
            ..Self::default()
        }
    }

    /// Only objects with these labels.
    #[must_use]
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.labels = labels;
        self
    }

    /// Only objects with these fields.
    #[must_use]
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.fields = fields;
        self
    }

    /// When the server ends the watch.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Asks for no bookmarks.
    #[must_use]
    pub fn without_bookmarks(mut self) -> Self {
        self.bookmarks = false;
        self
    }

    /// Only the objects of one shard.
    #[must_use]
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.shard_selector = Some(selector.into());
        self
    }

    /// The query of the request, `watch=true` included.
    ///
    /// # Errors
    /// When parameters contradict each other.
    pub fn query(&self) -> Result<Query, InvalidParams> {
        let matches = self.version_match == Some(VersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() != self.version_match.is_some()
            || self.version_match.is_some() && !matches
        {
            return Err(InvalidParams::InitialEventsWithoutMatch);
        }
        let mut query = Query::new();
        selectors(&mut query, &self.labels, &self.fields);
        put(&mut query, "watch", Some(true));
        put(&mut query, "allowWatchBookmarks", self.bookmarks.then_some(true));
        versions(&mut query, &self.version, self.version_match);
        seconds(&mut query, self.timeout);
        put(&mut query, "sendInitialEvents", self.send_initial_events);
        put(&mut query, "shardSelector", self.shard_selector.as_deref().filter(|it| !it.is_empty()));
        Ok(query)
    }
}

impl GetParams {
    /// Reads an object that is at least this fresh.
    pub fn at(version: impl Into<ResourceVersion>) -> Self {
        Self { version: version.into() }
    }

    /// The query of the request.
    pub fn query(&self) -> Query {
        let mut query = Query::new();
        versions(&mut query, &self.version, None);
        query
    }
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

impl DeleteParams {
    /// Dependents are collected afterwards.
    pub fn background() -> Self {
        Self { propagation: Some(Propagation::Background), ..Self::default() }
    }

    /// Dependents go first.
    pub fn foreground() -> Self {
        Self { propagation: Some(Propagation::Foreground), ..Self::default() }
    }

    /// Dependents stay, without an owner.
    pub fn orphan() -> Self {
        Self { propagation: Some(Propagation::Orphan), ..Self::default() }
    }

    /// Goes through everything but deleting.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// How long the object may take to end.
    #[must_use]
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.grace_period = Some(period);
        self
    }

    /// Deletes only this very object.
    #[must_use]
    pub fn preconditions(mut self, preconditions: Preconditions) -> Self {
        self.preconditions = Some(preconditions);
        self
    }

    /// The `DeleteOptions` object that is the body of the request.
    pub fn body(&self) -> impl Serialize + '_ {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct DeleteOptions<'a> {
            kind: &'static str,
            api_version: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            dry_run: Option<[&'static str; 1]>,
            #[serde(skip_serializing_if = "Option::is_none")]
            grace_period_seconds: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            propagation_policy: Option<Propagation>,
            #[serde(skip_serializing_if = "Option::is_none")]
            preconditions: Option<&'a Preconditions>,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            ignore_store_read_error_with_cluster_breaking_potential: bool,
        }
        DeleteOptions {
            kind: "DeleteOptions",
            api_version: "v1",
            dry_run: self.dry_run.then_some(["All"]),
            grace_period_seconds: self.grace_period.map(|it| it.as_secs()),
            propagation_policy: self.propagation,
            preconditions: self.preconditions.as_ref(),
            ignore_store_read_error_with_cluster_breaking_potential: self.ignore_store_read_error,
        }
    }
}

impl Preconditions {
    /// It is still this object, not another of the same name.
    pub fn uid(uid: impl Into<String>) -> Self {
        Self { uid: Some(uid.into()), resource_version: None }
    }

    /// It did not change since this version.
    pub fn version(version: &ResourceVersion) -> Self {
        Self { uid: None, resource_version: Some(version.to_string()) }
    }
}

fn put(query: &mut Query, key: &'static str, value: Option<impl ToString>) {
    query.extend(value.map(|it| (key, it.to_string())));
}

fn selectors(query: &mut Query, labels: &LabelSelector, fields: &FieldSelector) {
    put(query, "labelSelector", (!labels.is_everything()).then_some(labels));
    put(query, "fieldSelector", (!fields.is_everything()).then_some(fields));
}

fn versions(query: &mut Query, version: &ResourceVersion, version_match: Option<VersionMatch>) {
    put(query, "resourceVersion", (!version.is_unset()).then_some(version));
    let version_match = version_match.map(|it| match it {
        VersionMatch::NotOlderThan => "NotOlderThan",
        VersionMatch::Exact => "Exact",
    });
    put(query, "resourceVersionMatch", version_match);
}

/// The server counts whole seconds; a part of one is rounded up, so that a short wait does not become none.
fn seconds(query: &mut Query, timeout: Option<Duration>) {
    let seconds = timeout.map(|it| it.as_secs() + u64::from(it.subsec_nanos() > 0)).filter(|it| *it > 0);
    put(query, "timeoutSeconds", seconds);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(query: Query) -> String {
        query.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&")
    }

    #[test]
    fn rq_3_empty_and_zero_values_are_left_out() {
        assert_eq!(text(ListParams::default().limit(0).query().expect("valid")), "");
        assert_eq!(text(WatchParams::default().without_bookmarks().query().expect("valid")), "watch=true");
        assert_eq!(text(GetParams::default().query()), "");
        assert_eq!(text(WriteParams::default().query()), "");
    }

    #[test]
    fn rq_3_every_key_of_a_list() {
        let params = ListParams::default()
            .labels("a=b".parse().expect("valid"))
            .fields("metadata.name=x".parse().expect("valid"))
            .limit(5)
            .at("7")
            .matching(VersionMatch::Exact)
            .timeout(Duration::from_millis(1500))
            .shard("shardRange(object.metadata.uid,'0x0','0x8')");
        assert_eq!(
            text(params.query().expect("valid")),
            "labelSelector=a=b&fieldSelector=metadata.name=x&resourceVersion=7&resourceVersionMatch=Exact&timeoutSeconds=2&limit=5&shardSelector=shardRange(object.metadata.uid,'0x0','0x8')"
        );
        assert_eq!(
            text(ListParams::default().limit(5).at("0").query().expect("valid")),
            "resourceVersion=0&limit=5"
        );
        assert_eq!(
            text(ListParams::default().limit(5).continue_token("t").query().expect("valid")),
            "limit=5&continue=t"
        );
    }

    #[test]
    fn rq_3_every_key_of_a_watch() {
        assert_eq!(
            text(WatchParams::from("7").timeout(Duration::from_secs(300)).query().expect("valid")),
            "watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300"
        );
        assert_eq!(
            text(WatchParams::initial_events().query().expect("valid")),
            "watch=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
        );
    }

    #[test]
    fn contradictions_are_refused_before_any_request() {
        use InvalidParams::*;
        let exact = |version| ListParams::default().at(version).matching(VersionMatch::Exact).query();
        assert_eq!(exact(""), Err(MatchWithoutVersion));
        assert_eq!(exact("0"), Err(ExactWithoutVersion));
        assert_eq!(ListParams::default().at("7").continue_token("t").query(), Err(ContinueWithVersion));
        let half = WatchParams { send_initial_events: Some(true), ..WatchParams::default() };
        assert_eq!(half.query(), Err(InitialEventsWithoutMatch));
        assert_eq!(PatchParams::default().force().query(false), Err(ForceWithoutApply));
        assert_eq!(PatchParams::default().query(true), Err(ApplyWithoutManager));
    }

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
    fn delete_options_carry_only_what_was_asked() {
        let json = |params: DeleteParams| serde_json::to_string(&params.body()).expect("serializes");
        assert_eq!(json(DeleteParams::default()), r#"{"kind":"DeleteOptions","apiVersion":"v1"}"#);
        let all = DeleteParams::foreground()
            .dry_run()
            .grace_period(Duration::ZERO)
            .preconditions(Preconditions::uid("u"));
        assert_eq!(
            json(all),
            r#"{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"],"gracePeriodSeconds":0,"propagationPolicy":"Foreground","preconditions":{"uid":"u"}}"#
        );
    }
}
