//! The syntax tree of an expression, with macros already expanded.

use std::sync::Arc;

/// A node of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    /// The index of the node in tables such as that of the types.
    pub(crate) id: usize,
    /// The offset in the source, in bytes.
    pub(crate) at: usize,
    pub(crate) kind: ExprKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Literal(Literal),
    Ident(Arc<str>),
    Select(Box<Select>),
    Call(Box<Call>),
    List(Vec<ListItem>),
    Map(Vec<MapEntry>),
    Struct(Box<StructLiteral>),
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// `operand.field`, or `has(operand.field)`.
#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) operand: Expr,
    pub(crate) field: Arc<str>,
    pub(crate) is_test: bool,
}

/// A call of a function or an operator. Operators have names such as `_+_`.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: Arc<str>,
    pub(crate) target: Option<Expr>,
    pub(crate) args: Vec<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) struct ListItem {
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct MapEntry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

/// `Name{field: value}`.
#[derive(Clone, Debug)]
pub(crate) struct StructLiteral {
    pub(crate) name: Arc<str>,
    pub(crate) fields: Vec<StructField>,
}

#[derive(Clone, Debug)]
pub(crate) struct StructField {
    pub(crate) at: usize,
    pub(crate) name: Arc<str>,
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

/// The loop that macros such as `all` and `map` expand to, as in cel-go.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) variable: Arc<str>,
    pub(crate) second_variable: Option<Arc<str>>,
    pub(crate) accumulator: Arc<str>,
    pub(crate) initial: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

/// The name of the accumulator of all macros. It cannot be written in an expression.
pub(crate) const ACCUMULATOR: &str = "@result";

impl Expr {
    /// Returns the dotted name that this expression can be: `a`, or `a.b.c`.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.to_string()),
            ExprKind::Select(select) if !select.is_test => {
                let mut name = select.operand.qualified_name()?;
                name.push('.');
                name.push_str(&select.field);
                Some(name)
            }
            _ => None,
        }
    }

    /// Returns the text of a literal string.
    pub(crate) fn literal_text(&self) -> Option<&Arc<str>> {
        match &self.kind {
            ExprKind::Literal(Literal::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a literal integer.
    pub(crate) fn literal_int(&self) -> Option<i64> {
        match &self.kind {
            ExprKind::Literal(Literal::Int(int)) => Some(*int),
            _ => None,
        }
    }

    /// Calls a function with each direct part of the expression.
    pub(crate) fn for_each_part<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select(select) => f(&select.operand),
            ExprKind::Call(call) => call.target.iter().chain(&call.args).for_each(f),
            ExprKind::List(items) => items.iter().for_each(|it| f(&it.value)),
            ExprKind::Map(entries) => {
                for entry in entries {
                    f(&entry.key);
                    f(&entry.value);
                }
            }
            ExprKind::Struct(literal) => literal.fields.iter().for_each(|it| f(&it.value)),
            ExprKind::Comprehension(it) => {
                for part in [&it.range, &it.initial, &it.condition, &it.step, &it.result] {
                    f(part);
                }
            }
        }
    }
}
