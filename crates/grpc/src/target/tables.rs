//! Every spelling of a target, and every mistake, one line each.

use proptest::prelude::*;

use super::*;

/// Formats a target as `service namespace port`, with `-` for absent parts, and a pod port number
/// as `pod/80`.
fn describe(target: &Target) -> String {
    let port = match target.port() {
        Port::First => "-".to_owned(),
        Port::PodNumber(number) => format!("pod/{number}"),
        port => port.to_string(),
    };
    format!("{} {} {port}", target.service(), target.namespace().unwrap_or("-"))
}

fn read(text: &str) -> String {
    text.parse::<Target>().map_or_else(|error| format!("! {}", error.problem()), |it| describe(&it))
}

/// The cases of kuberesolver's TestParseResolverTarget and TestParseTargets, in their order.
#[test]
fn every_case_of_kuberesolver_is_parsed_as_kuberesolver_parses_it() {
    for (text, expected) in [
        ("a", "a - -"),
        ("/a", "a - -"),
        ("//a/b", "b a -"),
        ("a.b", "a b -"),
        ("/a.b", "a b -"),
        ("/a.b:80", "a b 80"),
        ("/a.b:port", "a b port"),
        ("//a/b:port", "b a port"),
        ("//a/b:port", "b a port"),
        ("//a/b:80", "b a 80"),
        ("a.b.svc.cluster.local", "a b -"),
        ("/a.b.svc.cluster.local:80", "a b 80"),
        ("/a.b.svc.cluster.local:port", "a b port"),
        ("//a.b.svc.cluster.local", "a b -"),
        ("//a.b.svc.cluster.local:80", "a b 80"),
        ("kubernetes://a:30", "a - 30"),
        ("kubernetes://a/", "a - -"),
        ("kubernetes:///a", "a - -"),
        ("kubernetes://a/b", "b a -"),
        ("kubernetes://a.b/", "a b -"),
        ("kubernetes:///a.b:80", "a b 80"),
        ("kubernetes:///a.b:port", "a b port"),
        ("kubernetes:///a:port", "a - port"),
        ("kubernetes://x/a:port", "a x port"),
        ("kubernetes://a.x:30/", "a x 30"),
        ("kubernetes://a.b.svc.cluster.local", "a b -"),
        ("kubernetes://a.b.svc.cluster.local:80", "a b 80"),
        ("kubernetes:///a.b.svc.cluster.local", "a b -"),
        ("kubernetes:///a.b.svc.cluster.local:80", "a b 80"),
        ("kubernetes:///a.b.svc.cluster.local:port", "a b port"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    for text in ["/", "", "kubernetes:///"] {
        assert!(read(text).starts_with("! it names no service"), "{text}: {}", read(text));
    }
}

/// The documented forms, and the corner cases in which kuberesolver is lenient by accident.
#[test]
fn every_other_form_is_parsed() {
    for (text, expected) in [
        ("kubernetes:///service:8080", "service - 8080"),
        ("kubernetes:///service:portname", "service - portname"),
        ("kubernetes:///service.namespace:8080", "service namespace 8080"),
        ("kubernetes://namespace/service:8080", "service namespace 8080"),
        ("kubernetes://service:8080/", "service - 8080"),
        ("kubernetes://service.namespace:8080/", "service namespace 8080"),
        ("kubernetes:svc.ns:80", "svc ns 80"),
        ("kubernetes:/svc.ns:80", "svc ns 80"),
        ("KUBERNETES:///svc", "svc - -"),
        ("svc:80", "svc - 80"),
        ("svc.ns:grpc", "svc ns grpc"),
        ("kubernetes:///svc:", "svc - -"),
        ("kubernetes://svc:/", "svc - -"),
        ("kubernetes:///svc.:80", "svc - 80"),
        ("kubernetes:///svc.ns.:80", "svc ns 80"),
        ("kubernetes:///svc.ns.svc:80", "svc ns 80"),
        ("kubernetes:///svc.ns.svc.cluster.local.:80", "svc ns 80"),
        ("kubernetes://ns/svc.ns:80", "svc ns 80"),
        ("kubernetes:///svc:080", "svc - 80"),
        ("kubernetes:///svc:65535", "svc - 65535"),
        ("kubernetes:///svc:80?port=pod", "svc - pod/80"),
        ("kubernetes://svc.ns:80/?port=pod", "svc ns pod/80"),
        ("kubernetes:///svc:80?port=service", "svc - 80"),
        ("kubernetes:///svc:80?port=pod&port=service", "svc - 80"),
        ("kubernetes:///svc?", "svc - -"),
        ("kubernetes:///svc?port=service", "svc - -"),
        ("kubernetes:///1-svc:80-tls", "1-svc - 80-tls"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn mistakes_that_kuberesolver_ignores_are_reported() {
    for (text, expected) in [
        ("kubernetes:///.ns:80", "it names no service"),
        ("kubernetes://", "it names no service"),
        ("kubernetes:", "it names no service"),
        ("kubernetes://ns/:80", "it names no service"),
        ("kubernetes:///:80", "it names no service"),
        ("dns:///svc", "the scheme \"dns\" is not one of kubernetes"),
        ("://svc", "the scheme \"\" is not one of kubernetes"),
        (
            "kubernetes://svc:grpc/",
            "the port name \"grpc\" needs three slashes: write kubernetes:///svc:grpc",
        ),
        ("kubernetes://svc:grpc", "the port name"),
        ("kubernetes://a.b/c:80", "\"a.b\" cannot be the name of a namespace"),
        ("kubernetes://ns/svc.other:80", "it names two namespaces, \"ns\" and \"other\""),
        ("kubernetes://ns:80/svc", "a path after a port would be ignored"),
        ("kubernetes://ns:/svc", "a path after a port would be ignored"),
        ("kubernetes:///ns/svc", "the path \"ns/svc\" has more than one segment"),
        ("kubernetes://ns/svc:80/", "the path \"svc:80/\" has more than one segment"),
        ("kubernetes:////svc", "the path \"/svc\" has more than one segment"),
        ("kubernetes:///svc:0", "0 is not a port"),
        ("kubernetes:///svc:-1", "-1 is not a port"),
        ("kubernetes:///svc:+80", "+80 is not a port"),
        ("kubernetes:///svc:99999", "99999 is not a port"),
        ("kubernetes:///svc:65536", "65536 is not a port"),
        ("kubernetes://svc:99999/", "99999 is not a port"),
        ("kubernetes:///svc:80:90", "\"svc:80\" cannot be the name of a service"),
        ("kubernetes:///Svc", "\"Svc\" cannot be the name of a service"),
        ("kubernetes:///svc_a", "\"svc_a\" cannot be the name of a service"),
        ("kubernetes:///-svc", "\"-svc\" cannot be the name of a service"),
        ("kubernetes:///svc.Ns", "\"Ns\" cannot be the name of a namespace"),
        ("kubernetes:///svc:Grpc", "\"Grpc\" cannot be the name of a port"),
        ("kubernetes:///svc.ns.example.com", "service and namespace must be followed by svc"),
        ("kubernetes:///svc.ns.svcx.local", "service and namespace must be followed by svc"),
        ("kubernetes:///svc?port=node", "the option \"port=node\" is unknown"),
        ("kubernetes:///svc:80?timeout=1", "the option \"timeout=1\" is unknown"),
        ("kubernetes:///svc?port=pod", "port=pod needs a port number"),
        ("kubernetes:///svc:grpc?port=pod", "port=pod needs a port number"),
        ("kubernetes:///svc%20", "the character '%' is not allowed"),
        ("kubernetes://user@svc/", "the character '@' is not allowed"),
        ("kubernetes://[::1]:80/", "the character '[' is not allowed"),
        ("kubernetes:///svc#a", "the character '#' is not allowed"),
        (" svc", "the character ' ' is not allowed"),
    ] {
        let problem = match text.parse::<Target>() {
            Err(error) => error.to_string(),
            Ok(target) => panic!("{text} was read as {target}"),
        };
        assert!(problem.starts_with(&format!("{text:?} is not a target: {expected}")), "{text}: {problem}");
    }
    let long = "a".repeat(LONGEST_NAME + 1);
    assert!(read(&long).starts_with("! ") && !read(&long[1..]).starts_with("! "));
}

#[test]
fn an_alias_is_a_scheme_like_kubernetes() {
    let schemes = Schemes::default().alias("K8s");
    let target = schemes.parse("k8s://shop/greeter:grpc").expect("a target");
    assert_eq!((target.scheme(), describe(&target).as_str()), ("k8s", "greeter shop grpc"));
    assert_eq!(target.to_string(), "k8s://shop/greeter:grpc");
    assert_eq!(schemes.parse(&target.to_string()), Ok(target));
    let error = schemes.parse("xds:///a").expect_err("unknown").to_string();
    assert_eq!(error, "\"xds:///a\" is not a target: the scheme \"xds\" is not one of kubernetes, k8s");
    assert!("k8s:///a".parse::<Target>().is_err());
}

#[test]
fn the_callers_namespace_is_used_if_the_target_has_none() {
    let target = |text: &str| text.parse::<Target>().expect("a target");
    assert_eq!(describe(&target("svc:80").or_namespace("shop\n")), "svc shop 80");
    assert_eq!(describe(&target("svc.ns:80").or_namespace("shop")), "svc ns 80");
    assert_eq!(describe(&target("svc:80").or_namespace("\n")), "svc - 80");
    assert_eq!(target("svc:80").or_namespace("shop").authority(), "svc.shop");
    assert_eq!(target("svc").authority(), "svc");
}

#[test]
fn the_label_of_the_gauges_is_kuberesolvers() {
    for (text, expected) in [
        ("kubernetes:///svc.ns", "kubernetes://ns/svc:"),
        ("kubernetes:///svc.ns:80?port=pod", "kubernetes://ns/svc:80"),
        ("kubernetes:///svc.ns:grpc", "kubernetes://ns/svc:grpc"),
    ] {
        assert_eq!(text.parse::<Target>().expect("a target").label(), expected);
    }
}

fn a_name() -> impl Strategy<Value = String> {
    "[a-z]([a-z0-9-]{0,20}[a-z0-9])?"
}

fn a_target() -> impl Strategy<Value = Target> {
    let port = prop_oneof![
        Just(Port::First),
        (1u16..).prop_map(Port::Number),
        (1u16..).prop_map(Port::PodNumber),
        a_name().prop_map(|it| Port::Name(it.into())),
    ];
    (a_name(), proptest::option::of(a_name()), port).prop_map(|(service, namespace, port)| Target {
        scheme: KUBERNETES.into(),
        service: service.into(),
        namespace: namespace.map(Into::into),
        port,
    })
}

proptest! {
    #[test]
    fn a_formatted_target_parses_back_to_the_same(target in a_target()) {
        prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
    }

    #[test]
    fn any_text_is_parsed_or_rejected_without_a_panic(text in "[a-zA-Z0-9:/.?=&%@ -]{0,30}") {
        if let Ok(target) = text.parse::<Target>() {
            prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
        }
    }
}
