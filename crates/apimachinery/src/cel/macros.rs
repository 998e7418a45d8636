//! The macros of the language: `has`, `all`, `exists`, `map`, `filter` and their kin, which the
//! parser replaces with comprehensions.
//!
//! The expansions are those of cel-go v0.26.0 (parser/macro.go, ext/comprehensions.go,
//! ext/lists.go, cel/library.go), on which costs and messages depend.

use std::sync::Arc;

use super::ast::{ACCUMULATOR, Call, Comprehension, Expr, ExprKind, ListItem, Literal, Select};
use super::error::Issue;

/// The nesting of an expression. cel-go allows 250 rules of the grammar. Chains of operators and
/// fields count here as well, since the tree is walked recursively.
pub(crate) const MAX_DEPTH: u32 = 150;

/// The nodes of a tree that is being built.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// The depth of the tree below each node, by its id.
    depths: Vec<u32>,
    /// The place of the first node above a tree that is deeper than [`MAX_DEPTH`].
    too_deep: Option<usize>,
}

impl Nodes {
    /// Returns the number of ids in use.
    pub(crate) fn len(&self) -> usize {
        self.depths.len()
    }

    /// Returns the place where the tree is too deep, if it is.
    pub(crate) fn too_deep(&self) -> Option<usize> {
        self.too_deep
    }

    fn depth_of(&self, expr: &Expr) -> u32 {
        self.depths.get(expr.id).copied().unwrap_or(0)
    }

    fn add(&mut self, depth: u32, at: usize) -> usize {
        if depth > MAX_DEPTH {
            self.too_deep.get_or_insert(at);
        }
        self.depths.push(depth);
        self.depths.len() - 1
    }
}

/// Creates nodes with ids that are not used yet, all at the place of the macro.
pub(crate) struct NodeMaker<'a> {
    pub(crate) nodes: &'a mut Nodes,
    pub(crate) at: usize,
}

impl NodeMaker<'_> {
    pub(crate) fn node(&mut self, kind: ExprKind) -> Expr {
        let mut expr = Expr { id: 0, at: self.at, kind };
        let mut below = 0;
        expr.for_each_part(&mut |part| below = below.max(self.nodes.depth_of(part)));
        expr.id = self.nodes.add(below.saturating_add(1), self.at);
        expr
    }

    pub(crate) fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.node(ExprKind::Call(Box::new(Call { function: function.into(), target: None, args })))
    }

    fn member(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let call = Call { function: function.into(), target: Some(target), args };
        self.node(ExprKind::Call(Box::new(call)))
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.node(ExprKind::Literal(literal))
    }

    fn ident(&mut self, name: &Arc<str>) -> Expr {
        self.node(ExprKind::Ident(Arc::clone(name)))
    }

    fn accumulator(&mut self) -> Expr {
        self.node(ExprKind::Ident(ACCUMULATOR.into()))
    }

    fn list(&mut self, values: Vec<Expr>) -> Expr {
        let item = |value| ListItem { value, is_optional: false };
        self.node(ExprKind::List(values.into_iter().map(item).collect()))
    }

    /// Returns a copy of an expression in which every node has an id of its own.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        copy
    }

    fn renumber(&mut self, expr: &mut Expr) {
        expr.id = self.nodes.add(self.nodes.depth_of(expr), self.at);
        match &mut expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select(select) => self.renumber(&mut select.operand),
            ExprKind::Call(call) => {
                call.target.iter_mut().chain(&mut call.args).for_each(|it| self.renumber(it));
            }
            ExprKind::List(items) => items.iter_mut().for_each(|it| self.renumber(&mut it.value)),
            ExprKind::Map(entries) => {
                for entry in entries {
                    self.renumber(&mut entry.key);
                    self.renumber(&mut entry.value);
                }
            }
            ExprKind::Struct(literal) => {
                literal.fields.iter_mut().for_each(|it| self.renumber(&mut it.value));
            }
            ExprKind::Comprehension(it) => {
                let it = it.as_mut();
                for part in [&mut it.range, &mut it.initial, &mut it.condition, &mut it.step, &mut it.result]
                {
                    self.renumber(part);
                }
            }
        }
    }
}

/// The parts of a call that may be one of a macro.
pub(crate) struct MacroCall<'a> {
    pub(crate) function: &'a str,
    pub(crate) target: Option<Expr>,
    pub(crate) args: Vec<Expr>,
}

/// Returns true if a call with that shape is one of a macro.
pub(crate) fn is_macro(function: &str, has_target: bool, args: usize) -> bool {
    match function {
        "has" => !has_target && args == 1,
        "all" | "exists" | "exists_one" | "existsOne" | "map" => has_target && matches!(args, 2 | 3),
        "filter" | "optMap" | "optFlatMap" | "sortBy" => has_target && args == 2,
        "transformList" | "transformMap" | "transformMapEntry" => has_target && matches!(args, 3 | 4),
        _ => false,
    }
}

/// Replaces the call of a macro, for which [`is_macro`] holds.
pub(crate) fn expand(call: MacroCall<'_>, maker: &mut NodeMaker<'_>) -> Result<Expr, Issue> {
    let MacroCall { function, target, args } = call;
    let Some(range) = target else { return has(args, maker) };
    match (function, args.len()) {
        ("map", _) => map(range, args, maker),
        ("filter", _) => filter(range, args, maker),
        ("optMap" | "optFlatMap", _) => on_optional(function == "optMap", range, args, maker),
        ("sortBy", _) => sort_by(range, args, maker),
        ("transformList" | "transformMap" | "transformMapEntry", _) => {
            transform(function, range, args, maker)
        }
        _ => quantifier(function, range, args, maker),
    }
}

fn has(args: Vec<Expr>, maker: &mut NodeMaker<'_>) -> Result<Expr, Issue> {
    let mut args = args.into_iter();
    match args.next() {
        Some(Expr { kind: ExprKind::Select(select), .. }) if !select.is_test => {
            Ok(maker.node(ExprKind::Select(Box::new(Select { is_test: true, ..*select }))))
        }
        other => Err(Issue {
            at: other.map_or(maker.at, |it| it.at),
            message: "invalid argument to has() macro".to_owned(),
        }),
    }
}

/// Returns the name that an argument declares.
fn variable(arg: &Expr, message: &str) -> Result<Arc<str>, Issue> {
    let problem = |message: &str| Issue { at: arg.at, message: message.to_owned() };
    match &arg.kind {
        ExprKind::Ident(name) if &**name == "__result__" => {
            Err(problem("iteration variable overwrites accumulator variable"))
        }
        ExprKind::Ident(name) => Ok(Arc::clone(name)),
        _ => Err(problem(message)),
    }
}

/// The parts of a comprehension that differ between macros.
struct Loop {
    initial: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

fn comprehension(
    range: Expr,
    variable: Arc<str>,
    second_variable: Option<Arc<str>>,
    parts: Loop,
    maker: &mut NodeMaker<'_>,
) -> Expr {
    let Loop { initial, condition, step, result } = parts;
    maker.node(ExprKind::Comprehension(Box::new(Comprehension {
        range,
        variable,
        second_variable,
        accumulator: ACCUMULATOR.into(),
        initial,
        condition,
        step,
        result,
    })))
}

/// Takes the next argument, of which the caller has checked the number.
fn next(args: &mut std::vec::IntoIter<Expr>, maker: &mut NodeMaker<'_>) -> Expr {
    args.next().unwrap_or_else(|| maker.literal(Literal::Null))
}

fn quantifier(
    function: &str,
    range: Expr,
    args: Vec<Expr>,
    maker: &mut NodeMaker<'_>,
) -> Result<Expr, Issue> {
    let has_two = args.len() == 3;
    let mut args = args.into_iter();
    let first = variable(&next(&mut args, maker), "argument must be a simple name")?;
    let second = if has_two {
        Some(variable(&next(&mut args, maker), "argument must be a simple name")?)
    } else {
        None
    };
    let predicate = next(&mut args, maker);
    let accumulator = maker.accumulator();
    let parts = match function {
        "all" => Loop {
            initial: maker.literal(Literal::Bool(true)),
            condition: {
                let accumulator = maker.accumulator();
                maker.call("@not_strictly_false", vec![accumulator])
            },
            step: maker.call("_&&_", vec![accumulator, predicate]),
            result: maker.accumulator(),
        },
        "exists" => Loop {
            initial: maker.literal(Literal::Bool(false)),
            condition: {
                let accumulator = maker.accumulator();
                let not = maker.call("!_", vec![accumulator]);
                maker.call("@not_strictly_false", vec![not])
            },
            step: maker.call("_||_", vec![accumulator, predicate]),
            result: maker.accumulator(),
        },
        _ => {
            let one = maker.literal(Literal::Int(1));
            let next = maker.call("_+_", vec![accumulator, one]);
            let same = maker.accumulator();
            let count = maker.accumulator();
            let one = maker.literal(Literal::Int(1));
            Loop {
                initial: maker.literal(Literal::Int(0)),
                condition: maker.literal(Literal::Bool(true)),
                step: maker.call("_?_:_", vec![predicate, next, same]),
                result: maker.call("_==_", vec![count, one]),
            }
        }
    };
    Ok(comprehension(range, first, second, parts, maker))
}

/// Returns the loop that adds to a list or a map, for the entries that a predicate accepts.
fn collecting(initial: Expr, step: Expr, predicate: Option<Expr>, maker: &mut NodeMaker<'_>) -> Loop {
    let step = match predicate {
        Some(predicate) => {
            let same = maker.accumulator();
            maker.call("_?_:_", vec![predicate, step, same])
        }
        None => step,
    };
    let condition = maker.literal(Literal::Bool(true));
    Loop { initial, condition, step, result: maker.accumulator() }
}

/// Returns `@result + [value]`.
fn append(value: Expr, maker: &mut NodeMaker<'_>) -> Expr {
    let accumulator = maker.accumulator();
    let list = maker.list(vec![value]);
    maker.call("_+_", vec![accumulator, list])
}

fn map(range: Expr, args: Vec<Expr>, maker: &mut NodeMaker<'_>) -> Result<Expr, Issue> {
    let has_predicate = args.len() == 3;
    let mut args = args.into_iter();
    let name = variable(&next(&mut args, maker), "argument is not an identifier")?;
    let predicate = has_predicate.then(|| next(&mut args, maker));
    let value = next(&mut args, maker);
    let initial = maker.list(Vec::new());
    let step = append(value, maker);
    let parts = collecting(initial, step, predicate, maker);
    Ok(comprehension(range, name, None, parts, maker))
}

fn filter(range: Expr, args: Vec<Expr>, maker: &mut NodeMaker<'_>) -> Result<Expr, Issue> {
    let mut args = args.into_iter();
    let value = next(&mut args, maker);
    let name = variable(&value, "argument is not an identifier")?;
    let predicate = next(&mut args, maker);
    let initial = maker.list(Vec::new());
    let step = append(value, maker);
    let parts = collecting(initial, step, Some(predicate), maker);
    Ok(comprehension(range, name, None, parts, maker))
}

fn transform(function: &str, range: Expr, args: Vec<Expr>, maker: &mut NodeMaker<'_>) -> Result<Expr, Issue> {
    let has_predicate = args.len() == 4;
    let mut args = args.into_iter();
    let first = variable(&next(&mut args, maker), "argument must be a simple name")?;
    let second = variable(&next(&mut args, maker), "argument must be a simple name")?;
    let predicate = has_predicate.then(|| next(&mut args, maker));
    let value = next(&mut args, maker);
    let (initial, step) = if function == "transformList" {
        (maker.list(Vec::new()), append(value, maker))
    } else {
        let accumulator = maker.accumulator();
        let args = match function {
            "transformMap" => vec![accumulator, maker.ident(&first), value],
            _ => vec![accumulator, value],
        };
        (maker.node(ExprKind::Map(Vec::new())), maker.call("cel.@mapInsert", args))
    };
    let parts = collecting(initial, step, predicate, maker);
    Ok(comprehension(range, first, Some(second), parts, maker))
}

/// Returns an expression in which a name has a value: a loop over nothing, as in `cel.bind`.
fn bind(name: &Arc<str>, value: Expr, result: Expr, maker: &mut NodeMaker<'_>) -> Expr {
    let range = maker.list(Vec::new());
    let condition = maker.literal(Literal::Bool(false));
    let step = maker.ident(name);
    maker.node(ExprKind::Comprehension(Box::new(Comprehension {
        range,
        variable: "#unused".into(),
        second_variable: None,
        accumulator: Arc::clone(name),
        initial: value,
        condition,
        step,
        result,
    })))
}

fn on_optional(wraps: bool, target: Expr, args: Vec<Expr>, maker: &mut NodeMaker<'_>) -> Result<Expr, Issue> {
    let mut args = args.into_iter();
    let name = variable(&next(&mut args, maker), "variable name must be a simple identifier")?;
    let value = next(&mut args, maker);
    let again = maker.copy(&target);
    let inner = maker.member("value", again, Vec::new());
    let bound = bind(&name, inner, value, maker);
    let bound = if wraps { maker.call("optional.of", vec![bound]) } else { bound };
    let present = maker.member("hasValue", target, Vec::new());
    let none = maker.call("optional.none", Vec::new());
    Ok(maker.call("_?_:_", vec![present, bound, none]))
}

fn sort_by(target: Expr, args: Vec<Expr>, maker: &mut NodeMaker<'_>) -> Result<Expr, Issue> {
    let input: Arc<str> = "@__sortBy_input__".into();
    let list = maker.ident(&input);
    let keys = map(list, args, maker)?;
    let list = maker.ident(&input);
    let sorted = maker.member("@sortByAssociatedKeys", list, vec![keys]);
    Ok(bind(&input, target, sorted, maker))
}
