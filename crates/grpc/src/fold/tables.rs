//! Cases of folding slices: kube-proxy's rules and kuberesolver's bugs, one line each, and
//! properties that hold for any slices.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::slices::{Conditions, Named, ServicePort, SlicePort, TargetRef};

/// Parses an endpoint of the form `address uid state`: `+` ready, `!` not ready, `~` terminating
/// and serving, `x` terminating, `?` no condition.
fn endpoint(text: &str) -> SliceEndpoint {
    let mut words = text.split(' ');
    let address = words.next().expect("an address");
    let uid = words.next().unwrap_or("-");
    let conditions = match words.next().unwrap_or("+") {
        "+" => (Some(true), Some(true), Some(false)),
        "!" => (Some(false), Some(false), Some(false)),
        "~" => (Some(false), Some(true), Some(true)),
        "x" => (Some(false), Some(false), Some(true)),
        "published" => (Some(true), Some(false), Some(false)),
        _ => (None, None, None),
    };
    let (ready, serving, terminating) = conditions;
    let target_ref = (uid != "-").then(|| TargetRef {
        kind: "Pod".into(),
        name: format!("pod-{uid}").into(),
        uid: uid.into(),
    });
    SliceEndpoint {
        addresses: vec![address.into()],
        conditions: Conditions { ready, serving, terminating },
        target_ref,
        ..SliceEndpoint::default()
    }
}

/// Parses ports of the form `name=port`, separated by commas.
fn ports(text: &str) -> Vec<SlicePort> {
    let port = |it: &str| {
        let (name, port) = it.split_once('=').expect("name=port");
        SlicePort { name: name.into(), port: port.parse().ok(), ..SlicePort::default() }
    };
    text.split(',').filter(|it| !it.is_empty()).map(port).collect()
}

fn slice(has: &str, endpoints: &[&str]) -> Slice {
    let endpoints = endpoints.iter().map(|it| endpoint(it)).collect();
    Slice { ports: ports(has), endpoints, address_type: "IPv4".into(), ..Slice::default() }
}

fn service(has: &[(&str, u16)]) -> Service {
    let mut service = Service::default();
    let port = |(name, port): &(&str, u16)| ServicePort {
        name: (*name).into(),
        port: i64::from(*port),
        protocol: None,
    };
    service.spec.ports = has.iter().map(port).collect();
    service
}

fn fold_with(slices: &[Slice], port: &Port, known: ServiceInfo<'_>) -> EndpointSet {
    let topology = Topology::default();
    fold(slices, &FoldInput { port, service: known, topology: &topology, prefer_ipv6: false })
}

/// Formats the usable endpoints as `id=address`, with `/` between several addresses, and the others
/// with a leading `-`.
fn describe(set: &EndpointSet) -> Vec<String> {
    let one = |it: &Arc<Endpoint>| {
        let addresses: Vec<_> = it.addresses.iter().map(ToString::to_string).collect();
        let (sign, addresses) = (if it.usable { "" } else { "-" }, addresses.join("/"));
        if it.id.as_str() == addresses {
            format!("{sign}{addresses}")
        } else {
            format!("{sign}{}={addresses}", it.id)
        }
    };
    set.endpoints.iter().map(one).collect()
}

fn first(slices: &[Slice]) -> Vec<String> {
    describe(&fold_with(slices, &Port::First, ServiceInfo::Unreadable))
}

/// kuberesolver #66: each event replaced the whole set by the slice that it was about.
#[test]
fn all_slices_of_a_service_are_one_set() {
    let slices = [
        slice("=80", &["10.0.0.1 a", "10.0.0.2 b"]),
        slice("=80", &["10.0.0.3 c"]),
        slice("=80", &["10.0.0.4", "10.0.0.5"]),
    ];
    assert_eq!(
        first(&slices),
        ["10.0.0.4:80", "10.0.0.5:80", "a=10.0.0.1:80", "b=10.0.0.2:80", "c=10.0.0.3:80"]
    );
}

#[test]
fn readiness_decides_and_an_absent_condition_is_ready() {
    for (story, endpoints, expected) in [
        ("ready", &["10.0.0.1 a +"][..], &["a=10.0.0.1:80"][..]),
        ("no condition, which kuberesolver takes for not ready", &["10.0.0.1 a ?"], &["a=10.0.0.1:80"]),
        ("published although it is not ready", &["10.0.0.1 a published"], &["a=10.0.0.1:80"]),
        ("one is ready, one is not", &["10.0.0.1 a +", "10.0.0.2 b !"], &["a=10.0.0.1:80", "-b=10.0.0.2:80"]),
        ("one is terminating", &["10.0.0.1 a +", "10.0.0.2 b ~"], &["a=10.0.0.1:80", "-b=10.0.0.2:80"]),
        ("none is ready", &["10.0.0.1 a !"], &["-a=10.0.0.1:80"]),
        (
            "none is ready, and one serves while terminating",
            &["10.0.0.1 a !", "10.0.0.2 b ~", "10.0.0.3 c x"],
            &["-a=10.0.0.1:80", "b=10.0.0.2:80", "-c=10.0.0.3:80"],
        ),
    ] {
        assert_eq!(first(&[slice("=80", endpoints)]), expected, "{story}");
    }
    // An absent serving condition means serving, as the API documents, also while terminating.
    let mut going = slice("=80", &["10.0.0.1 a x"]);
    going.endpoints[0].conditions.serving = None;
    assert_eq!(first(&[going]), ["a=10.0.0.1:80"]);
    // "None is ready" means in no slice.
    let slices = [slice("=80", &["10.0.0.1 a ~"]), slice("=80", &["10.0.0.2 b +"])];
    assert_eq!(first(&slices), ["-a=10.0.0.1:80", "b=10.0.0.2:80"]);
}

#[test]
fn contradictions_are_decided_in_favour_of_the_living_pod() {
    for (story, one, other, expected) in [
        ("a moving pod is in two slices", "10.0.0.1 a +", "10.0.0.1 a +", &["a=10.0.0.1:80"][..]),
        ("the old slice is outdated", "10.0.0.1 a ~", "10.0.0.1 a +", &["a=10.0.0.1:80"]),
        ("an address that another pod has now", "10.0.0.1 a x", "10.0.0.1 b +", &["b=10.0.0.1:80"]),
        ("the new pod is not ready yet", "10.0.0.1 a ~", "10.0.0.1 b !", &["-b=10.0.0.1:80"]),
        ("neither is terminating, one is ready", "10.0.0.1 a !", "10.0.0.1 b +", &["b=10.0.0.1:80"]),
        ("both have the same conditions", "10.0.0.1 a +", "10.0.0.1 b +", &["a=10.0.0.1:80"]),
        ("the same address without a pod", "10.0.0.1 - x", "10.0.0.1 - +", &["10.0.0.1:80"]),
        (
            "a pod with two addresses of a family is two endpoints",
            "10.0.0.2 a +",
            "10.0.0.1 a +",
            &["a=10.0.0.1:80", "a/10.0.0.2:80=10.0.0.2:80"],
        ),
        (
            "a pod that got another address",
            "10.0.0.1 a x",
            "10.0.0.2 a +",
            &["-a=10.0.0.1:80", "a/10.0.0.2:80=10.0.0.2:80"],
        ),
    ] {
        let slices = [slice("=80", &[one]), slice("=80", &[other])];
        assert_eq!(first(&slices), expected, "{story}");
        assert_eq!(first(&[slice("=80", &[other, one])]), expected, "{story}, in one slice");
    }
}

/// kuberesolver and similar resolvers count such a pod twice.
#[test]
fn a_dual_stack_pod_is_one_endpoint() {
    let slices = [slice("=80", &["10.0.0.1 a", "10.0.0.2 b"]), slice("=80", &["fd00::1 a", "fd00::3 -"])];
    assert_eq!(first(&slices), ["[fd00::3]:80", "a=10.0.0.1:80/[fd00::1]:80", "b=10.0.0.2:80"]);
    let (port, topology) = (Port::First, Topology::default());
    let input =
        FoldInput { port: &port, service: ServiceInfo::Unreadable, topology: &topology, prefer_ipv6: true };
    assert_eq!(describe(&fold(&slices, &input))[1], "a=[fd00::1]:80/10.0.0.1:80");
    // The slices of two families are written one after the other.
    for (state, usable) in [("!", "-"), ("~", "-"), ("+", "")] {
        let slices =
            [slice("=80", &["10.0.0.1 a +"]), slice("=80", &[&format!("fd00::1 a {state}"), "10.0.0.9 z"])];
        assert_eq!(first(&slices)[0], format!("{usable}a=10.0.0.1:80/[fd00::1]:80"), "{state}");
    }
    // The address that now belongs to the other pod is no longer the first pod's; its other address
    // still is.
    let slices = [slice("=80", &["10.0.0.1 a x", "10.0.0.1 b +"]), slice("=80", &["fd00::1 a x"])];
    assert_eq!(first(&slices), ["-a=[fd00::1]:80", "b=10.0.0.1:80"]);
}

/// Virtual machines, mirrored clusters, mesh expansions: one object is behind many endpoints.
#[test]
fn endpoints_that_share_an_object_other_than_a_pod_are_all_present() {
    let mut machines = slice("=80", &["10.0.0.1 one", "10.0.0.2 one", "10.0.0.3 one", "10.0.0.3 one x"]);
    let mut more = slice("=80", &["fd00::1 one"]);
    for endpoint in machines.endpoints.iter_mut().chain(&mut more.endpoints) {
        endpoint.target_ref.as_mut().expect("a target").kind = "ExternalWorkload".into();
    }
    assert_eq!(first(&[machines, more]), ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "[fd00::1]:80"]);
}

/// Parses a slice as the EndpointSlice controller of Kubernetes 1.36 writes it: ports in the order
/// of their hashes, `appProtocol` copied from the Service, all conditions set, and the object
/// behind each endpoint named.
fn written(text: &str) -> Slice {
    serde_json::from_str(text).expect("a slice")
}

/// A Service with the ports `grpc` (a named target port) and `metrics`, in the middle of a rollout
/// that changes the number behind `grpc`.
fn rollout() -> [Slice; 3] {
    let pod = |address: &str, uid: &str, ready: bool, node: &str| {
        format!(
            r#"{{"addresses":["{address}"],"conditions":{{"ready":{ready},"serving":{ready},"terminating":false}},
            "nodeName":"{node}","zone":"a","targetRef":{{"kind":"Pod","namespace":"shop","name":"web-{uid}","uid":"{uid}"}}}}"#
        )
    };
    let slice = |name: &str, grpc: &str, endpoints: &[String]| {
        // 9100 sorts first by its hash, as it does for most numbers in use.
        written(&format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"shop","labels":{{"kubernetes.io/service-name":"web",
            "endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io"}}}},"addressType":"IPv4",
            "ports":[{{"name":"metrics","port":9100,"protocol":"TCP"}}{grpc}],"endpoints":[{}]}}"#,
            endpoints.join(",")
        ))
    };
    let old = [pod("10.0.0.1", "p1", true, "n1"), pod("10.0.0.2", "p2", true, "n2")];
    let new = [pod("10.0.0.3", "p3", true, "n1"), pod("10.0.0.4", "p4", false, "n2")];
    [
        slice("web-a", r#",{"name":"grpc","port":8080,"protocol":"TCP"}"#, &old),
        slice("web-b", r#",{"name":"grpc","port":50051,"protocol":"TCP"}"#, &new),
        // A pod whose containers have no such named port is in a slice without it.
        slice("web-c", "", &[pod("10.0.0.5", "p5", true, "n3")]),
    ]
}

#[test]
fn without_a_port_every_pod_is_called_at_the_first_port_of_the_service() {
    let slices = rollout();
    let with = |ports: &[(&str, u16)]| {
        describe(&fold_with(&slices, &Port::First, ServiceInfo::Found(&service(ports))))
    };
    let grpc = ["p1=10.0.0.1:8080", "p2=10.0.0.2:8080", "p3=10.0.0.3:50051", "-p4=10.0.0.4:50051"];
    assert_eq!(with(&[("grpc", 80), ("metrics", 9100)]), grpc);
    let all = ["p1=", "p2=", "p3=", "-p4=", "p5="];
    let all: Vec<_> = (1..).zip(all).map(|(number, it)| format!("{it}10.0.0.{number}:9100")).collect();
    assert_eq!(with(&[("metrics", 9100), ("grpc", 80)]), all);
    for known in [ServiceInfo::Unreadable, ServiceInfo::Missing] {
        assert_eq!(describe(&fold_with(&slices, &Port::First, known)), grpc, "the port named grpc");
    }
}

#[test]
fn an_ambiguous_first_port_is_not_guessed() {
    let declared = |has: &[(&str, Option<&str>)]| {
        let mut it = slice("", &["10.0.0.1 a"]);
        for (at, (name, protocol)) in has.iter().enumerate() {
            let (name, port) = ((*name).into(), Some(8080 + at as i64));
            let app_protocol = protocol.map(Into::into);
            it.ports.push(SlicePort { name, port, app_protocol, ..SlicePort::default() });
        }
        it
    };
    for (story, slices, expected) in [
        ("declared", vec![declared(&[("metrics", None), ("api", Some("grpc"))])], Ok("a=10.0.0.1:8081")),
        (
            "several are declared, and one is named grpc",
            vec![declared(&[("admin", Some("grpc")), ("grpc", Some("grpc")), ("metrics", None)])],
            Ok("a=10.0.0.1:8081"),
        ),
        (
            "several are declared",
            vec![declared(&[("admin", Some("grpc")), ("api", Some("grpc"))])],
            Err(&["admin", "api"][..]),
        ),
        ("named grpc", vec![slice("metrics=9100,grpc=8080", &["10.0.0.1 a"])], Ok("a=10.0.0.1:8080")),
        ("the only one", vec![slice("api=8080", &["10.0.0.1 a"])], Ok("a=10.0.0.1:8080")),
        ("neither", vec![slice("api=8080,metrics=9100", &["10.0.0.1 a"])], Err(&["api", "metrics"])),
        (
            "one port each, with different names",
            vec![slice("api=8080", &["10.0.0.1 a"]), slice("metrics=9100", &["10.0.0.2 b"])],
            Err(&["api", "metrics"]),
        ),
    ] {
        let set = fold_with(&slices, &Port::First, ServiceInfo::Unreadable);
        match expected {
            Ok(expected) => assert_eq!(describe(&set), [expected], "{story}"),
            Err(names) => {
                let names = names.iter().map(|it| (*it).to_owned()).collect();
                assert_eq!(set.unavailable, Some(Unavailable::AmbiguousPort(names)), "{story}");
            }
        }
    }
}

#[test]
fn an_invalid_port_is_not_a_port_of_the_service() {
    assert_eq!(first(&[slice("=80,bad=70000,worse=-1,zero=0", &["10.0.0.1 a"])]), ["a=10.0.0.1:80"]);
    let bad = fold_with(
        &[slice("grpc=70000", &["10.0.0.1 a"])],
        &Port::Name("grpc".into()),
        ServiceInfo::Unreadable,
    );
    assert_eq!(bad.unavailable, Some(Unavailable::NoSuchPort("grpc".to_owned())));
}

/// kube-proxy's rule for local traffic: no fallback to other nodes, and hints are ignored.
#[test]
fn a_service_with_local_traffic_policy_has_only_the_endpoints_of_the_node() {
    let mut slices = rollout();
    let mut local = service(&[("grpc", 80), ("metrics", 9100)]);
    local.spec.internal_traffic_policy = Some("Local".into());
    let called = |slices: &[Slice], node: &str| {
        let (port, topology) = (Port::First, Topology::hints().node(node));
        let input = FoldInput {
            port: &port,
            service: ServiceInfo::Found(&local),
            topology: &topology,
            prefer_ipv6: false,
        };
        let set = fold(slices, &input);
        let usable: Vec<_> = set.usable().map(|it| it.addresses[0].to_string()).collect();
        (usable.join(" "), set.unavailable)
    };
    assert_eq!(called(&slices, "n1").0, "10.0.0.1:8080 10.0.0.3:50051");
    assert_eq!(called(&slices, "n2").0, "10.0.0.2:8080");
    assert_eq!(called(&slices, "").0, "10.0.0.1:8080 10.0.0.2:8080 10.0.0.3:50051", "the node is not known");
    let nowhere = (String::new(), Some(Unavailable::NotOnNode("n9".to_owned())));
    assert_eq!(called(&slices, "n9"), nowhere);
    // The last endpoint of the node is terminating, while others are ready elsewhere.
    let terminating = Conditions { ready: Some(false), serving: Some(true), terminating: Some(true) };
    slices[0].endpoints[1].conditions = terminating;
    assert_eq!(called(&slices, "n2").0, "10.0.0.2:8080");
}

#[test]
fn ports_are_found_by_name_by_number_and_as_the_first() {
    let (a, b) = (&["10.0.0.1 a"][..], &["10.0.0.2 b"][..]);
    let usual = service(&[("grpc", 80), ("metrics", 9100)]);
    let unnamed = service(&[("", 80)]);
    let portless = service(&[]);
    let udp = {
        let mut it = service(&[("dns", 53), ("dns-tcp", 53)]);
        it.spec.ports[0].protocol = Some("UDP".into());
        it
    };
    let name = |it: &str| Port::Name(it.into());
    use Port::{First, Number, PodNumber};
    use ServiceInfo::{Found, Missing, Unreadable};
    for (story, port, known, has, expected) in [
        ("the first", First, Found(&usual), ["metrics=9100,grpc=8080", ""], &["a=10.0.0.1:8080"][..]),
        ("the first that has a number", First, Unreadable, ["all=,grpc=8080", ""], &["a=10.0.0.1:8080"]),
        (
            "a name",
            name("metrics"),
            Unreadable,
            ["grpc=8080,metrics=9100", "metrics=9101"],
            &["a=10.0.0.1:9100", "b=10.0.0.2:9101"],
        ),
        (
            "a name that is missing in one slice",
            name("grpc"),
            Unreadable,
            ["grpc=8080", "metrics=9100"],
            &["a=10.0.0.1:8080"],
        ),
        (
            "another port per slice",
            First,
            Unreadable,
            ["grpc=8080", "grpc=9090"],
            &["a=10.0.0.1:8080", "b=10.0.0.2:9090"],
        ),
        (
            "a number, and no Service to read",
            Number(80),
            Unreadable,
            ["grpc=8080", ""],
            &["a=10.0.0.1:80", "b=10.0.0.2:80"],
        ),
        (
            "a number, and no Service",
            Number(80),
            Missing,
            ["grpc=8080", ""],
            &["a=10.0.0.1:80", "b=10.0.0.2:80"],
        ),
        (
            "a number of the Service",
            Number(80),
            Found(&usual),
            ["grpc=8080", "grpc=9090,metrics=9100"],
            &["a=10.0.0.1:8080", "b=10.0.0.2:9090"],
        ),
        (
            "a number of the Service that has one port",
            Number(80),
            Found(&unnamed),
            ["=8080", ""],
            &["a=10.0.0.1:8080"],
        ),
        (
            "a number of the Service, where slices leave it open",
            Number(80),
            Found(&usual),
            ["grpc=", ""],
            &["a=10.0.0.1:80"],
        ),
        (
            "a number of the pods",
            Number(8080),
            Found(&usual),
            ["grpc=8080", "grpc=9090"],
            &["a=10.0.0.1:8080"],
        ),
        ("a number that neither has", Number(7), Found(&usual), ["grpc=8080", ""], &[]),
        ("a Service without ports", Number(7), Found(&portless), ["", ""], &["a=10.0.0.1:7", "b=10.0.0.2:7"]),
        ("only TCP counts", Number(53), Found(&udp), ["dns=1053,dns-tcp=2053", ""], &["a=10.0.0.1:2053"]),
        (
            "the pods' port, whatever the Service says",
            PodNumber(80),
            Found(&usual),
            ["grpc=8080", ""],
            &["a=10.0.0.1:80", "b=10.0.0.2:80"],
        ),
    ] {
        let slices = [slice(has[0], a), slice(has[1], b)];
        assert_eq!(describe(&fold_with(&slices, &port, known)), expected, "{story}");
    }
    let mut over_udp = slice("dns=53,grpc=8080", a);
    over_udp.ports[0].protocol = Some("UDP".into());
    assert_eq!(first(&[over_udp]), ["a=10.0.0.1:8080"]);
}

#[test]
fn every_empty_set_has_a_reason() {
    let name = |it: &str| Port::Name(it.into());
    let usual = service(&[("grpc", 80)]);
    let other = {
        let mut it = Service::default();
        it.spec.external_name = Some("db.example.com".into());
        it
    };
    let hosts = Slice { address_type: "FQDN".into(), ..slice("=80", &["db.example.com"]) };
    // The slice that the controller leaves when a service is scaled to zero; kuberesolver panics on
    // it.
    let placeholder = || slice("", &[]);
    use ServiceInfo::{Found, Missing, Unreadable};
    for (slices, port, known, expected) in [
        (vec![], Port::First, Unreadable, Unavailable::NoEndpoints),
        (vec![], Port::First, Missing, Unavailable::ServiceNotFound),
        (vec![], Port::First, Found(&usual), Unavailable::NoEndpoints),
        (vec![], Port::First, Found(&other), Unavailable::ExternalName("db.example.com".to_owned())),
        (vec![], name("http"), Found(&usual), Unavailable::NoSuchPort("http".to_owned())),
        (vec![], name("grpc"), Found(&usual), Unavailable::NoEndpoints),
        (vec![], Port::Number(7), Found(&usual), Unavailable::NoSuchPort("7".to_owned())),
        (vec![placeholder()], Port::First, Unreadable, Unavailable::NoEndpoints),
        (vec![placeholder()], Port::First, Missing, Unavailable::NoEndpoints),
        (vec![placeholder()], name("grpc"), Unreadable, Unavailable::NoEndpoints),
        (
            vec![slice("grpc=80", &["10.0.0.1 a"])],
            name("http"),
            Unreadable,
            Unavailable::NoSuchPort("http".to_owned()),
        ),
        (vec![slice("", &["10.0.0.1 a"])], Port::First, Unreadable, Unavailable::NoSuchPort(String::new())),
        (
            vec![slice("=80", &["10.0.0.1 a !", "10.0.0.2 b x"])],
            Port::First,
            Unreadable,
            Unavailable::NothingReady(2),
        ),
        (vec![hosts], Port::First, Unreadable, Unavailable::NotAddresses(1)),
        // Link-local and zone-scoped addresses cannot be called from elsewhere, and no Service has
        // them.
        (
            vec![slice("=80", &["fe80::1%eth0 a", "web b"])],
            Port::First,
            Unreadable,
            Unavailable::NotAddresses(2),
        ),
    ] {
        let set = fold_with(&slices, &port, known);
        assert_eq!(set.unavailable, Some(expected), "{slices:?} {port:?}");
        assert!(set.usable().next().is_none());
    }
    assert_eq!(fold_with(&[slice("=80", &["10.0.0.1 a"])], &Port::First, Missing).unavailable, None);
}

#[test]
fn an_invalid_address_is_left_out() {
    let mut slice = slice("=80", &["10.0.0.1 a", "nonsense b", "10.0.0.3 c"]);
    slice.endpoints[2].addresses.clear();
    // Only the first address is used.
    slice.endpoints[0].addresses.push("10.9.9.9".into());
    assert_eq!(first(&[slice]), ["a=10.0.0.1:80"]);
}

#[test]
fn endpoints_excluded_by_hints_stay_in_the_set_but_are_not_usable() {
    let mut slice = slice("=80", &["10.0.0.1 a", "10.0.0.2 b", "10.0.0.3 c !"]);
    for (endpoint, zone) in slice.endpoints.iter_mut().zip(["x", "y", ""]) {
        let zones = if zone.is_empty() { Vec::new() } else { vec![Named { name: zone.into() }] };
        endpoint.hints = Some(Hints { for_zones: zones, for_nodes: Vec::new() });
        endpoint.zone = Some(zone.into());
    }
    let (port, topology) = (Port::First, Topology::hints().zone("y"));
    let input =
        FoldInput { port: &port, service: ServiceInfo::Unreadable, topology: &topology, prefer_ipv6: false };
    let set = fold(&[slice.clone()], &input);
    assert_eq!(describe(&set), ["-a=10.0.0.1:80", "b=10.0.0.2:80", "-c=10.0.0.3:80"]);
    assert_eq!(set.endpoints[1].zone.as_deref(), Some("y"));
    assert_eq!(set.endpoints[2].zone, None, "an empty zone is no zone");
    // When the endpoint in the zone is no longer ready, all others are used.
    slice.endpoints[1].conditions.ready = Some(false);
    assert_eq!(describe(&fold(&[slice], &input)), ["a=10.0.0.1:80", "-b=10.0.0.2:80", "-c=10.0.0.3:80"]);
}

fn any_endpoint() -> impl Strategy<Value = SliceEndpoint> {
    // Few addresses and pods, so that they collide.
    let address = prop_oneof![
        (1u8..5).prop_map(|it| format!("10.0.0.{it}")),
        (1u8..4).prop_map(|it| format!("fd00::{it}"))
    ];
    let uid = prop_oneof!["[abc]", Just("-".to_owned())];
    let state = prop_oneof![Just("+"), Just("!"), Just("~"), Just("x"), Just("?")];
    (address, uid, state).prop_map(|(address, uid, state)| endpoint(&format!("{address} {uid} {state}")))
}

fn any_slices() -> impl Strategy<Value = Vec<Slice>> {
    let has = prop_oneof![Just("grpc=80,metrics=90"), Just("grpc=81"), Just("metrics=90"), Just("")];
    let slice = (has, proptest::collection::vec(any_endpoint(), 0..4))
        .prop_map(|(has, endpoints)| Slice { endpoints, ..slice(has, &[]) });
    proptest::collection::vec(slice, 0..5)
}

fn any_port() -> impl Strategy<Value = Port> {
    prop_oneof![
        Just(Port::First),
        Just(Port::Number(80)),
        Just(Port::PodNumber(80)),
        Just(Port::Name("grpc".into()))
    ]
}

proptest! {
    #[test]
    fn the_order_of_slices_does_not_matter(
        slices in any_slices(),
        port in any_port(),
        shuffled in proptest::collection::vec(any::<Index>(), 8),
    ) {
        let mut other = slices.clone();
        for at in shuffled {
            if !other.is_empty() {
                let moved = other.remove(at.index(other.len()));
                other.push(moved);
                if let Some(slice) = other.first_mut() {
                    slice.endpoints.reverse();
                }
            }
        }
        prop_assert_eq!(fold_with(&slices, &port, ServiceInfo::Unreadable), fold_with(&other, &port, ServiceInfo::Unreadable));
    }

    #[test]
    fn the_slice_of_a_pod_does_not_matter(
        endpoints in proptest::collection::vec(any_endpoint(), 1..8),
        places in proptest::collection::vec(0usize..3, 8),
        others in proptest::collection::vec(0usize..3, 8),
        port in any_port(),
    ) {
        let spread = |places: &[usize]| {
            let mut slices = vec![slice("grpc=80", &[]); 3];
            for (endpoint, place) in endpoints.iter().zip(places) {
                slices[*place].endpoints.push(endpoint.clone());
            }
            fold_with(&slices, &port, ServiceInfo::Unreadable)
        };
        prop_assert_eq!(spread(&places), spread(&others));
    }

    /// Calls without a port never go to ports with different names, whatever the order of the
    /// ports.
    #[test]
    fn the_order_of_ports_does_not_matter(slices in any_slices(), known in any::<bool>()) {
        let mut other = slices.clone();
        other.iter_mut().for_each(|it| it.ports.reverse());
        let service = service(&[("grpc", 1), ("metrics", 2)]);
        let known = if known { ServiceInfo::Found(&service) } else { ServiceInfo::Unreadable };
        let set = fold_with(&slices, &Port::First, known);
        prop_assert_eq!(&set, &fold_with(&other, &Port::First, known));
        let names = |port: u16| -> BTreeSet<&str> {
            let ports = slices.iter().flat_map(|it| &it.ports).filter(|it| it.number() == Some(port));
            ports.map(|it| it.name.as_str()).collect()
        };
        let called: BTreeSet<&str> =
            set.endpoints.iter().flat_map(|it| &it.addresses).flat_map(|it| names(it.port())).collect();
        prop_assert!(called.len() <= 1, "{:?}", called);
    }

    /// No endpoint is lost: every address of a slice that has the port is in the set, once.
    #[test]
    fn every_address_is_in_the_set_once(endpoints in proptest::collection::vec(any_endpoint(), 0..8)) {
        let all: BTreeSet<String> = endpoints.iter().map(|it| it.addresses[0].to_string()).collect();
        let slices = [Slice { endpoints, ..slice("grpc=80", &[]) }];
        let set = fold_with(&slices, &Port::First, ServiceInfo::Unreadable);
        let mut found: Vec<_> =
            set.endpoints.iter().flat_map(|it| &it.addresses).map(|it| it.ip().to_string()).collect();
        found.sort_unstable();
        prop_assert_eq!(found, all.into_iter().collect::<Vec<_>>());
        let joined = set.endpoints.iter().all(|it| match &it.addresses[..] {
            [_] => true,
            [one, other] => one.is_ipv4() != other.is_ipv4(),
            _ => false,
        });
        prop_assert!(joined, "at most one address of each family");
    }

    #[test]
    fn every_set_is_ordered_and_explains_its_emptiness(slices in any_slices(), port in any_port()) {
        let set = fold_with(&slices, &port, ServiceInfo::Unreadable);
        prop_assert!(set.endpoints.is_sorted_by(|one, other| one.id < other.id), "ids are ordered and unique");
        let mut addresses: Vec<_> = set.endpoints.iter().flat_map(|it| it.addresses.clone()).collect();
        let count = addresses.len();
        addresses.sort_unstable();
        addresses.dedup();
        prop_assert_eq!(addresses.len(), count, "addresses are unique");
        prop_assert!(set.endpoints.iter().all(|it| !it.addresses.is_empty() && it.weight > 0));
        prop_assert_eq!(set.unavailable.is_none(), set.usable().next().is_some());
        let ready = set.endpoints.iter().any(|it| it.ready);
        prop_assert!(set.usable().all(|it| it.ready == ready && (ready || (it.serving && it.terminating))));
    }
}
