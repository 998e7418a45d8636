//! Conversion of the `exec` section of a user to the settings of a credential plugin.
//!
//! Expects a validated section. Starts nothing. The cluster's data for the plugin is put together
//! here, because only here both the user and the cluster are known.

use std::fmt::Write as _;

use url::Url;

use super::absent::given;
use super::error::{ConfigEntry, ConfigProblem};
use super::exec::{ExecCluster, ExecConfig, ExecEnv, InteractiveMode};
use super::kubeconfig::Cluster;
use super::material;
use super::user::ExecSection;

/// The cluster extension that is passed to plugins.
const EXTENSION: &str = "client.authentication.k8s.io/exec";

/// Returns the settings of the plugin of `section`, for use with `cluster` at `server`.
pub(super) fn settings(
    section: &ExecSection,
    entry: &ConfigEntry,
    cluster: &Cluster,
    server: &Url,
) -> Result<ExecConfig, ConfigProblem> {
    let cluster_info = match section.provide_cluster_info {
        true => Some(describe(entry, cluster, server)?),
        false => None,
    };
    Ok(ExecConfig {
        api_version: section.api_version.clone().unwrap_or_default(),
        command: section.command.clone().unwrap_or_default(),
        args: section.args.clone(),
        env: section
            .env
            .iter()
            .map(|variable| ExecEnv { name: variable.name.clone(), value: variable.value.clone() })
            .collect(),
        install_hint: given(&section.install_hint).map(|hint| printable(hint)),
        provide_cluster_info: section.provide_cluster_info,
        interactive_mode: Some(interactive_mode(section)),
        cluster: cluster_info,
    })
}

/// Returns the cluster's data for a plugin. A file of roots is read now, since the plugin receives
/// its content.
fn describe(entry: &ConfigEntry, cluster: &Cluster, server: &Url) -> Result<ExecCluster, ConfigProblem> {
    let data = match (given(&cluster.certificate_authority_data), given(&cluster.certificate_authority)) {
        (Some(data), _) => Some(data.clone()),
        (None, Some(path)) => Some(
            material::base64_of(path).map_err(|message| entry.problem("certificate-authority", message))?,
        ),
        (None, None) => None,
    };
    Ok(ExecCluster {
        server: server.as_str().trim_end_matches('/').to_owned(),
        tls_server_name: given(&cluster.tls_server_name).cloned(),
        insecure_skip_tls_verify: cluster.insecure_skip_tls_verify,
        certificate_authority_data: data,
        proxy_url: given(&cluster.proxy_url).cloned(),
        disable_compression: cluster.disable_compression,
        config: cluster.extension(EXTENSION).map(|extension| extension.extension.clone()),
    })
}

/// Returns the mode; versions before v1 did not have one.
fn interactive_mode(section: &ExecSection) -> InteractiveMode {
    match section.interactive_mode.as_deref() {
        Some("Never") => InteractiveMode::Never,
        Some("Always") => InteractiveMode::Always,
        _ => InteractiveMode::IfAvailable,
    }
}

/// Replaces every character that could control a terminal by its code, such as `U+001B`.
fn printable(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            write!(clean, "U+{:04X}", u32::from(c)).expect("writing to a String cannot fail");
        } else {
            clean.push(c);
        }
    }
    clean
}

/// Returns true for control characters other than white space, invisible formatting such as changes
/// of direction, and private use.
fn steers(c: char) -> bool {
    let white_space = ('\t'..='\r').contains(&c);
    let formatting = matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    let private = matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}');
    (c.is_control() && !white_space) || formatting || private
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_install_hint_cannot_steer_the_terminal() {
        let cases = [
            ("\x1b[1mbold\x1b[0m, fish", "U+001B[1mboldU+001B[0m, fish"),
            ("\x1b[2Aup, clear: \x1b[2J", "U+001B[2Aup, clear: U+001B[2J"),
            ("right\u{202e}left", "rightU+202Eleft"),
            ("bell\u{7}", "bellU+0007"),
        ];
        for (text, clean) in cases {
            assert_eq!(printable(text), clean);
        }
    }

    #[test]
    fn ordinary_text_is_unchanged() {
        let texts = [
            "a\nb\r\nc\t\r\nd\x0be\x0cf",
            "alpha: \u{3b1}, beta: \u{3b2}",
            "tu\u{301}na with a mark",
            "\"quoted; with! some...punctuation ;)\"",
            "\u{222b}\u{2081}\u{207f} f(x) dx \u{2248} \u{2211}",
            "a paragraph\u{2029}and\u{2003}spaces",
            "t1na, f2sh",
        ];
        for text in texts {
            assert_eq!(printable(text), text);
        }
    }
}
