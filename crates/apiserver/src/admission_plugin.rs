//! The names of admission plugins, and the selection of those that are on.

use std::fmt;
use std::str::FromStr;

/// Declares the plugins in their order, and their names.
macro_rules! plugins {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// An admission plugin of kube-apiserver that this server has too.
        ///
        /// Its name is that of the variant, as for the flag `--enable-admission-plugins`.
        ///
        /// ```
        /// use dogwatch_apiserver::AdmissionPlugin;
        ///
        /// assert_eq!("PodSecurity".parse(), Ok(AdmissionPlugin::PodSecurity));
        /// assert_eq!(AdmissionPlugin::PodSecurity.to_string(), "PodSecurity");
        /// let unknown = "PodSafety".parse::<AdmissionPlugin>().unwrap_err();
        /// assert!(unknown.to_string().contains("PodSafety"));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum AdmissionPlugin {
            $($(#[$doc])* $name,)*
        }

        impl AdmissionPlugin {
            /// All plugins, in the order in which they see a request (`AllOrderedPlugins` in
            /// k8s.io/kubernetes v1.36.4 pkg/kubeapiserver/options/plugins.go).
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the name of the plugin.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

plugins! {
    /// Rejects new objects in namespaces that do not exist or are terminating.
    NamespaceLifecycle,
    /// Applies the defaults and bounds of limit ranges.
    LimitRanger,
    /// Gives pods a service account, its token and its image pull secrets, and rejects pods whose
    /// account does not exist. Off by default, because no controller need create the accounts.
    ServiceAccount,
    /// Marks new nodes as not ready.
    TaintNodesByCondition,
    /// Enforces the Pod Security Standards that the labels of namespaces select.
    PodSecurity,
    /// Gives pods the priority of their class, and permits one default class.
    Priority,
    /// Lets pods stay for five minutes on nodes that are not ready or not reachable.
    DefaultTolerationSeconds,
    /// Gives claims the default storage class.
    DefaultStorageClass,
    /// Keeps volumes, claims and volume attributes classes that are in use.
    StorageObjectInUseProtection,
    /// Lets only claims grow whose storage class permits it.
    PersistentVolumeClaimResize,
    /// Applies the overhead and scheduling of runtime classes.
    RuntimeClass,
    /// Lets only permitted users approve certificate signing requests.
    CertificateApproval,
    /// Lets only permitted users sign certificate signing requests.
    CertificateSigning,
    /// Rejects requests for client certificates of the group `system:masters`.
    CertificateSubjectRestriction,
    /// Gives ingresses the default ingress class.
    DefaultIngressClass,
    /// Rejects services with external IP addresses. Off by default.
    DenyServiceExternalIPs,
    /// Copies the zone and the region of a node to the pods that are bound to it.
    PodTopologyLabels,
    /// Rejects resizes of pods that do not fit their node.
    PodResizeValidator,
    /// Evaluates mutating admission policies.
    MutatingAdmissionPolicy,
    /// Calls the mutating webhooks.
    MutatingAdmissionWebhook,
    /// Evaluates validating admission policies.
    ValidatingAdmissionPolicy,
    /// Calls the validating webhooks.
    ValidatingAdmissionWebhook,
    /// Charges resource quotas, and rejects what exceeds them.
    ResourceQuota,
}

/// The plugins that have no effect with the default feature gates of kube-apiserver 1.36.4.
const WITHOUT_EFFECT: [&str; 5] = [
    "AlwaysAdmit",
    "ClusterTrustBundleAttest",
    "JobValidation",
    "PodGroupProtection",
    "PodGroupWorkloadExists",
];

/// The plugins of kube-apiserver 1.36.4 that this server does not have. All but one are off by
/// default; NodeDeclaredFeatureValidator rejects some changes of pods on nodes of other versions.
const ABSENT: [&str; 13] = [
    "AlwaysDeny",
    "AlwaysPullImages",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeDeclaredFeatureValidator",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
];

/// An admission plugin that cannot be switched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionPluginError {
    /// kube-apiserver has no plugin of this name either.
    #[error("there is no admission plugin {name:?}; the known ones are {}", known())]
    Unknown {
        /// The unknown name.
        name: String,
    },
    /// kube-apiserver has it, and this server does not.
    #[error("this server does not have the admission plugin {name}; remove it from the list of enabled ones")]
    Absent {
        /// The name of the plugin.
        name: String,
    },
}

fn known() -> String {
    AdmissionPlugin::ALL.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ")
}

impl AdmissionPlugin {
    /// Reads the name of a plugin that is to be enabled. Returns `None` for those that have no
    /// effect in kube-apiserver unless feature gates are set.
    ///
    /// # Errors
    /// Returns an error for a name that is unknown, and for a plugin that this server does not
    /// have.
    pub fn to_enable(name: &str) -> Result<Option<Self>, AdmissionPluginError> {
        if WITHOUT_EFFECT.contains(&name) { Ok(None) } else { name.parse().map(Some) }
    }

    /// Reads the name of a plugin that is to be disabled. Returns `None` for those that this server
    /// does not have.
    ///
    /// # Errors
    /// Returns an error for a name that is unknown.
    pub fn to_disable(name: &str) -> Result<Option<Self>, AdmissionPluginError> {
        match Self::to_enable(name) {
            Err(AdmissionPluginError::Absent { .. }) => Ok(None),
            read => read,
        }
    }

    /// Returns true if the plugin is on unless it is switched off: all that kube-apiserver has on
    /// by default, but for ServiceAccount.
    pub fn is_default(self) -> bool {
        !matches!(self, Self::ServiceAccount | Self::DenyServiceExternalIPs)
    }
}

impl FromStr for AdmissionPlugin {
    type Err = AdmissionPluginError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if let Some(found) = Self::ALL.iter().find(|it| it.name() == name) {
            return Ok(*found);
        }
        let name = name.to_owned();
        let is_known = ABSENT.contains(&name.as_str()) || WITHOUT_EFFECT.contains(&name.as_str());
        Err(if is_known {
            AdmissionPluginError::Absent { name }
        } else {
            AdmissionPluginError::Unknown { name }
        })
    }
}

impl fmt::Display for AdmissionPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The plugins that are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EnabledPlugins {
    /// True for each plugin of [`AdmissionPlugin::ALL`] that is on.
    on: [bool; AdmissionPlugin::ALL.len()],
}

impl EnabledPlugins {
    /// Switches a plugin.
    pub(crate) fn switch(&mut self, plugin: AdmissionPlugin, on: bool) {
        self.on[plugin as usize] = on;
    }

    /// Returns true if a plugin is on.
    pub(crate) fn has(self, plugin: AdmissionPlugin) -> bool {
        self.on[plugin as usize]
    }
}

impl Default for EnabledPlugins {
    fn default() -> Self {
        let mut it = Self { on: [false; AdmissionPlugin::ALL.len()] };
        AdmissionPlugin::ALL.iter().for_each(|plugin| it.switch(*plugin, plugin.is_default()));
        it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kube_apiserver() {
        for plugin in AdmissionPlugin::ALL {
            assert_eq!(plugin.to_string().parse(), Ok(*plugin));
        }
        for (name, enabled, disabled) in [
            ("PodSecurity", Ok(Some(AdmissionPlugin::PodSecurity)), Ok(Some(AdmissionPlugin::PodSecurity))),
            ("AlwaysAdmit", Ok(None), Ok(None)),
            (
                "AlwaysPullImages",
                Err(AdmissionPluginError::Absent { name: "AlwaysPullImages".into() }),
                Ok(None),
            ),
            (
                "podsecurity",
                Err(AdmissionPluginError::Unknown { name: "podsecurity".into() }),
                Err(AdmissionPluginError::Unknown { name: "podsecurity".into() }),
            ),
        ] {
            assert_eq!(AdmissionPlugin::to_enable(name), enabled, "{name}");
            assert_eq!(AdmissionPlugin::to_disable(name), disabled, "{name}");
        }
        let unknown = AdmissionPlugin::to_enable("X").unwrap_err().to_string();
        assert!(unknown.contains("\"X\"") && unknown.contains("PodSecurity, "), "{unknown}");
    }

    #[test]
    fn a_switch_changes_one_plugin() {
        let mut enabled = EnabledPlugins::default();
        assert!(enabled.has(AdmissionPlugin::PodSecurity) && !enabled.has(AdmissionPlugin::ServiceAccount));
        enabled.switch(AdmissionPlugin::PodSecurity, false);
        enabled.switch(AdmissionPlugin::ServiceAccount, true);
        assert!(!enabled.has(AdmissionPlugin::PodSecurity) && enabled.has(AdmissionPlugin::ServiceAccount));
        assert!(enabled.has(AdmissionPlugin::Priority));
    }
}
