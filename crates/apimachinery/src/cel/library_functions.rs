//! The functions of Kubernetes' libraries for URLs, networks, quantities, versions and formats
//! (k8s.io/apiserver v0.36.4 pkg/cel/library), and those of optional values.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::EvaluationError;
use super::meter::Meter;
use super::named_formats;
use super::networks::{self, Cidr};
use super::semver::Version;
use super::urls::Url;
use super::value::{Key, Library, LibraryValue, Text, Value};
use crate::kinds::quantity::Quantity;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Calls a function; `None` if there is none for these arguments.
pub(crate) fn call<'a>(function: &str, args: &[Value<'a>], meter: &Meter) -> Option<Outcome<'a>> {
    match args.first() {
        Some(Value::String(text)) => of_text(function, text, args.get(1), meter),
        Some(Value::Library(it)) => of_library(function, &it.0, args.get(1), meter),
        Some(Value::Optional(it)) if function != "optional.of" => of_optional(function, it.as_ref(), args),
        _ => None,
    }
    .or_else(|| made_optional(function, args))
    .or_else(|| {
        let name = function.strip_prefix("format.").filter(|_| args.is_empty())?;
        named_formats::named(name).map(|it| Ok(library(Library::Format(it))))
    })
}

fn library<'a>(value: Library) -> Value<'a> {
    Value::Library(LibraryValue(value))
}

fn of_text<'a>(function: &str, text: &str, more: Option<&Value<'a>>, meter: &Meter) -> Option<Outcome<'a>> {
    if let Err(error) = meter.work(text.len() as u64) {
        return Some(Err(error));
    }
    let tolerant = match more {
        None => false,
        Some(Value::Bool(it)) => *it,
        Some(_) => return None,
    };
    let failed = |message: String| Err(EvaluationError::failed(message));
    // The parts of the value. Each identifier of a version is a text of its own.
    let made = match function {
        "url" => text.len().saturating_mul(2),
        "semver" | "isSemver" => {
            text.matches(['.', '-', '+']).count().saturating_mul(64).saturating_add(text.len())
        }
        _ => 0,
    };
    if let Err(error) = meter.allocate(made) {
        return Some(Err(error));
    }
    Some(match function {
        "url" => match Url::parse(text) {
            Some(url) => Ok(library(Library::Url(Arc::new(url)))),
            None => failed(format!(
                "URL parse error during conversion from string: parse {text:?}: invalid URI for request"
            )),
        },
        "jsonpatch.escapeKey" => Ok(Value::text(text.replace('~', "~0").replace('/', "~1"))),
        "isURL" => Ok(Value::Bool(Url::parse(text).is_some())),
        "ip" => networks::parse_ip(text).map(|it| library(Library::Ip(it))).or_else(failed),
        "isIP" => Ok(Value::Bool(networks::parse_ip(text).is_ok())),
        "ip.isCanonical" => {
            networks::parse_ip(text).map(|it| Value::Bool(it.to_string() == text)).or_else(failed)
        }
        "cidr" => networks::parse_cidr(text).map(|it| library(Library::Cidr(it))).or_else(failed),
        "isCIDR" => Ok(Value::Bool(networks::parse_cidr(text).is_ok())),
        "quantity" => match Quantity::parse(text) {
            Some(quantity) => Ok(library(Library::Quantity(quantity))),
            None => failed(
                "quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                    .to_owned(),
            ),
        },
        "isQuantity" => Ok(Value::Bool(Quantity::parse(text).is_some())),
        "semver" => match Version::parse(text, tolerant) {
            Ok(version) => Ok(library(Library::Semver(Arc::new(version)))),
            Err(why) => failed(why),
        },
        "isSemver" => Ok(Value::Bool(Version::parse(text, tolerant).is_ok())),
        "format.named" => {
            let format = named_formats::named(text).map(|it| Arc::new(library(Library::Format(it))));
            Ok(Value::Optional(format))
        }
        _ => return None,
    })
}

fn of_library<'a>(
    function: &str,
    value: &Library,
    more: Option<&Value<'a>>,
    meter: &Meter,
) -> Option<Outcome<'a>> {
    let read = match (value, more) {
        (Library::Url(url), _) => url.text.len(),
        (Library::Semver(one), Some(Value::Library(_))) => one.size(),
        (_, Some(Value::String(text))) => text.len(),
        _ => 0,
    };
    // A parameter takes more memory than its text.
    let made = if function == "getQuery" { read.saturating_mul(64) } else { read };
    if let Err(error) = meter.work(read as u64).and_then(|()| meter.allocate(made)) {
        return Some(Err(error));
    }
    Some(match (value, more) {
        (Library::Url(url), None) => Ok(match function {
            "getScheme" => Value::text(url.scheme.as_str()),
            "getHost" => Value::text(url.host.as_str()),
            "getHostname" => Value::text(url.hostname()),
            "getPort" => Value::text(url.port()),
            "getEscapedPath" => Value::text(url.path.as_str()),
            "getQuery" => query(url),
            _ => return None,
        }),
        (Library::Ip(ip), None) => Ok(match function {
            "family" => Value::Int(if ip.is_ipv4() { 4 } else { 6 }),
            name if name.starts_with("is") => Value::Bool(networks::is(*ip, name)),
            _ => return None,
        }),
        (Library::Cidr(cidr), None) => Ok(match function {
            "ip" => library(Library::Ip(cidr.address)),
            "prefixLength" => Value::Int(i64::from(cidr.prefix)),
            "masked" => library(Library::Cidr(cidr.masked())),
            _ => return None,
        }),
        (Library::Cidr(cidr), Some(other)) => of_network(function, *cidr, other)?,
        (Library::Quantity(quantity), more) => of_quantity(function, *quantity, more)?,
        (Library::Semver(version), None) => Ok(Value::Int(
            i64::try_from(match function {
                "major" => version.major,
                "minor" => version.minor,
                "patch" => version.patch,
                _ => return None,
            })
            .unwrap_or(i64::MAX),
        )),
        (Library::Semver(one), Some(Value::Library(LibraryValue(Library::Semver(two))))) => {
            let order = one.precedence(two);
            Ok(match function {
                "isGreaterThan" => Value::Bool(order.is_gt()),
                "isLessThan" => Value::Bool(order.is_lt()),
                "compareTo" => Value::Int(order as i64),
                _ => return None,
            })
        }
        (Library::Format(name), Some(Value::String(text))) if function == "validate" => {
            let problems = named_formats::problems(name, text);
            let list = || Arc::new(Value::list(problems.iter().map(|it| Value::text(it.as_str())).collect()));
            Ok(Value::Optional((!problems.is_empty()).then(list)))
        }
        _ => return None,
    })
}

fn query<'a>(url: &Url) -> Value<'a> {
    let entries = url.parameters().into_iter().map(|(name, values)| {
        let values = values.into_iter().map(Value::text).collect();
        (Key::String(Text::Shared(name.into())), Value::list(values))
    });
    Value::Map(Arc::new(entries.collect::<BTreeMap<_, _>>()))
}

fn of_network<'a>(function: &str, cidr: Cidr, other: &Value<'a>) -> Option<Outcome<'a>> {
    let failed = |message: String| Err(EvaluationError::failed(message));
    let is_within = match (function, other) {
        ("containsIP", Value::Library(LibraryValue(Library::Ip(ip)))) => Ok(cidr.contains(*ip)),
        ("containsIP", Value::String(text)) => networks::parse_ip(text).map(|it| cidr.contains(it)),
        ("containsCIDR", Value::Library(LibraryValue(Library::Cidr(it)))) => Ok(cidr.contains_network(*it)),
        ("containsCIDR", Value::String(text)) => {
            networks::parse_cidr(text).map(|it| cidr.contains_network(it))
        }
        _ => return None,
    };
    Some(is_within.map(Value::Bool).or_else(failed))
}

fn of_quantity<'a>(function: &str, quantity: Quantity, more: Option<&Value<'a>>) -> Option<Outcome<'a>> {
    let other = match more {
        None => {
            return Some(match function {
                "sign" => Ok(Value::Int(quantity.order(Quantity::count(0)) as i64)),
                "isInteger" => Ok(Value::Bool(quantity.as_integer().is_some())),
                "asInteger" => quantity
                    .as_integer()
                    .map(Value::Int)
                    .ok_or_else(|| EvaluationError::failed("cannot convert value to integer")),
                "asApproximateFloat" => Ok(Value::Double(quantity.as_float())),
                _ => return None,
            });
        }
        Some(Value::Library(LibraryValue(Library::Quantity(other)))) => *other,
        Some(Value::Int(int)) if matches!(function, "add" | "sub") => Quantity::parse(&int.to_string())?,
        Some(_) => return None,
    };
    Some(Ok(match function {
        "isGreaterThan" => Value::Bool(quantity.order(other).is_gt()),
        "isLessThan" => Value::Bool(quantity.order(other).is_lt()),
        "compareTo" => Value::Int(quantity.order(other) as i64),
        "add" => library(Library::Quantity(quantity.plus(other))),
        "sub" => library(Library::Quantity(quantity.minus(other))),
        _ => return None,
    }))
}

fn of_optional<'a>(
    function: &str,
    value: Option<&Arc<Value<'a>>>,
    args: &[Value<'a>],
) -> Option<Outcome<'a>> {
    Some(match (function, args.get(1)) {
        ("hasValue", None) => Ok(Value::Bool(value.is_some())),
        ("value", None) => match value {
            Some(value) => Ok((**value).clone()),
            None => Err(EvaluationError::failed("optional.none() dereference")),
        },
        ("or", Some(other @ Value::Optional(_))) => {
            Ok(value.map_or_else(|| other.clone(), |it| Value::Optional(Some(Arc::clone(it)))))
        }
        ("orValue", Some(other)) => Ok(value.map_or_else(|| other.clone(), |it| (**it).clone())),
        _ => return None,
    })
}

fn made_optional<'a>(function: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(Ok(Value::Optional(match (function, args) {
        ("optional.none", []) => None,
        ("optional.of", [value]) => Some(Arc::new(value.clone())),
        ("optional.ofNonZeroValue", [value]) => (!is_zero(value)).then(|| Arc::new(value.clone())),
        _ => return None,
    })))
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Optional(None) => true,
        Value::Bool(it) => !it,
        Value::Int(it) | Value::Duration(it) => *it == 0,
        Value::Uint(it) => *it == 0,
        Value::Double(it) => *it == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Made(it) => it.fields.is_empty(),
        other => other.list_len().or_else(|| other.map_len()) == Some(0),
    }
}
