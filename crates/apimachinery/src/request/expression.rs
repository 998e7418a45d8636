//! A parser for a subset of CEL, in which requests state conditions: enough to reject all
//! expressions that are not function calls, or several of them joined by operators.
//!
//! Lists, maps, indexes, conditionals, methods, comments, escapes and macros are not supported.

/// An expression, in as much detail as is needed to reject it.
#[derive(Debug)]
pub(super) enum Expression<'t> {
    /// Names joined by dots.
    Path(Vec<&'t str>),
    Text(&'t str),
    /// A literal that is not a string, by the Go name of its type.
    Literal(&'static str),
    Call(String, Vec<Expression<'t>>),
}

impl<'t> Expression<'t> {
    /// Parses a complete text.
    ///
    /// # Errors
    ///
    /// Returns the syntax error.
    pub(super) fn parse(text: &'t str) -> Result<Self, String> {
        Parser { rest: text, operators: 0 }.whole()
    }

    /// Returns the number of the expression kind in cel-go's `ast.ExprKind`.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Call(..) => 1,
            Self::Path(names) if names.len() == 1 => 3,
            Self::Text(_) | Self::Literal(_) => 5,
            Self::Path(_) => 7,
        }
    }
}

/// Binary operators, lowest precedence first.
const OPERATORS: [&[&str]; 5] =
    [&["||"], &["&&"], &["==", "!=", "<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"]];

/// The maximum nesting depth of expressions, so that no request can exhaust the stack.
const MAX_DEPTH: usize = 100;

const TOO_DEEP: &str = "CEL parse error: expression recursion limit exceeded";

/// A parser that reads an expression from left to right.
struct Parser<'t> {
    rest: &'t str,
    /// The number of binary operators so far.
    operators: usize,
}

impl<'t> Parser<'t> {
    fn whole(mut self) -> Result<Expression<'t>, String> {
        let expression = self.binary(0, 0)?;
        self.skip();
        if self.rest.is_empty() { Ok(expression) } else { Err(self.unexpected()) }
    }

    fn binary(&mut self, level: usize, depth: usize) -> Result<Expression<'t>, String> {
        let Some(operators) = OPERATORS.get(level) else { return self.primary(depth) };
        let mut left = self.binary(level + 1, depth)?;
        while let Some(operator) = operators.iter().find(|it| self.eat(it)) {
            // A chain of operators is a left-leaning tree, as deep as it is long, and one in
            // parentheses adds to the one around it. Reading and dropping the tree recurse just as
            // deep.
            self.operators += 1;
            if self.operators > MAX_DEPTH {
                return Err(TOO_DEEP.to_owned());
            }
            let right = self.binary(level + 1, depth)?;
            left = Expression::Call(format!("_{operator}_"), vec![left, right]);
        }
        Ok(left)
    }

    fn primary(&mut self, depth: usize) -> Result<Expression<'t>, String> {
        if depth > MAX_DEPTH {
            return Err(TOO_DEEP.to_owned());
        }
        if self.eat("!") {
            let negated = self.primary(depth + 1)?;
            return Ok(Expression::Call("!_".to_owned(), vec![negated]));
        }
        if self.eat("(") {
            let inner = self.binary(0, depth + 1)?;
            return if self.eat(")") { Ok(inner) } else { Err(self.unexpected()) };
        }
        match self.rest.as_bytes().first() {
            Some(quote @ (b'\'' | b'"')) => self.text(char::from(*quote)),
            Some(b'0'..=b'9') => Ok(self.number()),
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => self.named(depth),
            _ => Err(self.unexpected()),
        }
    }

    fn text(&mut self, quote: char) -> Result<Expression<'t>, String> {
        match self.rest[1..].split_once(quote) {
            Some((text, rest)) if !text.contains(['\\', '\n']) => {
                self.rest = rest;
                Ok(Expression::Text(text))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn number(&mut self) -> Expression<'t> {
        let number = self.take(|it| it.is_ascii_alphanumeric() || it == '.');
        Expression::Literal(match number {
            it if it.contains('.') => "float64",
            it if it.ends_with(['u', 'U']) => "uint64",
            _ => "int64",
        })
    }

    /// Parses a path, a call, or a keyword literal.
    fn named(&mut self, depth: usize) -> Result<Expression<'t>, String> {
        let mut names = vec![self.name()];
        while self.eat(".") {
            self.skip();
            match self.name() {
                "" => return Err(self.unexpected()),
                name => names.push(name),
            }
        }
        if let [function] = names[..]
            && self.eat("(")
        {
            return Ok(Expression::Call(function.to_owned(), self.arguments(depth + 1)?));
        }
        Ok(match names[..] {
            ["true" | "false"] => Expression::Literal("bool"),
            ["null"] => Expression::Literal("structpb.NullValue"),
            _ => Expression::Path(names),
        })
    }

    fn arguments(&mut self, depth: usize) -> Result<Vec<Expression<'t>>, String> {
        let mut arguments = Vec::new();
        if self.eat(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.binary(0, depth)?);
            if self.eat(")") {
                return Ok(arguments);
            }
            if !self.eat(",") {
                return Err(self.unexpected());
            }
        }
    }

    fn name(&mut self) -> &'t str {
        self.take(|it| it.is_ascii_alphanumeric() || it == '_')
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|it| !belongs(it)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// Skips whitespace and consumes a symbol; returns false if it is not next.
    fn eat(&mut self, symbol: &str) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(symbol);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn unexpected(&self) -> String {
        match self.rest.chars().next() {
            Some(odd) => format!("CEL parse error: Syntax error: unexpected {:?}", odd.to_string()),
            None => "CEL parse error: Syntax error: unexpected end".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_nesting_nor_chains_exhaust_the_stack() {
        assert!(Expression::parse(&vec!["f(a)"; 50].join(" || ")).is_ok());
        for text in
            [vec!["a"; 200_000].join("||"), "(".repeat(200_000), "!".repeat(200_000), "f(".repeat(200_000)]
        {
            assert_eq!(Expression::parse(&text).map(|_| ()), Err(TOO_DEEP.to_owned()));
        }
    }
}
