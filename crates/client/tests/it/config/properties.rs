//! Properties of every kubeconfig: writing loses nothing, and merging is first-wins.

use std::collections::BTreeMap;

use dogwatch_client::config::{
    Cluster, Context, ExecSection, ExecVariable, Kubeconfig, NamedCluster, NamedContext, NamedExtension,
    NamedUser, OtherFields, Preferences, ProviderSection, User,
};
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Strings that YAML reads as another type.
#[rustfmt::skip]
const TRAPS: [&str; 31] = [
    "yes", "null", "~", "0x1", "1e3", "007", "- a", "a: b", "# x", " lead", "trail ", "a\nb\n", "\t", "'",
    "\"", "<<", "=", "2001-01-01", "{}", "[", "*a", "&a", "!!x", "%", "@", "`", "|", ">", "true", ".nan",
    "a #b",
];

/// Strings of all kinds.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(&TRAPS[..]).prop_map(str::to_owned),
        prop::collection::vec(any::<char>(), 1..12).prop_map(String::from_iter),
        (90..120_usize).prop_map(|length| "a long line ".repeat(length / 12)),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

/// Fields that no version of the format has.
fn other() -> impl Strategy<Value = OtherFields> {
    prop::collection::btree_map("x-[a-z]{1,3}", value(), 0..3).prop_map(OtherFields)
}

/// Entries with unique names from such a small set that two files often share one.
fn entries<T: std::fmt::Debug>(
    entry: impl Strategy<Value = T>,
) -> impl Strategy<Value = BTreeMap<String, T>> {
    prop::collection::btree_map("[a-d]", entry, 0..4)
}

fn extensions() -> impl Strategy<Value = Vec<NamedExtension>> {
    entries((value(), other())).prop_map(|map| {
        map.into_iter().map(|(name, (extension, other))| NamedExtension { name, extension, other }).collect()
    })
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let flags = (any::<bool>(), any::<bool>());
    (of(text()), of(text()), of(text()), of(text()), flags, extensions(), other()).prop_map(
        |(server, name, file, proxy_url, (insecure, plain), extensions, other)| Cluster {
            server,
            tls_server_name: name,
            certificate_authority: file.map(Into::into),
            proxy_url,
            insecure_skip_tls_verify: insecure,
            disable_compression: plain,
            extensions,
            other,
            ..Cluster::default()
        },
    )
}

fn exec() -> impl Strategy<Value = ExecSection> {
    let variable =
        (text(), text(), other()).prop_map(|(name, value, other)| ExecVariable { name, value, other });
    let lists = (prop::collection::vec(text(), 0..3), prop::collection::vec(variable, 0..2));
    (of(text()), of(text()), of(text()), of(text()), lists, any::<bool>(), other()).prop_map(
        |(api_version, command, install_hint, interactive_mode, (args, env), provide_cluster_info, other)| {
            ExecSection {
                api_version,
                command,
                args,
                env,
                install_hint,
                provide_cluster_info,
                interactive_mode,
                other,
            }
        },
    )
}

fn user() -> impl Strategy<Value = User> {
    let provider = (text(), prop::collection::btree_map(text(), text(), 0..2), other())
        .prop_map(|(name, config, other)| ProviderSection { name, config, other });
    let extra = prop::collection::btree_map(text(), prop::collection::vec(text(), 0..2), 0..2);
    (of(text()), of(text()), of(text()), of(text()), extra, of(provider), of(exec()), extensions(), other())
        .prop_map(
            |(token, password, key, file, impersonate_extra, auth_provider, exec, extensions, other)| User {
                token: token.map(Into::into),
                password: password.map(Into::into),
                client_key_data: key.map(Into::into),
                token_file: file.map(Into::into),
                impersonate_extra,
                auth_provider,
                exec,
                extensions,
                other,
                ..User::default()
            },
        )
}

fn context() -> impl Strategy<Value = Context> {
    (of(text()), of(text()), of(text()), extensions(), other()).prop_map(
        |(cluster, user, namespace, extensions, other)| Context {
            cluster,
            user,
            namespace,
            extensions,
            other,
            ..Context::default()
        },
    )
}

fn preferences() -> impl Strategy<Value = Preferences> {
    (any::<bool>(), extensions(), other()).prop_map(|(colors, extensions, other)| Preferences {
        colors,
        extensions,
        other,
    })
}

prop_compose! {
    fn kubeconfig()(
        clusters in entries((cluster(), other())),
        users in entries((user(), other())),
        contexts in entries((context(), other())),
        preferences in of(preferences()),
        current_context in of(text()),
        extensions in extensions(),
        other in other(),
    ) -> Kubeconfig {
        Kubeconfig {
            clusters: clusters.into_iter().map(|(name, (cluster, other))| NamedCluster { name, cluster, other }).collect(),
            users: users.into_iter().map(|(name, (user, other))| NamedUser { name, user, other }).collect(),
            contexts: contexts.into_iter().map(|(name, (context, other))| NamedContext { name, context, other }).collect(),
            preferences,
            current_context,
            extensions,
            other,
            ..Kubeconfig::default()
        }
    }
}

/// Returns everything that would be written, including secrets.
fn written(config: &Kubeconfig) -> Value {
    serde_json::to_value(config).unwrap()
}

fn merged(first: &Kubeconfig, later: &Kubeconfig) -> Kubeconfig {
    let mut merged = first.clone();
    merged.merge(later.clone());
    merged
}

/// Escapes everything beyond ASCII in JSON, as some writers do.
fn ascii(json: &str) -> String {
    let escape = |unit: u16| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
        _ => format!("\\u{unit:04x}"),
    };
    json.encode_utf16().map(escape).collect()
}

/// Returns the entries of a section by name.
fn section(config: &Kubeconfig, name: &str) -> BTreeMap<String, Value> {
    let entries = written(config)[name].as_array().cloned().unwrap_or_default();
    entries.into_iter().map(|entry| (entry["name"].as_str().unwrap().to_owned(), entry)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_written_kubeconfig_reads_back_the_same_with_unknown_fields(config in kubeconfig()) {
        let text = config.to_yaml().unwrap();
        let read = Kubeconfig::from_yaml(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(written(&read), written(&config), "{}", text);
    }

    #[test]
    fn json_is_read_with_any_escaping(config in kubeconfig()) {
        let text = serde_json::to_string_pretty(&config).unwrap();
        for text in [ascii(&text), text] {
            let read = Kubeconfig::from_yaml(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(written(&read), written(&config));
        }
    }

    #[test]
    fn kc_2_merging_a_kubeconfig_with_itself_changes_nothing(config in kubeconfig()) {
        prop_assert_eq!(written(&merged(&config, &config)), written(&config));
    }

    #[test]
    fn kc_2_an_empty_kubeconfig_changes_nothing(config in kubeconfig()) {
        let empty = Kubeconfig::default();
        prop_assert_eq!(written(&merged(&config, &empty)), written(&config));
        prop_assert_eq!(written(&merged(&empty, &config)), written(&config));
    }

    #[test]
    fn kc_2_every_entry_is_that_of_the_first_to_define_it(first in kubeconfig(), later in kubeconfig()) {
        let both = merged(&first, &later);
        for name in ["clusters", "users", "contexts", "extensions"] {
            let mut expected = section(&later, name);
            expected.extend(section(&first, name));
            prop_assert_eq!(section(&both, name), expected);
        }
        prop_assert_eq!(&both.current_context, &first.current_context.or(later.current_context));
    }

    #[test]
    fn kc_2_merging_may_be_grouped_in_any_way(a in kubeconfig(), b in kubeconfig(), c in kubeconfig()) {
        prop_assert_eq!(written(&merged(&merged(&a, &b), &c)), written(&merged(&a, &merged(&b, &c))));
    }

    #[test]
    fn debug_shows_no_secret(mut config in kubeconfig()) {
        for entry in &mut config.users {
            entry.user.token = Some("hush-hush".into());
            entry.user.password = Some("hush-hush".into());
            entry.user.client_key_data = Some("hush-hush".into());
            entry.user.exec.get_or_insert_default().args.push("hush-hush".to_owned());
            entry.user.auth_provider.get_or_insert_default().config.insert("a".to_owned(), "hush-hush".to_owned());
            entry.user.other.0.insert("new-token".to_owned(), json!("hush-hush"));
        }
        let shown = format!("{config:?}");
        prop_assert!(!shown.contains("hush-hush"));
    }
}
