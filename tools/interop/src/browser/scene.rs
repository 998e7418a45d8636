//! The ways in which a page of another site may try to reach a server of this machine, and one in which it must succeed.

/// Where a page comes from, and what it attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// A page of one origin sends requests to another: forms, beacons, `fetch` without CORS.
    CrossSite,
    /// The name of the page's server leads to the attacked one, so that both are one origin to the browser.
    Rebinding,
    /// The same attempts without the headers by which a browser says where they come from. A write and a read must
    /// succeed, or the other scenes show nothing.
    Control,
}

/// The name that leads to the page's server, and is not the attacked one's.
pub(super) const FOREIGN_NAME: &str = "evil.example";

impl Scene {
    pub(super) const ALL: [Self; 3] = [Self::CrossSite, Self::Rebinding, Self::Control];

    /// The name of the scene, and of what its page creates.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CrossSite => "cross-site",
            Self::Rebinding => "rebinding",
            Self::Control => "control",
        }
    }

    /// Whether the page takes the attacked server for its own origin.
    pub(super) fn is_same_origin(self) -> bool {
        self != Self::CrossSite
    }

    /// The host under which the browser finds the page, where `address` is that of its server.
    pub(super) fn host(self, address: &str) -> String {
        if self == Self::Rebinding { FOREIGN_NAME.to_owned() } else { address.to_owned() }
    }

    /// The scene whose page this is.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        let name = path.strip_prefix("/page/")?;
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The scene in which a page asks its own origin for something else, by the `Host` of the request.
    pub(super) fn of_host(host: &str) -> Self {
        if host.starts_with(FOREIGN_NAME) { Self::Rebinding } else { Self::Control }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_by_its_path_and_its_requests_by_their_host() {
        for scene in Scene::ALL {
            assert_eq!(Scene::of_path(&format!("/page/{}", scene.name())), Some(scene));
        }
        assert_eq!(Scene::of_path("/favicon.ico"), None);
        assert_eq!(Scene::of_host("evil.example:80"), Scene::Rebinding);
        assert_eq!(Scene::of_host("127.0.0.2:80"), Scene::Control);
    }
}
