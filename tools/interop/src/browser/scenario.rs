//! The ways in which a page of another site may try to reach a server on this machine, and a
//! control that has to succeed.

/// The origin of a page, and its way to the attacked server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    /// A page of one origin sends requests to another: forms, beacons, `fetch` without CORS.
    CrossSite,
    /// The name of the page's server resolves to the attacked one, so that both are one origin to
    /// the browser.
    Rebinding,
    /// The same attempts without the headers by which a browser reports their origin. A write and a
    /// read have to succeed, or the other scenarios prove nothing.
    Control,
}

/// The name of the page's server, which is not a name of the attacked one.
pub(super) const FOREIGN_NAME: &str = "evil.example";

impl Scenario {
    pub(super) const ALL: [Self; 3] = [Self::CrossSite, Self::Rebinding, Self::Control];

    /// The name of the scenario, and the prefix of the objects its page creates.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CrossSite => "cross-site",
            Self::Rebinding => "rebinding",
            Self::Control => "control",
        }
    }

    /// Returns true if the attacked server has the page's own origin.
    pub(super) fn is_same_origin(self) -> bool {
        self != Self::CrossSite
    }

    /// Returns the host of the page's URL. `address` is that of the page's server.
    pub(super) fn host(self, address: &str) -> String {
        if self == Self::Rebinding { FOREIGN_NAME.to_owned() } else { address.to_owned() }
    }

    /// Returns the scenario of a page, by its path.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        let name = path.strip_prefix("/page/")?;
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns the scenario of a page that sends a request to its own origin, by the `Host` of the
    /// request.
    pub(super) fn of_host(host: &str) -> Self {
        if host.starts_with(FOREIGN_NAME) { Self::Rebinding } else { Self::Control }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_by_its_path_and_its_requests_by_their_host() {
        for scenario in Scenario::ALL {
            assert_eq!(Scenario::of_path(&format!("/page/{}", scenario.name())), Some(scenario));
        }
        assert_eq!(Scenario::of_path("/favicon.ico"), None);
        assert_eq!(Scenario::of_host("evil.example:80"), Scenario::Rebinding);
        assert_eq!(Scenario::of_host("127.0.0.2:80"), Scenario::Control);
    }
}
