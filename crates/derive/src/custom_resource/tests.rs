//! Tests of the expansion: which crates it names, and where its errors point.
//!
//! That the generated code compiles and does the right thing is tested in the facade.

use proc_macro2::TokenStream;
use quote::quote;

use super::{derive, expand};

const EVERYTHING: &str = r##"
    #[kube(group = "example.com", version = "v1", kind = "Buoy", root = "BuoyRoot", namespaced)]
    #[kube(status = "Status", derive = "PartialEq", derive = "Default", attr = "allow(deprecated)")]
    #[kube(singular = "buoy", plural = "buoys", shortname = "by", category = "all", doc = "A buoy.")]
    #[kube(printcolumn(name = "Depth", type_ = "integer", json_path = ".spec.depth", priority = 1))]
    #[kube(scale = r#"{"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}"#)]
    #[kube(selectable = ".spec.depth", annotation("a", "b"), label("c", "d"), served = false)]
    #[kube(storage = "false", deprecated = "old", schema = "derived", no_spec)]
    #[kube(validation = "self.depth > 0", validation = Rule::new("true").message("never"))]
    struct BuoySpec { depth: i32 }
"##;

fn expanded(input: &str) -> TokenStream {
    expand(&syn::parse_str(input).expect("a type")).expect("an expansion")
}

/// The error of an input, and the source text that it points to.
fn refused(input: &str) -> (String, String) {
    let parsed = syn::parse_str(input).expect("a type");
    let error = expand(&parsed).expect_err(input);
    (error.to_string(), error.span().source_text().unwrap_or_default())
}

/// The expansion without spaces, so that paths can be searched for.
fn compact(input: &str) -> String {
    expanded(input).to_string().replace(' ', "")
}

#[test]
fn the_generated_code_reaches_other_crates_through_dogwatch_alone() {
    let code = compact(EVERYTHING);
    for name in ["serde", "schemars", "kube_core", "k8s_openapi", "serde_json", "kube"] {
        let (all, ours) = (format!("{name}::"), format!("::dogwatch::__private::{name}::"));
        assert_eq!(code.matches(&all).count(), code.matches(&ours).count(), "{name} in {code}");
    }
    assert!(code.contains("#[serde(crate=\"::dogwatch::__private::serde\")]"), "{code}");
}

#[test]
fn the_path_of_dogwatch_can_be_chosen() {
    let options = r#"#[kube(group = "g", version = "v1", kind = "Buoy", crate = "crate::deps::dogwatch")]"#;
    let code = compact(&format!("{options} struct BuoySpec;"));
    assert!(code.contains("crate::deps::dogwatch::__private::serde::Serialize"), "{code}");
    assert_eq!(code.matches("dogwatch").count(), code.matches("crate::deps::dogwatch::").count(), "{code}");
}

#[test]
fn every_missing_option_is_named() {
    let (message, place) = refused("#[kube(version = \"v1\")] struct BuoySpec;");
    assert_eq!(message, "a custom resource needs `#[kube(…)]` with `group = \"…\"` and `kind = \"…\"`");
    assert_eq!(place, "BuoySpec");
}

#[test]
fn an_option_that_only_kube_derive_has_names_the_way_out() {
    for option in ["cel", "colour"] {
        let (message, place) = refused(&format!("#[kube({option})] struct BuoySpec;"));
        assert!(message.starts_with(&format!("`{option}` is not supported")), "{message}");
        assert!(message.contains("use kube-derive's own derive with `#[kube(crates("), "{message}");
        assert_eq!(place, option);
    }
    let (message, _) = refused("#[kube(crates(kube_core = \"::kube_core\"))] struct BuoySpec;");
    assert!(message.starts_with("`crates` is not needed here"), "{message}");
}

#[test]
fn an_error_points_to_what_is_wrong() {
    let refusals = [
        ("kind = \"Buoy Two\"", "`Buoy Two` is not the name of a type", "\"Buoy Two\""),
        ("kind = \"struct\"", "`struct` is not the name of a type", "\"struct\""),
        (
            "kind = \"BuoySpec\"",
            "`BuoySpec` is the name of the generated struct; rename the specification",
            "\"BuoySpec\"",
        ),
        ("kind = Buoy", "expected string literal", "Buoy"),
        (
            "kind = \"Buoy\", schema = \"none\"",
            "expected \"derived\", \"manual\" or \"disabled\"",
            "\"none\"",
        ),
        ("kind = \"Buoy\", namespaced = 1", "expected `true` or `false`", "1"),
        ("kind = \"Buoy\", kind = \"Ship\"", "`kind` is given more than once", "kind = \"Ship\""),
        (
            "kind = \"Buoy\", attr = \"derive(Eq)\"",
            "use `derive = \"Trait\"` for each trait to derive",
            "\"derive(Eq)\"",
        ),
        (
            "kind = \"Buoy\", attr = \"serde(default)\"",
            "attributes of serde and schemars on the root are set by the generated code",
            "\"serde(default)\"",
        ),
        (
            "kind = \"Buoy\", schema = \"manual\", validation = \"true\"",
            "`validation` needs a derived schema; put the rule into your own schema",
            "\"true\"",
        ),
        (
            "kind = \"Buoy\", scale(spec_replicas_path = \".spec.n\", status_replicas_path = \".status.n\")",
            "`scale` needs `status = \"…\"`: its replicas are in the status",
            "scale",
        ),
        ("kind = \"Buoy\", label(\"a\")", "expected `label(\"key\", \"value\")`", "label(\"a\")"),
        (
            "kind = \"Buoy\", printcolumn(name = \"A\", type_ = \"string\")",
            "`printcolumn` needs `json_path = \"…\"`",
            "printcolumn",
        ),
    ];
    for (options, message, place) in refusals {
        let input = format!("#[kube(group = \"g\", version = \"v1\", {options})] struct BuoySpec;");
        assert_eq!(refused(&input), (message.to_owned(), place.to_owned()), "{options}");
    }
}

#[test]
fn a_type_that_cannot_be_a_specification_is_an_error() {
    let options = "#[kube(group = \"g\", version = \"v1\", kind = \"Buoy\", no_spec)]";
    let refusals = [
        ("union BuoySpec { a: u8 }", "a specification is a struct or an enum", "BuoySpec"),
        ("struct BuoySpec<T> { a: T }", "a specification cannot be generic: one kind has one schema", "<T>"),
        (
            "enum BuoySpec { A }",
            "`no_spec` needs a struct with named fields, which become fields of the object",
            "BuoySpec",
        ),
        (
            "struct BuoySpec { kind: String }",
            "with `no_spec` this is a field of the object, which has its own `kind`",
            "kind",
        ),
    ];
    for (item, message, place) in refusals {
        assert_eq!(refused(&format!("{options} {item}")), (message.to_owned(), place.to_owned()), "{item}");
    }
}

#[test]
fn an_error_is_expanded_to_a_compile_error() {
    let code = derive(quote!(
        struct BuoySpec;
    ))
    .to_string();
    assert!(code.contains("compile_error !"), "{code}");
}
