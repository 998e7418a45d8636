//! The names of a new operator: validated, and the forms in which the generated files use them.
//!
//! A valid name needs no quotes in YAML, TOML and Rust, which is what lets templates be plain text.

use dogwatch_apimachinery::names;

use super::error::NewError;

/// The maximum length of a DNS label: of namespaces, of kinds, and of the name in a finalizer.
const MAX_LABEL: usize = 63;
/// The maximum length of the name of a custom resource definition, which is `PLURAL.GROUP`.
const MAX_NAME: usize = 253;

/// Words that YAML 1.1 reads as a boolean or as nothing, in lower case.
const YAML_WORDS: &str = "\
    false n no null off on true y yes";

/// Names that a crate cannot have: keywords of Rust, crates that come with it, and folders of
/// cargo.
const RUST_WORDS: &str = "\
    abstract alloc as async await become box break build const continue core crate deps do dyn \
    else enum examples extern false final fn for gen if impl in incremental let loop macro match \
    mod move mut override priv proc-macro pub ref return self static std struct super test trait \
    true try type typeof unsafe unsized use virtual where while yield";

/// Words that do not name the objects of an operator, as in `my-operator`.
const NO_NOUNS: &str = "a an first hello my new our simple the your";

/// The dependencies of a new operator, whose names it cannot have.
const DEPENDENCIES: &str = "\
    anyhow dogwatch metrics-exporter-prometheus schemars serde serde-json serde-saphyr tokio \
    tracing-subscriber";

/// Names of types and variants in the generated code, which a kind cannot have.
const GENERATED_TYPES: &str = "\
    Action Api ApiServer Arc AuthorizationMode CleanUp Client Clone Condition \
    Conditions Context CustomResource CustomResourceExt Debug Default \
    DeleteParams Deployment Deserialize Done Duration Endpoints EnvFilter Event EventRecorder Finalizer \
    Impersonation JsonSchema LeaderElector ListParams Live Manager NewEvent None Ok Operator \
    Owner PartialEq PatchParams Phase PrometheusBuilder Rbac Resource ResourceExt Result \
    Schema SchemaGenerator Self Serialize Some String TestCluster Value Vec WriteParams";

/// The names of an operator and of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// The name of the package, the program, the image and the namespace: a DNS label.
    pub(crate) name: String,
    /// The kind, in upper camel case.
    pub(crate) kind: String,
    /// The API group, a domain.
    pub(crate) group: String,
    /// The plural name of the resource.
    plural: String,
}

impl Names {
    /// Checks the names. Without a kind, it is derived from the name.
    ///
    /// # Errors
    /// Returns the first name that a crate, Kubernetes or the generated code would not accept.
    pub(crate) fn new(name: &str, kind: Option<&str>, group: &str) -> Result<Self, NewError> {
        if let Some(reason) = wrong_with_name(name) {
            return Err(NewError::Name { name: name.to_owned(), source: reason.into() });
        }
        let kind = kind.map_or_else(|| kind_of(name), str::to_owned);
        if let Some(reason) = wrong_with_kind(&kind) {
            return Err(NewError::Kind { kind, source: reason.into() });
        }
        let plural = plural_of(&kind.to_ascii_lowercase());
        let names = Self { name: name.to_owned(), kind, group: group.to_owned(), plural };
        match names.wrong_with_group() {
            Some(reason) => Err(NewError::Group { group: names.group, source: reason.into() }),
            None => Ok(names),
        }
    }

    /// Returns the name of the library crate.
    pub(crate) fn crate_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Returns the singular name of the resource.
    pub(crate) fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// Replaces the plural name, for a noun that is not regular.
    ///
    /// # Errors
    /// Returns an error if Kubernetes would not accept the name.
    pub(crate) fn with_plural(self, plural: &str) -> Result<Self, NewError> {
        let reject =
            |reason: &'static str| NewError::Plural { plural: plural.to_owned(), source: reason.into() };
        let letters = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
        if !plural.starts_with(|it: char| it.is_ascii_lowercase()) || !plural.bytes().all(letters) {
            return Err(reject("it has to be letters and digits in lower case, beginning with a letter"));
        }
        if plural.len() > MAX_LABEL {
            return Err(reject("it is longer than 63 characters"));
        }
        if has(YAML_WORDS, plural) {
            return Err(reject("YAML reads it as another value"));
        }
        let names = Self { plural: plural.to_owned(), ..self };
        match names.wrong_with_group() {
            Some(reason) => Err(NewError::Group { group: names.group, source: reason.into() }),
            None => Ok(names),
        }
    }

    /// Returns the plural name of the resource.
    pub(crate) fn plural(&self) -> String {
        self.plural.clone()
    }

    fn wrong_with_group(&self) -> Option<&'static str> {
        let group = &self.group;
        let is_label = |it: &str| names::label(it).is_empty();
        if !group.contains('.') || !group.split('.').all(is_label) {
            Some("it has to be a domain in lower case with at least one dot")
        } else if self.plural().len() + 1 + group.len() > MAX_NAME {
            Some("with the plural of the kind, it is longer than 253 characters")
        } else if group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io") {
            Some("Kubernetes reserves k8s.io and kubernetes.io")
        } else if group.parse::<f64>().is_ok() {
            Some("YAML reads it as a number")
        } else {
            None
        }
    }
}

fn wrong_with_name(name: &str) -> Option<&'static str> {
    if !names::label_1035(name).is_empty() {
        Some("it has to be a DNS label that begins with a letter")
    } else if name.contains("--") {
        Some("the name of a crate has single separators")
    } else if has(YAML_WORDS, name) {
        Some("YAML reads it as another value")
    } else if has(RUST_WORDS, name) {
        Some("Rust or cargo reserves it")
    } else if has(DEPENDENCIES, name) {
        Some("it is the name of a crate that the operator uses")
    } else if name == "default" || name.starts_with("kube-") {
        Some("it becomes the name of a namespace, and Kubernetes reserves this one")
    } else {
        None
    }
}

fn wrong_with_kind(kind: &str) -> Option<&'static str> {
    let is_camel = kind.starts_with(|it: char| it.is_ascii_uppercase())
        && kind.bytes().all(|it| it.is_ascii_alphanumeric());
    if !is_camel {
        Some("it has to be letters and digits, beginning with an upper-case letter")
    } else if kind.len() > MAX_LABEL {
        Some("it is longer than 63 characters")
    } else if has(YAML_WORDS, &kind.to_ascii_lowercase()) {
        Some("YAML reads it as another value")
    } else if has(GENERATED_TYPES, kind) {
        Some("the generated code uses it for something else")
    } else {
        None
    }
}

/// Returns the kind for a name: `website-operator` is for `Website`. A name that says nothing about
/// its objects, such as `my-operator`, is for a `MyResource`.
fn kind_of(name: &str) -> String {
    let subject = ["-operator", "-controller"].iter().find_map(|it| name.strip_suffix(it));
    let subject = subject.unwrap_or(name);
    let noun = has(NO_NOUNS, subject.rsplit('-').next().unwrap_or(subject)).then_some("resource");
    let words = subject.split('-').chain(noun);
    words.map(|it| it[..1].to_ascii_uppercase() + &it[1..]).collect()
}

/// Returns the plural of a regular English noun.
fn plural_of(singular: &str) -> String {
    if ["s", "x", "z", "ch", "sh"].iter().any(|it| singular.ends_with(it)) {
        return format!("{singular}es");
    }
    match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{singular}s"),
    }
}

/// Returns true if a word is in a list, which is separated by blanks.
fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|it| it == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_and_its_plural_are_derived_from_the_name() {
        for (name, kind, plural) in [
            ("website", "Website", "websites"),
            ("website-operator", "Website", "websites"),
            ("cache-policy-controller", "CachePolicy", "cachepolicies"),
            ("relay", "Relay", "relays"),
            ("web-2-proxy", "Web2Proxy", "web2proxies"),
            ("mailbox", "Mailbox", "mailboxes"),
            ("switch", "Switch", "switches"),
            ("my-operator", "MyResource", "myresources"),
            ("my-first-controller", "MyFirstResource", "myfirstresources"),
            ("my-website-operator", "MyWebsite", "mywebsites"),
        ] {
            let names = Names::new(name, None, "example.com").unwrap();
            assert_eq!((names.kind.as_str(), names.plural().as_str()), (kind, plural), "{name}");
        }
        assert_eq!(Names::new("a-b-c", None, "example.com").unwrap().crate_name(), "a_b_c");
    }

    #[test]
    fn the_plural_of_an_irregular_noun_can_be_given() {
        let names = || Names::new("mouse-operator", None, "example.com").unwrap();
        assert_eq!(names().with_plural("mice").unwrap().plural(), "mice");
        let long = "a".repeat(64);
        for plural in ["", "Mice", "mi-ce", "mi.ce", "2mice", "yes", &long] {
            let rejected = names().with_plural(plural);
            assert!(matches!(rejected, Err(NewError::Plural { .. })), "{plural}: {rejected:?}");
        }
        let long = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(50)].join(".");
        let names = Names::new("mouse-operator", None, &long).unwrap();
        assert!(matches!(names.with_plural("verylongmice"), Err(NewError::Group { .. })));
    }

    #[test]
    fn names_that_no_crate_and_no_namespace_can_have_are_rejected() {
        let long = "a".repeat(64);
        for name in [
            "", "-a", "a-", "a--b", "Web", "web_site", "web.site", "1web", "wëb", "../web", &long, "async",
            "test", "tokio", "dogwatch", "default", "kube-web", "yes", "null",
        ] {
            let rejected = Names::new(name, Some("Web"), "example.com");
            assert!(matches!(rejected, Err(NewError::Name { .. })), "{name}: {rejected:?}");
        }
        assert!(Names::new(&long[..63], Some("Web"), "example.com").is_ok());
    }

    #[test]
    fn kinds_that_kubernetes_rust_or_the_generated_code_cannot_have_are_rejected() {
        let long = "A".repeat(64);
        for kind in ["", "web", "Web-Site", "Web_Site", "2Web", "Wëb", &long, "Self", "Deployment", "Yes"] {
            let rejected = Names::new("web", Some(kind), "example.com");
            assert!(matches!(rejected, Err(NewError::Kind { .. })), "{kind}: {rejected:?}");
        }
        // The derived one is checked as well.
        assert!(matches!(Names::new("event-operator", None, "example.com"), Err(NewError::Kind { .. })));
        assert!(Names::new("event-operator", Some("Occasion"), "example.com").is_ok());
    }

    #[test]
    fn groups_that_are_no_domains_are_rejected() {
        let long = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(60)].join(".");
        for group in [
            "",
            "example",
            "Example.com",
            ".com",
            "example.",
            "exa mple.com",
            "-a.com",
            "a..b",
            "apps.k8s.io",
            "1.2",
            "1.e5",
            &long,
        ] {
            let rejected = Names::new("web", None, group);
            assert!(matches!(rejected, Err(NewError::Group { .. })), "{group}: {rejected:?}");
        }
        assert!(Names::new("web", None, "my-team.example.co.uk").is_ok());
    }

    #[test]
    fn the_dependencies_of_the_template_are_reserved() {
        let manifest = include_str!("../../templates/cargo-manifest.toml");
        let dependencies = manifest.split_once("[dependencies]").unwrap().1;
        let used: Vec<_> = dependencies.lines().filter_map(|it| it.split_once(" = ")).collect();
        assert!(used.len() > 5, "{used:?}");
        for (name, _) in used {
            assert!(has(DEPENDENCIES, &name.replace('_', "-")), "{name}");
        }
    }

    #[test]
    fn the_types_in_the_templates_are_reserved() {
        for source in [
            include_str!("../../templates/src/controller.rs"),
            include_str!("../../templates/src/main.rs"),
            include_str!("../../templates/src/resource.rs"),
            include_str!("../../templates/tests/operator.rs"),
        ] {
            for line in source.lines().map(str::trim).filter(|it| !it.starts_with("//")) {
                // Text is not code; what is between quotes is every second part.
                for code in line.split('"').step_by(2) {
                    let words = code.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
                    let is_type = |it: &&str| {
                        it.starts_with(|it: char| it.is_ascii_uppercase())
                            && it.contains(|it: char| it.is_ascii_lowercase())
                    };
                    for word in words.filter(is_type) {
                        assert!(has(GENERATED_TYPES, word), "{word} in {line}");
                    }
                }
            }
        }
    }
}
