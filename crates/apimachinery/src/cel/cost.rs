//! The estimate of the largest cost that an expression can have, from the limits of sizes that its
//! declared type has.
//!
//! Mirrors cel-go v0.26.0 checker/cost.go and ext/{lists,sets}.go with the estimates of
//! k8s.io/apiserver v0.36.4 pkg/cel/library/cost.go. The estimates decide which rules a definition
//! may have, so they are kept equal, oddities included.

use std::collections::HashMap;
use std::sync::Arc;

use super::ast::{ACCUMULATOR, Call, Comprehension, Expr, ExprKind, Literal};
use super::checker::Checked;
use super::declared::{DeclaredType, Shape};
use super::types::Type;

/// The cost of reading a text once, per byte.
pub(crate) const TRAVERSAL: f64 = 0.1;
/// The cost of a regular expression, per character.
pub(crate) const REGEX: f64 = 0.25;
/// The cost of creating a list.
pub(crate) const NEW_LIST: u64 = 10;
/// The cost of creating a map.
pub(crate) const NEW_MAP: u64 = 30;
/// The cost of creating an object.
pub(crate) const NEW_STRUCT: u64 = 40;
/// `MaxNameFormatRegexSize` of k8s.io/apiserver v0.36.4 pkg/cel/limits.go.
const FORMAT_REGEX: f64 = 128.0;
/// `MaxFormatSize` of the same file.
const FORMAT_SIZE: u64 = 64;

/// The smallest and the largest size or cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    min: u64,
    max: u64,
}

const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

impl Range {
    fn exactly(value: u64) -> Self {
        Self { min: value, max: value }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn scaled(self, factor: f64) -> Self {
        Self { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Multiplies and rounds up.
pub(crate) fn scale(value: u64, factor: f64) -> u64 {
    // A cast saturates, as upstream's guards do.
    (value as f64 * factor).ceil() as u64
}

/// The sizes of the entries of a list or a map.
#[derive(Clone, Copy, Debug)]
struct EntrySizes {
    is_list: bool,
    key: Range,
    value: Range,
}

type Path = Option<Arc<Vec<Arc<str>>>>;

#[derive(Clone, Debug)]
struct LocalVariable {
    name: Arc<str>,
    path: Path,
    size: Option<Range>,
    entries: Option<EntrySizes>,
}

/// The cost of a call and, if it is known, the size of its result.
struct CallEstimate {
    cost: Range,
    size: Option<Range>,
}

impl CallEstimate {
    fn of(cost: Range) -> Self {
        Self { cost, size: None }
    }
}

/// Returns the largest cost of an expression whose variables are of a declared type.
pub(crate) fn estimate(expr: &Expr, checked: &Checked, root: &DeclaredType) -> u64 {
    let mut coster = Coster {
        checked,
        root,
        paths: HashMap::new(),
        locals: Vec::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
    };
    coster.cost(expr).max
}

struct Coster<'a> {
    checked: &'a Checked,
    root: &'a DeclaredType,
    paths: HashMap<usize, Path>,
    locals: Vec<LocalVariable>,
    sizes: HashMap<usize, Range>,
    entries: HashMap<usize, EntrySizes>,
}

impl Coster<'_> {
    fn local(&self, name: &str) -> Option<&LocalVariable> {
        self.locals.iter().rev().find(|it| &*it.name == name)
    }

    fn path(&self, expr: &Expr) -> Path {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().flatten()
    }

    fn below(path: &Path, name: &str) -> Path {
        let mut parts = path.as_ref().map(|it| (**it).clone()).unwrap_or_default();
        parts.push(name.into());
        Some(Arc::new(parts))
    }

    /// Returns the limit that the declaration has for the value at a path.
    fn declared_size(&self, path: &Path) -> Option<Range> {
        let path = path.as_ref()?;
        let mut at = self.root;
        for part in path.iter().skip(1) {
            at = match &**part {
                "@items" | "@values" => at.element()?,
                // The keys are texts whose length has no limit of its own, which counts as zero.
                "@keys" => {
                    if !matches!(at.shape, Shape::Map { .. }) {
                        return None;
                    }
                    return Some(Range { min: 0, max: 0 });
                }
                name => at.selected(name)?,
            };
        }
        Some(Range { min: 0, max: at.max_elements })
    }

    /// Returns the size of a value, if it is known. Values of the estimator are kept.
    fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(Range::exactly(size));
        }
        let path = self.path(expr);
        if let Some(size) = self.declared_size(&path) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if self.checked.type_of(expr).is_scalar() {
            return Some(Range::exactly(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|it| it.size),
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(UNKNOWN)
    }

    /// Returns the size of an argument of a call of a library: accumulators have no path.
    fn argument_size(&mut self, expr: &Expr) -> Range {
        self.size_or_unknown(expr)
    }

    fn entry_sizes(&self, expr: &Expr) -> Option<EntrySizes> {
        if let Some(sizes) = self.entries.get(&expr.id) {
            return Some(*sizes);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|it| it.entries),
            _ => None,
        }
    }

    fn set_size(&mut self, expr: &Expr, size: Option<Range>) {
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
    }

    fn set_entries(&mut self, expr: &Expr, sizes: Option<EntrySizes>) {
        if let Some(sizes) = sizes {
            self.entries.insert(expr.id, sizes);
        }
    }

    fn cost(&mut self, expr: &Expr) -> Range {
        match &expr.kind {
            ExprKind::Literal(_) => Range::exactly(0),
            ExprKind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => Some(Arc::new(vec![Arc::clone(name)])),
                };
                self.paths.insert(expr.id, path);
                Range::exactly(1)
            }
            ExprKind::Select(select) => {
                let operand = self.cost(&select.operand);
                if select.is_test {
                    return operand;
                }
                let is_container =
                    matches!(self.checked.type_of(&select.operand), Type::Map(..) | Type::Object(_));
                let path = self.path(&select.operand);
                self.paths.insert(expr.id, Self::below(&path, &select.field));
                operand.plus(Range::exactly(u64::from(is_container)))
            }
            ExprKind::Call(call) => self.cost_of_call(expr, call),
            ExprKind::List(items) => {
                let mut sum = Range::exactly(NEW_LIST);
                let mut value = Range { min: if items.is_empty() { 0 } else { u64::MAX }, max: 0 };
                for item in items {
                    sum = sum.plus(self.cost(&item.value));
                    value = value.union(self.size_or_unknown(&item.value));
                }
                self.set_entries(expr, Some(EntrySizes { is_list: true, key: Range::exactly(1), value }));
                sum
            }
            ExprKind::Map(entries) => {
                let mut sum = Range::exactly(NEW_MAP);
                let none = Range { min: if entries.is_empty() { 0 } else { u64::MAX }, max: 0 };
                let (mut key, mut value) = (none, none);
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.set_entries(expr, Some(EntrySizes { is_list: false, key, value }));
                sum
            }
            ExprKind::Struct(literal) => {
                let parts = literal.fields.iter().map(|it| self.cost(&it.value));
                let parts: Vec<Range> = parts.collect();
                parts.into_iter().fold(Range::exactly(NEW_STRUCT), Range::plus)
            }
            ExprKind::Comprehension(it) => self.cost_of_loop(expr, it),
        }
    }

    fn push_local(&mut self, name: &Arc<str>, value: &Expr) {
        let path = self.path(value);
        let size = self.size(value);
        let entries = self.entry_sizes(value);
        self.locals.push(LocalVariable { name: Arc::clone(name), path, size, entries });
    }

    fn push_iteration(&mut self, name: &Arc<str>, range: &Expr, is_key: Option<bool>) {
        let entries = self.entry_sizes(range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.type_of(range), Type::List(_)),
        };
        let part = match (is_key, is_list) {
            (Some(true), true) => "@indices",
            (Some(false), false) => "@values",
            (Some(true) | None, false) => "@keys",
            (Some(false) | None, true) => "@items",
        };
        let size = entries.map(|it| match is_key {
            Some(true) => it.key,
            Some(false) => it.value,
            None if is_list => it.value,
            None => it.key,
        });
        let path = Self::below(&self.path(range), part);
        self.locals.push(LocalVariable { name: Arc::clone(name), path, size, entries: None });
    }

    fn cost_of_loop(&mut self, expr: &Expr, it: &Comprehension) -> Range {
        let mut sum = self.cost(&it.range).plus(self.cost(&it.initial));
        self.push_local(&it.accumulator, &it.initial);
        let depth = self.locals.len();
        if &*it.accumulator != ACCUMULATOR {
            // A name for a value.
            sum = sum.plus(self.cost(&it.result));
            self.locals.truncate(depth.saturating_sub(1));
            let (size, entries) = (self.size(&it.result), self.entry_sizes(&it.result));
            self.set_size(expr, size);
            self.set_entries(expr, entries);
            return sum;
        }
        match &it.second_variable {
            Some(second) => {
                self.push_iteration(&it.variable, &it.range, Some(true));
                self.push_iteration(second, &it.range, Some(false));
            }
            None => self.push_iteration(&it.variable, &it.range, None),
        }
        let condition = self.cost(&it.condition);
        let step = self.cost(&it.step);
        self.locals.truncate(depth);
        sum = sum.plus(self.cost(&it.result));
        self.locals.truncate(depth.saturating_sub(1));
        let count = self.size_or_unknown(&it.range);
        sum = sum.plus(count.times(step.plus(condition)));
        match &it.initial.kind {
            ExprKind::Literal(_) => {
                let size = self.size(&it.initial);
                self.set_size(expr, size);
            }
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.set_size(expr, Some(count));
                let entries = self.entry_sizes(&it.step);
                self.set_entries(expr, entries);
            }
            _ => {}
        }
        sum
    }

    fn cost_of_call(&mut self, expr: &Expr, call: &Call) -> Range {
        if &*call.function == "dyn"
            && let [arg] = call.args.as_slice()
        {
            let cost = self.cost(arg).plus(Range::exactly(1));
            let (size, entries) = (self.size(arg), self.entry_sizes(arg));
            self.set_size(expr, size);
            self.set_entries(expr, entries);
            return cost;
        }
        let arg_costs: Vec<Range> = call.args.iter().map(|it| self.cost(it)).collect();
        let checked = self.checked;
        let overloads = checked.overloads_of(expr);
        if overloads.is_empty() {
            return Range::exactly(0);
        }
        let sum = call.target.as_ref().map_or(Range::exactly(0), |it| self.cost(it));
        let mut cost = Range { min: u64::MAX, max: 0 };
        let mut size: Option<Range> = None;
        for overload in overloads {
            let estimate = self.overload_cost(expr, call, overload, &arg_costs);
            cost = cost.union(estimate.cost);
            if let Some(own) = estimate.size {
                size = Some(size.map_or(own, |it| it.union(own)));
            }
            let part = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(part), Some(container)) = (part, call.args.first()) {
                size = self.entry_sizes(container).map(|it| it.value);
                let path = Self::below(&self.path(container), part);
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        self.set_size(expr, size);
        sum.plus(cost)
    }

    fn overload_cost(
        &mut self,
        expr: &Expr,
        call: &Call,
        overload: &str,
        arg_costs: &[Range],
    ) -> CallEstimate {
        let args_cost = arg_costs.iter().fold(Range::exactly(0), |sum, it| sum.plus(*it));
        if let Some(estimate) = self.library_cost(call, overload) {
            return CallEstimate { cost: estimate.cost.plus(args_cost), ..estimate };
        }
        let own = |cost: Range| CallEstimate::of(cost.plus(args_cost));
        let target = call.target.as_ref();
        match (overload, call.args.as_slice()) {
            ("string_format", _) => {
                let size = target.map_or(UNKNOWN, |it| self.size_or_unknown(it));
                own(size.scaled(TRAVERSAL))
            }
            ("string_to_bytes", [arg]) => {
                let size = self.size_or_unknown(arg);
                let result = Range { min: size.min, max: size.max.saturating_mul(4) };
                CallEstimate { size: Some(result), ..own(size.scaled(TRAVERSAL)) }
            }
            ("bytes_to_string", [arg]) => {
                let size = self.size_or_unknown(arg);
                let result = Range { min: size.min / 4, max: size.max };
                CallEstimate { size: Some(result), ..own(size.scaled(TRAVERSAL)) }
            }
            ("strings_quote", [arg]) => {
                let size = self.size_or_unknown(arg);
                let longest = size.max.saturating_mul(2).saturating_add(2);
                let result = Range { min: size.min.saturating_add(2), max: longest };
                CallEstimate { size: Some(result), ..own(size.scaled(TRAVERSAL)) }
            }
            ("starts_with_string" | "ends_with_string", [arg]) => {
                own(self.size_or_unknown(arg).scaled(TRAVERSAL))
            }
            ("in_list", [_, list]) => own(self.size_or_unknown(list)),
            ("matches_string", [pattern]) if target.is_some() => {
                let text = target.map_or(UNKNOWN, |it| self.size_or_unknown(it));
                let text = text.plus(Range::exactly(1)).scaled(TRAVERSAL);
                own(text.times(self.size_or_unknown(pattern).scaled(REGEX)))
            }
            ("contains_string", [part]) if target.is_some() => {
                let text = target.map_or(UNKNOWN, |it| self.size_or_unknown(it)).scaled(TRAVERSAL);
                own(text.times(self.size_or_unknown(part).scaled(TRAVERSAL)))
            }
            ("logical_or" | "logical_and", _) => {
                let min = arg_costs.first().map_or(0, |it| it.min);
                CallEstimate::of(Range { min, max: args_cost.max })
            }
            ("conditional", [_, then, otherwise]) => {
                let size = self.size_or_unknown(then).union(self.size_or_unknown(otherwise));
                let entries = union_of_entries(self.entry_sizes(then), self.entry_sizes(otherwise));
                self.set_entries(expr, entries);
                let [condition, then, otherwise] = arg_costs else { return own(Range::exactly(1)) };
                CallEstimate { cost: condition.plus(then.union(*otherwise)), size: Some(size) }
            }
            ("add_string" | "add_bytes" | "add_list", [left, right]) => {
                let size = self.size_or_unknown(left).plus(self.size_or_unknown(right));
                let entries = union_of_entries(self.entry_sizes(left), self.entry_sizes(right));
                self.set_entries(expr, entries);
                let cost = if overload == "add_list" { Range::exactly(1) } else { size.scaled(TRAVERSAL) };
                CallEstimate { size: Some(size), ..own(cost) }
            }
            (
                "less_string" | "greater_string" | "less_equals_string" | "greater_equals_string" | "less_bytes"
                | "greater_bytes" | "less_equals_bytes" | "greater_equals_bytes" | "equals" | "not_equals",
                [left, right],
            ) => {
                let max = self.size_or_unknown(left).max.min(self.size_or_unknown(right).max);
                own(Range { min: max.min(1), max }.scaled(TRAVERSAL))
            }
            _ => own(Range::exactly(1)),
        }
    }

    /// Returns the size of the elements of a list, and whether they are texts.
    fn element_size(&mut self, list: &Expr) -> Option<(Range, bool)> {
        let of = self.checked.type_of(list);
        let element = match of {
            Type::List(item) | Type::Optional(item) => item,
            Type::Map(key, _) => key,
            _ => return None,
        };
        let is_text = matches!(**element, Type::String | Type::Bytes);
        let path = self.path(list).filter(|it| it.first().is_none_or(|it| &**it != ACCUMULATOR));
        let size = path.and_then(|path| self.declared_size(&Self::below(&Some(path), "@items")));
        Some((size.unwrap_or(UNKNOWN), is_text))
    }

    fn library_cost(&mut self, call: &Call, overload: &str) -> Option<CallEstimate> {
        let target = call.target.as_ref();
        let args = call.args.as_slice();
        if let Some(estimate) = self.list_cost(call, overload) {
            return Some(estimate);
        }
        let one = Some(CallEstimate::of(Range::exactly(1)));
        let traversal = |coster: &mut Self, expr: &Expr, factor: f64, has_size: bool| {
            let size = coster.argument_size(expr);
            CallEstimate { cost: size.scaled(factor * TRAVERSAL), size: has_size.then_some(size) }
        };
        match (&*call.function, target, args) {
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
                let size = self.argument_size(target);
                Some(CallEstimate::of(match self.element_size(target) {
                    Some((element, true)) => size.times(Range::exactly(1).plus(element.scaled(TRAVERSAL))),
                    Some(_) => size,
                    None => size.scaled(TRAVERSAL),
                }))
            }
            ("url", _, [arg]) => Some(traversal(self, arg, 1.0, true)),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
                Some(traversal(self, target, 1.0, true))
            }
            ("replace", Some(target), [from, to, ..]) => Some(self.replace_cost(target, from, to)),
            ("split", Some(target), _) => {
                let size = self.argument_size(target);
                let limit = args.get(1).and_then(Expr::literal_int);
                // A negative limit is cast to a large one upstream as well.
                let max = limit.map_or(size.max, |it| it as u64);
                Some(CallEstimate { cost: size.scaled(2.0 * TRAVERSAL), size: Some(Range { min: 0, max }) })
            }
            ("join", Some(target), _) => {
                let list = self.argument_size(target);
                let element = self.element_size(target).map(|(size, _)| size);
                let mut size = element.map_or(Range::exactly(0), |it| list.times(it));
                if let Some(separator) = args.first() {
                    let count = Range { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
                    size = size.plus(self.argument_size(separator).times(count));
                }
                Some(CallEstimate { cost: size.scaled(TRAVERSAL), size: Some(size) })
            }
            ("find" | "findAll", Some(target), [pattern, ..]) => {
                let size = self.argument_size(target);
                let text = size.plus(Range::exactly(1)).scaled(TRAVERSAL);
                let cost = text.times(self.argument_size(pattern).scaled(REGEX));
                Some(CallEstimate { cost, size: Some(Range { min: 0, max: size.max }) })
            }
            ("ip", _, _) if overload == "cidr_ip" => one,
            (
                "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
                _,
                [arg, ..],
            ) => Some(traversal(self, arg, 1.0, false)),
            ("ip.isCanonical", _, [arg]) => Some(traversal(self, arg, 2.0, false)),
            ("containsIP" | "containsCIDR", _, [arg]) => {
                let sizes = Range { min: 4, max: 16 };
                let mut cost = sizes.plus(sizes).scaled(TRAVERSAL);
                if &*call.function == "containsCIDR" {
                    cost = cost.plus(sizes.scaled(TRAVERSAL)).plus(Range::exactly(1));
                }
                if overload.ends_with("_string") {
                    cost = cost.plus(self.argument_size(arg).scaled(TRAVERSAL));
                }
                Some(CallEstimate::of(cost))
            }
            ("validate", _, [arg]) => {
                let size = self.argument_size(arg);
                Some(CallEstimate::of(size.scaled(TRAVERSAL).scaled(FORMAT_REGEX * REGEX)))
            }
            (
                "masked" | "prefixLength" | "family" | "isUnspecified" | "isLoopback" | "isLinkLocalMulticast"
                | "isLinkLocalUnicast" | "isGlobalUnicast" | "format.named" | "sign" | "asInteger" | "isInteger"
                | "asApproximateFloat" | "isGreaterThan" | "isLessThan" | "compareTo" | "add" | "sub" | "major"
                | "minor" | "patch" | "getScheme" | "getHostname" | "getHost" | "getPort" | "getEscapedPath"
                | "getQuery",
                ..,
            ) => one,
            ("_==_", None, [left, right]) => {
                let (left, right) = (self.checked.type_of(left), self.checked.type_of(right));
                match left {
                    Type::Opaque(_) if !left.is_same(right) => None,
                    Type::Opaque("kubernetes.NamedFormat") => {
                        Some(CallEstimate::of(Range { min: 1, max: FORMAT_SIZE }.scaled(TRAVERSAL)))
                    }
                    Type::Opaque("kubernetes.URL") => {
                        let [_, right] = args else { return None };
                        let max = self.sizes.get(&right.id).map_or(1, |it| it.max);
                        Some(CallEstimate::of(Range { min: 1, max }.scaled(TRAVERSAL)))
                    }
                    Type::Opaque(_) => one,
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the cost of the functions of the libraries for lists and sets.
    fn list_cost(&mut self, call: &Call, overload: &str) -> Option<CallEstimate> {
        let allocating = |factor: f64, size: Range| CallEstimate {
            cost: size.scaled(factor).plus(Range::exactly(1 + NEW_LIST)),
            size: Some(size),
        };
        let literal = |expr: &Expr, otherwise: u64| match expr.literal_int() {
            Some(int) => u64::try_from(int).unwrap_or(0),
            None => otherwise,
        };
        let target = call.target.as_ref();
        match (overload, target, call.args.as_slice()) {
            (
                "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list",
                _,
                [left, right],
            ) => {
                let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
                let product = self.argument_size(left).times(self.argument_size(right));
                Some(CallEstimate::of(product.scaled(factor).plus(Range::exactly(1))))
            }
            ("list_slice", Some(target), [start, end]) => {
                let size = self.argument_size(target);
                let count = literal(end, size.max).wrapping_sub(literal(start, 0));
                Some(allocating(1.0, Range::exactly(count)))
            }
            ("lists_range", _, [count]) => Some(allocating(1.0, Range::exactly(literal(count, u64::MAX)))),
            ("list_reverse", Some(target), _) => Some(allocating(1.0, self.argument_size(target))),
            ("list_flatten" | "list_flatten_int", Some(target), args) => {
                let depth = args.first().map_or(1, |it| literal(it, u64::MAX));
                Some(allocating(depth as f64, self.argument_size(target)))
            }
            ("list_distinct", Some(target), _) => {
                let size = self.argument_size(target);
                Some(allocating(2.0, size.times(size)))
            }
            (sort, Some(target), args) if sort.ends_with("_sort") || sort.ends_with("_sortByAssociatedKeys") => {
                let size = self.argument_size(args.first().unwrap_or(target));
                let is_text = sort.starts_with("list_string") || sort.starts_with("list_bytes");
                let factor = if is_text { 2.0 + TRAVERSAL } else { 2.0 };
                Some(allocating(factor, size.times(size)))
            }
            _ => None,
        }
    }

    fn replace_cost(&mut self, target: &Expr, from: &Expr, to: &Expr) -> CallEstimate {
        let size = self.argument_size(target);
        let (from, to) = (self.argument_size(from), self.argument_size(to));
        let divided = |size: u64, by: u64| (size as f64 / by as f64).ceil() as u64;
        let (mut count, mut kept) = (Range::exactly(0), Range::exactly(0));
        if from.min == 0 {
            count.max = size.max.saturating_add(1);
            kept.max = size.max;
        } else if to.max <= from.min {
            kept.max = size.max;
        } else {
            count.max = divided(size.max, from.min);
        }
        if from.max == 0 {
            count.min = size.min.saturating_add(1);
            kept.min = size.min;
        } else if from.max <= to.min {
            kept.min = size.min;
        } else {
            count.min = divided(size.min, from.max);
        }
        let result = count.times(to).plus(kept);
        CallEstimate { cost: size.scaled(2.0 * TRAVERSAL), size: Some(result) }
    }
}

fn union_of_entries(one: Option<EntrySizes>, two: Option<EntrySizes>) -> Option<EntrySizes> {
    let (one, two) = (one?, two?);
    Some(EntrySizes {
        is_list: one.is_list,
        key: one.key.union(two.key),
        value: one.value.union(two.value),
    })
}

/// Returns the size of a literal.
fn literal_size(expr: &Expr) -> Option<u64> {
    Some(match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => text.chars().count() as u64,
        ExprKind::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        ExprKind::Literal(_) => 1,
        ExprKind::List(items) => items.len() as u64,
        ExprKind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}
