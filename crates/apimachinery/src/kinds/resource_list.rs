//! Quantities by resource name, as in `requests`, `limits` and `hard`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::kinds::json_access::entries;
use crate::kinds::quantity::Quantity;

/// Quantities by resource name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceList(BTreeMap<String, Quantity>);

impl ResourceList {
    /// Reads the quantities in the object at a JSON pointer; values that are not quantities are
    /// left out.
    pub fn at(value: &Value, pointer: &str) -> Self {
        let amounts = entries(value, pointer);
        Self(amounts.filter_map(|(name, it)| Some((name.to_owned(), Quantity::read(it)?))).collect())
    }

    /// Returns the quantity of that name.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// Sets a quantity.
    pub fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Returns the names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Adds other quantities to these.
    pub fn add(&mut self, others: &Self) {
        for (name, amount) in &others.0 {
            self.0.entry(name.clone()).and_modify(|it| *it = it.plus(*amount)).or_insert(*amount);
        }
    }

    /// Takes the larger quantity of each name.
    pub fn raise_to(&mut self, others: &Self) {
        others.iter().for_each(|(name, amount)| self.raise(name, amount));
    }

    /// Takes the larger quantity of one name.
    pub fn raise(&mut self, name: &str, amount: Quantity) {
        match self.0.get_mut(name) {
            Some(it) if amount.exceeds(*it) => *it = amount,
            Some(_) => {}
            None => self.set(name, amount),
        }
    }

    /// Returns these quantities less the others, at least zero each.
    #[must_use]
    pub fn above(&self, others: &Self) -> Self {
        let less = |name: &str, amount: Quantity| others.get(name).map_or(amount, |it| amount.less(it));
        Self(self.iter().map(|(name, amount)| (name.to_owned(), less(name, amount))).collect())
    }

    /// Returns those whose name and quantity pass the filter.
    #[must_use]
    pub fn filter(&self, mut passes: impl FnMut(&str, Quantity) -> bool) -> Self {
        Self(
            self.iter()
                .filter(|(name, it)| passes(name, *it))
                .map(|(name, it)| (name.to_owned(), it))
                .collect(),
        )
    }

    /// Formats the quantities as `name=quantity`, separated by commas.
    pub fn described(&self) -> String {
        let parts = self.iter().map(|(name, amount)| format!("{name}={}", amount.canonical()));
        parts.collect::<Vec<_>>().join(",")
    }

    /// Returns the quantities as a JSON object.
    pub fn to_value(&self) -> Value {
        let amounts = self.iter().map(|(name, amount)| (name.to_owned(), amount.canonical().into()));
        Value::Object(amounts.collect::<Map<_, _>>())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_added_raised_and_subtracted_by_name() {
        let mut some = ResourceList::at(&json!({ "a": { "cpu": "500m", "memory": "1Gi", "x": "no" } }), "/a");
        let others = ResourceList::at(&json!({ "cpu": "700m", "pods": 2 }), "");
        assert_eq!(some.above(&others).described(), "cpu=0,memory=1Gi");
        some.add(&others);
        assert_eq!(some.described(), "cpu=1200m,memory=1Gi,pods=2");
        some.raise_to(&ResourceList::at(&json!({ "cpu": 1, "memory": "2Gi", "new": 1 }), ""));
        assert_eq!(some.to_value(), json!({ "cpu": "1200m", "memory": "2Gi", "new": "1", "pods": "2" }));
        assert_eq!(some.filter(|name, _| name == "pods").names().collect::<Vec<_>>(), ["pods"]);
    }
}
