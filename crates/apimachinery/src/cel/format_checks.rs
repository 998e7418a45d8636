//! The check of literal format strings against the types of their arguments
//! (`stringFormatValidator` of cel-go v0.26.0 ext/formatting.go).

use super::ast::{Expr, ExprKind};
use super::checker::Checked;
use super::error::Issue;
use super::formatting::{misfit, type_name, unknown_verb};
use super::types::Type;

/// Adds the problems of the literal format strings of an expression.
pub(crate) fn check(expr: &Expr, checked: &Checked, issues: &mut Vec<Issue>) {
    if let ExprKind::Call(call) = &expr.kind
        && &*call.function == "format"
        && let Some(target) = &call.target
        && let Some(format) = target.literal_text()
        && let [Expr { kind: ExprKind::List(items), .. }] = call.args.as_slice()
    {
        let types: Vec<(usize, &Type)> =
            items.iter().map(|it| (it.value.at, checked.type_of(&it.value))).collect();
        match check_format(format, &types) {
            Ok(used) if types.len() > used => {
                let message = format!(
                    "too many arguments supplied to string.format (expected {used}, got {})",
                    types.len()
                );
                issues.push(Issue { at: expr.at, message });
            }
            Ok(_) => {}
            Err((at, message)) => issues.push(Issue { at: at.unwrap_or(expr.at), message }),
        }
    }
    expr.for_each_part(&mut |part| check(part, checked, issues));
}

/// Returns the number of arguments that a format uses, or its first problem with its place.
fn check_format(format: &str, types: &[(usize, &Type)]) -> Result<usize, (Option<usize>, String)> {
    let mut used = 0;
    let mut chars = format.chars().peekable();
    while let Some(ch) = chars.next() {
        if ch != '%' {
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            continue;
        }
        let Some((at, of)) = types.get(used) else {
            return Err((None, format!("index {used} out of range")));
        };
        used += 1;
        let mut verb = chars.next();
        if verb == Some('.') {
            while chars.next_if(char::is_ascii_digit).is_some() {}
            verb = chars.next();
        }
        let Some(verb) = verb else { return Err((None, "unexpected end of string".to_owned())) };
        let Some(misfit) = misfit(verb) else { return Err((None, unknown_verb(verb))) };
        if !fits(verb, of) {
            return Err((Some(*at), format!("error during formatting: {misfit} {}", type_name(of))));
        }
    }
    Ok(used)
}

fn fits(verb: char, of: &Type) -> bool {
    if matches!(of, Type::Dyn | Type::Error | Type::Parameter(_)) {
        return true;
    }
    match verb {
        'd' | 'o' => matches!(of, Type::Int | Type::Uint),
        'f' | 'e' => matches!(of, Type::Double | Type::String),
        'b' => matches!(of, Type::Int | Type::Uint | Type::Bool),
        'x' | 'X' => matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes),
        _ => !matches!(of, Type::Opaque(_) | Type::Object(_) | Type::Record(_) | Type::Optional(_)),
    }
}
