//! Unaggregated discovery: one request per version of each group (rule DI-2).

use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::document::ResourceList;
use super::model::{ApiGroup, ApiVersion, Discovery, FailureReason, GroupFailure};
use super::source::DiscoverySource;
use crate::error::Error;
use crate::request::JSON;

/// The number of concurrent requests for versions.
const AT_A_TIME: usize = 16;

/// Requests the resources of every version that is not known yet. Errors are recorded in the
/// result.
pub(crate) async fn fill(
    source: &DiscoverySource,
    mut groups: Vec<ApiGroup>,
    known: &Discovery,
) -> Discovery {
    for group in &mut groups {
        for version in &mut group.versions {
            let earlier = known.group(&group.name).and_then(|it| it.version(&version.version));
            if let Some(earlier) = earlier {
                *version = earlier.clone();
            }
        }
    }
    let unknown = |group: &ApiGroup| {
        let versions = group.versions.iter().filter(|it| it.is_empty());
        versions.map(|it| (group.name.clone(), it.version.clone())).collect::<Vec<_>>()
    };
    let wanted: Vec<_> = groups.iter().flat_map(unknown).collect();
    complete(source, Discovery { groups, failures: Vec::new() }, wanted).await
}

/// Requests some versions, and replaces their resources and failures in the result.
pub(crate) async fn complete(
    source: &DiscoverySource,
    mut discovery: Discovery,
    wanted: Vec<(String, String)>,
) -> Discovery {
    discovery.failures.retain(|it| !wanted.iter().any(|(group, version)| it.is_of(group, version)));
    let mut answers = stream::iter(wanted)
        .map(|(group, version)| async move {
            let answer = resources_of(source, &group, &version).await;
            (group, version, answer)
        })
        .buffered(AT_A_TIME);
    while let Some((group, version, answer)) = answers.next().await {
        match answer {
            Ok(found) => discovery.put(&group, found),
            Err(error) => {
                tracing::debug!(group, version, %error, "cannot discover the resources of a version");
                let reason = FailureReason::Failed(Arc::new(error));
                discovery.failures.push(GroupFailure::new(&group, &version, reason));
            }
        }
    }
    discovery
}

/// Requests the resources of one version. A server without a core group has no resources in it.
async fn resources_of(source: &DiscoverySource, group: &str, version: &str) -> Result<ApiVersion, Error> {
    let path = if group.is_empty() { vec!["api", version] } else { vec!["apis", group, version] };
    match source.get(&path, JSON, None, |it| it.json::<ResourceList>()).await {
        Ok(list) => Ok(list.into_version(group, version)),
        Err(error) if group.is_empty() && version == "v1" && error.is_not_found() => {
            Ok(ApiVersion::unknown(version))
        }
        Err(error) => Err(error),
    }
}

impl Discovery {
    /// Replaces a version of a group.
    fn put(&mut self, group: &str, found: ApiVersion) {
        let group = self.groups.iter_mut().find(|it| it.name == group);
        let place = group.and_then(|it| it.versions.iter_mut().find(|it| it.version == found.version));
        if let Some(place) = place {
            *place = found;
        }
    }

    /// Records versions without any resource as failures (rule DI-3).
    pub(crate) fn mark_empty(&mut self) {
        for group in &self.groups {
            for version in group.versions.iter().filter(|it| it.is_empty()) {
                if !self.failures.iter().any(|it| it.is_of(&group.name, &version.version)) {
                    let failure = GroupFailure::new(&group.name, &version.version, FailureReason::Empty);
                    self.failures.push(failure);
                }
            }
        }
    }
}

impl GroupFailure {
    fn is_of(&self, group: &str, version: &str) -> bool {
        self.group == group && self.version == version
    }
}
